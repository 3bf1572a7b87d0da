"""What the fixture `assert_offers` gives: assertions on what a selector offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ctxbench.core.errors import Fault, ParameterError, UserError, raise_faults
from ctxbench.pytest_plugin.setup import OpenSetup, Setup

if TYPE_CHECKING:
    from ctxbench.core.items import Catalog
    from ctxbench.core.requests import Request
    from ctxbench.core.selection import Selection
    from ctxbench.pytest_plugin.explained_request import ExplainedAnswer


class AssertOffers:
    """Asserts what a selector offers a request. Made by the fixture of that name, one a test.

    An item counts as offered too if the session holds it. Numbers of items and tokens are of what the selector adds.
    """

    def __init__(self, setup: Setup, open_setup: Callable[[Setup], OpenSetup]) -> None:
        """Assert on the answers of a setup.

        Args:
            setup: what is asked.
            open_setup: opens it, once a test session.
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
        """Assert on what a request is offered.

        Args:
            text: what the user asks; or a whole request, with its history, scope and session.
            include: ids of items that must be offered.
            exclude: ids of items that must not be offered.
            max_items: how many items the selector may add at most.
            max_tokens: how many prompt tokens these may have at most.
            session: ids of items that the session holds; None = a new session, which holds the `always` items.

        Returns:
            What was offered.

        Raises:
            AssertionError: the demands are not met; says why, and what would mend it.
            ParameterError, InputError: nothing is demanded, or an id is unknown.
            SelectorError: an outside selector failed.
        """
        __tracebackhide__ = True
        try:
            opened = self._open(self._setup)
            wanted, unwanted = _known(opened.catalog, include=include, exclude=exclude)
            _check_demands(wanted, unwanted, max_items=max_items, max_tokens=max_tokens)
            asked = self._ask(opened, text, session)
        except UserError as error:
            from ctxbench.pytest_plugin.explained_request import fit_to_print

            raise fit_to_print(error) from None
        if message := _unmet(asked, wanted, unwanted, max_items=max_items, max_tokens=max_tokens):
            raise AssertionError(message)
        return asked.selection

    def using(self, *, catalog: str = "", selector: str = "", embedder: str = "") -> AssertOffers:
        """The same with another catalog, selector or embedder, each named as in `Setup`; empty = as it is."""
        given = {"catalog": catalog, "selector": selector, "embedder": embedder}
        setup = replace(self._setup, **{name: value for name, value in given.items() if value})
        return AssertOffers(setup, self._open)

    def _ask(self, opened: OpenSetup, text: str | Request, session: Iterable[str] | None) -> ExplainedAnswer:
        from ctxbench.core.items import ItemKey
        from ctxbench.core.requests import Request, SessionItem
        from ctxbench.pytest_plugin.explained_request import ask

        if isinstance(text, Request):
            if session is not None:
                raise ParameterError("a whole request says itself what the session holds; leave session out")
            return ask(opened, text)
        if not isinstance(text, str):
            raise ParameterError(f"what is asked must be a text or a Request, got {text!r}")
        held = None
        if session is not None:
            (ids,) = _known(opened.catalog, session=session)
            held = tuple(SessionItem(ItemKey.parse(one)) for one in ids)
        return ask(opened, Request(id="assert_offers", text=text, session=held))


def _known(catalog: Catalog, **lists: Iterable[str]) -> list[tuple[str, ...]]:
    """Lists of item ids, by what they are, as the catalog writes them.

    Raises:
        ParameterError: one is a single text, or an id occurs twice in it.
        InputError: ids are unknown or none; all of them, each with the closest known ones.
    """
    from ctxbench.core.item_suggestions import suggest_items

    read, faults = [], []

    def closest(text: str) -> str:
        open_to_all = catalog.facts.open_to(None, None).tolist()  # what else there is, is suggested to nobody
        return suggest_items(text, [one for one, is_open in zip(catalog.ids, open_to_all, strict=True) if is_open])

    for what, ids in lists.items():
        if isinstance(ids, str):
            raise ParameterError(f"{what} must be a list of item ids, got the text {ids!r}; write {what}=[{ids!r}]")
        found: list[str] = []
        for one in ids:
            try:
                place = catalog.find(one)
                if place is None:
                    faults.append(Fault(f"{what}: the catalog has no item {one!r}{closest(one)}"))
                else:
                    found.append(catalog.ids[place])
            except ParameterError as error:
                faults.append(Fault(f"{what}: {error}{closest(str(one))}"))
        twice = [one for place, one in enumerate(found) if one in found[:place]]
        if twice and not faults:
            raise ParameterError(f"{what} names {twice[0]} twice")
        read.append(tuple(found))
    raise_faults(faults)
    return read


def _check_demands(
    include: Sequence[str], exclude: Sequence[str], *, max_items: int | None, max_tokens: int | None
) -> None:
    for name, value in (("max_items", max_items), ("max_tokens", max_tokens)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise ParameterError(f"{name} must be a whole number, 0 or more, got {value!r}")
    if both := [one for one in include if one in exclude]:
        raise ParameterError(f"{', '.join(both)}: in include and in exclude; no answer does both")
    if not include and not exclude and max_items is None and max_tokens is None:
        raise ParameterError("nothing is demanded: give include, exclude, max_items or max_tokens")


def _unmet(
    asked: ExplainedAnswer,
    include: Sequence[str],
    exclude: Sequence[str],
    *,
    max_items: int | None,
    max_tokens: int | None,
) -> str:
    """What is said of demands that are not met; empty if all are."""
    from ctxbench.pytest_plugin.explained_request import absence_lines, presence_lines, report, too_long, too_many

    offered = asked.offered
    findings = [absence_lines("missing", one, asked) for one in include if one not in offered]
    findings += [presence_lines("unwanted", one, asked) for one in exclude if one in offered]
    if max_items is not None and len(asked.added) > max_items:
        findings.append(too_many(asked, max_items))
    if max_tokens is not None and sum(one.tokens for one in asked.added) > max_tokens:
        findings.append(too_long(asked, max_tokens))
    return report("not offered as demanded", asked, findings) if findings else ""
