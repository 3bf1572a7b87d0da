"""Read records from JSON, YAML, CSV or Parquet, and resolve their field and item names."""

from __future__ import annotations

import ast
import csv
import importlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ctxbench.catalogs.tool_lists import (
    as_option,
    describes_item,
    is_keyed_tool,
    keyed_tool,
    mapped,
    read_field_names,
    renamed,
)
from ctxbench.io.documents import YamlPath, is_lines, iter_jsonl, line_of, load_yaml, read_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, suggest
from ctxbench.io.files import gzip_fault, read_bytes, read_text
from ctxbench.io.rows import Row
from ctxbench.model.items import Catalog, ItemKey

_SHOWN_KEYS = 5  # keys that a message lists
_LARGEST_FIELD = 50_000_000  # characters of one field of a CSV file


def read_records(path: Path, faults: list[Fault]) -> Iterator[Row]:
    """Read the records of a file, with their lines (for JSON and Parquet their numbers, from 1).

    Args:
        path: a file with an ending in `_READERS`. JSON and YAML have a list of objects, alone or under the only key of
            a mapping; JSON may also have columns as pandas writes them, or JSON lines. In CSV and TSV the first row has
            the names of fields, and all values are texts; columns are separated by commas, tabs or semicolons,
            whichever is most frequent in the first row.
        faults: faults of malformed records, which are ignored, are added here.

    Raises:
        StorageError: the file is missing or cannot be read, or is Parquet and pandas or pyarrow are missing.
        InputError: its form is unknown, or it is malformed as a whole.
    """
    *forms, last = _READERS
    read = _READERS.get(path.suffix.lower())
    if read is None:
        if path.is_file() and (packed := gzip_fault(read_bytes(path), path)):
            raise InputError([Fault(packed, path)])
        raise InputError([Fault(f"expected a file that ends in {', '.join(forms)} or {last}, got {path.name}", path)])
    yield from (Row(data, faults, path, line) for line, data in read(path, faults))


