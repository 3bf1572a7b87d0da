"""The examples on the page about memories run, and give what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ctxbench.cli.app import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "experiments" / "guide" / "memory.md"


def test_the_example_gives_what_its_comment_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    code = code.replace("engine.search(", "found = engine.search(")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["found"] == ["Ben drinks black tea with milk."]
    built = names["built"]
    assert "[preference] Ben drinks black tea with milk." in built.context
    assert 0 < built.tokens <= 500
    assert not built.truncated


@pytest.mark.essential
def test_the_commands_give_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    page = PAGE.read_text("utf-8")
    (lines,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    (context,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    said = []
    for line in lines.splitlines():
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line)[1:])
        assert ended.value.code == 0
        said.append(capsys.readouterr().out)
    imported, now, then, preview, built = said
    assert "90 new memories, 15 later versions" in imported
    assert "Joel eats fish again" in now.splitlines()[1]
    assert "Joel has eaten no meat and no fish" in then
    assert "1 memory of workspace lindqvist-home, 48 of 60 tokens (80%" in preview
    assert built == context
