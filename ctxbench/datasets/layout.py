"""Files of a dataset folder, labelling files in it, and the sources of its agent's items.

Files of BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, `dataset.yaml`. If the card names an agent
file, the items are those that the agent has now, without `corpus.jsonl`; `items.txt` lists those it had when the
dataset was made.

`exposure.jsonl` stores what a log says was offered and called. A row is a set of items, `{"set": 0, "items": [ids]}`,
or a query, `{"query": id, "offered": 0 or [ids], "called": [ids], "wanted": [ids], "full": true, "signals": [...]}`.
Sets come before the queries that name them.

When a dataset is made from another, the weights of its queries are always copied. The log of answers, the queue and the
exposure are copied only if queries, labels and catalog are equal.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Required

from annotated_types import MinLen
from typing_extensions import TypedDict

from ctxbench.catalogs.agent_file import AgentFile, read_agent
from ctxbench.catalogs.mcp_config import server_names
from ctxbench.catalogs.snapshots import CORPUS
from ctxbench.io.documents import dump_jsonl, entry_lines, iter_jsonl, load_yaml, read_jsonc
from ctxbench.io.errors import Fault, Message, UserError, raise_faults
from ctxbench.io.files import read_bytes, read_text, write_atomic
from ctxbench.io.rows import Row, jsonl_rows, read_text_value
from ctxbench.model.items import ItemKey, read_key


def former_place(agent: AgentFile, item: str, path: str = "") -> tuple[Path, int]:
    """The file that contained an item, which may be gone, and the line of its server; 0 if no line is known.

    Args:
        agent: that no longer has the item.
        item: its id.
        path: of its file in the folder that it was read from; empty = its name is that path, or the path is unknown.

    Returns:
        The agent file and 0 where no source of the agent can have contained the item.
    """
    try:
        key = ItemKey.parse(item)
    except UserError:
        return agent.path, 0
    if key.type == "tool":
        return _place_of_server(agent, key.server)
    if not path and key.type == "skill":  # a skill is called as it likes
        return agent.path, 0
    folders = (*agent.rules, *agent.references) if key.type != "reference" else (*agent.references, *agent.rules)
    return max([folder / (path or key.name) for folder in folders], key=_depth_left, default=agent.path), 0


def _depth_left(file: Path) -> int:
    """A rank of how much of a path still exists: a missing file was in the folder of which most is left."""
    missing = (-depth for depth, ancestor in enumerate((file, *file.parents)) if ancestor.exists())
    return next(missing, -len(file.parents))


def _place_of_server(agent: AgentFile, server: str | None) -> tuple[Path, int]:
    """The line of a tool's server in the configuration; the snapshot, if the server is still configured.

    Where the configuration does not name it, a list of tools may have.
    """
    lists = [source.file for source in agent.tools if source.server == server]
    if agent.mcp is None or server is None or lists:
        several = lists or [source.file for source in agent.tools]
        return (several[0] if len(several) == 1 else agent.path), 0
    try:
        if server in server_names(agent.mcp):
            return agent.snapshot / CORPUS, 0
        lines = entry_lines(read_jsonc(agent.mcp)[1])
    except UserError:
        return agent.mcp, 0
    return agent.mcp, next((line for path, line in lines.items() if path[-1:] == (server,)), 0)


CARD, QUERIES, QRELS = "dataset.yaml", "queries.jsonl", "qrels"
AGENT, RENAMES = "agent", "renames"
DROPPED = "dropped"  # ids of items that were gone, and how many labels a rebase dropped with each
KNOWN = "items.txt"  # of a dataset over an agent: the ids that the agent had when it was made or last rebased
LABELLING, ANSWERS = "labelling", "answers.jsonl"  # a folder next to them, and its log of answers
ABOUT = ("licence", "source", "labelling", "notes", "frozen", RENAMES, DROPPED, AGENT)
QRELS_HEADER = ("query-id", "corpus-id", "score", "via", "alternatives", "source", "quote")


class DatasetCard(TypedDict, total=False):
    """The card of a dataset, `dataset.yaml`."""

    format: Literal[1]
    """The version of the format."""
    name: Required[Annotated[str, MinLen(1)]]
    """The name: letters, digits, `.`, `-` and `_`."""
    version: Required[Annotated[str, MinLen(1)]]
    """The version; any text."""
    licence: Required[Annotated[str, MinLen(1)]]
    """The licence of the data."""
    source: Required[Annotated[str | dict[str, Any] | list[Any], MinLen(1)]]
    """Where the data comes from."""
    labelling: Required[Annotated[str, MinLen(1)]]
    """How it was labelled."""
    notes: Any
    """Anything else that a reader should know."""
    frozen: str | None
    """The hash of the content; a frozen dataset is not overwritten."""
    renames: dict[str, str] | None
    """Items that were renamed since they were labelled: old id to new id."""
    dropped: dict[str, Any] | None
    """Ids of removed items, and how many labels were dropped with each."""
    agent: str | None
    """The path of an agent file whose items are the catalog, instead of `corpus.jsonl`."""
    counts: dict[str, int | dict[str, int]] | None
    """Counts of items, queries and labels; they are checked."""
    scopes: dict[str, list[str] | None] | None
    """Named sets of item ids that queries may be limited to."""


def own_files(folder: Path) -> set[str]:
    """Paths of the files of a dataset, relative to its folder; the required ones whether they exist or not."""
    corpus = () if agent_of(folder) else (CORPUS,)
    return {CARD, *corpus, QUERIES, *(f"{QRELS}/{path.name}" for path in (folder / QRELS).glob("*.tsv"))}


def near_folder(requested: Path | str, *bases: Path) -> str:
    """'; did you mean ...?' for a dataset's folder with a similar name; empty if there is none.

    Args:
        requested: the path that was not found; a folder below `datasets` of just that name comes first.
        bases: folders that it may be relative to; none = the working directory.
    """
    path, candidates = Path(requested), dict[str, Path]()
    for parent in [parent for base in bases or (Path(),) for parent in (base / "datasets", base / path.parent)]:
        with suppress(OSError):
            for folder in sorted(card.parent for card in parent.glob(f"*/{CARD}")):
                candidates.setdefault(folder.name, folder)
    close = get_close_matches(path.name, candidates, n=1, cutoff=0.7)
    return Message("io.did-you-mean", names=repr(candidates[close[0]].as_posix())) if close else ""


def read_card(folder: Path) -> Mapping[str, Any]:
    """The card of a dataset; empty if the file holds no mapping.

    Raises:
        StorageError, InputError: it cannot be read.
    """
    card, _ = load_yaml(folder / CARD)
    return card if isinstance(card, Mapping) else {}


def agent_of(folder: Path) -> Path | None:
    """The agent file that a dataset's card names; None where it names none, or cannot be read."""
    try:
        name = read_card(folder).get(AGENT)
    except UserError:
        return None
    return Path(os.path.normpath(folder / name)) if isinstance(name, str) and name else None


