"""Move a dataset to a changed catalog, following renamed items."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import AGENT, DROPPED, RENAMES
from ctxbench.datasets.queries import DatasetQuery, Label, group_pairs
from ctxbench.io.documents import dump_json, line_of, load_yaml
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, raise_faults
from ctxbench.labelling.curation import FieldChanges, differing
from ctxbench.labelling.overlap import WORDS_THRESHOLD, similar_by_words
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item, ItemKey, name_likeness, suggest_items
from ctxbench.model.requests import Request, SessionItem

RenamesFile: TypeAlias = dict[str, str]
"""Ids of items in a dataset, each with the id in the changed catalog."""


@dataclass(frozen=True, slots=True)
class Rename:
    """An item with its old and its new key.

    Attributes:
        old, new: keys.
        how: `given`, `same content on another server`, `same content under another name`, or why it is likely.
    """

    old: ItemKey
    new: ItemKey
    how: str

    def as_dict(self) -> dict[str, str]:
        """The rename as JSON."""
        return {"old": self.old.id, "new": self.new.id, "how": self.how}


@dataclass(frozen=True, slots=True)
class AmbiguousRename:
    """A removed item, and several new ones with the same content."""

    old: ItemKey
    candidates: tuple[ItemKey, ...]


def read_renames(path: Path | str) -> dict[ItemKey, ItemKey]:
    """Read a mapping from old to new item ids, in YAML or JSON.

    Raises:
        StorageError: the file cannot be read.
        InputError: it is not a mapping of item ids; all faults, with their lines.
    """
    data, lines = load_yaml(path)
    if not isinstance(data, dict):
        raise InputError([Fault("expected a mapping from old to new item ids, such as tool:a:x: tool:b:x", path, 1)])
    faults: list[Fault] = []
    renames: dict[ItemKey, ItemKey] = {}
    for old, new in data.items():
        line = line_of(lines, (old,))
        keys = []
        for value in (old, new):
            try:
                keys.append(ItemKey.parse(value if isinstance(value, str) else ""))
            except ParameterError as error:
                faults.append(Fault(str(error), path, line))
        if len(keys) == 2:
            renames[keys[0]] = keys[1]
    raise_faults(faults, subject="renames")
    return renames


def check_renames(
    renames: Mapping[ItemKey, ItemKey],
    old: Catalog,
    new: Catalog,
    *,
    dropped: Collection[str] = (),
    file: Path | None = None,
) -> None:
    """Check that the old and the new items of renames exist.

    Args:
        renames: old to new keys.
        old, new: the catalogs.
        dropped: ids of items whose labels an earlier rebase removed.
        file: the file of the renames, for lines of faults.

    Raises:
        InputError: an item does not exist, or two items would become one; all faults.
    """
    faults: list[Fault] = []
    lines = {} if file is None else load_yaml(file)[1]
    for before, after in renames.items():
        known_faults = len(faults)
        for key, catalog, noun in ((before, old, "the dataset"), (after, new, "the new catalog")):
            if catalog.find(key) is not None:
                continue
            values = {"old": before.id, "new": after.id, "name": key.id}
            message = Message("labelling.rename-dropped", **values)
            if catalog is not old or key.id not in dropped:
                hint = suggest_items(key.id, catalog.ids)
                message = Message("labelling.rename-unknown", catalog=noun, hint=hint, **values)
            faults.append(Fault(message, file, line_of(lines, (before.id,))))
        if old.find(after) is not None and after not in renames and len(faults) == known_faults:
            message = Message("labelling.rename-merges", old=before.id, new=after.id)
            faults.append(Fault(message, file, line_of(lines, (before.id,))))
    first: dict[ItemKey, ItemKey] = {}
    for before, after in renames.items():
        if (previous := first.setdefault(after, before)) != before:
            message = Message("labelling.renames-to-one", first=previous.id, second=before.id, new=after.id)
            faults.append(Fault(message, file, line_of(lines, (before.id,))))
    raise_faults(faults, subject="renames")


def propose_renames(
    gone: Iterable[Item], added: Iterable[Item]
) -> tuple[tuple[Rename, ...], tuple[AmbiguousRename, ...]]:
    """Pair removed items with new ones of the same type, description, text and schema.

    An item without any of the three is never paired. Several items with the same content are paired by name; without
    a unique name the rename is ambiguous.

    Returns:
        The pairs and the ambiguous renames, in the order of `gone`.
    """
    added_by_content = group_pairs((item_content(item), item) for item in added)
    gone_by_content = group_pairs((item_content(item), item) for item in gone)
    renames, ambiguous = [], []
    for content, olds in gone_by_content.items():
        news = list(added_by_content.get(content, ())) if content else []
        unpaired = []
        for old in olds:
            same_name = [new for new in news if new.name == old.name]
            if len(same_name) == 1 and sum(item.name == old.name for item in olds) == 1:
                renames.append(Rename(old.key, same_name[0].key, "same content on another server"))
                news.remove(same_name[0])
            else:
                unpaired.append(old)
        if len(unpaired) == 1 and len(news) == 1:
            renames.append(Rename(unpaired[0].key, news[0].key, "same content under another name"))
        elif news:
            ambiguous += [AmbiguousRename(old.key, tuple(new.key for new in news)) for old in unpaired]
    positions = {item.key: i for i, item in enumerate(item for olds in gone_by_content.values() for item in olds)}
    return tuple(sorted(renames, key=lambda r: positions[r.old])), tuple(
        sorted(ambiguous, key=lambda a: positions[a.old])
    )


def item_content(item: Item) -> str:
    """Type, description, text and schema as text; empty if the item has only a name."""
    parts: list[Any] = [item.description, item.text, item.schema]
    return dump_json([item.type, *parts]) if any(parts) else ""


_MOST_PAIRS = 100_000  # pairs to compare; with more, the whole catalog was replaced
_LIKE = 0.7  # least similarity of names of a likely successor
_SHARED = 0.4  # least share of common words in descriptions of a likely successor


def likely_successors(gone: Sequence[Item], new: Sequence[Item], *, alone: bool = True) -> tuple[Rename, ...]:
    """The likely successors of removed items; each new item is used once, for its likeliest pair.

    Args:
        gone: removed items; of an item of an agent only the name may be known.
        new: possible successors.
        alone: also pair the only removed and the only new item of a type.

    Returns:
        The pairs, in the order of `gone`, with a reason in `how`. Empty if there are more than 100,000 pairs to
        compare.
    """
    if len(gone) * len(new) > _MOST_PAIRS:
        return ()
    n_gone, n_new = (Counter(item.type for item in items) for items in (gone, new))
    pairs = []
    for old in gone:
        for candidate in new:
            if candidate.type != old.type:
                continue
            names, words = name_likeness(old.name, candidate.name), _word_likeness(old, candidate)
            if names >= _LIKE or words >= _SHARED:
                reason = "name" if names >= _LIKE else "description"
                pairs.append((-max(names, words), old, candidate, f"similar {reason}"))
            elif alone and n_gone[old.type] == n_new[old.type] == 1:
                pairs.append((0.0, old, candidate, f"only {old.type} gone and new"))
    renames: dict[ItemKey, Rename] = {}
    taken_keys: set[ItemKey] = set()
    for _, old, successor, how in sorted(pairs, key=lambda pair: (pair[0], pair[1].id, pair[2].id)):
        if old.key not in renames and successor.key not in taken_keys:
            renames[old.key] = Rename(old.key, successor.key, how)
            taken_keys.add(successor.key)
    return tuple(renames[old.key] for old in gone if old.key in renames)


def _word_likeness(item: Item, second_item: Item) -> float:
    """The share of common words in the descriptions and texts of two items."""
    first, second = (
        set(re.findall(r"\w{3,}", f"{item.description} {item.text or ''}".lower())) for item in (item, second_item)
    )
    return len(first & second) / len(first | second) if first and second else 0.0


def dropped_items(dataset: Dataset) -> Mapping[str, int]:
    """From ids of removed items to the numbers of labels that earlier rebases removed, from the card."""
    return dataset.about.get(DROPPED) or {}


def recorded(dataset: Dataset, note: str, *, renames: Mapping[ItemKey, ItemKey], dropped: Mapping[str, int]) -> Dataset:
    """The dataset with the changes of a rebase in its card.

    Args:
        dataset: the dataset over the new catalog.
        note: a note to add.
        renames: the followed renames; earlier ones are extended by them.
        dropped: the numbers of labels lost by id of removed item; items that are in the catalog again are removed.
    """
    notes = dataset.about.get("notes") or []
    about = {**dataset.about, "notes": [*(notes if isinstance(notes, list) else [notes]), note]}
    followed = {old: renames.get(new, new) for old, new in dataset.renames.items()} | dict(renames)
    about[RENAMES] = {old.id: new.id for old, new in followed.items() if old != new}
    counts = Counter(dropped) + Counter(dropped_items(dataset))
    about[DROPPED] = {
        item: n for item, n in sorted(counts.items()) if dataset.catalog.find(ItemKey.parse(item)) is None
    }
    empty = {name for name in (RENAMES, DROPPED) if not about[name]}
    return replace(dataset, about={name: value for name, value in about.items() if name not in empty})


_SPLIT = 0.3  # least share of the lost words of an item in a new item that may be a part of it
_FEWEST_WORDS = 3  # lost words of an item that may be split
_REBASED = re.compile(r"\+[0-9a-f]{8}$")  # the suffix of a version by an earlier rebase


@dataclass(frozen=True, slots=True)
class LostLabel:
    """A label that is lost with the new catalog.

    Attributes:
        query, item: ids in the old dataset.
        grade: the grade of the label.
        why: `gone`, `disabled`, `by hand only` or `out of scope`.
        effect: `dropped` (not required), `alternative lost` (other alternatives remain), `partly labelled` or
            `unlabelled` (the new state of the query).
    """

    query: str
    item: str
    grade: int
    why: str
    effect: str


@dataclass(frozen=True, slots=True)
class LostMention:
    """An item that was removed from a scope or a field of a request."""

    where: str
    item: str
    why: str


@dataclass(frozen=True, slots=True)
class ReviewCandidate:
    """A query to review: a new item is similar to a required one.

    Attributes:
        query, required, new: ids.
        similarity: 0 to 1, by words.
    """

    query: str
    required: str
    new: str
    similarity: float


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """A query to review: its required item was renamed or shortened, and a new item may be another part of it.

    Attributes:
        query: the id of the query.
        item: the id of the item that the label has now.
        other: the id of the new item.
        share: the share of the lost words of the item that the new item has, 0 to 1; None if the old text is unknown.
    """

    query: str
    item: str
    other: str
    share: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class RebaseReport:
    """A dataset over another catalog, with all changes.

    Attributes:
        dataset: the result.
        source: "name version hash" of the old dataset.
        renamed: items with another key in the new catalog.
        proposed: pairs with the same content that were not accepted; the old items count as gone.
        ambiguous: items with several possible successors.
        likely: likely successors of items with lost labels; not followed.
        gone: ids of items without a successor.
        added: ids of new items, which have no labels.
        changed: items with changed fields.
        reordered: common items have another order, which decides ties.
        lost_labels: lost labels.
        lost_mentions: items removed from scopes and requests.
        to_review: queries to review because of a similar new item.
        split: queries to review because a required item may have been split.
        open_queries: the number of queries that may be offered a new item without a label.
        changed_labels: the number of labels of changed items.
        now_unlabelled: ids of queries that metrics no longer use.
        threshold: the least similarity of `to_review`.
    """

    dataset: Dataset
    source: str
    renamed: tuple[Rename, ...]
    proposed: tuple[Rename, ...]
    ambiguous: tuple[AmbiguousRename, ...]
    likely: tuple[Rename, ...]
    gone: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[FieldChanges, ...]
    reordered: bool
    lost_labels: tuple[LostLabel, ...]
    lost_mentions: tuple[LostMention, ...]
    to_review: tuple[ReviewCandidate, ...]
    split: tuple[SplitCandidate, ...]
    open_queries: int
    changed_labels: int
    now_unlabelled: tuple[str, ...]
    threshold: float

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, without the dataset."""
        return {
            "source": self.source,
            "dataset": f"{self.dataset.name} {self.dataset.version} {self.dataset.hash[:12]}",
            "hash": self.dataset.hash,
            "items": {
                "renamed": [rename.as_dict() for rename in self.renamed],
                "proposed": [rename.as_dict() for rename in self.proposed],
                "doubts": [{"old": i.old.id, "candidates": [key.id for key in i.candidates]} for i in self.ambiguous],
                "likely": [rename.as_dict() for rename in self.likely],
                "gone": list(self.gone),
                "new": list(self.added),
                "changed": [asdict(item) for item in self.changed],
                "reordered": self.reordered,
            },
            "labels": {
                "kept": len(self.dataset.labels),
                "of_changed_items": self.changed_labels,
                "lost": [asdict(label) for label in self.lost_labels],
            },
            "places_lost": [asdict(mention) for mention in self.lost_mentions],
            "queries": {
                "new_and_unlabelled": self.open_queries,
                "now_unlabelled": list(self.now_unlabelled),
                "to_look_at": len({candidate.query for candidate in self.to_review}),
                "look": [asdict(candidate) for candidate in self.to_review],
                "split": [asdict(candidate) for candidate in self.split],
                "threshold": self.threshold,
            },
        }


