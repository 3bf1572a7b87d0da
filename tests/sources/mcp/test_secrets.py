"""What must not leave a configuration, in every form that it may turn up in."""

from __future__ import annotations

import pytest

from ctxbench.sources.mcp.secrets import Secrets, in_arguments, in_url


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("key sk-12/34+x is wrong", "key <hidden> is wrong"),
        ("?key=sk-12/34%2Bx&", "?key=<hidden>&"),
        ("?key=sk-12%2F34%2Bx&", "?key=<hidden>&"),
        ("ask-12/34+xed", "a<hidden>ed"),
        ("nothing", "nothing"),
    ],
)
def test_a_value_is_hidden_as_it_is_and_as_a_url_writes_it(text: str, hidden: str) -> None:
    assert Secrets(["sk-12/34+x"]).hide(text) == hidden


def test_the_words_and_lines_of_a_value_are_hidden_too() -> None:
    secrets = Secrets(["Bearer tiger42", 'first "line"\nsecond line'])
    assert secrets.hide("tiger42, Bearer tiger42") == "<hidden>, <hidden>"
    assert secrets.hide('{"x": "first \\"line\\"\\nsecond line"}') == '{"x": "<hidden>"}'
    assert secrets.hide("second line") == "<hidden>"


def test_a_short_value_is_hidden_as_a_word_only() -> None:
    secrets = Secrets(["1", "on"])
    assert secrets.hide("1 of 10, on and one") == "<hidden> of 10, <hidden> and one"
    assert secrets.hide_in({"on": ["1"]}) == {"on": ["1"]}  # stands in a tool by chance


def test_the_longest_value_is_hidden_first() -> None:
    assert Secrets(["tiger", "tiger-house"]).hide("tiger-house tiger") == "<hidden> <hidden>"


def test_json_is_searched_with_its_keys() -> None:
    value = {"tiger-42": ["a tiger-42", 3, None, {"x": True}]}
    assert Secrets(["tiger-42"]).hide_in(value) == {"<hidden>": ["a <hidden>", 3, None, {"x": True}]}
    assert Secrets([]).hide_in(value) is value
    assert Secrets(["", " "]).hide("a b") == "a b"


def test_arguments_that_look_secret_are_found() -> None:
    arguments = [
        "-y",
        "pkg",
        "--api-key",
        "k1",
        "--token=t=2",
        "--verbose",
        "v",
        "--password",
        "--x",
        "--Auth-Header",
        "h",
    ]
    assert in_arguments(arguments) == {"k1", "t=2", "h"}


def test_parts_of_a_url_that_look_secret_are_found() -> None:
    url = "https://me:pass%20word@host.example:8/v1/0123456789abcdef/mcp?key=k1&flag#frag"
    assert in_url(url) == {"me", "pass%20word", "pass word", "0123456789abcdef", "k1", "frag"}
    assert in_url("http://[broken/") == {"http://[broken/"}
    assert in_url("http://host/mcp") == set()
