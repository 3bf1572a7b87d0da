"""Search by vectors in files finds what search in memory finds, bit for bit, whatever the number format."""

from __future__ import annotations

import logging
import shutil
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import StorageError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.model.resources import IndexFields
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search import dense, vector_files
from ctxbench.search.dense import dense_index, search
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.search.vector_files import ChunkMatrix, VectorFiles, widen

FORMATS = ("float32", "float16", "int8")


def unit(random, n, dimensions):
    """Unit vectors: copies, some that differ from another in the last bits, some with one great number."""
    vectors = random.standard_normal((n, dimensions)).astype(np.float32)
    vectors[random.random(n) < 0.2, 0] *= 30
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    copies = random.random(n) < 0.3
    vectors[copies] = vectors[random.integers(0, n, n)[copies]]
    near = random.random(n) < 0.3
    vectors[near] = vectors[random.integers(0, n, n)[near]] * np.float32(1 + 2e-7)
    return vectors


def filed(matrix, folder, vectors, blocks=7):
    """The matrix, with its vectors in files."""
    files = VectorFiles(folder, "maker", vectors)
    parts = [matrix.vectors[first : first + blocks] for first in range(0, len(matrix.item), blocks)]
    file = files.open("key", len(matrix.item), lambda: iter(parts))
    assert file is not None
    return ChunkMatrix(file.vectors, matrix.item, matrix.ordinal, matrix.first, file)


class TestSearch:
    @pytest.mark.parametrize("vectors", FORMATS)
    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32 - 1),
        items=st.lists(st.integers(1, 3), min_size=1, max_size=30),
        chunks=st.lists(st.integers(0, 3), min_size=1, max_size=5),
        depth=st.integers(1, 35),
        part=st.integers(1, 20),
        share=st.sampled_from([0.3, 1.0]),
        dimensions=st.sampled_from([2, 16, 384]),
        weighted=st.booleans(),
    )
    def test_it_is_that_in_memory(
        self, vectors, seed, items, chunks, depth, part, share, dimensions, weighted, tmp_path_factory
    ):
        random = np.random.default_rng(seed)
        item = np.repeat(np.arange(len(items)), items)
        matrix = ChunkMatrix.of(unit(random, len(item), dimensions), item, np.zeros(len(item), dtype=np.int64))
        queries = unit(random, sum(chunks), dimensions) if sum(chunks) else np.empty((0, dimensions), np.float32)
        weight = random.choice([0.5, 1.0, 2.0], sum(chunks)) if weighted else np.ones(sum(chunks))
        start = np.concatenate([[0], np.cumsum(chunks)]).astype(np.int64)
        eligible = random.random((len(chunks), len(items))) < share
        expected = list(search(queries, start, eligible, matrix, depth=depth, weight=weight))
        folder = tmp_path_factory.mktemp("files")
        with mock.patch.object(vector_files, "PART", part):
            found = list(search(queries, start, eligible, filed(matrix, folder, vectors), depth=depth, weight=weight))
        assert [hits.row.tolist() for hits in found] == [hits.row.tolist() for hits in expected]
        assert [hits.query_chunk.tolist() for hits in found] == [hits.query_chunk.tolist() for hits in expected]
        assert [hits.score.tobytes() for hits in found] == [hits.score.tobytes() for hits in expected]

    @pytest.mark.parametrize("vectors", FORMATS)
    def test_scores_that_the_format_cannot_distinguish_are_in_their_exact_order(self, vectors, tmp_path):
        random = np.random.default_rng(8)
        base = unit(random, 1, 384)
        near = (base + random.standard_normal((300, 384)) * 1e-5).astype(np.float32)
        matrix = ChunkMatrix.of(near, np.arange(300), np.zeros(300, dtype=np.int64))
        kwargs = {"depth": 20, "weight": np.ones(1)}
        start, everything = np.array([0, 1]), np.ones((1, 300), dtype=np.bool_)
        (expected,) = search(base, start, everything, matrix, **kwargs)
        (found,) = search(base, start, everything, filed(matrix, tmp_path, vectors), **kwargs)
        assert found.row.tolist() == expected.row.tolist()
        assert found.score.tobytes() == expected.score.tobytes()


