from __future__ import annotations

import io
import json
import multiprocessing
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.model.items import Catalog
from ctxbench.search import graph as graphs, graph as store
from ctxbench.search.graph import (
    CHUNKING,
    Graph,
    GraphSpec,
    check_graph,
    kept_graph,
    make_graph,
    read_graph,
    read_meta,
    write_graph,
)
from ctxbench.testing import mock_catalog, mock_resources

SPEC = GraphSpec(threshold=0.2, neighbours=3)
CATALOG = mock_catalog()
EMBEDDER = mock_resources().identity("embedder")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return make_graph(mock_catalog(), mock_resources(), SPEC)


def test_a_graph_is_read_as_it_was_written(graph, tmp_path):
    write_graph(tmp_path / "deep" / "graph.npz", graph)
    read = read_graph(tmp_path / "deep" / "graph.npz")
    for name in ("start", "item", "score", "own_chunk", "other_chunk", "prints"):
        assert np.array_equal(getattr(read, name), getattr(graph, name))
    assert (read.spec, read.catalog, read.embedder, read.chunking) == (SPEC, mock_catalog().hash, EMBEDDER, CHUNKING)


def test_an_empty_graph_is_kept_too(tmp_path):
    write_graph(tmp_path / "g", make_graph(Catalog([]), mock_resources(), SPEC))
    assert len(read_graph(tmp_path / "g")) == 0


def test_equal_graphs_give_equal_bytes(graph, tmp_path):
    write_graph(tmp_path / "one", graph)
    write_graph(tmp_path / "two", make_graph(mock_catalog(), mock_resources(), SPEC))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_whatever_is_damaged_is_said(graph, tmp_path):
    path = tmp_path / "g.npz"
    write_graph(path, graph)
    whole, meta = path.read_bytes(), read_meta(path)
    for place in range(len(whole) - 1000, len(whole)):  # the directory, with the flags and versions of each array
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with suppress(StorageError):
            read_graph(path)
    with np.load(io.BytesIO(whole)) as stored:
        arrays = dict(stored)
    lacking = {name: value for name, value in meta.items() if name != "heads"}
    for wrong in ({**meta, "threshold": "high"}, {**meta, "embedder": None}, lacking, [], 3):
        np.savez(path, **{**arrays, "meta": np.frombuffer(json.dumps(wrong).encode(), dtype=np.uint8)})
        with pytest.raises(StorageError, match="is damaged, or not a relationship graph"):
            check_graph(path, CATALOG, embedder=EMBEDDER, spec=SPEC)


