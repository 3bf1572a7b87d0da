"""A cache that fails in whatever way: what is selected, and what it costs, stays as it was; nothing is a traceback."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from pathlib import Path

import pytest

from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.datasets import lookup
from ctxbench.datasets.files import read_dataset
from ctxbench.io.files import cache_dir
from ctxbench.labelling import pools
from ctxbench.model.requests import Batch
from ctxbench.search import tokens
from ctxbench.search.embedders import HashingEmbedder, Vectors, VectorStore
from ctxbench.search.minilm import file_sha256
from ctxbench.search.resources import LocalResources
from ctxbench.selectors.external import External
from ctxbench.selectors.protocol import RawAnswer
from tests.draws import draws

SMOKE = Path(__file__).parents[1] / "datasets" / "smoke"
KINDS = {"answers", "datasets", "labelling", "tokens-2.sqlite", "vectors", "verified"}
SELECTORS = ("semantic/spec", "bm25")


class Published:
    """An importer of one of the repository's datasets."""

    provides, version, install = ("published",), "1", "pip install published"

    def available(self):
        return True

    def load(self, name):
        whole = read_dataset(SMOKE)
        about = {key: value for key, value in whole.about.items() if key != "frozen"}
        return dataclasses.replace(whole, name=name, version=self.version, about=about)


class Endpoint:
    """A selector outside, which offers what a request's text names by its length."""

    def describe(self):
        return {"build": "v1"}

    def kept_under(self):
        return "v1"

    def ask(self, batch, rows):
        ids, asked = batch.catalog.ids, [batch.requests[row] for row in rows]
        items = [[{"id": ids[len(request.text) % len(ids)]}] for request in asked]
        return [RawAnswer(answer={"query": one.id, "items": found}) for one, found in zip(asked, items, strict=True)]

    def notes(self):
        return {}

    def forget_notes(self):
        pass

    def close(self):
        pass


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a cache, and an importer."""
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "weights").write_bytes(b"weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(folder / "cache"))
        patch.setattr(lookup, "importers", lambda: {"published": Published()})
        yield folder


def offers(answers):
    table = answers.candidates
    return [getattr(table, name).tobytes() for name in ("start", "item", "score", "chosen")]


def results(place):
    """Everything that comes out of the cache, or is made where it is not there."""
    dataset = lookup.open_dataset("published")
    embedder = HashingEmbedder()
    vectors = VectorStore(embedder.identity)
    resources = LocalResources(Vectors(embedder, vectors), tokens.open_counter("o200k", cache=cache_dir()))
    selectors = pools.open_selectors(SELECTORS, resources)
    batch = Batch.of(read_catalog("published"), [query.request for query in dataset.queries])
    endpoint = External(Endpoint(), name="external", cache=cache_dir() / "answers")
    out = {
        "dataset": (dataset.hash, dataset.card),
        "tokens": resources.tokens(batch.catalog).tolist(),
        "selections": [offers(selector.select(batch)) for selector in selectors.values()],
        "pool": repr(pools.make_pool(dataset, selectors, exposures={}).offers),  # scores that are NaN are not equal
        "answers": offers(endpoint.select(batch)),
        "weights": file_sha256(place / "weights"),
    }
    vectors.close()
    return out


@pytest.fixture(scope="module")
def filled(place):
    """A filled cache, as a folder to copy from, its files, and what comes out of it."""
    expected = results(place)
    assert results(place) == expected
    folder = Path(shutil.copytree(place / "cache", place / "filled"))

    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert {path.parts[0] for path in files} == KINDS
    return folder, files, expected


def restored(place, folder):
    shutil.rmtree(place / "cache", ignore_errors=True)
    shutil.copytree(folder, place / "cache")


def test_no_flipped_bit_changes_a_result(place, filled, caplog):
    folder, files, expected = filled
    dice = random.Random(18)
    said = 0
    trials = draws(100, 40)
    for trial in range(trials):
        restored(place, folder)
        name = files[trial % len(files)]
        path = place / "cache" / name
        data = bytearray(path.read_bytes())
        written = [at for at, byte in enumerate(data) if byte] if trial // len(files) % 2 else range(len(data))
        at, bit = dice.choice(written), dice.randrange(8)
        data[at] ^= 1 << bit
        path.write_bytes(data)
        caplog.clear()
        assert results(place) == expected, (trial, name, at, bit)
        said += bool(caplog.records)
    assert said >= trials / 4  # the others are in space that is not used, in a dataset, or make a key unknown


BROKEN = {
    "truncated": lambda path, data: path.write_bytes(data[: len(data) // 2]),
    "empty": lambda path, _: path.write_bytes(b""),
    "zeros": lambda path, data: path.write_bytes(bytes(len(data))),
    "zeros at the end": lambda path, data: path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2)),
    "junk": lambda path, _: path.write_bytes(random.Random(0).randbytes(5000)),
    "text": lambda path, _: path.write_bytes(b"{}\n\n[]\nnull\n"),
    "missing": lambda path, _: path.unlink(),
    "folder": lambda path, _: (path.unlink(), path.mkdir()),
    "unreadable link": lambda path, _: (path.unlink(), path.symlink_to(path.name)),
}


@pytest.mark.parametrize("how", BROKEN)
def test_no_broken_file_changes_a_result(place, filled, how):
    folder, files, expected = filled
    for name in files:
        restored(place, folder)
        path = place / "cache" / name
        BROKEN[how](path, path.read_bytes())
        assert results(place) == expected, name
        assert results(place) == expected, name  # from what was made again


def test_files_that_stand_under_each_others_names_change_no_result(place, filled):
    folder, files, expected = filled
    for kind in {path.parent for path in files}:
        alike = [place / "cache" / path for path in files if path.parent == kind]
        restored(place, folder)
        contents = [path.read_bytes() for path in alike]
        for path, data in zip(alike, contents[1:] + contents[:1], strict=True):
            path.write_bytes(data)
        assert results(place) == expected, kind


def test_a_damaged_cache_that_cannot_be_written_changes_no_result(place, filled, monkeypatch):
    folder, files, expected = filled
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    for name in files:
        if name.parts[0] == "datasets":
            continue  # is made again, or said not to be kept
        restored(place, folder)
        path = place / "cache" / name
        path.write_bytes(path.read_bytes()[::-1])
        assert results(place) == expected, name
