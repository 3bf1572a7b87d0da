"""Conformance suites for strategies, selectors and stores.

A test of a plugin is one line per strategy, once the package with its entry point is installed:

    def test_my_cut_conforms() -> None:
        check_step("cut", "my_cut", {"margin": 0.1})
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from ctxbench.io.errors import InputError, ParameterError, UserError
from ctxbench.memory.memories import ASKED, LONGEST, Event, Memory, Relationship
from ctxbench.memory.stores import MemoryStore
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.model.resources import Resources, WithinResources
from ctxbench.model.strategies import Step, WithFormat
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.selector import Selector
from ctxbench.testing.contract import (
    answer_rows,
    differences,
    mock_catalog,
    mock_requests,
    mock_resources,
    prompt_faults,
    query_faults,
    refine_faults,
    requests_within,
    retrieve_faults,
    session_faults,
    shuffled_faults,
    table_faults,
)

T = TypeVar("T")
P = ParamSpec("P")
Answer = Callable[[Batch], list[dict[str, Any]]]
PROCESSES = 3
_ALL = "all items"  # the case that is tried in every way


class ConformanceError(UserError, AssertionError):
    """A strategy or selector does not conform; `faults` has every fault."""

    def __init__(self, subject: str, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        count = f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
        super().__init__("\n".join([f"{subject} does not conform, {count}:", *(f"  {fault}" for fault in faults)]))


def check_step(
    kind: str,
    name: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    retrieve: Any = "dense",
    processes: int = PROCESSES,
) -> None:
    """Check a registered strategy for everything that pipelines, caches and reports rely on.

    It is run on `mock_catalog` and `mock_requests`, on no item, one item and no request: a batch must equal its
    requests one by one, to the bit; new processes with other hash seeds must answer with the same bytes; what was
    given must be as before; ties must follow the catalog; another order of requests or items must change nothing
    else; rows must keep the contract of `Candidates`; every resource used must be declared in `uses`; a step built
    again from its description must be equal to it.

    Args:
        kind: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `pack` or `format`.
        name: what the strategy is registered as.
        parameters: as in a pipeline's specification.
        retrieve: specification of the retriever that a refining or format step stands behind.
        processes: how many new processes are started.

    Raises:
        ConformanceError: anything does not hold; all that was found.
        UnknownNameError: nothing is registered under the name.
        ParameterError: a parameter does not suit it.
    """
    step = Step(kind, name, registry.build(kind, name, parameters or {}))
    faults = _Faults()
    faults.check("description", _description_faults, step)
    for label, host in _hosts(step, retrieve).items():
        for case, catalog, requests in _cases():
            faults.check(f"contract, {label}, {case}", _contract_faults, step, host, catalog, requests)
        faults.check(label, _answer_faults, partial(_fresh, host))
    faults.check("description after use", _description_faults, step)
    if processes and not faults.messages:
        task = (kind, name, dict(parameters or {}), retrieve)
        faults.check("new processes", process_faults, [task], processes=processes)
    faults.finish(f"{kind} strategy {name!r}")


def check_selector(
    selector: Selector, *, catalog: Catalog | None = None, requests: Sequence[Request] | None = None
) -> None:
    """Check a selector for everything that the runner and the reports rely on; a pipeline or an external one.

    As `check_step`, but in this process only, as a selector cannot be built anew from its name; and another order
    of items is tried only where the scores are the selector's own.

    Args:
        selector: asked many times, so it should be fast.
        catalog: default `mock_catalog`.
        requests: over `catalog`; default `mock_requests`.

    Raises:
        ConformanceError: anything does not hold; all that was found.
    """
    faults = _Faults()
    described = selector.describe()
    faults.check("description", _json_faults, described)
    if not isinstance(selector.name, str) or not selector.name:
        faults.messages.append(f"name must be a text that is not empty, got {selector.name!r}")
    main = (mock_catalog() if catalog is None else catalog, mock_requests() if requests is None else tuple(requests))
    for case, items, case_requests in _cases(*main):
        faults.check(f"contract, {case}", _selector_faults, selector, items, case_requests)
    scored = not faults.messages and selector.select(Batch.of(*main)).scored
    faults.check("answers", _answer_faults, lambda: partial(_selected, selector), *main, scored=scored)
    if selector.describe() != described:
        faults.messages.append("description: it changes by use")
    faults.finish(f"selector {selector.name!r}")


class _Faults:
    """Runs checks and collects what they find; an exception in a check is a finding."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.cause: Exception | None = None

    def check(self, label: str, faults: Callable[P, Iterator[str]], *args: P.args, **keywords: P.kwargs) -> None:
        try:
            for fault in faults(*args, **keywords):
                self.messages.append(f"{label}: {fault}")
        except Exception as error:  # noqa: BLE001 - whatever a foreign strategy raises is its fault, and is reported
            self.messages.append(f"{label}: {type(error).__name__}: {error}")
            self.cause = self.cause or error

    def finish(self, subject: str) -> None:
        if self.messages:
            raise ConformanceError(subject, list(dict.fromkeys(self.messages))) from self.cause


