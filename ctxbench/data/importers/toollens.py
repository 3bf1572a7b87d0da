"""ToolLens: short requests for several of 464 web APIs.

Source: https://github.com/quchangle1/COLT (no licence stated), arXiv 2405.16089.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.items import Item
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.importers.published_files import OWNER, FileImporter

QRELS = {"tuning": "qrels/train.tsv", "test": "qrels/test.tsv"}

_API = re.compile(
    r"category_name:(?P<category>.*?), tool_name:(?P<tool>.*?), api_name:(?P<api>.*?), "
    r"api_description:(?P<description>.*?), required_params: (?P<parameters>.*)",
    re.DOTALL,
)
_TYPES = {"STRING": "string", "NUMBER": "number", "BOOLEAN": "boolean", "OBJECT": "object", "ARRAY": "array"}


class ToolLens(FileImporter, recipe="toollens"):
    """`toollens`: an item is an API, a tool without a server named `<tool_name> <api_name>`.

    Ids of queries are the publisher's; those of items are in their metadata.
    """

    def make(self, name: str) -> Dataset:
        """Make the dataset; about two seconds."""
        items = {entry["_id"]: _read_item(entry) for entry in self._rows("corpus.jsonl")}
        splits: dict[str, str] = {}
        labels = []
        for split, path in QRELS.items():
            for line in dict.fromkeys(self.read(path).text.splitlines()[1:]):  # some rows are repeated
                query, item, _ = line.split("\t")
                splits[query] = split
                labels.append(Label(query, items[item].key, Grade.REQUIRED, source=OWNER))
        queries = [
            DatasetQuery(
                request=Request(id=row["_id"], text=row["text"]), split=splits.get(row["_id"]) or split_of(row["_id"])
            )
            for row in self._rows("queries.jsonl")
        ]
        return self.dataset(name, items.values(), queries, labels)

    def _rows(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(path).text.strip().split("\n")]


def _read_item(entry: dict[str, Any]) -> Item:
    """An API from its flat text, which holds the parameters as JSON."""
    fields = next(_API.finditer(entry["text"]))
    decoder = json.JSONDecoder()
    required, end = decoder.raw_decode(fields["parameters"])
    optional, _ = decoder.raw_decode(fields["parameters"][end:].partition("optional_params: ")[2])
    properties = {
        parameter["name"]: {
            "type": _TYPES.get(parameter["type"].upper(), "string"),  # dates and choices are sent as texts, too
            "description": parameter["description"],
        }
        for parameter in [*required, *optional]
    }
    return Item(
        type="tool",
        name=f"{fields['tool']} {fields['api']}",
        description=fields["description"],
        schema={
            "type": "object",
            "properties": properties,
            "required": [parameter["name"] for parameter in required],
        },
        metadata={"id": entry["_id"], "category": fields["category"], "tool": fields["tool"], "api": fields["api"]},
    )
