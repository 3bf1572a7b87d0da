"""Items and catalogs: what can be put in a prompt, and the immutable set a selector chooses from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from ctxbench.core.errors import Fault, InputError, ParameterError, suggest
from ctxbench.core.times import instant

if TYPE_CHECKING:
    from ctxbench.core.facts import Facts

ITEM_TYPES = ("rule", "reference", "tool", "file", "chunk", "message", "memory")
INCLUDE_MODES = ("always", "manual", "agent")


@lru_cache(maxsize=1 << 16)  # requests with lists of available items name the same few thousand again and again
def _encoded(part: str) -> str:
    return quote(part, safe="", errors="surrogatepass")


class ItemKey(NamedTuple):
    """Identity of an item: the tuple itself, never a joined string, so that `a:b` + `c` is not `a` + `b:c`."""

    type: str
    server: str | None
    name: str

    @property
    def id(self) -> str:
        """The key percent-encoded: `tool:tracker:create_issue`, `rule:code%20review`.

        Every character but letters, digits and `_.-~` is encoded, so ids hold no blank, colon or slash of
        their own and survive tab- and space-separated formats. An item without a server has two parts.
        """
        parts = (self.type, self.name) if self.server is None else (self.type, self.server, self.name)
        return ":".join(map(_encoded, parts))

    @classmethod
    def parse(cls, text: str) -> ItemKey:
        """Read an id back.

        Raises:
            ParameterError: `text` is not `type:name` or `type:server:name`, percent-encoded.
        """
        return _parsed(text)


@lru_cache(maxsize=1 << 16)  # labels name the same few thousand items again and again
def _parsed(text: str) -> ItemKey:
    try:
        parts = [unquote(part, errors="surrogatepass") for part in text.split(":")]
    except UnicodeDecodeError:  # escapes that are no UTF-8, such as %FF
        parts = []
    if len(parts) not in (2, 3) or not all(parts):
        raise ParameterError(
            f"{text!r} is no item id: expected type:name or type:server:name, each part percent-encoded, "
            "for example tool:tracker:create_issue"
        )
    return ItemKey(parts[0], parts[1] if len(parts) == 3 else None, parts[-1])


class Link(NamedTuple):
    """That an item has to do with another one: how, and which."""

    type: str
    item: ItemKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that can be put in a prompt.

    Attributes:
        type: one of `ITEM_TYPES`.
        name: any text that is not empty; with `type` and `server` the item's identity.
        server: the server of a tool, else None.
        description: one or more sentences; may be empty.
        text: the body of a rule, reference, file ...; empty for tools.
        schema: the input schema of a tool, as JSON.
        include: `always` (in every new session), `manual` (only by hand) or `agent` (found by search).
        enabled: False keeps the item out of everything.
        priority: the three-digit level of rules and references; lower is shown first.
        title: shown instead of the name where a person reads.
        metadata: anything else, as JSON; never searched, never sent.
        workspace, user: whose it is; requests of others do not see it. None = everybody's.
        conversation: where it was said.
        created, until: when it began and ended, ISO 8601: a request sees it from the one on and before the other. None
            = always, and not yet.
        confidence: how sure it is, 0 to 1.
        links: what it has to do with other items of the catalog.
    """

    type: str
    name: str
    server: str | None = None
    description: str = ""
    text: str = ""
    schema: Mapping[str, Any] | None = None
    include: str = "agent"
    enabled: bool = True
    priority: int | None = None
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    workspace: str | None = None
    user: str | None = None
    conversation: str | None = None
    created: str | None = None
    until: str | None = None
    confidence: float | None = None
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        if self.type not in ITEM_TYPES:
            raise ParameterError(f"item type must be one of {', '.join(ITEM_TYPES)}, got {self.type!r}")
        if not self.name:
            raise ParameterError(f"an item needs a name that is not empty (type {self.type})")
        if self.server == "":
            object.__setattr__(self, "server", None)
        if self.include not in INCLUDE_MODES:
            raise ParameterError(
                f"include must be one of {', '.join(INCLUDE_MODES)}, got {self.include!r} (item {self.id})"
            )
        if not (self.created is None and self.until is None and self.confidence is None):
            self._check_facts()

    def _check_facts(self) -> None:
        begun, ended = (self._instant(name) for name in ("created", "until"))
        if begun is not None and ended is not None and ended < begun:
            raise ParameterError(
                f"until ({self.until}) is before created ({self.created}); an item ends after it began (item {self.id})"
            )
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ParameterError(f"confidence must be 0 to 1, got {self.confidence} (item {self.id})")

    def _instant(self, name: str) -> int | None:
        text = getattr(self, name)
        try:
            return None if text is None else instant(text)
        except ParameterError as error:
            raise ParameterError(f"{name} {error} (item {self.id})") from None

    @property
    def key(self) -> ItemKey:
        """The identity (type, server, name)."""
        return ItemKey(self.type, self.server, self.name)

    @property
    def id(self) -> str:
        """The identity percent-encoded; see `ItemKey.id`."""
        return self.key.id

    @property
    def search_text(self) -> str:
        """What is indexed: `name: description`, and for all but tools a blank line and the text.

        Parts that are empty are left out with their separators.
        """
        head = f"{self.name}: {self.description}" if self.description else self.name
        return f"{head}\n\n{self.text}" if self.text and self.type != "tool" else head

    @property
    def prompt_text(self) -> str:
        """What the model is sent: the message of a rule or reference, the JSON definition of a tool.

        A tool is `{"name", "description", "inputSchema"}` as compact JSON (the form of MCP's tool list).
        """
        if self.type == "tool":
            tool = {"name": self.name, "description": self.description, "inputSchema": self.schema or {}}
            return json.dumps(tool, ensure_ascii=False, separators=(",", ":"))
        if self.type in ("rule", "reference"):
            return f"{self.type.capitalize()}: {self.text}"
        return self.text

    def as_row(self) -> dict[str, Any]:
        """The item as a row of `corpus.jsonl`: `_id` first, then every field that is not its default."""
        row: dict[str, Any] = {"_id": self.id, "title": self.title or self.name, "text": self.text}
        for name, default in _DEFAULTS:
            value = getattr(self, name)
            if value != default:
                row[name] = value
        if self.links:
            row["links"] = [{"type": link.type, "item": link.item.id} for link in self.links]
        return row


