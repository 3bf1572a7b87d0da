"""Accepted baselines over commits: figures worked by hand, and what cannot be read is said and goes on."""

from __future__ import annotations

import pytest

from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_rows import MANIFEST
from ctxbench.gate.history import COMPLETENESS, GONE, TOKENS, baseline_of, read_history
from ctxbench.io.errors import InputError, ParameterError, StorageError
from tests.checkout import Checkout
from tests.gate.gate_cases import TOKENS as PRICE, snapshot

NEEDS = {"q1": ["a"], "q2": ["b"]}
TWO = {"q1": ["a"], "q2": ["b", "c"]}  # both complete, three items over two queries
ONE = {"q1": ["a"], "q2": ["c"]}


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "repo")


@pytest.fixture
def folder(checkout):
    return checkout.root / "gate.baseline"


def figures(history):
    return [
        [(one.dataset, one.selector, one.metrics[COMPLETENESS], one.metrics[TOKENS]) for one in at.worth]
        for at in history.accepted
    ]


def test_each_commit_has_the_figures_of_its_baseline(checkout, folder):
    write_baseline(folder, [snapshot(TWO, required=NEEDS)])
    first = checkout.commit("Accept", day=1)
    (checkout.root / "other.txt").write_text("x")
    checkout.commit("Elsewhere", day=2)
    write_baseline(folder, [snapshot(ONE, required=NEEDS), snapshot(TWO, required=NEEDS, selector="t")])
    second = checkout.commit("Accept less", day=3)
    write_baseline(folder, [snapshot(TWO, required=NEEDS, selector="not committed")])
    found = read_history(folder)
    assert [at.commit.hash for at in found.accepted] == [first, second]
    assert figures(found) == [
        [("d", "s", 1.0, 1.5 * PRICE)],
        [("d", "s", 0.5, 1.0 * PRICE), ("d", "t", 1.0, 1.5 * PRICE)],
    ]
    assert found.pairs == (("d", "s"), ("d", "t"))
    assert (found.older, found.shallow) == (False, False)


def test_a_baseline_without_a_metric_lacks_its_figure(checkout, folder):
    made = snapshot(TWO, required=NEEDS)
    write_baseline(folder, [snapshot(TWO, required=NEEDS, metrics={TOKENS: made.metrics[TOKENS]})])
    checkout.commit("Accept")
    (at,) = read_history(folder).accepted
    assert dict(at.worth[0].metrics) == {TOKENS: 1.5 * PRICE}


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(checkout, folder):
    write_baseline(folder, [snapshot(TWO, required=NEEDS)])
    checkout.commit("Accept", day=1)
    head = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(head.replace('"format": 4', '"format": 99'))
    checkout.commit("From the future", day=2)
    (folder / MANIFEST).write_text("<<<<<<< ours\n=======\n>>>>>>> theirs\n")
    checkout.commit("Merge", day=3)
    checkout.run("rm", "-r", "--quiet", "gate.baseline")
    checkout.commit("Drop", day=4)
    write_baseline(folder, [snapshot(ONE, required=NEEDS)])
    checkout.commit("Accept again", day=5)
    found = read_history(folder)
    assert [len(at.worth) for at in found.accepted] == [1, 0, 0, 0, 1]
    first, future, merged, gone, last = (at.fault for at in found.accepted)
    assert (first, gone, last) == ("", GONE, "")
    assert future.startswith("format 99 (of ctxbench 0.1.0), this version of ctxbench reads 4; install the version")
    assert future.endswith(f"({folder / MANIFEST})")  # where it stands for the user, and no temporary folder
    assert "a merge conflict" in merged
    assert "accept again" not in future


def test_damage_beside_the_head_is_one_fault_with_a_count(checkout, folder):
    write_baseline(folder, [snapshot(TWO, required=NEEDS)])
    checkout.commit("Accept", day=1)
    for path in folder.glob("d/*.jsonl"):
        path.write_text("{\n")
    checkout.commit("Damage", day=2)
    _, at = read_history(folder).accepted
    assert at.worth == ()
    assert at.fault.endswith("; 2 more")
    assert "bring it back" not in at.fault


def test_the_limit_keeps_the_newest(checkout, folder):
    for day, offered in enumerate((TWO, ONE, TWO), start=1):
        write_baseline(folder, [snapshot(offered, required=NEEDS)])
        checkout.commit(f"Accept {day}", day=day)
    told = []
    found = read_history(folder, limit=2, notify=lambda text, done, total: told.append((text, done, total)))
    assert [at.commit.message for at in found.accepted] == ["Accept 2", "Accept 3"]
    assert found.older
    assert told == [("reading baselines", 0, 2), ("reading baselines", 1, 2)]
    assert not read_history(folder, limit=3).older
    with pytest.raises(ParameterError, match="the limit must be 1 commit or more, got 0"):
        read_history(folder, limit=0)


def test_a_baseline_is_found_by_its_gate_file(checkout, folder):
    gate = checkout.root / "gate.yaml"
    gate.write_text("datasets: [x]\nselectors: [bm25]\nbaseline: accepted/here\n")
    assert baseline_of(gate) == checkout.root / "accepted/here"
    assert baseline_of(folder) == folder
    with pytest.raises(StorageError, match=r"cannot read .*other\.yaml"):
        baseline_of(checkout.root / "other.yaml")
    gate.write_text("nme: x\n")
    with pytest.raises(InputError, match="did you mean 'name'"):
        baseline_of(gate)


def test_where_there_is_no_history_the_error_says_why(checkout, folder, tmp_path):
    for _ in range(2):  # without any commit, and with one that has no baseline
        with pytest.raises(
            StorageError, match=r"no commit has a baseline in .*; make it with `ctxbench check --accept`"
        ):
            read_history(folder)
        folder.mkdir(exist_ok=True)
        (folder / ".gitattributes").write_text("* -text\n")
        checkout.commit("Begin")
        (folder / ".gitattributes").unlink()
    outside = tmp_path / "outside.baseline"
    with pytest.raises(StorageError, match=r"is not in a git repository; commit the baseline"):
        read_history(outside)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text("{}")
    with pytest.raises(ParameterError, match="is the folder of a run, no baseline; expected a gate file"):
        read_history(tmp_path / "run")
