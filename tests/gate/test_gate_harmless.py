"""What should alarm nobody: changes to files, bookkeeping, names, words, code and settings, none of them worse."""

from __future__ import annotations

import json
import random
import shutil
import unicodedata
from pathlib import Path

import pytest
import yaml

from ctxbench.gate import snapshot_sources
from ctxbench.gate.gate import accept, check_gate
from ctxbench.gate.results import Verdict
from ctxbench.search.embedders import HashingEmbedder

SMOKE = Path(__file__).parents[2] / "datasets" / "smoke"
SELECTORS = [{"selector": "bm25", "set": {"n": 4}}, {"selector": "semantic", "preset": "spec"}]
LOAN, RESERVE = "reference:Loan%20periods", "tool:catalogue:reserve"
GATE = {
    "name": "g",
    "datasets": ["data"],
    "selectors": SELECTORS,
    "embedder": "hashing",
    "tokens": "chars/4",
    "gate": {
        "tolerance": {"recall": 0.02, "tokens": "5%"},
        "max_lost_required": 2,
        "pins": [
            {"query": "s001", "selector": "bm25", "must_not_include": ["tool:members:find"], "at_most_items": 9},
            {"tag": "short", "at_most_tokens": 5000},
        ],
    },
}
IDLE = {"_id": "tool:archive:bind", "type": "tool", "description": "Gneiss feldspar."}  # that no request finds or needs


