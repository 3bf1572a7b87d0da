"""Runs in several processes: the bytes of one, whatever is asked where, and whenever they are stopped."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import numpy as np
import pytest
import yaml

import ctxbench
from ctxbench.evaluation import runner
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import DatasetRun, Unit, answer_unit, run
from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.io.workers import Workers
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.resources import add_vectors
from ctxbench.selectors.callable import CallableSource, load_callable
from tests.children import child
from tests.evaluation.runs.run_files import SELECTORS, TINY, StopError, counted, experiment, snapshot

OWN = """
def select(request, items):
    if request["id"].endswith("3"):
        raise ValueError(f"no answer to {request['text']}")
    return [item["_id"] for item in items if item["type"] == "tool" and item["name"][0] in request["text"]]
"""
MIXED = f"""{SELECTORS}
  - {{callable: own.py:select, name: own}}
  - {{answers: answers.jsonl}}
  - {{selector: oracle}}
"""


@pytest.fixture
def mixed(tmp_path):
    """An experiment with selectors of all kinds that workers are asked, of which one fails on queries."""
    (tmp_path / "own.py").write_text(OWN, "utf-8")
    queries = [json.loads(line)["_id"] for line in (TINY / "queries.jsonl").read_text("utf-8").splitlines()]
    rows = [{"query": query, "items": [{"id": "tool:tracker:create_issue"}]} for query in queries[1:]]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return experiment(tmp_path, MIXED)


def run_in(path, folder, jobs=2, **options):
    return run(open_experiment(path), folder, workers=Workers(jobs=jobs), **options)


def test_two_processes_leave_the_bytes_of_one_and_so_does_a_run_that_was_stopped(mixed, tmp_path, monkeypatch):
    whole = run_in(mixed, tmp_path / "one", jobs=1)
    told = []
    report = run_in(mixed, tmp_path / "two", progress=lambda text, done, total: told.append((text, done, total)))
    assert snapshot(tmp_path / "two") == snapshot(tmp_path / "one")
    assert (report.made, report.errors) == (whole.made, whole.errors)
    assert report.errors.keys() == {"tiny, own", "tiny, answers"}
    assert report.embedded == 0  # one process has stored them
    assert told[-1] == ("tiny, 2 processes", 80, 80)

    stop = counted(RunFolder.add_slice, 9, KeyboardInterrupt(), after=True)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "add_slice", stop)
        with pytest.raises(KeyboardInterrupt):
            run_in(mixed, tmp_path / "stopped")
    slices = {path: path.stat().st_mtime_ns for path in (tmp_path / "stopped").rglob("*.slice")}
    assert len(slices) == 9
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", counted(RunFolder.save, 1, StopError()))
        with pytest.raises(StopError):
            run_in(mixed, tmp_path / "stopped")
    assert all(path.stat().st_mtime_ns == changed for path, changed in slices.items())  # none was made again
    run_in(mixed, tmp_path / "stopped", jobs=1)
    assert snapshot(tmp_path / "stopped") == snapshot(tmp_path / "one")


def test_processes_start_by_themselves_where_there_is_work_for_them(tmp_path, monkeypatch):
    path = experiment(tmp_path)
    run_in(path, tmp_path / "one", jobs=None)  # a small run starts none
    monkeypatch.setattr(runner, "MEASURING", 1e6)
    monkeypatch.setattr("ctxbench.io.workers.cores", lambda: 2)
    told = {}
    run_in(path, tmp_path / "many", jobs=None, progress=lambda text, *_: told.setdefault(text))
    assert list(told)[-1] == "tiny, 2 processes"
    assert "tiny, bm25" in told  # the first slices were answered here
    assert snapshot(tmp_path / "many") == snapshot(tmp_path / "one")


def test_a_small_run_opens_no_pool(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "open_pool", None)
    run_in(experiment(tmp_path), tmp_path / "run", jobs=None)
    run_in(experiment(tmp_path), tmp_path / "again", jobs=1)


def test_what_is_given_in_python_goes_to_workers_or_is_asked_here(tmp_path):
    data = ctxbench.load(TINY)
    ranking = {query.id: [(data.dataset.catalog.ids[n % 7], 1.0)] for n, query in enumerate(data.dataset.queries)}
    lock, words = threading.Lock(), {"issue", "file"}

    def locked(request, items):
        with lock:
            return [item["_id"] for item in items[: len(request["text"]) % 5]]

    selectors = {
        "closure": lambda request, items: [item["_id"] for item in items if words & {item["name"], request["text"]}],
        "locked": locked,
        "ranked": ctxbench.answers({query: [item for item, _ in pairs] for query, pairs in ranking.items()}),
        "memory": "memory",
    }
    options = {"embedder": "hashing", "counter": "chars/4", "progress": False}
    one = ctxbench.evaluate(data, selectors, jobs=1, **options)
    two = ctxbench.evaluate(data, selectors, jobs=2, **options)
    assert two.to_frame().equals(one.to_frame())


def embedded(texts):
    return np.array([[1.0, len(text), text.count("e")] for text in texts])


def test_an_embedder_that_was_given_in_python_stays_here(monkeypatch):
    monkeypatch.setattr(runner, "open_pool", None)
    res = ctxbench.evaluate(TINY, ["semantic/spec"], embedder=embedded, counter="chars/4", jobs=2, progress=False)
    assert len(res.to_frame()) == 1


def test_a_failure_of_ours_in_a_worker_is_one_error_and_keeps_what_was_answered(tmp_path):
    def ranker(query, texts):
        if query.startswith("When is release"):
            raise ValueError(query)
        return [0.0] * len(texts)

    pipeline = ctxbench.steps.everything >> ctxbench.rerank(ranker)
    with pytest.raises(SelectorError, match="ranker"):
        ctxbench.evaluate(TINY, {"mine": pipeline}, jobs=2, out=tmp_path / "run", counter="chars/4", progress=False)
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_worker_without_vectors_gets_them(tmp_path, monkeypatch):
    prepared = open_experiment(experiment(tmp_path, "\n  - {selector: semantic, preset: normal}"))
    store = RunFolder(tmp_path / "run")
    work = DatasetRun(prepared, prepared.resources(), store, name="tiny", commit=None)
    work.look_up(lambda *_: None, fresh=False)
    assert work.lacks_vectors()
    run(prepared, tmp_path / "filled")  # so that all vectors are stored
    assert not work.lacks_vectors()
    work.resources.note_texts()
    work.answer(work.spans.pop(0))
    vectors, content = work.vectors(), cloudpickle.dumps((prepared.part("tiny", ["semantic/normal"]), work.dataset))
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(HashingEmbedder, "embed", None)
    monkeypatch.setattr(runner, "content", lambda key: tmp_path / key)
    (tmp_path / "vectors").write_bytes(vectors)
    (tmp_path / "selectors").write_bytes(content)
    packed, n_embedded = answer_unit(Unit("tiny", ("selectors", "vectors"), tuple(work.spans)))
    assert (len(packed), n_embedded) == (3, 0)
    add_vectors(vectors)  # a second time does nothing


def test_a_function_of_another_file_is_refused(tmp_path):
    (tmp_path / "own.py").write_text(OWN, "utf-8")
    source = CallableSource(load_callable("own.py:select", base=tmp_path), spec="own.py:select", base=tmp_path)
    pickled = pickle.dumps(source)
    assert pickle.loads(pickled).describe() == source.describe()
    assert source.bound({"n": 1}).describe()["values"] == {"n": 1}
    (tmp_path / "own.py").write_text(f"{OWN}\n", "utf-8")
    with pytest.raises(ParameterError, match=r"own\.py:select"):
        pickle.loads(pickled)


SLOW = """
import time
def select(request, items):
    time.sleep(0.05)
    return [item["_id"] for item in items if item["type"] == "tool"][:1]
