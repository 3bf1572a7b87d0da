"""Run tests against each mutant: `python -m tests.mutants.run [--tier first|rest|all|room] [--only ID,...] [-n N]`.

Each mutant is applied in a copy of the working tree, and the tests run there until one fails: first those that import
the changed module, then those of its room, then all others. The failing test must pass without the mutant. Results are
kept in `runs/mutants/`: the same command goes on where it was stopped, until the tree changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.children import child
from tests.mutants.mutate import ROOT, Mutant, Site, find, read_mutants

RESULTS = ROOT / "runs" / "mutants"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def changed_files() -> list[str]:
    """Files that differ from the last commit, or are new."""
    return [*_git("diff", "--name-only", "HEAD").split(), *_git("ls-files", "-o", "--exclude-standard").split()]


def tree_hash() -> str:
    """A short hash of the working tree."""
    hash_ = hashlib.sha256(_git("rev-parse", "HEAD").encode())
    for name in changed_files():
        hash_.update(name.encode() + ((ROOT / name).read_bytes() if (ROOT / name).is_file() else b""))
    return hash_.hexdigest()[:12]


@contextmanager
def working_copy() -> Iterator[Path]:
    """A git worktree that equals the working tree, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(copy), "HEAD")
        try:
            for name in changed_files():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / name).is_file():
                    shutil.copy2(ROOT / name, copy / name)
                else:
                    (copy / name).unlink(missing_ok=True)
            if (ROOT / ".venv").exists():
                (copy / ".venv").symlink_to((ROOT / ".venv").resolve())
            yield copy
        finally:
            _git("worktree", "remove", "--force", str(copy))


def ordered_tests(site: Site, copy: Path) -> tuple[list[str], list[str]]:
    """The test files that import the module or are of its room, and all others; the likeliest to catch it first."""
    parts = site.path.relative_to(copy).with_suffix("").parts
    module, room, name = ".".join(parts), parts[1], site.function.rpartition(".")[2]

    def rank(path: Path) -> tuple[bool, bool, bool, str]:
        text = path.read_text("utf-8")
        return module not in text, path.relative_to(copy / "tests").parts[0] != room, name not in text, str(path)

    passed_over = ("benchmarks", "test_mutants.py")  # the second would see each mutant, as one that is there already
    files = [path for path in (copy / "tests").rglob("test_*.py") if not set(passed_over) & set(path.parts)]
    near: list[str] = []
    far: list[str] = []
    for path in sorted(files, key=rank):
        (far if all(rank(path)[:2]) else near).append(str(path.relative_to(copy)))
    return near, far


class Runner:
    """Runs pytest in a copy of the tree.

    Attributes:
        copy: the tree.
        options: of pytest.
        limit: seconds for one mutant.
    """

    def __init__(self, copy: Path, options: Sequence[str], limit: float) -> None:
        self.copy, self.options, self.limit = copy, list(options), limit
        self._broken: set[str] = set()  # tests that fail without a mutant
        self._sound: set[str] = set()

    def outcome(self, mutant: Mutant, *, room_only: bool, paths: Sequence[str] = ()) -> dict[str, Any]:
        """What becomes of a mutant: `caught`, `survived`, `timeout` or `error`, and the test that caught it."""
        site = find(mutant, self.copy)
        near, far = ordered_tests(site, self.copy)
        end = time.monotonic() + self.limit
        row: dict[str, Any] = {"outcome": "survived"}
        for tests in [[*paths]] if paths else [near] if room_only else [near, far]:
            if tests and row["outcome"] == "survived":
                row = self._outcome(site, tests, end)
        return row

    def _outcome(self, site: Site, tests: Sequence[str], end: float) -> dict[str, Any]:
        source = site.source(mutated=False)
        while True:
            site.path.write_text(site.source(mutated=True), "utf-8")
            try:
                code, output = self._pytest(["-x", *self.options, *self._deselected(), *tests], end - time.monotonic())
            finally:
                site.path.write_text(source, "utf-8")
            failed = _FAILED.search(output)
            if code == 0 or failed is None:
                outcome = {0: "survived", 5: "survived", None: "timeout"}.get(code, "error")
                return {"outcome": outcome, **({"output": output[-2000:]} if outcome == "error" else {})}
            if self._passes(failed[1]):
                return {"outcome": "caught", "test": failed[1]}
            self._broken.add(failed[1])

    def _deselected(self) -> list[str]:
        return [word for test in sorted(self._broken) for word in ("--deselect", test)]

    def _passes(self, test: str) -> bool:
        if test not in self._sound and self._pytest([test], self.limit)[0] == 0:
            self._sound.add(test)
        return test in self._sound

    def _pytest(self, words: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """The exit code, None where time is over, and the output."""
        environment = {**os.environ, "PYTHONPATH": str(self.copy)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds = max(seconds, 1.0)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *words]
        with tempfile.TemporaryFile("w+") as output:
            streams = {"stdout": output, "stderr": output, "start_new_session": True}
            with child(command, limit=seconds + 60, cwd=self.copy, env=environment, **streams) as process:
                code: int | None = None
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(timeout=seconds)
                if code is None:
                    os.killpg(process.pid, signal.SIGKILL)  # what tests started, too
            output.seek(0)
            return code, output.read()


def report(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each mutant, and the sums."""
    lines = [f"{row['outcome']:9}{row['seconds']:7.1f} s  {row['mutant']}  {row.get('test', '')}" for row in rows]
    counts = {
        outcome: sum(row["outcome"] == outcome for row in rows) for outcome in sorted({r["outcome"] for r in rows})
    }
    return "\n".join([*lines, f"{len(rows)} mutants: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items())])


def main() -> None:
    """Run the mutants that have no result yet, and print all results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="tests to run in this order, in place of a tier's")
    parser.add_argument("--tier", choices=["first", "rest", "all", "room"], default="first")
    parser.add_argument("--only", default="", help="ids of mutants, with commas between them")
    parser.add_argument("-n", type=int, default=0, help="processes of pytest")
    parser.add_argument("-m", default="", help="a marker expression of pytest")
    parser.add_argument("--limit", type=float, default=900, help="seconds for a mutant")
    parser.add_argument("--fresh", action="store_true", help="run again what has a result")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy is removed
    mutants = read_mutants()
    if options.only:
        mutants = [mutant for mutant in mutants if mutant.id in options.only.split(",")]
    words = [] if options.tier == "room" or options.paths else ["--tier", options.tier]
    words += ["-n", str(options.n)] if options.n else []
    words += ["-m", options.m] if options.m else []
    RESULTS.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(" ".join([options.m, *options.paths]).encode()).hexdigest()[:6]
    results = RESULTS / f"{options.tier}-{tree_hash()}-{key}.jsonl"
    rows = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
    done = {} if options.fresh else {row["mutant"]: row for row in rows if row["outcome"] != "error"}
    with working_copy() as copy:
        runner = Runner(copy, words, options.limit)
        for mutant in mutants:
            if mutant.id in done:
                continue
            began = time.monotonic()
            row = {"mutant": mutant.id, **runner.outcome(mutant, room_only=options.tier == "room", paths=options.paths)}
            done[mutant.id] = {**row, "seconds": round(time.monotonic() - began, 1)}
            with results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(done[mutant.id]) + "\n")
            sys.stdout.write(report([done[mutant.id]]).splitlines()[0] + "\n" + row.get("output", ""))
            sys.stdout.flush()
    sys.stdout.write("\n" + report([done[mutant.id] for mutant in mutants]) + "\n")


if __name__ == "__main__":
    main()
