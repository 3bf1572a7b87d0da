"""The rule for what counts as referenced, case by case."""

from __future__ import annotations

import pytest

from ctxbench.core.items import Catalog, Item
from ctxbench.data.usage import References, UsageEvidence
from ctxbench.data.usage.references import RUN


@pytest.fixture
def found(catalog, reply):
    def of(text, **fields):
        return {key.id: one for key, one in References(catalog).find(reply(text, **fields)).items()}

    return of


class TestTools:
    def test_one_that_was_called_is_referenced(self, found):
        assert found("Done.", called=["tool:web:fetch"]) == {
            "tool:web:fetch": UsageEvidence("called", "fetch", "c.jsonl, line 1")
        }

    def test_words_are_no_call(self, found):
        assert found("I could use `fetch` or tool:web:fetch, the fetch tool: Fetch a page.") == {}

    def test_one_that_was_not_offered_is_not_referenced(self, found):
        assert found("Done.", called=["tool:web:fetch"], offered=["rule:tone"]) == {}


class TestIds:
    @pytest.mark.parametrize(
        "text", ["See rule:code%20review.", "(rule:code%20review)", "rule:code%20review", "by rule:code%20review, yes"]
    )
    def test_an_id_as_a_whole_is_a_reference(self, found, text):
        assert [(one.kind, one.text) for one in found(text).values()] == [("id", "rule:code%20review")]

    @pytest.mark.parametrize("text", ["rule:tones", "my-rule:tone", "rule:tone:x", "rule:tone.md", "x/rule:tone"])
    def test_a_part_of_something_longer_is_none(self, found, text):
        assert found(text) == {}


class TestNames:
    @pytest.mark.parametrize(
        "text",
        [
            'as "tone" says', "“Tone” asks for it", "by `tone`", "see [tone]", "the **tone** rule",
            "the rule tone says",
            "the tone rule says", "rule: tone", "Rule: tone. Rule: code.", "rule: **tone** - brief",
            "rule: tone\nand so",
            "the rule 'tone' says", "The 'tone' rule", "RULE TONE",
        ],
    )  # fmt: skip
    def test_an_ordinary_word_counts_in_quotes_or_beside_its_type(self, found, text):
        assert list(found(text)) == ["rule:tone"]
        assert found(text)["rule:tone"].kind == "name"

    @pytest.mark.parametrize(
        "text",
        ["a friendly tone", "tone", "Tone it down", "overrule tone", "a tone ruler", '"tones"', "code review is due",
         "the file tone", "the tone reference", "**Tone**: be brief", "*tone*",
         "The rule: tone it down", "rule tone-deaf"],
    )  # fmt: skip
    def test_else_it_does_not(self, found, text):
        assert found(text) == {}

    def test_several_words_are_ordinary_too_but_a_type_may_follow(self, found):
        assert list(found("by the code review rule")) == ["rule:code%20review"]
        assert list(found("by 'code\n review'")) == ["rule:code%20review"]

    @pytest.mark.parametrize("text", ["as api-v2 says", "api-v2: errors", "(api-v2)", "see api-v2."])
    def test_a_name_that_no_word_looks_like_counts_as_it_stands(self, found, text):
        assert [(one.kind, one.text) for one in found(text).values()] == [("name", "api-v2")]

    @pytest.mark.parametrize("text", ["API-V2", "api-v20", "my-api-v2", "api-v2.1", "docs/api-v2", "release notes"])
    def test_but_only_whole_and_with_its_capitals(self, found, text):
        assert found(text) == {}

    @pytest.mark.parametrize(
        ("name", "text", "counts"),
        [
            ("releaseNotes", "releaseNotes say so", True),
            ("src/issue.py", "in src/issue.py, line 3", True),
            ("Section 2", "Section 2 says so", False),  # letters and a digit, but not in one word
            ("2024", "in 2024", False),
            ("notes", "notes say so", False),
        ],
    )
    def test_what_makes_a_name_unusual(self, reply, name, text, counts):
        item = Item(type="reference", name=name)
        assert bool(References(Catalog([item])).find(reply(text, offered=[item.id]))) is counts

    def test_of_two_with_one_name_only_the_type_tells(self, reply):
        catalog = Catalog([Item(type=kind, name="twin_1") for kind in ("rule", "reference")])
        rule = References(catalog)
        assert rule.find(reply("see twin_1 and `twin_1`", offered=catalog.ids)) == {}
        (key,) = rule.find(reply("the twin_1 rule", offered=catalog.ids))
        assert key.id == "rule:twin_1"

    def test_a_name_inside_a_longer_one_is_no_reference(self, reply):
        catalog = Catalog([Item(type="rule", name=name) for name in ("review", "code review")])
        (key,) = References(catalog).find(reply("by the code review rule", offered=catalog.ids))
        assert key.id == "rule:code%20review"


class TestQuotations:
    def test_eight_words_of_its_text_are_a_reference(self, found):
        one = found("Well: “never merge on a\nFriday afternoon, without a” reason.")["rule:code%20review"]
        assert one.kind == "quoted"
        assert one.text == "never merge on a\nFriday afternoon, without a"
        assert len(one.text.split()) == RUN

    def test_seven_are_not(self, found):
        assert found("never merge on a Friday afternoon without help") == {}

    def test_a_run_that_two_offered_items_have_counts_for_neither(self, reply):
        text = "one two three four five six seven eight"
        catalog = Catalog([Item(type="rule", name="a", text=text), Item(type="rule", name="b", text=f"{text} nine")])
        rule = References(catalog)
        assert rule.find(reply(text, offered=catalog.ids)) == {}
        assert [key.id for key in rule.find(reply(f"{text} nine", offered=catalog.ids))] == ["rule:b"]
        assert [key.id for key in rule.find(reply(text, offered=["rule:a"]))] == ["rule:a"]


class TestWhatTheUserSaid:
    @pytest.mark.parametrize(
        "text",
        ["rule:tone", "the tone rule", "api-v2", "never merge on a Friday afternoon without a second pair of eyes"],
    )
    def test_is_no_evidence_in_the_reply(self, found, text):
        assert found(f"You say {text}.", asked="Hello") != {}
        assert found(f"You say {text}.", asked=f"What of {text}?") == {}

    def test_also_in_an_earlier_message(self, catalog, reply):
        from dataclasses import replace

        asked = replace(reply("as api-v2 says"), user_messages=("What is api-v2?", "And now?"))
        assert References(catalog).find(asked) == {}


def test_nothing_said_references_nothing(found):
    assert found("") == {}
    assert found("?!") == {}


def test_the_order_of_what_was_offered_does_not_matter(catalog, reply):
    text = "By the tone rule and api-v2, never merge on a Friday afternoon without a second pair."
    first = References(catalog).find(reply(text))
    second = References(catalog).find(reply(text, offered=list(reversed(catalog.ids))))
    assert first == second
    assert len(first) == 3