def test_float16_is_widened_exactly():
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)].reshape(-1, 64)
    out = np.empty(numbers.shape, dtype=np.float32)
    widen(numbers, out)
    assert out.tobytes() == numbers.astype(np.float32).tobytes()


@pytest.mark.parametrize("vectors", FORMATS)
def test_no_row_is_further_off_than_the_error(vectors, tmp_path):
    rows = unit(np.random.default_rng(3), 50, 33)
    matrix = filed(ChunkMatrix.of(rows, np.arange(50), np.zeros(50, dtype=np.int64)), tmp_path, vectors)
    read = np.concatenate([part.copy() for _, part in matrix.parts(8)])
    assert np.linalg.norm(read.astype(np.float64) - rows, axis=1).max() <= matrix.error
    assert matrix.error <= {"float32": 0.0, "float16": 2**-11, "int8": 33**0.5 / 254}[vectors]
    exact = np.concatenate([part.copy() for _, part in matrix.parts(8, exact=True)])
    assert exact.tobytes() == rows.tobytes()


CATALOG = Catalog([Item(type="rule", name=f"r{n}", text=f"word{n} about {n % 7}\n\nmore of {n}") for n in range(60)])
PIPELINE = Pipeline.of({"retrieve": {"dense": {"depth": 20}}, "refine": [{"standard": {"topN": 3}}]})


class Counted(HashingEmbedder):
    """Counts the texts that it embeds, and fails after `limit`."""

    def __init__(self):
        super().__init__()
        self.embedded, self.limit = 0, 10**9

    def embed(self, texts, *, kind="query", on_done=None):
        def done(position, vector):
            if self.embedded == self.limit:
                raise KeyboardInterrupt
            self.embedded += 1
            on_done(position, vector)

        return super().embed(texts, kind=kind, on_done=done)


def resources_of(vectors="float32", embedder=None, mapped_from=0):
    resources = local_resources(embedder or Counted(), open_counter("chars/4"), index=IndexFields(vectors=vectors))
    resources.mapped_from = mapped_from
    return resources


def answers(resources, catalog=CATALOG, available=None):
    requests = [Request(id=str(n), text=f"word{n} of {n}. And more.", available=available) for n in range(12)]
    table = PIPELINE.run(Batch.of(catalog, requests), resources).candidates
    return [
        getattr(table, name).tobytes() for name in ("start", "item", "score", "chunk_rank", "query_chunk", "item_chunk")
    ]


def matrix_in(resources, catalog=CATALOG):
    return dense_index(catalog, resources)._embedded.matrix


@pytest.fixture
def in_parts(monkeypatch):
    """Files of float32 are read in parts, however small they are."""
    monkeypatch.setattr(dense, "WHOLE", 0)


@pytest.fixture
def in_memory():
    resources = resources_of(mapped_from=10**9)
    expected = answers(resources)
    assert matrix_in(resources).file is None
    return expected


