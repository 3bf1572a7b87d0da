from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.requests import Batch
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import definition, shipped
from ctxbench.selectors.selector import Answers, PipelineSelector, SizeMatched, offered_sizes
from ctxbench.testing import mock_catalog, mock_requests, mock_resources

BATCH = Batch.of(mock_catalog(), mock_requests())


def selector(name: str, spec: dict[str, Any]) -> PipelineSelector:
    return PipelineSelector(name, Pipeline.of(spec), mock_resources())


def cut(n: int) -> PipelineSelector:
    return selector(f"first {n}", {"retrieve": "dense", "refine": [{"first": {"n": n}}]})


@pytest.mark.parametrize("name", shipped())
def test_shipped_selectors_conform(name):
    found = definition(name)
    testing.check_selector(PipelineSelector(name, found.pipeline(found.values()), mock_resources()))


def test_a_selector_with_a_comparators_size_conforms():
    random = selector("random", {"retrieve": "random"})
    testing.check_selector(SizeMatched("random at equal size", random, cut(2)))


def test_a_description_holds_the_steps_and_what_their_resources_are():
    described = cut(3).describe()
    assert described["pipeline"] == cut(3).pipeline.describe()
    assert described["identities"] == {"embedder": mock_resources().identity("embedder")}
    assert selector("bm25", {"retrieve": "bm25"}).describe()["identities"] == {}


def test_what_ranks_nothing_has_no_ranking():
    everything = selector("everything", {"retrieve": "everything"}).select(BATCH)
    assert (everything.ranked, everything.scored) == (False, False)
    dense = cut(1).select(BATCH)
    assert (dense.ranked, dense.scored, dict(dense.errors)) == (True, True, {})


def test_selectors_with_one_memo_share_their_first_steps():
    memo: dict[str, Any] = {}
    resources = mock_resources()
    for n in (1, 2):
        dataclasses.replace(cut(n), resources=resources, memo=memo).select(BATCH)
    assert len(memo) == 4  # analysis and retrieval once, a cut each


def test_sizes_leave_the_session_out():
    answers = cut(2).select(BATCH)
    sizes = dict(zip(BATCH.ids, offered_sizes(answers.candidates), strict=True))
    assert sizes["plain"] == sizes["session"] == 2
    assert sizes["one item"] == 1
    assert sizes["empty"] == sizes["nothing available"] == 0
    assert offered_sizes(cut(2).select(BATCH.take([])).candidates).tolist() == []


def test_as_many_as_another_offers_each_time():
    random = selector("random", {"retrieve": "random", "refine": [{"first": {"n": 1}}]})
    like = selector("standard", {"retrieve": "dense", "refine": [{"standard": {"topN": 1, "includeScore": 0.2}}]})
    answers = SizeMatched("r", random, like).select(BATCH)
    sizes = offered_sizes(like.select(BATCH).candidates)
    assert len(set(sizes.tolist())) > 2
    assert np.array_equal(offered_sizes(answers.candidates), sizes)
    # what is offered is the beginning of the ranking's own order, its own cut undone
    ranking = random.select(BATCH).candidates
    assert np.array_equal(answers.candidates.item, ranking.item)
    for row, size in enumerate(sizes.astype(int)):
        span = answers.candidates.rows(row)
        found = answers.candidates.origin[span] == Origin.SEARCH
        assert answers.candidates.chosen[span][found].tolist() == [place < size for place in range(found.sum())]


def test_a_request_that_either_fails_on_fails():
    @dataclasses.dataclass(frozen=True)
    class Failing:
        name: str
        row: int

        def describe(self):
            return {"name": self.name}

        def select(self, batch):
            made = cut(2).select(batch)
            return dataclasses.replace(made, errors={self.row: f"{self.name} failed"})

    answers = SizeMatched("r", Failing("ranking", 0), Failing("like", 1)).select(BATCH)
    assert answers.errors == {0: "ranking failed", 1: "like failed"}
    # such a request has its session rows only
    found = np.bincount(answers.candidates.request[answers.candidates.origin == Origin.SEARCH], minlength=len(BATCH))
    assert found[:2].tolist() == [0, 0]
    assert found[2] > 0


def test_both_selectors_are_described():
    described = SizeMatched("r", selector("random", {"retrieve": "random"}), cut(2)).describe()
    assert described["ranking"]["pipeline"]["retrieve"]["step"] == "retrieve:random"
    assert described["as many as"] == cut(2).describe()


def test_answers_may_lack_times():
    query = cut(1).select(BATCH.take([])).query
    answers = Answers(query=query, candidates=Candidates.empty(0), ranked=True, scored=True)
    assert answers.seconds is None


def test_a_budget_of_the_whole_prompt_is_described_by_the_format_of_its_own_pipeline():
    spec = {"analyse": "whole", "retrieve": "bm25", "refine": [{"budget": {"tokens": 50, "frame": True}}]}
    selector = PipelineSelector("framed", Pipeline.of(spec), testing.mock_resources())
    assert sorted(selector.describe()["identities"]) == ["tokens"]
    batch = Batch.of(mock_catalog(), mock_requests())
    assert len(selector.select(batch).candidates) > 0
