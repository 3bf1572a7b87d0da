"""The loader of file formats: all faults at once, each with its line, its field and a suggestion."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from ctxbench.evaluation.experiment import examine
from ctxbench.gate.settings import examine_gate
from ctxbench.io.errors import InputError, ParameterError, UnknownNameError, message_code
from ctxbench.model.formats import FileModel, Source, Texts, field_path, load_file, parsed, validate
from ctxbench.selectors.definitions import read_definition, read_presets


def parse_metric(value: Any) -> str:
    if value == "unknown":
        raise UnknownNameError("metric", value, ["recall"])
    if not isinstance(value, str):
        raise ParameterError(f"a metric is a text, got {value!r}")
    return value.upper()


class Constraint(FileModel):
    noun = "a constraint"
    metric: Annotated[str, parsed(parse_metric, str)] = Field(description="A metric.")
    at_least: float | None = Field(None, ge=0, description="The lower bound.")
    of: Literal["", "base"] = ""

    def faults(self, context: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if self.at_least is None:
            yield (), f"no bound of {self.metric}"
        elif self.at_least > (context or 1):
            yield ("at_least",), "too much"


class Policy(FileModel):
    noun = "a policy"
    about: str = ""
    constraints: Texts[Constraint] = ()


class Policies(FileModel):
    noun = "a policy file"
    name: str = "mine"
    policies: dict[str, Policy | str]
    seed: int = Field(0, ge=0, lt=100)


TEXT = """\
nam: x
policies:
  a:
    constraints:
      - metrix: recall
        at_least: 1
      - {metric: recall, at_least: 5}
      - metric: unknown
        at_least: -1
        of: bas
      - {metric: recall}
  b: 3
