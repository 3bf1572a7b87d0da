"""Experiments for tests, read and held to be right."""

from __future__ import annotations

from pathlib import Path

from ctxbench.evaluation.experiment import Experiment, examine
from ctxbench.io.errors import raise_faults


def read_experiment(path: Path) -> Experiment:
    """Read an experiment; what is wrong in it is an error with all faults."""
    experiment, faults = examine(path)
    raise_faults(faults)
    return experiment
