"""What `import ctxbench` gives whoever writes a strategy of their own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ctxbench


def test_every_name_is_there_and_is_that_of_its_module():
    for name in ctxbench.__all__:
        assert getattr(ctxbench, name) is not None
    assert ctxbench.Candidates.__module__ == "ctxbench.model.candidates"
    assert set(dir(ctxbench)) == {*ctxbench.__all__, "open"}  # `from ctxbench import *` leaves the built-in `open`


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(ctxbench.__file__).read_text("utf-8"))
    seen = {
        (node.module, alias.asname)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    told = {(f"ctxbench.{module}", name) for name, module in ctxbench._PLACES.items()}
    assert {one for one in seen if one[0].startswith("ctxbench.")} == told


def test_other_names_are_told_what_there_is():
    with pytest.raises(AttributeError, match="no attribute 'Candidate'; it has Batch, Candidates,"):
        _ = ctxbench.Candidate


def test_a_submodule_is_still_imported():
    code = (
        "import ctxbench, sys; from ctxbench import testing; import ctxbench.model.items; print('numpy' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
        == "True\n"
    )


def test_nothing_is_loaded_before_it_is_asked_for():
    heavy = ("ctxbench", "numpy", "pandas", "pydantic", "yaml", "typer", "rich")
    code = f"import ctxbench, sys; dir(ctxbench); print(*[n for n in sys.modules if n.partition('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "ctxbench\n"


STRATEGY = """
from dataclasses import dataclass
import numpy as np
import ctxbench

@dataclass(frozen=True)
class Half(ctxbench.Strategy):
    def __call__(self, query, candidates, resources):
        return ctxbench.reranked(candidates, np.where(candidates.tier > 0, candidates.score / 2, candidates.score))
"""


def test_a_strategy_needs_no_other_import(tmp_path, monkeypatch):
    (tmp_path / "half_strategy.py").write_text(STRATEGY)
    monkeypatch.syspath_prepend(str(tmp_path))
    from half_strategy import Half

    from ctxbench import testing

    assert (Half().uses, Half().version, Half().thresholds, list(Half().notices(None, None))) == ((), 1, {}, [])
    catalog = ctxbench.Catalog([ctxbench.Item(type="rule", name="tone", description="how to write")])
    batch = ctxbench.Batch.of(catalog, [ctxbench.Request(id="q", text="tone")])
    outcome = ctxbench.Pipeline.of({"retrieve": "bm25"}).run(batch, testing.mock_resources())
    halved = Half()(outcome.query, outcome.candidates, testing.mock_resources())
    assert halved.score.tolist() == [score / 2 for score in outcome.candidates.score.tolist()]
