"""MetaTool (ToolE): requests written for one plugin tool, or for two.

Source: https://github.com/HowieHwong/MetaTool (MIT), arXiv 2310.03128.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, raise_faults, suggest
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.formats.record_files import read_records
from ctxbench.data.importers.published_files import (
    OWNER,
    FileImporter,
    PublishedSource,
    SourceFile,
    SourceText,
    json_entries,
    json_texts,
    text_key,
)

ROWS, PAIRS = "all_clean_data.csv", "multi_tool_query_golden.json"
TOOLS, MERGED = "plugin_des.json", "big_tool_des.json"
SINGLE, MULTI = "metatool-single", "metatool-multi"
COLUMNS = ["Query", "Tool"]

_LABELLING = {
    SINGLE: (
        "Each request was written by a language model from the description of one tool, which is the one that is "
        "required; nobody judged that no other would do. Rows of one text (case and blanks aside) are one query; "
        "where they name several tools, these are alternatives, since each row says that its tool is enough."
    ),
    MULTI: "Both tools are required that the request was written for; nobody judged that no others would do.",
}
_GENERAL = (
    "General tools such as web_requests, search and internetSearch would serve many requests that name another tool: "
    "no selector reaches 1."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetatoolEntry:
    """One request: the tools that its rows name, in order, the line it starts in, and for how many rows it stands."""

    id: str
    text: str
    tools: tuple[str, ...]
    line: int
    rows: int = 1


class MetaTool(FileImporter):
    """`metatool-single` (one tool is enough) and `metatool-multi` (two are needed), over the same 199 tools.

    A tool has no server. Queries are tagged `plugin` or `merged-tool` by what their tools are: single plugins, or
    several folded into one by the authors. Query ids are `s<row>` and `m<index>`, 0-based; merged rows have the id
    and text of their first.
    """

    source = PublishedSource(
        name="metatool",
        repository="HowieHwong/MetaTool",
        commit="35e81bb7576826e980c80fed8f8c0a2b4a1e6fbb",
        date="2024-03-22",
        paper="arXiv 2310.03128",
        licence="MIT",
        files=(
            SourceFile(
                path=ROWS,
                published="dataset/data/all_clean_data.csv",
                size=2_770_203,
                sha256="cf2eb0474396677530931def51012da4e88f9f34f655332f04177b2054101baf",
            ),
            SourceFile(
                path=PAIRS,
                published="dataset/data/multi_tool_query_golden.json",
                size=112_358,
                sha256="ef37d10a8cb5b41435d6ea3ae29819afdb8d6db0852268830e5ee77259507f51",
            ),
            SourceFile(
                path=TOOLS,
                published="dataset/plugin_des.json",
                size=22_484,
                sha256="c446ade5acfb8e16c477124250665021e63b11bf6cb232db04fc9ba6bed0389a",
            ),
            SourceFile(
                path=MERGED,
                published="dataset/big_tool_des.json",
                size=6_799,
                sha256="dcb6b4d2586acaa697d40ac710ceed2c201487b0eb2ea2651f56025bfabc7f5a",
            ),
        ),
    )
    provides: ClassVar[tuple[str, ...]] = (MULTI, SINGLE)

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; about a second."""
        faults: list[Fault] = []
        descriptions = json_texts(self.read(TOOLS), faults, expected="tools and their descriptions")
        merged_tools = json_texts(self.read(MERGED), faults, expected="merged tools and their descriptions")
        single = name == SINGLE
        source = self.read(ROWS if single else PAIRS)
        rows = list(_read_rows(source, faults) if single else _read_pairs(source, faults))
        faults += _unknown_tool_faults(rows, descriptions, source)
        raise_faults(faults, subject="MetaTool")
        entries = _merge_equal_texts(rows) if single else rows
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog(Item(type="tool", name=tool, description=text) for tool, text in descriptions.items()),
            queries=tuple(_query(entry, frozenset(merged_tools)) for entry in entries),
            labels=tuple(label for entry in entries for label in _labels(entry, alternatives=single)),
            about=self.about(
                ROWS if single else PAIRS,
                TOOLS,
                MERGED,
                labelling=_LABELLING[name],
                counts=_counts(rows, entries, n_tools=len(descriptions)),
                remarks=[_GENERAL, *(_frequency_remarks(entries) if single else [])],
            ),
        )


