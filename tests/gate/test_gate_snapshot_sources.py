"""Snapshots of what selectors answer now, and of finished runs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.evaluation import runner
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import run
from ctxbench.gate import snapshot_sources
from ctxbench.gate.snapshot_sources import of_run, take
from ctxbench.gate.snapshots import facts_of
from ctxbench.io.errors import ParameterError, SelectorError, StorageError, UserError
from ctxbench.model import registry
from ctxbench.model.selection import selections
from ctxbench.selectors.external import External
from ctxbench.selectors.protocol import VERSION, RawAnswer
from ctxbench.selectors.selector import PipelineSelector

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
SELECTORS = """
  - {selector: random, like: semantic/normal}
  - {selector: semantic, preset: normal}
  - {selector: bm25, set: {n: 2}}
"""
METRICS = "[completeness, recall, tokens, nDCG@10, abstention]"


@pytest.fixture(autouse=True)
def small_slices_and_a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setattr(runner, "SLICE", 3)
    monkeypatch.setattr(snapshot_sources, "SLICE", 3)


def experiment(folder, selectors=SELECTORS, *, data=TINY, **given):
    settings = {"datasets": f"[{data}]", "embedder": "hashing", "tokens": "chars/4", "metrics": METRICS, **given}
    lines = [f"{key}: {value}" for key, value in settings.items()]
    path = folder / "e.yaml"
    path.write_text("\n".join([*lines, f"selectors:{selectors}"]), encoding="utf-8")
    return open_experiment(path)


def by_name(snapshots):
    return {one.selector: one for one in snapshots}


def offers(snapshot):
    return {query: [one.as_dict() for one in fact.offered] for query, fact in snapshot.answers.items()}


def test_a_snapshot_has_what_a_run_has(tmp_path):
    prepared = experiment(tmp_path)
    told = []
    taken = take(prepared, progress=lambda *what: told.append(what))
    run(prepared, tmp_path / "run")
    assert [one.selector for one in taken] == ["random", "semantic/normal", "bm25"]
    assert [what for what in told if what[0] == "tiny"] == [("tiny", n, 10) for n in (3, 6, 9, 10)]
    for one in taken:
        part = RunFolder(tmp_path / "run").load("tiny", one.selector)
        rows = [json.loads(line) for line in _lines(tmp_path / "run", one.selector)]
        assert offers(one) == {row["query"]: row["items"] for row in rows}
        assert [str(metric) for metric in one.metrics] == list(part.metrics)
        for metric, values in one.metrics.items():
            np.testing.assert_array_equal(values, part.metrics[str(metric)])


def _lines(folder, selector):
    return (RunFolder(folder).part_path("tiny", selector) / "selections.jsonl").read_text("utf-8").splitlines()


def test_items_and_queries_are_those_of_the_judged_dataset(tmp_path):
    prepared = experiment(tmp_path)
    (one, *_) = take(prepared)
    items, queries = facts_of(read_dataset(TINY).judged(), prepared.item_tokens["tiny"])
    assert ({**one.items, **one.disabled}, one.queries) == (items, queries)
    assert [item.row["enabled"] for item in one.disabled.values()] == [False]
    assert one.judged is not None
    assert (one.repeats, one.spread, one.nondeterministic, one.source) == (1, {}, (), "this run")


def test_all_candidates_that_stayed_out_are_kept_best_first(tmp_path):
    prepared = experiment(tmp_path, "\n  - semantic/aggressive")
    one = by_name(take(prepared))["semantic/aggressive"]
    dataset = read_dataset(TINY).judged()
    selector = prepared.experiment.make_selectors(prepared.resources(), {})["semantic/aggressive"]
    answers = selector.select(dataset.batch())
    for selection in selections(answers.query, answers.candidates):
        fact = one.answers[selection.query]
        assert (fact.offered, fact.near) == (selection.chosen, selection.left_out)
        assert [near.score for near in fact.near] == sorted((near.score for near in fact.near), reverse=True)
    assert any(len(fact.near) > 5 for fact in one.answers.values())


def test_a_selector_says_what_decides_its_answers(tmp_path):
    found = by_name(take(experiment(tmp_path)))
    semantic, bm25, random = found["semantic/normal"].identity, found["bm25"].identity, found["random"].identity
    assert semantic.embedder.startswith("hashing")
    assert (bm25.embedder, bm25.tokens, bm25.external) == ("", "chars/4", False)
    assert random.embedder == semantic.embedder  # it takes the other's sizes
    assert "pipeline" in semantic.selector
    assert bm25.values["n"] == 2
    assert {"code", "numpy", "python"} <= set(semantic.versions)


def test_a_finished_run_gives_the_same_snapshots(tmp_path):
    prepared = experiment(tmp_path)
    run(prepared, tmp_path / "run")
    for one, other in zip(take(prepared), of_run(tmp_path / "run"), strict=True):
        assert (one.dataset, one.selector) == (other.dataset, other.selector)
        assert (one.items, one.queries) == (other.items, other.queries)
        assert (offers(one), list(one.answers)) == (offers(other), list(other.answers))
        assert one.identity.selector == other.identity.selector
        assert (one.identity.embedder, one.identity.values) == (other.identity.embedder, other.identity.values)
        assert one.identity.versions == other.identity.versions
        for metric, values in one.metrics.items():
            np.testing.assert_array_equal(values, other.metrics[metric])
        assert other.source == str(tmp_path / "run")


def test_a_run_of_a_split_has_its_queries(tmp_path):
    prepared = experiment(tmp_path, split="test")
    run(prepared, tmp_path / "run")
    asked = [query.id for query in read_dataset(TINY).split("test").judged().queries]
    assert [list(one.queries) for one in of_run(tmp_path / "run")] == [asked] * 3


def test_a_run_in_a_folder_that_was_moved_is_not_read_with_another_dataset(tmp_path):
    data = Path(shutil.copytree(TINY, tmp_path / "data" / "tiny"))
    run(experiment(tmp_path, data=data), tmp_path / "run")
    corpus = data / "corpus.jsonl"
    corpus.write_text(corpus.read_text("utf-8").replace(" the ", " a "), encoding="utf-8")
    with pytest.raises(ParameterError, match=r"dataset tiny has changed since .*run was made \(hash .*--accept"):
        of_run(tmp_path / "run")
    shutil.rmtree(data)
    with pytest.raises(ParameterError, match=r"dataset tiny of .*run cannot be read: .*restore the datasets"):
        of_run(tmp_path / "run")


def test_queries_in_another_order_are_the_same_run(tmp_path):
    data = Path(shutil.copytree(TINY, tmp_path / "data" / "tiny"))
    run(experiment(tmp_path, data=data), tmp_path / "run")
    before = of_run(tmp_path / "run")[1]
    queries = data / "queries.jsonl"
    queries.write_text("\n".join(reversed(queries.read_text("utf-8").splitlines())) + "\n", encoding="utf-8")
    after = of_run(tmp_path / "run")[1]
    assert (list(after.queries), after.queries) == (list(before.queries), before.queries)
    assert offers(after) == offers(before)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.unlink(), "holds no manifest.json"),
        (lambda path: _edit(path, format=99), "format 99"),
        (lambda path: _edit(path, tokens="words"), "was changed or is damaged"),
    ],
)
def test_a_folder_that_holds_no_finished_run_says_so(tmp_path, change, text):
    run(experiment(tmp_path), tmp_path / "run")
    change(tmp_path / "run" / "manifest.json")
    with pytest.raises(StorageError, match=text):
        of_run(tmp_path / "run")


def test_a_folder_that_is_not_there_is_told_from_one_without_a_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"^there is no folder .*none; expected the folder of a finished run"):
        of_run(tmp_path / "none")
    with pytest.raises(StorageError, match=r"file is a file; expected the folder of a finished run"):
        of_run(tmp_path / "file")


def test_messages_show_the_datasets_of_a_run_without_detours(tmp_path):
    shutil.copytree(TINY, tmp_path / "data" / "tiny")
    run(experiment(tmp_path, data=Path("data", "tiny")), tmp_path / "runs" / "one")
    corpus = tmp_path / "data" / "tiny" / "corpus.jsonl"
    corpus.write_text("no JSON", encoding="utf-8")
    with pytest.raises(ParameterError) as raised:
        of_run(tmp_path / "runs" / "one")
    assert str(corpus) in str(raised.value)
    assert ".." not in str(raised.value)


def _edit(path, **given):
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **given}), encoding="utf-8")


# ---------------------------------------------------------------------------------------------- selectors outside

OWN = """
times = {}

