"""Sources of a merge side by side, with a time limit; and the notes that tell of what did not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.evaluation.answers import Slice
from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.model.candidates import Candidates, Note, add_expanded
from ctxbench.model.requests import Batch
from ctxbench.model.resources import index_over
from ctxbench.model.selection import concatenated, joined, selections, stacked
from ctxbench.model.strategies import Merge, Step, Strategy, side_by_side
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.selectors.explain import explain

NOTE = Note("retrieve.mine", "late", "it had 1 s; the other sources answered without it")


@dataclass(frozen=True)
class Waits(Strategy):
    """Finds nothing, once it is let go."""

    gate: threading.Event

    def __call__(self, query, resources):
        self.gate.wait(30)
        return Candidates.empty(len(query.batch))


@dataclass(frozen=True)
class Fails(Strategy):
    def __call__(self, query, resources):
        raise OSError("no route\nto host")


SPEC = {
    "retrieve": {"merge": {"dense": "dense", "words": "bm25"}, "seconds": 20},
    "refine": ["rrf", {"first": {"n": 3}}],
}


def with_source(step, *, seconds=0.2, alone=False):
    """A pipeline with one more source, `mine`; or with two of them alone."""
    pipeline = Pipeline.of(SPEC)
    others = {"other": Step("retrieve", "other", step)} if alone else dict(pipeline.retrieve.sources)
    return replace(pipeline, retrieve=Merge({**others, "mine": Step("retrieve", "mine", step)}, seconds))


@pytest.fixture
def batch():
    return Batch.of(testing.mock_catalog(), testing.mock_requests())


@pytest.fixture
def gate():
    """Lets waiting sources go at the end."""
    made = threading.Event()
    yield made
    made.set()


def same(one, other):
    assert one.rules == other.rules
    assert one.columns.keys() == other.columns.keys()
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("start", *one.row_arrays())]
    for left, right in [*pairs, *((one.columns[name], other.columns[name]) for name in one.columns)]:
        np.testing.assert_array_equal(left, right)


def test_side_by_side_finds_what_one_after_the_other_does(batch):
    pipeline = Pipeline.of(SPEC)
    live = pipeline.run(batch, testing.mock_resources(), live=True)
    same(live.candidates, pipeline.run(batch, testing.mock_resources()).candidates)
    assert live.trace == ()


def test_threads_are_used_again_and_one_that_is_late_has_no_part_in_that(gate):
    names = [[*"abc"], [*"abcd"], [*"abc"]]
    calls = [dict.fromkeys(some, threading.get_ident) for some in names]
    before = set().union(*(side_by_side(some, seconds=20)[0].values() for some in calls * 20))
    assert side_by_side({"late": lambda: gate.wait(30)}, seconds=0.1)[0] == {}
    n_threads = threading.active_count()
    for _ in range(20):
        assert list(side_by_side(calls[1], seconds=20)[0]) == names[1]
    assert threading.active_count() <= n_threads + 4  # in place of the late one, and of those not back yet
    assert len(before) <= 12  # of 200 calls; one that has not come back yet when the next begins is replaced


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork processes")
def test_a_forked_process_has_threads_of_its_own():
    program = """