def _hosts(step: Step, retrieve: Any) -> dict[str, Pipeline]:
    """Pipelines that contain the step, by the label that messages use."""
    if step.kind in ("analyse", "retrieve", "format"):
        changes: dict[str, Any] = {step.kind: step}
        host = Pipeline.of({"retrieve": retrieve, "refine": [{"first": {"n": 1}}]})
        return {"in a pipeline": dataclasses.replace(host, **changes)}
    specs = {
        "behind the retriever": {"retrieve": retrieve},
        "behind a cut": {"retrieve": retrieve, "refine": [{"first": {"n": 3}}]},
        "behind everything": {"retrieve": "everything"},
    }
    hosts = {label: Pipeline.of(spec) for label, spec in specs.items()}
    return {label: dataclasses.replace(host, refine=(*host.refine, step)) for label, host in hosts.items()}


def _cases(
    catalog: Catalog | None = None, requests: Sequence[Request] | None = None
) -> Iterator[tuple[str, Catalog, tuple[Request, ...]]]:
    """Catalogs and requests over them: all, none and one of each."""
    catalog = mock_catalog() if catalog is None else catalog
    requests = mock_requests() if requests is None else tuple(requests)
    yield _ALL, catalog, requests
    yield "no request", catalog, ()
    example = next((item for item in catalog if item.enabled and item.include == "agent"), None)
    for label, items in (("no item", []), ("one item", [] if example is None else [example])):
        part = Catalog(items)
        yield label, part, requests_within(part, requests)


def _fresh(pipeline: Pipeline) -> Answer:
    """A pipeline over new resources; calls share these only."""
    resources = mock_resources()

    def answer(batch: Batch) -> list[dict[str, Any]]:
        outcome = pipeline.run(batch, resources)
        return answer_rows(outcome.query, outcome.candidates, pipeline.prompts(outcome, resources))

    return answer


def _selected(selector: Selector, batch: Batch) -> list[dict[str, Any]]:
    answers = selector.select(batch)
    return answer_rows(answers.query, answers.candidates)


def _description_faults(step: Step) -> Iterator[str]:
    """A description must hold every parameter, as JSON, and give the same step again."""
    strategy = type(step.call)
    settings = getattr(strategy, "__dataclass_params__", None)
    if settings is None or not settings.frozen or not settings.eq:
        yield f"{strategy.__name__} must be a frozen dataclass whose fields are its parameters"
        return
    parameters = registry.parameters(step.call)
    if reserved := {"step", "version"} & set(parameters):
        yield f"a parameter must not be called {' or '.join(sorted(reserved))}"
    yield from _json_faults(step.describe())
    if registry.build(step.kind, step.name, json.loads(json.dumps(parameters))) != step.call:
        yield f"a step built again from its description is another one: {parameters}"


def _json_faults(described: Any) -> Iterator[str]:
    try:
        json.dumps(described, allow_nan=False)
    except (TypeError, ValueError) as error:
        yield f"it must be JSON: {error}"


