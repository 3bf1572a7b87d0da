from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.io import errors
from ctxbench.io.errors import (
    Fault,
    InputError,
    StorageError,
    UnknownNameError,
    UserError,
    faults_of,
    raise_faults,
    suggest,
)


def test_every_fault_of_the_user_is_a_user_error_and_exits_with_2():
    for name in ("ParameterError", "UnknownNameError", "EmbeddingError", "StorageError", "SelectorError", "InputError"):
        kind = getattr(errors, name)
        assert issubclass(kind, UserError)
        assert kind.exit_code == 2


def test_errors_can_be_caught_as_the_built_in_they_are():
    assert issubclass(errors.ParameterError, ValueError)
    assert issubclass(UnknownNameError, LookupError)


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (Fault("topN must be 0 or more"), "topN must be 0 or more"),
        (Fault("twice", "a.yaml"), "twice (a.yaml)"),
        (Fault("twice", Path("b") / "a.yaml", 3), f"twice ({Path('b') / 'a.yaml'}, line 3)"),
        (Fault("twice", "a.yaml", 3, 7), "twice (a.yaml, line 3, column 7)"),
        (Fault("twice", "a.yaml", 0, 7), "twice (a.yaml)"),
    ],
)
def test_a_fault_says_where_it_stands_as_far_as_it_is_known(fault, shown):
    assert str(fault) == shown


def test_the_place_of_a_fault_is_told_alone_too():
    assert Fault("twice", "a.yaml", 3, 7).location == "a.yaml, line 3, column 7"
    assert Fault("twice", line=3).location == ""


def test_every_error_is_a_list_of_faults():
    faults = (Fault("one", "a.yaml", 1), Fault("two"))
    assert faults_of(InputError(faults, subject="dataset tiny")) == faults
    assert faults_of(StorageError("cannot read a.yaml")) == (Fault("cannot read a.yaml"),)


def test_an_input_error_lists_every_fault():
    error = InputError([Fault("one", "a.yaml", 1), Fault("two")], subject="dataset tiny")
    assert str(error) == "dataset tiny: 2 faults\n  one (a.yaml, line 1)\n  two"
    assert str(InputError([Fault("one"), Fault("two")])) == "2 faults\n  one\n  two"
    assert str(InputError([Fault("one")], subject="requests")) == "requests: 1 fault\n  one"
    assert str(InputError([Fault("one", "a.yaml", 1)])) == "one (a.yaml, line 1)"
    assert [fault.message for fault in error.faults] == ["one", "two"]


def test_an_input_error_prints_fifty_faults_and_keeps_all():
    error = InputError([Fault(f"fault {n}") for n in range(7_712)])
    assert str(error).split("\n")[0] == "7712 faults"
    assert str(error).split("\n")[50:] == ["  fault 49", "  and 7662 more"]
    assert len(error.faults) == 7_712
    assert "more" not in str(InputError([Fault(f"fault {n}") for n in range(50)]))


def test_an_input_error_without_a_fault_is_a_bug():
    with pytest.raises(ValueError, match="at least one fault"):
        InputError([])


def test_an_unknown_name_names_the_closest_and_the_known_ones():
    error = UnknownNameError("preset", "agressive", ["normal", "aggressive"], where=" of selector 'semantic'")
    assert str(error) == (
        "unknown preset 'agressive' of selector 'semantic'; did you mean 'aggressive'? Known: aggressive, normal"
    )
    assert error.name == "agressive"
    assert error.known == ("normal", "aggressive")


def test_a_suggestion_without_anything_close_lists_what_there_is():
    assert suggest("xyz", ["b", "a"]) == "; Known: a, b"
    assert suggest("xyz", []) == "; none are known"
    assert suggest("ab", ["b", "ac"], listed=False) == "; did you mean 'b' or 'ac'?"
    assert suggest("xyz", ["b", "a"], listed=False) == ""
    assert suggest("x", [f"name{n:02}" for n in range(13)]).endswith("name11, ...")


def test_faults_are_raised_if_there_are_any():
    raise_faults([], subject="file")
    with pytest.raises(InputError, match=r"file: 1 fault\n  wrong"):
        raise_faults([Fault("wrong")], subject="file")


def test_an_old_name_is_answered_with_the_new_one():
    assert suggest("documents", ["spec", "normal"]) == "; its name is now 'spec'. Known: normal, spec"
    assert suggest("wrong_siblings", ["same_server_confusions"], listed=False).startswith(
        "; its name is now 'same_server"
    )
    assert suggest("fit", ["normal"]) == "; Known: normal", "where nothing was renamed to, it is any other name"