def rebase_dataset(
    dataset: Dataset,
    catalog: Catalog,
    *,
    renames: Mapping[ItemKey, ItemKey] | None = None,
    accept: bool = False,
    version: str | None = None,
    former: Mapping[str, str] | None = None,
) -> RebaseReport:
    """Move queries, labels and scopes to a changed catalog.

    Labels follow renamed items. A required label is lost if its item is gone or can no longer be offered (disabled,
    manual, out of scope). If it has other alternatives, the query only loses an alternative. Otherwise the query is
    labelled in part (or not at all), and no metric uses it until it is reviewed.

    Args:
        dataset: any.
        catalog: the new catalog.
        renames: old to new keys.
        accept: also follow pairs of a removed and a new item with the same content; otherwise they are only listed.
        version: the version of the result; None = the old one, `+` and the start of the hash of the catalog.
        former: by id, the texts of items when they were labelled, if the catalog of the dataset lacks them.

    Raises:
        InputError: a rename names an unknown item, or merges two items.
        ParameterError: the catalog is empty.
    """
    if not len(catalog):
        raise ParameterError("the new catalog is empty; name another catalog")
    renames = dict(renames or {})
    check_renames(renames, dataset.catalog, catalog, dropped=dropped_items(dataset))
    gone = [i for i in dataset.catalog if i.key not in renames and catalog.find(i.key) is None]
    new_names = set(renames.values())
    new = [i for i in catalog if i.key not in new_names and (i.key in renames or dataset.catalog.find(i.key) is None)]
    proposed, ambiguous = propose_renames(gone, new)
    followed = tuple(Rename(before, after, "given") for before, after in renames.items()) + (proposed if accept else ())
    move = _Rebaser(dataset, catalog, {rename.old: rename.new for rename in followed})
    moved = move.dataset(version or f"{_REBASED.sub('', dataset.version)}+{catalog.hash[:8]}")
    successors = {rename.new for rename in followed}
    added = [i for i in new if i.key not in successors]
    changed = move.changed()
    changed_ids = {item.id for item in changed}
    before = set(dataset.unlabelled)
    source, lost = f"{dataset.name} {dataset.version} {dataset.hash[:12]}", tuple(move.lost_labels)
    without = [i for i in gone if i.key not in move.renames]
    lost_gone = tuple(i.id for i in without)
    figures = {"renamed": len(followed), "gone": len(lost_gone), "added": len(added)}
    figures |= {"changed": len(changed), "lost": len(lost)}
    return RebaseReport(
        dataset=recorded(
            moved,
            str(Message("labelling.rebased", source=source, **figures)),
            renames=move.renames,
            dropped=Counter(label.item for label in lost if label.why == "gone"),
        ),
        source=source,
        renamed=followed,
        proposed=() if accept else proposed,
        ambiguous=ambiguous,
        likely=_likely_renames(moved, without, added, {label.item for label in lost}),
        gone=lost_gone,
        added=tuple(i.id for i in added),
        changed=changed,
        reordered=move.reordered(),
        lost_labels=lost,
        lost_mentions=tuple(move.lost_mentions),
        to_review=_review_candidates(moved, {i.key for i in added}),
        split=tuple(_split_candidates(move, moved, added, former or {})),
        open_queries=_open_queries(moved, {i.key for i in added}),
        changed_labels=sum(label.item.id in changed_ids for label in moved.labels),
        now_unlabelled=tuple(query for query in moved.unlabelled if query not in before),
        threshold=WORDS_THRESHOLD,
    )