def test_other_files_and_folders_are_said(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(StorageError, match="is damaged, or not a relationship graph; make one with `ctxbench graph"):
        read_graph(tmp_path / "text")
    with pytest.raises(StorageError, match="is a folder; expected a relationship graph"):
        read_graph(tmp_path)


def write_often(path: Path) -> None:
    graph = make_graph(mock_catalog(), mock_resources(), SPEC)
    for _ in range(15):
        write_graph(path, graph)


def test_several_processes_write_and_what_is_read_is_always_whole(graph, tmp_path):
    path = tmp_path / "graph.npz"
    write_graph(path, graph)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_often, args=(path,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(read_graph(path)) == len(graph)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert [left.name for left in tmp_path.iterdir()] == ["graph.npz"]


class TestCheck:
    @pytest.fixture(autouse=True)
    def written(self, graph, tmp_path):
        self.path = tmp_path / "graph.npz"
        write_graph(self.path, graph)

    def check(self, catalog: Catalog = CATALOG, embedder: str = EMBEDDER, **spec: object) -> None:
        check_graph(self.path, catalog, embedder=embedder, spec=replace(SPEC, **spec))

    def test_what_asks_for_as_much_or_less_is_taken(self):
        self.check()
        self.check(threshold=0.9, neighbours=1)

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"catalog": Catalog([])}, "its catalog is .*, expected"),
            ({"embedder": "another"}, "its embedder is .*, expected another"),
            ({"similarity": "mean"}, "its similarity is max, expected mean"),
            ({"heads": True}, "its heads is False, expected True"),
            ({"threshold": 0.1}, "its threshold is 0.2, expected at most 0.1"),
            ({"neighbours": 4}, "its neighbours is 3, expected at least 4"),
        ],
    )
    def test_what_does_not_fit_is_said(self, asked, message):
        with pytest.raises(ParameterError, match=message):
            self.check(**asked)

    def test_all_that_is_wrong_is_said_at_once(self):
        with pytest.raises(ParameterError, match=r"its catalog is .*; its embedder is .*; its threshold"):
            self.check(Catalog([]), "another", threshold=0.0)

    def test_another_chunking_does_not_fit(self, graph):
        write_graph(self.path, replace(graph, chunking="sentences"))
        with pytest.raises(ParameterError, match="its chunking is sentences"):
            self.check()

    def test_another_format_is_refused(self, graph, monkeypatch):
        monkeypatch.setattr(store, "FORMAT", 2)
        with pytest.raises(StorageError, match="format 1, expected 2; make it again"):
            self.check()

    def test_a_missing_file_is_said(self, tmp_path):
        with pytest.raises(StorageError, match="there is no relationship graph"):
            read_meta(tmp_path / "none")

    @pytest.mark.parametrize("damage", [b"", b"no graph", None])
    def test_a_damaged_file_is_said(self, damage):
        data = self.path.read_bytes()
        self.path.write_bytes(data[: len(data) // 2] if damage is None else damage)
        with pytest.raises(StorageError, match="is damaged, or not a relationship graph"):
            self.check()

    def test_lists_that_were_changed_are_found_by_their_checksum(self, graph, monkeypatch):
        monkeypatch.setattr(store, "_digest", lambda arrays: "another")
        write_graph(self.path, graph)
        monkeypatch.undo()
        read_meta(self.path)
        with pytest.raises(StorageError, match="its checksum is wrong"):
            read_graph(self.path)


class TestKept:
    def test_a_graph_is_made_once_for_a_catalog(self):
        resources = mock_resources()
        assert kept_graph(mock_catalog(), resources, SPEC) is kept_graph(mock_catalog(), resources, SPEC)

    def test_that_of_a_changed_catalog_is_made_from_the_last_and_equal_to_a_new_one(self, monkeypatch):
        resources = mock_resources()
        items = list(mock_catalog())
        changed = Catalog([*items[:8], replace(items[8], text="Another text."), *items[9:]])
        kept_graph(mock_catalog(), resources, SPEC)
        anew = make_graph(changed, mock_resources(), SPEC)
        monkeypatch.setattr(store, "build_graph", None)
        updated = kept_graph(changed, resources, SPEC)
        assert np.array_equal(updated.item, anew.item)
        assert np.array_equal(updated.score, anew.score)

    def test_another_setting_is_another_graph(self):
        resources = mock_resources()
        one = kept_graph(mock_catalog(), resources, SPEC)
        assert len(kept_graph(mock_catalog(), resources, replace(SPEC, threshold=0.9)).item) < len(one.item)

    def test_that_of_an_extended_catalog_is_made_from_the_one_before_and_only_reads_what_was_added(self, monkeypatch):
        resources, items = mock_resources(), list(mock_catalog())
        before = Catalog(items[:-2])
        kept_graph(before, resources, SPEC)
        kept_graph(Catalog([]), resources, SPEC)  # the last one made is another
        extended = before.extended(items[-2:])
        anew = make_graph(mock_catalog(), mock_resources(), SPEC)
        read = []
        real = graphs.item_prints
        monkeypatch.setattr(graphs, "item_prints", lambda added: read.append(len(added)) or real(added))
        monkeypatch.setattr(store, "build_graph", None)
        grown = kept_graph(extended, resources, SPEC)
        assert read == [2]
        assert grown.prints.tobytes() == anew.prints.tobytes()
        for name in ("start", "item", "score", "own_chunk", "other_chunk"):
            assert getattr(grown, name).tobytes() == getattr(anew, name).tobytes(), name
        assert grown.catalog == extended.hash

    def test_catalogs_that_differ_in_what_is_not_compared_share_a_graph(self):
        resources = mock_resources()
        other = Catalog(replace(item, priority=7) for item in mock_catalog())
        assert kept_graph(mock_catalog(), resources, SPEC) is kept_graph(other, resources, SPEC)
