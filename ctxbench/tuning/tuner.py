"""Tunes: finds what every policy asks for on the queries that decide on each dataset, then reads a test split, once."""

from __future__ import annotations

from ctxbench.tuning.common_setting import CommonSetting
from ctxbench.tuning.dataset_tuning import DatasetTuner
from ctxbench.tuning.inputs import TuningInputs
from ctxbench.tuning.query_sets import Progress
from ctxbench.tuning.results import Tuning


def no_progress(text: str, done: int, total: int) -> None:
    """Tell nobody."""


def tune(ready: TuningInputs, *, command: str, progress: Progress = no_progress) -> Tuning:
    """Tune on every dataset.

    All choices on all datasets are made before the test split of any is read.

    Args:
        ready: what was opened.
        command: the line that repeats this, for the report.
        progress: told how far it is.

    Raises:
        UserError: a selector fails.
    """
    tuners = [DatasetTuner(ready, opened, progress) for opened in ready.datasets]
    for work in tuners:
        work.choose()
    together = CommonSetting(tuners) if ready.file.together and len(tuners) > 1 else None
    if together is not None:
        together.choose(progress)
    found = [work.result() for work in tuners]
    return Tuning(
        name=ready.file.name,
        about=ready.file.about,
        command=command,
        seed=ready.file.seed,
        embedder=ready.embedder.identity.key,
        datasets=(*found, *([together.result()] if together is not None else [])),
    )
