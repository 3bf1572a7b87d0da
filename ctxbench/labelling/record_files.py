"""Find out what the fields of records hold, and which items their names, paths and phrases mean."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from ctxbench.catalogs.tool_lists import (
    describes_item,
    is_keyed_tool,
    keyed_tool,
)
from ctxbench.datasets.queries import group_pairs
from ctxbench.io.errors import Message, ParameterError, suggest
from ctxbench.io.rows import Row
from ctxbench.labelling.trace_messages import ChatMessage, all_objects, parsed, read_messages, summarise_messages
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Message as ChatTurn


def parse_list(text: str) -> Any:
    """Read a list from text in JSON or Python syntax; None if it is neither."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return read(text)
    return None


AMBIGUOUS, UNKNOWN = "ambiguous", "unknown"
NAME_KEYS = (
    *("tool", "name", "id", "doc_id", "docid", "item_id", "item"),
    *("chunk_id", "document_id", "passage_id", "node_id", "skill"),
)
"""Fields with the name of an item in an entry of a list; the first with a text is used."""
JOINED_FIELDS = ("expected", "forbidden")  # may be mapped to several fields of a file
CUT_FROM = 55  # characters; longer names may be cut to 60 to 64, perhaps with a hash at the end

_PREFIX = re.compile(r"(?:functions?[./:]+|mcp(?:__|[./:_-]))", re.IGNORECASE)
_JOINT = re.compile(r"__+|[./:]+")
_OTHER = re.compile(r"[\W_]+")
_SEPARATORS = re.compile(r"[\s_./\\:-]+")
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


def _resolved(name: str, rule: str, keys: Collection[ItemKey]) -> Resolved:
    """The item of a name if there is one, else the candidates."""
    return (
        Resolved(name, None, AMBIGUOUS, tuple(keys)) if len(keys) > 1 else Resolved(name, next(iter(keys), None), rule)
    )


class NameResolver:
    """Resolves names by the first of these rules that matches an item.

    1. `id`: an id such as `tool:tracker:create_issue`; the only rule for items that are not tools.
    2. `name`: the exact name of a tool.
    3. `joined`: server and name, joined by `__`, `.`, `/` or `:`, perhaps with the prefix `mcp__` or `functions.`, or
       by `_` after `mcp_`; over a catalog without servers any server.
    4. `cleaned`: as 3 and 2, ignoring case, with any other characters as one separator.
    5. `cut`: a name of 55 to 64 characters that, without a hash of 4 to 12 hexadecimal digits at its end, is the start
       of the joined name of an item.

    A rule that matches several items makes the name ambiguous. Renamed items also have their former names.
    """

    def __init__(self, catalog: Catalog, renames: Mapping[ItemKey, ItemKey] = MappingProxyType({})) -> None:
        self._catalog = catalog
        self._renames = {old: new for old, new in renames.items() if catalog.find(old) is None}
        self._resolved: dict[str, Resolved] = {}
        called = [*((item.key, item.key) for item in catalog), *self._renames.items()]
        tools = [
            (_clean(tool.server or ""), _clean(tool.name), tool, key) for tool, key in called if tool.type == "tool"
        ]
        self._by_name = group_pairs((tool.name, key) for _, _, tool, key in tools)
        self._by_cleaned = group_pairs((name, key) for _, name, _, key in tools)
        self._by_parts = group_pairs(((server, name), key) for server, name, _, key in tools)
        named_servers = (entry for entry in tools if entry[2].server is not None)
        self._by_joined = group_pairs((f"{server}_{name}", key) for server, name, _, key in named_servers)

    def resolve(self, name: str) -> Resolved:
        """The item of a name."""
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name)
        return self._resolved[name]

    def resolved_names(self) -> tuple[Resolved, ...]:
        """Every name that was resolved, in the order of first use."""
        return tuple(self._resolved.values())

    def _resolve(self, requested: str) -> Resolved:
        key = None
        with suppress(ParameterError):
            key = ItemKey.parse(requested)
        if key is not None and self._catalog.find(key := self._renames.get(key, key)) is not None:
            return Resolved(requested, key, "id")
        return self._by_rules(
            requested,
            f"{key.server}/{key.name}" if key is not None and key.type == "tool" and key.server else requested,
        )

    def _by_rules(self, requested: str, name: str) -> Resolved:
        plain = _PREFIX.sub("", name, count=1) if _PREFIX.match(name) else name
        joint = re.compile("_") if name[:4].casefold() == "mcp_" else _JOINT
        matches = (
            ("name", self._by_name.get(name, [])),
            ("joined", self._joined(plain) or self._joined(name) or self._joined(plain, joint)),
            ("cleaned", self._cleaned(plain) or self._cleaned(name)),
            ("cut", self._cut(plain) if CUT_FROM <= len(name) <= 64 else []),
        )
        rule, several = next(((rule, keys) for rule, keys in matches if keys), (UNKNOWN, []))
        return _resolved(requested, rule, dict.fromkeys(several))

    def _joined(self, name: str, joint: re.Pattern[str] = _JOINT) -> list[ItemKey]:
        """The items with the parts around a separator as server and name; or as name, if none has a server."""
        splits = sorted({(_clean(name[: at.start()]), _clean(name[at.end() :])) for at in joint.finditer(name)})
        keys = [key for split in splits for key in self._by_parts.get(split, ())]
        return keys or [key for _, tool in splits if not self._by_joined for key in self._by_parts.get(("", tool), ())]

    def _cleaned(self, name: str) -> list[ItemKey]:
        cleaned = _clean(name)
        return self._by_joined.get(cleaned) or self._by_cleaned.get(cleaned, [])

    def _cut(self, name: str) -> list[ItemKey]:
        starts = [start for start in (_clean(_HASH.sub("", name)), _clean(name)) if start]
        matches = ([joined for joined in self._by_joined if joined.startswith(start)] for start in starts)
        return [key for joined in next(filter(None, matches), []) for key in self._by_joined[joined]]


