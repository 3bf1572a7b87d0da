"""`ctxbench graph`: the relationship graph of a catalog, made or brought up to date, in a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs
from ctxbench.cli.select import find_catalog
from ctxbench.core.errors import StorageError
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs

if TYPE_CHECKING:
    from ctxbench.index.graph import GraphSpec


def make(catalog: str, spec: GraphSpec, *, out: Path, embedder: str, as_json: bool) -> None:
    """Write the graph of a catalog; links of unchanged items are taken from an existing graph.

    Raises:
        StorageError: the file is there and holds no graph, or cannot be written.
        UserError: the catalog or the embedder is unknown.
    """
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.index.graph_store import made_from, make_graph, read_graph, write_graph
    from ctxbench.index.resources import LocalResources
    from ctxbench.io.cache import cache_dir
    from ctxbench.io.visible import count
    from ctxbench.text.tokens import open_counter

    refuse_outputs({"--out": out}, dataset_inputs(catalog))
    items = find_catalog(catalog)
    try:
        old = read_graph(out) if out.exists() else None
    except StorageError as error:
        raise StorageError(f"{out} is there and is no graph that can be read; name another --out") from error
    model = open_embedder(embedder)
    with progress() as bar:
        vectors = open_vectors(model, progress=partial(bar, "embedding texts"))
        resources = LocalResources(vectors, open_counter("o200k", cache=cache_dir()))
        graph = make_graph(items, resources, spec, old=old)
    write_graph(out, graph)
    linked = int((graph.start[1:] > graph.start[:-1]).sum())
    if as_json:
        print_json(
            {**made_from(graph), "items": len(graph), "linked": linked, "pairs": len(graph.item), "path": str(out)}
        )
        return
    say(
        f"{count(len(graph), 'item')}, {linked:,} of them with {len(graph.item):,} similar ones "
        f"({spec.similarity} >= {spec.threshold:g}, at most {spec.neighbours:,} each); written to {out}"
    )
