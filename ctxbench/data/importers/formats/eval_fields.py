"""The field names of hand-written evals, and suggestions for fields with other names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ctxbench.core.errors import suggest
from ctxbench.data.importers.formats.record_files import parse_list
from ctxbench.io.rows import Row
from ctxbench.sources.field_names import as_option, mapped, read_field_names, renamed
from ctxbench.sources.keyed_tools import is_keyed_tool, keyed_tool
from ctxbench.sources.name_resolver import NAME_KEYS
from ctxbench.sources.tools import describes_item

QUERY = ("query", "input", "question", "request", "prompt", "message", "text")
EXPECTED = (
    *("expected", "expected_tools", "expected_items", "must_include", "include", "relevant", "required", "tools"),
    *("must_use", "should_use"),
)
FORBIDDEN = (
    *("forbidden", "forbidden_tools", "forbidden_items", "must_exclude", "must_not_include", "exclude"),
    *("not_expected", "irrelevant", "must_not_use", "should_not_use", "avoid"),
)
IDS = ("id", "_id", "qid", "query_id")
OFFERED = ("tools", "functions", "available", "available_tools", "offered_tools", "tool_definitions")
"""Names of fields with the offered items if their entries are definitions; `tools` also if other fields are labels."""
GRADES = ("grade", "gain", "relevance", "score")  # members of a label that is an object
OTHERWISE = {
    "query": (
        *("user_message", "user_query", "user_input", "user_prompt", "user_request", "utterance", "query_text"),
        *("request_text", "question_text", "message_text", "instruction", "task"),
    ),
    "id": ("case_id", "test_id", "eval_id", "example_id", "question_id", "request_id", "uuid"),
}
"""Other names of fields, for records without the usual names; the first one present counts."""
FIELDS = {"query": QUERY, "expected": EXPECTED, "forbidden": FORBIDDEN, "id": IDS}
NAMING = ("name", "title")  # fields that are the ids where there are no others
READ_BESIDE = ("split", "tags")  # by this name alone
MAPPED = (*FIELDS, *READ_BESIDE)  # what --map may say the name of
_SHOWN = 8  # fields that a message names
_OF_BODIES = ("tools", "include")  # of these names, what requests to models have as well
_OF_LOGS = ("called", "offered", "resourceSpans")
_OF_TURNS = (
    "messages",
    "conversation",
    "model",
)  # of a line that is a turn although it says what would have been right
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OF_DEFINITIONS = re.compile("description|parameters|schema|function", re.IGNORECASE)
_SAYS_NOT = re.compile(
    r"not|never|avoid|forbid|exclu|without|irrelevant|unexpected|disallow|(?:^|_)(?:no|dont|mustnt|shouldnt)_"
)


def field_of(row: Row, role: str, *, offered: Collection[str] = ()) -> str | None:
    """The record's field that is one of `FIELDS`, also in camelCase; two that are called by its own names are a fault.

    Where there is none of those, it is the first of its names in `OTHERWISE`.

    Args:
        row: the record.
        role: one of `FIELDS`.
        offered: fields that say what was offered, and so are no labels.
    """
    fields = [name for name in _called(row, FIELDS[role]) if name not in offered]
    if len(fields) > 1:
        row.fault(f"it has {' and '.join(map(repr, fields))}; expected one of them")
    return next(iter(fields or _called(row, OTHERWISE.get(role, ()))), None)


def _called(row: Row, names: Sequence[str]) -> list[str]:
    """The record's fields of some names, in the order of the names."""
    return sorted((name for name in row.data if snake(name) in names), key=lambda name: names.index(snake(name)))


