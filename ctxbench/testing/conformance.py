"""The conformance suite: the contract of strategies and selectors.

A test of a plugin is one line for each of its strategies, once the package with its entry point is installed:

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
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ctxbench.core import registry
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import UserError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import Resources, Step, WithFormat
from ctxbench.selectors.selector import Selector
from ctxbench.testing.answer_differences import differences, shuffled_faults
from ctxbench.testing.contract import (
    answer_rows,
    prompt_faults,
    query_faults,
    refine_faults,
    retrieve_faults,
    session_faults,
    table_faults,
)
from ctxbench.testing.mocks import mock_catalog, mock_requests, mock_resources, requests_within

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
        kind: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `fit` or `format`.
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
    """A pipeline over new resources, that shares nothing between calls but those."""
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
    """Run the step alone, on what the steps before it made, and look at what it makes and leaves behind."""
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
    """A hash of all that a step is given."""
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


class _Recording(Resources):
    """Resources that remember which of them were used."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.used: set[str] = set()

    def get(self, name: str) -> Any:
        self.used.add(name)
        return self._resources.get(name)

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        return self._resources.get_or_create(key, make)

    def identity(self, name: str) -> str:
        return self._resources.identity(name)


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
    """Ask the same in many ways; the answers must be equal. `make` gives a subject without any cached state."""
    for case, items, case_requests in _cases(catalog, requests):
        batch = Batch.of(items, case_requests)
        answer = make()
        answers = answer(batch)
        yield from differences(f"{case}, asked twice", answers, answer(batch))
        yield from differences(f"{case}, asked anew", answers, make()(batch))
        some = range(0, len(batch), 3)
        indices = range(len(batch)) if case == _ALL else some  # few items have few ways to differ
        one_by_one = [result for row in indices for result in answer(batch.take([row]))]
        yield from differences(f"{case}, one by one", [answers[row] for row in indices], one_by_one)
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
            yield f"PYTHONHASHSEED={seed}: the process failed with {process.returncode}; its error stands on stderr"
            continue
        for (_, name, parameters, _), ours, line in zip(tasks, expected, out.splitlines(), strict=True):
            suffix = f", {name} {json.dumps(parameters)}" if len(tasks) > 1 else ""
            yield from differences(f"PYTHONHASHSEED={seed}{suffix}", ours, json.loads(line))


def answers_json(kind: str, name: str, parameters: Mapping[str, Any], retrieve: Any) -> str:
    """What the step's pipelines answer to the mock requests, as JSON; what a new process prints."""
    step = Step(kind, name, registry.build(kind, name, parameters))
    batch = Batch.of(mock_catalog(), mock_requests())
    return json.dumps([answer for host in _hosts(step, retrieve).values() for answer in _fresh(host)(batch)])
