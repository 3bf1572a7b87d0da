"""Gate files: what they mean, and every fault of one at once, with its line."""

from __future__ import annotations

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline_reader import SelectorEntry
from ctxbench.gate.baseline_rows import AnswerRow, ItemRow, QueryRow, SessionItems
from ctxbench.gate.settings import METRICS, GateFields, Pin, Tolerance, examine_gate, read_gate
from ctxbench.io.errors import InputError, StorageError

HEAD = "datasets: [workbench]\nselectors: [semantic, bm25]\n"  # two lines


@pytest.fixture
def write(tmp_path):
    def make(text, name="gate.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def metrics(*names):
    return tuple(map(parse_metric, names))


def faults(path):
    """(line, message) of every fault, in the order in which they are told."""
    with pytest.raises(InputError) as caught:
        read_gate(path)
    assert {fault.path for fault in caught.value.faults} == {path}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def told(path, *expected):
    """Every expected (line, part of a message) is told, in order, and nothing else."""
    found = faults(path)
    assert [line for line, _ in found] == [line for line, _ in expected]
    for (_, message), (_, part) in zip(found, expected, strict=True):
        assert part in message


# ---------------------------------------------------------------------------------------------- what a file means


def test_what_is_left_out_has_its_default(write, tmp_path):
    gate = read_gate(write(HEAD, "quality.yaml"))
    assert (gate.path, gate.baseline) == (tmp_path / "quality.yaml", tmp_path / "quality.baseline")
    assert (gate.experiment.name, gate.experiment.datasets) == ("quality", ("workbench",))
    assert gate.experiment.metrics == METRICS
    settings = gate.settings
    assert settings.metrics == metrics("completeness", "recall", "tokens", "total_tokens")
    assert (settings.confidence, settings.max_lost_required, settings.repeats) == (0.95, None, 1)
    assert (settings.pins, settings.allow_removed, settings.seed) == ((), False, 0)
    assert [settings.tolerance(one) for one in settings.metrics] == [
        Tolerance(0.01),
        Tolerance(0.01),
        Tolerance(0.05, relative=True),
        Tolerance(0.05, relative=True),
    ]


def test_everything_that_is_said_counts(write, tmp_path):
    gate = read_gate(
        write(
            HEAD
            + "seed: 7\nbaseline: kept/here\ngate:\n"
            + "  metrics: [nDCG@10, items, tokens]\n"
            + "  tolerance: {nDCG@10: 0.02, items: 0, tokens: 2.5 %}\n"
            + "  confidence: 0.9\n  max_lost_required: 0\n  repeats: 5\n"
            + "  pins:\n"
            + "    - {query: q1, must_include: [rule:code%20review], must_not_include: [tool:s:d], at_most_items: 0}\n"
            + "    - tag: billing\n      dataset: workbench\n      selector: bm25\n      at_most_tokens: 2000\n"
        )
    )
    assert gate.baseline == tmp_path / "kept" / "here"
    assert gate.experiment.metrics == ("nDCG@10", "items", "tokens", "total_tokens")
    settings = gate.settings
    assert settings.metrics == metrics("nDCG@10", "items", "tokens", "total_tokens")
    assert (settings.confidence, settings.max_lost_required, settings.repeats, settings.seed) == (0.9, 0, 5, 7)
    assert settings.tolerances == {
        parse_metric("nDCG@10"): Tolerance(0.02),
        parse_metric("items"): Tolerance(0.0),
        parse_metric("tokens"): Tolerance(0.025, relative=True),
    }
    include = {"must_include": ("rule:code%20review",), "must_not_include": ("tool:s:d",)}
    assert settings.pins == (
        Pin(query="q1", **include, at_most_items=0).at(12),
        Pin(tag="billing", dataset="workbench", selector="bm25", at_most_tokens=2000).at(13),
    )


def test_metrics_at_the_top_are_judged_where_the_gate_names_none(write):
    gate = read_gate(write(HEAD + "metrics: [recall, COMP@5]\n"))
    assert gate.settings.metrics == metrics("recall", "Comp@5", "tokens", "total_tokens")
    assert gate.experiment.metrics == ("recall", "Comp@5", "tokens", "total_tokens")


@pytest.mark.parametrize(
    ("named", "judged"),
    [
        ("[recall]", ("recall", "tokens", "total_tokens")),
        ("[total_tokens, recall]", ("total_tokens", "recall", "tokens")),
    ],
)
def test_what_an_offer_costs_is_judged_whatever_else_is(write, named, judged):
    """Else an item that is moved to `always` would be cheaper: no longer searched, and sent with every request."""
    gate = read_gate(write(HEAD + f"gate: {{metrics: {named}, tolerance: {{total_tokens: 2%}}}}\n"))
    assert gate.settings.metrics == metrics(*judged)
    assert gate.settings.tolerance(parse_metric("total_tokens")) == Tolerance(0.02, relative=True)


def test_what_is_tolerated_of_tokens_is_tolerated_with_the_sessions(write):
    settings = read_gate(write(HEAD + "gate: {tolerance: {tokens: 20%}}\n")).settings
    assert settings.tolerance(parse_metric("total_tokens")) == Tolerance(0.2, relative=True)


def test_an_item_may_be_written_as_it_is_read(write):
    gate = read_gate(write(HEAD + 'gate: {pins: [{query: q, must_include: ["rule:code review"]}]}\n'))
    assert gate.settings.pins[0].must_include == ("rule:code%20review",)


# ---------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(("text", "part"), [("", "the file is empty; a gate file is"), ("- a\n", "a gate file is")])
def test_what_is_no_mapping(write, text, part):
    told(write(text), (1, part))


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(StorageError, match=r"gate\.yaml"):
        read_gate(tmp_path / "gate.yaml")


def test_faults_of_the_experiment_and_of_the_gate_come_together_by_line(write):
    told(
        write(
            "datasets: []\nselectors: [semantik]\ngates: {}\ncompare_to: semantic\nbaseline: ''\n"
            "gate:\n  metric: [recall]\n  confidence: 95\n  repeats: 0\n  max_lost_required: -1\n"
        ),
        (1, "datasets must not be empty"),
        (2, "did you mean 'semantic'"),
        (3, "a gate file has no field 'gates'; did you mean 'gate'"),
        (4, "a gate file has no field 'compare_to'"),
        (5, "baseline must be a folder such as gate.baseline, got ''"),
        (7, "gate has no field 'metric'; did you mean 'metrics'"),
        (8, "gate.confidence must be at most 0.999, got 95"),
        (9, "gate.repeats must be 1 or more, got 0"),
        (10, "gate.max_lost_required must be 0 or more, got -1"),
    )


def test_with_faults_what_is_right_can_still_be_checked(write):
    gate, found = examine_gate(write(HEAD + "gate:\n  metrics: [recall, recal]\n  confidence: 2\n"))
    assert [fault.line for fault in found] == [4, 5]
    assert gate.settings.confidence == 0.95
    assert [spec.name for spec in gate.experiment.selectors] == ["semantic", "bm25"]


@pytest.mark.parametrize("folder", [".", "..", "a/..", "/", '"a\\0b"'])
def test_a_baseline_needs_a_folder_of_its_own(write, folder):
    told(write(f"{HEAD}baseline: {folder}\n"), (3, "baseline must be a folder such as gate.baseline"))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("metrics: []", "metrics must not be an empty list"),
        ("metrics: recall", "gate.metrics must be a list, got 'recall'"),
        ("metrics: [recall, 3]", "a metric is a name such as completeness, got 3"),
        ("metrics: [recall@5]", "takes no cutoff"),
        ("metrics: [COMP@5, Comp@5]", "metrics names Comp@5 twice"),
        ("metrics: [BoR@5]", "BoR@5 has no values by query"),
        ("tolerance: 0.01", "gate.tolerance must be a mapping"),
        ("tolerance: {recall: -1}", "a tolerance must be a number, 0 or more"),
        ("tolerance: {recall: true}", "a tolerance must be a number, 0 or more"),
        ("tolerance: {recall: 5 percent}", "share of the baseline's mean as in 5%, got '5 percent'"),
        (f"tolerance: {{recall: {'9' * 400}}}", "a tolerance must be a number, 0 or more"),
        (f"tolerance: {{recall: {'9' * 400}%}}", "a tolerance must be a number, 0 or more"),
        ("tolerance: {recall: .nan}", "a tolerance must be a number, 0 or more"),
        ("tolerance: {recall: .inf}", "a tolerance must be a number, 0 or more"),
        ("tolerance: {precision: 0.1}", "precision has a tolerance, but is not judged"),
        ("tolerance: {recal: 0.1}", "did you mean 'recall'"),
        ("confidence: 0.5", "confidence must be above 0.5"),
        ("confidence: 0.9999", "confidence must be at most 0.999"),
        ("confidence: true", "confidence must be a number"),
        ("repeats: 101", "repeats must be at most 100"),
        ("max_lost_required: 1.5", "max_lost_required must be a whole number"),
        ("max_lost_required:", "max_lost_required must be a whole number, got null"),
        ("pins: {}", "pins must be a list"),
        ("pins: [{query: q1, at_most_items: null}]", "at_most_items must be a whole number, got null"),
        ("pins: [{query: ' ', at_most_items: 1}]", "query must be a text that is not blank, got ' '"),
    ],
)
def test_a_setting_that_is_none(write, line, part):
    told(write(f"{HEAD}gate:\n  {line}\n"), (4, part))


