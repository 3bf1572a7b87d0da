"""Approximate indexes and products on a device: what they propose is scored exactly; recall is with every figure."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from ctxbench.api.results import Results
from ctxbench.evaluation import runner
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder, summarise_run
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.arrays import Masks
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.model.resources import IndexFields
from ctxbench.report.run_tables import comparison_table, selector_titles, with_titles
from ctxbench.report.run_text import figures_csv
from ctxbench.search import vector_files
from ctxbench.search.dense import by_best_pair
from ctxbench.search.resources import IndexSearch
from ctxbench.search.vector_files import AnnIndex, ChunkMatrix, DeviceProducts
from tests.benchmarks.scale import write_dataset
from tests.children import LIMIT

DIMENSIONS, DEPTH = 16, 5


def needs(*modules: str):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}, as with the extra ann")


LIBRARIES = [pytest.param(name, marks=needs(name)) for name in ("faiss", "usearch")]
PROPOSERS = [*LIBRARIES, pytest.param("torch", marks=needs("torch"))]


def unit(n: int, seed: int):
    rows = np.random.default_rng(seed).standard_normal((n, DIMENSIONS)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def embed(texts, *, kind="query"):
    return np.array([unit(1, int(text))[0] for text in texts], dtype=np.float32).reshape(len(texts), DIMENSIONS)


def proposer_of(name: str, matrix: ChunkMatrix):
    return DeviceProducts(matrix, "cpu") if name == "torch" else AnnIndex.of(matrix, name)


@pytest.fixture(scope="module")
def matrix():
    """1,500 items with two chunks each; some vectors occur several times."""
    vectors = unit(3_000, 1)
    vectors[1::50] = vectors[0]
    return ChunkMatrix.of(vectors, np.arange(3_000) // 2, np.arange(3_000) % 2)


def asked(allowed: list, chunks: list[list[str]]) -> Query:
    """A query over the items of `matrix`; each request may get what its mask allows."""
    catalog = Catalog([Item(type="tool", name=f"t{n}", text=f"t{n}") for n in range(1_500)])
    requests = [Request(id=f"r{n}", text="x") for n in range(len(chunks))]
    batch = Batch.of(catalog, requests)
    masks = Masks(
        n_items=1_500,
        scope=np.arange(len(chunks)),
        shared=[np.array(mask) for mask in allowed],
        start=np.zeros(len(chunks) + 1, dtype=np.int64),
        without=np.empty(0, dtype=np.int64),
        time=np.zeros(len(chunks), dtype=np.int64),
    )
    object.__setattr__(batch, "eligible", masks)
    return Query.of_chunks(batch, chunks)


def best(hits, matrix):
    """Items, chunks of the query and scores, as candidates are made of hits."""
    first = np.sort(np.unique(matrix.item[hits.row], return_index=True)[1])[:DEPTH]
    return hits.row[first].tolist(), hits.query_chunk[first].tolist(), hits.score[first].tolist()


EVERYTHING = np.ones(1_500, dtype=bool)
HALF = np.arange(1_500) % 2 == 0
FEW = np.arange(1_500) < 40
NONE = np.zeros(1_500, dtype=bool)
QUERY = [["100"], ["101", "102", "101"], ["103"], ["104", "105"], [], ["106"], ["107", "108"], ["109"]]
MASKS = [EVERYTHING, EVERYTHING, HALF, HALF, EVERYTHING, FEW, FEW, NONE]


@pytest.mark.parametrize("name", PROPOSERS)
def test_what_is_proposed_is_scored_exactly_and_allowed(name, matrix):
    query = asked(MASKS, QUERY)
    exact = [*by_best_pair(query, embed, matrix, depth=DEPTH)]
    proposed = [*by_best_pair(query, embed, matrix, depth=DEPTH, proposer=proposer_of(name, matrix))]
    for mask, hits, near in zip(MASKS, exact, proposed, strict=True):
        assert mask[matrix.item[near.row]].all()
        assert len(best(near, matrix)[0]) == len(best(hits, matrix)[0])
        of_row = dict(zip(hits.row.tolist(), hits.score.tolist(), strict=True))
        assert all(of_row.get(row, score) == score for row, score in zip(near.row.tolist(), near.score, strict=True))
        if name == "torch" or mask is FEW:
            assert best(near, matrix) == best(hits, matrix)


@pytest.mark.parametrize("name", PROPOSERS)
def test_a_batch_gives_what_its_requests_get_alone(name, matrix):
    proposer = proposer_of(name, matrix)
    together = by_best_pair(asked(MASKS, QUERY), embed, matrix, depth=DEPTH, proposer=proposer)
    for mask, chunks, hits in zip(MASKS, QUERY, together, strict=True):
        (alone,) = by_best_pair(asked([mask], [chunks]), embed, matrix, depth=DEPTH, proposer=proposer)
        assert best(alone, matrix) == best(hits, matrix)


@pytest.mark.parametrize("library", LIBRARIES)
class TestFiles:
    def built(self, cache) -> list[Path]:
        return sorted(path for path in (cache / "ann-1").glob("*/*") if path.is_file())

    def test_the_same_vectors_give_the_same_file_which_is_opened_again(self, library, matrix, cache, monkeypatch):
        AnnIndex.of(matrix, library)
        (first,) = self.built(cache)
        content = first.read_bytes()
        monkeypatch.setenv("CTXBENCH_CACHE", str(cache / "again"))
        AnnIndex.of(matrix, library)
        (second,) = self.built(cache / "again")
        assert second.read_bytes() == content
        monkeypatch.setattr(vector_files, "_build", None)
        AnnIndex.of(matrix, library)

    def test_a_file_that_is_cut_short_is_built_again(self, library, matrix, cache):
        AnnIndex.of(matrix, library)
        (path,) = self.built(cache)
        content = path.read_bytes()
        path.write_bytes(content[:1000])
        AnnIndex.of(matrix, library)
        assert [other.read_bytes() for other in self.built(cache)] == [content]


@pytest.mark.parametrize("library", LIBRARIES)
def test_too_few_allowed_items_among_the_proposed_have_all_searched(library, matrix):
    """What is allowed is what is furthest: an index that proposes the nearest proposes none of it."""
    query = unit(1, 100)[0]
    order = np.argsort(-np.maximum.reduceat(matrix.vectors @ query, matrix.first))
    allowed = np.zeros(1_500, dtype=bool)
    allowed[order[750:]] = True
    (hits,) = by_best_pair(
        asked([allowed], [["100"]]), embed, matrix, depth=DEPTH, proposer=AnnIndex.of(matrix, library)
    )
    (exact,) = by_best_pair(asked([allowed], [["100"]]), embed, matrix, depth=DEPTH)
    assert best(hits, matrix) == best(exact, matrix)


def experiment(folder: Path, **index: str) -> Path:
    """1,500 generated tools and 30 queries; dense search alone and by sizes, and one that asks no index."""
    write_dataset(folder / "made", items=1_500, queries=30)
    pipeline = {"retrieve": {"dense": {"depth": 20}}, "refine": [{"first": {"n": 5}}]}
    content = {
        "name": "ann",
        "datasets": ["made"],
        "selectors": [{"name": "near", "pipeline": pipeline}, "bm25", {"selector": "random", "like": "near"}],
        "embedder": "hashing",
        "tokens": "chars/4",
        "index": index,
    }
    path = folder / "ann.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


@pytest.mark.parametrize("library", LIBRARIES)
class TestRun:
    @pytest.fixture
    def folder(self, library, tmp_path):
        runner.run(open_experiment(experiment(tmp_path, ann=library)), tmp_path / "run")
        return RunFolder(tmp_path / "run")

    def test_recall_is_measured_and_with_every_figure(self, library, folder, tmp_path):
        summary = summarise_run(folder)
        near, *others = summary.datasets[0].selectors
        recall = near.notes["index_recall"]
        assert (recall["index"], recall["k"], recall["n"]) == (library, 20, 30)
        assert 0 <= recall["low"] <= recall["value"] <= recall["high"] <= 1
        assert all("index_recall" not in selector.notes for selector in others)
        assert summary.manifest["selectors"]["near"]["index_recall"] == {"made": recall}
        assert library in summary.manifest["selectors"]["near"]["description"]["identities"]["index"]
        title = selector_titles(summary.manifest)["near"]
        assert f"{library}, recall@20" in title
        titled = with_titles(summary)
        assert with_titles(titled).manifest == titled.manifest
        assert comparison_table(titled, titled.datasets[0]).rows[0].selector == title
        figures = [line for line in figures_csv(summary).splitlines() if line.startswith("made,near,completeness")]
        assert all("recall@20" in line for line in figures)
        prepared = open_experiment(tmp_path / "ann.yaml")
        result = Results(tmp_path / "run", prepared.datasets, prepared.opened)
        assert result.to_frame().loc["near", "index_recall@20"] == recall["value"]
        assert result.per_query().attrs["index_recall"] == {"near": {"made": recall}}
        assert title in result.to_markdown(bold=None)
        assert title in result.to_latex(bold=None).replace("\\", "")
        assert "recall@20" in result.provenance["selectors"]["near"]

    def test_a_run_again_reuses_it_and_another_index_does_not(self, library, folder, tmp_path):
        path = experiment_again(tmp_path, ann=library)
        assert runner.run(open_experiment(path), tmp_path / "run").made == 0
        before = (tmp_path / "run" / "manifest.json").read_bytes()
        path = experiment_again(tmp_path)
        assert runner.run(open_experiment(path), tmp_path / "run").made == 2  # near, and what takes its sizes
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_bytes())
        assert "index_recall" not in manifest["selectors"]["near"]
        runner.run(open_experiment(experiment_again(tmp_path, ann=library)), tmp_path / "run")
        assert (tmp_path / "run" / "manifest.json").read_bytes() == before


def experiment_again(folder: Path, **index: str) -> Path:
    """The experiment with another index."""
    content = yaml.safe_load((folder / "ann.yaml").read_text("utf-8"))
    (folder / "ann.yaml").write_text(yaml.safe_dump({**content, "index": index}), "utf-8")
    return folder / "ann.yaml"


def test_a_library_that_is_not_installed_is_an_error_of_the_experiment(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(vector_files, "import_module", missing)
    with pytest.raises(InputError, match=r"\[ann\].* \(.*ann.yaml, line \d+\)"):
        open_experiment(experiment(tmp_path, ann="faiss"))


def test_an_unknown_library_is_an_error_of_the_experiment(tmp_path):
    with pytest.raises(InputError, match=r"index\.ann must be 'faiss' or 'usearch'"):
        open_experiment(experiment(tmp_path, ann="fais"))


def test_no_gpu_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ParameterError, match="leave device out"):
        IndexSearch(IndexFields(device="cuda"))


def test_exact_search_has_no_identity():
    assert [IndexSearch(IndexFields(device=device)).identity for device in ("", "cpu")] == ["", ""]


@pytest.mark.parametrize("library", ["faiss", "usearch"])
def test_a_new_process_can_embed_texts_behind_an_index(library):
    pytest.importorskip(library)
    code = f"from ctxbench.search.vector_files import ann_library; ann_library({library!r}); import onnxruntime"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
