"""Asks the selectors of a gate file, with the vectors and token counts of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ctxbench.bench.prepared import prepare
from ctxbench.bench.progress_listener import Notify, Progress
from ctxbench.core.errors import Fault
from ctxbench.gate.edited_dataset import open_edited
from ctxbench.gate.gate_file import GateFile
from ctxbench.gate.reused_answers import GateAnswers, inputs_of
from ctxbench.gate.snapshot_sources import take
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.gate.stored_vectors import baseline_counts, gate_resources


def ask(
    file: GateFile,
    *,
    faults: Sequence[Fault] = (),
    bases: Sequence[SelectorSnapshot] | None = None,
    notify: Notify,
    progress: Progress,
) -> GateAnswers:
    """Ask every selector on every dataset.

    Args:
        file: what is asked.
        faults: what is wrong in it already, to be reported with the rest.
        bases: the snapshots of its baseline, whose labels, vectors and token counts are used; None = a baseline is to
            be written: datasets must be valid, and nothing is taken from the baseline so far.
        notify: told what takes a moment.
        progress: told about every slice of queries.

    Raises:
        InputError: anything is wrong in the gate file or in what it names: all faults, with their lines.
        UserError: a selector of ours fails, or vectors of the baseline are damaged.
    """
    opening = partial(open_edited, bases=bases or ())
    counting = {} if bases is None else {"counting": baseline_counts(bases)}
    before = [] if bases is not None else _input_hashes(file)
    prepared = prepare(file.experiment, faults=faults, notify=notify, opening=opening, **counting)
    told = partial(progress, "embedding texts")
    resources = gate_resources(prepared, file.baseline, accepting=bases is None, progress=told)
    snapshots = take(prepared, repeats=file.settings.repeats, resources=resources, progress=progress)
    if bases is None:
        hashes = zip(prepared.datasets, before, _input_hashes(file), strict=True)
        inputs = {name: now if now == old else "" for name, old, now in hashes}  # empty for files written to meanwhile
        snapshots = [replace(one, inputs=inputs[one.dataset]) for one in snapshots]
    return GateAnswers(snapshots, prepared.references, resources)


def _input_hashes(file: GateFile) -> list[str]:
    return [inputs_of(file.experiment, dataset) for dataset in file.experiment.datasets]
