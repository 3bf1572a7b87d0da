"""The page as text: what it says, refers to and escapes. The browser's part is in test_run_page_browser.py."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import summarise_run
from ctxbench.io.errors import StorageError
from ctxbench.model.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.model.items import Catalog, Item
from ctxbench.report import run_page
from ctxbench.report.document import estimate_interval, inline
from ctxbench.report.run_page import dataset_payload, page_tokens, render_page, script_json
from ctxbench.report.run_tables import comparison_table, run_answer
from ctxbench.report.run_text import markdown_report, print_summary
from ctxbench.report.scores import score_groups, threshold_of
from ctxbench.search.tokens import CharsCounter
from tests.experiment_files import store_blocks


class Reader(HTMLParser):
    """Collects elements with their attributes and text, as a browser's parser would find them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[tuple[str, dict[str, str | None], list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, dict(attrs), list[str]())
        self.elements.append(element)
        if tag not in ("meta", "link", "br", "wbr", "img", "input"):
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element[2].append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [
            " ".join("".join(text).split())
            for name, given, text in self.elements
            if name == tag and attributes.items() <= given.items()
        ]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.fixture(scope="module")
def html(made_run) -> str:
    return render_page(made_run.folder, made_run.datasets, tokens=made_run.tokens)


@pytest.fixture(scope="module")
def page(html: str) -> Reader:
    return read(html)


def printed(summary: Any) -> str:
    out = io.StringIO()
    print_summary(summary, out, width=400)
    return out.getvalue()


def payload(page: Reader, number: int) -> Any:
    (text,) = [
        "".join(text)
        for name, given, text in page.elements
        if name == "script" and given.get("id") == f"dataset-{number}"
    ]
    return json.loads(text)


def column(values: Any, size: int) -> list[Any]:
    """A column of the payload as a list; see `drill._column`."""
    return [values["all"]] * size if isinstance(values, dict) else values


# ---------------------------------------------------------------------------------------------- nothing is loaded


def test_nothing_in_the_page_refers_to_anything_outside_it(page: Reader) -> None:
    loading = {"src", "href", "srcset", "data", "action", "formaction", "poster", "background", "xlink:href"}
    for name, attributes, _ in page.elements:
        for attribute in loading & attributes.keys():
            value = attributes[attribute] or ""
            assert value.startswith("#") or value == "data:,", (name, attribute, value)
    assert not {"iframe", "object", "embed", "base", "img", "form"} & {name for name, _, _ in page.elements}


def test_styles_and_scripts_load_nothing(page: Reader) -> None:
    style = "".join(page.texts("style"))
    script = page.texts("script")[-1]
    assert not re.search(r"url\(|@import|https?:", style)
    assert not re.search(r"https?:|fetch\(|XMLHttp|WebSocket|EventSource|import\(|innerHTML|outerHTML|eval\(", script)


def test_the_policy_lets_only_the_script_of_the_page_run(html: str, page: Reader) -> None:
    (policy,) = [
        given["content"] for name, given, _ in page.elements if given.get("http-equiv") == "Content-Security-Policy"
    ]
    script = html.rsplit("<script>", 1)[1].split("</script>", maxsplit=1)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert not any(name.startswith("on") for _, given, _ in page.elements for name in given)


# ---------------------------------------------------------------------------------------------- what was asked for


def main_tables(html: str, name: str = "comparison") -> list[Reader]:
    """The comparisons that a page opens with, one a dataset."""
    return [read(one.split("</table>")[0]) for one in html.split(f'<table class="{name}">')[1:]]


def test_a_comparison_has_five_columns(html: str) -> None:
    for table in main_tables(html):
        heads = ["selector", "complete %", "prompt tokens", "difference points, tokens", "significant"]
        assert table.texts("th", scope="col") == heads


