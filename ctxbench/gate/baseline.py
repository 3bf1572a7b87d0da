"""Write baselines without rounding differences between machines, and reuse unchanged answers.

The files hold what a check needs to compare and to name a cause: texts and content hashes, the selector's description,
the model, and the version and code of ctxbench. The commit is left out: it would change each time.

Noise: a score within `noise_margin` of the old one keeps the old value; so do the order of such items and swaps among
them. So accepting on another machine changes nothing. A score that creeps by less than the margin each time is still
noticed.

Answers are reused if the dataset's files are equal byte for byte, the same queries are asked, the selector is built in
and its description is equal, and Python, ctxbench and the libraries are the same. Either all selectors of a gate file
are reused or none.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.layout import files_hash
from ctxbench.datasets.lookup import dataset_reference, user_folder
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.comparisons import estimates
from ctxbench.evaluation.experiment import Experiment, versions
from ctxbench.evaluation.metrics import Metric, summarise
from ctxbench.evaluation.statistics import Estimate, estimate
from ctxbench.gate.baseline_reader import GateResources, NewerFormatError, read_baseline, read_manifest, vectors_bytes
from ctxbench.gate.baseline_rows import (
    FORMAT,
    ITEMS,
    MANIFEST,
    QUERIES,
    SESSIONS,
    VECTORS,
    answer_row,
    answers_file,
    dataset_file,
    figures_of,
    file_hash,
    item_row,
    manifest_hash,
    other_content,
    query_row,
    rounded,
    session_items,
    session_row,
)
from ctxbench.gate.comparability import Comparability, open_edited, unasked
from ctxbench.gate.differences import differences, is_unmoved, noise_margin
from ctxbench.gate.results import MinimumVerdict, PinFailure
from ctxbench.gate.settings import CheckSettings, GateFile, plugin_steps
from ctxbench.gate.snapshots import NEAR, AnswerFact, Identity, SelectorSnapshot, content_hash, first_ids
from ctxbench.io.documents import dump_json, dump_jsonl
from ctxbench.io.errors import ParameterError, StorageError, UserError
from ctxbench.io.files import atomic_folder, cache_dir, read_bytes, recover_folder, write_atomic
from ctxbench.model.arrays import Float32Array, FloatArray
from ctxbench.model.candidates import Rule
from ctxbench.model.registry import foreign_code
from ctxbench.model.selection import Offered
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter

_NEAR_COMPARED = 4 * NEAR  # candidates that stayed out among which an order by noise is put right
_ROUNDING = 1e-9  # of a metric's value, as a share of it: sums in another order


def undo_noise(new: SelectorSnapshot, old: SelectorSnapshot | None) -> SelectorSnapshot:
    """The snapshot to write: `NEAR` candidates, rounded scores, and old values where noise alone moved them.

    Args:
        new: of a run; every query answered.
        old: of the same selector and dataset in the baseline so far; None = there is none.

    Raises:
        ParameterError: a query has no answer, or one with a score that is no finite number, or an unknown item.
    """
    if unanswered := [query for query in new.queries if query not in new.answers]:
        raise ParameterError(
            f"{new.selector} on {new.dataset} has no answer to {len(unanswered)} queries "
            f"({first_ids(unanswered)}); a baseline needs all answers: run again"
        )
    for query in new.queries:
        _check_answer(new, new.answers[query])
    rounded_answers = {
        query: replace(answer, offered=_as_stored(answer.offered), near=_as_stored(answer.near[:_NEAR_COMPARED]))
        for query, answer in ((query, new.answers[query]) for query in new.queries)
    }
    values = {metric: column.copy() for metric, column in new.metrics.items()}
    answers = {query: replace(answer, near=answer.near[:NEAR]) for query, answer in rounded_answers.items()}
    if old is not None:
        noise_filter = _NoiseFilter(new, old)
        for query in noise_filter.same_queries:
            answers[query] = noise_filter.filter_answer(rounded_answers[query])
            undone = _answer_ids(answers[query]) != _answer_ids(rounded_answers[query])
            noise_filter.restore_values(
                values, query, undone=undone and _answer_ids(answers[query])[0] == _answer_ids(old.answers[query])[0]
            )
    return replace(new, answers=answers, metrics=values)


def _check_answer(new: SelectorSnapshot, answer: AnswerFact) -> None:
    """Raise an error for an answer that cannot be written or compared."""
    for candidate in (*answer.offered, *answer.near):
        if candidate.id not in new.items:
            raise ParameterError(
                f"{new.selector} on {new.dataset}, query {answer.query}: {candidate.id} is not in the catalog"
            )
        if candidate.score is not None and not math.isfinite(candidate.score):
            raise ParameterError(
                f"{new.selector} on {new.dataset}, query {answer.query}: the score of {candidate.id} must be finite, "
                f"got {candidate.score}"
            )


def _as_stored(candidates: Sequence[Offered]) -> tuple[Offered, ...]:
    """Candidates as a baseline has them: rounded scores, no pairs of chunks."""
    return tuple(
        [
            replace(
                candidate,
                score=rounded(candidate.score),
                pair=None,
                span=None,
                tokens=None if candidate.rule else candidate.tokens,
            )
            for candidate in candidates
        ]
    )


def _answer_ids(answer: AnswerFact) -> tuple[list[str], list[str]]:
    return [candidate.id for candidate in answer.offered], [candidate.id for candidate in answer.near[:NEAR]]


class _NoiseFilter:
    """Undoes the noise between an old and a new snapshot of one selector on one dataset.

    Attributes:
        same_queries: queries with the same request and labels as before.
    """

    def __init__(self, new: SelectorSnapshot, old: SelectorSnapshot) -> None:
        self.new = new
        self.old = old
        self.same_queries = tuple(
            query
            for query, fact in new.queries.items()
            if query in old.queries
            and fact.request_hash == old.queries[query].request_hash
            and fact.labelled == old.queries[query].labelled
        )
        self._swaps = frozenset(differences(old, new, Comparability(queries=self.same_queries)).swaps)
        self._same_selector = new.identity.same_as(old.identity, ["code"])
        self._rows = [{query: row for row, query in enumerate(side.queries)} for side in (new, old)]

    def filter_answer(self, answer: AnswerFact) -> AnswerFact:
        """The answer with old values where noise alone moved them; `near` cut to `NEAR`.

        Args:
            answer: to one of `same_queries`.
        """
        before = self.old.answers[answer.query]
        margin = noise_margin([*before.score_of.values(), *answer.score_of.values()])
        swapped = answer.query in self._swaps and self._same_selector and self._has_same_items(answer.query)
        if swapped and _scores_unmoved(before, answer, margin):
            return before
        old_candidates = {candidate.id: candidate for candidate in (*before.offered, *before.near)}
        candidates = [self._with_old_score(candidate, old_candidates, margin) for candidate in answer.offered]
        offered = _in_old_order(candidates, before.offered, math.inf, margin)
        last = len(before.near) if len(before.near) == NEAR else math.inf  # what a full list left out came behind it
        near = _in_old_order(
            [self._with_old_score(candidate, old_candidates, margin) for candidate in answer.near],
            before.near,
            last,
            margin,
        )
        return replace(answer, offered=tuple(offered), near=tuple(near[:NEAR]))

    def restore_values(self, values: Mapping[Metric, FloatArray], query: str, *, undone: bool) -> None:
        """Restore metric values of a query that moved by rounding only, or by a swap that was `undone`."""
        row, before = (rows[query] for rows in self._rows)
        all_back = undone and self._has_same_items(query)
        for metric, column in values.items():
            if metric in self.old.metrics:
                value, old = float(column[row]), float(self.old.metrics[metric][before])
                if all_back or math.isclose(value, old, rel_tol=_ROUNDING, abs_tol=0.0):
                    column[row] = old

    def _with_old_score(self, candidate: Offered, old_candidates: Mapping[str, Offered], margin: float) -> Offered:
        """The candidate with its old score, if the score moved by no more than the margin.

        And with the old rule, where the same selector keeps the same item out: a rule may change with a threshold that
        the score is on the edge of.
        """
        old = old_candidates.get(candidate.id)
        if old is None or candidate.score is None or old.score is None or abs(candidate.score - old.score) > margin:
            return candidate
        old_rule = candidate.rule and old.rule and self._same_selector and self._is_same_item(candidate.id)
        return replace(candidate, score=old.score, rule=old.rule if old_rule else candidate.rule)

    def _has_same_items(self, query: str) -> bool:
        """Whether all items that a query is or was offered are unchanged."""
        offers = (*self.new.answers[query].offered, *self.old.answers[query].offered)
        return all(self._is_same_item(candidate.id) for candidate in offers)

    def _is_same_item(self, name: str) -> bool:
        after, before = self.new.items.get(name), self.old.items.get(name)
        return after is not None and before is not None and (after.hash, after.tokens) == (before.hash, before.tokens)


def _scores_unmoved(before: AnswerFact, after: AnswerFact, margin: float) -> bool:
    """Whether no old candidate moved by more than the margin, and no new one is among them."""
    scores = after.score_of
    if not all(is_unmoved(score, scores.get(name), margin=margin) for name, score in before.score_of.items()):
        return False
    lowest = min([candidate.score for candidate in before.near if candidate.score is not None], default=-math.inf)
    limit = lowest + margin if len(before.near) == NEAR else -math.inf
    old_ids = {candidate.id for candidate in (*before.offered, *before.near)}
    return all(
        candidate.id in old_ids or candidate.score is None or candidate.score <= limit
        for candidate in after.near[:NEAR]
    )


def _in_old_order(candidates: list[Offered], before: Sequence[Offered], last: float, margin: float) -> list[Offered]:
    """Sort candidates as before, where the scores of neighbours are no further apart than noise.

    Args:
        candidates: in the one order, with their old scores where these did not move.
        before: the candidates of the old answer.
        last: the position of an item that is not in `before`; infinite = it stays where it is.
        margin: how far scores move by noise.
    """
    position = {candidate.id: number for number, candidate in enumerate(before)}
    positions = [position.get(candidate.id, last) for candidate in candidates]
    if all(x <= y for x, y in pairwise(positions)):
        return candidates
    moved = True
    while moved:  # every exchange brings one pair into its old order, so this ends
        moved = False
        for at in range(len(candidates) - 1):
            upper, lower = candidates[at], candidates[at + 1]
            if positions[at + 1] < positions[at] < math.inf and _tied(upper, lower, margin):
                candidates[at : at + 2] = lower, upper
                positions[at : at + 2] = positions[at + 1], positions[at]
                moved = True
    return candidates


def _tied(first: Offered, second: Offered, margin: float) -> bool:
    """Whether noise on two scores may have changed the order of two candidates; never without scores."""
    return first.score is not None and second.score is not None and abs(first.score - second.score) <= 2 * margin


OWN_VERSIONS = ("ctxbench", "code")  # the same on all machines of a team; those of Python and libraries are not
_DEFAULT = CheckSettings()
_DIGITS = 6  # of means and intervals, which are for reading: a check computes them from the values by query


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFigures:
    """Summary of the answers of a selector on a dataset, to be reviewed when a baseline is accepted.

    Attributes:
        dataset, selector: names.
        shipped: the shipped selector that it is; see `Identity`.
        queries: how many.
        offered: items added over all of them; 0 = none.
        metrics: means of those judged; NaN where one applies to no query.
    """

    dataset: str
    selector: str
    queries: int
    offered: int
    metrics: Mapping[Metric, float]
    shipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBaseline:
    """The result of accepting a baseline. Paths are of files, sorted.

    Attributes:
        folder: of the baseline.
        written: files that are new or changed.
        unchanged: files that were so already, byte for byte.
        removed: files of selectors and datasets that are gone, and of vectors that were not given this time.
        texts: whether texts were written.
        pins: those of the gate file that what was written does not hold.
        missed: dataset, selector and minimum of those that are not reached.
        summaries: a few numbers on each selector on each dataset.
    """

    folder: Path
    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    removed: tuple[Path, ...]
    texts: bool = True
    pins: tuple[PinFailure, ...] = ()
    missed: tuple[tuple[str, str, MinimumVerdict], ...] = ()
    summaries: tuple[AcceptedFigures, ...] = ()


def has_no_texts(folder: Path) -> bool:
    """Whether there is a baseline that holds no text of any item; False where none can be read."""
    rows = {item.row is None for snapshot in _current_snapshots(folder).values() for item in snapshot.items.values()}
    return rows == {True}


def write_baseline(
    folder: Path,
    snapshots: Sequence[SelectorSnapshot],
    *,
    settings: CheckSettings = _DEFAULT,
    replaced: Mapping[str, Any] | None = None,
    texts: bool = True,
    vectors: Mapping[str, Float32Array] | None = None,
) -> AcceptedBaseline:
    """Write a baseline, or what of it has changed.

    The same snapshots give the same bytes. Values that differ from the current ones only by noise between machines keep
    their current form (see `undo_noise`); a baseline that cannot be read is replaced. Other files are kept.

    Args:
        folder: made if it is missing.
        snapshots: at least one; those of one dataset with the same items and queries.
        settings: of the gate that the baseline is accepted with.
        replaced: the manifest of the baseline that this one replaces; None = there was none.
        texts: False keeps out what someone wrote: rows of items, texts of queries.
        vectors: by text, unit vectors of the texts that a check needs, each of shape (dimensions,); None = none.

    Raises:
        ParameterError: there is no snapshot, two have one name or one dataset in different states, a query has no
            answer or one that is none, or the folder is something else than a baseline.
        NewerFormatError: a newer version wrote the baseline.
        StorageError: it cannot be read or written; what was there is unchanged.
    """
    _check_snapshots(snapshots)
    recover_folder(folder)
    if content := other_content(folder):
        raise ParameterError(f"{folder} is {content}, no baseline; name another folder for the baseline")
    before = _current_snapshots(folder)
    stored = snapshots if texts else [*map(without_texts, snapshots)]
    new = [undo_noise(snapshot, before.get((snapshot.dataset, snapshot.selector))) for snapshot in stored]
    current, files = _current_files(folder), _text_files(new)
    embedder = next((snapshot.identity.embedder for snapshot in snapshots if snapshot.identity.embedder), "")
    if vectors and embedder:
        files[VECTORS] = vectors_bytes(vectors, embedder, current.get(VECTORS))
    files[MANIFEST] = _manifest_file(folder, current, partial(manifest, new, files, settings=settings), replaced)
    changed = sorted(name for name, data in files.items() if current.get(name) != data)
    removed = sorted(current.keys() - files)
    if changed or removed:
        with atomic_folder(folder) as temporary:
            _copy_other_files(folder, temporary, current)
            for name, data in files.items():
                write_atomic(temporary / name, data)
    return AcceptedBaseline(
        folder=folder,
        written=tuple(folder / name for name in changed),
        unchanged=tuple(folder / name for name in sorted(set(files) - set(changed))),
        removed=tuple(folder / name for name in removed),
        texts=texts,
    )


def _check_snapshots(snapshots: Sequence[SelectorSnapshot]) -> None:
    """Raise an error for snapshots that cannot be in one baseline."""
    if not snapshots:
        raise ParameterError("a baseline needs the answers of at least one selector on a dataset")
    first: dict[str, SelectorSnapshot] = {}
    names = Counter((snapshot.dataset, snapshot.selector) for snapshot in snapshots)
    for snapshot in snapshots:
        if names[snapshot.dataset, snapshot.selector] > 1:
            raise ParameterError(f"two selectors on {snapshot.dataset} are called {snapshot.selector!r}; rename one")
        earlier = first.setdefault(snapshot.dataset, snapshot)
        if (snapshot.items, snapshot.disabled, snapshot.queries) != (earlier.items, earlier.disabled, earlier.queries):
            raise ParameterError(
                f"{earlier.selector} and {snapshot.selector} were run on different states of dataset "
                f"{snapshot.dataset}; run both again"
            )


def _current_snapshots(folder: Path) -> dict[tuple[str, str], SelectorSnapshot]:
    """The snapshots that are in the folder; none if it cannot be read, as after a merge.

    Raises:
        NewerFormatError: a newer version wrote it, which could not read what this one writes.
    """
    try:
        return {(snapshot.dataset, snapshot.selector): snapshot for snapshot in read_baseline(folder)}
    except NewerFormatError:
        raise
    except UserError:
        return {}


def without_texts(snapshot: SelectorSnapshot) -> SelectorSnapshot:
    """The snapshot without texts that someone wrote; ids, tags and names of scopes stay."""
    return replace(
        snapshot,
        items={name: replace(item, row=None) for name, item in snapshot.items.items()},
        disabled={name: replace(item, row=None) for name, item in snapshot.disabled.items()},
        queries={
            name: replace(
                query,
                text="",
                extra_labels=() if any(group for *_, group in query.extra_labels) else query.extra_labels,
            )
            for name, query in snapshot.queries.items()
        },  # names of alternatives are texts, too
        judged=None,
    )


def _text_files(snapshots: Sequence[SelectorSnapshot]) -> dict[str, bytes]:
    """The files of all datasets, by their path in the folder."""
    files: dict[str, bytes] = {}
    for dataset in dict.fromkeys(snapshot.dataset for snapshot in snapshots):
        several = [snapshot for snapshot in snapshots if snapshot.dataset == dataset]
        sessions = _shared_sessions(several)
        files[dataset_file(dataset, ITEMS)] = _lines(map(item_row, several[0].all_items.values()))
        files[dataset_file(dataset, QUERIES)] = _lines(map(query_row, several[0].queries.values()))
        if sessions:
            files[dataset_file(dataset, SESSIONS)] = _lines(
                session_row(number, session) for session, number in sessions.items()
            )
        files |= {
            dataset_file(dataset, answers_file(snapshot.selector)): _answers_file(snapshot, sessions)
            for snapshot in several
        }
    return files


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return dump_jsonl(rows).encode()


def _shared_sessions(snapshots: Sequence[SelectorSnapshot]) -> dict[tuple[str, ...], int]:
    """The sessions that at least two queries have, numbered from 1 on in the order in which they come."""
    queries = group_pairs(
        (session_items(snapshot.answers[query]), query) for snapshot in snapshots for query in snapshot.queries
    )
    several = [session for session, ids in queries.items() if session and len({*ids}) > 1]
    return {session: number for number, session in enumerate(several, start=1)}


def _answers_file(snapshot: SelectorSnapshot, sessions: Mapping[tuple[str, ...], int]) -> bytes:
    rules = {rule: number for number, rule in enumerate(rules_of(snapshot))}
    columns = {str(metric): column.tolist() for metric, column in snapshot.metrics.items()}
    return _lines(
        answer_row(snapshot.answers[query], {name: column[row] for name, column in columns.items()}, rules, sessions)
        for row, query in enumerate(snapshot.queries)
    )


def _manifest_file(
    folder: Path, current: Mapping[str, bytes], make: Callable[..., dict[str, Any]], replaced: Mapping[str, Any] | None
) -> bytes:
    """`baseline.json`; the current one if they differ only in versions of libraries and in the replaced baseline.

    Args:
        folder: of the baseline.
        current: the files that are in the folder.
        make: `manifest`, given all but `replaced` and `libraries`.
        replaced: the manifest of the baseline that this one replaces; None = there was none.
    """
    if MANIFEST in current:
        try:
            old = read_manifest(folder)
            unchanged = dump_json(make(replaced=old.get("replaced"), libraries=old["versions"]), indent=2).encode()
        except (UserError, LookupError, AttributeError, TypeError):
            unchanged = b""  # it cannot be read, and is written anew
        if unchanged == current[MANIFEST]:
            return unchanged
    return dump_json(make(replaced=replaced), indent=2).encode()


def _current_files(folder: Path) -> dict[str, bytes]:
    """The files of a baseline in a folder, by their path in it, with those of datasets that are gone.

    Line ends are LF, whatever git made of them.
    """
    names = [MANIFEST, VECTORS]
    try:
        names += [path.relative_to(folder).as_posix() for path in folder.glob("*/*.jsonl")]
        contents = {name: read_bytes(folder / name) for name in names if (folder / name).is_file()}
        return {name: data if name == VECTORS else data.replace(b"\r\n", b"\n") for name, data in contents.items()}
    except OSError as error:
        raise StorageError(f"cannot read {folder}: {error.strerror or error}") from error


def _copy_other_files(folder: Path, temporary: Path, baseline_files: Iterable[str]) -> None:
    """Copy files that ctxbench did not write, such as a `.gitattributes`, to the folder that replaces this one."""
    left_out = {folder / name for name in baseline_files}
    try:
        for path in sorted(folder.rglob("*")):
            if path not in left_out and not path.is_dir():
                target = temporary / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target, follow_symlinks=False)
    except OSError as error:
        raise StorageError(f"cannot copy {folder}: {error.strerror or error}; no file was changed") from error


def summarise_selector(snapshot: SelectorSnapshot, metrics: Sequence[Metric]) -> AcceptedFigures:
    """Summarise what is accepted; a metric that cannot be computed is left out.

    Args:
        snapshot: as it is written.
        metrics: what a check judges.
    """
    return AcceptedFigures(
        dataset=snapshot.dataset,
        selector=snapshot.selector,
        queries=len(snapshot.queries),
        offered=sum(item.origin != "session" for answer in snapshot.answers.values() for item in answer.offered),
        metrics={metric: mean.value for metric, mean in summarise(list(metrics), snapshot.metrics).items()},
        shipped=snapshot.identity.shipped,
    )


def manifest(
    snapshots: Sequence[SelectorSnapshot],
    files: Mapping[str, bytes],
    *,
    settings: CheckSettings,
    replaced: Mapping[str, Any] | None = None,
    libraries: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make the content of `baseline.json`.

    Args:
        snapshots: at least one, as they are written.
        files: the other files by their path in the folder.
        settings: of the gate.
        replaced: the manifest of the baseline that this one replaces, or what `figures_of` left of it.
        libraries: versions of Python and libraries that take the place of the snapshots' own, in their order.
    """
    versions = _versions(snapshots[0], libraries)
    datasets: dict[str, Any] = {}
    for snapshot in snapshots:
        if snapshot.dataset not in datasets:
            named = {"items": ITEMS, "queries": QUERIES, "sessions": SESSIONS}
            paths = {kind: dataset_file(snapshot.dataset, name) for kind, name in named.items()}
            counts = {"items": len(snapshot.all_items), "queries": len(snapshot.queries)}
            inputs = {"inputs": snapshot.inputs} if snapshot.inputs else {}
            datasets[snapshot.dataset] = {
                **counts,
                **inputs,
                "files": {kind: file_hash(files[path]) for kind, path in paths.items() if path in files},
                "selectors": {},
            }
        about = _selector_row(
            snapshot, file_hash(files[dataset_file(snapshot.dataset, answers_file(snapshot.selector))])
        )
        selector_versions = _versions(snapshot, libraries)
        datasets[snapshot.dataset]["selectors"][snapshot.selector] = (
            about if selector_versions == versions else {**about, "versions": selector_versions}
        )
    stored = {"vectors": file_hash(files[VECTORS])} if VECTORS in files else {}
    out = {"format": FORMAT, "versions": versions, "settings": settings.as_dict(), **stored, "datasets": datasets}
    if replaced is not None and (figures := figures_of(replaced)) != figures_of(out):
        out["replaced"] = figures
    return {**out, "hash": manifest_hash(out)}


