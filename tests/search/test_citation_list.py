"""Ids, marks and lists of sources."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.model.items import Item, ItemKey
from ctxbench.pipelines.strategies.format import Citation, citation_ids, cited, marked, sources_text

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)
SETUP = ItemKey("file", None, "docs/setup.md")


def files(n):
    return [ItemKey("file", None, f"f{one}") for one in range(n)]


def one(id_, **more):
    return Citation(**{"id": id_, "source": "docs/setup.md", "type": "file", "excerpt": "Run it.", **more})


class TestIds:
    def test_an_id_is_the_type_and_digits_of_a_hash(self):
        number = int(hashlib.sha256(b"file:docs%2Fsetup.md").hexdigest(), 16)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"
        wanted = "".join(digits[number // 36**place % 36] for place in range(4))
        assert citation_ids([SETUP]) == (f"[fil-{wanted}]",)
        assert citation_ids([]) == ()

    def test_they_are_the_same_in_every_process_and_whatever_stands_beside(self):
        code = "from ctxbench.pipelines.strategies.format import *; from ctxbench.model.items import ItemKey\n"
        code += "print(*citation_ids([ItemKey('file', None, 'docs/setup.md')]))"
        found = {
            subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
                env={"PYTHONHASHSEED": seed},
            ).stdout.strip()
            for seed in ("1", "2")
        }
        assert found == set(citation_ids([SETUP]))
        assert citation_ids([*files(5), SETUP])[-1] in found

    def test_two_that_meet_are_longer_and_no_others(self):
        keys = files(4000)  # 8 million pairs of 1.7 million ids
        short = [citation_ids([key])[0] for key in keys]
        ids = citation_ids(keys)
        assert len(set(ids)) == 4000 > len(set(short))
        longer = [n for n, id_ in enumerate(ids) if len(id_) > len("[fil-0000]")]
        assert longer == [n for n, id_ in enumerate(short) if short.count(id_) > 1]
        assert all(id_.startswith(first[:-1]) for id_, first in zip(ids, short, strict=True))

    def test_types_are_told_apart(self):
        kinds = ("rule", "reference", "tool", "skill", "file", "chunk", "message", "memory")
        assert len({citation_ids([ItemKey(kind, None, "x")])[0][:5] for kind in kinds}) == len(kinds)


class TestMarked:
    def test_matches_stand_between_marks(self):
        assert marked("a red sea", [(2, 5), (6, 9)]) == "a <<<red>>> <<<sea>>>"
        assert marked("a red sea", []) == "a red sea"

    def test_marks_are_longer_than_what_the_text_holds(self):
        assert marked(">>> red()", [(4, 7)]) == ">>> <<<<red>>>>()"
        assert marked("<<<<<<< ours\nred", [(13, 16)]) == "<<<<<<< ours\n<<<<<<<<red>>>>>>>>"

    @PROPERTY
    @given(st.lists(st.sampled_from(["<", ">", "red", " ", "<<<", ">>>>"])).map("".join))
    def test_text_and_matches_can_be_read_back(self, text):
        spans = [found.span() for found in re.finditer("red", text)]
        made = marked(text, spans)
        width = max([3, *(len(run) + 1 for run in re.findall("<+|>+", text))])
        assert "<" * width not in text
        assert made.count("<" * width) == len(spans)
        assert made.replace("<" * width, "").replace(">" * width, "") == text


class TestSources:
    def test_what_a_reply_names_is_used_and_listed(self):
        found = cited([one("[fil-aaaa]"), one("[mes-bbbb]", source="user in t1")], "As [mes-bbbb] says.")
        assert [citation.used for citation in found] == [False, True]
        assert sources_text(found) == "\n\n---\nSources:\n[mes-bbbb]: user in t1 - Run it...."

    def test_what_was_used_before_stays_so(self):
        assert cited([one("[fil-aaaa]", used=True)], "")[0].used

    @pytest.mark.parametrize("reply", ["", "fil-aaaa", "[fil-aaaab]", "[fil-aaa]", "[FIL-AAAA]"])
    def test_nothing_used_no_list(self, reply):
        assert sources_text(cited([one("[fil-aaaa]")], reply)) == ""

    def test_an_excerpt_is_one_line_of_50_characters_and_no_half_one(self):
        assert sources_text([one("[a]", used=True, excerpt="x y\n\n" * 20)]).endswith(f" - {('x y ' * 13)[:50]}...")
        assert sources_text([one("[a]", used=True, excerpt="x" * 49 + "e\u0301" * 3)]).endswith(f" - {'x' * 49}...")
        assert sources_text([one("[a]", used=True, excerpt=" \n")]).endswith("\n[a]: docs/setup.md")


def test_surrogates_are_no_fault():
    assert citation_ids([Item(type="file", name="\ud83d", text="x").key])[0].startswith("[fil-")
