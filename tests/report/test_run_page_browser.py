"""The page in real Chromium, opened from disk: what a person does with it, and that it asks for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ctxbench.report import run_page
from tests.report.conftest import OPEN, make_run, overprinted

pytestmark = pytest.mark.rest  # needs Chromium

LISTED = "#drill .query-row"


@dataclass
class Opened:
    """A page that is open, and what it did."""

    page: Any
    requests: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        # A link changes the address at once and the browser informs the page in a later task. We poll from here,
        # because the page's content security policy forbids the evaluation that `wait_for_function` repeats.
        deadline = time.monotonic() + 30
        while not self.page.evaluate("!drill.dataset.address || drill.dataset.address === location.hash"):
            assert time.monotonic() < deadline, "the page does not follow its address"
            self.page.wait_for_timeout(10)
        return [" ".join(text.split()) for text in self.page.locator(selector).all_inner_texts()]

    def context(self, column: str) -> list[str]:
        return self.texts(f'[data-column="{column}"] .context-item .item-head')

    def fits(self) -> bool:
        size = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        wide, screen = self.page.evaluate(size)
        return bool(wide <= screen)


@pytest.fixture(scope="module")
def report(made_run) -> Path:
    return made_run.write()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of twelve selectors with long names and nearly the same figures."""
    return make_run(tmp_path_factory.mktemp("crowded"), crowd=12).write()


@pytest.fixture
def open_page(page_with: Any, report: Path) -> Iterator[Any]:
    """Opens the page from disk; afterwards it must have asked for nothing but itself, and not have complained."""
    opened: list[tuple[Opened, dict[str, Any]]] = []

    def open_it(address: str = "", *, width: int = 1280, height: int = 900, **given: Any) -> Opened:
        one = Opened(page_with(viewport={"width": width, "height": height}, **given))
        assert all(one.page is not other.page for other, _ in opened)
        listeners = {
            "request": lambda request: one.requests.append(request.url),
            "console": lambda said: one.trouble.append(said.text) if said.type in ("error", "warning") else None,
            "pageerror": lambda error: one.trouble.append(str(error)),
            "dialog": lambda dialog: (one.trouble.append(f"dialog {dialog.message}"), dialog.dismiss()),
        }
        opened.append((one, listeners))
        for event, listener in listeners.items():
            one.page.on(event, listener)
        one.page.goto(report.as_uri() + address)
        return one

    yield open_it
    for one, listeners in opened:
        for event, listener in listeners.items():
            one.page.remove_listener(event, listener)
        assert one.requests == [url for url in one.requests[:1] if url.startswith("file://")]
        assert one.trouble == []


def test_the_page_opens_from_disk_and_shows_comparison_scores_and_queries(open_page: Any) -> None:
    one = open_page()
    assert one.texts("h2") == ["Comparison", "Queries, one by one", "Scores and thresholds", "What was measured"]
    assert one.page.locator("#comparison table.comparison").count() == 2
    assert one.page.locator("#comparison svg.chart").first.is_visible()
    said = one.page.locator("#scores svg.chart text").all_text_contents()
    assert said.count("includeScore 0.7") == 1  # one tool in `small`: no scores that differ
    titles = one.page.locator("svg.chart title").all_text_contents()
    assert [title.split(":")[0] for title in titles[:2]] == ["semantic/normal", "everything"]
    assert any("of the required items" in title for title in titles)
    assert one.page.locator(LISTED).count() == 6


def test_texts_of_strangers_are_shown_and_never_run(open_page: Any, hostile: str) -> None:
    one = open_page("#desk/semantic%2Fnormal/q3")
    one.page.wait_for_selector(".detail blockquote")
    assert one.page.locator(".detail blockquote").text_content() == hostile
    assert one.page.locator('[data-column="tools"] .name').nth(0).text_content() == hostile
    assert one.page.locator("img, #drill script, #comparison b").count() == 0
    one.page.locator(".context .description").first.wait_for()
    for control in ("#choose-selector", "#choose-beside"):
        one.page.locator(control).select_option(index=1)
    assert one.page.evaluate("typeof window.alert") == "function"


def test_dataset_and_selector_are_chosen_and_the_address_follows(open_page: Any) -> None:
    one = open_page()
    assert one.page.locator("#choose-selector").input_value() == "semantic/normal"
    one.page.locator("#choose-dataset").select_option("small")
    assert one.texts(LISTED + " .text") == ["Weather, please"]
    assert one.page.evaluate("location.hash") == "#small/semantic%2Fnormal"
    one.page.locator("#choose-dataset").select_option("desk")
    one.page.locator("#choose-selector").select_option("everything")
    outcomes = ["complete", "complete", "complete", "falsely included", "falsely included", "complete"]
    assert one.texts(LISTED + " .outcome") == outcomes


