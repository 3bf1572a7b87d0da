"""Faults of one node of the syntax tree: which a function can have, how one is found again, and its source with it.

A mutant names a function and the n-th node that an operator can change in it. Modules may move and names may change:
a function that is not where it was is looked for by its qualified name, then by its shape, which is its syntax tree
without names and texts.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]

_COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


MUTANTS = Path(__file__).with_name("mutants.yaml")


class NotFoundError(LookupError):
    """The package has no place, or more than one, to which a mutant can be applied."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        id: short and unique.
        path: the file that held the function when the mutant was drawn, relative to the project.
        function: its qualified name.
        operator: a name of `OPERATORS`, `condition` (it is negated) or `default` (of a parameter; it is flipped).
        index: which of the nodes that the operator can change, from 0, in the order of the source.
        shape: of the function and of the node, by which they are found again.
    """

    id: str
    path: str
    function: str
    operator: str
    index: int
    shape: str


@dataclass(frozen=True)
class Site:
    """A node that an operator can change, and the source that takes its place."""

    path: Path
    function: str
    operator: str
    index: int
    shape: str
    node: ast.AST
    replacement: str

    def source(self, *, mutated: bool) -> str:
        """The whole file, with or without the fault."""
        text = self.path.read_bytes()
        if not mutated:
            return text.decode("utf-8")
        lines = text.splitlines(keepends=True)
        start = sum(map(len, lines[: self.node.lineno - 1])) + self.node.col_offset
        end = sum(map(len, lines[: self.node.end_lineno - 1])) + self.node.end_col_offset
        return (text[:start] + self.replacement.encode("utf-8") + text[end:]).decode("utf-8")

    def lines(self) -> tuple[str, str]:
        """The first line that differs, before and after."""
        before, after = self.source(mutated=False).splitlines(), self.source(mutated=True).splitlines()
        pairs = zip([*before, ""], [*after, ""], strict=False)
        return next((old.strip(), new.strip()) for old, new in pairs if old != new)


# ------------------------------------------------------------------------------------------ operators


def _comparison(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators)
    return None


def _arithmetic(node: ast.AST) -> ast.AST | None:
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        parts = (node.left, node.right)
        if not any(isinstance(part, texts) or _is_text(part) for part in parts):
            return ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    return None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _constant(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return ast.Constant(node.value + 1)
    return None


def _negated(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant):
        return ast.Constant(not node.value)
    return (
        node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else ast.UnaryOp(ast.Not(), node)
    )


def _logic(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    return None


def _slice(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Slice) and (node.lower or node.upper):
        one = ast.Constant(1)
        if node.upper is not None:
            return ast.Slice(node.lower, ast.BinOp(node.upper, ast.Add(), one), node.step)
        return ast.Slice(ast.BinOp(node.lower, ast.Add(), one), None, node.step)
    return None


def _order(node: ast.AST) -> ast.AST | None:
    """The order of `sorted` and `sort`, `min` for `max`, `any` for `all`."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id in _EXTREMES:
        return ast.Call(ast.Name(_EXTREMES[node.func.id]), node.args, node.keywords)
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name == "sorted" or (name == "sort" and not node.args):
        reverse = next((word.value for word in node.keywords if word.arg == "reverse"), ast.Constant(value=False))
        others = [word for word in node.keywords if word.arg != "reverse"]
        return ast.Call(node.func, node.args, [*others, ast.keyword("reverse", _negated(reverse))])
    return None


