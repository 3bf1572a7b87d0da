"""Which definitions of a tree the commits before it link to, however far their lines have moved since."""

from __future__ import annotations

import subprocess

import pytest

from ctxbench.catalogs.git_history import GitRepository, LineHunk, line_hunks
from ctxbench.catalogs.git_trees import definition_lines, items_of_tree
from ctxbench.labelling.git_history import HistorySettings, history_dataset
from tests.checkout import written

BEGUN = '''\
import os


def f():
    one = 1
    return one


class C:
    """Doc."""

    def m(self):
        a = 1
        b = 2
        return a + b

    def n(self):
        return 3
'''
TWO = BEGUN.replace("one = 1", "one = 2")
MOVED = TWO.replace("import os\n", "import os\nimport sys\nfrom a import b\n")
SHORTER = MOVED.replace("        b = 2\n", "")
HISTORY = (
    ("Begin", {"a.py": BEGUN}),
    ("Change f", {"a.py": TWO}),
    ("Import more", {"a.py": MOVED}),
    ("Take a line out of m", {"a.py": SHORTER}),
    ("Rename it and change its n", {"a.py": None, "src/b.py": SHORTER.replace("3", "4")}),
    ("Change n again", {"src/b.py": SHORTER.replace("3", "5"), "c.py": "def z():\n    return 1\n"}),
)
LINKS = [
    {"src/b.py", "src/b.py::f", "src/b.py::C", "src/b.py::C.m", "src/b.py::C.n"},
    {"src/b.py", "src/b.py::f"},
    {"src/b.py"},
    {"src/b.py", "src/b.py::C.m"},
    {"src/b.py", "src/b.py::C.n"},
    {"src/b.py", "src/b.py::C.n", "c.py", "c.py::z"},
]


@pytest.fixture
def checkout(tmp_path):
    return written(tmp_path / "repo", HISTORY)


def links(items):
    return [{link.item.name for link in item.links} for item in items if item.type == "message"]


def test_each_line_belongs_to_the_innermost_definition():
    assert definition_lines("a.py", "import os\n\nclass C:\n    x = 1\n\n    def m(self):\n        pass\n\ny()\n") == [
        "", "", "C", "C", "C", "C.m", "C.m", "", "", "",
    ]  # fmt: skip
    assert definition_lines("a.txt", "one\ntwo\n") == []


def test_commits_link_to_the_definitions_whose_lines_they_changed(checkout):
    for commit in (checkout.run("rev-parse", "HEAD"), None):
        assert links(items_of_tree(GitRepository(checkout.root), commit, view="definitions").items) == LINKS


def test_attributes_hide_no_changes(checkout):
    (checkout.root / ".gitattributes").write_text("*.py binary -diff\n")
    assert links(items_of_tree(GitRepository(checkout.root), view="definitions").items) == LINKS


def test_a_partial_clone_links_commits_to_files_and_what_they_added(checkout, tmp_path):
    checkout.run("config", "uploadpack.allowFilter", "true")
    source = f"file://{checkout.root}"
    checkout.run("clone", "--quiet", "--filter=blob:none", source, str(tmp_path / "clone"))
    found = links(items_of_tree(GitRepository(tmp_path / "clone"), view="definitions").items)
    assert found == [set(), set(), set(), set(), {"src/b.py"}, {"src/b.py", "c.py", "c.py::z"}]


def test_lines_that_nobody_committed_move_nothing(checkout):
    place = checkout.root / "src" / "b.py"
    place.write_text("# on top\n" * 9 + place.read_text().replace("def f", "def of_mine():\n    pass\n\n\ndef f"))
    found = items_of_tree(GitRepository(checkout.root), view="definitions").items
    assert links(found) == LINKS
    assert "src/b.py::of_mine" in {item.name for item in found}