def test_filters_search_and_order(open_page: Any) -> None:
    one = open_page()
    filters = one.texts(".filters button")
    assert filters == ["all 6", "missed something 2", "falsely included 1", "errors 0", "differs 3"]
    one.page.locator('[data-filter="missed"]').click()
    assert [row.split()[-1] for row in one.texts(LISTED + " .meta")] == ["q2", "q6"]
    one.page.locator('[data-filter="differs"]').click()
    assert [row.split()[-1] for row in one.texts(LISTED + " .meta")] == ["q2", "q4", "q6"]  # from everything
    one.page.locator('[data-filter="all"]').click()
    one.page.locator("#choose-order").select_option("tokens")
    assert [row.split()[-1] for row in one.texts(LISTED + " .meta")] == ["q1", "q3", "q2", "q5", "q4", "q6"]
    one.page.locator("#search").fill("DATABASE query")
    assert one.texts(LISTED + " .text") == ["Run a query on the database"]
    assert one.texts("p.count") == ["1 of 6 queries"]
    one.page.locator("#search").fill("no such words")
    assert one.texts(".rows .none") == ["No query passes these filters."]


def test_a_query_shows_what_it_needed_and_why_it_was_missed(open_page: Any) -> None:
    one = open_page()
    one.page.locator(LISTED, has_text="Run a query").click()
    assert one.page.evaluate("location.hash") == "#desk/semantic%2Fnormal/q2"
    needed = one.texts(".requirement")
    rule = "beyond the first topN=2 and its score is below includeScore=0.7"
    assert needed[0] == f"missed database.query rank 3, score 0.5500 Stayed out: {rule}."
    assert needed[1] == "offered database.drop rank 1, score 0.6500 helpful"
    assert needed[2] == "not offered hidden Stayed out: it is disabled in the catalog. helpful"
    assert one.texts(".offered .sum") == ["2 items, 32 prompt tokens"]
    assert one.texts(".offered tr.rule") == [rule, "it is disabled in the catalog"]
    one.page.locator(".walk [rel=prev]").click()
    assert one.page.evaluate("location.hash") == "#desk/semantic%2Fnormal/q1"
    assert one.texts(".requirement .state") == ["met", "met"]
    assert one.texts(".requirement")[0] == (
        "met reference Schema rank 2, score 0.7160 or reference API Stayed out: it is not among the first 4 candidates."
    )


def test_the_winning_pair_of_chunks_is_shown(open_page: Any) -> None:
    one = open_page("#desk/semantic%2Fnormal/q1")
    row = one.page.locator(".offered tbody tr", has_text="Unranked").first
    row.locator("summary").click()
    pair = [" ".join(text.split()) for text in row.locator(".pair p").all_inner_texts()]
    assert pair == [
        "Scored by chunk 2 of 2 of the request: Then look at the schema.",
        "with chunk 2 of 3 of the item: Perhaps.",
    ]


def test_the_request_context_stands_in_three_columns_in_order(open_page: Any) -> None:
    one = open_page("#desk/semantic%2Fnormal/q1")
    assert one.texts(".context .column h5") == ["Rules 3", "References 1", "Tools 1"]
    # by priority, those without one last; session items have no score; scores to two decimals
    assert one.context("rules") == ["001 Authentication Manual", "002 Zebra rule Always", "Unranked Agent 0.70"]
    assert one.context("references") == ["012 Schema Agent 0.71"] or one.context("references") == [
        "012 Schema Agent 0.72"
    ]
    assert one.context("tools") == ["tracker. create_issue Agent 0.90"]
    colours = {
        mode: one.page.locator(f".context .badge.{mode}").first.evaluate("e => getComputedStyle(e).backgroundColor")
        for mode in ("always", "manual", "agent")
    }
    assert len(set(colours.values())) == 3
    assert one.texts('[data-column="references"] .description') == ["The tables of the database"]
    assert one.page.locator(".context button, .context input").count() == 0  # for reading only


def test_tools_are_sorted_by_server_and_then_by_name(open_page: Any, hostile: str) -> None:
    one = open_page("#desk/everything/q1")
    names = [text.split(" Agent")[0] for text in one.context("tools")]
    assert names[1:] == ["weather", "database. drop", "database. query", "tracker. create_issue"]
    assert one.page.locator('[data-column="tools"] .name').first.text_content() == hostile
    assert one.context("references") == ["003 API Agent", "012 Schema Agent"]


