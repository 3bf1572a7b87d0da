"""Snapshots: parts merged, written whole, never over something else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctxbench.catalogs.snapshots import SnapshotPart, capture, read_catalog, refuse_other, write_snapshot
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.items import Item
from tests.planted import GITHUB, STRIPE

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOOL = Item(type="tool", server="git", name="log", description="Shows it.", schema={"type": "object"})
RULE = Item(type="rule", name="tests", text="Write tests.")
GIT = SnapshotPart(name="git", kind="server", items=(TOOL,), details={"transport": "stdio"}, notes=("odd",))
GONE = SnapshotPart(name="gone", kind="server", state="failed", error="it is gone")
RULES = SnapshotPart(name="rules", kind="rules", items=(RULE,))


def test_parts_are_merged_in_the_order_of_their_sources() -> None:
    snapshot = capture(lambda: (GIT, GONE), lambda: [RULES])
    assert snapshot.catalog.ids == ("tool:git:log", "rule:tests")
    assert snapshot.failed == (GONE,)
    assert snapshot.counts() == {"items": 2, "tools": 1, "rules": 1}


def test_a_snapshot_is_a_catalog_and_a_card(tmp_path: Path) -> None:
    snapshot = capture(lambda: (GIT, GONE), lambda: (RULES,))
    card = write_snapshot(snapshot, tmp_path / "kept", when=NOON)
    assert read_catalog(tmp_path / "kept").hash == snapshot.catalog.hash
    assert load_yaml(tmp_path / "kept" / "capture.yaml")[0] == card
    assert card == {
        "format": 1,
        "captured": "2026-03-01T12:00:00Z",
        "catalog": snapshot.catalog.hash,
        "counts": {"items": 2, "tools": 1, "rules": 1},
        "parts": [
            {"name": "git", "kind": "server", "state": "captured", "items": 1, "transport": "stdio", "notes": ["odd"]},
            {"name": "gone", "kind": "server", "state": "failed", "error": "it is gone"},
            {"name": "rules", "kind": "rules", "state": "captured", "items": 1},
        ],
    }


def test_the_same_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b", "b"):
        write_snapshot(capture(lambda: (GIT, RULES)), tmp_path / folder)
    assert (tmp_path / "a" / "corpus.jsonl").read_bytes() == (tmp_path / "b" / "corpus.jsonl").read_bytes()
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["capture.yaml", "corpus.jsonl"]


def test_an_item_from_two_sources_is_a_fault() -> None:
    other = SnapshotPart(name="tools.json", kind="tool list", items=(TOOL,))
    with pytest.raises(InputError, match=r"'tool:git:log' comes from 'git' and from 'tools.json'"):
        capture(lambda: (GIT,), lambda: (other,))


def test_parts_of_one_name_are_told_apart_by_their_folders() -> None:
    one, other = (
        SnapshotPart(name="AGENTS.md", kind="rules", items=(RULE,), origin=folder) for folder in ("a/shop", "b/shop")
    )
    with pytest.raises(
        InputError, match=r"'rule:tests' comes from 'AGENTS.md' in a/shop and from 'AGENTS.md' in b/shop; rename one"
    ):
        capture(lambda: (one,), lambda: (other,))


def test_nothing_at_all_is_a_fault_with_every_reason() -> None:
    off = SnapshotPart(name="off", kind="server", state="disabled")
    with pytest.raises(InputError, match=r"(?s)nothing was captured.*'gone': it is gone.*'off': it is disabled"):
        capture(lambda: (GONE, off))
    with pytest.raises(InputError, match="no server, tool list or folder was named"):
        capture()


def test_what_is_no_snapshot_is_not_replaced(tmp_path: Path) -> None:
    snapshot = capture(lambda: (RULES,))
    (tmp_path / "mine").mkdir()
    write_snapshot(snapshot, tmp_path / "mine")  # an empty folder may be
    (tmp_path / "mine" / "queries.jsonl").write_text("")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "corpus.jsonl").write_text("")
    (tmp_path / "file").write_text("")
    for name, what in (("mine", "it holds queries.jsonl"), ("alone", "is no snapshot"), ("file", "it is a file")):
        with pytest.raises(ParameterError, match=f"{name} would be replaced, but .*{what}"):
            write_snapshot(snapshot, tmp_path / name)
    assert (tmp_path / "mine" / "queries.jsonl").exists()
    refuse_other(tmp_path / "new")


@pytest.mark.parametrize(
    "fields",
    [{"state": "odd"}, {"state": "failed"}, {"error": "x"}, {"state": "disabled", "items": (RULE,)}],
)
def test_a_part_that_contradicts_itself_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        SnapshotPart(name="a", kind="server", **fields)  # type: ignore[arg-type]


LEAKY = SnapshotPart(
    name="rules", kind="rules", lines={"tests": 4}, notes=(f"{GITHUB}.md is odd",),
    items=(Item(type="rule", name="tests", text=f"Use\n{GITHUB}."), Item(type="rule", name="b", text="Plain.")),
)  # fmt: skip


def test_a_key_is_told_with_its_place_and_stays_unless_it_is_to_be_hidden() -> None:
    told = capture(lambda: (LEAKY, GIT))
    advice = "remove them from the source, or hide them with --hide-keys"
    assert told.parts[0].notes == (
        "ghp_….md is odd",
        f"it seems to hold keys; {advice}: tests, line 5 (ghp_…, 40 characters)",
    )
    assert told.parts[1] == GIT
    assert GITHUB in told.catalog[0].text


def test_a_key_that_is_hidden_is_told_too() -> None:
    other = SnapshotPart(name="tools.json", kind="tool list", items=(Item(type="tool", name="x", description=GITHUB),))
    made = capture(lambda: (LEAKY, GIT), lambda: (other,), hide_keys=True)
    assert made.parts[0].notes[1] == "keys in it were hidden: tests, line 5 (ghp_…, 40 characters)"
    assert [made.catalog[0].text, made.catalog[3].description] == ["Use\n<key-1>.", "<key-1>"]
    assert made.parts[1] == GIT


def test_a_key_in_a_name_cannot_be_hidden() -> None:
    named = SnapshotPart(name="t", kind="tool list", items=(Item(type="tool", name=STRIPE, description=GITHUB),))
    with pytest.raises(
        InputError, match="a name contains a key, and names cannot be hidden: tool:sk_l…, its name"
    ) as hit:
        capture(lambda: (named,), hide_keys=True)
    assert STRIPE not in str(hit.value)
    assert STRIPE not in str(capture(lambda: (named,)).parts[0].notes)


def test_of_many_places_the_first_are_listed() -> None:
    items = tuple(Item(type="rule", name=f"r{i}", text=GITHUB) for i in range(25))
    (note,) = capture(lambda: (SnapshotPart(name="rules", kind="rules", items=items),)).parts[0].notes
    assert note.count("characters") == 20
    assert note.endswith(" and 5 more")


def test_the_error_of_a_part_holds_no_key() -> None:
    gone = SnapshotPart(name="gone", kind="server", state="failed", error=f"401 for {GITHUB}")
    assert capture(lambda: (GIT, gone)).parts[1].error == "401 for ghp_…"
