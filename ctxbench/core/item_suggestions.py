"""Which item of a catalog an id that it does not hold may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from pathlib import PurePosixPath

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import ItemKey

_SHOWN = 3
_CLOSE = 0.7  # of the names; below it, two tools of one server are alike by the words that all of them share


def suggest_items(item: str, keys: Iterable[str]) -> str:
    """Return '; did you mean ...?' for the id of no item; empty where none is close.

    Close is an item of the same name, or one of the same type and server with nearly the same name: ids alone are alike
    by their types. A text that is no id is taken for a name, or for that of a file; so is the name of
    a rule or reference that says no folder. What is known is not listed, since
    catalogs hold thousands.
    """
    try:
        wanted_key = ItemKey.parse(item)
    except ParameterError:
        wanted_key = ItemKey("", None, item)
    ranked = sorted((-_closeness(wanted_key, ItemKey.parse(key)), key) for key in keys)
    close = [key for closeness, key in ranked[:_SHOWN] if -closeness >= _CLOSE]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def _closeness(wanted_key: ItemKey, key: ItemKey) -> float:
    """From 0 to 1."""
    file = key.name.rpartition("/")[2]
    if wanted_key.name == key.name or (
        wanted_key.type in ("", key.type)
        and not wanted_key.server
        and wanted_key.name in (file, file.partition(".")[0])
    ):
        return 1.0
    return name_likeness(wanted_key.name, key.name) if wanted_key[:2] == key[:2] else 0.0


def name_likeness(first: str, second: str) -> float:
    """How alike two names are, their case aside, from 0 to 1; below 0.7, where they are not close, it may be 0.

    Of files it is how alike their names are without folder and ending, where these are less alike: all rules of a
    project have folder and ending in common.
    """
    return min(_text_likeness(first, second), _text_likeness(PurePosixPath(first).stem, PurePosixPath(second).stem))


def _text_likeness(first: str, second: str) -> float:
    matcher = SequenceMatcher(None, first.lower(), second.lower())
    return matcher.ratio() if matcher.real_quick_ratio() >= _CLOSE and matcher.quick_ratio() >= _CLOSE else 0.0
