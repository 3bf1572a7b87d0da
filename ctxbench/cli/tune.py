"""`ctxbench tune` and `ctxbench calibrate`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.catalogs.agent_file import AgentFile, is_agent_file, own_kind, read_agent
from ctxbench.cli.common import dataset_inputs, print_result, selector_inputs
from ctxbench.cli.init import EXPERIMENT
from ctxbench.datasets.layout import agent_of
from ctxbench.datasets.lookup import find_catalog, open_dataset
from ctxbench.evaluation.experiment import versions
from ctxbench.evaluation.run_folder import comparison_dict, estimate_dict, finite
from ctxbench.evaluation.statistics import Estimate
from ctxbench.io.cache import files_in, refuse_outputs, refuse_unwritable
from ctxbench.io.console import is_plain, progress, say
from ctxbench.io.errors import InputError, ParameterError, UserError, count, raise_first
from ctxbench.io.files import cache_dir, read_text
from ctxbench.io.workers import OptionalPool, Workers
from ctxbench.model.requests import Batch
from ctxbench.pipelines.fits import KINDS, LINEAR, PROBABILITY, WEIGHTS, Fit, read_calibrations, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report import document
from ctxbench.report.pages import refuse_foreign_tables
from ctxbench.report.tuning_document import write_markdown, write_report
from ctxbench.report.tuning_tables import advice, console_table
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import (
    agent_definition,
    find_definition,
    is_file,
    read_presets,
    tuned_preset,
    write_presets,
)
from ctxbench.selectors.external import all_empty
from ctxbench.selectors.selector import Value, value_text
from ctxbench.tuning.fit_examples import ALL, METRIC, labelled_queries, make_examples
from ctxbench.tuning.held_out import NextStep
from ctxbench.tuning.inputs import TuningInputs
from ctxbench.tuning.linear_fits import WeightFigures, fit_columns, linear_index, parse_objective
from ctxbench.tuning.policy import PolicyFile, read_policies
from ctxbench.tuning.preset_files import (
    BudgetSetting,
    budget_setting,
    checked_cut,
    fit_files,
    fitted_file,
    fitted_index,
    open_fitted,
    policy_block,
    read_requests,
    together,
    verdict_block,
    write_fitted,
    write_presets_of,
)
from ctxbench.tuning.query_fits import FoldFigures, columns_of, fit as fit_queries, measure
from ctxbench.tuning.results import COMPLETE, LEARNED_NORMAL, DatasetTuning, PolicyOutcome, SettingResult, Tuning
from ctxbench.tuning.tuner import tune

_OWN_CUT = (
    "such a cut: of the items that score above 0 the first topN and all that score at least includeScore; of "
    "these none that scores less than (1 - margin) of the best"
)


def tune_presets(
    datasets: Sequence[str],
    policy: Path,
    workers: Workers,
    *,
    out: Path | None,
    markdown: Path | None,
    texts: bool,
    as_json: bool,
) -> None:
    """Tune, write report and presets, and print what is recommended.

    Args:
        datasets: names or folders.
        policy: the policy file.
        workers: sweep settings and draw figures.
        out: the folder for results; None = one in `runs`, named after the policy file and the dataset.
        markdown: another file for the report as Markdown; None = none.
        texts: whether requests that get worse are shown with their texts, or by their ids alone.
        as_json: print a summary as JSON instead.

    Raises:
        UserError: a file is faulty, or results cannot be written; unless it is the last, nothing is.
    """
    with OptionalPool(workers, versions) as pool, progress() as bar:
        file = read_policies(policy)
        names = [Path(dataset).resolve().name for dataset in datasets]
        folder = out or Path("runs") / f"tune-{file.name}-{together(names)}"
        _check_results_folder(folder)
        refuse_outputs({"--markdown": markdown}, {"the policies": [policy], **dataset_inputs(*datasets)})
        if markdown is not None and len(datasets) > 1:
            refuse_foreign_tables(markdown)
        ready = open_fitted(file, datasets, folder / "presets", notify=bar.say, progress=bar)
        for opened in ready.datasets:
            for name in opened.empty:
                bar.say(f"warning: {all_empty(name, opened.dataset.name)}")
        words = ["ctxbench", "tune", *datasets, "--policy", str(policy), *([] if texts else ["--no-text"])]
        words += [] if markdown is None else ["--markdown", str(markdown)]
        tuning = tune(ready, command=shlex.join(words), progress=bar, pool=pool)
        if not texts:
            tuning = _without_texts(tuning)
        report = write_report(tuning, folder, pool)
    pages = [] if markdown is None else write_markdown(tuning, markdown, figures=markdown.stem)
    written = fit_files(file, folder / "presets", [dataset.dataset for dataset in tuning.datasets])
    # last, so that presets never stand without their report
    for dataset in tuning.datasets:
        path = folder / "presets" / f"{dataset.dataset}.yaml"
        if write_presets_of(dataset, ready, path):
            written.append(path)
    paths = {dataset.dataset: folder / "presets" / f"{dataset.dataset}.yaml" for dataset in tuning.datasets}
    print_result(
        {
            "name": tuning.name,
            "seed": tuning.seed,
            "confidence": ready.file.confidence,
            "folder": str(folder),
            "presets": [str(path) for path in written],
            "datasets": {dataset.dataset: _dataset(dataset) for dataset in tuning.datasets},
        },
        *console_table(tuning, plain=is_plain()).splitlines(),
        *(
            f"no presets for {name}, since the default is kept under every policy: there is no {path}"
            for name, path in paths.items()
            if path not in written
        ),
        *_ways_to_take(tuning, ready, file),
        *_way_to_use(tuning, ready, folder / "presets"),
        *(f"written: {path}" for path in (*written, *(p for p in pages if p.suffix == ".md"), report[0], report[1])),
        as_json=as_json,
    )


def _ways_to_take(tuning: Tuning, ready: TuningInputs, file: PolicyFile) -> list[str]:
    """How to take each preset of an agent's selector: the settings to write into the agent file.

    Of a selector outside ctxbench, whose rankings were cut, the cut that it is to make itself, also where an agent file
    names it. `file` is the policy file as the user has it, in which fitted selectors are not replaced yet.
    """
    paths = {
        selector.name: file.base / selector.selector
        for selector in file.selectors
        if selector.selector.endswith((".yaml", ".yml"))
    }
    agents = {name: read_agent(path) for name, path in paths.items() if is_agent_file(path)}
    external = {tunable.name: tunable.answers.parameters for tunable in ready.tunables if tunable.answers is not None}
    lines, cut = [], False
    for dataset in tuning.datasets:
        on = f" on {dataset.dataset}" if len(tuning.datasets) > 1 else ""
        for outcome in dataset.outcomes:
            if (chosen := outcome.recommended) is None:
                continue
            if chosen.selector in external:
                texts = {name: f"{name} {value_text(value)}" for name, value in chosen.values.items()}
                called = ", ".join(texts.pop(name) for name in external[chosen.selector])
                called = f"call {chosen.selector} with {called}, and " if called else ""
                text = f"cut the ranking of {chosen.selector} yourself by {', '.join(texts.values())}"
                lines.append(f"to take {outcome.policy.name}{on}: {called}{text}")
                cut = True
            elif chosen.selector in agents:
                way = _agent_settings(agents[chosen.selector], chosen.values)
                lines.append(f"to take {outcome.policy.name}{on}: {way}")
    return [*lines, *([_OWN_CUT] if cut else [])]


def _agent_settings(agent: AgentFile, values: Mapping[str, Value]) -> str:
    """The settings that give the selector of an agent file some values: `in agent.yaml, settings: {at_most: 4}`."""
    current = {name: parameter.default for name, parameter in agent_definition(agent).parameters.items()}
    settings = {**agent.settings, **{name: value for name, value in values.items() if current.get(name) != value}}
    text = ", ".join(f"{name}: {value_text(value)}" for name, value in settings.items())
    return f"in {agent.path}, settings: {{{text}}}"


def _way_to_use(tuning: Tuning, ready: TuningInputs, folder: Path) -> list[str]:
    """How an agent file names a preset that is not of an agent's own selector; nothing where there is none."""
    tunables = (*ready.tunables, *(preset.tunable for preset in ready.shipped))
    sources = {tunable.name: str(ready.file.base / tunable.source) for tunable in tunables if tunable.answers is None}
    for dataset in tuning.datasets:
        chosen = {
            outcome.policy.name: outcome.recommended.selector
            for outcome in dataset.outcomes
            if outcome.recommended is not None
        }
        able = [
            name for name, selector in chosen.items() if selector in sources and not is_agent_file(sources[selector])
        ]
        if not able:
            continue
        name = "normal" if "normal" in able else able[0]
        source = Path(sources[chosen[name]])
        first, target = "", folder
        if folder.parts[0] == "runs":
            target = Path("presets")
            first = f"copy {folder} out of runs/, which git ignores, to {target}/, and "
            if is_file(str(source)) and not source.resolve().is_relative_to(folder.resolve()):
                first = f"tune with --out outside of runs/, which git ignores, so that {source} is found from there; "
                target = Path("FOLDER/presets")
        form = f"{{presets: {(target / dataset.dataset).as_posix()}.yaml, preset: {name}}}"
        return [f"to use a preset: {first}write `selector: {form}` into an agent file"]
    return []


