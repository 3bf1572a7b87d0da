"""Tunes: finds what every policy asks for on the tuning split of each dataset, then reads the test split, once."""

from __future__ import annotations

from ctxbench.evaluation.tuning.choosing import PolicyError
from ctxbench.evaluation.tuning.for_all import ForAll
from ctxbench.evaluation.tuning.opening import Ready
from ctxbench.evaluation.tuning.results import Tuning
from ctxbench.evaluation.tuning.sides import Told
from ctxbench.evaluation.tuning.work import Work


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
        PolicyError: no setting can meet a policy on a dataset, or on all together; all of them, a line each.
        UserError: a selector fails.
    """
    works, wrong = [Work(ready, opened, progress) for opened in ready.datasets], []
    for work in works:
        try:
            work.choose()
        except PolicyError as error:
            wrong += [f"dataset {work.name}: {line}" for line in str(error).splitlines()]
    together = ForAll(works) if ready.file.together and len(works) > 1 else None
    if together is not None:
        try:
            together.choose(progress)
        except PolicyError as error:
            wrong += [f"all datasets together: {line}" for line in str(error).splitlines()]
    if wrong:
        raise PolicyError("\n".join(wrong))
    found = [work.result() for work in works]
    return Tuning(
        name=ready.file.name,
        about=ready.file.about,
        command=command,
        seed=ready.file.seed,
        embedder=str(ready.embedder.identity),
        datasets=(*found, *([together.result()] if together is not None else [])),
    )
