"""`ctxbench tune`: what it writes and prints, and what it says of input that it cannot do with."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import yaml

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.tuning.tuner import DatasetTuner

ABOUT = {"licence": "Apache-2.0", "source": "Written for a test.", "labelling": "As written."}
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll", "larch"]
SEMANTIC = {"selector": "semantic", "search": {"contextTopK": [20], "contextTopN": [0, 1, 5]}}
FEWER = {  # settings, and so figures, which take longest to draw: of each kind there is one
    "selector": "semantic",
    "set": {"contextTopK": 20, "contextMargin": 1.0},
    "search": {"contextTopN": [0, 1, 5]},
}
FITTED = {"selector": "learned", "name": "fitted", "fit": "own", "set": {"at_least": 1}}
AGGRESSIVE = {
    "about": "little",
    "minimise": "tokens",
    "constraints": [{"metric": "completeness", "at_least": 0.7, "of": "base"}],
}


@pytest.fixture
def shop(place):
    """Sixty queries a split, each of one word that two of twelve tools share."""
    items = [
        Item(type="tool", name=f"do_{word}", server="s", description=f"Does {word} and {other}.")
        for word, other in zip(WORDS, [*WORDS[1:], WORDS[0]], strict=True)
    ]
    queries = [
        DatasetQuery(
            request=Request(id=f"q{number}", text=f"{WORDS[number % 12]} {'please ' * (number % 3)}"),
            split="tuning" if number % 2 else "test",
        )
        for number in range(120)
    ]
    labels = [Label(query=one.id, item=items[number % 12].key, grade=2) for number, one in enumerate(queries)]
    held = Dataset(
        name="shop", version="1", catalog=Catalog(items), queries=tuple(queries), labels=tuple(labels), about=ABOUT
    )
    write_dataset(held, place / "shop")
    return place / "shop"


@pytest.fixture
def policy(place):
    def write(name="ok", selectors=(FEWER,), **given):
        data = {"name": name, "selectors": list(selectors), "policies": {"aggressive": AGGRESSIVE}}
        path = place / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**data, "embedder": "hashing", "tokens": "chars/4", **given}, sort_keys=False))
        return path.name

    return write


def constrained(*constraints, **aim):
    return {"tight": {**(aim or {"minimise": "tokens"}), "constraints": list(constraints)}}


# --------------------------------------------------------------------------------------------------------- what is made


@pytest.mark.essential
def test_presets_and_a_report_are_written(cli, shop, policy, place):
    done = cli("tune", shop, "-p", policy(selectors=[SEMANTIC], labels="split"))
    assert done.code == 0, done.err
    assert done.out.startswith("aggressive: semantic as tuned offers "), "advice comes first"
    assert "\nshop: 60 tuning and 60 test queries, 12 items, tokens by chars/4\n  aggressive: " in done.out
    assert "labels: split" not in done.out
    assert done.out.splitlines()[-3:] == [
        "written: runs/tune-ok-shop/presets/shop.yaml",
        "written: runs/tune-ok-shop/report.md",
        "written: runs/tune-ok-shop/report.html",
    ]
    (used,) = [line for line in done.out.splitlines() if line.startswith("to use ")]
    assert used == (
        "to use a preset: copy runs/tune-ok-shop/presets out of runs/, which git ignores, to presets/, and write "
        "`selector: {presets: presets/shop.yaml, preset: aggressive}` into an agent file"
    )
    assert all(len(line) <= 80 for line in done.out.splitlines() if line != used)
    found = yaml.safe_load((place / "runs/tune-ok-shop/presets/shop.yaml").read_text("utf-8"))
    assert found["presets"]["aggressive"]["selector"] == "semantic"
    assert found["tuned"]["queries"] == {"tuning": 60, "test": 60}
    assert found["tuned"]["embedder"]["model"] == "hashing"
    assert found["test_split"].startswith("read once")


def test_another_datasets_tuning_overwrites_nothing(cli, shop, policy, place):
    named = policy(selectors=[FEWER, {**FITTED, "search": {"at_most": [2, 20]}}])
    shutil.copytree(shop, place / "mine")
    card = (place / "mine/dataset.yaml").read_text("utf-8")
    (place / "mine/dataset.yaml").write_text(card.replace("name: shop", "name: mine"), encoding="utf-8")

    def made(dataset):
        done = cli("tune", dataset, "-p", named, "--out", "both")
        assert done.code == 0, done.err
        return {line.removeprefix("written: ") for line in done.out.splitlines() if line.startswith("written: ")}

    first = made(shop)
    before = {path: (place / path).read_bytes() for path in first}
    second = made("mine")
    assert "both/presets/fits/fitted-mine.json" in second
    reports = {"both/report.md", "both/report.html"}
    assert first & second == reports
    assert all((place / path).read_bytes() == before[path] for path in first - reports)


def test_an_agent_file_takes_a_preset_with_its_fit_as_it_is_told(cli, shop, policy, place):
    fitted = {**FITTED, "search": {"at_most": [1, 20]}}
    done = cli("tune", shop, "-p", policy(selectors=[{"selector": "bm25", "set": {"n": 12}}, fitted]), "--json")
    assert done.code == 0, done.err
    shutil.copytree(place / "runs/tune-ok-shop/presets", place / "presets")
    shutil.rmtree(place / "runs")
    (place / "tools.json").write_text(json.dumps([{"name": "amber", "description": "Does amber."}]))
    chosen = {"presets": "presets/shop.yaml", "preset": "aggressive"}
    agent = {"name": "desk", "sources": {"tools": "tools.json"}, "selector": chosen, "settings": {"at_most": 7}}
    (place / "agent.yaml").write_text(yaml.safe_dump(agent))
    set_ = yaml.safe_load((place / "presets/shop.yaml").read_text())["presets"]["aggressive"]["set"]
    asked = cli("select", "amber", "--agent", "agent.yaml", "--embedder", "hashing", "--json")
    assert asked.code == 0, asked.err
    assert asked.json["parameters"] == {**set_, "at_most": 7}


def test_the_same_command_writes_the_same_bytes(cli, shop, policy, snapshot):
    cli("tune", shop, "-p", policy(), "--out", "made")
    before = snapshot()
    cli("tune", shop, "-p", policy(), "--out", "made")
    assert snapshot() == before


def test_json_stands_alone_on_standard_output(process, cli, shop, policy):
    done = process("tune", shop, "-p", policy(), "--json")
    assert done.code == 0, done.err
    (aggressive,) = done.json["datasets"]["shop"]["policies"].values()
    assert aggressive["policy"]["minimise"] == "tokens"
    assert aggressive["recommended"]["selector"] == "semantic"
    assert set(aggressive["against"]) >= {"defaults"}
    assert list(aggressive["bounds"]) == ["completeness >= 0.7 x the base's"]
    shop_ = done.json["datasets"]["shop"]
    assert {"semantic/normal", "learned/normal", "learned/aggressive"} <= set(shop_["shipped"])
    assert all(shop_["contenders"][name]["role"] in ("preset", "defaults") for name in shop_["shipped"].values())
    assert (aggressive["same_as"], aggressive["replaced"], aggressive["shipped"]) == ([], None, "")
    assert done.json["presets"] == ["runs/tune-ok-shop/presets/shop.yaml"]
    assert json.loads(cli("tune", shop, "-p", policy(), "--json").out) == done.json


def test_a_report_goes_to_another_place_too(cli, shop, policy, place):
    done = cli("tune", shop, "-p", policy(), "--out", "made", "--markdown", "docs/presets.md")
    assert done.code == 0, done.err
    assert "written: docs/presets.md" in done.out
    text = (place / "docs/presets.md").read_text("utf-8")
    assert "ctxbench tune" in text
    assert "(presets/" in text
    assert (place / "docs/presets").is_dir()


def test_of_an_agents_selector_it_is_said_how_to_take_a_preset(cli, shop, policy, place):
    (place / "tools.json").write_text(json.dumps([{"name": "amber", "description": "Does amber."}]))
    agent = {"name": "desk", "sources": {"tools": ["tools.json"]}, "selector": "semantic"}
    agent["settings"] = {"contextIncludeScore": 0.9, "contextTopN": 5}
    (place / "agent.yaml").write_text(yaml.safe_dump(agent))
    entry = {**FEWER, "selector": "agent.yaml"}
    done = cli("tune", shop, "-p", policy(selectors=[entry]), "--out", "made")
    assert done.code == 0, done.err
    chosen = yaml.safe_load((place / "made/presets/shop.yaml").read_text())["presets"]["aggressive"]["set"]
    (line,) = [line for line in done.out.splitlines() if line.startswith("to take ")]
    start, _, settings = line.partition(" settings: ")
    assert start == "to take aggressive: in agent.yaml,"
    written = {**agent, "settings": yaml.safe_load(settings)}
    (place / "agent.yaml").write_text(yaml.safe_dump(written))
    now = cli("select", "amber", "--agent", "agent.yaml", "--embedder", "hashing", "--json").json["parameters"]
    assert {name: now[name] for name in chosen} == chosen
    assert "to take" not in cli("tune", shop, "-p", policy(), "--out", "other").out


def test_an_agent_file_takes_the_preset_of_its_own_selector(cli, shop, policy, place):
    (place / "tools.json").write_text(json.dumps([{"name": "amber", "description": "Does amber."}]))
    agent = {"name": "desk", "sources": {"tools": ["tools.json"]}, "selector": "semantic", "system": "You help."}
    (place / "agent.yaml").write_text(yaml.safe_dump(agent | {"include": {"otherwise": "agent"}}))
    done = cli("tune", shop, "-p", policy(selectors=[{**FEWER, "selector": "agent.yaml"}]))
    assert done.code == 0, done.err
    shutil.copytree(place / "runs/tune-ok-shop/presets", place / "presets")
    shutil.rmtree(place / "runs")
    chosen = {"presets": "presets/shop.yaml", "preset": "aggressive"}
    (place / "agent.yaml").write_text(yaml.safe_dump(agent | {"selector": chosen}))
    set_ = yaml.safe_load((place / "presets/shop.yaml").read_text())["presets"]["aggressive"]["set"]
    asked = cli("select", "amber", "--agent", "agent.yaml", "--embedder", "hashing", "--json")
    assert (asked.code, {name: asked.json["parameters"][name] for name in set_}) == (0, set_), asked.err
    catalog = ctxbench.catalog("agent.yaml")
    assert ctxbench.select("amber", catalog, selector="agent.yaml", embedder="hashing").ids == ["tool:amber"]
    assert ctxbench.select("amber", catalog, selector=chosen, embedder="hashing").ids == ["tool:amber"]
    (place / "gate.yaml").write_text(f"datasets: [{shop}]\nselectors: [agent.yaml]\nembedder: hashing\n")
    for words in (("check", "gate.yaml", "--accept"), ("check", "gate.yaml")):
        done = cli(*words)
        assert done.code == 0, done.err


# Ranks all that shares a word with the request; counts how often it is started.
RANKING = """
import json, pathlib, sys
with pathlib.Path("started").open("a") as file:
    file.write("x")
