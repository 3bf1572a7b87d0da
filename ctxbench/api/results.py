"""Results as frames and runs, and `check` against a baseline."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import chain, combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ctxbench.api.inputs import Rankings, make_frame, qrels_frame, run_frame
from ctxbench.api.plots import Plots
from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.comparisons import compare_metric
from ctxbench.evaluation.experiment import failures_told
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import (
    HEADLINE,
    DatasetSummary,
    RunFolder,
    RunSummary,
    SelectorSummary,
    summarise_run,
)
from ctxbench.evaluation.statistics import Comparison, correct
from ctxbench.gate.gate import check_runs
from ctxbench.gate.results import Check, Verdict, whole_detail
from ctxbench.gate.settings import PRICES, settings_of
from ctxbench.io.errors import Message, ParameterError, StorageError, check_all_known, check_known, raise_first
from ctxbench.io.files import read_bytes
from ctxbench.model.arrays import Grade, IntArray
from ctxbench.model.selection import offered_at
from ctxbench.report.check_document import summary
from ctxbench.report.check_texts import ALLOW_REMOVED
from ctxbench.report.document import console_text
from ctxbench.report.run_tables import comparison_table, label_notes, reason_notes, size_notes, with_titles
from ctxbench.report.run_text import FigureTable, Provenance, figure_table

if TYPE_CHECKING:
    import pandas as pd

    from ctxbench.evaluation.answers import Part


def _listed(metrics: Sequence[str]) -> list[str]:
    """The names of metrics, each once; a single one may come as it is.

    Raises:
        ParameterError: there are none.
    """
    names = [metrics] if isinstance(metrics, str) else metrics
    raise_first((not isinstance(names, Collection) or not len(names), Message("api.no-metrics", metrics=metrics)))
    return list(dict.fromkeys(names))


class Results:
    """What selectors offered, and what that is worth.

    Attributes:
        folder: the run folder, as `ctxbench run` makes it.
        datasets: by name, what was asked.
        opened: the same, with the queries of other splits and outside of the sample.
    """

    def __init__(self, folder: Path, datasets: Mapping[str, Dataset], opened: Mapping[str, Dataset]) -> None:
        """Take a run that is finished.

        Args:
            folder: of the run.
            datasets: as they were run, by name.
            opened: whole, by name.
        """
        self.folder = folder
        self.datasets = datasets
        self.opened = opened
        self._run = RunFolder(folder)
        self._manifest = read_bytes(folder / "manifest.json")
        self._parts: dict[tuple[str, str], Part] = {}

    @property
    def run(self) -> RunFolder:
        """The run folder, read.

        Raises:
            StorageError: it holds another run by now.
        """
        if read_bytes(self.folder / "manifest.json") != self._manifest:
            raise StorageError(
                f"{self.folder} holds another run by now, so that these results are gone; give each "
                f"`evaluate` an `out` of its own, or none"
            )
        return self._run

    @cached_property
    def summary(self) -> RunSummary:
        """The figures that reports are made of."""
        return summarise_run(self.run)

    @property
    def provenance(self) -> Provenance:
        """What an appendix says of the run: versions, datasets with their hashes, selectors, seed, statistics, machine.

        A dict of dicts, by section. `print` shows a table in Markdown; `to_latex()` makes one in LaTeX. Parameters of
        selectors that are not listed have their defaults; those of a function are in its file, which is hashed.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25"], embedder="hashing", counter="chars/4")
            >>> res.provenance["run"]["token counter"], res.provenance["statistics"]["correction of p"]
            ('chars/4', 'Holm')
        """
        tests = {metric: comparison.test for (*_, metric), comparison in self._against.items()}
        return Provenance(self.summary, tests, self.run.timings())

    @property
    def plot(self) -> Plots:
        """Plots by matplotlib: `trade_off()`, `differences()`, `heat_map()`, `scores()` and `confusion()`.

        Each is a method of `ctxbench.api.plots.Plots`, such as `res.plot.differences("tokens", ax=ax)`.
        """
        return Plots(self.summary, self.datasets, part=self._part, compared=self._compared)

    @property
    def selectors(self) -> list[str]:
        """Their names, in order."""
        return list(self.summary.manifest["selectors"])

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics: those asked for, in order, then `forbidden_offered` where it applies."""
        return self.summary.metric_names

    def to_frame(self, *, intervals: bool = False) -> pd.DataFrame:
        """The mean of every metric, one row per selector (and dataset, if there are several).

        Args:
            intervals: with `... low` and `... high` of the 95% interval behind each, and what the comparison with the
                baseline says of completeness, of tokens and of every metric that was named: `... difference`, its own
                interval, `... p`, and `... p at floor`, 1 where p is an upper bound (no random resample was as
                extreme). Each p is Holm-corrected over all comparisons of the frame: selectors, metrics and datasets.

        Returns:
            Columns: `errors` (queries that failed), `queries`, `index_recall@20` where a selector has an approximate
            index, then metrics; NaN where one does not apply.
            `forbidden_offered` is there wherever a dataset has forbidden items, also if it was not named.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25"], embedder="hashing", counter="chars/4")
            >>> res.to_frame().columns[:3].tolist()
            ['errors', 'queries', 'completeness']
        """
        import pandas as pd

        rows = {
            (dataset.dataset, selector.selector): self._figures(dataset, selector, intervals=intervals)
            for dataset in self.summary.datasets
            for selector in dataset.selectors
        }
        frame = pd.DataFrame(rows.values(), index=pd.MultiIndex.from_tuples(rows, names=["dataset", "selector"]))
        return self._with_recall(frame if len(self.summary.datasets) > 1 else frame.droplevel("dataset"))

    def per_query(self) -> pd.DataFrame:
        """Every metric by query, one row per dataset, selector and query; NaN where it does not apply to the query.

        The last column, `error`, says why the selector failed on the query; empty where it did not. A query that was
        failed on counts as nothing offered.
        """
        import pandas as pd

        parts = (self._part(dataset, selector) for dataset in self.datasets for selector in self.selectors)
        frames = [
            pd.DataFrame(
                {
                    "dataset": part.dataset,
                    "selector": part.selector,
                    "query": list(part.answers.queries),
                    **part.metrics,
                    "error": [part.answers.errors.get(query, "") for query in part.answers.queries],
                }
            )
            for part in parts
        ]
        return self._with_recall(pd.concat(frames, ignore_index=True))

    def _with_recall(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame of figures, with the recall of approximate indexes by selector and dataset in its attributes."""
        selectors = self.summary.manifest["selectors"].items()
        if recalls := {name: about["index_recall"] for name, about in selectors if about.get("index_recall")}:
            frame.attrs["index_recall"] = recalls
        return frame

    def to_run(self, selector: str, dataset: str | None = None) -> pd.DataFrame:
        """The ranking of a selector as ir_measures takes it; metrics such as nDCG@10 are computed from it.

        For ranx: `ranx.Run.from_df(run, q_id_col="query_id", doc_id_col="doc_id", score_col="score")`.

        Args:
            selector: its name.
            dataset: where there are several.

        Returns:
            One row per query and item, best first: `query_id`, `doc_id`, `score`, `rank` (from 1).
            Items of the session are left out. A score is the selector's. Where scores do not fall strictly (ties,
            items that were added behind others), it is the next smaller 32-bit number, since trec_eval compares these:
            sorted by `score`, rows are in the order that was measured.

        Raises:
            UnknownNameError: there is no such selector or dataset.
            ParameterError: there are several datasets, or the selector does not rank.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25"], embedder="hashing", counter="chars/4")
            >>> import ir_measures
            >>> measure = ir_measures.nDCG @ 10
            >>> round(ir_measures.calc_aggregate([measure], res.qrels(), res.to_run("bm25"))[measure], 2)
            0.71
        """
        name = self._named(dataset)
        part, ids = self._part(name, selector), self.datasets[name].catalog.ids
        raise_first((not part.answers.ranked, Message("api.no-ranking", selector=selector)))
        return run_frame(part, ids)

    def qrels(self, dataset: str | None = None) -> pd.DataFrame:
        """The labels as ir_measures takes them, of the queries that ranking metrics are computed for.

        For ranx: `ranx.Qrels.from_df(qrels, q_id_col="query_id", doc_id_col="doc_id", score_col="relevance")`.

        Args:
            dataset: where there are several.

        Returns:
            One row per label: `query_id`, `doc_id`, `relevance` (2 required, 1 helpful, 0 irrelevant). A required item
            is relevant at `rel=2` (`l2` in ranx). Alternatives, and what the session holds, are not known there; with
            `judged="trec"` they do not count here either, and figures at `rel=1` are equal for every query.

        Raises:
            UnknownNameError: there is no such dataset.
            ParameterError: there are several.
        """
        return qrels_frame(self.datasets[self._named(dataset)])

    def rankings(self) -> Rankings:
        """Every item that was ranked, also those that were not offered, read as it is asked for.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25"], embedder="hashing", counter="chars/4")
            >>> sum(len(frame) for frame in res.rankings()) == len(res.rankings().to_frame())
            True
        """
        return Rankings(self.run, self.datasets, self.selectors)

    def forbidden(self) -> pd.DataFrame:
        """The items that were offered to queries whose labels call them irrelevant, most often first.

        Returns:
            One row per dataset, selector and item: `dataset`, `selector`, `item`, `queries` (how many).
        """
        rows = [
            (dataset.dataset, selector.selector, item, queries)
            for dataset in self.summary.datasets
            for selector in dataset.selectors
            for item, queries in selector.forbidden.items()
        ]
        return make_frame(rows, columns=["dataset", "selector", "item", "queries"])

    def compare(
        self,
        selector: str | None = None,
        baseline: str | None = None,
        *,
        metrics: Sequence[str] | None = None,
        by_group: bool = False,
        needed_for: float | None = None,
    ) -> pd.DataFrame:
        """Compare one selector with another on the same queries, or all pairs of selectors.

        Args:
            selector: its name; None = all pairs, or all selectors with `baseline` if that is given.
            baseline: the selector to compare with; None = the run's.
            metrics: names; the p-values are Holm-corrected over all rows of the frame. None = completeness and tokens,
                or where neither was measured, what was.
            by_group: queries of one group, such as paraphrases, are not independent; test and interval take groups
                for what is. By default they count queries, and are too narrow if the dataset has groups.
            needed_for: the difference that `needed` is for, in the metric's unit (0.03 = 3 points of nDCG), at the
                spread of the differences that was observed; None = the observed difference.

        Returns:
            One row per dataset and metric, and without `selector` per pair, named by `selector` and `baseline`, if both
            have values of the metric for the same query: `difference`, `low`, `high`, `p`, `p_at_floor` (`p` is an
            upper bound: no random resample was as extreme), `significant`, `higher`, `lower`, `equal` (in queries),
            `n`, `needed`, and `effect_size`, the mean difference in standard deviations of the differences by query
            (Cohen's d_z; infinite if all are equal and not 0, NaN for one query). `needed` is at how many queries such
            a difference is significant with power 0.8, at 0.05 / (rows of the frame), so that it is whatever the other
            rows give. The interval, `low` to `high`, is 95% for its row alone.

        Raises:
            UnknownNameError: there is no such selector or metric.
            ParameterError: `metrics` is empty, the selector or the baseline has no values of a metric by query, or
                there are no groups for `by_group`.

        Source: Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, section 2.3.5; Lakens, Calculating
            and reporting effect sizes, Frontiers in Psychology 4, 2013.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25", "everything"], embedder="hashing", counter="chars/4")
            >>> res.compare(metrics=["completeness"])[["selector", "baseline", "higher", "significant"]].values.tolist()
            [['everything', 'bm25', 10, True]]
        """
        raise_first((by_group and not self._group_notes(), Message("api.no-groups")))
        base = self._baseline(baseline)
        if metrics is None:
            defaults = [name for name in self._shown_metrics if not parse_metric(name).declaration.parts]
            metrics = [name for name in defaults if name in HEADLINE] or defaults
        names, parts = _listed(metrics), product(self.datasets, self.selectors)
        measured = dict.fromkeys([*self.metrics, *chain.from_iterable(self._part(*part).metrics for part in parts)])
        check_all_known("metric", names, measured)
        if selector is not None:
            uncorrected = {
                (dataset, selector, base, name): self._compared(dataset, selector, base, name, by_group=by_group)
                for dataset in self.datasets
                for name in names
            }
        else:
            pairs = self._pairs(base)
            if baseline is None:
                pairs += combinations([name for _, name in pairs], 2)
            uncorrected = self._comparisons(pairs, names, by_group=by_group)
        rows = [
            {
                "dataset": dataset,
                **({"selector": compared, "baseline": to} if selector is None else {}),
                "metric": name,
                "difference": comparison.difference,
                "low": comparison.interval.low,
                "high": comparison.interval.high,
                "p": comparison.p_holm,
                "p_at_floor": comparison.p_holm_at_floor,
                "significant": bool(comparison.significant),
                "higher": comparison.higher,
                "lower": comparison.lower,
                "equal": comparison.equal,
                "n": comparison.n,
                "needed": comparison.needed,
                "effect_size": comparison.standardised,
            }
            for (dataset, compared, to, name), comparison in correct(uncorrected, planned=needed_for).items()
        ]
        return self._with_recall(make_frame(rows))

    def explain(self, query: str, selector: str, *, dataset: str | None = None) -> pd.DataFrame:
        """Every candidate of a query: what was offered, and by which rule the others stayed out.

        Args:
            query: its id.
            selector: its name.
            dataset: where several have such a query.

        Returns:
            One row a candidate, in the selector's order, then what the query needs that is no candidate: `item`,
            `offered`, `score`, `grade` (2 required, 1 helpful, 0 irrelevant, NaN not labelled), `rule`, `mode`,
            `origin`, `via`; then what the pipeline has computed: the scores of each source of a `merge` (NaN = it did
            not find the item) and features, by name.

        Raises:
            UnknownNameError: there is no such query or selector.
        """
        name = self._with_query(query) if dataset is None else dataset
        source = self.datasets[name]
        block = next(block for block in self._part(name, selector).answers.blocks() if query in block.queries)
        table = block.candidates
        rows = table.rows(block.queries.index(query))
        grades = {label.item.id: int(label.grade) for label in source.labels_of(query)}
        order = np.argsort(~table.chosen[rows], kind="stable") + rows.start
        candidates = offered_at(source.catalog, table, order)
        listed = [
            {
                **{name: float(values[row]) for name, values in table.columns.items()},
                "item": candidate.id,
                "offered": bool(table.chosen[row]),
                "score": candidate.score,
                "grade": grades.get(candidate.id),
                "rule": "" if candidate.rule is None else str(candidate.rule),
                "mode": candidate.mode,
                "origin": candidate.origin,
                "via": candidate.via,
            }
            for candidate, row in zip(candidates, order.tolist(), strict=True)
        ]
        listed_ids = {candidate.id for candidate in candidates}
        listed += [
            {"item": item, "offered": False, "grade": grade, "rule": "no candidate"}
            for item, grade in grades.items()
            if item not in listed_ids and grade > Grade.IRRELEVANT
        ]
        columns = ["item", "offered", "score", "grade", "rule", "mode", "origin", "via", *table.columns]
        return make_frame(listed, columns=list(dict.fromkeys(columns)))

    def to_latex(
        self,
        metrics: Sequence[str] | None = None,
        *,
        baseline: str | None = None,
        stars: bool = True,
        bold: Literal["best"] | None = "best",
        intervals: bool = False,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        r"""The table of a paper: a row per selector, a column per metric, in groups if there are several datasets.

        Args:
            metrics: names; None = those that were named in `evaluate`, else `completeness` and `tokens`.
            baseline: the selector to compare with; None = the run's.
            stars: mark with a star what differs significantly from the baseline on the same queries: p at most 0.05
                after Holm's correction over all selectors, metrics and datasets of the table. The test, exact McNemar
                or sign flips, and the number of comparisons are below the table.
            bold: `best` = the best values of each column are bold, all that look the same; None = nothing is.
            intervals: with the 95% interval of each mean in brackets.
            caption, label: of a `table` around it, as LaTeX; None = without.

        Returns:
            LaTeX for `\usepackage{booktabs}`; ends with a line feed. A note below says how many queries the means are
            over, where not all, and how many failed. Names are escaped. Shares are in per cent.

        Raises:
            UnknownNameError: there is no such metric or selector, or `bold` is neither.
            ParameterError: `metrics` is empty.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25", "everything"], embedder="hashing", counter="chars/4")
            >>> print(res.to_latex(["tokens"], stars=False, bold=None), end="")
            \begin{tabular}{lr}
            \toprule
            selector & tokens per query \\
            \midrule
            bm25 & 240 \\
            everything & 1,151 \\
            \bottomrule
            \end{tabular}
        """
        table = self._paper_table(metrics, baseline, stars=stars, bold=bold, intervals=intervals)
        return table.latex(caption=caption, label=label)

    def to_markdown(
        self,
        metrics: Sequence[str] | None = None,
        *,
        baseline: str | None = None,
        stars: bool = True,
        bold: Literal["best"] | None = "best",
        intervals: bool = False,
    ) -> str:
        r"""The same table as `to_latex` makes, for GitHub.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25", "everything"], embedder="hashing", counter="chars/4")
            >>> print(res.to_markdown(["completeness"]).split("\n\n")[0])
            | selector | completeness, % |
            | --- | ---: |
            | bm25 | 61.5 |
            | everything | **100.0**\* |
        """
        return self._paper_table(metrics, baseline, stars=stars, bold=bold, intervals=intervals).markdown()

    def _paper_table(
        self, metrics: Sequence[str] | None, baseline: str | None, *, stars: bool, bold: str | None, intervals: bool
    ) -> FigureTable:
        base, names = self._baseline(baseline), self._shown_metrics if metrics is None else _listed(metrics)
        check_all_known("metric", names, self.metrics)
        if bold is not None:
            check_known("value of bold", bold, ["best"])
        compared = correct(self._comparisons(self._pairs(base), names)) if stars else {}
        table = figure_table(
            self.summary,
            [parse_metric(name) for name in names],
            {(dataset, selector, name): comparison for (dataset, selector, _, name), comparison in compared.items()},
            base=base,
            bold=bold is not None,
            intervals=intervals,
        )
        return replace(table, notes=(*table.notes, *self._group_notes())) if compared else table

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(line)}</p>" for line in self._notes())
        return f"{self._table().to_html(index=False, border=0)}{notes}"

    def __repr__(self) -> str:
        return "\n".join([self._table().to_string(index=False), *self._notes()])

    def _notes(self) -> list[str]:
        """How labels were judged, selectors fitted on them, what means leave out, missing figures, and failures."""
        titled = with_titles(self.summary)
        columns = {dataset: comparison_table(titled, dataset).columns for dataset in titled.datasets}
        keys = dict.fromkeys(column.key for of_dataset in columns.values() for column in of_dataset)
        reasons = chain.from_iterable(reason_notes(*pair) for pair in columns.items())
        notes = (*label_notes(self.summary.manifest), *size_notes(titled, keys), *dict.fromkeys(reasons))
        return [*notes, *self._failures()]

    def _table(self) -> pd.DataFrame:
        """The table of the console as texts: means with intervals; `*` = significantly different from the baseline."""
        rows = []
        titled_summary = with_titles(self.summary)
        for dataset, titled in zip(self.summary.datasets, titled_summary.datasets, strict=True):
            table = comparison_table(titled_summary, titled)
            for selector, row in zip(dataset.selectors, table.rows, strict=True):
                cells = {}
                for column in table.columns:
                    cell = row.cells[column.key]
                    against = self._against.get(
                        (dataset.dataset, selector.selector, self.summary.compare_to, column.key)
                    )
                    mark = "*" if against is not None and against.significant else ""
                    unit = " %" if column.unit == "%" else ""
                    cells[f"{column.title}{unit}"] = f"{cell.value}{mark} {cell.interval}".strip()
                rows.append({"dataset": dataset.dataset, "selector": row.selector, **cells})
        return make_frame(rows).fillna("")

    def _figures(self, dataset: DatasetSummary, selector: SelectorSummary, *, intervals: bool) -> dict[str, float]:
        """The row of a selector; NaN where a metric is not available."""
        row: dict[str, float] = {"errors": selector.errors, "queries": selector.queries}
        if recall := selector.notes.get("index_recall"):
            row[f"index_recall@{recall['k']}"] = recall["value"]
        for name in map(str, self.summary.metrics(dataset)):
            estimate = selector.estimates.get(name)
            row[name] = math.nan if estimate is None else estimate.value
            if intervals:
                low, high = (
                    (math.nan, math.nan)
                    if estimate is None or estimate.n == 0
                    else (estimate.interval.low, estimate.interval.high)
                )
                row |= {f"{name} low": low, f"{name} high": high}
        for (on, of, _, name), against in self._against.items() if intervals else ():
            if (on, of) != (dataset.dataset, selector.selector):
                continue
            row |= {
                f"{name} difference": against.difference,
                f"{name} difference low": against.interval.low,
                f"{name} difference high": against.interval.high,
                f"{name} p": against.p_holm,
                f"{name} p at floor": float(against.p_holm_at_floor),
            }
        return row

    @cached_property
    def _against(self) -> dict[tuple[str, str, str, str], Comparison]:
        """By dataset, selector, baseline and metric, what the table and the frame show; corrected for all of it.

        Shown are the headline metrics and, where the user named metrics, those.
        """
        return correct(self._comparisons(self._pairs(self.summary.compare_to), self._shown_metrics))

    @property
    def _shown_metrics(self) -> list[str]:
        named = self.summary.manifest["experiment"]["metrics"]
        return [name for name in named if self.summary.metrics_named or name in HEADLINE]

    def _comparisons(
        self, pairs: Sequence[tuple[str, str]], metrics: Sequence[str], *, by_group: bool = False
    ) -> dict[tuple[str, str, str, str], Comparison]:
        """By dataset, selector, baseline and metric, their comparison, not corrected.

        Left out are those without a query on which both have a value, as of metrics made of several means.

        Args:
            pairs: of a baseline and a selector.
            metrics: names.
            by_group: as `compare` takes it.
        """
        headline = {
            (dataset.dataset, row.selector, self.summary.compare_to, name): comparison
            for dataset in self.summary.datasets
            for row in dataset.selectors
            for name, comparison in row.against.items()
            if not by_group
        }
        compared = {}
        for dataset, (base, selector), name in product(self.datasets, pairs, metrics):
            key = (dataset, selector, base, name)
            if key in headline:
                compared[key] = headline[key]
            elif all(name in self._part(dataset, side).metrics for side in (base, selector)):
                compared[key] = self._compared(*key, by_group=by_group)
        return {key: comparison for key, comparison in compared.items() if comparison.n > 0}

    def _baseline(self, baseline: str | None) -> str:
        """The name of the selector to compare with; None = the run's."""
        if baseline is not None:
            check_known("baseline", baseline, self.selectors)
        return self.summary.compare_to if baseline is None else baseline

    def _pairs(self, base: str) -> list[tuple[str, str]]:
        """The baseline with each other selector."""
        return [(base, name) for name in self.selectors if name != base]

    def _failures(self) -> Iterator[str]:
        """A line for each selector that failed on queries of a dataset: on how many, and the first reason."""
        for dataset in self.summary.datasets:
            for selector in dataset.selectors:
                if selector.errors:
                    errors = self._part(dataset.dataset, selector.selector).answers.errors
                    yield f"warning: {failures_told(dataset.dataset, selector.selector, errors)[0]}; all: per_query()"

    def _compared(self, dataset: str, selector: str, base: str, name: str, *, by_group: bool = False) -> Comparison:
        """Compare one selector with another on one dataset and metric; p is not corrected."""
        base_part, selector_part = (self._part(dataset, side) for side in (base, selector))
        for part in (base_part, selector_part):
            if name not in part.metrics:
                raise ParameterError(Message("api.no-values", selector=part.selector, metric=name, dataset=dataset))
        metric, seed = parse_metric(name), int(self.summary.manifest["experiment"]["seed"])
        sides = ({metric: part.metrics[name]} for part in (base_part, selector_part))
        return compare_metric(metric, *sides, seed=seed, groups=self._groups(dataset) if by_group else None)

    def _groups(self, dataset: str) -> IntArray:
        """A number for the group of every query, shape (n_queries,); one without a group is a group alone."""
        queries = self.datasets[dataset].queries
        names = [("query", query.id) if query.group is None else ("group", query.group) for query in queries]
        number = {name: index for index, name in enumerate(dict.fromkeys(names))}
        return np.array([number[name] for name in names], dtype=np.int64)

    def _group_notes(self) -> list[str]:
        """That p counts queries, if a dataset has several queries of one group."""
        has_groups = any(len(set(groups)) < len(groups) for groups in map(self._groups, self.datasets))
        return [Message("api.p-by-query")] if has_groups else []

    def _part(self, dataset: str, selector: str) -> Part:
        check_known("selector", selector, self.selectors)
        if (dataset, selector) not in self._parts:
            self._parts[dataset, selector] = self.run.load(dataset, selector)
        return self._parts[dataset, selector]

    def _named(self, dataset: str | None) -> str:
        """The name of a dataset, which need not be given where there is one only."""
        names = list(self.datasets)
        raise_first((dataset is None and len(names) > 1, Message("api.name-dataset", names=names)))
        name = names[0] if dataset is None else dataset
        check_known("dataset", name, names)
        return name

    def _with_query(self, query: str) -> str:
        """The dataset that has the query, if one alone has it."""
        names = [name for name, dataset in self.datasets.items() if any(query == entry.id for entry in dataset.queries)]
        if len(names) > 1:
            raise ParameterError(f"query {query!r} is in {', '.join(names)}; say which by `dataset`")
        check_known("query", query, [entry.id for dataset in self.datasets.values() for entry in dataset.queries])
        return names[0]


@dataclass(frozen=True, eq=False)
class Checked:
    """The check of results against a baseline.

    Attributes:
        found: all that `ctxbench check` tells.
    """

    found: Check

    @property
    def verdict(self) -> Verdict:
        """The worst over all selectors: `not comparable`, `worse`, `inconclusive`, `better` or `same`."""
        return self.found.verdict

    def to_frame(self) -> pd.DataFrame:
        """The judged metrics.

        Returns:
            One row per dataset, selector and metric: `verdict`, the means `base` and `head`, their `difference` with
            `low` and `high`, `p` (Holm-corrected), `p_at_floor` (`p` is an upper bound: no random resample was as
            extreme), `tolerance`, and `detectable`, the smallest change for the worse that so many queries would tell
            apart four times in five.
        """
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
        return make_frame(rows, columns=[*columns, "p_at_floor", "tolerance", "detectable"])

    def changes(self) -> pd.DataFrame:
        """Items that went out or came in, in the order of the queries.

        Returns:
            One row per dataset, selector, query and item: `lost` (else it came in), `required`, `cause`, `detail`,
            `base_rank`, `head_rank`, `rule` (what keeps it out), and `fix`, what would bring a required item back.
        """
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
                "fix": str(change.fix),
            }
            for selector in self.found.selectors
            for change in selector.changes
        ]
        return make_frame(rows, columns=[*columns, "base_rank", "head_rank", "rule", "fix"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        return console_text(summary(self.found, removed=_ALLOW_REMOVED, more="Details: `changes()`."))


def check(
    results: Results,
    baseline: Results | str | Path,
    *,
    metrics: Sequence[str] = (),
    tolerance: Mapping[str, float | str] | None = None,
    allow_removed: bool = False,
) -> Checked:
    """Compare results with a baseline: is this change better or worse, beyond noise, what was lost, and why?

    Args:
        results: of `evaluate`, as it is now.
        baseline: results from before, the folder of a run, or the folder that `ctxbench check --accept` wrote.
            Selectors are paired by name; a single one on either side is, whatever it is called.
        metrics: what is judged besides tokens and, if queries have forbidden items, `forbidden_offered`; none =
            completeness and recall, as far as they were measured.
        tolerance: by metric how far it may move, as in a gate file: `{"nDCG@10": 0.02, "tokens": "50%"}`.
        allow_removed: leave out queries that are gone, changed or relabelled in place of refusing to judge.

    Returns:
        What was found; in a notebook it shows itself as `ctxbench check` does.

    Raises:
        UserError: a folder holds no finished run or baseline, a dataset has changed, or a metric or tolerance is none.

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
    settings = replace(settings_of(metrics, tolerance or {}), allow_removed=allow_removed)
    check_all_known("metric", metrics, [*results.metrics, *PRICES])
    before = baseline if isinstance(baseline, Results) else None
    base = Path(str(baseline)) if before is None else before.run.path
    result = check_runs(
        base,
        results.run.path,
        settings=settings,
        datasets=({} if before is None else before.opened, results.opened),
        names=("before" if before is not None else str(baseline), "now"),
    )
    return Checked(_in_python(result))


_ALLOW_REMOVED = "`allow_removed=True`"


def _in_python(result: Check) -> Check:
    """The check with options named as in Python, not as on the command line."""

    def translate(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.replace(ALLOW_REMOVED, _ALLOW_REMOVED) for text in texts)

    selectors = [
        replace(selector, reasons=translate(selector.reasons), notices=translate(selector.notices))
        for selector in result.selectors
    ]
    return replace(result, selectors=tuple(selectors), notices=translate(result.notices))
