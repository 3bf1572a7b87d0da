"""Experiments: what a file means, and every fault of one at once, with its line."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctxbench import testing
from ctxbench.evaluation.experiment import DEFAULT_METRICS, examine, scoring
from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, write_presets
from tests.experiment_files import read_experiment

SHIPPED = Path(__file__).parents[2] / "experiments"


@pytest.fixture(autouse=True)
def nothing_is_made(tmp_path, monkeypatch):
    """Reading an experiment makes no folder; what a test writes itself stands below `given`."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "given").mkdir()
    yield
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


@pytest.fixture
def given(tmp_path):
    return tmp_path / "given"


def write(given, text):
    path = given / "e.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def read(given, selectors, rest=""):
    return read_experiment(write(given, f"datasets: [d]\nselectors:\n{selectors}\n{rest}"))


def faults(given, text):
    """(line, message) of every fault, in the order in which they are told."""
    path = write(given, text)
    with pytest.raises(InputError) as caught:
        read_experiment(path)
    assert {fault.path for fault in caught.value.faults} == {path}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def selector_faults(given, *entries):
    """Faults of selectors, one a line from line 3 on."""
    return faults(given, "datasets: [d]\nselectors:\n" + "\n".join(f"  - {entry}" for entry in entries))


# ---------------------------------------------------------------------------------------------- what a file means


def test_what_is_left_out_has_its_default(given):
    experiment = read(given, "  - semantic")
    assert (experiment.name, experiment.about, experiment.datasets) == ("e", "", ("d",))
    assert (experiment.embedder, experiment.tokens, experiment.seed) == ("minilm", "o200k", 0)
    assert experiment.metrics == DEFAULT_METRICS
    assert experiment.compare_to == "semantic"
    (spec,) = experiment.selectors
    assert spec.values == {
        "contextTopK": 20,
        "contextTopN": 5,
        "contextIncludeScore": 0.7,
        "contextMargin": 1.0,
        "contextExpansionEnabled": False,
    }
    assert (spec.like, spec.external) == (None, False)


def test_what_is_said_counts(given):
    rest = "name: mine\nabout: why\nmetrics: [tokens]\nembedder: hashing\ntokens: chars/4\nseed: 7\ncompare_to: bm25\n"
    experiment = read(given, "  - semantic\n  - bm25", rest)
    assert (experiment.name, experiment.about, experiment.metrics) == ("mine", "why", ("tokens",))
    assert (experiment.embedder, experiment.tokens, experiment.seed) == ("hashing", "chars/4", 7)
    assert experiment.compare_to == "bm25"


def test_set_goes_over_the_preset_and_the_preset_over_the_default(given):
    (spec,) = read(given, "  - {selector: semantic, preset: aggressive, set: {contextTopN: 1}}").selectors
    assert spec.values == {
        "contextTopK": 20,
        "contextTopN": 1,
        "contextIncludeScore": 1.0,
        "contextMargin": 1.0,
        "contextExpansionEnabled": False,
    }
    assert spec.name == "semantic/aggressive"
    assert spec.about.startswith("smallest context; ")


def test_what_has_no_effect_is_an_error_where_it_is_set_and_left_out_where_it_is_not(given):
    on = "contextExpansionEnabled: true"
    (spec,) = read(given, f"  - {{selector: semantic, set: {{{on}, contextExpansionDepth: 2}}}}").selectors
    assert spec.values["contextExpansionDepth"] == 2
    assert spec.values["contextExpansionThreshold"] == 0.75
    ((line, message),) = selector_faults(given, "{selector: semantic, set: {contextExpansionDepth: 2}}")
    assert line == 3
    assert message == (
        "contextExpansionDepth has no effect while contextExpansionEnabled is false; set contextExpansionEnabled to "
        "true, or leave contextExpansionDepth out"
    )


def test_a_value_that_its_step_refuses_is_an_error(given):
    (given / "own.yaml").write_text(
        "name: own\nparameters:\n  how: {default: max, choices: [max, median]}\n"
        "pipeline:\n  retrieve: {dense: {over_chunks: $how}}\n"
    )
    ((_, message),) = selector_faults(given, "{selector: own.yaml, set: {how: median}}")
    assert message.startswith("over_chunks must be one of 'max', 'mean', 'top'")
    assert message.endswith("(here over_chunks is how)")


