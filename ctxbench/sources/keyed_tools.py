"""Tools by name, as the AI SDK for TypeScript has them: `{"search": {"description", "inputSchema"}}`.

Source: https://ai-sdk.dev/docs/ai-sdk-core/tools-and-tool-calling (`tools: {name: tool({...})}`; `inputSchema`, and
`parameters` before version 5) and https://ai-sdk.dev/docs/reference/ai-sdk-core/json-schema: what `jsonSchema()` and
`zodSchema()` return is written as `{"jsonSchema": {...}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctxbench.sources.tools import SCHEMA_KEYS

_OWN = {"description", "title", "name", "strict", "type"}  # of a tool without a schema
_TYPES = ("dynamic", "function")  # the SDK's words for a tool that the agent runs
_HOSTED = ("provider", "provider-defined")  # and for one that the model's provider runs


def is_keyed_tool(value: Mapping[str, Any]) -> bool:
    """Whether an object that stands under a name is a tool: it has a schema, or no more than a description."""
    if isinstance(value.get("function"), dict) or any(isinstance(value.get(key), dict) for key in SCHEMA_KEYS):
        return True
    if value.get("type") in _HOSTED:
        return True
    return isinstance(value.get("description"), str) and set(value) <= _OWN


def keyed_tool(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of the tool under a name, which is the name for the model."""
    tool = dict(value)
    if tool.get("type") in _HOSTED:
        return {"type": tool["type"], "name": name}
    if tool.get("type") in _TYPES:
        del tool["type"]
    function = tool.get("function")
    if isinstance(function, dict):
        return {**tool, "function": {"name": name, **function}}
    return {**tool, "name": name}


def with_plain_schema(tool: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """A tool with its schema without the SDK's wrapping; False if the schema is zod's own object and was left out."""
    inner = tool.get("function")
    if isinstance(inner, dict):
        body, is_known = with_plain_schema(inner)
        return (tool if body is inner else {**tool, "function": body}), is_known
    for key in SCHEMA_KEYS:
        schema = tool.get(key)
        if not isinstance(schema, dict):
            continue
        if isinstance(schema.get("jsonSchema"), dict) and "properties" not in schema:
            return {**tool, key: schema["jsonSchema"]}, True
        if isinstance(schema.get("_def"), dict) or (isinstance(schema.get("def"), dict) and "~standard" in schema):
            return {name: value for name, value in tool.items() if name != key}, False
    return tool, True
