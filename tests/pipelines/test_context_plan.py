from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.pipelines.code_requests import (
    Broad,
    ContextPlan,
    EntryPointBased,
    Focused,
    Semantic,
    heuristic_plan,
    plan_schema,
    read_intent,
)

TOLD = {
    "keywords": ["auth"],
    "symbols_to_find": ["User"],
    "file_patterns": ["auth"],
    "include_tests": True,
    "max_depth": 2,
    "strategy": {"name": "focused", "symbols": ["User"]},
}


def planned(text: str) -> ContextPlan:
    plan = heuristic_plan(text, read_intent(text))
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    "strategy",
    [Focused(("a",)), Broad(("a", "b*")), EntryPointBased(("main.py",)), Semantic("what", 3)],
)
def test_a_plan_is_read_back_from_its_json(strategy):
    plan = ContextPlan(("k",), ("S",), ("p",), include_tests=False, max_depth=0, strategy=strategy, planner="ollama:m")
    told = json.loads(json.dumps(plan.as_dict()))
    assert told == plan.as_dict()
    assert told["strategy"]["name"] == strategy.name
    assert ContextPlan.of(told) == plan


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"keywords": "auth"}, "keywords must be a list of texts, got a str"),
        ({"keywords": [1]}, "keywords must be a list of texts, got a list"),
        ({"symbols_to_find": None}, "symbols_to_find must be a list of texts, got nothing"),
        ({"include_tests": "yes"}, "include_tests must be true or false, got a str"),
        ({"max_depth": 6}, "max_depth must be a whole number from 0 to 5, got 6"),
        ({"max_depth": True}, "max_depth must be a whole number from 0 to 5, got True"),
        ({"strategy": {"name": "wide"}}, "strategy must be an object whose name is one of focused, broad, entry_poi"),
        ({"strategy": {"name": ["focused"]}}, "strategy must be an object whose name is one of focused, broad, entry_"),
        ({"strategy": {"name": "focused"}}, "symbols must be a list of texts, got nothing"),
        ({"strategy": {"name": "semantic", "query": "a", "top_k": 0}}, "top_k must be a whole number from 1 to 1000"),
        ({"strategy": {"name": "semantic", "top_k": 1}}, "query must be a text, got nothing"),
    ],
)
def test_json_of_another_form_says_what_was_expected(change, fault):
    with pytest.raises(ParameterError, match=fault):
        ContextPlan.of({**TOLD, **change})


def test_what_is_no_object_is_no_plan():
    with pytest.raises(ParameterError, match="a plan must be an object, got a list"):
        ContextPlan.of([TOLD])


def test_terms_are_cleaned_and_their_number_is_bounded():
    plan = ContextPlan.of({**TOLD, "keywords": [" a\n b ", "", "a b", *map(str, range(99))], "more": 1}, "ollama:m")
    assert plan.keywords[:3] == ("a b", "0", "1")
    assert (len(plan.keywords), plan.planner) == (30, "ollama:m")


def test_the_schema_asks_for_what_a_plan_has():
    schema = plan_schema()
    assert list(schema["properties"]) == schema["required"] == list(TOLD)
    names = [one["properties"]["name"]["enum"] for one in schema["properties"]["strategy"]["anyOf"]]
    assert names == [["focused"], ["broad"], ["entry_points"], ["semantic"]]


def test_names_of_symbols_are_found_first():
    plan = planned("Fix the bug in UserService.find_by_email")
    assert plan.strategy == Focused(("UserService.find_by_email",))
    assert (plan.max_depth, plan.include_tests, plan.planner) == (2, True, "heuristic")


def test_files_that_are_named_are_where_to_start():
    plan = planned("tests/test_a.py::test_b fails")
    assert (plan.strategy, plan.file_patterns[0]) == (Focused(("test_b",)), "tests/test_a.py")
    assert planned("fix src/a.py").strategy == EntryPointBased(("src/a.py",))


def test_a_part_is_searched_by_patterns_and_a_question_by_its_meaning():
    plan = planned("Implement authentication")
    assert isinstance(plan.strategy, Broad)
    assert {"authentication", "auth", "login", "session"} <= set(plan.keywords) & set(plan.strategy.patterns)
    assert plan.max_depth == 3
    asked = planned("how does the retry logic work?")
    assert (asked.strategy, asked.include_tests) == (Semantic("how does the retry logic work?", 20), False)


@pytest.mark.parametrize("text", ["", "do it", "??? 12"])
def test_a_request_that_says_nothing_has_no_plan(text):
    assert heuristic_plan(text, read_intent(text)) is None


def test_files_that_a_plan_names_become_paths_of_the_tree_and_others_are_told():
    paths = {"a.py": ("src/a.py", "test/a.py"), "src/b.py": ("src/b.py",)}
    told = {**TOLD, "file_patterns": ["auth", "src/*.py", "a.py", "gone.py", "src/core"]}
    plan = ContextPlan.of({**told, "strategy": {"name": "entry_points", "entry_files": ["src/b.py", "no/such"]}})
    found, gone = plan.over(lambda name: paths.get(name, ()))
    assert found.file_patterns == ("auth", "src/*.py", "src/a.py", "test/a.py", "src/core")
    assert found.strategy == EntryPointBased(("src/b.py",))
    assert gone == ("gone.py", "no/such")
