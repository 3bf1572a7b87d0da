"""Whole checks: verdicts with their reasons, what is not comparable, and that noise and order change nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import without_texts
from ctxbench.gate.gate import SnapshotPairs, check, pair_snapshots
from ctxbench.gate.results import Verdict
from ctxbench.gate.settings import CheckSettings, Pin, Tolerance
from ctxbench.gate.snapshot_sources import take
from ctxbench.io.documents import dump_yaml, load_yaml
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from tests.gate.gate_cases import answer, identity, item, item_id, snapshot

SMOKE = Path(__file__).parents[2] / "datasets" / "smoke"
SETTINGS = CheckSettings()


def checked(base, head, *others, given=SETTINGS):
    pairs = [(base, head), *others]
    return check(SnapshotPairs(pairs), given, name="gate", base="baseline", head="this run")


def only(base, head, **given):
    (one,) = checked(base, head, given=CheckSettings(**given)).selectors
    return one


def many(n, lost=0, gained=0, **given):
    """n queries that need `a`: the last `lost` are not offered it."""
    answers = {f"q{i:03}": (["a", "b"], ["c"]) for i in range(n)}
    answers |= {f"q{i:03}": (["b"], ["a", "c"]) for i in range(n - lost, n)}
    return snapshot(
        answers, **{"required": {name: ["a"] for name in answers}, "items": dict.fromkeys("abc", ""), **given}
    )


# ---------------------------------------------------------------------------------------------- verdicts


def test_the_same_is_the_same():
    found = checked(many(30), many(30))
    (one,) = found.selectors
    assert (found.verdict, found.exit_code(), found.exit_code(strict=True)) == (Verdict.SAME, 0, 0)
    assert one.reasons == ("no required item lost, no metric changed",)
    assert (one.compared, one.lost, one.gained, one.allowed, one.changes, one.notices) == (30, 0, 0, 1, (), ())
    assert [judged.metric for judged in one.metrics] == ["completeness", "recall", "tokens", "total_tokens"]


def test_more_lost_than_allowed_is_worse_and_says_so():
    one = only(many(30), many(30, 3, identity=identity(versions={"code": "new"})), max_lost_required=2)
    assert one.verdict is Verdict.WORSE
    assert one.reasons[0] == "3 more required items lost than gained, 2 allowed (3 lost, 0 gained)"
    assert (one.lost, one.gained, one.allowed, len(one.changes)) == (3, 0, 2, 3)


def test_what_a_selector_loses_that_is_not_deterministic_may_be_chance():
    base = replace(many(100), nondeterministic=("q000",), repeats=3)
    judged = (parse_metric("tokens"),)
    few = only(base, many(100, 4), max_lost_required=3, metrics=judged)
    assert few.verdict is Verdict.INCONCLUSIVE  # p = 2 / 2^4
    assert few.reasons[0] == (
        "4 more required items lost than gained, 3 allowed (4 lost, 0 gained), by a nondeterministic "
        "selector: this may be chance (4 groups of queries lost net, 0 gained, p = 0.12)"
    )
    assert only(base, many(100, 6), max_lost_required=3, metrics=judged).verdict is Verdict.WORSE  # p = 2 / 2^6
    assert only(many(100), many(100, 4), max_lost_required=3, metrics=judged).verdict is Verdict.WORSE


@pytest.mark.parametrize(
    ("lost", "allowed", "verdict"), [(1, 1, "inconclusive"), (2, 1, "worse"), (2, 2, "inconclusive")]
)
def test_as_many_as_allowed_are_left_to_the_metrics(lost, allowed, verdict):
    one = only(many(30), many(30, lost), max_lost_required=allowed)
    assert one.verdict.value == verdict


def test_one_for_every_400_queries_in_need_is_allowed_by_default():
    assert [only(many(n), many(n)).allowed for n in (799, 800)] == [1, 2]
    nothing = snapshot({f"q{i}": [] for i in range(300)})
    assert only(nothing, nothing).allowed == 1


def test_a_difference_that_is_not_told_apart_says_what_would_tell():
    one = only(many(30), many(30, 1))
    assert one.verdict is Verdict.INCONCLUSIVE
    assert one.reasons[0] == (
        "completeness 100.0% -> 96.7% (-3.3 points): more than the tolerance of 1.0 points, but not significant "
        "on 30 queries (p = 1); 312 queries would be enough"
    )
    assert checked(many(30), many(30, 1)).exit_code() == 0
    assert checked(many(30), many(30, 1)).exit_code(strict=True) == 1


def test_an_improvement_that_is_not_told_apart_is_the_same_and_says_so():
    found = checked(many(30, 1), many(30))
    (one,) = found.selectors
    assert (one.verdict, found.exit_code(strict=True), one.gained) == (Verdict.SAME, 0, 1)
    assert one.reasons[0].startswith(
        "0 required items lost, 1 gained (a net loss of 1 is allowed); "
        "completeness 96.7% -> 100.0% (+3.3 points): more than the tolerance of 1.0 points, but not "
        "significant on 30 queries (p = 1); "
    )
    assert one.reasons[0].endswith("tokens 19.7 -> 20.0 (+0.3) within the tolerance of 1.0 tokens")


def test_an_improvement_does_not_hide_what_may_be_worse():
    base = many(30, 1, tokens={"a": 100})
    one = only(base, many(30, tokens={"a": 100}), tolerances={parse_metric("tokens"): Tolerance(1.0)})
    assert one.verdict is Verdict.INCONCLUSIVE  # 1 query costs 90 more, 3 on average
    assert len(one.reasons) == 2
    for reason, name in zip(one.reasons, ("tokens", "total_tokens"), strict=True):
        assert reason.startswith(f"{name} 106.7 -> 110.0 (+3.3): more than the tolerance of 1.0 tokens")


def test_worse_metrics_fail_whatever_is_allowed():
    one = only(many(60), many(60, 12), max_lost_required=99)
    assert one.verdict is Verdict.WORSE
    assert one.reasons[0].startswith(
        "completeness 100.0% -> 80.0% (-20.0 points), more than the tolerance of 1.0 points, p = "
    )


@pytest.mark.parametrize(("queries", "sign"), [(20, "="), (30, "<=")])  # of 20 differences all flips are tried
def test_a_p_value_that_is_only_a_bound_is_said_to_be_one(queries, sign):
    one = only(many(queries), many(queries, queries), max_lost_required=99, metrics=(parse_metric("recall"),))
    assert one.metrics[0].comparison.p_holm_at_floor is (sign == "<=")
    assert f", p {sign} " in one.reasons[0]


def test_better_is_said_with_its_size():
    one = only(many(60, 12), many(60), metrics=(parse_metric("completeness"),))
    assert one.verdict is Verdict.BETTER
    assert one.reasons[0].startswith("completeness 80.0% -> 100.0% (+20.0 points), p = ")
    assert (one.lost, one.gained) == (0, 12)


def test_a_broken_pin_fails_alone():
    pins = (Pin(query="q000", must_include=(item_id("c"),)).at(3),)
    one = only(many(30), many(30), pins=pins)
    assert one.verdict is Verdict.WORSE
    why = "below includeScore, score 0.88; the pin did not hold in the baseline either"
    assert one.reasons == (f"pin broken, query q000: {item_id('c')} is not offered: {why}",)
    assert [failure.line for failure in one.pins] == [3]


def test_worse_goes_before_inconclusive_and_not_comparable_before_all():
    worse, unsure = (many(60), many(60, 12)), (many(30), many(30, 1))
    lacking = (many(30), many(20))
    assert checked(*unsure, worse).verdict is Verdict.WORSE
    found = checked(*unsure, worse, lacking)
    assert (found.verdict, found.exit_code()) == (Verdict.NOT_COMPARABLE, 2)
    assert [one.verdict.value for one in found.selectors] == ["inconclusive", "worse", "not comparable"]


def test_a_pair_that_is_not_comparable_is_not_judged_nor_corrected_for():
    alone = checked(many(60), many(60, 12)).selectors[0]
    beside = checked(many(60), many(60, 12), (many(30), many(20))).selectors
    assert beside[0].metrics == alone.metrics
    assert (beside[1].metrics, beside[1].changes, beside[1].compared) == ((), (), 0)
    assert "gone: 10 queries of this run (q020, q021, q022, ...)" in beside[1].reasons[0]


def test_left_out_queries_are_counted_and_told():
    one = only(many(30), many(20), allow_removed=True)
    assert (one.verdict, one.compared, len(one.left_out["removed"])) == (Verdict.SAME, 20, 10)
    assert one.notices == ("gone: 10 queries of this run (q020, q021, q022, ...), left out",)


def test_queries_that_need_nothing_are_judged_by_what_applies():
    base = snapshot({f"q{i}": [] for i in range(30)})
    one = only(base, base)
    assert one.verdict is Verdict.SAME
    assert one.notices == ("completeness applies to none of the 30 queries", "recall applies to none of the 30 queries")


def test_a_check_of_nothing_can_judge_nothing():
    found = check(SnapshotPairs(()), SETTINGS, name="gate", base="a", head="b")
    assert (found.selectors, found.verdict, found.exit_code()) == ((), Verdict.NOT_COMPARABLE, 2)


# ---------------------------------------------------------------------------------------------- notices


@pytest.mark.parametrize("now", ["a", "b"])
def test_edited_files_of_a_command_are_listed(now):
    def side(offered, sha256):
        files = {"lib.py": sha256, "x.py": sha256}
        said = {"command": ["node", "x.js"], "files": files, "direct_files": [*files]}
        outside = identity(selector=said, values={}, external=True)
        items = {"a": "", "b": ""}
        return snapshot({"q": [offered]}, required={"q": ["a"]}, items=items, identity=outside)

    assert only(side("a", "1" * 64), side(now, "2" * 64)).differs == "lib.py was edited, x.py was edited"


def test_swaps_are_counted_and_change_no_metric():
    given = {"required": {"q": ["a"]}, "items": {"a": "", "b": ""}}
    base = snapshot({"q": ([("a", 0.5000001)], [("b", 0.5)])}, **given)
    head = snapshot({"q": ([("b", 0.5000001)], [("a", 0.5)])}, **given)
    one = only(base, head, max_lost_required=0)
    assert (one.verdict, one.swaps, one.changes, one.lost) == (Verdict.SAME, ("q",), (), 0)
    assert [judged.comparison.equal for judged in one.metrics] == [1, 1, 1, 1]
    assert [(notice.key, notice.values["n"]) for notice in one.notices] == [("gate.swaps", 1)]


def test_a_query_that_is_a_swap_in_part_keeps_its_own_values():
    given = {"required": {"q": ["a", "c"]}, "items": dict.fromkeys("abcd", "")}
    base = snapshot({"q": ([("c", 0.9), ("a", 0.500001)], [("b", 0.5), ("d", 0.1)])}, **given)
    head = snapshot({"q": ([("d", 0.95), ("b", 0.500001)], [("a", 0.5), ("c", 0.1)])}, **given)
    one = only(base, head, max_lost_required=0, metrics=(parse_metric("recall"),))
    assert (one.verdict, one.lost, one.swaps) == (Verdict.WORSE, 1, ())
    assert one.metrics[0].head.value == 0.0


def test_losses_by_ties_of_another_selector_are_worse_in_facts_and_metrics():
    queries = [f"q{i:03}" for i in range(100)]
    given = {"required": {name: ["c"] for name in queries}, "items": {"x": "", "c": ""}}
    base = snapshot({name: ([("c", 0.5)], [("x", 0.5)]) for name in queries}, **given)
    other = identity(selector={"pipeline": {"refine": [{"first": {"n": 1}}]}})
    head = snapshot({name: ([("x", 0.5)], [("c", 0.5)]) for name in queries}, identity=other, **given)
    one = only(base, head)
    assert (one.verdict, one.lost, one.swaps, one.metrics[0].head.value) == (Verdict.WORSE, 100, (), 0.0)


def test_chance_of_a_selector_that_is_not_deterministic_goes_by_groups_of_queries():
    queries = {f"q{i:03}": {"group": f"g{i // 4}"} for i in range(100)}
    base = replace(many(100, queries=queries), nondeterministic=("q000",), repeats=3)
    judged = (parse_metric("tokens"),)
    one = only(base, many(100, 8, queries=queries), max_lost_required=3, metrics=judged)
    assert one.verdict is Verdict.INCONCLUSIVE  # two groups lost: p = 2 / 2^2, where eight items had 2 / 2^8
    assert one.reasons[0].endswith("(2 groups of queries lost net, 0 gained, p = 0.5)")
    assert only(base, many(100, 24, queries=queries), max_lost_required=3, metrics=judged).verdict is Verdict.WORSE


def test_other_answers_with_nothing_else_different_are_not_deterministic():
    one = only(many(30), many(30, 1))
    assert "nondeterministic" in one.notices[-1]
    for other in (many(30, 1, identity=identity(embedder="x")), many(30, 1, items={"a": "x", "b": "", "c": ""})):
        assert not any("deterministic" in notice for notice in only(many(30), other).notices)


def test_the_spread_of_repeats_and_unsteady_queries_are_told():
    head = replace(many(30, 2), repeats=3, spread={"recall": 0.0125, "items": 1.0}, nondeterministic=("q029",))
    one = only(replace(many(30), repeats=3, spread={"recall": 1.4e-16}), head)
    assert (one.lost, [change.query for change in one.changes]) == (1, ["q028"])
    assert one.notices[0] == (
        "1 query answered differently between repeats (q029): counted in metrics, but not in items lost and gained"
    )
    assert [notice for notice in one.notices if "standard deviation" in notice] == [
        "standard deviation of the means over 3 repeats, now: recall 1.2 points",
    ]


def test_texts_are_those_of_what_changed_and_none_where_they_are_kept_out():
    head = many(3, 1, items=[item("a", "How to a."), item("b", "How to b."), item("c", "How to c.")])
    one = only(many(3), head)
    assert one.texts == {"q002": "text of q002", item_id("a"): "How to a."}
    assert only(without_texts(many(3)), without_texts(head)).texts == {}


# ---------------------------------------------------------------------------------------------- pairs


def test_snapshots_are_paired_by_dataset_and_selector_in_the_order_of_the_head():
    a, b, c = many(2, selector="a"), many(2, selector="b"), many(2, selector="c")
    other = many(2, selector="a", dataset="e")
    pairing = pair_snapshots([a, b, other], [c, b, a])
    pairs, missing, notices, new = pairing
    assert new == (c,)
    assert [(x.selector, y.selector) for x, y in pairs] == [("b", "b"), ("a", "a")]
    assert notices == ("c on d is not in this run, and is not compared",)
    (lacking,) = missing
    assert (lacking.dataset, lacking.selector, lacking.verdict) == ("e", "a", Verdict.NOT_COMPARABLE)
    assert lacking.reasons[0].startswith("this run has dataset e, but this run does not; restore it")
    found = check(pairing, SETTINGS, name="g", base="a", head="b")
    assert (found.exit_code(), found.notices) == (2, notices)
    assert found.unjudged == notices  # which the short report names


def test_a_selector_that_the_run_lacks_is_named():
    base = [replace(many(2, selector=name), source="gate.baseline", judged=None) for name in "st"]
    _, missing, *_ = pair_snapshots(base, [many(2, selector="t")])
    what = "gate.baseline has s on d, but this run does not"
    assert [one.reasons for one in missing] == [(f"{what}; restore it, or accept a new baseline (--accept)",)]


def test_a_selector_that_may_go_on_under_another_name_is_told_how_to_be_judged():
    """As when a preset changes that the selector has its name from."""
    base = replace(many(2, selector="semantic/normal"), source="gate.baseline", judged=None)
    now, other = many(2, selector="semantic/aggressive"), many(2, selector="bm25", dataset="e")
    _, missing, *_ = pair_snapshots([base], [now, other])
    what = "gate.baseline has semantic/normal on d, but this run does not"
    fix = "add `name: semantic/normal` to that selector, else restore it"
    assert missing[0].reasons == (f"{what}; if semantic/aggressive replaces it, {fix}",)


def test_of_two_runs_the_selector_is_to_be_run_again_under_the_old_name():
    _, missing, *_ = pair_snapshots([many(2)], [many(2, selector=name) for name in "tuvw"])
    fix = "if t or u or v replaces it, add `name: s` to that selector, else restore it"
    assert missing[0].reasons == (f"this run has s on d, but this run does not; {fix}",)


# ---------------------------------------------------------------------------------------------- order, mirror


@st.composite
def pairs(draw):
    """Answers of up to 12 queries on both sides, with what each needs."""
    queries = [f"q{i}" for i in range(draw(st.integers(1, 12)))]
    required = {q: draw(st.lists(st.sampled_from("abcd"), max_size=2, unique=True)) for q in queries}
    sides = []
    for _ in range(2):
        answers = {}
        for query in queries:
            scores = {name: draw(st.sampled_from([0.2, 0.5, 0.500001, 0.9])) for name in "abcdef"}
            rows = sorted(scores.items(), key=lambda row: -row[1])
            cut = draw(st.integers(0, 6))
            answers[query] = answer(query, rows[:cut], rows[cut:])
        sides.append(answers)
    return sides, required, draw(st.permutations(queries)), draw(st.permutations("abcdef"))


def plain(one):
    """What a check says of a pair, in no order."""
    key = lambda change: (change.query, change.item, change.lost)  # noqa: E731
    ranks = [replace(c, base_rank=None, head_rank=None) for c in one.changes]  # ties are ranked by the catalog's order
    found = (one.verdict, sorted(one.reasons), one.lost, one.gained, one.metrics, sorted(one.swaps))
    return (*found, sorted(ranks, key=key))


@settings(max_examples=25, deadline=None, database=None, derandomize=True)
@given(pairs())
def test_the_order_of_queries_and_items_changes_nothing(drawn):
    (base, head), required, queries, names = drawn
    items = dict.fromkeys("abcdef", "")
    turned = dict.fromkeys(names, "")
    one = only(snapshot(base, required=required, items=items), snapshot(head, required=required, items=items))
    other = only(
        snapshot({q: base[q] for q in queries}, required=required, items=turned),
        snapshot({q: head[q] for q in reversed(queries)}, required=required, items=turned),
    )
    assert repr(plain(one)) == repr(plain(other))  # with means of nothing, which are equal to nothing


@settings(max_examples=25, deadline=None, database=None, derandomize=True)
@given(pairs())
def test_swapping_the_sides_mirrors_lost_and_gained_and_better_and_worse(drawn):
    (base, head), required, _, _ = drawn
    one, other = (snapshot(side, required=required, items=dict.fromkeys("abcdef", "")) for side in (base, head))
    none = CheckSettings(metrics=tuple(map(parse_metric, ("completeness", "recall"))), max_lost_required=99)
    there, back = (checked(*sides, given=none).selectors[0] for sides in ((one, other), (other, one)))
    assert (there.lost, there.gained, there.swaps) == (back.gained, back.lost, back.swaps)
    turned = {Verdict.BETTER: {Verdict.WORSE}, Verdict.WORSE: {Verdict.BETTER}, Verdict.INCONCLUSIVE: {Verdict.SAME}}
    for judged, mirrored in zip(there.metrics, back.metrics, strict=True):
        assert mirrored.verdict in turned.get(judged.verdict, {Verdict.SAME, Verdict.INCONCLUSIVE})
        assert judged.comparison.p_holm == mirrored.comparison.p_holm


# ---------------------------------------------------------------------------------------------- real pipelines


class Noisy(Vectors):
    """Vectors that differ as on another machine: by what moves no score by more than about 1e-6."""

    def __init__(self, seed):
        super().__init__(HashingEmbedder(), None)
        self._seed = seed

    def get(self, texts, *, kind="query"):
        found = super().get(texts, kind=kind)
        rng = np.random.default_rng([self._seed, len(texts)])
        noise = rng.standard_normal(found.shape)
        noise *= 5e-7 / np.linalg.norm(noise, axis=1, keepdims=True)
        return (found + noise).astype(np.float32)


def smoke(folder, data=SMOKE):
    lines = [
        f"datasets: [{data}]", "embedder: hashing", "tokens: chars/4", "metrics: [completeness, recall, tokens]",
        "selectors:",
        *(f"  - {{selector: semantic, preset: {name}}}" for name in ("normal", "conservative", "aggressive")),
        "  - {selector: bm25, set: {n: 3}}",
        "  - {name: margin, pipeline: {retrieve: dense, refine: [{margin: {margin: 0.1}}, {gap: {}}]}}",
        "  - {name: one, pipeline: {retrieve: dense, refine: [{first: {n: 1}}]}}",
        "  - {name: budget, pipeline: {retrieve: dense, refine: [{budget: {tokens: 150}}]}}",
        "  - {name: led, pipeline: {retrieve: dense, refine: [{first: {n: 2}}, {expansion: {threshold: 0.3}}]}}",
    ]  # fmt: skip
    path = folder / "e.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return open_experiment(path)


@pytest.fixture
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


@pytest.mark.usefixtures("cache_of_its_own")
def test_noise_on_scores_is_never_a_change(tmp_path):
    prepared = smoke(tmp_path)
    base = take(prepared)
    for seed in range(8):
        resources = LocalResources(Noisy(seed), open_counter("chars/4", cache=tmp_path))
        head = take(prepared, resources=resources)
        found = check(pair_snapshots(base, head), SETTINGS, name="g", base="a", head="b")
        assert [one.changes for one in found.selectors] == [()] * len(head)
        assert found.verdict is Verdict.SAME


@pytest.mark.usefixtures("cache_of_its_own")
def test_ties_of_twins_are_swaps_on_another_machine_though_an_unrelated_item_was_edited(tmp_path):
    def with_twins(folder, edited):
        data = Path(shutil.copytree(SMOKE, folder / "smoke"))
        rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text("utf-8").splitlines()]
        texts = {
            "a": "How long may one keep a film",
            "b": "Film a keep one may long how",
        }  # words in another order: equal vectors
        twins = [{"_id": f"rule:{name}", "title": "Film", "text": text} for name, text in texts.items()]
        far = {"_id": "rule:far", "title": "Far", "text": "Zinc quartz." if edited else "Quartz zinc basalt."}
        lines = [json.dumps(row) for row in (*rows, *twins, far)]
        (data / "corpus.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        card, _ = load_yaml(data / "dataset.yaml")
        card["counts"]["items"] += 3
        card["counts"]["types"]["rule"] += 3
        del card["frozen"]
        (data / "dataset.yaml").write_text(dump_yaml(card), encoding="utf-8")
        return smoke(folder, data)

    base = take(with_twins(tmp_path / "a", False))
    swaps = 0
    for seed in range(4):
        prepared = with_twins(tmp_path / f"b{seed}", True)
        resources = LocalResources(Noisy(seed), open_counter("chars/4", cache=tmp_path))
        found = check(pair_snapshots(base, take(prepared, resources=resources)), SETTINGS, name="g", base="a", head="b")
        pairs = [one for one in found.selectors if one.selector != "margin"]  # whose gap may open between the twins
        assert not {change.item for one in pairs for change in one.changes} & {"rule:a", "rule:b"}
        swaps += sum(len(one.swaps) for one in pairs)
    assert swaps


@pytest.mark.usefixtures("cache_of_its_own")
def test_items_and_queries_in_another_order_are_never_worse(tmp_path):
    prepared = smoke(tmp_path)
    data = Path(shutil.copytree(SMOKE, tmp_path / "smoke"))
    for name in ("corpus.jsonl", "queries.jsonl"):
        lines = (data / name).read_text("utf-8").splitlines()
        (data / name).write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    card = (data / "dataset.yaml").read_text("utf-8").splitlines()
    (data / "dataset.yaml").write_text("\n".join(line for line in card if "frozen:" not in line), encoding="utf-8")
    found = check(pair_snapshots(take(prepared), take(smoke(tmp_path, data))), SETTINGS, name="g", base="a", head="b")
    assert [(one.verdict, one.changes) for one in found.selectors] == [(Verdict.SAME, ())] * 8


@pytest.mark.usefixtures("cache_of_its_own")
def test_a_selector_that_offers_less_is_worse(tmp_path):
    taken = {one.selector: one for one in take(smoke(tmp_path))}
    base, head = taken["semantic/conservative"], replace(taken["semantic/aggressive"], selector="semantic/conservative")
    (one,) = checked(base, head).selectors
    assert one.verdict is Verdict.WORSE
    wanted = {
        (name, found.id)
        for name in base.queries
        for found in base.answers[name].offered
        if found.id not in {one.id for one in head.answers[name].offered}
    }
    assert wanted
    assert {(change.query, change.item) for change in one.changes} == wanted
    assert all(change.lost and change.base_rank is not None for change in one.changes)