def rules_of(snapshot: SelectorSnapshot) -> list[Rule | None]:
    """The rules that keep candidates of a snapshot out, by their numbers; the first is None.

    They are sorted by their content, so that numbers change only when the rules do.
    """
    rules = {
        candidate.rule
        for answer in snapshot.answers.values()
        for candidate in answer.near
        if candidate.rule is not None
    }
    return [None, *sorted(rules, key=lambda rule: dump_json(rule.as_dict()))]


def _versions(snapshot: SelectorSnapshot, libraries: Mapping[str, str] | None) -> dict[str, str]:
    versions = dict(snapshot.identity.versions)
    if libraries is None:
        return versions
    return {**libraries, **{name: value for name, value in versions.items() if name in OWN_VERSIONS}}


def _selector_row(snapshot: SelectorSnapshot, digest: str) -> dict[str, Any]:
    """The entry of a selector on a dataset: its description, and the means of its metrics."""
    identity = snapshot.identity
    repeated = {
        "repeats": snapshot.repeats,
        "spread": dict(snapshot.spread),
        "nondeterministic": list(snapshot.nondeterministic),
    }
    means = _mean_estimates(snapshot) if snapshot.queries else {}
    return {
        "external": identity.external,
        **({"shipped": identity.shipped} if identity.shipped else {}),
        "embedder": identity.embedder,
        "tokens": identity.tokens,
        "values": dict(identity.values),
        "description": dict(identity.selector),
        **(repeated if snapshot.repeats > 1 else {}),
        "metrics": {str(metric): _estimate_row(means.get(metric)) for metric in snapshot.metrics},
        "rules": {str(number): rule.as_dict() for number, rule in enumerate(rules_of(snapshot)) if rule is not None},
        "file": digest,
    }


