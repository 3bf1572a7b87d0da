"""The JSON Schemas of file formats are current, accept what is shipped and reject files of a wrong structure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ctxbench.io.documents import iter_jsonl, load_yaml
from ctxbench.io.errors import Fault, UserError, raise_faults
from ctxbench.model.formats import FORMATS, SCHEMAS, json_schema
from tests.faulty.cases import FACTS, Case, read_cases

ROOT = Path(__file__).parents[2]
FILES = {  # the shipped files of each format
    "corpus": ("datasets/*/corpus.jsonl", "tests/fixtures/*/corpus.jsonl"),
    "dataset": ("datasets/*/dataset.yaml", "tests/fixtures/*/dataset.yaml"),
    "policies": tuple(f"experiments/tuning/{name}.yaml" for name in ("assembly", "own-weights", "presets")),
    "queries": ("datasets/*/queries.jsonl", "tests/fixtures/*/queries.jsonl"),
    "experiment": ("experiments/*.yaml", "experiments/own-selector/experiment.yaml"),
    "gate": ("experiments/gate/gate.yaml",),
    "selector": ("ctxbench/selectors/shipped/*.yaml",),
}
FAULTY = {
    "agent.yaml": "agent",
    "corpus.jsonl": "corpus",
    "dataset.yaml": "dataset",
    "experiment.yaml": "experiment",
    "gate.yaml": "gate",
    "policy.yaml": "policies",
    "presets.yaml": "presets",
    "queries.jsonl": "queries",
    "mine.yaml": "selector",
}
# Faults in what a file names or in how its values agree, which no schema can tell.
NOT_STRUCTURAL = {
    "agent": """empty-sources include-bad-id include-rule-as-tool include-unknown-server include-unknown-tool
        missing-references missing-rules missing-tools selector-answers selector-callable-missing
        selector-callable-without-colon selector-command-text selector-unknown-kind selector-url
        settings-negative settings-of-own-selector settings-text settings-unknown system-folder
        system-missing unknown-preset unknown-selector""",
    "dataset": """corpus-bad-id corpus-empty corpus-id-of-another-type corpus-item-twice corpus-unescaped-id
        queries-available-unknown queries-empty queries-group-over-splits queries-id-space queries-id-twice
        queries-same-text queries-session-unknown queries-unknown-scope queries-unknown-split
        yaml-counts-wrong yaml-scope-bad-item yaml-scope-unknown-item yaml-unknown-count""",
    "experiment": """datasets-twice like-itself like-unknown metric-cutoff metric-twice name-empty name-path no-retrieve
        old-metric old-preset parameter-infinite parameter-negative parameter-text same-name-twice
        selector-without-kind several step-parameter-negative unknown-comparison unknown-counter
        unknown-dataset unknown-embedder unknown-metric unknown-parameter unknown-preset unknown-selector
        unknown-split unknown-stage unknown-step-parameter unknown-strategy""",
    "gate": """minimum-of-tokens minimum-over-one minimum-unknown-metric
        metric-twice metrics-empty pin-bad-id pin-contradicts pin-not-included-unknown pin-of-both
        pin-of-nothing pin-unknown-item pin-unknown-query pin-unknown-tag pin-without-demand tolerance-nan
        tolerance-negative tolerance-over-one tolerance-percent tolerance-percent-broken tolerance-text
        tolerance-unknown unknown-dataset unknown-embedder unknown-metric unknown-selector""",
    "policy": """constraint-both-limits constraint-negative constraint-no-limit constraint-twice
        constraint-unknown-metric name-path no-objective objective-of-ranks search-negative
        search-unknown selector-twice two-objectives unknown-counter unknown-embedder
        unknown-objective unknown-preset unknown-selector""",
    "presets": """definition-faulty definition-lacks-parameter definition-narrowed newer-format no-selector no-set
        parameter-range parameter-text tuned-no-dataset unknown-parameter unknown-selector""",
    "selector": """calibration-empty calibration-list calibration-missing calibration-version choices-default-unknown
        choices-empty choices-out-of-range choices-unknown-parameter default-out-of-range default-text
        graph-damaged graph-missing needs-itself needs-unknown no-default no-retrieve pipeline-empty
        pipeline-list preset-out-of-range preset-unknown-parameter range-missing range-reversed
        refine-mapping retrieve-number step-parameter-range step-parameter-text step-text
        step-with-two-names template-unknown unknown-analyse unknown-refine unknown-retrieve unknown-stage
        unknown-step-parameter unknown-variable unused-parameter""",
}


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def values_of(path: Path) -> Iterator[Any]:
    """The content of a file: one value, or one for each row; none if it cannot be parsed."""
    faults: list[Fault] = []
    if path.suffix == ".jsonl":
        yield from (row for _, row in iter_jsonl(path, faults))
        raise_faults(faults)
    else:
        yield load_yaml(path)[0]


@pytest.mark.parametrize("name", FORMATS)
def test_the_committed_schema_is_current(name):
    committed = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    assert committed == json_schema(name), "run `make schemas`"


@pytest.mark.parametrize("name", FILES)
def test_every_shipped_file_is_valid(name):
    paths = sorted(path for pattern in FILES[name] for path in ROOT.glob(pattern))
    assert paths
    faults = [f"{path}: {error.message}" for path in paths for value in values_of(path)
              for error in validator(name).iter_errors(value)]  # fmt: skip
    assert faults == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_is_described(name):
    schema = json_schema(name)
    objects = [schema, *schema.get("$defs", {}).values()]
    assert [field for part in objects for field, about in part.get("properties", {}).items()
            if "description" not in about] == []  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        (
            "redaction",
            {"patterns": [{"kind": "order", "pattern": "A[0-9]+"}], "keep": ["A1"], "without": ["mail"]},
            True,
        ),
        ("redaction", {"patterns": [{"kind": "order"}]}, False),
        ("redaction", {"keeps": ["A1"]}, False),
        ("renames", {"tool:a:x": "tool:b:x"}, True),
        ("renames", {"tool:a:x": ["tool:b:x"]}, False),
        ("tokens", {"0123456789abcdef": "ann", "fedcba9876543210": None}, True),
        ("tokens", {"0123456789abcdef": 1}, False),
    ],
)
def test_files_that_nothing_ships_are_accepted_by_their_form(name, value, is_valid):
    assert validator(name).is_valid(value) is is_valid


def is_accepted(case: Case, folder: Path, cache_folder: Path) -> bool | None:
    """Whether the schema accepts the edited file of a case; None where it has no schema or cannot be parsed."""
    target = case.edits[0].get("in", next(iter(case.files), "")) if case.edits else ""
    if Path(target).name not in FAULTY:
        return None
    case.write(folder, cache_folder)
    try:
        values = list(values_of(folder / target))
        return all(validator(FAULTY[Path(target).name]).is_valid(value) for value in values)
    except (UserError, OSError):
        return None


def test_files_of_a_wrong_structure_are_rejected(tmp_path):
    recorded = {row["id"]: row for row in map(json.loads, FACTS.read_text("utf-8").splitlines())}
    accepted, n_rejected = set(), 0
    for case in read_cases():
        if case.id.partition("/")[0] in NOT_STRUCTURAL and recorded[case.id]["error"] != "none":
            (tmp_path / case.id).mkdir(parents=True)
            result = is_accepted(case, tmp_path / case.id, tmp_path)
            n_rejected += result is False
            accepted |= {case.id} if result else set()
    expected = {f"{format_}/{name}" for format_, names in NOT_STRUCTURAL.items() for name in names.split()}
    assert accepted == expected
    assert n_rejected >= 130


def test_the_valid_file_of_the_faulty_ones_is_accepted():
    case = next(case for case in read_cases() if case.id.startswith("agent/"))
    assert validator("agent").is_valid(yaml.safe_load(case.files["agent.yaml"]))
