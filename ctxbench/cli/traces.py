"""`ctxbench data import traces`: a dataset out of logs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.core.errors import ParameterError
from ctxbench.io.console import say

if TYPE_CHECKING:
    from ctxbench.data.traces.settings import TraceSettings

NEXT_MINUTES = 20


def import_traces(
    logs: list[Path],
    *,
    catalog: str,
    out: Path,
    settings: TraceSettings,
    redact: bool | Path,
    as_json: bool,
) -> None:
    """Make a dataset of logs, write it, and print what it holds and what to do next.

    Args:
        logs: files of turns or spans.
        catalog: a file of items, a dataset's folder, or its name.
        out: the folder to write.
        settings: see there.
        redact: whether texts are redacted; a path names a file of own patterns.
        as_json: print the report as JSON.

    Raises:
        StorageError, InputError, ParameterError: a log, the catalog or the folder is not what it should be.
    """
    from ctxbench.data.datasets.store import dataset_folder
    from ctxbench.data.traces.importer import import_into, refuse_overwriting, scopes_of
    from ctxbench.sources.catalogs import read_catalog

    refuse_overwriting(out)  # before a catalog is read, which may take long
    items, scopes = read_catalog(catalog), scopes_of(dataset_folder(catalog))
    patterns = redact if isinstance(redact, Path) else None
    with progress() as shown:
        made = import_into(
            out, tuple(logs), items, settings, scopes=scopes, redact=bool(redact), patterns=patterns, notify=shown
        )
    next_step = shlex.join(["ctxbench", "data", "label", str(out), "--minutes", str(NEXT_MINUTES)])
    if as_json:
        print_json({"dataset": str(out), "hash": made.dataset.hash, **made.report.as_dict(), "next": next_step})
        return
    say(f"{out}: {made.report.lines()[0]}")
    for line in made.report.lines()[1:]:
        say(line)
    if made.dataset.unlabelled:
        say(f"Only wholly labelled queries are measured with. To label more: {next_step}")


def redaction(patterns: Path | None, *, off: bool) -> bool | Path:
    """Whether texts are redacted, and with which own patterns.

    Raises:
        ParameterError: patterns are named and redaction is off.
    """
    if off and patterns is not None:
        raise ParameterError("--redact and --no-redact exclude each other; leave one out")
    return not off if patterns is None else patterns
