"""What similar labelled requests needed: the arithmetic, whose labels count, and what a file of them may hold."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.features import LABELLED, NEIGHBOURS, LabelledRequests, feature_rows, needed_columns
from tests.pipelines.feature_cases import CATALOG, Plane, asked, table

AREA, TONE, PRICES = CATALOG.ids
CHUNKS = {"triangle_area": [(1.0, 0.0)], "tone": [(1.0, 0.0)] * 2, "prices": [(1.0, 0.0)] * 2}
VECTORS = {"size?": (1.0, 0.0), "how large?": (0.8, 0.6), "cost?": (0.0, 1.0), "away": (-1.0, 0.0), "": (1.0, 0.0)}
KNOWN = LabelledRequests(
    ids=("l0", "l1", "l2"),
    groups=(0, 1, 2),
    texts=("size?", "cost?", "away"),
    items=((AREA,), (PRICES, TONE), (AREA, "tool:gone")),
)


def values(query: Query, candidates: Candidates, known: LabelledRequests = KNOWN) -> np.ndarray:
    """The columns of all rows found, shape (n, 2)."""
    resources = Plane(CATALOG, CHUNKS, **VECTORS)
    return feature_rows(candidates, LABELLED, query, resources, labelled=known)[1]


class TestArithmetic:
    def test_nearest_is_a_cosine_and_share_is_weighed_by_its_8th_power(self):
        # "how large?" is 0.8 like "size?" and 0.6 like "cost?"; below 0, as "away" is, counts as 0
        share = 0.8**8 / (0.8**8 + 0.6**8)
        found = values(asked("how large?"), table([0.9, 0.5, 0.4]))
        assert found == pytest.approx(np.array([[0.8, share], [0.6, 1 - share], [0.6, 1 - share]]))

    def test_what_nobody_needed_has_nothing(self):
        known = LabelledRequests(("l0",), (0,), ("size?",), ((TONE,),))
        assert values(asked("size?"), table([0.9, 0.5]), known).tolist() == [[0.0, 0.0], [1.0, 1.0]]

    def test_only_the_nearest_share(self):
        similarity = np.linspace(0.1, 1.0, NEIGHBOURS + 1)[None, :]
        needed = {0: np.array([0]), 1: np.array([NEIGHBOURS])}
        found = needed_columns(similarity, np.zeros(2, np.int64), np.array([0, 1]), needed)
        assert found[0].tolist() == pytest.approx([0.1, 0.0])  # the eleventh is similar, and has no share
        assert found[1] == pytest.approx([1.0, 1.0 / (similarity[0, 1:] ** 8).sum()])

    def test_equal_ones_count_in_the_order_in_which_they_stand(self):
        similarity = np.full((1, NEIGHBOURS + 1), 0.5)
        needed = {0: np.array([0]), 1: np.array([NEIGHBOURS])}
        found = needed_columns(similarity, np.zeros(2, np.int64), np.array([0, 1]), needed)
        assert found[:, 1].tolist() == pytest.approx([0.1, 0.0])

    def test_unlike_all_of_them_nothing_is_shared(self):
        found = needed_columns(np.zeros((1, 2)), np.zeros(1, np.int64), np.array([0]), {0: np.array([0, 1])})
        assert found.tolist() == [[0.0, 0.0]]

    def test_no_candidate_no_labelled_request_and_no_text(self):
        assert values(asked("size?"), Candidates.empty(1)).shape == (0, 2)
        nobody = LabelledRequests((), (), (), ())
        assert values(asked("size?"), table([0.9]), nobody).tolist() == [[0.0, 0.0]]
        assert values(asked(""), table([0.9]), KNOWN).tolist() == [[0.0, 0.0]]
        silent = LabelledRequests(("l0",), (0,), ("",), ((AREA,),))
        assert values(asked("size?"), table([0.9]), silent).tolist() == [[0.0, 0.0]]

    def test_a_batch_equals_its_requests_to_the_bit(self):
        texts = ("how large?", "size?", "cost?", "how large?")
        whole = values(asked(*texts), table(*[[0.9, 0.5, 0.4]] * 4))
        alone = [values(asked(text), table([0.9, 0.5, 0.4])) for text in texts]
        np.testing.assert_array_equal(whole, np.concatenate(alone))


class TestOwnLabels:
    def named(self, name: str) -> Query:
        batch = Batch.of(CATALOG, [Request(id=name, text="size?")])
        return Query.of_chunks(batch, [["size?"]])

    def test_a_labelled_query_is_not_told_its_own(self):
        assert values(self.named("l0"), table([0.9])).tolist() == [[0.0, 0.0]]
        assert values(self.named("other"), table([0.9])).tolist() == [[1.0, 1.0]]

    def test_nor_those_of_its_group(self):
        known = LabelledRequests(("l0", "l1"), (7, 7), ("cost?", "size?"), ((TONE,), (AREA,)))
        assert values(self.named("l0"), table([0.9]), known).tolist() == [[0.0, 0.0]]


class TestRows:
    def test_they_are_read_as_they_were_written(self):
        again = LabelledRequests.read(KNOWN.as_rows())
        assert again.as_rows() == KNOWN.as_rows()
        assert again.content == KNOWN.content
        assert LabelledRequests.read([]).as_rows() == []

    @pytest.mark.parametrize(
        "rows",
        [None, {}, [["a", 0, "text"]], [["a", True, "text", []]], [["a", 0, "text", [3]]], [["a", 0, "t", ["no id"]]]],
    )
    def test_anything_else_is_refused(self, rows):
        with pytest.raises(ParameterError, match="expected `requests` as a list of"):
            LabelledRequests.read(rows)


def test_without_a_fit_there_are_none():
    with pytest.raises(ParameterError, match="only a fit holds such requests"):
        feature_rows(table([0.9]), LABELLED, asked("size?"), Plane(CATALOG, CHUNKS, **VECTORS))