def _contract_faults(step: Step, host: Pipeline, catalog: Catalog, requests: Sequence[Request]) -> Iterator[str]:
    """Run the step alone, on the output of earlier steps; check its output and that its arguments are unchanged."""
    batch = Batch.of(catalog, requests)
    before = Pipeline.of({"retrieve": "everything"})  # what the step is given if it analyses or retrieves
    if step.kind in registry.REFINE_KINDS:
        before = dataclasses.replace(host, refine=host.refine[:-1])
    elif step.kind == "format":
        before = host
    resources = _Recording(WithFormat(mock_resources(), host.format))
    outcome = before.run(batch, mock_resources())
    query, table = outcome.query, outcome.candidates
    state = _state(batch, table)
    if step.kind == "analyse":
        yield from query_faults(batch, step.call(batch, resources))
    elif step.kind == "retrieve":
        result = step.call(query, resources)
        yield from table_faults(query, result)
        yield from retrieve_faults(result)
    elif step.kind == "format":
        prompts = step.call(query, table, resources)
        yield from prompt_faults(batch, prompts)
        if step.call(query, table.select_rows(table.chosen), resources) != prompts:
            yield "what was left out must not reach the prompt"
    else:
        after = step.call(query, table, resources)
        yield from table_faults(query, after)
        yield from session_faults(batch, after)
        may = {"promotes": bool(step.declared("promotes")), "expands": step.expands}
        yield from refine_faults(step.kind, table, after, **may)
    if _state(Batch.of(Catalog(catalog), requests), table) != state or _state(batch, table) != state:
        yield "it changed what it was given (catalog, requests or candidates)"
    if missing := resources.used - set(step.uses):
        yield f"it uses {', '.join(sorted(missing))}; declare that in `uses`, caches rely on it"


def _state(batch: Batch, table: Candidates) -> str:
    """A hash of all arguments of a step."""
    digest = hashlib.sha256(Catalog(batch.catalog).hash.encode())
    digest.update(json.dumps([request.as_dict() for request in batch.requests]).encode())
    arrays = [
        batch.visible[:],
        batch.eligible[:],
        batch.session_start,
        batch.session_item,
        batch.session_mode,
        table.start,
    ]
    arrays += [getattr(table, name) for name in table.row_arrays()] + list(table.columns.values())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(repr((table.rules, list(table.columns))).encode())
    return digest.hexdigest()


class _Recording(WithinResources):
    """Resources that remember which of them were used."""

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources)
        self.used: set[str] = set()

    def get(self, name: str) -> Any:
        self.used.add(name)
        return super().get(name)


def _selector_faults(selector: Selector, catalog: Catalog, requests: Sequence[Request]) -> Iterator[str]:
    batch = Batch.of(catalog, requests)
    answers = selector.select(batch)
    yield from (f"request {batch.ids[row]!r} failed: {message}" for row, message in answers.errors.items())
    if answers.seconds is not None and answers.seconds.shape != (len(batch),):
        yield f"seconds has shape {answers.seconds.shape}, expected ({len(batch)},)"
    yield from query_faults(batch, answers.query)
    yield from table_faults(answers.query, answers.candidates)
    yield from session_faults(batch, answers.candidates)


def _answer_faults(
    make: Callable[[], Answer],
    catalog: Catalog | None = None,
    requests: Sequence[Request] | None = None,
    *,
    scored: bool = True,
) -> Iterator[str]:
    """Ask the same in several ways; answers must be equal. `make` returns a subject without cached state."""
    for case, items, case_requests in _cases(catalog, requests):
        batch = Batch.of(items, case_requests)
        answer = make()
        answers = answer(batch)
        yield from differences(f"{case}, asked twice", answers, answer(batch))
        yield from differences(f"{case}, asked anew", answers, make()(batch))
        some = range(0, len(batch), 3)
        one_by_one = [result for row in some for result in answer(batch.take([row]))]
        yield from differences(f"{case}, one by one", [answers[row] for row in some], one_by_one)
        if case == _ALL:
            alone = [result for row in some for result in make()(batch.take([row]))]
            yield from differences(f"{case}, one by one with nothing kept", [answers[row] for row in some], alone)
        rows = random.Random(11).sample(range(len(batch)), len(batch))  # noqa: S311 - any fixed order does
        yield from differences(f"{case}, requests shuffled", [answers[row] for row in rows], answer(batch.take(rows)))
        for seed in (0, 1) if scored else ():  # without scores nobody knows which items are tied
            mixed = Catalog(random.Random(seed).sample(list(items), len(items)))  # noqa: S311
            for left, right in zip(answers, answer(Batch.of(mixed, case_requests)), strict=True):
                yield from shuffled_faults(f"{case}, items shuffled", left, right)


