"""The import of sessions that the tests read."""

from __future__ import annotations

import json

import pytest

from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces, redactor_for
from tests.labelling.traces.session_cases import CATALOG


@pytest.fixture
def read(tmp_path):
    """Import sessions, each a list of lines or the text of a file."""

    def run(*files, catalog=CATALOG, **settings):
        paths = [tmp_path / f"log-{number}.jsonl" for number in range(len(files))]
        for path, lines in zip(paths, files, strict=True):
            path.write_text(lines if isinstance(lines, str) else "\n".join(map(json.dumps, lines)), "utf-8")
        source = TraceSource(logs=tuple(paths), catalog=catalog)
        return import_traces(source, TraceSettings(name="mine", **settings), redact=redactor_for(catalog))

    return run
