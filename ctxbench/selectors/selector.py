"""The selector protocol, parameters of selectors, selectors that run a pipeline, and external runs as steps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Protocol, TypeAlias, cast

import numpy as np
from pydantic import Field

from ctxbench.io.documents import YamlPath
from ctxbench.io.errors import Message, ParameterError, SelectorError, none_found, suggest
from ctxbench.io.files import read_bytes
from ctxbench.io.rows import read_run
from ctxbench.model.arrays import FloatArray, IntArray, falling
from ctxbench.model.candidates import AS_MANY_AS, Candidates, Origin, Rule, place_among, uncut
from ctxbench.model.formats import FileModel, NullAs, parsed
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.registry import check_type
from ctxbench.model.requests import Batch, Query
from ctxbench.model.resources import CHAT, FORMAT, OLLAMA, Resources, kind_of
from ctxbench.model.selection import concatenated, session_rows
from ctxbench.model.strategies import Strategy
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.chunking import js_trim

EXTERNAL_KINDS = ("answers", "callable", "command", "url")  # keys that name a selector outside ctxbench


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """What a selector offered for a batch.

    Attributes:
        query: the analysed batch; of an external selector, one whole-text chunk per request, none if it is blank.
        candidates: rows by request, in the order of the batch; a request in `errors` has session rows only.
        ranked: the rows found by search, chosen or not, are a ranking of the selector's; without one there are
            no ranking metrics.
        scored: every score is the selector's own; False where of some request only the order was given (then its
            scores are -1, -2, ... in that order).
        errors: what went wrong, by row of the batch.
        seconds: time that each request took, shape (n_requests,); NaN where it is not known by request.
    """

    query: Query
    candidates: Candidates
    ranked: bool
    scored: bool
    errors: Mapping[int, str] = field(default_factory=dict)
    seconds: FloatArray | None = None


class Selector(Protocol):
    """Anything that, for requests, chooses items."""

    @property
    def name(self) -> str:
        """The name of the selector in tables."""

    def describe(self) -> dict[str, Any]:
        """Everything that decides its answers, as JSON: steps and parameters, or command, URL and build id.

        Two selectors with equal descriptions answer alike; a run is resumed only where the description is equal.
        Never holds a secret.
        """

    def select(self, batch: Batch) -> Answers:
        """Answer every request of the batch, each as if it stood alone."""


Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a selector, by the name that users know: a number, a switch, or a choice of names.

    Attributes:
        name: for example `contextTopK`.
        default: a number, true or false, or one of `choices`; None for a number that another parameter's choices set.
        low, high: the allowed range of a number, ends included; ints where it must be whole.
        choices: the names that a choice may take, each with the values that it sets of other parameters.
        needs: by name of another parameter, the values with which this one has an effect; of several all must hold.
        tuned: whether tuning tries other values where a policy lists none.
        help: one line.
    """

    name: str
    default: Value | None
    low: float = 0
    high: float = 0
    choices: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    needs: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    tuned: bool = True
    help: str = ""

    @property
    def ends(self) -> tuple[Value, Value]:
        """The first and the last value that it may take."""
        if self.choices:
            names = tuple(self.choices)
            return names[0], names[-1]
        return (False, True) if isinstance(self.default, bool) else (self.low, self.high)

    @property
    def sets(self) -> tuple[str, ...]:
        """The parameters that its choices set; all choices set the same."""
        return tuple(next(iter(self.choices.values()), {}))

    def checked(self, value: object) -> Value:
        """Return `value` if it is allowed, as a float where that is meant.

        Raises:
            ParameterError: it is of the wrong type, out of range, or none of the choices.
        """
        if self.choices:
            if not isinstance(value, str) or value not in self.choices:
                raise ParameterError(f"{self.name} must be one of {', '.join(self.choices)}, got {value!r}")
            return value
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise ParameterError(f"{self.name} must be true or false, got {value!r}")
            return value
        kind = type(self.low + self.high if self.default is None else self.default)
        check_type(self.name, value, kind)
        number: float = cast("float", value)
        if not self.low <= number <= self.high:
            raise ParameterError(f"{self.name} must be {self.low:g} to {self.high:g}, got {value}")
        return kind(number)


