"""The files of a configuration's servers, with digests that show whether they changed since a capture."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.io.json_files import dump_json
from ctxbench.sources.absent_servers import read_card
from ctxbench.sources.catalog_snapshots import CAPTURE, SERVER
from ctxbench.sources.imported_files import imported_files
from ctxbench.sources.mcp.server_config import ServerEntry, server_entries

_INSTALLED = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pycache__"})
_ENTRY_POINTS = ("__main__.py", "index.js", "index.mjs", "index.cjs", "index.ts")
_LARGEST = 20_000_000  # bytes of a file that is read; of a larger one, such as a database, the size is its digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedServer:
    """A server that was not asked in this check: its tools are as captured.

    Attributes:
        name: its key in the configuration.
        captured: when it was captured, as ISO 8601; empty where the snapshot does not say.
        changed: its files that differ from those of the capture, relative to the configuration's project; the
            configuration itself where its command or address differs.
        verified: whether the snapshot says which files it was captured from. It cannot for a server elsewhere.
        absent: whether the snapshot holds nothing of it, so that none of its tools were checked.
        unverified: its files, where the snapshot says nothing of them: it is of an earlier ctxbench, or was edited.
        error: why it did not start or answer; empty where nobody asked.
    """

    name: str
    captured: str = ""
    changed: tuple[str, ...] = ()
    verified: bool = False
    absent: bool = False
    unverified: tuple[str, ...] = ()
    error: str = ""

    @property
    def outdated(self) -> bool:
        """Whether its tools may differ from those captured.

        Its files changed or may have changed, or it was asked and did not answer.
        """
        return bool(self.changed or self.unverified or self.error)


def server_digests(config: Path) -> dict[str, dict[str, Any]]:
    """The digests of each enabled server for a snapshot: of its `entry`, and of its `files` by name, if any.

    Files are those in the repository that its command names, and those that they import. Names are relative to the
    folder that the configuration is for. Ends of lines do not count, nor does what is secret in the entry.

    Raises:
        UserError: the configuration is missing or faulty.
    """
    digests: dict[str, dict[str, Any]] = {}
    for name, entry in server_entries(config).items():
        files = {_relative(path, entry.workspace): _digest(path) for path in server_files(entry)}
        digests[name] = {"entry": hashlib.sha256(dump_json(entry.launch).encode("utf-8")).hexdigest()}
        if files:
            digests[name]["files"] = files
    return digests


def server_files(entry: ServerEntry) -> list[Path]:
    """The files in the repository that the command of a server names, and those that they import; sorted."""
    root = next(
        (folder for folder in (entry.workspace, *entry.workspace.parents) if (folder / ".git").exists()),
        entry.workspace,
    )
    named = list(dict.fromkeys(path for path in _named_files(entry.words, entry.cwd) if _is_own(path, root)))
    imported = imported_files(named, None, entry.cwd) if named else set()
    return sorted({*named, *(path for path in imported if _is_own(path, root))})


def captured_servers(config: Path, snapshot: Path) -> list[CapturedServer]:
    """The enabled servers of a configuration, and their changes since a snapshot; none without it.

    Raises:
        UserError: the configuration is missing or faulty, or the snapshot cannot be read.
    """
    if not (snapshot / CAPTURE).is_file():
        return []
    card, parts = read_card(snapshot / CAPTURE)
    captured = {
        part.get("name"): part for part in parts if (part.get("kind"), part.get("state")) == (SERVER, "captured")
    }
    return [
        _compare(name, captured[name], digests, card=card, config=config)
        if name in captured
        else CapturedServer(name=name, absent=True, unverified=tuple(sorted(digests.get("files", ()))))
        for name, digests in server_digests(config).items()
    ]


def _compare(
    name: str, part: Mapping[str, Any], current: Mapping[str, Any], *, card: Mapping[str, Any], config: Path
) -> CapturedServer:
    was = part.get("files")
    before: Mapping[str, Any] = was if isinstance(was, Mapping) else {}
    after = current.get("files", {})
    has_digests = "entry" in part
    changed = [file for file in sorted({*before, *after}) if before.get(file) != after.get(file)] if has_digests else []
    if has_digests and part["entry"] != current["entry"]:
        changed.append(config.name)
    return CapturedServer(
        name=name,
        captured=str(part.get("captured") or card.get("captured", "")),
        changed=tuple(changed),
        verified=has_digests and bool(before),
        unverified=() if has_digests else tuple(sorted(after)),
    )


def _named_files(words: Sequence[str], cwd: Path) -> Iterator[Path]:
    """The files that words of a command name, relative to where it runs or to a folder that it names."""
    arguments = [word.partition("=")[2] if word.startswith("-") and "=" in word else word for word in words]
    folders = [cwd, *(path for word in arguments if (path := cwd / word).is_dir())]
    for before, word in zip(("", *words), arguments, strict=False):
        if not word or "\0" in word:
            continue
        yield from (path for folder in folders if (path := folder / word).is_file())
        if before == "-m":
            module = Path(*word.split("."))
            names = (f"{module}.py", module / "__init__.py", module / "__main__.py")
            yield from (path for folder in folders for name in names if (path := folder / name).is_file())
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    if script and (cwd / script).is_dir():
        yield from (path for name in _ENTRY_POINTS if (path := cwd / script / name).is_file())


def _is_own(path: Path, root: Path) -> bool:
    """Whether a file is in a folder, links followed, and not in an installed package there."""
    real, top = path.resolve(), root.resolve()
    return real.is_relative_to(top) and _INSTALLED.isdisjoint(real.relative_to(top).parts)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _digest(path: Path) -> str:
    """The SHA-256 of a file with the line ends of Unix, so that a checkout on Windows has the same."""
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            return f"{size} bytes"
        return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
