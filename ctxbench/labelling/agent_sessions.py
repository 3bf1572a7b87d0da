"""Sessions of coding agents, and transcripts: files with one message or event a line, or with a list of them.

A message of the user is a request; all up to the next one is its turn. Tools that were called, skills that were loaded
and files of the catalog that were read in it are what it needed. What programs insert as messages of the user (results
of tools, reminders, contexts, notices of interruptions) is no request.

Sources: Claude Code (`SDKMessage`, https://docs.claude.com/en/api/agent-sdk/typescript, and the transcripts in
`~/.claude/projects`), Codex (`RolloutItem` and `ResponseItem`, https://github.com/openai/codex/tree/main/codex-rs/protocol),
Copilot CLI (`SessionEvent` of https://www.npmjs.com/package/@github/copilot-sdk), chats of VS Code
(`ISerializableChatData`, https://github.com/microsoft/vscode/blob/main/src/vs/workbench/contrib/chat/common/chatModel.ts),
Gemini CLI (`ConversationRecord`, https://github.com/google-gemini/gemini-cli) and Cline
(`api_conversation_history.json`, https://github.com/cline/cline).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, groupby
from operator import getitem
from pathlib import Path
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.io.errors import Fault, Message
from ctxbench.labelling.record_files import snake
from ctxbench.labelling.sources import make_kinds
from ctxbench.labelling.trace_exports import kind_of
from ctxbench.labelling.trace_labels import SERVERS, SessionNames, use_of
from ctxbench.labelling.trace_messages import (
    LIKE_CALLS,
    Call,
    LogFindings,
    Record,
    get,
    parsed,
    plain_text,
    read_messages,
    result_status,
    same_tool,
    seconds,
    summarise_messages,
)
from ctxbench.labelling.trace_turns import TURN_FIELDS
from ctxbench.model.requests import Message as ChatTurn

_FIELDS = {
    "role": ("role", "sender", "speaker", "from", "author", "source"),
    "type": ("type", "event", "kind", "message_type", "event_type", "eventType", "hook_event_name"),
    "message": ("message", "payload", "data", "attachment"),  # of an event
    "session": (
        *("sessionId", "session_id", "conversation_id", "conversationId", "conversation", "thread_id", "threadId"),
        *("chat_id", "chatId", "dialogue_id", "dialog_id", "test_id", "task_id", "run_id", "trace_id", "session"),
    ),
    "messages": (
        *("chat_messages", "conversations", "transcript", "messages", "traj", "trajectory", "history", "steps"),
        *("dialogue", "dialog", "utterances"),
    ),
    "time": ("timestamp", "time", "ts", "created_at", "createdAt", "created", "date"),
    "text": ("content", "text", "message", "value", "body", "parts", "utterance", "prompt"),
    "calls": (
        "tool_calls",
        "toolCalls",
        "toolRequests",
        "toolInvocations",
        "function_calls",
        "function_call",
        "tools_used",
        "tools_called",
    ),
    "name": ("mcpToolName", "toolName", "name", "tool_name", "function_name", "tool", "toolId", "fn", "func"),
    "id": ("tool_use_id", "tool_call_id", "toolCallId", "call_id", "callId", "callID", "id"),
    "input": ("input", "arguments", "args", "parameters", "params", "action", "tool_input"),
    "output": ("content", "output", "result", "response", "tool_response", "observation", "answer", "text", "error"),
    "parts of calls": ("functionCall", "toolCall", "toolUse", "toolInvocation", "function", "value", "state"),
    "parts of results": ("functionResponse", "toolResult", "toolResponse"),
    "inserted": ("isMeta", "isSynthetic", "isVisibleInTranscriptOnly", "isAutopilotContinuation"),
}
"""Names of fields by what they hold; of several the first one is read."""
_TYPES = {
    **dict.fromkeys(("user", "human", "user_message", "user_input", "user_prompt", "user_turn"), "user"),
    **dict.fromkeys(("queued_command", "user_prompt_submit"), "user"),
    **dict.fromkeys(("assistant", "assistant_message", "agent_message", "ai", "gemini", "bot"), "assistant"),
}
_ROLES = {
    **_TYPES,
    **dict.fromkeys(("customer", "client"), "user"),
    **dict.fromkeys(("agent", "bot", "chatbot", "model", "gpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "tool_result", "observation"), "tool"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_CALL = re.compile(
    rf"{LIKE_CALLS.pattern}|tool_?request|dynamic-tool|local_shell_call|(?:pre|post)_?tool_?use"
    r"|tool(?:[-_. ]?(?:start|started|begin|called|invoked|executed|execution_start))?",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"(?:\w+[-_])?(?:tool|function)[-_]?(?:call[-_]?)?(?:result|response|output|error)"
    r"|(?:mcp_)?tool[-_. ]?(?:end|ended|finished|completed|returned|execution_complete|call_end)",
    re.IGNORECASE,
)
_FAILURES = (
    *("error", "output-error", "output-denied", "failed", "failure", "cancelled", "canceled", "denied", "rejected"),
    *("aborted", "timeout", "timed_out", "skipped", "declined", "blocked"),
)
_EXIT = re.compile(  # of a shell
    r"exit(?:ed with)?[ _]code[\"']?:? *[1-9]|^[\w-]+: [^\n]*: (?:No such file or directory|Permission denied)$",
    re.IGNORECASE | re.MULTILINE,
)

_INJECTED = re.compile(
    r"<(system-reminder|environment_details|environment_context|user_instructions|ide_\w+|local-command-\w+|bash-\w+"
    r"|turn_aborted|user_shell_command|task-notification|subagent_notification|permissions instructions|skill"
    r"|session_context|collaboration_mode|command-message|user-memory-input|system_notification|current_datetime|reminder\w*"
    r"|editorContext|workspace_info|agents_md|new-diagnostics|session-start-hook|user-prompt-submit-hook)\b[^<>]*>"
    r".*?(?:</\1>|\Z)|\A.*## My request for Codex:",
    re.DOTALL,
)
_NOT_TYPED = re.compile(
    r"\[Request interrupted by user|Caveat: The messages below were generated|This session is being continued from"
    r"|# AGENTS\.md instructions|API Error|Stop hook feedback|Base directory for this skill:|\[SYSTEM NOTIFICATION"
    r"|\[TASK RESUMPTION\]|<teammate-message|Another language model started"
)
_TEXT_PART = re.compile(r"(?:input_)?text")
_TEXT_RESULT = re.compile(r"\[\w+(?: for [^\n]*)?\] Result:\s*")  # of Cline
_WRAPPED = re.compile(r"<(task|feedback|user_message|userRequest|user_query)>")
_MENTION = re.compile(r"[/$]([\w:.-]+)")
_TAGGED = re.compile(r"<(use_mcp_tool|read_file|execute_command|use_skill|tool_call)>")
_TAG = re.compile(r"<([\w-]+)>([^<]*)</\1>")

_RANDOM = re.compile(  # an id that no other file has
    r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[\w-]{16,}|(?=.*[a-f])(?=.*\d)[0-9a-f-]{8,}"
)
_N_RESULTS, _LENGTH = 5, 1000  # results that go with the next request, and their characters
_N_ROLES = 8  # different words for roles in a transcript at most
_ABORTS = ("turn_aborted", "abort", "turn.failed")
_ABORTED = re.compile(r"<turn_aborted>|\[Request interrupted by user")
_CALLS = re.compile("call|tool|action|function", re.IGNORECASE)
_DENIED = (0, 5)  # confirmations of VS Code: denied (in old versions false), skipped
_STARTS = ("session_meta", "session.start", "session")
_COMPACTIONS = ("compacted", "compact_boundary", "session.compaction_complete", "compaction")


@dataclass(slots=True, eq=False)
class _Use:
    """A call.

    Attributes:
        turn: in which it was made.
        id: different from those of the other calls of the turn.
        tool: its name.
        items: that it used.
        status: empty without a result.
        is_repeat: it repeats a call that has a result: it is a new one only if it has a result, too.
    """

    turn: _Turn
    id: str
    tool: str
    items: list[str]
    status: str = ""
    is_repeat: bool = False


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn.

    Attributes:
        record: of the turn.
        uses: its calls.
        unanswered: the status of calls without a result: `error` if the turn was interrupted.
    """

    record: Record
    uses: list[_Use] = field(default_factory=list)
    unanswered: str = "ok"

    def set_calls(self) -> None:
        """Set the calls of the record."""
        self.record.calls = tuple(
            Call(item, use.status or self.unanswered, use.id if n == 0 else None)
            for use in self.uses
            if use.status or not use.is_repeat
            for n, item in enumerate(use.items)
        )