def parse_list(text: str) -> Any:
    """Read a list from text in JSON or Python syntax; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None


def _json_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        data = read_json(path)
    except InputError:
        if not is_lines(path):
            raise
        yield from iter_jsonl(path, faults)
        return
    columns = list(data.values()) if isinstance(data, dict) else []
    if columns and all(isinstance(column, dict) for column in columns):  # pandas writes columns by row label
        data = [{name: column.get(label) for name, column in data.items()} for label in columns[0]]
    rows, _ = _as_list(data)
    if rows is None or not all(isinstance(row, dict) for row in rows):
        entry = None if rows is None else next(row for row in rows if not isinstance(row, dict))
        actual = _describe(data) if rows is None else f"a list that holds {entry!r:.40}"
        raise InputError([Fault(Message("labelling.json-list", got=actual), path, 1)])
    yield from enumerate(rows, start=1)


def _yaml_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    data, lines = load_yaml(path)
    rows, prefix = _as_list(data)
    if rows is None:
        raise InputError([Fault(Message("labelling.yaml-list", got=_describe(data)), path, 1)])
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            yield line_of(lines, (*prefix, number)), row
        else:
            faults.append(Fault(f"expected a mapping, got {row!r:.40}", path, line_of(lines, (*prefix, number))))


def _as_list(data: Any) -> tuple[list[Any] | None, YamlPath]:
    """The list in a document, or under the only key of a mapping, and its path; None if there is none."""
    prefix: YamlPath = ()
    if isinstance(data, dict) and len(data) == 1:
        ((name, data),) = data.items()
        prefix = (name,)
    return (data, prefix) if isinstance(data, list) else (None, ())


def _describe(data: Any) -> str:
    """Describe a document that is not a list, for a message."""
    if not isinstance(data, dict):
        return "nothing" if data is None else f"{data!r:.40}"
    names = [f"{name!r:.40}" for name in data]
    return (
        f"a mapping with {', '.join(names[:_SHOWN_KEYS])}{', ...' if len(names) > _SHOWN_KEYS else ''}"
        if names
        else "{}"
    )


def _csv_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    limit = csv.field_size_limit(_LARGEST_FIELD)
    try:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        text = read_text(path).removeprefix("\ufeff")  # of a spreadsheet
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text, delimiter), strict=True)
        header: list[str] = []
        start = 1
        try:
            for fields in reader:
                line, start = start, reader.line_num + 1
                if not header:
                    header = fields
                elif fields and len(fields) != len(header):
                    message = Message("labelling.csv-fields", expected=len(header), got=len(fields))
                    faults.append(Fault(message, path, line))
                elif fields:
                    yield line, dict(zip(header, fields, strict=True))
        except csv.Error as error:
            faults.append(Fault(Message("labelling.csv-quote", error=error), path, start))
    finally:
        csv.field_size_limit(limit)


def _delimiter(text: str, usual: str) -> str:
    """The most frequent separator of columns in the first row; the usual one if there is none."""
    first = text.lstrip("\r\n").partition("\n")[0]
    return max((usual, *(",", ";", "\t")), key=first.count)


def _parquet_rows(path: Path, _faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not path.is_file():
        raise StorageError(f"cannot read {path}: no such file")
    try:
        table = importlib.import_module("pandas").read_parquet(path)
    except ImportError as error:
        raise StorageError(
            f"{path} is Parquet, which needs pandas and pyarrow: pip install pandas pyarrow; or convert it to "
            f'JSON lines: pandas.read_parquet("{path.name}").to_json("{path.stem}.jsonl", orient="records", lines=True)'
        ) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {error}; expected a Parquet file") from error
    yield from enumerate(json.loads(table.to_json(orient="records")), start=1)  # arrays become lists


_READERS: Mapping[str, Callable[[Path, list[Fault]], Iterator[tuple[int, Mapping[str, Any]]]]] = {
    ".jsonl": iter_jsonl,
    ".json": _json_rows,
    ".yaml": _yaml_rows,
    ".yml": _yaml_rows,
    ".csv": _csv_rows,
    ".tsv": _csv_rows,
    ".parquet": _parquet_rows,
}


AMBIGUOUS, UNKNOWN = "ambiguous", "unknown"
NAME_KEYS = ("tool", "name", "id", "doc_id", "docid", "item_id", "item")
"""Fields with the name of an item in an entry of a list; the first with a text is used."""
CUT_FROM = 55  # characters; longer names may be cut to 60 to 64, perhaps with a hash at the end

_PREFIX = re.compile(r"(?:functions?[./:]+|mcp(?:__|[./:_-]))", re.IGNORECASE)
_JOINT = re.compile(r"__+|[./:]+")
_OTHER = re.compile(r"[\W_]+")
_HASH = re.compile(r"[_-]?[0-9a-f]{4,12}$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The item of a name.

    Attributes:
        name: the name in the log.
        key: the item, or None.
        rule: the rule; `ambiguous` or `unknown` without an item.
        candidates: the possible items of an ambiguous name.
    """

    name: str
    key: ItemKey | None
    rule: str
    candidates: tuple[ItemKey, ...] = ()


