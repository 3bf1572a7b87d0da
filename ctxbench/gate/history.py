"""The history of a baseline: each version that git keeps, with its figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.core.errors import ParameterError, StorageError, UserError, faults_of
from ctxbench.gate.baseline import AcceptedFigures, summarise_selector
from ctxbench.gate.baseline_layout import MANIFEST, VECTORS, accept_command, other_content
from ctxbench.gate.baseline_reader import read_baseline, restore_advice
from ctxbench.gate.gate_file import read_gate
from ctxbench.io.files import temporary_folder
from ctxbench.io.git import Commit, Repository

COMPLETENESS, TOKENS = parse_metric("completeness"), parse_metric("tokens")
FIGURES: tuple[Metric, ...] = (COMPLETENESS, TOKENS)
GONE = "the baseline was removed"
_GATES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastBaseline:
    """The baseline at one commit.

    Attributes:
        commit: which.
        worth: what it says of each selector on each dataset, in its order; with `FIGURES` as far as it has them.
        fault: why it says nothing; empty where it could be read.
    """

    commit: Commit
    worth: tuple[AcceptedFigures, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineHistory:
    """Baselines over time.

    Attributes:
        folder: of the baseline, as it was named.
        accepted: one a commit that changed it, oldest first; never empty.
        older: whether commits before these were left out, as they are beyond the limit.
        shallow: whether the clone lacks commits before these.
    """

    folder: Path
    accepted: tuple[PastBaseline, ...]
    older: bool = False
    shallow: bool = False

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The (dataset, selector) pairs of all of them, in the order in which they came."""
        return tuple(dict.fromkeys((figures.dataset, figures.selector) for at in self.accepted for figures in at.worth))


def baseline_of(path: Path) -> Path:
    """The folder of the baseline that a gate file names, or the folder itself.

    Raises:
        UserError: the gate file is missing or wrong.
    """
    named = path.is_file() or (path.suffix.lower() in _GATES and not path.is_dir())
    return read_gate(path).baseline if named else path


def read_history(
    folder: Path,
    *,
    limit: int | None = None,
    gate_path: Path = Path(),
    notify: Callable[[str, int, int], None] | None = None,
) -> BaselineHistory:
    """Read the baselines of a folder at every commit that changed it. The checkout is left as it is.

    Args:
        folder: of the baseline; it need not be there any more.
        limit: the newest so many commits, >= 1; None = all.
        gate_path: the gate file that names it; else the working directory. For the message where the folder is in no
            repository.
        notify: told how far it is.

    Raises:
        ParameterError: the limit is below 1, or the folder is one of something else.
        StorageError: git is not installed or refuses, the folder lies in no repository, or no commit has a baseline in
            it.
    """
    if limit is not None and limit < 1:
        raise ParameterError(f"the limit must be 1 commit or more, got {limit}")
    if content := other_content(folder):
        raise ParameterError(
            f"{folder} is {content}, no baseline; expected a gate file, or a folder that {accept_command()} made"
        )
    repository = Repository.around(folder)
    if repository is None:
        surrounding = Repository.around(gate_path)
        where = (
            "in no git repository"
            if surrounding is None
            else f"outside the git repository {surrounding.root}, and in no other"
        )
        raise StorageError(f"{folder} lies {where}; expected a baseline that is committed, since git keeps its history")
    commits = repository.commits(folder, limit=None if limit is None else limit + 1)
    older = limit is not None and len(commits) > limit
    try:
        with temporary_folder(Path(tempfile.gettempdir(), "ctxbench")) as temporary:
            accepted = tuple(_read(repository, folder, commits[1:] if older else commits, temporary, notify))
    except OSError as error:
        raise StorageError(f"no temporary folder can be made ({error}); set TMPDIR to where there is room") from error
    if not any(baseline.worth or baseline.fault != GONE for baseline in accepted):
        raise StorageError(f"no commit has a baseline in {folder}; make it with {accept_command()}, and commit it")
    return BaselineHistory(folder=folder, accepted=accepted, older=older, shallow=repository.is_shallow())


def _read(
    repository: Repository,
    folder: Path,
    commits: Sequence[Commit],
    temporary: Path,
    notify: Callable[[str, int, int], None] | None,
) -> Iterator[PastBaseline]:
    """Read the baseline of a folder at each commit, by way of a temporary folder."""
    cache: dict[
        tuple[tuple[str, str], ...], tuple[tuple[AcceptedFigures, ...], str]
    ] = {}  # what was taken back is read once
    for number, commit in enumerate(commits):
        if notify is not None:
            notify("reading baselines", number, len(commits))
        files = {name: digest for name, digest in repository.files(commit, folder).items() if name != VECTORS}
        key = tuple(files.items())
        if key not in cache:
            cache[key] = _worth_of(repository, folder, files, temporary / str(number))
        worth, fault = cache[key]
        yield PastBaseline(commit=commit, worth=worth, fault=fault)


def _worth_of(
    repository: Repository, folder: Path, files: Mapping[str, str], target: Path
) -> tuple[tuple[AcceptedFigures, ...], str]:
    """The figures of a baseline, and the reason where there are none."""
    if MANIFEST not in files:
        return (), GONE
    try:
        repository.write(files, target)
        return tuple(summarise_selector(snapshot, FIGURES) for snapshot in read_baseline(target)), ""
    except UserError as error:
        first, *rest = faults_of(error)
        message = str(first).replace(f"; {restore_advice()}", "").replace(str(target), str(folder))
        return (), f"{message}{f'; {len(rest)} more' if rest else ''}"
