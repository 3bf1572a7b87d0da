"""Two domains: every pair of settings as if the selector ran there, and nothing cheaper than what the front says."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import evaluate, parse_metric, parse_metrics
from ctxbench.evaluation.runner import answered
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import definition, read_definition
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.testing import mock_resources
from ctxbench.tuning.cut_families import StandardMargin
from ctxbench.tuning.domains import Domain, DomainPair, corners, domain_items, domains_of
from ctxbench.tuning.measures import NEVER, Measure
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.setting_lines import Counts, ThresholdSpan

SCRIPT = Path(__file__).parents[3] / "experiments" / "tuning" / "one_domain.py"
SPEC = importlib.util.spec_from_file_location("one_domain", SCRIPT)
ONE_DOMAIN = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ONE_DOMAIN)
METRICS = parse_metrics(
    [
        *("completeness", "recall", "direct_recall", "dependency_recall", "precision", "precision_upper"),
        *("tokens", "total_tokens", "items", "unlabelled", "same_server_confusions", "false_items"),
        *("false_inclusion", "abstention", "forbidden_offered"),
    ]
)
COMPLETE, TOKENS, ITEMS = (Measure(parse_metric(name)) for name in ("completeness", "tokens", "items"))
WITHIN = Measure(parse_metric("completeness"), reachable=True)
MEASURES = (*(Measure(metric) for metric in METRICS), WITHIN)
DOMAINS = definition("semantic-domains")
WORDS = ("issue", "label", "invoice", "court", "date", "mail")
FULL = 4  # a seed whose twenty queries are made complete one by one
UNCUT = {"retrieve": {"dense": {"depth": 100}}}


def labelled(seed: int, *, n_items: int = 10, n_queries: int = 7, partly: bool = False) -> Labels:
    """Tools and rules of few words, duplicates among them; alternatives may be of both; sessions and lists."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 3)).tolist()) for _ in range(n_items)]
    kinds = rng.choice(["tool", "rule", "reference"], size=n_items, p=[0.5, 0.3, 0.2]).tolist()
    items = Catalog(
        [
            Item(type=kind, name=f"{text} {i}", text="", description=text)
            for i, (kind, text) in enumerate(zip(kinds, texts, strict=True))
        ]
    )
    keys = [item.key for item in items]
    queries, labels = [], []
    for number in range(n_queries):
        may = None if rng.random() < 0.7 else tuple(keys[place] for place in sorted(rng.permutation(n_items)[:6]))
        held = tuple(SessionItem(keys[place]) for place in rng.permutation(n_items)[: rng.integers(0, 2)])
        held = tuple(one for one in held if may is None or one.key in may)
        text = ". ".join(rng.choice(WORDS, size=rng.integers(0, 4)).tolist())
        request = Request(id=f"q{number}", text=text, session=held, available=may)
        pool = [key for key in keys if may is None or key in may]
        needed = [pool[place] for place in rng.permutation(len(pool))[: rng.integers(0, 6)]]
        some = partly and number % 3 == 2
        nothing = not needed and not some
        queries.append(DatasetQuery(request=request, split="tuning", needs_nothing=nothing, partly_labelled=some))
        groups = ["", "a", "a", "b", "b", "b"] if len(needed) > 3 else ["", "a", "a"] if len(needed) == 3 else [""] * 2
        if len(needed) == 4:
            groups = ["a", "a", "b", "b"]
        via = rng.choice(["direct", "dependency"], size=6).tolist()
        labels += [
            Label(request.id, key, 2, via=one, alternatives=group)
            for key, group, one in zip(needed, groups, via, strict=False)
        ]
        spare = [key for key in pool if key not in needed]
        labels += [Label(request.id, key, int(rng.integers(0, 2))) for key in spare if rng.random() < 0.3]
    dataset = Dataset(name="two", version="1", catalog=items, queries=tuple(queries), labels=tuple(labels))
    return Labels.of(dataset, mock_resources().tokens(items))


def uncut(labels: Labels):
    return Pipeline.of(UNCUT).run(labels.dataset.batch(), mock_resources()).candidates


