"""Pipelines: strategies of four signatures composed in YAML, checked whole before anything runs.

A pipeline is `analyse -> retrieve -> refine, refine, ... -> format`. Three combinators: a list of analyses puts
their chunks together; `merge` runs retrievers side by side and joins them by item; `by_domain` refines the items of
each type on their own. Pipelines that share their
first steps compute them once: a step's output is kept under a key made of the batch, the catalog, the name, version
and parameters of every step up to it, and the identities of the resources that those steps use.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from ctxbench import registry
from ctxbench.arrays import Float32Array, IntArray, frozen, owners
from ctxbench.candidates import Candidates, Origin, concatenated, joined
from ctxbench.errors import ParameterError, UserError, suggest
from ctxbench.items import ITEM_TYPES, Catalog
from ctxbench.query import Query, together
from ctxbench.requests import Batch
from ctxbench.selection import Prompt

T = TypeVar("T")


class Resources(Protocol):
    """What steps may use: lazy, cached, with an identity. Filling a cache is a step's only side effect."""

    def vectors(self, texts: Sequence[str]) -> Float32Array:
        """Unit vectors of `texts`, shape (n_texts, n_dimensions)."""
        ...

    def tokens(self, catalog: Catalog) -> IntArray:
        """Prompt tokens of every item, shape (n_items,)."""
        ...

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under `key`, making it at the first call."""
        ...

    def identity(self, resource: str) -> str:
        """What a resource (`embedder`, `tokens`) is: model, revision, backend, quantisation."""
        ...


Analyse: TypeAlias = Callable[[Batch, Resources], Query]
Retrieve: TypeAlias = Callable[[Query, Resources], Candidates]
Refine: TypeAlias = Callable[[Query, Candidates, Resources], Candidates]
Format: TypeAlias = Callable[[Query, Candidates], Sequence[Prompt]]


@dataclass(frozen=True, slots=True)
class SpecFault:
    """One thing wrong in a pipeline's specification: where (keys and places from its root), and what."""

    path: tuple[str | int, ...]
    message: str


class PipelineError(UserError):
    """A pipeline cannot be built; all that is wrong is in `faults`."""

    def __init__(self, faults: Sequence[SpecFault]) -> None:
        self.faults = tuple(faults)
        lines = (f"{'.'.join(map(str, fault.path)) or 'pipeline'}: {fault.message}" for fault in faults)
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class Step:
    """A built strategy; carries the name and all the parameters that it was made with."""

    kind: str
    name: str
    call: Callable[..., Any]

    def describe(self) -> dict[str, Any]:
        """Name, version and every parameter: what manifests, cache keys and labels are made from.

        A step that reads a file says in `content` what stood in it: the path alone would hide an edit.
        """
        version = getattr(self.call, "version", 1)
        row = {"step": f"{self.kind}:{self.name}", "version": version, **registry.parameters(self.call)}
        also = {"code": registry.foreign_code(type(self.call)), "content": getattr(self.call, "content", None)}
        return {**row, **{name: value for name, value in also.items() if value}}

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides this step's output."""
        return tuple(getattr(self.call, "uses", ()))

    @property
    def depths(self) -> tuple[int, ...]:
        """How many items a retriever ranks, if it says so."""
        depth = getattr(self.call, "depth", None)
        return () if depth is None else (int(depth),)

    @property
    def ranks(self) -> bool:
        """Whether a retriever ranks what it finds."""
        return bool(getattr(self.call, "ranks", True))

    @property
    def reach(self) -> int:
        """How many of the best chunk matches the step looks at; 0 if it takes what there is."""
        return int(getattr(self.call, "reach", 0))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of a `merge` that the step's parameters name."""
        return tuple(getattr(self.call, "sources", ()))

    @property
    def expands(self) -> bool:
        """Whether the step brings items in that were not found."""
        return self.kind == "expand"


