"""How many random trials a test makes: as many as are claimed with `CTXBENCH_TEST_DRAWS=all`, fewer each day."""

from __future__ import annotations

import os


def draws(most: int, usual: int) -> int:
    """Return `most` where all trials are asked for, else `usual`."""
    return most if os.environ.get("CTXBENCH_TEST_DRAWS") == "all" else usual
