"""The OpenAPI 3.1 specification of the HTTP interface, and the check of bodies against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

VERSION = "1"  # of the interface
LONGEST = 80_000  # characters of a message: however it is escaped, the body is within its limit
_FIT = r"[^\u0000-\u001f\u007f-\u009f\u2028\u2029"
_NAME = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": rf"^{_FIT}]*{_FIT}\s]{_FIT}]*$"}
# Python's \s has control characters that the \s of JSON Schema (ECMA 262) lacks
_MESSAGE = {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": r"[^\s\x1c-\x1f\x85]"}
_ID = {"type": "string", "minLength": 1, "maxLength": 2_000}
_STRING, _NUMBER, _COUNT = {"type": "string"}, {"type": ["number", "null"]}, {"type": "integer", "minimum": 0}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}, **keywords}


def _list(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


ASK = _object({"message": _MESSAGE}, {"threadId": _NAME}, additionalProperties=False)
JUDGE = _object({"contextItemId": _ID, "useful": {"type": "boolean"}}, {"contextId": _ID}, additionalProperties=False)
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
_DATA |= {"citations": _list(_CITATION), "notes": _list({"type": "object"})}
_META = _object(dict.fromkeys(("tokenUsage", "sourceCount", "citationCount"), _COUNT))
_CONTEXT = _object({"data": _object(_DATA), "meta": _META})
_PROBLEM = _object({"type": _STRING, "title": _STRING, "status": _COUNT, "detail": _STRING})

PROBLEMS = {
    400: "The body is no JSON.",
    401: "No token, or an unknown one.",
    403: "The token is not for this.",
    404: "There is no such thing.",
    405: "The method is not for this address.",
    408: "The body took too long.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    421: "The request names another host.",
    422: "A field is missing, unknown, or not as it must be.",
    429: "Too many requests at one time.",
    500: "A fault of the server.",
    503: "The answer took too long.",
}
"""Statuses of errors, with their titles."""


def document(*, tokens: bool) -> dict[str, Any]:
    """The OpenAPI specification; with `tokens` every other address needs one."""
    done = _object({"success": {"const": True}})
    paths = {
        "/context/build": _post("Build the context for a message.", ASK, _CONTEXT),
        "/context/preview": _post("Tell what a build would give.", ASK, _CONTEXT),
        "/context/feedback": _post("Say whether an item was useful.", JUDGE, done),
        "/context/sufficient": _post("Say whether a context was enough for an answer.", SUFFICE, done),
        "/metrics": {"get": {"summary": "Figures.", "responses": _responses("text/plain", {}, (401, 403, 421))}},
    }
    specification: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "ctxbench contexts", "version": VERSION},
        "paths": paths,
    }
    if tokens:
        specification["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        specification["security"] = [{"token": []}]
    return specification


def _post(about: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    statuses = [status for status in PROBLEMS if status != 405]  # which is of no method that is named here
    responses = _responses("application/json", {"schema": answer}, statuses)
    return {"post": {"summary": about, "requestBody": body, "responses": responses}}


def _responses(media: str, content: Mapping[str, Any], statuses: Sequence[int]) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": _PROBLEM}}
    responses = {str(status): {"description": PROBLEMS[status], "content": problem} for status in statuses}
    return {"200": {"description": "Done.", "content": {media: content}}, **responses}


def faults_in(body: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a body, by the parts of JSON Schema that the bodies above use."""
    if not isinstance(body, dict):
        yield "the body must be an object"
        return
    properties = schema["properties"]
    yield from (f"{name} is missing" for name in schema["required"] if name not in body)
    for name, value in body.items():
        if name not in properties:
            yield f"no field is called {name!r:.80}; known: {', '.join(properties)} (the token says who asks)"
        elif fault := _fault(value, **properties[name]):
            yield f"{name} {fault}"


def _fault(value: Any, *, type: str, minLength: int = 0, maxLength: int = 0, pattern: str = "") -> str:  # noqa: A002, N803
    if type == "boolean":
        return "" if isinstance(value, bool) else "must be true or false"
    if not isinstance(value, str):
        return "must be a text"
    if not minLength <= len(value) <= maxLength:
        return f"must have {minLength} to {maxLength:,} characters, got {len(value):,}"
    hard = "must not be blank, nor hold control characters" if pattern == _NAME["pattern"] else "must not be blank"
    return "" if re.search(pattern, value) else hard
