"""Presets files: what is written reads back equal, and whatever no longer fits is said with its line."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.selectors.definition import TunedPreset, changes, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, read_definition, read_presets, shipped, write_presets

SEMANTIC = definition("semantic")
SET = {
    "contextTopK": 20,
    "contextTopN": 12,
    "contextIncludeScore": 0.7,
    "contextMargin": 0.35,
    "contextExpansionEnabled": False,
}
TUNED = {"dataset": "desk", "version": "1", "hash": "c0ffee", "queries": {"tuning": 300, "test": 310}, "seed": 0}
READ = "read once, for the figures below, when all values were fixed"
POLICY = {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.8, "of": "reachable"}]}
MEANS = {"completeness": {"value": 0.875, "low": 0.8, "high": 0.9, "n": 300}}
OWN = """\
name: mine
parameters:
  n: {default: 5, range: [0, 50]}
  share: {default: 0.5, range: [0.0, 1.0]}
  large: {default: false}
  most: {default: 900, range: [0, 9000], needs: large}
  mode: {default: even, choices: {even: {k: 1}, odd: {k: 2}}}
  k: {range: [0.0, 9.0]}
pipeline:
  retrieve:
    bm25: {b: $share, k1: $k}
  refine:
    - first: {n: $n}
    - budget: {skip: $large, tokens: $most}
presets:
  small: {set: {n: 1}}
