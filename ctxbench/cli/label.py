"""`ctxbench data label`, `review`, `pool` and `agreement`."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.cli.common import aligned, dataset_inputs, print_json, print_result, selector_inputs
from ctxbench.cli.tune import next_step_line
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import FOLDER, LOG, QRELS, Exposure, read_exposures
from ctxbench.datasets.lookup import open_dataset
from ctxbench.io.cache import refuse_outputs, row_with
from ctxbench.io.console import Keys, clear_screen, cut, is_terminal, progress, refuse_closed, say, wrapped
from ctxbench.io.documents import dump_jsonl
from ctxbench.io.errors import ParameterError, count
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.labelling.pools import Pool, Predictor, make_pool, open_selectors, usual_selectors
from ctxbench.labelling.review import (
    Agreement,
    Correction,
    Corrections,
    Finding,
    Kappa,
    agreement,
    findings,
    pooled_pairs,
    read_labelling,
    sample_queries,
    write_patch,
)
from ctxbench.labelling.sampling import Figure
from ctxbench.labelling.session import LabellingSession, LabelPrompt, PromptAnswer, Report, opened
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.requests import Request
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.tuning.held_out import next_step

MESSAGES = 4  # last messages of the history
SHOWN = 9  # choices with a number
LEAST = 5  # choices that a long request leaves room for
GRADES = ("irrelevant", "helpful", "required")

tell = partial(say, err=True)


def item_name(key: ItemKey) -> str:
    """The name of an item for people: `tracker / create_issue (tool)`, `Code review (rule)`."""
    return f"{key.name if key.server is None else f'{key.server} / {key.name}'} ({key.type})"


def item_line(item: Item, note: str, columns: int) -> str:
    """An item in one line: its name, of which a long one loses its middle, the note, and its description."""
    name, longest = item_name(item.key), max(2 * columns // 3, 12)
    if len(name) > longest:
        name = f"{cut(name, longest // 2)}{name[-longest // 2 :]}"
    return cut(f"{name}{note and f', {note}'}: {item.description or item.text}", columns)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to a person, with what it is about; on the screen in this order.

    Attributes:
        head: a line about the session.
        request: shown after the last messages of its history.
        facts: lines about the request.
        title: the question.
        choices: items that have numbers, each with a note.
        keys: the most important keys.
    """

    head: str
    request: Request
    facts: Sequence[str]
    title: str
    choices: Sequence[tuple[Item, str]]
    keys: str

    def lines(self, notes: Sequence[str], first: int, size: os.terminal_size) -> tuple[list[str], int]:
        """Fit the question into a terminal, except for its last line.

        What there is no room for is marked. The request comes before choices beyond `LEAST`, and these come after
        the history.

        Returns:
            The lines, and the number of choices among them.
        """
        columns, n_messages = size.columns, len(self.request.history)
        below = [line for note in notes for line in wrapped(note, columns)[: size.lines // 8]]
        room = size.lines - 5 - len(self.facts) - len(below)  # beside the head, two titles, the keys, and the last line
        n = min(SHOWN, len(self.choices) - first)
        n_shown = max(min(n, LEAST, room // 2), 0)
        request = [f"  | {line}" for line in wrapped(self.request.text or "(an empty request)", columns - 4)]
        if (n_hidden := len(request) - max(room - n_shown, 3)) > 0:
            request[-n_hidden - 2 : -1] = [f"  ... {n_hidden + 1:,} more lines (v shows all)"]
        n_earlier = max(min(MESSAGES, n_messages, room - len(request) - n_shown), 0)
        n = max(min(n, room - len(request) - n_earlier), min(n, 1))
        earlier = [f"{message.role}: {message.content}" for message in self.request.history[n_messages - n_earlier :]]
        after = f" after {count(n_messages, 'message')}{' (v shows all)' * (n_earlier < n_messages)}" * (n_messages > 0)
        page = f" ({first + 1} to {first + n} of {len(self.choices)}; m shows more)" if n < len(self.choices) else ""
        choices = enumerate(self.choices[first : first + n], start=1)
        parts = [
            [cut(self.head, columns)],
            [f"  {cut(line, columns - 2)}" for line in earlier],
            [f"request{after}:", *request],
            [cut(line, columns) for line in (*self.facts, f"{self.title}{page}")],
            [cut(self.keys, columns), *below],
        ]
        parts[3] += [f"  {number} {item_line(item, note, columns - 4)}" for number, (item, note) in choices]
        gaps = room - len(request) - n_earlier - n
        lines: list[str] = []
        for number, part in enumerate(filter(None, parts)):
            lines += ["", *part] if 0 < number <= gaps else part
        return lines, n

    def everything(self, first: int, n: int, columns: int) -> list[str]:
        """All that the question is about, with nothing cut: the texts of `n` choices from `first` on."""
        choices = self.choices[first : first + n]
        parts = [
            *((f"{message.role}:", message.content) for message in self.request.history),
            ("request:", self.request.text),
            *((f"{item_name(i.key)} {note}", f"{i.description}\n{i.text}".strip()) for i, note in choices),
        ]
        lines = [line for fact in (self.head, *self.facts) for line in wrapped(fact, columns)]
        for title, text in parts:
            lines += ["", *wrapped(title, columns), *(f"  | {line}" for line in wrapped(text, columns - 4))]
        return lines


class Screen:
    """Asks questions, each within the height of a terminal; where there is none, prints each question once."""

    def __init__(self, keys: Keys, meanings: Mapping[str, str]) -> None:
        """`meanings` are those of all keys."""
        self.keys = keys
        self._help = [f"  {key:<7} {meaning}" for key, meaning in {**meanings, **_ALWAYS}.items()]
        self._is_live = keys.terminal and is_terminal(err=True)
        self._notes: list[str] = []
        self._question: Question | None = None
        self._first = self._n = 0

    def note(self, *lines: str) -> None:
        """Say something: below the next question, or at once where there is no terminal."""
        if self._is_live:
            self._notes += lines
        else:
            tell(*lines)

    def close(self) -> None:
        """Print the notes that no question followed."""
        tell(*self._notes)

    def ask(self, question: Question) -> str:
        """Show a question and return a key; keys of the screen itself are handled here."""
        if self._question is None or self._question.choices is not question.choices:
            self._first = 0
        key = ""
        while True:
            if self._is_live or self._question is not question or key == "m":
                lines, self._n = question.lines(self._notes, self._first, _size())
                self._clear(lines)
                self._question, self._notes = question, []
            if (key := self.keys.key()) == "m" and question.choices:
                self._first = self._first + self._n if self._first + self._n < len(question.choices) else 0
            elif key == "v":
                self._page(question.everything(self._first, self._n, _size().columns))
            elif key == "?":
                self._page(self._help)
            else:
                return key

    def index(self, key: str) -> int | None:
        """The index of the choice with a number; None for other keys."""
        number = int(key) if key.isascii() and key.isdigit() else 0
        return self._first + number - 1 if 1 <= number <= self._n else None

    def choose(self, question: Question, title: str, choices: Sequence[tuple[Item, str]]) -> int | None:
        """Ask for one of several items; its index, or None. Other keys are left for the next question."""
        key = self.ask(
            replace(
                question, title=title, choices=choices, keys="1-9 this item, 0 none of them, v view all, ? all keys"
            )
        )
        if (index := self.index(key)) is None and key not in "0123456789":
            self.keys.back(key)
        return index

    def refuse(self, key: str) -> None:
        """Say that a key has no meaning, and forget the rest of a piped line."""
        self.keys.drop()
        self.note(f"{_SPECIAL.get(key, repr(key))} is not an answer here; ? shows all keys")

    def _page(self, lines: Sequence[str]) -> None:
        """Show lines, on a terminal a screen at a time: any key goes on, and q back to the question."""
        rows = _size().lines - 2 if self._is_live else len(lines)
        for start in range(0, len(lines), rows):
            end = ["-- any key: " + ("more" if start + rows < len(lines) else "back")] if self._is_live else []
            self._clear([*lines[start : start + rows], *end])
            if self._is_live and self.keys.key() == "q":
                break

    def _clear(self, lines: Sequence[str]) -> None:
        """Print lines on an empty screen; what was there before the first question is scrolled away, not lost."""
        if self._is_live:
            clear_screen(_size().lines if self._question is None else 0)
        tell(*lines)


def _size() -> os.terminal_size:
    return shutil.get_terminal_size((80, 24))


_SPECIAL = {"\x1b": "Esc, or an arrow or function key,", "\n": "Enter", "\t": "Tab", "\x7f": "Backspace", " ": "Space"}
_ALWAYS = {
    "v": "view all of the request, its history and the texts of the items",
    "s": "skip",
    "u": "undo the last answer",
    "q": "quit; answers are kept",
    "?": "these keys",
}
_ANSWERS = {
    "needed": {"s": PromptAnswer("skip"), "0": PromptAnswer("done"), "x": PromptAnswer("nothing")},
    "alternative": {
        "s": PromptAnswer("skip"),
        "y": PromptAnswer("alternative", yes=True),
        "n": PromptAnswer("alternative", yes=False),
    },
}
_LABEL_KEYS = {
    "1 to 9": "this item is needed; the question is asked again for more",
    "0": "nothing more is needed",
    "x": "nothing at all is needed: items under `needed` become forbidden ones",
    "/": "another item is needed: type parts of its name or description",
    "m": "more items",
    "h": "an item is helpful, but not needed",
    "w": "an item under `needed` is not needed (its call was a mistake): it becomes a forbidden one",
    "y, n": "where two items are compared: is the first as good as the second?",
}
_MARKED = {None: "", 0: "not needed", 1: "helpful", 2: "already needed"}


def label(
    folder: Path, *, minutes: float, selectors: list[str], figures: list[str], embedder: str, as_json: bool
) -> None:
    """Ask for `minutes`, apply the answers, and print how the figures changed; 0 asks nothing.

    Ctrl-C applies the answers, too. With 0, no file is written unless an earlier session left answers to apply.
    """
    if not (math.isfinite(minutes) and minutes >= 0):
        raise ParameterError(f"minutes must be 0 or more, got {minutes}")
    if minutes > 0:
        refuse_closed()
    with opened(folder, writes=minutes > 0) as work:
        tell(*work.notes)
        pool = make_pool_for(work.dataset, selectors, embedder, read_exposures(folder))
        session = work.session(Predictor(pool), focus=tuple(figures))
        before, labels = session.report(), set(work.dataset.labels)
        dialogue = _LabellingDialogue(session, minutes)
        if pool.always_items:
            dialogue.screen.note(f"not asked: {count(len(pool.always_items), 'item')} of mode always, in every prompt")
        try:
            n_answers = dialogue.run() if minutes > 0 else 0
        except KeyboardInterrupt as stopped:
            n_changed = len(work.save(session).changed)
            stopped.add_note(
                f"all answers are in the labels ({count(n_changed, 'query', 'queries')} changed); run the same command "
                "to continue"
            )
            raise
        changed = work.save(session).changed
        after, n_new = session.report(), len(set(work.dataset.labels) - labels)
        dataset = work.dataset
    with progress() as bar:
        line = next_step_line(next_step(dataset, embedder=embedder, progress=bar), str(folder)) if minutes > 0 else ""
    if as_json:
        reports = {"before": _report_json(before), "after": _report_json(after)}
        print_json({**reports, "asked": n_answers, "labels": n_new, "changed": len(changed), "next": line})
        return
    if minutes > 0:
        recent = f"{n_answers:,} new" if n_answers >= 0 else f"{-n_answers:,} earlier undone"
        say(
            f"{count(after.answers, 'answer')} ({recent}), {count(after.queries, 'query', 'queries')} done: "
            f"{folder / FOLDER / LOG}",
            f"{count(n_new, 'label')} made or changed in {count(len(changed), 'query', 'queries')}: {folder / QRELS}",
        )
    _print_figures(before if minutes > 0 else None, after)
    say(*filter(None, [line]))


def make_pool_for(dataset: Dataset, selectors: list[str], embedder: str, exposures: Mapping[str, Exposure]) -> Pool:
    """The pool of selectors (by default the usual ones) for a dataset."""
    opened = open_embedder(embedder)
    with progress() as bar:
        resources = local_resources(
            opened, open_counter("o200k", cache=cache_dir()), progress=partial(bar, "embedding texts")
        )
        chosen = open_selectors(selectors or usual_selectors(dataset), resources)
        try:
            pool = make_pool(dataset, chosen, exposures=exposures, progress=bar)
        finally:
            for selector in chosen.values():
                getattr(selector, "close", lambda: None)()
        for offer in pool.offers:
            if offer.failed:
                failed = count(offer.failed, "query", "queries")
                bar.say(f"warning: {offer.name} failed on {failed}, counted as nothing offered; first {offer.failure}")
    return pool


class _LabellingDialogue:
    """Turns prompts into questions, and keys into answers."""

    def __init__(self, session: LabellingSession, minutes: float) -> None:
        self.session = session
        self.catalog = session.pool.dataset.catalog
        self.screen = Screen(Keys(), _LABEL_KEYS)
        self.end = time.monotonic() + 60.0 * minutes
        self.n_answers = 0

    def run(self) -> int:
        """Ask until the time is up and the current query is answered; returns the number of answers."""
        query = ""
        with self.screen.keys, suppress(EOFError):
            while (prompt := self.session.next()) is not None:
                if prompt.query != query and time.monotonic() >= self.end:
                    self.screen.note("time is up")
                    break
                query = prompt.query
                if not self._ask(prompt):
                    break
            else:
                self.screen.note("no more questions")
        self.screen.close()
        return self.n_answers

    def _ask(self, prompt: LabelPrompt) -> bool:
        """Ask one question until it is answered; False to end the session."""
        begin = time.monotonic()
        question = self._question(prompt)
        while (key := self.screen.ask(question)) != "q":
            if key == "u":
                undone = self.session.undo()
                about = f": {item_name(undone.item)}" if undone and undone.item else ""
                self.screen.note(
                    f"undone: {undone.kind} of query {undone.query}{about}" if undone else "nothing to undo"
                )
                self.n_answers -= 1 if undone else 0
                return True
            if (reply := self._reply(prompt, question, key)) is not None:
                self.session.answer(prompt, reply, seconds=time.monotonic() - begin)
                self.n_answers += 1
                self.screen.note(self._outcome(prompt, reply))
                return True
        return False

    def _question(self, prompt: LabelPrompt) -> Question:
        pool, left = self.session.pool, max(0.0, self.end - time.monotonic()) / 60.0
        facts = [f"signs of a miss in the log: {', '.join(prompt.signals)}"] if prompt.signals else []
        if prompt.known:
            facts.append(f"needed: {', '.join(item_name(self.catalog[item].key) for item in prompt.known)}")
        title, keys = (
            "Which items are needed?",
            "1-9 needed, 0 nothing more, x nothing at all, / search, v view all, ? all keys",
        )
        choices = [
            (i.item, "called" if i.called else "" if i.like is None else f"like {item_name(self.catalog[i.like].key)}")
            for i in prompt.candidates
        ]
        if prompt.kind == "alternative":
            title, keys = "Would item 1 do as well as item 2?", "y yes, n no, s skip, u undo, v view all, ? all keys"
            choices = [(prompt.item, ""), (prompt.of, "needed")]
        elif prompt.known:
            title = "Which other items are needed?"
        return Question(
            head=f"{count(self.session.answers, 'answer')}, {left:.0f} min left; query {prompt.query}",
            request=pool.dataset.queries[pool.row[prompt.query]].request,
            facts=facts,
            title=title,
            choices=[(self.catalog[item], note) for item, note in choices],
            keys=keys,
        )

    def _reply(self, prompt: LabelPrompt, question: Question, key: str) -> PromptAnswer | None:
        """The answer of a key; None, with a note, for other keys."""
        if key in _ANSWERS[prompt.kind]:
            return _ANSWERS[prompt.kind][key]
        index, items = self.screen.index(key), [candidate.item for candidate in prompt.candidates]
        if prompt.kind == "alternative":
            index = None
        elif index is not None:
            return PromptAnswer("needed", items[index])
        elif key == "/":
            item = self._search(prompt.query, question)
            return None if item is None else PromptAnswer("needed", item)
        elif key == "h":
            index = self.screen.choose(question, "Which item is helpful?", question.choices)
            return None if index is None else PromptAnswer("helpful", items[index])
        elif key == "w" and prompt.known:
            choices = [(self.catalog[item], "") for item in prompt.known]
            index = self.screen.choose(question, "Which item is not needed?", choices) if len(choices) > 1 else 0
            return None if index is None else PromptAnswer("wrong", prompt.known[index])
        self.screen.refuse(key)
        return None

    def _search(self, query: str, question: Question) -> int | None:
        """The needed item of a typed search; None, with a note, if there is none."""
        typed = " ".join(self.screen.keys.text("search: ").lower().split())
        names = [item_name(item.key) for item in self.catalog]
        texts = [f"{i.id} {name} {i.search_text}".lower() for i, name in zip(self.catalog, names, strict=True)]
        matches = [i for i, text in enumerate(texts) if typed and all(word in text for word in typed.split())]
        exact = [
            i
            for i in matches
            if typed in (self.catalog.ids[i].lower(), names[i].lower(), names[i].lower().rpartition(" (")[0])
        ]
        matches = exact if len(exact) == 1 else matches
        usable = [i for i in matches if self.session.can_need(query, i)]
        grades = [self.session.grade_of(query, i) for i in usable]
        if not usable:
            several = ", ".join(names[i] for i in matches[:3]) + ", ..." * (len(matches) > 3)
            unavailable = f"not available to this query, disabled, or manual: {several}"
            self.screen.note(unavailable if matches else "no item with all these words")
            return None
        index: int | None = 0
        if len(usable) > 1 or grades[0] in (0, 1):
            choices = [(self.catalog[i], _MARKED[grade]) for i, grade in zip(usable, grades, strict=True)]
            index = self.screen.choose(question, "Which item is needed?", choices)
        if index is not None and grades[index] == 2:
            self.screen.note(f"already needed: {names[usable[index]]}")
            index = None
        return None if index is None else usable[index]

    def _outcome(self, prompt: LabelPrompt, reply: PromptAnswer) -> str:
        """An answer in one line, with the selectors that offered the item, all needed items, or rightly nothing."""
        pool, row = self.session.pool, self.session.pool.row[prompt.query]
        groups, item = pool.groups(self.session.state(prompt.query).labels), max(prompt.item, reply.item)
        if reply.kind == "skip":
            return f"skipped: query {prompt.query}"
        right = pool.complete(row, groups) if groups else [not offers.offered[row] for offers in pool.offers]
        subject = f"query {prompt.query}, {'complete with' if groups else 'offered nothing by'}"
        if item >= 0:
            right = [item in offers.offered[row] for offers in pool.offers]
            subject = f"{item_name(self.catalog[item].key)}, offered by"
        names = ", ".join(name for name, is_right in zip(pool.names, right, strict=True) if is_right)
        kind = reply.kind if reply.yes is None else "as good" if reply.yes else "not as good"
        if not names and item < 0 and not groups:
            return f"{kind}: query {prompt.query}, and every selector offered something"
        return f"{kind}: {subject} {names or 'no selector'}"


def _print_figures(before: Report | None, after: Report) -> None:
    """Print the figures as a table, with those before the session if there are any."""
    earlier = {} if before is None else {i.name: i for i in (*before.completeness, *before.differences)}
    rows: list[list[str]] = []
    unknown = False
    for title, figures, lowest in (("completeness", after.completeness, 0.0), ("difference", after.differences, -1.0)):
        rows.append([title, *(["before"] if earlier else []), "now", "answers to halve it"] if figures else [])
        for figure in figures:
            n_answers = after.labels_to_halve_interval[figure.name]
            values = [_figure_text(row, lowest) for row in (earlier.get(figure.name), figure) if row is not None]
            rows.append(
                [f"  {figure.name}", *values, "-" if n_answers is None else f"{n_answers:,}" if n_answers else "exact"]
            )
            unknown = unknown or "unknown" in values
    say(*aligned([row for row in rows if row]))
    per_answer = f"{after.minutes_per_answer:.2f} minutes per answer, {after.answers_per_query:.1f} answers per query"
    remarks = {
        "in brackets: the likely range; answers to halve it: further answers": True,
        "exact: no answer can change it (equal offers, or all queries labelled)": 0
        in after.labels_to_halve_interval.values(),
        "unknown: any value is possible; answers change that, the first ones that name a needed item": unknown,
        f"{'before' if before else 'now'}: estimates from the log, which may be wrong": not (before or after).answers,
        f"{count(after.unsure, 'query', 'queries')} undecided: included in the ranges": after.unsure,
        per_answer: not math.isnan(after.minutes_per_answer),
        "the queries are no random sample: these figures weight them, plain means do not": after.queries
        and any(after.labels_to_halve_interval.values()),
    }
    say(*(remark for remark, applies in remarks.items() if applies))


def _figure_text(figure: Figure, lowest: float) -> str:
    """The estimate with its range; `unknown` where the range leaves out no value from `lowest` to 1."""
    if math.isnan(figure.value) or (figure.low <= lowest and figure.high >= 1.0):
        return "unknown"
    return f"{100 * figure.value:.1f}% ({100 * figure.low:.1f} to {100 * figure.high:.1f})"


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
    sample = dataset.take(sample_queries([query.id for query in dataset.queries], share=share, seed=seed))
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
    single = ((first, result.only_first), (second, result.only_second))
    print_result(
        _as_dict(result),
        f"{count(result.pairs, 'pair')} of {count(result.queries, 'query', 'queries')} judged by both",
        *(f"{count(n, 'pair')} in {path} only: ignored" for path, n in single if n),
        "",
        "first \\ second  irrelevant   helpful  required",
        *(f"{name:<14}{''.join(f'{int(n):>10,}' for n in result.table[i])}" for i, name in enumerate(GRADES)),
        "",
        "question               kappa  95% interval  agreement  by chance",
        *map(_kappa_line, result.kappas),
        "",
        (
            "kappa: agreement beyond chance; 1 = always, 0 = as by chance, - = undefined, as all answers are equal. By "
            "grade, irrelevant and required differ twice as much as neighbouring grades (linear weights)."
        ),
        "",
        f"{count(len(result.disagreements), 'pair')} with different grades",
        *["  query  item  first second (0 irrelevant, 1 helpful, 2 required)"] * bool(result.disagreements),
        *(f"  {query}  {item.id}  {grades[0]} {grades[1]}" for query, item, *grades in result.disagreements),
        as_json=as_json,
    )


def _kappa_line(kappa: Kappa) -> str:
    is_defined = not math.isnan(kappa.value)
    interval = f"{kappa.low:.3f}-{kappa.high:.3f}" if is_defined else "-"
    value = f"{kappa.value:.3f}" if is_defined else "-"
    return f"{kappa.question:<21} {value:>6}  {interval:>12}  {kappa.observed:>9.4f}  {kappa.expected:>9.4f}"


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
    command = shlex.join(["ctxbench", "data", "review", name, "--apply", str(patch)])
    if patch is not None and not (listed or as_json) and patch.exists():
        raise ParameterError(f"{patch} exists; if it has corrections, apply it with `{command}`, or name another file")
    if not (listed or as_json):
        refuse_closed()
    pool = make_pool_for(dataset, selectors, embedder, {})
    contradictions = findings(pool)
    if listed or as_json or patch is None:
        print_result(
            [finding.as_dict() for finding in contradictions],
            *map(_finding_line, contradictions),
            f"{count(len(contradictions), 'label')} that {', '.join(pool.names)} contradict",
            as_json=as_json,
        )
        return
    asking = _Review(dataset, contradictions, write=lambda accepted: write_patch(accepted, patch))
    try:
        corrections = asking.run()
    except KeyboardInterrupt as stopped:
        if asking.corrections.corrections:
            stopped.add_note(f"accepted corrections are in {patch}")
        raise
    written = f"{count(len(corrections), 'changed label')} written to {patch}; apply with `{command}`"
    say(written if patch.exists() else "no label was changed")


def apply_patch(folder: Path, patch: Path) -> None:
    """Apply a patch to the dataset in a folder, which is locked."""
    with opened(folder) as work:
        tell(*work.notes)
        before = set(work.dataset.unlabelled)
        changed = work.correct(patch)
        lost = len(set(work.dataset.unlabelled) - before)
    say(f"{count(changed, 'label')} changed in {folder}")
    if lost:
        say(f"{count(lost, 'query', 'queries')} without a required item now: unlabelled")


def _finding_line(finding: Finding) -> str:
    ranks = ", ".join(f"{name} {rank if rank is not None else '-'}" for name, rank in finding.ranks.items())
    grade = "no label" if finding.label is None else f"grade {finding.label.grade}"
    return (
        f"{finding.severity:.2f}  {finding.query}  {item_name(finding.item)}  {finding.kind} ({grade}; ranks: {ranks})"
    )


_REVIEW_KEYS = {
    "k": "keep the label",
    "2": "the item is required",
    "1": "it is helpful",
    "0": "it is irrelevant",
    "a": "it is an alternative of a required item",
}


class _Review:
    """Asks about findings one by one; who ranks the item where is shown after the answer."""

    def __init__(self, dataset: Dataset, findings: list[Finding], *, write: Callable[[list[Correction]], None]) -> None:
        """`write` is called with all corrections after each change."""
        self.dataset = dataset
        self._write = write
        self.findings = findings
        self.screen = Screen(Keys(), _REVIEW_KEYS)
        self.corrections = Corrections(dataset)

    def run(self) -> list[Correction]:
        """Ask, and return the accepted corrections in the order of the findings."""
        position = 0
        with self.screen.keys, suppress(EOFError):
            while position < len(self.findings):
                question = self._question(position)
                if (key := self.screen.ask(question)) == "q":
                    break
                if key == "u":
                    position = max(position - 1, 0)
                    if self.corrections.take_back(position):
                        self._write(self.corrections.corrections)
                elif self._take(position, key, question):
                    self.screen.note(_finding_line(self.findings[position]))
                    position += 1
        self.screen.close()
        return self.corrections.corrections

    def _take(self, position: int, key: str, question: Question) -> bool:
        finding, before = self.findings[position], self.corrections.corrections
        about = {"query": finding.query, "why": finding.kind}
        if key in ("0", "1", "2"):
            self.corrections.regrade(position, finding.item, int(key), **about)
        elif key == "a" and (required := self._required(finding)):
            items = [(self._item(required_item), "") for required_item in required]
            index = 0 if len(items) == 1 else self.screen.choose(question, "An alternative of which item?", items)
            if index is None:
                return False
            self.corrections.alternative(position, finding.item, required[index], **about)
        elif key not in ("k", "s"):
            self.screen.refuse(key)
            return False
        if self.corrections.corrections != before:
            self._write(self.corrections.corrections)
        return True

    def _required(self, finding: Finding) -> list[ItemKey]:
        """The other required items, after the corrections."""
        labels = self.corrections.dataset.labels_of(finding.query)
        return [label.item for label in labels if label.grade == 2 and label.item != finding.item]

    def _item(self, key: ItemKey) -> Item:
        item: Item = self.dataset.catalog[self.dataset.catalog.position(key)]
        return item

    def _question(self, position: int) -> Question:
        finding = self.findings[position]
        required = ", ".join(map(item_name, self._required(finding)))
        grade = "no label" if finding.label is None else f"now {GRADES[finding.label.grade]}"
        return Question(
            head=f"{position + 1} of {len(self.findings)}; query {finding.query}",
            request=next(query for query in self.dataset.queries if query.id == finding.query).request,
            facts=[f"required: {required}"] if required else [],
            title="What is this item for the request?",
            choices=[(self._item(finding.item), grade)],
            keys="k keep, 2 required, 1 helpful, 0 irrelevant, a alternative, ? all keys",
        )
