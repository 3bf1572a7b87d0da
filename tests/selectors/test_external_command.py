"""A command as a selector: what it is sent, and what becomes of one that hangs, dies, prints junk or lies."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.command import MOST, CommandOptions, CommandSource
from ctxbench.selectors.external import External, external_from_config
from tests.children import child
from tests.planted import GITHUB

CATALOG = Catalog([Item(type="tool", name="a"), Item(type="tool", name="b"), Item(type="tool", name="c")])
A, B, C = CATALOG.ids

# Every selector of these tests answers with the item that the request's text names, after it did what it says.
HEAD = """
import json, os, sys, time
def say(query, *names):
    print(json.dumps({"query": query, "items": [{"id": "tool:" + name} for name in names]}), flush=True)
def requests():
    for line in sys.stdin:
        message = json.loads(line)
        if "query" in message:
            yield message["query"], message["request"]["text"]
"""


def command(text):
    return [sys.executable, "-c", HEAD + textwrap.dedent(text)]


def batch_of(*texts):
    return Batch.of(CATALOG, [Request(id=f"q{i}", text=text) for i, text in enumerate(texts)])


def chosen(made):
    rows = [[] for _ in made.query.batch.requests]
    for row, item in zip(made.candidates.request, made.candidates.item, strict=True):
        rows[row].append(CATALOG.ids[item])
    return rows


@pytest.fixture
def start():
    """Make selectors by command that are closed at the end."""
    made = []

    def one(text, **options):
        options = {"timeout": 0.8, "start_timeout": 10.0, **options}
        argv = text if isinstance(text, list) else command(text)
        made.append(External(CommandSource(argv, options=CommandOptions(**options)), name="mine"))
        return made[-1]

    yield one
    for selector in made:
        selector.close()


def alive(pid):
    """Whether a process runs; one that has ended and waits for its parent to look does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid):
    """Wait until a process has ended; orphans are looked after by others, in their own time."""
    until = time.monotonic() + 10
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


def test_the_catalog_comes_first_and_once_and_the_process_is_kept(start, tmp_path):
    log = tmp_path / "log"
    selector = start(
        f"""
        with open({str(log)!r}, "a") as log:
            for line in sys.stdin:
                log.write(line); log.flush()
                message = json.loads(line)
                if "query" in message:
                    say(message["query"], message["request"]["text"])
        """
    )
    first = selector.select(batch_of("a", "b"))
    again = selector.select(batch_of("c"))
    assert (chosen(first), chosen(again)) == ([[A], [B]], [[C]])
    lines = log.read_text().splitlines()
    row = '{"_id":"tool:a","title":"a","text":"","type":"tool","name":"a"}'
    assert lines[0].startswith(f'{{"ctxbench":1,"catalog":"{CATALOG.hash}","items":[{row},')
    assert lines[1:] == [
        f'{{"ctxbench":1,"catalog":"{CATALOG.hash}","query":"{q}","request":{{"id":"{q}","text":"{text}"}}}}'
        for q, text in (("q0", "a"), ("q1", "b"), ("q0", "c"))
    ]
    assert np.isnan(first.seconds).tolist() == [True, False]  # the first waits for the start of the process
    assert again.seconds[0] > 0
    other = Catalog([Item(type="tool", name="a")])
    selector.select(Batch.of(other, [Request(id="q0", text="a")]))
    assert log.read_text().count('"items"') == 2
    assert selector.notes == {"without_ranking": 4, "without_scores": 4}


def test_ids_or_nothing_of_the_catalog_may_be_sent(start):
    echo = """
    known = None
    for line in sys.stdin:
        message = json.loads(line)
        known = message.get("ids", known)
        if "query" in message:
            print(json.dumps({"query": message["query"], "items": [{"id": i} for i in known or []]}), flush=True)
    """
    assert chosen(start(echo, send="ids").select(batch_of("x"))) == [[A, B, C]]
    assert chosen(start(echo, send="nothing").select(batch_of("x"))) == [[]]


