"""`ctxbench data label`: questions on a terminal, one key per answer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.key_input import Keys, refuse_closed
from ctxbench.cli.label_screen import item_line, item_name, number_of, request_lines, tell
from ctxbench.cli.label_search import SHOWN, ItemSearch
from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.core.errors import ParameterError
from ctxbench.io.console import say
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from ctxbench.data.datasets.dataset import Dataset
    from ctxbench.data.labelling.answer_log import KeyPress
    from ctxbench.data.labelling.labelling_session import (
        LabellingSession,
        LabelPrompt,
        LikelyItem,
        PromptAnswer,
        Report,
    )
    from ctxbench.data.labelling.pool import Pool
    from ctxbench.data.labelling.query_files import Exposure

_HELP = "1-9 needed  0 nothing more  / another item  m more  w known one is wrong  h helpful  x nothing at all"
ALWAYS = "s skip  u undo  q quit"


def label(
    folder: Path, *, minutes: float, selectors: list[str], figures: list[str], embedder: str, as_json: bool
) -> None:
    """Ask for `minutes`, then say what the figures are; 0 writes no file."""
    from ctxbench.data.labelling.folder import opened
    from ctxbench.data.labelling.predict import Predictor
    from ctxbench.data.labelling.query_files import read_exposures

    if not (math.isfinite(minutes) and minutes >= 0):
        raise ParameterError(f"minutes must be 0 or more, got {minutes}")
    if minutes > 0:
        refuse_closed()
    with opened(folder, writes=minutes > 0) as work:
        tell(*work.notes)
        pool = make_pool_for(work.dataset, selectors, embedder, read_exposures(folder))
        if pool.always_items:
            named = f"{count(len(pool.always_items), 'item')} of mode always, which every new prompt holds"
            tell(f"nothing is asked about {named}; a request that needs nothing else needs nothing")
        session = work.session(Predictor(pool), focus=tuple(figures))
        before = session.report()
        if not as_json:
            _print_report(before, "before")
        try:
            n_answers = _LabellingDialogue(session, minutes).run() if minutes > 0 else 0
        except KeyboardInterrupt as stopped:
            stopped.add_note("every answer is kept; the same command goes on from here")
            raise
        applied = work.save(session)
        after = session.report()
    if as_json:
        print_json({"before": _report_json(before), "after": _report_json(after), "asked": n_answers})
    elif minutes > 0:
        recent = f"{n_answers:,} of them now" if n_answers >= 0 else f"{-n_answers:,} of an earlier time taken back"
        _print_report(after, "after", f" in all, {recent}")
        say(f"{count(len(applied.changed), 'query', 'queries')} changed in {folder}")
        if after.queries and any(after.halving.values()):
            say("labelled queries are no random sample: these figures weigh them, plain means do not")


def make_pool_for(dataset: Dataset, selectors: list[str], embedder: str, exposures: Mapping[str, Exposure]) -> Pool:
    """What selectors (the usual ones if none is named) offer for a dataset's queries."""
    from ctxbench.data.labelling.pool import make_pool, open_selectors, usual_selectors
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.index.resources import LocalResources
    from ctxbench.io.cache import cache_dir
    from ctxbench.text.tokens import open_counter

    opened = open_embedder(embedder)
    with progress() as bar:
        vectors = open_vectors(opened, progress=lambda done, total: bar("embedding texts", done, total))
        resources = LocalResources(vectors, open_counter("o200k", cache=cache_dir()))
        chosen = open_selectors(selectors or usual_selectors(dataset), resources)
        try:
            pool = make_pool(dataset, chosen, exposures=exposures, progress=bar)
        finally:
            for selector in chosen.values():
                getattr(selector, "close", _nothing)()
        for offer in pool.offers:
            if offer.failed:
                failures = f"{count(offer.failed, 'query', 'queries')}, which count as nothing offered"
                bar.say(f"warning: {offer.name} failed on {failures}; first {offer.failure}")
    return pool


