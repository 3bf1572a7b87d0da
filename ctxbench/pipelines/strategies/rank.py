"""Rank candidates by fused scores, weighted features, fitted probabilities, token counts or a language model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ctxbench.io.errors import Message, ParameterError, check_choice, check_range, number_within
from ctxbench.model.arrays import FloatArray, IntArray, firsts
from ctxbench.model.candidates import MARGIN, RECEIVED, SECONDS, SENT, Candidates, Note, Rule, reranked, sources_of
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Query, Request
from ctxbench.model.resources import CHAT, Resources
from ctxbench.model.strategies import Strategy, later
from ctxbench.pipelines.features import (
    LABELLED,
    RETRIEVED,
    TEXT,
    VERSION,
    FeatureInput,
    Logistic,
    column_values,
    families_of,
    resources_of,
    with_features,
)
from ctxbench.pipelines.fits import LINEAR, PROBABILITY, SHIPPED, WEIGHTS, FittedStep, FittedWeights, fit_differences
from ctxbench.search.resources import ChatMessage, ModelReply


@dataclass(frozen=True)
class Rrf(Strategy):
    """Reciprocal rank fusion: an item scores the sum over sources of 1 / (k + its rank there).

    Attributes:
        k: the larger, the less the first ranks count more than others, >= 0.

    Sources are those of a `merge`; behind a single retriever the order stays. Ranks are counted from 1; items that a
    source scores equal have the same rank, the best of theirs, so that no catalog order enters; a source that did
    not find an item adds nothing. Session items stay unchanged. Empty in, empty out. Cost: a sort per source.
    Source: Cormack, Clarke and Buettcher, SIGIR 2009 (k = 60).
    """

    k: int = 60
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"k": (0, math.inf)}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Score by the ranks in every source; `chunk_rank` becomes the place in the new order."""
        return reranked(candidates, np.asarray(np.add.reduce(list(self.score_parts(candidates).values()), axis=0)))

    def score_parts(self, candidates: Candidates) -> dict[str, FloatArray]:
        """1 / (k + rank) in each source."""
        parts = {}
        for name, source in sources_of(candidates).items():
            rows = np.flatnonzero((candidates.tier > 0) & ~np.isnan(source))
            parts[name] = np.zeros(len(candidates), dtype=np.float64)
            parts[name][rows] = 1.0 / (self.k + _request_ranks(candidates.request[rows], source[rows]))
        return parts


def _request_ranks(request: IntArray, score: FloatArray) -> IntArray:
    """The 1-based rank of every row among those of its request, best score first, ties all at the best of theirs.

    Args:
        request, score: shape (n,).
    """
    by_score = np.lexsort((-score, request))
    row, value = request[by_score], score[by_score]
    index = np.arange(len(row), dtype=np.int64)
    first = np.maximum.accumulate(np.where(firsts(row), index, 0))
    tied = np.maximum.accumulate(np.where(firsts(row, value), index, 0))
    ranks = np.empty(len(row), dtype=np.int64)
    ranks[by_score] = tied - first + 1
    return ranks


NORMALISE = ("min_max", "z", "theoretical")