def steady(request):
    return []

def noisy(request):
    times[request["id"]] = times.get(request["id"], 0) + 1
    odd = times[request["id"]] % 2
    return ["tool:forge:create_issue"] if odd and request["id"] in ("q02", "q04") else []

def broken(request):
    raise RuntimeError("no answer today")

def sometimes(request):
    times[request["id"]] = times.get(request["id"], 0) + 1
    if times[request["id"]] == 2:
        raise RuntimeError("not twice")
    return []
"""


def outside(folder, *names, like=""):
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    lines = [f"  - {{callable: 'own.py:{name}', name: {name}, send: nothing}}" for name in names]
    return experiment(folder, "\n" + "\n".join([*lines, f"  - {{selector: random, like: {like}}}" * bool(like)]))


def test_what_a_selector_fails_on_is_an_error_of_its_query(tmp_path):
    found = by_name(take(outside(tmp_path, "steady", "broken")))
    facts = found["broken"].answers
    assert all("no answer today" in fact.error for fact in facts.values())
    assert len(facts) == 10
    assert not any(fact.error for fact in found["steady"].answers.values())
    assert np.isnan(found["broken"].metrics[parse_metric("tokens")]).all()  # to fail is not to be cheap
    assert (found["broken"].identity.external, found["broken"].identity.embedder) == (True, "")


def test_a_selector_outside_is_asked_repeatedly_and_its_values_are_means(tmp_path):
    found = by_name(take(outside(tmp_path, "steady", "noisy", like="noisy"), repeats=4))
    noisy, steady = found["noisy"], found["steady"]
    assert (noisy.repeats, noisy.nondeterministic) == (4, ("q02", "q04"))
    tokens = noisy.metrics[parse_metric("tokens")]
    cost = noisy.items["tool:forge:create_issue"].tokens
    assert tokens.tolist() == [cost / 2 if query in ("q02", "q04") else 0.0 for query in noisy.queries]
    mean = 2 * cost / 10  # of one time: both queries at the first and third, none at the others
    assert noisy.spread["tokens"] == pytest.approx(mean / 2 * 2 / 3**0.5)
    assert (steady.repeats, steady.nondeterministic) == (4, ())
    assert steady.spread["tokens"] == 0.0
    assert found["random"].repeats == 4  # it takes the sizes of what may answer otherwise
    assert found["random"].nondeterministic == ("q02", "q04")


def test_a_failure_at_any_time_is_one(tmp_path):
    (found,) = take(outside(tmp_path, "sometimes"), repeats=3)
    assert all("not twice" in fact.error for fact in found.answers.values())


def test_our_own_selectors_and_files_are_asked_once(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"query": "q1", "items": []}\n', encoding="utf-8")
    prepared = experiment(tmp_path, "\n  - {selector: bm25, set: {n: 2}}\n  - {answers: a.jsonl}\n")
    assert [(one.repeats, one.spread) for one in take(prepared, repeats=3)] == [(1, {})] * 2


PLUGIN = """
import os
import asyncio
import sys
from dataclasses import dataclass
import numpy as np

