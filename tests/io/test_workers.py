"""Units of work in processes of this machine; those on clusters are in `test_clusters.py`."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctxbench.io import workers
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, UnknownNameError, UserError
from ctxbench.io.files import cache_dir
from ctxbench.io.workers import Workers, content, open_pool
from tests.children import child

CONTENT = "work-1"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))


def square(number: int) -> int:
    return number * number


def process_of(_unit: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def square_or_die(unit: tuple[int, Path, bool]) -> int:
    """Some units kill their process, the first time that they are run."""
    number, folder, is_deadly = unit
    time.sleep(1.0 if number == 7 else 0.05)
    if is_deadly:
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            time.sleep(0.5)  # Dask does not replace a worker that is killed while it starts
            os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def deadly_units(n: int, deaths: int, folder: Path) -> list[tuple[int, Path, bool]]:
    deadly = random.Random(0).sample(range(n), deaths)
    return [(number, folder, number in deadly) for number in range(n)]


def size_of(key: str) -> int:
    return len(content(key).read_bytes())


def fail(kind: str) -> int:
    if kind == "unknown":
        raise UnknownNameError("preset", "a", ["b"])
    if kind == "faults":
        raise InputError([Fault(Message("io.utf16"), Path("a.yaml"), 3)])
    if kind == "bug":
        raise ZeroDivisionError("a bug")
    return 0


def crash(number: int) -> int:
    if number == 3:
        os._exit(9)
    return number


def test_each_result_comes_once_with_the_index_of_its_unit():
    with open_pool(Workers(jobs=2)) as pool:
        assert sorted(pool.run(square, range(50))) == [(number, number * number) for number in range(50)]
        assert list(pool.run(square, [])) == []


def test_one_job_is_this_process():
    with open_pool(Workers(jobs=1)) as pool:
        assert list(pool.run(process_of, [0, 1])) == [(0, os.getpid()), (1, os.getpid())]


def test_a_function_need_not_be_importable():
    with open_pool(Workers(jobs=2)) as pool:
        assert dict(pool.run(lambda number: number + 1, [1, 2])) == {0: 2, 1: 3}


STOPPED_IMPORT = """
import sys
from ctxbench.io.workers import Workers, open_pool

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == "joblib.executor":
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupter())
try:
    open_pool(Workers(jobs=2))
except KeyboardInterrupt:
    print("joblib.executor" in sys.modules)
"""


def test_nothing_is_imported_again_after_ctrl_c_in_an_import_of_joblib():
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_IMPORT], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("False\n", "", 0)


@pytest.mark.rest
def test_killed_workers_cost_no_result_and_repeat_none(tmp_path):
    units = deadly_units(60, 10, tmp_path)
    with open_pool(Workers(jobs=2)) as pool:
        assert sorted(pool.run(square_or_die, units)) == [(number, number * number) for number in range(60)]
    assert len([path for path in tmp_path.iterdir() if path.name.isdecimal()]) == 10


@pytest.mark.rest
def test_a_unit_that_always_crashes_is_one_error():
    with open_pool(Workers(jobs=2)) as pool:
        with pytest.raises(UserError) as raised:
            list(pool.run(crash, range(8)))
        assert raised.value.args[0].code == "CTX1069"
        assert dict(pool.run(square, [2])) == {0: 4}


def test_an_error_of_the_user_is_raised_as_it_was():
    with open_pool(Workers(jobs=2)) as pool:
        with pytest.raises(UnknownNameError) as unknown:
            list(pool.run(fail, ["", "unknown"]))
        assert (unknown.value.name, unknown.value.known) == ("a", ("b",))
        with pytest.raises(InputError) as faults:
            list(pool.run(fail, ["", "faults"]))
        assert faults.value.faults[0].line == 3
        assert faults.value.faults[0].message.code == "CTX1033"


def test_a_bug_keeps_its_traceback():
    with open_pool(Workers(jobs=2)) as pool, pytest.raises(ZeroDivisionError) as raised:
        list(pool.run(fail, ["bug"]))
    assert "in fail" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    "error",
    [StorageError("full"), UnknownNameError("kind", "a", ["b"], hint="c"), ParameterError(Message("io.utf16"))],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_a_pickle(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args, vars(copy)) == (type(error), error.args, vars(error))


def test_closing_ends_the_processes():
    with open_pool(Workers(jobs=2)) as pool:
        results = pool.run(process_of, range(1000))
        pid = next(results)[1]
        results.close()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


CALLER = """
import os, sys
from ctxbench.io.files import cache_dir
from ctxbench.io.workers import Workers, open_pool
from tests.io.test_workers import process_of
with open_pool(Workers(on=sys.argv[1], jobs=2)) as pool:
    for n, (_, pid) in enumerate(pool.run(process_of, range(100_000))):
        if n < 20:
            print(pid, flush=True)
