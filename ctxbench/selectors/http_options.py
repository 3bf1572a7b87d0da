"""Options of a selector behind an HTTP address: limits, headers, the key."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxbench.core.errors import ParameterError, check_choice, check_range
from ctxbench.selectors.protocol import (
    SENDS,
)

if TYPE_CHECKING:
    pass

LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How an endpoint is asked.

    Attributes:
        send: what it gets when it asks for the catalog: `items`, `ids`, or `nothing`.
        timeout: seconds for one POST, > 0, to the last byte of its response. A time-out is not tried again.
        batch: requests in a POST, 1 to 1000; each is to be answered as if it came alone.
        concurrency: POSTs at a time, 1 to 64.
        retries: how often a POST is tried again where the connection failed or the status was 429 or 503, 0 to 10.
        backoff: seconds before the first such try, doubled each time; a Retry-After goes before it.
        authorization_env: name of the environment variable that holds the value of the Authorization header.
    """

    send: str = "items"
    timeout: float = 60.0
    batch: int = 1
    concurrency: int = 1
    retries: int = 2
    backoff: float = 0.5
    authorization_env: str | None = None

    def __post_init__(self) -> None:
        check_choice("send", self.send, SENDS)
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise ParameterError(f"timeout must be more than 0 seconds, got {self.timeout}")
        if not 0 <= self.backoff <= LONGEST_WAIT_S:
            raise ParameterError(f"backoff must be 0 to {LONGEST_WAIT_S:g} seconds, got {self.backoff}")
        ranges = (
            ("batch", self.batch, 1, 1000),
            ("concurrency", self.concurrency, 1, 64),
            ("retries", self.retries, 0, 10),
        )
        for name, value, minimum, maximum in ranges:
            check_range(name, value, minimum, maximum)


def secret_of(name: str | None) -> str:
    """The value of an environment variable that holds a key; empty without a name.

    Raises:
        ParameterError: it is not set.
    """
    if name is None:
        return ""
    value = os.environ.get(name, "")
    if not value:
        raise ParameterError(f"authorization_env names the variable {name!r}, which is not set or empty; set it")
    if not (value.isascii() and value.isprintable()):
        raise ParameterError(f"the value of the variable {name!r} cannot stand in a header; expected printable ASCII")
    return value