def test_answers_come_in_any_order_where_several_requests_are_in_flight(start):
    selector = start(
        """
        waiting = []
        for query, text in requests():
            waiting.append((query, text))
            if len(waiting) == 3:
                for one in reversed(waiting):
                    say(*one)
                waiting = []
        """,
        in_flight=3,
    )
    made = selector.select(batch_of("a", "b", "c", "c", "b", "a"))
    assert (chosen(made), made.errors) == ([[A], [B], [C], [C], [B], [A]], {})
    assert np.isnan(made.seconds).all()


def test_processes_side_by_side_answer_alike(start):
    texts = ["a", "b", "c"] * 5
    selector = start("for one in requests(): say(*one)", concurrency=3)
    assert chosen(selector.select(batch_of(*texts))) == [[f"tool:{text}"] for text in texts]
    assert "restarts" not in selector.notes


def test_a_process_that_hangs_is_ended_and_the_next_query_is_asked_of_a_new_one(start):
    selector = start(
        """
        for query, text in requests():
            if text == "hang":
                print("thinking hard", file=sys.stderr, flush=True)
                time.sleep(60)
            say(query, text)
        """,
        timeout=0.3,
    )
    made = selector.select(batch_of("a", "hang", "b"))
    assert chosen(made) == [[A], [], [B]]
    assert made.errors == {
        1: "query 'q1': no answer within 0.3 s (does it flush its output?); the process was ended; "
        "its standard error ends: thinking hard"
    }
    assert selector.notes["restarts"] == 1


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            "x.js:1|  throw err;|  ^||Error: Cannot find module './nope'|Stack:|  requireStack: []|}||Node.js v20",
            " x.js:1 | Error: Cannot find module './nope' | ... |   requireStack: [] | } | Node.js v20",
        ),
        (
            "a|app.DbException: gone|  at b|  at c|  at d",
            " app.DbException: gone | ... |   at b |   at c |   at d",
        ),
        (
            "file:///a/select.mjs:2|}|^||SyntaxError: Unexpected token '}'|  at b|  at c|  at d",
            " file:///a/select.mjs:2 | SyntaxError: Unexpected token '}' | ... |   at b |   at c |   at d",
        ),
        ("Traceback|  raise ValueError|ValueError: x", " Traceback |   raise ValueError | ValueError: x"),
        ("Error: early|a|Error: late", " Error: early | a | Error: late"),
        ("a|b|c|d", " b | c | d"),
    ],
)
def test_the_line_that_names_the_error_is_quoted_though_others_stand_behind_it(start, written, told):
    made = start(f"next(requests()); print({written!r}.replace('|', '\\n'), file=sys.stderr); sys.exit(1)").select(
        batch_of("a")
    )
    assert made.errors[0] == (
        f"query 'q0': the process ended with exit code 1; its standard error ends:{told} (asked 2 times)"
    )


def test_what_else_a_hanging_process_was_asked_is_asked_again(start):
    hang = """
    for query, text in requests():
        if text == "hang":
            time.sleep(60)
        say(query, text)
    """
    made = start(hang, timeout=0.2, start_timeout=0.3, in_flight=3).select(batch_of("hang", "b", "c", "a"))
    assert chosen(made) == [[], [B], [C], [A]]
    assert list(made.errors) == [0]


def test_a_process_that_does_not_read_is_ended_too(start):
    big = Catalog([Item(type="tool", name="a", description="x" * 2_000_000)])
    selector = start("time.sleep(60)", timeout=0.2, start_timeout=0.0)
    made = selector.select(Batch.of(big, [Request(id="q0", text="")]))
    assert made.errors == {0: "query 'q0': no answer within 0.2 s (does it flush its output?); the process was ended"}


def test_that_an_answer_is_waited_for_is_told_once(start, monkeypatch, caplog):
    monkeypatch.setattr("ctxbench.selectors.external._SILENCE", 0.05)
    start("time.sleep(60)", timeout=0.2, start_timeout=0.3).select(batch_of("a"))
    (said,) = caplog.messages
    assert said.startswith("waiting for 'mine': query 'q0' has not been answered for 0 s; the limit is 0.5 s, 0.3 s of")