def test_a_grid_over_depth_has_one_selector_without_expansion(given):
    vary = "contextExpansionDepth: [0, 1, 2], contextExpansionTopN: [3, 4]"
    entry = f"  - {{selector: semantic, set: {{contextExpansionEnabled: true}}, vary: {{{vary}}}}}"
    specs = read(given, entry).selectors
    assert [spec.name.replace("contextExpansion", "") for spec in specs] == [
        "semantic Depth=0",
        *(f"semantic Depth={depth} TopN={most}" for depth in (1, 2) for most in (3, 4)),
    ]
    assert "contextExpansionTopN" not in specs[0].values


def test_a_grid_over_ways_to_expand_may_give_the_limits_of_both(given):
    own = "contextExpansionEnabled: true, contextExpansionGraphThreshold: 0.8"
    entry = f"  - {{selector: semantic, set: {{{own}}}, vary: {{contextExpansionBy: [chunks, graph, both]}}}}"
    specs = read(given, entry).selectors
    assert [spec.values.get("contextExpansionGraphThreshold") for spec in specs] == [None, 0.8, 0.8]
    entry = f"{{selector: semantic, set: {{{own}}}, vary: {{contextExpansionBy: [chunks]}}}}"
    ((_, message),) = selector_faults(given, entry)
    assert message.startswith("contextExpansionGraphThreshold has no effect while contextExpansionBy is chunks; set")


def test_a_search_that_is_off_can_be_compared_with(given):
    vary = "contextSearchEnabled: [true, false], contextTopN: [1, 2]"
    specs = read(given, f"  - {{selector: semantic, vary: {{{vary}}}}}").selectors
    assert [spec.name for spec in specs][-1] == "semantic contextSearchEnabled=false"
    assert (len(specs), specs[-1].values) == (3, {"contextSearchEnabled": False})


def test_switches_and_choices_can_be_varied(given):
    specs = read(given, "  - {selector: semantic-domains, vary: {toolsMode: [aggressive, normal]}}").selectors
    assert [spec.name for spec in specs] == [
        "semantic-domains toolsMode=aggressive",
        "semantic-domains toolsMode=normal",
    ]
    assert [spec.values["toolsTopN"] for spec in specs] == [0, 2]
    specs = read(given, "  - {selector: semantic, vary: {contextExpansionEnabled: [false, true]}}").selectors
    assert [spec.name for spec in specs] == [f"semantic contextExpansionEnabled={on}" for on in ("false", "true")]


def test_vary_makes_a_selector_for_each_combination_the_last_name_fastest(given):
    entry = "  - {selector: semantic, preset: normal, vary: {contextTopN: [1, 2], contextIncludeScore: [0.5, 1]}}"
    specs = read(given, entry).selectors
    assert [spec.name for spec in specs] == [
        "semantic/normal contextTopN=1 contextIncludeScore=0.5",
        "semantic/normal contextTopN=1 contextIncludeScore=1",
        "semantic/normal contextTopN=2 contextIncludeScore=0.5",
        "semantic/normal contextTopN=2 contextIncludeScore=1",
    ]
    assert [(spec.values["contextTopN"], spec.values["contextIncludeScore"]) for spec in specs] == [
        (1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0),
    ]  # fmt: skip


def test_a_single_value_varies_as_a_list_of_one(given):
    (spec,) = read(given, "  - {selector: bm25, vary: {n: 3}, name: mine}").selectors
    assert (spec.name, spec.values["n"]) == ("mine n=3", 3)


def test_names_of_near_values_differ(given):
    random = "  - {selector: random, vary: {seed: [1234567, 1234568]}}"
    bm25 = "  - {selector: bm25, vary: {b: [0.1234567, 0.123457]}}"
    assert [spec.name for spec in read(given, f"{random}\n{bm25}").selectors] == [
        "random seed=1234567", "random seed=1234568", "bm25 b=0.1234567", "bm25 b=0.123457",
    ]  # fmt: skip


def test_an_inline_pipeline_is_a_selector(given):
    selectors = "  - name: mine\n    pipeline: {analyse: whole, retrieve: {dense: {depth: 7}}, refine: [first]}\n"
    (spec,) = read(given, selectors).selectors
    made = spec.make(_Resources(), {})
    assert made.name == "mine"
    assert made.describe()["pipeline"]["retrieve"]["depth"] == 7


def test_files_of_steps_are_relative_to_the_experiment(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "given")
    (given / "sub").mkdir()
    (given / "sub" / "fits.json").write_text("[]", encoding="utf-8")
    entry = "name: p, pipeline: {retrieve: dense, refine: [{abstain: {calibration: fits.json}}]}"
    path = given / "sub" / "e.yaml"
    path.write_text(f"datasets: [d]\nselectors:\n  - {{{entry}}}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no file of fits: .*sub/fits\.json, line 1") as caught:
        read_experiment(path)
    assert [fault.line for fault in caught.value.faults] == [3]


