"""Near-duplicate items, and items that a search confuses."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ctxbench.datasets.queries import connected_rows, group_pairs
from ctxbench.io.errors import Message, ParameterError
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ctxbench.model.items import Catalog, Item
from ctxbench.model.resources import Embed
from ctxbench.search.chunking import CHUNK_LIMIT, query_chunks, sentences
from ctxbench.search.dense import chunks_of
from ctxbench.search.tokens import TokenCounter
from ctxbench.search.words import STOP_WORDS, name_parts, words

WORDS = Message("labelling.similar-words")
VECTORS = Message("labelling.similar-meaning")
WORDS_THRESHOLD = 0.7
VECTORS_THRESHOLD = 0.85
_BLOCK = 4_000_000  # cells of a product in memory


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """Two items whose texts are nearly the same.

    Attributes:
        first, second: catalog positions, first < second.
        similarity: 0 to 1.
    """

    first: int
    second: int
    similarity: float


def similar_by_words(
    texts: Sequence[str],
    *,
    threshold: float = WORDS_THRESHOLD,
    rows: Iterable[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[SimilarPair, ...]:
    """Find the pairs of texts with nearly the same words.

    The weight of a word is (1 + ln tf) ln(1 + n / df), with tf its count in the text, df the number of texts with the
    word and n the number of texts; similarity is the cosine of these weights. Words are those of the BM25 index.

    Args:
        texts: n texts. A text without words is similar to none.
        threshold: least similarity, above 0, at most 1.
        rows: only pairs with one of these texts; None = all.
        progress: called with (texts compared, texts to compare).

    Returns:
        Each pair once, most similar first, then by position. A pair does not depend on the order of the texts.

    Raises:
        ParameterError: the threshold is out of range.
    """
    _check(threshold)
    weights = _weights([Counter(words(text)) for text in texts])
    texts_by_word = group_pairs((word, position) for position, row in enumerate(weights) for word in row)
    postings = {
        word: (np.array(positions, dtype=np.int64), np.array([weights[position][word] for position in positions]))
        for word, positions in texts_by_word.items()
    }
    included = set(range(len(texts)) if rows is None else rows)
    pairs: list[SimilarPair] = []
    for done, row in enumerate(sorted(included)):
        if progress is not None:
            progress(done, len(included))
        score = np.zeros(len(texts), dtype=np.float64)
        for word, weight in weights[row].items():
            at, theirs = postings[word]
            score[at] += weight * theirs
        pairs += _pairs_of(row, score, threshold, included)
    return _ordered(pairs)


def similar_by_vectors(
    catalog: Catalog,
    embed: Embed,
    *,
    threshold: float = VECTORS_THRESHOLD,
) -> tuple[SimilarPair, ...]:
    """Find the pairs of items whose mean chunk vectors point nearly the same way.

    Args:
        catalog: the items, chunked as the selectors do.
        embed: makes unit vectors of texts, shape (n_texts, n_dimensions).
        threshold: least cosine, above 0, at most 1.

    Returns:
        Each pair once, most similar first, then by position.

    Raises:
        ParameterError: the threshold is out of range.
        EmbeddingError: there is no model, or a text could not be embedded.
    """
    _check(threshold)
    chunks = [chunks_of(item) for item in catalog]
    if len(chunks) < 2:
        return ()
    means = mean_vectors(
        embed([text for row in chunks for text in row], kind="item"),
        np.cumsum([0, *(len(row) for row in chunks[:-1])]),
    )
    included = set(range(len(chunks)))
    step = max(1, _BLOCK // len(chunks))
    return _ordered(
        pair
        for begin in range(0, len(chunks), step)
        for index, score in enumerate(means[begin : begin + step] @ means.T, begin)
        for pair in _pairs_of(index, score, threshold, included)
    )


def mean_vectors(vectors: Float32Array, first: IntArray) -> FloatArray:
    """The mean direction of each item's chunk vectors, shape (n_items, n_dimensions).

    Args:
        vectors: the vectors of all chunks, item by item, shape (n_chunks, n_dimensions).
        first: the first row of each item, shape (n_items,).
    """
    means: FloatArray = np.add.reduceat(vectors.astype(np.float64), first, axis=0)
    means /= np.maximum(np.sqrt((means * means).sum(axis=1, keepdims=True)), np.finfo(np.float64).tiny)
    return means


def connected_groups(pairs: Iterable[SimilarPair]) -> tuple[tuple[int, ...], ...]:
    """The groups of positions connected by pairs, directly or through others, in catalog order."""
    positions = [(pair.first, pair.second) for pair in pairs]
    groups = ({position for row in rows for position in positions[row]} for rows in connected_rows(positions))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _weights(counted: Sequence[Counter[str]]) -> list[dict[str, float]]:
    """Unit TF-IDF weights by word; words are sorted, so that sums do not depend on the order of texts."""
    frequency = Counter(word for row in counted for word in row)
    idf = {word: math.log(1 + len(counted) / count) for word, count in frequency.items()}
    out = []
    for row in counted:
        raw = {word: (1 + math.log(row[word])) * idf[word] for word in sorted(row)}
        length = math.sqrt(sum(value * value for value in raw.values()))
        out.append({word: value / length for word, value in raw.items()})
    return out


def _pairs_of(first: int, score: FloatArray, threshold: float, included: set[int]) -> list[SimilarPair]:
    """The pairs of one text, without pairs of earlier included texts."""
    close: IntArray = np.flatnonzero(score >= threshold - 1e-9)
    return [
        SimilarPair(min(first, second), max(first, second), min(1.0, float(score[second])))
        for second in close.tolist()
        if second != first and not (second in included and second < first)
    ]


def _ordered(pairs: Iterable[SimilarPair]) -> tuple[SimilarPair, ...]:
    return tuple(sorted(pairs, key=lambda pair: (-round(pair.similarity, 12), pair.first, pair.second)))


def _check(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise ParameterError(f"the threshold of similarity must be above 0 and at most 1, got {threshold}")


_TRIED_WORDS = 4


def merge_items(first: Item, second: Item) -> Item:
    """One item for two of a type: the shorter name, the texts without repetitions, and the arguments of both.

    An argument is required if both items require it.
    """
    base, added = sorted((first, second), key=lambda item: len(item.name))
    return replace(
        base,
        description=_join_texts(base.description, added.description, query_chunks, " "),
        text=_join_texts(base.text, added.text, lambda text: text.split("\n\n"), "\n\n"),
        schema=_join_schemas(base.schema, added.schema),
        links=(),
    )


def _join_texts(base: str, added: str, parts: Callable[[str], list[str]], between: str) -> str:
    base_parts = set(parts(base))
    return between.join(filter(None, [base, *(part for part in parts(added) if part not in base_parts)]))


def _join_schemas(base: Mapping[str, Any] | None, added: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if not base or not added:
        return base or added
    joined = {**added, **base, "properties": {**added.get("properties", {}), **base.get("properties", {})}}
    if "required" in joined:
        joined["required"] = [name for name in base.get("required", []) if name in added.get("required", [])]
    return joined


def new_names(item: Item, rival: Item) -> Iterator[str]:
    """New names for an item, with its server, or with a word of its description that the rival lacks."""
    if item.server and item.server != rival.server:
        yield _add_word(item.name, item.server, front=True)
    used_words = {*words(rival.search_text), *name_parts(item.name), *STOP_WORDS}
    distinct = dict.fromkeys(word for word in words(item.description) if word not in used_words and len(word) > 2)
    yield from (_add_word(item.name, word) for word in list(distinct)[:_TRIED_WORDS])


def _add_word(name: str, word: str, *, front: bool = False) -> str:
    """A name with another word, joined in the style of the name."""
    if name.isidentifier() and "_" not in name and any(c.isupper() for c in name[1:]):
        return f"{word}{name[0].upper()}{name[1:]}" if front else f"{name}{word.capitalize()}"
    joint = next((mark for mark in "_-. " if mark in name), "_")
    return f"{word}{joint}{name}" if front else f"{name}{joint}{word}"


FIRST_FEW = 5  # the least number of items of the specification
MERGED = 0.7  # least similarity of two items to try merging
_N_BEST = 10  # best items of each search, with which a changed item is compared


_EQUAL = 1e-6  # float32 similarities this close are equal
_BELOW = 0.5  # how far below the threshold the nearest pairs may be
_VERSION = re.compile(r"v?\d+|new|old|legacy|beta|alpha|deprecated")


@dataclass(frozen=True, slots=True)
class OwnWordsSearch:
    """The result of a search for one item of a pair in its own words.

    Attributes:
        item: the id of the item.
        text: the text of the search: the first sentence of its description.
        score: the similarity of the item.
        other: the similarity of the other item of the pair.
        place: the rank of the item in its type, from 1.
    """

    item: str
    text: str
    score: float
    other: float
    place: int


@dataclass(frozen=True, slots=True)
class EditEffect:
    """The effect of a change of a pair, measured by another search.

    Attributes:
        what: `merge` or `rename`.
        item: the id of the renamed or merged item.
        name: its new name.
        tokens: the change of prompt tokens of the catalog.
        first: the number of items found first in their own words.
        margin: the new `OverlapPair.margin`; None for merged items.
    """

    what: str
    item: str
    name: str
    tokens: int
    first: int
    margin: float | None


@dataclass(frozen=True, slots=True)
class OverlapPair:
    """Two items of a type with similar texts, or with a search for one that finds the other first.

    Attributes:
        items: their ids, in catalog order.
        similarity: the cosine of their mean vectors.
        asked: the searches for the items with a description.
        margin: the smaller lead of an item over the other in the search for it; negative if the other is found first.
        changes: helpful changes of the pair; empty if none was tried.
    """

    items: tuple[str, str]
    similarity: float
    asked: tuple[OwnWordsSearch, ...]
    margin: float
    changes: tuple[EditEffect, ...] = ()


@dataclass(frozen=True, slots=True)
class NamesAlike:
    """Items of one type with similar names.

    Attributes:
        why: `same name` (ignoring case and separators) or `suffix` (another last word, a version, a plural).
        items: their ids, in catalog order.
    """

    why: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How well a search distinguishes the items of a catalog.

    Attributes:
        items: numbers of searchable items (enabled, and not `manual`), by type.
        left_out: the number of other items.
        mute: ids of items without a description, which cannot be searched for.
        asked, first, among: numbers of items searched for, found first, and found among the first `FIRST_FEW`.
        tokens: prompt tokens of the items.
        pairs: worst first: by margin, then by similarity.
        tried: the number of pairs with tried changes.
        names: in catalog order.
        nearest: without pairs, up to three of the most similar: ids and similarity.
        embedder: the name of the embedder, if it is set.
        counter, threshold: the token counter; the least similarity of pairs.
    """

    items: Mapping[str, int]
    left_out: int
    mute: tuple[str, ...]
    asked: int
    first: int
    among: int
    tokens: int
    pairs: tuple[OverlapPair, ...]
    tried: int
    names: tuple[NamesAlike, ...]
    nearest: tuple[tuple[str, str, float], ...]
    embedder: str = ""
    counter: str
    threshold: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def overlap(
    catalog: Catalog,
    embed: Embed,
    counter: TokenCounter,
    *,
    threshold: float = VECTORS_THRESHOLD,
    changed: int | None = 10,
    progress: Callable[[int, int], None] | None = None,
) -> Overlap:
    """Find the items with similar texts, and those that a search confuses.

    Each item is searched for with the first sentence of its description, without its name, by dense search (cosine of
    the best chunk) among the items of its type. Requests will miss an item if another is found first.

    Args:
        catalog: the items; disabled and `manual` ones are ignored.
        embed: makes the vectors.
        counter: counts prompt tokens.
        threshold: the least cosine of mean vectors of a pair, above 0, at most 1.
        changed: the number of pairs, worst first, for which to try merging and renaming; None = all.
        progress: called with (pairs tried, pairs to try).

    Raises:
        ParameterError: the threshold is out of range.
        EmbeddingError: there is no model, or a text could not be embedded.
    """
    searchable = Catalog([item for item in catalog if item.enabled and item.include != "manual"])
    similar = _similar(searchable, embed, threshold)
    search = _Search(searchable, embed)
    pairs = search.pairs((pair.first, pair.second) for pair in similar)
    nearest = [] if pairs else _similar(searchable, embed, max(threshold - _BELOW, 0.05))[:3]
    tried = len(pairs) if changed is None else min(changed, len(pairs))
    for rank in range(tried):
        pairs[rank] = replace(pairs[rank], changes=tuple(_changes(search, counter, pairs[rank])))
        if progress is not None:
            progress(rank + 1, tried)
    return Overlap(
        items=dict(sorted(Counter(item.type for item in searchable).items())),
        left_out=len(catalog) - len(searchable),
        mute=tuple(item.id for item in searchable if not _search_text(item)),
        asked=len(search.texts),
        first=search.n_within(1),
        among=search.n_within(FIRST_FEW),
        tokens=_tokens(counter, searchable),
        pairs=tuple(pairs),
        tried=tried,
        names=tuple(similar_names(searchable)),
        nearest=tuple((searchable[pair.first].id, searchable[pair.second].id, pair.similarity) for pair in nearest),
        counter=counter.name,
        threshold=threshold,
    )


