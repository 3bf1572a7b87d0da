"""The pytest plugin: the fixture `assert_offers`.

`assert_offers` fails a test if a request is not offered the items that you demand. The message says what is missing, by
which rule, by how much, and suggests a fix. `experiments/gate/pytest.md` shows a test. pytest loads the plugin in every
run where ctxbench is installed, so nothing heavy is imported until a test uses the fixture.

Modules:
    explanations: Explained answers to one request, and messages of failed assertions: missing items, rules, suggested
        fixes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctxbench.io.errors import (
    Fault,
    ParameterError,
    UnknownNameError,
    UserError,
    joined,
    message_lines,
    raise_faults,
    raise_first,
)

if TYPE_CHECKING:
    from ctxbench.model.items import Catalog
    from ctxbench.model.requests import Request
    from ctxbench.model.selection import Selection
    from ctxbench.pytest_plugin.explanations import ExplainedAnswer, OpenSetup
    from ctxbench.search.resources import LocalResources
    from ctxbench.selectors.definition import Definition
    from ctxbench.selectors.selector import Selector


_DEFAULT = {"selector": "learned", "embedder": "minilm", "tokens": "o200k"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What tests select with. Paths are relative to the root folder of the test run; empty = the default.

    Attributes:
        gate: a gate file, which says all that is not said here.
        catalog: a file of items, a folder that holds `corpus.jsonl`, an agent file, or a dataset's name. Beside a gate
            file the name of one of its datasets; default: the first.
        selector: a shipped selector, `name` or `name/preset`; the YAML file of one's own, `file` or `file#preset`; a
            tuned preset, `presets file#preset`; or an agent file, which is the catalog, too, where none is named.
            Beside a gate file the name of one of its selectors; default: the first. Without a gate file the default is
            that of the agent file that is the catalog, else `learned`.
        embedder: as `ctxbench select --embedder` takes it; default: the gate file's, else `minilm`.
        tokens: the counter of prompt tokens; default: the gate file's, else `o200k`.
    """

    gate: str = ""
    catalog: str = ""
    selector: str = ""
    embedder: str = ""
    tokens: str = ""


def open_setup(setup: Setup, root: Path) -> OpenSetup:
    """Read what a setup names.

    Args:
        setup: what the tests select with.
        root: the folder that paths are relative to.

    Raises:
        UserError: something is missing, unknown or faulty.
    """
    from ctxbench.catalogs.agent_file import is_agent_file

    if setup.gate:
        return _of_gate(setup, root / setup.gate)
    named = setup.selector or (setup.catalog if is_agent_file(root / setup.catalog) else _DEFAULT["selector"])
    agent = named if is_agent_file(root / named) else ""
    if not (catalog_name := setup.catalog or agent):
        raise ParameterError(
            "nothing says which catalog to select from: set ctxbench_catalog (a file, folder or dataset's name) or "
            "ctxbench_gate (a gate file) in the ini options of pytest, or override the fixture ctxbench_setup"
        )
    from ctxbench.datasets.lookup import find_catalog
    from ctxbench.pytest_plugin import explanations
    from ctxbench.selectors.definitions import agent_own_spec
    from ctxbench.selectors.external import ask_anew
    from ctxbench.selectors.selector import PipelineSelector

    path = root / catalog_name
    catalog = find_catalog(str(path) if path.exists() else catalog_name)
    resources = _resources(setup.embedder, setup.tokens)
    agent_spec = agent_own_spec(agent, base=root) if agent else None
    if agent_spec is not None:
        selector, label = agent_spec.make(resources, {}), agent_spec.name
        ask_anew([selector])
    else:
        definition, preset, label = _definition(named, root)
        selector = PipelineSelector(label, definition.pipeline(definition.values(preset)), resources)
    return explanations.OpenSetup(
        label=label,
        catalog_name=catalog_name,
        catalog=catalog,
        selector=selector,
        resources=resources,
        memo={},
        close=partial(_close, (selector,)),
    )