@pytest.mark.usefixtures("in_parts")
class TestFiles:
    @pytest.mark.parametrize("vectors", FORMATS)
    def test_answers_are_those_from_memory(self, vectors, in_memory):
        resources = resources_of(vectors)
        with mock.patch.object(vector_files, "PART", 16):
            assert answers(resources) == in_memory
        assert matrix_in(resources).file is not None

    def test_a_small_file_of_float32_is_used_as_a_whole(self, in_memory, monkeypatch):
        monkeypatch.setattr(dense, "WHOLE", 10**9)
        resources = resources_of()
        assert answers(resources) == in_memory
        assert not matrix_in(resources).vectors.flags.owndata
        assert matrix_in(resources).vectors.flags.writeable is False
        assert matrix_in(resources).file is None
        larger = CATALOG.extended([Item(type="rule", name="more", text="word3 of 3")])
        assert answers(resources, larger) == answers(resources_of(mapped_from=10**9), larger)

    def test_another_process_reads_the_files_and_embeds_nothing(self, in_memory):
        answers(resources_of())
        embedder = Counted()
        with mock.patch.object(vector_files, "_write", side_effect=AssertionError):
            assert answers(resources_of(embedder=embedder)) == in_memory
        assert embedder.embedded == 0

    def test_stopped_while_it_embeds_it_goes_on_with_what_is_left(self, tmp_path, monkeypatch):
        first, second, at_once = Counted(), Counted(), Counted()
        in_memory = answers(resources_of(embedder=at_once, mapped_from=10**9))
        monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "another"))
        first.limit = 80
        with pytest.raises(KeyboardInterrupt):
            answers(resources_of(embedder=first))
        assert answers(resources_of("int8", embedder=second)) == in_memory
        assert first.embedded + second.embedded == at_once.embedded

    @pytest.mark.parametrize("vectors", FORMATS)
    def test_a_damaged_file_is_made_again(self, vectors, in_memory, caplog):
        resources = resources_of(vectors)
        answers(resources)
        (rows,) = resources.vector_files("embedder").folder.glob(f"*-{vectors}/rows")
        data = bytearray(rows.read_bytes())
        data[100] ^= 1
        rows.write_bytes(data)
        embedder = Counted()
        with caplog.at_level(logging.WARNING):
            assert answers(resources_of(vectors, embedder=embedder)) == in_memory
        assert embedder.embedded == 0
        assert str(rows.parent) in caplog.text
        assert rows.read_bytes() != data

    def test_without_room_on_the_disk_vectors_stay_in_memory(self, in_memory, caplog):
        resources = resources_of()
        with mock.patch.object(vector_files, "seal_folder", side_effect=OSError(28, "No space left on device")):
            assert answers(resources) == in_memory
        assert matrix_in(resources).file is None
        assert "No space left" in caplog.text
        assert not [*resources.vector_files("embedder").folder.glob("*-float32")]

    def test_a_file_that_is_cut_off_while_it_is_used_is_one_error(self):
        resources = resources_of()
        answers(resources)
        (rows,) = resources.vector_files("embedder").folder.glob("*-float32/rows")
        with rows.open("r+b") as file:
            file.truncate(1000)
        with pytest.raises(StorageError, match="too short"):
            answers(resources)

    def test_files_that_are_removed_while_they_are_used_are_still_there_for_the_user(self, in_memory):
        resources = resources_of()
        answers(resources)
        shutil.rmtree(resources.vector_files("embedder").folder)
        assert answers(resources) == in_memory

    def test_few_of_the_items_stay_in_memory(self):
        resources = resources_of()
        answers(resources, available=tuple(item.id for item in CATALOG[:9]))
        assert len(matrix_in(resources).item) == 27
        assert matrix_in(resources).file is None

    def test_a_larger_catalog_has_other_files(self, in_memory):
        larger = CATALOG.extended([Item(type="rule", name="more", text="word3 of 3")])
        resources = resources_of()
        assert answers(resources) == in_memory
        assert answers(resources, larger) == answers(resources_of(mapped_from=10**9), larger)

    def test_what_is_forgotten_is_in_no_file(self):
        resources = resources_of()
        answers(resources)
        folder = resources.vector_files("embedder").folder
        resources._vectors[0]._store.forget(["more of 3"])
        assert not folder.exists()

    def test_resources_without_an_index_keep_all_in_memory(self):
        assert local_resources(HashingEmbedder(), open_counter("chars/4")).vector_files("embedder") is None

    def test_the_folders_that_were_used_last_stay(self, tmp_path):
        files = VectorFiles(tmp_path, "maker")
        for n in range(12):
            files.open(str(n), 1, lambda: iter([np.ones((1, 4), dtype=np.float32)]))
        assert len([*tmp_path.glob("*-float32")]) == vector_files.MOST_FOLDERS
