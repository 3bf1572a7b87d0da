"""ToolLens: short requests for several of 464 web APIs.

Source: https://github.com/quchangle1/COLT (no licence stated), arXiv 2405.16089.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, raise_faults
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.formats.conversion import unique_entries
from ctxbench.data.importers.formats.qrels import read_qrels
from ctxbench.data.importers.published_files import OWNER, FileImporter, PublishedSource, SourceFile, SourceText
from ctxbench.io.rows import Row, jsonl_rows

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
QRELS = {"tuning": "qrels/train.tsv", "test": "qrels/test.tsv"}

_TEXT = re.compile(
    r"category_name:(?P<category>.*?), tool_name:(?P<tool>.*?), api_name:(?P<api>.*?), "
    r"api_description:(?P<description>.*?), required_params: (?P<rest>.*)",
    re.DOTALL,
)
_TYPES = {"STRING": "string", "NUMBER": "number", "BOOLEAN": "boolean", "OBJECT": "object", "ARRAY": "array"}

_LABELLING = (
    "Required are the APIs of the scene (a set of APIs) that a language model wrote the request from. Requests were "
    "made short on purpose: the text often does not call for every API that is required."
)
_REMARKS = (
    (
        "The publisher's train split is `tuning`, its test split is `test`. Every set of APIs that a test query "
        "requires is required by tuning queries as well: what was trained on `tuning` knows the answers by heart, and "
        "only figures of what was not may be compared with others."
    ),
    "Many APIs do nearly the same (places, geolocation, currencies), and one of them is labelled.",
    (
        "Schemas are made of the published lists of parameters; required and optional ones have name, type and "
        "description there. The publisher's return schemas are left out."
    ),
)


class ToolLens(FileImporter):
    """`toollens`: an item is an API, a tool without a server named `<tool_name> <api_name>`.

    Ids of queries are the publisher's; those of items are in their metadata.
    """

    source = PublishedSource(
        name="toollens",
        repository="quchangle1/COLT",
        commit="bbec292c38cabe3fbae098f50cc31b2e9f7e8fca",
        date="2024-11-06",
        paper="arXiv 2405.16089",
        licence="none stated by the publisher; for evaluation on your machine only, do not pass it on",
        files=(
            SourceFile(
                path=CORPUS,
                published="datasets/ToolLens/corpus.jsonl",
                size=254_241,
                sha256="6e3c28dedd464e6dce86a0643f88277083eca3cf76570fc5acbf76afd4f15c42",
            ),
            SourceFile(
                path=QUERIES,
                published="datasets/ToolLens/queries.jsonl",
                size=3_388_831,
                sha256="4674a388d5e00f05814dce4c9f9cfb537b514b05e1bb1ec4ac1d1c7a02c22376",
            ),
            SourceFile(
                path=QRELS["test"],
                published="datasets/ToolLens/qrels/test.tsv",
                size=54_389,
                sha256="ec1a7fe340747480ca1e54740ed304802cb7f6901cfdde74e58f8d379c22756f",
            ),
            SourceFile(
                path=QRELS["tuning"],
                published="datasets/ToolLens/qrels/train.tsv",
                size=488_394,
                sha256="831db5a97410dd0fbe66228bfd32b58f847dd329bd6f117fba2e834eebaf2fa4",
            ),
        ),
    )
    provides: ClassVar[tuple[str, ...]] = ("toollens",)

    def make(self, name: str) -> Dataset:
        """Make the dataset; about two seconds."""
        faults: list[Fault] = []
        items = _read_items(self.read(CORPUS), faults)
        rows = jsonl_rows(self.read(QUERIES).path, faults)
        entries = (
            (row.take("_id", str, "", required=True), row, row.take("text", str, "", required=True)) for row in rows
        )
        texts = unique_entries("query", entries)
        qrels = {split: _read_qrels(self.read(path), texts, items, faults) for split, path in QRELS.items()}
        split_of_query = _splits(qrels, texts, faults)
        raise_faults(faults, subject="ToolLens")
        labels = [
            Label(query, items[item].key, Grade.REQUIRED, source=OWNER)
            for rows in qrels.values()
            for query, item in dict.fromkeys(rows)
        ]
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog(items.values()),
            queries=tuple(
                DatasetQuery(request=Request(id=query, text=text), split=split_of_query[query])
                for query, text in texts.items()
            ),
            labels=tuple(labels),
            about=self.about(
                CORPUS,
                QUERIES,
                *QRELS.values(),
                labelling=_LABELLING,
                counts=_counts(items.values(), texts, qrels),
                remarks=_REMARKS,
            ),
        )


def _read_items(source: SourceText, faults: list[Fault]) -> dict[str, Item]:
    """The APIs by the publisher's id, in file order."""
    items: dict[str, Item] = {}
    keys: set[ItemKey] = set()
    for row in jsonl_rows(source.path, faults):
        item_id = row.take("_id", str, "", required=True)
        item = _read_item(item_id, row)
        if item is None:
            continue
        if item_id in items or item.key in keys:
            row.fault(f"item {item_id!r} ({item.name}) stands twice; expected different ids and names")
        items[item_id] = item
        keys.add(item.key)
    return items


