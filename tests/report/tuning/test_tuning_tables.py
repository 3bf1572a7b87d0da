"""Tables of a tuning: the factory's figures at their places."""

from __future__ import annotations

from dataclasses import replace

from ctxbench.report import tuning_tables


def columns(table, row):
    return dict(zip(table.head, row, strict=True))


def test_every_preset_has_its_values_figures_and_what_it_would_cost_to_know_more(made):
    table = tuning_tables.presets(made.tuning())
    assert [row[:2] for row in table.rows] == [
        (dataset, policy)
        for dataset in ("bfcl-simple", "workbench")
        for policy in ("aggressive", "normal", "within-4000")
    ]
    normal = columns(table, table.rows[1])
    values = "contextTopK 20, contextTopN 12, contextIncludeScore 0.7, contextMargin 0.15"
    assert normal["setting"] == f"calibrated: {values}"
    assert normal["completeness %"] == "92.0 (89.0–95.0)"
    assert normal["prompt tokens"] == "336 (319–353)"
    assert normal["difference from the default"] == (  # 320 tokens against 550
        "tokens −41.8% (−45.5 to −38.2), p=0.0004",
        "points −0.1 (−2.1 to +1.9), not significant",
    )
    assert normal["target"] == "holds"
    assert columns(table, table.rows[0])["target"] == "open; about 120 more labels would tell"
    assert tuning_tables.presets(made.edges()["one"]).head[0] == "preset", "of a single dataset it is not named"


def test_a_fixed_number_of_items_is_compared(made):
    table = tuning_tables.compared(made.tuning())
    normal = columns(table, table.rows[1])
    assert normal["figures of"] == "test split"
    assert normal["against tuned fixed k"][0] == "tokens −36.0% (−40.0 to −32.0), p=0.0004"  # 320 against 500 tokens
    assert normal["against tuned fixed k"][1].startswith("points +2.0 (")
    assert normal["points against first n at equal tokens"] == ("+3.0 (+1.0 to +5.0)", "p=0.0004")


def test_where_nothing_is_recommended_the_table_says_why(made):
    (row,) = tuning_tables.presets(made.edges()["nothing"]).rows
    assert row[1].startswith("keep the default: 49 queries are too few")
    assert set(row[2:5]) == {"-"}
    assert row[5] == "label about 300 to 640 more requests to tell whether a setting meets the target"
    assert tuning_tables.compared(made.edges()["nothing"]) is None


def test_without_a_fixed_k_the_table_says_so(made):
    table = tuning_tables.compared(made.edges()["unread"])
    assert columns(table, table.rows[0])["against tuned fixed k"] == (tuning_tables.NO_K,)


def test_gains_by_ranking_and_by_cut_stand_apart(made):
    table = tuning_tables.gains(made.edges()["one"])
    row = columns(table, table.rows[0])
    # 500 -> 400 tokens by the ranking, 400 -> 320 by the cut, 500 -> 320 by both
    assert row["fixed k of the base's ranking"] == "semantic, first 9"
    assert row["fixed k of the chosen ranking"] == "calibrated, first 7"
    assert row["by ranking: tokens"][0] == "−20.0% (−24.0 to −16.0)"
    assert row["by cut: tokens"][0] == "−20.0% (−25.0 to −15.0)"
    assert row["by both: tokens"][0] == "−36.0% (−40.0 to −32.0)"
    assert row["by ranking: completeness, points"][0] == "+2.0 (0.0 to +4.0)"


def test_where_the_ranking_is_the_bases_there_is_no_gain_by_it(made):
    outcome = made.outcome()
    same = replace(outcome, ranking={}, chosen=replace(outcome.chosen, selector="semantic"))
    (row,) = tuning_tables.gains(made.tuning(made.dataset(outcomes=(same,)))).rows
    assert row[4:6] == (("the same ranking",), ("-",))


def test_worst_groups_say_over_how_many_queries(made):
    table = tuning_tables.worst(made.edges()["one"])
    assert table.rows == (("bfcl-simple", "normal", "billing: 75.0 of 12 queries", "tracker: 80.0 of 20 queries"),)
    assert tuning_tables.worst(made.edges()["unread"]) is None


def test_contenders_stand_once_with_both_splits(made):
    dataset = made.dataset()
    table = tuning_tables.results(dataset, {"everything": "5"})
    start = [(row[0], row[4], row[7], row[3]) for row in table.rows if row[0] == "everything"]
    assert start == [("everything", "5", "all that may be offered", "tuning")]
    after = table.rows[[row[0] for row in table.rows].index("everything") + 1]
    assert (after[0], after[4], after[7], after[3]) == ("", "", "", "test")
    names = [row[0] for row in table.rows if row[0]]
    assert names == [one.name for one in tuning_tables.all_results(dataset)]
    assert len(set(names)) == len(names) == 9


def test_what_outcomes_name_is_a_contender_too(made):
    bare = made.dataset(results=(), outcomes=(made.outcome(),))
    assert [one.name for one in tuning_tables.all_results(bare)] == [
        "normal",
        "semantic, first 9",
        "calibrated, first 7",
    ]


def test_the_first_twenty_requests_made_worse_are_named(made):
    rows = tuning_tables.worse_requests(made.outcome()).rows
    assert rows[0] == ("q0", "Request number 0", "tool/server/item-0")
    assert [row[0] for row in rows] == [f"q{i}" for i in range(20)]