@dataclass(frozen=True)
class Analyses:
    """Analyses side by side: the chunks of all, by request, in this order."""

    steps: tuple[Step, ...]

    def describe(self) -> dict[str, Any]:
        """The analyses in order."""
        return {"step": "analyses", "analyses": [step.describe() for step in self.steps]}

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
    """

    sources: Mapping[str, Step]

    def describe(self) -> dict[str, Any]:
        """The sources in order."""
        return {"step": "merge", "sources": [[name, step.describe()] for name, step in self.sources.items()]}

    @property
    def uses(self) -> tuple[str, ...]:
        """Those of all sources."""
        return tuple(use for step in self.sources.values() for use in step.uses)

    @property
    def depths(self) -> tuple[int, ...]:
        """Those of all sources."""
        return tuple(depth for step in self.sources.values() for depth in step.depths)

    @property
    def ranks(self) -> bool:
        """Whether all sources rank."""
        return all(step.ranks for step in self.sources.values())

    def call(self, query: Query, resources: Resources) -> Candidates:
        """Retrieve from every source and join."""
        return joined({name: step.call(query, resources) for name, step in self.sources.items()})


@dataclass(frozen=True)
class ByDomain:
    """Refines the items of each domain (a set of types) with steps of its own, and puts the parts together.

    Chunk ranks stay those of the whole search. Session items pass through every domain untouched.
    """

    domains: Mapping[tuple[str, ...], tuple[Step | ByDomain, ...]]

    def describe(self) -> dict[str, Any]:
        """The domains in order."""
        domains = [[",".join(types), [step.describe() for step in steps]] for types, steps in self.domains.items()]
        return {"step": "by_domain", "domains": domains}

    @property
    def uses(self) -> tuple[str, ...]:
        """Those of all domains."""
        return tuple(use for steps in self.domains.values() for step in steps for use in step.uses)

    @property
    def reach(self) -> int:
        """The largest of all domains."""
        return max((step.reach for steps in self.domains.values() for step in steps), default=0)

    @property
    def expands(self) -> bool:
        """Whether any domain has a step that brings items in."""
        return any(step.expands for steps in self.domains.values() for step in steps)

    def call(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Refine each part.

        Raises:
            ParameterError: a candidate's type belongs to no domain.
        """
        batch = query.batch
        types = np.array([item.type for item in batch.catalog], dtype=object)
        session = candidates.origin == Origin.SESSION
        parts = [candidates.taken(session)]
        free = np.ones(len(types), dtype=np.bool_)  # items that no domain has taken
        for domain, steps in self.domains.items():
            held = free & (np.isin(types, domain) | ("*" in domain))
            free &= ~held
            part = candidates.taken(~session & held[candidates.item])
            own = query
            if any(step.expands for step in steps):  # what a domain brings in is of that domain
                eligible = batch.eligible & held
                frozen(eligible)
                own = replace(query, batch=replace(batch, eligible=eligible))
            for step in steps:
                part = step.call(own, part, resources)
            parts.append(part)
        if (left := ~session & free[candidates.item]).any():
            lacking = sorted(set(types[candidates.item[left]]))
            raise ParameterError(f"by_domain: items of type {', '.join(lacking)} belong to no domain; add one, or '*'")
        return concatenated(parts)


@dataclass(frozen=True)
class Outcome:
    """What a pipeline made of a batch."""

    query: Query
    candidates: Candidates


