"""Commands that messages advise name the user's own files, quoted for a shell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
GATE = {"datasets": ["my data"], "selectors": ["bm25"], "embedder": "hashing", "tokens": "chars/4"}


def flat(text: str) -> str:
    """A message without the line breaks that a terminal's width gives it."""
    return " ".join(text.split())


@pytest.fixture
def files(place: Path) -> Path:
    shutil.copytree(TINY, "my data")
    Path("my gate.yaml").write_text(yaml.safe_dump(GATE))
    Path("gate.yaml").write_text(yaml.safe_dump(GATE))
    Path("my tools.json").write_text(json.dumps([{"name": "a", "description": "A."}]))
    Path("my servers.json").write_text(json.dumps({"mcpServers": {"git": {"command": "x"}}}))
    Path("corrections of mine.jsonl").write_text("\n")
    return place


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["check", "my gate.yaml"], "make it with `ctxbench check 'my gate.yaml' --accept`, and commit it"),
        (["check"], "make it with `ctxbench check --accept`, and commit it"),
        (
            ["data", "import", "tools", "my servers.json", "--out", "o"],
            "`ctxbench data capture --mcp-config 'my servers.json'` starts it and lists them",
        ),
        (
            ["data", "capture", "--mcp-config", "my tools.json", "--out", "o"],
            "make a catalog of it: `ctxbench data import 'my tools.json' --out",
        ),
        (
            ["data", "review", "my data", "--patch", "corrections of mine.jsonl"],
            "apply it with `ctxbench data review 'my data' --apply 'corrections of mine.jsonl'`",
        ),
        (["data", "label", "bfcl-simple"], "copy a named dataset with `ctxbench data import bfcl-simple --out FOLDER`"),
        (["data", "label", "."], "copy a named dataset with `ctxbench data import NAME --out FOLDER`"),
    ],
)
def test_a_hint_names_what_the_user_named(cli, files: Path, words: list[str], hint: str) -> None:  # type: ignore[no-untyped-def]
    done = cli(*words)
    assert done.code == 2
    assert hint in flat(done.err)


def test_what_to_do_next_names_the_folder_that_was_written(cli, files: Path) -> None:  # type: ignore[no-untyped-def]
    done = cli("data", "import", "tools", "my tools.json", "--out", "my catalog")
    assert done.out.endswith("--catalog 'my catalog'\n")


@pytest.mark.parametrize("damage", ["head", "merge", "vectors"])
def test_a_damaged_baseline_says_which_gate_file_to_accept_again(cli, files: Path, damage: str) -> None:  # type: ignore[no-untyped-def]
    assert cli("check", "my gate.yaml", "--accept", "--vectors").code == 0
    head = Path("my gate.baseline/baseline.json")
    if damage == "vectors":
        Path("my gate.baseline/vectors.npz").write_bytes(b"PK")
    else:
        wrong = {"head": "[]", "merge": f"<<<<<<< a\n{head.read_text()}=======\n>>>>>>> b\n"}
        head.write_text(wrong[damage])
    said = flat(cli("check", "my gate.yaml").err)
    options = "--accept --vectors" if damage == "vectors" else "--accept"
    assert f"`ctxbench check 'my gate.yaml' {options}`" in said
    assert damage != "merge" or "`git checkout HEAD -- 'my gate.baseline'`" in said
