from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from ctxbench.cli.label import Question, apply_patch, label, review
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.console import CLEAR, Keys, wrapped
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Message, Request
from tests.children import child

RUN = """
import sys
from pathlib import Path
from ctxbench.cli.label import label
label(Path(sys.argv[1]), minutes=float(sys.argv[2]), selectors=["bm25", "dense"], figures=[], embedder="hashing",
      as_json=False)
"""
OPTIONS = {"selectors": ["bm25", "dense"], "embedder": "hashing", "as_json": False}
TOOLS = ("open ticket", "close ticket", "send mail", "read mail", "add event", "list events", "find page", "edit page")


@pytest.fixture
def folder(place):
    """Thirty queries that called what they say."""
    catalog = Catalog([Item(type="tool", server="s", name=name.replace(" ", "_"), description=name) for name in TOOLS])
    queries = tuple(
        DatasetQuery(request=Request(id=f"q{i}", text=f"please {TOOLS[i % 8]}"), split="test", partly_labelled=True)
        for i in range(30)
    )
    labels = tuple(Label(f"q{i}", catalog[i % 8].key, 2, source="trace") for i in range(30))
    about = {"licence": "made up", "source": "tests", "labelling": "from a log"}
    write_dataset(
        Dataset(name="log", version="1", catalog=catalog, queries=queries, labels=labels, about=about), place / "log"
    )
    return place / "log"


@pytest.fixture
def piped(monkeypatch):
    """Put lines on standard input."""

    def put(*lines):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return put


