"""Stored conversations: what is read back, several processes, and writes that were cut short."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.model.requests import Message
from ctxbench.selectors.conversations import ConversationStore, Exchange
from tests.children import child

APPENDS = """
import sys
from ctxbench.selectors.conversations import ConversationStore, Exchange
path, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = ConversationStore(path)
sys.stdin.readline()
for i in range(n):
    history = store.history(name)
    store.append(Exchange(conversation=name, text=f"{name} {i}", reply="x" * 3000, history=history))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chats" / "c.jsonl"


def exchange(text, conversation="c1", **fields):
    return Exchange(conversation=conversation, text=text, reply=f"re {text}", **fields)


class TestReadingBack:
    def test_everything_comes_back(self, session, resources, path):
        context = session.remove("rule:A").request("How do I authenticate?", resources, tool_results=[("read", "ok")])
        made = Exchange.of(context, "Send it.", calls=["tool:web:fetch", "fetch"], time="2026-03-23T09:30:00+00:00")
        ConversationStore(path).append(made)
        (read,) = ConversationStore(path).exchanges()
        assert read == made

    def test_names_and_hashes_are_stored_and_no_texts_of_items(self, session, resources, path):
        ConversationStore(path).append(Exchange.of(session.request("How do I authenticate?", resources), "So."))
        stored = path.read_text("utf-8")
        assert '"requestContext":{"items":[{"type":"rule","name":"A","includeMode":"always"}' in stored
        assert "Be kind." not in stored
        assert "You are helpful." not in stored

    def test_earlier_messages_are_named_by_hash_and_others_kept(self, path):
        store = ConversationStore(path)
        store.append(exchange("one"))
        told = (*store.history("c1"), Message("tool", "42 found"))
        store.append(exchange("two", history=told))
        row = json.loads(path.read_text("utf-8").splitlines()[1])
        assert [type(one) for one in row["history"]] == [str, str, dict]
        assert ConversationStore(path).exchanges()[1].history == told

    def test_history_is_what_was_said_in_one_conversation(self, path):
        store = ConversationStore(path)
        for one in (exchange("one"), exchange("other", "c2"), Exchange(conversation="c1", text="two")):
            store.append(one)
        assert [message.content for message in store.history("c1")] == ["one", "re one", "two"]
        assert store.history("c3") == ()

    def test_a_file_that_is_not_there_is_empty(self, path):
        assert ConversationStore(path).exchanges() == ()
        assert ConversationStore(path).remove("c1") == 0

    @pytest.mark.parametrize("text", ["grüße 🚀 \u2028 next", "two\nlines", "", "\ud800 half"])
    def test_any_text_comes_back(self, path, text):
        ConversationStore(path).append(exchange(text))
        assert ConversationStore(path).exchanges()[0].text == text

    def test_a_file_may_be_written_by_hand(self, path):
        path.parent.mkdir()
        row = {"conversation": "c1", "text": "hi", "reply": "yes", "requestContext": {"items": []}}
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row).encode() + b"\r\n\r\n" + json.dumps(row).encode())
        store = ConversationStore(path)
        assert len(store.exchanges()) == 2
        store.append(exchange("three"))
        assert [line for _, line in store.numbered()] == [1, 3, 4]
        assert ConversationStore(path).exchanges() == store.exchanges()


