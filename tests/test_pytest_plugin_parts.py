"""Parts of the plugin of pytest: what is no change, files of accepted selections, what a setup names, messages."""

from __future__ import annotations

import json
import re
import types
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ctxbench.errors import InputError, ParameterError, UserError
from ctxbench.items import ItemKey
from ctxbench.pytest_plugin import AssertOffers, Setup
from ctxbench.pytest_plugin.accepted_file import Accepted, Key, read_accepted, write_accepted
from ctxbench.pytest_plugin.accepting import differences
from ctxbench.pytest_plugin.asking import ask
from ctxbench.pytest_plugin.opening import open_setup
from ctxbench.pytest_plugin.recording import Place, Recorder
from ctxbench.requests import Request
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.presets import TunedPreset, definition_hash, parameter_texts, write_presets

ROWS = [
    {"_id": "tool:alpha", "description": "beta gamma"},
    {"_id": "tool:delta", "description": "beta epsilon"},
    {"_id": "tool:long", "description": "beta", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"_id": "rule:zeta", "text": "Eta theta.", "include": "always"},
    {"_id": "rule:hand", "text": "Beta.", "include": "manual"},
    {"_id": "rule:off", "text": "Beta.", "enabled": False},
    {"_id": "rule:other", "text": "Quite."},
]
ONE = "name: one\npipeline:\n  retrieve: {dense: {depth: 3}}\n  refine: [{first: {n: 1}}]\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "one.yaml").write_text(ONE)
    return tmp_path


@pytest.fixture
def opened(root):
    return open_setup(Setup(catalog="items.jsonl", selector="one.yaml", embedder="hashing"), root)


@pytest.fixture
def offers(root, opened):
    """`assert_offers` over the items; the best one is offered."""
    config = types.SimpleNamespace(getoption=lambda _name: False, rootpath=root)
    return AssertOffers(Setup(), lambda _setup: opened, place=Place("test_a.py", "test_a"), recorder=Recorder(config))


def why(offers, *arguments, **demands):
    """What a failed assertion says, by line."""
    with pytest.raises(AssertionError) as raised:
        offers(*arguments, **demands)
    return [line.strip() for line in str(raised.value).splitlines()]


# -------------------------------------------------------------------------------------------- why it is not offered


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
    scores = ask(opened, Request(id="q", text="alpha: beta gamma")).score_of
    lines = why(offers, "alpha: beta gamma", include=["tool:delta"])
    assert list(scores) == ["tool:alpha", "tool:long", "tool:delta"]  # what the search found, best first
    kept_out = f"rank 3 of 3 found, score {scores['tool:delta']:.3f}; kept out by the rule: beyond the first n=1"
    missed = scores["tool:alpha"] - scores["tool:delta"]
    assert lines[3:5] == [kept_out, f"{missed:.3g} below the lowest score that is offered, 1.000"]
    assert lines[5] == "its best pair: “alpha: beta gamma” ~ “delta: beta epsilon”"
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


# -------------------------------------------------------------------------------------------- what is no change


class Answered:
    """An answer with given scores: of what is offered, and of what stayed out."""

    def __init__(self, offered, kept_out=None, *, decider, ours=True):
        self.offered, self.score_of, self.ours = offered, {**offered, **(kept_out or {})}, ours
        self.decider = decider

    def decided_by(self, offered):
        """What decided, and the ids, in any order."""
        return f"{self.decider}: {' '.join(sorted(offered))}"


def changed(before, now, *, kept_out=None, decided_by="same", ours=True, edited=None):
    """What went out and came in; `edited` is what was made of the accepted answer by hand."""
    key = Key("test_a", "one on items", "text")
    at_base, at_head = Answered(before, decider="same"), Answered(now, kept_out, decider=decided_by, ours=ours)
    base = Accepted(key=key, decided_by=at_base.decided_by(before), offered=before if edited is None else edited)
    return differences(base, Accepted(key=key, decided_by=at_head.decided_by(now), offered=now), at_head)


def test_the_same_items_in_another_order_are_no_change():
    assert changed({"a": 0.5, "b": 0.4}, {"b": 0.6, "a": 0.5}, decided_by="other") == ([], [])
    assert changed({}, {}, decided_by="other") == ([], [])


