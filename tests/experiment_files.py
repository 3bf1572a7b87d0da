"""Experiments for tests, read and held to be right."""

from __future__ import annotations

from pathlib import Path

from ctxbench.evaluation.answers import Part, StoredAnswers, write_blocks
from ctxbench.evaluation.experiment import Experiment, examine
from ctxbench.io.errors import raise_faults
from ctxbench.model.items import Catalog


def read_experiment(path: Path) -> Experiment:
    """Read an experiment; what is wrong in it is an error with all faults."""
    experiment, faults = examine(path)
    raise_faults(faults)
    return experiment


class _Blocks:
    """Answers in blocks that a test chooses."""

    def __init__(self, slices):
        self.blocks = lambda: iter(slices)


def store_blocks(slices, path):
    """Write answers in the given blocks to a file, and open it."""
    part = Part(dataset="desk", selector="chosen", key="", answers=_Blocks(slices), metrics={})
    with path.open("wb") as stream:
        write_blocks(part, Catalog(()), stream)
    return StoredAnswers.read(path)
