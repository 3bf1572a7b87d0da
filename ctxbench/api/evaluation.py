"""The functions `evaluate`, `run`, `open` and `tune`: measure selectors on labels, read runs, find presets."""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.api.inputs import Data, make_frame, opened, runs_of
from ctxbench.api.plots import TuningPlots
from ctxbench.api.results import Results
from ctxbench.api.selectors import (
    EmbedderGiven,
    Preset,
    Recorded,
    embedder_name,
    external_of,
    pipeline_of_mapping,
    selector_spec,
)
from ctxbench.datasets.dataset import TREC
from ctxbench.evaluation import runner
from ctxbench.evaluation.experiment import DEFAULT_METRICS, Experiment, read_groups, versions
from ctxbench.evaluation.inputs import Prepared, datasets_of_run, open_experiment, prepare
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.io.console import ProgressListener, nothing_said, progress_listener
from ctxbench.io.errors import (
    Message,
    ParameterError,
    UnknownNameError,
    UserError,
    check_all_known,
    check_known,
    raise_first,
)
from ctxbench.io.workers import OptionalPool, Workers
from ctxbench.model.strategies import Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report import tuning_document
from ctxbench.report.charts import compact
from ctxbench.report.tuning_tables import ALL_DECIDE, advice, all_advice, console_table
from ctxbench.selectors.external import External, FileSelector
from ctxbench.selectors.selector import EXTERNAL_KINDS, ExternalRun
from ctxbench.tuning.domains import definition_of
from ctxbench.tuning.inputs import TuningInputs, open_tuning
from ctxbench.tuning.policy import SET_METRICS, SelectorEntry, policies_of
from ctxbench.tuning.preset_files import write_presets_of
from ctxbench.tuning.results import DatasetTuning, PolicyOutcome, Tuning
from ctxbench.tuning.setting_lines import tried_parameter
from ctxbench.tuning.tunables import Tunable
from ctxbench.tuning.tuner import tune as run_tuning

if TYPE_CHECKING:
    import pandas as pd