class NameResolver:
    """Resolves names by the first of these rules that matches an item.

    1. `id`: an id such as `tool:tracker:create_issue`; the only rule for items that are not tools.
    2. `name`: the exact name of a tool.
    3. `joined`: server and name, joined by `__`, `.`, `/` or `:`, perhaps with the prefix `mcp__` or `functions.`; any
       server, if no tool of that server has the name but one without a server has.
    4. `cleaned`: as 3 and 2, ignoring case, with any other characters as one separator.
    5. `cut`: a name of 55 to 64 characters that, without a hash of 4 to 12 hexadecimal digits at its end, is the start
       of the joined name of an item.

    A rule that matches several items makes the name ambiguous. Renamed items also have their former names.
    """

    def __init__(self, catalog: Catalog, renames: Mapping[ItemKey, ItemKey] = MappingProxyType({})) -> None:
        self._catalog = catalog
        self._renames = {old: new for old, new in renames.items() if catalog.find(old) is None}
        self._known: dict[str, Resolved] = {}
        self._by_name: dict[str, list[ItemKey]] = {}
        self._by_parts: dict[tuple[str, str], list[ItemKey]] = {}
        self._by_joined: dict[str, list[ItemKey]] = {}
        self._by_cleaned: dict[str, list[ItemKey]] = {}
        for called, key in [*((item.key, item.key) for item in catalog), *self._renames.items()]:
            if called.type != "tool":
                continue
            server, name = _clean(called.server or ""), _clean(called.name)
            self._by_name.setdefault(called.name, []).append(key)
            self._by_cleaned.setdefault(name, []).append(key)
            self._by_parts.setdefault((server, name), []).append(key)
            if called.server is not None:
                self._by_joined.setdefault(f"{server}_{name}", []).append(key)

    def resolve(self, name: str) -> Resolved:
        """The item of a name."""
        resolved = self._known.get(name)
        if resolved is None:
            resolved = self._known[name] = self._resolve(name)
        return resolved

    def resolved_names(self) -> tuple[Resolved, ...]:
        """Every name that was resolved, in the order of first use."""
        return tuple(self._known.values())

    def _resolve(self, requested: str) -> Resolved:
        name = requested
        try:
            key = ItemKey.parse(name)
        except ParameterError:
            key = None
        if key is not None and self._catalog.find(key := self._renames.get(key, key)) is not None:
            return Resolved(requested, key, "id")
        if key is not None and key.type == "tool" and key.server:
            name = f"{key.server}/{key.name}"
        return self._by_rules(requested, name)

    def _by_rules(self, requested: str, name: str) -> Resolved:
        plain = _PREFIX.sub("", name, count=1) if _PREFIX.match(name) else name
        for rule, keys in (
            ("name", self._by_name.get(name, [])),
            ("joined", self._joined(plain) or self._joined(name)),
            ("cleaned", self._cleaned(plain) or self._cleaned(name)),
            ("cut", self._cut(plain) if CUT_FROM <= len(name) <= 64 else []),
        ):
            keys = _distinct(keys)
            if len(keys) == 1:
                return Resolved(requested, keys[0], rule)
            if keys:
                return Resolved(requested, None, AMBIGUOUS, tuple(keys))
        return Resolved(requested, None, UNKNOWN)

    def _joined(self, name: str) -> list[ItemKey]:
        """The items with the parts before and after a separator as server and name."""
        splits = sorted({(_clean(name[: at.start()]), _clean(name[at.end() :])) for at in _JOINT.finditer(name)})
        keys = [key for split in splits for key in self._by_parts.get(split, ())]
        return keys or [key for _, tool in splits for key in self._by_parts.get(("", tool), ())]

    def _cleaned(self, name: str) -> list[ItemKey]:
        cleaned = _clean(name)
        return self._by_joined.get(cleaned) or self._by_cleaned.get(cleaned, [])

    def _cut(self, name: str) -> list[ItemKey]:
        for start in dict.fromkeys((_clean(_HASH.sub("", name)), _clean(name))):
            keys = [key for joined, keys in self._by_joined.items() if joined.startswith(start) for key in keys]
            if start and keys:
                return keys
        return []


