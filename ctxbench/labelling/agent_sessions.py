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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, groupby
from operator import getitem
from pathlib import Path, PurePosixPath
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.io.errors import Fault, Message
from ctxbench.labelling.record_files import UNKNOWN, NameResolver, snake
from ctxbench.labelling.sources import LOG, ImportKind
from ctxbench.labelling.trace_labels import is_shell
from ctxbench.labelling.trace_messages import (
    LIKE_CALLS,
    Call,
    LogFindings,
    Record,
    get,
    parsed,
    plain_text,
    result_status,
    seconds,
)
from ctxbench.model.items import Catalog, ItemKey
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
    "server": ("mcpServerName", "server_name", "serverName", "server", "namespace", "providerIdentifier"),
    "id": ("tool_use_id", "tool_call_id", "toolCallId", "call_id", "callId", "callID", "id"),
    "input": ("input", "arguments", "args", "parameters", "params", "action", "tool_input"),
    "output": ("content", "output", "result", "response", "tool_response", "observation", "answer", "text", "error"),
    "skill": ("skill", "skill_name", "skillName", "name", "command"),
    "read": ("file_path", "filePath", "path", "absolute_path", "target_file", "filename", "paths", "files"),
    "shell": ("command", "cmd", "script", "code"),
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
_EXIT = re.compile(r"exit(?:ed with)?[ _]code[\"']?:? *[1-9]", re.IGNORECASE)  # of a shell

_USES = {
    **dict.fromkeys(("skill", "activateskill", "useskill", "loadskill", "slashcommand"), "skill"),
    **dict.fromkeys(("read", "readfile", "readfiles", "readmanyfiles", "readtextfile", "view", "viewfile"), "read"),
    **dict.fromkeys(("openfile", "fsread", "strreplaceeditor", "strreplacebasededittool"), "read"),
    **dict.fromkeys(
        ("localshellcall", "execcommand", "shellcommand", "unifiedexec", "runshellcommand", "runinterminal"), "shell"
    ),
}
"""Tools of agents that load skills, read files, or run commands, which may read files, too."""
_READERS = ("cat", "head", "tail", "less", "more", "bat", "nl", "sed", "awk", "type", "get-content", "gc")
_SHELL_WORDS = ("bash", "sh", "zsh", "-c", "-lc", "sudo", "pwsh", "-Command")
_STEPS = re.compile(r"&&|\|\|?|;|\n")  # between the commands of a script
_WITH_SERVER = re.compile(r"__|[./:]|^mcp[_-]")
_SERVER_TWICE = re.compile(r"^(.+?)__(?:mcp[-_]+)?\1[-_./:]+", re.IGNORECASE)  # where a name repeats its server

_INJECTED = re.compile(
    r"<(system-reminder|environment_details|environment_context|user_instructions|ide_\w+|local-command-\w+|bash-\w+"
    r"|turn_aborted|user_shell_command|task-notification|subagent_notification|permissions instructions|skill"
    r"|session_context|collaboration_mode|command-message|user-memory-input|system_notification|current_datetime|reminder\w*"
    r"|editorContext|workspace_info|agents_md|new-diagnostics|session-start-hook|user-prompt-submit-hook)\b[^>]*>"
    r".*?(?:</\1>|\Z)|\A.*## My request for Codex:",
    re.DOTALL,
)
_NOT_TYPED = re.compile(
    r"\[Request interrupted by user|Caveat: The messages below were generated|This session is being continued from"
    r"|# AGENTS\.md instructions|API Error|Stop hook feedback|Base directory for this skill:|\[SYSTEM NOTIFICATION"
    r"|\[TASK RESUMPTION\]|<teammate-message|Another language model started"
)
_TEXT_RESULT = re.compile(r"\[\w+(?: for [^\n]*)?\] Result:\s*")  # of Cline
_WRAPPED = re.compile(r"<(task|feedback|user_message|userRequest|user_query)>(.*?)</\1>", re.DOTALL)
_MENTION = re.compile(r"[/$]([\w:.-]+)")
_TAGGED = re.compile(r"<(use_mcp_tool|read_file|execute_command|use_skill|tool_call)>(.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<([\w-]+)>\s*([^<]*)</\1>")

