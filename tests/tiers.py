"""The two tiers of tests: `pytest --tier first` runs the quick and essential ones, `pytest --tier rest` all others.

A test that is marked `essential` is in the first tier, one that is marked `rest` is not. Of the others those are in the
rest whose function takes a quarter of a second or more, on average over its parameters. `tests/durations.txt` lists
the functions that take 0.04 seconds or more, so a new test is in the first tier. `pytest --tier quick` runs what is
neither marked nor listed, each function with its first parameters alone: other versions of Python and of packages break
functions, not parameters. To record the durations anew:

    make test-all PYTEST_ARGS=--junitxml=junit.xml
    .venv/bin/python -m tests.tiers junit.xml
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[1]
DURATIONS = ROOT / "tests" / "durations.txt"
REST, LISTED = 0.25, 0.04  # seconds


def listed_durations() -> dict[str, float]:
    """The test functions that `tests/durations.txt` lists, with their mean durations in seconds."""
    rows = (line.split() for line in DURATIONS.read_text("utf-8").splitlines())
    return {function: float(seconds) for function, seconds in rows}


def tiers_of(test: pytest.Item, durations: Mapping[str, float]) -> set[str]:
    """The tiers that a test is in."""
    if test.get_closest_marker("essential"):
        return {"first"}
    seconds = durations.get(test.nodeid.partition("[")[0], 0.0)
    if test.get_closest_marker("rest") or seconds >= REST:
        return {"rest"}
    return {"first"} if seconds >= LISTED else {"first", "quick"}


def mean_durations(junit_file: Path) -> dict[str, float]:
    """The mean duration of each test function, in seconds."""
    durations = defaultdict(list)
    for case in ET.parse(junit_file).iter("testcase"):
        parts = case.attrib["classname"].split(".")
        depth = next(n for n in range(len(parts), 0, -1) if ROOT.joinpath(*parts[:n]).with_suffix(".py").is_file())
        function = [*parts[depth:], case.attrib["name"].partition("[")[0]]
        durations["::".join(["/".join(parts[:depth]) + ".py", *function])].append(float(case.attrib["time"]))
    return {function: mean(seconds) for function, seconds in durations.items()}


def main(junit_file: str) -> None:
    """Write `tests/durations.txt`, from the junit file of a run of all tests."""
    slow = sorted((function, s) for function, s in mean_durations(Path(junit_file)).items() if s >= LISTED)
    DURATIONS.write_text("".join(f"{function} {seconds:.2f}\n" for function, seconds in slow), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