Task = tuple[str, str, dict[str, Any], Any]
"""A strategy's kind, name and parameters, and the retriever before it."""


def process_faults(tasks: Sequence[Task], *, processes: int = PROCESSES) -> Iterator[str]:
    """Answer in new processes, each with another hash seed, and compare with the answers of this one.

    Args:
        tasks: each process answers for all of them.
        processes: how many are started, >= 0.

    Yields:
        What differs, or that a process failed; nothing where all are alike.
    """
    expected = [json.loads(answers_json(*task)) for task in tasks]
    code = (
        "import json, sys; from ctxbench.testing.conformance import answers_json as a\n"
        "for task in json.load(sys.stdin): print(a(*task))"
    )
    running = []
    for _ in range(processes):
        seed = str(secrets.randbelow(2**32))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(  # noqa: S603 - this interpreter and a fixed program
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        running.append((seed, process))
    for seed, process in running:
        out, _ = process.communicate(json.dumps(tasks))
        if process.returncode:
            yield f"PYTHONHASHSEED={seed}: the process failed with {process.returncode}; its error is on stderr"
            continue
        for (_, name, parameters, _), ours, line in zip(tasks, expected, out.splitlines(), strict=True):
            suffix = f", {name} {json.dumps(parameters)}" if len(tasks) > 1 else ""
            yield from differences(f"PYTHONHASHSEED={seed}{suffix}", ours, json.loads(line))


def answers_json(kind: str, name: str, parameters: Mapping[str, Any], retrieve: Any) -> str:
    """The answers of the step's pipelines to the mock requests, as JSON; printed by a new process."""
    step = Step(kind, name, registry.build(kind, name, parameters))
    batch = Batch.of(mock_catalog(), mock_requests())
    return json.dumps([answer for host in _hosts(step, retrieve).values() for answer in _fresh(host)(batch)])


_FIRST, _LATER, _LAST = (f"2026-03-0{day}T00:00:00+00:00" for day in (1, 2, 3))


def check_store(make: Callable[[], MemoryStore]) -> None:
    """Check a store for everything that catalogs, searches and caches rely on.

    Args:
        make: gives a new store without a workspace; each is closed at the end of its check.

    Raises:
        ConformanceError: anything does not hold; all that was found.
    """
    faults: list[str] = []
    for check in (
        _kept,
        _all_or_none,
        _versioned,
        _deleted,
        _related,
        _apart,
        _grown,
        _refused,
        _typed,
        _recorded,
        _sufficed,
        _requested,
    ):
        with closing(make()) as store:
            try:
                for name in ("one", "two", "one"):
                    store.create_workspace(name)
                faults.extend(
                    f"{label}: expected {expected!r:.300}, got {got!r:.300}"
                    for label, got, expected in check(store)
                    if got != expected
                )
            except Exception as error:  # noqa: BLE001 - whatever a store raises is its fault, and is reported
                faults.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
    if faults:
        raise ConformanceError(f"store {type(store).__name__}", faults)


Found = Iterator[tuple[str, Any, Any]]
"""What was looked at, what was found, and what is right."""


def _memory(id_: str, workspace: str = "one", **fields: Any) -> Memory:
    return Memory(id=id_, workspace=workspace, **{"content": f"text of {id_}", "created": _FIRST, **fields})


def _link(source: str, target: str, type_: str = "follows", workspace: str = "one") -> Relationship:
    return Relationship(workspace=workspace, source=source, target=target, type=type_)


def _names(store: MemoryStore, workspace: str = "one") -> list[str]:
    return [item.name for item in store.catalog(workspace)]


def _kept(store: MemoryStore) -> Found:
    memory = _memory("a", kind="fact", confidence=0.25, conversation="c/1", user="u", metadata={"n": [1, {"é": None}]})
    yield "what insert returns", store.insert(memory), memory
    yield "what get returns", store.get("one", "a"), memory
    store.close()
    yield "get after close", store.get("one", "a"), memory
    store.insert(_memory("b", created="2026-03-01T01:30:00.5+02:00", content="first\r\n\tsecond"))
    yield "a time with an offset", store.get("one", "b").created, "2026-02-28T23:30:00.500000+00:00"
    store.insert(_memory("c", created="2026-03-01"))
    yield "a date, which is UTC", store.get("one", "c").created, _FIRST
    yield "whether a time was set", store.insert(_memory("d", created=None)).created is None, False
    done: list[tuple[int, int]] = []
    memories = [_memory(f"m{n}") for n in range(2001)]
    yield "insert_many", store.insert_many(iter(memories), progress=lambda *counts: done.append(counts)), 2001
    yield "progress of 2,001", done, [(1000, 2001), (2000, 2001), (2001, 2001)]
    yield "order of the catalog", _names(store)[3:], ["d@1", *(f"m{n}@1" for n in range(2001))]
    yield "insert_many of none", store.insert_many([]), 0
    item = store.catalog("one")[0]
    facts = (item.type, item.text, item.workspace, item.user, item.kind, item.conversation, item.metadata)
    yield "an item", facts, ("memory", memory.content, "one", "u", "fact", "c/1", {"n": [1, {"é": None}]})
    yield "times of an item", (item.created, item.until, item.confidence), (_FIRST, None, 0.25)


def _all_or_none(store: MemoryStore) -> Found:
    store.insert(_memory("a"))
    catalog = store.catalog("one")
    with suppress(InterruptedError), store.together():
        store.insert_many([_memory("b"), _memory("c")])
        store.update("one", "a", content="new")
        store.relate(_link("a", "b"))
        store.record(Event(kind="access", workspace="one", id="b"))
        yield "the catalog inside `together`", _names(store), ["a@1", "b@1", "c@1", "a@2"]
        raise InterruptedError
    yield "the catalog after a failure inside `together`", store.catalog("one").hash, catalog.hash
    yield "events after it", store.events("one"), ()
    yield "relationships after it", store.relationships("one", "a"), ()
    with store.together():
        store.insert(_memory("b"))
    yield "the catalog after `together`", _names(store), ["a@1", "b@1"]


def _versioned(store: MemoryStore) -> Found:
    store.insert(_memory("a", kind="fact"))
    new = store.update("one", "a", at=_LATER, content="new", confidence=0.5)
    yield "the new version", new, _memory("a", kind="fact", content="new", confidence=0.5, created=_LATER, version=2)
    yield "the current version", store.get("one", "a"), new
    yield "the old version's end", store.get("one", "a", at="2026-03-01T12:00:00").until, _LATER
    yield "at the moment of the change", store.get("one", "a", at=_LATER), new
    yield "a second change at that moment", store.update("one", "a", at=_LATER, content="newer").version, 3
    yield "version there then", store.get("one", "a", at=_LAST).version, 3
    ends = [(item.name, item.until) for item in store.catalog("one")]
    yield "the catalog", ends, [("a@1", _LATER), ("a@2", _LATER), ("a@3", None)]


def _deleted(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("b"), _memory("c"), _memory("d")])
    store.update("one", "a", content="new")
    for link in (_link("a", "b"), _link("b", "c")):
        store.relate(link)
    store.delete("one", "a", "d")
    yield "the catalog after delete", _names(store), ["b@1", "c@1"]
    yield "relationships after delete", store.relationships("one", "b"), (_link("b", "c"),)
    yield "versions of an id used again", store.insert(_memory("a")).version, 1