@dataclass(frozen=True)
class Loud:
    fails: bool = False
    nan: bool = False
    ends: str = ""
    def __post_init__(self):
        if self.ends == "made":
            sys.exit(0)
    def __call__(self, query, candidates, resources):
        if self.ends == "called":
            sys.exit(0)
        if self.ends == "at once":
            os._exit(0)
        if self.ends == "cancelled":
            raise asyncio.CancelledError
        os.write(1, b"look here")
        print("look at me")
        if self.fails:
            raise ValueError("no idea")
        if self.nan:
            return candidates.reordered(score=np.full(len(candidates), np.nan))
        return candidates
"""


@pytest.fixture
def loud(tmp_path, monkeypatch):
    """An installed distribution with a cut that prints, and raises or gives NaN scores if told to."""
    (tmp_path / "loud_cuts.py").write_text(PLUGIN)
    info = tmp_path / "loud_cuts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud_cuts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ctxbench.cut]\nloud = loud_cuts:Loud\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._plugins.cache_clear()
    yield lambda given: experiment(
        tmp_path, f"\n  - {{name: p, pipeline: {{retrieve: bm25, refine: [{{loud: {given}}}, {{first: {{n: 2}}}}]}}}}\n"
    )
    sys.modules.pop("loud_cuts", None)
    registry._plugins.cache_clear()


def test_what_a_step_of_a_plugin_prints_is_no_output(loud, capfd):
    (found,) = take(loud("{}"))
    assert sum(len(fact.offered) for fact in found.answers.values()) > 0
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "look at me" in printed.err
    assert "look here" in printed.err


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("{fails: true}", r"selector 'p' failed on queries q01 to q03 with ValueError: no idea; .*\(loud_cuts:Loud\)"),
        ("{nan: true}", "has a NaN score"),
        ("{ends: called}", r"selector 'p' failed on queries q01 to q03 with SystemExit: 0; .*\(loud_cuts:Loud\)"),
        ("{ends: at once}", r"on queries q01 to q03: os\._exit\(0\) was called \(loud_cuts\.py, line 20\).*:Loud\)"),
        ("{ends: cancelled}", r"selector 'p' failed on queries q01 to q03 with CancelledError; .*\(loud_cuts:Loud\)"),
    ],
)
def test_a_step_of_a_plugin_that_fails_is_a_fault_that_is_named(loud, given, text):
    with pytest.raises(SelectorError, match=text):
        take(loud(given))


def test_a_step_of_a_plugin_that_ends_the_process_when_it_is_made_is_a_fault(loud):
    with pytest.raises(UserError, match=r"cut strategy 'loud' \(loud_cuts:Loud\) cannot be made: SystemExit: 0; fix"):
        loud("{ends: made}")


def test_a_bug_of_ours_keeps_its_traceback(tmp_path, monkeypatch):
    prepared = experiment(tmp_path, "\n  - {selector: bm25, set: {n: 2}}\n")
    monkeypatch.setattr(PipelineSelector, "select", lambda self, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        take(prepared)


class Alternating:
    """A way in whose answers are kept, and that answers otherwise every time."""

    def __init__(self):
        self.asked = 0

    def describe(self):
        return {"way": "alternating"}

    def kept_under(self):
        return "build 1"

    def ask(self, batch, rows):
        self.asked += 1
        items = [{"id": "tool:forge:create_issue"}] if self.asked % 2 else []
        return [RawAnswer(answer={"ctxbench": VERSION, "query": batch.ids[row], "items": items}) for row in rows]

    def notes(self):
        return {}

    def forget_notes(self):
        pass

    def close(self):
        pass


def test_answers_that_are_kept_are_those_of_their_time(tmp_path):
    batch = read_dataset(TINY).judged().batch().take([1])

    def offers_of(selector):
        answers = [selector.select(batch, time=time) for time in (0, 1, 2)]
        assert [one.errors for one in answers] == [{}] * 3
        return [int(one.candidates.chosen.sum()) for one in answers]

    first, again = Alternating(), Alternating()
    with External(first, name="a", cache=tmp_path) as selector:
        fresh = offers_of(selector)
    with External(again, name="a", cache=tmp_path) as selector:
        kept = offers_of(selector)
    assert fresh[0] == fresh[1] + 1 == fresh[2]
    assert (kept, first.asked, again.asked) == (fresh, 3, 0)


DYING = """
import json, pathlib, sys
if pathlib.Path("broken").exists():
    sys.exit("no model")
