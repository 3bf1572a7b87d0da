from __future__ import annotations

import dataclasses
import math
import sys

import pytest

from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model import registry

PLUGIN = """
from dataclasses import dataclass
from typing import Any, Literal

@dataclass(frozen=True)
class Margin:
    margin: float = 0.1

@dataclass(frozen=True)
class Made:
    count: int
    share: float = 0.5
    label: str = ""
    flag: bool = False
    limit: int | None = None
    names: tuple[str, ...] = ()
    pool: Literal["max", "mean"] = "max"
    anything: Any = None
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution: a module `margins`, and entry points given as text."""

    def write(entry_points: str) -> None:
        (tmp_path / "margins.py").write_text(PLUGIN)
        info = tmp_path / "margins-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: margins\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)
        registry._plugins.cache_clear()

    yield write
    sys.modules.pop("margins", None)
    registry._plugins.cache_clear()


@pytest.fixture
def made(install):
    install("[ctxbench.cut]\nmade = margins:Made\n")
    return lambda given: registry.build("cut", "made", given)


def test_every_built_in_strategy_can_be_imported():
    for kind in ("analyse", "retrieve", *registry.REFINE_KINDS, "format"):
        for name in registry.names(kind):
            assert dataclasses.is_dataclass(registry.find(kind, name)), (kind, name)


def test_an_unknown_name_names_the_closest():
    with pytest.raises(UnknownNameError, match="unknown retrieve strategy 'bm52'; did you mean 'bm25'"):
        registry.find("retrieve", "bm52")


def test_a_refining_strategy_is_found_without_its_kind():
    assert registry.refine_kind("standard") == "cut"
    with pytest.raises(UnknownNameError, match="unknown refine strategy 'standart'; did you mean 'standard'"):
        registry.refine_kind("standart")


def test_plugins_come_in_by_entry_points(install):
    install("[ctxbench.cut]\nmy_margin = margins:Margin\n")
    assert {"first", "my_margin", "standard"} <= set(registry.names("cut"))
    assert registry.refine_kind("my_margin") == "cut"
    assert registry.build("cut", "my_margin", {"margin": 0.5}).margin == 0.5


def test_a_plugin_cannot_take_a_name_that_is_taken(install):
    install("[ctxbench.cut]\nfirst = margins:Margin\n")
    with pytest.raises(ParameterError, match="two strategies of kind cut are called 'first'"):
        registry.names("cut")


@pytest.mark.parametrize("wrong", ["raise SystemExit(0)", "raise ValueError('no idea')", "import not_there", "1 +"])
def test_a_plugin_that_cannot_be_imported_is_a_fault_that_is_named(install, tmp_path, wrong):
    install("[ctxbench.cut]\nbroken = broken_margins:Margin\n")
    (tmp_path / "broken_margins.py").write_text(f"{wrong}\n")
    with pytest.raises(
        ParameterError, match=r"cut strategy 'broken' \(broken_margins:Margin\) cannot be imported: \w+"
    ):
        registry.build("cut", "broken", {})


def test_a_plugin_that_is_no_dataclass_is_a_fault_that_is_named(install):
    install("[ctxbench.cut]\nint = builtins:int\n")
    with pytest.raises(ParameterError, match=r"cut strategy 'int' \(builtins:int\) cannot be made: TypeError"):
        registry.build("cut", "int", {})


def test_a_built_in_is_found_without_reading_entry_points(monkeypatch):
    monkeypatch.setattr(registry, "_plugins", lambda kind: pytest.fail(f"read the plugins of {kind}"))
    registry.find("cut", "first")


def test_parameters_have_defaults(made):
    step = made({"count": 3})
    assert registry.parameters(step) == {
        "count": 3, "share": 0.5, "label": "", "flag": False, "limit": None, "names": (),
        "pool": "max", "anything": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [{"share": 1}, {"share": 0.25}, {"limit": 3}, {"limit": None}, {"flag": True}, {"names": ("a",)}, {"label": "x"}],
)
def test_values_of_the_right_type_are_taken(made, given):
    name, value = next(iter(given.items()))
    assert registry.parameters(made({"count": 1, **given}))[name] == value


