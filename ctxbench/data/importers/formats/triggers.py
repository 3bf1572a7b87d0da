"""Folders of skills with trigger evals: for each skill, requests that should and should not trigger it.

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.importers.formats.conversion import Converted, Settings, Tally, about, dataset_name
from ctxbench.io.files import read_text
from ctxbench.io.json_files import parse_json
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
class _Asked:
    """One text, and what the files say of it; `told` is the split that the entry at `where` gives it, if it does."""

    id: str
    split: str
    told: str | None
    where: str
    triggers: dict[ItemKey, tuple[bool, str]] = field(default_factory=dict)


def import_triggers(folder: Path | str, *, settings: Settings | None = None, nothing_else: bool = False) -> Converted:
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
    folder, settings = Path(folder), settings or Settings()
    faults: list[Fault] = []
    tally = Tally(TRIGGER_FREE, UNTRIED, NOTED)
    catalog = _skills(folder, tally)
    if not len(catalog):
        raise InputError([Fault("no SKILL.md under it; expected a folder of skills with their trigger evals", folder)])
    files = sorted(_files(folder))
    if not files:
        faults.append(Fault(f"no file called {' or '.join(NAMES)} under it; expected one beside a SKILL.md", folder))
    asked: dict[str, _Asked] = {}
    for path in files:
        skill = _skill_of(path, folder, catalog)
        if skill is None:
            faults.append(
                Fault("no SKILL.md in its folder or above; put the file beside the skill that it is of", path)
            )
        else:
            _read(path, skill, asked, faults)
    if faults:
        raise InputError(faults, subject=str(folder))
    tried = {key for one in asked.values() for key in one.triggers}
    tally.add(UNTRIED, *(item.id for item in catalog if item.key not in tried))
    queries, labels = [], []
    for text, one in asked.items():
        needed = any(triggered for triggered, _ in one.triggers.values())
        nothing = not needed and (nothing_else or len(one.triggers) == len(catalog))
        if not needed and not nothing:
            tally.add(TRIGGER_FREE, one.id)
        queries.append(DatasetQuery(request=Request(id=one.id, text=text), split=one.split, needs_nothing=nothing))
        labels += [Label(one.id, key, 2 if triggered else 0) for key, (triggered, _) in one.triggers.items()]
    card = about(settings, form="trigger evals", files=files, labelling=_LABELLING, tally=tally)
    made = Dataset(
        name=settings.name or dataset_name(None, folder),
        version=settings.version or "1",
        catalog=catalog,
        queries=tuple(queries),
        labels=tuple(labels),
        about=card,
    )
    return tally.converted(made)


def _skills(folder: Path, tally: Tally) -> Catalog:
    """The skills of a folder; what is odd about their files is counted."""
    parts = [part for part in rules_folder(folder)() if part.name == "skills"]
    tally.add(NOTED, *(note for part in parts for note in part.notes))
    return Catalog(item for part in parts for item in part.items if item.type == "skill")


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(here) / name for name in names if any(fnmatch(name.lower(), one) for one in NAMES))


def _skill_of(path: Path, folder: Path, catalog: Iterable[Item]) -> Item | None:
    """The skill of the folder of a file, or of the next one above."""
    by_folder = {(folder / str(item.metadata["path"])).parent: item for item in catalog}
    return next((by_folder[one] for one in path.parents if one in by_folder), None)


def _read(path: Path, skill: Item, asked: dict[str, _Asked], faults: list[Fault]) -> None:
    """Add the entries of one file."""
    try:
        entries = parse_json(read_text(path), path=path)
    except InputError as error:
        faults += error.faults
        return
    if not isinstance(entries, list):
        faults.append(Fault(f"expected a list of {_EXPECTED}, got {type(entries).__name__}", path))
        return
    used = {one.id for one in asked.values()}
    for number, entry in enumerate(entries, start=1):
        wrong = _wrong(entry)
        if wrong:
            faults.append(Fault(f"entry {number} {wrong}; expected {_EXPECTED}", path))
            continue
        text, triggered, where = entry["query"].strip(), entry["should_trigger"], f"entry {number} of {path}"
        known = asked.get(text)
        if known is None:
            name = _query_id(entry.get("id"), skill, number, used)
            used.add(name)
            known = asked[text] = _Asked(name, entry.get("split") or split_of(name), entry.get("split"), where)
        elif entry.get("split") and known.told and entry["split"] != known.told:
            what = f"entry {number} puts a request into split {entry['split']!r} that {known.where} puts into"
            faults.append(Fault(f"{what} {known.told!r}; keep one of them", path))
            continue
        before = known.triggers.setdefault(skill.key, (triggered, where))
        if before[0] != triggered:
            what = f"entry {number} says {str(triggered).lower()} of a request of which {before[1]} says otherwise"
            faults.append(Fault(f"{what}; keep one of them", path))


def _wrong(entry: Any) -> str:
    """What is wrong with an entry; empty if nothing is."""
    if not isinstance(entry, dict):
        return f"is {entry!r:.40}"
    unknown = sorted(set(entry) - _FIELDS)
    checks: Sequence[tuple[bool, str]] = (
        (not isinstance(entry.get("query"), str) or not entry["query"].strip(), "has no query, or an empty one"),
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
    return next((what for wrong, what in checks if wrong), "")


def _query_id(given: str | None, skill: Item, number: int, used: set[str]) -> str:
    """An id without blanks that no other query has."""
    name = re.sub(r"\s+", "-", (given or "").strip() or f"{skill.name}-{number}")
    several = (f"{name}-{n}" for n in itertools.count(2))
    return name if name not in used else next(one for one in several if one not in used)