def _result(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        return ast.Return(ast.Constant(None))
    return None


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _statement(node: ast.AST) -> ast.AST | None:
    """A call that stands by itself, or an addition to a variable, is left out."""
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return ast.Pass()
    return None


OPERATORS: dict[str, Callable[[ast.AST], ast.AST | None]] = {
    "comparison": _comparison,
    "arithmetic": _arithmetic,
    "constant": _constant,
    "logic": _logic,
    "slice": _slice,
    "order": _order,
    "result": _result,
    "statement": _statement,
}


# ------------------------------------------------------------------------------------------ sites


@dataclass(frozen=True, eq=False)
class Function:
    """A function of a file; those inside functions belong to these.

    Attributes:
        path: of the file.
        name: the qualified name.
        node: the syntax tree.
    """

    path: Path
    name: str
    node: FunctionNode

    @cached_property
    def shape(self) -> str:
        """That of its syntax tree."""
        return shape_of(self.node)

    def sites(self) -> Iterator[Site]:
        """All places that can be changed, by operator and in the order of the source."""
        counts: dict[str, int] = {}
        for node in _nodes(self.node):
            for operator, target, changed in _changes(node):
                index = counts[operator] = counts.get(operator, -1) + 1
                replacement = ast.unparse(ast.fix_missing_locations(changed))
                if isinstance(target, ast.expr) and not isinstance(target, ast.Slice | ast.Constant | ast.Call):
                    replacement = f"({replacement})"
                shape = f"{self.shape} {shape_of(target)}"
                yield Site(self.path, self.name, operator, index, shape, target, replacement)


def functions_of(path: Path) -> tuple[Function, ...]:
    """All functions of a file."""
    return _functions_of(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1000)
def _functions_of(path: Path, _time: int) -> tuple[Function, ...]:
    return tuple(Function(path, *pair) for pair in _named_functions(ast.parse(path.read_text("utf-8")).body))


def _named_functions(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    for node in body:
        if isinstance(node, FunctionNode):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _named_functions(node.body, f"{prefix}{node.name}.")


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function in the order of the source, without annotations, decorators and formatted texts."""
    yield node
    skipped = ("annotation", "returns", "decorator_list")
    for field, value in ast.iter_fields(node):
        if field not in skipped:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
                    yield from _nodes(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """What can be changed at a node: the operator, the node or a part of it, and what takes its place."""
    for operator, change in OPERATORS.items():
        changed = change(node)
        if changed is not None:
            yield operator, node, changed
    for test in [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", []):
        yield "condition", test, _negated(test)
    if isinstance(node, ast.arguments):
        for default in [*node.defaults, *filter(None, node.kw_defaults)]:
            if isinstance(default, ast.Constant) and isinstance(default.value, bool):
                yield "default", default, ast.Constant(not default.value)


def shape_of(node: ast.AST) -> str:
    """A short hash of a syntax tree without its names and texts."""
    return hashlib.sha256(_skeleton(node).encode()).hexdigest()[:8]


def _skeleton(node: Any) -> str:
    if isinstance(node, list):
        return f"[{','.join(map(_skeleton, node))}]"
    if not isinstance(node, ast.AST):
        return "" if node is None or isinstance(node, str | bytes) else repr(node)
    fields = [value for field, value in ast.iter_fields(node) if field not in ("annotation", "returns", "type_params")]
    return f"{type(node).__name__}({','.join(map(_skeleton, fields))})"


# ------------------------------------------------------------------------------------------ finding one again


def read_mutants() -> list[Mutant]:
    """All mutants."""
    return [Mutant(**row) for row in yaml.safe_load(MUTANTS.read_text("utf-8"))]


def find(mutant: Mutant, root: Path = ROOT) -> Site:
    """The place that a mutant changes, wherever the function is defined now, and whatever it is called.

    Raises:
        NotFoundError: there is none, or it cannot be told which of several.
    """
    hint, name, shape = root / mutant.path, mutant.function.rpartition(".")[2], mutant.shape.split()[0]
    if hint.exists():
        for function in functions_of(hint):
            if function.name == mutant.function:
                return _site(mutant, function)
    paths = sorted((root / "ctxbench").rglob("*.py"))
    named = [
        function
        for path in paths
        if f"def {name}(" in path.read_text("utf-8")
        for function in functions_of(path)
        if function.name.rpartition(".")[2] == name
    ]
    groups = (
        lambda: [function for function in named if function.shape == shape],
        lambda: [function for path in paths for function in functions_of(path) if function.shape == shape],
        lambda: [function for function in named if function.name == mutant.function],
        lambda: named,
    )
    for group in groups:
        functions = group()
        found = [function for function in functions if function.name == mutant.function] or functions
        if len(found) == 1:
            return _site(mutant, found[0])
    raise NotFoundError(f"{mutant.id}: no function of the package is {mutant.function} of {mutant.path}")


def _site(mutant: Mutant, function: Function) -> Site:
    candidates = [site for site in function.sites() if site.operator == mutant.operator]
    node_shape = mutant.shape.split()[1]
    alike = [site for site in candidates if site.shape.split()[1] == node_shape]
    if mutant.index < len(candidates) and candidates[mutant.index] in alike:
        return candidates[mutant.index]
    if len(alike) == 1:
        return alike[0]
    raise NotFoundError(
        f"{mutant.id}: {function.name} in {function.path} has {len(alike)} nodes for '{mutant.operator}' of the "
        "recorded shape"
    )
