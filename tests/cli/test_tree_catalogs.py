"""Commands over a git repository as their catalog."""

from __future__ import annotations

import pytest

from tests.checkout import Checkout


@pytest.fixture
def repository(place):
    found = Checkout(place / "repo")
    for name, text in {
        "area.py": "def area_of_circle(radius):\n    return 3 * radius * radius\n\n\ndef nothing():\n    pass\n",
        "notes.md": "# Notes\n\nHow triangles are drawn.\n",
        "logo.png": "\0",
    }.items():
        (found.root / name).write_text(text)
    found.commit("Compute areas")
    return found


def select(cli, catalog, *more):
    return cli("select", "area of a circle", "--catalog", catalog, "--selector", "bm25", "--embedder", "hashing", *more)


def test_a_repository_is_searched_and_what_is_left_out_is_told(cli, repository, caplog):
    done = select(cli, "repo", "--json")
    assert done.code == 0
    assert done.json["items"][0]["id"] == "file:area.py"
    assert done.json["not_searched"] == {"include mode manual": 1}  # the commit
    assert "1 path left out: 1 binary (logo.png)" in caplog.text


def test_a_commit_and_its_definitions_are_searched(cli, repository):
    pytest.importorskip("tree_sitter_python")
    (repository.root / "area.py").unlink()
    repository.commit("Drop it", day=2)
    done = select(cli, "repo@HEAD~1:definitions", "--json")
    assert {"file:area.py", "chunk:area.py%3A%3Aarea_of_circle"} <= {item["id"] for item in done.json["items"]}
    assert "area.py" not in select(cli, "repo").out


def test_a_slip_in_a_commit_s_name_is_one_line(cli, repository):
    done = select(cli, "repo@mian")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "no commit 'mian' in repo: expected a branch, a tag or a hash; did you mean 'main'?" in done.err


def test_a_repository_is_asked_with_codebase_unless_another_selector_is_named(cli, repository):
    done = cli("select", "area of a circle", "--catalog", "repo")
    assert done.code == 0
    assert done.out.startswith("codebase: ")
    assert cli("select", "area", "--catalog", "repo@HEAD:files").out.startswith("codebase: ")
    assert cli("select", "area", "--catalog", "repo:definitions").out.startswith("codebase/definitions: ")
    preset = ("--preset", "definitions")
    assert cli("select", "area", "--catalog", "repo:definitions", *preset).out.startswith("codebase/definitions: ")
    assert select(cli, "repo").out.startswith("bm25: ")
    empty = cli("select", "", "--catalog", "repo").out
    assert "not searched: include mode manual: message:commit-" in empty
    assert "nearest that stayed out" not in empty
    (repository.root / "corpus.jsonl").write_text('{"_id": "tool:area", "description": "Of a circle."}\n')
    done = cli("select", "area of a circle", "--catalog", "repo", "--embedder", "hashing")
    assert done.out.startswith("learned: "), "a folder with items is no tree"


def test_a_tree_has_no_other_time_than_its_own(cli, repository):
    for name in ("repo", "repo@HEAD:files"):
        done = cli("select", "area", "--catalog", name, "--time", "2025-06-01")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f"{name} is one tree, whatever the time; name a commit of then: REPO@COMMIT" in done.err


def test_a_slip_in_a_view_behind_a_commit_is_one_of_the_view(cli, repository):
    done = cli("select", "area", "--catalog", "repo@HEAD:definition")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "view must be one of files, definitions, got 'definition'" in done.err


def test_a_slip_in_the_name_is_told_before_what_it_leads_to(cli, repository):
    done = cli("select", "area", "--catalog", "rebo", "--max-files", "2")
    assert "rebo" in done.err
    assert "max_files" not in done.err


def test_as_many_files_are_offered_as_fit_and_the_best_first(cli, repository):
    for name, times in (("large.py", 3000), ("small.py", 1), ("other.py", 1)):
        (repository.root / name).write_text("area of a circle\n" * times)
    names = lambda *more: {  # noqa: E731
        item["id"] for item in cli("select", "area of a circle", "--catalog", "repo", "--json", *more).json["items"]
    }
    one, two = names("--max-files", "1", "--set", "tokens=1000"), names("--max-files", "2", "--set", "tokens=1000")
    assert (len(one), len(two)) == (1, 2), "what does not fit takes no place"
    assert one < two
    assert "file:large.py" not in two


def test_files_are_told_by_path_where_a_person_reads(cli, repository):
    pytest.importorskip("tree_sitter_python")
    (repository.root / "src").mkdir()
    (repository.root / "src" / "area.py").write_text("def area_of_circle(radius):\n    return 1\n")
    done = select(cli, "repo:definitions")
    names = [line.split()[-1] for line in done.out.splitlines() if " tokens  " in line]
    assert {"src/area.py", "src/area.py::area_of_circle"} <= set(names)
    ids = [item["id"] for item in select(cli, "repo:definitions", "--json").json["items"]]
    assert "chunk:src%2Farea.py%3A%3Aarea_of_circle" in ids


def test_a_file_is_added_by_the_path_that_is_told(cli, repository):
    by_path = select(cli, "repo", "--add", "notes.md", "--json").json
    assert by_path == select(cli, "repo", "--add", "file:notes.md", "--json").json
    held = [item["id"] for item in by_path["items"] if item["origin"] == "session"]
    assert held == ["file:notes.md"]
    assert "'file:area.py' is not in the session" in select(cli, "repo", "--remove", "area.py").err
    assert select(cli, "repo", "--add", "nots.md").code == 2


def test_max_files_is_short_for_the_parameter(cli, repository):
    short = cli("select", "area of triangles", "--catalog", "repo", "--max-files", "1", "--json")
    long = cli("select", "area of triangles", "--catalog", "repo", "--set", "max_files=1", "--json")
    assert len(short.json["items"]) == 1
    assert short.json == long.json


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ("--selector", "bm25"),
            "--max-files sets max_files, which selector 'bm25' does not have; name one that has it, as codebase",
        ),
        (("--set", "max_files=2"), "--max-files and --set both give max_files; leave one out"),
        (("--max-files", "301"), "max_files must be 0 to 300, got 301"),
    ],
)
def test_what_max_files_cannot_set_is_one_line(cli, repository, more, said):
    done = cli("select", "area", "--catalog", "repo", "--max-files", "3", *more)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
