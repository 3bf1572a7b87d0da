"""Sessions of coding agents, and transcripts: files with one message or event a line, or with a list of them.

A message of the user is a request; all up to the next one is its turn. Tools that were called, skills that were loaded
and files of the catalog that were read in it are what it needed. What programs insert as messages of the user (results
of tools, reminders, contexts, notices of interruptions) is no request.

Sources: Claude Code (`SDKMessage`, https://docs.claude.com/en/api/agent-sdk/typescript, and the transcripts in
`~/.claude/projects`), Codex (`RolloutItem` and `ResponseItem`, https://github.com/openai/codex/tree/main/codex-rs/protocol),
Copilot CLI (`SessionEvent` of https://www.npmjs.com/package/@github/copilot-sdk), chat sessions of VS Code
(`ISerializableChatData`, https://github.com/microsoft/vscode/blob/main/src/vs/workbench/contrib/chat/common/chatModel.ts),
Gemini CLI (`ConversationRecord`, https://github.com/google-gemini/gemini-cli) and Cline
(`api_conversation_history.json`, https://github.com/cline/cline).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from ctxbench.io.errors import Fault, Message
from ctxbench.labelling.kinds import LOG, ImportKind
from ctxbench.labelling.record_files import NameResolver, snake
from ctxbench.labelling.trace_labels import is_shell
from ctxbench.labelling.trace_messages import LIKE_CALLS, LogFindings, get, parsed, plain_text, result_status, seconds
from ctxbench.model.items import Catalog, ItemKey

_ROLE_FIELDS = ("role", "sender", "speaker", "from", "author")
_TYPE_FIELDS = ("type", "event", "kind", "message_type")
_TYPES = {
    **dict.fromkeys(("user", "human", "user_message", "user_input", "user_prompt"), "user"),
    **dict.fromkeys(("assistant", "assistant_message", "agent_message", "ai", "gemini"), "assistant"),
}
_ROLES = {
    **_TYPES,
    **dict.fromkeys(("customer", "client"), "user"),
    **dict.fromkeys(("agent", "bot", "chatbot", "model", "gpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "tool_result", "observation"), "tool"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_ENVELOPES = ("message", "payload", "data")  # fields of an event with the message
_SESSIONS = (
    *("sessionId", "session_id", "conversation_id", "conversationId", "conversation", "thread_id", "threadId"),
    *("chat_id", "chatId", "dialogue_id", "dialog_id", "test_id", "task_id", "run_id", "trace_id", "session"),
)
_LISTS = ("chat_messages", "conversations", "transcript", "messages")  # of messages
_TIMES = ("timestamp", "time", "ts", "created_at", "createdAt", "created", "date")
_TEXTS = ("content", "text", "message", "value", "body", "parts", "utterance")
_CALL_LISTS = ("tool_calls", "toolCalls", "toolRequests", "function_calls", "function_call", "functionCall")
_CALL_NAMES = ("name", "tool_name", "toolName", "tool", "toolId")
_CALL_IDS = ("tool_use_id", "tool_call_id", "toolCallId", "call_id", "callId", "callID", "id")
_INPUTS = ("input", "arguments", "args", "parameters", "params", "action")
_SERVERS = ("mcpServerName", "server_name", "serverName", "server", "namespace")
_OUTPUTS = ("content", "output", "result", "response", "text", "error")
_CALL = re.compile(rf"{LIKE_CALLS.pattern}|tool_?request|local_shell_call|tool\W+execution\W+start", re.IGNORECASE)
_RESULT = re.compile(
    r"(?:\w+[-_])?(?:tool|function)[-_]?(?:call[-_]?)?(?:result|response|output|error)"
    r"|tool\W+execution\W+complete|local_shell_call_output",
    re.IGNORECASE,
)
_FAILURES = ("error", "failed", "failure", "cancelled", "canceled", "denied", "rejected")
_EXIT = re.compile(r"exit(?:ed with)?[ _]code[\"']?:? *[1-9]", re.IGNORECASE)  # of a shell
_END = 300  # characters at the ends of a result that are searched for the exit code

_SKILL_TOOLS = ("skill", "activateskill", "useskill", "loadskill", "slashcommand")
_SKILL_INPUTS = ("skill", "skill_name", "skillName", "name", "command")
_READ_TOOLS = (
    *("read", "readfile", "readfiles", "readmanyfiles", "readtextfile", "view", "viewfile", "openfile", "fsread"),
    *("copilotreadfile", "strreplaceeditor", "strreplacebasededittool", "catfile", "getfilecontents"),
)
_PATH_INPUTS = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename", "paths", "files")
_COMMAND_INPUTS = ("command", "cmd", "script", "code")
_READERS = ("cat", "head", "tail", "less", "more", "bat", "nl", "sed", "awk", "type", "get-content", "gc")
_WITH_SERVER = re.compile(r"__|[./:]|^mcp[_-]")
_STEPS = re.compile(r"&&|\|\|?|;|\n")  # between the commands of a script

_INJECTED = re.compile(
    r"<(system-reminder|environment_details|environment_context|user_instructions|ide_\w+|local-command-\w+|bash-\w+"
    r"|turn_aborted|user_shell_command|task-notification|subagent_notification|permissions instructions|skill"
    r"|collaboration_mode|command-message|user-memory-input|system_notification|current_datetime|reminder\w*"
    r"|editorContext|workspace_info|agents_md|new-diagnostics|session-start-hook|user-prompt-submit-hook)\b[^>]*>"
    r".*?(?:</\1>|\Z)",
    re.DOTALL,
)
_NOT_TYPED = re.compile(
    r"\[Request interrupted by user|Caveat: The messages below were generated|This session is being continued from"
    r"|# AGENTS\.md instructions|API Error|Stop hook feedback|Base directory for this skill:|\[SYSTEM NOTIFICATION"
    r"|\[\w+(?: for [^\n]*)?\] Result:|\[TASK RESUMPTION\]|<teammate-message|Another language model started"
)
_WRAPPED = re.compile(r"<(task|feedback|user_message|userRequest|user_query)>\s*(.*?)\s*</\1>", re.DOTALL)
_CODEX_REQUEST = "## My request for Codex:"  # after the context of an editor
_COMMAND = re.compile(r"<command-name>\s*/?(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_SKILL = re.compile(r"<skill>\s*<name>\s*(.*?)\s*</name>", re.DOTALL)
_MENTION = re.compile(r"[/$]([\w:.-]+)")
_TAGGED = re.compile(r"<(use_mcp_tool|read_file|execute_command|use_skill)>(.*?)</\1>", re.DOTALL)  # calls as text
_TAG = re.compile(r"<(\w+)>\s*([^<]*?)\s*</\1>")

_TEXT_RESULT = re.compile(r"\[\w+(?: for [^\n]*)?\] Result:\s*")  # of Cline
_INSERTED = ("isMeta", "isSynthetic", "isVisibleInTranscriptOnly", "isAutopilotContinuation")
_SHELL_WORDS = ("bash", "sh", "zsh", "-c", "-lc", "sudo", "pwsh", "-Command")

_RESULTS, _RESULT_LENGTH = 8, 2000  # results that go with the next request, and their characters
_COMPACTIONS = ("compacted", "compact_boundary", "session.compaction_complete", "compaction")
_STARTS = ("session_meta", "session.start")


class SessionNames:
    """Names the items that a session used: tools, skills, and files by the ends of their paths."""

    def __init__(self, catalog: Catalog, resolver: NameResolver) -> None:
        self._resolver = resolver
        self._skills: dict[str, list[str]] = {}
        self._paths: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for item in catalog:
            path = item.metadata.get("path", item.name)
            if item.type == "skill":
                self._skills.setdefault(item.name.casefold(), []).append(item.id)
            if item.type not in ("tool", "message", "memory") and isinstance(path, str) and path.strip("/"):
                parts = _parts_of_path(path)
                self._paths.setdefault(parts[-1].casefold(), []).append((parts, item.id))

    def skill(self, name: str) -> str | None:
        """The id of a skill, also with the name of its plugin before a colon; None if the catalog has none."""
        plain = name.strip().strip("/").casefold()
        ids = self._skills.get(plain) or self._skills.get(plain.rpartition(":")[2], [])
        return ids[0] if len(ids) == 1 else None

    def file(self, path: str, folder: str) -> str | None:
        """The item of a file that was read; None if there is none, or several.

        The path of the item is the end of the path that was read. A file in the root of the catalog, such as CLAUDE.md,
        is read from the working folder or a folder above it.

        Args:
            path: the path that was read.
            folder: the working folder; empty if it is unknown.
        """
        parts, above = _parts_of_path(path), _parts_of_path(folder)
        if not parts:
            return None
        matches = [
            (len(end), item_id)
            for end, item_id in self._paths.get(parts[-1].casefold(), ())
            if parts[-len(end) :] == end and (len(end) > 1 or not above or _is_at_root(path, parts[:-1], above))
        ]
        longest = [item_id for length, item_id in matches if length == max(matches)[0]]
        if len(longest) == 1:
            return longest[0]
        is_skill = not longest and parts[-1] == "SKILL.md" and len(parts) > 1
        return (self.skill(parts[-2]) or ItemKey("skill", None, parts[-2]).id) if is_skill else None

    def needed(self, name: str, arguments: Any, folder: str) -> list[str]:
        """The names of the items that a call used; empty for a tool of the agent that used none.

        Args:
            name: the name of the tool.
            arguments: its input.
            folder: the working folder.
        """
        plain = re.sub(r"[\W_]", "", name.casefold())
        values = arguments if isinstance(arguments, dict) else {"command": arguments}
        items: list[str | None] = []
        if self.is_item(name) or _WITH_SERVER.search(name):
            items = [name]
        elif plain in _SKILL_TOOLS:
            skill = get(values, *_SKILL_INPUTS)
            skill = str(skill).strip().strip("/").split(" ")[0] if skill else ""
            items = [self.skill(skill) or ItemKey("skill", None, skill).id] if skill else []
        elif plain in _READ_TOOLS:
            items = [self.file(path, folder) for path in _paths_in(get(values, *_PATH_INPUTS))]
        elif is_shell(name) or plain in ("execcommand", "shellcommand", "unifiedexec"):
            paths = _read_by(get(values, *_COMMAND_INPUTS), get(values, "workdir", "cwd"))
            items = [self.file(path, folder) for path in paths]
        return list(dict.fromkeys(item for item in items if item))

    def is_item(self, name: str) -> bool:
        """Whether a name is, or may be, of a tool in the catalog."""
        resolved = self._resolver.resolve(name)
        return any(key.type == "tool" for key in (*resolved.candidates, *([resolved.key] if resolved.key else [])))

    def offered(self, tools: Any, skills: Any) -> tuple[str, ...] | None:
        """The names in lists of tools and skills, without the tools of the agent; None without a list of tools."""
        if not isinstance(tools, list):
            return None
        names = [tool.get("name") if isinstance(tool, dict) else tool for tool in tools]
        ids = [self.skill(get(s, "name", "id") if isinstance(s, dict) else s) for s in skills or () if s]
        return tuple(n for n in names if isinstance(n, str) and (self.is_item(n) or _WITH_SERVER.search(n))) + tuple(
            item for item in ids if item
        )


def _parts_of_path(path: str) -> tuple[str, ...]:
    """The parts of a path of any system, without a root and dots."""
    plain = re.sub(r"^(?:file://)?(?:/?[A-Za-z]:)?", "", path.strip().replace("\\", "/"))
    return tuple(part for part in PurePosixPath(plain).parts if part not in ("/", "//", ".", "~"))


def _is_at_root(path: str, folder: tuple[str, ...], working: tuple[str, ...]) -> bool:
    """Whether a file is in the working folder or above it; a path without a root is relative to that."""
    is_absolute = path.strip().startswith(("/", "\\", "file:")) or path.strip()[1:2] == ":"
    return working[: len(folder)] == folder if is_absolute else not folder


def _paths_in(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else [value]
    paths = (get(entry, "path", "file_path") if isinstance(entry, dict) else entry for entry in entries)
    return [path for path in paths if isinstance(path, str)]


def _read_by(command: Any, folder: Any) -> list[str]:
    """The files that a command of a shell prints, such as `cat a.md` or `cd docs && sed -n 1,80p a.md`."""
    text = " ".join(part for part in command if isinstance(part, str)) if isinstance(command, list) else command
    base = folder if isinstance(folder, str) else ""
    paths: list[str] = []
    for step in _STEPS.split(text) if isinstance(text, str) else ():
        try:
            words = shlex.split(step)
        except ValueError:
            words = step.replace('"', " ").replace("'", " ").split()
        while words and words[0] in _SHELL_WORDS:
            words = words[1:]
        if words[:1] == ["cd"]:
            base = _joined(base, words[-1])
        elif words and words[0].casefold() in _READERS and not any(word[:2] == "-i" or ">" in word for word in words):
            paths += [_joined(base, word) for word in words[1:] if word[:1] != "-"]
    return paths


def _joined(base: str, path: str) -> str:
    return path if not base or path[:1] in ("/", "~") or path[1:2] == ":" else f"{base}/{path}"


@dataclass(slots=True, kw_only=True)
class SessionTurn:
    """A message of the user with what followed it.

    Attributes:
        position: 1-based position of the message in the log.
        at: its file and line.
        time: of the message, as in the log.
        offered: names of tools and skills that the session listed before; None without a list.
        results: (tool, text) pairs of the turn before.
        is_command: a command of the program, which is a request only if the model answered.
        calls: rows of calls by id, with the names of the items.
        is_cut: the messages after it were summarised away, so there may be more calls.
    """

    conversation: str
    position: int
    at: Fault
    text: str
    time: Any = None
    offered: tuple[str, ...] | None = None
    explicit: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    is_command: bool = False
    number: int = 0
    answer: str | None = None
    calls: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    is_cut: bool = False

    def row(self) -> dict[str, Any]:
        """The turn as a row of `TURN_FIELDS`."""
        row: dict[str, Any] = {
            "conversation": self.conversation,
            "turn": self.number,
            "messages": [{"role": "user", "content": self.text}],
            "called": [call for calls in self.calls.values() for call in calls],
            "explicit": self.explicit,
            "tool_results": [{"tool": tool, "text": text} for tool, text in self.results],
        }
        answer = [{"role": "assistant", "content": self.answer}] if self.answer else []
        optional = {"time": self.time, "offered": None if self.offered is None else list(self.offered)}
        row["messages"] += answer
        return row | {name: value for name, value in optional.items() if value is not None}


@dataclass(slots=True)
class _Conversation:
    """A conversation so far: its name, its open turn, and the results of that."""

    name: str
    offered: tuple[str, ...] | None = None
    turn: SessionTurn | None = None
    n_turns: int = 0
    n_parts: int = 1
    tools: dict[str, str] = field(default_factory=dict)
    results: list[tuple[str, str]] = field(default_factory=list)


class SessionReader:
    """Reads the events of sessions, file by file, into turns.

    Several sessions may be in one file, and a session in several files: a resumed one repeats events, which are read
    once. Subagents, and what follows a summary of the conversation (compaction), are conversations of their own.
    """

    def __init__(self, names: SessionNames, findings: LogFindings) -> None:
        self._names = names
        self._findings = findings
        self._conversations: dict[str, _Conversation] = {}
        self._owners: dict[str, Path] = {}
        self._seen: set[str] = set()
        self._roots: dict[str, str] = {}  # of messages of subagents without ids
        self._file = Path()
        self._session = self._folder = ""
        self._is_started = False
        self._chat: Any = None
        self._last = 0, Fault("")  # position and line of the last document

    def start_file(self, path: Path) -> Iterator[SessionTurn]:
        """Begin a file; the turns of a chat that the file before recorded as changes."""
        chat, self._chat = self._chat, None
        if isinstance(chat, dict):
            yield from self.read(chat, *self._last)
        self._file, self._folder, self._is_started = path, "", False
        self._session = self._unique(path.stem, path.parent.name)

    def finish(self) -> Iterator[SessionTurn]:
        """The turns that were open at the end of all files."""
        yield from self.start_file(Path())
        for conversation in self._conversations.values():
            yield from self._close(conversation)

    def read(self, value: Any, position: int, at: Fault) -> Iterator[SessionTurn]:
        """Read a document of the file; gives the turns that it ended.

        Args:
            value: an event, or an object with a list of them. Anything else is a fault.
            position: its 1-based position in the log.
            at: its file and line.
        """
        if not isinstance(value, dict):
            self._findings.faults.append(Fault(Message("labelling.not-an-event"), at.path, at.line))
            return
        self._last = position, at
        if isinstance(value.get("kind"), int) and ("v" in value or "k" in value):
            self._change_chat(value, at)
            return
        for line in _lines_of(value):
            yield from self._read_line(line, position, at)

    def _change_chat(self, change: Mapping[str, Any], at: Fault) -> None:
        """Apply a line of a chat of VS Code that is recorded as changes at paths: set (1), append (2), delete (3)."""
        value, kind = change.get("v"), change["kind"]
        try:
            if kind == 0:
                self._chat = value
                return
            *path, last = change["k"]
            target = self._chat
            for key in path:
                target = target[key]
            if kind == 1:
                target[last] = value
            elif kind == 2:
                del target[last][change.get("i", len(target[last])) :]
                target[last].extend(value or ())
            else:
                del target[last]
        except (LookupError, TypeError, ValueError, AttributeError):
            self._findings.faults.append(Fault(Message("labelling.not-an-event"), at.path, at.line))

    def _read_line(self, line: dict[str, Any], position: int, at: Fault) -> Iterator[SessionTurn]:
        message = next((line[name] for name in _ENVELOPES if isinstance(line.get(name), dict)), line)
        kinds = [source.get(name) for source in (line, message) for name in ("type", "subtype")]
        self._read_session(line, message, kinds)
        unique = line.get("uuid") or (line.get("id") if "parentId" in line else None)
        if isinstance(unique, str) and unique:
            if unique in self._seen:
                self._findings.counts["lines_twice"] += 1
                return
            self._seen.add(unique)
        conversation = self._conversation(line, message)
        role = _role(line, message)
        tools = get(message, "dynamic_tools", "tools", "available_tools")
        if isinstance(tools, list) and role != "assistant":
            conversation.offered = self._names.offered(tools, message.get("skills"))
        if any(kind in _COMPACTIONS for kind in kinds) or line.get("isCompactSummary") is True:
            if conversation.turn is not None:
                conversation.turn.is_cut = True
                yield from self._close(conversation)
                conversation.n_parts, conversation.n_turns, conversation.results = conversation.n_parts + 1, 0, []
            return
        if kinds[0] == "event_msg" and message.get("type") != "user_message":
            return  # Codex repeats its items as events
        calls, results = list(_calls(message)), list(_results(message, role))
        if "skill.invoked" in kinds:
            yield from self._invoke_skill(conversation, message)
        elif role == "user" and not results:
            yield from self._read_request(
                conversation,
                line,
                message,
                SessionTurn(conversation="", position=position, at=at, text=_text(message), time=_time(line, message)),
            )
        elif role or calls or results:
            is_answer = role == "assistant" and line.get("isApiErrorMessage") is not True
            self._read_answer(conversation, _text(message) if is_answer else None, calls, results)
        else:
            self._findings.counts["events_other"] += 1

    def _read_session(self, line: Mapping[str, Any], message: Mapping[str, Any], kinds: Sequence[Any]) -> None:
        """Set the session and the working folder of the file."""
        context = message.get("context")
        sources = (line, message, context if isinstance(context, dict) else {})
        folder = next((source["cwd"] for source in sources if isinstance(source.get("cwd"), str)), None)
        self._folder = folder or self._folder
        if any(kind in _STARTS for kind in kinds) and not self._is_started:  # a fork repeats that of its origin
            self._session, self._is_started = str(get(message, "sessionId", "id") or self._session), True

    def _unique(self, name: str, folder: str) -> str:
        """A name of a conversation that no other file has."""
        path = self._file
        names = [name, f"{folder}-{name}", f"{folder}-{name}-{len(self._owners)}"]
        chosen = next(choice for choice in names if self._owners.get(choice, path) == path)
        self._owners[chosen] = path
        return chosen

    def _conversation(self, line: Mapping[str, Any], message: Mapping[str, Any]) -> _Conversation:
        """The conversation of an event: of its session, or of a subagent in it."""
        sources = [(source, key) for source in (line, message) for key in _SESSIONS]
        source, key = next(((s, k) for s, k in sources if isinstance(s.get(k), str | int) and s[k] != ""), ({}, ""))
        name = self._session if not key else str(source[key])
        if key and key not in _SESSIONS[:2]:  # ids that are unique in their file alone
            name = self._unique(name, self._file.stem)
        agent = get(line, "agentId", "parent_tool_use_id") or message.get("parentToolCallId")
        unique, parent = str(line.get("uuid")), str(line.get("parentUuid"))
        if line.get("isSidechain") is True and not agent:
            agent = self._roots[unique] = self._roots.get(parent, unique)
        name = f"{name}-{agent}" if agent else name
        return self._conversations.setdefault(name, _Conversation(name))

    def _read_request(
        self, conversation: _Conversation, line: Mapping[str, Any], message: Mapping[str, Any], turn: SessionTurn
    ) -> Iterator[SessionTurn]:
        """Begin a turn with a message of the user; the program's insertions begin none."""
        before = conversation.turn
        if before is not None:  # a skill that the user named is inserted after the message
            before.explicit += [item for name in _SKILL.findall(turn.text) if (item := self._names.skill(name))]
        command = _COMMAND.search(turn.text)
        text = _typed_text(turn.text) if command is None else _command_text(command[1], turn.text)
        if text is None or not _is_typed(line, message):
            return
        if before is not None and before.text == text and not before.calls and before.answer is None:
            return  # the same message as an item and as an event
        yield from self._close(conversation)
        mention = _MENTION.match(text)
        skill = self._names.skill(mention[1]) if mention else None
        turn.text, turn.is_command, turn.explicit = text, command is not None, [skill] if skill else []
        turn.offered, turn.results, conversation.results = conversation.offered, conversation.results, []
        conversation.turn, conversation.tools = turn, {}

    def _read_answer(
        self, conversation: _Conversation, text: str | None, calls: Iterable[_Call], results: Iterable[_Result]
    ) -> None:
        """Add an answer, calls and results to the open turn."""
        turn = conversation.turn
        if turn is None:
            self._findings.counts["records_without_request"] += 1
            self._findings.counts["calls_without_request"] += len(list(calls))
            return
        turn.answer = text or turn.answer if text is not None or turn.answer is None else turn.answer
        for call in calls:
            key = call.id or f"#{len(turn.calls)}"
            if key not in turn.calls:
                items = self._names.needed(call.name, call.input, self._folder)
                self._findings.outside[call.name] += not items
                turn.calls[key] = [{"tool": item} | ({"call": key} if n == 0 else {}) for n, item in enumerate(items)]
                conversation.tools[key] = call.name
        for result in results:
            key = result.id or next(iter(conversation.tools), "")
            tool = conversation.tools.pop(key, None)
            if tool is None:
                continue  # repeated, or of a call before this turn
            ends = result.text[:_END] + result.text[-_END:]
            failed = True if is_shell(tool) and _EXIT.search(ends) else result.failed
            for row in turn.calls[key]:
                row["status"] = result_status(result.text, tool, failed=failed)
            conversation.results = [*conversation.results, (tool, result.text[:_RESULT_LENGTH])][-_RESULTS:]

    def _invoke_skill(self, conversation: _Conversation, message: Mapping[str, Any]) -> None:
        """Read a skill that was loaded (Copilot CLI): by the user, by the agent, or with a context."""
        item, turn = self._names.skill(str(message.get("name"))), conversation.turn
        if message.get("trigger") == "user-invoked" and turn is not None:
            turn.explicit += [item] if item else []
        elif message.get("trigger") != "context-load":
            self._read_answer(conversation, None, [_Call("", "skill", message)], ())

    def _close(self, conversation: _Conversation) -> Iterator[SessionTurn]:
        """The open turn of a conversation, unless it is a command that the model did not answer."""
        turn, conversation.turn = conversation.turn, None
        if turn is not None and (not turn.is_command or turn.calls or turn.answer is not None):
            part = f"-part-{conversation.n_parts}" if conversation.n_parts > 1 else ""
            turn.conversation, turn.number = f"{conversation.name}{part}", conversation.n_turns
            conversation.n_turns += 1
            yield turn


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    name: str
    input: Any


