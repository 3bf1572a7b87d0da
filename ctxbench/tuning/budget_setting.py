"""Finds a setting that offers a given number of prompt tokens on average, from requests without labels.

Without labels nothing shows how complete a selector is, but its token count is known. A cap on items is set before a
margin: the smallest number of items whose tokens reach the budget, one more, and then the margin that meets the budget.
At equal tokens this order was the more complete one on the datasets here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.core.requests import Batch, Request
from ctxbench.data.datasets.lookup import open_dataset, user_folder
from ctxbench.index.resources import LocalResources
from ctxbench.io.files import iter_lines
from ctxbench.io.json_files import iter_jsonl
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Value

T = TypeVar("T")
_TEXTS = ("query", "input", "question", "request", "prompt", "message", "content")  # what may be the text
MAX_REQUESTS = 2000  # at most so many requests are used
MARGIN, AT_MOST = "margin", "at_most"  # the parameters that are set


@dataclass(frozen=True, kw_only=True)
class BudgetSetting:
    """The setting that a budget gives.

    Attributes:
        values: of all parameters of the selector.
        tokens: mean prompt tokens on the requests, at most the budget.
        items: mean items.
        requests: how many there are.
        halves: the tokens on each half of the requests of a setting found on the other, as a share of the budget;
            empty with fewer than 20 requests.
    """

    values: Mapping[str, Value]
    tokens: float
    items: float
    requests: int
    halves: tuple[float, ...]


def read_requests(name: str) -> list[Request]:
    """Requests from a dataset's folder or name, a `.jsonl` file of objects with `text`, or a text file, one a line.

    A `.jsonl` file may be what `ctxbench data export --requests` writes; its line with the catalog is ignored.

    Raises:
        UserError: it cannot be read.
        InputError: a line is no request, or there is none; all faults with their lines.
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
        texts, wrong = [], dict[str, list[int]]()
        for line, row in iter_jsonl(path, faults):
            if "ctxbench" in row and "catalog" in row and "query" not in row:
                continue
            request = row.get("request")
            text = row.get("text", request.get("text") if isinstance(request, Mapping) else None)
            if isinstance(text, str):
                texts.append(text)
            else:
                wrong.setdefault(_no_text(row), []).append(line)
        for message, (first, *rest) in wrong.items():
            faults.append(Fault(message + (f"; so are {len(rest):,} more lines" if rest else ""), path, first))
    else:
        texts = [line for _, line in iter_lines(path, faults)]
    texts = sample_requests([text for text in texts if text.strip()])
    if not texts and not faults:
        faults.append(Fault("no request; expected one a line, or objects with `text` in a .jsonl file", path, 1))
    if faults:
        raise InputError(faults)
    return [Request(id=str(index), text=text) for index, text in enumerate(texts)]


def _no_text(row: Mapping[str, Any]) -> str:
    """Why an object is no request, and which of its fields may be the text."""
    if "text" in row:
        return f"expected an object with `text`, got text {row['text']!r:.60}"
    texts = {name: row[name] for name in _TEXTS if isinstance(row.get(name), str)}
    likely = max(texts, key=lambda name: len(texts[name]), default="")  # an id may be called as a text is, and is short
    fields = ", ".join(map(repr, row)) or "nothing"
    return f"expected an object with `text`, got {fields}" + (f"; call {likely!r} `text`" if likely else "")


def sample_requests(requests: list[T]) -> list[T]:
    """At most `MAX_REQUESTS` of them, evenly spread over their order."""
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
    """The setting whose mean prompt tokens come closest to a budget from below.

    Args:
        definition: a selector that ends with the cut `margin` of a difference, with the parameters margin and at_most.
        values: of its parameters; margin and at_most are replaced.
        batch: the requests.
        resources: as for its pipeline.
        tokens: the budget per request, on average; > 0.

    Raises:
        ParameterError: the selector has no such cut, the budget is below the tokens of one item, or nothing is found.
    """
    fewest = checked_cut(definition, values)
    pipeline, parameters = definition.pipeline(values), definition.parameters
    table = replace(pipeline, refine=pipeline.refine[:-1]).run(batch, resources).candidates
    item_tokens = resources.tokens(batch.catalog)
    prices = Prices.of_table(
        table, item_tokens, ceiling=int(parameters[AT_MOST].high), highest=float(parameters[MARGIN].high)
    )
    max_items, margin = prices.setting_within(tokens)
    halves: list[float] = []
    if len(batch) >= 20:
        odd = np.arange(len(batch)) % 2 == 1
        for half in (odd, ~odd):
            tuning, test = prices.select_requests(half), prices.select_requests(~half)
            if tuning.tokens(1, np.inf) <= tokens:
                halves.append(test.tokens(*tuning.setting_within(tokens)) / tokens)
    return BudgetSetting(
        values={**values, **fewest, AT_MOST: max_items, MARGIN: margin},
        tokens=prices.tokens(max_items, margin),
        items=prices.items(max_items, margin),
        requests=len(batch),
        halves=tuple(halves),
    )


