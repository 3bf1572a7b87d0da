"""Plans that a language model makes of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.net.chat import ChatModel, Message, ModelReply
from ctxbench.net.openai_server import ServerError
from ctxbench.planning.context_plan import DEEPEST, ContextPlan, plan_schema

PROMPT = f"""\
You plan which code of a repository somebody has to read before they carry out a developer's request. You do not see the
repository. Answer with JSON only:

{{"keywords": [...], "symbols_to_find": [...], "file_patterns": [...], "include_tests": true, "max_depth": 1,
 "strategy": {{"name": "focused", "symbols": [...]}}}}

keywords: words that the code probably holds. symbols_to_find: names of functions, classes and types, as the request
says them or as they are probably called. file_patterns: parts of paths, such as "auth", or paths that the request says.
include_tests: whether tests are needed. max_depth: how far imports are followed, 0 to {DEEPEST}. strategy, one of:
{{"name": "focused", "symbols": [...]}} for some symbols and what they need;
{{"name": "broad", "patterns": [...]}} for all files whose paths match;
{{"name": "entry_points", "entry_files": [...]}} for some files and what they import;
{{"name": "semantic", "query": "...", "top_k": 20}} for a search by meaning."""

_FENCED = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_LONGEST = 20_000  # characters of a request that a model is sent


def model_plans(texts: Sequence[str], model: ChatModel, planner: str) -> list[ContextPlan | str]:
    """Ask for a plan of each text; a reply that is none is answered once with what is wrong with it.

    Args:
        texts: the requests.
        model: what is asked; it keeps replies by text, model and prompt, so that nothing is asked twice.
        planner: what plans say who made them.

    Returns:
        In their order, a plan or why there is none. Empty in, empty out.
    """
    conversations: list[list[Message]] = [_conversation(text) for text in texts]

    def is_plan(_: int, text: str) -> bool:
        return isinstance(_plan_in(text, planner), ContextPlan)

    replies = model(conversations, schema=plan_schema(), alone=True, is_usable=is_plan)
    plans = [_plan(reply, planner) for reply in replies]
    retries = [
        index for index, plan in enumerate(plans) if isinstance(plan, str) and isinstance(replies[index], ModelReply)
    ]
    repairs = [_mended(conversations[n], replies[n], str(plans[n])) for n in retries]
    second = model(repairs, schema=plan_schema(), alone=True, is_usable=is_plan)
    for index, reply in zip(retries, second, strict=True):
        plans[index] = _plan(reply, planner)
    return plans


def _conversation(text: str) -> list[Message]:
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": text[:_LONGEST]}]


def _mended(conversation: Sequence[Message], reply: ModelReply | ServerError, fault: str) -> list[Message]:
    answer = reply.text[:_LONGEST] if isinstance(reply, ModelReply) else ""
    correction = f"That cannot be used: {fault}. Answer with the JSON object alone, in the form that was asked for."
    return [*conversation, {"role": "assistant", "content": answer}, {"role": "user", "content": correction}]


def _plan(reply: ModelReply | ServerError, planner: str) -> ContextPlan | str:
    """The plan that a reply holds, or why it holds none."""
    return _plan_in(reply.text, planner) if isinstance(reply, ModelReply) else str(reply)


def _plan_in(text: str, planner: str) -> ContextPlan | str:
    fields = _object(text)
    if fields is None:
        return f"the reply is no JSON object: {' '.join(text.split())[:100]!r}"
    try:
        return ContextPlan.of(fields, planner)
    except ParameterError as error:
        return f"the reply has another form: {error}"


def _object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text is, that stands in it between fences, or from its first to its last brace."""
    for part in (text, *_FENCED.findall(text), text[text.find("{") : text.rfind("}") + 1]):
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, Mapping):
            return value
    return None
