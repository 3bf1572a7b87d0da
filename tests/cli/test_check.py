"""`ctxbench check`: verdicts as exit codes, what is written and printed, and what it says of bad input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest
import yaml

from ctxbench.gate.baseline_rows import manifest_hash
from ctxbench.io.console import progress

NEEDED = "reference:guides%2Fon%20call"  # what q08 needs, and is offered for its description and text


@pytest.fixture
def data(place, tiny):
    """A copy of the tiny dataset, in the working folder, whose card counts nothing."""
    shutil.copytree(tiny, place / "data")
    card = yaml.safe_load((place / "data/dataset.yaml").read_text())
    del card["counts"]
    (place / "data/dataset.yaml").write_text(yaml.safe_dump(card))
    return place / "data"


@pytest.fixture
def gate(data, place):
    """Write a gate file over it; what stands in `gate:` is given."""

    def write(name="gate.yaml", *, selector=None, **settings):
        told = {"datasets": ["data"], "selectors": [selector or {"selector": "bm25", "set": {"n": 3}}]}
        told |= {"name": "tiny", "embedder": "hashing", "tokens": "chars/4"}
        (place / name).write_text(yaml.safe_dump({**told, **({"gate": settings} if settings else {})}))
        return name

    return write


@pytest.fixture
def accepted(cli, gate):
    """A gate file with its baseline."""
    name = gate()
    done = cli("check", "--accept")
    assert done.code == 0, done.err
    return name


@pytest.fixture
def emptied(data):
    """The item that q08 needs says something else; returns its line."""

    def change():
        rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text().splitlines()]
        place = next(n for n, row in enumerate(rows) if row["_id"] == NEEDED)
        rows[place] |= {"description": "Ice cream parlour.", "text": "Ice cream parlour."}
        (data / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return place + 1

    return change


def offer_less(gate):
    """The selector offers one item in place of three: more is lost than may be."""
    return gate(selector={"selector": "bm25", "name": "bm25", "set": {"n": 1}})


def flat(text):
    return " ".join(text.split())


# ------------------------------------------------------------------------------------------------------------ accepting


def test_accepting_writes_a_baseline_once(cli, gate, snapshot):
    gate()
    done = cli("check", "--accept")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "written: gate.baseline/baseline.json" in lines
    worth = "completeness 75.0%, recall 75.0%, 65 tokens a query, 78 with the session's, forbidden_offered 33.3%"
    assert lines[-2] == f"accepted: bm25 on tiny: {worth}, 10 queries"
    assert lines[-1] == "accepted: gate.baseline, all of it new or changed; look at it, and commit it"
    before = snapshot()
    done = cli("check", "--accept")
    assert done.out.splitlines()[1:] == [
        f"accepted: gate.baseline, {len(lines) - 2} files unchanged; nothing to commit"
    ]
    assert snapshot() == before


def test_accepting_tells_a_program_what_was_written(cli, gate):
    gate()
    told = cli("check", "--accept", "--output-format", "json").json
    assert told["baseline"] == "gate.baseline"
    assert "gate.baseline/baseline.json" in told["written"]
    assert told["unchanged"] == told["removed"] == []
    (one,) = told["accepted"]
    assert (one["dataset"], one["selector"], one["queries"], one["offered"]) == ("tiny", "bm25", 10, 16)
    assert list(one["metrics"]) == ["completeness", "recall", "tokens", "total_tokens", "forbidden_offered"]
    assert one["metrics"]["completeness"] == 0.75
    assert told["pins"] == []
    gate(pins=[{"query": "q01", "at_most_items": 0}])
    (pin,) = cli("check", "--accept", "--output-format", "json").json["pins"]
    assert (pin["query"], pin["about"]) == ("q01", "items")
    gate(selector={"selector": "bm25", "set": {"n": -1}})
    done = cli("check", "--accept", "--output-format", "json")
    assert (done.code, done.json["verdict"], done.json["exit_code"]) == (2, "not comparable", 2)
    assert "n must be 0 to 100, got -1" in done.json["error"]["message"]
    done = cli("check", "--accept", "--strict", "--output-format", "json")
    assert (done.code, "--accept does not check" in done.json["error"]["message"]) == (2, True)


def test_a_selector_that_offers_nothing_is_seen_when_it_is_accepted(cli, gate, place):
    (place / "empty.py").write_text("def select(request):\n    return []\n")
    gate(selector={"callable": "empty.py:select", "name": "empty", "send": "nothing"})
    (told,) = (line for line in cli("check", "--accept").out.splitlines() if "empty on tiny" in line)
    tokens = "0.0 tokens a query, 13 with the session's"
    worth = f"completeness 12.5%, recall 12.5%, {tokens}, forbidden_offered 0.0%"  # a session holds what one needs
    assert told == f"accepted: empty on tiny: {worth}, 10 queries, nothing offered to any"


def test_vectors_are_stored_only_if_asked(cli, gate, place, cache):
    gate(selector={"selector": "semantic", "preset": "spec"})
    cli("check", "--accept")
    assert not (place / "gate.baseline/vectors.npz").exists()
    done = cli("check", "--accept", "--vectors")
    assert "written: gate.baseline/vectors.npz" in done.out
    cli("check", "--accept")
    assert (place / "gate.baseline/vectors.npz").exists()  # who has a runner without the model keeps it
    shutil.rmtree(cache)
    done = cli("check")
    assert done.code == 0, done.err
    assert cli("check", "--allow-removed").out.startswith("same: ")


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_no_output_takes_the_place_of_what_is_checked(cli, accepted, gate, place, option):
    before = (place / "gate.yaml").read_bytes()
    done = cli("check", option, "gate.yaml")
    assert (done.code, (place / "gate.yaml").read_bytes()) == (2, before)
    assert f"{option} gate.yaml would overwrite what is checked" in done.err


def test_outputs_are_two_files_and_devices_stay_devices(cli, accepted, gate, place):
    done = cli("check", "--junit", "x.txt", "--markdown", "./x.txt")
    assert (done.code, (place / "x.txt").exists()) == (2, False)
    assert "--markdown and --junit name one file" in done.err
    (place / "null").symlink_to(os.devnull)
    assert cli("check", "--junit", "null").code == 0
    assert (place / "null").is_symlink()
    assert not (place / "null").is_file()


def test_a_bug_is_no_verdict(cli, accepted, gate, place, monkeypatch):
    def broken(*_arguments, **_named):
        raise RuntimeError("deep inside")

    monkeypatch.setattr("ctxbench.gate.gate.check", broken)
    done = cli("check", "--markdown", "s.md")
    assert done.code == 2
    assert "ctxbench has a bug: RuntimeError: deep inside" in (place / "s.md").read_text()


def test_no_baseline_is_no_verdict(cli, gate):
    gate()
    done = cli("check")
    assert (done.code, done.out) == (2, "")
    assert "there is no baseline: gate.baseline is not there" in done.err


# ------------------------------------------------------------------------------------------------------------- verdicts


def test_nothing_changed(cli, accepted):
    done = cli("check")
    assert done.code == 0, done.err
    assert done.out == "same: 1 dataset, 1 selector, 10 queries; nothing changed\n"
    lines = [line.split() for line in cli("check", "--verbose").out.splitlines()]
    assert ["same", "tiny", "bm25", "10", "0", "0", "1"] in lines


def test_worse_is_told_in_every_output(cli, accepted, gate, place):
    offer_less(gate)
    done = cli("check", "--markdown", "out/s.md", "--junit", "out/j.xml", "--output-format", "github")
    assert done.code == 1, done.err
    assert done.out.startswith("worse: bm25 on tiny: ")
    assert "parameter: n 3 -> 1" in done.out
    assert "\n  ctxbench check --accept\n" in done.out
    commands = [line for line in done.out.splitlines() if line.startswith("::")]
    assert commands[0].startswith("::error file=gate.yaml,line=")  # that of the selector whose parameter was changed
    assert "parameter: n 3 -> 1" in commands[0]
    assert (place / "out/s.md").read_text().startswith("## ctxbench check: worse: bm25 on tiny")
    suites = parse(place / "out/j.xml").getroot()
    assert int(suites.get("failures")) >= 1
    assert suites[0].get("name") == "bm25 on tiny"


def test_what_cannot_be_told_fails_only_strictly(cli, accepted, emptied):
    emptied()  # one of eight queries loses one item: far beyond 1 point, and no evidence
    done = cli("check")
    assert done.code == 0, done.err
    assert done.out.startswith("inconclusive: ")
    assert "item edited" in done.out
    done = cli("check", "--strict", "--output-format", "json")
    assert done.code == 1
    assert (done.json["verdict"], done.json["exit_code"]) == ("inconclusive", 1)


def test_labels_that_would_be_refused_are_to_be_mended_before_accepting(cli, gate, data):
    gate(metrics=["recall"], max_lost_required=0)
    assert cli("check", "--accept").code == 0
    rows = (data / "corpus.jsonl").read_text().splitlines()
    (data / "corpus.jsonl").write_text("".join(f"{row}\n" for row in rows if NEEDED not in row))
    done = cli("check")
    assert done.code == 1, done.err
    first = "update the labels (`ctxbench data rebase`) or put the items back"
    assert f"If the change is intended, {first}, then accept it: ctxbench check --accept" in flat(done.out)
    done = cli("check", "--accept")
    assert done.code == 2
    assert done.err.count(f"names item '{NEEDED}'") == 1


def test_pins_fail_on_their_own_and_name_their_line(cli, accepted, gate, place):
    gate(pins=[{"query": "q02", "must_include": ["tool:weather:get_forecast"]}])
    done = cli("check", "--output-format", "github")
    assert done.code == 1
    line = next(n for n, text in enumerate((place / "gate.yaml").read_text().splitlines(), 1) if "- must" in text)
    assert f"::error file=gate.yaml,line={line},title=bm25 on tiny%3A pin%2C q02::" in done.out
    assert "--accept" not in done.out  # which would change nothing
    assert "change the pin (gate.yaml, line" in flat(done.out)


def test_labels_that_changed_are_not_judged_unless_they_may_go(cli, accepted, data, place):
    labels = (data / "qrels/tuning.tsv").read_text()
    (data / "qrels/tuning.tsv").write_text(
        labels.replace("q02\treference:release%20calendar\t2", "q02\trule:code%20review\t2")
    )
    done = cli("check", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github")
    assert done.code == 2, done.err
    assert done.out.startswith("not comparable: ")
    line = next(n for n, text in enumerate((data / "qrels/tuning.tsv").read_text().splitlines(), 1) if "q02" in text)
    assert f"::error file=data/qrels/tuning.tsv,line={line},title=bm25 on tiny%3A not comparable::" in done.out
    assert (place / "s.md").read_text().startswith("## ctxbench check: not comparable")
    assert parse(place / "j.xml").getroot().get("errors") == "1"
    done = cli("check", "--allow-removed", "--verbose")
    assert done.code == 0, done.err
    assert ["same", "tiny", "bm25", "9", "1"] in [line.split()[:5] for line in done.out.splitlines()]


def test_a_query_without_an_answer_is_never_the_same(cli, gate, place):
    rows = [{"query": f"q{n:02d}", "items": []} for n in range(1, 11)]
    (place / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gate(selector={"answers": "answers.jsonl"})
    assert cli("check", "--accept").code == 0
    (place / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    done = cli("check")
    assert done.code == 2
    assert "q10" in done.out
    done = cli("check", "--accept")
    assert done.code == 2
    assert "no baseline was accepted: answers on tiny failed on 1 query, first q10" in done.err


NOISY = """
calls = 0

