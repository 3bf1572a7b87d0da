"""Results held against a baseline from Python: the check of the command."""

from __future__ import annotations

import pytest

import ctxbench
from ctxbench.gate.gate import accept, check_runs
from ctxbench.io.errors import ParameterError, StorageError, UserError
from tests.api.conftest import CHEAP, SMOKE

SHORT = {"retrieve": "bm25", "refine": [{"first": {"n": 2}}]}


@pytest.fixture
def before():
    return ctxbench.evaluate(SMOKE, ["bm25"], **CHEAP)


@pytest.fixture
def now():
    return ctxbench.evaluate(SMOKE, {"bm25": SHORT}, **CHEAP)


def test_a_shorter_offer_is_worse_and_what_it_lost_is_told(before, now):
    found = ctxbench.check(now, before)
    assert found.verdict == "worse"
    frame = found.to_frame().set_index("metric")
    mean = {name: res.to_frame()["recall"].iloc[0] for name, res in (("base", before), ("head", now))}
    assert frame.loc["recall", ["base", "head"]].tolist() == [mean["base"], mean["head"]]
    assert frame.loc["recall", "verdict"] == "worse"
    lost = found.changes().query("lost and required")
    assert len(lost) == 10
    assert set(lost["detail"]) == {"refine.first.n 5 -> 2"}
    assert "set refine.first.n back to 5" in repr(found)
    assert "<pre>" in found._repr_html_()


def test_named_metrics_are_judged_with_their_tolerances():
    longer = {"retrieve": "bm25", "refine": [{"first": {"n": 40}}]}
    base, head = (
        ctxbench.evaluate(SMOKE, {"ours": of}, metrics=["nDCG@10", "R@5"], **CHEAP) for of in ("random", longer)
    )
    assert not {"nDCG@10", "R@5"} & set(ctxbench.check(head, base).to_frame()["metric"])
    judged = ctxbench.check(head, base, metrics=["nDCG@10", "R@5"])
    verdicts = judged.to_frame().set_index("metric")["verdict"]
    assert [verdicts[name] for name in ("nDCG@10", "R@5")] == ["better", "better"]
    assert judged.verdict == verdicts["tokens"] == "inconclusive"
    tolerances = {"nDCG@10": 0.02, "tokens": "1000%", "forbidden_offered": 0.99}
    tolerant = ctxbench.check(head, base, metrics=["nDCG@10"], tolerance=tolerances)
    frame = tolerant.to_frame().set_index("metric")
    assert (tolerant.verdict, frame.loc["nDCG@10", "tolerance"]) == ("better", 0.02)
    assert frame.loc["tokens", "tolerance"] == pytest.approx(10 * frame.loc["tokens", "base"])


@pytest.mark.parametrize(
    ("judging", "message"),
    [
        ({"metrics": ["ndcg10"]}, "unknown metric 'ndcg10'; did you mean 'nDCG@10'"),
        ({"metrics": ["P@7"]}, "unknown metric 'P@7'.*completeness"),  # not measured
        ({"tolerance": {"R@5": 0.1}}, "R@5 has a tolerance, but is not judged"),
        ({"tolerance": {"tokens": -1}}, "tolerance.tokens: a tolerance must be a number"),
    ],
)
def test_what_cannot_be_judged_so_is_an_error(before, judging, message):
    with pytest.raises(UserError, match=message):
        ctxbench.check(before, before, **judging)


def test_it_is_the_check_of_two_runs(before, now):
    command = check_runs(before.folder, now.folder)
    found = ctxbench.check(now, before.folder).found
    assert [one.reasons for one in found.selectors] == [one.reasons for one in command.selectors]


def test_a_mean_has_one_interval_in_results_and_in_the_check(before, now):
    groups = [query.group or query.id for query in before.datasets["smoke"].queries]
    assert len(set(groups)) < len(groups), "queries come in groups here"
    for judged in ctxbench.check(now, before).found.selectors[0].metrics:
        for res, side in ((before, judged.base), (now, judged.head)):
            ends = res.to_frame(intervals=True)[[f"{judged.metric} low", f"{judged.metric} high"]].iloc[0]
            assert (side.interval.low, side.interval.high) == tuple(ends)