def _definition(selector: str, root: Path) -> tuple[Definition, str | None, str]:
    """A selector, its preset if one is named, and what it is called.

    Raises:
        ParameterError: a file without a preset holds no pipeline.
    """
    from ctxbench.catalogs.agent_file import is_agent_file
    from ctxbench.selectors.definitions import find_definition, is_file, read_definition, read_presets, selector_name

    file, mark, preset = selector.partition("#")
    path = root / file
    if mark and not _holds_pipeline(path):
        return read_presets(path).definition(preset), preset, f"{path.stem}/{preset}"
    if mark:
        definition = read_definition(path)
        return definition, preset, f"{definition.name}/{preset}"
    if is_agent_file(path):
        return *find_definition(selector, base=root), selector_name(selector)
    if is_file(selector) and not _holds_pipeline(path):
        raise ParameterError(
            f"{selector} holds no pipeline: ctxbench_selector takes the YAML file of one, with name and pipeline, or "
            "an agent file; a callable, command or endpoint of your own goes in that or in a gate file (ctxbench_gate)"
        )
    definition, named = find_definition(selector, base=root)
    return definition, named, definition.name if named is None else f"{definition.name}/{named}"


def _holds_pipeline(path: Path) -> bool:
    from ctxbench.io.documents import load_yaml

    data, _ = load_yaml(path)
    return isinstance(data, Mapping) and "pipeline" in data


def _of_gate(setup: Setup, path: Path) -> OpenSetup:
    """One selector of a gate file on the catalog of one of its datasets."""
    from ctxbench.datasets.lookup import open_dataset
    from ctxbench.gate.baseline_rows import VECTORS
    from ctxbench.gate.settings import read_gate
    from ctxbench.pytest_plugin import explanations
    from ctxbench.selectors.external import ask_anew

    gate = read_gate(path)
    experiment = gate.experiment
    datasets = {Path(name).name: name for name in reversed(experiment.datasets)}  # a folder goes by its own name
    named = setup.catalog or Path(experiment.datasets[0]).name
    if named not in datasets:
        raise UnknownNameError("dataset", named, datasets, where=f" of gate file {setup.gate}")
    selectors = [spec.name for spec in experiment.selectors]
    label = setup.selector or selectors[0]
    if label not in selectors:
        raise UnknownNameError("selector", label, selectors, where=f" of gate file {setup.gate}")
    embedder, tokens = setup.embedder or experiment.embedder, setup.tokens or experiment.tokens
    resources = _resources(embedder, tokens, stored=gate.baseline / VECTORS)
    dataset = open_dataset(datasets[named], base=experiment.base)
    memo: dict[str, Any] = {}
    by_name = experiment.make_selectors(resources, memo)
    ask_anew(by_name.values())
    return explanations.OpenSetup(
        label=label,
        catalog_name=dataset.name,
        catalog=dataset.catalog,
        selector=by_name[label],
        resources=resources,
        memo=memo,
        close=partial(_close, tuple(by_name.values())),
    )


def _resources(embedder: str, tokens: str, *, stored: Path | None = None) -> LocalResources:
    """Resources over the vectors of this machine; no model is loaded.

    Args:
        embedder, tokens: names; empty = the default.
        stored: vectors beside a baseline, used where they are there and of the same model.
    """
    from ctxbench.gate.baseline_reader import BaselineStore, accepted_vectors
    from ctxbench.io.files import cache_dir
    from ctxbench.search.embedders import Store, Vectors, VectorStore, open_embedder
    from ctxbench.search.resources import LocalResources
    from ctxbench.search.tokens import open_counter

    model = open_embedder(embedder or _DEFAULT["embedder"])
    store: Store = VectorStore(model.identity)
    if stored is not None and stored.exists():
        vectors = accepted_vectors(stored.parent)
        store = BaselineStore(vectors, model.identity) if vectors.embedder == model.identity.key else store
    return LocalResources(Vectors(model, store), open_counter(tokens or _DEFAULT["tokens"], cache=cache_dir()))


def _close(selectors: tuple[Selector, ...]) -> None:
    for selector in selectors:
        getattr(selector, "close", lambda: None)()