@dataclass(frozen=True)
class Weighted(FittedWeights):
    """Weighted fusion: an item scores the weighted mean of its normalised scores in every source.

    Attributes:
        weights: by source of the `merge`, >= 0 and not all 0; all sources must be named. Without any, all
            count the same.
        normalise: `min_max`, the lowest that the source found for the request is 0 and its best 1; `z`, its mean is
            0 and its standard deviation 1; `theoretical`, the lowest that it can give is 0 and its best 1 (TM2C2).
        lowest: with `theoretical`, the lowest score that each source can give (-1 for a cosine, 0 for BM25).
        calibration: a file made by `ctxbench calibrate weights`, in place of `weights`; the fit for the catalog counts,
            which must have been made with the same `normalise` and `lowest`.

    What a source did not find counts as its lowest for the request: 0, with `z` its smallest value; so let sources
    find deep (`depth`). Where a source scores all that it found equal, those have 1 and the others 0 (with `z`, 0
    and -1). Behind a single retriever nothing changes. Items that come out equal are in catalog order. Empty in,
    empty out. Cost: linear in the rows, and a sort. Source: Bruch, Gai and Ingber, An Analysis of Fusion Functions
    for Hybrid Retrieval, TOIS 2023.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    normalise: str = NORMALISE[0]
    lowest: Mapping[str, float] = field(default_factory=dict)
    calibration: str | None = None
    fitted: ClassVar[str] = WEIGHTS

    def __post_init__(self) -> None:
        for name, low in (("weights", 0.0), ("lowest", -math.inf)):
            values = getattr(self, name)
            object.__setattr__(
                self, name, {str(key): number_within(f"{name}: {key}", values[key], low) for key in values}
            )
        if self.weights and not any(self.weights.values()):
            raise ParameterError("weights must not all be 0")
        check_choice("normalise", self.normalise, NORMALISE)
        if self.lowest and self.normalise != "theoretical":
            raise ParameterError(f"lowest is for normalise: theoretical, got it with {self.normalise}")
        self.check_source()

    @property
    def uses(self) -> tuple[str, ...]:
        """A fit belongs to one embedder; weights that are given do not."""
        return () if self.calibration is None else ("embedder",)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that must come before it, by name; none where all count the same."""
        return tuple(dict.fromkeys([*self.weights, *self.lowest]))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog, the embedder and the normalisation.

        Raises:
            ParameterError: it has none.
        """
        if self.calibration is not None:
            self._fitted(catalog, resources)

    def _fitted(self, catalog: Catalog, resources: Resources) -> dict[str, float]:
        """The weights for a catalog, from the file."""
        fit = self.calibrations.exact_fit(WEIGHTS, catalog, resources)
        fitted = {name: fit.values.get(name) for name in ("normalise", "lowest")}
        declared = {"normalise": self.normalise, "lowest": self.lowest}
        if fitted != declared:
            raise ParameterError(
                f"the {fit} were fitted with {fitted}, and this step has {declared}; they must be equal"
            )
        weights = fit.values.get("weights")
        if not isinstance(weights, Mapping) or not any(weights.values()):
            raise ParameterError(f"the fit {fit} holds no weights; fit again with {self.calibrations.command(WEIGHTS)}")
        return {str(name): number_within(f"weights: {name}", value, 0.0) for name, value in weights.items()}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Score by the weighted mean; `chunk_rank` becomes the place in the new order.

        Raises:
            ParameterError: the sources are not those that weights or lowest name.
        """
        sources = sources_of(candidates)
        if set(sources) == {""}:
            return candidates
        weights = (
            dict(self.weights) or dict.fromkeys(sources, 1.0)
            if self.calibration is None
            else self._fitted(query.batch.catalog, resources)
        )
        if set(weights) != set(sources):
            raise ParameterError(f"weights name {_list(weights)}; the sources are {_list(sources)}")
        if self.lowest and set(self.lowest) - set(sources):
            raise ParameterError(f"lowest names {_list(self.lowest)}; the sources are {_list(sources)}")
        return reranked(candidates, fused(normalised(candidates, self.normalise, lowest=self.lowest), weights))

    def score_parts(self, candidates: Candidates) -> dict[str, FloatArray]:
        """What each source adds to the mean; nothing where the weights come from a file."""
        if self.calibration is not None or "" in sources_of(candidates):
            return {}
        values = normalised(candidates, self.normalise, lowest=self.lowest)
        weights = self.weights or dict.fromkeys(values, 1.0)
        return {name: fused({name: value}, weights) for name, value in values.items()}


def fused(values: Mapping[str, FloatArray], weights: Mapping[str, float]) -> FloatArray:
    """The weighted mean of the sources' values, shape (n,); added in the order of the values, to the same bits."""
    total = math.fsum(weights.values())
    return np.asarray(np.add.reduce([weights[name] / total * value for name, value in values.items()], axis=0))