def test_that_a_later_answer_is_waited_for_is_told_with_its_query(start, monkeypatch, caplog):
    monkeypatch.setattr("ctxbench.selectors.external._SILENCE", 0.1)
    monkeypatch.setattr("ctxbench.selectors.external._AGAIN", 0.0)
    hang = """
    for query, text in requests():
        if text == "hang":
            time.sleep(60)
        say(query, text)
    """
    start(hang, timeout=0.5).select(batch_of("a", "hang"))
    said = "waiting for 'mine': query 'q1' has not been answered for 0 s; the limit is 0.5 s, 0 s of"
    assert any(message.startswith(said) for message in caplog.messages)


def test_a_process_that_dies_is_started_again_and_its_query_asked_once_more(start, tmp_path):
    mark = tmp_path / "mark"
    selector = start(
        f"""
        for query, text in requests():
            if text == "b" and not os.path.exists({str(mark)!r}):
                open({str(mark)!r}, "w").close()
                sys.exit(1)
            say(query, text)
        """
    )
    made = selector.select(batch_of("a", "b", "c"))
    assert (chosen(made), made.errors, selector.notes["restarts"]) == ([[A], [B], [C]], {}, 1)


def test_a_query_that_a_process_dies_on_twice_is_an_error_and_the_rest_goes_on(start):
    selector = start(
        """
        for query, text in requests():
            if text == "die":
                print("Traceback\\nKeyError: 'x'", file=sys.stderr)
                sys.exit(3)
            if text == "kill":
                os.kill(os.getpid(), 9)
            say(query, text)
        """
    )
    made = selector.select(batch_of("a", "die", "b", "kill", "c"))
    assert chosen(made) == [[A], [], [B], [], [C]]
    assert made.errors == {
        1: "query 'q1': the process ended with exit code 3; its standard error ends: Traceback | KeyError: 'x' "
        "(asked 2 times)",
        3: "query 'q3': the process was ended by signal 9 (asked 2 times)",
    }


def test_with_several_in_flight_only_the_query_that_it_dies_on_is_an_error(start):
    selector = start(
        """
        for query, text in requests():
            if text == "die":
                sys.exit(3)
            say(query, text)
        """,
        in_flight=4,
    )
    made = selector.select(batch_of("a", "die", "b", "c", "a", "b"))
    assert chosen(made) == [[A], [], [B], [C], [A], [B]]
    assert made.errors == {1: "query 'q1': the process ended with exit code 3 (asked 2 times)"}


def test_after_five_lost_queries_in_a_row_the_rest_is_not_asked(start):
    made = start("sys.exit(2)").select(batch_of(*"abcabcabc"))
    assert [made.errors[row].partition(": ")[2] for row in range(9)] == [
        *["the process ended with exit code 2 (asked 2 times)"] * 5,
        *["not asked: 5 queries in a row had no answer; the last: the process ended with exit code 2"] * 4,
    ]


def test_lost_queries_are_counted_from_batch_to_batch_over_one_catalog(start):
    selector = start("sys.exit(2)")
    for _ in range(3):
        made = selector.select(batch_of(*"abc"))
    assert ["not asked" in made.errors[row] for row in range(3)] == [True] * 3
    assert selector.notes["restarts"] == 9  # 5 queries asked 2 times, less the first start
    other = Catalog([Item(type="tool", name="a")])
    made = selector.select(Batch.of(other, [Request(id="q0", text="a")]))
    assert made.errors == {0: "query 'q0': the process ended with exit code 2 (asked 2 times)"}


def test_a_selector_that_is_closed_is_asked_again(start):
    selector = start("sys.exit(2)")
    assert "not asked" in selector.select(batch_of(*"abcabc")).errors[5]
    selector.close()
    assert "not asked" not in selector.select(batch_of("a")).errors[0]