def _likely_renames(
    dataset: Dataset, gone: Sequence[Item], added: Sequence[Item], labelled: Collection[str]
) -> tuple[Rename, ...]:
    """The likely successors of items with lost labels: new items, or for an agent other unlabelled items."""
    candidates: Sequence[Item] = added
    if not added and AGENT in dataset.about:  # new items are unknown
        labelled_keys = {label.item for label in dataset.labels}
        candidates = [item for item in dataset.catalog if item.enabled and item.key not in labelled_keys]
    return tuple(
        rename for rename in likely_successors(gone, candidates, alone=bool(added)) if rename.old.id in labelled
    )


@dataclass
class _Rebaser:
    """Moves one dataset to another catalog, and lists its losses."""

    old: Dataset
    catalog: Catalog
    renames: Mapping[ItemKey, ItemKey]
    lost_labels: list[LostLabel] = field(default_factory=list)
    lost_mentions: list[LostMention] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._items = {item.key: item for item in self.catalog}

    def dataset(self, version: str) -> Dataset:
        """The dataset over the new catalog."""
        scopes = {name: self._keys(keys, f"scope {name}") for name, keys in self.old.scopes.items()}
        queries, labels = [], []
        for query in self.old.queries:
            request = self._request(query, scopes)
            query_labels, partly = self._labels(query, request)
            queries.append(replace(query, request=request, partly_labelled=query.partly_labelled or partly))
            labels += query_labels
        return replace(
            self.old,
            version=version,
            catalog=self.catalog,
            queries=tuple(queries),
            labels=tuple(labels),
            scopes=scopes,
            about={name: value for name, value in self.old.about.items() if name != "frozen"},
            gone=0,
        )

    def item(self, key: ItemKey) -> Item | None:
        """The item of the new catalog for a key of the old one; None if it is gone."""
        return self._items.get(self.renames.get(key, key))

    def changed(self) -> tuple[FieldChanges, ...]:
        """The changed items, by new id, in the new order."""
        pairs = ((item, self.item(item.key)) for item in self.old.catalog if _is_known(item))
        fields = {after.key: _changed_fields(before, after) for before, after in pairs if after is not None}
        return tuple(FieldChanges(key.id, fields[key]) for key in self._items if fields.get(key))

    def reordered(self) -> bool:
        """Whether the common items have another order."""
        items = map(self.item, (old.key for old in self.old.catalog if _is_known(old)))
        common = [item.key for item in items if item is not None]
        return common != sorted(common, key=self.catalog.position)

    def _keys(self, keys: Sequence[ItemKey], where: str) -> tuple[ItemKey, ...]:
        """The items of a list with their new keys, without removed items."""
        self.lost_mentions += [LostMention(where, key.id, "gone") for key in keys if self.item(key) is None]
        return tuple(item.key for item in map(self.item, keys) if item is not None)

    def _request(self, query: DatasetQuery, scopes: Mapping[str, tuple[ItemKey, ...]]) -> Request:
        request = query.request
        available = request.available
        if query.scope is not None:
            available = scopes[query.scope]
        elif available is not None:
            available = self._keys(available, f"query {query.id}, available")
        return replace(
            request,
            session=self._session(query),
            removed=self._keys(request.removed, f"query {query.id}, removed"),
            explicit=self._keys(request.explicit, f"query {query.id}, explicit"),
            recent=self._keys(request.recent, f"query {query.id}, recent"),
            uses=tuple(
                {new: n for key, n in request.uses for new in self._keys([key], f"query {query.id}, uses")}.items()
            ),
            available=available,
        )

    def _session(self, query: DatasetQuery) -> tuple[SessionItem, ...] | None:
        if query.request.session is None:
            return None
        pairs = [(session_item, self.item(session_item.key)) for session_item in query.request.session]
        self.lost_mentions += [
            LostMention(f"query {query.id}, session", session_item.key.id, "gone" if item is None else "disabled")
            for session_item, item in pairs
            if item is None or not item.enabled
        ]
        return tuple(
            replace(session_item, key=item.key) for session_item, item in pairs if item is not None and item.enabled
        )

    def _labels(self, query: DatasetQuery, request: Request) -> tuple[list[Label], bool]:
        """The remaining labels of a query, and whether a requirement is lost."""
        labels = self.old.labels_of(query.id)
        required = [label for label in labels if label.grade == Grade.REQUIRED]
        moved = self._moved([label for label in labels if label.grade != Grade.REQUIRED], "dropped")
        unmet: list[tuple[Label, str]] = []
        for members in group_pairs((label.alternatives or label.item, label) for label in required).values():
            reasons = {label: self._why_not(label, request) for label in members}
            if all(reasons.values()):
                unmet += reasons.items()
                continue
            present = self._moved(members, "alternative lost")
            moved += [replace(present[0], alternatives="")] if len(present) == 1 else present
        still_required = any(label.grade == Grade.REQUIRED for label in moved)
        effect = "partly labelled" if still_required or query.partly_labelled else "unlabelled"
        self.lost_labels += [LostLabel(query.id, label.item.id, label.grade, reason, effect) for label, reason in unmet]
        return moved, bool(unmet) and still_required

    def _moved(self, labels: Iterable[Label], effect: str) -> list[Label]:
        """The labels of existing items; others are lost, with an effect on their query."""
        pairs = [(label, self.item(label.item)) for label in labels]
        lost = [label for label, item in pairs if item is None]
        self.lost_labels += [LostLabel(label.query, label.item.id, label.grade, "gone", effect) for label in lost]
        return [replace(label, item=item.key) for label, item in pairs if item is not None]

    def _why_not(self, label: Label, request: Request) -> str:
        """Why the item of a label can no longer be offered; empty if it can."""
        if (item := self.item(label.item)) is None or not item.enabled:
            return "gone" if item is None else "disabled"
        if item.key in {session_item.key for session_item in request.session or ()}:
            return ""
        if item.include == "manual":
            return "by hand only"
        return "" if request.available is None or item.key in request.available else "out of scope"


