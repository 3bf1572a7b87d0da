"""LiveMCPBench: tasks over the tools of 70 MCP servers.

Source: https://github.com/icip-cas/LiveMCPBench (Apache-2.0), arXiv 2508.01780.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, raise_faults
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.published_files import (
    OWNER,
    FileImporter,
    PublishedSource,
    SourceFile,
    json_entries,
)
from ctxbench.io.rows import Row

TOOLS, TASKS = "tools.json", "all_annotations.json"
UNIQUE, ANY_OF, EXPAND = "livemcpbench-unique", "livemcpbench", "livemcpbench-expand"

_LABELLING = {
    UNIQUE: (
        "Required are the tools that an annotator's path through the task names. Names are published without their "
        "server: only tasks all of whose names belong to exactly one tool are labelled, the others are not."
    ),
    ANY_OF: (
        "Required are the tools that an annotator's path through the task names. Names are published without their "
        "server: tools of one name on several servers are alternatives, of which any one is enough. A name that no "
        "tool has is left out."
    ),
    EXPAND: (
        "Required are the tools that an annotator's path through the task names. Names are published without their "
        "server: of a name on several servers every tool is required. A name that no tool has is left out."
    ),
}
_REMARKS = (
    (
        "The labels are one path through the task, not all that lead to its end: another server with the same function "
        "counts as wrong, so precision is a lower bound."
    ),
    "A task with a name that no tool has is tagged `unresolved` and labelled in part, so it is in no figure.",
    "Questions often name an absolute output folder and file, as published.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One task: its id, question and category, and the tool names of its labels, each once."""

    id: str
    text: str
    category: str
    names: tuple[str, ...]


class LiveMCPBench(FileImporter):
    """`livemcpbench` (names are alternatives), `livemcpbench-unique` (clean tasks only) and `livemcpbench-expand`.

    All hold all 95 tasks over the same 527 tools; they differ in which labels they give, and so in how many tasks
    are labelled. Tools have the server key of the source as server.
    """

    source = PublishedSource(
        name="livemcpbench",
        repository="icip-cas/LiveMCPBench",
        commit="a928e57d1ee7a25579b9a7036030faffff72d15b",
        date="2025-08-18",
        paper="arXiv 2508.01780",
        licence="Apache-2.0",
        files=(
            SourceFile(
                path=TOOLS,
                published="tools/LiveMCPTool/tools.json",
                size=1_133_936,
                sha256="93762d39002fe7546d79b4c8f0ff070678f5d218af29f83bfc57cd98ce8a6a59",
            ),
            SourceFile(
                path=TASKS,
                published="annotated_data/all_annotations.json",
                size=82_022,
                sha256="0e8db4c5abf4eb0b666f4cc4c1b1bd5cd6b8741ade7abb0fbc51526ae8b058b8",
            ),
        ),
    )
    revision: ClassVar[int] = 2
    provides: ClassVar[tuple[str, ...]] = (ANY_OF, EXPAND, UNIQUE)

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; well under a second."""
        faults: list[Fault] = []
        items = self._read_items(faults)
        tasks = self._read_tasks(faults)
        raise_faults(faults, subject="LiveMCPBench")
        keys_by_name = group_pairs((item.name, item.key) for item in items)
        queries, labels = [], []
        for task in tasks:
            task_labels = _task_labels(task, keys_by_name, name)
            labels += task_labels
            unresolved = _has_unresolved_name(task, keys_by_name)
            queries.append(
                DatasetQuery(
                    request=Request(id=task.id, text=task.text),
                    split=split_of(task.id),
                    tags=(task.category.lower(), *(("unresolved",) if unresolved else ())),
                    partly_labelled=unresolved and bool(task_labels),
                )
            )
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog(items),
            queries=tuple(queries),
            labels=tuple(labels),
            about=self.about(
                TOOLS,
                TASKS,
                labelling=_LABELLING[name],
                counts=_counts(items, tasks, keys_by_name, labels),
                remarks=_REMARKS,
            ),
        )

    def _read_items(self, faults: list[Fault]) -> list[Item]:
        items: dict[ItemKey, Item] = {}
        for entry in json_entries(self.read(TOOLS), faults, expected="servers with name, category and tools"):
            title = entry.take("name", str, "", required=True)
            metadata = {"server_title": title, "category": entry.take("category", str, "")}
            for server, definition in entry.take("tools", dict, {}, required=True).items():
                for tool in entry.nested(definition).take("tools", list, [], required=True):
                    item = _read_tool(tool, str(server), metadata, entry)
                    if item is not None and items.setdefault(item.key, item) is not item:
                        entry.fault(f"server {server!r} has two tools {item.name!r}; expected different names")
        return list(items.values())

    def _read_tasks(self, faults: list[Fault]) -> list[_Task]:
        tasks = []
        for entry in json_entries(self.read(TASKS), faults, expected="tasks with task_id, Question and labels"):
            metadata = entry.nested(entry.take("Annotator Metadata", dict, {}, required=True))
            names = _listed_names(metadata.take("Tools", str, ""), entry)
            tasks.append(
                _Task(
                    id=entry.take("task_id", str, "", required=True),
                    text=entry.take("Question", str, "", required=True),
                    category=entry.take("category", str, "", required=True),
                    names=tuple(dict.fromkeys(names)),
                )
            )
        return tasks


def _read_tool(tool: Any, server: str, metadata: Mapping[str, str], entry: Row) -> Item | None:
    """One tool of a server's list; None if it has no name, which is a fault."""
    row = entry.nested(tool)
    name = row.data.get("name")
    if not isinstance(name, str) or not name:
        row.fault(f"server {server!r} has a tool without a name: {tool!r:.60}")
        return None
    return Item(
        type="tool",
        server=server,
        name=name,
        description=row.take("description", str, ""),
        schema=row.optional("inputSchema", dict),
        metadata=metadata,
    )


