"""`ctxbench data stats`, `split`, `diff`, `rebase` and `export`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctxbench.catalogs.agent_file import is_agent_file, open_catalog, read_agent
from ctxbench.catalogs.instructions import read_page, text_of
from ctxbench.catalogs.snapshots import CORPUS
from ctxbench.cli.common import aligned, dataset_inputs, print_result
from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.files import create_dataset, labelled_items, write_dataset
from ctxbench.datasets.layout import (
    CARD,
    KNOWN,
    LabellingCopy,
    agent_of,
    copy_labelling,
    former_place,
    known_items,
    write_known_items,
)
from ctxbench.datasets.lookup import dataset_folder, open_dataset
from ctxbench.datasets.queries import unlabelled_words
from ctxbench.io.cache import refuse_outputs, row_with
from ctxbench.io.console import embedding_progress, progress, say
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import ParameterError, StorageError, count, raise_first
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.io.git import Repository
from ctxbench.labelling.curation import (
    GRADES,
    RULE,
    DatasetDifference,
    DatasetStats,
    PartChanges,
    Resplit,
    dataset_stats,
    diff_datasets,
    split_dataset,
)
from ctxbench.labelling.judgment_files import ExportReport, export_dataset
from ctxbench.labelling.rebase import RebaseReport, check_renames, dropped_items, read_renames, rebase_dataset
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.search.embedders import open_embedder, open_vectors
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.protocol import dumps, request_rows

_REORDERED = "common items have another order, which decides ties"


def stats_lines(stats: DatasetStats, *, limit: int | None = 10) -> list[str]:
    """The statistics as lines, with the first `limit` rows of each list, None = all."""
    counts = stats.counts
    types = ", ".join(f"{n:,} {name}" for name, n in counts["types"].items())
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    left = unlabelled_words(counts["unlabelled"], counts["partly_labelled"])
    tables = {
        group: [[name or "(none)", f"{n:,}", f"{tokens:,}"] for name, (n, tokens) in rows.items()]
        for group, rows in stats.tokens_by.items()
    }
    leaks = [f"{leak.query}: {leak.item} ({leak.how})" for leak in stats.leaks if leak.how != "server"]
    servers = {leak.query for leak in stats.leaks if leak.how == "server"}
    named = f"queries that name a required item: {stats.named:,} of {stats.leak_queries:,} ({RULE})"
    never_required = f"items never required: {len(stats.never_required):,} of {counts['items']:,}"
    return [
        f"{stats.name} {stats.version} ({stats.hash[:12]})",
        f"items    {counts['items']:,} ({types})",
        f"queries  {counts['queries']:,} ({splits})",
        f"         {counts['needs_nothing']:,} need nothing, {left}",
        "",
        f"labels   {counts['labels']:,}",
        *(f"  {kind:<8} {_listed(rows)}" for kind, rows in stats.labels.items() if kind != "alternatives"),
        f"  {stats.labels['alternatives']['labels']:,} alternatives",
        "",
        *aligned(
            [
                ["", "n", "mean", "least", "median", "95%", "most", "total"],
                *(
                    [name, _n(s.n), f"{s.mean:,.1f}", _n(s.least), _n(s.median), _n(s.p95), _n(s.most), _n(s.total)]
                    for name, s in stats.spreads.items()
                ),
            ],
            numbers=True,
        ),
        "",
        *(
            line
            for group, rows in tables.items()
            for line in _section(
                f"prompt tokens by {group}", aligned([[group, "items", "tokens"], *rows], numbers=True), limit, header=1
            )
        ),
        *_section(
            "largest items, in prompt tokens", [f"{tokens:>7,}  {item}" for item, tokens in stats.largest], limit
        ),
        *_near_lines(stats, limit),
        *_section(named, leaks, limit)[:-1],
        f"queries that name the server of a required item: {len(servers):,}",
        "",
        *_section(never_required, stats.never_required, limit),
        *_section(f"queries not labelled in full: {len(stats.unlabelled):,}", stats.unlabelled, limit),
        *_tag_lines(stats)[:-1],
    ]


def _near_lines(stats: DatasetStats, limit: int | None) -> list[str]:
    near = stats.near
    if near.skipped:
        return [f"near-duplicates: not computed; {near.skipped}", ""]
    pairs = [f"{s:.2f}  {left}  {right}{'  (two servers)' if across else ''}" for left, right, s, across in near.pairs]
    pairs_of = f"{count(len(near.pairs), 'pair')} ({near.across:,} across servers)"
    title = f"near-duplicates: {pairs_of} in {count(near.groups, 'group')} of {count(near.items, 'item')}; "
    title += f"{near.method}, at least {near.threshold:g}"
    return _section(title, pairs, limit)


def _tag_lines(stats: DatasetStats) -> list[str]:
    if not stats.tags:
        return ["no tags", ""]
    splits = list(stats.counts["splits"])
    header = ["tag", "queries", *splits, "unlabelled", "need nothing", "required"]
    rows = [
        [
            row.tag,
            *map(_n, [row.queries, *(row.splits[name] for name in splits), row.unlabelled, row.needs_nothing]),
            f"{row.required:.2f}",
        ]
        for row in stats.tags
    ]
    return [*aligned([header, *rows], numbers=True), ""]


def split_lines(result: Resplit) -> list[str]:
    """The new splits, as lines."""
    rows = [
        [name, *(_n(counts.get(name, 0)) for counts in (result.before, result.after, result.judged, result.bundles))]
        for name in dict.fromkeys([*result.before, *result.after])
    ]
    lines = aligned([["split", "queries before", "queries now", "of them judged", "groups"], *rows], numbers=True)
    lines.append(f"{count(result.moved, 'query', 'queries')} moved to another split")
    if result.cut:
        lines.append(f"tuning ends at {result.cut}; test queries not after it: {result.late:,}")
    return lines


def diff_lines(difference: DatasetDifference, *, limit: int | None = 10) -> list[str]:
    """The differences of two datasets, as lines."""
    head = [f"a: {difference.a}", f"b: {difference.b}"]
    if difference.equal:
        return [*head, "equal"]
    moved = [f"{change.query}: {change.before} -> {change.after}" for change in difference.splits]
    labels = "; ".join(f"{kind} {_listed(rows)}" for kind, rows in difference.label_counts.items() if rows)
    scopes = [f"{name}: {len(plus):,} added, {len(minus):,} removed" for name, plus, minus in difference.scopes]
    sections = [
        *_changed_rows("items", difference.items, limit),
        *_changed_rows("queries", difference.queries, limit),
        *([_REORDERED, ""] if difference.reordered else []),
        *(_section(f"splits: {count(len(moved), 'query', 'queries')} moved", moved, limit) if moved else []),
        *(_section(f"labels: {labels}", map(_label_line, difference.labels), limit) if difference.labels else []),
        *([f"card: {', '.join(entry.id for entry in difference.card)} differ", ""] if difference.card else []),
        *(_section(f"scopes: {len(scopes):,} differ", scopes, limit) if scopes else []),
    ]
    return [*head, "", *sections][:-1]


def _changed_rows(noun: str, parts: PartChanges, limit: int | None) -> list[str]:
    rows = [
        *(f"+ {name}" for name in parts.added),
        *(f"- {name}" for name in parts.removed),
        *(f"~ {change.id} ({', '.join(change.fields)})" for change in parts.changed),
    ]
    counts = f"{len(parts.added):,} added, {len(parts.removed):,} removed, {len(parts.changed):,} changed"
    return _section(f"{noun}: {counts}", rows, limit) if parts else []


def _label_line(change: Any) -> str:
    sign = {"added": "+", "removed": "-", "changed": "~"}[change.kind]
    sides = [side for side in (change.before, change.after) if side is not None]
    return f"{sign} {change.query}  {change.item}  {' -> '.join(map(_side_text, sides))}"


def _side_text(side: Mapping[str, Any]) -> str:
    via = side["via"] if side["via"] != "direct" else ""
    group = f"one of {side['alternatives']}" if side["alternatives"] else ""
    source = f"source {side['source']}" if side["source"] else ""
    return ", ".join([GRADES[side["grade"]], *filter(None, (via, group, source))])


def _rebase_lists(report: RebaseReport) -> tuple[tuple[str, Sequence[str]], ...]:
    """The lists of a rebase with their titles; lists may be empty."""
    return (
        ("items renamed", [f"{pair.old.id} -> {pair.new.id} ({pair.how})" for pair in report.renamed]),
        (
            "possible renames, counted as gone (to follow: --accept-renames)",
            [f"{pair.old.id} -> {pair.new.id} ({pair.how})" for pair in report.proposed],
        ),
        (
            "items with several possible successors, counted as gone (to follow one: --renames)",
            [f"{pair.old.id} -> {' or '.join(key.id for key in pair.candidates)}" for pair in report.ambiguous],
        ),
        ("items gone (if renamed: --renames FILE with lines `old id: new id`)", report.gone),
        (
            "items gone with labels, and likely successors (to follow: put the lines into --renames FILE)",
            [f"{pair.old.id}: {pair.new.id}    # {pair.how}" for pair in report.likely],
        ),
        ("new items", report.added),
        (
            f"items changed, with {count(report.changed_labels, 'label')}",
            [f"{change.id} ({', '.join(change.fields)})" for change in report.changed],
        ),
        (
            "lost labels",
            [
                f"{loss.query}  {loss.item}  grade {loss.grade}, {loss.why}: {loss.effect}"
                for loss in report.lost_labels
            ],
        ),
        (
            "items removed from scopes and requests",
            [f"{mention.where}: {mention.item} ({mention.why})" for mention in report.lost_mentions],
        ),
        ("queries unlabelled now, which metrics ignore", report.now_unlabelled),
        (
            f"to review: a new item is similar to a required one (by words, at least {report.threshold:g})",
            [
                f"{hint.query} requires {hint.required}; {hint.new} is new ({hint.similarity:.2f})"
                for hint in report.to_review
            ],
        ),
        (
            "to review: a required item may be split, and a new item may be another part",
            [
                f"{hint.query} requires {hint.item}; {hint.other} is new "
                + ("(the old text is unknown)" if hint.share is None else f"(has {hint.share:.0%} of the lost words)")
                for hint in report.split
            ],
        ),
    )


def rebase_lines(report: RebaseReport, *, limit: int | None = 10) -> list[str]:
    """The changes of a rebase, as lines."""
    after = report.dataset
    lines = [
        f"from {report.source}",
        f"to   {after.name} {after.version} {after.hash[:12]}",
        f"     {count(len(after.catalog), 'item')}, {count(len(after), 'query', 'queries')}, "
        + count(len(after.labels), "label"),
        "",
    ]
    for title, rows in _rebase_lists(report):
        if rows:
            lines += _section(f"{title}: {len(rows):,}", rows, limit)
    if report.reordered:
        lines += [_REORDERED, ""]
    lines.append(f"queries that may be offered a new, unlabelled item: {report.open_queries:,} of {len(after):,}")
    listed = sum(query.request.available is not None for query in after.queries)
    if report.added and listed:
        lines.append(f"queries with a scope or a list, which have no new items: {listed:,}")
    match report.dataset.about.get("source"):
        case {"format": "golden", "sha256": dict(files)} if report.renamed:
            lines.append(
                f"{', '.join(map(str, files))} may have old ids: rename them there, too, before another import"
            )
    return lines


def drop_warning(report: RebaseReport) -> list[str]:
    """A warning before labels of items with a likely successor are lost; else nothing."""
    if not report.likely:
        return []
    likely = {renaming.old.id for renaming in report.likely}
    n = sum(label.item in likely for label in report.lost_labels)
    text = f"warning: {count(n, 'label')} lost with {count(len(likely), 'item')} that may be renamed"
    back = "to keep them, restore the folder (`git restore`), and rebase with --renames FILE with these lines"
    return [f"{text}; {back}:", *(f"  {renaming.old.id}: {renaming.new.id}" for renaming in report.likely)]


def export_lines(report: ExportReport, *, plain: bool = False) -> list[str]:
    """The written files, and data that the format lacks, as lines."""
    labels = ", ".join(f"{name} {n:,}" for name, n in report.labels.items())
    where = "not written (--plain)" if plain else "written to `metadata` and export.json for ctxbench"
    differences = (
        f"{count(len(ids), 'query', 'queries')} differ in other programs: {why} "
        f"({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
        for why, ids in report.other_values.items()
    )
    return [
        f"{count(report.items, 'item')}, {count(report.queries, 'query', 'queries')}, labels in qrels: {labels}",
        *(f"run {name}: {file}" for name, file in report.runs.items()),
        *(f"no run of {name}: it has no ranking" for name in report.without_ranking),
        *([f"data that the format lacks, {where}:"] if report.not_held else []),
        *(f"  {n:,} {noun}" for noun, n in report.not_held.items()),
        *(f"ranking metrics of {text}" for text in differences),
        f"written to {report.folder}",
    ]


def _section(title: str, rows: Iterable[str], limit: int | None, *, header: int = 0) -> list[str]:
    """A title, the first lines, the number of others, and a blank line."""
    listed = list(rows)
    visible = listed if limit is None else listed[: limit + header]
    hidden = len(listed) - len(visible)
    return [title, *(f"  {row}" for row in visible), *([f"  and {hidden:,} more (--all)"] if hidden else []), ""]


def _n(number: float) -> str:
    return f"{number:,.0f}"


def _listed(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in rows.items())


def stats(
    name: str, *, tokens: str, threshold: float | None, embedder: str | None, list_all: bool, as_json: bool
) -> None:
    """Print the statistics of a dataset.

    Args:
        name: the name or folder of a dataset.
        tokens: a token counter.
        threshold: the least similarity of near-duplicates; None = the default of the method.
        embedder: find near-duplicates by its vectors; None = by words, without a model.
        list_all: print complete lists.
        as_json: print JSON.
    """
    dataset = _opened(name)
    counter = open_counter(tokens, cache=cache_dir())
    if embedder is None:
        with progress() as bar:
            result = dataset_stats(
                dataset, counter, threshold=threshold, progress=lambda done, total: bar("comparing items", done, total)
            )
    else:
        with embedding_progress() as embedding:
            vectors = open_vectors(open_embedder(embedder), progress=embedding)
            result = dataset_stats(dataset, counter, threshold=threshold, embed=vectors.get)
    print_result(result.as_dict(), *stats_lines(result, limit=None if list_all else 10), as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """Arguments of `split_dataset`."""

    by: str
    share: float | None
    folds: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebasing:
    """The new catalog (name or path; None = that of the agent), and arguments of `rebase_dataset`."""

    catalog: str | None
    renames: Path | None
    accept: bool
    version: str | None


def split(name: str, how: Splitting, *, out: Path | None, in_place: bool, as_json: bool) -> None:
    """Make new splits of a dataset, written to `out` or in place, else only printed.

    Raises:
        ParameterError: both are set, or a cached dataset would be changed in place.
    """
    target = _target(name, out, in_place=in_place)
    result = split_dataset(_opened(name), by=how.by, share=how.share, folds=how.folds, version=how.version)
    written = None if target is None else _written(result.dataset, target, source=name, answers=True, in_place=in_place)
    print_result(
        {**result.as_dict(), **_copied(target, written)},
        *split_lines(result),
        *(written.lines() if written else ()),
        _where(target),
        as_json=as_json,
    )


def _copied(target: Path | None, written: LabellingCopy | None) -> dict[str, Any]:
    labelling = None if written is None else written.as_dict()
    return {"written": None if target is None else str(target), "labelling": labelling}


def _target(name: str, out: Path | None, *, in_place: bool) -> Path | None:
    """The folder of the result; None = it is only printed.

    Raises:
        ParameterError: two folders are set, or a cached dataset would be changed in place.
    """
    raise_first(
        (out is not None and in_place, "--out and --in-place exclude each other"),
        (
            in_place and not (Path(name) / "dataset.yaml").is_file(),
            f"{name} is not the folder of a dataset; write a cached dataset to another folder with --out",
        ),
    )
    return Path(name) if in_place else out


def _where(target: Path | None) -> str:
    return f"written to {target}" if target else "nothing was written; add --out FOLDER or --in-place"


def diff(first: str, second: str, *, list_all: bool, as_json: bool) -> int:
    """Print the differences of two datasets; the exit code is 0 if they are equal, else 1."""
    result = diff_datasets(_opened(first), _opened(second))
    print_result(result.as_dict(), *diff_lines(result, limit=None if list_all else 10), as_json=as_json)
    return 0 if result.equal else 1


def rebase(
    name: str, how: Rebasing, *, out: Path | None, in_place: bool = False, list_all: bool, as_json: bool
) -> None:
    """Rebase a dataset to a changed catalog, written to `out` or in place, else only printed.

    Raises:
        ParameterError: both are set, a cached dataset would be changed in place, or there is no catalog.
    """
    catalog = how.catalog or agent_of(Path(name))
    if catalog is None:
        raise ParameterError(f"{name} has no agent file; name the changed catalog with --catalog FILE")
    target = _target(name, out, in_place=in_place)
    mapping = None if how.renames is None else read_renames(how.renames)
    dataset, changed = _opened_for_rebase(name, mapping or {}), open_catalog(catalog)
    check_renames(mapping or {}, dataset.catalog, changed, dropped=dropped_items(dataset), file=how.renames)
    result = rebase_dataset(
        dataset,
        changed,
        renames=mapping,
        accept=how.accept,
        version=how.version,
        former=_former_texts(Path(name), dataset, changed),
    )
    agent = Path(catalog) if is_agent_file(catalog) else None
    result = replace(result, dataset=result.dataset.of_agent(agent))
    written = None
    if how.accept and how.catalog is None:
        problem = f"renames of items of an agent cannot be proposed for {name}; name them with --renames FILE"
        if target is not None and result.lost_labels:
            raise ParameterError(f"{problem}, or remove --accept-renames to lose {len(result.lost_labels):,} labels")
        say(f"notice: {problem}", err=True)
    if target is not None:
        say(*drop_warning(result), err=True)
        written = _written(result.dataset, target, source=name, answers=False, in_place=in_place)
        write_known_items(target, changed.ids)
    over_agent = agent is not None and agent_of(Path(name)) is not None
    is_unknown = over_agent and known_items(Path(name)) is None and target is None
    print_result(
        {**result.as_dict(), **_copied(target, written)},
        *([f"new items are unknown: {name} has no {KNOWN}, which --in-place writes"] if is_unknown else []),
        *rebase_lines(result, limit=None if list_all else 10),
        *(written.lines() if written else ()),
        _where(target),
        as_json=as_json,
    )


@dataclass(frozen=True, slots=True)
class ExportTargets:
    """Arguments of `export_dataset`, a file of requests, or both."""

    form: str | None
    out: Path | None
    requests: Path | None
    plain: bool = field(default=False, kw_only=True)
    run: Path | None = field(default=None, kw_only=True)
    split: str = field(default="", kw_only=True)
    may_offer: bool = field(default=False, kw_only=True)


def export(name: str, targets: ExportTargets, *, as_json: bool) -> None:
    """Write a dataset in another format, or its requests.

    Raises:
        ParameterError: there is nothing to write, or the format or the folder is missing.
    """
    no_form, no_folder, no_requests = (value is None for value in (targets.form, targets.out, targets.requests))
    raise_first(
        (
            no_form and not no_folder,
            "--out needs a format; add --format beir or --format trec",
        ),
        (
            no_form != no_folder or (no_form and no_requests),
            "nothing to write; add --format beir|trec with --out FOLDER, or --requests FILE",
        ),
        (no_form and (targets.plain or targets.run is not None), "--plain and --run need --format and --out"),
        (targets.may_offer and no_requests, "--may-offer needs --requests FILE"),
    )
    refuse_outputs(
        {"--requests": targets.requests},
        {**dataset_inputs(name), "the run": [] if targets.run is None else [targets.run]},
        may_replace={"--requests": row_with("ctxbench", "catalog")},
    )
    dataset = _opened(name)
    report: dict[str, Any] = {}
    lines = []
    if targets.form is not None and targets.out is not None:
        result = export_dataset(
            dataset, targets.out, form=targets.form, plain=targets.plain, run=targets.run, split=targets.split
        )
        report, lines = result.as_dict(), export_lines(result, plain=targets.plain)
    if targets.requests is not None:
        dataset = select_queries(dataset, split=targets.split)
        rows = list(request_rows(dataset, may_offer=targets.may_offer))
        write_atomic(targets.requests, "".join(f"{dumps(row)}\n" for row in rows))
        report["requests"] = str(targets.requests)
        requests = count(len(dataset), "request", "requests")
        catalogs = len(rows) - len(dataset)
        catalog = "the catalog" if catalogs == 1 else f"{catalogs:,} catalogs"
        lines.append(f"{catalog} and {requests} for commands written to {targets.requests}")
    print_result(report, *lines, as_json=as_json)


def _written(dataset: Dataset, folder: Path, *, source: str, answers: bool, in_place: bool = False) -> LabellingCopy:
    """Write a changed dataset in place, or as a copy with the files of labelling."""
    if in_place:
        write_dataset(dataset, folder)
        return LabellingCopy()
    create_dataset(dataset, folder)
    return copy_labelling(dataset_folder(source), folder, answers=answers)


def _opened_for_rebase(name: str, renames: Mapping[ItemKey, ItemKey]) -> Dataset:
    """A dataset over its former items, as far as they are known.

    For the dataset of an agent, removed items are added, disabled; new items, and new ids of renamed items, are
    removed, unless labels or requests use them.
    """
    folder = Path(name)
    if agent_of(folder) is None:
        return _opened(name)
    card, _ = load_yaml(folder / CARD)
    labelled, known_ids = labelled_items(folder), known_items(folder)
    dataset = open_dataset(name, former_ids={str(card.get("name")): labelled})
    new = {key for key in renames.values() if key.id not in labelled}
    if known_ids is not None:
        named = labelled | {key.id for key in _named_items(dataset)}
        new |= {item.key for item in dataset.catalog if item.id not in known_ids and item.id not in named}
    missing = sorted((known_ids or frozenset()) - set(dataset.catalog.ids))
    gone = [Item(type=i.type, server=i.server, name=i.name, enabled=False) for i in map(ItemKey.parse, missing)]
    items = [*(item for item in dataset.catalog if item.key not in new), *gone]
    return replace(dataset, catalog=Catalog(items), gone=dataset.gone + len(gone))


def _former_texts(folder: Path, dataset: Dataset, changed: Catalog) -> dict[str, str]:
    """Texts of labelled items of an agent at the last commit that changed the dataset; empty without git.

    Only for types with new items, which may be parts of them.
    """
    path, ids = agent_of(folder), {*dataset.catalog.ids}
    new = {item.type for item in changed if item.id not in ids}
    if path is None or not new:
        return {}
    agent, texts = read_agent(path), {}
    try:
        repository = Repository.around(folder)
        commits = [] if repository is None else repository.commits(folder, limit=1)
        if repository is None or not commits:
            return {}
        locations = agent.locations()
        for line in (repository.text(commits[0], agent.snapshot / CORPUS) or "").splitlines():
            row = json.loads(line)
            texts[str(row.get("_id"))] = f"{row.get('description', '')} {row.get('text', '')}"
        for item in {label.item.id for label in dataset.labels if label.item.type in new - {"tool"}}:
            file = locations[item][0] if item in locations else former_place(agent, item)[0]
            if file != agent.path and (text := repository.text(commits[0], file)):
                page = read_page(text)
                texts[item] = f"{text_of(page.fields.get('description'))} {page.text}"
    except (StorageError, ValueError):
        return {}
    return texts


def _named_items(dataset: Dataset) -> Iterator[ItemKey]:
    """The items in scopes and requests."""
    for keys in dataset.scopes.values():
        yield from keys
    for request in (query.request for query in dataset.queries):
        yield from (*request.removed, *request.explicit, *request.recent, *(request.available or ()))
        yield from (key for key, _ in request.uses)
        yield from (entry.key for entry in request.session or ())


def _opened(name: str) -> Dataset:
    with progress() as bar:
        return open_dataset(name, notify=bar.say)
