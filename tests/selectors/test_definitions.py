from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.model.requests import Batch
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import Margin, Standard
from ctxbench.selectors import definitions
from ctxbench.selectors.definitions import definition, find_definition, read_definition, shipped
from ctxbench.testing import mock_catalog, mock_requests, mock_resources
from ctxbench.testing.contract import answer_rows

ROOT = Path(__file__).parents[2]


def test_files_of_steps_are_relative_to_the_definition(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "fits.json").write_text("[]", encoding="utf-8")
    steps = "[{abstain: {calibration: fits.json}}, {expansion: {enabled: false, graph: ''}}]"
    path = tmp_path / "sub" / "mine.yaml"
    path.write_text(f"name: mine\npipeline: {{retrieve: dense, refine: {steps}}}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no file of fits: .*sub/fits\.json, line 1") as caught:
        read_definition(path)
    assert len(caught.value.faults) == 1


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
        assert shipped() == (
            *("assembly", "bm25", "codebase", "dense", "everything", "hybrid", "learned", "memory"),
            *("memory-spec", "random", "semantic", "semantic-domains", "semantic-original"),
        )
        for name in shipped():
            found = definition(name)
            assert read_definition(definitions._SHIPPED / f"{name}.yaml") == found
            assert found.name == name
            for preset in (None, *found.presets):
                found.pipeline(found.values(preset))

    @pytest.mark.parametrize(("name", "preset"), [("semantic", "spec"), ("semantic-original", "normal")])
    def test_the_documents_defaults_are_a_preset(self, name, preset):
        found = definition(name)
        cut = found.pipeline(found.values(preset)).refine[0]
        assert cut.call == Standard(topK=20, topN=5, includeScore=0.7)
        assert found.values(preset) == found.values()

    def test_presets_are_ordered_by_what_they_offer(self):
        found = definition("semantic")
        small, normal, large = (found.values(name) for name in ("aggressive", "normal", "conservative"))
        assert small["contextTopN"] < normal["contextTopN"] < large["contextTopN"]
        assert small["contextIncludeScore"] >= normal["contextIncludeScore"] >= large["contextIncludeScore"]

    def test_presets_of_semantic_need_the_specifications_three_numbers_alone(self):
        found = definition("semantic")
        three = {"contextTopK", "contextTopN", "contextIncludeScore"}
        for preset in found.presets:
            values = found.values(preset)
            assert {key for key, value in values.items() if value != found.values()[key]} <= three

    @pytest.mark.parametrize("name", ["semantic", "semantic-original"])
    def test_ranges_are_those_of_the_documents(self, name):
        ranges = {key: one.ends for key, one in definition(name).parameters.items()}
        expansion = {
            "contextExpansionEnabled": (False, True),
            "contextExpansionDepth": (0, 5),
            "contextExpansionThreshold": (0.0, 1.0),
            "contextExpansionTopN": (1, 20),
            "contextExpansionBy": ("chunks", "both"),
            "contextExpansionGraphThreshold": (0.0, 1.0),
            "contextExpansionGraphTopN": (1, 20),
        }
        ours = {
            "contextSearchEnabled": (False, True),
            "contextMargin": (0.0, 1.0),
            "contextTokenBudgetEnabled": (False, True),
            "contextTokenBudget": (1, 200_000),
        }
        assert ranges == {
            "contextTopK": (1, 100),
            "contextTopN": (0, 50),
            "contextIncludeScore": (0.0, 1.0),
            **({**ours, **expansion} if name == "semantic" else {}),
        }

    def test_every_parameter_can_take_the_ends_of_its_range(self):
        for name in shipped():
            found = definition(name)
            for end in (0, 1):
                values = {key: one.ends[end] for key, one in found.parameters.items() if not one.needs}
                values.pop(found.search_switch, None)
                assert found.pipeline(found.values(None, values))

    def test_an_unknown_one_names_the_closest(self):
        with pytest.raises(UnknownNameError, match="unknown selector 'semantik'; did you mean 'semantic'"):
            definition("semantik")


