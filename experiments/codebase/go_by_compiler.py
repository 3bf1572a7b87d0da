"""Which files of Go import which, by Go's own tools, compared with `import_edges`.

    python experiments/codebase/go_by_compiler.py FOLDER

`go list` says of each package of each module in FOLDER where it lies and which files it is made of, and Go's parser
what each file imports: the file leads to all files of that package. Files that this platform leaves out are in neither,
and what comes from other modules is no edge, so that these need not be there. Nothing of FOLDER is run.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from edges_compared import Edge, found_edges, tell

from ctxbench.cli.common import run_script
from ctxbench.io.errors import StorageError

_LONGEST = 900  # seconds
_KINDS = ("GoFiles", "CgoFiles")
_TESTS = ("TestGoFiles", "XTestGoFiles")
_PROGRAM = """
package main

import ("bufio"; "fmt"; "go/parser"; "go/token"; "os"; "strconv")

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		file, err := parser.ParseFile(token.NewFileSet(), lines.Text(), nil, parser.ImportsOnly)
		if err != nil { continue }
		for _, one := range file.Imports {
			path, _ := strconv.Unquote(one.Path.Value)
			fmt.Printf("%s\\t%s\\n", lines.Text(), path)
		}
	}
}
"""


def compiled(folder: Path) -> tuple[set[Edge], set[str]]:
    """The edges between files of a folder, and all files that Go read.

    Raises:
        StorageError: there is no Go, or it fails.
    """
    manifests = sorted(folder.rglob("go.mod"))
    if not manifests:
        raise StorageError(f"{folder} has no module of Go: no go.mod")
    packages = [
        package
        for manifest in manifests
        for package in _objects(_asked(["go", "list", "-e", "-json", "./..."], manifest.parent))
    ]
    made_of: dict[str, list[str]] = {}
    files: list[str] = []
    for package in packages:
        here = [str(Path(package["Dir"]) / name) for kind in _KINDS for name in package.get(kind, ())]
        made_of[package["ImportPath"]] = here
        files += here
        files += [str(Path(package["Dir"]) / name) for kind in _TESTS for name in package.get(kind, ())]
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "imports.go"
        program.write_text(_PROGRAM, "utf-8")
        told = _asked(["go", "run", str(program)], Path(temporary), "".join(f"{one}\n" for one in files))
    found = [line.split("\t") for line in told.splitlines()]
    edges = {(one, other) for one, path in found for other in made_of.get(path, ()) if one != other}

    def named(path: str) -> str:
        return Path(path).relative_to(folder).as_posix()

    return {(named(one), named(other)) for one, other in edges}, set(map(named, files))


def _asked(command: list[str], folder: Path, given: str = "") -> str:
    """What a command of Go prints; it fetches nothing."""
    env = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOWORK": "off"}
    try:
        done = subprocess.run(  # noqa: S603 - Go's own
            command, cwd=folder, env=env, input=given, check=True, capture_output=True, text=True, timeout=_LONGEST
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StorageError(f"Go cannot read {folder}: {getattr(error, 'stderr', '') or error}") from error
    return done.stdout


def _objects(text: str) -> list[dict[str, Any]]:
    """JSON objects that stand one behind the other."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        one, end = decoder.raw_decode(text)
        found.append(one)
        text = text[end:]
    return found


def compared(folder: Path) -> tuple[set[Edge], set[Edge]]:
    """The edges by Go, and ours between the same files."""
    expected, files = compiled(folder)
    return expected, found_edges(folder, "*.go", "go.mod", "go.work", files=files)


if __name__ == "__main__":
    run_script(lambda: tell(compared))
