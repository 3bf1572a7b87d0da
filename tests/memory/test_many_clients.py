"""Builds from 32 clients at once, over a socket, are those that come one by one."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx
import pytest

from ctxbench.memory.memories import Memory
from ctxbench.memory.web_app import UserTokens
from ctxbench.search import dense
from tests.draws import draws
from tests.interrupt import Interrupted
from tests.memory.dict_store import DictStore
from tests.memory.service_world import WORKSPACE, service_over

uvicorn = pytest.importorskip("uvicorn")
from ctxbench.memory.web_app import Access, web_app  # noqa: E402 - needs the extra

CLIENTS = 32
USERS = ("ana", "ben", "eve", "joe")
WORDS = ("flat", "tyre", "green", "tea", "rye", "bread", "pump", "canal")


def service():
    store = DictStore()
    store.create_workspace(WORKSPACE)
    rows = [
        Memory(
            id=str(number),
            workspace=WORKSPACE,
            content=" ".join(WORDS[(number * step) % 8] for step in range(1, 7)),
            user=(*USERS, None)[number % 5],
            created="2026-03-01",
        )
        for number in range(200)
    ]
    store.insert_many(rows)
    made = service_over(store)
    made.build = partial(made.build, time="2026-03-10T09:00:00Z")  # the grid's next step is no matter here
    return made


@contextmanager
def served(app):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # a busy machine may let a connection wait for longer than the usual 5 s, after which it is closed
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=600)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=60)


def asked(number):
    body = {"message": f"{WORDS[number % 8]} {WORDS[number // 8 % 8]}", "threadId": f"t{number % 3}"}
    return body, {"Authorization": f"Bearer {USERS[number % 4] * 6}"}


def test_builds_from_32_clients_are_those_one_by_one():
    tokens = UserTokens({name * 6: name for name in USERS})
    alone = service()
    expected, most = {}, draws(1_000, 320)
    for number in range(most):
        body, _ = asked(number)
        user = USERS[number % 4]
        expected[number] = alone.build(body["message"], thread=body["threadId"], user=user).as_dict()
    with served(web_app(service(), Access(tokens=tokens))) as url, ThreadPoolExecutor(CLIENTS) as pool:

        def build(first):
            answers = []
            with httpx.Client(base_url=url, timeout=60) as client:
                for number in range(first, most, CLIENTS):
                    body, headers = asked(number)
                    response = client.post("/context/build", json=body, headers=headers)
                    answers.append((number, response.status_code, response.json()))
            return answers

        found = [one for answers in pool.map(build, range(CLIENTS)) for one in answers]
    assert [status for _, status, _ in found] == [200] * most
    assert [number for number, _, told in found if told != expected[number]] == []
    assert len({str(told) for told in expected.values()}) > 100  # they are not all alike


def test_first_builds_of_two_users_at_once_are_those_one_by_one(monkeypatch):
    """The private items of both are put behind the public ones at the same time."""

    def build(made, user):
        return made.build("flat tyre", user=user).as_dict()

    alone, shared = service(), service()
    expected = {user: build(alone, user) for user in USERS}
    shared.prepare()  # the index of public items exists
    is_extended = lambda room, *_: room._rows > 0  # noqa: E731 - of the public items
    interrupted = Interrupted(dense.Room.add, lambda: build(shared, "ben"), when=is_extended)
    monkeypatch.setattr(dense.Room, "add", interrupted)
    assert build(shared, "ana") == expected["ana"]
    assert interrupted.result() == expected["ben"]
    assert {user: build(shared, user) for user in USERS} == expected