def test_an_empty_request_context_says_so(open_page: Any) -> None:
    one = open_page("#desk/semantic%2Fnormal/q4")
    assert one.texts(".empty-context") == ["The request context is empty: the model is offered no item."]
    assert one.texts(".context .empty") == ["No rules.", "No references.", "No tools."]
    assert one.texts(".needed p") == ["Nothing: any item offered is falsely included."]


def test_a_failure_of_a_selector_is_shown_as_text(open_page: Any) -> None:
    one = open_page("#desk/semantic%2Fnormal/q6")
    one.page.locator(".others a").nth(2).click()
    assert one.texts(".failure") == ["The selector failed: timed out <script>alert(1)</script>"]
    assert one.page.locator('[data-filter="error"]').inner_text().split() == ["errors", "1"]


def test_an_address_opens_its_query_and_one_that_is_not_there_says_so(open_page: Any) -> None:
    one = open_page("#small/everything/only%2Fone")
    assert one.texts(".detail blockquote") == ["Weather, please"]
    assert one.page.locator("#choose-dataset").input_value() == "small"
    assert one.page.locator(LISTED + "[aria-current]").count() == 1
    one.page.evaluate("location.hash = '#desk/everything/q9'")
    one.page.wait_for_selector(".choose")
    assert one.texts(".detail .choose") == ["There is no query q9 in desk."]
    one.page.evaluate("location.hash = '#desk/%E0%A4%A/q1'")
    one.page.evaluate("location.hash = '#comparison'")
    assert one.texts(".detail .choose") == ["There is no query q9 in desk."]


def test_the_list_is_walked_with_the_keyboard(open_page: Any) -> None:
    one = open_page()
    one.page.locator(LISTED).first.focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        one.page.keyboard.press(key)
    one.page.wait_for_selector(".detail blockquote")
    assert one.page.evaluate("location.hash") == "#desk/semantic%2Fnormal/q2"
    assert one.page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    one.page.keyboard.press("End")
    assert "What is the weather?" in one.page.evaluate("document.activeElement.innerText")


@pytest.mark.parametrize("address", ["", "#desk/semantic%2Fnormal/q1", "#desk/everything/q3"])
def test_nothing_overflows_at_360_pixels(open_page: Any, address: str) -> None:
    one = open_page(address, width=360, height=740)
    one.page.wait_for_selector(LISTED)
    assert one.fits()
    assert one.page.locator(".narrow svg.chart").first.is_visible()


