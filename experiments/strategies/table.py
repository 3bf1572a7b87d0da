"""Write the page of strategies from the registry and their docstrings: `make strategies`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.io.errors import ParameterError
from ctxbench.io.files import write_atomic
from ctxbench.model import registry

KINDS = {
    "analyse": "Analyse: make the chunks that a request is searched with",
    "chunk": "Chunk rules: split a text, for `chunks` of `dense` and `rule` of analyses",
    "retrieve": "Retrieve: find candidates",
    "rank": "Rank: score candidates anew",
    "cut": "Cut: exclude candidates",
    "expand": "Expand: add candidates",
    "pack": "Pack: fill a token budget",
    "format": "Format: write the prompt",
}
_COMBINED = """
## Combine steps

```yaml
retrieve:
  merge: [dense, bm25]                              # or with names, {meaning: dense, words: bm25}
  seconds: 0.5                                      # time limit of a live request; optional
refine:
  - rrf                                             # one score from several: rrf, weighted or probability
  - by_domain: {tool: [first], "*": [standard]}     # other steps for each item type; "*" is all other types
```

* `merge` joins retrievers. Two of the same kind need names. An item that several sources find is one candidate, with a
  feature for the score of each. Put a rank step after it, since scores of different sources are not comparable.
* `seconds` (above 0, at most 3600) limits a live request: late and failed sources are left out, with a note. A run
  waits for all sources.
* `by_domain` maps item types, such as `rule, reference`, to lists of steps. Each domain is ranked and cut alone; then
  their items are joined.
""".splitlines()
_LABELS = ("Cost", "Source")
_EMPTY = re.compile(r"\b(empty|blank|without|none|no candidates?|nothing|no chunks?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A strategy as its docstring has it.

    Attributes:
        kind, name: as registered.
        summary: the first paragraph.
        parameters: name and default, as YAML writes them, in order.
        meanings: what the docstring says of each parameter or several, under their names.
        empty: the sentences on what is empty.
        cost, source: what stands behind these words.
    """

    kind: str
    name: str
    summary: str
    parameters: tuple[tuple[str, str], ...]
    meanings: Mapping[str, str]
    empty: str
    cost: str
    source: str


def strategies() -> tuple[Described, ...]:
    """Every strategy that comes with ctxbench, by kind and name. Plugins are not among them.

    Raises:
        ParameterError: a docstring lacks its summary, its empty case, its cost or its source.
    """
    found = []
    for kind in KINDS:
        for name in registry.names(kind):
            strategy = registry.find(kind, name)
            if strategy.__module__.startswith("ctxbench."):
                found.append(described(kind, name, strategy))
    return tuple(found)


def described(kind: str, name: str, strategy: Any) -> Described:
    """Read the docstring of one strategy.

    Raises:
        ParameterError: it lacks its summary, its empty case, its cost or its source.
    """
    paragraphs = [" ".join(paragraph.split()) for paragraph in (inspect.getdoc(strategy) or "").split("\n\n")]
    texts = [paragraph for paragraph in paragraphs if not paragraph.startswith("Attributes:")]
    prose = " ".join(texts[1:])
    parts = {label: _labelled(prose, label) for label in _LABELS}
    sentences = re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(texts))
    empty = " ".join(text for text in sentences if _EMPTY.search(text) and not text.startswith(_LABELS))
    lacking = [label for label, text in {"Empty case": empty, **parts}.items() if not text]
    if not texts or not texts[0] or _generated(strategy):
        lacking.insert(0, "summary")
    meanings = _meanings(strategy)
    named = {one.strip() for names in meanings for one in names.split(",")}
    lacking += [f"parameter {one.name}" for one in dataclasses.fields(strategy) if one.init and one.name not in named]
    if lacking:
        raise ParameterError(
            f"the docstring of {kind} strategy {name!r} ({strategy.__qualname__}) lacks: {', '.join(lacking)}; it "
            "needs a summary, the empty case, sentences that begin with 'Cost:' and 'Source:', and every parameter "
            "under 'Attributes:'"
        )
    return Described(
        kind=kind,
        name=name,
        summary=texts[0],
        parameters=tuple(_parameters(kind, name, strategy)),
        meanings=meanings,
        empty=empty,
        cost=parts["Cost"],
        source=parts["Source"],
    )


def table(found: Sequence[Described]) -> str:
    """The strategies as Markdown, one table per kind."""
    lines = [
        "# Strategies",
        "",
        "Every strategy that a pipeline can name, with its cost, parameters and defaults. Edge cases and the source of",
        "each are in the docstrings (`ctxbench/pipelines/strategies`, `ctxbench/search`). [The",
        "report](../reports/ablations.md) says what each is worth. `make strategies` writes this page.",
        *_COMBINED,
    ]
    for kind, title in KINDS.items():
        rows = [one for one in found if one.kind == kind]
        if rows:
            lines += ["", f"## {title}", "", "| name | what it does | cost |", "|" + " --- |" * 3]
            lines += [_row(one) for one in rows]
            for one in rows:
                lines += _details(one)
    return "\n".join(lines) + "\n"


def _row(one: Described) -> str:
    cells = (f"`{one.name}`", one.summary, one.cost)
    return f"| {' | '.join(cell.replace('``', '`').replace('|', chr(92) + '|') for cell in cells)} |"


def _details(one: Described) -> Iterator[str]:
    """The parameters of a strategy with their defaults, and what they mean."""
    if not one.meanings:
        return
    yield from ("", f"### `{one.name}`", "")
    defaults = dict(one.parameters)
    for names, meaning in one.meanings.items():
        parts = ((name.strip(), defaults.get(name.strip(), "")) for name in names.split(","))
        yield f"* {', '.join(f'`{name}: {default}`' if default else f'`{name}`' for name, default in parts)}: {meaning}"


def _meanings(strategy: Any) -> dict[str, str]:
    """The entries under `Attributes:` of a docstring, one line each, in order."""
    parts = re.split(r"^Attributes:\n", inspect.getdoc(strategy) or "", flags=re.MULTILINE)
    found: dict[str, str] = {}
    for line in parts[1].splitlines() if len(parts) > 1 else ():
        entry = re.match(r" {4}(\w+(?:, \w+)*): (.*)", line)
        if not line.strip():
            break
        if entry:
            found[entry[1]] = entry[2]
        elif found:
            found[next(reversed(found))] += f" {line.strip()}"
    return {names: meaning.replace("``", "`") for names, meaning in found.items()}


def _labelled(prose: str, label: str) -> str:
    """What stands behind `label:`, up to the next label."""
    others = "|".join(_LABELS)
    match = re.search(rf"(?<!\w){label}: (.+?)(?=\s(?:{others}): |$)", prose)
    return match[1].rstrip(".") if match else ""


def _generated(strategy: Any) -> bool:
    """Whether the docstring is the one that dataclasses make."""
    return (strategy.__doc__ or "").startswith(f"{strategy.__name__}(")


def _parameters(kind: str, name: str, strategy: Any) -> Iterator[tuple[str, str]]:
    """Name and default of each parameter, as the strategy holds it if none is given; empty where one must be."""
    fields = {one.name: one for one in dataclasses.fields(strategy) if one.init}
    needed = {name for name, one in fields.items() if _without_default(one)}
    made = {} if needed else registry.parameters(registry.build(kind, name, {}))
    for key, one in fields.items():
        yield key, "" if key in needed else _yaml(made.get(key, one.default))


def _without_default(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


def _yaml(value: Any) -> str:
    """A default as YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_yaml(one)}' for key, one in value.items())}}}"
    return str(value) if value != "" else "''"


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), table(strategies()))
