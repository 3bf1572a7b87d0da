"""Reads the imports of every module and fails on an edge that goes up, a cycle, or a module in no layer."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.syntax_trees import tree_of

ROOT = Path(__file__).parents[1] / "ctxbench"

# A module may import what stands in a lower layer, and in its own layer what stands to the left of it. A name
# covers everything below it, the longest name wins; inside one name any import goes that makes no cycle.
LAYERS = (
    "io",
    "model",
    "search",
    "catalogs",
    "pipelines",
    "datasets",
    "selectors",
    "evaluation",
    "labelling",
    "tuning",
    "gate",
    "report",
    "api",
    "memory",
    "testing",
    "cli __main__",
    "pytest_plugin",
)


STRATEGIES = "pipelines.strategies."


def layer_order(layers: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """The (layer, place) of every name."""
    return {name: (layer, place) for layer, line in enumerate(layers) for place, name in enumerate(line.split())}


ORDER = layer_order(LAYERS)


def modules_of(root: Path) -> dict[str, Path]:
    """Module names without the package's own (`""` for its root), and their files."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a node, at any depth. `ast.walk` also visits expressions, which are most nodes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
            yield from statements(child)


def imports_of(module: str, path: Path, package: str, known: set[str]) -> Iterator[tuple[str, int]]:
    """What a file imports from its package, with the line: everywhere in it, TYPE_CHECKING and functions included."""
    own = [package, *filter(None, module.split("."))]
    for node in statements(tree_of(path)):
        if isinstance(node, ast.Import):
            wanted = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            up = len(own) - node.level + (path.name == "__init__.py")
            base = (own[:up] if node.level else []) + (node.module.split(".") if node.module else [])
            wanted = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for name in wanted:
            if name[0] != package:
                continue
            inner = ".".join(name[1:])
            if isinstance(node, ast.ImportFrom) and inner not in known:
                inner = ".".join(name[1:-1])  # a class or function of a module
            yield inner, node.lineno


def name_of(module: str, order: dict[str, tuple[int, int]]) -> str | None:
    """The longest name in `order` that covers the module."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in order), None)


def private_imports(module: str, path: Path, package: str) -> list[str]:
    """Private names that a file imports from another module of its package."""
    return [
        f"{module or package}, line {node.lineno}: imports the private name {alias.name}"
        for node in statements(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == package)
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]


def faults_of(root: Path, order: dict[str, tuple[int, int]]) -> list[str]:
    """Everything that is wrong in the imports of a package."""
    modules = modules_of(root)
    faults = []
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for module, path in modules.items():
        mine = name_of(module, order)
        if module and mine is None:
            faults.append(f"{module}: stands in no layer")
        for other, line in imports_of(module, path, root.name, set(modules)):
            where = f"{module or root.name}, line {line}"
            if not other:
                faults.append(f"{where}: imports the package root")
                continue
            if other not in modules:
                faults.append(f"{where}: imports {other}, which is no module")
                continue
            graph[module].add(other)
            theirs = name_of(other, order)
            if mine and theirs and mine != theirs and order[theirs] >= order[mine]:
                faults.append(f"{where}: imports {other}, which stands above or to the right")
            if module != other and all(name.startswith(STRATEGIES) for name in (module, other)):
                faults.append(f"{where}: imports {other}; strategies never import each other")
        faults += private_imports(module, path, root.name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        faults.append(f"a cycle: {' -> '.join(error.args[1])}")
    return faults


@pytest.mark.essential
def test_imports_go_down_only() -> None:
    assert faults_of(ROOT, ORDER) == []


def test_every_module_is_read() -> None:
    modules = modules_of(ROOT)
    assert {"", "io.errors", "pipelines.pipeline", "pipelines.strategies.cut", "evaluation.metric_kernels"} <= set(
        modules
    )
    edges = dict(imports_of("pipelines.pipeline", modules["pipelines.pipeline"], "ctxbench", set(modules)))
    assert {"model.registry", "model.candidates", "model.requests"} <= set(edges)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small package in three layers without a fault."""
    root = tmp_path / "pack"
    files = {
        "__init__.py": "version = 1",
        "low.py": "import json",
        "next.py": "from pack import low",
        "pipelines/__init__.py": "",
        "pipelines/strategies/__init__.py": "",
        "pipelines/strategies/cut.py": "from pack.low import anything\nfrom pack import next",
        "pipelines/strategies/rank.py": "from ...low import anything",
        "top.py": "import pack.pipelines.strategies.cut",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


FOLDER = "pipelines/strategies"
SMALL = layer_order(("low next", "pipelines", "top"))


def test_a_package_in_order_has_no_fault(tree: Path) -> None:
    assert faults_of(tree, SMALL) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        (
            "low.py",
            "import os\nimport pack.pipelines.strategies.cut",
            "low, line 2: imports pipelines.strategies.cut, which stands above",
        ),
        ("low.py", "def late():\n    from pack import top", "low, line 2: imports top, which stands above"),
        ("low.py", "from pack.next import x", "low, line 1: imports next, which stands above or to the right"),
        ("top.py", "from pack.low import _x", "top, line 1: imports the private name _x"),
        (f"{FOLDER}/rank.py", "from pack.pipelines.strategies.cut import x", "strategies never import each other"),
        (f"{FOLDER}/rank.py", "from . import cut", "line 1: imports pipelines.strategies.cut; strategies never"),
        (f"{FOLDER}/rank.py", "from pack import version", "strategies.rank, line 1: imports the package root"),
        (f"{FOLDER}/rank.py", "import pack", "strategies.rank, line 1: imports the package root"),
        (f"{FOLDER}/__init__.py", "\nfrom ... import version", "strategies, line 2: imports the package root"),
        ("other.py", "", "other: stands in no layer"),
        ("top.py", "from pack.gone import x", "top, line 1: imports gone, which is no module"),
        (f"{FOLDER}/deep/__init__.py", "from ....top import x", "strategies.deep, line 1: imports top, which stands"),
    ],
)
def test_each_kind_of_fault_is_found(tree: Path, file: str, text: str, fault: str) -> None:
    (tree / file).parent.mkdir(exist_ok=True)
    (tree / file).write_text(text)
    found = faults_of(tree, SMALL)
    assert any(fault in one for one in found), found


def test_a_cycle_is_found_even_where_it_serves_types_only(tree: Path) -> None:
    (tree / "next.py").write_text("from pack import low")
    (tree / "low.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.next import x")
    assert [fault for fault in faults_of(tree, SMALL) if "a cycle" in fault and "low" in fault and "next" in fault]


def test_a_cycle_inside_one_name_is_found(tree: Path) -> None:
    (tree / "pipelines" / "parts").mkdir()
    for name, text in {"__init__": "", "a": "from pack.pipelines.parts import b", "b": "from .a import x"}.items():
        (tree / "pipelines" / "parts" / f"{name}.py").write_text(text)
    assert any("pipelines.parts.a" in fault and "cycle" in fault for fault in faults_of(tree, SMALL))


@pytest.mark.parametrize(
    "module",
    ["ctxbench", "ctxbench.model.registry", "ctxbench.io.errors", "ctxbench.model.items", "ctxbench.pytest_plugin"],
)
def test_light_modules_load_no_numpy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{'numpy', 'pandas', 'onnxruntime', 'typer'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