items = []
for line in sys.stdin:
    message = json.loads(line)
    items = message.get("items", items)
    if "query" in message:
        words = message["request"]["text"].split()
        scores = [(2 * (one["name"][3:] in words) + (words[0] in one["description"]), one["_id"]) for one in items]
        ranking = [{"id": name, "score": score} for score, name in sorted(scores, key=lambda one: -one[0]) if score]
        print(json.dumps({"query": message["query"], "items": ranking, "ranking": ranking}), flush=True)
"""


@pytest.mark.parametrize("fitted", [False, True])
def test_a_command_is_tuned_in_where_it_cuts_and_asked_once(cli, shop, policy, place, fitted):
    (place / "rank.py").write_text(RANKING)
    ours = {"command": [sys.executable, "rank.py"], "name": "ours"}
    fit = [{**FITTED, "search": {"at_most": [20]}}] if fitted else []
    done = cli("tune", shop, "-p", policy(selectors=[ours, *fit], labels="all"))
    assert done.code == 0, done.err
    assert "aggressive: ours as tuned offers " in done.out or fitted
    assert "(`labels: split` leaves the test split out)" in " ".join(done.out.split())
    assert (place / "started").read_text() == "x", "its answers are kept, whatever is opened twice"
    if not fitted:
        lines = [line for line in done.out.splitlines() if line.startswith(("to take ", "such a cut: "))]
        assert lines[0].startswith("to take aggressive: cut the ranking of ours yourself by topN 1, includeScore ")
        assert lines[1].startswith("such a cut: of the items that score above 0 the first topN and all that ")
        base = (
            "The base, or default, with which all is compared: "
            "the first 5 that ours ranks. What a selector of yours offers by its own cut is not compared."
        )
        for said in (done.out, next(place.glob("runs/*/report.md")).read_text("utf-8")):
            assert base in " ".join(said.split())


def test_a_command_that_an_agent_file_names_is_told_where_to_cut(cli, shop, policy, place):
    (place / "rank.py").write_text(RANKING)
    (place / "tools.json").write_text(json.dumps([{"name": "amber", "description": "Does amber."}]))
    agent = {"name": "desk", "sources": {"tools": ["tools.json"]}, "selector": {"command": [sys.executable, "rank.py"]}}
    (place / "agent.yaml").write_text(yaml.safe_dump(agent))
    done = cli("tune", shop, "-p", policy(selectors=["agent.yaml"], labels="all"))
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith(("to take ", "to use ", "such a cut: "))]
    assert lines[0].startswith("to take aggressive: cut the ranking of agent yourself by topN 1, includeScore ")
    assert [line.partition(":")[0] for line in lines] == ["to take aggressive", "such a cut"]


def test_a_callable_of_ones_own_is_tuned_as_it_is_in_an_experiment(cli, shop, policy, place):
    (place / "mine.py").write_text(
        "def rank(request, items):\n"
        "    word = request['text'].split()[0]\n"
        "    rows = [{'id': one['_id'], 'score': 2 - place / 20} for place, one in enumerate(items)\n"
        "            if word in one['description']]\n"
        "    return {'items': rows[:1], 'ranking': rows}\n"
    )
    done = cli("tune", shop, "-p", policy(selectors=[FEWER, {"callable": "mine.py:rank"}]), "--json")
    assert done.code == 0, done.err
    assert {one["selector"] for one in done.json["datasets"]["shop"]["contenders"].values()} >= {"semantic"}
    (place / "mine.py").write_text("def rank(request, items):\n    return [one['_id'] for one in items]\n")
    listed = cli("tune", shop, "-p", "ok.yaml", "--out", "other")
    assert listed.code == 0, listed.err
    assert "rank gives no scores" in (place / "other" / "report.md").read_text("utf-8")


def test_parameters_of_a_callable_are_tried_and_its_cuts_swept_for_each(cli, shop, policy, place):
    (place / "mine.py").write_text(
        "def rank(request, items, shift=3):\n"
        "    word = request['text'].split()[0]\n"
        "    named = [n for n, item in enumerate(items) if item['name'] == 'do_' + word][0]\n"
        "    return [items[(named + shift + n) % len(items)]['_id'] for n in range(len(items))]\n"
    )
    searched = {"callable": "mine.py:rank", "search": {"shift": [0, 1, 3]}}
    done = cli("tune", shop, "-p", policy(selectors=[searched]), "--json")
    assert done.code == 0, done.err
    contenders = done.json["datasets"]["shop"]["contenders"].values()
    assert {"shift": 0, "n": 1} in [contender["values"] for contender in contenders]
    done = cli("tune", shop, "-p", "ok.yaml", "--out", "other")
    assert "call rank with shift 0, and cut the ranking of rank yourself by n 1" in " ".join(done.out.split())
    wrong = cli("tune", shop, "-p", policy(selectors=[{**searched, "search": {"shft": [0]}}]))
    assert wrong.code == 2
    assert "unknown parameter of rank 'shft'; did you mean 'shift'" in wrong.err


EMPTY = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "request" in asked:
        print(json.dumps({"query": asked["query"], "items": [], "ranking": []}), flush=True)
"""


