"""Configurations of MCP servers as Claude, Cursor and VS Code keep them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ctxbench.core.errors import Fault, InputError, suggest
from ctxbench.io.jsonc import entry_lines, read_jsonc
from ctxbench.io.yaml_files import YamlPath, line_of
from ctxbench.sources.mcp.variables import Variables
from ctxbench.text.secrets import Secrets, in_arguments, in_url

_KEYS = ("mcpServers", "servers")
_URLS = ("url", "serverUrl", "httpUrl")
_NEITHER = "it has neither 'command' nor 'url'"
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
        launch: the fields that decide what is asked, as they are written, without `env`, `headers` and secrets.
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

    Servers stand in `mcpServers` (Claude, Cursor) or `servers` (VS Code; in its `settings.json` within `mcp`).
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
            config.fault(f"there is no server {name!r} to choose or leave out{suggest(name, servers)}", ())
    chosen = [name for name in servers if (not only or name in only) and name not in skip]
    specs = [_ServerEntry(config, name, *servers[name]).spec() for name in chosen]
    if not specs and not config.wrong:
        config.fault("no server is left once some are chosen and some are left out", ())
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
            config.fault(f"server {name!r}: {_NEITHER}", where)
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
        keys = [key for key in _KEYS if isinstance(data, dict) and key in data]
        if not keys:
            is_list = isinstance(data, list) or (isinstance(data, dict) and "tools" in data)
            how = shlex.join(["ctxbench", "data", "import", "tools", str(self.path)])
            hint = f"; a list of tools is read by `{how}`" if is_list else ""
            self.fault(f"expected an object with 'mcpServers' or 'servers'{hint}", outer)
        for key in keys:
            value, where = data[key], (*outer, key)
            if not isinstance(value, dict):
                self.fault(f"field {key!r} must be an object of servers by name", where)
                continue
            if not value and len(keys) == 1:
                self.fault(f"field {key!r} holds no server", where)
            for name, entry in value.items():
                if name in servers_by_name or not name:
                    message = (
                        f"server {name!r} stands in 'mcpServers' and in 'servers'" if name else "a server has no name"
                    )
                    self.fault(f"{message}; expected names that differ", (*where, name))
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
            self.fault("expected an object with 'command' or 'url'")  # what stands there may be a URL with a key
            return None
        if self._flag("disabled") is True or self._flag("enabled") is False:
            return ServerSpec(name=self.name, transport="", disabled=True)
        transport = self._transport()
        if not transport:
            return None
        env, headers = self._texts("env"), self._texts("headers")
        address = next((key for key in _URLS if key in self.value), "url")
        url = self._text(self.value[address], address) if transport != "stdio" else ""
        args = self._args()
        command = self._text(self.value["command"], "command") if transport == "stdio" else ""
        cwd = "" if self.value.get("cwd") is None else self._text(self.value["cwd"], "cwd")
        cwd = os.path.join(self.variables.workspace, os.path.expanduser(cwd))  # noqa: PTH111, PTH118 - as in a shell
        self._refuse_files()
        if url and not _usable_url(url):
            self.fault(f"field {address!r} must be an address that starts with http:// or https://", address)
        if len(self.config.wrong) > before:
            return None
        hidden = [*env.items(), *headers.items(), *self.variables.secrets.items(), *in_arguments(args), *in_url(url)]
        return ServerSpec(
            name=self.name, transport=transport, command=command, args=args, env=env, cwd=cwd, url=url,
            headers=headers, secrets=Secrets(hidden),
        )  # fmt: skip

    def _flag(self, key: str) -> bool | None:
        value = self.value.get(key)
        if value is not None and not isinstance(value, bool):
            self.fault(f"field {key!r} must be true or false, got {value!r:.40}", key)
            return None
        return value

    def _transport(self) -> str:
        """`stdio`, `http` or `sse`; empty, with a fault, if it cannot be determined."""
        kind = next((key for key in ("type", "transport", "transportType") if self.value.get(key) is not None), None)
        has_url = any(key in self.value for key in _URLS)
        if "command" in self.value and has_url:
            self.fault("it has both 'command' and 'url'; expected one of them")
            return ""
        if kind is None:
            if "command" in self.value:
                return "stdio"
            if has_url:
                address = next(self.value[key] for key in _URLS if key in self.value)
                return "sse" if isinstance(address, str) and _path_of(address).endswith("/sse") else "http"
            self.fault(_NEITHER)
            return ""
        value = self.value[kind]
        transport = _TRANSPORTS.get(value.lower().replace("-", "").replace("_", "")) if isinstance(value, str) else None
        if transport is None:
            self.fault(f"field {kind!r} must be stdio, http, streamable-http or sse, got {value!r:.40}", kind)
            return ""
        if (transport == "stdio") == has_url or (transport == "stdio") != ("command" in self.value):
            self.fault(
                f"field {kind!r} is {value!r}, so expected {'command' if transport == 'stdio' else 'url'!r}", kind
            )
            return ""
        return transport

    def _text(self, value: Any, *at: str | int, empty: bool = False) -> str:
        """A text with its variables replaced; faults do not quote it, since it may be secret."""
        field = f"field {'.'.join(map(str, at))!r}"
        if not isinstance(value, str) or not (value or empty):
            self.fault(f"{field} must be a text{'' if empty else ' that is not empty'}", *at)
            return ""
        text, wrong = self.variables.expand(value)
        for message in wrong:
            self.fault(f"{field}: {message}", *at)
        if "\0" in text:
            self.fault(f"{field} holds a NUL character, which no program takes", *at)
        return text

    def _args(self) -> tuple[str, ...]:
        args = self.value.get("args")
        if args is None:
            return ()
        if not isinstance(args, list):
            self.fault("field 'args' must be a list of texts", "args")
            return ()
        return tuple(self._text(_written(entry), "args", index, empty=True) for index, entry in enumerate(args))

    def _texts(self, key: str) -> dict[str, str]:
        """`env` or `headers`: texts by name; numbers and true or false are taken as written, null is left out."""
        values = self.value.get(key)
        if values is None:
            return {}
        if not isinstance(values, dict):
            self.fault(f"field {key!r} must be an object of texts", key)
            return {}
        return {
            name: self._text(_written(text), key, name, empty=True) for name, text in values.items() if text is not None
        }

    def _refuse_files(self) -> None:
        if self.value.get("envFile") is not None:
            message = "field 'envFile' is not read: set the variables in the environment and name them as ${env:NAME}"
            self.fault(f"{message} in 'env', or {self.variables.leave_out}", "envFile")


def _written(value: Any) -> Any:
    """A number or truth value as the text that a program would be given; anything else as it is."""
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
