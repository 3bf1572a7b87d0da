"""Why an item is not offered, and what makes no sense to demand."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import UserError
from ctxbench.model.items import ItemKey
from ctxbench.model.requests import Filter, Request
from ctxbench.pytest_plugin import AssertOffers, Setup, open_setup
from ctxbench.pytest_plugin.explanations import ask
from tests.pytest_plugin.plugin_cases import put


def why(offers, *arguments, **demands):
    """What a failed assertion says, by line."""
    with pytest.raises(AssertionError) as raised:
        offers(*arguments, **demands)
    return [line.strip() for line in str(raised.value).splitlines()]


@pytest.mark.parametrize(
    ("request_", "item", "reason"),
    [
        ("alpha", "rule:hand", "its include mode is manual, so no search brings it in"),
        ("alpha", "rule:off", "it is not enabled"),
        ("alpha beta", "rule:other", "the search did not find it: nothing in it matches, or too much matches better"),
        (" ", "tool:alpha", "the request has no text, so nothing is searched"),
        (
            Request(id="q", text="alpha", available=(ItemKey("tool", None, "delta"),)),
            "tool:alpha",
            "it is not available to this request",
        ),
        (
            Request(id="q", text="alpha", removed=(ItemKey("tool", None, "alpha"),)),
            "tool:alpha",
            "it was removed from the session",
        ),
        (
            Request(id="q", text="alpha", session=()),
            "rule:zeta",
            "its include mode is always, and the session of this request is given without it",
        ),
    ],
)
def test_what_is_no_candidate_has_its_reason(offers, request_, item, reason):
    lines = why(offers, request_, include=[item])
    assert lines[2:4] == [f"missing: {item}", reason]


def test_what_a_rule_kept_out_has_rank_score_and_distance(offers, opened):
    asked = ask(opened, Request(id="q", text="alpha: beta gamma"))
    scores = {one.offered.id: one.offered.score for one in asked.ranking}
    lines = why(offers, "alpha: beta gamma", include=["tool:delta"])
    assert list(scores) == ["tool:alpha", "tool:long", "tool:delta"]  # what the search found, best first
    kept_out = f"rank 3 of 3 found, score {scores['tool:delta']:.3f}; kept out by the rule: beyond the first n=1"
    missed = scores["tool:alpha"] - scores["tool:delta"]
    assert lines[3:5] == [kept_out, f"{missed:.3g} below the lowest score that is offered, 1.000"]
    assert lines[5] == "its best pair: “alpha: beta gamma” matches “delta: beta epsilon”"
    assert lines[6] == f"in front of it: tool:alpha 1.000, tool:long {scores['tool:long']:.3f}"


def test_too_many_tokens_names_what_costs_most(offers, opened):
    asked = ask(opened, Request(id="q", text="alpha: beta gamma"))
    tokens = sum(one.tokens for one in asked.added)
    offers("alpha: beta gamma", max_tokens=tokens)  # the limit itself is allowed
    lines = why(offers, "alpha: beta gamma", max_tokens=tokens - 1)
    assert lines[2] == f"too many tokens: {tokens} (o200k_base) are offered, at most {tokens - 1} wanted"
    assert lines[3] == f"most cost: tool:alpha {tokens}"


def test_what_the_session_holds_is_offered_and_not_counted(offers):
    found = offers("alpha", include=["rule:zeta"], max_items=1)
    assert [one.id for one in found.chosen] == ["rule:zeta", "tool:alpha"]
    lines = why(offers, "alpha", exclude=["rule:zeta"])
    assert lines[2:4] == ["unwanted: rule:zeta", "the session holds it (always)"]
    lines = why(offers, "alpha", session=["rule:hand"], exclude=["rule:hand"])
    assert lines[3] == "the session holds it (manual)"
    offers("", max_items=0)


@pytest.mark.parametrize(
    ("arguments", "demands", "said"),
    [
        (("a",), {"include": "tool:alpha"}, "include must be a list of item ids, got the text 'tool:alpha'"),
        (("a",), {"include": ["tool:alpha", "tool:alpha"]}, "include names tool:alpha twice"),
        (("a",), {"include": ["tool:alpha"], "exclude": ["tool:alpha"]}, "no answer does both"),
        (("a",), {"max_items": -1}, "max_items must be a whole number, 0 or more, got -1"),
        (("a",), {"max_tokens": 1.5}, "max_tokens must be a whole number, 0 or more, got 1.5"),
        (("a",), {"max_items": 1, "session": ["tool:gone"]}, "session: the catalog has no item 'tool:gone'"),
        ((Request(id="q", text="a"),), {"max_items": 1, "session": []}, "leave session out"),
        ((7,), {"max_items": 1}, "what is asked must be a text or a Request, got 7"),
        (("a",), {}, "nothing is demanded"),
    ],
)
def test_what_makes_no_sense_is_said(offers, arguments, demands, said):
    with pytest.raises(UserError, match=said):
        offers(*arguments, **demands)


def test_what_others_wrote_gives_no_orders_to_the_terminal_of_a_test(team):
    order = "\x1b]52;c;eA==\x07\x9b31m\u202e\n::error::x\r"
    put(team, [{"_id": "rule:bad", "description": order, "text": order}, {"_id": "tool:alpha", "description": "alpha"}])
    team.write(
        test_any=f"""
        ORDER = {order!r}

        def test_fails(assert_offers):
            assert_offers(f"alpha {{ORDER}}", include=["tool:alpha"], exclude=["rule:bad"], max_items=1)

        def test_is_wrong(assert_offers):
            assert_offers("x", include=[ORDER])

        def test_cannot_be_set_up(assert_offers):
            assert_offers.using(selector=ORDER)("x", max_items=1)
        """
    )
    for options in ([], ["-o", f"ctxbench_catalog={order}"]):
        done = team.pytest(*options)
        said = "\n".join([*done.outlines, *done.errlines])
        assert "]52;c" in said
        assert not set(said) & set("\x1b\x07\x9b\u202e\r")
        assert not any(line.lstrip().startswith("::") for line in said.split("\n"))


def test_what_the_request_does_not_see_is_neither_explained_nor_suggested(root):
    rows = [
        {"_id": "rule:open", "text": "alpha"},
        {"_id": "rule:bobs%20plan", "text": "alpha", "workspace": "bob", "enabled": False},
    ]
    (root / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    made = open_setup(Setup(catalog="items.jsonl", selector="one.yaml", embedder="hashing"), root)
    offers = AssertOffers(Setup(), lambda _setup: made)
    lines = why(offers, "alpha", include=["rule:bobs%20plan"])
    assert lines[3] == "this request does not see it"
    with pytest.raises(UserError) as error:
        offers("alpha", include=["rule:bobs%20plans"])
    assert "bobs%20plan'" not in str(error.value)


def test_of_an_unknown_rule_the_one_in_a_folder_of_that_name_is_told(root):
    row = {"_id": "rule:.cursor%2Frules%2Frefunds.mdc", "text": "alpha"}
    (root / "items.jsonl").write_text(f"{json.dumps(row)}\n")
    made = open_setup(Setup(catalog="items.jsonl", selector="one.yaml", embedder="hashing"), root)
    offers = AssertOffers(Setup(), lambda _setup: made)
    with pytest.raises(
        UserError, match=r"no item 'rule:refunds'; did you mean 'rule:\.cursor%2Frules%2Frefunds\.mdc'\?"
    ):
        offers("alpha", include=["rule:refunds"])


def test_what_a_request_is_restricted_to_is_told(offers):
    request = Request(id="q", text="alpha", only=Filter(types=("rule",)))
    assert why(offers, request, include=["tool:alpha"])[3] == "it is outside of what this request is restricted to"
