"""Policy files: what one means, and every fault of one at once, with its line."""

from __future__ import annotations

import hashlib

import jsonschema
import numpy as np
import pytest
import yaml

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import METRICS, Metric
from ctxbench.io.errors import InputError, StorageError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.tuning.inputs import unanswerable
from ctxbench.tuning.policy import SET_METRICS, Constraint, PolicyFile, read_policies

WHOLE = """\
name: presets
about: sizes of context
selectors:
  - semantic
  - {selector: semantic, name: expanded, set: {contextExpansionEnabled: true}, search: {contextExpansionDepth: [1, 2]}}
  - {selector: own/probability.yaml}
  - {answers: my-answers.jsonl}
policies:
  aggressive:
    about: smallest
    minimise: tokens
    constraints:
      - {metric: completeness, at_least: 0.8, of: reachable}
      - {metric: COMPLETENESS_OF, at_least: 0.5}
  within-4000:
    maximise: completeness
    constraints:
      - {metric: tokens, at_most: 4000}
      - {metric: items, at_most: 0.5, of: base}
embedder: hashing
tokens: chars/4
seed: 7
sample: 1000
labels: all
trials: 10
confidence: 0.9
together: true
""".replace("COMPLETENESS_OF", "recall")


def write(tmp_path, text):
    path = tmp_path / "policies.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(tmp_path, text):
    """(line, message) of every fault, in the order in which they are told."""
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_policies(path)
    assert {fault.path for fault in caught.value.faults} == {path}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def of_policy(tmp_path, *rows):
    """Faults of a policy whose rows stand from line 4 on."""
    return faults(tmp_path, "selectors: [semantic]\npolicies:\n  p:\n" + "\n".join(f"    {row}" for row in rows))


def of_constraints(tmp_path, *rows, aim="minimise: tokens"):
    """Faults of constraints, one a line from line 6 on, beside one on line 5 that is right."""
    right = "- {metric: recall, at_least: 0.5}" if "min" in aim else "- {metric: tokens, at_most: 9000}"
    return of_policy(tmp_path, aim, "constraints:", f"  {right}", *(f"  - {row}" for row in rows))


# ---------------------------------------------------------------------------------------------- what a file means


def test_a_file_says_what_is_tuned_and_how(tmp_path):
    file = read_policies(write(tmp_path, WHOLE))
    assert (file.name, file.about, file.base) == ("presets", "sizes of context", tmp_path)
    assert (file.embedder, file.tokens, file.seed, file.sample) == ("hashing", "chars/4", 7, 1000)
    assert (file.labels, file.trials, file.confidence, file.together) == ("all", 10, 0.9, True)
    assert file.hash == hashlib.sha256(WHOLE.encode()).hexdigest()
    assert [entry.model_dump(exclude_unset=True) for entry in file.selectors] == [
        {"name": "semantic", "selector": "semantic"},
        {
            "name": "expanded",
            "selector": "semantic",
            "set": {"contextExpansionEnabled": True},
            "search": {"contextExpansionDepth": (1, 2)},
        },
        {"name": "probability", "selector": "own/probability.yaml"},
        {"name": "my-answers"},
    ]
    assert file.selectors[3].external == {"answers": "my-answers.jsonl"}
    smallest, within = file.policies.values()
    assert (smallest.name, smallest.about, smallest.objective) == ("aggressive", "smallest", Metric("tokens"))
    assert (smallest.minimise, within.maximise) == (Metric("tokens"), Metric("completeness"))
    assert smallest.constraints == (
        Constraint(metric=Metric("completeness"), at_least=0.8, of="reachable"),
        Constraint(metric=Metric("recall"), at_least=0.5),
    )
    assert [str(one) for one in within.constraints] == ["tokens <= 4000", "items <= 0.5 times the base's"]
    assert file.fault("x", "policies", "within-4000").line == 15


def test_what_is_left_out_has_its_default(tmp_path):
    file = read_policies(
        write(
            tmp_path,
            "selectors: [semantic]\npolicies: {p: {minimise: tokens, constraints: [{metric: recall, at_least: 0.5}]}}",
        )
    )
    assert (file.name, file.about, file.embedder, file.tokens) == ("policies", "", "minilm", "o200k")
    assert (file.seed, file.sample, file.labels, file.trials) == (0, 0, "", 64)
    assert (file.confidence, file.together) == (0.95, False)
    assert file.policies["p"].constraints[0].of == ""