class TestFinding:
    def test_a_shipped_one_is_named_alone_or_with_its_preset(self):
        assert find_definition("bm25") == (definition("bm25"), None)
        assert find_definition("semantic/normal") == (definition("semantic"), "normal")
        assert find_definition("semantic", "normal") == (definition("semantic"), "normal")

    @pytest.mark.parametrize("ending", ["yaml", "yml"])
    def test_a_file_is_relative_to_the_base(self, tmp_path, monkeypatch, ending):
        path = tmp_path / f"mine.{ending}"
        path.write_text(GOOD)
        for base, name in ((tmp_path, path.name), (Path("elsewhere"), str(path))):
            found, preset = find_definition(name, "small", base=base)
            assert (found.name, preset) == ("mine", "small")
        monkeypatch.chdir(tmp_path)
        assert find_definition(path.name)[0].name == "mine"

    def test_two_presets_are_an_error(self):
        with pytest.raises(ParameterError, match=r"selector semantic/normal names a preset already; .* other, small$"):
            find_definition("semantic/normal", "small")

    def test_what_is_not_there_is_named(self, tmp_path):
        with pytest.raises(UnknownNameError, match="unknown selector 'semantik'"):
            find_definition("semantik/normal")
        with pytest.raises(StorageError, match="gone"):
            find_definition("gone.yaml", base=tmp_path)


ON = {"contextExpansionEnabled": True}


class TestSwitches:
    @pytest.mark.parametrize("name", ["semantic", "semantic-domains", "learned"])
    def test_by_default_no_step_and_nothing_in_force_is_other_than_without_them(self, name):
        found = definition(name)
        values, budget = found.values(), "contextTokenBudgetEnabled"
        quiet = {"contextSearchEnabled", budget, "toolsTopK", "rulesTopK", "toolsExpansionEnabled"}
        assert not quiet & set(found.in_force(values))
        assert "budget" not in json.dumps(found.pipeline(values).describe())
        assert found.in_force({**values, budget: True})["contextTokenBudget"] == 2000

    @pytest.mark.parametrize("name", ["semantic", "semantic-domains", "learned"])
    def test_a_budget_stands_behind_all_else(self, name):
        found = definition(name)
        given = {"contextTokenBudgetEnabled": True, "contextTokenBudget": 300}
        *before, last = found.pipeline(found.values(None, given)).refine
        assert (last.name, last.call.tokens) == ("budget", 300)
        assert tuple(before) == found.pipeline(found.values()).refine

    @pytest.mark.parametrize("name", ["semantic", "semantic-domains", "learned"])
    def test_without_search_nothing_else_has_an_effect(self, name):
        found = definition(name)
        values = found.values(None, {"contextSearchEnabled": False})
        assert found.in_force(values) == {"contextSearchEnabled": False}
        assert found.refining(values) == []
        other = next(one for one in found.parameters if one.endswith(("TopK", "threshold")))
        with pytest.raises(ParameterError, match=f"{other} has no effect while contextSearchEnabled is false"):
            found.values(None, {"contextSearchEnabled": False, other: found.parameters[other].default})

    @pytest.mark.parametrize("domain", ["tools", "rules"])
    def test_a_domain_has_a_topk_and_an_expansion_of_its_own(self, domain):
        found = definition("semantic-domains")
        given = {f"{domain}TopK": 7, f"{domain}ExpansionEnabled": True, f"{domain}ExpansionTopN": 2}
        (step,) = found.pipeline(found.values(None, given)).refine
        types = ("tool",) if domain == "tools" else ("*",)
        names = {key: [one.name for one in steps] for key, steps in step.domains.items()}
        assert names.pop(types) == ["top_chunks", "standard", "margin", "expansion"]
        assert list(names.values()) == [["standard", "margin"]]
        first, *_, last = (one.call for one in step.domains[types])
        assert (first.topK, last.topN, last.by) == (7, 2, "chunks")

    OWN = """
name: own
parameters:
  find: {default: true}
  cap: {default: false}
  most: {default: 9, range: [1, 99], needs: cap}
pipeline:
  search: $find
  retrieve: dense
  refine:
    - first
    - when: cap
      budget: {tokens: $most}
    - price
"""

    @pytest.mark.parametrize(
        ("old", "new", "line", "message"),
        [
            ("$find", "find", 8, "search must be $name of a parameter that is true or false, got 'find'"),
            ("$find", "$most", 8, "search must be $name of a parameter that is true or false, got '$most'"),
            ("when: cap", "when: cab", 12, "when must name a parameter with a default, got 'cab'; did you mean 'cap'"),
            ("tokens: $most", "tokens: $most, skap: 1", 13, "with cap: "),
            ("- price", "- prize", 14, "unknown refine strategy 'prize'"),
            ("name: own", "name: own\nearlier: abc", 3, "earlier must be a list, got 'abc'"),
        ],
    )
    def test_what_is_wrong_with_a_switch_is_said_with_its_line(self, faults, old, new, line, message):
        found = faults(self.OWN.replace(old, new))
        assert (line, message) in [(at, what[: len(message)]) for at, what in found]

    def test_what_is_wrong_with_a_step_is_said_where_a_number_or_a_choice_switches_it_on(self, faults):
        found = faults(
            self.OWN.replace("when: cap", "when: most")
            .replace("tokens: $most", "tokens: -1")
            .replace(", needs: cap", "")
        )
        assert [what for _, what in found if what.startswith("with most 1: ")]
        how = "how: {default: none, choices: {none: {most: 9}, all: {most: 5}}}"
        chosen = self.OWN.replace("cap: {default: false}", how).replace("when: cap", "when: how")
        chosen = chosen.replace("most: {default: 9, range: [1, 99], needs: cap}", "most: {range: [1, 99]}")
        found = faults(chosen.replace("tokens: $most", "tokens: $most, skap: 1"))
        assert [what for _, what in found if what.startswith("with how all: ")]

    def test_a_step_that_is_there_for_a_number_is_there_where_that_is_not_its_default(self, read):
        found = read(
            self.OWN.replace("when: cap", "when: most")
            .replace("    - price\n", "")
            .replace(", needs: cap", "")
            .replace("  cap: {default: false}\n", "")
        )
        assert [step.name for step in found.pipeline(found.values()).refine] == ["first"]
        assert [step.name for step in found.pipeline(found.values(None, {"most": 8})).refine] == ["first", "budget"]

    def test_a_step_whose_switch_has_no_effect_is_not_there(self, read):
        found = read(self.OWN.replace("- price\n", "- when: most\n      margin: {margin: 0.2}\n"))
        values = found.with_defaults({"cap": False, "most": 8})  # as a preset or a session may have it
        assert [step.name for step in found.pipeline(values).refine] == ["first"]
        assert found.refining(values) == ["first"]
        values = found.with_defaults({"cap": True, "most": 8})
        assert [step.name for step in found.pipeline(values).refine] == ["first", "budget", "margin"]


