"""Counts the modules with a called function that `select`, `run` and `check` pass, from the command to its output.

    python tests/modules_passed.py [--list]

Each command works on a small dataset; `check` finds a required item that is gone. `--list` names the modules in the
order of their first call. `BEFORE` has the numbers before modules were merged by concept; a test holds today's numbers
at no more than half of them.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

EXPERIMENT = "name: e\ndatasets: [smoke]\nselectors: [bm25, learned/normal]\nembedder: hashing\ntokens: chars/4\n"
CORPUS = '{"_id": "tool:mail:send", "text": "send a mail"}\n{"_id": "tool:mail:read", "text": "read a mail"}\n'
FILES = {
    "e.yaml": EXPERIMENT,
    "gate.yaml": "name: g\ndatasets: [data]\nselectors: [bm25]\nembedder: hashing\ntokens: chars/4\n",
    "data/dataset.yaml": "name: data\nversion: '1'\nlicence: MIT\nsource: {made: by hand}\nlabelling: by hand\n",
    "data/corpus.jsonl": CORPUS,
    "data/queries.jsonl": (
        '{"_id": "q1", "text": "send", "split": "test"}\n{"_id": "q2", "text": "read", "split": "test"}\n'
    ),
    "data/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\ttool:mail:send\t2\nq2\ttool:mail:read\t2\n",
}
COMMANDS = {
    "select": ["select", "area of a triangle", "--catalog", "smoke", "--embedder", "hashing"],
    "run": ["run", "e.yaml"],
    "check": ["check", "gate.yaml"],
}
BEFORE = {"select": 107, "run": 129, "check": 142}


def modules_passed(arguments: Sequence[str]) -> list[str]:
    """The names of the modules that a command passes here, in the order of their first call."""
    from ctxbench.cli.app import main

    passed: dict[str, None] = {}

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        # bodies of modules and classes, and what makes the methods of dataclasses, run at import
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED and frame.f_code.co_name != "__create_fn__"
        if event == "call" and name.startswith("ctxbench") and is_function:
            passed[name] = None

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        run(main, arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(passed)


def run(main: Any, arguments: Sequence[str]) -> None:
    """Run a command without its output and its exit."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(list(arguments))


def count_modules() -> dict[str, list[str]]:
    """The modules that each command passes, in a folder of its own."""
    from ctxbench.cli.app import main

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["CTXBENCH_CACHE"] = folder
        for name, text in FILES.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        run(main, ["check", "gate.yaml", "--accept"])
        Path("data/corpus.jsonl").write_text(CORPUS.splitlines(keepends=True)[0])
        return {name: modules_passed(arguments) for name, arguments in COMMANDS.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the modules, too")
    listed = parser.parse_args().list
    for command, modules in count_modules().items():
        sys.stdout.write("".join(f"  {module}\n" for module in modules if listed))
        sys.stdout.write(f"{command}: {len(modules)} modules, {len({name.split('.')[1] for name in modules})} rooms\n")
