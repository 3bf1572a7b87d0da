"""Pipelines: parse a description, check it, run it, and reuse outputs of shared steps.

A pipeline is `analyse -> retrieve -> refine, refine, ... -> format`, checked whole before anything runs. Pipelines that
share their first steps compute them once: the output of a step is stored under a key made of the batch, the catalog,
the name, version and parameters of every step up to it, and the identities of the resources that those steps use.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from ctxbench.io.errors import Message, ParameterError, SelectorError, UserError, suggest
from ctxbench.model import registry
from ctxbench.model.arrays import IntArray
from ctxbench.model.candidates import SEARCHED, Candidates, Note, validate_span
from ctxbench.model.items import ITEM_TYPES, Catalog
from ctxbench.model.requests import Batch, Query, with_own_vectors
from ctxbench.model.resources import FORMAT, Resources, kind_of
from ctxbench.model.selection import Prompt, concatenated, session_rows
from ctxbench.model.strategies import Analyses, Described, Merge, PerType, Step, WithFormat
from ctxbench.search.chunking import DOCUMENTS, ItemChunking

Output = TypeVar("Output", Query, Candidates)

Listener: TypeAlias = Callable[[str, str, float], None]
"""Told the kind of a step that ran (`analyse`, `retrieve`, `rank` ...), its name, and its seconds."""

_COMBINED: dict[type, tuple[str, str]] = {
    Analyses: ("analyse", "analyses"),
    Merge: ("retrieve", "merge"),
    PerType: ("refine", "by_domain"),
}
_NOTHING = object()


class StepOutputs:
    """Runs the steps of a pipeline over a batch, in order, and takes stored outputs from a memo.

    Args:
        batch, resources: what the steps are called with.
        memo: outputs by key; None = nothing is kept, and no key is made: hashing a large catalog takes longer than a
            search. It may drop what it holds at any time.
        live: what was late or failed is left out of answers, so from such an output on nothing is kept.
        listener: see `Listener`.
    """

    def __init__(
        self,
        batch: Batch,
        resources: Resources,
        memo: MutableMapping[str, Any] | None,
        *,
        live: bool = False,
        listener: Listener | None = None,
    ) -> None:
        self._resources = resources
        self._memo = memo
        self._live = live
        self._listener = listener
        self._identities: dict[str, str] = {}
        self._key = "" if memo is None else batch.key

    def __call__(self, step: Step | Analyses | Merge | PerType, make: Callable[[], Output]) -> Output:
        """The output of the next step: from an earlier run, or computed now."""
        if self._memo is None:
            return self._run(step, make)
        self._identities |= {use: self._resources.identity(use) for use in step.uses}
        parts = [self._key, step.describe(), self._identities]
        self._key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        stored = self._memo.get(self._key, _NOTHING)
        if stored is not _NOTHING:
            return cast("Output", stored)
        output = self._run(step, make)
        # the next time, the answer may be another
        if self._live and any(note.kind in ("late", "failed") for note in output.notes):
            self._memo = None
        else:
            self._memo[self._key] = output
        return output

    def _run(self, step: Step | Analyses | Merge | PerType, make: Callable[[], Output]) -> Output:
        if self._listener is None:
            return make()
        begin = time.perf_counter()
        output = make()
        kind, name = _COMBINED.get(type(step)) or (step.kind, step.name)  # type: ignore[union-attr]
        self._listener(kind, name, time.perf_counter() - begin)
        return output


T = TypeVar("T")
SECONDS = "seconds"  # beside `merge`: how long its sources are waited for when somebody is waiting
LONGEST = 3600.0
OFF = object()
"""Stands in a specification's list of refining steps for one that is switched off: the others keep their places."""


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
class Outcome:
    """The output of a pipeline for a batch."""

    query: Query
    candidates: Candidates

    @property
    def trace(self) -> tuple[Note, ...]:
        """All notes: of late or failed sources and fallbacks."""
        return self.candidates.notes


