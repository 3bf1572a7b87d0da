"""The contract of a store of memories: call `check_store(lambda: MyStore(...))` in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from ctxbench.core.errors import InputError, ParameterError
from ctxbench.stores.events import ASKED, Event
from ctxbench.stores.memories import LONGEST, Memory, Relationship
from ctxbench.stores.memory_store import MemoryStore
from ctxbench.testing.conformance import ConformanceError

_FIRST, _LATER, _LAST = (f"2026-03-0{day}T00:00:00+00:00" for day in (1, 2, 3))


def check_store(make: Callable[[], MemoryStore]) -> None:
    """Check a store for everything that catalogs, searches and caches rely on.

    Args:
        make: gives a new store without a workspace; each is closed at the end of its check.

    Raises:
        ConformanceError: anything does not hold; all that was found.
    """
    faults: list[str] = []
    for check in (
        _kept,
        _versioned,
        _deleted,
        _related,
        _apart,
        _grown,
        _refused,
        _typed,
        _recorded,
        _sufficed,
        _requested,
    ):
        store = make()
        try:
            for name in ("one", "two", "one"):
                store.create_workspace(name)
            for label, got, expected in check(store):
                if got != expected:
                    faults.append(f"{label}: expected {expected!r:.300}, got {got!r:.300}")
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its fault, and is reported
            faults.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
        finally:
            store.close()
    if faults:
        raise ConformanceError(f"store {type(store).__name__}", faults)


Found = Iterator[tuple[str, Any, Any]]
"""What was looked at, what was found, and what is right."""


def _memory(id_: str, workspace: str = "one", **fields: Any) -> Memory:
    return Memory(id=id_, workspace=workspace, **{"content": f"text of {id_}", "created": _FIRST, **fields})


def _link(source: str, target: str, type_: str = "follows", workspace: str = "one") -> Relationship:
    return Relationship(workspace=workspace, source=source, target=target, type=type_)


def _names(store: MemoryStore, workspace: str = "one") -> list[str]:
    return [item.name for item in store.catalog(workspace)]


def _kept(store: MemoryStore) -> Found:
    memory = _memory("a", kind="fact", confidence=0.25, conversation="c/1", user="u", metadata={"n": [1, {"é": None}]})
    yield "what insert returns", store.insert(memory), memory
    yield "what get returns", store.get("one", "a"), memory
    store.close()
    yield "get after close", store.get("one", "a"), memory
    store.insert(_memory("b", created="2026-03-01T01:30:00.5+02:00", content="first\r\n\tsecond"))
    yield "a time with an offset", store.get("one", "b").created, "2026-02-28T23:30:00.500000+00:00"
    store.insert(_memory("c", created="2026-03-01"))
    yield "a date, which is UTC", store.get("one", "c").created, _FIRST
    yield "whether a time was set", store.insert(_memory("d", created=None)).created is None, False
    done: list[tuple[int, int]] = []
    memories = [_memory(f"m{n}") for n in range(2001)]
    yield "insert_many", store.insert_many(iter(memories), progress=lambda *counts: done.append(counts)), 2001
    yield "progress of 2,001", done, [(1000, 2001), (2000, 2001), (2001, 2001)]
    yield "order of the catalog", _names(store)[3:], ["d@1", *(f"m{n}@1" for n in range(2001))]
    yield "insert_many of none", store.insert_many([]), 0
    item = store.catalog("one")[0]
    facts = (item.type, item.text, item.workspace, item.user, item.kind, item.conversation, item.metadata)
    yield "an item", facts, ("memory", memory.content, "one", "u", "fact", "c/1", {"n": [1, {"é": None}]})
    yield "times of an item", (item.created, item.until, item.confidence), (_FIRST, None, 0.25)


def _versioned(store: MemoryStore) -> Found:
    store.insert(_memory("a", kind="fact"))
    new = store.update("one", "a", at=_LATER, content="new", confidence=0.5)
    yield "the new version", new, _memory("a", kind="fact", content="new", confidence=0.5, created=_LATER, version=2)
    yield "the current version", store.get("one", "a"), new
    yield "the old version's end", store.get("one", "a", at="2026-03-01T12:00:00").until, _LATER
    yield "at the moment of the change", store.get("one", "a", at=_LATER), new
    yield "a second change at that moment", store.update("one", "a", at=_LATER, content="newer").version, 3
    yield "version there then", store.get("one", "a", at=_LAST).version, 3
    ends = [(item.name, item.until) for item in store.catalog("one")]
    yield "the catalog", ends, [("a@1", _LATER), ("a@2", _LATER), ("a@3", None)]


def _deleted(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("b"), _memory("c"), _memory("d")])
    store.update("one", "a", content="new")
    for link in (_link("a", "b"), _link("b", "c")):
        store.relate(link)
    store.delete("one", "a", "d")
    yield "the catalog after delete", _names(store), ["b@1", "c@1"]
    yield "relationships after delete", store.relationships("one", "b"), (_link("b", "c"),)
    yield "versions of an id used again", store.insert(_memory("a")).version, 1


def _related(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("b"), _memory("c")])
    circle = (_link("a", "b"), _link("b", "c"), _link("c", "a"), _link("a", "b", "repeats"))
    for link in (*circle, circle[0]):
        store.relate(link)
    yield "relationships", store.relationships("one", "a"), (circle[0], circle[2], circle[3])
    store.update("one", "b", content="new", at=_LATER)
    links = {item.name: [(link.type, link.item.name) for link in item.links] for item in store.catalog("one")}
    versions = [(kind, name) for kind in ("follows", "repeats") for name in ("b@1", "b@2")]
    follows = {id_: [("follows", name)] for id_, name in (("b@1", "c@1"), ("c@1", "a@1"), ("b@2", "c@1"))}
    yield "links, between versions of one time", links, {"a@1": versions, **follows}
    store.unrelate(circle[0])
    yield "relationships after unrelate", store.relationships("one", "b"), (circle[1], circle[3])


def _apart(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("a", "two", content="of two"), _memory("b", "two")])
    yield "workspaces", store.workspaces(), ("one", "two")
    yield "the other's memory", store.get("two", "a").content, "of two"
    before = store.revision("one"), store.catalog("one")
    store.update("two", "a", content="new")
    store.delete("two", "a")
    yield "catalogs", (_names(store), _names(store, "two")), (["a@1"], ["b@1"])
    yield "what another's writes change", (store.revision("one"), store.catalog("one") is before[1]), (before[0], True)


def _grown(store: MemoryStore) -> Found:
    store.insert(_memory("a"))
    first, revision = store.catalog("one"), store.revision("one")
    first.hash_of("search_text")
    store.insert_many([_memory("b"), _memory("c")])
    second = store.catalog("one")
    yield "whether inserts count", store.revision("one") > revision, True
    yield "what it extends", [n for n, _ in second.prefixes("search_text")], [1]
    yield "the catalog before", [item.name for item in first], ["a@1"]
    store.update("one", "b", at=_LATER, content="new")
    third = store.catalog("one")
    yield "what it extends after an update", [n for n, _ in third.prefixes("search_text")], [3, 1]
    yield "ends after an update", [item.until for item in third], [None, _LATER, None, None]
    yield "the catalog before an update", [item.until for item in second], [None, None, None]
    store.relate(_link("a", "b"))
    yield "the catalog after a relationship", store.catalog("one").hash == third.hash, False


def _refused(store: MemoryStore) -> Found:
    store.insert_many([_memory("a"), _memory("b")])
    before = store.catalog("one").hash, store.revision("one")
    wrong: list[Any] = [{"x": float("inf")}, {"x": object()}, {1: 2}, []]
    invalid = [
        *(_memory("c", content=text) for text in ("", " \n", "x\0", "\x1b[2J", "\ud800", "x" * (LONGEST + 1))),
        *(_memory("c", confidence=number) for number in (-0.1, 1.1, float("nan"), True, 10**400)),
        *(_memory("c", created=text) for text in ("yesterday", "0001-01-01T00:00:00+10:00")),
        *(_memory("c", metadata=data) for data in wrong),
        *(_memory(name) for name in ("", "a@1", "a", "a\nb")),
        *(_memory("x.md", type="file", content=text) for text in ("\x7fELF\0\0", b"bytes", "x" * (LONGEST + 1))),
        *(_memory("c", type=name) for name in ("rule", "", None)),
        _memory("c@1", type="message"),
        *(_memory("c", "three"), _memory("c", version=2), _memory("c", until=_LAST), _memory("c", kind="")),
    ]
    calls: list[tuple[Callable[..., Any], Any]] = [(store.insert, memory) for memory in invalid]
    calls += [
        (lambda change: store.update("one", "a", **change), change) for change in ({"content": ""}, {"version": 3}, {})
    ]
    calls += [(lambda at: store.update("one", "a", content="new", at=at), at) for at in ("2026-02-28", "soon")]
    links = (_link("a", "a"), _link("a", "gone"), _link("gone", "a"), _link("a", "b", ""), _link("a", "b", "x", "two"))
    calls += [*((store.relate, link) for link in links), (store.unrelate, _link("a", "b"))]
    calls += [(lambda id_: store.delete("one", "a", id_), "gone"), (lambda id_: store.get("one", id_), "gone")]
    calls += [(lambda at: store.get("one", "a", at=at), at) for at in ("2026-02-28", "soon")]
    calls += [(store.catalog, "three"), (store.revision, "three"), (store.create_workspace, " ")]
    for call, argument in calls:
        yield f"refusal of {argument!r:.80}", _error(call, argument), ParameterError
    long = _memory("c", metadata={"x": 10**5000})
    yield "refusal of a number too long to be written", _error(store.insert, long), ParameterError
    yield "refusal of many", _error(store.insert_many, [_memory("c"), *invalid]), InputError
    yield "refusal of one id twice", _error(store.insert_many, [_memory("c"), _memory("c")]), InputError
    yield "what is there after refusals", (store.catalog("one").hash, store.revision("one")), before


def _typed(store: MemoryStore) -> Found:
    file = _memory("docs/a@2.md", type="file", kind="text/markdown")
    yield "what insert returns of a file", store.insert(file), file
    store.insert(_memory("m1", type="message", kind="user", conversation="t"))
    store.update("one", file.id, at=_LATER, content="new")
    current = store.get("one", file.id)
    yield "the current version of a file", (current.type, current.version), ("file", 2)
    store.relate(_link("m1", file.id))
    items = [(item.type, item.name, item.title, item.kind) for item in store.catalog("one")]
    first, message, second = ("file", f"{file.id}@1"), ("message", "m1@1"), ("file", f"{file.id}@2")
    yield "items", items, [(*first, file.id, file.kind), (*message, "", "user"), (*second, file.id, file.kind)]
    yield "links", [link.item.name for link in store.catalog("one")[1].links], [first[1], second[1]]
    yield "refusal of another type", _error(lambda _: store.update("one", "m1", type="file"), None), ParameterError


def _event(kind: str, id_: str, at: str = _LATER, **fields: Any) -> Event:
    defaults = {"workspace": "one", "user": "u", "conversation": "t", "useful": True if kind == "feedback" else None}
    return Event(**{"kind": kind, "id": id_, "at": at, **defaults, **fields})


def _recorded(store: MemoryStore) -> Found:
    store.insert_many([_memory("a", type="file"), _memory("b", type="file", user="v"), _memory("a", "two")])
    before, revision = store.catalog("one"), store.revision("one")
    rows = [_event("access", "a", _LAST), _event("reference", "a"), _event("feedback", "a", useful=False, user=None)]
    rows[2] = replace(rows[2], metadata={"told": {"text": "häuser"}})
    for row in rows:
        store.record(row)
    yield "events, by time", store.events("one"), (*rows[1:], rows[0])
    yield "those of another workspace", store.events("two"), ()
    yield "the catalog after events", store.catalog("one") is before, True
    yield "whether events count", store.revision("one") > revision, True
    yield "a time with an offset", _at_of(store, "2026-03-03T02:00:00+02:00"), _LAST
    wrong = [
        *(_event(kind, "gone") for kind in ("reference", "unreference", "access", "feedback")),
        *(_event("reference", "b"), _event("access", "b", user=None)),  # another user's
        *(_event("access", "a", at) for at in ("2026-02-28", "soon")),
        *(_event("look", "a"), _event("reference", "a", conversation=None), _event("access", "a", useful=True)),
        *(_event("feedback", "a", useful=useful) for useful in (None, 1)),
        *(
            _event("access", "a", metadata=metadata)
            for metadata in ({"tags": {"red"}}, {ASKED: "x"}, {ASKED: {"text": "x"}})
        ),
        _event("access", "a", at=cast("str", 5)),
        *(_event("access", "a", user=""), _event("access", "a", workspace="three")),
    ]
    events = store.events("one")
    for row in wrong:
        yield f"refusal of {row!r:.120}", _error(store.record, row), ParameterError
    several = _error(lambda row: store.record(_event("access", "a"), row), wrong[0])
    yield "events after refusals, of several too", (several, store.events("one")), (ParameterError, events)
    store.delete("one", "a")
    yield "events of what was deleted", store.events("one"), ()
    store.insert(_memory("a", type="file"))
    yield "events of an id used again", store.events("one"), ()


def _context(at: str = _LATER, *, items: tuple[str, ...] = ("file:a%401",), **fields: Any) -> Event:
    context = {"context": "c", "text": "who?", "time": _FIRST, "items": list(items)}
    return _event("sufficient", "c", at, **{"useful": False, "metadata": {ASKED: context}, **fields})


def _sufficed(store: MemoryStore) -> Found:
    store.insert_many([_memory("a", type="file"), _memory("b", type="file", user="v"), _memory("d", type="file")])
    rows = [
        _context(_LAST, items=("file:a%401", "file:d%401")),
        _context(items=("file:d%401",), useful=True),
        _context(_LAST, items=()),
    ]
    store.record(*rows)
    yield "what was said of contexts, by time", store.events("one"), (rows[1], rows[0], rows[2])
    wrong = [
        *(_context(useful=useful) for useful in (None, 1)),
        *(
            _context(metadata=metadata)
            for metadata in ({}, {ASKED: {"context": "c", "text": "x", "time": "x", "item": "x"}})
        ),
        _context(metadata={ASKED: {**rows[0].metadata[ASKED], "context": "other"}}),
        *(_context(items=(item,)) for item in ("file:gone%401", "file:b%401", "a")),
        *(_context(at="2026-02-28"), _context(workspace="three", items=())),
    ]
    events = store.events("one")
    for row in wrong:
        yield f"refusal of {row!r:.200}", _error(store.record, row), ParameterError
    yield "what was said after refusals", store.events("one"), events
    yield "no use of anything", store.request("one", "x", user="u", conversation="t").uses, ()
    store.delete("one", "a")
    yield "what was said of contexts that had what was deleted", store.events("one"), (rows[1], rows[2])


def _at_of(store: MemoryStore, at: str) -> str | None:
    store.record(_event("access", "a", at))
    return store.events("one")[-1].at


def _requested(store: MemoryStore) -> Found:
    files = [_memory(name, type="file") for name in ("a", "b", "c")]
    store.insert_many([*files, _memory("m", type="message", conversation="t"), _memory("own", user="v", type="file")])
    store.update("one", "a", at=_LAST, content="new")
    store.record(_event("reference", "b"), _event("reference", "a"), _event("reference", "c", conversation="other"))
    store.record(_event("reference", "m", user=None), _event("reference", "own", user="v"))
    store.record(_event("unreference", "b", _LAST), _event("unreference", "a", _LAST, user="v"))
    store.record(
        *(_event("access", name, at) for name, at in (("a", _LATER), ("b", _LATER), ("a", _LAST), ("m", _LAST)))
    )
    store.record(_event("access", "c", _LAST, user="v"), _event("access", "c", _LAST, user=None))
    store.record(*(_event("feedback", "a", at) for at in (_LATER, _LAST)), _event("feedback", "b", useful=False))
    store.record(_event("feedback", "b", _LAST, user="v"))

    def request_lists(**options: Any) -> list[Any]:
        row = store.request("one", "x", **options).as_dict()
        return [row.get(name, []) for name in ("explicit", "recent")] + [row.get("uses", {})]

    current = [["file:a%402", "message:m%401"], ["file:a%402", "file:b%401"], {"file:a%402": 2}]
    yield "a request", request_lists(user="u", conversation="t"), current
    earlier = [["file:b%401", "file:a%401", "message:m%401"], ["file:b%401", "file:a%401"], {"file:a%401": 1}]
    yield "a request as of a time", request_lists(user="u", conversation="t", time=_LATER), earlier
    yield "a request before anything was done", request_lists(user="u", conversation="t", time=_FIRST), [[], [], {}]
    of_v = [["message:m%401", "file:own%401"], ["file:c%401"], {"file:b%401": 1}]
    yield "another user's", request_lists(user="v", conversation="t"), of_v
    yield "nobody's", request_lists(conversation="t"), [["message:m%401"], ["file:c%401"], {}]
    yield "an unknown conversation", request_lists(user="u", conversation="gone"), [[], *current[1:]]
    yield "none", request_lists(user="w"), [[], [], {}]
    request = store.request("one", "x", user="u", conversation="t", time="2026-03-02", id="q")
    facts = (request.id, request.text, request.user, request.workspace, request.conversation, request.time)
    yield "what it says besides", facts, ("q", "x", "u", "one", "t", "2026-03-02")
    yield "refusal of a time", _error(lambda at: store.request("one", "x", time=at), "soon"), ParameterError
    yield "refusal of a workspace", _error(lambda name: store.request(name, "x"), "three"), ParameterError
    store.update("one", "a", user="v")
    yield "what became another's", request_lists(user="u", conversation="t"), [["message:m%401"], ["file:b%401"], {}]


def _error(call: Callable[..., Any], argument: Any) -> type[Exception] | None:
    try:
        call(argument)
    except (ParameterError, InputError) as error:
        return ParameterError if isinstance(error, ParameterError) else InputError
    return None
