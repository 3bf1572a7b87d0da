"""Keeps what tests asked for, across worker processes, and at the end writes it or says what nobody asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctxbench.errors import UserError

if TYPE_CHECKING:
    from ctxbench.pytest_plugin.accepted_file import Accepted, Key, Selections

_SHOWN = 5  # selections that are named of those that nobody asks for


@dataclass(frozen=True, slots=True)
class Place:
    """A test: its module, as node ids name it, and its name within the module."""

    module: str
    test: str

    @classmethod
    def of(cls, nodeid: str) -> Place:
        """The place that a node id names."""
        module, _, test = nodeid.partition("::")
        return cls(module, test)


class Recorder:
    """What the tests of a session asked for. A plugin of pytest; one in each process, the controller's writes.

    Attributes:
        accept: what is asked for is to be accepted.
        lines: what is to be said at the end.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Keep the records of a session."""
        self.accept = bool(config.getoption("ctxbench_accept"))
        self.lines: list[str] = []
        self._config = config
        self._read: dict[str, Selections] = {}
        self._asked: dict[Place, dict[Key, Accepted]] = {}
        self._passed: set[Place] = set()
        self._collected: dict[str, set[str]] = {}

    # ------------------------------------------------------------------------------------------ for the fixture

    def path(self, place: Place) -> Path:
        """The file of accepted selections beside the module of a test."""
        from ctxbench.pytest_plugin.accepted_file import accepted_path

        return accepted_path(self._config.rootpath / place.module)

    def shown(self, path: Path) -> str:
        """A path as messages have it."""
        root = self._config.rootpath
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    def accepted(self, place: Place) -> Selections:
        """What was accepted for the module of a test when the session began.

        Raises:
            InputError: the file is damaged.
        """
        from ctxbench.pytest_plugin.accepted_file import read_accepted

        if place.module not in self._read:
            path = self.path(place)
            self._read[place.module] = read_accepted(path) if path.is_file() else {}
        return self._read[place.module]

    def record(self, place: Place, one: Accepted) -> Accepted:
        """Keep what a test asked for; returns what it was offered when it first asked for the same."""
        return self._asked.setdefault(place, {}).setdefault(one.key, one)

    # ------------------------------------------------------------------------------------------ hooks

    @pytest.hookimpl(tryfirst=True)  # before anything is deselected
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Note the tests of each module, where all of a module are collected."""
        if any("::" in argument for argument in config.args) or config.getoption("lf", default=False):
            return
        for item in items:
            place = Place.of(item.nodeid)
            self._collected.setdefault(place.module, set()).add(place.test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the tests that ran to their end."""
        if report.when == "call" and report.passed:
            self._passed.add(Place.of(report.nodeid))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ARG002 - pytest-xdist's signature
        """Take the records of a worker process of pytest-xdist, as long as it ended as it should."""
        records = getattr(node, "workeroutput", {}).get("ctxbench")
        if records is not None:
            self.add(records)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the records to the controller, or write what is accepted."""
        if self._config.getoption("collectonly"):
            return  # no test has run
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["ctxbench"] = self.as_dict()
        elif self._finish():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written, and what nobody asks for."""
        if self.lines:
            terminalreporter.section("ctxbench")
            for line in self.lines:
                terminalreporter.write_line(line)

    # ------------------------------------------------------------------------------------------ between processes

    def as_dict(self) -> dict[str, Any]:
        """The records in plain types, which go from process to process."""
        asked = [
            [place.module, place.test, [one.as_row() for one in found.values()]] for place, found in self._asked.items()
        ]
        return {"asked": asked, "collected": {module: sorted(tests) for module, tests in self._collected.items()}}

    def add(self, records: Mapping[str, Any]) -> None:
        """Add the records of another process."""
        from ctxbench.pytest_plugin.accepted_file import Accepted

        for module, test, rows in records["asked"]:
            for row in rows:
                self.record(Place(module, test), Accepted.of_row(row))
        for module, tests in records["collected"].items():
            self._collected.setdefault(module, set()).update(tests)

    # ------------------------------------------------------------------------------------------ the end

    def _finish(self) -> bool:
        """Write what is accepted, or look for what nobody asks for; returns whether a file could not be used."""
        failed = False
        for module in sorted({*self._collected, *(place.module for place in self._asked)}):
            try:
                self._settle(module)
            except UserError as error:
                self.lines.append(f"error: {error}")
                failed = True
        return failed

    def _settle(self, module: str) -> None:
        """One module."""
        path = self.path(Place(module, ""))
        asked = {
            key: one for place, found in self._asked.items() if place.module == module for key, one in found.items()
        }
        if not path.is_file() and not (asked and self.accept):
            return
        from ctxbench.pytest_plugin.accepted_file import read_accepted, write_accepted

        before = read_accepted(path) if path.is_file() else {}
        stale = [key for key in before if key not in asked and self._unasked(module, key)]
        if not self.accept:
            self._say_stale(path, stale)
            return
        after = {key: one for key, one in {**before, **asked}.items() if key not in stale}
        write_accepted(path, after.values())
        new = len(after.keys() - before.keys())
        changed = sum(before[key].as_row() != after[key].as_row() for key in after.keys() & before.keys())
        same = len(after) - new - changed
        counts = f"{new} new, {changed} changed, {len(stale)} removed, {same} as before"
        self.lines.append(f"accepted in {self.shown(path)}: {counts}")

    def _unasked(self, module: str, key: Key) -> bool:
        """Whether the test of a selection is gone, or ran without asking for it."""
        gone = module in self._collected and key.test not in self._collected[module]
        return gone or Place(module, key.test) in self._passed

    def _say_stale(self, path: Path, stale: list[Key]) -> None:
        if not stale:
            return
        named = ", ".join(f"{key.test} “{key.text}”" for key in stale[:_SHOWN])
        more = f" and {len(stale) - _SHOWN} more" if len(stale) > _SHOWN else ""
        self.lines.append(
            f"{self.shown(path)} holds what no test asks for any more: {named}{more}; "
            "pytest --ctxbench-accept removes it"
        )
