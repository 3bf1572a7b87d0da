from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError, StorageError
from ctxbench.selectors.conversations import read_session, write_session


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.json"


def test_a_session_comes_back(session, agent, path):
    kept = session.remove("rule:A").with_settings(contextTopN=7)
    write_session(kept, path)
    read = read_session(path, agent)
    assert read == kept
    assert json.loads(path.read_text("utf-8"))["removed"] == ["rule:A"]


def test_it_may_say_little(agent, path):
    path.write_text("{}")
    read = read_session(path, agent)
    assert read.id == "s"
    assert [item.key.id for item in read.items] == ["rule:A", "reference:X"]
    path.write_text('{"removed": ["rule:A"]}')
    assert [item.key.id for item in read_session(path, agent).items] == ["reference:X"]
    path.write_text('{"items": [{"id": "rule:B"}], "settings": {"contextTopN": 3}}')
    read = read_session(path, agent)
    assert [(item.key.id, item.mode) for item in read.items] == [("rule:B", "manual")]
    assert (read.settings["contextTopN"], read.settings["contextTopK"]) == (3, 20)


def test_null_is_absent(agent, path):
    path.write_text('{"id": null, "selector": null, "removed": null, "settings": null, "items": null}')
    read = read_session(path, agent)
    path.write_text("{}")
    assert read == read_session(path, agent)


def test_what_the_agent_no_longer_has_is_kept(session, agent, path):
    write_session(session, path)
    read = read_session(path, agent.without("rule:B"))
    assert "rule:B" in read
    assert len(read.build_request("hello")[1]) == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[]", 1, "expected a session"),
        ("{\n", 2, "malformed JSON"),
        ('{\n"itms": []}', 2, "a session has no field 'itms'; did you mean 'items'"),
        ('{"id": "a",\n"items": [{"id": "A"}]}', 2, "items[0].id: 'A' is no item id"),
        ('{"items": [{"id": "rule:A", "mode": "agent"}]}', 1, "mode is always or manual, got 'agent'"),
        ('{"items": [3]}', 1, "items[0] must be a mapping, got 3"),
        ('{"items": [],\n"removed": [3]}', 2, "removed[0]: expected an item id, got 3"),
        ('{"items": [],\n\n"settings": {"contextTopN": 99}}', 3, "contextTopN must be 0 to 50, got 99"),
        ('{"items": [],\n"settings": {"topN": 9}}', 2, "selector 'semantic' has no parameter 'topN'"),
        (
            '{"items": [],\n"settings": {"contextExpansionEnabled": true,\n"contextExpansionDepth": 6}}',
            2,
            "contextExpansionDepth must be 0 to 5",
        ),
        ('{"items": [],\n"id": ""}', 2, "id must not be empty"),
        (
            '{"news": 1,\n"format": 2}',
            2,
            "format is 2, and this version reads 1; ",
        ),
        ('{"\\ud800": 1}', 1, r"a session has no field '\ud800'"),
        ('{\n"selector": ""}', 2, "the session is of selector '', and the agent has 'semantic'"),
        ('{\n"selector": "dense"}', 2, "the session is of selector 'dense', and the agent has 'semantic'"),
        ('{"items": [{"id": "rule:A"}],\n"removed": ["rule:A"]}', 1, "has rule:A twice, or in it and removed"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(agent, path, text, line, message):
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_session(path, agent)
    assert [fault.line for fault in caught.value.faults] == [line]
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_missing_is_said(agent, path):
    with pytest.raises(StorageError, match="cannot read"):
        read_session(path, agent)