seed: true
"""


def faults_of(text: str, folder: Path, **options: Any) -> list[tuple[int, str]]:
    (folder / "p.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_file(Policies, folder / "p.yaml", **options)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_all_faults_are_reported_with_line_field_and_suggestion(tmp_path):
    assert faults_of(TEXT, tmp_path) == [
        (1, "a policy file has no field 'nam'; did you mean 'name'? Known: name, policies, seed"),
        (5, "a constraint has no field 'metrix'; did you mean 'metric'? Known: at_least, metric, of"),
        (7, "too much"),
        (8, "policies.a.constraints[2].metric: unknown metric 'unknown'; Known: recall"),
        (9, "policies.a.constraints[2].at_least must be 0 or more, got -1"),
        (10, "policies.a.constraints[2].of must be 'base', got 'bas'"),
        (11, "no bound of RECALL"),
        (12, "policies.b must be a mapping or a text, got 3"),
        (13, "seed must be a whole number, got True"),
    ]


def test_faults_have_codes(tmp_path):
    (tmp_path / "p.yaml").write_text("nam: x\nseed: 100\n")
    with pytest.raises(InputError) as caught:
        load_file(Policies, tmp_path / "p.yaml")
    assert [message_code(fault.message) for fault in caught.value.faults] == ["CTX2002", "CTX2001", "CTX2003"]


def test_a_right_file_gives_its_content_and_lines(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("policies:\n  a:\n    constraints:\n    - {metric: recall, at_least: 3}\n")
    content, source = load_file(Policies, path, context=5)

    assert content.policies["a"].constraints[0].metric == "RECALL"
    assert source.fault("late", "policies", "a", "constraints", 0).line == 4


@pytest.mark.parametrize(("text", "message"), [("", "the file is empty; "), ("- a\n", "")])
def test_a_file_that_is_no_mapping_is_one_fault(tmp_path, text, message):
    assert faults_of(text, tmp_path) == [(1, f"{message}a policy file is a mapping of name, policies, seed")]


@pytest.mark.parametrize("name", ["\ud800", 1])
def test_a_key_that_pydantic_cannot_name_is_unknown_and_hides_no_other_fault(name):
    data = {"policies": {}, "seed": -1, name: 1}
    content, faults = validate(Policies, data, Source("a.yaml", {(name,): 3}), partial=True)
    assert content is not None
    assert content.seed == 0
    assert [(fault.line, message_code(fault.message)) for fault in faults] == [(0, "CTX2003"), (3, "CTX2001")]
    assert validate(Policies, data, Source())[0] is None
    messages = [fault.message for fault in validate(Policy, {"constraints": [{name: 1}]}, Source())[1]]
    assert any(message.startswith(f"a constraint has no field {name!r}") for message in messages)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (examine, "datasets: [x]\nselectors: [semantic]\n"),
        (examine_gate, "datasets: [x]\nselectors: [semantic]\ngate: {}\n"),
        (read_definition, "name: x\npipeline: {retrieve: dense}\n"),
        (read_presets, "format: 1\ntuned: {dataset: x}\npresets: {}\n"),
    ],
)
def test_a_lone_surrogate_as_a_key_is_an_unknown_field_of_every_file(tmp_path, read, text):
    path = tmp_path / "a.yaml"
    path.write_text(text + '"\\ud800": 1\n', encoding="utf-8")
    try:
        faults = read(path)[1]
    except InputError as error:
        faults = error.faults
    assert [(fault.line, message_code(fault.message)) for fault in faults] == [(text.count("\n") + 1, "CTX2001")]


def test_a_partial_reading_leaves_out_what_is_faulty():
    content, faults = validate(Policies, {"policies": {"a": "x"}, "seed": -1, "nam": 1}, Source(), partial=True)
    assert (content.policies, content.seed, len(faults)) == ({"a": "x"}, 0, 2)
    content, faults = validate(Policies, {"policies": 3, "seed": 5}, Source(), partial=True)
    assert (content.policies, content.seed, len(faults)) == (None, 5, 1)


def test_a_line_of_its_own_holds_for_all_faults():
    _, faults = validate(Constraint, {"metric": 3, "x": 1}, Source("q.jsonl", line=7))
    assert [(fault.path, fault.line) for fault in faults] == [("q.jsonl", 7)] * 2


def test_values_are_not_converted_but_whole_numbers_are_numbers():
    content, _ = validate(Constraint, {"metric": "a", "at_least": 1}, Source())
    assert content.at_least == 1.0
    for value in ("1", True, float("nan"), float("inf")):
        assert validate(Constraint, {"metric": "a", "at_least": value}, Source())[0] is None


class Filled(FileModel):
    noun = "a form"
    user: str = Field("u", min_length=1)
    ids: Texts[Annotated[str, parsed(parse_metric, str)]] = Field((), min_length=1, max_length=2)
    metric: Annotated[str, parsed(parse_metric, str)] = ""

    def faults(self, context: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if context:
            yield ("user",), context


@pytest.mark.parametrize(
    ("data", "message", "code"),
    [
        ({"user": ""}, "user must not be empty", "CTX2010"),
        ({"ids": []}, "ids must not be empty", "CTX2010"),
        ({"user": "\ud83d"}, r"user must be a text without half characters, got '\ud83d'", "CTX2003"),
        ({"ids": ["a", "b", "c"]}, "ids must be at most 2 long, got ['a', 'b', 'c']", "CTX2003"),
        ({"ids": ["a", "unknown"]}, "ids[1]: unknown metric 'unknown'; Known: recall", "CTX2011"),
        ({"metric": 3}, "metric: a metric is a text, got 3", "CTX2011"),
    ],
)
def test_a_fault_names_its_field_in_plain_words(data, message, code):
    (fault,) = validate(Filled, data, Source())[1]
    assert (fault.message, message_code(fault.message)) == (message, code)


def test_half_characters_of_a_message_are_escaped():
    (fault,) = validate(Filled, {}, Source(), context="no \ud83d")[1]
    assert fault.message == r"no \ud83d"


def test_the_path_of_a_field():
    assert field_path(("policies", "a", "constraints", 0, "of")) == "policies.a.constraints[0].of"
    assert field_path(()) == ""


def test_the_schema_holds_what_a_file_holds():
    schema = Policies.model_json_schema()
    assert schema["$defs"]["Constraint"]["properties"]["metric"]["type"] == "string"
    assert schema["additionalProperties"] is False


def test_help_does_not_import_pydantic():
    code = "import sys, ctxbench.__main__ as m\nsys.argv = ['ctxbench', '--help']\n"
    code += "try: m.main()\nexcept SystemExit: pass\n"
    code += "sys.exit('pydantic' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
