"""Snapshots of a selector on a dataset, flat pipeline steps, and values as text.

`SelectorSnapshot` holds everything that a check compares. `ctxbench.gate.snapshot_sources` takes one from an experiment
or a run; `ctxbench.gate.baseline` writes it, and `ctxbench.gate.baseline_reader` reads it. `level`, `size` and
`signed_difference` format values of metrics for the gate's reasons and for reports.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ctxbench.catalogs.agent_file import AbsentServer
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label, group_pairs
from ctxbench.evaluation.answers import Slice
from ctxbench.evaluation.metrics import Metric
from ctxbench.io.documents import dump_json
from ctxbench.model.arrays import FloatArray, Grade, IntArray
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import ITEM_TYPES, Catalog, Item
from ctxbench.model.registry import AnyStored, StoredAnalyses, StoredMerge, StoredPipeline, StoredStep
from ctxbench.model.selection import Offered, offered_rows
from ctxbench.model.strategies import Step, built_step
from ctxbench.selectors.selector import Parameter

SCORING = ("analyse", "retrieve", "rank")  # kinds of steps that decide scores; all others select candidates


@dataclass(frozen=True, kw_only=True)
class FlatStep:
    """One step of a pipeline, at any depth.

    Attributes:
        path: where, for a person: `refine.standard`, `refine.tool.margin`, `retrieve.dense`; a second step of the same
            name in the same place has `#2` behind it. Distinct within a pipeline.
        label: the end of the path: the name, with such a number.
        kind: of the registry: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `pack`.
        name: of the registry.
        types: the item types that it refines, in the order of `ITEM_TYPES`; all of them outside of domains.
        values: its parameters, as JSON; `version`, `code` and `content` are kept in `source`.
        source: version of the step, code of a plugin's and content of a file that it reads, as far as it has them.
    """

    path: str
    label: str
    kind: str
    name: str
    types: tuple[str, ...]
    values: Mapping[str, Any]
    source: Mapping[str, Any]

    @cached_property
    def built(self) -> Step:
        """The strategy as it is now; one that declares nothing where it is not here or takes other parameters."""
        return built_step(StoredStep(kind=self.kind, name=self.name, values=self.values, about=self.source))

    @property
    def scores(self) -> bool:
        """Whether it decides scores."""
        return self.kind in SCORING


def flat_steps(description: Mapping[str, Any]) -> tuple[FlatStep, ...] | None:
    """The steps that decide a selection, in order; None for a selector that is no pipeline.

    `format` is left out: it does not decide which items are offered.

    Raises:
        ParameterError: it describes a pipeline that is none.
    """
    if (pipeline := StoredPipeline.of(description)) is None:
        return None
    stages = (("analyse", pipeline.analyse), ("retrieve", pipeline.retrieve))
    steps = [step for path, stage in stages if stage is not None for step in _stage_steps(stage, path, ITEM_TYPES)]
    steps += [step for stage in pipeline.refine for step in _stage_steps(stage, "refine", ITEM_TYPES)]
    counts: dict[str, int] = {}
    out = []
    for step in steps:
        counts[step.path] = counts.get(step.path, 0) + 1
        number = f"#{counts[step.path]}" if counts[step.path] > 1 else ""
        out.append(replace(step, path=f"{step.path}{number}", label=f"{step.label}{number}"))
    return tuple(out)


def _stage_steps(stage: AnyStored, path: str, types: tuple[str, ...]) -> Iterator[FlatStep]:
    if isinstance(stage, StoredStep):
        yield FlatStep(
            path=f"{path}.{stage.name}",
            label=stage.name,
            kind=stage.kind,
            name=stage.name,
            types=types,
            values=stage.values,
            source=stage.about,
        )
    elif isinstance(stage, StoredAnalyses):
        yield from (inner_step for step in stage.steps for inner_step in _stage_steps(step, path, types))
    elif isinstance(stage, StoredMerge):
        for name, step in stage.sources:
            yield from (
                replace(flat_step, path=f"{path}.{name}" if name == step.name else f"{path}.{name}.{step.name}")
                for flat_step in _stage_steps(step, path, types)
            )
    else:
        free = list(types)
        for names, steps in stage.domains:
            domain_types = tuple(item_type for item_type in free if item_type in names or "*" in names)
            free = [item_type for item_type in free if item_type not in domain_types]
            for inner in steps:
                yield from _stage_steps(inner, f"{path}.{','.join(names)}", domain_types)


NONE = "none"  # what a value is shown as where there is none
_MAX_NAMED = 3  # ids that a message names
_ROUNDING = 1e-9  # of sums in floating point, as a share
_CLOSING = {"(": ")", "[": "]", "{": "}", '"': '"', "`": "`"}  # of brackets and quotes, by what opens them


def first_ids(ids: Sequence[str]) -> str:
    """The first few of some ids: `q1, q2, q3, ...`."""
    return ", ".join(ids[:_MAX_NAMED]) + (", ..." if len(ids) > _MAX_NAMED else "")


def first_few(texts: Sequence[str], at_most: int = _MAX_NAMED) -> str:
    """The first few of some texts, and how many more there are: `a, b, c and 2 more`."""
    return f"{', '.join(texts[:at_most])}{f' and {len(texts) - at_most} more' if len(texts) > at_most else ''}"


def shortened(text: str, limit: int, *, at_word: bool = False) -> str:
    """A text of at most so many characters: where it is cut it ends in `...`, and no bracket or quote stays open.

    Args:
        text: on one line.
        limit: characters, 3 or more.
        at_word: cut behind a word, unless more than half would go.
    """
    if len(text) <= limit:
        return text
    end = limit - 3
    while True:
        head = text[:end]
        if at_word:
            words = text[: end + 1].rpartition(" ")[0]
            head = words if 2 * len(words) > limit else head.rstrip()
        closing = _left_open(head)
        if len(head) + 3 + len(closing) <= limit:
            return f"{head}...{closing}"
        end -= 1


def _left_open(text: str) -> str:
    """The closing signs of the brackets and quotes that a text leaves open, the innermost first."""
    ends: list[str] = []
    for sign in text:
        if sign in ends:
            del ends[len(ends) - 1 - ends[::-1].index(sign) :]
        elif sign in _CLOSING:
            ends.append(_CLOSING[sign])
    return "".join(reversed(ends))


def level(metric: Metric, value: float) -> str:
    """A mean: `96.7%`, `1,234` tokens, `3.25` of anything else."""
    return f"{_digits(metric, value)}{'%' if _is_share(metric) else ''}"


def levels(metric: Metric, before: float, after: float) -> str:
    """Two means, `151.2 -> 151.9`: with as many decimals as their difference needs."""
    _, _, decimals = _size(metric, abs(after - before)).partition(".")
    min_decimals = len(decimals) if before != after and decimals.isdigit() else 0
    unit = "%" if _is_share(metric) else ""
    return " -> ".join(f"{_digits(metric, value, min_decimals=min_decimals)}{unit}" for value in (before, after))


def signed_difference(metric: Metric, difference: float, *, beyond: float | None = None) -> str:
    """A difference with its sign: `-3.3 points`, `+12`; a value that would be rounded to 0 keeps two digits.

    Args:
        metric: the metric.
        difference: of two means.
        beyond: a size that it exceeds; one or two digits are added if both would look equal.
    """
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    text = _size(metric, abs(difference))
    if beyond is not None and text == _size(metric, beyond):
        scale = 100.0 if _is_share(metric) else 1.0
        finer = [f"{abs(difference) * scale:,.{digits}f}" for digits in range(1, 5)]
        text = next((candidate for candidate in finer if float(candidate.replace(",", "")) > beyond * scale), text)
    return f"{sign}{text}{' points' if _is_share(metric) else ''}"


def size(metric: Metric, value: float) -> str:
    """A size of differences, >= 0: `1.0 points`, `12 tokens`; a value that would be rounded to 0 keeps two digits.

    Below `_ROUNDING` it is a rounding error, and is 0.
    """
    value = 0.0 if value < _ROUNDING else value
    return f"{_size(metric, value)} {'points' if _is_share(metric) else metric.declaration.unit}".rstrip()


def _is_share(metric: Metric) -> bool:
    return metric.declaration.scale in ("yes/no", "share")


def _size(metric: Metric, value: float) -> str:
    text = _digits(metric, value)
    if value and not any(digit in text for digit in "123456789"):
        return f"{value * (100.0 if _is_share(metric) else 1.0):.2g}"
    return text


def _digits(metric: Metric, value: float, *, min_decimals: int = 0) -> str:
    """A value without its unit: one decimal for per cent, none for tokens from 10 on, two for others below 100.

    `min_decimals` asks for more.
    """
    if _is_share(metric):
        return f"{value * 100.0:.{max(1, min_decimals)}f}"
    usual = (0 if abs(value) >= 10 else 1) if metric.declaration.unit == "tokens" else 2 if abs(value) < 100 else 0
    return f"{value:,.{max(usual, min_decimals)}f}"


def shown_value(value: Any) -> str:
    """A value as short text: JSON, or a text without quotes, cut where it is long."""
    return shortened(NONE if value is None else value if isinstance(value, str) else dump_json(value), 60)


def short_hash(value: Any) -> str:
    """As `shown_value`; a hash by its first eight digits."""
    return value[:8] if isinstance(value, str) and re.fullmatch("[0-9a-f]{40,64}", value) else shown_value(value)


NEAR = 5  # excluded candidates of each query in a baseline: those that may be offered next
SHORT = 16  # hex digits of a content hash

LabelFact: TypeAlias = tuple[str, int, str, str]  # item id, grade, via, alternatives
LISTS = ("removed", "explicit", "recent", "available")  # of items, that a query may name; its session is offered
_USUAL_LABEL = (int(Grade.REQUIRED), "direct", "")  # what most labels are


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFact:
    """An item of the catalog.

    Attributes:
        id: percent-encoded.
        hash: of all its fields, `SHORT` hex digits.
        tokens: prompt tokens.
        row: its fields as in `corpus.jsonl`; None where texts are kept out.
        prompt: hash of its prompt text, which `tokens` counts; `SHORT` hex digits, empty = not known.
        enabled: whether it can be offered at all.
        scopes: names of the dataset's sets of items that hold it; sorted.
    """

    id: str
    hash: str
    tokens: int
    row: Mapping[str, Any] | None = None
    prompt: str = ""
    enabled: bool = True
    scopes: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: Item, tokens: int, scopes: tuple[str, ...] = ()) -> ItemFact:
        """The facts of an item, with its texts."""
        row = item.as_row()
        return cls(
            id=item.id,
            hash=content_hash(row),
            tokens=tokens,
            row=row,
            prompt=content_hash(item.prompt_text),
            enabled=item.enabled,
            scopes=scopes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFact:
    """A query with its labels.

    Attributes:
        id: of the query.
        request_hash: hash of the request, without tags, group and split; `SHORT` hex digits.
        labelled: hash of its labels; `SHORT` hex digits.
        required: item ids that must be offered; each inner tuple is a set of alternatives, any one of which is enough.
            Empty for queries that are labelled in part: losses there are not counted.
        needs_nothing: whether a label says that no item is required.
        group: paraphrases share it; its id where it has none.
        tags: for pins.
        text: of the request; empty in a baseline without texts.
        extra_labels: its labels that are not in `required` (helpful and irrelevant items, alternatives,
            dependencies), each as item id, grade, via and alternatives, sorted; see `labels`.
        scope: the name of the set of items that it may get, whose items `ItemFact.scopes` tells; empty = it has none.
        lists: ids of the items in its own lists by their names, those of `LISTS` that it has.
    """

    id: str
    request_hash: str
    labelled: str
    required: tuple[tuple[str, ...], ...] = ()
    needs_nothing: bool = False
    group: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""
    extra_labels: tuple[LabelFact, ...] = ()
    scope: str = ""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, query: DatasetQuery, labels: Sequence[Label]) -> QueryFact:
        """The facts of a query, with its text."""
        row = query.as_row()
        labelled = label_facts(labels)
        complete_labels = () if query.partly_labelled else labels
        required = [(index, label) for index, label in enumerate(complete_labels) if label.grade == Grade.REQUIRED]
        needs = group_pairs((label.alternatives or f"\0{index}", label.item.id) for index, label in required)
        return cls(
            id=query.id,
            request_hash=asked_hash(row),
            labelled=_label_hash(query.needs_nothing, labelled),
            required=tuple(sorted(tuple(sorted(ids)) for ids in needs.values())),
            needs_nothing=query.needs_nothing,
            group=query.group or query.id,
            tags=query.tags,
            text=query.request.text,
            extra_labels=tuple(fact for fact in labelled if query.partly_labelled or fact[1:] != _USUAL_LABEL),
            scope=query.scope or "",
            lists={name: tuple(row[name]) for name in LISTS if name in row},
        )

    @property
    def complete(self) -> bool:
        """Whether the query is labelled completely."""
        return bool(self.required) or self.needs_nothing

    def labels(self) -> list[LabelFact] | None:
        """All labels, sorted; None if they are not known, as alternatives in a baseline without texts."""
        required_ids = {name for name, grade, _, _ in self.extra_labels if grade == Grade.REQUIRED}
        plain = [
            alternatives[0]
            for alternatives in self.required
            if len(alternatives) == 1 and alternatives[0] not in required_ids
        ]
        labels = sorted([*self.extra_labels, *((name, *_USUAL_LABEL) for name in plain)])
        return labels if _label_hash(self.needs_nothing, labels) == self.labelled else None


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerFact:
    """The answer to one query.

    Attributes:
        query: its id.
        offered: in the one order.
        near: excluded candidates, best first, each with its rule; at most `NEAR` in a baseline,
            all of them in a snapshot of a run.
        error: why the selector failed; else empty.
    """

    query: str
    offered: tuple[Offered, ...]
    near: tuple[Offered, ...] = ()
    error: str = ""

    @cached_property
    def score_of(self) -> Mapping[str, float]:
        """Scores of all candidates that have one, offered or not, by item id."""
        return {
            candidate.id: candidate.score for candidate in (*self.offered, *self.near) if candidate.score is not None
        }


class Unasked(NamedTuple):
    """A query of the dataset that a check does not use.

    Attributes:
        why: such as `not in the sample`.
        labelled: whether it is labelled completely.
        tags: for pins.
    """

    why: str
    labelled: bool = True
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Identity:
    """What answers depend on besides catalog and queries: selector, model, token counter, versions.

    Attributes:
        selector: its description: steps with all parameters, or a command with its hash.
        values: its parameters by the names that users know; empty for external selectors.
        parameters: their declarations; empty in a baseline and in a finished run.
        embedder: key of the model; empty = the selector uses none.
        tokens: the counter.
        versions: of Python, ctxbench, its code, and libraries.
        external: True for an external selector.
        shipped: the shipped selector that an agent file without a selector uses; empty for others.
    """

    selector: Mapping[str, Any]
    embedder: str
    tokens: str
    values: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    external: bool = False
    shipped: str = ""

    def same_as(self, identity: Identity, versions: Iterable[str]) -> bool:
        """Whether selector, model, token counter and some versions are the same."""
        alike = (self.selector, self.embedder, self.tokens) == (identity.selector, identity.embedder, identity.tokens)
        return alike and all(self.versions.get(name) == identity.versions.get(name) for name in versions)


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectorSnapshot:
    """The answers of one selector on one dataset, with everything they depend on.

    Attributes:
        dataset, selector: names.
        items: by id, in catalog order; those that can be offered.
        queries: by id, in the order of the dataset; those that metrics apply to, and those of pins.
        answers: by query id; a query may be missing where the run lacks it.
        metrics: values by query in the order of `queries`, shape (n_queries,); NaN = does not apply.
        identity: what the answers depend on.
        repeats: how often each query was answered.
        spread: by metric name, the standard deviation of its mean over repeats; empty without repeats.
        nondeterministic: ids of queries whose offer differed between repeats.
        disabled: the items that cannot be offered, by id, in catalog order.
        source: where it comes from, for messages: a file, a folder, or `this run`.
        judged: the dataset that the queries are of, which a snapshot of a run has at hand and a baseline has not. It
            tells whether queries and labels that name renamed items are otherwise the same.
        unasked: queries of the dataset that are not among `queries`, by id, with the reason; empty for a baseline.
            See `ctxbench.gate.comparability.unasked`.
        inputs: hash of the files of the dataset, and of the split or sample; `SHORT` hex digits, empty = not known.
            See `ctxbench.gate.baseline.reuse_answers`.
        reused: whether the answers are those of the baseline.
        absent_servers: servers of the agent without tools in its catalog.
        server_files: of the agent's servers, as descriptions of selectors name files.
        reference: what opens the dataset in a command: its folder, or its name; empty where that is not known.
    """

    dataset: str
    selector: str
    items: Mapping[str, ItemFact]
    queries: Mapping[str, QueryFact]
    answers: Mapping[str, AnswerFact]
    metrics: Mapping[Metric, FloatArray]
    identity: Identity
    repeats: int = 1
    spread: Mapping[str, float] = field(default_factory=dict)
    nondeterministic: tuple[str, ...] = ()
    disabled: Mapping[str, ItemFact] = field(default_factory=dict)
    source: str = "this run"
    judged: Dataset | None = None
    unasked: Mapping[str, Unasked] = field(default_factory=dict)
    inputs: str = ""
    reused: bool = False
    absent_servers: Mapping[str, AbsentServer] = field(default_factory=dict)
    server_files: frozenset[str] = frozenset()
    reference: str = ""

    @property
    def all_items(self) -> dict[str, ItemFact]:
        """All items by id, those that can be offered first."""
        return {**self.items, **self.disabled}

    @property
    def contents(self) -> dict[str, tuple[str, bool]]:
        """The hash of each item by id, and whether it is in a scope."""
        return {name: (fact.hash, bool(fact.scopes)) for name, fact in self.all_items.items()}

    def rows_of(self, queries: Sequence[str]) -> IntArray:
        """The rows of some queries in the values of metrics, shape (n_queries,)."""
        row = {query: n for n, query in enumerate(self.queries)}
        return np.array([row[query] for query in queries], dtype=np.int64)

    @property
    def steady(self) -> bool:
        """Whether the selector is known to repeat its answers; for an external one, by asking more than once."""
        return not self.nondeterministic and (not self.identity.external or self.repeats > 1)


def content_hash(value: Any) -> str:
    """The first `SHORT` hex digits of SHA-256 over a JSON value; the order of keys counts."""
    return hashlib.sha256(dump_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:SHORT]


def label_facts(labels: Iterable[Label]) -> list[LabelFact]:
    """Labels of one query as a snapshot has them, sorted."""
    return sorted((label.item.id, int(label.grade), label.via, label.alternatives) for label in labels)


def asked_hash(row: Mapping[str, Any]) -> str:
    """Hash of the request of a query, from its row."""
    excluded = {"split", "group", "tags", "needs", "labelled"}
    fields = {name: value for name, value in row.items() if name not in excluded}
    if fields.get("session"):  # what it holds comes into the one order, whatever order it is written in
        fields["session"] = sorted(fields["session"], key=dump_json)
    return content_hash(_normalised(fields))


def _normalised(value: Any) -> Any:
    """JSON with its texts in Unicode's composed form, so that how an editor writes é makes no difference."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {name: _normalised(entry) for name, entry in value.items()}
    return [_normalised(entry) for entry in value] if isinstance(value, list | tuple) else value