@dataclass(slots=True)
class _Conversation:
    """A conversation so far.

    Attributes:
        offered: names of tools and skills that were listed; None without a list.
        turn: the open turn.
        is_command: the message is a command of the program, which is a request only if the model answers.
        calls: by id the calls of the last turn with this id, from the first one without a result; by an empty id those
            with any id. A result may come after the next message of the user.
        results: of calls, which go with the next request.
    """

    name: str
    offered: tuple[str, ...] | None = None
    turn: _Turn | None = None
    is_command: bool = False
    n_turns: int = 0
    n_parts: int = 1
    calls: dict[str, deque[_Use]] = field(default_factory=dict)
    results: list[tuple[str, str]] = field(default_factory=list)

    def add(self, use: _Use, *ids: str) -> None:
        """Add a call under some ids."""
        use.turn.uses.append(use)
        for identity in ids:
            if (uses := self.calls.setdefault(identity, deque())) and uses[0].turn is not use.turn:
                uses.clear()
            uses.append(use)

    def waiting(self, identity: str) -> _Use | None:
        """The oldest call with an id that has no result."""
        uses = self.calls.get(identity) or self.calls.get("") or deque()
        while len(uses) > 1 and uses[0].status:
            uses.popleft()
        is_unknown = identity not in self.calls and bool(uses) and uses[0].turn is not self.turn
        return uses[0] if uses and not uses[0].status and not (identity and is_unknown) else None