def shared(labels: Labels, *, topKs, topNs, measures=MEASURES, selector=DOMAINS) -> DomainPair:
    rankings = MeasuredRankings.of(uncut(labels), labels, measures)
    return DomainPair(rankings, domains_of(selector, topKs=topKs, topNs=topNs))


def by_running(labels: Labels, values, metrics=METRICS) -> dict[Measure, np.ndarray]:
    made = PipelineSelector("x", DOMAINS.pipeline(DOMAINS.with_defaults(values)), mock_resources())
    evidence = labels.evidence(answered(made, labels.dataset.batch()))
    found = {Measure(metric): value for metric, value in evaluate(metrics, evidence).items()}
    within = evaluate([parse_metric("Comp@20")], evidence)[parse_metric("Comp@20")]
    return {**found, WITHIN: np.where(within == 1, found[COMPLETE], np.nan)}


SETTINGS = st.fixed_dictionaries(
    {
        "contextTopK": st.integers(1, 30),
        **{f"{domain}TopN": st.integers(0, 5) for domain in ("tools", "rules")},
        **{f"{domain}IncludeScore": st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]) for domain in ("tools", "rules")},
        **{f"{domain}Margin": st.sampled_from([0.0, 0.2, 0.5, 1.0]) for domain in ("tools", "rules")},
    }
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), SETTINGS)
def test_one_setting_by_query_is_as_if_the_selector_ran(seed, values):
    labels = labelled(seed, partly=seed % 2 == 1)
    found = shared(labels, topKs=(1,), topNs=(0,)).by_query(values)
    expected = by_running(labels, values)
    for measure in MEASURES:
        assert np.array_equal(found[measure], expected[measure], equal_nan=True), str(measure)


def every_setting(both: DomainPair):
    """All pairs of settings of both domains that have the same topK, all thresholds among them."""
    lines = [list(domain.family.lines(own)) for domain, own in zip(both.domains, both._parts, strict=True)]
    for one, other in itertools.product(*lines):
        if one.values["contextTopK"] == other.values["contextTopK"]:
            yield from (
                {**one.values_at(row), **other.values_at(column)}
                for row, column in itertools.product(range(len(one)), range(len(other)))
            )


COSTS = tuple(
    Measure(parse_metric(name))
    for name in ("tokens", "total_tokens", "items", "unlabelled", "same_server_confusions", "false_items")
)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([COMPLETE, WITHIN]),
    st.sampled_from(COSTS),
    st.sampled_from([None, (COMPLETE, 0.5), (WITHIN, 0.4)]),
)
def test_nothing_beats_the_front_and_the_front_is_what_it_says(seed, gain, cost, floor):
    labels = labelled(seed, n_items=6, n_queries=4, partly=seed % 2 == 1)
    both = shared(labels, topKs=(2, 20), topNs=(0, 2))
    every = [
        (values, {m: float(np.nansum(v)) for m, v in both.by_query(values).items()}) for values in every_setting(both)
    ]
    most = {measure: max(sums[measure] for _, sums in every) for measure in MEASURES}
    floors = {} if floor is None else {floor[0]: floor[1] * most[floor[0]]}
    front = both.front(gain, cost, floors=floors)
    kept = [
        (sums[cost], sums[gain]) for _, sums in every if all(sums[one] >= least - 1e-9 for one, least in floors.items())
    ]
    expected, best = [], -1.0
    for price, gained in sorted(kept, key=lambda one: (one[0], -one[1])):
        if gained > best + 1e-9:
            expected.append((price, gained))
            best = gained
    assert front.settings == len(every)
    assert list(zip(front.cost.tolist(), front.gain.tolist(), strict=True)) == [
        (pytest.approx(price), pytest.approx(gained)) for price, gained in expected
    ]
    for place, values in enumerate(front.values):
        for setting in (values, front.rounded[place]):
            assert DOMAINS.values(overrides=setting)["contextTopK"] == values["contextTopK"]
            found = by_running(labels, setting)
            assert np.nansum(found[cost]) == front.cost[place]
            assert np.nansum(found[gain]) == pytest.approx(front.gain[place], rel=1e-12)


