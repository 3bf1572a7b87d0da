"""The Markdown report: every figure stands with what it was measured on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset
from ctxbench.evaluation.run_folder import DatasetSummary, RunSummary, SelectorSummary
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.model.strategies import Step
from ctxbench.pipelines.strategies.retrieve import Bm25
from ctxbench.report.run_text import markdown_report

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"


def estimate(value: float, low: float, high: float) -> Estimate:
    interval = Interval(low=low, high=high, level=0.95, method="Wilson", holds=True)
    return Estimate(value=value, interval=interval, n=8, left_out=0)


def selector(name: str, completeness: Estimate, against: dict[str, Comparison]) -> SelectorSummary:
    found = {"completeness": completeness}
    return SelectorSummary(
        selector=name, estimates=found, unavailable={}, errors=0, queries=8, against=against, notes={}
    )


@pytest.fixture
def dataset() -> Dataset:
    about = {"labelling": "By\nhand | twice.", "notes": ["Two oddities.", {"a": 1}]}
    return replace(read_dataset(TINY), name="desk", about=about)


@pytest.fixture
def summary() -> RunSummary:
    interval = Interval(low=-0.081, high=-0.0394, level=0.95, method="Bonett-Price", holds=True)
    worse = Comparison(
        n=8, left_out=0, base=0.5, other=0.44, difference=-0.06, interval=interval, higher=1, lower=2, equal=5,
        square=0.1, standardised=0.1, p=0.001, p_holm=0.001, test="exact McNemar", alpha=0.05, needed=None,
    )  # fmt: skip
    base = selector("base", estimate(0.96, 0.936, 0.9752), {})
    other = selector("a|b", estimate(0.9, 0.86, 0.93), {"completeness": worse})
    about = {"name": "trial", "about": "Which?", "compare_to": "base", "metrics": ["completeness"], "split": "test"}
    manifest = {
        "experiment": about,
        "tokens": "o200k_base",
        "embedder": {"model": "some/model", "dimensions": 3},
        "selectors": {
            "base": {"about": "The base.", "values": {"n": 5}, "identities": {"embedder": "some"}},
            "a|b": {"pipeline": {"retrieve": Step("retrieve", "bm25", Bm25()).describe()}},
        },
    }
    one = DatasetSummary(dataset="desk", queries=8, unlabelled=2, items=15, selectors=(base, other))
    return RunSummary(manifest=manifest, datasets=(one,))


def lines(summary: RunSummary, dataset: Dataset) -> list[str]:
    return markdown_report(summary, {"desk": dataset}).splitlines()


def test_what_every_figure_was_measured_on_is_said(summary, dataset):
    text = lines(summary, dataset)
    assert text[2] == (
        "**base offers all that is needed for 50.0% of requests; a\\|b for 44.0%; tokens were not measured.**"
    )
    assert text[4] == "Which?"
    assert "* Split: test." in text
    assert any(line.startswith("* Item text, which pipelines search: `name: description`") for line in text)
    assert (
        "* Words of BM25: runs of letters and digits, case-folded, identifiers by their parts; English endings taken "
        "off, common English words and single characters left out; a tool's server is searched, too."
    ) in text
    groups = {(i.query, i.alternatives or i.item.id) for i in dataset.labels if i.grade == 2}
    assert any(f"Requirements: {len(groups)}, alternatives counted once" in line for line in text)
    assert any("Prompt tokens are those of `o200k_base`." in line for line in text)
    assert "* Embeddings: model some/model, dimensions 3." in text
    assert "* `base`: The base (n 5)." in text
    assert "## desk: 8 queries of split test, 15 items" in text
    assert "* Labels: By hand \\| twice." in text
    assert text[text.index("* Labels: By hand \\| twice.") + 1 :][:2] == ["  * Two oddities.", "  * a 1"]
    assert any("2 queries without full labels left out" in line for line in text)
    assert f"content `{dataset.hash[:12]}`" in "\n".join(text)


def test_tables_hold_values_with_intervals_and_the_comparison(summary, dataset):
    text = lines(summary, dataset)
    at = text.index("| selector | completeness % |")
    assert text[at : at + 4] == [
        "| selector | completeness % |",
        "| --- | ---: |",
        "| **base** | 96.0 (93.6–97.5) |",
        "| a\\|b | 90.0 (86.0–93.0) |",
    ]
    assert "| a\\|b | −6.0 (−8.1 to −3.9), p=0.0010 |" in text


def test_without_a_split_all_queries_are_named(summary, dataset):
    experiment = {**summary.manifest["experiment"], "split": ""}
    other = replace(summary, manifest={**summary.manifest, "experiment": experiment})
    assert "* Split: all queries, tuning and test together." in lines(other, dataset)
    assert "## desk: 8 queries, 15 items" in lines(other, dataset)


def test_what_no_selector_uses_is_not_said(summary, dataset):
    other = replace(summary, manifest={**summary.manifest, "selectors": {"base": {}, "a|b": {}}})
    assert not any("BM25" in line or "Embeddings" in line for line in lines(other, dataset))


def test_sentences_of_a_list_are_joined_by_blanks(summary, dataset):
    about = {"labelling": "x", "notes": {"remarks": ["One.", "Two."], "counted": {"a": 1}}}
    text = lines(summary, replace(dataset, about=about))
    assert "  * remarks: One. Two." in text
    assert "  * counted: a 1" in text


def test_a_name_that_a_terminal_would_obey_is_made_fit_where_it_is_explained(summary, dataset):
    name = "mine\x1b[2J\u202e\n"
    other = replace(
        summary, manifest={**summary.manifest, "selectors": {name: {"about": "x\x9b", "values": {"n": "\x1b"}}}}
    )
    assert "* `mine\ufffd[2J\ufffd\ufffd`: x\ufffd (n \ufffd)." in lines(other, dataset)


def test_texts_of_a_dataset_and_names_are_no_markup(summary, dataset):
    bad = "<img src=x onerror=alert(1)> [go](http://x.example) @team <script>1</script>"
    about = {"labelling": bad, "notes": ["# Head", bad]}
    named = replace(summary.datasets[0].selectors[1], selector=bad)
    part = replace(summary.datasets[0], selectors=(summary.datasets[0].selectors[0], named))
    experiment = {**summary.manifest["experiment"], "name": bad, "about": f"> {bad}"}
    manifest = {**summary.manifest, "experiment": experiment, "selectors": {"base": {}, bad: {"about": bad}}}
    text = lines(RunSummary(manifest=manifest, datasets=(part,)), replace(dataset, about=about))
    outside_code = "\n".join(re.sub("`.*?`", "", line) for line in text)
    assert not re.search(r"(?<!\\)<(img|script|/script)|(?<!\\)\[go|@team|http://", outside_code)
    assert "  * \\# Head" in text
