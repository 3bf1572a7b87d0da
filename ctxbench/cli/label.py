"""`ctxbench data label`, `review`, `pool` and `agreement`."""

from __future__ import annotations

import math
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.cli.common import dataset_inputs, print_json, selector_inputs
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import Exposure, read_exposures
from ctxbench.datasets.lookup import open_dataset
from ctxbench.io.cache import refuse_outputs, row_with
from ctxbench.io.console import Keys, progress, refuse_closed, say
from ctxbench.io.documents import dump_jsonl
from ctxbench.io.errors import ParameterError, count, quoted
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.labelling.answer_log import KeyPress
from ctxbench.labelling.pools import Pool, Predictor, make_pool, open_selectors, usual_selectors
from ctxbench.labelling.review import (
    Agreement,
    Correction,
    Corrections,
    Finding,
    agreement,
    findings,
    is_patch,
    pooled_pairs,
    read_labelling,
    sample_queries,
    write_patch,
)
from ctxbench.labelling.session import LabellingSession, LabelPrompt, LikelyItem, PromptAnswer, Report, opened
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.requests import Request
from ctxbench.search.embedders import open_embedder, open_vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter

WIDTH = 100
MESSAGES = 4  # last messages of the history


def request_lines(request: Request) -> list[str]:
    """The request under a heading, after the end of its history, with one line per message.

    Lines of the request are marked with a bar.
    """
    history = request.history[-MESSAGES:]
    lines = []
    if history:
        n = len(request.history)
        lines += ["", f"earlier ({f'the last {len(history)} of {n}' if n > len(history) else n} messages):"]
        lines += [f"    {message.role}: {short(message.content)}" for message in history]
    return [*lines, "", *quoted(f"the request:\n{request.text or '(an empty request)'}"), ""]


def item_name(key: ItemKey) -> str:
    """The name of an item for people: `tracker / create_issue (tool)`, `Code review (rule)`."""
    return f"{key.name if key.server is None else f'{key.server} / {key.name}'} ({key.type})"


def item_line(item: Item, *, reserved: int = 14) -> str:
    """An item in one line for the terminal, with `reserved` other characters; its name is never cut."""
    name = item_name(item.key)
    return f"{name}: {short(item.description or item.text, reserved=reserved + len(name) + 2)}"


def short(text: str, *, reserved: int = 16) -> str:
    """A text in one line for the terminal, with `reserved` other characters."""
    flat = " ".join(text.split())
    room = max(shutil.get_terminal_size((WIDTH, 24)).columns - reserved, 12)
    return flat if len(flat) <= room else flat[: room - 3] + "..."


tell = partial(say, err=True)


def number_of(key: str) -> int:
    """The digit of a key; 0 for other keys."""
    return int(key) if key.isascii() and key.isdigit() else 0


SHOWN = 9  # items with a number
_MARKED = {2: "needed", 1: "marked helpful", 0: "marked not needed"}


