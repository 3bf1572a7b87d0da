"""Datasets from skills with trigger evals: for each skill, requests that should and should not trigger it.

```
skills/pdf/SKILL.md
skills/pdf/evals/trigger_eval.json      [{"query": "Merge these two PDFs", "should_trigger": true}, ...]
```

A file belongs to the skill of its folder, or of the next folder above that has one. An entry may have an `id` and a
`split`, too. A text that stands in the files of several skills is one query.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, suggest
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.importers.formats.conversion import Conversion, Draft, ImportSettings
from ctxbench.io.files import read_text
from ctxbench.io.json_files import parse_json
from ctxbench.io.jsonc import entry_lines
from ctxbench.sources.instructions import LEFT_OUT, rules_folder

NAMES = ("trigger*eval*.json", "eval*trigger*.json")
TRIGGER_FREE = "queries that trigger none of their skills, and may need another (unlabelled)"
NOTED = "notes on files of skills"
UNTRIED = "skills without trigger evals, which no query of the dataset needs"
_LABELLING = (
    "As in the skills' own trigger evals: a request that should trigger a skill requires it, one that should not does "
    "not need it."
)
_FIELDS = {"query", "should_trigger", "id", "split"}
_EXPECTED = '{"query": text, "should_trigger": true or false}'


@dataclass
class _Request:
    """One text of the files, by its first entry.

    Attributes:
        id: of the query.
        split: that the entry states; empty if it states none.
        entry: where it stands.
        triggers: by skill, whether the text should trigger it, and the entry that says so.
    """

    id: str
    split: str
    entry: str
    triggers: dict[ItemKey, tuple[bool, str]] = field(default_factory=dict)


def import_triggers(
    folder: Path | str, *, settings: ImportSettings | None = None, nothing_else: bool = False
) -> Conversion:
    """Make a dataset of a folder of skills and their trigger evals.

    Args:
        folder: holds every `SKILL.md`, and files called like `trigger_eval.json`.
        settings: names, version, licence.
        nothing_else: a request that triggers none of the skills whose files name it needs nothing at all. Else that is
            so only where the files of all skills say it, and others are unlabelled.

    Raises:
        StorageError: the folder or a file cannot be read.
        InputError: there is no skill, no file, a file without a skill, or entries that cannot be read: all at once.
    """
    folder = Path(folder)
    draft = Draft(settings or ImportSettings(), (TRIGGER_FREE, UNTRIED, NOTED))
    catalog = _skills(folder, draft)
    if not len(catalog):
        raise InputError([Fault("no SKILL.md under it; expected a folder of skills with their trigger evals", folder)])
    files = sorted(_files(folder))
    if not files:
        draft.faults.append(
            Fault(f"no file called {' or '.join(NAMES)} under it; expected one beside a SKILL.md", folder)
        )
    requests: dict[str, _Request] = {}
    by_folder = {(folder / str(item.metadata["path"])).parent: item for item in catalog}
    for path in files:
        skill = next((by_folder[parent] for parent in path.parents if parent in by_folder), None)
        if skill is None:
            message = "no SKILL.md in its folder or above; put the file beside the skill that it is of"
            draft.faults.append(Fault(message, path))
        else:
            _read_file(path, skill, requests, draft.faults)
    if not requests and not draft.faults:
        draft.faults.append(Fault(f"its trigger evals hold no request; expected a list of {_EXPECTED}", folder))
    tried = {key for request in requests.values() for key in request.triggers}
    draft.ids[UNTRIED] += [item.id for item in catalog if item.key not in tried]
    for text, request in requests.items():
        query_id, triggers = request.id, request.triggers
        is_required = any(triggered for triggered, _ in triggers.values())
        nothing = not is_required and (nothing_else or len(triggers) == len(catalog))
        draft.ids[TRIGGER_FREE] += [] if is_required or nothing else [query_id]
        split = request.split or split_of(query_id)
        draft.queries.append(DatasetQuery(request=Request(id=query_id, text=text), split=split, needs_nothing=nothing))
        draft.labels += [Label(query_id, key, 2 if triggered else 0) for key, (triggered, _) in triggers.items()]
    return draft.conversion(catalog, form="trigger evals", files=files, labelling=_LABELLING, where=folder)


def _skills(folder: Path, draft: Draft) -> Catalog:
    """The skills of a folder; what is odd about their files is counted."""
    parts = [part for part in rules_folder(folder)() if part.name == "skills"]
    draft.ids[NOTED] += [note for part in parts for note in part.notes]
    return Catalog(item for part in parts for item in part.items if item.type == "skill")


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(parent) / name for name in names if any(fnmatch(name.lower(), form) for form in NAMES))


def _read_file(path: Path, skill: Item, requests: dict[str, _Request], faults: list[Fault]) -> None:
    """Add the entries of one file, which is about one skill, to the requests by text."""
    try:
        source = read_text(path)
        entries = parse_json(source, path=path)
    except InputError as error:
        faults += error.faults
        return
    if not isinstance(entries, list):
        faults.append(Fault(f"expected a list of {_EXPECTED}, got {type(entries).__name__}", path))
        return
    lines, wrong, entry_faults = entry_lines(source), dict[str, list[int]](), list[Fault]()
    query_ids = {request.id for request in requests.values()}
    for number, entry in enumerate(entries, start=1):
        if fault := _entry_fault(entry):
            wrong.setdefault(fault, []).append(number)
            continue
        text, triggered, entry_name = entry["query"].strip(), entry["should_trigger"], f"entry {number} of {path}"
        split = entry.get("split") or ""
        if text not in requests:
            query_id = _query_id(entry.get("id"), skill, number, query_ids)
            query_ids.add(query_id)
            requests[text] = _Request(query_id, split, entry_name)
        request = requests[text]
        if split and request.split and split != request.split:
            message = f"entry {number} puts a request into split {split!r} that {request.entry} puts into"
            entry_faults.append(Fault(f"{message} {request.split!r}; keep one of them", path, lines[(number - 1,)]))
            continue
        first_triggered, first_place = request.triggers.setdefault(skill.key, (triggered, entry_name))
        if first_triggered != triggered:
            message = f"entry {number} says {str(triggered).lower()} of a request of which {first_place} says otherwise"
            entry_faults.append(Fault(f"{message}; keep one of them", path, lines[(number - 1,)]))
    for fault, (first, *repeats) in reversed(wrong.items()):
        repeated = f"; so do {len(repeats):,} more entries" if repeats else ""
        entry_faults.insert(
            0, Fault(f"entry {first} {fault}; expected {_EXPECTED}{repeated}", path, lines[(first - 1,)])
        )
    faults += sorted(entry_faults, key=lambda fault: fault.line)


def _entry_fault(entry: Any) -> str:
    """The fault of an entry; empty if it has none."""
    if not isinstance(entry, dict):
        return f"is {entry!r:.40}"
    unknown = sorted(set(entry) - _FIELDS)
    suggestion = suggest(unknown[0], _FIELDS, listed=False).removesuffix("?") if unknown else ""
    checks: Sequence[tuple[bool, str]] = (
        (bool(suggestion), f"has {', '.join(map(repr, unknown))}, which is not known{suggestion}"),
        (not isinstance(entry.get("query"), str) or not entry["query"].strip(), "has no query, or an empty one"),
        ("should_trigger" not in entry, "has no should_trigger"),
        (not isinstance(entry.get("should_trigger"), bool), f"has should_trigger {entry.get('should_trigger')!r:.40}"),
        (
            not isinstance(entry.get("id", "x"), str) or not entry.get("id", "x").strip().isprintable(),
            f"has id {entry.get('id')!r:.40}, which is no text of one line",
        ),
        (
            re.fullmatch(r"[A-Za-z0-9_-]*", str(entry.get("split", ""))) is None,
            f"has split {entry.get('split')!r:.40}, which is no word",
        ),
        (bool(unknown), f"has {', '.join(map(repr, unknown))}, which is not known"),
    )
    return next((message for wrong, message in checks if wrong), "")


def _query_id(entry_id: str | None, skill: Item, number: int, query_ids: set[str]) -> str:
    """An id without blanks that no other query has."""
    name = re.sub(r"\s+", "-", (entry_id or "").strip() or f"{skill.name}-{number}")
    names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
    return next(candidate for candidate in names if candidate not in query_ids)
