from __future__ import annotations

import pytest

from ctxbench.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.selectors.definitions import definition, read_definition, shipped
from ctxbench.steps.cut import Standard

GOOD = """\
name: mine
about: A test.
parameters:
  n: {default: 5, range: [0, 50], help: items offered}
  share: {default: 0.5, range: [0.0, 1.0], help: a share}
pipeline:
  retrieve:
    bm25: {b: $share}
  refine:
    - first: {n: $n}
presets:
  small:
    about: few items
    set: {n: 1}
  whole: {set: {share: 1}}
"""


@pytest.fixture
def read(tmp_path):
    def made(text: str):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return read_definition(path)

    return made


@pytest.fixture
def faults(read):
    def found(text: str) -> list[tuple[int, str]]:
        with pytest.raises(InputError) as caught:
            read(text)
        return [(fault.line, fault.message) for fault in caught.value.faults]

    return found


class TestShipped:
    def test_all_are_read_and_built_with_each_preset(self):
        assert shipped() == ("bm25", "dense", "everything", "hybrid", "random", "semantic", "semantic-original")
        for name in shipped():
            found = definition(name)
            assert found.name == name
            for preset in (None, *found.presets):
                found.pipeline(found.values(preset))

    @pytest.mark.parametrize("name", ["semantic", "semantic-original"])
    def test_normal_is_the_documents_defaults(self, name):
        found = definition(name)
        assert found.values("normal") == {"contextTopK": 20, "contextTopN": 5, "contextIncludeScore": 0.7}
        (cut,) = found.pipeline(found.values("normal")).refine
        assert cut.call == Standard(topK=20, topN=5, includeScore=0.7)

    def test_presets_are_ordered_by_what_they_offer(self):
        found = definition("semantic")
        small, normal, large = (found.values(name) for name in ("aggressive", "normal", "conservative"))
        for key in ("contextTopK", "contextTopN"):
            assert small[key] < normal[key] < large[key]
        assert small["contextIncludeScore"] > normal["contextIncludeScore"] > large["contextIncludeScore"]

    @pytest.mark.parametrize("name", ["semantic", "semantic-original"])
    def test_ranges_are_those_of_the_documents(self, name):
        ranges = {key: (one.low, one.high) for key, one in definition(name).parameters.items()}
        assert ranges == {"contextTopK": (1, 100), "contextTopN": (0, 50), "contextIncludeScore": (0.0, 1.0)}

    def test_every_parameter_can_take_the_ends_of_its_range(self):
        for name in shipped():
            found = definition(name)
            for end in ("low", "high"):
                values = {key: getattr(one, end) for key, one in found.parameters.items()}
                assert found.pipeline(found.values(None, values))

    def test_an_unknown_one_names_the_closest(self):
        with pytest.raises(UnknownNameError, match="unknown selector 'semantik'; did you mean 'semantic'"):
            definition("semantik")


class TestValues:
    def test_what_is_given_goes_over_the_preset_and_that_over_the_defaults(self, read):
        found = read(GOOD)
        assert found.values() == {"n": 5, "share": 0.5}
        assert found.values("small") == {"n": 1, "share": 0.5}
        assert found.values("small", {"share": 0.25}) == {"n": 1, "share": 0.25}
        assert found.values("small", {"n": 7}) == {"n": 7, "share": 0.5}

    def test_a_whole_number_becomes_a_float_where_one_is_meant(self, read):
        found = read(GOOD)
        for values in (found.values(None, {"share": 1}), found.values("whole")):
            assert repr(values["share"]) == "1.0"

    def test_the_values_stand_in_the_pipeline(self, read):
        described = read(GOOD).pipeline({"n": 3, "share": 0.25}).describe()
        assert described["retrieve"]["b"] == 0.25
        assert described["refine"][0]["n"] == 3

    def test_an_unknown_preset_names_the_closest(self, read):
        with pytest.raises(UnknownNameError, match="unknown preset 'smal' of selector 'mine'; did you mean 'small'"):
            read(GOOD).values("smal")

    def test_everything_wrong_with_given_values_is_said_at_once(self, read):
        with pytest.raises(ParameterError) as caught:
            read(GOOD).values(None, {"n": 51, "shar": 1, "share": "x"})
        assert str(caught.value) == (
            "n must be 0 to 50, got 51; "
            "selector 'mine' has no parameter 'shar'; did you mean 'share'? Known: n, share; "
            "share must be of type float, got 'x'"
        )

    @pytest.mark.parametrize("value", [-1, 51, 2.0, True, None, "5", float("nan")])
    def test_a_value_of_another_type_or_out_of_range_is_an_error(self, read, value):
        with pytest.raises(ParameterError, match="n must be"):
            read(GOOD).values(None, {"n": value})