class TestExpansion:
    FOUND = definition("semantic")

    def test_the_settings_and_defaults_are_the_documents(self):
        values = {key: value for key, value in self.FOUND.values().items() if "Expansion" in key}
        assert values == {
            "contextExpansionEnabled": False,
            "contextExpansionDepth": 1,
            "contextExpansionThreshold": 0.75,
            "contextExpansionTopN": 3,
            "contextExpansionBy": "chunks",
            "contextExpansionGraphThreshold": 0.75,
            "contextExpansionGraphTopN": 3,
        }

    def test_they_reach_the_step(self):
        given = {
            "contextExpansionEnabled": True,
            "contextExpansionDepth": 2,
            "contextExpansionThreshold": 0.5,
            "contextExpansionTopN": 7,
        }
        step = self.FOUND.pipeline(self.FOUND.values(None, given)).refine[-1].call
        assert (step.enabled, step.depth, step.threshold, step.topN) == (True, 2, 0.5, 7)

    @pytest.mark.parametrize("name", ["Depth", "Threshold", "TopN"])
    def test_without_expansion_its_settings_are_errors(self, name):
        default = self.FOUND.parameters[f"contextExpansion{name}"].default
        with pytest.raises(ParameterError, match=f"contextExpansion{name} has no effect while contextExpansionEnabled"):
            self.FOUND.values(None, {f"contextExpansion{name}": default})

    def test_depth_0_is_off(self):
        values = self.FOUND.values(None, {"contextExpansionEnabled": True, "contextExpansionDepth": 0})
        assert self.FOUND.pipeline(values).refine[-1].off
        assert {name: value for name, value in self.FOUND.in_force(values).items() if "Expansion" in name} == {
            "contextExpansionEnabled": True,
            "contextExpansionDepth": 0,
        }
        with pytest.raises(
            ParameterError, match=r"TopN has no effect while contextExpansionDepth is 0; set .* one of 1, 2"
        ):
            self.FOUND.values(None, {**ON, "contextExpansionDepth": 0, "contextExpansionTopN": 3})

    @pytest.mark.parametrize(
        ("by", "idle"),
        [("chunks", {"GraphThreshold", "GraphTopN"}), ("graph", {"Threshold", "TopN"}), ("both", set())],
    )
    def test_limits_of_the_other_way_have_no_effect(self, by, idle):
        limits = {"Threshold": 0.5, "TopN": 7, "GraphThreshold": 0.6, "GraphTopN": 8}
        own = {f"contextExpansion{name}": value for name, value in limits.items()}
        values = self.FOUND.with_defaults({**ON, "contextExpansionBy": by, **own})
        found = self.FOUND.in_force(values)
        assert {name for name in limits if f"contextExpansion{name}" not in found} == idle
        step = self.FOUND.pipeline(values).refine[-1].call
        used = {"Threshold": step.threshold, "TopN": step.topN}
        used |= {"GraphThreshold": step.graph_threshold, "GraphTopN": step.graph_topN}
        defaults = {"Threshold": 0.75, "TopN": 3, "GraphThreshold": 0.75, "GraphTopN": 3}
        assert step.by == by
        assert used == {name: defaults[name] if name in idle else value for name, value in limits.items()}

    def test_without_margin_and_expansion_it_selects_as_it_did_before(self):
        before = {
            "retrieve": {"dense": {"depth": 100}},
            "refine": [{"standard": {"topK": 20, "topN": 5, "includeScore": 0.7}}],
        }
        batch = Batch.of(mock_catalog(), mock_requests())
        one, other = (
            answer_rows(outcome.query, outcome.candidates, pipeline.prompts(outcome, mock_resources()))
            for pipeline in (self.FOUND.pipeline(self.FOUND.values()), Pipeline.of(before))
            for outcome in [pipeline.run(batch, mock_resources())]
        )
        assert one == other


