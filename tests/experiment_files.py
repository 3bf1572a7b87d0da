"""Experiments for tests, read and held to be right."""

from __future__ import annotations

from pathlib import Path

from ctxbench.evaluation.answers import SUFFIX, Part, StoredAnswers, write_blocks, write_slice
from ctxbench.evaluation.experiment import Experiment, examine
from ctxbench.io.errors import raise_faults
from ctxbench.model.items import Catalog


def read_experiment(path: Path) -> Experiment:
    """Read an experiment; what is wrong in it is an error with all faults."""
    experiment, faults = examine(path)
    raise_faults(faults)
    return experiment


def store_blocks(slices, path):
    """Write answers in the given blocks to a file, and open it."""
    folder = path.with_suffix(".slices")
    folder.mkdir()
    for number, block in enumerate(slices):
        write_slice(folder / f"{number:06d}{SUFFIX}", block)
    part = Part(dataset="desk", selector="chosen", key="", answers=StoredAnswers.read(folder), metrics={})
    with path.open("wb") as stream:
        write_blocks(part, Catalog(()), stream)
    return StoredAnswers.read(path)