_N_RESULTS, _LENGTH = 5, 1000  # results that go with the next request, and their characters
_N_ROLES = 8  # different words for roles in a transcript at most
_ABORTS = ("turn_aborted", "abort", "turn.failed")
_ABORTED = re.compile(r"<turn_aborted>|\[Request interrupted by user")
_CALLS = re.compile("call|tool|action|function", re.IGNORECASE)
_DENIED = (0, 5)  # confirmations of VS Code: denied (in old versions false), skipped
_STARTS = ("session_meta", "session.start", "session")
_COMPACTIONS = ("compacted", "compact_boundary", "session.compaction_complete", "compaction")


class SessionNames:
    """Names the items that a session used: tools, skills, and files by the ends of their paths."""

    def __init__(self, catalog: Catalog, resolver: NameResolver) -> None:
        self._resolver = resolver
        self._skills = group_pairs((item.name.casefold(), item.id) for item in catalog if item.type == "skill")
        files = (item for item in catalog if item.type not in ("tool", "message", "memory"))
        paths = ((_path_parts(str(item.metadata.get("path", item.name))), item) for item in files)
        self._files = group_pairs(
            (parts[-1].casefold(), (parts, item.id))
            for parts, item in paths
            if len(parts) > (item.type == "skill")  # a file SKILL.md alone may be of any skill
        )

    def skill(self, name: str) -> str:
        """The id of a skill, also with the name of its plugin before a colon; of an unknown one with its name."""
        plain = name.strip(" /").casefold()
        ids = self._skills.get(plain) or self._skills.get(plain.rpartition(":")[2], [])
        return ids[0] if len(ids) == 1 else ItemKey("skill", None, name.strip(" /") or "?").id

    def file(self, path: str, folder: str) -> str:
        """The id of a file that was read; empty if there is none, or if there are several.

        The path of the item is the end of the path that was read. A file in the root of the catalog, such as CLAUDE.md,
        is read from the working folder or a folder above it.

        Args:
            path: the path that was read.
            folder: the working folder; empty if it is unknown.
        """
        parts, above = _path_parts(path), _path_parts(folder)
        is_absolute = path.startswith(("/", "\\", "file:")) or path[1:2] == ":"
        is_above = above[: len(parts) - 1] == parts[:-1] if is_absolute else len(parts) == 1
        matches = [
            (len(end), item_id)
            for end, item_id in (self._files.get(parts[-1].casefold(), ()) if parts else ())
            if parts[-len(end) :] == end and (len(end) > 1 or not above or is_above)
        ]
        longest = [item_id for length, item_id in matches if length == max(matches)[0]]
        if not longest and len(parts) > 1 and parts[-1] == "SKILL.md":
            return self.skill(parts[-2])
        return longest[0] if len(longest) == 1 else ""

    def needed(self, name: str, arguments: Any, folder: str) -> list[str]:
        """The names of the items that a call used; empty for a tool of the agent that used none.

        Args:
            name: the name of the tool; empty if it is in a field of any name among the arguments.
            arguments: its input.
            folder: the working folder.
        """
        values = arguments if isinstance(arguments, dict) else {"command": arguments}
        if not name:
            return [value for value in values.values() if isinstance(value, str) and self._is_known(value)][:1]
        server, tool = get(values, *_FIELDS["server"]), get(values, "tool_name", "toolName")
        name = f"{server}__{tool}" if server and tool else name  # a tool that calls tools
        plain = name if self._is_known(name) else _SERVER_TWICE.sub(r"\1__", name)
        if self.is_item(plain):
            return [plain]
        use = _use(name)
        value = get(values, *_FIELDS[use]) if use else None
        if use == "skill":
            return [self.skill(value.strip(" /").split(" ")[0])] if isinstance(value, str) else []
        paths = _printed_files(value, values) if use == "shell" else value if isinstance(value, list) else [value]
        items = [self.file(path.strip(), folder) for path in paths if isinstance(path, str)]
        return list(dict.fromkeys(filter(None, items)))

    def is_item(self, name: str) -> bool:
        """Whether a called name may be of an item, and not of a tool that is part of the agent."""
        return self._is_known(name) or _WITH_SERVER.search(name) is not None

    def _is_known(self, name: str) -> bool:
        return self._resolver.resolve(name).rule != UNKNOWN

    def offered(self, tools: Sequence[Any], skills: Any) -> tuple[str, ...]:
        """The names in lists of tools and skills, without those that are part of the agent."""
        definitions = [get(entry, "function") or entry if isinstance(entry, dict) else entry for entry in tools]
        names = [entry.get("name") if isinstance(entry, dict) else entry for entry in definitions]
        ids = [self.skill(name) for name in skills or () if isinstance(name, str)]
        return (
            *(name for name in names if isinstance(name, str) and name and self.is_item(name)),
            *(item for item in ids if self._resolver.resolve(item).key is not None),
        )


