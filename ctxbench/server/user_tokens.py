"""Bearer tokens and their users."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError, raise_faults
from ctxbench.io.yaml_files import line_of, load_yaml
from ctxbench.stores.memories import checked_name

SHORTEST = 16  # characters of a token
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # as of RFC 6750
_QUOTED = re.compile("'.*'", re.DOTALL)


class UserTokens:
    """The users of a service by their tokens.

    Args:
        users: by token; None = of a token that may read figures, and ask nothing.
    """

    def __init__(self, users: Mapping[str, str | None]) -> None:
        self._users = [(_digest(token), user) for token, user in users.items()]

    @property
    def users(self) -> tuple[str, ...]:
        """The users with a token, each once."""
        return tuple(dict.fromkeys(user for _, user in self._users if user is not None))

    def replace_by(self, tokens: UserTokens) -> None:
        """Replace the tokens by those of another; running requests go on."""
        self._users = tokens._users

    def find(self, token: str) -> tuple[str | None] | None:
        """The user of a token, in a tuple; None where there is no such token.

        It takes equally long whatever the token: each is compared, by its hash.
        """
        digest, match = _digest(token), None
        for user_digest, user in self._users:
            if hmac.compare_digest(digest, user_digest):
                match = (user,)
        return match


def read_tokens(path: Path) -> UserTokens:
    """Read a token file: a YAML or JSON mapping from tokens to users, null for one that reads figures alone.

    Raises:
        StorageError: the file cannot be read, or others than its owner may write it.
        InputError: it is no such mapping, or holds something that is no token or user; no token is quoted.
    """
    if _mode(path) & (stat.S_IWGRP | stat.S_IWOTH):
        raise StorageError(f"{path} can be written by others, who could add a token; run `chmod 600 {path}`")
    try:
        data, lines = load_yaml(path)
    except InputError as error:
        raise InputError(
            [replace(fault, message=_QUOTED.sub("'…'", fault.message)) for fault in error.faults]
        ) from None
    if not isinstance(data, Mapping) or not data:
        raise InputError([Fault("a token file is a mapping from tokens to users, `TOKEN: NAME` a line", path)])
    faults = []
    for number, (token, user) in enumerate(data.items(), start=1):
        line = line_of(lines, (token,))
        if not isinstance(token, str) or len(token) < SHORTEST or not _TOKEN.fullmatch(token):
            expected = f"{SHORTEST} or more letters, digits and . _ ~ + / -"
            faults.append(Fault(f"token {number} must be {expected}; `openssl rand -hex 32` makes one", path, line))
        if user is not None:
            try:
                checked_name(f"the user of token {number}", user)
            except ParameterError as error:
                faults.append(Fault(str(error), path, line))
    raise_faults(faults)
    return UserTokens(data)


def others_may_read(path: Path) -> bool:
    """Whether others than its owner may read a token file."""
    return bool(_mode(path) & (stat.S_IRGRP | stat.S_IROTH))


def _mode(path: Path) -> int:
    """The permission bits of a file; none if it does not exist, or the system has no such bits."""
    try:
        return 0 if os.name == "nt" else stat.S_IMODE(path.stat().st_mode)
    except (OSError, ValueError):
        return 0


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
