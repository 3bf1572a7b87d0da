"""Units of work on real clusters of Dask and Ray on this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ctxbench.io import workers as module
from ctxbench.io.errors import StorageError, UserError
from ctxbench.io.workers import Workers, content, open_pool
from tests.children import child
from tests.io.test_workers import deadly_units, fail, interrupted, size_of, square, square_or_die

START = 60  # seconds within which a cluster must be there, on a machine that is busy with other tests
pytestmark = [
    pytest.mark.rest,
    pytest.mark.filterwarnings("ignore"),  # those of Dask and Ray are theirs
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(autouse=True)
def own_cache(cache, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(cache / "here"))


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Fail a block that takes longer."""

    def late(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def cache_of_worker() -> Mapping[str, str]:
    """Differs between a worker of `scheduler` and this process."""
    return {"python": "3.11.7", "numpy": os.environ["CTXBENCH_CACHE"]}


def total_size(keys: list[str]) -> tuple[int, str]:
    return sum(map(size_of, keys)), os.environ["CTXBENCH_CACHE"]


@pytest.fixture(scope="module")
def scheduler(cache):
    """A scheduler of Dask with two workers that have a cache of their own, as on another machine; its address."""
    with dask_processes(cache) as (address, _):
        yield address


@contextmanager
def dask_processes(cache: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    distributed = pytest.importorskip("distributed", reason='needs Dask: pip install "ctxbench[dask]"')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = str(Path(module.__file__).parents[2])
    environment = {**os.environ, "CTXBENCH_CACHE": str(cache / "there"), "PYTHONPATH": root}
    dask = [sys.executable, "-m", "dask"]
    page = (Path(__file__).parents[2] / "experiments/cluster/README.md").read_text("utf-8")
    (shown,) = re.findall(r"^dask (scheduler .*) & dask (worker .*) &$", page, re.MULTILINE)
    scheduler, worker = (line.replace(":8786", f":{port}").split() for line in shown)
    kinds = {scheduler[0]: [*scheduler[1:], "--port", str(port)], worker[0]: worker[1:]}
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with ExitStack() as end:
        processes = []
        for kind, arguments in kinds.items():
            command = [*dask, kind, *arguments]
            processes.append(end.enter_context(child(command, limit=600, env=environment, **silent)))
            end.callback(os.killpg, processes[-1].pid, signal.SIGKILL)
        with distributed.Client(f"tcp://127.0.0.1:{port}", timeout=START, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=START)
        yield f"dask://127.0.0.1:{port}", processes[0]


@pytest.fixture(scope="module")
def dask_pool(cache):
    pytest.importorskip("distributed", reason='needs Dask: pip install "ctxbench[dask]"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(cache / "here"))
        with limit(START):
            pool = open_pool(Workers(on="dask", jobs=3))
        yield pool
        with limit(START):
            pool.close()


@pytest.fixture(scope="module")
def ray_pool(cache):
    pytest.importorskip("ray", reason='needs Ray: pip install "ctxbench[ray]"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(cache / "here"))
        with limit(2 * START):
            pool = open_pool(Workers(on="ray", jobs=2))
        yield pool
        with limit(START):
            pool.close()


@pytest.mark.parametrize(("name", "deaths"), [("dask_pool", 10), ("ray_pool", 3)])
def test_killed_workers_cost_no_result_and_repeat_none(name, deaths, request, tmp_path):
    pool = request.getfixturevalue(name)
    units = deadly_units(40, deaths, tmp_path)
    with limit(4 * START):
        assert sorted(pool.run(square_or_die, units)) == [(number, number * number) for number in range(40)]
    assert len([path for path in tmp_path.iterdir() if path.name.isdecimal()]) == deaths


@pytest.mark.parametrize("name", ["dask_pool", "ray_pool"])
def test_errors_and_content_are_as_without_a_cluster(name, request):
    pool = request.getfixturevalue(name)
    with limit(2 * START):
        key = pool.publish(b"a" * 1000)
        assert dict(pool.run(size_of, [key, key])) == {0: 1000, 1: 1000}
        with pytest.raises(UserError) as raised:
            list(pool.run(fail, ["", "unknown"]))
        assert raised.value.known == ("b",)
        results = pool.run(square, range(1000))
        next(results)
        results.close()
        assert dict(pool.run(square, [3])) == {0: 9}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_ctrl_c_ends_a_cluster_that_was_started():
    pytest.importorskip("distributed", reason='needs Dask: pip install "ctxbench[dask]"')
    status, errors, left = interrupted("dask", signal.SIGINT)
    assert (status, left, errors.count("Traceback")) == (-signal.SIGINT, set(), 1)


def test_workers_get_content_that_they_lack_from_the_caller(scheduler, cache):
    with limit(START), open_pool(Workers(on=scheduler)) as pool:
        keys = [pool.publish(bytes([n]) * 1000 * n) for n in range(1, 4)]
        results = dict(pool.run(total_size, [keys[: n % 4] for n in range(20)]))
    assert results == {n: ([0, 1000, 3000, 6000][n % 4], str(cache / "there")) for n in range(20)}


def test_workers_get_content_that_they_lack_from_the_store(scheduler, cache, tmp_path):
    for store in (str(tmp_path / "folder"), f"file://{tmp_path}/url"):
        with limit(START), open_pool(Workers(on=scheduler, store=store)) as pool:
            key = pool.publish(os.urandom(1000))
            content(key).unlink()  # so that it cannot come from here
            assert dict(pool.run(total_size, [[key]] * 4)) == dict.fromkeys(range(4), (1000, str(cache / "there")))


def test_a_store_that_workers_do_not_see_is_one_error(scheduler):
    with limit(START), open_pool(Workers(on=scheduler, store="memory://here")) as pool:
        key = pool.publish(os.urandom(10))
        with pytest.raises(StorageError) as raised:
            list(pool.run(size_of, [key]))
    assert raised.value.args[0].code == "CTX1083"


def test_a_worker_with_other_versions_is_refused_before_any_unit(scheduler):
    with limit(START), open_pool(Workers(on=scheduler), cache_of_worker) as pool, pytest.raises(UserError) as raised:
        list(pool.run(square, range(4)))
    assert raised.value.args[0].code == "CTX1076"
    assert "numpy" in str(raised.value)


def test_python_is_compared_without_its_patch_level():
    module._compare("host", {"python": "3.11.2"}, {"python": "3.11.7"})
    with pytest.raises(UserError):
        module._compare("host", {"python": "3.1.7"}, {"python": "3.11.7"})


def test_a_scheduler_that_goes_away_is_one_error(cache):
    with limit(2 * START), dask_processes(cache) as (address, process), open_pool(Workers(on=address)) as pool:
        results = pool.run(square, range(100_000))
        next(results)
        process.kill()
        with pytest.raises(UserError) as raised:
            list(results)
    assert raised.value.args[0].code == "CTX1080"


@pytest.mark.parametrize("kind", ["dask", "ray"])
@pytest.mark.parametrize("listens", [False, True])
def test_an_address_without_a_scheduler_is_one_error(kind, listens, monkeypatch):
    pytest.importorskip({"dask": "distributed"}.get(kind, kind), reason=f'needs pip install "ctxbench[{kind}]"')
    monkeypatch.setattr(module, "_CONNECT", 0.5)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        with limit(START), pytest.raises(UserError) as raised:
            open_pool(Workers(on=f"{kind}://127.0.0.1:{server.getsockname()[1]}"))
    assert raised.value.args[0].code == "CTX1074"