class ItemFinder:
    """Finds the items that a label means: by a name, or by path, lines and phrase.

    A name is looked up by these rules, ignoring case; the first with an item counts, and several items are ambiguous:
    as by `NameResolver`; the name of an item; its title; its path or the end of that, with or without ending and type;
    any of these without the characters between words.

    Attributes:
        names: names to suggest for unknown ones.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._resolver = NameResolver(catalog)
        names, titles = [(item.name, item.key) for item in catalog], [(item.title, item.key) for item in catalog]
        files = [(name, item.key) for item in catalog for name in _path_names(item)]
        cleaned = [(_stripped(name), key) for name, key in (*names, *titles, *files)]
        self._indexes = [_by_name(pairs) for pairs in (names, titles, files, cleaned)]
        self.names = list(dict.fromkeys(name for name, _ in (*names, *titles) if name))

    def resolve(self, name: str) -> Resolved:
        """The item of a name."""
        resolved, folded = self._resolver.resolve(name), _as_path(name)
        *exact, cleaned = self._indexes
        keys = next(filter(None, (*(index.get(folded) for index in exact), cleaned.get(_stripped(name)))), [])
        return _resolved(name, "own name", keys) if resolved.rule == UNKNOWN and keys else resolved

    def find(self, entry: Any) -> Resolved | None:
        """The item of a label: a name, an object with one, a number that is a name, or a place.

        None if it is something else, or a malformed place.
        """
        with suppress(TypeError, ValueError):
            if is_place(entry):
                keys = tuple(self.locate(entry))
                return Resolved(str(next(iter(entry.values()))), keys[0] if len(keys) == 1 else None, "place", keys)
            is_number = type(entry) is int and self.resolve(str(entry)).key is not None
            return self.resolve(str(entry) if is_number else named(entry))
        return None

    @cached_property
    def _contents(self) -> list[_Content]:
        return [_Content.of(item) for item in self._catalog]

    def locate(self, place: Mapping[str, Any]) -> list[ItemKey]:
        """The items at a place; several if it is ambiguous.

        Args:
            place: `path` (or the end of one), `lines` of it (`[first, last]`), `path_contains` and `contains` (a
                phrase, or the whole text). All of them must hold. Lines count from 1, and belong to the item that has
                all of them; lines after the end of a file have no item.

        Raises:
            ValueError: the place is malformed.
        """
        where = {_PLACE[snake(name)]: value for name, value in place.items() if snake(name) in _PLACE}
        stated = where.pop("lines", None)
        lines = (0, 0) if stated is None else _line_range(stated)
        is_wrong = lines is None or (stated is not None and not 1 <= stated[0] <= stated[1])
        if (
            lines is None
            or is_wrong
            or any(not isinstance(value, str) or not value.strip() for value in where.values())
        ):
            raise ValueError
        (first, last), contents = lines, self._contents
        for name, value in where.items():
            contents = _matching(contents, name, _folded(value) if name == "contains" else _as_path(value))
        contents = [content for content in contents if last <= content.n_lines or not content.n_lines]
        if last and any(content.lines[1] for content in contents):
            around = [content for content in contents if content.lines[0] <= first and last <= content.lines[1]]
            contents = around or [c for c in contents if c.lines[0] <= last and first <= c.lines[1]]
        return [content.key for content in contents]


_PLACE = {"path": "path", "file": "path", "path_contains": "path_contains", "contains": "contains", "lines": "lines"}
"""Members of a label that says where its item is, and what they say."""
PLACE_KEYS = tuple(_PLACE)


@dataclass(frozen=True, slots=True)
class _Content:
    """Where an item is, and its text, both ignoring case; lines are (0, 0) if unknown, `n_lines` those of a file."""

    key: ItemKey
    path: str
    lines: tuple[int, int]
    text: str
    n_lines: int = 0

    @classmethod
    def of(cls, item: Item) -> _Content:
        """The content of an item; the path of a part is its file's, and a tool has none."""
        about = item.metadata
        stated = next((path for key in ("path", "file", "source") if isinstance(path := about.get(key), str)), "")
        path = stated or ("" if item.type == "tool" else item.path if item.is_file else item.name)
        lines = _line_range(about.get("lines", [about.get("start_line"), about.get("end_line")])) or (0, 0)
        is_whole = item.type == "reference" and "sha256" in about and item.description in item.text  # no front matter
        n_lines = len(item.text.splitlines()) if is_whole else 0
        return cls(item.key, _as_path(path.partition("::")[0]), lines, _folded(item.text or item.description), n_lines)


