"""`ctxbench run`: an experiment, resumable, with its table and page."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, write_presets
from tests.children import child

# Waits at the first request until a file `go` stands beside it; `started` holds its process id.
WAITING = """
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
for line in sys.stdin:
    message = json.loads(line)
    if "query" in message:
        (here / "started").write_text(str(os.getpid()))
        while not (here / "go").exists():
            time.sleep(0.02)
        print(json.dumps({"query": message["query"], "items": []}), flush=True)
"""


def files(folder):
    """The results of a run, without what depends on the moment."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("timings.json", "report.html")
    }


def test_the_table_goes_to_stdout_and_the_rest_to_stderr(cli, experiment, place):
    done = cli("run", experiment())
    assert done.code == 0
    assert "\n\ntiny: 10 queries, 12 items\n" in done.out
    assert "semantic/spec (baseline)" in done.out
    first, second = done.err.splitlines()
    assert first.startswith("2 selector runs made, 0 reused; ")
    assert first.endswith(" texts embedded")
    assert second == "report: runs/small/report.html (open it in a browser)"
    assert (place / "runs" / "small" / "manifest.json").is_file()
    assert (place / "runs" / "small" / "report.html").read_text("utf-8").startswith("<!")


def test_the_items_that_the_winner_missed_most_are_named(cli, place):
    tools = [
        {"name": name, "description": f"{name} an order", "inputSchema": {}} for name in ("refund", "cancel", "ship")
    ]
    (place / "tools.json").write_text(json.dumps(tools))
    evals = [("a", "refund", ["refund", "ship"]), ("b", "cancel", ["cancel", "ship"]), ("c", "ship", ["ship"])]
    rows = [json.dumps({"id": name, "query": text, "expected": needed}) for name, text, needed in evals]
    (place / "evals.jsonl").write_text("\n".join(rows))
    assert cli("data", "import", "evals.jsonl", "-c", "tools.json", "--out", "evals").code == 0
    (place / "e.yaml").write_text("datasets: [evals]\nselectors: [{selector: bm25, set: {n: 1}}]\nembedder: hashing\n")
    assert "missed most on evals: tool:ship (2 of 3)\n" in cli("run", "e.yaml").out


def test_the_second_run_embeds_nothing_and_loads_no_model(cli, modules, experiment, place):
    cli("run", experiment())
    before = files(place / "runs" / "small")
    loaded, done = modules("run", "small.yaml")
    assert done.err.splitlines()[0] == "0 selector runs made, 2 reused; 0 texts embedded, no model loaded"
    assert not {"onnxruntime", "tokenizers"} & loaded
    assert files(place / "runs" / "small") == before
    fresh = cli("run", "small.yaml", "--fresh", "--out", "runs/small")
    assert fresh.err.splitlines()[0] == "2 selector runs made, 0 reused; 0 texts embedded, no model loaded"
    assert files(place / "runs" / "small") == before
    assert fresh.out == done.out


def test_json_is_the_summary(cli, experiment, place):
    done = cli("run", experiment(), "--json", "--out", "here")
    assert done.json["experiment"]["name"] == "small"
    assert set(done.json["datasets"]["tiny"]["selectors"]) == {"semantic/spec", "bm25"}
    assert (place / "here" / "summary.json").read_text("utf-8") == done.out
    assert not (place / "runs").exists()


def test_a_selector_from_a_file_and_a_tuned_preset_run_as_any_other(cli, experiment, place):
    spec = "retrieve: bm25, refine: [{first: {n: $n}}]"
    (place / "mine.yaml").write_text(
        f"name: own\nparameters: {{n: {{default: 2, range: [1, 9]}}}}\npipeline: {{{spec}}}\n"
    )
    found = definition("semantic")
    values = found.in_force(found.values("spec", {"contextTopN": 1, "contextMargin": 0.5}))
    one = TunedPreset(
        selector="semantic", set=values, definition=definition_hash(found), parameters=parameter_texts(found)
    )
    write_presets(place / "desk.yaml", tuned={"dataset": "tiny"}, presets={"small": one}, test_split="")
    selectors = [
        "mine.yaml",
        "{presets: desk.yaml, preset: small}",
        "{selector: semantic, preset: spec, set: {contextTopN: 1, contextMargin: 0.5}, name: plain}",
        "{selector: bm25, set: {n: 2}}",
    ]
    done = cli("run", experiment(selectors=selectors), "--json")
    assert done.code == 0, done.err
    figures = {name: row["metrics"] for name, row in done.json["datasets"]["tiny"]["selectors"].items()}
    assert list(figures) == ["mine", "desk/small", "plain", "bm25"]
    assert figures["mine"] == figures["bm25"]
    assert figures["desk/small"] == figures["plain"] != figures["bm25"]


