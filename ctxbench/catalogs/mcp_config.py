"""Read MCP server configurations and their variables, and detect changed server files.

Source files of a server are found by name: relative imports of JavaScript and TypeScript, modules of Python. Nothing is
run, and paths that a program computes or a build maps are not found: the list shows which files a command is likely
made of.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ctxbench.catalogs.snapshots import CAPTURE, SERVER, read_card
from ctxbench.io.documents import YamlPath, dump_json, entry_lines, line_of, read_jsonc
from ctxbench.io.errors import Fault, InputError, Message, suggest
from ctxbench.io.secrets import Secrets, in_arguments, in_url

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_ENVIRONMENT = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_()]*)(?::-(?P<default>.*))?", re.DOTALL)
_EDITORS = (".vscode", ".cursor", ".claude")  # folders of a workspace that hold configurations


@dataclass
class Variables:
    """The values of variables; one instance per server.

    Attributes:
        file: the configuration, which determines the workspace's folder.
        environ: the environment.
        server: its name, for messages.
        secrets: every environment variable that was used.
    """

    file: Path
    environ: Mapping[str, str]
    server: str
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        """The folder that the configuration is for: its own, or the one above `.vscode`, `.cursor` or `.claude`."""
        folder = Path(os.path.abspath(self.file)).parent  # noqa: PTH100 - links are kept, unlike with resolve
        return folder.parent if folder.name in _EDITORS else folder

    @property
    def leave_out(self) -> str:
        """How to leave out the server."""
        return Message("catalogs.skip-server", option=shlex.join(["--skip", self.server]))

    def expand(self, text: str) -> tuple[str, list[str]]:
        """Replace every `${...}`.

        Returns:
            The text, and what is wrong with variables in it.
        """
        wrong: list[str] = []

        def value(match: re.Match[str]) -> str:
            try:
                return self._value(match[1])
            except LookupError as error:
                wrong.append(str(error.args[0]))
                return ""

        return _VARIABLE.sub(value, text), wrong

    def _value(self, name: str) -> str:
        values = {
            "workspaceFolder": str(self.workspace),
            "workspaceFolderBasename": self.workspace.name,
            "userHome": os.path.expanduser("~"),  # noqa: PTH111 - leaves ~ where there is no home, as editors do
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        if name in values:
            return values[name]
        if name.startswith("input:"):
            raise LookupError(
                f"${{{name}}} is asked for by an editor, but not here: "
                f"put ${{env:NAME}} in its place and set that variable, or {self.leave_out}"
            )
        if (match := _ENVIRONMENT.fullmatch(name)) is None:
            raise LookupError(f"${{{name}}} is known to an editor only: put its value, or ${{env:NAME}}, in its place")
        value = self.environ.get(match["name"])
        if not value and match["default"] is not None:  # as in a shell, an empty one counts as missing
            return match["default"]
        if value is None:
            raise LookupError(f"the environment variable {match['name']} is not set: set it, or {self.leave_out}")
        self.secrets[match["name"]] = value
        return value


_KEYS = ("mcpServers", "servers")
_URLS = ("url", "serverUrl", "httpUrl")

_TRANSPORTS = {  # spellings of `type` (or `transport`), in lower case without - and _
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """How to reach one server. What may be secret is not in its `repr`.

    Attributes:
        name: its key in the configuration.
        transport: `stdio`, `http` (streamable HTTP) or `sse`; empty if it is disabled.
        command, args, env, cwd: of a server that is started; `env` on top of what the SDK passes on. Paths are
            relative to the project's folder, as in an editor, wherever the command is called from.
        url, headers: of a server that runs.
        disabled: the configuration says that it is not to be used.
        secrets: hides what must not be kept.
    """

    name: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    disabled: bool = False
    secrets: Secrets = field(default_factory=lambda: Secrets(()), repr=False, compare=False)

    @property
    def origin(self) -> str:
        """Scheme, host and port of the URL, which are not secret. Empty for a server that is started."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}" if self.url else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """The entry of a server in a configuration, with known variables replaced; others may be unset.

    Attributes:
        words: the command and its arguments; empty for a server that runs elsewhere.
        cwd: the folder that it runs in.
        workspace: the folder that the configuration is for.
        launch: the fields that determine the server, unchanged, without `env`, `headers` and secrets.
    """

    words: tuple[str, ...] = field(repr=False)
    cwd: Path
    workspace: Path
    launch: Mapping[str, Any] = field(repr=False)


