"""A dataset of what users said of the contexts that they were given."""

from __future__ import annotations

from datetime import datetime, timedelta

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import ItemKey
from ctxbench.core.times import in_utc
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.stores.events import ASKED, Event
from ctxbench.stores.memory_store import MemoryStore

LABELLING = (
    "Users said of items in contexts that were served whether they were useful: 2 where one was, 0 where it was not; "
    "the last word counts. Nobody has looked for what else a request needs."
)


def feedback_dataset(store: MemoryStore, workspace: str, *, name: str) -> Dataset:
    """Make a dataset of the feedback that names its context: a query a context, over all that the workspace holds.

    What was useful is required (2), as what a log shows to have been called is, and what was not is irrelevant (0);
    more may be required. A query is asked as of its time, with the references and uses of then, and before anything was
    said of its context: the service rounds times up, and a label must not count as a use. Queries of one thread, or of
    one user where there is none, are one group.

    Args:
        store: where the feedback is.
        workspace: of it.
        name: of the dataset.

    Raises:
        ParameterError: there is no such feedback, or no such workspace.
    """
    said: dict[str, list[Event]] = {}  # by context
    events = [one for one in store.events(workspace) if one.kind == "feedback"]
    for event in events:
        if asked := event.metadata.get(ASKED):
            said.setdefault(asked["context"], []).append(event)
    if not said:
        what = f"{len(events)} judgements without a context" if events else "no feedback"
        raise ParameterError(f"workspace {workspace!r} has {what}; feedback that names `contextId` makes labels")
    catalog = store.catalog(workspace)
    queries, labels = [], []
    for context, of in said.items():
        asked = of[0].metadata[ASKED]
        whose = {"user": of[0].user, "conversation": of[0].conversation}
        before = datetime.fromisoformat(str(of[0].at)) - timedelta(microseconds=1)
        time = min(asked["time"], before.isoformat(), key=in_utc)
        request = store.request(workspace, asked["text"], time=time, id=context, **whose)
        group = of[0].conversation or of[0].user or context
        queries.append(DatasetQuery(request=request, split=split_of(group), group=group, partly_labelled=True))
        grades = {one.metadata[ASKED]["item"]: 2 if one.useful else 0 for one in of}
        keys = {key: grade for item, grade in grades.items() if catalog.find(key := ItemKey.parse(item)) is not None}
        for key in sorted(keys, key=catalog.position):
            labels.append(Label(query=context, item=key, grade=keys[key], source="feedback"))
    about = {
        "licence": "not stated: texts of users, not for publication",
        "source": f"feedback on contexts of workspace {workspace}",
        "labelling": LABELLING,
    }
    return Dataset(name=name, version="1", catalog=catalog, queries=tuple(queries), labels=tuple(labels), about=about)