@pytest.mark.parametrize("first", [False, True])
def test_a_command_whose_every_answer_is_empty_is_warned_of_beside_what_is_always_offered(
    cli, tiny, policy, place, first
):
    (place / "none.py").write_text(EMPTY)
    ours = {"command": [sys.executable, "none.py"], "name": "ours"}
    selectors = [ours, {"selector": "bm25"}] if first else [{"selector": "bm25"}, ours]
    done = cli("tune", tiny, "-p", policy(selectors=selectors), "--out", "tuned", "--json")
    assert done.code == 0, done.err
    said = "every answer of ours on tiny is empty: nothing is offered for any query"
    assert done.err.splitlines().count(f"warning: {said}") == 1
    assert f"{said[0].upper()}{said[1:]}." in done.json["datasets"]["tiny"]["notes"]
    assert f"{said[0].upper()}{said[1:]}." in (place / "tuned/report.md").read_text()


def test_answers_of_which_every_one_is_empty_are_warned_of_as_by_score(cli, shop, policy, place):
    lines = [json.dumps({"query": f"q{n}", "items": [], "ranking": []}) + "\n" for n in range(120)]
    (place / "mine.jsonl").write_text("".join(lines))
    said = "every answer of mine on shop is empty: nothing is offered for any query"
    done = cli("tune", shop, "-p", policy(selectors=[FEWER, {"answers": "mine.jsonl"}]), "--json")
    assert done.code == 0
    assert done.err.splitlines().count(f"warning: {said}") == 1
    assert f"{said[0].upper()}{said[1:]}." in done.json["datasets"]["shop"]["notes"]
    assert f"warning: {said}" in cli("score", "mine.jsonl", "--dataset", shop, "--tokens", "chars/4").err.splitlines()
    ranking = [{"id": "tool:s:do_amber", "score": 1.0}]
    lines[0] = json.dumps({"query": "q0", "items": [], "ranking": ranking}) + "\n"
    (place / "mine.jsonl").write_text("".join(lines))
    assert "every answer" not in cli("tune", shop, "-p", "ok.yaml").err


