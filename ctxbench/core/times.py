"""Times as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ctxbench.core.errors import ParameterError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> int:
    """A time in microseconds since 1970, from ISO 8601.

    A time without an offset is UTC, and a date without a time its first moment.

    Raises:
        ParameterError: it is no such text.
    """
    away = _moment(text) - _EPOCH
    return (away.days * 86_400 + away.seconds) * 1_000_000 + away.microseconds


def instant_text(when: int) -> str:
    """A time from microseconds since 1970, as people read it: `2026-03-23 09:30:00`, in UTC."""
    return (_EPOCH + timedelta(microseconds=when)).strftime("%Y-%m-%d %H:%M:%S")


def in_utc(text: str | None) -> str:
    """A time in ISO 8601 and UTC, `2026-03-23T09:30:00+00:00`; None is now. In this form texts sort as times do.

    Raises:
        ParameterError: it is no such text, or in UTC of no year from 1 to 9999.
    """
    try:
        return (datetime.now(UTC) if text is None else _moment(text).astimezone(UTC)).isoformat()
    except OverflowError:
        raise ParameterError(f"must be of the years 1 to 9999, got {text!r}") from None


def _moment(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"must be ISO 8601, such as 2026-03-23T09:30:00+00:00, got {text!r}") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def named_instant(name: str, text: str | None, where: str = "") -> int | None:
    """As `instant`, of a value with a name; None of none.

    Raises:
        ParameterError: it is no such text; says the name, and `where` behind.
    """
    try:
        return None if text is None else instant(text)
    except ParameterError as error:
        raise ParameterError(f"{name} {error}{where}") from None