def _label_hash(needs_nothing: bool, labels: Iterable[LabelFact]) -> str:
    return content_hash([needs_nothing, [list(label) for label in labels]])


def facts_of(dataset: Dataset, tokens: Iterable[int]) -> tuple[dict[str, ItemFact], dict[str, QueryFact]]:
    """The facts of all items and queries of a dataset, by id, in its order.

    Args:
        dataset: with the queries used.
        tokens: prompt tokens of every item that is there, in catalog order.
    """
    scopes = group_pairs((key, scope) for scope, keys in sorted(dataset.scopes.items()) for key in keys)
    items = {
        item.id: ItemFact.of(item, int(n), tuple(scopes.get(item.key, ())))
        for item, n in zip(dataset.current_catalog, tokens, strict=True)
    }
    return items, {query.id: QueryFact.of(query, dataset.labels_of(query.id)) for query in dataset.queries}


def by_state(items: Mapping[str, ItemFact]) -> tuple[dict[str, ItemFact], dict[str, ItemFact]]:
    """Split items into those that can be offered and those that are disabled."""
    enabled = {name: item for name, item in items.items() if item.enabled}
    return enabled, {name: item for name, item in items.items() if not item.enabled}


class TableAnswers(Mapping[str, AnswerFact]):
    """The answers of a selector on a dataset, with every candidate.

    Most queries are the same on both sides of a check, and only the offered ids of those are compared. Where the
    selector gave an order and no scores, there are none here either: those of the table (`Answers.scored`) are made up.

    Args:
        catalog: what the candidates' positions are positions in.
        answers: for every query.
        errors: what went wrong, by query id.
    """

    def __init__(self, catalog: Catalog, answers: Slice, *, errors: Mapping[str, str]) -> None:
        self.errors = dict(errors)
        self._catalog = catalog
        self._table: Candidates = answers.candidates
        self._scored = answers.scored
        self._row = {query: row for row, query in enumerate(answers.queries)}
        self._facts: dict[str, AnswerFact] = {}
        chosen = self._table.chosen
        self._start = self._table.starts_of(chosen).tolist()
        self._ids = [catalog.ids[item] for item in self._table.item[chosen].tolist()]

    def __getitem__(self, query: str) -> AnswerFact:
        if query not in self._facts:
            rows = self._table.rows(self._row[query])
            offered = offered_rows(self._catalog, self._table, rows, chosen=True)
            near = offered_rows(self._catalog, self._table, rows, chosen=False)
            if not self._scored and _are_order_scores((*offered, *near)):
                offered, near = (
                    tuple([replace(candidate, score=None) for candidate in side]) for side in (offered, near)
                )
            self._facts[query] = AnswerFact(query=query, offered=offered, near=near, error=self.errors.get(query, ""))
        return self._facts[query]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, query: object) -> bool:
        return query in self._row

    def offered_ids(self, query: str) -> list[str]:
        """The ids of the items that a query was offered, best first."""
        row = self._row[query]
        return self._ids[self._start[row] : self._start[row + 1]]

    def select(self, queries: Iterable[str]) -> TableAnswers:
        """The answers to some of the queries; facts that were made so far are shared."""
        row = {query: self._row[query] for query in queries}
        result = copy(self)
        vars(result).update(_row=row, errors={query: text for query, text in self.errors.items() if query in row})
        return result


