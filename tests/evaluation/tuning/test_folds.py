"""Nested cross-validation: every query under what was chosen without its fold, against doing it by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.candidates import Candidates
from ctxbench.errors import ParameterError
from ctxbench.evaluation.calibrating.examples import folds_of
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.labels import DatasetQuery, Label
from ctxbench.evaluation.evidence import Labels
from ctxbench.evaluation.stats import estimate
from ctxbench.evaluation.sweep.families import FixedK
from ctxbench.evaluation.sweep.ladders import Ladders
from ctxbench.evaluation.sweep.lines import Measure
from ctxbench.evaluation.tuning.folds import Swept, Tried, nested
from ctxbench.evaluation.tuning.optima import COMPLETENESS, TOKENS, measures_of
from ctxbench.evaluation.tuning.policies import Constraint, Policy
from ctxbench.items import Catalog, Item
from ctxbench.requests import Request

N = 150
NAN = float("nan")
FEW = Policy(
    name="few",
    about="",
    objective=TOKENS.metric,
    minimise=True,
    constraints=(Constraint(metric=COMPLETENESS.metric, at_least=0.7),),
)
HALF = Policy(
    name="half",
    about="",
    objective=COMPLETENESS.metric,
    minimise=False,
    constraints=(Constraint(metric=TOKENS.metric, at_most=0.5, of="base", by="mean"),),
)


def drawn(seed=0, n=N):
    """Ten settings that offer ever more, over n queries, every tenth of which needs nothing."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, 10, n)
    needs = np.arange(n) % 10 > 0
    tokens = rng.integers(1, 300, (10, n)).cumsum(axis=0).astype(float)
    return [
        ({"n": k}, {COMPLETENESS: np.where(needs, (at <= k).astype(float), NAN), TOKENS: tokens[k]}) for k in range(10)
    ]


def made(settings, defaults=None):
    """A contestant whose ranking reaches all that it ever offers."""
    complete = np.stack([by_query[COMPLETENESS] for _, by_query in settings])
    return Tried(settings, (complete == 1).any(axis=0), defaults or {})


def by_hand(settings, train):
    """The setting with the fewest tokens whose Wilson bound reaches 0.7 on some queries."""
    met = []
    for values, by_query in settings:
        share = estimate(by_query[COMPLETENESS][train], scale="yes/no")
        if share.interval.low >= 0.7:
            met.append((by_query[TOKENS][train].mean(), values["n"]))
    return min(met)[1] if met else None


def test_every_query_is_measured_under_what_was_chosen_without_its_fold():
    settings, groups = drawn(), [f"group {i // 3}" for i in range(N)]
    (few,) = nested([FEW], {"s": made(settings)}, groups=groups, folds=5).values()
    assert few.fold.tolist() == folds_of(groups, 5).tolist()
    assert few.left_out == 0
    assert few.note == ""
    for one, choice in enumerate(few.choices):
        k = by_hand(settings, few.fold != one)
        assert (choice.selector, dict(choice.found.values)) == ("s", {"n": k})
        held = few.fold == one
        for measure, values in few.values.items():
            assert np.array_equal(values[held], settings[k][1][measure][held], equal_nan=True)


def test_the_order_of_queries_does_not_matter():
    settings, groups = drawn(), [f"group {i // 3}" for i in range(N)]
    order = np.random.default_rng(1).permutation(N)
    mixed = [(values, {measure: each[order] for measure, each in by_query.items()}) for values, by_query in settings]
    straight = nested([FEW], {"s": made(settings)}, groups=groups, folds=4)["few"]
    shuffled = nested([FEW], {"s": made(mixed)}, groups=[groups[i] for i in order], folds=4)["few"]
    for measure, values in straight.values.items():
        assert np.array_equal(values[order], shuffled.values[measure], equal_nan=True)


def test_a_multiple_of_the_base_is_one_of_what_the_base_has_without_the_fold():
    settings, groups = drawn(), [str(i) for i in range(N)]
    base = {TOKENS.metric: settings[9][1][TOKENS]}
    half = nested([FEW, HALF], {"s": made(settings)}, groups=groups, folds=3, base=base)["half"]
    for one, choice in enumerate(half.choices):
        train = half.fold != one
        most = 0.5 * base[TOKENS.metric][train].mean()
        within = [values["n"] for values, by_query in settings if by_query[TOKENS][train].mean() <= most]
        assert choice.found.values["n"] == max(within)


def test_of_equal_settings_the_one_nearest_to_the_defaults_is_chosen():
    (_, by_query), *_ = drawn()[8:]
    settings = [({"n": n}, by_query) for n in (1, 5, 6)]
    for defaults, n in [({}, 1), ({"n": 5}, 5)]:
        few = nested([FEW], {"s": made(settings, defaults)}, groups=[str(i) for i in range(N)], folds=2)["few"]
        assert [choice.found.values["n"] for choice in few.choices] == [n, n]


def test_folds_on_which_nothing_is_chosen_are_said():
    settings = drawn()
    for _, by_query in settings:
        by_query[COMPLETENESS][:] = np.where(np.isnan(by_query[COMPLETENESS]), NAN, 0)
    few = nested([FEW], {"s": made(settings)}, groups=[str(i) for i in range(N)], folds=3)["few"]
    assert few.values == {}
    assert few.left_out == N
    assert few.note.startswith(
        "nothing was chosen on any of 3 folds, and 150 of 150 queries are left out: policy 'few': no setting reaches "
        "completeness >= 0.7: the best reachable is 0, by s with n 0"
    )