def select(request):
    global calls
    calls += 1
    return [{"id": "rule:code%20review"}] if calls % 20 < 10 and not request.get("available") else []
"""


def test_a_selector_that_answers_otherwise_each_time_is_asked_again_and_its_spread_is_shown(cli, gate, place):
    (place / "noisy.py").write_text(NOISY)
    selector = {"callable": "noisy.py:select", "name": "noisy", "send": "nothing"}
    gate(selector=selector, repeats=2)
    done = cli("check", "--accept")
    assert done.code == 0, done.err
    done = cli("check", "--verbose")
    assert done.code == 0, done.err
    assert "queries answered differently between repeats" in flat(done.out)
    assert "standard deviation of the means over 2 repeats, now: " in flat(done.out)
    (place / "noisy.py").write_text(NOISY.replace("calls += 1", "raise ValueError('no luck')"))
    done = cli("check")
    assert done.code == 2
    assert "the callable raised ValueError: no luck" in flat(done.out)
    assert "--accept" not in done.out  # which would be refused


def test_a_selector_that_is_not_in_the_baseline_is_named(cli, accepted, gate):
    gate(selector={"selector": "bm25", "name": "other", "set": {"n": 3}})
    done = cli("check")
    assert done.code == 2
    assert "other on tiny is not in gate.baseline" in flat(done.out)


# ----------------------------------------------------------------------------------------------------------------- runs


def run_of(cli, place, name, selector):
    told = {"name": name, "datasets": ["data"], "selectors": [selector], "embedder": "hashing", "tokens": "chars/4"}
    (place / f"{name}.yaml").write_text(yaml.safe_dump(told))
    assert cli("run", f"{name}.yaml").code == 0
    return f"runs/{name}"


def test_two_runs(cli, data, place):
    more = run_of(cli, place, "more", {"selector": "bm25", "name": "s", "set": {"n": 3}})
    less = run_of(cli, place, "less", {"selector": "bm25", "name": "s", "set": {"n": 1}})
    assert cli("check", more, more).out.startswith("same: ")
    done = cli("check", more, less)
    assert done.code == 1
    assert "--accept" not in done.out
    back = cli("check", less, more, "--output-format", "json").json["selectors"][0]
    there = cli("check", more, less, "--output-format", "json").json["selectors"][0]
    assert (back["lost"], back["gained"]) == (there["gained"], there["lost"])


def test_two_runs_of_one_selector_each_are_compared_whatever_they_are_called(cli, data, place):
    base = run_of(cli, place, "a", {"selector": "bm25", "name": "old", "set": {"n": 3}})
    head = run_of(cli, place, "b", {"selector": "bm25", "name": "new", "set": {"n": 1}})
    done = cli("check", base, head, "--verbose")
    assert done.code == 1
    assert "new of runs/b is compared with old of runs/a" in done.out


# -------------------------------------------------------------------------------------------------------------- outputs


def test_json_stands_alone_on_standard_output(cli, process, accepted, gate, place):
    offer_less(gate)
    done = process("check", "--output-format", "json")
    assert done.code == 1, done.err
    assert done.json["verdict"] == "worse"
    assert done.json["baseline"] == "gate.baseline"
    assert done.json["selectors"][0]["lost"] > 1
    assert cli("check", "--output-format", "json").out == done.out
    assert str(place) not in done.out


def test_the_summary_of_a_step_is_appended_to(cli, accepted, place, monkeypatch):
    step, other = place / "step.md", place / "other.md"
    for path in (step, other):
        path.write_text("# Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    cli("check", "--markdown", step)
    cli("check", "--markdown", other)
    assert step.read_text().startswith("# Before\n\n## ctxbench check: same")
    assert other.read_text().startswith("## ctxbench check: same")
    cli("check", "--markdown", step)
    assert step.read_text().count("## ctxbench check: same") == 2


def test_the_summary_of_a_step_keeps_to_its_limit(cli, accepted, place, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "step.md")
    (place / "step.md").write_text("x" * ((1 << 20) - 3000) + "\n")
    assert cli("check", "--markdown", "step.md").code == 0
    assert (place / "step.md").stat().st_size <= 1 << 20
    assert "## ctxbench check: same" in (place / "step.md").read_text()


@pytest.fixture
def exact(cli, gate):
    """A gate file that allows no loss, with its baseline."""
    name = gate(max_lost_required=0)
    assert cli("check", "--accept").code == 0
    return name


def test_the_comment_is_the_summary_with_a_hidden_name_of_the_gate(cli, exact, emptied, place, monkeypatch):
    line = emptied()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(place.parent))
    assert cli("check", "gate.yaml", "--comment", "c.md", "--markdown", "s.md").code == 1
    text = (place / "c.md").read_text()
    assert text == (place / "s.md").read_text() + "\n<!-- ctxbench check: work/gate.yaml -->\n"
    first, rest = text.split("\n", 1)
    assert first.startswith("## ctxbench check work/gate.yaml: worse: bm25 on tiny: 1 required item lost")
    told, details = rest.split("<details><summary>Details</summary>\n")
    assert f"\n* `work/data/corpus.jsonl:{line}`: CTX105 item edited" in told
    assert "<br>fix: undo the edit" in told
    assert "ctxbench check gate.yaml --accept" in told
    assert "| verdict | dataset |" in details
    assert details.count("<details>") + 1 == details.count("</details>")


def test_the_name_of_a_gate_cannot_end_the_line_that_hides_it(cli, gate, place):
    name = gate("a --> @me <b>.yaml")
    assert cli("check", name, "--accept").code == 0
    cli("check", name, "--comment", "c.md")
    assert (place / "c.md").read_text().endswith("\n<!-- ctxbench check: a%20--%3E%20%40me%20%3Cb%3E.yaml -->\n")


def test_the_code_quality_report_has_each_problem_at_its_line(cli, exact, emptied, data, place):
    line = emptied()
    assert cli("check", "--code-quality", "q.json").code == 1
    problems = json.loads((place / "q.json").read_text())
    for problem in problems:
        assert set(problem) == {"check_name", "description", "fingerprint", "severity", "location"}
        assert problem["severity"] in ("major", "minor")
        assert problem["location"]["lines"]["begin"] >= 1
        assert (place / problem["location"]["path"]).is_file()
    assert len({problem["fingerprint"] for problem in problems}) == len(problems)
    lost = next(problem for problem in problems if problem["check_name"] == "ctxbench required items lost")
    assert lost["location"] == {"path": "data/corpus.jsonl", "lines": {"begin": line}}
    assert lost["severity"] == "major"
    corpus = data / "corpus.jsonl"
    rows = corpus.read_text().splitlines(keepends=True)
    corpus.write_text("".join([rows[line - 1], *rows[: line - 1], *rows[line:]]))
    cli("check", "--code-quality", "q.json")
    moved = json.loads((place / "q.json").read_text())
    assert [problem["location"]["lines"]["begin"] for problem in moved] != [
        problem["location"]["lines"]["begin"] for problem in problems
    ]
    assert {problem["fingerprint"] for problem in moved} == {problem["fingerprint"] for problem in problems}


def test_the_code_quality_report_of_nothing_is_empty_and_replaces_its_own_alone(cli, exact, emptied, place):
    cli("check", "--code-quality", "q.json")
    assert (place / "q.json").read_text() == "[]\n"
    emptied()
    cli("check", "--code-quality", "q.json")
    assert json.loads((place / "q.json").read_text())
    assert cli("check", "--code-quality", "q.json").code == 1
    for text in ('[{"query": "mine"}]\n', "[\n1]\n"):
        (place / "mine.json").write_text(text)
        done = cli("check", "--code-quality", "mine.json")
        assert (done.code, done.out) == (2, "")
        assert "mine.json is there and is no earlier output" in done.err
        assert (place / "mine.json").read_text() == text


def test_what_cannot_be_read_is_in_comment_and_code_quality_too(cli, accepted, place):
    (place / "gate.yaml").write_text("name: [\n")
    assert cli("check", "--comment", "c.md", "--code-quality", "q.json").code == 2
    comment = (place / "c.md").read_text()
    assert comment.startswith("## ctxbench check: cannot judge: gate.yaml\n\n* malformed YAML")
    assert comment.endswith("\n<!-- ctxbench check: gate.yaml -->\n")
    (fault,) = json.loads((place / "q.json").read_text())
    assert fault["location"] == {"path": "gate.yaml", "lines": {"begin": 2}}
    assert (fault["check_name"], fault["severity"]) == ("ctxbench fault", "major")


def test_what_cannot_be_read_is_said_in_every_output(cli, accepted, place, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "s.md")
    (place / "gate.yaml").write_text("name: [\n")
    done = cli("check", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github")
    assert done.code == 2
    assert done.err.startswith("error: malformed YAML")
    assert done.out.startswith(
        "::error file=gate.yaml,line=2,col=1,title=ctxbench check%3A cannot judge::malformed YAML"
    )
    assert (place / "s.md").read_text().startswith("## ctxbench check: cannot judge: gate.yaml\n\n* malformed YAML")
    (error,) = parse(place / "j.xml").getroot().iter("error")
    assert error.get("message").startswith("malformed YAML")


def test_every_fault_is_told_at_its_place_in_every_output(cli, accepted, data, place, monkeypatch):
    (place / "gate.yaml").write_text(
        (place / "gate.yaml").read_text().replace("n: 3", "n: -1") + "gate: {repeats: 0}\n"
    )
    lines = (place / "gate.yaml").read_text().splitlines()
    places = [next(n for n, text in enumerate(lines, 1) if what in text) for what in ("n: -1", "repeats")]
    messages = ["n must be 0 to 100, got -1", "gate.repeats must be 1 or more, got 0"]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(place.parent))
    done = cli("check", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github")
    title = "title=ctxbench check%3A cannot judge"
    found = sorted(zip(places, messages, strict=True))
    assert done.out.splitlines() == [f"::error file=work/gate.yaml,line={n},{title}::{said}" for n, said in found]
    told = [f"{said} (gate.yaml, line {n})" for n, said in found]
    assert [line for line in (place / "s.md").read_text().splitlines() if line.startswith("* ")] == [
        f"* {line}" for line in told
    ]
    assert [one.get("message") for one in parse(place / "j.xml").getroot().iter("error")] == told
    done = cli("check", "--output-format", "json")
    assert (done.code, done.json["verdict"], done.json["exit_code"], done.json["selectors"]) == (
        *(2, "not comparable", 2, []),
    )
    assert done.json["error"]["faults"] == [
        {"message": said, "file": "gate.yaml", "line": n, "column": None} for n, said in found
    ]
    assert all(line in done.json["error"]["message"] for line in told)


def test_a_check_that_could_not_be_made_has_the_keys_of_one_that_was(cli, accepted, place):
    judged = cli("check", "--output-format", "json").json
    shutil.rmtree(place / "gate.baseline")
    done = cli("check", "--output-format", "json")
    assert done.code == 2
    assert list(done.json) == list(judged)
    (fault,) = done.json["error"]["faults"]
    assert "there is no baseline" in fault["message"]
    assert (judged["error"], fault["file"], fault["line"]) == (None, None, None)


def test_options_that_contradict_each_other_are_told_a_program_too(cli, accepted):
    done = cli("check", "a", "b", "c", "--output-format", "json")
    assert (done.code, done.json["verdict"], done.json["exit_code"]) == (2, "not comparable", 2)
    assert done.json["error"]["message"] == "expected one gate file or two run folders, got 3 paths: a, b, c"


def test_nothing_that_others_wrote_is_a_command_of_a_runner_in_json_or_progress(cli, gate, data, place, capfd):
    rows = [json.loads(line) for line in (data / "queries.jsonl").read_text().splitlines()]
    rows[2]["text"] += " ##[add-mask]x"
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gate()
    assert cli("check", "--accept").code == 0
    offer_less(gate)
    done = cli("check", "--output-format", "json")
    assert "##[" not in done.out
    texts = done.json["selectors"][0]["texts"].values()
    assert any(text.endswith("##[add-mask]x") for text in texts)  # and it says the same
    with progress() as shown:
        shown.say("embedding\n::error::x ##[group]y")
    assert capfd.readouterr().err == "embedding\ufffd::error::x ## [group]y\n"


def test_without_texts_there_are_none_anywhere(cli, gate, place):
    gate()
    cli("check", "--accept", "--no-text")
    offer_less(gate)
    done = cli("check", "--no-text", "--verbose", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github")
    told = [done.out, cli("check", "--no-text", "--output-format", "json").out, (place / "s.md").read_text()]
    told += [(place / "j.xml").read_text(), *(path.read_text() for path in (place / "gate.baseline").rglob("*.json*"))]
    for text in told:
        for words in ("code freeze date", "pull request 12", "Release 4.2", "Name the file"):
            assert words not in text
    assert "q03" in done.out
    assert "\n  ctxbench check --accept --no-text\n" in done.out  # and accepting again would write none
    plain = cli(
        "check", "--verbose", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github"
    )  # as the workflow runs it
    told = [
        plain.out,
        cli("check", "--output-format", "json").out,
        (place / "s.md").read_text(),
        (place / "j.xml").read_text(),
    ]
    assert not any(words in text for text in told for words in ("code freeze date", "pull request 12", "Release 4.2"))
    again = cli("check", "--accept").out
    assert "no texts of requests and items are written, as in the baseline that was there" in again
    assert not any("code freeze date" in path.read_text() for path in (place / "gate.baseline").rglob("*.json*"))
    shutil.rmtree(place / "gate.baseline")
    cli("check", "--accept")
    assert any("code freeze date" in path.read_text() for path in (place / "gate.baseline").rglob("*.json*"))
    gate(selector={"selector": "bm25", "name": "bm25", "set": {"n": 0}})
    assert "code freeze date" in cli("check", "--verbose").out


def test_an_old_sentence_is_no_part_of_a_report_without_texts(cli, accepted, emptied, place):
    emptied()
    assert 'may have matched: "' in flat(cli("check").out)
    done = cli("check", "--no-text", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github")
    told = [done.out, cli("check", "--no-text", "--output-format", "json").out, (place / "s.md").read_text()]
    told.append((place / "j.xml").read_text())
    assert all("undo the edit of" in flat(text) and "may have matched" not in flat(text) for text in told)


def test_the_command_that_accepts_is_that_of_the_gate_file(cli, gate):
    semantic = {"selector": "semantic", "name": "s", "preset": "spec"}
    name = gate("other gate.yaml", selector=semantic)
    cli("check", name, "--accept", "--vectors")
    gate(name, selector={**semantic, "set": {"contextTopN": 0, "contextIncludeScore": 1}})
    assert "\n  ctxbench check 'other gate.yaml' --accept --vectors\n" in cli("check", name).out


def test_annotations_name_the_line_of_the_item_from_the_root_of_the_checkout(
    cli, accepted, emptied, place, monkeypatch
):
    where = f"file=data/corpus.jsonl,line={emptied()},"
    assert where in cli("check", "--output-format", "github").out
    monkeypatch.setenv("GITHUB_WORKSPACE", str(place.parent))
    assert where.replace("data/", "work/data/") in cli("check", "--output-format", "github").out
    monkeypatch.setenv("GITHUB_WORKSPACE", str(place / "elsewhere"))
    assert "file=" not in cli("check", "--output-format", "github").out


def test_a_narrow_plain_terminal_gets_plain_text(process, accepted, gate):
    offer_less(gate)
    done = process("check", env={"PYTHONIOENCODING": "ascii", "COLUMNS": "60"})
    assert done.code == 1
    assert done.out.isascii()
    assert "?" not in done.out.replace('?"', "").replace("now?", "").replace("frozen?", "")


def test_a_reader_that_leaves_changes_no_verdict(process, accepted, gate, place):
    offer_less(gate)
    for more in ([], ["--output-format", "json"]):
        read, write = os.pipe()
        os.close(read)
        done = process(
            *("check", "--junit", "j.xml", *more), stdout=write, stderr=subprocess.PIPE, capture_output=False
        )
        os.close(write)
        assert done.code == 1, done.err
        assert (place / "j.xml").exists()


def test_a_step_that_prints_spoils_no_output(process, accepted):
    start = """
