"""Fits the ranking that ships: `python experiments/learned/fit.py` (part of `make learned`).

Reads the tuning split of every dataset, 500 queries at most, and writes ctxbench/selectors/shipped/learned.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from world import FAMILIES, ROOT, fitted, resources

from ctxbench.cli.common import run_script
from ctxbench.pipelines.fits import write_calibrations

OUT = ROOT / "ctxbench" / "selectors" / "shipped" / "learned.json"


def main() -> None:
    """Fit and write."""
    made = fitted(FAMILIES, resources())
    OUT.unlink(missing_ok=True)
    write_calibrations(OUT, [made])
    sys.stderr.write(
        f"fitted on {made.queries:,} queries of {len(made.values['datasets'])} datasets: {OUT.relative_to(ROOT)}\n"
    )


if __name__ == "__main__":
    run_script(main)