def test_a_source_of_a_merge_may_have_the_name_of_such_a_parameter(given):
    entry = "{name: p, pipeline: {retrieve: {merge: {graph: dense, calibration: bm25}}}}"
    assert [spec.name for spec in read(given, f"  - {entry}").selectors] == ["p"]


class _Resources:
    def identity(self, resource):
        return resource


@pytest.mark.parametrize("entry", ["oracle", "{selector: oracle}", "{selector: oracle, name: oracle}"])
def test_the_oracle_is_a_selector_that_is_told_what_is_required(given, entry):
    experiment = read(given, f"  - {entry}\n  - {{selector: random, like: oracle}}")
    made = experiment.make_selectors(testing.mock_resources(), {}, required={"q": ()})
    assert made["oracle"].required == {"q": ()}
    assert made["random"].like is made["oracle"]
    assert experiment.make_selectors(testing.mock_resources(), {})["oracle"].required is None
    (spec,) = [spec for spec in experiment.selectors if spec.name == "oracle"]
    assert spec.about.startswith("Exactly what is required")


def test_the_oracle_has_no_parameters_and_no_presets(given):
    found = selector_faults(given, "{selector: oracle, set: {n: 3}}", "{selector: oracle/small}")
    assert [line for line, _ in found] == [3, 4]
    assert "a selector has no 'set'" in found[0][1]
    assert "works only in an experiment over labelled datasets" in found[1][1]


def test_the_oracle_stands_beside_answers_that_are_scored(given):
    answers = given / "mine.jsonl"
    answers.write_text('{"query": "q1", "items": []}\n', encoding="utf-8")
    assert [spec.name for spec in scoring(answers, dataset="d", compare_with=["oracle"], tokens="o200k").selectors] == [
        "mine",
        "oracle",
    ]


def test_like_wraps_the_ranking_wherever_the_other_stands(given):
    experiment = read(given, "  - {selector: random, like: bm25}\n  - bm25")
    made = experiment.make_selectors(_Resources(), {})
    assert list(made) == ["random", "bm25"]
    assert made["random"].like is made["bm25"]
    assert made["random"].describe()["as many as"] == made["bm25"].describe()


MINE = """\
name: own
about: A test.
parameters:
  n: {default: 5, range: [0, 50]}
pipeline:
  retrieve: bm25
  refine: [{first: {n: $n}}]
presets:
  small: {about: few items, set: {n: 1}}
"""


def test_a_selector_may_be_a_file_wherever_a_shipped_one_may(given, tmp_path, monkeypatch):
    monkeypatch.chdir(given)
    (given / "sub").mkdir()
    (given / "mine.yml").write_text(MINE, encoding="utf-8")
    path = given / "sub" / "e.yaml"
    entries = [
        "../mine.yml",
        "{selector: ../mine.yml, preset: small, set: {}, vary: {}}",
        "{selector: ../mine.yml, preset: small, vary: {n: [2, 3]}, name: varied}",
        "{selector: random, like: mine/small}",
    ]
    lines = "".join(f"  - {entry}\n" for entry in entries)
    path.write_text(f"datasets: [d]\nselectors:\n{lines}compare_to: mine/small\n", encoding="utf-8")
    specs = read_experiment(path).selectors
    assert [(spec.name, dict(spec.values).get("n"), spec.about) for spec in specs[:4]] == [
        ("mine", 5, "A test."), ("mine/small", 1, "few items"), ("varied n=2", 2, "few items"),
        ("varied n=3", 3, "few items"),
    ]  # fmt: skip
    made = specs[0].make(None, {})
    assert made.describe()["pipeline"]["refine"][0]["n"] == 5


def test_files_of_a_selectors_steps_are_relative_to_the_selector(given):
    (given / "sub").mkdir()
    (given / "sub" / "fits.json").write_text("[]", encoding="utf-8")
    steps = "pipeline: {retrieve: dense, refine: [{abstain: {calibration: fits.json}}]}"
    (given / "sub" / "mine.yaml").write_text(f"name: mine\n{steps}\n", encoding="utf-8")
    ((line, message),) = selector_faults(given, "{selector: sub/mine.yaml}")
    assert line == 3
    assert re.match(r"no file of fits: .*sub/fits\.json, line 1", message)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{selector: gone.yaml}", "gone.yaml"),
        ("gone.yml", "gone.yml"),
        ("{selector: e.yaml}", "e.yaml is an experiment, not a selector: `ctxbench run "),
        ("tuned/desk.yaml#small", "`{presets: tuned/desk.yaml, preset: small}` in an experiment"),
        ("tuned/desk.yaml/small", "`{presets: tuned/desk.yaml, preset: small}` in an experiment"),
        ("{selector: mine.yaml, preset: smal}", "unknown preset 'smal' of selector 'own'; did you mean 'small'"),
        ("{selector: mine.yaml, set: {m: 1}}", "selector 'own' has no parameter 'm'"),
        ("{selector: mine.yaml, set: {n: 99}}", "n must be 0 to 50, got 99"),
    ],
)
def test_a_fault_of_a_selector_from_a_file_is_one_with_its_line(entry, message, given):
    (given / "mine.yaml").write_text(MINE, encoding="utf-8")
    ((line, found),) = selector_faults(given, "everything", entry, "{selector: random, like: everything}")
    assert line == 4
    assert message in found