def test_a_gate_that_is_no_mapping(write):
    told(write(HEAD + "gate: [recall]\n"), (3, "gate must be a mapping"))


def test_bits_are_refused_with_what_to_judge_instead(write):
    told(write(HEAD + "gate: {metrics: [BoR@5]}\n"), (3, "judge Success@5 or "))


def test_metrics_in_two_places_are_one_too_many(write):
    told(write(HEAD + "metrics: [recall]\ngate:\n  metrics: [tokens]\n"), (5, "metrics are both here and at the top"))


def test_every_fault_of_every_pin_is_told_at_its_line(write):
    told(
        write(
            HEAD
            + "gate:\n  pins:\n"
            + "    - q1\n"
            + "    - {must_include: [rule:a]}\n"
            + "    - {query: q1, tag: t, at_most_items: 3}\n"
            + "    - {query: q1}\n"
            + "    - {query: q1, must_inclde: [rule:a], at_most_items: 1}\n"
            + "    - {query: q1, must_include: ['rul:b', 'rule:c']}\n"
            + "    - {query: q1, must_include: [rule:a], must_not_include: [rule:a]}\n"
            + "    - {query: q1, at_most_items: -1, at_most_tokens: many}\n"
            + "    - {query: q1, selector: bm52, at_most_items: 1}\n"
            + "    - {query: 7, must_include: []}\n"
            + "    - {query: q1, must_includ: [rule:a]}\n"
            + "    - {qury: q1, at_most_items: 1}\n"
        ),
        (5, "gate.pins[0] must be a mapping, got 'q1'"),
        (6, "a pin needs either query or tag"),
        (7, "a pin needs either query or tag"),
        (8, "a pin needs at least one of must_include"),
        (9, "a pin has no field 'must_inclde'; did you mean 'must_include'"),
        (10, "'rul:b' is of no known type; did you mean 'rule'"),
        (11, "rule:a is both in must_include and in must_not_include"),
        (12, "at_most_items must be 0 or more, got -1"),
        (12, "at_most_tokens must be a whole number, got 'many'"),
        (13, "no selector 'bm52' in this file; did you mean 'bm25'"),
        (14, "query must be a text, got 7"),
        (15, "a pin has no field 'must_includ'; did you mean 'must_include'"),
        (16, "a pin has no field 'qury'; did you mean 'query'"),
    )


