"""A check as workflow commands."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ctxbench.gate.results import Cause, CauseGroup, CauseKind, Verdict
from ctxbench.io.errors import Fault, Message, harmless
from ctxbench.report.check_files import MOST, code_quality, refusal_commands, workflow_commands
from ctxbench.report.check_texts import Locations

FORM = re.compile(r"::(error|warning) ([^:]*)::(.*)")


def read(text):
    """(kind, properties, message) of every line, as a runner unescapes them."""

    def plain(value):
        for code, sign in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
            value = value.replace(code, sign)
        return value

    found = []
    for line in text.splitlines():
        kind, properties, message = FORM.fullmatch(line).groups()
        pairs = (one.split("=", 1) for one in properties.split(","))
        found.append((kind, {name: plain(value) for name, value in pairs}, plain(message)))
    return found


def test_errors_come_most_costly_first_then_warnings(made):
    found = read(workflow_commands(made.every()))
    assert [(kind, about["title"]) for kind, about, _ in found] == [
        ("error", "mine on desk: not comparable"),
        ("error", "semantic/normal on desk: pin, q2"),
        ("error", "1 required item lost on desk"),
        ("error", "semantic/normal on desk: completeness worse"),
        ("warning", "dense on desk: completeness inconclusive"),
        ("warning", "semantic/normal on desk: notice"),
    ]
    assert found[2][2] == (
        "item edited: text of rule:code%20review edited. semantic/normal lost 1 (q2); to fix it: pin it."
    )


def test_strictly_what_cannot_be_told_is_an_error(made):
    (strict,) = read(workflow_commands(made.check(made.inconclusive()), strict=True))
    assert strict[0] == "error"


def test_nothing_is_said_where_nothing_changed(made):
    assert workflow_commands(made.check(made.same(), made.better())) == ""
    assert workflow_commands(made.check()) == ""


def test_places_are_those_of_pins_and_of_the_items_that_were_changed(made):
    asked = []

    def item(dataset, name):
        asked.append((dataset, name))
        return ("data/corpus.jsonl", 7)

    found = read(workflow_commands(made.check(made.worse()), locations=Locations(gate="gate.yaml", item=item)))
    assert [(about.get("file"), about.get("line")) for _, about, _ in found[:3]] == [
        ("gate.yaml", "12"),
        ("data/corpus.jsonl", "7"),
        ("data/corpus.jsonl", "7"),  # a metric, where its cause is
    ]
    assert asked == [("desk", "rule:code%20review")] * 2


def test_a_metric_names_what_is_to_blame_and_of_tokens_that_is_what_adds_most(made):
    tokens = made.judged("tokens", Verdict.WORSE, [100.0] * 20, [150.0] * 20)
    check = made.check(replace(made.worse(), pins=(), changes=(), lost=0, metrics=(*made.worse().metrics[:1], tokens)))
    found = {about["title"]: message for _, about, message in read(workflow_commands(check))}
    assert found["semantic/normal on desk: completeness worse"].endswith(
        "; item edited: text of rule:code%20review edited"
    )
    said = "; pushed out: 2 new tools stand above it (tool:a:x and tool:a:y)"
    legend = " (~ marks an interval that too few values carry)"
    assert found["semantic/normal on desk: tokens worse"].endswith(said + legend)


def test_of_a_metric_that_cannot_be_told_it_is_said_why(made):
    lost = made.judged("completeness", Verdict.INCONCLUSIVE, [1.0] * 20, [1.0] * 16 + [0.0] * 4)
    for deterministic, why in (
        (True, "20 queries are too few to conclude about other queries"),
        (False, "significant on 20"),
    ):
        one = replace(made.inconclusive(), metrics=(lost,), causes=(), changes=(), deterministic=deterministic)
        found = {about["title"]: message for _, about, message in read(workflow_commands(made.check(one)))}
        assert why in found[f"{one.selector} on desk: completeness inconclusive"]


def test_the_first_item_that_has_a_place_is_taken(made):
    crowd = Cause(kind=CauseKind.CROWDED, subjects=("a", "b", "c"), detail="new tools")
    group = CauseGroup(cause=crowd, lost=1, gained=0, others=0, tokens=0, queries=("q2",))
    places = Locations(item=lambda _dataset, name: ("f.jsonl", 3) if name == "b" else ("", 0))
    found = read(workflow_commands(made.check(replace(made.worse(), pins=(), causes=(group,))), locations=places))
    assert (found[0][1]["file"], found[0][1]["line"]) == ("f.jsonl", "3")


def test_one_cause_of_several_selectors_is_one_annotation(made):
    check = made.check(made.worse(), replace(made.worse(), selector="bm25"), replace(made.worse(), dataset="other"))
    found = [message for _, about, message in read(workflow_commands(check)) if "lost on" in about["title"]]
    assert len(found) == 2
    assert "semantic/normal lost 1 (q2); to fix it: pin it. bm25 lost 1 (q2); to fix it: pin it." in found[0]


def test_a_group_of_several_causes_names_the_queries_that_lost_something(made):
    edits = [replace(made.EDITED, subjects=(name,)) for name in ("a", "b")]
    lost = [replace(made.LOST, query=query, cause=cause) for query, cause in zip(("q8", "q9"), edits, strict=True)]
    both = CauseGroup(
        cause=replace(made.EDITED, subjects=("a", "b")),
        lost=2,
        gained=0,
        others=1,
        tokens=0,
        queries=("q8", "q9", "q1"),
    )
    check = made.check(replace(made.worse(), changes=tuple(lost), causes=(both,), pins=(), metrics=()))
    assert read(workflow_commands(check))[0][2].endswith("semantic/normal lost 2 (q8 and q9).")


def test_items_lost_within_the_allowance_are_a_warning(made):
    found = read(workflow_commands(made.check(replace(made.worse(), allowed=1, pins=(), metrics=()))))
    assert [kind for kind, about, _ in found if "lost on" in about["title"]] == ["warning"]


def test_only_so_many_are_given_as_are_shown(made):
    check = made.check(replace(made.many(30).selectors[0], notices=tuple(f"notice {n}" for n in range(11))))
    found = read(workflow_commands(check))
    errors = [one for one in found if one[0] == "error"]
    warnings = [one for one in found if one[0] == "warning"]
    assert len(errors) == len(warnings) == MOST
    # a pin, 30 causes and a metric are 32 errors: 9 of them, and how many more
    assert errors[-1][2] == "23 more stand in the summary and in the log of this step"
    assert warnings[-1][2] == "2 more stand in the summary and in the log of this step"
    assert "30 required items lost" in errors[1][1]["title"]  # the most costly cause


def test_what_can_no_longer_be_offered_is_an_error_once_at_its_line_or_at_the_labels_that_require_it(made):
    check = made.check(made.gone(), replace(made.gone(), selector="other"))
    places = Locations(
        item=lambda _dataset, item: ("c.jsonl", 7) if item.startswith("rule:") else ("c.jsonl", 0),
        labels=lambda _dataset, query, item: (f"label of {item} of {query}", 2),
    )
    found = read(workflow_commands(check, locations=places))
    title = "required item gone from desk"
    assert [(kind, about) for kind, about, _ in found] == [
        ("error", {"file": "c.jsonl", "line": "7", "title": title}),
        ("error", {"file": "label of tool:a:x of q7", "line": "2", "title": title}),
    ]
    assert found[0][2] == "rule:code%20review (disabled): required by 2 queries (q2 and q5); no accepted alternative"


def test_what_is_dearer_stands_at_its_line_where_tokens_decide(made):
    lines = {"tool:a:x": 3, "tool:a:y": 4, "rule:z": 5}
    places = Locations(item=lambda _dataset, item: ("c.jsonl", lines[item]))
    found = read(workflow_commands(made.check(made.dearer()), locations=places))
    assert [(kind, about["line"]) for kind, about, _ in found] == [("error", "3"), ("warning", "3"), ("warning", "4")]
    assert found[0][2].endswith("; item costs more tokens: 2 items cost more prompt tokens (tool:a:x and tool:a:y)")
    assert found[1][1]["title"] == "item costs more tokens on desk"
    assert found[1][2] == ("tool:a:x costs 540 prompt tokens and cost 100 (schema edited): 1,760 more over 4 queries")
    same = replace(made.dearer(), metrics=())
    assert workflow_commands(made.check(same), locations=places) == ""


def test_no_p_value_stands_beside_what_a_deterministic_selector_came_to(made):
    for deterministic in (True, False):
        check = made.check(replace(made.worse(), deterministic=deterministic))
        (told,) = (text for _, about, text in read(workflow_commands(check)) if "completeness" in about["title"])
        assert (", p 0.0020, tolerance" in told) is not deterministic


def test_what_may_be_lost_by_chance_is_an_error_only_strictly(made):
    check = made.check(replace(made.worse(), verdict=Verdict.INCONCLUSIVE, pins=(), metrics=()))
    for strict, kind in ((False, "warning"), (True, "error")):
        assert read(workflow_commands(check, strict=strict))[0][:2] == (kind, {"title": "1 required item lost on desk"})


def test_what_others_wrote_ends_no_property_and_no_line(made):
    text = workflow_commands(
        made.hostile(), locations=Locations(gate="a,b:c.yaml", item=lambda _d, _i: ("x:y,z.jsonl", 2))
    )
    found = read(text)  # every line has the one form
    assert len(found) == len(text.splitlines())
    assert found[0][1]["file"] == "a,b:c.yaml"
    assert all(c.isprintable() or c == "\n" or "\ud800" <= c <= "\udfff" for c in text)


def test_a_refusal_keeps_its_lines():
    text = refusal_commands([Fault("2 faults: 100%\n  a, b")])
    assert text == "::error title=ctxbench check%3A cannot judge::2 faults: 100%25%0A  a, b\n"


def test_a_refusal_is_an_error_a_fault_at_its_place():
    faults = [
        Fault("a", Path("data/x.yaml"), 3, 7),
        Fault("b", "data/x.yaml"),
        Fault("c", "elsewhere.yaml", 5),
        Fault("d"),
    ]
    text = refusal_commands(faults, file=lambda path: f"repo/{path.as_posix()}" if path.parts[0] == "data" else "")
    title = "title=ctxbench check%3A cannot judge"
    assert text.splitlines() == [
        f"::error file=repo/data/x.yaml,line=3,col=7,{title}::a",
        f"::error file=repo/data/x.yaml,{title}::b",
        f"::error {title}::c (elsewhere.yaml, line 5)",
        f"::error {title}::d",
    ]


def test_of_many_faults_so_many_are_given_as_are_shown():
    found = read(refusal_commands([Fault(f"{n}", "a.yaml", n) for n in range(1, 31)]))
    assert [about.get("line") for _, about, _ in found] == [*map(str, range(1, MOST)), None]
    assert found[-1][2] == "21 more stand in the log of this step"


@pytest.mark.parametrize(
    ("kind", "subjects", "place"),
    [
        (CauseKind.PARAMETER, ("n",), ("gate.yaml", "8")),
        (CauseKind.CODE, (), ("gate.yaml", "8")),
        (CauseKind.EXTERNAL, (), ("gate.yaml", "8")),
        (CauseKind.MODEL, (), ("gate.yaml", "3")),
        (CauseKind.CROWDED, ("b",), ("c.jsonl", "4")),
        (CauseKind.GONE, ("a",), ("c.jsonl", None)),  # where it stood is not known, but in which file
        (CauseKind.CROWDED, (), ("c.jsonl", None)),  # nor by which items
        (CauseKind.UNKNOWN, (), (None, None)),
    ],
)
def test_a_cause_has_the_place_of_what_was_changed(made, kind, subjects, place):
    group = CauseGroup(cause=Cause(kind=kind, subjects=subjects), lost=1, gained=0, others=0, tokens=0, queries=("q2",))
    check = made.check(replace(made.worse(), causes=(group,), pins=(), metrics=()))
    places = Locations(
        gate="gate.yaml",
        selectors={"semantic/normal": 8},
        embedder=3,
        item=lambda _dataset, name: ("c.jsonl", 4 if name == "b" else 0),
    )
    about = read(workflow_commands(check, locations=places))[0][1]
    assert (about.get("file"), about.get("line")) == place
    outside = replace(places, gate="")  # a gate file that is not in the repository
    assert "gate.yaml" not in workflow_commands(check, locations=outside)


@pytest.mark.parametrize(
    ("why", "place"), [("relabelled", "labels q7"), ("changed", "query q7"), ("removed", "query q7"), ("new", None)]
)
def test_what_cannot_be_compared_has_the_place_of_the_first_query_that_was_changed(made, why, place):
    places = Locations(query=lambda _d, name: (f"query {name}", 2), labels=lambda _d, name: (f"labels {name}", 2))
    check = made.check(replace(made.not_comparable(), left_out={why: ("q7", "q8")}))
    ((_, about, _),) = read(workflow_commands(check, locations=places))
    assert about.get("file") == place


def test_selectors_that_cannot_be_compared_for_one_reason_are_one_annotation(made):
    one = made.not_comparable()
    others = (replace(one, selector="other"), replace(one, dataset="x"), replace(one, selector="third", reasons=("r",)))
    found = read(workflow_commands(made.check(one, *others)))
    assert [about["title"] for _, about, _ in found] == [
        "mine and other on desk: not comparable",
        "mine on x: not comparable",
        "third on desk: not comparable",
    ]


def test_what_all_selectors_are_told_is_one_warning(made):
    check = made.check(*(replace(made.same(), selector=name, notices=("shared", name)) for name in ("a", "b")))
    assert [message for _, _, message in read(workflow_commands(check))] == ["shared", "a", "b"]


# What a runner does with a line, from actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2: blanks in front
# are taken off, what stands between the first `::` and the next is the command with its properties, split at commas.
def obeyed(line):
    line = line.lstrip()
    if not line.startswith("::") or "::" not in line[2:]:
        return None
    command, _, message = line[2:].partition("::")
    name, _, properties = command.partition(" ")
    return name, [one.split("=", 1)[0] for one in properties.split(",")], message


@given(st.text(alphabet="a:%,=;]#[\n\r\t\u2028\x85%0A ", max_size=30), st.text(alphabet="a:,/%\n", max_size=10))
def test_whatever_others_wrote_every_line_is_one_command_that_says_it(text, file):
    printed = refusal_commands([Fault(text, "x.yaml", 2)], file=lambda _path: file)
    (line,) = re.split("\r\n|\r|\n", printed.removesuffix("\n"))
    name, properties, _ = obeyed(line)
    assert name == "error"
    assert properties == [*(["file", "line"] if file else []), "title"]
    ((_, about, message),) = read(printed)
    assert about.get("file", "") == file
    told = text if file else f"{text} (x.yaml, line 2)"
    assert message == re.sub("[\t\u2028\x85]", "\ufffd", told)


@given(st.text(alphabet="a:%,=]#[\n\r\t\u2028 ", max_size=30))
def test_whatever_others_wrote_no_other_line_is_a_command(text):
    for line in re.split("[\r\n\u2028]", harmless(text)):
        assert obeyed(line) is None
        assert "##[" not in line


def test_an_edited_file_of_a_selector_of_ones_own_is_the_place():
    cause = Cause(kind=CauseKind.EXTERNAL, subjects=("node", "src/rank.js"), detail="src/rank.js was edited")
    places = Locations(
        gate="g.yaml", selectors={"s": 5}, external_file=lambda name: f"app/{name}" if name.endswith(".js") else ""
    )
    assert places.of_cause(cause, "desk", ["s"]) == ("app/src/rank.js", 0)
    assert places.of_cause(replace(cause, subjects=("timeout",)), "desk", ["s"]) == ("g.yaml", 5)


def test_the_fingerprint_of_a_notice_is_the_same_whatever_it_counts(made):
    def fingerprints(n):
        notices = (Message("gate.swaps", n=n, names="q1"), f"{n:,} queries were left out")
        check = made.check(replace(made.same(), notices=notices), notices=notices[1:])
        return [problem["fingerprint"] for problem in json.loads(code_quality(check))]

    assert fingerprints(2) == fingerprints(1_200)
    assert len({*fingerprints(2)}) == 3