def test_items_that_are_tied_now_may_change_places():
    tied = {"a": 1.0, "b": 0.3}, {"a": 1.0, "c": 0.300009}
    assert changed(*tied, kept_out={"b": 0.3}, ours=False) == ([], [])
    assert changed(*tied, kept_out={"b": 0.3}, ours=False, decided_by="other") == (["b"], ["c"])
    apart = {"a": 1.0, "b": 0.3}, {"a": 1.0, "c": 0.30002}
    assert changed(*apart, kept_out={"b": 0.3}, ours=False) == (["b"], ["c"])
    assert changed(*tied, kept_out={}, ours=False) == (["b"], ["c"])  # b has no score any more
    two = {"a": 0.5, "b": 0.3}, {"c": 0.5, "d": 0.3}
    assert changed(*two, kept_out={"b": 0.3, "a": 0.5}, ours=False) == ([], [])  # best with best
    moved = {"a": 1.0, "b": 0.8}, {"a": 1.0, "c": 0.3}
    assert changed(*moved, kept_out={"b": 0.3}, ours=False) == (["b"], ["c"])  # it fell to where the other is


def test_small_scores_are_not_all_tied():
    assert changed({"a": 5e-6}, {"b": 5e-6}, kept_out={"a": 1e-6}, ours=False) == (["a"], ["b"])


def test_what_has_no_partner_is_no_swap():
    assert changed({"a": 0.5}, {"b": 0.5, "c": 0.5}, kept_out={"a": 0.5}, ours=False) == ([], ["c"])


def test_an_item_at_a_threshold_is_noise_where_nothing_that_decides_was_changed():
    at = {"a": 0.5, "b": 0.3000004}, {"a": 0.5000002}
    assert changed(*at, kept_out={"b": 0.2999996}) == ([], [])
    assert changed(*at, kept_out={"b": 0.29}) == (["b"], [])  # it moved
    assert changed(*at, kept_out={"b": 0.2999996}, decided_by="another setting") == (["b"], [])
    assert changed(*at, kept_out={"b": 0.2999996}, ours=False) == (["b"], [])  # an outside selector may be noisy


@pytest.mark.parametrize(
    ("edited", "out", "into"),
    [
        ({"a": 0.5}, [], ["b"]),
        ({}, [], ["a", "b"]),
        ({"a": 0.5, "b": 0.3, "c": 0.3}, ["c"], []),  # tied with b, and yet nothing accepted it
        ({"a": 0.5, "b": 0.3, "gone": None}, ["gone"], []),
        ({"a": 0.5, "x": 0.3}, ["x"], ["b"]),
        ({"b": 0.3, "a": 0.9}, [], []),  # the same items: order and scores are there to be read
    ],
)
def test_ids_that_were_edited_by_hand_are_never_noise(edited, out, into):
    offered = {"a": 0.5, "b": 0.3}
    assert changed(offered, offered, kept_out={"c": 0.3}, edited=edited) == (out, into)


# -------------------------------------------------------------------------------------------- files


def accepted(test, text, **offered):
    return Accepted(key=Key(test, "one on items", text), decided_by="0f", offered=offered)


