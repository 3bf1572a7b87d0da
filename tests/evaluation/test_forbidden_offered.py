"""`forbidden_offered`: by hand, by pandas from the files, and where else little is labelled."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ctxbench
from ctxbench.datasets.dataset import Dataset, draw_sample
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.lookup import dataset_folder, open_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.metric_kernels import Joined
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, METRICS, Metric, evaluate, forbidden_counts
from ctxbench.model.arrays import Evidence, Judgments, OfferedItems
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request

NAN = math.nan
ABOUT = {"licence": "Apache-2.0", "source": "Written for a test.", "labelling": "By hand."}
CHEAP = {"embedder": "hashing", "counter": "chars/4"}
TOOLS = Catalog(Item(type="tool", name=name, description=f"Does {name}.") for name in ("refund", "cancel", "track"))
KEY = {item.name: item.key for item in TOOLS}
GOOD = {"a": ["refund", "track"], "b": ["track"], "c": ["track"], "d": [], "e": ["track"]}
BAD = {"a": ["refund", "cancel"], "b": ["cancel"], "c": ["cancel"], "d": ["cancel"], "e": ["refund", "cancel"]}


def orders(*left_out: str) -> Dataset:
    """`a` is labelled in full, `b` has only a negative, `c` needs nothing, `d` has no negative, `e` is partly known."""
    queries = [
        DatasetQuery(
            request=Request(id=name, text=f"request {name}"),
            split="test",
            needs_nothing=name in "cd",
            partly_labelled=name == "e",
        )
        for name in "abcde"
        if name not in left_out
    ]
    labels = [Label("a", KEY["refund"], 2), *(Label(name, KEY["cancel"], 0) for name in "abce")]
    labels += [Label("e", KEY["refund"], 2)]
    return Dataset(
        name="orders",
        version="1",
        catalog=TOOLS,
        queries=tuple(queries),
        labels=tuple(label for label in labels if label.query not in left_out),
        about=ABOUT,
    )


def selector(offers):
    return lambda request, items: [KEY[name].id for name in offers[request["id"]]]


def scored(dataset, folder, **given):
    write_dataset(dataset, folder)
    return ctxbench.evaluate(folder, {"good": selector(GOOD), "bad": selector(BAD)}, **CHEAP, **given)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return scored(orders(), tmp_path_factory.mktemp("whole") / "orders")


# ------------------------------------------------------------------------------------------------------- arithmetic


def test_values_worked_by_hand():
    labels = [  # item, grade
        [(0, 2), (1, 0), (2, 0)],  # 1 is offered: 1
        [(0, 2), (1, 0)],  # required 0 shown in part is worth nothing, but not forbidden: 0
        [(1, 0)],  # 1 is held by the session, 3 has no label: 0
        [(0, 2), (1, 1)],  # no negative: NaN
        [(1, 0), (2, 0)],  # nothing is offered: 0
        [(2, 0)],  # a part of 2 is offered: 1
    ]
    rows = [(query, item, grade) for query, own in enumerate(labels) for item, grade in own]
    offered = [(0, 0, 1, True), (0, 1, 2, True), (1, 0, 1, False), (2, 1, 0, True), (2, 3, 1, True)]
    offered += [(3, 2, 1, True), (5, 2, 1, False)]
    evidence = Evidence(
        judgments=Judgments(
            start=np.cumsum([0, *map(len, labels)]),
            item=[item for _, item, _ in rows],
            grade=[grade for *_, grade in rows],
            group=[item if grade == 2 else -1 for _, item, grade in rows],
            complete=np.array([True, True, True, True, False, False]),
        ),
        offered=OfferedItems(
            start=[0, 2, 3, 5, 6, 6, 7],
            item=[item for _, item, _, _ in offered],
            origin=[origin for *_, origin, _ in offered],
            enough=[enough for *_, enough in offered],
        ),
        item_tokens=np.array([1, 2, 4, 8]),
    )
    assert evaluate([FORBIDDEN_OFFERED], evidence)[FORBIDDEN_OFFERED].tolist() == pytest.approx(
        [1, 0, 0, NAN, 0, 1], nan_ok=True
    )
    assert forbidden_counts(Joined(evidence), 4).tolist() == [0, 1, 1, 0]
    others = [Metric(name) for name, one in METRICS.items() if not (one.cutoff == "required" or one.partial)]
    for metric, values in evaluate(others, evidence).items():
        assert np.isnan(values[4:]).all(), metric


def test_it_is_what_pandas_counts_in_the_files(tmp_path):
    res = ctxbench.evaluate("smoke", ["bm25", "everything"], out=tmp_path / "run", **CHEAP)
    qrels = pd.concat(pd.read_csv(path, sep="\t") for path in dataset_folder("smoke").glob("qrels/*.tsv"))
    query, item, grade = qrels.columns[:3]
    negatives = qrels[qrels[grade] == 0].groupby(query)[item].agg(set)
    for name in ("bm25", "everything"):
        lines = (res.run.part_path("smoke", name) / "selections.jsonl").read_text("utf-8").splitlines()
        wrong = {row["query"]: negatives.get(row["query"], set()) & added(row, res) for row in map(json.loads, lines)}
        share = np.mean([bool(wrong[one]) for one in negatives.index])
        assert res.to_frame().loc[name, "forbidden_offered"] == pytest.approx(share, abs=1e-12)
        counts = pd.Series([one for items in wrong.values() for one in items]).value_counts()
        own = res.forbidden()[lambda frame, name=name: frame["selector"] == name].set_index("item")["queries"]
        assert own.to_dict() == counts.to_dict()


def added(row, res):
    """The ids that were added to a query; runs of items that follow each other are written as first and last."""
    ids = list(res.datasets["smoke"].catalog.ids)
    found = set()
    for one in row["items"]:
        if one.get("mode") not in ("always", "manual"):
            first = ids.index(one["id"])
            found |= set(ids[first : ids.index(one["to"]) + 1 if "to" in one else first + 1])
    return found


# ------------------------------------------------------------------------------------------------- labels in part


def test_queries_with_negatives_alone_are_measured(results):
    frame = results.to_frame()
    assert frame["forbidden_offered"].to_dict() == {"good": 0, "bad": 1}
    own = results.per_query()
    own = own[own["selector"] == "bad"].set_index("query")["forbidden_offered"]
    assert own.to_dict() == pytest.approx({"a": 1, "b": 1, "c": 1, "d": NAN, "e": 1}, nan_ok=True)


def test_no_other_figure_depends_on_them(results, tmp_path):
    without = scored(orders("b", "e"), tmp_path / "orders").summary.datasets[0]
    for one, other in zip(results.summary.datasets[0].selectors, without.selectors, strict=True):
        assert one.estimates.keys() == other.estimates.keys()
        for name in one.estimates.keys() - {"forbidden_offered"}:
            same = replace(one.estimates[name], left_out=other.estimates[name].left_out)
            assert repr(same) == repr(other.estimates[name]), name
        for name, found in other.against.items():
            assert repr(replace(one.against[name], left_out=found.left_out)) == repr(found), name


def test_a_dataset_of_negatives_alone_is_measured(tmp_path):
    res = scored(orders("a", "c", "d", "e"), tmp_path / "orders")
    assert res.to_frame()["forbidden_offered"].tolist() == [0, 1]
    assert "forbidden offered %" in repr(res)


def test_a_run_with_them_is_resumed(tmp_path):
    write_dataset(orders(), tmp_path / "orders")
    for _ in range(2):
        res = ctxbench.evaluate(tmp_path / "orders", ["bm25"], out=tmp_path / "run", **CHEAP)
    assert len(res.per_query()) == 5


def test_as_many_of_them_are_drawn_beside_the_others():
    """What is drawn of the others is what would be drawn without them."""
    queries = [
        DatasetQuery(request=Request(id=f"q{n}", text="?"), split="test", needs_nothing=n % 2 == 0) for n in range(40)
    ]
    whole = Dataset(
        name="d",
        version="1",
        catalog=TOOLS,
        queries=tuple(queries),
        labels=tuple(Label(query.id, KEY["cancel"], 0) for query in queries),
    )
    drawn = draw_sample(whole, 8, seed=1)
    assert (len(drawn.judged()), len(drawn.only_negatives)) == (8, 8)
    judged = draw_sample(whole.judged(), 8, seed=1)
    assert [query.id for query in drawn.judged().queries] == [query.id for query in judged.queries]


# ------------------------------------------------------------------------------------------------------------ shown


def test_it_is_shown_without_being_named_where_there_are_negatives(results, tmp_path):
    from ctxbench.report.run_page import render_page
    from ctxbench.report.run_text import markdown_report

    tokens = {"orders": np.ones(3, dtype=np.int64)}
    shown = [repr(results), markdown_report(results.summary, results.opened)]
    shown.append(render_page(results.run, results.opened, tokens=tokens))
    assert all("forbidden" in text and "tool:cancel" in text for text in shown[1:])
    assert "forbidden offered %" in shown[0]
    assert results.to_frame()["forbidden_offered"].tolist() == [0.0, 1.0]
    none = replace(orders(), labels=tuple(label for label in orders().labels if label.grade))
    res = scored(none, tmp_path / "orders")
    assert "forbidden_offered" not in res.to_frame().columns
    assert "forbidden offered" not in repr(res) + markdown_report(res.summary, res.opened)


def test_the_items_wrongly_offered_are_counted(results):
    assert results.forbidden().to_dict("records") == [
        {"dataset": "orders", "selector": "bad", "item": KEY["cancel"].id, "queries": 4}
    ]
    told = results.summary.as_dict()["datasets"]["orders"]["selectors"]
    assert (told["good"]["forbidden"], told["bad"]["forbidden"]) == ({}, {KEY["cancel"].id: 4})


def test_named_metrics_are_not_doubled(tmp_path):
    res = scored(orders(), tmp_path / "orders", metrics=["forbidden_offered", "completeness"])
    assert res.to_frame().columns.tolist() == ["errors", "queries", "forbidden_offered", "completeness"]


# ---------------------------------------------------------------------------------------------------------- sources


def test_superseded_memories_are_negatives():
    diary = open_dataset("diary")
    superseded = [query.id for query in diary.queries if "superseded" in query.tags]
    assert superseded
    assert set(superseded) <= diary.forbidden.keys()


def test_forbidden_of_evals_and_should_not_trigger_are_negatives(tmp_path):
    from ctxbench.labelling.evals import import_evals

    for name, other in (("pdf", "xls"), ("xls", "pdf")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Reads {name}.\n---\nText.\n")
        evals = [{"query": f"read my {name}", "should_trigger": True}, {"query": "sing", "should_trigger": False}]
        (tmp_path / name / "trigger_eval.json").write_text(json.dumps(evals[: 2 if other == "xls" else 1]))
    dataset = import_evals(sorted(tmp_path.rglob("*.*")), None).dataset
    (only,) = dataset.forbidden
    assert dataset.only_negatives == (only,)
    assert [key.name for key in dataset.forbidden[only]] == ["pdf"]