def named(value: Any) -> str:
    """The name in an entry of a log: a text, or an object with one of `NAME_KEYS`, and perhaps a `server`.

    An object may also be the definition of a tool for MCP, Anthropic (`name`) or OpenAI (`function`).

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, dict):
        if isinstance(value.get("function"), dict):
            value = value["function"]
        server = value.get("server", value.get("serverName"))
        name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
        if isinstance(name, str) and isinstance(server, str) and server:
            return ItemKey("tool", server, name).id
        value = name
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value.strip()


def unresolved(resolved: Iterable[Resolved], times: Counter[str], rule: str) -> dict[str, int]:
    """The names without an item, with their counts in the log, most frequent first."""
    names = {result.name: times[result.name] for result in resolved if result.rule == rule}
    return dict(sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))


def _clean(text: str) -> str:
    return _OTHER.sub("_", text.casefold()).strip("_")


def _distinct(keys: Iterable[ItemKey]) -> list[ItemKey]:
    return list(dict.fromkeys(keys))


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
"""Fields with offered items if their entries are definitions; `tools` also if other fields have labels."""
GRADES = ("grade", "gain", "relevance", "score")  # members of labels that are objects
OTHERWISE = {
    "query": (
        *("user_message", "user_query", "user_input", "user_prompt", "user_request", "utterance", "query_text"),
        *("request_text", "question_text", "message_text", "instruction", "task"),
    ),
    "id": ("case_id", "test_id", "eval_id", "example_id", "question_id", "request_id", "uuid"),
}
"""Other names of fields, for records without the usual names; the first one is used."""
FIELDS = {"query": QUERY, "expected": EXPECTED, "forbidden": FORBIDDEN, "id": IDS}
NAMING = ("name", "title")  # used as ids if there are no ids
READ_BESIDE = ("split", "tags")  # fields without other names
MAPPED = (*FIELDS, *READ_BESIDE)  # fields of --map
_SHOWN_FIELDS = 8  # fields that a message lists
_OF_BODIES = ("tools", "include")  # names that requests to models have, too
_OF_LOGS = ("called", "offered", "resourceSpans")
_OF_TURNS = ("messages", "conversation", "model")  # fields of turns, which may have labels, too
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OF_DEFINITIONS = re.compile("description|parameters|schema|function", re.IGNORECASE)
_SAYS_NOT = re.compile(
    r"not|never|avoid|forbid|exclu|without|irrelevant|unexpected|disallow|(?:^|_)(?:no|dont|mustnt|shouldnt)_"
)


def field_of(row: Row, role: str, *, offered: Collection[str] = ()) -> str | None:
    """The field of a record with one of the names in `FIELDS`, else in `OTHERWISE`, also in camelCase.

    Several fields with names in `FIELDS` are a fault.

    Args:
        row: the record.
        role: one of `FIELDS`.
        offered: fields with offered items, which are not labels.
    """
    fields = [name for name in _called(row, FIELDS[role]) if name not in offered]
    if len(fields) > 1:
        row.fault(Message("labelling.several-fields", fields=" and ".join(map(repr, fields))))
    return next(iter(fields or _called(row, OTHERWISE.get(role, ()))), None)


def _called(row: Row, names: Sequence[str]) -> list[str]:
    """The fields of a record with some names, in the order of the names."""
    return sorted((name for name in row.data if snake(name) in names), key=lambda name: names.index(snake(name)))


def offered_fields(data: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The fields of a record with offered items: lists of definitions, and `tools` if another field has labels.

    Args:
        data: the record.
        names: mapped fields, which are labels.
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
    # definitions in another field of labels are a fault
    return [name for name in offered if snake_names[name] not in EXPECTED or snake_names[name] == "tools"]


def listed_definitions(value: Any) -> list[Any]:
    """The definitions of items in a list (also by name, or as text); empty if it has other entries.

    The list may also have tools that the provider of the model runs, which have no definition.
    """
    entries = entries_of(value)
    if not all(describes_item(entry) or _is_hosted(entry) for entry in entries):
        return []
    return [entry for entry in entries if describes_item(entry)]


def _is_hosted(entry: Any) -> bool:
    kind = entry.get("type") if isinstance(entry, dict) else None
    return isinstance(kind, str) and kind not in ("function", "custom") and not re.search("call|use", kind)


def entries_of(value: Any) -> list[Any]:
    """The entries of a list, of lists in it, or of an object of definitions by name; else empty.

    A text is parsed only if it may have definitions.
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
    """The name of a field in snake case: `expectedTools` and `Expected tools` are `expected_tools`."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", name.strip())).lower()


def without_request(records: Sequence[Mapping[str, Any]]) -> str:
    """The fault of a file of records without a request; empty if there is a request, or no record."""
    fields = list(dict.fromkeys(name for record in records for name in record))
    names = (*QUERY, *OTHERWISE["query"])
    if not records or any(snake(name) in names for name in fields):
        return ""
    read_names = {*EXPECTED, *FORBIDDEN, *IDS, *OTHERWISE["id"], *NAMING, *READ_BESIDE}
    unread = [name for name in fields if snake(name) not in read_names]
    texts = [name for name in unread if 2 * sum(_is_text(record.get(name)) for record in records) > len(records)]
    close = {name: matches[0] for name in texts if (matches := get_close_matches(snake(name), names, n=1))}
    likely = ([*close] or sorted(texts, key=lambda name: -_length(records, name)))[:1]
    hint = f"; did you mean {likely[0]!r}?" if likely else "."
    listed = ", ".join(map(repr, fields[:_SHOWN_FIELDS])) + (", ..." if len(fields) > _SHOWN_FIELDS else "")
    option = as_option({"query": likely[0] if likely else "FIELD"})
    return Message("labelling.no-request-field", fields=listed or "none", hint=hint, option=option, names=names)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _length(records: Sequence[Mapping[str, Any]], name: str) -> int:
    """The length of all distinct texts of a field; requests are longest."""
    return sum(len(text) for text in {str(record[name]) for record in records if _is_text(record.get(name))})


def read_eval_names(text: str) -> dict[str, str]:
    """Read a mapping from fields to their names in a file, such as `query=userMessage,id=caseId`.

    Raises:
        ParameterError: it is not a mapping, or a field is unknown or mapped twice.
    """
    example = "query=userMessage,expected=wanted,id=caseId"
    return read_field_names(text, allowed=MAPPED, of="an eval", example=example) if text else {}


def useless_names(records: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    """The faults of a mapping: one message per mapped field that no record has."""
    used_fields = {field for record in records for field in mapped(record, names)}
    for field in ("expected", "forbidden"):
        if field in names and any(_has_entries(_labels_at(record, names[field].split("."))) for record in records):
            used_fields.add(field)
    fields = list(dict.fromkeys(name for record in records for name in record))
    return [
        Message("labelling.mapped-to-null", field=field, name=theirs)
        if theirs in fields
        else Message("labelling.mapped-to-nothing", field=field, name=theirs, hint=suggest(theirs, fields))
        for field, theirs in names.items()
        if records and field not in used_fields
    ]


def with_names(data: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """A record with fields renamed by the mapping, without other names of mapped fields."""
    roots = {theirs.partition(".")[0] for theirs in names.values() if theirs not in data}
    out = {name: value for name, value in renamed(data, names).items() if name in names or name not in roots}
    for field in ("expected", "forbidden"):
        path = names.get(field, "").split(".")
        if len(path) > 1 and (labels := _labels_at(data, path)) is not None:
            out[field] = labels
    return out


def _labels_at(data: Any, path: Sequence[str]) -> Any:
    """The labels at the end of a path, which may lead into lists.

    Entries of a list keep their other members, such as grades.
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
    """Whether labels have anything but empty objects."""
    if not isinstance(labels, list):
        return labels is not None
    return not labels or any(not isinstance(entry, Mapping) or entry.get("id", entry) is not None for entry in labels)