def test_null_is_the_default_sample(tmp_path):
    path = tmp_path / "p.yaml"
    policy = "{minimise: tokens, constraints: [{metric: recall, at_least: 0.9}]}"
    path.write_text(f"selectors: [semantic]\nsample:\npolicies: {{p: {policy}}}", encoding="utf-8")
    assert read_policies(path).sample == 0


def test_the_metrics_that_a_cut_changes_are_those_of_what_is_offered():
    assert "completeness" in SET_METRICS
    assert "tokens" in SET_METRICS
    ranked = {"nDCG", "R", "Comp", "P", "RR", "AP", "Success", "Chance", "BoR"}
    assert {*SET_METRICS} == {*METRICS} - ranked - {"model_tokens", "model_seconds"}


def test_the_schema_describes_every_field_and_accepts_a_whole_file():
    schema = PolicyFile.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    fields = {name: field for model in models for name, field in model["properties"].items()}
    assert [name for name, field in fields.items() if "description" not in field] == []
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(yaml.safe_load(WHOLE))
    for text in ("trials: 10", "at_least: 0.8", "minimise: tokens", "selectors:"):
        assert not validator.is_valid(yaml.safe_load(WHOLE.replace(text, text.replace(":", "s:", 1))))


# ---------------------------------------------------------------------------------------------- faults


def test_a_file_must_be_a_mapping(tmp_path):
    keys = "name, about, selectors, policies, embedder, tokens, seed, sample, labels, trials, confidence, together"
    keys += ", shipped"
    assert faults(tmp_path, "") == [(1, f"the file is empty; a policy file is a mapping of {keys}")]
    assert faults(tmp_path, "- a") == [(1, f"a policy file is a mapping of {keys}")]
    with pytest.raises(StorageError):
        read_policies(tmp_path / "none.yaml")


def test_everything_wrong_is_said_at_once(tmp_path):
    text = (
        "name: a/b\nabout: 1\nselektors: [a]\nembedder: 2\nseed: -1\nsample: 0\nlabels: some\ntrials: 0\n"
        "confidence: 95\ntogether: 1\npolicies: {}\n"
    )
    found = faults(tmp_path, text)
    assert [line for line, _ in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], "a misspelt key is wrong once"
    values = ("'a/b'", "1", "'selektors'", "2", "-1", "0", "'some'", "0", "95", "1", "policies")
    assert all(value in message for (_, message), value in zip(found, values, strict=True))
    assert found[2][1].startswith("a policy file has no field 'selektors'; did you mean 'selectors'?")


def test_selectors_are_checked_in_form(tmp_path):
    entries = [
        "1",
        "{selector: a, answers: b}",
        "{name: x}",
        "{selector: '', set: [1]}",
        "{selector: a, search: {k: 5}}",
        "{selector: a, search: {k: [1, 1]}}",
        "{selector: a, set: {k: 1}, search: {k: [1]}}",
        "{answers: a.jsonl, set: {k: 1}}",
        "good",
        "good",
        "{selector: good, name: ..}",
        "{selector: good, nam: x}",
    ]
    policies = "policies: {p: {minimise: tokens, constraints: [{metric: recall, at_least: 0.5}]}}\n"
    found = faults(tmp_path, policies + "selectors:\n" + "\n".join(f"  - {entry}" for entry in entries))
    starts = [
        (3, "selectors[0] must be a mapping, got 1"),
        (4, "a selector needs exactly one of selector, answers, callable, command, url"),
        (5, "a selector needs exactly one of selector, answers, callable, command, url"),
        (6, "selectors[3].selector must not be empty"),
        (6, "selectors[3].set must be a mapping, got [1]"),
        (7, "selectors[4].search.k must be a list, got 5"),
        (8, "search: k has 1 twice"),
        (9, "k is in `set` and in `search`"),
        (10, "a selector by answers has no "),
        (13, "selectors[10].name: a name must not be empty, contain a slash or begin with a dot"),
        (14, "a selector has no field 'nam'"),
    ]
    assert [(line, message[: len(start)]) for (line, message), (_, start) in zip(found, starts, strict=True)] == starts


def test_two_selectors_of_one_name(tmp_path):
    policies = "policies: {p: {minimise: tokens, constraints: [{metric: recall, at_least: 0.5}]}}\n"
    ((line, message),) = faults(tmp_path, policies + "selectors:\n  - good\n  - good\n")
    assert (line, message.key) == (4, "tuning.selector-twice")