"""
OWN_SET = {"n": 3, "share": 0.25, "large": False, "mode": "odd", "k": 1.5}


def tuned(found=SEMANTIC, selector="semantic", values=None, **given):
    stamp = {"definition": definition_hash(found), "parameters": parameter_texts(found)}
    return TunedPreset(selector=selector, set=SET if values is None else values, **stamp, **given)


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "defs" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(OWN)
    return path


@pytest.fixture
def written(tmp_path):
    """Write a presets file; returns its path."""

    def write(path=tmp_path / "out" / "desk.yaml", **presets):
        presets = presets or {"aggressive": tuned(about="fewest tokens", policy=POLICY, tuning=MEANS, test=MEANS)}
        write_presets(path, tuned=TUNED, presets=presets, test_split=READ)
        return path

    return write


@pytest.fixture
def faults(written):
    """What is said of a file that was changed by hand: (line, message)."""

    def found(old, new, **presets):
        path = written(**presets)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError) as caught:
            read_presets(path)
        assert {Path(fault.path) for fault in caught.value.faults} == {path}
        return [(fault.line, fault.message) for fault in caught.value.faults]

    return found


def line_in(path, text):
    (line,) = [
        number for number, line in enumerate(path.read_text().splitlines(), 1) if line.strip().startswith(text.strip())
    ]
    return line


# ------------------------------------------------------------------------------------------------------------- writing


def test_what_is_written_reads_back_equal(written):
    presets = {
        "aggressive": tuned(about="fewest tokens", policy=POLICY, tuning=MEANS, test=MEANS),
        "1: odd {name}": tuned(values={**SET, "contextTopN": 1}),
        "own": TunedPreset(set={"n": 4}, answers="mine"),
    }
    path = written(**presets)
    found = read_presets(path)
    assert (found.path, found.tuned, found.test_split) == (path, TUNED, READ)
    assert found.presets == presets
    assert list(found.presets) == list(presets)


def test_the_same_presets_are_the_same_bytes(written, tmp_path):
    first = written().read_bytes()
    assert written().read_bytes() == first
    assert b"\n" in first
    assert b"\r" not in first
    again = read_presets(tmp_path / "out" / "desk.yaml")
    write_presets(again.path, tuned=again.tuned, presets=again.presets, test_split=again.test_split)
    assert again.path.read_bytes() == first


def test_the_head_says_how_the_file_is_used(written):
    lines = [line for line in written().read_text().splitlines() if line.startswith("#")]
    assert lines[0] == "# Presets tuned on desk by `ctxbench tune`, which writes this file anew."
    assert "#     - {presets: desk.yaml, preset: aggressive}" in lines
    assert "#   ctxbench select TEXT --catalog CATALOG --presets desk.yaml --preset aggressive" in lines
    only_answers = written(own=TunedPreset(set={"n": 4}, answers="mine")).read_text()
    assert "preset: own" not in only_answers, "nobody but its owner can run that"


def test_a_preset_stands_as_a_person_reads_it(written):
    text = written().read_text()
    assert "    set: {contextTopK: 20, contextTopN: 12, contextIncludeScore: 0.7, contextMargin: 0.35," in text
    assert "      completeness: {value: 0.875, low: 0.8, high: 0.9, n: 300}\n" in text


def test_numbers_of_numpy_and_what_is_no_number_are_written_as_yaml_has_them(written):
    means = {
        "tokens": {"value": np.float64(0.1) + np.float64(0.2), "low": math.nan, "high": math.inf, "n": np.int64(3)}
    }
    values = {**SET, "contextTopN": np.int64(12), "contextMargin": np.float64(0.35)}
    found = read_presets(written(one=tuned(values=values, tuning=means))).presets["one"]
    assert found.tuning == {"tokens": {"value": 0.1 + 0.2, "low": None, "high": None, "n": 3}}
    assert found.set == SET


def test_every_double_is_read_back_to_the_bit(written):
    rng = np.random.default_rng(0)
    for share in [*rng.random(50).tolist(), 1e-300, 5e-324, 1.0 - 2**-53]:
        found = read_presets(written(one=tuned(values={**SET, "contextMargin": share})))
        assert found.presets["one"].set["contextMargin"] == share


def test_a_faulty_write_leaves_the_file_as_it_was(written):
    path = written()
    before = path.read_bytes()
    for given in ({"tuned": {}, "presets": {"a": tuned()}}, {"tuned": TUNED, "presets": {}}):
        with pytest.raises(ParameterError, match="needs the dataset that was tuned on, and a preset"):
            write_presets(path, **given, test_split="")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give exactly one of the two"),
        ({"selector": "semantic", "definition": "1", "answers": "mine"}, "give exactly one of the two"),
        ({"selector": "semantic"}, "selector semantic needs its definition's hash"),
    ],
)
def test_a_preset_is_of_one_selector_or_of_answers(given, message):
    with pytest.raises(ParameterError, match=message):
        TunedPreset(set={}, **given)


@pytest.mark.parametrize("name", shipped())
def test_the_values_in_force_of_every_shipped_selector_read_back(written, name):
    found = definition(name)
    for preset in (None, *found.presets):
        values = found.values(preset)
        again = read_presets(written(one=tuned(found, name, found.in_force(values)))).definition("one")
        assert again.values("one") == values


# --------------------------------------------------------------------------------------------------------- definitions


def test_the_definition_of_a_preset_has_it_among_its_presets(written):
    second = tuned(values={**SET, "contextTopN": 1})
    file = read_presets(written(aggressive=tuned(about="fewest tokens"), other=second))
    found = file.definition("aggressive")
    assert found.values("aggressive") == SEMANTIC.values() | SET
    assert found.values("aggressive", {"contextTopN": 3})["contextTopN"] == 3
    assert found.abouts == {"aggressive": "fewest tokens", "other": "tuned on desk"}
    assert found.values("other")["contextTopN"] == 1
    assert (found.name, found.parameters, found.spec) == (SEMANTIC.name, SEMANTIC.parameters, SEMANTIC.spec)


def test_a_choice_that_is_given_goes_over_what_the_preset_says_singly(written, own):
    file = read_presets(written(one=tuned(read_definition(own), str(own), OWN_SET)))
    found = file.definition("one")
    assert found.values("one")["k"] == 1.5
    assert found.values("one", {"mode": "even"})["k"] == 1.0


def test_a_selector_from_a_file_is_found_from_the_presets_file(written, own, tmp_path, monkeypatch):
    path = written(one=tuned(read_definition(own), str(own), OWN_SET))
    assert "    selector: ../defs/mine.yaml\n" in path.read_text()
    assert read_presets(path).presets["one"].selector == str(own)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("out", "defs"):
        (tmp_path / name).rename(moved / name)
    monkeypatch.chdir(moved / "out")
    assert read_presets(Path("desk.yaml")).definition("one").values("one")["n"] == 3


def test_an_unknown_preset_names_the_closest(written):
    path = written()
    with pytest.raises(UnknownNameError) as caught:
        read_presets(path).definition("agressive")
    assert str(caught.value) == (
        f"unknown preset 'agressive' of presets file {path}; did you mean 'aggressive'? Known: aggressive"
    )


def test_a_preset_of_answers_says_what_to_do_with_it(written):
    path = written(own=TunedPreset(set={"topN": 4, "includeScore": 0.25}, answers="mine"))
    with pytest.raises(ParameterError) as caught:
        read_presets(path).definition("own")
    assert str(caught.value) == (
        f"preset 'own' of {path} was tuned on your own selector's answers 'mine', and only you can run that; apply the "
        "cut in it (topN 4, includeScore 0.25), then name the new answers, or the selector itself, in place of the "
        "preset"
    )


def test_the_hash_is_of_parameters_and_pipeline_alone(own, tmp_path):
    before = definition_hash(read_definition(own))
    assert re.fullmatch("[0-9a-f]{64}", before)
    for old, new, same in [
        ("name: mine", "name: other\nabout: a text", True),
        ("default: 5", "default: 7", True),
        ("even: {k: 1}", "even: {k: 3}", True),
        ("small: {set: {n: 1}}", "large: {set: {n: 9}}", True),
        ("{even: {k: 1}, odd: {k: 2}}", "{odd: {k: 2}, even: {k: 1}}", True),
        ("n: {default: 5, range: [0, 50]}", "n: {default: 5, range: [0, 50], help: how many}", True),
        ("range: [0, 50]", "range: [0, 51]", False),
        ("n: {default: 5, range: [0, 50]}", "n: {default: 5, range: [0, 50], needs: large}", False),
        ("odd: {k: 2}", "odd: {k: 2}, third: {k: 3}", False),
        ("  n: {", "  m: {", False),
        ("first: {n: $n}", "first: {n: $n}\n    - gap", False),
        ("bm25: {b", "bm25: {depth: 60, b", False),
    ]:
        assert old in OWN
        text = OWN.replace(old, new)
        own.write_text(text.replace("$n}", "$m}").replace("{n: 1}", "{m: 1}") if "  m: {" in text else text)
        assert (definition_hash(read_definition(own)) == before) is same, (old, new)


def test_the_hash_does_not_depend_on_where_the_file_is(own, tmp_path, monkeypatch):
    text = OWN.replace("    - budget", "    - expansion: {enabled: false, by: graph, graph: here.npz}\n    - budget")
    hashes = set()
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "mine.yaml").write_text(text)
        hashes.add(definition_hash(read_definition(folder / "mine.yaml")))
        monkeypatch.chdir(folder)
        hashes.add(definition_hash(read_definition(Path("mine.yaml"))))
    assert len(hashes) == 1


# -------------------------------------------------------------------------------------------------- what no longer fits


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("contextTopN: 12", "contextTopN: 99", "set:", "contextTopN must be 0 to 50, got 99"),
        ("contextTopN: 12", "contextTopN: 1.5", "set:", "contextTopN must be a whole number, got 1.5"),
        ("contextTopN: 12", "contextTopM: 12", "set:", "selector 'semantic' has no parameter 'contextTopM'; did you"),
        (
            "contextTopN: 12",
            "contextTopN: [1]",
            "set:",
            "set.contextTopN must be true or false or a whole number or a number or a text",
        ),
        (" contextTopN: 12,", "", "set:", "set lacks contextTopN; a tuned preset gives every parameter that has an"),
        (
            "contextTopN: 12,",
            "contextTopN: 12, contextExpansionTopN: 3,",
            "set:",
            "contextExpansionTopN has no effect while contextExpansionEnabled is false",
        ),
        ("selector: semantic", "selector: semantik", "selector:", "unknown selector 'semantik'; did you mean 'seman"),
        ("selector: semantic", "selector: semantic/normal", "selector:", "unknown selector 'semantic/normal'"),
        ("selector: semantic", "selector: gone.yaml", "selector:", "cannot read"),
        ("selector: semantic", "selector: 5", "selector:", "selector must be a text, got 5"),
        (
            "    policy",
            "    answers: x\n    policy",
            "  aggressive:",
            "preset aggressive needs exactly one of selector",
        ),
        (
            "    selector: semantic\n",
            "",
            "  aggressive:",
            "preset aggressive needs exactly one of selector and answers",
        ),
        (
            "    definition: ",
            "    # ",
            "  aggressive:",
            "preset aggressive needs the hash of the definition that it was tuned with",
        ),
        ("about: fewest", "abuot: fewest", "abuot:", "a tuned preset has no field 'abuot'; did you mean 'about'"),
        ("    tuning:\n      completeness:", "    tuning: 3\n    x:", "tuning: 3", "tuning must be a mapping, got 3"),
        (
            "    tuning:\n      completeness:",
            "    tuning:\n      n: 3\n      x:",
            "n: 3",
            "tuning.n must be a mapping, got 3",
        ),
        ("  aggressive:", "  other: 3\n  aggressive:", "other: 3", "a tuned preset must be a mapping, got 3"),
        ("definitions:", "definitions: 3\n_:", "definitions: 3", "definitions must be a mapping, got 3"),
        (
            "test_split: ",
            "test_spilt: ",
            "test_spilt",
            "a presets file has no field 'test_spilt'; did you mean 'test_split'",
        ),
        ("test_split: read", "test_split: [read]\n# ", "test_split", "test_split must be a text, got ['read']"),
        ("dataset: desk", "dataset: 7", "tuned:", "tuned must name the dataset that was tuned on"),
        ("format: 1", "format: 2", "format: 2", "format is 2, and this version reads 1; "),
        ("format: 1", "format: true", "format: true", "format is True, and this version reads 1"),
    ],
)
def test_each_fault_is_named_with_its_line(faults, tmp_path, old, new, at, message):
    found = faults(old, new)
    line = line_in(tmp_path / "out" / "desk.yaml", at)
    assert any(number == line and said.startswith(message) for number, said in found), (line, found)


def test_all_faults_are_told_at_once_in_the_order_of_the_file(written):
    path = written(first=tuned(values={**SET, "contextTopN": 99}), second=tuned(values={**SET, "contextTopK": 0}))
    with pytest.raises(InputError) as caught:
        read_presets(path)
    assert [fault.message for fault in caught.value.faults] == [
        "contextTopN must be 0 to 50, got 99",
        "contextTopK must be 1 to 100, got 0",
    ]


def test_a_selector_that_changed_since_says_how(written, own):
    path = written(one=tuned(read_definition(own), str(own), OWN_SET))
    line = line_in(path, "    definition: ")
    for old, new, said in [
        ("range: [0, 50]", "range: [0, 5]", "parameter n was 0 to 50 and is 0 to 5"),
        ("range: [0, 50]", "range: [0.0, 50.0]", "parameter n was 0 to 50 and is 0.0 to 50.0"),
        (
            "odd: {k: 2}}",
            "odd: {k: 2}, third: {k: 3}}",
            "parameter mode was one of even, odd and is one of even, odd, t",
        ),
        ("needs: large", "help: none", "parameter most was 0 to 9000, where large is true and is 0 to 9000"),
        ("  k: {range", "  extra: {default: 1, range: [0, 9]}\n  k: {range", "parameter extra was added"),
        ("- first: {n: $n}", "- gap\n    - first: {n: $n}", "its pipeline differs"),
    ]:
        assert old in OWN
        text = OWN.replace(old, new)
        own.write_text(
            text.replace("first: {n: $n}", "first: {n: $n}\n    - first: {n: $extra}") if "extra" in new else text
        )
        with pytest.raises(InputError) as caught:
            read_presets(path)
        (fault,) = caught.value.faults
        assert fault.line == line
        assert fault.message.startswith(f"selector 'mine' has changed since preset one was tuned: {said}"), fault
        assert fault.message.endswith("; tune again with `ctxbench tune`")
    own.write_text(OWN)
    assert read_presets(path).presets["one"].set == OWN_SET


def test_what_was_removed_and_added_is_told():
    now = parameter_texts(SEMANTIC)
    before = {**now, "contextMost": "0 to 9"}
    del before["contextMargin"]
    assert list(changes(before, SEMANTIC)) == ["parameter contextMargin was added", "parameter contextMost was removed"]
    assert list(changes(now, SEMANTIC)) == []
    assert list(changes({}, SEMANTIC)) == [], "nothing is known of it then"


def test_without_a_record_of_its_parameters_a_changed_selector_is_still_refused(faults):
    found = faults(definition_hash(SEMANTIC), "f" * 64, a=replace(tuned(), parameters={}))
    (message,) = [message for _, message in found]
    assert "has changed since preset a was tuned: its pipeline differs" in message


# ------------------------------------------------------------------------------------------------------------ bad files


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "a presets file has format, tuned and presets, as `ctxbench tune` writes them; got none of them"),
        (
            "# nothing\n",
            1,
            "a presets file has format, tuned and presets, as `ctxbench tune` writes them; got none of them",
        ),
        ("[1]\n", 1, "a presets file has format, tuned and presets, as `ctxbench tune` writes them; got none of them"),
        ("name: e\nselectors: [bm25]\n", 1, "a presets file has format, tuned and presets, as `ctxbench tune` writes"),
        ("format: 1\ntuned: {dataset: d}\npresets: {}\n", 3, "the file holds no preset"),
        ("format: 1\ntuned: {dataset: d}\npresets: []\n", 3, "presets must be a mapping, got []"),
        (
            "format: 1\ntuned: x\npresets: {a: {answers: m, set: {}}}\n",
            2,
            "tuned must name the dataset that was tuned on",
        ),
        ("format: 1\npresets: {a: [}\n", 2, "malformed YAML"),
        ("a: 1\n<<<<<<< ours\nb: 2\n=======\nb: 3\n>>>>>>> theirs\n", 2, "a merge conflict: "),
    ],
)
def test_what_is_no_presets_file_says_what_one_is(tmp_path, text, line, message):
    path = tmp_path / "it.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_presets(path)
    first = caught.value.faults[0]
    assert first.line == line
    assert first.message.startswith(message)


def test_whatever_is_changed_by_hand_is_read_or_is_a_fault(written, own):
    path = written(one=tuned(read_definition(own), str(own), OWN_SET), two=TunedPreset(set={"n": 4}, answers="mine"))
    lines = path.read_text().splitlines(keepends=True)
    rng = np.random.default_rng(1)
    values = ["3", "x", "[1, 2]", "{a: 1}", "null", "true", "1e400", "''", "!!binary aa==", "*a", "&a 1", "- 1"]
    refused = 0
    for _ in range(200):
        changed = list(lines)
        place = int(rng.integers(len(changed)))
        key, _, _ = changed[place].partition(":")
        kind = int(rng.integers(3))
        changed[place] = ("", changed[place] * 2, f"{key}: {rng.choice(values)}\n")[kind]
        path.write_text("".join(changed))
        try:
            read_presets(path)
        except InputError:
            refused += 1
    assert 100 < refused < 200


def test_a_definition_is_named_as_what_it_is(own):
    with pytest.raises(InputError, match=r"is a selector, not a presets file: `ctxbench select TEXT .* --selector "):
        read_presets(own)


def test_a_missing_file_and_a_folder_are_errors(tmp_path):
    for path in (tmp_path, tmp_path / "gone.yaml"):
        with pytest.raises(StorageError, match=re.escape(os.fspath(path))):
            read_presets(path)


def earlier(path, data):
    """A presets file of `semantic` as it was before it could be switched off, expand by graph or hold a budget."""
    text = (
        "format: 1\ntuned: {dataset: desk}\n"
        f"definitions:\n  {SEMANTIC.earlier[0]}: {{{', '.join(f'{name}: x' for name in data)}}}\n"
        f"presets:\n  normal:\n    selector: semantic\n    definition: {SEMANTIC.earlier[0]}\n"
        f"    set: {{{', '.join(f'{name}: {value}' for name, value in data.items())}}}\n"
    )
    path.write_text(text)
    return path


def test_presets_of_before_parameters_were_added_hold_still(tmp_path):
    on = {**SET, "contextExpansionEnabled": "true", "contextExpansionDepth": 1}
    on |= {"contextExpansionThreshold": 0.7, "contextExpansionTopN": 2}
    file = read_presets(earlier(tmp_path / "old.yaml", on))
    values = file.definition("normal").values("normal")
    assert (values["contextExpansionBy"], values["contextSearchEnabled"]) == ("chunks", True)
    assert values["contextExpansionThreshold"] == 0.7
    del on["contextTopN"]
    text = (
        earlier(tmp_path / "old.yaml", on).read_text().replace("contextMargin: x", "contextMargin: x, contextTopN: x")
    )
    (tmp_path / "old.yaml").write_text(text)
    with pytest.raises(
        InputError, match="set lacks contextTopN; a tuned preset gives every parameter that has an effect"
    ):
        read_presets(tmp_path / "old.yaml")


def test_an_earlier_hash_is_no_part_of_the_hash():
    assert definition_hash(replace(SEMANTIC, earlier=())) == definition_hash(SEMANTIC)
    assert definition_hash(SEMANTIC) not in SEMANTIC.earlier


def test_a_preset_of_learned_from_before_it_had_a_threshold_is_outdated(tmp_path):
    before = "0656172bd166ddd254de655ee93ca332ad73d61387bcdd929fd7ecfd6a69b4c0"
    (tmp_path / "old.yaml").write_text(
        f"format: 1\ntuned: {{dataset: desk}}\ndefinitions:\n  {before}: {{margin: 0.0 to 20.0}}\n"
        f"presets:\n  normal:\n    selector: learned\n    definition: {before}\n    set: {{margin: 5.0}}\n"
    )
    with pytest.raises(InputError) as caught:
        read_presets(tmp_path / "old.yaml")
    assert [fault.message.key for fault in caught.value.faults] == ["selectors.preset-outdated"]