class ItemSearch:
    """Finds items by parts of their names or descriptions."""

    def __init__(self, session: LabellingSession, keys: Keys) -> None:
        """Search the catalog of a session."""
        self._session = session
        self._catalog = session.pool.dataset.catalog
        self._keys = keys
        self._last_marked: tuple[str, int] | None = None  # the query and the marked item that the last search found

    def ask(self, query: str) -> int | None:
        """The item of a typed search; None, with a message, if there is none.

        Items with a label are only listed; repeating the search marks one that is helpful or not needed as needed.
        """
        previous, self._last_marked = self._last_marked, None
        matches = self._search()
        if not matches:
            return None
        marked = {item: grade for item in matches if (grade := self._session.grade_of(query, item)) is not None}
        if len(matches) == 1 and marked:
            (item, grade), self._last_marked = (matches[0], marked[matches[0]]), (query, matches[0])
            if grade != 2 and previous == self._last_marked:
                return item
            hint = "" if grade == 2 else "; repeat the search to mark it needed"
            tell(f"already {_MARKED[grade]}: {item_name(self._catalog[item].key)}{hint}")
            return None
        for item, grade in list(marked.items())[:SHOWN]:
            tell(f"  already {_MARKED[grade]}: {self._line(item, reserved=len(_MARKED[grade]) + 13)}")
        new = [item for item in matches if item not in marked and self._session.can_need(query, item)]
        if new:
            return self._chosen(new) if marked or len(new) > 1 else new[0]
        if not marked:
            named = ", ".join(item_name(self._catalog[item].key) for item in matches[:3]) + ", ..." * (len(matches) > 3)
            tell(f"not available to this query, disabled, or manual: {named}")
        return None

    def _search(self) -> Sequence[int]:
        """Items with all typed words, or the item with exactly this name."""
        typed = " ".join(self._keys.text("search: ").lower().split())
        words = typed.split()
        matches = [
            i for i, item in enumerate(self._catalog) if words and all(word in _searched(item) for word in words)
        ]
        if not matches:
            tell("no item with all these words" if words else "no words to search for")
        exact = [i for i in matches if typed in _called(self._catalog[i])]
        return exact if len(exact) == 1 else matches

    def _chosen(self, matches: Sequence[int]) -> int | None:
        """The item chosen by number; other keys are left for the question."""
        for number, item in enumerate(matches[:SHOWN], start=1):
            tell(f"  {number} {self._line(item)}")
        if len(matches) > SHOWN:
            tell(f"  and {len(matches) - SHOWN} more; search with more words")
        tell("its number? (0 none of them)")
        key = self._keys.key()
        number = number_of(key)
        if 1 <= number <= min(len(matches), SHOWN):
            return matches[number - 1]
        if key == "0" or number:
            tell("none of them" if key == "0" else f"no item with number {number}")
        else:
            self._keys.back(key)
        return None

    def _line(self, item: int, *, reserved: int = 14) -> str:
        return item_line(self._catalog[item], reserved=reserved)


def _searched(item: Item) -> str:
    return f"{item.id} {item_name(item.key)} {item.search_text}".lower()


def _called(item: Item) -> tuple[str, ...]:
    """The exact names of an item: its id, its name with type, and server and name."""
    return item.id.lower(), item_name(item.key).lower(), f"{item.server} / {item.name}".lower() if item.server else ""


_HELP = "1-9 needed  0 nothing more  / another item  m more  w wrong item  h helpful  x nothing needed"
ALWAYS = "s skip  u undo  q quit"


def label(
    folder: Path, *, minutes: float, selectors: list[str], figures: list[str], embedder: str, as_json: bool
) -> None:
    """Ask for `minutes`, then print the figures; 0 writes no file."""
    if not (math.isfinite(minutes) and minutes >= 0):
        raise ParameterError(f"minutes must be 0 or more, got {minutes}")
    if minutes > 0:
        refuse_closed()
    with opened(folder, writes=minutes > 0) as work:
        tell(*work.notes)
        pool = make_pool_for(work.dataset, selectors, embedder, read_exposures(folder))
        if pool.always_items:
            tell(f"not asked: {count(len(pool.always_items), 'item')} of mode always, which are in each new prompt")
        session = work.session(Predictor(pool), focus=tuple(figures))
        before = session.report()
        if not as_json:
            _print_report(before, "before")
        try:
            n_answers = _LabellingDialogue(session, minutes).run() if minutes > 0 else 0
        except KeyboardInterrupt as stopped:
            stopped.add_note("all answers are stored; run the same command to continue")
            raise
        applied = work.save(session)
        after = session.report()
    if as_json:
        print_json({"before": _report_json(before), "after": _report_json(after), "asked": n_answers})
    elif minutes > 0:
        recent = f"{n_answers:,} of them new" if n_answers >= 0 else f"{-n_answers:,} earlier withdrawn"
        _print_report(after, "after", f" in all, {recent}")
        say(f"{count(len(applied.changed), 'query', 'queries')} changed in {folder}")
        if after.queries and any(after.labels_to_halve_interval.values()):
            say("labelled queries are not a random sample: these figures weight them, plain means do not")