@dataclass(frozen=True)
class Pipeline:
    """Steps from a request to a prompt.

    Attributes:
        analyse, retrieve, format: the step of each stage.
        refine: the steps between, in order.
    """

    analyse: Step | Analyses
    retrieve: Step | Merge
    refine: tuple[Step | ByDomain, ...]
    format: Step

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Pipeline:
        """Build a pipeline from its specification (the `pipeline:` block of a selector's YAML).

        Raises:
            PipelineError: anything in it is wrong; all faults at once, each with its path.
        """
        faults: list[SpecFault] = []
        stages = ("analyse", "retrieve", "refine", "format")
        if not isinstance(spec, Mapping):
            raise PipelineError([SpecFault((), f"must be a mapping of {', '.join(stages)}, got {spec!r}")])
        for key in spec:
            if key not in stages:
                faults.append(SpecFault((key,), f"a pipeline has no stage {key!r}{suggest(str(key), stages)}"))
        if "retrieve" not in spec:
            faults.append(SpecFault((), "a pipeline needs a retrieve stage"))
        builder = _Builder(faults)
        analyse = builder.analyse(spec.get("analyse", "sentences"))
        retrieve = builder.retrieve(spec["retrieve"]) if "retrieve" in spec else None
        refine = builder.refine(spec.get("refine", []), ("refine",))
        formatter = builder.step("format", spec.get("format", "messages"), ("format",))
        if retrieve is not None:
            builder.check_reach(retrieve, refine)
            builder.check_sources(retrieve, refine, ("refine",))
        if faults or analyse is None or retrieve is None or formatter is None:
            raise PipelineError(faults)
        return cls(analyse, retrieve, refine, formatter)

    @property
    def ranks(self) -> bool:
        """Whether what is retrieved is a ranking."""
        return self.retrieve.ranks

    def describe(self) -> dict[str, Any]:
        """Every step with its version and all its parameters."""
        return {
            "analyse": self.analyse.describe(),
            "retrieve": self.retrieve.describe(),
            "refine": [step.describe() for step in self.refine],
            "format": self.format.describe(),
        }

    def run(self, batch: Batch, resources: Resources, *, memo: MutableMapping[str, Any] | None = None) -> Outcome:
        """Select for a batch.

        Args:
            batch: the requests; the answer for each does not depend on the others.
            resources: where vectors and indexes come from.
            memo: outputs of earlier runs by key; steps shared with them are not run again, and new outputs are
                added. None shares nothing.
        """
        once = _Once(memo, batch, resources)
        query: Query = once(self.analyse, lambda: self.analyse.call(batch, resources))
        table: Candidates = once(self.retrieve, lambda: _with_session(query, self.retrieve, resources))
        for step in self.refine:
            before = table
            table = once(step, lambda: step.call(query, before, resources))  # noqa: B023 - run at once
        return Outcome(query, table)

    def prompts(self, outcome: Outcome) -> Sequence[Prompt]:
        """What the model would be sent, one prompt a request."""
        prompts: Sequence[Prompt] = self.format.call(outcome.query, outcome.candidates)
        return prompts


class _Once:
    """Runs each step once: its output is kept under everything that it depends on, up to that step."""

    def __init__(self, memo: MutableMapping[str, Any] | None, batch: Batch, resources: Resources) -> None:
        self._memo = memo
        self._resources = resources
        self._identities: dict[str, str] = {}
        self._key = "" if memo is None else batch.key

    def __call__(self, step: Step | Analyses | Merge | ByDomain, make: Callable[[], T]) -> T:
        if self._memo is None:
            return make()  # nothing is shared, so no key is needed; hashing a large catalog takes longer than a search
        for use in step.uses:
            self._identities[use] = self._resources.identity(use)
        parts = [self._key, step.describe(), self._identities]
        self._key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        if self._key not in self._memo:
            self._memo[self._key] = make()
        found: T = self._memo[self._key]
        return found


def _with_session(query: Query, retrieve: Step | Merge, resources: Resources) -> Candidates:
    """What was found, behind what the session holds already."""
    return concatenated([session_rows(query.batch), retrieve.call(query, resources)])


def session_rows(batch: Batch) -> Candidates:
    """What the sessions of a batch hold, as chosen rows without a score."""
    request = owners(batch.session_start)
    return Candidates.build(
        len(batch),
        request,
        batch.session_item,
        origin=np.full(len(request), Origin.SESSION, dtype=np.int64),
        mode=batch.session_mode,
    )


