"""Fits the ranking that ships: `python experiments/learned/fit.py` (part of `make learned`).

Reads the tuning split of every dataset, 500 queries at most, and writes ctxbench/selectors/shipped/learned.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from world import FAMILIES, ROOT, SAMPLE, learned, resources

from ctxbench.calibrations import write_calibrations
from ctxbench.evaluation.calibrating.fitting import fit_pooled
from ctxbench.evaluation.datasets.sampling import asked
from ctxbench.evaluation.datasets.store import open_dataset

OUT = ROOT / "ctxbench" / "selectors" / "shipped" / "learned.json"


def main() -> None:
    """Fit and write."""
    names = [name for family in FAMILIES.values() for name in family]
    datasets = [asked(open_dataset(name, base=ROOT), split="tuning", sample=SAMPLE, seed=1) for name in names]
    made = fit_pooled(datasets, learned(), resources())
    OUT.unlink(missing_ok=True)
    write_calibrations(OUT, [made])
    sys.stderr.write(f"fitted on {made.queries:,} queries of {len(datasets)} datasets: {OUT.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
