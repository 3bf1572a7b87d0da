"""The gate: compares what selectors answer now with a baseline, or accepts that as the baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.bench.progress_listener import Notify, Progress, nothing_said, silent
from ctxbench.core.errors import InputError, ParameterError
from ctxbench.data.datasets.changed_source import changed_sources
from ctxbench.data.datasets.layout import agent_of
from ctxbench.data.datasets.lookup import user_folder
from ctxbench.gate.baseline_layout import MANIFEST, VECTORS, gate_file_in_messages
from ctxbench.gate.baseline_reader import accepted_settings, read_baseline, read_manifest
from ctxbench.gate.cause_groups import with_prices
from ctxbench.gate.check_settings import CheckSettings, Pin
from ctxbench.gate.checks import check, pair_snapshots
from ctxbench.gate.gate_file import GateFile, examine_gate
from ctxbench.gate.model import Check, Loosened
from ctxbench.gate.pins import pin_failures, unknown_pins
from ctxbench.gate.replaced_baseline import find_replacement, replaced_by_accepting
from ctxbench.gate.reused_answers import GateAnswers, reuse_answers, with_unasked
from ctxbench.gate.snapshots import ItemFact, SelectorSnapshot, failures
from ctxbench.gate.strictness import loosened_pins, lost_pins, stricter_settings
from ctxbench.gate.verdict import with_servers
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from ctxbench.data.datasets.dataset import Dataset
    from ctxbench.gate.baseline import AcceptedBaseline
    from ctxbench.sources.mcp.server_files import CapturedServer


@dataclass(frozen=True, eq=False, kw_only=True)
class GateCheck:
    """A check against a baseline.

    Attributes:
        check: what was found.
        file: the gate file.
        references: by dataset, what opens it from the gate file's folder: its folder, or its name.
        texts: whether the baseline holds texts.
        vectors: whether it holds vectors.
        failed: whether a selector failed on a query now, so that `accept` would refuse.
        former: by dataset and item, what the baseline has of an item that was edited, renamed (under its new id) or is
            gone.
        edited: by dataset and item, the fields in which an item differs that was edited or renamed; none of a new
            one.
    """

    check: Check
    file: GateFile
    references: Mapping[str, str]
    texts: bool
    vectors: bool
    failed: bool = False
    former: Mapping[tuple[str, str], ItemFact] = field(default_factory=dict)
    edited: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)


def check_gate(
    path: Path,
    *,
    allow_removed: bool = False,
    server_errors: Mapping[Path, Mapping[str, str]] | None = None,
    notify: Notify = nothing_said,
    progress: Progress = silent,
) -> GateCheck:
    """Compare what every selector of a gate file answers now with the baseline.

    No selector is asked where nothing that decides an answer has changed (`reuse_answers`).

    Args:
        path: of the gate file.
        allow_removed: as in `CheckSettings`.
        server_errors: of the servers that were asked just now, by agent file (resolved) and name, what went wrong;
            empty where one answered. The tools of all others are as captured.
        notify, progress: told what takes a moment, and about every slice of queries.

    Raises:
        InputError: anything is wrong in the gate file or in what it names: all faults, with their lines.
        UserError: the baseline is missing or cannot be read, or a selector of ours fails.
    """
    with gate_file_in_messages(path):
        file, faults = examine_gate(path)
        head = None if faults else read_manifest(file.baseline)
        bases = [] if head is None else [*map(with_prices, read_baseline(file.baseline, head))]
        before, loosened = file.settings, tuple[Loosened, ...]()
        if head is not None:
            before = accepted_settings(head, file.baseline)
            file, loosened = _with_stricter_settings(file, before, bases)
        answers = None if faults else reuse_answers(file, bases)
        if answers is None:
            from ctxbench.gate.snapshot_sources import ask  # slow to import

            answers = ask(file, faults=faults, bases=bases, notify=notify, progress=progress)
        else:
            for changed in changed_sources(file.experiment.datasets, file.experiment.base):
                notify(f"notice: {changed}")
            if (file.baseline / VECTORS).exists():
                from ctxbench.gate.stored_vectors import accepted_vectors

                accepted_vectors(file.baseline)  # damage would else come to light with the next change of a text
        _check_pins_known(file, bases, answers)
        pairing = pair_snapshots(bases, answers.snapshots)
        lost = _lost_pins(file.settings, before, pairing.pairs)
        settings = replace(file.settings, pins=(*file.settings.pins, *lost), allow_removed=allow_removed)
        baseline = str(file.baseline)
        result = check(pairing, settings, name=str(path), base=baseline, head="this run", baseline=baseline)
        servers = {
            name: _captured_servers(text, file, server_errors or {}) for name, text in answers.references.items()
        }
        result = replace(
            result,
            selectors=tuple(
                with_servers(selector_check, servers.get(selector_check.dataset, ()))
                for selector_check in result.selectors
            ),
            loosened=(*loosened, *loosened_pins(lost)),
            replacement=None if head is None else find_replacement(file, head, bases),
        )
        former, edited = _changed_items(pairing.pairs)
        return GateCheck(
            check=result,
            file=file,
            references=answers.references,
            texts=any(item.row is not None for base in bases for item in base.items.values()),
            vectors=(file.baseline / VECTORS).exists(),
            failed=any(failures(snapshot.answers) for snapshot in answers.snapshots),
            former=former,
            edited=edited,
        )


def _captured_servers(
    dataset: str, file: GateFile, server_errors: Mapping[Path, Mapping[str, str]]
) -> tuple[CapturedServer, ...]:
    """The servers of a dataset's agent whose tools are as captured: not asked just now, or without an answer.

    Args:
        dataset: what opens it from the gate file's folder.
        file: the gate file.
        server_errors: as of `check_gate`.
    """
    folder = user_folder(dataset, file.experiment.base)
    path = None if folder is None else agent_of(folder)
    if path is None:
        return ()
    from ctxbench.sources.agent_file import read_agent  # most checks are over no agent

    errors = server_errors.get(path.resolve(), {})
    servers = read_agent(path).captured_servers()
    return tuple(
        replace(server, error=errors.get(server.name, "")) for server in servers if errors.get(server.name) != ""
    )


def _with_stricter_settings(
    file: GateFile, before: CheckSettings, bases: Sequence[SelectorSnapshot]
) -> tuple[GateFile, tuple[Loosened, ...]]:
    """The gate file with the settings of its baseline where these are stricter, and which those are."""
    settings, loosened = stricter_settings(file.settings, before, bases)
    experiment = replace(file.experiment, metrics=tuple(map(str, settings.metrics)))
    return replace(file, settings=settings, experiment=experiment), loosened


def _lost_pins(
    current: CheckSettings, before: CheckSettings, pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]]
) -> tuple[Pin, ...]:
    """What pins demanded when the baseline was accepted, and no longer do."""
    if [pin.as_dict() for pin in current.pins] == [pin.as_dict() for pin in before.pins]:
        return ()
    from ctxbench.gate.comparability import renamed_items

    renamed = {old: new for base, head in pairs for old, new in renamed_items(base, head).items()}
    return lost_pins(current.pins, before.pins, renamed)


def _changed_items(
    pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]],
) -> tuple[dict[tuple[str, str], ItemFact], dict[tuple[str, str], Collection[str]]]:
    """The fields `former` and `edited` of `GateCheck`: the items that changed."""
    from ctxbench.gate.comparability import renamed_items  # most checks find no difference
    from ctxbench.gate.item_edit_texts import edited_fields

    former: dict[tuple[str, str], ItemFact] = {}
    edited: dict[tuple[str, str], Collection[str]] = {}
    for base, head in {base.dataset: (base, head) for base, head in reversed(pairs)}.values():
        if base.contents == head.contents:
            continue
        renamed = renamed_items(base, head)
        for name, before in base.items.items():
            new = renamed.get(name, name)
            after = head.items.get(new)
            if after is not None and before.hash == after.hash:
                continue
            former[base.dataset, new] = before
            if after is not None:
                edited[base.dataset, new] = edited_fields(before, after)
        came = {*base.items, *renamed.values()}
        edited |= {(base.dataset, name): () for name in head.items if name not in came}
    return former, edited


def accept(
    path: Path,
    *,
    texts: bool = True,
    vectors: bool = False,
    notify: Notify = nothing_said,
    progress: Progress = silent,
) -> AcceptedBaseline:
    """Ask every selector of a gate file now, and write what it answers as the baseline.

    What a card says of its dataset (`frozen`, `counts`) may have been overtaken by edits; labels must fit the catalog.
    A baseline that keeps texts out goes on to, and one that holds vectors goes on to, whatever is asked: nobody should
    publish texts, or send a runner for the model, by leaving out an option.

    Args:
        path: of the gate file.
        texts: whether texts of items and queries are written.
        vectors: whether the vectors that a check needs are written.
        notify: told what takes a moment.
        progress: told about every slice of queries.

    Raises:
        InputError: anything is wrong in the gate file or in what it names: all faults, with their lines.
        UserError: a query is not answered, a selector of ours fails, or the baseline cannot be written.
    """
    from ctxbench.gate.baseline import has_no_texts, summarise_selector, write_baseline
    from ctxbench.gate.snapshot_sources import ask

    with gate_file_in_messages(path):
        file, faults = examine_gate(path)
        answers = ask(file, faults=faults, notify=notify, progress=progress)
        snapshots, _, resources = answers
        _check_no_failures(snapshots)
        _check_pins_known(file, (), answers)
        texts = texts and not has_no_texts(file.baseline)
        vectors = vectors or (file.baseline / VECTORS).exists()
        done = write_baseline(
            file.baseline,
            snapshots,
            settings=file.settings,
            replaced=replaced_by_accepting(file),
            texts=texts,
            vectors=resources.vectors_by_text if vectors and resources is not None else None,
        )
        return replace(
            done,
            pins=tuple(failure for snapshot in snapshots for failure in pin_failures(file.settings.pins, snapshot)),
            summaries=tuple(
                summarise_selector(snapshot, file.settings.judged(snapshot.metrics)) for snapshot in snapshots
            ),
        )


def check_runs(
    base: Path,
    head: Path,
    *,
    allow_removed: bool = False,
    datasets: tuple[Mapping[str, Dataset], Mapping[str, Dataset]] = ({}, {}),
    names: tuple[str, str] | None = None,
) -> Check:
    """Compare a finished run with another one, or with an accepted baseline, by the default settings.

    Selectors are paired by name; where either run has a single one, these two are, whatever they are called.

    Args:
        base: folder of `ctxbench run` or `ctxbench score`, or of a baseline.
        head: folder of `ctxbench run` or `ctxbench score`.
        allow_removed: as in `check_gate`.
        datasets: datasets of base and of head that need not be opened, whole, by name.
        names: what reports call base and head; None = as their folders.

    Raises:
        UserError: a folder holds no finished run, or a dataset has changed since.
    """
    from ctxbench.gate.snapshot_sources import of_run  # slow to import

    sources, accepted, names = names, (base / MANIFEST).exists(), names or (str(base), str(head))
    bases = [*map(with_prices, read_baseline(base) if accepted else of_run(base, datasets[0]))]
    heads = [*map(with_prices, of_run(head, datasets[1]))]
    before, after = ({snapshot.selector for snapshot in side} for side in (bases, heads))
    notices: tuple[str, ...] = ()
    if len(before) == len(after) == 1 and before != after:
        (old,), (new,) = before, after
        bases = [replace(snapshot, selector=new) for snapshot in bases]
        notices = (f"{new} of {names[1]} is held against {old} of {names[0]}",)
    if sources:
        bases, heads = (
            [replace(snapshot, source=n) for snapshot in side] for n, side in zip(sources, (bases, heads), strict=True)
        )
    pairing = pair_snapshots(bases, heads)
    return check(
        pairing._replace(notices=(*notices, *pairing.notices)),
        CheckSettings(allow_removed=allow_removed),
        name="run" if accepted else "two runs",
        base=names[0],
        head=names[1],
        baseline=names[0] if accepted else "",
    )


def _check_pins_known(file: GateFile, bases: Sequence[SelectorSnapshot], answers: GateAnswers) -> None:
    """Raise an error for pins of what does not exist or is not asked, which would always hold.

    Raises:
        InputError: there are such pins; all of them, with their lines.
    """
    pins = file.settings.pins
    if not unknown_pins(pins, bases, answers.snapshots):
        return
    heads = answers.snapshots if answers.resources is not None else with_unasked(file, answers.snapshots, bases)
    paths = {name: user_folder(text, file.experiment.base) for name, text in answers.references.items()}
    folders = {name: folder for name, folder in paths.items() if folder is not None}
    raise InputError(unknown_pins(pins, bases, heads, path=file.path, folders=folders))


def _check_no_failures(snapshots: Sequence[SelectorSnapshot]) -> None:
    """Check that no selector failed on a query.

    Raises:
        ParameterError: there is one; the first of every selector is named.
    """
    failed = []
    for snapshot in snapshots:
        if wrong := [
            (query, snapshot.answers[query].error) for query in snapshot.queries if snapshot.answers[query].error
        ]:
            n, (first, why) = count(len(wrong), "query", "queries"), wrong[0]
            why = why.removeprefix(f"query {first!r}: ")
            failed.append(f"{snapshot.selector} on {snapshot.dataset} failed on {n}, first {first}: {why}")
    if failed:
        raise ParameterError(f"nothing is accepted: {'; '.join(failed)}; mend it and accept again")
