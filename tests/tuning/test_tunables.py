"""What competes: which cuts are swept and over which parameters, what is tried, and what a policy file gets wrong."""

from __future__ import annotations

import pytest

from ctxbench.io.errors import InputError
from ctxbench.tuning.cut_families import TOP_K, TOP_N, BudgetFamily, FixedK, StandardMargin, ThresholdFamily
from ctxbench.tuning.domains import BUDGETS
from ctxbench.tuning.inputs import read_tunables
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.setting_lines import Counts, ThresholdSpan

N = {"n": {"default": 5, "range": [0, 50]}}
TOKENS = {"tokens": {"default": 900, "range": [100, 4000]}}
CUT = {"standard": {"topK": 20, "topN": "$n", "includeScore": 0.5}}


@pytest.fixture
def tunable(policies):
    """The one competitor of a policy file."""

    def read(entry):
        (one,), faults = read_tunables(read_policies(policies(entry)))
        assert not faults
        return one

    return read


@pytest.fixture
def faults(policies):
    """What is wrong with the competitors of a policy file: line and message."""

    def read(*entries):
        _, found = read_tunables(read_policies(policies(*entries)))
        return [(fault.line, fault.message) for fault in found]

    return read


# ------------------------------------------------------------------------------------------------------------ families


def test_semantic_is_swept_over_its_cut_and_its_margin(tunable):
    family = tunable("semantic").family
    assert isinstance(family, StandardMargin)
    assert (family.topK, family.topN) == (
        Counts("contextTopK", tuple(range(1, 101))),
        Counts("contextTopN", tuple(range(51))),
    )
    assert (family.includeScore, family.margin) == (
        ThresholdSpan("contextIncludeScore", 0, 1),
        ThresholdSpan("contextMargin", 0, 1),
    )
    assert tunable("semantic").swept_thresholds == {"contextIncludeScore", "contextMargin"}
    assert tunable("semantic").tried_values == {}


def test_the_original_has_no_margin(tunable):
    assert tunable("semantic-original").family.margin is None


@pytest.mark.parametrize("name", ["dense", "bm25", "hybrid"])
def test_baselines_are_swept_over_the_number_of_items(tunable, name):
    family = tunable(name).family
    assert isinstance(family, FixedK)
    assert (family.n, tuple(family.values)) == ("n", tuple(range(101)))


def test_a_probability_is_swept_over_its_threshold(tunable, fitted):
    one = tunable(fitted())
    assert one.family == ThresholdFamily(
        threshold=ThresholdSpan("threshold", 0, 1), at_least=Counts("atLeast", (0, 1, 2, 3))
    )
    assert one.first_cut == 1, "the probability is part of what is found"


def test_two_domains_are_swept_together(tunable):
    one = tunable("semantic-domains")
    assert one.family is None
    assert [domain.types for domain in one.domains] == [("tool",), ("*",)]
    assert one.domains[0].family.topK == Counts("contextTopK", TOP_K)
    assert one.domains[1].family.margin == ThresholdSpan("rulesMargin", 0, 1)
    assert one.tried_values == {}
    assert one.swept_thresholds == {"toolsIncludeScore", "toolsMargin", "rulesIncludeScore", "rulesMargin"}


@pytest.mark.parametrize(
    "refine",
    [
        [{"per_chunk": {"minimum": "$n"}}],
        [{"gap": {"at_least": 1, "at_most": "$n"}}],
        [{"first": {"n": 50}}, {"first": {"n": "$n"}}],
        [CUT, {"margin": {"margin": 0.3, "of": "difference"}}],
        [CUT, {"margin": {"margin": 0.3, "of": "ratio", "at_least": 1}}],
        [{"first": {"n": "$n"}}, {"budget": {"tokens": 900, "skip": True}}],
        [{"first": {"n": "$n"}}, {"budget": {"tokens": 900, "session": True}}],
    ],
)
def test_other_cuts_are_tried(tunable, selector, refine):
    one = tunable(selector(refine, {"n": {"default": 5, "range": [1, 9]}}))
    assert one.family is None
    assert one.domains == ()
    assert one.tried_values == {"n": tuple(range(1, 10))}
    assert one.swept_thresholds == one.swept_parameters == frozenset()
    assert not one.is_swept({})


