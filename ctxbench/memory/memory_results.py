"""The results of the memory engine: the pipeline's selection, also under the names of the specification."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.core.items import Catalog, Item
from ctxbench.core.pipeline import Outcome
from ctxbench.core.selection import Selection, selections
from ctxbench.steps.links import TYPE

SIMILARITY = "similarity.score"
_SAID = {"workspace_id": "workspace", "type": "kind", "content": "text"}  # fields of items by the document's names
_SAID |= {"confidence": "confidence", "created_at": "created", "conversation_id": "conversation"}


@dataclass(frozen=True, eq=False, repr=False)
class FoundMemories:
    """The memories that were found for one query.

    Attributes:
        outcome: of the pipeline, for all queries that were asked together.
        request_index: of the query among them.
    """

    outcome: Outcome
    request_index: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[result['memory']['id'] for result in self.every_result()]})"

    @property
    def catalog(self) -> Catalog:
        """The workspace's memories, all versions."""
        return self.outcome.query.batch.catalog

    @property
    def selection(self) -> Selection:
        """The items offered and excluded, as of any selector."""
        return selections(self.outcome.query, self.outcome.candidates)[self.request_index]

    @property
    def contents(self) -> list[str]:
        """The texts of the results, best first."""
        return [result["memory"]["content"] for result in self.results()]

    def results(self) -> list[dict[str, Any]]:
        """The chosen results, best first: `memory`, `score` (similarity), `rank` from 1, and `relationships`, if any.

        What a relationship brought in stands under `relationships` of the result that it was reached from, with
        `depth`, the `relationship`'s type, and the `path` of ids that led there; where that one was left out, it is a
        result of its own.
        """
        table = self.outcome.candidates
        rows = table.rows(self.request_index)
        via = dict(zip(table.item[rows].tolist(), table.via_item[rows].tolist(), strict=True))
        results_by_row = dict(zip(self.rows(chosen=True), self.every_result(), strict=True))
        paths = {row: _path(int(table.item[row]), via) for row in results_by_row}
        first = {path[0]: row for row, path in paths.items() if len(path) == 1}
        related: dict[int, list[dict[str, Any]]] = {
            row: [] for row, path in paths.items() if len(path) == 1 or path[0] not in first
        }
        for row, path in paths.items():
            if row not in related:
                related[first[path[0]]].append(self._related(row, path))
        for rank, (row, related_result) in enumerate(related.items(), start=1):
            results_by_row[row] |= {"rank": rank, "relationships": related_result} if related_result else {"rank": rank}
        return [results_by_row[row] for row in related]

    def every_result(self) -> list[dict[str, Any]]:
        """The chosen results as one list, best first, each with `memory` and `score`, for a ranker."""
        rows = self.rows(chosen=True)
        return [{"memory": memory_dict(self._item(row)), "score": self._similarity(row)} for row in rows]

    def explained(self) -> list[dict[str, Any]]:
        """Candidates, the chosen ones first: `id`, `ranking` score, `scores` by column, and what `rule` left it out."""
        table, explanations = self.outcome.candidates, []
        for row in [*self.rows(chosen=True), *self.rows(chosen=False)]:
            scores = {name: float(column[row]) for name, column in table.columns.items() if not np.isnan(column[row])}
            rule = table.rules[int(table.out[row])]
            explanation = {
                "id": memory_dict(self._item(row))["id"],
                "ranking": float(table.score[row]),
                "scores": scores,
            }
            explanations.append({**explanation, "rule": None if rule is None else str(rule)})
        return explanations

    def rows(self, *, chosen: bool) -> list[int]:
        """The rows of the query that were chosen, or those that were not, in their order."""
        table = self.outcome.candidates
        rows = table.rows(self.request_index)
        positions: list[int] = (np.flatnonzero(table.chosen[rows] == chosen) + rows.start).tolist()
        return positions

    def _item(self, row: int) -> Item:
        item: Item = self.catalog[int(self.outcome.candidates.item[row])]
        return item

    def _similarity(self, row: int) -> float | None:
        columns = self.outcome.candidates.columns
        column = columns.get(SIMILARITY)  # else the search is by similarity alone
        value = float(self.outcome.candidates.score[row] if column is None else column[row])
        return None if np.isnan(value) else min(max(value, 0.0), 1.0)

    def _related(self, row: int, path: list[int]) -> dict[str, Any]:
        kind = self.catalog.facts.link_types[int(self.outcome.candidates.columns[TYPE][row])]
        names = [memory_dict(self.catalog[position])["id"] for position in path]
        return {"memory": memory_dict(self._item(row)), "relationship": kind, "depth": len(path) - 1, "path": names}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BuiltContext(FoundMemories):
    """A context for a prompt.

    Attributes:
        context: the rendered text; empty where nothing was found, or nothing fits.
        tokens: of it.
        budget: tokens that it may have.
        template: the name of the template.
        counter: what counted the tokens.
    """

    context: str
    tokens: int
    budget: int
    template: str
    counter: str

    @property
    def truncated(self) -> bool:
        """Whether the budget excluded or shortened a memory."""
        chosen, left = self.rows(chosen=True), self.rows(chosen=False)
        table = self.outcome.candidates
        rules = [table.rules[int(table.out[row])] for row in left]
        return any(rule is not None and rule.code == "budget" for rule in rules) or not table.shows_all[chosen].all()

    def as_dict(self) -> dict[str, Any]:
        """`context`, `tokenCount`, `memories`, `truncated` and `template`, under the specification's names."""
        data = {"context": self.context, "tokenCount": self.tokens, "counter": self.counter}
        return data | {"memories": self.results(), "truncated": self.truncated, "template": self.template}

    def preview(self) -> dict[str, Any]:
        """The same with `memoryIds`, `rankingScores` by id, and `budgetUsed`, a percentage."""
        scores = {
            explanation["id"]: explanation["ranking"] for explanation in self.explained() if explanation["rule"] is None
        }
        used = round(100.0 * self.tokens / self.budget, 1)
        return {**self.as_dict(), "memoryIds": list(scores), "rankingScores": scores, "budgetUsed": used}


def _path(item: int, via: Mapping[int, int]) -> list[int]:
    """The items over which an item was reached, itself last; only itself if the search found it."""
    path = [item]
    while via[path[0]] >= 0:
        path.insert(0, via[path[0]])
    return path


def memory_dict(item: Item) -> dict[str, Any]:
    """A memory under the specification's names, without empty fields."""
    name, _, version = item.name.rpartition("@")
    row: dict[str, Any] = {"id": name, "version": int(version) if version.isdigit() else 1}
    row |= {key: getattr(item, field) for key, field in _SAID.items()}
    row["metadata"] = copy.deepcopy(dict(item.metadata)) or None  # the store's own stays as it is
    return {key: value for key, value in row.items() if value is not None}
