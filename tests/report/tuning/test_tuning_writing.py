"""The report as files: whole, the same each time, each figure where a link says."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from ctxbench.io.errors import StorageError
from ctxbench.report.tuning_document import write_markdown, write_report
from ctxbench.report.tuning_tables import console_table

EDGES = ("nothing", "one", "unread", "unknown", "huge", "bare", "none", "together", "hostile")
VOID = {"meta", "link", "br", "wbr"}


class Balanced(HTMLParser):
    """Reads a page, and holds what is open."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(html):
    page = Balanced()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


def test_all_files_are_written_and_named(report_of):
    paths = report_of("usual")
    folder = paths[0].parent
    assert [str(path.relative_to(folder)) for path in paths[:3]] == [
        "report.md",
        "report.html",
        "report-tables.md",
    ]
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(paths)
    assert len(paths) == 3 + 2 * (2 + 2 * 2)  # two trade-offs per dataset; two figures per recommendation


def test_the_same_tuning_gives_the_same_bytes(made, report_of, tmp_path):
    one, two = report_of("usual"), write_report(made.tuning(), tmp_path)
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


@pytest.mark.parametrize("edge", EDGES)
def test_whatever_comes_is_written_and_every_link_leads_to_a_figure(made, report_of, edge):
    markdown, html, *figures = report_of(edge)
    linked = set(re.findall(r"\]\((figures/[^)]+)\)", markdown.read_text("utf-8")))
    assert linked == {str(path.relative_to(markdown.parent)) for path in figures}
    for path in figures:
        ET.fromstring(path.read_text("utf-8"))
    page = read(html.read_text("utf-8"))
    assert "script" not in page.seen
    for text in (markdown.read_text("utf-8"), " ".join(page.text), console_table(made.edges()[edge])):
        assert not re.search(r"\b(nan|inf|None)\b", text)


def test_the_edges_are_all_tried(made):
    assert tuple(made.edges()) == EDGES


def test_the_page_shows_the_figures_of_the_summary(report_of):
    _, html, *_ = report_of("usual")
    text = " ".join(read(html.read_text("utf-8")).text).replace("\u00a0", " ")
    for said in (
        "What is recommended",
        "92.0 (89.0–95.0)",
        "−41.8% (−45.5 to −38.2)",
        "not significant",
        "of requests at 320 tokens; semantic with the specification's defaults for 92.1% at 550 (completeness: not",
        (
            "within-4000: keep the default (specification's defaults); label about 300 to 640 more requests to tell "
            "whether a setting meets the target."
        ),
        "keep the default: 49 queries are too few to tell that the constraint is met",
        "billing: 75.0 of 12 queries",
        "23 requests made worse",
        "12 became complete and 185 stayed as they were",
        "12,345,678 settings compared exactly, and 64 run one by one",
        "183 queries of split tuning and 217 of 1,217 queries of split test; 370 items",
        "on the queries that decided 0.9132 was compared with completeness >= 0.9 of what is reachable at 20 items",
        "completeness >= 0.9 of what is reachable at 20 items is open: 0.93 (0.91 to 0.95); about 120 more labels",
        "The test split was read once.",
        "ctxbench tune bfcl-simple workbench --policy policies.yaml",
    ):
        assert said in text, said


def test_the_page_opens_with_the_presets_and_the_front_and_folds_the_method(made, tmp_path):
    dated = replace(made.tuning(made.dataset()), date="2026-11-29")
    _, html, *_ = write_report(dated, tmp_path)
    text = html.read_text("utf-8")
    assert "<h1><bdi>bfcl-<wbr>simple \u00b7 2026-<wbr>11-<wbr>29</bdi></h1>" in text
    head, *folds = text.partition("<main>")[2].split("<details>")
    assert head.index("about 120 more labels would tell") < head.index("<svg")
    assert head.count("<svg") == 2, "the front, and the same where it is narrow"
    assert "Tuned fixed k is the first k items" not in head
    assert any("Tuned fixed k is the first k items" in fold for fold in folds)


def test_the_page_asks_for_nothing_and_escapes_all_texts(report_of):
    _, html, *_ = report_of("hostile")
    text = html.read_text("utf-8")
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(src|href)=\"(?!#|data:,)", text)
    assert "\u202e" not in text


def test_intervals_that_do_not_hold_are_explained(made, tmp_path):
    against = {"defaults": {"completeness": made.comparison(0.9, 0.9, 0.1, interval=made.interval(-1, 1, holds=False))}}
    for given, wanted in (({"against": against}, True), ({}, False)):
        outcome = made.outcome(slices=(), heat_maps=(), **given)  # without figures, which take seconds
        tuning = made.tuning(made.dataset(outcomes=(outcome,), traces=()))
        markdown, *_ = write_report(tuning, tmp_path)
        assert ("\\~ behind an interval" in markdown.read_text("utf-8")) is wanted
        assert ("~ behind an interval" in " ".join(console_table(tuning).split())) is wanted


def test_an_interval_of_any_table_is_explained(made, tmp_path):
    """Also of a contender that is not recommended, or of what costs as many tokens."""
    loose = {"completeness": made.estimate(0.9, 0.1, holds=False)}
    other = replace(made.dataset(outcomes=()).results[0], test=loose)
    tuning = made.tuning(made.dataset(results=(other,), outcomes=(made.outcome(slices=(), heat_maps=()),), traces=()))
    markdown, html, *_ = write_report(tuning, tmp_path)
    assert "\\~ behind an interval" in markdown.read_text("utf-8")
    assert "~ behind an interval" in html.read_text("utf-8")
    assert "~ behind" not in console_table(tuning), "the console does not show it"


def test_markdown_alone_stands_beside_its_folder_of_figures(made, tmp_path):
    path, *figures = write_markdown(made.edges()["one"], tmp_path / "presets.md", figures="presets")
    assert path == tmp_path / "presets.md"
    assert {figure.parent for figure in figures} == {tmp_path / "presets"}
    assert "](presets/bfcl-simple-trade-off.svg)" in path.read_text("utf-8")
    assert not (tmp_path / "report.html").exists()


def test_a_place_that_cannot_be_written_is_named(made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        write_report(made.edges()["nothing"], tmp_path / "file")


def test_the_console_has_both_splits_and_changes_in_eighty_columns(made):
    text = console_table(made.tuning())
    assert max(map(len, text.splitlines())) <= 80
    assert text.endswith("\n")
    lines = text.splitlines()
    assert lines[0].startswith("normal: a setting is better than the default on 2 of 2 datasets")
    assert "    completeness % 93.0 (90.0–96.0)          92.0 (89.0–95.0)" in lines
    assert "    prompt tokens  320 (304–336)             336 (319–353)" in lines
    assert "      prompt tokens −41.8% (−45.5 to −38.2), p=0.0004" in lines
    assert "      completeness, points −0.1 (−2.1 to +1.9), not significant" in lines
    assert "    target, test split: holds" in lines
    assert "    keep the default: 49 queries are too few to tell that the constraint is met;" in lines
    assert "      label about 300 to 640 more requests to tell whether a setting meets the" in lines


@pytest.mark.parametrize("edge", [name for name in EDGES if name != "hostile"])
def test_the_console_keeps_to_eighty_columns(made, edge):
    assert max(map(len, console_table(made.edges()[edge]).splitlines())) <= 80


def test_a_plain_console_gets_ascii(made):
    assert console_table(made.tuning(), plain=True).isascii()
