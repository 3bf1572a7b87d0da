"""Fit by file: the rest of a file of which much is chosen, and outlines for what is too long or stands far down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidate_tables import with_values
from ctxbench.core.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.items import Catalog, Item
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.shown import between_characters, text_shown
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.item_paths import item_paths
from ctxbench.text.prompt_budget import BUDGET, BUDGET_WORDS

SHARE = "whole_file.share"
"""Column of what was brought in: how much of its file's definitions, by tokens, was chosen before it."""
OUTLINED = "outlined"  # the code of the rule for an item that its file's outline stands for


@dataclass(frozen=True)
class WholeFile(Strategy):
    """Offer items as long as they fit, and the rest of a file once enough of its definitions is chosen.

    Attributes:
        tokens: of all items offered for a request together, those of the session aside, >= 0; never exceeded.
        share: once so much of a file's definitions is chosen, by tokens, the rest of them come in; above 0, to 1, which
            brings nothing in.
        per_token: items are taken in the order of score / tokens ** per_token, 0 to 1: with 0 in the one order, with 1
            by score for each token. What has no score above 0 comes last.

    What does not fit is left out, and smaller items after it may still be offered. Definitions are the chunks of a
    path; the rest of a file comes in all together, behind the one with which the share is reached (`via_item`), or not
    at all where it does not fit then. It may hold what no search found, or a cut left out. Its score is that of the one
    before it, the column `whole_file.share` the share that was reached. Scores and order stay as they are. In a catalog
    of whole files nothing is brought in. Empty in, empty out. Cost: a sort of the candidates and of the chunks that a
    request sees. Source: document 003, "Token Budget Manager" and "Minimal Expansion"; the share is ours.
    """

    tokens: int = 8000
    share: float = 0.5
    per_token: float = 0.0
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    brings_in: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {BUDGET: BUDGET_WORDS}

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)
        check_range("per_token", self.per_token, 0.0, 1.0)
        if not 0 < self.share <= 1:
            raise ParameterError(f"share must be above 0, to 1, got {self.share}")

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what does not fit, and bring in the rest of files."""
        catalog = query.batch.catalog
        path = item_paths(catalog, resources).path.code
        price = _prices(catalog, path, candidates, resources, with_siblings=self.share < 1)
        chunk, walks, shares = catalog.facts.type.are("chunk") & (path >= 0), [], []
        for walk in _walks(self, candidates, price):
            eligible, completed = query.batch.eligible[walk.request], set[int]()
            bodies = np.flatnonzero(chunk & query.batch.visible[walk.request])
            codes = path[bodies]
            for row, item in walk.rows():
                file = int(path[item])
                if not walk.take([item], row) or not chunk[item] or file in completed or self.share == 1:
                    continue
                definitions = bodies[codes == file].tolist()
                offered = [body for body in definitions if walk.offers(body)]
                reached = int(price[offered].sum()) / max(int(price[definitions].sum()), 1)
                if reached >= self.share:
                    completed.add(file)  # what does not fit now does not later
                    before = len(walk.added)
                    walk.take([body for body in definitions if eligible[body] and not walk.offers(body)], row)
                    shares += [reached] * (len(walk.added) - before)
            walks.append(walk)
        table = candidates.exclude(~_kept_rows(candidates, walks), Rule.of(BUDGET, tokens=self.tokens))
        return _with_added(table, walks, {SHARE: np.array(shares, dtype=np.float64)})


@dataclass(frozen=True)
class Outline(Strategy):
    """Offer the best items whole, and for what stands below, or does not fit, the outline of its file.

    Attributes:
        tokens: of all that is offered for a request, that of the session aside, >= 0; never exceeded.
        n: so many items may be whole, >= 0.
        per_token: as of `whole_file`; the places of `n` are in that order.

    The outline of a chunk is the item of type `file` at its path, where the request sees one: it comes in for the first
    chunk that it stands for (`via_item`), with its score, once a file. Of a whole file the head is shown: what stands
    before its first definition, such as path, documentation and imports. What has no outline, as outlines themselves,
    stays whole, if it fits; what a step before shows a part of stays so. What neither itself nor as an outline fits is
    left out, and smaller items after it may still be offered. Scores and order stay as they are. Empty in, empty out.
    Cost: a sort; whole files that are cut are parsed once. Source: document 003, `summarize_if_needed`.
    """

    tokens: int = 8000
    n: int = 20
    per_token: float = 0.0
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    brings_in: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        BUDGET: BUDGET_WORDS,
        OUTLINED: "its file's outline stands for it, as it is beyond the first n={n}, or too long for tokens={tokens}",
    }

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)
        check_range("n", self.n, 0)
        check_range("per_token", self.per_token, 0.0, 1.0)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Offer whole items and outlines as far as they fit."""
        catalog = query.batch.catalog
        paths = item_paths(catalog, resources).path
        price = _prices(catalog, paths.code, candidates, resources)
        file, chunk = (catalog.facts.type.are(kind) & (paths.code >= 0) for kind in ("file", "chunk"))
        outlined, heads, walks = np.zeros(len(candidates), dtype=np.bool_), dict[int, tuple[int, int]](), []

        @cache
        def head_of(item: int) -> tuple[int, int]:
            """Where the head of a whole file ends, and what it costs; 0, 0 = it has none."""
            end = _head_end(catalog[item], paths.names[paths.code[item]])
            return (end, int(resources.text_tokens([text_shown(catalog[item], (0, end))])[0])) if end else (0, 0)

        for walk in _walks(self, candidates, price):
            visible, eligible = query.batch.visible[walk.request], query.batch.eligible[walk.request]
            outlines = {int(paths.code[index]): index for index in np.flatnonzero(file & visible).tolist()}
            parted = set(np.unique(paths.code[chunk & visible]).tolist())
            for rank, (row, item) in enumerate(walk.rows()):
                path = int(paths.code[item])
                outline = outlines.get(path, -1) if chunk[item] else -1
                is_whole = file[item] and path not in parted and bool(candidates.shows_all[row])
                if (rank < self.n or not (outline >= 0 or (is_whole and head_of(item)[0]))) and walk.take([item], row):
                    continue
                if outline >= 0:
                    outlined[row] = walk.offers(outline) or (bool(eligible[outline]) and walk.take([outline], row))
                elif is_whole and head_of(item)[0] and walk.take([item], row, tokens=head_of(item)[1]):
                    heads[row] = head_of(item)
            walks.append(walk)
        table = candidates.exclude(outlined, Rule.of(OUTLINED, n=self.n, tokens=self.tokens))
        table = table.exclude(~_kept_rows(candidates, walks), Rule.of(BUDGET, tokens=self.tokens))
        head_spans = np.array([heads[row] for row in sorted(heads)], dtype=np.int64).reshape(-1, 2)
        headed = np.isin(np.arange(len(table)), list(heads))
        table = table.showing(headed, np.zeros(len(head_spans), dtype=np.int64), head_spans[:, 0], head_spans[:, 1])
        return _with_added(table, walks, {})


