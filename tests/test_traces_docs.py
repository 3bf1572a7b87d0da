"""What the pages on logs show is what an import gives, and their tables are complete."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.datasets.layout import SIGNALS, Exposure
from ctxbench.io.redaction import KINDS, read_rules, redactor
from ctxbench.labelling.record_files import NameResolver
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces, redactor_for
from ctxbench.labelling.trace_labels import COUNTS, NOTES, SEARCHES, SHELLS, is_search, is_shell
from ctxbench.labelling.trace_messages import STATUSES
from ctxbench.labelling.trace_turns import TURN_FIELDS
from ctxbench.model.items import Catalog, Item

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "datasets" / "traces.md").read_text("utf-8")


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text, table=0):
    """The rows of a table, as cells."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[table]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()[2:]]


def names(cells):
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The import of the page's example."""
    folder = tmp_path_factory.mktemp("traces")
    blocks = re.findall(r"^`([^`\n]+)`\n\n```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["catalog.jsonl", "log.jsonl"]
    for name, text in blocks:
        (folder / name).write_text(text, "utf-8")
    catalog = read_catalog(folder / "catalog.jsonl")
    source = TraceSource(logs=(folder / "log.jsonl",), catalog=catalog)
    return import_traces(source, TraceSettings(name="mine"), redact=redactor_for(catalog))


def test_the_example_gives_the_queries_of_the_table(example):
    table = rows(section("An example"))
    dataset = example.dataset
    assert len(table) == len(dataset) == 4
    for (query_id, labels, state, signals), query, exposure in zip(
        table, dataset.queries, example.exposures, strict=True
    ):
        assert query_id == f"`{query.id}`"
        assert names([labels]) == [label.item.id for label in dataset.labels_of(query.id)]
        partly = "partly" if query.partly_labelled else "wholly" if labels else "unlabelled"
        assert state == ("needs nothing" if query.needs_nothing else partly)
        assert tuple(names([signals])) == exposure.signals
    assert dataset.unlabelled == ("c1-1", "c1-2")
    assert [key.id for key in example.exposures[1].wanted] == ["tool:forge:list_runs"]
    assert example.report.counts["lines_unreadable"] == 0


@pytest.mark.parametrize(
    ("title", "table", "expected"),
    [
        ("Turns", 0, TURN_FIELDS),
        ("Turns", 1, STATUSES),
        ("What becomes a label", 0, SIGNALS),
        ("Redaction", 0, (*KINDS, "workspace")),
        ("What is counted", 0, [name for part in COUNTS.values() for name in part]),
    ],
)
def test_each_table_has_every_name_and_no_other(title, table, expected):
    assert sorted(names(row[0] for row in rows(section(title), table))) == sorted(expected)


def test_the_names_of_the_table_are_found_by_the_rules_that_it_says():
    cut = "a server with a long name", "and a tool with a long name that is cut"
    items = [("tracker", "create_issue"), ("tracker", "search_issues"), cut]
    resolver = NameResolver(Catalog([Item(type="tool", server=server, name=name) for server, name in items]))
    table = rows(section("Names"))
    assert [row[0] for row in table] == ["`id`", "`name`", "`joined`", "`cleaned`", "`cut`"]
    for rule, examples, _ in table:
        for name in names([examples]):
            assert f"`{resolver.resolve(name).rule}`" == rule


def test_the_tools_of_the_signals_are_those_that_are_looked_for():
    table = {names([row[0]])[0]: names([row[1]]) for row in rows(section("What becomes a label"))}
    assert all(is_search(name) and name in SEARCHES for name in table["searched-again"])
    assert all(is_shell(name) and name in SHELLS for name in table["shell-instead"])


def test_the_file_of_own_patterns_is_valid(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", section("Redaction"), re.DOTALL)
    path = tmp_path / "own.yaml"
    path.write_text(block)
    _, keep = read_rules(path)
    assert keep == ("support@corp.example",)
    text = "CUST-7 on plan gold: support@corp.example or +49 171 2345678"
    assert redactor(path).text(text) == "<customer-1> on plan <plan-1>: support@corp.example or +49 171 2345678"


def test_each_field_of_the_exposures_is_named():
    last = PAGE.rpartition("`exposure.jsonl`")[2]
    assert {field.name for field in dataclasses.fields(Exposure)} <= set(names([last]))


def test_what_the_report_puts_in_words_is_counted():
    assert set(NOTES) <= {name for part in COUNTS.values() for name in part}
