"""A small tree with a history, as a catalog: files in versions, and commits that link to what they changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ctxbench.model.items import Catalog, Item, ItemKey, Link
from ctxbench.model.requests import Request


def day(n: int, *, hour: int = 12) -> str:
    """Noon of the nth day of January 2026."""
    return f"2026-01-{n:02d}T{hour:02d}:00:00Z"


def history(*commits: tuple[str, Mapping[str, str | None]]) -> Catalog:
    """A catalog after some commits, the nth made on day n: its message, and by path the new content, or None."""
    items: list[Item] = []
    now: dict[str, int] = {}
    for n, (message, changes) in enumerate(commits, 1):
        links = []
        for path, content in changes.items():
            if path in now:
                items[now[path]] = replace(items[now[path]], until=day(n))
            made = now.pop(path, None)
            if content is not None:
                made = now[path] = len(items)
                name, text = f"{path}@{n:012d}", f"{path}\n\n{content}"
                items.append(Item(type="file", name=name, title=path, text=text, created=day(n)))
            links.append(Link("changes", items[made].key))
        made_by = {"kind": "commit", "include": "manual", "created": day(n), "links": tuple(links)}
        items.append(Item(type="message", name=f"commit-{n:012d}", text=message, **made_by))
    return Catalog(items)


def up_to(catalog: Catalog, n: int) -> Catalog:
    """What the same catalog was after its nth commit."""
    kept = [item for item in catalog if item.created <= day(n)]
    return Catalog(item if item.until is None or item.until <= day(n) else replace(item, until=None) for item in kept)


def request(text: str, n: int, **more) -> Request:
    """A request of the day after the nth commit, before the next one."""
    return Request(**{"id": f"q{n}", "text": text, "time": day(n, hour=18), **more})


def paths(catalog: Catalog, items: Sequence[int]) -> list[str]:
    """The paths of items."""
    return [catalog[item].title for item in items]


def commit_key(n: int) -> ItemKey:
    """The key of the nth commit."""
    return ItemKey("message", None, f"commit-{n:012d}")
