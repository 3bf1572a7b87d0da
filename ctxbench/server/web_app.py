"""The HTTP interface of a service: users, bodies, and all errors in one form (RFC 9457)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ctxbench.core.errors import ParameterError, UserError
from ctxbench.server.context_service import ContextService, NotSeenError
from ctxbench.server.openapi import ASK, JUDGE, PROBLEMS, SUFFICE, document, faults_in
from ctxbench.server.user_tokens import UserTokens

_log = logging.getLogger(__name__)
T = TypeVar("T")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_THREADS = 8  # answers are made side by side, as far as Python lets them
_AT_ONCE = 4  # of these for one user, so that another finds one free
_WAITING = 100  # requests for contexts of one user, those that are answered included


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The users that may send requests, and their limits.

    Attributes:
        tokens: of users; None = everybody who reaches the service is `user`.
        user: that one; None = sees what is everybody's.
        body: bytes of a body at most.
        seconds: for a body to arrive, and for an answer to be made.
    """

    tokens: UserTokens | None = None
    user: str | None = None
    body: int = 1_000_000
    seconds: float = 30.0


class _Problem(HTTPException):
    """An error with a message for the client."""


def web_app(service: ContextService, access: Access) -> Starlette:
    """The service as an ASGI application.

    An answer that takes too long is given up; the thread that makes it goes on until it is there.
    """
    return _WebApp(service, access).app()