def _check_results_folder(folder: Path) -> None:
    """Refuse to overwrite results of another command.

    Raises:
        ParameterError: the folder is a dataset's, or holds something else that is no tuning.
        StorageError: it cannot be written.
    """
    refuse_unwritable(folder, folder="a tuning")
    for name, noun in (("dataset.yaml", "a dataset"), ("manifest.json", "a run of `ctxbench run` or `score`")):
        if (folder / name).exists():
            raise ParameterError(f"{folder} is the folder of {noun}; name another one with --out")
    if not _is_tuning(folder):
        raise ParameterError(f"{folder} is there and is no tuning; name a new folder with --out")


def _is_tuning(folder: Path) -> bool:
    """Whether a folder holds a tuning, what one that was stopped has left, or nothing."""
    report = folder / "report.md"
    if report.exists():
        with suppress(UserError):
            return "ctxbench tune " in read_text(report)
        return False
    return all(path.match("figures/*.svg") or path.match("presets/fits/*") for path in files_in(folder))


def _without_texts(tuning: Tuning) -> Tuning:
    """The tuning, with requests named by their ids alone."""

    def outcome(result: PolicyOutcome) -> PolicyOutcome:
        return replace(result, worse=tuple(replace(worse, text="") for worse in result.worse))

    datasets = tuple(replace(dataset, outcomes=tuple(map(outcome, dataset.outcomes))) for dataset in tuning.datasets)
    return replace(tuning, datasets=datasets)


