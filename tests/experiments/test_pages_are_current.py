"""Each page under reports/ is what its script writes from its CSV files: `make pages`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import LIMIT

ROOT = Path(__file__).parents[2]
SCRIPTS = [path for path in sorted(ROOT.glob("experiments/*/*.py")) if "run_page(" in path.read_text("utf-8")]
RUN = """
import runpy, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[1]).parent)]
import pages
pages.REPORTS, script = Path(sys.argv[3]), sys.argv[1]
sys.argv = [script, "--page"]
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.rest  # each starts a process
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_is_what_its_script_writes(script, tmp_path):
    for path in [*ROOT.glob("reports/*.csv"), *ROOT.glob("reports/*.md")]:
        shutil.copyfile(path, tmp_path / path.name)
    command = [sys.executable, "-c", RUN, str(script), str(ROOT / "experiments"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    written = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.md")}
    assert written == {path.name: path.read_text("utf-8") for path in ROOT.glob("reports/*.md")}, "run `make pages`"
    assert list(tmp_path.glob("*.svg"))