def normalised(
    candidates: Candidates, normalise: str, *, lowest: Mapping[str, float] | None = None
) -> dict[str, FloatArray]:
    """The scores of every source on one scale, by request; see `Weighted`.

    Args:
        candidates: behind a `merge`.
        normalise: one of `NORMALISE`.
        lowest: by source, where `normalise` is `theoretical`.

    Returns:
        By source, shape (n,), without NaN; 0 for rows that no search found.

    Raises:
        ParameterError: a bound is missing, or a score lies below it.
    """
    searched = candidates.tier > 0
    out = {}
    for name, scores in sources_of(candidates).items():
        mask = searched & ~np.isnan(scores)
        request, score = candidates.request[mask], scores[mask]
        low, high = _ends(request, score, candidates.n_requests)
        if normalise == "z":
            scaled, missing = _z_scores(request, score, low, high)
        else:
            bottom = low[request] if normalise == "min_max" else np.full(len(score), _bound(name, score, lowest or {}))
            spread, missing = high[request] - bottom, np.zeros(candidates.n_requests)
            scaled = np.divide(score - bottom, spread, out=np.ones(len(score)), where=spread > 0)
        values = np.where(searched, missing[candidates.request], 0.0)
        values[mask] = scaled
        out[name] = values
    return out


def _ends(request: IntArray, score: FloatArray, n_requests: int) -> tuple[FloatArray, FloatArray]:
    """The lowest and the best score of each request, shape (n_requests,); infinite where there is none."""
    low, high = np.full(n_requests, np.inf), np.full(n_requests, -np.inf)
    np.minimum.at(low, request, score)
    np.maximum.at(high, request, score)
    return low, high