def test_along_a_front_cost_and_gain_rise():
    labels = labelled(FULL, n_queries=20)
    both = shared(labels, topKs=(5, 20), topNs=(0, 1, 2))
    front = both.front(COMPLETE, TOKENS)
    assert len(front) > 2
    assert (np.diff(front.cost) > 0).all()
    assert (np.diff(front.gain) > 0).all()


def test_lines_of_a_front_hold_what_keepers_need():
    labels = labelled(FULL, n_queries=20)
    both = shared(labels, topKs=(20,), topNs=(0, 2))
    front = both.front(COMPLETE, TOKENS)
    for place, line in enumerate(both.lines(front)):
        assert line.values_at(0) == front.rounded[place]
        assert line.sums[COMPLETE].tolist() == [front.gain[place]]
        assert line.sums[TOKENS].tolist() == [front.cost[place]]
        assert line.squares[TOKENS][0] == pytest.approx(np.nansum(both.by_query(front.values[place])[TOKENS] ** 2))


def test_a_requirement_that_either_domain_meets_is_bought_where_it_is_cheaper():
    """One request; a short rule and a long tool stand for each other, and both are offered by their first place."""
    catalog = Catalog(
        [
            Item(type="rule", name="mail", description="court"),
            Item(type="tool", name="mail", description="court", schema={"type": "object", "title": "long" * 50}),
        ]
    )
    query = DatasetQuery(request=Request(id="q", text="mail date"), split="tuning")
    pair = tuple(Label("q", item.key, 2, alternatives="either") for item in catalog)
    dataset = Dataset(name="pair", version="1", catalog=catalog, queries=(query,), labels=pair)
    labels = Labels.of(dataset, np.array([10, 500]))
    front = shared(labels, topKs=(20,), topNs=(0, 1)).front(COMPLETE, TOKENS)
    assert (front.cost.tolist(), front.gain.tolist()) == ([0.0, 10.0], [0.0, 1.0])
    assert by_running(labels, front.rounded[1])[ITEMS].tolist() == [1.0]


def test_of_equal_settings_the_first_in_order_is_named():
    labels = labelled(5)
    one = shared(labels, topKs=(20, 30), topNs=(0, 1)).front(COMPLETE, TOKENS)
    again = shared(labels, topKs=(30, 20), topNs=(1, 0)).front(COMPLETE, TOKENS)
    assert one.values == again.values, "topK and topN are tried in rising order, whatever order they come in"
    assert {values["contextTopK"] for values in one.values} == {20}, "30 finds no more among ten items"


def test_a_front_of_some_queries_is_that_of_their_dataset():
    labels = labelled(11)
    ids = [query.id for query in labels.dataset.queries]
    some = np.array([True, False, True, True, False, True, False])
    part = Labels.of(
        labels.dataset.take([one for one, keep in zip(ids, some, strict=True) if keep]), labels.item_tokens
    )
    domains = domains_of(DOMAINS, topKs=(20,), topNs=(0, 1, 2))
    fold = DomainPair(MeasuredRankings.of(uncut(labels), labels, MEASURES).select_queries(some), domains)
    own = DomainPair(MeasuredRankings.of(uncut(part), part, MEASURES), domains)
    one, other = fold.front(COMPLETE, TOKENS), own.front(COMPLETE, TOKENS)
    assert (one.values, one.cost.tolist(), one.gain.tolist()) == (
        other.values,
        other.cost.tolist(),
        other.gain.tolist(),
    )
    for measure, values in fold.by_query(one.values[-1]).items():
        assert np.array_equal(values, own.by_query(one.values[-1])[measure], equal_nan=True)


def test_queries_that_need_nothing_have_a_front_of_nothing():
    labels = labelled(2)
    dataset = labels.dataset
    bare = replace(dataset, queries=tuple(replace(query, needs_nothing=True) for query in dataset.queries), labels=())
    both = shared(Labels.of(bare, labels.item_tokens), topKs=(20,), topNs=(0, 1))
    front = both.front(COMPLETE, TOKENS)
    assert (front.gain.tolist(), len(front)) == ([0.0], 1)
    none = shared(Labels.of(dataset.take(()), labels.item_tokens), topKs=(20,), topNs=(0,)).front(COMPLETE, TOKENS)
    assert (none.cost.tolist(), none.gain.tolist()) == ([0.0], [0.0])


