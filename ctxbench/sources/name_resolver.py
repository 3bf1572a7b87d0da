"""Find the catalog items for the names in a log, which are joined with servers, cleaned and cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, ItemKey

AMBIGUOUS, UNKNOWN = "ambiguous", "unknown"
NAME_KEYS = ("tool", "name", "id", "doc_id", "docid", "item_id", "item")
"""Fields that name the item in an entry of a list; the first that holds a text counts."""
CUT_FROM = 55  # characters: a name may have been cut to 60 to 64, its end replaced by a hash

_PREFIX = re.compile(r"(?:functions?[./:]+|mcp(?:__|[./:_-]))", re.IGNORECASE)
_JOINT = re.compile(r"__+|[./:]+")
_OTHER = re.compile(r"[\W_]+")
_HASH = re.compile(r"[_-]?[0-9a-f]{4,12}$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The item of a name.

    Attributes:
        name: as the log has it.
        key: the item, or None.
        rule: by which rule; `ambiguous` or `unknown` where there is no item.
        candidates: the items that an ambiguous name may stand for.
    """

    name: str
    key: ItemKey | None
    rule: str
    candidates: tuple[ItemKey, ...] = ()


class NameResolver:
    """Resolves names by the rules below; the first rule that finds anything decides.

    1. `id`: an item's id, `tool:tracker:create_issue`; the only way to name what is no tool.
    2. `name`: a tool's own name, exactly.
    3. `joined`: server and name, joined by `__`, `.`, `/` or `:`, with or without `mcp__` or `functions.` in front.
    4. `cleaned`: as 3 and 2, but only letters and digits count, their case aside; what is between is one separator.
    5. `cut`: a name of 55 to 64 characters that, without a hash of 4 to 12 hexadecimal digits at its end, starts the
       joined name of an item.

    A rule that finds several items makes the name ambiguous. Answers are kept, so a name is looked up once. An item
    that was renamed goes by its names before, too.
    """

    def __init__(self, catalog: Catalog, renames: Mapping[ItemKey, ItemKey] = MappingProxyType({})) -> None:
        self._catalog = catalog
        self._renames = {old: new for old, new in renames.items() if catalog.find(old) is None}
        self._known: dict[str, Resolved] = {}
        self._by_name: dict[str, list[ItemKey]] = {}
        self._by_parts: dict[tuple[str, str], list[ItemKey]] = {}
        self._by_joined: dict[str, list[ItemKey]] = {}
        self._by_cleaned: dict[str, list[ItemKey]] = {}
        for called, key in [*((item.key, item.key) for item in catalog), *self._renames.items()]:
            if called.type != "tool":
                continue
            server, name = _clean(called.server or ""), _clean(called.name)
            self._by_name.setdefault(called.name, []).append(key)
            self._by_cleaned.setdefault(name, []).append(key)
            if called.server is not None:
                self._by_parts.setdefault((server, name), []).append(key)
                self._by_joined.setdefault(f"{server}_{name}", []).append(key)

    def resolve(self, name: str) -> Resolved:
        """The item of a name."""
        resolved = self._known.get(name)
        if resolved is None:
            resolved = self._known[name] = self._resolve(name)
        return resolved

    def resolved_names(self) -> tuple[Resolved, ...]:
        """Every name that was resolved, in the order of first use."""
        return tuple(self._known.values())

    def _resolve(self, requested: str) -> Resolved:
        name = requested
        try:
            key = ItemKey.parse(name)
        except ParameterError:
            key = None
        if key is not None and self._catalog.find(key := self._renames.get(key, key)) is not None:
            return Resolved(requested, key, "id")
        if key is not None and key.type == "tool" and key.server:
            name = f"{key.server}/{key.name}"  # as an object with server and name, which may be cleaned
        return self._by_rules(requested, name)

    def _by_rules(self, requested: str, name: str) -> Resolved:
        plain = _PREFIX.sub("", name, count=1) if _PREFIX.match(name) else name
        for rule, keys in (
            ("name", self._by_name.get(name, [])),
            ("joined", self._joined(plain) or self._joined(name)),
            ("cleaned", self._cleaned(plain) or self._cleaned(name)),
            ("cut", self._cut(plain) if CUT_FROM <= len(name) <= 64 else []),
        ):
            keys = _distinct(keys)
            if len(keys) == 1:
                return Resolved(requested, keys[0], rule)
            if keys:
                return Resolved(requested, None, AMBIGUOUS, tuple(keys))
        return Resolved(requested, None, UNKNOWN)

    def _joined(self, name: str) -> list[ItemKey]:
        """The items whose server and name are the parts before and after a separator."""
        splits = {(_clean(name[: at.start()]), _clean(name[at.end() :])) for at in _JOINT.finditer(name)}
        return [key for split in sorted(splits) for key in self._by_parts.get(split, ())]

    def _cleaned(self, name: str) -> list[ItemKey]:
        cleaned = _clean(name)
        return self._by_joined.get(cleaned) or self._by_cleaned.get(cleaned, [])

    def _cut(self, name: str) -> list[ItemKey]:
        for start in dict.fromkeys((_clean(_HASH.sub("", name)), _clean(name))):
            keys = [key for joined, keys in self._by_joined.items() if joined.startswith(start) for key in keys]
            if start and keys:
                return keys
        return []


def named(value: Any) -> str:
    """The name that an entry of a log gives: a text, or an object with one of `NAME_KEYS`, and perhaps a `server`.

    An object may also be a tool's definition in the form of MCP, Anthropic (`name`) or OpenAI (`function`).

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(value, dict):
        if isinstance(value.get("function"), dict):
            value = value["function"]
        server = value.get("server", value.get("serverName"))
        name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
        if isinstance(name, str) and isinstance(server, str) and server:
            return ItemKey("tool", server, name).id
        value = name
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value.strip()


def unresolved(resolved: Iterable[Resolved], times: Counter[str], rule: str) -> dict[str, int]:
    """The names without an item by their number in the log, most frequent first."""
    names = {result.name: times[result.name] for result in resolved if result.rule == rule}
    return dict(sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))


def _clean(text: str) -> str:
    return _OTHER.sub("_", text.casefold()).strip("_")


def _distinct(keys: Iterable[ItemKey]) -> list[ItemKey]:
    return list(dict.fromkeys(keys))
