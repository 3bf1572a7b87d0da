"""Group records into turns (the model calls that answer one message of the user's), and turns into conversations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ctxbench.core.requests import Message
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.traces.chat_messages import same_tool
from ctxbench.data.traces.records import Call, LogFindings, Record

_WORDS = re.compile(r"\w+")
_AGAIN = re.compile(
    r"\s*(?!(?:no|again)[,.! ]+(?:thanks|thank you|problem|worries|need|rush|hurry|more|further|questions?|that is all"
    r"|that's all|idea|doubt)\b)"
    r"(?:no[,.! ]|nope|wrong|that(?:'s| is| was) (?:not|wrong)|not what i|i meant|i said|as i said|again[,:. ]"
    r"|try again|still (?:not|no|does|wrong)|you (?:did not|didn't|should have)"
    r"|it (?:did not|didn't|does not|doesn't) work)",
    re.IGNORECASE,
)
_ALIKE = 0.6  # least share of common words in all words of a repeated question


@dataclass(slots=True, kw_only=True)
class Turn:
    """A message of the user's with the records up to the next one.

    Attributes:
        records: in order; never empty, and the first has the message.
        number: position in the conversation.
        history: the messages before, oldest first.
        asked_again: the next message of the user's asks the same.
    """

    records: list[Record]
    number: int = 0
    history: tuple[Message, ...] = ()
    asked_again: bool = False
    calls: tuple[Call, ...] = field(default=())

    @property
    def text(self) -> str:
        """The message of the user's."""
        return self.records[0].text or ""

    @property
    def time(self) -> float | None:
        """The time of the first call of the turn."""
        return next((record.time for record in self.records if record.time is not None), None)


def conversations(records: Iterable[Record], findings: LogFindings, *, history: int) -> Iterator[list[Turn]]:
    """Group records into the turns of each conversation, in the order in which the log first names conversations.

    A record without a conversation belongs to the one whose messages it continues, or begins one; conversations of two
    workspaces are two, whatever they are called: nothing crosses a workspace. Several users may talk in one.
    Conversations without any message of a user's are counted and left out.

    Args:
        records: of all files, in any order.
        findings: where odd things are counted.
        history: how many earlier messages a turn has at most.
    """
    latest: dict[tuple[object, ...], list[tuple[int, Record]]] = {}
    named = group_pairs((record.conversation or (None, _first_position(record, latest)), record) for record in records)
    groups = [group for members in named.values() for group in _by_workspace(members)]
    for members in sorted(groups, key=lambda members: min(record.position for record in members)):
        if turns := _turns(members, findings):
            findings.counts["conversations"] += 1
            _number_turns(turns, findings)
            _set_history(turns, findings, history=history)
            yield turns


def _first_position(record: Record, latest: dict[tuple[object, ...], list[tuple[int, Record]]]) -> int:
    """The position of the first record of a conversation in a log that names none; that of the record if it begins one.

    Each request holds all messages before it. `latest` has the last records so far, by the messages of the user.
    """
    who, user_hashes, position = (record.workspace, record.user), record.user_hashes, record.position
    if not user_hashes:
        return position
    for n in range(len(user_hashes), 0, -1):
        before = latest.get((*who, *user_hashes[:n]), [])
        last = next(
            (earlier for earlier in reversed(before) if n < len(user_hashes) or _is_next_call(record, earlier[1])), None
        )
        if last is not None:
            position = last[0]
            before.remove(last)  # only this record continues it
            break
    latest.setdefault((*who, *user_hashes), []).append((position, record))
    return position


def _is_next_call(record: Record, before: Record) -> bool:
    """Whether a model call is one more of the same turn: its messages hold the calls of the one before it."""
    first, current = ([(call.id, call.name) for call in turn.calls] for turn in (before, record))
    return current[: len(first)] == first and (len(current) > len(first) or any(call_id for call_id, _ in first))


def _by_workspace(records: list[Record]) -> Iterable[list[Record]]:
    """Records of one conversation's name by workspace; one group where no two workspaces are named."""
    groups = group_pairs((record.workspace, record) for record in records)
    return groups.values() if len(groups.keys() - {None}) > 1 else [records]