class SessionReader:
    """Reads the events of sessions, file by file, into records of turns.

    Several sessions may be in one file, and a session in several files: a resumed one repeats events, which are read
    once. Subagents, and what follows a summary of the conversation (compaction), are conversations of their own.

    Attributes:
        fields: the names of fields in the file, from `transcript_fields`.
    """

    def __init__(self, names: SessionNames, findings: LogFindings) -> None:
        self.fields: Mapping[str, str] = {}
        self._names, self._findings = names, findings
        self._conversations: dict[str, _Conversation] = {}
        self._files: dict[str, Path] = {}  # by names of conversations that are unique in a file alone
        self._ids: set[str] = set()  # of events, with their texts
        self._roots: dict[str, str] = {}  # first messages of subagents that have no ids
        self._file, self._session, self._folder = Path(), "", ""
        self._chat: Any = None  # of VS Code, recorded as changes
        self._last = 0, Fault("")

    def start_file(self, path: Path) -> Iterator[Record]:
        """Begin a file; gives the turns of a chat that the file before recorded as changes."""
        chat, self._chat = self._chat, None
        if isinstance(chat, dict):
            yield from self.read(chat, *self._last)
        self._file, self._session, self._folder, self.fields = path, "", "", {}

    def finish(self) -> Iterator[Record]:
        """The turns that are open at the end of all files."""
        yield from self.start_file(Path())
        for conversation in self._conversations.values():
            yield from self._close(conversation)

    def read(self, value: Any, position: int, at: Fault) -> Iterator[Record]:
        """Read a document of the file; gives the turns that it ended.

        Args:
            value: an event, or an object with a list of them; anything else is a fault.
            position: its 1-based position in the log.
            at: its file and line.
        """
        self._last = position, at
        try:
            if isinstance(value.get("kind"), int) and ("v" in value or "k" in value):
                self._chat = _changed(self._chat, value)
                return
            if "$set" in value:  # Gemini CLI writes all messages anew
                messages = value["$set"].get("messages") or []
                value = {
                    "messages": [message for message in messages if f"{self._file} {message['id']}" not in self._ids]
                }
            for line in _lines_of(value, self._session or f"{self._file.stem}-{at.line}"):
                if self.fields:
                    line |= {name: line.get(field) for name, field in self.fields.items() if line.get(name) is None}
                    line["role"] = "user" if line["role"] == self.fields["user"] else line["role"]
                yield from self._read_line(line, position)
        except (TypeError, ValueError, AttributeError, LookupError, RecursionError):
            self._findings.faults.append(Fault(Message("labelling.not-an-event"), at.path, at.line))

    def _read_line(self, line: dict[str, Any], position: int) -> Iterator[Record]:
        message = _message(line)
        kinds = [source.get(name) for source in (line, message) for name in ("type", "subtype")]
        conversation, role = self._conversation(line, message, kinds), _role(line, message)
        unique, identity = line.get("uuid"), line.get("id")
        if unique is None and identity is not None and ("parentId" in line or (role == "user" and "type" in line)):
            session = "" if _RANDOM.fullmatch(str(identity)) else conversation.name
            unique = f"{session} {identity} {_text(message)}"
        if unique in self._ids:
            self._findings.counts["lines_twice"] += 1
            return
        self._ids |= {f"{self._file} {identity}", *([] if unique is None else [str(unique)])}
        tools = parsed(get(message, "dynamic_tools", "tools", "available_tools"))
        if isinstance(tools, list) and role != "assistant":
            conversation.offered = self._names.offered(tools, message.get("skills"))
        if any(kind in _COMPACTIONS for kind in kinds) or line.get("isCompactSummary") is True:
            yield from self._cut(conversation)
            return
        calls, results = _uses({**message, "type": message.get("type") or kinds[0]}, role)
        if kinds[0] == "skill.invoked" and message.get("trigger") != "context-load":
            calls = [("", "skill", message)]
        text, is_event = _text(message), kinds[0] == "event_msg"  # of Codex, which repeats calls
        calls = [] if is_event else calls
        if role == "user" and results and (typed := _text_beside_results(message)):
            self._read_answer(conversation, None, calls, results)
            text, calls, results = typed, [], []
        is_user = role == "user" and not results
        is_aborted = any(kind in _ABORTS for kind in kinds) or (is_user and _ABORTED.search(text))
        if is_aborted and conversation.turn is not None:
            conversation.turn.record.doubtful, conversation.turn.unanswered = True, "error"
        if is_user and _is_typed(line, message):
            times = [seconds(source.get(name)) for source in (line, message) for name in _FIELDS["time"]]
            record = Record(position=position, text=text, time=next((t for t in times if t is not None), None))
            yield from self._read_request(conversation, record)
        elif kinds[0] == "skill.invoked" and message.get("trigger") == "user-invoked":
            self._add_explicit(conversation, [message["name"]])
        elif calls or results or (role in ("assistant", "tool") and not is_event):
            is_answer = role == "assistant" and not is_event and message.get("model") != "<synthetic>"
            self._read_answer(conversation, text if is_answer else None, calls, results)
        elif not is_user:
            self._findings.counts["events_other"] += 1

    def _conversation(self, line: Mapping[str, Any], message: Mapping[str, Any], kinds: Sequence[Any]) -> _Conversation:
        """The conversation of an event: of its session, or of a subagent in it. Sets those of the file."""
        context = message.get("context")
        sources = (line, message, context if isinstance(context, dict) else {})
        self._folder = next((source["cwd"] for source in sources if isinstance(source.get("cwd"), str)), self._folder)
        names = [
            (key, str(s[key])) for s in sources[:2] for key in _FIELDS["session"] if isinstance(s.get(key), str | int)
        ]
        key, name = names[0] if names else ("", self._session or self._unique(self._file.stem, self._file.parent.name))
        if (kinds[0] in _STARTS or "projectHash" in line) and not self._session:  # a fork repeats that of its origin
            self._session = name = str(get(message, "sessionId", "id") or name)
        elif key and key not in _FIELDS["session"][:2]:
            name = self._unique(name, self._file.stem)
        agent = get(line, "agentId", "parent_tool_use_id") or message.get("parentToolCallId")
        if line.get("isSidechain") is True and not agent:
            unique = str(line.get("uuid"))
            agent = self._roots[unique] = self._roots.get(str(line.get("parentUuid")), unique)
        name = f"{name}-{agent}" if agent else name
        return self._conversations.setdefault(name, _Conversation(name))

    def _unique(self, name: str, folder: str) -> str:
        """A name of a conversation that no other file has."""
        names = (name, f"{folder}-{name}", f"{folder}-{name}-{len(self._files)}")
        return next(choice for choice in names if self._files.setdefault(choice, self._file) == self._file)

    def _read_request(self, conversation: _Conversation, record: Record) -> Iterator[Record]:
        """Begin a turn with a message of the user; what a program inserted begins none."""
        text, tags = record.text or "", dict(_TAG.findall(record.text or ""))
        command, before = tags.get("command-name", "").strip(" /"), conversation.turn
        if text.lstrip().startswith("<skill>"):  # one that the message before named
            self._add_explicit(conversation, [tags.get("name", "").strip()])
        request = f"/{command} {tags.get('command-args', '').strip()}".strip() if command else _typed_text(text)
        is_repeated = before and before.record.text == request and not (before.uses or before.record.after)
        if request is None or is_repeated:
            return
        yield from self._close(conversation)
        record.text, record.offered = request, conversation.offered
        record.tool_results, conversation.results = tuple(conversation.results), []
        conversation.turn, conversation.is_command = _Turn(record), bool(command)
        mention = _MENTION.match(request)
        self._add_explicit(conversation, [mention[1]] if mention else [])

    def _add_explicit(self, conversation: _Conversation, skills: Sequence[str]) -> None:
        if conversation.turn is not None:
            conversation.turn.record.explicit += tuple(map(self._names.skill, skills))

    def _read_answer(
        self, conversation: _Conversation, text: str | None, calls: Sequence[_Call], results: Sequence[_Result]
    ) -> None:
        """Add an answer and calls to the open turn, and results to their calls.

        An event may repeat a call and name its server. Another name, or a second result, is of a new call with its id.
        """
        if (turn := conversation.turn) is None:
            self._findings.counts.update(records_without_request=1, calls_without_request=len(calls))
            return
        if text is not None:
            conversation.is_command = False
            turn.record.after = (ChatTurn("assistant", text),) if text else turn.record.after
        uses: dict[str | int, _Use] = {}
        for n, (identity, name, arguments) in enumerate(calls):
            items = self._names.needed(name, arguments, self._folder)
            use = next(iter(reversed(conversation.calls.get(identity, ()))), None) if identity else None
            is_same = use is not None and use.turn is turn and _may_repeat(use, name, items)
            if use is None or not is_same or use.status:
                key = identity if identity and (use is None or use.turn is not turn) else f"{identity}#{len(turn.uses)}"
                if use is not None and not any(use is parallel for parallel in reversed(uses.values())):
                    del conversation.calls[identity]
                use = _Use(turn, key, name, items, is_repeat=is_same)
                conversation.add(use, *([identity] if identity else ()), *(() if is_same else [""]))
            use.items, use.tool = use.items or items, use.tool or name
            turn.record.unread += not name and not use.items
            uses[n] = use
        for call, output, failed in results:
            waiting = uses.get(call) or conversation.waiting(str(call))
            if waiting is not None:  # else repeated
                ends = output[:_LENGTH] + output[-_LENGTH:]
                failed = failed or (use_of(waiting.tool) == "shell" and _EXIT.search(ends) is not None) or None
                waiting.status = result_status(output, waiting.tool, failed=failed)
                conversation.results = [*conversation.results, (waiting.tool, output[:_LENGTH])][-_N_RESULTS:]
                self._findings.counts["results_cut"] += len(output) > _LENGTH
                if waiting.turn is not turn:
                    waiting.turn.set_calls()

    def _cut(self, conversation: _Conversation) -> Iterator[Record]:
        """End a conversation that was summarised; what follows is a conversation of its own."""
        if conversation.turn is not None:
            conversation.turn.record.doubtful = True  # the calls that follow may be of its request
            yield from self._close(conversation)
            conversation.n_parts, conversation.n_turns, conversation.results = conversation.n_parts + 1, 0, []

    def _close(self, conversation: _Conversation) -> Iterator[Record]:
        """The open turn of a conversation, unless it is a command that the model did not answer."""
        turn, conversation.turn = conversation.turn, None
        if turn is not None and (turn.uses or not conversation.is_command):
            part = f"-part-{conversation.n_parts}" if conversation.n_parts > 1 else ""
            self._findings.outside.update(use.tool for use in turn.uses if use.tool and not use.items)
            turn.record.conversation, turn.record.turn = f"{conversation.name}{part}", conversation.n_turns
            conversation.n_turns += 1
            turn.set_calls()
            yield turn.record