def read_mcp_config(
    path: Path | str,
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
) -> tuple[ServerSpec, ...]:
    """Read a configuration; nothing is started.

    Servers are in `mcpServers` (Claude, Cursor) or `servers` (VS Code; in its `settings.json` within `mcp`).
    Comments and trailing commas are passed over. Without `type`, a server with a `command` is started and one with a
    `url` is asked by streamable HTTP, or by SSE where the URL's path ends in `/sse`. A server with `disabled: true` or
    `enabled: false` is kept as disabled and not looked at further. Fields that other programs know are passed over.

    Args:
        path: the file.
        only: names of servers; if there are any, all others are passed over.
        skip: names of servers to pass over; what is wrong with them is no fault.
        environ: the environment; None = the process's.

    Returns:
        The servers, in the order of the file.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: everything that is wrong, with lines: no JSON, no servers, a field of a wrong type, a variable
            that is not set, an input that only an editor can ask for, a name in `only` or `skip` that is not there.
    """
    data, text = read_jsonc(path)
    config = _Config(Path(path), os.environ if environ is None else environ)
    servers = config.servers(data)
    for name in (*only, *skip):
        if name not in servers and servers:
            config.fault(Message("catalogs.unknown-server", server=name, hint=suggest(name, servers)), ())
    chosen = [name for name in servers if (not only or name in only) and name not in skip]
    specs = [_ServerEntry(config, name, *servers[name]).spec() for name in chosen]
    if not specs and not config.wrong:
        config.fault(Message("catalogs.no-server-chosen"), ())
    config.finish(text)
    return tuple(spec for spec in specs if spec is not None)


def server_names(path: Path | str) -> list[str]:
    """The servers of a configuration that it does not disable, in the order of the file; variables may be unset.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no JSON, holds no servers, or one that says neither command nor address.
    """
    data, text = read_jsonc(path)
    config = _Config(Path(path), {})
    names = {name: location for name, location in config.servers(data).items() if not _is_off(location[1])}
    for name, (where, entry) in names.items():
        if not isinstance(entry, dict) or not {"command", *_URLS} & entry.keys():
            config.fault(Message("catalogs.server-without-command", server=name), where)
    config.finish(text)
    return list(names)


def server_entries(path: Path | str) -> dict[str, ServerEntry]:
    """The servers of a configuration that it does not disable, in the order of the file; variables may be unset.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: as of `server_names`.
    """
    data, _ = read_jsonc(path)
    servers, entries = _Config(Path(path), {}).servers(data), {}
    for name in server_names(path):
        entry, variables = servers[name][1], Variables(Path(path), {}, name)
        args = [str(arg) for arg in entry["args"]] if isinstance(entry.get("args"), list) else []
        command = [str(entry["command"]), *args] if "command" in entry else []
        url = next((str(entry[key]) for key in _URLS if key in entry), "")
        launch = {key: entry[key] for key in ("command", "args", "cwd", *_URLS) if key in entry}
        cwd = os.path.expanduser(variables.expand(str(entry.get("cwd") or ""))[0])  # noqa: PTH111 - as in a shell
        entries[name] = ServerEntry(
            words=tuple(variables.expand(word)[0] for word in command),
            cwd=variables.workspace / cwd,
            workspace=variables.workspace,
            launch=Secrets([*in_arguments(args), *in_url(url)]).hide_in(launch),
        )
    return entries