class TestRemoving:
    def test_null_is_absent_and_other_fields_of_a_context_are_ignored(self, path):
        names = "text reply calls content removed history tool_results selector settings system sent warnings"
        fields = dict.fromkeys((*names.split(), "requestContext"))
        item = {"type": "rule", "name": "A", "includeMode": "agent", "extra": 1}
        context = {"items": [item], "extra": 1}
        rows = [{"conversation": "c", **fields}]
        rows += [{"conversation": "c", "requestContext": context, "content": {"rule:B": 3}}]
        path.parent.mkdir()
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        empty, filled = ConversationStore(path).exchanges()
        assert empty == Exchange(conversation="c", text="")
        assert [held.key.id for held in filled.context] == ["rule:A"]

    def test_one_conversation_goes_and_the_others_stay_to_the_byte(self, path):
        store = ConversationStore(path)
        for one in (exchange("one"), exchange("other", "c2"), exchange("two", history=(Message("user", "one"),))):
            store.append(one)
        kept = path.read_bytes().split(b"\n")[1] + b"\n"
        assert store.remove("c1") == 2
        assert path.read_bytes() == kept
        assert store.remove("c1") == 0
        assert [one.text for one in store.exchanges()] == ["other"]

    def test_another_process_sees_that_the_file_was_written_anew(self, path):
        store, other = ConversationStore(path), ConversationStore(path)
        for name in ("c1", "c2", "c3"):
            store.append(exchange(f"of {name}", name))
        assert len(other.exchanges()) == 3
        store.remove("c1")
        assert [one.conversation for one in other.exchanges()] == ["c2", "c3"]
        other.append(exchange("more", "c2"))
        store.remove("c3")
        assert [one.text for one in other.exchanges()] == ["of c2", "more"]