def test_some_folds_may_be_left_without_a_choice():
    n = 25  # of which 21 or 22 need something: without one fold of five there are fewer than 20
    settings = [({"n": 1}, {COMPLETENESS: np.where(np.arange(n) < 23, 1.0, NAN), TOKENS: np.full(n, 5.0)})]
    groups = ["large"] * 5 + [f"small {i // 3}" for i in range(20)]
    few = nested([FEW], {"s": made(settings)}, groups=groups, folds=5)["few"]
    empty = [one for one, choice in enumerate(few.choices) if choice.found is None]
    lacking = [one for one in range(5) if (few.fold[:23] != one).sum() < 20]
    assert empty == lacking
    assert len(empty) > 0
    assert few.left_out == np.isin(few.fold, empty).sum()
    assert "completeness applies to " in few.note
    if few.values:
        assert np.isnan(few.values[TOKENS][np.isin(few.fold, empty)]).all()


def test_there_are_no_more_folds_than_groups():
    settings, groups = drawn(), [f"group {i % 3}" for i in range(N)]
    assert len(nested([FEW], {"s": made(settings)}, groups=groups, folds=5)["few"].choices) == 3
    with pytest.raises(ParameterError, match="folds must be 2 to the number of groups, which is 1"):
        nested([FEW], {"s": made(settings)}, groups=["one"] * N, folds=5)


def test_competing_selectors_may_win_on_different_folds():
    cheap, dear = drawn(0), drawn(0)
    for _, by_query in cheap:
        by_query[TOKENS] = by_query[TOKENS] / 2
    few = nested([FEW], {"dear": made(dear), "cheap": made(cheap)}, groups=[str(i) for i in range(N)], folds=3)["few"]
    assert [choice.selector for choice in few.choices] == ["cheap"] * 3
    assert all(choice.settings == 20 for choice in few.choices)


def test_what_is_reachable_is_what_the_first_reaches_without_the_fold():
    reachable = Measure(COMPLETENESS.metric, True)
    asked = Policy(
        name="reach",
        about="",
        objective=TOKENS.metric,
        minimise=True,
        constraints=(Constraint(metric=COMPLETENESS.metric, at_least=0.8, of="reachable", by="mean"),),
    )
    settings, within = drawn(), np.arange(N) % 10 > 0
    for _, by_query in settings:
        by_query[reachable] = by_query[COMPLETENESS]
    worse = [(values, dict(by_query)) for values, by_query in settings]
    reaches = within & (np.arange(N) % 3 > 0)
    for _, by_query in worse:
        by_query[TOKENS] = by_query[TOKENS] / 100  # it would win if it had to reach only 0.8 of what it reaches
        by_query[reachable] = np.where(reaches, by_query[COMPLETENESS], NAN)
    groups = [str(i) for i in range(N)]
    both = {"base": Tried(settings, within), "worse": Tried(worse, reaches)}
    chosen = nested([asked], both, groups=groups, folds=3)["reach"]
    assert {choice.selector for choice in chosen.choices} == {"base"}
    chosen = nested([asked], dict(reversed(both.items())), groups=groups, folds=3)["reach"]
    assert {choice.selector for choice in chosen.choices} == {"worse"}


def test_a_swept_selector_is_that_of_its_settings_one_by_one():
    rng = np.random.default_rng(3)
    catalog = Catalog([Item(type="tool", name=f"t{i}", description=f"Tool {i}.") for i in range(6)])
    queries = tuple(DatasetQuery(request=Request(id=f"q{i}", text="?"), split="tuning") for i in range(90))
    rankings = [rng.permutation(6) for _ in queries]
    labels = [Label(f"q{i}", catalog[int(r[min(rng.geometric(0.5), 6) - 1])].key, 2) for i, r in enumerate(rankings)]
    dataset = Dataset(name="made", version="1", catalog=catalog, queries=queries, labels=tuple(labels))
    table = Candidates.build(
        90, np.repeat(np.arange(90), 6), np.concatenate(rankings), score=np.tile(np.linspace(1, 0.5, 6), 90)
    )
    powers = measures_of([FEW])
    ladders = Ladders.of(table, Labels.of(dataset, rng.integers(5, 90, 6)), tuple(powers), powers=powers)
    family = FixedK("n", range(7))
    settings = [({"n": n}, family.by_query(ladders, {"n": n})) for n in range(7)]
    groups = [f"group {i % 40}" for i in range(90)]
    swept = nested([FEW], {"s": Swept(family, ladders)}, groups=groups, folds=5)["few"]
    one_by_one = nested([FEW], {"s": made(settings)}, groups=groups, folds=5)["few"]
    assert [choice.found.values for choice in swept.choices] == [choice.found.values for choice in one_by_one.choices]
    assert {choice.found.values["n"] for choice in swept.choices} <= {2, 3, 4}
    for measure, values in swept.values.items():
        assert np.array_equal(values, one_by_one.values[measure], equal_nan=True)