def known_items(folder: Path) -> frozenset[str] | None:
    """The ids that a dataset's agent had when it was made or last rebased; None if they were not written."""
    if agent_of(folder) is None or not (folder / KNOWN).is_file():
        return None
    return frozenset(filter(None, read_text(folder / KNOWN).splitlines()))


def write_known_items(folder: Path, items: Iterable[str] | None) -> None:
    """Write the ids of the items of a dataset's agent; does nothing if it has none, or they are unknown.

    They are not part of the dataset: they only show which items are new since then.
    """
    if items is not None and agent_of(folder) is not None:
        write_atomic(folder / KNOWN, "".join(f"{item}\n" for item in sorted(items)))


def files_hash(folder: Path) -> str:
    """SHA-256 over the files that a dataset is read from, byte for byte, as 64 hex digits.

    Of an agent file the items count that the agent has.

    Raises:
        StorageError: one is missing or cannot be read.
        InputError: the agent's sources are faulty.
    """
    digest = hashlib.sha256()
    for name in sorted(own_files(folder)):
        data = read_bytes(folder / name)
        digest.update(f"{name} {len(data)}\n".encode() + data)
    if (agent := agent_of(folder)) is not None:
        has_corpus = (folder / CORPUS).exists()  # a fault that reading the dataset reports
        digest.update(f"{AGENT} {read_agent(agent).catalog().hash} {has_corpus}\n".encode())
    return digest.hexdigest()


class DatasetLines:
    """Lines in the files of datasets, by id; each file is read once, when it is first needed.

    Lines are 1-based; 0 where the id is not in the file, or the file cannot be read: a line is a convenience.
    """

    def __init__(self) -> None:
        self._lines_of = cache(_lines_of)
        self._places_of = cache(_places_of)

    def item(self, folder: Path, item: str, former: str = "") -> tuple[Path, int]:
        """The catalog of a dataset and the line of an item in it.

        Of an agent's item it is the file that it comes from; of one that the agent no longer has, the file that it
        came from, or the configuration of its server; `former` is the path that its metadata gave.
        """
        if (agent := agent_of(folder)) is not None:
            return self._places_of(agent).get(item) or _former_place(agent, item, former)
        return folder / CORPUS, self._lines_of(folder / CORPUS).get(item, 0)

    def query(self, folder: Path, query: str) -> tuple[Path, int]:
        """The path of a dataset's queries, and the line of one of them."""
        return folder / QUERIES, self._lines_of(folder / QUERIES).get(query, 0)

    def labels(self, folder: Path, query: str, item: str = "") -> tuple[Path, int]:
        """The file and the line of a query's label of an item, else of its first label, else its queries and 0."""
        for name in (f"{query}\t{item}", query):
            for path in sorted((folder / QRELS).glob("*.tsv")):
                if line := self._lines_of(path).get(name):
                    return path, line
        return folder / QUERIES, 0


