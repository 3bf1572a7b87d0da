from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctxbench.bench.latency import measurement
from ctxbench.bench.latency.trial_inputs import Job, write_items
from ctxbench.core.errors import UserError
from ctxbench.core.items import Catalog, Item
from tests.children import child

CATALOG = Catalog(
    [
        Item(type="tool", name="get_weather", description="Tells the weather of a city.", schema={"type": "object"}),
        Item(type="tool", name="send_mail", server="post", description="Sends a letter to one person."),
        Item(type="rule", name="tone", description="How to write.", text="Be brief.\n\nBe kind to all readers."),
    ]
)


def job(**values: object) -> Job:
    spec = {"retrieve": "bm25"}
    given = {"job": "cold", "pipeline": spec, "embedder": "hashing", "tokens": "chars/4", "store": "nowhere"}
    return Job(**{**given, "items": "missing.jsonl", "first": {"id": "q", "text": "t"}, **values})  # type: ignore[arg-type]


def test_a_childs_own_message_reaches_the_user(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.jsonl")
    with pytest.raises(UserError, match=r"^measuring it failed: cannot read .*missing\.jsonl: No such file"):
        measurement.run_child(job(items=missing), tmp_path, what="it", limit_s=60)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('boom')", r"ended with exit code 1; its standard error ends: .*RuntimeError: boom$"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9 without a word"),
        ("print('hello')", "answered 'hello', which is no JSON"),
    ],
)
def test_a_child_that_dies_is_an_error(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "_command", lambda _: [sys.executable, "-c", code])
    with pytest.raises(UserError, match=message):
        measurement.run_child(job(), tmp_path, what="it", limit_s=60)


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "pid"
    code = f"import os; open({str(told)!r}, 'w').write(str(os.getpid())); import time; time.sleep(600)"
    monkeypatch.setattr(measurement, "_command", lambda _: [sys.executable, "-c", code])
    with pytest.raises(UserError, match="measuring it took more than 3 s and was ended"):
        measurement.run_child(job(), tmp_path, what="it", limit_s=3)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_a_child_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    job(items=str(tmp_path / "items")).write(tmp_path / "job.json")
    code = (
        "import sys, time; from ctxbench.bench.latency import worker as m\n"
        "m.work = lambda *a, **k: time.sleep(600)\n"
        f"sys.argv[1:] = [{str(tmp_path / 'job.json')!r}, '0']; sys.exit(m.main())"
    )
    command = [sys.executable, "-c", code]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.poll() is None
        started.stdin.close()
        assert started.wait(60) == 1


def test_what_a_library_prints_does_not_get_into_the_answer(tmp_path: Path) -> None:
    write_items(CATALOG, tmp_path / "items.jsonl")
    job(items=str(tmp_path / "items.jsonl"), store=str(tmp_path / "store")).write(tmp_path / "job.json")
    code = (
        "import sys; from ctxbench.bench.latency import worker as m; real = m.work\n"
        "def noisy(*a, **k):\n    print('noise', flush=True); return real(*a, **k)\n"
        f"m.work = noisy; sys.argv[1:] = [{str(tmp_path / 'job.json')!r}, '{time.monotonic_ns()}']; sys.exit(m.main())"
    )
    with child(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        assert json.loads(started.stdout.read())["states"]["cold"]["requests"] == ["q"]
        assert started.stderr.read() == b"noise\n"
