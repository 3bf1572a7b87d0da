"""A file of answers as a selector: JSON lines, one answer a query, made by anything at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, merge_equal_faults, raise_faults
from ctxbench.core.requests import Batch
from ctxbench.io.files import read_bytes, readable
from ctxbench.io.json_files import iter_records
from ctxbench.selectors.protocol import MalformedError, RawAnswer, Source, loads, quoted, shown_path
from ctxbench.sources.other_kinds import expects

_ANSWERING = ("items", "ranking", "error")  # an answer has one of them
_A_LINE = (
    'a line is an answer to one query of the dataset: {"query": "q1", "items": [{"id": "tool:crm:search"}]}, '
    'best first, and {"query": "q2", "items": []} for none'
)


class FileSource(Source):
    """Answers from a file, read whole when the object is made.

    Every query asked for must be answered in it; a query without an answer is an error of that query.
    """

    def __init__(self, path: Path | str, *, base: Path | None = None) -> None:
        """Read the file.

        Args:
            path: JSON lines, or a list of answers; blank lines are ignored.
            base: what a relative path is relative to, and what the path is shown relative to; default: the
                working directory.

        Raises:
            StorageError: the file is missing or cannot be read.
            InputError: the file is empty; no line is an answer; lines that are no JSON object with a query id, or
                queries that are answered twice: all of them, with line and column, equal ones once.
        """
        base = Path.cwd() if base is None else base
        self._path = readable(base / path, repeatedly=True)  # for each time that a selector is made
        self._display_path = shown_path(Path(path), base)
        self._sha256 = hashlib.sha256(read_bytes(self._path)).hexdigest()
        self._lines, self._answers = _read(self._path)
        self._requested: set[str] = set()

    def describe(self) -> dict[str, Any]:
        """The file and its SHA-256 (without a byte order mark)."""
        return {"answers": self._display_path, "sha256": self._sha256}

    def ask(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """The answers that the file holds for some requests."""
        replies = []
        for row in rows:
            query = batch.requests[row].id
            self._requested.add(query)
            if query in self._answers:
                where = f"{self._display_path}, line {self._lines[query]}"
                replies.append(RawAnswer(answer=self._answers[query], where=where))
            else:
                replies.append(
                    RawAnswer(error=f"{self._display_path} holds no answer for it (it answers {len(self._answers)})")
                )
        return replies

    def unknown(self, queries: Iterable[str]) -> tuple[str, ...]:
        """The queries that the file answers and that are not among `queries`, in file order."""
        ids = set(queries)
        return tuple(query for query in self._answers if query not in ids)

    def notes(self) -> dict[str, Any]:
        """How many of the answers no request has asked for yet, and the first ten of their queries."""
        left = self.unknown(self._requested)
        return {"answers_not_asked_for": len(left), "first_not_asked_for": list(left[:10])} if left else {}

    def forget_notes(self) -> None:
        """Forget which answers were asked for."""
        self._requested.clear()


def _read(path: Path) -> tuple[dict[str, int], dict[str, Any]]:
    """Line and answer by query id."""
    faults: list[Fault] = []
    lines: dict[str, int] = {}
    answers: dict[str, Any] = {}
    objects: list[Mapping[str, Any]] = []
    for number, text in iter_records(path, faults):
        try:
            answer = loads(text)
        except MalformedError as error:
            faults.append(Fault(f"{error}; expected one JSON object a line", path, number, error.column))
            continue
        if not isinstance(answer, dict):
            faults.append(Fault(f"expected an answer {{query, items}}, got {quoted(answer)}", path, number, 1))
            continue
        objects.append(answer)
        query = answer.get("query")
        if not isinstance(query, str):
            message = (
                f"query must be the id of a query, a text; got {quoted(query)}" if "query" in answer else "no query"
            )
            faults.append(Fault(f"{message}; expected {{query, items}}", path, number, 1))
        elif query in lines:
            faults.append(
                Fault(f"query {query!r} is answered twice, first in line {lines[query]}; keep one", path, number)
            )
        else:
            lines[query] = number
            answers[query] = answer
    if not objects and not faults:
        raise InputError([Fault(f"the file is empty; {_A_LINE}", path)])
    if objects and not any(name in answer for answer in objects for name in _ANSWERING):
        raise InputError([_no_answers(path, objects)])
    raise_faults(merge_equal_faults(sorted(faults, key=lambda fault: fault.line)), subject="answers")
    return lines, answers


def _no_answers(path: Path, objects: Sequence[Mapping[str, Any]]) -> Fault:
    """The fault of a file that holds something else than answers, and what it may be."""
    names = list(dict.fromkeys(str(name) for answer in objects for name in answer))
    message = f"these are no answers: no line has 'items' or 'ranking'; they have {', '.join(map(quoted, names[:8]))}"
    hint = _A_LINE
    if expects(objects):
        hint += f"; evals, which say what is expected, are made a dataset by `ctxbench data import golden {path}`"
    return Fault(f"{message}; {hint}", path)


def all_empty(name: str, dataset: str) -> str:
    """The message where a selector's answers offer nothing for any query of a dataset, which figures alone hide."""
    return f"every answer of {name} on {dataset} is empty: nothing is offered for any query"
