"""The JSON Schemas of experiments, selectors, presets, sessions and answers."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

import ctxbench
from ctxbench.evaluation.experiment import ExperimentFile
from ctxbench.io.documents import load_yaml
from ctxbench.selectors.conversations import ExchangeRow, SessionFile
from ctxbench.selectors.definition import PresetsContent
from ctxbench.selectors.definitions import SelectorFile
from ctxbench.selectors.protocol import AnswerRow

MODELS = (ExperimentFile, SelectorFile, PresetsContent, SessionFile, ExchangeRow, AnswerRow)
SHIPPED = sorted((Path(ctxbench.__file__).parent / "selectors" / "shipped").glob("*.yaml"))
EXPERIMENTS = [
    path
    for path in sorted((Path(__file__).parents[2] / "experiments").rglob("*.yaml"))
    if {"datasets:", "selectors:"} <= {line.split(" ")[0] for line in path.read_text("utf-8").splitlines()}
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_has_a_description(model):
    schema = model.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in [schema, *schema.get("$defs", {}).values()]:
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), f"{part['title']}.{name}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_schema_accepts_every_shipped_selector(path):
    jsonschema.validate(load_yaml(path)[0], SelectorFile.model_json_schema())


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_the_schema_accepts_every_experiment_of_the_repository(path):
    data, _ = load_yaml(path)
    if not {"gate", "baseline"} & {*data}:
        jsonschema.validate(data, ExperimentFile.model_json_schema())


@pytest.mark.parametrize(
    "data",
    [
        {"datasets": [], "selectors": ["bm25"]},
        {"datasets": ["d"], "selectors": [{"selector": 5}]},
        {"datasets": ["d"], "selectors": [{"url": "http://x", "timeout": 0}]},
        {"datasets": ["d"], "selectors": ["bm25"], "sead": 1},
    ],
)
def test_the_schema_rejects_faulty_experiments(data):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, ExperimentFile.model_json_schema())
