"""Draws the README's picture: `python experiments/guide/run_chart.py` (`make chart`).

Completeness against prompt tokens of the shipped selectors on bfcl-simple; writes reports/run-chart.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

import ctxbench

OUT = Path(__file__).parents[2] / "reports" / "run-chart.png"
BASE = "semantic/spec"
LEARNED = ("learned/aggressive", "learned/normal", "learned/conservative")
SELECTORS = (BASE, *LEARNED, "hybrid", "bm25", "everything", "oracle")


def main() -> None:
    """Measure and draw."""
    results = ctxbench.evaluate("bfcl-simple", list(SELECTORS), baseline=BASE, metrics=["completeness", "tokens"])
    figure, ax = plt.subplots(figsize=(8.05, 4.3), dpi=100)
    results.plot.trade_off(ax=ax)
    figure.tight_layout()
    figure.savefig(OUT)


if __name__ == "__main__":
    main()