@dataclass(frozen=True)
class Pipeline(Described):
    """Steps from a request to a prompt.

    Attributes:
        analyse, retrieve, format: the step of each stage.
        refine: the steps between, in order.
    """

    analyse: Step | Analyses
    retrieve: Step | Merge
    refine: tuple[Step | PerType, ...]
    format: Step

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Pipeline:
        """Build a pipeline from its specification (the `pipeline:` block of a selector's YAML).

        Raises:
            PipelineError: anything in it is wrong; all faults at once, each with its path.
        """
        stages = ("analyse", "retrieve", "refine", "format")
        if not isinstance(spec, Mapping):
            raise PipelineError([SpecFault((), f"must be a mapping of {', '.join(stages)}, got {spec!r}")])
        faults = [
            SpecFault((key,), Message("pipelines.unknown-stage", stage=key, hint=suggest(str(key), stages)))
            for key in spec
            if key not in stages
        ]
        if "retrieve" not in spec:
            faults.append(SpecFault((), Message("pipelines.no-retrieve")))
        builder = _Builder(faults)
        analyse = builder.analyse(spec.get("analyse", registry.DEFAULTS["analyse"]))
        retrieve = builder.retrieve(spec["retrieve"]) if "retrieve" in spec else None
        refine = builder.refine(spec.get("refine", []), ("refine",))
        formatter = builder.step("format", spec.get("format", registry.DEFAULTS["format"]), ("format",))
        if retrieve is not None:
            builder.check_reach(retrieve, refine)
            builder.check_sources(retrieve, refine, ("refine",))
        if faults or analyse is None or retrieve is None or formatter is None:
            raise PipelineError(faults)
        return cls(analyse, retrieve, refine, formatter)

    def __rshift__(self, following: Any) -> Pipeline:
        """The pipeline with another step behind its last one; a format ends it.

        Args:
            following: a step, or its name, or `{name: parameters}`.

        Raises:
            PipelineError: as `of` with the same steps.
        """
        has_format = self.format != _Builder([]).step("format", registry.DEFAULTS["format"], ())
        stages = {"analyse": self.analyse, "retrieve": self.retrieve, "refine": [*self.refine], "format": self.format}
        if isinstance(following, Step) and following.kind == "format" and not has_format:
            return Pipeline.of({**stages, "format": following})
        return Pipeline.of({**stages, "refine": [*self.refine, *([self.format] if has_format else []), following]})

    @property
    def ranks(self) -> bool:
        """Whether the retriever ranks, or a rank step does."""
        return self.retrieve.ranks or any(isinstance(step, Step) and step.declared("orders") for step in self.refine)

    def steps(self) -> Iterator[Step]:
        """Every step of all stages, those inside combinators as well."""
        for stage in (self.analyse, self.retrieve, *self.refine, self.format):
            yield from stage.steps()

    def mapped(self, change: Callable[[Step], Step]) -> Pipeline:
        """The same pipeline with every step changed, also those in `merge` and `by_domain`."""
        refine = tuple(step.mapped(change) for step in self.refine)
        analyse, retrieve = self.analyse.mapped(change), self.retrieve.mapped(change)
        return Pipeline(analyse, retrieve, refine, change(self.format))

    def counting_over_catalog(self) -> tuple[Step, ...]:
        """The steps that count words over the whole catalog, not over what a request may see; see `Step.scoped`."""
        return tuple(step for step in self.steps() if step.scoped() is not step)

    def describe(self) -> dict[str, Any]:
        """Every step with its version and all its parameters."""
        return {
            "analyse": self.analyse.describe(),
            "retrieve": self.retrieve.describe(),
            "refine": [step.describe() for step in self.refine],
            "format": self.format.describe(),
        }

    def run(
        self,
        batch: Batch,
        resources: Resources,
        *,
        memo: MutableMapping[str, Any] | None = None,
        live: bool = False,
        listener: Listener | None = None,
    ) -> Outcome:
        """Select for a batch.

        Args:
            batch: the requests; the answer for each does not depend on the others.
            resources: where vectors and indexes come from.
            memo: outputs of earlier runs by key; steps shared with them are not run again, and new outputs are
                added. None shares nothing.
            live: somebody is waiting: time limits count, and what a source that is late would have found is left out,
                with a note in the trace. Else everything is waited for, so that the answer does not depend on the
                clock. Outputs without what was late or failed are not added to the memo, nor what is made of them.
            listener: called with the kind, name and seconds of each step that ran.

        Raises:
            SelectorError: a step offers a request what it may not see, names it as what led to an item, or shows a
                part that an item does not have.
        """
        if any(FORMAT in step.uses for step in self.refine):
            resources = WithFormat(resources, self.format)
        outputs = StepOutputs(batch, resources, memo, live=live, listener=listener)
        query: Query = outputs(self.analyse, lambda: with_own_vectors(self.analyse.call(batch, resources)))
        table: Candidates = outputs(self.retrieve, lambda: _with_session(query, self.retrieve, resources, live=live))
        _validate(table, batch, self.retrieve)
        for step in self.refine:
            if step.off:
                continue
            before = table
            table = outputs(step, lambda: step.call(query, before, resources))  # noqa: B023 - run at once
            _validate(table, batch, step)
        return Outcome(query, _with_notes(table, query))

    def prompts(self, outcome: Outcome, resources: Resources) -> Sequence[Prompt]:
        """What the model would be sent, one prompt per request."""
        return cast("Sequence[Prompt]", self.format.call(outcome.query, outcome.candidates, resources))