@dataclass(frozen=True, slots=True)
class _Result:
    id: str
    text: str
    failed: bool | None


def _plain(value: Any) -> str:
    """A role or a type in small letters, with underscores between its words."""
    value = value.get("role") if isinstance(value, dict) else value
    return re.sub(r"[\W_]+", "_", snake(value)) if isinstance(value, str) else ""


def _role(line: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    """The role of a message; empty if it is none."""
    for source in (message, line):
        for names, roles in ((_ROLE_FIELDS, _ROLES), (_TYPE_FIELDS, _TYPES)):
            role = next((roles[name] for name in (_plain(source.get(key)) for key in names) if name in roles), "")
            if role:
                return role
    return ""


def _kind(part: Mapping[str, Any]) -> str:
    return next((part[name] for name in _TYPE_FIELDS if isinstance(part.get(name), str)), "")


def _time(*sources: Mapping[str, Any]) -> Any:
    values = (source.get(name) for source in sources for name in _TIMES)
    return next((value for value in values if seconds(value) is not None), None)


def _text(message: Mapping[str, Any]) -> str:
    value = get(message, *_TEXTS, "prompt")
    return plain_text(value.get("text", "") if isinstance(value, dict) else value)


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = get(message, *_TEXTS)
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _listed_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    values = (parsed(message.get(name)) for name in _CALL_LISTS)
    lists = (value if isinstance(value, list) else [value] for value in values)
    return [call for call in chain.from_iterable(lists) if isinstance(call, dict)]


_INNER = ("functionCall", "toolCall", "toolUse", "function", "value")  # objects around a call
_INNER_RESULTS = ("functionResponse", "toolResult", "toolResponse")


def _calls(message: Mapping[str, Any]) -> Iterator[_Call]:
    """The calls of a message: itself, parts of its content, lists, or tags in a text."""
    parts = [part for part in (message, *_parts(message)) if _CALL.fullmatch(_kind(part)) or _is_inner(part, _INNER)]
    for part in (*parts, *_listed_calls(message)):
        inner = next((part[name] for name in _INNER if isinstance(part.get(name), dict)), part)
        inner = inner["value"] if isinstance(inner.get("value"), dict) else inner
        name = get(inner, "mcpToolName", *_CALL_NAMES) or get(part, *_CALL_NAMES) or part.get("type")
        server = get(inner, *_SERVERS)
        if isinstance(server, str) and server:
            name = f"{server.strip('_')}__{name}"
        arguments = parsed(get(inner, *_INPUTS) or get(part, *_INPUTS))
        if isinstance(name, str):
            yield _Call(str(get(part, *_CALL_IDS) or get(inner, *_CALL_IDS) or ""), name, arguments)
    for name, content in _TAGGED.findall(_text(message)) if _role(message, message) == "assistant" else ():
        values = dict(_TAG.findall(content))
        server, tool = values.get("server_name"), values.get("tool_name")
        yield _Call("", f"{server}__{tool}" if server and tool else name, values)


def _is_inner(part: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(isinstance(part.get(name), dict) and get(part[name], "name", "response", "value") for name in names)


def _results(message: Mapping[str, Any], role: str) -> Iterator[_Result]:
    """The results in a message: itself, parts of its content, calls with their results, or a text of Cline."""
    parts = [p for p in _parts(message) if _RESULT.fullmatch(_kind(p)) or _is_inner(p, _INNER_RESULTS)]
    if not parts and (role == "tool" or _RESULT.fullmatch(_kind(message))):
        parts = [dict(message)]
    calls = [call for call in (*_parts(message), *_listed_calls(message)) if get(call, "result", "output", "status")]
    for part in (*parts, *(call for call in calls if call not in parts and get(call, *_CALL_NAMES))):
        inner = next((part[name] for name in _INNER_RESULTS if isinstance(part.get(name), dict)), part)
        output = get(inner, *_OUTPUTS)
        output = output["content"] if isinstance(output, dict) and isinstance(output.get("content"), str) else output
        wrong = [inner.get("is_error"), inner.get("isError"), inner.get("success") is False, part.get("error")]
        failed = any(value not in (None, False, "", 0) for value in wrong) or _plain(part.get("status")) in _FAILURES
        identity = get(part, *_CALL_IDS) or get(inner, *_CALL_IDS)
        yield _Result(str(identity or ""), plain_text(output), True if failed else None)
    if role == "user" and (match := _TEXT_RESULT.match(text := _text(message))) and not _WRAPPED.search(text):
        yield _Result("", text[match.end() :], None)


def _is_typed(line: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Whether a message of the user was typed by them and not inserted by the program or another agent."""
    origin, source = line.get("origin"), message.get("source")
    return not (
        any(line.get(name) is True or message.get(name) is True for name in _INSERTED)
        or (isinstance(origin, dict) and origin.get("kind", "human") != "human")
        or (isinstance(source, str) and source.startswith(("skill-", "agent-", "system", "command-")))
        or message.get("commandMode", "prompt") != "prompt"
    )


def _command_text(name: str, text: str) -> str:
    arguments = _ARGUMENTS.search(text)
    return f"/{name} {arguments[1] if arguments else ''}".strip()


def _typed_text(text: str) -> str | None:
    """What the user typed, without insertions; None if nothing is left of a text."""
    wrapped = _WRAPPED.search(text)
    plain = _INJECTED.sub("", text if wrapped is None else wrapped[2]).rpartition(_CODEX_REQUEST)[2].strip()
    return None if text.strip() and (not plain or _NOT_TYPED.match(plain)) else plain


def _lines_of(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a document: itself, the requests of a chat of VS Code, or the messages of a session."""
    session = {name: value[name] for name in _SESSIONS[:2] if isinstance(value.get(name), str)}
    if isinstance(value.get("requests"), list):
        for request in value["requests"]:
            yield from (session | line for line in _chat_request(request) if isinstance(request, dict))
        return
    lists = (value[name] for name in _LISTS if isinstance(value.get(name), list))
    entries = [entry for entry in next(lists, ()) if isinstance(entry, dict)]
    yield from (session | entry for entry in entries) if entries and not _role(value, value) else [value]


def _chat_request(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A request of a chat of VS Code as messages."""
    message, result = request.get("message"), request.get("result")
    metadata = result.get("metadata") if isinstance(result, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    yield {"role": "user", "content": _text({"text": message}), "timestamp": request.get("timestamp")}
    response = [part for part in request.get("response") or () if isinstance(part, dict)]
    rounds = [entry for entry in metadata.get("toolCallRounds") or () if isinstance(entry, dict)]
    for entry in rounds:
        yield {"role": "assistant", "content": entry.get("response"), "tool_calls": entry.get("toolCalls")}
    if not rounds:
        yield {"role": "assistant", "tool_calls": [part for part in response if part.get("toolCallId")]}
    results = metadata.get("toolCallResults")
    for call, output in results.items() if isinstance(results, dict) else ():
        texts = [part.get("value") for part in _parts(output) if isinstance(part.get("value"), str)]
        yield {"role": "tool", "tool_call_id": call, "content": "\n".join(texts)}
    texts = [part["value"] for part in response if isinstance(part.get("value"), str) and "kind" not in part]
    yield {"role": "assistant", "content": "".join(texts)}


def _objects(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)]


def _is_claude_code(values: Sequence[Any]) -> bool:
    return any(
        _is_text(value, "type")
        and (_is_text(value, "sessionId") or _is_text(value, "session_id"))
        and (isinstance(value.get("message"), dict) or any(name in value for name in ("uuid", "leafUuid", "subtype")))
        for value in _objects(values)
    )


def _is_codex(values: Sequence[Any]) -> bool:
    types = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
    return any(value.get("type") in types and isinstance(value.get("payload"), dict) for value in _objects(values))


def _is_copilot(values: Sequence[Any]) -> bool:
    def is_chat(value: Any) -> bool:
        return isinstance(value, dict) and isinstance(value.get("requests"), list) and "sessionId" in value

    return any(
        is_chat(value)
        or (value.get("kind") == 0 and is_chat(value.get("v")))
        or (
            value.get("type") in ("session.start", "user.message", "assistant.message")
            and isinstance(value.get("data"), dict)
        )
        for value in _objects(values)
    )


def _is_gemini(values: Sequence[Any]) -> bool:
    return any(
        _is_text(value, "sessionId") and ("projectHash" in value or value.get("type") == "gemini")
        for value in _objects(values)
    )


def _is_transcript(values: Sequence[Any]) -> bool:
    objects = [value for value in _objects(values) if not any(name in value for name in _NOT_TRANSCRIPTS)]
    roles = [_role(line, line) for value in objects for line in _lines_of(value)]
    return "user" in roles and 2 * sum(map(bool, roles)) >= len(roles) and 2 * len(objects) >= len(values)


_NOT_TRANSCRIPTS = (
    *("messages", "called", "offered", "spanId", "span_id", "traceId", "resourceSpans", "run_type"),
    *("query", "question", "input", "prompt", "expected", "should_trigger"),
)
"""Fields of turns, spans and evals."""


def _is_text(value: Mapping[str, Any], name: str) -> bool:
    return isinstance(value.get(name), str)


def _session_kind(
    name: str, title: str, program: str, matches: Callable[[Sequence[Any]], bool], offered: str = ""
) -> ImportKind:
    return ImportKind(
        name=name,
        family=LOG,
        title=title,
        program=program,
        request="a message of the user",
        label="tools called, skills loaded and files of the catalog read up to the next message",
        offered=offered,
        matches=matches,
    )


KINDS = (
    _session_kind(
        "claude-code",
        "sessions of Claude Code",
        "`~/.claude/projects/*/*.jsonl`; `claude -p --output-format stream-json`",
        _is_claude_code,
        "tools and skills that `init` lists",
    ),
    _session_kind("codex", "sessions of Codex", "`~/.codex/sessions/**/rollout-*.jsonl`", _is_codex, "dynamic tools"),
    _session_kind(
        "copilot",
        "sessions of Copilot CLI and chats of VS Code",
        "`~/.copilot/session-state/*/events.jsonl`; `workspaceStorage/*/chatSessions/*` of VS Code",
        _is_copilot,
    ),
    _session_kind("gemini-cli", "sessions of Gemini CLI", "`~/.gemini/tmp/*/chats/*`", _is_gemini),
    _session_kind(
        "transcript",
        "messages or events, one a line or in a list",
        "Cline's `api_conversation_history.json`; logs of any agent",
        _is_transcript,
        "`tools` of a line",
    ),
)
"""Kinds of sessions, in the order in which they are tried."""