"""


@pytest.mark.rest
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_command_leaves_no_process_and_goes_on(stop, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "SLICE", 64)  # as in the command
    (tmp_path / "own.py").write_text(SLOW, "utf-8")
    path = experiment(tmp_path, f"{SELECTORS}\n  - {{callable: own.py:select, name: own}}", data=_many(tmp_path))
    command = [sys.executable, "-m", "ctxbench", "run", str(path), "--jobs", "2", "--out", str(tmp_path / "run")]
    with child(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            _wait(lambda: any(_slices(tmp_path)))
            process.send_signal(stop)
            _, errors = process.communicate(timeout=60)
            _wait(lambda: not _alive(process.pid))
        finally:
            if _alive(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == (130 if stop == signal.SIGINT else -stop)
    assert b"Traceback" not in errors
    stored = {path: path.read_bytes() for path in _slices(tmp_path)}  # with the time that each query took
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "save", counted(RunFolder.save, 1, StopError()))
        with pytest.raises(StopError):
            run_in(path, tmp_path / "run", jobs=1)
    assert stored
    assert len(_slices(tmp_path)) == 4
    assert all(path.read_bytes() == data for path, data in stored.items())


def _slices(folder):
    """The slices of an unfinished run that the slow function has answered."""
    return [*folder.glob("run/many/own+partial/*.slice")]


def _many(folder):
    """The tiny dataset with 200 queries more."""
    data = shutil.copytree(TINY, folder / "data" / "many")
    rows = [
        json.dumps({"_id": f"more{n}", "text": f"more {n}", "split": "test", "needs": "nothing"}) for n in range(200)
    ]
    with (data / "queries.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("\n".join([*rows, ""]))
    card = yaml.safe_load((data / "dataset.yaml").read_text("utf-8"))
    del card["counts"]
    (data / "dataset.yaml").write_text(yaml.safe_dump({**card, "name": "many"}), "utf-8")
    return data


def _wait(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _alive(group):
    """Whether a process of a group is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_selection_imports_nothing_of_it(tmp_path):
    code = (
        "import sys; from ctxbench.__main__ import main; sys.argv[1:] = ['select', 'an issue', '--catalog', "
        f"{str(TINY)!r}, '--selector', 'bm25']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import ctxbench.cli.run, ctxbench.cli.check\n"
        "print([name for name in ('joblib', 'cloudpickle', 'multiprocessing.pool') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
