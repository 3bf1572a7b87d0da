"""Metrics against hand-worked tables, against ir-measures, and in their empty cases."""

import math
from dataclasses import replace

import ir_measures
import numpy as np
import pytest

from ctxbench.evaluation.metrics import (
    ALIASES,
    METRICS,
    MOST_RANKS,
    GroupMean,
    Mean,
    Metric,
    bits_over_random,
    evaluate,
    group_means,
    mean,
    parse_metric,
    parse_metrics,
    summarise,
    unavailable,
    worst_group,
)
from ctxbench.io.errors import InputError, Message, ParameterError, UnknownNameError
from ctxbench.model import registry
from ctxbench.model.arrays import SESSION, Evidence, Judgments, Kinship, OfferedItems, Rankings, Via, name_stem

NAN = math.nan
ALL = tuple(Metric(name, 5 if declared.cutoff == "required" else 0) for name, declared in METRICS.items())
PER_QUERY = tuple(dict.fromkeys(part for metric in ALL for part in metric.parts))


def csr(rows):
    return np.cumsum([0, *(len(row) for row in rows)]), [entry for row in rows for entry in row]


def judgments(*queries):
    """A query is a list of (item, grade, group) or (item, grade, group, via)."""
    start, rows = csr(queries)
    columns = [list(column) for column in zip(*((*row, Via.DIRECT)[:4] for row in rows), strict=True)] or [[]] * 4
    return Judgments(start=start, item=columns[0], grade=columns[1], group=columns[2], via=columns[3])


def offered(*queries):
    """A query is a list of items found by search, or of (item, origin)."""
    start, rows = csr(queries)
    pairs = [row if isinstance(row, tuple) else (row, 1) for row in rows]
    return OfferedItems(start=start, item=[item for item, _ in pairs], origin=[origin for _, origin in pairs])


def rankings(*queries, given=None):
    start, items = csr(queries)
    return Rankings(start=start, item=items, given=given)


def values(name, evidence):
    return evaluate([parse_metric(name)], evidence)[parse_metric(name)].tolist()


# Set metrics


def test_loaded_tokens_count_the_bodies_of_required_items_that_were_added():
    labels = [(0, 2, 0), (1, 1, -1), (2, 2, 1)]
    evidence = Evidence(
        judgments=judgments(labels, labels, []),
        offered=offered([0, 1, 3], [(0, 0), 2], [0]),
        item_tokens=np.array([10, 20, 30, 40]),
        body_tokens=np.array([100, 200, 300, 400]),
    )
    assert values("tokens", evidence) == [70, 30, 10]
    assert values("loaded_tokens", evidence) == [170, 330, 10]
    uncounted = replace(evidence, body_tokens=None)
    (reason,) = unavailable([parse_metric("loaded_tokens")], uncounted).values()
    assert reason == "the bodies of skills were not counted, which a file of counts cannot do"


# Query 0: (a or b) and c, with d helpful and e irrelevant; items a..f are 0..5.
LABELS = [(0, 2, 0), (1, 2, 0), (2, 2, 1), (3, 1, -1), (4, 0, -1)]


@pytest.mark.parametrize(
    ("items", "completeness", "recall", "precision", "upper"),
    [
        ([0, 2], 1, 1, 1, 1),
        ([1, 2], 1, 1, 1, 1),
        ([0, 1, 2], 1, 1, 1, 1),  # the second alternative is relevant, but adds nothing to recall
        ([0, 1], 0, 1 / 2, 1, 1),
        ([2, 3, 4, 5], 0, 1 / 2, 2 / 4, 3 / 4),  # d is helpful, e irrelevant, f not labelled
        ([5], 0, 0, 0, 1),
        ([], 0, 0, 0, 0),  # choosing nothing where something is needed
        ([(0, 0), 2], 1, 1, 1, 1),  # the session holds a; the selector added c alone
        ([(0, 0), (2, 0)], 1, 1, NAN, NAN),  # the session holds all that is needed
        ([(0, 0), (2, 0), 4], 1, 1, 0, 0),
        ([(0, 0)], 0, 1 / 2, 0, 0),
        ([0, (2, 3)], 1, 1, 1, 1),  # c came by the second expansion pass
    ],
)
def test_set_metrics_of_one_query(items, completeness, recall, precision, upper):
    evidence = Evidence(judgments=judgments(LABELS), offered=offered(items))
    for name, expected in zip(
        ("completeness", "recall", "precision", "precision_upper"),
        (completeness, recall, precision, upper),
        strict=True,
    ):
        assert values(name, evidence) == pytest.approx([expected], nan_ok=True), name