class _Builder:
    """Builds the steps of a specification and collects what is wrong with them."""

    def __init__(self, faults: list[SpecFault]) -> None:
        self.faults = faults

    def step(self, kind: str, spec: Any, path: tuple[str | int, ...]) -> Step | None:
        named = self._named(spec, path)
        if named is None:
            return None
        name, parameters = named
        if kind == "refine":
            found = self._try(path, lambda: registry.refine_kind(name))
            if found is None:
                return None
            kind = found
        call = self._try((*path, name) if parameters else path, lambda: registry.build(kind, name, parameters))
        return None if call is None else Step(kind, name, call)

    def analyse(self, spec: Any) -> Step | Analyses | None:
        if not isinstance(spec, list):
            return self.step("analyse", spec, ("analyse",))
        if not spec:
            self._fault(("analyse",), "the list of analyses is empty; name one, for example sentences")
            return None
        steps = [self.step("analyse", one, ("analyse", place)) for place, one in enumerate(spec)]
        built = tuple(step for step in steps if step is not None)
        return Analyses(built) if len(built) == len(steps) else None

    def retrieve(self, spec: Any) -> Step | Merge | None:
        path = ("retrieve",)
        if not (isinstance(spec, Mapping) and "merge" in spec):
            return self.step("retrieve", spec, path)
        sources = spec["merge"]
        if isinstance(sources, list):
            labels = [self._label(source) for source in sources]
            if twice := sorted({label for label in labels if labels.count(label) > 1}):
                names = ", ".join(map(repr, twice))
                self._fault((*path, "merge"), f"two sources are called {names}; write `name: retriever` for each")
                return None
            sources = dict(zip(labels, sources, strict=True))
        if not isinstance(sources, Mapping) or len(sources) < 2 or len(spec) != 1:
            self._fault((*path, "merge"), "merge needs at least two retrievers, as a list or by name")
            return None
        steps = {str(n): self.step("retrieve", s, (*path, "merge", n)) for n, s in sources.items()}
        built = {name: step for name, step in steps.items() if step is not None}
        return Merge(built) if len(built) == len(steps) else None

    def refine(self, spec: Any, path: tuple[str | int, ...]) -> tuple[Step | ByDomain, ...]:
        if not isinstance(spec, list):
            self._fault(path, f"must be a list of steps, got {spec!r}")
            return ()
        built = [self._refine_one(one, (*path, place)) for place, one in enumerate(spec)]
        return tuple(step for step in built if step is not None)

    def check_reach(self, retrieve: Step | Merge, refine: Sequence[Step | ByDomain]) -> None:
        """A step must not count chunk matches beyond those that were ranked exactly."""
        depth = min(retrieve.depths, default=None)
        for step in refine:
            if depth is not None and step.reach > depth:
                self._fault(
                    ("retrieve",),
                    f"finds the best {depth} (depth), but a later step looks at the best {step.reach}; "
                    "raise depth, or lower that",
                )

    def check_sources(
        self, retrieve: Step | Merge, refine: Sequence[Step | ByDomain], path: tuple[str | int, ...]
    ) -> None:
        """A step must name the sources that there are, and all of them."""
        there = set(retrieve.sources) if isinstance(retrieve, Merge) else set()
        for place, step in enumerate(refine):
            if isinstance(step, ByDomain):
                for types, steps in step.domains.items():
                    self.check_sources(retrieve, steps, (*path, place, "by_domain", ",".join(types)))
            elif step.sources and set(step.sources) != there:
                found = f"a merge of {', '.join(sorted(there))}" if there else "a single retriever, without a merge"
                named = ", ".join(sorted(step.sources))
                self._fault((*path, place, step.name), f"names the sources {named}, but stands behind {found}")

    def _refine_one(self, spec: Any, path: tuple[str | int, ...]) -> Step | ByDomain | None:
        if not (isinstance(spec, Mapping) and "by_domain" in spec):
            return self.step("refine", spec, path)
        domains = spec["by_domain"]
        if not isinstance(domains, Mapping) or not domains:
            self._fault((*path, "by_domain"), "must map item types ('tool', 'rule, reference', '*') to steps")
            return None
        made: dict[tuple[str, ...], tuple[Step | ByDomain, ...]] = {}
        seen: set[str] = set()
        for key, steps in domains.items():
            where = (*path, "by_domain", key)
            types = tuple(part.strip() for part in str(key).split(","))
            for one in types:
                if one not in (*ITEM_TYPES, "*"):
                    self._fault(where, f"no item type is called {one!r}{suggest(one, (*ITEM_TYPES, '*'))}")
                elif one in seen or "*" in seen:
                    self._fault(where, f"{one!r} belongs to a domain before this one; '*' takes all that is left")
                seen.add(one)
            made[types] = self.refine(steps, where)
        return ByDomain(made)

    def _named(self, spec: Any, path: tuple[str | int, ...]) -> tuple[str, Mapping[str, Any]] | None:
        if isinstance(spec, str):
            return spec, {}
        if isinstance(spec, Mapping) and len(spec) == 1:
            name, parameters = next(iter(spec.items()))
            if parameters is None:
                return str(name), {}
            if isinstance(parameters, Mapping):
                return str(name), parameters
        what = "a step is a name, or one name with its parameters, for example {standard: {topN: 5}}"
        self._fault(path, f"{what}; got {spec!r}")
        return None

    def _label(self, spec: Any) -> str:
        return str(next(iter(spec))) if isinstance(spec, Mapping) and spec else str(spec)

    def _try(self, path: tuple[str | int, ...], make: Callable[[], T]) -> T | None:
        try:
            return make()
        except UserError as error:
            self._fault(path, str(error))
            return None

    def _fault(self, path: tuple[str | int, ...], message: str) -> None:
        self.faults.append(SpecFault(path, message))