def _dataset(dataset: DatasetTuning) -> dict[str, Any]:
    return {
        "hash": dataset.hash,
        "items": dataset.items,
        "queries": dict(dataset.queries),
        "tokens": dataset.tokens,
        "contenders": {result.name: _result(result) for result in dataset.results},
        "shipped": {name: result.name for name, result in dataset.shipped.items()},
        "policies": {outcome.policy.name: _outcome(dataset, outcome) for outcome in dataset.outcomes},
        "notes": list(dataset.notes),
    }


def _result(result: SettingResult) -> dict[str, Any]:
    splits = {"tuning": result.tuning, "test": result.test} if result.test else {"all": result.tuning}
    figures = {
        split: {name: estimate_dict(estimate) for name, estimate in estimates.items()}
        for split, estimates in splits.items()
    }
    return {"role": result.role, "selector": result.selector, "values": dict(result.values), **figures}


def _outcome(dataset: DatasetTuning, outcome: PolicyOutcome) -> dict[str, Any]:
    chosen, shortfall = outcome.recommended, dataset.shortfall(outcome)
    (members,) = (group for group in dataset.same_advice() if outcome in group)
    keys = {str(constraint): constraint.key for constraint in outcome.policy.constraints}

    def comparisons(by_metric: Mapping[str, Any]) -> dict[str, Any]:
        return {metric: comparison_dict(comparison) for metric, comparison in by_metric.items()}

    return {
        "policy": policy_block(outcome.policy),
        "advice": advice(dataset, outcome),
        "recommended": None if chosen is None else {"selector": chosen.selector, "set": dict(chosen.values)},
        "shipped": outcome.shipped if chosen is not None else "",
        "replaced": None if outcome.replaced is None else outcome.replaced.name,
        "less_complete_than_shipped": {LEARNED_NORMAL: shortfall} if shortfall else {},
        "same_as": [member.policy.name for member in members if member is not outcome],
        "reason": outcome.reason,
        "needed": None if outcome.needed is None else list(outcome.needed),
        "taken_from": outcome.taken_from,
        "tied_with": outcome.tied_with,
        "settings": outcome.settings,
        "tried": outcome.tried,
        "bounds": {keys.get(text, text): bound for text, bound in outcome.bounds.items()},
        "verdicts": [verdict_block(verdict) for verdict in outcome.verdicts],
        "fixed": None if outcome.fixed is None else outcome.fixed.name,
        "fixed_reason": outcome.fixed_reason,
        "fixed_of_selector": None if outcome.fixed_of_selector is None else outcome.fixed_of_selector.name,
        "against": {kind: comparisons(by_metric) for kind, by_metric in outcome.against.items()},
        "ranking": comparisons(outcome.ranking),
        "worse": [{"query": request.query, "missing": list(request.missing)} for request in outcome.worse],
    }