def _related(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("b"), _memory("c")])
    circle = (_link("a", "b"), _link("b", "c"), _link("c", "a"), _link("a", "b", "repeats"))
    for link in (*circle, circle[0]):
        store.relate(link)
    yield "relationships", store.relationships("one", "a"), (circle[0], circle[2], circle[3])
    store.update("one", "b", content="new", at=_LATER)
    links = {item.name: [(link.type, link.item.name) for link in item.links] for item in store.catalog("one")}
    versions = [(kind, name) for kind in ("follows", "repeats") for name in ("b@1", "b@2")]
    follows = {id_: [("follows", name)] for id_, name in (("b@1", "c@1"), ("c@1", "a@1"), ("b@2", "c@1"))}
    yield "links, between versions of one time", links, {"a@1": versions, **follows}
    store.unrelate(circle[0])
    yield "relationships after unrelate", store.relationships("one", "b"), (circle[1], circle[3])


def _apart(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("a", "two", content="of two"), _memory("b", "two")])
    yield "workspaces", store.workspaces(), ("one", "two")
    yield "the other's memory", store.get("two", "a").content, "of two"
    before = store.revision("one"), store.catalog("one")
    store.update("two", "a", content="new")
    store.delete("two", "a")
    yield "catalogs", (_names(store), _names(store, "two")), (["a@1"], ["b@1"])
    yield "what another's writes change", (store.revision("one"), store.catalog("one") is before[1]), (before[0], True)