def test_a_faulty_file_is_not_missed_a_second_time(given):
    found = selector_faults(given, "sub/gone.yaml", "{selector: random, like: gone}\ncompare_to: gone")
    assert [line for line, _ in found] == [3]


def test_a_name_that_tables_print_is_a_selector(given):
    first, second = read(given, "  - semantic/aggressive\n  - {selector: semantic, preset: normal}").selectors
    assert (first.name, second.name) == ("semantic/aggressive", "semantic/normal")
    assert first.values["contextTopN"] == definition("semantic").values("aggressive")["contextTopN"]
    ((_, message),) = selector_faults(given, "{selector: semantic/normal, preset: aggressive}")
    assert message == "selector semantic/normal names a preset already; leave out the other, aggressive"


# ---------------------------------------------------------------------------------------------- tuned presets


def tuned(given, **changed):
    """A presets file of `semantic`, and of the user's own answers."""
    found = definition("semantic")
    values = found.in_force(found.values(None, {"contextTopN": 9, "contextMargin": 0.25, **changed}))
    stamp = {"definition": definition_hash(found), "parameters": parameter_texts(found)}
    presets = {
        "small": TunedPreset(selector="semantic", set=values, about="fewest tokens", **stamp),
        "own": TunedPreset(answers="mine", set={"topN": 4}),
    }
    path = given / "tuned" / "desk.yaml"
    write_presets(path, tuned={"dataset": "desk"}, presets=presets, test_split="")
    return path


def test_a_tuned_preset_is_a_selector(given):
    tuned(given)
    entries = [
        "{presets: tuned/desk.yaml, preset: small}",
        "{presets: tuned/desk.yaml, preset: small, selector: semantic, name: same}",
        "{presets: tuned/desk.yaml, preset: small, set: {contextMargin: 1}, vary: {contextTopN: [1, 2]}}",
        "{selector: random, like: desk/small}",
    ]
    specs = read(given, "".join(f"  - {entry}\n" for entry in entries), "compare_to: desk/small").selectors
    assert [spec.name for spec in specs] == [
        "desk/small", "same", "desk/small contextTopN=1", "desk/small contextTopN=2", "random",
    ]  # fmt: skip
    assert specs[0].about == "fewest tokens"
    assert (
        specs[0].values
        == specs[1].values
        == {
            "contextTopK": 20,
            "contextTopN": 9,
            "contextIncludeScore": 0.7,
            "contextMargin": 0.25,
            "contextExpansionEnabled": False,
        }
    )
    assert [(spec.values["contextTopN"], spec.values["contextMargin"]) for spec in specs[2:4]] == [(1, 1.0), (2, 1.0)]
    steps = specs[0].make(_Resources(), {}).describe()["pipeline"]["refine"]
    assert (steps[0]["topN"], steps[1]["margin"]) == (9, 0.25)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{presets: tuned/desk.yaml}", "presets needs preset, which of those in"),
        ("{presets: tuned/desk.yaml, preset: ''}", "preset must not be empty"),
        ("{presets: tuned/desk.yaml, preset: smal}", "unknown preset 'smal' of presets file"),
        ("{presets: [tuned/desk.yaml], preset: small}", "presets must be a text, got ['tuned/desk.yaml']"),
        ("{presets: tuned/gone.yaml, preset: small}", "gone.yaml"),
        ("{presets: e.yaml, preset: small}", "e.yaml is an experiment, not a presets file: "),
        (
            "{presets: tuned/desk.yaml, preset: small, selector: semantic-domains}",
            "was tuned for 'semantic', and selector is 'semantic-domains'; leave selector out, or name another",
        ),
        ("{presets: tuned/desk.yaml, preset: own}", "was tuned on your own selector's answers 'mine'"),
        ("{presets: tuned/desk.yaml, preset: small, set: {contextTopN: 99}}", "contextTopN must be 0 to 50, got 99"),
        ("{presets: tuned/desk.yaml, preset: small, set: {contextExpansionTopN: 3}}", "has no effect while"),
        ("{presets: tuned/desk.yaml, preset: small, url: 'http://localhost:1'}", "a selector needs exactly one of"),
        ("{presets: tuned/desk.yaml, preset: small, vari: {}}", "a selector has no field 'vari'; did you mean 'vary'"),
    ],
)
def test_a_fault_of_a_tuned_preset_is_one_with_its_line(entry, message, given):
    tuned(given)
    ((line, found),) = selector_faults(given, "everything", entry)
    assert line == 4
    assert message in found


