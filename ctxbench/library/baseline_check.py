"""The gate from Python: compares results with a baseline; verdict, lost items, and their causes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.core.errors import ParameterError
from ctxbench.gate.cause_texts import whole_detail
from ctxbench.gate.gate import check_runs
from ctxbench.gate.model import Check, Verdict
from ctxbench.library.result_frames import Results

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Checked:
    """The check of results against a baseline.

    Attributes:
        found: all that `ctxbench check` tells.
    """

    found: Check

    @property
    def verdict(self) -> Verdict:
        """The worst over all selectors: `not comparable`, `worse`, `cannot tell`, `better` or `same`."""
        return self.found.verdict

    def to_frame(self) -> pd.DataFrame:
        """The judged metrics.

        Returns:
            One row a dataset, selector and metric: `verdict`, the means `base` and `head`, their `difference` with
            `low` and `high`, `p` (Holm-corrected), `p_at_floor` (`p` is an upper bound: no random resample was as
            extreme), `tolerance`, and `detectable`, the smallest change for the worse that so many queries would tell
            apart four times in five.
        """
        import pandas as pd

        rows = [
            {
                "dataset": selector.dataset,
                "selector": selector.selector,
                "metric": judged.metric,
                "verdict": str(judged.verdict),
                "base": judged.base.value,
                "head": judged.head.value,
                "difference": judged.comparison.difference,
                "low": judged.comparison.interval.low,
                "high": judged.comparison.interval.high,
                "p": judged.comparison.p_holm,
                "p_at_floor": judged.comparison.p_holm_at_floor,
                "tolerance": judged.tolerance,
                "detectable": judged.detectable,
            }
            for selector in self.found.selectors
            for judged in selector.metrics
        ]
        columns = ["dataset", "selector", "metric", "verdict", "base", "head", "difference", "low", "high", "p"]
        return pd.DataFrame(rows, columns=[*columns, "p_at_floor", "tolerance", "detectable"])

    def changes(self) -> pd.DataFrame:
        """Items that went out or came in, in the order of the queries.

        Returns:
            One row a dataset, selector, query and item: `lost` (else it came in), `required`, `cause`, `detail`,
            `base_rank`, `head_rank`, `rule` (what keeps it out), and `remedy`, what would bring a required item back.
        """
        import pandas as pd

        columns = ["dataset", "selector", "query", "item", "lost", "required", "cause", "detail"]
        rows = [
            {
                "dataset": selector.dataset,
                "selector": selector.selector,
                "query": change.query,
                "item": change.item,
                "lost": change.lost,
                "required": change.required,
                "cause": str(change.cause.kind),
                "detail": whole_detail(change.cause),
                "base_rank": change.base_rank,
                "head_rank": change.head_rank,
                "rule": "" if change.rule is None else str(change.rule),
                "mend": str(change.remedy),
            }
            for selector in self.found.selectors
            for change in selector.changes
        ]
        return pd.DataFrame(rows, columns=[*columns, "base_rank", "head_rank", "rule", "mend"])

    def _text(self) -> str:
        from ctxbench.report.document_console import console_text
        from ctxbench.report.gate.check_conclusion import PYTHON
        from ctxbench.report.gate.check_document import document

        return console_text(document(self.found, speech=PYTHON))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self._text())}</pre>"

    def __repr__(self) -> str:
        return self._text()


def check(results: Results, baseline: Results | str | Path, *, allow_removed: bool = False) -> Checked:
    """Compare results with a baseline: is this change better or worse, beyond noise, what was lost, and why?

    Args:
        results: of `evaluate`, as it is now.
        baseline: results from before, the folder of a run, or the folder that `ctxbench check --accept` wrote.
            Selectors are paired by name; a single one on either side is, whatever it is called.
        allow_removed: leave out queries that are gone, changed or relabelled in place of refusing to judge.

    Returns:
        What was found; in a notebook it shows itself as `ctxbench check` does.

    Raises:
        UserError: a folder holds neither a finished run nor a baseline, or a dataset has changed since a run.

    Example:
        >>> settings = {"embedder": "hashing", "counter": "chars/4"}
        >>> before = ctxbench.evaluate("datasets/smoke", ["bm25"], **settings)
        >>> short = ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}])
        >>> now = ctxbench.evaluate("datasets/smoke", {"bm25": short}, **settings)
        >>> str(ctxbench.check(now, before).verdict)
        'worse'
    """
    arguments: tuple[object, object] = (results, baseline)
    if not (isinstance(arguments[0], Results) and isinstance(arguments[1], Results | str | Path)):
        wrong = arguments[1] if isinstance(arguments[0], Results) else arguments[0]
        raise ParameterError(
            f"what is checked are results of `evaluate`, against such results or a folder; got {type(wrong).__name__}"
        )
    before = baseline if isinstance(baseline, Results) else None
    base = Path(str(baseline)) if before is None else before.run.path
    result = check_runs(
        base,
        results.run.path,
        allow_removed=allow_removed,
        datasets=({} if before is None else before.opened, results.opened),
        names=("before" if before is not None else str(baseline), "now"),
    )
    return Checked(_in_python(result))


def _in_python(result: Check) -> Check:
    """The check with options named as in Python, not as on the command line."""
    from ctxbench.report.gate.check_conclusion import COMMAND, PYTHON

    def translate(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.replace(COMMAND.removed, PYTHON.removed) for text in texts)

    selectors = [
        replace(selector, reasons=translate(selector.reasons), notices=translate(selector.notices))
        for selector in result.selectors
    ]
    return replace(result, selectors=tuple(selectors), notices=translate(result.notices))