def test_a_query_that_missed_something_is_open_at_once_where_there_is_room(open_page: Any) -> None:
    assert open_page().texts(".detail blockquote") == ["Run a query on the database"]
    assert open_page(width=400).texts(".detail .choose") == [
        "Choose a query to see what it needed, what was offered, and why the rest stayed out."
    ]


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_a_chart_leaves_it_or_is_too_small(open_page: Any, width: int) -> None:
    one = open_page(width=width)
    one.page.evaluate(OPEN)
    boxes = """(svg) => [svg, ...svg.querySelectorAll("text")].map((part) => {
        const box = part.getBoundingClientRect();
        return [part.textContent, box.left, box.top, box.right];
    })"""
    for svg in (svg for svg in one.page.locator("svg.chart").all() if svg.is_visible()):
        whole, *texts = svg.evaluate(boxes)
        for text, left, top, right in texts:
            assert min(left - whole[1], top - whole[2], whole[3] - right) >= -1, text
        assert svg.evaluate("(svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width") > 0.89


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("run", ["made", "crowded"])
def test_nothing_is_printed_over_a_label_of_a_chart(
    page_with: Any, report: Path, crowded: Path, run: str, width: int, scheme: str
) -> None:
    page = page_with(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto({"made": report, "crowded": crowded}[run].as_uri())
    page.evaluate(OPEN)
    assert overprinted(page) == []
    page.evaluate("""() => {
        const labels = [...document.querySelectorAll("svg.chart text")].filter((text) => text.getClientRects().length);
        labels[1].setAttribute("transform", labels[0].getAttribute("transform") || "");
        for (const side of ["x", "y"]) labels[1].setAttribute(side, labels[0].getAttribute(side));
    }""")
    assert overprinted(page), "a label that was moved onto another is noticed"


@pytest.mark.parametrize("run", ["made", "crowded"])
def test_differences_are_seen_at_400_pixels(page_with: Any, report: Path, crowded: Path, run: str) -> None:
    page = page_with(viewport={"width": 400, "height": 900})
    page.goto({"made": report, "crowded": crowded}[run].as_uri())
    cells = page.locator(".comparison >> nth=0 >> tr:not(.base) td:last-child")
    assert cells.count() >= 2
    for cell in cells.all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= 400
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_print_shows_the_tables_whole_and_no_controls(open_page: Any) -> None:
    one = open_page("#desk/semantic%2Fnormal/q2", width=1030, color_scheme="dark")  # A4 across, less its margins
    one.page.emulate_media(media="print", color_scheme="dark")
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert one.fits()
    assert not one.page.locator("#choose-dataset").is_visible()
    assert not one.page.locator(LISTED).first.is_visible()
    assert one.page.locator(".detail blockquote").is_visible()


def contrast(one: Opened, selector: str) -> float:
    """WCAG's contrast of an element's text with the page behind it."""
    script = """(element) => {
        const light = (colour) => {
            const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
                .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        let behind = element;
        while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
        const pair = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    }"""
    return float(one.page.locator(selector).first.evaluate(script))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_in_light_and_dark(open_page: Any, scheme: str) -> None:
    one = open_page("#desk/semantic%2Fnormal/q2", color_scheme=scheme)
    paper = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (min(int(c) for c in paper[4:-1].split(",")) > 200) is (scheme == "light")
    for selector in (
        "p.lead",
        ".interval",
        "tr.base .interval",
        ".quiet",
        ".query-row .meta",
        ".why",
        ".badge.agent",
        ".state",
    ):
        assert contrast(one, selector) >= 4.5, selector
    ink = one.page.locator("svg.chart text").first.evaluate("(text) => getComputedStyle(text).fill")
    assert ink == one.page.evaluate("getComputedStyle(document.body).color")
    ids = one.page.evaluate("[...document.querySelectorAll('[id]')].map((part) => part.id)")
    assert len(ids) == len(set(ids))


def test_without_javascript_comparison_and_scores_are_there(open_page: Any) -> None:
    one = open_page(java_script_enabled=False)
    rows = one.texts("#comparison table.comparison >> nth=0 >> tbody th")
    assert rows[:2] == ["semantic/normal", "everything"]
    one.page.locator("#scores summary").first.click()
    assert one.page.locator("#scores svg.chart").first.is_visible()
    assert one.page.locator("noscript p").count() == 1
    assert not one.page.locator("#drill").is_visible()


def test_a_long_list_draws_only_the_rows_that_are_seen(browser: Any, report: Path, tmp_path: Path) -> None:
    copies = report.read_text("utf-8")
    long = tmp_path / "long.html"
    script = "const many = 5000; const q = data.queries; for (const k of ['id', 'text', 'needs']) "
    script += "q[k] = Array.from({ length: many }, (_, i) => (k === 'id' ? 'q' + i : q[k][i % 6])); "
    script += "for (const s of data.selectors) { s.rows = Array(many).fill(0); s.chunking = 0; "
    script += "for (const k of ['items', 'tokens', 'missed', 'false']) s[k] = { all: 0 }; s.whole = { all: 0 }; } "
    at = "    data.size = data.queries.id.length;"
    assert at in copies
    policy = copies.index("script-src 'sha256-"), copies.index("; img-src")
    changed = copies[: policy[0]] + "script-src 'unsafe-inline'" + copies[policy[1] :]
    long.write_text(changed.replace(at, f"    {script}\n{at}"), "utf-8")
    page = browser.new_page()
    page.goto(long.as_uri())
    page.wait_for_selector(LISTED)
    assert page.locator("p.count").inner_text() == "5,000 of 5,000 queries"
    assert page.locator(LISTED).count() < 60
    page.locator(LISTED).first.focus()
    page.keyboard.press("End")
    assert "q4999" in page.evaluate("document.activeElement.innerText")
    assert page.locator(LISTED).count() < 60
    page.close()


def test_a_page_without_the_items_that_it_does_not_name_shows_the_same(
    page_with: Any, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_page, "MOST_ITEMS", 0)
    shown = []
    for path in (report, make_run(tmp_path).write()):
        for address in ("#desk/semantic%2Fnormal/q1", "#desk/semantic%2Fnormal/q2", "#desk/everything/q3"):
            one = Opened(page_with(viewport={"width": 1280, "height": 900}))
            one.page.goto(path.as_uri() + address)
            shown.append(one.texts(".detail"))
    assert shown[:3] == shown[3:]
    assert all(texts and texts[0] for texts in shown)