def test_one_selector_is_counted_in_the_singular(cli, experiment):
    done = cli("run", experiment(selectors=["everything"]))
    assert done.err.startswith("1 selector run made, 0 reused; 0 texts embedded, no model loaded\n")


def test_what_an_outside_selector_fails_on_is_said_with_its_reasons(cli, experiment, place):
    (place / "mine.py").write_text("def mine(request, items):\n    return 1 / (request['id'] != 'q03')\n")
    done = cli("run", experiment(selectors=["{name: mine, callable: 'mine.py:mine'}"]), "--json")
    assert done.code == 2  # who answers nothing was not measured
    assert done.err.endswith("error: no query was answered by mine on tiny; the first failure of each is named above\n")
    warning = done.err.splitlines()[0]
    assert warning.startswith("warning: tiny, mine: 10 queries failed and count as nothing offered; first query 'q01'")
    assert warning.endswith("; all: runs/small/tiny/mine/selections.jsonl")
    assert done.err.splitlines()[1].startswith("  query 'q03': the callable raised ZeroDivisionError")
    assert done.err.splitlines()[2] == "failed queries are asked again by the next call of the same command"
    (place / "mine.py").write_text("def mine(request, items):\n    1 / (request['id'] != 'q03')\n    return []\n")
    done = cli("run", "small.yaml", "--json", "--fresh")
    warning = done.err.splitlines()[0]
    assert "tiny, mine: 1 query failed and count as nothing offered; first query 'q03': " in warning
    assert "division by zero" in warning
    assert "all:" not in warning
    assert done.err.splitlines()[1] == "the failed query is asked again by the next call of the same command"


def test_a_run_in_which_no_query_was_answered_prints_no_table(cli, experiment, place):
    (place / "mine.py").write_text("def mine(request, items):\n    return 1 / 0\n")
    done = cli("run", experiment(selectors=["{name: mine, callable: 'mine.py:mine'}"]))
    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(("failed", "code"), [(5, 0), (6, 2)])
def test_a_selector_that_fails_on_more_than_half_of_the_queries_is_an_error(cli, experiment, place, failed, code):
    fails = f"int(request['id'][1:]) <= {failed}"
    (place / "mine.py").write_text(f"def mine(request, items):\n    return [][0] if {fails} else []\n")
    done = cli("run", experiment(selectors=["{name: mine, callable: 'mine.py:mine'}", "everything"]))
    assert done.code == code
    said = "error: more than half of the queries failed of mine on tiny (6 of 10); the first failure of each"
    assert done.err.splitlines()[-1].startswith(said) == (code == 2)
    assert "everything" in done.out  # whatever failed, what was measured is shown


def test_selectors_that_answer_nothing_and_too_little_are_one_error(cli, experiment, place):
    (place / "mine.py").write_text(
        "def mine(request, items):\n    return [][0] if request['id'] > 'q02' else []\n"
        "def none(request, items):\n    return [][0]\n"
    )
    done = cli("run", experiment(selectors=[f"{{name: {one}, callable: 'mine.py:{one}'}}" for one in ("mine", "none")]))
    assert done.code == 2
    assert done.err.splitlines()[-1] == (
        "error: no query was answered by none on tiny; more than half of the queries failed of mine on tiny (8 of 10); "
        "the first failure of each is named above"
    )


def test_lines_that_are_no_answers_are_one_warning_with_a_count(cli, experiment, place):
    (place / "mine.py").write_text(
        "import json, sys\nfor line in sys.stdin:\n    one = json.loads(line)\n    if 'query' in one:\n"
        "        print('asked', one['query'])\n        print(json.dumps({'query': one['query'], 'items': []}))\n"
    )
    done = cli("run", experiment(selectors=[f"{{name: mine, command: ['{sys.executable}', mine.py]}}"]))
    first, second = done.err.splitlines()[:2]
    assert "first query 'q01' and 9 more: the process wrote no answer (not JSON: " in first
    assert (
        "'asked q01'; expected one JSON object per line, in UTF-8, and other output on standard error; all: runs/"
        in first
    )
    assert second == "failed queries are asked again by the next call of the same command"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("background", [False, True], ids=["", "Ctrl-C ignored"])
