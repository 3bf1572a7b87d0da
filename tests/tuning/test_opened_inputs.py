"""Opening: all that is wrong with a tuning at once, with its lines, before anything is embedded or computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.io.errors import InputError
from ctxbench.tuning.inputs import open_tuning
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.results import TEST, TUNING


@pytest.fixture
def faults(ready):
    """What is said of a tuning: (file name or none, line, message)."""

    def found(*selectors, **given):
        with pytest.raises(InputError) as caught:
            ready(*selectors, **given)
        return [(Path(one.path).name if one.path else None, one.line, one.message) for one in caught.value.faults]

    return found


@pytest.fixture
def changed(shop, tmp_path):
    """A copy of the dataset with other queries or labels."""

    def write(name="copy", **change):
        dataset = read_dataset(shop)
        given = {key: value(dataset) for key, value in change.items()}
        write_dataset(replace(dataset, name=name, **given), tmp_path / name)
        return tmp_path / name

    return write


def test_both_splits_are_opened(ready):
    (opened,) = ready().datasets
    assert {split: len(query_set) for split, query_set in opened.query_sets.items()} == {TUNING: 120, TEST: 120}
    assert opened.of == {TUNING: 120, TEST: 120}
    assert set(opened.query_sets[TUNING].groups).isdisjoint(opened.query_sets[TEST].groups)


def test_a_sample_is_drawn_of_each_split(ready):
    (opened,) = ready(sample=50).datasets
    assert all(45 <= len(query_set) <= 50 for query_set in opened.query_sets.values()), "groups stay whole"
    assert opened.of == {TUNING: 120, TEST: 120}
    (again,) = ready(sample=50).datasets
    (elsewhere,) = ready(sample=50, seed=1).datasets
    ids = [query.id for query in opened.query_sets[TEST].dataset.queries]
    assert ids == [query.id for query in again.query_sets[TEST].dataset.queries]
    assert ids != [query.id for query in elsewhere.query_sets[TEST].dataset.queries]


@pytest.mark.parametrize(("kept", "lacking"), [("tuning", "test"), ("test", "tuning")])
def test_a_split_that_is_not_there(faults, changed, kept, lacking):
    folder = changed(
        queries=lambda one: tuple(replace(query, split=kept) for query in one.queries),
    )
    ((_, _, what),) = faults(datasets=[folder])
    assert what.values == {"dataset": "copy", "splits": [lacking], "command": f"ctxbench data split {folder}"}


@pytest.mark.parametrize("kept", ["tuning", "dev"])
def test_without_two_splits_all_labels_decide(ready, changed, kept):
    folder = changed(queries=lambda one: tuple(replace(query, split=kept) for query in one.queries))
    (opened,) = ready("semantic", datasets=[folder], labels="").datasets
    assert {split: len(query_set) for split, query_set in opened.query_sets.items()} == {"all": 240}
    assert opened.tuning_set is opened.evaluation_set


def test_queries_of_other_splits_are_neither_tuned_on_nor_read(ready, changed):
    folder = changed(
        queries=lambda one: tuple(
            replace(query, split="dev") if n < 10 else query for n, query in enumerate(one.queries)
        )
    )
    (opened,) = ready("semantic", datasets=[folder], labels="").datasets
    assert len(opened.tuning_set) == 230


def test_a_split_without_labels(faults, changed):
    test = {query.id for query in read_dataset(Path(changed("first"))).queries if query.split == "test"}
    folder = changed(
        labels=lambda one: tuple(label for label in one.labels if label.query not in test),
        queries=lambda one: tuple(replace(query, needs_nothing=False) for query in one.queries),
    )
    ((_, _, what),) = faults(datasets=[folder])
    assert what.key == "tuning.split-without-labels"
    assert what.values == {"dataset": "copy", "splits": ["test"], "command": f"ctxbench data split {folder}"}


def test_a_dataset_without_labels(faults, changed):
    folder = changed(
        labels=lambda _: (), queries=lambda one: tuple(replace(query, needs_nothing=False) for query in one.queries)
    )
    ((_, _, what),) = faults(datasets=[folder], labels="")
    assert what == f"dataset copy has no labelled query; label some with `ctxbench data label {folder}`"


def test_everything_at_once(faults, fitted, shop):
    found = faults(
        {"selector": "semantic", "search": {"contextMargin": [0.1]}},
        "everything",
        fitted("test"),
        embedder="hasching",
        datasets=["nowhere", shop],
    )
    starts = ["every value of contextMargin", "unknown embedder 'hasching'", "unknown dataset 'nowhere'"]
    assert [what[: len(start)] for (_, _, what), start in zip(found, starts, strict=True)] == starts


def test_what_ranks_nothing(faults):
    ((file, line, what),) = faults("semantic", "everything")
    assert {**what.values, "reason": what.values["reason"].key} == {
        "selector": "everything",
        "dataset": "shop",
        "reason": "tuning.nothing-to-cut",
    }
    assert (file, line) == ("file.yaml", 4)


def test_a_metric_that_applies_to_no_query_is_no_fault(ready):
    policy = {"minimise": "tokens", "constraints": [{"metric": "dependency_recall", "at_least": 0.8}]}
    (opened,) = ready("semantic", policies={"deep": policy}).datasets
    assert opened.unanswered == {"deep": "dependency_recall applies to none of the 120 labelled queries"}


def test_a_selector_that_does_not_suit_a_dataset_is_left_out_of_it(ready, fitted, changed, selector):
    """Its fit is for another catalog; the base must suit, see `test_a_fit_for_another_catalog`."""
    folder = changed(catalog=lambda one: type(one.catalog)([*one.catalog][:52][::-1]))
    fitted(what="abstention", split="tuning")
    silent = selector([{"abstain": {"calibration": "fits.json", "threshold": 0.1}}, {"first": {"n": 5}}])
    (opened,) = ready("semantic", silent, datasets=[folder]).datasets
    assert list(opened.left_out) == ["own"]
    assert "has no abstention fit for this catalog" in opened.left_out["own"]


def test_a_dataset_named_twice(faults, shop):
    ((_, _, what),) = faults(datasets=[shop, shop])
    assert (what.key, what.values) == ("tuning.dataset-twice", {"dataset": "shop"})


def test_what_reports_call_otherwise(faults, changed, shop):
    aggressive = {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.8}]}
    ((_, _, what),) = faults(policies={"everything": aggressive})
    assert what.key == "tuning.reserved-policy-name"
    ((_, _, what),) = faults(datasets=[shop, changed("together")], together=True)
    assert what.key == "tuning.reserved-dataset-name"


def test_together_needs_a_sweep(faults, selector, shop, other):
    file = selector([{"gap": {"at_least": 1, "at_most": "$n"}}], {"n": {"default": 5, "range": [1, 9]}})
    ((_, _, what),) = faults(file, datasets=[shop, other], together=True)
    assert what.key == "tuning.together-needs-sweep"


def test_what_must_be_run_cannot_be_out_of_fold(faults, fitted):
    text = """\