def _places_of(agent: Path) -> Mapping[str, tuple[Path, int]]:
    try:
        return read_agent(agent).locations()
    except UserError:
        return {}


def _former_place(agent: Path, item: str, path: str) -> tuple[Path, int]:
    """The former location of an item that the agent no longer has; the agent file if that cannot be read."""
    try:
        return former_place(read_agent(agent), item, path)
    except UserError:
        return agent, 0


def _lines_of(path: Path) -> Mapping[str, int]:
    """The line of each row of a file by id; of a file of labels, of each query and item, and the first of a query."""
    try:
        if path.suffix != ".tsv":
            return {str(row.get("_id")): line for line, row in iter_jsonl(path, [])}
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except (UserError, OSError):
        return {}
    line_by_name: dict[str, int] = {}
    for number, line in reversed(list(enumerate(lines, 1))):
        names = line.split("\t")[:2]
        line_by_name["\t".join(names)] = line_by_name[names[0]] = number
    return line_by_name


EXPOSURE = "exposure.jsonl"
FOLDER, LOG, QUEUE = LABELLING, ANSWERS, "queue.json"
WEIGHTS = Path(FOLDER, "weights.jsonl")  # of queries that a label queue drew
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
        wanted: items that the model named although they were not offered, in the order of the first time.
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
            row.fault(Message("datasets.exposure-repeated", query=exposure.query))
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
            "called": [key.id for key in exposure.called],
            **({"wanted": [key.id for key in exposure.wanted]} if exposure.wanted else {}),
            "full": exposure.full,
            **({"signals": list(exposure.signals)} if exposure.signals else {}),
        }


def _read(row: Row, sets: Mapping[int, tuple[ItemKey, ...]]) -> Exposure:
    row.refuse_unknown(_FIELDS)
    offered = row.data.get("offered")
    if isinstance(offered, int) and not isinstance(offered, bool):
        if offered not in sets:
            row.fault(Message("datasets.exposure-unknown-set", got=offered, sets=sorted(sets)))
        listed = sets.get(offered, ())
    else:
        listed = _keys(row, "offered")
    signals = row.read_list("signals", read_text_value, expected="a text")
    for signal in signals:
        if signal not in (*SIGNALS, NOT_SUFFICIENT):
            row.fault(Message("datasets.unknown-signal", got=signal, expected=(*SIGNALS, NOT_SUFFICIENT)))
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
            faults.append(Fault(Message("datasets.weight-row"), path, line))
    raise_faults(faults, subject=str(path))
    return weights


def write_weights(folder: Path, weights: Mapping[str, float], strata: Mapping[str, int]) -> None:
    """Write the weights, whole or not at all.

    Raises:
        StorageError: the file cannot be written.
    """
    rows = ({"query": query, "stratum": strata[query], "weight": weights[query]} for query in sorted(weights))
    write_atomic(folder / WEIGHTS, dump_jsonl(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingCopy:
    """The files of labelling that were copied, and those that were not; empty if there are none.

    Attributes:
        copied: those that are in the new folder now.
        left_out: those that are not.
        own_answers: whether nothing was copied because the new folder holds answers of its own.
    """

    copied: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    own_answers: bool = False

    def as_dict(self) -> dict[str, list[str]]:
        """The names as JSON."""
        return {"carried": list(self.copied), "left_out": list(self.left_out)}

    def lines(self) -> list[str]:
        """What was copied and what was not, one line each."""
        copied = [f"copied: {', '.join(self.copied)}"] if self.copied else []
        key = "datasets.answers-present" if self.own_answers else "datasets.answers-outdated"
        return copied + ([Message(key, files=self.left_out)] if self.left_out else [])


def copy_labelling(source: Path, target: Path, *, answers: bool) -> LabellingCopy:
    """Copy the files of labelling from one dataset's folder to another's; nothing if the two are one.

    Args:
        source: the folder of the dataset that was labelled.
        target: the folder of the dataset made of it, with the same query ids.
        answers: also the log of answers and the queue, not the weights alone.

    Raises:
        StorageError: a file cannot be read or written.
    """
    files = {f"{FOLDER}/{path.name}": path for path in sorted((source / FOLDER).glob("*")) if path.is_file()}
    if (source / EXPOSURE).is_file():
        files[EXPOSURE] = source / EXPOSURE
    if not files or source.resolve() == target.resolve():
        return LabellingCopy()
    if not (_log(source) if answers else b"").startswith(_log(target)):  # else it is absent, or an earlier copy
        return LabellingCopy(left_out=tuple(files), own_answers=True)
    copied = tuple(name for name in files if answers or name == str(WEIGHTS))
    for name in copied:
        write_atomic(target / name, read_bytes(files[name]))
    return LabellingCopy(copied=copied, left_out=tuple(name for name in files if name not in copied))


def _log(folder: Path) -> bytes:
    path = folder / FOLDER / LOG
    return read_bytes(path) if path.is_file() else b""