class ChainedStep(Step):
    """A step that `>>` makes pipelines of: `bm25 >> rerank(f) >> first(5)`."""

    def __rshift__(self, following: Any) -> Pipeline:
        """The pipeline of this step and the one behind it; an analysis comes before what retrieves.

        Raises:
            PipelineError: as `Pipeline.of` with the same steps.
        """
        if self.kind == "analyse":
            return Pipeline.of({"analyse": self, "retrieve": following})
        return cast("Pipeline", Pipeline.of({"retrieve": self}) >> following)


def _with_notes(table: Candidates, query: Query) -> Candidates:
    """Candidates with all notes, each given a query, so that a batch can be joined with others later."""
    notes = (*query.notes, *table.notes)
    if not notes:
        return table
    named_notes = [
        replace(note, query=name) for note in notes for name in ([note.query] if note.query else query.batch.ids)
    ]
    return replace(table, notes=tuple(dict.fromkeys(named_notes)))


def _validate(table: Candidates, batch: Batch, step: Step | Merge | PerType) -> None:
    """Reject invalid rows of a step: items that a request may not see, rows led to by one, and wrong parts.

    An item that may not be seen is not named: whoever reads the message may not see it either.

    Raises:
        SelectorError: names the step and the query.
    """
    n_items = len(batch.catalog)
    if table.n_requests != len(batch):
        raise SelectorError(f"{step.name}: it answers {table.n_requests} requests, and was asked {len(batch)}")
    for label, items in (("a row", table.item), ("`via_item`", table.via_item)):
        rows = np.flatnonzero(items >= 0) if label == "`via_item`" else np.arange(len(items))
        wrong = (items[rows] < 0) | (items[rows] >= n_items)
        if not wrong.any() and batch.catalog.facts.hidden:
            wrong = ~batch.visible.cells(table.request[rows], items[rows])
        if wrong.any():
            query = batch.ids[int(table.request[rows[np.flatnonzero(wrong)[0]]])]
            raise SelectorError(
                f"{step.name}: {label} of query {query!r} is an item that this request may not see, or none "
                f"of the catalog; find and expand within `batch.eligible`"
            )
    for row in np.flatnonzero(~table.shows_all).tolist():
        try:
            validate_span(batch.catalog[int(table.item[row])], (int(table.shown_from[row]), int(table.shown_to[row])))
        except ParameterError as error:
            query = batch.ids[int(table.request[row])]
            raise SelectorError(f"{step.name}: for query {query!r} it {error}") from None


