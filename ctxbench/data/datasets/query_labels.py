"""Queries of a dataset, and the labels that say how much a query needs an item.

The fields of a query are read from rows of a dataset's files: every field is checked, every fault has its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import ItemKey
from ctxbench.core.request_checks import check_uses, checked_vector
from ctxbench.core.requests import Filter, Message, Request, SessionItem
from ctxbench.core.times import instant
from ctxbench.io.rows import Row, read_key, read_text_value

T = TypeVar("T", bound=Hashable)

QUERY_FIELDS = (
    *("_id", "text", "split", "group", "tags", "needs", "labelled", "history", "session", "removed", "explicit"),
    *("recent", "uses", "available", "scope", "tool_results", "conversation", "turn", "user", "workspace", "time"),
    *("only", "vector"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetQuery:
    """A query: a request with its split, group and tags.

    Whether a query that has no required item needs nothing, or nobody has looked, are two things: only
    `needs_nothing` says the first, the second is `unlabelled` (see `Dataset.judged`).

    Attributes:
        request: what the selector is asked; its id is the query id, and holds no blanks.
        split: `tuning`, `test`, or another name of letters, digits, `-` and `_`.
        group: queries of one group (paraphrases, one conversation) stay in one split; None = a group of its own.
        tags: for tables by tag.
        scope: the named set of the dataset that `request.available` is; None = the whole catalog, or a list.
        needs_nothing: someone has judged that no item is required.
        partly_labelled: more items may be required than its labels say, for example because they come from a log of
            what was called among the few items that were offered.
    """

    request: Request
    split: str
    group: str | None = None
    tags: tuple[str, ...] = ()
    scope: str | None = None
    needs_nothing: bool = False
    partly_labelled: bool = False

    @property
    def id(self) -> str:
        """The query id."""
        return self.request.id

    def as_row(self) -> dict[str, Any]:
        """The query as a row of `queries.jsonl`: `_id`, text and split, then the fields that are not their defaults."""
        # a scope's items are in the card, and may be many
        rest = (self.request if self.scope is None else replace(self.request, available=None)).as_dict()
        fields = {
            "group": self.group,
            "tags": list(self.tags) or None,
            "needs": "nothing" if self.needs_nothing else None,
            "labelled": "partly" if self.partly_labelled else None,
            "scope": self.scope,
        }
        stated = {name: value for name, value in fields.items() if value is not None}
        return {"_id": rest.pop("id"), "text": rest.pop("text"), "split": self.split} | stated | rest


@dataclass(frozen=True, slots=True)
class Label:
    """A label says how much one query needs one item. An item without a label is a third state, not grade 0.

    Attributes:
        query: the query id.
        item: the item.
        grade: 2 required, 1 helpful, 0 irrelevant.
        via: `direct`, or `dependency` if it is needed because another needed item leans on it.
        alternatives: required items of one query with the same text here stand for each other: any one of them
            is enough. Empty = stands alone, which is all that other grades may.
        source: where the label comes from, such as `trace`, `person` or `publisher`; empty = as the card says. No
            part of the dataset's hash.
        quote: what of the item's prompt text the query needs, word for word: a selector that shows a part of the item
            meets the label if this is in it. Empty = all of the item.
    """

    query: str
    item: ItemKey
    grade: int
    via: str = "direct"
    alternatives: str = ""
    source: str = ""
    quote: str = ""


# ---------------------------------------------------------------------------------------------- reading


def read_query(row: Row, scopes: Mapping[str, tuple[ItemKey, ...]]) -> DatasetQuery | None:
    """Turn a row of `queries.jsonl` into a query; None if it has no `_id`."""
    row.refuse_unknown(QUERY_FIELDS)
    query_id = row.take("_id", str, "", required=True)
    if not query_id:
        return None
    if "text" not in row.data:
        row.fault("field 'text' is missing; expected a text (it may be empty)")
    needs = row.optional("needs", str)
    if needs not in (None, "nothing"):
        row.fault(f"field 'needs' must be 'nothing' or absent, got {needs!r}; what is needed stands in qrels")
    labelled = row.optional("labelled", str)
    if labelled not in (None, "partly"):
        row.fault(f"field 'labelled' must be 'partly' or absent, got {labelled!r}")
    scope = row.optional("scope", str)
    if scope is not None and row.data.get("available") is not None:
        row.fault("fields 'available' and 'scope' exclude each other")
    available = None if scope is None else scopes.get(scope)
    if scope is None and row.data.get("available") is not None:
        available = row.read_list("available", read_key, expected="an item id")
    return DatasetQuery(
        request=_request(row, query_id, available),
        split=row.take("split", str, "", required=True),
        group=row.optional("group", str),
        tags=row.read_list("tags", read_text_value, expected="a text"),
        scope=scope,
        needs_nothing=needs == "nothing",
        partly_labelled=labelled == "partly",
    )


def _request(row: Row, query_id: str, available: tuple[ItemKey, ...] | None) -> Request:
    session = None
    if row.data.get("session") is not None:
        session = row.read_list("session", _session_item, expected='{"id", "mode"}')
    return Request(
        id=query_id,
        text=row.take("text", str, ""),
        history=row.read_list("history", _message, expected='{"role", "content"}, both texts'),
        session=session,
        removed=row.read_list("removed", read_key, expected="an item id"),
        explicit=row.read_list("explicit", read_key, expected="an item id"),
        recent=row.read_list("recent", read_key, expected="an item id"),
        uses=_uses(row, query_id),
        available=available,
        tool_results=row.read_list("tool_results", _tool_result, expected='{"tool", "text"}, both texts'),
        user=row.filled("user"),
        workspace=row.filled("workspace"),
        conversation=row.optional("conversation", str),
        turn=_turn(row),
        time=_time(row),
        only=_read_filter(row),
        vector=_vector(row, query_id),
    )


def _read_filter(row: Row) -> Filter | None:
    """The restriction of the search; None if there is none."""
    if row.optional("only", dict) is None:
        return None
    inner = row.nested(row.data["only"])
    inner.refuse_unknown(("types", "kinds", "since", "before", "confidence", "conversation"))
    try:
        return Filter(
            types=inner.read_list("types", read_text_value, expected="an item type"),
            since=inner.optional("since", str),
            before=inner.optional("before", str),
            confidence=inner.number("confidence"),
            conversation=inner.optional("conversation", str),
            kinds=inner.read_list("kinds", read_text_value, expected="a text"),
        )
    except ParameterError as error:
        row.fault(f"field 'only': {error}")
        return None


def _uses(row: Row, query_id: str) -> tuple[tuple[ItemKey, int], ...]:
    """How often items were useful; none if the value is not valid."""
    counts = row.optional("uses", dict) or {}
    try:
        uses = tuple((ItemKey.parse(name), count) for name, count in counts.items())
        check_uses(uses, query_id)
    except ParameterError as error:
        row.fault(f"field 'uses': {error}")
        return ()
    return uses


def _vector(row: Row, query_id: str) -> tuple[float, ...] | None:
    """The request's vector; None if there is none, or it is not valid."""
    values = row.optional("vector", list)
    try:
        return None if values is None else checked_vector(values, query_id)
    except ParameterError as error:
        row.fault(f"field 'vector': {error}")
        return None


