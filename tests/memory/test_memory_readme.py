"""The example on the room's page runs, and gives what it says."""

from __future__ import annotations

import re
from pathlib import Path

import ctxbench.memory

PAGE = Path(ctxbench.memory.__file__).parent / "README.md"


def test_the_example_gives_what_its_comment_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    code = code.replace("engine.search(", "found = engine.search(")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["found"] == ["Ben drinks black tea with milk."]
    built = names["built"]
    assert "[preference] Ben drinks black tea with milk." in built.context
    assert 0 < built.tokens <= 500
    assert not built.truncated
