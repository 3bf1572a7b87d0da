"""A run as one HTML page, and the data of its queries.

Of each answer a page stores the offered and labelled items and the nearest excluded ones; the run folder has the rest.
Only `templates/data.js` reads the data.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from markupsafe import Markup

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery
from ctxbench.evaluation.answers import Part, enough_shown
from ctxbench.evaluation.inputs import count_tokens
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import HEADLINE, DatasetSummary, RunFolder, RunSummary, summarise_run
from ctxbench.io.errors import StorageError, count
from ctxbench.io.files import write_atomic
from ctxbench.model.arrays import BoolArray, FloatArray, Grade, IntArray, owners
from ctxbench.model.candidates import Candidates, Mode, Origin, place_among
from ctxbench.model.items import Catalog
from ctxbench.model.selection import stacked
from ctxbench.pipelines.pipeline import Chunkings
from ctxbench.report import document
from ctxbench.report.charts import colours
from ctxbench.report.document import without_surrogates
from ctxbench.report.pages import axes_at, page_template, read_parts, report_title, stylesheet, svg
from ctxbench.report.run_charts import points_of, scores, trade_off
from ctxbench.report.run_tables import (
    about_selector,
    comparison_table,
    run_answer,
    selector_titles,
    with_titles,
)
from ctxbench.report.run_text import run_facts
from ctxbench.report.scores import LabelCodes, ScoreGroup, score_groups, threshold_of
from ctxbench.search.chunking import DOCUMENTS, ItemChunking
from ctxbench.search.tokens import TokenCounter

MOST_CHOSEN = 60  # chosen items of one query that the page lists
NEAREST = 10  # items that stayed out, of one query
MOST_ITEMS = 20_000  # a page has no more items of a catalog than it names, unless an answer is the whole catalog


@dataclass(frozen=True, eq=False)
class _Frame:
    """What all answers on a dataset are compared with.

    Attributes:
        dataset: the queries that were asked.
        labels: its labels.
        tokens: prompt tokens, see `page_tokens`, shape (n_items,).
        n_offered_by_all: how many items the whole catalog offers each query, shape (n_queries,); -1 where the request
            may get only some, or has a session.
    """

    dataset: Dataset
    labels: LabelCodes
    tokens: IntArray
    n_offered_by_all: IntArray

    @classmethod
    def of(cls, dataset: Dataset, tokens: IntArray) -> _Frame:
        batch = dataset.batch()
        free = np.array([r.available is None and r.session is None for r in batch.requests], dtype=np.bool_)
        return cls(dataset, LabelCodes.of(dataset), tokens, np.where(free, batch.eligible.counts(), -1))


def dataset_payload(
    dataset: Dataset,
    parts: Sequence[Part],
    tokens: IntArray,
    *,
    selectors: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Everything that the page shows of single queries of a dataset.

    Args:
        dataset: as it was run; its unlabelled queries without forbidden items are left out, as in the run.
        parts: the answers, one a selector.
        tokens: prompt tokens, see `page_tokens`, shape (n_items,).
        selectors: the selectors in the manifest; one that is not there splits items as the specification does.

    Raises:
        StorageError: the answers are not those of the dataset's queries.
    """
    measured = dataset.measured()
    ids = tuple(query.id for query in measured.queries)
    for part in parts:
        if part.answers.queries != ids:
            raise StorageError(
                f"the answers of {part.selector} on {part.dataset} are not those of the dataset's queries; run again"
            )
    frame = _Frame.of(measured, tokens)
    chunkings: list[list[Any]] = []
    splits = [DOCUMENTS]
    answers = [_answers(part, frame, chunkings, _Pairs.of(selectors.get(part.selector), splits)) for part in parts]
    listed = _listed(measured, answers)
    return {
        "name": dataset.name,
        "items": _items(dataset.catalog, tokens, listed),
        "splits": [_chunks(dataset.catalog, split, listed) for split in splits],
        "queries": _queries(measured.queries, frame.labels),
        "selectors": answers,
        "chunkings": chunkings,
    }


