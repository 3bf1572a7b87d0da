"""The selector and catalog that a team's tests use: their settings, opened once per test session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.io.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    from ctxbench.model.items import Catalog
    from ctxbench.search.resources import LocalResources
    from ctxbench.selectors.definition import Definition
    from ctxbench.selectors.selector import Selector

_DEFAULT = {"selector": "learned", "embedder": "minilm", "tokens": "o200k"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What tests select with. Paths are relative to the root folder of the test run; empty = the default.

    Attributes:
        gate: a gate file, which says all that is not said here.
        catalog: a file of items, a folder that holds `corpus.jsonl`, an agent file, or a dataset's name. Beside a gate
            file the name of one of its datasets; default: the first.
        selector: a shipped selector, `name` or `name/preset`; the YAML file of one's own, `file` or `file#preset`; a
            tuned preset, `presets file#preset`; or an agent file, which is the catalog, too, where none is named.
            Beside a gate file the name of one of its selectors; default: the first. Without a gate file the default is
            that of the agent file that is the catalog, else `learned`.
        embedder: as `ctxbench select --embedder` takes it; default: the gate file's, else `minilm`.
        tokens: the counter of prompt tokens; default: the gate file's, else `o200k`.
    """

    gate: str = ""
    catalog: str = ""
    selector: str = ""
    embedder: str = ""
    tokens: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenSetup:
    """A setup whose files are read. The model is loaded when a text is first embedded.

    Attributes:
        label: what messages call the selector.
        catalog_name: what messages call the catalog.
        catalog: the items.
        selector: ours or outside.
        resources: what ours use.
        memo: outputs of steps that selectors of a gate file share; emptied after each request.
        close: ends processes and connections of external selectors.
    """

    label: str
    catalog_name: str
    catalog: Catalog
    selector: Selector
    resources: LocalResources
    memo: dict[str, Any]
    close: Callable[[], None] = lambda: None


def open_setup(setup: Setup, root: Path) -> OpenSetup:
    """Read what a setup names.

    Args:
        setup: what the tests select with.
        root: the folder that paths are relative to.

    Raises:
        UserError: something is missing, unknown or faulty.
    """
    from ctxbench.catalogs.agent_file import is_agent_file

    if setup.gate:
        return _of_gate(setup, root / setup.gate)
    named = setup.selector or (setup.catalog if is_agent_file(root / setup.catalog) else _DEFAULT["selector"])
    agent = named if is_agent_file(root / named) else ""
    if not (catalog_name := setup.catalog or agent):
        raise ParameterError(
            "nothing says which catalog to select from: set ctxbench_catalog (a file, folder or dataset's name) or "
            "ctxbench_gate (a gate file) in the ini options of pytest, or override the fixture ctxbench_setup"
        )
    from ctxbench.cli.select import find_catalog
    from ctxbench.selectors.definitions import agent_own_spec
    from ctxbench.selectors.selector import PipelineSelector

    path = root / catalog_name
    catalog = find_catalog(str(path) if path.exists() else catalog_name)
    resources = _resources(setup.embedder, setup.tokens)
    agent_spec = agent_own_spec(agent, base=root) if agent else None
    if agent_spec is not None:
        selector, label = agent_spec.make(resources, {}), agent_spec.name
    else:
        definition, preset, label = _definition(named, root)
        selector = PipelineSelector(label, definition.pipeline(definition.values(preset)), resources)
    return OpenSetup(
        label=label,
        catalog_name=catalog_name,
        catalog=catalog,
        selector=selector,
        resources=resources,
        memo={},
        close=partial(_close, (selector,)),
    )


def _definition(selector: str, root: Path) -> tuple[Definition, str | None, str]:
    """A selector, its preset if one is named, and what it is called.

    Raises:
        ParameterError: a file without a preset holds no pipeline.
    """
    from ctxbench.catalogs.agent_file import is_agent_file
    from ctxbench.selectors.definitions import find_definition, is_file, read_definition, read_presets, selector_name

    file, mark, preset = selector.partition("#")
    path = root / file
    if mark and not _holds_pipeline(path):
        return read_presets(path).definition(preset), preset, f"{path.stem}/{preset}"
    if mark:
        definition = read_definition(path)
        return definition, preset, f"{definition.name}/{preset}"
    if is_agent_file(path):
        return *find_definition(selector, base=root), selector_name(selector)
    if is_file(selector) and not _holds_pipeline(path):
        raise ParameterError(
            f"{selector} holds no pipeline: ctxbench_selector takes the YAML file of one, with name and pipeline, or "
            "an agent file; a callable, command or endpoint of your own goes in that or in a gate file (ctxbench_gate)"
        )
    definition, named = find_definition(selector, base=root)
    return definition, named, definition.name if named is None else f"{definition.name}/{named}"


def _holds_pipeline(path: Path) -> bool:
    from ctxbench.io.documents import load_yaml

    data, _ = load_yaml(path)
    return isinstance(data, Mapping) and "pipeline" in data


def _of_gate(setup: Setup, path: Path) -> OpenSetup:
    """One selector of a gate file on the catalog of one of its datasets."""
    from ctxbench.datasets.lookup import open_dataset
    from ctxbench.gate.baseline_rows import VECTORS
    from ctxbench.gate.settings import read_gate

    gate = read_gate(path)
    experiment = gate.experiment
    datasets = {Path(name).name: name for name in reversed(experiment.datasets)}  # a folder goes by its own name
    named = setup.catalog or Path(experiment.datasets[0]).name
    if named not in datasets:
        raise UnknownNameError("dataset", named, datasets, where=f" of gate file {setup.gate}")
    selectors = [spec.name for spec in experiment.selectors]
    label = setup.selector or selectors[0]
    if label not in selectors:
        raise UnknownNameError("selector", label, selectors, where=f" of gate file {setup.gate}")
    embedder, tokens = setup.embedder or experiment.embedder, setup.tokens or experiment.tokens
    resources = _resources(embedder, tokens, stored=gate.baseline / VECTORS)
    dataset = open_dataset(datasets[named], base=experiment.base)
    memo: dict[str, Any] = {}
    by_name = experiment.make_selectors(resources, memo)
    return OpenSetup(
        label=label,
        catalog_name=dataset.name,
        catalog=dataset.catalog,
        selector=by_name[label],
        resources=resources,
        memo=memo,
        close=partial(_close, tuple(by_name.values())),
    )


def _resources(embedder: str, tokens: str, *, stored: Path | None = None) -> LocalResources:
    """Resources over the vectors of this machine; no model is loaded.

    Args:
        embedder, tokens: names; empty = the default.
        stored: vectors beside a baseline, used where they are there and of the same model.
    """
    from ctxbench.gate.baseline_reader import BaselineStore, accepted_vectors
    from ctxbench.io.files import cache_dir
    from ctxbench.search.embedders import Store, Vectors, VectorStore, open_embedder
    from ctxbench.search.resources import LocalResources
    from ctxbench.search.tokens import open_counter

    model = open_embedder(embedder or _DEFAULT["embedder"])
    store: Store = VectorStore(model.identity)
    if stored is not None and stored.exists():
        vectors = accepted_vectors(stored.parent)
        store = BaselineStore(vectors, model.identity) if vectors.embedder == model.identity.key else store
    counter = open_counter(tokens or _DEFAULT["tokens"], cache=cache_dir())
    return LocalResources(Vectors(model, store), counter)


def _close(selectors: tuple[Selector, ...]) -> None:
    for selector in selectors:
        getattr(selector, "close", lambda: None)()
