"""How often a test tries something at random: as a rule often enough, and as often as it ever did where that is asked.

`CTXBENCH_TEST_DRAWS=all make test` makes all of the tries.
"""

from __future__ import annotations

import os


def draws(most: int, usual: int) -> int:
    """`most` where `CTXBENCH_TEST_DRAWS` is `all`, else `usual`."""
    return most if os.environ.get("CTXBENCH_TEST_DRAWS") == "all" else usual
