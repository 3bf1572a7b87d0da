"""A language model as the judge of what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, firsts
from ctxbench.core.candidates import Candidates, rescored
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.items import Item
from ctxbench.core.notes import Note
from ctxbench.core.query import Query
from ctxbench.core.requests import Request
from ctxbench.core.rules import Rule
from ctxbench.core.stages import CHAT, Resources
from ctxbench.core.strategy import Strategy
from ctxbench.net.chat import RECEIVED, SECONDS, SENT, Message, ModelReply

# Whoever changes it gives the step a `version` of 2 and so on: else kept answers would pass for new ones.
PROMPT = """\
You decide what an AI agent gets to see before it answers a user. You are given the user's request, the messages before
it if there are any, and a numbered list of items: tools that the agent may call, rules that it must follow, references,
skills, files and memories.

Name the items that the agent needs for this request: the tools that it will have to call, and what it must know or
follow to do it right. Leave out items that merely have to do with the same subject. If it needs none, name none.

Answer with JSON only, the item needed most first: {"needed": [3, 1]}"""

_MESSAGE = 2000  # characters of an earlier message
_JSON = re.compile(r"\{[^{}]*\}|\[[^\[\]{}]*\]")
_DIGITS = 9  # of a number that a reply writes as a text
_SHOWN = 40  # characters of a value that stands for no item
_BLANK, _STEP = "llm_blank", "rank.llm"


@dataclass(frozen=True)
class Llm(Strategy):
    """Asks a language model which of the items found are needed; these are offered, in its order, and no others.

    Attributes:
        model: as the server calls it, such as `gpt-5-mini`. The server is `OPENAI_BASE_URL` (OpenAI's own by default;
            any that speaks its interface), the key `OPENAI_API_KEY`.
        instructions: what the model is told besides `ctxbench.steps.llm.PROMPT`.
        history: how many earlier messages it is shown, the last ones, >= 0.
        characters: of an item's text that it is shown, >= 1.

    The model is shown what the steps before still offer, so `first: {n: 20}` before it bounds what it costs; behind
    `everything` it is the selector itself. Items that it names score from 1 down to above 0 and the others below 0, so
    the ranking is its own. A reply without a usable answer, and a request that the server refuses, leave what was
    found as it was, with a note. Replies are kept (`ctxbench.net.chat`), so that a run repeats; what they
    cost is in `model_tokens` and `model_seconds`, and the notes of a run. A blank request gets nothing, without asking;
    without candidates nothing is asked. Cost: an exchange with the server a request, four at one time. Source: the
    documents, "Supervisor Integration"; listwise as in Sun et al., Is ChatGPT Good at Search?, EMNLP 2023.
    """

    model: str
    instructions: str = ""
    history: int = 6
    characters: int = 300
    orders: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        "llm": "the language model {model} did not name it",
        _BLANK: "the request is blank, so the language model was not asked",
    }

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ParameterError("model must not be empty; name one as the server calls it, such as gpt-5-mini")
        for name, low in (("history", 0), ("characters", 1)):
            check_range(name, getattr(self, name), low)

    @property
    def uses(self) -> tuple[str, ...]:
        """The model."""
        return (f"{CHAT}:{self.model}",)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Ask for every request that has candidates, and keep out what the model does not name."""
        batch, items = query.batch, query.batch.catalog
        blank = np.array([not request.text.strip() for request in batch.requests], dtype=np.bool_)[candidates.request]
        offered = candidates.chosen & (candidates.tier > 0)
        table = candidates.exclude(offered & blank, Rule.of(_BLANK))
        rows = _by_request(table.request, offered & ~blank)
        shown_rows = list(rows.values())
        replies = resources.get(self.uses[0])(
            [
                self._conversation(batch.requests[request], [items[item] for item in table.item[mine].tolist()])
                for request, mine in rows.items()
            ],
            is_usable=lambda index, text: named_in(text, len(shown_rows[index])) is not None,
        )
        score, left_out = table.score.copy(), np.zeros(len(table), dtype=np.bool_)
        none = np.full(len(table), np.nan)
        columns = {name: table.columns.get(name, none).copy() for name in (SENT, RECEIVED, SECONDS)}
        notes: list[Note] = []
        for (request, mine), reply in zip(rows.items(), replies, strict=True):
            if isinstance(reply, ModelReply):
                for column, value in zip(columns.values(), (reply.sent, reply.received, reply.seconds), strict=True):
                    column[mine] = value + np.nan_to_num(column[mine])  # a step before may have asked, too
            named, note = _read(reply, len(mine))
            if note is not None:
                notes.append(replace(note, query=batch.ids[request]))
            if named is None:
                continue
            first, all_rows = mine[named], np.arange(table.start[request], table.start[request + 1])
            unnamed = all_rows[(table.tier[all_rows] > 0) & ~np.isin(all_rows, first)]
            score[first] = 1.0 - np.arange(len(first)) / max(len(first), 1)
            score[unnamed] = -_ranks(table.tier[unnamed], table.score[unnamed])
            left_out[np.setdiff1d(mine, first)] = True
        table = table.exclude(left_out, Rule.of("llm", model=self.model)).with_columns(**columns)
        return rescored(table, score).noted(*notes)

    def _conversation(self, request: Request, items: Sequence[Item]) -> list[Message]:
        """What the model is sent for one request."""
        earlier = request.history[len(request.history) - min(self.history, len(request.history)) :]
        parts = []
        if earlier:
            turns = [f"{message.role}: {_short(message.content, _MESSAGE)}" for message in earlier]
            parts += ["Earlier messages:", *turns, ""]
        parts += ["Request:", request.text, "", "Items:"]
        parts += [f"{number}. {self._item_line(item)}" for number, item in enumerate(items, 1)]
        system = f"{PROMPT}\n\n{self.instructions}" if self.instructions else PROMPT
        return [{"role": "system", "content": system}, {"role": "user", "content": "\n".join(parts)}]

    def _item_line(self, item: Item) -> str:
        """An item on one line: its type, where it is from, and the beginning of the text that is searched."""
        where = f"{item.server}/" if item.server else ""
        return f"{item.type} {where}{_short(item.search_text, self.characters)}"


