"""Files, the cache, HTTP, git, the console, and errors.

Reads files and reports every fault with file, line and column. Writes files whole or not at all. Everything printed and
every HTTP request passes through this room, so text from files cannot control the terminal and HTTP bodies have a
bounded size.

Start with `files` (read and write), `documents` (JSON and YAML with faults), `errors`, `console`.

Rules:
    Cache: files that ctxbench creates are readable by their owner only. Cached rows have checksums: a damaged row is
        reported and computed again.
    HTTP: one time limit covers a whole exchange. Only servers that the user named are asked. Compressed bodies are
        refused.
    Git: repositories may be hostile, so git is asked by plumbing commands that run no hooks, filters or external diffs.

Modules:
    cache: The cache folder, an SQLite store of checksummed rows, files taken from wheels, and checks of output paths.
    console: Standard output and error, progress messages, and keys from the terminal.
    documents: Read and write JSON, JSON lines and YAML, with faults by file, line and column.
    errors: Error classes, lists of faults, and text that is safe to print.
    files: Read files with faults by line; write files and folders atomically.
    git: Read commits and earlier versions of files from git, without touching the checkout.
    http: HTTP requests with limits on time and size, and servers that speak OpenAI's interface.
    redaction: Replace mail addresses, keys, long numbers and names in texts by placeholders.
    rows: Read the fields of rows and YAML mappings with faults by line, and parse times.
    secrets: Find secret values in environments, headers, arguments and URLs, and hide them in texts.
    workers: Run units of work in processes and on clusters, with content that they share.
"""
