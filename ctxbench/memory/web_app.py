"""The HTTP interface of the service: tokens, OpenAPI and routes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import math
import os
import re
import stat
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from pydantic import Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ctxbench.io.documents import YamlPath, line_of, load_yaml
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UserError,
    one_line,
    raise_faults,
    raise_first,
)
from ctxbench.memory.engine import DEEPEST, MOST_TOKENS
from ctxbench.memory.memories import STORED, checked_name
from ctxbench.memory.service import ConflictError, ContextService, Metrics, NotSeenError, Writing
from ctxbench.memory.stores import Imported
from ctxbench.model.formats import FileModel, Given, Source, Texts, validate
from ctxbench.pipelines.strategies.format import TEMPLATES, VARIABLES
from ctxbench.selectors.conversations import MessageRow, SessionFile, ToolResultRow

SHORTEST = 16  # characters of a token
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # as of RFC 6750
_QUOTED = re.compile("'.*'", re.DOTALL)

TokensFile: TypeAlias = dict[str, str | None]
"""The tokens of a service, each with its user; None = a token for metrics only."""


class UserTokens:
    """The users of a service by their tokens.

    Attributes:
        is_stale: whether their file was faulty when it was read again.

    Args:
        users: users by token; None = a token for metrics only.
    """

    def __init__(self, users: Mapping[str, str | None]) -> None:
        self.is_stale = False
        self._users = [(_digest(token), user) for token, user in users.items()]

    @property
    def users(self) -> tuple[str, ...]:
        """The users with a token."""
        return tuple(dict.fromkeys(user for _, user in self._users if user is not None))

    def replace_by(self, tokens: UserTokens) -> None:
        """Replace the tokens; running requests continue."""
        self._users, self.is_stale = tokens._users, False

    def find(self, token: str) -> tuple[str | None] | None:
        """The user of a token, in a tuple; None for an unknown token.

        The time does not depend on the token: the hashes of all tokens are compared.
        """
        digest, match = _digest(token), None
        for user_digest, user in self._users:
            if hmac.compare_digest(digest, user_digest):
                match = (user,)
        return match


def read_tokens(path: Path) -> UserTokens:
    """Read a token file: a YAML or JSON mapping from tokens to users, null for metrics only.

    Raises:
        StorageError: the file cannot be read, or others may write it.
        InputError: it is not such a mapping, or a token or user is invalid; messages have no tokens.
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
        raise InputError([Fault("a token file is a mapping from tokens to users, `TOKEN: NAME` per line", path)])
    faults = []
    for number, (token, user) in enumerate(data.items(), start=1):
        line = line_of(lines, (token,))
        if not isinstance(token, str) or len(token) < SHORTEST or not _TOKEN.fullmatch(token):
            faults.append(Fault(Message("memory.token-form", number=number, shortest=SHORTEST), path, line))
        if user is not None:
            try:
                checked_name(f"the user of token {number}", user)
            except ParameterError as error:
                faults.append(Fault(str(error), path, line))
    raise_faults(faults)
    return UserTokens(data)


def others_may_read(path: Path) -> bool:
    """Whether others may read a token file."""
    return bool(_mode(path) & (stat.S_IRGRP | stat.S_IROTH))


def _mode(path: Path) -> int:
    """The permission bits of a file; 0 if it does not exist, or on Windows."""
    try:
        return 0 if os.name == "nt" else stat.S_IMODE(path.stat().st_mode)
    except (OSError, ValueError):
        return 0


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


VERSION = "1"  # of the interface
LONGEST = 80_000  # characters of a message, so that an escaped body is within its limit
_FIT = r"[^\u0000-\u001f\u007f-\u009f\u2028\u2029"
_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": rf"^{_FIT}]*{_FIT}\s]{_FIT}]*$"}
# Python's \s has control characters that the \s of JSON Schema (ECMA 262) lacks
_MESSAGE = {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": r"[^\s\x1c-\x1f\x85]"}
_ID = {"type": "string", "minLength": 1, "maxLength": 2_000}
_STRING, _NUMBER, _COUNT = {"type": "string"}, {"type": ["number", "null"]}, {"type": "integer", "minimum": 0}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}, **keywords}