class _Walk:
    """What is offered to one request while its chosen rows are walked down, and what is left of the budget.

    Attributes:
        request: which.
        added: items without a chosen row, and the row that each came in behind.
        kept: rows that are offered.
    """

    def __init__(self, table: Candidates, request: int, rows: list[int], *, cost: IntArray, price: IntArray) -> None:
        span = table.rows(request)
        self.request, self.added, self.kept, self.left = request, list[tuple[int, int]](), set[int](), 0
        self._rows, self._free, self._cost, self._price = rows, set(rows), cost, price
        self._row = dict(zip(table.item[span].tolist(), range(span.start, span.stop), strict=True))
        session = table.origin[span] == Origin.SESSION
        self._offered = set(table.item[span][session].tolist())
        self._items = table.item

    def rows(self) -> Iterator[tuple[int, int]]:
        """Each row that is not offered yet when its turn comes, and its item."""
        yield from ((row, int(self._items[row])) for row in self._rows if row not in self.kept)

    def offers(self, item: int) -> bool:
        """Whether an item is offered, or held by the session."""
        return item in self._offered

    def take(self, items: Sequence[int], row: int, *, tokens: int | None = None) -> bool:
        """Offer items behind a row, all together, if they fit; whether they do.

        Args:
            items: not offered yet.
            row: the one that leads to them.
            tokens: what they cost, in place of their prices.
        """
        rows = [self._row.get(item, -1) for item in items]
        costs = [self._cost[at] if at >= 0 else self._price[item] for item, at in zip(items, rows, strict=True)]
        spent = int(sum(costs)) if tokens is None else tokens
        if spent > self.left:
            return False
        self.left -= spent
        self._offered.update(items)
        self.kept.update(at for at in rows if at in self._free)
        self.added += [(item, row) for item, at in zip(items, rows, strict=True) if at not in self._free]
        return True


