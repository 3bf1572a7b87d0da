"""The curve of a base from its stored answers."""

from __future__ import annotations

import numpy as np
import pytest
from base_curve import own_curve, standard_cut

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.comparisons import LENGTHS
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.strategies.cut import Standard
from ctxbench.selectors.definitions import definition

ITEMS = tuple(Item(type="tool", name=name, description=name) for name in "abcdef")
TOKENS = np.array([1, 2, 4, 8, 16, 32], dtype=np.int64)


def base_answers():
    """One query that requires a and d; items score .9, .8, ... in catalog order, two chunks match each."""
    requests = (Request(id="q", text="x"), Request(id="r", text="y"))
    queries = tuple(
        DatasetQuery(request=request, split="tuning", needs_nothing=request.id == "r") for request in requests
    )
    labels = tuple(Label("q", ITEMS[place].key, 2) for place in (0, 3))
    dataset = Dataset(name="d", version="1", catalog=Catalog(ITEMS), queries=queries, labels=labels)
    score = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4] * 2)
    table = Candidates.build(
        2,
        np.repeat([0, 1], 6),
        np.tile(np.arange(6), 2),
        score=score,
        chunk_rank=np.tile(np.arange(0, 12, 2), 2),
    )
    cut = Standard(topK=4, topN=1, includeScore=0.85)
    stored = cut(None, table, None)
    answers = Slice(
        queries=("q", "r"),
        chunks=(("x",), ("y",)),
        candidates=stored,
        ranked=True,
        scored=True,
        errors={},
        seconds=np.zeros(2),
    )
    return answers, cut, Labels.of(dataset, TOKENS)


def test_the_curve_runs_from_nothing_through_the_cut_itself_to_all_that_was_found():
    answers, cut, labels = base_answers()
    curve = own_curve(answers, cut, labels, None)
    assert len(curve.tokens) == len(LENGTHS) + 1
    assert curve.tokens[:, 0].tolist()[:8] == [0, 1, 1, 3, 7, 15, 31, 63], "a, then ab, abc ...; topK grows with topN"
    assert curve.complete[:, 0].tolist()[:8] == [0, 0, 0, 0, 0, 1, 1, 1], "a and d are needed"
    assert np.isnan(curve.complete[:, 1]).all()
    assert curve.tokens[-1].tolist() == [63, 63]
    at_own = 1 + LENGTHS.index(cut.topN)
    offered = answers.candidates
    assert curve.tokens[at_own, 0] == TOKENS[offered.item[offered.chosen & (offered.request == 0)]].sum()


STEP = {"step": "cut:standard", "version": 1, "topK": 9, "topN": 3, "includeScore": 0.5}
MARGIN = {"step": "cut:margin", "version": 1, "margin": 1.0, "of": "ratio", "at_least": 0, "at_most": 9}


def test_a_base_is_a_search_with_one_standard_cut():
    step = STEP
    assert standard_cut({"pipeline": {"refine": [step]}}) == Standard(topK=9, topN=3, includeScore=0.5)
    for refine in ([], [step, step], [{"step": "cut:first", "version": 1, "n": 9}], [{**step, "topK": -1}]):
        with pytest.raises(ParameterError, match="one standard cut"):
            standard_cut({"pipeline": {"refine": refine}})
    with pytest.raises(ParameterError, match="one standard cut"):
        standard_cut({"command": "own"})
    answers, _, labels = base_answers()
    with pytest.raises(ParameterError, match="topN 1 or more"):
        own_curve(answers, Standard(topN=0), labels, None)


@pytest.mark.parametrize("preset", ["spec", None])
def test_the_shipped_selector_with_its_margin_off_is_a_base(preset):
    shipped = definition("semantic")
    described = shipped.pipeline(shipped.values(preset)).describe()
    assert standard_cut({"pipeline": described}) == Standard(topK=20, topN=5, includeScore=0.7)
    with_margin = shipped.pipeline(shipped.values(preset, {"contextMargin": 0.99})).describe()
    with pytest.raises(ParameterError, match="one standard cut"):
        standard_cut({"pipeline": with_margin})
