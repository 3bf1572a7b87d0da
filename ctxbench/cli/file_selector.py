"""A selector of an experiment file, or an external one of an agent file, for `ctxbench select`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.core.errors import ParameterError, UnknownNameError, raise_faults
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctxbench.bench.selector_specs import SelectorSpec
    from ctxbench.core.items import Catalog
    from ctxbench.core.pipeline import Pipeline
    from ctxbench.core.requests import Request
    from ctxbench.core.stages import Resources
    from ctxbench.selectors.definition import Definition
    from ctxbench.selectors.explain import Explanation
    from ctxbench.selectors.explain_own import OwnExplanation

IN_CHAT = "semantic"  # whose settings a session holds, as the documents have it
ITS_OWN = "Your selector alone knows why: ctxbench sees its answer, not the rules inside it."


def listed_selector(
    selector: str | None, experiment: Path | None, options: Mapping[str, object]
) -> SelectorSpec | None:
    """The named selector of an experiment, or the external selector of an agent file; None for any other.

    Args:
        selector: its name, or the agent file.
        experiment: the file that names it, or None.
        options: by name, those that only a definition takes; empty values are not given.

    Raises:
        UserError: the file is faulty, there is no such selector, or an option does not apply to it.
    """
    from ctxbench.bench.selector_specs import agent_own_spec

    if experiment is None:
        spec = None if selector is None else agent_own_spec(selector)
    else:
        spec = _of_experiment(experiment, selector)
    if spec is not None and (idle := [name for name, value in options.items() if value]):
        raise ParameterError(f"{spec.name} is as its file says; leave {' and '.join(idle)} out")
    return spec


def _of_experiment(path: Path, selector: str | None) -> SelectorSpec:
    """A selector of an experiment file, or of a gate file.

    Raises:
        UserError: the file is faulty, or has no such selector.
    """
    from ctxbench.bench.experiment_file import examine

    experiment, faults = examine(path)
    specs = {spec.name: spec for spec in experiment.selectors}
    if selector in specs:
        return specs[selector]
    raise_faults(faults)
    if selector is None:
        raise ParameterError(f"--experiment needs --selector, which of those in the file: {', '.join(specs)}")
    raise UnknownNameError("selector of the experiment", selector, specs)


def stand_in(spec: SelectorSpec) -> Definition:
    """What keeps a session's items where the selector has no settings of a session's."""
    from ctxbench.selectors.definitions import definition

    return replace(definition(IN_CHAT), name=spec.name)


def _system(items: str) -> str:
    """The system prompt of the agent whose items these are; empty for other catalogs."""
    from ctxbench.sources.agent_file import is_agent_file, read_agent

    return read_agent(Path(items)).system if is_agent_file(items) else ""


def explained(
    spec: SelectorSpec, pipeline: Pipeline, request: Request, catalog: Catalog, resources: Resources, *, items: str
) -> tuple[Explanation, Pipeline]:
    """Ask a selector of a file.

    Args:
        spec: the selector.
        pipeline: that of `stand_in`.
        request, catalog, resources: what is asked, of what, with what.
        items: where the catalog comes from, as it was named.

    Returns:
        The explanation, and the selector's pipeline; `pipeline` where it is one of the user's own.

    Raises:
        UserError: the selector failed, or gave no answer.
    """
    from ctxbench.core.requests import Batch
    from ctxbench.selectors.explain import explain
    from ctxbench.selectors.explain_own import explain_own
    from ctxbench.selectors.pipelines import PipelineSelector

    selector = spec.make(resources, {})
    if isinstance(selector, PipelineSelector):
        return explain(selector.pipeline, catalog, request, resources, live=True), selector.pipeline
    form: Any = pipeline.format.call  # messages, as `IN_CHAT` has it
    try:
        system = _system(items)
        form = replace(form, system=system) if system else form
        return explain_own(selector, Batch.of(catalog, [request]), resources, form=form), pipeline
    finally:
        getattr(selector, "close", lambda: None)()


def own_lines(explanation: OwnExplanation) -> list[str]:
    """The time and the notes of an external selector's answer."""
    from ctxbench.report.run_tables import note_text

    start = "" if explanation.timed else ", with its start where it had to be started"
    lines = [f"answered in {explanation.seconds:.3f} s{start}"]
    if explanation.not_named:
        lines.append(f"not named in the answer: {count(explanation.not_named, 'item')}")
    return lines + [f"note: {note_text(name, value)}" for name, value in explanation.notes.items()]
