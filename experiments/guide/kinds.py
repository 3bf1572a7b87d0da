"""Write the tables of import kinds in datasets/kinds.md: `make kinds`."""

from collections.abc import Callable
from pathlib import Path

from ctxbench.labelling.sources import CATALOG, COLLECTION, EVALS, LOG, ImportKind, import_kinds

PAGE = Path(__file__).parents[2] / "datasets" / "kinds.md"
START, END = "<!-- kinds: written by `make kinds` -->", "<!-- end of kinds -->"
TITLES = {LOG: "Logs", EVALS: "Evals", COLLECTION: "Collections", CATALOG: "Catalogs"}
COLUMNS: dict[str, Callable[[ImportKind], str]] = {
    "`--as`": lambda kind: f"`{kind.name}`",
    "what it is": lambda kind: kind.title,
    "where its program writes it": lambda kind: kind.program,
    "request": lambda kind: kind.request,
    "label": lambda kind: kind.label,
    "offered set": lambda kind: kind.offered,
}


def tables() -> str:
    """The tables, one per family; a column that is empty for a family is left out."""
    kinds = list(import_kinds().values())
    parts = [_table(title, [kind for kind in kinds if kind.family == family]) for family, title in TITLES.items()]
    return "\n\n".join(parts)


def _table(title: str, kinds: list[ImportKind]) -> str:
    columns = {name: [cell(kind) for kind in kinds] for name, cell in COLUMNS.items()}
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [list(columns), ["---"] * len(columns), *zip(*columns.values(), strict=True)]
    lines = ("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows)
    return "\n".join([f"## {title}", "", *lines])


def page(text: str) -> str:
    """The page with new tables between its markers."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
