"""A team's repository, and items for single parts of the plugin."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

ROWS = [
    {"_id": "rule:refunds", "text": "Give refund an order within a week.", "description": "Refund an order"},
    {"_id": "tool:orders:get", "description": "Look an order up"},
    {"_id": "tool:mail:send", "description": "Write a mail to a customer"},
    {"_id": "rule:style", "text": "Be kind.", "include": "always"},
    {"_id": "rule:secret", "text": "Sing.", "include": "manual"},
    {"_id": "tool:wiki:find", "description": "Search pages of the wiki"},
    {"_id": "tool:wiki:add", "description": "Add pages to the wiki"},
]
# the first two that the search finds
SELECTOR = """
name: two
pipeline:
  analyse: sentences
  retrieve: {dense: {depth: 100}}
  refine: [{first: {n: 2}}]
"""
INI = """
[pytest]
addopts = -p no:cacheprovider
filterwarnings = error
ctxbench_catalog = catalog.jsonl
ctxbench_selector = two.yaml
ctxbench_embedder = hashing
"""

# Each run of pytest is a process, forked from one that has what takes long to import.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["pytest", "numpy", "ctxbench.selectors.definitions", "ctxbench.search.embedders"])


def run_pytest(folder, arguments, environment, output):
    """Run pytest in this process, which is its own; what it prints goes to a file."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(folder))  # as `python -m pytest` does
    with Path(output).open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    raise SystemExit(pytest.main(arguments))


class Team:
    """A team's repository. Not pytest's `pytester`: that takes modules imported meanwhile out of this process."""

    def __init__(self, path):
        self.path = path

    def write(self, **files):
        """Write Python files by name."""
        for name, text in files.items():
            (self.path / f"{name}.py").write_text(dedent(text).lstrip())

    def pytest(self, *arguments):
        """Run pytest with our plugin alone."""
        with tempfile.NamedTemporaryFile() as output:
            given = (self.path, ["-p", "ctxbench.pytest_plugin", *arguments], dict(os.environ), output.name)
            run = SERVER.Process(target=run_pytest, args=given)
            run.start()
            run.join(timeout=120)
            printed = Path(output.name).read_text(encoding="utf-8")
        assert run.exitcode is not None, printed
        return pytest.RunResult(run.exitcode, printed.splitlines(), [], 0.0)


def put(team, rows):
    """Write the catalog."""
    (team.path / "catalog.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def text_of(done):
    """What a run of pytest printed."""
    return done.stdout.str()


FEW = [
    {"_id": "tool:alpha", "description": "beta gamma"},
    {"_id": "tool:delta", "description": "beta epsilon"},
    {"_id": "tool:long", "description": "beta", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"_id": "rule:zeta", "text": "Eta theta.", "include": "always"},
    {"_id": "rule:hand", "text": "Beta.", "include": "manual"},
    {"_id": "rule:off", "text": "Beta.", "enabled": False},
    {"_id": "rule:other", "text": "Quite."},
]
ONE = "name: one\npipeline:\n  retrieve: {dense: {depth: 3}}\n  refine: [{first: {n: 1}}]\n"
