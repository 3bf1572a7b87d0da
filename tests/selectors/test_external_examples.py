"""The examples of `experiments/own-selector` run, and its page says what is so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from ctxbench.cli.curate import ExportTargets, export
from ctxbench.datasets.files import read_dataset
from ctxbench.model.formats import field_names
from ctxbench.model.selection import selections
from ctxbench.selectors.external import External, external_from_config
from ctxbench.selectors.protocol import EXTERNAL_BLOCKS, CommandOptions, HttpOptions, schema
from ctxbench.selectors.selector import EXTERNAL_KINDS
from ctxbench.testing import check_selector
from ctxbench.tuning.policy import policies_of
from tests.children import child
from tests.experiment_files import read_experiment

FOLDER = Path(__file__).parents[2] / "experiments" / "own-selector"
HTTP = "## By HTTP\n"  # has a page of its own
PAGE = (FOLDER / "README.md").read_text("utf-8").replace(HTTP, HTTP + (FOLDER / "http.md").read_text("utf-8"))
DATASET = read_dataset(FOLDER / "dataset")

# By hand: words of more than three letters that text and item share; the best score is chosen.
CHOSEN = {
    "q1": ["tool:tracker:create_issue"],  # create, issue: 2; close_issue: issue: 1; create_branch: create: 1
    "q2": ["tool:weather:forecast"],  # weather
    "q3": [],
    "q4": ["tool:tracker:close_issue"],  # close, issue
}
LEFT_OUT = {
    "q1": ["tool:tracker:close_issue", "tool:git:create_branch"],
    "q2": [],
    "q3": [],
    "q4": ["tool:tracker:create_issue"],
}

NODE = pytest.param(
    {"command": ["node", "command_selector.js"]},
    marks=pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
    id="Node",
)


def offers(selector):
    made = selector.select(DATASET.batch())
    assert made.errors == {}
    return made, {
        one.query: (
            [offered.id for offered in one.chosen if offered.origin == "search"],
            [offered.id for offered in one.left_out],
        )
        for one in selections(made.query, made.candidates)
    }


EXPECTED = {query: (CHOSEN[query], LEFT_OUT[query]) for query in CHOSEN}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"answers": "answers.jsonl"}, id="file"),
        pytest.param({"callable": "callable_selector.py:shared_words"}, id="callable"),
        pytest.param({"command": [sys.executable, "command_selector.py"]}, id="Python"),
        NODE,
    ],
)
def test_every_example_answers_alike(config):
    with external_from_config(config, base=FOLDER) as selector:
        made, found = offers(selector)
    assert found == EXPECTED
    assert (made.ranked, made.scored) == (True, True)


@pytest.mark.parametrize(
    "config", [pytest.param({"callable": "callable_selector.py:shared_words"}, id="callable"), NODE]
)
def test_examples_pass_the_conformance_suite(config):
    with external_from_config(config, base=FOLDER) as selector:
        check_selector(selector)


def test_the_shortest_callable_answers_without_a_ranking():
    made, found = offers(external_from_config({"callable": "callable_selector.py:ids_only"}, base=FOLDER))
    assert {query: chosen for query, (chosen, _) in found.items()} == CHOSEN
    assert (made.ranked, made.scored) == (False, False)


def test_the_http_example_answers_is_kept_by_build_and_checks_its_token(monkeypatch, tmp_path):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("SELECTOR_TOKEN", "Bearer abc123")
    command = [sys.executable, "http_selector.py", "0"]
    with child(command, cwd=FOLDER, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip()
        config = {"url": url, "batch": 3, "timeout": 10.0}
        with external_from_config({**config, "authorization_env": "SELECTOR_TOKEN"}, base=FOLDER) as selector:
            assert offers(selector)[1] == EXPECTED
            assert selector.describe()["build"] == "words-1"
        with external_from_config({**config, "authorization_env": "SELECTOR_TOKEN"}, base=FOLDER) as selector:
            assert offers(selector)[1] == EXPECTED
            assert selector.notes["from_cache"] == 4
        with external_from_config(config, base=FOLDER) as selector:
            assert "status 401" in selector.select(DATASET.batch()).errors[0]
        server.terminate()


@pytest.mark.parametrize("program", [[sys.executable, "command_selector.py"], ["node", "command_selector.js"]])
def test_what_a_command_writes_by_hand_to_exported_requests_is_a_file_of_answers(program, tmp_path):
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not here")
    export(str(FOLDER / "dataset"), ExportTargets(None, None, tmp_path / "requests.jsonl"), as_json=False)
    asked = (tmp_path / "requests.jsonl").read_bytes()
    done = subprocess.run(program, cwd=FOLDER, input=asked, stdout=subprocess.PIPE, check=True, timeout=60)
    (tmp_path / "answers.jsonl").write_bytes(done.stdout)
    with external_from_config({"answers": "answers.jsonl"}, base=tmp_path) as selector:
        answers = selector.select(DATASET.batch())
    assert answers.errors == {}
    found = selections(answers.query, answers.candidates)
    assert {
        one.query: [row.id for row in one.chosen if row.origin == "search"] for one in found
    } == CHOSEN  # the same as a run's


def test_the_experiment_can_be_read():
    experiment = read_experiment(FOLDER / "experiment.yaml")
    assert [spec.name for spec in experiment.selectors] == ["by file", "by callable", "by command", "bm25"]
    assert experiment.datasets == ("dataset",)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_shows_configurations_that_work():
    *configs, policies = [yaml.safe_load(block) for block in blocks("yaml")]
    assert [next(iter(config)) for config in configs] == list(EXTERNAL_KINDS)
    for config in configs:
        if "node" in config.get("command", []) and shutil.which("node") is None:
            pytest.skip("Node is not installed")
        external_from_config(config, base=FOLDER).close()
    assert policies_of(policies, name="p").selectors[0].external["name"] == "ours"


def test_the_page_shows_messages_of_the_schema():
    whole = schema()
    messages = [json.loads(line) for block in blocks("json") for line in block.splitlines()]
    kinds = ["answer", "requestBody", "catalog", "request", "post", "response"]
    assert len(messages) == len(kinds)
    for message, kind in zip(messages, kinds, strict=True):
        jsonschema.validate(message, {"$ref": f"#/$defs/{kind}", "$defs": whole["$defs"]})
        assert message.get("catalog", DATASET.catalog.hash) == DATASET.catalog.hash


def test_the_page_lists_every_option_with_its_default():
    common = {"repeats": 1}
    defaults = {
        "answers": {},
        "callable": {"send": "items", "batch": False, **common},
        "command": {**CommandOptions().model_dump(), **common},
        "url": {**HttpOptions().model_dump(), "cache": True, **common},
    }
    for kind, title in zip(EXTERNAL_KINDS, ("By file", "By Python callable", "By command", "By HTTP"), strict=True):
        section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
        listed = re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE)
        shown = {name: None if text == "none" else yaml.safe_load(text.strip("`")) for name, text in listed}
        assert shown == defaults[kind]
        assert set(shown) == set(field_names(EXTERNAL_BLOCKS[kind])) - {kind, "name"}


def test_the_python_of_the_page_runs(monkeypatch):
    monkeypatch.chdir(FOLDER.parents[1])
    (block,) = blocks("python")
    names = {}
    exec(block, names)
    assert isinstance(names["mine"], External)
    assert offers(names["mine"])[1] == {query: ([], []) for query in CHOSEN}
    assert offers(names["other"])[1] == EXPECTED