def test_the_same_is_the_same_also_of_a_dataset_that_is_in_memory_alone():
    ds = ctxbench.dataset([{"name": "area"}, {"name": "root"}], [{"query": "q", "text": "the area"}], [
        {"query": "q", "item": "area"}
    ])  # fmt: skip
    one, other = (ctxbench.evaluate(ds, ["bm25"], **CHEAP) for _ in range(2))
    assert ctxbench.check(one, other).verdict == "same"
    assert ctxbench.check(one, other).changes().empty


def test_an_accepted_baseline_will_do(now, tmp_path):
    gate = tmp_path / "gate.yaml"
    gate.write_text(
        f"datasets: [{SMOKE}]\nselectors: [bm25]\nembedder: hashing\ntokens: chars/4\nbaseline: accepted\n", "utf-8"
    )
    accept(gate)
    found = ctxbench.check(now, tmp_path / "accepted")
    assert found.verdict == "worse"
    assert len(found.changes().query("lost and required")) == 10


def test_what_is_no_baseline_is_said(now, tmp_path):
    with pytest.raises(StorageError, match="there is no folder"):
        ctxbench.check(now, tmp_path / "none")
    with pytest.raises(StorageError, match=r"holds no manifest\.json"):
        ctxbench.check(now, tmp_path)


def test_another_run_in_the_same_folder_is_said_and_never_taken_for_the_first(tmp_path):
    first = ctxbench.evaluate(SMOKE, {"bm25": "bm25"}, out=tmp_path / "run", **CHEAP)
    again = ctxbench.evaluate(SMOKE, {"bm25": SHORT}, out=tmp_path / "run", **CHEAP)
    for ask in (lambda: ctxbench.check(again, first), first.per_query, lambda: first.summary):
        with pytest.raises(StorageError, match="holds another run by now, so that these results are gone"):
            ask()
    assert again.to_frame()["items"].tolist() < [3.0]


ITEMS = [{"name": "area", "description": "Area of a triangle"}, {"name": "mail", "description": "Send a letter"}]
QUERIES = [{"query": "q1", "text": "area of a triangle"}, {"query": "q2", "text": "a letter to Ann"}]
LABELS = [{"query": "q1", "item": "area"}, {"query": "q2", "item": "mail"}]


def results_of(items, queries=QUERIES, labels=LABELS):
    return ctxbench.evaluate(ctxbench.dataset(items, queries, labels), ["bm25"], **CHEAP)


def test_an_edit_of_a_dataset_in_memory_is_named_as_the_cause():
    edited = results_of([ITEMS[0], {**ITEMS[1], "description": "x"}])
    (change,) = ctxbench.check(edited, results_of(ITEMS)).changes().query("lost").to_dict("records")
    assert (change["query"], change["item"], change["cause"]) == ("q2", "tool:mail", "item edited")


def test_queries_that_are_gone_are_passed_over_on_request():
    fewer = results_of(ITEMS, QUERIES[:1], LABELS[:1])
    found = ctxbench.check(fewer, results_of(ITEMS))
    assert found.verdict == "not comparable"
    assert found.to_frame()["verdict"].tolist() == []
    assert ctxbench.check(fewer, results_of(ITEMS), allow_removed=True).verdict == "same"


def test_what_is_no_result_is_said(before):
    for given in ((before, None), (None, before)):
        with pytest.raises(ParameterError, match=r"what is checked are results of `evaluate`.*got NoneType"):
            ctxbench.check(*given)


def test_it_speaks_of_python_and_of_before_and_now(before, now):
    """No option of the command, no exit code, and no folder that was made for the runs."""
    lacking = ctxbench.evaluate(SMOKE, {"other": SHORT, "bm25": SHORT}, **CHEAP)
    both = ctxbench.evaluate(SMOKE, ["bm25", "semantic"], **CHEAP)
    for found in (ctxbench.check(now, before), ctxbench.check(lacking, both)):
        text = repr(found)
        assert not any(said in text for said in ("exit code", "--json", "--markdown", "--allow-removed", "/tmp"))
    assert "before has semantic on smoke, but now does not; " in text
    assert "Details: `changes()`" in repr(ctxbench.check(now, before))