def test_a_budget_of_tokens_stands_on_top_of_a_cut(tunable, selector):
    fixed = tunable(selector([CUT, {"budget": {"tokens": 900}}], N)).family
    assert isinstance(fixed, BudgetFamily)
    assert isinstance(fixed.of, StandardMargin)
    assert (fixed.tokens, len(fixed.of.topN.values)) == (Counts("", (900,)), 51)


def test_of_a_fixed_number_of_items_every_budget_is_swept(tunable, selector):
    one = tunable(selector([{"first": {"n": "$n"}}, {"budget": {"tokens": "$tokens"}}], {**N, **TOKENS}))
    assert one.family.tokens == ThresholdSpan("tokens", 100, 4000)
    assert one.swept_thresholds == {"tokens"}


def test_beside_a_threshold_some_budgets_are_tried(tunable, selector):
    cut = {"standard": {"topK": "$k", "topN": "$n", "includeScore": "$score"}}
    parameters = {
        **N,
        **TOKENS,
        "k": {"default": 20, "range": [1, 100]},
        "score": {"default": 0.5, "range": [0.0, 1.0]},
    }
    file = selector([cut, {"budget": {"tokens": "$tokens"}}], parameters)
    one = tunable(file)
    budgets = one.family.tokens.values
    assert (budgets[0], budgets[-1]) == (100, 4000)
    assert 900 in budgets, "the default"
    assert len(budgets) == BUDGETS + 1
    assert (one.family.of.topK.values, one.family.of.topN.values) == (TOP_K, TOP_N)
    listed = tunable({"selector": file, "search": {"tokens": [500, 2000]}})
    assert listed.family.tokens.values == (500, 2000)


def test_a_limit_that_no_sweep_turns_can_be_searched(tunable, selector):
    refine = [CUT, {"margin": {"margin": "$margin", "of": "ratio", "at_least": 0, "at_most": "$most"}}]
    parameters = {**N, "margin": {"default": 0.3, "range": [0.0, 1.0]}, "most": {"default": 9, "range": [1, 50]}}
    one = tunable({"selector": selector(refine, parameters), "search": {"most": [3, 6]}})
    assert one.family.at_most == 9
    assert one.tried_values == {"most": (3, 6)}
    assert one.is_swept({"n": 2, "margin": 0.1})
    assert not one.is_swept({"n": 2, "most": 3})


def test_a_cut_of_probabilities_keeps_its_limit(tunable, selector):
    refine = [{"at_least": {"threshold": "$t", "at_most": "$n"}}]
    family = tunable(selector(refine, {"t": {"default": 0.1, "range": [0.0, 1.0]}, **N})).family
    assert family.at_most.name == "n"


# ------------------------------------------------------------------------------------------------------ set and search


def test_what_is_set_is_not_turned(tunable):
    one = tunable({"selector": "semantic", "set": {"contextTopK": 30, "contextMargin": 1}})
    assert one.family.topK == Counts("contextTopK", (30,))
    assert one.family.margin == ThresholdSpan.fixed("contextMargin", 1.0)
    assert one.swept_thresholds == {"contextIncludeScore"}
    assert type(one.values()["contextMargin"]) is float, "as the parameter keeps it"


def test_of_whole_numbers_those_that_are_listed_are_tried(tunable):
    one = tunable({"selector": "semantic", "search": {"contextTopN": [5, 1]}})
    assert one.family.topN == Counts("contextTopN", (1, 5))
    assert one.tried_values == {}


def test_a_choice_that_is_set_holds_what_it_sets(tunable):
    one = tunable({"selector": "semantic-domains", "set": {"rulesMode": "aggressive"}})
    tools, rules = (domain.family for domain in one.domains)
    assert rules.topN == Counts("rulesTopN", (8,))
    assert not rules.includeScore.swept
    assert tools.includeScore.swept


def test_two_domains_try_what_is_listed(tunable):
    one = tunable({"selector": "semantic-domains", "search": {"toolsTopN": [2, 4], "contextTopK": [20]}})
    tools, rules = (domain.family for domain in one.domains)
    assert (tools.topN.values, rules.topN.values) == ((2, 4), TOP_N)
    assert tools.topK.values == rules.topK.values == (20,)
    assert one.tried_values == {}


