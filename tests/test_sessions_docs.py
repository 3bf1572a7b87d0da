"""What the page on sessions shows works, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from ctxbench.selectors.conversations import FIELDS

PAGE = (Path(__file__).parents[1] / "datasets" / "sessions.md").read_text("utf-8")


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.jsonl").write_text(block("json"))
    exec(compile(block("python"), "sessions.md", "exec"), {})
    ids, edited, moved = capsys.readouterr().out.splitlines()
    assert ids.startswith("('rule:tone', 'rule:review', ")
    assert edited == "('reference:auth',)"
    assert "Change(id='reference:auth'" in moved


def test_the_table_has_every_field_of_a_stored_exchange():
    table = PAGE.split("\n## Stored conversations\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(FIELDS)
