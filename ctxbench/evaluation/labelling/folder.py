"""The folder of a dataset that is labelled: its log, its queue, and the dataset kept in step with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ctxbench.errors import ParameterError
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.files import CARD, read_dataset, write_dataset
from ctxbench.evaluation.labelling.answers import FOLDER, LOG, QUEUE, AnswerLog, Applied, apply_answers
from ctxbench.evaluation.labelling.predict import Predictor
from ctxbench.evaluation.labelling.queue import Queue, extended, make_queue, weights
from ctxbench.evaluation.labelling.session import Session
from ctxbench.evaluation.labelling.weights import write_weights
from ctxbench.fileio import exclusive


@dataclass(eq=False)
class LabelFolder:
    """A dataset's folder with its log of answers; made by `opened`.

    Attributes:
        path: the folder.
        dataset: with all answers of the log in it.
        log: of answers.
        notes: what was found and done on opening, one line each.
    """

    path: Path
    dataset: Dataset
    log: AnswerLog
    notes: list[str]

    def session(self, predictor: Predictor, *, seed: int = 0, focus: tuple[str, ...] = ()) -> Session:
        """A session that goes on where the last one ended; the first one draws the sample.

        Args:
            predictor: over this folder's dataset.
            seed: of the sample; of the first session only.
            focus: the figures that the sample is to narrow; of the first session only.

        Raises:
            ParameterError: the sample is drawn already, for other figures.
        """
        path = self.path / FOLDER / QUEUE
        queue = Queue.read(path)
        if queue is not None and focus and set(focus) != set(queue.focus):
            drawn = ", ".join(queue.focus) or "all figures"
            raise ParameterError(
                f"the sample in {path} was drawn to narrow {drawn}, and answers are weighed by it; leave --figure out"
            )
        open_ = Session(predictor, Queue(selectors=predictor.pool.names, seed=seed, strata=()), self.log).unsettled()
        if queue is None:
            made = make_queue(predictor, open_, seed=seed, focus=focus)
        else:
            answered = {answer.query for answer in self.log.answers}
            made = extended(queue, predictor, [query for query in open_ if query not in answered])
        if made is not queue:
            made.write(path)
        return Session(predictor, made, self.log)

    def save(self, session: Session | None = None) -> Applied:
        """Put the answers into the dataset's files, if any is not in them yet; weights go beside the log.

        Raises:
            ParameterError: the dataset was frozen meanwhile.
            StorageError: the folder cannot be written; the log is safe.
        """
        applied = apply_answers(self.dataset, self.log.answers)
        if applied.changed:
            write_dataset(applied.dataset, self.path)
        self.dataset = applied.dataset
        if session is not None:
            found = weights(session.queue, [query for query in session.touched if session.through(query)])
            write_weights(self.path, {q: round(w, 6) for q, w in found.items()}, session.queue.stratum_of())
        return applied


@contextmanager
def opened(path: Path) -> Iterator[LabelFolder]:
    """Open the folder of a dataset to label it; nobody else can meanwhile. Answers not in the files yet get there.

    Raises:
        ParameterError: it is frozen, no folder of a dataset, or open in another session.
        InputError: the dataset or the log is not valid.
    """
    if not (path / CARD).is_file():
        raise ParameterError(
            f"{path} is no folder of a dataset; labels are written into one: copy a named dataset with "
            "`ctxbench data import NAME --out FOLDER`, or import a log with `ctxbench data import traces`"
        )
    lock = path.resolve().with_name(f".{path.resolve().name}.labelling.lock")

    def taken() -> None:
        raise ParameterError(f"{path} is being labelled by another session; wait for its end")

    with exclusive(lock, waiting=taken):
        dataset = read_dataset(path)
        refuse_frozen(dataset, path)
        log = AnswerLog(path / FOLDER / LOG)
        notes = [log.repaired] if log.repaired else []
        folder = LabelFolder(path=path, dataset=dataset, log=log, notes=notes)
        applied = folder.save()
        if applied.changed:
            notes.append(f"{len(applied.changed)} queries answered earlier are now in the dataset's files")
        if applied.left:
            which = ", ".join(applied.left[:3]) + (", ..." if len(applied.left) > 3 else "")
            notes.append(
                f"{len(applied.left)} answered queries were changed by other means and are left alone: {which}"
            )
        if applied.gone:
            notes.append(f"{len(applied.gone)} answered queries are no longer in the dataset")
        yield folder


def refuse_frozen(dataset: Dataset, path: Path) -> None:
    """A frozen dataset is not changed.

    Raises:
        ParameterError: it is frozen.
    """
    if dataset.about.get("frozen"):
        raise ParameterError(
            f"dataset {path} is frozen and must stay as it is; copy the folder, take `frozen` out of the copy's card, "
            "give it a new version, and work on that"
        )
