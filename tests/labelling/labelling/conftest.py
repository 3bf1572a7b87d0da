"""A small pool, made by hand."""

from __future__ import annotations

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import Exposure
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.labelling.answer_log import MemoryLog
from ctxbench.labelling.pools import Offers, Pool, Predictor
from ctxbench.labelling.sampling import Queue, make_queue
from ctxbench.labelling.session import LabellingSession
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request

ABOUT = {"licence": "made up", "source": "tests", "labelling": "from a log"}
TOOLS = (
    ("tracker", "create_issue", "Open a ticket for a bug."),
    ("forge", "create_issue", "Open an issue of a repository."),
    ("forge", "list_runs", "Builds and their logs."),
    ("mail", "send_mail", "Write to somebody."),
    ("calendar", "add_event", "Put an appointment down."),
    ("wiki", "read_page", "Article of the handbook."),
)


@pytest.fixture
def make_pool():
    """A pool of n queries: q0, q1 ... called `send_mail`; of two selectors, `wide` offers what was called."""

    def make(n=60, *, labels=None, partly=True):
        catalog = Catalog([Item(type="tool", server=s, name=m, description=d) for s, m, d in TOOLS])
        keys = [item.key for item in catalog]
        queries = tuple(
            DatasetQuery(request=Request(id=f"q{i}", text=f"request {i}"), split="test", partly_labelled=partly)
            for i in range(n)
        )
        made = [Label(query.id, keys[3], 2, source="trace") for query in queries] if labels is None else labels
        dataset = Dataset(name="log", version="1", catalog=catalog, queries=queries, labels=tuple(made), about=ABOUT)
        wide = Offers(
            name="wide",
            offered=(frozenset({0, 2, 3}),) * n,
            ranking=((3, 2, 0, 4),) * n,
            scores=((0.9, 0.8, 0.7, 0.1),) * n,
        )
        narrow = Offers(
            name="narrow",
            offered=tuple(frozenset({2, 3} if i % 2 else {2}) for i in range(n)),
            ranking=((2, 3, 4),) * n,
            scores=((0.9, 0.8, 0.1),) * n,
        )
        exposures = {q.id: Exposure(query=q.id, offered=tuple(keys[:4]), called=(keys[3],)) for q in queries}
        return Pool(dataset=dataset, offers=(wide, narrow), exposures=exposures)

    return make


@pytest.fixture
def make_session():
    """A session over a pool, with a log that is kept nowhere unless one is given."""

    def make(pool, *, log=None, seed=0, split=True):
        predictor, log = Predictor(pool), MemoryLog() if log is None else log
        start = LabellingSession(predictor, Queue(selectors=pool.names, seed=seed, strata=()), log)
        queue = make_queue(predictor, start.unsettled(), seed=seed, split=split)
        return LabellingSession(predictor, queue, log)

    return make