def _is_known(item: Item) -> bool:
    """Whether more than the id of an item is known, unlike for removed items of an agent."""
    return item.enabled or any((item.description, item.text, item.schema))


def _changed_fields(before: Item, after: Item) -> tuple[str, ...]:
    """The changed fields of an item, except its key."""
    identity = {"_id", "type", "server", "name", *(["title"] if before.title == "" == after.title else [])}
    return tuple(name for name in differing(before.as_row(), after.as_row()) if name not in identity)


def _may_get(dataset: Dataset, keys: set[ItemKey], query: DatasetQuery) -> set[ItemKey]:
    """The items that a search may offer to a query, among some items."""
    keys = keys if query.request.available is None else keys & set(query.request.available)
    items = [dataset.catalog[dataset.catalog.position(key)] for key in keys]
    return {item.key for item in items if item.enabled and item.include != "manual"}


def _open_queries(dataset: Dataset, added: set[ItemKey]) -> int:
    unrestricted = [query for query in dataset.queries if query.request.available is None]
    restricted = [query for query in dataset.queries if query.request.available is not None]
    count = len(unrestricted) if unrestricted and _may_get(dataset, added, unrestricted[0]) else 0
    return count + sum(bool(_may_get(dataset, added, query)) for query in restricted)


def _split_candidates(
    move: _Rebaser, dataset: Dataset, added: Sequence[Item], former: Mapping[str, str]
) -> Iterator[SplitCandidate]:
    """The queries whose required item may have been split, in order.

    A new item of the same type may be a part if it has at least `_SPLIT` of the words that the item lost. If the old
    text is unknown, each new rule, skill or document may be a part of a renamed one.
    """
    parts: dict[ItemKey, list[tuple[Item, float | None]]] = {}
    for old in move.old.catalog if added else ():
        key = move.renames.get(old.key, old.key)
        item = move.item(old.key)
        candidates = [candidate for candidate in added if candidate.type == key.type and candidate.key != key]
        if item is None or not candidates:
            continue
        if not (text := former.get(old.id, _text(old))):
            guesses = candidates if old.key in move.renames and old.type != "tool" else []
            parts[key] = [(guess, None) for guess in guesses]
        elif len(lost := _words(text) - _words(_text(item))) >= _FEWEST_WORDS:
            shares = [(candidate, len(lost & _words(_text(candidate))) / len(lost)) for candidate in candidates]
            parts[key] = [(candidate, share) for candidate, share in shares if share >= _SPLIT]
    for query in dataset.queries:
        for label in dataset.labels_of(query.id):
            if label.grade == Grade.REQUIRED and (part_shares := parts.get(label.item)):
                allowed = _may_get(dataset, {part.key for part, _ in part_shares}, query)
                yield from (
                    SplitCandidate(query.id, label.item.id, part.id, share)
                    for part, share in part_shares
                    if part.key in allowed
                )


