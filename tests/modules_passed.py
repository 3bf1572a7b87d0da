"""Lists the modules with a called function that a run of two selectors on one dataset passes, from command to page.

    python tests/modules_passed.py

They stand in the order of their first call; the last line counts them.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

EXPERIMENT = "name: e\ndatasets: [smoke]\nselectors: [bm25, learned/normal]\nembedder: hashing\ntokens: chars/4\n"


def modules_passed() -> list[str]:
    """The names of the modules, in the order of their first call."""
    from ctxbench.cli.app import main

    passed: dict[str, None] = {}

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("ctxbench") and frame.f_code.co_name != "<module>":
            passed[name] = None

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("e.yaml").write_text(EXPERIMENT)
        os.environ["CTXBENCH_CACHE"] = folder
        threading.setprofile(called)
        sys.setprofile(called)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                main(["run", "e.yaml"])
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return list(passed)


if __name__ == "__main__":
    found = modules_passed()
    sys.stdout.write("".join(f"{name}\n" for name in found) + f"{len(found)} modules\n")