class TestCrashes:
    def test_a_write_that_was_cut_short_is_passed_over_and_taken_off_by_the_next(self, path):
        store = ConversationStore(path)
        store.append(exchange("one"))
        whole = path.read_bytes()
        store.append(exchange("two"))
        second = path.read_bytes()[len(whole) :]
        for length in range(1, len(second) - 1):  # all but the line end is the whole exchange
            path.write_bytes(whole + second[:length])
            assert [one.text for one in ConversationStore(path).exchanges()] == ["one"]
        path.write_bytes(whole + second[:40])
        ConversationStore(path).append(exchange("three"))
        assert path.read_bytes().startswith(whole + b'{"format":1,"conversation":"c1","text":"three"')
        assert [one.text for one in store.exchanges()] == ["one", "three"]

    def test_a_write_that_lacks_its_line_end_only_is_kept(self, path):
        store = ConversationStore(path)
        store.append(exchange("one"))
        path.write_bytes(path.read_bytes()[:-1])
        assert [one.text for one in ConversationStore(path).exchanges()] == ["one"]
        store.append(exchange("two"))
        assert [one.text for one in ConversationStore(path).exchanges()] == ["one", "two"]

    def test_a_full_disk_leaves_what_was_there(self, path, monkeypatch):
        store = ConversationStore(path)
        store.append(exchange("one"))
        before = path.read_bytes()

        def fail(_handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(StorageError, match="No space left on device; the exchange was not stored"):
            store.append(exchange("two"))
        assert path.read_bytes() == before

    def test_a_lock_is_no_file_that_stays(self, path):
        ConversationStore(path).append(exchange("one"))
        assert [file.name for file in path.parent.iterdir()] == ["c.jsonl"]


def test_two_processes_append_to_one_store(path):
    with ExitStack() as running:
        started = [
            running.enter_context(
                child([sys.executable, "-c", APPENDS, path, name, "25"], stdin=subprocess.PIPE, text=True)
            )
            for name in ("left", "right")
        ]
        for process in started:
            process.stdin.write("go\n")
            process.stdin.close()
    assert [process.returncode for process in started] == [0, 0]
    store = ConversationStore(path)
    assert len(store.exchanges()) == 50
    for name in ("left", "right"):
        mine = store.exchanges(name)
        assert [one.text for one in mine] == [f"{name} {i}" for i in range(25)]
        assert [len(one.history) for one in mine] == [2 * i for i in range(25)]


def test_threads_share_one_store(path):
    store = ConversationStore(path)

    def talk(name):
        for i in range(20):
            store.append(exchange(f"{name} {i}", name, history=store.history(name)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(talk, "abcd"))
    assert store.exchanges() == ConversationStore(path).exchanges()
    assert sorted(one.text for one in store.exchanges()) == sorted(f"{name} {i}" for name in "abcd" for i in range(20))


@pytest.mark.essential
@pytest.mark.parametrize("written", [1, 7, 19])
def test_a_killed_process_leaves_a_store_that_is_read_and_added_to(path, written):
    with child(
        [sys.executable, "-c", APPENDS, str(path), "left", "10000"], stdin=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write("go\n")
        process.stdin.flush()
        while not path.exists() or path.read_bytes().count(b"\n") < written:
            assert process.poll() is None
        process.kill()
    store = ConversationStore(path)
    found = store.exchanges()
    assert [one.text for one in found] == [f"left {i}" for i in range(len(found))]
    assert len(found) >= written
    store.append(exchange("after", "right"))
    assert len(ConversationStore(path).exchanges()) == len(found) + 1


class TestBadFiles:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "malformed JSON"),
            ("[]", "expected a stored exchange, one JSON object per line"),
            ('{"text": "a"}', "an exchange needs the field 'conversation'"),
            ('{"conversation": "c", "text": 3, "requestContext": {"items": []}}', "text must be a text, got 3"),
            (
                '{"conversation": "c", "txt": "a", "requestContext": {}}',
                "an exchange has no field 'txt'; did you mean 'text'",
            ),
            ('{"conversation": "c", "text": "a"}', "an exchange needs the field 'requestContext'"),
            (
                '{"conversation": "c", "requestContext": {"items": [{"type": "rule", "name": "A", "includeMode": 1}]}}',
                "includeMode must be 'always' or 'manual' or 'agent'",
            ),
            (
                '{"conversation": "c", "requestContext": {"items": [{"name": "A"}]}}',
                "an item of a context needs the field 'includeMode'",
            ),
            (
                '{"conversation": "c", "requestContext": {"items": []}, "history": ["00"]}',
                "names message '00', which the conversation does not hold before this line",
            ),
            (
                '{"conversation": "c", "requestContext": {"items": []}, "time": "noon"}',
                "time must be ISO 8601, such as 2026",
            ),
            (
                '{"conversation": "c", "requestContext": {"items": []}, "tool_results": [{"tool": "x"}]}',
                "a tool result needs the field 'text'",
            ),
        ],
    )
    def test_what_is_wrong_is_said_with_file_and_line(self, path, line, message):
        path.parent.mkdir()
        path.write_text(f'{{"conversation": "c", "text": "", "requestContext": {{"items": []}}}}\n{line}\n')
        store = ConversationStore(path)
        with pytest.raises(InputError, match=message) as caught:
            store.exchanges()
        assert {(fault.path, fault.line) for fault in caught.value.faults} == {(path, 2)}
        with pytest.raises(InputError):
            store.append(exchange("one"))  # a faulty file is not added to

    def test_a_role_is_one_of_those_of_messages(self, path):
        path.parent.mkdir()
        row = '{"conversation": "c", "requestContext": {}, "history": [{"role": "bot", "content": "a"}], "reply": 3}'
        path.write_text(row)
        with pytest.raises(InputError, match="reply must be a text, got 3") as caught:
            ConversationStore(path).exchanges()
        assert "history[0].role must be 'system' or 'developer' or 'user'" in str(caught.value)
        assert [(fault.path, fault.line) for fault in caught.value.faults] == [(path, 1)] * 2

    def test_the_content_of_an_item_of_the_context_is_a_text(self, path):
        path.parent.mkdir()
        item = '{"type": "rule", "name": "A", "includeMode": "agent"}'
        path.write_text(f'{{"conversation": "c", "requestContext": {{"items": [{item}]}}, "content": {{"rule:A": 1}}}}')
        with pytest.raises(InputError, match=r"content\.rule:A must be a text, got 1"):
            ConversationStore(path).exchanges()

    def test_bytes_that_are_no_text_are_a_fault(self, path):
        path.parent.mkdir()
        path.write_bytes(b"\xff\n")
        with pytest.raises(InputError, match=r"expected a stored exchange, .* UTF-8 .*line 1"):
            ConversationStore(path).exchanges()

    def test_a_folder_is_no_store(self, tmp_path):
        with pytest.raises(StorageError, match="cannot read"):
            ConversationStore(tmp_path).exchanges()

    def test_an_exchange_needs_a_conversation_and_a_time_that_is_one(self):
        with pytest.raises(ParameterError, match="needs the id of its conversation"):
            Exchange(conversation="", text="a")
        with pytest.raises(ParameterError, match="time must be ISO 8601"):
            Exchange(conversation="c", text="a", time="noon")
