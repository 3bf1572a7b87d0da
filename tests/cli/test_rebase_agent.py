"""`ctxbench data rebase` of a dataset over an agent: what is new, what a lost label may follow, and the ways back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

TOOLS = ("track_parcel", "pay")
ASKED = {"where is my parcel": ["track_parcel"], "pay it": ["pay"], "bye": []}
LINE = "tool:track_parcel: tool:track_parcels"


def give(*names):
    """What the agent has."""
    tools = [{"name": name, "description": f"Use {name}.", "inputSchema": {"type": "object"}} for name in names]
    Path("tools.json").write_text(json.dumps(tools))


def write_evals(asked):
    rows = [json.dumps({"id": f"q{n}", "query": text, "expected": asked[text]}) for n, text in enumerate(asked)]
    Path("evals.jsonl").write_text("\n".join(rows))


@pytest.fixture
def imported(cli, place):
    """Import the evals of an agent, whose tool is renamed then, and that has a new one."""
    (place / "agent.yaml").write_text(yaml.safe_dump({"name": "shop", "sources": {"tools": "tools.json"}}))
    give(*TOOLS)
    write_evals(ASKED)
    again = ("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals")
    assert cli(*again).code == 0
    give("track_parcels", "pay", "zebra")
    (place / "renames.yaml").write_text(f"{LINE}\n")
    return again


def rebase(cli, *options):
    return cli("data", "rebase", "evals", *options)


def test_what_is_new_and_what_a_lost_label_may_follow_is_listed(imported, cli):
    assert Path("evals/items.txt").read_text() == "tool:pay\ntool:track_parcel\n"
    done = rebase(cli)
    assert (done.code, done.err) == (0, "")
    assert "items new: 2\n  tool:track_parcels\n  tool:zebra\n" in done.out
    title = "labels are lost with these, which may go on as (to follow: put the lines into --renames FILE): 1"
    assert f"{title}\n  {LINE}    # much the same name\n" in done.out
    assert "queries for which an item is new and unlabelled: 3 of 3" in done.out
    found = rebase(cli, "--json").json["items"]
    assert found["likely"] == [{"old": "tool:track_parcel", "new": "tool:track_parcels", "how": "much the same name"}]


def test_an_unlabelled_item_that_is_gone_is_listed(imported, cli):
    write_evals({"pay it": ["pay"]})
    give(*TOOLS)
    assert cli(*imported).code == 0
    give("pay")
    assert rebase(cli, "--json").json["items"]["gone"] == ["tool:track_parcel"]


def test_before_labels_are_dropped_it_is_said_and_a_rename_that_comes_too_late_says_the_way_back(imported, cli):
    shutil.copytree("evals", "before")
    done = rebase(cli, "--in-place")
    assert done.code == 0
    assert done.err == (
        "warning: 1 label is dropped with 1 item that may go on under another id; to keep them, bring the folder back "
        f"(`git restore`), and rebase with --renames FILE, which holds:\n  {LINE}\n"
    )
    assert yaml.safe_load(Path("evals/dataset.yaml").read_text())["dropped"] == {"tool:track_parcel": 1}
    assert "items new" not in rebase(cli).out
    late = rebase(cli, "--renames", "renames.yaml")
    assert late.code == 2
    assert (
        "the dataset holds no 'tool:track_parcel' any more: an earlier `ctxbench data rebase` dropped its" in late.err
    )
    assert "`git restore`, or delete it and import again" in late.err
    shutil.rmtree("evals")
    shutil.copytree("before", "evals")
    done = rebase(cli, "--renames", "renames.yaml", "--in-place")
    assert (done.code, done.err) == (0, "")
    assert "evals.jsonl may have the old ids: rename them there, too, before you import again\n" in done.out
    assert "dropped" not in yaml.safe_load(Path("evals/dataset.yaml").read_text())
    give(*TOOLS)  # it is back
    assert rebase(cli, "--in-place").code == 0


def test_an_item_that_is_there_again_is_dropped_no_more(imported, cli):
    assert rebase(cli, "--in-place").code == 0
    give(*TOOLS)
    assert rebase(cli, "--in-place").code == 0
    assert "dropped" not in yaml.safe_load(Path("evals/dataset.yaml").read_text())


def test_a_dataset_that_does_not_say_what_the_agent_had_is_rebased_by_names(imported, cli):
    Path("evals/items.txt").unlink()
    done = rebase(cli)
    assert done.out.startswith(
        "which items are new is not known: evals has no items.txt yet, which --in-place writes\n"
    )
    assert f"  {LINE}    # much the same name\n" in done.out
    assert rebase(cli, "--renames", "renames.yaml", "--in-place").code == 0
    assert Path("evals/items.txt").read_text() == "tool:pay\ntool:track_parcels\ntool:zebra\n"


def test_edited_evals_in_place_of_followed_renames_are_refused_with_the_whole_way(imported, cli):
    assert rebase(cli, "--renames", "renames.yaml", "--in-place").code == 0
    done = cli(*imported)
    assert "'track_parcel' in 'expected' is no item of the catalog" in done.err
    renamed = "tool:track_parcel is tool:track_parcels now"
    assert f"evals follows renamed items; write their new ids in the evals, too: {renamed} (evals.jsonl)" in done.err
    write_evals({"where is it": ["track_parcels"], "pay it": ["pay"]})
    done = cli(*imported)
    assert done.code == 2
    assert "(tool:track_parcel is tool:track_parcels now; `renames` in its card), which would be lost" in done.err
    assert "write the new ids where it still has the old ones, delete evals, and import again" in done.err
    shutil.rmtree("evals")
    assert cli(*imported).code == 0


def test_renames_that_cannot_be_proposed_over_an_agent_drop_no_label(imported, cli):
    before = {path: path.read_bytes() for path in Path("evals").rglob("*") if path.is_file()}
    done = rebase(cli, "--in-place", "--accept-renames")
    assert done.code == 2
    assert "only the ids are known, so that no renames can be proposed; name them with --renames FILE" in done.err
    assert {path: path.read_bytes() for path in Path("evals").rglob("*") if path.is_file()} == before
    assert rebase(cli, "--in-place", "--renames", "renames.yaml").code == 0
