"""The dataset `threads` is what its sources give, and faults in them are told all at once."""

from __future__ import annotations

import shutil
import subprocess

import make_threads
import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.io.errors import InputError


@pytest.fixture(autouse=True)
def _history():
    """The commit that the files are taken from; a shallow clone has none."""
    commit = ["git", "-C", str(make_threads.ROOT), "cat-file", "-e", f"{make_threads.COMMIT}^{{commit}}"]
    if subprocess.run(commit, check=False, capture_output=True, timeout=60).returncode:
        pytest.skip(f"commit {make_threads.COMMIT} is not in this clone")


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder with one thread that is right, and the notes."""
    folder = tmp_path / "written"
    shutil.copytree(make_threads.WRITTEN / "notes", folder / "notes")
    for name in ("card.yaml", "t01.yaml"):
        shutil.copy(make_threads.WRITTEN / name, folder / name)
    monkeypatch.setattr(make_threads, "WRITTEN", folder)
    return folder


def test_what_ships_is_what_its_sources_give():
    assert make_threads.made().hash == read_dataset(make_threads.THREADS).hash


@pytest.mark.parametrize(
    ("path", "size", "there"),
    [
        ("ctxbench/core/items.py", 16_418, True),
        ("ctxbench/core/__init__.py", 0, False),
        ("ctxbench/tuning/sweep/threshold_sums.py", 10_900, True),
        ("ctxbench/tuning/sweep/threshold_sums.py", 10_901, False),
        ("ctxbench/report/pages.py", 5_000, False),
        ("Makefile", 8_680, True),
        ("CHANGELOG.md", 66_385, False),
        ("reports/ablations-tables.md", 2_000, False),
        ("datasets/freight/dataset.yaml", 15_630, False),
        ("tests/fixtures/desk/README.md", 10_136, False),
    ],
)
def test_which_files_are_taken_is_a_rule(path, size, there):
    assert make_threads.in_corpus(path, size) == there


def test_one_thread_is_a_dataset(written):
    dataset = make_threads.made()
    assert [query.id for query in dataset.queries] == [f"t01-{number}" for number in range(1, 8)]
    assert [item.name for item in dataset.catalog if item.type == "message"][:2] == ["t01-1a", "t01-1b"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("That takes as long as", "That takes so long as", "t01-1: file:ctxbench%2Fstores%2Fsqlite.py does not hold"),
        (
            "access: [ctxbench/stores/sqlite.py]",
            "access: [ctxbench/lost.py]",
            "t01-2: ctxbench/lost.py is referred to",
        ),
        ("2026-11-28T09:40:00Z", "2026-11-28T09:21:30Z", "t01-3: a turn is more than a minute after the one before"),
        ("message: t01-2b", "message: t01-6b", "t01-5: message:t01-6b is not there, or not to be seen then"),
        (
            "item: notes/mira/store",
            "item: notes/tess/store",
            "t01-4: file:notes%2Ftess%2Fstore-timings.md is not there",
        ),
        ("tags: [nothing]", "tags: [vague]", "t01-6: a request with the tag `nothing`, and no other,"),
        ("tags: [nothing]", "tag: [nothing]", "t01-6: tag: not a field, or missing"),
        ("user: mira", "user: mia", "a thread is thread, user, about, turns"),
    ],
)
def test_a_fault_says_where_it_is(written, old, new, said):
    path = written / "t01.yaml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(InputError) as error:
        make_threads.made()
    assert said in str(error.value)
    assert "t01.yaml" in str(error.value)


def test_all_faults_are_told_at_once(written):
    path = written / "t01.yaml"
    text = path.read_text("utf-8").replace("That takes as long", "It takes as long")
    path.write_text(text.replace("access: [ctxbench", "access: [lost/ctxbench"), "utf-8")
    (written / "notes" / "mira" / "undated.md").write_text("No date.\n", "utf-8")
    with pytest.raises(InputError) as error:
        make_threads.made()
    told = {fault.message.split(":")[0] for fault in error.value.faults}
    assert {"t01-1", "t01-2", "t01-4"} <= told
    assert any("begins with a line such as" in fault.message for fault in error.value.faults)