def _may_repeat(use: _Use, name: str, items: Sequence[str]) -> bool:
    """Whether an event with the id of a call may repeat it: it names the same tool or items, or the first ones."""
    return not (use.items or use.status) or not name or use.items == items != [] or same_tool(use.tool, name)


def _message(line: dict[str, Any]) -> dict[str, Any]:
    """The message in an event; the event itself if it has none."""
    return next((line[name] for name in _FIELDS["message"] if isinstance(line.get(name), dict)), line)


def _role(*sources: Mapping[str, Any]) -> str:
    """The role of a message in an event: user, assistant, tool or system; empty if there is none."""
    for source in reversed(sources):
        for names, roles in ((_FIELDS["role"], _ROLES), (_FIELDS["type"], _TYPES)):
            values = [source.get(name) for name in names]
            texts = [value.get("role") if isinstance(value, dict) else value for value in values]
            if role := next(filter(None, (_role_of(text, roles) for text in texts)), ""):
                return role
    return ""


def _role_of(word: Any, roles: Mapping[str, str] = _ROLES) -> str:
    return roles.get(re.sub(r"[\W_]+", "_", snake(word)), "") if isinstance(word, str) else ""


def _text(message: Mapping[str, Any]) -> str:
    value = get(message, *_FIELDS["text"])
    return plain_text(value.get("text", "") if isinstance(value, dict) else value)


