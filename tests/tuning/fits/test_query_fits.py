"""Fits: what they are made from, what they give out of fold, and what cannot be fitted."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import Label
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model.requests import Batch, Request
from ctxbench.pipelines.features import LABELLED, TEXT, Logistic
from ctxbench.pipelines.fits import describe_context, read_calibrations, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import Abstain, AtLeast
from ctxbench.pipelines.strategies.rank import Probability
from ctxbench.tuning.fit_examples import folds_of, groups_of, labelled_queries, make_examples
from ctxbench.tuning.query_fits import (
    columns_of,
    fit,
    fit_values,
    fit_with_prior,
    fit_without_prior,
    measure,
    out_of_fold,
    shipped_fit,
)
from tests.tuning.fits.fit_cases import CATALOG, PIPELINE, dataset, query, words_dataset

SCRIPT = Path(__file__).parents[3] / "experiments" / "learned" / "pooled.py"
SPEC = importlib.util.spec_from_file_location("pooled", SCRIPT)
POOLED = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(POOLED)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return words_dataset()


@pytest.fixture(scope="module")
def repeated(data) -> Dataset:
    """The same queries, each a group of its own, as where different people ask for the same."""
    return replace(data, queries=tuple(replace(one, group=None) for one in data.queries))


@pytest.fixture(scope="module")
def resources():
    return testing.mock_resources()


class TestExamples:
    def test_a_row_for_every_candidate(self, data, resources):
        made = make_examples("probability", data, PIPELINE, resources)
        assert made.n_queries == 24
        assert len(made.label) == 24 * 8
        assert made.label.sum() == 16
        assert made.needs.sum() == 16
        assert [made.label[rows].all() for rows in made.required_rows] == [True] * 16

    def test_a_row_for_every_request(self, data, resources):
        made = make_examples("abstention", data, PIPELINE, resources)
        assert made.label.tolist() == [True, True, False] * 8
        assert made.vectors.shape == (24, resources.vectors(["x"]).shape[1])

    def test_alternatives_are_one_need(self, resources):
        labels = [Label("a", CATALOG[n].key, 2, alternatives="x") for n in (0, 1)] + [Label("a", CATALOG[2].key, 2)]
        made = make_examples("probability", dataset([query("a", "area")], labels), PIPELINE, resources)
        assert sorted(len(rows) for rows in made.required_rows) == [1, 2]
        assert made.label.sum() == 3

    def test_cuts_do_not_run(self, data, resources):
        cut = Pipeline.of({"retrieve": "dense", "refine": [{"first": {"n": 1}}]})
        one, other = (make_examples("probability", data, p, resources) for p in (PIPELINE, cut))
        assert np.array_equal(one.features, other.features)

    def test_a_part_is_what_the_part_would_give(self, data, resources):
        made = make_examples("probability", data, PIPELINE, resources)
        keep = np.arange(24) % 2 == 0
        part = made.select_queries(keep)
        alone = make_examples("probability", data.take(np.array(made.ids)[keep].tolist()), PIPELINE, resources)
        for name in ("features", "label", "query", "needed", "needs"):
            assert np.array_equal(getattr(part, name), getattr(alone, name)), name
        assert [rows.tolist() for rows in part.required_rows] == [rows.tolist() for rows in alone.required_rows]
        assert (part.ids, part.groups) == (alone.ids, alone.groups)

    def test_without_labels_there_is_nothing_to_fit(self):
        with pytest.raises(ParameterError, match="dataset made has no labelled query in split tuning"):
            labelled_queries(dataset([query("a", "area")], []), "tuning")

    def test_an_unknown_split_is_an_error(self, data):
        with pytest.raises(UnknownNameError, match="unknown split 'test'"):
            labelled_queries(data, "test")

    def test_abstention_needs_both_kinds_of_queries(self, data, resources):
        needy = data.take([one.id for one in data.queries if not one.needs_nothing])
        with pytest.raises(ParameterError, match="of 16 labelled queries all need an item"):
            make_examples("abstention", needy, PIPELINE, resources)
        idle = data.take([one.id for one in data.queries if one.needs_nothing])
        with pytest.raises(ParameterError, match="labelled queries none need an item"):
            make_examples("abstention", idle, PIPELINE, resources)

    def test_a_probability_needs_both_kinds_of_candidates(self, data, resources):
        idle = data.take([one.id for one in data.queries if one.needs_nothing])
        with pytest.raises(ParameterError, match="of the 64 candidates of 8 labelled queries none are required"):
            make_examples("probability", idle, PIPELINE, resources)


class TestFolds:
    def test_groups_stay_together_and_folds_are_of_one_size(self):
        groups = ["a"] * 4 + ["b"] * 2 + ["c"] * 2
        fold = folds_of(groups, 2)
        assert len(set(fold[:4])) == 1
        assert np.bincount(fold).tolist() == [4, 4]

    def test_the_order_of_queries_does_not_matter(self):
        groups = [f"g{n % 7}" for n in range(30)]
        back = folds_of(groups[::-1], 3)[::-1]
        assert np.array_equal(folds_of(groups, 3), back)

    def test_more_folds_than_groups_are_refused(self):
        with pytest.raises(ParameterError, match="folds must be 2 to the number of groups, which is 2, got 3"):
            folds_of(["a", "b"], 3)

    def test_a_conversation_is_a_group(self):
        spoken = replace(query("a", "x"), request=Request(id="a", text="x", conversation="c"))
        alone = (query("a", "x", group="g"), spoken, query("b", "x"))
        assert groups_of(alone) == ("group g", "conversation c", "query b")

    def test_a_conversation_across_groups_joins_them(self):
        """As a split does it: a turn tells of the next one, whatever group that is in."""
        spoken = Request(id="a", text="x", conversation="c")
        one, other = (replace(query(name, "x", group=name), request=replace(spoken, id=name)) for name in "hg")
        assert groups_of((one, query("i", "x"), other)) == ("group g", "query i", "group g")


class TestFit:
    def test_what_is_fitted_is_what_the_engine_says(self, data, resources, tmp_path):
        fits = [fit(what, data, PIPELINE, resources) for what in ("probability", "abstention")]
        path = tmp_path / "fits.json"
        write_calibrations(path, fits)
        assert read_calibrations(path).fits == tuple(fits)
        made = make_examples("probability", data, PIPELINE, resources, columns=columns_of(requests=True))
        outcome = PIPELINE.run(data.batch(), resources)
        scored = Probability(str(path))(outcome.query, outcome.candidates, resources)
        model = Logistic.read(fits[0].values)
        said = model.probabilities(made.columns(model.columns))
        assert sorted(scored.score.tolist()) == sorted(said.tolist())
        first = scored.start[:-1][made.needs]
        assert (scored.item[first] == np.repeat(np.arange(8), 2)).all()  # it has learned what shared words are worth

    def test_what_stands_in_a_fit(self, data, resources):
        found = fit("abstention", data, PIPELINE, resources, split="all")
        assert (found.kind, found.dataset, found.split, found.queries) == ("abstention", "made", "all", 24)
        assert (found.catalog, found.dataset_hash) == (CATALOG.hash, data.hash)
        assert found.embedder == resources.identity("embedder")
        assert found.behind == describe_context(PIPELINE)

    def test_a_fit_is_the_same_again_and_for_shuffled_queries(self, data, resources):
        mixed = Dataset(name="made", version="1", catalog=CATALOG, queries=data.queries[::-1], labels=data.labels)
        one, again, other = (fit("abstention", d, PIPELINE, resources).values for d in (data, data, mixed))
        assert one == again
        assert other["intercept"] == pytest.approx(one["intercept"], rel=1e-3)

    def test_weights_are_those_of_the_fusion(self, data, resources):
        needy = data.take([one.id for one in data.queries if not one.needs_nothing])
        merged = Pipeline.of({"retrieve": {"merge": ["dense", "bm25"]}})
        found = fit("weights", needy, merged, resources)
        assert set(found.values["weights"]) == {"dense", "bm25"}
        assert sum(found.values["weights"].values()) == pytest.approx(1)

    def test_weights_without_a_merge_are_refused(self, data, resources):
        with pytest.raises(ParameterError, match="merge"):
            fit("weights", data, PIPELINE, resources)


class TestProbability:
    def test_it_is_fitted_around_the_shipped_one(self, data, resources):
        found = fit("probability", data, PIPELINE, resources)
        known = Logistic.read(shipped_fit().values)
        made = make_examples("probability", data, PIPELINE, resources, columns=columns_of(requests=True))
        assert found.values == fit_with_prior(made, known) == fit_values(made)
        own = Logistic.read(found.values)
        assert own.columns == TEXT
        shipped = [own.columns.index(name) for name in known.columns]
        assert own.scale[shipped].tolist() == known.scale.tolist()
        assert (own.low[shipped] <= known.low).all()
        assert (own.high[shipped] >= known.high).all()

    def test_where_requests_repeat_themselves_it_keeps_them(self, repeated, resources):
        found = fit("probability", repeated, PIPELINE, resources)
        own = Logistic.read(found.values)
        assert own.columns == (*TEXT, *LABELLED)
        assert (own.weights[-2:] > 0).all()
        assert own.low[-2:].tolist() == [0.0, 0.0]
        assert own.high[-2:].tolist() == [1.0, 1.0]
        ids, groups, texts, items = zip(*found.values["requests"], strict=True)
        assert list(ids) == [one.id for one in repeated.queries]
        assert list(texts) == [one.request.text for one in repeated.queries]
        assert groups == tuple(range(len(ids)))
        assert list(items[0]) == [CATALOG[0].id]

    def test_where_no_two_need_the_same_item_it_keeps_none(self, data, resources):
        """Of what others need nothing is needed there; taken at its word, a repeated request would lose its item."""
        made = make_examples("probability", data, PIPELINE, resources, columns=columns_of(requests=True))
        assert made.names[-2:] == LABELLED
        assert made.columns(LABELLED)[made.label].max() < made.columns(LABELLED)[~made.label].max()
        assert "requests" not in fit("probability", data, PIPELINE, resources).values

    def test_the_engine_makes_the_columns_that_it_was_fitted_on(self, repeated, resources, tmp_path):
        path = tmp_path / "fits.json"
        write_calibrations(path, [fit("probability", repeated, PIPELINE, resources)])
        made = make_examples("probability", repeated, PIPELINE, resources, columns=columns_of(requests=True))
        outcome = PIPELINE.run(repeated.batch(), resources)
        table = Probability(str(path))(outcome.query, outcome.candidates, resources)
        key = np.lexsort((table.item, table.request))
        mine = np.lexsort((made.neighbours.item, made.query))
        for name in LABELLED:
            np.testing.assert_array_equal(table.columns[name][key], made.columns([name])[mine, 0])
        assert table.columns["labelled.nearest"].max() > 0

    def test_of_a_part_only_its_own_labels_count(self, repeated, resources):
        """A part's features are those of a dataset of the part alone, and folds know the other folds' labels only."""
        made = make_examples("probability", repeated, PIPELINE, resources, columns=columns_of(requests=True))
        some = np.arange(made.n_queries) % 3 > 0
        part = made.select_queries(some)
        alone = repeated.take([one.id for one, held in zip(repeated.queries, some, strict=True) if held])
        wanted = make_examples("probability", alone, PIPELINE, resources, columns=columns_of(requests=True))
        np.testing.assert_array_equal(part.features, wanted.features)
        mine, theirs = part.neighbours.requests, wanted.neighbours.requests
        assert (mine.ids, mine.texts, mine.items) == (theirs.ids, theirs.texts, theirs.items)
        held_out = made.columns(LABELLED, labelled=some)[~some[made.query]]
        assert held_out.max() > 0
        assert not made.columns(LABELLED, labelled=~some & some).any()

    def test_without_requests_it_holds_no_text(self, repeated, resources):
        data = repeated
        found = fit("probability", data, PIPELINE, resources, requests=False)
        known = Logistic.read(shipped_fit().values)
        made = make_examples("probability", data, PIPELINE, resources, columns=TEXT)
        assert found.values == fit_with_prior(made, known)
        assert Logistic.read(found.values).columns == TEXT
        assert "requests" not in found.values

    def test_with_no_shipped_column_it_keeps_the_requests_that_its_columns_need(self, repeated, resources):
        found = fit_values(make_examples("probability", repeated, PIPELINE, resources, columns=LABELLED))
        assert Logistic.read(found).columns == LABELLED
        assert len(found["requests"]) == len(repeated)

    def test_the_closer_to_the_shipped_one_the_fewer_the_labels(self, data, resources):
        known = Logistic.read(shipped_fit().values)
        made = make_examples("probability", data, PIPELINE, resources)
        few = made.select_queries(np.arange(made.n_queries) < 3)
        shipped = dict(zip(known.columns, known.weights.tolist(), strict=True))
        far, near = (
            sum(
                abs(weight - shipped.get(name, 0.0)) * scale
                for name, weight, scale in zip(model.columns, model.weights, model.scale, strict=True)
            )
            for model in (Logistic.read(fit_with_prior(examples, known)) for examples in (made, few))
        )
        assert 0 < near < far

    def test_alone_it_goes_by_the_labels_only(self, data, resources):
        made = make_examples("probability", data, PIPELINE, resources)
        model = Logistic.read(fit_without_prior(made))
        said = model.probabilities(made.features)
        assert said[made.label].min() > said[~made.label].max()
        assert np.abs(Logistic.read(fit_without_prior(made, precision=1e6)).weights).max() < 1e-3

    def test_every_query_weighs_the_same(self, data, resources):
        """A query with every candidate twice counts as one with each of them once."""
        known = Logistic.read(shipped_fit().values)
        made = make_examples("probability", data, PIPELINE, resources)
        rows = np.concatenate([np.arange(len(made.label)), np.flatnonzero(made.query == 0)])
        twice = replace(
            made,
            features=made.features[rows],
            vectors=made.vectors[rows],
            label=made.label[rows],
            query=made.query[rows],
        )
        one, other = (Logistic.read(fit_with_prior(some, known)) for some in (made, twice))
        # what a query counts in rows rises with the mean number of rows: 200 of 24 queries, not 192
        assert other.weights == pytest.approx(one.weights, rel=0.05, abs=0.02)
        alone = [Logistic.read(fit_without_prior(some, precision=1e-6 * len(some.label))) for some in (made, twice)]
        assert alone[1].probabilities(made.features) == pytest.approx(alone[0].probabilities(made.features), abs=1e-3)

    def test_one_class_is_refused(self, data, resources):
        made = make_examples("probability", data, PIPELINE, resources)
        with pytest.raises(ParameterError, match="192 rows that are all required"):
            fit_with_prior(replace(made, label=np.ones_like(made.label)), Logistic.read(shipped_fit().values))


class TestPooled:
    @pytest.fixture
    def other(self) -> Dataset:
        """Two queries over the same catalog, that need what they do not name."""
        labels = [Label("a", CATALOG[3].key, 2), Label("b", CATALOG[5].key, 2)]
        return replace(dataset([query("a", "Where does water flow"), query("b", "the garden")], labels), name="small")

    def test_what_stands_in_it(self, data, other, resources):
        found = POOLED.fit_pooled({"first": [data], "second": [other]}, PIPELINE, resources)
        assert (found.kind, found.dataset, found.catalog, found.queries) == ("probability", "made + small", "", 26)
        assert found.values["datasets"] == ["made", "small"]
        assert tuple(found.values["columns"]) == POOLED.COLUMNS
        assert found.values["sure"] >= 0
        assert found.behind == describe_context(PIPELINE)
        assert found.embedder == resources.identity("embedder")
        back = POOLED.fit_pooled({"second": [other], "first": [data]}, PIPELINE, resources)
        assert found.dataset_hash != back.dataset_hash
        Logistic.read(found.values)

    def test_a_dataset_with_its_queries_twice_weighs_no_more(self, data, other, resources):
        one, two = (make_examples("probability", some, PIPELINE, resources) for some in (data, other))
        twice = replace(
            two,
            **{name: np.concatenate([getattr(two, name)] * 2) for name in ("features", "vectors", "label")},
            query=np.concatenate([two.query, two.query + two.n_queries]),
            ids=(*two.ids, "a2", "b2"),
            groups=two.groups * 2,
        )
        families = ["first", "second"]
        before, after = (Logistic.read(POOLED.fit_examples(pool, families)) for pool in ([one, two], [one, twice]))
        # what all datasets count together rises with their queries, 28 for 26; the share of each does not
        scaled = Logistic.read(POOLED.fit_examples([one, two, one, two], families * 2))
        assert after.scale == pytest.approx(before.scale, rel=1e-5)
        features = one.columns(POOLED.COLUMNS)
        assert after.probabilities(features) == pytest.approx(before.probabilities(features), abs=0.02)
        assert scaled.scale == pytest.approx(before.scale, rel=1e-5)

    def test_a_family_of_two_datasets_weighs_no_more_than_one_of_one(self, data, other, resources):
        """The scale of a feature is its weighted deviation."""
        one, two = (make_examples("probability", some, PIPELINE, resources) for some in (data, other))
        alone, family, apart = (
            Logistic.read(POOLED.fit_examples(pool, families)).scale
            for pool, families in (([one, two], "ab"), ([one, one, two], "aab"), ([one, one, two], "abc"))
        )
        assert family == pytest.approx(alone, rel=1e-5)
        assert apart != pytest.approx(alone, rel=1e-3)

    def test_the_order_of_datasets_does_not_matter(self, data, other, resources):
        pool = [make_examples("probability", some, PIPELINE, resources) for some in (data, other)]
        one, back = (Logistic.read(POOLED.fit_examples(pool[::step], "ab"[::step])) for step in (1, -1))
        assert back.weights == pytest.approx(one.weights, rel=1e-4, abs=1e-5)

    def test_a_dataset_without_labels_is_refused(self, data, resources):
        with pytest.raises(ParameterError, match="dataset made has no labelled query in split tuning"):
            POOLED.fit_pooled({"a": [data], "b": [dataset([query("a", "area")], [])]}, PIPELINE, resources)


class TestInFront:
    def test_what_stands_behind_the_step_does_not_count(self, data, resources):
        whole = Pipeline.of(
            {"retrieve": "dense", "refine": [{"features": {"columns": ["item.tool"]}}, "probability", "price"]}
        )
        found = fit("probability", data, whole, resources)
        assert found.behind == describe_context(PIPELINE)
        assert found.values == fit("probability", data, PIPELINE, resources).values


class TestOutOfFold:
    def test_no_query_is_judged_by_a_fit_that_saw_it(self, data, resources):
        made = make_examples("probability", data, PIPELINE, resources)
        fold = folds_of(made.groups, 2)
        said = out_of_fold(made, fold)
        turned = replace(made, label=np.where(fold[made.query] == 0, ~made.label, made.label))
        assert np.array_equal(out_of_fold(turned, fold)[fold[made.query] == 0], said[fold[made.query] == 0])
        assert not np.array_equal(out_of_fold(turned, fold)[fold[made.query] == 1], said[fold[made.query] == 1])

    def test_the_fits_are_made_around_what_is_known(self, data, resources):
        made = make_examples("probability", data, PIPELINE, resources)
        fold, shipped = folds_of(made.groups, 2), Logistic.read(shipped_fit().values)
        said = out_of_fold(made, fold)
        assert np.array_equal(out_of_fold(made, fold, earlier=shipped), said)
        other = replace(shipped, weights=-shipped.weights)
        assert not np.array_equal(out_of_fold(made, fold, earlier=other), said)

    def test_a_fold_that_takes_a_whole_class_is_refused(self, resources):
        queries = [query("a", "area"), query("b", "wheat"), query("c", "Hi", needs_nothing=True)]
        labels = [Label("a", CATALOG[0].key, 2), Label("b", CATALOG[1].key, 2)]
        made = make_examples("abstention", dataset(queries, labels), PIPELINE, resources)
        with pytest.raises(
            ParameterError, match="2 rows that are all of requests that need something; use another number"
        ):
            out_of_fold(made, folds_of(made.groups, 3))

    @pytest.mark.parametrize(
        ("what", "columns"), [("probability", ("items", "recall")), ("abstention", ("lost", "spared"))]
    )
    def test_figures_with_intervals(self, data, resources, what, columns):
        seen = []
        made = make_examples(what, data, PIPELINE, resources)
        figures = measure(made, 4, progress=lambda done, total: seen.append((done, total)))
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert (figures.folds, figures.queries, figures.groups, figures.columns) == (4, 24, 16, columns)
        assert figures.interval.low <= figures.roc_area <= figures.interval.high
        assert figures.roc_area > 0.9
        thresholds = [point[0] for point in figures.points]
        assert thresholds == sorted(thresholds, reverse=what == "probability")
        assert set(figures.as_dict()["points"][0]) == {"threshold", *columns}


def test_a_fitted_pipeline_offers_what_is_needed_and_nothing_where_nothing_is(data, resources, tmp_path):
    path = tmp_path / "fits.json"
    write_calibrations(path, [fit(what, data, PIPELINE, resources) for what in ("probability", "abstention")])
    batch = Batch.of(
        CATALOG, [Request(id="a", text="Say more about the piano"), Request(id="b", text="Nice day, thanks")]
    )
    outcome = PIPELINE.run(batch, resources)
    table = Probability(str(path))(outcome.query, outcome.candidates, resources)
    table = AtLeast(threshold=0.5)(outcome.query, table, resources)
    table = Abstain(str(path), threshold=0.5)(outcome.query, table, resources)
    assert [CATALOG[item].name for item in table.item[table.chosen]] == ["get_piano"]