def _ranks(tier: IntArray, score: FloatArray) -> FloatArray:
    """Which of the different scores each row has, in the order given: above 0 to 1 for the last; shape (n,)."""
    new = firsts(tier, score)
    return np.cumsum(new) / max(int(new.sum()), 1)


def _by_request(request: IntArray, rows: BoolArray) -> dict[int, IntArray]:
    """The places of some rows by their request, of those that have any."""
    positions = np.flatnonzero(rows)
    requests, first = np.unique(request[positions], return_index=True)
    return dict(zip(requests.tolist(), np.split(positions, first[1:]), strict=True)) if len(requests) else {}


def _read(reply: ModelReply | Exception, n: int) -> tuple[list[int] | None, Note | None]:
    """The places that a reply names, None where it tells nothing of use, and what is to be said of it."""
    if not isinstance(reply, ModelReply):
        return None, Note(_STEP, "fell back", f"{reply}; what was found stays as it was")
    named = named_in(reply.text, n)
    if named is None:
        return None, Note(
            _STEP,
            "fell back",
            f"the reply names no items as JSON: {reply.text[:100]!r}; what was found stays as it was",
        )
    positions, wrong = named
    message = f"the reply names {wrong}, and items are numbered 1 to {n}; passed over"
    return positions, Note(_STEP, "failed", message) if wrong else None


def named_in(reply: str, n: int) -> tuple[list[int], str] | None:
    """The items that a reply names.

    Args:
        reply: JSON, `{"needed": [3, 1]}` or the list alone; or a text with such in it, of which the last counts.
        n: how many items there are; they are numbered from 1.

    Returns:
        Their places from 0, in the order named, each once, and the numbers that stand for no item, as a text; None
        where the reply holds no such list, or names wrong numbers only.
    """
    for value in _values(reply):
        numbers = value.get("needed") if isinstance(value, dict) else value
        if not isinstance(numbers, list):
            continue
        parsed = [
            int(number) if isinstance(number, str) and number.isdecimal() and len(number) <= _DIGITS else number
            for number in numbers
        ]
        right = [number for number in parsed if type(number) is int and 1 <= number <= n]
        wrong = [number for number in parsed if not (type(number) is int and 1 <= number <= n)]
        if wrong and not right:
            continue
        return [number - 1 for number in dict.fromkeys(right)], ", ".join(map(_value_text, wrong[:5]))
    return None


def _value_text(value: object) -> str:
    """A value of JSON, as a message shows it."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _values(reply: str) -> Iterator[object]:
    """What can be read as JSON in a reply: all of it, or objects and lists in it, the last first."""
    for text in (reply, *reversed(_JSON.findall(reply))):
        try:
            yield json.loads(text)
        except (ValueError, RecursionError):
            continue


def _short(text: str, limit: int) -> str:
    """A text on one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}..."