class TestDomains:
    FOUND = definition("semantic-domains")

    def cuts(self, values):
        (by_domain,) = self.FOUND.pipeline(values).refine
        return {types: tuple(step.call for step in steps) for types, steps in by_domain.domains.items()}

    def test_each_domain_has_cuts_of_its_own_and_topk_is_shared(self):
        given = {"contextTopK": 30, "toolsTopN": 9, "toolsMargin": 0.25, "rulesIncludeScore": 0.6}
        assert self.cuts(self.FOUND.values(None, given)) == {
            ("tool",): (Standard(topK=30, topN=9, includeScore=1.0), Margin(margin=0.25, of="ratio", at_most=100)),
            ("*",): (Standard(topK=30, topN=8, includeScore=0.6), Margin(margin=0.20182, of="ratio", at_most=100)),
        }

    def test_a_mode_sets_its_domain_and_single_parameters_go_over_it(self):
        values = self.FOUND.values(None, {"toolsTopN": 9, "toolsMode": "aggressive"})
        assert (values["toolsTopN"], values["toolsIncludeScore"]) == (9, 0.3804)
        assert (values["rulesTopN"], values["rulesMargin"]) == (8, 0.20182)
        for domain in ("rules", "tools"):
            assert self.FOUND.parameters[f"{domain}Mode"].sets == tuple(
                f"{domain}{name}" for name in ("TopN", "IncludeScore", "Margin")
            )

    @pytest.mark.parametrize("preset", ["aggressive", "normal", "conservative"])
    def test_a_preset_sets_the_cut_of_both_domains_and_a_given_mode_goes_over_it(self, preset):
        own = [name for one in ("rulesMode", "toolsMode") for name in self.FOUND.parameters[one].sets]
        assert set(self.FOUND.presets[preset]) == {"contextTopK", *own}
        values = self.FOUND.values(preset, {"rulesMode": "conservative"})
        assert (values["rulesTopN"], values["rulesMargin"]) == (20, 0.3717)
        assert values["toolsTopN"] == self.FOUND.presets[preset]["toolsTopN"]

    def test_an_unknown_mode_names_those_there_are(self):
        with pytest.raises(
            ParameterError, match=r"^toolsMode must be one of aggressive, normal, conservative, got 'big'$"
        ):
            self.FOUND.values(None, {"toolsMode": "big"})


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
            "share must be a number, got 'x'"
        )

    @pytest.mark.parametrize("value", [-1, 51, 2.0, True, None, "5", float("nan")])
    def test_a_value_of_another_type_or_out_of_range_is_an_error(self, read, value):
        with pytest.raises(ParameterError, match="n must be"):
            read(GOOD).values(None, {"n": value})


