"""Reports: tables, charts, pages, console, Markdown, JSON and JUnit."""
