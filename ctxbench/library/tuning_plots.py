"""Plots of tuning: the front, and maps over two parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxbench.bench.metrics import parse_metric
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.library.result_plots import new_axes
from ctxbench.report import wording
from ctxbench.report.charts.axes import mark_numbers
from ctxbench.report.charts.heat_map import heat_map
from ctxbench.report.charts.line_chart import lines
from ctxbench.report.tuning import tuning_figures
from ctxbench.tuning.tuning_results import DatasetTuning, MeanGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TuningPlots:
    """Plots of what tuning found on one dataset; each returns the Axes that it drew on."""

    def __init__(self, tuning: DatasetTuning) -> None:
        """Take what was found."""
        self._tuning = tuning

    def front(self, x: str = "tokens", y: str = "completeness", *, ax: Axes | None = None) -> Axes:
        """The best settings of every selector, its first 1, 2, 3, ... items, and what was compared.

        A band is the 95% interval of each mean, on the queries that decide. A mark on the lower line is no better than
        a fixed number of items. The best settings are those by completeness and tokens, and drawn over these axes
        alone. Of points that lie close together some are drawn; `Tuned.front` has all.

        Args:
            x, y: metrics.
            ax: where to draw; None = a figure of its own.

        Raises:
            UnknownNameError: tuning did not measure such a metric.
        """
        for trace in self._tuning.traces:
            for metric in (x, y):
                if metric not in trace.means:
                    raise UnknownNameError("metric", metric, trace.means)
        drawn = tuning_figures.named_lines(self._tuning.traces)
        panel = tuning_figures.trade_panel(self._tuning, drawn, parse_metric(x), parse_metric(y))
        if panel is None:
            raise ParameterError(f"neither a line nor a contender has both {x} and {y}")
        axes = ax or new_axes(1)[0]
        axes.set_title(self._tuning.dataset, parse_math=False)
        legend = lines(axes, panel)
        texts = axes.legend(legend.values(), legend, frameon=False, loc="lower right", fontsize="small").get_texts()
        for text in texts:
            text.set_parse_math(False)
        return axes

    def heat(
        self, x: str, y: str, *, metric: str = "completeness", policy: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """A metric over two parameters, all others as recommended; the recommended setting is framed.

        Args:
            x, y: parameters.
            metric: `completeness` or `tokens`.
            policy: whose recommendation it is around; None = the first that recommends anything.
            ax: where to draw; None = a figure of its own.

        Raises:
            UnknownNameError: there is no such policy or metric.
            ParameterError: nothing is recommended, or there is no map over these two.
        """
        outcomes = {outcome.policy.name: outcome for outcome in self._tuning.outcomes}
        if policy is not None and policy not in outcomes:
            raise UnknownNameError("policy", policy, outcomes)
        with_maps = [outcome for name, outcome in outcomes.items() if outcome.heat_maps and policy in (None, name)]
        if not with_maps:
            raise ParameterError(
                "there is no map: nothing was found better than the default, or its settings cannot be swept"
            )
        heat_maps = {frozenset((grid.x, grid.y)): grid for grid in with_maps[0].heat_maps}
        heat = heat_maps.get(frozenset((x, y)))
        if heat is None or x == y:
            pairs = "; ".join(f"{grid.x} and {grid.y}" for grid in with_maps[0].heat_maps)
            raise ParameterError(f"there is no map over {x} and {y}; there are maps over {pairs}")
        if metric not in heat.means:
            raise UnknownNameError("metric", metric, heat.means)
        axes, limit = ax or new_axes(1)[0], max(len(heat.xs), len(heat.ys))
        mesh = heat_map(
            axes, tuning_figures.cells(heat if heat.x == x else _turned(heat), metric, with_maps[0].chosen, limit=limit)
        )
        scale = axes.figure.colorbar(mesh, ax=axes)
        mark_numbers(scale.ax.yaxis, percent=wording.unit(parse_metric(metric)) == "%")
        return axes


def _turned(heat: MeanGrid) -> MeanGrid:
    means = {name: values.T for name, values in heat.means.items()}
    return MeanGrid(x=heat.y, y=heat.x, xs=heat.ys, ys=heat.xs, means=means)
