"""LongMemEval: questions about long histories of chats with an assistant, with the turns that answer them.

Source: https://huggingface.co/datasets/xiaowu0162/longmemeval (MIT), arXiv 2410.10813; the fields are described in
https://github.com/xiaowu0162/LongMemEval.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, raise_faults
from ctxbench.core.items import Item
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.importers.published_files import OWNER, FileImporter, json_entries
from ctxbench.io.rows import Row

ABSTENTION = "_abs"  # ends the id of a question that the history does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _HistoryQuestion:
    """One question, with the turns of its history by time, and those that answer it."""

    query: DatasetQuery
    turns: Sequence[Item]
    evidence: Sequence[Item]
    repeated: int  # sessions with the id of another of the same history


class LongMemEvalOracle(FileImporter, recipe="longmemeval-oracle"):
    """`longmemeval-oracle`: the histories hold the sessions with evidence alone.

    A turn is a memory of kind `turn` named `<question>/<session>/<number>`: its text is what was said, its workspace
    the question, its conversation `<question>/<session>`, and it was created at the session's time plus a second a turn
    before it. A query is asked at its question's date, and tagged by its type.
    """

    takes_own = True

    def make(self, name: str) -> Dataset:
        """Make the dataset; the file is held in memory as a whole."""
        (file,) = self.source.files
        faults: list[Fault] = []
        entries = json_entries(self.read(file.path), faults, expected="questions with haystack_sessions")
        questions = [question for entry in entries if (question := _read_question(entry)) is not None]
        n_by_id = Counter(question.query.request.id for question in questions)
        faults += [Fault(f"question_id {id_!r} occurs {n} times; expected once") for id_, n in n_by_id.items() if n > 1]
        raise_faults(faults, subject="LongMemEval")
        return self.dataset(
            name,
            [turn for question in questions for turn in question.turns],
            [question.query for question in questions],
            [
                Label(question.query.request.id, item.key, Grade.REQUIRED, source=OWNER)
                for question in questions
                for item in question.evidence
            ],
            counted=_counts(questions),
        )


class LongMemEvalS(LongMemEvalOracle, recipe="longmemeval-s"):
    """`longmemeval-s`: about 50 sessions a history."""


class LongMemEvalM(LongMemEvalOracle, recipe="longmemeval-m"):
    """`longmemeval-m`: about 500 sessions a history, a file of 2.7 GB."""


def _read_question(entry: Row) -> _HistoryQuestion | None:
    """A question with its history; None if it cannot be read."""
    n_faults = len(entry.faults)
    id_, text, type_ = (entry.take(x, str, "", required=True) for x in ("question_id", "question", "question_type"))
    time = _time(entry.take("question_date", str, "", required=True), f"question {id_!r}, question_date", entry)
    names = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
    columns = [entry.take(name, list, [], required=True) for name in names]
    if len(lengths := {len(column) for column in columns}) > 1:
        entry.fault(f"question {id_!r}: {', '.join(names)} must be as long as each other, got {sorted(lengths)}")
    if len(entry.faults) > n_faults or time is None:
        return None
    history, n_by_id = [], Counter[str]()
    for session, date, turns in zip(*columns, strict=True):
        where = f"question {id_!r}, session {session!r:.60}"
        start = _time(date, f"{where}, date", entry)
        if not isinstance(session, str) or not session or not isinstance(turns, list):
            entry.fault(f"{where} must be a text with a list of turns, got {turns!r:.60}")
        elif start is not None:
            n_by_id[session] += 1
            name = session if n_by_id[session] == 1 else f"{session}~{n_by_id[session]}"
            history.append((start, _read_session(turns, (id_, name, start), where, entry)))
    turns_by_time = [turn for _, turns in sorted(history, key=lambda row: row[0]) for turn in turns]
    unanswered, group = id_.endswith(ABSTENTION), id_.removesuffix(ABSTENTION)
    request = Request(id=id_, text=text, workspace=id_, time=time.isoformat())
    marked = [] if unanswered else [item for item, is_marked in turns_by_time if is_marked]
    evidence = [item for item in marked if str(item.created) <= str(request.time)]  # both in one form
    query = DatasetQuery(
        request=request,
        split=split_of(group),
        group=group,
        tags=(type_, "abstention") if unanswered else (type_,),
        needs_nothing=unanswered,
        partly_labelled=len(evidence) < len(marked),  # those of after the question are no evidence
    )
    turns, repeated = [item for item, _ in turns_by_time], sum(n_by_id.values()) - len(n_by_id)
    return _HistoryQuestion(query=query, turns=turns, evidence=evidence, repeated=repeated)


def _read_session(
    turns: Sequence[Any], session_key: tuple[str, str, datetime], where: str, entry: Row
) -> list[tuple[Item, bool]]:
    """The turns of a session, given its question, name and time; each with whether it is marked."""
    question, session, start = session_key
    marked_items = []
    for number, turn in enumerate(turns, start=1):
        fields = turn if isinstance(turn, dict) else {}
        role, content, marked = fields.get("role"), fields.get("content"), fields.get("has_answer") or False
        if role not in ("user", "assistant") or not isinstance(content, str) or not isinstance(marked, bool):
            expected = "role (user or assistant), text content and, if it says so, has_answer (true or false)"
            entry.fault(f"{where}, turn {number} must have {expected}, got {turn!r:.80}")
            continue
        item = Item(
            type="memory",
            name=f"{question}/{session}/{number}",
            text=content,
            workspace=question,
            kind="turn",
            conversation=f"{question}/{session}",
            created=(start + timedelta(seconds=number - 1)).isoformat(),
            metadata={"speaker": role},
        )
        marked_items.append((item, marked))
    return marked_items


def _time(value: Any, where: str, entry: Row) -> datetime | None:
    """`2023/05/30 (Tue) 23:40`; the day of the week is not read."""
    try:
        return datetime.strptime(re.sub(r" \(\w+\)", "", value), "%Y/%m/%d %H:%M")  # noqa: DTZ007
    except (TypeError, ValueError):
        entry.fault(f"{where} must read like '2023/05/30 (Tue) 23:40', got {value!r:.60}")
        return None


def _counts(questions: Sequence[_HistoryQuestion]) -> dict[str, int]:
    """Counts of the source, for the card."""
    answered = [question for question in questions if not question.query.needs_nothing]
    unmarked = [question for question in answered if not question.evidence and not question.query.partly_labelled]
    return {
        "questions published": len(questions),
        "questions that need nothing": len(questions) - len(answered),
        "other questions without a marked turn": len(unmarked),
        "other questions with a marked turn after their date": sum(
            question.query.partly_labelled for question in answered
        ),
        "sessions with the id of another of their history": sum(question.repeated for question in questions),
    }
