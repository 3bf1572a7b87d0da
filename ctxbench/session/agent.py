"""Agents: the items that there are, how each is included, and the settings that new sessions start with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, cast

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import definition
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
