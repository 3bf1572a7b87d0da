"""Search by text index: what is found, for whom, and by which words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Request, whole_texts
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.files import FullText, Similar
from ctxbench.search.words import TextIndexError
from ctxbench.testing import check_step, mock_resources


def file(name, text, **given):
    return Item(type="file", name=name, text=text, **given)


FILES = (
    file("src/cache.py", "Answers are kept in a cache.", user="ann"),
    file("src/store.py", "A store of files, and a cache of them.", user="bob"),
    file("docs/cache.md", "How the cache is used, and where the cache is kept.", created="2025-02-01"),
    file("docs/by-hand.md", "cache cache cache cache", include="manual"),
    file("docs/other.md", "Nothing of it."),
    Item(type="message", name="m1", text="Is the cache kept?"),
)


@pytest.fixture(params=["fts5", "postgres"])
def index(request):
    if request.param == "postgres":
        request.getfixturevalue("postgres")
    return request.param


def found(step, *requests, items=FILES, keywords=None):
    """The names that are found for each request, best first."""
    batch = Batch.of(Catalog(items), requests)
    query = whole_texts(batch)
    query = query if keywords is None else replace(query, keywords=keywords)
    table = step(query, mock_resources())
    return [[batch.catalog[item].name for item in table.item[table.rows(n)].tolist()] for n in range(len(requests))]


def ask(text, **given):
    return Request(id=given.pop("id", "q"), text=text, **given)


def test_what_a_request_may_not_get_takes_no_place_of_what_it_may(index):
    step = FullText(n=1, index=index)
    docs = ItemKey("file", None, "docs/cache.md")
    assert found(step, ask("cache kept")) == [["docs/cache.md"]]
    assert found(step, ask("cache kept", user="ann", removed=(docs,))) == [["src/cache.py"]]
    assert found(step, ask("cache kept", user="bob", removed=(docs,))) == [["src/store.py"]]
    assert found(step, ask("cache kept", user="bob", time="2025-01-01")) == [["src/store.py"]]
    assert found(step, ask("cache kept", time="2025-01-01")) == [[]]


def test_files_that_a_request_may_not_see_move_no_score(index):
    def scores(items):
        batch = Batch.of(Catalog(items), [ask("cache kept", user="ann")])
        return FullText(index=index)(whole_texts(batch), mock_resources()).score.tolist()

    others = [file(f"own/{n}", "cache kept " * n, user="eve") for n in range(1, 20)]
    later = [file(f"later/{n}", "cache kept " * n, created="2025-03-01") for n in range(1, 5)]
    alone = scores(FILES)
    assert scores([*FILES, *others]) == alone
    assert len(scores([*FILES, *later])) == len(alone) + 4  # they can be told apart: it asks without a time
    batch = Batch.of(Catalog([*FILES, *later]), [ask("cache kept", user="ann", time="2025-02-02")])
    assert FullText(index=index)(whole_texts(batch), mock_resources()).score.tolist() == alone


def test_any_or_all_words_of_the_text_or_the_keywords(index):
    asked = ask("a cache of files", user="bob")
    assert set(found(FullText(index=index), asked)[0]) == {"src/store.py", "docs/cache.md"}
    assert found(FullText(words="all", index=index), asked) == [["src/store.py"]]
    keywords = FullText(of="keywords", words="all", index=index)
    assert found(keywords, asked, keywords=(("used", "kept"),)) == [["docs/cache.md"]]
    assert found(keywords, asked, keywords=((),)) == [[]]


def test_types_are_searched_that_are_asked_for(index):
    assert found(FullText(types=("message",), index=index), ask("cache")) == [["m1"]]
    assert set(found(FullText(types=("file", "message"), index=index), ask("kept cache"))[0]) == {"docs/cache.md", "m1"}


def test_a_request_of_nothing_or_of_function_words_finds_nothing(index):
    asked = [ask(text, id=text or "none") for text in ("", "  ", "is it of the", "?!")]
    assert found(FullText(index=index), *asked) == [[], [], [], []]
    assert found(Similar(index=index), *asked) == [[], [], [], []]
    assert found(FullText(index=index), ask("cache"), items=[]) == [[]]
    assert found(FullText(index=index)) == []
    assert found(FullText(index=index, n=0), ask("cache")) == [[]]


def test_similar_paths_and_contents(index):
    # 5 trigrams of docs, 6 of other, 3 of md: 8 of 20 are in docs/cache.md, too; of src/cache.py 6 of 21
    assert found(Similar(index=index), ask("docs/cache.md", user="ann")) == [["docs/cache.md", "docs/other.md"]]
    assert found(Similar(index=index), ask("docs/cache.md", time="2025-01-01")) == [["docs/other.md"]]
    assert found(Similar(index=index, n=1), ask("A nothing of it")) == [["docs/other.md"]]
    by_word = Similar(measure="word_similarity", threshold=0.9, index=index)
    assert found(by_word, ask("look into docs/cache.md please")) == [["docs/cache.md"]]


def test_versions_of_a_file_are_found_by_its_path():
    versions = [file("a/notes.md@1", "old", title="a/notes.md"), file("a/notes.md@2", "new", title="a/notes.md")]
    assert found(FullText(), ask("notes.md new"), items=versions) == [["a/notes.md@2", "a/notes.md@1"]]


def test_a_changed_file_adds_its_own_row_and_a_message_none(index):
    resources, catalog = mock_resources(), Catalog(FILES)
    text_index = resources.get(f"text_index:{index}")
    given = []
    rows, text_index.rows = text_index.rows, lambda items: given.append([one.name for one in items]) or rows(items)

    def search(catalog):
        FullText(index=index)(whole_texts(Batch.of(catalog, [ask("cache")])), resources)

    search(catalog)
    search(catalog.extended([file("new.py", "cache")]))
    search(catalog.extended([Item(type="message", name="m2", text="cache")]))
    search(Catalog([*FILES, file("b.py", "cache")]))
    assert [len(given[0]), given[1], len(given[2])] == [5, ["new.py"], 6]
    if index == "fts5":
        assert len(text_index._texts) == 7  # of what is given a third time nothing is added twice


@pytest.mark.parametrize(
    ("step", "given", "message"),
    [
        (FullText, {"n": -1}, "n must be 0 or more, got -1"),
        (FullText, {"types": ()}, "types must name at least one type of item, for example file"),
        (Similar, {"types": ("fiel",)}, "no item type is called 'fiel'; did you mean 'file'?"),
        (Similar, {"threshold": 1.5}, "threshold must be 0 to 1, got 1.5"),
    ],
)
def test_bad_parameters(step, given, message):
    with pytest.raises(ParameterError) as caught:
        step(**given)
    assert str(caught.value).startswith(message)


def test_an_index_that_cannot_be_had_is_told_before_anything_runs(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.delenv("CTXBENCH_POSTGRES", raising=False)
    pipeline = Pipeline.of({"retrieve": {"full_text": {"index": "postgres"}}})
    with pytest.raises(TextIndexError, match="CTXBENCH_POSTGRES is not set"):
        pipeline.retrieve.call.check(Catalog(FILES), mock_resources())


@pytest.mark.parametrize("name", ["full_text", "similar"])
def test_both_conform_over_postgresql(postgres, name):
    check_step("retrieve", name, {"index": "postgres", "n": 3, "types": ["file", "rule", "message"]}, processes=0)