def value_text(value: Value) -> str:
    """A value as YAML and the command line take it; a number short where that is exact."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _read_choices(choices: Any) -> Any:
    """A list of names as a mapping to what each sets, which is nothing."""
    return {name: {} for name in choices} if isinstance(choices, list) else choices


def _read_needs(needs: Any) -> Any:
    """A name as a mapping to true, and each value as a list."""
    mapping = {needs: True} if isinstance(needs, str) else needs
    if not isinstance(mapping, Mapping):
        return mapping
    return {name: tuple(values) if isinstance(values, list) else (values,) for name, values in mapping.items()}


_Number: TypeAlias = int | float
_Values: TypeAlias = Annotated[tuple[Value, ...], Field(min_length=1)]


class ParameterBlock(FileModel):
    """A parameter of a selector definition: a number with a range, true or false, or one of several choices."""

    noun = "a parameter"
    default: Value | None = Field(None, description="The value where none is given.")
    range: Annotated[tuple[_Number, ...], Field(strict=False, min_length=2, max_length=2)] | None = Field(
        None, description="The lowest and the highest value of a number; whole numbers if it must be whole."
    )
    choices: Annotated[dict[str, dict[str, Value]], parsed(_read_choices, list[str] | dict[str, dict[str, Value]])] = (
        Field({}, description="Names, or names with the values that each sets of other parameters.")
    )
    needs: Annotated[dict[str, _Values], parsed(_read_needs, str | dict[str, Value | list[Value]])] = Field(
        {}, min_length=1, description="The parameters, with their values, without which this one has no effect."
    )
    tuned: bool = Field(True, description="Whether tuning tries other values where a policy lists none.")
    help: Annotated[str, NullAs("")] = Field("", description="What the parameter does, in one line.")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:
        """Check that it is of one of the three kinds, and that the default suits it."""
        is_number = not isinstance(self.default, bool | str)
        if self.choices:
            right = self.default is not None and self.range is None
        else:
            right = (self.range is not None) if is_number else isinstance(self.default, bool) and self.range is None
        if not right or (self.range and bool in map(type, self.range)):
            yield (), Message("selectors.parameter-malformed", name=context)
        elif self.default is not None:
            try:
                self.parameter(context).checked(self.default)
            except ParameterError as error:
                yield (), f"default: {error}"

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name."""
        low, high = self.range or (0, 0)
        return Parameter(
            name=name,
            default=self.default,
            low=low,
            high=high,
            choices=self.choices,
            needs=self.needs,
            tuned=self.tuned,
            help=self.help,
        )


def any_of(values: Sequence[Value]) -> str:
    """The text of a value; of several `one of 1, 2`."""
    listed = ", ".join(map(value_text, values))
    return f"one of {listed}" if len(values) > 1 else listed


