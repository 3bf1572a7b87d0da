"""Keeps what tests asked for, across worker processes, and at the end writes it or says what nobody asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctxbench.core.errors import UserError
from ctxbench.io.visible import joined, message_lines

if TYPE_CHECKING:
    from ctxbench.pytest_plugin.accepted_file import AcceptedSelection, Key, Selections

_SHOWN = 5  # selections or tests that are named of many
_SUFFIX = ".accepted.yaml"


@dataclass(frozen=True, slots=True)
class CallerPlace:
    """A test: its module, as node ids name it, and its name within the module."""

    module: str
    test: str

    @classmethod
    def of(cls, nodeid: str) -> CallerPlace:
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
        self._asked: dict[CallerPlace, dict[Key, AcceptedSelection]] = {}
        self._passed: set[CallerPlace] = set()
        self._failed: set[CallerPlace] = set()
        self._collected: dict[str, set[str]] = {}

    # ------------------------------------------------------------------------------------------ for the fixture

    def path(self, place: CallerPlace) -> Path:
        """The file of accepted selections beside the module of a test."""
        module = self._config.rootpath / place.module
        return module.with_name(f"{module.stem}{_SUFFIX}")

    def shown(self, path: Path) -> str:
        """A path relative to the root folder of the test run, for messages."""
        root = self._config.rootpath
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    def accepted(self, place: CallerPlace) -> Selections:
        """What was accepted for the module of a test when the session began.

        Raises:
            InputError: the file is damaged.
        """
        from ctxbench.pytest_plugin.accepted_file import read_accepted

        if place.module not in self._read:
            path = self.path(place)
            self._read[place.module] = read_accepted(path) if path.is_file() else {}
        return self._read[place.module]

    def record(self, place: CallerPlace, one: AcceptedSelection) -> AcceptedSelection:
        """Keep what a test asked for; returns what it was offered when it first asked for the same."""
        return self._asked.setdefault(place, {}).setdefault(one.key, one)

    # ------------------------------------------------------------------------------------------ hooks

    @pytest.hookimpl(tryfirst=True)  # before anything is deselected
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Note the tests of each module, where all of a module are collected."""
        if any("::" in argument for argument in config.args) or config.getoption("lf", default=False):
            return
        for item in items:
            place = CallerPlace.of(item.nodeid)
            self._collected.setdefault(place.module, set()).add(place.test)

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends a report on
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how tests ended. From worker processes, what a test asked for comes with its report.

        So nothing is lost of a test that passed in a process that crashes later.
        """
        place = CallerPlace.of(report.nodeid)
        if hasattr(self._config, "workeroutput"):
            vars(report)["ctxbench"] = [one.as_row() for one in self._asked.get(place, {}).values()]
            return
        if rows := getattr(report, "ctxbench", ()):
            from ctxbench.pytest_plugin.accepted_file import AcceptedSelection

            for row in rows:
                self.record(place, AcceptedSelection.of_row(row))
        if report.failed:
            self._failed.add(place)
        elif report.when == "call" and report.passed:
            self._passed.add(place)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ARG002 - pytest-xdist's signature
        """Take what a worker process of pytest-xdist collected; one that crashed says nothing, the others do."""
        for module, tests in getattr(node, "workeroutput", {}).get("ctxbench", {}).items():
            self._collected.setdefault(module, set()).update(tests)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the controller what was collected, or write what is accepted."""
        if self._config.getoption("collectonly"):
            return  # no test has run
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["ctxbench"] = {module: sorted(tests) for module, tests in self._collected.items()}
        elif self._finish():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written, and what nobody asks for."""
        if self.lines:
            terminalreporter.section("ctxbench")
            for line in self.lines:
                terminalreporter.write_line(joined(message_lines(line)))

    # ------------------------------------------------------------------------------------------ the end

    def _finish(self) -> bool:
        """Write what is accepted, or look for what nobody asks for; returns whether a file could not be used."""
        failed = False
        modules = sorted({*self._collected, *(place.module for place in self._asked)})
        last: list[Callable[[], None]] = [
            *(partial(self._settle, module) for module in modules),
            self._settle_left_behind,
        ]
        for settle in last:
            try:
                settle()
            except UserError as error:
                self.lines.append(f"error: {error}")
                failed = True
        return failed

    def _settle(self, module: str) -> None:
        """Write or check the accepted selections of one test module."""
        path = self.path(CallerPlace(module, ""))
        mine = {place: found for place, found in self._asked.items() if place.module == module}
        if not path.is_file() and not (mine and self.accept):
            return
        from ctxbench.gate.value_texts import first_few
        from ctxbench.pytest_plugin.accepted_file import read_accepted, write_accepted

        before = read_accepted(path) if path.is_file() else {}
        asked = {key for found in mine.values() for key in found}
        stale = [key for key in before if key not in asked and self._unasked(module, key)]
        if not self.accept:
            if stale:
                named = first_few([f"{key.test} “{key.text}”" for key in stale], _SHOWN)
                self.lines.append(
                    f"{self.shown(path)} holds what no test asks for any more: {named}; "
                    "pytest --ctxbench-accept removes it"
                )
            return
        taken = {key: one for place, found in mine.items() if self._ended_well(place) for key, one in found.items()}
        after = {key: one for key, one in {**before, **taken}.items() if key not in stale}
        write_accepted(path, after.values())
        new = len(after.keys() - before.keys())
        changed = sum(before[key].as_row() != after[key].as_row() for key in after.keys() & before.keys())
        counts = f"{new} new, {changed} changed, {len(stale)} removed, {len(after) - new - changed} as before"
        self.lines.append(f"accepted in {self.shown(path)}: {counts}")
        if left := [place.test for place in mine if not self._ended_well(place)]:
            self.lines.append(f"not accepted, as the tests did not pass: {first_few(left, _SHOWN)}")

    def _ended_well(self, place: CallerPlace) -> bool:
        """Whether a test passed; what one that failed was offered may not be all that it asks for."""
        return place in self._passed and place not in self._failed

    def _unasked(self, module: str, key: Key) -> bool:
        """Whether the test of a selection is gone, or passed without asking for it."""
        gone = module in self._collected and key.test not in self._collected[module]
        return gone or self._ended_well(CallerPlace(module, key.test))

    def _settle_left_behind(self) -> None:
        """Files of ours beside the modules that were collected, whose own module is gone."""
        folders = sorted({self.path(CallerPlace(module, "")).parent for module in self._collected})
        found = [path for folder in folders for path in sorted(folder.glob(f"*{_SUFFIX}"))]
        if not found:
            return
        from ctxbench.pytest_plugin.accepted_file import is_ours, remove

        for path in found:
            module = path.name.removesuffix(_SUFFIX)
            if any(one.stem == module for one in path.parent.iterdir()) or not is_ours(path):
                continue
            if self.accept:
                remove(path)
            says = "removed" if self.accept else "pytest --ctxbench-accept removes it"
            self.lines.append(f"{self.shown(path)} is of a test module that is gone; {says}")