KINDS = """\
name: mine
parameters:
  large: {default: false, help: whether more is offered}
  n: {default: 5, range: [0, 50], needs: large}
  retriever: {default: lucene, choices: [lucene, robertson, bm25+], help: the variant}
  k: {default: 1.5, range: [0.0, 9.0], needs: {retriever: lucene}}
  mode:
    default: even
    choices:
      even: {b: 1, top: 3}
      odd: {b: 0.5, top: 2}
  b: {range: [0.0, 1.0]}
  top: {range: [0, 9]}
pipeline:
  retrieve: {bm25: {b: $b, k1: $k, variant: $retriever}}
  refine:
    - first: {n: $n}
    - first: {n: $top}
    - budget: {skip: $large}
presets:
  odd: {set: {mode: odd, n: 7}}
  few: {set: {mode: odd, top: 1}}
"""


class TestKinds:
    def test_a_switch_a_choice_and_numbers_that_a_choice_sets(self, read):
        values = read(KINDS).values()
        assert values == {"large": False, "n": 5, "retriever": "lucene", "k": 1.5, "mode": "even", "b": 1.0, "top": 3}
        assert repr(values["b"]) == "1.0"  # of the type of its range, as a number given for it would be

    def test_they_stand_in_the_pipeline(self, read):
        found = read(KINDS)
        described = found.pipeline(found.values("odd", {"large": True})).describe()
        assert (described["retrieve"]["b"], described["retrieve"]["variant"]) == (0.5, "lucene")
        assert [step.get("n", step.get("skip")) for step in described["refine"]] == [7, 2, True]

    @pytest.mark.parametrize(
        ("preset", "given", "b", "top"),
        [
            (None, {"mode": "odd"}, 0.5, 2),
            (None, {"top": 9, "mode": "odd"}, 0.5, 9),  # whatever stands first
            ("few", {}, 0.5, 1),
            ("few", {"mode": "even"}, 1.0, 3),  # a choice that is given goes over what a preset says singly
            ("few", {"b": 0.25}, 0.25, 1),
        ],
    )
    def test_single_values_go_over_choices_and_what_is_given_over_presets(self, read, preset, given, b, top):
        values = read(KINDS).values(preset, given)
        assert (values["b"], values["top"]) == (b, top)

    @pytest.mark.parametrize("value", [1, 0, "true", None, 1.0])
    def test_a_switch_is_true_or_false(self, read, value):
        with pytest.raises(ParameterError, match="large must be true or false, got"):
            read(KINDS).values(None, {"large": value})

    @pytest.mark.parametrize("value", [1, True, None, "Lucene", ["lucene"]])
    def test_a_choice_is_one_of_its_names(self, read, value):
        with pytest.raises(ParameterError, match="retriever must be one of lucene, robertson, bm25\\+, got"):
            read(KINDS).values(None, {"retriever": value})

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"n": 5}, "n has no effect while large is false; set large to true, or leave n out"),
            ({"n": 3, "large": False}, "n has no effect while large is false; set large to true, or leave n out"),
            (
                {"k": 2.0, "retriever": "bm25+"},
                "k has no effect while retriever is bm25+; set retriever to lucene, or leave k out",
            ),
        ],
    )
    def test_a_value_without_effect_is_an_error_where_it_is_given(self, read, given, message):
        with pytest.raises(ParameterError) as caught:
            read(KINDS).values(None, given)
        assert str(caught.value) == message

    def test_what_has_no_effect_is_not_in_force(self, read):
        found = read(KINDS)
        assert set(found.values()) - set(found.in_force(found.values())) == {"n"}
        assert found.in_force(found.values(None, {"large": True}))["n"] == 5

    def test_defaults_and_presets_are_not_given(self, read):
        assert read(KINDS).values("odd")["n"] == 7
        assert read(KINDS).values(None, {"large": True, "n": 3})["n"] == 3

    @pytest.mark.parametrize(
        ("old", "new", "line", "message"),
        [
            ("default: false", "default: false, range: [0, 1]", 3, "parameter large needs default and range"),
            ("default: false", "defualt: false", 3, "a parameter has no field 'defualt'; did you mean 'default'"),
            ("choices: [lucene, robertson, bm25+]", "choices: []", 5, "parameter retriever needs default and range"),
            (
                "choices: [lucene, robertson, bm25+]",
                "choices: lucene",
                5,
                "choices must be a mapping",
            ),
            ("choices: [lucene, robertson, bm25+]", "choices: [lucene, 5]", 5, "choices must be a text, got 5"),
            ("choices: [lucene, robertson", "range: [0, 1], choices: [lucene", 5, "parameter retriever needs default"),
            ("default: lucene", "default: lucen", 5, "default: retriever must be one of lucene, robertson, bm25+, got"),
            ("needs: large", "needs: lrage", 4, "parameter n needs 'lrage', which is no other parameter; did you mean"),
            ("needs: large", "needs: n", 4, "parameter n needs 'n', which is no other parameter"),
            ("needs: large", "needs: top", 4, "parameter n needs a value that top cannot have: top must be"),
            ("needs: large", "needs: [large]", 4, "needs must be a mapping"),
            ("needs: large", "tuned: never", 4, "tuned must be true or false, got 'never'"),
            ("{retriever: lucene}", "{retriever: lucen}", 6, "parameter k needs a value that retriever cannot have"),
            ("{retriever: lucene}", "{}", 6, "needs must not be empty"),
            ("{retriever: lucene}", "{retriever: [lucene, 5]}", 6, "parameter k needs a value that retriever cannot"),
            ("{retriever: lucene}", "{retriever: []}", 6, "needs.retriever must not be empty"),
            ("{b: 0.5, top: 2}", "{b: 0.5}", 7, "every choice of mode must set the same parameters; odd sets b"),
            ("{b: 0.5, top: 2}", "{b: 5, top: 2}", 7, "choice odd: b must be 0 to 1, got 5"),
            ("{b: 0.5, top: 2}", "{b: 0.5, n: 2}", 7, "choice odd sets 'n', which is no parameter without a default"),
            ("b: {range: [0.0, 1.0]}", "b: {range: [0.0]}", 12, "range must be at least 2 long"),
            ("{default: 5, range: [0, 50], needs: large}", "{range: [0, 50]}", 4, "parameter n has no default, so the"),
            ("mode: odd, n: 7", "mode: add, n: 7", 21, "mode must be one of even, odd, got 'add'"),
        ],
    )
    def test_each_fault_is_named_with_its_line(self, faults, old, new, line, message):
        assert old in KINDS
        found = faults(KINDS.replace(old, new))
        assert any(at == line and said.startswith(message) for at, said in found), found

    def test_two_parameters_cannot_set_the_same(self, faults):
        text = KINDS.replace("  b: {range", "  other: {default: x, choices: {x: {b: 1}}}\n  b: {range")
        assert any(
            "choices of exactly one other parameter must set it; these do: mode, other" in m for _, m in faults(text)
        )


