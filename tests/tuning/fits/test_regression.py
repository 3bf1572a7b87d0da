"""Logistic regression around a prior: against scikit-learn's, and at both ends of what labels can say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression

from ctxbench.io.errors import ParameterError
from ctxbench.pipelines.features import Logistic
from ctxbench.tuning.fit_examples import Prior, fit_regression

COLUMNS = ("a", "b", "c")
PROPERTY = settings(max_examples=40, deadline=None, database=None, derandomize=True)


def drawn(n: int, seed: int = 0, weights: tuple[float, ...] = (2.0, -1.0, 0.0)) -> tuple[np.ndarray, np.ndarray]:
    """Features of three scales, and labels that follow them."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 3)) * [1.0, 0.2, 30.0] + [0.0, 1.0, -4.0]
    odds = ((features - [0.0, 1.0, -4.0]) / [1.0, 0.2, 30.0]) @ np.array(weights) - 0.5
    return features, rng.random(n) < 1 / (1 + np.exp(-odds))


def known(*weights: float, intercept: float = 0.3, ends: float = 10.0) -> Logistic:
    n = len(weights)
    return Logistic(
        columns=COLUMNS[:n],
        intercept=intercept,
        weights=np.array(weights),
        low=np.full(n, -ends),
        high=np.full(n, ends),
        scale=np.ones(n),
        vector=np.empty(0),
    )


@pytest.mark.parametrize("precision", [0.03, 1.0, 30.0])
def test_around_nothing_it_is_scikit_learn_s(precision):
    features, label = drawn(400)
    weight = np.ones(400)
    made = fit_regression(Prior.zero(COLUMNS, features, weight, precision=precision), features, label, weight)
    # the intercept is held as well, by 0.001: a column of a constant so large that its weight is held as much
    scaled = np.concatenate([features / features.std(axis=0), np.full((400, 1), (precision / 1e-3) ** 0.5)], axis=1)
    wanted = LogisticRegression(C=1 / precision, max_iter=10_000, tol=1e-12, fit_intercept=False).fit(scaled, label)
    assert made.probabilities(features) == pytest.approx(wanted.predict_proba(scaled)[:, 1], abs=1e-4)
    assert made.weights * features.std(axis=0) == pytest.approx(wanted.coef_[0][:3], abs=1e-3)


def test_the_intercept_is_hardly_held():
    features, label = drawn(400)
    centred, weight = features - features.mean(axis=0), np.ones(400)
    made = fit_regression(Prior.zero(COLUMNS, centred, weight, precision=1.0), centred, label, weight)
    scaled = centred / centred.std(axis=0)
    wanted = LogisticRegression(C=1.0, max_iter=10_000, tol=1e-12).fit(scaled, label)
    assert made.probabilities(centred) == pytest.approx(wanted.predict_proba(scaled)[:, 1], abs=1e-4)
    assert made.intercept == pytest.approx(wanted.intercept_[0], abs=1e-3)


def test_with_weights_of_rows_it_is_scikit_learn_s():
    features, label = drawn(300, seed=5)
    weight = np.random.default_rng(1).uniform(0.1, 5.0, size=300)
    prior = Prior.zero(COLUMNS, features, weight, precision=1.0)
    made = fit_regression(prior, features, label, weight)
    scaled = features / prior.scale
    wanted = LogisticRegression(C=1.0, max_iter=10_000, tol=1e-10).fit(scaled, label, sample_weight=weight)
    assert made.probabilities(features) == pytest.approx(wanted.predict_proba(scaled)[:, 1], abs=1e-4)


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.integers(4, 40))
def test_a_weight_counts_like_repeated_rows(seed, n):
    rng = np.random.default_rng(seed)
    features, label = rng.normal(size=(n, 3)), rng.random(n) < 0.5
    label[:2] = True, False
    times = rng.integers(1, 5, size=n)
    prior = Prior.zero(COLUMNS, features, times.astype(float), precision=1.0)
    one = fit_regression(prior, features, label, times.astype(float))
    repeated = np.repeat(np.arange(n), times)
    other = fit_regression(prior, features[repeated], label[repeated], np.ones(len(repeated)))
    assert one.weights == pytest.approx(other.weights, abs=1e-6)
    assert one.intercept == pytest.approx(other.intercept, abs=1e-6)
    again = Prior.zero(COLUMNS, features[repeated], np.ones(len(repeated)), precision=1.0)
    assert again.scale == pytest.approx(prior.scale)


def test_the_order_of_rows_does_not_matter():
    features, label = drawn(200)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, size=200)
    mixed = np.random.default_rng(3).permutation(200)
    prior = Prior.zero(COLUMNS, features, weight, precision=1.0)
    one = fit_regression(prior, features, label, weight)
    other = fit_regression(prior, features[mixed], label[mixed], weight[mixed])
    assert other.weights == pytest.approx(one.weights, rel=1e-6)


def around(before, features, *, precision):
    """A prior around a fit of the same columns, every row counting once."""
    return Prior.from_fit(before, before.columns, features, np.ones(len(features)), precision=precision)


