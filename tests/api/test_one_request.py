"""One request from Python over a git repository, as the command asks it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ctxbench
from ctxbench.datasets.lookup import find_catalog
from ctxbench.io.errors import InputError, ParameterError, SelectorError, UserError
from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, write_presets
from tests.checkout import written

HISTORY = (
    ("Begin", {"src/area.py": "def area():\n    return 1\n", "src/mail.py": "def send():\n    return 2\n"}),
    ("Send letters faster", {"src/mail.py": "def send():\n    return 3\n"}),
)


@pytest.mark.parametrize(
    ("end", "selector"), [("", "codebase"), ("@HEAD~1", "codebase"), (":definitions", "codebase/definitions")]
)
def test_a_repository_is_asked_for_what_a_change_needs(tmp_path, end, selector):
    name = f"{written(tmp_path / 'repo', HISTORY).root}{end}"
    options = {"embedder": "hashing", "counter": "chars/4"}
    found = ctxbench.select("send letters", name, **options)
    wanted = ["file:src%2Fmail.py", "chunk:src%2Fmail.py%3A%3Asend"]
    assert set(found.ids[: 2 if end == ":definitions" else 1]) == set(wanted[: 2 if end == ":definitions" else 1])
    asked = ctxbench.select("send letters", ctxbench.catalog(name), selector=selector, **options)
    assert (found.ids, found.tokens) == (asked.ids, asked.tokens)


NOTES = [
    {"type": "memory", "name": "tea", "kind": "habit", "text": "Ben drinks tea.", "created": "2026-01-01"},
    {"type": "memory", "name": "milk", "kind": "habit", "text": "Ben drinks milk.", "created": "2026-03-01"},
    {"type": "memory", "name": "ale", "kind": "habit", "text": "Ben drinks ale.", "created": "2026-02-01"},
]
CODE = {"header": "# Habits\n", "memory_format": "## {{type}}\n{{content}}"}
PIPELINE = """
name: newest
pipeline:
  retrieve: bm25
  refine: [{linear: {weights: {memory.recency: 1}}}, {first: {n: 2}}]
  format: {template: {template: {header: "# Habits\\n", memoryFormat: "## {{type}}\\n{{content}}"}}}
