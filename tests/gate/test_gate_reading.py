"""Baselines that cannot be read: every fault with its file and line, what was expected, and what to do."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.baseline_rows import file_hash, manifest_hash
from ctxbench.io.errors import InputError, StorageError
from tests.checkout import Checkout
from tests.gate.gate_cases import answer, offered, snapshot

ALWAYS = [offered("rule:style", mode="always")]


def accepted(**given):
    answers = {
        "q1": answer("q1", [*ALWAYS, ("a", 0.8), ("b", 0.7)], [("c", 0.4)]),
        "q2": answer("q2", [*ALWAYS, ("c", 0.9)]),
        "q3": answer("q3"),
    }
    return snapshot(answers, required={"q1": ["a"]}, **given)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "gate.baseline"
    write_baseline(path, [accepted()])
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def edit_head(folder: Path, change) -> None:
    """Change `baseline.json` as a program would, its hash made to fit."""
    path = folder / "baseline.json"
    head = json.loads(path.read_text("utf-8"))
    change(head)
    head["hash"] = manifest_hash(head)
    path.write_text(json.dumps(head, indent=2) + "\n", encoding="utf-8")


def told(folder: Path, *expected) -> None:
    """Every expected (file, line, part of a message) is told, in order, and nothing else."""
    with pytest.raises(InputError) as caught:
        read_baseline(folder)
    found = caught.value.faults
    assert [(Path(str(f.path)), f.line) for f in found] == [(folder / name, line) for name, line, _ in expected]
    for fault, (_, _, part) in zip(found, expected, strict=True):
        assert part in fault.message


# ---------------------------------------------------------------------------------------------- the folder


def test_a_baseline_that_is_missing_says_how_to_make_one(tmp_path):
    with pytest.raises(StorageError, match=r"no baseline: .* is not there; make it with `ctxbench check --accept`"):
        read_baseline(tmp_path / "gate.baseline")


def test_an_empty_folder_says_so(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(StorageError, match=r"no baseline: .*b is empty; make it"):
        read_baseline(tmp_path / "b")


def test_an_empty_head_says_so(folder):
    (folder / "baseline.json").write_text("")
    told(folder, ("baseline.json", 1, "the file is empty"))


def test_an_older_format_says_how_to_migrate(folder):
    edit_head(folder, lambda head: head.update(format=0))
    said = "format 0 (of ctxbench 0.1.0), this version of ctxbench reads 4; check once more"
    told(folder, ("baseline.json", 0, said))
    assert write_baseline(folder, [accepted()]).written == (folder / "baseline.json",)
    assert len(read_baseline(folder)) == 1


def test_a_newer_format_is_neither_read_nor_written_over(folder):
    edit_head(folder, lambda head: head.update(format=5))
    before = (folder / "baseline.json").read_bytes()
    said = "format 5 (of ctxbench 0.1.0), this version of ctxbench reads 4; install"
    told(folder, ("baseline.json", 0, said))
    with pytest.raises(InputError, match="install the version that wrote it, or a newer one"):
        write_baseline(folder, [accepted()])
    assert (folder / "baseline.json").read_bytes() == before


@pytest.mark.parametrize("text", ["[]", "{}", '"baseline"', "7"])
def test_a_head_that_is_none(folder, text):
    (folder / "baseline.json").write_text(text)
    told(folder, ("baseline.json", 1, "no baseline: expected an object with a format"))


def test_a_head_that_was_changed_by_hand(folder):
    edit(folder / "baseline.json", '"topN": 5', '"topN": 6')
    told(folder, ("baseline.json", 0, "edited by hand, or merged"))


def one(head):
    """What the head says of the selector."""
    return head["datasets"]["d"]["selectors"]["s"]


@pytest.mark.parametrize(
    "change", [lambda head: head.update(datasets={}), lambda head: head["datasets"]["d"].update(selectors={})]
)
def test_a_baseline_of_nothing_is_no_baseline(folder, change):
    edit_head(folder, change)
    told(folder, ("baseline.json", 0, "the baseline has no selector; restore it"))


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.pop("datasets"),
        lambda head: head.update(datasets=[]),
        lambda head: head["datasets"]["d"].pop("selectors"),
        lambda head: head["datasets"]["d"].update(files=7),
        lambda head: head["datasets"]["d"]["selectors"].update(s=[]),
        lambda head: head["datasets"]["d"]["selectors"]["s"].pop("rules"),
        lambda head: head["datasets"]["d"]["selectors"]["s"].update(metrics=7),
        lambda head: head["datasets"]["d"]["selectors"]["s"].update(metrics={"recal": {}}),
        lambda head: head["datasets"]["d"]["selectors"]["s"].pop("description"),
        lambda head: head["datasets"]["d"]["selectors"]["s"].update(embedder=None),
        lambda head: head["datasets"]["d"]["selectors"]["s"].update(repeats="3"),
        lambda head: head.update(versions=["0.1.0"]),
        lambda head: one(head).update(repeats=-5),
        lambda head: one(head).update(repeats=True),
        lambda head: one(head).update(spread={"completeness": "x"}),
        lambda head: one(head).update(spread={"completeness": -0.1}),
        lambda head: one(head).update(nondeterministic=[["q1"]]),
        lambda head: one(head).update(rules={"1": 5}),
        lambda head: one(head).update(rules=["below"]),
        lambda head: one(head).update(description={"pipeline": {"refine": [{"domains": 3}]}}),
        lambda head: one(head).update(description={"pipeline": {"refine": [{"domains": [["tool", 3]]}]}}),
        lambda head: one(head).update(description={"pipeline": {"retrieve": {"step": "merge", "sources": 3}}}),
        lambda head: one(head).update(
            description={"pipeline": {"retrieve": {"step": "merge", "sources": [["a", {"analyses": []}]]}}}
        ),
        lambda head: one(head).update(description={"pipeline": {"analyse": {"analyses": 3}}}),
    ],
)
def test_a_head_of_another_form_is_a_fault_and_no_crash(folder, change):
    edit_head(folder, change)
    told(folder, ("baseline.json", 0, "damaged"))


# ---------------------------------------------------------------------------------------------- merges


def test_conflicts_are_told_with_every_file_and_line(folder):
    edit(folder / "d" / "s.jsonl", '{"query":"q2"', '<<<<<<< HEAD\n{"query":"q2"')
    edit(folder / "d" / "s.jsonl", '{"query":"q3"', '=======\n>>>>>>> other\n{"query":"q3"')
    edit(folder / "d" / "items.jsonl", '{"id":"tool:s:a"', '<<<<<<< HEAD\n=======\n>>>>>>> other\n{"id":"tool:s:a"')
    what = f"a merge conflict; keep one side of the whole folder (`git checkout HEAD -- {folder}`)"
    told(folder, ("d/items.jsonl", 2, what), ("d/s.jsonl", 2, what))
    edit(folder / "baseline.json", '  "format"', '<<<<<<< HEAD\n  "format"')
    told(folder, ("baseline.json", 2, what))


def test_after_a_real_merge_the_command_of_the_message_restores_a_whole_baseline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, checkout = Path("gate.baseline"), Checkout(tmp_path)

    def write(first, last):
        answers = {f"q{n}": answer(f"q{n}", [("a", score)]) for n, score in enumerate((first, *[0.9] * 5, last))}
        write_baseline(folder, [snapshot(answers)])
        checkout.commit("Accept")

    write(0.5, 0.5)
    checkout.run("checkout", "-qb", "theirs")
    write(0.5, 0.7)
    checkout.run("checkout", "-q", "main")
    write(0.6, 0.5)
    with pytest.raises(CalledProcessError):
        checkout.run("merge", "-q", "theirs")
    with pytest.raises(InputError) as caught:
        read_baseline(folder)
    (command,) = {re.search("`git (.+?)`", fault.message)[1] for fault in caught.value.faults}
    checkout.run(*command.split())
    assert len(read_baseline(folder)) == 1


def test_a_text_that_looks_like_a_conflict_is_none(tmp_path):
    marks = "<<<<<<< HEAD\n=======\n>>>>>>> other"
    one = snapshot({"q1": ["a"]}, items={"a": marks}, queries={"q1": {"text": marks}})
    write_baseline(tmp_path / "b", [one])
    (read,) = read_baseline(tmp_path / "b")
    assert (read.queries["q1"].text, read.items["tool:s:a"].row["description"]) == (marks, marks)


def test_line_ends_that_git_changed_make_no_difference(folder):
    before = read_baseline(folder)[0]
    for path in folder.rglob("*.json*"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    after = read_baseline(folder)[0]
    assert (after.items, after.queries) == (before.items, before.queries)
    assert [after.answers[q].offered for q in after.queries] == [before.answers[q].offered for q in before.queries]
    assert write_baseline(folder, [accepted()]).written == ()


# ---------------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("name", "old", "new", "line", "part"),
    [
        ("s", '["tool:s:a",0.8]', '["tool:s:a",0.9]', 0, "edited by hand, or merged"),
        ("s", "0.8", "NaN", 1, "NaN is no JSON number; expected a finite one"),
        ("s", "0.8", "1e999", 1, "the score of tool:s:a must be a finite number or null, got inf"),
        ("s", "0.8", "1" * 400, 1, f"must be a finite number or null, got {'1' * 297}..."),
        ("s", ',"values":{', ',"values":{"x":' + "1" * 400 + ",", 1, "values.x must be a number"),
        ("items", '"tokens":10', '"tokens":1' + "0" * 30, 1, "tokens must be at most 9.0072e+15, got 1000000000"),
        ("s", "0.8", '"high"', 1, "the score of tool:s:a must be a finite number or null, got 'high'"),
        ("s", "0.8", "true", 1, "the score of tool:s:a must be a finite number"),
        ("s", ',"values":{', ',"values":{"x":1e999,', 1, "values.x must be a finite number"),
        ("s", '"completeness":1', '"completeness":7', 1, "the value of completeness must be 0 or 1, got 7"),
        ("s", '"completeness":1', '"completeness":0.5', 1, "the value of completeness must be 0 or 1, got 0.5"),
        ("s", '"recall":1', '"recall":1.5', 1, "the value of recall must be from 0 to 1, got 1.5"),
        ("s", '"recall":1', '"recall":-0.1', 1, "the value of recall must be from 0 to 1, got -0.1"),
        ("s", '"tokens":', '"tokens":-', 1, "the value of tokens must be 0 or more, got -"),
        ("s", '["tool:s:a",0.8]', '["tool:s:a"]', 1, "a candidate is [id, score], got ['tool:s:a']"),
        ("s", '["tool:s:a",0.8]', '["tool:s:a",0.8,{"pair":"x"}]', 1, "expected an object with mode, origin, via or"),
        ("s", '["tool:s:a",0.8]', '["tool:s:a",0.8,{"tokens":-1}]', 1, "expected an object with mode, origin, via or"),
        ("s", '["tool:s:a",0.8]', f'["tool:s:a",0.8,{{"tokens":{2**53 + 1}}}]', 1, "expected an object with mode"),
        ("s", '["tool:s:a",0.8]', f'["tool:s:a",0.8,{{"tokens":{10**400}}}]', 1, "expected an object with mode"),
        ("s", '["tool:s:c",0.4,1]', '["tool:s:c",0.4,2]', 1, "tool:s:c is out by rule 2, which baseline.json"),
        ("s", '["tool:s:c",0.4,1]', '["tool:s:c",0.4]', 1, "a candidate is [id, score, rule]"),
        ("s", '"session":1', '"session":2', 1, "sessions.jsonl has no session 2"),
        ("s", '"session":1', '"session":["rule:style"]', 1, "a session holds texts of a mode and an id"),
        ("s", '"offered":[', '"offred":[', 1, "a line needs the field 'offered'"),
        ("s", '{"query":"q2"', '{"query":"q2', 2, "malformed JSON"),
        ("s", '{"query":"q2"', '[1]\n{"query":"q2"', 2, "a line must be a mapping, got [1]"),
        ("s", '"query":"q2"', '"query":"q1"', 0, "differ from those of queries.jsonl: 1 missing (q2), 1 twice (q1)"),
        ("s", '"query":"q2"', '"query":"q9"', 0, "1 unknown (q9), 1 missing (q2)"),
        ("s", '["tool:s:a",0.8]', '["tool:s:x",0.8]', 1, "query q1 has tool:s:x, which items.jsonl"),
        ("items", '"tokens":10', '"tokens":-1', 1, "tokens must be 0 or more, got -1"),
        ("items", '"hash":', '"hsah":', 1, "a line needs the field 'hash'"),
        ("items", '"row":{', '"row":7,"was":{', 1, "row must be a mapping, got 7"),
        ("items", '"id":"tool:s:b"', '"id":"tool:s:a"', 3, "tool:s:a occurs twice"),
        ("queries", '"id":"q2"', '"id":"q1"', 2, "q1 occurs twice"),
        ("queries", '"required":["tool:s:a"]', '"required":"tool:s:a"', 1, "required must be a list"),
        ("queries", '"required":["tool:s:a"]', '"required":[7]', 1, "required[0] must be a list, got 7"),
        ("queries", '"asked":', '"recent":null,"asked":', 1, "recent must be a list, got null"),
        ("queries", '"asked":', '"asked":"","was":', 1, "asked must not be empty"),
        ("sessions", '"always rule:style"', "7", 1, "items[0] must be a text, got 7"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_told_with_what_was_expected(folder, name, old, new, line, part):
    path = folder / "d" / f"{name}.jsonl"
    edit(path, old, new)
    with pytest.raises(InputError) as caught:
        read_baseline(folder)
    found = [fault for fault in caught.value.faults if fault.path == path and fault.line == line]
    assert any(part in fault.message for fault in found), str(caught.value)
    assert "`ctxbench check --accept`" in str(caught.value) or "JSON" in str(caught.value)


def test_malformed_json_has_its_column(folder):
    edit(folder / "d" / "s.jsonl", '{"query":"q2"', '{"query" "q2"')
    with pytest.raises(InputError) as caught:
        read_baseline(folder)
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [(2, 10)]


def test_a_value_out_of_range_is_told_whatever_wrote_it(folder):
    path = folder / "d" / "s.jsonl"
    edit(path, '"completeness":1', '"completeness":7')
    digest = file_hash(path.read_bytes())
    edit_head(folder, lambda head: one(head).update(file=digest))
    told(folder, ("d/s.jsonl", 1, "a damaged line: the value of completeness must be 0 or 1, got 7; restore it"))


def test_values_of_repeated_answers_are_shares(folder):
    path = folder / "d" / "s.jsonl"
    edit(path, '"completeness":1', '"completeness":0.5')
    digest = file_hash(path.read_bytes())
    edit_head(folder, lambda head: one(head).update(file=digest, repeats=2))
    assert read_baseline(folder)[0].metrics[parse_metric("completeness")][0] == 0.5
    edit(path, '"completeness":0.5', '"completeness":1.5')
    told(folder, ("d/s.jsonl", 1, "the value of completeness must be from 0 to 1, got 1.5"))


def test_a_share_may_be_above_1_by_rounding_only(folder):
    path = folder / "d" / "s.jsonl"
    edit(path, '"recall":1', '"recall":1.0000000000000002')
    digest = file_hash(path.read_bytes())
    edit_head(folder, lambda head: one(head).update(file=digest))
    assert len(read_baseline(folder)) == 1


@pytest.mark.parametrize("name", ["baseline.json", "d/items.jsonl", "d/queries.jsonl", "d/sessions.jsonl", "d/s.jsonl"])
@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda data: data[:-20], "it ends too early, as if cut off"),
        (lambda data: b"=======\n" + data, "a merge conflict; keep one side of the whole folder"),
        (lambda data: data + b">>>>>>> other\n", "a merge conflict; keep one side of the whole folder"),
        (lambda data: data.decode().encode("utf-16"), "UTF-16, expected UTF-8; restore it from git"),
        (lambda data: data.decode().encode("utf-16-le"), "UTF-16, expected UTF-8; restore it from git"),
        (lambda _: b"", "is empty"),
    ],
    ids=["cut", "=======", ">>>>>>>", "utf-16", "utf-16-le", "empty"],
)
def test_a_file_that_something_happened_to_is_one_fault_that_says_what(folder, name, change, part):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError) as caught:
        read_baseline(folder)
    (fault,) = caught.value.faults
    assert (fault.path, part in fault.message) == (path, True), fault
    assert "`ctxbench check --accept`" in fault.message


@pytest.mark.parametrize("change", [lambda data: b"\xef\xbb\xbf" + data, lambda data: data.replace(b"\n", b"\r\n")])
def test_a_byte_order_mark_and_other_line_ends_do_no_harm(folder, change):
    for path in folder.rglob("*.json*"):
        path.write_bytes(change(path.read_bytes()))
    assert len(read_baseline(folder)) == 1


def test_a_line_that_is_not_utf8(folder):
    path = folder / "d" / "s.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"q2"', b'"q\xff"'))
    told(folder, ("d/s.jsonl", 2, "invalid UTF-8"))


def test_files_that_are_missing_or_empty_are_all_told(folder):
    (folder / "d" / "items.jsonl").unlink()
    (folder / "d" / "queries.jsonl").write_text("")
    (folder / "d" / "s.jsonl").unlink()
    told(
        folder,
        ("d/items.jsonl", 0, "is missing; restore it from git, or accept again"),
        ("d/queries.jsonl", 0, "is empty; restore it from git, or accept again"),
        ("d/s.jsonl", 0, "is missing"),
    )


def test_a_line_that_is_gone_and_one_in_another_place(folder):
    path = folder / "d" / "s.jsonl"
    first, second, third = path.read_text().splitlines(keepends=True)
    path.write_text(first + third + second)
    told(folder, ("d/s.jsonl", 0, "another order"))
    path.write_text(first + third)
    told(folder, ("d/s.jsonl", 0, "1 missing (q2)"))
    digest = file_hash(path.read_bytes())  # the same where a program has changed it
    edit_head(folder, lambda head: head["datasets"]["d"]["selectors"]["s"].update(file=digest))
    told(folder, ("d/s.jsonl", 0, "1 missing (q2)"))


def json_or_none(content):
    try:
        return json.loads(bytes(content))
    except ValueError:
        return None


def test_whatever_byte_is_changed_it_is_a_fault_and_no_crash(folder):
    rng = random.Random(0)
    head = json.loads((folder / "baseline.json").read_bytes())
    whole = {path: path.read_bytes() for path in sorted(folder.rglob("*.json*"))}
    for _ in range(300):
        path = rng.choice(list(whole))
        content = bytearray(whole[path])
        at = rng.randrange(len(content))
        content[at] = (content[at] + rng.randint(1, 255)) % 256
        path.write_bytes(content)
        if path.name == "baseline.json" and json_or_none(content) == head:  # other blanks
            assert len(read_baseline(folder)) == 1
        else:
            with pytest.raises(InputError):
                read_baseline(folder)
        path.write_bytes(whole[path])


def test_every_message_names_the_baseline_where_there_are_several_faults(folder):
    (folder / "d" / "items.jsonl").unlink()
    with pytest.raises(InputError, match=re.escape(f"baseline {folder}: ")):
        read_baseline(folder)