def test_all_that_is_wrong_with_a_presets_file_is_told_with_its_own_lines(given):
    path = tuned(given)
    path.write_text(path.read_text().replace("contextTopN: 9", "contextTopN: 99").replace("topN: 4", "topN: [4]"))
    found = selector_faults(given, "{presets: tuned/desk.yaml, preset: small}")
    assert [line for line, _ in found] == [3, 3]
    assert all(re.search(r"desk\.yaml, line \d+\)$", message) for _, message in found)


def test_a_faulty_presets_file_is_not_missed_a_second_time(given):
    rest = "{selector: random, like: gone/small}\ncompare_to: gone/small"
    assert [line for line, _ in selector_faults(given, "{presets: gone.yaml, preset: small}", rest)] == [3]


# ---------------------------------------------------------------------------------------------- what else there is


def test_outside_selectors_are_read_relative_to_the_file(given):
    (given / "mine.py").write_text("def chosen(request, items):\n    return []\n", encoding="utf-8")
    (given / "a.jsonl").write_text('{"query": "q", "items": []}\n', encoding="utf-8")
    experiment = read(given, '  - {callable: "mine.py:chosen"}\n  - {answers: a.jsonl, name: file}')
    assert [(spec.name, spec.external) for spec in experiment.selectors] == [("chosen", True), ("file", True)]


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_experiments_are_right(path):
    experiment, found = examine(path)
    assert found == []
    assert experiment.about


def test_the_presets_run_beside_five_comparators():
    experiment = read_experiment(SHIPPED / "presets.yaml")
    assert experiment.datasets == ("bfcl-simple", "bfcl-live", "bfcl-live-listed")
    assert [spec.name for spec in experiment.selectors] == [
        "semantic/spec", "learned/aggressive", "learned/normal", "learned/conservative", "hybrid", "bm25",
        "everything", "random", "oracle",
    ]  # fmt: skip
    assert [spec.like for spec in experiment.selectors if spec.like] == ["learned/normal"]


# ---------------------------------------------------------------------------------------------- unreadable files


def test_a_missing_file_and_a_folder_are_errors(given):
    with pytest.raises(StorageError, match=r"cannot read .*none\.yaml: No such file"):
        read_experiment(given / "none.yaml")
    with pytest.raises(StorageError, match="it is a folder"):
        read_experiment(given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; an experiment is a mapping of name, about, datasets"),
        ("# nothing but a comment\n", "the file is empty"),
        ("- semantic\n", "an experiment is a mapping of"),
        ("semantic", "an experiment is a mapping of"),
    ],
)
def test_a_file_that_is_no_mapping_is_one_fault(text, message, given):
    ((line, found),) = faults(given, text)
    assert line == 1
    assert found.startswith(message)


def test_malformed_yaml_has_line_and_column(given):
    path = write(given, "datasets: [d]\nselectors: [semantic\nseed: 1\n")
    with pytest.raises(InputError, match=r"malformed YAML: .*e\.yaml, line 3, column 5") as caught:
        read_experiment(path)
    assert caught.value.exit_code == 2


def test_duplicate_keys_are_faults_with_their_lines(given):
    found = faults(given, "datasets: [d]\nselectors:\n  - {selector: bm25, set: {n: 1, n: 2}}\ndatasets: [e]\n")
    assert found == [
        (3, "key 'n' occurs twice in one mapping"),
        (4, "key 'datasets' occurs twice in one mapping"),
    ]


def test_a_file_that_is_no_utf8_is_a_fault_with_its_line(given):
    path = given / "e.yaml"
    path.write_bytes(b"datasets: [d]\nname: \xff\n")
    with pytest.raises(InputError, match="line 2"):
        read_experiment(path)


# ---------------------------------------------------------------------------------------------- faults