class TestAround:
    def test_columns_that_the_earlier_fit_lacks_start_at_nothing(self):
        features = np.array([[0.5, 2.0, 0.25], [2.0, 4.0, 0.75]])
        before = known(1.0, ends=1.0)
        columns = (*before.columns, "new", "labelled.share")
        prior = Prior.from_fit(before, columns, features, np.ones(2), precision=3.0)
        assert prior.columns == columns
        assert prior.weights.tolist() == [1.0, 0.0, 0.0]
        assert prior.scale.tolist() == [1.0, 1.0, 0.25]
        # what labelled requests needed is a share, whatever the labels at hand reach
        assert (prior.low.tolist(), prior.high.tolist()) == ([-1.0, 2.0, 0.0], [2.0, 4.0, 1.0])

    def test_with_next_to_no_data_it_stays_where_it_was(self):
        before = known(1.5, -2.0, 0.5)
        features, label = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]]), np.array([True, False])
        prior = around(before, features, precision=100.0)
        made = fit_regression(prior, features, label, np.full(2, 1e-6))
        assert made.weights == pytest.approx(before.weights, abs=1e-6)
        assert made.intercept == pytest.approx(before.intercept, abs=1e-2)

    def test_a_few_labels_move_it_a_little_and_the_intercept_freely(self):
        features, label = drawn(60, weights=(-2.0, 0.0, 0.0))  # the opposite of what is believed
        before = known(2.0, 0.0, 0.0, intercept=5.0, ends=1000.0)
        prior = around(before, features, precision=100.0)
        made = fit_regression(prior, features, label, np.ones(60))
        assert -2.0 < made.weights[0] < 2.0
        assert abs(made.weights[0] - 2.0) < 1.5
        assert made.intercept < 2.0

    def test_with_many_labels_it_is_where_the_data_are_likeliest(self):
        features, label = drawn(4000)
        prior = around(known(-3.0, 3.0, 0.1, ends=1000.0), features, precision=0.01)
        made = fit_regression(prior, features, label, np.ones(4000))
        scaled = (features - features.mean(axis=0)) / features.std(axis=0)
        wanted = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-10).fit(scaled, label)
        assert made.probabilities(features) == pytest.approx(wanted.predict_proba(scaled)[:, 1], abs=1e-3)

    def test_the_more_labels_the_further_it_moves(self):
        before = known(-1.0, 0.0, 0.0, ends=1000.0)
        moved = []
        for n in (20, 200, 2000):
            features, label = drawn(n, weights=(2.0, 0.0, 0.0))
            prior = around(before, features, precision=100.0)
            moved.append(fit_regression(prior, features, label, np.ones(n)).weights[0])
        assert -1.0 < moved[0] < moved[1] < moved[2] < 2.5

    def test_ranges_are_widened_to_what_is_seen(self):
        prior = around(known(1.0, 1.0, ends=1.0), np.array([[0.5, -3.0], [2.0, 0.0]]), precision=1.0)
        assert (prior.low.tolist(), prior.high.tolist()) == ([-1.0, -3.0], [2.0, 1.0])
        assert prior.scale.tolist() == [1.0, 1.0]


class TestNothing:
    def test_scales_are_deviations_with_a_floor(self):
        features = np.array([[0.0, 0.0, 5.0], [2.0, 0.01, 5.0]])
        prior = Prior.zero(COLUMNS, features, np.ones(2), precision=1.0)
        assert prior.scale.tolist() == [1.0, 0.02, 0.02]
        assert (prior.low.tolist(), prior.high.tolist()) == ([0.0, 0.0, 5.0], [2.0, 0.01, 5.0])
        assert (prior.intercept, prior.weights.tolist()) == (0.0, [0.0, 0.0, 0.0])

    def test_weights_of_rows_count_in_the_scale(self):
        prior = Prior.zero(("a",), np.array([[0.0], [3.0]]), np.array([2.0, 1.0]), precision=1.0)
        assert prior.scale.tolist() == pytest.approx([2**0.5])  # mean 1: (2 * 1 + 4) / 3 = 2

    def test_a_rare_value_does_not_weigh_hundreds(self):
        features, label = drawn(500)
        rare = np.zeros((500, 1))
        rare[3], label[3] = 1e-3, True
        features = np.concatenate([features[:, :2], rare], axis=1)
        prior = Prior.zero(COLUMNS, features, np.ones(500), precision=1.0)
        made = fit_regression(prior, features, label, np.ones(500))
        assert abs(made.weights[2]) * 1e-3 < 0.1


class TestData:
    def test_one_class_is_refused(self):
        features, _ = drawn(10)
        prior = Prior.zero(COLUMNS, features, np.ones(10), precision=1.0)
        for value, said in ((True, "10 rows that are all required"), (False, "10 rows that are all never required")):
            with pytest.raises(ParameterError, match=f"a fit would see {said}; .* or label more queries"):
                fit_regression(prior, features, np.full(10, value), np.ones(10))

    def test_no_row_is_refused(self):
        prior = around(known(1.0), np.array([[0.5]]), precision=1.0)
        with pytest.raises(ParameterError, match="a fit would see 0 rows"):
            fit_regression(prior, np.zeros((0, 1)), np.zeros(0, dtype=bool), np.zeros(0))

    def test_values_beyond_the_range_of_the_prior_count_as_its_ends(self):
        features, label = drawn(100)
        prior = Prior.zero(COLUMNS, features, np.ones(100), precision=1.0)
        far = features.copy()
        far[features[:, 0].argmax(), 0] *= 1000
        one, other = (fit_regression(prior, some, label, np.ones(100)) for some in (features, far))
        assert one.weights.tolist() == other.weights.tolist()

    def test_data_that_a_line_parts_have_a_fit(self):
        features = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        prior = Prior.zero(("a",), features, np.ones(4), precision=1e-9)
        made = fit_regression(prior, features, features[:, 0] > 0, np.ones(4))
        assert np.isfinite(made.weights).all()
        low, high = made.probabilities(features)[1:3]
        assert low < 0.01 < 0.99 < high

    def test_arguments_stay_as_they_are(self):
        features, label = drawn(50)
        weight = np.ones(50)
        copies = features.copy(), label.copy(), weight.copy()
        fit_regression(Prior.zero(COLUMNS, features, weight, precision=1.0), features, label, weight)
        for now, before in zip((features, label, weight), copies, strict=True):
            np.testing.assert_array_equal(now, before)
