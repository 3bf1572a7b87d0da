"""Accepted selections, each time in a process of its own, as a team runs it."""

from __future__ import annotations

import pytest

from ctxbench.io.yaml_files import load_yaml
from tests.pytest_plugin.plugin_cases import EDITED, ROWS, SECTION, put, text_of

ACCEPTED = """
def test_refunds(assert_offers):
    assert_offers.as_accepted("refund an order")

def test_wiki(assert_offers):
    assert_offers.as_accepted("pages of the wiki")
"""


@pytest.fixture(scope="module")
def written():
    """What the file holds: written by the first test that wants it, alike for all."""
    return []


@pytest.fixture
def accepted(team, written):
    """The team's tests and their accepted file."""
    team.write(test_desk=ACCEPTED)
    path = team.path / "test_desk.accepted.yaml"
    if not written:
        done = team.pytest("--ctxbench-accept")
        done.assert_outcomes(passed=2)
        assert "accepted in test_desk.accepted.yaml: 2 new, 0 changed, 0 removed, 0 as before" in text_of(done)
        written.append(path.read_bytes())
    path.write_bytes(written[0])
    return path


def test_what_was_accepted_passes_and_is_written_alike(team, accepted):
    before = accepted.read_bytes()
    done = team.pytest()
    done.assert_outcomes(passed=2)
    assert SECTION not in text_of(done)
    assert "0 new, 0 changed, 0 removed, 2 as before" in text_of(team.pytest("--ctxbench-accept"))
    assert accepted.read_bytes() == before
    data, _ = load_yaml(accepted)
    assert [(row["test"], row["of"], row["text"]) for row in data["accepted"]] == [
        ("test_refunds", "two on catalog.jsonl", "refund an order"),
        ("test_wiki", "two on catalog.jsonl", "pages of the wiki"),
    ]
    assert list(data["accepted"][0]["offered"]) == ["rule:style", "rule:refunds", "tool:orders:get"]
    assert data["accepted"][0]["offered"]["rule:style"] is None


def test_nothing_accepted_yet_fails_and_says_how(team):
    team.write(test_desk=ACCEPTED)
    done = team.pytest("-k", "wiki")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        [
            "E       AssertionError: nothing was accepted yet: two on catalog.jsonl, asked “pages of the wiki”",
            "E         If this is right: pytest --ctxbench-accept writes it to test_desk.accepted.yaml; read the diff.",
        ]
    )
    assert not (team.path / "test_desk.accepted.yaml").exists()


def test_a_change_is_explained_until_it_is_accepted_and_only_that_is_rewritten(team, accepted):
    before = accepted.read_text().splitlines()
    put(team, EDITED)
    done = team.pytest()
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines(
        [
            "E       AssertionError: not as accepted: two on catalog.jsonl, asked “refund an order”",
            "E         went out (accepted with *): tool:orders:get",
            "E             rank 3 of 5 found, *",
            "E         came in: tool:mail:send",
            "E             rank 2 of 5 found, *",
            "E         Accepted is what stands in test_desk.accepted.yaml. If the change is meant: *",
        ]
    )
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(passed=2)
    assert "0 new, 1 changed, 0 removed, 1 as before" in text_of(done)
    after = accepted.read_text().splitlines()
    assert after != before
    assert after[after.index("- test: test_wiki") :] == before[before.index("- test: test_wiki") :]  # the same bytes
    team.pytest().assert_outcomes(passed=2)


def test_an_item_that_is_gone_is_named(team, accepted):
    put(team, ROWS[1:])
    done = team.pytest("-k", "refunds")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        ["E *went out (accepted with *): rule:refunds", "E *the catalog has no such item any more"]
    )