def test_items_and_tokens_count_what_was_added_and_total_tokens_the_session_too():
    evidence = Evidence(
        judgments=judgments(LABELS, [], []),
        offered=offered([(0, 0), 2, (5, 2)], [3], []),
        item_tokens=np.array([100, 1, 20, 7, 1, 3]),
    )
    assert values("items", evidence) == [2, 1, 0]
    assert values("tokens", evidence) == [23, 7, 0]
    assert values("total_tokens", evidence) == [123, 7, 0]
    assert values("unlabelled", evidence) == [1, 1, 0]


def test_queries_that_need_nothing_are_scored_by_false_inclusion_and_abstention_only():
    nothing = [(3, 1, -1), (4, 0, -1)]
    evidence = Evidence(
        judgments=judgments(nothing, nothing, nothing, nothing, [], LABELS),
        offered=offered([], [(0, 0)], [3], [3, 4, 5], [0], []),
    )
    assert values("abstention", evidence) == pytest.approx([1, 1, 0, 0, 0, NAN], nan_ok=True)
    assert values("false_inclusion", evidence) == pytest.approx([0, 0, 0, 1, 1, NAN], nan_ok=True)
    assert values("false_items", evidence) == pytest.approx([0, 0, 0, 2, 1, NAN], nan_ok=True)
    for name in ("completeness", "recall", "precision", "precision_upper"):
        assert mean(values(name, evidence)) == Mean(0.0, 1, 5), name


def test_recall_tells_what_is_needed_directly_from_dependencies():
    labels = [(0, 2, 0, Via.DIRECT), (1, 2, 1, Via.DEPENDENCY), (2, 2, 2, Via.DEPENDENCY), (3, 2, 2, Via.DIRECT)]
    evidence = Evidence(judgments=judgments(labels, [(0, 2, 0)]), offered=offered([0, 2], []))
    assert values("direct_recall", evidence) == [1, 0]  # groups 0 and 2; a direct alternative makes group 2 direct
    assert values("dependency_recall", evidence) == pytest.approx([0, NAN], nan_ok=True)


def test_wrong_siblings_share_server_name_stem_or_near_duplicate_group():
    names = ["weather.now", "weather.daily", "mail.send", "get_map_tile", "get_map_route", "notes"]
    kinship = Kinship.of(
        names,
        servers=["a", "a", "a", "", "", "b"],
        types=["tool"] * 5 + ["rule"],
        near=[7, -1, -1, -1, -1, 7],
    )
    labels = [(0, 2, 0), (1, 1, -1), (2, 0, -1)]
    evidence = Evidence(
        judgments=judgments(labels, labels, [(3, 2, 0)], [(0, 2, 0), (2, 2, 1)], []),
        offered=offered([0, 1, 2, 5], [(2, 0), 3, 4], [4, 0, 3], [0, 2], [1]),
        kinship=kinship,
    )
    # 0: mail.send is on the server of weather.now and irrelevant, notes is its near-duplicate; weather.daily helps.
    # 1: the session's item is not the selector's doing. 2: get_map_route beside get_map_tile. 3: both required.
    assert values("same_server_confusions", evidence) == pytest.approx([2, 0, 1, 0, NAN], nan_ok=True)


def test_a_server_that_all_items_share_makes_no_siblings():
    kinship = Kinship.of(["one", "two"], servers=["a", "a"], types=["tool", "tool"])
    assert kinship.codes.tolist() == [[-1, -1], [0, 1]]