def test_a_selector_outside_competes_with_the_options_that_it_has_in_an_experiment(tmp_path):
    policies = "policies: {p: {minimise: tokens, constraints: [{metric: recall, at_least: 0.5}]}}\n"
    entries = [
        "{command: [python, r.py], timeout: 3}",
        "{callable: 'mine.py:rank'}",
        "{url: 'http://x:1/', name: far}",
    ]
    file = read_policies(write(tmp_path, policies + "selectors:\n" + "\n".join(f"  - {entry}" for entry in entries)))
    assert [one.name for one in file.selectors] == ["r", "rank", "far"]
    assert [dict(one.external) for one in file.selectors] == [
        {"command": ["python", "r.py"], "timeout": 3},
        {"callable": "mine.py:rank"},
        {"url": "http://x:1/", "name": "far"},
    ]


def test_what_is_wrong_with_a_selector_outside_is_said_where_it_stands(tmp_path):
    policies = "policies: {p: {minimise: tokens, constraints: [{metric: recall, at_least: 0.5}]}}\n"
    entries = ["{command: x, timeot: 3}", "{command: 3}", "{command: []}", "{command: x, fit: own}", "{url: ''}"]
    found = faults(tmp_path, policies + "selectors:\n" + "\n".join(f"  - {entry}" for entry in entries))
    assert [(line, message.split(",")[0].split(";")[0]) for line, message in found] == [
        (3, "a selector by command has no field 'timeot'"),
        (4, "command must be a list or a text"),
        (5, "command must not be empty"),
        (6, "a selector by command has no field 'fit'"),
        (7, "url must not be empty"),
    ]


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        (["maximize: tokens"], 4, "a policy has no field 'maximize'; did you mean 'maximise'"),
        (["about: x"], 3, "a policy needs one of minimise and maximise"),
        (
            ["minimise: tokens", "maximise: recall"],
            5,
            "a policy needs one of minimise and maximise",
        ),
        (["about: [1]", "minimise: tokens"], 4, "policies.p.about must be a text, got [1]"),
        (["minimise: 4"], 4, "expected the name of a metric, got 4"),
        (["minimise: token"], 4, "unknown metric 'token'; did you mean 'tokens'"),
        (["maximise: nDCG@10"], 4, "nDCG@10 does not depend on the cut; expected one of compl"),
        (["maximise: nDCG@0"], 4, "the cutoff of 'nDCG' must be 1 to 1000, got 0"),
        (["maximise: Comp"], 4, "metric 'Comp' needs a cutoff, as in 'Comp@5'"),
        (["minimise: tokens", "constraints: {}"], 5, "policies.p.constraints must be a list, got {}"),
        (["minimise: tokens", "constraints: [4]"], 5, "policies.p.constraints[0] must be a mapping, got 4"),
        (["minimise: tokens"], 4, "the constraints allow to offer nothing"),
        (
            ["minimise: tokens", "constraints: [{metric: items, at_most: 3}, {metric: abstention, at_least: 0.9}]"],
            4,
            "the constraints allow to offer nothing",
        ),
        (["maximise: completeness"], 4, "no constraint limits what is offered"),
        (["maximise: precision"], 4, "no constraint limits what is offered"),
        (
            ["maximise: recall", "constraints: [{metric: completeness, at_least: 0.9}]"],
            4,
            "no constraint limits what is offered",
        ),
        (["minimise: recall"], 4, "recall is better if higher"),
        (["maximise: tokens"], 4, "tokens is better if lower"),
    ],
)
def test_a_policy_must_have_an_aim_that_something_holds_back(tmp_path, rows, line, message):
    ((found, said),) = of_policy(tmp_path, *rows)
    assert found == line
    assert message in said


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{at_least: 0.5}", "a constraint needs the field 'metric'"),
        ("{metric: recal, at_least: 0.5}", "unknown metric 'recal'; did you mean 'recall'"),
        ("{metric: R@5, at_least: 0.5}", "R@5 does not depend on the cut"),
        ("{metric: model_tokens, at_most: 50}", "model_tokens does not depend on the cut"),
        ("{metric: recall}", "a constraint needs one of at_least and at_most"),
        (
            "{metric: items, at_least: 1, at_most: 3}",
            "a constraint needs one of at_least and at_most",
        ),
        ("{metric: items, at_most: much}", "policies.p.constraints[1].at_most must be a number, got 'much'"),
        ("{metric: items, at_most: true}", "policies.p.constraints[1].at_most must be a number, got True"),
        ("{metric: items, atmost: 3}", "a constraint has no field 'atmost'; did you mean 'at_most'"),
        ("{metric: completeness, at_least: 90}", "at_least of completeness must be from 0 to below 1, got 90"),
        ("{metric: precision, at_least: -0.1}", "at_least of precision must be from 0 to below 1, got -0.1"),
        ("{metric: items, at_most: -1}", "at_most of items must be 0 or more, got -1"),
        ("{metric: completeness, at_least: 1}", "at_least of completeness must be from 0 to below 1, got 1"),
        ("{metric: false_inclusion, at_most: 0}", "at_most of false_inclusion must be above 0 to 1, got 0"),
        ("{metric: tokens, at_most: 0, of: base}", "at_most of tokens must be above 0, got 0"),
        ("{metric: recall, at_least: 0.4, of: reachable}", "of: reachable is a share of completeness; recall has none"),
        (
            "{metric: tokens, at_most: 5, of: bases}",
            "policies.p.constraints[1].of must be 'reachable' or 'base', got 'bases'",
        ),
        ("{metric: tokens, at_most: 5, by: mean}", "a constraint has no field 'by'"),
        ("{metric: recall, at_most: 0.4}", "recall <= 0.4 contradicts recall >= 0.5"),
        ("{metric: recall, at_least: 0.6}", "recall >= 0.6 and recall >= 0.5 have the same kind of bound"),
    ],
)
def test_constraints_must_be_ones_that_can_be_met(tmp_path, row, message):
    found = of_constraints(tmp_path, row)
    assert found[0][0] == 7
    assert message in found[0][1]


