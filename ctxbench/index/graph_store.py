"""Where relationship graphs are kept: with the resources of a process, and in files that say what they were made of."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shlex
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.core.errors import ParameterError, StorageError
from ctxbench.core.items import Catalog
from ctxbench.core.stages import Resources
from ctxbench.index.dense import dense_index
from ctxbench.index.graph import Graph, GraphSpec, build_graph, update_graph
from ctxbench.index.versions import index_over
from ctxbench.io.files import read_bytes, write_atomic
from ctxbench.text.chunking.item_chunks import DOCUMENTS

FORMAT = 1
CHUNKING = repr(DOCUMENTS)
_ARRAYS = {"start": "<i8", "item": "<i4", "score": "<f8", "own_chunk": "<i4", "other_chunk": "<i4"}
_META: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("catalog", "embedder", "chunking", "similarity", "sha256"), str),
    "threshold": (int, float),
    "neighbours": int,
    "heads": bool,
}
_DAMAGE = (KeyError, ValueError, TypeError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)


def make_graph(
    catalog: Catalog, resources: Resources, spec: GraphSpec, *, old: Graph | None = None, grown: bool = False
) -> Graph:
    """Compare all items of a catalog, each embedded first where it is not yet.

    Args:
        catalog: the items.
        resources: where vectors come from.
        spec: what is held.
        old: the graph of an earlier state of the catalog; if it was made in the same way, only what changed is
            computed.
        grown: the catalog is known to begin with the items of the old graph.
    """
    index = dense_index(catalog, resources)
    matrix = index.matrix(np.ones(len(catalog), dtype=np.bool_), resources.vectors)
    embedder = resources.identity("embedder")
    if old is not None and (old.spec, old.embedder, old.chunking) == (spec, embedder, CHUNKING):
        return update_graph(old, catalog, matrix, grown=grown)
    return build_graph(catalog, matrix, spec, embedder=embedder, chunking=CHUNKING)


def kept_graph(catalog: Catalog, resources: Resources, spec: GraphSpec) -> Graph:
    """The graph of a catalog, kept with the resources by identities and search texts.

    It is made at the first use: from that of the catalog that this one extends, else from the one made last if it fits.
    """
    last: list[Graph] = resources.get_or_create(("last graph", spec), list)

    def make() -> Graph:
        last[:] = [make_graph(catalog, resources, spec, old=last[0] if last else None)]
        return last[0]

    def extend(old: Graph) -> Graph:
        last[:] = [make_graph(catalog, resources, spec, old=old, grown=True)]
        return last[0]

    return index_over(catalog, resources, ("graph", spec), over=DOCUMENTS.over, make=make, extend=extend)


def stored_graph(path: str, catalog: Catalog, resources: Resources, spec: GraphSpec) -> Graph:
    """The graph in a file, held to what is asked of it; read and checked once as long as the file stays as it is.

    Raises:
        StorageError: it is missing or damaged.
        ParameterError: it does not fit, as `check_graph` says.
    """

    def checked() -> bool:
        check_graph(path, catalog, embedder=resources.identity("embedder"), spec=spec)
        return True

    status = Path(path).stat() if Path(path).is_file() else None  # a missing file is for the check to say
    state = None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
    resources.get_or_create(("graph file fits", path, state, catalog.hash, spec), checked)
    graph: Graph = resources.get_or_create(("graph file", path, state), lambda: read_graph(path))
    return graph


def write_graph(path: Path | str, graph: Graph) -> None:
    """Write a graph whole or not at all; equal graphs give equal bytes, whoever of several processes is last.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    arrays: dict[str, Any] = {name: getattr(graph, name).astype(kind) for name, kind in _ARRAYS.items()}
    arrays["prints"] = np.frombuffer(graph.prints.tobytes(), dtype=np.uint8)
    meta = {**made_from(graph), "sha256": _digest(arrays)}
    arrays["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    write_atomic(path, stream.getvalue())


def made_from(graph: Graph) -> dict[str, Any]:
    """What a graph was made of: the hash of its catalog, the model's identity, the chunking, and what it holds."""
    return {
        "format": FORMAT,
        "catalog": graph.catalog,
        "embedder": graph.embedder,
        "chunking": graph.chunking,
        **dataclasses.asdict(graph.spec),
    }


def read_meta(path: Path | str) -> dict[str, Any]:
    """What the graph in a file was made of; its lists are not read.

    Raises:
        StorageError: the file is missing, damaged, or holds no graph of this format.
    """
    if Path(path).is_dir():
        raise StorageError(f"{path} is a folder; expected a relationship graph, a file that `ctxbench graph` makes")
    if not Path(path).is_file():
        raise StorageError(f"there is no relationship graph {path}; make it with `{_command(path)}`")
    if not zipfile.is_zipfile(path):
        raise StorageError(f"{path} is no relationship graph, or damaged; make one with `{_command(path)}`")
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            meta: dict[str, Any] = json.loads(stored["meta"].tobytes())
        version = meta["format"]
        if version == FORMAT and (wrong := [name for name, kind in _META.items() if not isinstance(meta[name], kind)]):
            raise ValueError(f"its {', '.join(wrong)} cannot be read")
    except _DAMAGE as error:
        raise StorageError(_damaged(path, error)) from error
    if version != FORMAT:
        raise StorageError(f"{path} holds a graph of format {version}, expected {FORMAT}; make it again")
    return meta


def read_graph(path: Path | str) -> Graph:
    """Read a graph.

    Raises:
        StorageError: the file is missing or damaged, or holds no graph of this format.
    """
    meta = read_meta(path)
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in (*_ARRAYS, "prints")}
        if _digest(arrays) != meta["sha256"]:
            raise ValueError("its checksum is wrong")
        names = [field.name for field in dataclasses.fields(GraphSpec)]
        numbers = {name: arrays[name].astype(np.float64 if name == "score" else np.int64) for name in _ARRAYS}
        return Graph(
            spec=GraphSpec(**{name: meta[name] for name in names}),
            catalog=meta["catalog"],
            embedder=meta["embedder"],
            chunking=meta["chunking"],
            prints=np.frombuffer(arrays["prints"].tobytes(), dtype="V16"),
            **numbers,
        )
    except _DAMAGE as error:
        raise StorageError(_damaged(path, error)) from error