def test_the_newest_commits_of_a_definition_are_those_that_git_tells(checkout):
    items = items_of_tree(GitRepository(checkout.root), checkout.run("rev-parse", "HEAD"), view="definitions").items
    text = (checkout.root / "src" / "b.py").read_text().split("\n")
    for name, first, last in (("f", "def f", "return one"), ("C.m", "def m", "return a"), ("C.n", "def n", "return 5")):
        span = [next(at for at, line in enumerate(text, 1) if one in line) for one in (first, last)]
        words = ["log", f"-L{span[0]},{span[1]}:src/b.py", "--format=%s", "--no-patch"]
        wanted = subprocess.run(
            ["git", *words], cwd=checkout.root, check=True, capture_output=True, text=True, timeout=60
        ).stdout.split("\n")[:-1]
        found = [
            item.text
            for item in reversed(items)
            if item.type == "message" and f"src/b.py::{name}" in {link.item.name for link in item.links}
        ]
        assert found == wanted


def test_a_tree_and_a_dataset_link_alike(checkout):
    repository = GitRepository(checkout.root)
    settings = HistorySettings(view="definitions")
    dataset, _ = history_dataset(repository, settings, notify=lambda *_: None)
    batch = dataset.batch()
    for row, query in enumerate(dataset.queries):
        visible = [item for item, seen in zip(dataset.catalog, batch.visible.row(row), strict=True) if seen]
        tree = items_of_tree(repository, repository.resolve(f"{query.id}~1"), view="definitions").items
        assert {(item.title, item.text) for item in visible} == {(item.title, item.text) for item in tree}
    last = [{name.partition("@")[0] for name in one} for one in links(visible)]
    first_names = [{name.replace("src/b.py", "a.py") for name in one} for one in LINKS[:4]]
    assert last == [*first_names, LINKS[4]]


def test_changed_lines_are_kept_and_asked_for_once(checkout, monkeypatch):
    repository = GitRepository(checkout.root)
    line = repository.first_parents(repository.resolve(), 9)
    found = line_hunks(repository, line)
    second = line[1].changes[0]
    assert found[second.old_blob, second.new_blob] == [LineHunk(5, 1, 5, 1)]
    third = line[2].changes[0]
    assert found[third.old_blob, third.new_blob] == [LineHunk(1, 0, 2, 2)]
    asked = []
    monkeypatch.setattr(GitRepository, "hunks", lambda _, commits: asked.append(list(commits)) or iter(()))
    assert line_hunks(repository, line) == found
    assert not asked
    monkeypatch.setenv("CTXBENCH_CACHE", str(checkout.root / "other"))
    assert line_hunks(repository, line) == {}
    assert [one.sha for one in asked[0]] == [one.sha for one in line if one.parents and one.changes]


def test_a_folder_that_was_asked_first_hides_no_lines_of_others(tmp_path):
    made = written(
        tmp_path / "two",
        (
            ("Begin", {"a.py": "def f():\n    return 1\n", "sub/s.py": "def s():\n    return 1\n"}),
            ("Let f return two", {"a.py": "def f():\n    return 2\n"}),
        ),
    )
    items_of_tree(GitRepository(made.root / "sub"), made.run("rev-parse", "HEAD"), view="definitions")
    found = items_of_tree(GitRepository(made.root), made.run("rev-parse", "HEAD"), view="definitions").items
    assert links(found)[1] == {"a.py", "a.py::f"}


def test_lines_that_went_from_the_top_are_no_definition_s(tmp_path):
    body = "def f():\n    return 1\n"
    made = written(
        tmp_path / "top",
        (
            ("Begin", {"a.py": f"import os\nimport re\n\n\n{body}"}),
            ("Import another", {"a.py": f"import os\nimport sys\n\n\n{body}"}),
            ("Import nothing", {"a.py": body}),
        ),
    )
    found = links(items_of_tree(GitRepository(made.root), made.run("rev-parse", "HEAD"), view="definitions").items)
    assert found[1:] == [{"a.py"}, {"a.py"}]