LATE = "no answer within 0.1 s (does it flush its output?); the process was ended"


def test_after_five_time_outs_in_a_row_the_rest_is_not_asked(start):
    made = start("time.sleep(60)", timeout=0.1, start_timeout=0).select(batch_of(*"abcabcabc"))
    assert [made.errors[row].partition(": ")[2] for row in range(9)] == [
        *[LATE] * 5,
        *[f"not asked: 5 queries in a row had no answer; the last: {LATE}"] * 4,
    ]


def test_an_answer_breaks_the_row_and_a_time_out_is_of_the_same_row_as_an_end(start):
    selector = start(
        """
        for query, text in requests():
            if text == "die": sys.exit(1)
            if text == "hang": time.sleep(60)
            say(query, text)
        """,
        start_timeout=1.5,
    )
    made = selector.select(batch_of(*["die"] * 4, "a", *["die"] * 4, "hang", "b"))
    assert chosen(made)[4] == [A]
    assert [row for row, error in made.errors.items() if "not asked" in error] == [10]


def test_junk_does_not_break_a_row_of_time_outs(start):
    """One that only talks would be waited for at every second query."""
    selector = start("print('hello', flush=True); time.sleep(60)", timeout=0.2, start_timeout=1)
    made = selector.select(batch_of(*["a"] * 12))
    said = ["hello" in error for error in made.errors.values()]
    late = ["no answer within" in error and "not asked" not in error for error in made.errors.values()]
    assert (sum(said), sum(late)) == (5, 5)
    assert [row for row, error in made.errors.items() if "not asked" in error] == [10, 11]


def test_side_by_side_five_time_outs_for_each_process_are_waited_for(start):
    selector = start("time.sleep(60)", timeout=0.2, start_timeout=0, concurrency=2)
    made = selector.select(batch_of(*["a"] * 20))
    refused = [error for error in made.errors.values() if "not asked: 10 queries in a row had no answer" in error]
    assert len(made.errors) == 20
    assert len(refused) in (9, 10)  # one may be in flight when the tenth is lost


def test_what_a_hanging_process_has_in_flight_is_not_asked_again_once_it_is_given_up(start):
    selector = start("time.sleep(60)", timeout=0.1, start_timeout=0, in_flight=3)
    made = selector.select(batch_of(*["a"] * 9))
    assert ["not asked" in made.errors[row] for row in range(9)] == [False] * 5 + [True] * 4


def test_a_late_answer_is_not_taken_for_one_to_the_same_id_of_another_dataset(start):
    selector = start(
        """
        for query, text in requests():
            if text == "a":
                print("Loading the model ...", flush=True)
                time.sleep(0.3)
            say(query, text)
        """
    )
    first = selector.select(batch_of("a"))
    assert list(first.errors) == [0]
    other = Catalog([*CATALOG, Item(type="tool", name="d")])
    made = selector.select(Batch.of(other, [Request(id="q0", text="b")]))
    assert (chosen(made), made.errors) == ([[B]], {})
    assert selector.notes["restarts"] == 1


def test_a_process_that_owes_no_answer_is_kept_for_the_same_id(start):
    selector = start(
        """
        for query, text in requests():
            if text == "a":
                print("Loading the model ...", flush=True)
            say(query, text)
        """
    )
    selector.select(batch_of("a", "b"))  # the answer to q0 comes before that to q1
    assert chosen(selector.select(batch_of("c"))) == [[C]]
    assert "restarts" not in selector.notes


def test_a_process_that_answers_once_and_ends_is_started_for_each(start):
    selector = start("query, text = next(requests()); say(query, text)")
    made = selector.select(batch_of("a", "b", "c"))
    assert (chosen(made), made.errors, selector.notes["restarts"]) == ([[A], [B], [C]], {}, 2)


def test_a_closed_output_is_an_end(start):
    made = start("sys.stdout.close(); os.close(1); time.sleep(60)").select(batch_of("a"))
    assert made.errors == {0: "query 'q0': the process closed its standard output (asked 2 times)"}