def test_each_of_several_datasets_has_its_sentence_wherever_the_run_is_shown(made_run, page: Reader) -> None:
    summary = summarise_run(made_run.folder)
    texts, markdown = [" ".join(page.texts("p")), printed(summary)], markdown_report(summary, made_run.datasets)
    for dataset in summary.datasets:
        sentence = run_answer(summary, dataset)
        assert all(sentence in text for text in texts), sentence
        assert inline(sentence) in markdown
    assert inline(run_answer(summary)) in markdown
    assert all(run_answer(summary) in text for text in (*texts, " ".join(page.texts("strong"))))
    (first, _) = summary.datasets
    assert comparison_table(replace(summary, datasets=(first,)), first).answer == ""


def test_every_metric_that_was_named_is_shown_at_once(made_run, html: str) -> None:
    metrics = ["completeness", "recall", "items", "abstention", "nDCG@10"]
    summary = summarise_run(made_run.folder)
    experiment = {**summary.manifest["experiment"], "metrics": metrics, "metrics_named": True}
    named = replace(summary, manifest={**summary.manifest, "experiment": experiment})
    page = render_page(made_run.folder, made_run.datasets, tokens=made_run.tokens, summary=named)
    markdown = markdown_report(named, made_run.datasets)
    for table, dataset in zip(main_tables(page, "every"), named.datasets, strict=True):
        for title in ("completeness %", "recall %", "items", "abstention %", "nDCG@10 %"):
            assert title in table.texts("th", scope="row")
        value = dataset.selectors[0].estimates["recall"]
        text = f"{100 * value.value:.1f} {estimate_interval(parse_metric('recall'), value)}"
        assert text in table.texts("td")
    for name in metrics:
        assert any(name in line for line in markdown.splitlines() if line.startswith("| selector | completeness"))
    assert page.count("<details open><summary>All metrics") == 2
    assert "<details open><summary>All metrics" not in html


def test_an_agent_with_a_shipped_selector_is_called_so_everywhere(made_run) -> None:
    summary = summarise_run(made_run.folder)
    base, title = summary.compare_to, f"{summary.compare_to} (= learned/normal, shipped)"
    described = {**summary.manifest["selectors"]}
    described[base] = {**described[base], "shipped": "learned/normal"}
    agent = replace(summary, manifest={**summary.manifest, "selectors": described})
    html = render_page(made_run.folder, made_run.datasets, tokens=made_run.tokens, summary=agent)
    for table in main_tables(html):
        assert title in table.texts("th", scope="row")
    assert f"{title} (baseline)" in html, "in the chart"
    assert next(one["name"] for one in payload(read(html), 0)["selectors"]) == title
    assert title in markdown_report(agent, made_run.datasets)
    assert next(iter(agent.as_dict()["datasets"].values()))["selectors"].keys() == described.keys()


# ---------------------------------------------------------------------------------------------- strangers' texts


def test_texts_of_strangers_add_no_element(page: Reader, html: str, hostile: str) -> None:
    scripts = [given for name, given, _ in page.elements if name == "script"]
    kinds = [given.get("type") for given in scripts]
    assert kinds == ["application/json", "application/json", "application/json", None]
    assert "<script>alert" not in html
    assert "<!-- <img" not in html
    assert "<b>own</b>" not in html


def test_texts_of_strangers_arrive_unchanged(page: Reader, hostile: str) -> None:
    data = payload(page, 0)
    assert data["queries"]["text"][2] == hostile
    assert data["items"]["name"][9] == hostile
    assert column(data["items"]["description"], 11)[9] == hostile
    assert "ctxbench run: trial <script>alert(1)</script>" in page.texts("p")
    assert "my <b>own</b>\u202e selector 1 failed" in page.texts("th")


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "&amp;", "\u2028\u2029", "\\u003c", "\u202e", '"\\'])
def test_json_in_a_script_can_neither_end_nor_open_one_and_reads_back_equal(text: str) -> None:
    written = script_json({"a": text})
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == {"a": text}


def test_lone_surrogates_are_replaced_since_utf8_has_none() -> None:
    assert json.loads(script_json(["a\ud800b", "\U0001f600"])) == ["a\ufffdb", "\U0001f600"]


# ---------------------------------------------------------------------------------------------- what it says