def test_a_file_reads_back_and_does_not_depend_on_the_order_of_tests(tmp_path):
    texts = ["no: yes", "# a", "line\nline", "'", "ä\u2028", "", "null"]
    every = [accepted("test_a", text, x=0.1234567, y=None) for text in texts] + [accepted("test_[b: 1]", "x")]
    write_accepted(tmp_path / "a.yaml", every)
    write_accepted(tmp_path / "b.yaml", reversed(every))
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    found = read_accepted(tmp_path / "a.yaml")
    assert {key.text for key in found} == {*texts, "x"}
    assert found[every[0].key].offered == {"x": 0.123457, "y": None}  # six decimals
    write_accepted(tmp_path / "b.yaml", found.values())
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    write_accepted(tmp_path / "a.yaml", [])
    assert not (tmp_path / "a.yaml").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty; delete it and run pytest --ctxbench-accept .*line 1"),
        ("[1]", "this is no file of accepted selections"),
        ("format: 0\naccepted: []\n", r"format is 0, this version of ctxbench reads 1; .*line 1"),
        ("accepted: []\n", "format is None"),
        ("format: 2\naccepted: []\n", "format is 2, this version of ctxbench reads 1; update ctxbench"),
        ("format: 1\naccepted:\n- {test: a}\n", "an accepted selection is a mapping of test, of, text, .*line 3"),
        ("format: 1\naccepted:\n- {test: a, of: b, text: 1, decided_by: d, offered: {}}\n", "text must be a text"),
        ("format: 1\naccepted:\n- {test: a, of: b, text: c, decided_by: d, offered: {x: y}}\n", "offered must map"),
        (
            "format: 1\naccepted:\n" + "- {test: a, of: b, text: c, decided_by: d, offered: {}}\n" * 2,
            "test a has two selections for 'c'; keep one .*line 4",
        ),
        ("format: 1\n<<<<<<< a\naccepted: []\n=======\n>>>>>>> b\n", "a merge stopped here"),
        ("format: [", "malformed YAML"),
    ],
)
def test_a_damaged_file_says_what_is_wrong_and_where(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=said):
        read_accepted(tmp_path / "a.yaml")


def test_the_same_text_twice_in_a_test_must_be_offered_the_same(offers):
    for _ in range(2):
        with pytest.raises(AssertionError, match="nothing was accepted yet"):
            offers.as_accepted("alpha")
    with pytest.raises(ParameterError, match="put the other request into a test of its own"):
        offers.as_accepted("alpha", session=["rule:hand"])


# -------------------------------------------------------------------------------------------- setups


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (Setup(), "nothing says which catalog to select from"),
        (Setup(catalog="gone.jsonl"), "no catalog"),
        (Setup(catalog="items.jsonl", selector="semantic/norml"), "unknown preset 'norml' of selector 'semantic'"),
        (Setup(catalog="items.jsonl", selector="gone.yaml#x"), "cannot read .*gone.yaml"),
        (Setup(catalog="items.jsonl", embedder="hash"), "unknown embedder 'hash'; did you mean 'hashing'"),
        (Setup(catalog="items.jsonl", tokens="o20k"), "o20k"),
        (Setup(gate="gone.yaml"), "cannot read .*gone.yaml"),
    ],
)
def test_a_faulty_setup_says_what_is_wrong(root, setup, said):
    with pytest.raises(UserError, match=said):
        open_setup(setup, root)


def test_a_preset_is_named_behind_its_file(root):
    with_presets = "\n".join(
        [
            ONE.replace("n: 1", "n: $n"),
            "parameters:",
            "  n: {default: 1, range: [1, 3]}",
            "presets: {many: {set: {n: 3}}}",
        ]
    )
    (root / "own.yaml").write_text(with_presets)
    semantic = definition("semantic")
    preset = TunedPreset(
        set=semantic.in_force(semantic.values("normal")),
        selector="semantic",
        definition=definition_hash(semantic),
        parameters=parameter_texts(semantic),
    )
    write_presets(root / "tuned.yaml", tuned={"dataset": "desk"}, presets={"small": preset}, test_split="")
    base = Setup(catalog="items.jsonl", embedder="hashing")
    labels = {
        name: open_setup(replace(base, selector=name), root).label
        for name in ("own.yaml#many", "tuned.yaml#small", "semantic/normal", "")
    }
    assert labels == {
        "own.yaml#many": "one/many",
        "tuned.yaml#small": "tuned/small",
        "semantic/normal": "semantic/normal",
        "": "semantic",
    }
    many = ask(open_setup(replace(base, selector="own.yaml#many"), root), Request(id="q", text="beta"))
    assert len(many.added) == 3


def test_the_page_lists_every_option(request):
    page = (Path(__file__).parents[1] / "experiments" / "gate" / "README.md").read_text("utf-8")
    names = [f"ctxbench_{field.name}" for field in fields(Setup)]
    assert re.findall(r"^\| `(ctxbench_\w+)` \|", page, re.MULTILINE) == names
    assert {request.config.getini(name) for name in names} == {""}  # all of them are ini options