def test_without_texts_no_request_stands_in_the_reports(cli, shop, policy, place):
    low = {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.2}]}
    name = policy(policies={"low": low})

    def texts():
        paths = (place / "runs").rglob("*")
        return [path.read_text() for path in paths if path.suffix in (".md", ".html", ".yaml")]

    assert cli("tune", shop, "-p", name).code == 0
    assert any("please" in text for text in texts())
    assert cli("tune", shop, "-p", name, "--no-text").code == 0
    assert any("--no-text" in text for text in texts())
    assert not any("please" in text for text in texts())


@pytest.mark.essential
@pytest.mark.parametrize("split", ["tuning", "test"])
def test_an_experiment_with_a_preset_has_the_figures_of_its_file(cli, shop, policy, place, split):
    selectors = (SEMANTIC, {"selector": "semantic-domains", "search": {"toolsTopN": [1, 2], "rulesTopN": [0]}})
    done = cli("tune", shop, "-p", policy(selectors=selectors, labels="split"), "--out", "made")
    assert done.code == 0, done.err
    written = yaml.safe_load((place / "made/presets/shop.yaml").read_text("utf-8"))["presets"]["aggressive"]
    experiment = {
        "name": "check",
        "datasets": ["shop"],
        "split": split,
        "embedder": "hashing",
        "tokens": "chars/4",
        "selectors": [{"presets": "made/presets/shop.yaml", "preset": "aggressive"}],
        "metrics": ["completeness", "recall", "tokens", "items"],
    }
    (place / "check.yaml").write_text(yaml.safe_dump(experiment))
    ran = cli("run", "check.yaml", "--json")
    assert ran.code == 0, ran.err
    (row,) = ran.json["datasets"]["shop"]["selectors"].values()
    for metric in ("completeness", "recall", "tokens", "items"):
        assert float(f"{row['metrics'][metric]['value']:.6g}") == written[split][metric]["value"], metric
        assert row["metrics"][metric]["n"] == written[split][metric]["n"]


