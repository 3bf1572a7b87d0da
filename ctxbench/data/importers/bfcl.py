"""BFCL, the Berkeley Function Calling Leaderboard, from the data in its wheel `bfcl-eval`.

Source: https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard (Apache-2.0).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, StorageError, UnknownNameError, raise_faults
from ctxbench.core.items import Catalog, Item
from ctxbench.core.requests import Message, Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import connected_rows, group_pairs
from ctxbench.data.importers.published_files import sha256_of, text_key
from ctxbench.io.json_files import iter_jsonl

RELEASE = "2026.3.23"
SIMPLE, MULTIPLE, IRRELEVANCE = "simple_python", "live_multiple", "live_irrelevance"
ANSWERS = "possible_answer"
SHA256 = {
    f"BFCL_v4_{SIMPLE}.json": "82dd63ba502eb2520c6b5d1d9a5c4b590e03ff261565175561f6228a367d1991",
    f"BFCL_v4_{MULTIPLE}.json": "fd8ccfad4d911420d0e3341dbe2fff77d1d341da934248b9bb2bda24ab3a10c8",
    f"BFCL_v4_{IRRELEVANCE}.json": "6559fda2beaceb609a2cd2e504c65b4a56cb448e1ef88fddfd199e163d163349",
    f"{ANSWERS}/BFCL_v4_{SIMPLE}.json": "90cd5bc653690ee8e459b5b3f3fc9458606f7f3fcbf795bb51b7dc581f8c86dc",
    f"{ANSWERS}/BFCL_v4_{MULTIPLE}.json": "97e90d59c5bd76c55a2920ce93e5566e9046307d3f558578f085f9d3a56c3084",
}


@dataclass(frozen=True, kw_only=True)
class _BfclEntry:
    """One entry of the source: a question, the functions listed with it, and the names that its answer calls."""

    id: str
    part: str
    messages: tuple[Message, ...]
    functions: tuple[Mapping[str, Any], ...]
    answer_names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The last message, which is the user's in every entry."""
        return self.messages[-1].content


class BFCL:
    """`bfcl-simple`, `bfcl-live` and `bfcl-live-listed`; each query's required tools are those its answer calls.

    A function is a tool without a server. Many names are defined several times. In the first two datasets the
    first definition in file order stands for all (this is how they are measured elsewhere); in `bfcl-live-listed`
    each query gets the very definitions listed with it, so each definition is a tool of its own. Schemas are as
    published, in BFCL's own dialect (`dict`, `float`, `tuple` for types). The card counts what is odd.
    """

    provides: ClassVar[tuple[str, ...]] = ("bfcl-live", "bfcl-live-listed", "bfcl-simple")
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
        answers = self._rows(f"{ANSWERS}/BFCL_v4_{part}.json") if part != IRRELEVANCE else []
        calls = {row["id"]: row["ground_truth"] for row in answers}
        return [
            _BfclEntry(
                id=row["id"],
                part=part,
                messages=tuple(Message(m["role"], m["content"]) for turn in row["question"] for m in turn),
                functions=tuple(row["function"]),
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
        faults: list[Fault] = []
        rows = [row for _, row in iter_jsonl(path, faults)]
        raise_faults(faults, subject=str(path))
        return rows

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
        queries, labels = [], []
        for entry, group in zip(entries, groups, strict=True):
            keys = {function["name"]: tools[_definition_text(function)].key for function in entry.functions}
            request = Request(
                id=entry.id,
                text=entry.text,
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
                    "sha256": {file: self._sha256[file] for file in _files(entries)},
                },
                "labelling": _LABELLING[name],
                "notes": [_groups_note(groups), *_notes(entries, tools, every_definition=every_definition)],
            },
        )


_LABELLING = {
    "bfcl-simple": (
        "Required is the one function that the published answer calls. Each query was written for that function, "
        "so it was never compared with the other tools: what is unlabelled may do as well."
    ),
    "bfcl-live": (
        "Required is the function that the published answer calls. It was chosen among the functions listed with "
        "the query, not among all 457: what is unlabelled may do as well."
    ),
    "bfcl-live-listed": (
        "Required is the function that the published answer calls. Queries of live_irrelevance need nothing, as "
        "published: none of the functions listed with them is to be called."
    ),
}


def _wheel_data() -> Path | None:
    """The data folder of the installed package; the package is not imported."""
    spec = importlib.util.find_spec("bfcl_eval")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) / "data" if folders else None


