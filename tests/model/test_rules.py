"""Rules that keep items out: codes, values, words, and the way to a file and back."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctxbench.io.documents import dump_json
from ctxbench.io.errors import ParameterError
from ctxbench.model import candidates, registry
from ctxbench.model.candidates import Rule

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
RULES = st.builds(
    lambda code, values: Rule(code, tuple(values.items())),
    st.text(min_size=1),
    st.dictionaries(st.text(min_size=1), NUMBERS | st.text(), max_size=4),
)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Installs a package with cuts; its source is given."""

    def install(source: str, **cuts: str) -> None:
        (tmp_path / "ruled_cuts.py").write_text(source)
        info = tmp_path / "ruled_cuts-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ruled-cuts\nVersion: 1\n")
        lines = [f"{name} = ruled_cuts:{attribute}\n" for name, attribute in cuts.items()]
        (info / "entry_points.txt").write_text(f"[ctxbench.cut]\n{''.join(lines)}")
        monkeypatch.syspath_prepend(str(tmp_path))
        sys.modules.pop("ruled_cuts", None)
        importlib.invalidate_caches()
        registry._plugins.cache_clear()

    yield install
    registry._plugins.cache_clear()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule.of("topK", topK=20), "its best chunk is not among the best topK=20 chunks"),
        (Rule.of("positive"), "its score is not above 0"),
        (
            Rule.of("topN", topN=5, includeScore=0.7),
            "beyond the first topN=5 and its score is below includeScore=0.7",
        ),
        (Rule.of("topN", topN=5, includeScore=1), "beyond the first topN=5 and its score is below includeScore=1"),
        (Rule.of("first", n=3), "beyond the first n=3"),
        (Rule.of("margin", margin=0.1), "more than margin=0.1 below the best"),
        (Rule.of("margin_share", margin=0.25), "more than margin=0.25 of its score below the best"),
        (Rule.of("at_most", at_most=10), "beyond at_most=10"),
        (Rule.of("gap"), "below the largest gap of scores"),
        (Rule.of("displaced", minimum=1), "displaced by items that bring each query chunk to minimum=1"),
        (
            Rule.of("mmr", n=5, relevance=0.7),
            "not among the n=5 picked for relevance and diversity (relevance=0.7)",
        ),
        (Rule.of("threshold", threshold=0.5), "its score is below threshold=0.5"),
        (Rule.of("first_at_most", at_most=2), "beyond the first at_most=2"),
        (
            Rule.of("abstain", probability=0.4, threshold=0.5),
            "that anything is needed has a probability of 0.40, below threshold=0.5",
        ),
        (Rule.of("budget", tokens=2000), "beyond the budget of tokens=2000"),
        (Rule.of("not_chosen"), "ranked by the selector, not chosen"),
        (Rule.of("as_many_as", selector="bm25"), "beyond as many items as bm25 offers"),
        (Rule.of("text", text="as {it} stood"), "as {it} stood"),
    ],
)
def test_every_rule_of_this_package_has_its_words(rule, words):
    assert str(rule) == words


def test_no_two_steps_have_one_code_with_other_words():
    found = {}
    for kind in registry.REFINE_KINDS:
        for name in registry.built_in(kind):
            for code, template in getattr(registry.find(kind, name), "rule_words", {}).items():
                assert found.setdefault(code, template) == template
    assert not found.keys() & candidates._WITHOUT_A_STEP.keys()


def test_a_rule_without_words_is_its_code_with_its_values():
    assert str(Rule.of("late")) == "late"
    assert str(Rule.of("late", hours=2.5, since="noon")) == "late (hours=2.5, since=noon)"


@pytest.mark.parametrize("rule", [Rule.of("first"), Rule.of("margin", margin="wide"), Rule.of("topN", topN=1)])
def test_values_that_do_not_suit_the_words_are_shown_all_the_same(rule):
    assert str(rule).startswith(rule.code)


def test_values_count_by_name_and_not_by_order():
    assert Rule.of("x", a=1, b=2) == Rule.of("x", b=2, a=1)
    assert hash(Rule.of("x", a=1, b=2)) == hash(Rule.of("x", b=2, a=1))
    assert Rule.of("x", a=1) != Rule.of("x", a=2)
    assert (Rule.of("x", a=1).value("a"), Rule.of("x", a=1).value("b")) == (1, None)


def test_numbers_of_arrays_become_plain_ones():
    rule = Rule.of("x", whole=np.int64(3), part=np.float64(0.5))
    assert [type(value) for _, value in rule.values] == [float, int]
    assert dump_json(rule.as_dict()) == '{"code":"x","values":{"part":0.5,"whole":3}}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, [1], 1j])
def test_a_value_is_a_finite_number_or_a_text(value):
    with pytest.raises(ParameterError, match="must be a finite number or a text"):
        Rule.of("x", value=value)


def test_a_value_stands_once():
    with pytest.raises(ParameterError, match="twice"):
        Rule("x", (("a", 1), ("a", 2)))


@given(RULES)
def test_a_stored_rule_is_read_back(rule):
    assert Rule.read(json.loads(dump_json(rule.as_dict()))) == rule


@given(st.text(min_size=1))
def test_a_sentence_of_an_older_file_is_a_rule_that_says_it(sentence):
    rule = Rule.read(sentence)
    assert (rule.code, str(rule)) == ("text", sentence)


@pytest.mark.parametrize(
    "stored", ["", 5, None, ["topK"], {}, {"code": ""}, {"code": "x", "values": 3}, {"code": "x", "more": 1}]
)
def test_what_is_no_rule_is_an_error(stored):
    with pytest.raises(ParameterError, match="rule"):
        Rule.read(stored)


def test_a_plugin_declares_its_words(plugin):
    source = 'class Odd:\n    rule_words = {"uneven": "its place {place} is odd", "first": "never asked"}\n'
    plugin(source, odd="Odd")
    assert str(Rule.of("uneven", place=3)) == "its place 3 is odd"
    assert str(Rule.of("first", n=3)) == "beyond the first n=3"  # ours come first


@pytest.mark.parametrize(
    "source", ["class Odd:\n    pass\n", "class Odd:\n    rule_words = 5\n", "raise OSError('no')\n"]
)
def test_a_plugin_without_words_has_plain_ones(plugin, source):
    plugin(source, odd_one="Odd")
    assert str(Rule.of("uneven", place=3)) == "uneven (place=3)"


def test_a_number_too_large_for_its_words_is_shown_plainly():
    assert str(Rule.of("topN", topN=1, includeScore=10**400)).startswith("topN (includeScore=1000")
