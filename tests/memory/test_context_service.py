"""The service over a store: what it answers, what it keeps, and feedback."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.io.errors import ParameterError, UserError
from ctxbench.memory import service as context_service
from ctxbench.memory.engine import ContextCache
from ctxbench.memory.memories import Event, Memory
from ctxbench.memory.service import NotSeenError
from ctxbench.memory.sqlite_store import SqliteStore
from tests.memory.dict_store import DictStore
from tests.memory.service_world import WORKSPACE, filled, service_over

NOW = "2026-03-10T09:00:05Z"


@pytest.fixture(params=["dict", "sqlite"])
def store(request, tmp_path):
    made = filled(None if request.param == "dict" else SqliteStore(tmp_path / "memories.sqlite"))
    yield made
    made.close()


@pytest.fixture
def service(store):
    return service_over(store)


def ids(context):
    return [one["id"] for one in context.as_dict()["data"]["items"]]


def test_a_context_has_its_items_with_what_the_document_names(service):
    told = service.build("flat tyre?", user="ana", thread="t", time=NOW).as_dict()
    data, first = told["data"], told["data"]["items"][0]
    assert (first["id"], first["type"], first["content"]) == (
        "memory:tyre%401",
        "memory",
        "Ana's front tyre went flat on the canal path.",
    )
    assert first["tokens"] == 12  # 45 characters, four a token
    assert first["metadata"]["createdAt"] == "2026-03-01T09:00:00+00:00"
    assert first["metadata"]["searchRank"] == 1
    assert first["relevance"] > data["items"][1]["relevance"]
    lines = "".join(f"\n- {one['content']}" for one in data["items"])
    assert data["context"] == f"Relevant context from past conversations:\n{lines}\n"
    assert data["totalTokens"] == -(-len(data["context"]) // 4) == told["meta"]["tokenUsage"]
    assert data["stats"] == {"explicitCount": 0, "searchCount": 4, "historyCount": 0, "excludedCount": 0}
    assert told["meta"] == {"tokenUsage": 51, "sourceCount": 4, "citationCount": 0}
    assert data["notes"] == []


SELECTOR = """
name: own
about: Words, shown in parts, as one text.
parameters: {}
pipeline:
  analyse: whole
  retrieve: bm25
  refine:
    - first: {n: 2}
    - rendered: {tokens: 12}
  format: {template: {template: {memory_format: "{{content}}"}}}
