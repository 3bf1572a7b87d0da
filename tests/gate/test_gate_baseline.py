"""Baselines: what is written, that it is read back, and that nothing is rewritten without need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.evaluation.comparisons import estimates
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import without_texts, write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot
from ctxbench.io.errors import InputError, ParameterError, StorageError
from tests.gate.gate_cases import answer, identity, item, item_id, offered, snapshot

PROPERTY = settings(max_examples=60, deadline=None, database=None, derandomize=True)
NAMES = "abcdefghijkl"
TOP, FLOOR = 4, 0.5


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "gate.baseline"


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def names(paths) -> list[str]:
    return [path.name for path in paths]


def parts(one: SelectorSnapshot) -> dict[str, object]:
    """A snapshot as values that compare, without what a baseline leaves out."""

    def candidates(several):
        return [replace(c, score=None if c.score is None else round(c.score, 7) + 0.0, pair=None) for c in several]

    return {
        "names": (one.dataset, one.selector, one.repeats, dict(one.spread), one.nondeterministic),
        "items": list(one.items.items()),
        "queries": list(one.queries.items()),
        "answers": [
            (query, candidates(a.offered), candidates(a.near[:5]), a.error)
            for query, a in ((query, one.answers[query]) for query in one.queries)
        ],
        "metrics": [(str(metric), [repr(float(v)) for v in values]) for metric, values in one.metrics.items()],
        "identity": one.identity.__dict__,
    }


def small(**given) -> SelectorSnapshot:
    answers = {"q1": ([("a", 0.8), ("b", 0.7)], [("c", 0.4)]), "q2": ([("c", 0.9)], []), "q3": ([], [])}
    made = {"required": {"q1": ["a", ("b", "c")], "q2": ["d"]}, "queries": {"q1": {"group": "g", "tags": ("t", "u")}}}
    return snapshot(answers, **{**made, **given})


# ---------------------------------------------------------------------------------------------- what is written


def test_the_layout_is_one_line_an_item_a_query_and_an_answer(folder):
    done = write_baseline(folder, [small(selector="semantic/normal"), small(selector="bm25")])
    expected = ["d/bm25.jsonl", "d/items.jsonl", "d/queries.jsonl", "d/semantic~normal.jsonl"]
    assert sorted(content(folder)) == ["baseline.json", *expected]
    assert done.written == tuple(folder / name for name in ["baseline.json", *expected])
    assert (done.folder, done.unchanged, done.removed) == (folder, (), ())
    assert [row["id"] for row in rows(folder / "d" / "items.jsonl")] == [item_id(name) for name in "abcd"]
    first, second, third = rows(folder / "d" / "queries.jsonl")
    assert (first["id"], first["text"], first["group"], first["tags"]) == ("q1", "text of q1", "g", ["t", "u"])
    assert first["required"] == ["tool:s:a", ["tool:s:b", "tool:s:c"]]
    assert second.keys() == {"id", "text", "asked", "labelled", "required"}
    assert third["needs"] == "nothing"
    assert rows(folder / "d" / "bm25.jsonl") == [
        {
            "query": "q1",
            "offered": [["tool:s:a", 0.8], ["tool:s:b", 0.7]],
            "near": [["tool:s:c", 0.4, 1]],
            "values": {"completeness": 1, "recall": 1, "items": 2, "tokens": 20, "total_tokens": 20},
        },
        {
            "query": "q2",
            "offered": [["tool:s:c", 0.9]],
            "values": {"completeness": 0, "recall": 0, "items": 1, "tokens": 10, "total_tokens": 10},
        },
        {"query": "q3", "offered": [], "values": {"items": 0, "tokens": 0, "total_tokens": 0}},
    ]


def test_the_head_says_what_made_the_answers_and_what_they_are_worth(folder):
    one = small()
    write_baseline(folder, [one])
    head = json.loads((folder / "baseline.json").read_text("utf-8"))
    assert (head["format"], head["versions"]) == (4, dict(one.identity.versions))
    about = head["datasets"]["d"]
    assert (about["items"], about["queries"]) == (4, 3)
    told = about["selectors"]["s"]
    assert (told["embedder"], told["tokens"], told["external"]) == ("minilm", "o200k", False)
    assert (told["values"], told["description"]) == (one.identity.values, one.identity.selector)
    assert told["rules"] == {"1": {"code": "below includeScore", "values": {}}}
    recall = parse_metric("recall")
    found = estimates([recall], one.metrics)[recall]
    expected = {"mean": 0.5, "low": found.interval.low, "high": found.interval.high, "level": 0.95, "n": 2}
    assert {name: told["metrics"]["recall"][name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert told["metrics"]["recall"]["holds"] is False
    assert "git" not in json.dumps(head)


def test_a_mean_has_the_interval_of_a_run_whatever_groups_its_queries_are_of(folder):
    answers = {f"q{place}": (["a"] if place < 20 else [], []) for place in range(40)}
    required = {query: ["a"] for query in answers}
    paired = snapshot(
        answers, required=required, queries={query: {"group": f"g{n // 2}"} for n, query in enumerate(answers)}
    )
    write_baseline(folder, [paired])
    head = json.loads((folder / "baseline.json").read_text("utf-8"))
    told = head["datasets"]["d"]["selectors"]["s"]["metrics"]["recall"]
    recall = parse_metric("recall")
    found = estimates([recall], paired.metrics)[recall].interval
    assert (told["low"], told["high"]) == pytest.approx((found.low, found.high), rel=1e-5)


def test_what_several_sessions_hold_stands_once(folder):
    always = [offered("rule:style", mode="always"), offered("rule:tests", mode="always")]
    own = [offered("rule:style", mode="always"), offered("rule:hand", mode="manual")]
    found = offered("b", 0.6, mode="expansion", origin="expansion", via="tool:s:a")
    made = snapshot(
        {
            "q1": answer("q1", [*always, ("a", 0.9), found]),
            "q2": answer("q2", [*own, ("a", 0.9)]),
            "q3": answer("q3", always),
        }
    )
    write_baseline(folder, [made])
    held = ["always rule:style", "always rule:tests"]
    assert rows(folder / "d" / "sessions.jsonl") == [{"session": 1, "items": held}]
    first, second, third = rows(folder / "d" / "s.jsonl")
    more = {"mode": "expansion", "origin": "expansion", "via": "tool:s:a"}
    assert (first["session"], first["offered"]) == (1, [["tool:s:a", 0.9], ["tool:s:b", 0.6, more]])
    assert (second["session"], second["offered"]) == (["always rule:style", "manual rule:hand"], [["tool:s:a", 0.9]])
    assert (third["session"], third["offered"]) == (1, [])
    assert parts(read_baseline(folder)[0]) == parts(made)


@pytest.mark.parametrize("name", ["items", "queries", "sessions", "a/b", "a~b", "Ä =,"])
def test_any_name_of_a_selector_has_a_file_of_its_own(folder, name):
    always = [offered("rule:style", mode="always")]
    one = snapshot({"q1": answer("q1", always), "q2": answer("q2", always)}, selector=name)
    write_baseline(folder, [one])
    assert len(content(folder)) == 5
    assert parts(read_baseline(folder)[0]) == parts(one)


def test_without_texts_nothing_that_someone_wrote_is_kept(folder):
    secret = snapshot(
        {"q1": (["a"], [])},
        required={"q1": ["a"]},
        items=[item("a", "HIDDEN words", schema={"type": "object", "title": "HIDDEN"})],
        queries={"q1": {"text": "HIDDEN question"}},
    )
    write_baseline(folder, [secret], texts=False)
    assert not any(b"HIDDEN" in data for data in content(folder).values())
    assert parts(read_baseline(folder)[0]) == parts(without_texts(secret))
    write_baseline(folder, [secret])
    assert sum(data.count(b"HIDDEN") for data in content(folder).values()) == 3


def test_a_repeated_selector_keeps_its_spread(folder):
    one = small(
        repeats=3, spread={"recall": 0.125}, nondeterministic=("q2",), identity=identity(external=True, embedder="")
    )
    write_baseline(folder, [one])
    assert parts(read_baseline(folder)[0]) == parts(one)


def test_errors_and_single_queries_and_empty_offers_are_read_back(folder):
    one = snapshot({"q1": answer("q1", error="timed out")}, items={"a": ""})
    write_baseline(folder, [one])
    (read,) = read_baseline(folder)
    assert read.answers["q1"].error == "timed out"
    assert parts(read) == parts(one)


def test_a_dataset_without_queries_can_be_kept(folder):
    one = snapshot({}, items={"a": ""}, metrics={parse_metric("recall"): np.empty(0)})
    write_baseline(folder, [one])
    assert parts(read_baseline(folder)[0]) == parts(one)


def test_of_what_stayed_out_the_five_nearest_are_kept(folder):
    one = snapshot({"q1": (["a"], list("bcdefghi"))})
    write_baseline(folder, [one])
    assert [c.id for c in read_baseline(folder)[0].answers["q1"].near] == [item_id(name) for name in "bcdef"]


def test_several_datasets_and_selectors_are_read_in_order(folder):
    made = [small(dataset=d, selector=s) for d in ("e", "d") for s in ("y", "x")]
    write_baseline(folder, made)
    read = read_baseline(folder)
    assert [(one.dataset, one.selector) for one in read] == [("e", "y"), ("e", "x"), ("d", "y"), ("d", "x")]
    assert {one.source for one in read} == {str(folder)}


def test_versions_that_differ_stand_with_their_selector(folder):
    made = [small(selector="x"), small(selector="y", identity=identity(versions={"python": "3.12", "code": "other"}))]
    write_baseline(folder, made)
    assert [dict(one.identity.versions) for one in read_baseline(folder)] == [
        dict(one.identity.versions) for one in made
    ]


# ---------------------------------------------------------------------------------------------- properties


SCORES = st.one_of(st.integers(0, 12).map(lambda n: n / 12), st.floats(0, 1).map(lambda x: round(x, 5)))
SCORED = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.lists(SCORES, min_size=len(NAMES), max_size=len(NAMES)),
    min_size=1,
)


def cut(query: str, scores: Mapping[str, float]) -> AnswerFact:
    """The best `TOP` of at least `FLOOR`, in the one order; the others with the rule that they met first."""
    places = {name: place for place, name in enumerate(NAMES)}
    ordered = sorted(scores, key=lambda name: (-scores[name], places[name]))
    rules = ["low" if scores[n] < FLOOR else "beyond" if r >= TOP else "" for r, n in enumerate(ordered)]
    found = [offered(name, scores[name], rule=rule) for name, rule in zip(ordered, rules, strict=True)]
    return AnswerFact(
        query=query, offered=tuple(c for c in found if not c.rule), near=tuple(c for c in found if c.rule)
    )


def of_scores(scores: Mapping[str, list[float]], noise: Mapping[str, list[float]] | None = None) -> SelectorSnapshot:
    facts = {}
    for query, values in scores.items():
        moved = values if noise is None else np.add(values, noise[query]).tolist()
        facts[query] = cut(query, dict(zip(NAMES, moved, strict=True)))
    return snapshot(
        facts,
        items=dict.fromkeys(NAMES, ""),
        required={query: ["a", ("b", "c")] for query in ("q1", "q2") if query in facts},
    )


@PROPERTY
@given(SCORED)
def test_what_is_written_is_read_back_and_written_again_it_is_the_same(scores):
    one = of_scores(scores)
    with TemporaryDirectory() as place:
        folder = Path(place) / "b"
        write_baseline(folder, [one])
        (read,) = read_baseline(folder)
        assert parts(read) == parts(one)
        before = content(folder)
        assert write_baseline(folder, [one]).written == ()
        write_baseline(Path(place) / "c", [one])
        assert content(Path(place) / "c") == before == content(folder)
        assert write_baseline(folder, [replace(read, identity=one.identity)]).written == ()


@PROPERTY
@given(SCORED, st.data())
def test_noise_below_the_margin_rewrites_nothing(scores, data):
    near = st.floats(-5e-6, 5e-6)
    noise = {q: data.draw(st.lists(near, min_size=len(NAMES), max_size=len(NAMES))) for q in scores}
    with TemporaryDirectory() as place:
        folder = Path(place) / "b"
        write_baseline(folder, [of_scores(scores)])
        before = content(folder)
        done = write_baseline(folder, [of_scores(scores, noise)])
        assert done.written == ()
        assert content(folder) == before


def test_noise_that_creeps_is_held_against_what_was_reviewed(folder):
    def at(score):
        return snapshot({"q1": ([("a", score), ("b", 0.3)], [])})

    write_baseline(folder, [at(0.8)])
    assert write_baseline(folder, [at(0.800007)]).written == ()
    assert names(write_baseline(folder, [at(0.800014)]).written) == ["baseline.json", "s.jsonl"]
    assert read_baseline(folder)[0].answers["q1"].offered[0].score == 0.800014


def test_a_score_that_moves_changes_its_line_and_no_other(folder):
    scores = {query: [0.9 - 0.05 * n for n in range(len(NAMES))] for query in ("q1", "q2", "q3")}
    write_baseline(folder, [of_scores(scores)])
    before = rows(folder / "d" / "s.jsonl")
    noise = {query: [4e-6] * len(NAMES) for query in scores}
    noise["q2"][1] = 1e-3
    done = write_baseline(folder, [of_scores(scores, noise)])
    assert names(done.written) == ["baseline.json", "s.jsonl"]
    assert names(done.unchanged) == ["items.jsonl", "queries.jsonl"]
    now = rows(folder / "d" / "s.jsonl")
    assert [old == new for old, new in zip(before, now, strict=True)] == [True, False, True]
    assert now[1]["offered"][1] == ["tool:s:b", 0.851]
    assert now[1]["offered"][0] == before[1]["offered"][0]


def test_a_swap_is_kept_as_it_stood_with_its_metrics(folder):
    def with_scores(b, c):
        scores = {"a": 0.9, "d": 0.8, "e": 0.7, "b": b, "c": c}
        return snapshot({"q1": cut("q1", scores)}, items=dict.fromkeys("abcde", ""), required={"q1": ["b"]})

    write_baseline(folder, [with_scores(0.600004, 0.6)])
    swapped = with_scores(0.6, 0.600004)
    assert [c.id for c in swapped.answers["q1"].offered][-1] == "tool:s:c"
    assert write_baseline(folder, [swapped]).written == ()
    (read,) = read_baseline(folder)
    assert read.metrics[parse_metric("completeness")].tolist() == [1.0]


def test_a_swap_beside_something_that_did_change_is_written(folder):
    def with_scores(b, c, d):
        facts = {"q1": ([("a", 0.9), b], [c, ("d", d)])}
        return snapshot(facts, items=dict.fromkeys("abcd", ""))

    write_baseline(folder, [with_scores(("b", 0.500002), ("c", 0.5), 0.3)])
    done = write_baseline(folder, [with_scores(("c", 0.500002), ("b", 0.5), 0.4)])
    assert names(done.written) == ["baseline.json", "s.jsonl"]
    (row,) = rows(folder / "d" / "s.jsonl")
    assert [[one[0][-1], one[1]] for one in (*row["offered"], *row["near"])] == [
        ["a", 0.9],
        ["c", 0.5],
        ["b", 0.500002],
        ["d", 0.4],
    ]


def test_an_item_that_goes_over_the_threshold_by_noise_stays_out(folder):
    def at(score):
        return snapshot({"q1": cut("q1", {"a": 0.9, "b": score})}, items={"a": "", "b": ""})

    write_baseline(folder, [at(FLOOR - 2e-6)])
    assert write_baseline(folder, [at(FLOOR + 2e-6)]).written == ()
    assert names(write_baseline(folder, [at(FLOOR + 2e-5)]).written) == ["baseline.json", "s.jsonl"]


def test_a_swap_of_another_selector_or_code_is_written_with_its_metrics(folder):
    given = {"items": {"b": "", "c": ""}, "required": {"q1": ["b"]}}
    for changed in (identity(selector={"pipeline": {}}), identity(versions={"code": "new"})):
        write_baseline(folder, [snapshot({"q1": ([("b", 0.5)], [("c", 0.5)])}, **given)])
        write_baseline(folder, [snapshot({"q1": ([("c", 0.5)], [("b", 0.5)])}, identity=changed, **given)])
        (read,) = read_baseline(folder)
        assert [one.id for one in read.answers["q1"].offered] == ["tool:s:c"]
        assert read.metrics[parse_metric("completeness")].tolist() == [0.0]


def test_small_scores_are_not_taken_for_noise(folder):
    write_baseline(folder, [snapshot({"q1": ([("b", 5e-6)], [("c", 1e-6)])}, items={"b": "", "c": ""})])
    write_baseline(folder, [snapshot({"q1": ([("c", 5e-6)], [("b", 1e-6)])}, items={"b": "", "c": ""})])
    (read,) = read_baseline(folder)
    assert [(one.id, one.score) for one in read.answers["q1"].offered] == [("tool:s:c", 5e-6)]


def test_a_swap_with_an_item_that_was_edited_is_written(folder):
    def with_items(texts, b, c):
        return snapshot({"q1": ([("a", 0.9), b], [c])}, items=texts, tokens={"c": 99})

    write_baseline(folder, [with_items(dict.fromkeys("abc", ""), ("b", 0.500002), ("c", 0.5))])
    done = write_baseline(folder, [with_items({"a": "", "b": "", "c": "new"}, ("c", 0.500002), ("b", 0.5))])
    assert names(done.written) == ["baseline.json", "items.jsonl", "s.jsonl"]
    assert [c.id for c in read_baseline(folder)[0].answers["q1"].offered] == ["tool:s:a", "tool:s:c"]


def test_another_order_of_items_with_equal_scores_is_written_with_the_catalog_only(folder):
    def in_order(catalog, first, second):
        return snapshot({"q1": ([(first, 0.9), (second, 0.9)], [])}, items=dict.fromkeys(catalog, ""))

    write_baseline(folder, [in_order("ab", "a", "b")])
    done = write_baseline(folder, [in_order("ba", "b", "a")])
    assert names(done.written) == ["baseline.json", "items.jsonl"]


def test_relabelled_queries_get_new_values(folder):
    def needing(name):
        return snapshot({"q1": ([("a", 0.9), ("b", 0.8)], [])}, required={"q1": [name]}, items=dict.fromkeys("abz", ""))

    write_baseline(folder, [needing("a")])
    write_baseline(folder, [needing("z")])
    assert read_baseline(folder)[0].metrics[parse_metric("completeness")].tolist() == [0.0]


def test_versions_of_other_machines_stay_as_they_stand_while_nothing_else_changes(folder):
    def on(python, code="c0de", score=0.9):
        versions = {"python": python, "ctxbench": "0.1.0", "code": code}
        return snapshot({"q1": ([("a", score)], [])}, identity=identity(versions=versions))

    def stands():
        return dict(read_baseline(folder)[0].identity.versions)

    write_baseline(folder, [on("3.11.7")])
    assert write_baseline(folder, [on("3.12.1")]).written == ()
    assert stands()["python"] == "3.11.7"
    assert names(write_baseline(folder, [on("3.12.1", score=0.8)]).written) == ["baseline.json", "s.jsonl"]
    assert stands()["python"] == "3.12.1"
    assert names(write_baseline(folder, [on("3.12.1", score=0.8, code="new")]).written) == ["baseline.json"]
    assert stands()["code"] == "new"


# ---------------------------------------------------------------------------------------------- the folder


def test_files_of_what_is_gone_are_removed_and_those_of_others_stay(folder):
    write_baseline(folder, [small(dataset=d, selector=s) for d in ("d", "e") for s in ("x", "y")])
    (folder / ".gitattributes").write_text("*.npz binary\n")
    (folder / "d" / "notes.md").write_text("ours\n")
    done = write_baseline(folder, [small(selector="x")])
    gone = ["d/y.jsonl", "e/items.jsonl", "e/queries.jsonl", "e/x.jsonl", "e/y.jsonl"]
    assert done.removed == tuple(folder / name for name in gone)
    assert names(done.written) == ["baseline.json"]
    left = [".gitattributes", "baseline.json", "d/items.jsonl", "d/notes.md", "d/queries.jsonl", "d/x.jsonl"]
    assert sorted(content(folder)) == left
    assert (folder / "d" / "notes.md").read_text() == "ours\n"
    assert not (folder / "e").exists()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("dataset.yaml", "is the folder of a dataset, no baseline"),
        ("manifest.json", "is the folder of a run, no baseline"),
        ("letter.txt", "is a folder of something else, no baseline"),
    ],
)
def test_what_is_no_baseline_is_never_written_over(folder, name, what):
    folder.mkdir()
    (folder / name).write_text("dear all")
    with pytest.raises(ParameterError, match=what):
        write_baseline(folder, [small()])
    with pytest.raises(InputError, match=what):
        read_baseline(folder)
    assert content(folder) == {name: b"dear all"}


def test_a_baseline_without_its_manifest_is_said_to_be_one(folder):
    write_baseline(folder, [small()])
    (folder / "baseline.json").unlink()
    for use in (read_baseline, lambda folder: write_baseline(folder, [small()])):
        with pytest.raises(StorageError, match=r"baseline\.json is missing; restore it from git, or delete the folder"):
            use(folder)


def test_a_file_in_the_place_of_the_folder_stays(folder):
    folder.write_text("dear all")
    with pytest.raises(ParameterError, match="is a file, no baseline"):
        write_baseline(folder, [small()])
    with pytest.raises(InputError, match="is a file, no baseline"):
        read_baseline(folder)
    assert folder.read_text() == "dear all"


def test_a_baseline_in_conflict_is_written_anew(folder):
    write_baseline(folder, [small()])
    whole = content(folder)
    path = folder / "baseline.json"
    path.write_text(path.read_text().replace("{\n", "{\n<<<<<<< ours\n", 1))
    assert names(write_baseline(folder, [small()]).written) == ["baseline.json"]
    assert content(folder) == whole


def test_an_empty_folder_does(folder):
    folder.mkdir()
    assert len(write_baseline(folder, [small()]).written) == 4


def test_a_failure_leaves_what_was_there(folder, monkeypatch):
    write_baseline(folder, [small()])
    before = content(folder)
    written = []

    def breaks(path, _data):
        if written:
            raise KeyboardInterrupt
        written.append(path)

    monkeypatch.setattr("ctxbench.gate.baseline.write_atomic", breaks)
    with pytest.raises(KeyboardInterrupt):
        write_baseline(folder, [small(selector="other")])
    assert content(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_nothing_two_of_a_name_and_other_states_are_refused(folder):
    with pytest.raises(ParameterError, match="a baseline needs the answers of at least one"):
        write_baseline(folder, [])
    with pytest.raises(ParameterError, match="two selectors on d are called 's'"):
        write_baseline(folder, [small(), small()])
    with pytest.raises(ParameterError, match="t and u were run on different states of dataset d"):
        write_baseline(folder, [small(selector="t"), small(selector="u", required={"q1": ["d"]})])
    with pytest.raises(ParameterError, match=r"s on d has no answer to 1 queries \(q2\)"):
        write_baseline(folder, [snapshot({"q1": ["a"], "q2": None})])
    assert not folder.exists()


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused_before_anything_is_written(folder, score):
    one = snapshot({"q1": [("a", 0.9), ("b", score)]})
    with pytest.raises(ParameterError, match=f"s on d, query q1: the score of tool:s:b must be finite, got {score}"):
        write_baseline(folder, [one])
    assert not folder.exists()


def test_an_item_that_the_catalog_lacks_is_refused(folder):
    one = snapshot({"q1": ["a", "b"]})
    with pytest.raises(ParameterError, match="query q1: tool:s:b is not in the catalog"):
        write_baseline(folder, [replace(one, items={"tool:s:a": one.items["tool:s:a"]})])
