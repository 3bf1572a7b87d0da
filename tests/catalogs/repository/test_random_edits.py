"""A tree that was edited many times, with what was computed on the way, is the same as one that is read anew."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise

import pytest

from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.search import code_facts
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from tests.checkout import Checkout

WORDS = ["mail", "area", "count", "send", "read", "write", "token", "cache", "path", "user"]


def random_text(draw):
    """A module of some functions and a class, or plain text."""
    parts = [f"import {draw.choice(WORDS)}\n"]
    for word in draw.sample(WORDS, 3):
        lines = "".join(f"    {draw.choice(WORDS)} = {draw.randrange(9)}\n" for _ in range(draw.randint(1, 4)))
        parts.append(f"def {word}():\n{lines}")
    return "\n\n".join([*parts, f"class {draw.choice(WORDS).title()}:\n    def run(self):\n        pass\n"])


def edit(root, draw, texts):
    """Change a random file: edit a line, add, delete, rename, or give one an older text of its own back."""
    files = sorted(path for path in root.rglob("*.*") if ".git" not in path.parts)
    free = root / draw.choice(("", "lib", "tests")) / f"{draw.choice(WORDS)}.{draw.choice(('py', 'py', 'md'))}"
    free.parent.mkdir(exist_ok=True)
    kind = draw.random()
    if len(files) < 4 or (kind < 0.2 and not free.exists()):
        free.write_text(random_text(draw))
    elif kind < 0.3:
        draw.choice(files).unlink()
    elif kind < 0.45 and not free.exists():
        draw.choice(files).rename(free)
    elif kind < 0.55 and texts:
        path, text = draw.choice(texts)
        path.write_text(text)
    else:
        path = draw.choice(files)
        texts.append((path, path.read_text()))
        lines = path.read_text().split("\n")
        at = draw.randrange(len(lines))
        lines[at : at + draw.randint(0, 2)] = [f"    {draw.choice(WORDS)} = {draw.randrange(99)}"] * draw.randint(0, 2)
        path.write_text("\n".join(lines))


def fresh():
    return local_resources(open_embedder("hashing"), open_counter("chars/4"))


def ten(catalog, resources):
    """What the selector offers first."""
    found = definition("codebase")
    requests = [Request(id=word, text=f"fix how to {word} the {other}") for word, other in pairwise(WORDS)]
    table = found.pipeline(found.values(None, {})).run(Batch.of(catalog, requests), resources).candidates
    names = [(catalog[item].id, chosen) for item, chosen in zip(table.item.tolist(), table.chosen, strict=True)]
    return [[name for name, chosen in names[start:end] if chosen] for start, end in pairwise(table.start.tolist())]


@pytest.mark.parametrize("view", ["files", "definitions"])
def test_after_200_random_edits_a_tree_is_as_if_it_was_read_for_the_first_time(tmp_path, monkeypatch, view):
    draw, texts, warm = random.Random(38), [], fresh()
    checkout = Checkout(tmp_path / "repo")
    for number in range(1, 201):
        edit(checkout.root, draw, texts)
        if number % 5 == 0:
            checkout.commit(f"Let {draw.choice(WORDS)} {draw.choice(WORDS)}", day=1 + number // 10)
        if number % 20 == 3:
            ten(open_catalog(f"{checkout.root}:{view}"), warm)
    for _ in range(2):  # some edits that are not committed
        edit(checkout.root, draw, texts)
    known = open_catalog(f"{checkout.root}:{view}")
    offered = ten(known, warm)
    checkout.run("clone", "--quiet", "--no-local", str(checkout.root), str(tmp_path / "clone"))
    for path in (tmp_path / "clone").iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(checkout.root, tmp_path / "clone", ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)
    for n, root in enumerate((checkout.root, tmp_path / "clone")):
        monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / f"cache-{n}"))
        monkeypatch.setattr(code_facts, "_in_memory", {})
        anew = open_catalog(f"{root}:{view}")
        assert anew.hash == known.hash
        assert ten(anew, fresh()) == offered
    assert all(offered)
    linked = {link.item.type for item in known for link in item.links}
    assert linked == ({"file", "chunk"} if view == "definitions" else {"file"})
