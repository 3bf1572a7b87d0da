"""What the console says of a run; the run is made by hand in conftest.py."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ctxbench.evaluation.run_folder import DatasetSummary, RunSummary, SelectorSummary, summarise_run
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.report.run_tables import comparison_table
from ctxbench.report.run_text import console_tables, print_summary


def printed(summary: RunSummary, width: int = 140) -> str:
    out = io.StringIO()
    print_summary(summary, out, width=width)
    return out.getvalue()


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


def estimate(value: float, low: float, high: float, *, method: str = "Wilson", holds: bool = True) -> Estimate:
    interval = Interval(low=low, high=high, level=0.95, method=method, holds=holds)
    return Estimate(value=value, interval=interval, n=400, left_out=0)


def comparison(difference: float, low: float, high: float, *, p: float, needed: int | None = None) -> Comparison:
    interval = Interval(low=low, high=high, level=0.95, method="Bonett-Price", holds=True)
    return Comparison(
        n=400, left_out=0, base=0.5, other=0.5, difference=difference, interval=interval, higher=1, lower=2, equal=397,
        square=0.1, standardised=0.1, p=p, p_holm=p, test="exact McNemar", alpha=0.05, needed=needed,
    )  # fmt: skip


def selector(name: str, estimates: dict[str, Estimate], against: dict[str, Comparison]) -> SelectorSummary:
    return SelectorSummary(
        selector=name, estimates=estimates, unavailable={}, errors=0, queries=400, against=against, notes={}
    )


@pytest.fixture
def summary() -> RunSummary:
    """Two selectors; figures chosen so that each is written in a way of its own."""
    spent = estimate(540.66, 532.85, 548.81, method="t")
    base = selector("base", {"completeness": estimate(0.96, 0.936, 0.9752), "tokens": spent}, {})
    spent = estimate(40013.0, 40013.0, 40013.0, method="t", holds=False)
    other = selector(
        "other [bold]",
        {"completeness": estimate(0.9, 0.86, 0.93), "tokens": spent},
        {
            "completeness": comparison(-0.06, -0.081, -0.0394, p=0.00027),
            "tokens": comparison(39472.3, -5.0, 60000.0, p=0.2, needed=128357),
        },
    )
    metrics = ["completeness", "tokens", "Comp@5", "abstention"]
    manifest = {
        "experiment": {"name": "trial", "compare_to": "base", "metrics": metrics},
        "tokens": "o200k_base",
        "selectors": {"base": {}, "other [bold]": {}},
    }
    dataset = DatasetSummary(dataset="desk", queries=1400, unlabelled=0, items=1, selectors=(base, other))
    return RunSummary(manifest=manifest, datasets=(dataset,))


def test_the_heading_names_dataset_queries_and_items(summary: RunSummary) -> None:
    answer, blank, heading, *_ = printed(summary).splitlines()
    assert answer.startswith("base and other [bold] tie: each offers all that is needed for ")
    assert (blank, heading) == ("", "desk: 1,400 queries, 1 item")


def test_shares_are_per_cent_tokens_whole_and_intervals_stand_behind(summary: RunSummary) -> None:
    assert line_of(printed(summary), "base (baseline)").split() == [
        "base",
        "(baseline)",
        "96.0",
        "93.6–97.5",
        "541",
        "533–549",
    ]


def with_tokens(summary: RunSummary, spent: Estimate) -> RunSummary:
    (dataset,) = summary.datasets
    base, other = dataset.selectors
    changed = replace(other, estimates={**other.estimates, "tokens": spent})
    return replace(summary, datasets=(replace(dataset, selectors=(base, changed)),))


def test_thousands_are_separated_and_an_interval_that_does_not_hold_is_marked(summary: RunSummary) -> None:
    text = printed(with_tokens(summary, estimate(40013.0, 39000.0, 41000.0, method="t", holds=False)))
    assert "40,013  39,000–41,000~" in line_of(text, "other [bold]")
    assert "~ behind an interval: there are too few queries" in " ".join(text.split())


def test_where_all_values_are_equal_there_is_no_interval_and_no_mark(summary: RunSummary) -> None:
    text = printed(summary)
    assert line_of(text, "other [bold]").split()[-1] == "40,013"
    assert "~" not in text


def test_a_mark_behind_a_difference_alone_is_explained_too(summary: RunSummary) -> None:
    (dataset,) = summary.datasets
    base, other = dataset.selectors
    loose = {name: replace(one, interval=replace(one.interval, holds=False)) for name, one in other.against.items()}
    changed = replace(dataset, selectors=(base, replace(other, against=loose)))
    assert "~ behind an interval: there are too few" in " ".join(printed(replace(summary, datasets=(changed,))).split())


def test_without_a_column_nothing_is_said_of_sizes(summary: RunSummary) -> None:
    (dataset,) = summary.datasets
    bare = replace(dataset, selectors=tuple(replace(one, estimates={}, against={}) for one in dataset.selectors))
    table = comparison_table(replace(summary, datasets=(bare,)), bare)
    assert (table.columns, table.notes) == ((), ())


def test_a_difference_that_is_told_apart_has_its_p_value(summary: RunSummary) -> None:
    compared = printed(summary).split("Against base (baseline)")[1]
    assert "−6.0  (−8.1 to −3.9)  p=0.0003" in line_of(compared, "other [bold]")


def test_a_difference_that_is_not_says_so_and_how_many_queries_would_tell(summary: RunSummary) -> None:
    compared = printed(summary, width=180).split("Against base (baseline)")[1]
    expected = "+39,472  (−5.0 to +60,000)  not significant  about 130,000 queries would tell"
    assert expected in line_of(compared, "other [bold]")


def test_verdicts_come_from_the_comparison_alone(summary: RunSummary) -> None:
    (dataset,) = summary.datasets
    base, other = dataset.selectors
    strict = {name: replace(found, alpha=1e-9) for name, found in other.against.items()}
    changed = replace(dataset, selectors=(base, replace(other, against=strict)))
    text = printed(replace(summary, datasets=(changed,)))
    assert text.partition("\n\n")[2].count("not significant") == 2
    assert "p=" not in text


def test_columns_without_any_value_are_left_out(summary: RunSummary) -> None:
    text = printed(summary)
    assert "Comp@5" not in text
    assert "none needed" not in text


def test_the_counter_n_and_methods_are_named(summary: RunSummary) -> None:
    text = " ".join(printed(summary).split())
    assert "counted by o200k_base." in text
    assert "n: how many queries, 400." in text
    assert "of 95%: where the mean" in text
    assert "(Methods: Wilson for complete; t for prompt tokens.)" in text
    assert "p: how often chance alone would give such a difference; up to 0.05 counts." in text
    assert "Holm's correction for 2 comparisons.)" in text


def test_figures_are_those_of_the_run(made_run) -> None:
    text = printed(summarise_run(made_run.folder))
    # completeness 2 of 4, tokens 40 + 32 + 37 + 0 + 18 + 0 over 6, items 8 / 6, one error of the user's selector
    assert line_of(text, "semantic/normal (baseline)").split()[2::2] == ["50.0", "21", "1.33", "0.25", "0"]
    assert line_of(text, "everything").split()[6] == "-"
    assert "- Comp@5 of everything: the selector returns no ranking" in text
    assert "failed on 1 of 6 queries; to fail counts as nothing offered." in text
    assert line_of(text.partition("\n\u2500")[2], "my <b>own</b>").rstrip().endswith(" 1")


def test_control_characters_of_names_do_not_reach_the_terminal(made_run) -> None:
    text = printed(summarise_run(made_run.folder))
    assert "\u202e" not in text
    assert "my <b>own</b>\ufffd selector" in text


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(made_run, width: int) -> None:
    text = printed(summarise_run(made_run.folder), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "  50.0  15.0–85.0~" in text
    assert "  25.0  4.6–69.9~" in text


def test_a_narrow_terminal_names_what_it_leaves_out_and_a_wide_one_shows_all(made_run) -> None:
    summary = summarise_run(made_run.folder)
    assert "Left out at this width, and on the page:" in printed(summary, 80)
    assert "same-server confusions" in printed(summary, 80).split("Left out at this width, and on the page:")[1]
    assert "Left out" not in printed(summary, 120)


def test_a_terminal_without_unicode_gets_plain_signs(summary: RunSummary) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_summary(summary, out, width=140)
    out.flush()
    text = out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "93.6-97.5" in text
    assert "-6.0  (-8.1 to -3.9)" in text


def test_a_run_without_datasets_says_what_is_measured_and_no_more(summary: RunSummary) -> None:
    parts = console_tables(replace(summary, datasets=()), console=Console(file=io.StringIO(), width=80))
    assert len(parts) == 3  # no winner, a blank line, and what is measured


@pytest.mark.parametrize("width", range(50, 100, 3))
def test_the_mark_of_the_baseline_is_never_broken(summary: RunSummary, width: int) -> None:
    (dataset,) = summary.datasets
    base, other = dataset.selectors
    rows = (replace(base, selector="agent"), replace(other, selector="ours", against={}))
    manifest = {**summary.manifest, "experiment": {**summary.manifest["experiment"], "compare_to": "agent"}}
    narrow = replace(summary, datasets=(replace(dataset, selectors=rows),), manifest=manifest)
    assert any("(baseline)" in line for line in printed(narrow, width).split("Against")[0].splitlines())


def with_many_metrics(summary: RunSummary, metrics: list[str], *, named: bool = True) -> RunSummary:
    """The summary where the user named metrics, each with a value but the last."""
    (dataset,) = summary.datasets
    found = {name: estimate(0.8765, 0.8123, 0.9234) for name in metrics[:-1]}
    rows = [replace(one, estimates={**found, **one.estimates}) for one in dataset.selectors]
    experiment = {**summary.manifest["experiment"], "metrics": metrics, "metrics_named": named}
    return replace(
        summary,
        datasets=(replace(dataset, selectors=tuple(rows)),),
        manifest={**summary.manifest, "experiment": experiment},
    )


NAMED = ["completeness", "tokens", "R@5", "R@10", "P@5", "RR", "nDCG@10", "Success@20", "precision"]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_metric_that_was_named_is_shown_at_any_width(summary: RunSummary, width: int) -> None:
    text = printed(with_many_metrics(summary, NAMED), width)
    heads = [line.split() for line in text.split("Against")[0].splitlines() if line.startswith("selector")]
    shown = [word for head in heads for word in head]
    assert [name for name in shown if name in NAMED] == NAMED[1:]
    assert text.count("87.6") + text.count("87.7") == 2 * 6, "a figure a selector"
    assert text.count("81.2\u201392.3") == 2 * 6, "each with its interval"
    assert all(len(line) <= width for line in text.splitlines())
    assert "Left out" not in text
    assert (len(heads) == 1) is (width == 200)


def test_a_named_metric_without_a_value_says_why(summary: RunSummary) -> None:
    text = printed(with_many_metrics(summary, NAMED), 200)
    assert "- precision of base and other [bold]: not computed." in text


def test_a_figure_that_is_wider_than_the_console_is_broken_and_not_cut(summary: RunSummary) -> None:
    (dataset,) = summary.datasets
    wide = estimate(12345678901.0, 11345678901.0, 13345678901.0)
    rows = tuple(replace(one, estimates={"tokens": wide}, against={}) for one in dataset.selectors)
    manifest = {**summary.manifest, "experiment": {"compare_to": "base", "metrics": ["tokens"], "metrics_named": True}}
    text = printed(replace(summary, datasets=(replace(dataset, selectors=rows),), manifest=manifest), 40)
    assert text.count("12,345,678,901") == 2
    assert "".join(text.split()).count("11,345,678,901\u2013") == 2


def test_the_usual_metrics_are_those_that_decide(summary: RunSummary) -> None:
    text = printed(with_many_metrics(summary, NAMED, named=False), 200)
    assert "complete %" in text
    assert "nDCG@10" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_an_agent_with_a_shipped_selector_is_called_so(summary: RunSummary, width: int) -> None:
    manifest = {**summary.manifest, "selectors": {"base": {"shipped": "learned/normal"}, "other [bold]": {}}}
    text = printed(replace(summary, manifest=manifest), width)
    assert "base (= learned/normal, shipped) (baseline)" in " ".join(text.split("Against")[1].split())
    first = text.split("Against")[0].partition("\n\n")[2]
    for word in ("base (=", "learned/normal,", "shipped)", "(baseline)"):
        assert word in first
    assert ("prompt tokens" in first) is (width >= 60), "the name is broken before a column is dropped"
    assert ("base (= learned/normal, shipped)" in first) is (width >= 80)


def test_a_p_value_at_its_floor_is_a_bound(summary: RunSummary) -> None:
    (dataset,) = summary.datasets
    base, other = dataset.selectors
    against = {name: replace(one, p_holm=0.0002, p_holm_at_floor=True) for name, one in other.against.items()}
    text = printed(replace(summary, datasets=(replace(dataset, selectors=(base, replace(other, against=against))),)))
    assert text.count("p <= 0.0002") == 2
    assert "p=0.0002" not in text
