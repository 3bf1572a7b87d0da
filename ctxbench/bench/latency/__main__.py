"""The private entry of child processes: `python -m ctxbench.bench.latency JOB SPAWNED_NS`.

The answer is one line of JSON on standard output; whatever else is written there goes to standard error. The process
ends as soon as its standard input does, so that none is left behind however its parent ended.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from ctxbench.bench.latency.jobs import Job
from ctxbench.bench.latency.worker import work
from ctxbench.core.errors import UserError
from ctxbench.io.console import say
from ctxbench.io.json_files import dump_json
from ctxbench.io.visible import message_lines


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def main() -> int:
    """Do the job named on the command line."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)
        try:
            made = work(Job.read(Path(sys.argv[1])), spawned_ns=int(sys.argv[2]))
        except UserError as error:
            say(*message_lines(str(error)), err=True)
            return UserError.exit_code
        answer.write(dump_json(made) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
