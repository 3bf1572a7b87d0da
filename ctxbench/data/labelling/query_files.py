"""Files of labelling in a dataset's folder, by query: exposures (offered and called items), and weights.

`exposure.jsonl` is in the folder of a dataset made of traces, or of feedback on whole contexts. A row is either a
set of items, `{"set": 0, "items": [ids]}`, or a query,
`{"query": id, "offered": 0 or [ids], "called": [ids], "wanted": [ids], "full": true, "signals": [...]}`. A set stands
before the queries that name it, so that what thousands of queries were offered alike is written once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, raise_faults
from ctxbench.core.items import ItemKey
from ctxbench.data.datasets.layout import ANSWERS, LABELLING
from ctxbench.io.files import write_atomic
from ctxbench.io.json_files import dump_jsonl, iter_jsonl
from ctxbench.io.rows import Row, jsonl_rows, read_key, read_text_value

EXPOSURE = "exposure.jsonl"
FOLDER, LOG, QUEUE = LABELLING, ANSWERS, "queue.json"
WEIGHTS = Path(FOLDER, "weights.jsonl")  # of queries that a label queue drew, for whoever measures
SIGNALS = ("unknown-tool", "searched-again", "shell-instead", "asked-again")
"""Likely misses: the model named a tool that it was not offered; it searched for tools more than once; it used a
shell; the user asked the same again."""
NOT_SUFFICIENT = "not-sufficient"
"""The likely miss that no log shows: a user said that what was offered lacked something."""

_FIELDS = ("query", "offered", "called", "wanted", "full", "signals")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The items offered to one query, and those of them that were called.

    Attributes:
        query: the query id.
        offered: what the log says was offered, in the order of the catalog; empty if it does not say.
        called: what was called without an error, in the order of the first call; not all of it need be in `offered`.
        full: everything that the query may get was offered.
        signals: likely misses, of `SIGNALS` in that order, or `NOT_SUFFICIENT`.
        wanted: what the model named though it was not offered, in the order of the first time.
    """

    query: str
    offered: tuple[ItemKey, ...] = ()
    called: tuple[ItemKey, ...] = ()
    full: bool = False
    signals: tuple[str, ...] = ()
    wanted: tuple[ItemKey, ...] = ()


def read_exposures(folder: Path | str) -> dict[str, Exposure]:
    """The exposures of a dataset's folder by query id, in the order of the file; none if there is no such file.

    Raises:
        StorageError: the file cannot be read.
        InputError: rows are malformed: all faults, with their lines.
    """
    path = Path(folder) / EXPOSURE
    if not path.is_file():
        return {}
    faults: list[Fault] = []
    sets: dict[int, tuple[ItemKey, ...]] = {}
    exposures: dict[str, Exposure] = {}
    for row in jsonl_rows(path, faults):
        if "set" in row.data:
            row.refuse_unknown(("set", "items"))
            sets[row.take("set", int, -1)] = _keys(row, "items")
            continue
        exposure = _read(row, sets)
        if exposure.query in exposures:
            row.fault(f"query {exposure.query!r} occurs twice; expected one row a query")
        exposures[exposure.query] = exposure
    raise_faults(faults, subject=str(path))
    return exposures


def write_exposures(exposures: Iterable[Exposure], folder: Path | str) -> None:
    """Write the exposures of a dataset into its folder, in their order; replaces the file.

    Raises:
        StorageError: the folder cannot be written.
    """
    write_atomic(Path(folder) / EXPOSURE, dump_jsonl(_rows(tuple(exposures))))


def _rows(exposures: tuple[Exposure, ...]) -> Iterator[Mapping[str, Any]]:
    times = Counter(exposure.offered for exposure in exposures)
    sets: dict[tuple[ItemKey, ...], int] = {}
    for exposure in exposures:
        offered: int | list[str] = [key.id for key in exposure.offered]
        if exposure.offered and times[exposure.offered] > 1:
            if exposure.offered not in sets:
                sets[exposure.offered] = len(sets)
                yield {"set": sets[exposure.offered], "items": offered}
            offered = sets[exposure.offered]
        yield {
            "query": exposure.query,
            "offered": offered,
            "called": _ids(exposure.called),
            **({"wanted": _ids(exposure.wanted)} if exposure.wanted else {}),
            "full": exposure.full,
            **({"signals": list(exposure.signals)} if exposure.signals else {}),
        }


def _ids(keys: Iterable[ItemKey]) -> list[str]:
    return [key.id for key in keys]


def _read(row: Row, sets: Mapping[int, tuple[ItemKey, ...]]) -> Exposure:
    row.refuse_unknown(_FIELDS)
    offered = row.data.get("offered")
    if isinstance(offered, int) and not isinstance(offered, bool):
        if offered not in sets:
            row.fault(f"field 'offered' names set {offered}, which no row before has; expected one of {sorted(sets)}")
        listed = sets.get(offered, ())
    else:
        listed = _keys(row, "offered")
    signals = row.read_list("signals", read_text_value, expected="a text")
    for signal in signals:
        if signal not in (*SIGNALS, NOT_SUFFICIENT):
            row.fault(f"unknown signal {signal!r}; expected any of {', '.join((*SIGNALS, NOT_SUFFICIENT))}")
    return Exposure(
        query=row.take("query", str, "", required=True),
        offered=listed,
        called=_keys(row, "called"),
        full=row.take("full", bool, False),
        signals=signals,
        wanted=_keys(row, "wanted"),
    )


def _keys(row: Row, name: str) -> tuple[ItemKey, ...]:
    return row.read_list(name, read_key, expected="an item id")


def read_weights(folder: Path) -> dict[str, float]:
    """The number of queries that each drawn one represents, by id; none if no queue has drawn any.

    Raises:
        StorageError: the file cannot be read.
        InputError: a line is not what `write_weights` wrote; all faults.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        return {}
    faults: list[Fault] = []
    weights = {}
    for line, row in iter_jsonl(path, faults):
        query, weight = row.get("query"), row.get("weight")
        if isinstance(query, str) and isinstance(weight, int | float) and weight > 0:
            weights[query] = float(weight)
        else:
            faults.append(
                Fault("expected a query and its weight above 0; the next `data label` writes it anew", path, line)
            )
    raise_faults(faults, subject=str(path))
    return weights


def write_weights(folder: Path, weights: Mapping[str, float], strata: Mapping[str, int]) -> None:
    """Write the weights, whole or not at all.

    Raises:
        StorageError: the file cannot be written.
    """
    rows = ({"query": query, "stratum": strata[query], "weight": weights[query]} for query in sorted(weights))
    write_atomic(folder / WEIGHTS, dump_jsonl(rows))
