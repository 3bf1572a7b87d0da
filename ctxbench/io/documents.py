"""Read and write JSON, JSON lines and YAML, with faults by file, line and column.

Values read from JSON have no NaN, no infinity and no key twice. YAML is read with JSON's types only: no dates either.
"""

from __future__ import annotations

import copy
import json
import math
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from sys import intern
from typing import Any, TypeAlias

import yaml

from ctxbench.io.errors import Fault, InputError, Message, conflict_faults, without_marks
from ctxbench.io.files import iter_lines, read_text

_DEEP = "JSON is nested too deeply"
_MARGIN = 200  # the largest indentation of an entry that faults can give a column for
_BETWEEN = re.compile(r"[ \t\r\n,:]*")  # what separates values


def iter_jsonl(path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line number, row) of a file with one JSON object a line; what `iter_records` takes for one.

    A line that is not UTF-8, not JSON or no object is added to `faults` and passed over, so that one pass finds
    all of them: look at `faults` when the iterator is at its end.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    for number, text in iter_records(path, faults):
        try:
            row = parse_json(text, path=path, line=number)
        except InputError as error:
            faults.extend(error.faults)
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            faults.append(Fault(Message("io.row-type", got=_kind(row)), path, number, 1))


def iter_records(path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, text) of every record of a file that should hold one a line; blank lines are not.

    A file that is one JSON list, or holds values that are spread over lines, gives the text of each entry or value with
    the line that it starts in. One that starts so and is malformed gives nothing, and is one fault. An empty file
    yields nothing.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is compressed, so that it has no lines.
    """
    before = len(faults)
    lines = ((line, text) for line, text in without_marks(iter_lines(path, faults), path, faults) if text.strip())
    if (first := next(lines, None)) is None:
        return
    if first[1].strip() != "{" and not first[1].lstrip().startswith("["):
        yield first
        yield from lines
        return
    numbered = [first, *lines]
    parts, line = [], 1
    for number, value in numbered:
        parts.append("\n" * (number - line) + value)
        line = number
    text = "".join(parts)
    try:
        records = list(_spread_records(text))
    except (ValueError, RecursionError) as error:
        if _is_one_a_line(numbered):
            yield from numbered
        elif len(faults) == before:  # else lines are missing, which is said
            faults.append(_spread_fault(text, error, path))
        return
    yield from records


def is_lines(path: Path | str) -> bool:
    """Whether a file that is no JSON document holds JSON objects one after the other; False where it is malformed.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    first = next((text for _, text in iter_records(path, [])), "")
    start = next((text.lstrip()[:1] for _, text in iter_lines(path, []) if text.strip()), "")
    return start == "{" and _is_json_text(first)


