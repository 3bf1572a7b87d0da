"""Exchanges by HTTP end in time, and a compressed body is known by its header."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ctxbench.io.http import Deadline, compression


@pytest.mark.parametrize("value", ["", "identity", "Identity , identity", " ,"])
def test_a_body_as_it_is_has_no_compression(value: str) -> None:
    assert compression({"content-encoding": value}) == ""
    assert compression({}) == ""


@pytest.mark.parametrize("value", ["gzip", "GZIP", "br, identity", "gzip, gzip", "x-mine"])
def test_any_other_encoding_is_told_in_the_words_of_the_server(value: str) -> None:
    assert compression({"content-encoding": value}) == value


class Opened:
    """What httpcore's event of a new connection brings."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def get_extra_info(self, _name: str) -> Any:
        return self.end


def connected(deadline: Deadline, end: socket.socket) -> None:
    deadline.trace("connection.connect_tcp.complete", {"return_value": Opened(end)})


def test_who_waits_for_a_server_is_woken_when_the_time_is_up() -> None:
    deadline = Deadline(0.05)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connected(deadline, ours)
        with deadline.running():
            assert ours.recv(1) == b""  # would wait for ever
        assert deadline.late


def test_a_connection_that_is_there_only_after_the_time_is_ended_at_once() -> None:
    deadline = Deadline(0.0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with deadline.running():
            pass
        assert deadline.late
        connected(deadline, ours)
        assert ours.recv(1) == b""


def test_an_exchange_in_time_is_left_alone_and_so_is_the_next() -> None:
    deadline = Deadline(60.0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connected(deadline, ours)
        for _ in range(2):
            with deadline.running():
                theirs.sendall(b"x")
                assert ours.recv(1) == b"x"
            assert not deadline.late