presets: {}
"""


def test_any_selector_serves_and_a_part_is_an_excerpt(store, tmp_path):
    (tmp_path / "own.yaml").write_text(SELECTOR)
    text = "words " * 40
    store.insert(Memory(id="long", workspace=WORKSPACE, content=text, created="2026-03-05", type="file"))
    store.insert(
        Memory(id="said", workspace=WORKSPACE, content="words", created="2026-03-06", type="message", conversation="t")
    )
    service = service_over(store, selector=str(tmp_path / "own.yaml"))
    data = service.build("words", thread="t", time=NOW).as_dict()["data"]
    assert data["totalTokens"] == -(-len(data["context"]) // 4) <= 12
    assert data["stats"] == {"explicitCount": 0, "searchCount": 1, "historyCount": 1, "excludedCount": 1}
    (item,) = data["items"]
    assert item["excerpt"] == data["context"] == f"{'words ' * 7}…"
    assert "content" not in item
    assert item["metadata"]["path"] == item["source"] == "long"


def test_what_the_text_can_be_cited_by_is_told(store):
    store.insert(Memory(id="docs/tyre.md", workspace=WORKSPACE, content="Fix a flat tyre.", type="file"))
    told = service_over(store, selector="assembly").build("flat tyre?").as_dict()
    (one,) = told["data"]["citations"]
    assert told["data"]["context"].startswith(f"{one['id']} docs/tyre.md (file, relevance {one['relevance']:.2f})\n")
    assert one == {
        "id": one["id"],
        "source": "docs/tyre.md",
        "type": "file",
        "path": "docs/tyre.md",
        "excerpt": "Fix a flat tyre.",
        "relevance": told["data"]["items"][0]["relevance"],
        "usedInResponse": False,
    }
    assert told["meta"]["citationCount"] == told["meta"]["sourceCount"] == 1


def test_a_preview_tells_what_a_build_gives_and_the_build_takes_it(service):
    preview = service.preview("flat tyre?", user="ana", thread="t", time=NOW)
    built = service.build("flat tyre?", user="ana", thread="t", time=NOW)
    assert (preview.kept, built.kept) == (False, True)
    assert preview.as_dict() == built.as_dict()
    assert service.metrics.value("cache_hits") == 1


@pytest.mark.parametrize("change", [{"message": "Flat tyre?"}, {"thread": "s"}, {"user": "ben"}, {"user": None}])
def test_another_request_is_answered_anew(service, change):
    asked = {"message": "flat tyre?", "thread": "t", "user": "ana", "time": NOW}
    first = service.build(**asked)
    second = service.build(**asked | change)
    assert not second.kept
    assert first.id != second.id


def test_a_write_shows_at_once_and_what_it_does_not_touch_is_kept(service, store):
    asked = {"thread": "t", "user": "ana", "time": NOW}
    before = service.build("flat tyre?", **asked)
    store.insert(Memory(id="new", workspace=WORKSPACE, content="The flat tyre was fixed.", created="2026-03-09"))
    after = service.build("flat tyre?", **asked)
    assert not after.kept
    assert "memory:new%401" in ids(after)
    assert "memory:new%401" not in ids(before)
    assert service.build("flat tyre?", **asked).kept
    store.update(WORKSPACE, "new", content="The tyre was sold.", at="2026-03-10T09:00:00Z")
    again = service.build("flat tyre?", **asked)
    assert not again.kept
    assert "memory:new%402" in ids(again)


def test_an_event_of_the_user_is_a_write_and_another_users_is_none(service, store):
    asked = {"thread": "t", "user": "ana", "time": NOW}
    service.build("flat tyre?", **asked)
    useful = Event(kind="feedback", workspace=WORKSPACE, id="pump", useful=True, at="2026-03-10T09:00:00Z")
    store.record(replace(useful, user="ben"))
    assert service.build("flat tyre?", **asked).kept
    store.record(replace(useful, user="ana"))
    assert not service.build("flat tyre?", **asked).kept


def test_times_are_rounded_up_and_a_step_of_the_grid_is_no_miss(service):
    def kept(time):
        return service.build("flat tyre?", time=time).kept

    assert service.build("flat tyre?", time="2026-03-10T09:00:29Z").request.time == "2026-03-10 09:00:30"
    assert kept("2026-03-10T09:00:30Z")
    assert kept("2026-03-10T09:00:59Z")  # as of 09:00:30, half a minute ago at most
    assert kept("2026-03-10T09:01:01Z")  # previewed, built and built again within a minute
    assert not kept("2026-03-10T09:01:31Z")


def test_what_begins_or_ends_between_two_steps_of_the_grid_shows(service, store):
    store.insert(Memory(id="due", workspace=WORKSPACE, content="A tyre is due.", created="2026-03-10T09:00:45Z"))
    assert "memory:due%401" not in ids(service.build("flat tyre?", time="2026-03-10T09:00:29Z"))
    later = service.build("flat tyre?", time="2026-03-10T09:00:46Z")
    assert not later.kept
    assert "memory:due%401" in ids(later)


def test_a_context_that_was_forgotten_is_made_anew(service):
    service.build("flat tyre?", thread="t", user="ana", time=NOW)
    assert service.cache.forget(thread="t", user="ana") == 1
    assert not service.build("flat tyre?", thread="t", user="ana", time=NOW).kept


def test_who_asks_the_same_meanwhile_waits_and_takes_that(store):
    service = service_over(store, cache=ContextCache())
    built: list = []
    threads = [threading.Thread(target=lambda: built.append(service.build("flat tyre?", time=NOW))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=60)
    assert sorted(one.kept for one in built) == [False] + [True] * 7
    assert len({str(one.as_dict()) for one in built}) == 1


def test_bad_requests_are_refused(service, store):
    with pytest.raises(ParameterError, match="message is blank"):
        service.build(" \n")
    with pytest.raises(ParameterError, match="time must be ISO 8601"):
        service.build("x", time="soon")
    with pytest.raises(ParameterError, match="years 1 to 9999"):
        service.build("x", time="9999-12-31T23:59:59Z")
    with pytest.raises(UserError, match="unknown workspace 'hone'; did you mean"):
        type(service)(store, "hone", embedder="hashing")
    with pytest.raises(UserError, match="unknown selector 'memori'"):
        service_over(store, selector="memori")


def test_feedback_is_recorded_with_what_was_asked(service, store):
    built = service.build("flat tyre?", user="ana", thread="t", time=NOW)
    service.feedback("memory:tyre%401", useful=True, user="ana", context=built.id)
    service.feedback("memory:pump%401", useful=False, user="ana")
    first, second = store.events(WORKSPACE)
    assert (first.kind, first.id, first.useful, first.user, first.conversation) == (
        "feedback",
        "tyre",
        True,
        "ana",
        "t",
    )
    asked = {"context": built.id, "item": "memory:tyre%401", "text": "flat tyre?", "time": "2026-03-10 09:00:30"}
    assert first.metadata == {"asked": asked}
    assert (second.id, second.useful, second.conversation, second.metadata) == ("pump", False, None, {})
    assert service.metrics.value("feedback") == 2


def test_what_was_sufficient_is_recorded_with_all_that_was_in_it(service, store):
    built = service.build("flat tyre?", user="ana", thread="t", time=NOW)
    service.sufficient(built.id, True, user="ana")
    service.sufficient(built.id, False, user="ana")
    first, last = store.events(WORKSPACE)
    assert (first.kind, first.id, first.useful, first.user, first.conversation) == (
        "sufficient",
        built.id,
        True,
        "ana",
        "t",
    )
    asked = {"context": built.id, "items": sorted(ids(built)), "text": "flat tyre?", "time": "2026-03-10 09:00:30"}
    assert first.metadata == last.metadata == {"asked": asked}
    assert (last.useful, [service.metrics.value(one) for one in ("sufficient", "insufficient")]) == (False, [1, 1])
    assert service.build("flat tyre?", user="ana", thread="t", time=NOW).kept  # it is no use of anything
    for context, user in ((built.id, "ben"), (built.id, None), ("gone", "ana")):
        with pytest.raises(NotSeenError, match="unknown context"):
            service.sufficient(context, True, user=user)
    store.delete(WORKSPACE, "tyre")
    with pytest.raises(NotSeenError, match="unknown item 'memory:tyre%401'"):
        service.sufficient(built.id, True, user="ana")


def test_feedback_on_what_is_not_there_or_is_anothers_says_the_same(service, store):
    store.insert(Memory(id="secret", workspace=WORKSPACE, content="Ben's tyre.", user="ben", created="2026-03-05"))
    built = service.build("flat tyre?", user="ana", time=NOW)
    for item in ("memory:secret%401", "memory:gone%401", "secret", "%FF:x", "memory:tyre"):
        with pytest.raises(NotSeenError, match="unknown item"):
            service.feedback(item, useful=True, user="ana")
    for context, user in ((built.id, "ben"), (built.id, None), ("gone", "ana")):
        with pytest.raises(NotSeenError, match="unknown context"):
            service.feedback("memory:tyre%401", useful=True, user=user, context=context)
    preview = service.preview("tea?", user="ana", time=NOW)
    with pytest.raises(NotSeenError, match="unknown context"):
        service.feedback("memory:tea%401", useful=True, user="ana", context=preview.id)
    store.insert(Memory(id="late", workspace=WORKSPACE, content="x", created="2026-03-05"))
    with pytest.raises(NotSeenError, match="is not in this context"):
        service.feedback("memory:late%401", useful=True, user="ana", context=built.id)
    assert store.events(WORKSPACE) == ()


def test_the_room_has_no_store_of_its_own():
    room = Path(__file__).parents[2] / "ctxbench" / "server"
    assert not [path for path in room.glob("*.py") if "sqlite3" in path.read_text()]


def test_a_workspace_without_anything_has_an_empty_context():
    store = DictStore()
    store.create_workspace(WORKSPACE)
    told = service_over(store).build("flat tyre?").as_dict()
    assert told["meta"] == {"tokenUsage": 0, "sourceCount": 0, "citationCount": 0}


def test_a_request_and_its_items_are_of_one_moment(store, service, monkeypatch):
    asked, made = [], store.request

    def request(workspace, *given, **more):
        asked.append(len(store.catalog(workspace)))
        if len(asked) == 1:  # somebody writes and opens a file just now
            store.insert(Memory(id="new.md", workspace=WORKSPACE, content="tyre", type="file", created="2026-03-05"))
            store.record(Event(kind="access", workspace=WORKSPACE, id="new.md", at="2026-03-06"))
        return made(workspace, *given, **more)

    monkeypatch.setattr(store, "request", request)
    context = service.build("flat tyre?", time=NOW)
    assert asked == [4, 5]
    assert "file:new.md%401" in ids(context)


def test_a_service_that_is_prepared_has_its_indexes(store):
    service, asked = service_over(store, selector="assembly"), []
    service.prepare()
    kept = service._resources.get_or_create
    service._resources.get_or_create = lambda key, make: kept(key, lambda: asked.append(key) or make())
    assert service.build("tyre pump?", time=NOW).selection.trace == ()
    assert asked == []
    assert service.metrics.value("builds") == 1


def test_assembly_counts_its_sources_and_cites_its_items(store):
    given = {"workspace": WORKSPACE, "created": "2026-03-05", "conversation": "t"}
    store.insert(Memory(id="docs/tyre.md", content="How to fix a tyre.", type="file", **given))
    store.insert(Memory(id="docs/tea.md", content="How to make tea.", type="file", **given))
    store.insert(Memory(id="said", content="My tyre is flat.", type="message", kind="user", **given))
    reference = Event(kind="reference", workspace=WORKSPACE, id="docs/tea.md", conversation="t", user="ana", at=NOW)
    store.record(reference)
    service = service_over(store, selector="assembly")
    told = service.build("How is a tyre fixed?", thread="t", user="ana", time="2026-03-10T09:01:00Z").as_dict()
    data = told["data"]
    assert data["stats"] == {"explicitCount": 1, "searchCount": 1, "historyCount": 1, "excludedCount": 0}
    by_path = {one["source"]: one for one in data["items"]}
    assert by_path["docs/tyre.md"]["metadata"]["matchedKeywords"] == ["tyre"]  # "fixed" stands there as "fix"
    assert [one["id"] in data["context"] for one in data["citations"]] == [True] * 3
    cited = {one["source"]: one for one in data["citations"]}
    assert set(cited) == {"docs/tyre.md", "docs/tea.md", "user in t"}
    assert cited["docs/tea.md"] == {
        "id": cited["docs/tea.md"]["id"],
        "source": "docs/tea.md",
        "type": "file",
        "path": "docs/tea.md",
        "excerpt": "How to make tea.",
        "relevance": by_path["docs/tea.md"]["relevance"],
        "usedInResponse": False,
    }
    assert told["meta"] == {"tokenUsage": -(-len(data["context"]) // 4), "sourceCount": 3, "citationCount": 3}


def test_what_is_remembered_is_bounded_in_bytes_and_feedback_goes_on(service, store, monkeypatch):
    monkeypatch.setattr(context_service, "REMEMBERED_BYTES", 50_000)
    built = [service.build(f"flat tyre {number} " + "\U0001f6b2" * 70_000, time=NOW) for number in range(6)]
    assert 0 < service._built.size <= 50_000
    assert len(service._built) < 6
    service.feedback("memory:tyre%401", useful=True, context=built[-1].id)
    service.sufficient(built[-1].id, enough=True)
    texts = [event.metadata["asked"]["text"] for event in store.events(WORKSPACE)]
    assert texts == [built[-1].request.text[:2_000]] * 2
    with pytest.raises(NotSeenError):
        service.feedback("memory:tyre%401", useful=True, context=built[0].id)


def test_no_user_drives_out_what_is_remembered_of_another(service, store, monkeypatch):
    monkeypatch.setattr(context_service, "REMEMBERED", 10)
    alices = service.build("flat tyre?", user="alice", time=NOW)
    bobs = [service.build(f"tea {number}", user="bob", time=NOW) for number in range(20)]
    service.feedback("memory:tyre%401", useful=True, user="alice", context=alices.id)
    service.feedback("memory:tea%401", useful=True, user="bob", context=bobs[-1].id)
    with pytest.raises(NotSeenError):
        service.feedback("memory:tea%401", useful=True, user="bob", context=bobs[0].id)
    assert len(service._built) == 10


def test_the_names_of_threads_count_as_bytes(service, monkeypatch):
    monkeypatch.setattr(context_service, "REMEMBERED_BYTES", 5_000_000)
    for number in range(5):
        service.build("flat tyre?", thread=f"{number} " + "t" * 900_000, time=NOW)
    assert len(service._built) == 1
    assert service._built.size <= 5_000_000


def test_each_context_is_one_line_in_the_log_without_a_text(service, caplog):
    with caplog.at_level("INFO", logger="ctxbench.memory"):
        made, _ = [service.build("flat tyre?", user="ana", time=NOW) for _ in range(2)]
    lines = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert len(lines) == 2
    for line, kept in zip(lines, (False, True), strict=True):
        assert all(part in line for part in (made.id, "'ana'", "memory", f"{made.tokens} tokens", " ms"))
        assert line.endswith("not cached") != kept
        assert "tyre" not in line


def test_the_log_names_nobody_where_there_is_no_user(service, caplog):
    with caplog.at_level("INFO", logger="ctxbench.memory"):
        service.build("flat tyre?", time=NOW)
    assert " user=- selector=" in caplog.text


@pytest.mark.parametrize("length", [1_000, 11_000, 40_000])
def test_a_long_word_stops_no_search(store, length):
    word = "\u6f22" * length
    text = f"canal x{word}"
    store.insert(Memory(id="zh.txt", workspace=WORKSPACE, type="file", content=text))
    service = service_over(store, selector="assembly")
    assert "file:zh.txt%401" in ids(service.build("flat canal"))
    assert "file:zh.txt%401" in ids(service.build(f"x{word}"))
    assert not service.build("flat canal").selection.trace