def _prices(
    catalog: Catalog, path: IntArray, candidates: Candidates, resources: Resources, *, with_siblings: bool = True
) -> IntArray:
    """Prompt tokens of what is chosen; with `with_siblings`, also of other items of its files; shape (n_items,)."""
    items = candidates.item[candidates.chosen]
    if with_siblings:
        in_files = np.zeros(int(path.max(initial=-1)) + 2, dtype=np.bool_)
        in_files[path[items]] = True
        in_files[-1] = False  # what stands in no file
        items = np.concatenate([items, np.flatnonzero(in_files[path])])
    return resources.tokens(catalog, items)


def _walks(step: WholeFile | Outline, table: Candidates, price: IntArray) -> Iterator[_Walk]:
    """A walk for each request with chosen rows, those of the session aside, in the order of `per_token`."""
    cost, rows = table.prices(price), np.flatnonzero(table.chosen & (table.origin != Origin.SESSION))
    if step.per_token:
        # one by one: the same bits anywhere
        divisor = np.array([max(tokens, 1) ** step.per_token for tokens in cost[rows].tolist()], dtype=np.float64)
        value = np.where(table.score[rows] > 0, table.score[rows] / divisor, table.score[rows])
        rows = rows[np.lexsort((rows, -value, table.tier[rows], table.request[rows]))]
    request = table.request[rows]
    for number in np.unique(request).tolist():
        walk = _Walk(table, number, rows[request == number].tolist(), cost=cost, price=price)
        walk.left = step.tokens
        yield walk


def _kept_rows(table: Candidates, walks: Sequence[_Walk]) -> BoolArray:
    """The rows that are offered, and those that no walk decides on."""
    mask: BoolArray = ~table.chosen | (table.origin == Origin.SESSION)
    mask[[row for walk in walks for row in walk.kept]] = True
    return mask


def _with_added(table: Candidates, walks: Sequence[_Walk], columns: Mapping[str, FloatArray]) -> Candidates:
    """The table with what the walks bring in, and columns of that."""
    rows = [(walk.request, item, row) for walk in walks for item, row in walk.added]
    request, item, row = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    constants = {"origin": Origin.EXPANSION, "mode": Mode.EXPANSION}
    filled = {name: np.full(len(item), int(value), dtype=np.int64) for name, value in constants.items()}
    extended = add_expanded(table, request, item, score=table.score[row], via_item=table.item[row], **filled)
    return with_values(extended, request, item, columns)


def _head_end(item: Item, path: str) -> int:
    """Where a file's first definition begins in its prompt text; 0 where there is none, or nothing stands before it."""
    from ctxbench.index.code.code_facts import code_facts  # grammars wait until a head is asked for

    text, front = item.prompt_text, f"{path}\n\n"
    start = len(front) if text.startswith(front) else 0
    definitions = code_facts(path, text[start:]).definitions
    if not definitions:
        return 0
    end = text.rfind("\n", 0, start + definitions[0].start) + 1
    return end if text[start:end].strip() and between_characters(text, end) else 0