def _are_order_scores(rows: Iterable[Offered]) -> bool:
    """Whether the scores of one request are -1, -2, ..., as an order without scores is written."""
    scores = sorted((candidate.score for candidate in rows if candidate.score is not None), reverse=True)
    return scores == [-float(rank) for rank in range(1, len(scores) + 1)]


def offered_ids(answers: Mapping[str, AnswerFact], query: str) -> list[str]:
    """The ids of the items that a query was offered, best first."""
    if isinstance(answers, TableAnswers):
        return answers.offered_ids(query)
    return [candidate.id for candidate in answers[query].offered]


def has_all_candidates(answers: Mapping[str, AnswerFact], query: str) -> bool:
    """Whether all candidates of a query are known, and not only the nearest excluded ones."""
    return isinstance(answers, TableAnswers) or len(answers[query].near) < NEAR


def failures(answers: Mapping[str, AnswerFact]) -> dict[str, str]:
    """The errors of queries that the selector failed on, by query id, in order."""
    if isinstance(answers, TableAnswers):
        return answers.errors
    return {query: fact.error for query, fact in answers.items() if fact.error}


def shown_tokens(candidate: Offered, side: SelectorSnapshot) -> int:
    """The token count of the shown part of an item; 0 if the item is unknown."""
    if candidate.tokens is not None:
        return candidate.tokens
    return side.items[candidate.id].tokens if candidate.id in side.items else 0


def answer_tokens(answer: AnswerFact, side: SelectorSnapshot, *, session: bool = False) -> int:
    """The prompt tokens that the selector added; with `session`, also those of the session's items."""
    return sum(
        shown_tokens(candidate, side) for candidate in answer.offered if session or candidate.origin != "session"
    )
