"""What each language's syntax says is imported, as it is written; which files that are, other modules find."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ctxbench.index.code.code_records import MOST_NAMES, Import, TooComplexError

if TYPE_CHECKING:
    from tree_sitter import Node

COMMENTS = ("comment", "line_comment", "block_comment")
"""Kinds of nodes that are comments, in all grammars."""
ABOVE = (*COMMENTS, "attribute_item", "decorator")
"""Kinds of nodes above a definition that belong to it."""
_SPACE = re.compile(r"\s+")
_PATH_IN_TOKENS = re.compile(r"(?<![\w:.$])[a-z_]\w*(?:\s*::\s*\w+)+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)')  # also one that is not closed, in which no other can begin
_PATH = re.compile(r'^#\[path\s*=\s*"([^"]+)"')


def node_text(node: Node | None) -> str:
    """The source of a node; empty for none."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def read_imports(nodes: Iterable[Node], language: str, modules: Iterable[Node] = ()) -> Iterator[Import]:
    """The imports that nodes of a language's syntax tree are, by place.

    Args:
        nodes: what a query captured as imports.
        language: of the tree.
        modules: the nodes of inline modules, which paths of Rust are relative to.

    Raises:
        TooComplexError: paths are too long.
    """
    readers: dict[str, Callable[[Node, int], Iterator[Import]]] = {
        "python": _python_import,
        "rust": _RustImports(modules),
        "go": _go_import,
        "java": _java_import,
    }
    read = readers.get(language, _script_import)
    targets = set()
    n_characters = 0
    for node in sorted(nodes, key=lambda node: node.start_byte):
        for statement in read(node, node.start_point[0] + 1):
            n_characters += len(statement.target)
            if n_characters > MOST_NAMES:
                raise TooComplexError("the paths of its imports are too long")
            if statement.kind != "code" or statement.target not in targets:  # of what code says many times the first
                yield statement
            targets.add(statement.target)


def _python_import(node: Node, line: int) -> Iterator[Import]:
    names = [child.child_by_field_name("name") or child for child in node.children_by_field_name("name")]
    if node.type == "import_statement":
        yield from (Import(node_text(name), line=line) for name in names)
        return
    module = node.child_by_field_name("module_name")
    dotted = node_text(module) if module is not None else ""
    target = _SPACE.sub("", dotted)
    is_wildcard = any(child.type == "wildcard_import" for child in node.named_children)
    imported = ("*",) if is_wildcard else tuple(node_text(name) for name in names)
    yield Import(target.lstrip("."), imported, len(target) - len(target.lstrip(".")), "from", line)


def _script_import(node: Node, line: int) -> Iterator[Import]:
    source = node.child_by_field_name("source")
    kind, names = "import", list[str]()
    if node.type == "call_expression":
        called = node_text(node.child_by_field_name("function"))
        if called not in ("require", "import"):
            return
        kind, arguments = called, node.child_by_field_name("arguments")
        source = arguments.named_child(0) if arguments is not None else None
    for clause in node.named_children if node.type != "call_expression" else ():
        if clause.type == "import_require_clause":
            source = clause.child_by_field_name("source")
        for child in clause.named_children:
            if child.type == "named_imports":
                names += [
                    node_text(name)
                    for specifier in child.named_children
                    if (name := specifier.child_by_field_name("name"))
                ]
            elif child.type in ("export_specifier", "identifier"):
                names.append(node_text(child.child_by_field_name("name") or child) if "_" in child.type else "default")
            elif child.type == "namespace_import":
                names.append("*")
    if source is not None:
        yield Import(node_text(source)[1:-1], tuple(names), kind=kind, line=line)


def _go_import(node: Node, line: int) -> Iterator[Import]:
    path = node.child_by_field_name("path")
    if path is not None:
        yield Import(node_text(path)[1:-1], line=line)


def _java_import(node: Node, line: int) -> Iterator[Import]:
    text = "".join(
        node_text(child) for child in node.named_children if child.type in ("identifier", "scoped_identifier")
    )
    wildcard = ("*",) if any(child.type == "asterisk" for child in node.named_children) else ()
    static = any(child.type == "static" for child in node.children)
    yield Import(text, wildcard, kind="static" if static else "import", line=line)


