"""A PostgreSQL server of the tests' own: unprivileged, on a socket in a temporary folder, away when they end.

`python -m tests.postgres_server COMMAND ...` runs a command beside one, or without where PostgreSQL is not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

OWNER = "ctxbench"  # of the databases
UNPRIVILEGED = "nobody"  # PostgreSQL refuses root


def programs() -> Path | None:
    """The folder of the newest server's programs on this machine; Debian has it outside the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


class PostgresServer:
    """A server in a folder; `address` is the connection string of its first database."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder, self._bin = folder, bin_folder
        self.address = f"host={folder} user={OWNER} dbname=postgres"
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        self._run("initdb", "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=30"
        self._run("pg_ctl", "-w", "-s", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")

    def _run(self, program: str, *options: str) -> None:
        command: Sequence[str] = (str(self._bin / program), "-D", str(self.folder / "data"), *options)
        if os.geteuid() == 0:
            command = ("setpriv", f"--reuid={UNPRIVILEGED}", "--regid=nogroup", "--clear-groups", *command)
        environment = {**os.environ, "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=self.folder, env=environment, check=False, timeout=120, **told)
        assert done.returncode == 0, done.stdout.decode(errors="replace")


@contextmanager
def running_server(bin_folder: Path) -> Iterator[PostgresServer]:
    """A started server; stopped and deleted behind the block, if it was not stopped before."""
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:  # short: a socket's path is
        server = PostgresServer(Path(folder), bin_folder)
        server.start()
        try:
            yield server
        finally:
            if (server.folder / "data" / "postmaster.pid").exists():
                server.stop()


def main(command: Sequence[str]) -> int:
    """Run a command with the address of a server in its environment."""
    found = programs()
    if found is None:
        return subprocess.call(command, timeout=None)
    with running_server(found) as server:
        return subprocess.call(command, env={**os.environ, "CTXBENCH_POSTGRES": server.address}, timeout=None)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
