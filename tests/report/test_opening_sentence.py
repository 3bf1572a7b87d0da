"""The sentence that names the winner of a run, and its price."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ctxbench.report.run_tables import run_answer, winner

BASE = "semantic/spec"


def against(complete, tokens, *, base=(0.96, 541.0)):
    """Comparisons with the base; a tuple is a difference that is not significant."""

    def compared(value, mean):
        difference = value if isinstance(value, float) else value[0]
        half = abs(difference) / 2 if isinstance(value, float) else abs(difference) + 0.02
        interval = SimpleNamespace(low=difference - half, high=difference + half)
        significant = isinstance(value, float)
        return SimpleNamespace(
            n=9, significant=significant, difference=difference, base=mean, other=mean + difference, interval=interval
        )

    pairs = {"completeness": (complete, base[0]), "tokens": (tokens, base[1])}
    return {name: compared(*pair) for name, pair in pairs.items() if pair[0] is not None}


def run(*datasets, base=BASE, errors=0, estimates=None):
    """A run over datasets, each a comparison by selector."""
    made = [
        SimpleNamespace(
            dataset=f"d{number}",
            selectors=[
                SimpleNamespace(selector=name, against=row, errors=errors, queries=9, estimates=estimates or {})
                for name, row in {base: {}, **rows}.items()
            ],
        )
        for number, rows in enumerate(datasets)
    ]
    return SimpleNamespace(compare_to=base, datasets=made)


SENTENCES = {
    "cheaper": (
        "learned/normal offers all that is needed for 97.0% of requests at 365 tokens; semantic/spec for 96.0% at 541 "
        "(completeness: not significant; tokens: significant)."
    ),
    "better": "a offers all that is needed for 99.0% of requests at 600 tokens; semantic/spec for 96.0% at 541.",
    "base": (
        "semantic/spec offers all that is needed for 96.0% of requests at 541 tokens; a for 95.0% at 550 "
        "(completeness and tokens: not significant)."
    ),
    "worse": "semantic/spec offers all that is needed for 96.0% of requests at 541 tokens; bm25 for 76.0% at 241.",
    "few queries": (
        "semantic/spec offers all that is needed for 96.0% of requests at 541 tokens; a for 86.0% at 441 "
        "(completeness: not significant; tokens: significant)."
    ),
    "equal": "semantic/spec and twin tie: each offers all that is needed for 96.0% of requests at 541 tokens.",
    "no tokens": (
        "a offers all that is needed for 99.0% of requests; semantic/spec for 96.0%; tokens were not measured."
    ),
    "bounds": (
        "a offers all that is needed for 96.0% of requests at 535 tokens; semantic/spec for 96.0% at 541 "
        "(completeness: not significant; tokens: significant)."
    ),
}
ROWS = {
    "cheaper": {"learned/normal": against((0.01,), -176.0)},
    "better": {"a": against(0.03, 59.0), "bm25": against(-0.2, -300.0)},
    "base": {"a": against((-0.01,), (9.0,)), "bm25": against(-0.2, -300.0)},
    "worse": {"bm25": against(-0.2, -300.0)},
    "few queries": {"a": against((-0.1,), -100.0)},
    "equal": {"twin": against((0.0,), (0.0,))},
    "no tokens": {"a": against(0.03, None)},
    "bounds": {"everything": against(0.04, 9000.0), "oracle": against(0.04, -300.0), "a": against((0.0001,), -6.0)},
}


@pytest.mark.parametrize("case", ROWS)
def test_it_names_the_winner_what_it_is_compared_with_and_the_price(case):
    assert run_answer(run(ROWS[case])) == SENTENCES[case]


def test_the_cheapest_of_those_as_complete_as_the_best_wins():
    rows = {
        "best": against(0.20, 400.0),  # interval 0.10 to 0.30
        "close": against(0.15, -100.0),
        "less": against(0.05, -400.0),
    }
    (dataset,) = run(rows).datasets
    assert winner(dataset, BASE) == "close"
    (dataset,) = run({**rows, "close": against(0.14, -100.0)}).datasets
    assert winner(dataset, BASE) == "best", "six points are not as complete"
    (dataset,) = run({"everything": against(0.1, 9.0)}).datasets
    assert winner(dataset, BASE) == ""


def test_everything_as_the_baseline_is_compared_with_and_never_chosen():
    rows = {"a": against(-0.03, -24_000.0, base=(1.0, 25_000.0)), "b": against(-0.5, -24_500.0, base=(1.0, 25_000.0))}
    assert run_answer(run(rows, base="everything")) == (
        "a offers all that is needed for 97.0% of requests at 1,000 tokens; everything for 100.0% at 25,000."
    )


def test_a_loss_that_is_not_significant_is_said_to_be_possible():
    made = run({"a": against((-0.086,), -1700.0, base=(1.0, 2550.0))}, base="everything")
    assert run_answer(made) == (
        "a offers all that is needed for 91.4% of requests at 850 tokens; everything for 100.0% at 2,550 "
        "(completeness: not significant; a loss of up to 19.2 points is not excluded; tokens: significant)."
    )


def test_tokens_are_those_in_all_where_sessions_hold_items():
    estimates = {
        "completeness": SimpleNamespace(value=0.9, n=9),
        "tokens": SimpleNamespace(value=541.0, n=9),
        "total_tokens": SimpleNamespace(value=856.0, n=9),
    }
    assert run_answer(run({"a": against(-0.2, -300.0)}, estimates=estimates)) == (
        "semantic/spec offers all that is needed for 96.0% of requests at 856 tokens in all; a for 76.0% at 556."
    )
    assert run_answer(run({}, estimates=estimates)).endswith("for 90.0% of requests at 856 tokens in all.")


def test_over_several_datasets_figures_are_ranges():
    made = run({"a": against(0.03, -54.0)}, {"a": against((0.0,), -270.0), "bm25": against(-0.1, -400.0)})
    assert run_answer(made) == (
        "Best on 2 of 2 datasets: a offers all that is needed for 96.0% to 99.0% of requests at 271 to 487 tokens; "
        "semantic/spec for 96.0% at 541."
    )
    assert run_answer(made, made.datasets[0]) == (
        "a offers all that is needed for 99.0% of requests at 487 tokens; semantic/spec for 96.0% at 541."
    )
    made = run({"a": against((0.03,), -54.0)}, {"a": against(0.02, -270.0)})
    assert run_answer(made).endswith("at 541 (completeness: significant on 1 of 2; tokens: significant on 2 of 2).")
    assert run_answer(run({"a": against(-0.1, 54.0)}, {"a": against(-0.1, 54.0)})).startswith(
        "Best on 2 of 2 datasets: semantic/spec offers all that is needed for 96.0% of requests at 541 tokens; a for 86"
    )


def test_failures_are_said():
    assert run_answer(run({"a": against(0.03, -54.1)}, errors=2)).endswith(
        ". semantic/spec failed on 2 of 9 queries. a failed on 2 of 9 queries."
    )


def test_without_a_comparison_it_is_said_why_there_is_no_winner():
    estimates = {
        "completeness": SimpleNamespace(value=0.275, n=9),
        "tokens": SimpleNamespace(value=1201.0, n=9),
    }
    assert run_answer(run({}, estimates=estimates)) == (
        "semantic/spec offers all that is needed for 27.5% of requests at 1,201 tokens."
    )
    assert run_answer(run({})) == "No winner: completeness is not known without labels."
    assert run_answer(run({"oracle": {}}, estimates=estimates)) == (
        "No winner: nothing but oracle, everything and random was compared with the baseline."
    )