def _z_scores(request: IntArray, score: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each score in standard deviations from the mean of its request, and the lowest of these by request.

    Where all of a request are equal they are 0 and their lowest is -1; with none the lowest is 0.
    """
    n_requests = len(low)
    count = np.bincount(request, minlength=n_requests)
    mean = np.bincount(request, score, n_requests) / np.maximum(count, 1)
    away = score - mean[request]
    deviation = np.sqrt(np.bincount(request, away**2, n_requests) / np.maximum(count, 1))
    spread = (high > low) & (deviation > 0)
    out = np.divide(away, deviation[request], out=np.zeros(len(score)), where=spread[request])
    missing = np.where(count > 0, -1.0, 0.0)
    return out, np.where(spread, _ends(request, out, n_requests)[0], missing)


def _bound(source: str, score: FloatArray, lowest: Mapping[str, float]) -> float:
    """The lowest score that a source can give."""
    if source not in lowest:
        raise ParameterError(
            f"normalise: theoretical needs the lowest score that {source} can give, in lowest: {{{source}: ...}}"
        )
    if len(score) and float(score.min()) < lowest[source] - MARGIN:
        raise ParameterError(f"lowest says that {source} gives at least {lowest[source]:g}, got {score.min():g}")
    return lowest[source]


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


PLAIN = {"similarity.score": 1.0}
MOST = 1e100
"""No weight is larger than this, either way, so that no sum overflows."""


@dataclass(frozen=True)
class Linear(FittedWeights):
    """Score by a weighted sum of columns: of how well a text fits, how old an item is, how sure, and others.

    Attributes:
        weights: by column, `family.name` (`ctxbench/pipelines`); any finite number, not all 0. Without any,
            `similarity.score` alone.
        calibration: a file made by `ctxbench calibrate weights`, in place of `weights`. Of several fits in it that for
            the catalog counts; the only fit of another catalog is used too, with a notice, since a catalog may grow.

    Columns that no step before has made are made here, but for those of weight 0. They are added up as they are: a
    weight says what a column's unit is worth. `chunk_rank` becomes the place in the new order, and the score of
    retrieval stays in the column `retrieved.score`. Session items stay unchanged. Empty in, empty out. Cost: that of
    the columns, a sum and a sort. Source: linear feature-based models (Metzler and Croft, Information Retrieval, 2007).
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    calibration: str | None = None
    fitted: ClassVar[str] = LINEAR
    keeps_score: ClassVar[bool] = True
    orders: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_source()
        if self.calibration is None:
            object.__setattr__(self, "weights", checked_weights(self.weights or PLAIN))

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns; a fit also belongs to an embedder."""
        if self.calibration is None:
            return resources_of([name for name, weight in self.weights.items() if weight])
        fits = [fit.values.get("weights", {}) for fit in self.calibrations.fits if fit.kind == LINEAR]
        return tuple(dict.fromkeys(["embedder", *resources_of([name for weights in fits for name in weights])]))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog, with weights.

        Raises:
            ParameterError: it is such.
        """
        self.weights_for(catalog)

    def notices(self, catalog: Catalog, resources: Resources) -> Iterator[str]:
        """Notices for the user about the fit on this catalog."""
        if self.calibration is None:
            return
        fit, embedder = self.calibrations.fit(LINEAR, catalog), resources.identity("embedder")
        yield from fit_differences(fit, self.calibrations.command(LINEAR), catalog, embedder)

    def weights_for(self, catalog: Catalog) -> dict[str, float]:
        """The weights by column: those given, or those of the file's fit for a catalog.

        Raises:
            ParameterError: there is no such fit, or it holds no weights of columns as they are defined here.
        """
        if self.calibration is None:
            return dict(self.weights)
        fit = self.calibrations.fit(LINEAR, catalog)
        try:
            return read_weights(fit.values)
        except ParameterError as error:
            command = self.calibrations.command(LINEAR)
            raise ParameterError(f"{self.calibration}: fit of {fit}: {error}; fit again with {command}") from error

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Put the sum in the place of the score."""
        weights = {name: weight for name, weight in self.weights_for(query.batch.catalog).items() if weight}
        columns = tuple(weights)
        table = with_features(candidates, columns, query, resources)
        hits = FeatureInput.of(query, table, resources)
        score, retrieved = np.full((2, len(table)), np.nan)
        retrieved[hits.rows] = hits.score
        score[hits.rows] = linear_scores(column_values(table, columns, hits), np.array(list(weights.values())))
        return reranked(table.with_columns(**{RETRIEVED: retrieved}), score)

    def score_parts(self, candidates: Candidates) -> dict[str, FloatArray]:
        """Each feature by its weight; nothing where the weights come from a file."""
        features = {name: candidates.columns.get(name) for name in self.weights if self.calibration is None}
        return {
            name: np.nan_to_num(self.weights[name] * column) for name, column in features.items() if column is not None
        }


def read_weights(values: Mapping[str, Any]) -> dict[str, float]:
    """The weights by column in the values of a fit: `features`, their version, and `weights`.

    Raises:
        ParameterError, UnknownNameError: they are none, or of features that are defined otherwise here.
    """
    if values.get("features") != VERSION:
        raise ParameterError(f"its features are of version {values.get('features')!r}, and this is {VERSION}")
    return checked_weights(values.get("weights"))


def checked_weights(weights: Any) -> dict[str, float]:
    """Weights by column, as numbers.

    Raises:
        ParameterError: there are none, all are 0, one is no finite number, or a column is made of labelled requests.
        UnknownNameError: a column is unknown; names the closest.
    """
    if not isinstance(weights, Mapping) or not weights:
        raise ParameterError("weights must name one or more columns, such as similarity.score: 1")
    numbers = {str(name): number_within(f"weights: {name}", value, -MOST, MOST) for name, value in weights.items()}
    if not any(numbers.values()):
        raise ParameterError("weights must not all be 0")
    families_of(tuple(numbers))
    if labelled := sorted(set(LABELLED) & set(numbers)):
        raise ParameterError(
            f"weights name {' and '.join(labelled)}, which describe labelled requests; only `probability` has such"
        )
    return numbers


def linear_scores(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted sum of every row, added in column order: the same bits whatever the other rows are.

    Args:
        values: shape (n, n_columns).
        weights: shape (n_columns,).

    Returns:
        Shape (n,); zeros without columns.
    """
    total = np.zeros(len(values), dtype=np.float64)
    for column, weight in zip(values.T, weights.tolist(), strict=True):
        total += column * weight
    return total


# Whoever changes it gives the step a `version` of 2 and so on: else kept answers would pass for new ones.
PROMPT = """\
You decide what an AI agent gets to see before it answers a user. You are given the user's request, the messages before
it if there are any, and a numbered list of items: tools that the agent may call, rules that it must follow, references,
skills, files and memories.

Name the items that the agent needs for this request: the tools that it will have to call, and what it must know or
follow to do it right. Leave out items that merely have to do with the same subject. If it needs none, name none.

Answer with JSON only, the item needed most first: {"needed": [3, 1]}"""

_MESSAGE = 2000  # characters of an earlier message
_JSON = re.compile(r"\{[^{}]*\}|\[[^\[\]{}]*\]")
_DIGITS = 9  # of a number that a reply writes as a text
_SHOWN = 40  # characters of a value that is not an item's number
_BLANK, _STEP = "llm_blank", "rank.llm"


@dataclass(frozen=True)
class Llm(Strategy):
    """Ask a language model which of the retrieved items are needed; offer these, in its order.

    Attributes:
        model: as the server calls it, such as `gpt-5-mini`. The server is `OPENAI_BASE_URL` (OpenAI's own by default;
            any that speaks its interface), the key `OPENAI_API_KEY`.
        instructions: instructions for the model besides `ctxbench.pipelines.strategies.rank.PROMPT`.
        history: how many earlier messages it is shown, the last ones, >= 0.
        characters: of an item's text that it is shown, >= 1.

    The model is shown what the steps before still offer, so `first: {n: 20}` before it bounds what it costs; behind
    `everything` it is the selector itself. Items that it names score from 1 down to above 0 and the others below 0, so
    the ranking is its own. A reply without a usable answer, and a request that the server rejects, leave what was
    found as it was, with a note. Replies are kept (`ctxbench.search.resources`), so that a run repeats; what they
    cost is in `model_tokens` and `model_seconds`, and the notes of a run. A blank request gets nothing, without asking;
    without candidates nothing is asked. Cost: an exchange with the server per request, four at one time. Source: the
    documents, "Supervisor Integration"; listwise as in Sun et al., Is ChatGPT Good at Search?, EMNLP 2023.
    """

    model: str
    instructions: str = ""
    history: int = 6
    characters: int = 300
    orders: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        "llm": "the language model {model} did not name it",
        _BLANK: "the request is blank, so the language model was not asked",
    }

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ParameterError("model must not be empty; name one as the server calls it, such as gpt-5-mini")
        for name, low in (("history", 0), ("characters", 1)):
            check_range(name, getattr(self, name), low)

    @property
    def uses(self) -> tuple[str, ...]:
        """The model."""
        return (f"{CHAT}:{self.model}",)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Ask the model for every request that has candidates, and exclude items that it does not name."""
        batch, items = query.batch, query.batch.catalog
        blank = np.array([not request.text.strip() for request in batch.requests], dtype=np.bool_)[candidates.request]
        offered = candidates.chosen & (candidates.tier > 0)
        table = candidates.exclude(offered & blank, Rule.of(_BLANK))
        rows = table.by_request(offered & ~blank)
        shown_rows = list(rows.values())
        replies = resources.get(self.uses[0])(
            [
                self._conversation(batch.requests[request], [items[item] for item in table.item[mine].tolist()])
                for request, mine in rows.items()
            ],
            is_usable=lambda index, text: named_in(text, len(shown_rows[index])) is not None,
        )
        score, left_out = table.score.copy(), np.zeros(len(table), dtype=np.bool_)
        none = np.full(len(table), np.nan)
        columns = {name: table.columns.get(name, none).copy() for name in (SENT, RECEIVED, SECONDS)}
        notes: list[Note] = []
        for (request, mine), reply in zip(rows.items(), replies, strict=True):
            if isinstance(reply, ModelReply):
                for column, value in zip(columns.values(), (reply.sent, reply.received, reply.seconds), strict=True):
                    column[mine] = value + np.nan_to_num(column[mine])  # a step before may have asked, too
            named, note = _read(reply, len(mine))
            if note is not None:
                notes.append(replace(note, query=batch.ids[request]))
            if named is None:
                continue
            first, all_rows = mine[named], np.arange(table.start[request], table.start[request + 1])
            unnamed = all_rows[(table.tier[all_rows] > 0) & ~np.isin(all_rows, first)]
            score[first] = 1.0 - np.arange(len(first)) / max(len(first), 1)
            new = firsts(table.tier[unnamed], table.score[unnamed])
            score[unnamed] = -(np.cumsum(new) / max(int(new.sum()), 1))  # below 0 to -1 for the last, as they stood
            left_out[np.setdiff1d(mine, first)] = True
        table = table.exclude(left_out, Rule.of("llm", model=self.model)).with_columns(**columns)
        return reranked(table, score).noted(*notes)

    def _conversation(self, request: Request, items: Sequence[Item]) -> list[ChatMessage]:
        """What the model is sent for one request."""
        earlier = request.history[len(request.history) - min(self.history, len(request.history)) :]
        parts = []
        if earlier:
            turns = [f"{message.role}: {_short(message.content, _MESSAGE)}" for message in earlier]
            parts += ["Earlier messages:", *turns, ""]
        parts += ["Request:", request.text, "", "Items:"]
        parts += [f"{number}. {self._item_line(item)}" for number, item in enumerate(items, 1)]
        system = f"{PROMPT}\n\n{self.instructions}" if self.instructions else PROMPT
        return [{"role": "system", "content": system}, {"role": "user", "content": "\n".join(parts)}]

    def _item_line(self, item: Item) -> str:
        """An item on one line: its type, where it is from, and the beginning of the text that is searched."""
        where = f"{item.server}/" if item.server else ""
        return f"{item.type} {where}{_short(item.search_text, self.characters)}"


def _read(reply: ModelReply | Exception, n: int) -> tuple[list[int] | None, Note | None]:
    """The positions that a reply names, None if the reply is unusable, and the note about it."""
    if not isinstance(reply, ModelReply):
        return None, Note(_STEP, "fell back", Message("pipelines.order-unchanged", reason=reply))
    named = named_in(reply.text, n)
    if named is None:
        reason = Message("pipelines.reply-names-no-items", reply=reply.text[:100])
        return None, Note(_STEP, "fell back", Message("pipelines.order-unchanged", reason=reason))
    positions, wrong = named
    message = Message("pipelines.unknown-items-in-reply", wrong=wrong, n=n)
    return positions, Note(_STEP, "failed", message) if wrong else None


def named_in(reply: str, n: int) -> tuple[list[int], str] | None:
    """The items that a reply names.

    Args:
        reply: JSON, `{"needed": [3, 1]}` or the list alone; or a text with such in it, of which the last counts.
        n: how many items there are; they are numbered from 1.

    Returns:
        Their places from 0, in the order named, each once, and the numbers that are not an item's, as a text; None
        where the reply holds no such list, or names wrong numbers only.
    """
    for value in _values(reply):
        numbers = value.get("needed") if isinstance(value, dict) else value
        if not isinstance(numbers, list):
            continue
        parsed = [
            int(number) if isinstance(number, str) and number.isdecimal() and len(number) <= _DIGITS else number
            for number in numbers
        ]
        right = [number for number in parsed if type(number) is int and 1 <= number <= n]
        wrong = [number for number in parsed if not (type(number) is int and 1 <= number <= n)]
        if wrong and not right:
            continue
        return [number - 1 for number in dict.fromkeys(right)], ", ".join(map(_value_text, wrong[:5]))
    return None


def _value_text(value: object) -> str:
    """A value of JSON, as a message shows it."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _values(reply: str) -> Iterator[object]:
    """What can be read as JSON in a reply: all of it, or objects and lists in it, the last first."""
    for text in (reply, *reversed(_JSON.findall(reply))):
        with suppress(ValueError, RecursionError):
            yield json.loads(text)