def test_expansion_stands_behind_what_is_swept(tunable):
    entry = {"selector": "semantic", "set": {"contextExpansionEnabled": True}}
    one = tunable({**entry, "search": {"contextExpansionDepth": [1, 2]}})
    assert isinstance(one.family, StandardMargin)
    assert one.has_expansion({})
    assert not one.is_swept({})
    assert one.tried_values == {"contextExpansionDepth": (1, 2)}
    assert not tunable("semantic").has_expansion({})
    assert "contextExpansionThreshold" in one.varied_parameters({})
    assert "contextExpansionThreshold" not in tunable("semantic").varied_parameters({})


def test_settings_of_another_ranking_are_not_those_of_the_sweep(tunable):
    one = tunable({"selector": "bm25", "search": {"b": [0.2, 0.8]}})
    assert one.is_swept({"n": 3})
    assert not one.is_swept({"n": 3, "b": 0.2})
    assert set(one.varied_parameters({})) == {"b", "n"}
    assert set(tunable("bm25").varied_parameters({})) == {"n"}, "what is not searched stays as it is"


def test_a_mode_whose_values_are_others_has_no_effect(tunable):
    one = tunable("semantic-domains")
    assert "rulesMode" in one.in_force({})
    shown = one.in_force({"rulesTopN": 50, "rulesIncludeScore": 1.0, "rulesMargin": 0.3})
    assert "rulesMode" not in shown
    assert (shown["toolsMode"], shown["rulesTopN"]) == ("conservative", 50)


def test_a_coarse_family_keeps_what_is_given(tunable):
    few = tunable("semantic").family.coarse()
    assert (few.topK.values, few.topN.values) == (TOP_K, TOP_N)
    one = tunable({"selector": "semantic", "set": {"contextTopK": 33}, "search": {"contextTopN": [7, 9]}}).family
    assert one.coarse() == one


# -------------------------------------------------------------------------------------------------------------- faults


def test_a_threshold_need_not_be_searched(faults):
    ((line, what),) = faults({"selector": "semantic", "search": {"contextMargin": [0.2, 0.4]}})
    assert what == "every value of contextMargin that matters is tried; leave it out"
    assert line == 5


def test_every_fault_has_its_line(faults):
    found = faults(
        {"selector": "semantic", "set": {"contextTopM": 3}, "search": {"contextTopN": [1, 99]}},
        {"selector": "semantic/norml", "name": "preset"},
        {"selector": "semantik", "name": "none"},
        {"answers": "missing.jsonl"},
    )
    starts = [
        "selector 'semantic' has no parameter 'contextTopM'",
        "contextTopN must be 0 to 50, got 99",
        "unknown preset 'norml' of selector 'semantic'",
        "unknown selector 'semantik'",
        "cannot read",
    ]
    assert [what[: len(start)] for (_, what), start in zip(found, starts, strict=True)] == starts
    assert [line for line, _ in found] == [5, 9, 10, 12, 14]


def test_a_value_without_effect_is_refused(faults):
    ((_, what),) = faults({"selector": "semantic", "set": {"contextExpansionDepth": 2}})
    assert "contextExpansionDepth has no effect while contextExpansionEnabled is false" in what


