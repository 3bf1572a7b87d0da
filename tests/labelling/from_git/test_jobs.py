"""Histories read by other processes: the same datasets."""

from __future__ import annotations

import pytest

from ctxbench.catalogs.git_history import GitRepository
from ctxbench.datasets.files import write_dataset
from ctxbench.io.workers import OptionalPool, Workers
from ctxbench.labelling import git_history
from ctxbench.labelling.git_history import HistorySettings, history_dataset
from tests.checkout import written

HISTORY = [("Begin", {"src/a.py": "def f():\n    return 0\n", "README.md": "# x\n"})]
HISTORY += [
    (f"Let f return {n} in a{n}", {"src/a.py": f"def f():\n    return {n}\n", f"src/a{n}.py": f"A = {n}\n"})
    for n in range(1, 12)
]


@pytest.mark.rest
@pytest.mark.parametrize("view", ["files", "definitions"])
def test_processes_make_the_same_dataset(tmp_path, view, monkeypatch):
    monkeypatch.setattr(git_history, "_FILES", 3)
    monkeypatch.setattr(git_history, "_AT_ONCE", 2)
    repository = GitRepository(written(tmp_path / "repo", HISTORY).root)
    made = {}
    for jobs in (1, 2):
        with OptionalPool(Workers(jobs=jobs)) as pool:
            dataset, choice = history_dataset(repository, HistorySettings(view=view), notify=lambda *_: None, pool=pool)
        write_dataset(dataset, tmp_path / f"{view}{jobs}")
        files = sorted(path for path in (tmp_path / f"{view}{jobs}").rglob("*") if path.is_file())
        made[jobs] = [(path.name, path.read_bytes()) for path in files], choice
    assert made[1] == made[2]
    assert len(made[1][1].chosen) == 11