def _short(text: str, limit: int) -> str:
    """A text on one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}..."


@dataclass(frozen=True)
class Probability(FittedStep):
    """Score by the probability that an item is required, as a fit on labelled queries has it.

    Attributes:
        calibration: `shipped`, the fit that comes with ctxbench and needs no labels of yours; or a file made by
            `ctxbench calibrate probability`. Of several fits in it that for the catalog counts.

    A logistic regression over the columns that the fit names (`ctxbench/pipelines`); those that no step before has made
    are made here, such as what similar labelled requests needed, which a fit to your labels holds. Values beyond what
    the fit has seen count as its ends. `chunk_rank` becomes the place in the new order, and the score of retrieval
    stays in the column `retrieved.score`. A catalog or an embedder that the fit has not seen is no error: `notices`
    says so. Session items and what an expansion added stay unchanged. Empty in, empty out. Cost: a sum over some
    20 columns a candidate, and a product of the request's vector with those of the labelled ones. Source: Platt,
    Probabilistic outputs for support vector machines, 1999 (the idea); the features are ours.
    """

    calibration: str = SHIPPED
    calibrated: ClassVar[str] = PROBABILITY
    keeps_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_holds(self.calibrated)

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns of the file's fits."""
        columns = [name for fit in self.calibrations.fits for name in fit.values.get("columns", {})]
        plain_columns = [name for name in columns if not name.startswith(("best.", "most.", "least."))]
        return tuple(dict.fromkeys(["embedder", *resources_of(plain_columns)]))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog, with known columns.

        Raises:
            ParameterError: it is such.
        """
        families_of(self.model(catalog, resources).columns)

    def notices(self, catalog: Catalog, resources: Resources) -> Iterator[str]:
        """What a user should know of using the fit here."""
        fit = self.calibrations.fit(self.calibrated, catalog)
        embedder = resources.identity("embedder")
        yield from fit_differences(fit, self.calibrations.command(self.calibrated), catalog, embedder)

    def model(self, catalog: Catalog, resources: Resources) -> Logistic:
        """The regression for a catalog."""
        return self.read_fit(self.calibrations.fit(self.calibrated, catalog), Logistic.read)

    def outside(self, table: Candidates, catalog: Catalog, resources: Resources) -> float:
        """The share of the chosen items with a feature far beyond the values that the fit has seen; 0 without any.

        Only features that are columns of the table count.
        """
        model = self.model(catalog, resources)
        chosen = np.flatnonzero(table.chosen & table.ranked)
        if not len(chosen):
            return 0.0
        unknown = np.full(len(table), np.nan)
        features = np.stack([table.columns.get(name, unknown)[chosen] for name in model.columns], axis=1)
        return float(model.outside(features).mean())

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Put the probability in the place of the score."""
        model = self.model(query.batch.catalog, resources)
        table = with_features(candidates, model.columns, query, resources, labelled=model.labelled)
        hits = FeatureInput.of(query, table, resources)
        probability, retrieved = np.full((2, len(table)), np.nan)
        retrieved[hits.rows] = hits.score
        probability[hits.rows] = model.probabilities(column_values(table, model.columns, hits))
        columns = {name: table.columns[name] for name in LABELLED if name in model.columns}
        return reranked(candidates.with_columns(**columns, **{RETRIEVED: retrieved}), probability)


