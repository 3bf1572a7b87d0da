"""Experiments are scripts beside each other: their modules are found by their folder, as when one is run."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (
    ".",
    "strategies",
    "gate",
    "tuning",
    "questions",
    "assembly",
    "codebase",
):  # last, as a script may be called as a package of others is
    sys.path.append(str(Path(__file__).parents[2] / "experiments" / folder))
