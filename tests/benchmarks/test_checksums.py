"""What checking each row of the cache costs, beside the same rows unchecked. Run with `--benchmark-only -s`.

Bar: at most 5% of what a warm process does that reads them. Both take turns in one test, since machines change their
speed within a minute; the test prints and stores figures, and asserts only that all rows were found.
"""

from __future__ import annotations

import random
import statistics
import time

from ctxbench.io.cache import CheckedRows

ROWS = 8_000
VALUE = 1_536  # bytes, a vector of 384 numbers
ROUNDS = 30


class UncheckedRows(CheckedRows):
    """The same without a look at the checksum."""

    def _fits(self, key: object, value: object, checksum: object) -> bool:
        del key, value, checksum
        return True


def test_checked_rows_beside_unchecked_ones(benchmark, tmp_path):
    dice = random.Random(0)
    values = {dice.randbytes(32): dice.randbytes(VALUE) for _ in range(ROWS)}
    kinds = {kind: kind(tmp_path / "rows.sqlite", "things") for kind in (CheckedRows, UncheckedRows)}
    kinds[CheckedRows].put(values)
    seconds = {kind: [] for kind in kinds}

    def both():
        for kind, rows in kinds.items():
            start = time.perf_counter()
            assert len(rows.get(values)) == ROWS
            seconds[kind].append(time.perf_counter() - start)

    benchmark.pedantic(both, rounds=ROUNDS, warmup_rounds=2)
    checked, unchecked = (1e3 * statistics.median(seconds[kind]) for kind in kinds)
    figures = {
        "checked ms": checked,
        "unchecked ms": unchecked,
        "microseconds a row": 1e3 * (checked - unchecked) / ROWS,
    }
    benchmark.extra_info.update(figures)
    lines = (f"{name}: {value:.2f}" for name, value in figures.items())
    print("", f"{ROWS:,} rows", *lines, sep="\n  ")  # noqa: T201  for who runs it
    for rows in kinds.values():
        rows.close()