def test_the_figures_are_those_of_the_summary(made_run, page: Reader) -> None:
    (dataset, _) = summarise_run(made_run.folder).datasets
    shown = page.texts("td")
    for one in dataset.selectors:
        value, interval = one.estimates["completeness"].value, one.estimates["completeness"].interval
        assert f"{100 * value:.1f} {100 * interval.low:.1f}–{100 * interval.high:.1f}~" in shown
    # tokens of everything: (4 x 124 + 2 x 51) / 6 = 99.67; of semantic/normal (40 + 32 + 37 + 0 + 18 + 0) / 6 = 21.2
    assert {"100", "21", "50.0", "25.0"} <= {text.split()[0] for text in shown}


def test_every_outcome_has_its_row_and_its_words(page: Reader, html: str) -> None:
    heads = page.texts("th", scope="row")
    assert heads[:3] == ["semantic/normal", "everything", "my <b>own</b>\u202e selector 1 failed"]
    assert html.count(">no<span") == 4 + 4  # all comparisons of both datasets: there are too few queries
    assert "What the model then calls is not measured." in html
    assert "What a chat holds before the query, its session, is in the prompt too." in html
    assert "where the selector cuts" in html
    assert not re.search(r"tokens</abbr> <span class=.unit.>tokens", html)  # no unit behind a name that says it
    assert "a first guess, not tuned" in html
    assert "the selector returns no ranking" in html
    said = "my <b>own</b>\ufffd selector failed on 1 of 6 queries; to fail counts as nothing offered."
    assert said in page.texts("li")  # nothing in a name turns a sentence around


def test_the_title_is_the_datasets_and_the_day_of_the_run(made_run, page: Reader) -> None:
    assert page.texts("h1") == ["desk and small"]
    made_run.folder.write("timings.json", {"date": "2026-11-29"})
    try:
        dated = read(render_page(made_run.folder, made_run.datasets, tokens=made_run.tokens))
    finally:
        made_run.folder.discard("timings.json")
    assert dated.texts("h1") == ["desk and small \u00b7 2026-11-29"]
    assert dated.texts("title")[0] == "desk and small \u00b7 2026-11-29: ctxbench run"


def test_the_explorer_comes_before_scores_and_method(html: str) -> None:
    parts = ["comparison", "queries", "scores", "measured"]
    assert re.findall('<section id="([a-z]+)"', html) == parts
    assert html.index("What is offered. ") > html.index('id="measured"'), "what the experiment is about"


def test_the_datasets_are_named_with_size_and_version(page: Reader) -> None:
    facts = page.texts("dd")
    assert "6 queries (2 need nothing), 11 items; version 1" in facts
    assert "1 query, 1 item; version 2" in facts


def test_equal_runs_give_equal_pages(made_run, html: str) -> None:
    assert render_page(made_run.folder, made_run.datasets, tokens=made_run.tokens) == html


def test_the_report_is_written_into_the_run_folder(made_run, html: str) -> None:
    path = made_run.write()
    assert path == made_run.folder.path / "report.html"
    assert path.read_text("utf-8") == html
    assert not list(Path(path.parent).glob("*.tmp"))


# ---------------------------------------------------------------------------------------------- single queries


def test_figures_by_query_equal_the_metrics_of_the_run(made_run, page: Reader) -> None:
    data = payload(page, 0)
    for selector in data["selectors"]:
        part = made_run.folder.load("desk", selector["name"])
        assert column(selector["tokens"], 6) == part.metrics["tokens"].tolist()
        assert column(selector["items"], 6) == part.metrics["items"].tolist()
        complete = part.metrics["completeness"]
        applies = ~np.isnan(complete)
        assert ((np.array(column(selector["missed"], 6)) == 0) == (complete == 1))[applies].all()


def test_what_was_needed_groups_alternatives(page: Reader) -> None:
    data = payload(page, 0)
    assert data["queries"]["needs"] == [[[3, 4], [5]], [[6]], [[9]], [], [], [[8]]]
    assert data["queries"]["helpful"] == {"1": [7, 10]}