_Call = tuple[str, str, Any]  # id, name and input
_Result = tuple[str | int, str, bool | None]  # the id or the number of the call, the text, and whether it failed


def _uses(message: Mapping[str, Any], role: str) -> tuple[list[_Call], list[_Result]]:
    """The calls and results of a message, of its parts, its lists and its text."""
    calls: list[_Call] = []
    results: list[_Result] = []
    content, text = get(message, *_FIELDS["text"]), _text(message)
    lists = [parsed(message.get(name)) for name in _FIELDS["calls"]]
    entries = [call for value in lists for call in (value if isinstance(value, list) else [value])]
    listed = [{"name": call} if isinstance(call, str) else call for call in entries]
    for part in (*(content if isinstance(content, list) else ()), *listed, message):
        if not isinstance(part, dict):
            continue
        inner: Any = part.get("tool_call")
        key = str(next(iter(inner), "")) if isinstance(inner, dict) else ""
        if key.endswith("ToolCall") and isinstance(inner[key], dict):  # of Cursor
            part = {**part, "name": key[:-8], "id": part.get("call_id"), "input": inner[key].get("args"), **inner[key]}
        kinds = (part.get(name) for name in (*_FIELDS["type"], *_FIELDS["role"]))
        kind = next((kind for kind in kinds if isinstance(kind, str)), "")
        is_result = _RESULT.fullmatch(kind) or any(name in part for name in _FIELDS["parts of results"])
        is_result = is_result or (part is message and role == "tool" and not results)
        is_part = part is not message and any(isinstance(part.get(name), dict) for name in _FIELDS["parts of calls"])
        is_part = is_part or (kind.startswith("tool-") and "toolCallId" in part)  # of a UI message of the AI SDK
        is_call = not is_result and (_CALL.fullmatch(kind) or is_part or any(part is call for call in listed))
        for name in (*_FIELDS["parts of calls"], *_FIELDS["parts of calls"], *_FIELDS["parts of results"]):
            inner = parsed(part.get(name)) if is_call or is_result else None
            part = {**part, **inner} if isinstance(inner, dict) else part
        identity, name = str(get(part, *_FIELDS["id"]) or ""), get(part, *_FIELDS["name"]) or kind.removeprefix("tool-")
        name = f"mcp_{name}" if "callID" in part and "_" in str(name) else name  # OpenCode: server and tool
        server, output = get(part, *SERVERS), get(part, *_FIELDS["output"][0 if is_result else 1 :])
        if is_call:
            name = f"{server.strip('_')}__{name}" if isinstance(server, str) and server else str(name)
            calls.append((identity, name, parsed(get(part, *_FIELDS["input"])) if name else part))
        status = str(get(part, "status", "state")).casefold()
        output = get(output, "Ok", "Err") or output if isinstance(output, dict) else output  # of Codex
        marks = [part.get("is_error"), part.get("success") is False, part.get("ok") is False, part.get("error")]
        marks += [source.get("isError") for source in (part, output) if isinstance(source, dict)]
        failed = status in _FAILURES or any(mark not in (None, False, "", 0) for mark in marks)
        if is_result or (is_call and (output is not None or failed)):
            output = get(output, "content", "message") or output if isinstance(output, dict) else output
            results.append((identity or (len(calls) - 1 if is_call else ""), plain_text(output), failed or None))
    end = len(text)
    for name, inner, start, stop in reversed(
        list(_elements(_TAGGED, text)) if role == "assistant" and not calls else []
    ):
        if text[stop:end].strip():
            break  # it is quoted
        value, end = parsed(inner.strip()), start
        call = value if isinstance(value, dict) else {tag: value.strip() for tag, value in _TAG.findall(inner)}
        calls.insert(0, ("", str(call.get("name", name)), get(value, *_FIELDS["input"]) if call is value else call))
    if role == "user" and (match := _TEXT_RESULT.match(text)) and not any(_elements(_WRAPPED, text)):
        results.append(("", text[match.end() :], None))
    return calls, results


