"""Opens the datasets and selectors for tuning, and finds all faults before anything is embedded."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.bench.prepared import StepChecks
from ctxbench.bench.progress_listener import nothing_said
from ctxbench.core.errors import Fault, InputError, ParameterError, UnknownNameError, UserError
from ctxbench.core.pipeline import Pipeline, PipelineError
from ctxbench.data.datasets.dataset import Dataset, select_queries
from ctxbench.data.datasets.lookup import open_dataset
from ctxbench.embedding.embedder import Embedder
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.embedding.vectors import open_vectors
from ctxbench.index.resources import LocalResources
from ctxbench.io.cache import cache_dir
from ctxbench.io.yaml_files import line_of
from ctxbench.io.yaml_form import YamlForm
from ctxbench.selectors.definitions import find_definition, is_file
from ctxbench.selectors.definitions import shipped as shipped_names
from ctxbench.selectors.external import external_from_config
from ctxbench.sources.agent_file import is_agent_file, read_agent
from ctxbench.sources.own_selectors import LEARNED
from ctxbench.text.tokens import TokenCounter, open_counter
from ctxbench.tuning.fits.examples import ALL
from ctxbench.tuning.limits import policy_measures
from ctxbench.tuning.own_rankings import EXTERNAL_CUT, ExternalRankings, searched_scores, unfit_scores
from ctxbench.tuning.policy_file import PolicyFile
from ctxbench.tuning.query_sets import TEST, TUNING, QuerySet, is_fitted_on
from ctxbench.tuning.recommendation import unanswerable
from ctxbench.tuning.selector_entry import SelectorEntry
from ctxbench.tuning.tunables import ShippedPreset, Tunable
from ctxbench.tuning.tuning_results import EVERYTHING, TOGETHER


def read_tunables(
    file: PolicyFile, rankings: Mapping[str, ExternalRankings] | None = None
) -> tuple[tuple[Tunable, ...], list[Fault]]:
    """Read the selectors of a policy file.

    Args:
        file: as read.
        rankings: by name, the rankings of external selectors that were opened before and are not asked again.

    Returns:
        The selectors that can be tuned, and what is wrong with the others, by line.
    """
    form = YamlForm(file.path, file.lines, [])
    tunables = [
        form.attempt(partial(_read_checked, entry, file, rankings or {}), *entry.where) for entry in file.selectors
    ]
    return tuple(tunable for tunable in tunables if tunable is not None), form.faults


def _read(entry: SelectorEntry, base: Path, rankings: Mapping[str, ExternalRankings]) -> Tunable:
    outside, folder = entry.outside, base
    if entry.selector and is_agent_file(base / entry.selector):
        outside, folder = read_agent(base / entry.selector).own, (base / entry.selector).parent
    if outside:
        earlier = rankings.get(entry.name)
        answers = earlier or ExternalRankings(
            external_from_config({**outside, "name": entry.name}, base=folder), outside
        )
        return Tunable(entry=entry, source=entry.name, definition=EXTERNAL_CUT, answers=answers)
    definition, preset = find_definition(entry.selector, base=base)
    if preset is not None and preset not in definition.presets:
        raise UnknownNameError("preset", preset, definition.presets, where=f" of selector {definition.name!r}")
    start = definition.presets[preset] if preset is not None else {}
    source = entry.selector if preset is None else entry.selector.removesuffix(f"/{preset}")
    return Tunable(entry=entry, source=source, definition=definition, start=start)


def with_range_of(tunable: Tunable, query_sets: Sequence[QuerySet]) -> Tunable:
    """The same selector; for answers, the range of includeScore ends above all scores, so that it can include nothing.

    Args:
        tunable: a selector.
        query_sets: of all datasets.
    """
    if tunable.answers is None:
        return tunable
    scores = [searched_scores(tunable.answers.of(query_set).answers) for query_set in query_sets]
    highest = max([float(score.max()) for score in scores if len(score)], default=0.0)
    if highest < 1:
        return tunable
    above = float(math.floor(highest) + 1)
    wider = replace(EXTERNAL_CUT.parameters["includeScore"], default=above, high=above)
    return replace(tunable, definition=replace(EXTERNAL_CUT, parameters={**EXTERNAL_CUT.parameters, wider.name: wider}))


def _unsuitable(tunable: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """What is wrong with each value that the file gives a selector, taken alone."""
    written: dict[tuple[str | int, ...], Any] = {("set", name): value for name, value in tunable.entry.set.items()}
    for name, values in tunable.entry.search.items():
        written |= {("search", name, index): value for index, value in enumerate(values)}
    reported = set()
    for where, value in written.items():
        try:
            tunable.definition.checked(str(where[1]), value)
        except ParameterError as error:
            if (where[:2], str(error)) not in reported:  # of an unknown parameter every value would be wrong
                yield str(error), where
            reported.add((where[:2], str(error)))


def _read_checked(entry: SelectorEntry, file: PolicyFile, rankings: Mapping[str, ExternalRankings]) -> Tunable:
    """A selector with values as its parameters keep them: 1 is 1.0 where decimals are allowed.

    Raises:
        UserError: it is unknown or broken, or a value of it is wrong or without effect.
    """
    tunable = _read(entry, file.base, rankings)
    if wrong := list(_unsuitable(tunable)) or list(_without_effect(tunable)):
        raise InputError([file.fault(message, *entry.where, *where) for message, where in wrong])
    check = tunable.definition.checked
    written = {name: check(name, value) for name, value in tunable.entry.set.items()}
    search = {name: tuple(check(name, value) for value in values) for name, values in tunable.entry.search.items()}
    return replace(tunable, entry=replace(tunable.entry, set=written, search=search))


def _without_effect(tunable: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """Values that the file gives a selector and that have no effect."""
    for name in tunable.entry.search:
        if name in tunable.swept_thresholds:
            yield f"{name} is tried at every value that matters; leave it out of `search`", ("search", name)
        for index, value in enumerate(tunable.entry.search[name]):
            try:
                tunable.pipeline({name: value})
            except PipelineError as error:
                yield from ((fault.message, ("search", name, index)) for fault in error.faults)
    for name, value in tunable.entry.set.items():
        if idle := tunable.definition.idle(name, tunable.values()):
            yield f"{name} {value!r}: {idle}", ("set", name)


MIN_LABELS = 400  # queries in need over both splits, below which all labels decide


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningDataset:
    """A dataset that is tuned on.

    Attributes:
        dataset: whole.
        query_sets: by split, the queries that policies are about, or a sample of them: `tuning` and `test`, or `all`
            where all labels decide.
        of: by split, how many there are to sample from.
        left_out: by name of a competitor why it cannot compete here, as a sentence without its end.
        unanswered: by name of a policy what the labels cannot say, likewise.
        empty: names of competitors outside ctxbench that rank nothing for any query.
        named: the name or folder that opens it.
    """

    dataset: Dataset
    query_sets: Mapping[str, QuerySet]
    of: Mapping[str, int]
    left_out: Mapping[str, str] = field(default_factory=dict)
    unanswered: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    named: str = ""

    @property
    def tuning_set(self) -> QuerySet:
        """The queries that settings are chosen on."""
        return self.query_sets.get(ALL) or self.query_sets[TUNING]

    @property
    def evaluation_set(self) -> QuerySet:
        """The queries that figures are of: the test split, or the tuning set where all labels decide."""
        return self.query_sets.get(ALL) or self.query_sets[TEST]


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningInputs:
    """The checked inputs of tuning; nothing is embedded yet and no model is loaded.

    Attributes:
        file: the policies.
        tunables: the competitors; the first is the base.
        shipped: the presets of `learned`, and of the shipped selectors that compete.
        datasets: in order.
        embedder, counter: not loaded yet.
    """

    file: PolicyFile
    tunables: tuple[Tunable, ...]
    datasets: tuple[TuningDataset, ...]
    embedder: Embedder
    counter: TokenCounter
    shipped: tuple[ShippedPreset, ...] = ()

    def tunable(self, name: str) -> Tunable:
        """The selector of a name that results use: one of the file, or one whose presets compete."""
        competitors = (*self.tunables, *(preset.tunable for preset in self.shipped))
        return next(tunable for tunable in competitors if tunable.name == name)


def open_tuning(
    file: PolicyFile,
    datasets: Sequence[str],
    *,
    notify: Callable[[str], None] = nothing_said,
    progress: Callable[[int, int], None] | None = None,
    open_one: Callable[..., Dataset] = open_dataset,
    rankings: Mapping[str, ExternalRankings] | None = None,
) -> TuningInputs:
    """Open everything that tuning needs.

    Args:
        file: as read.
        datasets: names or folders.
        notify: called with a message about what takes a moment.
        progress: called with how many of how many texts are embedded, later.
        open_one: opens a dataset, called as `open_dataset(name, base=..., notify=...)`.
        rankings: as for `read_tunables`.

    Raises:
        InputError: a dataset, selector, embedder or token counter is unknown or broken, no query of a dataset is
            labelled, the base does not suit one, a step has seen its test split, or answers have no ranking with
            scores; all faults at once.
    """
    tunables, faults = read_tunables(file, rankings)
    shipped = tuple(_shipped_presets(file, tunables))
    in_file, elsewhere = YamlForm(file.path, file.lines, faults), YamlForm(None, {}, faults)
    embedder = in_file.attempt(lambda: open_embedder(file.embedder), "embedder")
    counter = in_file.attempt(lambda: open_counter(file.tokens, cache=cache_dir()), "tokens")
    resources = None
    if embedder is not None and counter is not None:  # one for all, as datasets share catalogs
        resources = LocalResources(open_vectors(embedder, progress=progress), counter)
    by_name: dict[str, TuningDataset] = {}
    for reference in datasets:
        dataset = elsewhere.attempt(partial(open_one, reference, base=Path(), notify=notify))
        if dataset is None or resources is None:
            continue
        if dataset.name in by_name:
            elsewhere.fault(f"two datasets are called {dataset.name!r}; name each once, or rename one")
            continue
        opened = elsewhere.attempt(partial(_opened, dataset, file, resources, named=reference))
        if opened is not None:
            left_out, wrong = _check_suited(file, tunables, opened)
            left_out |= _unsuited_presets(file, tunables, shipped, opened)
            by_name[dataset.name] = replace(
                opened,
                left_out=left_out,
                unanswered=unanswerable(file.policies, opened.tuning_set.labels),
                empty=() if wrong else tuple(_ranks_nothing(tunables, opened)),
            )
            faults += wrong
    faults += _check_names(file, tunables, by_name)
    if faults or embedder is None or counter is None:
        file_faults = sorted((fault for fault in faults if fault.path == file.path), key=lambda fault: fault.line)
        raise InputError([*dict.fromkeys([*file_faults, *(fault for fault in faults if fault.path != file.path)])])
    query_sets = [query_set for opened in by_name.values() for query_set in opened.query_sets.values()]
    tunables = tuple(with_range_of(tunable, query_sets) for tunable in tunables)
    return TuningInputs(
        file=file,
        tunables=tunables,
        datasets=tuple(by_name.values()),
        embedder=embedder,
        counter=counter,
        shipped=shipped,
    )


def _shipped_presets(file: PolicyFile, tunables: Sequence[Tunable]) -> Iterator[ShippedPreset]:
    """The presets of the shipped selectors that are tuned, and of `learned`, each as it ships."""
    sources = {tunable: _shipped_source(tunable, file.base) for tunable in tunables}
    for source in dict.fromkeys([*filter(None, sources.values()), LEARNED]):
        shipped, _ = find_definition(source)
        name = f"{source} as shipped" if source in {tunable.name for tunable in tunables} else source
        as_shipped = Tunable(entry=SelectorEntry(name=name, selector=source), source=source, definition=shipped)
        tunable = next(
            (competitor for competitor, of in sources.items() if of == source and _is_as_shipped(competitor, source)),
            as_shipped,
        )
        for preset, values in shipped.presets.items():
            yield ShippedPreset(name=f"{source}/{preset}", tunable=tunable, values=values)


def _is_as_shipped(tunable: Tunable, source: str) -> bool:
    """Whether nothing in the file changes a shipped selector."""
    return tunable.source == source and not (tunable.start or tunable.entry.set or tunable.entry.fit)


def _shipped_source(tunable: Tunable, base: Path) -> str:
    """The shipped selector that a selector of the file is, itself or by an agent file; empty where it is none."""
    source = tunable.source
    if tunable.answers is None and is_file(source) and is_agent_file(base / source):
        agent = read_agent(base / source)
        source = "" if agent.presets is not None else agent.selector.partition("/")[0]
    return source if tunable.answers is None and source in shipped_names() else ""


def _unsuited_presets(
    file: PolicyFile, tunables: Sequence[Tunable], shipped: Sequence[ShippedPreset], opened: TuningDataset
) -> dict[str, str]:
    """Why shipped presets cannot compete on a dataset, by the name of their selector."""
    extra = dict.fromkeys(preset.tunable for preset in shipped if preset.tunable not in tunables)
    reasons = {}
    for tunable in extra:
        left_out, wrong = _check_suited(file, [tunable], opened)
        if messages := [*left_out.values(), *(fault.message for fault in wrong)]:
            reasons[tunable.name] = "; ".join(messages)
    return reasons


def _opened(dataset: Dataset, file: PolicyFile, resources: LocalResources, *, named: str) -> TuningDataset:
    """Both splits of a dataset, or all its labels in one where they are few, or where there are no two splits.

    Queries that have forbidden items and else no full labels are among them where a policy is about these.

    Args:
        dataset, file, resources: what is tuned.
        named: the name or folder that opens the dataset.

    Raises:
        InputError: no query is labelled, or a split that was asked for is not there.
    """
    judged = {split: dataset.split(split).judged() for split in (TUNING, TEST) if split in dataset.split_names}
    missing = [split for split in (TUNING, TEST) if not len(judged.get(split, ()))]
    if file.labels == "split" and missing:
        message = (
            f"labels: split, but dataset {dataset.name} has no labelled query of split {' and '.join(missing)}; make "
            f"both with `{shlex.join(['ctxbench', 'data', 'split', named])}`, or leave `labels` out"
        )
        raise InputError([file.fault(message, "labels")])
    in_need = sum(not query.needs_nothing for part in judged.values() for query in part.queries)
    if not missing and (file.labels == "split" or (not file.labels and in_need >= MIN_LABELS)):
        by_split = {split: dataset.split(split) for split in judged}
    else:
        splits = set(judged) if not missing else {None, *dataset.split_names}
        by_split = {ALL: dataset.take(query.id for query in dataset.queries if query.split in splits)}
    has_partial = any(measure.metric.declaration.partial for measure in policy_measures(file.policies))
    parts = {split: part.measured() if has_partial else part.judged() for split, part in by_split.items()}
    item_tokens = resources.tokens(dataset.catalog)
    query_sets = {}
    for split, part in parts.items():
        if not len(part):
            message = f"dataset {dataset.name}: no query is labelled or needs nothing"
            raise InputError(
                [Fault(f"{message}; label some with `{shlex.join(['ctxbench', 'data', 'label', named])}`")]
            )
        drawn = select_queries(part, sample=file.sample, seed=file.seed)
        query_sets[split] = QuerySet(drawn, split, item_tokens, resources)
    return TuningDataset(
        dataset=dataset, query_sets=query_sets, of={split: len(part) for split, part in parts.items()}, named=named
    )


def _check_suited(
    file: PolicyFile, tunables: Sequence[Tunable], opened: TuningDataset
) -> tuple[dict[str, str], list[Fault]]:
    """Why selectors do not suit a dataset, by name; and what is wrong with those that do.

    A base that does not suit the dataset is a fault, since all others are compared with it.
    """
    checks = StepChecks(opened.tuning_set.resources)
    faults: list[Fault] = []
    left_out: dict[str, str] = {}
    for index, tunable in enumerate(tunables):
        where = f"selector {tunable.name!r} on dataset {opened.dataset.name}"
        if tunable.answers is not None:
            line = line_of(file.lines, tunable.entry.where)
            wrong_answers = [
                fault for query_set in opened.query_sets.values() for fault in _unusable(tunable.answers, query_set)
            ]
            faults += [replace(fault, path=file.path, line=line) for fault in wrong_answers]
            continue
        wrong: list[str] = []
        try:
            pipeline = tunable.pipeline({})
            messages = checks.faults(pipeline, opened.tuning_set.dataset)
            if not pipeline.ranks:
                wrong.append("it ranks nothing, so that there is nothing to cut; leave it out")
            wrong += _leaks(tunable, pipeline, opened)
        except UserError as error:
            messages = [str(error)]
        if messages and index:
            left_out[tunable.name] = "; ".join(messages)
        else:
            wrong += messages
        faults += [file.fault(f"{where}: {message}", *tunable.entry.where) for message in wrong]
    return left_out, faults


def _unusable(rankings: ExternalRankings, query_set: QuerySet) -> tuple[Fault, ...]:
    """What is wrong with external rankings; they are only read, and compared with no label."""
    try:
        answers = rankings.of(query_set).answers
    except InputError as error:
        return error.faults
    return unfit_scores(rankings.title, answers, query_set)


def _ranks_nothing(tunables: Sequence[Tunable], opened: TuningDataset) -> Iterator[str]:
    """The names of external selectors that rank nothing for any query."""
    for tunable in tunables:
        rankings = tunable.answers
        tables = (
            []
            if rankings is None
            else [rankings.of(query_set).answers.candidates for query_set in opened.query_sets.values()]
        )
        if rankings is not None and not any(
            table.ranked.any() for table in tables
        ):  # what is always offered is none of its own
            yield tunable.name


def _leaks(tunable: Tunable, pipeline: Pipeline, opened: TuningDataset) -> Iterator[str]:
    """Steps that were fitted on queries that they are measured on, which makes figures look better than they are."""
    tuning_set = opened.tuning_set
    if TEST in opened.query_sets and is_fitted_on(pipeline, opened.query_sets[TEST]):
        yield (
            "a step of it was fitted on queries of the test split, so that nothing measured there would hold "
            f"elsewhere; fit it anew, `ctxbench calibrate` with `{shlex.join([opened.named, '--split', 'tuning'])}`"
        )
    elif is_fitted_on(replace(pipeline, refine=pipeline.refine[tunable.first_cut :]), tuning_set):
        yield (
            "a step behind its first cut, or in a domain, was fitted on the queries that are tuned on, where it says "
            "too much, and only what stands in front of all cuts is fitted anew by fold; leave the step out"
        )
    elif is_fitted_on(pipeline, tuning_set) and (tunable.tried_values or tunable.has_expansion({})):
        subject = f"{', '.join(tunable.tried_values)} can" if tunable.tried_values else "an expansion behind it can"
        yield (
            f"{subject} only be tried by running it, and a step of it was fitted on the queries that are tuned on, "
            "where running it says too much; leave `search` and expansion out, or the fitted step"
        )


def _check_names(
    file: PolicyFile, tunables: Sequence[Tunable], datasets: Mapping[str, TuningDataset]
) -> Iterator[Fault]:
    """What is wrong with names that reports use themselves, and with `together` where no selector can be swept."""
    if EVERYTHING in [policy.name for policy in file.policies]:
        message = f"{EVERYTHING} is what a report calls offering all items; give the policy another name"
        yield file.fault(message, "policies", EVERYTHING)
    if file.together and len(datasets) > 1:
        if TOGETHER in datasets:
            yield file.fault(f"a dataset is called {TOGETHER!r}, as the setting for all is; rename it", "together")
        if tunables and not any(tunable.family is not None and not tunable.has_expansion({}) for tunable in tunables):
            message = "together needs a selector whose cut is swept exactly, and there is none; leave it out"
            yield file.fault(message, "together")