def test_what_nothing_keeps_to_has_an_empty_front():
    both = shared(labelled(3), topKs=(20,), topNs=(0, 1))
    assert len(both.front(COMPLETE, TOKENS, floors={COMPLETE: 1000})) == 0


def test_a_threshold_of_both_domains_is_refused():
    tools, rules = domains_of(DOMAINS, topKs=(20,), topNs=(1,))
    twice = replace(rules, family=replace(rules.family, includeScore=tools.family.includeScore))
    rankings = MeasuredRankings.of(uncut(labelled(3)), labelled(3), MEASURES)
    with pytest.raises(ParameterError, match="toolsIncludeScore: a threshold of both domains"):
        DomainPair(rankings, [tools, twice]).front(COMPLETE, TOKENS)


def test_every_item_belongs_to_a_domain():
    rankings = MeasuredRankings.of(uncut(labelled(3)), labelled(3), MEASURES)
    tools, rules = domains_of(DOMAINS, topKs=(20,), topNs=(1,))
    with pytest.raises(ParameterError, match="belongs to no domain"):
        DomainPair(rankings, [tools, replace(rules, types=("memory",))])


# ----------------------------------------------------------------------------------------------------------- staircases


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 3, 4, NEVER])] * 2), max_size=4))
def test_corners_are_the_least_lengths_that_meet_everything(firsts):
    def met(one, other):
        return all(one >= first or other >= second for first, second in firsts)

    found = corners(firsts)
    for one, other in itertools.product(range(6), repeat=2):
        assert met(one, other) == any(one >= row and other >= column for row, column in found)
        overlaps = itertools.pairwise(found)
        counted = sum(one >= row and other >= column for row, column in found)
        counted -= sum(one >= right and other >= column for (_, column), (right, _) in overlaps)
        assert counted == met(one, other), "each pair of lengths is counted once"


# ----------------------------------------------------------------------------------------------------- a domain alone


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(0, 1), st.integers(1, 20), st.integers(0, 4), st.sampled_from([0.2, 0.5, 1.0])
)
def test_a_domain_alone_offers_what_it_offers_beside_the_other(seed, which, top_k, top_n, margin):
    labels = labelled(seed)
    family = domains_of(DOMAINS, topKs=(top_k,), topNs=(top_n,))[which].family
    held = domain_items(labels.dataset.catalog, [("tool",), ("*",)])[which]
    table, own = ONE_DOMAIN.restrict_to_domain(uncut(labels), labels, held)
    name = ("tools", "rules")[which]
    values = {"contextTopK": top_k, f"{name}TopN": top_n, f"{name}IncludeScore": 0.6, f"{name}Margin": margin}
    found = family.by_query(MeasuredRankings.of(table, own, MEASURES), values)
    other = ("rules", "tools")[which]
    nothing = {f"{other}TopN": 0, f"{other}IncludeScore": 1.0, f"{other}Margin": 0.0}
    made = PipelineSelector("x", DOMAINS.pipeline(DOMAINS.with_defaults({**values, **nothing})), mock_resources())
    answers = answered(made, labels.dataset.batch()).candidates
    rows = answers.chosen & (answers.origin > 0) & held[answers.item]
    assert found[ITEMS].tolist() == np.bincount(answers.request[rows], minlength=len(labels.dataset)).tolist()
    tokens = np.bincount(answers.request[rows], labels.item_tokens[answers.item[rows]], minlength=len(labels.dataset))
    assert found[TOKENS].tolist() == tokens.tolist()


