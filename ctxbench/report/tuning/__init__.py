"""Reports of tuning: on the console, as Markdown and as one HTML page, with figures."""

from ctxbench.report.tuning.tuning_console import console_table
from ctxbench.report.tuning.writing import write_markdown, write_report

__all__ = ["console_table", "write_markdown", "write_report"]