def test_the_same_name_on_two_servers_is_a_sibling_but_not_of_another_type():
    kinship = Kinship.of(
        ["create_issue", "create_issue", "create_issue_comment", "create_issue"],
        servers=["tracker", "forge", "desk", ""],
        types=["tool", "tool", "tool", "rule"],
    )
    assert kinship.codes.tolist() == [[0, 1, 2, -1], [0, 0, 0, 1]]
    evidence = Evidence(judgments=judgments([(0, 2, 0)]), offered=offered([0, 1, 2, 3]), kinship=kinship)
    assert values("same_server_confusions", evidence) == [2]  # the two tools of other servers, not the rule


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("math.stats.mean", "math.stats"),
        ("Std::Sort", "std"),
        ("src/app.py", "src/app"),
        ("get_weather", "get weather"),
        ("get_weather_by_city", "get weather"),
        ("getWeatherHourly", "get weather"),
        ("HTTPServer-start", "http server"),
        ("Code style", "code style"),
        ("notes", "notes"),
        ("天気", "天気"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_name_stem(name, stem):
    assert name_stem(name) == stem


# Ranking metrics


def test_ranking_metrics_of_a_hand_worked_query():
    evidence = Evidence(
        judgments=judgments([(0, 2, 0), (1, 2, 1), (3, 1, -1), (4, 0, -1)]),
        offered=offered([]),
        rankings=rankings([3, 0, 4, 1, 5]),
        pool=np.array([6]),
    )
    ideal = 2 + 2 / math.log2(3) + 1 / math.log2(4)
    expected = {
        "nDCG@2": (1 + 2 / math.log2(3)) / (2 + 2 / math.log2(3)),
        "nDCG": (1 + 2 / math.log2(3) + 2 / math.log2(5)) / ideal,
        "R@2": 1 / 2,
        "R@4": 1,
        "Comp@2": 0,
        "Comp@4": 1,
        "P@5": 3 / 5,
        "P@10": 3 / 10,
        "RR": 1 / 2,
        "RR@1": 0,
        "AP": (1 / 2 + 2 / 4) / 2,
        "AP@2": (1 / 2) / 2,
        "Success@1": 0,
        "Success@2": 1,
        "Chance@2": 1 - (4 / 6) * (3 / 5),
        "Chance@5": 1,
    }
    found = evaluate(parse_metrics(list(expected)), evidence)
    assert {str(metric): array.item() for metric, array in found.items()} == pytest.approx(expected)


def test_alternatives_count_once_in_recall_and_average_precision_and_each_in_ndcg_and_precision():
    evidence = Evidence(
        judgments=judgments(LABELS), offered=offered([]), rankings=rankings([1, 0, 2]), pool=np.array([6])
    )
    assert values("R@1", evidence) == [1 / 2]
    assert values("R@2", evidence) == [1 / 2]
    assert values("AP", evidence) == pytest.approx([(1 / 1 + 2 / 3) / 2])
    assert values("P@2", evidence) == [1]
    assert values("Chance@1", evidence) == pytest.approx([3 / 6])
    ideal = 2 + 2 / math.log2(3) + 2 / math.log2(4) + 1 / math.log2(5)
    assert values("nDCG", evidence) == pytest.approx([(ideal - 1 / math.log2(5)) / ideal])


def test_items_of_the_session_are_met_and_passed_over_in_the_ranking():
    evidence = Evidence(
        judgments=judgments([(0, 2, 0), (1, 2, 1)], [(0, 2, 0)]),
        offered=offered([(0, 0)], [(0, 0)]),
        rankings=rankings([0, 1, 2], [2]),
        pool=np.array([3, 3]),
    )
    assert values("R@1", evidence) == [1, 1]
    assert values("Comp@1", evidence) == [1, 1]
    for name in ("RR", "AP", "P@1", "nDCG@10", "Success@1"):
        assert values(name, evidence) == pytest.approx([1, NAN], nan_ok=True), name
    assert values("Chance@1", evidence) == pytest.approx([1 / 3, NAN], nan_ok=True)


def test_an_alternative_of_an_item_in_the_session_is_no_longer_looked_for():
    evidence = Evidence(
        judgments=judgments([(0, 2, 0), (1, 2, 0), (2, 2, 1)]),
        offered=offered([(0, 0)]),
        rankings=rankings([1, 2]),
        pool=np.array([4]),
    )
    expected = {"AP": 1 / 2, "RR": 1 / 2, "Success@1": 0, "R@1": 1 / 2, "Comp@2": 1, "Chance@1": 1 / 4}
    for name, value in expected.items():
        assert values(name, evidence) == [value], name
    assert values("P@1", evidence) == [1]  # graded by item: it is relevant all the same


def test_a_ranking_is_read_whole_after_the_session_s_items():
    far = [*range(1, 1500), 0]
    evidence = Evidence(
        judgments=judgments([(0, 2, 0)], [(0, 2, 0)]),
        offered=offered([], [(7, 0)]),
        rankings=rankings(far, far),
    )
    assert values("RR", evidence) == [1 / 1500, 1 / 1499]
    assert values("RR@1000", evidence) == [0, 0]


def test_completeness_at_k_is_completeness_of_the_first_k():
    rng = np.random.default_rng(5)
    labels = [
        [(int(i), 2, int(g)) for i, g in zip(rng.permutation(12)[:4], [0, 0, 1, 2], strict=True)] for _ in range(50)
    ]
    ranked = [rng.permutation(12).tolist() for _ in labels]
    for k in (1, 3, 8, 12):
        evidence = Evidence(
            judgments=judgments(*labels), offered=offered(*(row[:k] for row in ranked)), rankings=rankings(*ranked)
        )
        assert values(f"Comp@{k}", evidence) == values("completeness", evidence)
        assert values(f"R@{k}", evidence) == values("recall", evidence)


def test_a_selector_without_a_ranking_gets_no_ranking_metric_and_the_reason_is_named():
    evidence = Evidence(judgments=judgments(LABELS), offered=offered([0]))
    asked = parse_metrics(["nDCG@10", "recall", "BoR@5", "tokens", "same_server_confusions"])
    assert [str(metric) for metric in evaluate(asked, evidence)] == ["recall"]
    assert {str(metric): reason for metric, reason in unavailable(asked, evidence).items()} == {
        "nDCG@10": Message("evaluation.no-rankings"),
        "BoR@5": f"{Message('evaluation.no-rankings')}; it is not known how many items the rankings were made from",
        "tokens": "the items' tokens were not counted",
        "same_server_confusions": "it is not known which items are siblings",
    }


def test_a_query_without_a_ranking_is_left_out_and_an_empty_ranking_scores_zero():
    evidence = Evidence(
        judgments=judgments(LABELS, LABELS),
        offered=offered([], []),
        rankings=rankings([], [], given=np.array([True, False])),
        pool=np.array([6, 6]),
    )
    for name in ("nDCG@10", "R@5", "P@5", "RR", "AP", "Success@1", "Comp@5"):
        assert values(name, evidence) == pytest.approx([0, NAN], nan_ok=True), name


# Against ir-measures


def random_run(seed, n_queries=60, n_items=140):
    """Labels without alternatives and rankings of random scores with many ties, as the one order breaks them."""
    rng = np.random.default_rng(seed)
    labels, ranked = [], []
    for _ in range(n_queries):
        items = rng.permutation(n_items)[: rng.integers(0, 25)]
        grades = rng.choice([0, 1, 2], size=len(items))
        labels.append(
            [
                (int(i), int(g), number if g == 2 else -1)
                for number, (i, g) in enumerate(zip(items, grades, strict=True))
            ]
        )
        found = rng.permutation(n_items)[: rng.choice([0, 1, 3, 50, n_items])]
        score = rng.integers(0, 8, len(found))
        ranked.append(found[np.lexsort((found, -score))].tolist())
    return labels, ranked


ORACLE = [
    *("nDCG@1", "nDCG@5", "nDCG@10", "nDCG@100", "nDCG"),
    *("R@1", "R@5", "R@20", "P@1", "P@5", "P@100"),
    *("RR", "RR@3", "AP", "AP@5", "Success@1", "Success@5"),
]


@pytest.mark.parametrize("seed", range(8))
def test_ranking_metrics_equal_ir_measures(seed):
    labels, ranked = random_run(seed)
    metrics = parse_metrics(ORACLE)
    theirs = {ir_measures.parse_measure(metric.ir_measures): metric for metric in metrics}
    qrels = {f"q{i}": {f"d{item}": grade for item, grade, _ in row} for i, row in enumerate(labels)}
    run = {f"q{i}": {f"d{item}": float(-rank) for rank, item in enumerate(row)} for i, row in enumerate(ranked)}
    expected = {metric: np.zeros(len(labels)) for metric in metrics}
    for result in ir_measures.iter_calc(list(theirs), qrels, run):
        expected[theirs[result.measure]][int(result.query_id[1:])] = result.value
    ours = evaluate(
        metrics,
        Evidence(judgments=judgments(*labels), offered=offered(*([[]] * len(labels))), rankings=rankings(*ranked)),
    )
    needs = np.array([any(grade == 2 for _, grade, _ in row) for row in labels])
    helps = np.array([any(grade >= 1 for _, grade, _ in row) for row in labels])
    for metric in metrics:
        applies = helps if metric.name == "nDCG" else needs
        assert np.array_equal(~np.isnan(ours[metric]), applies), metric
        np.testing.assert_allclose(
            ours[metric][applies], expected[metric][applies], rtol=0, atol=1e-12, err_msg=str(metric)
        )


@pytest.mark.parametrize("seed", range(4))
def test_labels_judged_as_trec_eval_does_give_its_values_for_every_query(seed):
    labels, ranked = random_run(seed)
    gain = np.array([grade for row in labels for _, grade, _ in row])
    rows = [
        [(item, 2 if grade else 0, number if grade else -1) for number, (item, grade, _) in enumerate(row)]
        for row in labels
    ]
    sessions = [[(row[0][0], SESSION)] if row else [] for row in labels]
    metrics = parse_metrics(ORACLE)
    qrels = {f"q{i}": {f"d{item}": grade for item, grade, _ in row} for i, row in enumerate(labels) if row}
    free = [
        [item for item in row if (item, SESSION) not in session] for row, session in zip(ranked, sessions, strict=True)
    ]
    run = {f"q{i}": {f"d{item}": float(-rank) for rank, item in enumerate(row)} for i, row in enumerate(free)}
    theirs = {ir_measures.parse_measure(str(metric)): metric for metric in metrics}
    expected = {metric: np.full(len(labels), NAN) for metric in metrics}
    for result in ir_measures.iter_calc(list(theirs), qrels, run):
        expected[theirs[result.measure]][int(result.query_id[1:])] = result.value
    table = replace(judgments(*rows), gain=gain)
    ours = evaluate(metrics, Evidence(judgments=table, offered=offered(*sessions), rankings=rankings(*ranked)))
    for metric in metrics:
        np.testing.assert_allclose(ours[metric], expected[metric], rtol=0, atol=1e-12, err_msg=str(metric))
    some = [max((grade for _, grade, _ in row), default=-1) for row in labels]
    assert {-1, 0} < set(some)  # queries without labels, and without relevant ones


def test_the_random_runs_exercise_every_metric():
    labels, ranked = random_run(0)
    ours = evaluate(
        parse_metrics(ORACLE),
        Evidence(judgments=judgments(*labels), offered=offered(*([[]] * len(labels))), rankings=rankings(*ranked)),
    )
    for metric, array in ours.items():
        assert len(np.unique(array[~np.isnan(array)])) >= 2, metric


# Orders that do not matter


def test_the_order_of_labels_and_of_queries_does_not_matter():
    rng = np.random.default_rng(3)
    labels, ranked = random_run(3)
    for row in labels:  # join some required items into alternatives
        row[:] = [(item, grade, group // 2 if group >= 0 else -1) for item, grade, group in row]
    prompts = [[(item, int(rng.integers(0, 3))) for item in row[:6]] for row in ranked]
    names = [f"tool_{i % 9}_x" for i in range(140)]
    kinship = Kinship.of(names, servers=[str(i % 5) for i in range(140)], types=["tool"] * 140)

    def run(order, shuffle):
        rows = [list(labels[i]) for i in order]
        if shuffle:
            for row in rows:
                rng.shuffle(row)
        rows = [[tuple(int(v) for v in label) for label in row] for row in rows]
        return evaluate(
            ALL,
            Evidence(
                judgments=judgments(*rows),
                offered=offered(*(prompts[i] for i in order)),
                rankings=rankings(*(ranked[i] for i in order)),
                item_tokens=np.arange(140),
                body_tokens=np.arange(140) * 7,
                kinship=kinship,
                pool=np.full(len(order), 140),
                model_use=np.array([order, order], dtype=np.float64),
            ),
        )

    straight = run(range(len(labels)), shuffle=False)
    mixed = rng.permutation(len(labels))
    shuffled = run(mixed, shuffle=True)
    for metric in PER_QUERY:
        assert np.array_equal(straight[metric][mixed], shuffled[metric], equal_nan=True), metric
    means = summarise(ALL, straight), summarise(ALL, shuffled)
    assert repr(means[0]) == repr(means[1])


# Empty cases: one row a metric, and no metric without one

# Nothing needed and nothing offered or ranked; something needed and nothing offered or ranked; all of it held.
EMPTY = {
    "completeness": (NAN, 0, 1),
    "recall": (NAN, 0, 1),
    "direct_recall": (NAN, 0, 1),
    "dependency_recall": (NAN, NAN, NAN),
    "precision": (NAN, 0, NAN),
    "precision_upper": (NAN, 0, NAN),
    "unlabelled": (0, 0, 0),
    "items": (0, 0, 0),
    "tokens": (0, 0, 0),
    "total_tokens": (0, 0, 10),
    "loaded_tokens": (0, 0, 0),
    "model_tokens": (7, 0, 0),  # whatever is needed and offered
    "model_seconds": (0.5, 0, 0),
    "same_server_confusions": (NAN, 0, 0),
    "abstention": (1, NAN, NAN),
    "false_inclusion": (0, NAN, NAN),
    "false_items": (0, NAN, NAN),
    "forbidden_offered": (NAN, NAN, NAN),
    "nDCG": (NAN, 0, NAN),
    "R": (NAN, 0, 1),
    "Comp": (NAN, 0, 1),
    "P": (NAN, 0, NAN),
    "RR": (NAN, 0, NAN),
    "AP": (NAN, 0, NAN),
    "Success": (NAN, 0, NAN),
    "Chance": (NAN, 1, NAN),  # 5 of the 2 items there are
}


def evidence_of(labels, prompts, ranked):
    return Evidence(
        judgments=judgments(*labels),
        offered=offered(*prompts),
        rankings=rankings(*ranked),
        item_tokens=np.array([10, 20]),
        body_tokens=np.array([0, 300]),
        kinship=Kinship.of(["x", "y"], servers=["", ""], types=["tool", "tool"]),
        pool=np.full(len(labels), 2),
        model_use=np.array([[7.0, 0.0, 0.0], [0.5, 0.0, 0.0]])[:, : len(labels)],
    )


def test_every_metric_has_a_documented_and_tested_empty_case():
    assert set(EMPTY) == {metric.name for metric in PER_QUERY}
    for declared in METRICS.values():
        assert declared.empty.endswith("."), declared.name
        assert declared.empty != "."
        assert declared.description.endswith("."), declared.name


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_empty_cases(name):
    need = [(0, 2, 0)]
    found = evaluate(ALL, evidence_of([[], need, need], [[], [], [(0, 0)]], [[], [], []]))
    metric = next(metric for metric in PER_QUERY if metric.name == name)
    assert found[metric].tolist() == pytest.approx(list(EMPTY[name]), nan_ok=True)


def test_no_queries_give_empty_arrays_and_nan_means():
    found = evaluate(ALL, evidence_of([], [], []))
    assert {array.shape for array in found.values()} == {(0,)}
    for metric, average in summarise(ALL, found).items():
        assert math.isnan(average.value), metric
        assert (average.n, average.left_out) == (0, 0)


def test_a_single_query_with_a_single_item_scores_one():
    found = evaluate(ALL, evidence_of([[(0, 2, 0)]], [[0]], [[0]]))
    for name in ("completeness", "recall", "precision", "nDCG", "R", "Comp", "RR", "AP", "Success"):
        metric = next(metric for metric in found if metric.name == name)
        assert found[metric].tolist() == [1.0], name


# Means, groups, bits over random


def test_mean_leaves_nan_out_and_counts_it():
    assert mean([1.0, NAN, 0.0, 0.5]) == Mean(0.5, 3, 1)
    assert repr(mean([NAN])) == "Mean(value=nan, n=0, left_out=1)"
    assert mean([0.1] * 10).value == 0.1


def test_bits_over_random_of_two_queries():
    # One success in two, chances 1/4 and 1/12: log2((1/2) / (1/6)).
    evidence = Evidence(
        judgments=judgments([(0, 2, 0)], [(1, 2, 0)], []),
        offered=offered([], [], []),
        rankings=rankings([0, 2], [2, 1], [0]),
        pool=np.array([4, 12, 4]),
    )
    metrics = parse_metrics(["BoR@1"])
    by_query = evaluate(metrics, evidence)
    assert [str(metric) for metric in by_query] == ["Success@1", "Chance@1"]
    (average,) = summarise(metrics, by_query).values()
    assert average.value == pytest.approx(math.log2(3))
    assert (average.n, average.left_out) == (2, 1)


def test_bits_over_random_without_success_and_at_the_whole_pool():
    assert bits_over_random(Mean(0.0, 4, 0), Mean(0.5, 4, 0)).value == -math.inf
    assert bits_over_random(Mean(1.0, 4, 0), Mean(1.0, 4, 0)).value == 0.0
    assert bits_over_random(Mean(0.5, 4, 0), Mean(1.0, 4, 0)).value == -1.0
    with pytest.raises(ParameterError, match="expected the same"):
        bits_over_random(Mean(0.5, 4, 0), Mean(1.0, 3, 0))


def test_the_chance_of_success_is_hypergeometric():
    from scipy.stats import hypergeom

    rng = np.random.default_rng(0)
    labels, pool, expected = [], [], []
    for _ in range(40):
        size = int(rng.integers(10, 400))
        required = int(rng.integers(1, 10))
        labels.append([(i, 2, i) for i in range(required)])
        pool.append(size)
        expected.append(hypergeom.sf(0, size, required, 7))
    nothing = [[]] * 40
    evidence = Evidence(
        judgments=judgments(*labels), offered=offered(*nothing), rankings=rankings(*nothing), pool=np.array(pool)
    )
    np.testing.assert_allclose(values("Chance@7", evidence), expected, rtol=0, atol=1e-12)


def test_worst_group_follows_the_metric_s_direction_and_prefers_the_larger_of_equals():
    groups = {"a": np.array([0, 1]), "b": np.array([2]), "c": np.array([3, 4, 5]), "d": np.array([], dtype=np.int64)}
    scores = np.array([1.0, 0.0, 0.5, 0.5, NAN, 0.5])
    recall, tokens = parse_metric("recall"), parse_metric("tokens")
    assert group_means(scores, groups)[2] == GroupMean("c", Mean(0.5, 2, 1))
    assert worst_group(recall, scores, groups) == GroupMean("a", Mean(0.5, 2, 0))  # a and c tie in size: by name
    assert worst_group(recall, np.array([1, 0, 0.1, 1, 1, 1.0]), groups, min_n=2).group == "a"
    assert worst_group(recall, np.array([1, 0, 0.1, 1, 1, 1.0]), groups).group == "b"
    assert worst_group(tokens, np.array([1, 0, 0.1, 1, 1, 1.0]), groups).group == "c"
    assert worst_group(recall, scores, groups, min_n=4) is None
    with pytest.raises(ParameterError, match="min_n must be at least 1, got 0"):
        worst_group(recall, scores, groups, min_n=0)


# Names


def test_what_is_printed_parses_back():
    for metric in ALL:
        assert parse_metric(str(metric)) == metric
    for k in (1, 10, MOST_RANKS):
        for name, declared in METRICS.items():
            if declared.cutoff != "none":
                assert parse_metric(str(Metric(name, k))) == Metric(name, k)


def test_aliases_give_the_one_name():
    assert [str(parse_metric(text)) for text in ("COMP@5", "recall_all@20", " nDCG@10 ")] == [
        "Comp@5",
        "Comp@20",
        "nDCG@10",
    ]
    assert not set(ALIASES) & set(METRICS)
    assert parse_metrics(["COMP@5", "Comp@5", "RR"]) == (Metric("Comp", 5), Metric("RR"))


def test_names_in_ir_measures_parse_there():
    assert parse_metric("R@5").ir_measures == "R(rel=2)@5"
    assert parse_metric("Comp@5").ir_measures is None
    for metric in ALL:
        if metric.ir_measures is not None:
            assert ir_measures.parse_measure(metric.ir_measures)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("ndcg@10", UnknownNameError, "did you mean 'nDCG@10'?"),
        ("completness", UnknownNameError, "did you mean 'completeness'"),
        ("zzz", UnknownNameError, "Known: "),
        ("nDCG@", UnknownNameError, "unknown metric 'nDCG@'"),
        ("nDCG@ten", UnknownNameError, "unknown metric 'nDCG@ten'"),
        ("", UnknownNameError, "unknown metric ''"),
        ("R", ParameterError, "metric 'R' needs a cutoff, as in 'R@5'"),
        ("recall@5", ParameterError, "did you mean 'R@5'?"),
        ("tokens@5", ParameterError, "metric 'tokens' takes no cutoff, got @5"),
        ("mrr", UnknownNameError, "did you mean 'RR'?"),
        ("path:mrr@10", UnknownNameError, "did you mean 'path:RR@10'?"),
        ("P5", UnknownNameError, "did you mean 'P@5'?"),
        ("ndcg_cut_10", UnknownNameError, "did you mean 'nDCG@10'?"),
        (METRICS["R"], ParameterError, "named by a text"),
        ("R@0", ParameterError, "the cutoff of 'R' must be 1 to 1000, got 0"),
        ("R@1001", ParameterError, "the cutoff of 'R' must be 1 to 1000, got 1001"),
    ],
)
def test_a_text_that_is_no_metric_is_refused(text, error, message):
    with pytest.raises(error) as caught:
        parse_metric(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("given", [METRICS["R"], print])
def test_an_entry_point_must_give_a_declaration_of_its_name(given, monkeypatch):
    monkeypatch.setattr(registry, "names", lambda _kind: ("mine",))
    monkeypatch.setattr(registry, "find", lambda _kind, _name: given)
    with pytest.raises(ParameterError, match="whose name is equal to its own") as caught:
        parse_metric("mine")
    assert ("no Declaration" in str(caught.value)) == (given is print)


def test_all_faulty_metrics_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        parse_metrics(["nDCG@10", "R", "AQ", "recal"])
    assert len(caught.value.faults) == 3
    assert "did you mean 'recall'" in str(caught.value)


# Bad tables


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: judgments([(0, 2, 0), (0, 1, -1)]), "judgments: item 0 of query 0 is listed twice"),
        (lambda: judgments([], [(4, 3, 0)]), "item 4 of query 1 has an unknown grade"),
        (lambda: judgments([(4, 2, -1)]), "item 4 of query 0 has the wrong group"),
        (lambda: judgments([(4, 1, 0)]), "has the wrong group"),
        (lambda: judgments([(-1, 1, -1)]), "item -1 of query 0 is no catalog position"),
        (lambda: offered([1, (1, 0)]), "offered: item 1 of query 0 is listed twice"),
        (lambda: rankings([1, 1]), "rankings: item 1 of query 0 is listed twice"),
        (lambda: rankings([1], given=np.array([True, True])), "given has shape (2,), expected (1,)"),
        (lambda: OfferedItems(start=[0, 2], item=[1], origin=[1]), "offered: start must rise from 0 to 1"),
        (lambda: OfferedItems(start=[0, 1], item=[1], origin=[]), "offered: origin has shape (0,), expected (1,)"),
        (
            lambda: Evidence(judgments=judgments([], []), offered=offered([])),
            "offered: 1 queries, but the judgments have 2",
        ),
        (
            lambda: Evidence(judgments=judgments([]), offered=offered([3]), item_tokens=np.ones(3)),
            "item_tokens: 3 items, but item 3 is labelled or offered",
        ),
        (lambda: Kinship.of(["a"], servers=[], types=["tool"]), "1 names, 0 servers and 1 types"),
        (lambda: Kinship.of(["a"], servers=[""], types=["tool"], near=[1, 2]), "near has shape (2,), expected (1,)"),
    ],
)
def test_faulty_tables_are_refused(build, message):
    with pytest.raises(ParameterError) as caught:
        build()
    assert message in str(caught.value)


def test_tables_keep_their_own_copy():
    items = np.array([0, 1])
    table = OfferedItems(start=[0, 2], item=items, origin=[1, 1])
    items[0] = 9
    assert table.item.tolist() == [0, 1]
    assert items.flags.writeable
