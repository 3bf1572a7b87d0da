"""`ctxbench data rebase` of a dataset over an agent: what is new, what a lost label may follow, and the ways back."""

from __future__ import annotations

import json
import shutil
import subprocess
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
    assert "new items: 2\n  tool:track_parcels\n  tool:zebra\n" in done.out
    title = "items gone with labels, and likely successors (to follow: put the lines into --renames FILE): 1"
    assert f"{title}\n  {LINE}    # similar name\n" in done.out
    assert "queries that may be offered a new, unlabelled item: 3 of 3" in done.out
    found = rebase(cli, "--json").json["items"]
    assert found["likely"] == [{"old": "tool:track_parcel", "new": "tool:track_parcels", "how": "similar name"}]


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
        "warning: 1 label lost with 1 item that may be renamed; to keep them, restore the folder (`git restore`), and "
        f"rebase with --renames FILE with these lines:\n  {LINE}\n"
    )
    assert yaml.safe_load(Path("evals/dataset.yaml").read_text())["dropped"] == {"tool:track_parcel": 1}
    assert "new items" not in rebase(cli).out
    late = rebase(cli, "--renames", "renames.yaml")
    assert late.code == 2
    assert "the dataset no longer has 'tool:track_parcel': an earlier `ctxbench data rebase` removed its" in late.err
    assert "`git restore`, or delete it and import again" in late.err
    shutil.rmtree("evals")
    shutil.copytree("before", "evals")
    done = rebase(cli, "--renames", "renames.yaml", "--in-place")
    assert (done.code, done.err) == (0, "")
    assert "evals.jsonl may have old ids: rename them there, too, before another import\n" in done.out
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
    assert done.out.startswith("new items are unknown: evals has no items.txt, which --in-place writes\n")
    assert f"  {LINE}    # similar name\n" in done.out
    assert rebase(cli, "--renames", "renames.yaml", "--in-place").code == 0
    assert Path("evals/items.txt").read_text() == "tool:pay\ntool:track_parcels\ntool:zebra\n"


def test_edited_evals_in_place_of_followed_renames_are_refused_with_the_whole_way(imported, cli):
    assert rebase(cli, "--renames", "renames.yaml", "--in-place").code == 0
    done = cli(*imported)
    assert "'track_parcel' in 'expected' is not in the catalog" in done.err
    renamed = "tool:track_parcel is tool:track_parcels now"
    assert f"evals follows renamed items; write their new ids in the evals, too: {renamed} (evals.jsonl)" in done.err
    write_evals({"where is it": ["track_parcels"], "pay it": ["pay"]})
    done = cli(*imported)
    assert done.code == 2
    assert "(tool:track_parcel is tool:track_parcels now; `renames` in its card), which would be lost" in done.err
    assert "write the new ids into the file that you import, delete evals, and import again" in done.err
    shutil.rmtree("evals")
    assert cli(*imported).code == 0


def test_renames_that_cannot_be_proposed_over_an_agent_drop_no_label(imported, cli):
    before = {path: path.read_bytes() for path in Path("evals").rglob("*") if path.is_file()}
    done = rebase(cli, "--in-place", "--accept-renames")
    assert done.code == 2
    assert "renames of items of an agent cannot be proposed for evals; name them with --renames FILE" in done.err
    assert {path: path.read_bytes() for path in Path("evals").rglob("*") if path.is_file()} == before
    assert rebase(cli, "--in-place", "--renames", "renames.yaml").code == 0


RULES = {
    "refunds": ("Refunds of deposits", "A deposit goes back within fourteen days. Larger payments need signatures."),
    "tone": ("How to write", "Be brief and kind."),
}


class TestSplit:
    """A rule that requests require becomes two: whoever looks after the labels is told which requests to review."""

    @pytest.fixture(params=[False, True])
    def split(self, request, cli, place):
        """Split a rule, under its own name or another; the dataset is committed, or there is no repository."""
        self.write(**RULES)
        (place / "agent.yaml").write_text(yaml.safe_dump({"name": "shop", "sources": {"rules": "."}}))
        ids = {name: f"rule:.cursor%2Frules%2F{name}.mdc" for name in ("refunds", "tone", "early", "late")}
        asked = {"my deposit": [ids["refunds"]], "signatures": [ids["refunds"], ids["tone"]], "hi": [ids["tone"]]}
        write_evals(asked)
        made = cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals")
        assert made.code == 0
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Label")
        first = "early" if request.param else "refunds"
        if request.param:
            Path(".cursor/rules/refunds.mdc").unlink()
        about, text = RULES["refunds"]
        one, other = text.split(". ")
        self.write(**{first: (about, f"{one}."), "late": ("Large payments", other)})
        Path("renames.yaml").write_text(f"{ids['refunds']}: {ids['early']}\n")
        self.options = ("--renames", "renames.yaml") if request.param else ()
        return ids[first], ids["late"]

    def write(self, **rules):
        for name, (about, text) in rules.items():
            path = Path(".cursor/rules") / f"{name}.mdc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"---\ndescription: {about}\nalwaysApply: false\n---\n{text}\n")

    def git(self, *words):
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], check=True, capture_output=True, timeout=60)

    def listed(self, cli):
        found = rebase(cli, *self.options, "--json").json["queries"]["split"]
        return [(one["query"], one["item"], one["other"]) for one in found], {one["share"] for one in found}

    def test_the_requests_whose_label_followed_one_part_are_listed(self, split, cli):
        queries, (share,) = self.listed(cli)
        assert queries == [("q0", *split), ("q1", *split)]
        assert share > 0.5
        assert "a required item may be split" in rebase(cli, *self.options).out

    def test_without_git_new_rules_beside_a_renamed_one_are(self, split, cli):
        shutil.rmtree(".git")
        queries, shares = self.listed(cli)
        assert (queries, shares) == (([("q0", *split), ("q1", *split)], {None}) if self.options else ([], set()))

    def test_a_new_rule_of_other_words_is_no_part(self, split, cli):
        self.write(late=("Opening hours", "Closed on Sundays and public holidays."))
        assert self.listed(cli) == ([], set())