for line in sys.stdin:
    message = json.loads(line)
    if "query" in message:
        print(json.dumps({"query": message["query"], "items": []}), flush=True)
"""


def test_a_selector_that_no_longer_answers_is_given_up_and_a_run_asks_it_again(tmp_path):
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "broken").touch()
    prepared = experiment(tmp_path, f"\n  - {{command: [{sys.executable}, dying.py], name: mine}}\n")
    dead = "the process ended with exit code 1; its standard error ends: no model"
    expected = {f"q{n:02d}": f"query 'q{n:02d}': {dead} (asked 2 times)" for n in range(1, 6)}
    refused = f"not asked: 5 queries in a row had no answer; the last: {dead}"
    expected |= {f"q{n:02d}": f"query 'q{n:02d}': {refused}" for n in range(6, 11)}  # over four slices
    (found,) = take(prepared)
    assert {query: fact.error for query, fact in found.answers.items()} == expected
    run(prepared, tmp_path / "run")
    assert RunFolder(tmp_path / "run").load("tiny", "mine").answers.errors == expected
    (tmp_path / "broken").unlink()
    run(prepared, tmp_path / "run")
    assert RunFolder(tmp_path / "run").load("tiny", "mine").answers.errors == {}


def test_the_oracle_is_told_the_labels(tmp_path):
    (one,) = take(experiment(tmp_path, "\n  - oracle\n"))
    assert np.nanmin(one.metrics[parse_metric("completeness")]) == 1.0