def is_place(entry: Any) -> bool:
    """Whether a label says where its item is: an object with a path or a phrase."""
    return isinstance(entry, dict) and any(_PLACE.get(snake(name)) not in (None, "lines") for name in entry)


def _matching(contents: list[_Content], name: str, text: str) -> list[_Content]:
    """The contents that meet a condition: exactly if some do, else as an end of a path or as a part of a text."""
    field = "text" if name == "contains" else "path"
    exact = [content for content in contents if name != "path_contains" and getattr(content, field) == text]
    return exact or [
        content
        for content in contents
        if (f"/{content.path}".endswith(f"/{text}") if name == "path" else text in getattr(content, field))
    ]


def _line_range(value: Any) -> tuple[int, int] | None:
    """The first and last line in a list of two; None if it is something else."""
    is_range = isinstance(value, list) and len(value) == 2 and all(type(line) is int for line in value)
    return (min(value), max(value)) if is_range else None


def _as_path(text: str) -> str:
    return text.casefold().replace("\\", "/").removeprefix("./")


def _path_names(item: Item) -> list[str]:
    """The ends of the path of an item, with and without ending and type; empty for a tool."""
    if item.type == "tool" or "::" in item.name:
        return []
    stated = item.metadata.get("path")
    path = stated if isinstance(stated, str) else item.name
    starts = [0, *(match.end() for match in re.finditer("/", path))]
    ends = [path[start:] for start in (starts[:-1] if item.type == "skill" else starts)]  # not `SKILL.md` alone
    stems = [re.sub(r"(?<=[^/])\.[^/]*$", "", end) for end in ends]
    return [f"{kind}{name}" for name in dict.fromkeys([*ends, *stems]) for kind in ("", f"{item.type}:")]


def _by_name(pairs: Iterable[tuple[str, ItemKey]]) -> dict[str, list[ItemKey]]:
    """The items by name, ignoring case."""
    groups = group_pairs((name.casefold(), key) for name, key in pairs if name)
    return {name: list(dict.fromkeys(keys)) for name, keys in groups.items()}


