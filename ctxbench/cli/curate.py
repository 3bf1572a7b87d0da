"""`ctxbench data stats | split | diff | rebase | export`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.curate_text import diff_lines, drop_warning, export_lines, rebase_lines, split_lines, stats_lines
from ctxbench.cli.output import print_json
from ctxbench.cli.progress import embedding_progress, progress
from ctxbench.cli.read_files import dataset_inputs
from ctxbench.core.errors import ParameterError, StorageError
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs, row_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctxbench.core.items import Catalog, ItemKey
    from ctxbench.data.curation.labelling_files import LabellingCopy
    from ctxbench.data.datasets.dataset import Dataset


def stats(
    name: str, *, tokens: str, threshold: float | None, embedder: str | None, list_all: bool, as_json: bool
) -> None:
    """Print what a dataset holds.

    Args:
        name: a dataset's name or folder.
        tokens: a token counter.
        threshold: least similarity of near-duplicates; None = the method's own.
        embedder: look for near-duplicates by its vectors; None = by words, without a model.
        list_all: list all that is counted, not the first few.
        as_json: print JSON, which lists everything.
    """
    from ctxbench.data.curation.stats import dataset_stats
    from ctxbench.io.cache import cache_dir
    from ctxbench.text.tokens import open_counter

    dataset = _opened(name)
    counter = open_counter(tokens, cache=cache_dir())
    if embedder is None:
        with progress() as bar:
            result = dataset_stats(
                dataset, counter, threshold=threshold, progress=lambda done, total: bar("comparing items", done, total)
            )
    else:
        from ctxbench.embedding.embedder_names import open_embedder
        from ctxbench.embedding.vectors import open_vectors

        with embedding_progress() as embedding:
            opened = open_embedder(embedder)
            vectors = open_vectors(opened, progress=embedding)
            result = dataset_stats(dataset, counter, threshold=threshold, embed=vectors.get)
    if as_json:
        print_json(result.as_dict())
    else:
        say(*stats_lines(result, limit=None if list_all else 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """How a dataset is split: as `split_dataset` takes it."""

    by: str
    share: float | None
    folds: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebasing:
    """What a dataset is carried to: a catalog by name or path (None = that of its agent), and as `rebase_dataset`."""

    catalog: str | None
    renames: Path | None
    accept: bool
    version: str | None


def split(name: str, how: Splitting, *, out: Path | None, in_place: bool, as_json: bool) -> None:
    """Split a dataset's queries again; written to `out` or in place, else only printed.

    Raises:
        ParameterError: both or what cannot be: a cached dataset is not changed in place.
    """
    from ctxbench.data.curation.splits import split_dataset

    target = _target(name, out, in_place=in_place)
    result = split_dataset(_opened(name), by=how.by, share=how.share, folds=how.folds, version=how.version)
    written = None if target is None else _written(result.dataset, target, source=name, answers=True, in_place=in_place)
    if as_json:
        print_json({**result.as_dict(), "written": None if target is None else str(target), **_carried(written)})
        return
    say(*split_lines(result), *(written.lines() if written else ()))
    say(_where(target))


def _target(name: str, out: Path | None, *, in_place: bool) -> Path | None:
    """The folder that the result is written to; None = it is only shown.

    Raises:
        ParameterError: two folders are named, or the one in the cache, which is not changed.
    """
    if out is not None and in_place:
        raise ParameterError("--out and --in-place exclude each other")
    if in_place and not (Path(name) / "dataset.yaml").is_file():
        raise ParameterError(f"{name} is no folder of a dataset; what is in the cache is not changed: write with --out")
    return Path(name) if in_place else out


def _where(target: Path | None) -> str:
    return f"written to {target}" if target else "nothing was written; add --out FOLDER or --in-place"


def diff(first: str, second: str, *, list_all: bool, as_json: bool) -> int:
    """Print the differences of two datasets; the exit code is 0 without any, else 1."""
    from ctxbench.data.curation.diff import diff_datasets

    result = diff_datasets(_opened(first), _opened(second))
    if as_json:
        print_json(result.as_dict())
    else:
        say(*diff_lines(result, limit=None if list_all else 10))
    return 0 if result.equal else 1


def rebase(
    name: str, how: Rebasing, *, out: Path | None, in_place: bool = False, list_all: bool, as_json: bool
) -> None:
    """Carry a dataset to a changed catalog; written to `out` or in place, else only reported.

    Raises:
        ParameterError: both or what cannot be: a cached dataset is not changed in place; or there is no catalog.
    """
    from ctxbench.data.curation.rebase import rebase_dataset
    from ctxbench.data.curation.rebase_record import dropped_items
    from ctxbench.data.curation.renames import check_renames, read_renames
    from ctxbench.data.datasets.layout import KNOWN, agent_of, known_items, write_known_items
    from ctxbench.sources.agent_file import is_agent_file, open_catalog

    catalog = how.catalog or agent_of(Path(name))
    if catalog is None:
        raise ParameterError(f"{name} is over no agent file; say the changed catalog: --catalog FILE")
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
        where = f"{name} is over an agent file, of whose former items only the ids are known, so that no renames can be"
        problem = f"{where} proposed; name them with --renames FILE"
        if target is not None and result.lost_labels:
            raise ParameterError(f"{problem}, or leave --accept-renames out to drop {len(result.lost_labels):,} labels")
        say(f"notice: {problem}", err=True)
    if target is not None:
        say(*drop_warning(result), err=True)
        written = _written(result.dataset, target, source=name, answers=False, in_place=in_place)
        write_known_items(target, changed.ids)
    if as_json:
        print_json({**result.as_dict(), "written": None if target is None else str(target), **_carried(written)})
        return
    if agent is not None and agent_of(Path(name)) is not None and known_items(Path(name)) is None and target is None:
        say(f"which items are new is not known: {name} has no {KNOWN} yet, which --in-place writes")
    say(*rebase_lines(result, limit=None if list_all else 10), *(written.lines() if written else ()))
    say(_where(target))


@dataclass(frozen=True, slots=True)
class ExportTargets:
    """What is written of a dataset: a folder in a format, as `export_dataset` takes it, a file of requests, or both."""

    form: str | None
    out: Path | None
    requests: Path | None
    plain: bool = field(default=False, kw_only=True)
    run: Path | None = field(default=None, kw_only=True)
    may_offer: bool = field(default=False, kw_only=True)


def export(name: str, targets: ExportTargets, *, as_json: bool) -> None:
    """Write a dataset in another program's format, and say what that cannot hold; or what each query asks.

    Raises:
        ParameterError: there is nothing to write, or of format and folder one is missing.
    """
    from ctxbench.data.curation.export import export_dataset, request_rows
    from ctxbench.io.files import write_atomic
    from ctxbench.io.visible import count
    from ctxbench.selectors.protocol import dumps

    if targets.out is not None and targets.form is None:
        raise ParameterError("--out lacks the form of what is written there; add --format beir or --format trec")
    if (targets.form is None) != (targets.out is None) or (targets.form is None and targets.requests is None):
        raise ParameterError("say what is to be written: --format beir|trec with --out FOLDER, or --requests FILE")
    if targets.form is None and (targets.plain or targets.run is not None):
        raise ParameterError("--plain and --run go with --format and --out")
    if targets.may_offer and targets.requests is None:
        raise ParameterError("--may-offer goes with --requests FILE")
    ranked = [] if targets.run is None else [targets.run]
    signatures = {"--requests": row_with("ctxbench", "catalog")}
    refuse_outputs(
        {"--requests": targets.requests}, {**dataset_inputs(name), "the run": ranked}, may_replace=signatures
    )
    dataset = _opened(name)
    report: dict[str, Any] = {}
    lines = []
    if targets.form is not None and targets.out is not None:
        result = export_dataset(dataset, targets.out, form=targets.form, plain=targets.plain, run=targets.run)
        report, lines = result.as_dict(), export_lines(result, plain=targets.plain)
    if targets.requests is not None:
        rows = list(request_rows(dataset, may_offer=targets.may_offer))
        write_atomic(targets.requests, "".join(f"{dumps(row)}\n" for row in rows))
        report["requests"] = str(targets.requests)
        requests = count(len(dataset), "request", "requests")
        catalogs = len(rows) - len(dataset)
        catalog = "the catalog" if catalogs == 1 else f"{catalogs:,} catalogs, of what each request may see,"
        lines.append(f"{catalog} and {requests}, as a command reads them, written to {targets.requests}")
    if as_json:
        print_json(report)
    else:
        say(*lines)


def _written(dataset: Dataset, folder: Path, *, source: str, answers: bool, in_place: bool = False) -> LabellingCopy:
    """Write a dataset made of another, in its place or as a copy with the files of labelling."""
    from ctxbench.data.curation.labelling_files import LabellingCopy, copy_labelling
    from ctxbench.data.datasets.lookup import dataset_folder
    from ctxbench.data.datasets.writer import create_dataset, write_dataset

    if in_place:
        write_dataset(dataset, folder)
        return LabellingCopy()
    create_dataset(dataset, folder)
    return copy_labelling(dataset_folder(source), folder, answers=answers)


def _carried(written: LabellingCopy | None) -> dict[str, Any]:
    return {"labelling": None if written is None else written.as_dict()}


def _opened_for_rebase(name: str, renames: Mapping[ItemKey, ItemKey]) -> Dataset:
    """A dataset over the items that it was made with, as far as that is known.

    Over an agent, whose items are those of now, what is labelled or was known and is gone is there, disabled; what is
    new is left out, and so is what an item was renamed to, unless labels or requests name it as well.
    """
    from ctxbench.core.items import Catalog, Item, ItemKey
    from ctxbench.data.datasets.layout import CARD, agent_of, known_items
    from ctxbench.data.datasets.lookup import open_dataset
    from ctxbench.data.datasets.reader import labelled_items
    from ctxbench.io.yaml_files import load_yaml

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
    """Texts of labelled items of an agent at the last commit that changed the dataset; empty where git has none.

    Only of types of which there are new items: those may hold a part of what was split.
    """
    from ctxbench.data.datasets.layout import agent_of
    from ctxbench.io.git import Repository
    from ctxbench.sources.agent_file import read_agent
    from ctxbench.sources.catalogs import CORPUS
    from ctxbench.sources.former_places import former_place
    from ctxbench.sources.frontmatter import read_page, text_of

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
        return {}  # without git, what is known of renames has to do
    return texts


def _named_items(dataset: Dataset) -> Iterator[ItemKey]:
    """The items that scopes and requests name."""
    for keys in dataset.scopes.values():
        yield from keys
    for request in (query.request for query in dataset.queries):
        yield from (*request.removed, *request.explicit, *request.recent, *(request.available or ()))
        yield from (key for key, _ in request.uses)
        yield from (entry.key for entry in request.session or ())


def _opened(name: str) -> Dataset:
    from ctxbench.data.datasets.lookup import open_dataset

    with progress() as bar:
        return open_dataset(name, notify=bar.say)