def evaluate(
    data: Data | str | Path | Sequence[Data | str | Path],
    selectors: Mapping[str, Any] | Sequence[str] | str,
    *,
    baseline: str | None = None,
    split: str = "",
    sample: int = 0,
    metrics: Sequence[str] | None = None,
    groups: str | Sequence[str] | Mapping[str, str] = (),
    judged: str = "",
    embedder: EmbedderGiven = "minilm",
    counter: str = "o200k",
    seed: int = 0,
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str = "",
    store: str = "",
    progress: bool | ProgressListener = True,
) -> Results:
    """Ask selectors about every query of one or several datasets, and measure what they offer.

    Args:
        data: datasets, or their names.
        selectors: by the name that tables give them: a shipped selector (`"semantic/spec"`, or the path of a
            definition), such a one with values (`{"selector": "memory", "set": {"n": 5}}`), a tuned preset of a file
            (`{"presets": "presets/evals.yaml", "preset": "normal"}`), a `pipeline`, recorded `answers`, a function of
            the request and the items that returns the ids chosen (`function(request, items)`, both as dicts) or, for
            ranking metrics, `{"items": ..., "ranking": ...}`; or an object with `describe` and
            `select`; or the name of one of the datasets' `runs`. A list of shipped selectors and runs names them.
        baseline: the selector that the others are compared with; None = the first.
        split: whose queries are asked; empty = all.
        sample: how many of these at most, drawn by groups; 0 = all.
        metrics: names, such as `R@5`, each of which every table shows; None = the usual ones.
        groups: fields of items, such as `path` or `metadata.document`, or such fields by name. Items of one value are
            ranked as one group by metrics such as `path:R@5`; if none is named, by `R@5`, `R@10` and `nDCG@10` of the
            group. Every item must have the field.
        judged: `"trec"` = as trec_eval judges labels: every item of grade 1 or 2 is required for itself, nDCG takes
            the grade as gain, an item without a label is irrelevant, and a query is measured if it has any label.
            Alternatives and items of the session count as any others. nDCG, R, P, RR, AP and Success then equal those
            of ir_measures on `Results.qrels()`. Empty = as ctxbench judges.
        embedder: its name, such as `minilm`; a mapping of `name` and options, such as `prompts`; or a function from a
            list of texts to an array of their vectors, shape (n_texts, n_dimensions). A function with a parameter
            `kind` gets `kind="query"` or `kind="item"`.
        counter: what counts prompt tokens, such as `o200k`.
        seed: of the resampling in statistics, and of the sample.
        out: the run folder. The next call continues it, also with more selectors, other metrics or a selector that has
            changed. One with other datasets, `split` or `sample`, or without one of its selectors, is an error.
            `ctxbench report` shows it unless a dataset is in memory only. None = a temporary folder that is deleted
            with the results.
        jobs: how many processes answer; None = as many as have work for two seconds each, 1 = this one. A function, or
            an object, is copied to them as it is, so it must not count on calls that came before. What cannot be
            copied, or uses an embedder that was given in Python, is asked in this process. The results are the same.
        on: a cluster that answers, as `--on` of `ctxbench run`; empty = this machine.
        store: a folder or URL that all workers see; empty = they get what they need from this process.
        progress: True = a bar with rate and time left, on a terminal and in a notebook, where it takes longer than a
            second; False = none; or a function, called with (text, done, total): `text` names what is at work (dataset
            and selector, or `embedding texts`), which has `done` of `total` answers or texts.

    Returns:
        The results, a table: `*` = significantly different from the baseline, `~` = an interval of too few values.

    Raises:
        UserError: something is unknown or does not suit the datasets: all faults at once.
        ParameterError: `out` holds a finished run of something else.

    Example:
        >>> ds = ctxbench.load("datasets/smoke")
        >>> res = ctxbench.evaluate(ds, ["bm25", "everything"], embedder="hashing", counter="chars/4")
        >>> res.to_frame()["completeness"].round(2).tolist()
        [0.62, 1.0]
    """
    loaded = opened(data)
    datasets, runs = {name: entry.dataset for name, entry in loaded.items()}, runs_of([*loaded.values()])
    several = [selectors] if isinstance(selectors, str) else selectors
    named = dict(several) if isinstance(several, Mapping) else {str(name): name for name in several}
    named |= {
        name: runs[selector] for name, selector in named.items() if isinstance(selector, str) and selector in runs
    }
    raise_first((not named, Message("api.no-selectors")))
    raise_first((judged not in ("", TREC), f"judged must be {TREC!r} or empty, got {judged!r}"))
    compare_to = next(iter(named)) if baseline is None else baseline
    check_known("baseline", compare_to, named)
    experiment = Experiment(
        name="evaluate",
        about="",
        path=None,
        base=Path(),
        datasets=tuple(datasets),
        selectors=tuple(selector_spec(name, selector) for name, selector in named.items()),
        metrics=DEFAULT_METRICS if metrics is None else tuple(metrics),
        metrics_named=metrics is not None,
        groups=read_groups(groups),
        judged=judged,
        embedder=embedder_name(embedder),
        tokens=counter,
        seed=seed,
        compare_to=compare_to,
        split=split,
        sample=sample,
    )
    prepared = prepare(experiment, notify=nothing_said, opening=lambda name, **_: datasets[name])
    if out is not None:
        _check_continues(Path(out), prepared)
    return _results(prepared, out, progress, Workers(jobs=jobs, on=on, store=store))


