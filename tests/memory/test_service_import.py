"""`POST /context/import`: what users send is theirs alone, and enters as a whole or not at all."""

from __future__ import annotations

import pytest

from ctxbench.memory.memories import Memory
from tests.memory.service_world import WORKSPACE, filled, service_over
from tests.memory.test_web_app import bearer, client, problem, with_tokens

FILE = {"id": "src/pay.py", "type": "file", "kind": "text/x-python", "content": "def pay(): return 'flat tyre'"}
REFERENCE = {"event": "reference", "id": "src/pay.py", "conversation": "t"}
ACCESS = {"event": "access", "id": "src/pay.py"}


def send(one, user, *rows):
    body = {"items": [row for row in rows if "event" not in row], "events": [row for row in rows if "event" in row]}
    return one.post("/context/import", json=body, headers=bearer(user))


def build(one, user):
    body = {"message": "flat tyre in src/pay.py", "threadId": "t"}
    return one.post("/context/build", json=body, headers=bearer(user)).json()["data"]


@pytest.fixture
def one():
    return with_tokens(service=service_over(filled(), selector="assembly"))


def test_a_file_and_its_events_show_in_the_next_context_of_its_user_alone(one):
    response = send(one, "ana", FILE, REFERENCE, ACCESS)
    counts = {"new": 1, "versions": 0, "same": 0, "relationships": 0, "events": 2, "elsewhere": 0}
    assert (response.status_code, response.json()) == (200, counts)
    (item,) = [item for item in build(one, "ana")["items"] if item["type"] == "file"]
    assert (item["source"], item["metadata"]["path"]) == ("src/pay.py", "src/pay.py")
    assert build(one, "ana")["stats"]["explicitCount"] == 1
    assert not [item for item in build(one, "ben")["items"] if item["type"] == "file"]


def test_a_row_again_changes_nothing_and_a_changed_one_is_a_version(one):
    row, changed = {**FILE, "created": "2026-03-01"}, {**FILE, "content": "def pay(n): return 'flat tyre'"}
    answers = [send(one, "ana", sent).json() for sent in (row, row, changed, changed)]
    counts = [(answer["new"], answer["versions"], answer["same"]) for answer in answers]
    assert counts == [(1, 0, 0), (0, 0, 1), (0, 1, 0), (0, 0, 1)]
    assert [item["content"] for item in build(one, "ana")["items"] if item["type"] == "file"] == [changed["content"]]


def test_users_may_have_the_same_path_and_learn_nothing_of_each_other(one):
    """Each answer is as if there were nobody else."""
    alone = send(with_tokens(service=service_over(filled(), selector="assembly")), "ben", FILE, REFERENCE, ACCESS)
    assert send(one, "ana", FILE, REFERENCE, ACCESS).status_code == 200
    assert send(one, "ben", FILE, REFERENCE, ACCESS).json() == alone.json()
    absent, hidden = (
        problem(send(one, "ben", {"event": "access", "id": id_}), 404) for id_ in ("~ana/nothing.py", "~ana/src/pay.py")
    )
    assert absent.replace("nothing.py", "src/pay.py") == hidden
    link = {**FILE, "id": "b.py", "relationships": [{"type": "about", "target": "~ana/src/pay.py"}]}
    assert "no item '~ana/src/pay.py' that you see" in problem(send(one, "ben", link), 404)
    assert one.service._store.get(WORKSPACE, "~ben/src/pay.py").user == "ben"


def test_user_names_with_slashes_do_not_meet(one):
    service = one.service
    service.import_rows([{**FILE, "id": "x/b.py"}], user="ana")
    service.import_rows([{**FILE, "id": "b.py", "content": "other"}], user="ana/x")
    assert service._store.get(WORKSPACE, "~ana/x/b.py").content == FILE["content"]


def test_public_items_can_be_referred_to_and_are_not_changed(one):
    """A row of a user never replaces an item of everybody."""
    tea = {"id": "tea", "type": "memory", "content": "Ana drinks tea."}
    assert send(one, "ana", tea, {**REFERENCE, "id": "tea"}).status_code == 200
    store = one.service._store
    assert store.get(WORKSPACE, "tea").content == "Ben drinks green tea without sugar."
    assert [event.id for event in store.events(WORKSPACE)] == ["~ana/tea"]  # the user's own comes first
    assert send(one, "ben", {**REFERENCE, "id": "tea"}).status_code == 200
    assert [event.id for event in store.events(WORKSPACE)] == ["~ana/tea", "tea"]