def _grown(store: MemoryStore) -> Found:
    store.insert(_memory("a"))
    first, revision = store.catalog("one"), store.revision("one")
    first.hash_of("search_text")
    store.insert_many([_memory("b"), _memory("c")])
    second = store.catalog("one")
    yield "whether inserts count", store.revision("one") > revision, True
    yield "what it extends", [n for n, _ in second.prefixes("search_text")], [1]
    yield "the catalog before", [item.name for item in first], ["a@1"]
    store.update("one", "b", at=_LATER, content="new")
    third = store.catalog("one")
    yield "what it extends after an update", [n for n, _ in third.prefixes("search_text")], [3, 1]
    yield "ends after an update", [item.until for item in third], [None, _LATER, None, None]
    yield "the catalog before an update", [item.until for item in second], [None, None, None]
    store.relate(_link("a", "b"))
    yield "the catalog after a relationship", store.catalog("one").hash == third.hash, False


def _refused(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("b")])
    before = store.catalog("one").hash, store.revision("one")
    wrong: list[Any] = [{"x": float("inf")}, {"x": object()}, {1: 2}, []]
    invalid = [
        *(_memory("c", content=text) for text in ("", " \n", "x\0", "\x1b[2J", "\ud800", "x" * (LONGEST + 1))),
        *(_memory("c", confidence=number) for number in (-0.1, 1.1, float("nan"), True, 10**400)),
        *(_memory("c", created=text) for text in ("yesterday", "0001-01-01T00:00:00+10:00")),
        *(_memory("c", metadata=data) for data in wrong),
        *(_memory(name) for name in ("", "a@1", "a", "a\nb")),
        *(_memory("x.md", type="file", content=text) for text in ("\x7fELF\0\0", b"bytes", "x" * (LONGEST + 1))),
        *(_memory("c", type=name) for name in ("rule", "", None)),
        _memory("c@1", type="message"),
        *(_memory("c", "three"), _memory("c", version=2), _memory("c", until=_LAST), _memory("c", kind="")),
    ]
    calls: list[tuple[Callable[..., Any], Any]] = [(store.insert, memory) for memory in invalid]
    calls += [
        (lambda change: store.update("one", "a", **change), change) for change in ({"content": ""}, {"version": 3}, {})
    ]
    calls += [(lambda at: store.update("one", "a", content="new", at=at), at) for at in ("2026-02-28", "soon")]
    links = (_link("a", "a"), _link("a", "gone"), _link("gone", "a"), _link("a", "b", ""), _link("a", "b", "x", "two"))
    calls += [*((store.relate, link) for link in links), (store.unrelate, _link("a", "b"))]
    calls += [(lambda id_: store.delete("one", "a", id_), "gone"), (lambda id_: store.get("one", id_), "gone")]
    calls += [(lambda at: store.get("one", "a", at=at), at) for at in ("2026-02-28", "soon")]
    calls += [(store.catalog, "three"), (store.revision, "three"), (store.create_workspace, " ")]
    for call, argument in calls:
        yield f"refusal of {argument!r:.80}", _error(call, argument), ParameterError
    long = _memory("c", metadata={"x": 10**5000})
    yield "refusal of a number too long to be written", _error(store.insert, long), ParameterError
    yield "refusal of many", _error(store.insert_many, [_memory("c"), *invalid]), InputError
    yield "refusal of one id twice", _error(store.insert_many, [_memory("c"), _memory("c")]), InputError
    yield "what is there after refusals", (store.catalog("one").hash, store.revision("one")), before


