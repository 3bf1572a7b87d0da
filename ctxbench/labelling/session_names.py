"""Names of the items that a session of a coding agent used: tools, skills, and files that were read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.labelling.record_files import UNKNOWN, NameResolver
from ctxbench.labelling.trace_labels import is_shell
from ctxbench.labelling.trace_messages import get
from ctxbench.model.items import Catalog, ItemKey

SERVERS = ("mcpServerName", "server_name", "serverName", "server", "namespace", "providerIdentifier")
"""Fields with the server of a tool."""
_ARGUMENTS = {
    "skill": ("skill", "skill_name", "skillName", "name", "command"),
    "read": ("file_path", "filePath", "path", "absolute_path", "target_file", "filename", "paths", "files"),
    "shell": ("command", "cmd", "script", "code"),
}
"""Fields of the arguments of a call that have the skill, the file or the command."""
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
_LIBRARIES = {"node_modules", "site-packages", "third_party", "vendor"}  # folders with files of other projects
_WITH_SERVER = re.compile(r"__|[./:]|^mcp[_-]")
_SERVER_TWICE = re.compile(r"^(.+?)__(?:mcp[-_]+)?\1[-_./:]+", re.IGNORECASE)  # where a name repeats its server


class SessionNames:
    """Names the items that a session used: tools, skills, and files by the ends of their paths."""

    def __init__(self, catalog: Catalog, resolver: NameResolver) -> None:
        self._resolver = resolver
        skills = [(item, _path_parts(str(item.metadata.get("path", "")))) for item in catalog if item.type == "skill"]
        self._skills = group_pairs(  # a second skill of a name has its path for a name
            ((parts[-2] if item.name.endswith("/SKILL.md") and len(parts) > 1 else item.name).casefold(), (item, parts))
            for item, parts in skills
        )
        files = [item for item in catalog if item.type not in ("tool", "message", "memory")]
        named = [
            (str(item.metadata.get("folder") or ""), str(item.metadata.get("path", item.name)), item) for item in files
        ]
        paths = ((_path_parts(path), bool(folder) or item.type == "skill", item) for folder, path, item in named)
        self._files = group_pairs(
            (parts[-1].casefold(), (parts, item.id))
            for parts, is_inner, item in (
                *paths,
                *((_path_parts(f"{folder}/{path}"), False, item) for folder, path, item in named if folder),
            )
            if len(parts) > is_inner  # a file SKILL.md alone may be of any skill, a file of a folder of any folder
        )

    def skill(self, name: str) -> str:
        """The id of a skill, also with the name of its plugin before a colon; else its name, if several have it."""
        plain = name.strip(" /").casefold()
        plugin, _, last = plain.rpartition(":")
        skills = self._skills.get(plain) or self._skills.get(last, [])
        of_plugin = [skill for skill in skills if plugin in map(str.casefold, skill[1])]
        skills = of_plugin if len(skills) > 1 and of_plugin else skills
        if len(skills) > 1:
            return f"{name.strip(' /')} ({len(skills)} skills)"
        return skills[0][0].id if skills else ItemKey("skill", None, name.strip(" /") or "?").id

    def file(self, path: str, folder: str) -> str:
        """The id of a file that was read; empty if there is none, or if there are several.

        The path of the item is the end of the path that was read; what is before it is the working folder or a folder
        above it, if that is known. Files of other projects, and of libraries in the project, are none of the catalog.

        Args:
            path: the path that was read.
            folder: the working folder; empty if it is unknown.
        """
        parts, above = _path_parts(path), _path_parts(folder)
        is_relative = not (path.startswith(("/", "\\", "~", "file:")) or path[1:2] == ":")
        absolute = _path_parts(normpath("/".join(above + parts if is_relative else parts)))
        matches = [
            (len(end), item_id)
            for end, item_id in (self._files.get(parts[-1].casefold(), ()) if parts else ())
            if absolute[-len(end) :] == end
            and not _LIBRARIES & {*absolute[: -len(end)]} - {*above}
            and (not above or absolute[: -len(end)] == above[: len(absolute) - len(end)])
        ]
        longest = {item_id for length, item_id in matches if length == max(matches)[0]}
        if not longest and len(parts) > 1 and parts[-1] == "SKILL.md":
            return self.skill(parts[-2])
        return longest.pop() if len(longest) == 1 else ""

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
        server, tool = get(values, *SERVERS), get(values, "tool_name", "toolName")
        name = f"{server}__{tool}" if server and tool else name  # a tool that calls tools
        plain = name if self._is_known(name) else _SERVER_TWICE.sub(r"\1__", name)
        if self.is_item(plain):
            return [plain]
        use = use_of(name)
        value = get(values, *_ARGUMENTS[use]) if use else None
        if use == "skill":
            return [self.skill(value.strip(" /").split(" ")[0])] if isinstance(value, str) else []
        if use == "read" and values.get("command", "view") != "view":  # of an editor
            return []
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


def use_of(name: str) -> str:
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