class AssertOffers:
    """Assert what a selector offers for a request. The fixture `assert_offers` makes one per test.

    Items of the session count as offered. Numbers of items and tokens cover what the selector adds.
    """

    def __init__(self, setup: Setup, open_setup: Callable[[Setup], OpenSetup]) -> None:
        """Assert on the answers of a setup.

        Args:
            setup: selector and catalog.
            open_setup: opens the setup, once per test session.
        """
        self._setup = setup
        self._open = open_setup

    def __call__(
        self,
        text: str | Request,
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        max_items: int | None = None,
        max_tokens: int | None = None,
        session: Iterable[str] | None = None,
    ) -> Selection:
        """Assert what a request is offered.

        Args:
            text: the user's message, or a whole request with its history, scope and session.
            include: ids of items that must be offered.
            exclude: ids of items that must not be offered.
            max_items: the most items that the selector may add.
            max_tokens: the most prompt tokens that these may have.
            session: ids of items that the session holds; None = a new session, which holds the `always` items.

        Returns:
            What was offered.

        Raises:
            AssertionError: the demands are not met; the message has reasons and suggested fixes.
            ParameterError, InputError: nothing is demanded, or an id is unknown.
            SelectorError: an external selector failed.
        """
        __tracebackhide__ = True
        try:
            opened = self._open(self._setup)
            included, excluded = _parse_ids(opened.catalog, include=include, exclude=exclude)
            _check_demands(included, excluded, max_items=max_items, max_tokens=max_tokens)
            answer = self._ask(opened, text, session)
        except UserError as error:
            error.args = (joined(message_lines(str(error))),)  # in a form that pytest can print
            raise error.with_traceback(None) from None
        if message := _unmet(answer, included, excluded, max_items=max_items, max_tokens=max_tokens):
            raise AssertionError(message)
        return answer.selection

    def using(self, *, catalog: str = "", selector: str = "", embedder: str = "") -> AssertOffers:
        """Return a copy with another catalog, selector or embedder, each named as in `Setup`; empty = unchanged."""
        changes = {"catalog": catalog, "selector": selector, "embedder": embedder}
        setup = replace(self._setup, **{name: value for name, value in changes.items() if value})
        return AssertOffers(setup, self._open)

    def _ask(self, opened: OpenSetup, text: str | Request, session: Iterable[str] | None) -> ExplainedAnswer:
        from ctxbench.model.items import ItemKey
        from ctxbench.model.requests import Request, SessionItem
        from ctxbench.pytest_plugin.explanations import ask

        if isinstance(text, Request):
            if session is not None:
                raise ParameterError("a whole request says itself what the session holds; leave session out")
            return ask(opened, text)
        if not isinstance(text, str):
            raise ParameterError(f"what is asked must be a text or a Request, got {text!r}")
        items = None
        if session is not None:
            (ids,) = _parse_ids(opened.catalog, session=session)
            items = tuple(SessionItem(ItemKey.parse(item_id)) for item_id in ids)
        return ask(opened, Request(id="assert_offers", text=text, session=items))


def _parse_ids(catalog: Catalog, **lists: Iterable[str]) -> list[tuple[str, ...]]:
    """Parse lists of item ids into the form of the catalog, by name of the argument.

    Raises:
        ParameterError: a list is a text, or has an id twice.
        InputError: ids are unknown or invalid; all of them, each with the closest known ones.
    """
    from ctxbench.model.items import suggest_items

    read, faults = [], []

    def closest(text: str) -> str:
        open_to_all = catalog.facts.open_to(None, None).tolist()  # other items stay private
        return suggest_items(
            text, [item_id for item_id, is_open in zip(catalog.ids, open_to_all, strict=True) if is_open]
        )

    for label, ids in lists.items():
        if isinstance(ids, str):
            raise ParameterError(f"{label} must be a list of item ids, got the text {ids!r}; write {label}=[{ids!r}]")
        known_ids: list[str] = []
        for item_id in ids:
            try:
                if (position := catalog.find(item_id)) is None:
                    faults.append(Fault(f"{label}: the catalog has no item {item_id!r}{closest(item_id)}"))
                else:
                    known_ids.append(catalog.ids[position])
            except ParameterError as error:
                faults.append(Fault(f"{label}: {error}{closest(str(item_id))}"))
        twice = [item_id for index, item_id in enumerate(known_ids) if item_id in known_ids[:index]]
        if twice and not faults:
            raise ParameterError(f"{label} names {twice[0]} twice")
        read.append(tuple(known_ids))
    raise_faults(faults)
    return read


