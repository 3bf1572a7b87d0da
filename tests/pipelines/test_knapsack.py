"""The best filling of a budget, and the document's greedy one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Message, Request, SessionItem, whole_texts
from ctxbench.model.strategies import Step, WithFormat
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.format import Template
from ctxbench.pipelines.strategies.pack import Greedy, Knapsack, best_filling
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter, O200kCounter, prompt_tokens, row_prices
from tests.draws import draws

PROPERTY = settings(max_examples=300, deadline=None, database=None, derandomize=True)
PLAIN = {"memory_format": "{{content}}", "separator": ""}
"""Items one behind the other, so that of texts of a multiple of four characters the prices add up."""


def file(name, tokens, **more):
    return Item(type=more.pop("type", "file"), name=str(name), text="w" * 4 * tokens, **more)


def scored(batch, scores, *, resources=None, template=PLAIN):
    """Query, table and resources with the format: every request has found the first items, with these scores."""
    rows = [(place, item, score) for place, row in enumerate(scores) for item, score in enumerate(row)]
    request, item, score = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    table = Candidates.build(len(batch), request.astype(np.int64), item.astype(np.int64), score=score)
    fmt = Step("format", "template", Template(template, system="A system prompt that counts for nothing."))
    return whole_texts(batch), table, WithFormat(resources or testing.mock_resources(), fmt)


def filled(step, items, scores, **asked):
    """What the step makes of one request over some items: the table, and the tokens that the items add."""
    request = Request(**{"id": "q", "text": "what " * 30, "history": (Message("user", "said " * 9),), **asked})
    query, table, resources = scored(Batch.of(Catalog(items), [request]), [scores])
    table = step(query, table, resources)
    frame = prompt_tokens(query, Candidates.empty(1), resources)
    return table, int((prompt_tokens(query, table, resources) - frame)[0])


def chosen(table):
    return sorted(table.item[table.chosen].tolist())


def rules(table):
    """Why each item is out, by its position."""
    return {int(table.item[row]): str(table.rules[table.out[row]]) for row in np.flatnonzero(~table.chosen)}


def by_trying_all(score, price, room):
    """The best filling as its docstring says, among all there are."""
    n = len(score)
    subsets = itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(n + 1))
    fitting = [one for one in subsets if sum(price[i] for i in one) <= room]

    def worth(subset):
        first = tuple(i not in subset for i in range(n))
        return -sum(score[i] for i in subset), sum(price[i] for i in subset), first

    best = min(fitting, key=worth, default=())
    return [i in best for i in range(n)]


SIXTEENTHS = st.integers(1, 32).map(lambda n: n / 16)  # sums of these do not round


class TestBestFilling:
    def test_the_best_pair_beats_the_best_single_and_the_best_density(self):
        # 6 + 6 of 10 tokens; the first has the highest score, the last the most for its price
        assert best_filling(np.array([9.0, 6.0, 6.0, 2.0]), np.array([9, 5, 5, 1]), 10).tolist() == [0, 1, 1, 0]

    def test_of_equal_sums_the_fewest_tokens_then_the_first(self):
        assert best_filling(np.array([2.0, 1.0, 1.0]), np.array([5, 2, 2]), 5).tolist() == [0, 1, 1]
        assert best_filling(np.array([1.0, 1.0, 1.0]), np.array([2, 2, 2]), 4).tolist() == [1, 1, 0]

    def test_none_one_and_more_than_there_is(self):
        none = np.zeros(0), np.zeros(0, np.int64)
        assert best_filling(*none, 5).tolist() == []
        assert best_filling(np.array([0.5]), np.array([5]), 5).tolist() == [1]
        assert best_filling(np.array([0.5]), np.array([5]), 4).tolist() == [0]
        assert best_filling(np.array([0.5, 1e-300]), np.array([5, 0]), 10**12).tolist() == [1, 1]
        assert best_filling(np.array([0.5, 0.5]), np.array([0, 1]), -1).tolist() == [0, 0]

    @PROPERTY
    @given(st.lists(st.tuples(SIXTEENTHS, st.integers(0, 12)), max_size=10), st.integers(-1, 60))
    def test_it_is_the_best_of_all_subsets(self, items, room):
        score, price = zip(*items, strict=True) if items else ((), ())
        found = best_filling(np.array(score, np.float64), np.array(price, np.int64), room).tolist()
        assert found == by_trying_all(score, price, room)

    def test_it_is_the_best_of_all_subsets_of_sixteen(self):
        draw = np.random.default_rng(16)
        bit = np.arange(1 << 16)[:, None] >> np.arange(16) & 1
        for _ in range(30):
            score, price, room = draw.random(16), draw.integers(1, 400, 16), int(draw.integers(100, 3500))
            sums = np.where(bit @ price <= room, bit @ score, -1.0)
            found = best_filling(score, price, room)
            assert price[found].sum() <= room
            assert score[found].sum() == pytest.approx(sums.max(), rel=1e-11)


class TestKnapsack:
    ITEMS = (file("a", 9), file("b", 5), file("c", 5), file("d", 1))
    SCORES = (9.0, 6.0, 6.0, 2.0)

    def test_what_is_worth_most_together_is_chosen(self):
        table, tokens = filled(Knapsack(tokens=15, reserved=5), self.ITEMS, self.SCORES)
        assert (chosen(table), tokens) == ([1, 2], 10)
        assert set(rules(table).values()) == {"others are worth more together within tokens=15 less reserved=5"}

    def test_what_alone_is_too_large_is_told_apart_from_what_others_displace(self):
        table, _ = filled(Knapsack(tokens=8, reserved=0), self.ITEMS, self.SCORES)
        assert chosen(table) == [1, 3]
        assert rules(table) == {
            0: "does not fit into tokens=8 less reserved=0",
            2: "others are worth more together within tokens=8 less reserved=0",
        }

    @pytest.mark.parametrize("step", [Knapsack(), Greedy()])
    def test_what_scores_nothing_is_left_out(self, step):
        table, _ = filled(step, self.ITEMS, (1.0, 0.0, -1.0, 0.5))
        assert chosen(table) == [0, 3]
        assert set(rules(table).values()) == {"its score is not above 0, so it adds nothing"}

    @pytest.mark.parametrize("step", [Knapsack(tokens=9, reserved=3), Greedy(tokens=9, reserved=3)])
    def test_where_nothing_fits_the_best_is_cut(self, step):
        words = Item(type="file", name="w", text="One two. Three four five six seven eight.")  # 24 characters fit
        table, tokens = filled(step, [file("a", 7), words], (1.0, 2.0))
        assert chosen(table) == [1]
        assert (int(table.shown_from[0]), int(table.shown_to[0]), tokens) == (0, 8, 3)  # "One two. …"
        assert rules(table) == {0: "does not fit into tokens=9 less reserved=3"}

    @pytest.mark.parametrize("step", [Knapsack(tokens=1, reserved=0), Greedy(tokens=1, reserved=0)])
    def test_where_no_character_fits_nothing_is_chosen(self, step):
        items = [Item(type="file", name="w", text="👩\u200d👩\u200d👧 " * 3), file("a", 2, type="tool")]
        table, tokens = filled(step, items, (1.0, 2.0))
        assert (chosen(table), tokens) == ([], 0)
        assert set(rules(table).values()) == {"does not fit into tokens=1 less reserved=0"}

    @pytest.mark.parametrize("step", [Knapsack(tokens=15, reserved=5), Greedy(tokens=15, reserved=5)])
    def test_what_the_session_holds_counts_and_stays(self, step):
        held = (SessionItem(self.ITEMS[1].key),)
        for session, wanted in ((held, [1, 2]), ((*held, SessionItem(self.ITEMS[0].key)), [0, 1])):
            name = type(step).__name__.lower()
            refine = [{"linear": {"weights": {"assembly.source": 1.0}}}, {name: {"tokens": step.tokens, "reserved": 5}}]
            pipeline = Pipeline.of(
                {"retrieve": "everything", "refine": refine, "format": {"template": {"template": PLAIN}}}
            )
            batch = Batch.of(Catalog(self.ITEMS[:3]), [Request(id="q", text="x", session=session)])
            assert chosen(pipeline.run(batch, testing.mock_resources()).candidates) == wanted

    @pytest.mark.parametrize("kind", [Knapsack, Greedy])
    def test_parts_that_do_not_add_up_are_counted_whole_and_chosen_again(self, kind):
        # "www" is a token alone; five are 15 characters and 8 of line ends, 6 tokens; four are 12 + 6, 5 tokens
        items = [Item(type="file", name=str(n), text="www") for n in range(5)]
        batch = Batch.of(Catalog(items), [Request(id="q", text="")])
        given = scored(batch, [[5.0, 4.0, 3.0, 2.0, 1.0]], template={**PLAIN, "separator": "\n\n"})
        assert chosen(kind(tokens=5, reserved=0)(*given)) == [0, 1, 2, 3]
        assert chosen(kind(tokens=6, reserved=0)(*given)) == [0, 1, 2, 3, 4]

    def test_a_header_is_paid_once_and_a_separator_each_time_but_one(self):
        own = {**PLAIN, "header": "#" * 40, "separator": "-" * 8}  # 10 and 2 tokens; items have 1
        items = [file(n, 1) for n in range(6)]
        batch = Batch.of(Catalog(items), [Request(id="q", text="")])
        query, table, resources = scored(batch, [[1.0] * 6], template=own)
        prices = row_prices(query, table, resources, table.chosen)
        assert (prices.alone.tolist(), prices.joint.tolist()) == ([11] * 6, [-8])  # 10 + 1 + 2 + 1 is 14, not 22
        for tokens, n in ((10, 1), (11, 1), (13, 1), (14, 2), (17, 3), (25, 5), (26, 6)):
            made = Knapsack(tokens=tokens, reserved=0)(query, table, resources)
            assert chosen(made) == ([] if tokens == 10 else list(range(n)))

    @pytest.mark.parametrize("step", [Knapsack(tokens=9, reserved=0), Greedy(tokens=9, reserved=0)])
    def test_where_no_number_of_them_suits_the_best_that_fits_alone_is_chosen(self, step):
        class Dear(CharsCounter):
            """A counter for which three items side by side cost a hundred tokens more."""

            def count(self, ids, texts):
                return super().count(ids, texts) + [100 * (text.count("w") > 8) for text in texts]

        resources = LocalResources(Vectors(HashingEmbedder(), None), Dear())
        batch = Batch.of(Catalog([file(n, 1) for n in range(4)]), [Request(id="q", text="")])
        table = step(*scored(batch, [[4.0, 3.0, 2.0, 1.0]], resources=resources))
        assert (chosen(table), bool(table.shows_all.all())) == ([0], True)

    def test_each_request_is_filled_by_itself(self):
        batch = Batch.of(Catalog(self.ITEMS), [Request(id=str(n), text="x" * n) for n in range(4)])
        scores = [self.SCORES, (), (1.0, 0.0, 0.0, 0.0), (1.0, 5.0, 5.0, 0.1)]
        for step in (Knapsack(tokens=10, reserved=0), Greedy(tokens=10, reserved=0)):
            query, table, resources = scored(batch, scores)
            together = step(query, table, resources)
            for place in range(4):
                alone = step(*scored(batch.take([place]), [scores[place]]))
                assert alone.out.astype(bool).tolist() == together.out[together.rows(place)].astype(bool).tolist()

    def test_faults_are_told(self):
        with pytest.raises(ParameterError, match=r"reserved \(500\) must be less than tokens \(500\); nothing is left"):
            Knapsack(tokens=500)
        with pytest.raises(ParameterError, match="reserved must be 0 or more, got -1"):
            Greedy(reserved=-1)
        with pytest.raises(ParameterError, match="type_share must be 0 to 1, got 70"):
            Greedy(type_share=70)
        with pytest.raises(ParameterError, match="stop_items must be 1 or more, got 0"):
            Greedy(stop_items=0)


class TestGreedy:
    def test_relevance_for_a_token_decides_and_ties_stand_in_the_one_order(self):
        items = (file("a", 9), file("b", 5), file("c", 4), file("d", 4))
        table, tokens = filled(Greedy(tokens=9, reserved=0), items, (9.0, 5.5, 4.0, 4.0))  # 1, 1.1, 1 and 1 a token
        assert (chosen(table), tokens) == ([1, 2], 9)
        assert set(rules(table).values()) == {"does not fit into tokens=9 less reserved=0"}

    def test_what_does_not_fit_is_skipped(self):
        table, _ = filled(Greedy(tokens=5, reserved=0), (file("a", 9), file("b", 5)), (90.0, 1.0))
        assert chosen(table) == [1]

    def test_a_type_above_its_share_is_left_out_once_more_than_some_are_chosen(self):
        items = [file(n, 1) for n in range(8)] + [file(n, 1, type="message") for n in range(2)]
        scores = [20.0 - n for n in range(8)] + [2.0, 1.0]
        table, _ = filled(Greedy(stop_share=None), items, scores)
        # six files: 6 of 6 is above 0.7, so no seventh; nor an eighth
        assert chosen(table) == [0, 1, 2, 3, 4, 5, 8, 9]
        assert set(rules(table).values()) == {"its type has more than type_share=0.7 of what is chosen"}
        table, _ = filled(Greedy(stop_share=None, after=6), items, scores)
        assert chosen(table) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
        table, _ = filled(Greedy(stop_share=None, type_share=None), items, scores)
        assert chosen(table) == list(range(10))

    def test_it_stops_once_enough_items_fill_enough(self):
        items = [file(n, 10) for n in range(12)]
        scores = [20.0 - n for n in range(12)]
        given = {"tokens": 120, "reserved": 0, "type_share": None}
        table, _ = filled(Greedy(**given), items, scores)  # ten have 100 tokens, eleven 110, above 0.9 of 120
        assert chosen(table) == list(range(11))
        assert rules(table) == {11: "stop_items=10 or more items fill stop_share=0.9 of the budget"}
        table, _ = filled(Greedy(**given, stop_items=12), items, scores)
        assert chosen(table) == list(range(12))
        table, _ = filled(Greedy(**given, stop_share=None), items, scores)
        assert chosen(table) == list(range(12))

    def test_its_rules_lose_what_the_exact_one_finds(self):
        """Candidates as document 002 retrieves them: 30 files of 20 to 400 tokens and 20 messages of 5 to 150."""
        draw, lost, by_density = np.random.default_rng(2), [], []
        for _ in range(200):
            price = np.concatenate([draw.integers(20, 400, 30), draw.integers(5, 150, 20)])
            score, kind = draw.beta(2, 4, 50), np.repeat([0, 1], [30, 20])
            exact = score[best_filling(score, price, 3500)].sum()
            for step, losses in ((Greedy(), lost), (Greedy(type_share=None, stop_share=None), by_density)):
                losses.append(1 - score[step._filled(score, price, kind, 3500) == 0].sum() / exact)
        assert min(*lost, *by_density) >= -1e-9
        assert np.median(by_density) < 0.005  # 0.1%
        assert 0.05 < np.median(lost) < 0.2  # 9%


class Uneven(CharsCounter):
    """A counter as uneven as encodings are: a token for every three characters, but for each run of blanks one more."""

    def count(self, ids, texts):
        return np.array([(len(text) + 2) // 3 + text.count("\n") - text.count("ab") for text in texts], dtype=np.int64)


TEMPLATES = ("chat", "detailed", PLAIN, {**PLAIN, "separator": "\n\n"}, {**PLAIN, "separator": "\n--- ab\n"})


def over_budget(draw, requests, counter, step, longest):
    """How many of some drawn requests are over their budget, and how many chose, were cut and had more than fits."""
    parts = ["ab", "word ", "x", "\n", "tea. ", "a" * 9, "b", "\n\n", "e\u0301", "漢字"]
    items = [
        Item(
            type=draw.choice(["file", "message", "tool", "rule"]),
            name=str(n),
            text="".join(draw.choices(parts, k=draw.randint(0, longest))),
        )
        for n in range(60)
    ]
    batch = Batch.of(Catalog(items), [Request(id=str(n), text="ask") for n in range(requests)])
    scores = []
    for _ in range(requests):
        size = draw.randint(0, 7)
        scores.append(
            sorted((item, draw.choice([-1.0, 0.0, 0.5, draw.random()])) for item in draw.sample(range(60), size))
        )
    rows = [(place, item, score) for place, row in enumerate(scores) for item, score in row]
    request, item, score = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    table = Candidates.build(requests, request.astype(np.int64), item.astype(np.int64), score=score)
    resources = LocalResources(Vectors(HashingEmbedder(), None), counter)
    resources = WithFormat(resources, Step("format", "template", Template(draw.choice(TEMPLATES))))
    query = whole_texts(batch)
    made = step(query, table, resources)
    added = prompt_tokens(query, made, resources) - prompt_tokens(query, Candidates.empty(requests), resources)
    over = int((added > step.tokens - step.reserved).sum())
    return np.array([over, made.chosen.any(), (~made.shows_all).sum(), (~made.chosen).sum()])


def test_the_budget_is_exceeded_in_none_of_thousands_of_requests():
    draw, found = random.Random(21), np.zeros(4, dtype=np.int64)
    for _ in range(draws(100, 12)):
        given = {"tokens": draw.randint(2, 90), "reserved": draw.randint(0, 1)}
        step = draw.choice([Knapsack(**given), Greedy(**given, stop_items=2, after=1)])
        found += over_budget(draw, 1000, draw.choice([CharsCounter(), Uneven()]), step, 30)
    assert found[0] == 0
    assert (found[1:] > 0).all(), "nothing was chosen, cut or left out, so nothing was tested"


def test_the_budget_is_exceeded_in_none_of_some_hundred_real_renderings():
    draw, found = random.Random(22), np.zeros(4, dtype=np.int64)
    for step in (Knapsack, Greedy):
        for tokens in (1, 6, 20, 60, 200):
            found += over_budget(draw, 40, O200kCounter(), step(tokens=tokens, reserved=0), 40)
    assert found[0] == 0
    assert (found[1:] > 0).all()
