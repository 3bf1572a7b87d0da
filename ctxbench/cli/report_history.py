"""`ctxbench report`: which of the two it is, and `--history`, the accepted baselines over the commits of git."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.core.errors import ParameterError
from ctxbench.io.console import say
from ctxbench.io.files import write_atomic
from ctxbench.io.output_paths import line_from, refuse_outputs

GATE = "gate.yaml"  # where nothing else is named


@dataclass(frozen=True, kw_only=True)
class HistoryOutput:
    """What is shown, and where it is written.

    Attributes:
        history: accepted baselines over time, not a run.
        limit: the newest so many commits; None = all.
        chart: the file of a chart over commits.
        markdown: the file of a run's report as Markdown.
        csv: the file of all figures.
        json: print JSON in place of tables.
    """

    history: bool = False
    limit: int | None = None
    chart: Path | None = None
    markdown: Path | None = None
    csv: Path | None = None
    json: bool = False


def report(path: Path | None, output: HistoryOutput) -> None:
    """Show a run, or a history.

    Args:
        path: the folder of a run; of a history a gate file (None = `GATE`) or the folder of a baseline.
        output: which of them, and how.

    Raises:
        UserError: an option is of the other one, the path is none of what is expected, or it cannot be read.
    """
    if output.history:
        if output.markdown is not None:
            raise ParameterError("--markdown is for the report of a run; leave it out, or take --csv or --chart")
        _show_history(path or Path(GATE), output)
        return
    for name, value in (("--limit", output.limit), ("--chart", output.chart)):
        if value is not None:
            raise ParameterError(f"{name} goes with --history; add that, or leave {name} out")
    if path is None:
        raise ParameterError(
            "name the folder of a finished run, such as runs/presets, or take --history for what a gate accepted"
        )
    if (path / "baseline.json").is_file() or path.suffix in (".yaml", ".yml"):
        raise ParameterError(f"{path} is no folder of a run; add --history to see what was accepted over time")
    from ctxbench.cli.commands import ReportTargets, report_run

    report_run(path, ReportTargets(markdown=output.markdown, csv=output.csv, json=output.json))


def _show_history(path: Path, output: HistoryOutput) -> None:
    from ctxbench.gate.baseline_layout import GATE, gate_file_in_messages
    from ctxbench.gate.history import baseline_of, read_history
    from ctxbench.report.gate.history_views import history_chart, history_csv, history_json, print_history

    form = "" if output.chart is None else _form(output.chart)
    read: dict[str, list[Path]] = {"what is shown": [] if path.is_dir() else [path]}
    outputs = {"--csv": output.csv, "--chart": output.chart}
    refuse_outputs(outputs, read, may_replace={"--csv": line_from("date,commit,")})
    with progress() as bar:
        folder = baseline_of(path)
        gate_file = Path() if folder == path else path
        with gate_file_in_messages(Path(GATE) if folder == path else path):
            history = read_history(folder, limit=output.limit, gate_path=gate_file, notify=bar)
    if output.csv is not None:
        write_atomic(output.csv, history_csv(history))
    if output.chart is not None:
        write_atomic(output.chart, history_chart(history, form))
    if output.json:
        print_json(history_json(history))
    else:
        print_history(history)
    if output.chart is not None:
        say(f"chart: {output.chart}", err=True)


def _form(chart: Path) -> str:
    """The form of a chart's file, by its name.

    Raises:
        ParameterError: it is none that can be drawn.
    """
    form = chart.suffix.lower().removeprefix(".")
    if form not in ("png", "svg"):
        raise ParameterError(f"--chart {chart}: the name must end in .png or .svg, which says how it is drawn")
    return form
