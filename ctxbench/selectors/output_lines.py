"""Messages for lines of a process that are no answers: what is wrong, and what to do."""

from __future__ import annotations

import re
from typing import Any

from ctxbench.io.other_forms import is_utf16
from ctxbench.selectors.protocol import NO_ANSWER, MalformedError, quoted

_PART = re.compile(r'[{\[]|[}\]]+,?|"(?:[^"\\]|\\.)*"\s*:.*')  # a line of JSON that is spread over lines


def malformed_line(line: bytes, error: MalformedError) -> str:
    """Why a line that is no JSON is no answer: over several lines, cut off, not in UTF-8, or no JSON at all."""
    text = line.decode("utf-8", "replace").strip()
    if not _is_utf8(line):
        form = "UTF-16" if is_utf16(line) else "Latin-1 (Windows-1252)"
        advice = f"it looks like {form}; write answers in UTF-8"
    elif _PART.fullmatch(text):
        advice = "an answer over several lines; write each on one line (json.dumps without indent)"
    elif text.startswith("{"):
        advice = "the answer is cut off or broken; write it whole, on one line, with a JSON library"
    else:
        advice = "write that to standard error"
    return f"{NO_ANSWER} ({error}): {quoted(line.decode('utf-8', 'replace'))}; {advice}"


def queryless_line(answer: Any, line: bytes) -> str:
    """Why JSON without the id of a query is no answer."""
    has_query = isinstance(answer, dict) and "query" in answer
    problem = f"query must be a text, the id of the request; got {quoted(answer['query'])}" if has_query else "no query"
    return f"{NO_ANSWER} ({problem}): {quoted(line.decode('utf-8', 'replace'))}"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not is_utf16(line)