import ctxbench.gate.snapshot_sources as asking
import ctxbench.gate.gate as gate
taken = asking.take
def take(*given, **named):
    print("::set-output name=a::b")
    return taken(*given, **named)
asking.take = take
gate.reuse_answers = lambda *_given: None
"""
    done = process("check", "--output-format", "json", start=start)
    assert done.code == 0
    assert done.json["verdict"] == "same"
    assert done.err.startswith(": :set-output name=a::b\n")


def test_nothing_heavy_is_loaded(modules, gate, cli):
    gate(selector={"selector": "semantic", "preset": "spec"})
    cli("check", "--accept", "--vectors")
    loaded, done = modules("check")
    assert done.code == 0
    assert not {"onnxruntime", "pandas", "scipy", "rich", "httpx", "jsonschema", "jinja2", "xml.etree"} & loaded


# ------------------------------------------------------------------------------------------------------------ bad input


def test_a_baseline_of_nothing_is_no_verdict(cli, accepted, place):
    path = place / "gate.baseline/baseline.json"
    head = json.loads(path.read_text()) | {"datasets": {}}
    path.write_text(json.dumps(head | {"hash": manifest_hash(head)}))
    done = cli("check")
    assert (done.code, done.out) == (2, "")
    assert "the baseline has no selector" in flat(done.err)
    assert "`ctxbench check --accept`" in flat(done.err)


def test_no_error_says_a_command_that_a_runner_of_workflows_obeys(cli, accepted, data):
    command = "q\n::stop-commands::x\n \t::error::y\n##[error]z"
    rows = [json.loads(line) for line in (data / "queries.jsonl").read_text().splitlines()]
    rows[0]["_id"] = rows[1]["_id"] = command
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = cli("check")
    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert any("q\ufffd::stop-commands::x\ufffd \ufffd::error::y\ufffd## [error]z" in line for line in lines)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "b", "c"], "expected one gate file or two run folders, got 3 paths: a, b, c"),
        (["a", "b", "--accept"], "--accept needs a gate file"),
        (["--accept", "--strict", "--junit", "j.xml"], "--accept does not check, so leave out --strict, --junit"),
        (["--vectors"], "add --accept"),
        (["--output-format", "yaml"], "--output-format must be one of github, json, junit, markdown, got 'yaml'"),
        (["data"], "data is a folder; expected a gate file, or two folders of runs"),
        (["data", "data"], "data holds no manifest.json"),
        (["none.yaml"], "cannot read none.yaml"),
    ],
)
def test_what_makes_no_sense_is_refused_with_one_message(cli, accepted, snapshot, arguments, words):
    before = snapshot()
    done = cli("check", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert words in flat(done.err)
    assert {name for name in snapshot() if not name.endswith("j.xml")} == set(before)


def test_no_gate_file_here(cli):
    done = cli("check")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == "error: there is no gate.yaml here; `ctxbench init` writes one; or name a gate file or two run folders\n"
    )


def test_a_summary_that_cannot_be_written(cli, accepted, place, monkeypatch):
    (place / "folder").mkdir()
    assert (
        cli("check", "--junit", "folder").err == "error: folder is a folder, and --junit names a file; name one in it\n"
    )
    done = cli("check", "--markdown", "")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --markdown names no file; is $GITHUB_STEP_SUMMARY set?\n"
    (place / "file").write_text("")
    assert "cannot write file/s.md" in cli("check", "--markdown", "file/s.md").err
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "file/s.md")
    done = cli("check", "--markdown", "file/s.md")
    assert (done.code, done.out) == (2, "")
    assert "cannot write file/s.md" in done.err


def test_a_damaged_baseline_is_no_verdict(cli, accepted, place):
    (place / "gate.baseline/baseline.json").write_text("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> topic\n")
    done = cli("check", "--markdown", "s.md")
    assert (done.code, done.out) == (2, "")
    assert "baseline.json" in (place / "s.md").read_text()


def test_a_loosened_gate_is_the_first_line_and_fails_until_it_is_accepted(cli, accepted, gate, place):
    gate(confidence=0.99, max_lost_required=50)
    done = cli("check", "--markdown", "s.md", "--junit", "j.xml", "--output-format", "github")
    assert done.code == 2
    for text in (done.out, (place / "s.md").read_text(), (place / "j.xml").read_text()):
        assert "confidence 0.95 -&gt; 0.99" in text.replace("->", "-&gt;").replace("\\", "")
    assert "confidence 0.95 -> 0.99" in done.out.splitlines()[0]
    assert done.out.count("::error file=gate.yaml") == 2
    told = cli("check", "--output-format", "json").json
    assert (told["verdict"], told["exit_code"]) == ("same", 2)
    assert [one["setting"] for one in told["loosened"]] == ["confidence", "max_lost_required"]
    assert cli("check", "--accept").code == 0
    done = cli("check")
    assert done.code == 0
    assert "confidence 0.95 -> 0.99" in done.out  # that it was accepted anew


def test_edits_of_an_agent_that_no_dataset_reads_are_said_not_to_be_judged(place, cli):
    tools = [{"name": name, "description": f"{name} an order", "inputSchema": {}} for name in ("refund", "cancel")]
    Path("tools.json").write_text(json.dumps(tools))
    Path("agent.yaml").write_text("sources: {tools: tools.json}\nselector: bm25\n")
    Path("evals.jsonl").write_text('{"id": "q", "query": "refund", "expected": ["refund"]}')
    fields = "selectors: [agent.yaml]\nembedder: hashing\n"
    for name, catalog in (("own", "tools.json"), ("followed", "agent.yaml")):
        assert cli("data", "import", "evals.jsonl", "-c", catalog, "--out", name).code == 0
        Path(f"{name}.yaml").write_text(f"datasets: [{name}]\n{fields}")
        Path(f"{name}-experiment.yaml").write_text(f"name: {name}\ndatasets: [{name}]\n{fields}")
        assert cli("check", f"{name}.yaml", "--accept").code == 0
    assert "agent.yaml" not in cli("check", "own.yaml").out
    Path("tools.json").write_text(json.dumps([{**tool, "description": "nothing"} for tool in tools]))
    said = cli("check", "own.yaml")
    assert said.out.count("-c agent.yaml") == 1
    notices = json.loads(cli("check", "own.yaml", "--output-format", "json").out)["notices"]
    assert sum("agent.yaml" in notice for notice in notices) == 1
    assert cli("run", "own-experiment.yaml").err.count("-c agent.yaml") == 1
    assert "-c agent.yaml" not in cli("run", "followed-experiment.yaml").err
    assert "-c agent.yaml" not in cli("check", "followed.yaml").out


def test_modes_of_an_agent_that_the_agent_of_a_dataset_lacks_are_said_not_to_be_judged(place, cli):
    tools = [{"name": name, "description": f"{name} an order", "inputSchema": {}} for name in ("refund", "cancel")]
    Path("tools.json").write_text(json.dumps(tools))
    modes = "include: {otherwise: agent, tools: {'tool:cancel': always}}\n"
    Path("AGENTS.md").write_text("# Refunds\n\nAsk for the number of the order.\n")
    Path("agent.yaml").write_text(f"sources: {{tools: tools.json, rules: .}}\n{modes}selector: bm25\n")
    Path("evals.jsonl").write_text('{"id": "q", "query": "refund", "expected": ["refund"]}')
    Path("tools-only.yaml").write_text("sources: {tools: tools.json}\n")
    assert cli("data", "import", "evals.jsonl", "-c", "tools-only.yaml", "--out", "log").code == 0
    fields = "datasets: [log]\nselectors: [agent.yaml]\nembedder: hashing\n"
    Path("gate.yaml").write_text(fields)
    Path("run.yaml").write_text(f"name: log\n{fields}")
    assert cli("check", "--accept").code == 0
    assert cli("check").out.count("`include` of agent.yaml into tools-only.yaml") == 1
    assert cli("run", "run.yaml").err.count("`include` of agent.yaml into tools-only.yaml") == 1
    Path("tools-only.yaml").write_text(f"sources: {{tools: tools.json}}\n{modes}")
    assert "`include` of agent.yaml" not in cli("check").out
    assert "`include` of agent.yaml" not in cli("run", "run.yaml").err
