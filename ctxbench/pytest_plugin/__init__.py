"""The pytest plugin: the fixture `assert_offers`.

`assert_offers` fails a test if a request is not offered the items that you demand. The message says what is missing, by
which rule, by how much, and suggests a fix. `experiments/gate/README.md` shows a test. pytest loads the plugin in every
run where ctxbench is installed, so nothing heavy is imported until a test uses the fixture.

Modules:
    explanations: Explained answers to one request, and messages of failed assertions: missing items, rules, suggested
        fixes.
    setup: The selector and catalog that a team's tests use: their settings, opened once per test session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ctxbench.io.errors import Fault, ParameterError, UserError, joined, message_lines, raise_faults
from ctxbench.pytest_plugin.setup import OpenSetup, Setup, open_setup

if TYPE_CHECKING:
    from ctxbench.model.items import Catalog
    from ctxbench.model.requests import Request
    from ctxbench.model.selection import Selection
    from ctxbench.pytest_plugin.explanations import ExplainedAnswer


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
                position = catalog.find(item_id)
                if position is None:
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
    if shared := [item_id for item_id in include if item_id in exclude]:
        raise ParameterError(f"{', '.join(shared)}: in include and in exclude; no answer does both")
    if not include and not exclude and max_items is None and max_tokens is None:
        raise ParameterError("nothing is demanded: give include, exclude, max_items or max_tokens")


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