import os, threading
from ctxbench.model.strategies import side_by_side
side_by_side({"a": threading.get_ident, "b": threading.get_ident}, seconds=20)
if (child := os.fork()) == 0:
    os._exit(0 if len(side_by_side({"a": threading.get_ident, "b": threading.get_ident}, seconds=5)[0]) == 2 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


def test_a_source_that_is_late_is_left_out_with_a_note(batch, gate):
    resources = testing.mock_resources()
    Pipeline.of(SPEC).run(batch, resources)  # what is made at the first call is no matter of the limit
    outcome = with_source(Waits(gate), seconds=2).run(batch, resources, live=True)
    told = replace(NOTE, message="it had 2 s; the other sources answered without it")
    assert outcome.trace == tuple(replace(told, query=name) for name in batch.ids)
    assert np.isnan(outcome.candidates.columns["mine"]).all()
    expected = Pipeline.of(SPEC).run(batch, resources).candidates
    assert outcome.candidates.item[outcome.candidates.chosen].tolist() == expected.item[expected.chosen].tolist()


def test_one_that_fails_is_left_out_and_in_a_run_it_is_an_error(batch):
    pipeline = with_source(Fails(), seconds=20)
    (note,) = set(map(str, pipeline.run(batch, testing.mock_resources(), live=True).trace))
    assert note == "retrieve.mine failed: no route to host; the other sources answered without it"
    with pytest.raises(OSError, match="no route"):
        pipeline.run(batch, testing.mock_resources())


def test_in_a_run_a_slow_one_is_waited_for(batch, gate):
    threading.Timer(0.3, gate.set).start()
    assert with_source(Waits(gate), seconds=0.01).run(batch, testing.mock_resources()).trace == ()


def test_where_no_source_answers_all_are_named(batch):
    with pytest.raises(SelectorError) as error:
        with_source(Fails(), alone=True, seconds=20).run(batch, testing.mock_resources(), live=True)
    both = "retrieve.other failed: no route to host; retrieve.mine failed: no route to host"
    assert str(error.value) == f"merge of other, mine: no source answered; {both}"


def test_one_that_exits_has_failed_at_once(batch):
    @dataclass(frozen=True)
    class Exits(Strategy):
        def __call__(self, query, resources):
            raise SystemExit(3)

    note = with_source(Exits(), seconds=600).run(batch, testing.mock_resources(), live=True).trace[0]
    assert str(note) == "retrieve.mine failed: 3; the other sources answered without it"


def test_live_runs_share_outputs_through_a_memo_until_a_source_is_lacking(batch, gate):
    pipeline, memo, resources = with_source(Waits(gate)), {}, testing.mock_resources()
    gate.set()
    first = pipeline.run(batch, resources, memo=memo, live=True)
    kept = dict(memo)
    assert len(kept) == 4  # analysis, merge, fusion, cut
    assert pipeline.run(batch, resources, memo=memo, live=True).candidates is not None
    assert memo == kept
    same(pipeline.run(batch, resources, memo=memo).candidates, first.candidates)  # a run takes it, too


@pytest.mark.parametrize("kind", ["late", "failed"])
def test_what_lacks_a_source_is_not_kept_nor_what_is_made_of_it(batch, gate, kind):
    memo = {}
    pipeline = with_source(Waits(gate) if kind == "late" else Fails(), seconds=2)
    outcome = pipeline.run(batch, testing.mock_resources(), memo=memo, live=True)
    assert {note.kind for note in outcome.trace} == {kind}
    assert len(memo) == 1  # the analysis alone
    if kind == "late":
        gate.set()
        assert pipeline.run(batch, testing.mock_resources(), memo=memo, live=True).trace == ()
        assert len(memo) == 4


def test_a_memo_may_drop_what_it_holds_at_any_time(batch):
    class Forgets(dict):
        def __setitem__(self, key, value):
            self.clear()
            super().__setitem__(key, value)

    pipeline, memo = Pipeline.of(SPEC), Forgets()
    once = pipeline.run(batch, testing.mock_resources(), memo=memo).candidates
    same(pipeline.run(batch, testing.mock_resources(), memo=memo).candidates, once)


def test_a_listener_is_told_the_seconds_of_each_step_that_ran(batch):
    told, memo = [], {}
    for _ in range(2):
        Pipeline.of(SPEC).run(
            batch, testing.mock_resources(), memo=memo, live=True, listener=lambda *step: told.append(step)
        )
    names = [("analyse", "sentences"), ("retrieve", "merge"), ("rank", "rrf"), ("cut", "first")]
    assert [step[:2] for step in told] == names  # the second run has nothing to do
    assert all(seconds >= 0 for *_, seconds in told)


def test_an_index_is_made_once_by_two_threads():
    made, both, catalog = [], threading.Barrier(2), testing.mock_catalog()
    resources = testing.mock_resources()

    def make():
        made.append(threading.get_ident())
        threading.Event().wait(0.2)
        return object()

    def ask(found):
        both.wait(timeout=60)
        found.append(index_over(catalog, resources, "mine", over=("search_text",), make=make))

    found: list = []
    threads = [threading.Thread(target=ask, args=(found,)) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=60)
    assert (len(made), len({id(one) for one in found})) == (1, 1)


def test_threads_that_are_late_do_not_keep_the_process(gate):
    found, notes = side_by_side({"a": lambda: 1, "b": gate.wait}, seconds=0.5)
    assert (found, [note.step for note in notes]) == ({"a": 1}, ["retrieve.b"])
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "b")


@pytest.mark.parametrize("seconds", [0, -1, True, "1", float("inf"), float("nan"), 1e10])
def test_a_limit_is_a_number_above_0(seconds):
    with pytest.raises(PipelineError, match=r"retrieve.seconds: seconds must be above 0"):
        Pipeline.of({**SPEC, "retrieve": {**SPEC["retrieve"], "seconds": seconds}})


def test_nothing_else_stands_beside_merge():
    with pytest.raises(PipelineError, match=r"retrieve.limit: next to merge only 'seconds' is allowed"):
        Pipeline.of({**SPEC, "retrieve": {"merge": ["dense", "bm25"], "limit": 1}})


def test_the_limit_is_in_the_description_where_there_is_one():
    described = Pipeline.of(SPEC).describe()
    assert described["retrieve"]["seconds"] == 20
    assert "seconds" not in Pipeline.of({"retrieve": {"merge": ["dense", "bm25"]}}).describe()["retrieve"]


