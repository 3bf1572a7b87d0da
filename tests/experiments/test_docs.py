"""The documentation site: it builds without a warning, and can be read from disk by everybody."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock

from ctxbench.model.formats import FORMATS
from tests.report import conftest as report

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "experiments" / "guide"
AXE = ROOT / ".venv" / "servers" / "node" / "node_modules" / "axe-core" / "axe.min.js"
WORDS = 1500  # of a page that is no reference
PAINT = 1000  # milliseconds until the first content is seen
browser, page_with = report.browser, report.page_with
KINDS = {
    "entry": "experiments/guide/index",
    "list": "experiments/guide/how-to",
    "notebook": "notebooks/presets",
    "guide": "experiments/guide/guide",
    "API": "experiments/guide/api",
    "command line": "experiments/guide/command-line",
    "formats": "experiments/guide/formats",
    "table": "datasets/kinds",
    "strategies": "experiments/strategies",
    "report": "reports/three-numbers",
    "decisions": "ctxbench/decisions",
}


# ---------------------------------------------------------------------------------------------------------- the sources


def listed(section: str) -> list[Path]:
    """The pages that a section page lists."""
    page = GUIDE / f"{section}.md"
    links = re.findall(r"^[*|] \[[^\]]*\]\(([^)#:]+\.(?:md|ipynb))\)", page.read_text("utf-8"), re.MULTILINE)
    return [(page.parent / link).resolve() for link in links]


def test_pages_are_short():
    sections = ("index", "tutorials", "how-to", "explanation")
    pages = {page for section in sections for page in listed(section) if page.suffix == ".md"} - {*listed("reference")}
    assert len(pages) > 50
    counts = {str(page.relative_to(ROOT)): len(page.read_text("utf-8").split()) for page in pages}
    assert {page: words for page, words in counts.items() if words > WORDS} == {}


def test_every_picture_of_a_notebook_has_a_text_alternative():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
            if any("image/png" in output.get("data", {}) for output in cell.get("outputs", ())):
                alternative = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
                assert len(alternative.split()) >= 8, f"{path.name}, cell {number}: say in its metadata what is seen"


# ------------------------------------------------------------------------------------------------------------ the pages


class Page(HTMLParser):
    """The links, pictures and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[tuple[str, str]] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("a", "link") and values.get("href"):
            self.links.append(values["href"])
        if tag in ("img", "script") and values.get("src"):
            self.links.append(values["src"])
        if tag == "img":
            self.pictures.append((values["src"], values.get("alt", "")))
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site; it is built once for all processes of a run, and in CI by `make docs` before."""
    if missing := [name for name in ("sphinx", "furo", "myst_nb") if find_spec(name) is None]:
        report.lacking(f"{', '.join(missing)}: install the extra `docs`")
    if os.environ.get("CI") and (ROOT / "build" / "docs" / "index.html").is_file():
        return ROOT / "build" / "docs"
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder
    with FileLock(folder / "docs.lock"):
        if not (folder / "docs" / "index.html").is_file():
            options = ["-b", "html", "-q", "-W", "--keep-going", "-n"]
            command = [sys.executable, "-m", "sphinx", *options, "-d", folder / "doctrees", ROOT, folder / "docs"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
            assert done.returncode == 0, done.stderr[-5000:]
    return folder / "docs"


@cache
def parsed(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


@pytest.mark.rest
def test_no_link_is_broken(site):
    broken, external = [], set()
    pages = [path for path in site.rglob("*.html") if path.name not in ("search.html", "genindex.html")]
    for path in pages:
        for link in set(parsed(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                external.add(parts.scheme)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ids = parsed(target).ids if target.is_file() and target.suffix == ".html" else ()
            if not target.is_file() or (ids and parts.fragment and unquote(parts.fragment) not in ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert len(pages) > 80
    assert broken == []
    assert external <= {"https", "mailto", "data"}


@pytest.mark.rest
def test_every_picture_has_a_text_alternative(site):
    pictures = [(path, *picture) for path in site.rglob("*.html") for picture in parsed(path).pictures]
    assert len(pictures) > 50
    silent = [
        f"{path.relative_to(site)}: {source}"
        for path, source, alternative in pictures
        if len(alternative.split()) < 3 or source.endswith(alternative)
    ]
    assert silent == []


@pytest.mark.rest
def test_every_schema_is_published(site):
    published = {path.name: json.loads(path.read_text("utf-8")) for path in (site / "schemas").iterdir()}
    assert published.keys() == {f"{name}.schema.json" for name in FORMATS}


@pytest.mark.rest
def test_every_command_and_public_name_has_an_entry(site):
    import typer.main

    import ctxbench
    from ctxbench.cli.app import app

    ids = {name for kind in ("api", "api-extensions") for name in parsed(site / f"experiments/guide/{kind}.html").ids}
    assert {f"ctxbench.{name}" for name in dir(ctxbench)} - ids == {"ctxbench.__version__"}
    ids = parsed(site / "experiments/guide/command-line.html").ids
    assert [name for name in typer.main.get_command(app).commands if f"ctxbench-{name}" not in ids] == []


# --------------------------------------------------------------------------------------------------------- in a browser


def opened(page_with, site, kind, **options):
    """A page of the site, from disk, and what it asked for."""
    page = page_with(**options)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / f"{KINDS.get(kind, kind)}.html").as_uri())
    return page, requests


SCREENS = [
    pytest.param({"viewport": {"width": width, "height": 900}, "color_scheme": scheme}, id=f"{scheme}-{width}")
    for width, scheme in ((1280, "light"), (400, "dark"))
]


@pytest.mark.rest
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("kind", [*KINDS, "search"])
def test_axe_finds_nothing_serious(site, page_with, kind, screen):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: `make test-rest` installs it, where npm is")
    page, requests = opened(page_with, site, kind, **screen)
    page.add_script_tag(path=AXE)
    faults = page.evaluate("async () => (await axe.run({resultTypes: ['violations']})).violations")
    serious = {
        fault["id"]: [node["target"] for node in fault["nodes"]][:5]
        for fault in faults
        if fault["impact"] in ("serious", "critical")
    }
    assert serious == {}
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it is wider than the screen"


@pytest.mark.rest
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_content_is_seen_within_a_second(site, page_with, kind):
    times = []
    for _ in range(3):  # other tests may keep the machine busy
        page, _ = opened(page_with, site, kind, viewport={"width": 1280, "height": 900})
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        page.wait_for_function(paint, timeout=10_000)
        times.append(page.evaluate(paint))
        if times[-1] < PAINT:
            break
    assert min(times) < PAINT


@pytest.mark.rest
@pytest.mark.parametrize(
    ("words", "page"), [("includeScore", "include-score"), ("evaluate", "api"), ("abstention", "metrics")]
)
def test_a_search_works_from_disk(site, page_with, words, page):
    tab, _ = opened(page_with, site, "search", viewport={"width": 1280, "height": 900})
    tab.goto(f"{(site / 'search.html').as_uri()}?q={words}")
    tab.wait_for_selector("#search-results li a", timeout=30_000)
    tab.wait_for_timeout(500)
    links = tab.eval_on_selector_all("#search-results li a", "links => links.map((link) => link.href)")
    assert any(f"/{page}.html" in link for link in links)