DEFAULT = "learned"
"""The selector that a budget is set on unless another is named, or the agent has one that will do."""


@dataclass(frozen=True)
class Budgeted:
    """What the command line asks for.

    Attributes:
        catalog: a file, a folder, or a dataset's name.
        requests: a dataset, a `.jsonl` file, or a text file with one request a line.
        tokens: the budget a request, on average.
        selector: a shipped selector, `name/preset`, or a YAML file.
        out: the presets file to write.
        note: why it is not the agent's own selector, where one line must say so; else empty.
    """

    catalog: str
    requests: str
    tokens: float
    selector: str
    out: Path
    note: str = ""


def checked_budget(
    datasets: Sequence[str],
    policy: Path | None,
    unlabelled: str | None,
    tokens: float | None,
    selector: str | None,
    out: Path | None,
    *,
    options: Mapping[str, bool],
) -> Budgeted | None:
    """The budget in the options; None where they name a policy.

    Args:
        options: those that only a policy has, and whether they are given.

    Raises:
        ParameterError: neither or both are, or something is missing, or an option of one is given with the other.
    """
    if unlabelled is None and tokens is None:
        raise_first(
            (policy is None, "tune needs --policy FILE, or --unlabelled REQUESTS --tokens N; see --help"),
            (selector is not None, "--selector goes with --unlabelled; with --policy the file names the selectors"),
        )
        return None
    if policy is not None:
        raise ParameterError("--policy needs labels, and --unlabelled has none; leave one of the two out")
    if unlabelled is None or tokens is None:
        raise ParameterError("--unlabelled REQUESTS and --tokens N go together: what a request may cost, and on which")
    names = [name for name, is_given in options.items() if is_given]
    raise_first(
        (len(datasets) != 1, f"with --unlabelled one catalog is tuned, got {len(datasets)}: {', '.join(datasets)}"),
        (names, f"{' and '.join(names)} goes with --policy; with --unlabelled there is no report"),
    )
    chosen, note = (selector, "") if selector else _selector_for(datasets[0])
    return Budgeted(
        catalog=datasets[0],
        requests=unlabelled,
        tokens=tokens,
        selector=chosen,
        out=out or Path("runs") / f"{_within(tokens)}-{catalog_name(datasets[0])}.yaml",
        note=note,
    )