def merge_calls(records: Sequence[Record], findings: LogFindings) -> tuple[Call, ...]:
    """Merge the calls of a turn, so that each occurs once, however often and in whatever form the log has it.

    A call is known by its id, its name and how often both stood before it in the same messages: some models begin
    their ids anew, so an id alone is not enough. Where a call stands in the messages of several records, it is one, and
    failed if any of them says so. The span of its execution says how it ended; one without an id is of the next call of
    that name.
    """
    merged: dict[tuple[str | None, str, int], Call] = {}
    separate: list[Call] = []
    for record in records:
        messages = [record.calls] if record.cumulative else []
        for calls in (*messages, *(nested.calls for nested in record.nested)):
            n_calls: Counter[tuple[str | None, str]] = Counter()
            for call in calls:
                key = call.id, call.name, n_calls[call.id, call.name]
                n_calls[call.id, call.name] += 1
                if key not in merged or call.status != "ok":
                    merged[key] = call
        separate += () if record.cumulative else record.calls
    for call in separate:
        key = call.id, call.name, 0
        if call.id is None:
            key = None, call.name, sum(merged_key[:2] == key[:2] for merged_key in merged)
        elif key in merged:
            findings.counts["calls_twice"] += 1
        if key not in merged or call.status != "ok":
            merged[key] = call
    return _with_outcomes(merged, [call for record in records for call in record.executed], findings)


def _with_outcomes(
    calls: dict[tuple[str | None, str, int], Call], executed: list[Call], findings: LogFindings
) -> tuple[Call, ...]:
    """Calls with the status that the spans of their execution have, and the calls that only such spans have."""
    unmatched = dict(calls)
    matched: list[tuple[str | None, str, int]] = []
    unlisted: list[Call] = []
    for call in executed:
        same_name = [key for key in unmatched if same_tool(key[1], call.name)]
        without_id = (key for key in same_name if None in (key[0], call.id))
        key = next((candidate for candidate in same_name if candidate[0] == call.id), None) or next(without_id, None)
        repeats = [p for p in matched if call.id is not None and p[0] == call.id and same_tool(p[1], call.name)]
        if key is not None:
            calls[key] = replace(call, name=key[1])
            del unmatched[key]
            matched.append(key)
        elif repeats or any(
            (unlisted_call.id, unlisted_call.name) == (call.id, call.name)
            for unlisted_call in unlisted
            if call.id is not None
        ):
            findings.counts["calls_twice"] += 1
            if call.status != "ok":
                calls |= {repeat: replace(call, name=repeat[1]) for repeat in repeats}
        else:
            unlisted.append(call)
    return (*calls.values(), *unlisted)


def reuses_ids(calls: Iterable[Call]) -> bool:
    """Whether several tools have calls with one id, so that results may be assigned to the wrong one."""
    names: dict[str, str] = {}
    return any(call.id is not None and names.setdefault(call.id, call.name) != call.name for call in calls)


def asks_again(text: str, following: str) -> bool:
    """Whether a message repeats the question before it: it complains, or they share 0.6 of their words."""
    if _AGAIN.match(following):
        return True
    first, second = (set(_WORDS.findall(t.casefold())) for t in (text, following))
    return len(first & second) >= 2 and len(first & second) >= _ALIKE * len(first | second)


def _turns(members: list[Record], findings: LogFindings) -> list[Turn]:
    timed = all(record.time is not None for record in members)
    numbered = sum(record.turn is not None for record in members)
    members = sorted(members, key=lambda record: ((record.time or 0.0) if timed else 0.0, record.position))
    if numbered and numbered < len(members):
        findings.counts["conversations_partly_numbered"] += 1
        members = [replace(record, turn=None) for record in members]
    groups = _by_number(members, findings) if numbered == len(members) else _by_messages(members)
    turns = []
    for group in groups:
        first = next((i for i, record in enumerate(group) if record.text is not None), None)
        if first is None:
            findings.counts["records_without_request"] += len(group)
            findings.counts["calls_without_request"] += len(merge_calls(group, findings))
        else:
            turns.append(Turn(records=[group[first], *group[:first], *group[first + 1 :]]))
    return turns


