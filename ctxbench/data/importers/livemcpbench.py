"""LiveMCPBench: tasks over the tools of 70 MCP servers.

Source: https://github.com/icip-cas/LiveMCPBench (Apache-2.0), arXiv 2508.01780.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.items import Item
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.published_files import OWNER, FileImporter

_LISTED_NAME = re.compile(r"^\s*\d+\.\s*(\S.*?)\s*$", re.MULTILINE)  # `1. write_file`


class LiveMCPBench(FileImporter, recipe="livemcpbench"):
    """`livemcpbench` (names are alternatives), `livemcpbench-unique` (clean tasks only) and `livemcpbench-expand`.

    All hold all 95 tasks over the same 527 tools; they differ in which labels they give, and so in how many tasks
    are labelled. Tools have the server key of the source as server.
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