def test_a_query_that_needs_nothing_of_a_domain_counts_for_tokens_only():
    catalog = Catalog([Item(type="tool", name="mail"), Item(type="rule", name="mail"), Item(type="rule", name="court")])
    queries = tuple(DatasetQuery(request=Request(id=name, text="mail court"), split="tuning") for name in "abc")
    tool, rule, court = (item.key for item in catalog)
    labels = (
        Label("a", tool, 2),
        Label("b", rule, 2),
        Label("c", tool, 2, alternatives="x"),
        Label("c", court, 2, alternatives="x"),
    )
    dataset = Dataset(name="three", version="1", catalog=catalog, queries=queries, labels=labels)
    whole = Labels.of(dataset, np.array([1, 20, 300]))
    tools, rules = domain_items(catalog, [("tool",), ("*",)])
    table, own = ONE_DOMAIN.restrict_to_domain(uncut(whole), whole, tools)
    rankings = MeasuredRankings.of(table, own, (COMPLETE, TOKENS))
    everything = np.full(3, 9)
    assert rankings.values(TOKENS, everything).tolist() == [1, 1, 1]
    assert np.array_equal(rankings.values(COMPLETE, everything), [1, np.nan, 1], equal_nan=True)
    table, own = ONE_DOMAIN.restrict_to_domain(uncut(whole), whole, rules)
    rankings = MeasuredRankings.of(table, own, (COMPLETE, TOKENS))
    assert np.array_equal(rankings.values(COMPLETE, np.zeros(3, np.int64)), [np.nan, 0, 0], equal_nan=True)
    assert rankings.values(TOKENS, everything).tolist() == [320, 320, 320]


def test_what_the_session_holds_of_the_other_domain_need_not_be_found_in_this_one():
    catalog = Catalog([Item(type="tool", name="mail"), Item(type="rule", name="mail")])
    tool, rule = (item.key for item in catalog)
    request = Request(id="a", text="mail", session=(SessionItem(rule),))
    labels = tuple(Label("a", key, 2, alternatives="x") for key in (tool, rule))
    query = DatasetQuery(request=request, split="tuning")
    dataset = Dataset(name="one", version="1", catalog=catalog, queries=(query,), labels=labels)
    whole = Labels.of(dataset, np.array([1, 20]))
    tools, rules = domain_items(catalog, [("tool",), ("*",)])
    _, own = ONE_DOMAIN.restrict_to_domain(uncut(whole), whole, tools)
    assert [(label.item, label.grade) for label in own.dataset.labels] == [(tool, 1)]
    assert own.dataset.queries[0].needs_nothing
    table, own = ONE_DOMAIN.restrict_to_domain(uncut(whole), whole, rules)
    values = MeasuredRankings.of(table, own, (COMPLETE,)).values(COMPLETE, np.zeros(1, np.int64))
    assert values.tolist() == [1.0], "held"


# ------------------------------------------------------------------------------------------------- reading a definition


def test_domains_of_the_shipped_selector():
    tools, rules = domains_of(DOMAINS, topKs=(20, 10), topNs=(3, 1))
    assert (tools.types, rules.types) == (("tool",), ("*",))
    assert (tools.family.topK.name, tools.family.topK.values) == ("contextTopK", (10, 20))
    assert (rules.family.topN.name, rules.family.topN.values) == ("rulesTopN", (1, 3))
    assert (tools.family.includeScore.name, tools.family.includeScore.high) == ("toolsIncludeScore", 1.0)
    assert (rules.family.margin.name, rules.family.at_most) == ("rulesMargin", 100)


def test_what_is_given_stays_as_it_is_and_a_mode_gives_what_it_sets():
    given = {"toolsMode": "conservative", "rulesMargin": 0.4, "contextTopK": 30}
    tools, rules = domains_of(DOMAINS, topKs=(20, 10), topNs=(3, 1), fixed=given)
    assert (tools.family.topK.values, rules.family.topK.values) == ((30,), (30,))
    set_by_mode = DOMAINS.parameters["toolsMode"].choices["conservative"]
    assert tools.family.topN.values == (set_by_mode["toolsTopN"],)
    assert tools.family.includeScore.high == tools.family.includeScore.low == set_by_mode["toolsIncludeScore"]
    assert not tools.family.margin.swept
    assert (rules.family.margin.high, rules.family.topN.values) == (0.4, (1, 3))
    labels = labelled(FULL, n_queries=20)
    front = DomainPair(MeasuredRankings.of(uncut(labels), labels, MEASURES), (tools, rules)).front(COMPLETE, TOKENS)
    for values, cost, gain in zip(front.rounded, front.cost, front.gain, strict=True):
        assert values.items() >= {"toolsTopN": set_by_mode["toolsTopN"], "rulesMargin": 0.4}.items()
        found = by_running(labels, {**given, **values})
        assert (np.nansum(found[TOKENS]), np.nansum(found[COMPLETE])) == (cost, gain)


