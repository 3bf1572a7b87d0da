"""Items, catalogs and item ids, with suggestions for unknown ids."""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import PurePosixPath
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from ctxbench.io.errors import Fault, Message, ParameterError, check_choice, raise_faults, suggest
from ctxbench.io.rows import named_instant, read_text_value

if TYPE_CHECKING:
    from ctxbench.model.arrays import Facts


class CatalogPrefix(NamedTuple):
    """The part of a catalog that it took from the catalog it extends: number of items, and hash of their fields."""

    n_items: int
    hash: str
    before: CatalogPrefix | None


class TextDigest:
    """The digest of a text, computed at the first access."""

    __slots__ = ("_text_digest",)
    text: str
    _text_digest: bytes

    @property
    def text_digest(self) -> bytes:
        """SHA-256 of the text in UTF-8."""
        try:
            return self._text_digest
        except AttributeError:
            digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).digest()
            object.__setattr__(self, "_text_digest", digest)  # it may be frozen
            return digest


_LONG = 1_000  # characters of a text that goes in by its digest
_COMPACT = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` would make one for each item


def hashed(
    items: Sequence[Any], names: tuple[str, ...], digest: Any, *, n_items: int, before: CatalogPrefix | None
) -> tuple[Any, CatalogPrefix]:
    """Go on with a digest over more items, by some attributes or (none named) by all fields.

    Args:
        items: those that are added, `Item`s.
        names: of the attributes.
        digest: over the items before; is changed.
        n_items: how many there are then.
        before: those before.
    """
    of = attrgetter("text", *names)
    for item in items:
        if names:
            # `repr` is four times as fast, and its hash is kept nowhere. A schema's order is sent, so that it counts.
            text, *row = of(item)
            if len(text) >= _LONG:  # no attribute is a tuple of one digest
                row = [(item.text_digest,) if value == text else value for value in row]
            line = repr(row)
        else:
            line = _COMPACT.encode(item.as_row())
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest, CatalogPrefix(n_items, digest.hexdigest(), before)


ITEM_TYPES = ("rule", "reference", "tool", "skill", "file", "chunk", "message", "memory")
INCLUDE_MODES = ("always", "manual", "agent")


def check_item_types(types: Iterable[str], *, where: str = "") -> None:
    """Raise `ParameterError` for unknown item types; `where` begins its message."""
    for kind in types:
        if kind not in ITEM_TYPES:
            raise ParameterError(f"{where}no item type is called {kind!r}{suggest(kind, ITEM_TYPES)}")


_ENCODED = re.compile(r"[^A-Za-z0-9_.~-]")


@lru_cache(maxsize=1 << 16)  # requests with lists of available items name the same few thousand again and again
def _encoded(part: str) -> str:
    if part.isascii():  # `quote` goes from byte to byte, which takes ten times as long
        return _ENCODED.sub(lambda match: f"%{ord(match[0]):02X}", part)
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
        parts = [intern(unquote(part, errors="surrogatepass")) for part in text.split(":")]
    except UnicodeDecodeError:  # escapes that are no UTF-8, such as %FF
        parts = []
    if len(parts) not in (2, 3) or not all(parts):
        raise ParameterError(
            f"{text!r} is no item id: expected type:name or type:server:name, each part percent-encoded, "
            "for example tool:tracker:create_issue"
        )
    return ItemKey(parts[0], parts[1] if len(parts) == 3 else None, parts[-1])


class Link(NamedTuple):
    """A link to another item, with its type."""

    type: str
    item: ItemKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(TextDigest):
    """One thing that can be put in a prompt.

    Attributes:
        type: one of `ITEM_TYPES`.
        name: any text that is not empty; with `type` and `server` the item's identity.
        server: the server of a tool, else None.
        description: one or more sentences; may be empty.
        text: the body of a rule, reference, file ...; that of a skill is loaded on demand; empty for tools.
        schema: the input schema of a tool, as JSON.
        include: `always` (in every new session), `manual` (only by hand) or `agent` (found by search).
        enabled: False keeps the item out of everything.
        priority: the three-digit level of rules and references; lower is shown first.
        title: shown instead of the name where a person reads.
        metadata: anything else, as JSON; never searched, never sent.
        workspace, user: whose it is; requests of others do not see it. None = everybody's.
        conversation: where it was said.
        kind: what sort of its type it is, in words of your own: of a memory "fact", "decision" ...
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
    kind: str | None = None
    created: str | None = None
    until: str | None = None
    confidence: float | None = None
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        check_choice("item type", self.type, ITEM_TYPES)
        if not self.name:
            raise ParameterError(f"an item needs a name that is not empty (type {self.type})")
        if self.server == "":
            object.__setattr__(self, "server", None)
        if self.include not in INCLUDE_MODES:
            raise ParameterError(
                f"include must be one of {', '.join(INCLUDE_MODES)}, got {self.include!r} (item {self.id})"
            )
        if "" in (self.workspace, self.user):
            name = "workspace" if self.workspace == "" else "user"
            raise ParameterError(f"{name} must not be empty; leave it out of what is everybody's (item {self.id})")
        if self.created is None and self.until is None and self.confidence is None:
            return
        try:
            begun, ended = (named_instant(name, getattr(self, name)) for name in ("created", "until"))
        except ParameterError as error:  # an id is made only where it is told
            raise ParameterError(f"{error} (item {self.id})") from None
        if begun is not None and ended is not None and ended < begun:
            raise ParameterError(
                f"until ({self.until}) is before created ({self.created}); an item ends after it began (item {self.id})"
            )
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ParameterError(f"confidence must be 0 to 1, got {self.confidence} (item {self.id})")

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
        """The indexed text: `name: description`, and for all but tools and skills a blank line and the text.

        Parts that are empty are left out with their separators. Of a message or memory, and of a file whose text
        begins with its path, it is the text alone.
        """
        if self.by_text:
            return self.text
        return f"{self._head}\n\n{self.text}" if self.text and self.type not in ("tool", "skill") else self._head

    @property
    def by_text(self) -> bool:
        """Whether only its text is searched: nobody names a message or memory; a file's text may have its path."""
        is_plain = self.type in ("message", "memory") or (self.is_file and self.text.startswith(f"{self.path}\n"))
        return is_plain and bool(self.text)

    @property
    def is_file(self) -> bool:
        """Whether it is a file or a part of one."""
        return self.type in ("file", "chunk")

    @property
    def path(self) -> str:
        """Of a file or chunk its path: the title, as versions of one differ in their names, else the name."""
        return self.title or self.name

    @property
    def body(self) -> str:
        """The text that the model loads on demand: that of a skill; empty for every other item."""
        return self.text if self.type == "skill" else ""

    @property
    def _head(self) -> str:
        name = self.path if self.is_file else self.name
        return f"{name}: {self.description}" if self.description else name

    @property
    def prompt_text(self) -> str:
        """What the model is sent: the message of a rule or reference, the JSON definition of a tool, a skill's listing.

        A tool is `{"name", "description", "inputSchema"}` as compact JSON (the form of MCP's tool list). A skill is
        `name: description`; the model loads its text where it needs it.
        """
        if self.type == "skill":
            return self._head
        if self.type == "tool":
            tool = {"name": self.name, "description": self.description, "inputSchema": self.schema or {}}
            return json.dumps(tool, ensure_ascii=False, separators=(",", ":"))
        return f"{self.type.capitalize()}: {self.text}" if self.type in ("rule", "reference") else self.text

    def as_row(self) -> dict[str, Any]:
        """The item as a row of `corpus.jsonl`: `_id` first, then every field that is not its default."""
        row: dict[str, Any] = {"_id": self.id, "title": self.title or self.name, "text": self.text}
        row |= {name: value for name, default in _DEFAULTS if (value := getattr(self, name)) != default}
        links = [{"type": link.type, "item": link.item.id} for link in self.links]
        return {**row, "links": links} if links else row


_DEFAULTS: tuple[tuple[str, Any], ...] = tuple(
    (spec.name, {} if spec.name == "metadata" else spec.default)
    for spec in fields(Item)
    if spec.name not in ("title", "text", "links")
)


TEXT_FIELDS = ("type", "server", "name", "title", "description", "schema", "text")
"""The fields that an item's texts are made of: what is searched, what is sent, and its body."""


class ItemsByKey(Mapping[ItemKey, Item]):
    """The items of a sequence by their keys; of items that share a key, the first.

    An open hash table of positions: 8 to 16 bytes an item, where a dict of keys takes 140.

    Args:
        items: must not change.
        before: of the first of them, whose table is carried on.

    Attributes:
        item_list: the items.
        table: of each slot the position of an item, or -1; at most half of the slots are taken.
        repeats: the positions of two items that share a key, the first one's first.
    """

    def __init__(self, items: Sequence[Item], before: ItemsByKey | None = None) -> None:
        self.item_list = items
        self.repeats: list[tuple[int, int]] = []
        first, self.table = 0, array("i", [-1]) * (1 << (2 * len(items)).bit_length())
        if before is not None and len(before.table) == len(self.table):
            first, self.table = len(before.item_list), before.table[:]
        for position in range(first, len(items)):
            slot = self._slot(items[position].key)
            if self.table[slot] >= 0:
                self.repeats.append((self.table[slot], position))
            else:
                self.table[slot] = position

    def _slot(self, key: ItemKey) -> int:
        """The slot that holds the position of the item with a key; an empty one, which holds -1, where none has it."""
        slot = hash(key)
        while (position := self.table[slot := slot % len(self.table)]) >= 0 and self.item_list[position].key != key:
            slot += 1
        return slot

    def find(self, key: ItemKey) -> int | None:
        """The position of the item with a key, or None."""
        position = self.table[self._slot(key)]
        return None if position < 0 else position

    def __getitem__(self, key: ItemKey) -> Item:
        if (position := self.find(key)) is None:
            raise KeyError(key)
        return self.item_list[position]

    def __iter__(self) -> Iterator[ItemKey]:
        return (item.key for item in self.item_list)

    def __len__(self) -> int:
        return len(self.item_list) - len(self.repeats)


class Catalog(Sequence[Item]):
    """An immutable sequence of items with distinct identities and a content hash.

    The position of an item is its place in the order of ties, so a catalog is ordered. One that grows is `extended`,
    which carries on what is known of the items before.

    Attributes:
        by_key: the items by their keys.
        cache: what was computed of it, by whoever did, for as long as it lives; shared with catalogs that extend it.
        shared: the catalog of its first items, if several extend that one side by side; else None.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        """Take the items in order.

        Raises:
            InputError: two items share an identity; all such pairs are listed.
        """
        self._items = tuple(items)
        self.by_key = _distinct(ItemsByKey(self._items))
        self._digests: dict[tuple[str, ...], tuple[Any, CatalogPrefix]] = {}
        self._facts_before: Facts | None = None  # of the catalog that this one extends
        self.cache: dict[Hashable, Any] = {}
        self.shared: Catalog | None = None

    def extended(
        self, items: Iterable[Item], *, ends: Mapping[int, str] | None = None, shares: bool = False
    ) -> Catalog:
        """A catalog of these items followed by some more; equal to a new catalog of all.

        Hashes, ids, facts and positions of the items before are carried on, and an index over them can be, too
        (`ctxbench.model.resources`). This catalog does not change and may be extended in several ways. Nothing: itself.

        Args:
            items: what is added.
            ends: items that have ended: their new `until` by position. Hashes over that, and `hash`, start anew.
            shares: other catalogs extend this one, too, and none of them takes its place; see `shared`.

        Raises:
            InputError: an item's identity is there already, or occurs twice; all such pairs are listed.
        """
        added, ends, kept_items = tuple(items), ends or {}, list(self._items)
        if not added and not ends:
            return self
        for position, until in ends.items():
            kept_items[position] = replace(kept_items[position], until=until)
        catalog = Catalog(())
        catalog._items = (*kept_items, *added)
        catalog.by_key = _distinct(ItemsByKey(catalog._items, self.by_key))
        catalog._digests = {
            names: hashed(added, names, digest.copy(), n_items=len(catalog), before=prefix)
            # a copy, which CPython makes in one step: another thread may ask for one more hash meanwhile
            for names, (digest, prefix) in list(self._digests.items())
            if not ends or (names and "until" not in names)
        }
        before = self.__dict__.get("facts", self._facts_before)
        catalog._facts_before = None if before is None else before.ended(ends)
        catalog.cache = self.cache
        shared = self if shares else self.shared
        catalog.shared = None if shared is None or any(position < len(shared) for position in ends) else shared
        if "ids" in self.__dict__:
            catalog.__dict__["ids"] = self.ids + tuple(item.id for item in added)
        return catalog

    def __reduce__(self) -> tuple[type[Catalog], tuple[tuple[Item, ...]]]:
        return Catalog, (self._items,)  # a digest to go on with cannot be pickled

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:  # Sequence's overloads say Item for int, tuple for slice
        return self._items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"Catalog({len(self)} items, {self.hash[:12]})"

    @property
    def hash(self) -> str:
        """SHA-256 over every field of every item, in order; equal hashes mean equal catalogs."""
        return self._prefix(()).hash

    def hash_of(self, *names: str) -> str:
        """SHA-256 over some attributes of every item, in order: equal where catalogs differ in the others alone.

        Args:
            names: attributes of `Item`, such as `search_text`; at least one. The hash holds in this process.
        """
        if not names:
            raise ParameterError("hash_of needs the name of an attribute; the hash over all of them is `hash`")
        return self._prefix(names).hash

    def prefixes(self, *names: str) -> Iterator[tuple[int, str]]:
        """The catalogs that this one extends, the longest first: how many items each has, and its `hash_of`.

        Only `shared`, those whose hash over these attributes was asked for before they were extended, and those that
        extend such a one.
        """
        index = self._prefix(names).before
        while index is not None:
            yield index.n_items, index.hash
            index = index.before

    def _prefix(self, names: tuple[str, ...]) -> CatalogPrefix:
        """The hash of all items by some attributes, or by all, with those of the catalogs that this one extends."""
        if names not in self._digests:
            first, digest, before = 0, hashlib.sha256(), None
            if self.shared is not None:
                before, first = self.shared._prefix(names), len(self.shared)  # noqa: SLF001 - of this class
                digest = self.shared._digests[names][0].copy()  # noqa: SLF001
            self._digests[names] = hashed(self._items[first:], names, digest, n_items=len(self), before=before)
        return self._digests[names][1]

    @cached_property
    def facts(self) -> Facts:
        """Facts about the items, without their texts.

        Raises:
            InputError: links lead to items that are not there.
        """
        from ctxbench.model.arrays import Facts  # numpy waits until something is selected

        before, self._facts_before = self._facts_before, None
        return (
            Facts.of(self._items, self.find)
            if before is None
            else before.extended(self._items[len(before) :], self.find)
        )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The percent-encoded identities, by position."""
        return tuple(item.id for item in self._items)

    @cached_property
    def named(self) -> Mapping[str, int]:
        """The position of each item by its id, and by its name and `metadata.id` where no other item has that."""
        names = Counter(item.name for item in self)
        unique = {item.name: position for position, item in enumerate(self) if names[item.name] == 1}
        values = (item.metadata.get("id") for item in self)  # of items that an import named by title
        published = [str(value) if type(value) in (str, int) else "" for value in values]
        n_published = Counter(name for name in published if name and name not in names)
        unique |= {name: position for position, name in enumerate(published) if n_published[name] == 1}
        return unique | {item_id: position for position, item_id in enumerate(self.ids)}

    def position(self, key: ItemKey | str) -> int:
        """Return the position of an item, given its key or id.

        Raises:
            ParameterError: the catalog has no such item; names the closest ids.
        """
        if (position := self.find(key)) is None:
            name = key if isinstance(key, str) else key.id
            raise ParameterError(f"no item {name!r} in the catalog{suggest(name, self.ids)}")
        return position

    def find(self, key: ItemKey | str) -> int | None:
        """Return the position of an item, given its key or id, or None.

        Raises:
            ParameterError: `key` is a text that is no id.
        """
        return self.by_key.find(ItemKey.parse(key) if isinstance(key, str) else key)


def _distinct(by_key: ItemsByKey) -> ItemsByKey:
    """The items by key, if no two share one; see `Catalog`."""
    faults = [
        Fault(Message("model.item-twice", item=list(by_key)[second].id, first=first, second=second))
        for first, second in by_key.repeats
    ]
    raise_faults(faults, subject="catalog")
    return by_key


_SHOWN = 3
_CLOSE = 0.7  # of the names; below it, two tools of one server are alike by the words that all of them share


def suggest_items(item: str, keys: Iterable[str]) -> str:
    """Return '; did you mean ...?' for the id of no item; empty where none is close.

    Close is an item of the same name, or one of the same type and server with nearly the same name: ids alone are alike
    by their types. A text that is no id is taken for a name, or for that of a file; so is the name of
    a rule or reference that says no folder. What is known is not listed, since
    catalogs hold thousands.
    """
    try:
        wanted_key = ItemKey.parse(item)
    except ParameterError:
        wanted_key = ItemKey("", None, item)
    ranked = sorted((-_closeness(wanted_key, ItemKey.parse(key)), key) for key in keys)
    close = [key for closeness, key in ranked[:_SHOWN] if -closeness >= _CLOSE]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def _closeness(wanted_key: ItemKey, key: ItemKey) -> float:
    """From 0 to 1."""
    file = key.name.rpartition("/")[2]
    if wanted_key.name == key.name or (
        wanted_key.type in ("", key.type)
        and not wanted_key.server
        and wanted_key.name in (file, file.partition(".")[0])
    ):
        return 1.0
    return name_likeness(wanted_key.name, key.name) if wanted_key[:2] == key[:2] else 0.0


def name_likeness(first: str, second: str) -> float:
    """Similarity of two names from 0 to 1, ignoring case; values below 0.7 may be returned as 0.

    Of files it is how alike their names are without folder and ending, where these are less alike: all rules of a
    project have folder and ending in common.
    """
    return min(_text_likeness(first, second), _text_likeness(PurePosixPath(first).stem, PurePosixPath(second).stem))


def _text_likeness(first: str, second: str) -> float:
    matcher = SequenceMatcher(None, first.lower(), second.lower())
    return matcher.ratio() if matcher.real_quick_ratio() >= _CLOSE and matcher.quick_ratio() >= _CLOSE else 0.0


def read_key(value: Any) -> ItemKey:
    """An item's key from its id.

    Raises:
        ParameterError: a text that is no item id.
        TypeError: no text.
    """
    return ItemKey.parse(read_text_value(value))