def test_a_list_becomes_a_tuple_so_that_equal_steps_are_equal(made):
    assert made({"count": 1, "names": ["a", "b"]}) == made({"count": 1, "names": ("a", "b")})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "made needs a value for count"),
        ({"count": 1, "conut": 2}, "made has no parameter 'conut'; did you mean 'count'"),
        ({"count": 1, 7: 2}, "made has no parameter 7"),
        ({"count": "1"}, "count must be a whole number, got '1'"),
        ({"count": 1.0}, "count must be a whole number, got 1.0"),
        ({"count": True}, "count must be a whole number, got True"),
        ({"count": None}, "count must be a whole number, got None"),
        ({"count": 1, "share": True}, "share must be a number, got True"),
        ({"count": 1, "share": math.nan}, "share must be a number, got NaN"),
        ({"count": 1, "flag": 1}, "flag must be true or false, got 1"),
        ({"count": 1, "limit": "x"}, "limit must be a whole number or nothing, got 'x'"),
        ({"count": 1, "names": "ab"}, "names must be a list, got 'ab'"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_said(made, given, message):
    with pytest.raises(ParameterError) as caught:
        made(given)
    assert str(caught.value).startswith(message)


def test_a_choice_is_one_of_its_values(made):
    assert registry.build("cut", "made", {"count": 1, "pool": "mean", "anything": object}).pool == "mean"
    with pytest.raises(ParameterError, match=r"pool must be one of 'max', 'mean', got 'sum'"):
        registry.build("cut", "made", {"count": 1, "pool": "sum"})


def test_every_entry_of_a_list_is_looked_at(made):
    with pytest.raises(ParameterError, match="names must be a list"):
        registry.build("cut", "made", {"count": 1, "names": ["a", 2]})


def test_infinity_is_no_number_of_a_parameter(made):
    with pytest.raises(ParameterError, match="share must be a number, got inf"):
        registry.build("cut", "made", {"count": 1, "share": math.inf})


def test_code_that_is_not_ours_is_told_apart_by_its_source(made, tmp_path):
    strategy = registry.find("cut", "made")
    before = registry.foreign_code(strategy)
    (tmp_path / "margins.py").write_text(PLUGIN + "# changed\n")
    assert before.startswith("margins:Made ")
    assert registry.foreign_code(strategy) != before
    assert registry.foreign_code(registry.find("cut", "standard")) is None


def test_a_chunking_rule_that_is_not_ours_is_said_by_the_steps_that_use_it(install):
    from ctxbench.gate.settings import plugin_steps
    from ctxbench.pipelines.pipeline import Pipeline
    from ctxbench.selectors.selector import PipelineSelector

    install("[ctxbench.chunk]\nmade = margins:Margin\n")
    for made in (
        {"analyse": "sentences", "retrieve": {"dense": {"chunks": "made"}}},
        {"analyse": {"sentences": {}}, "retrieve": "dense", "refine": [{"mmr": {"chunks": "made"}}]},
        {"analyse": [{"history": {"rule": "made"}}], "retrieve": "dense"},
    ):
        assert plugin_steps(PipelineSelector("made", Pipeline.of(made), None)) == ("margins:Margin",), made
    ours = Pipeline.of({"analyse": "sentences", "retrieve": "dense"})
    assert plugin_steps(PipelineSelector("ours", ours, None)) == ()


def test_the_fields_of_a_dataclass_are_held_to_their_annotations():
    @dataclasses.dataclass
    class Asked:
        count: int
        share: float | None = None

    registry.check_fields(Asked(1, 0.5))
    with pytest.raises(ParameterError, match="share must be a number or nothing, got 'half'"):
        registry.check_fields(Asked(1, "half"))
