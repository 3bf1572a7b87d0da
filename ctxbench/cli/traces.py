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
    from ctxbench.data.traces.importer import TraceSettings

NEXT_MINUTES = 20


def import_traces(
    logs: list[Path],
    *,
    catalog: str,
    out: Path,
    settings: TraceSettings,
    renames: Path | None = None,
    redact: bool | Path,
    as_json: bool,
) -> None:
    """Make a dataset of logs, write it, and print what it holds and what to do next.

    What the catalog means for the labels is said on standard error before a log is read.

    Args:
        logs: files of turns or spans.
        catalog: a file of items, a dataset's folder, or its name; or an agent file, whose items the dataset then
            reads anew each time.
        out: the folder to write.
        settings: see there.
        renames: a file of ids that the logs have, old to new.
        redact: whether texts are redacted; a path names a file of own patterns.
        as_json: print the report as JSON.

    Raises:
        StorageError, InputError, ParameterError: a log, the catalog or the folder is not what it should be.
    """
    from ctxbench.data.curation.renames import read_renames
    from ctxbench.data.datasets.layout import write_known_items
    from ctxbench.data.datasets.lookup import dataset_folder
    from ctxbench.data.datasets.writer import write_dataset
    from ctxbench.data.traces.import_report import kind_lines
    from ctxbench.data.traces.importer import TraceSource, import_into, refuse_overwriting, scopes_of
    from ctxbench.sources.agent_file import is_agent_file, open_catalog

    refuse_overwriting(out)  # before a catalog is read, which may take long
    items, scopes = open_catalog(catalog), scopes_of(dataset_folder(catalog))
    if all(log.is_file() for log in logs):  # else nothing will be read
        say(*kind_lines(items), err=True)
    patterns = redact if isinstance(redact, Path) else None
    with progress() as bar:
        renamed = {} if renames is None else read_renames(renames)
        source = TraceSource(logs=tuple(logs), catalog=items, scopes=scopes, renames=renamed)
        imported = import_into(out, source, settings, redact=bool(redact), patterns=patterns, progress=bar)
    if is_agent_file(catalog):
        write_dataset(imported.dataset.of_agent(Path(catalog)), out)
        write_known_items(out, items.ids)
    next_step = shlex.join(["ctxbench", "data", "label", str(out), "--minutes", str(NEXT_MINUTES)])
    if as_json:
        print_json({"dataset": str(out), "hash": imported.dataset.hash, **imported.report.as_dict(), "next": next_step})
        return
    lines = imported.report.lines()
    if imported.report.is_labelled:
        lines[0] = f"{out}: {lines[0]}"
    for line in lines:
        say(line)
    if imported.dataset.unlabelled:
        say(f"Only wholly labelled queries are measured with. To label more: {next_step}")


def redaction(patterns: Path | None, *, off: bool) -> bool | Path:
    """Whether texts are redacted, and with which own patterns.

    Raises:
        ParameterError: patterns are named and redaction is off.
    """
    if off and patterns is not None:
        raise ParameterError("--redact and --no-redact exclude each other; leave one out")
    return not off if patterns is None else patterns
