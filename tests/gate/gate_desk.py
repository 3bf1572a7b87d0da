"""A gate over a small dataset of its own, made once and copied, whose files tests then change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from ctxbench.gate.gate import accept, check_gate
from ctxbench.io.errors import UserError

WORDS = [f"{first}{second}rin" for first in "bdfgk" for second in "aeio"]  # no word of another tool
GATE = {
    "name": "g",
    "datasets": ["data"],
    "selectors": [{"selector": "bm25", "name": "ours", "set": {"n": 6}}],
    "embedder": "hashing",
    "tokens": "chars/4",
    "gate": {
        "metrics": ["completeness", "recall", "precision"],
        "tolerance": {"completeness": 0.01, "recall": 0.01, "tokens": "5%"},
        "max_lost_required": 2,
        "pins": [
            {"query": "q05", "must_include": ["tool:desk:t05"], "must_not_include": ["tool:desk:t15"]},
            {"tag": "even", "at_most_items": 6, "at_most_tokens": 400},
        ],
    },
}


def words_of(n):
    """The description of a tool."""
    return f"{WORDS[n].title()} {WORDS[n]} office desk."


class Desk:
    """A gate over a small dataset, whose files are then changed.

    Twenty tools, and forty queries that each require two of them: tool `i` and tool `i + 7`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.gate = folder, folder / "data", folder / "gate.yaml"
        self.baseline = folder / "gate.baseline"

    @classmethod
    def make(cls, folder: Path) -> Desk:
        desk = cls(folder)
        (desk.data / "qrels").mkdir(parents=True)
        tools = [{"_id": f"tool:desk:t{n:02}", "type": "tool", "description": words_of(n)} for n in range(20)]
        card = {"format": 1, "name": "data", "version": "1", "licence": "Apache-2.0", "source": "x", "labelling": "x"}
        (desk.data / "dataset.yaml").write_text(yaml.safe_dump(card), "utf-8")
        queries = [
            {
                "_id": f"q{n:02}",
                "text": f"{WORDS[n % 20]} and {WORDS[(n + 7) % 20]} at the office{n}",
                "split": "test",
                "tags": ["odd" if n % 2 else "even"],
            }
            for n in range(40)
        ]
        labels = [(f"q{n:02}", f"tool:desk:t{item % 20:02}", "2") for n in range(40) for item in (n, n + 7)]
        desk.write("corpus.jsonl", tools)
        desk.write("queries.jsonl", queries)
        desk.write_labels(labels)
        desk.gate.write_text(yaml.safe_dump(GATE), "utf-8")
        accept(desk.gate)
        return desk

    def copy(self, folder: Path) -> Desk:
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Desk(folder)

    def write(self, name, rows):
        (self.data / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")

    def write_labels(self, labels):
        lines = ["query-id\tcorpus-id\tscore\tvia\talternatives\tsource\n"]
        for query, item, grade, *group in labels:
            lines.append(f"{query}\t{item}\t{grade}\tdirect\t{''.join(group)}\twriter\n")
        (self.data / "qrels" / "test.tsv").write_text("".join(lines), "utf-8")

    def rows(self, name, change):
        """Give a file of the dataset other rows."""
        rows = [json.loads(line) for line in (self.data / name).read_text("utf-8").splitlines()]
        self.write(name, [new for row in rows for new in change(row)])

    def labels(self, change):
        """Give the dataset other labels."""
        lines = (self.data / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]
        self.write_labels([new for line in lines for new in change(*line.split("\t")[:3])])

    def items(self, ids, **fields):
        """Give items other fields."""
        self.rows("corpus.jsonl", lambda row: [row | fields if row["_id"] in ids else row])

    def queries(self, ids, **fields):
        """Give queries other fields; all of them for None."""
        self.rows("queries.jsonl", lambda row: [row | fields if ids is None or row["_id"] in ids else row])

    def card(self, **fields):
        """Give the card of the dataset other fields."""
        path = self.data / "dataset.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text("utf-8")) | fields), "utf-8")

    def set(self, **settings):
        """Change what is under `gate` in the gate file; None takes a setting out."""
        self.file(lambda file: file["gate"].update(settings))

    def file(self, change):
        """Change the gate file."""
        file = yaml.safe_load(self.gate.read_text("utf-8"))
        change(file)
        file["gate"] = {name: value for name, value in file["gate"].items() if value is not None}
        self.gate.write_text(yaml.safe_dump(file), "utf-8")

    def code(self) -> int:
        """The exit code of the check."""
        try:
            return check_gate(self.gate).check.exit_code()
        except UserError:
            return 2