def test_what_no_test_asks_for_any_more_is_reported_and_removed_on_request(team, accepted):
    edited = ACCEPTED.replace("pages of the wiki", "wiki").replace("def test_refunds", "def test_other")
    team.write(test_desk=edited)
    said = "test_desk.accepted.yaml holds what no test asks for any more: test_refunds “refund an order”; pytest --*"
    team.pytest().stdout.fnmatch_lines([said])  # test_wiki failed, so its old text may yet be asked for
    before = accepted.read_text()
    assert "any more" not in text_of(team.pytest("test_desk.py::test_other"))  # others are not looked at
    assert accepted.read_text() == before
    done = team.pytest("--ctxbench-accept")
    assert "2 new, 0 changed, 2 removed, 0 as before" in text_of(done)
    (team.path / "test_desk.py").write_text("def test_nothing(): pass\n")
    assert "0 new, 0 changed, 2 removed, 0 as before" in text_of(team.pytest("--ctxbench-accept"))
    assert not accepted.exists()  # nothing is left to hold


def test_items_that_are_tied_change_places_without_a_word(team):
    tied = [{"_id": f"tool:{server}:undo", "description": "Take it back"} for server in ("a", "b", "c")]
    put(team, tied)
    team.write(test_desk="def test_undo(assert_offers): assert_offers.as_accepted('take it back')")
    team.pytest("--ctxbench-accept").assert_outcomes(passed=1)
    before = (team.path / "test_desk.accepted.yaml").read_bytes()
    put(team, tied[::-1])  # ties are in catalog order: b and c are the first two now
    team.pytest().assert_outcomes(passed=1)
    assert "0 new, 0 changed, 0 removed, 1 as before" in text_of(team.pytest("--ctxbench-accept"))
    assert (team.path / "test_desk.accepted.yaml").read_bytes() == before


def test_collecting_alone_writes_nothing(team, accepted):
    before = accepted.read_bytes()
    (team.path / "test_desk.py").write_text("def test_nothing(): pass\n")
    assert SECTION not in text_of(team.pytest("--collect-only", "--ctxbench-accept"))
    assert accepted.read_bytes() == before


def test_accepting_some_tests_keeps_the_others(team, accepted):
    put(team, EDITED)
    before = accepted.read_text()
    done = team.pytest("--ctxbench-accept", "-k", "wiki")
    assert "0 new, 0 changed, 0 removed, 2 as before" in text_of(done)
    assert accepted.read_text() == before


def test_a_test_that_fails_is_not_accepted_by_half(team, accepted):
    before = accepted.read_text()
    edited = f"""
import pytest
{ACCEPTED}
    assert False

def test_new(assert_offers):
    assert_offers.as_accepted("mail")
    assert_offers.as_accepted("pages")

def test_skipped(assert_offers):
    assert_offers.as_accepted("mail")
    pytest.skip("not today")

@pytest.fixture
def breaks():
    yield
    raise ValueError

def test_at_its_end(assert_offers, breaks):
    assert_offers.as_accepted("mail")
"""
    team.write(test_desk=edited)
    put(team, EDITED)
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(passed=3, failed=1, skipped=1, errors=1)
    done.stdout.fnmatch_lines(
        [
            "accepted in test_desk.accepted.yaml: 2 new, 1 changed, 0 removed, 1 as before",
            "not accepted, as the tests did not pass: test_wiki, test_skipped, test_at_its_end",
        ]
    )
    tests = [row["test"] for row in load_yaml(accepted)[0]["accepted"]]
    assert tests == ["test_new", "test_new", "test_refunds", "test_wiki"]
    wiki = before[before.index("- test: test_wiki") :]
    assert accepted.read_text().endswith(wiki)  # as it was


def test_the_file_of_a_module_that_is_gone_goes_with_it(team, accepted):
    (team.path / "test_desk.py").rename(team.path / "test_counter.py")
    foreign = team.path / "desk.accepted.yaml"
    foreign.write_text("of: another tool\n")
    gone = "test_desk.accepted.yaml is of a test module that is gone; "
    assert f"{gone}pytest --ctxbench-accept removes it" in text_of(team.pytest())
    assert "gone" not in text_of(team.pytest("test_counter.py::test_wiki", "--ctxbench-accept"))
    assert accepted.exists()
    assert f"{gone}removed" in text_of(team.pytest("--ctxbench-accept"))
    assert sorted(path.name for path in team.path.glob("*.accepted.yaml")) == [
        "desk.accepted.yaml",
        "test_counter.accepted.yaml",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rule:refunds:", "rule:gone:", ["went out (accepted with *): rule:gone", "came in: rule:refunds"]),
        ("    rule:style: null\n", "", ["came in: rule:style"]),
    ],
)
def test_ids_that_are_edited_by_hand_fail(team, accepted, old, new, said):
    accepted.write_text(accepted.read_text().replace(old, new, 1))
    done = team.pytest("-k", "refunds")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines([f"E *{line}" for line in said])