_DEFAULTS: tuple[tuple[str, Any], ...] = tuple(
    (spec.name, {} if spec.name == "metadata" else spec.default)
    for spec in fields(Item)
    if spec.name not in ("title", "text", "links")
)


class Catalog(Sequence[Item]):
    """An immutable sequence of items with distinct identities and a content hash.

    The position of an item is its place in the order of ties, so a catalog is ordered.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        """Take the items in order.

        Raises:
            InputError: two items share an identity; all such pairs are listed.
        """
        self._items = tuple(items)
        self._position: dict[ItemKey, int] = {}
        faults = []
        for position, item in enumerate(self._items):
            first = self._position.setdefault(item.key, position)
            if first != position:
                faults.append(
                    Fault(f"item {item.id} stands at positions {first} and {position}; identities must differ")
                )
        if faults:
            raise InputError(faults, subject="catalog")

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:  # Sequence's overloads say Item for int, tuple for slice
        return self._items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"Catalog({len(self)} items, {self.hash[:12]})"

    @cached_property
    def hash(self) -> str:
        """SHA-256 over every field of every item, in order; equal hashes mean equal catalogs."""
        digest = hashlib.sha256()
        for item in self._items:
            row = json.dumps(item.as_row(), ensure_ascii=True, separators=(",", ":"))  # a schema's order is sent, too
            digest.update(row.encode("ascii") + b"\n")
        return digest.hexdigest()

    @cached_property
    def facts(self) -> Facts:
        """What is known of the items beside their texts.

        Raises:
            InputError: links lead to items that are not there.
        """
        from ctxbench.core.facts import Facts  # numpy waits until something is selected

        return Facts.of(self._items, self.find)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The percent-encoded identities, by position."""
        return tuple(item.id for item in self._items)

    def position(self, key: ItemKey | str) -> int:
        """Return the position of an item, given its key or id.

        Raises:
            ParameterError: the catalog has no such item; names the closest ids.
        """
        found = self.find(key)
        if found is None:
            name = key if isinstance(key, str) else key.id
            raise ParameterError(f"no item {name!r} in the catalog{suggest(name, self.ids)}")
        return found

    def find(self, key: ItemKey | str) -> int | None:
        """Return the position of an item, given its key or id, or None.

        Raises:
            ParameterError: `key` is a text that is no id.
        """
        return self._position.get(ItemKey.parse(key) if isinstance(key, str) else key)