@dataclass(frozen=True)
class _Pairs:
    """How a selector split items: its chunkings, and the position of each in the page's list of splits."""

    chunkings: Chunkings
    split_positions: tuple[int, ...]

    @classmethod
    def of(cls, about: Mapping[str, Any] | None, splits: list[ItemChunking]) -> _Pairs:
        """Read the selector in the manifest, and add what is new to the list."""
        description = {} if about is None or about.get("external") else about.get("description", {})
        chunkings = Chunkings.described(description.get("ranking", description))
        splits += [chunking for chunking in chunkings.distinct if chunking not in splits]
        return cls(chunkings, tuple(splits.index(chunking) for chunking in chunkings.distinct))

    def used(self, table: Candidates) -> IntArray:
        """The split that each row's pair is counted in, shape (n,)."""
        return np.array(self.split_positions, dtype=np.int64)[self.chunkings.used(table)]


def script_json(value: Any) -> str:
    """JSON for a script element: none of its characters can end or open one, or a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return document.without_surrogates(text)


def page_tokens(folder: RunFolder, name: str, dataset: Dataset, counter: TokenCounter) -> IntArray:
    """Prompt tokens of the items of a dataset that the page of a run may have, shape (n_items,); 0 for the others."""
    is_listed = np.full(len(dataset.catalog), len(dataset.catalog) <= MOST_ITEMS)
    is_listed[dataset.judgments.item] = True
    for selector in folder.read("manifest.json")["selectors"]:
        for block in folder.load(name, selector).answers.blocks() if not is_listed.all() else ():
            is_listed[block.candidates.item] = True
    tokens = np.zeros(len(is_listed), dtype=np.int64)
    tokens[is_listed] = count_tokens(counter, [dataset.catalog[item] for item in np.flatnonzero(is_listed).tolist()])
    return tokens


def _listed(dataset: Dataset, answers: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """The positions of the items that the page has, rising; see `MOST_ITEMS`."""
    if len(dataset.catalog) <= MOST_ITEMS or any(answer["whole"] != {"all": 0} for answer in answers):
        return range(len(dataset.catalog))
    columns = [answer[name] for answer in answers for name in ("item", "via")]
    named = {item for column in columns for item in (column if isinstance(column, list) else column.values())}
    return sorted((named | set(dataset.judgments.item.tolist())) - {-1})


def _items(catalog: Catalog, tokens: IntArray, listed: Sequence[int]) -> dict[str, Any]:
    """The item table: one column a field; with the positions of the items where some of the catalog are not in it."""
    items = [catalog[position] for position in listed]
    return {
        **({} if len(items) == len(catalog) else {"position": listed}),
        "count": len(items),
        "type": _column([item.type for item in items]),
        "server": _column([item.server for item in items]),
        "name": [item.name for item in items],
        "title": _column([item.title or None for item in items]),
        "description": _column([item.description for item in items]),
        "priority": _column([item.priority for item in items]),
        "found": _column([int(item.enabled and item.include == "agent") for item in items]),
        "tokens": _column(tokens[listed].tolist()),
    }


def _chunks(catalog: Catalog, split: ItemChunking, listed: Sequence[int]) -> dict[str, list[str]]:
    """The chunks of the items by position, only where an item is not one chunk of `name: description`."""
    items = {position: catalog[position] for position in listed}
    chunks = {position: list(split(item)) for position, item in items.items()}
    plain = {n: f"{item.name}: {item.description}" if item.description else item.name for n, item in items.items()}
    return {str(position): texts for position, texts in chunks.items() if texts != [plain[position]]}


def _queries(queries: Sequence[DatasetQuery], labels: LabelCodes) -> dict[str, Any]:
    """The query table; `needs` holds for each query its requirements, each a list of alternatives."""
    needs: list[list[list[int]]] = [[] for _ in queries]
    helpful: dict[str, list[int]] = {}
    forbidden: dict[str, list[int]] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    rows = zip(labels.request, labels.code % labels.n_items, labels.grade, labels.group, strict=True)
    for request, item, grade, group in ((int(a), int(b), int(c), int(d)) for a, b, c, d in rows):
        if grade == Grade.REQUIRED:
            if (request, group) not in groups:
                needs[request].append(groups.setdefault((request, group), []))
            groups[request, group].append(item)
        elif grade == Grade.HELPFUL:
            helpful.setdefault(str(request), []).append(item)
        else:
            forbidden.setdefault(str(request), []).append(item)
    return {
        "id": [query.id for query in queries],
        "text": [query.request.text for query in queries],
        "split": _column([query.split for query in queries]),
        "tags": _column([list(query.tags) for query in queries]),
        "available": _column([None if (a := q.request.available) is None else len(a) for q in queries]),
        "history": {
            str(i): [[message.role, message.content] for message in query.request.history]
            for i, query in enumerate(queries)
            if query.request.history
        },
        "asked": {str(i): facts for i, query in enumerate(queries) if (facts := _request_facts(query))},
        "needs": needs,
        "helpful": helpful,
        "forbidden": forbidden,
        "partly": _column([int(not complete) for complete in labels.complete.tolist()]),
    }


def _request_facts(query: DatasetQuery) -> list[str]:
    """The workspace and user of a request, its time, and what its search is restricted to."""
    request = query.request
    facts = [f"{name} {value}" for name in ("workspace", "user") if (value := getattr(request, name)) is not None]
    facts += [f"asked at {request.time}"] if request.time is not None else []
    restrictions = {} if request.only is None else request.only.as_dict()
    named = ((name, ", ".join(value) if isinstance(value, list) else value) for name, value in restrictions.items())
    return [*facts, *(f"only {name} {value}" for name, value in named)]


@dataclass(frozen=True, eq=False)
class _AnswerFigures:
    """The answers of one selector to some queries: figures, and the rows that the page lists.

    Attributes:
        table: the rows listed.
        rank: of each in the ranking, from 1; 0 = it is of the session. Shape (n_rows,).
        enough: whether enough is shown of it, shape (n_rows,).
        items, tokens, missed, false, forbidden, all_added, n_candidates: by query, shape (n_queries,): items added and
            their tokens, requirements that are not met, useless items of queries that need nothing, forbidden items
            added, whether the whole catalog was added, and candidates that are not of the session.
    """

    table: Candidates
    rank: IntArray
    enough: BoolArray
    items: IntArray
    tokens: IntArray
    missed: IntArray
    false: IntArray
    forbidden: IntArray
    all_added: IntArray
    n_candidates: IntArray

    @classmethod
    def of(cls, table: Candidates, frame: _Frame, *, first: int) -> _AnswerFigures:
        """Read some answers; `frame` is that of their queries, `first` the position of the first of them."""
        labels, n = frame.labels, table.n_requests
        useful = labels.with_grade(Grade.HELPFUL, Grade.REQUIRED)
        code = table.request * labels.n_items + table.item
        session = table.origin == Origin.SESSION
        added = table.chosen & ~session
        enough = enough_shown(frame.dataset, table, first=first)
        n_required, met = labels.met(code[table.chosen & enough], n)
        useless = added & ~(np.isin(code, useful) & enough)
        forbidden = added & np.isin(code, labels.with_grade(Grade.IRRELEVANT))
        n_added = np.bincount(table.request[added], minlength=n).astype(np.int64)
        all_added = (n_added == frame.n_offered_by_all) & (n_added > MOST_CHOSEN)
        keep = np.isin(code, useful) | session | forbidden
        keep |= table.chosen & (place_among(table, added) < MOST_CHOSEN) & ~all_added[table.request]
        keep |= ~table.chosen & (place_among(table, ~table.chosen) < NEAREST)
        return cls(
            table=table.select_rows(keep),
            rank=_ranks(table, code, labels.n_items)[keep],
            enough=enough[keep],
            items=n_added,
            tokens=np.bincount(table.request[added], table.prices(frame.tokens)[added], n).astype(np.int64),
            missed=n_required - met,
            false=np.where((n_required == 0) & labels.complete, np.bincount(table.request[useless], minlength=n), 0),
            forbidden=np.bincount(table.request[forbidden], minlength=n).astype(np.int64),
            all_added=all_added.astype(np.int64),
            n_candidates=np.bincount(table.request[~session], minlength=n).astype(np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence[_AnswerFigures]) -> _AnswerFigures:
        """The figures of several parts, concatenated."""
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0]) if name != "table"
        }
        return cls(table=stacked([part.table for part in parts]), **arrays)


def _answers(part: Part, frame: _Frame, chunkings: list[list[Any]], pairs: _Pairs) -> dict[str, Any]:
    """The answers of one selector: figures by query, and the rows that the page lists."""
    parts, first = [], 0
    for block in part.answers.blocks():
        n = block.candidates.n_requests
        labels, offered = frame.labels.between(first, n), frame.n_offered_by_all[first : first + n]
        frame_of_block = replace(frame, labels=labels, n_offered_by_all=offered)
        parts.append(_AnswerFigures.of(block.candidates, frame_of_block, first=first))
        first += n
    figures = _AnswerFigures.joined(parts)
    position = {query: str(i) for i, query in enumerate(part.answers.queries)}
    notes = {query: figures.table.notes_of(query) for query in position} if figures.table.notes else {}
    return {
        "name": part.selector,
        "scored": part.answers.scored,
        "ranked": part.answers.ranked,
        "errors": {position[query]: text for query, text in part.answers.errors.items()},
        "trace": {position[query]: list(map(str, lines)) for query, lines in notes.items() if lines},
        "chunking": _chunking(part, frame.dataset, chunkings),
        "items": _column(figures.items.tolist()),
        "tokens": _column(figures.tokens.tolist()),
        "missed": _column(figures.missed.tolist()),
        "false": _column(figures.false.tolist()),
        "forbidden": _column(figures.forbidden.tolist()),
        "whole": _column(figures.all_added.tolist()),
        **_rows(part, frame, figures, pairs),
    }


def _rows(part: Part, frame: _Frame, figures: _AnswerFigures, pairs: _Pairs) -> dict[str, Any]:
    """The rows that are listed, query by query, in the one order; labelled items that are no candidates come last."""
    table, n, n_items = figures.table, figures.table.n_requests, frame.labels.n_items
    absent = np.setdiff1d(frame.labels.with_grade(Grade.HELPFUL, Grade.REQUIRED), table.request * n_items + table.item)
    rules = ["" if rule is None else str(rule) for rule in table.rules]
    reasons = _absences(part, frame, absent, rules, figures.n_candidates)
    request = np.concatenate([table.request, absent // n_items])
    order = np.argsort(request, kind="stable")

    def column(values: np.ndarray[Any, Any], missing: IntArray | int) -> np.ndarray[Any, Any]:
        joined: np.ndarray[Any, Any] = np.concatenate(
            [values, np.broadcast_to(np.asarray(missing, dtype=values.dtype), absent.shape)]
        )[order]
        return joined

    score = np.full(len(table), np.nan) if not part.answers.scored else table.score
    gone = np.concatenate([np.zeros(len(table), dtype=np.int64), np.ones(len(absent), dtype=np.int64)])[order]
    return {
        "rules": rules,
        "rows": np.bincount(request, minlength=n).tolist(),
        "item": column(table.item, absent % n_items).tolist(),
        "score": _scores(np.where(gone, np.nan, column(score, 0))),
        "rank": _column(column(figures.rank, 0).tolist()),
        "out": _column(column(table.out, reasons).tolist()),
        "mode": _column(column(table.mode, int(Mode.AGENT)).tolist()),
        "query_chunk": _column(column(table.query_chunk, -1).tolist()),
        "item_chunk": _column(column(table.item_chunk, -1).tolist()),
        "split": _column(column(pairs.used(table), pairs.split_positions[0]).tolist()),
        "via": _column(column(table.via_item, -1).tolist()),
        "from": _column(column(table.shown_from, 0).tolist()),
        "to": _column(column(table.shown_to, -1).tolist()),
        "price": _column(column(table.tokens, -1).tolist()),
        "enough": _column(column(figures.enough.astype(np.int64), 1).tolist()),
    }


def _ranks(table: Candidates, code: IntArray, n_items: int) -> IntArray:
    """The 1-based rank of every row, shape (n,); 0 = it is of the session.

    Args:
        table: candidates.
        code: `request * n_items + item` of every row.
        n_items: of the catalog.
    """
    start, item = table.ranking()
    request = owners(start)
    position = np.arange(len(item), dtype=np.int64) - start[:-1][request] + 1
    rank = np.zeros(len(table), dtype=np.int64)
    by_code = np.argsort(code)
    rank[by_code[np.searchsorted(code, request * n_items + item, sorter=by_code)]] = position
    return rank


def _absences(part: Part, frame: _Frame, absent: IntArray, rules: list[str], n_candidates: IntArray) -> IntArray:
    """Why labelled items are no candidates: positions in `rules`, to which the sentences are added, shape (n_absent,).

    Args:
        part: the answers.
        frame: what they are read against.
        absent: the items, as codes `query * n_items + item`, shape (n_absent,).
        rules: what may keep a row out, in words.
        n_candidates: how many candidates each query has, those of the session not counted, shape (n_queries,).
    """
    largest, positions = int(n_candidates.max(initial=0)), []
    for code in absent.tolist():
        request, position = divmod(code, frame.labels.n_items)
        query, item = frame.dataset.queries[request].request, frame.dataset.catalog[position]
        if query.id in part.answers.errors:
            reason = "the selector failed on this query"
        elif query.available is not None and item.key not in query.available:
            reason = "it is not available to this request"
        elif not item.enabled:
            reason = "it is disabled in the catalog"
        elif item.include != "agent":
            reason = f"its include mode is {item.include}, which a search does not offer"
        elif n_candidates[request] == 0:
            reason = "the selector found nothing"
        else:
            first = (
                "first " if n_candidates[request] == largest else ""
            )  # a ranking may end at a depth, or with what was found
            reason = f"it is not among the {first}{count(int(n_candidates[request]), 'candidate')}"
        if reason not in rules:
            rules.append(reason)
        positions.append(rules.index(reason))
    return np.array(positions, dtype=np.int64)


def _chunking(part: Part, dataset: Dataset, chunkings: list[list[Any]]) -> int:
    """The position in `chunkings` of how this selector split the queries; 0 in it means the text as it is."""
    chunks = [
        0 if row == (query.request.text,) else list(row)
        for query, row in zip(dataset.queries, part.answers.chunks, strict=True)
    ]
    if chunks not in chunkings:
        chunkings.append(chunks)
    return chunkings.index(chunks)


def _scores(score: FloatArray) -> Any:
    """Scores rounded for reading: four decimals, or six digits where they are very large or very small."""
    finite = np.abs(score[np.isfinite(score)])
    plain = len(finite) == 0 or 0.01 <= float(finite.max()) < 1e5
    rounded = [None if not np.isfinite(s) else round(s, 4) if plain else float(f"{s:.6g}") for s in score.tolist()]
    return _column(rounded)


def _column(values: Sequence[Any]) -> Any:
    """A column: `{"all": value}` where every row has the same, else the list."""
    return {"all": values[0]} if values and all(value == values[0] for value in values) else list(values)


FILE_NAME = "report.html"
_SCRIPTS = ("data.js", "list.js", "detail.js", "main.js")
_SCATTER, _NARROW, _SCORES = (760.0, 360.0), (356.0, 320.0), (620.0, 270.0)  # pixels


def write_report(
    folder: RunFolder,
    datasets: Mapping[str, Dataset],
    *,
    tokens: Mapping[str, IntArray],
    summary: RunSummary | None = None,
) -> Path:
    """Write `report.html` into a run folder, whole or not at all; see `render_page`.

    Returns:
        The path of the file.
    """
    path = folder.path / FILE_NAME
    write_atomic(path, render_page(folder, datasets, tokens=tokens, summary=summary))
    return path


def render_page(
    folder: RunFolder,
    datasets: Mapping[str, Dataset],
    *,
    tokens: Mapping[str, IntArray],
    summary: RunSummary | None = None,
) -> str:
    """Make the page of a finished run. Equal runs and datasets give equal pages.

    Args:
        folder: of the run.
        datasets: those of the run, by the names in its manifest.
        tokens: prompt tokens by dataset, see `page_tokens`, each of shape (n_items,), by the run's counter.
        summary: of this folder, where it is at hand; else it is made.

    Raises:
        StorageError: the folder holds no finished run, or a dataset is missing or is not the one that was run.
    """
    summary = summary or summarise_run(folder)
    titles, summary = selector_titles(summary.manifest), with_titles(summary)
    views = []
    for number, figures in enumerate(summary.datasets):
        parts = [replace(folder.load(figures.dataset, name), selector=title) for name, title in titles.items()]
        dataset = _checked(summary, figures.dataset, datasets, tokens)
        views.append(_view(parts, summary, figures, dataset, tokens[figures.dataset], number))
    script = f'\n(function () {{\n"use strict";\n{read_parts(*_SCRIPTS)}}})();\n'
    settings = {
        "base": summary.compare_to,
        "datasets": [view["name"] for view in views],
        "thresholds": {
            name: value
            for name, about in summary.manifest["selectors"].items()
            if (value := threshold_of(about)) is not None
        },
    }
    html: str = page_template("report.html.j2").render(
        summary=summary,
        title=report_title([view["name"] for view in views], folder.date()),
        answer=run_answer(summary),
        manifest=summary.manifest,
        experiment=summary.manifest["experiment"],
        views=views,
        selectors=[
            (name, "; ".join(filter(None, about_selector(summary.manifest, name))))
            for name in summary.manifest["selectors"]
        ],
        external=[name for name, about in summary.manifest["selectors"].items() if about.get("external")],
        style=stylesheet("report.css"),
        script=Markup(script),  # noqa: S704 - files of ours
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        settings=Markup(script_json(settings)),  # noqa: S704 - cannot end its element
        payloads=[Markup(view["payload"]) for view in views],  # noqa: S704 - likewise
        details=run_facts(summary.manifest),
    )
    return without_surrogates(html)


def _checked(
    summary: RunSummary, name: str, datasets: Mapping[str, Dataset], tokens: Mapping[str, IntArray]
) -> Dataset:
    """The dataset, if it is the one that was run and its items are counted."""
    if name not in datasets:
        raise StorageError(f"the page needs dataset {name!r}, which the run was made on; given: {sorted(datasets)}")
    dataset, ran = datasets[name], summary.manifest["datasets"][name].get("hash")
    if ran is not None and dataset.hash != ran:
        raise StorageError(
            f"dataset {name!r} has changed since the run (hash {dataset.hash[:12]}, in the run {ran[:12]}); "
            "run the experiment again, or give the dataset as it was"
        )
    if name not in tokens or len(tokens[name]) != len(dataset.catalog):
        raise StorageError(f"the page needs the prompt tokens of all {len(dataset.catalog)} items of dataset {name!r}")
    return dataset


def _view(
    parts: Sequence[Part], summary: RunSummary, figures: DatasetSummary, dataset: Dataset, tokens: IntArray, number: int
) -> dict[str, Any]:
    """What the template shows of one dataset."""
    groups = score_groups(dataset, parts, summary.manifest["selectors"])
    scored = {name for group in groups for name in group.selectors}
    return {
        "number": number,
        "name": figures.dataset,
        "about": {"labelling": str(dataset.about.get("labelling", "")), "version": dataset.version, **dataset.counts},
        "table": comparison_table(summary, figures),
        "every_metric": comparison_table(summary, figures, every_metric=True),
        "scatters": {
            "wide": _scatter(summary, figures, f"scatter-{number}", _SCATTER),
            "narrow": _scatter(summary, figures, f"narrow-{number}", _NARROW),
        },
        "scores": tuple(
            {"group": group, "svg": _histogram(group, figures.dataset, f"scores-{number}-{index}")}
            for index, group in enumerate(groups)
        ),
        "unscored": tuple(part.selector for part in parts if part.selector not in scored),
        "payload": script_json(
            {
                **dataset_payload(dataset, parts, tokens, selectors=summary.manifest["selectors"]),
                "name": figures.dataset,
            }
        ),
    }


def _scatter(summary: RunSummary, dataset: DatasetSummary, name: str, size: tuple[float, float]) -> str:
    """Completeness against prompt tokens; empty where fewer than two selectors have both."""
    y, x = map(parse_metric, HEADLINE)
    points, (width, height) = points_of(dataset, x, y), size
    if len(points) < 2:
        return ""
    look = colours(summary.manifest["selectors"])
    options: dict[str, Any] = {"metrics": (x, y), "base": summary.compare_to, "colours": look, "numbered": True}
    return svg(
        lambda figure: trade_off(axes_at(figure, 58.0, 10.0, width - 70.0, height - 68.0), points, **options),
        width=width,
        height=height,
        name=name,
        label=f"Completeness against prompt tokens on {dataset.dataset}",
    )


def _histogram(group: ScoreGroup, dataset: str, name: str) -> str:
    """Histograms of scores, with thresholds."""
    width, height = _SCORES
    of = f"{document.listed(list(group.selectors))} on {dataset}{f' ({group.title})' if group.title else ''}"
    return svg(
        lambda figure: scores(axes_at(figure, 58.0, 8.0, width - 70.0, height - 52.0), group),
        width=width,
        height=height,
        name=name,
        label=f"Scores of {of}: required items upwards, best items that are not required downwards",
    )
