"""What the importers of general formats share: ids, grades, splits, what is counted, and the card.

* A document's id, any text, becomes the name of an item of one type: `MED-10` is `reference:MED-10`. Its title becomes
  the description, so that it is searched, and the text stays the text. A tool's title becomes its name, if no other
  document has it, and its text the description; in BEIR's layout its server and input schema are kept.
* `train`, `training`, `dev`, `valid` and `validation` become `tuning`, `test` stays, any other name stays as it is.
* One positive score in all the files is binary, and means required (2). Several need a mapping: which of them is
  required is a decision of whoever imports. Scores of 0 and below mean irrelevant (0) unless they are mapped.
* A label for a document that is not there is dropped and counted, and its query, if that was to be required, is kept
  as partly labelled (or unlabelled, if nothing else is required), so that no figure is made of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.items import ITEM_TYPES, Catalog, Item, ItemKey
from ctxbench.data.datasets.dataset import SPLITS, Dataset, name_fault
from ctxbench.io.files import read_bytes, readable

OURS = "ctxbench"  # the key of `metadata` under which an export keeps what the format has no place for
EXPORT = "export.json"  # beside exported files: their names, the card, and what the format does not hold
SOURCE = "publisher"  # the `source` of labels that came with the files
RENAMED = "query ids with blanks, which were percent-encoded"
_TUNING = ("train", "training", "dev", "valid", "validation")
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How files become a dataset.

    Attributes:
        name: of the dataset; None = made of the folder's or file's name.
        version: of the dataset; None = that of an export of ours, else 1.
        type: of the items, one of `ITEM_TYPES`.
        grades: positive scores as published to 0, 1 or 2; None = one positive score means 2.
        licence: of the data; None = that of an export of ours, else that none is stated.

    Raises:
        ParameterError: the name, the type or a grade is none.
    """

    name: str | None = None
    version: str | None = None
    type: str = "reference"
    grades: Mapping[int, int] | None = None
    licence: str | None = None

    def __post_init__(self) -> None:
        if self.type not in ITEM_TYPES:
            raise ParameterError(f"item type must be one of {', '.join(ITEM_TYPES)}, got {self.type!r}")
        fault = name_fault(self.name) if self.name is not None else None
        if fault:
            raise ParameterError(fault)
        wrong = sorted(set((self.grades or {}).values()) - {0, 1, 2})
        if wrong:
            raise ParameterError(f"a grade is 0 irrelevant, 1 helpful or 2 required, got {wrong[0]}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Converted:
    """A dataset made of files, and what could not be resolved.

    Attributes:
        dataset: as it was made.
        counted: what was counted, by what it is; what is 0 was looked for.
        listed: some or all of the ids that were counted, by the same names.
    """

    dataset: Dataset
    counted: Mapping[str, int]
    listed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """What was counted and is not 0, one line each."""
        return [f"{what}: {_with_some(n, self.listed.get(what, ()))}" for what, n in self.counted.items() if n]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, without the dataset."""
        return {
            "name": self.dataset.name,
            "version": self.dataset.version,
            "hash": self.dataset.hash,
            "counts": self.dataset.counts,
            "counted": dict(self.counted),
            "listed": {what: list(ids) for what, ids in self.listed.items() if ids},
        }


class Tally:
    """Counts what is odd, by name, with the ids it concerns."""

    def __init__(self, *names: str) -> None:
        self.ids: dict[str, list[str]] = {name: [] for name in names}

    def add(self, name: str, *ids: str) -> None:
        """Count ids under a name that was announced."""
        self.ids[name] += ids

    def query_id(self, published: str) -> str:
        """A query id without blanks, which qrels and runs could not name: they are percent-encoded, and counted."""
        name = re.sub(r"\s", lambda match: quote(match[0], safe=""), published)
        if name != published:
            self.add(RENAMED, published)
        return name

    @property
    def counted(self) -> dict[str, int]:
        """How many, by name."""
        return {name: len(ids) for name, ids in self.ids.items()}

    def converted(self, dataset: Dataset) -> Converted:
        """The dataset with what was counted."""
        return Converted(dataset=dataset, counted=self.counted, listed=self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as published; `place` is where it stands, `server` and `schema` are a tool's."""

    id: str
    title: str
    text: str
    place: tuple[Path, int]
    server: str | None = None
    schema: Mapping[str, Any] | None = None


def key_of(doc_id: str, item_type: str) -> ItemKey:
    """The identity of the item that a document becomes."""
    return ItemKey(item_type, None, doc_id)


def item_of(document: Document, item_type: str, *, by_title: bool = False) -> Item:
    """The item that a document becomes; a tool is called by its title, if that is asked for."""
    if item_type == "tool":
        head = "" if by_title else document.title
        return Item(
            type="tool",
            server=document.server,
            name=document.title if by_title else document.id,
            title=head,
            description=": ".join(part for part in (head, document.text) if part),
            schema=document.schema,
        )
    return Item(type=item_type, name=document.id, title=document.title, description=document.title, text=document.text)


def catalog_of(documents: Iterable[Document], item_type: str, faults: list[Fault]) -> Catalog:
    """The documents as a catalog; ids that are empty or stand twice are faults, and left out."""
    first: dict[str, Document] = {}
    for document in documents:
        path, line = document.place
        if not document.id:
            faults.append(Fault("a document has an empty id; expected any text", path, line))
        elif document.id in first:
            there = first[document.id].place[1]
            faults.append(Fault(f"document {document.id!r} stands twice, first in line {there}", path, line))
        else:
            first[document.id] = document
    return Catalog(item_of(document, item_type) for document in first.values())


def split_name(published: str) -> str:
    """The split that a published one becomes."""
    return (
        SPLITS[0] if published.lower() in _TUNING else published.lower() if published.lower() == "test" else published
    )


def grading(scores: Iterable[int], grades: Mapping[int, int] | None, where: Path | str) -> dict[int, int]:
    """What each score that occurs means: 0, 1 or 2.

    Raises:
        InputError: several positive scores and no mapping, or one that the mapping does not name.
    """
    present = Counter(scores)
    positive = sorted(score for score in present if score > 0)
    if grades is None:
        if len(positive) > 1:
            shown = ", ".join(f"{score} ({present[score]:,} labels)" for score in positive[:10])
            example = ",".join(f"{score}={2 if score == positive[-1] else 1}" for score in positive[:10])
            message = f"the scores are graded: {shown}; say which of them mean required (2), for example {example}"
            raise InputError([Fault(message, where)])
        return {score: 2 if score > 0 else 0 for score in present}
    missing = [score for score in positive if score not in grades]
    if missing:
        named = ", ".join(str(score) for score in missing[:10])
        raise InputError([Fault(f"scores {named} occur, and the mapping of grades does not name them", where)])
    return {score: grades.get(score, 0) for score in present}


def read_grades(text: str) -> dict[int, int]:
    """Read a mapping of grades, such as `1=1,2=2,3=2`.

    Raises:
        ParameterError: it is none.
    """
    found: dict[int, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d+)\s*=\s*([0-2])\s*", part)
        if match is None or int(match[1]) in found:
            raise ParameterError(
                f"grades are written score=grade, with commas between, each score once and a grade of 0, 1 or 2 "
                f"(1=1,2=2); got {text!r}"
            )
        found[int(match[1])] = int(match[2])
    return found


def dataset_name(given: str | None, path: Path) -> str:
    """The name of a dataset: as given, or the path's last part with everything else than letters and digits as `-`."""
    if given is not None:
        return given
    stem = path.resolve().name
    stem = stem.split(".")[0] if path.is_file() else stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "imported"


def about(settings: Settings, *, form: str, files: Sequence[Path], labelling: str, tally: Tally) -> dict[str, Any]:
    """The card of an imported dataset: names and SHA-256 of the files, and everything that was counted."""
    return {
        "licence": settings.licence or "not stated in the files",
        "source": {"format": form, "sha256": {_shown_name(path, files): _sha256(path) for path in files}},
        "labelling": labelling,
        "notes": {"counted": tally.counted},
    }


def _shown_name(path: Path, files: Sequence[Path]) -> str:
    """The name of a file, with that of its folder where another one is called the same."""
    alike = sum(other.name == path.name for other in files) > 1
    return f"{path.resolve().parent.name}/{path.name}" if alike else path.name


def _sha256(path: Path) -> str:
    return hashlib.sha256(read_bytes(readable(path, again=True))).hexdigest()


def _with_some(count: int, ids: Sequence[str]) -> str:
    shown = ", ".join(dict.fromkeys(ids[:_SHOWN]))
    return f"{count:,}" + (f" ({shown}{', ...' if len(ids) > _SHOWN else ''})" if shown else "")