def test_junk_is_the_error_of_the_query_in_flight_and_its_late_answer_is_counted(start):
    selector = start(
        """
        for query, text in requests():
            if text == "b":
                print("Loading the model ...", flush=True)
            say(query, text)
        """
    )
    made = selector.select(batch_of("a", "b", "c"))
    assert chosen(made) == [[A], [], [C]]
    assert list(made.errors) == [1]
    assert made.errors[1].startswith(
        "query 'q1': the process wrote no answer (not JSON: Expecting value): 'Loading the model ...'; "
    )
    assert selector.notes["late_answers"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "the process wrote no answer (query must be the id of a query, a text; got []): '[]'"),
        ('{"items": []}', "the process wrote no answer (query must be the id of a query, a text; got None): "),
        ("x" * 300, f"the process wrote no answer (not JSON: Expecting value): '{'x' * 200}' and 100"),
        ('{"query": "q7"}', "the process answered query 'q7', which was not asked or was answered already: "),
        ('{"query": "q0", "items": [{"id": "tool:x"}]}', "items[0] has id 'tool:x', which the catalog does not hold"),
        ('{"query": "q0", "items": [{"id": "tool:a", "score": NaN}]}', "the score of items[0] ('tool:a') is nan"),
        ('{"query": "q0", "error": "no index"}', "the selector reported an error: no index"),
        ("\\xff", "the process wrote no answer (not JSON: Expecting value)"),
    ],
)
def test_a_line_that_is_no_answer_is_quoted(start, line, message):
    made = start(f"next(requests()); print({line!r}, flush=True); sys.stdin.read()").select(batch_of("a"))
    assert made.errors[0].startswith(f"query 'q0': {message}")


def test_blank_lines_are_passed_over(start):
    made = start("for one in requests(): print('\\n \\r\\n', flush=True); say(*one)").select(batch_of("a"))
    assert (chosen(made), made.errors) == ([[A]], {})


def test_a_second_answer_is_the_error_of_the_query_in_flight(start):
    selector = start(
        """
        for query, text in requests():
            say(query, text)
            if text == "a":
                say(query, "b")
        """
    )
    made = selector.select(batch_of("a", "b", "c"))
    assert chosen(made) == [[A], [], [C]]
    assert list(made.errors) == [1]
    assert made.errors[1].startswith(
        "query 'q1': the process answered query 'q0', which was not asked or was answered already: "
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("json.dumps(answer, indent=1).encode()", "(not JSON: "),
        ("json.dumps(answer)[:-9].encode()", "(not JSON: "),
        ("json.dumps({**answer, 'build': 'é'}, ensure_ascii=False).encode('latin-1')", "(not UTF-8 "),
        ("json.dumps(answer).encode('utf-16')", "(not UTF-8 "),
        ("json.dumps({**answer, 'query': 3}).encode()", "(query must be the id of a query, a text; got 3)"),
        ("json.dumps({'items': []}).encode()", "(query must be the id of a query, a text; got None)"),
    ],
)
def test_a_line_that_is_nearly_an_answer_is_told_what_is_wrong_with_it(start, written, said):
    selector = start(
        f"""
        for query, text in requests():
            answer = {{"query": query, "items": []}}
            sys.stdout.buffer.write({written} + b"\\n")
            sys.stdout.flush()
        """
    )
    errors = selector.select(batch_of("a")).errors
    assert said in errors[0]
    assert errors[0].endswith("; expected one JSON object per line, in UTF-8, and other output on standard error")


def test_a_flood_of_junk_ends_and_fills_no_memory(start):
    selector = start("while True: print('junk ' * 100)")
    made = selector.select(batch_of("a", "b"))
    assert set(made.errors) == {0, 1}
    assert "'junk junk" in made.errors[0]


def test_a_line_without_end_is_a_time_out(start):
    made = start("sys.stdout.write('{' * 1000); sys.stdout.flush(); time.sleep(60)", timeout=0.2, start_timeout=0.2)
    assert "no answer within 0.4 s" in made.select(batch_of("a")).errors[0]


