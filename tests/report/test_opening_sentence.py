"""The sentence that reports of a run open with."""

from __future__ import annotations

from types import SimpleNamespace

from ctxbench.report.run_tables import run_answer

BASE = "semantic/normal"


def against(complete, tokens):
    """Comparisons with the base; a tuple is a difference that cannot be told from chance."""

    def one(value):
        told = not isinstance(value, tuple)
        return SimpleNamespace(n=9, significant=told, difference=value if told else value[0])

    return {"completeness": one(complete), "tokens": one(tokens)}


def run(*datasets):
    """A run over datasets, each a comparison by selector."""
    names = dict.fromkeys([BASE, *(name for one in datasets for name in one)])
    made = [
        SimpleNamespace(
            dataset=f"d{number}",
            selectors=[
                SimpleNamespace(selector=BASE, against={}),
                *(SimpleNamespace(selector=name, against=found) for name, found in one.items()),
            ],
        )
        for number, one in enumerate(datasets)
    ]
    return SimpleNamespace(compare_to=BASE, manifest={"selectors": names}, datasets=made)


def test_on_one_dataset_differences_are_told():
    said = run_answer(run({"bm25": against(-0.06, (20.0,)), "oracle": against(0.4, -300.0)}))
    assert said == (
        "Beside semantic/normal: bm25 −6.0 points of completeness and +20 prompt tokens a query (not significant)."
    )


def test_over_several_it_is_told_on_how_many_and_the_best_stand_first():
    first = {"bm25": against(-0.1, 5.0), "mine": against(0.1, -30.0), "oracle": against(0.9, -90.0)}
    second = {"bm25": against(0.2, (1.0,)), "mine": against((0.01,), -30.0), "oracle": against(0.9, -90.0)}
    assert run_answer(run(first, second)) == (
        "Beside semantic/normal, on 2 datasets: mine is more complete on 1, and costs fewer prompt tokens on 2; bm25 "
        "is more complete on 1 and less on 1, and costs more prompt tokens on 1. On the rest no difference shows."
    )


def test_four_are_named_and_bounds_are_not():
    names = [f"s{n}" for n in range(6)]
    found = {name: against((0.0,), (0.0,)) for name in (*names, "everything", "random/half")}
    said = run_answer(run(found, found))
    assert [name for name in names if name in said] == names[:4]
    assert said.endswith("; and 2 more below.")
    assert "everything" not in said
    assert "random" not in said


def test_where_no_difference_shows_it_is_said_once():
    assert run_answer(
        run({"a": against((0.0,), (0.0,)), "b": against((0.1,), (-3.0,)), "c": against(0.2, (0.0,))})
    ) == (
        "Beside semantic/normal: c +20.0 points of completeness and 0.0 prompt tokens a query (not significant); "
        "for a and b no difference shows."
    )
    same, less = against((0.0,), (0.0,)), against(-0.1, 5.0)
    assert run_answer(run({"bm25": less}, {"bm25": less}, {"bm25": same})) == (
        "Beside semantic/normal, on 3 datasets: bm25 is less complete on 2, and costs more prompt tokens on 2. "
        "On the rest no difference shows."
    )
    assert run_answer(run({"bm25": less}, {"bm25": less})).endswith("costs more prompt tokens on 2.")


def test_without_a_comparison_there_is_no_sentence():
    assert run_answer(run({}, {})) == ""
    assert run_answer(run({"oracle": against(0.1, 0.1)})) == ""
    assert run_answer(run({"mine": {}}, {"mine": {}})) == ""