def test_other_signals_end_it_with_the_selectors_process_as_ctrl_c_does(experiment, place, name, code, background):
    (place / "waiting.py").write_text(WAITING)
    path = experiment(selectors=[f"{{name: waiting, command: [{sys.executable}, waiting.py]}}"])
    command = [sys.executable, "-m", "ctxbench", "run", str(path)]
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)} if background else {}
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **ignore) as process:
        deadline = time.monotonic() + 60
        while not (place / "started").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err == "stopped: nothing is half-written, and the same command goes on from here\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((place / "started").read_text()), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_what_a_callable_forks_off_still_ends_by_the_signal(experiment, place):
    code = """
import os, signal
def select(request, catalog=None):
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.write(writes, b"!")
        signal.pause()
    os.read(reads, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    return []
"""
    (place / "mine.py").write_text(code)
    path = experiment(selectors=["{name: forks, callable: 'mine.py:select'}"])
    command = [sys.executable, "-m", "ctxbench", "run", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.essential
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_nothing_half_written_and_the_same_command_goes_on(cli, experiment, place, tmp_path):
    (place / "waiting.py").write_text(WAITING)
    selectors = ["{selector: bm25, set: {n: 2}}", f"{{name: waiting, command: [{sys.executable}, waiting.py]}}"]
    path = experiment(selectors=selectors)
    command = [sys.executable, "-m", "ctxbench", "run", str(path)]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (place / "started").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "stopped: nothing is half-written, and the same command goes on from here\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((place / "started").read_text()), 0)  # it ended with us
    unfinished = cli("report", "runs/small")
    assert (unfinished.code, unfinished.out) == (2, "")
    assert "expected the folder of a finished run" in unfinished.err
    (place / "go").touch()
    resumed = cli("run", path)
    assert (resumed.code, resumed.err.splitlines()[0][:22]) == (0, "2 selector runs made, ")
    whole = cli("run", path, "--out", "whole")
    assert whole.out == resumed.out
    assert files(place / "runs" / "small") == files(place / "whole")


def test_a_reader_that_leaves_gets_what_it_wanted_and_no_traceback(experiment, process, place):
    path = experiment()
    shell = f"{sys.executable} -m ctxbench run {path} | head -1"
    done = subprocess.run(shell, shell=True, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("semantic/spec offers all that is needed for ")
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
    assert (place / "runs" / "small" / "report.html").exists()


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["table", "json"])
def test_a_reader_that_has_left_is_no_error_and_the_page_is_written(experiment, place, flags):
    command = [sys.executable, "-m", "ctxbench", "run", str(experiment()), *flags]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, check=False, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert done.returncode == 0
    assert done.stderr.splitlines()[1:] == ["report: runs/small/report.html (open it in a browser)"]
    assert (place / "runs" / "small" / "summary.json").exists()
    assert (place / "runs" / "small" / "report.html").exists()


def test_progress_is_shown_on_stderr_after_a_second(capfd, monkeypatch):
    from ctxbench.io import console as module

    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    with module.progress() as shown:
        shown("tiny", 1, 10)  # at once: nothing
        clock[0] += 1.5
        shown("tiny", 2_000, 10_000)
        clock[0] += 1.5
        shown("tiny", 3_000, 10_000)  # too soon for a file
        clock[0] += 10
        shown("tiny", 4_000, 10_000)
        shown.say("done")
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "tiny: 2,000 of 10,000\ntiny: 4,000 of 10,000\ndone\n"


def test_progress_on_a_terminal_is_one_line_that_goes_away(monkeypatch):
    import io

    from ctxbench.io import console as module

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, clock = Terminal(), [100.0]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")
    with module.progress() as shown:
        shown("ten, bm25", 0, 40_000)
        clock[0] += 2
        shown("ten, dense", 10_000, 40_000)
        clock[0] += 1
        shown("embedding texts", 2, 2)
    shown("ten, bm25", 11_000, 40_000)
    before, first, second, blank, after = terminal.getvalue().split("\r")
    assert [before, blank.strip(), after] == ["", "", ""]
    assert [len(first), len(second), len(blank)] == [69, 69, 69]
    assert first.startswith("ten, dense ")
    assert first.endswith("10,000 of 40,000  5,000/s  0:00:06 left")
    assert (second.split()[:2], second.split()[-3:]) == (["embedding", "texts"], ["2", "of", "2"])


def test_a_part_of_an_experiment_is_a_run_of_its_own(cli, experiment, place):
    whole = cli("run", experiment(), "--json").json
    done = cli("run", "small.yaml", "--only", "bm25", "--json")
    part = done.json
    assert list(part["datasets"]["tiny"]["selectors"]) == ["bm25"]
    assert part["experiment"]["compare_to"] == "bm25"
    bm25 = {
        name: data["tiny"]["selectors"]["bm25"]["metrics"]
        for name, data in (("whole", whole["datasets"]), ("part", part["datasets"]))
    }
    assert bm25["part"] == bm25["whole"]
    assert (place / "runs" / "small-part" / "report.html").is_file()
    assert set((place / "runs").iterdir()) == {place / "runs" / "small", place / "runs" / "small-part"}
    few = cli("run", "small.yaml", "--limit", "3", "--out", "few", "--json").json
    assert few["datasets"]["tiny"]["queries"] <= 3
    assert list(few["datasets"]["tiny"]["selectors"]) == ["semantic/spec", "bm25"]


def test_a_selector_that_takes_the_sizes_of_another_brings_it(cli, place, tiny):
    (place / "sizes.yaml").write_text(
        f"datasets: [{tiny}]\nembedder: hashing\nselectors: [bm25, everything, {{selector: random, like: bm25}}]\n"
    )
    part = cli("run", "sizes.yaml", "--only", "random", "--json").json
    assert list(next(iter(part["datasets"].values()))["selectors"]) == ["bm25", "random"]


def test_a_part_that_is_none_is_one_error(cli, experiment):
    done = cli("run", experiment(), "--only", "bm52")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: unknown selector of the experiment 'bm52'; did you mean 'bm25'?")
    assert cli("run", "small.yaml", "--limit", "0").code == 2


@pytest.mark.parametrize("fault", ["command: [nodee, own.js]", f"command: [{sys.executable}], timout: 2"])
def test_a_fault_of_the_selector_of_a_part_is_told_with_its_line(cli, place, tiny, fault):
    (place / "own.yaml").write_text(
        f"datasets: [{tiny}]\nembedder: hashing\nselectors:\n  - bm25\n  - {{name: ours, {fault}}}\n"
    )
    whole, part = cli("run", "own.yaml"), cli("run", "own.yaml", "--only", "ours")
    assert (part.code, part.err) == (whole.code, whole.err)
    assert "(own.yaml, line 5)" in part.err
    assert "unknown selector" not in part.err


def test_figures_as_csv_are_those_of_the_summary(cli, experiment, place):
    done = cli("run", experiment(), "--csv", "figures.csv", "--json")
    rows = list(csv.DictReader((place / "figures.csv").read_text("utf-8").splitlines()))
    assert {row["selector"] for row in rows} == {"semantic/spec", "bm25"}
    for row in rows:
        one = done.json["datasets"][row["dataset"]]["selectors"][row["selector"]]["metrics"].get(row["metric"])
        if one is not None and one["value"] is not None:
            assert float(row["mean"]) == pytest.approx(one["value"], rel=1e-9)
            assert (int(row["n"]), int(row["left_out"])) == (one["n"], one["left_out"])
    (told,) = [row for row in rows if row["selector"] == "bm25" and row["metric"] == "completeness"]
    assert told["baseline"] == "semantic/spec"
    assert float(told["difference"]) == pytest.approx(
        float(told["mean"])
        - next(float(row["mean"]) for row in rows if row["metric"] == "completeness" and row["selector"] != "bm25")
    )
    again = cli("report", "runs/small", "--csv", "again.csv")
    assert again.code == 0
    assert (place / "again.csv").read_bytes() == (place / "figures.csv").read_bytes()


def test_a_command_that_answers_twice_is_told_once(cli, experiment, place):
    (place / "twice.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    query = json.loads(line).get('query')\n"
        "    if query:\n"
        "        print(2 * (json.dumps({'query': query, 'items': []}) + chr(10)), end='', flush=True)\n"
    )
    command = "{name: mine, command: [python3, twice.py], send: nothing}"
    done = cli("run", experiment(selectors=["bm25", command]), "--json")
    warning, *rest = done.err.splitlines()
    assert "9 queries failed" in warning
    assert "first query 'q02' and 8 more: the process answered query 'q01', which was" in warning
    assert not any(line.startswith("  query") for line in rest)