def _within(tokens: float) -> str:
    """The name of the preset for a budget, in plain digits."""
    return f"within-{np.format_float_positional(tokens, trim='-')}"


def _selector_for(catalog: str) -> tuple[str, str]:
    """The selector of a catalog's agent, and a note where another one is used instead.

    Raises:
        InputError: the agent's selector or its settings are faulty.
    """
    path = Path(catalog) if is_agent_file(catalog) else agent_of(Path(catalog))
    if path is None:
        return DEFAULT, ""
    if external := read_agent(path).external:
        why = f"the selector of {path} is a {own_kind(external)} of your own, on which no budget can be set"
        return DEFAULT, f"{why}; it is set on {DEFAULT}"
    definition, preset = find_definition(str(path))
    try:
        checked_cut(definition, definition.values(preset))
    except ParameterError as error:
        return DEFAULT, f"{error}; it is set on {DEFAULT}"
    return str(path), ""


def tune_to_budget(budget: Budgeted, *, as_json: bool) -> None:
    """Find the setting, write it as a presets file, and say what it costs.

    Raises:
        UserError: a file is faulty, the selector has no cut that a budget can set, or the budget is below one item.
    """
    _check(budget)
    if budget.note:
        say(budget.note, err=True)
    definition, preset = find_definition(budget.selector)
    requests = read_requests(budget.requests)
    catalog = find_catalog(budget.catalog)
    embedder, counter = open_embedder("minilm"), open_counter("o200k", cache=cache_dir())
    with progress() as bar:
        result = budget_setting(
            definition,
            definition.values(preset),
            Batch.of(catalog, requests),
            local_resources(embedder, counter, progress=partial(bar, "embedding texts")),
            tokens=budget.tokens,
        )
    about = f"about {budget.tokens:g} prompt tokens a request, found on {result.requests:,} requests without labels"
    source = budget.selector if is_file(budget.selector) else definition.name
    tuned = tuned_preset(source, definition, result.values, about=about)
    facts = {
        "dataset": catalog_name(budget.catalog),
        "requests": budget.requests,
        "n": result.requests,
        "budget": budget.tokens,
        "embedder": embedder.identity.as_dict(),
        "tokens": counter.name,
    }
    write_presets(budget.out, tuned=facts, presets={_within(budget.tokens): tuned}, test_split="")
    setting = ", ".join(f"{key} {value:g}" for key, value in tuned.set.items() if not isinstance(value, str))
    print_result(
        {
            "set": dict(tuned.set),
            "tokens": result.tokens,
            "items": result.items,
            "requests": result.requests,
            "interval": [finite(result.interval.low), finite(result.interval.high)],
            "needed": result.needed,
            "written": str(budget.out),
        },
        *_lines(budget, result, f"{definition.name} with {setting}", counter.name),
        *([f"to take it: {_agent_settings(read_agent(Path(source)), tuned.set)}"] if is_agent_file(source) else []),
        as_json=as_json,
    )


def _check(budget: Budgeted) -> None:
    """Refuse an invalid budget or path of the presets file, before anything is read.

    Raises:
        ParameterError: it is none.
    """
    is_valid, is_yaml = math.isfinite(budget.tokens) and budget.tokens > 0, budget.out.suffix in (".yaml", ".yml")
    raise_first(
        (not is_valid, f"--tokens must be a finite number above 0, got {budget.tokens:g}"),
        (not is_yaml, f"--out names the presets file to write, ending in .yaml, got {budget.out}"),
    )
    requests = {"the requests": [Path(budget.requests)]}
    refuse_outputs(
        {"--out": budget.out}, {**requests, **dataset_inputs(budget.catalog), **selector_inputs(budget.selector)}
    )
    if budget.out.exists():
        try:
            read_presets(budget.out)
        except UserError as error:
            problem = f"{budget.out} is there and is no presets file; name another one with --out"
            raise ParameterError(problem) from error


