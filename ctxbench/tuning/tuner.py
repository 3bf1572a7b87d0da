"""Tunes: finds what every policy asks for on the queries that decide on each dataset, then reads a test split, once."""

from __future__ import annotations

from ctxbench.tuning.dataset_tuning import Work
from ctxbench.tuning.inputs import Ready
from ctxbench.tuning.joint_setting import ForAll
from ctxbench.tuning.results import Tuning
from ctxbench.tuning.split_answers import Told


def nobody(text: str, done: int, total: int) -> None:
    """Tell nobody."""


def tune(ready: Ready, *, command: str, progress: Told = nobody) -> Tuning:
    """Tune on every dataset.

    All choices on all datasets are made before the test split of any is read.

    Args:
        ready: what was opened.
        command: the line that repeats this, for the report.
        progress: told how far it is.

    Raises:
        UserError: a selector fails.
    """
    works = [Work(ready, opened, progress) for opened in ready.datasets]
    for work in works:
        work.choose()
    together = ForAll(works) if ready.file.together and len(works) > 1 else None
    if together is not None:
        together.choose(progress)
    found = [work.result() for work in works]
    return Tuning(
        name=ready.file.name,
        about=ready.file.about,
        command=command,
        seed=ready.file.seed,
        embedder=ready.embedder.identity.key,
        datasets=(*found, *([together.result()] if together is not None else [])),
    )