def make_pool_for(dataset: Dataset, selectors: list[str], embedder: str, exposures: Mapping[str, Exposure]) -> Pool:
    """The pool of selectors (by default the usual ones) for a dataset."""
    opened = open_embedder(embedder)
    with progress() as bar:
        vectors = open_vectors(opened, progress=lambda done, total: bar("embedding texts", done, total))
        resources = LocalResources(vectors, open_counter("o200k", cache=cache_dir()))
        chosen = open_selectors(selectors or usual_selectors(dataset), resources)
        try:
            pool = make_pool(dataset, chosen, exposures=exposures, progress=bar)
        finally:
            for selector in chosen.values():
                getattr(selector, "close", lambda: None)()
        for offer in pool.offers:
            if offer.failed:
                failures = f"{count(offer.failed, 'query', 'queries')}, counted as nothing offered"
                bar.say(f"warning: {offer.name} failed on {failures}; first {offer.failure}")
    return pool


class _LabellingDialogue:
    """Shows questions and reads keys."""

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
                tell("no more questions")
        return self.n_answers

    def _ask(self, prompt: LabelPrompt) -> bool:
        """Ask one question until it is answered; False to end the session."""
        begin = time.monotonic()
        self._show(prompt)
        while True:
            key = self.keys.key()
            if key == "q":
                return False
            if key == "u":
                undone = self.session.undo()
                tell(_taken_back(undone) if undone else "nothing to undo")
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
        """The answer of a key; None, with a message, for other keys."""
        if key == "/" and prompt.kind == "needed":
            item = self.search.ask(prompt.query)
            if item is None:
                return None
            tell(f"needed: {self._with_number(prompt, item)}")
            return PromptAnswer("needed", item)
        reply = self._of_key(prompt, key)
        if reply is None:
            self.keys.drop()
            tell(f"{key!r} is not an answer here")
        return reply

    def _of_key(self, prompt: LabelPrompt, key: str) -> PromptAnswer | None:
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
        """The name of an item, with its number in the list of the question."""
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
        signs = f"; signals: {', '.join(prompt.signals)}" if prompt.signals else ""
        tell("", f"-- {count(self.session.answers, 'answer')}, {left:.0f} min left; query {prompt.query}{signs}")
        tell(*request_lines(query.request))
        for number, index in enumerate(prompt.known, start=1):
            tell(f"needed: {f'{number} ' if len(prompt.known) > 1 else ''}{item_line(catalog[index])}")
        if prompt.kind == "alternative":
            tell(f"Is {item_line(catalog[prompt.item])}", f"  an alternative of {item_line(catalog[prompt.of])}?")
            tell(f"y yes  n no  {ALWAYS}")
            return
        tell("Which other items are needed?" if prompt.known else "Which items are needed?")
        first = self.page * SHOWN
        for number, candidate in enumerate(prompt.candidates[first : first + SHOWN], start=1):
            by = f"offered by {', '.join(candidate.offered_by)}" if candidate.offered_by else "offered by none"
            called = "called; " if candidate.called else ""
            like = f"; like {item_name(catalog[candidate.like].key)}" if candidate.like is not None else ""
            tell(f"  {number} {item_line(catalog[candidate.item], reserved=4)}", f"      {called}{by}{like}")
        tell(_HELP, ALWAYS)


def _taken_back(answer: KeyPress) -> str:
    about = f": {item_name(answer.item)}" if answer.item else ""
    return f"undone: {answer.kind} of query {answer.query}{about}"