def _mean_estimates(snapshot: SelectorSnapshot) -> Mapping[Metric, Estimate]:
    """Means with the intervals of a run. With repeats, yes/no values are shares."""
    if snapshot.repeats == 1:
        return estimates(snapshot.metrics, snapshot.metrics)
    scales = {metric: metric.declaration.scale for metric in snapshot.metrics}
    return {
        metric: estimate(values, scale="amount" if scales[metric] == "amount" else "share")
        for metric, values in snapshot.metrics.items()
        if scales[metric] != "bits"
    }


def _estimate_row(mean: Estimate | None) -> dict[str, Any]:
    """A mean with its interval; `n` is 0 where no value applies."""
    if mean is None:
        return {"n": 0}
    numbers = {"mean": mean.value, "low": mean.interval.low, "high": mean.interval.high}
    out = {name: float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for name, value in numbers.items()}
    return {**out, "level": mean.interval.level, "n": mean.n, **({} if mean.interval.holds else {"holds": False})}


class GateAnswers(NamedTuple):
    """The answers of all selectors of a gate file.

    Attributes:
        snapshots: by dataset, then by selector, in the order of the experiment.
        references: by dataset, what opens it from the gate file's folder: its folder, or its name.
        resources: vectors and token counts that they used; None for reused answers.
    """

    snapshots: list[SelectorSnapshot]
    references: Mapping[str, str]
    resources: GateResources | None = None