def is_eval(data: Mapping[str, Any]) -> bool:
    """Whether a record is a hand-written eval: a request with expected or forbidden items.

    A list of names in `tools` is a list of expected items. Records with fields of logs are not evals.
    """
    if any(name in data for name in (*_OF_LOGS, *_OF_TURNS)):
        return False
    tools = data.get("tools")
    lists_names = isinstance(tools, list) and bool(tools) and all(isinstance(name, str) for name in tools)
    return (lists_names or _names_items(data)) and any(isinstance(value, str) for value in _questions(data))


def is_log(data: Mapping[str, Any]) -> bool:
    """Whether a record is a line of a log: a request to a model, a turn or spans; never an eval."""
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
    """The likely role of an ignored field, `expected` or `forbidden`, and a name for it.

    Args:
        name: the name of the field; a negative name is never `expected`.
        value: its value; a list with a negative name is `forbidden`.
        fields: the fields of the record by role; existing roles are not suggested.
        names_of: the mapped names of fields; a field with a close name has their role.
    """
    plain = snake(name).replace("'", "")
    role, names = ("forbidden", FORBIDDEN) if _SAYS_NOT.search(plain) else ("expected", EXPECTED)
    for field in ("expected", "forbidden"):
        theirs = names_of.get(field)
        if theirs and get_close_matches(plain, [snake(theirs)], n=1):
            return (field, theirs) if fields.get(field) is None else None
    close = get_close_matches(plain, names, n=1)
    if not close and role == "forbidden" and isinstance(value, list):
        close = ["forbidden"]
    return (role, close[0]) if close and fields.get(role) is None else None


def naming_field(records: Sequence[Mapping[str, Any]]) -> str | None:
    """A field with a different text in each record, to use as id; None if there is none."""
    if any(snake(name) in (*IDS, *OTHERWISE["id"]) for record in records for name in record):
        return None
    for name in NAMING:
        texts = {text for record in records if isinstance(text := record.get(name), str) and text.strip()}
        if records and len(texts) == len(records):
            return name
    return None
