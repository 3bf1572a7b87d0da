"""A catalog for hand-written evals, and what is looked at of their import."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.eval_forms import is_trigger_eval
from ctxbench.labelling.evals import import_evals
from ctxbench.labelling.sources import data_files, sample
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog(
    [
        Item(type="tool", server="shop", name="refund_order", description="Refund."),
        Item(type="tool", server="shop", name="cancel_order", description="Cancel."),
        Item(type="tool", server="crm", name="search", description="Search people."),
        Item(type="tool", server="wiki", name="search", description="Search pages."),
        Item(type="rule", name="refunds", title="How we refund", text="Ask first."),
    ]
)


def import_golden(path, catalog, **options):
    return import_evals([path], catalog, **options)


def import_triggers(folder, **options):
    files = [
        path
        for path in data_files([folder])
        if path.name == "SKILL.md" or is_trigger_eval([document.value for document in sample(path)])
    ]
    return import_evals(files, None, **options)


def write(path, content):
    path.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, content)), "utf-8")
    return path


def labels_of(converted):
    return [(one.query, one.item.id, one.grade, one.alternatives) for one in converted.dataset.labels]


def faults_of(path, **given):
    with pytest.raises(InputError) as error:
        import_golden(path, CATALOG, **given)
    return [(fault.line, fault.message) for fault in error.value.faults]
