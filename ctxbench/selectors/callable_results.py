"""Turns the result of a Python callable into answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from ctxbench.selectors.protocol import RawAnswer, quoted


class NotAnAnswerError(Exception):
    """The function returned something that is no answer."""


def one_answer(query: str, result: Any) -> Any:
    """Ids, rows or an answer, as an answer."""
    if isinstance(result, Mapping):
        return _plain({"query": query, **result})
    if isinstance(result, str | bytes | set | frozenset) or not isinstance(result, Iterable):
        raise NotAnAnswerError(f"the callable returned {quoted(result)}; expected a list of ids, or an answer as dict")
    return _plain({"query": query, "items": [{"id": row} if isinstance(row, str) else row for row in result]})


_PLAIN = (str, int, float, bool, type(None))


class _Shown:
    """A placeholder for a value that JSON does not have; its `repr` looks like the value."""

    def __init__(self, value: Any) -> None:
        self._text = quoted(value)

    def __repr__(self) -> str:
        return self._text


def _plain(value: Any) -> Any:
    """A value as JSON would hold it, so that to read it later runs none of the user's code."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {_plain(key) if isinstance(key, _PLAIN) else _Shown(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(entry) for entry in value]
    return _Shown(value)


def batch_answers(ids: Sequence[str], result: Any) -> list[RawAnswer]:
    """The results of a batch, as replies in the order of `ids`."""
    if isinstance(result, Mapping):
        extra = [key for key in result if key not in ids]
        if extra:
            raise NotAnAnswerError(f"the callable answered query {quoted(extra[0])}, which it was not asked")
        return [
            RawAnswer(answer=one_answer(query, result[query]))
            if query in result
            else RawAnswer(error="the callable returned a dict without it")
            for query in ids
        ]
    if not isinstance(result, Sequence) or isinstance(result, str | bytes):
        raise NotAnAnswerError(f"the callable returned {quoted(result)}; expected a list of answers, or a dict by id")
    if len(result) != len(ids):
        raise NotAnAnswerError(f"the callable returned {len(result)} answers to {len(ids)} requests; expected as many")
    return [RawAnswer(answer=one_answer(query, entry)) for query, entry in zip(ids, result, strict=True)]