def test_the_process_and_all_that_it_started_are_ended(tmp_path):
    pids = tmp_path / "pids"
    text = f"""
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open({str(pids)!r}, "w") as stream: stream.write(f"{{os.getpid()}} {{child.pid}}")
    for query, text in requests():
        if text == "hang": time.sleep(600)
        say(query, text)
    """
    options = CommandOptions(timeout=0.3, start_timeout=10)
    with External(CommandSource(command(text), options=options), name="mine") as selector:
        assert chosen(selector.select(batch_of("a"))) == [[A]]
        first = [int(pid) for pid in pids.read_text().split()]
        assert alive(first[0])
        selector.select(batch_of("hang"))
        assert all(gone(pid) for pid in first)
        selector.select(batch_of("a"))
        second = [int(pid) for pid in pids.read_text().split()]
    assert all(gone(pid) for pid in second)
    selector.close()


def test_ctrl_c_ends_the_process_at_once(tmp_path):
    pids = tmp_path / "pids"
    asked = "sys.stdin.readline()"  # the start is over once the catalog is there
    selector = command(f"{asked}; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    program = textwrap.dedent(
        f"""
        from ctxbench.model.items import Catalog
        from ctxbench.model.requests import Batch, Request
        from ctxbench.selectors.external import external_from_config
        from pathlib import Path
        selector = external_from_config({{"command": {selector!r}}}, base=Path())
        selector.select(Batch.of(Catalog([]), [Request(id="q", text="")]))
        """
    )
    with child([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 20
        while not (pids.exists() and pids.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=20)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert gone(int(pids.read_text()))


def test_a_forgotten_process_ends_with_ours(tmp_path):
    pids = tmp_path / "pids"
    selector = command(f"open({str(pids)!r}, 'w').write(str(os.getpid()))\nfor one in requests(): say(*one)")
    program = textwrap.dedent(
        f"""
        from ctxbench.model.items import Catalog
        from ctxbench.model.requests import Batch, Request
        from ctxbench.selectors.external import external_from_config
        from pathlib import Path
        selector = external_from_config({{"command": {selector!r}}}, base=Path())
        selector.select(Batch.of(Catalog([]), [Request(id="q", text="")]))
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
    assert gone(int(pids.read_text()))


def test_the_description_holds_hashes_and_no_absolute_path(tmp_path):
    (tmp_path / "mine.py").write_text("1")
    (tmp_path / "data.bin").write_text("2")
    argv = [sys.executable, "mine.py", str(tmp_path / "data.bin"), "--data=data.bin", "--out=/nowhere/x", "-v"]
    described = external_from_config({"command": argv}, base=tmp_path).describe()
    python = Path(sys.executable).name
    digest = hashlib.sha256(Path(sys.executable).read_bytes()).hexdigest()
    assert described == {
        "protocol": 1,
        "command": [python, "mine.py", "data.bin", "--data=data.bin", "--out=x", "-v"],
        "files": {
            python: digest,
            "mine.py": hashlib.sha256(b"1").hexdigest(),
            "data.bin": hashlib.sha256(b"2").hexdigest(),
        },
        "direct_files": sorted([python, "mine.py", "data.bin"]),
        "send": "items",
        "timeout": 60.0,
        "start_timeout": 60.0,
        "repeats": 1,
    }


def files_of(argv, base):
    return external_from_config({"command": argv}, base=base).describe()["files"]


def test_the_description_follows_the_source_code_beside_what_the_command_names(tmp_path):
    (tmp_path / "src" / "lib").mkdir(parents=True)
    for name in ("src/select.mjs", "src/lib/config.ts", "src/notes.md", "src/data.json", "other.py"):
        (tmp_path / name).write_text(name)
    for skipped in ("src/node_modules/x", "src/.cache"):
        (tmp_path / skipped).mkdir(parents=True)
        (tmp_path / skipped / "index.js").write_text("1")
    argv = [sys.executable, "src/select.mjs"]
    before = files_of(argv, tmp_path)
    assert {*before} == {Path(sys.executable).name, "src/select.mjs", "src/lib/config.ts", "other.py"}
    (tmp_path / "src/lib/config.ts").write_text("top = 2")
    after = files_of(argv, tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"src/lib/config.ts"}


def test_a_command_that_names_no_source_file_is_followed_in_the_folder_that_it_runs_in(tmp_path):
    for name in ("package.json", "select.ts", "README.md"):
        (tmp_path / name).write_text(name)
    found = files_of([sys.executable, "run", "select"], tmp_path)
    assert {*found} == {Path(sys.executable).name, "package.json", "select.ts"}


def test_of_the_files_those_are_its_own_that_it_names_and_that_these_import(tmp_path):
    (tmp_path / "lib").mkdir()
    for name, text in (("mine.py", "import lib.words"), ("lib/words.py", "from . import parts"), ("lib/parts.py", "")):
        (tmp_path / name).write_text(text)
    (tmp_path / "other.py").write_text("import mine")
    described = external_from_config({"command": [sys.executable, "mine.py"]}, base=tmp_path).describe()
    python = Path(sys.executable).name
    assert {*described["files"]} == {python, "mine.py", "lib/words.py", "lib/parts.py", "other.py"}
    assert described["direct_files"] == sorted([python, "mine.py", "lib/words.py", "lib/parts.py"])
    described = external_from_config({"command": [sys.executable, "-m", "mine"]}, base=tmp_path).describe()
    assert described["direct_files"] == sorted(described["files"])  # it names no file


@pytest.mark.parametrize("source", [["lib", "notes.txt"], "lib"])
def test_its_source_files_are_those_that_the_user_says(tmp_path, source):
    (tmp_path / "lib").mkdir()
    for name in ("mine.py", "lib/words.py", "lib/data.bin", "other.py", "notes.txt"):
        (tmp_path / name).write_text(name)
    command = {"command": [sys.executable, "mine.py"], "source": source}
    described = external_from_config(command, base=tmp_path).describe()
    said = {"notes.txt"} if "notes.txt" in source else set()
    assert {*described["files"]} == {Path(sys.executable).name, "mine.py", "lib/words.py", *said}
    assert described["source"] == ([source] if isinstance(source, str) else source)
    assert described["direct_files"] == sorted(described["files"])


def test_a_source_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(ParameterError, match=r"source: there is no 'lib'; name files and folders"):
        external_from_config({"command": [sys.executable, "mine.py"], "source": ["mine.py", "lib"]}, base=tmp_path)


def test_files_of_one_name_outside_the_folder_are_told_apart(tmp_path):
    for folder in ("out/lib", "one/sel", "two/sel", "base"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("out/main.py", "out/lib/main.py", "one/sel/main.py", "two/sel/main.py"):
        (tmp_path / name).write_text(name)
    for argv in (["out/main.py"], ["one/sel/main.py", "two/sel/main.py"]):
        command = [sys.executable, *(str(tmp_path / name) for name in argv)]
        for name in argv:
            before = files_of(command, tmp_path / "base")
            (tmp_path / name).write_text("edited")
            assert files_of(command, tmp_path / "base") != before, name


def test_of_many_source_files_those_beside_a_named_one_are_told_apart(tmp_path):
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    for n in range(MOST):
        (tmp_path / "far" / f"m{n}.py").write_text(str(n))
    for name in ("main.py", "other.py"):
        (tmp_path / "near" / name).write_text(name)
    argv = [sys.executable, "near/main.py"]
    before = files_of(argv, tmp_path)
    assert {*before} == {Path(sys.executable).name, "near/main.py", "near/other.py", "./"}
    (tmp_path / "far" / "m7.py").write_text("else")
    after = files_of(argv, tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"./"}
    for n in range(MOST):
        (tmp_path / "near" / f"m{n}.py").write_text(str(n))
    assert {*files_of(argv, tmp_path)} == {Path(sys.executable).name, "near/main.py", "./"}


def test_the_description_and_the_name_hold_no_secret_of_the_arguments(tmp_path):
    def described(key):
        secrets = ["--token", f"tiger-42.{key}", f"--api-key={GITHUB}", GITHUB]
        argv = [sys.executable, "-c", "x", *secrets, "--tokens", "512"]
        selector = external_from_config({"command": argv}, base=tmp_path)
        assert selector.name == Path(sys.executable).name.partition(".")[0]
        return selector.describe()

    shown = ["-c", "x", "--token", "<hidden>", "--api-key=<hidden>", "<hidden>", "--tokens", "512"]
    assert described("a")["command"][1:] == shown
    assert "tiger" not in str(described("a"))
    assert described("a") == described("a") != described("b")


def test_a_text_is_split_and_no_shell_runs_it(tmp_path):
    (tmp_path / "mine.py").write_text(HEAD + "for query, text in requests(): say(query, *sys.argv[1:])")
    config = {"command": f"'{sys.executable}' mine.py 'a' \\; echo", "name": "x"}
    with external_from_config(config, base=tmp_path) as selector:
        made = selector.select(batch_of(""))
    assert "items[1] has id 'tool:;'" in made.errors[0]
    for text in ("cat | python3 own.py", "cat own.py > answers", "true && cat"):
        with pytest.raises(ParameterError, match=r"no shell runs it, .*or a shell: \{command: \[bash, -c, '") as caught:
            CommandSource(text)
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"command is empty; name the program and its arguments, such as \{command: "),
        ("", "command is empty"),
        ([sys.executable, 3], "command must be a list of texts"),
        ([sys.executable, "a\0b"], "command must be a list of texts"),
        ("a 'b", "cannot be split into words: No closing quotation; give it as a list"),
        (["no-such-program-here"], "there is no program 'no-such-program-here' on the path; install it, or give"),
        (["./missing"], r"command: the program '\./missing' does not exist"),
        (["./plain.txt"], r"command: the program '\./plain\.txt' is not executable; run `chmod \+x \./plain\.txt`$"),
        (["./own.py"], r"is not executable; run `chmod \+x \./own\.py`, or write \{command: \[python, \./own\.py\]\}"),
        (["python3", "-u", "ownn.py"], r"there is no file '.*/ownn\.py' for python3 to run; did you mean 'own\.py'\?"),
    ],
)
def test_a_command_that_cannot_run_is_an_error_before_anything_runs(tmp_path, given, message):
    (tmp_path / "plain.txt").write_text("x")
    (tmp_path / "own.py").write_text("x")
    with pytest.raises(ParameterError, match=message):
        external_from_config({"command": given}, base=tmp_path)


def test_a_program_that_cannot_be_started_is_the_error_of_every_query(start, tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF no program")
    broken.chmod(0o755)
    made = start([str(broken)]).select(batch_of("a", "b"))
    assert made.errors[1] == "query 'q1': the command cannot be started: Exec format error; check that it is a program"
    assert len(made.errors) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout must be above 0, got 0"),
        ({"timeout": float("inf")}, "timeout must be a finite number, got inf"),
        ({"start_timeout": -1}, "start_timeout must be 0 or more, got -1"),
        ({"concurrency": 0}, "concurrency must be 1 or more, got 0"),
        ({"in_flight": 1001}, "in_flight must be at most 1000, got 1001"),
        ({"send": "all"}, "send must be 'items' or 'ids' or 'nothing', got 'all'"),
    ],
)
def test_options_out_of_range_are_errors(options, message):
    with pytest.raises(ParameterError, match=message):
        external_from_config({"command": [sys.executable], **options}, base=Path())


def test_an_empty_batch_starts_nothing(start):
    made = start("sys.exit(1)").select(batch_of())
    assert (made.errors, len(made.candidates), made.seconds.shape) == ({}, 0, (0,))
