"""What pipelines are made of: the signatures of strategies, steps, and three combinators of steps.

A list of analyses puts their chunks together; `merge` joins what several retrievers found, by item;
`by_domain` refines the items of each type on their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from ctxbench.core import registry
from ctxbench.core.arrays import Float32Array, IntArray
from ctxbench.core.candidate_tables import concatenated, joined
from ctxbench.core.candidates import Candidates, Origin
from ctxbench.core.errors import ParameterError, SelectorError
from ctxbench.core.items import Catalog
from ctxbench.core.query import Query, together
from ctxbench.core.requests import Batch
from ctxbench.core.side_by_side import side_by_side
from ctxbench.core.strategy import Strategy

T = TypeVar("T")
EMBEDDER = "embedder"  # the resource that makes vectors of texts
CHAT = "chat"  # the resource that asks a language model, always with the model's name: `chat:MODEL`
OLLAMA = "ollama"  # the same of a server that speaks Ollama's interface
FORMAT = "format"  # the resource that a step names in `uses` if it wants to know what the pipeline's format renders


def kind_of(resource: str) -> str:
    """The name of a resource without the model that is named behind it, as in `embedder:MODEL`."""
    return resource.partition(":")[0]


class Resources(Protocol):
    """What steps may use, by name: lazy, cached, each with an identity. Filling a cache is a step's only side effect.

    `embedder` and `tokens` are always there; a plugin brings others (`Resource`). A step that uses one names it in
    `uses`, so that what it gave is not taken for what another one would give.
    """

    def get(self, name: str) -> Any:
        """The value of a resource, made at the first call.

        `embedder` is a function from texts to their vectors, `embedder:MODEL` that of another model, `tokens` one from
        a catalog to prompt tokens, with a method `texts` for any others (see below), and `chat:MODEL` one from
        conversations to replies (`ctxbench.net.chat`).

        Raises:
            UnknownNameError: no resource is called so; names the known ones.
        """
        ...

    def identity(self, name: str) -> str:
        """What a resource is: another text for one that gives something else. Its value is not made.

        That of `embedder` is model, revision, backend and quantisation; that of `tokens` the name of the counter.

        Raises:
            UnknownNameError: no resource is called so; names the known ones.
        """
        ...

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under `key`, making it at the first call."""
        ...

    def vectors(self, texts: Sequence[str]) -> Float32Array:
        """Unit vectors of `texts` by the resource `embedder`, shape (n_texts, n_dimensions)."""
        return cast("Float32Array", self.get(EMBEDDER)(texts))

    def tokens(self, catalog: Catalog, items: IntArray | None = None) -> IntArray:
        """Prompt tokens of items by the resource `tokens`, shape (n_items,).

        Args:
            catalog: the items.
            items: positions of those that are needed, the others are not counted and mean nothing; None = all.
        """
        count = self.get("tokens")
        return cast("IntArray", count(catalog) if items is None else count(catalog, items))

    def text_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of texts by the resource `tokens`, shape (n_texts,): of parts of items, or of a whole prompt.

        Raises:
            ParameterError: the counter is a file of counts, which knows whole items only.
        """
        return cast("IntArray", self.get("tokens").texts(texts))


class Resource(Protocol):
    """One resource. A plugin registers a class of this form under the name that steps ask for, as kind `resource`.

    It is made with the resources, before anything needs its value, and may ask them for others when it is asked itself;
    then its identity must tell theirs apart, too. One that steps name with a model, as in `chat:MODEL`, is made with
    the model's name behind the resources.
    """

    def __init__(self, resources: Resources, model: str = "") -> None: ...

    @property
    def identity(self) -> str:
        """Short text that differs where the value may; known without making it. Manifests and keys of steps hold it."""
        ...

    @property
    def value(self) -> Any:
        """What steps get; asked for once."""
        ...


_PLAIN, _SILENT = Strategy(), object()


@dataclass(frozen=True)
class Step:
    """A built strategy; carries the name and all the parameters that it was made with."""

    kind: str
    name: str
    call: Callable[..., Any]

    def describe(self) -> dict[str, Any]:
        """Name, version and its parameters: what manifests, cache keys and labels are made from.

        A step that reads a file says in `content` what stood in it: the path alone would hide an edit. One that is not
        of ctxbench, or that uses a chunking rule which is not, says so in `code`.
        """
        row = {
            "step": f"{self.kind}:{self.name}",
            "version": self.declared("version"),
            **registry.serialised_parameters(self.call),
        }
        also = {
            "code": registry.foreign_code(type(self.call)) or self.declared("code"),
            "content": self.declared("content"),
        }
        return {**row, **{name: value for name, value in also.items() if value}}

    def declared(self, attribute: str) -> Any:
        """What the strategy says of itself, by the name of a property of `Strategy`.

        A strategy that is not derived from that class says what the class would, where it says nothing.
        """
        value = getattr(self.call, attribute, _SILENT)
        return getattr(_PLAIN, attribute) if value is _SILENT else value

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides this step's output."""
        return tuple(self.declared("uses"))

    @property
    def unlimited(self) -> bool:
        """Whether a retriever may find the whole catalog, for all that it says."""
        return self.declared("depth") is None

    @property
    def depths(self) -> tuple[int, ...]:
        """How many items a retriever ranks, if it says so."""
        depth = self.declared("depth") if self.kind == "retrieve" else None
        return () if depth is None else (int(depth),)

    @property
    def ranks(self) -> bool:
        """Whether a retriever ranks what it finds."""
        return bool(self.declared("ranks"))

    @property
    def orders(self) -> bool:
        """Whether a rank step makes an order of its own, whatever it stands behind."""
        return bool(self.declared("orders"))

    @property
    def reach(self) -> int:
        """How many of the best chunk matches the step looks at; 0 if it takes what there is."""
        return int(self.declared("reach"))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of a `merge` that the step's parameters name."""
        return tuple(self.declared("sources"))

    @property
    def chunking(self) -> Any | None:
        """How the step splits items (a `chunking.items.ItemChunking`); None where it does not."""
        return self.declared("chunking")

    @property
    def fitted(self) -> bool:
        """Whether the step reads a fit, which belongs to a catalog and to what stands before it."""
        return self.declared("calibrated") is not None

    @property
    def expands(self) -> bool:
        """Whether the step brings items in that were not found."""
        return self.kind == "expand" or (self.kind == "fit" and bool(self.declared("brings_in")))

    @property
    def off(self) -> bool:
        """Whether its parameters make it leave everything as it is, so that it need not be run."""
        return bool(getattr(self.call, "off", False))

    def mapped(self, change: Callable[[Step], Step]) -> Step:
        """The step, changed; combinators change every step in them."""
        return change(self)

    def scoped(self) -> Step:
        """The step with `statistics: scope` in place of `statistics: catalog`, where it has that parameter."""
        if getattr(self.call, "statistics", None) != "catalog":
            return self
        return replace(self, call=replace(cast("Any", self.call), statistics="scope"))