def _use(name: str) -> str:
    """What a tool of an agent does: `skill`, `read` or `shell`; empty for others."""
    return _USES.get(re.sub(r"[\W_]", "", name.casefold())) or ("shell" if is_shell(name) else "")


def _path_parts(path: str) -> tuple[str, ...]:
    """The parts of a path of any system, without a root and dots."""
    plain = re.sub(r"^(?:file://)?(?:/?[A-Za-z]:)?", "", path.strip().replace("\\", "/"))
    return tuple(part for part in PurePosixPath(plain).parts if part not in ("/", "//", ".", "~"))


def _printed_files(command: Any, values: Mapping[str, Any]) -> list[str]:
    """The files that a command of a shell prints, such as `cat a.md` or `cd docs && sed -n 1,80p a.md`."""
    text = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    base = str(get(values, "workdir", "cwd") or "")
    paths: list[str] = []
    for step in _STEPS.split(text):
        words = [word for word in re.split(r"[\s'\"]+", step) if word and word not in _SHELL_WORDS] or [""]
        targets = [word if word[:1] in "/~" or not base else f"{base}/{word}" for word in words[1:] if word[:1] != "-"]
        if words[0] == "cd" and targets:
            base = targets[0]
        elif words[0].casefold() in _READERS and not any(word[:2] == "-i" or ">" in word for word in words):
            paths += targets
    return paths


@dataclass(slots=True)
class _Conversation:
    """A conversation so far.

    Attributes:
        offered: names of tools and skills that were listed; None without a list.
        record: the open turn.
        is_command: the message is a command of the program, which is a request only if the model answers.
        calls: the calls of the open turn by id: the tool, the items that it used, and the status, empty without result.
        unanswered: the status of calls of the open turn without a result: `error` if it was interrupted.
        results: of the open turn, which go with the next request.
    """

    name: str
    offered: tuple[str, ...] | None = None
    record: Record | None = None
    is_command: bool = False
    n_turns: int = 0
    n_parts: int = 1
    calls: dict[str, tuple[str, list[str], str]] = field(default_factory=dict)
    unanswered: str = "ok"
    results: list[tuple[str, str]] = field(default_factory=list)