def _listed_names(text: str, entry: Row) -> list[str]:
    """The tool names of a numbered list, `1. name` a line; blank lines are passed over."""
    names = []
    for line in filter(str.strip, text.splitlines()):
        match = re.fullmatch(r"\s*\d+\.\s*(\S.*?)\s*", line)
        if match:
            names.append(match[1])
        else:
            entry.fault(f"field 'Tools' must be a numbered list, such as '1. write_file'; got the line {line!r:.60}")
    return names


def _has_unresolved_name(task: _Task, keys_by_name: Mapping[str, Sequence[ItemKey]]) -> bool:
    return any(name not in keys_by_name for name in task.names)


def _task_labels(task: _Task, keys_by_name: Mapping[str, Sequence[ItemKey]], dataset: str) -> list[Label]:
    """The labels of a task by the dataset's rule; none if that leaves it unlabelled."""
    if dataset == UNIQUE and any(len(keys_by_name.get(name, ())) != 1 for name in task.names):
        return []
    labels = []
    for name in task.names:
        keys = keys_by_name.get(name, ())
        group = name if dataset == ANY_OF and len(keys) > 1 else ""
        labels += [Label(task.id, key, Grade.REQUIRED, alternatives=group, source=OWNER) for key in keys]
    return labels


def _counts(
    items: Sequence[Item],
    tasks: Sequence[_Task],
    keys_by_name: Mapping[str, Sequence[ItemKey]],
    labels: Sequence[Label],
) -> dict[str, int]:
    """Counts of the source, for the card."""
    names = [name for task in tasks for name in task.names]
    n_tools = Counter(min(len(keys_by_name.get(name, ())), 2) for name in names)
    labelled = {label.query for label in labels}
    return {
        "label names": len(names),
        "label names of one tool": n_tools[1],
        "label names of tools on several servers": n_tools[2],
        "label names of no tool": n_tools[0],
        "tasks with a name of no tool": sum(_has_unresolved_name(task, keys_by_name) for task in tasks),
        "tasks of them that have other labels": sum(
            _has_unresolved_name(t, keys_by_name) and t.id in labelled for t in tasks
        ),
        "tasks without a label": sum(task.id not in labelled for task in tasks),
        "tool names on several servers": sum(len(keys) > 1 for keys in keys_by_name.values()),
        "tools without description": sum(not item.description for item in items),
    }