def disabled_servers(path: Path | str) -> list[str]:
    """The servers of a configuration that it disables, in the order of the file.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no JSON, or holds no servers.
    """
    data, text = read_jsonc(path)
    config = _Config(Path(path), {})
    names = [name for name, (_, entry) in config.servers(data).items() if _is_off(entry)]
    config.finish(text)
    return names


def _is_off(entry: Any) -> bool:
    return isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False)


@dataclass
class _Config:
    """The file and its faults."""

    path: Path
    environ: Mapping[str, str]
    wrong: list[tuple[str, YamlPath]] = field(default_factory=list)

    def fault(self, message: str, path: YamlPath) -> None:
        self.wrong.append((message, path))

    def servers(self, data: Any) -> dict[str, tuple[YamlPath, Any]]:
        """The servers by name, each with its path in the file."""
        servers_by_name: dict[str, tuple[YamlPath, Any]] = {}
        outer: YamlPath = ()
        if isinstance(data, dict) and not any(key in data for key in _KEYS) and isinstance(data.get("mcp"), dict):
            data, outer = data["mcp"], ("mcp",)
        if not (keys := [key for key in _KEYS if isinstance(data, dict) and key in data]):
            is_list = isinstance(data, list) or (isinstance(data, dict) and "tools" in data)
            path = shlex.quote(str(self.path))
            hint = f"; {Message('catalogs.is-tool-list', path=path)}" if is_list else ""
            self.fault(Message("catalogs.config-without-servers", hint=hint), outer)
        for key in keys:
            value, where = data[key], (*outer, key)
            if not isinstance(value, dict):
                self.fault(Message("catalogs.servers-type", key=key), where)
                continue
            if not value and len(keys) == 1:
                self.fault(f"field {key!r} holds no server", where)
            for name, entry in value.items():
                if name in servers_by_name or not name:
                    self.fault(Message("catalogs.server-name", server=name), (*where, name))
                servers_by_name[name] = ((*where, name), entry)
        return servers_by_name

    def finish(self, text: str) -> None:
        """Raise all faults.

        Raises:
            InputError: anything is.
        """
        if self.wrong:
            lines = entry_lines(text)
            faults = [Fault(message, self.path, line_of(lines, path)) for message, path in self.wrong]
            raise InputError(sorted(faults, key=lambda fault: fault.line))


