"""The families `fields` and `fusion`, worked by hand on a small catalog with the hashing embedder."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.feature_families import FUSION
from ctxbench.pipelines.features import with_features
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import HashingEmbedder
from tests.pipelines.feature_cases import rows_of, table

FIELDS = ("fields.name", "fields.description", "fields.bm25_share")
FUSED = ("fusion.score", "fusion.margin", "fusion.rank")
SCHEMA = {"properties": {"wide": {"type": "number", "description": "how broad the rectangle is"}}}
CATALOG = Catalog(
    [
        Item(type="tool", name="triangle_area", description="The area of a triangle."),
        Item(type="skill", name="pdf", description="Work with documents", text="Rotate pages."),
        Item(type="tool", name="measure", schema=SCHEMA),  # without a description
        Item(type="message", name="m1", text="What is the area of a triangle?"),
        Item(type="rule", name="tone", text="Be brief."),
    ]
)
TRIANGLE, PDF, MEASURE, MESSAGE, TONE = range(5)
ALL = [0.9, 0.8, 0.7, 0.6, 0.5]


def asked(*chunks: Sequence[str], texts: Sequence[str] | None = None, catalog: Catalog = CATALOG) -> Query:
    texts = texts or [" ".join(of_request) for of_request in chunks]
    batch = Batch.of(catalog, [Request(id=str(i), text=text) for i, text in enumerate(texts)])
    return Query.of_chunks(batch, [list(of_request) for of_request in chunks])


def columns(query: Query, names: Sequence[str], candidates=None) -> list[list[float]]:
    """By column, the values of the rows of items 0, 1, ..."""
    rows = rows_of(query, table(ALL) if candidates is None else candidates, *names)
    return [[row[name] for row in rows] for name in names]


def cosine(one: str, other: str) -> float:
    first, second = HashingEmbedder().embed([one, other]).astype(np.float64)
    return float(first @ second)


class TestFields:
    def test_a_name_is_compared_by_its_parts(self):
        name, _, _ = columns(asked(["triangle area"]), FIELDS)
        assert name[TRIANGLE] == pytest.approx(1.0, abs=1e-6)
        assert name[PDF] == pytest.approx(cosine("triangle area", "pdf"), abs=1e-9)
        assert name[TONE] == pytest.approx(cosine("triangle area", "tone"), abs=1e-9)

    def test_a_description_is_compared_without_the_name(self):
        name, description, _ = columns(asked(["Work with documents"]), FIELDS)
        assert description[PDF] == pytest.approx(1.0, abs=1e-6)
        assert description[TRIANGLE] == pytest.approx(
            cosine("Work with documents", "The area of a triangle."), abs=1e-9
        )
        assert name[PDF] == pytest.approx(cosine("Work with documents", "pdf"), abs=1e-9)

    def test_the_best_chunk_of_a_request_counts_for_each_field(self):
        name, description, _ = columns(asked(["pdf", "The area of a triangle."]), FIELDS)
        assert (name[PDF], description[TRIANGLE]) == (pytest.approx(1.0, abs=1e-6), pytest.approx(1.0, abs=1e-6))
        assert name[TONE] == pytest.approx(max(cosine(q, "tone") for q in ("pdf", "The area of a triangle.")), abs=1e-9)

    def test_an_item_without_the_field_has_0(self):
        name, description, _ = columns(asked(["measure the tone"]), FIELDS)
        assert (description[MEASURE], description[TONE]) == (0.0, 0.0)
        assert name[MEASURE] == pytest.approx(cosine("measure the tone", "measure"), abs=1e-9)
        assert name[MEASURE] > 0

    def test_a_message_has_neither_name_nor_description(self):
        name, description, share = columns(asked(["m1 area of a triangle"]), FIELDS)
        assert (name[MESSAGE], description[MESSAGE]) == (0.0, 0.0)
        assert share[MESSAGE] > 0  # its text is searched

    def test_where_no_item_has_the_field_all_have_0(self):
        catalog = Catalog([CATALOG[MESSAGE], Item(type="memory", name="n", text="A triangle.")])
        name, description, _ = columns(asked(["a triangle"], catalog=catalog), FIELDS, table([0.9, 0.8]))
        assert (name, description) == ([0.0, 0.0], [0.0, 0.0])

    def test_a_request_without_chunks_is_like_nothing(self):
        assert columns(asked([]), (*FIELDS, "fusion.score", "fusion.margin")) == [[0.0] * 5] * 5

    def test_its_neighbours_in_the_batch_keep_their_values(self):
        alone = columns(asked(["triangle area"]), (*FIELDS, *FUSED))
        batch = columns(asked([], ["triangle area"]), (*FIELDS, *FUSED), table(ALL, ALL))
        assert [values[:5] for values in batch] == [[0.0] * 5] * 6
        assert [values[5:] for values in batch] == alone

    def test_words_are_searched_in_every_field(self):
        for text, item in [
            ("triangle", TRIANGLE),  # name and description
            ("documents", PDF),  # description
            ("rotate", PDF),  # body of a skill
            ("wide", MEASURE),  # name of a parameter
            ("rectangle", MEASURE),  # description of a parameter
            ("brief", TONE),  # text
        ]:
            share = columns(asked([text]), FIELDS)[2]
            assert share[item] == 1.0, text
            assert all(value == 0.0 for i, value in enumerate(share) if i not in (item, MESSAGE)), text

    def test_words_count_as_a_share_of_the_best_of_what_was_found(self):
        """Of two names of one word each, that with the word twice as often asked for scores twice as much."""
        catalog = Catalog([Item(type="rule", name="apple"), Item(type="rule", name="cherry")])
        query = asked(["apple apple cherry"], catalog=catalog)
        assert columns(query, FIELDS, table([0.9, 0.8]))[2] == pytest.approx([1.0, 0.5])
        cherry = Candidates.build(1, np.array([0]), np.array([1]), score=np.array([0.8]))
        assert columns(query, FIELDS, cherry)[2] == [1.0]

    def test_where_no_word_is_shared_all_have_0(self):
        assert columns(asked(["zzyzx"]), FIELDS)[2] == [0.0] * 5


class TestFusion:
    def test_it_is_the_weighted_sum_of_its_parts(self):
        names = (*FUSION, "fusion.score")
        *parts, score = columns(asked(["work with documents", "the triangle"]), names)
        expected = [
            sum(weight * part[i] for weight, part in zip(FUSION.values(), parts, strict=True)) for i in range(5)
        ]
        assert score == pytest.approx(expected, abs=1e-12)
        assert all(any(value > 0.1 for value in part) for part in parts)

    def test_worked_by_hand(self):
        """The whole text is the name, so that both similarities are 1; the only word is found in it alone."""
        catalog = Catalog([Item(type="rule", name="pdf"), Item(type="rule", name="tone")])
        score, margin, rank = columns(asked(["pdf"], catalog=catalog), FUSED, table([0.1, 0.9]))
        other = 1.5 * cosine("pdf", "tone")
        by_score = sorted(zip(score, margin, rank, strict=True), reverse=True)
        assert by_score[0] == (pytest.approx(1.0 + 0.5 + 0.5, abs=1e-6), 0.0, 0.0)
        assert by_score[1] == (pytest.approx(other, abs=1e-6), pytest.approx(2.0 - other, abs=1e-6), math.log1p(1))

    def test_ties_share_the_better_rank(self):
        catalog = Catalog([Item(type=kind, name="pdf") for kind in ("rule", "reference")])
        _, margin, rank = columns(asked(["pdf"], catalog=catalog), FUSED, table([0.1, 0.9]))
        assert (margin, rank) == ([0.0, 0.0], [0.0, 0.0])


TEXTS = [
    "the area of a triangle",
    "Rotate the pages. Work with documents!",
    "",
    "how broad is it",
    "be brief",
    "zzyzx",
    "the area of a triangle",
]


def searched(requests: Sequence[Request], catalog: Catalog, resources=None):
    refine = [{"features": {"columns": [*FIELDS, *FUSED]}}]
    pipeline = Pipeline.of({"analyse": "sentences", "retrieve": "everything", "refine": refine})
    return pipeline.run(Batch.of(catalog, requests), resources or testing.mock_resources()).candidates


class TestBits:
    def test_a_batch_equals_its_requests(self):
        requests = [Request(id=str(i), text=text) for i, text in enumerate(TEXTS)]
        whole = searched(requests, CATALOG)
        for row, request in enumerate(requests):
            alone = searched([request], CATALOG)
            for name in (*FIELDS, *FUSED):
                assert alone.columns[name].tobytes() == whole.columns[name][whole.rows(row)].tobytes(), (name, row)

    def test_an_extended_catalog_equals_a_new_one(self):
        requests = [Request(id=str(i), text=text) for i, text in enumerate(TEXTS)]
        added = [
            Item(type="tool", name="page_turner", description="Turn pages", schema=SCHEMA),
            Item(type="memory", name="note", text="documents"),
        ]
        resources = testing.mock_resources()
        searched(requests, CATALOG, resources)  # so that indexes are there to be extended
        grown = searched(requests, CATALOG.extended(added), resources)
        new = searched(requests, Catalog([*CATALOG, *added]))
        assert grown.item.tolist() == new.item.tolist()
        for name in (*FIELDS, *FUSED):
            assert grown.columns[name].tobytes() == new.columns[name].tobytes(), name

    def test_similarities_of_items_stay_when_the_catalog_grows(self):
        """BM25 may change, as it counts how many items have a word."""
        requests = [Request(id=str(i), text=text) for i, text in enumerate(TEXTS)]
        before = searched(requests, CATALOG)
        after = searched(requests, CATALOG.extended([Item(type="tool", name="other", description="Another")]))
        old = after.item < len(CATALOG)
        order = [np.lexsort((t.item[rows], t.request[rows])) for t, rows in ((before, slice(None)), (after, old))]
        for name in FIELDS[:2]:
            one, other = before.columns[name][order[0]], after.columns[name][old][order[1]]
            assert one.tobytes() == other.tobytes(), name


def test_a_column_that_is_there_is_not_made_again():
    query, resources = asked(["triangle area"]), testing.mock_resources()
    made = with_features(table(ALL), FUSED, query, resources)
    again = with_features(made, (*FIELDS, *FUSED), query, resources)
    assert [again.columns[name].tobytes() for name in FUSED] == [made.columns[name].tobytes() for name in FUSED]
    assert set(again.columns) == {*FIELDS, *FUSED}
