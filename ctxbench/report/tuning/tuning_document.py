"""The report of a tuning as a document, the most important first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Section,
    Subheading,
    Table,
    Text,
    each_block,
)
from ctxbench.report.tuning import tuning_figures, tuning_tables, tuning_texts
from ctxbench.report.tuning.advice import all_advice, answer
from ctxbench.report.tuning.tuning_texts import ALL, COMPLETENESS, TOKENS
from ctxbench.tuning.recommendation import four_digits
from ctxbench.tuning.tuning_results import DatasetTuning, PolicyOutcome, Tuning

_CHOSEN = "What a selector offers is measured; what the model then calls is outside."
_SPLIT = (
    "Settings were chosen on one part of the queries, the tuning split, and figures are of the other, the test split, "
    "read when all values were fixed."
)
_ALL_DECIDE = (
    "Figures are of the same requests that the settings were chosen on: none are left to test them on. A "
    "setting is recommended only where it keeps what the policy asks by its paired difference to the default less 2.6 "
    "standard errors."
)
_OPTIMISM = (
    "Optimism is the tuning split's figure less the test split's: what the choice owes to the queries it was made on. "
    "More completeness and fewer tokens on the tuning split are promises that were not kept whole. Tokens are in per "
    "cent of the test split."
)
_GAINS = (
    "Two steps from the first k items of the base's ranking to what is recommended: first another ranking with a tuned "
    "k of its own, then a better cut of that ranking (where it ends). Both together are the change against tuned fixed "
    "k."
)
_WORST = (
    "Where what is recommended does worst, among groups of at least 10 queries. The lowest of many "
    "groups is low by chance, too."
)


def document(tuning: Tuning) -> Document:
    """Make the report; the same tuning gives the same blocks."""
    rest = [*_overview(tuning), *(Section(dataset.dataset, tuple(_dataset(dataset))) for dataset in tuning.datasets)]
    first = Section("What is recommended", tuple(_recommendations(tuning, rest)))
    return Document(
        title=tuning.name,
        answer=answer(tuning),
        about=tuning.about,
        sections=(first, *rest, _provenance(tuning)),
        kicker="ctxbench tuning",
        table_titles=False,
    )


def _recommendations(tuning: Tuning, rest: Iterable[Section]) -> Iterator[Block]:
    """What is recommended, and how all figures are to be read, those of the rest of the page as well."""
    if not any(True for _ in tuning_tables.outcomes(tuning)):
        yield Text("No policy was tuned for.")
        return
    several = len(tuning.datasets) > 1
    yield Bullets(
        tuple(
            f"{f'{dataset.dataset}, ' * several}{sentence}"
            for dataset in tuning.datasets
            for sentence in all_advice(dataset)
        )
    )
    yield Text(tuning_texts.terms(tuning))
    yield Text(" ".join([_CHOSEN, *_split_sentences(tuning)]))
    summary = tuning_tables.summary(tuning)
    yield summary
    loose = (
        [tuning_texts.LOOSE]
        if any(
            map(wording.has_loose, _figure_texts([summary, *(block for section in rest for block in section.blocks)]))
        )
        else []
    )
    yield Bullets((*_explanations(tuning), *loose))
    yield Subheading("Policies")
    yield tuning_tables.policies(tuning)


def _figure_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """The texts of blocks that may hold an interval."""
    for block in each_block(blocks):
        if isinstance(block, Table):
            for cell in (cell for row in block.rows for cell in row):
                yield from (cell,) if isinstance(cell, str) else cell
        elif isinstance(block, Bullets):
            yield from block.texts


def _split_sentences(tuning: Tuning) -> Iterator[str]:
    """On which split settings were chosen, and of which the figures are."""
    names = {
        kind: [dataset.dataset for dataset in tuning.datasets if dataset.all_decide is kind] for kind in (False, True)
    }
    for kind, text in ((False, _SPLIT), (True, _ALL_DECIDE)):
        if names[kind]:
            yield text if not names[not kind] else f"On {wording.listed(names[kind])}: {text[0].lower()}{text[1:]}"


def _explanations(tuning: Tuning) -> Iterator[str]:
    """How the figures are to be read."""
    levels = sorted(
        {
            interval.level
            for _, outcome in tuning_tables.outcomes(tuning)
            for interval in tuning_texts.intervals(outcome)
        }
    )
    level_text = wording.listed([f"{100 * level:g}%" for level in levels])
    p_words = tuning_texts.p_words(tuning)
    yield (
        "Completeness is the share of queries for which every required item was offered. Values are means over queries "
        f"with their {level_text + ' ' if level_text else ''}intervals. Queries of one group (paraphrases, a "
        "conversation) answer alike, so that intervals and tests are by group."
    )
    yield (
        "Changes are paired on the same queries. Those of tokens are per cent of the other side's mean, those of "
        f"completeness percentage points. {p_words and f'{p_words} '}Comparisons at equal tokens are corrected "
        "on their own. A difference that cannot be told apart is not shown to be none: its interval says how large it "
        "may be."
    )
    yield (
        "Tuned fixed k is the first k items of the base selector's ranking, k chosen by the same policy and under the "
        "same limits, among them those that hold for every policy (see the notes where no k keeps them); one item more "
        "is a large step, so it often meets the policy with completeness to spare. At equal tokens means: against the "
        "first n items of the base's ranking, n between two numbers by lot, so that they cost as much as what is "
        "recommended (tested by group, the interval by query). A constraint holds where the unfavourable end of what "
        "is likely (of the paired difference, where it is a share of the base) is at the target or better, holds "
        "within 2 points where that end is worse by no more than these, is missed where the favourable end is worse, "
        "and is open in between."
    )


def _overview(tuning: Tuning) -> Iterator[Section]:
    """The tables that hold all datasets."""
    for table, about in (
        (tuning_tables.optimism(tuning), _OPTIMISM),
        (tuning_tables.gains(tuning), _GAINS),
        (tuning_tables.worst(tuning), _WORST),
    ):
        if table is not None:
            yield Section(table.title, (Text(about), table))


def _dataset(dataset: DatasetTuning) -> Iterator[Block]:
    yield Text(_facts(dataset))
    if (drawing := tuning_figures.trade_off(dataset)) is not None:
        yield drawing
    else:
        yield Text("No contender and no setting has both completeness and tokens: there is nothing to draw.")
    if tuning_tables.all_results(dataset):
        yield Subheading("Contenders")
        yield tuning_tables.results(dataset, tuning_figures.tags(dataset))
    groups = dataset.same_advice()
    for group in groups:
        parts = (tuning_figures.sensitivity(dataset, group[0]), tuning_figures.two_at_a_time(dataset, group[0]))
        drawn = tuple(part for part in parts if part is not None)
        if drawn:
            yield Details(f"{_policies(group)} on {dataset.dataset}: sensitivity to its parameters", drawn)
    for group in groups:
        if group[0].chosen is not None:
            yield from _worse_requests(dataset, group)
    notes = tuple(_notes(dataset))
    if notes:
        yield Subheading("Notes")
        yield Bullets(notes)


def _facts(dataset: DatasetTuning) -> str:
    counts = []
    for split, n in dataset.queries.items():
        of = dataset.of.get(split, n)
        some = f"{n:,} of " if of > n else ""
        suffix = "" if split == ALL else f" of split {split}"
        counts.append(f"{some}{count(of, 'query', 'queries')}{suffix}")
    queries = wording.listed(counts) or "No queries"
    version = f"Version {dataset.version}, content" if dataset.version else "Content"
    return (
        f"{queries}; {count(dataset.items, 'item')}. {version} {dataset.hash[:12]}. Prompt tokens by {dataset.tokens}."
    )


def _policies(group: Sequence[PolicyOutcome]) -> str:
    """The names of policies that come to the same."""
    return wording.listed([outcome.policy.name for outcome in group])


def _worse_requests(dataset: DatasetTuning, group: Sequence[PolicyOutcome]) -> Iterator[Block]:
    """Requests made worse, by name, and how many were made better."""
    outcome = group[0]
    name, compared = _policies(group), outcome.against.get("defaults", {}).get("completeness")
    if not outcome.worse:
        if compared is not None and compared.n:
            yield Text(f"{name}: no request is worse than under the base's defaults.")
        return
    text = (
        f"{count(len(outcome.worse), 'request')} that the base's defaults made complete "
        f"{'is' if len(outcome.worse) == 1 else 'are'} no longer complete"
    )
    if compared is not None:
        text += f"; {compared.higher:,} became complete and {compared.equal:,} stayed as they were"
    first = (
        f" The first {tuning_tables.MANY} in the order of the dataset."
        if len(outcome.worse) > tuning_tables.MANY
        else ""
    )
    title = f"{name} on {dataset.dataset}: {count(len(outcome.worse), 'request')} made worse"
    yield Details(title, (Text(f"{text}.{first}"), tuning_tables.worse_requests(outcome)))


def _notes(dataset: DatasetTuning) -> Iterator[str]:
    """The notes of the tuning, and doubts that its figures give reason for."""
    yield from dataset.notes
    for outcome in dataset.outcomes:
        yield from _search_notes(outcome)
        if outcome.replaced is not None and not dataset.all_decide:
            yield (
                f"{outcome.policy.name}: the test split decided that what ships is better than what was chosen, so its "
                "figures may be a little better than on other requests."
            )
        if outcome.fixed_reason:
            yield f"{outcome.policy.name}: there is no tuned fixed k, since {outcome.fixed_reason}."
        if outcome.chosen is not None:
            yield from _doubts(outcome)


def _search_notes(outcome: PolicyOutcome) -> Iterator[str]:
    name = outcome.policy.name
    if outcome.settings or outcome.tried:
        sentence = f"{name}: {count(outcome.settings, 'setting')} compared exactly"
        if outcome.tried:
            sentence += f", and {outcome.tried:,} run one by one because a parameter of theirs breaks the prefix rule"
        yield f"{sentence}."
    for text, bound in outcome.bounds.items():
        yield f"{name}: on the queries that decided {four_digits(bound)} was held against {text}."


def _doubts(outcome: PolicyOutcome) -> Iterator[str]:
    """Where a recommendation deserves less trust than its figures look."""
    name, chosen = outcome.policy.name, outcome.chosen
    if chosen is None:
        return
    for verdict in outcome.verdicts:
        if verdict.status not in ("holds", "holds within 2 points"):
            note = f"; about {verdict.needed:,} more labels would tell" if verdict.needed else ""
            value, low, high = map(four_digits, (verdict.value, verdict.low, verdict.high))
            yield f"{name}: {verdict.text} is {verdict.status}: {value} ({low} to {high}){note}."
    for metric in (COMPLETENESS, TOKENS):
        before, after = chosen.tuning.get(str(metric)), chosen.test.get(str(metric))
        if before is None or after is None or not math.isfinite(before.value) or not math.isfinite(after.value):
            continue
        if not before.interval.low <= after.value <= before.interval.high:
            yield (
                f"{name}: {'completeness' if metric == COMPLETENESS else 'the number of prompt tokens'} on the test "
                f"split ({wording.number(metric, after.value)}) lies outside the interval of the tuning split "
                f"({wording.estimate_interval(metric, before) or wording.number(metric, before.value)})."
            )


def _provenance(tuning: Tuning) -> Section:
    sentences = (
        f"Embeddings: {tuning.embedder}.",
        f"Seed of random search, resampling and folds: {tuning.seed}.",
        "The same command on the same data gives the same bytes:",
    )
    return Section("How this was made", (Bullets(sentences), Code(tuning.command)))