def run(
    experiment: str | Path,
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str = "",
    store: str = "",
    progress: bool | ProgressListener = True,
) -> Results:
    r"""Run an experiment in YAML, as the command `ctxbench run` does.

    Args:
        experiment: the file.
        out: the run folder. A finished run is read, and an interrupted one is continued. None = a temporary folder that
            is deleted with the results.
        jobs, on, store, progress: as for `evaluate`.

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
    return _results(open_experiment(Path(experiment)), out, progress, Workers(jobs=jobs, on=on, store=store))


def open(folder: str | Path, *, datasets: Data | str | Path | Sequence[Data | str | Path] = ()) -> Results:  # noqa: A001
    """The results of a finished run, as `evaluate` and `run` return them.

    Args:
        folder: the run folder, of `evaluate(out=...)`, `run` or `ctxbench run`.
        datasets: those that need not be opened; a dataset that was in memory must be given. Others are opened by what
            the run calls them.

    Raises:
        StorageError: the folder holds no run, or one that is not finished, or it is damaged.
        ParameterError: a dataset has changed since, or cannot be found: all of them.
        UnknownNameError: the run has no such dataset.

    Example:
        >>> settings = {"embedder": "hashing", "counter": "chars/4"}
        >>> res = ctxbench.evaluate("datasets/smoke", ["bm25"], out=tmp_path / "run", **settings)
        >>> ctxbench.open(tmp_path / "run").to_frame().equals(res.to_frame())
        True
    """
    raise_first((not isinstance(folder, str | Path), Message("api.run-folder", got=folder)))
    path = Path(folder)
    names = list(RunFolder(path).read("manifest.json")["datasets"])
    by_name = {data.name: data.dataset for data in (opened(datasets) if datasets else {}).values()}
    check_all_known("dataset of the run", by_name, names)
    result = datasets_of_run(path, by_name)
    raise_first((result.faults, Message("api.run-datasets", reasons=result.faults, path=str(path))))
    return Results(path, {name: dataset.measured() for name, dataset in result.asked.items()}, result.opened)


def _check_continues(folder: Path, prepared: Prepared) -> None:
    """Check that a finished run of `evaluate` in a folder, if there is one, is continued and not replaced.

    Raises:
        ParameterError: it is of other datasets or queries, or has a selector that is not asked now.
    """
    experiment, differences = prepared.experiment, []
    with suppress(UserError):  # no finished run, or a damaged one, which is made again
        run = RunFolder(folder).read("manifest.json")
        hashes = {name: dataset.hash for name, dataset in prepared.datasets.items()}
        names = {spec.name for spec in experiment.selectors}
        settings = {name: run["experiment"].get(name, "") for name in ("split", "sample")}
        if run["experiment"]["name"] == experiment.name:
            differences = [
                *(f"dataset {name!r}" for name, about in run["datasets"].items() if hashes.get(name) != about["hash"]),
                *(f"{name}={value!r}" for name, value in settings.items() if value != getattr(experiment, name)),
                *(f"selector {name!r}" for name in run["selectors"] if name not in names),
            ]
    raise_first((differences, Message("api.run-of-another", path=folder, differences=differences)))


def _results(
    prepared: Prepared, out: str | Path | None, progress: bool | ProgressListener, workers: Workers
) -> Results:
    """Run a checked experiment; the folder is deleted with the results if `out` is None."""
    folder = Path(tempfile.mkdtemp(prefix="ctxbench"), "run") if out is None else Path(out)
    try:
        with progress_listener(progress) as listener:
            runner.run(prepared, folder, progress=listener, workers=workers)
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


NORMAL = "normal"
"""What the preset is called where one policy is given."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """What tuning found.

    Attributes:
        found: all that the report of `ctxbench tune` tells.
        ready: what was tuned.
    """

    found: Tuning
    ready: TuningInputs

    @property
    def presets(self) -> dict[str, Preset]:
        """What to use, by policy: what is recommended, or the default where nothing is.

        Raises:
            ParameterError: there are several datasets; `on` takes one.
        """
        dataset = self._single_dataset
        return {outcome.policy.name: self._preset(dataset, outcome) for outcome in dataset.outcomes}

    def on(self, dataset: str) -> Tuned:
        """What was found on one of several datasets; `together` is the setting for all.

        Raises:
            UnknownNameError: there is none of this name.
        """
        if not (chosen := [entry for entry in self.found.datasets if entry.dataset == dataset]):
            raise UnknownNameError("dataset", dataset, [entry.dataset for entry in self.found.datasets])
        return replace(self, found=replace(self.found, datasets=tuple(chosen)))

    def to_frame(self) -> pd.DataFrame:
        """What was compared, measured by running it: the default, what is recommended, fixed numbers, everything.

        Returns:
            One row per dataset and contender: `role`, `selector`, `values`, then for each metric its mean, `... low`
            and `... high`, on the test split, or on all labels where these decide.
        """
        rows = [
            {
                "dataset": dataset.dataset,
                "contender": result.name,
                "role": result.role,
                "selector": result.selector,
                "values": dict(result.values),
                **{
                    f"{metric}{end}": value
                    for metric, estimate in result.figures.items()
                    for end, value in (
                        ("", estimate.value),
                        (" low", estimate.interval.low),
                        (" high", estimate.interval.high),
                    )
                },
            }
            for dataset in self.found.datasets
            for result in dataset.results
        ]
        return make_frame(rows)

    def front(self) -> pd.DataFrame:
        """The best settings of every selector, and lines to compare them with, on the queries that decide.

        The frame stacks several lines, which column `line` names. The front is the line `NAME: front`: every
        setting of selector NAME that no other setting of it beats in completeness and tokens. Rows of the other lines
        may be beaten: `NAME: first n` is its first 0, 1, 2, ... items, and `NAME: presets` the shipped presets
        of a selector that is not tuned.

        Returns:
            One row per dataset, line and setting: the means of completeness, recall, tokens and items, with `... low`
            and `... high`, then the values of the parameters.
        """
        rows = (
            {
                "dataset": dataset.dataset,
                "line": trace.name,
                **{
                    f"{metric}{end}": values[metric][index]
                    for metric in trace.means
                    for end, values in (("", trace.means), (" low", trace.low), (" high", trace.high))
                },
                **setting,
            }
            for dataset in self.found.datasets
            for trace in dataset.traces
            for index, setting in enumerate(trace.settings)
        )
        return make_frame(rows)

    def worse(self) -> pd.DataFrame:
        """Requests that are complete with the default and incomplete with the recommendation, which means hide.

        Returns:
            One row per dataset, policy and request: `query`, `text` (shortened), `missing` (ids of required items).
        """
        rows = [
            {
                "dataset": dataset.dataset,
                "policy": outcome.policy.name,
                "query": request.query,
                "text": request.text,
                "missing": list(request.missing),
            }
            for dataset in self.found.datasets
            for outcome in dataset.outcomes
            for request in outcome.worse
        ]
        return make_frame(rows, columns=["dataset", "policy", "query", "text", "missing"])

    def save(self, path: str | Path) -> bool:
        """Write what is recommended as a presets file, which experiments and `ctxbench select --presets` read.

        Returns:
            Whether there is anything; where nothing is recommended nothing is written, and what stands there stays.

        Raises:
            ParameterError: there are several datasets; `on` takes one. Or a pipeline, a function or an object of Python
                is recommended, which a file cannot name.
            StorageError: it cannot be written.
        """
        for outcome in self._single_dataset.outcomes:
            if outcome.recommended is not None:
                entry = self.ready.tunable(outcome.recommended.selector).entry
                message = Message("api.preset-of-python", policy=outcome.policy.name, selector=entry.name)
                raise_first((not (entry.selector or entry.external), message))
        if not any(outcome.recommended for outcome in self._single_dataset.outcomes):
            return False
        return write_presets_of(self._single_dataset, self.ready, Path(path))

    def report(self, folder: str | Path) -> Path:
        """Write the report of `ctxbench tune`, and return its page.

        Raises:
            StorageError: the folder cannot be written.
        """
        return next(path for path in tuning_document.write_report(self.found, Path(folder)) if path.suffix == ".html")

    @property
    def plot(self) -> TuningPlots:
        """Plots: `front`, `within` a limit of tokens, alone or with a `slider`, and `heat` over two parameters.

        Raises:
            ParameterError: there are several datasets; `on` takes one.
        """
        return TuningPlots(self._single_dataset)

    @property
    def advice(self) -> str:
        """What to do, a line for each dataset and policy, and whether its figures are of the requests that chose."""
        lines: list[str] = []
        for dataset in self.found.datasets:
            lines += all_advice(dataset)
            if dataset.all_decide and any(outcome.recommended for outcome in dataset.outcomes):
                lines.append(ALL_DECIDE)
        return "\n".join(lines)

    @property
    def _single_dataset(self) -> DatasetTuning:
        names = [dataset.dataset for dataset in self.found.datasets]
        raise_first((len(names) > 1, Message("api.several-datasets", names=names, first=names[0])))
        return self.found.datasets[0]

    def _preset(self, dataset: DatasetTuning, outcome: PolicyOutcome) -> Preset:
        chosen = outcome.recommended or dataset.default
        if chosen is None:
            raise ParameterError(f"policy {outcome.policy.name}: nothing was measured on {dataset.dataset}")
        tunable = self.ready.tunable(chosen.selector)
        external = None if tunable.answers is None else tunable.answers.at(tunable.values(chosen.values))
        return Preset(
            name=outcome.policy.name,
            selector=tunable.source or tunable.name,
            values=chosen.values,
            recommended=outcome.recommended is not None,
            advice=advice(dataset, outcome),
            definition=None if isinstance(external, FileSelector) else tunable.definition,
            external=external,
        )

    def _repr_html_(self) -> str:
        table = self.to_frame().drop(columns=["role", "selector"])
        paragraphs = "".join(f"<p>{escape(line)}</p>" for line in self.advice.splitlines())
        return f"{paragraphs}{table.to_html(index=False, border=0, float_format=compact)}"

    def __repr__(self) -> str:
        return console_table(self.found)


def tune(
    data: Data | str | Path | Sequence[Data | str | Path],
    selectors: Any = "learned",
    *,
    minimise: str = "",
    maximise: str = "",
    policies: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    embedder: EmbedderGiven = "minilm",
    counter: str = "o200k",
    labels: str = "",
    sample: int = 0,
    trials: int = 64,
    confidence: float = 0.95,
    seed: int = 0,
    together: bool = False,
    shipped: bool = True,
    jobs: int | None = None,
    on: str = "",
    store: str = "",
    progress: bool | ProgressListener = True,
    **constraints: float | str,
) -> Tuned:
    """Find the setting of a selector that a policy asks for, exactly, and measure it.

    Args:
        data: datasets, or their names.
        selectors: anything that `evaluate` takes, a preset, or a mapping as in a policy file (`{"selector": "semantic",
            "search": {...}}`). Or a list of them, or a mapping from names; the first is the base. What a function
            returns is its ranking: with scores, it is cut by number, score and distance to the best score; without, by
            number. Recorded `answers` need rankings.
        minimise, maximise: one of the two: a metric, such as `tokens` or `completeness`.
        policies: in their place, several by name, as in a policy file.
        parameters: by name, the values that are tried: a list, or a tuple (low, high) of a range. A function gets them
            as keyword arguments. Of a pipeline they are parameters of steps (`b`, or `bm25.b` where several steps have
            one); its cuts need not be named. They are tried at drawn settings, the defaults first, and all cuts are
            swept exactly for each. With several selectors, each has its own: `{"mine": {"selector": f, "parameters":
            {"k": [1, 2]}}}`.
        embedder: as for `evaluate`.
        counter: what counts prompt tokens.
        labels: which decide: `all`, `split` (those of the tuning split), or empty: all where there are few.
        sample: how many queries a split at most; 0 = all.
        trials: settings tried of parameters that cannot be swept, for each selector.
        confidence: level of the intervals that constraints are met by.
        seed: of random search, resampling and the sample.
        together: whether one setting for all datasets is looked for, too: of the cuts, at the defaults of all else.
        shipped: whether shipped presets compete: one that is better than every setting of the selectors is recommended.
        jobs, on, store: as for `evaluate`; they sweep settings, and never call a function of yours.
        progress: as for `evaluate`, by dataset, selector and settings.
        **constraints: by metric, what must be reached (`completeness=0.9`) or kept below (`tokens=4000`); a text
            compares: `completeness="0.98 of base"` (times what the base has), `"0.75 of reachable"`.

    Returns:
        What was found; in a notebook it shows itself as advice and a table.

    Raises:
        InputError: something is unknown, contradicts itself or does not suit the datasets: all faults at once.

    Example:
        >>> t = ctxbench.tune(
        ...     "datasets/smoke",
        ...     "bm25",
        ...     minimise="tokens",
        ...     completeness="0.9 of base",
        ...     embedder="hashing",
        ...     counter="chars/4",
        ... )
        >>> t.presets["normal"].selector
        'bm25'
        >>> tools = [{"name": name, "description": name} for name in ("area", "mail", "time", "map")]
        >>> labels = [{"query": f"q{n}", "item": tools[n % 4]["name"]} for n in range(40)]
        >>> texts = [{"query": label["query"], "text": label["item"]} for label in labels]
        >>> def by_name(request, items, shift=1):
        ...     named = [n for n, item in enumerate(items) if item["name"] == request["text"]][0]
        ...     return [items[(named + shift + n) % 4]["_id"] for n in range(4)]
        >>> found = ctxbench.tune(
        ...     ctxbench.dataset(tools, texts, labels),
        ...     by_name,
        ...     parameters={"shift": [0, 1, 2]},
        ...     minimise="tokens",
        ...     completeness=0.5,
        ...     embedder="hashing",
        ...     counter="chars/4",
        ... )
        >>> found.presets["normal"].values
        {'shift': 0, 'n': 1}
    """
    several = opened(data)
    entries = _entries(selectors, parameters)
    tunables = {entry.name: entry for entry in entries if isinstance(entry, Tunable)}
    objective = {aim: metric for aim, metric in (("minimise", minimise), ("maximise", maximise)) if metric}
    raise_first((policies is not None and (objective or constraints), Message("api.policies-given")))
    policy = {**objective, "constraints": [_constraint(name, _plain(value)) for name, value in constraints.items()]}
    fields: dict[str, Any] = {
        "selectors": [entry.entry if isinstance(entry, Tunable) else entry for entry in entries],
        "policies": {NORMAL: policy} if policies is None else policies,
        "embedder": embedder_name(embedder),
        "tokens": counter,
        "labels": labels,
        **({"sample": sample} if sample else {}),
        "trials": trials,
        "confidence": confidence,
        "seed": seed,
        "together": together,
        **({} if shipped else {"shipped": False}),
    }
    fields = _plain(fields)
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()
    file = policies_of(fields, name="tune", digest=digest)
    raise_first((any(entry.fit for entry in file.selectors), Message("api.fit-own")))
    workers = Workers(jobs=jobs, on=on, store=store)
    with progress_listener(progress) as listener, OptionalPool(workers, versions) as pool:
        ready = open_tuning(
            file,
            list(several),
            open_one=lambda name, **_: several[name].dataset,
            progress=partial(listener, "embedding texts"),
            selectors=tunables,
        )
        return Tuned(run_tuning(ready, command="ctxbench.tune(...)", progress=listener, pool=pool), ready)


_PIPELINE_KEYS = ("analyse", "retrieve", "refine", "format")
_SELECTOR_KEYS = {"selector", "retrieve", *EXTERNAL_KINDS}  # of a mapping that is a selector, and no selectors by name


def _entries(selectors: Any, parameters: Mapping[str, Any] | None) -> list[dict[str, Any] | Tunable]:
    """Selectors as a policy file has them, or made in Python.

    Raises:
        UserError: one is no selector, or a parameter does not suit it.
    """
    if isinstance(selectors, Mapping) and not _SELECTOR_KEYS & selectors.keys():
        named = list(selectors.items())
    else:
        named = [("", entry) for entry in (selectors if isinstance(selectors, list | tuple) else [selectors])]
    raise_first((parameters is not None and len(named) != 1, Message("api.parameters-of-several", n=len(named))))
    return [_entry(str(name), selector, parameters or {}) for name, selector in named]


def _entry(name: str, selector: Any, tried: Mapping[str, Any]) -> dict[str, Any] | Tunable:
    """A selector as a policy file has it, or made in Python.

    Args:
        name: in tables; empty = its own.
        selector: anything that `evaluate` takes, or a mapping with it, under `selector`, and its `parameters`.
        tried: by parameter, what `tried_parameter` takes.

    Raises:
        UserError: it is no selector, or a parameter does not suit it.
    """
    fields = dict(selector) if isinstance(selector, Mapping) else {"selector": selector}
    fields |= {"name": name} if name else {}
    tried = fields.pop("parameters", tried)
    raise_first((not isinstance(tried, Mapping), Message("api.parameters-form", got=tried)))
    tried = {key: tuple(map(_plain, of)) if isinstance(of, tuple) else _plain(of) for key, of in tried.items()}
    selector = fields.get("selector", "")  # without a mapping around it
    if isinstance(selector, Recorded):
        fields = {**fields, "answers": str(selector.path)}
        selector = fields.pop("selector") and ""
    if "retrieve" in fields:
        selector = pipeline_of_mapping({key: part for key, part in fields.items() if key != "name"})
    elif isinstance(selector, str | Path):
        preset = f"/{fields.pop('preset')}" if "preset" in fields else ""
        fields |= {"selector": f"{selector}{preset}"} if selector else {}
        no_function = Message("tuning.no-function", selector=name or "answers", names=[*tried])
        raise_first((tried and not fields.keys() & {"selector", "callable"}, no_function))
        search = {key: tried_parameter(key, of)[1] for key, of in tried.items()}
        return {**fields, "search": {**fields.get("search", {}), **search}} if search else fields
    unknown = fields.keys() - {"selector", "name", *_PIPELINE_KEYS}
    check_all_known("key of a selector", unknown, ("selector", "name", "parameters"))
    return _made(fields.get("name", ""), selector, tried)


def _made(name: str, selector: Any, tried: Mapping[str, Any]) -> Tunable:
    """A pipeline, a preset, a function or an object, to be tuned; as of `_entry`."""
    if isinstance(selector, Step | ExternalRun):
        selector = pipeline_of_mapping({"retrieve": selector})
    if isinstance(selector, Pipeline):
        definition, values = definition_of(name or "pipeline", selector, tried)
        raise_first((not definition.parameters, Message("tuning.nothing-tunable", selector=definition.name)))
        tunable = Tunable(entry=SelectorEntry(name=definition.name), source="", definition=definition)
        swept = {key for key in tunable.swept_thresholds if isinstance(tried.get(key), tuple)}  # in the whole range
        search = {key: listed for key, listed in values.items() if key not in swept}
        return replace(tunable, entry=SelectorEntry(name=definition.name, search=search))
    external = selector.external if isinstance(selector, Preset) else None
    if isinstance(selector, Preset) and external is None:
        search = {key: tried_parameter(key, of)[1] for key, of in tried.items()}
        entry = SelectorEntry(name=name or selector.selector, search=search)
        return Tunable(entry=entry, source="", definition=selector.settled[0], start=selector.values)
    name = name or getattr(selector, "name", "") or getattr(selector, "__name__", type(selector).__name__).strip("<>")
    external = external or external_of(name, selector)
    kind = ("callable",) if isinstance(external, External) else ()
    tunable = Tunable.of_external(external, SelectorEntry(name=name), tried, written=kind)
    return tunable if not isinstance(selector, Preset) else tunable.cut_as(selector.settled[0], selector.values)


def _plain(value: Any) -> Any:
    """Values as a file would have them: numbers, texts and lists of Python's own, whatever made them."""
    if isinstance(value, Mapping):
        return {name: _plain(value) for name, value in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(element) for element in value]
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else value  # of numpy, an array or one number


def _constraint(name: str, value: float | str) -> dict[str, Any]:
    """A constraint as a policy file has it.

    Raises:
        UserError: the metric is unknown, or the value is none.
    """
    try:
        metric = parse_metric(name)
    except UnknownNameError as error:
        options = [
            parameter.name
            for parameter in inspect.signature(tune).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        raise UnknownNameError("option or constraint", name, [*options, *SET_METRICS]) from error
    side = "at_most" if metric.declaration.better == "lower" else "at_least"
    if not isinstance(value, str):
        return {"metric": name, side: value}
    number, of, reference = value.partition(" of ")
    try:
        return {"metric": name, side: float(number), **({"of": reference.strip()} if of else {})}
    except ValueError:
        raise ParameterError(
            f"{name} must be a number, or a text such as '0.98 of base' or '0.75 of reachable'; got {value!r}"
        ) from None
