"""BFCL, the Berkeley Function Calling Leaderboard, from the data in its wheel `bfcl-eval`.

Source: https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard (Apache-2.0).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import StorageError, UnknownNameError
from ctxbench.core.items import Catalog, Item
from ctxbench.core.requests import Message, Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import connected_rows
from ctxbench.data.importers.published_files import recipes, sha256_of, text_key
from ctxbench.io.files import read_text

RELEASE: str = recipes()["bfcl"]["release"]
SHA256: Mapping[str, str] = recipes()["bfcl"]["files"]
SIMPLE, MULTIPLE, IRRELEVANCE = "simple_python", "live_multiple", "live_irrelevance"


class _BfclEntry(NamedTuple):
    """A question, the functions listed with it, and the names that its answer calls."""

    id: str
    part: str
    messages: tuple[Message, ...]
    functions: Sequence[Mapping[str, Any]]
    answer_names: tuple[str, ...]


class BFCL:
    """`bfcl-simple`, `bfcl-live` and `bfcl-live-listed`; each query's required tools are those its answer calls.

    A function is a tool without a server. Many names are defined several times. In the first two datasets the
    first definition in file order stands for all (this is how they are measured elsewhere); in `bfcl-live-listed`
    each query gets the very definitions listed with it, so each definition is a tool of its own. Schemas are as
    published, in BFCL's dialect (`dict`, `float`, `tuple` for types).
    """

    provides: ClassVar[tuple[str, ...]] = tuple(recipes()["bfcl"]["datasets"])
    version: ClassVar[str] = f"{RELEASE}-1"
    install: ClassVar[str] = f"pip install --no-deps bfcl-eval=={RELEASE}"

    def __init__(self, folder: Path | None = None, *, sha256: Mapping[str, str] = SHA256) -> None:
        """Read from the installed wheel, or from a copy of its `data` folder.

        Args:
            folder: the copy; None = the wheel.
            sha256: the digest expected of each file.
        """
        self._folder = folder
        self._sha256 = sha256

    def available(self) -> bool:
        """Whether the wheel is installed (its package is looked for, not imported), or the folder is there."""
        folder = self._folder or _wheel_data()
        return folder is not None and folder.is_dir()

    def load(self, name: str) -> Dataset:
        """Make one of the datasets; about a second.

        Raises:
            UnknownNameError: `name` is none of `provides`.
            StorageError: the wheel is missing or of another version, or a file is not the one expected.
        """
        if name not in self.provides:
            raise UnknownNameError("dataset of BFCL", name, self.provides)
        if name == "bfcl-simple":
            entries = self._entries(SIMPLE)
            return self._dataset(name, entries, groups=[entry.answer_names[0] for entry in entries])
        multiple, irrelevance = self._entries(MULTIPLE), self._entries(IRRELEVANCE)
        groups = _groups([*multiple, *irrelevance])
        if name == "bfcl-live":
            return self._dataset(name, multiple, groups=groups[: len(multiple)])
        return self._dataset(name, [*multiple, *irrelevance], groups=groups)

    def _entries(self, part: str) -> list[_BfclEntry]:
        answers = self._rows(f"possible_answer/BFCL_v4_{part}.json") if part != IRRELEVANCE else []
        calls = {row["id"]: row["ground_truth"] for row in answers}
        return [
            _BfclEntry(
                id=row["id"],
                part=part,
                messages=tuple(Message(m["role"], m["content"]) for turn in row["question"] for m in turn),
                functions=row["function"],
                answer_names=tuple(dict.fromkeys(name for call in calls.get(row["id"], ()) for name in call)),
            )
            for row in self._rows(f"BFCL_v4_{part}.json")
        ]

    def _rows(self, file: str) -> list[dict[str, Any]]:
        path = self._data_folder() / file
        digest = sha256_of(path, remedy=f"expected {self.install}")
        if digest != self._sha256[file]:
            raise StorageError(
                f"{path} is not the file of bfcl-eval {RELEASE}: its SHA-256 is {digest}, expected "
                f"{self._sha256[file]}; reinstall it: {self.install} --force-reinstall"
            )
        return [json.loads(line) for line in read_text(path).strip().split("\n")]

    def _data_folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        folder = _wheel_data()
        if folder is None:
            raise StorageError(f"the BFCL datasets are in the wheel bfcl-eval, which is not installed: {self.install}")
        release = importlib.metadata.version("bfcl-eval")
        if release != RELEASE:
            raise StorageError(f"bfcl-eval {release} is installed, expected {RELEASE}: {self.install}")
        return folder

    def _dataset(self, name: str, entries: Sequence[_BfclEntry], *, groups: Sequence[str]) -> Dataset:
        every_definition = name == "bfcl-live-listed"
        tools = _tools(entries, every_definition=every_definition)
        card = recipes()["bfcl"]["datasets"][name]
        queries, labels = [], []
        for entry, group in zip(entries, groups, strict=True):
            keys = {function["name"]: tools[_definition_text(function)].key for function in entry.functions}
            request = Request(
                id=entry.id,
                text=entry.messages[-1].content,  # the user's in every entry
                history=entry.messages[:-1],
                available=tuple(keys.values()) if every_definition else None,
            )
            query = DatasetQuery(
                request=request,
                split=split_of(group),
                group=group,
                tags=(entry.part,),
                needs_nothing=entry.part == IRRELEVANCE,
            )
            queries.append(query)
            labels += [Label(entry.id, keys[name], Grade.REQUIRED) for name in entry.answer_names]
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog({tool.key: tool for tool in tools.values()}.values()),
            queries=tuple(queries),
            labels=tuple(labels),
            about={
                "licence": "Apache-2.0",
                "source": {
                    "package": f"bfcl-eval=={RELEASE}",
                    "url": "https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard",
                    "sha256": {file: self._sha256[file] for file in card["files"]},
                },
                "labelling": card["labelling"],
                "notes": card["notes"],
            },
        )


def _wheel_data() -> Path | None:
    """The data folder of the installed package; the package is not imported."""
    spec = importlib.util.find_spec("bfcl_eval")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) / "data" if folders else None


def _tools(entries: Iterable[_BfclEntry], *, every_definition: bool) -> dict[str, Item]:
    """The tool that stands for each definition, by the definition as text, in file order.

    A tool has no server. With `every_definition`, definitions of a name after its first are tools of their own,
    distinguished by a server that is the start of the definition's SHA-256; else the first stands for all of them.
    """
    first: dict[str, Item] = {}
    tools: dict[str, Item] = {}
    for entry in entries:
        for function in entry.functions:
            name, text = function["name"], _definition_text(function)
            if text in tools:
                continue
            digest = hashlib.sha256(text.encode("ascii")).hexdigest()
            server = digest[:8] if name in first and every_definition else None
            tool = Item(
                type="tool",
                server=server,
                name=name,
                description=function["description"],
                schema=function["parameters"],
            )
            tools[text] = tool if server else first.setdefault(name, tool)
    return tools


def _groups(entries: Sequence[_BfclEntry]) -> list[str]:
    """The group of each live query, named by the first query of the group.

    One group are queries with the same text (blanks and case aside) and those that were contributed over the same
    list of functions: the second number of `live_multiple_712-164-28`. They are often paraphrases.
    """
    keys = ((f"{e.part} {e.id.rsplit('_', 1)[1].split('-')[1]}", (text_key(e.messages[-1].content),)) for e in entries)
    names = {row: entries[rows[0]].id for rows in connected_rows(keys) for row in rows}
    return [names[row] for row in range(len(entries))]


def _definition_text(function: Mapping[str, Any]) -> str:
    """A definition as text, the order of its keys aside."""
    return json.dumps(function, sort_keys=True, ensure_ascii=True)
