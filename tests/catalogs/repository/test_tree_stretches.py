"""What becomes of files between two trees that queries see."""

from __future__ import annotations

from ctxbench.catalogs.git_history import FileChange, LineCommit
from ctxbench.catalogs.git_trees import TouchedFile, tree_stretches


def commit(*changes):
    """A commit of changes such as `a:1>2`, `a:>1`, `a:1>` and `b<a:1>2`."""
    read = []
    for text in changes:
        paths, _, blobs = text.partition(":")
        path, _, old_path = paths.partition("<")
        old, _, new = blobs.partition(">")
        read.append(FileChange(path, old_path or None, old or None, new or None))
    return LineCommit(sha="s", parents=("p",), time=0, author="A", message="m", changes=tuple(read))


def stretches(*line, queries, tree):
    return tree_stretches(line, range(10, 10 + len(line)), queries, tree)


def touched(stretch):
    return tuple(tuple((one.path, one.gone) for one in some) for some in stretch.touched)


def here(path):
    return (path, False)


def gone(path):
    return (path, True)


def test_the_first_stretch_leads_from_nothing_to_the_first_tree():
    (found,) = stretches(
        commit("a:>1"), commit("a:1>2", "x:7>"), commit("a:2>3"), queries=[2], tree={"a": "2", "b": "9"}
    )
    assert (found.first, found.gone, found.come) == (0, (), (("a", "2"), ("b", "9")))
    assert touched(found) == ((here("a"),), (here("a"),))
    assert found.brought == {"a": 11}


def test_a_query_s_own_commit_is_seen_by_the_next_query():
    line = (commit("a:1>2"), commit("b:>5", "a:2>3"), commit("b:5>6"))
    before, after = stretches(*line, queries=[0, 2], tree={"a": "1"})
    assert (before.come, touched(before)) == ((("a", "1"),), ())
    assert (after.first, after.gone, after.come) == (0, (), (("a", "3"), ("b", "5")))
    assert (after.ended["a"], after.brought) == (10, {"a": 11, "b": 11})
    assert touched(after) == ((here("a"),), (here("b"), here("a")))


def test_what_comes_and_goes_between_two_queries_is_not_told():
    line = (commit("a:1>2"), commit("a:2>1", "b:>1"), commit("b:1>"), commit("a:1>2"))
    _, after = stretches(*line, queries=[0, 3], tree={"a": "1"})
    assert (after.come, after.gone) == ((), ())
    assert touched(after) == ((here("a"),), (here("a"),), ())


def test_commits_follow_a_file_to_the_name_that_the_next_query_sees():
    line = (commit("a:1>2"), commit("b<a:2>2", "c:1>2"), commit("d<b:2>3", "a:>9"), commit())
    _, after = stretches(*line, queries=[0, 3], tree={"a": "1", "c": "1"})
    assert (after.gone, after.come) == ((), (("a", "9"), ("c", "2"), ("d", "3")))
    assert touched(after) == ((here("d"),), (here("d"), here("c")), (here("d"), here("a")))
    assert (after.ended["a"], after.brought) == (10, {"a": 12, "c": 11, "d": 12})


def test_commits_to_a_file_that_went_lead_to_what_the_query_before_saw():
    line = (commit("a:1>2"), commit("a:2>", "new:>1"), commit("new:1>"), commit())
    _, after = stretches(*line, queries=[0, 3], tree={"a": "1"})
    assert (after.gone, after.come, after.ended["a"]) == (("a",), (), 10)
    assert touched(after) == ((gone("a"),), (gone("a"),), ())


def test_an_older_file_of_a_path_counts_for_the_one_that_is_there():
    (found,) = stretches(commit("a:>1"), commit("a:1>"), commit("a:>2"), queries=[3], tree={"a": "2"})
    assert (touched(found), found.brought) == (((here("a"),), (here("a"),), (here("a"),)), {"a": 12})


def test_two_files_may_change_names():
    _, after = stretches(commit("a<b:2>2", "b<a:1>1"), commit(), queries=[0, 1], tree={"a": "1", "b": "2"})
    assert (after.gone, after.come) == ((), (("a", "2"), ("b", "1")))
    assert touched(after) == ((here("a"), here("b")),)


def test_it_tells_blobs_around_each_commit_and_the_older_names_of_files():
    line = (commit("b<a:1>2"), commit("c<b:2>2", "x:7>"), commit("d:>5", "x:>8"), commit())
    _, after = stretches(*line, queries=[0, 3], tree={"a": "1", "x": "7"})
    assert after.touched == (
        (TouchedFile("c", False, "1", "2"),),
        (TouchedFile("c", False, "2", "2"), TouchedFile("x", True, "7", None)),
        (TouchedFile("d", False, None, "5"), TouchedFile("x", False, None, "8")),
    )
    assert after.renamed == {"c": "a"}