class Desk:
    """A gate over a copy of a dataset, whose files are then changed."""

    def __init__(self, folder):
        self.folder, self.data, self.gate = folder, folder / "data", folder / "gate.yaml"

    def make(self):
        """Copy the dataset and accept the baseline."""
        shutil.copytree(SMOKE, self.data)
        self.gate.write_text(yaml.safe_dump(GATE), "utf-8")
        self.rows("queries.jsonl", lambda rows: [row | {"text": f"{row['text']} Café Muñoz"} for row in rows])
        self.rows("corpus.jsonl", lambda rows: [*(row | {"text": f"{row['text']} déjà vu"} for row in rows), IDLE])
        self.card(lambda card: {name: value for name, value in card.items() if name != "frozen"})
        accept(self.gate)
        return self

    def files(self, change):
        """Give every file other bytes."""
        for path in [*self.data.glob("*.*"), *self.data.glob("qrels/*")]:
            path.write_bytes(change(path.read_bytes()))

    def lines(self, name, change):
        """Give files other lines, each with its line end."""
        for path in self.data.glob(name):
            path.write_text("".join(change(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")

    def rows(self, name, change, **form):
        """Give a file other rows."""
        path = self.data / name
        rows = change([json.loads(line) for line in path.read_text("utf-8").splitlines()])
        form = {"ensure_ascii": False, **form}
        path.write_text("".join(json.dumps(row, **form) + "\n" for row in rows), "utf-8")

    def card(self, change):
        path = self.data / "dataset.yaml"
        card = change(yaml.safe_load(path.read_text("utf-8")))
        path.write_text(yaml.safe_dump(card, sort_keys=False, allow_unicode=True), "utf-8")

    def edit(self, item, **fields):
        """Give an item other fields."""
        self.rows("corpus.jsonl", lambda rows: [row | fields if row["_id"] == item else row for row in rows])

    def rename(self, old, new):
        """Give an item another name, wherever it stands."""
        self.rows("corpus.jsonl", lambda rows: [without_names(row, new) if row["_id"] == old else row for row in rows])
        for name in ("dataset.yaml", "queries.jsonl", "qrels/test.tsv", "qrels/tuning.tsv"):
            path = self.data / name
            path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")

    def file(self, change):
        """Change the gate file."""
        file = yaml.safe_load(self.gate.read_text("utf-8"))
        self.gate.write_text(yaml.safe_dump(change(file), sort_keys=False), "utf-8")

    def set(self, **settings):
        """Change what is under `gate` in the gate file; None takes a setting out."""
        self.file(
            lambda file: (
                file | {"gate": {name: value for name, value in (file["gate"] | settings).items() if value is not None}}
            )
        )


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        plain = HashingEmbedder._embed  # a model's tokenizer makes one of both forms of é; this embedder has none
        patch.setattr(HashingEmbedder, "_embed", lambda self, text: plain(self, unicodedata.normalize("NFC", text)))
        yield Desk(tmp_path_factory.mktemp("harmless")).make()


@pytest.fixture
def desk(accepted, tmp_path):
    shutil.copytree(accepted.folder, tmp_path, dirs_exist_ok=True)
    return Desk(tmp_path)


def without_names(row, new):
    return {**{name: value for name, value in row.items() if name not in ("name", "title", "server")}, "_id": new}


def shuffled(several):
    return random.Random(1).sample(several, len(several))


def turned(row):
    """A row with its keys the other way round, those of what it holds, too."""
    if isinstance(row, dict):
        return {name: turned(row[name]) for name in reversed(row)}
    return [turned(one) for one in row] if isinstance(row, list) else row


def decomposed(data):
    return unicodedata.normalize("NFD", data.decode()).encode()


def with_a_query(desk):
    new = {"_id": "n1", "text": "May I bring my dog?", "split": "test", "needs": "nothing"}
    desk.rows("queries.jsonl", lambda rows: [new, *rows])


def with_an_item(desk):
    new = {"_id": "tool:printer:refill", "type": "tool", "description": "Zinc quartz basalt."}
    desk.rows("corpus.jsonl", lambda rows: [new, *rows])


def other_versions(desk, monkeypatch):
    monkeypatch.setattr(
        snapshot_sources, "versions", lambda: {"python": "9.9", "ctxbench": "9.9", "code": "other", "numpy": "9"}
    )


KINDS = {
    # files
    "line ends": lambda desk, _: desk.files(lambda data: data.replace(b"\n", b"\r\n")),
    "byte order marks": lambda desk, _: desk.files(lambda data: b"\xef\xbb\xbf" + data),
    "no line end at the end": lambda desk, _: desk.files(bytes.rstrip),
    "blank lines": lambda desk, _: desk.lines(
        "*.jsonl", lambda lines: [text for line in lines for text in (line, "\n")]
    ),
    "escaped letters": lambda desk, _: [
        desk.rows(name, list, ensure_ascii=True) for name in ("corpus.jsonl", "queries.jsonl")
    ],
    "blanks in rows": lambda desk, _: [
        desk.rows(name, list, separators=(" ,  ", " :  ")) for name in ("corpus.jsonl", "queries.jsonl")
    ],
    "order of keys": lambda desk, _: [
        desk.rows(name, lambda rows: list(map(turned, rows))) for name in ("corpus.jsonl", "queries.jsonl")
    ],
    # order
    "order of items": lambda desk, _: desk.rows("corpus.jsonl", shuffled),
    "order of queries": lambda desk, _: desk.rows("queries.jsonl", shuffled),
    "order of labels": lambda desk, _: desk.lines("qrels/*.tsv", lambda lines: [lines[0], *shuffled(lines[1:])]),
    "order of scopes": lambda desk, _: desk.card(
        lambda card: card | {"scopes": {name: shuffled(card["scopes"][name]) for name in reversed(card["scopes"])}}
    ),
    # bookkeeping
    "counts and hash of the card": lambda desk, _: desk.card(
        lambda card: card | {"frozen": "0" * 64, "counts": card["counts"] | {"items": 99}}
    ),
    "notes of the card": lambda desk, _: desk.card(lambda card: card | {"version": "2", "notes": ["Another note."]}),
    "metadata of items": lambda desk, _: desk.rows(
        "corpus.jsonl", lambda rows: [row | {"metadata": {"owner": "desk"}} for row in rows]
    ),
    "tags of queries": lambda desk, _: desk.rows(
        "queries.jsonl", lambda rows: [row | {"tags": [*row.get("tags", ()), "other"]} for row in rows]
    ),
    "what is said by default": lambda desk, _: desk.rows(
        "corpus.jsonl", lambda rows: [{"enabled": True, "include": "agent", "title": "", **row} for row in rows]
    ),
    # names
    "a scope is renamed": lambda desk, _: [
        desk.lines(name, lambda lines: [line.replace("frontdesk", "counter") for line in lines])
        for name in ("dataset.yaml", "queries.jsonl")
    ],
    "an item is renamed": lambda desk, _: desk.rename(LOAN, "reference:Periods%20of%20loans"),
    "a server is renamed": lambda desk, _: desk.rename(RESERVE, "tool:inventory:reserve"),
    # words
    "Unicode forms of texts": lambda desk, _: desk.files(decomposed),
    "blanks at the ends of texts": lambda desk, _: desk.rows(
        "corpus.jsonl", lambda rows: [row | {"text": f"{row.get('text', '')} \n"} for row in rows]
    ),
    "a rewording": lambda desk, _: desk.edit(
        "tool:members:waive_fee", description="Cancel a fee on a card. This asks for a waiver code."
    ),
    # code
    "refactored code": other_versions,
    # the gate file
    "order and comments of the gate file": lambda desk, _: [
        desk.file(lambda file: {name: file[name] for name in reversed(file)}),
        desk.gate.write_text(f"# A comment.\n{desk.gate.read_text('utf-8')}\n", "utf-8"),
    ],
    "stricter settings": lambda desk, _: desk.set(
        tolerance={"recall": 0.01, "tokens": "4%"}, max_lost_required=1, confidence=0.9
    ),
    "a default is said": lambda desk, _: desk.set(
        confidence=0.95, tolerance={"completeness": 0.01, "recall": 0.02, "tokens": "5%", "total_tokens": "5%"}
    ),
    "a stricter pin, one for all selectors, and a new one": lambda desk, _: desk.set(
        pins=[
            {"tag": "short", "at_most_tokens": 4000, "at_most_items": 90},
            {"query": "s002", "at_most_items": 90},
            {"query": "s001", "must_not_include": ["tool:members:find"]},
            {"query": "s001", "at_most_items": 8},
        ]
    ),
    # what is new
    "a new query": lambda desk, _: with_a_query(desk),
    "a new item that nobody asks for": lambda desk, _: with_an_item(desk),
    "an item goes that nobody needs": lambda desk, _: desk.rows("corpus.jsonl", lambda rows: rows[:-1]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_alarmed(desk, monkeypatch, kind):
    before = {path: path.read_bytes() for path in [*desk.data.rglob("*.*"), desk.gate]}
    KINDS[kind](desk, monkeypatch)
    if kind == "refactored code":
        monkeypatch.setattr("ctxbench.gate.gate.reuse_answers", lambda _file, _bases: None)
    else:
        assert before != {path: path.read_bytes() for path in before}
    found = check_gate(desk.gate).check
    assert (found.verdict, found.exit_code(strict=True)) == (Verdict.SAME, 0), [one.reasons for one in found.selectors]
    assert (found.loosened, found.replacement) == ((), None)
    for one in found.selectors:
        assert (one.compared, one.lost, one.unmet) == (30, 0, ())
        assert set(one.left_out) <= {"new"}


def test_they_are_at_least_26():
    assert len(KINDS) >= 26