def check_graph(path: Path | str, catalog: Catalog, *, embedder: str, spec: GraphSpec) -> None:
    """Hold a stored graph to what is asked of it; neither its lists nor a model are loaded.

    Args:
        path: the file.
        catalog: whose items will be looked up.
        embedder: key of the identity of the embedder in use.
        spec: what is asked; the graph's threshold may be lower, and its lists longer.

    Raises:
        StorageError: the file is missing or damaged.
        ParameterError: it is of another catalog, model, chunking or similarity, or holds less; all of that at once.
    """
    meta = read_meta(path)
    faults = []
    expected = {"catalog": catalog.hash, "embedder": embedder, "chunking": CHUNKING, "similarity": spec.similarity}
    for name, value in {**expected, "heads": str(spec.heads)}.items():
        if str(meta[name]) != value:
            actual, required = (text[:12] if name == "catalog" else text for text in (str(meta[name]), value))
            faults.append(f"its {name} is {actual}, expected {required}")
    if meta["threshold"] > spec.threshold:
        faults.append(f"it holds pairs from a threshold of {meta['threshold']:g} up, asked for is {spec.threshold:g}")
    if meta["neighbours"] < spec.neighbours:
        faults.append(f"it holds up to {meta['neighbours']} neighbours of an item, asked for are {spec.neighbours}")
    if faults:
        raise ParameterError(f"the graph {path} does not fit: {'; '.join(faults)}. Make it again: `{_command(path)}`")


def _digest(arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in (*_ARRAYS, "prints"):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _damaged(path: Path | str, why: BaseException) -> str:
    return f"{path} is no relationship graph, or damaged ({type(why).__name__}: {why}); make it again"


def _command(path: Path | str) -> str:
    """What makes a graph in a file, of a catalog that the user names."""
    return f"ctxbench graph CATALOG --out {shlex.quote(str(path))}"