class SessionReader:
    """Reads the events of sessions, file by file, into records of turns.

    Several sessions may be in one file, and a session in several files: a resumed one repeats events, which are read
    once. Subagents, and what follows a summary of the conversation (compaction), are conversations of their own.

    Attributes:
        fields: the names of fields in the file, from `transcript_fields`.
    """

    def __init__(self, names: SessionNames, findings: LogFindings) -> None:
        self.fields: Mapping[str, str] = {}
        self._names = names
        self._findings = findings
        self._conversations: dict[str, _Conversation] = {}
        self._files: dict[str, Path] = {}  # by names of conversations that are unique in a file alone
        self._ids: set[str] = set()  # of events
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
                value = {"messages": [message for message in messages if message["id"] not in self._ids]}
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
        unique = line.get("uuid") or (line.get("id") if "parentId" in line else None)
        if unique is None and role == "user" and "type" in line and "id" in line:
            unique = f"{line['id']} {_text(message)}"
        if unique in self._ids:
            self._findings.counts["lines_twice"] += 1
            return
        self._ids |= {name for name in (unique, line.get("id")) if isinstance(name, str)}
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
        is_user = role == "user" and not results
        is_aborted = any(kind in _ABORTS for kind in kinds) or (is_user and _ABORTED.search(text))
        if is_aborted and conversation.record is not None:
            conversation.record.doubtful, conversation.unanswered = True, "error"
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
        command, before = tags.get("command-name", "").strip(" /"), conversation.record
        if text.lstrip().startswith("<skill>"):  # one that the message before named
            self._add_explicit(conversation, [tags.get("name", "").strip()])
        request = f"/{command} {tags.get('command-args', '')}".strip() if command else _typed_text(text)
        is_repeated = before is not None and before.text == request and not (conversation.calls or before.after)
        if request is None or is_repeated:
            return
        yield from self._close(conversation)
        record.text, record.offered = request, conversation.offered
        record.tool_results, conversation.results = tuple(conversation.results), []
        conversation.record, conversation.is_command = record, bool(command)
        mention = _MENTION.match(request)
        self._add_explicit(conversation, [mention[1]] if mention else [])

    def _add_explicit(self, conversation: _Conversation, skills: Sequence[str]) -> None:
        if conversation.record is not None:
            conversation.record.explicit += tuple(map(self._names.skill, skills))

    def _read_answer(
        self, conversation: _Conversation, text: str | None, calls: Sequence[_Call], results: Sequence[_Result]
    ) -> None:
        """Add an answer, calls and results to the open turn."""
        if conversation.record is None:
            self._findings.counts.update(records_without_request=1, calls_without_request=len(calls))
            return
        if text is not None:
            conversation.is_command = False
            conversation.record.after = (ChatTurn("assistant", text),) if text else conversation.record.after
        keys: dict[str | int, str] = {}
        for n, (identity, name, arguments) in enumerate(calls):
            key = keys[n] = identity or f"#{len(conversation.calls)}"
            tool, items, status = conversation.calls.get(key, ("", [], ""))
            if not items:  # an event may repeat a call and name its server
                conversation.calls[key] = tool or name, self._names.needed(name, arguments, self._folder), status
                conversation.record.unread += not name and not conversation.calls[key][1]
        for call, output, failed in results:
            key = keys.get(call, str(call)) or next(
                (key for key, (*_, status) in conversation.calls.items() if not status), ""
            )
            tool, items, status = conversation.calls.get(key, ("", [], "earlier"))
            if not status:  # else repeated, or of an earlier turn
                ends = output[:_LENGTH] + output[-_LENGTH:]
                failed = failed or (_use(tool) == "shell" and _EXIT.search(ends) is not None) or None
                conversation.calls[key] = tool, items, result_status(output, tool, failed=failed)
                conversation.results = [*conversation.results, (tool, output[:_LENGTH])][-_N_RESULTS:]
                self._findings.counts["results_cut"] += len(output) > _LENGTH

    def _cut(self, conversation: _Conversation) -> Iterator[Record]:
        """End a conversation that was summarised; what follows is a conversation of its own."""
        if conversation.record is not None:
            conversation.record.doubtful = True  # the calls that follow may be of its request
            yield from self._close(conversation)
            conversation.n_parts, conversation.n_turns, conversation.results = conversation.n_parts + 1, 0, []

    def _close(self, conversation: _Conversation) -> Iterator[Record]:
        """The open turn of a conversation, unless it is a command that the model did not answer."""
        record, calls, unanswered = conversation.record, conversation.calls, conversation.unanswered
        conversation.record, conversation.calls, conversation.unanswered = None, {}, "ok"
        if record is not None and (calls or not conversation.is_command):
            part = f"-part-{conversation.n_parts}" if conversation.n_parts > 1 else ""
            self._findings.outside.update(tool for tool, items, _ in calls.values() if tool and not items)
            record.conversation, record.turn = f"{conversation.name}{part}", conversation.n_turns
            conversation.n_turns += 1
            record.calls = tuple(
                Call(item, status or unanswered, key if n == 0 else None)
                for key, (_, items, status) in calls.items()
                for n, item in enumerate(items)
            )
            yield record


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
        server, output = get(part, *_FIELDS["server"]), get(part, *_FIELDS["output"][0 if is_result else 1 :])
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
    for name, inner in _TAGGED.findall(text) if role == "assistant" else ():
        value = parsed(inner.strip())
        call = value if isinstance(value, dict) else {tag: value.strip() for tag, value in _TAG.findall(inner)}
        calls.append(("", str(call.get("name", name)), get(value, *_FIELDS["input"]) if call is value else call))
    if role == "user" and (match := _TEXT_RESULT.match(text)) and not _WRAPPED.search(text):
        results.append(("", text[match.end() :], None))
    return calls, results


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
    wrapped = _WRAPPED.search(text)
    plain = _INJECTED.sub("", text if wrapped is None else wrapped[2]).strip()
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
KINDS = tuple(
    ImportKind(
        name=name,
        family=LOG,
        title=title,
        program=program,
        request="a message of the user",
        label="tools called, skills loaded, and files of the catalog read, up to the next message",
        offered=offered,
        matches=matches,
    )
    for name, title, program, offered, matches in (
        (
            "claude-code",
            "sessions of Claude Code",
            "`~/.claude/projects/*/*.jsonl`; `claude -p --output-format stream-json`",
            "tools and skills in the event `init`",
            _has_line(
                *({"type": str, f"session{end}": str, **dict([f])} for end in ("Id", "_id") for f in _OF_CLAUDE_CODE)
            ),
        ),
        (
            "codex",
            "sessions of Codex",
            "`~/.codex/sessions/**/rollout-*.jsonl`",
            "tools in `dynamic_tools`",
            _has_line({"payload": dict, "type": _OF_CODEX}, {"type": ("thread.started",), "thread_id": str}),
        ),
        (
            "copilot",
            "sessions of Copilot CLI and chats of VS Code",
            "`~/.copilot/session-state/*/events.jsonl`; `workspaceStorage/*/chatSessions/*` of VS Code",
            "",
            _has_line(
                {"requests": list, "sessionId": str}, {"kind": (0,), "v": dict}, {"type": _OF_COPILOT, "data": dict}
            ),
        ),
        (
            "gemini-cli",
            "sessions of Gemini CLI",
            "`~/.gemini/tmp/*/chats/*`",
            "",
            _has_line({"sessionId": str, "projectHash": str}, {"sessionId": str, "type": ("gemini",)}),
        ),
        (
            "opencode",
            "sessions of OpenCode",
            "`opencode export SESSION`",
            "",
            _has_line({"info": dict, "messages": list}),
        ),
        (
            "transcript",
            "messages or events of any agent, one per line or in a list",
            "an agent of your own; `stream-json` of Cursor; `api_conversation_history.json` of Cline",
            "`tools` in the file",
            lambda values: _has_roles(values) or bool(transcript_fields(values)),
        ),
    )
)
"""Kinds of sessions, in the order in which they are tried."""