class TestFaults:
    @pytest.mark.parametrize(
        ("old", "new", "line", "message"),
        [
            ("about: A", "abuot: A", 2, "a selector has no field 'abuot'; did you mean 'about'"),
            ("default: 5", "default: 51", 4, "default: n must be 0 to 50, got 51"),
            ("default: 5", "default: five", 4, "parameter n needs default and range [low, high], all numbers"),
            ("default: 5", "default: true", 4, "parameter n needs default and range [low, high], all numbers"),
            ("range: [0, 50]", "range: [0]", 4, "range must be at least 2 long"),
            ("range: [0, 50]", "range: 50", 4, "range must be a list"),
            ("range: [0, 50], ", "", 4, "parameter n needs default and range"),
            ("{default: 5, range: [0, 50], help: items offered}", "5", 4, "a parameter must be a mapping, got 5"),
            ("first: {n: $n}", "first: {n: 5}", 4, "parameter n has no effect: no step takes $n"),
            ("bm25: {", "bm52: {", 8, "unknown retrieve strategy 'bm52'; did you mean 'bm25'"),
            ("first: {n: $n}", "first: {n: $n, m: 1}", 10, "first has no parameter 'm'"),
            ("first: {n: $n}", "first: {n: $share}", 10, "n must be a whole number, got 0.5"),
            ("set: {n: 1}", "set: {n: 99}", 14, "n must be 0 to 50, got 99"),
            ("set: {n: 1}", "set: {m: 1}", 14, "selector 'mine' has no parameter 'm'"),
            ("set: {n: 1}", "set: [n]", 14, "set must be a mapping, got ['n']"),
            ("set: {n: 1}", "sets: {n: 1}", 14, "a preset has no field 'sets'; did you mean 'set'"),
            ("whole: {set: {share: 1}}", "whole: 3", 15, "a preset must be a mapping, got 3"),
        ],
    )
    def test_each_is_named_with_its_line(self, faults, old, new, line, message):
        assert old in GOOD
        found = faults(GOOD.replace(old, new))
        assert any(at == line and said.startswith(message) for at, said in found), found

    @pytest.mark.parametrize("key", ["parameters", "presets"])
    def test_a_list_where_a_mapping_stands_is_named(self, faults, key):
        text = f"name: x\npipeline: {{retrieve: everything}}\n{key}: [a]\n"
        assert faults(text) == [(3, f"{key} must be a mapping, got ['a']")]

    def test_a_preset_that_asks_for_more_than_is_found_is_named(self, faults):
        deep = GOOD.replace("bm25: {b: $share}", "bm25: {b: $share, depth: 5}").replace("set: {n: 1}", "set: {n: 6}")
        ((line, message),) = faults(deep)
        assert line == 7
        assert message.startswith("preset small: ranks the best 5 items (depth), but a later step reads the best 6")

    @pytest.mark.parametrize("text", ["", "[]", "name: x", "pipeline: {retrieve: dense}", "3"])
    def test_what_is_no_definition_says_what_one_is(self, faults, text):
        assert faults(text) == [
            (1, "a selector needs name and pipeline; it may have name, about, parameters, pipeline, presets, earlier")
        ]

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("command: [node, x.mjs]", "- {command: [node, x.mjs], name: ours}"),
            ("name: mine\ncallable: a.py:f", "- {callable: 'a.py:f', name: mine}"),
        ],
    )
    def test_a_selector_of_ones_own_is_told_where_it_goes(self, text, line, faults):
        where = f"write an external selector under `selectors:` in experiment.yaml or gate.yaml: `{line}`"
        assert faults(text) == [(1, f"a selector needs name and pipeline; {where}")]

    def test_everything_wrong_is_said_at_once(self, faults):
        found = faults(
            GOOD.replace("about: A", "abuot: A").replace("default: 5", "default: 51").replace("share: 1", "share: 2")
        )
        assert [line for line, _ in found] == [2, 4, 15]

    def test_other_faults_about_a_faulty_parameter_are_left_out(self, faults):
        text = GOOD.replace("default: 5,", "default: five,").replace("help: a share", "needs: {n: 3}")
        text = text.replace("first: {n: $n}", "first: {n: $n}\n      when: n")
        assert [line for line, _ in faults(text)] == [4]

    def test_null_is_no_text(self, read):
        text = GOOD.replace("help: a share", "help: null").replace("about: few items", "about: null")
        selector = read(text)
        assert (selector.parameters["share"].help, selector.abouts["small"]) == ("", "")

    def test_broken_yaml_has_its_line(self, faults):
        ((line, _),) = faults("name: x\npipeline: {retrieve: [\n")
        assert line >= 2

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(StorageError, match="gone"):
            read_definition(tmp_path / "gone.yaml")


def test_with_the_search_off_what_is_formatted_has_its_values(read):
    found = read(
        "name: x\nparameters:\n  s: {default: true}\n  tone: {default: kind, choices: [kind, curt]}\n"
        "pipeline: {search: $s, retrieve: bm25, format: {messages: {system: $tone}}}\n"
    )
    assert found.pipeline(found.with_defaults({"s": False})).format.call.system == "kind"


@pytest.mark.parametrize("pipeline", ["[dense]", "dense"])
def test_a_pipeline_that_is_no_mapping_is_a_fault(faults, pipeline):
    ((_, message),) = faults(f"name: x\npipeline: {pipeline}\n")
    assert message.startswith("must be a mapping of analyse, retrieve, refine, format")


def test_a_program_that_is_named_as_a_selector_is_told_how_to_be_named():
    with pytest.raises(UnknownNameError, match=r"unknown selector 'own\.mjs'; .* as \{command: \[node, own\.mjs\]\}"):
        find_definition("own.mjs")
