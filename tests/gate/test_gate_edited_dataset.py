"""Catalogs edited by hand: judged by the labels of the baseline, whatever card and labels say."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.evaluation.experiment import examine
from ctxbench.evaluation.inputs import prepare
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import without_texts
from ctxbench.gate.baseline_reader import baseline_counts, read_baseline
from ctxbench.gate.baseline_rows import RowError, query_from_row, query_row
from ctxbench.gate.comparability import open_edited, restore_labels
from ctxbench.gate.gate import accept, check_gate
from ctxbench.gate.inputs import input_differences
from ctxbench.gate.results import CauseKind, Verdict
from ctxbench.gate.snapshot_sources import take
from ctxbench.io.errors import InputError
from ctxbench.labelling.rebase import rebase_dataset
from ctxbench.model.items import Catalog
from tests.gate.gate_cases import identity, item, item_id, snapshot

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
ON_CALL = "reference:guides%2Fon%20call"  # q08 needs it, and its scope has it
CREATE = "tool:tracker:create_issue"  # q04 needs it or its alternative, q06 needs it, and the scope has it
OTHER = "tool:forge:create_issue"  # the alternative
FORECAST = "tool:weather:get_forecast"  # q07 needs it
RETIRED = "tool:weather:get_forecast_daily"  # disabled
PLAIN = {"words": "plain", "stop": False, "stem": False}  # requests here find items by words such as `it`
BM25 = {"name": "bm25", "pipeline": {"analyse": "whole", "retrieve": {"bm25": PLAIN}, "refine": [{"first": {"n": 3}}]}}


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


class Desk:
    """A frozen and counted dataset with a gate, accepted, whose files are then edited by hand."""

    def __init__(self, folder, *selectors):
        self.data = folder / "data"
        shutil.copytree(TINY, self.data)
        card = yaml.safe_load((self.data / "dataset.yaml").read_text()) | {"frozen": read_dataset(TINY).hash}
        (self.data / "dataset.yaml").write_text(yaml.safe_dump(card))
        self.gate = folder / "gate.yaml"
        told = {"datasets": ["data"], "selectors": list(selectors) or [BM25], "embedder": "hashing"}
        self.gate.write_text(yaml.safe_dump({"name": "g", "tokens": "chars/4", **told}))
        accept(self.gate)

    def edit(self, name, /, **fields):
        """Give an item other fields; with none, take it out."""
        path = self.data / "corpus.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert name in {row["_id"] for row in rows}
        rows = [{**row, **fields} if row["_id"] == name else row for row in rows if fields or row["_id"] != name]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def write(self, name, old, new):
        path = self.data / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def rebase(self):
        """Drop the labels of what is gone as `ctxbench data rebase` does."""
        new = rebase_dataset(read_dataset(TINY), read_catalog(self.data / "corpus.jsonl")).dataset
        shutil.rmtree(self.data)
        write_dataset(new, self.data)

    def check(self, **given):
        return check_gate(self.gate, **given).check

    def lost(self, **given):
        """Required items lost, with their causes, by query."""
        (one,) = self.check(**given).selectors
        assert one.verdict != Verdict.NOT_COMPARABLE, one.reasons
        return {
            change.query: (change.item, change.cause.kind, change.cause.detail)
            for change in one.changes
            if change.lost and change.required
        }

    def heads(self, bases):
        experiment, faults = examine(self.gate.with_name("plain.yaml"))
        return take(prepare(experiment, faults=faults, opening=partial(open_edited, bases=bases)))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


# ---------------------------------------------------------------------------------------------- gone and disabled


def test_an_item_taken_out_is_a_loss_with_its_cause(desk):
    desk.edit(ON_CALL)
    assert desk.lost() == {"q08": (ON_CALL, CauseKind.GONE, "no longer in the catalog")}


def test_what_is_gone_counts_as_not_offered_in_the_metrics(desk):
    desk.edit(ON_CALL)
    (one,) = desk.check().selectors
    assert one.compared == 10
    completeness = next(metric for metric in one.metrics if metric.metric == "completeness")
    before, now = completeness.comparison.base, completeness.comparison.other
    assert round((before - now) * completeness.comparison.n) == 1  # one of the queries that need something


def test_a_disabled_item_is_a_loss_with_its_cause(desk):
    desk.edit(ON_CALL, enabled=False)
    assert desk.lost() == {"q08": (ON_CALL, CauseKind.GONE, "disabled")}


def test_an_item_by_hand_only_is_a_loss_with_its_cause(desk):
    desk.edit(ON_CALL, include="manual")
    assert desk.lost() == {"q08": (ON_CALL, CauseKind.EDITED, "include agent -> manual")}


def test_of_alternatives_the_other_one_is_enough(desk):
    desk.edit(CREATE)
    assert desk.lost().keys() <= {"q06"}


def test_whatever_one_item_is_taken_out_the_queries_stay_comparable_and_only_those_that_need_it_lose(desk):
    corpus, whole = desk.data / "corpus.jsonl", (desk.data / "corpus.jsonl").read_text()
    needs = {
        name: {label.query for label in read_dataset(TINY).labels if label.item.id == name and label.grade == 2}
        for name in read_dataset(TINY).catalog.ids
    }
    for name in sorted(needs.keys() - {"rule:no%20secrets"}):  # which a session holds
        desk.edit(name)
        (one,) = desk.check().selectors
        assert one.compared == 10
        gone = {change.query for change in one.changes if change.required and change.item == name}
        assert gone <= needs[name]
        corpus.write_text(whole)
    assert desk.check().verdict == Verdict.SAME


def test_several_losses_are_one_cause(desk):
    desk.edit(ON_CALL)
    desk.edit(FORECAST, enabled=False)
    (one,) = desk.check().selectors
    group = next(group for group in one.causes if group.cause.kind == CauseKind.GONE)
    assert group.cause.subjects == (ON_CALL, FORECAST)
    assert group.cause.detail == "2 items no longer in the catalog or disabled"


def test_an_item_that_is_enabled_again_is_new(desk):
    desk.edit(RETIRED, enabled=True)
    (one,) = desk.check().selectors
    came = {change.cause.detail for change in one.changes if change.item == RETIRED}
    assert came == {"no longer disabled"}
    assert {change.cause.kind for change in one.changes if change.item == RETIRED} == {CauseKind.NEW}


def test_a_label_on_a_disabled_item_stays_when_that_goes(desk):
    desk.write("qrels/tuning.tsv", "q05\ttool:weather:get_forecast\t0", f"q05\t{RETIRED}\t0")
    accept(desk.gate)
    desk.edit(RETIRED)
    (one,) = desk.check().selectors
    assert one.verdict == Verdict.SAME


def test_tokens_of_disabled_items_are_not_counted_anew():
    known = snapshot({}, items=[item("b", enabled=False)], tokens={"b": 7}, identity=identity(tokens="never"))
    counter = baseline_counts([known])(_Never())
    assert counter.count([item_id("b")], [item("b").prompt_text]).tolist() == [7]


class _Never:
    name = "never"

    def count(self, ids, texts):
        raise AssertionError(ids)


def test_an_edit_of_what_is_disabled_is_a_difference():
    """How rare a word is may depend on it, so that not nothing differs."""
    items = [item("a"), item("b", enabled=False)]
    base = snapshot({"q": ["a"]}, items=items)
    head = snapshot({"q": ["a"]}, items=[items[0], item("b", "other words", enabled=False)])
    assert (list(base.items), list(base.disabled)) == ([item_id("a")], [item_id("b")])
    assert not input_differences(base, base, {}).catalog
    assert input_differences(base, head, {}).edited == {item_id("b"): ("description",)}
    assert input_differences(base, snapshot({"q": ["a"]}, items=items[:1]), {}).edited == {item_id("b"): ()}


# ---------------------------------------------------------------------------------------------- nothing else is moved

SELECTORS = [
    BM25,
    {"selector": "semantic", "preset": "normal"},
    {"selector": "hybrid"},
    {"name": "f", "pipeline": {"analyse": ["whole"], "retrieve": {"bm25f": {}}, "refine": [{"first": {"n": 3}}]}},
]


@pytest.mark.parametrize("selector", SELECTORS, ids=["bm25", "dense", "hybrid", "bm25f"])
def test_what_stands_in_for_gone_items_moves_no_score_and_no_rank(tmp_path, selector):
    desk = Desk(tmp_path, selector)
    for name in (ON_CALL, CREATE):
        desk.edit(name)
    told = yaml.safe_load(desk.gate.read_text())
    desk.gate.with_name("plain.yaml").write_text(yaml.safe_dump(told))
    known = snapshot({}, items=read_dataset(TINY).catalog, dataset="tiny")
    (kept,) = desk.heads([known])
    assert kept.judged is not None
    assert [one.id for one in kept.judged.catalog[-kept.judged.gone :]] == [ON_CALL, CREATE]
    assert not {ON_CALL, CREATE} & {*kept.items, *kept.disabled}
    desk.rebase()
    (dropped,) = desk.heads([])
    assert dropped.items == kept.items
    assert len(dropped.queries) < len(kept.queries)
    for query in dropped.queries:
        one, other = kept.answers[query], dropped.answers[query]
        assert (one.offered, one.near) == (other.offered, other.near)
    rows = [list(kept.queries).index(query) for query in dropped.queries]
    tokens = parse_metric("tokens")
    complete = [fact.complete for fact in dropped.queries.values()]  # of others, forbidden items alone are measured
    values = np.where(complete, kept.metrics[tokens][rows], np.nan)
    np.testing.assert_array_equal(values, dropped.metrics[tokens])


def test_requests_are_resolved_over_what_is_there(desk):
    desk.edit(ON_CALL)
    dataset = read_dataset(desk.data, former_ids={"tiny": read_dataset(TINY).catalog.ids})
    assert dataset.gone == 1
    assert dataset.current_catalog.ids == dataset.catalog.ids[:-1]
    assert dataset.batch().eligible.shape == (10, len(dataset.current_catalog))
    asked = {request.id: request for request in dataset.requests()}
    assert [key.id for key in asked["q08"].available or ()] == [
        CREATE,
        "tool:tracker:search_issues",
        "reference:project%20keys",
    ]
    assert asked["q01"] == dataset.queries[0].request


def test_what_is_gone_stands_in_the_order_of_ids_however_it_is_named(desk):
    for name in (FORECAST, ON_CALL, CREATE):
        desk.edit(name)
    before = {"tiny": read_dataset(TINY).catalog.ids}
    one = read_dataset(desk.data, former_ids=before)
    for split in ("tuning", "test"):
        path = desk.data / f"qrels/{split}.tsv"
        header, *rows = path.read_text().splitlines()
        path.write_text("\n".join([header, *reversed(rows)]) + "\n")
    other = read_dataset(desk.data, former_ids=before)
    assert one.catalog.ids == other.catalog.ids
    assert one.catalog.ids[-3:] == (ON_CALL, CREATE, FORECAST)


# ---------------------------------------------------------------------------------------------- what is a fault


def test_a_card_that_was_overtaken_is_a_fault_elsewhere_only(desk):
    desk.edit(RETIRED)
    with pytest.raises(InputError, match="frozen"):
        read_dataset(desk.data)
    dataset = read_dataset(desk.data, former_ids={})
    assert "frozen" not in dataset.about
    assert dataset.counts["items"] == 11
    desk.write("dataset.yaml", "  items: 12", "  itemz: 12")
    with pytest.raises(InputError, match="unknown count 'itemz'"):
        read_dataset(desk.data, former_ids={})


def test_an_id_that_the_baseline_does_not_know_either_is_a_fault_with_its_line(desk):
    desk.write("qrels/test.tsv", f"q07\t{FORECAST}\t2", "q07\ttool:weather:get_forcast\t2")
    with pytest.raises(InputError) as caught:
        desk.check(allow_removed=True)
    (fault,) = caught.value.faults
    assert (Path(fault.path or "").name, fault.line) == ("test.tsv", 5)
    assert "label of 'tool:weather:get_forcast' for query 'q07' names item 'tool:weather:get_forcast'" in str(fault)
    assert f"did you mean '{FORECAST}'" in str(fault)
    assert "correct the id, restore the item, or remove what names it with `ctxbench data rebase`" in str(fault)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("dataset.yaml", f"- {CREATE}", "- tool:tracker:create_isue", "scope 'support' names item"),
        ("qrels/test.tsv", "\t2\tdependency", "\t3\tdependency", "score must be 0 irrelevant"),
        ("qrels/test.tsv", f"q07\t{FORECAST}", "q07\tforecast", "is no item id"),
        ("qrels/test.tsv", f"q07\t{FORECAST}", f"q77\t{FORECAST}", "is for a query that is not in queries.jsonl"),
    ],
)
def test_everything_else_stays_a_fault(desk, name, old, new, words):
    desk.edit(ON_CALL)
    desk.write(name, old, new)
    with pytest.raises(InputError, match=words):
        desk.check()


def test_a_session_cannot_hold_what_is_gone(desk):
    desk.edit("rule:no%20secrets")
    with pytest.raises(InputError) as caught:
        desk.check()
    (fault,) = caught.value.faults
    assert "query 'q09' (session) names item 'rule:no%20secrets', which is not in corpus.jsonl" in str(fault)
    assert (Path(fault.path or "").name, fault.line) == ("queries.jsonl", 9)


@pytest.mark.parametrize("fields", [{}, {"enabled": False}], ids=["gone", "disabled"])
def test_only_a_dataset_whose_labels_fit_is_accepted(desk, fields):
    desk.edit(ON_CALL, **fields)
    before = sorted((path, path.read_bytes()) for path in desk.gate.parent.glob("gate.baseline/**/*.json*"))
    with pytest.raises(InputError, match="remove what names it") as caught:
        accept(desk.gate)
    (fault,) = caught.value.faults  # one, whatever names the item
    assert "enabled" in fields or (
        "names item" in str(fault) and "also named by 1 label (test.tsv, line 6)" in str(fault)
    )
    assert sorted((path, path.read_bytes()) for path in desk.gate.parent.glob("gate.baseline/**/*.json*")) == before
    desk.rebase()
    accept(desk.gate)
    assert desk.check().verdict == Verdict.SAME


def test_an_edit_that_no_label_forbids_is_accepted_whatever_the_card_says(desk):
    desk.edit(RETIRED)
    desk.edit(FORECAST, description="What the weather will be.")
    accept(desk.gate)
    assert desk.check().verdict == Verdict.SAME


# ---------------------------------------------------------------------------------------------- labels dropped


@pytest.mark.parametrize("name", [ON_CALL, CREATE])
def test_labels_dropped_with_their_item_are_judged_as_if_they_stood(desk, name):
    desk.edit(name)
    kept = desk.check()
    desk.rebase()
    assert len(read_dataset(desk.data).judged()) < 10
    dropped = desk.check()
    assert dropped.selectors[0].compared == 10
    assert dropped.selectors[0].changes == kept.selectors[0].changes
    assert dropped.selectors[0].metrics == kept.selectors[0].metrics


def test_labels_dropped_with_a_disabled_item_are_judged_as_if_they_stood(desk):
    desk.edit(ON_CALL, enabled=False)
    desk.rebase()
    assert desk.lost() == {"q08": (ON_CALL, CauseKind.GONE, "disabled")}


def test_a_label_dropped_from_an_item_that_is_there_is_another_label(desk):
    desk.edit(ON_CALL)
    desk.write("qrels/test.tsv", "q08\ttool:tracker:search_issues\t1\tdirect\t\n", "")
    (one,) = desk.check().selectors
    assert one.verdict == Verdict.NOT_COMPARABLE
    assert one.left_out == {"relabelled": ("q08",)}


def test_a_query_that_is_asked_otherwise_gets_no_label_back(desk):
    desk.edit(ON_CALL)
    desk.rebase()
    desk.write("queries.jsonl", "What now?", "What next?")
    (one,) = desk.check().selectors
    assert one.left_out == {"removed": ("q08",)}


def test_a_list_of_available_items_that_lost_what_is_gone_asks_the_same(desk):
    desk.edit(FORECAST)
    assert desk.check().selectors[0].compared == 10
    desk.rebase()  # q10 lists what is available to it
    assert 'get_forecast"' not in (desk.data / "queries.jsonl").read_text()
    (one,) = desk.check().selectors
    assert (one.compared, one.left_out) == (10, {})


def test_a_list_of_available_items_that_lost_what_is_there_asks_otherwise(desk):
    desk.write("queries.jsonl", '"tool:forge:create_issue"]', "]")
    desk.write("queries.jsonl", '"tool:weather:get_forecast",]', '"tool:weather:get_forecast"]')
    (one,) = desk.check().selectors
    assert one.left_out == {"changed": ("q10",)}


@pytest.mark.parametrize("there", [True, False], ids=["taken out", "gone"])
def test_a_scope_that_lost_what_is_there_asks_otherwise_but_not_one_that_lost_what_is_gone(desk, there):
    if not there:
        desk.edit(ON_CALL)
    desk.write("dataset.yaml", f"  - {CREATE}\n", "")
    desk.edit(CREATE, **({"title": "Create"} if there else {}))
    (one,) = desk.check().selectors
    assert one.left_out == ({"changed": ("q08",)} if there else {})
    if there:
        reason = f"changed: 1 query of {desk.gate.with_suffix('.baseline')} (q08; scope support lost {CREATE})"
        assert one.reasons == (f"{reason}; accept a new baseline (--accept), or leave them out with --allow-removed",)


def test_a_session_that_lost_what_is_gone_asks_the_same(desk):
    desk.edit("rule:no%20secrets")
    desk.rebase()
    (one,) = desk.check().selectors
    assert one.left_out == {}
    assert one.compared == 10


def test_a_query_that_is_said_to_need_nothing_now_is_labelled_otherwise(desk):
    desk.edit(ON_CALL)
    desk.rebase()
    desk.write("queries.jsonl", '"tags":["scope"]', '"tags":["scope"],"needs":"nothing"')
    (one,) = desk.check().selectors
    assert one.left_out == {"relabelled": ("q08",)}


def test_without_anything_gone_a_dataset_is_the_very_same():
    dataset = read_dataset(TINY)
    known = snapshot({}, items=[one for one in dataset.catalog if one.enabled], dataset="tiny")
    assert restore_labels(dataset, known) is dataset


def test_queries_of_another_split_and_without_labels_are_told_as_what_they_are(desk):
    desk.write("qrels/test.tsv", f"q07\t{FORECAST}\t2\tdirect\t\n", "")
    told = yaml.safe_load(desk.gate.read_text())
    desk.gate.write_text(yaml.safe_dump({**told, "split": "test"}))
    (one,) = desk.check().selectors
    assert one.left_out == {"removed": ("q01", "q02", "q03", "q04", "q05", "q07")}
    place = desk.gate.with_suffix(".baseline")
    assert [reason.partition(";")[0] for reason in one.reasons] == [
        f"in the unused split tuning now: 5 queries of {place} (q01, q02, q03, ...)",
        f"not labelled completely now: 1 query of {place} (q07)",
    ]


# ---------------------------------------------------------------------------------------------- renames


def test_labels_follow_an_item_that_was_renamed_in_the_catalog_alone(desk):
    desk.edit(CREATE, _id="tool:desk:create_issue", server="desk")
    (one,) = desk.check().selectors
    assert one.compared == 10
    assert (one.lost, one.verdict) == (0, Verdict.SAME)
    assert f"1 item renamed ({CREATE} -> tool:desk:create_issue); " in " ".join(one.notices)


def test_an_item_that_labels_follow_stays_available(desk):
    desk.edit(ON_CALL, _id="reference:paged", name="paged")  # in the scope of q08
    desk.edit(FORECAST, _id="tool:sky:get_forecast", server="sky")  # in the list of q10
    (one,) = desk.check().selectors
    assert (one.compared, one.lost) == (10, 0)


@pytest.mark.parametrize(("still", "now"), [(False, "make_issue"), (True, "create_issue")])
def test_results_of_a_renamed_tool_follow_it_unless_another_has_its_name(desk, still, now):
    """Two servers have a tool `create_issue`."""
    desk.write("queries.jsonl", '"text":"Thanks', '"tool_results":[{"tool":"create_issue","text":"x"}],"text":"Thanks')
    accept(desk.gate)
    if not still:
        desk.edit(OTHER, _id="tool:forge:open", name="open", description="Other words.")
        desk.write("qrels/tuning.tsv", OTHER, "tool:forge:open")
        desk.write("qrels/test.tsv", OTHER, "tool:forge:open")
        desk.write("queries.jsonl", OTHER, "tool:forge:open")
        accept(desk.gate)
    known = read_baseline(desk.gate.with_suffix(".baseline"))
    desk.edit(CREATE, _id="tool:tracker:make_issue", name="make_issue")
    found = next(query for query in open_edited(desk.data, bases=known).queries if query.id == "q05")
    assert found.request.tool_results == ((now, "x"),)
    assert desk.check().selectors[0].compared == 10


# ---------------------------------------------------------------------------------------------- labels in a baseline


def test_all_labels_of_a_query_are_told_by_its_line():
    made = snapshot(
        {"q": ["a"]}, required={"q": ["a", ("b", "c")]}, queries={"q": {"helpful": ["d"]}}, items=[item("a")]
    ).queries["q"]
    a, b, c, d = map(item_id, "abcd")
    several = [(b, 2, "direct", "group1"), (c, 2, "direct", "group1")]
    assert made.labels() == [(a, 2, "direct", ""), *several, (d, 1, "direct", "")]
    row = query_row(made)
    assert row["labels"] == [[b, 2, "direct", "group1"], [c, 2, "direct", "group1"], [d, 1]]
    assert query_from_row(row) == made


def test_labels_are_not_known_where_a_line_does_not_tell_all():
    made = snapshot({"q": ["a"]}, required={"q": ["a"]}, queries={"q": {"helpful": ["d"]}}).queries["q"]
    row = query_row(made)
    del row["labels"]
    assert query_from_row(row).labels() is None


@pytest.mark.parametrize("labels", [{}, [1], [["a"]], [["a", "2"]], [["a", 2, 3]], [["a", 2, "direct", "", ""]]])
def test_a_line_with_labels_that_are_none_is_damaged(labels):
    row = query_row(snapshot({"q": ["a"]}).queries["q"])
    with pytest.raises(RowError, match="label"):
        query_from_row({**row, "labels": labels})


def test_names_of_alternatives_and_texts_of_disabled_items_are_texts():
    made = snapshot({"q": ["a"]}, required={"q": [("b", "c")]}, items=[item("x", "secret", enabled=False)])
    bare = without_texts(made)
    assert "group0" not in str(bare.queries)
    assert "secret" not in str(bare.disabled)
    assert bare.queries["q"].labels() is None
    query = made.queries["q"]
    assert replace(bare.queries["q"], text=query.text, extra_labels=query.extra_labels) == query


def test_an_empty_catalog_has_nothing_there():
    dataset = replace(read_dataset(TINY), catalog=Catalog([]), queries=(), labels=(), scopes={})
    assert (len(dataset.current_catalog), dataset.requests()) == (0, ())