def test_an_item_that_stayed_out_says_why(page: Reader) -> None:
    semantic = payload(page, 0)["selectors"][0]
    start = sum(semantic["rows"][:1])
    rows = range(start, start + semantic["rows"][1])
    out, rank = column(semantic["out"], 99), column(semantic["rank"], 99)
    said = {semantic["item"][row]: (semantic["rules"][out[row]], rank[row]) for row in rows}
    assert said == {
        0: ("", 0),
        7: ("", 1),
        5: ("", 2),
        6: ("beyond the first topN=2 and its score is below includeScore=0.7", 3),
        10: ("it is disabled in the catalog", 0),
    }


def absence(page: Reader, selector: int, query: int, item: int) -> str:
    found = payload(page, 0)["selectors"][selector]
    start = sum(found["rows"][:query])
    places = [row for row in range(start, start + found["rows"][query]) if found["item"][row] == item]
    return str(found["rules"][column(found["out"], 999)[places[0]]])


def test_an_item_that_is_no_candidate_says_why(page: Reader) -> None:
    assert absence(page, 0, 5, 8) == "the selector found nothing"
    assert absence(page, 2, 5, 8) == "the selector failed on this query"
    assert absence(page, 2, 0, 3) == "it is not among the first 1 candidate"
    assert absence(page, 0, 0, 4) == "it is not among the first 4 candidates"


def test_an_item_that_is_not_available_says_so(made_run) -> None:
    dataset, parts = made_run.datasets["small"], [made_run.folder.load("small", "semantic/normal")]
    query = dataset.queries[0]
    narrowed = replace(query, request=replace(query.request, available=()))
    object.__setattr__(dataset, "queries", (narrowed,))  # a dataset refuses labels that nothing could meet
    try:
        empty = replace(parts[0], answers=replace(parts[0].answers.joined(), candidates=Candidates.empty(1)))
        data = dataset_payload(dataset, [empty], made_run.tokens["small"])
    finally:
        object.__setattr__(dataset, "queries", (query,))
    assert data["selectors"][0]["rules"][-1] == "it is not available to this request"