def _read_rows(source: SourceText, faults: list[Fault]) -> Iterator[_MetatoolEntry]:
    """The rows of the CSV; one may go over several lines."""
    n_faults, number = len(faults), -1
    for number, row in enumerate(read_records(source.path, faults)):
        if list(row.data) != COLUMNS:
            what = f"the first line must be {','.join(COLUMNS)}, got {list(row.data)!r:.60}"
            faults.append(Fault(what, source.path, 1))
            return
        text, tool = (row.take(name, str, "", required=True) for name in COLUMNS)
        yield _MetatoolEntry(id=f"s{number}", text=text, tools=(tool,), line=row.line)
    if number < 0 and len(faults) == n_faults:
        what = f"the file is empty; expected {','.join(COLUMNS)} and one request a record"
        faults.append(Fault(what, source.path))


def _read_pairs(source: SourceText, faults: list[Fault]) -> Iterator[_MetatoolEntry]:
    """The requests for two tools."""
    for number, row in enumerate(json_entries(source, faults, expected="objects with query and tool")):
        text = row.take("query", str, "", required=True)
        tools: list[Any] = row.take("tool", list, [], required=True)
        if len(tools) != 2 or not all(isinstance(tool, str) for tool in tools) or tools[0] == tools[1]:
            row.fault(f"field 'tool' must be two different names, got {tools!r:.60}")
            continue
        yield _MetatoolEntry(id=f"m{number}", text=text, tools=tuple(tools), line=row.line)


def _unknown_tool_faults(
    rows: Sequence[_MetatoolEntry], descriptions: Mapping[str, str], source: SourceText
) -> Iterator[Fault]:
    """A fault for each name that no tool has, where it stands first."""
    unknown = ((tool, row.line) for row in rows for tool in row.tools if tool not in descriptions)
    for tool, lines in group_pairs(unknown).items():
        what = f"{len(lines)} queries name tool {tool!r}, which {TOOLS} does not hold{suggest(tool, descriptions)}"
        yield Fault(what, source.path, lines[0])


def _merge_equal_texts(rows: Sequence[_MetatoolEntry]) -> list[_MetatoolEntry]:
    """One entry for the rows of each text, in the place of the first."""
    return [
        _MetatoolEntry(
            id=same[0].id,
            text=same[0].text,
            tools=tuple(dict.fromkeys(tool for entry in same for tool in entry.tools)),
            line=same[0].line,
            rows=len(same),
        )
        for same in group_pairs((text_key(row.text), row) for row in rows).values()
    ]


def _query(entry: _MetatoolEntry, merged_tools: frozenset[str]) -> DatasetQuery:
    kinds = dict.fromkeys("merged-tool" if tool in merged_tools else "plugin" for tool in entry.tools)
    return DatasetQuery(request=Request(id=entry.id, text=entry.text), split=split_of(entry.id), tags=tuple(kinds))


def _labels(entry: _MetatoolEntry, *, alternatives: bool) -> Iterator[Label]:
    group = "rows" if alternatives and len(entry.tools) > 1 else ""
    for tool in entry.tools:
        yield Label(entry.id, ItemKey("tool", None, tool), Grade.REQUIRED, alternatives=group, source=OWNER)


def _counts(rows: Sequence[_MetatoolEntry], entries: Sequence[_MetatoolEntry], *, n_tools: int) -> dict[str, int]:
    """Counts of the source, for the card."""
    required = {tool for entry in entries for tool in entry.tools}
    return {
        "rows": len(rows),
        "rows merged into another": len(rows) - len(entries),
        "texts of several rows": sum(entry.rows > 1 for entry in entries),
        "texts of several rows that name different tools": sum(e.rows > 1 and len(e.tools) > 1 for e in entries),
        "queries that hold the name of their tool": sum(
            any(tool.casefold() in entry.text.casefold() for tool in entry.tools) for entry in entries
        ),
        "queries with an unfilled slot such as [topic]": sum("[" in entry.text for entry in entries),
        "tools that no query requires": n_tools - len(required),
    }


def _frequency_remarks(entries: Sequence[_MetatoolEntry]) -> list[str]:
    counts = Counter(tool for entry in entries for tool in entry.tools).most_common()
    if not counts:
        return []
    (most, high), (least, low) = counts[0], counts[-1]
    text = f"Tools are far from equally frequent: {high} queries require {most}, {low} require {least}; "
    return [text + "a mean over queries is mostly about the frequent ones."]
