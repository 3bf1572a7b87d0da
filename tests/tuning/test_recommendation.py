"""Choosing by a policy: against enumerating all settings with `estimate`, and what is said where nothing is chosen."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import estimate, wilson
from ctxbench.io.errors import ParameterError
from ctxbench.tuning.cut_families import bounds
from ctxbench.tuning.held_out import fixed_reason
from ctxbench.tuning.inputs import choose, four_digits, setting_text
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure, Pairing
from ctxbench.tuning.policy import (
    SAFETY_ERRORS,
    Constraint,
    Policy,
    kept_measures,
    policy_measures,
    reach_ratio,
    room_of,
)
from ctxbench.tuning.search import MIN_QUERIES, Optimum
from ctxbench.tuning.setting_lines import ThresholdLine

NAN = math.nan
RECALL, ITEMS = Measure(Metric("recall")), Measure(Metric("items"))
REACHABLE = Measure(Metric("completeness"), True)
FEW_TOKENS = {"objective": TOKENS.metric, "minimise": True}


def policy(*constraints, objective=TOKENS.metric, minimise=True):
    return Policy.of("p", constraints=constraints, **{"minimise" if minimise else "maximise": objective})


def limit(metric, at_least=None, at_most=None, **rest):
    return Constraint(metric=Metric(metric), at_least=at_least, at_most=at_most, **rest)


def line(by_query, *, name="a", thresholds=None):
    """A line from values by measure, each of shape (n_settings, n_queries), NaN where a measure does not apply."""
    n_settings = len(next(iter(by_query.values())))
    powers = [{m: np.nansum(np.asarray(v) ** k, axis=1) for m, v in by_query.items()} for k in (1, 2, 3)]
    return ThresholdLine(
        values={"line": name},
        axis="threshold",
        thresholds=np.arange(n_settings, 0.0, -1.0) if thresholds is None else np.array(thresholds, dtype=np.float64),
        sums=powers[0],
        squares=powers[1],
        cubes=powers[2],
        n={m: int((~np.isnan(v[0])).sum()) for m, v in by_query.items()},
    )


def shares(*means, n):
    """Yes/no values with these means."""
    return np.array([np.arange(n) < round(mean * n) for mean in means]).astype(float)


def flat(*values, n):
    return np.array([[float(value)] * n for value in values])


def ran(policy_, *lines, **options):
    optimum = Optimum(policy_, **options)
    for one in lines:
        optimum.add(one)
    return optimum


# ---------------------------------------------------------------------------------------------- bounds


def test_what_must_be_measured_has_ties_in_front_and_the_powers_that_intervals_need():
    asked = policy(
        limit("completeness", at_least=0.8, of="reachable"), limit("items", at_most=4), objective=Metric("recall")
    )
    assert policy_measures([asked]) == {COMPLETENESS: 1, TOKENS: 1, RECALL: 1, REACHABLE: 1, ITEMS: 3}
    assert list(policy_measures([asked]))[:2] == [COMPLETENESS, TOKENS]
    of_base = policy(limit("items", at_most=0.4, of="base"), limit("recall", at_least=0.5))
    assert policy_measures([of_base]) == {COMPLETENESS: 1, TOKENS: 1, ITEMS: 1, RECALL: 2}
    assert policy_measures([of_base, asked]) == {COMPLETENESS: 1, TOKENS: 1, ITEMS: 3, RECALL: 2, REACHABLE: 1}
    assert policy_measures([]) == {COMPLETENESS: 1, TOKENS: 1}


def moments(values):
    return [np.array([math.fsum(float(v) ** k for v in values)]) for k in (1, 2, 3)]


# ---------------------------------------------------------------------------------------------- optima


def drawn(rng, n):
    """A line of 8 settings that offer ever more, over n queries, some of which need nothing."""
    needs = rng.random(n) < 0.9
    at, size = rng.integers(0, 9, n), rng.integers(0, 400, (8, n))
    complete = np.where(needs, np.arange(8)[:, None] >= at, NAN)
    tokens = size.cumsum(axis=0).astype(float)
    recall = np.where(needs, np.minimum(np.arange(8)[:, None] / np.maximum(at, 1), 1), NAN)
    reach = np.where(at < 7, complete, NAN)
    return {COMPLETENESS: complete, TOKENS: tokens, RECALL: recall, REACHABLE: reach}


def enumerated(asked, lines, level=0.95):
    """The best (objective, completeness, tokens, line, place) of all settings whose constraints `estimate` meets."""
    met = []
    for which, by_query in enumerate(lines):
        for place in range(8):
            found = {
                measure: estimate(values[place], scale=measure.metric.declaration.scale, level=level)
                for measure, values in by_query.items()
            }
            ok = True
            for one in asked.constraints:
                mine = found[Measure(one.metric, one.of == "reachable")]
                low, high = mine.interval.low, mine.interval.high
                ok &= low >= one.at_least if one.at_least is not None else high <= one.at_most
            if ok:
                sign = 1 if asked.minimise else -1
                aim = sign * found[Measure(asked.objective)].value
                met.append((aim, -found[COMPLETENESS].value, found[TOKENS].value, which, place))
    return min(met, default=None)


POLICIES = {
    "reachable": policy(limit("completeness", at_least=0.6, of="reachable")),
    "tokens": policy(limit("tokens", at_most=900), objective=COMPLETENESS.metric, minimise=False),
    "several": policy(limit("recall", at_least=0.5), limit("completeness", at_least=0.4)),
    "opposed": policy(
        limit("recall", at_least=0.3), limit("tokens", at_most=1200), objective=RECALL.metric, minimise=False
    ),
}


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("seed", range(8))
def test_an_optimum_is_that_of_enumerating_all_settings(name, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(25, 90))
    lines = [drawn(rng, n) for _ in range(6)]
    expected = enumerated(POLICIES[name], lines)
    optimum = ran(POLICIES[name], *(line(one, name=str(which)) for which, one in enumerate(lines)))
    assert optimum.settings == 48
    if expected is None:
        assert optimum.best is None
        return
    *_, which, place = expected
    found = optimum.best
    assert found.values == {"line": str(which), "threshold": 8.0 - place}
    for measure, mean in found.means.items():
        values = lines[which][measure][place]
        assert mean == pytest.approx(np.nanmean(values), rel=1e-12)
        assert found.n[measure] == (~np.isnan(values)).sum()
    for one in POLICIES[name].constraints:
        measure = Measure(one.metric, one.of == "reachable")
        mine = estimate(lines[which][measure][place], scale=one.metric.declaration.scale)
        end = mine.interval.low if one.at_least is not None else mine.interval.high
        assert found.bounds[str(one)] == pytest.approx(end, rel=1e-9)


def test_the_order_of_lines_decides_between_equals_only():
    better, worse = ({TOKENS: flat(cost, n=50), COMPLETENESS: shares(1, n=50)} for cost in (10, 11))
    asked = policy(limit("completeness", at_least=0.9))
    for first, second in [(better, worse), (worse, better)]:
        assert ran(asked, line(first, name="1"), line(second, name="2")).best.means[TOKENS] == 10
    assert ran(asked, line(better, name="1"), line(better, name="2")).best.values["line"] == "1"


def test_of_equal_lines_the_one_nearest_to_the_defaults_is_kept():
    by_query = {TOKENS: flat(10, n=50), COMPLETENESS: shares(1, n=50)}
    asked = policy(limit("completeness", at_least=0.9))
    lines = [
        dataclasses.replace(line(by_query), axis="", thresholds=np.array([NAN]), values={"topK": topK, "mode": mode})
        for topK, mode in [(2, "a"), (19, "b"), (20, "b"), (20, "a"), (21, "a")]
    ]
    assert ran(asked, *lines, defaults={"topK": 20, "mode": "a"}).best.values == {"topK": 20, "mode": "a"}
    assert ran(asked, *lines[:2], defaults={"topK": 20}).best.values["topK"] == 19
    assert ran(asked, *lines, defaults={"other": 1}).best.values["topK"] == 2
    dearer = dataclasses.replace(lines[0], sums={**lines[0].sums, TOKENS: np.array([501.0])})
    assert ran(asked, dearer, lines[0], defaults={"topK": 9}).best.means[TOKENS] == 10


def test_equal_objectives_are_told_apart_by_completeness_then_tokens():
    recall = {RECALL: flat(0.5, 0.5, 0.5, n=50)}
    by_query = {TOKENS: flat(10, 30, 20, n=50), COMPLETENESS: shares(0.4, 0.6, 0.6, n=50), **recall}
    asked = policy(limit("tokens", at_most=100), objective=RECALL.metric, minimise=False)
    assert ran(asked, line(by_query)).best.values["threshold"] == 1.0  # the third: as complete for fewer tokens
    assert ran(asked, line({m: v[:2] for m, v in by_query.items()})).best.values["threshold"] == 1.0


def test_sums_that_differ_in_the_last_digit_are_equal():
    thirds = [0.1 + 0.2, 0.3]  # 0.30000000000000004 and 0.3
    by_query = {TOKENS: flat(20, 10, n=50), COMPLETENESS: shares(0.5, 0.5, n=50), RECALL: flat(*thirds, n=50)}
    asked = policy(limit("tokens", at_most=100), objective=RECALL.metric, minimise=False)
    assert ran(asked, line(by_query)).best.means[TOKENS] == 10


def test_of_equal_settings_of_a_line_the_one_furthest_from_a_change_is_kept():
    by_query = {TOKENS: flat(5, 10, 10, 10, 20, n=50), COMPLETENESS: shares(0, 1, 1, 1, 1, n=50)}
    found = ran(policy(limit("completeness", at_least=0.9)), line(by_query, thresholds=[0.9, 0.8, 0.7, 0.5, 0.4])).best
    assert found.values["threshold"] == 0.7  # 0.2 from 0.9; 0.8 and 0.5 are 0.1 from a change
    all_equal = {TOKENS: flat(10, 10, n=50), COMPLETENESS: shares(1, 1, n=50)}
    assert ran(policy(limit("completeness", at_least=0.9)), line(all_equal)).best.values["threshold"] == 2.0


def against(base, by_query, groups=None):
    """A line with differences to a base, whose values by query are given by measure."""
    n = len(next(iter(base.values())))
    pairing = Pairing(base=base, group=np.arange(n) if groups is None else np.asarray(groups))
    one = line(by_query)
    found = {}
    for measure, values in by_query.items():
        if measure in base:
            each = [pairing.differences({measure: row})[measure] for row in values]
            parts = [np.concatenate([getattr(d, name) for d in each]) for name in ("total", "squares", "weighted")]
            total, squares, weighted = parts
            found[measure] = dataclasses.replace(each[0], total=total, squares=squares, weighted=weighted)
    return dataclasses.replace(one, differences=found)


KEEP = limit("completeness", at_least=0.98, of="base")


def test_a_share_of_the_base_is_held_by_the_paired_difference():
    """100 queries, 80 complete by the base; 3 gained, 1 lost: 0.02 less 2.6 x sqrt((4 - .04) x 100 / 99 + 2) / 100."""
    base = {COMPLETENESS: (np.arange(100) < 80) * 1.0}
    own = base[COMPLETENESS].copy()
    own[[0, 80, 81, 82]] = [0, 1, 1, 1]
    optimum = ran(
        policy(KEEP), against(base, {TOKENS: flat(5, n=100), COMPLETENESS: own[None]}), base={COMPLETENESS: 0.8}
    )
    low = 0.8 + 0.02 - SAFETY_ERRORS * math.sqrt(4 - 100 * 0.02**2 + 2) / 100
    # 1 group in 99 of spread: squares about the mean are taken times n / (n - 1)
    low = 0.8 + 0.02 - SAFETY_ERRORS * math.sqrt((4 - 100 * 0.02**2) * 100 / 99 + 2) / 100
    assert optimum.limits[0].end == pytest.approx(0.98 * 0.8 - 0.015)
    assert low < optimum.limits[0].end < 0.8 + 0.02
    assert optimum.best is None, "one standard error too wide"
    fewest, most = optimum.labels_needed()
    assert 0 < fewest <= most

    def end(n):
        return 0.8 + 0.02 - SAFETY_ERRORS * math.sqrt((4 - 100 * 0.02**2) * 100 / 99 * n / 100 + 2) / n

    assert end(100 + fewest) >= optimum.limits[0].end - 1e-9 > end(99 + fewest)


@pytest.mark.parametrize(("lost", "expected"), [(0, True), (18, False)])
def test_what_is_maximised_must_not_be_worse_beyond_doubt(lost, expected):
    """100 queries, 80 complete by the base; a better mean alone, of 20 gained and 18 lost, is not enough."""
    base = (np.arange(100) < 80) * 1.0
    own = np.where(np.arange(100) < lost, 0.0, np.where(np.arange(100) < 80, base, 1.0))
    asked = policy(limit("tokens", at_most=100), objective=COMPLETENESS.metric, minimise=False)
    one = against({COMPLETENESS: base}, {TOKENS: flat(50, n=100), COMPLETENESS: own[None]})
    assert (ran(asked, one, base={COMPLETENESS: 0.8, TOKENS: 50.0}).best is not None) == expected


def test_what_differs_nowhere_is_recommended_where_there_are_labels_enough():
    """2.6 x sqrt(2) / n is within 1.5 points and a fiftieth of the base, 0.015 + 0.02 x 0.8, from n = 118.6 on."""
    for n, does in [(115, False), (120, True)]:
        base = (np.arange(n) < round(0.8 * n)) * 1.0
        one = against({COMPLETENESS: base}, {TOKENS: flat(5, n=n), COMPLETENESS: base[None]})
        own = float(base.mean())
        assert (SAFETY_ERRORS * math.sqrt(2) / n <= 0.015 + 0.02 * own) == does
        assert (ran(policy(KEEP), one, base={COMPLETENESS: own}).best is not None) == does


def test_groups_that_answer_as_one_count_as_one():
    base = (np.arange(400) < 320) * 1.0
    by_query = {TOKENS: flat(5, n=400), COMPLETENESS: base[None]}
    for groups, does in [(np.arange(400), True), (np.arange(400) // 25, False), (np.zeros(400, dtype=int), False)]:
        one = against({COMPLETENESS: base}, by_query, groups)
        optimum = ran(policy(KEEP), one, base={COMPLETENESS: 0.8})
        assert (optimum.best is not None) == does
    assert optimum.labels_needed() is None, "of one group nothing is known"


def kept(types=(), **means):
    """Means of a base; types are needed by some."""
    return {COMPLETENESS: 0.8, TOKENS: 100.0, **dict(types), **means}


@pytest.mark.parametrize(
    ("tokens", "complete", "found"),
    [(99, 0.8, True), (100, 0.8, False), (101, 0.8, False), (99, 0.5, False)],
)
def test_what_is_recommended_is_better_than_the_base(tokens, complete, found):
    n = 400
    base = {COMPLETENESS: (np.arange(n) < 320) * 1.0}
    one = against(base, {TOKENS: flat(tokens, n=n), COMPLETENESS: shares(complete, n=n)})
    assert (ran(policy(KEEP), one, base=kept()).best is not None) == found


@pytest.mark.parametrize(("tokens", "complete", "found"), [(150, 0.81, True), (151, 0.81, False), (151, 0.9, True)])
def test_more_than_half_as_many_tokens_again_need_more_completeness_beyond_doubt(tokens, complete, found):
    n = 400
    base = {COMPLETENESS: (np.arange(n) < 320) * 1.0}
    asked = policy(limit("tokens", at_most=2000), objective=COMPLETENESS.metric, minimise=False)
    one = against(base, {TOKENS: flat(tokens, n=n), COMPLETENESS: shares(complete, n=n)})
    assert (ran(asked, one, base=kept()).best is not None) == found


def test_what_the_base_itself_misses_need_not_be_cheaper():
    n = 400
    base = {COMPLETENESS: (np.arange(n) < 320) * 1.0}
    asked = policy(limit("completeness", at_least=0.85))
    one = against(base, {TOKENS: flat(140, n=n), COMPLETENESS: shares(0.92, n=n)})
    assert ran(asked, one, base=kept()).best.means[TOKENS] == 140


@pytest.mark.parametrize(("left", "found"), [(0.6, True), (0.59, False)])
def test_three_quarters_of_what_each_type_has_is_kept(left, found):
    n = 400
    base, rule = {COMPLETENESS: (np.arange(n) < 320) * 1.0}, Measure(COMPLETENESS.metric, required_type="rule")
    by_query = {TOKENS: flat(9, n=n), COMPLETENESS: shares(0.8, n=n)}
    by_query[rule] = np.where(np.arange(n) < 100, np.arange(n) < 100 * left, NAN)[None]
    optimum = ran(policy(KEEP), against(base, by_query), base=kept([(rule, 0.8)]))
    assert (optimum.best is not None) == found


def test_where_no_k_keeps_what_every_policy_keeps_the_reason_names_it():
    n, rule = 400, Measure(COMPLETENESS.metric, required_type="rule")
    base = {COMPLETENESS: (np.arange(n) < 320) * 1.0}
    by_query = {TOKENS: flat(9, n=n), COMPLETENESS: shares(0.8, n=n)}
    by_query[rule] = np.where(np.arange(n) < 100, np.arange(n) < 59, NAN)[None]
    asked = policy(KEEP)
    first = ran(asked, against(base, by_query), base=kept([(rule, 0.8)]))
    assert first.n is None
    reason = fixed_reason(asked, "s", first)
    assert f"{rule} >= 0.75 times the base's" in reason.values["limits"]
    assert fixed_reason(asked, "s", None)


def test_rare_types_are_kept_by_their_items_and_a_type_that_all_need_by_completeness():
    types = {"rule": np.arange(40) < 9, "tool": np.arange(40) < 40, "file": np.arange(40) < 10}
    assert kept_measures(types) == (
        Measure(ITEMS.metric, required_type="rule"),
        Measure(COMPLETENESS.metric, required_type="file"),
    )
    assert kept_measures({}) == ()


def test_the_room_is_two_points_or_a_tenth_of_what_the_base_has():
    assert (room_of({COMPLETENESS: 0.9}), room_of({COMPLETENESS: 0.1}), room_of({})) == (0.02, 0.1 * 0.1, 0.0)


def test_a_limit_of_the_base_needs_its_mean():
    asked = policy(limit("tokens", at_most=0.5, of="base"), objective=COMPLETENESS.metric, minimise=False)
    with pytest.raises(ParameterError, match=r"tokens <= 0\.5 times the base's: the base has no tokens"):
        Optimum(asked, base={})
    assert Optimum(asked, base={TOKENS: 420.0, COMPLETENESS: 0.5}).limits[0].target == 210


# ---------------------------------------------------------------------------------------------- verdicts


def test_competing_selectors_are_held_against_each_other():
    asked = policy(limit("completeness", at_least=0.8))
    optima = {
        name: ran(asked, line({TOKENS: flat(cost, n=60), COMPLETENESS: shares(share, n=60)}))
        for name, cost, share in [("first", 30, 1), ("poor", 5, 0.7), ("best", 20, 0.95), ("equal", 20, 0.95)]
    }
    choice = choose(asked, optima)
    assert (choice.selector, choice.setting.means[TOKENS], choice.settings) == ("best", 20, 4)
    assert (choice.reason, choice.needed) == ("", None)


def test_where_means_reach_and_intervals_do_not_it_is_said_how_many_labels_would_do():
    by_query = {TOKENS: flat(5, 9, n=60), COMPLETENESS: shares(0.8, 0.9, n=60)}
    asked = policy(limit("completeness", at_least=0.85))
    optimum = ran(asked, line(by_query))
    choice = choose(asked, {"semantic": optimum})
    assert choice.setting is None
    # Wilson's low end at .9 reaches .85 once n >= 1.96^2 x .85 x .15 / .05^2 = 195.9
    assert choice.needed[0] == 196 - 60 == math.ceil(1.959964**2 * 0.85 * 0.15 / 0.05**2) - 60
    assert choice.needed[1] > choice.needed[0]
    low = estimate(by_query[COMPLETENESS][1], scale="yes/no").interval.low
    (missed,) = choice.reason.values["limits"]
    assert choice.reason.values["setting"] == "semantic with line a, threshold 1"
    assert missed.values == {"limit": "completeness >= 0.85", "mean": "0.9", "bound": f"{low:.4g}", "n": 60}


@pytest.mark.parametrize(
    ("constraint", "measure"),
    [
        (limit("completeness", at_least=0.75), COMPLETENESS),
        (limit("completeness", at_least=0.7, of="reachable"), REACHABLE),
        (limit("recall", at_least=0.7), RECALL),
        (limit("tokens", at_most=1100), TOKENS),
    ],
)
def test_as_many_queries_as_are_said_to_be_needed_do_and_one_less_does_not(constraint, measure):
    rng = np.random.default_rng(1)
    n = 40
    by_query = {
        COMPLETENESS: shares(0.8, n=n),
        REACHABLE: np.where(np.arange(n) % 4, shares(0.8, n=n), NAN),
        RECALL: rng.choice([0.5, 0.75, 1], size=(1, n)),
        TOKENS: rng.lognormal(6.9, 0.3, (1, n)).round(),
    }
    optimum = ran(policy(constraint), line(by_query))
    assert optimum.best is None
    needed = n + optimum.labels_needed()[0]
    assert needed > n
    values = by_query[measure][0][~np.isnan(by_query[measure][0])]
    for queries, does in [(needed - 1, False), (needed, True)]:
        low, high = bounds(measure, moments(values), len(values), times=queries / n)
        assert (low[0] >= constraint.at_least if constraint.at_least else high[0] <= constraint.at_most) == does


def test_of_several_settings_the_one_that_needs_fewest_queries_is_the_nearest():
    by_query = {TOKENS: flat(5, 6, 7, n=60), COMPLETENESS: shares(0.87, 0.93, 0.9, n=60)}
    optimum = ran(policy(limit("completeness", at_least=0.85)), line(by_query))
    assert optimum.nearest.means[TOKENS] == 6
    assert 60 * optimum.shortage == pytest.approx(
        60 + optimum.labels_needed()[0], rel=0.15
    )  # a guide, by which settings are ordered


def test_a_mean_on_its_target_is_unlikely_to_be_settled_by_more_labels():
    asked = policy(limit("completeness", at_least=0.8))
    choice = choose(asked, {"s": ran(asked, line({TOKENS: flat(5, n=60), COMPLETENESS: shares(0.8, n=60)}))})
    assert choice.needed is None
    (missed,) = choice.reason.values["limits"]
    assert choice.reason.values["setting"] == "s with line a, threshold 1"
    assert (missed.values["limit"], missed.values["mean"]) == ("completeness >= 0.8", "0.8")


def test_nothing_is_recommended_on_too_few_queries():
    asked = policy(limit("completeness", at_least=0.5))
    for n, chosen in [(MIN_QUERIES - 1, False), (MIN_QUERIES, True)]:
        complete = np.append(shares(1, n=n), np.full((1, 30), NAN), axis=1)
        choice = choose(asked, {"s": ran(asked, line({TOKENS: flat(5, n=n + 30), COMPLETENESS: complete}))})
        assert (choice.setting is not None) == chosen
        if not chosen:
            # 19 of 49 need something: for 20 it takes 49 x 20 / 19 = 51.6 queries
            assert choice.needed == (52 - 49, 52 - 49)
            values = {"measure": COMPLETENESS, "n": 19, "queries": 49, "needed": 20}
            assert (choice.reason.key, choice.reason.values) == ("tuning.too-few-queries", values)


def test_a_policy_that_no_mean_meets_names_the_best_reachable():
    asked = policy(limit("completeness", at_least=0.95))
    optima = {
        name: ran(asked, line({TOKENS: flat(5, 9, n=60), COMPLETENESS: shares(0.5, share, n=60)}))
        for name, share in [("semantic", 0.8), ("other", 0.9)]
    }
    choice = choose(asked, optima)
    assert (choice.setting, choice.needed) == (None, None)
    assert choice.reason == (
        "no setting reaches completeness >= 0.95: the best value is 0.9, by other with line a, threshold 1"
    )


def test_what_is_reachable_is_what_the_base_reaches():
    # the base's ranking makes 60 queries complete within reach, this one's 48: 0.7 of 60 are 0.875 of these
    asked = policy(limit("completeness", at_least=0.7, of="reachable"))
    own = np.where(np.arange(60) < 48, 1.0, NAN)[None]
    by_query = {TOKENS: flat(8, 20, n=60), COMPLETENESS: shares(0.72, 0.8, n=60)}
    by_query[REACHABLE] = np.concatenate([np.where(np.arange(60) < 42, own, own * 0), own])
    reach = reach_ratio(np.ones(60, dtype=bool), ~np.isnan(own[0]))
    assert reach == 60 / 48
    found = ran(asked, line(by_query), reach=reach).best
    assert found.means == {COMPLETENESS: 0.8, TOKENS: 20, REACHABLE: 1}
    assert found.bounds == {str(asked.constraints[0]): float(wilson(48, 48).low) * 48 / 60}
    more = policy(limit("completeness", at_least=0.9, of="reachable"))
    reason = choose(more, {"s": ran(more, line(by_query), reach=reach)}).reason
    assert reason.endswith("the best value is 0.8, by s with line a, threshold 1")
    nothing = np.zeros(60, dtype=bool)
    assert (reach_ratio(~nothing, nothing), reach_ratio(nothing, ~nothing)) == (1, 0)


def test_the_best_reachable_is_that_of_the_competitor_that_comes_nearest_as_the_constraint_counts():
    asked = policy(limit("completeness", at_least=0.9, of="reachable"))
    by_query = {TOKENS: flat(8, n=60), COMPLETENESS: shares(0.5, n=60), REACHABLE: shares(0.8, n=60)}
    optima = {name: ran(asked, line(by_query), reach=reach) for name, reach in [("less", 1.25), ("base", 1.0)]}
    assert "the best value is 0.8, by base with" in choose(asked, optima).reason
    optima["more"] = ran(asked, line(by_query), reach=0.7)  # 0.63 is enough
    assert choose(asked, optima).selector == "more"


def test_constraints_that_do_not_go_together_are_named():
    asked = policy(limit("completeness", at_least=0.8), limit("tokens", at_most=10))
    by_query = {TOKENS: flat(8, 30, n=60), COMPLETENESS: shares(0.5, 0.9, n=60)}
    assert choose(asked, {"s": ran(asked, line(by_query))}).reason == (
        "no setting reaches completeness >= 0.8 and keeps the other limits (tokens <= 10): the best value is 0.5, by s "
        "with line a, threshold 2"
    )


def test_three_constraints_of_which_no_two_go_together_are_named():
    asked = policy(limit("completeness", at_least=0.8), limit("recall", at_least=0.8), limit("tokens", at_most=10))
    by_query = {
        TOKENS: flat(8, 30, 30, n=60),
        COMPLETENESS: shares(0.5, 0.9, 0, n=60),
        RECALL: flat(0.1, 0.1, 0.9, n=60),
    }
    reason = choose(asked, {"s": ran(asked, line(by_query))}).reason
    assert reason.key == "tuning.no-better-setting"
    assert reason.values["limits"][:3] == ["completeness >= 0.8", "recall >= 0.8", "tokens <= 10"]


def test_a_constraint_over_what_is_reachable_needs_something_within_reach():
    asked = policy(limit("completeness", at_least=0.8, of="reachable"))
    by_query = {TOKENS: flat(8, n=60), COMPLETENESS: shares(0, n=60), REACHABLE: flat(NAN, n=60)}
    reason = choose(asked, {"s": ran(asked, line(by_query))}).reason
    assert (reason.key, reason.values["measure"]) == ("tuning.limit-without-queries", REACHABLE)


def test_a_setting_in_words():
    assert setting_text("everything", {}) == "everything"
    assert setting_text("semantic", {"contextTopK": 20, "on": True}) == "semantic with contextTopK 20, on true"


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.266667, "0.2667"), (6.2, "6.2"), (999.94, "999.9"), (28310.4, "28,310"), (-1234.0, "-1,234"), (NAN, "nan")],
)
def test_figures_in_sentences_have_four_digits_and_no_exponent(value, told):
    assert four_digits(value) == told