def _typed(store: MemoryStore) -> Found:
    file = _memory("docs/a@2.md", type="file", kind="text/markdown")
    yield "what insert returns of a file", store.insert(file), file
    store.insert(_memory("m1", type="message", kind="user", conversation="t"))
    store.update("one", file.id, at=_LATER, content="new")
    current = store.get("one", file.id)
    yield "the current version of a file", (current.type, current.version), ("file", 2)
    store.relate(_link("m1", file.id))
    items = [(item.type, item.name, item.title, item.kind) for item in store.catalog("one")]
    first, message, second = ("file", f"{file.id}@1"), ("message", "m1@1"), ("file", f"{file.id}@2")
    yield "items", items, [(*first, file.id, file.kind), (*message, "", "user"), (*second, file.id, file.kind)]
    yield "links", [link.item.name for link in store.catalog("one")[1].links], [first[1], second[1]]
    yield "refusal of another type", _error(lambda _: store.update("one", "m1", type="file"), None), ParameterError


def _event(kind: str, id_: str, at: str = _LATER, **fields: Any) -> Event:
    defaults = {"workspace": "one", "user": "u", "conversation": "t", "useful": True if kind == "feedback" else None}
    return Event(**{"kind": kind, "id": id_, "at": at, **defaults, **fields})


def _recorded(store: MemoryStore) -> Found:
    store.insert_many([_memory("a", type="file"), _memory("b", type="file", user="v"), _memory("a", "two")])
    before, revision = store.catalog("one"), store.revision("one")
    rows = [_event("access", "a", _LAST), _event("reference", "a"), _event("feedback", "a", useful=False, user=None)]
    rows[2] = replace(rows[2], metadata={"told": {"text": "häuser"}})
    for row in rows:
        store.record(row)
    yield "events, by time", store.events("one"), (*rows[1:], rows[0])
    yield "those of another workspace", store.events("two"), ()
    yield "the catalog after events", store.catalog("one") is before, True
    yield "whether events count", store.revision("one") > revision, True
    store.record(_event("access", "a", "2026-03-03T02:00:00+02:00"))
    yield "a time with an offset", store.events("one")[-1].at, _LAST
    wrong = [
        *(_event(kind, "gone") for kind in ("reference", "unreference", "access", "feedback")),
        *(_event("reference", "b"), _event("access", "b", user=None)),  # another user's
        *(_event("access", "a", at) for at in ("2026-02-28", "soon")),
        *(_event("look", "a"), _event("reference", "a", conversation=None), _event("access", "a", useful=True)),
        *(_event("feedback", "a", useful=useful) for useful in (None, 1)),
        *(
            _event("access", "a", metadata=metadata)
            for metadata in ({"tags": {"red"}}, {ASKED: "x"}, {ASKED: {"text": "x"}})
        ),
        _event("access", "a", at=cast("str", 5)),
        *(_event("access", "a", user=""), _event("access", "a", workspace="three")),
    ]
    events = store.events("one")
    for row in wrong:
        yield f"refusal of {row!r:.120}", _error(store.record, row), ParameterError
    several = _error(lambda row: store.record(_event("access", "a"), row), wrong[0])
    yield "events after refusals, of several too", (several, store.events("one")), (ParameterError, events)
    store.delete("one", "a")
    yield "events of what was deleted", store.events("one"), ()
    store.insert(_memory("a", type="file"))
    yield "events of an id used again", store.events("one"), ()


def _context(at: str = _LATER, *, items: tuple[str, ...] = ("file:a%401",), **fields: Any) -> Event:
    context = {"context": "c", "text": "who?", "time": _FIRST, "items": list(items)}
    return _event("sufficient", "c", at, **{"useful": False, "metadata": {ASKED: context}, **fields})