def _list(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


_WRITTEN = r"([^{}]|\{\{(" + "|".join(VARIABLES) + r")\}\})*"
_TEMPLATE = _object(
    {"memoryFormat": {**_STRING, "pattern": rf"^{_WRITTEN}\{{\{{content\}}\}}{_WRITTEN}$"}},
    {name: {**_STRING, "pattern": r"^(?![\s\S]*\{\{[^{}]*\}\})"} for name in ("header", "separator", "footer")}
    | {"name": _STRING, "includeMetadata": {"type": "boolean"}},
    additionalProperties=False,
)
_WRITING = {
    "template": {"type": ["string", "object"], "anyOf": [{"enum": [*TEMPLATES]}, _TEMPLATE]},
    "tokenBudget": {"type": "integer", "minimum": 1, "maximum": MOST_TOKENS},
    "includeRelationships": {"type": "boolean"},
    "relationshipDepth": {"type": "integer", "minimum": 0, "maximum": DEEPEST},
}
ASK = _object(
    {"message": _MESSAGE},
    {"threadId": _NAME, **_WRITING},
    additionalProperties=False,
    **{
        "if": {"required": ["relationshipDepth"]},
        "then": {"required": ["includeRelationships"], "properties": {"includeRelationships": {"const": True}}},
    },
)
JUDGE = _object({"contextItemId": _ID, "useful": {"type": "boolean"}}, {"contextId": _ID}, additionalProperties=False)
_PRINTED = r"[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f"
_CONTENT = {"type": "string", "minLength": 1, "maxLength": 1_000_000}
_CONTENT |= {"pattern": rf"^{_PRINTED}]*{_PRINTED}\s\u001c-\u001f\u0085]{_PRINTED}]*$"}
_OWN_ID = {**_NAME, "pattern": rf"^(?!~){_NAME['pattern'][1:]}"}
_DATE = (
    r"^((?!0000|0001-01-01|9999-12-31)[0-9]{4}-"  # of the years 1 to 9999 in UTC, too
    r"((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    r"|([0-9][0-9](0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?$"
)
_TIME = {"type": "string", "minLength": 10, "maxLength": 40, "pattern": _DATE, "description": "ISO 8601"}
_LINK = _object({"type": _NAME, "target": _NAME}, additionalProperties=False)
_ROW = _object(
    {"id": _OWN_ID, "type": {"type": "string", "enum": [*STORED]}, "content": _CONTENT},
    dict.fromkeys(("kind", "conversation"), _NAME)
    | {"created": _TIME, "confidence": {"type": "number", "minimum": 0, "maximum": 1}, "metadata": {"type": "object"}}
    | {"relationships": _list(_LINK)},
    additionalProperties=False,
    **{"if": {"properties": {"type": {"const": "file"}}}, "else": {"properties": {"id": {"pattern": "^[^@]*$"}}}},
)
_EVENT = _object(
    {"event": {"type": "string", "enum": ["reference", "unreference", "access"]}, "id": _NAME},
    {"conversation": _NAME, "at": _TIME},
    additionalProperties=False,
    **{"if": {"properties": {"event": {"const": "access"}}}, "else": {"required": ["conversation"]}},
)
IMPORT = _object({}, {"items": _list(_ROW), "events": _list(_EVENT)}, additionalProperties=False)
SUFFICE = _object({"contextId": _ID, "sufficient": {"type": "boolean"}}, additionalProperties=False)

_FACTS = {"path": _STRING, "createdAt": _STRING, "matchedKeywords": _list(_STRING), "searchRank": _COUNT}
_ITEM = _object(
    dict.fromkeys(("id", "type", "source"), _STRING)
    | {"relevance": _NUMBER, "tokens": _COUNT, "metadata": _object({}, _FACTS)},
    {"content": _STRING, "excerpt": _STRING},
)
_STATS = _object(dict.fromkeys(("explicitCount", "searchCount", "historyCount", "excludedCount"), _COUNT))
_DATA = {"id": _STRING, "totalTokens": _COUNT, "context": _STRING, "items": _list(_ITEM), "stats": _STATS}
_CITATION = _object(
    dict.fromkeys(("id", "source", "type", "excerpt"), _STRING) | {"usedInResponse": {"type": "boolean"}},
    {"path": _STRING, "relevance": _NUMBER},
)
_DATA |= {"citations": _list(_CITATION), "notes": _list({"type": "object"}), "truncated": {"type": "boolean"}}
_META = _object(dict.fromkeys(("tokenUsage", "sourceCount", "citationCount"), _COUNT))
_CONTEXT = _object({"data": _object(_DATA, {"template": _STRING}), "meta": _META})
_IMPORTED = _object({spec.name: _COUNT for spec in fields(Imported)})
_PROBLEM = _object({"type": _STRING, "title": _STRING, "status": _COUNT, "detail": _STRING})

PROBLEMS = (400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 500, 503)
"""Statuses of errors; their titles are the phrases of HTTP."""


def context_paths() -> dict[str, Any]:
    """The paths of a service of contexts, as OpenAPI has them."""
    done = _object({"success": {"const": True}})
    return {
        "/context/build": _post("Build the context.", ASK, _CONTEXT),
        "/context/preview": _post("Preview the context.", ASK, _CONTEXT),
        "/context/feedback": _post("Judge an item.", JUDGE, done),
        "/context/sufficient": _post("Judge a context.", SUFFICE, done),
        "/context/import": _post("Store files, messages, memories and events.", IMPORT, _IMPORTED),
    }


class SelectBody(FileModel):
    """A request to a selector."""

    noun = "the body"
    text: str = Field(max_length=LONGEST, description="The request, in the words of the user.")
    history: Given[Texts[MessageRow]] = Field(None, description="Earlier messages, oldest first.")
    session: Given[SessionFile] = Field(None, description="The session of a chat, as in a session file.")
    add: Texts[str] = Field((), description="Ids of items, or paths of files, to add to the session.")
    remove: Texts[str] = Field((), description="Ids of items, or paths of files, to remove from the session.")
    tool_results: Texts[ToolResultRow] = Field((), description="Results of tools, for selectors that search with them.")
    preset: Given[str] = Field(None, description="A preset of the selector; by default that of the command line.")
    set: dict[str, bool | int | float | str] = Field({}, description="Values of the selector's parameters.")
    time: Given[str] = Field(None, description="The time of the request, ISO 8601; by default what has not ended.")
    near: int = Field(5, ge=0, le=1_000, description="How many excluded items are listed.")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002 - of the base
        """Check that a request of a chat has no time."""
        if self.time is not None and (self.history is not None or self.session or self.add or self.remove):
            yield ("time",), Message("memory.time-in-chat")


_OFFERED = _object(
    dict.fromkeys(("id", "type", "name", "mode"), _STRING) | {"tokens": _COUNT}, {"score": _NUMBER, "rule": _STRING}
)
_COUNTS = {"type": "object", "additionalProperties": _COUNT}
_ANSWER = _object(
    {"selector": _STRING, "parameters": {"type": "object"}, "embedder": _STRING, "tokens": _STRING, "query": _STRING}
    | {"chunks": _list(_STRING), "eligible": _COUNT, "items": _list(_OFFERED), "left_out": _list(_OFFERED)}
    | {"prompt_tokens": _COUNT, "total_tokens": _COUNT, "not_searched": _COUNTS, "request_context": {"type": "object"}},
    {"session": {"type": "object"}, "trace": _list({"type": "object"})},
)
_FAULT = {"items": _COUNT, "fault": _STRING}  # not for whoever has no token
_HEALTH = _object({"status": {"enum": ["ok", "stale"]}, "selector": _STRING}, {"digest": _STRING} | _FAULT)


def select_paths() -> dict[str, Any]:
    """The paths of a service of a selector, as OpenAPI has them."""
    select = _post("Select items.", {"$ref": _SCHEMAS.format(model=SelectBody.__name__)}, _ANSWER)
    select["post"]["requestBody"]["content"]["application/json"]["example"] = {"text": "area of a triangle"}
    return {"/select": select}


_SCHEMAS = "#/components/schemas/{model}"


def document(paths: Mapping[str, Any], *, tokens: bool) -> dict[str, Any]:
    """The OpenAPI specification; with `tokens` all paths need one that do not say otherwise."""
    answers = _responses("application/json", {"schema": _HEALTH}, (421, 500, 503))
    health = {"get": {"summary": "Whether changed files could be read.", "responses": answers, "security": []}}
    figures = {"get": {"summary": "Figures.", "responses": _responses("text/plain", {}, (401, 403, 421))}}
    specification: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "ctxbench", "version": VERSION},
        "paths": {**paths, "/healthz": health, "/metrics": figures},
        "components": {},
    }
    if "/select" in paths:
        schema = SelectBody.model_json_schema(ref_template=_SCHEMAS)
        specification["components"]["schemas"] = {**schema.pop("$defs"), SelectBody.__name__: schema}
    if tokens:
        specification["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        specification["security"] = [{"token": []}]
    return specification


def _post(about: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    statuses = [status for status in PROBLEMS if status != 405]  # not possible for these methods
    responses = _responses("application/json", {"schema": answer}, statuses)
    return {"post": {"summary": about, "requestBody": body, "responses": responses}}


def _writing(body: Mapping[str, Any]) -> Writing | None:
    """How the context of a request is written; None = the defaults."""
    fields_ = {"template": "template", "tokenBudget": "budget", "relationshipDepth": "depth"}
    related = bool(body.get("includeRelationships"))
    raise_first(("relationshipDepth" in body and not related, Message("memory.depth-alone")))
    options: dict[str, Any] = ({"depth": 1} if related else {}) | {
        field: body[name] if name == "template" else int(body[name]) for name, field in fields_.items() if name in body
    }
    return Writing(**options) if options else None


def _responses(media: str, content: Mapping[str, Any], statuses: Sequence[int]) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": _PROBLEM}}
    responses = {str(status): {"description": HTTPStatus(status).phrase, "content": problem} for status in statuses}
    return {"200": {"description": "Done.", "content": {media: content}}, **responses}


def faults_in(body: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a body, for the keywords of JSON Schema used above."""
    if not isinstance(body, dict):
        yield Message("memory.body-object")
        return
    properties = schema["properties"]
    yield from (f"{name} is missing" for name in schema["required"] if name not in body)
    for name, value in body.items():
        if name not in properties:
            yield Message("memory.body-field", name=name, known=properties)
        elif fault := _fault(value, properties[name]):
            yield f"{name} {fault}"


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {  # types of values; ranges of numbers are up to the service
    "boolean": ((bool,), "must be true or false"),
    "integer": ((int,), "must be a whole number"),
    "number": ((int, float), "must be a number"),
    "array": ((list,), "must be a list"),
    "object": ((dict,), "must be an object"),
    "string": ((str,), "must be a text"),
}


def _fault(value: Any, schema: Mapping[str, Any]) -> str:
    """What is wrong with a value; empty if nothing is."""
    if "anyOf" in schema:  # the service reads templates
        return "" if isinstance(value, str | dict) else "must be a text or an object"
    types, message = _KINDS[schema["type"]]
    if type(value) not in types and not (
        schema["type"] == "integer" and isinstance(value, float) and value.is_integer()
    ):
        return message
    if schema["type"] == "array":
        faults = (f"{n}: {fault}" for n, row in enumerate(value, start=1) for fault in faults_in(row, schema["items"]))
        return "; ".join(islice(faults, 10))
    low, high = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    if isinstance(value, str) and not low <= len(value) <= high:
        return Message("memory.text-length", shortest=low, longest=high, got=len(value))
    if isinstance(value, str) and value not in schema.get("enum", [value]):
        return Message("memory.text-choice", known=schema["enum"], got=value)
    return (
        Message("memory.own-id" if schema is _OWN_ID else "memory.text-blank")
        if schema in (_OWN_ID, _NAME, _MESSAGE, _CONTENT) and not re.search(schema["pattern"], value)
        else ""
    )


_log = logging.getLogger(__name__)
T = TypeVar("T")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_THREADS = 8  # answers at the same time
_AT_ONCE = 4  # answers at the same time per user
_WAITING = 100  # open requests for contexts per user
_QUOTING = (404, 409, 415, 421, 422)  # errors that quote the request


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The users that may send requests, and their limits.

    Attributes:
        tokens: the tokens of users; None = all requests are of `user`.
        user: the user without tokens; None = sees public items only.
        body: the largest number of bytes of a body.
        seconds: the time limits for a body and for an answer.
    """

    tokens: UserTokens | None = None
    user: str | None = None
    body: int = 1_000_000
    seconds: float = 30.0


class _Problem(HTTPException):
    """An error with a message for the client."""


class SelectService(Protocol):
    """What answers requests to a selector."""

    metrics: Metrics

    def select(self, body: Mapping[str, Any], user: str | None) -> str:
        """The answer to a request without faults (`SelectBody`), as JSON."""

    def health(self) -> dict[str, Any]:
        """What it answers from, and the fault of changed files that could not be read."""


def web_app(service: ContextService | SelectService, access: Access) -> Starlette:
    """The service as an ASGI application.

    A request that takes too long gets an error; its thread continues until the answer is complete.
    """
    return (_ContextApp if isinstance(service, ContextService) else _SelectApp)(service, access).app()


class _WebApp(ABC):
    """What all services have in common: users, limits, figures and errors."""

    paths: Mapping[str, Any] = {}

    def __init__(self, service: Any, access: Access) -> None:
        self._service, self._access = service, access
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="context")
        self._requests = Counter[str | None]()  # open requests for answers, by user
        self._turns: dict[str | None, asyncio.Semaphore] = {}

    @abstractmethod
    def routes(self) -> list[Route]:
        """The addresses of the service."""

    def app(self) -> Starlette:
        routes = [
            *self.routes(),
            Route("/healthz", self._health, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
        ]
        handlers: dict[Any, Any] = dict.fromkeys((HTTPException, UserError, Exception), self._refuse)
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _refuse(self, request: Request, error: Exception) -> Response:
        """The response to an error, without details of internal errors; the log has no texts of requests."""
        headers: Mapping[str, str] | None = None
        match error:
            case HTTPException():
                status, headers = error.status_code, error.headers
                detail = error.detail if isinstance(error, _Problem) else Message("memory.no-such-address")
            case ParameterError():
                status, detail = {NotSeenError: 404, ConflictError: 409}.get(type(error), 422), str(error)
            case _:
                status, detail = 500, Message("memory.server-failed")
        phrase = HTTPStatus(status).phrase
        reason = str(error) if status == 500 and isinstance(error, UserError) else detail
        reason = phrase if status in _QUOTING else one_line(reason)
        who = "-" if (user := getattr(request.state, "user", None)) is None else repr(user)
        _log.log(logging.WARNING if status < 500 else logging.ERROR, "refused user=%s: %d, %s", who, status, reason)
        self._service.metrics.count(failures=1)
        body = {"type": "about:blank", "title": phrase, "status": status, "detail": detail}
        return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")

    async def _in_turn(self, user: str | None, call: Callable[[], T]) -> T:
        """Run a function in a thread, within the limits of a user."""
        if self._requests[user] >= _WAITING:
            raise _Problem(429, f"{_WAITING} of your requests are open; try again later", {"Retry-After": "1"})
        self._requests[user] += 1
        try:
            return await self._within(call, self._turns.setdefault(user, asyncio.Semaphore(_AT_ONCE)))
        finally:
            self._requests[user] -= 1

    async def _metrics(self, request: Request) -> Response:
        """Sums over all users; with tokens, users may not read them."""
        if self._access.tokens is None:
            self._user(request)
        elif self._token(request) is not None:
            raise _Problem(403, "users may not read metrics; use a token whose user is null in the token file")
        return PlainTextResponse(self._service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        """What is served; with tokens, without fault and items, since whoever asks needs none."""
        if self._access.tokens is None:
            self._user(request)
        health = await self._within(self._service.health)
        if self._access.tokens is not None:
            health = {name: value for name, value in health.items() if name not in _FAULT}
            health |= {"status": "stale"} if self._access.tokens.is_stale else {}
        return JSONResponse(health)

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(document(self.paths, tokens=self._access.tokens is not None))

    def _user(self, request: Request) -> str | None:
        """The user of a request."""
        if self._access.tokens is not None:
            user = self._token(request)
            if user is None:
                raise _Problem(403, "this token is for metrics only; use the token of a user")
            request.state.user = user  # for the log
            return user
        name = request.url.hostname
        if name not in LOOPBACK:  # DNS rebinding by a web page
            raise _Problem(421, f"without tokens the host must be one of {', '.join(LOOPBACK)}, got {name!r:.80}")
        return self._access.user

    def _token(self, request: Request) -> str | None:
        """The user of the token of a request; None for a metrics token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self._access.tokens.find(token.strip()) if self._access.tokens and scheme.lower() == "bearer" else None
        if user is None:
            problem = "unknown token" if token else "no token"
            headers = {"WWW-Authenticate": 'Bearer error="invalid_token"' if token else "Bearer"}
            raise _Problem(
                401, f"{problem}; send `Authorization: Bearer TOKEN` with a token of the token file", headers
            )
        return user[0]

    async def _body(self, request: Request, find_faults: Callable[[Any], Iterator[str]]) -> dict[str, Any]:
        """The body, complete and checked."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise _Problem(415, f"the content type must be application/json, got {kind or 'nothing'!r:.80}")
        try:
            data = await asyncio.wait_for(self._read(request), self._access.seconds)
        except TimeoutError:
            raise _Problem(408, f"the body did not arrive within {self._access.seconds:g} s") from None
        try:
            body = json.loads(data.decode("utf-8"), parse_constant=_refused)
            json.dumps(body, ensure_ascii=False).encode("utf-8")  # fails for lone surrogates
        except (ValueError, RecursionError) as error:
            raise _Problem(400, f"the body must be JSON in UTF-8: {str(error)[:200]}") from None
        if faults := list(find_faults(body)):
            raise _Problem(422, "; ".join(faults[:10]))
        return dict(body)

    async def _read(self, request: Request) -> bytes:
        limit, data = self._access.body, bytearray()
        async for part in request.stream():
            data += part
            if len(data) > limit:
                raise _Problem(413, f"the body has more than {limit:,} bytes; send less", {"Connection": "close"})
        return bytes(data)

    async def _within(self, call: Callable[[], T], turn: asyncio.Semaphore | None = None) -> T:
        """Run a function in a thread, after waiting for its turn, with a time limit."""

        def ended(running: asyncio.Future[T]) -> None:
            if turn is not None:
                turn.release()
            if not running.cancelled():
                running.exception()  # avoids a warning for late answers

        async def answered() -> T:
            if turn is not None:
                await turn.acquire()
            running = asyncio.get_running_loop().run_in_executor(self._threads, call)
            running.add_done_callback(ended)  # a late thread keeps its turn
            return await asyncio.shield(running)

        try:
            return await asyncio.wait_for(answered(), self._access.seconds)
        except TimeoutError:
            raise _Problem(503, f"no answer within {self._access.seconds:g} s; try again later") from None


class _ContextApp(_WebApp):
    """The addresses of a service of contexts."""

    paths = context_paths()

    def routes(self) -> list[Route]:
        return [
            Route("/context/build", partial(self._context, action="build"), methods=["POST"]),
            Route("/context/preview", partial(self._context, action="preview"), methods=["POST"]),
            Route("/context/feedback", partial(self._judge, schema=JUDGE, record=self._feedback), methods=["POST"]),
            Route(
                "/context/sufficient", partial(self._judge, schema=SUFFICE, record=self._sufficient), methods=["POST"]
            ),
            Route("/context/import", self._import, methods=["POST"]),
        ]

    async def _context(self, request: Request, *, action: str) -> Response:
        user = self._user(request)
        body = await self._body(request, partial(faults_in, schema=ASK))

        def answer_body() -> bytes:
            build = getattr(self._service, action)
            context = build(body["message"], thread=body.get("threadId"), user=user, writing=_writing(body)).as_dict()
            return json.dumps(context, ensure_ascii=False, allow_nan=False).encode()

        return Response(await self._in_turn(user, answer_body), media_type="application/json")

    async def _import(self, request: Request) -> Response:
        user = self._user(request)
        body = await self._body(request, partial(faults_in, schema=IMPORT))
        return JSONResponse(await self._in_turn(user, lambda: asdict(self._service.import_rows(**body, user=user))))

    async def _judge(
        self, request: Request, *, schema: Mapping[str, Any], record: Callable[[dict[str, Any], str | None], None]
    ) -> Response:
        user = self._user(request)
        body = await self._body(request, partial(faults_in, schema=schema))
        await self._within(lambda: record(body, user))
        return JSONResponse({"success": True})

    def _feedback(self, body: dict[str, Any], user: str | None) -> None:
        self._service.feedback(body["contextItemId"], useful=body["useful"], user=user, context=body.get("contextId"))

    def _sufficient(self, body: dict[str, Any], user: str | None) -> None:
        self._service.sufficient(body["contextId"], body["sufficient"], user=user)


class _SelectApp(_WebApp):
    """The addresses of a service of a selector."""

    paths = select_paths()

    def routes(self) -> list[Route]:
        return [Route("/select", self._select, methods=["POST"])]

    async def _select(self, request: Request) -> Response:
        user = self._user(request)
        body = await self._body(
            request, lambda body: (fault.message for fault in validate(SelectBody, body, Source())[1])
        )
        answer = await self._in_turn(user, lambda: self._service.select(body, user).encode())
        return Response(answer, media_type="application/json")


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
