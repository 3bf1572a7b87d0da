"""`ctxbench data overlap`: what is printed, and what it says where it cannot."""

from __future__ import annotations

import json

import pytest

from ctxbench.cli.run import overlap_lines, show_overlap
from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.labelling.overlap import Overlap

ROWS = [
    {
        "_id": "tool:s:fetch_a",
        "description": "Read the ledger of a client. Slow, and only for accounts of the old book.",
    },
    {"_id": "tool:s:ledger", "description": "Read the ledger of a client."},
    {"_id": "tool:s:ledgers"},
    {"_id": "rule:Ledgers", "text": "Ask first.", "include": "manual"},
]


@pytest.fixture
def catalog(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return path


def shown(catalog, **given):
    defaults = {"embedder": "hashing", "threshold": None, "list_all": False, "as_json": False}
    show_overlap(str(catalog), **{**defaults, **given})


def test_pairs_and_names_are_listed_with_what_was_searched_for(catalog, capsys):
    shown(catalog)
    assert capsys.readouterr().out == (
        "3 tools: 63 prompt tokens; 1 that no search finds (disabled, or by hand only) are left out\n"
        "searched for with the first sentence of its description, 1 of 2 is found first among their type, "
        "2 among the first 5\n"
        "1 has no description to search for: tool:s:ledgers\n"
        "\n"
        "pairs that read alike (similarity 0.85 or more) or are taken for one another: 1 (1 taken), sorted by "
        "how far the wrong item leads\n"
        "\n"
        "  tool:s:fetch_a  tool:s:ledger  (similarity 0.640)\n"
        "    tool:s:ledger comes before tool:s:fetch_a in a search for\n"
        "      Read the ledger of a client\n"
        "      similarity to the search: wrong item 0.95, right item 0.70\n"
        "    no word added to a name tells them apart: say in the descriptions what only one of them does\n"
        "\n"
        "names that are hard to tell apart: 1\n"
        "  tool:s:ledger  tool:s:ledgers  (one name goes on where the other ends)\n"
    )


def test_of_a_pair_that_is_told_apart_that_is_said(tmp_path, capsys):
    path = tmp_path / "corpus.jsonl"
    rows = [{"_id": f"tool:{name}", "description": f"Refund {name} of a paid order."} for name in ("all", "half")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    shown(path, threshold=0.5)
    out = capsys.readouterr().out
    assert ": 1 (0 taken), sorted by how far the wrong item leads" in out
    assert out.endswith("    a search for either finds that item before the other\n")


def test_where_nothing_reads_alike_the_nearest_pairs_are_named(tmp_path, capsys):
    path = tmp_path / "corpus.jsonl"
    texts = {"tool:refund": "Refund a paid order.", "tool:cancel": "Cancel a paid order.", "tool:rain": "Will it rain?"}
    rows = [{"_id": name, "description": text} for name, text in texts.items()]
    rows.append({"_id": "rule:refund", "description": "Refund a paid order."})  # no rival of a tool
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    shown(path)
    said = capsys.readouterr().out.split("and none is taken for another\n")[1].splitlines()
    assert said[0] == "nearest to it:"
    assert said[1].split("(")[0].split() == ["tool:refund", "tool:cancel"]
    assert len(said) == 2


def test_json_holds_everything(catalog, capsys):
    shown(catalog, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["asked"], found["first"], found["items"]) == (2, 1, {"tool": 3})
    assert found["pairs"][0]["items"] == ["tool:s:fetch_a", "tool:s:ledger"]
    assert found["names"] == [{"why": "suffix", "items": ["tool:s:ledger", "tool:s:ledgers"]}]


def test_long_lists_are_cut_unless_all_is_asked_for(tmp_path, capsys):
    path = tmp_path / "corpus.jsonl"
    rows = [{"_id": f"tool:s{n}:put", "description": "Store a row."} for n in range(13)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    shown(path)
    assert "  68 more (--all)" in capsys.readouterr().out
    shown(path, list_all=True)
    out = capsys.readouterr().out
    assert "more (--all)" not in out
    assert out.count("merged into one, as put: ") == 78


def test_nothing_alike_is_said(tmp_path, capsys):
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps(ROWS[1]) + "\n", "utf-8")
    shown(path)
    assert (
        "no two items read alike (similarity 0.85 or more), and none is taken for another\n" in capsys.readouterr().out
    )


def test_a_pair_just_below_the_threshold_never_looks_as_if_it_reached_it():
    nearest = (("tool:s:a", "tool:s:b", 0.8499), ("tool:s:c", "tool:s:d", 0.7))
    counts = dict.fromkeys(("left_out", "asked", "first", "among", "tokens", "tried"), 0)
    none = dict.fromkeys(("mute", "pairs", "names"), ())
    lines = overlap_lines(
        Overlap(**counts, **none, items={"tool": 4}, nearest=nearest, counter="o200k", threshold=0.85)
    )
    assert lines[-3:] == [
        "nearest to it:",
        "  tool:s:a  tool:s:b  (similarity 0.849, just below)",
        "  tool:s:c  tool:s:d  (similarity 0.700)",
    ]


def test_what_cannot_be_read_or_is_out_of_range_is_one_error(tmp_path, catalog):
    with pytest.raises(StorageError, match="no catalog"):
        shown(tmp_path / "none")
    with pytest.raises(ParameterError, match="threshold of similarity must be above 0"):
        shown(catalog, threshold=3.0)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="empty"):
        shown(tmp_path / "empty.jsonl")


def test_initials_do_not_end_the_sentence_that_is_searched_for(tmp_path, capsys):
    path = tmp_path / "corpus.jsonl"
    rows = [
        {"_id": "tool:a", "description": "Get the name of the U.S. president of a year. Fast."},
        {"_id": "tool:b", "description": "Name of the U.S. president of a year, for any year."},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    shown(path, threshold=0.1, as_json=True)
    asked = {one["item"]: one["text"] for one in json.loads(capsys.readouterr().out)["pairs"][0]["asked"]}
    assert asked["tool:a"] == "Get the name of the U.S. president of a year"
    assert asked["tool:b"] == "Name of the U.S. president of a year, for any year."
