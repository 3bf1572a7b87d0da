"""`ctxbench data review`: labels that selectors contradict, corrections as a patch."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.cli.key_input import Keys, refuse_closed
from ctxbench.cli.label import ALWAYS, make_pool_for
from ctxbench.cli.label_screen import item_line, item_name, number_of, request_lines, tell
from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs
from ctxbench.core.errors import ParameterError
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs

if TYPE_CHECKING:
    from ctxbench.core.items import ItemKey
    from ctxbench.data.datasets.dataset import Dataset
    from ctxbench.data.labelling.review import Correction, Finding


def review(name: str, *, selectors: list[str], patch: Path | None, listed: bool, embedder: str, as_json: bool) -> None:
    """List contradicted labels, or ask about each and write the accepted corrections as a patch."""
    from ctxbench.data.datasets.lookup import open_dataset
    from ctxbench.data.labelling.review import findings, is_patch, write_patch

    with progress() as bar:
        dataset = open_dataset(name, notify=bar.say)
    if not (listed or as_json) and patch is None:
        raise ParameterError("name the file for corrections with --patch FILE, or only list with --list")
    refuse_outputs({"--patch": patch}, dataset_inputs(name))
    if patch is not None and not (listed or as_json) and patch.exists():
        if not is_patch(patch):
            raise ParameterError(f"{patch} is there and is no file of corrections; name another file for them")
        raise ParameterError(
            f"{patch} holds corrections already; apply it with "
            f"`{shlex.join(['ctxbench', 'data', 'review', name, '--apply', str(patch)])}`, or name another "
            f"file"
        )
    if not (listed or as_json):
        refuse_closed()
    pool = make_pool_for(dataset, selectors, embedder, {})
    contradictions = findings(pool)
    if as_json:
        print_json([finding.as_dict() for finding in contradictions])
        return
    if listed or patch is None:
        for finding in contradictions:
            say(_finding_line(finding))
        say(f"{len(contradictions)} labels that {', '.join(pool.names)} contradict")
        return
    asking = _Review(dataset, contradictions, write=lambda accepted: write_patch(accepted, patch))
    try:
        corrections = asking.run()
    except KeyboardInterrupt as stopped:
        if asking.corrections.corrections:
            stopped.add_note(f"what was accepted so far is in {patch}")
        raise
    if not patch.exists():
        say("no label was changed; nothing is written")
        return
    say(f"{len(corrections)} changed labels written to {patch}; apply with: data review {name} --apply {patch}")


def apply_patch(folder: Path, patch: Path) -> None:
    """Apply a patch to the dataset in a folder; nobody labels it meanwhile."""
    from ctxbench.data.labelling.folder import opened

    with opened(folder) as work:
        tell(*work.notes)
        before = work.dataset
        changed = work.correct(patch)
        lost = len(set(work.dataset.unlabelled) - set(before.unlabelled))
    say(f"{changed} labels changed in {folder}")
    if lost:
        say(f"{lost} queries have no required item any more and count as unlabelled")


def _finding_line(finding: Finding) -> str:
    ranks = ", ".join(f"{name} {rank if rank is not None else '-'}" for name, rank in finding.ranks.items())
    grade = "no label" if finding.label is None else f"grade {finding.label.grade}"
    return (
        f"{finding.severity:.2f}  {finding.query}  {item_name(finding.item)}  {finding.kind} ({grade}; ranks: {ranks})"
    )


class _Review:
    """Asks about findings one by one."""

    def __init__(self, dataset: Dataset, findings: list[Finding], *, write: Callable[[list[Correction]], None]) -> None:
        """`write` is called with all corrections whenever one was accepted or taken back."""
        from ctxbench.data.labelling.review import Corrections

        self.dataset = dataset
        self._write = write
        self.findings = findings
        self.keys = Keys()
        self.corrections = Corrections(dataset)
        self.grades = {"0": 0, "1": 1, "2": 2}

    def run(self) -> list[Correction]:
        """Ask, and return the accepted corrections in the order of the findings."""
        position = 0
        with self.keys, suppress(EOFError):
            while position < len(self.findings):
                self._show(position)
                key = self.keys.key()
                if key == "q":
                    break
                if key == "u":
                    position = max(position - 1, 0)
                    if self.corrections.take_back(position):
                        self._write(self.corrections.corrections)
                    continue
                if not self._take(position, key):
                    self.keys.drop()
                    tell(f"{key!r} is no answer here")
                    continue
                position += 1
        return self.corrections.corrections

    def _take(self, position: int, key: str) -> bool:
        finding = self.findings[position]
        if key in ("k", "s"):
            return True
        before = self.corrections.corrections
        if key in self.grades:
            self.corrections.regrade(position, finding.item, self.grades[key], query=finding.query, why=finding.kind)
        elif key == "a":
            required = self._alternatives(self.corrections.dataset, finding)
            if len(required) > 1:
                tell("its number?")
            number = number_of(self.keys.key()) if len(required) > 1 else 1
            if not 1 <= number <= len(required):
                return False
            self.corrections.alternative(
                position, finding.item, required[number - 1], query=finding.query, why=finding.kind
            )
        else:
            return False
        if self.corrections.corrections != before:
            self._write(self.corrections.corrections)
        return True

    def _alternatives(self, dataset: Dataset, finding: Finding) -> list[ItemKey]:
        return [i.item for i in dataset.labels_of(finding.query) if i.grade == 2 and i.item != finding.item]

    def _show(self, position: int) -> None:
        finding, dataset = self.findings[position], self.dataset
        query = next(query for query in dataset.queries if query.id == finding.query)
        tell(
            "",
            f"-- {position + 1} of {len(self.findings)}: {finding.kind}; query {finding.query}",
            *request_lines(query.request),
        )
        tell(f"   {item_line(dataset.catalog[dataset.catalog.position(finding.item)])}")
        for name, rank in finding.ranks.items():
            score = finding.scores[name]
            tell(
                f"   {name}: " + ("not ranked" if rank is None or score is None else f"rank {rank}, score {score:.3f}")
            )
        for number, key in enumerate(self._alternatives(self.corrections.dataset, finding), start=1):
            tell(f"   required {number}: {item_line(dataset.catalog[dataset.catalog.position(key)])}")
        label_text = "no label" if finding.label is None else f"grade {finding.label.grade}"
        tell(
            f"now {label_text}.  k keep  2 required  1 helpful  0 irrelevant  a alternative of a required one  {ALWAYS}"
        )
