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

    with progress() as shown:
        dataset = open_dataset(name, notify=shown.say)
    if not (listed or as_json) and patch is None:
        raise ParameterError("name the file for corrections with --patch FILE, or only list with --list")
    refuse_outputs({"--patch": patch}, dataset_inputs(name))
    if patch is not None and not (listed or as_json) and patch.exists():
        if not is_patch(patch):
            raise ParameterError(f"{patch} is there and is no file of corrections; name another file for them")
        raise ParameterError(
            f"{patch} holds corrections already; apply it with "
            f"`{shlex.join(['ctxbench', 'data', 'review', name, '--apply', str(patch)])}`, or name another file"
        )
    if not (listed or as_json):
        refuse_closed()
    pool = make_pool_for(dataset, selectors, embedder, {})
    found = findings(pool)
    if as_json:
        print_json([one.as_dict() for one in found])
        return
    if listed or patch is None:
        for one in found:
            say(_finding_line(one))
        say(f"{len(found)} labels that {', '.join(pool.names)} contradict")
        return
    asking = _Review(dataset, found, write=lambda made: write_patch(made, patch))
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


def _finding_line(one: Finding) -> str:
    ranks = ", ".join(f"{name} {rank if rank is not None else '-'}" for name, rank in one.ranks.items())
    grade = "no label" if one.label is None else f"grade {one.label.grade}"
    return f"{one.severity:.2f}  {one.query}  {item_name(one.item)}  {one.kind} ({grade}; ranks: {ranks})"


class _Review:
    """Asks about findings one by one."""

    def __init__(self, dataset: Dataset, found: list[Finding], *, write: Callable[[list[Correction]], None]) -> None:
        """`write` is called with all corrections whenever one was accepted or taken back."""
        from ctxbench.data.labelling.review import Corrections

        self.dataset = dataset
        self._write = write
        self.found = found
        self.keys = Keys()
        self.corrections = Corrections(dataset)
        self.grades = {"0": 0, "1": 1, "2": 2}

    def run(self) -> list[Correction]:
        """All corrections that were accepted, in the order of the findings."""
        place = 0
        with self.keys, suppress(EOFError):
            while place < len(self.found):
                self._show(place)
                key = self.keys.key()
                if key == "q":
                    break
                if key == "u":
                    place = max(place - 1, 0)
                    if self.corrections.take_back(place):
                        self._write(self.corrections.corrections)
                    continue
                if not self._take(place, key):
                    self.keys.drop()
                    tell(f"{key!r} is no answer here")
                    continue
                place += 1
        return self.corrections.corrections

    def _take(self, place: int, key: str) -> bool:
        one = self.found[place]
        if key in ("k", "s"):
            return True
        before = self.corrections.corrections
        if key in self.grades:
            self.corrections.regrade(place, one.item, self.grades[key], query=one.query, why=one.kind)
        elif key == "a":
            required = self._others(self.corrections.dataset, one)
            if len(required) > 1:
                tell("its number?")
            number = number_of(self.keys.key()) if len(required) > 1 else 1
            if not 1 <= number <= len(required):
                return False
            self.corrections.alternative(place, one.item, required[number - 1], query=one.query, why=one.kind)
        else:
            return False
        if self.corrections.corrections != before:
            self._write(self.corrections.corrections)
        return True

    def _others(self, dataset: Dataset, one: Finding) -> list[ItemKey]:
        return [i.item for i in dataset.labels_of(one.query) if i.grade == 2 and i.item != one.item]

    def _show(self, place: int) -> None:
        one, dataset = self.found[place], self.dataset
        query = next(query for query in dataset.queries if query.id == one.query)
        tell("", f"-- {place + 1} of {len(self.found)}: {one.kind}; query {one.query}", *request_lines(query.request))
        tell(f"   {item_line(dataset.catalog[dataset.catalog.position(one.item)])}")
        for name, rank in one.ranks.items():
            score = one.scores[name]
            tell(
                f"   {name}: " + ("not ranked" if rank is None or score is None else f"rank {rank}, score {score:.3f}")
            )
        for number, key in enumerate(self._others(self.corrections.dataset, one), start=1):
            tell(f"   required {number}: {item_line(dataset.catalog[dataset.catalog.position(key)])}")
        now = "no label" if one.label is None else f"grade {one.label.grade}"
        tell(f"now {now}.  k keep  2 required  1 helpful  0 irrelevant  a alternative of a required one  {ALWAYS}")