name: probable
parameters:
  n: {default: 3, range: [1, 9]}
pipeline:
  retrieve:
    dense: {depth: 100}
  refine:
    - probability: {calibration: fits.json}
    - gap: {at_least: 1, at_most: $n}
"""
    ((_, _, what),) = faults(fitted(text=text))
    reason = what.values["reason"]
    assert (reason.key, [*reason.values["parameters"]]) == ("tuning.fitted-and-run", ["n"])


def test_a_fit_of_another_catalog_carries_over(ready, fitted, changed):
    folder = changed(catalog=lambda one: type(one.catalog)([*one.catalog][:52][::-1]))
    started = ready(fitted(), datasets=[folder])
    query_set = started.datasets[0].query_sets["tuning"]
    assert not started.tunables[0].rank(query_set).refitted


def test_abstention_fitted_on_another_catalog(faults, fitted, changed):
    folder = changed(catalog=lambda one: type(one.catalog)([*one.catalog][:52][::-1]))
    text = """\
name: careful
parameters:
  n: {default: 3, range: [0, 9]}
pipeline:
  retrieve:
    dense: {depth: 100}
  refine:
    - abstain: {calibration: fits.json}
    - first: {n: $n}
"""
    file = fitted(what="abstention", text=text)
    found = faults(file, datasets=[folder])
    assert len(found) == 1
    assert "selector 'careful' on dataset copy: " in found[0][2]
    assert "has no abstention fit for this catalog" in found[0][2]


def test_nothing_is_embedded(policies, shop, monkeypatch, fitted):
    from ctxbench.search.embedders import HashingEmbedder

    file = fitted()

    def embed(*_args, **_given):
        raise RuntimeError("embedded")

    monkeypatch.setattr(HashingEmbedder, "embed", embed)
    ready = open_tuning(read_policies(policies("semantic", "semantic-domains", file)), [str(shop)])
    assert [one.name for one in ready.tunables] == ["semantic", "semantic-domains", "probability"]
