"""`ctxbench report`: a finished run again, or what was accepted over time."""

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.options import CsvFile, JsonFlag


def report(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN | GATE",
            help="The folder of a run; with --history a gate file (gate.yaml by default) or the folder of a baseline.",
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show accepted baselines over the commits of git instead of a run.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="With --history: the newest so many commits; default all.")] = None,
    chart: Annotated[
        Path | None, typer.Option(help="With --history: draw it into this file, too, .png or .svg.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Of a run: write the report as Markdown to this file, too.")
    ] = None,
    csv: CsvFile = None,
    json_: JsonFlag = False,
) -> None:
    """Show a finished run, or a gate's history.

    Without --history the argument is the folder of a run, as `ctxbench run` makes it.

    With --history it is a gate file or the folder of its baseline, as `ctxbench check --accept` makes it, in a checkout
    of git: `ctxbench report --history gate.yaml --chart history.png`. Each commit that changed the baseline is a line,
    oldest first, with the completeness and the prompt tokens of every selector on every dataset.

    For example:

    ctxbench report runs/presets
    """
    from ctxbench.cli.report_history import HistoryOutput
    from ctxbench.cli.report_history import report as show

    show(path, HistoryOutput(history=history, limit=limit, chart=chart, markdown=markdown, csv=csv, json=json_))