def test_a_request_takes_a_preset(cli, shop, policy):
    cli("tune", shop, "-p", policy(), "--out", "made")
    asked = ("--catalog", shop / "corpus.jsonl", "--embedder", "hashing")
    presets = ("--presets", "made/presets/shop.yaml", "--preset", "aggressive")
    done = cli("select", "amber", *asked, *presets, "--json")
    assert done.code == 0, done.err
    assert "do_amber" in done.out


# ---------------------------------------------------------------------------------------------------------- too little


def test_with_too_few_queries_there_are_no_presets(cli, policy, tiny, place, shop):
    done = cli("tune", tiny, "-p", policy(selectors=[SEMANTIC]), "--out", "made")
    assert done.code == 0, done.err
    assert done.out.startswith("aggressive: keep the default (specification's defaults); label about ")
    assert "since the default is kept under every policy: there is no made/presets/" in " ".join(done.out.split())
    assert not (place / "made/presets").exists()
    assert (place / "made/report.md").exists()


def test_an_older_file_of_presets_goes_only_when_nothing_is_recommended(cli, shop, policy, place):
    cli("tune", shop, "-p", policy(), "--out", "made")
    held = place / "made/presets/shop.yaml"
    before = held.read_bytes()
    broken = policy("broken", policies=constrained({"metric": "precision", "at_least": 2}))
    assert cli("tune", shop, "-p", broken, "--out", "made").code == 2
    assert held.read_bytes() == before
    done = cli("tune", shop, "-p", policy("few", sample=10), "--out", "made")
    assert done.code == 0, done.err
    assert not held.exists()


