"""What CONTRIBUTING.md shows is a package of somebody else's, with its tests, and they pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = dict(
    re.findall(
        r"^```python\n# (\S+)\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
)
TESTS = [name for name in FILES if name.startswith("tests/")]
POINTS = re.findall(
    r"entry-points\.\"(ctxbench\.\w+)\"\]\s+(\w+)\s+=\s+\"(mine\.[\w:.]+)\"",
    (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The files that the page shows, as a package that is installed."""
    folder = tmp_path_factory.mktemp("contributed")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "mine" / "__init__.py").touch()
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {target}\n" for group, name, target in POINTS))
    return folder


def test_the_page_shows_a_cut_a_metric_an_importer_and_a_report_block():
    assert {group for group, _, _ in POINTS} >= {"ctxbench.cut", "ctxbench.metric", "ctxbench.importer"}
    assert {"mine/cuts.py", "mine/metrics.py", "mine/importer.py", "mine/report.py"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_each_is_short(name):
    assert len(FILES[name].splitlines()) <= 30


@pytest.fixture(scope="module")
def outcomes(package, tmp_path_factory):
    """What went wrong in the tests that the page shows, by file, and what was printed: one process for all of them."""
    report = tmp_path_factory.mktemp("outcomes") / "report.xml"
    environment = {**os.environ, "CTXBENCH_CACHE": str(report.parent), "PYTHONPATH": f"{package}:{ROOT}"}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:ctxbench", "-o", "junit_family=xunit1"]
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *TESTS]
    done = subprocess.run(
        command, check=False, cwd=package, env=environment, capture_output=True, text=True, timeout=300
    )
    found = {}
    for case in ET.parse(report).iter("testcase"):
        found.setdefault(case.get("file"), []).append([one.tag for one in case if not one.tag.startswith("system-")])
    assert (done.returncode == 0) is not any(map(any, found.values())), done.stdout + done.stderr
    return found, done.stdout + done.stderr


@pytest.mark.essential
@pytest.mark.parametrize("name", TESTS)
def test_its_tests_pass_outside_the_package(outcomes, name):
    found, said = outcomes
    assert name in found, said
    assert not any(found[name]), said
