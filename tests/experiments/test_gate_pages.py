"""What the pages on the gate and on intervals sum up, from made-up figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gate_chance_intervals
import gate_world
import pandas as pd
import pytest
import tuning_coverage

SCRIPT = Path(__file__).parents[2] / "experiments" / "gate" / "measure.py"


@pytest.fixture(scope="module")
def gate():
    """The script; other experiments have one of this name."""
    spec = importlib.util.spec_from_file_location("gate_measure", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def faults():
    rows = [("chunker", "workbench", 96, 100), ("chunker", "freight", 94, 90), ("look-alikes", "freight", 3, 3)]
    rows += [(fault, "workbench", 100, 100) for fault in ("items dropped", "rule replaced", "static model")]
    rows += [("costly look-alikes", "freight", 100, 99)]
    columns = dict.fromkeys(gate_world.ALLOWED_COLUMNS, 100)
    return pd.DataFrame(
        {"fault": fault, "dataset": name, "n": n, "right": right, **columns}
        for fault, name, large, small in rows
        for n, right in ((100, small), (300, large))
    )


def tables():
    allowed = dict.fromkeys(gate_world.ALLOWED_COLUMNS, 0)
    harmless = [("workbench", "threads", "all", 150, 0), ("freight", "threads", "all", 50, 1)]
    harmless += [("freight with twins", "threads", "all", 10, 0), ("freight", "rewordings", "all", 20, 1)]
    harmless += [("freight", "rewordings", "300", 200, 2), ("freight", "all rewordings together", "all", 1, 1)]
    names = ["dataset", "change", "queries", "checks", "worse"]
    chance = {"repeats": 1, "base_chance": 0.1, "worse": 0.02, "better": 0.01, "loses_more_than_allowed": 0.3}
    edits = {"right": True, "lost": 1, "gained": 0, **allowed}
    return {
        "harmless": pd.DataFrame(harmless, columns=names).assign(swapped=2, **allowed),
        "faults": faults(),
        "chance": pd.DataFrame(
            [
                {**chance, "head_chance": 0.1, "recall_covered": 0.96},
                {**chance, "head_chance": 0.2, "recall_covered": 0.94, "worse": 0.9},
                {**chance, "head_chance": 0.1, "recall_covered": 0.99, "repeats": 3, "loses_more_than_allowed": 0.004},
            ]
        ),
        "edits": pd.DataFrame([edits, edits, {**edits, "right": False}]),
        "time": pd.DataFrame({"process": ["unchanged", "touched", "numpy"], "ratio": [3.25, 9, 1], "megabytes": 95.0}),
    }


def test_what_is_demanded_of_the_gate_holds_or_not(gate):
    rows = {row["question"]: row for row in gate.rows(tables())}
    assert rows["false alarms: reruns"]["measured"].startswith("1 of 200;")
    assert rows["false alarms: rewordings"]["measured"] == "1 of 20"
    assert rows["five planted faults"]["measured"] == "5 of 6 rows"
    assert rows["equal selectors called worse or better"]["measured"] == "3.0% of 1,000 checks"
    assert rows["95% intervals hold the difference"]["measured"].startswith("94.0% to 99.0%")
    assert rows["causes of edits"]["measured"] == "2 of 3"
    holds = {name: row["holds"] == "yes" for name, row in rows.items()}
    assert not any(holds[name] for name in ("false alarms: reruns", "five planted faults", "causes of edits"))
    assert all(holds[name] for name in ("false alarms: rewordings", "time, nothing changed", "memory"))


def test_a_fault_is_named_as_often_as_where_it_is_named_least(gate):
    least = gate.least_named(faults().query("fault != 'look-alikes' or n == 300"))
    assert least.loc["chunker", 300] == 94
    assert least.loc["chunker", 100] == 90


def test_other_defaults_are_counted_where_something_may_be_lost(gate):
    counts = {column: 100 - 3 * index for index, column in enumerate(gate_world.ALLOWED_COLUMNS)}
    harmless = pd.DataFrame(
        {"change": "rewordings", "queries": queries, "checks": 50, **dict.fromkeys(gate_world.ALLOWED_COLUMNS, 5)}
        for queries in ("all", "300")
    )
    edits = pd.DataFrame([{"lost": 2, "gained": 0, **counts}, {"lost": 0, "gained": 1, **counts}])
    defaults = gate.defaults_of({"harmless": harmless, "faults": faults().assign(**counts), "edits": edits})
    assert defaults["rewordings_worse"].tolist() == [5] * 5
    assert defaults["draws_worse"].tolist() == [0.1] * 5
    assert defaults["fault_rows_named"].tolist() == [6, 6, 0, 0, 0]  # in 100, 97, 94, 91, 88 of 100 draws
    assert defaults["losing_edits"].tolist() == [1] * 5


def test_intervals_of_the_gate_are_given_from_the_least_to_the_most():
    tables = {
        "": pd.DataFrame({"metric": ["recall", "recall"], "n": 30, "covered": [0.94, 1.0]}),
        "made-up": pd.DataFrame({"n": [30, 30], "covered": [0.7, 0.8], "covered_unmarked": [float("nan"), 0.9]}),
        "detectable": pd.DataFrame({"n": [30], "judged_worse": [float("nan")]}),
    }
    spans = gate_chance_intervals.spans_of(tables)
    assert spans.loc["recall", 30].tolist() == [94, 100]
    assert spans.loc["made-up token counts", 30].tolist() == [70, 80]
    assert spans.loc["made-up token counts, without ~", 30].tolist() == [90, 90]


def test_what_was_chosen_counts_by_the_usual_confidence_among_all_settings():
    chosen = {"n": 50, "constraint_test": 0.9, "objective_test": 0.96, "constraint_tuning": 0.8}
    chosen |= {"objective_tuning": 0.85, "met": 0.99}
    rows = [{"settings": "all", "confidence": 0.95}, {"settings": "all", "confidence": 0.98, "met": 1.0}]
    rows += [{"settings": "first k", "confidence": 0.95, "constraint_test": 0.1}]
    choices = pd.DataFrame([{**chosen, **row} for row in rows])
    coverages = tuning_coverage.by_kind(
        {"": pd.DataFrame({"kind": ["recall"], "n": 50, "covered": 0.5}), "choices": choices}
    )
    kinds = coverages.groupby("kind")["covered"].agg(list).to_dict()
    assert kinds[tuning_coverage.TEST] == [0.9, 0.96]
    assert kinds[tuning_coverage.TUNING] == [0.8, 0.85]
    assert kinds[tuning_coverage.MET] == [0.99]
