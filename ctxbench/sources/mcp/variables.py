"""Variables in MCP configurations: `${env:X}` and `${workspaceFolder}` of VS Code and Cursor, `${X:-y}` of Claude."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_ENVIRONMENT = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_()]*)(?::-(?P<default>.*))?", re.DOTALL)
_EDITORS = (".vscode", ".cursor", ".claude")  # folders of a workspace that hold configurations


@dataclass
class Variables:
    """The values of variables; one instance per server.

    Attributes:
        file: the configuration, which tells the workspace's folder.
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
        skip = shlex.join(["--skip", self.server])
        return f'leave the server out: `{skip}` of `ctxbench data capture`, or "disabled": true in the file'

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
                f"${{{name}}} would be asked for by the editor, and nobody is asked here: "
                f"put ${{env:NAME}} in its place and set that variable, or {self.leave_out}"
            )
        match = _ENVIRONMENT.fullmatch(name)
        if match is None:
            raise LookupError(f"${{{name}}} is known to an editor only: put its value, or ${{env:NAME}}, in its place")
        value = self.environ.get(match["name"])
        if not value and match["default"] is not None:  # as in a shell, an empty one counts as missing
            return match["default"]
        if value is None:
            raise LookupError(f"the environment variable {match['name']} is not set: set it, or {self.leave_out}")
        self.secrets[match["name"]] = value
        return value