def _similar(catalog: Catalog, embed: Embed, threshold: float) -> list[SimilarPair]:
    """The similar pairs of one type, most similar first."""
    pairs = similar_by_vectors(catalog, embed, threshold=threshold)
    return [pair for pair in pairs if catalog[pair.first].type == catalog[pair.second].type]


def similar_names(catalog: Catalog) -> Iterator[NamesAlike]:
    """Items of one type with the same name, or a name with another word, a version or a plural."""
    by_name = group_pairs(
        ((item.type, tuple(name_parts(item.name)) or (item.name,)), position) for position, item in enumerate(catalog)
    )
    yield from (
        NamesAlike("same name", tuple(catalog[position].id for position in items))
        for items in by_name.values()
        if len(items) > 1
    )
    for (type_, name), positions in by_name.items():
        for base in _bases(name):
            if (type_, base) in by_name:
                members = sorted([*by_name[type_, base], *positions])
                yield NamesAlike("suffix", tuple(catalog[position].id for position in members))


def _bases(name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The names without the last word, version or plural of a name."""
    *head, last = name
    if last.endswith("s") and len(last) > 2:
        yield (*head, last[:-1])
    if len(head) > 1 or (head and _VERSION.fullmatch(last)):
        yield tuple(head)
    if len(head) > 1 and last.isdigit() and head[-1] == "v":  # `search_v2` is three parts
        yield tuple(head[:-1])


class _Search:
    """Searches a catalog for each item in its own words, and again with changed items."""

    def __init__(self, catalog: Catalog, embed: Embed) -> None:
        self.catalog, self._embed = catalog, embed
        self.position = {id_: position for position, id_ in enumerate(catalog.ids)}
        self.texts = {position: text for position, item in enumerate(catalog) if (text := _search_text(item))}
        self._positions: IntArray = np.array(list(self.texts), dtype=np.int64)
        self._rows = {position: row for row, position in enumerate(self.texts)}
        types = sorted({item.type for item in catalog})
        self._type: IntArray = np.array([types.index(item.type) for item in catalog], dtype=np.int64)
        if not self.texts:
            return
        chunks = [chunks_of(item) for item in catalog]
        self._vectors = embed([text for row in chunks for text in row], kind="item")
        self._first: IntArray = np.cumsum([0, *(len(row) for row in chunks)])
        self._means = mean_vectors(self._vectors, self._first[:-1])
        self._query_vectors = embed(list(self.texts.values()), kind="query")
        self._search(min(_N_BEST, len(catalog)))

    def _search(self, n_best: int) -> None:
        self._score: FloatArray = np.zeros(len(self._positions), dtype=np.float64)
        self._n_better: IntArray = np.zeros(len(self._positions), dtype=np.int64)
        self._best: IntArray = np.zeros((len(self._positions), n_best), dtype=np.int64)
        self._best_score: FloatArray = np.zeros((len(self._positions), n_best), dtype=np.float64)
        step = max(1, _BLOCK // len(self._vectors))
        for begin in range(0, len(self._positions), step):
            rows = slice(begin, begin + step)
            positions = self._positions[rows]
            score = np.maximum.reduceat(self._query_vectors[rows] @ self._vectors.T, self._first[:-1], axis=1)
            score[self._type[positions][:, None] != self._type] = -2.0
            own_scores = np.take_along_axis(score, positions[:, None], axis=1)
            self._score[rows] = own_scores[:, 0]
            self._n_better[rows] = (score > own_scores + _EQUAL).sum(axis=1)
            best = np.argsort(-score, axis=1, kind="stable")[:, :n_best]
            self._best[rows], self._best_score[rows] = best, np.take_along_axis(score, best, axis=1)

    def n_within(self, n: int) -> int:
        """The number of items found among the first `n`."""
        return int((self._n_better < n).sum()) if self.texts else 0

    def pairs(self, alike: Iterator[tuple[int, int]]) -> list[OverlapPair]:
        """The similar pairs, and pairs with a search that finds the other item, worst first."""
        pairs = dict.fromkeys(alike)
        for row in np.flatnonzero(self._n_better).tolist() if self.texts else ():
            position, rival = int(self._positions[row]), int(self._best[row, 0])
            pairs[min(position, rival), max(position, rival)] = None
        measured = [self._pair(*positions) for positions in sorted(pairs)]
        return sorted(measured, key=lambda pair: (round(pair.margin, 6), -round(pair.similarity, 6)))

    def _pair(self, first: int, second: int) -> OverlapPair:
        searches = [
            OwnWordsSearch(
                self.catalog[position].id,
                self.texts[position],
                float(self._score[row]),
                self._similar(row, rival),
                rank,
            )
            for position, rival in ((first, second), (second, first))
            if (row := self._rows.get(position)) is not None
            for rank in [int(self._n_better[row]) + 1]
        ]
        return OverlapPair(
            items=(self.catalog[first].id, self.catalog[second].id),
            similarity=min(1.0, float(self._means[first] @ self._means[second])),
            asked=tuple(searches),
            margin=min((search.score - search.other for search in searches), default=0.0),
        )

    def _similar(self, row: int, position: int) -> float:
        vectors = self._vectors[self._first[position] : self._first[position + 1]]
        return float((vectors @ self._query_vectors[row]).max())

    def search_again(self, items: Mapping[int, Item]) -> tuple[int, float | None]:
        """Search with changed items; returns the number of items found first, and the margin of the changed ones.

        Args:
            items: the changed items by position; a merged item is the same object at both positions.
        """
        scores, best_scores = self._score.copy(), self._best_score.copy()
        best_scores[np.isin(self._best, list(items)) | (self._best == self._positions[:, None])] = -2.0
        rival_scores = best_scores.max(axis=1)
        margins = []
        for position, item in items.items():
            score = (self._query_vectors @ self._embed(chunks_of(item), kind="item").T).max(axis=1).astype(np.float64)
            is_own: BoolArray = np.isin(self._positions, [at for at, candidate in items.items() if candidate is item])
            scores[is_own] = score[is_own]
            is_rival = ~is_own & (self._type[self._positions] == self._type[position])
            rival_scores[is_rival] = np.maximum(rival_scores, score)[is_rival]
            margins += [(self._rows[at], score) for at in items if at in self._rows and items[at] is not item]
        margin = min((float(scores[row] - score[row]) for row, score in margins), default=None)
        return int((scores >= rival_scores - _EQUAL).sum()), margin


def _changes(search: _Search, counter: TokenCounter, pair: OverlapPair) -> Iterator[EditEffect]:
    """The effects of merging two items, and of the best new name of one, if they help."""
    first_position, second_position = (search.position[id_] for id_ in pair.items)
    first, second = search.catalog[first_position], search.catalog[second_position]
    before = _tokens(counter, [first, second])
    if pair.similarity >= MERGED:
        merged = merge_items(first, second)
        effect = search.search_again({first_position: merged, second_position: merged})
        yield EditEffect("merge", merged.id, merged.name, _tokens(counter, [merged]) - before, *effect)
    renames = []
    for position, item, rival in ((first_position, first, second), (second_position, second, first)):
        for name in new_names(item, rival):
            renamed = replace(item, name=name)
            tokens = _tokens(counter, [renamed, rival]) - before
            effect = search.search_again({first_position: first, second_position: second, position: renamed})
            renames.append(EditEffect("rename", item.id, name, tokens, *effect))
    best = max(renames, key=lambda change: (change.first, change.margin or 0.0), default=None)
    if best is not None and best.first > search.n_within(1):
        yield best


def _search_text(item: Item) -> str:
    """The text of the search for an item: the first sentence of its description, or of its text."""
    for text in (item.description, item.text):
        for start, end in sentences(text, 0, len(text)):
            piece = text[start:end].rstrip(".!?") if text[end:].strip() else text[start:end]
            if piece.strip():
                return piece.strip()[:CHUNK_LIMIT]
    return ""


def _tokens(counter: TokenCounter, items: Sequence[Item]) -> int:
    return int(counter.count([item.id for item in items], [item.prompt_text for item in items]).sum())