# ----------------------------------------------------------------------------------------------------------- bad input


def refused(done, *words):
    """One message, nothing on standard output."""
    assert done.code == 2, done.err
    assert done.out == ""
    (said,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    text = " ".join(done.err.split())
    for word in words:
        assert word in text
    return said


@pytest.fixture
def unharmed(snapshot):
    """Run a command that must leave no file behind."""

    def run(cli, *arguments):
        before = snapshot()
        done = cli(*arguments)
        assert snapshot() == before
        return done

    return run


def test_an_unknown_dataset(cli, policy, unharmed):
    refused(unharmed(cli, "tune", "shap", "-p", policy()), "error: unknown dataset 'shap'")


@pytest.mark.parametrize("kept", ["tuning", "test"])
def test_a_missing_split(cli, shop, policy, unharmed, kept):
    (shop / "dataset.yaml").unlink(missing_ok=False)
    lines = [{**json.loads(line), "split": kept} for line in (shop / "queries.jsonl").read_text().splitlines()]
    (shop / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [one for path in sorted((shop / "qrels").glob("*.tsv")) for one in path.read_text().splitlines()[1:]]
    shutil.rmtree(shop / "qrels")
    (shop / "qrels").mkdir()
    titles = "query-id\tcorpus-id\tscore\tvia\talternatives"
    (shop / "qrels" / f"{kept}.tsv").write_text("\n".join([titles, *rows, ""]))
    card = {"format": 1, "name": "shop", "version": "1", **ABOUT}
    (shop / "dataset.yaml").write_text(yaml.safe_dump(card))
    missing = {"tuning": "test", "test": "tuning"}[kept]
    refused(
        unharmed(cli, "tune", shop, "-p", policy(labels="split")),
        f"labels: split, but dataset shop has no labelled query of split {missing}; make the splits with",
    )


def test_a_missing_policy_file(cli, shop, unharmed):
    assert refused(unharmed(cli, "tune", shop, "-p", "none.yaml")).startswith("error: cannot read none.yaml: ")


def test_an_empty_policy_file(cli, shop, place, unharmed):
    (place / "empty.yaml").write_text("")
    refused(unharmed(cli, "tune", shop, "-p", "empty.yaml"), "the file is empty", "(empty.yaml, line 1)")


def test_a_file_of_another_kind(cli, shop, experiment, unharmed):
    done = unharmed(cli, "tune", shop, "-p", experiment())
    refused(done, "small.yaml is an experiment, not a policy file: `ctxbench run ")


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            constrained({"metric": "completeness", "at_least": 0.7}, {"metric": "completeness", "at_most": 0.6}),
            ["completeness <= 0.6 contradicts completeness >= 0.7", "(ok.yaml, line 1"],
        ),
    ],
)
def test_a_policy_that_contradicts_itself(cli, shop, policy, unharmed, policies, words):
    refused(unharmed(cli, "tune", shop, "-p", policy(policies=policies)), *words)


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            constrained({"metric": "precision", "at_least": 0.99}),
            ["keep the default", "no setting reaches precision >= 0.99: the best value is 0."],
        ),
        (
            constrained({"metric": "abstention", "at_least": 0.5}, maximise="completeness"),
            ["keep the default", "abstention applies to none of the"],
        ),
        (
            constrained({"metric": "tokens", "at_most": 1}, maximise="completeness"),
            ["keep the default", "no setting"],
        ),
    ],
)
def test_what_cannot_be_met_or_answered_is_an_outcome_with_its_reason(cli, shop, policy, place, policies, words):
    done = cli("tune", shop, "-p", policy(policies=policies), "--out", "made")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert all(word in said for word in words), said
    assert said.startswith("tight: keep the default"), "advice comes first"
    assert not (place / "made/presets").exists()