def _text(item: Item) -> str:
    """The description and the text of an item; empty if only its id is known."""
    return f"{item.description} {item.text}".strip()


def _words(text: str) -> set[str]:
    """The words of a text in lower case, without short words."""
    return set(re.findall(r"\w{4,}", text.lower()))


def _review_candidates(dataset: Dataset, added: set[ItemKey]) -> tuple[ReviewCandidate, ...]:
    """The queries with a required item that is similar to a new one, in order, most similar first."""
    catalog = dataset.catalog
    pairs = similar_by_words(
        [item.search_text for item in catalog], threshold=WORDS_THRESHOLD, rows=[catalog.position(key) for key in added]
    )
    key_pairs = ((catalog[pair.first].key, catalog[pair.second].key, pair.similarity) for pair in pairs)
    similar = group_pairs(
        (old, (new, similarity))
        for first, second, similarity in key_pairs
        for old, new in ((first, second), (second, first))
        if new in added and old not in added
    )
    candidates = []
    for query in dataset.queries:
        for label in dataset.labels_of(query.id):
            if label.grade == Grade.REQUIRED and label.item in similar:
                allowed = _may_get(dataset, {new for new, _ in similar[label.item]}, query)
                candidates += [
                    ReviewCandidate(query.id, label.item.id, new.id, similarity)
                    for new, similarity in similar[label.item]
                    if new in allowed
                ]
    return tuple(candidates)
