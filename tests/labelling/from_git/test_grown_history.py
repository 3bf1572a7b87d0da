"""Datasets of a history that has gone on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.catalogs.git_history import GitRepository
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.git_history import CommitRules, HistorySettings, grown_history, history_dataset
from ctxbench.model.items import Catalog, Item, ItemKey
from tests.checkout import written

HISTORY = (
    ("Begin", {"a.py": "def f():\n    return 1\n", "b.py": "B = 1\n"}),
    ("Let f return two", {"a.py": "def f():\n    return 2\n"}),
    ("Set B", {"b.py": "B = 2\n"}),
    ("Let f return three", {"a.py": "def f():\n    return 3\n"}),
    ("Set B again", {"b.py": "B = 3\n"}),
    ("Move b", {"b.py": None, "c.py": "B = 3\n"}),
)


def quiet(*_):
    """Tell nobody."""


@pytest.fixture
def repository(tmp_path):
    return GitRepository(written(tmp_path / "repo", HISTORY).root)


def made(repository, head="HEAD", **settings):
    return history_dataset(repository, HistorySettings(head=head, **settings), notify=quiet)[0]


def grown(old, repository, **settings):
    return grown_history(old, repository, HistorySettings(**settings), notify=quiet)[0]


@pytest.mark.essential
@pytest.mark.parametrize("view", ["files", "definitions"])
def test_an_older_dataset_grows_into_the_newer_one(repository, view):
    whole, old = made(repository, view=view), made(repository, "HEAD~3", view=view)
    found = grown(old, repository, view=view, rules=CommitRules(queries=1))
    assert (found.catalog.hash, found.labels) == (whole.catalog.hash, whole.labels)
    assert [query.request for query in found.queries] == [query.request for query in whole.queries]
    assert [query.split for query in found.queries] == ["tuning", "test", "test", "test", "test"]
    assert found.about["source"] == whole.about["source"]
    assert (old.version, found.version) == ("1", "2")


def test_what_people_did_stays(repository):
    old = made(repository, "HEAD~2")
    first, gone, last = old.queries
    key = ItemKey("file", None, next(item.name for item in old.catalog if item.title == "b.py"))
    more = replace(old.labels_of(first.id)[0], item=key, grade=1)
    edited = replace(
        old,
        version="ours",
        queries=(replace(first, request=replace(first.request, text="By hand")), replace(last, split="held")),
        labels=(*(label for label in old.labels if label.query != gone.id), more),
        about={**old.about, "notes": "Read by A"},
    )
    found = grown(edited, repository)
    assert [query.request.text for query in found.queries] == ["By hand", "Let f return three", "Set B again", "Move b"]
    assert [query.split for query in found.queries] == ["tuning", "held", "held", "held"]
    assert [label for label in found.labels if label.query in (first.id, last.id)] == list(edited.labels)
    assert (found.version, found.about["notes"]) == ("ours", "Read by A")
    assert grown(found, repository).hash == found.hash


def test_what_cannot_grow_is_refused(repository, tmp_path):
    old = made(repository, "HEAD~2")
    other = GitRepository(written(tmp_path / "other", HISTORY[1:]).root)
    for wrong, said in (
        (lambda: grown(old, other), r"is not among the 5 newest of the first-parent line of HEAD in .*other"),
        (lambda: grown(old, repository, commits=3), "is not among the 3 newest"),
        (lambda: grown(old, repository, head="HEAD~3"), "name a later head"),
        (lambda: grown(old, repository, view="definitions"), "was made with view files"),
        (lambda: grown(old, repository, rules=CommitRules(merges=True)), "was made with merges False"),
        (
            lambda: grown(replace(old, about={"source": "by hand"}), repository),
            "was not made by `ctxbench data from-git`",
        ),
    ):
        with pytest.raises(ParameterError, match=said):
            wrong()


def test_items_that_the_history_does_not_give_are_not_dropped(repository):
    old = made(repository, "HEAD~2")
    own = Item(type="rule", name="tone", text="Be brief.")
    with pytest.raises(ParameterError, match="1 of its items do not exist with these settings, such as rule:tone"):
        grown(replace(old, catalog=Catalog([*old.catalog, own])), repository)


def test_another_folder_of_the_repository_is_another_dataset(tmp_path):
    root = written(
        tmp_path / "repo", (("Begin", {"a.py": "1\n", "sub/b.py": "1\n"}), ("Make b two", {"sub/b.py": "2\n"}))
    ).root
    with pytest.raises(ParameterError, match="was made with folder sub/"):
        grown(made(GitRepository(root / "sub")), GitRepository(root))


def test_nothing_new_is_no_new_version(repository):
    whole = made(repository)
    assert grown(whole, repository).version == whole.version