def _stripped(text: str) -> str:
    return _SEPARATORS.sub("", text.casefold())


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def named(value: Any) -> str:
    """The name in an entry of a log: a text, or an object with one of `NAME_KEYS`, and perhaps a `server`.

    An object may also be the definition of a tool for MCP, Anthropic (`name`) or OpenAI (`function`).

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, dict):
        value = value["function"] if isinstance(value.get("function"), dict) else value
        server = value.get("server", value.get("serverName"))
        name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
        value = ItemKey("tool", server, name).id if name is not None and isinstance(server, str) and server else name
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value.strip()


def unresolved(resolved: Iterable[Resolved], times: Counter[str], rule: str) -> dict[str, int]:
    """The names without an item, with their counts in the log, most frequent first."""
    names = {result.name: times[result.name] for result in resolved if result.rule == rule}
    return dict(sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))


def _clean(text: str) -> str:
    return _OTHER.sub("_", text.casefold()).strip("_")


QUERY = ("query", "input", "question", "request", "prompt")
EXPECTED = (
    *("expected", "expected_tools", "expected_items", "must_include", "include", "relevant", "required", "tools"),
    *("must_use", "should_use", "expected_skill", "expected_skills"),
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
        *("message", "text", "user_message", "user_query", "user_input", "user_prompt", "user_request", "utterance"),
        *("user_question", "user_utterance", "user_says", "customer_message", "customer_query", "customer_question"),
        *("query_text", "request_text", "question_text", "message_text", "instruction", "task"),
    ),
    "id": ("case_id", "test_id", "eval_id", "example_id", "question_id", "request_id", "uuid"),
}
"""Other names of fields, for records without the usual names; the first one is used."""
REQUESTS = (*QUERY, *OTHERWISE["query"], "messages", "inputs")
"""All names of the request, the usual ones first."""
LABELS = re.compile(
    r"(expected|relevant|correct|gold(en)?|required|target|positive|reference|supporting|evidence|(ground_)?truth|ideal"
    r"|label)"
    r"(_(tool|skill|rule|item|doc|document|chunk|passage|file|memory|id|context|source|node|function|name|path|page))*"
    r"s?(_(id|name|call)s?)?"
)
"""Other names of fields with expected items, for records without the usual names, if most of the values are items."""
FIELDS = {"query": QUERY, "expected": EXPECTED, "forbidden": FORBIDDEN, "id": IDS}
NAMING = ("name", "title")  # used as ids if there are no ids
READ_BESIDE = ("split", "tags")  # fields without other names
MAPPED = (*FIELDS, *READ_BESIDE)  # fields of --map
_OF_BODIES = ("tools", "include")  # names that requests to models have, too
_OF_LOGS = ("called", "offered", "resourceSpans")
_OF_TURNS = ("messages", "conversation", "model")  # fields of turns, which may have labels, too
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OF_DEFINITIONS = re.compile("description|parameters|schema|function", re.IGNORECASE)
_SAYS_NOT = re.compile(
    r"not|never|avoid|forbid|exclu|without|irrelevant|unexpected|disallow|(?:^|_)(?:no|dont|mustnt|shouldnt)_"
    r"|verbot|niemals|interdit|prohib|vietat|(?:^|[_ .])(?:nicht|kein|jamais|nunca|mai)"
)


@dataclass(frozen=True, slots=True)
class FieldRoles:
    """What the fields of the records of a file are for.

    Attributes:
        usual: by role, the fields with its usual names; a record has one of them.
        likely: by role, other fields that may have it, used if there is no usual one; the first with a value counts.
        offered: the fields with offered items: lists of definitions, and `tools` if another field has labels, or if
            they hold what could be chosen.
    """

    usual: Mapping[str, Sequence[str]]
    likely: Mapping[str, Sequence[str]]
    offered: Collection[str]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], evidence: FieldEvidence, fixed: Collection[str]) -> FieldRoles:
        """The roles of the fields of records, by their names and values; `fixed` roles have the field of their name."""
        filled = {name for record in records for name, value in record.items() if value is not None}
        plain = {name: snake(name) for record in records for name in record if name not in fixed}
        listed = {name for record in records for name in {*plain} & {*record} if listed_definitions(record[name])}
        listed = {name for name in listed if plain[name] not in FORBIDDEN and not _DONE.search(plain[name])}
        labels = {name for name in plain if plain[name] in EXPECTED or LABELS.fullmatch(plain[name])}
        tools = {name for name in plain if plain[name] == "tools"}
        offered = listed | tools
        if "expected" not in fixed and not any(plain[n] in EXPECTED for n in (labels - offered) & filled):
            offered = {name for name in listed - tools if plain[name] not in EXPECTED}  # others are faults
            offered |= {name for name in tools if name in listed or evidence.offers(name)}
        likely = labels & {name.partition(".")[0] for name in evidence.items} - offered
        unused = offered | (labels & {*evidence.texts} - likely if likely else set())
        named = {role: _called(plain, names, unused) for role, names in FIELDS.items()}
        fields_by_use = {
            "query": _called(plain, REQUESTS),
            "id": _called(plain, OTHERWISE["id"]) or (_naming(records) if not named["id"] else []),
            "expected": [name for name in plain if name in likely],
        }
        return cls(
            usual={role: [role] if role in fixed else named[role] for role in FIELDS},
            likely={role: names for role, names in fields_by_use.items() if role not in fixed},
            offered=offered,
        )

    def field(self, row: Row, role: str) -> str | None:
        """The field of a record with a role; several usual ones are a fault."""
        fields = [
            name for name in self.usual[role] if row.data.get(name) is not None or (name in row.data and name != role)
        ]
        if len(fields) > 1:
            row.fault(Message("labelling.several-fields", fields=" and ".join(map(repr, fields))))
        names = [name for name in (*fields, *self.likely.get(role, ())) if name in row.data]
        return next((name for name in names if name in fields or not is_blank(row.data[name])), next(iter(names), None))


def is_blank(value: Any) -> bool:
    """Whether a value is missing, or a text of blanks such as an empty cell of a table."""
    return value is None or (isinstance(value, str) and not value.strip())


def _called(plain: Mapping[str, str], names: Sequence[str], unused: Collection[str] = ()) -> list[str]:
    """The fields with some names, in the order of the names."""
    return sorted((n for n in plain if plain[n] in names and n not in unused), key=lambda n: names.index(plain[n]))


def listed_definitions(value: Any) -> list[Any]:
    """The definitions of items in a list (also by name, or as text); empty if it has other entries.

    The list may also have tools that the provider of the model runs, which have no definition.
    """
    entries = entries_of(value)
    return (
        [entry for entry in entries if describes_item(entry)]
        if all(describes_item(entry) or _is_hosted(entry) for entry in entries)
        else []
    )


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
    return (
        [inner for entry in value for inner in (entry if isinstance(entry, list) else [entry])]
        if isinstance(value, list)
        else []
    )


@lru_cache(maxsize=4096)
def snake(name: str) -> str:
    """The name of a field in snake case: `expectedTools` and `Expected tools` are `expected_tools`."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", name.strip().replace("(s)", "s"))).lower()


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """What the values of the fields of records tell; fields have dots for nested ones.

    Attributes:
        n_records: the number of records.
        items: by field, the items that its values name, by the number of the record; of fields whose values are mostly
            items in the records that have them.
        texts: the fields with texts that differ, those with the longest texts that differ first.
    """

    n_records: int
    items: Mapping[str, Mapping[int, frozenset[ItemKey]]]
    texts: Sequence[str]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], finder: ItemFinder) -> FieldEvidence:
        """Look the values of the first records up."""
        items: dict[str, dict[int, frozenset[ItemKey]]] = {}
        texts: dict[str, set[str]] = {}
        n_values: Counter[str] = Counter()
        for number, record in enumerate(records[:_LOOKED_AT]):
            for name, values in group_pairs(values_of(record)).items():
                n_values[name] += 1
                short = (value for value in values if len(value) < _LONGEST_NAME)
                entries = [entry for value in short for entry in label_entries(value, finder.resolve) or []]
                keys = frozenset(match.key for entry in entries if (match := finder.find(entry)) and match.key)
                if keys and 2 * len(keys) >= len(entries) and not _is_done(snake(name)):
                    items.setdefault(name, {})[number] = keys
                elif len(values) == 1 and isinstance(values[0], str):
                    texts.setdefault(name, set()).add(values[0])
        return cls(
            n_records=min(len(records), _LOOKED_AT),
            items={name: keys for name, keys in items.items() if 2 * len(keys) >= n_values[name]},
            texts=sorted(texts, key=lambda name: (len(texts[name]) == 1, -sum(map(len, texts[name])))),
        )

    def labels(self) -> list[str]:
        """The fields that may hold the expected items: one if the evidence is clear."""
        fields: dict[Any, str] = {}
        for name, keys in sorted(self.items.items(), key=lambda pair: -len(pair[1])):
            if 2 * len(keys) >= self.n_records and not _SAYS_NOT.search(snake(name)) and not _is_constant(keys):
                fields.setdefault(frozenset(keys.items()), name)  # an id and a name of one item are one field
        return [name for name in fields.values() if _GOLD.search(snake(name))] or list(fields.values())

    def rivals(self, name: str) -> list[str]:
        """The fields that may hold the expected items, if they name others than a field does in any record."""
        names = list(dict.fromkeys([name, *self.labels()]))
        mine = {
            n: keys for field, of in self.items.items() if field.partition(".")[0] == name for n, keys in of.items()
        }
        differ = any(self.items[field].get(n, keys) != keys for field in names[1:] for n, keys in mine.items())
        return names if differ else []

    def offers(self, name: str) -> bool:
        """Whether a field has what could be chosen: always the same items, or more than those of another field."""
        keys = self.items.get(name, {})
        return _is_constant(keys) or any(
            all(chosen < keys.get(number, frozenset()) for number, chosen in chosen_by.items())
            for chosen_by in self.items.values()
        )

    def forbidden(self) -> str:
        """The field that may hold the forbidden items; empty if none does, or several do."""
        fields = [name for name in self.items if _SAYS_NOT.search(snake(name))]
        return fields[0] if len(fields) == 1 else ""

    def request(self) -> str:
        """The field that is likely the request; empty if none is."""
        fields = [name for name in self.texts if not _NO_REQUEST.search(snake(name)) and name not in self.items]
        return next(iter([name for name in fields if _ASKS.search(snake(name))] or fields), "")