def _print_report(report: Report, when: str, of_them: str = "") -> None:
    wide = max(len(figure.name) for figure in (*report.completeness, *report.differences))
    if report.answers:
        done = f"{count(report.queries, 'query', 'queries')} done"
        say(f"{when}: {count(report.answers, 'answer')}{of_them}, {done}")
    else:
        say(f"{when} any answer: estimates from the log, which may be wrong")
    to_halve = report.labels_to_halve_interval
    for title, figures in (("completeness", report.completeness), ("difference", report.differences)):
        for figure in figures:
            if math.isnan(figure.value):
                say(f"  {title:<12}  {figure.name:<{wide}}  unknown")
                continue
            say(
                f"  {title:<12}  {figure.name:<{wide}}  {_percent(figure.value):>6}  "
                f"(likely {_percent(figure.low)} to {_percent(figure.high)}; "
                f"{_labels_to_halve_text(to_halve[figure.name])})"
            )
    if report.unsure:
        say(f"  {count(report.unsure, 'query', 'queries')} undecided: included in the ranges")
    if not math.isnan(report.minutes_per_answer):
        say(f"  {report.minutes_per_answer:.2f} minutes per answer, {report.answers_per_query:.1f} answers per query")


def _labels_to_halve_text(n_answers: int | None) -> str:
    if n_answers is None:
        return "no number of answers halves this range"
    return f"about {count(n_answers, 'more answer')} to halve this range" if n_answers else "exact"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _report_json(report: Report) -> dict[str, Any]:
    def row(figure: Any) -> dict[str, Any]:
        values = asdict(figure) | {"labels_to_halve_interval": report.labels_to_halve_interval[figure.name]}
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


def pool(
    name: str,
    *,
    share: float,
    random: int,
    seed: int,
    selectors: list[str],
    embedder: str,
    out: Path,
    as_json: bool,
) -> None:
    """Write the pairs for a second labelling, one query per line, without labels.

    `share` is the share of drawn queries, `random` the number of random items per query.
    """
    read = {**dataset_inputs(name), **selector_inputs(*selectors)}
    refuse_outputs({"--out": out}, read, may_replace={"--out": row_with("_id", "text", "items")})
    with progress() as bar:
        dataset = open_dataset(name, notify=bar.say)
    ids = [query.id for query in dataset.queries]
    sample = dataset.take(sample_queries(ids, share=share, seed=seed))
    candidates = make_pool_for(sample, selectors, embedder, {})
    pairs = pooled_pairs(candidates, [query.id for query in sample.queries], random=random, seed=seed)
    rows = []
    for query in sample.queries:
        of_query = [pair for pair in pairs if pair.query == query.id]
        items = [dataset.catalog[dataset.catalog.position(pair.item)].as_row() for pair in of_query]
        rows.append(
            {**_select_fields(query.as_row(), _ASKED), "items": [_select_fields(item, _SHOWN) for item in items]}
        )
    write_atomic(out, dump_jsonl(rows))
    if as_json:
        print_json({"pairs": len(pairs), "queries": len(rows), "written": str(out)})
    else:
        say(f"{count(len(pairs), 'pair')} of {count(len(rows), 'query', 'queries')} written to {out}", err=True)


_ASKED = ("_id", "text", "history", "session", "scope")
_SHOWN = ("_id", "description", "text", "include")


def _select_fields(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}


def compare(first: Path, second: Path, *, as_json: bool) -> None:
    """Print the agreement of two labellings of the same pairs."""
    result = agreement(read_labelling(first), read_labelling(second))
    if as_json:
        print_json(_as_dict(result))
        return

    say(f"{count(result.pairs, 'pair')} of {count(result.queries, 'query', 'queries')} judged by both")
    for path, n in ((first, result.only_first), (second, result.only_second)):
        if n:
            say(f"{count(n, 'pair')} in {path} only: ignored")
    say("", "first \\ second  irrelevant   helpful  required")
    for grade, name in enumerate(("irrelevant", "helpful", "required")):
        say(f"{name:<14}" + "".join(f"{int(n):>10,}" for n in result.table[grade]))
    say("", "question               kappa  95% interval  agreement  by chance")
    for kappa in result.kappas:
        value, interval = (
            ("-", "-") if math.isnan(kappa.value) else (f"{kappa.value:.3f}", f"{kappa.low:.3f}-{kappa.high:.3f}")
        )
        say(f"{kappa.question:<21} {value:>6}  {interval:>12}  {kappa.observed:>9.4f}  {kappa.expected:>9.4f}")
    if any(math.isnan(kappa.value) for kappa in result.kappas):
        say("-: kappa is undefined, as all answers to the question are equal")
    say(
        "",
        (
            "kappa: agreement beyond chance; 1 = always, 0 = as by chance. By grade, irrelevant and required differ "
            "twice as much as neighbouring grades (linear weights)."
        ),
        "",
        f"{count(len(result.disagreements), 'pair')} with different grades",
    )
    if result.disagreements:
        say("  query  item  first second (0 irrelevant, 1 helpful, 2 required)")
    say(*(f"  {query}  {item.id}  {grades[0]} {grades[1]}" for query, item, *grades in result.disagreements))


