"""`ctxbench serve`: contexts over HTTP; and the dataset that feedback on them makes."""

from __future__ import annotations

import logging
import shlex
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ctxbench.cli.output import print_json
from ctxbench.core.errors import ParameterError, StorageError, UserError, check_range, suggest
from ctxbench.core.installation import install_command
from ctxbench.data.datasets.dataset import name_of_path
from ctxbench.data.datasets.writer import create_dataset
from ctxbench.data.feedback_labels import feedback_dataset
from ctxbench.data.labelling.query_files import EXPOSURE, write_exposures
from ctxbench.io.console import say
from ctxbench.io.visible import count
from ctxbench.server.context_service import ContextService
from ctxbench.server.user_tokens import UserTokens, others_may_read, read_tokens
from ctxbench.stores.memories import checked_name
from ctxbench.stores.sqlite import SqliteStore

_log = logging.getLogger("ctxbench.server")
_GRACE = 10  # seconds that requests under way get when the service is stopped


def run(
    database: Path,
    workspace: str,
    *,
    selector: str,
    embedder: str,
    who: tuple[Path | None, str | None],
    at: tuple[str, int],
) -> None:
    """Serve until stopped.

    Args:
        database: its path.
        workspace: the one whose items are served.
        selector, embedder: as `ContextService` takes them.
        who: a token file, or the one user; both None = no user.
        at: host and port; 0 = any that is free.

    Raises:
        UserError: something is not there, not installed or does not suit; then nothing was served.
    """
    try:
        import uvicorn

        from ctxbench.server.web_app import LOOPBACK, Access, web_app
    except ImportError:
        raise ParameterError(f"serving takes the extra `server`: {install_command('server')}") from None
    check_range("--port", at[1], 0, 65_535)
    file, user = who
    if file is not None and user is not None:
        raise ParameterError("--tokens and --user both say who asks; leave one out")
    if file is None and at[0] not in LOOPBACK:
        requirement = f"without --tokens only this machine may ask: --host {LOOPBACK[0]}"
        raise ParameterError(f"{requirement}, got {at[0]!r}; with --tokens FILE others may, who then need a token")
    if user is not None:
        checked_name("--user", user)
    tokens = None if file is None else read_tokens(file)
    if file is not None and others_may_read(file):
        say(f"warning: {file} can be read by others; run `chmod 600 {shlex.quote(str(file))}`", err=True)
    users = (user,) if tokens is None else tokens.users
    with SqliteStore(database, create=False) as store:
        if workspace not in store.workspaces():
            raise ParameterError(f"{database} has no workspace {workspace!r}{suggest(workspace, store.workspaces())}")
        service = ContextService(store, workspace, selector=selector, embedder=embedder)
        service.check_users(users)
        with _bound(*at) as listening, _logging():
            service.prepare(users)  # who asks meanwhile waits
            if file is not None and tokens is not None:
                _read_again_on_hangup(file, tokens, service)
            host, port = listening.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            text = f"workspace {workspace} of {database} by {selector} at {url}"
            say(f"{text}, described at {url}/openapi.json; Ctrl-C ends it", err=True)
            options: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
            access = Access(tokens=tokens, user=user)
            settings = uvicorn.Config(web_app(service, access), timeout_graceful_shutdown=_GRACE, **options)
            uvicorn.Server(settings).run([listening])


class _OnStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(
            OSError, ValueError
        ):  # nobody reads it any more, or the disk is full: requests are still answered
            say(self.format(record), err=True)


@contextmanager
def _logging() -> Iterator[None]:
    """Log what the service does on standard error, a line for each context among it."""
    logger, handler = logging.getLogger("ctxbench.server"), _OnStandardError()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def _read_again_on_hangup(file: Path, tokens: UserTokens, service: ContextService) -> None:
    """Read the token file again at each SIGHUP; where it is faulty, the tokens stay as they are."""

    def read_again(_number: int, _frame: object) -> None:
        try:
            new = read_tokens(file)
            service.check_users(new.users)
        except UserError as error:
            _log.error("the tokens stay as they were: %s", " ".join(str(error).split()))
            return
        tokens.replace_by(new)
        _log.info("read %s again: %s", file, count(len(new.users), "user"))

    if hasattr(signal, "SIGHUP"):  # Windows has none
        signal.signal(signal.SIGHUP, read_again)


def write_labels(database: Path, workspace: str, out: Path, *, as_json: bool) -> None:
    """Write the dataset of a store's feedback, and say what is in it.

    Raises:
        UserError: there is no such store or workspace, or no feedback in it, or the folder holds something else.
    """
    with SqliteStore(database, create=False) as store:
        dataset, exposures = feedback_dataset(store, workspace, name=name_of_path(out, "feedback"))
    create_dataset(dataset, out)
    if exposures or (out / EXPOSURE).exists():  # of an earlier call
        write_exposures(exposures, out)
    useful = sum(label.grade == 2 for label in dataset.labels)
    partly = sum(query.partly_labelled for query in dataset.queries)
    insufficient = sum(bool(exposure.signals) for exposure in exposures)
    if as_json:
        facts = {"dataset": str(out), "queries": len(dataset.queries), "useful": useful}
        facts |= {"sufficient": len(exposures) - insufficient, "notSufficient": insufficient, "inPart": partly}
        print_json({**facts, "notUseful": len(dataset.labels) - useful})
        return
    of = f"{count(len(dataset.queries), 'query', 'queries')}, {count(useful, 'item')} useful"
    say(f"{out}: {of}, {len(dataset.labels) - useful:,} not")
    if exposures:
        say(f"{count(len(exposures) - insufficient, 'context')} sufficient, {insufficient:,} lacking something")
    if partly:
        rest = shlex.join(["ctxbench", "data", "label", str(out)])
        are = "these are" if partly == len(dataset.queries) else f"{partly:,} of these are"
        say(f"figures take queries that are labelled in full, and {are} in part; `{rest}` asks what else they need")


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        StorageError: it cannot, as where another program has the port.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        why = getattr(error, "strerror", None) or error
        raise StorageError(
            f"cannot serve at {host}, port {port}: {why}; name another one by --port or --host"
        ) from None