class TestNotes:
    def table(self, *notes):
        none = np.zeros(1, dtype=np.int64)
        return Candidates.build(1, none, none, score=np.ones(1)).noted(*notes)

    def test_they_travel_with_the_rows(self):
        table, other = self.table(NOTE), self.table(NOTE, replace(NOTE, query="q"))
        one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        given = {"score": np.ones(1), "origin": one * 2}
        assert table.select_rows(np.zeros(1, dtype=np.bool_)).notes == (NOTE,)
        assert add_expanded(table, none, one, **given).notes == (NOTE,)
        assert concatenated([table, Candidates.empty(1)]).notes == (NOTE,)
        for made in (joined({"a": table, "b": other}), stacked([table, other])):
            assert made.notes == (NOTE, replace(NOTE, query="q"))

    def test_those_of_one_query_are_told_with_it_alone(self, batch):
        outcome = Pipeline.of({"retrieve": "bm25"}).run(batch, testing.mock_resources())
        first, second, *_ = batch.ids
        notes = (NOTE, replace(NOTE, query=first))
        found = {one.query: one.trace for one in selections(outcome.query, outcome.candidates.noted(*notes))}
        assert (found[first], found[second]) == (notes, notes[:1])

    def test_an_analysis_leaves_them_with_the_query(self, batch):
        @dataclass(frozen=True)
        class Plans(Strategy):
            def __call__(self, batch, resources):
                from ctxbench.pipelines.strategies.analyse import Whole

                made = Whole()(batch, resources)
                return replace(made, notes=(Note("plan", "fell back", "no model answered; keywords were taken"),))

        pipeline = replace(Pipeline.of({"retrieve": "bm25"}), analyse=Step("analyse", "plans", Plans()))
        (note,) = set(map(str, pipeline.run(batch, testing.mock_resources()).trace))
        assert note == "plan fell back: no model answered; keywords were taken"

    def test_runs_keep_them(self, tmp_path):
        answers = Slice(
            queries=("q",),
            chunks=((),),
            candidates=self.table(NOTE),
            ranked=True,
            scored=True,
            errors={},
            seconds=np.zeros(1),
        )
        again = Slice.from_bytes(answers.to_bytes(timed=False), tmp_path / "a.npz")
        assert (again.candidates.notes, again.select_queries([0]).candidates.notes) == ((NOTE,), (NOTE,))

    def test_those_of_one_batch_are_not_told_of_another(self, batch):
        failing, other = with_source(Fails(), seconds=20), Pipeline.of({"retrieve": "bm25"})
        tables = []
        for pipeline, requests in ((failing, batch.requests[:2]), (other, batch.requests[2:4])):
            part = Batch.of(batch.catalog, requests)
            tables.append(pipeline.run(part, testing.mock_resources(), live=True).candidates)
        both = stacked([replace(table, columns={}) for table in tables])
        assert [len(both.notes_of(request.id)) for request in batch.requests[:4]] == [1, 1, 0, 0]

    def test_a_kind_is_one_of_three(self):
        with pytest.raises(ParameterError, match="of kind late, failed, fell back, got 'slow'"):
            Note("a", "slow", "b")

    def test_an_explanation_tells_them(self):
        (request, *_) = testing.mock_requests()
        found = explain(
            with_source(Fails(), seconds=20), testing.mock_catalog(), request, testing.mock_resources(), live=True
        )
        (row,) = found.as_dict(near=3)["trace"]
        assert (row["step"], row["kind"]) == ("retrieve.mine", "failed")


ENDS = """
import os, sys
import numpy as np
from ctxbench import Item
from ctxbench.model.strategies import side_by_side
from ctxbench.search.text_index import Fts5Index

draw = np.random.default_rng(1)
texts = [" ".join(f"w{number}" for number in draw.integers(0, 3000, 200)) for _ in range(400)]
items = [Item(type="file", name=f"f{n}", text=text) for n, text in enumerate(texts)]
kept = [[{n: [n]}] for n in range(120_000)]  # while they are let go of, a thread comes back to Python that shuts down

def index():
    while True:
        Fts5Index().rows(items)

def sort():
    numbers = draw.integers(0, 1 << 40, 200_000)
    while True:
        np.unique(numbers)

def compare():
    while True:
        fuzzy = Fts5Index()
        fuzzy.rows(items[:50])
        fuzzy.similar("w1 w2 w3 " * 20, np.arange(50), measure="word_similarity", threshold=0.1)

codes = []
for n in range(int(sys.argv[1])):
    process = os.fork()
    if not process:
        side_by_side({"a": index, "b": sort, "c": compare}, seconds=0.02 + 0.02 * n)
        sys.exit(3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(*codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process is forked for each end")
def test_a_process_that_ends_while_sources_are_late_is_not_aborted():
    done = subprocess.run([sys.executable, "-c", ENDS, "6"], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["3"] * 6
    assert done.stderr == ""
