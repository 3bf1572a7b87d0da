"""Tool rules: tools that go with others, as someone who knows them wrote down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ctxbench.core.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.core.errors import ParameterError, suggest
from ctxbench.core.items import Catalog
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.versions import index_over


@dataclass(frozen=True)
class ToolRules(Strategy):
    """Bring in the tools that a rule names for a tool that was chosen, or whose result is at hand.

    Attributes:
        rules: for everyone: a tool, and the tools to bring in with it: `{read_file: [write_file, search_code]}`.
        agent: the agent's own. Where both name a tool, the agent's list holds; an empty list takes a rule back.
        when: `selected` (the tool was chosen for the request), `result` (the request has a result of it) or `either`.
        session: tools of the session count as chosen, too; not with `result`.

    A tool is named by its name, on whatever server, or as `server/name`; `server/*` are all of a server, and `*/name`
    is the same as `name`. Names that a catalog does not hold do nothing, so that several catalogs can share rules; but
    an experiment stops where a catalog holds none of them. Only items that a search might offer are brought in, each
    with score 1, in catalog order, and none leads further. Each names the tool that led to it, of several the first in
    the catalog; none where the result is of a tool that the catalog lacks. No rule fits: as it was. Cost: a look-up of
    names. Source: document 000, "Tool-specific expansion rules".
    """

    rules: Mapping[str, Any]
    agent: Mapping[str, Any] | None = None
    when: Literal["selected", "result", "either"] = "selected"
    session: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", _rules("rules", self.rules))
        if self.agent is not None:
            object.__setattr__(self, "agent", _rules("agent", self.agent))
        if self.session and self.when == "result":
            raise ParameterError("session does nothing with when: result; leave it out, or write another `when`")
        if not any(self.in_force.values()):
            raise ParameterError("rules must name a tool and the tools to bring in with it; there is no rule")

    @property
    def in_force(self) -> dict[str, tuple[str, ...]]:
        """The rules that hold, the agent's over those for everyone."""
        return {**self.rules, **(self.agent or {})}

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that a rule can add something over the catalog.

        Raises:
            ParameterError: no rule names a tool of it on both sides (with results, to bring in).
        """
        any_source = self.when != "selected"  # the tool of a result need not be in the catalog
        for left, right in self.in_force.items():
            if (any_source or _tools(catalog, left)) and any(_tools(catalog, name) for name in right):
                return
        named = sorted({name for left, right in self.in_force.items() for name in (left, *right)})
        missing = [name for name in named if not _tools(catalog, name)]
        tools = {item.name for item in catalog if item.type == "tool"}
        raise ParameterError(
            f"no rule fits the catalog, which has no tool called {missing[0]!r}{suggest(missing[0], tools)}; "
            "a tool is named as `name` or `server/name`"
        )

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Bring in what the rules name."""
        catalog = query.batch.catalog
        name = ("tool rules", repr(sorted(self.in_force.items())))
        led = index_over(
            catalog, resources, name, over=("type", "server", "name"), make=lambda: _Led(catalog, self.in_force)
        )
        rows: list[tuple[int, int, int]] = []
        chosen = candidates.chosen
        for request in range(len(query.batch)):
            span = candidates.rows(request)
            items = candidates.item[span][chosen[span]]
            leading = chosen[span] & ((candidates.origin[span] != Origin.SESSION) | self.session)
            sources = np.sort(candidates.item[span][leading]).tolist() if self.when != "result" else []
            results = query.batch.requests[request].tool_results if self.when != "selected" else ()
            allowed = query.batch.eligible[request].copy()
            allowed[items] = False
            via = led.to(sources, [tool for tool, _ in results])
            rows += [(request, item, via[item]) for item in sorted(via) if allowed[item]]
        brought = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return add_expanded(
            candidates,
            brought[0],
            brought[1],
            score=np.ones(len(rows), dtype=np.float64),
            via_item=brought[2],
            origin=np.full(len(rows), Origin.EXPANSION, dtype=np.int64),
            mode=np.full(len(rows), Mode.EXPANSION, dtype=np.int64),
        )


class _Led:
    """The rules over one catalog: which positions lead to which."""

    def __init__(self, catalog: Catalog, rules: Mapping[str, Sequence[str]]) -> None:
        self._catalog = catalog
        self._named = {left: _tools(catalog, left) for left in rules}
        self._targets = {
            left: [item for name in right for item in _tools(catalog, name)] for left, right in rules.items()
        }
        self._by_item: dict[int, list[int]] = {}
        for left, items in self._named.items():
            for item in items:
                self._by_item.setdefault(item, []).extend(self._targets[left])

    def to(self, sources: Sequence[int], results: Sequence[str]) -> dict[int, int]:
        """What some tools and the results of some lead to: item to the tool that led there, -1 if none is known."""
        via: dict[int, int] = {}
        called = {item for name in results for item in _tools(self._catalog, name)}
        for source in sorted({*sources, *called}):
            for item in self._by_item.get(source, ()):
                via.setdefault(item, source)
        for name in results:
            if name in self._targets and not _tools(self._catalog, name):
                for item in self._targets[name]:
                    via.setdefault(item, -1)
        return via


def _tools(catalog: Catalog, pattern: str) -> list[int]:
    """The positions of the tools that a name means."""
    return [
        position
        for position, item in enumerate(catalog)
        if item.type == "tool"
        and pattern in (item.name, f"*/{item.name}", f"{item.server}/{item.name}", f"{item.server}/*")
    ]


def _rules(parameter: str, rules: object) -> dict[str, tuple[str, ...]]:
    """Rules as they are written, with tuples for lists.

    Raises:
        ParameterError: they are no mapping from a tool's name to a list of names.
    """
    message = f"{parameter} must map a tool's name to a list of names, for example read_file: [write_file]"
    if not isinstance(rules, Mapping):
        raise ParameterError(f"{message}; got {rules!r}")
    for left, right in rules.items():
        names = [left, *right] if isinstance(right, list | tuple) else [None]
        if not all(isinstance(name, str) and name for name in names):
            raise ParameterError(f"{message}; got {left!r}: {right!r}")
    return {left: tuple(right) for left, right in rules.items()}