def _elements(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str, int, int]]:
    """The elements in a text whose first tags match: name, content, and where they begin and end."""
    position, unclosed = 0, set()
    for match in pattern.finditer(text):
        end = text.find(f"</{match[1]}>", match.end()) if match[1] not in unclosed and match.start() >= position else -1
        if end >= 0:
            position = end + len(match[1]) + 3
            yield match[1], text[match.end() : end], match.start(), position
        elif match.start() >= position:
            unclosed.add(match[1])


def _text_beside_results(message: Mapping[str, Any]) -> str:
    """The text in a message that has results of tools in parts; empty if there is none."""
    content = get(message, *_FIELDS["text"])
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part["text"] for part in parts if _TEXT_PART.fullmatch(str(part.get("type"))) and "text" in part]
    text = plain_text([{"type": "text", "text": text} for text in texts])
    return "" if len(texts) == len(parts) or _TEXT_RESULT.match(text) else text


def _is_typed(line: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Whether a message of the user was typed by them and not inserted by the program or another agent."""
    origin, source = line.get("origin"), message.get("source")
    return not (
        any(line.get(name) is True or message.get(name) is True for name in _FIELDS["inserted"])
        or (isinstance(origin, dict) and origin.get("kind", "human") != "human")
        or (isinstance(source, str) and source.startswith(("skill-", "agent-", "system", "command-")))
        or message.get("commandMode", "prompt") != "prompt"
    )


def _typed_text(text: str) -> str | None:
    """What the user typed, without insertions; None if nothing is left of a text."""
    plain = _INJECTED.sub("", next((inner for _, inner, _, _ in _elements(_WRAPPED, text)), text)).strip()
    return None if text.strip() and (not plain or _NOT_TYPED.match(plain)) else plain


def _lines_of(value: Mapping[str, Any], name: str = "") -> Iterator[dict[str, Any]]:
    """The events of a document: itself, the requests of a chat of VS Code, or the messages of a session (of a name)."""
    value = value["values"] if isinstance(value.get("values"), dict) else value  # a state of LangGraph
    requests = value.get("requests")
    lists = [requests, *map(value.get, () if _role(value) else _FIELDS["messages"])]
    entries = next((entries for entries in lists if isinstance(entries, list)), None)
    if entries is None:
        yield dict(value)
    session = {"sessionId": str(get(value, *_FIELDS["session"], "uuid", "id") or name)}
    session |= {"tools": value["tools"]} if "tools" in value else {}
    for entry in entries or ():
        lines = _chat_messages(entry) if entries is requests else [entry if isinstance(entry, dict) else {}]
        yield from (session | line | (line["info"] if isinstance(line.get("info"), dict) else {}) for line in lines)


def _chat_messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A request of a chat of VS Code, and the answer to it."""
    response = [part for part in request.get("response") or () if isinstance(part, dict)]
    metadata = (request.get("result") or {}).get("metadata") or {}
    calls = [call for entry in metadata.get("toolCallRounds") or () for call in entry["toolCalls"]]
    outputs = metadata.get("toolCallResults") or {}
    invocations = [part for part in response if part.get("toolCallId")]
    ids = group_pairs((call.get("name"), call.get("id")) for call in calls)
    named = [((ids.get(part.get("toolId")) or [part["toolCallId"]]).pop(0), part) for part in invocations]
    failed = [call for call, part in named if _was_refused(part)]
    results = [
        {
            "type": "tool_result",
            "call_id": call,
            "is_error": call in failed,
            "content": [{"text": part.get("value")} for part in outputs.get(call, {}).get("content", ())],
        }
        for call in dict.fromkeys([*outputs, *failed])
    ]
    texts = [{"text": part["value"]} for part in response if isinstance(part.get("value"), str) and "kind" not in part]
    calls = calls or invocations
    question = {"role": "user", "content": _text({"text": request.get("message")})}
    answer = {"role": "assistant", "content": [*texts, *results], "tool_calls": calls}
    end = [{"type": "abort"}] if request.get("isCanceled") is True else []
    return [{**question, "timestamp": request.get("timestamp")}, answer, *end]


def _was_refused(invocation: Mapping[str, Any]) -> bool:
    """Whether an invocation of a chat of VS Code was denied, skipped or not completed, or failed."""
    confirmed, details = invocation.get("isConfirmed"), invocation.get("resultDetails")
    confirmed = confirmed.get("type") if isinstance(confirmed, dict) else confirmed
    is_error = isinstance(details, dict) and details.get("isError") is True
    return is_error or confirmed in _DENIED or invocation.get("isComplete") is False


def _changed(chat: Any, change: Mapping[str, Any]) -> Any:
    """A chat of VS Code after a change: first of all (0), or at a path something set (1), appended (2), deleted (3)."""
    document: Any = {"chat": chat}
    value = change.get("v")
    path = ["chat", *change.get("k", ())]
    target, last = reduce(getitem, path[:-1], document), path[-1]
    if change["kind"] == 2:
        target[last][change.get("i", len(target[last])) :] = value or []
    elif change["kind"] == 3:
        del target[last]
    else:
        target[last] = value
    return document["chat"]


_NOT_TRANSCRIPTS = {
    *("messages", "called", "offered", "spanId", "span_id", "traceId", "resourceSpans", "run_type", "requests"),
    *("query", "question", "expected", "should_trigger", "span_kind", "context.span_id"),
}
"""Fields of turns, spans and evals."""


def transcript_fields(values: Sequence[Any]) -> dict[str, str]:
    """The fields of a transcript whose names or words for roles are of its own, by what they hold.

    The role is one of few words, that of an assistant in all lines with calls, which are lists, or objects or names in
    a field such as `tool`. The user is who begins, else the only unknown role; the text is the longest and most varied
    one of theirs. The values of a conversation follow each other, and each begins with the same role.

    Returns:
        Names and the word for the user; empty if all names are known, or if the documents are no such lines.
    """
    lines = _events(values)
    calling = [line for line in lines if _uses(_message(line), "")[0]]
    if calling and _has_roles(values):
        return {}
    columns = {str(name): [line.get(name) for line in lines] for name in dict.fromkeys(chain.from_iterable(lines))}
    texts = {name: {cell for cell in column if isinstance(cell, str)} for name, column in columns.items()}
    words = [name for name, column in columns.items() if all(isinstance(cell, str) for cell in column)]
    words = [name for name in words if 1 < len(texts[name]) <= _N_ROLES]
    kinds = {name: (list, dict, str) if _CALLS.search(name) else list for name in columns.keys() - {*_FIELDS["text"]}}
    named = [name for name in columns if any(cell and isinstance(cell, kinds.get(name, ())) for cell in columns[name])]
    named.sort(key=lambda name: kinds[name] is list)
    callers = {"": calling} if calling else {name: [line for line in lines if line.get(name)] for name in named}
    pairs = ((calls, role) for calls in callers for role in words)
    agents = {pair: {_role_of(line[pair[1]]) for line in callers[pair[0]]} for pair in pairs}
    calls, role = next((pair for pair, roles in agents.items() if roles <= {"assistant", "tool"}), ("", ""))
    if not role:
        return {}
    talk = [line for line in lines if _role_of(line[role]) != "system"]
    unknown = [word for word in texts[role] if not _role_of(word)]
    users = [word for word in texts[role] if _role_of(word) == "user"]
    users += [line[role] for line in talk[:1] if line[role] in unknown] or (unknown if len(unknown) == 1 else [])
    lengths = {name: _n_characters([line for line in talk if line[role] in users[:1]], name) for name in columns}
    text = max(lengths, key=lengths.__getitem__)
    if not users or not lengths[text]:
        return {}
    runs = {name: _n_runs(talk, name, role) for name in columns}
    session = max(runs, key=runs.__getitem__)
    times = [name for name in columns if all(isinstance(line.get(name), str) and seconds(line[name]) for line in lines)]
    fields = {"role": role, "content": text, "tool_calls": calls, "timestamp": times[0] if times else ""}
    fields |= {"conversation_id": session} if runs[session] else {}
    return fields | {"user": users[0]}


def _events(values: Sequence[Any]) -> list[dict[str, Any]]:
    """The events of documents, without turns, spans and evals."""
    objects = (value for value in values if isinstance(value, dict) and not {"history", "input"} <= value.keys())
    return [line for value in objects if not value.keys() & _NOT_TRANSCRIPTS for line in _lines_of(value)]


def _n_characters(lines: Sequence[Mapping[str, Any]], name: str) -> int:
    """The number of characters in the different texts of a field that have several words."""
    texts = {line[name] for line in lines if isinstance(line.get(name), str)}
    return sum(len(text) for text in texts if (" " in text or not text.isascii()) and seconds(text) is None)


def _n_runs(lines: Sequence[Mapping[str, Any]], name: str, role: str) -> int:
    """The number of runs of lines with equal values of a field; 0 if it is not of conversations."""
    runs = [next(run) for _, run in groupby(lines, key=lambda line: line.get(name))]
    is_session = 1 < len(runs) == len({repr(line.get(name)) for line in runs}) <= len(lines) / 2
    return len(runs) if is_session and len({line[role] for line in runs}) == 1 else 0


def _has_roles(values: Sequence[Any]) -> bool:
    """Whether most documents are messages or events with known fields and roles, some of them of the user."""
    lines = _events(values)
    roles = [_role(line, _message(line)) or ("tool" if any(_uses(_message(line), "")) else "") for line in lines]
    is_request = [role == "user" and bool(_text(_message(line))) for role, line in zip(roles, lines, strict=True)]
    is_session = any(is_request) and bool({"assistant", "tool"} & set(roles))
    return is_session and 2 * sum(map(bool, roles)) >= len(roles) and 2 * len(lines) >= len(values)


def _has_whole_conversations(values: Sequence[Any]) -> bool:
    """Whether each document is a whole conversation, not a turn or a model call with the messages before it.

    Documents have messages and no other field of a turn. Some have calls before the last message of the user, and none
    of these begins as another document is.
    """
    others = {*TURN_FIELDS} - {"messages", "conversation"}
    if not all(kind_of(value) == "turns" and not others & value.keys() for value in values):
        return False
    try:
        conversations = [read_messages(value["messages"]) for value in values]
    except (TypeError, ValueError, RecursionError):
        return False
    dialogues = [
        [(message.role, message.text) for message in messages if message.role in ("user", "assistant") and message.text]
        for messages in conversations
    ]
    longer = [
        n for n, messages in enumerate(conversations) if messages and summarise_messages(messages, history=0).earlier
    ]
    return bool(longer) and not any(
        dialogues[n][: len(dialogue)] == dialogue for n in longer for i, dialogue in enumerate(dialogues) if i != n
    )


def _has_line(*forms: Mapping[str, type | tuple[Any, ...]]) -> Callable[[Sequence[Any]], bool]:
    """Whether any of the first documents has the fields of a form, each with a type or some values."""
    return lambda values: any(
        isinstance(line, dict)
        and all(
            isinstance(line.get(name), kind) if isinstance(kind, type) else line.get(name) in kind
            for name, kind in form.items()
        )
        for line in values
        for form in forms
    )


_OF_CLAUDE_CODE = (("message", dict), ("uuid", str), ("leafUuid", str), ("subtype", str))
_OF_CODEX = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_OF_COPILOT = ("session.start", "user.message", "assistant.message")
KINDS = make_kinds(
    {
        "claude-code": _has_line(
            *({"type": str, f"session{end}": str, **dict([f])} for end in ("Id", "_id") for f in _OF_CLAUDE_CODE)
        ),
        "codex": _has_line({"payload": dict, "type": _OF_CODEX}, {"type": ("thread.started",), "thread_id": str}),
        "copilot": _has_line(
            {"requests": list, "sessionId": str}, {"kind": (0,), "v": dict}, {"type": _OF_COPILOT, "data": dict}
        ),
        "gemini-cli": _has_line({"sessionId": str, "projectHash": str}, {"sessionId": str, "type": ("gemini",)}),
        "opencode": _has_line({"info": dict, "messages": list}),
        "transcript": lambda values: (
            _has_roles(values) or bool(transcript_fields(values)) or _has_whole_conversations(values)
        ),
    }
)
"""Kinds of sessions, in the order in which they are tried."""