"""


def interrupted(on: str, sign: signal.Signals) -> tuple[int, str, set[int]]:
    """The exit status and errors of a process that got a signal, as its whole group did, and its workers."""
    command = [sys.executable, "-c", CALLER, on]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as caller:
        pids = {int(caller.stdout.readline()) for _ in range(20)}
        send = os.killpg if sign == signal.SIGINT else os.kill
        send(caller.pid, sign)
        errors = caller.communicate(timeout=60)[1]
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    return caller.returncode, errors, {pid for pid in pids if Path(f"/proc/{pid}").exists()}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_ctrl_c_ends_the_workers_without_a_word_of_theirs():
    status, errors, left = interrupted("", signal.SIGINT)
    assert (status, left) == (-signal.SIGINT, set())
    assert errors.count("Traceback") == 1


@pytest.mark.rest
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_workers_of_a_killed_process_end():
    assert interrupted("", signal.SIGKILL)[2] == set()


def test_content_is_published_once_and_found_by_units():
    with open_pool(Workers(jobs=2)) as pool:
        keys = [pool.publish(b"a" * 1000), pool.publish(b"b"), pool.publish(b"a" * 1000)]
        assert keys[0] == keys[2] != keys[1]
        assert dict(pool.run(size_of, keys)) == {0: 1000, 1: 1, 2: 1000}
    assert content(keys[1]).read_bytes() == b"b"


def test_content_that_was_removed_is_one_error():
    with open_pool(Workers(jobs=2)) as pool:
        key = pool.publish(b"a")
        content(key).unlink()
        with pytest.raises(StorageError) as raised:
            list(pool.run(size_of, [key]))
    assert raised.value.args[0].code == "CTX1070"


def test_content_that_nobody_used_for_days_is_removed():
    with open_pool(Workers(jobs=1)) as pool:
        old, new = pool.publish(b"old"), pool.publish(b"new")
    long_ago = time.time() - 3 * 86_400
    os.utime(cache_dir() / CONTENT / old, (long_ago, long_ago))
    with open_pool(Workers(jobs=1)) as pool:
        pool.publish(b"newer")
    assert content(new).read_bytes() == b"new"
    with pytest.raises(StorageError):
        content(old)


@pytest.mark.parametrize("store", ["/dev/null/store", "unknown-kind://bucket"])
def test_a_store_that_cannot_be_written_is_refused(store):
    with open_pool(Workers(jobs=1, store=store)) as pool, pytest.raises(StorageError) as raised:
        pool.publish(b"a")
    assert raised.value.args[0].code == "CTX1082"


def test_an_error_of_the_library_behind_a_store_is_one_line(monkeypatch):
    class CredentialsError(Exception):
        """As of a library for object stores."""

    def connect(store, key):
        raise CredentialsError("unable to locate credentials")

    monkeypatch.setattr(workers, "_stored_file", connect)
    with open_pool(Workers(jobs=1, store="s3://bucket")) as pool, pytest.raises(StorageError) as raised:
        pool.publish(b"content")
    assert "unable to locate credentials" in str(raised.value)


def test_a_full_store_is_left_as_it_was(tmp_path, monkeypatch):
    import ctxbench.io.files

    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    store = tmp_path / "store"
    store.mkdir()
    with open_pool(Workers(jobs=1, store=str(store))) as pool:
        pool.publish(b"a")
        before = sorted(store.iterdir())
        replace = ctxbench.io.files._replace
        monkeypatch.setattr(
            ctxbench.io.files,
            "_replace",
            lambda path, *rest, **options: (full if path.parent == store else replace)(path, *rest, **options),
        )
        with pytest.raises(StorageError) as raised:
            pool.publish(b"b")
    assert raised.value.args[0].code == "CTX1082"
    assert sorted(store.iterdir()) == before


@pytest.mark.parametrize(
    ("on", "code"),
    [
        *((on, "CTX1071") for on in ("spark", "dask:", "dask://", "dask://host", "ray://host:port", "dask://h:99999")),
        ("dask://host:8786", "CTX1072"),
    ],
)
def test_what_names_no_cluster_is_refused(on, code):
    with pytest.raises(ParameterError) as raised:
        Workers(on=on, jobs=2)
    assert raised.value.args[0].code == code


@pytest.mark.parametrize("jobs", [0, 100_000])
def test_a_number_of_jobs_out_of_range_is_refused(jobs):
    with pytest.raises(ParameterError, match="jobs must be 1 to 1024"):
        Workers(jobs=jobs)


def test_a_store_without_its_package_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with open_pool(Workers(jobs=1, store="s3://bucket")) as pool, pytest.raises(StorageError, match=r"\[store\]"):
        pool.publish(b"content")


@pytest.mark.parametrize("on", ["dask", "ray"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(on, monkeypatch):
    monkeypatch.setitem(sys.modules, {"dask": "distributed"}.get(on, on), None)
    with pytest.raises(UserError, match=rf"pip install .*\[{on}\]") as raised:
        open_pool(Workers(on=on, jobs=2))
    assert raised.value.args[0].code == "CTX1073"


def test_processes_are_started_for_two_seconds_of_work_each(monkeypatch):
    import joblib

    monkeypatch.setattr(joblib, "cpu_count", lambda: 4)
    assert [Workers().processes(seconds) for seconds in (0.0, 3.9, 4.0, 7.0, 1000.0)] == [1, 1, 2, 3, 4]
    assert [Workers(jobs=jobs).processes(0.0) for jobs in (1, 3)] == [1, 3]
    assert [Workers(on=on).processes(0.0) for on in ("dask", "ray://host:1")] == [4, 4]


def test_little_work_loads_no_joblib():
    code = (
        "import sys; from ctxbench.io.workers import Workers; Workers().processes(3.0); print('joblib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False"]