def _spread_records(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each value, and of each entry of a list that holds objects.

    Raises:
        ValueError: something is no JSON value.
    """
    decoder = json.JSONDecoder()
    line, counted = 1, 0
    position = after_blanks(text, 0)
    while position < len(text):
        value, end = decoder.raw_decode(text, position)
        entries = [(position, end)]
        if isinstance(value, list) and (not value or any(isinstance(entry, dict) for entry in value)):
            entries, inner = [], position + 1
            for _ in value:
                start = after_blanks(text, inner)
                _, inner = decoder.raw_decode(text, start)
                entries.append((start, inner))
        for start, stop in entries:
            line, counted = line + text.count("\n", counted, start), start
            margin = start - (text.rfind("\n", max(start - _MARGIN, 0), start) + 1)
            yield line, " " * (margin if margin < _MARGIN else 0) + text[start:stop]
        position = after_blanks(text, end)


def after_blanks(text: str, position: int) -> int:
    """The position of the next JSON value: after blanks, commas and colons."""
    between = _BETWEEN.match(text, position)
    return position if between is None else between.end()


def _is_one_a_line(numbered: Sequence[tuple[int, str]]) -> bool:
    """Whether a file that starts as JSON spread over lines does not go on so: its first line is one record."""
    return _is_json_text(numbered[0][1]) or (
        len(numbered) > 1 and numbered[1][1].lstrip().startswith("{") and numbered[0][1].strip() == "{"
    )


def _is_json_text(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _spread_fault(text: str, error: Exception, path: Path | str) -> Fault:
    """What is wrong with JSON that is spread over lines."""
    if not isinstance(error, json.JSONDecodeError):
        return Fault(f"malformed JSON: {error}" if isinstance(error, ValueError) else _DEEP, path)
    return Fault(_malformed(text, error), path, error.lineno, error.colno)


def read_json(path: Path | str) -> Any:
    """Read one JSON document.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is not UTF-8 or not JSON (line and column), or an object has a key twice (all of them).
    """
    return parse_json(read_text(path), path=path)


def parse_json(text: str, *, path: Path | str | None = None, line: int = 1) -> Any:
    """Parse one JSON document.

    Args:
        text: the document.
        path: named in faults.
        line: the 1-based line of the file at which the text starts.

    Raises:
        InputError: not JSON, NaN or an infinite number, or an object has a key twice (all of them).
    """
    try:
        try:
            return _DECODER.decode(text)
        except KeyError:
            json.loads(text, parse_constant=finite, parse_float=finite)  # what is malformed is said first
    except json.JSONDecodeError as error:
        if faults := conflict_faults(text, path, line):
            raise InputError(faults) from error
        message = Message("io.empty-json") if not text.strip() else _malformed(text, error)
        raise InputError([Fault(message, path, line + error.lineno - 1, error.colno)]) from error
    except RecursionError as error:
        raise InputError([Fault(_DEEP, path, line)]) from error
    except _NotFiniteError as error:
        starts = [start for start, word in _words(text) if word == error.number]
        where = place_of(text, starts[0] if starts else 0, line)
        raise InputError([Fault(f"{error.number} is no JSON number; expected a finite one", path, *where)]) from error
    except ValueError as error:  # an integer of more than 4,300 digits
        raise InputError([Fault(f"malformed JSON: {error}", path, line)]) from error
    raise InputError(
        [
            Fault(Message("io.duplicate-json-key", key=key), path, *place_of(text, start, line))
            for start, key in _duplicate_keys(text)
        ]
    )


def values_with_lines(text: str, position: int = 0, *, end: str = "") -> Iterator[tuple[int, Any]]:
    """Yield JSON values that follow each other, with blanks, commas and colons between, each with its 1-based line.

    Args:
        text: holds the values.
        position: where they begin.
        end: characters of which any ends the values; the end of the text does in any case.

    Raises:
        ValueError: something is no JSON value; after all values before it.
    """
    decoder = json.JSONDecoder()
    line, counted = 1, 0
    while True:
        position = after_blanks(text, position)
        if text[position : position + 1] in {"", *end}:
            return
        line, counted = line + text.count("\n", counted, position), position
        value, position = decoder.raw_decode(text, position)
        yield line, value


def _malformed(text: str, error: json.JSONDecodeError) -> str:
    """What is wrong with JSON; a string that does not end goes on to the end of the text."""
    cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    return Message("io.json-cut" if cut else "io.malformed-json", why=error.msg)


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """Write JSON: compact on one line, or indented with a line end; keys in their order, text readable.

    Lone surrogates, which UTF-8 cannot hold, are escaped (with all other non-ASCII text of that value).

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = _encoder(indent, ascii_only=False).encode(value)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = _encoder(indent, ascii_only=True).encode(value)
    return text + "\n" if indent else text


@cache  # making one takes longer than writing a short row
def _encoder(indent: int | None, *, ascii_only: bool) -> json.JSONEncoder:
    separators = (",", ": ") if indent else (",", ":")
    return json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=False, indent=indent, separators=separators)


def dump_jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write one JSON object a line; no rows give an empty text."""
    return "".join(f"{dump_json(row)}\n" for row in rows)


def _kind(value: object) -> str:
    """What a JSON value is called in a message."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
             float: "a number", type(None): "null"}  # fmt: skip
    return names.get(type(value), type(value).__name__)


class _NotFiniteError(ValueError):
    def __init__(self, number: str) -> None:
        self.number = number
        super().__init__(number)


