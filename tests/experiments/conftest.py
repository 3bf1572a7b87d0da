"""Experiments are scripts beside each other: their modules are found by their folder, as when one is run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "experiments" / "strategies"))