def test_a_faulty_definition_is_said_with_its_own_lines(policies, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: bad\npipeline:\n  retrieve: dense\n  refine: [frist]\n")
    _, found = read_tunables(read_policies(policies("bad.yaml")))
    assert [(fault.path.name, fault.line) for fault in found] == [("bad.yaml", 4)]


def test_names_in_tables_are_told_apart(policies):
    with pytest.raises(InputError, match="two selectors have the name 'semantic'"):
        read_policies(policies("semantic", {"selector": "semantic", "set": {"contextTopN": 1}}))


def test_a_value_that_a_step_does_not_take_is_refused(policies, tmp_path):
    (tmp_path / "own.yaml").write_text(
        "name: own\nparameters:\n  how: {default: max, choices: [max, median]}\n"
        "pipeline:\n  retrieve: {dense: {over_chunks: $how}}\n"
    )
    _, ((fault),) = read_tunables(read_policies(policies({"selector": "own.yaml", "search": {"how": ["median"]}})))
    assert "over_chunks" in fault.message
    assert "how" in fault.message


# ------------------------------------------------------------------------------------------------------------ switches


def test_depth_0_is_one_setting_of_a_grid_and_no_expansion(tunable):
    given = {"contextExpansionEnabled": True}
    one = tunable({"selector": "semantic", "set": given, "search": {"contextExpansionDepth": [0, 1, 2]}})
    assert [one.has_expansion({"contextExpansionDepth": depth}) for depth in (0, 1, 2)] == [False, True, True]
    assert not one.is_swept({"contextExpansionDepth": 0})
    assert "contextExpansionTopN" not in one.varied_parameters({"contextExpansionDepth": 0})
    assert "contextExpansionTopN" in one.varied_parameters({"contextExpansionDepth": 1})
    assert one.in_force({"contextExpansionDepth": 0})["contextExpansionDepth"] == 0


def test_depth_0_given_leaves_the_sweep_exact(tunable):
    one = tunable({"selector": "semantic", "set": {"contextExpansionEnabled": True, "contextExpansionDepth": 0}})
    assert isinstance(one.family, StandardMargin)
    assert not one.has_expansion({})
    assert one.is_swept({"contextTopN": 3})


def test_a_token_budget_that_is_given_is_part_of_the_sweep(tunable):
    one = tunable({"selector": "semantic", "set": {"contextTokenBudgetEnabled": True}})
    assert isinstance(one.family, BudgetFamily)
    assert one.family.tokens.name == "contextTokenBudget"
    assert len(one.family.tokens.values) > 10
    assert one.is_swept({"contextTokenBudget": 500})
    one = tunable({"selector": "semantic", "set": {"contextTokenBudgetEnabled": True, "contextTokenBudget": 500}})
    assert one.family.tokens == Counts("contextTokenBudget", (500,))


def test_a_token_budget_that_is_searched_is_tried(tunable):
    search = {"contextTokenBudgetEnabled": [False, True], "contextTokenBudget": [300, 900]}
    one = tunable({"selector": "semantic", "search": search})
    assert isinstance(one.family, StandardMargin)
    assert one.tried_values == {name: tuple(values) for name, values in search.items()}
    assert not one.is_swept({"contextTokenBudgetEnabled": True})
    assert one.is_swept({"contextTokenBudgetEnabled": False})
    assert "contextTokenBudgetEnabled" in one.varied_parameters({})


def test_what_a_domain_alone_has_is_tried(tunable):
    one = tunable({"selector": "semantic-domains", "set": {"toolsTopK": 20}})
    assert (one.family, one.domains) == (None, ())
    assert "contextSearchEnabled" not in one.tried_values
    assert "toolsTopN" in one.tried_values
    one = tunable({"selector": "semantic-domains", "search": {"toolsTopK": [20, 100]}})
    assert len(one.domains) == 2
    assert one.tried_values == {"toolsTopK": (20, 100)}


def test_with_the_search_off_there_is_nothing_to_try(tunable):
    one = tunable({"selector": "semantic", "set": {"contextSearchEnabled": False}})
    assert (one.family, one.domains, one.tried_values) == (None, (), {})
    assert one.in_force({}) == {"contextSearchEnabled": False}


RANKED_ANEW = [{"expansion": {"threshold": 0.2, "topN": 5}}, "rrf"]


def test_a_cut_behind_an_expansion_that_a_rank_step_follows_is_swept(tunable, selector):
    one = tunable(selector([*RANKED_ANEW, {"first": {"n": "$n"}}], {"n": {"default": 5, "range": [1, 9]}}))
    assert (one.first_cut, one.family) == (2, FixedK("n", tuple(range(1, 10))))
    assert one.is_swept({"n": 3})
    assert not one.has_expansion({})


@pytest.mark.parametrize("ahead", [CUT, {"first": {"n": "$n"}}])
def test_a_cut_in_front_of_it_is_tried(tunable, selector, ahead):
    one = tunable(selector([ahead, *RANKED_ANEW], {"n": {"default": 5, "range": [1, 9]}}))
    assert (one.first_cut, one.family) == (0, None)
    assert one.tried_values == {"n": tuple(range(1, 10))}


def test_a_parameter_that_is_not_tuned_has_its_default_unless_the_policy_lists_values(tunable):
    own = {"selector": "assembly", "search": {"tokens": [1000, 2000], "full_text": [5], "characters": [500]}}
    assert tunable(own).tried_values == {"tokens": (1000, 2000), "full_text": (5,), "characters": (500,)}
    listed = {**own, "search": {**own["search"], "recent": [0, 5]}}
    assert tunable(listed).tried_values["recent"] == (0, 5)