def test_what_the_pipeline_fixes_is_no_parameter(tmp_path):
    path = tmp_path / "one.yaml"
    head = "name: one\nparameters:\n  n: {default: 2, range: [0, 9]}\npipeline:\n  retrieve: dense\n"
    path.write_text(
        f"{head}  refine: [{{by_domain: {{tool: [{{standard: {{topN: $n}}}}], '*': [standard]}}}}]\n", "utf-8"
    )
    tools, others = domains_of(read_definition(path), topKs=(5,), topNs=(1, 2))
    assert (tools.family.topN.values, others.family.topN.values) == ((1, 2), (5,))
    assert (tools.family.topK.values, tools.family.includeScore.high, tools.family.margin) == ((20,), 0.7, None)
    labels = labelled(FULL, n_queries=20)
    both = DomainPair(MeasuredRankings.of(uncut(labels), labels, MEASURES), (tools, others))
    assert [*both.front(COMPLETE, TOKENS).values[0]] == ["n"]


def test_items_are_dealt_out_as_by_domain_does():
    catalog = Catalog([Item(type=kind, name="x") for kind in ("tool", "rule", "memory")])
    held = domain_items(catalog, [("rule", "reference"), ("*",)])
    assert [one.tolist() for one in held] == [[False, True, False], [True, False, True]]


@pytest.mark.parametrize(
    ("refine", "message"),
    [
        ("[{first: {n: $n}}]", "no by_domain as its last step"),
        ("[{by_domain: {tool: [{first: {n: $n}}], '*': [standard]}}]", "swept over the cut"),
        ("[{by_domain: {'*': [{standard: {topN: $n}}, gap]}}]", "swept over the cut"),
        ("[{by_domain: {'*': [{standard: {topN: $n}}, {margin: {margin: 0.1}}]}}]", "swept over the cut"),
    ],
)
def test_domains_that_cannot_be_swept_are_refused(tmp_path, refine, message):
    path = tmp_path / "one.yaml"
    head = "name: one\nparameters:\n  n: {default: 2, range: [0, 9]}\npipeline:\n  retrieve: dense\n"
    path.write_text(f"{head}  refine: {refine}\n", "utf-8")
    with pytest.raises(ParameterError, match=message):
        domains_of(read_definition(path), topKs=(20,), topNs=(1,))


def test_each_domain_may_have_a_top_k_of_its_own_that_leaves_out_items_above_others():
    """One request, three tools; the best chunk of the one that scores highest comes fourth, so topK 2 leaves it out."""
    catalog = Catalog([*(Item(type="tool", name=f"t{i}") for i in range(3)), Item(type="rule", name="r", text="t")])
    query = DatasetQuery(request=Request(id="q", text="t"), split="tuning")
    dataset = Dataset(
        name="one", version="1", catalog=catalog, queries=(query,), labels=(Label("q", catalog[0].key, 2),)
    )
    labels = Labels.of(dataset, np.array([10, 20, 30, 40]))
    table = Candidates.build(
        1, np.zeros(4, np.int64), np.arange(4), score=np.array([0.9, 0.8, 0.7, 0.6]), chunk_rank=np.array([3, 0, 1, 2])
    )
    table = table.reordered(origin=np.full(4, Origin.SEARCH))
    one = ThresholdSpan.fixed("", 1.0)
    domains = [
        Domain(types=("tool",), family=StandardMargin(Counts("toolsTopK", (2, 9)), Counts("toolsTopN", (0, 1)), one)),
        Domain(types=("*",), family=StandardMargin(Counts("rulesTopK", (2, 9)), Counts("", (0,)), one)),
    ]
    front = DomainPair(MeasuredRankings.of(table, labels, (COMPLETE, TOKENS)), domains).front(COMPLETE, TOKENS)
    assert (front.cost.tolist(), front.gain.tolist()) == ([0.0, 10.0], [0.0, 1.0])
    assert front.values[1] == {"toolsTopK": 9, "toolsTopN": 1, "rulesTopK": 2}
