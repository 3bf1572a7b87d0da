"""The table of strategies, made from the registry and their docstrings: `make strategies`."""

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
    "analyse": "Analyse: what a request is searched with",
    "chunk": "Chunk rules: how a text is split, by `chunks` of `dense` and `rule` of analyses",
    "retrieve": "Retrieve: what is found",
    "rank": "Rank: a new score for what was found",
    "cut": "Cut: how much of the ranking is offered",
    "expand": "Expand: what is added to it",
    "pack": "Pack: what there is room for",
    "format": "Format: what the model is sent",
}
_COMBINED = """
## Steps put together

```yaml
retrieve:
  merge: [dense, bm25]                              # or by names of your own, {meaning: dense, words: bm25}
  seconds: 0.5                                      # how long a request that somebody waits for may take; or left out
refine:
  - rrf                                             # one score of several: rrf, weighted or probability
  - by_domain: {tool: [first], "*": [standard]}     # steps of its own for each item type; "*" is all that is left
```

### `merge`

* a list of retrievers, or each by a name of its own; two of one kind need names.
* `seconds`: above 0, at most 3600. Sources that are late or fail are left out where somebody is waiting, with a note;
  in a run all are waited for. Without it every source is waited for.

An item that several sources find is one candidate, with the score of each in a column of the source's name. Scores of
different sources are seldom comparable, so a rank step should follow: until then the best of them counts.

### `by_domain`

* a mapping of item types, such as `rule, reference`, to lists of steps; each type stands in one list.

Each domain is ranked and cut on its own; what it chooses stands together again behind it.
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
        notes: the rest of it but for cost and source.
        empty: the sentences on what is empty.
        cost, source: what stands behind these words.
    """

    kind: str
    name: str
    summary: str
    parameters: tuple[tuple[str, str], ...]
    meanings: Mapping[str, str]
    notes: str
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
    paragraphs = [" ".join(one.split()) for one in (inspect.getdoc(strategy) or "").split("\n\n")]
    said = [one for one in paragraphs if not one.startswith("Attributes:")]
    prose = " ".join(said[1:])
    parts = {label: _labelled(prose, label) for label in _LABELS}
    sentences = re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(said))
    empty = " ".join(one for one in sentences if _EMPTY.search(one) and not one.startswith(_LABELS))
    lacking = [label for label, text in {"Empty case": empty, **parts}.items() if not text]
    if not said or not said[0] or _generated(strategy):
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
        summary=said[0],
        parameters=tuple(_parameters(kind, name, strategy)),
        meanings=meanings,
        notes=re.split(r"(?:^|\s)(?:Cost|Source): ", prose)[0].strip(),
        empty=empty,
        cost=parts["Cost"],
        source=parts["Source"],
    )


def table(found: Sequence[Described]) -> str:
    """The strategies as Markdown, a table a kind."""
    lines = [
        "# Strategies",
        "",
        "Every strategy that a pipeline can name, with its parameters and their defaults; below each table what they",
        "mean. Made by `make strategies` from the registry and the docstrings. [What each is",
        "worth](../reports/ablations.md) was measured.",
        *_COMBINED,
    ]
    for kind, title in KINDS.items():
        rows = [one for one in found if one.kind == kind]
        if rows:
            lines += ["", f"## {title}", "", "| name | what it does | parameters | cost | source |", "|" + " --- |" * 5]
            lines += [_row(one) for one in rows]
            for one in rows:
                lines += _details(one)
    return "\n".join(lines) + "\n"


def _row(one: Described) -> str:
    parameters = ", ".join(f"`{name}: {default}`" if default else f"`{name}`" for name, default in one.parameters)
    cells = (f"`{one.name}`", one.summary, parameters or "none", one.cost, one.source)
    return f"| {' | '.join(cell.replace('``', '`').replace('|', chr(92) + '|') for cell in cells)} |"


def _details(one: Described) -> Iterator[str]:
    """What the parameters of a strategy mean, and what else is said of it."""
    yield from ("", f"### `{one.name}`")
    if one.meanings:
        yield ""
        for names, meaning in one.meanings.items():
            yield f"* {', '.join(f'`{name.strip()}`' for name in names.split(','))}: {meaning}"
    if one.notes:
        yield from ("", one.notes)


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