def test_texts_stand_once_and_chunks_only_where_they_differ_from_the_text(page: Reader, hostile: str) -> None:
    data = payload(page, 0)
    assert data["chunkings"] == [
        [["Open an issue.", "Then look at the schema."], 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert [selector["chunking"] for selector in data["selectors"]] == [0, 1, 1]
    (split,) = data["splits"]
    assert set(split) == {"0", "1", "2", "3", "4"}  # tools are one chunk of name and description
    assert split["2"] == ["Unranked: A rule without a level", "Perhaps.", "Perhaps not."]


def test_pairs_are_told_in_the_chunks_of_the_selector(made_run) -> None:
    folder, dataset = made_run.folder, made_run.datasets["desk"]
    parts = [folder.load("desk", name) for name in ("semantic/normal", "everything")]
    retrieve = {"step": "retrieve:dense", "chunks": {"windows": {"size": 4, "overlap": 1}}, "split_tools": False}
    about = {"semantic/normal": {"external": False, "description": {"pipeline": {"retrieve": retrieve, "refine": []}}}}
    data = dataset_payload(dataset, parts, made_run.tokens["desk"], selectors=about)
    assert [selector["split"] for selector in data["selectors"]] == [{"all": 1}, {"all": 0}]
    documents, windows = data["splits"]
    assert documents["2"] == ["Unranked: A rule without a level", "Perhaps.", "Perhaps not."]
    assert windows["2"] == ["Unranked: A rule without", "without a level\n\nPerhaps.", "Perhaps.\n\nPerhaps not."]
    like = {"ranking": about["semantic/normal"]["description"], "as many as": {}}
    data = dataset_payload(
        dataset, parts, made_run.tokens["desk"], selectors={"everything": {"external": False, "description": like}}
    )
    assert [selector["split"] for selector in data["selectors"]] == [{"all": 0}, {"all": 1}]


def test_what_an_expansion_brought_in_stands_behind_what_was_found_and_names_the_item_that_led_to_it(made_run) -> None:
    dataset, part = made_run.datasets["desk"], made_run.folder.load("desk", "semantic/normal")
    found = Candidates.build(6, np.array([0, 0, 0]), np.array([5, 6, 7]), score=np.array([0.9, 0.5, 0.4]))
    cut = found.exclude(found.item != 5, "beyond topN=1")
    table = add_expanded(
        cut,
        np.array([0, 0]),
        np.array([6, 3]),
        score=np.array([0.8, 0.7]),
        origin=np.full(2, Origin.EXPANSION),
        mode=np.full(2, Mode.EXPANSION),
        via_item=np.array([5, 6]),
        query_chunk=np.array([0, 0]),
        item_chunk=np.array([0, 1]),
    )
    answers = replace(part.answers.joined(), candidates=table)
    (selector,) = dataset_payload(dataset, [replace(part, answers=answers)], made_run.tokens["desk"])["selectors"]
    n = selector["rows"][0]
    shown = zip(selector["item"], column(selector["rank"], n), column(selector["via"], n), strict=False)
    assert list(shown)[:4] == [(5, 1, -1), (7, 2, -1), (6, 3, 5), (3, 4, 6)]


def test_a_whole_catalog_is_one_flag_and_not_a_row_an_item(made_run) -> None:
    items = [Item(type="tool", name=f"tool {i}") for i in range(200)]
    (label,) = made_run.datasets["small"].labels
    dataset = replace(
        made_run.datasets["small"], catalog=Catalog(items), labels=(replace(label, item=items[7].key),)
    )  # fmt: skip
    part = made_run.folder.load("small", "semantic/normal")
    table = Candidates.build(1, np.zeros(200, dtype=np.int64), np.arange(200), score=np.zeros(200, dtype=np.float64))
    answers = replace(part.answers.joined(), candidates=table, ranked=False)
    data = dataset_payload(dataset, [replace(part, answers=answers)], np.ones(200, dtype=np.int64))
    (selector,) = data["selectors"]
    assert selector["whole"] == {"all": 1}
    assert selector["items"] == {"all": 200}
    assert selector["item"] == [7]
    part_of_it = table.select_rows(table.item < 100)
    data = dataset_payload(
        dataset, [replace(part, answers=replace(answers, candidates=part_of_it))], np.ones(200, dtype=np.int64)
    )  # fmt: skip
    assert data["selectors"][0]["whole"] == {"all": 0}
    assert data["selectors"][0]["rows"] == [60]  # as many as the page lists; the required one is among them


def test_answers_of_other_queries_are_an_error(made_run) -> None:
    part = made_run.folder.load("desk", "everything")
    with pytest.raises(StorageError, match="not those of the dataset's queries"):
        dataset_payload(made_run.datasets["small"], [part], made_run.tokens["small"])


def test_a_dataset_that_changed_or_is_missing_is_an_error(made_run) -> None:
    changed = replace(made_run.datasets["small"], labels=())
    with pytest.raises(StorageError, match="'small' has changed since the run"):
        render_page(made_run.folder, {**made_run.datasets, "small": changed}, tokens=made_run.tokens)
    with pytest.raises(StorageError, match="needs dataset 'desk'"):
        render_page(made_run.folder, {"small": made_run.datasets["small"]}, tokens=made_run.tokens)
    with pytest.raises(StorageError, match="prompt tokens of all 11 items"):
        render_page(made_run.folder, made_run.datasets, tokens={**made_run.tokens, "desk": np.zeros(3, dtype=np.int64)})


# ---------------------------------------------------------------------------------------------- scores


def test_score_groups_count_what_lies_above_the_threshold(made_run) -> None:
    parts = [made_run.folder.load("desk", name) for name in ("semantic/normal", "everything")]
    described = made_run.folder.read("manifest.json")["selectors"]
    (group,) = score_groups(made_run.datasets["desk"], parts, described)  # everything has no scores
    assert group.selectors == ("semantic/normal",)
    assert sum(group.required) == 4  # create_issue .9, Schema .716, query .55, the hostile one .81
    assert sum(group.not_required) == 3  # Unranked .7, create_issue .6 for q2, weather .2; drop is helpful to q2
    assert sum(group.idle) == 1  # weather .4 for q5; q4 found nothing
    (threshold,) = group.thresholds
    assert threshold.sentence == (
        "The best score of a query is at least 0.7 in 2 of 6 queries; 3 of 6 required items score so high, and so does "
        "the best item of 0 of 2 queries that need nothing. At least 2 items are offered, however low "
        "they score, where so many are found."
    )
    assert group.sentences == ("2 required items not among the candidates, and so without a score here.",)


def cut(score: float, floor: int = 5) -> dict[str, Any]:
    return {"step": "cut:standard", "version": 1, "topK": 20, "topN": floor, "includeScore": score}


def by_domain(*domains: list[dict[str, Any]]) -> dict[str, Any]:
    return {"step": "by_domain", "domains": [[f"type{i}", steps] for i, steps in enumerate(domains)]}


def piped(*steps: dict[str, Any]) -> dict[str, Any]:
    """A selector whose parameters have names of their own, or none."""
    return {"values": {}, "description": {"pipeline": {"refine": list(steps)}}}


BUDGET = {"step": "cut:budget", "version": 1, "tokens": 400}


@pytest.mark.parametrize(
    ("about", "threshold"),
    [
        (piped(cut(0.6)), 0.6),
        (piped(cut(0.6), BUDGET), 0.6),
        (piped(by_domain([cut(0.5)], [cut(0.5, 3), BUDGET])), 0.5),
        (piped(by_domain([cut(0.5)], [by_domain([cut(0.5)])])), 0.5),
        (piped(by_domain([cut(0.5)], [cut(0.6)])), None),
        (piped(by_domain([cut(0.5)], [BUDGET])), None),
        (piped(cut(0.5), cut(0.6)), None),
        (piped(by_domain([BUDGET], [])), None),
        (piped(BUDGET), None),
        (piped(), None),
        ({"values": {"contextIncludeScore": 0.7}, "description": {"ranking": {}, "as many as": piped(cut(0.7))}}, None),
        ({**piped(cut(0.6)), "external": True}, None),
        ({}, None),
    ],
)
def test_the_threshold_is_that_of_the_described_cut(about: dict[str, Any], threshold: float | None) -> None:
    assert threshold_of(about) == threshold


def test_the_floor_of_each_domain_is_not_taken_for_that_of_all(made_run) -> None:
    part = made_run.folder.load("desk", "semantic/normal")
    (group,) = score_groups(made_run.datasets["desk"], [part], {"semantic/normal": piped(by_domain([cut(0.7)]))})
    assert [one.value for one in group.thresholds] == [0.7]
    assert "are offered, however low" not in group.thresholds[0].sentence


def test_selectors_with_equal_scores_share_a_chart(made_run) -> None:
    part = made_run.folder.load("desk", "semantic/normal")
    described = {
        "semantic/normal": piped(cut(0.7)),
        "semantic/strict": piped(cut(0.8)),
    }
    parts = [part, replace(part, selector="semantic/strict")]
    (group,) = score_groups(made_run.datasets["desk"], parts, described)
    assert [(one.selector, one.value) for one in group.thresholds] == [
        ("semantic/normal", 0.7),
        ("semantic/strict", 0.8),
    ]


def test_a_score_on_an_edge_lies_in_the_bin_that_starts_there(made_run) -> None:
    part = made_run.folder.load("desk", "semantic/normal")
    (group,) = score_groups(made_run.datasets["desk"], [part], {})
    edges = [round(float(edge), 6) for edge in group.edges]
    assert (edges[0], edges[-1], len(edges)) == (0.0, 1.0, 51)
    assert group.required[edges.index(0.9)] == 1
    assert group.not_required[edges.index(0.7)] == 1


def test_read_a_block_at_a_time_the_page_is_the_same(made_run, tmp_path) -> None:
    dataset, tokens = made_run.datasets["desk"], made_run.tokens["desk"]
    at_once = [made_run.folder.load("desk", name) for name in made_run.folder.read("manifest.json")["selectors"]]
    in_blocks = []
    for number, part in enumerate(at_once):
        blocks = [part.answers.joined().select_queries([index]) for index in range(6)]
        in_blocks.append(replace(part, answers=store_blocks(blocks, tmp_path / f"{number}.zip")))
        assert len(list(in_blocks[-1].answers.blocks())) == 6
    assert dataset_payload(dataset, in_blocks, tokens) == dataset_payload(dataset, at_once, tokens)
    described = made_run.folder.read("manifest.json")["selectors"]
    groups = [score_groups(dataset, parts, described) for parts in (at_once, in_blocks)]
    told = [
        [(g.selectors, g.edges.tolist(), g.required, g.not_required, g.idle, g.sentences) for g in one]
        for one in groups
    ]
    assert told[0] == told[1]
    assert told[0]
    twin = replace(in_blocks[0], selector="twin")
    (alike,) = [g for g in score_groups(dataset, [at_once[0], twin], described) if not g.title]
    assert alike.selectors == (at_once[0].selector, "twin"), "the same scores in other blocks are the same"


def firm(one: Any) -> Any:
    """An estimate or a comparison with an interval that holds."""
    return replace(one, interval=replace(one.interval, holds=True))


@pytest.mark.parametrize("where", ["every metric", "the first tables", "nowhere"])
def test_the_sign_behind_an_interval_is_explained_where_it_stands(made_run, where: str) -> None:
    summary = summarise_run(made_run.folder)
    first = ("completeness", "tokens") if where == "every metric" else ()
    made = []
    for one in summary.datasets:
        selectors = []
        for part in one.selectors:
            if where == "the first tables":
                selectors.append(part)
                continue
            estimates = {
                key: firm(found) if where == "nowhere" or key in first else found
                for key, found in part.estimates.items()
            }
            selectors.append(
                replace(part, estimates=estimates, against={key: firm(x) for key, x in part.against.items()})
            )
        made.append(replace(one, selectors=tuple(selectors)))
    told = replace(summary, datasets=tuple(made))
    page = render_page(made_run.folder, made_run.datasets, tokens=made_run.tokens, summary=told)
    articles = page.partition('<section id="scores"')[0].split('<details class="dataset"')[1:]
    shown = [re.search(r"\d~<", article) is not None for article in articles]
    assert any(shown) is (where != "nowhere")
    assert [article.count("~ behind an interval") for article in articles] == [int(one) for one in shown]


def test_of_a_large_catalog_the_page_has_the_items_that_it_names(made_run, monkeypatch) -> None:
    dataset, tokens = made_run.datasets["desk"], made_run.tokens["desk"]
    part = made_run.folder.load("desk", "semantic/normal")
    unused = [Item(type="tool", server="spare", name=f"spare {n}") for n in range(100)]
    larger = replace(dataset, catalog=dataset.catalog.extended(unused))
    counts = np.append(tokens, np.ones(100, dtype=np.int64))
    whole = dataset_payload(larger, [part], counts)
    monkeypatch.setattr(run_page, "MOST_ITEMS", 0)
    short = dataset_payload(larger, [part], counts)
    assert {name for name in whole if whole[name] != short[name]} == {"items"}
    positions = short["items"]["position"]
    labelled = {larger.catalog.position(label.item) for label in larger.labels}
    assert positions == sorted(labelled | set(whole["selectors"][0]["item"]))
    assert short["items"]["name"] == [whole["items"]["name"][position] for position in positions]
    assert short["items"]["tokens"] == [whole["items"]["tokens"][position] for position in positions]


def test_tokens_are_counted_of_the_items_that_a_page_may_name(made_run, monkeypatch) -> None:
    dataset = made_run.datasets["desk"]
    every = page_tokens(made_run.folder, "desk", dataset, CharsCounter())
    assert every.tolist() == [-(-len(item.prompt_text) // 4) for item in dataset.catalog]
    larger = replace(dataset, catalog=dataset.catalog.extended([Item(type="rule", name="spare", text="of no answer")]))
    monkeypatch.setattr(run_page, "MOST_ITEMS", 0)
    assert page_tokens(made_run.folder, "desk", larger, CharsCounter()).tolist() == [*every.tolist(), 0]
