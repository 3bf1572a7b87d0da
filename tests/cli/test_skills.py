"""Skills from a folder to a table: imported with their trigger evals, run, selected, and at what price."""

from __future__ import annotations

import json

from ctxbench.search.tokens import open_counter

BODY = "Open the file. " * 40


def skills(place):
    for name, about, asked in (
        ("pdf", "Read and merge PDF files", "merge these PDF files"),
        ("mail", "Write mails", "write a mail"),
        ("slides", "Make slides", "make some slides"),
    ):
        folder = place / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {about}\n---\n{BODY}")
        entries = [{"query": asked, "should_trigger": True, "split": "test"}]
        (folder / "trigger_eval.json").write_text(json.dumps(entries))


def test_skills_are_measured_at_both_their_prices(place, cli):
    skills(place)
    done = cli("data", "import", "triggers", "skills", "--out", "ds", "--name", "skills")
    assert (done.code, "ds: 3 requests (test 3), 3 labels" in done.out) == (0, True), done.err
    (place / "e.yaml").write_text(
        "name: e\ndatasets: [ds]\nembedder: hashing\ntokens: chars/4\nsplit: test\n"
        "metrics: [completeness, tokens, loaded_tokens]\nselectors:\n  - {selector: bm25, set: {n: 1}}\n"
    )
    assert (done := cli("run", "e.yaml")).code == 0, done.err
    rows = [json.loads(line) for line in next((place / "runs/e").rglob("metrics.jsonl")).read_text().splitlines()]
    body = (len(BODY.strip()) + 3) // 4
    for row in rows:
        assert row["values"]["completeness"] == 1
        assert row["values"]["loaded_tokens"] == row["values"]["tokens"] + body
        assert row["values"]["tokens"] < 10
    asked = ("select", "merge these PDF files", "--catalog", "ds", "--selector", "bm25")
    done, body = cli(*asked), int(open_counter("o200k").count([""], [BODY.strip()])[0])
    assert f"loads {body} tokens more where the model asks for it" in done.out
    assert json.loads(cli(*asked, "--json").out)["items"][0]["loads"] == body


def test_without_skills_nothing_is_loaded(place, cli, experiment):
    path = experiment()
    path.write_text(path.read_text() + "metrics: [tokens, loaded_tokens]\n")
    assert (done := cli("run", path)).code == 0, done.err
    for file in (place / "runs/small").rglob("metrics.jsonl"):
        for row in map(json.loads, file.read_text().splitlines()):
            assert row["values"]["tokens"] == row["values"]["loaded_tokens"]
