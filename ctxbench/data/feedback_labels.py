"""Make a dataset of the feedback of users on contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.times import in_utc
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.labelling.query_files import NOT_SUFFICIENT, Exposure
from ctxbench.stores.events import ASKED, SUFFICIENT, Event
from ctxbench.stores.memory_store import MemoryStore

LABELLING = (
    "Users said of items in contexts that were served whether they were useful: 2 where one was, 0 where it was not; "
    "the last word counts. Where the user also said that the whole context was sufficient, and judged each of its "
    "items, nothing else is required. Nobody has looked for what else any other request needs."
)


def feedback_dataset(store: MemoryStore, workspace: str, *, name: str) -> tuple[Dataset, tuple[Exposure, ...]]:
    """Make a dataset of the feedback that names its context: a query a context, over all that the workspace holds.

    What was useful is required (2), as what a log shows to have been called is, and what was not is irrelevant (0);
    more may be required. That a context was sufficient says that nothing else was required than what it had: a query of
    which each item was judged, too, is labelled in full, and needs nothing where none was useful. As long as some item
    was not judged nobody has said which were needed, and what was not offered gets no label: it may still be helpful,
    or do as well. A query whose context lacked something stays labelled in part. A query is asked as of its time, with
    the references and uses of then, and before anything was said of its context: the service rounds times up, and a
    label must not count as a use. Queries of one thread, or of one user where there is none, are one group.

    Args:
        store: where the feedback is.
        workspace: of it.
        name: of the dataset.

    Returns:
        The dataset, and what was offered in each context that was judged as a whole, with `NOT_SUFFICIENT` where it
        lacked something, by which `ctxbench data label` knows what is likely to be missed.

    Raises:
        ParameterError: there is no such feedback, or no such workspace.
    """
    by_context: dict[str, list[Event]] = {}  # by context
    events = [event for event in store.events(workspace) if event.kind in ("feedback", SUFFICIENT)]
    for event in events:
        if served := event.metadata.get(ASKED):
            by_context.setdefault(served["context"], []).append(event)
    if not by_context:
        feedback = f"{len(events)} judgements without a context" if events else "no feedback"
        raise ParameterError(f"workspace {workspace!r} has {feedback}; feedback that names `contextId` makes labels")
    catalog = store.catalog(workspace)
    queries, labels, exposures = [], [], []
    for context, of in by_context.items():
        judged = _Judged.of(of, catalog)
        served = of[0].metadata[ASKED]
        scope = {"user": of[0].user, "conversation": of[0].conversation}
        before = datetime.fromisoformat(str(of[0].at)) - timedelta(microseconds=1)
        time = min(served["time"], before.isoformat(), key=in_utc)
        request = store.request(workspace, served["text"], time=time, id=context, **scope)
        group = of[0].conversation or of[0].user or context
        queries.append(
            DatasetQuery(
                request=request,
                split=split_of(group),
                group=group,
                tags=() if judged.enough is None else ("sufficient" if judged.enough else NOT_SUFFICIENT,),
                needs_nothing=judged.is_complete and not judged.useful,
                partly_labelled=not judged.is_complete,
            )
        )
        labels += [Label(query=context, item=key, grade=grade, source="feedback") for key, grade in judged.grades]
        if judged.enough is not None:
            signals = () if judged.enough else (NOT_SUFFICIENT,)
            exposures.append(Exposure(query=context, offered=judged.offered, called=judged.useful, signals=signals))
    about = {
        "licence": "not stated: texts of users, not for publication",
        "source": f"feedback on contexts of workspace {workspace}",
        "labelling": LABELLING,
    }
    dataset = Dataset(
        name=name, version="1", catalog=catalog, queries=tuple(queries), labels=tuple(labels), about=about
    )
    return dataset, tuple(exposures)


@dataclass(frozen=True)
class _Judged:
    """The judgements of one context, the last one of each item; items in the order of the catalog.

    Attributes:
        enough: whether it was sufficient; None = not judged.
        offered: its items, if that was judged.
        grades: of the items that were judged and are still in the catalog.
    """

    enough: bool | None
    offered: tuple[ItemKey, ...]
    grades: tuple[tuple[ItemKey, int], ...]

    @classmethod
    def of(cls, events: Sequence[Event], catalog: Catalog) -> _Judged:
        """From all events of the context, in order."""
        grades = {
            ItemKey.parse(event.metadata[ASKED]["item"]): 2 if event.useful else 0
            for event in events
            if event.kind == "feedback"
        }
        in_catalog = {key: grade for key, grade in grades.items() if catalog.find(key) is not None}
        verdicts = [event for event in events if event.kind == SUFFICIENT]
        offered = map(ItemKey.parse, verdicts[-1].metadata[ASKED]["items"]) if verdicts else ()
        return cls(
            enough=verdicts[-1].useful if verdicts else None,
            offered=tuple(sorted(offered, key=catalog.position)),  # a context of what was deleted is gone with it
            grades=tuple((key, in_catalog[key]) for key in sorted(in_catalog, key=catalog.position)),
        )

    @property
    def useful(self) -> tuple[ItemKey, ...]:
        """The items that were useful."""
        return tuple(key for key, grade in self.grades if grade)

    @property
    def is_complete(self) -> bool:
        """Whether all required items are known."""
        return self.enough is True and {key for key, _ in self.grades}.issuperset(self.offered)
