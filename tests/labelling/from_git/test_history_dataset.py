"""Datasets of small repositories: what each query asks, sees and needs."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ctxbench.catalogs.git_history import GitRepository
from ctxbench.datasets.files import read_dataset, validate, write_dataset
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.git_history import CommitRules, HistorySettings, history_dataset
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Batch
from tests.checkout import Checkout, written

HISTORY = (
    ("Begin", {"src/a.py": "def f():\n    return 1\n", "src/b.py": "B = 1\n", "README.md": "# x\n"}),
    ("Let f return two (#1)", {"src/a.py": "def f():\n    return 2\n", "README.md": "# x 2\n"}),
    ("Tell more", {"README.md": "# x 3\n"}),
    ("Drop b.py and add c", {"src/b.py": None, "src/c.py": "C = 1\n"}),
    ("Bump version to 2", {"src/a.py": "def f():\n    return 3\n"}),
    ("Let f return two again", {"src/a.py": "def f():\n    return 2\n", "tests/test_a.py": "1\n"}),
    ("Move c", {"src/c.py": None, "src/d.py": "C = 1\n"}),
)


@pytest.fixture
def checkout(tmp_path):
    return written(tmp_path / "repo", HISTORY)


def made(checkout, **settings):
    notify = lambda *_: None  # noqa: E731
    return history_dataset(GitRepository(checkout.root), HistorySettings(**settings), notify=notify)[0]


def of_folder(root):
    """What `made` asks of a checkout, of another folder."""
    return SimpleNamespace(root=root)


def day(n, clock="10:00:00"):
    return f"2026-01-{n:02d}T{clock}+00:00"


def version(path, content):
    text = f"{path}\n\n{content}"
    return f"{path}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def labels_of(dataset, number):
    return {(label.item.name, label.grade) for label in dataset.labels_of(dataset.queries[number].id)}


def seen_by(dataset, number):
    """The names of all items that a query sees."""
    visible = dataset.batch().visible.row(number)
    return [item.name for item, there in zip(dataset.catalog, visible, strict=True) if there]


TWO, THREE = "def f():\n    return 2\n", "def f():\n    return 3\n"


def test_queries_are_the_messages_one_second_before(checkout):
    dataset = made(checkout)
    assert [(query.request.text, query.request.time) for query in dataset.queries] == [
        ("Let f return two", day(2, "09:59:59")),
        ("Drop b.py and add c", day(4, "09:59:59")),
        ("Let f return two again", day(6, "09:59:59")),
        ("Move c", day(7, "09:59:59")),
    ]
    assert dataset.queries[0].id == checkout.run("rev-parse", "HEAD~5")[:12]
    assert [query.tags for query in dataset.queries] == [
        ("python",), ("names a file", "python"), ("tests", "python"),
        ("names nothing", "python"),  # a letter is no word
    ]  # fmt: skip
    assert [query.split for query in dataset.queries] == ["tuning", "tuning", "test", "test"]


NESTED = "class Parser:\n    def read_all(self):\n        return 1\n\n    def close(self):\n        pass\n"


@pytest.mark.parametrize(
    ("message", "files", "tags"),
    [
        ("Tidy up", {"src/parser.py": NESTED.replace("        return 1\n\n", "\n")}, {"deletes only", "names nothing"}),
        ("Remove the parser", {"src/parser.py": None}, {"deletes only"}),
        ("Remove the parser", {"src/parser.py": None, "README.md": "# y\n"}, {"deletes only"}),
        ("Remove the parser", {"src/parser.py": None, "src/reader.py": "1\n"}, set()),
        ("Reading fails", {"src/parser.py": NESTED.replace("1", "2")}, set()),  # of `read_all`, around the line
        ("Return early", {"src/parser.py": NESTED.replace("1", "2")}, set()),
        ("Tidy `ReadAll`", {"src/parser.py": NESTED.replace("1", "2")}, set()),
        ("Close twice", {"src/parser.py": NESTED.replace("1", "2")}, {"names nothing"}),
        ("Close twice", {"src/parser.py": NESTED.replace("1", "2"), "tests/close.py": "1\n"}, set()),
        ("Tell of tests", {"src/parser.py": NESTED.replace("1", "2"), "docs/tests.md": "1\n"}, {"names nothing"}),
    ],
)
def test_tags_of_changes_that_a_message_hardly_describes(tmp_path, message, files, tags):
    checkout = written(
        tmp_path / "repo", (("Begin", {"src/parser.py": NESTED, "README.md": "# x\n"}), (message, files))
    )
    for view in ("files", "definitions"):
        (query,) = made(checkout, view=view).queries
        assert set(query.tags) & {"deletes only", "names nothing"} == tags


def test_labels_are_what_the_tree_before_holds(checkout):
    dataset = made(checkout)
    first = "def f():\n    return 1\n"
    assert labels_of(dataset, 0) == {(version("src/a.py", first), 2), (version("README.md", "# x\n"), 1)}
    assert labels_of(dataset, 1) == {(version("src/b.py", "B = 1\n"), 2)}
    assert labels_of(dataset, 2) == {(version("src/a.py", THREE), 2)}
    assert labels_of(dataset, 3) == {(version("src/c.py", "C = 1\n"), 2)}


def test_each_query_sees_the_tree_before_and_the_commits_before(checkout):
    dataset = made(checkout)
    shas = [f"commit-{checkout.run('rev-parse', f'HEAD~{n}')[:12]}" for n in range(6, -1, -1)]
    assert set(seen_by(dataset, 0)) == {
        *shas[:1], version("src/a.py", HISTORY[0][1]["src/a.py"]), version("src/b.py", "B = 1\n"),
        version("README.md", "# x\n"),
    }  # fmt: skip
    assert set(seen_by(dataset, 3)) == {
        *shas[:6], f"{version('src/a.py', TWO)}.2", version("src/c.py", "C = 1\n"), version("README.md", "# x 3\n"),
        version("tests/test_a.py", "1\n"),
    }  # fmt: skip


def test_items_say_when_they_began_and_ended(checkout):
    items = {item.name: item for item in made(checkout).catalog}
    two = items[version("src/a.py", TWO)]
    assert (two.type, two.title, two.kind) == ("file", "src/a.py", "python")
    assert (two.text, two.created, two.until) == (f"src/a.py\n\n{TWO}", day(2), day(5))
    three, again = items[version("src/a.py", THREE)], items[f"{two.name}.2"]
    assert (three.created, three.until, again.created, again.until) == (day(5), day(6), day(6), None)
    begun = items[version("src/b.py", "B = 1\n")]
    assert (begun.created, begun.until) == (day(1), day(4))
    assert version("README.md", "# x 2\n") not in items  # no query saw it
    assert version("src/d.py", "C = 1\n") not in items


def test_commits_link_to_what_the_next_query_sees(checkout):
    catalog = made(checkout).catalog
    commits = [item for item in catalog if item.type == "message"]
    assert [item.text for item in commits] == [
        "Begin", "Let f return two", "Tell more", "Drop b.py and add c", "Bump version to 2", "Let f return two again",
    ]  # fmt: skip
    assert {(item.kind, item.include) for item in commits} == {("commit", "manual")}
    assert [item.created for item in commits] == [day(n) for n in range(1, 7)]
    links = [{link.item.name for link in item.links} for item in commits]
    readme = version("README.md", "# x 3\n")  # of two commits between two queries
    assert links == [
        {version("src/a.py", HISTORY[0][1]["src/a.py"]), version("src/b.py", "B = 1\n"), version("README.md", "# x\n")},
        {version("src/a.py", TWO), readme},
        {readme},
        {version("src/b.py", "B = 1\n"), version("src/c.py", "C = 1\n")},
        {version("src/a.py", THREE)},
        {f"{version('src/a.py', TWO)}.2", version("tests/test_a.py", "1\n")},
    ]


@pytest.mark.parametrize("view", ["files", "definitions"])
def test_cut_after_a_commit_the_queries_up_to_it_see_the_same_in_the_same_order(checkout, view):
    whole = made(checkout, view=view)
    for back in range(5):
        head = f"HEAD~{back}"
        cut = made(checkout, view=view, head=head)
        n = len(cut)
        assert [(q.request, q.tags) for q in cut.queries] == [(q.request, q.tags) for q in whole.queries[:n]]
        assert cut.labels == whole.labels[: len(cut.labels)]
        for number in range(n):
            assert seen_by(cut, number) == seen_by(whole, number)
        there = {item.key: replace(item, until=None) for item in whole.catalog}
        assert all(there[item.key] == replace(item, until=None) for item in cut.catalog)


def test_the_card_counts_what_is_out(checkout, tmp_path):
    dataset = made(checkout)
    assert dataset.about["source"]["out"] == {
        "only documentation or generated files": 1,
        "version bumps and releases": 1,
    }
    write_dataset(dataset, tmp_path / "written")
    assert validate(tmp_path / "written") == []
    read = read_dataset(tmp_path / "written")
    assert read.hash == dataset.hash
    source = read.about["source"]
    assert (source["head"], source["commits"]) == (checkout.run("rev-parse", "HEAD"), 6)


def test_an_older_history_is_seen_by_its_commits_alone(checkout):
    dataset = made(checkout, rules=CommitRules(queries=1))
    (query,) = dataset.queries
    assert query.request.text == "Move c"
    files = {item.name: item.created for item in dataset.catalog if item.type == "file"}
    assert files == {
        version("README.md", "# x 3\n"): day(3), version("src/a.py", TWO): day(6),
        version("src/c.py", "C = 1\n"): day(4), version("tests/test_a.py", "1\n"): day(6),
    }  # fmt: skip
    links = [{link.item.name for link in item.links} for item in dataset.catalog if item.type == "message"]
    a, readme = version("src/a.py", TWO), version("README.md", "# x 3\n")
    assert links == [
        {a, readme},
        {a, readme},
        {readme},
        {version("src/c.py", "C = 1\n")},
        {a},
        {a, version("tests/test_a.py", "1\n")},
    ]


def test_files_from_before_the_commits_looked_at_have_no_beginning(checkout):
    dataset = made(checkout, commits=2)
    assert [query.request.text for query in dataset.queries] == ["Let f return two again", "Move c"]
    created = {item.title: item.created for item in dataset.catalog if item.name.startswith(("README", "src/c"))}
    assert created == {"README.md": None, "src/c.py": None}


def test_definitions_that_hold_changed_lines_are_required(tmp_path):
    pytest.importorskip("tree_sitter_python")
    one = (
        '"""Doc."""\n\nX = 1\n\n\nclass C:\n    def m(self):\n        return 1\n\n    def n(self):\n        return 2\n'
    )
    checkout = written(
        tmp_path / "repo",
        (
            ("Begin", {"a.py": one, "README.md": "x"}),
            ("Let m return nine", {"a.py": (two := one.replace("return 1", "return 9"))}),
            ("Add a method", {"a.py": (three := f"{two}\n    def o(self):\n        return 3\n")}),
            ("Import os", {"a.py": three.replace("X = 1", "import os\n\nX = 1"), "README.md": "y"}),
            ("Delete it", {"a.py": None}),
        ),
    )
    dataset = made(checkout, view="definitions")
    required = [
        sorted(name.partition("@")[0] for name, grade in labels_of(dataset, number) if grade == 2)
        for number in range(4)
    ]
    assert required == [["a.py::C.m"], ["a.py::C"], ["a.py"], ["a.py"]]
    n_versions = [item.name for item in dataset.catalog if item.name.startswith("a.py::C.n@")]
    assert len(n_versions) == 1  # it never changed
    m = [item for item in dataset.catalog if item.name.startswith("a.py::C.m@")]
    assert [(item.created, item.until) for item in m] == [(day(1), day(2)), (day(2), None)]


def test_authors_of_a_day_are_groups_and_splits_keep_days_whole(tmp_path):
    checkout = Checkout(tmp_path / "repo")
    place = tmp_path / "repo" / "a.py"
    place.write_text("0")
    checkout.commit("Begin")
    for number, (n, author) in enumerate([(2, "A"), (2, "B"), (2, "A"), (3, "A"), (4, "A")], 1):
        place.write_text(str(number))
        checkout.run("commit", "-qam", f"Set number {number}x of it", "--author", f"{author} <x@y>", date=day(n))
    dataset = made(checkout, test_share=0.6)
    assert [query.group for query in dataset.queries] == [
        "2026-01-02 1", "2026-01-02 2", "2026-01-02 1", "2026-01-03 1", "2026-01-04 1",
    ]  # fmt: skip
    assert [query.split for query in dataset.queries] == ["tuning"] * 3 + ["test"] * 2  # 3 of 5 would cut a day


def test_where_one_day_holds_most_there_are_no_groups(tmp_path):
    history = [("Begin", {"a.py": "0"}), *((f"Set {word}", {"a.py": word}) for word in ("one", "two", "three", "four"))]
    checkout = written(tmp_path / "repo", history[:1])
    for message, files in history[1:]:
        (tmp_path / "repo" / "a.py").write_text(files["a.py"])
        checkout.commit(message, day=2)
    dataset = made(checkout)
    assert {query.group for query in dataset.queries} == {None}
    assert [query.split for query in dataset.queries] == ["tuning", "tuning", "test", "test"]
    assert [query.request.time for query in dataset.queries] == [
        day(2, f"{h}") for h in ("09:59:59", "10:00:01", "10:00:03", "10:00:05")
    ]  # commits of one second stand two seconds apart


def test_two_queries_of_a_day_are_one_in_each_split(tmp_path):
    checkout = written(tmp_path / "repo", [("Begin", {"a.py": "0"})])
    for word in ("one", "two"):
        (tmp_path / "repo" / "a.py").write_text(word)
        checkout.commit(f"Set {word}", day=2)
    assert [(query.split, query.group) for query in made(checkout).queries] == [("tuning", None), ("test", None)]
    assert {query.split for query in made(checkout, test_share=1).queries} == {"test"}
    assert {query.split for query in made(checkout, test_share=0).queries} == {"tuning"}


def test_shallow_and_bare_clones_are_read_as_far_as_they_go(checkout, tmp_path):
    checkout.run("clone", "--quiet", "--bare", "--depth=3", checkout.root.as_uri(), str(tmp_path / "shallow"))
    shallow, whole = made(of_folder(tmp_path / "shallow")), made(checkout)
    assert [query.request for query in shallow.queries] == [query.request for query in whole.queries[2:]]
    assert seen_by(shallow, 1)[-2:] == seen_by(whole, 3)[-2:]
    checkout.run("clone", "--quiet", "--bare", "--depth=1", checkout.root.as_uri(), str(tmp_path / "empty"))
    with pytest.raises(ParameterError, match="the clone is shallow"):
        made(of_folder(tmp_path / "empty"))


def test_of_a_folder_only_what_is_below_counts(checkout):
    (checkout.root / "tests" / "test_a.py").write_text("2\n")
    checkout.commit("Test it more", day=8)
    dataset = made(of_folder(checkout.root / "tests"))
    assert [query.request.text for query in dataset.queries] == ["Test it more"]
    assert [item.title for item in dataset.catalog if item.type == "file"] == ["tests/test_a.py"]


def test_files_that_no_catalog_holds_are_no_items(tmp_path):
    checkout = written(
        tmp_path / "repo",
        (
            ("Begin", {"a.py": "1\n", "big.txt": "x" * 1_000_001, "b.bin": "\0"}),
            ("Change all", {"a.py": "2\n", "big.txt": "y" * 1_000_001, "b.bin": "\0\0"}),
        ),
    )
    dataset = made(checkout)
    assert [item.title for item in dataset.catalog if item.type == "file"] == ["a.py"]
    assert labels_of(dataset, 0) == {(version("a.py", "1\n"), 2)}
    assert dataset.about["source"]["files_out"] == {"binary": 1, "over 1 MB": 1}


def test_without_a_request_it_says_why_there_is_none(tmp_path):
    checkout = written(tmp_path / "repo", [("Begin", {"a": "1"}), ("v1.0", {"a": "2"})])
    with pytest.raises(ParameterError, match=r"none of the 2 newest commits .* \(1 only additions; 1 version bumps"):
        made(checkout)


@pytest.mark.parametrize(
    "wrong", [{"view": "lines"}, {"test_share": 1.5}, {"commits": 0}, {"rules": CommitRules(queries=0)}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(ParameterError):
        HistorySettings(**wrong)


def test_batches_are_their_requests_one_by_one(checkout):
    dataset = made(checkout)
    for number, request in enumerate(dataset.requests()):
        alone = Batch.of(Catalog(dataset.catalog), [request])
        assert (alone.visible.row(0) == dataset.batch().visible.row(number)).all()
    assert ItemKey("file", None, version("src/a.py", TWO)) in {item.key for item in dataset.catalog}


def test_files_that_move_over_the_edge_of_a_folder_come_and_go(tmp_path):
    """Of a folder in a repository: what moves into it was not there before, and what moves out of it is gone."""
    body = "".join(f"v{n} = {n}\n" for n in range(9))
    other = body.replace("v", "w")
    root = written(
        tmp_path / "edge",
        (
            ("Begin", {"lib/a.py": body, "sub/b.py": other, "sub/z.py": "z = 1\n"}),
            ("Set z", {"sub/z.py": "z = 2\n"}),
            ("Move b out", {"sub/b.py": None, "lib/b.py": other, "sub/z.py": "z = 3\n"}),
            ("Set z anew", {"sub/z.py": "z = 4\n"}),
            ("Move a in", {"lib/a.py": None, "sub/a.py": body.replace("v1", "q1"), "sub/z.py": "z = 5\n"}),
            ("Set z at last", {"sub/z.py": "z = 6\n"}),
        ),
    ).root
    dataset = made(of_folder(root / "sub"))
    seen = [{name.partition("@")[0] for name in seen_by(dataset, n) if "commit-" not in name} for n in range(5)]
    before, after, last = ({f"sub/{name}.py" for name in names} for names in ("bz", "z", "az"))
    assert seen == [before, before, after, after, last]
    assert {name.partition("@")[0] for name, grade in labels_of(dataset, 1)} == {"sub/b.py", "sub/z.py"}
