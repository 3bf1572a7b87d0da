"""Labels that look wrong, from Python: found, shown as a frame, corrected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.data.labelling.pool import Pool
from ctxbench.data.labelling.review import Corrections, Finding, findings, write_patch
from ctxbench.library.dataset_frames import Data, load
from ctxbench.library.embedders import EmbedderGiven
from ctxbench.library.labelling import SelectorsGiven, ask_pool

if TYPE_CHECKING:
    import pandas as pd


def review(
    data: Data | str | Path,
    selectors: SelectorsGiven | None = None,
    *,
    embedder: EmbedderGiven = "minilm",
    progress: Progress = silent,
) -> Review:
    """Labels that look wrong: what all selectors rank far down though it is required, or first though it is not.

    `ctxbench data review` asks about the same labels on a terminal.

    Args:
        data: a dataset, or its name.
        selectors: two or more that rank, as for `evaluate`; the less they have in common, the more it tells. None = as
            for `label`.
        embedder: as for `evaluate`.
        progress: told how many queries each selector was asked.

    Raises:
        UserError: there is no such dataset, or a selector is unknown or alone.

    Example:
        >>> found = ctxbench.review("datasets/smoke", ["bm25", "dense"], embedder="hashing")
        >>> found.to_frame().columns[:5].tolist()
        ['severity', 'query', 'text', 'item', 'kind']
    """
    loaded = data if isinstance(data, Data) else load(data)
    pool = ask_pool(loaded.dataset, selectors, embedder, folder=None, progress=progress)
    return Review(loaded, pool, findings(pool))


class Review:
    """Labels that look wrong, and corrections of them.

    Attributes:
        data: what was reviewed.
    """

    def __init__(self, data: Data, pool: Pool, suspects: Sequence[Finding]) -> None:
        self.data = data
        self._pool = pool
        self._findings = {(finding.query, finding.item.id): finding for finding in suspects}
        self._corrections = Corrections(data.dataset)

    def to_frame(self) -> pd.DataFrame:
        """What looks wrong, worst first.

        Returns:
            One row a label: `severity` (0 to 1), `query`, `text`, `item`, `kind` (`required but far down` or `first but
            not required`), `grade` (NaN = no label), and a selector's rank under its name (NaN = beyond 20).
        """
        import pandas as pd

        texts = {query.id: query.request.text for query in self.data.dataset.queries}
        rows = [
            {
                "severity": finding.severity,
                "query": finding.query,
                "text": texts[finding.query],
                "item": finding.item.id,
                "kind": finding.kind,
                "grade": None if finding.label is None else finding.label.grade,
                **finding.ranks,
            }
            for finding in self._findings.values()
        ]
        return pd.DataFrame(rows, columns=["severity", "query", "text", "item", "kind", "grade", *self._pool.names])

    def regrade(self, query: str, item: str, grade: int, *, why: str = "") -> None:
        """Correct a label.

        Args:
            query: its id.
            item: its id; it need not be among those that look wrong.
            grade: 2 required, 1 helpful, 0 not needed.
            why: for whoever reads the corrections.

        Raises:
            UnknownNameError: there is no such query or item.
            ParameterError: there is no such grade.
            InputError: the query cannot have such a label, as where it may not get the item; nothing is changed.
        """
        dataset = self.data.dataset
        ids = [entry.id for entry in dataset.queries]
        if query not in ids:
            raise UnknownNameError("query", query, ids)
        if item not in dataset.catalog.ids:
            raise UnknownNameError("item", item, dataset.catalog.ids)
        if isinstance(grade, bool | float) or grade not in (0, 1, 2):
            raise ParameterError(f"grade must be 2 (required), 1 (helpful) or 0 (not needed), got {grade!r}")
        finding = self._findings.get((query, item))
        key = dataset.catalog[dataset.catalog.ids.index(item)].key
        self._corrections.regrade(
            (query, item), key, int(grade), query=query, why=why or (finding.kind if finding else "")
        )

    @property
    def corrected(self) -> Data:
        """The dataset with the corrections, in memory."""
        return Data(self._corrections.dataset)

    def save(self, path: str | Path) -> int:
        """Write the corrections as a patch; how many labels change.

        `ctxbench data review FOLDER --apply FILE` applies it.

        Raises:
            ParameterError: the file is there already.
            StorageError: it cannot be written.
        """
        if Path(path).exists():
            raise ParameterError(f"{path} is there already, and may hold other corrections; name another file")
        corrections = self._corrections.corrections
        write_patch(corrections, Path(path))
        return len(corrections)

    def _repr_html_(self) -> str:
        return str(self.to_frame().head(20).to_html(index=False, border=0))

    def __repr__(self) -> str:
        return f"Review({self.data.name}: {len(self._findings)} labels that {', '.join(self._pool.names)} contradict)"