def offered_fields(data: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The record's fields with the offered items: lists of definitions, and `tools` if another field holds labels.

    Args:
        data: the record.
        names: fields that are mapped; what is expected or forbidden stays so.
    """
    snake_names = {name: snake(name) for name, value in data.items() if value is not None and name not in names}
    offered = [name for name in snake_names if snake_names[name] not in FORBIDDEN and listed_definitions(data[name])]
    labels = [
        name
        for name in snake_names
        if snake_names[name] in EXPECTED and snake_names[name] != "tools" and name not in offered
    ]
    if labels or "expected" in names:
        return offered + [name for name in snake_names if snake_names[name] == "tools" and name not in offered]
    # definitions under another name of labels are a fault, so that they do not look unlabelled
    return [name for name in offered if snake_names[name] not in EXPECTED or snake_names[name] == "tools"]


def listed_definitions(value: Any) -> list[Any]:
    """The entries of a list, also by name or as text, all of which are definitions of items; else none.

    Tools that the model's provider runs have no definition and may stand among them.
    """
    entries = entries_of(value)
    if not all(describes_item(entry) or _is_hosted(entry) for entry in entries):
        return []
    return [entry for entry in entries if describes_item(entry)]


def _is_hosted(entry: Any) -> bool:
    kind = entry.get("type") if isinstance(entry, dict) else None
    return isinstance(kind, str) and kind not in ("function", "custom") and not re.search("call|use", kind)


def entries_of(value: Any) -> list[Any]:
    """The entries of a list, of lists within it, or of an object of definitions by name; else none.

    Of a text that holds a list, the entries only where it may hold definitions.
    """
    if isinstance(value, str):
        value = parse_list(value) if value.lstrip()[:1] in ("[", "{") and _OF_DEFINITIONS.search(value) else None
    if isinstance(value, dict):
        by_name = (
            value
            and not describes_item(value)
            and all(isinstance(tool, dict) and is_keyed_tool(tool) for tool in value.values())
        )
        value = [keyed_tool(name, tool) for name, tool in value.items()] if by_name else [value]
    if not isinstance(value, list):
        return []
    return [inner for entry in value for inner in (entry if isinstance(entry, list) else [entry])]


def snake(name: str) -> str:
    """A field's name as it is read: `expectedTools` and `Expected tools` are `expected_tools`."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", name.strip())).lower()


def without_request(records: Sequence[Mapping[str, Any]]) -> str:
    """The fault of a file none of whose records has a request; empty if one has, or there is no record."""
    fields = list(dict.fromkeys(name for record in records for name in record))
    names = (*QUERY, *OTHERWISE["query"])
    if not records or any(snake(name) in names for name in fields):
        return ""
    read_names = {*EXPECTED, *FORBIDDEN, *IDS, *OTHERWISE["id"], *NAMING, *READ_BESIDE}
    unread = [name for name in fields if snake(name) not in read_names]
    texts = [name for name in unread if 2 * sum(_is_text(record.get(name)) for record in records) > len(records)]
    close = {name: matches[0] for name in texts if (matches := get_close_matches(snake(name), names, n=1))}
    likely = ([*close] or sorted(texts, key=lambda name: -_length(records, name)))[:1]
    hint = f"; did you mean {likely[0]!r}?" if likely else ";"
    if close:
        hint = f"; did you mean {close[likely[0]]!r} by {likely[0]!r}?"
    listed = ", ".join(map(repr, fields[:_SHOWN])) + (", ..." if len(fields) > _SHOWN else "")
    option = as_option({"query": likely[0] if likely else "FIELD"})
    return (
        f"no record has a field that is known to hold the request; they have {listed or 'no field'}{hint} "
        f"Say which one holds it: {option}; or call it as one that is known: {', '.join(names)}"
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _length(records: Sequence[Mapping[str, Any]], name: str) -> int:
    """The length of all different texts of a field: a request is longer than a word for its kind."""
    return sum(len(text) for text in {str(record[name]) for record in records if _is_text(record.get(name))})


def read_eval_names(text: str) -> dict[str, str]:
    """Read a mapping such as `query=userMessage,id=caseId`: field to what the file calls it, dots inwards.

    Raises:
        ParameterError: it is none, a field is not known, or one is mapped twice.
    """
    example = "query=userMessage,expected=wanted,id=caseId"
    return read_field_names(text, allowed=MAPPED, of="an eval", example=example) if text else {}


def useless_names(records: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    """The faults of a mapping of fields: a message for each field of the file that no record has."""
    used_fields = {field for record in records for field in mapped(record, names)}
    for field in ("expected", "forbidden"):
        if field in names and any(_has_entries(_labels_at(record, names[field].split("."))) for record in records):
            used_fields.add(field)
    fields = list(dict.fromkeys(name for record in records for name in record))
    return [
        f"{field!r} is mapped to {theirs!r}, which "
        + ("is null in every record" if theirs in fields else f"no record has{suggest(theirs, fields)}")
        for field, theirs in names.items()
        if records and field not in used_fields
    ]


def with_names(data: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """A record with its fields renamed by the mapping; other names of mapped fields do not count."""
    roots = {theirs.partition(".")[0] for theirs in names.values() if theirs not in data}
    out = {name: value for name, value in renamed(data, names).items() if name in names or name not in roots}
    for field in ("expected", "forbidden"):
        path = names.get(field, "").split(".")
        if len(path) > 1 and (labels := _labels_at(data, path)) is not None:
            out[field] = labels
    return out


def _labels_at(data: Any, path: Sequence[str]) -> Any:
    """The labels at the end of a path that may lead into lists.

    An entry of a list stays whole, called by what stands at the end, so that its grade is kept.
    """
    if isinstance(data, str) and path:
        data = parse_list(data) if data.lstrip()[:1] in ("[", "{") else None
    if isinstance(data, Mapping) and path:
        return _labels_at(data.get(path[0]), path[1:])
    if not path or not isinstance(data, list):
        return None if path else data
    labels: list[Any] = []
    for entry in data:
        value = _labels_at(entry, path)
        if isinstance(value, list):
            labels += value
        elif isinstance(value, Mapping) or not isinstance(entry, Mapping):
            labels.append(value)
        else:
            labels.append({**{name: inner for name, inner in entry.items() if name not in NAME_KEYS}, "id": value})
    return labels


def _has_entries(labels: Any) -> bool:
    """Whether a path of labels led to anything but empty objects."""
    if not isinstance(labels, list):
        return labels is not None
    return not labels or any(not isinstance(entry, Mapping) or entry.get("id", entry) is not None for entry in labels)


def is_eval(data: Mapping[str, Any]) -> bool:
    """Whether a record is a hand-written eval: a request, and what it should or should not be offered.

    Names in a list of `tools` are what is expected; requests to models have descriptions there. A record with anything
    that only a log has, such as what was called, is none.
    """
    if any(name in data for name in (*_OF_LOGS, *_OF_TURNS)):
        return False
    tools = data.get("tools")
    lists_names = isinstance(tools, list) and bool(tools) and all(isinstance(name, str) for name in tools)
    return (lists_names or _names_items(data)) and any(isinstance(value, str) for value in _questions(data))


def is_log(data: Mapping[str, Any]) -> bool:
    """Whether a record is a line of an agent's log: a request to a model, a turn or spans; never an eval."""
    if _names_items(data):
        return False
    questions = _questions(data)
    if any(isinstance(value, dict) for value in questions) or any(name in data for name in _OF_LOGS):
        return True
    return isinstance(data.get("messages"), list) and not any(isinstance(value, str) for value in questions)


def _questions(data: Mapping[str, Any]) -> list[Any]:
    return [data[name] for name in data if snake(name) in (*QUERY, *OTHERWISE["query"])]


def _names_items(data: Mapping[str, Any]) -> bool:
    return any((plain := snake(name)) in (*EXPECTED, *FORBIDDEN) and plain not in _OF_BODIES for name in data)


def likely_role(
    name: str, value: Any, fields: Mapping[str, str | None], names_of: Mapping[str, str]
) -> tuple[str, str] | None:
    """The likely role of a field that was passed over, `expected` or `forbidden`, and a name for it.

    What says that something should not be offered is never taken for what should be.

    Args:
        name: of the field.
        value: what it holds; a list under a name that says not is a list of what is forbidden.
        fields: what the record's other fields are; what is there already was not meant.
        names_of: what the file calls fields that are mapped; a field called much like one of those was meant to be it.
    """
    plain = snake(name).replace("'", "")
    role, names = ("forbidden", FORBIDDEN) if _SAYS_NOT.search(plain) else ("expected", EXPECTED)
    for field in ("expected", "forbidden"):
        theirs = names_of.get(field)
        if theirs and get_close_matches(plain, [snake(theirs)], n=1):
            absent = fields.get(field) is None
            return (field, theirs) if absent else None
    close = get_close_matches(plain, names, n=1)
    if not close and role == "forbidden" and isinstance(value, list):
        close = ["forbidden"]
    return (role, close[0]) if close and fields.get(role) is None else None


def naming_field(records: Sequence[Mapping[str, Any]]) -> str | None:
    """A field that can serve as the id of records without one: each has a different text there."""
    if any(snake(name) in (*IDS, *OTHERWISE["id"]) for record in records for name in record):
        return None
    for name in NAMING:
        texts = {text for record in records if isinstance(text := record.get(name), str) and text.strip()}
        if records and len(texts) == len(records):
            return name
    return None
