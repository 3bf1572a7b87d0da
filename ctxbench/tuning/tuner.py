"""Tunes on all datasets: every choice is made on the tuning sets, and then test splits are read, once."""

from __future__ import annotations

from ctxbench.tuning.common_setting import CommonSetting
from ctxbench.tuning.dataset_tuning import DatasetTuner
from ctxbench.tuning.opened_inputs import TuningInputs
from ctxbench.tuning.query_sets import Progress
from ctxbench.tuning.tuning_results import Tuning


def no_progress(text: str, done: int, total: int) -> None:
    """Report no progress."""


def tune(inputs: TuningInputs, *, command: str, progress: Progress = no_progress) -> Tuning:
    """Tune on every dataset.

    All choices on all datasets are made before the test split of any is read.

    Args:
        inputs: what is tuned.
        command: the line that repeats this, for the report.
        progress: told how far it is.

    Raises:
        UserError: a selector fails.
    """
    tuners = [DatasetTuner(inputs, dataset, progress) for dataset in inputs.datasets]
    for tuner in tuners:
        tuner.choose()
    common = CommonSetting(tuners) if inputs.file.together and len(tuners) > 1 else None
    if common is not None:
        common.choose(progress)
    found = [tuner.result() for tuner in tuners]
    return Tuning(
        name=inputs.file.name,
        about=inputs.file.about,
        command=command,
        seed=inputs.file.seed,
        embedder=inputs.embedder.identity.key,
        datasets=(*found, *([common.result()] if common is not None else [])),
    )
