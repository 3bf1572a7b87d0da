"""`ctxbench check` after someone has edited a catalog by hand, in a frozen dataset whose card counts its items."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml

from ctxbench.datasets.files import read_dataset

NEEDED = "reference:guides%2Fon%20call"  # by q08, which is offered it


@pytest.fixture
def edited(cli, place, tiny):
    """An accepted gate; call it to take an item out of the catalog, or to give it other fields."""
    shutil.copytree(tiny, place / "data")
    card = yaml.safe_load((place / "data/dataset.yaml").read_text())
    assert card["counts"]["items"] == 12
    (place / "data/dataset.yaml").write_text(yaml.safe_dump(card | {"frozen": read_dataset(tiny).hash}))
    told = {"datasets": ["data"], "selectors": [{"selector": "bm25", "set": {"n": 3}}], "embedder": "hashing"}
    (place / "gate.yaml").write_text(yaml.safe_dump({"name": "tiny", "tokens": "chars/4", **told}))
    done = cli("check", "--accept")
    assert done.code == 0, done.err

    def edit(item, **fields):
        path = place / "data/corpus.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [{**row, **fields} if row["_id"] == item else row for row in rows if fields or row["_id"] != item]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return edit


def flat(text):
    return " ".join(text.split())


@pytest.mark.essential
@pytest.mark.parametrize(
    ("fields", "why", "fix"),
    [({}, "no longer in the catalog", "restore"), ({"enabled": False}, "disabled", "enable")],
    ids=["taken out", "disabled"],
)
def test_a_required_item_that_is_taken_away_is_judged(cli, edited, place, fields, why, fix):
    edited(NEEDED, **fields)
    done = cli("check", "--output-format", "json", "--markdown", "s.md", "--junit", "j.xml")
    assert done.code == 1  # one query of eight: by no metric told apart, and one may be lost, but it is a fact
    (one,) = done.json["selectors"]
    assert (one["lost"], one["gained"], one["allowed"]) == (1, 0, 1)
    (gone,) = one["unmet"]
    assert (gone["items"], gone["why"], gone["queries"]) == ([NEEDED], why, ["q08"])
    said = cli("check", "--output-format", "github").out
    text = flat(said)
    assert f"{NEEDED} ({why}): required by 1 query (q08); no accepted alternative" in text
    assert f"item gone: {why} ({NEEDED})" in text
    assert f"fix: {fix} {NEEDED}" in text
    assert f"item gone: {why}" in (place / "s.md").read_text()
    assert f"required item gone: {NEEDED}" in (place / "j.xml").read_text()
    (error,) = [line for line in said.splitlines() if line.startswith("::error")]
    where = "corpus.jsonl,line=" if fields else "qrels/test.tsv,line="
    assert where in error
    assert "title=required item gone from tiny::" in error
    allowed = cli("check", "--allow-removed")
    assert allowed.code == 0
    assert f"({why}; q08); allowed by --allow-removed" in flat(cli("check", "--allow-removed", "--verbose").out)
    assert cli("check", "--allow-removed", "--strict").code == 1
    told = yaml.safe_load((place / "gate.yaml").read_text())
    (place / "gate.yaml").write_text(yaml.safe_dump({**told, "gate": {"max_lost_required": 0}}))
    done = cli("check", "--verbose")
    assert done.code == 1
    assert "1 more required item lost than gained, 0 allowed" in flat(done.out)
    done = cli("check", "--accept")
    assert (done.code, done.out) == (2, "")
    assert f"'{NEEDED}'" in done.err
    assert "remove what names it with `ctxbench data rebase`" in done.err


def test_labels_may_be_dropped_with_the_item_but_not_misspelt(cli, edited, place, tiny):
    edited(NEEDED)
    labels = place / "data/qrels/test.tsv"
    right = labels.read_text()
    labels.write_text(right.replace("q07\ttool:weather:get_forecast\t", "q07\ttool:weather:get_forcast\t"))
    done = cli("check", "--allow-removed")
    assert (done.code, done.out) == (2, "")
    assert "label of 'tool:weather:get_forcast' for query 'q07' names item" in done.err
    assert "did you mean 'tool:weather:get_forecast'" in done.err
    assert "data/qrels/test.tsv, line 5" in done.err
    done = cli("data", "rebase", tiny, "--catalog", "data/corpus.jsonl", "--out", "carried")
    assert done.code == 0, done.err
    shutil.rmtree(place / "data")
    (place / "carried").rename(place / "data")
    done = cli("check", "--output-format", "json")
    assert done.code == 1, done.err
    (one,) = done.json["selectors"]
    assert (one["compared"], one["lost"]) == (10, 1)
    assert cli("check", "--accept").code == 0
    assert cli("check", "--output-format", "json").json["selectors"][0]["compared"] == 9
    assert cli("check").code == 0


def test_a_required_item_that_is_taken_out_of_every_scope_is_judged(cli, edited, place):
    card = place / "data/dataset.yaml"
    told = yaml.safe_load(card.read_text())
    told["scopes"]["support"].remove(NEEDED)
    card.write_text(yaml.safe_dump(told))
    done = cli("check", "--output-format", "json")
    assert done.code == 1, done.err
    (one,) = done.json["selectors"]
    assert (one["compared"], one["left_out"]) == (10, {})
    assert [(gone["items"], gone["why"]) for gone in one["unmet"]] == [([NEEDED], "no longer in any scope")]
    assert cli("check", "--allow-removed").code == 0
    done = cli("check", "--accept")
    assert done.code == 2
    assert "which is not available to it; no selector can offer it" in done.err


def test_an_item_that_is_sent_with_every_request_is_no_saving(cli, edited):
    edited("reference:release%20calendar", include="always", text="The release calendar. " * 200)
    done = cli("check", "--output-format", "json", "--strict")
    assert done.code == 1, done.err  # ten queries are too few to tell
    (one,) = done.json["selectors"]
    verdicts = {judged["metric"]: judged["verdict"] for judged in one["metrics"]}
    assert (verdicts["tokens"], verdicts["total_tokens"]) == ("same", "inconclusive")
    assert one["causes"][0]["subjects"] == ["reference:release%20calendar"]
    assert one["causes"][0]["detail"] == "include agent -> always, text edited"


def test_items_that_became_dearer_are_told_with_their_lines_everywhere(cli, edited, place):
    """Every tool gets a schema of some 1,200 letters, which no search looks at."""
    rows = [json.loads(line) for line in (place / "data/corpus.jsonl").read_text().splitlines()]
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(40)}}
    for row in rows:
        if row["type"] == "tool":
            edited(row["_id"], schema=schema)
    done = cli("check", "--output-format", "json", "--markdown", "s.md", "--strict")
    assert done.code == 1, done.err
    (one,) = done.json["selectors"]
    (cause,) = one["causes"]
    assert (one["changes"], cause["cause"], cause["file"]) == ([], "item costs more tokens", "data/corpus.jsonl")
    lines = {row["_id"]: line for line, row in enumerate(rows, 1)}
    found = {price["item"]: price["line"] for price in one["token_changes"]}
    assert found == {item: lines[item] for item in cause["subjects"]}
    first = one["token_changes"][0]
    assert cause["line"] == first["line"]
    assert (first["why"], first["tokens"]) == ("schema edited", (first["head"] - first["base"]) * len(first["queries"]))
    (total,) = [metric for metric in one["metrics"] if metric["metric"] == "total_tokens"]
    values = [sum(row["values"]["total_tokens"] for row in answers(place)), total["head"]["value"] * 10]
    assert cause["tokens"] == values[1] - values[0]
    told = cli("check", "--output-format", "github").out
    assert f"{cause['file']}:{cause['line']}" in told
    assert f"{cause['file']}:{cause['line']}" in (place / "s.md").read_text().replace("&#8203;", "")
    dearer = [line for line in told.splitlines() if "title=item costs more tokens on tiny" in line]
    assert [f"file=data/corpus.jsonl,line={found[item]}," in line for item, line in zip(found, dearer, strict=True)]


def answers(place):
    return [json.loads(line) for line in (place / "gate.baseline/tiny/bm25.jsonl").read_text().splitlines()]


def test_no_p_value_stands_in_any_output_for_a_selector_that_answers_alike(cli, edited, place):
    edited(NEEDED, description="Ice cream.", text="Ice cream.")
    done = cli("check", "--output-format", "github", "--markdown", "s.md", "--junit", "j.xml")
    told = [done.out, (place / "s.md").read_text(), (place / "j.xml").read_text()]
    for text in told:
        assert "tolerated" in text or "tolerance" in text
        assert not re.search(r"\bp\b(?! is)", re.sub(r"<[^>]*>|`[^`]*`", "", text)), text
    (one,) = cli("check", "--output-format", "json").json["selectors"]
    assert {judged["comparison"]["p"] for judged in one["metrics"]} == {None}
    assert {judged["comparison"]["p_holm"] for judged in one["metrics"]} == {None}
