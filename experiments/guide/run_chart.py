"""Draws the README's picture and that of a run's page: `python experiments/guide/run_chart.py` (`make chart`).

Completeness against prompt tokens of the shipped selectors on the test split of bfcl-simple, reports/run-chart.png;
and the top of runs/presets/report.html as Chromium shows it, reports/run-page.png.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import matplotlib.pyplot as plt

import ctxbench

ROOT = Path(__file__).parents[2]
CHART, PAGE = ROOT / "reports" / "run-chart.png", ROOT / "reports" / "run-page.png"
RUN = ROOT / "runs" / "presets" / "report.html"
BASE = "semantic/spec"
LEARNED = ("learned/aggressive", "learned/normal", "learned/conservative")
SELECTORS = (BASE, *LEARNED, "hybrid", "bm25", "everything", "oracle")


def draw_chart() -> None:
    """Measure and draw."""
    metrics = ["completeness", "tokens"]
    results = ctxbench.evaluate("bfcl-simple", list(SELECTORS), split="test", baseline=BASE, metrics=metrics)
    figure, ax = plt.subplots(figsize=(8.05, 4.3), dpi=100)
    results.plot.trade_off(ax=ax)
    figure.tight_layout()
    figure.savefig(CHART)


def take_page() -> None:
    """Take a picture of the page, down to its explorer."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CTXBENCH_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 1900})
        page.goto(RUN.as_uri())
        page.screenshot(path=PAGE)
        browser.close()


if __name__ == "__main__":
    draw_chart()
    take_page()
