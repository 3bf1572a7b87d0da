"""The notebooks: their text is the same, nothing is stored in them that was printed, and they run on what ships."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import jupytext
import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from ctxbench.selectors.definitions import read_presets

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def run(notebook, folder, monkeypatch):
    """Run a notebook in a folder, with a kernel that writes nowhere else and listens on no port."""
    with tempfile.TemporaryDirectory(prefix="nb-") as place:  # a short path: the kernel's sockets are named by it
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME"):
            monkeypatch.setenv(name, place)

        class OnSockets(AsyncKernelManager):
            def __init__(self, **given):
                super().__init__(transport="ipc", connection_file=f"{place}/kernel.json", **given)

        client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
        client.kernel_manager_class = OnSockets
        env = {
            name: value for name, value in os.environ.items() if name != "MPLBACKEND"
        }  # the kernel's own shows plots
        client.execute(env={**env, "CTXBENCH_CACHE": str(folder / "cache"), "CTXBENCH_OFFLINE": "1"})


def printed(notebook):
    return "".join(
        out.get("text", "") or str(out.get("data", {}).get("text/markdown", ""))
        for cell in notebook.cells
        for out in cell.get("outputs", [])
    )


def test_every_notebook_has_its_text_and_every_text_its_notebook():
    assert NAMES
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_text_and_notebook_agree(name):
    text, notebook = jupytext.read(FOLDER / f"{name}.py"), read(name)
    assert [(cell.cell_type, cell.source) for cell in text.cells] == [
        (cell.cell_type, cell.source) for cell in notebook.cells
    ]  # if not: jupytext --sync notebooks/NAME.py
    assert text.metadata.kernelspec == notebook.metadata.kernelspec
    assert text.metadata.jupytext.formats == notebook.metadata.jupytext.formats == "ipynb,py:percent"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_without_what_it_printed(name):
    notebook = read(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_tools", "beyond the first n=3"),
        ("gate_failure", "set refine.first.n back to 5"),
        ("embedders", "pairs of letters"),
        ("own_strategy", "not of the two best servers"),
        ("from_logs", "bm25, first 3 - everything"),
        ("label_errors", "first but not required"),
        ("sweep", "recommended"),
    ],
)
def test_a_short_notebook_runs_in_an_empty_folder_and_leaves_it_so(name, said, tmp_path, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    notebook = read(name)
    run(notebook, folder, monkeypatch)
    shown = [
        str(out["data"].get("text/plain", ""))
        for cell in notebook.cells
        for out in cell.get("outputs", [])
        if "data" in out
    ]
    assert any(said in text for text in shown)
    assert sorted(path.name for path in folder.iterdir()) in ([], ["cache"])


def test_the_notebook_on_presets_runs_on_workbench(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    notebook = read("presets")
    run(notebook, folder, monkeypatch)

    said = printed(notebook)
    assert "150 tuning and 150 test queries" in said
    assert "learned, defaults" in said
    assert "tuned fixed k" in said
    figures = [out for cell in notebook.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(figures) == 4  # the front, a map over two parameters, differences, and three datasets beside each other
    written = folder / "runs" / "presets"
    presets = read_presets(written / "presets.yaml").presets
    assert set(presets) <= {"lean", "full", "safe"}
    assert presets
    for preset in presets.values():
        assert preset.tuning["tokens"]["n"] == preset.test["tokens"]["n"] == 150
    assert (written / "report.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["notebooks"]


def test_a_cell_that_fails_fails_the_run(tmp_path, monkeypatch):
    notebook = read("presets")
    notebook.cells = [*notebook.cells[:2], nbformat.v4.new_code_cell("ctxbench.load('no-such-dataset')")]
    with pytest.raises(CellExecutionError, match="no-such-dataset"):
        run(notebook, tmp_path, monkeypatch)
