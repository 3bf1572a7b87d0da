"""Reading YAML with faults by file, line and column, and writing it.

What is read holds JSON's types only: no NaN, no infinity, no dates, no key twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ctxbench.core.errors import Fault, InputError
from ctxbench.io.files import read_text
from ctxbench.io.json_files import finite, place_of
from ctxbench.io.merge_conflicts import MERGED, conflicts
from ctxbench.io.yaml_kinds import refuse_other_kind

if TYPE_CHECKING:
    import yaml

YamlPath: TypeAlias = tuple[str | int, ...]

_FAST = 4_000  # brackets, and columns, up to which YAML cannot be nested too deeply for libyaml
_MAX_YAML_NODES = 200_000  # aliases of aliases and merges of merges can stand for more nodes than fit in memory
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
        InputError: it is not UTF-8 or not YAML (line and column), it stands for more than 200,000 values, or a
            mapping has a key twice or a tag names a type that JSON lacks (all of them).
    """
    import yaml

    text = read_text(path)
    loader = None
    try:
        loader, node = _composed(text)
        lines: dict[YamlPath, int] = {(): 1}
        if node is None:
            return None, lines
        faults: list[Fault] = []
        if _size(node, {}) > _MAX_YAML_NODES:
            raise InputError([Fault(f"YAML stands for more than {_MAX_YAML_NODES} values", path)])
        _walk(node, (), lines, faults, path)
        if faults:
            raise InputError(list(dict.fromkeys(faults)))  # what an alias repeats is wrong once
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        if conflict_lines := conflicts(text):
            raise InputError([Fault(MERGED, path, line) for line in conflict_lines]) from error
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

    PyYAML's own parser says what is wrong in the words that messages are made of, and stands any depth: libyaml's
    binding ends the process. Each level of nesting takes a bracket, or a column (a list in a mapping half of one).
    """
    import yaml

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
    for end in range(len(path), -1, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0


def dump_yaml(data: Any, *, short: bool = False) -> str:
    """Write YAML that `load_yaml` reads back equal, keys in their order, texts of several lines as blocks.

    With `short`, a mapping or list that holds no other stands on one line, in braces or brackets.
    """
    import yaml

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
    import yaml

    class CoreDumper(yaml.SafeDumper):
        """Puts in quotes what either version of YAML would read as something else than text."""

    for tag, pattern, first in _CORE:
        CoreDumper.add_implicit_resolver(tag, re.compile(f"^(?:{pattern})$"), first)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = '"' if "\x85" in value else "|" if "\n" in value else None  # U+0085 would be read back as a line end
        return dumper.represent_scalar(f"{_TAG}str", value, style=style)

    CoreDumper.add_representer(str, text)
    return CoreDumper


def _yaml_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(_yaml_number(node, lambda: int(text, 0 if text[:2] in ("0x", "0o") else 10)))


def _yaml_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node))
    return float(_yaml_number(node, lambda: finite(text)))


def _yaml_number(node: yaml.ScalarNode, read: Callable[[], float]) -> float:
    import yaml

    try:
        return read()
    except ValueError as error:
        problem = f"{node.value[:40]!r} is no finite number"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values a node stands for, aliases and merges written out; `known` keeps those of nodes."""
    import yaml

    if id(node) in sizes:
        if not sizes[id(node)]:
            problem = "an alias refers to what it stands in"
            raise yaml.composer.ComposerError(None, None, problem, node.start_mark)
        return sizes[id(node)]
    sizes[id(node)] = 0  # being counted
    size = 1
    if isinstance(node, yaml.CollectionNode):
        size += sum(_size(entry[1] if isinstance(entry, tuple) else entry, sizes) for entry in node.value)
    sizes[id(node)] = size
    return size


def _is_json(node: yaml.Node) -> bool:
    """Whether the tag of a node, written or not, is a type of JSON and fits what stands there."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        pattern = _VALUES.get(node.tag)
        return node.tag == f"{_TAG}str" or (pattern is not None and pattern.fullmatch(node.value) is not None)
    return bool(node.tag == f"{_TAG}{'map' if isinstance(node, yaml.MappingNode) else 'seq'}")


def _walk(node: yaml.Node, path: YamlPath, lines: dict[YamlPath, int], faults: list[Fault], file: Path | str) -> None:
    """Note the line of every path below `node`, the keys that are twice or no plain values, and tags of other types."""
    import yaml

    mark = node.start_mark
    lines.setdefault(path, mark.line + 1)
    if not _is_json(node):
        tag = node.tag.replace(_TAG, "!!")
        message = f"tag {tag} does not fit: a value is what JSON has; leave the tag out, or put a text in quotes"
        faults.append(Fault(message, file, mark.line + 1, mark.column + 1))
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
                message = "a key must be a plain text; put it in quotes if it is meant so"
                faults.append(Fault(message, file, mark.line + 1, mark.column + 1))
            elif key.value in keys:
                message = f"key {key.value!r} stands twice in one mapping"
                faults.append(Fault(message, file, mark.line + 1, mark.column + 1))
            else:
                keys.add(key.value)
                lines[(*path, key.value)] = mark.line + 1
                _walk(value, (*path, key.value), lines, faults, file)
