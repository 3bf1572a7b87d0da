"""Read a dataset folder with all its faults, and write one without losing other files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from ctxbench.catalogs.agent_file import AbsentServer, read_agent
from ctxbench.catalogs.snapshots import CORPUS, corpus_rows, read_items
from ctxbench.datasets.dataset import Dataset, name_fault
from ctxbench.datasets.layout import (
    ABOUT,
    AGENT,
    ANSWERS,
    CARD,
    LABELLING,
    QRELS,
    QRELS_HEADER,
    QUERIES,
    RENAMES,
    DatasetCard,
    agent_of,
    near_folder,
    own_files,
    read_card,
)
from ctxbench.datasets.queries import Contents, DatasetQuery, Label, check_contents, read_query, repeated_label_fault
from ctxbench.io.documents import YamlPath, dump_jsonl, dump_yaml, iter_jsonl, line_of, load_yaml
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UserError,
    suggest,
    without_marks,
)
from ctxbench.io.files import atomic_folder, folder_fault, iter_lines, read_bytes, recover_folder, special, write_atomic
from ctxbench.io.rows import Row
from ctxbench.model.items import Catalog, Item, ItemKey, ItemsByKey, read_key

_SHOWN_REPEATS = 20  # labels of a file that are reported one by one as occurring twice
_GRADES = {"0": 0, "1": 1, "2": 2}


def read_dataset(folder: Path | str, *, former_ids: Mapping[str, Collection[str]] | None = None) -> Dataset:
    """Read a dataset and check all of it.

    Args:
        folder: of the dataset.
        former_ids: ids of the items that catalogs had, by the name of the dataset, where files may have been edited by
            hand. Labels, scopes and lists of available items may then name such items although they are gone or can
            no longer be offered; those that are gone are put at the end of the catalog, disabled, by id
            (`Dataset.gone`). That the card has another hash (`frozen`) or other counts is no fault. None = the files
            are as they were written.

    Raises:
        StorageError: there is no such folder.
        InputError: all faults at once, each with file and line.
    """
    reader = _FolderReader(Path(folder), former_ids)
    reader.read()
    dataset = reader.dataset()
    faults = reader.faults if dataset is None else [*_count_faults(dataset, reader), *_frozen_faults(dataset, reader)]
    if faults or dataset is None:
        raise InputError(faults, subject=f"dataset {folder}")
    return dataset


def validate(folder: Path | str) -> list[Fault]:
    """All faults of a dataset, in the order of its files and lines; empty if it is valid.

    Raises:
        StorageError: there is no such folder.
    """
    try:
        read_dataset(folder)
    except InputError as error:
        return list(error.faults)
    return []


@dataclass
class _FolderReader:
    """Reads the files of one folder; `faults` are in the order of the files."""

    folder: Path
    former_ids: Mapping[str, Collection[str]] | None = None
    faults: list[Fault] = field(default_factory=list)
    card: Mapping[str, Any] = field(default_factory=dict)
    card_lines: Mapping[YamlPath, int] = field(default_factory=dict)
    scopes: dict[str, tuple[ItemKey, ...]] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    items_complete: bool = False
    gone: list[ItemKey] = field(default_factory=list)
    queries: list[DatasetQuery] = field(default_factory=list)
    query_lines: list[int] = field(default_factory=list)
    queries_complete: bool = False
    labels: list[Label] = field(default_factory=list)
    label_places: list[tuple[Path, int]] = field(default_factory=list)

    def read(self) -> None:
        recover_folder(self.folder)
        if not self.folder.is_dir():
            near = near_folder(self.folder)
            raise StorageError(f"cannot read dataset {self.folder}: no such folder; expected one with {CARD}{near}")
        self._read_card()
        self._read_corpus()
        self._read_queries()
        self._read_qrels()
        if self.items_complete:
            self._add_gone_items()

    @property
    def own_former_ids(self) -> frozenset[str] | None:
        """Ids of the items that the catalog had before it was edited; None = it was not."""
        return None if self.former_ids is None else frozenset(self.former_ids.get(str(self.card.get("name")), ()))

    def _add_gone_items(self) -> None:
        """Add removed items that labels or queries name, after the others."""
        if not (former_ids := self.own_former_ids):
            return
        lists = [*self.scopes.values(), *(query.request.available or () for query in self.queries)]
        named = {key for keys in dict.fromkeys(lists) for key in keys} | {label.item for label in self.labels}
        keys = {item.key for item in self.items}
        self.gone = sorted((key for key in named - keys if key.id in former_ids), key=lambda key: key.id)
        self.items += [Item(type=key.type, server=key.server, name=key.name, enabled=False) for key in self.gone]

    def dataset(self) -> Dataset | None:
        """The dataset, if its parts fit each other; else None, and what does not fit is added to the faults."""
        if not self.faults:
            with suppress(InputError):  # the same faults, without their places
                return self._dataset()
        contents = Contents(
            items=ItemsByKey(self.items),
            scopes=self.scopes,
            queries=self.queries,
            labels=self.labels,
            items_complete=self.items_complete,
            scopes_complete=bool(self.card),
            queries_complete=self.queries_complete,
            place_query=lambda i: (self.folder / QUERIES, self.query_lines[i]),
            place_label=lambda i: self.label_places[i],
            place_scope=lambda name: (self.folder / CARD, line_of(self.card_lines, ("scopes", name))),
            former_ids=self.own_former_ids,
            gone=frozenset(self.gone),
            catalog=os.path.normpath(self.folder / str(self.card[AGENT])) if self.card.get(AGENT) else CORPUS,
            absent_servers=self._absent_servers(),
        )
        self.faults += check_contents(contents)
        self.faults.sort(key=self._order)
        return None

    def _absent_servers(self) -> Mapping[str, AbsentServer]:
        """The servers of the agent that its catalog has nothing of; none where the agent cannot be read."""
        agent = agent_of(self.folder)
        try:
            return {} if agent is None else read_agent(agent).absent_servers()
        except UserError:
            return {}

    def _order(self, fault: Fault) -> tuple[int, str, int]:
        name = os.path.basename(fault.path or "")  # noqa: PTH119 - of as many faults as a file has lines
        files = (CARD, CORPUS, QUERIES)
        return (files.index(name) if name in files else len(files), name, fault.line)

    def _dataset(self) -> Dataset:
        about = {k: self.card[k] for k in ABOUT if k in self.card}
        if self.former_ids is not None:
            about.pop("frozen", None)  # it may have changed
        if AGENT in about:
            about[AGENT] = os.path.normpath(self.folder.absolute() / about[AGENT])  # lexically, so that links stay
        return Dataset(
            name=self.card["name"],
            version=self.card["version"],
            catalog=Catalog(self.items),
            queries=tuple(self.queries),
            labels=tuple(self.labels),
            about=about,
            scopes=self.scopes,
            former_ids=self.own_former_ids,
            gone=len(self.gone),
        )

    def _fault(self, message: str, path: Path, line: int = 0) -> None:
        self.faults.append(Fault(message, path, line))

    def _present(self, path: Path) -> bool:
        if path.is_file():
            return True
        actual = special(path) or ("a folder" if path.is_dir() else "missing")
        self._fault(Message("datasets.file-missing", file=path.name, actual=actual), path)
        return False

    def _read_card(self) -> None:
        path = self.folder / CARD
        if not self._present(path):
            return
        try:
            data, self.card_lines = load_yaml(path)
        except InputError as error:
            self.faults += error.faults
            return
        if not isinstance(data, dict):
            self._fault(Message("datasets.card-type", got="nothing" if data is None else type(data).__name__), path, 1)
            return
        self.card = data
        row = Row(data, self.faults, path, 1, self.card_lines)
        row.check(DatasetCard)
        if "name" in row.data and (fault := name_fault(row.data["name"])):
            row.fault(fault, at="name")
        self._check_renames(row)
        self._read_scopes(row)

    def _check_renames(self, row: Row) -> None:
        renames: dict[Any, Any] = row.take(RENAMES, dict, {})
        for old, new in renames.items():
            for value in (old, new):
                try:
                    read_key(value)
                except (ParameterError, TypeError):
                    line = line_of(self.card_lines, (RENAMES, old))
                    self._fault(Message("datasets.card-renames", got=value), row.path, line)

    def _read_scopes(self, row: Row) -> None:
        scopes: dict[str, Any] = row.take("scopes", dict, {})
        for name, entries in scopes.items():
            lines: dict[YamlPath, int] = {(name,): line_of(self.card_lines, ("scopes", name))}
            scope = replace(row, data={name: entries if entries is not None else []}, lines=lines)
            self.scopes[name] = scope.read_list(name, read_key, expected="an item id")

    def _read_corpus(self) -> None:
        path = self.folder / CORPUS
        if self.card.get(AGENT):
            self._read_agent(path)
            return
        if not self._present(path):
            return
        self.items, self.items_complete = read_items(path, self.faults)

    def _read_agent(self, corpus: Path) -> None:
        """Read the items that the agent has which the card names."""
        card, line = self.folder / CARD, line_of(self.card_lines, (AGENT,))
        if not isinstance(self.card[AGENT], str):
            return  # the card's reader says so
        if corpus.exists():
            self._fault(Message("datasets.agent-and-corpus"), card, line)
        try:
            self.items = list(read_agent(Path(os.path.normpath(self.folder / self.card[AGENT]))).catalog())
            self.items_complete = True
        except InputError as error:
            self.faults += error.faults
        except UserError as error:
            self._fault(str(error), card, line)

    def _read_queries(self) -> None:
        path = self.folder / QUERIES
        if not self._present(path):
            return
        unreadable: list[Fault] = []
        rows = [
            (line, read_query(Row(data, self.faults, path, line), self.scopes))
            for line, data in iter_jsonl(path, unreadable)
        ]
        if not rows and not unreadable:
            unreadable.append(Fault(Message("datasets.queries-empty"), path))
        self.faults += unreadable
        self.queries = [query for _, query in rows if query is not None]
        self.query_lines = [line for line, query in rows if query is not None]
        self.queries_complete = len(self.queries) == len(rows) and not unreadable

    def _read_qrels(self) -> None:
        folder = self.folder / QRELS
        if os.path.lexists(folder) and (fault := folder_fault(folder)):
            self._fault(Message("datasets.qrels-unreadable", why=fault), folder)
            return
        present = {path.stem: path for path in sorted(folder.glob("*.tsv"))}
        splits = {query.split for query in self.queries if query.split}
        for split in sorted(splits - set(present)):
            self._fault(Message("datasets.split-without-labels", split=split), folder / f"{split}.tsv")
        first: dict[tuple[str, ItemKey], tuple[Path, int]] = {}
        for split, path in present.items():
            if self.queries_complete and split not in splits:
                self._fault(Message("datasets.split-without-queries", split=split, hint=suggest(split, splits)), path)
            if self._present(path):
                self._read_split(split, path, first)

    def _read_split(self, split: str, path: Path, first: dict[tuple[str, ItemKey], tuple[Path, int]]) -> None:
        """Read the labels of a file; `first` holds the location of the first label of each query and item."""
        split_of_query = {query.id: query.split for query in self.queries}
        repeats = []  # a file that was appended to itself repeats all of its lines
        for line, label in read_labels(path, self.faults):
            location = (path, line)
            if (first_location := first.setdefault((label.query, label.item), location)) != location:
                repeats.append(repeated_label_fault(label, location, first_location))
                continue
            self.labels.append(label)
            self.label_places.append(location)
            if (actual := split_of_query.get(label.query, split)) not in (split, ""):
                self._fault(Message("datasets.label-in-other-split", query=label.query, split=actual), path, line)
        self.faults += repeats[:_SHOWN_REPEATS]
        if len(repeats) > _SHOWN_REPEATS:
            message = Message("datasets.more-labels-repeated", n=len(repeats) - _SHOWN_REPEATS)
            self._fault(message, path, repeats[_SHOWN_REPEATS].line)


def read_labels(path: Path, faults: list[Fault]) -> Iterable[tuple[int, Label]]:
    """Read the labels of one qrels file, with their lines; faults are added to `faults`."""
    n_faults = len(faults)
    lines = without_marks(iter_lines(path, faults), path, faults)
    number, header = next(lines, (0, ""))
    if not number and len(faults) > n_faults:
        return
    columns = header.split("\t")
    is_known = set(columns[3:]) <= set(QRELS_HEADER[3:])
    if tuple(columns[:3]) != QRELS_HEADER[:3] or not is_known or len(set(columns)) != len(columns):
        message = Message("datasets.labels-header", required=QRELS_HEADER[:3], optional=QRELS_HEADER[3:], got=header)
        faults.append(Fault(message, path, number or 1))
        return
    fields_in_order = itemgetter(*(columns.index(name) if name in columns else len(columns) for name in QRELS_HEADER))
    for number, text in lines:
        if not text.strip():
            continue
        fields = text.split("\t")
        if not 3 <= len(fields) <= len(columns):
            expected = "3" if len(columns) == 3 else f"3 to {len(columns)}"
            message = Message("datasets.label-fields", expected=expected, got=len(fields))
            faults.append(Fault(message, path, number))
            continue
        fields += [""] * (len(columns) + 1 - len(fields))
        query, item, score, via, *rest = fields_in_order(fields)
        try:
            yield number, Label(query, ItemKey.parse(item), _GRADES[score.strip()], via or "direct", *rest)
        except ParameterError as error:
            faults.append(Fault(str(error), path, number))
        except KeyError:
            faults.append(Fault(Message("datasets.label-score-text", got=score.strip()), path, number))


def labelled_items(folder: Path) -> frozenset[str]:
    """The ids of all items that the labels of a dataset name; what cannot be read is left out."""
    return frozenset(label.item.id for path in (folder / QRELS).glob("*.tsv") for _, label in read_labels(path, []))


def _frozen_faults(dataset: Dataset, reader: _FolderReader) -> list[Fault]:
    """A fault if the files do not hold what the card says was frozen."""
    if (frozen := reader.card.get("frozen")) in (None, dataset.hash) or reader.former_ids is not None:
        return []
    message = Message("datasets.frozen-changed", expected=frozen, got=dataset.hash)
    return [Fault(message, reader.folder / CARD, line_of(reader.card_lines, ("frozen",)))]


def _count_faults(dataset: Dataset, reader: _FolderReader) -> list[Fault]:
    """A fault for each count of the card that is wrong; a card need not count."""
    messages = {}
    for name, count in (reader.card.get("counts") or {}).items():
        if (true := dataset.counts.get(name)) is None:
            messages[name] = Message("datasets.unknown-count", name=name, hint=suggest(name, dataset.counts))
        elif AGENT in dataset.about and name in ("items", "types"):
            continue  # an agent's items are counted when they are read
        elif reader.former_ids is None and (count != true or isinstance(count, bool)):
            messages[name] = Message("datasets.wrong-count", name=name, count=count, actual=true)
    lines, path = reader.card_lines, reader.folder / CARD
    return [Fault(message, path, line_of(lines, ("counts", name))) for name, message in messages.items()]


OTHER = "another dataset"
_SHOWN = 10  # renamed items that a message names


def refuse_loss(folder: Path, *, is_own: Callable[[Dataset], bool], sources: Collection[str]) -> None:
    """Raise if a dataset holds more than an import of the same kind wrote.

    Args:
        folder: of the dataset.
        is_own: whether such an import made it.
        sources: what its labels give as their source; any other label is somebody's work.

    Raises:
        ParameterError: it is frozen, somebody has labelled there (answers that are not in the dataset yet count) or
            renamed items, another import made it, or it cannot be read.
    """
    answers = folder / LABELLING / ANSWERS
    if answers.is_file() and answers.stat().st_size:
        raise loss(folder, f"answers of `data label` ({LABELLING}/{ANSWERS})")
    problem = OTHER
    with suppress(InputError, StorageError):
        dataset = read_dataset(folder)
        unexpected = {label.source for label in dataset.labels} - {*sources, ""}
        if "frozen" in dataset.about:
            problem = "a frozen dataset"
        elif unexpected:
            problem = f"labels by {', '.join(sorted(unexpected))}"
        elif is_own(dataset) and RENAMES in dataset.about:
            pairs = [f"{old.id} is {new.id} now" for old, new in dataset.renames.items()]
            remainder = f", and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
            raise ParameterError(Message("datasets.renamed-items", folder=folder, pairs=pairs[:_SHOWN], more=remainder))
        elif is_own(dataset):
            return
    raise loss(folder, problem)


def loss(folder: Path | str, problem: str) -> ParameterError:
    """The error that a folder holds what would be lost."""
    return ParameterError(Message("datasets.would-be-lost", folder=folder, problem=problem))


def write_dataset(dataset: Dataset, folder: Path | str) -> None:
    """Write a dataset as a folder, atomically; equal datasets give the same bytes.

    A dataset that is there is replaced; files that are no part of one (a guide, a log of answers) stay. Any other
    folder that holds something is refused.

    Raises:
        ParameterError: the folder holds something else than a dataset, or a frozen one that would be another byte for
            byte, or the dataset does not say its licence, source or labelling.
        InputError: the present card cannot be read, so whether it is frozen is unknown.
        StorageError: the place cannot be written; what was there is unchanged.
    """
    folder = Path(folder)
    frozen = _is_frozen(folder)
    with atomic_folder(folder) as temporary:
        copy_other_files(folder, temporary, own_files(folder))
        write_files(dataset, temporary, home=folder)
        if frozen:
            _refuse_change(folder, temporary)


def create_dataset(dataset: Dataset, folder: Path | str, *, replace: bool = False) -> bool:
    """Write a dataset to a folder, as `write_dataset` does, but never over another dataset.

    Args:
        dataset: what to write.
        folder: where to.
        replace: replace what an earlier import made of files of the same form and name, if nothing was added to it.

    Returns:
        Whether such an earlier one was there, and was another.

    Raises:
        ParameterError: the folder holds another dataset, or one that cannot be read; and as `write_dataset`.
        StorageError: the place cannot be written.
    """
    is_other = False
    if (Path(folder) / CARD).exists():
        try:
            is_other = read_dataset(folder).hash != dataset.hash
        except (InputError, StorageError):
            is_other = True
        if is_other and not replace:
            raise loss(folder, OTHER)
        if is_other:
            made_of = _made_of(dataset)
            refuse_loss(
                Path(folder), is_own=lambda dataset: made_of is not None and _made_of(dataset) == made_of, sources=()
            )
    write_dataset(dataset, folder)
    return is_other


def _made_of(dataset: Dataset) -> tuple[str, list[str]] | None:
    """The format and the names of the files that a dataset was made of, as its card says; None if it does not."""
    match dataset.about.get("source"):
        case {"format": str(form), "sha256": dict(files)}:
            return form, sorted(files)
    return None


def write_files(dataset: Dataset, folder: Path, *, home: Path | None = None) -> None:
    """Write the files of a dataset into an existing folder.

    Args:
        dataset: what to write.
        folder: where to.
        home: the final place of the folder, which the path of an agent file is relative to; None = its present items
            are written, and the card names no agent.

    Raises:
        ParameterError: the dataset does not say its licence, source or labelling.
        StorageError: the folder cannot be written.
    """
    if missing := [name for name in ("licence", "source", "labelling") if not dataset.about.get(name)]:
        raise ParameterError(f"dataset {dataset.name}: `about` must have {', '.join(missing)}")
    card = dataset.card
    if (agent := card.pop(AGENT, None)) is None or home is None:
        # as bytes: one text of all would take four times the room where a single character of it is rare
        write_atomic(folder / CORPUS, b"".join(dump_jsonl([row]).encode() for row in corpus_rows(dataset.catalog)))
    else:
        counts = {name: count for name, count in card["counts"].items() if name not in ("items", "types")}
        # its items are read anew
        card |= {AGENT: Path(os.path.relpath(agent, home.absolute())).as_posix(), "counts": counts}
    write_atomic(folder / CARD, dump_yaml(card))
    write_atomic(folder / QUERIES, dump_jsonl(query.as_row() for query in dataset.queries))
    optional = {"source": any(i.source for i in dataset.labels), "quote": any(i.quote for i in dataset.labels)}
    columns = [column for column, name in enumerate(QRELS_HEADER) if optional.get(name, True)]
    for split in dataset.split_names:
        labels = (i for q in dataset.queries if q.split == split for i in dataset.labels_of(q.id))
        fields = ((i.query, i.item.id, str(i.grade), i.via, i.alternatives, i.source, i.quote) for i in labels)
        lines = ("\t".join(row[column] for column in columns) for row in (QRELS_HEADER, *fields))
        write_atomic(folder / QRELS / f"{split}.tsv", "".join(f"{line}\n" for line in lines))


def _is_frozen(folder: Path) -> bool:
    """Whether a folder holds a frozen dataset.

    Raises:
        ParameterError: it holds something else than a dataset.
    """
    try:
        is_other = folder.exists() and not (folder / CARD).is_file() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
    if is_other:
        raise ParameterError(f"{folder} is there and is no dataset; expected a new folder, or a dataset to replace")
    return (folder / CARD).is_file() and bool(read_card(folder).get("frozen"))


def _refuse_change(old: Path, new: Path) -> None:
    """Raise if a frozen dataset would change in any byte."""
    names = own_files(old)
    if names != own_files(new) or any(read_bytes(old / name) != read_bytes(new / name) for name in names):
        raise ParameterError(
            f"dataset {old} is frozen (its card says so) and would be changed; write to another folder, or take "
            "`frozen` out of its card and give it a new version"
        )


def copy_other_files(old: Path, new: Path, own_files: Collection[str]) -> None:
    """Copy the files of a dataset's folder that are no part of the dataset.

    Args:
        old: the folder; nothing is copied if it is none.
        new: where to.
        own_files: paths of the dataset's files in the folder.

    Raises:
        StorageError: a file cannot be read or written.
    """
    try:
        for path in sorted(old.rglob("*")) if old.is_dir() else ():
            name = path.relative_to(old)
            if name.as_posix() in own_files or (path.is_dir() and not path.is_symlink()):
                continue
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, new / name, follow_symlinks=False)
    except OSError as error:
        raise StorageError(f"cannot write {old}: {error.strerror or error}; nothing was changed there") from error
