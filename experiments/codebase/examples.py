"""The two worked examples of document 003 in a real repository: their files are planted in a clone, then asked for.

    python experiments/codebase/examples.py FOLDER ...

For each repository and both texts of the files (examples/tokens, examples/sessions) it prints the places of what the
document lists, and that of the first file that is none of the planted ones. Ends with 1 where one of the listed files
is not among the first eight, or is below such a file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import ctxbench
from ctxbench.cli.common import run_script
from ctxbench.io.console import say
from ctxbench.io.errors import ParameterError

TEXTS = Path(__file__).with_name("examples")
EXAMPLES = {  # the document's "Final Context"
    "Implement authentication": (
        *("src/auth/mod.rs", "src/models/user.rs", "src/middleware/auth.rs", "src/database/user_repo.rs"),
        *("src/routes/mod.rs", "src/config.rs", "src/main.rs", "tests/auth_tests.rs"),
    ),
    "Fix the bug in UserService.find_by_email": (
        *("src/services/user_service.rs", "src/models/user.rs", "tests/user_service_test.rs"),
    ),
}
MOST = 8


def planted(repository: Path, texts: Path, folder: Path) -> list[str]:
    """Clone a repository to a folder and commit the texts in it; their paths."""
    who = ("-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgSign=false")
    subprocess.run(["git", "clone", "--quiet", str(repository), str(folder)], check=True)  # noqa: S603, S607
    shutil.copytree(texts, folder, dirs_exist_ok=True)
    for words in (("add", "--all"), ("commit", "--quiet", "--message", "Sell to users")):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)  # noqa: S603, S607
    return [path.relative_to(texts).as_posix() for path in texts.rglob("*.rs")]


def places(offered: Sequence[str], listed: Sequence[str], paths: Sequence[str]) -> tuple[list[int], int]:
    """The places of the listed files, from 1, and that of the first file that is not planted; 0 = not offered."""
    others = (place for place, name in enumerate(offered, 1) if name not in paths)
    return [offered.index(name) + 1 if name in offered else 0 for name in listed], next(others, 0)


def answers(repository: Path) -> Iterator[bool]:
    """Plant, ask and print; whether each answer is the document's."""
    for texts in sorted(TEXTS.iterdir()):
        with tempfile.TemporaryDirectory() as folder:
            paths = planted(repository, texts, Path(folder) / "tree")
            catalog = ctxbench.catalog(Path(folder) / "tree")
            for request, listed in EXAMPLES.items():
                chosen = ctxbench.select(request, catalog, selector="codebase", embedder="hashing").explanation.chosen
                offered = [candidate.item.path for candidate in chosen]
                found, other = places(offered, listed, paths)
                say(f"{repository.name}, {texts.name}: {request!r}: {found}; the first other file: {other or 'none'}")
                yield all(0 < place <= MOST and (not other or place < other) for place in found)


def main() -> int:
    """Ask in all repositories that the command line names."""
    if not (folders := [Path(word) for word in sys.argv[1:]]):
        raise ParameterError("name one or more folders of git repositories")
    as_listed = [answer for folder in folders for answer in answers(folder.absolute())]
    return 0 if all(as_listed) else 1


if __name__ == "__main__":
    run_script(main)
