"""Items of random histories, held against the trees that queries see."""

from __future__ import annotations

import random

import pytest

from ctxbench.catalogs.git_history import FileChange, LineCommit
from ctxbench.catalogs.git_trees import commit_item, iso_time, tree_stretches
from ctxbench.labelling.git_history import FileView, ItemVersions
from ctxbench.model.items import Item
from ctxbench.model.requests import Batch, Request
from tests.draws import draws

PATHS = "abcd"


def random_change(tree, draw):
    """A change of one file, which is made in `tree`; a blob is called by what it holds."""
    blob, free = draw.choice("123"), [path for path in PATHS if path not in tree]
    if not tree or (free and draw.random() < 0.3):
        path = draw.choice(free)
        tree[path] = blob
        return FileChange(path, None, None, blob)
    old = draw.choice(sorted(tree))
    before = tree.pop(old)
    kind = draw.random()
    if kind < 0.25:
        return FileChange(old, None, before, None)
    if kind < 0.5 and free:
        path = draw.choice(free)
        tree[path] = blob
        return FileChange(path, old, before, blob)
    tree[old] = blob
    return FileChange(old, None, before, blob)


def random_line(draw, n=14):
    """Commits of one or two changes of different files, and the tree before each."""
    line, trees, tree = [], [], {"a": "1", "b": "2"}
    for number in range(n):
        trees.append(dict(tree))
        changes = [random_change(tree, draw)]
        more = random_change(dict(tree), draw)
        touched = {changes[0].path, changes[0].old_path}
        if not touched & {more.path, more.old_path} and draw.random() < 0.5:
            tree.pop(more.old_path or more.path, None)
            tree |= {more.path: more.new_blob} if more.new_blob else {}
            changes.append(more)
        sha = f"{number:012d}" + "0" * 28
        line.append(LineCommit(sha=sha, parents=("p",), time=0, author="A", message="m", changes=tuple(changes)))
    return line, trees


def followed(line, trees, queries):
    """The catalog, and what each query is told to see."""
    times = [1_000 + 2 * number for number in range(len(line))]

    def file(path, text):
        return [Item(type="file", name=f"{path}@{text}", title=path, text=f"{path}\n\n{text}")]

    def commit(place, changed):
        return commit_item(line[place], text="m", created=iso_time(times[place]), changed=changed)

    stretches = tree_stretches(line, times, queries, trees[queries[0]])
    versions = ItemVersions(commit)
    files = iter([FileView(file(path, blob)) for stretch in stretches for path, blob in stretch.come])
    seen = versions.follow(stretches, files, [PATHS] * len(queries), {})
    requests = [Request(id=str(query), text="x", time=iso_time(times[query] - 1)) for query in queries]
    return Batch.of(versions.catalog(), requests), seen


@pytest.mark.parametrize("seed", range(draws(150, 30)))
def test_each_query_sees_the_tree_before_it_and_commits_link_to_files_they_touched(seed):
    draw = random.Random(seed)
    line, trees = random_line(draw)
    queries = sorted(draw.sample(range(1, len(line)), 5))
    batch, seen = followed(line, trees, queries)
    for row, query in enumerate(queries):
        visible = [item for item, there in zip(batch.catalog, batch.visible.row(row), strict=True) if there]
        files = {item.title: item.text.split("\n\n")[1] for item in visible if item.type == "file"}
        assert files == trees[query]
        assert len([item for item in visible if item.type == "file"]) == len(files)
        assert [item.name for item in visible if item.type == "message"] == [
            f"commit-{line[place].sha[:12]}" for place in range(query)
        ]
        told = {path: key for path in PATHS for key in seen[row][path].values()}
        assert told == {item.title: item.key for item in visible if item.type == "file"}
    for number, item in enumerate(item for item in batch.catalog if item.type == "message"):
        after = next(query for query in queries if query > number)
        alive = {batch.catalog[batch.catalog.position(link.item)].title for link in item.links}
        kept = {change.path for change in line[number].changes if change.new_blob and trees[after].get(change.path)}
        untouched = {
            path for later in line[number + 1 : after] for one in later.changes for path in (one.path, one.old_path)
        }
        assert kept - untouched <= alive


@pytest.mark.parametrize("seed", range(30))
def test_a_shorter_history_has_the_same_items_first(seed):
    draw = random.Random(seed)
    line, trees = random_line(draw)
    queries = sorted(draw.sample(range(1, len(line)), 5))
    (whole, _), (cut, _) = followed(line, trees, queries), followed(line[: queries[3]], trees, queries[:3])
    assert [item.key for item in cut.catalog] == [item.key for item in whole.catalog][: len(cut.catalog)]
    assert [item.links for item in cut.catalog] == [item.links for item in whole.catalog][: len(cut.catalog)]
    assert [(item.text, item.created) for item in cut.catalog] == [
        (item.text, item.created) for item in whole.catalog[: len(cut.catalog)]
    ]


def test_a_file_that_went_and_came_back_between_two_queries_ends_once():
    changes = (("1", "2"), ("2", None), (None, "3"))
    line = [
        LineCommit(
            sha=f"{n:012d}", parents=("p",), time=0, author="A", message="m", changes=(FileChange("a", None, *c),)
        )
        for n, c in enumerate((*changes, ("3", "4")))
    ]
    batch, _ = followed(line, [{"a": "1"}], [0, 3])
    links = [[link.item.name for link in item.links] for item in batch.catalog if item.type == "message"]
    assert links == [["a@1"], ["a@1"], ["a@3"]]
