"""MetaTool (ToolE): requests written for one plugin tool, or for two.

Source: https://github.com/HowieHwong/MetaTool (MIT), arXiv 2310.03128.
"""

from __future__ import annotations

import csv
import io
import json

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.items import Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.published_files import OWNER, FileImporter, text_key

SINGLE = "metatool-single"


class MetaTool(FileImporter, recipe="metatool"):
    """`metatool-single` (one tool is enough) and `metatool-multi` (two are needed), over the same 199 tools.

    A tool has no server. Queries are tagged `plugin` or `merged-tool` by what their tools are: single plugins, or
    several folded into one by the authors. Query ids are `s<row>` and `m<index>`, 0-based; merged rows have the id
    and text of their first.
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
            request = Request(id=query_id, text=text)
            queries.append(DatasetQuery(request=request, split=split_of(query_id), tags=tuple(kinds)))
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
