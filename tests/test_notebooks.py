"""The notebooks: what is saved in them is what a run shows, and a reader can read it without one."""

from __future__ import annotations

import base64
import io
import math
import re
import runpy
import subprocess
import tempfile
from pathlib import Path

import matplotlib.image
import nbformat
import numpy as np
import pytest
from nbclient.exceptions import CellExecutionError

from tests.children import LIMIT

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SCRIPT = runpy.run_path(str(ROOT / "experiments" / "guide" / "notebooks.py"))
PNG = "image/png"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
RELATIVE, ABSOLUTE = 0.05, 0.01  # of numbers in texts: processors break ties in different ways
PIXELS = 0.01  # the mean difference of two pictures, of 0 to 1


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(notebook):
    """By code cell, what it shows: texts (as HTML where there is some) and pictures, in their order."""
    return [[content(output) for output in cell.outputs] for cell in code(notebook)]


def content(output):
    data = output.get("data", {})
    kind = next((kind for kind in (PNG, "text/html", "text/plain") if kind in data), "text")
    return kind, data.get(kind, output.get("text", ""))


def is_same(saved, made):
    if [kind for kind, _ in saved] != [kind for kind, _ in made]:
        return False
    pairs = [(kind, before, after) for (kind, before), (_, after) in zip(saved, made, strict=True)]
    return all(
        difference(before, after) <= PIXELS if kind == PNG else agree(before, after) for kind, before, after in pairs
    )


def agree(saved, made):
    """Whether two texts have the same words, and numbers that are about equal."""
    if NUMBER.sub("0", " ".join(saved.split())) != NUMBER.sub("0", " ".join(made.split())):
        return False
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (saved, made)]
    return all(
        math.isclose(before, after, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for before, after in zip(*numbers, strict=True)
    )


def difference(saved, made):
    """The mean absolute difference of two pictures, 1 where their sizes differ by more than what a label takes."""
    before, after = (matplotlib.image.imread(io.BytesIO(base64.b64decode(png)))[..., :3] for png in (saved, made))
    if max(abs(np.subtract(before.shape, after.shape))) > 3:
        return 1.0
    height, width = np.minimum(before.shape, after.shape)[:2]
    return float(np.abs(before[:height, :width] - after[:height, :width]).mean())


@pytest.mark.parametrize("name", NAMES)
def test_a_run_shows_what_is_saved_and_leaves_the_folder_as_it_was(name):
    commits = re.findall(r'REPOSITORY, NEWEST = "..", "(\w+)"', "\n".join(cell.source for cell in code(read(name))))
    for commit in commits:
        command = ["git", "-C", ROOT, "cat-file", "-e", commit]
        if subprocess.run(command, capture_output=True, check=False, timeout=LIMIT).returncode:
            pytest.skip(f"this clone does not have commit {commit}")
    files = sorted(FOLDER.iterdir())
    saved, made = shown(read(name)), shown(SCRIPT["executed"](read(name)))
    differing = {
        number: [text if kind != PNG else "a picture" for kind, text in after]
        for number, (before, after) in enumerate(zip(saved, made, strict=True), start=1)
        if not is_same(before, after)
    }
    assert differing == {}, "these code cells show something else than is saved; if that is right, run `make notebooks`"
    assert sorted(FOLDER.iterdir()) == files


def test_a_cell_that_fails_fails_the_run(tmp_path):
    notebook = read("presets")
    notebook.cells = [*notebook.cells[:2], nbformat.v4.new_code_cell("ctxbench.load('no-such-dataset')")]
    with pytest.raises(CellExecutionError, match="no-such-dataset"):
        SCRIPT["executed"](notebook, tmp_path)


def test_what_differs_from_run_to_run_and_widgets_are_not_saved(tmp_path):
    source = """
import tempfile
from ipywidgets import interact
from IPython.display import display
print(tempfile.mkdtemp(), object())
from ctxbench.io import console
console.AFTER = console.EVERY_TERMINAL = -1
with console.progress_listener(True) as listener:
    listener("tiny, bm25", 1, 2)
interact(lambda n: print(n), n=(1, 3))
1"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    first = SCRIPT["executed"](notebook, tmp_path)
    texts = shown(first)[0]
    assert texts == [("text", "TEMP <object object at 0x0>\n"), ("text/plain", "1")]
    assert "widgets" not in first.metadata
    assert first.cells[0].execution_count is None
    assert first.cells[0].outputs[-1].execution_count is None


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_can_be_read_without_a_run(name):
    path, notebook = FOLDER / f"{name}.ipynb", read(name)
    nbformat.validate(notebook)
    assert path.stat().st_size < 400_000
    assert notebook.cells[0].source.startswith("# ")
    assert all(cell.execution_count is None for cell in code(notebook))
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert all(output.output_type != "error" and output.get("name") != "stderr" for output in outputs)
    assert sum(PNG in output.get("data", {}) for output in outputs) >= 2
    texts = "".join(text for cell in shown(notebook) for kind, text in cell if kind != PNG)
    assert not [path for path in (ROOT, Path.home(), tempfile.gettempdir()) if f"{path}/" in texts]


def test_the_notebook_on_presets_is_short():
    lines = [line for cell in code(read("presets")) for line in cell.source.splitlines()]
    assert len([line for line in lines if line.strip()]) <= 25


def test_every_notebook_is_listed():
    page = (ROOT / "experiments" / "guide" / "tutorials.md").read_text("utf-8")
    assert sorted(re.findall(r"\| \[\w+\]\(\.\./\.\./notebooks/(\w+)\.ipynb\)", page)) == NAMES


def picture(*points):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots()
    axes.bar(*points)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=72)
    plt.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()


def test_another_text_or_picture_is_seen():
    assert agree("complete  29.1\n", "complete 29.2")
    assert not agree("complete 29.1", "complete 31.1")
    assert not agree("complete 29.1", "complete 29.1*")
    assert not agree("1 2", "1")
    bars = picture([0, 1, 2, 3], [0, 1, 2, 3])
    assert difference(bars, picture([0, 1, 2, 3], [0, 1, 2, 3])) == 0
    assert difference(bars, picture([0, 1, 2, 3], [0, 1, 1.5, 3])) > PIXELS
    assert is_same([(PNG, bars)], [(PNG, bars)])
    assert not is_same([(PNG, bars)], [("text", "")])
    assert not is_same([("text", "1"), (PNG, bars)], [("text", "1")])