PROBABILITY_COLUMN = "probability.score"
"""Column: the probability that the price was made of."""

WAIVED = "price.waived"
"""Column: 1 for the item that comes first whatever it costs, since it is the most likely one by far; else 0."""

_AHEAD = 2 * MARGIN  # of the best other score, that an order by rounded scores, as a baseline has them, is the same
_LEAST = 1e-15  # probabilities nearer to 0 or 1 count as this near


@dataclass(frozen=True)
class Price(Strategy):
    """Order by log odds of being required minus log tokens: log(p / (1 - p)) - log(tokens + overhead).

    Attributes:
        overhead: tokens that any item costs beside its own, >= 1.
        sure: log odds by which an item must be more likely than all others of its request to come first whatever it
            costs, >= 0; None = no item does. The column `price.waived` is 1 for an item that comes first only by that.

    Comes behind `probability`, whose score stays in the column `probability.score`; a score outside 0 to 1 is an
    error. `chunk_rank` becomes the place in the new order. Session items stay unchanged. Empty in, empty out. Cost:
    one logarithm a candidate. Source: ours; the density order of the greedy knapsack (Dantzig, 1957) on the log scale.
    """

    overhead: int = 50
    sure: float | None = later(None)
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    includes_tokens: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"overhead": (1, math.inf), "sure": (0, math.inf)}

    def score_at(self, score: float, before: int, after: int, rivals: Sequence[tuple[float, int]] = ()) -> float:
        """The score with the logarithm of the new tokens; an item that leads by `sure` stays first.

        The score of an item that was first only by that does not say its odds. With fewer tokens, it counts as first by
        no more than before: the least that its score can be.
        """
        old = math.log(before + self.overhead)
        moved = score - (math.log(after + self.overhead) - old)
        odds = max((rival + math.log(tokens + self.overhead) for rival, tokens in rivals), default=-math.inf)
        ahead = score + old - odds
        if self.sure is None or ahead < self.sure or ahead <= 0:
            return moved
        first = max((rival for rival, _ in rivals), default=-math.inf) + _AHEAD
        return max(moved if score > first + MARGIN else score, first)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Replace the score by this value.

        Raises:
            ParameterError: a score is no probability.
        """
        searched = candidates.tier > 0
        probability = np.where(searched, candidates.score, np.nan)
        wrong = np.flatnonzero(searched & ~((probability >= 0) & (probability <= 1)))
        if len(wrong):
            raise ParameterError(
                f"price needs a probability as score, got {probability[wrong[0]]:g}; put `probability` in front of it"
            )
        table = candidates.with_columns(**{PROBABILITY_COLUMN: probability})
        cost = candidates.prices(resources.tokens(query.batch.catalog, candidates.item[searched]))
        odds, price = np.zeros((2, len(candidates)), dtype=np.float64)
        rows = np.flatnonzero(searched)
        for row in rows.tolist():  # one by one: vectorised logarithms differ in the last bit
            p = min(max(float(probability[row]), _LEAST), 1.0 - _LEAST)
            odds[row], price[row] = math.log(p) - math.log1p(-p), math.log(int(cost[row]) + self.overhead)
        score = odds - price
        if self.sure is not None:
            first = _leading(rows, table.request, odds, self.sure)
            best = np.full(table.n_requests, -np.inf)
            np.maximum.at(best, table.request[rows], score[rows])
            first = first[score[first] < best[table.request[first]]]
            waived = np.where(searched, 0.0, np.nan)
            waived[first] = 1.0
            table = table.with_columns(**{WAIVED: waived})
            score[first] = best[table.request[first]] + _AHEAD
        return reranked(table, score)


def _leading(rows: IntArray, request: IntArray, odds: FloatArray, lead: float) -> IntArray:
    """Of each request, the row whose log odds are above those of all its others, at least by `lead`, if there is one.

    Args:
        rows: which rows count, rising.
        request, odds: of all rows.
        lead: >= 0.
    """
    order = rows[np.lexsort((rows, -odds[rows], request[rows]))]
    is_first = firsts(request[order])
    second = np.append(order[1:], order[:1])
    is_alone = np.append(is_first[1:], True)[: len(order)]
    ahead = odds[order] - odds[second]
    is_leading = is_first & (is_alone | ((ahead >= lead) & (ahead > 0)))  # of equal ones none leads
    return np.asarray(order[is_leading])


@dataclass(frozen=True)
class Features(Strategy):
    """Add columns of features to what was found or added; scores and order stay.

    Attributes:
        columns: their names, `family.name`; by default those that carry over to unseen catalogs.

    A value that is there already is kept. Rows of the session have none. Empty in, empty out. Cost: some 0.4
    ms per request with 100 candidates: a product of sentences and item chunks, and a look-up per word. Source: ours
    (`ctxbench/pipelines`), after the features of learning to rank (Qin et al., LETOR, 2010).
    """

    columns: tuple[str, ...] = TEXT
    keeps_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.columns:
            raise ParameterError("columns must name one or more features, got none")
        families_of(self.columns)
        if names := sorted(set(LABELLED) & set(self.columns)):
            raise ParameterError(
                f"columns name {' and '.join(names)}, which say what labelled requests needed; only a fit "
                f"holds such requests, and the step `probability` makes these columns itself"
            )

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns."""
        return resources_of(self.columns)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add the columns."""
        return with_features(candidates, self.columns, query, resources)