def test_all_faults_are_told_at_once_in_the_order_of_the_file(given):
    found = faults(
        given,
        "name: a/b\n"
        "about: 3\n"
        "datasets: bfcl-simple\n"
        "selectors:\n"
        "  - {selector: semantik}\n"
        "  - {selector: semantic, preset: norml}\n"
        "  - selector: semantic\n"
        "    set:\n"
        "      contextTopN: 51\n"
        "      contextTopM: 5\n"
        "    wary: {contextTopN: [1]}\n"
        "  - {pipeline: {retrieve: dense}}\n"
        "  - bm25\n"
        "  - bm25\n"
        "metrics: [tokens, tokens]\n"
        "seed: 1.5\n"
        "compare_to: bm52\n"
        "sead: 1\n",
    )
    assert [line for line, _ in found] == [1, 2, 3, 5, 6, 9, 10, 11, 12, 14, 15, 16, 17, 18]
    expected = [
        "name must be usable as a folder name", "about must be a text, got 3", "datasets must be a list, got",
        "unknown selector 'semantik'; did you mean 'semantic'", "did you mean 'normal'",
        "contextTopN must be 0 to 50, got 51", "did you mean 'contextTopN' or 'contextTopK'",
        "a selector has no field 'wary'; did you mean 'vary'", "a selector needs the field 'name'",
        "two selectors are called 'bm25'", "metrics names 'tokens' twice", "seed must be a whole number",
        "'bm52'; did you mean 'bm25'", "an experiment has no field 'sead'; did you mean 'seed'",
    ]  # fmt: skip
    for (_, message), part in zip(found, expected, strict=True):
        assert part in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selectors: [bm25]\n", "an experiment needs the field 'datasets'"),
        ("selectors: [bm25]\ndataset: [d]\n", "an experiment has no field 'dataset'; did you mean 'datasets'"),
        ("selector: [bm25]\ndatasets: [d]\ncompare_to: bm25\n", "an experiment has no field 'selector'; did you mean"),
        ("datasets: [d]\ncompare_to: bm25\n", "an experiment needs the field 'selectors'"),
        ("selectors: [bm25]\ndatasets: []\n", "datasets must not be empty"),
        ("selectors: [bm25]\ndatasets: [1]\n", "datasets[0] must be a text, got 1"),
        ("selectors: [bm25]\ndatasets: {a: b}\n", "datasets must be a list"),
        ("datasets: [d]\n", "an experiment needs the field 'selectors'"),
        ("datasets: [d]\nselectors: semantic\n", "selectors must be a list, got 'semantic'"),
        ("datasets: [d]\nselectors: []\n", "selectors must not be empty"),
        ("datasets: [d]\nselectors: [bm25]\nmetrics: tokens\n", "metrics must be a list, got 'tokens'"),
        ("datasets: [d]\nselectors: [bm25]\nembedder: [minilm]\n", "embedder must be a text"),
        ("datasets: [d]\nselectors: [bm25]\ntokens: 4\n", "tokens must be a text, got 4"),
        ("datasets: [d]\nselectors: [bm25]\nseed: true\n", "seed must be a whole number"),
        ("datasets: [d]\nselectors: [bm25]\nseed: 4294967296\n", "seed must be below 4.29497e+09"),
        ("datasets: [d]\nselectors: [bm25]\nname: ''\n", "name must be usable as a folder name"),
        ("datasets: [d]\nselectors: [bm25]\nname: ../up\n", "name must be usable as a folder name"),
        ("datasets: [d]\nselectors: [bm25]\ncompare_to: 5\n", "compare_to must be a text, got 5"),
    ],
)
def test_a_setting_of_the_wrong_form_is_one_fault(text, message, given):
    ((_, found),) = faults(given, text)
    assert message in found


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("5", "a selector must be a name or a mapping, got 5"),
        ("[bm25]", "a selector must be a name or a mapping"),
        ("{}", "needs exactly one of selector, presets, pipeline, answers, callable, command, url; it has none"),
        ("{name: x}", "callable, command, url; it has name"),
        ("{selector: bm25, url: 'http://localhost:1'}", "a selector needs exactly one of"),
        ("{selector: 5}", "selector must be a text, got 5"),
        ("{selector: }", "selector must be a text, got null"),
        ("{selector: semantic, preset: 5}", "preset must be a text, got 5"),
        ("{selector: semantic, preset: [normal]}", "preset must be a text"),
        ("{selector: bm25, name: ''}", "name must not be empty"),
        ("{selector: bm25, set: [5]}", "set must be a mapping, got [5]"),
        ("{selector: bm25, set: {n: [5]}}", "n must be a whole number, got [5]"),
        ("{selector: bm25, set: {n: 5.5}}", "n must be a whole number, got 5.5"),
        ("{selector: bm25, set: {n: true}}", "n must be a whole number, got True"),
        ("{selector: bm25, vary: [n]}", "vary must be a mapping, got ['n']"),
        ("{selector: bm25, vary: {n: []}}", "vary: n has no value; list at least one"),
        ("{selector: bm25, vary: {m: [1]}}", "selector 'bm25' has no parameter 'm'"),
        ("{selector: bm25, vary: {n: [1, 1]}}", "two selectors are called 'bm25 n=1'"),
        ("{selector: bm25, set: {n: 1}, vary: {n: [2]}}", "vary: n has a value under `set` already"),
        ("{selector: random, like: nobody}", "like must name another selector of the experiment, got 'nobody'"),
        ("{selector: random, like: random}", "like must name another selector of the experiment, got 'random'"),
        ("{selector: random, like: [bm25]}", "like must be a text"),
        ("{pipeline: [dense], name: x}", "must be a mapping of analyse, retrieve, refine, format"),
        ("{pipeline: {}, name: x}", "a pipeline needs a retrieve stage"),
        ("{pipeline: {retrieve: dense}, name: x, set: {}}", "a selector has no field 'set'"),
        ("{answers: none.jsonl}", "cannot read"),
        ("{callable: 'none.py:f'}", "none.py"),
        ("{command: [no-such-program-anywhere]}", "no-such-program-anywhere"),
        ("{url: 'http://localhost:1', timout: 3}", "has no field 'timout'; did you mean 'timeout'"),
        ("{url: 'http://localhost:1', timeout: x}", "timeout must be a number, got 'x'"),
    ],
)
def test_a_faulty_selector_is_one_fault_with_its_line(entry, message, given):
    ((line, found),) = selector_faults(given, "everything", entry)
    assert line == 4
    assert message in found