def _as_dict(result: Agreement) -> dict[str, Any]:
    return {
        "queries": result.queries,
        "pairs": result.pairs,
        "only_first": result.only_first,
        "only_second": result.only_second,
        "table": result.table.tolist(),
        "kappas": [
            {
                "question": kappa.question,
                "kappa": kappa.value,
                "low": kappa.low,
                "high": kappa.high,
                "observed": kappa.observed,
                "expected": kappa.expected,
            }
            for kappa in result.kappas
        ],
        "disagreements": [
            {"query": query, "item": item.id, "first": a, "second": b} for query, item, a, b in result.disagreements
        ],
    }


def review(name: str, *, selectors: list[str], patch: Path | None, listed: bool, embedder: str, as_json: bool) -> None:
    """List contradicted labels, or ask about each and write the accepted corrections as a patch."""
    with progress() as bar:
        dataset = open_dataset(name, notify=bar.say)
    if not (listed or as_json) and patch is None:
        raise ParameterError("name the file for corrections with --patch FILE, or only list with --list")
    refuse_outputs({"--patch": patch}, dataset_inputs(name))
    if patch is not None and not (listed or as_json) and patch.exists():
        if not is_patch(patch):
            raise ParameterError(f"{patch} exists and is not a file of corrections; name another file")
        raise ParameterError(
            f"{patch} has corrections; apply it with "
            f"`{shlex.join(['ctxbench', 'data', 'review', name, '--apply', str(patch)])}`, or name another file"
        )
    if not (listed or as_json):
        refuse_closed()
    pool = make_pool_for(dataset, selectors, embedder, {})
    contradictions = findings(pool)
    if as_json:
        print_json([finding.as_dict() for finding in contradictions])
        return
    if listed or patch is None:
        say(*map(_finding_line, contradictions))
        say(f"{len(contradictions)} labels that {', '.join(pool.names)} contradict")
        return
    asking = _Review(dataset, contradictions, write=lambda accepted: write_patch(accepted, patch))
    try:
        corrections = asking.run()
    except KeyboardInterrupt as stopped:
        if asking.corrections.corrections:
            stopped.add_note(f"accepted corrections are in {patch}")
        raise
    if not patch.exists():
        say("no label was changed")
        return
    say(f"{len(corrections)} changed labels written to {patch}; apply with: data review {name} --apply {patch}")


def apply_patch(folder: Path, patch: Path) -> None:
    """Apply a patch to the dataset in a folder, which is locked."""
    with opened(folder) as work:
        tell(*work.notes)
        before = work.dataset
        changed = work.correct(patch)
        lost = len(set(work.dataset.unlabelled) - set(before.unlabelled))
    say(f"{changed} labels changed in {folder}")
    if lost:
        say(f"{count(lost, 'query', 'queries')} without a required item now: unlabelled")


def _finding_line(finding: Finding) -> str:
    ranks = ", ".join(f"{name} {rank if rank is not None else '-'}" for name, rank in finding.ranks.items())
    grade = "no label" if finding.label is None else f"grade {finding.label.grade}"
    return (
        f"{finding.severity:.2f}  {finding.query}  {item_name(finding.item)}  {finding.kind} ({grade}; ranks: {ranks})"
    )


class _Review:
    """Asks about findings one by one."""

    def __init__(self, dataset: Dataset, findings: list[Finding], *, write: Callable[[list[Correction]], None]) -> None:
        """`write` is called with all corrections after each change."""
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
                    tell(f"{key!r} is not an answer here")
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
