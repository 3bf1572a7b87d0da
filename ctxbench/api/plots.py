"""Plots of results and of tuning, and the items that selectors confuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.api.inputs import make_frame
from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.answers import Part
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import HEADLINE, DatasetSummary, RunSummary
from ctxbench.evaluation.statistics import Comparison, correct
from ctxbench.io.errors import Message, ParameterError, UnknownNameError, check_all_known, check_known, raise_first
from ctxbench.model.arrays import FloatArray, Grade, IntArray
from ctxbench.model.candidates import Origin
from ctxbench.report import document, run_charts, tuning_document
from ctxbench.report.charts import HeatMap, colours, heat_map, ink, lines, mark_numbers
from ctxbench.report.run_tables import selector_titles
from ctxbench.report.scores import LabelCodes, ScoreGroup, score_groups
from ctxbench.report.tuning_document import cells as grid_cells
from ctxbench.report.tuning_tables import setting_text
from ctxbench.selectors.selector import Value
from ctxbench.tuning.results import DatasetTuning, MeanGrid, Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


GROUPINGS = ("server", "type")
"""How items are grouped."""
NO_SERVER = "(no server)"
_MOST = 20  # groups; of more, the smallest are merged into one


@dataclass(frozen=True, eq=False, kw_only=True)
class Confusion:
    """Groups of required items (rows) against groups of the other items that were offered (columns).

    Attributes:
        by: one of `GROUPINGS`.
        required: names of the rows.
        queries: how many queries need an item of the group, one a row.
        extras: names of the columns: all groups, of which the rows are the first.
        counts: items offered that are neither required nor helpful, shape (len(required), len(extras)).
    """

    by: str
    required: tuple[str, ...]
    queries: tuple[int, ...]
    extras: tuple[str, ...]
    counts: IntArray

    @property
    def shares(self) -> FloatArray:
        """The counts as shares of their row, shape as `counts`; NaN in a row without any."""
        total = self.counts.sum(axis=1, keepdims=True).astype(np.float64)
        shares: FloatArray = np.divide(self.counts, total, out=np.full(self.counts.shape, np.nan), where=total > 0)
        return shares


def confusion(dataset: Dataset, part: Part, by: str) -> Confusion:
    """Count what was offered beyond what was needed.

    Counted is each item that the selector added to a query (what its session held is not) and that the query's labels
    call neither required nor helpful. It counts in the row of every group that the query requires an item of;
    alternatives are all required. Queries that need nothing are left out, and groups that are neither needed nor
    offered. Of more than 20 groups, the 19 that most queries need (then those most offered) are shown, and the others
    together as one.

    Args:
        dataset: as it was run; queries whose required items are not all known are not counted.
        part: the answers of the selector.
        by: `server` or `type`; items without a server are a group of their own.

    Raises:
        UnknownNameError: `by` is neither.
        ParameterError: no query needs an item.
    """
    import pandas as pd

    check_known("grouping", by, GROUPINGS)
    group_names = [item.type if by == "type" else item.server or NO_SERVER for item in dataset.catalog]
    group, names = pd.factorize(np.array(group_names, dtype=object))
    labels = LabelCodes.of(dataset).of_complete()
    query, item = np.divmod(labels.with_grade(Grade.REQUIRED), labels.n_items)
    raise_first((not len(query), Message("api.nothing-needed", dataset=dataset.name)))
    needs = pd.DataFrame({"query": query, "required": group[item]}).drop_duplicates()
    extras = _extras(part, labels, group)
    extras = extras[extras["query"].isin(needs["query"])]
    sizes = pd.DataFrame({"needs": needs["required"].value_counts(), "items": extras.groupby("extra")["items"].sum()})
    order = sizes.fillna(0).sort_index().sort_values(["needs", "items"], ascending=False, kind="stable").index.tolist()
    listed = order if len(order) <= _MOST else order[: _MOST - 1]
    titles = [names[index] for index in listed]
    titles += [f"{len(order) - len(listed)} others"] * (len(order) > len(listed))
    row_of_group = np.full(len(names), len(listed), dtype=np.int64)
    row_of_group[listed] = np.arange(len(listed))
    needs = needs.assign(required=row_of_group[needs["required"]]).drop_duplicates()  # the merged groups count once
    queries = needs["required"].value_counts().sort_index()
    joined = extras.assign(extra=row_of_group[extras["extra"]]).merge(needs, on="query")
    counts = joined.pivot_table(index="required", columns="extra", values="items", aggfunc="sum", fill_value=0)
    return Confusion(
        by=by,
        required=tuple(titles[row] for row in queries.index),
        queries=tuple(queries.tolist()),
        extras=tuple(titles),
        counts=counts.reindex(index=queries.index, columns=range(len(titles)), fill_value=0).to_numpy(dtype=np.int64),
    )


def _extras(part: Part, labels: LabelCodes, group: IntArray) -> pd.DataFrame:
    """What was added that is not needed: `query`, `extra` (its group) and `items` (how many), each pair once."""
    import pandas as pd

    counts, first = [], 0
    useful = labels.with_grade(Grade.HELPFUL, Grade.REQUIRED)
    for block in part.answers.blocks():
        table = block.candidates
        query = table.request + first
        first += table.n_requests
        extra = table.chosen & (table.origin != Origin.SESSION)
        extra &= ~np.isin(query * labels.n_items + table.item, useful)
        counts.append(pd.DataFrame({"query": query[extra], "extra": group[table.item[extra]]}).value_counts())
    return pd.concat(counts).rename("items").reset_index()


Drawing: TypeAlias = Callable[["Axes"], None]
Style: TypeAlias = str | dict[str, Any] | None
_WIDE = 7.0  # inches from which on two plots stand side by side, not three


class Plots:
    """Plots of what selectors offered; each method draws one on `ax`, and returns it.

    Without `ax` each makes a figure, with one plot per dataset, and returns its axes, for several datasets as an array.
    Nothing is shown or saved (`ax.figure.savefig("plot.png")`). A figure of your own makes room for long names if it
    has `layout="constrained"`.

    `x`, `y` and `metric` are names, and the axis of a metric is titled alike in all plots. `style` is for one plot: the
    name of a style of matplotlib, such as `ggplot`, or a dict of settings, such as `{"font.family": "serif"}`; on an
    `ax` of your own it changes only what is drawn. A selector has the same colour in every plot, whatever the style.
    """

    def __init__(
        self,
        summary: RunSummary,
        datasets: Mapping[str, Dataset],
        *,
        part: Callable[[str, str], Part],
        compared: Callable[[str, str, str, str], Comparison],
    ) -> None:
        """Take results.

        Args:
            summary: the figures.
            datasets: as they were run, by name.
            part: gives the answers on a dataset of a selector.
            compared: gives, for a dataset, a selector, a baseline and a metric, their comparison, not corrected.
        """
        self._summary = summary
        self._titles = selector_titles(summary.manifest)
        self._datasets = datasets
        self._part = part
        self._compared = compared

    def trade_off(
        self,
        x: str = "tokens",
        y: str = "completeness",
        *,
        dataset: str | None = None,
        ax: Axes | None = None,
        style: Style = None,
    ) -> Any:
        """One metric against another: what a selector is worth, and at what price.

        Each selector is a mark with its name and both 95 % intervals; a dotted one does not hold, as there are too few
        queries, and one with an infinite end is left out. The baseline is a square. The thin line is the Pareto front:
        no other selector is as good as those on it on both metrics, and better on one. An axis of amounts is
        logarithmic where they spread more than 20 times. At most a quarter of the selectors, the baseline among them if
        it is so far away, are triangles with their figures and without intervals at the end of an axis: those with less
        than half of the best share, and those with more than 20 times the amount of the others. A selector without one
        of the two is left out.

        Args:
            x, y: names of metrics that were asked for.
            dataset: which; None = all, one plot each.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Returns:
            The axes, or an array of them, one a dataset.

        Raises:
            UnknownNameError: there is no such metric or dataset.
            ParameterError: tokens or completeness was not measured, no selector has both, or `ax` is given for several
                datasets.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25", "everything"], embedder="hashing", counter="chars/4")
            >>> ax = res.plot.trade_off()
            >>> ax.get_xlabel(), ax.get_ylabel()
            ('tokens per query', 'completeness, %')
        """
        unmeasured = [name for name in (x, y) if name in HEADLINE and name not in self._summary.metric_names]
        raise_first((unmeasured, Message("api.metric-not-measured", metrics=unmeasured)))
        check_all_known("metric", (x, y), self._summary.metric_names)
        metrics = parse_metric(x), parse_metric(y)
        drawn: dict[str, Drawing] = {}
        for summary in self._chosen(dataset, ax):
            if not (points := run_charts.points_of(summary, *metrics)):
                raise ParameterError(f"no selector has both {x} and {y} on dataset {summary.dataset!r}")
            drawn[summary.dataset] = partial(
                run_charts.trade_off,
                points={self._titles[name]: point for name, point in points.items()},
                base=self._titles[self._summary.compare_to],
                metrics=metrics,
                colours=self._colours,
            )
        return _on(ax, drawn, {name: name for name in drawn}, style=style)

    def differences(
        self,
        metric: str = "completeness",
        *,
        baseline: str | None = None,
        dataset: str | None = None,
        ax: Axes | None = None,
        style: Style = None,
    ) -> Any:
        """How much each selector differs from the baseline on the same queries, with 95 % intervals.

        A filled mark is significant, a hollow one is not: p is Holm-corrected over the comparisons of the
        dataset. Against the run's baseline these are, for `completeness` and `tokens`, both metrics of all selectors,
        as on the run's page; else what the plot shows. An interval is of the one difference alone. Next to it is on
        how many queries the selector is higher and lower. Selectors are in the order of the run, the first on top.

        Args:
            metric: the name of one that was asked for.
            baseline: from which selector; None = the run's.
            dataset: which; None = all, one plot each.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Returns:
            The axes, or an array of them, one a dataset.

        Raises:
            UnknownNameError: there is no such metric, selector or dataset.
            ParameterError: no selector can be compared, or `ax` is given for several datasets.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25", "everything"], embedder="hashing", counter="chars/4")
            >>> ax = res.plot.differences()
            >>> [label.get_text() for label in ax.get_yticklabels()]
            ['everything']
        """
        check_known("metric", metric, self._summary.metric_names)
        base = self._summary.compare_to if baseline is None else baseline
        check_known("baseline", base, self._selectors)
        by_dataset = {summary.dataset: self._against(summary, metric, base) for summary in self._chosen(dataset, ax)}
        raise_first(
            *(
                (not against, Message("api.not-compared", baseline=base, metric=metric, dataset=name))
                for name, against in by_dataset.items()
            )
        )
        drawn: dict[str, Drawing] = {
            name: partial(
                run_charts.differences,
                comparisons={self._titles[selector]: difference for selector, difference in against.items()},
                metric=parse_metric(metric),
                base=self._titles[base],
                colours=self._colours,
            )
            for name, against in by_dataset.items()
        }
        height = 1.2 + 0.45 * max(map(len, by_dataset.values()))
        return _on(ax, drawn, {name: name for name in drawn}, height=height, style=style)

    def scores(
        self,
        selector: str | None = None,
        *,
        dataset: str | None = None,
        ax: Axes | None = None,
        style: Style = None,
    ) -> Any:
        """Histograms of the scores of required and of other items, as in reports.

        Up are the scores of required items among the candidates. Down are the best score of an item that is neither
        needed nor helpful, one per query that needs something, and below that the best score of each query that needs
        nothing. A dashed line is a threshold of the selector. If a threshold is compared with other scores than those
        of all items (of one type, or relative to the best) and none with those, the scores drawn are the ones that
        the first is compared with; the title of the axis says which.

        Args:
            selector: whose; None = the baseline, or the first that has scores where that has none.
            dataset: which; None = all, one plot each.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Returns:
            The axes, or an array of them, one a dataset.

        Raises:
            UnknownNameError: there is no such selector or dataset.
            ParameterError: the selector gives no scores, or the same to all; or `ax` is given for several datasets.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25", "everything"], embedder="hashing", counter="chars/4")
            >>> res.plot.scores("bm25").get_title()
            'bm25 on smoke'
        """
        if selector is not None:
            check_known("selector", selector, self._selectors)
        drawn: dict[str, Drawing] = {}
        titles = {}
        for summary in self._chosen(dataset, ax):
            name, group = self._scored(summary.dataset, selector)
            drawn[summary.dataset] = partial(run_charts.scores, group=group)
            titles[summary.dataset] = f"{self._titles[name]} on {summary.dataset}"
        return _on(ax, drawn, titles, style=style)

    def confusion(
        self,
        by: str = "server",
        *,
        selector: str | None = None,
        dataset: str | None = None,
        ax: Axes | None = None,
        style: Style = None,
    ) -> Any:
        """Which items come along with what is needed: a heat map of groups of items.

        The cell in row A and column B: take all queries that require an item of group A, and of what the selector added
        to them (what the session held is not counted) every item that the query's labels call neither required nor
        helpful; the cell is the share of those items that are of group B, in per cent, so that a row adds up to 100. A
        query that requires items of several groups counts in the row of each, alternatives included; one that needs
        nothing in none. A row stays empty where nothing else was offered. Behind a row's name stands how many queries
        need it. Groups are in the order of that number. Of more than 20 the first 19 are shown, and the others
        together.

        Args:
            by: what groups items: `server` or `type`; items without a server are a group of their own.
            selector: whose; None = the baseline.
            dataset: which; None = all, one plot each.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Returns:
            The axes, or an array of them, one a dataset.

        Raises:
            UnknownNameError: there is no such selector or dataset, or `by` is neither.
            ParameterError: no query needs anything, or `ax` is given for several datasets.

        Example:
            >>> res = ctxbench.evaluate("datasets/smoke", ["bm25"], embedder="hashing", counter="chars/4")
            >>> ax = res.plot.confusion(by="type")
            >>> ax.get_yticklabels()[0].get_text()
            'tool (17)'
        """
        name = self._summary.compare_to if selector is None else selector
        check_known("selector", name, self._selectors)
        chosen = [summary.dataset for summary in self._chosen(dataset, ax)]
        tables = {
            dataset_name: confusion(self._datasets[dataset_name], self._part(dataset_name, name), by)
            for dataset_name in chosen
        }
        drawn: dict[str, Drawing] = {
            dataset_name: partial(_shares, table=table) for dataset_name, table in tables.items()
        }
        width = max(2.4 + 0.36 * max(len(table.extras) for table in tables.values()), 5.2)
        titles = {dataset_name: f"{self._titles[name]} on {dataset_name}" for dataset_name in chosen}
        height = max(2.2 + 0.28 * max(len(table.required) for table in tables.values()), 3.8)
        return _on(ax, drawn, titles, width=width, height=height, style=style)

    def heat_map(
        self,
        x: str,
        y: str,
        *,
        metric: str = "completeness",
        dataset: str | None = None,
        ax: Axes | None = None,
        style: Style = None,
    ) -> Any:
        """A metric over two parameters: a cell for each selector of the run that has both.

        Give `evaluate` a selector for each pair of values. Selectors without one of the parameters are left out.

        Args:
            x, y: parameters.
            metric: the name of one that was asked for.
            dataset: which; None = all, one plot each.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Returns:
            The axes, or an array of them, one a dataset.

        Raises:
            UnknownNameError: there is no such metric or dataset.
            ParameterError: no selector has both parameters, two have the same values of both, or `ax` is given for
                several datasets.

        Example:
            >>> sizes = {f"{k}, {n}": {"selector": "semantic", "set": {"contextTopK": k, "contextTopN": n}}
            ...          for k in (5, 20) for n in (1, 3, 5)}
            >>> res = ctxbench.evaluate("datasets/smoke", sizes, embedder="hashing", counter="chars/4")
            >>> ax = res.plot.heat_map("contextTopN", "contextTopK", metric="tokens")
            >>> [label.get_text() for label in ax.get_xticklabels()]
            ['1', '3', '5']
        """
        check_known("metric", metric, self._summary.metric_names)
        values = {name: described.get("values", {}) for name, described in self._summary.manifest["selectors"].items()}
        cells = {name: (setting[x], setting[y]) for name, setting in values.items() if {x, y} <= setting.keys()}
        chosen = self._chosen(dataset, ax)
        raise_first(
            (not cells, Message("api.no-grid", x=x, y=y)),
            (len(set(cells.values())) < len(cells), Message("api.grid-repeats", x=x, y=y, selectors=list(cells))),
        )
        drawn: dict[str, Drawing] = {
            summary.dataset: partial(draw_grid, chart=_grid((x, y), cells, summary, metric), metric=metric)
            for summary in chosen
        }
        return _on(ax, drawn, {name: f"{metric} on {name}" for name in drawn}, style=style)

    @property
    def _selectors(self) -> list[str]:
        return list(self._summary.manifest["selectors"])

    @property
    def _colours(self) -> dict[str, str]:
        return colours(self._titles.values())

    def _chosen(self, dataset: str | None, ax: Axes | None) -> list[DatasetSummary]:
        """The datasets that are drawn."""
        names = [summary.dataset for summary in self._summary.datasets]
        if dataset is not None:
            check_known("dataset", dataset, names)
        elif ax is not None and len(names) > 1:
            raise ParameterError(f"`ax` takes one dataset of {', '.join(names)}; say which by `dataset`")
        return [summary for summary in self._summary.datasets if dataset in (None, summary.dataset)]

    def _against(self, dataset: DatasetSummary, metric: str, base: str) -> dict[str, Comparison]:
        """The comparison of every other selector with the baseline, corrected for multiple comparisons."""
        if base == self._summary.compare_to and metric in HEADLINE:
            return {
                selector.selector: selector.against[metric]
                for selector in dataset.selectors
                if metric in selector.against
            }
        has = [selector.selector for selector in dataset.selectors if metric in selector.estimates]
        rivals = [name for name in has if name != base] if base in has else []
        compared = {name: self._compared(dataset.dataset, name, base, metric) for name in rivals}
        return correct({name: comparison for name, comparison in compared.items() if comparison.n > 0})

    def _scored(self, dataset: str, selector: str | None) -> tuple[str, ScoreGroup]:
        """The selector to show, and its scores."""
        base = self._summary.compare_to
        names = [base, *(name for name in self._selectors if name != base)] if selector is None else [selector]
        for name in names:
            part = self._part(dataset, name)
            described = {self._titles[name]: self._summary.manifest["selectors"][name]}
            groups = score_groups(self._datasets[dataset], [replace(part, selector=self._titles[name])], described)
            if groups:
                return name, groups[0]
        who = "no selector gives" if selector is None else f"selector {selector!r} does not give"
        raise ParameterError(f"{who} items of dataset {dataset!r} scores that differ; there is nothing to draw")


def _grid(
    parameters: tuple[str, str], cells: Mapping[str, tuple[Value, Value]], dataset: DatasetSummary, metric: str
) -> HeatMap:
    """The means of selectors by their values of two parameters; NaN where no selector has a pair."""
    rows = [
        (*cells[row.selector], row.estimates[metric].value)
        for row in dataset.selectors
        if row.selector in cells and metric in row.estimates
    ]
    table = make_frame(rows, columns=["x", "y", "mean"]).pivot(index="y", columns="x", values="mean")
    xs, ys = tuple(table.columns.tolist()), tuple(table.index.tolist())
    grid = MeanGrid(x=parameters[0], y=parameters[1], xs=xs, ys=ys, means={metric: table.to_numpy()})
    return replace(grid_cells(grid, metric, None, limit=max(table.shape)), title="", pale=None)


def draw_grid(ax: Axes, chart: HeatMap, metric: str) -> None:
    """A heat map of a metric with a scale of colours beside it."""
    scale = ax.figure.colorbar(heat_map(ax, chart), ax=ax)
    mark_numbers(scale.ax.yaxis, percent=document.unit(parse_metric(metric)) == "%")


def _shares(ax: Axes, table: Confusion) -> None:
    """A heat map of shares, the first row on top; each row is 100 %, and one without any stays empty."""
    rows = [f"{name} ({n:,})" for name, n in zip(table.required, table.queries, strict=True)]
    x, y = Message("api.confusions-offered", by=table.by), Message("api.confusions-needed", by=table.by)
    heat_map(
        ax, HeatMap(title="", x=x, y=y, xs=table.extras, ys=rows, values=table.shares, format_value=_percent, pale=0.0)
    )
    ax.set_ylim(len(rows), 0)


def _percent(share: float) -> str:
    return "" if share <= 0 else f"{100 * share:.0f}" if share >= 0.005 else "<1"


def _on(
    ax: Axes | None,
    drawn: Mapping[str, Drawing],
    titles: Mapping[str, str],
    *,
    width: float | None = None,
    height: float | None = None,
    style: Style = None,
) -> Any:
    """Draw on the given axes, or on new ones, one per dataset.

    Args:
        ax: where; None = on a new figure.
        drawn: what draws, by dataset.
        titles: above each, by dataset.
        width, height: of one plot, in inches; None = that of the user's settings, and less of several.
        style: as `styled` takes it.
    """
    with styled(style):
        axes = new_axes(len(drawn), width, height) if ax is None else [ax]
        for panel, (name, draw) in zip(axes, drawn.items(), strict=True):
            draw(panel)
            panel.set_title(document.named(titles[name]), parse_math=False)
    return axes[0] if ax is not None or len(drawn) == 1 else np.array(axes, dtype=object)


@contextmanager
def styled(style: Style) -> Iterator[None]:
    """Draw with a style of matplotlib; the user's settings are as before afterwards.

    Raises:
        ParameterError: it is no style.
    """
    from matplotlib import pyplot as plt

    if style is None:
        yield
        return
    # this loads the backend: a notebook's changes settings as it is loaded, and these must stay
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    with plt.rc_context():
        try:
            plt.style.use(style)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ParameterError(Message("api.style", style=style, reason=error)) from error
        yield


def new_axes(n: int, width: float | None = None, height: float | None = None) -> list[Axes]:
    """Axes of a new figure, in rows of at most three."""
    from matplotlib import pyplot as plt

    usual, scale = plt.rcParams["figure.figsize"], 1.0 if n == 1 else 0.75
    width, height = width or usual[0] * scale, height or usual[1] * scale
    columns = min(n, 2 if n == 4 or width > _WIDE else 3)
    rows = -(-n // columns)
    _, grid = plt.subplots(rows, columns, figsize=(columns * width, rows * height), squeeze=False, layout="constrained")
    axes = list(grid.flat)
    for spare in axes[n:]:
        spare.remove()
    return axes[:n]


class TuningPlots:
    """Plots of what tuning found on one dataset; each returns the Axes that it drew on.

    `ax`, `style` and the names and titles of axes are those of `Results.plot`.
    """

    def __init__(self, tuning: DatasetTuning) -> None:
        """Take what was found."""
        self._tuning = tuning

    def front(self, x: str = "tokens", y: str = "completeness", *, ax: Axes | None = None, style: Style = None) -> Axes:
        """The best settings of every selector, its first 1, 2, 3, ... items, and what was compared.

        A band is the 95% interval of each mean, on the queries that decide. A mark on the lower line is no better than
        a fixed number of items. The best settings are those by completeness and tokens, and drawn over these axes
        alone. Of points that lie close together some are drawn; `Tuned.front` has all.

        Args:
            x, y: metrics.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Raises:
            UnknownNameError: tuning did not measure such a metric.
        """
        for trace in self._tuning.traces:
            check_all_known("metric", (x, y), trace.means)
        drawn = tuning_document.named_lines(self._tuning.traces)
        panel = tuning_document.trade_panel(self._tuning, drawn, parse_metric(x), parse_metric(y))
        if panel is None:
            raise ParameterError(f"neither a line nor a contender has both {x} and {y}")
        options: dict[str, Any] = {"frameon": False, "loc": "lower right", "fontsize": "small"}
        with styled(style):
            axes = ax or new_axes(1)[0]
            axes.set_title(self._tuning.dataset, parse_math=False)
            legend = lines(axes, panel)
            for text in axes.legend(legend.values(), legend, **options).get_texts():
                text.set_parse_math(False)
        return axes

    def within(self, tokens: float, *, ax: Axes | None = None, style: Style = None) -> Axes:
        """The base's most complete setting for at most so many prompt tokens, on the line of all its best settings.

        The band is the 95% interval of each mean, on the queries that decide. The title has the values of the setting.

        Args:
            tokens: the limit; where every setting costs more, none is marked.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Raises:
            ParameterError: there is no line, as for `together`.
        """
        trace = self._line
        xs, ys = trace.means["tokens"], trace.means["completeness"]
        with styled(style):
            axes = ax or new_axes(1)[0]
            axes.plot(xs, ys)
            axes.fill_between(xs, trace.low["completeness"], trace.high["completeness"], alpha=0.15, linewidth=0)
            axes.axvline(tokens, color=ink(axes), linewidth=0.8, linestyle=":")
            mark_numbers(axes.xaxis)
            mark_numbers(axes.yaxis, percent=True)
            axes.set(
                xlabel=document.axis_title(parse_metric("tokens")),
                ylabel=document.axis_title(parse_metric("completeness")),
            )
            if (affordable := np.flatnonzero(xs <= tokens)).size:
                best = affordable[np.argmax(ys[affordable])]
                axes.plot(xs[best], ys[best], marker="o", color=ink(axes))
                values = {
                    name: f"{value:.3g}" if isinstance(value, float) else value
                    for name, value in trace.settings[best].items()
                }
                title = Message("api.within", complete=100 * ys[best], tokens=xs[best], values=setting_text(values))
                axes.set_title(fill(title, 70), fontsize="medium")
        return axes

    def slider(self, *, style: Style = None) -> None:
        """Show `within` with a slider for the tokens; without ipywidgets, at the middle of its range.

        The only one that returns nothing, as each step of the slider draws anew.

        Args:
            style: of matplotlib, by name or as a dict of settings.

        Raises:
            ParameterError: there is no line, as for `together`.
        """
        tokens = np.unique(np.ceil(self._line.means["tokens"]).astype(int)).tolist()  # `within` takes the last

        def draw(tokens: int) -> None:
            self.within(tokens, style=style)

        try:
            from ipywidgets import SelectionSlider, interact
        except ImportError:
            draw(tokens[len(tokens) // 2])
        else:
            interact(draw, tokens=SelectionSlider(options=tokens, value=tokens[len(tokens) // 2]))

    @property
    def _line(self) -> Trace:
        """The best settings of the base; `together` has no lines."""
        raise_first((not self._tuning.traces, Message("api.no-line", dataset=self._tuning.dataset)))
        return self._tuning.traces[0]

    def heat_map(
        self,
        x: str,
        y: str,
        *,
        metric: str = "completeness",
        policy: str | None = None,
        ax: Axes | None = None,
        style: Style = None,
    ) -> Axes:
        """A metric over two parameters, all others as recommended; the recommended setting is framed.

        Args:
            x, y: parameters.
            metric: `completeness` or `tokens`.
            policy: whose recommendation it is around; None = the first that recommends anything.
            ax: where to draw; None = a new figure.
            style: of matplotlib, by name or as a dict of settings.

        Raises:
            UnknownNameError: there is no such policy or metric.
            ParameterError: nothing is recommended, or there is no map over these two.
        """
        outcomes = {outcome.policy.name: outcome for outcome in self._tuning.outcomes}
        if policy is not None and policy not in outcomes:
            raise UnknownNameError("policy", policy, outcomes)
        with_maps = [outcome for name, outcome in outcomes.items() if outcome.heat_maps and policy in (None, name)]
        raise_first((not with_maps, Message("api.no-map")))
        heat_maps = {frozenset((grid.x, grid.y)): grid for grid in with_maps[0].heat_maps}
        if (heat := heat_maps.get(frozenset((x, y)))) is None or x == y:
            pairs = [f"{grid.x} and {grid.y}" for grid in with_maps[0].heat_maps]
            raise ParameterError(f"there is no map over {x} and {y}; there are maps over {'; '.join(pairs)}")
        check_known("metric", metric, heat.means)
        means = {name: values.T for name, values in heat.means.items()}
        turned = replace(heat, x=heat.y, y=heat.x, xs=heat.ys, ys=heat.xs, means=means)
        limit = max(len(heat.xs), len(heat.ys))
        chart = grid_cells(heat if heat.x == x else turned, metric, with_maps[0].chosen, limit=limit)
        with styled(style):
            axes = ax or new_axes(1)[0]
            draw_grid(axes, chart, metric)
        return axes
