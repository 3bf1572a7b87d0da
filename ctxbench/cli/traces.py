"""`ctxbench data import traces`: a dataset out of logs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.console import say
from ctxbench.core.errors import ParameterError

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
    from ctxbench.data.traces import importing
    from ctxbench.sources.catalogs import read_catalog

    importing.refuse_overwriting(out)
    items = read_catalog(catalog)
    source = importing.TraceSource(logs=tuple(logs), catalog=items, scopes=importing.scopes_of(dataset_folder(catalog)))
    redactor = importing.redactor_for(items, redact if isinstance(redact, Path) else None) if redact else None
    with progress() as shown:
        made = importing.import_traces(source, settings, redact=redactor, notify=shown)
        importing.write_import(made, out)
    next_step = f"ctxbench data label {out} --minutes {NEXT_MINUTES}"
    if as_json:
        print_json({"dataset": str(out), "hash": made.dataset.hash, **made.report.as_dict(), "next": next_step})
        return
    say(f"{out}: {made.report.lines()[0]}")
    for line in made.report.lines()[1:]:
        say(line)
    if made.dataset.unlabelled:
        say(f"Only wholly labelled queries are measured with. To label more: {next_step}")


def settings_for(out: Path, *, name: str | None, licence: str | None, history: int, all_offered: bool) -> TraceSettings:
    """The settings that options give; the dataset is called as the folder unless it has a name.

    Raises:
        ParameterError: the name is none for a dataset, or the history is negative.
    """
    from ctxbench.data.datasets.dataset import name_fault
    from ctxbench.data.traces.settings import TraceSettings

    chosen = name if name is not None else re.sub(r"[^A-Za-z0-9._-]+", "-", out.resolve().name).strip("-._") or "traces"
    fault = name_fault(chosen)
    if fault:
        raise ParameterError(f"{fault} (--name)")
    settings = TraceSettings(name=chosen, history=history, assume_full=all_offered)
    return settings if licence is None else replace(settings, licence=licence)


def redaction(patterns: Path | None, *, off: bool) -> bool | Path:
    """Whether texts are redacted, and with which own patterns.

    Raises:
        ParameterError: patterns are named and redaction is off.
    """
    if off and patterns is not None:
        raise ParameterError("--redact and --no-redact exclude each other; leave one out")
    return not off if patterns is None else patterns
