"""Cut a ranking by count, score, margin, gap, query chunk, diversity or the probability that anything is needed.

A cut excludes rows by a rule and drops none. `Margin` and `Gap` stop by how far scores fall, since the 0.5 of one query
is the 0.7 of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from ctxbench.io.errors import Message, ParameterError, SelectorError, check_range, number_within
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, firsts
from ctxbench.model.candidates import BEYOND_CHUNKS, Candidates, Rule, place_among, sources_of
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Strategy, later
from ctxbench.pipelines.feature_families import REQUEST, request_features, request_vectors
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import ABSTENTION, FittedStep
from ctxbench.search.chunking import ItemChunking, chunk_rule
from ctxbench.search.dense import dense_index
from ctxbench.search.vector_files import row_dots


@dataclass(frozen=True)
class Standard(Strategy):
    """The specification's cut: topK limits chunk matches, topN is a floor on items, includeScore always includes.

    Attributes:
        topK: only items whose best chunk is among the best `topK` chunk matches stay, >= 0.
        topN: that many items are offered even below includeScore, >= 0. A floor, not a cap.
        includeScore: every item that scores at least this much is offered, also beyond topN; any number.

    Items that score 0 or less are out. What is offered is a prefix of the ranking, of length `offered_length`.
    Empty in, empty out. Cost: linear in the candidates. Source: the specification, "Rank and Filter Results".
    """

    topK: int = 20
    topN: int = 5
    includeScore: float = 0.7
    replay: ClassVar[str] = "rank"
    chunk_limits: ClassVar[tuple[str, ...]] = ("topK",)
    swept: ClassVar[Mapping[str, tuple[float, float]]] = {"topN": (0, 50), "includeScore": (0.0, 1.0)}
    rule_words: ClassVar[Mapping[str, str]] = {
        BEYOND_CHUNKS: "its best chunk is not among the best topK={topK} chunks",
        "positive": "its score is not above 0",
        "topN": "beyond the first topN={topN} and its score is below includeScore={includeScore:g}",
    }

    def __post_init__(self) -> None:
        for name in ("topK", "topN"):
            check_range(name, getattr(self, name), 0)
        if not math.isfinite(self.includeScore):
            raise ParameterError(f"includeScore must be a finite number, got {self.includeScore}")

    @property
    def reach(self) -> int:
        """How many of the best chunk matches decide."""
        return self.topK

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The score from which on every item is offered."""
        return {"score": {"includeScore": self.includeScore}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.topN

    @classmethod
    def family(cls, written: Mapping[str, Any], reader: Any) -> Any:
        """Every includeScore, with each topK and topN."""
        return reader.standard(*(written.get(name, getattr(cls, name)) for name in ("topK", "topN", "includeScore")))

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:
        """A larger topN for an item that scores below includeScore."""
        return {"topN": rank} if score < self.includeScore and rank > self.topN else {}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude rows by the three rules, in that order."""
        ranked = candidates.ranked
        table = candidates.exclude(
            ranked & (candidates.chunk_rank >= self.topK), Rule.of(BEYOND_CHUNKS, topK=self.topK)
        )
        table = table.exclude(ranked & (candidates.score <= 0), Rule.of("positive"))
        alive = ranked & table.chosen
        high = _count(table, alive & (table.score >= self.includeScore))
        length = offered_length(_count(table, alive), high, self.topN)
        beyond = alive & (place_among(table, alive) >= length[table.request])
        return table.exclude(beyond, Rule.of("topN", topN=self.topN, includeScore=self.includeScore))


@dataclass(frozen=True)
class TopChunks(Strategy):
    """Keep the items whose best chunk is among the best chunk matches: only the first rule of `standard`.

    Attributes:
        topK: how many matches, those of all items of the search together, >= 0.

    In a domain it is a topK of its own, while the cut behind it keeps the one of all domains. Empty in, empty out.
    Cost: linear in the candidates. Source: the specification, "Rank and Filter Results" and "Per-Domain Settings".
    """

    topK: int = 20
    chunk_limits: ClassVar[tuple[str, ...]] = ("topK",)
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"topK": (0, math.inf)}

    @property
    def reach(self) -> int:
        """How many of the best chunk matches decide."""
        return self.topK

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude the items whose best chunk is beyond topK."""
        beyond = candidates.ranked & (candidates.chunk_rank >= self.topK)
        return candidates.exclude(beyond, Rule.of(BEYOND_CHUNKS, topK=self.topK))


def offered_length(n_matching: IntArray, high: IntArray, topN: int) -> IntArray:  # noqa: N803 - the specification's name
    """How many items the standard cut offers: max(high, min(topN, n_matching)).

    Args:
        n_matching: items with a chunk among the best topK and a score above 0, shape (n,).
        high: how many of them score at least includeScore, shape (n,).
        topN: the floor, >= 0.
    """
    return np.maximum(high, np.minimum(topN, n_matching))


def _count(table: Candidates, rows: BoolArray) -> IntArray:
    """How many of `rows` each request has, shape (n_requests,)."""
    return np.bincount(table.request[rows], minlength=table.n_requests).astype(np.int64)


@dataclass(frozen=True)
class First(Strategy):
    """Offer the first `n` items of the ranking, whatever they score.

    Attributes:
        n: items per request, >= 0.

    Empty in, empty out. Cost: linear in the candidates. Source: fixed-k retrieval, the usual practice.
    """

    n: int = 5
    replay: ClassVar[str] = "rank"
    swept: ClassVar[Mapping[str, tuple[float, float]]] = {"n": (0, 100)}
    rule_words: ClassVar[Mapping[str, str]] = {"first": "beyond the first n={n}"}
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"n": (0, math.inf)}

    @property
    def reach(self) -> int:
        """How many of the best items decide."""
        return self.n

    @classmethod
    def family(cls, written: Mapping[str, Any], reader: Any) -> Any | None:
        """Every n."""
        return reader.first(written.get("n", cls.n))

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:
        """A larger n."""
        return {"n": rank} if rank > self.n else {}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude the items beyond the first n."""
        alive = candidates.chosen & candidates.ranked
        return candidates.exclude(alive & (place_among(candidates, alive) >= self.n), Rule.of("first", n=self.n))


@dataclass(frozen=True)
class PerChunk(Strategy):
    """Promote the best items of each query chunk until `minimum` are offered for it.

    Attributes:
        minimum: items offered for each query chunk, >= 0, as far as it has so many.
        above: only items that score more than this are promoted; any number.
        displace: True: what is promoted displaces the last of the ranking, so that as many items are offered as
            before; False: it is offered beyond them.

    An item counts for the query chunk that gave its best score. It is promoted whichever rule had kept it out, so this
    step is behind the cut that it corrects, and in front of an abstention. To displace never leaves another
    chunk below its minimum; where there is nothing left to displace no more is promoted, the chunks with the fewest
    items first. Only what the search found counts, is promoted and displaced; items without a query chunk (those of
    lexical retrievers) are never promoted, and displaced first from the end of the ranking like any other. Empty in,
    empty out. Cost: a sort of the candidates. Source: the specification, "Query Chunking" (minimum per query chunk).
    """

    minimum: int = 1
    above: float = 0.0
    displace: bool = False
    promotes: ClassVar[bool] = True
    replay: ClassVar[str] = "all"
    rule_words: ClassVar[Mapping[str, str]] = {
        "displaced": "displaced by items that bring each query chunk to minimum={minimum}"
    }

    def __post_init__(self) -> None:
        check_range("minimum", self.minimum, 0)
        if not math.isfinite(self.above):
            raise ParameterError(f"above must be a finite number, got {self.above}")

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The score above which an item may be promoted; none if it is 0, as in the other cuts."""
        return {"score": {"above": self.above}} if self.above > 0 else {}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Promote items, and exclude the displaced ones."""
        ranked = candidates.ranked
        direct = candidates.via_item < 0  # else the chunk is one of the item that led here, not of the request
        of_chunk = ranked & direct & (candidates.query_chunk >= 0)
        offered, waiting = of_chunk & candidates.chosen, of_chunk & ~candidates.chosen & (candidates.score > self.above)
        has = _counts(candidates, offered)
        level = np.where(waiting, has + _place_in_chunk(candidates, waiting), np.iinfo(np.int64).max)
        promoted = waiting & (level < self.minimum)
        if not self.displace:
            return candidates.promoted(promoted)
        spare = ranked & candidates.chosen & (~of_chunk | (_place_in_chunk(candidates, offered) >= self.minimum))
        n = np.minimum(_count(candidates, promoted), _count(candidates, spare))
        promoted &= _rank(candidates, promoted, level) < n[candidates.request]
        last = np.arange(len(candidates), dtype=np.int64)[::-1].copy()
        displaced = spare & (_rank(candidates, spare, last) < n[candidates.request])
        return candidates.promoted(promoted).exclude(displaced, Rule.of("displaced", minimum=self.minimum))


def _counts(table: Candidates, rows: BoolArray) -> IntArray:
    """For every row, how many of `rows` its request has for its query chunk; 0 without a query chunk."""
    code, n = _codes(table)
    counts = np.bincount(code[rows], minlength=n).astype(np.int64)
    return np.where(code >= 0, counts[code], 0) if n else np.zeros(len(table), dtype=np.int64)


def _place_in_chunk(table: Candidates, rows: BoolArray) -> IntArray:
    """The 0-based place of each of `rows` among those of its request and query chunk, in the one order; else -1."""
    code, _ = _codes(table)
    at = np.flatnonzero(rows)
    return _ranks_by_group(at, code[at], at, len(table))


def _rank(table: Candidates, rows: BoolArray, key: IntArray) -> IntArray:
    """The 0-based place of each of `rows` among those of its request by rising `key`, then the one order; else -1."""
    at = np.flatnonzero(rows)
    return _ranks_by_group(at, table.request[at], key[at], len(table))


def _ranks_by_group(at: IntArray, group: IntArray, key: IntArray, n: int) -> IntArray:
    by_key = np.lexsort((at, key, group))
    at, group = at[by_key], group[by_key]
    index = np.arange(len(at), dtype=np.int64)
    out = np.full(n, -1, dtype=np.int64)
    out[at] = index - np.maximum.accumulate(np.where(firsts(group), index, 0))
    return out


def _codes(table: Candidates) -> tuple[IntArray, int]:
    """A number for every request and query chunk, -1 without a query chunk; and how many numbers there are."""
    width = int(table.query_chunk.max(initial=-1)) + 1
    code = np.where(table.query_chunk >= 0, table.request * width + table.query_chunk, -1)
    return code, width * table.n_requests


@dataclass(frozen=True)
class Margin(Strategy):
    """Offer the items that score within `margin` of the best of their request.

    Attributes:
        margin: how far below the best an item may score, >= 0; as a share of the best at most 1. 0 keeps the best
            and its ties.
        of: `difference`, of scores; or `ratio`, a share of the best score: within 0.2 of a best of 0.5 is 0.4 and
            more. Of a best score that is not above 0 there is no share; then its ties are kept.
        at_least: that many items are offered however low they score, >= 0.
        at_most: no more items than that are offered, >= at_least.

    Only what the search found and no rule has excluded yet is looked at. What is offered is a prefix of the ranking.
    Empty in, empty out; the best item is always offered, unless `at_most` is 0, so that this cut never says that
    nothing suits. Cost: linear in the candidates. Source: ours; expected values are worked by hand in the tests.
    """

    margin: float = 0.1
    of: Literal["difference", "ratio"] = "difference"
    at_least: int = 0
    at_most: int = 20
    replay: ClassVar[str] = "rank"
    swept: ClassVar[Mapping[str, tuple[float, float]]] = {"margin": (0.0, 1.0)}
    relative_rules: ClassVar[tuple[str, ...]] = ("margin", "margin_share")
    rule_words: ClassVar[Mapping[str, str]] = {
        "margin": "more than margin={margin:g} below the best",
        "margin_share": "more than margin={margin:g} of its score below the best",
        "at_most": "beyond at_most={at_most}",
    }

    def __post_init__(self) -> None:
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise ParameterError(f"margin must be a finite number, 0 or more, got {self.margin}")
        if self.of not in ("difference", "ratio"):
            raise ParameterError(f"of must be difference or ratio, got {self.of!r}")
        if self.of == "ratio" and self.margin > 1:
            raise ParameterError(f"margin must be 0 to 1 with of: ratio, a share of the best, got {self.margin}")
        _check_sizes(self.at_least, self.at_most, lowest=0)

    @property
    def reach(self) -> int:
        """How many of the best items decide."""
        return self.at_most

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The lowest score that is within the margin, relative to the best of its request."""
        return {self.of: {"margin": -self.margin if self.of == "difference" else 1 - self.margin}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.at_least

    @classmethod
    def family(cls, written: Mapping[str, Any], reader: Any) -> Any:
        """Every margin, with each at_least and at_most."""
        return reader.threshold(
            written.get("margin", cls.margin),
            at_least=written.get("at_least", cls.at_least),
            at_most=written.get("at_most", cls.at_most),
            of=written.get("of", cls.of),
        )

    @classmethod
    def family_behind(cls, before: Any, written: Mapping[str, Any], reader: Any) -> Any | None:
        """Every margin as a share of the best, behind a cut that offers a prefix of the ranking."""
        if written.get("of") != "ratio" or reader.value(written.get("at_least", cls.at_least)) != 0:
            return None
        return before.within_margin(
            reader.span(written.get("margin", cls.margin)), int(reader.value(written.get("at_most", cls.at_most)))
        )

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:
        """A larger margin, and a larger at_most."""
        values = {"at_most": rank} if rank > self.at_most else {}
        unit = best if self.of == "ratio" else 1.0
        if rank > self.at_least and unit > 0 and best - score > self.margin * unit:
            return {"margin": round(int((best - score) / unit * 1000) / 1000 + 0.001, 3), **values}
        return values

    def leaves_all(self, before: Any) -> bool:
        """Whether every score above 0 is within the margin, and the cut before offers no more than at_most."""
        return isinstance(before, Standard) and self.of == "ratio" and self.margin >= 1 and self.at_most >= before.topK

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude the items beyond the margin."""
        scores = _scores(candidates)
        present = np.isfinite(scores)
        best = np.where(present[:, :1], scores[:, :1], 0.0)
        within = (fallen(np.where(present, scores, best), best, self.of) <= self.margin).sum(axis=1, where=present)
        rule = Rule.of("margin_share" if self.of == "ratio" else "margin", margin=self.margin)
        return _cut(candidates, np.maximum(within, self.at_least), rule, at_most=self.at_most)


def fallen(scores: FloatArray, best: FloatArray, of: Literal["difference", "ratio"]) -> FloatArray:
    """How far scores have fallen below the best of their request; what has fallen by at most the margin is within it.

    Args:
        scores: any shape, finite.
        best: a shape that broadcasts to it; no score is above its best.
        of: `difference`: best - score; `ratio`: that as a share of the best. Of a best that is not above 0 there is
            no share: its ties have fallen by 0, all others infinitely far.

    Returns:
        The shape of `scores`, >= 0; along a ranking it never falls, bit for bit.
    """
    with np.errstate(over="ignore"):  # further than any number is infinitely far
        below: FloatArray = best - scores
        if of == "difference":
            return below
        share = np.where(below > 0, np.inf, 0.0)
        np.divide(below, best, out=share, where=np.broadcast_to(best > 0, share.shape))
    return share


@dataclass(frozen=True)
class Gap(Strategy):
    """Cut where the scores of neighbours in the ranking fall the most.

    Attributes:
        at_least: that many items are offered, >= 1: above the best there is no gap.
        at_most: no more items than that are offered, >= at_least.

    Of lengths from `at_least` to `at_most`, that with the largest gap between its last score and the next one; of
    equal gaps the first. Where there is no gap to choose (too few candidates, or all scores equal), as many as there
    are up to `at_most`. Only what the search found and no rule has excluded yet is looked at. What is offered is a
    prefix of the ranking. Empty in, empty out. Cost: linear in the candidates. Source: ours, after the elbow of a
    falling curve; expected values are worked by hand in the tests.
    """

    at_least: int = 1
    at_most: int = 10
    replay: ClassVar[str] = "all"
    rule_words: ClassVar[Mapping[str, str]] = {
        "gap": "below the largest gap of scores",
        "at_most": "beyond at_most={at_most}",
    }

    def __post_init__(self) -> None:
        _check_sizes(self.at_least, self.at_most, lowest=1)

    @property
    def reach(self) -> int:
        """How many of the best items decide: the last gap is to the one after `at_most`."""
        return self.at_most + 1

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:
        """A larger at_most."""
        return {"at_most": rank} if rank > self.at_most else {}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude the items below the gap."""
        scores = _scores(candidates)[:, : self.at_most + 1]
        counts = np.isfinite(scores).sum(axis=1)
        fallen = np.full((len(scores), self.at_most), -np.inf)  # column i: the gap behind i + 1 items
        valid = np.isfinite(scores[:, 1:])
        upper, lower = scores[:, :-1][valid], scores[:, 1:][valid]
        fallen[:, : valid.shape[1]][valid] = upper - lower
        fallen[:, : self.at_least - 1] = -np.inf
        length = np.where(fallen.max(axis=1) > 0, fallen.argmax(axis=1) + 1, counts)
        return _cut(candidates, length, Rule.of("gap"), at_most=self.at_most)


def _check_sizes(at_least: int, at_most: int, *, lowest: int) -> None:
    check_range("at_least", at_least, lowest)
    if at_most < at_least:
        raise ParameterError(f"at_most must not be below at_least, got at_most {at_most} and at_least {at_least}")


def _scores(table: Candidates) -> FloatArray:
    """The scores that a cut looks at, best first, shape (n_requests, most of a request or 1); -inf where none is."""
    alive = table.chosen & table.ranked
    rank = place_among(table, alive)[alive]
    out = np.full((table.n_requests, max(int(rank.max(initial=-1)) + 1, 1)), -np.inf)
    out[table.request[alive], rank] = table.score[alive]
    return out


def _cut(table: Candidates, length: IntArray, rule: Rule, *, at_most: int) -> Candidates:
    """Exclude by a rule all but the first `length` items of each request, shape (n_requests,), up to a limit."""
    alive = table.chosen & table.ranked
    rank = place_among(table, alive)
    cut = table.exclude(alive & (rank >= length[table.request]), rule)
    return cut.exclude(alive & (rank >= at_most), Rule.of("at_most", at_most=at_most))


@dataclass(frozen=True)
class Mmr(Strategy):
    """Offer `n` items picked one after the other by maximal marginal relevance: relevant, and unlike those before.

    Attributes:
        n: items per request, >= 0.
        relevance: how much an item's score counts against its likeness to what is picked already, 0 to 1; 1 offers
            the first `n` of the ranking. The paper's lambda.
        chunks, split_tools, bodies: how the retriever splits items, as its parameters of these names.

    The next item is that with the highest relevance x score - (1 - relevance) x its largest cosine with an item picked
    before; of equals the first in the ranking. Items are compared by the chunks that gave them their scores, an item
    without one by the mean of its chunks. Scores should be cosines, or lie between 0 and 1, to be weighed against
    cosines. Only what the search found and no rule has excluded yet is picked from; those picked are in the order
    of their scores all the same. A request with at most `n` candidates keeps all and embeds nothing. Empty in, empty
    out. Cost: `n` products of the candidates' vectors with one of them, in float64, so that no shape decides.
    Source: Carbonell and Goldstein, SIGIR 1998.
    """

    n: int = 5
    relevance: float = 0.7
    chunks: str | Mapping[str, Any] = "paragraphs"
    split_tools: bool = False
    bodies: bool = later(False)
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    rule_words: ClassVar[Mapping[str, str]] = {
        "mmr": "not among the n={n} picked for relevance and diversity (relevance={relevance:g})"
    }

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)
        check_range("relevance", self.relevance, 0, 1)
        self.chunking  # noqa: B018 - an unknown rule is an error now

    @cached_property
    def chunking(self) -> ItemChunking:
        """How items are split."""
        return ItemChunking(chunk_rule(self.chunks, parameter="chunks"), self.split_tools, self.bodies)

    @property
    def reach(self) -> int:
        """How many of the best items decide, at least."""
        return self.n

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude the items that are not picked."""
        alive = candidates.chosen & candidates.ranked
        counts = np.bincount(candidates.request[alive], minlength=candidates.n_requests)
        rows = np.flatnonzero(alive & (counts > self.n)[candidates.request])
        out = np.zeros(len(candidates), dtype=np.bool_)
        out[rows] = True
        if len(rows) and self.n:
            vectors = self._vectors(query, candidates, rows, resources)
            first = np.flatnonzero(np.diff(candidates.request[rows], prepend=-1)).tolist()
            for start, end in zip(first, [*first[1:], len(rows)], strict=True):
                mine = rows[start:end]
                chosen = picked(candidates.score[mine], vectors[start:end], n=self.n, relevance=self.relevance)
                out[mine[chosen]] = False
        return candidates.exclude(out, Rule.of("mmr", n=self.n, relevance=self.relevance))

    def _vectors(self, query: Query, table: Candidates, rows: IntArray, resources: Resources) -> FloatArray:
        """The unit vector of the item of each row, shape (n_rows, n_dimensions)."""
        catalog, item = query.batch.catalog, table.item[rows]
        chunk = np.where(table.via_item[rows] < 0, table.item_chunk[rows], -1)  # an expansion splits items its own way
        mask = np.zeros(len(catalog), dtype=np.bool_)
        mask[item] = True
        matrix = dense_index(catalog, resources, chunking=self.chunking).matrix(mask, resources.vectors)
        if matrix is None:
            raise SelectorError(f"mmr: none of {int(mask.sum())} items has a chunk by {self.chunks!r} to compare")
        first, end = (np.searchsorted(matrix.item, item, side=side) for side in ("left", "right"))
        if (wrong := np.flatnonzero(first + np.maximum(chunk, 0) >= end)).size:
            raise SelectorError(
                f"mmr: item {catalog.ids[int(item[wrong[0]])]} has no chunk {int(chunk[wrong[0]])} by "
                f"{self.chunks!r}; give chunks, split_tools and bodies as they are given to the retriever"
            )
        return _standing_for(matrix.vectors, first, end, chunk)


def picked(score: FloatArray, vectors: FloatArray, *, n: int, relevance: float) -> IntArray:
    """Pick `n` of some items by maximal marginal relevance.

    Args:
        score: shape (n_items,), best first.
        vectors: of length 1, shape (n_items, n_dimensions).
        n: how many, 0 to n_items.
        relevance: 0 to 1.

    Returns:
        Their places in the order in which they were picked, shape (n,).
    """
    nearest = np.zeros(len(score))
    open_ = np.ones(len(score), dtype=np.bool_)
    out = np.empty(n, dtype=np.int64)
    for turn in range(n):
        value = np.where(open_, relevance * score - (1 - relevance) * nearest, -np.inf)
        best = int(value.argmax())
        out[turn], open_[best] = best, False
        cosine = row_dots(vectors[best], vectors)
        nearest = np.maximum(nearest, cosine) if turn else cosine
    return out


def _standing_for(vectors: Float32Array, first: IntArray, end: IntArray, chunk: IntArray) -> FloatArray:
    """The vector of a chunk of each item, or where `chunk` is -1 of all, of length 1; shape (n_items, n_dimensions).

    Args:
        vectors: of all chunks, shape (n_chunks, n_dimensions).
        first, end: where the chunks of each item stand, shape (n_items,).
        chunk: shape (n_items,).
    """
    out = vectors[first + np.maximum(chunk, 0)].astype(np.float64)
    for row in np.flatnonzero(chunk < 0).tolist():
        out[row] = vectors[first[row] : end[row]].astype(np.float64).sum(axis=0)
    length = np.sqrt(row_dots(out, out))[:, None]
    return np.asarray(np.divide(out, length, out=np.zeros_like(out), where=length > 0))


@dataclass(frozen=True)
class AtLeast(Strategy):
    """Offer the items whose score, or probability behind `probability`, is at least a threshold.

    Attributes:
        threshold: smallest score that is offered; any number.
        at_least: that many of the best items are offered even below the threshold, >= 0.
        at_most: no more than that many are offered, >= `at_least`; None = no limit.

    What is offered is a prefix of the ranking. Empty in, empty out. Cost: one comparison per candidate. Source: the
    probability ranking principle (Robertson, 1977): with a calibrated probability, the threshold is the price of an
    item that is not needed relative to one that is missed.
    """

    threshold: float = 0.5
    at_least: int = 0
    at_most: int | None = None
    swept: ClassVar[Mapping[str, tuple[float, float]]] = {"threshold": (0.0, 1.0)}
    replay: ClassVar[str] = "rank"
    rule_words: ClassVar[Mapping[str, str]] = {
        "threshold": "its score is below threshold={threshold:g}",
        "first_at_most": "beyond the first at_most={at_most}",
    }

    def __post_init__(self) -> None:
        number_within("threshold", self.threshold, -math.inf)
        check_range("at_least", self.at_least, 0)
        if self.at_most is not None and self.at_most < self.at_least:
            raise ParameterError(f"at_most must be at_least or more, which is {self.at_least}, got {self.at_most}")

    @property
    def reach(self) -> int:
        """How many of the best items decide; 0 = all that exist."""
        return self.at_most or 0

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The lowest score that is offered."""
        return {"score": {"threshold": self.threshold}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.at_least

    @classmethod
    def family(cls, written: Mapping[str, Any], reader: Any) -> Any:
        """Every threshold, with each at_least and at_most."""
        return reader.threshold(
            written.get("threshold", cls.threshold),
            at_least=written.get("at_least", cls.at_least),
            at_most=written.get("at_most"),
        )

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:
        """A lower threshold, and a larger at_most."""
        values = {"at_most": rank} if self.at_most is not None and rank > self.at_most else {}
        if score < self.threshold and rank > self.at_least:
            return {"threshold": round(int(score * 1000) / 1000 - (0.001 if score < 0 else 0), 3), **values}
        return values

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude what is below the threshold, and what is beyond `at_most`."""
        alive = candidates.chosen & candidates.ranked
        rank = place_among(candidates, alive)
        low = alive & (candidates.score < self.threshold) & (rank >= self.at_least)
        table = candidates.exclude(low, Rule.of("threshold", threshold=self.threshold))
        if self.at_most is None:
            return table
        return table.exclude(alive & ~low & (rank >= self.at_most), Rule.of("first_at_most", at_most=self.at_most))


@dataclass(frozen=True)
class Matched(Strategy):
    """Exclude the items that none of some sources of a `merge` found.

    Attributes:
        by: names of sources, at least one. Empty = the step is off.

    For a source that finds items whatever the request says, such as `change`: what it alone found matches nothing.
    Behind a single retriever, and of items that the search did not find, nothing changes. Empty in, empty out. Cost:
    linear in the candidates. Source: ours.
    """

    by: tuple[str, ...] = ()
    itemwise: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {"unmatched": "matches nothing in the request (searched: {by})"}

    @property
    def off(self) -> bool:
        """Whether no source is named."""
        return not self.by

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude what only other sources found.

        Raises:
            ParameterError: no source is called so.
        """
        columns = sources_of(candidates)
        if "" in columns:
            return candidates
        if unknown := set(self.by) - set(columns):
            raise ParameterError(
                Message("pipelines.matched-unknown-source", unknown=sorted(unknown), sources=list(columns))
            )
        unmatched = candidates.ranked & np.all([np.isnan(columns[name]) for name in self.by], axis=0)
        return candidates.exclude(unmatched, Rule.of("unmatched", by=", ".join(self.by)))


@dataclass(frozen=True)
class Abstain(FittedStep):
    """Offer nothing where the probability that anything is needed, calibrated on labelled queries, is too low.

    Attributes:
        calibration: a file made by `ctxbench calibrate abstention`, with a fit for the catalog.
        threshold: probability below which nothing that was found is offered, 0 to 1; 0 never abstains.

    A logistic regression over the features of the best candidate, the largest of some over all candidates, and the
    request's mean vector. It looks at everything that the search found, whatever earlier cuts left of it, and never
    at how many items a request may get. What the session holds stays, and so does what an expansion adds behind
    this step. A request for which nothing was found is unchanged. Empty in, empty out. Cost: as `probability`,
    and the vectors of the request's chunks. Source: query performance prediction (Carmel and Yom-Tov, Estimating the
    Query Difficulty for Information Retrieval, 2010); the features are ours.
    """

    calibration: str
    threshold: float = 0.5
    calibrated: ClassVar[str] = ABSTENTION
    itemwise: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        "abstain": "that anything is needed has a probability of {probability:.2f}, below threshold={threshold:g}"
    }
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1)
        self.check_holds(self.calibrated)

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog and the embedder.

        Raises:
            ParameterError: it has none.
        """
        self.model(catalog, resources)

    def model(self, catalog: Catalog, resources: Resources) -> Logistic:
        """The regression for a catalog."""
        model = self.read_fit(self.calibrations.exact_fit(self.calibrated, catalog, resources), Logistic.read)
        if unknown := sorted(set(model.columns) - set(REQUEST)):
            raise ParameterError(f"{self.calibrations.path}: abstention knows no feature {', '.join(unknown)}")
        return model

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude all that was found for the requests that seem to need nothing."""
        requests, features = request_features(query, candidates, resources)
        if not len(requests):
            return candidates
        model = self.model(query.batch.catalog, resources)
        features = features[:, [REQUEST.index(name) for name in model.columns]]
        probability = np.ones(candidates.n_requests, dtype=np.float64)
        probability[requests] = model.probabilities(features, request_vectors(query, requests, resources))
        silent = probability < self.threshold
        rounded = np.round(probability, 2)  # a rule for every two digits, not for every request
        table = candidates
        for value in np.unique(rounded[silent]).tolist():
            rows = (silent & (rounded == value))[candidates.request]
            table = table.exclude(rows, Rule.of("abstain", probability=value, threshold=self.threshold))
        return table