def _turn(row: Row) -> int | None:
    turn = row.optional("turn", int)
    if turn is not None and turn < 0:
        row.fault(f"field 'turn' is a place in the conversation, 0 or more, got {turn}")
    return turn


def _time(row: Row) -> str | None:
    time = row.optional("time", str)
    if time is not None:
        try:
            instant(time)
        except ParameterError as error:
            row.fault(f"field 'time' {error}")
            return None
    return time


def _fields(value: Any, *names: str, optional: str = "") -> Mapping[str, str]:
    """An object of texts with exactly these fields."""
    if not isinstance(value, dict) or not set(names) <= set(value) <= {*names, optional}:
        raise TypeError
    return {name: read_text_value(entry) for name, entry in value.items()}


def _message(value: Any) -> Message:
    return Message(**_fields(value, "role", "content"))


def _session_item(value: Any) -> SessionItem:
    fields = _fields(value, "id", optional="mode")
    return SessionItem(read_key(fields["id"]), fields.get("mode", "manual"))


def _tool_result(value: Any) -> tuple[str, str]:
    fields = _fields(value, "tool", "text")
    return fields["tool"], fields["text"]


# ---------------------------------------------------------------------------------------------- labels of a query


def minimal_groups(groups: Iterable[Sequence[T]]) -> tuple[list[list[T]], int, bool]:
    """Leave out the groups of alternatives that another group implies.

    Returns:
        The other groups, in order, each member once; how many groups were implied; and whether two of the other
        groups share a member.
    """
    distinct = [list(dict.fromkeys(group)) for group in groups if group]
    minimal = [
        group
        for i, group in enumerate(distinct)
        if not any(
            set(candidate) < set(group) or (set(candidate) == set(group) and j < i)
            for j, candidate in enumerate(distinct)
        )
    ]
    members = [member for group in minimal for member in group]
    return minimal, len(distinct) - len(minimal), len(members) != len(set(members))


def group_labels(
    query: str, groups: Iterable[Sequence[ItemKey]], *, name: str = "group", source: str = ""
) -> Iterator[Label]:
    """Labels for groups of items of which a query requires one each.

    Args:
        query: the query id.
        groups: of alternatives; one item alone has none, and an empty group has no label.
        name: what a group is called in `alternatives`, before its number from 1.
        source: of the labels.
    """
    for number, group in enumerate(groups, start=1):
        alternatives = f"{name} {number}" if len(group) > 1 else ""
        yield from (Label(query, key, Grade.REQUIRED, alternatives=alternatives, source=source) for key in group)


def graded(
    labels: Mapping[ItemKey, Label], query: str, item: ItemKey, grade: int, *, source: str
) -> dict[ItemKey, Label]:
    """The labels with an item at a grade. An item that stays required remains in its group of alternatives.

    What of the item was quoted stays quoted, unless it is irrelevant now.
    """
    old = labels.get(item)
    via = old.via if old is not None else "direct"
    group = old.alternatives if old is not None and old.grade == grade == 2 else ""
    quote = old.quote if old is not None and grade else ""
    return _without_lonely({**labels, item: Label(query, item, grade, via, group, source, quote)})


def standing_in(
    labels: Mapping[ItemKey, Label], query: str, item: ItemKey, of: ItemKey, *, source: str
) -> dict[ItemKey, Label]:
    """The labels with an item as an alternative of another one, which must be required."""
    label = labels[of]
    group = label.alternatives or f"like {of.id}"
    new = Label(query, item, 2, label.via, group, source)
    return _without_lonely({**labels, of: replace(label, alternatives=group), item: new})


def _without_lonely(labels: Mapping[ItemKey, Label]) -> dict[ItemKey, Label]:
    """Dissolve groups with a single alternative."""
    sizes = Counter(label.alternatives for label in labels.values())
    return {key: replace(i, alternatives="") if sizes[i.alternatives] == 1 else i for key, i in labels.items()}


def unlabelled_words(left_out: int, partly: int) -> str:
    """The words for the number of queries without all their labels, and of those labelled in part."""
    in_part = f" ({partly:,} of them in part)" if partly else ""
    return f"{left_out:,} {'is' if left_out == 1 else 'are'} unlabelled{in_part}"
