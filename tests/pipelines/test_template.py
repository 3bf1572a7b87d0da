"""Memories by a template, and as many as fit: one module for the format and the fit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model.candidates import MARK, Candidates, text_shown
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Message, Query, Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.pipelines.strategies.format import Rendered, Template
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter, Cl100kCounter, FileCounter, O200kCounter, cut_places
from tests.draws import draws

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)
COUNTERS = (CharsCounter(), O200kCounter(), Cl100kCounter())
PLAIN = {"memory_format": "{{content}}"}


def memory(name, text, **given):
    return Item(type="memory", name=str(name), text=text, **given)


def resources_of(counter):
    return LocalResources(Vectors(HashingEmbedder(), None), counter)


class TestTemplate:
    TEA = memory("tea", "Likes tea.", kind="fact", confidence=0.9, created="2026-01-01T00:00:00Z")
    RULE = Item(type="rule", name="r", text="Be kind {{score}}.")
    TOOL = Item(type="tool", name="t", description="d")

    def prompts(self, step, *items, score=0.75, **request):
        """The prompts of a request with these items, best first, and of one without."""
        catalog = Catalog(items)
        batch = Batch.of(catalog, [Request(id="0", text="ask", **request), Request(id="1", text="")])
        n = len(items)
        table = Candidates.build(1, np.zeros(n, np.int64), np.arange(n), score=score - np.arange(n) / 100)
        start = np.array([0, n, n])
        table = Candidates(start=start, **{name: getattr(table, name) for name in Candidates.row_arrays()})
        return step(Query.of_chunks(batch, [["ask"], []]), table, testing.mock_resources())

    def test_the_context_is_one_message_before_the_users(self):
        history = (Message("system", "old"), Message("user", "before"), Message("assistant", "answer"))
        prompt, empty = self.prompts(Template(system="Be brief."), self.TEA, self.RULE, history=history)
        context = "Relevant context from past conversations:\n\n- Likes tea.\n- Rule: Be kind {{score}}.\n"
        assert prompt.messages == [
            ("system", "Be brief."),
            ("user", "before"),
            ("assistant", "answer"),
            ("user", context),
            ("user", "ask"),
        ]
        assert (prompt.context, prompt.tools) == (context, [])
        assert (empty.messages, empty.context, empty.tools) == ([("system", "Be brief."), ("user", "")], "", [])

    def test_tools_are_sent_as_tools(self):
        prompt, _ = self.prompts(Template(), self.TOOL)
        assert (prompt.messages, prompt.context) == ([("user", "ask")], "")
        assert prompt.tools == [{"name": "t", "description": "d", "inputSchema": {}}]

    def test_variables_are_the_items_and_its_score(self):
        own = {"memoryFormat": "{{type}}|{{confidence}}|{{timestamp}}|{{score}}|{{content}}"}
        prompt, _ = self.prompts(Template(own), self.TEA, memory("cat", "Has a cat."), score=0.123456)
        assert prompt.context == "fact|0.9|2026-01-01T00:00:00Z|0.1235|Likes tea.\nmemory|||0.1135|Has a cat."
        prompt, _ = self.prompts(Template(own, metadata=False), self.TEA)
        assert prompt.context == "|||0.75|Likes tea."

    def test_the_type_is_the_kind_of_memories_only(self):
        items = [Item(type=type_, name=type_, text="x", kind="note") for type_ in ("memory", "file", "message")]
        prompt, _ = self.prompts(Template({"memory_format": "{{type}} {{content}}"}), *items)
        assert prompt.context == "note x\nfile x\nmessage x"

    def test_a_part_is_written_with_its_marks_and_the_session_without_a_score(self):
        catalog = Catalog([memory("a", "one two three four"), memory("b", "held")])
        batch = Batch.of(catalog, [Request(id="q", text="x", session=(SessionItem(catalog[1].key),))])
        spec = {
            "retrieve": "everything",
            "format": {"template": {"template": {"memory_format": "{{score}}:{{content}}"}}},
        }
        pipeline, resources = Pipeline.of({**spec, "refine": [{"truncate": {"tokens": 3}}]}), testing.mock_resources()
        (prompt,) = pipeline.prompts(pipeline.run(batch, resources), resources)
        assert prompt.context == f":held\n0:one two {MARK}"

    def test_faults_are_told_at_construction_and_with_their_place(self):
        with pytest.raises(ParameterError, match="no variable is called 'body'"):
            Template({"memory_format": "{{content}} {{body}}"})
        with pytest.raises(UnknownNameError, match="unknown template 'chatty'"):
            Template("chatty")
        with pytest.raises(
            PipelineError, match=r"format.template: unknown template 'x'; Known: chat, detailed, summary"
        ):
            Pipeline.of({"retrieve": "bm25", "format": {"template": {"template": "x"}}})
        with pytest.raises(PipelineError, match=r"template must be a text or a mapping, got 7"):
            Pipeline.of({"retrieve": "bm25", "format": {"template": {"template": 7}}})

    def test_a_template_is_not_the_callers_to_change(self):
        given = dict(PLAIN)
        step = Template(given)
        given["memory_format"] = "other"
        assert step == Template(PLAIN)


class Built:
    """What a pipeline of `everything`, `rendered` and `template` makes of one request over some items."""

    def __init__(self, items, tokens, template="chat", *, counter=COUNTERS[0], before=(), **request):
        asked = {"id": "q", "text": "what " * 30, "history": (Message("user", "said " * 30),), **request}
        spec = {
            "retrieve": "everything",
            "refine": [*before, {"rendered": {"tokens": tokens}}],
            "format": {"template": {"template": template, "system": "A system prompt that is long."}},
        }
        self.pipeline, self.resources = Pipeline.of(spec), resources_of(counter)
        self.batch = Batch.of(Catalog(items), [Request(**asked)])
        self.outcome = self.pipeline.run(self.batch, self.resources)
        self.table = self.outcome.candidates
        (prompt,) = self.pipeline.prompts(self.outcome, self.resources)
        self.context, self.tools = prompt.context, prompt.tools
        self.tokens = int(counter.count([""], [self.context])[0])
        self.chosen = self.table.item[self.table.chosen].tolist()

    @property
    def rules(self):
        return [str(self.table.rules[out]) for out in self.table.out[~self.table.chosen]]


class TestRendered:
    ITEMS = tuple(memory(n, letter * 8) for n, letter in enumerate("abcd"))

    @pytest.mark.parametrize(
        ("tokens", "kept", "context"),  # "#\n" + "aaaaaaaa" + "\n" + ... + "/": 11, 20, 29 and 38 characters
        [
            (3, [0], "#\naaaaaaaa/"),
            (4, [0], "#\naaaaaaaa/"),
            (5, [0, 1], "#\naaaaaaaa\nbbbbbbbb/"),
            (9, [0, 1, 2], None),
        ],
    )
    def test_header_separators_and_footer_count(self, tokens, kept, context):
        built = Built(self.ITEMS, tokens, {**PLAIN, "header": "#\n", "footer": "/"})
        assert built.chosen == kept
        assert built.tokens <= tokens
        assert context in (None, built.context)
        assert set(built.rules) == {f"beyond the budget of tokens={tokens}"}

    def test_all_fit_and_nothing_else_of_the_prompt_counts(self):
        built = Built(self.ITEMS, 10, {**PLAIN, "header": "#\n", "footer": "/"})
        assert (built.chosen, built.tokens, built.rules) == ([0, 1, 2, 3], 10, [])

    def test_a_first_memory_too_large_ends_with_a_sentence(self):
        text = "One two. Three four five. Six seven eight nine ten."
        built = Built([memory(0, text), memory(1, "x")], 8, PLAIN)  # "One two. Three four five. …" has 27 characters
        assert built.context == f"One two. Three four five. {MARK}"
        assert built.chosen == [0]
        assert (int(built.table.shown_from[0]), int(built.table.shown_to[0])) == (0, 25)
        assert int(built.table.tokens[0]) == 7
        assert built.rules == ["beyond the budget of tokens=8"]

    @pytest.mark.parametrize(
        ("tokens", "context"),
        [(6, "One two. …"), (2, "One …"), (1, "On …"), (0, "")],  # ten characters are three tokens: a sentence
    )
    def test_else_with_a_word_else_with_a_character(self, tokens, context):
        built = Built([memory(0, "One two. Three four five. Six seven.")], tokens, PLAIN)
        assert built.context == context
        assert built.chosen == ([0] if context else [])

    def test_a_frame_that_fills_the_budget_leaves_nothing(self):
        built = Built(self.ITEMS, 3, {**PLAIN, "header": "#" * 20})
        assert (built.context, built.chosen, len(built.rules)) == ("", [], 4)

    def test_a_part_that_was_shown_before_is_cut_within(self):
        text = "One two three four five six seven."
        built = Built([memory(0, text)], 4, PLAIN, before=[{"truncate": {"tokens": 6}}])
        assert built.context == f"One two three {MARK}"

    def test_a_tool_counts_and_is_never_cut(self):
        tool = Item(type="tool", name="t", description="d" * 40)  # its JSON has 85 characters
        built = Built([tool, memory(0, "x")], 22, PLAIN)
        assert (built.chosen, len(built.tools)) == ([0], 1)
        built = Built([tool, memory(0, "x")], 20, PLAIN)
        assert (built.chosen, built.tools, len(built.rules)) == ([], [], 2)

    def test_what_the_session_holds_counts_and_stays(self):
        session = (SessionItem(self.ITEMS[3].key),)
        assert Built(self.ITEMS, 5, PLAIN, session=session).context == "dddddddd\naaaaaaaa"
        assert Built(self.ITEMS, 4, PLAIN, session=session).context == f"dddddddd\naaaaa {MARK}"
        assert Built(self.ITEMS, 1, PLAIN, session=session).context == "dddddddd"

    def test_another_format_is_counted_as_it_renders(self):
        catalog, resources = Catalog(self.ITEMS), testing.mock_resources()
        pipeline = Pipeline.of({"retrieve": "everything", "refine": [{"rendered": {"tokens": 5}}]})
        table = pipeline.run(Batch.of(catalog, [Request(id="q", text="x" * 99)]), resources).candidates
        assert int(table.chosen.sum()) == 2  # a message of two tokens each

    def test_each_request_has_its_own_budget_and_cut(self):
        items = [memory(n, "word " * 4 * n + "end.") for n in range(1, 5)]
        keys = [item.key for item in items]
        requests = [Request(id=str(n), text="x", available=tuple(keys[n:])) for n in range(5)]
        spec = {"retrieve": "everything", "refine": [{"rendered": {"tokens": 15}}], "format": "template"}
        pipeline, resources = Pipeline.of(spec), resources_of(COUNTERS[1])
        batch = Batch.of(Catalog(items), requests)
        outcome = pipeline.run(batch, resources)
        together = pipeline.prompts(outcome, resources)
        assert [prompt.context.count(MARK) for prompt in together] == [0, 1, 1, 1, 0]
        for n in range(5):
            alone = pipeline.run(batch.take([n]), resources)
            assert pipeline.prompts(alone, resources) == [together[n]]
            np.testing.assert_array_equal(
                alone.candidates.shown_to, outcome.candidates.shown_to[outcome.candidates.rows(n)]
            )

    def test_it_cannot_stand_in_a_domain_and_needs_a_counter_of_texts(self, tmp_path):
        with pytest.raises(PipelineError, match="counts the whole prompt sees only the items of this domain"):
            Pipeline.of({"retrieve": "bm25", "refine": [{"by_domain": {"*": ["rendered"]}}]})
        (tmp_path / "counts.json").write_text('{"memory:0": 3}')
        with pytest.raises(ParameterError, match="needs a counter of texts: o200k, cl100k or chars/4"):
            Built([memory(0, "x")], 5, counter=FileCounter(str(tmp_path / "counts.json")))
        with pytest.raises(ParameterError, match="tokens must be 0 or more"):
            Rendered(tokens=-1)


def check_budget(items, tokens, template, counter):
    """What is rendered is within the budget, and what is kept a beginning of the ranking; how much, and whether cut."""
    built = Built(items, tokens, template, counter=counter)
    assert built.tokens <= tokens
    n = len(built.chosen)
    assert built.chosen == list(range(n))
    assert all(rule == f"beyond the budget of tokens={tokens}" for rule in built.rules)
    shown = built.table.shown_to[built.table.chosen]
    assert (shown[1:] == -1).all()
    cut = bool(n) and shown[0] >= 0
    assert n == 1 if cut else True
    if cut:
        assert items[0].text[: int(shown[0])] + f" {MARK}" in built.context
    return n, cut


TEXTS = st.one_of(
    st.text(min_size=1, max_size=60),
    st.lists(
        st.sampled_from(["tea", "{{score}}", "No.", "e\u0301", "\n", "漢字。", "ab" * 9, "👩\u200d👧"]), min_size=1
    ).map(" ".join),
)
AROUND = st.one_of(st.just(""), st.text("\n |-#x", max_size=8))
OWN = st.fixed_dictionaries(
    {
        "header": AROUND,
        "memory_format": st.sampled_from(
            ["{{content}}", "- {{content}}", "[{{type}}] {{content}} {{score}}\n", "{{content}}"]
        ),
        "separator": AROUND,
        "footer": AROUND,
    }
)


@PROPERTY
@given(
    st.lists(TEXTS, max_size=6),
    st.integers(0, 60),
    st.one_of(st.sampled_from(["chat", "detailed", "summary"]), OWN),
    st.sampled_from(COUNTERS),
)
def test_the_budget_is_never_exceeded_and_no_more_fits(texts, tokens, template, counter):
    items = [memory(n, text) for n, text in enumerate(texts)]
    n, cut = check_budget(items, tokens, template, counter)
    if n < len(items):
        full = Built(items[: n if cut else n + 1], 10**9, template, counter=counter)
        assert full.tokens > tokens, "one more would have fit"


@PROPERTY
@given(TEXTS, st.integers(0, 20))
def test_the_longest_beginning_that_fits_is_shown(text, tokens):
    item = memory(0, text)
    built = Built([item], tokens, PLAIN)
    fitting = [
        [n for n in places if len(text_shown(item, (0, n))) <= 4 * tokens]
        for places in cut_places(text, 0, len(text), sentence=True)
    ]
    if len(text) <= 4 * tokens:
        assert built.context == text
    else:
        best = next((places[-1] for places in fitting if places), 0)
        assert built.context == (text_shown(item, (0, best)) if best else "")


def test_the_budget_is_never_exceeded_over_thousands_of_draws():
    draw = random.Random(20)
    words = [
        "tea",
        "Alice",
        "said",
        "that.",
        "No!",
        "2026-01-01",
        "{{content}}",
        "漢字。",
        "\n",
        "e\u0301",
        "…",
        "x" * 30,
    ]
    marks = ["", "\n", " | ", "\n\n", "# Known\n", "---"]
    formats = ["{{content}}", "- {{content}}", "[{{type}}] {{content}} (confidence: {{confidence}}, {{timestamp}})"]
    for _ in range(draws(10_000, 1_500)):
        texts = [" ".join(draw.choices(words, k=draw.randint(1, 25))) for _ in range(draw.randint(0, 5))]
        own = {"memoryFormat": draw.choice(formats), "includeMetadata": draw.random() < 0.5}
        own |= {name: draw.choice(marks) for name in ("header", "separator", "footer")}
        template = draw.choice(["chat", "detailed", "summary", own, own])
        items = [memory(n, text, kind="fact", confidence=0.5) for n, text in enumerate(texts)]
        check_budget(items, draw.randint(0, 90), template, draw.choice(COUNTERS))
