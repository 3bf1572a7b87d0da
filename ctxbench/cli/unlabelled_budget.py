"""`ctxbench tune CATALOG --unlabelled REQUESTS --tokens N`: a preset for a budget, from requests without labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs, selector_inputs
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs

if TYPE_CHECKING:
    from ctxbench.tuning.budget_setting import BudgetSetting

DEFAULT = "learned"
"""The selector that a budget is set on unless another is named, or the agent has one that will do."""


@dataclass(frozen=True)
class Budgeted:
    """What the command line asks for.

    Attributes:
        catalog: a file, a folder, or a dataset's name.
        requests: a dataset, a `.jsonl` file, or a text file with one request a line.
        tokens: the budget a request, on average.
        selector: a shipped selector, `name/preset`, or a YAML file.
        out: the presets file to write.
        note: why it is not the agent's own selector, where one line must say so; else empty.
    """

    catalog: str
    requests: str
    tokens: float
    selector: str
    out: Path
    note: str = ""


def checked_budget(
    datasets: Sequence[str],
    policy: Path | None,
    unlabelled: str | None,
    tokens: float | None,
    selector: str | None,
    out: Path | None,
    *,
    options: Mapping[str, bool],
) -> Budgeted | None:
    """The budget in the options; None where they name a policy.

    Args:
        options: those that only a policy has, and whether they are given.

    Raises:
        ParameterError: neither or both are, or something is missing, or an option of one is given with the other.
    """
    if unlabelled is None and tokens is None:
        if policy is None:
            raise ParameterError("tune needs --policy FILE, or --unlabelled REQUESTS --tokens N; see --help")
        if selector is not None:
            raise ParameterError("--selector goes with --unlabelled; with --policy the file names the selectors")
        return None
    if policy is not None:
        raise ParameterError("--policy needs labels, and --unlabelled has none; leave one of the two out")
    if unlabelled is None or tokens is None:
        raise ParameterError("--unlabelled REQUESTS and --tokens N go together: what a request may cost, and on which")
    if len(datasets) != 1:
        raise ParameterError(f"with --unlabelled one catalog is tuned, got {len(datasets)}: {', '.join(datasets)}")
    if names := [name for name, is_given in options.items() if is_given]:
        raise ParameterError(f"{' and '.join(names)} goes with --policy; with --unlabelled there is no report")
    chosen, note = (selector, "") if selector else _selector_for(datasets[0])
    return Budgeted(
        catalog=datasets[0],
        requests=unlabelled,
        tokens=tokens,
        selector=chosen,
        out=out or Path("runs") / f"within-{tokens:g}.yaml",
        note=note,
    )


def _selector_for(catalog: str) -> tuple[str, str]:
    """The selector of a catalog's agent, and a note where another one is used instead.

    Raises:
        InputError: the agent's selector or its settings are faulty.
    """
    from ctxbench.data.datasets.layout import agent_of
    from ctxbench.selectors.definitions import find_definition
    from ctxbench.sources.agent_file import is_agent_file, read_agent
    from ctxbench.sources.own_selectors import own_kind
    from ctxbench.tuning.budget_setting import checked_cut

    path = Path(catalog) if is_agent_file(catalog) else agent_of(Path(catalog))
    if path is None:
        return DEFAULT, ""
    if external := read_agent(path).own:
        why = f"the selector of {path} is a {own_kind(external)} of your own, on which no budget can be set"
        return DEFAULT, f"{why}; it is set on {DEFAULT}"
    definition, preset = find_definition(str(path))
    try:
        checked_cut(definition, definition.values(preset))
    except ParameterError as error:
        return DEFAULT, f"{error}; it is set on {DEFAULT}"
    return str(path), ""


def tune_to_budget(budget: Budgeted, *, as_json: bool) -> None:
    """Find the setting, write it as a presets file, and say what it costs.

    Raises:
        UserError: a file is faulty, the selector has no cut that a budget can set, or the budget is below one item.
    """
    from ctxbench.cli.select import find_catalog
    from ctxbench.core.requests import Batch
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.index.resources import LocalResources
    from ctxbench.io.cache import cache_dir
    from ctxbench.selectors.definitions import find_definition, is_file
    from ctxbench.selectors.presets import write_presets
    from ctxbench.selectors.tuned_presets import TunedPreset, definition_hash, parameter_texts
    from ctxbench.text.tokens import open_counter
    from ctxbench.tuning.budget_setting import budget_setting, read_requests

    _check(budget)
    if budget.note:
        say(budget.note, err=True)
    definition, preset = find_definition(budget.selector)
    requests = read_requests(budget.requests)
    catalog = find_catalog(budget.catalog)
    embedder, counter = open_embedder("minilm"), open_counter("o200k", cache=cache_dir())
    with progress() as bar:
        vectors = open_vectors(embedder, progress=partial(bar, "embedding texts"))
        result = budget_setting(
            definition,
            definition.values(preset),
            Batch.of(catalog, requests),
            LocalResources(vectors, counter),
            tokens=budget.tokens,
        )
    tuned_preset = TunedPreset(
        set=definition.in_force(result.values),
        about=f"about {budget.tokens:g} prompt tokens a request, found on {result.requests:,} requests without labels",
        selector=budget.selector if is_file(budget.selector) else definition.name,
        definition=definition_hash(definition),
        parameters=parameter_texts(definition),
    )
    tuned = {
        "dataset": catalog_name(budget.catalog),
        "requests": budget.requests,
        "n": result.requests,
        "budget": budget.tokens,
        "embedder": embedder.identity.as_dict(),
        "tokens": counter.name,
    }
    write_presets(budget.out, tuned=tuned, presets={f"within-{budget.tokens:g}": tuned_preset}, test_split="")
    if as_json:
        facts = {
            "set": dict(tuned_preset.set),
            "tokens": result.tokens,
            "items": result.items,
            "requests": result.requests,
        }
        print_json({**facts, "halves": list(result.halves), "written": str(budget.out)})
        return
    setting = ", ".join(f"{key} {value:g}" for key, value in tuned_preset.set.items() if not isinstance(value, str))
    say(*_lines(budget, result, f"{definition.name} with {setting}", counter.name))


def _check(budget: Budgeted) -> None:
    """Refuse an invalid budget or path of the presets file, before anything is read.

    Raises:
        ParameterError: it is none.
    """
    if not (math.isfinite(budget.tokens) and budget.tokens > 0):
        raise ParameterError(f"--tokens must be a finite number above 0, got {budget.tokens:g}")
    if budget.out.suffix not in (".yaml", ".yml"):
        raise ParameterError(f"--out names the presets file to write, ending in .yaml, got {budget.out}")
    requests = {"the requests": [Path(budget.requests)]}
    refuse_outputs(
        {"--out": budget.out}, {**requests, **dataset_inputs(budget.catalog), **selector_inputs(budget.selector)}
    )
    _refuse_foreign(budget.out)


def _lines(budget: Budgeted, setting: BudgetSetting, selector: str, counter: str) -> Iterator[str]:
    """What the setting costs, for people."""
    yield (
        f"within-{budget.tokens:g}: {selector} offers {setting.tokens:,.0f} prompt tokens ({counter}), "
        f"{setting.items:.1f} items, on average over {setting.requests:,} requests"
    )
    if setting.tokens < 0.9 * budget.tokens:
        yield "that is all that the selector can offer; a larger budget changes nothing"
    elif setting.halves:
        shares = " and ".join(f"{share:.2f}" for share in setting.halves)
        yield f"found on one half of the requests, the other half costs {shares} times the budget"
    yield "how complete it is cannot be told without labels: `ctxbench data label` asks for some"
    yield f"written: {budget.out}"


def _refuse_foreign(out: Path) -> None:
    """Refuse to overwrite a file that is no presets file.

    Raises:
        ParameterError: there is one in its place.
    """
    from ctxbench.selectors.presets import read_presets

    if out.exists():
        try:
            read_presets(out)
        except UserError as error:
            raise ParameterError(f"{out} is there and is no presets file; name another one with --out") from error


def catalog_name(catalog: str) -> str:
    """What a presets file calls the catalog that it was made on."""
    path = Path(catalog)
    return path.parent.name if path.name == "corpus.jsonl" and path.parent.name else path.stem