def inputs_of(experiment: Experiment, dataset: str) -> str:
    """Hash of the files of a dataset and of which of its queries an experiment asks; `SHORT` hex digits.

    Empty for a dataset that is no folder, or whose files cannot be read.
    """
    if (folder := user_folder(dataset, experiment.base)) is None:
        return ""
    try:
        files = files_hash(folder)
    except StorageError:
        return ""
    return content_hash([files, experiment.split, experiment.sample, experiment.seed if experiment.sample else 0])


def reuse_answers(file: GateFile, bases: Sequence[SelectorSnapshot]) -> GateAnswers | None:
    """Take the answers of the baseline, if all their inputs are unchanged.

    Args:
        file: without faults.
        bases: the snapshots of its baseline.

    Returns:
        The answers of the baseline; None if an input has changed, or may have.
    """
    named = {snapshot.inputs: snapshot.dataset for snapshot in bases if snapshot.inputs}
    datasets = [named.get(inputs_of(file.experiment, reference)) for reference in file.experiment.datasets]
    if None in datasets or len(set(datasets)) < len(datasets):
        return None
    by_name = {(snapshot.dataset, snapshot.selector): snapshot for snapshot in bases}
    pairs = list(product(datasets, [spec.name for spec in file.experiment.selectors]))
    snapshots = [by_name[pair] for pair in pairs if pair in by_name]
    if len(snapshots) < len(pairs) or not _selectors_unchanged(file, snapshots):
        return None
    pinned = {pin.query for pin in file.settings.pins if pin.query}.difference(
        *(snapshot.queries for snapshot in snapshots)
    )
    if pinned and any(query.id in pinned for _, drawn in _drawn(file, bases) for query in drawn.queries):
        return None  # a pin names a query that is not in the baseline
    references = {
        dataset: dataset_reference(text, file.experiment.base)
        for dataset, text in zip(datasets, file.experiment.datasets, strict=True)
        if dataset is not None
    }
    shipped = {spec.name: spec.shipped for spec in file.experiment.selectors}
    heads = [
        replace(
            snapshot,
            source="this run",
            reused=True,
            identity=replace(snapshot.identity, shipped=shipped[snapshot.selector]),
        )
        for snapshot in snapshots
    ]
    return GateAnswers(heads, references)


