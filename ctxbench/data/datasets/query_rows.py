"""Read queries from the rows of a dataset's files; every field is checked, every fault has its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import ItemKey
from ctxbench.core.requests import Message, Only, Request, SessionItem
from ctxbench.core.times import instant
from ctxbench.data.datasets.query_labels import DatasetQuery
from ctxbench.io.rows import Row, read_key, read_text_value

QUERY_FIELDS = (
    *("_id", "text", "split", "group", "tags", "needs", "labelled", "history", "session", "removed", "explicit"),
    *("available", "scope", "tool_results", "conversation", "turn", "user", "workspace", "time", "only"),
)


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
        available = row.each("available", read_key, expected="an item id")
    return DatasetQuery(
        request=_request(row, query_id, available),
        split=row.take("split", str, "", required=True),
        group=row.optional("group", str),
        tags=row.each("tags", read_text_value, expected="a text"),
        scope=scope,
        needs_nothing=needs == "nothing",
        partly_labelled=labelled == "partly",
    )


def _request(row: Row, query_id: str, available: tuple[ItemKey, ...] | None) -> Request:
    session = None
    if row.data.get("session") is not None:
        session = row.each("session", _session_item, expected='{"id", "mode"}')
    return Request(
        id=query_id,
        text=row.take("text", str, ""),
        history=row.each("history", _message, expected='{"role", "content"}, both texts'),
        session=session,
        removed=row.each("removed", read_key, expected="an item id"),
        explicit=row.each("explicit", read_key, expected="an item id"),
        available=available,
        tool_results=row.each("tool_results", _tool_result, expected='{"tool", "text"}, both texts'),
        user=row.filled("user"),
        workspace=row.filled("workspace"),
        conversation=row.optional("conversation", str),
        turn=_turn(row),
        time=_time(row),
        only=_only(row),
    )


def _only(row: Row) -> Only | None:
    """The restriction of the search; None if there is none."""
    if row.optional("only", dict) is None:
        return None
    inner = row.nested(row.data["only"])
    inner.refuse_unknown(("types", "since", "before", "confidence", "conversation"))
    try:
        return Only(
            types=inner.each("types", read_text_value, expected="an item type"),
            since=inner.optional("since", str),
            before=inner.optional("before", str),
            confidence=inner.number("confidence"),
            conversation=inner.optional("conversation", str),
        )
    except ParameterError as error:
        row.fault(f"field 'only': {error}")
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