def _with_session(query: Query, retrieve: Step | Merge, resources: Resources, *, live: bool) -> Candidates:
    """The items of the session, followed by the candidates."""
    timed = live and isinstance(retrieve, Merge)
    candidates = retrieve.call(query, resources, live=True) if timed else retrieve.call(query, resources)
    return concatenated([session_rows(query.batch), candidates])


@dataclass
class _Builder:
    """Builds the steps of a specification and collects their faults."""

    faults: list[SpecFault]

    def step(self, kind: str, spec: Any, path: tuple[str | int, ...]) -> Step | None:
        if _COMBINED.get(type(spec), ("",))[0] == kind and len(path) == 1 + (kind == "refine"):
            return cast("Step", spec)  # a stage of another pipeline, which was checked
        # plain steps, so that equal pipelines are equal however they were written
        step = (
            self._try(path, lambda: Step(spec.kind, spec.name, spec.call))
            if isinstance(spec, Step)
            else self._registered(kind, spec, path)
        )
        kinds = registry.REFINE_KINDS if kind == "refine" else (kind,)
        if step is not None and step.kind not in kinds:
            expected = " or ".join(kinds)
            self._fault(
                path, Message("pipelines.step-of-other-kind", step=step.name, kind=step.kind, expected=expected)
            )
            return None
        for use in () if step is None else step.uses:
            if use != FORMAT:
                self._try(path, lambda: registry.target("resource", kind_of(use)))  # noqa: B023 - run at once
        return step

    def _registered(self, kind: str, spec: Any, path: tuple[str | int, ...]) -> Step | None:
        """A step by the name of its strategy, with its parameters."""
        named = {spec: None} if isinstance(spec, str) else spec
        is_single = isinstance(named, Mapping) and len(named) == 1
        name, parameters = next(iter(named.items())) if is_single else ("", None)
        parameters = {} if parameters is None else parameters
        if not (is_single and isinstance(parameters, Mapping)):
            self._fault(path, Message("pipelines.step-form", got=spec))
            return None
        name = str(name)
        if kind == "refine":
            refine_kind = self._try(path, lambda: registry.refine_kind(name))
            if refine_kind is None:
                return None
            kind = refine_kind
        call = self._try((*path, name) if parameters else path, lambda: registry.build(kind, name, parameters))
        return None if call is None else Step(kind, name, call)

    def analyse(self, spec: Any) -> Step | Analyses | None:
        if not isinstance(spec, list):
            return self.step("analyse", spec, ("analyse",))
        if not spec:
            self._fault(("analyse",), Message("pipelines.no-analysis"))
            return None
        steps = [self.step("analyse", entry, ("analyse", index)) for index, entry in enumerate(spec)]
        built = tuple(step for step in steps if step is not None)
        return Analyses(built) if len(built) == len(steps) else None

    def retrieve(self, spec: Any) -> Step | Merge | None:
        path = ("retrieve",)
        if not (isinstance(spec, Mapping) and "merge" in spec):
            return self.step("retrieve", spec, path)
        sources = spec["merge"]
        if isinstance(sources, list):
            labels = [
                source.name
                if isinstance(source, Step)
                else str(next(iter(source)) if isinstance(source, Mapping) and source else source)
                for source in sources
            ]
            if twice := sorted({label for label in labels if labels.count(label) > 1}):
                self._fault((*path, "merge"), Message("pipelines.sources-alike", names=", ".join(map(repr, twice))))
                return None
            sources = dict(zip(labels, sources, strict=True))
        if not isinstance(sources, Mapping) or len(sources) < 2:
            self._fault((*path, "merge"), Message("pipelines.merge-needs-two"))
            return None
        for key in set(spec) - {"merge", SECONDS}:
            self._fault((*path, str(key)), Message("pipelines.unknown-beside-merge", allowed=SECONDS, got=key))
        seconds = spec.get(SECONDS)
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST
        ):
            self._fault((*path, SECONDS), Message("pipelines.seconds", name=SECONDS, most=LONGEST, got=seconds))
            return None
        for name in sources:
            if not str(name) or "." in str(name) or name == SEARCHED:
                message = Message("pipelines.source-name", name=str(name), reserved=SEARCHED)
                self._fault((*path, "merge", name), message)
        steps = {str(n): self.step("retrieve", s, (*path, "merge", n)) for n, s in sources.items()}
        built = {name: step for name, step in steps.items() if step is not None}
        return Merge(built, None if seconds is None else float(seconds)) if len(built) == len(steps) else None

    def refine(self, spec: Any, path: tuple[str | int, ...]) -> tuple[Step | PerType, ...]:
        if not isinstance(spec, list):
            self._fault(path, Message("pipelines.steps-not-a-list", got=spec))
            return ()
        built = [self._refine_one(entry, (*path, index)) for index, entry in enumerate(spec) if entry is not OFF]
        return tuple(step for step in built if step is not None)

    def check_reach(self, retrieve: Step | Merge, refine: Sequence[Step | PerType]) -> None:
        """A step must not count chunk matches beyond those that were ranked exactly."""
        depth = min(retrieve.depths, default=None)
        for step in refine:
            if depth is not None and step.reach > depth:
                self._fault(("retrieve",), Message("pipelines.depth-below-reach", depth=depth, reach=step.reach))

    def check_sources(
        self, retrieve: Step | Merge, refine: Sequence[Step | PerType], path: tuple[str | int, ...]
    ) -> None:
        """A step must name the sources that exist, and all of them."""
        names = set(retrieve.sources) if isinstance(retrieve, Merge) else set()
        for index, step in enumerate(refine):
            if isinstance(step, PerType):
                for types, steps in step.domains.items():
                    self.check_sources(retrieve, steps, (*path, index, "by_domain", ",".join(types)))
            elif step.sources and set(step.sources) != names:
                message = Message(
                    "pipelines.other-sources", named=sorted(step.sources), sources=sorted(names) or ["none"]
                )
                self._fault((*path, index, step.name), message)

    def _refine_one(self, spec: Any, path: tuple[str | int, ...]) -> Step | PerType | None:
        if not (isinstance(spec, Mapping) and "by_domain" in spec):
            return self.step("refine", spec, path)
        domains = spec["by_domain"]
        if not isinstance(domains, Mapping) or not domains:
            self._fault((*path, "by_domain"), Message("pipelines.domains-form"))
            return None
        steps_by_types: dict[tuple[str, ...], tuple[Step | PerType, ...]] = {}
        seen_types: set[str] = set()
        for key, steps in domains.items():
            where = (*path, "by_domain", key)
            types = tuple(part.strip() for part in str(key).split(","))
            for type_ in types:
                if type_ not in (*ITEM_TYPES, "*"):
                    hint = suggest(type_, (*ITEM_TYPES, "*"))
                    self._fault(where, Message("pipelines.unknown-item-type", type=type_, hint=hint))
                elif type_ in seen_types or "*" in seen_types:
                    self._fault(where, Message("pipelines.domains-overlap", type=type_))
                seen_types.add(type_)
            steps_by_types[types] = self.refine(steps, where)
            if any(FORMAT in step.uses for step in steps_by_types[types]):
                self._fault(where, Message("pipelines.frame-in-domain"))
        return PerType(steps_by_types)

    def _try(self, path: tuple[str | int, ...], make: Callable[[], T]) -> T | None:
        try:
            return make()
        except UserError as error:
            self._fault(path, str(error))
            return None

    def _fault(self, path: tuple[str | int, ...], message: str) -> None:
        self.faults.append(SpecFault(path, message))


