"""Running one job in a child process, and ending it whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from ctxbench.bench.latency.jobs import Job
from ctxbench.core.errors import UserError

_LAST_LINES = 3


def run_child(job: Job, folder: Path, *, what: str, limit_s: float) -> dict[str, Any]:
    """Do a job in a fresh process.

    Args:
        job: the job.
        folder: an empty folder for the job and the child's output.
        what: how messages call it.
        limit_s: seconds after which the child is ended.

    Returns:
        What `worker.work` returned.

    Raises:
        UserError: the child failed (with the last lines of its standard error), or took too long.
    """
    path = folder / "job.json"
    job.write(path)
    with (folder / "stdout").open("w+b") as out, (folder / "stderr").open("w+b") as err:
        code = _ended(_command(path), out=out, err=err, limit_s=limit_s, what=what)
        answer, words = _read(out), _read(err)
    if code != 0:
        raise UserError(f"measuring {what} failed: {_fate(code, words)}")
    try:
        made: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise UserError(f"measuring {what} failed: the process answered {answer[:80]!r}, which is no JSON") from error
    return made


def _command(path: Path) -> list[str]:
    # -P: the folder that the user happens to be in does not go before the installed modules.
    return [sys.executable, "-P", "-m", "ctxbench.bench.latency", str(path), str(time.monotonic_ns())]


def _ended(command: list[str], *, out: IO[bytes], err: IO[bytes], limit_s: float, what: str) -> int:
    """Run a command to its end and return its exit code; on any exception, Ctrl-C included, it is ended first."""
    # Its standard input stays open as long as this process lives: the child ends when it closes.
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err)  # noqa: S603 - our own module
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"measuring {what} took more than {limit_s:g} s and was ended; raise the time limit, or lower the sizes"
        ) from error
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        if child.stdin is not None:
            child.stdin.close()


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace").strip()


def _fate(code: int, words: str) -> str:
    """Why a child ended: its own message, or how it ended with its last words."""
    if code == UserError.exit_code and words:
        return words
    how = f"the process ended with exit code {code}" if code > 0 else f"the process was ended by signal {-code}"
    lines = [line.strip() for line in words.splitlines() if line.strip()][-_LAST_LINES:]
    return f"{how}; its standard error ends: {' | '.join(lines)}" if lines else f"{how} without a word"
