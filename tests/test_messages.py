"""Every message that code names is in ctxbench/report/messages, with the values that its text shows, and is used."""

from __future__ import annotations

import ast
import pickle
import re
import string
from collections import Counter
from pathlib import Path

import pytest

from ctxbench.io.errors import MESSAGES, Message, message_code, read_messages
from tests.syntax_trees import tree_of

PACKAGE = Path(__file__).parents[1] / "ctxbench"
ENTRIES = {
    f"{path.stem}.{name}": entry for path in MESSAGES.glob("*.toml") for name, entry in read_messages(path.stem).items()
}
# The codes of each file. The causes that `check` names are CTX101 to CTX199; their file is `causes.toml`.
RANGES = {
    "causes": (101, 199),
    "io": (1001, 1999),
    "model": (2001, 2199),
    "search": (2201, 2499),
    "pipelines": (2501, 2999),
    "catalogs": (3001, 3999),
    "datasets": (4001, 4499),
    "selectors": (4501, 4999),
    "evaluation": (5001, 5499),
    "tuning": (5501, 5999),
    "labelling": (6001, 6999),
    "gate": (7001, 7999),
    "memory": (8001, 8499),
    "api": (8501, 8999),
}


def fields_of(text: str) -> set[str]:
    """The names of the values that a text shows."""
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def calls() -> list[tuple[str, str, set[str] | None]]:
    """(location, key, names of its values) of each `Message(...)`; None where the values are a mapping."""
    result = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Message" and node.args:
                keys = [x.value for x in ast.walk(node.args[0]) if isinstance(x, ast.Constant) and "." in str(x.value)]
                names = {keyword.arg for keyword in node.keywords}
                given = None if None in names else {str(name) for name in names}
                result += [(f"{path.name}:{node.lineno}", key, given) for key in keys]
    return result


def test_code_gives_each_message_the_values_that_its_text_shows():
    for location, key, names in calls():
        assert key in ENTRIES, location
        assert names is None or names == fields_of(ENTRIES[key]["text"]), f"{location}: {key}"


def test_each_message_is_used():
    source = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    assert [key for key in ENTRIES if f'"{key}"' not in source] == []


def test_each_code_is_given_once_and_from_the_range_of_its_file():
    counts = Counter(entry["code"] for entry in ENTRIES.values())
    assert [code for code, n in counts.items() if n > 1] == []
    for key, entry in ENTRIES.items():
        low, high = RANGES[key.partition(".")[0]]
        assert entry.keys() == {"code", "text"}, key
        assert re.fullmatch(r"CTX[1-9][0-9]{2,3}", entry["code"]), key
        assert low <= int(entry["code"][3:]) <= high, key


def test_a_message_is_its_text_and_keeps_its_code_and_values():
    message = Message("io.duplicate-json-key", key="a{b}")
    assert message == "key 'a{b}' occurs twice in one object"
    again = pickle.loads(pickle.dumps(message))
    assert (again, again.code, again.values) == (message, "CTX1002", {"key": "a{b}"})
    assert (message_code(message), message_code("a text")) == ("CTX1002", "")


@pytest.mark.parametrize(("key", "values"), [("io.no-such-message", {}), ("io.duplicate-json-key", {})])
def test_a_message_that_is_not_there_or_lacks_a_value_is_a_bug(key, values):
    with pytest.raises(LookupError):
        Message(key, **values)
