"""Parts that the importers of general formats share: ids, grades, splits, counts and the card.

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
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ctxbench.core.errors import Fault, InputError, ParameterError, raise_faults
from ctxbench.core.items import ITEM_TYPES, Catalog, Item, ItemKey
from ctxbench.data.datasets.dataset import SPLITS, Dataset, name_fault, name_of_path
from ctxbench.data.datasets.layout import ABOUT
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.io.files import read_bytes, readable
from ctxbench.io.json_files import read_json
from ctxbench.io.rows import Row, read_key

EXPORT_KEY = "ctxbench"  # of `metadata`: under it an export keeps what the format has no place for
EXPORT_FILE = "export.json"  # in the folder of exported files: their names, the card, and what the format does not hold
SOURCE = "publisher"  # the `source` of labels that came with the files
PASSED_OVER = "fields that were passed over"
RENAMED = "query ids with blanks, which were percent-encoded"
_TUNING = ("train", "training", "dev", "valid", "validation")
_SHOWN = 3  # ids, or files, that a line names

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """Settings of the import of a general format.

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
        if self.name is not None and (fault := name_fault(self.name)):
            raise ParameterError(fault)
        if unknown_grades := sorted(set((self.grades or {}).values()) - {0, 1, 2}):
            raise ParameterError(f"a grade is 0 irrelevant, 1 helpful or 2 required, got {unknown_grades[0]}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Conversion:
    """A dataset that was made of files, and the oddities of these.

    Attributes:
        dataset: the dataset.
        ids: ids by what is odd about them; none show that it was looked for.
    """

    dataset: Dataset
    ids: Mapping[str, Sequence[str]]

    @property
    def counts(self) -> dict[str, int]:
        """How often each odd thing occurs."""
        return {oddity: len(ids) for oddity, ids in self.ids.items()}

    def lines(self) -> list[str]:
        """How often each odd thing occurs, with some of its ids, one line each; what does not occur is left out."""
        return _counted(self.ids)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, without the dataset."""
        return {
            "name": self.dataset.name,
            "version": self.dataset.version,
            "hash": self.dataset.hash,
            "counts": self.dataset.counts,
            "counted": self.counts,
            "listed": {oddity: list(ids) for oddity, ids in self.ids.items() if ids},
        }


def _counted(odd: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"{oddity}: {len(ids):,} ({_some(ids, len(ids) if oddity == PASSED_OVER else _SHOWN)})"
        for oddity, ids in odd.items()
        if ids
    ]


@dataclass(frozen=True, kw_only=True)
class ExportedCard:
    """Card and scopes of an exported dataset, from the `export.json` of its folder."""

    card: Mapping[str, Any]
    scopes: Mapping[str, tuple[ItemKey, ...]]

    @classmethod
    def from_folder(cls, folder: Path, faults: list[Fault]) -> ExportedCard | None:
        """Read `export.json` of a folder; None if it has none, or one of a plain export, which says nothing more.

        Raises:
            InputError: it is no JSON object of the expected form.
        """
        path = folder / EXPORT_FILE
        data = read_json(path) if path.is_file() else {"plain": True}
        if isinstance(data, dict) and data.get("plain") is True:
            return None
        card = data.get("dataset") if isinstance(data, dict) else None
        kinds = {"name": str, "version": str, "scopes": dict}
        if not isinstance(card, dict) or any(not isinstance(card.get(n, kind()), kind) for n, kind in kinds.items()):
            raise InputError([Fault("expected an object with 'dataset', as `ctxbench data export` writes it", path, 1)])
        row = Row(card.get("scopes", {}), faults, path, 1)
        return cls(card=card, scopes={name: row.read_list(name, read_key, expected="an item id") for name in row.data})


@dataclass
class Draft:
    """Collects the queries and labels of a dataset while its files are read, with faults and counts of odd things.

    Attributes:
        settings: how files become the dataset.
        odd: what is counted, each in words.
        faults: what is wrong; with any of them there is no dataset.
        queries, labels: of the dataset.
        stated: how many entries of the files are labels, by the field or file that holds them.
        ids: ids by what is odd about them.
    """

    settings: ImportSettings
    odd: Sequence[str]
    faults: list[Fault] = field(default_factory=list)
    queries: list[DatasetQuery] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    stated: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.ids: dict[str, list[str]] = {oddity: [] for oddity in self.odd}

    def query_id(self, published: str) -> str:
        """A query id without blanks, which qrels and runs could not name: they are percent-encoded, and counted."""
        name = re.sub(r"\s", lambda match: quote(match[0], safe=""), published)
        if name != published:
            self.ids[RENAMED].append(published)
        return name

    def conversion(
        self,
        catalog: Catalog,
        *,
        form: str,
        files: Sequence[Path],
        labelling: str,
        where: Path,
        export: ExportedCard | None = None,
    ) -> Conversion:
        """Make the dataset.

        Args:
            catalog: the items.
            form: the format's name, for the card.
            files: that were read, for the card.
            labelling: who or what labelled, and how, for the card.
            where: the folder or file that names the dataset.
            export: the `export.json` of the files; its card replaces the one that would be made here.

        Raises:
            InputError: all faults at once; or the files state labels, and none of them could be read.
        """
        if self.stated.total() and not self.faults and not self.labels:
            scores = ", ".join(f"{name} ({n:,})" for name, n in self.stated.items() if n)
            self.faults.append(Fault("; ".join([f"no label could be read from {scores}", *_counted(self.ids)]), where))
        raise_faults(self.faults, subject=_some(list(dict.fromkeys(str(fault.path) for fault in self.faults))))
        card: Mapping[str, Any] = {} if export is None else export.card
        about = {name: card[name] for name in ABOUT if name in card} or {
            "licence": "not stated in the files",
            "source": {"format": form, "sha256": {_shown_name(path, files): _sha256(path) for path in files}},
            "labelling": labelling,
            "notes": {"counted": {oddity: len(ids) for oddity, ids in self.ids.items()}},
        }
        dataset = Dataset(
            name=self.settings.name or card.get("name") or name_of_path(where, "imported"),
            version=self.settings.version or card.get("version", "1"),
            catalog=catalog,
            queries=tuple(self.queries),
            labels=tuple(self.labels),
            about=about | ({"licence": self.settings.licence} if self.settings.licence else {}),
            scopes={} if export is None else export.scopes,
        )
        return Conversion(dataset=dataset, ids=self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDocument:
    """A document as published; `server` and `schema` are a tool's."""

    id: str
    title: str
    text: str
    server: str | None = None
    schema: Mapping[str, Any] | None = None

    def item(self, item_type: str, *, by_title: bool = False) -> Item:
        """The item that the document becomes; with `by_title`, a tool has the title as its name."""
        if item_type != "tool":
            return Item(type=item_type, name=self.id, title=self.title, description=self.title, text=self.text)
        title = "" if by_title else self.title
        return Item(
            type="tool",
            server=self.server,
            name=self.title if by_title else self.id,
            title=title,
            description=": ".join(filter(None, (title, self.text))),
            schema=self.schema,
        )


def unique_entries(noun: str, entries: Iterable[tuple[str, Row, T]]) -> dict[str, T]:
    """Entries by id; one without an id is left out, and one whose id an earlier entry has is a fault.

    Args:
        noun: what an entry is called in the fault.
        entries: the id, the row and the entry.
    """
    unique: dict[str, T] = {}
    lines: dict[str, int] = {}
    for name, row, entry in entries:
        if name in unique:
            row.fault(f"{noun} {name!r} stands twice, first in line {lines[name]}")
        elif name:
            unique[name], lines[name] = entry, row.line
    return unique


def refuse_empty(entries: Sized, path: Path, faults: list[Fault], *, expected: str) -> None:
    """Add a fault for an empty file, unless there are faults already."""
    if not entries and not faults:
        faults.append(Fault(f"the file is empty; expected {expected}", path))


def split_name(published: str) -> str:
    """The name of a split in ctxbench for its published name."""
    name = published.lower()
    return SPLITS[0] if name in _TUNING else name if name == "test" else published


def grading(scores: Iterable[int], grades: Mapping[int, int] | None, where: Path | str) -> dict[int, int]:
    """The grade of each score that occurs: 0, 1 or 2.

    Raises:
        InputError: several positive scores and no mapping, or one that the mapping does not name.
    """
    n_labels = Counter(scores)
    positive = sorted(score for score in n_labels if score > 0)
    if grades is None:
        if len(positive) > 1:
            score_list = ", ".join(f"{score} ({n_labels[score]:,} labels)" for score in positive[:10])
            example = ",".join(f"{score}={2 if score == positive[-1] else 1}" for score in positive[:10])
            message = f"the scores are graded: {score_list}; say which of them mean required (2), for example"
            raise InputError([Fault(f"{message} --grades {example}", where)])
        return {score: 2 if score > 0 else 0 for score in n_labels}
    if missing := [score for score in positive if score not in grades]:
        score_list = ", ".join(str(score) for score in missing[:10])
        raise InputError(
            [Fault(f"scores {score_list} occur, and the mapping of grades (--grades) does not name them", where)]
        )
    return {score: grades.get(score, 0) for score in n_labels}


def read_grades(text: str) -> dict[int, int]:
    """Read a mapping of grades, such as `1=1,2=2,3=2`.

    Raises:
        ParameterError: it is none.
    """
    grades: dict[int, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d+)\s*=\s*([0-2])\s*", part)
        if match is None or int(match[1]) in grades:
            raise ParameterError(
                f"grades are written score=grade, with commas between, each score once and a grade of 0, 1 or 2 "
                f"(1=1,2=2); got {text!r}"
            )
        grades[int(match[1])] = int(match[2])
    return grades


def _shown_name(path: Path, files: Sequence[Path]) -> str:
    """The name of a file, with that of its folder if another file has the same name."""
    alike = sum(file.name == path.name for file in files) > 1
    return f"{path.resolve().parent.name}/{path.name}" if alike else path.name


def _sha256(path: Path) -> str:
    return hashlib.sha256(read_bytes(readable(path, repeatedly=True))).hexdigest()


def _some(names: Sequence[str], limit: int = _SHOWN) -> str:
    """The first few of some names, each once."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:limit]) + (", ..." if len(unique) > limit else "")