class WithFormat(Resources):
    """Resources with the pipeline's own format, by the name `FORMAT`: for a fit that counts what it renders."""

    def __init__(self, resources: Resources, step: Step) -> None:
        self._resources = resources
        self._step = step

    def get(self, name: str) -> Any:
        """As `Resources.get`; `FORMAT` is a function from a query and candidates to a `Prompt` a request."""
        if name == FORMAT:
            return lambda query, candidates: self._step.call(query, candidates, self._resources)
        return self._resources.get(name)

    def identity(self, name: str) -> str:
        """As `Resources.identity`."""
        if name == FORMAT:
            return json.dumps(self._step.describe(), sort_keys=True, default=str)
        return self._resources.identity(name)

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """As `Resources.get_or_create`."""
        return self._resources.get_or_create(key, make)


@dataclass(frozen=True)
class Analyses:
    """Analyses side by side: the chunks of all, by request, in this order."""

    steps: tuple[Step, ...]

    def describe(self) -> dict[str, Any]:
        """The analyses in order."""
        return {"step": "analyses", "analyses": [step.describe() for step in self.steps]}

    def mapped(self, change: Callable[[Step], Step]) -> Analyses:
        """The same with every step changed."""
        return replace(self, steps=tuple(map(change, self.steps)))

    @property
    def uses(self) -> tuple[str, ...]:
        """Those of all analyses."""
        return tuple(use for step in self.steps for use in step.uses)

    def call(self, batch: Batch, resources: Resources) -> Query:
        """Analyse in every way and put the chunks together."""
        return together([step.call(batch, resources) for step in self.steps])


