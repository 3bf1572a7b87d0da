"""Reports: tables, charts, pages, console, Markdown, JSON and JUnit.

With `cli` the only room that writes sentences for people: `messages/` has their texts with stable codes. Nothing is
decided here. A document consists of blocks, and is written to the console, to Markdown or to a page. A page loads
nothing from the network, and escapes every text. With `--no-text` no report contains the text of a request or an item.

Start with `document`. Then `run_tables` (runs), `check_document` (checks), `tuning_document` (tunings). `templates/`
has the HTML, CSS and scripts of pages.

Charts: matplotlib draws each chart on the axes that it is given, for pages, files and notebooks. It is imported with
the first chart.

Modules:
    charts: Axes, colours and point labels; line charts and heat maps.
    check_document: A check as a document: verdict, reasons, lost items with causes, and next steps.
    check_files: A check as JSON, GitHub annotations, GitLab's code quality report and JUnit XML.
    check_texts: Sentences about a check: summary, conclusion, acceptance, and locations in files.
    document: Documents made of blocks, on the console and as Markdown; numbers and verdicts in words.
    pages: HTML pages: templates, SVG drawings, and long reports in two files.
    run_charts: Charts of runs: scores, comparisons, and accepted baselines over commits with their tables.
    run_page: A run as one HTML page, and the data of its queries.
    run_tables: Comparison tables of a run, their columns and selectors in words, and the opening sentence.
    run_text: A run on the console, as Markdown and as CSV; latency on the console.
    scores: Scores of required and other items compared with a selector's thresholds.
    tuning_document: Tuning results as a document with figures, in Markdown and HTML.
    tuning_tables: Tuning results in sentences and tables, and on the console.
"""