def _lines(budget: Budgeted, setting: BudgetSetting, selector: str, counter: str) -> Iterator[str]:
    """What the setting costs, for people."""
    yield (
        f"{_within(budget.tokens)}: {selector} offers {setting.tokens:,.0f} prompt tokens ({counter}), "
        f"{setting.items:.1f} items, on average over {setting.requests:,} requests"
    )
    if setting.tokens < 0.9 * budget.tokens:
        yield "that is all that the selector can offer; a larger budget changes nothing"
    elif setting.interval.holds:
        hint = f"; {setting.needed:,} requests would narrow that to 10%" if setting.needed > setting.requests else ""
        low, high = setting.interval.low, setting.interval.high
        yield f"on other such requests it offers {low:,.0f} to {high:,.0f} on average (95% interval){hint}"
    yield "how complete it is cannot be told without labels: `ctxbench data label` asks for some"
    yield f"written: {budget.out}"


def catalog_name(catalog: str) -> str:
    """What a presets file calls the catalog that it was made on."""
    path = Path(catalog)
    return path.parent.name if path.name == "corpus.jsonl" and path.parent.name else path.stem or path.resolve().name


FEW = 30  # labelled queries below which it is said how few a fit has seen
NO_GAIN = "no gain: keep the weights that it has"
NO_SURE_GAIN = "no significant gain: keep the weights that it has, or label more requests"
_HEADS = {
    "items": "items a query",
    "recall": "recall",
    "lost": "in need, offered nothing",
    "spared": "in no need, offered nothing",
}


@dataclass(frozen=True)
class FitRequest:
    """What the command line asks for.

    Attributes:
        kind: `probability`, `abstention` or `weights`.
        datasets: names or folders, one fit each.
        selector: what the fitted step is to stand behind: a shipped selector, `name/preset`, or a YAML file.
        split: whose queries are used; `all` = those of every split.
        folds: 0 = no figures out of fold.
        embedder: as `open_embedder` reads it.
        texts: whether a fit of a probability keeps the labelled requests, with their texts.
        metric: that the weights of a step `linear` are to raise; None = nDCG@10.
    """

    kind: str
    datasets: Sequence[str]
    selector: str
    split: str
    folds: int
    embedder: str
    texts: bool = True
    metric: str | None = None


def calibrate(request: FitRequest, *, out: Path, as_json: bool) -> None:
    """Fit, write, and print what was fitted and, with folds, what it is worth.

    Raises:
        ParameterError: there is no such kind, the weights of a fusion are asked for out of fold or by another metric,
            or two datasets have one name.
        UserError: as of `ctxbench.tuning.query_fits.fit`.
    """
    kinds = [kind for kind in KINDS if kind != LINEAR]  # those of columns are asked for as weights, too
    if request.kind not in kinds:
        raise ParameterError(f"what is fitted must be one of {', '.join(kinds)}, got {request.kind!r}")
    refuse_outputs({"--out": out}, {**dataset_inputs(*request.datasets), **selector_inputs(request.selector)})
    _check_fits_file(out)
    definition, preset = find_definition(request.selector)
    pipeline = definition.pipeline(definition.values(preset))
    linear = request.kind == WEIGHTS and linear_index(pipeline) is not None
    if request.folds and request.kind == WEIGHTS and not linear:
        fitted = "probability, abstention and the weights of a step `linear`"
        raise ParameterError(f"folds are for {fitted}; those of a fusion are measured by an experiment")
    if request.metric is not None and not linear:
        raise ParameterError("a metric is for the weights of a selector with a step `linear`")
    writes_selector = request.kind == PROBABILITY and fitted_index(definition.written, PROBABILITY) is not None
    if writes_selector:
        fitted_file(definition, out)  # what stands in the way is said before anything is fitted
    fits, figures = _fitted(request, pipeline, linear=linear)
    write_calibrations(out, fits.values())
    selector = write_fitted(definition, out, preset) if writes_selector else None
    for fit in fits.values():
        if fit.queries < FEW:
            queries = count(fit.queries, "labelled query", "labelled queries")
            advice = f"which says little about others; label about {FEW} or more (`ctxbench data label`)"
            say(f"warning: {fit.dataset}: {fit.kind} is fitted on {queries} only, {advice}", err=True)
    facts = {name: _fit_facts(fits[name], figures.get(name)) for name in fits}
    tables = {name: _table(figures[name]) if name in figures else [] for name in fits}
    print_result(
        {"fits": facts, "written": str(out), "selector": None if selector is None else str(selector)},
        *(line for name, fit in fits.items() for line in (_summary(fit), *tables[name])),
        f"written to {out}",
        *([] if selector is None else [f"the selector with it: {selector}, wherever a shipped name may stand"]),
        as_json=as_json,
    )