def test_order_and_scores_stand_there_to_be_read(team, accepted):
    before = accepted.read_text()
    score = next(line for line in before.splitlines() if "rule:refunds:" in line)
    accepted.write_text(
        before.replace(f"    rule:style: null\n{score}\n", "    rule:refunds: 0.1\n    rule:style: null\n")
    )
    assert accepted.read_text() != before
    team.pytest().assert_outcomes(passed=2)
    assert "0 new, 1 changed, 0 removed, 1 as before" in text_of(team.pytest("--ctxbench-accept"))
    offered = load_yaml(accepted)[0]["accepted"][0]["offered"]
    assert list(offered) == ["rule:style", "rule:refunds", "tool:orders:get"]
    assert f"    rule:refunds: {offered['rule:refunds']}" == score


def test_a_file_that_cannot_be_written_fails_the_run(team):
    team.write(test_desk=ACCEPTED)
    (team.path / "test_desk.accepted.yaml").symlink_to("/proc/1/none/file")
    done = team.pytest("--ctxbench-accept")
    done.stdout.fnmatch_lines(["error: cannot write *test_desk.accepted.yaml: *"])
    assert done.ret == 1
    assert "Traceback" not in text_of(done)


def test_a_damaged_file_is_an_error_that_says_where_and_is_left_alone(team, accepted):
    accepted.write_text(f"<<<<<<< ours\n{accepted.read_text()}=======\n>>>>>>> theirs\n")
    before = accepted.read_bytes()
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(failed=2)
    said = "a merge stopped here and left both sides in the file; keep one*, line 1)"
    done.stdout.fnmatch_lines(["E       *errors.InputError: 2 faults", f"E  *{said}", "error: *", f" *{said}"])
    assert accepted.read_bytes() == before


def test_worker_processes_hand_their_records_to_the_one_that_writes(team):
    pytest.importorskip("xdist")
    team.write(test_desk=ACCEPTED, test_again=ACCEPTED)
    alone = text_of(team.pytest("--ctxbench-accept"))
    files = {path.name: path.read_bytes() for path in team.path.glob("*.accepted.yaml")}
    for path in team.path.glob("*.accepted.yaml"):
        path.unlink()
    spread = team.pytest("--ctxbench-accept", "-p", "xdist", "-n", "2")
    spread.assert_outcomes(passed=4)
    assert {path.name: path.read_bytes() for path in team.path.glob("*.accepted.yaml")} == files
    line = "accepted in test_desk.accepted.yaml: 2 new, 0 changed, 0 removed, 0 as before"
    assert line in alone
    assert line in text_of(spread)
    (team.path / "test_again.py").write_text("def test_nothing(): pass\n")
    assert "no test asks for any more" in text_of(team.pytest("-p", "xdist", "-n", "2"))


def test_what_passed_in_a_worker_process_that_crashed_is_kept(team):
    pytest.importorskip("xdist")
    crash = "\ndef test_zzz():\n    import os\n    os._exit(3)\n"
    team.write(test_desk=ACCEPTED + crash)
    done = team.pytest("--ctxbench-accept", "-p", "xdist", "-n", "1", "--max-worker-restart=0")
    done.assert_outcomes(passed=2, failed=1)
    assert "2 new, 0 changed, 0 removed, 0 as before" in text_of(done)
    again = team.pytest("--ctxbench-accept", "-p", "xdist", "-n", "1", "--max-worker-restart=0")
    assert "0 new, 0 changed, 0 removed, 2 as before" in text_of(again)