def finite(number: str) -> float:
    """The number in a text.

    Raises:
        ValueError: it is NaN or infinite, or the text is no number.
    """
    value = float(number)
    if not math.isfinite(value):
        raise _NotFiniteError(number)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; its keys are shared with those of other documents.

    Raises:
        KeyError: it has a key twice.
    """
    row = {intern(key): value for key, value in pairs}
    if len(row) != len(pairs):
        raise KeyError
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=finite, parse_float=finite)  # one for all texts


def place_of(text: str, offset: int, first_line: int) -> tuple[int, int]:
    """The 1-based (line, column) of an offset."""
    before = text[:offset]
    return first_line + before.count("\n"), offset - (before.rfind("\n") + 1) + 1


def _words(text: str) -> Iterator[tuple[int, str]]:
    """The words of valid JSON (or of JSON with NaN) with their offsets; blanks, commas and colons left out."""
    yield from (
        (match.start(), match.group())
        for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}:]|[^\s,:\[\]{}"]+', text, re.DOTALL)
    )


def _duplicate_keys(text: str) -> Iterator[tuple[int, str]]:
    """Offset and name of each key that its object has already."""
    open_objects: list[set[str]] = []
    last = (0, "")
    for start, word in _words(text):
        if word in "[{":
            open_objects.append(set())
        elif word in "]}":
            open_objects.pop()
        elif word == ":":
            if (key := json.loads(last[1])) in open_objects[-1]:
                yield last[0], key
            open_objects[-1].add(key)
        last = (start, word)


# By kind: the keys that identify it, and the message with its use.
_KINDS = {
    "an agent file": ({"sources"}, "io.use-agent"),
    "a gate file": ({"gate"}, "io.use-gate"),
    "an experiment": ({"datasets", "selectors"}, "io.use-experiment"),
    "a policy file": ({"policies"}, "io.use-policy"),
    "a presets file": ({"format", "presets"}, "io.use-presets"),
    "a selector": ({"pipeline"}, "io.use-selector"),
}


def refuse_other_kind(data: Any, path: Path, *, expected: str, keys_allowed: Collection[str] = ()) -> None:
    """Refuse a file of another kind, rather than each of its keys; nothing to do where all keys are known.

    Args:
        data: the file's content.
        path: the file.
        expected: the kind that is read: `an experiment`.
        keys_allowed: the keys that such a file may have.

    Raises:
        InputError: it is one of the other kinds, and of one only.
    """
    if not isinstance(data, Mapping) or set(data) <= set(keys_allowed):
        return
    kinds = [kind for kind, (marks, _) in _KINDS.items() if marks <= set(data)]
    if "a gate file" in kinds and "an experiment" in kinds:
        kinds.remove("an experiment")  # a gate file is one with more in it
    if len(kinds) != 1 or kinds == [expected]:
        return
    presets = data.get("presets")
    preset = next(iter(presets), "NAME") if isinstance(presets, Mapping) else "NAME"  # the first of a presets file
    form = f"{{presets: {path}, preset: {preset}}}"
    use = Message(_KINDS[kinds[0]][1], path=shlex.quote(str(path)), form=form)
    raise InputError([Fault(Message("io.other-kind", path=path, kind=kinds[0], expected=expected, use=use))])


YamlPath: TypeAlias = tuple[str | int, ...]

_FAST = 4_000  # brackets, and columns, up to which YAML cannot be nested too deeply for libyaml
_MAX_YAML_NODES = 200_000  # aliases of aliases and merges of merges can expand to more nodes than fit in memory
_TAG = "tag:yaml.org,2002:"
_CORE = (  # YAML 1.2 core schema without its .nan and .inf; https://yaml.org/spec/1.2.2/#103-core-schema
    (f"{_TAG}null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (f"{_TAG}bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (f"{_TAG}int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (f"{_TAG}float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    (f"{_TAG}merge", r"<<", ["<"]),
)  # fmt: skip
_VALUES = {tag: re.compile(pattern) for tag, pattern, _ in _CORE if tag != f"{_TAG}merge"}


def load_yaml(path: Path | str) -> tuple[Any, dict[YamlPath, int]]:
    """Read one YAML document by YAML 1.2's core rules: `yes` and `2026-03-23` are text, `1e-5` is a number.

    Returns:
        The data, in JSON's types (None for an empty file), and the 1-based line of every key and list entry by
        its path: `lines["selectors", 0, "name"]`; `lines[()]` is where the document starts. A path that came in
        by a merge key (`<<`) has no line of its own: `line_of` gives that of the closest known one.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is not UTF-8 or not YAML (line and column), it expands to more than 200,000 values, or a
            mapping has a key twice or a tag names a type that JSON lacks (all of them).
    """
    return parse_yaml(read_text(path), Path(path))


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[YamlPath, int]]:
    """Parse one YAML document; see `load_yaml`. The path is named in faults."""
    data, lines = _parsed_yaml(text, path)
    return copy.deepcopy(data), dict(lines)


@lru_cache(maxsize=16)  # a command may need a file in several places
def _parsed_yaml(text: str, path: Path) -> tuple[Any, dict[YamlPath, int]]:
    """The data and the lines of a YAML document, which callers must not change."""
    loader = None
    try:
        loader, node = _composed(text)
        lines: dict[YamlPath, int] = {(): 1}
        if node is None:
            return None, lines
        faults: list[Fault] = []
        if _size(node, {}) > _MAX_YAML_NODES:
            raise InputError([Fault(f"YAML expands to more than {_MAX_YAML_NODES} values", path)])
        _walk(node, (), lines, faults, path)
        if faults:
            raise InputError(list(dict.fromkeys(faults)))  # what an alias repeats is wrong once
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        if conflicts := conflict_faults(text, path):
            raise InputError(conflicts) from error
        mark = error.problem_mark or error.context_mark
        message = f"malformed YAML: {' '.join(filter(None, (error.context, error.problem)))}"
        where = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise InputError([Fault(message, path, *where)]) from error
    except yaml.reader.ReaderError as error:
        where = place_of(text, error.position, 1)
        raise InputError([Fault(f"malformed YAML: {error.reason}", path, *where)]) from error
    except RecursionError as error:
        raise InputError([Fault("YAML is nested too deeply", path)]) from error
    finally:
        if loader is not None:
            loader.dispose()


def _composed(text: str) -> tuple[yaml.SafeLoader, yaml.Node | None]:
    """The loader of a text and its node: by libyaml, ten times as fast, where PyYAML has it and the text is right.

    PyYAML's own parser gives the error messages that faults are made of, and supports any depth: libyaml's
    binding ends the process. Each level of nesting takes a bracket, or a column (a list in a mapping half of one).
    """
    brackets, widest = text.count("[") + text.count("{"), max(map(len, text.splitlines()), default=0)
    if yaml.__with_libyaml__ and max(brackets, widest) < _FAST:
        fast = _loader(yaml.CSafeLoader)(text)
        try:
            return fast, fast.get_single_node()
        except (yaml.YAMLError, RecursionError):
            fast.dispose()
    slow = _loader(yaml.SafeLoader)(text)
    try:
        return slow, slow.get_single_node()
    except BaseException:
        slow.dispose()
        raise


def load_mapping(path: Path, *, description: str, keys: Iterable[str]) -> tuple[Mapping[str, Any], dict[YamlPath, int]]:
    """Read a YAML file that must be a mapping, as `load_yaml` does.

    Args:
        path: the file.
        what: the kind of file, with its article: `an experiment`.
        keys: what such a mapping may hold.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no YAML, no mapping, or a file of another kind.
    """
    keys = tuple(keys)
    data, lines = load_yaml(path)
    if isinstance(data, Mapping):
        refuse_other_kind(data, path, expected=description, keys_allowed=keys)
        return data, lines
    empty = "the file is empty; " if data is None else ""
    raise InputError([Fault(f"{empty}{description} is a mapping of {', '.join(keys)}", path, line_of(lines, ()))])


def line_of(lines: Mapping[YamlPath, int], path: YamlPath) -> int:
    """The 1-based line of a path, or of the closest thing around it that has one; 0 if nothing has."""
    return next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), 0)


def dump_yaml(data: Any, *, short: bool = False) -> str:
    """Write YAML that `load_yaml` reads back equal, keys in their order, texts of several lines as blocks.

    With `short`, a mapping or list without nested ones is written on one line, in braces or brackets.
    """
    flow = None if short else False
    return str(
        yaml.dump(data, Dumper=_dumper(), default_flow_style=flow, sort_keys=False, allow_unicode=True, width=110)
    )


@cache
def _loader(parser: type[Any]) -> type[Any]:
    class CoreLoader(parser):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own form

    for tag, pattern, first in _CORE:
        CoreLoader.add_implicit_resolver(tag, re.compile(f"^(?:{pattern})$"), first)
    CoreLoader.add_constructor(f"{_TAG}int", _yaml_int)
    CoreLoader.add_constructor(f"{_TAG}float", _yaml_float)
    return CoreLoader


@cache
def _dumper() -> type[yaml.SafeDumper]:
    class CoreDumper(yaml.SafeDumper):
        """Puts in quotes what either version of YAML would read as something else than text."""

    for tag, pattern, first in _CORE:
        CoreDumper.add_implicit_resolver(tag, re.compile(f"^(?:{pattern})$"), first)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = '"' if "\x85" in value else "|" if "\n" in value else None  # U+0085 would be read back as a line end
        return dumper.represent_scalar(f"{_TAG}str", value, style=style)

    CoreDumper.add_representer(str, text)
    CoreDumper.add_multi_representer(str, text)  # a `Message`
    return CoreDumper


def _yaml_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(_yaml_number(node, lambda: int(text, 0 if text[:2] in ("0x", "0o") else 10)))


def _yaml_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node))
    return float(_yaml_number(node, lambda: finite(text)))


def _yaml_number(node: yaml.ScalarNode, read: Callable[[], float]) -> float:
    try:
        return read()
    except ValueError as error:
        problem = f"{node.value[:40]!r} is no finite number"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """The number of values of a node with aliases and merges expanded; `known` caches those of nodes."""
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise yaml.composer.ComposerError(None, None, "an alias contains itself", node.start_mark)
        return sizes[id(node)]
    sizes[id(node)] = 0  # being counted
    size = 1
    if isinstance(node, yaml.CollectionNode):
        size += sum(_size(entry[1] if isinstance(entry, tuple) else entry, sizes) for entry in node.value)
    sizes[id(node)] = size
    return size


def _is_json_node(node: yaml.Node) -> bool:
    """Whether the tag of a node, explicit or not, is a JSON type and fits its value."""
    if isinstance(node, yaml.ScalarNode):
        pattern = _VALUES.get(node.tag)
        return node.tag == f"{_TAG}str" or (pattern is not None and pattern.fullmatch(node.value) is not None)
    return bool(node.tag == f"{_TAG}{'map' if isinstance(node, yaml.MappingNode) else 'seq'}")


def _walk(node: yaml.Node, path: YamlPath, lines: dict[YamlPath, int], faults: list[Fault], file: Path | str) -> None:
    """Note the line of every path below `node`, the keys that are twice or no plain values, and tags of other types."""
    mark = node.start_mark
    lines.setdefault(path, mark.line + 1)
    if not _is_json_node(node):
        tag = node.tag.replace(_TAG, "!!")
        faults.append(Fault(Message("io.yaml-tag", tag=tag), file, mark.line + 1, mark.column + 1))
        return
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            _walk(entry, (*path, index), lines, faults, file)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            mark = key.start_mark
            if key.tag == f"{_TAG}merge":
                _walk(value, (), {}, faults, file)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
                faults.append(Fault(Message("io.yaml-key"), file, mark.line + 1, mark.column + 1))
            elif key.value in keys:
                message = Message("io.duplicate-yaml-key", key=key.value)
                faults.append(Fault(message, file, mark.line + 1, mark.column + 1))
            else:
                keys.add(key.value)
                lines[(*path, key.value)] = mark.line + 1
                _walk(value, (*path, key.value), lines, faults, file)


_TOKEN = re.compile(  # an unclosed comment ends the search at once: trying every mark again would take quadratic time
    r'(?P<kept>"(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*.*?\*/|(?P<open>/\*.*)', re.DOTALL
)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|,(?=\s*[\]}])')
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s,:\[\]{}"]+', re.DOTALL)


def read_jsonc(path: Path | str) -> tuple[Any, str]:
    """Read one JSON document that may hold `//` and `/* */` comments and trailing commas.

    Returns:
        The data, and its text as plain JSON of the same lines and columns (for `entry_lines`).

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is not UTF-8 or not JSON (line and column), or an object has a key twice.
    """
    text = plain_json(read_text(path))
    return parse_json(text, path=path), text


def plain_json(text: str) -> str:
    """Replace comments and trailing commas by blanks; every other character keeps its line and column."""
    without = _TOKEN.sub(lambda m: m["kept"] or m["open"] or re.sub(r"[^\n]", " ", m.group()), text)
    return _TRAILING_COMMA.sub(lambda m: m.group(1) or " ", without)


def entry_lines(text: str) -> dict[YamlPath, int]:
    """The 1-based line of every value of valid JSON by its path; of an object's field, the line of its key.

    `lines["tools", 3]` is the line where the fourth entry of the list `tools` starts; `lines[()]` that of the whole.
    """
    breaks = [match.start() for match in re.finditer("\n", text)]
    return {path: bisect_right(breaks, start) + 1 for path, start in _values(text)}


def _values(text: str) -> Iterator[tuple[YamlPath, int]]:
    """(path, offset) of every value; a field's offset is that of its key."""
    path: list[str | int] = []
    objects: list[bool] = []  # for each open bracket, whether it is an object's
    key: str | None = None  # set between a key and its value
    for match in _WORD.finditer(text):
        word, start = match.group(), match.start()
        if word in ":,":
            continue
        if word in "]}":
            objects.pop()
            path.pop()
            key = None
            continue
        if objects and objects[-1] and key is None:
            key = str(parse_json(word))
            path[-1] = key
            yield tuple(path), start
            continue
        if objects and not objects[-1]:
            path[-1] = int(path[-1]) + 1
            yield tuple(path), start
        elif not objects:
            yield (), start
        key = None
        if word in "[{":
            objects.append(word == "{")
            path.append(-1)
