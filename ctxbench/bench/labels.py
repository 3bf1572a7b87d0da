"""What answers on a dataset are compared with: labels, token counts and which items are siblings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ctxbench.bench.metrics import Evidence, Kinship, OfferedItems, Rankings
from ctxbench.bench.slices import Slice
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.shown import holding
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.net.chat import RECEIVED, SECONDS, SENT

TextTokens: TypeAlias = Callable[[Sequence[str]], IntArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Labels:
    """What answers on a dataset are compared with.

    Attributes:
        dataset: with judgments for every query.
        item_tokens: prompt tokens, shape (n_items,).
        kinship: which items are siblings.
        pool: how many items each query's search may offer, shape (n_queries,).
        body_tokens: of what the model loads of each item on demand, shape (n_items,); None = it cannot be counted.
    """

    dataset: Dataset
    item_tokens: IntArray
    kinship: Kinship
    pool: IntArray
    body_tokens: IntArray | None

    @classmethod
    def of(cls, dataset: Dataset, item_tokens: IntArray, count: TextTokens | None = None) -> Labels:
        """Take them from a dataset.

        Args:
            dataset: with judgments for every query.
            item_tokens: prompt tokens, shape (n_items,).
            count: counts the tokens of texts; without it bodies of skills are not counted.
        """
        catalog = dataset.catalog
        kinship = Kinship.of(
            [item.name for item in catalog],
            servers=[item.server or "" for item in catalog],
            types=[item.type for item in catalog],
        )
        pool = dataset.batch().eligible.counts()
        return cls(
            dataset=dataset,
            item_tokens=item_tokens,
            kinship=kinship,
            pool=pool,
            body_tokens=_body_tokens(catalog, count),
        )

    def evidence(self, answers: Slice, *, first: int | None = None) -> Evidence:
        """Join labels and answers.

        Args:
            answers: for all queries of the dataset, or some that follow each other, in its order.
            first: the index of the first of them in the dataset; None = they are all.

        Raises:
            InputError: the answers are not those of these queries.
        """
        span = slice(0, len(self.ids)) if first is None else slice(first, first + len(answers.queries))
        if self.ids[span] != answers.queries:
            fault = Fault(f"the answers are not those of dataset {self.dataset.name}'s queries, in its order")
            raise InputError([fault])
        table = answers.candidates
        ranked, items = table.ranking()
        enough, chosen = enough_shown(self.dataset, table, first=span.start), table.chosen
        return Evidence(
            judgments=self.dataset.judgments.of(span),
            offered=OfferedItems(
                start=table.starts_of(chosen),
                item=table.item[chosen],
                origin=table.origin[chosen],
                tokens=table.prices(self.item_tokens)[chosen],
                enough=enough[chosen],
            ),
            rankings=Rankings(start=ranked, item=items, enough=enough[table.tier > 0]) if answers.ranked else None,
            item_tokens=self.item_tokens,
            kinship=self.kinship,
            pool=self.pool[span],
            body_tokens=self.body_tokens,
            model_use=_model_use(table),
        )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of the dataset's queries, in order."""
        return tuple(query.id for query in self.dataset.queries)


def _model_use(table: Candidates) -> FloatArray | None:
    """Tokens and seconds of the models that steps asked, by query; 0 where none was asked, None without such a step."""
    if SENT not in table.columns:
        return None
    use = np.zeros((2, table.n_requests), dtype=np.float64)
    rows = ~np.isnan(table.columns[SECONDS])  # a query's first step may have asked for more rows than its second
    tokens = table.columns[SENT] + table.columns[RECEIVED]
    with np.errstate(invalid="ignore"):  # the server may count no tokens: then NaN is right
        for values, of_query in zip((tokens, table.columns[SECONDS]), use, strict=True):
            np.maximum.at(of_query, table.request[rows], values[rows])
    return use


def _body_tokens(catalog: Catalog, count: TextTokens | None) -> IntArray | None:
    """Tokens of what is loaded of each item on demand; None where there is something that cannot be counted."""
    bodies = {index: item.body for index, item in enumerate(catalog) if item.body}
    tokens = np.zeros(len(catalog), dtype=np.int64)
    if bodies:
        if count is None:
            return None
        try:
            tokens[list(bodies)] = count(list(bodies.values()))
        except ParameterError:  # a file of counts, which knows whole items only
            return None
    return tokens


def enough_shown(dataset: Dataset, table: Candidates, *, first: int = 0) -> BoolArray:
    """Where enough of an item is shown: all of it, or what its label quotes; True where there is no label.

    Args:
        dataset: with labels.
        table: candidates of queries of it that follow each other, in order.
        first: the index of the first of them in the dataset.

    Returns:
        Shape (n_rows,).
    """
    enough = np.ones(len(table), dtype=np.bool_)
    rows = np.flatnonzero(~table.shows_all)
    if len(rows):
        catalog, queries = dataset.catalog, dataset.queries
        table_queries = queries[first : first + table.n_requests]
        quotes = {
            (query.id, label.item): label.quote for query in table_queries for label in dataset.labels_of(query.id)
        }
        keys = [(table_queries[int(table.request[row])].id, catalog[int(table.item[row])].key) for row in rows]
        labelled = [index for index, key in enumerate(keys) if key in quotes]
        rows, quoted = rows[labelled], [quotes[keys[index]] for index in labelled]
        enough[rows] = holding(catalog, table, rows, quoted)
    return enough