def _by_number(members: list[Record], findings: LogFindings) -> list[list[Record]]:
    """Records of one turn number; a number with two messages of the user is two turns."""
    turns: list[list[Record]] = []
    for _, records in sorted(group_pairs((record.turn or 0, record) for record in members).items()):
        by_text: dict[str, list[Record]] = {}
        for record in records:
            text = record.text if record.text is not None else next(reversed(by_text), "")
            by_text.setdefault(text, []).append(record)
        if len(by_text) > 1 and not any(record.text is not None for record in by_text.get("", ())):
            before_message = by_text.pop("", [])
            next(iter(by_text.values())).extend(before_message)
        findings.counts["turn_numbers_twice"] += len(by_text) - 1
        turns += by_text.values()
    return turns


def _by_messages(members: list[Record]) -> list[list[Record]]:
    """Records with the same messages up to the user's last one; those without such a message join the turn before."""
    groups: list[list[Record]] = []
    latest: dict[int, list[Record]] = {}
    for record in members:
        group = latest.get(record.key) if record.text is not None else (groups[-1] if groups else None)
        if group is None and groups and _continues(record, groups[-1]):
            group = latest[record.key] = groups[-1]
        if group is not None and record.text is not None:
            same_unit = record.unit is not None and record.unit == group[0].unit
            open_turn = record.continued and not group[-1].finished
            if not (record.users > 1 or same_unit or open_turn):
                group = None  # the same words with nothing between: a second message of the user's
        if group is None:
            group = []
            groups.append(group)
        group.append(record)
        if record.text is not None:
            latest[record.key] = group
    users = [next((record.users for record in group if record.text is not None), 0) for group in groups]
    if len(groups) > 1 and min(users) > 0 and len(set(users)) == len(users):
        return [groups[i] for i in sorted(range(len(groups)), key=users.__getitem__)]
    return groups


def _continues(record: Record, group: list[Record]) -> bool:
    """Whether a record is of the turn before it though its first messages differ: a window of messages has moved on."""
    before = group[-1]
    if record.text is None or not record.continued or record.text != group[0].text or before.finished:
        return False
    ids = {(call.id, call.name) for record in group for call in record.calls if call.id is not None}
    return any((call.id, call.name) in ids for call in record.calls)


def _number_turns(turns: list[Turn], findings: LogFindings) -> None:
    """Set the numbers of turns, and count gaps, missing beginnings and clocks that go back."""
    users = [turn.records[0].users for turn in turns]
    grows = all(a < b for a, b in pairwise(users))
    for i, turn in enumerate(turns):
        number = turn.records[0].turn
        turn.number = number if number is not None else users[i] - 1 if grows else i
    first = turns[0].number
    findings.counts["conversations_cut"] += first > 1 or (first == 1 and turns[0].records[0].turn is None)
    for before, after in pairwise(turns):
        findings.counts["turns_missing"] += max(after.number - before.number - 1, 0)
        if before.time is not None and after.time is not None and after.time < before.time:
            findings.count_skew(before.time - after.time)


def _set_history(turns: list[Turn], findings: LogFindings, *, history: int) -> None:
    """Set the history and the calls of turns, and where the next turn asks the same."""
    messages: list[Message] = []
    n_calls = n_lost = 0
    for i, turn in enumerate(turns):
        first = turn.records[0]
        turn.history = first.history or (tuple(messages[-history:]) if history else ())
        turn.calls = merge_calls(turn.records, findings)
        n_lost += max(max(record.earlier for record in turn.records) - n_calls - n_lost, 0)
        n_calls += len(turn.calls)
        turn.asked_again = i + 1 < len(turns) and asks_again(turn.text, turns[i + 1].text)
        answers = max((record.after for record in turn.records), key=len)
        messages += [*([Message("user", turn.text)] if turn.text else []), *answers]
        del messages[: -history or None]
    findings.counts["calls_of_earlier_turns"] += n_lost
