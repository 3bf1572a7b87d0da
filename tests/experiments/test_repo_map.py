"""What an outside repo map ranks becomes answers of items; aider itself is asked by `make codebase`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import repo_map

from ctxbench.io.errors import StorageError
from ctxbench.model.items import Catalog, Item

OLD, NEW = "@0123456789ab", "@ba9876543210"
ITEMS = [
    Item(type="file", name=f"a.py{OLD}", title="a.py", text="a.py"),
    Item(type="file", name=f"a.py{NEW}", title="a.py", text="a.py\n\n" + "word " * 100),
    Item(type="chunk", name=f"a.py::C.run{NEW}.2", title="a.py", text="a.py\n\ndef run(): ..."),
    Item(type="chunk", name="a.py::other", title="a.py", text="a.py\n\ndef other(): ..."),
    Item(type="file", name="b.md", title="b.md", text="b.md"),
    Item(type="message", name="commit-1", text="b.md"),
]


def dataset(*seen):
    """One measured request that sees some of the items, and one that is not measured."""
    rows = {0: np.isin(np.arange(len(ITEMS)), seen)}
    queries = [SimpleNamespace(id="q", split="test", request=SimpleNamespace(text="run")), SimpleNamespace(split="")]
    return SimpleNamespace(queries=queries, catalog=Catalog(ITEMS), batch=lambda: SimpleNamespace(eligible=Rows(rows)))


class Rows(dict):
    """What `Batch.eligible` is asked for here."""

    row = dict.__getitem__


def maps(tmp_path, answer, code=0):
    """Maps by a program that says what aider would say."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/asked\necho '{answer}'\nexit {code}\n")
    program.chmod(0o755)
    return repo_map.RepoMaps(str(program), tmp_path, tmp_path / "tree")


def offered(found, name):
    return [one["id"] for one in json.loads(found[name].path.read_text())["items"]]


def test_tags_become_files_and_definitions_that_a_request_sees(tmp_path):
    tags = [["a.py", "run"], ["gone.py", "x"], ["a.py", "gone"], ["b.md", ""]]
    answer = {"query": "q", "tags": tags, "named": {"9": ["b.md"], "1000": ["a.py", "b.md"]}}
    found = maps(tmp_path, json.dumps(answer)).answers(dataset(1, 2, 3, 4, 5), tmp_path, (9, 1000))
    assert json.loads((tmp_path / "asked").read_text()) == {"query": "q", "text": "run"}
    a, run, b = (Catalog(ITEMS).ids[place] for place in (1, 2, 4))
    assert offered(found, "aider") == [a, run, b]
    assert offered(found, "aider 9") == [run, b]  # the file is of 100 words, and is passed over
    assert offered(found, "aider names 9") == [b]
    assert offered(found, "aider names 1000") == [a, b]


def test_what_was_asked_is_not_asked_again(tmp_path):
    made = maps(tmp_path, json.dumps({"query": "q", "tags": [["b.md", ""]], "named": {}}))
    made.answers(dataset(4), tmp_path, ())
    (tmp_path / "python").unlink()
    assert offered(made.answers(dataset(), tmp_path, ()), "aider") == []


@pytest.mark.parametrize("code", [1, 127])
def test_without_aider_it_is_said_what_to_do(tmp_path, code):
    with pytest.raises(StorageError, match="name a Python that has aider-chat installed"):
        maps(tmp_path, "", code).answers(dataset(), tmp_path, ())
