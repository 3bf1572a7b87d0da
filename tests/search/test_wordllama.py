"""WordLlama from the files of its package, held against the package's own code."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from ctxbench.search import embedding_models as module
from ctxbench.search.embedders import ModelError, open_embedder
from ctxbench.search.embedding_models import WordLlama

TEXTS = ["", " ", "deploy the service", "Grüße, \U0001f600!", "half \ud83d", "NUL \x00", "<s> <pad> </s>", "x" * 9000]
installed = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="needs the extra wordllama")

# The package sets up logging when it is imported, so it has a process of its own. Its `load` looks for the tokeniser in
# a folder that its wheel does not have, and would fetch it.
THEIRS = """
import json, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer
import wordllama
home = Path(wordllama.__file__).parent
table = load_file(home / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
tokenizer = Tokenizer.from_file(str(home / "tokenizers" / "l2_supercat_tokenizer_config.json"))
model = wordllama.WordLlamaInference(table, tokenizer)
np.save(sys.argv[1], model.embed(json.load(sys.stdin), norm=True, batch_size=1))
"""


@pytest.fixture(scope="module")
def embedder():
    return WordLlama()


@installed
def test_vectors_are_those_of_the_package(embedder, desk_texts, tmp_path):
    texts = [*desk_texts[:60], "Grüße, \U0001f600!", "NUL \x00", "<s> <unk> </s>", "word " * 3000]
    told = subprocess.run(
        [sys.executable, "-c", THEIRS, str(tmp_path / "theirs.npy")],
        check=False,
        input=json.dumps(texts),
        text=True,
        capture_output=True,
        timeout=120,
    )
    if "ModuleNotFoundError" in told.stderr:
        pytest.skip("what the package needs beside its files is not installed")
    assert told.returncode == 0, told.stderr
    np.testing.assert_allclose(embedder.embed(texts), np.load(tmp_path / "theirs.npy"), atol=2e-6)


@installed
def test_rows_are_of_unit_length_whatever_the_text(embedder):
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 256)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[1])  # an empty text is a blank


@installed
def test_shared_meaning_brings_texts_together(embedder):
    vectors = embedder.embed(["deploy the service", "roll out a new release to production", "cats eat fish"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.05


@installed
def test_neighbours_and_order_do_not_matter(embedder, desk_texts):
    texts = [*TEXTS, *desk_texts]
    together = embedder.embed(texts)
    assert embedder.embed(texts[::-1]).tobytes() == together[::-1].tobytes()
    for position in (0, 5, len(texts) - 1):
        assert embedder.embed([texts[position]]).tobytes() == together[position].tobytes()


@installed
def test_a_long_text_is_taken_in_blocks(embedder, monkeypatch):
    text = "a long text of many words " * 50
    whole = embedder.embed([text])
    monkeypatch.setattr(module, "_BLOCK", 7)
    np.testing.assert_allclose(embedder.embed([text]), whole, atol=1e-6)


@installed
def test_on_done_reports_every_row(embedder, desk_texts, monkeypatch):
    monkeypatch.setattr(module, "_WINDOW", 3)
    rows = {}
    vectors = embedder.embed(desk_texts[:8], on_done=rows.__setitem__)
    np.testing.assert_array_equal(np.array([rows[position] for position in range(8)]), vectors)


@installed
def test_the_identity_is_known_without_loading_anything(desk_texts):
    script = (
        "import sys\n"
        "from ctxbench.search.embedders import open_embedder\n"
        "made = open_embedder('wordllama')\n"
        "print(made.identity.key)\n"
        "print('tokenizers' in sys.modules)\n"
        "made.embed(['a'])\n"
        "print('wordllama' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    key, loaded, package = done.stdout.split()
    assert key == WordLlama().identity.key
    assert (loaded, package) == ("False", "False")


@installed
def test_the_identity_names_the_model(embedder):
    identity = embedder.identity
    assert (identity.model, identity.dimensions) == ("dleemiller/word-llama-l2-supercat", 256)
    assert (identity.backend, identity.quantisation) == ("ctxbench-mean1", "float16")


def test_no_texts_load_nothing():
    assert WordLlama().embed([]).shape == (0, 256)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name with two files that a test writes."""
    folder = tmp_path / "site" / "wordllama"
    for name in ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}")
    (folder / "__init__.py").write_text("raise SystemExit('it is not imported')")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def test_other_files_are_another_identity(package):
    before = WordLlama().identity
    assert WordLlama().identity == before
    (package / "tokenizers" / "l2_supercat_tokenizer_config.json").write_bytes(b"{} ")
    assert WordLlama().identity.revision != before.revision


def test_a_package_without_the_files(package):
    (package / "weights" / "l2_supercat_256.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no weights/l2_supercat_256\.safetensors in .*--force-reinstall"):
        _ = WordLlama().identity


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"])
def test_a_damaged_table(package, data):
    (package / "weights" / "l2_supercat_256.safetensors").write_bytes(data)
    with pytest.raises(ModelError, match="not a table of F16 vectors of 256 numbers; install it again"):
        WordLlama().embed(["a"])


def table(shape, dtype="F16"):
    data = b"\0" * (2 * int(np.prod(shape)))
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}
    header = json.dumps({"embedding.weight": entry}).encode()
    return len(header).to_bytes(8, "little") + header + data


@pytest.mark.parametrize("data", [table([4, 128]), table([4, 256], "BF16")])
def test_another_table(package, data):
    (package / "weights" / "l2_supercat_256.safetensors").write_bytes(data)
    with pytest.raises(ModelError, match="not a table of F16 vectors of 256 numbers"):
        WordLlama().embed(["a"])


def test_a_damaged_tokeniser(package):
    (package / "weights" / "l2_supercat_256.safetensors").write_bytes(table([4, 256]))
    with pytest.raises(ModelError, match="cannot be read as a tokeniser"):
        WordLlama().embed(["a"])


def test_pieces_that_cancel_out_are_the_first_axis():
    rows = np.array([[1, 2], [-1, -2]], dtype=np.float32)
    np.testing.assert_array_equal(module._mean(rows, [0, 1]), [1, 0])
    np.testing.assert_allclose(module._mean(rows, [0, 0]), np.array([1, 2]) / 5**0.5, rtol=1e-6)
    np.testing.assert_array_equal(module._mean(rows, [7]), module._mean(rows, [1]))  # beyond the table: its last row


def test_the_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (lambda made: made.identity, lambda made: made.embed(["a"])):
        with pytest.raises(ModelError, match=r'needs the package wordllama.*pip install .*\[wordllama\]"'):
            ask(open_embedder("wordllama"))


@installed
def test_a_file_that_cannot_be_read(monkeypatch):
    def locked(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("ctxbench.search.minilm.file_sha256", locked)
    with pytest.raises(ModelError, match="cannot be read: Permission denied"):
        _ = WordLlama().identity
