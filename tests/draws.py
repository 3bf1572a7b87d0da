"""How many random trials a test makes: a part of them, or all with `CTXBENCH_TEST_DRAWS=all make test-all`."""

from __future__ import annotations

import os


def draws(most: int, usual: int) -> int:
    """Return `most` where all trials are asked for, else `usual`."""
    return most if os.environ.get("CTXBENCH_TEST_DRAWS") == "all" else usual