def test_faults_of_a_file_of_answers_are_a_fault_each(given):
    (given / "run.txt").write_text('q1 Q0 a 1 2.5 x\n{"items": []}\n', "utf-8")
    found = selector_faults(given, "everything", "{answers: run.txt}")
    assert [line for line, _ in found] == [4, 4]
    assert "--as run" in found[0][1]
    assert [text.splitlines() for _, text in found] == [[text] for _, text in found]


def test_of_several_ways_in_only_the_ways_are_listed(given):
    ((_, found),) = selector_faults(given, "everything", "{callable: 'a.py:f', command: x, name: mine}")
    assert found.endswith("; it has callable, command")


def test_every_value_of_a_grid_is_checked(given):
    text = "datasets: [d]\nselectors:\n  - selector: semantic\n    vary:\n      contextTopN:\n        - 5\n        - 51\n        - x\n      contextTopK: [0]\n"  # noqa: E501
    found = faults(given, text)
    assert [line for line, _ in found] == [7, 8, 9]
    assert found[0][1] == "contextTopN must be 0 to 50, got 51"
    assert found[2][1] == "contextTopK must be 1 to 100, got 0"


def test_the_steps_of_an_inline_pipeline_have_their_own_lines(given):
    found = faults(
        given,
        "datasets: [d]\n"
        "selectors:\n"
        "  - name: mine\n"
        "    pipeline:\n"
        "      analyse: sentenses\n"
        "      retrieve:\n"
        "        dense:\n"
        "          depth: none\n"
        "      refine:\n"
        "        - first: {n: 5}\n"
        "        - standart\n"
        "      formt: messages\n",
    )
    assert [line for line, _ in found] == [5, 7, 11, 12]
    for (_, message), part in zip(found, ["'sentences'", "depth must be", "'standard'", "'format'"], strict=True):
        assert part in message


def test_a_step_that_looks_deeper_than_its_retriever_is_a_fault(given):
    entry = "{name: mine, pipeline: {retrieve: {dense: {depth: 10}}, refine: [{standard: {topK: 20}}]}}"
    ((line, message),) = selector_faults(given, entry)
    assert line == 3
    assert "ranks the best 10 items (depth), but a later step reads the best 20" in message


def test_sizes_are_not_taken_from_who_takes_them_from_another(given):
    found = selector_faults(
        given, "{selector: bm25, like: random}", "{selector: random, like: everything}", "everything"
    )
    assert found == [(3, "like: 'random' takes the sizes of 'everything' itself; name 'everything'")]
    found = selector_faults(given, "{selector: bm25, like: random}", "{selector: random, like: bm25}")
    assert [line for line, _ in found] == [3, 4]


