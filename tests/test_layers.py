"""Reads the imports of every module and fails on an edge that goes up, a cycle, or a module in no layer."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "ctxbench"

# A module may import what stands in a lower layer, and in its own layer what stands to the left of it. A name
# covers everything below it, the longest name wins; inside one name any import goes that makes no cycle.
LAYERS = (
    (
        "io.visible io.console core.errors core.arrays io.leftovers io.other_forms io.near_files io.files "
        "io.output_paths io.system_faults net.http_limits net.http_connection io.merge_conflicts io.json_files "
        "io.yaml_kinds io.yaml_files io.yaml_form io.process_lock"
    ),
    (
        "io.cache io.checked_rows core.times core.facts core.catalog_hashes core.items core.strategy core.registry "
        "core.rules core.notes core.stored_pipelines core.candidates core.shown core.masks core.request_checks "
        "core.requests core.candidate_tables core.query core.selection core.side_by_side core.stages core.step_outputs "
        "core.pipeline core io"
    ),
    (
        "text.original_rules text.chunking text.byte_pairs text.tokens text.redaction_rules text.redaction "
        "text.encodings text.secrets text features.stored_fits net embedding index planning features sources stores"
    ),
    "steps",
    "selectors bench.selector_specs bench.experiment_file session",
    (
        "bench.progress_listener bench.metrics bench.stats bench.machine data.datasets.row_groups "
        "data.datasets.query_labels data.datasets.content_checks data.datasets.dataset "
        "data.datasets.layout data.datasets.reader data.datasets.replacement data.datasets.writer data.importers "
        "data.datasets.lookup data.datasets data.fetch data.labelling.query_files "
        "data.traces bench.provenance bench.slices "
        "bench.stored_answers bench.labels bench.answer_rows bench.results data.curation bench.prepared bench.summary "
        "bench.dataset_run bench.runner bench.latency data.labelling data tuning.sweep bench tuning gate"
    ),
    "report",
    "library",
    "memory",
    "server cli testing pytest_plugin __main__",
)


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
    for node in statements(ast.parse(path.read_text("utf-8"))):
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
            if mine == theirs == "steps" and module != other and "." in other and "." in module:
                faults.append(f"{where}: imports {other}; step families never import each other")
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
    assert {"", "core.errors", "core.pipeline", "steps.cut", "bench.metrics.kernels"} <= set(modules)
    edges = dict(imports_of("core.pipeline", modules["core.pipeline"], "ctxbench", set(modules)))
    assert {"core.registry", "core.candidates", "core.requests"} <= set(edges)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small package in three layers without a fault."""
    root = tmp_path / "pack"
    files = {
        "__init__.py": "version = 1",
        "low.py": "import json",
        "next.py": "from pack import low",
        "steps/__init__.py": "",
        "steps/cut.py": "from pack.low import anything\nfrom pack import next",
        "steps/rank.py": "from ..low import anything",
        "top.py": "import pack.steps.cut",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


SMALL = layer_order(("low next", "steps", "top"))


def test_a_package_in_order_has_no_fault(tree: Path) -> None:
    assert faults_of(tree, SMALL) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("low.py", "import os\nimport pack.steps.cut", "low, line 2: imports steps.cut, which stands above"),
        ("low.py", "def late():\n    from pack import top", "low, line 2: imports top, which stands above"),
        ("low.py", "from pack.next import x", "low, line 1: imports next, which stands above or to the right"),
        ("steps/rank.py", "from pack.steps.cut import x", "imports steps.cut; step families never"),
        ("steps/rank.py", "from . import cut", "steps.rank, line 1: imports steps.cut; step families never"),
        ("steps/rank.py", "from pack import version", "steps.rank, line 1: imports the package root"),
        ("steps/rank.py", "import pack", "steps.rank, line 1: imports the package root"),
        (
            "steps/__init__.py",
            "from pack.steps.cut import x\nfrom .. import version",
            "steps, line 2: imports the pack",
        ),
        ("other.py", "", "other: stands in no layer"),
        ("top.py", "from pack.gone import x", "top, line 1: imports gone, which is no module"),
        ("steps/cut/__init__.py", "from ...top import x", "steps.cut, line 1: imports top, which stands above"),
    ],
)
def test_each_kind_of_fault_is_found(tree: Path, file: str, text: str, fault: str) -> None:
    if file == "steps/cut/__init__.py":
        (tree / "steps" / "cut.py").unlink()
    (tree / file).parent.mkdir(exist_ok=True)
    (tree / file).write_text(text)
    found = faults_of(tree, SMALL)
    assert any(fault in one for one in found), found


def test_a_cycle_is_found_even_where_it_serves_types_only(tree: Path) -> None:
    (tree / "next.py").write_text("from pack import low")
    (tree / "low.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.next import x")
    assert [fault for fault in faults_of(tree, SMALL) if "a cycle" in fault and "low" in fault and "next" in fault]


def test_a_cycle_inside_one_name_is_found(tree: Path) -> None:
    (tree / "steps" / "parts").mkdir()
    for name, text in {"__init__": "", "a": "from pack.steps.parts import b", "b": "from .a import x"}.items():
        (tree / "steps" / "parts" / f"{name}.py").write_text(text)
    assert any("steps.parts.a" in fault and "cycle" in fault for fault in faults_of(tree, SMALL))


@pytest.mark.parametrize(
    "module",
    ["ctxbench", "ctxbench.core.registry", "ctxbench.core.errors", "ctxbench.core.items", "ctxbench.pytest_plugin"],
)
def test_light_modules_load_no_numpy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{'numpy', 'pandas', 'onnxruntime', 'typer'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
