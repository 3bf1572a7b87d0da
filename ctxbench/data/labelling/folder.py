"""The folder of a dataset that is labelled: its log, its queue, and the dataset, which follows the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.layout import CARD, near_folder
from ctxbench.data.datasets.lookup import importers
from ctxbench.data.datasets.reader import read_dataset
from ctxbench.data.datasets.writer import write_dataset
from ctxbench.data.labelling.answer_log import AnswerLog, Applied, active, apply_answers
from ctxbench.data.labelling.labelling_session import LabellingSession
from ctxbench.data.labelling.predict import Predictor
from ctxbench.data.labelling.query_files import FOLDER, LOG, QUEUE, write_weights
from ctxbench.data.labelling.queue import Queue, extended, make_queue
from ctxbench.data.labelling.review import patched
from ctxbench.io.files import exclusive

_UNSEEN = "Nobody has looked at the labels."  # what an import of a log says
_MARK = "Since then people have labelled: "
UNNAMED = "as the card says"  # labels without a source of their own


@dataclass(eq=False)
class LabelFolder:
    """A dataset's folder with its log of answers; made by `opened`.

    Attributes:
        path: the folder.
        dataset: with all answers of the log in it.
        log: of answers.
        notes: what was found and done on opening, one line each.
        left: queries whose answers do not count, since their labels were changed by other means.
        writes: whether files are written at all; False to say only where the figures stand.
    """

    path: Path
    dataset: Dataset
    log: AnswerLog
    notes: list[str]
    left: tuple[str, ...] = ()
    writes: bool = True

    def session(self, predictor: Predictor, *, seed: int = 0, focus: tuple[str, ...] = ()) -> LabellingSession:
        """A session that continues where the last one ended; the first one draws the sample.

        Args:
            predictor: over this folder's dataset.
            seed: of the sample; of the first session only.
            focus: the figures that the sample is to narrow; of the first session only.

        Raises:
            ParameterError: the sample is drawn already, for other figures, or it is lost.
        """
        path = self.path / FOLDER / QUEUE
        queue = Queue.read(path)
        if queue is not None and focus and set(focus) != set(queue.focus):
            drawn = ", ".join(queue.focus) or "all figures"
            raise ParameterError(
                f"the sample in {path} was drawn to narrow {drawn}, and answers are weighed by it; leave --figure out"
            )
        if queue is None and any(answer.stratum >= 0 for answer in active(self.log.answers)):
            raise ParameterError(
                f"{path} is missing: it says which queries were drawn, and without it the answers in {self.log.path} "
                "have no weights; bring it back from a copy, or, to draw a new sample, move the answers away: their "
                "labels are in the dataset, but count as known from then on, so that figures lean to what was asked"
            )
        none = Queue(selectors=predictor.pool.names, seed=seed, strata=())
        open_ = LabellingSession(predictor, none, self.log, left=self.left).unsettled()
        if queue is None:
            new_queue = make_queue(predictor, open_, seed=seed, focus=focus)
        else:
            answered = {answer.query for answer in self.log.answers}
            new_queue = extended(queue, predictor, [query for query in open_ if query not in answered])
        if new_queue is not queue and self.writes:
            new_queue.write(path)
        return LabellingSession(predictor, new_queue, self.log, left=self.left)

    def save(self, session: LabellingSession | None = None) -> Applied:
        """Write the answers into the dataset's files, and the weights to the folder of the log.

        The card says then how many labels come from where.

        Raises:
            ParameterError: the dataset was frozen meanwhile.
            StorageError: the folder cannot be written; the log is safe.
        """
        # Read anew: whatever else was written into the folder since it was opened stays.
        dataset = read_dataset(self.path)
        refuse_frozen(dataset, self.path)
        applied = apply_answers(dataset, self.log.answers)
        labelled = with_sources(applied.dataset) if self.log.answers else applied.dataset
        if labelled is not dataset and self.writes:
            write_dataset(labelled, self.path)
        self.dataset, self.left = labelled, applied.left
        if session is not None and self.writes:
            weights = {query: round(weight, 6) for query, weight in session.sample().weights().items()}
            write_weights(self.path, weights, session.queue.stratum_of())
        return applied

    def correct(self, patch: Path) -> int:
        """Apply a patch of `data review` to the dataset's files; returns how many labels changed.

        Raises:
            InputError: the patch is not valid, or a label is not what it says it was; nothing is applied.
            StorageError: a file cannot be read or written.
        """
        corrected, changed = patched(self.dataset, patch)
        self.dataset = with_sources(corrected)
        write_dataset(self.dataset, self.path)
        return changed


@contextmanager
def opened(path: Path, *, writes: bool = True) -> Iterator[LabelFolder]:
    """Open and lock the folder of a dataset to label it. Answers that are not in the files yet are written.

    Args:
        path: the folder.
        writes: False leaves its files as they are; `save` and `session` write nothing then.

    Raises:
        ParameterError: it is frozen, no folder of a dataset, or open in another session.
        InputError: the dataset or the log is not valid.
    """
    if not (path / CARD).is_file():
        named = str(path) in importers()
        copy = f"ctxbench data import {path if named else 'NAME'} --out FOLDER"
        is_none = f"{path} is no folder of a dataset" if named or path.exists() else f"there is no folder {path}"
        raise ParameterError(
            f"{is_none}; labels are written into one: copy a named dataset with `{copy}`, or import a log with "
            f"`ctxbench data import traces`{near_folder(path)}"
        )
    lock = path.resolve().with_name(f".{path.resolve().name}.labelling.lock")

    def check_state() -> None:
        raise ParameterError(f"{path} is being labelled by another session; wait for its end")

    with exclusive(lock, waiting=check_state):
        dataset = read_dataset(path)
        refuse_frozen(dataset, path)
        log = AnswerLog(path / FOLDER / LOG)
        notes = [log.repaired] if log.repaired else []
        folder = LabelFolder(path=path, dataset=dataset, log=log, notes=notes, writes=writes)
        applied = folder.save()
        if applied.changed and writes:
            notes.append(f"{len(applied.changed)} queries answered earlier are now in the dataset's files")
        if applied.left:
            names = ", ".join(applied.left[:3]) + (", ..." if len(applied.left) > 3 else "")
            since = "have other labels since (by hand, or by `data rebase`) and are left alone"
            notes.append(f"{len(applied.left)} answered queries {since}: {names}")
        if applied.gone:
            notes.append(f"{len(applied.gone)} answered queries are no longer in the dataset")
        yield folder


def refuse_frozen(dataset: Dataset, path: Path) -> None:
    """Raise if a dataset is frozen.

    Raises:
        ParameterError: it is frozen.
    """
    if dataset.about.get("frozen"):
        raise ParameterError(
            f"dataset {path} is frozen and must stay as it is; copy the folder, take `frozen` out of the copy's card, "
            "give it a new version, and work on that"
        )


def with_sources(dataset: Dataset) -> Dataset:
    """The dataset with counts and shares of its labels by source in its card; the same if they are there already.

    `labelling` gets a closing sentence in place of an older one, and `notes`, unless they are a text, `label_sources`.
    """
    counts = Counter(label.source or UNNAMED for label in dataset.labels)
    by_source = {name: {"labels": n, "share": round(n / counts.total(), 4)} for name, n in sorted(counts.items())}
    about = dict(dataset.about)
    if isinstance(about.get("labelling"), str):
        about["labelling"] = _describe_labelling(about["labelling"], dataset, counts)
    notes = about.get("notes")
    if notes is None or isinstance(notes, Mapping):
        about["notes"] = {**(notes or {}), "label_sources": by_source}
    return dataset if about == dict(dataset.about) else replace(dataset, about=about)


def _describe_labelling(labelling: str, dataset: Dataset, counts: Counter[str]) -> str:
    start = labelling.split(_MARK, maxsplit=1)[0].replace(_UNSEEN, "").rstrip()
    total = counts.total()
    shares = ", ".join(
        f"{n:,} {name} ({n / total:.1%})" for name, n in sorted(counts.items(), key=lambda pair: -pair[1])
    )
    queries = dataset.queries
    partly = sum(query.partly_labelled for query in queries)
    nothing = sum(query.needs_nothing for query in queries)
    return (
        f"{start} {_MARK}of {total:,} labels now, by source: {shares or 'none'}. Of {len(queries):,} queries, "
        f"{len(dataset.judged().queries):,} are labelled wholly ({nothing:,} of them need nothing), {partly:,} partly."
    ).lstrip()