class _ServerEntry:
    """One server of the file, read field by field."""

    def __init__(self, config: _Config, name: str, where: YamlPath, value: Any) -> None:
        self.config, self.name, self.where, self.value = config, name, where, value
        self.variables = Variables(config.path, config.environ, name)

    def fault(self, message: str, *at: str | int) -> None:
        self.config.fault(f"server {self.name!r}: {message}", (*self.where, *at))

    def spec(self) -> ServerSpec | None:
        """The server, or None if faults were noted."""
        before = len(self.config.wrong)
        if not isinstance(self.value, dict):
            self.fault(Message("catalogs.server-type"))  # without the value, which may be a URL with a key
            return None
        if self._flag("disabled") is True or self._flag("enabled") is False:
            return ServerSpec(name=self.name, transport="", disabled=True)
        if not (transport := self._transport()):
            return None
        env, headers = self._texts("env"), self._texts("headers")
        address = next((key for key in _URLS if key in self.value), "url")
        url = self._text(self.value[address], address) if transport != "stdio" else ""
        args = self._args()
        command = self._text(self.value["command"], "command") if transport == "stdio" else ""
        cwd = "" if self.value.get("cwd") is None else self._text(self.value["cwd"], "cwd")
        cwd = os.path.join(self.variables.workspace, os.path.expanduser(cwd))  # noqa: PTH111, PTH118 - as in a shell
        if self.value.get("envFile") is not None:
            self.fault(Message("catalogs.server-env-file", fix=self.variables.leave_out), "envFile")
        if url and not _usable_url(url):
            self.fault(Message("catalogs.server-url", field=address), address)
        if len(self.config.wrong) > before:
            return None
        hidden = [*env.items(), *headers.items(), *self.variables.secrets.items(), *in_arguments(args), *in_url(url)]
        return ServerSpec(
            name=self.name, transport=transport, command=command, args=args, env=env, cwd=cwd, url=url,
            headers=headers, secrets=Secrets(hidden),
        )  # fmt: skip

    def _flag(self, key: str) -> bool | None:
        if (value := self.value.get(key)) is not None and not isinstance(value, bool):
            self.fault(Message("catalogs.server-flag", field=key, got=value), key)
            return None
        return value

    def _transport(self) -> str:
        """`stdio`, `http` or `sse`; empty, with a fault, if it cannot be determined."""
        kind = next((key for key in ("type", "transport", "transportType") if self.value.get(key) is not None), None)
        has_url = any(key in self.value for key in _URLS)
        if "command" in self.value and has_url:
            self.fault(Message("catalogs.server-command-and-url"))
            return ""
        if kind is None:
            if "command" in self.value:
                return "stdio"
            if has_url:
                address = next(self.value[key] for key in _URLS if key in self.value)
                return "sse" if isinstance(address, str) and _path_of(address).endswith("/sse") else "http"
            self.config.fault(Message("catalogs.server-without-command", server=self.name), self.where)
            return ""
        value = self.value[kind]
        transport = _TRANSPORTS.get(value.lower().replace("-", "").replace("_", "")) if isinstance(value, str) else None
        if transport is None:
            self.fault(Message("catalogs.server-transport", field=kind, got=value), kind)
            return ""
        if (transport == "stdio") == has_url or (transport == "stdio") != ("command" in self.value):
            expected = "command" if transport == "stdio" else "url"
            self.fault(Message("catalogs.server-transport-key", field=kind, got=value, expected=expected), kind)
            return ""
        return transport

    def _text(self, value: Any, *at: str | int, empty: bool = False) -> str:
        """A text with its variables replaced; faults do not quote it, since it may be secret."""
        field = f"field {'.'.join(map(str, at))!r}"
        if not isinstance(value, str) or not (value or empty):
            self.fault(Message("catalogs.server-any-text" if empty else "catalogs.server-text", field=field), *at)
            return ""
        text, wrong = self.variables.expand(value)
        for message in wrong:
            self.fault(f"{field}: {message}", *at)
        if "\0" in text:
            self.fault(Message("catalogs.server-nul", field=field), *at)
        return text

    def _args(self) -> tuple[str, ...]:
        if (args := self.value.get("args")) is None:
            return ()
        if not isinstance(args, list):
            self.fault(Message("catalogs.server-args"), "args")
            return ()
        return tuple(self._text(_written(entry), "args", index, empty=True) for index, entry in enumerate(args))

    def _texts(self, key: str) -> dict[str, str]:
        """`env` or `headers`: texts by name; numbers and true or false are taken as written, null is left out."""
        if (values := self.value.get(key)) is None:
            return {}
        if not isinstance(values, dict):
            self.fault(Message("catalogs.server-texts", field=key), key)
            return {}
        return {
            name: self._text(_written(text), key, name, empty=True) for name, text in values.items() if text is not None
        }