def _is_done(name: str) -> bool:
    """Whether the name of a field says what a program did or could choose, and not what is right."""
    return bool(_NO_LABEL.search(name) or (_GUESSED.search(name) and not _GOLD.search(name)))


def _is_constant(keys: Mapping[int, frozenset[ItemKey]]) -> bool:
    """Whether several records have the same items, several ones."""
    return len(keys) > 1 and len({*keys.values()}) == 1 < len(next(iter(keys.values())))


_LOOKED_AT, _LONGEST_NAME = 500, 300  # records, and characters
_HISTORY = 20  # messages before a request
_DONE = re.compile(
    r"retriev|actual|called|predict|used(?!ful)|(^|\.)(output|response)(\.|$)"
    r"|(model|llm|bot|agent)_(output|respon|answer|cho)"
)
_NO_LABEL = re.compile(
    rf"{_DONE.pattern}|candidate|available|offered|choice|option|distract|^_?id$|(^|\.)(q|query|case|test)_id$"
)
_GUESSED = re.compile(
    r"guess|rout(er|ed|ing)|suggest|propos|infer|detect|classif"
    r"|(^|[_.])(top|picks?|picked|models?|select(ed|ion|or)?|scored?|ranke[dr]|ranking)([_.\d]|$)"
)
_GOLD = re.compile(r"expect|correct|gold|relevan|truth|label|should|must|need|want|support|evidence|target|answer")
_ASKS = re.compile(r"user|ask|utter|quer|quest|prompt|messag|input|instruct|says?$|text")
_NO_REQUEST = re.compile(
    r"answer|response|output|expect|reference|context|explan|reason|rational|note|comment|descri|url|source|(^|_)id$"
)
_MARKS = ("|", ";", ",")  # between names in one field of a table
_NOTHING = ("none", "null", "nothing", "n/a", "-")