class _WebApp:
    """The addresses of the interface."""

    def __init__(self, service: ContextService, access: Access) -> None:
        self._service = service
        self._access = access
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="context")
        self._requests = Counter[str | None]()  # for contexts that are not answered yet, by user
        self._turns: dict[str | None, asyncio.Semaphore] = {}

    def app(self) -> Starlette:
        routes = [
            Route("/context/build", self._build, methods=["POST"]),
            Route("/context/preview", self._preview, methods=["POST"]),
            Route("/context/feedback", self._feedback, methods=["POST"]),
            Route("/context/sufficient", self._sufficient, methods=["POST"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: _problem_response,
            UserError: _problem_response,
            Exception: _problem_response,
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _build(self, request: Request) -> Response:
        return await self._answer(request, self._service.build)

    async def _preview(self, request: Request) -> Response:
        return await self._answer(request, self._service.preview)

    async def _answer(self, request: Request, answer: Callable[..., Any]) -> Response:
        user = self._user(request)
        body = await self._body(request, ASK)

        def answer_body() -> bytes:
            answered = answer(body["message"], thread=body.get("threadId"), user=user).as_dict()
            return json.dumps(answered, ensure_ascii=False, allow_nan=False).encode()

        if self._requests[user] >= _WAITING:
            problem = f"{_WAITING} requests of yours are not answered yet; ask again later"
            raise _Problem(429, problem, {"Retry-After": "1"})
        self._requests[user] += 1
        try:
            turn = self._turns.setdefault(user, asyncio.Semaphore(_AT_ONCE))
            return Response(await self._within(answer_body, turn), media_type="application/json")
        finally:
            self._requests[user] -= 1

    async def _feedback(self, request: Request) -> Response:
        user = self._user(request)
        body = await self._body(request, JUDGE)

        def store_feedback() -> None:
            fields = {"useful": body["useful"], "user": user, "context": body.get("contextId")}
            self._service.feedback(body["contextItemId"], **fields)

        await self._within(store_feedback)
        return JSONResponse({"success": True})

    async def _sufficient(self, request: Request) -> Response:
        user = self._user(request)
        body = await self._body(request, SUFFICE)
        await self._within(lambda: self._service.sufficient(body["contextId"], body["sufficient"], user=user))
        return JSONResponse({"success": True})

    async def _metrics(self, request: Request) -> Response:
        """Sums over all users: with tokens, none of a user reads them."""
        if self._access.tokens is None:
            self._user(request)
        elif self._token(request) is not None:
            raise _Problem(403, "a user's token reads no figures; take one whose user is null in the token file")
        return PlainTextResponse(self._service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(document(tokens=self._access.tokens is not None))

    def _user(self, request: Request) -> str | None:
        """The user of a request."""
        if self._access.tokens is not None:
            user = self._token(request)
            if user is None:
                raise _Problem(403, "this token reads figures alone; take a user's")
            return user
        name = request.url.hostname
        if name not in LOOPBACK:  # a page on the web whose name was made to lead here
            raise _Problem(421, f"without tokens the service answers as {', '.join(LOOPBACK)} alone, not {name!r:.80}")
        return self._access.user

    def _token(self, request: Request) -> str | None:
        """The user of the request's token; None of one that reads figures."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self._access.tokens.find(token.strip()) if self._access.tokens and scheme.lower() == "bearer" else None
        if user is None:
            problem = "the token is unknown" if token else "there is no token"
            headers = {"WWW-Authenticate": 'Bearer error="invalid_token"' if token else "Bearer"}
            raise _Problem(401, f"{problem}; send `Authorization: Bearer TOKEN` with one of the token file", headers)
        return user[0]

    async def _body(self, request: Request, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The body, complete and checked."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise _Problem(415, f"the body must be said to be application/json, not {kind or 'nothing'!r:.80}")
        try:
            data = await asyncio.wait_for(self._read(request), self._access.seconds)
        except TimeoutError:
            raise _Problem(408, f"the body was not there after {self._access.seconds:g} s") from None
        try:
            body = json.loads(data.decode("utf-8"), parse_constant=_refused)
            json.dumps(body, ensure_ascii=False).encode("utf-8")  # half characters, which no tokenizer reads
        except (ValueError, RecursionError) as error:
            raise _Problem(400, f"the body must be JSON in UTF-8: {str(error)[:200]}") from None
        if faults := list(faults_in(body, schema)):
            raise _Problem(422, "; ".join(faults[:10]))
        checked: dict[str, Any] = body
        return checked

    async def _read(self, request: Request) -> bytes:
        limit, data = self._access.body, bytearray()
        async for part in request.stream():
            data += part
            if len(data) > limit:
                raise _Problem(413, f"the body has more than {limit:,} bytes; send less", {"Connection": "close"})
        return bytes(data)

    async def _within(self, call: Callable[[], T], turn: asyncio.Semaphore | None = None) -> T:
        """Run a function in a thread, after waiting for its turn; returns its result if it comes in time."""

        def ended(running: asyncio.Future[T]) -> None:
            if turn is not None:
                turn.release()
            if not running.cancelled():
                running.exception()  # of a late answer nobody else asks for it

        async def answered() -> T:
            if turn is not None:
                await turn.acquire()
            running = asyncio.get_running_loop().run_in_executor(self._threads, call)
            running.add_done_callback(ended)  # a thread that is late keeps its turn until it ends
            return await asyncio.shield(running)

        try:
            return await asyncio.wait_for(answered(), self._access.seconds)
        except TimeoutError:
            raise _Problem(503, f"no answer after {self._access.seconds:g} s; ask again later") from None


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


async def _problem_response(_: Request, error: Exception) -> Response:
    """The response to an error; an internal error, such as one of the database, is only named as such."""
    headers: Mapping[str, str] | None = None
    match error:
        case _Problem():
            status, detail, headers = error.status_code, error.detail, error.headers
        case HTTPException():
            status, headers = error.status_code, error.headers
            detail = "see /openapi.json for the addresses and their methods"
        case NotSeenError():
            status, detail = 404, str(error)
        case ParameterError():
            status, detail = 422, str(error)
        case _:
            status, detail = 500, "the server failed; its log says more"
            if isinstance(error, UserError):  # others are logged by who runs this
                _log.error("%s", error)
    body = {"type": "about:blank", "title": PROBLEMS.get(status, "An error."), "status": status, "detail": detail}
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")
