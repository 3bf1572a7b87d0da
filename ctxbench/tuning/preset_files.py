"""Write presets files and fitted selectors, and find a preset for a token budget without labels.

Without labels, the token count of a setting is known but not its completeness. For a budget, the number of items is one
more than the smallest whose token count reaches the budget, and then the threshold is set to meet it. At equal tokens
this was more complete on the datasets of this repository than setting the threshold first. Requests then differ more in
their costs, too. Where these are so uneven that the mean on other requests may be a tenth off, the smallest number is
taken.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from ctxbench.datasets.lookup import open_dataset, user_folder
from ctxbench.evaluation.run_folder import finite
from ctxbench.evaluation.statistics import LEVEL, Estimate, Interval, amount_interval, critical
from ctxbench.io.console import ProgressListener, nothing_said, silent
from ctxbench.io.documents import iter_jsonl
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UnknownNameError,
    UserError,
    merge_equal_faults,
    raise_faults,
)
from ctxbench.io.files import iter_lines, read_text, write_atomic
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import Candidates, place_among
from ctxbench.model.requests import Batch, Request
from ctxbench.pipelines.fits import PROBABILITY, Fit, in_front, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.resources import LocalResources
from ctxbench.selectors.definition import Definition, TunedPreset
from ctxbench.selectors.definitions import find_definition, is_file, tuned_preset, write_presets
from ctxbench.selectors.selector import Parameter, Value
from ctxbench.tuning.fit_examples import folds_of, groups_of, make_examples
from ctxbench.tuning.inputs import TuningInputs, open_tuning
from ctxbench.tuning.policy import Policy, PolicyFile, SelectorEntry
from ctxbench.tuning.query_fits import columns_of, fit, out_of_fold, shipped_fit
from ctxbench.tuning.results import (
    OUT_OF_FOLD,
    ConstraintVerdict,
    DatasetTuning,
    PolicyOutcome,
    QuerySet,
    SettingResult,
)


def fitted_index(spec: Mapping[str, Any], name: str) -> int | None:
    """The index in `refine` of the step of a name; None if there is none, or if it is inside a combinator."""
    names = [step if isinstance(step, str) else next(iter(step), "") for step in spec.get("refine", [])]
    return names.index(name) if name in names else None


def fitted_file(definition: Definition, fits: Path) -> Path:
    """The path of a selector with the user's fits: next to the file of fits, with the ending `.yaml`.

    Raises:
        ParameterError: the selector has no step `probability`, the file of fits ends in `.yaml`, or the path is
            another file.
    """
    path = fits.with_suffix(".yaml")
    if fitted_index(definition.written, PROBABILITY) is None:
        raise ParameterError(
            f"selector {definition.name!r} has no step `probability` to read a fit; use one that has, such as learned"
        )
    if path == fits:
        raise ParameterError(f"{fits}: the selector is written next to the fit as .yaml; name the fit .json")
    if path.exists() and f"calibration: {fits.name}" not in read_text(path):
        raise ParameterError(f"{path} would be overwritten by the selector with the fit; choose another --out")
    return path


def write_fitted(definition: Definition, fits: Path, preset: str | None = None) -> Path:
    """Write a selector whose probability is read from a file of fits.

    Args:
        definition: of a selector with a step `probability`.
        fits: the file of fits; the selector is written next to it, with the ending `.yaml`.
        preset: its values become the defaults; None = the defaults are not changed.

    Raises:
        ParameterError: as of `fitted_file`.
        StorageError: it cannot be written.
    """
    path, index = fitted_file(definition, fits), fitted_index(definition.written, PROBABILITY) or 0
    spec = dict(definition.written)
    refine = list(spec["refine"])
    parameters = refine[index][PROBABILITY] if isinstance(refine[index], Mapping) else {}
    refine[index] = {PROBABILITY: {**(parameters or {}), "calibration": fits.name}}
    values = definition.values(preset)
    data = {
        "name": fits.stem,
        "about": str(Message("tuning.fitted-selector", selector=definition.name, file=fits.name)),
        "parameters": {
            name: _parameter_block(parameter, values[name]) for name, parameter in definition.parameters.items()
        },
        "pipeline": {**spec, "refine": refine},
        "presets": {
            name: {"about": f"values of {definition.name}/{name}", "set": dict(values)}
            for name, values in definition.presets.items()
        },
    }
    write_atomic(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110))
    return path


def _parameter_block(parameter: Parameter, value: Value) -> dict[str, Any]:
    """A parameter as in YAML, with a new default."""
    block: dict[str, Any] = {} if parameter.default is None else {"default": value}
    if parameter.choices:
        block["choices"] = {name: dict(values) for name, values in parameter.choices.items()}
    elif not isinstance(parameter.default, bool):
        block["range"] = [parameter.low, parameter.high]
    if parameter.needs:
        block["needs"] = {
            name: values[0] if len(values) == 1 else list(values) for name, values in parameter.needs.items()
        }
    return {**block, "help": parameter.help}


_LONGEST = 60  # most characters of the names of several datasets in the name of a file


def asks_for_fits(file: PolicyFile) -> bool:
    """Whether any selector of the file has `fit: own`."""
    return any(entry.fit for entry in file.selectors)


def fit_files(file: PolicyFile, folder: Path, datasets: Sequence[str]) -> list[Path]:
    """The files of the fits of a policy file: for each selector, the fits and the selector that reads them.

    Their names contain the datasets, so tuning on others does not overwrite them.
    """
    names = [f"{entry.name}-{together(datasets)}" for entry in file.selectors if entry.fit]
    return [folder / "fits" / f"{name}{ending}" for name in names for ending in (".json", ".yaml")]


def together(datasets: Sequence[str]) -> str:
    """The name of a file for several datasets: all their names, or if that is long the first and a digest."""
    joined = "-".join(datasets)
    if len(datasets) == 1 or len(joined) <= _LONGEST:
        return joined
    digest = hashlib.sha256("\n".join(datasets).encode()).hexdigest()[:8]
    return f"{datasets[0]}-and-{len(datasets) - 1}-more-{digest}"


def open_fitted(
    file: PolicyFile,
    datasets: Sequence[str],
    folder: Path,
    *,
    notify: Callable[[str], None] = nothing_said,
    progress: ProgressListener = silent,
) -> TuningInputs:
    """Open everything that tuning needs, and make the fits of the policy file.

    Args:
        file, datasets: as of `open_tuning`.
        folder: see `fit_selectors`; nothing is written if the file has no `fit: own`.
        notify: called with messages about slow work, and about fits that failed.
        progress: called with the progress.

    Raises:
        InputError, StorageError: as of `open_tuning` and `fit_selectors`.
    """
    embedding = partial(progress, "embedding texts")
    ready = open_tuning(file, datasets, notify=notify, progress=embedding)
    if not asks_for_fits(file):
        return ready
    fitted, notices = fit_selectors(ready, folder, progress=progress)
    for notice in notices:
        notify(f"notice: {notice}")
    external = {tunable.name: tunable for tunable in ready.tunables if tunable.answers is not None}
    return open_tuning(fitted, datasets, notify=notify, progress=embedding, selectors=external)


def fit_selectors(ready: TuningInputs, folder: Path, *, progress: ProgressListener) -> tuple[PolicyFile, list[str]]:
    """Make the fits of a policy file, and replace its selectors by the fitted ones.

    Every fit starts from the shipped weights. A dataset whose labels cannot be fitted keeps the shipped fit.

    Args:
        ready: opened with the selectors of the file.
        folder: in its folder `fits`, `NAME-DATASET.json` with the fits and `NAME-DATASET.yaml` with the selector are
            written.
        progress: called with the progress.

    Returns:
        The file with the fitted selectors, and notices: fits that failed, and files with texts of requests.

    Raises:
        InputError: a selector has no step `probability` that could be fitted.
        StorageError: a file cannot be written.
    """
    notices: list[str] = []
    entries: list[SelectorEntry] = []
    names = [opened.dataset.name for opened in ready.datasets]
    for entry in ready.file.selectors:
        if not entry.fit:
            entries.append(entry)
            continue
        definition, preset = find_definition(entry.selector, base=ready.file.base)
        out = fit_files(ready.file.model_copy(update={"selectors": (entry,)}), folder, names)[0]
        try:
            fitted_file(definition, out)
        except UserError as error:
            raise InputError([ready.file.entry_fault(entry.name, f"fit: own: {error}", "fit")]) from error
        _check_catalogs(ready, entry)
        pipeline, fits = definition.pipeline(definition.values(preset)), [shipped_fit()]
        for index, opened in enumerate(ready.datasets):
            progress(f"{entry.name}, fitting", index, len(ready.datasets))
            try:
                fits.append(_fit(opened.tuning_set, pipeline))
            except ParameterError as error:
                dataset = opened.dataset.name
                notices.append(Message("tuning.shipped-fit-kept", selector=entry.name, dataset=dataset, reason=error))
        out.unlink(missing_ok=True)
        write_calibrations(out, fits)
        if n_texts := sum(len(fit.values.get("requests", ())) for fit in fits):
            notices.append(Message("tuning.fit-with-texts", file=out, requests=n_texts))
        path = write_fitted(definition, out, preset)
        entries.append(entry.model_copy(update={"selector": str(path.resolve()), "fit": ""}))
    return ready.file.model_copy(update={"selectors": tuple(entries)}), notices


def _fit(query_set: QuerySet, pipeline: Pipeline) -> Fit:
    """Fit a probability on the queries of a tuning set.

    Raises:
        ParameterError: they cannot be fitted, or not be scored out of fold.
    """
    dataset = query_set.dataset.judged()
    fitted = fit(PROBABILITY, dataset, pipeline, query_set.resources, split="all")
    names = groups_of(dataset.queries)
    groups = len(set(names))
    if groups < 2:
        raise ParameterError("all labels are of one group; a fit needs two or more groups")
    columns, front = columns_of(requests=True), in_front(pipeline, PROBABILITY)
    rows = make_examples(PROBABILITY, dataset, front, query_set.resources, columns=columns)
    out_of_fold(rows, folds_of(names, min(OUT_OF_FOLD, groups)))
    return replace(fitted, split=query_set.split)


def _check_catalogs(ready: TuningInputs, entry: SelectorEntry) -> None:
    """Check that no two datasets have the same catalog, since a fit belongs to a catalog.

    Raises:
        InputError: two datasets have the same catalog.
    """
    by_catalog: dict[str, str] = {}
    for opened in ready.datasets:
        owner = by_catalog.setdefault(opened.dataset.catalog.hash, opened.dataset.name)
        if owner != opened.dataset.name:
            message = Message("tuning.one-catalog", dataset=owner, second=opened.dataset.name)
            raise InputError([ready.file.entry_fault(entry.name, message, "fit")])


def write_presets_of(result: DatasetTuning, ready: TuningInputs, path: Path) -> bool:
    """Write the recommended presets of a dataset; return whether there are any.

    Args:
        result: of the dataset.
        ready: the inputs of tuning.
        path: of the file; if nothing is recommended, an earlier file is removed.

    Raises:
        StorageError: the file cannot be written, or an earlier one cannot be removed.
    """
    presets = {
        outcome.policy.name: _preset(outcome, outcome.recommended, ready)
        for outcome in result.outcomes
        if outcome.recommended is not None
    }
    if not presets:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot remove the earlier presets file {path}: {error.strerror or error}") from error
        return False
    write_presets(
        path,
        tuned={
            "dataset": result.dataset,
            "version": result.version,
            "hash": result.hash,
            "queries": dict(result.queries),
            "of": dict(result.of),
            "embedder": ready.embedder.identity.as_dict(),
            "tokens": result.tokens,
            "seed": ready.file.seed,
            "confidence": ready.file.confidence,
            "policies": ready.file.hash,
        },
        presets=presets,
        test_split="" if result.all_decide else str(Message("tuning.test-split-of-presets")),
    )
    return True


def _preset(outcome: PolicyOutcome, chosen: SettingResult, ready: TuningInputs) -> TunedPreset:
    policy = outcome.policy
    tunable = ready.tunable(chosen.selector)
    fields: dict[str, Any] = {
        "about": policy.about,
        "policy": {**policy_block(policy), "verdicts": [verdict_block(verdict) for verdict in outcome.verdicts]},
        "tuning": _figures(chosen.tuning),
        "test": _figures(chosen.test),
    }
    if tunable.answers is not None:
        return TunedPreset(set=dict(chosen.values), answers=tunable.source, **fields)
    source = str(ready.file.base / tunable.source) if is_file(tunable.source) else tunable.source
    return tuned_preset(source, tunable.definition, tunable.values(chosen.values), **fields)


def policy_block(policy: Policy) -> dict[str, Any]:
    """A policy as in a policy file."""
    rows = [
        {
            "metric": str(constraint.metric),
            "at_least": constraint.at_least,
            "at_most": constraint.at_most,
            "of": constraint.of,
        }
        for constraint in policy.constraints
    ]
    return {
        "minimise" if policy.minimise else "maximise": str(policy.objective),
        "constraints": [{key: value for key, value in row.items() if value not in (None, "")} for row in rows],
    }


def verdict_block(verdict: ConstraintVerdict) -> dict[str, Any]:
    """A verdict as in a presets file."""
    return {
        "constraint": str(verdict.text),
        "met": verdict.met,
        "verdict": verdict.status,
        "value": _rounded(verdict.value),
        "low": _rounded(verdict.low),
        "high": _rounded(verdict.high),
        "n": verdict.n,
        "needed": verdict.needed,
    }


def _figures(estimates: Mapping[str, Estimate]) -> dict[str, dict[str, float | int | None]]:
    return {
        metric: {
            "value": _rounded(estimate.value),
            "low": _rounded(estimate.interval.low),
            "high": _rounded(estimate.interval.high),
            "n": estimate.n,
        }
        for metric, estimate in estimates.items()
    }


def _rounded(value: float) -> float | None:
    """Round to six significant digits, since the last ones of a mean depend on the machine."""
    number = finite(value)
    return None if number is None else float(f"{number:.6g}")


T = TypeVar("T")
_TEXTS = ("query", "input", "question", "request", "prompt", "message", "content")  # fields that may hold the text
MAX_REQUESTS = 2000  # most requests that are used
THRESHOLD, AT_MOST = "threshold", "at_most"  # the parameters that a budget sets
WIDEST = 0.1  # by what share of the mean the tokens on other requests may differ from it
ENOUGH = 20  # with fewer requests nothing is known of how uneven they are


@dataclass(frozen=True, kw_only=True)
class BudgetSetting:
    """The setting for a budget.

    Attributes:
        values: of all parameters of the selector.
        tokens: mean prompt tokens on the requests, at most the budget.
        items: mean number of items.
        requests: how many requests there are.
        interval: the 95% interval of the mean prompt tokens on other requests of the same kind.
        needed: with how many requests the interval would be within a tenth of the mean.
    """

    values: Mapping[str, Value]
    tokens: float
    items: float
    requests: int
    interval: Interval
    needed: int


def read_requests(name: str) -> list[Request]:
    """Requests from a dataset's folder or name, a `.jsonl` file of objects with `text`, or a text file, one a line.

    A `.jsonl` file of `ctxbench data export --requests` is accepted; its line with the catalog is ignored.

    Raises:
        UserError: it cannot be read.
        InputError: a line is not a request, or there is none; all faults with their lines.
    """
    path = Path(name)
    if user_folder(name, Path()) is not None or not path.is_file():
        try:
            return sample_requests([query.request for query in open_dataset(name).queries])
        except (StorageError, UnknownNameError) as error:
            if path.exists():
                raise
            raise StorageError(
                f"there is no file and no dataset {name!r}; expected a text file with one request a line, a .jsonl "
                "file of objects with `text`, or a dataset"
            ) from error
    faults: list[Fault] = []
    if path.suffix == ".jsonl":
        texts, wrong = [], list[Fault]()
        for line, row in iter_jsonl(path, faults):
            if "ctxbench" in row and "catalog" in row and "query" not in row:
                continue
            request = row.get("request")
            text = row.get("text", request.get("text") if isinstance(request, Mapping) else None)
            if isinstance(text, str):
                texts.append(text)
            else:
                wrong.append(Fault(_no_text(row), path, line))
        faults += merge_equal_faults(wrong)
    else:
        texts = [line for _, line in iter_lines(path, faults)]
    texts = sample_requests([text for text in texts if text.strip()])
    if not texts and not faults:
        faults.append(Fault(Message("tuning.no-request"), path, 1))
    raise_faults(faults)
    return [Request(id=str(index), text=text) for index, text in enumerate(texts)]


def _no_text(row: Mapping[str, Any]) -> str:
    """The fault of an object without a text, with the field that may hold it."""
    if "text" in row:
        return Message("tuning.request-text", value=f"{row['text']!r:.60}")
    texts = {name: row[name] for name in _TEXTS if isinstance(row.get(name), str)}
    likely = max(texts, key=lambda name: len(texts[name]), default="")  # ids may have such a name, but are short
    hint = f"; rename {likely!r} to `text`" if likely else ""
    return Message("tuning.request-without-text", fields=[*map(repr, row)] or ["nothing"], hint=hint)


def sample_requests(requests: list[T]) -> list[T]:
    """At most `MAX_REQUESTS` of the requests, evenly spaced in their order."""
    if len(requests) <= MAX_REQUESTS:
        return requests
    return [requests[index * len(requests) // MAX_REQUESTS] for index in range(MAX_REQUESTS)]


def budget_setting(
    definition: Definition,
    values: Mapping[str, Value],
    batch: Batch,
    resources: LocalResources,
    *,
    tokens: float,
) -> BudgetSetting:
    """The setting with the most mean prompt tokens within a budget.

    Args:
        definition: of a selector that ends with the cut `at_least`, with parameters threshold and at_most.
        values: of its parameters; threshold and at_most are replaced.
        batch: the requests.
        resources: of its pipeline.
        tokens: the mean budget per request; > 0.

    Raises:
        ParameterError: the selector has no such cut, the budget is below the tokens of one item, or no item is found.
    """
    fewest = checked_cut(definition, values)
    pipeline, parameters = definition.pipeline(values), definition.parameters
    table = replace(pipeline, refine=pipeline.refine[:-1]).run(batch, resources).candidates
    item_tokens = resources.tokens(batch.catalog)
    prices = Prices.of_table(
        table, item_tokens, ceiling=int(parameters[AT_MOST].high), lowest=float(parameters[THRESHOLD].low)
    )
    max_items, threshold = prices.setting_within(tokens)
    return BudgetSetting(
        values={**values, **fewest, AT_MOST: max_items, THRESHOLD: threshold},
        tokens=prices.tokens(max_items, threshold),
        items=prices.items(max_items, threshold),
        requests=len(batch),
        interval=amount_interval(prices.by_request(max_items, threshold)),
        needed=math.ceil(len(batch) * (prices.uncertainty(max_items, threshold) / WIDEST) ** 2),
    )


def checked_cut(definition: Definition, values: Mapping[str, Value]) -> dict[str, Value]:
    """The value 1 for the parameter of the fewest items; empty if there is no such parameter.

    Raises:
        ParameterError: the selector does not end with a cut that a budget can set.
    """
    refine = definition.refining(values)
    last = refine[-1].get("at_least", {}) if refine and isinstance(refine[-1], Mapping) else {}
    if last.get(THRESHOLD) != f"${THRESHOLD}" or last.get(AT_MOST) != f"${AT_MOST}":
        raise ParameterError(
            f"a budget needs a selector that ends with the cut `at_least` with parameters {THRESHOLD} and {AT_MOST}, "
            f"such as `learned`; selector {definition.name!r} does not"
        )
    written = last.get("at_least", 0)
    if isinstance(written, str):
        return {written.removeprefix("$"): 1}
    if written > 1:
        raise ParameterError(f"selector {definition.name!r} always offers at least {written} items; a budget needs 1")
    return {}


@dataclass(frozen=True, eq=False)
class Prices:
    """The items retrieved for every request, best first, with scores and token counts.

    Attributes:
        request, rank: of every row, shape (n_rows,); the best item of a request has rank 0.
        score: of the row, shape (n_rows,).
        cost: tokens of the row, shape (n_rows,).
        n: the number of requests, with those without items.
        limits: the highest number of items, and the lowest threshold, of a setting.
    """

    request: IntArray
    rank: IntArray
    score: FloatArray
    cost: IntArray
    n: int
    limits: tuple[int, float]

    @classmethod
    def of_table(cls, table: Candidates, item_tokens: IntArray, *, ceiling: int = 100, lowest: float = -20.0) -> Prices:
        """Read them from the chosen rows of candidates.

        Args:
            table: candidates in order.
            item_tokens: shape (n_items,).
            ceiling: the highest number of items.
            lowest: the lowest threshold.
        """
        alive = table.chosen & table.ranked
        rows = np.flatnonzero(alive)
        rank, cost = place_among(table, alive)[rows], table.prices(item_tokens)[rows]
        return cls(table.request[rows], rank, table.score[rows], cost, table.n_requests, (ceiling, lowest))

    def offered(self, max_items: int, threshold: float) -> BoolArray:
        """The rows that are offered; the best item of each request always is."""
        return (self.rank < max_items) & ((self.score >= threshold) | (self.rank < 1))

    def tokens(self, max_items: int, threshold: float) -> float:
        """Mean tokens of a setting."""
        return float(self.cost[self.offered(max_items, threshold)].sum() / max(self.n, 1))

    def by_request(self, max_items: int, threshold: float) -> FloatArray:
        """Tokens of a setting by request, shape (n_requests,)."""
        rows = self.offered(max_items, threshold)
        return np.bincount(self.request[rows], self.cost[rows], minlength=self.n).astype(np.float64)

    def uncertainty(self, max_items: int, threshold: float) -> float:
        """By what share of the mean the tokens on other requests may differ from it, at 95%; 0 without requests."""
        tokens = self.by_request(max_items, threshold)
        error = float(tokens.std()) / math.sqrt(max(self.n, 1))
        return critical(LEVEL) * error / float(tokens.mean()) if tokens.any() else 0.0

    def items(self, max_items: int, threshold: float) -> float:
        """Mean items of a setting."""
        return float(self.offered(max_items, threshold).sum() / max(self.n, 1))

    def setting_within(self, tokens: float) -> tuple[int, float]:
        """The setting with the most mean tokens within a budget; see the head of this module.

        Raises:
            ParameterError: the best item alone costs more, or no item was found.
        """
        if not len(self.cost):
            raise ParameterError("no item is found for any of the requests; give other requests or another selector")
        minimum = self.tokens(1, -np.inf)
        if tokens < minimum:
            raise ParameterError(
                f"a budget of {tokens:g} tokens is below one item: the best item of a request costs "
                f"{math.ceil(minimum):,} on average; give at least that"
            )
        ceiling, lowest = self.limits
        reached = next((n for n in range(1, ceiling + 1) if self.tokens(n, lowest) >= tokens), ceiling)
        setting = self._threshold_within(min(reached + 1, ceiling), tokens)
        is_uneven = self.n >= ENOUGH and self.uncertainty(*setting) > WIDEST
        return self._threshold_within(reached, tokens) if is_uneven else setting

    def _threshold_within(self, max_items: int, tokens: float) -> tuple[int, float]:
        """The setting with a number of items whose threshold meets a budget, which is at least that of one item."""
        minimum, lowest = self.tokens(1, -np.inf), self.limits[1]
        rest = np.flatnonzero((self.rank < max_items) & (self.rank >= 1) & (self.score >= lowest))
        rest = rest[np.argsort(-self.score[rest], kind="stable")]
        score, spent = self.score[rest], minimum + np.cumsum(self.cost[rest]) / max(self.n, 1)
        last = np.append(score[1:] < score[:-1], True)[: len(score)]  # rows of equal scores are offered together
        fitting = np.flatnonzero(last & (spent <= tokens))
        if not len(fitting):
            return 1, lowest
        at = int(fitting[-1])
        return max_items, -_between(-float(score[at]), -float(score[at + 1]) if at + 1 < len(score) else -lowest)


def _between(low: float, high: float) -> float:
    """The number with the fewest digits in [low, high); `low` if there is none."""
    for digits in range(8):
        short: float = math.ceil(low * 10**digits) / 10**digits
        if low <= short < high:
            return short
    return low
