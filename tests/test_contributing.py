"""The recipes of CONTRIBUTING.md and of the page on extensions are an external package, and their tests pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "experiments" / "guide" / "extending.md")
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)
FILES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
SWEEP = '''
import ctxbench

SELECTOR = """{name: floor, parameters: {least: {default: 1.0, range: [0.0, 9.0]}},
              pipeline: {retrieve: bm25, refine: [{floor: {least: $least}}]}}"""
SMALL = {"embedder": "hashing", "counter": "chars/4"}


def test_the_sweep_equals_the_cut(tmp_path):
    (tmp_path / "floor.yaml").write_text(SELECTOR)
    front = ctxbench.tune("smoke", str(tmp_path / "floor.yaml"), minimise="tokens", completeness=0.2, **SMALL).front()
    for setting in front[front["line"] == "floor: front"].iloc[::5].itertuples():
        cut = ctxbench.pipeline("bm25", refine=[{"floor": {"least": setting.least}}])
        row = ctxbench.evaluate("smoke", {"floor": cut}, **SMALL).to_frame().loc["floor"]
        assert (row["completeness"], row["tokens"]) == (setting.completeness, setting.tokens)
'''
TESTS = [name for name in FILES if name.startswith("tests/")]
POINTS = re.findall(r"entry-points\.\"(ctxbench\.\w+)\"\]\s+(\w+)\s+=\s+\"(mine\.[\w:.]+)\"", TEXT)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The files of the pages as an installed package."""
    folder = tmp_path_factory.mktemp("contributed")
    for name, text in {**FILES, "tests/test_sweep.py": SWEEP}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "mine" / "__init__.py").touch()
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {target}\n" for group, name, target in POINTS))
    return folder


def test_the_pages_show_a_cut_a_metric_an_importer_a_report_block_and_a_file_format():
    assert {group for group, _, _ in POINTS} >= {"ctxbench.cut", "ctxbench.metric", "ctxbench.importer"}
    assert {"mine/cuts.py", "mine/metrics.py", "mine/importer.py", "mine/report.py", "mine/teams.py"} <= set(FILES)


@pytest.mark.parametrize("name", TESTS)
def test_each_recipe_is_short(name):
    texts = FILES[name.replace("tests/test_", "mine/")] + FILES[name]
    assert sum(bool(line.strip()) for line in texts.splitlines()) <= 30


@pytest.fixture(scope="module")
def outcomes(package, tmp_path_factory):
    """The failures of the pages' tests by file, and the output of the one process that ran them."""
    report = tmp_path_factory.mktemp("outcomes") / "report.xml"
    environment = {**os.environ, "CTXBENCH_CACHE": str(report.parent), "PYTHONPATH": f"{package}:{ROOT}"}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:ctxbench", "-o", "junit_family=xunit1"]
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", "tests"]
    done = subprocess.run(
        command, check=False, cwd=package, env=environment, capture_output=True, text=True, timeout=300
    )
    found = {}
    for case in ET.parse(report).iter("testcase"):
        found.setdefault(case.get("file"), []).append([one.tag for one in case if not one.tag.startswith("system-")])
    assert (done.returncode == 0) is not any(map(any, found.values())), done.stdout + done.stderr
    return found, done.stdout + done.stderr


@pytest.mark.essential
@pytest.mark.parametrize("name", [*TESTS, "tests/test_sweep.py"])
def test_its_tests_pass_outside_the_package(outcomes, name):
    found, said = outcomes
    assert name in found, said
    assert not any(found[name]), said