class _RustImports:
    """Reads the imports of a Rust file, whose nodes it is called with by place: none is asked for all nodes around it.

    Args:
        modules: the nodes of inline modules.
    """

    def __init__(self, modules: Iterable[Node]) -> None:
        self._modules = sorted(modules, key=lambda node: node.start_byte, reverse=True)  # the first is last
        self._around: list[tuple[int, str]] = []  # the end and the name of each module around a node
        self._use_end = 0  # of the last `use`

    def __call__(self, node: Node, line: int) -> Iterator[Import]:
        """The imports that a node is."""
        inside = self._inside(node)
        if node.type == "token_tree":  # what a macro is called with is no syntax yet
            for path in _PATH_IN_TOKENS.findall(_STRING.sub(_without_closed, node_text(node))):
                yield _rust_code(path, line, inside)
        elif node.type in ("scoped_identifier", "scoped_type_identifier"):  # `crate::a::f()` in code
            if node.start_byte >= self._use_end and (path := _rust_path(node)):
                yield _rust_code(path, line, inside)
        elif node.type == "mod_item":
            if node.child_by_field_name("body") is None:
                name = "::".join([*inside, node_text(node.child_by_field_name("name"))])
                matches = (_PATH.search(text) for text in _attributes(node))
                file = next((match[1] for match in matches if match), "")
                yield Import(name, (file,) if file else (), kind="path" if file else "mod", line=line)
        elif node.type == "extern_crate_declaration":
            name = node_text(node.child_by_field_name("name"))
            yield Import(name, (node_text(node.child_by_field_name("alias")) or name,), kind="use", line=line)
        else:
            self._use_end = node.end_byte
            argument = node.child_by_field_name("argument")
            for written, alias in _use_paths(argument) if argument is not None else ():
                path = written.removesuffix("::self")
                name = alias or path.rpartition("::")[2]
                yield Import(_without_inline(path, inside), (name,), kind="use", line=line)

    def _inside(self, node: Node) -> list[str]:
        """The names of the inline modules around a node, from the outermost."""
        start = node.start_byte
        while self._modules and self._modules[-1].start_byte < start:
            module = self._modules.pop()
            self._leave(module.start_byte)
            self._around.append((module.end_byte, node_text(module.child_by_field_name("name"))))
        self._leave(start)
        return [name for _, name in self._around]

    def _leave(self, start: int) -> None:
        while self._around and self._around[-1][0] <= start:
            self._around.pop()


def _without_closed(string: re.Match[str]) -> str:
    return "" if string[1] else string[0]


def _rust_path(node: Node) -> str:
    """The whole path that begins with a node; empty for one that says where a name is visible."""
    outermost, parent = node, node.parent
    while parent is not None and parent.type in ("scoped_identifier", "scoped_type_identifier", "generic_type"):
        outermost, parent = parent, parent.parent
    if parent is not None and parent.type == "visibility_modifier":
        return ""
    return node_text(outermost).partition("<")[0].strip().removesuffix("::")


def _rust_code(path: str, line: int, inside: list[str]) -> Import:
    """What a path in code takes from where; the last name on it is no module."""
    before, _, name = _SPACE.sub("", path).rpartition("::")
    return Import(_without_inline(before, inside), (name,), kind="code", line=line)


def _without_inline(path: str, inside: list[str]) -> str:
    """A path as the file itself would write it: `super::x` in its inline module is its own `self::x`."""
    parts, up = path.split("::"), [*inside]
    if parts[0] not in ("self", "super") or not inside:
        return path
    parts = parts[parts[0] == "self" :]
    while parts and parts[0] == "super" and up:
        parts, up = parts[1:], up[:-1]
    start = [] if parts and parts[0] == "super" else ["self"]
    return "::".join([*start, *up, *parts])


def _attributes(node: Node) -> Iterator[str]:
    above = node.prev_sibling
    while above is not None and above.type in ABOVE:
        yield node_text(above)
        above = above.prev_sibling


def _use_paths(node: Node) -> Iterator[tuple[str, str]]:
    """All paths of a `use` tree, each with the name that `as` gives it: `a::{b as x, c::*}` is `a::b` and `a::c::*`."""
    waiting = [(node, "")]
    while waiting:
        node, start = waiting.pop()
        if node.type == "use_list":
            waiting += [(child, start) for child in reversed(node.named_children)]
        elif node.type == "scoped_use_list":
            before, inner = node.child_by_field_name("path"), node.child_by_field_name("list")
            if inner is not None:
                waiting.append((inner, f"{start}{node_text(before)}::" if before is not None else start))
        elif node.type == "use_as_clause":
            path, alias = (node_text(node.child_by_field_name(field)) for field in ("path", "alias"))
            yield start + path, alias
        elif node.type not in COMMENTS:
            yield start + _SPACE.sub("", node_text(node)).removeprefix("::"), ""
