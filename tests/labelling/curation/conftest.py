"""Small datasets to curate."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request

TINY = Path(__file__).parents[2] / "fixtures" / "tiny"
ABOUT = {"licence": "Apache-2.0", "source": "Written for a test.", "labelling": "By hand."}


@pytest.fixture
def tiny() -> Dataset:
    return read_dataset(TINY)


def tool(name, description="", *, server="s", **given):
    return Item(type="tool", server=server, name=name, description=description, **given)


def key(name, server="s"):
    return ItemKey("tool", server, name)


def query(name, text="", *, split="test", **given):
    own = {field: given.pop(field) for field in tuple(given) if field in DatasetQuery.__dataclass_fields__}
    return DatasetQuery(request=Request(id=name, text=text or name, **given), split=split, **own)


def dataset(items, queries, labels, **given):
    """Labels are (query, tool name, grade) or `Label`s."""
    rows = tuple(one if isinstance(one, Label) else Label(one[0], key(one[1]), *one[2:]) for one in labels)
    catalog = Catalog([tool(item) if isinstance(item, str) else item for item in items])
    parts = {"name": "d", "version": "1", "about": ABOUT, **given}
    return Dataset(catalog=catalog, queries=tuple(queries), labels=rows, **parts)


@pytest.fixture
def make():
    """The helpers above, since tests have no package to import from."""

    class Make:
        tool = staticmethod(tool)
        key = staticmethod(key)
        query = staticmethod(query)
        dataset = staticmethod(dataset)

    return Make
