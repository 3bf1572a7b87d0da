"""Queries of a dataset, and the labels that say how much a query needs an item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ctxbench.core.items import ItemKey
from ctxbench.core.requests import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetQuery:
    """A query: a request with its split, group and tags.

    Whether a query that has no required item needs nothing, or nobody has looked, are two things: only
    `needs_nothing` says the first, the second is `unlabelled` (see `Dataset.judged`).

    Attributes:
        request: what the selector is asked; its id is the query id, and holds no blanks.
        split: `tuning`, `test`, or another name of letters, digits, `-` and `_`.
        group: queries of one group (paraphrases, one conversation) stay in one split; None = a group of its own.
        tags: for tables by tag.
        scope: the named set of the dataset that `request.available` is; None = the whole catalog, or a list.
        needs_nothing: someone has judged that no item is required.
        partly_labelled: more items may be required than its labels say, for example because they come from a log of
            what was called among the few items that were offered.
    """

    request: Request
    split: str
    group: str | None = None
    tags: tuple[str, ...] = ()
    scope: str | None = None
    needs_nothing: bool = False
    partly_labelled: bool = False

    @property
    def id(self) -> str:
        """The query id."""
        return self.request.id

    def as_row(self) -> dict[str, Any]:
        """The query as a row of `queries.jsonl`: `_id`, text and split, then the fields that are not their defaults."""
        listed = self.scope is None  # a scope's items are in the card, and may be many
        rest = (self.request if listed else replace(self.request, available=None)).as_dict()
        row: dict[str, Any] = {"_id": rest.pop("id"), "text": rest.pop("text"), "split": self.split}
        if self.group is not None:
            row["group"] = self.group
        if self.tags:
            row["tags"] = list(self.tags)
        if self.needs_nothing:
            row["needs"] = "nothing"
        if self.partly_labelled:
            row["labelled"] = "partly"
        if self.scope is not None:
            row["scope"] = self.scope
        return row | rest


@dataclass(frozen=True, slots=True)
class Label:
    """A label says how much one query needs one item. An item without a label is a third state, not grade 0.

    Attributes:
        query: the query id.
        item: the item.
        grade: 2 required, 1 helpful, 0 irrelevant.
        via: `direct`, or `dependency` if it is needed because another needed item leans on it.
        alternatives: required items of one query with the same text here stand for each other: any one of them
            is enough. Empty = stands alone, which is all that other grades may.
        source: where the label comes from, such as `trace`, `person` or `publisher`; empty = as the card says. No
            part of the dataset's hash.
        quote: what of the item's prompt text the query needs, word for word: a selector that shows a part of the item
            meets the label if this is in it. Empty = all of the item.
    """

    query: str
    item: ItemKey
    grade: int
    via: str = "direct"
    alternatives: str = ""
    source: str = ""
    quote: str = ""