def set_values(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Parameters without a fault, the values that their choices set being of the type of what they set."""

    def typed(values: Mapping[str, Value]) -> dict[str, Value]:
        return {name: parameters[name].checked(value) for name, value in values.items()}

    return {
        name: replace(parameter, choices={choice: typed(values) for choice, values in parameter.choices.items()})
        for name, parameter in parameters.items()
    }


def need_faults(parameter: Parameter, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """The faults of what a parameter needs."""
    for name, values in parameter.needs.items():
        if name not in parameters or name == parameter.name:
            hint = suggest(name, parameters)
            yield Message("selectors.need-unknown", parameter=parameter.name, name=name, hint=hint)
            continue
        for value in values:
            try:
                parameters[name].checked(value)
            except ParameterError as error:
                yield Message("selectors.need-malformed", parameter=parameter.name, name=name, error=error)


def choice_faults(parameter: Parameter, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """The faults of the values that a parameter's choices set, and a number that no choice sets."""
    setters = [setter.name for setter in parameters.values() if parameter.name in setter.sets]
    if parameter.default is None and len(setters) != 1:
        names = setters or ["none"]
        yield Message("selectors.parameter-without-default", parameter=parameter.name, setters=names)
    for choice, values in parameter.choices.items():
        if set(values) != set(parameter.sets):
            names = list(values) or ["none"]
            yield Message("selectors.choices-differ", parameter=parameter.name, choice=choice, names=names)
        for name, value in values.items():
            if name not in parameters or parameters[name].default is not None:
                yield Message("selectors.choice-unknown", choice=choice, name=name)
                continue
            try:
                parameters[name].checked(value)
            except ParameterError as error:
                yield f"choice {choice}: {error}"


ORACLE = "oracle"

Required: TypeAlias = Mapping[str, Sequence[Sequence[ItemKey]]]
"""By query id, groups of required items: of each group one is needed."""


def check_fits(pipeline: Pipeline, catalog: Catalog) -> None:
    """Check that the fitted steps of a pipeline suit it and a catalog; without any, nothing is imported for it.

    Raises:
        ParameterError: a step was fitted for another catalog, or behind other steps.
    """
    if pipeline.fitted:
        from ctxbench.pipelines.fits import require_matching_fits

        require_matching_fits(pipeline, catalog)


@dataclass(frozen=True, eq=False)
class PipelineSelector:
    """A pipeline as a selector.

    Attributes:
        name: the name in tables.
        pipeline: its steps.
        resources: what they use.
        memo: outputs of steps shared with other pipelines, or None; see `Pipeline.run`. Whoever passes one empties it.
    """

    name: str
    pipeline: Pipeline
    resources: Resources
    memo: MutableMapping[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """Every step with its parameters, and the identities of the resources that they use, where these have one."""
        identities = {use: identity for use in self._uses if (identity := self.resources.identity(use))}
        return {"pipeline": self.pipeline.describe(), "identities": identities}

    @property
    def _uses(self) -> list[str]:
        """The resources of all steps, but for the format, which the pipeline describes itself."""
        return sorted({*self.pipeline.uses} - {FORMAT})

    def take_notes(self) -> dict[str, Any]:
        """Use of language models by steps since the last call: how often, and how many tokens."""
        all_notes = [self.resources.get(use).take_notes() for use in self._uses if kind_of(use) in (CHAT, OLLAMA)]
        return {name: sum(entry.get(name, 0) for entry in all_notes) for notes in all_notes for name in notes}

    @property
    def depths(self) -> tuple[int, ...]:
        """How many items each retriever ranks, of those that say so."""
        return self.pipeline.retrieve.depths

    def select(self, batch: Batch) -> Answers:
        """Run the pipeline.

        Raises:
            ParameterError: a step was fitted for another catalog, or behind other steps.
        """
        check_fits(self.pipeline, batch.catalog)
        outcome = self.pipeline.run(batch, self.resources, memo=self.memo)
        return Answers(
            query=outcome.query, candidates=outcome.candidates, ranked=self.pipeline.ranks, scored=self.pipeline.ranks
        )


@dataclass(frozen=True, eq=False)
class SizeMatched:
    """Another selector's ranking, cut for each request to as many items as a second selector offers there.

    With a random ranking this is the comparator "random at equal size".

    Attributes:
        name: the name in tables.
        ranking: whose ranking is cut.
        like: whose sizes are taken.
    """

    name: str
    ranking: Selector
    like: Selector

    def describe(self) -> dict[str, Any]:
        """The descriptions of both selectors."""
        return {"ranking": self.ranking.describe(), "as many as": self.like.describe()}

    def select(self, batch: Batch) -> Answers:
        """Cut the ranking to the sizes of `like`; a request that `like` fails on fails here too."""
        like = self.like.select(batch)
        return self.sized(batch, offered_sizes(like.candidates), like.errors)

    def sized(self, batch: Batch, sizes: IntArray, errors: Mapping[int, str]) -> Answers:
        """Cut the ranking to given sizes.

        Args:
            batch: the requests.
            sizes: how many items `like` offers each, shape (n_requests,).
            errors: what went wrong there, by row of the batch.

        Raises:
            SelectorError: `like` offers more items than are ranked here, so that the sizes would differ.
        """
        answers = self.ranking.select(batch)
        table = uncut(answers.candidates)
        searched = table.origin != Origin.SESSION
        ranked = np.bincount(table.request[searched], minlength=table.n_requests)
        depth = min(getattr(self.ranking, "depths", ()), default=0)
        short = np.flatnonzero((sizes > ranked) & (ranked >= depth) & (depth > 0))
        if len(short):
            row = int(short[0])
            raise SelectorError(
                f"{self.name} cannot offer as many items as {self.like.name}: that offers {sizes[row]} for "
                f"query {batch.ids[row]!r}, and only the best {depth} are ranked; set depth higher, or leave "
                f"`like` out"
            )
        beyond = searched & (place_among(table, searched) >= sizes[table.request])
        table = table.exclude(beyond, Rule.of(AS_MANY_AS, selector=self.like.name))
        errors = {**errors, **answers.errors}
        answered = ~np.isin(table.request, list(errors))
        return replace(answers, candidates=table.select_rows(answered | ~searched), errors=errors)


def offered_sizes(table: Candidates) -> IntArray:
    """How many items each request was offered beyond its session, shape (n_requests,)."""
    rows = table.chosen & (table.origin != Origin.SESSION)
    return np.bincount(table.request[rows], minlength=table.n_requests).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Oracle:
    """The required items of each request: the lower bound of tokens, and the upper bound of completeness.

    Of a group of alternatives it offers the cheapest by prompt tokens, of equals the first in the catalog; none where
    the session holds one of them. What a request may not get is not offered, so that it can be incomplete.

    Attributes:
        name: the name in tables.
        resources: count prompt tokens.
        required: what is required, by query id; None until an experiment gives it.
    """

    name: str
    resources: Resources
    required: Required | None = None

    def describe(self) -> dict[str, Any]:
        """That it is the oracle, and what counts its tokens. The labels are those of the dataset that is run."""
        return {"oracle": Message("selectors.oracle"), "identities": {"tokens": self.resources.identity("tokens")}}

    def select(self, batch: Batch) -> Answers:
        """Offer what is required of every request, each with score 1; a request that needs nothing gets nothing.

        Raises:
            ParameterError: it has no labels, or none of a request.
        """
        if self.required is None:
            raise ParameterError(Message("selectors.oracle-without-labels"))
        tokens = self.resources.tokens(batch.catalog)
        request: list[int] = []
        item: list[int] = []
        for row, query in enumerate(batch.requests):
            if query.id not in self.required:
                raise ParameterError(
                    f"the oracle has no labels of query {query.id!r}; ask it for queries of its dataset"
                )
            in_session = set(batch.session_item[batch.session_start[row] : batch.session_start[row + 1]].tolist())
            for group in self.required[query.id]:
                positions = {position for key in group if (position := batch.catalog.find(key)) is not None}
                offered = [position for position in positions if batch.eligible[row, position]]
                if offered and not positions & in_session:
                    request.append(row)
                    item.append(min(offered, key=lambda position: (tokens[position], position)))
        rows, items = np.array(request, dtype=np.int64), np.array(item, dtype=np.int64)
        required = Candidates.build(len(batch), rows, items, score=np.ones(len(items)))
        return Answers(
            query=Query.of_chunks(batch, [[query.text] if js_trim(query.text) else [] for query in batch.requests]),
            candidates=concatenated([session_rows(batch), required]),
            ranked=True,
            scored=True,
        )


_GIVEN = "sha256:"  # how `file` begins where a run was given in Python
_rankings: dict[str, Mapping[str, Sequence[tuple[str, float]]]] = {}  # given in Python


@dataclass(frozen=True)
class ExternalRun(Strategy):
    """The ranking that another program made: a run in TREC's format, or one given in Python (`ctxbench.answers`).

    Attributes:
        file: the run, a line `query Q0 document rank score tag` for each item; a document is the id of an item, or a
            name that no other item has. Of a run given in Python it is the run's hash.

    Items rank by score, of equal scores the greater document id first, as trec_eval has it. What the request may not
    get is left out. A query that the run does not have has no candidates. Cost: linear in the ranked items. Source:
    the format of trec_eval.
    """

    file: str

    @classmethod
    def of(cls, rankings: Mapping[str, Sequence[tuple[str, float]]]) -> ExternalRun:
        """A run from (document, score) by query, best first."""
        digest = hashlib.sha256(repr(sorted(rankings.items())).encode("utf-8", "surrogatepass")).hexdigest()
        _rankings[f"{_GIVEN}{digest}"] = rankings
        return cls(f"{_GIVEN}{digest}")

    @cached_property
    def rankings(self) -> Mapping[str, Sequence[tuple[str, float]]]:
        """(document, score) by query, best first."""
        return _rankings[self.file] if self.file in _rankings else read_run(self.file)

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file, "rankings": self.rankings, "content": self.content}  # another machine lacks the file

    @property
    def documents(self) -> list[str]:
        """Every ranked document once, in the order of the run."""
        return list(dict.fromkeys(document for ranking in self.rankings.values() for document, _ in ranking))

    @cached_property
    def content(self) -> str | None:
        """SHA-256 of the file; None for a run given in Python."""
        return None if self.file.startswith(_GIVEN) else hashlib.sha256(read_bytes(self.file)).hexdigest()

    def check(self, catalog: Catalog, resources: Resources) -> None:  # noqa: ARG002
        """Check that a ranked document is in the catalog.

        Raises:
            StorageError, InputError: the file cannot be read, or is no run.
            ParameterError: none is.
        """
        if not any(document in catalog.named for document in self.documents):
            raise ParameterError(none_found(self.documents, "ranked documents", "the catalog", catalog.ids))

    def check_queries(self, queries: Sequence[str], dataset: str) -> None:
        """Check that the run has one of the queries that a dataset is asked.

        Raises:
            ParameterError: it has none.
        """
        if not any(query in self.rankings for query in queries):
            raise ParameterError(none_found([*self.rankings], "queries", f"dataset {dataset}", queries))

    def __call__(self, query: Query, resources: Resources) -> Candidates:  # noqa: ARG002
        """Take the ranking of every request.

        Raises:
            SelectorError: a ranked document is no item.
        """
        batch, positions = query.batch, query.batch.catalog.named
        requests, items, scores = [], [], [np.empty(0)]
        for row, request in enumerate(batch.requests):
            ranking: dict[int, float] = {}
            for document, score in self.rankings.get(request.id, ()):
                if document not in positions:
                    values = {"document": document, "query": request.id, "hint": suggest(document, positions)}
                    raise SelectorError(Message("pipelines.run-item-unknown", **values))
                ranking.setdefault(positions[document], score)  # the id and the name may both be ranked
            requests += [row] * len(ranking)
            items += list(ranking)
            scores.append(falling(np.array(list(ranking.values()), dtype=np.float64)))
        request_rows, item = np.array(requests, dtype=np.int64), np.array(items, dtype=np.int64)
        rows = batch.eligible.cells(request_rows, item)
        return Candidates.build(len(batch), request_rows[rows], item[rows], score=np.concatenate(scores)[rows])
