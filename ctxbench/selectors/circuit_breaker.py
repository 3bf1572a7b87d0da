"""A circuit breaker: a selector outside is asked no more once several times in a row nothing came back."""

from __future__ import annotations

import threading

# One slow query, or one that a selector dies on, is no reason to give up, and seldom are several of them neighbours.
# Each costs a time limit, by default a minute or two: a dead selector is found out in minutes, not in hours.
SILENT_AT_MOST = 5
NOT_ASKED = "not asked: "  # how the error of a query begins that was given up on


class CircuitBreaker:
    """Counts what was asked in a row, in the order that it ended in, without an answer.

    Where several are asked at a time, as many times as many may be lost, so that to give up takes as long. Once given
    up, a selector stays so over this catalog, until it is closed; what is asked already may still be answered.
    Several threads may use it.
    """

    def __init__(self, *, what: str = "queries", at_a_time: int = 1) -> None:
        """Nothing is lost yet.

        Args:
            what: what is asked, in the plural, for messages.
            at_a_time: how many are asked side by side, >= 1.
        """
        self._what = what
        self._most = SILENT_AT_MOST * at_a_time
        self._lock = threading.Lock()
        self._catalog = ""
        self._failures = 0
        self._refusal = ""

    def begin(self, catalog: str) -> None:
        """Requests over the catalog of this hash come next; over another catalog it is counted anew."""
        with self._lock:
            if catalog != self._catalog:
                self._catalog, self._failures, self._refusal = catalog, 0, ""

    def succeeded(self) -> None:
        """Count an answer, whatever it says."""
        with self._lock:
            self._failures = 0

    def failed(self, why: str) -> None:
        """Count a question without an answer; `why` says what happened."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._most and not self._refusal:
                self._refusal = f"{NOT_ASKED}{self._failures} {self._what} in a row had no answer; the last: {why}"

    @property
    def refusal(self) -> str:
        """Why nothing more is asked; empty while it is."""
        return self._refusal

    def reset(self) -> None:
        """Set the count back to 0."""
        self.begin("")