def with_unasked(
    file: GateFile, heads: Sequence[SelectorSnapshot], bases: Sequence[SelectorSnapshot]
) -> list[SelectorSnapshot]:
    """Snapshots with the unused queries of their datasets, which a baseline does not have.

    Args:
        file: without faults.
        heads: as `reuse_answers` gives them.
        bases: the snapshots of its baseline.
    """
    pinned = {pin.query for pin in file.settings.pins}
    skipped = {dataset.name: unasked(dataset, drawn.measured(also=pinned)) for dataset, drawn in _drawn(file, bases)}
    return [replace(snapshot, unasked=skipped[snapshot.dataset]) for snapshot in heads]


def _drawn(file: GateFile, bases: Sequence[SelectorSnapshot]) -> Iterator[tuple[Dataset, Dataset]]:
    """Every dataset of a gate file, and the split or sample of it that is used."""
    experiment = file.experiment
    for reference in experiment.datasets:
        dataset = open_edited(reference, bases=bases, base=experiment.base)
        yield dataset, select_queries(dataset, split=experiment.split, sample=experiment.sample, seed=experiment.seed)


def _selectors_unchanged(file: GateFile, bases: Sequence[SelectorSnapshot]) -> bool:
    """Whether selectors, versions and metrics are those of the baseline."""
    experiment = file.experiment
    parts = {part for metric in file.settings.measured for part in metric.parts}
    if any(spec.external or spec.like is not None for spec in experiment.selectors):
        return False
    current_versions = versions()
    if not all(
        snapshot.identity.versions == current_versions and parts <= snapshot.metrics.keys() for snapshot in bases
    ):
        return False
    try:
        embedder = open_embedder(experiment.embedder)
        counter = open_counter(experiment.tokens, cache=cache_dir())
        selectors = experiment.make_selectors(local_resources(embedder, counter), {})
        described = {name: selector.describe() for name, selector in selectors.items()}
    except UserError:
        return False  # asking the selectors reports the fault
    if foreign_code(type(embedder)) or any(map(plugin_steps, selectors.values())):
        return False
    values = {spec.name: dict(spec.values) for spec in experiment.selectors}
    return all(
        _same_description(snapshot.identity, described[snapshot.selector], values[snapshot.selector], counter.name)
        for snapshot in bases
    )


def _same_description(
    before: Identity, description: Mapping[str, Any], values: Mapping[str, Any], counter: str
) -> bool:
    """Whether a selector describes itself as it did in the baseline."""
    current = json.loads(dump_json([description, values]))
    return not before.external and before.tokens == counter and current == [before.selector, before.values]
