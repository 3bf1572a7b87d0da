"""Explains the words of a check that its texts use and that need an explanation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ctxbench.gate.model import SelectorCheck
from ctxbench.report.document import Block, Bullets, Cell, Section, Table, Text

_PATH = re.compile(r"\b(analyse|retrieve|refine)\.([\w*,]+(?:\.\w+)*)")


def explained_words(
    selectors: Iterable[SelectorCheck], opening: Iterable[Block], sections: Sequence[Section]
) -> Iterator[Text]:
    """What words mean: those of the short form, then as a note those that the full form alone has.

    Args:
        selectors: that tell what their parameters do; one is explained where a value of it is told.
        opening, sections: of the document.
    """
    helps = {name: text for selector in selectors for name, text in selector.helps.items()}
    opened = [*_texts(opening, brief=False)]

    def explain(*, brief: bool) -> dict[str, str]:
        inner = [text for section in sections for text in _texts(section.blocks, brief=brief)]
        return dict(_explanations("\n".join([*opened, *inner]), helps))

    short, full = explain(brief=True), explain(brief=False)
    further = {name: text for name, text in full.items() if name not in short}
    for words, note in ((short, False), (further, True)):
        if words:
            yield Text("; ".join(f"{name}: {meaning.rstrip('.')}" for name, meaning in words.items()) + ".", note=note)


def _explanations(text: str, helps: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if re.search(r"\btotal_tokens\b", text):
        yield "tokens", "of what the selector adds to a prompt"
        yield "total_tokens", "with what the session holds"
    for name, words in helps.items():
        pattern = re.escape(name)
        if re.search(
            rf"\b(?:raise|lower|set|and) {pattern} (?:back )?to |(?<![\w.]){pattern} \S+ -> |(?<![\w.]){pattern}=", text
        ):
            yield name, words
    if path := _PATH.search(text):
        stage, _ = path.groups()
        yield path.group(), f"where it stands in the selector's pipeline, from its stage `{stage}` on"


def _texts(blocks: Iterable[Block], *, brief: bool) -> Iterator[str]:
    """The texts of blocks, headings of tables among them; of the short form alone if `brief`."""
    for block in blocks:
        if isinstance(block, Bullets):
            yield from block.texts
        elif isinstance(block, Text):
            yield block.text
        elif isinstance(block, Table) and (block.brief or not brief):
            yield from block.head
            for row in block.rows:
                yield from map(_cell_text, row)


def _cell_text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else " ".join(cell)