def log_of(folder):
    path = folder / "labelling" / "answers.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_lines_of_a_pipe_are_answers(folder, piped, capfd):
    piped("0", "1", "/list", "u", "0", "zebra", "w", "0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out, err = capfd.readouterr()
    kinds = [row["kind"] for row in log_of(folder)]
    assert kinds == ["done", "needed", "needed", "undo", "done", "wrong", "nothing"]
    assert "'z' is not an answer here" in err
    assert out.startswith("5 answers (5 new), 3 queries done")
    dataset = read_dataset(folder)
    assert len(dataset.judged()) == 3
    assert sum(query.needs_nothing for query in dataset.queries) == 1


def test_the_end_of_the_input_ends_the_session_and_a_new_one_goes_on(folder, piped, capfd):
    piped("0")
    label(folder, minutes=20, figures=[], **OPTIONS)
    piped("0")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out, _ = capfd.readouterr()
    assert "\n2 answers (1 new), 2 queries done" in out
    assert len(read_dataset(folder).judged()) == 2

    piped("u", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    assert len(choices(err, "Which other items are needed?")) == 7  # all items but the needed one, as before its answer
    assert len(read_dataset(folder).judged()) == 1


def test_what_every_prompt_holds_is_told_once_and_not_asked(folder, piped, capfd):
    path = folder / "corpus.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[-1]["include"] = "always"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    piped("m", "m", "0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    shown = "".join(capfd.readouterr())
    assert shown.count("not asked: 1 item of mode always") == 1
    assert not re.search(r"^  \d s / edit_page", shown, re.MULTILINE)


def test_no_minutes_only_say_where_the_figures_stand(folder, capfd):
    label(folder, minutes=0, figures=[], **{**OPTIONS, "as_json": True})
    report = json.loads(capfd.readouterr().out)
    assert [figure["name"] for figure in report["before"]["completeness"]] == ["bm25", "dense"]
    assert report["before"] == report["after"]
    assert log_of(folder) == []
    with pytest.raises(ParameterError, match="minutes must be 0 or more"):
        label(folder, minutes=-1, figures=[], **OPTIONS)


def test_no_minutes_write_no_file(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    label(folder, minutes=0, figures=["bm25"], **OPTIONS)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_answers_are_applied_on_ctrl_c(folder, piped):
    piped("0", "0", "\x03")
    with pytest.raises(KeyboardInterrupt) as stopped:
        label(folder, minutes=20, figures=[], **OPTIONS)
    assert "2 queries changed" in stopped.value.__notes__[0]
    assert len(read_dataset(folder).judged()) == 2
    assert (folder / "labelling" / "weights.jsonl").exists()


def test_no_minutes_apply_answers_that_a_crash_left(folder, piped):
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    piped("0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    for path, data in files.items():
        path.write_bytes(data)
    assert len(read_dataset(folder).judged()) == 0
    label(folder, minutes=0, figures=[], **OPTIONS)
    assert len(read_dataset(folder).judged()) == 1


def test_an_estimate_that_leaves_out_no_value_is_unknown(folder, piped, capfd):
    piped("0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out = capfd.readouterr().out
    assert "(0.0 to 100.0)" not in out
    assert "(-100.0 to 100.0)" not in out


def test_control_keys_are_named(folder, piped, capfd):
    piped("\x1b", "", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    assert "\\x1b" not in err
    assert err.count("Esc") == err.count("Enter is not an answer") == 1


def test_who_offered_something_where_nothing_is_needed_is_told(folder, piped, capfd):
    piped("x", "q")
    label(folder, minutes=20, figures=[], selectors=["everything"], embedder="hashing", as_json=False)
    assert re.search("^nothing: query .*every selector offered something$", capfd.readouterr().err, re.MULTILINE)


def test_figures_of_selectors_that_the_sample_was_not_drawn_for_are_guessed_alike(folder, piped, capfd):
    options = {"minutes": 0, "figures": [], "embedder": "hashing", "as_json": True}

    def figures():
        label(folder, selectors=["everything", "bm25"], **options)
        return json.loads(capfd.readouterr().out)["before"]

    fresh = figures()
    piped("q")
    label(folder, minutes=20, figures=[], selectors=["bm25"], embedder="hashing", as_json=False)
    capfd.readouterr()
    other = figures()
    for kind in ("completeness", "differences"):
        assert [row["value"] for row in other[kind]] == pytest.approx([row["value"] for row in fresh[kind]], abs=1e-5)
    assert fresh["completeness"][0]["value"] > 0.9  # all is offered


@pytest.mark.essential
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")
def test_a_terminal_takes_single_keys_and_keeps_answers_through_a_kill(folder):
    import pty

    @contextmanager
    def started():
        """The process, and where its keys are pressed."""
        master, slave = pty.openpty()
        command = [sys.executable, "-c", RUN, folder, "20"]
        try:
            with child(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                os.close(slave)
                yield process, master
        finally:
            os.close(master)

    def until(n):
        for _ in range(600):
            if len(log_of(folder)) >= n:
                return
            time.sleep(0.05)
        raise AssertionError(log_of(folder))

    with started() as (process, keys):
        os.write(keys, b"0")
        until(1)
        os.write(keys, b"\x1b[A0")  # an arrow key is no answer
        until(2)
        process.kill()
    assert [row["kind"] for row in log_of(folder)] == ["done", "done"]
    assert len(read_dataset(folder).judged()) == 0

    with started() as (process, keys):
        os.write(keys, b"u")
        until(3)
        os.write(keys, b"q")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("1 answer (1 earlier undone), 1 query done")
    assert len(read_dataset(folder).judged()) == 1


def test_keys_of_a_line_are_taken_one_by_one(piped):
    piped("W2", "", "/two words")
    with Keys() as keys:
        assert [keys.key(), keys.key(), keys.key(), keys.key()] == ["w", "2", "\n", "/"]
        assert keys.text("") == "two words"
        with pytest.raises(EOFError):
            keys.key()


def choices(err, title):
    """The numbered names below the last title of this text."""
    below = err.rpartition(title)[2].split("\n\n")[0]
    return dict(re.findall(r"^  (\d) (.*?):", below, re.MULTILINE))


def test_a_search_lists_what_is_marked_and_takes_what_is_not(folder, piped, capfd):
    """`q10` is asked first, and needs `send_mail` by its log."""
    piped("/send_mail", "/mail", "7", "/mail", "0", "/mail", "2", "u", "/s / LIST_events", "u", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    assert "; query q10\n" in err
    assert err.count("already needed: s / send_mail (tool)\n") == 1  # alone, it is not asked about
    assert choices(err, "Which item is needed?") == {
        "1": "s / send_mail (tool), already needed",
        "2": "s / read_mail (tool)",
    }
    given = [(row["kind"], row.get("item")) for row in log_of(folder)]  # 7 and 0 are no answers
    assert given == [
        ("needed", "tool:s:read_mail"),
        ("undo", None),
        ("needed", "tool:s:list_events"),
        ("undo", None),
    ]


def test_what_is_marked_otherwise_is_needed_once_it_is_chosen(folder, piped, capfd):
    piped("w", "/send", "x", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    assert choices(capfd.readouterr().err, "Which item is needed?") == {"1": "s / send_mail (tool), not needed"}
    assert [row["kind"] for row in log_of(folder)] == ["wrong", "nothing"]  # a key that is no number is the question's

    piped("u", "/send", "1", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    assert "undone: nothing of query q10" in capfd.readouterr().err
    assert [(row["kind"], row.get("item")) for row in log_of(folder)[2:]] == [
        ("undo", None),
        ("needed", "tool:s:send_mail"),
    ]


def test_a_helpful_item_and_a_wrong_one_of_several_are_chosen_by_number(folder, piped, capfd):
    piped("h1", "/list_events", "w2", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    kinds = [(row["kind"], row["item"]) for row in log_of(folder)]
    first = choices(capfd.readouterr().err, "Which item is helpful?")["1"]
    assert kinds[0] == ("helpful", f"tool:s:{first.split()[2]}")
    assert kinds[1:] == [("needed", "tool:s:list_events"), ("wrong", "tool:s:list_events")]


def test_a_search_says_what_a_query_cannot_get_and_what_no_item_has(folder, piped, capfd):
    dataset = read_dataset(folder)
    catalog = dataset.catalog.extended([Item(type="tool", server="s", name="archive", enabled=False)])
    write_dataset(replace(dataset, catalog=catalog), folder)
    piped("/archive", "/zebra", "/", "", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    assert "not available to this query, disabled, or manual: s / archive (tool)\n" in err
    assert err.count("no item with all these words\n") == 2
    assert "is not an answer here" not in err
    assert log_of(folder) == []


def test_who_offered_an_item_is_told_after_the_answer_alone(folder, piped, capfd):
    piped("q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    assert not re.search("bm25|dense|offered", capfd.readouterr().err)
    piped("/read_mail", "/list_events", "0", "s", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    told = [
        line
        for line in capfd.readouterr().err.splitlines()
        if re.match("(needed|done|skipped): .*(offer|with|query)", line)
    ]
    assert told == [
        "needed: s / read_mail (tool), offered by bm25, dense",
        "needed: s / list_events (tool), offered by no selector",
        "done: query q10, complete with no selector",
        told[3],
    ]
    assert "bm25" not in told[3]  # it is asked again


def test_the_session_ends_with_what_it_changed_and_the_next_command(folder, piped, capfd):
    piped(*"00000", "q")
    label(folder, minutes=20, figures=[], **{**OPTIONS, "as_json": True})
    result = json.loads(capfd.readouterr().out)
    assert (result["asked"], result["labels"], result["changed"]) == (5, 5, 5)
    assert result["next"].startswith(f"next: `ctxbench data label {folder} --minutes 20`, or for the 5 labelled ")
    assert (result["before"]["answers"], result["after"]["answers"]) == (0, 5)

    piped("0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    lines = capfd.readouterr().out.splitlines()
    assert str(folder / "labelling" / "answers.jsonl") in lines[0]
    assert lines[1] == f"1 label made or changed in 1 query: {folder / 'qrels'}"
    (figures,) = [line for line in lines if line.startswith("  bm25  ")]
    assert len(re.findall(r"\d% \(", figures)) == 2  # before, and now
    assert lines[-1] == result["next"].replace("the 5 labelled", "the 6 labelled")


PAGE = Path(__file__).parents[2] / "datasets" / "labelling.md"
DESK = {
    "tracker": {
        "close_ticket": "Close a ticket, with the reason.",
        "open_ticket": "Open a ticket for a customer.",
        "add_comment": "Add a comment to a ticket that its customer can read.",
    },
    "mail": {"send_mail": "Send a mail to a customer.", "read_mail": "Read the mails of a customer, newest first."},
    "calendar": {"add_event": "Add an event to your calendar.", "list_events": "List the events of a day."},
}


@pytest.fixture
def desk(place):
    """The dataset of the page on labelling: one query with a history, of which one label is known."""
    tools = [(server, name, text) for server, tools in DESK.items() for name, text in tools.items()]
    catalog = Catalog([Item(type="tool", server=server, name=name, description=text) for server, name, text in tools])
    history = (
        Message(role="user", content="look at the ticket of Miller"),
        Message(role="assistant", content="It is open since Monday."),
    )
    request = Request(id="c7-3", text="close it and\nsend her a mail", history=history)
    query = DatasetQuery(request=request, split="test", partly_labelled=True)
    about = {"licence": "made up", "source": "tests", "labelling": "from a log"}
    labels = (Label("c7-3", catalog[0].key, 2, source="trace"),)
    write_dataset(
        Dataset(name="desk", version="1", catalog=catalog, queries=(query,), labels=labels, about=about), place / "desk"
    )
    return place / "desk"


@contextmanager
def terminal(folder, *, columns=80, lines=24):
    """A session on a terminal of this size: a function that presses keys and returns the screen after them."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment["TERM"] = "xterm"

    def press(keys, until):
        os.write(master, keys.encode())
        shown = b""
        while until.encode() not in shown.rpartition(CLEAR.encode())[2]:
            shown += os.read(master, 65536)
        return shown.decode().rpartition(CLEAR)[2].replace("\r\n", "\n").removesuffix("\n").split("\n")

    try:
        command = [sys.executable, "-c", RUN, folder, "20"]
        with child(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
            yield press
            process.kill()
    finally:
        os.close(slave)
        os.close(master)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")
def test_the_screen_of_a_question_is_the_one_of_the_page(desk):
    (screen,) = re.findall(r"```text\n(.*?)\n```", PAGE.read_text("utf-8"), re.DOTALL)
    with terminal(desk) as press:
        assert press("", "all keys\r\n") == screen.split("\n")
        assert len(screen.split("\n")) < 24
        helped = press("?", "any key")
        assert {line.split("  ")[1] for line in helped[:-1]} >= {"0", "x", "/", "m", "h", "w", "v", "s", "u", "q", "?"}
        assert press(" ", "all keys\r\n") == screen.split("\n")
        assert press("z", "is not an answer here; ? shows all keys\r\n")[: len(screen.split("\n"))] == screen.split(
            "\n"
        )


LONG = "a very long request " * 200 + "that ends here"
WIDE = "漢字" * 60


SIZES = [(80, 24), (200, 60), (80, 16), (60, 12), (40, 14)]


@pytest.mark.parametrize("text", ["", "short", LONG, f"first\n{WIDE}\n\tthat ends here", "w" * 5000])
@pytest.mark.parametrize("n_messages", [0, 2, 9])
def test_a_question_fits_its_terminal_and_keeps_the_request_in_view(text, n_messages):
    items = [
        (Item(type="tool", server=WIDE[:30], name=f"n{'a' * 90}{i}", description=LONG), "called") for i in range(12)
    ]
    messages = tuple(Message(role="user", content=f"message {i} {LONG}") for i in range(n_messages))
    question = Question(
        head=f"3 answers; query {LONG}",
        request=Request(id="q", text=text, history=messages),
        facts=[f"needed: {LONG}"],
        title="Which?",
        choices=items,
        keys="0 nothing more, ? all keys",
    )
    for notes, size in itertools.product([[], [f"no {LONG}"]], SIZES):
        lines, n = question.lines(notes, 0, os.terminal_size(size))
        assert len(lines) < size[1]
        assert max(map(cell_len, lines)) <= size[0]
        request, earlier = ([line[4:] for line in lines if line.startswith(mark)] for mark in ("  | ", "  user"))
        whole = wrapped(text or "(an empty request)", size[0] - 4)
        assert (request[0], request[-1]) == (whole[0], whole[-1])
        assert ("(v shows all)" in "".join(lines)) == ((len(request), len(earlier)) != (len(whole), n_messages))
        assert sum(bool(re.match(r"  \d .*\.\.\.", line)) for line in lines) == n >= min(5, size[1] // 8)
    assert [line for line in question.everything(0, 3, 80) if "that ends here" in line]


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")
def test_keys_pressed_behind_a_searched_text_stay_keys():
    import pty

    master, slave = pty.openpty()
    try:
        os.write(master, "/two wörds\n0ä".encode())
        with open(slave, encoding="utf-8", closefd=False) as stream, Keys(stream) as keys:
            assert keys.key() == "/"
            assert keys.text("") == "two wörds"
            assert [keys.key(), keys.key()] == ["0", "ä"]
            keys.back("y")
            assert keys.key() == "y"
    finally:
        os.close(master)
        os.close(slave)


def test_review_lists_asks_and_applies(folder, piped, capfd):
    dataset = read_dataset(folder)
    key = dataset.catalog[3].key
    wrong = [label if label.query != "q0" else replace(label, item=key) for label in dataset.labels]
    queries = tuple(replace(query, partly_labelled=False) for query in dataset.queries)
    write_dataset(replace(dataset, queries=queries, labels=tuple(wrong)), folder)
    review(str(folder), patch=None, listed=True, **OPTIONS)
    out, _ = capfd.readouterr()
    assert "q0  s / open_ticket (tool)  first but not required" in out
    assert "1 label that bm25, dense contradict" in out

    piped("a")
    review(str(folder), patch=folder.parent / "patch.jsonl", listed=False, **OPTIONS)
    assert "2 changed labels written" in capfd.readouterr().out
    apply_patch(folder, folder.parent / "patch.jsonl")
    assert {label.alternatives for label in read_dataset(folder).labels_of("q0")} == {f"like {key.id}"}
    with pytest.raises(InputError, match="line 1"):
        apply_patch(folder, folder.parent / "patch.jsonl")
    with pytest.raises(ParameterError, match="--patch FILE"):
        review(str(folder), patch=None, listed=False, **OPTIONS)


def test_corrections_are_on_disk_after_each_key_and_an_earlier_patch_is_kept(folder, piped, capfd, monkeypatch):
    dataset = read_dataset(folder)
    swapped = dict.fromkeys(("q0", "q1"), dataset.catalog[3].key)
    queries = tuple(replace(query, partly_labelled=False) for query in dataset.queries)
    labels = tuple(replace(one, item=swapped.get(one.query, one.item)) for one in dataset.labels)
    write_dataset(replace(dataset, queries=queries, labels=labels), folder)
    patch = folder.parent / "patch.jsonl"

    piped("q")
    review(str(folder), patch=patch, listed=False, **OPTIONS)
    assert "no label was changed" in capfd.readouterr().out
    assert not patch.exists()

    keys = iter(["2"])

    def pressed(self):
        try:
            return next(keys)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(Keys, "key", pressed)
    with pytest.raises(KeyboardInterrupt):
        review(str(folder), patch=patch, listed=False, **OPTIONS)
    kept = patch.read_text()
    assert len(kept.splitlines()) == 1
    with pytest.raises(ParameterError, match=r"patch\.jsonl exists; .* --apply"):
        review(str(folder), patch=patch, listed=False, **OPTIONS)
    assert patch.read_text() == kept
    with pytest.raises(ParameterError, match=r"would overwrite the files of"):
        review(str(folder), patch=folder / "queries.jsonl", listed=False, **OPTIONS)


def test_skips_are_counted_and_told(folder, piped, capfd):
    piped("0", "s", "s", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out, _ = capfd.readouterr()
    assert "1 query done" in out
    assert "2 queries undecided" in out


def test_a_key_that_the_menu_does_not_have_is_no_answer(folder, piped, capfd):
    piped("n", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    assert "'n' is not an answer here" in capfd.readouterr().err
    assert log_of(folder) == []


@pytest.fixture
def failing(place, tiny):
    """An experiment with a callable that fails on some queries, and how to say on which."""

    def write(where):
        code = f"def select(request, items):\n    if {where}:\n        raise ValueError('no index')\n    return []\n"
        (place / "mine.py").write_text(code)
        selectors = "[{name: mine, callable: 'mine.py:select'}, bm25]"
        (place / "mine.yaml").write_text(f"datasets: [{tiny}]\nembedder: hashing\nselectors: {selectors}\n")
        return "--selectors", "mine.yaml", "--embedder", "hashing"

    return write


@pytest.mark.parametrize("words", [("pool", "--out", "pairs.jsonl"), ("review", "--list"), ("label", "--minutes", "0")])
def test_a_selector_that_fails_on_every_query_gets_no_figure(cli, place, tiny, failing, words):
    shutil.copytree(tiny, place / "ds")
    command, *more = words
    done = cli("data", command, "ds", *more, *failing("True"))
    assert (done.code, done.out) == (2, "")
    said = r"error: mine failed on all \d+ queries; first query 'q\d+': the callable raised ValueError: no index"
    assert re.search(said + r" \(mine\.py, line 3\)\n$", done.err)
    assert not (place / "pairs.jsonl").exists()


def test_why_a_selector_failed_first_is_said(cli, place, tiny, failing):
    wrong = failing("request['id'] in ('q02', 'q03')")
    done = cli("data", "pool", tiny, *wrong, "--share", "1", "--out", "pairs.jsonl")
    assert done.code == 0
    first = "query 'q02': the callable raised ValueError: no index (mine.py, line 3)"
    assert f"warning: mine failed on 2 queries, counted as nothing offered; first {first}\n" in done.err