def _nothing() -> None:
    """What ends a selector that holds nothing."""


class _LabellingDialogue:
    """Shows questions, reads keys."""

    def __init__(self, session: LabellingSession, minutes: float) -> None:
        self.session = session
        self.keys = Keys()
        self.search = ItemSearch(session, self.keys)
        self.end = time.monotonic() + 60.0 * minutes
        self.n_answers = 0
        self.page = 0
        self.query = ""

    def run(self) -> int:
        """Ask until the time is up and the current query is answered; returns the number of answers."""
        with self.keys, suppress(EOFError):
            while (prompt := self.session.next()) is not None:
                if prompt.query != self.query and time.monotonic() >= self.end:
                    tell("time is up")
                    break
                self.query, self.page = prompt.query, 0
                if not self._ask(prompt):
                    break
            else:
                tell("nothing is left to ask")
        return self.n_answers

    def _ask(self, prompt: LabelPrompt) -> bool:
        """Put one question until it is answered; False to end the session."""
        begin = time.monotonic()
        self._show(prompt)
        while True:
            key = self.keys.key()
            if key == "q":
                return False
            if key == "u":
                undone = self.session.undo()
                tell(_taken_back(undone) if undone else "there is nothing to take back")
                self.n_answers -= 1 if undone else 0
                return True
            if key == "m" and prompt.kind == "needed":
                self.page = self.page + 1 if (self.page + 1) * SHOWN < len(prompt.candidates) else 0
                self._show(prompt)
                continue
            reply = self._reply(prompt, key)
            if reply is None:
                continue
            self.session.answer(prompt, reply, seconds=time.monotonic() - begin)
            self.n_answers += 1
            return True

    def _reply(self, prompt: LabelPrompt, key: str) -> PromptAnswer | None:
        """The answer of a key; None where it has no meaning, which is printed."""
        from ctxbench.data.labelling.labelling_session import PromptAnswer

        if key == "/" and prompt.kind == "needed":
            item = self.search.ask(prompt.query)
            if item is None:
                return None
            tell(f"needed: {self._with_number(prompt, item)}")
            return PromptAnswer("needed", item)
        reply = self._of_key(prompt, key)
        if reply is None:
            self.keys.drop()
            tell(f"{key!r} is no answer here")
        return reply

    def _of_key(self, prompt: LabelPrompt, key: str) -> PromptAnswer | None:
        from ctxbench.data.labelling.labelling_session import PromptAnswer

        if key == "s":
            return PromptAnswer("skip")
        if prompt.kind == "alternative":
            return PromptAnswer("alternative", yes=key == "y") if key in ("y", "n") else None
        if key == "0":
            return PromptAnswer("done")
        if key == "x":
            return PromptAnswer("nothing")
        if key == "w" and prompt.known:
            number = self._number() if len(prompt.known) > 1 else 1
            return PromptAnswer("wrong", prompt.known[number - 1]) if 1 <= number <= len(prompt.known) else None
        if key == "h":
            tell("its number?")
            candidate = self._candidate(prompt, self.keys.key())
            return PromptAnswer("helpful", candidate.item) if candidate else None
        candidate = self._candidate(prompt, key)
        return PromptAnswer("needed", candidate.item) if candidate else None

    def _with_number(self, prompt: LabelPrompt, item: int) -> str:
        """An item's name, with its number in the list of the question."""
        numbers = {candidate.item: number for number, candidate in enumerate(prompt.candidates, start=1)}
        name = item_name(self.session.pool.dataset.catalog[item].key)
        return f"{name}, already listed as number {numbers[item]}" if item in numbers else name

    def _number(self) -> int:
        tell("its number?")
        return number_of(self.keys.key())

    def _candidate(self, prompt: LabelPrompt, key: str) -> LikelyItem | None:
        index = self.page * SHOWN + number_of(key) - 1
        is_listed = number_of(key) >= 1 and index < len(prompt.candidates)
        return prompt.candidates[index] if is_listed else None

    def _show(self, prompt: LabelPrompt) -> None:
        pool = self.session.pool
        catalog, query = pool.dataset.catalog, pool.dataset.queries[pool.row[prompt.query]]
        left = max(0.0, self.end - time.monotonic()) / 60.0
        signs = f"; the log says {', '.join(prompt.signals)}" if prompt.signals else ""
        tell("", f"-- {count(self.session.answers, 'answer')}, {left:.0f} min left; query {prompt.query}{signs}")
        tell(*request_lines(query.request))
        for number, index in enumerate(prompt.known, start=1):
            tell(f"needed: {f'{number} ' if len(prompt.known) > 1 else ''}{item_line(catalog[index])}")
        if prompt.kind == "alternative":
            tell(f"Would {item_line(catalog[prompt.item])}", f"  do as well as {item_line(catalog[prompt.of])}?")
            tell(f"y yes  n no  {ALWAYS}")
            return
        tell("What else is needed?" if prompt.known else "What is needed?")
        first = self.page * SHOWN
        for number, candidate in enumerate(prompt.candidates[first : first + SHOWN], start=1):
            by = f"offered by {', '.join(candidate.offered_by)}" if candidate.offered_by else "offered by none"
            called = "called; " if candidate.called else ""
            like = f"; like {item_name(catalog[candidate.like].key)}" if candidate.like is not None else ""
            tell(f"  {number} {item_line(catalog[candidate.item], reserved=4)}", f"      {called}{by}{like}")
        tell(_HELP, ALWAYS)