def label_entries(value: Any, resolve: Callable[[str], Resolved]) -> list[Any] | None:
    """The labels in a list, in a text with a list, or in an object with grades by name; None for other values."""
    if isinstance(value, str):
        text = value.strip()
        mark = next((mark for mark in _MARKS if mark in text), "\0")
        parts = [part.strip() for part in text.split(mark) if part.strip() and text.casefold() not in _NOTHING]
        is_name = resolve(text).key is not None
        value = parse_list(text) if text.startswith(("[", "{")) else [text] if is_name else parts
    if isinstance(value, dict) and value and all(type(grade) is int for grade in value.values()):
        return [{"id": name, "grade": grade} for name, grade in value.items()]  # as in qrels
    if isinstance(value, dict) and not is_place(value) and not any(name in value for name in (*NAME_KEYS, "function")):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(lists) == 1 else value  # such as {"tools": [...]}
    return [value] if isinstance(value, dict) else value if isinstance(value, list) else None


def request_of(value: Any) -> tuple[Any, tuple[ChatTurn, ...]]:
    """The text of a request and the messages before it; a value without a text is returned as it is.

    Args:
        value: a text; a list of messages, of which the last one of the user is the request; or an object with either.
    """
    value = parsed(value)
    if isinstance(value, dict):
        texts = [inner for name, inner in value.items() if snake(name) in REQUESTS]
        return request_of((texts or list(value.values()))[0]) if len(texts) == 1 or len(value) == 1 else (value, ())
    summary = summarise_messages(messages_of(value), history=_HISTORY)
    return (value if summary.text is None else summary.text), summary.history