@pytest.mark.parametrize(
    "rows",
    [
        ["{metric: recall, at_most: 0.6}"],
        ["{metric: recall, at_most: 0.4, of: base}"],
        ["{metric: completeness, at_least: 0.9}", "{metric: completeness, at_least: 0.4, of: reachable}"],
        ["{metric: abstention, at_least: 0.9}", "{metric: completeness, at_least: 0.9}"],
        ["{metric: completeness, at_least: 1.2, of: base}"],
    ],
)
def test_constraints_that_only_differ_contradict_nothing(tmp_path, rows):
    text = "selectors: [semantic]\npolicies:\n  p:\n    minimise: tokens\n    constraints:\n"
    listed = "".join(f"      - {row}\n" for row in ["{metric: recall, at_least: 0.5}", *rows])
    assert len(read_policies(write(tmp_path, text + listed)).policies["p"].constraints) == 1 + len(rows)


def test_policies_are_called_what_a_file_may_be_called(tmp_path):
    rest = "{minimise: tokens, constraints: [{metric: recall, at_least: 0.5}]}"
    text = f"selectors: [semantic]\npolicies:\n  a/b: {rest}\n  .c: {rest}\n  d: {rest}\n  e: 5\n"
    assert [(line, message.split(",")[0]) for line, message in faults(tmp_path, text)] == [
        (3, "policies.a/b: a name must not be empty"),
        (4, "policies..c: a name must not be empty"),
        (6, "policies.e must be a mapping"),
    ]
    assert faults(tmp_path, text.replace(".c", "d"))[0][1] == "key 'd' occurs twice in one mapping"


# ---------------------------------------------------------------------------------------------- labels


def labels_of(*graded, nothing=0, via="direct"):
    """Labels of queries that have one item of each of these grades, and of some that need nothing."""
    catalog = Catalog([Item(type="tool", name="a", description="A."), Item(type="tool", name="b", description="B.")])
    names = [f"q{i}" for i in range(len(graded))]
    queries = [DatasetQuery(request=Request(id=name, text="?"), split="tuning") for name in names]
    queries += [
        DatasetQuery(request=Request(id=f"none{i}", text="?"), split="tuning", needs_nothing=True)
        for i in range(nothing)
    ]
    labels = [Label(name, catalog[0].key, grade, via) for name, grade in zip(names, graded, strict=True)]
    made = Dataset(name="made", version="1", catalog=catalog, queries=tuple(queries), labels=tuple(labels))
    return Labels.of(made, np.array([3, 4]))


ASKING = """\
selectors: [semantic]
policies:
  quiet:
    minimise: tokens
    constraints:
      - {metric: completeness, at_least: 0.5}
      - {metric: abstention, at_least: 0.5}
  deep:
    maximise: dependency_recall
    constraints: [{metric: items, at_most: 4}]
"""


def test_what_the_labels_cannot_answer_is_said_by_policy(tmp_path):
    asked = read_policies(write(tmp_path, ASKING)).policies.values()
    found = unanswerable(asked, labels_of(2, 2))
    assert found == {
        "quiet": "abstention applies to none of the 2 labelled queries",
        "deep": "dependency_recall applies to none of the 2 labelled queries",
    }
    assert unanswerable(asked, labels_of(2, via="dependency", nothing=1)) == {}
    assert set(unanswerable(asked, labels_of(nothing=2))) == {one.name for one in asked}
