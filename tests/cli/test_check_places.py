"""Where `ctxbench check` says that items of an agent were edited, renamed or went out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.cli.check import find_places
from ctxbench.gate.gate import check_gate
from tests.checkout import Checkout

RULE = "---\ndescription: How refunds are made\n---\n# Refunds\n\nFinance approves.\nThe customer is told.\n"
SKILL = "---\nname: vouchers\ndescription: How vouchers are written\n---\nLook up the voucher.\n\nStamp it.\n"
RULE_FILE, SKILL_FILE = ".cursor/rules/refunds.mdc", ".claude/skills/vouchers/SKILL.md"
RULE_ID, SKILL_ID = "rule:.cursor%2Frules%2Frefunds.mdc", "skill:vouchers"
EVALS = [
    {"id": "q1", "query": "how are refunds made", "expected": [RULE_ID]},
    {"id": "q2", "query": "how are vouchers written", "expected": [SKILL_ID]},
]
AGENT = "sources: {tools: tools.json, rules: .}\ninclude: {otherwise: agent}\nselector: bm25\n"


@pytest.fixture
def project(place, cli):
    """An agent with a rule, a skill and eight tools, and a gate over its evals."""
    for path, text in ((RULE_FILE, RULE), (SKILL_FILE, SKILL), ("agent.yaml", AGENT)):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    tools = [{"name": f"tool_{n}", "description": f"Does number {n}"} for n in range(8)]
    (place / "tools.json").write_text(json.dumps(tools))
    (place / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in EVALS))
    done = cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals")
    assert done.code == 0, done.err
    (place / "gate.yaml").write_text("datasets: [evals]\nselectors: [agent.yaml]\nembedder: hashing\n")
    return place


@pytest.fixture
def accepted(project, cli):
    assert cli("check", "gate.yaml", "--accept").code == 0
    return project


def place_of(item: str) -> tuple[str, int]:
    return find_places(check_gate(Path("gate.yaml"))).item("evals", item)


@pytest.mark.parametrize(
    ("file", "was", "now", "item", "line"),
    [
        (RULE_FILE, "Finance approves.", "Nobody approves.", RULE_ID, 6),
        (RULE_FILE, "Finance approves.\nThe customer is told.\n", "Finance approves.\n", RULE_ID, 6),
        (RULE_FILE, "# Refunds\n", "# Refunds\n\n", RULE_ID, 6),
        (RULE_FILE, "How refunds are", "How refunds get", RULE_ID, 2),
        (SKILL_FILE, "Stamp it.", "Sign it.", SKILL_ID, 7),
        (SKILL_FILE, "name: vouchers", "name: coupons", "skill:coupons", 2),
        (SKILL_FILE, "How vouchers are", "How vouchers get", SKILL_ID, 3),
    ],
)
def test_an_edit_is_at_the_first_line_that_differs(accepted, file, was, now, item, line):
    assert was in (accepted / file).read_text()
    (accepted / file).write_text((accepted / file).read_text().replace(was, now))
    assert place_of(item) == (file, line)


def test_a_renamed_skill_is_told_at_its_name(accepted, cli):
    (accepted / SKILL_FILE).write_text(SKILL.replace("name: vouchers", "name: coupons for customers of all kinds"))
    (one,) = cli("check", "gate.yaml", "--output-format", "json").json["selectors"]
    assert {(cause["file"], cause["line"]) for cause in one["causes"]} == {(SKILL_FILE, 2)}


@pytest.mark.parametrize(("file", "item"), [(RULE_FILE, RULE_ID), (SKILL_FILE, SKILL_ID)])
def test_what_is_gone_is_at_the_file_that_it_was_in(accepted, cli, file, item):
    (accepted / file).unlink()
    assert place_of(item) == (file, 0)
    done = cli("check", "gate.yaml")
    assert f"{file}, file is gone: CTX112 item gone" in " ".join(done.out.split())
    (accepted / file).write_text("---\ndescription: no text\n---\n")  # which makes no item
    done = cli("check", "gate.yaml")
    assert f"- {file}: CTX112 item gone" in " ".join(done.out.split())


def test_many_items_that_no_cause_names_are_where_most_of_them_were(accepted):
    tools = json.loads((accepted / "tools.json").read_text())
    (accepted / "tools.json").write_text(json.dumps(tools[:2]))
    (accepted / RULE_FILE).write_text(RULE.replace("Finance", "Nobody"))
    assert place_of("") == ("tools.json", 0)


def test_new_items_that_no_cause_names_are_where_they_came(accepted):
    (accepted / ".cursor/rules/parcels.mdc").write_text(RULE.replace("efunds", "arcels"))
    assert place_of("") == (".cursor/rules/parcels.mdc", 4)


def test_without_texts_the_former_file_is_that_of_the_commit_of_the_baseline(project, cli):
    checkout = Checkout(project)
    assert cli("check", "gate.yaml", "--accept", "--no-text").code == 0
    path = project / RULE_FILE
    path.write_text(RULE.replace("The customer is", "The customers are"))
    assert place_of(RULE_ID) == (RULE_FILE, 4)  # nothing is committed
    path.write_text(RULE)
    checkout.commit("Accept", day=1)
    path.write_text(RULE.replace("The customer is", "The customers are"))
    assert place_of(RULE_ID) == (RULE_FILE, 7)


@pytest.mark.parametrize(
    ("include", "line"),
    [
        ('{\n  tools: {"tool:store:tool_3": manual},\n  otherwise: agent}', 3),
        ("\n  servers: {store: manual}\n  otherwise: agent", 3),
        ("\n  servers: {}\n\n  otherwise: always", 5),
    ],
)
def test_a_mode_is_at_the_line_of_the_agent_file_that_sets_it(project, cli, include, line):
    tools = [{"name": f"tool_{n}", "description": f"Does number {n}", "server": "store"} for n in range(8)]
    (project / "tools.json").write_text(json.dumps(tools))
    assert cli("check", "gate.yaml", "--accept").code == 0
    (project / "agent.yaml").write_text(AGENT.replace(" {otherwise: agent}", f" {include}"))
    assert place_of("tool:store:tool_3") == ("agent.yaml", line)
    tools[3]["description"] = "Does another number"
    (project / "tools.json").write_text(json.dumps(tools))
    assert place_of("tool:store:tool_3") == ("tools.json", 0)  # its own text was edited as well


def test_the_mode_of_a_rule_is_at_the_line_of_the_rule(accepted):
    (accepted / RULE_FILE).write_text(RULE.replace("---\n#", "alwaysApply: true\n---\n#"))
    assert place_of(RULE_ID) == (RULE_FILE, 3)
