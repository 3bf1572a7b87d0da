"""Experiments on the tiny dataset, and what their runs leave."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import run

TINY = Path(__file__).parents[2] / "fixtures" / "tiny"
SELECTORS = """
  - {selector: semantic, preset: normal}
  - {selector: semantic, preset: conservative}
  - {selector: random, like: semantic/conservative}
  - {selector: everything}
  - {selector: bm25, set: {n: 2}}
"""


def experiment(folder, selectors=SELECTORS, *, data=TINY, **given):
    settings = {"datasets": f"[{data}]", "embedder": "hashing", "tokens": "chars/4", **given}
    lines = [f"{key}: {value}" for key, value in settings.items()]
    path = folder / "e.yaml"
    path.write_text("\n".join([*lines, f"selectors:{selectors}"]), encoding="utf-8")
    return path


def run_file(path, folder, **given):
    return run(open_experiment(path), folder, **given)


def snapshot(folder):
    """Every file of a run but the times, by its place, as bytes."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "timings.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def offered(folder, selector, dataset="tiny"):
    lines = (RunFolder(folder).part_path(dataset, selector) / "selections.jsonl").read_text("utf-8").splitlines()
    return {row["query"]: [item["id"] for item in row["items"]] for row in map(json.loads, lines)}


def made_again(path, folder):
    """Which selectors a second call makes again."""
    before = {name: _part(folder, name).stat().st_ino for name in _names(folder)}
    report = run_file(path, folder)
    again = [name for name in _names(folder) if before.get(name) != _part(folder, name).stat().st_ino]
    assert (report.made, report.reused) == (len(again), len(_names(folder)) - len(again))
    return again


def _names(folder):
    return list(RunFolder(folder).read("manifest.json")["selectors"])


def _part(folder, name):
    return RunFolder(folder).part_path("tiny", name)


class StopError(Exception):
    """What a test stops a run with."""


def counted(function, stop_at, error, *, after=False):
    """The function, which raises at its call number `stop_at`, before or after doing its work."""
    calls = itertools.count(1)

    def call(*arguments, **named):
        now = next(calls) == stop_at
        if now and not after:
            raise error
        result = function(*arguments, **named)
        if now:
            raise error
        return result

    return call


def interrupted(path, folder, patch, *where):
    """Run until the injected error; True if it came."""
    with patch as patched:
        patched.setattr(*where)
        try:
            run_file(path, folder)
        except (KeyboardInterrupt, StopError):
            return True
    return False
