"""Candidates as lines of text."""

from __future__ import annotations

import pytest

from ctxbench.cli.select import candidate_lines
from ctxbench.model.items import Item
from ctxbench.model.selection import Offered
from ctxbench.selectors.explain import Explained


def row(item: Item, **more) -> Explained:
    offered = Offered(id=item.id, mode="agent", score=0.5, origin="search")
    return Explained(offered=offered, item=item, tokens=7, query_chunk="", item_chunk="", **more)


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (Item(type="file", name="src/a b.py"), "src/a b.py"),
        (Item(type="file", name="src/core.py@0123456789ab"), "src/core.py"),
        (Item(type="file", name="src/core.py@0123456789ab.2"), "src/core.py"),
        (Item(type="file", name="src/core.py@next"), "src/core.py@next"),  # no version, but a name
        (Item(type="chunk", name="src/core.py::Context.invoke@0123456789ab"), "src/core.py::Context.invoke"),
        (Item(type="file", name="a.py", server="s"), "file:s:a.py"),
        (Item(type="tool", name="a/b"), "tool:a%2Fb"),
    ],
)
def test_with_paths_a_file_is_told_by_its_name_without_its_version_and_else_by_its_id(item, told):
    assert candidate_lines((row(item),), pairs=False, paths=True) == [f" 0.500  agent         7 tokens  {told}"]
    assert candidate_lines((row(item),), pairs=False)[0].endswith(f"  {item.id}")


def test_the_largest_shares_and_five_matched_words_are_told_and_json_has_all():
    shares, words = {"words": 0.621, "history": 0.375, "paths": 0.004}, dict.fromkeys("abcdef", 1 / 6)
    candidate = row(Item(type="file", name="a.py"), shares=shares, words=words, factor=0.3)
    line = candidate_lines((candidate,), pairs=False)[1]
    assert line.strip() == ("words 62%  history 38%; kind of file x0.3; holds a 17%, b 17%, c 17%, d 17%, e 17%, ...")
    told = candidate.as_dict()
    assert (told["shares"], told["words"], told["factor"]) == (shares, words, 0.3)


def test_a_score_that_is_no_sum_has_no_line():
    assert len(candidate_lines((row(Item(type="file", name="a.py")),), pairs=False)) == 1
