"""Pools: the offers of several selectors for every query of a dataset, and its exposures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from ctxbench.bench.dataset_run import answered
from ctxbench.bench.experiment_file import examine
from ctxbench.bench.provenance import code_hash, versions
from ctxbench.bench.results import content_key
from ctxbench.bench.selector_specs import agent_own_spec
from ctxbench.bench.slices import Slice
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import InputError, ParameterError, SelectorError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.labelling.query_files import Exposure
from ctxbench.io.cache import cache_dir, read_sealed, write_sealed
from ctxbench.selectors.definitions import find_definition, selector_name
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.selectors.selector import Selector
from ctxbench.sources.agent_file import is_agent_file

SELECTORS = ("bm25", "dense", "semantic/documents")
DEPTH = 20  # places of a ranking that are looked at
ALIKE = 0.7  # share of words, rare ones counting more, that two items have in common from which one may stand in
ALIKE_NAMED = 0.5  # the same where their names start with the same word, which for tools is what they do
_WORD, _NAME_WORD = re.compile(r"[^\W_]+"), re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+")
BLOCK = 256  # queries whose answers are kept in one file, so that an interrupted start goes on


@dataclass(frozen=True, eq=False, kw_only=True)
class Offers:
    """The offers and rankings of one selector, by query of the dataset, as catalog positions.

    Attributes:
        name: of the selector.
        offered: what would stand in the prompt, what the session holds included.
        ranking: the best `DEPTH` found by search, best first, chosen or not.
        scores: of the ranking.
        failed: how many queries it failed on; these offer what the session holds.
        failure: the first of them with what went wrong; empty where none did.
    """

    name: str
    offered: tuple[frozenset[int], ...]
    ranking: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]
    failed: int = 0
    failure: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool:
    """A dataset with the offers of selectors for its queries, and its exposures.

    Attributes:
        dataset: the queries, in order.
        offers: one a selector.
        exposures: what the log offered and saw called, by query id; queries of no log are not in it.
    """

    dataset: Dataset
    offers: tuple[Offers, ...]
    exposures: Mapping[str, Exposure] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The selectors."""
        return tuple(offers.name for offers in self.offers)

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of every query by its id."""
        return {query.id: row for row, query in enumerate(self.dataset.queries)}

    @cached_property
    def likenesses(self) -> Likenesses:
        """The items of the catalog that may be alternatives of each other."""
        return Likenesses(self.dataset.catalog)

    @cached_property
    def always_items(self) -> frozenset[int]:
        """The enabled items of mode `always`, which are in the prompt of every new session."""
        return frozenset(np.flatnonzero(self.dataset.catalog.facts.always_offered).tolist())

    def always_offered(self, row: int) -> frozenset[int]:
        """The items of mode `always` that every selector offers for the query in `row`: it gets them anyway."""
        return self.always_items.intersection(*(offers.offered[row] for offers in self.offers))

    def positions(self, keys: Iterable[ItemKey]) -> tuple[int, ...]:
        """The catalog positions of items; those that the catalog does not hold are left out."""
        positions = map(self.dataset.catalog.find, keys)
        return tuple(position for position in positions if position is not None)

    def groups(self, labels: Sequence[Label]) -> list[tuple[int, ...]]:
        """The groups of required items of labels, as catalog positions."""
        position = self.dataset.catalog.position
        required = (label for label in labels if label.grade == 2)
        groups = group_pairs((label.alternatives or label.item, position(label.item)) for label in required)
        return [tuple(members) for members in groups.values()]

    def complete(self, row: int, groups: Sequence[tuple[int, ...]]) -> tuple[bool, ...]:
        """By selector, whether it offers the required items of the query in `row`."""
        return tuple(all(any(i in offers.offered[row] for i in group) for group in groups) for offers in self.offers)


class Likenesses:
    """Pairs of items of one type that may be alternatives: by name, or by similar words.

    Attributes:
        of: gives the positions of the items like the one at a position.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._words = [frozenset(word.lower() for word in _WORD.findall(item.search_text)) for item in catalog]
        self._names = [tuple(map(str.lower, _NAME_WORD.findall(item.name))) or (item.name,) for item in catalog]
        self._holding = group_pairs((word, position) for position, words in enumerate(self._words) for word in words)
        self._worth = {word: math.log(1.0 + len(catalog) / len(positions)) for word, positions in self._holding.items()}
        self._sums = [math.fsum(self._worth[word] for word in words) for words in self._words]
        self.of = cache(self._find)

    def _find(self, position: int) -> tuple[int, ...]:
        """Positions of the other items similar to the one at `position`, most similar first."""
        mine, item = self._words[position], self._catalog[position]
        common: dict[int, float] = {}
        for word in mine:
            worth = self._worth[word]
            for holder in self._holding[word]:
                common[holder] = common.get(holder, 0.0) + worth
        scored = []
        for candidate, shared in common.items():
            if candidate == position or self._catalog[candidate].type != item.type:
                continue
            share = shared / (self._sums[position] + self._sums[candidate] - shared)
            is_same_name = self._names[candidate] == self._names[position]
            if is_same_name or share >= (
                ALIKE_NAMED if self._names[candidate][0] == self._names[position][0] else ALIKE
            ):
                scored.append((-share, candidate))
        return tuple(candidate for _, candidate in sorted(scored))