@dataclass(frozen=True)
class Merge:
    """Retrievers side by side, joined by item: one column a source; the score is the best source's score.

    Scores of different sources are seldom comparable, so a `rank` step should follow.

    Attributes:
        sources: by name.
        seconds: asked live, the sources run side by side, and one that fails or takes longer is left out, with a note;
            None = every source is waited for, one after the other, and one that fails is an error. So it always is in
            a run, whose answers must not depend on the clock. A process's first request also loads models and makes
            indexes within that time.
    """

    sources: Mapping[str, Step]
    seconds: float | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"merge of {', '.join(self.sources)}"

    def describe(self) -> dict[str, Any]:
        """The sources in order."""
        sources = [[name, step.describe()] for name, step in self.sources.items()]
        limit = {} if self.seconds is None else {"seconds": self.seconds}
        return {"step": "merge", "sources": sources, **limit}

    def mapped(self, change: Callable[[Step], Step]) -> Merge:
        """The same with every source changed."""
        return replace(self, sources={name: change(step) for name, step in self.sources.items()})

    @property
    def uses(self) -> tuple[str, ...]:
        """Those of all sources."""
        return tuple(use for step in self.sources.values() for use in step.uses)

    @property
    def unlimited(self) -> bool:
        """Whether any source is."""
        return any(step.unlimited for step in self.sources.values())

    @property
    def depths(self) -> tuple[int, ...]:
        """Those of all sources."""
        return tuple(depth for step in self.sources.values() for depth in step.depths)

    @property
    def ranks(self) -> bool:
        """Whether all sources rank."""
        return all(step.ranks for step in self.sources.values())

    def call(self, query: Query, resources: Resources, *, live: bool = False) -> Candidates:
        """Retrieve from every source and join.

        Raises:
            SelectorError: asked live with a time limit, every source was late or failed; names them all.
        """
        if not live or self.seconds is None:
            return joined({name: step.call(query, resources) for name, step in self.sources.items()})
        calls = {name: partial(step.call, query, resources) for name, step in self.sources.items()}
        results, notes = side_by_side(calls, seconds=self.seconds)
        if not results:
            raise SelectorError(f"{self.name}: no source answered; {'; '.join(map(str, notes))}")
        notes = tuple(replace(note, message=f"{note.message}; the other sources answered without it") for note in notes)
        # one that did not answer has its column all the same, so that steps behind find it
        tables = {name: results.get(name, Candidates.empty(len(query.batch))) for name in self.sources}
        return joined(tables).noted(*notes)


@dataclass(frozen=True)
class PerType:
    """Refines the items of each domain (a set of types) with steps of its own, and puts the parts together.

    Chunk ranks stay those of the whole search. Session items go with the domain of their type, so that its steps see
    them (an expansion that leads from them, a budget that counts them), and leave it untouched; those of no domain
    pass by.
    """

    domains: Mapping[tuple[str, ...], tuple[Step | PerType, ...]]

    @property
    def name(self) -> str:
        """What messages call it."""
        return "by_domain"

    def describe(self) -> dict[str, Any]:
        """The domains in order."""
        domains = [[",".join(types), [step.describe() for step in steps]] for types, steps in self.domains.items()]
        return {"step": "by_domain", "domains": domains}

    def mapped(self, change: Callable[[Step], Step]) -> PerType:
        """The same with every step of every domain changed."""
        domains = {types: tuple(step.mapped(change) for step in steps) for types, steps in self.domains.items()}
        return replace(self, domains=domains)

    @property
    def uses(self) -> tuple[str, ...]:
        """Those of all domains."""
        return tuple(use for steps in self.domains.values() for step in steps for use in step.uses)

    @property
    def reach(self) -> int:
        """The largest of all domains."""
        return max((step.reach for steps in self.domains.values() for step in steps), default=0)

    @property
    def fitted(self) -> bool:
        """Whether any domain has a step that reads a fit."""
        return any(step.fitted for steps in self.domains.values() for step in steps)

    @property
    def expands(self) -> bool:
        """Whether any domain has a step that brings items in."""
        return any(step.expands for steps in self.domains.values() for step in steps)

    @property
    def off(self) -> bool:
        """False: even without steps it refuses items that belong to no domain."""
        return False

    def call(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Refine each part.

        Raises:
            ParameterError: a candidate's type belongs to no domain.
        """
        batch = query.batch
        types = batch.catalog.facts.type
        session = candidates.origin == Origin.SESSION
        parts = []
        free = np.ones(len(batch.catalog), dtype=np.bool_)  # items that no domain has taken
        for domain, steps in self.domains.items():
            in_domain = free & (types.are_any(domain) | ("*" in domain))
            free &= ~in_domain
            part = candidates.select_rows(in_domain[candidates.item])
            domain_query = query
            if any(step.expands for step in steps):  # what a domain brings in is of that domain
                domain_query = replace(query, batch=replace(batch, eligible=batch.eligible.within(in_domain)))
            for step in steps:
                part = step.call(domain_query, part, resources)
            parts.append(part)
        left = free[candidates.item]
        if (left & ~session).any():
            missing_types = sorted({batch.catalog[item].type for item in candidates.item[left & ~session].tolist()})
            raise ParameterError(
                f"by_domain: items of type {', '.join(missing_types)} belong to no domain; add one, or '*'"
            )
        return concatenated([*parts, candidates.select_rows(left)])