def _sufficed(store: MemoryStore) -> Found:
    store.insert_many([_memory("a", type="file"), _memory("b", type="file", user="v"), _memory("d", type="file")])
    rows = [
        _context(_LAST, items=("file:a%401", "file:d%401")),
        _context(items=("file:d%401",), useful=True),
        _context(_LAST, items=()),
    ]
    store.record(*rows)
    yield "what was said of contexts, by time", store.events("one"), (rows[1], rows[0], rows[2])
    wrong = [
        *(_context(useful=useful) for useful in (None, 1)),
        *(
            _context(metadata=metadata)
            for metadata in ({}, {ASKED: {"context": "c", "text": "x", "time": "x", "item": "x"}})
        ),
        _context(metadata={ASKED: {**rows[0].metadata[ASKED], "context": "other"}}),
        *(_context(items=(item,)) for item in ("file:gone%401", "file:b%401", "a")),
        *(_context(at="2026-02-28"), _context(workspace="three", items=())),
    ]
    events = store.events("one")
    for row in wrong:
        yield f"refusal of {row!r:.200}", _error(store.record, row), ParameterError
    yield "what was said after refusals", store.events("one"), events
    yield "no use of anything", store.request("one", "x", user="u", conversation="t").uses, ()
    store.delete("one", "a")
    yield "what was said of contexts that had what was deleted", store.events("one"), (rows[1], rows[2])


def _requested(store: MemoryStore) -> Found:
    files = [_memory(name, type="file") for name in ("a", "b", "c")]
    store.insert_many([*files, _memory("m", type="message", conversation="t"), _memory("own", user="v", type="file")])
    store.update("one", "a", at=_LAST, content="new")
    store.record(_event("reference", "b"), _event("reference", "a"), _event("reference", "c", conversation="other"))
    store.record(_event("reference", "m", user=None), _event("reference", "own", user="v"))
    store.record(_event("unreference", "b", _LAST), _event("unreference", "a", _LAST, user="v"))
    store.record(
        *(_event("access", name, at) for name, at in (("a", _LATER), ("b", _LATER), ("a", _LAST), ("m", _LAST)))
    )
    store.record(_event("access", "c", _LAST, user="v"), _event("access", "c", _LAST, user=None))
    store.record(*(_event("feedback", "a", at) for at in (_LATER, _LAST)), _event("feedback", "b", useful=False))
    store.record(_event("feedback", "b", _LAST, user="v"))

    def request_lists(**options: Any) -> list[Any]:
        row = store.request("one", "x", **options).as_dict()
        return [row.get(name, []) for name in ("explicit", "recent")] + [row.get("uses", {})]

    current = [["file:a%402", "message:m%401"], ["file:a%402", "file:b%401"], {"file:a%402": 2}]
    yield "a request", request_lists(user="u", conversation="t"), current
    earlier = [["file:b%401", "file:a%401", "message:m%401"], ["file:b%401", "file:a%401"], {"file:a%401": 1}]
    yield "a request as of a time", request_lists(user="u", conversation="t", time=_LATER), earlier
    yield "a request before anything was done", request_lists(user="u", conversation="t", time=_FIRST), [[], [], {}]
    of_v = [["message:m%401", "file:own%401"], ["file:c%401"], {"file:b%401": 1}]
    yield "another user's", request_lists(user="v", conversation="t"), of_v
    yield "nobody's", request_lists(conversation="t"), [["message:m%401"], ["file:c%401"], {}]
    yield "an unknown conversation", request_lists(user="u", conversation="gone"), [[], *current[1:]]
    yield "none", request_lists(user="w"), [[], [], {}]
    request = store.request("one", "x", user="u", conversation="t", time="2026-03-02", id="q")
    facts = (request.id, request.text, request.user, request.workspace, request.conversation, request.time)
    yield "what it says besides", facts, ("q", "x", "u", "one", "t", "2026-03-02")
    yield "refusal of a time", _error(lambda at: store.request("one", "x", time=at), "soon"), ParameterError
    yield "refusal of a workspace", _error(lambda name: store.request(name, "x"), "three"), ParameterError
    store.update("one", "a", user="v")
    yield "what became another's", request_lists(user="u", conversation="t"), [["message:m%401"], ["file:b%401"], {}]


def _error(call: Callable[..., Any], argument: Any) -> type[Exception] | None:
    try:
        call(argument)
    except (ParameterError, InputError) as error:
        return ParameterError if isinstance(error, ParameterError) else InputError
    return None