def test_the_line_of_like_is_that_of_its_entry_also_behind_a_grid(given):
    found = selector_faults(given, "{selector: bm25, vary: {n: [1, 2, 3]}}", "{selector: random, like: bm52}")
    assert [line for line, _ in found] == [4]


def test_a_selector_that_cannot_be_read_is_not_missed_a_second_time(given):
    found = selector_faults(
        given,
        "{selector: semantic, preset: normal, vary: {contextTopN: [1, 99]}}",
        "{selector: random, like: semantic/normal contextTopN=1}",
        "{url: x, name: mine, tries: many}",
        "bm25\ncompare_to: mine",
    )
    assert [line for line, _ in found] == [3, 5]


def test_an_outside_selector_tells_all_its_faults(given):
    ((line, message),) = selector_faults(given, "{command: [python3], timeout: x, repeats: 1.5, tiemout: 1}")
    assert line == 3
    assert all(part in message for part in ("timeout must be", "repeats must be", "no field 'tiemout'"))


def test_what_is_right_is_read_beside_the_faults(given):
    experiment, found = examine(write(given, "datasets: [d, e]\nselectors: [bm25, bm52]\nseed: x\n"))
    assert len(found) == 2
    assert (experiment.datasets, [spec.name for spec in experiment.selectors]) == (("d", "e"), ["bm25"])


def test_no_key_and_no_value_whatever_is_more_than_a_fault(given):
    odd = ["null", "5", "-1", "true", "x", "''", "[]", "[1]", "[[x]]", "{}", "{a: 1}", "{a: {b: []}}", "1e400"[:3]]
    keys = ["name", "about", "datasets", "split", "selectors", "metrics", "embedder", "tokens", "seed", "compare_to"]
    base = {"datasets": "[d]", "selectors": "[bm25]"}
    for key, value in itertools.product(keys, odd):
        text = "\n".join(f"{k}: {v}" for k, v in {**base, key: value}.items())
        _read_or_fault(given, text)
    inner = ["selector", "preset", "set", "vary", "like", "name", "pipeline", "answers", "callable", "command", "url"]
    for key, value in itertools.product(inner, odd):
        entry = {"selector": "bm25"} if key in inner[:6] else {}
        text = ", ".join(f"{k}: {v}" for k, v in {**entry, key: value}.items())
        _read_or_fault(given, f"datasets: [d]\nselectors: [{{{text}}}]")


def _read_or_fault(given, text):
    try:
        read_experiment(write(given, text))
    except InputError:
        return


# ---------------------------------------------------------------------------------------------- scoring


def test_scoring_sets_shipped_selectors_beside_the_answers(given):
    (given / "mine.jsonl").write_text('{"query": "q", "items": []}\n', encoding="utf-8")
    experiment = scoring(given / "mine.jsonl", dataset="d", compare_with=["semantic/normal", "bm25"], tokens="chars/4")
    assert [(spec.name, spec.external) for spec in experiment.selectors] == [
        ("mine", True), ("semantic/normal", False), ("bm25", False),
    ]  # fmt: skip
    assert (experiment.compare_to, experiment.datasets, experiment.tokens) == ("mine", ("d",), "chars/4")


def test_scoring_refuses_unknown_selectors_and_one_named_twice(given):
    (given / "bm25.jsonl").write_text('{"query": "q", "items": []}\n', encoding="utf-8")
    with pytest.raises(UnknownNameError, match="did you mean 'semantic'"):
        scoring(given / "bm25.jsonl", dataset="d", compare_with=["semantik"], tokens="o200k")
    with pytest.raises(UnknownNameError, match="did you mean 'normal'"):
        scoring(given / "bm25.jsonl", dataset="d", compare_with=["semantic/norml"], tokens="o200k")
    for beside in (["bm25"], ["dense", "dense"]):
        with pytest.raises(ParameterError, match="two selectors would have one name"):
            scoring(given / "bm25.jsonl", dataset="d", compare_with=beside, tokens="o200k")


# ---------------------------------------------------------------------------------------------- imports


def test_reading_an_experiment_loads_no_model_and_no_client(given):
    path = write(given, "datasets: [d]\nselectors: [semantic, bm25, {command: [python3]}]\n")
    script = (
        "import json, sys\nfrom pathlib import Path\nfrom ctxbench.evaluation.experiment import examine\n"
        "examine(Path(sys.argv[1]))\n"
        "print(json.dumps([m for m in ('onnxruntime', 'tokenizers', 'httpx', 'bm25s', 'jsonschema', 'pandas', "
        "'scipy', 'jinja2', 'rich') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True, timeout=120
    )
    assert json.loads(done.stdout) == []