def checked_cut(definition: Definition, values: Mapping[str, Value]) -> dict[str, Value]:
    """The value of the parameter for the fewest items, which a budget sets to 1; empty where there is none.

    Raises:
        ParameterError: the selector does not end with a cut that a budget can set.
    """
    refine = definition.refining(values)
    last = refine[-1].get("margin", {}) if refine and isinstance(refine[-1], Mapping) else {}
    if last.get(MARGIN) != f"${MARGIN}" or last.get(AT_MOST) != f"${AT_MOST}" or last.get("of") != "difference":
        raise ParameterError(
            f"a budget is set by the cut `margin` at the end, with parameters {MARGIN} and {AT_MOST}; selector "
            f"{definition.name!r} has none such, `learned` has"
        )
    written = last.get("at_least", 0)
    if isinstance(written, str):
        return {written.removeprefix("$"): 1}
    if written > 1:
        raise ParameterError(f"selector {definition.name!r} always offers {written} items, which no budget can set")
    return {}


@dataclass(frozen=True, eq=False)
class Prices:
    """The items found for every request, best first: their tokens, and how far they score below the best.

    Attributes:
        request, rank: of every row, shape (n_rows,); the best of a request has rank 0.
        fallen: how far its score lies below the best, shape (n_rows,), >= 0.
        cost: its tokens, shape (n_rows,).
        n: how many requests there are, those for which nothing was found included.
        highest: the most items, and the largest margin, that a setting may have.
    """

    request: IntArray
    rank: IntArray
    fallen: FloatArray
    cost: IntArray
    n: int
    highest: tuple[int, float]

    @classmethod
    def of_table(cls, table: Candidates, item_tokens: IntArray, *, ceiling: int = 100, highest: float = 20.0) -> Prices:
        """Take them from the chosen rows of a ranking.

        Args:
            table: what was found, in order.
            item_tokens: shape (n_items,).
            ceiling: the most items that may be offered.
            highest: the largest margin.
        """
        alive = table.chosen & table.ranked
        rows = np.flatnonzero(alive)
        rank, request = place_among(table, alive)[rows], table.request[rows]
        best = np.zeros(table.n_requests)
        best[request[rank == 0]] = table.score[rows][rank == 0]
        fallen = best[request] - table.score[rows]
        return cls(request, rank, fallen, table.prices(item_tokens)[rows], table.n_requests, (ceiling, highest))

    def select_requests(self, requests: BoolArray) -> Prices:
        """The prices of the requests where `requests`, shape (n_requests,), is True."""
        rows, new = requests[self.request], np.cumsum(requests) - 1
        return replace(
            self,
            request=new[self.request[rows]],
            rank=self.rank[rows],
            fallen=self.fallen[rows],
            cost=self.cost[rows],
            n=int(requests.sum()),
        )

    def offered(self, max_items: int, margin: float) -> BoolArray:
        """The rows that are offered; the best item always is."""
        return (self.rank < max_items) & ((self.fallen <= margin) | (self.rank < 1))

    def tokens(self, max_items: int, margin: float) -> float:
        """Mean tokens of a setting."""
        return float(self.cost[self.offered(max_items, margin)].sum() / max(self.n, 1))

    def items(self, max_items: int, margin: float) -> float:
        """Mean items of a setting."""
        return float(self.offered(max_items, margin).sum() / max(self.n, 1))

    def setting_within(self, tokens: float) -> tuple[int, float]:
        """The setting that comes closest to a budget from below.

        Raises:
            ParameterError: the best item alone costs more, or nothing was found.
        """
        if not len(self.cost):
            raise ParameterError("nothing is found for any of the requests, so that no setting costs anything")
        minimum = self.tokens(1, np.inf)
        if tokens < minimum:
            raise ParameterError(
                f"a budget of {tokens:g} tokens is below one item: the best item of a request costs {minimum:,.0f} on "
                "average; give at least that"
            )
        ceiling, highest = self.highest
        reached = next((n for n in range(1, ceiling + 1) if self.tokens(n, highest) >= tokens), ceiling)
        max_items = min(reached + 1, ceiling)
        rest = np.flatnonzero((self.rank < max_items) & (self.rank >= 1) & (self.fallen <= highest))
        rest = rest[np.argsort(self.fallen[rest], kind="stable")]
        fallen, spent = self.fallen[rest], minimum + np.cumsum(self.cost[rest]) / max(self.n, 1)
        last = np.append(fallen[1:] > fallen[:-1], True)[: len(fallen)]  # of equal ones all are offered or none
        fitting = np.flatnonzero(last & (spent <= tokens))
        if not len(fitting):
            return max_items, 0.0
        at = int(fitting[-1])
        return max_items, _between(float(fallen[at]), float(fallen[at + 1]) if at + 1 < len(fallen) else highest)


def _between(low: float, high: float) -> float:
    """The shortest number from `low` on that is below `high`; `high` itself where nothing lies beyond."""
    for digits in range(8):
        short: float = math.ceil(low * 10**digits) / 10**digits
        if low <= short < high:
            return short
    return low
