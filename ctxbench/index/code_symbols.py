"""Names in code: which items define a name, and which use it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, frozen, starts
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.code.code_facts import all_code_facts
from ctxbench.index.code.code_records import CodeFacts
from ctxbench.index.item_paths import PART, file_path, place_of
from ctxbench.index.versions import index_over

_SPLIT = re.compile(r"\.|::|#")


def code_of(item: Item) -> str:
    """What stands in a file or definition: the text of an item without its path and the empty line behind it."""
    return item.text.removeprefix(f"{file_path(item)}\n\n")


@dataclass(frozen=True, eq=False, kw_only=True)
class CodeSymbols:
    """Which items of a catalog define and use which names.

    Attributes:
        number: of every name that is defined: by its last part, `method`, and of `Class.method` whole, too.
        start, item: CSR by name, the items that define it, rising.
        use_start, used: CSR by item, the names that it uses and some other item may define, each once.
    """

    number: Mapping[str, int]
    start: IntArray
    item: IntArray
    use_start: IntArray
    used: IntArray

    @classmethod
    def of(cls, catalog: Catalog) -> CodeSymbols:
        """Read them off files, whose definitions are looked up, and chunks, whose names say what they define."""
        facts = _facts(catalog)
        defined = [_defined(item, facts.get(position)) for position, item in enumerate(catalog)]
        number: dict[str, int] = {}
        owner, name = [], []
        for position, names in enumerate(defined):
            for symbol in names:
                name.append(number.setdefault(symbol, len(number)))
                owner.append(position)
        by_name = np.argsort(np.array(name, dtype=np.int64), kind="stable")
        used = [
            [number[symbol] for symbol in facts[position].references if symbol in number] if position in facts else []
            for position in range(len(catalog))
        ]
        return cls(
            number=number,
            start=frozen(starts(np.bincount(np.array(name, dtype=np.int64), minlength=len(number)))),
            item=frozen(np.array(owner, dtype=np.int64)[by_name]),
            use_start=frozen(starts([len(row) for row in used])),
            used=frozen(np.array([symbol for row in used for symbol in row], dtype=np.int64)),
        )

    def definers(self, name: str, visible: BoolArray) -> IntArray:
        """The items that define a name, rising: of `a.b.c` those of `b.c`, else those of `c`.

        Args:
            name: in parts by `.`, `::` or `#`.
            visible: which items count, shape (n_items,).
        """
        parts = _SPLIT.split(name)
        for symbol in dict.fromkeys((".".join(parts[-2:]), parts[-1])):
            row = self.number.get(symbol)
            if row is not None:
                items = self.item[self.start[row] : self.start[row + 1]]
                if len(items := items[visible[items]]):
                    return np.asarray(items)
        return np.empty(0, dtype=np.int64)

    def matches(self, names: Iterable[str], visible: BoolArray) -> FloatArray:
        """The sum over names of 1 / the items that define it, for each that does; shape (n_items,).

        Args:
            names: in parts by `.`, `::` or `#`.
            visible: which items count, shape (n_items,).
        """
        out = np.zeros(len(self.use_start) - 1, dtype=np.float64)
        for name in names:
            items = self.definers(name, visible)
            if len(items):
                out[items] += 1.0 / len(items)
        return out


def _facts(catalog: Catalog) -> dict[int, CodeFacts]:
    """The facts of the code in items, by place: of definitions, and of whole files, which have none beside them."""
    times, parts, coded = catalog.facts, dict[str | None, list[int]](), []
    for position, item in enumerate(catalog):
        if item.type == "chunk":
            parts.setdefault(file_path(item), []).append(position)
            coded.append(position)
    for position, item in enumerate(catalog):
        chunks = np.array(parts.get(file_path(item), ()), dtype=np.int64)
        if item.type == "file" and not times.at(int(times.created[position]), chunks).any():  # else it is an outline
            coded.append(position)
    # a place in front, since several versions may stand at one path, and it is the name that tells the language
    contents = {f"{position}/{file_path(catalog[position])}": code_of(catalog[position]) for position in coded}
    return {int(key.partition("/")[0]): facts for key, facts in all_code_facts(contents).items()}


def _defined(item: Item, facts: CodeFacts | None) -> list[str]:
    """The names that an item defines, each once: with what they stand in, and by their last parts."""
    if item.type == "chunk":
        dotted = [(place_of(item) or "").partition(PART)[2]]
    else:
        dotted = [definition.name for definition in facts.definitions] if facts is not None else []
    parts = [dotted_name.partition("#")[0].split(".") for dotted_name in dotted if dotted_name]
    return list(dict.fromkeys(form for row in parts for form in (row[-1], ".".join(row[-2:]))))


def code_symbols(catalog: Catalog, resources: Resources) -> CodeSymbols:
    """The names of a catalog's code, kept with the resources."""
    over = ("type", "title", "name", "text", "created", "until")
    symbols: CodeSymbols = index_over(catalog, resources, "symbols", over=over, make=lambda: CodeSymbols.of(catalog))
    return symbols