def _written(value: Any) -> Any:
    """A number or truth value as the text that a program would get; anything else unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path.rstrip("/")
    except ValueError:
        return ""


def _usable_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


_LARGEST_SOURCE = 1_000_000  # bytes of a file that is looked into; longer ones are bundles
_SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_RELATIVE = re.compile(r"""(?:\bfrom|\bimport|\brequire)\s*\(?\s*["'](\.{1,2}/[^"'\n]+)["']""")
_FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)


def imported_files(first: Sequence[Path], candidates: Collection[Path] | None, base: Path) -> set[Path]:
    """The files that some files import, and those that these import.

    Args:
        first: files to begin with; those of other languages import nothing that is known.
        candidates: files that count; None = all that exist.
        base: the folder that Python may find modules in, as well as the folder of each of `first`.

    Returns:
        A part of `among`, without `first`.
    """
    allowed = None if candidates is None else {Path(path) for path in candidates}
    result: set[Path] = set()
    roots = list(dict.fromkeys([*(path.parent for path in first), base]))
    waiting = list(first)
    while waiting:
        path = waiting.pop()
        for name in _candidates(path, roots):
            if not (name in result or name in first) and (name.is_file() if allowed is None else name in allowed):
                result.add(name)
                waiting.append(name)
    return result


def _candidates(path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """The paths that the imports of a file may mean."""
    if path.suffix not in (".py", *_SCRIPTS):
        return
    try:
        if path.stat().st_size > _LARGEST_SOURCE:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    if path.suffix == ".py":
        for dots, module in _python_modules(text):
            starts = [path.parents[dots - 1]] if 0 < dots <= len(path.parents) else roots if not dots else []
            for start in starts:
                target = start.joinpath(*module.split("."))
                yield from (target.with_name(f"{target.name}.py"), target / "__init__.py")
        return
    for match in _RELATIVE.finditer(text):
        target = path.parent
        for part in match[1].split("/"):
            target = target.parent if part == ".." else target / part if part != "." else target
        yield target
        stem = target.with_suffix("") if target.suffix in _SCRIPTS else target  # `./a.js` may be written as `a.ts`
        yield from (stem.with_name(f"{stem.name}{ending}") for ending in _SCRIPTS if stem.name)
        yield from (target / f"index{ending}" for ending in _SCRIPTS)


def _python_modules(text: str) -> Iterator[tuple[int, str]]:
    """The modules that a text imports, each with the dots in front; what is imported from one may be a module, too."""
    for match in _FROM.finditer(text):
        dots, module = len(match[1]), match[2]
        if module:
            yield dots, module
        yield from (
            (dots, f"{module}.{name}" if module else name)
            for name in re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?", match[3] or match[4] or "")
        )
    names = chain.from_iterable(match[1].split(",") for match in _IMPORT.finditer(text))
    for name in (words[0] for entry in names if (words := entry.split())):
        parts = name.split(".")
        yield from ((0, ".".join(parts[:end])) for end in range(1, len(parts) + 1))


_INSTALLED = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pycache__"})
_ENTRY_POINTS = ("__main__.py", "index.js", "index.mjs", "index.cjs", "index.ts")
_LARGEST_FILE = 20_000_000  # bytes of a file that is read; of a larger one, such as a database, the size is its digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedServer:
    """A server that was not asked in this check: its tools are as captured.

    Attributes:
        name: its key in the configuration.
        captured: when it was captured, as ISO 8601; empty where the snapshot does not say.
        changed: its files that differ from those of the capture, relative to the configuration's project; the
            configuration itself where its command or address differs.
        verified: whether the snapshot says which files it was captured from. It cannot for a server elsewhere.
        absent: whether the snapshot holds nothing of it, so that none of its tools were checked.
        unverified: its files, where the snapshot says nothing of them: it is of an earlier ctxbench, or was edited.
        error: why it did not start or answer; empty if it was not asked.
    """

    name: str
    captured: str = ""
    changed: tuple[str, ...] = ()
    verified: bool = False
    absent: bool = False
    unverified: tuple[str, ...] = ()
    error: str = ""

    @property
    def outdated(self) -> bool:
        """Whether its tools may differ from those captured.

        Its files changed or may have changed, or it was asked and did not answer.
        """
        return bool(self.changed or self.unverified or self.error)


def server_digests(config: Path) -> dict[str, dict[str, Any]]:
    """The digests of each enabled server for a snapshot: of its `entry`, and of its `files` by name, if any.

    Files are those in the repository that its command names, and those that they import. Names are relative to the
    folder that the configuration is for. Ends of lines do not count, nor does what is secret in the entry.

    Raises:
        UserError: the configuration is missing or faulty.
    """
    digests: dict[str, dict[str, Any]] = {}
    for name, entry in server_entries(config).items():
        files = {Path(os.path.relpath(path, entry.workspace)).as_posix(): _digest(path) for path in server_files(entry)}
        digests[name] = {"entry": hashlib.sha256(dump_json(entry.launch).encode("utf-8")).hexdigest()}
        if files:
            digests[name]["files"] = files
    return digests


def server_files(entry: ServerEntry) -> list[Path]:
    """The files in the repository that the command of a server names, and those that they import; sorted."""
    root = next(
        (folder for folder in (entry.workspace, *entry.workspace.parents) if (folder / ".git").exists()),
        entry.workspace,
    )
    named = list(dict.fromkeys(path for path in _named_files(entry.words, entry.cwd) if _is_own(path, root)))
    imported = imported_files(named, None, entry.cwd) if named else set()
    return sorted({*named, *(path for path in imported if _is_own(path, root))})


def captured_servers(config: Path, snapshot: Path) -> list[CapturedServer]:
    """The enabled servers of a configuration, and their changes since a snapshot; none without it.

    Raises:
        UserError: the configuration is missing or faulty, or the snapshot cannot be read.
    """
    if not (snapshot / CAPTURE).is_file():
        return []
    card, parts = read_card(snapshot / CAPTURE)
    captured = {
        part.get("name"): part for part in parts if (part.get("kind"), part.get("state")) == (SERVER, "captured")
    }
    return [
        _compare(name, captured[name], digests, card=card, config=config)
        if name in captured
        else CapturedServer(name=name, absent=True, unverified=tuple(sorted(digests.get("files", ()))))
        for name, digests in server_digests(config).items()
    ]


def _compare(
    name: str, part: Mapping[str, Any], current: Mapping[str, Any], *, card: Mapping[str, Any], config: Path
) -> CapturedServer:
    was = part.get("files")
    before: Mapping[str, Any] = was if isinstance(was, Mapping) else {}
    after = current.get("files", {})
    has_digests = "entry" in part
    changed = [file for file in sorted({*before, *after}) if before.get(file) != after.get(file)] if has_digests else []
    if has_digests and part["entry"] != current["entry"]:
        changed.append(config.name)
    return CapturedServer(
        name=name,
        captured=str(part.get("captured") or card.get("captured", "")),
        changed=tuple(changed),
        verified=has_digests and bool(before),
        unverified=() if has_digests else tuple(sorted(after)),
    )


def _named_files(words: Sequence[str], cwd: Path) -> Iterator[Path]:
    """The files that words of a command name, relative to where it runs or to a folder that it names."""
    arguments = [word.partition("=")[2] if word.startswith("-") and "=" in word else word for word in words]
    folders = [cwd, *(path for word in arguments if (path := cwd / word).is_dir())]
    for before, word in zip(("", *words), arguments, strict=False):
        if not word or "\0" in word:
            continue
        yield from (path for folder in folders if (path := folder / word).is_file())
        if before == "-m":
            module = Path(*word.split("."))
            names = (f"{module}.py", module / "__init__.py", module / "__main__.py")
            yield from (path for folder in folders for name in names if (path := folder / name).is_file())
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    if script and (cwd / script).is_dir():
        yield from (path for name in _ENTRY_POINTS if (path := cwd / script / name).is_file())


def _is_own(path: Path, root: Path) -> bool:
    """Whether a file is in a folder, links followed, and not in an installed package there."""
    real, top = path.resolve(), root.resolve()
    return real.is_relative_to(top) and _INSTALLED.isdisjoint(real.relative_to(top).parts)


def _digest(path: Path) -> str:
    """The SHA-256 of a file with the line ends of Unix, so that a checkout on Windows has the same."""
    try:
        return (
            f"{size} bytes"
            if (size := path.stat().st_size) > _LARGEST_FILE
            else hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
        )
    except OSError as error:
        return f"unreadable: {error.strerror}"
