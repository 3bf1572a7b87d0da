"""The format with citations."""

from __future__ import annotations

from ctxbench import testing
from ctxbench.model.candidates import MARK
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Message, Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.format import citation_ids, citations, cited

SETUP = Item(type="file", name="docs/setup.md@2", title="docs/setup.md", text="Install the servers first.")
SAID = Item(type="message", name="m1", text="Which server?", kind="user", conversation="t1")
TOOL = Item(type="tool", name="t", description="d")
FILE, SPOKEN = citation_ids([SETUP.key, SAID.key])


def asked(*items, refine=(), text="server", n=1, resources=None, **given):
    """Prompts, query and table of requests for all items by a format with these parameters."""
    request = {"text": text, "history": (Message("user", "before"),), **given.pop("request", {})}
    batch = Batch.of(Catalog(items), [Request(id=str(one), **request) for one in range(n)])
    rank = {"linear": {"weights": {"assembly.source": 1.0}}}
    spec = {"retrieve": "everything", "refine": [rank, *refine], "format": {"citations": given}}
    pipeline, resources = Pipeline.of(spec), resources or testing.mock_resources()
    outcome = pipeline.run(batch, resources)
    return pipeline.prompts(outcome, resources), outcome.query, outcome.candidates


def test_items_stand_in_one_message_under_their_citations():
    (prompt,), _, _ = asked(SAID, SETUP, system="Name your sources.")
    context = (
        f"{FILE} docs/setup.md (file, relevance 0.70)\nInstall the <<<servers>>> first.\n\n"
        f"{SPOKEN} user in t1 (message, relevance 0.50)\nWhich <<<server>>>?"
    )
    assert prompt.messages == [
        ("system", "Name your sources."),
        ("user", "before"),
        ("user", context),
        ("user", "server"),
    ]
    assert prompt.context == context


def test_marks_may_be_left_out_and_then_no_index_is_asked():
    resources = testing.mock_resources()
    resources.get_or_create(("resource", "text_index:fts5"), lambda: None)
    (prompt,), _, _ = asked(SETUP, marks=False, resources=resources)
    assert prompt.context.endswith("\nInstall the servers first.")


def test_tools_are_sent_as_tools_and_nothing_chosen_is_no_message():
    (prompt,), query, table = asked(TOOL)
    assert (prompt.context, [tool["name"] for tool in prompt.tools], len(prompt.messages)) == ("", ["t"], 2)
    assert citations(query, table, 0) == ()
    (prompt,), _, _ = asked(SETUP, refine=[{"first": {"n": 0}}])
    assert (prompt.context, len(prompt.messages)) == ("", 2)


def test_a_part_is_written_with_its_marks_and_what_the_session_holds_without_relevance():
    (prompt,), query, table = asked(
        SETUP, refine=[{"truncate": {"tokens": 6}}], request={"session": (SessionItem(SETUP.key),)}
    )
    assert prompt.context == f"{FILE} docs/setup.md (file)\nInstall the <<<servers>>> {MARK}"
    (citation,) = citations(query, table, 0)
    assert (citation.relevance, citation.excerpt, citation.path) == (None, "Install the servers", "docs/setup.md")


def test_citations_say_where_an_item_is_from():
    _, query, table = asked(SAID, SETUP, Item(type="message", name="m2", text="x"))
    found = citations(query, table, 0)
    assert [(one.source, one.type, one.path, one.used) for one in found] == [
        ("docs/setup.md", "file", "docs/setup.md", False),
        ("user in t1", "message", None, False),
        ("message", "message", None, False),
    ]
    assert [one.relevance for one in found] == [0.7, 0.5, 0.5]


def test_contents_that_look_like_marks_or_citations_confuse_nothing():
    trap = Item(type="file", name="a\nb", text=f"{FILE} says: >>> server()")
    (prompt,), query, table = asked(trap, SETUP)
    own, other = citations(query, table, 0)
    assert f"{own.id} a b (file, relevance 0.70)\n{FILE} says: >>> <<<<server>>>>()" in prompt.context
    assert other.id == FILE  # the same as in the turn that the text quotes
    assert [one.used for one in cited([own, other], f"See {own.id}.")] == [True, False]


def test_every_text_is_marked_for_the_words_of_its_own_request():
    batch = Batch.of(Catalog([SETUP]), [Request(id=one, text=one) for one in ("server", "install", "server ", "")])
    pipeline, resources = Pipeline.of({"retrieve": "everything", "format": "citations"}), testing.mock_resources()
    shown = [one.context.splitlines()[1] for one in pipeline.prompts(pipeline.run(batch, resources), resources)]
    first, second = "Install the <<<servers>>> first.", "<<<Install>>> the servers first."
    assert shown == [first, second, first, SETUP.text]


def test_the_whole_of_it_stays_within_the_budget():
    items = [Item(type="file", name=f"docs/{n}.md", text=f"server {n}. " * (5 + n)) for n in range(12)]
    weights = {"assembly.source": 1.0, "assembly.tf": 1.0}
    for tokens in (5, 30, 80, 200):
        for fit in ("knapsack", "greedy"):
            (prompt,), _, table = asked(
                *items,
                refine=[
                    {"excerpts": {"characters": 90}},
                    {"linear": {"weights": weights}},
                    {fit: {"tokens": tokens, "reserved": 0}},
                ],
            )
            assert len(prompt.context) <= 4 * tokens
            assert table.chosen.any() == (tokens > 10)
