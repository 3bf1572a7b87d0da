"""Evaluation of selectors from Python: the same run that `ctxbench run` makes."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.bench import runner
from ctxbench.bench.experiment_file import DEFAULT_METRICS, Experiment
from ctxbench.bench.prepared import Prepared, open_experiment, prepare
from ctxbench.bench.progress_listener import Progress, nothing_said, silent
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.library.dataset_frames import Data, opened
from ctxbench.library.embedders import EmbedderGiven, embedder_name
from ctxbench.library.result_frames import Results
from ctxbench.library.selectors import selector_spec

if TYPE_CHECKING:
    pass


def evaluate(
    data: Data | str | Path | Sequence[Data | str | Path],
    selectors: Mapping[str, Any] | Sequence[str] | str,
    *,
    baseline: str | None = None,
    split: str = "",
    sample: int = 0,
    metrics: Sequence[str] | None = None,
    embedder: EmbedderGiven = "minilm",
    counter: str = "o200k",
    seed: int = 0,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> Results:
    """Ask selectors about every query of one or several datasets, and measure what they offer.

    Args:
        data: datasets, or their names.
        selectors: by the name that tables give them: a shipped selector (`"semantic/documents"`, or the path of a
            definition), such a one with values (`{"selector": "memory", "set": {"n": 5}}`), a `pipeline`, recorded
            `answers`, a function of the request and the items that returns the ids chosen (`function(request, items)`,
            both as dicts), or an object with `describe` and `select`. A list of shipped selectors names them by
            themselves.
        baseline: the selector that the others are compared with; None = the first.
        split: whose queries are asked; empty = all.
        sample: how many of these at most, drawn by groups; 0 = all.
        metrics: names, such as `R@5`, each of which every table shows; None = the usual ones.
        embedder: its name, such as `minilm`, or a function from a list of texts to an array of their vectors, shape
            (n_texts, n_dimensions).
        counter: what counts prompt tokens, such as `o200k`.
        seed: of the resampling in statistics, and of the sample.
        out: the run folder, which the next call goes on with, and `ctxbench report` shows, too, unless a dataset is in
            memory alone; None = one that goes with the results.
        progress: told about every slice of queries.

    Returns:
        The results; in a notebook they show themselves as a table.

    Raises:
        UserError: something is unknown or does not suit the datasets: all faults at once.

    Example:
        >>> ds = ctxbench.load("datasets/smoke")
        >>> res = ctxbench.evaluate(ds, ["bm25", "everything"], embedder="hashing", counter="chars/4")
        >>> res.to_frame()["completeness"].round(2).tolist()
        [0.62, 1.0]
    """
    datasets = {name: loaded.dataset for name, loaded in opened(data).items()}
    several = [selectors] if isinstance(selectors, str) else selectors
    named = several if isinstance(several, Mapping) else {str(name): name for name in several}
    if not named:
        raise ParameterError("selectors is empty; name at least one")
    if baseline is not None and baseline not in named:
        raise UnknownNameError("baseline", baseline, named)
    experiment = Experiment(
        name="evaluate",
        about="",
        path=None,
        base=Path(),
        datasets=tuple(datasets),
        selectors=tuple(selector_spec(name, selector) for name, selector in named.items()),
        metrics=DEFAULT_METRICS if metrics is None else tuple(metrics),
        metrics_named=metrics is not None,
        embedder=embedder_name(embedder),
        tokens=counter,
        seed=seed,
        compare_to=baseline or next(iter(named)),
        split=split,
        sample=sample,
    )

    def opening(name: str, **_: Any) -> Dataset:
        return datasets[name]

    return _results(prepare(experiment, notify=nothing_said, opening=opening), out, progress)


def run(experiment: str | Path, *, out: str | Path | None = None, progress: Progress = silent) -> Results:
    r"""Run an experiment in YAML, as the command `ctxbench run` does.

    Args:
        experiment: the file.
        out: the run folder. One that this call or the command finished is read, one that was stopped is gone on with;
            None = one that goes with the results.
        progress: told about every slice of queries.

    Returns:
        The results; in a notebook they show themselves as a table.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything is wrong in it or in what it names: all faults, with their lines.

    Example:
        >>> file = tmp_path / "words.yaml"
        >>> _ = file.write_text("name: words\ndatasets: [smoke]\nselectors: [{selector: bm25}]\nembedder: hashing")
        >>> ctxbench.run(file).to_frame()["completeness"].round(2).tolist()
        [0.62]
    """
    return _results(open_experiment(Path(experiment)), out, progress)


def _results(prepared: Prepared, out: str | Path | None, progress: Progress) -> Results:
    """Run what was checked; the folder goes with the results if `out` is None."""
    folder = Path(tempfile.mkdtemp(prefix="ctxbench"), "run") if out is None else Path(out)
    try:
        runner.run(prepared, folder, progress=progress)
        results = Results(
            folder, {name: dataset.measured() for name, dataset in prepared.datasets.items()}, prepared.opened
        )
    except BaseException:
        if out is None:
            shutil.rmtree(folder.parent, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(results, shutil.rmtree, folder.parent, ignore_errors=True)
    return results