class TestFaults:
    @pytest.mark.parametrize(
        ("old", "new", "line", "message"),
        [
            ("about: A", "abuot: A", 2, "a selector has no 'abuot'; did you mean 'about'"),
            ("default: 5", "default: 51", 4, "default: n must be 0 to 50, got 51"),
            ("default: 5", "default: five", 4, "parameter n needs default and range [low, high], all numbers"),
            ("default: 5", "default: true", 4, "parameter n needs default and range [low, high], all numbers"),
            ("range: [0, 50]", "range: [0]", 4, "parameter n needs default and range"),
            ("range: [0, 50]", "range: 50", 4, "parameter n needs default and range"),
            ("range: [0, 50], ", "", 4, "parameter n needs default and range"),
            ("{default: 5, range: [0, 50], help: items offered}", "5", 4, "n must be a mapping, got 5"),
            ("first: {n: $n}", "first: {n: 5}", 4, "no step takes $n, so that parameter n would do nothing"),
            ("bm25: {", "bm52: {", 8, "unknown retrieve strategy 'bm52'; did you mean 'bm25'"),
            ("first: {n: $n}", "first: {n: $n, m: 1}", 10, "first has no parameter 'm'"),
            ("first: {n: $n}", "first: {n: $share}", 10, "n must be of type int, got 0.5"),
            ("set: {n: 1}", "set: {n: 99}", 14, "n must be 0 to 50, got 99"),
            ("set: {n: 1}", "set: {m: 1}", 14, "selector 'mine' has no parameter 'm'"),
            ("set: {n: 1}", "set: [n]", 14, "set must map parameters to values, got ['n']"),
            ("set: {n: 1}", "sets: {n: 1}", 14, "a preset has about and set, not 'sets'"),
            ("whole: {set: {share: 1}}", "whole: 3", 15, "whole must be a mapping, got 3"),
        ],
    )
    def test_each_is_named_with_its_line(self, faults, old, new, line, message):
        assert old in GOOD
        found = faults(GOOD.replace(old, new))
        assert any(at == line and said.startswith(message) for at, said in found), found

    @pytest.mark.parametrize("key", ["parameters", "presets"])
    def test_a_list_where_a_mapping_stands_is_named(self, faults, key):
        text = f"name: x\npipeline: {{retrieve: everything}}\n{key}: [a]\n"
        assert faults(text) == [(3, f"{key} must map names to mappings, got ['a']")]

    def test_a_preset_that_asks_for_more_than_is_found_is_named(self, faults):
        deep = GOOD.replace("bm25: {b: $share}", "bm25: {b: $share, depth: 5}").replace("set: {n: 1}", "set: {n: 6}")
        ((line, message),) = faults(deep)
        assert line == 7
        assert message.startswith("preset small: finds the best 5 (depth), but a later step looks at the best 6")

    @pytest.mark.parametrize("text", ["", "[]", "name: x", "pipeline: {retrieve: dense}", "3"])
    def test_what_is_no_definition_says_what_one_is(self, faults, text):
        assert faults(text) == [
            (1, "a selector needs name and pipeline; it may have name, about, parameters, pipeline, presets")
        ]

    def test_everything_wrong_is_said_at_once(self, faults):
        found = faults(
            GOOD.replace("about: A", "abuot: A").replace("default: 5", "default: 51").replace("n: 1", "n: 99")
        )
        assert [line for line, _ in found] == [2, 4, 14]

    def test_broken_yaml_has_its_line(self, faults):
        ((line, _),) = faults("name: x\npipeline: {retrieve: [\n")
        assert line >= 2

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(StorageError, match="gone"):
            read_definition(tmp_path / "gone.yaml")