def _check_demands(
    include: Sequence[str], exclude: Sequence[str], *, max_items: int | None, max_tokens: int | None
) -> None:
    for name, value in (("max_items", max_items), ("max_tokens", max_tokens)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise ParameterError(f"{name} must be a whole number, 0 or more, got {value!r}")
    shared = [item_id for item_id in include if item_id in exclude]
    raise_first(
        (shared, f"{', '.join(shared)}: in include and in exclude; no answer does both"),
        (
            not include and not exclude and max_items is None and max_tokens is None,
            "nothing is demanded: give include, exclude, max_items or max_tokens",
        ),
    )


def _unmet(
    answer: ExplainedAnswer,
    include: Sequence[str],
    exclude: Sequence[str],
    *,
    max_items: int | None,
    max_tokens: int | None,
) -> str:
    """Return a message about the demands that are not met; empty if all are."""
    from ctxbench.pytest_plugin.explanations import absence_lines, presence_lines, report, too_long, too_many

    offered = answer.offered
    findings = [absence_lines("missing", item_id, answer) for item_id in include if item_id not in offered]
    findings += [presence_lines("unwanted", item_id, answer) for item_id in exclude if item_id in offered]
    if max_items is not None and len(answer.added) > max_items:
        findings.append(too_many(answer, max_items))
    if max_tokens is not None and sum(item.tokens for item in answer.added) > max_tokens:
        findings.append(too_long(answer, max_tokens))
    return report("not offered as demanded", answer, findings) if findings else ""


__all__ = ["AssertOffers", "Setup"]

_OPTIONS = {
    "gate": "a gate file that says which catalog, selector, embedder and token counter assert_offers uses",
    "catalog": "what assert_offers selects from: a file of items, a folder, or a dataset's name",
    "selector": "which selector it asks: name, name/preset, a pipeline's YAML file, file#preset, an agent file",
    "embedder": "the embedder, as ctxbench select takes it",
    "tokens": "the counter of prompt tokens",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options."""
    for name, about in _OPTIONS.items():
        parser.addini(f"ctxbench_{name}", f"ctxbench: {about}", default="")


@pytest.fixture(scope="session")
def ctxbench_setup(pytestconfig: pytest.Config) -> Setup:
    """The setup of `assert_offers`, from the ini options. Override it to set it in Python."""
    return Setup(**{name: pytestconfig.getini(f"ctxbench_{name}") for name in _OPTIONS})


@pytest.fixture(scope="session")
def _ctxbench_open(pytestconfig: pytest.Config) -> Iterator[Callable[[Setup], OpenSetup]]:
    """Open each setup once per session, and close them at its end."""
    opened: dict[Setup, OpenSetup] = {}

    def open_once(setup: Setup) -> OpenSetup:
        if setup not in opened:
            opened[setup] = open_setup(setup, pytestconfig.rootpath)
        return opened[setup]

    yield open_once
    for setup in opened.values():
        setup.close()


@pytest.fixture
def assert_offers(ctxbench_setup: Setup, _ctxbench_open: Callable[[Setup], OpenSetup]) -> AssertOffers:
    """Assert what a selector offers: `assert_offers("a request", include=[...], exclude=[...], max_items=8)`."""
    wrong = ""
    try:
        _ctxbench_open(ctxbench_setup)
    except UserError as error:
        wrong = f"assert_offers cannot be set up: {error}"
    if wrong:  # out here, so that the report has no "During handling of the above exception"
        pytest.fail(joined(message_lines(wrong)), pytrace=False)
    return AssertOffers(ctxbench_setup, _ctxbench_open)