def test_an_event_again_with_its_time_changes_nothing(one):
    timed = {**ACCESS, "at": "2026-03-02T10:00:00.5+01:00"}
    rows = ({**FILE, "created": "2026-03-01"}, timed)
    answers = [send(one, user, *rows).json()["events"] for user in ("ana", "ana", "ben", "ben")]
    assert answers == [1, 0, 1, 0]
    assert (
        send(one, "ana", timed, {**timed, "at": "2026-03-03"}, {**REFERENCE, "at": timed["at"]}).json()["events"] == 2
    )
    assert len(one.service._store.events(WORKSPACE)) == 4


def test_an_import_reads_no_events_of_other_times(one, monkeypatch):
    store, read = one.service._store, []
    assert send(one, "ana", FILE, ACCESS).status_code == 200
    whole = store._events
    monkeypatch.setattr(store, "_events", lambda *of, **by: [read.append(event) or event for event in whole(*of, **by)])
    assert send(one, "ana", {**FILE, "id": "b.py"}).status_code == 200
    assert send(one, "ana", {**ACCESS, "id": "b.py"}).status_code == 200
    assert read == []


BAD = {
    "user": ([{**FILE, "user": "ben"}], 422, "items 1: unknown field 'user'"),
    "workspace": ([{**FILE, "workspace": WORKSPACE}], 422, "items 1: unknown field 'workspace'"),
    "field": ([FILE, {**FILE, "id": "b", "txt": "x"}], 422, "items 2: unknown field 'txt'"),
    "no content": ([{"id": "a", "type": "file"}], 422, "items 1: content is missing"),
    "prefix": ([{**FILE, "id": "~ben/a"}], 422, "items 1: id must not be blank, begin with ~"),
    "at": ([FILE, {"id": "a@1", "type": "message", "content": "x"}], 422, "item 2: id must not have '@'"),
    "time": ([{**FILE, "created": "2026-03-01T99"}], 422, "item 1: created must be ISO 8601"),
    "confidence": ([{**FILE, "confidence": 2}], 422, "item 1: confidence must be 0 to 1"),
    "event": ([FILE, {"event": "open", "id": "src/pay.py"}], 422, "events 1: event must be one of reference"),
    "no conversation": ([FILE, {"event": "reference", "id": "src/pay.py"}], 422, "event 1: reference of 'src/pay.py'"),
    "unknown": ([FILE, {"event": "access", "id": "b.py"}], 404, "event 1: no item 'b.py' that you see"),
    "twice": (
        [FILE, {**FILE, "content": "other"}],
        409,
        "item 2: item 1 has other values for 'src/pay.py'; set created,",
    ),
}


@pytest.mark.parametrize(("rows", "status", "said"), BAD.values(), ids=BAD)
def test_bad_rows_are_named_by_number_and_nothing_is_stored(one, rows, status, said):
    store = one.service._store
    before = store.catalog(WORKSPACE)
    assert said in problem(send(one, "ana", *rows), status)
    assert (store.catalog(WORKSPACE).hash, store.events(WORKSPACE)) == (before.hash, ())


@pytest.mark.parametrize("items", [{}, [1], "x", None])
def test_a_body_of_another_form_is_refused(one, items):
    problem(one.post("/context/import", json={"items": items}, headers=bearer("ana")), 422)


def test_what_contradicts_the_store_undoes_all_of_it(one):
    assert send(one, "ana", {**FILE, "created": "2026-03-02"}).status_code == 200
    before = one.service._store.catalog(WORKSPACE).hash
    early = {**FILE, "content": "older", "created": "2026-03-01"}
    assert "item 2: " in problem(send(one, "ana", {**FILE, "id": "new.py"}, early), 409)
    assert one.service._store.catalog(WORKSPACE).hash == before


def test_without_tokens_items_are_everybodys_and_private_ones_are_kept():
    store = filled()
    store.insert(Memory(id="diary", workspace=WORKSPACE, content="Private.", user="ben"))
    public = client(service_over(store))
    assert public.post("/context/import", json={"items": [FILE]}).status_code == 200
    assert store.get(WORKSPACE, "src/pay.py").user is None
    row = {"id": "diary", "type": "memory", "content": "Mine."}
    assert "choose another one" in problem(public.post("/context/import", json={"items": [row]}), 409)
    assert store.get(WORKSPACE, "diary").content == "Private."


def test_an_import_has_the_limits_of_every_request(one):
    small = with_tokens(service=one.service, body=200)
    problem(send(small, "ana", {**FILE, "content": "x" * 300}), 413)
    problem(one.post("/context/import", json={"items": [FILE]}), 401)
    problem(one.post("/context/import", json={"items": [FILE]}, headers=bearer(None)), 403)
    assert "/context/import" in one.get("/openapi.json").json()["paths"]