def _files(entries: Iterable[_BfclEntry]) -> list[str]:
    """The source files that the entries came from, questions before answers."""
    parts = dict.fromkeys(entry.part for entry in entries)
    return [f"BFCL_v4_{p}.json" for p in parts] + [f"{ANSWERS}/BFCL_v4_{p}.json" for p in parts if p != IRRELEVANCE]


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
    keys = ((f"{e.part} {e.id.rsplit('_', 1)[1].split('-')[1]}", (text_key(e.text),)) for e in entries)
    names = {row: entries[rows[0]].id for rows in connected_rows(keys) for row in rows}
    return [names[row] for row in range(len(entries))]


def _notes(entries: Sequence[_BfclEntry], tools: Mapping[str, Item], *, every_definition: bool) -> list[str]:
    """Notes on the source for the card; every number in them is counted."""
    definitions = Counter(tool.name for tool in tools.values())
    several = sum(n > 1 for n in definitions.values())
    most, n_most = max(definitions.items(), key=lambda pair: (pair[1], pair[0]))
    choice = (
        "Each definition is a tool; those after the first of a name have a server, the start of their SHA-256."
        if every_definition
        else f"The catalog holds the first in file order. {_replaced_definitions_note(entries, tools)}"
    )
    names = (
        f"The source defines {len(definitions)} function names; {several} of them have several definitions "
        f"({len(tools)} in all, {n_most} of {most}). {choice}"
    )
    repeated = sum(len({f["name"] for f in entry.functions}) < len(entry.functions) for entry in entries)
    empty = sum(not entry.functions for entry in entries)
    notes = [
        names,
        _equal_texts_note(entries),
        _history_note(entries),
        f"{repeated} queries list a function name more than once; the last one counts." if repeated else "",
        f"For {empty} queries no function is listed: nothing is available to them." if empty else "",
        "Schemas are in BFCL's dialect, not JSON Schema: types such as dict, float and tuple.",
    ]
    return [note for note in notes if note]


def _groups_note(groups: Sequence[str]) -> str:
    """A note on the groups that the splits are made of."""
    sizes = Counter(groups)
    return (
        "Queries with the same text, over the same contributed list of functions (live) or for the same function "
        f"(simple) are one group, which stays in one split: {len(sizes)} groups, the largest of {max(sizes.values())}."
    )


def _definition_text(function: Mapping[str, Any]) -> str:
    """A definition as text, the order of its keys aside."""
    return json.dumps(function, sort_keys=True, ensure_ascii=True)


def _replaced_definitions_note(entries: Sequence[_BfclEntry], tools: Mapping[str, Item]) -> str:
    """A note on queries that were written for another definition of their required function than the catalog's."""
    required = [one for entry in entries for one in entry.functions if one["name"] in entry.answer_names]
    held = [(function, tools[_definition_text(function)]) for function in required]
    n_descriptions = sum(function["description"] != tool.description for function, tool in held)
    n_different = sum(
        function != {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        for function, tool in held
    )
    return (
        f"{n_different} queries were written for another definition of the function they require; in {n_descriptions} "
        "of these the description differs, in the others only the schema."
    )


def _equal_texts_note(entries: Sequence[_BfclEntry]) -> str:
    """A note on queries with equal texts, and whether their labels are equal."""
    by_text = group_pairs((entry.text, entry) for entry in entries)
    repeated = [same for same in by_text.values() if len(same) > 1]
    if not repeated:
        return "No two queries have the same text."
    differ = sum(len({entry.answer_names for entry in same}) > 1 for same in repeated)
    lists = Counter((e.text, frozenset(_definition_text(function) for function in e.functions)) for e in entries)
    return (
        f"{sum(len(same) for same in repeated)} queries share their text with another ({len(repeated)} texts), "
        f"{sum(n for n in lists.values() if n > 1)} the functions listed as well. {differ} of these texts are "
        "labelled differently from query to query."
    )


def _history_note(entries: Sequence[_BfclEntry]) -> str:
    """A note on the messages before the last, which are the history."""
    system = sum(entry.messages[0].role == "system" for entry in entries)
    earlier = sum(any(m.role != "system" for m in entry.messages[:-1]) for entry in entries)
    if not system and not earlier:
        return ""
    return (
        f"The query's text is the last message. {system} queries have a system message and {earlier} have earlier "
        "messages of user or assistant; both stand in the history."
    )