@dataclass(frozen=True)
class Chunkings:
    """How the steps of a pipeline split items.

    Attributes:
        sources: of each retriever that says how it splits, by the name of its column in a merge (one without a name
            where there is none).
        expansion: of the items that an expansion led from and to.
    """

    sources: Mapping[str, ItemChunking]
    expansion: ItemChunking = DOCUMENTS

    @classmethod
    def of(cls, pipeline: Pipeline) -> Chunkings:
        """Ask the steps of a pipeline."""
        retrieve = pipeline.retrieve
        sources = retrieve.sources if isinstance(retrieve, Merge) else {"": retrieve}
        expansions = (step.chunking for step in pipeline.steps() if step.expands)
        return cls._from_chunkings({name: step.chunking for name, step in sources.items()}, expansions)

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> Chunkings:
        """Read the description of a selector; one of no pipeline has no pairs."""
        if (pipeline := registry.StoredPipeline.of(description)) is None or pipeline.retrieve is None:
            return cls({"": DOCUMENTS})
        retrieve = pipeline.retrieve
        sources = dict(retrieve.sources) if isinstance(retrieve, registry.StoredMerge) else {"": retrieve}
        steps = (step for stage in pipeline.refine for step in registry.single_steps(stage) if step.kind == "expand")
        chunkings = {name: ItemChunking.described(step.values) for name, step in sources.items()}
        return cls._from_chunkings(chunkings, (ItemChunking.described(step.values) for step in steps))

    @classmethod
    def _from_chunkings(
        cls, sources: Mapping[str, ItemChunking | None], expansions: Iterable[ItemChunking | None]
    ) -> Chunkings:
        """Take the chunkings of steps; None for a step that does not split items."""
        by_source = {name: chunking for name, chunking in sources.items() if chunking is not None} or {"": DOCUMENTS}
        return cls(by_source, next((chunking for chunking in expansions if chunking is not None), DOCUMENTS))

    @cached_property
    def distinct(self) -> tuple[ItemChunking, ...]:
        """Every different chunking, once."""
        return tuple(dict.fromkeys([*self.sources.values(), self.expansion]))

    def used(self, table: Candidates) -> IntArray:
        """The index in `distinct` of the chunking that each row's pair is counted in, shape (n,).

        After a merge, the pair of a row is that of its best source that has one.
        """
        indices = np.array([self.distinct.index(chunking) for chunking in self.sources.values()], dtype=np.int64)
        used = np.full(len(table), indices[0], dtype=np.int64)
        columns = [table.columns[name] for name in self.sources if name in table.columns]
        if len(set(indices.tolist())) > 1 and len(columns) == len(indices) and len(table):
            scores = np.stack(columns)
            used = indices[np.where(np.isnan(scores), -np.inf, scores).argmax(axis=0)]
        used[table.via_item >= 0] = self.distinct.index(self.expansion)
        return used

    def pair(
        self, catalog: Catalog, chunks: Sequence[str], table: Candidates, row: int, used: IntArray | None = None
    ) -> tuple[str, str]:
        """The two texts that gave a row its score; empty where it has no pair.

        Args:
            catalog: the items.
            chunks: of the row's request.
            table: candidates.
            row: of it.
            used: what `used` returns for the table; None = it is called.

        Returns:
            The text searched with: a chunk of the request, or of the item that led here; and the item's own chunk.
        """
        query_index, item_index = int(table.query_chunk[row]), int(table.item_chunk[row])
        if query_index < 0 or item_index < 0:
            return "", ""
        chunking = self.distinct[(self.used(table) if used is None else used)[row]]
        via = int(table.via_item[row])
        return (
            chunks[query_index] if via < 0 else chunking(catalog[via])[query_index],
            chunking(catalog[int(table.item[row])])[item_index],
        )
