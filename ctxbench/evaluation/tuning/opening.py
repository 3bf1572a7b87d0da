"""Opens what a policy file and a command line name, and finds all that is wrong with it before anything is embedded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ctxbench.cache import cache_dir
from ctxbench.embedding.base import Embedder
from ctxbench.embedding.names import open_embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.errors import Fault, InputError, UserError
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.sampling import asked
from ctxbench.evaluation.datasets.store import open_dataset
from ctxbench.evaluation.preparing import StepChecks, nothing_said
from ctxbench.evaluation.tuning.choosing import unmeasurable
from ctxbench.evaluation.tuning.competitors import read_tunables, searched_scores, with_range_of
from ctxbench.evaluation.tuning.policy_file import PolicyFile
from ctxbench.evaluation.tuning.results import EVERYTHING, TOGETHER
from ctxbench.evaluation.tuning.sides import TEST, TUNING, Side
from ctxbench.evaluation.tuning.tunables import Tunable
from ctxbench.evaluation.tuning.uncut import found_in, seen_by
from ctxbench.index.resources import LocalResources
from ctxbench.pipeline import Pipeline
from ctxbench.selectors.external import FileSelector
from ctxbench.tokens import TokenCounter, open_counter
from ctxbench.yamlio import line_of

T = TypeVar("T")
MOST = 0.9  # share of the scores of answers that may be 0 or less


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """A dataset that is tuned on.

    Attributes:
        dataset: whole.
        sides: by split, the judged queries, or a sample of them.
        of: by split, how many there are to sample from.
    """

    dataset: Dataset
    sides: Mapping[str, Side]
    of: Mapping[str, int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Ready:
    """Tuning that was checked whole; nothing is embedded and no model is loaded.

    Attributes:
        file: the policies.
        tunables: the competitors; the first is the base.
        datasets: in order.
        embedder, counter: not loaded yet.
    """

    file: PolicyFile
    tunables: tuple[Tunable, ...]
    datasets: tuple[Opened, ...]
    embedder: Embedder
    counter: TokenCounter


def open_tuning(
    file: PolicyFile,
    datasets: Sequence[str],
    *,
    notify: Callable[[str], None] = nothing_said,
    progress: Callable[[int, int], None] | None = None,
) -> Ready:
    """Open everything that tuning needs.

    Args:
        file: as read.
        datasets: names or folders.
        notify: told what takes a moment.
        progress: told how many of how many texts are embedded, later.

    Raises:
        InputError: a dataset, selector, embedder or token counter is unknown or broken, a dataset lacks a split, a
            step does not suit a dataset or has seen its test split, answers have no ranking with scores, or a policy
            asks for what the labels cannot say; all faults at once.
    """
    tunables, faults = read_tunables(file)

    def attempt(what: Callable[[], T], *where: str | int) -> T | None:
        try:
            return what()
        except InputError as error:
            faults.extend(error.faults)
        except UserError as error:
            line = line_of(file.lines, where) if where else 0
            faults.append(Fault(str(error), file.path, line) if where else Fault(str(error)))
        return None

    embedder = attempt(lambda: open_embedder(file.embedder), "embedder")
    counter = attempt(lambda: open_counter(file.tokens, cache=cache_dir()), "tokens")
    resources = None
    if embedder is not None and counter is not None:  # one for all, as datasets share catalogs
        resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity), progress=progress), counter)
    found: dict[str, Opened] = {}
    for reference in datasets:
        dataset = attempt(partial(open_dataset, reference, base=Path(), notify=notify))
        if dataset is None or resources is None:
            continue
        if dataset.name in found:
            faults.append(Fault(f"two datasets are called {dataset.name!r}; name each once, or rename one"))
            continue
        opened = attempt(partial(_opened, dataset, file, resources))
        if opened is not None:
            found[dataset.name] = opened
            side = opened.sides[TUNING]
            faults += unmeasurable(file, side.labels)
            faults += _unsuited(file, tunables, opened)
    faults += _unnamable(file, tunables, found)
    if faults or embedder is None or counter is None:
        own = sorted((fault for fault in faults if fault.path == file.path), key=lambda fault: fault.line)
        raise InputError([*dict.fromkeys([*own, *(fault for fault in faults if fault.path != file.path)])])
    tunables = tuple(_ranged(one, list(found.values())) for one in tunables)
    return Ready(file=file, tunables=tunables, datasets=tuple(found.values()), embedder=embedder, counter=counter)


def _opened(dataset: Dataset, file: PolicyFile, resources: LocalResources) -> Opened:
    """Both splits of a dataset.

    Raises:
        InputError: one is not there, or none of its queries is labelled.
    """
    lacking = [split for split in (TUNING, TEST) if split not in dataset.split_names]
    if lacking:
        there = ", ".join(dataset.split_names) or "none"
        what = (
            f"dataset {dataset.name} has no {' and no '.join(lacking)} split (it has: {there}); what is found on one "
            f"half of the queries is held against the other: make both with `ctxbench data split {dataset.name}`"
        )
        raise InputError([Fault(what)])
    item_tokens = resources.tokens(dataset.catalog)
    sides, of = {}, {}
    for split in (TUNING, TEST):
        of[split] = len(asked(dataset, split=split).judged())
        if not of[split]:
            what = f"dataset {dataset.name}: no query of its {split} split is labelled or needs nothing; label some "
            raise InputError([Fault(f"{what}with `ctxbench data label`")])
        part = asked(dataset, split=split, sample=file.sample, seed=file.seed).judged()
        sides[split] = Side(part, split, item_tokens, resources)
    return Opened(dataset=dataset, sides=sides, of=of)


def _unsuited(file: PolicyFile, tunables: Sequence[Tunable], opened: Opened) -> list[Fault]:
    """What the steps of the competitors say against a dataset."""
    side = opened.sides[TUNING]
    checks = StepChecks(side.resources)
    faults = []
    for one in tunables:
        line = line_of(file.lines, one.entry.where)
        where = f"selector {one.name!r} on dataset {opened.dataset.name}"
        if one.answers is not None:
            faults += [replace(fault, path=file.path, line=line) for fault in _unanswered(one.answers, opened)]
            continue
        try:
            pipeline = one.pipeline({})
            messages = checks.faults(pipeline, side.dataset)
            if not pipeline.ranks:
                messages.append("it ranks nothing, so that there is nothing to cut; leave it out")
            messages += _leaking(one, pipeline, opened)
        except UserError as error:
            messages = [str(error)]
        faults += [Fault(f"{where}: {message}", file.path, line) for message in messages]
    return faults


def _unanswered(answers: FileSelector, opened: Opened) -> list[Fault]:
    """What is wrong with the answers to either split; they are only read, and held against no label."""
    faults: list[Fault] = []
    for side in opened.sides.values():
        try:
            found = found_in(answers, side).answers
        except InputError as error:
            faults += error.faults
            continue
        scores = searched_scores(found)
        if len(scores) and (scores <= 0).mean() > MOST:
            where = f"answers {answers.name!r}, {side.split} split of dataset {side.dataset.name}"
            what = (
                f"{where}: {(scores <= 0).mean():.0%} of the scores in `ranking` are 0 or less, and a cut offers only "
                "what scores above 0; give scores that are higher by so much, or probabilities"
            )
            faults.append(Fault(what))
    return faults


def _ranged(one: Tunable, datasets: Sequence[Opened]) -> Tunable:
    """A competitor of answers with a cut that goes as far as their scores; any other as it is."""
    answers = one.answers
    if answers is None:
        return one
    sides = [side for opened in datasets for side in opened.sides.values()]
    return with_range_of(one, (found_in(answers, side).answers for side in sides))


def _leaking(one: Tunable, pipeline: Pipeline, opened: Opened) -> Iterator[str]:
    """What would make figures look better than they are: a fit that has seen the queries that it is measured on."""
    if seen_by(pipeline, opened.sides[TEST]):
        yield (
            "a step of it was fitted on queries of the test split, so that nothing measured there would hold "
            f"elsewhere; fit it with `ctxbench calibrate ... {opened.dataset.name} --split tuning`"
        )
    elif seen_by(replace(pipeline, refine=pipeline.refine[one.first_cut :]), opened.sides[TUNING]):
        yield (
            "a step behind its first cut, or in a domain, was fitted on the queries that are tuned on, where it says "
            "too much, and only what stands in front of all cuts is fitted anew by fold; leave the step out"
        )
    elif seen_by(pipeline, opened.sides[TUNING]) and (one.searched or one.beyond({})):
        what = f"{', '.join(one.searched)} can" if one.searched else "an expansion behind it can"
        yield (
            f"{what} only be tried by running it, and a step of it was fitted on the queries that are tuned on, where "
            "running it says too much; leave `search` and expansion out, or the fitted step"
        )


def _unnamable(file: PolicyFile, tunables: Sequence[Tunable], datasets: Mapping[str, Opened]) -> list[Fault]:
    """Names that stand for something else in reports, and `together` where nothing can be swept for all."""
    faults = []
    for policy in file.policies:
        if policy.name == EVERYTHING:
            what = f"{EVERYTHING} is what a report calls offering all items; give the policy another name"
            faults.append(Fault(what, file.path, line_of(file.lines, ("policies", policy.name))))
    if file.together and len(datasets) > 1:
        line = line_of(file.lines, ("together",))
        if TOGETHER in datasets:
            faults.append(
                Fault(f"a dataset is called {TOGETHER!r}, as the setting for all is; rename it", file.path, line)
            )
        if tunables and not any(one.family is not None and not one.beyond({}) for one in tunables):
            what = "together needs a selector whose cut is swept exactly, and there is none; leave it out"
            faults.append(Fault(what, file.path, line))
    return faults