def _fitted(
    request: FitRequest, pipeline: Pipeline, *, linear: bool
) -> tuple[dict[str, Fit], dict[str, FoldFigures | WeightFigures]]:
    """The fits by dataset, and with folds the figures of each on requests that it was not fitted to."""
    embedder, metric = open_embedder(request.embedder), parse_objective(request.metric or METRIC)
    fits: dict[str, Fit] = {}
    figures: dict[str, FoldFigures | WeightFigures] = {}
    with progress() as bar:
        opened = [open_dataset(name, notify=bar.say) for name in request.datasets]
        names = [dataset.name for dataset in opened]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ParameterError(f"two datasets are called {', '.join(twice)}; name each once, or rename one")
        resources = local_resources(
            embedder, open_counter("o200k", cache=cache_dir()), progress=partial(bar, "embedding texts")
        )
        for dataset in opened:
            if linear:
                fits[dataset.name], held_out = fit_columns(
                    dataset, pipeline, resources, metric, split=request.split, folds=request.folds
                )
                figures.update({} if held_out is None else {dataset.name: held_out})
                continue
            fits[dataset.name] = fit_queries(
                request.kind, dataset, pipeline, resources, split=request.split, requests=request.texts
            )
            if request.folds:
                part, columns = labelled_queries(dataset, request.split), columns_of(requests=request.texts)
                examples = make_examples(request.kind, part, pipeline, resources, columns=columns)
                figures[dataset.name] = measure(
                    examples, request.folds, progress=partial(bar, f"{dataset.name}: folds")
                )
    return fits, figures


def _check_fits_file(out: Path) -> None:
    """Refuse to overwrite a file of something else, before anything is fitted.

    Raises:
        ParameterError: it stands where the fits go.
    """
    try:
        if out.exists():
            read_calibrations(out)
    except InputError as error:
        problem = f"{out} is there and is no file of fits that can be read"
        raise ParameterError(f"{problem}; name another --out") from error


def _fit_facts(fit: Fit, figures: FoldFigures | WeightFigures | None) -> dict[str, Any]:
    facts = {"kind": fit.kind, "catalog": fit.catalog, "split": fit.split, "queries": fit.queries}
    return facts | ({"values": fit.values} if figures is None else {"out_of_fold": figures.as_dict()})


def _summary(fit: Fit) -> str:
    where = "every split" if fit.split == "all" else f"split {fit.split}"

    kind = "weights of columns" if fit.kind == "linear" else fit.kind
    line = f"{fit.dataset}: {kind} fitted on {count(fit.queries, 'query', 'queries')} of {where}"
    weights = fit.values.get("weights")
    if isinstance(weights, Mapping):
        line += ": " + ", ".join(f"{name} {value:g}" for name, value in weights.items())
    if "before" in fit.values:
        line += "; {metric} {value:.3f} there, {before:.3f} with those it had".format(**fit.values)
        line += f"; {NO_GAIN}" if fit.values["value"] <= fit.values["before"] else ""
    if requests := fit.values.get("requests"):
        line += f"; the file holds the texts of {count(len(requests), 'labelled request')} and what they need"
    return line