def _taken_back(answer: KeyPress) -> str:
    about = f": {item_name(answer.item)}" if answer.item else ""
    return f"taken back: {answer.kind} of query {answer.query}{about}"


def _print_report(report: Report, when: str, of_them: str = "") -> None:
    wide = max(len(figure.name) for figure in (*report.completeness, *report.differences))
    if report.answers:
        done = f"{count(report.queries, 'query', 'queries')} labelled to the end"
        say(f"{when}: {count(report.answers, 'answer')}{of_them}, {done}")
    else:
        say(f"{when} any answer of yours: what the log alone makes likely, which may be far off")
    for title, figures in (("completeness", report.completeness), ("difference", report.differences)):
        for figure in figures:
            if math.isnan(figure.value):
                say(f"  {title:<12}  {figure.name:<{wide}}  nothing is known yet")
                continue
            say(
                f"  {title:<12}  {figure.name:<{wide}}  {_percent(figure.value):>6}  "
                f"(likely {_percent(figure.low)} to {_percent(figure.high)}; {_halving(report.halving[figure.name])})"
            )
    if report.unsure:
        say(
            f"  {count(report.unsure, 'query', 'queries')} skipped, or not asked what would do as well: the ranges "
            "count them both ways"
        )
    if not math.isnan(report.minutes_per_answer):
        say(f"  {report.minutes_per_answer:.2f} minutes an answer, {report.answers_per_query:.1f} answers a query")


def _halving(n_answers: int | None) -> str:
    if n_answers is None:
        return "no answers make this range half as wide"
    return (
        "exact"
        if n_answers == 0
        else f"about {count(n_answers, 'more answer', 'more answers')} make this range half as wide"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _report_json(report: Report) -> dict[str, Any]:
    def row(figure: Any) -> dict[str, Any]:
        values = asdict(figure) | {"answers_to_halve": report.halving[figure.name]}
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}

    per_answer = report.minutes_per_answer
    return {
        "completeness": [row(figure) for figure in report.completeness],
        "differences": [row(figure) for figure in report.differences],
        "answers": report.answers,
        "queries": report.queries,
        "unsure": report.unsure,
        "minutes_per_answer": None if math.isnan(per_answer) else per_answer,
        "answers_per_query": report.answers_per_query,
    }