"""


def newest_first(results):
    return sorted(results, key=lambda result: result["created"], reverse=True)


def test_a_ranker_and_a_template_are_given_inline_in_python_and_in_yaml(tmp_path):
    notes, options = ctxbench.catalog(NOTES), {"embedder": "hashing", "counter": "chars/4"}
    context = "# Habits\n## habit\nBen drinks milk.\n## habit\nBen drinks ale."
    inline = ctxbench.select(
        "what does Ben drink?", notes, selector="bm25", n=3, ranker=newest_first, template=CODE, **options
    )
    assert inline.ids == ["memory:milk", "memory:ale", "memory:tea"]
    assert inline.context == f"{context}\n## habit\nBen drinks tea."
    assert inline.messages[0]["content"] == inline.context
    (tmp_path / "newest.yaml").write_text(PIPELINE)
    from_yaml = ctxbench.select("what does Ben drink?", notes, selector=str(tmp_path / "newest.yaml"), **options)
    assert (from_yaml.ids, from_yaml.context) == (["memory:milk", "memory:ale"], context)
    assert ctxbench.select("what does Ben drink?", notes, selector="bm25", **options).context == ""


@pytest.mark.parametrize("ranker", [lambda results: results[1:], lambda results: [0.5] * 9, lambda results: None])
def test_a_ranker_that_fails_says_so(ranker):
    with pytest.raises(SelectorError, match="<lambda> failed for query"):
        ctxbench.select("what does Ben drink?", ctxbench.catalog(NOTES), selector="bm25", ranker=ranker)


def test_another_selector_may_be_asked_and_a_folder_that_is_nothing_says_so(tmp_path):
    root = written(tmp_path / "repo", HISTORY).root
    assert ctxbench.select("area", str(root), selector="bm25", n=1, counter="chars/4").ids == ["file:src%2Farea.py"]
    with pytest.raises(UserError, match="git repository"):
        ctxbench.catalog(tmp_path / "absent")


TOOLS = [{"name": "area", "description": "Area of a circle"}, {"name": "mail", "description": "Sends letters"}]


def test_rows_frames_and_tables_are_catalogs(tmp_path):
    frame = pd.DataFrame(TOOLS)
    frame.to_csv(tmp_path / "tools.csv", index=False)
    for items in (TOOLS, frame, tmp_path / "tools.csv", str(tmp_path / "tools.csv"), ctxbench.catalog(TOOLS)):
        assert ctxbench.select("area of a circle", items, selector="bm25", n=1, counter="chars/4").ids == ["tool:area"]
    with pytest.raises(ParameterError, match="items must be a frame, a list of dicts"):
        ctxbench.select("area", None, selector="bm25", counter="chars/4")


def test_a_request_takes_the_selectors_that_evaluate_takes():
    mappings = ({"selector": "bm25", "set": {"n": 1}}, {"retrieve": "bm25", "refine": [{"first": {"n": 1}}]})
    for selector in mappings:
        assert ctxbench.select("area", TOOLS, selector=selector, counter="chars/4").ids == ["tool:area"]
    with pytest.raises(ParameterError, match="a mapping holds its own parameters; leave n out"):
        ctxbench.select("area", TOOLS, selector=mappings[0], n=1, counter="chars/4")
    with pytest.raises(ParameterError, match=r"got function\. A function is a step"):
        ctxbench.select("area", TOOLS, selector=lambda request, items: [], counter="chars/4")
    with pytest.raises(ParameterError, match="got int"):
        ctxbench.select("area", TOOLS, selector=3, counter="chars/4")


SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}}
FORMS = {
    "openai": lambda name: {
        "type": "function",
        "function": {"name": name, "description": f"{name}s", "parameters": SCHEMA},
    },
    "responses": lambda name: {"type": "function", "name": name, "description": f"{name}s", "parameters": SCHEMA},
    "anthropic": lambda name: {"name": name, "description": f"{name}s", "input_schema": SCHEMA},
    "mcp": lambda name: {"name": name, "description": f"{name}s", "inputSchema": SCHEMA},
}


@pytest.fixture
def agent_folder(tmp_path, monkeypatch):
    """A folder with a list of tools, an agent file over it, and skills."""
    monkeypatch.chdir(tmp_path)
    Path("tools.json").write_text(json.dumps([FORMS["openai"](name) for name in ("refund", "cancel", "mail")]))
    Path("agent.yaml").write_text("sources: {tools: tools.json}\nselector: bm25\nsettings: {n: 1}\n")
    Path("skills", "tea").mkdir(parents=True)
    Path("skills", "tea", "SKILL.md").write_text("---\nname: tea\ndescription: Makes tea.\n---\nBoil water.\n")
    return tmp_path


@pytest.mark.parametrize("form", FORMS)
def test_tools_in_the_form_of_a_model_are_a_catalog_as_a_list_and_as_a_file(form, agent_folder):
    tools = [FORMS[form](name) for name in ("refund", "cancel")]
    Path("listed.json").write_text(json.dumps({"tools": tools}))
    for items in (tools, tuple(tools), "listed.json", Path("listed.json")):
        catalog = ctxbench.catalog(items)
        assert catalog.ids == ("tool:refund", "tool:cancel")
        assert [item.schema for item in catalog] == [SCHEMA, SCHEMA]
    log = {"text": "refund it", "offered": "*", "called": ["refund"]}
    Path("log.jsonl").write_text(json.dumps(log))
    assert ctxbench.from_file("log.jsonl", tools).labels["item"].tolist() == ["tool:refund"]


def test_a_faulty_definition_is_named_in_a_list_and_in_a_file(agent_folder):
    faulty = [*(FORMS["openai"](name) for name in ("refund", "cancel")), FORMS["openai"]("")]
    Path("faulty.json").write_text(json.dumps(faulty))
    for items in (faulty, "faulty.json"):
        with pytest.raises(InputError) as raised:
            ctxbench.catalog(items)
        (fault,) = raised.value.faults
        assert "name" in str(fault)


def test_a_catalog_is_named_as_on_the_command_line(agent_folder):
    command = [sys.executable, "-m", "ctxbench", "data", "import", "tools.json", "--out", "catalogs/mine"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    for name in ("agent.yaml", "tools.json", "catalogs/mine", "catalogs/mine/corpus.jsonl"):
        assert set(ctxbench.catalog(name).ids) == {"tool:refund", "tool:cancel", "tool:mail"}
        selected = ctxbench.select("refund", name, selector="agent.yaml", counter="chars/4")
        assert selected.ids == ["tool:refund"]
    assert ctxbench.catalog("skills").ids == ("skill:tea",)
    assert ctxbench.catalog("catalogs/mine").ids == find_catalog("catalogs/mine").ids


def write_tuned(path, **values):
    """A presets file whose preset `normal` is bm25 with these values."""
    base = definition("bm25")
    preset = TunedPreset(
        selector="bm25",
        definition=definition_hash(base),
        set=base.in_force(base.with_defaults(values)),
        parameters=parameter_texts(base),
    )
    Path(path).parent.mkdir(exist_ok=True)
    write_presets(Path(path), tuned={"dataset": "d"}, presets={"normal": preset}, test_split="")


def test_a_tuned_preset_is_named_by_its_file(agent_folder):
    write_tuned("tuned.yaml", n=2)
    selector = {"presets": "tuned.yaml", "preset": "normal"}
    tools = ctxbench.catalog("tools.json")
    assert len(ctxbench.select("refund or cancel or mail", tools, selector=selector, counter="chars/4").ids) == 2
    less = {**selector, "set": {"n": 1}}
    assert len(ctxbench.select("refund or cancel or mail", tools, selector=less, counter="chars/4").ids) == 1
    ds = ctxbench.dataset(tools, [{"query": "q", "text": "refund"}], [{"query": "q", "item": "refund"}])
    res = ctxbench.evaluate(ds, {"tuned": selector}, embedder="hashing", counter="chars/4")
    assert res.to_frame()["completeness"].tolist() == [1.0]
    with pytest.raises(ParameterError, match="normal"):
        ctxbench.select("refund", tools, selector={"presets": "tuned.yaml"}, counter="chars/4")
    with pytest.raises(InputError, match=r"presets: tuned\.yaml, preset: normal"):
        ctxbench.select("refund", tools, selector="tuned.yaml", counter="chars/4")


def test_the_page_on_agents_in_python_runs(agent_folder, capsys):
    page = (Path(__file__).parents[2] / "experiments" / "guide" / "embed.md").read_text("utf-8")
    assert len(page.split()) <= 600
    (agent,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    Path("agent.yaml").write_text(agent)
    write_tuned("presets/evals.yaml", n=2)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block.replace("range(50)", "range(3)"), names)
    by_name = {tool["function"]["name"]: tool for tool in json.loads(Path("tools.json").read_text())}
    assert names["tools"] == [by_name["refund"]]
    assert "first call" in capsys.readouterr().out
    assert names["tools_or_all"]("mail") == [by_name["mail"]]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "refund"}}]}
    assert names["tools_or_all"]("mail", [call]) == [by_name["mail"]]
    assert names["tools_or_all"](None) == list(by_name.values())