def _table(figures: FoldFigures | WeightFigures) -> list[str]:
    """The figures as lines of text."""
    if isinstance(figures, WeightFigures):
        comparison, gain = figures.compared, figures.compared.interval
        of = f"{figures.folds} folds of {count(comparison.n, 'query', 'queries')} in {count(figures.groups, 'group')}"
        means = f"{figures.metric} {comparison.other:.3f}, {comparison.base:.3f} with the weights it had"
        text = f"{means}: {comparison.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        verdict = "" if gain.low > 0 else f"; {NO_GAIN if comparison.difference <= 0 else NO_SURE_GAIN}"
        return [f"  Measured on requests it was not fitted on ({of}): {text}{verdict}"]

    of_items = "items" in figures.columns
    statement = (
        "a required item scores above one that is not" if of_items else "a request in need scores above one in none"
    )
    queries, groups = count(figures.queries, "query", "queries"), count(figures.groups, "group")
    head = (
        f"  Measured on requests it was not fitted on ({figures.folds} folds of {queries} in {groups}): how "
        f"often {statement} (1 = always): {figures.roc_area:.3f} [{figures.interval.low:.3f}, "
        f"{figures.interval.high:.3f}]. Below: what comes of each threshold; in brackets 95% intervals."
    )
    names = [_HEADS[name] for name in figures.columns]
    return [
        head,
        f"  {'threshold':>10}  {names[0]:>28}  {names[1]:>28}",
        *(
            f"  {point[0]:>10.4f}  {_estimate_text(point[1]):>28}  {_estimate_text(point[2]):>28}"
            for point in figures.points
        ),
    ]


def _estimate_text(value: Estimate) -> str:
    digits = 3 if value.value <= 1 else 2
    return f"{value.value:.{digits}f} [{value.interval.low:.{digits}f}, {value.interval.high:.{digits}f}]"


def next_step_line(step: NextStep, folder: str) -> str:
    """The last line of an import: the command to run next, with what a fit gains if that is significant.

    Args:
        step: as of `next_step`.
        folder: of the dataset, as the user named it.
    """
    arguments = ["probability", folder, *["--split", ALL] * (step.split == ALL), "--out", f"{Path(folder)}-fits.json"]
    fitting = f"`{shlex.join(['ctxbench', 'calibrate', *arguments])}`"
    labelling = f"`{shlex.join(['ctxbench', 'data', 'label', folder, '--minutes', '20'])}`"
    running = f"`ctxbench run EXPERIMENT.yaml`, with `datasets: [{folder}]` and `selectors: [bm25, learned]` in it"
    if Path(EXPERIMENT).is_file():
        running = f"`ctxbench run {EXPERIMENT}`, with `datasets: [{folder}]` in it"
    if step.labelled:
        labelling += f", or for the {count(step.labelled, 'labelled query', 'labelled queries')} {running}"
    command = {"calibrate": fitting, "label": labelling, "run": running}[step.action]
    if step.gain is None or step.action != "calibrate":
        return f"next: {command}" + (f" (gain not measured: {step.why})" if step.why else "")
    gain = (
        f"completeness {document.signed(COMPLETE, step.gain.difference)} points on {step.gain.n:,} held-out requests, "
        f"{1 - step.gain.alpha:.0%} CI {document.difference_interval(COMPLETE, step.gain)}"
    )
    if step.tokens is not None:
        gain += f"; {step.tokens.other:,.0f} prompt tokens a request, {step.tokens.base:,.0f} before"
    return f"next: {command} ({gain})"