def usual_selectors(dataset: Dataset) -> tuple[str, ...]:
    """The default selectors to label for: three shipped ones, and that of a dataset's agent."""
    agent = dataset.about.get("agent")
    return SELECTORS if agent is None else (str(agent), *SELECTORS)


def open_selectors(names: Sequence[str], resources: Resources) -> dict[str, Selector]:
    """Open selectors: shipped ones as `name` or `name/preset`, that of an agent file, or all those of an experiment.

    Raises:
        UserError: one is unknown or faulty, or two have one name.
    """
    selectors: dict[str, Selector] = {}
    for text in names:
        if text.endswith((".yaml", ".yml")) and not is_agent_file(text):
            experiment, faults = examine(Path(text))
            if faults:
                raise InputError(faults)
            from_experiment = experiment.make_selectors(resources, {})
        elif (agent_spec := agent_own_spec(text)) is not None:
            from_experiment = {agent_spec.name: agent_spec.make(resources, {})}
        else:
            made_of, preset = find_definition(text)
            pipeline = made_of.pipeline(made_of.values(preset))
            name = selector_name(text)
            from_experiment = {name: PipelineSelector(name, pipeline, resources)}
        for name, selector in from_experiment.items():
            if name in selectors:
                raise ParameterError(f"two selectors are called {name!r}; name each once")
            selectors[name] = selector
    if not selectors:
        raise ParameterError("no selector is named; expected one or more, such as bm25")
    return selectors


def make_pool(
    dataset: Dataset,
    selectors: Mapping[str, Selector],
    *,
    exposures: Mapping[str, Exposure],
    progress: Callable[[str, int, int], None] = lambda _text, _done, _total: None,
) -> Pool:
    """Ask every selector for every query; answers of an earlier call are taken from the cache.

    Raises:
        SelectorError: a selector of the user's fails on every query, so that any figure of it would be false.
        UserError: a selector of ours fails.
    """
    offers = []
    for name, selector in selectors.items():
        parts = []
        for first in range(0, len(dataset), BLOCK):
            parts.append(_block(dataset, selector, first))
            progress(f"asking {name}", min(first + BLOCK, len(dataset)), len(dataset))
        offers.append(_offers(name, parts))
        if len(dataset) and offers[-1].failed == len(dataset):
            raise SelectorError(f"{name} failed on all {len(dataset):,} queries; first {offers[-1].failure}")
    return Pool(dataset=dataset, offers=tuple(offers), exposures=exposures)


def _block(dataset: Dataset, selector: Selector, first: int) -> Slice:
    """The answers for some queries, in the order of the dataset, from the cache if they are there.

    Failures are not kept, so that a later start asks again.
    """
    batch = Batch.of(dataset.catalog, [query.request for query in dataset.queries[first : first + BLOCK]])
    path = cache_dir() / "labelling" / content_key(2, batch.key, selector.describe(), code_hash(), versions())
    if (cached := read_sealed(path)) is not None:
        return Slice.from_bytes(cached, path)
    answers = answered(selector, batch)
    if not answers.errors:
        write_sealed(path, answers.to_bytes(timed=False))
    return answers


def _offers(name: str, parts: Sequence[Slice]) -> Offers:
    answers = [_answer(part.candidates, row) for part in parts for row in range(len(part.queries))]
    return Offers(
        name=name,
        offered=tuple(offered for offered, _, _ in answers),
        ranking=tuple(ranking for _, ranking, _ in answers),
        scores=tuple(scores for _, _, scores in answers),
        failed=sum(len(part.errors) for part in parts),
        failure=next((_failure(*error) for part in parts for error in part.errors.items()), ""),
    )


def _failure(query: str, error: str) -> str:
    """A failure with its query, which most name themselves."""
    named = f"query {query!r}: "
    return error if error.startswith(named) else f"{named}{error}"


def _answer(table: Candidates, query: int) -> tuple[frozenset[int], tuple[int, ...], tuple[float, ...]]:
    """The items offered for one query, the best `DEPTH` of its search, and their scores."""
    rows = table.rows(query)
    items, offered = table.item[rows], (table.tier[rows] > 0).nonzero()[0][:DEPTH]
    scores = table.score[rows][offered]
    return frozenset(items[table.chosen[rows]].tolist()), tuple(items[offered].tolist()), tuple(scores.tolist())
