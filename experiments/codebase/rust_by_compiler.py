"""Which files of Rust import which, by the compiler, compared with `import_edges`.

    python experiments/codebase/rust_by_compiler.py FOLDER [words for `cargo check`]

FOLDER is a workspace, or a package, whose dependencies cargo finds. cargo checks all its targets, and beside each check
rustc prints its own syntax tree (`-Zunpretty=hir-tree`), in which every name on a path is resolved: a path leads from
its file to that of the last module on it. Code that this platform and the features leave out is not in it, nor are
paths that macros write. cargo runs build scripts and macros of the folder: use it on what you trust.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edges_compared import Edge, found_edges, tell

from ctxbench.cli.common import run_script
from ctxbench.io.errors import StorageError

_LONGEST = 900  # seconds
_SPAN = re.compile(r"\s*span: (.+?):\d+:\d+: .*\(#0\)")  # #0: written there, not by a macro
_FILE = re.compile(r"\s*inner_span: (.+?):\d+:\d+: ")
_OWNER = re.compile(r"DefId\(0:\d+ ~ ([^)]*)\) => OwnerNodes")
_MODULE = re.compile(r"\s*DefId\(\d+:\d+ ~ (.*)\),")
_PATH, _SEGMENT = re.compile(r"(?:.*[ (])?Path \{"), "PathSegment {"
# each check of a file of the workspace comes here: as cargo wants it, and once more for the tree
_WRAPPER = """#!/bin/sh
"$@" || exit $?
case "$*" in
  *"--crate-name ___"*) ;;  # cargo asks about the compiler
  *--crate-name*) RUSTC_BOOTSTRAP=1 "$@" -Zunpretty=hir-tree -o "$TREES/$$.hir" --cap-lints allow >&2 ;;
esac
"""


def compiled(folder: Path, *words: str) -> tuple[set[Edge], set[str]]:
    """The edges between files of a workspace, and all files that the compiler read.

    Args:
        folder: of the workspace or package.
        words: of `cargo check`; without any all targets of all packages.

    Raises:
        StorageError: cargo is not there, or cannot check the folder.
    """
    with tempfile.TemporaryDirectory() as temporary:
        wrapper = Path(temporary) / "rustc"
        wrapper.write_text(_WRAPPER)
        wrapper.chmod(0o755)
        own = {"RUSTC_WORKSPACE_WRAPPER": str(wrapper), "TREES": temporary, "CARGO_TARGET_DIR": f"{temporary}/target"}
        command = ["cargo", "check", "--quiet", *(words or ("--workspace", "--all-targets"))]
        try:
            subprocess.run(  # noqa: S603 - the folder is said to be trusted
                command,
                cwd=folder,
                env={**os.environ, **own},
                check=True,
                capture_output=True,
                text=True,
                timeout=_LONGEST,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise StorageError(f"cargo cannot check {folder}: {getattr(error, 'stderr', '') or error}") from error
        files: dict[str, str] = {}
        found: list[tuple[str, str]] = []
        for path in sorted(Path(temporary).glob("*.hir")):
            _read(path, files, found)
    return {(file, files[module]) for file, module in found if files.get(module, file) != file}, set(files.values())


def _read(path: Path, files: dict[str, str], found: list[tuple[str, str]]) -> None:
    """Note the file of each module, by its name in the compiler, and (file, the last module on a path)."""
    owner = declared = ""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            word = line.strip()
            if opened := _OWNER.match(line):
                owner, declared = opened[1], ""
            elif word.startswith(("kind: Mod(", "node: Crate(")):
                declared = owner
            elif word == "kind: ExternCrate(":
                next(lines)  # whether it is renamed
                declared = next(lines).strip(' ",\n').partition("#")[0]
            elif declared and (inner := _FILE.match(line)):
                files[owner] = inner[1]
                files.setdefault(owner.partition("[")[0], inner[1])  # of a crate, as `extern crate` names it
            elif declared and (span := _SPAN.match(line)):
                found.append((span[1], declared))
                declared = ""
            elif _PATH.fullmatch(word):
                found += _paths(_indent(line), lines)


def _paths(indent: int, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """(file, last module) of a path that begins on the line before, and of those in its arguments."""
    file = module = whole = ""
    segment = -1
    resolved = 0  # lines of `Def(Mod, DefId(...))` that were read
    for line in lines:
        depth, word = _indent(line), line.strip()
        if depth == indent and word.startswith("}"):
            break
        if _PATH.fullmatch(word):
            yield from _paths(depth, lines)
        elif word == _SEGMENT:
            segment = depth
        elif depth == indent + 4 and (span := _SPAN.match(line)):
            file = span[1]
        elif word in ("res: Def(", "Def(") and depth <= max(segment + 4, indent + 12):
            resolved = 1
        elif resolved == 1:
            resolved = 2 if word == "Mod," else 0
        elif resolved == 2:
            resolved, name = 0, named[1] if (named := _MODULE.match(line)) else ""
            module, whole = name, whole or (name if segment < 0 else "")
    if file and module:
        yield file, whole or module


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def compared(folder: Path, *words: str) -> tuple[set[Edge], set[Edge]]:
    """The edges by the compiler, and ours between the same files."""
    expected, files = compiled(folder, *words)
    return expected, found_edges(folder, "*.rs", "Cargo.toml", files=files)


if __name__ == "__main__":
    run_script(lambda: tell(compared))