def each_request(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A record, or a record without an id for each text in a list of requests."""
    lists = {
        name: texts for name, texts in data.items() if snake(name) in REQUESTS and isinstance(texts, list) and texts
    }
    name = next((name for name, texts in lists.items() if all(isinstance(text, str) for text in texts)), None)
    values = {field: value for field, value in data.items() if snake(field) not in IDS}
    return [data] if name is None else [values | {name: text} for text in data[name]]


def messages_of(value: Any) -> list[ChatMessage]:
    """The messages in a list, or in its text; empty if it has none."""
    with suppress(TypeError):
        return read_messages(value) if all_objects(value := parsed(value)) else []
    return []


def values_of(value: Any, name: str = "", *, in_list: bool = False) -> list[tuple[str, Any]]:
    """The texts and places of the fields in a value, numbers in lists, names with grades; no definitions.

    Messages give the last request alone: what an assistant called is no label.
    """
    value = parsed(value)
    if name and isinstance(value, dict) and value and all(type(grade) is int for grade in value.values()):
        value = list(value)
    if any(message.role == "assistant" for message in messages_of(value)):
        value = summarise_messages(messages_of(value), history=0).text
    if name and is_place(value) and all(snake(key) in (*PLACE_KEYS, *GRADES) for key in value):
        return [(name, value)]
    if isinstance(value, dict):
        inside = [(f"{name}.{key}" if name else str(key), inner) for key, inner in value.items()]
        return (
            [pair for key, inner in inside for pair in values_of(inner, key)]
            if not describes_item(value) or not name
            else []
        )
    if isinstance(value, list):
        return [pair for inner in value for pair in values_of(inner, name, in_list=True)]
    is_value = isinstance(value, str) or (in_list and type(value) is int)
    return [(name, str(value).strip())] if is_value and str(value).strip() else []


def has_request(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a record has a field for the request, or there is no record."""
    return not records or any(snake(name) in REQUESTS for record in records for name in record)


def useless_names(records: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    """The faults of a mapping: one message per mapped field that no record has."""
    fields = list(dict.fromkeys(name for record in records for name in record))
    pairs = [(field, path) for field, theirs in names.items() for path in _joined_paths(field, theirs, fields)]
    return [
        Message(
            "labelling.mapped-to-nothing", field=field, name=path, hint="" if path in fields else suggest(path, fields)
        )
        for field, path in pairs
        if records and not any(_has_entries(_mapped_values(record, {field: path})[field]) for record in records)
    ]


class JoinedLabels(dict[str, Any]):
    """The labels of a record in several fields that are mapped to one, by field."""


def _joined_paths(field: str, theirs: str, fields: Collection[str]) -> list[str]:
    """The fields that a mapping joins: `a` and `b` of `expected=a+b`."""
    return theirs.split("+") if field in JOINED_FIELDS and theirs not in fields else [theirs]


def with_names(data: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """A record with fields renamed by the mapping, without other names of mapped fields."""
    paths = [path for field, theirs in names.items() for path in _joined_paths(field, theirs, data)]
    roots = {path if path in data else path.partition(".")[0] for path in paths}
    mapped = {field: value for field, value in _mapped_values(data, names).items() if value is not None}
    values = {name: value for name, value in data.items() if name not in roots}
    return {snake(name) if snake(name) in READ_BESIDE else name: value for name, value in values.items()} | mapped


def _mapped_values(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The values of mapped fields; None where a record has none. Only labels may be lists of objects."""
    values: dict[str, Any] = {}
    for name, theirs in names.items():
        paths = _joined_paths(name, theirs, data)
        parts = {path: data[path] if path in data else _labels_at(data, path.split(".")) for path in paths}
        filled = {path: value for path, value in parts.items() if value is not None}
        values[name] = parts[theirs] if theirs in parts else JoinedLabels(filled) if filled else None
    for name in {"query", "id", "split"} & set(values):
        if isinstance(values[name], list) and "." in names[name] and not messages_of(values[name]):
            texts = [entry.get("id") if isinstance(entry, Mapping) else entry for entry in values[name]]
            texts = [text for text in texts if text is not None]
            values[name] = (
                [{"role": "user", "content": str(text)} for text in texts]
                if name == "query" and len(texts) > 1
                else "\n".join(map(str, texts)) or None
            )
    return values


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
        members = entry.items() if isinstance(entry, Mapping) else ()
        is_name = bool(members) and not isinstance(value, Mapping)
        label = {**{name: inner for name, inner in members if name not in NAME_KEYS}, "id": value}
        labels += value if isinstance(value, list) else [label if is_name else value]
    return labels


def _has_entries(labels: Any) -> bool:
    """Whether labels have anything but empty objects."""
    entries = labels if isinstance(labels, list) and labels else [labels]
    return any((entry.get("id", entry) if isinstance(entry, Mapping) else entry) is not None for entry in entries)


def is_eval(data: Mapping[str, Any]) -> bool:
    """Whether a record is a hand-written eval: a request with expected or forbidden items.

    A list of names in `tools` is a list of expected items. Records with fields of logs are not evals.
    """
    tools = data.get("tools")
    lists_names = isinstance(tools, list) and bool(tools) and all(isinstance(name, str) for name in tools)
    has_labels = (lists_names or names_items(data)) and not any(name in data for name in (*_OF_LOGS, *_OF_TURNS))
    return has_labels and any(isinstance(value, str) for value in _questions(data))


def is_log(data: Mapping[str, Any]) -> bool:
    """Whether a record is a line of a log: a request to a model, a turn or spans; never an eval."""
    if names_items(data):
        return False
    questions = _questions(data)
    bodies = [value for value in questions if isinstance(value, dict)]
    is_body = any(name in body for body in bodies for name in (*_OF_TURNS, "role"))
    is_chat = isinstance(data.get("messages"), list) and not any(isinstance(value, str) for value in questions)
    return is_body or is_chat or any(name in data for name in _OF_LOGS)


def _questions(data: Mapping[str, Any]) -> list[Any]:
    return [data[name] for name in data if snake(name) in (*QUERY, *OTHERWISE["query"])]


def names_items(data: Mapping[str, Any]) -> bool:
    """Whether a record has a usual field of expected or forbidden items, other than those of requests to models."""
    return any(
        ((plain := snake(name)) in (*EXPECTED, *FORBIDDEN) and plain not in _OF_BODIES)
        or (LABELS.fullmatch(plain) and re.search("_(tool|skill)s?$", plain))
        for name in data
    )


def _naming(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields with a different text in each record, to use as ids."""
    texts = {name: {str(record.get(name) or "").strip() for record in records} - {""} for name in NAMING}
    return [name for name in NAMING if len(texts[name]) == len(records)]


def read_id(row: Row, name: str | None) -> str:
    """The id, a text or a whole number; empty if it is missing."""
    if (value := row.data.get(name or "")) is not None and type(value) not in (str, int):
        row.fault(Message("labelling.field-choice", name=name, choices="a text or a whole number", got=value))
    return str(value) if type(value) in (str, int) else ""