def _read_item(item_id: str, row: Row) -> Item | None:
    """An API from its flat text; None if the text has another form, which is a fault."""
    match = _TEXT.match(row.take("text", str, ""))
    schema = match and _schema(match["rest"])
    if not match or not schema:
        row.fault(
            "field 'text' must read category_name:..., tool_name:..., api_name:..., api_description:..., "
            "required_params: [...], optional_params: [...], return_schema: ..., the lists in JSON"
        )
        return None
    return Item(
        type="tool",
        name=f"{match['tool']} {match['api']}",
        description=match["description"],
        schema=schema,
        metadata={"id": item_id, "category": match["category"], "tool": match["tool"], "api": match["api"]},
    )


def _schema(text: str) -> dict[str, Any] | None:
    """A JSON schema of `[...], optional_params: [...], ...`; None if it does not read so."""
    decoder = json.JSONDecoder()
    try:
        required, end = decoder.raw_decode(text)
        before, _, rest = text[end:].partition("optional_params: ")
        optional, _ = decoder.raw_decode(rest)
        if before.strip() != ",":
            return None
        properties = {
            one["name"]: {"type": _TYPES.get(one["type"].upper(), "string"), "description": one["description"]}
            for one in [*required, *optional]  # dates and choices are sent as texts, too
        }
        names = [parameter["name"] for parameter in required]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return {"type": "object", "properties": properties, "required": names}


def _read_qrels(
    source: SourceText, texts: Mapping[str, str], items: Mapping[str, Item], faults: list[Fault]
) -> list[tuple[str, str]]:
    """The (query, item) rows of one split, repeated ones included."""
    judgments = list(read_qrels(source.path, faults))
    for judgment in judgments:
        for wrong, what in (
            (judgment.query not in texts, f"a label is for query {judgment.query!r}, which {QUERIES} does not hold"),
            (judgment.document not in items, f"a label names item {judgment.document!r}, which {CORPUS} does not hold"),
            (judgment.score != 1, f"score must be 1, got '{judgment.score}'"),
        ):
            faults += [Fault(what, judgment.path, judgment.line)] if wrong else []
    return [(judgment.query, judgment.document) for judgment in judgments]


def _splits(
    qrels: Mapping[str, Sequence[tuple[str, str]]], texts: Mapping[str, str], faults: list[Fault]
) -> dict[str, str]:
    """The split of each query: that of its labels, or of its id's hash if it has none. Labels in both are a fault."""
    splits: dict[str, str] = {}
    for split, rows in qrels.items():
        for query, _ in rows:
            if splits.setdefault(query, split) != split:
                faults.append(Fault(f"query {query!r} has labels in both {' and '.join(QRELS.values())}"))
    return {query: splits.get(query) or split_of(query) for query in texts}


def _counts(
    items: Collection[Item], texts: Mapping[str, str], qrels: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, int]:
    """Counts of the source, for the card."""
    sets = {split: set(map(frozenset, group_pairs(rows).values())) for split, rows in qrels.items()}
    required = {item for rows in qrels.values() for _, item in rows}
    return {
        **{f"repeated label rows in {split}, collapsed": len(rows) - len(set(rows)) for split, rows in qrels.items()},
        **{f"different sets of required items in {split}": len(sets[split]) for split in qrels},
        "sets of test that tuning has, too": len(sets["test"] & sets["tuning"]),
        "queries without a label": len(texts) - len({query for rows in qrels.values() for query, _ in rows}),
        "items that no query requires": len(items) - len(required),
    }