def test_rankings_without_scores(cli, shop, policy, place, unharmed):
    ids = [json.loads(line)["_id"] for line in (shop / "corpus.jsonl").read_text().splitlines()]
    rows = [
        {"query": json.loads(line)["_id"], "items": [{"id": ids[0]}], "ranking": [{"id": one} for one in ids[:3]]}
        for line in (shop / "queries.jsonl").read_text().splitlines()
    ]
    (place / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = unharmed(cli, "tune", shop, "-p", policy(selectors=[FEWER, {"answers": "mine.jsonl"}]))
    refused(done, "has an item without `score`", "(ok.yaml, line")


def test_presets_of_another_selector(cli, shop, policy, place):
    cli("tune", shop, "-p", policy(), "--out", "made")
    entry = {"selector": "bm25", "presets": "made/presets/shop.yaml", "preset": "aggressive"}
    experiment = {"name": "other", "datasets": ["shop"], "embedder": "hashing", "selectors": [entry]}
    (place / "other.yaml").write_text(yaml.safe_dump(experiment))
    refused(
        cli("run", "other.yaml"),
        "a presets file of another selector: 'aggressive' of made/presets/shop.yaml was tuned for 'semantic'",
        "(other.yaml, line",
    )


def test_a_file_where_results_go(cli, shop, policy, unharmed):
    name = policy()
    done = unharmed(cli, "tune", shop, "-p", name, "--out", name)
    refused(done, "ok.yaml is a file; a tuning needs a folder, name another one")
    refused(unharmed(cli, "tune", shop, "-p", name, "--out", f"{name}/deep"), "ok.yaml is a file")
    refused(unharmed(cli, "tune", shop, "-p", name, "--markdown", shop), "is a folder, and --markdown names a file")


# ------------------------------------------------------------------------------------------------------------ stopping


@pytest.mark.parametrize(("name", "what"), [("dataset.yaml", "a dataset"), ("manifest.json", "a run")])
def test_results_of_something_else_are_not_overwritten(cli, shop, policy, place, name, what):
    (place / "kept").mkdir()
    (place / "kept" / name).write_text("{}")
    done = cli("tune", shop, "-p", policy(), "--out", "kept")
    assert done.code == 2
    assert f"kept is the folder of {what}" in done.err
    assert [path.name for path in (place / "kept").iterdir()] == [name]


def test_stopping_leaves_nothing_behind(cli, shop, policy, unharmed, monkeypatch):
    def result(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(DatasetTuner, "result", result)
    done = unharmed(cli, "tune", shop, "-p", policy(), "--out", "made")
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == "stopped: nothing is half-written"


def test_progress_is_on_standard_error(cli, shop, policy, monkeypatch):
    from ctxbench.io import console

    monkeypatch.setattr(console, "AFTER", 0.0)
    monkeypatch.setattr(console, "EVERY_FILE", 0.0)
    done = cli("tune", shop, "-p", policy(), "--json")
    assert done.json["name"] == "ok"
    said = done.err.splitlines()
    assert "shop, semantic, ranking; done: 0 of 1" in said
    assert "shop, measuring; done: 0 of 1" in said
