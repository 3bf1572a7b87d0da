"""Importers of LiveMCPBench, MetaTool and ToolLens.

LiveMCPBench: tasks over the tools of 70 MCP servers. https://github.com/icip-cas/LiveMCPBench (Apache-2.0), arXiv
2508.01780.

MetaTool (ToolE): requests written for one plugin tool, or for two. https://github.com/HowieHwong/MetaTool (MIT), arXiv
2310.03128.

ToolLens: short requests for several of 464 web APIs. https://github.com/quchangle1/COLT (no licence stated), arXiv
2405.16089.
"""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any, ClassVar

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.lookup import OWNER, FileImporter, text_key
from ctxbench.datasets.queries import DatasetQuery, Label, group_pairs
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.labels import Grade
from ctxbench.model.requests import Request

_LISTED_NAME = re.compile(r"^\s*\d+\.\s*(\S.*?)\s*$", re.MULTILINE)  # `1. write_file`


class LiveMCPBench(FileImporter, recipe="livemcpbench"):
    """`livemcpbench` (names are alternatives), `livemcpbench-unique` (clean tasks only) and `livemcpbench-expand`.

    All have 95 tasks over the same 527 tools; they differ in their labels. Tools have the server key of the source as
    server.
    """

    revision: ClassVar[int] = 2

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; well under a second."""
        items = [
            Item(
                type="tool",
                server=server,
                name=tool["name"],
                description=tool.get("description") or "",
                schema=tool.get("inputSchema"),
                metadata={"server_title": entry["name"], "category": entry["category"]},
            )
            for entry in json.loads(self.read("tools.json").text)
            for server, definition in entry["tools"].items()
            for tool in definition["tools"]
        ]
        keys_by_name = group_pairs((item.name, item.key) for item in items)
        queries, labels = [], []
        for task in json.loads(self.read("all_annotations.json").text):
            names = dict.fromkeys(_LISTED_NAME.findall(task["Annotator Metadata"]["Tools"]))
            keys = {tool: keys_by_name.get(tool, []) for tool in names}
            is_unresolved = not all(keys.values())
            if name == "livemcpbench-unique" and any(len(same_name) != 1 for same_name in keys.values()):
                keys = {}
            for tool, same_name in keys.items():
                group = tool if name == "livemcpbench" and len(same_name) > 1 else ""
                labels += [
                    Label(task["task_id"], key, Grade.REQUIRED, alternatives=group, source=OWNER) for key in same_name
                ]
            queries.append(
                DatasetQuery(
                    request=Request(id=task["task_id"], text=task["Question"]),
                    split=split_of(task["task_id"]),
                    tags=(task["category"].lower(), *(["unresolved"] if is_unresolved else [])),
                    partly_labelled=is_unresolved and any(keys.values()),
                )
            )
        return self.dataset(name, items, queries, labels)


SINGLE = "metatool-single"


class MetaTool(FileImporter, recipe="metatool"):
    """`metatool-single` (one tool is enough) and `metatool-multi` (two are needed), over the same 199 tools.

    Tools have no server. Queries are tagged `plugin` or `merged-tool` by their tools: single plugins, or several merged
    by the authors. Query ids are `s<row>` and `m<index>`, 0-based; merged rows have the id and text of their first.
    """

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; about a second."""
        items = [
            Item(type="tool", name=tool, description=text)
            for tool, text in json.loads(self.read("plugin_des.json").text).items()
        ]
        merged_tools = json.loads(self.read("big_tool_des.json").text)
        queries, labels = [], []
        for query_id, text, tools in self._single() if name == SINGLE else self._multi():
            kinds = dict.fromkeys("merged-tool" if tool in merged_tools else "plugin" for tool in tools)
            queries.append(
                DatasetQuery(request=Request(id=query_id, text=text), split=split_of(query_id), tags=tuple(kinds))
            )
            group = "rows" if name == SINGLE and len(tools) > 1 else ""
            labels += [
                Label(query_id, ItemKey("tool", None, tool), Grade.REQUIRED, alternatives=group, source=OWNER)
                for tool in tools
            ]
        return self.dataset(name, items, queries, labels)

    def _multi(self) -> list[tuple[str, str, list[str]]]:
        """The id, text and tools of each request for two tools."""
        pairs = json.loads(self.read("multi_tool_query_golden.json").text)
        return [(f"m{index}", pair["query"], pair["tool"]) for index, pair in enumerate(pairs)]

    def _single(self) -> list[tuple[str, str, list[str]]]:
        """The id, text and tools of each request for one tool; rows with the same text (see `text_key`) are one."""
        rows = csv.DictReader(io.StringIO(self.read("all_clean_data.csv").text, newline=""))
        groups = group_pairs((text_key(row["Query"]), (index, row)) for index, row in enumerate(rows))
        return [
            (f"s{group[0][0]}", group[0][1]["Query"], list(dict.fromkeys(row["Tool"] for _, row in group)))
            for group in groups.values()
        ]


QRELS = {"tuning": "qrels/train.tsv", "test": "qrels/test.tsv"}

_API = re.compile(
    r"category_name:(?P<category>.*?), tool_name:(?P<tool>.*?), api_name:(?P<api>.*?), "
    r"api_description:(?P<description>.*?), required_params: (?P<parameters>.*)",
    re.DOTALL,
)
_TYPES = {"STRING": "string", "NUMBER": "number", "BOOLEAN": "boolean", "OBJECT": "object", "ARRAY": "array"}


class ToolLens(FileImporter, recipe="toollens"):
    """`toollens`: items are APIs, tools named `<tool_name> <api_name>` without a server.

    Ids of queries are published ones; published ids of items are in their metadata.
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
    """An API from its flat text with parameters as JSON."""
    fields = next(_API.finditer(entry["text"]))
    decoder = json.JSONDecoder()
    required, end = decoder.raw_decode(fields["parameters"])
    optional, _ = decoder.raw_decode(fields["parameters"][end:].partition("optional_params: ")[2])
    properties = {
        parameter["name"]: {
            "type": _TYPES.get(parameter["type"].upper(), "string"),  # also dates and choices
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
