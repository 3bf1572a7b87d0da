"""Agents: the items that there are, how each is included, and the settings that new sessions start with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, cast

from ctxbench.core.errors import ParameterError, suggest
from ctxbench.core.items import INCLUDE_MODES, Catalog, Item, ItemKey
from ctxbench.selectors.definitions import Definition, definition
from ctxbench.selectors.parameters import Value
from ctxbench.steps.format import Messages


@dataclass(frozen=True, eq=False, kw_only=True)
class Agent:
    """What is available: the source of truth for every session. A change gives a new agent; none is changed.

    Attributes:
        catalog: the items, each with its effective include mode (`tool_modes` works that of tools out) and whether it
            is enabled.
        selector: how agent-mode items are found; its format must be `messages`.
        settings: values for the selector's parameters; those not given are its defaults. Copied by every new session.
        system: the system prompt; empty: that of the selector's format.

    Source: the documents, "Agent Level (Available Context)" and "Agent and Session Settings".
    """

    catalog: Catalog
    selector: Definition = field(default_factory=partial(definition, "semantic"))
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""

    def __post_init__(self) -> None:
        values = settled(self.selector, {}, self.settings)
        made = self.selector.pipeline(values).format
        if not isinstance(made.call, Messages):
            raise ParameterError(
                f"a session builds messages, but selector {self.selector.name!r} has format {made.name!r}; "
                "expected format: messages"
            )
        object.__setattr__(self, "settings", MappingProxyType(values))

    @cached_property
    def messages(self) -> Messages:
        """The step that builds what the model is sent."""
        step = cast("Messages", self.selector.pipeline(self.settings).format.call)  # checked when this was made
        return replace(step, system=self.system) if self.system else step

    def item(self, key: ItemKey | str) -> Item | None:
        """The item of this key or id, or None."""
        position = self.catalog.find(key)
        return None if position is None else self.catalog[position]

    def changed(self, key: ItemKey | str, **fields: Any) -> Agent:
        """The agent with other fields of one item: `agent.changed("rule:tone", include="agent")`.

        Raises:
            ParameterError: there is no such item, or a value is wrong.
        """
        position = self.catalog.position(key)
        items = list(self.catalog)
        items[position] = replace(items[position], **fields)
        return replace(self, catalog=Catalog(items))

    def with_item(self, item: Item) -> Agent:
        """The agent with one more item, the last of its catalog.

        Raises:
            InputError: there is one of this identity.
        """
        return replace(self, catalog=self.catalog.extended([item]))

    def without(self, key: ItemKey | str) -> Agent:
        """The agent without an item.

        Raises:
            ParameterError: there is no such item.
        """
        position = self.catalog.position(key)
        return replace(self, catalog=Catalog(item for place, item in enumerate(self.catalog) if place != position))


def settled(selector: Definition, base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Value]:
    """Every setting's value: the selector's defaults, over them `base`, over it what is given, all of it checked.

    Unlike a parameter of a run, a setting may be of no effect for now: a threshold is kept while expansion is off.

    Raises:
        ParameterError: a setting is unknown or out of range; all of them.
    """
    wrong, layers = [], []
    for layer in (base, given):
        checked = {}
        for name, value in layer.items():
            try:
                checked[name] = selector.checked(name, value)
            except ParameterError as error:
                wrong.append(str(error))
        layers.append(checked)
    if wrong:
        raise ParameterError("; ".join(wrong))
    return selector.with_defaults(*layers)


def tool_modes(catalog: Catalog, *, tools: Mapping[str, str], servers: Mapping[str, str]) -> Catalog:
    """Give every tool its effective include mode: its own, else its server's, else `always`.

    Args:
        catalog: items; what the tools among them say of `include` is replaced, and other types stay as they are.
        tools: modes by item id, `tool:tracker:create_issue`.
        servers: modes by server.

    Raises:
        ParameterError: a mode, a tool or a server is unknown; all of them.

    Source: the documents, "For Tools".
    """
    known = [item for item in catalog if item.type == "tool"]
    ids, names = {item.id for item in known}, {item.server for item in known if item.server is not None}
    wrong = [f"no tool {one!r}{suggest(one, ids)}" for one in tools if one not in ids]
    wrong += [f"no tool is of server {one!r}{suggest(one, names)}" for one in servers if one not in names]
    for where, mode in (*tools.items(), *servers.items()):
        if mode not in INCLUDE_MODES:
            wrong.append(f"include of {where} must be one of {', '.join(INCLUDE_MODES)}, got {mode!r}")
    if wrong:
        raise ParameterError("; ".join(wrong))
    return Catalog(
        replace(item, include=tools.get(item.id, servers.get(item.server or "", "always")))
        if item.type == "tool"
        else item
        for item in catalog
    )