def test_how_often_selectors_are_asked_stands_once(write):
    selector = "{command: [cat], name: mine, repeats: 3}"
    path = write(f"datasets: [workbench]\nselectors:\n  - bm25\n  - {selector}\ngate: {{repeats: 2}}\n")
    told(path, (4, "repeats belongs under gate:"))


def test_a_pin_of_a_selector_that_cannot_be_read_is_not_called_unknown(write):
    text = "datasets: [d]\nselectors: [{selector: semantic, preset: nope}]\n"
    told(
        write(text + "gate: {pins: [{query: q, selector: semantic/nope, at_most_items: 1}]}\n"),
        (2, "nope"),
    )


@pytest.mark.parametrize("told", ["completeness: 1", "recall: 2", "completeness: 100%"])
def test_a_tolerance_that_nothing_exceeds_is_refused(tmp_path, told):
    path = tmp_path / "gate.yaml"
    path.write_text(f"datasets: [d]\nselectors: [semantic]\ngate:\n  tolerance: {{{told}}}\n")
    with pytest.raises(
        InputError, match=r"never gets worse by more than [^;]+; expected a tolerance below 1"
    ) as refused:
        read_gate(path)
    assert "line 4" in str(refused.value)


def test_an_amount_may_be_tolerated_in_its_unit(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text("datasets: [d]\nselectors: [semantic]\ngate:\n  tolerance: {tokens: 40}\n")
    assert [one.amount for one in read_gate(path).settings.tolerances.values()] == [40.0]


@pytest.mark.parametrize("metric", ["tokens", "forbidden_offered"])
def test_what_is_better_the_lower_it_is_may_grow_to_several_times_the_baseline(tmp_path, metric):
    path = tmp_path / "gate.yaml"
    path.write_text(
        f"datasets: [d]\nselectors: [semantic]\ngate:\n  metrics: [{metric}]\n  tolerance: {{{metric}: 1000%}}\n"
    )
    assert [str(size) for size in read_gate(path).settings.tolerances.values()] == ["1000%"]


@pytest.mark.parametrize("model", [GateFields, ItemRow, QueryRow, SessionItems, AnswerRow, SelectorEntry])
def test_a_schema_describes_every_field_and_has_no_internal_one(model):
    schema = model.model_json_schema()
    for about in (schema, *schema.get("$defs", {}).values()):
        fields = about.get("properties", {})
        assert [name for name, field in fields.items() if not field.get("description")] == []
        assert not {"line", "_line"} & fields.keys()
