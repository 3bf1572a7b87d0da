"""`ctxbench data fetch`: get the files of public datasets from their owners."""

from __future__ import annotations

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.io.console import say


def fetch_source(name: str, *, as_json: bool) -> None:
    """Fetch the files of a source, or of the source of a dataset, into the cache.

    Raises:
        UnknownNameError: there is no such source or dataset.
        StorageError: a file could not be had, or is another one than expected.
    """
    from ctxbench.data.fetch import HOST, fetch, source_of, sources

    source = source_of(name)
    datasets = sources()[source.name][1]
    with progress() as bar:
        bar.say(f"{source.name}: from {source.page}; licence: {source.licence}")
        files = fetch(source, host=HOST, show=bar, notify=bar.say)
    if as_json:
        rows = [{"path": str(f.path), "bytes": f.size, "sha256": f.sha256, "fetched": f.fresh} for f in files]
        print_json(
            {
                "source": source.name,
                "licence": source.licence,
                "folder": str(source.folder),
                "files": rows,
                "datasets": list(datasets),
            }
        )
        return
    fresh = sum(file.fresh for file in files)
    size = sum(file.size for file in files)
    say(f"{source.name}: {len(files)} files, {size:,} bytes in {source.folder} ({fresh} fetched now)")
    say(f"datasets of it, imported at the first use: {', '.join(datasets)}")
