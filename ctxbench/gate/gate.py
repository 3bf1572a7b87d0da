"""Check selectors against a baseline, or accept a new baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ctxbench.catalogs.agent_file import read_agent
from ctxbench.catalogs.mcp_config import CapturedServer
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import agent_of
from ctxbench.datasets.lookup import changed_sources, unread_agents, user_folder
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import (
    AcceptedBaseline,
    GateAnswers,
    has_no_texts,
    reuse_answers,
    summarise_selector,
    with_unasked,
    write_baseline,
)
from ctxbench.gate.baseline_reader import accepted_settings, accepted_vectors, read_baseline, read_manifest
from ctxbench.gate.baseline_rows import MANIFEST, VECTORS, gate_file_in_messages
from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.causes import explain, with_fix_prices
from ctxbench.gate.comparability import assess_comparability, renamed_items
from ctxbench.gate.differences import (
    Differences,
    differences,
    group_changes,
    item_changes,
    price_causes,
    token_changes,
    with_prices,
)
from ctxbench.gate.history import find_replacement, loosened_pins, lost_pins, replaced_by_accepting, stricter_settings
from ctxbench.gate.inputs import InputDifferences, edited_fields, input_differences
from ctxbench.gate.results import (
    CauseGroup,
    Change,
    Check,
    Loosened,
    MetricPair,
    MetricVerdict,
    MinimumVerdict,
    PinFailure,
    SelectorCheck,
    Verdict,
    judge_metrics,
    judge_minimums,
)
from ctxbench.gate.settings import CheckSettings, GateFile, Pin, examine_gate
from ctxbench.gate.snapshots import ItemFact, SelectorSnapshot, failures, first_ids, levels, size
from ctxbench.gate.verdict import (
    LossFacts,
    decide_verdict,
    explain_pins,
    missed_text,
    pin_failures,
    unknown_pins,
    unmet_requirements,
    unmet_text,
    with_servers,
)
from ctxbench.io.console import Notify, ProgressListener, nothing_said, silent
from ctxbench.io.errors import InputError, Message, ParameterError

_MAX_NAMED = 3  # selectors that may have taken the place of another


class SnapshotPairs(NamedTuple):
    """Snapshots of base and head, paired by dataset and selector.

    Attributes:
        pairs: base and head, in the order of the head.
        missing: what the base has and the head lacks, as not comparable, in the order of the base.
        notices: what the head has and the base lacks, a sentence each.
        new: that of the head, of which minimums are judged.
    """

    pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]]
    missing: tuple[SelectorCheck, ...] = ()
    notices: tuple[str, ...] = ()
    new: tuple[SelectorSnapshot, ...] = ()


def pair_snapshots(bases: Sequence[SelectorSnapshot], heads: Sequence[SelectorSnapshot]) -> SnapshotPairs:
    """Put snapshots together by dataset and selector."""
    before = {(snapshot.dataset, snapshot.selector): snapshot for snapshot in bases}
    after = {(snapshot.dataset, snapshot.selector): snapshot for snapshot in heads}
    return SnapshotPairs(
        pairs=tuple((before[key], snapshot) for key, snapshot in after.items() if key in before),
        missing=tuple(
            _missing_selector(snapshot, bases, heads) for key, snapshot in before.items() if key not in after
        ),
        notices=tuple(
            Message(
                "gate.selector-not-in-baseline",
                selector=selector,
                dataset=dataset,
                baseline=bases[0].source if bases else "the baseline",
            )
            for dataset, selector in after
            if (dataset, selector) not in before
        ),
        new=tuple(snapshot for key, snapshot in after.items() if key not in before),
    )


def _missing_selector(
    base: SelectorSnapshot, bases: Sequence[SelectorSnapshot], heads: Sequence[SelectorSnapshot]
) -> SelectorCheck:
    selectors = [snapshot.selector for snapshot in heads if snapshot.dataset == base.dataset]
    base_selectors = {snapshot.selector for snapshot in bases if snapshot.dataset == base.dataset}
    values = {
        "base": base.source,
        "head": heads[0].source if heads else "this run",
        "subject": f"{base.selector} on {base.dataset}" if selectors else f"dataset {base.dataset}",
    }
    if new := [selector for selector in selectors if selector not in base_selectors]:  # a preset gave it another name
        reason = Message(
            "gate.selector-replaced", names=" or ".join(new[:_MAX_NAMED]), selector=base.selector, **values
        )
    else:
        reason = Message("gate.selector-missing" if base.judged is None else "gate.selector-not-run", **values)
    return SelectorCheck(
        dataset=base.dataset,
        selector=base.selector,
        verdict=Verdict.NOT_COMPARABLE,
        reasons=(reason,),
        shipped=base.identity.shipped,
    )


def check(
    pairing: SnapshotPairs, settings: CheckSettings, *, name: str, base: str, head: str, baseline: str = ""
) -> Check:
    """Compare, judge and explain pairs of snapshots.

    The order of queries, and of items with different scores, changes only the order of lists.

    Args:
        pairing: base and head of each selector on each dataset.
        settings: tolerances, pins and how much may be lost.
        name: of the gate file, or of what is compared.
        base, head: where the two come from.
        baseline: the baseline's file or folder as the user named it; empty where two runs are compared.
    """
    pair_checks = [_PairCheck(*pair, settings) for pair in pairing.pairs]
    compared = [
        MetricPair(
            base=pair_check.base,
            head=pair_check.head,
            queries=pair_check.comparability.queries,
            swaps=pair_check.differences.swaps,
        )
        for pair_check in pair_checks
        if not pair_check.comparability.reasons
    ]
    metrics = iter(judge_metrics(compared, settings))
    checks = [
        pair_check.result(settings, () if pair_check.comparability.reasons else next(metrics))
        for pair_check in pair_checks
    ]
    new = [(snapshot, judge_minimums(snapshot, settings)) for snapshot in pairing.new]
    judged = [*((pair_check.head, pair_check.minimums) for pair_check in pair_checks), *new]
    unjudged = dict.fromkeys(chain.from_iterable(_unjudged(*entry, settings) for entry in judged))
    return Check(
        name=name,
        base=base,
        head=head,
        selectors=(*checks, *chain.from_iterable(_new_selector(*entry) for entry in new), *pairing.missing),
        notices=(*pairing.notices, *unjudged),
        unjudged=(*pairing.notices, *unjudged),
        baseline=baseline,
    )


def _new_selector(snapshot: SelectorSnapshot, minimums: tuple[MinimumVerdict, ...]) -> Iterator[SelectorCheck]:
    """The check of a selector that the baseline lacks on a dataset, if it misses a minimum."""
    if missed := [minimum for minimum in minimums if minimum.missed]:
        yield SelectorCheck(
            dataset=snapshot.dataset,
            selector=snapshot.selector,
            verdict=Verdict.WORSE,
            reasons=tuple(map(missed_text, missed)),
            minimums=minimums,
            shipped=snapshot.identity.shipped,
        )


def _unjudged(snapshot: SelectorSnapshot, minimums: Sequence[MinimumVerdict], settings: CheckSettings) -> Iterator[str]:
    """Messages on the minimums that apply to no query of a snapshot."""
    names = {minimum.metric for minimum in minimums}
    for metric, minimum in settings.minimums.items():
        if str(metric) not in names:
            minimum_text = levels(metric, minimum.value, minimum.value).split(" -> ")[0]
            yield Message("gate.minimum-unjudged", metric=metric, minimum=minimum_text, dataset=snapshot.dataset)


class _PairCheck:
    """A pair of snapshots, compared but not judged."""

    def __init__(self, base: SelectorSnapshot, head: SelectorSnapshot, settings: CheckSettings) -> None:
        self.base, self.head = base, head
        self.minimums = judge_minimums(head, settings)
        self.comparability = assess_comparability(base, head, settings)
        self.differences = (
            differences(base, head, self.comparability) if not self.comparability.reasons else Differences()
        )

    def result(self, settings: CheckSettings, metrics: tuple[MetricVerdict, ...]) -> SelectorCheck:
        """Judge and explain the pair, with its metrics judged already."""
        comparability = self.comparability
        pins = pin_failures(settings.pins, self.head, renamed=comparability.renamed, before=self.base)
        if not comparability.reasons:
            return self._judged(settings, metrics, pins)
        return SelectorCheck(
            dataset=self.head.dataset,
            selector=self.head.selector,
            verdict=Verdict.NOT_COMPARABLE,
            reasons=comparability.reasons,
            left_out=comparability.left_out,
            pins=tuple(failure for failure in pins if failure.about),  # reasons report queries without an answer
            notices=comparability.notices,
            shipped=self.head.identity.shipped,
        )

    def _judged(
        self, settings: CheckSettings, metrics: tuple[MetricVerdict, ...], pins: tuple[PinFailure, ...]
    ) -> SelectorCheck:
        comparability, differ = self.comparability, self.differences
        changes, causes = self._explain_changes(metrics)
        prices = token_changes(self.base, self.head, comparability, passed_over=differ.swaps)
        unmet = unmet_requirements(self.base, self.head, comparability)
        if pins:
            pins = explain_pins(settings.pins, self._snapshot_pair, changes, queries=comparability.queries)
        requiring = [query for query in comparability.queries if self.head.queries[query].required]
        allowed = settings.allowed(len(requiring))
        facts = LossFacts(
            unmet=() if settings.allow_removed else unmet,
            lost=differ.lost,
            gained=differ.gained,
            allowed=allowed,
            by_group=self._net_by_group() if self.base.nondeterministic or self.head.nondeterministic else None,
            deterministic=self._deterministic,
        )
        missed = [minimum for minimum in self.minimums if minimum.missed]
        unjudged = item_changes(self.base, self.head, comparability, facts.unmet)
        verdict, reasons = decide_verdict(
            metrics, pins, facts, alpha=1.0 - settings.confidence, missed=missed, item_changes=unjudged
        )
        allowed_unmet = [unmet_text(unmet, "gate.unmet-allowed")] if settings.allow_removed and unmet else []
        return SelectorCheck(
            dataset=self.head.dataset,
            selector=self.head.selector,
            verdict=verdict,
            reasons=reasons,
            compared=len(comparability.queries),
            left_out=comparability.left_out,
            changes=changes,
            swaps=differ.swaps,
            causes=(*causes, *price_causes(prices, self.head)),
            metrics=metrics,
            minimums=self.minimums,
            pins=pins,
            unmet=tuple(facts.unmet),
            token_changes=prices,
            item_changes=unjudged,
            deterministic=self._deterministic,
            lost=differ.lost,
            gained=differ.gained,
            n_with_requirements=len(requiring),
            nondeterministic=len({*self.base.nondeterministic, *self.head.nondeterministic}.intersection(requiring)),
            allowed=allowed,
            notices=(*comparability.notices, *self._notices(metrics), *allowed_unmet),
            differs="" if _has_same_inputs(self.base, self.head) or not self._inputs else str(self._inputs),
            texts=_change_texts(changes, self.base, self.head),
            helps={name: parameter.help for name, parameter in self.head.identity.parameters.items() if parameter.help},
            renamed=comparability.renamed,
            successors=self._labelled_successors(),
            reused=self.head.reused,
            shipped=self.head.identity.shipped,
        )

    def _labelled_successors(self) -> dict[str, str]:
        """The likely new ids of items that are gone and have labels, old to new."""
        if not (self._inputs.gone and self._inputs.new):
            return {}
        labelled = {label[0] for query in self.base.queries.values() for label in query.labels() or ()}
        return {old: new for old, new in self._snapshot_pair.successors.items() if old in labelled}

    @property
    def _is_nondeterministic(self) -> bool:
        """Whether the selector gave other answers although all its inputs are the same."""
        return bool(self.differences.changes) and _has_same_inputs(self.base, self.head)

    @property
    def _deterministic(self) -> bool:
        """Whether the selector is known to repeat its answers."""
        return self.base.steady and self.head.steady and not self._is_nondeterministic

    @cached_property
    def _inputs(self) -> InputDifferences:
        """What differs in items, parameters, model and code."""
        return input_differences(self.base, self.head, self.comparability.renamed)

    @cached_property
    def _snapshot_pair(self) -> SnapshotPair:
        """Both snapshots, to explain what they offer differently."""
        return SnapshotPair(self.base, self.head, self._inputs)

    def _explain_changes(self, metrics: Sequence[MetricVerdict]) -> tuple[tuple[Change, ...], tuple[CauseGroup, ...]]:
        """The changes with their causes, and their groups by cause, with what fixes cost."""
        if not self.differences.changes:
            return (), ()
        pair = self._snapshot_pair
        explained = explain(pair, self.differences.changes)
        return explained, with_fix_prices(group_changes(pair, explained), pair, self.comparability.queries, metrics)

    def _net_by_group(self) -> tuple[int, int]:
        """How many groups of queries lost more required items than they gained, and how many gained more."""
        net: Counter[str] = Counter()
        for change in self.differences.changes:
            if change.required:
                net[self.base.queries[change.query].group] += 1 if change.lost else -1
        return sum(count > 0 for count in net.values()), sum(count < 0 for count in net.values())

    def _notices(self, metrics: Sequence[MetricVerdict]) -> Iterator[str]:
        base, head = self.base, self.head
        if swaps := self.differences.swaps:
            yield Message("gate.swaps", n=len(swaps), names=first_ids(swaps))
        if nondeterministic := [
            query for query in self.comparability.queries if query in {*base.nondeterministic, *head.nondeterministic}
        ]:
            yield Message("gate.nondeterministic-queries", n=len(nondeterministic), names=first_ids(nondeterministic))
        for side, label in ((base, "baseline"), (head, "now")):
            if spread := [
                f"{metric.metric} {size(parse_metric(metric.metric), side.spread[metric.metric])}"
                for metric in metrics
                if side.spread.get(metric.metric, 0.0) > 1e-9  # repeats that agree have none, but for rounding
            ]:
                yield Message("gate.spread", side=label, repeats=side.repeats, spread=spread)
        yield from (
            Message("gate.metric-not-applicable", metric=metric.metric, n=len(self.comparability.queries))
            for metric in metrics
            if not metric.comparison.n
        )
        if self._is_nondeterministic:
            yield Message(
                "gate.external-nondeterministic" if head.identity.external else "gate.nondeterministic",
                selector=head.selector,
            )


def _has_same_inputs(base: SelectorSnapshot, head: SelectorSnapshot) -> bool:
    """Whether everything that decides the answers of a deterministic selector is the same."""
    versions = {*base.identity.versions, *head.identity.versions}
    return base.identity.same_as(head.identity, versions) and [*base.contents.items()] == [*head.contents.items()]


def _change_texts(changes: Sequence[Change], base: SelectorSnapshot, head: SelectorSnapshot) -> Mapping[str, str]:
    """Texts of queries with changes and of changed items, unless the baseline has none."""
    texts = {change.query: head.queries[change.query].text for change in changes}
    for item in dict.fromkeys(change.item for change in changes):
        fact = head.items.get(item) or base.items.get(item)
        row = (fact.row if fact is not None else None) or {}
        texts[item] = str(row.get("description") or row.get("text") or "")
    return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, eq=False, kw_only=True)
class GateCheck:
    """A check against a baseline.

    Attributes:
        check: what was found.
        file: the gate file.
        references: by dataset, what opens it from the gate file's folder: its folder, or its name.
        texts: whether the baseline holds texts.
        vectors: whether it holds vectors.
        failed: whether a selector failed on a query now, so that `accept` would refuse.
        former: by dataset and item, what the baseline has of an item that was edited, renamed (under its new id) or is
            gone.
        edited: by dataset and item, the fields in which an item differs that was edited or renamed; none of a new
            one.
    """

    check: Check
    file: GateFile
    references: Mapping[str, str]
    texts: bool
    vectors: bool
    failed: bool = False
    former: Mapping[tuple[str, str], ItemFact] = field(default_factory=dict)
    edited: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)


def check_gate(
    path: Path,
    *,
    allow_removed: bool = False,
    server_errors: Mapping[Path, Mapping[str, str]] | None = None,
    notify: Notify = nothing_said,
    progress: ProgressListener = silent,
) -> GateCheck:
    """Compare what every selector of a gate file answers now with the baseline.

    If all inputs are unchanged, the answers of the baseline are reused (`reuse_answers`).

    Args:
        path: of the gate file.
        allow_removed: as in `CheckSettings`.
        server_errors: errors of the servers queried just now, by agent file (resolved) and name; empty for a server
            that answered. The tools of all other servers are as captured.
        notify, progress: called with slow steps, and with every slice of queries.

    Raises:
        InputError: anything is wrong in the gate file or in what it names: all faults, with their lines.
        UserError: the baseline is missing or cannot be read, or a selector of ours fails.
    """
    with gate_file_in_messages(path):
        file, faults = examine_gate(path)
        head = None if faults else read_manifest(file.baseline)
        bases = [] if head is None else [*map(with_prices, read_baseline(file.baseline, head))]
        before, loosened = file.settings, tuple[Loosened, ...]()
        if head is not None:
            before = accepted_settings(head, file.baseline)
            settings, loosened = stricter_settings(file.settings, before, bases)
            file = replace(
                file, settings=settings, experiment=replace(file.experiment, metrics=tuple(map(str, settings.measured)))
            )
        if (answers := None if faults else reuse_answers(file, bases)) is None:
            from ctxbench.gate.snapshot_sources import ask  # slow to import

            answers = ask(file, faults=faults, bases=bases, notify=notify, progress=progress)
        else:
            for changed in changed_sources(file.experiment.datasets, file.experiment.base):
                notify(f"notice: {changed}")
            if (file.baseline / VECTORS).exists():
                accepted_vectors(file.baseline)  # find damage before a text changes
        _check_pins_known(file, bases, answers)
        pairing = pair_snapshots(bases, answers.snapshots)
        lost = _lost_pins(file.settings, before, pairing.pairs)
        settings = replace(file.settings, pins=(*file.settings.pins, *lost), allow_removed=allow_removed)
        baseline = str(file.baseline)
        result = check(pairing, settings, name=str(path), base=baseline, head="this run", baseline=baseline)
        unread = tuple(_unread_agents(file))
        servers = {
            name: _captured_servers(text, file, server_errors or {}) for name, text in answers.references.items()
        }
        result = replace(
            result,
            selectors=tuple(
                with_servers(selector_check, servers.get(selector_check.dataset, ()))
                for selector_check in result.selectors
            ),
            loosened=(*loosened, *loosened_pins(lost)),
            replacement=None if head is None else find_replacement(file, head, bases),
            notices=(*result.notices, *unread),
            unjudged=(*result.unjudged, *unread),
        )
        former, edited = _changed_items(pairing.pairs)
        return GateCheck(
            check=result,
            file=file,
            references=answers.references,
            texts=any(item.row is not None for base in bases for item in base.items.values()),
            vectors=(file.baseline / VECTORS).exists(),
            failed=any(failures(snapshot.answers) for snapshot in answers.snapshots),
            former=former,
            edited=edited,
        )


def _unread_agents(file: GateFile) -> Iterator[str]:
    """The agent files that are selectors, and whose edited items no dataset reads, a sentence each."""
    experiment = file.experiment
    agents = [spec.agent for spec in experiment.selectors if spec.agent is not None]
    return unread_agents(experiment.datasets, experiment.base, agents)


def _captured_servers(
    dataset: str, file: GateFile, server_errors: Mapping[Path, Mapping[str, str]]
) -> tuple[CapturedServer, ...]:
    """The servers of a dataset's agent that were not queried, or did not answer.

    Args:
        dataset: what opens it from the gate file's folder.
        file: the gate file.
        server_errors: as of `check_gate`.
    """
    folder = user_folder(dataset, file.experiment.base)
    if (path := None if folder is None else agent_of(folder)) is None:
        return ()
    errors = server_errors.get(path.resolve(), {})
    servers = read_agent(path).captured_servers()
    return tuple(
        replace(server, error=errors.get(server.name, "")) for server in servers if errors.get(server.name) != ""
    )


def _lost_pins(
    current: CheckSettings, before: CheckSettings, pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]]
) -> tuple[Pin, ...]:
    """What pins demanded when the baseline was accepted, and no longer do."""
    if [pin.as_dict() for pin in current.pins] == [pin.as_dict() for pin in before.pins]:
        return ()
    renamed = {old: new for base, head in pairs for old, new in renamed_items(base, head).items()}
    return lost_pins(current.pins, before.pins, renamed)


def _changed_items(
    pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]],
) -> tuple[dict[tuple[str, str], ItemFact], dict[tuple[str, str], Collection[str]]]:
    """The fields `former` and `edited` of `GateCheck`: the items that changed."""
    former: dict[tuple[str, str], ItemFact] = {}
    edited: dict[tuple[str, str], Collection[str]] = {}
    for base, head in {base.dataset: (base, head) for base, head in reversed(pairs)}.values():
        if base.contents == head.contents:
            continue
        renamed = renamed_items(base, head)
        for name, before in base.items.items():
            new = renamed.get(name, name)
            if (after := head.items.get(new)) is not None and before.hash == after.hash:
                continue
            former[base.dataset, new] = before
            if after is not None:
                edited[base.dataset, new] = edited_fields(before, after)
        came = {*base.items, *renamed.values()}
        edited |= {(base.dataset, name): () for name in head.items if name not in came}
    return former, edited


def accept(
    path: Path,
    *,
    texts: bool = True,
    vectors: bool = False,
    notify: Notify = nothing_said,
    progress: ProgressListener = silent,
) -> AcceptedBaseline:
    """Ask every selector of a gate file now, and write what it answers as the baseline.

    The card of a dataset (`frozen`, `counts`) may be outdated by edits; labels must fit the catalog. A baseline without
    texts stays without them, and one with vectors keeps vectors, whatever the options.

    Args:
        path: of the gate file.
        texts: whether texts of items and queries are written.
        vectors: whether the vectors that a check needs are written.
        notify: called with slow steps.
        progress: called with every slice of queries.

    Raises:
        InputError: anything is wrong in the gate file or in what it names: all faults, with their lines.
        UserError: a query is not answered, a selector of ours fails, or the baseline cannot be written.
    """
    from ctxbench.gate.snapshot_sources import ask

    with gate_file_in_messages(path):
        file, faults = examine_gate(path)
        answers = ask(file, faults=faults, notify=notify, progress=progress)
        snapshots, _, resources = answers
        _check_no_failures(snapshots)
        _check_pins_known(file, (), answers)
        texts = texts and not has_no_texts(file.baseline)
        vectors = vectors or (file.baseline / VECTORS).exists()
        done = write_baseline(
            file.baseline,
            snapshots,
            settings=file.settings,
            replaced=replaced_by_accepting(file),
            texts=texts,
            vectors=resources.vectors_by_text if vectors and resources is not None else None,
        )
        return replace(
            done,
            pins=tuple(failure for snapshot in snapshots for failure in pin_failures(file.settings.pins, snapshot)),
            missed=tuple(
                (snapshot.dataset, snapshot.selector, minimum)
                for snapshot in snapshots
                for minimum in judge_minimums(snapshot, file.settings)
                if minimum.missed
            ),
            summaries=tuple(
                summarise_selector(snapshot, file.settings.judged(snapshot.metrics)) for snapshot in snapshots
            ),
        )


def check_runs(
    base: Path,
    head: Path,
    *,
    settings: CheckSettings | None = None,
    datasets: tuple[Mapping[str, Dataset], Mapping[str, Dataset]] = ({}, {}),
    names: tuple[str, str] | None = None,
) -> Check:
    """Compare a finished run with another one, or with an accepted baseline.

    Selectors are paired by name; where either run has a single one, these two are, whatever they are called.

    Args:
        base: folder of `ctxbench run` or `ctxbench score`, or of a baseline.
        head: folder of `ctxbench run` or `ctxbench score`.
        settings: of the check; None = the default.
        datasets: datasets of base and of head that need not be opened, whole, by name.
        names: what reports call base and head; None = as their folders.

    Raises:
        UserError: a folder holds no finished run, or a dataset has changed since.
    """
    from ctxbench.gate.snapshot_sources import of_run  # slow to import

    sources, accepted, names = names, (base / MANIFEST).exists(), names or (str(base), str(head))
    bases = [*map(with_prices, read_baseline(base) if accepted else of_run(base, datasets[0]))]
    heads = [*map(with_prices, of_run(head, datasets[1]))]
    before, after = ({snapshot.selector for snapshot in side} for side in (bases, heads))
    notices: tuple[str, ...] = ()
    if len(before) == len(after) == 1 and before != after:
        (old,), (new,) = before, after
        bases = [replace(snapshot, selector=new) for snapshot in bases]
        notices = (Message("gate.selectors-compared", new=new, head=names[1], old=old, base=names[0]),)
    if sources:
        bases, heads = (
            [replace(snapshot, source=n) for snapshot in side] for n, side in zip(sources, (bases, heads), strict=True)
        )
    pairing = pair_snapshots(bases, heads)
    return check(
        pairing._replace(notices=(*notices, *pairing.notices)),
        settings or CheckSettings(),
        name="run" if accepted else "two runs",
        base=names[0],
        head=names[1],
        baseline=names[0] if accepted else "",
    )


def _check_pins_known(file: GateFile, bases: Sequence[SelectorSnapshot], answers: GateAnswers) -> None:
    """Raise an error for pins of unknown or unused queries, tags or items, which would always hold.

    Raises:
        InputError: there are such pins; all of them, with their lines.
    """
    pins = file.settings.pins
    if not unknown_pins(pins, bases, answers.snapshots):
        return
    heads = answers.snapshots if answers.resources is not None else with_unasked(file, answers.snapshots, bases)
    paths = {name: user_folder(text, file.experiment.base) for name, text in answers.references.items()}
    raise InputError(
        unknown_pins(
            pins,
            bases,
            heads,
            path=file.path,
            folders={name: folder for name, folder in paths.items() if folder is not None},
        )
    )


def _check_no_failures(snapshots: Sequence[SelectorSnapshot]) -> None:
    """Check that no selector failed on a query.

    Raises:
        ParameterError: there is one; the first of every selector is named.
    """
    failed = []
    for snapshot in snapshots:
        if wrong := [
            (query, snapshot.answers[query].error) for query in snapshot.queries if snapshot.answers[query].error
        ]:
            first, why = wrong[0]
            values = {"dataset": snapshot.dataset, "first": first, "why": why.removeprefix(f"query {first!r}: ")}
            failed.append(Message("gate.accept-failed", selector=snapshot.selector, n=len(wrong), **values))
    if failed:
        raise ParameterError(f"no baseline was accepted: {'; '.join(failed)}; fix the selector and accept again")
