"""How ctxbench was installed, and the command that installs it again, with an extra."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "ctxbench"


def install_command(extra: str = "", *, reinstall: bool = False) -> str:
    """The command that installs ctxbench from where it came from: a clone, an address, or an index.

    Args:
        extra: an optional part, such as `mcp`; empty = none.
        again: replace what is installed, for files that are damaged.

    Source: the record that installers leave beside a package, PEP 610. Without one it came from an index.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        record = distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:  # run from a clone that was never installed
        record = "{}"
    package = _from_record(record, f"[{extra}]" if extra else "")
    return f"pip install {'--force-reinstall ' if reinstall else ''}{package}"


def _from_record(record: str | None, extra: str) -> str:
    """What stands behind `pip install`, quoted for a shell."""
    if record is None:
        return f'"{_NAME}{extra}"' if extra else _NAME
    origin = json.loads(record)
    url, folder = str(origin.get("url", "")), origin.get("dir_info")
    if folder is None and url:
        commit = origin.get("vcs_info", {})
        address = f"{commit['vcs']}+{url}@{commit['commit_id']}" if commit else url
        return f'"{_NAME}{extra} @ {address}"'
    from urllib.request import url2pathname  # loads SSL, which few need

    location = Path(url2pathname(unquote(urlsplit(url).path))) if url else None
    if location is None or not (location / "pyproject.toml").is_file():
        return f'-e ".{extra}" in a clone of {_NAME}'
    return f'{"-e " if folder.get("editable") else ""}"{location}{extra}"'
