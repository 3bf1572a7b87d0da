"""`ctxbench select`: one request, explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.candidate_lines import candidate_lines
from ctxbench.cli.file_selector import IN_CHAT, ITS_OWN, explained, listed_selector, own_lines, stand_in
from ctxbench.cli.output import print_json
from ctxbench.cli.sessions import Chat, open_session, read_history, read_tool_results
from ctxbench.core.errors import ParameterError, StorageError
from ctxbench.io.console import say
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from ctxbench.core.items import Catalog
    from ctxbench.core.pipeline import Pipeline
    from ctxbench.core.requests import Request
    from ctxbench.selectors.definition import Definition
    from ctxbench.selectors.explain import Explanation
    from ctxbench.selectors.parameters import Value
    from ctxbench.session.session import Session

OUTSIDE = 0.5  # share of the items offered with features that the fit has not seen, above which it is said
DEFAULT = "learned"
MAX_FILES = "max_files"


@dataclass(frozen=True)
class SelectRequest:
    """The arguments of the command.

    Attributes:
        text: the request.
        catalog: a file, a folder, or a dataset's name.
        selector: a shipped selector's name, or a YAML file; None = that of the presets file, else `IN_CHAT` with a
            session or a history, `selector_of_tree` for a repository, or `DEFAULT`.
        preset: its preset, or that of the presets file, or None.
        set: NAME=VALUE, each.
        embedder: as `open_embedder` reads it.
        chat: the session and the messages before.
        presets: a presets file, or None.
        experiment: a file that names `selector`, or None.
        scope: of `user`, `workspace` and `time`, what is given: what the request may see.
        max_files: value of the selector's parameter of this name, or None.
    """

    text: str
    catalog: str
    selector: str | None
    preset: str | None
    set: tuple[str, ...]
    embedder: str
    chat: Chat = field(default_factory=Chat)
    presets: Path | None = None
    experiment: Path | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)
    max_files: int | None = None


def run(question: SelectRequest, *, near: int, messages: bool, as_json: bool) -> None:
    """Select and print."""
    from ctxbench.cli.progress import embedding_progress
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.features.stored_fits import fit_notices
    from ctxbench.index.resources import LocalResources
    from ctxbench.io.cache import cache_dir
    from ctxbench.selectors.explain import explain
    from ctxbench.selectors.explain_own import OwnExplanation
    from ctxbench.text.tokens import open_counter

    options = {"--presets": question.presets, "--preset": question.preset, "--set": question.set}
    options |= {"--max-files": () if question.max_files is None else (str(question.max_files),)}
    spec = listed_selector(question.selector, question.experiment, options)
    definition, preset, label = _resolve_selector(question) if spec is None else (stand_in(spec), None, spec.name)
    request, values, pipeline, catalog, session = _request(question, definition, preset)
    embedder = open_embedder(question.embedder)
    counter = open_counter("o200k", cache=cache_dir())
    with embedding_progress() as progress:
        vectors = open_vectors(embedder, progress=progress)
        resources = LocalResources(vectors, counter)
        if spec is None:
            explanation = explain(pipeline, catalog, request, resources, live=True)
        else:
            explanation, pipeline = explained(spec, pipeline, request, catalog, resources, items=question.catalog)
        if request.tool_results and not (isinstance(explanation, OwnExplanation) or _reads_results(pipeline)):
            text = "searches without results of tools; `analyse: [sentences, tool_results]` does"
            say(f"notice: {label} {text}", err=True)
        for notice in fit_notices(pipeline, catalog, resources) if pipeline.fitted else ():
            say(f"notice: {notice}", err=True)
    if explanation.outside > OUTSIDE:
        text = f"of {explanation.outside:.0%} of the items offered a feature lies outside of what the fit has seen"
        say(f"notice: {text}, so that how likely they are is a guess; labels of your own mend that", err=True)
    if messages:
        print_json({"messages": _messages(explanation), "tools": list(explanation.prompt.tools)})
    elif as_json:
        facts = {
            "selector": label,
            "parameters": definition.in_force(values) if spec is None else dict(spec.values),
            **({} if isinstance(explanation, OwnExplanation) else {"embedder": embedder.identity.key}),
            "tokens": counter.name,
        }
        facts |= {} if session is None else {"session": session.as_dict()}
        print_json({**facts, **explanation.as_dict(near=near)})
    else:
        is_external = isinstance(explanation, OwnExplanation)
        end = ["", ITS_OWN] if is_external else _score_words(pipeline, explanation)
        say(*_lines(explanation, label, counter.name, near), *end)


def _request(
    question: SelectRequest, definition: Definition, preset: str | None
) -> tuple[Request, Mapping[str, Value], Pipeline, Catalog, Session | None]:
    """The request, alone or in its chat, with the values, pipeline, catalog and session for it.

    Raises:
        UserError: an option does not suit, or a file cannot be read.
    """
    from ctxbench.core.requests import Request
    from ctxbench.core.times import named_instant
    from ctxbench.selectors.definitions import refuse_time_of_tree

    catalog = find_catalog(question.catalog)  # a slip in its name may have led to another selector
    overrides = _overrides(question, definition)
    named_instant("time", question.scope.get("time"))
    refuse_time_of_tree(question.catalog, question.scope.get("time"))
    results = read_tool_results(question.chat.tool_results)
    session = None
    if question.chat.alone:
        request = Request(id="select", text=question.text, tool_results=results, **question.scope)
        values = definition.values(preset, overrides)
        pipeline = definition.pipeline(values)
    elif question.scope:
        options = " and ".join(f"--{name}" for name in question.scope)
        raise ParameterError(
            f"{options}: in a chat the session's file says whose it is (`user`, `workspace`); leave out"
        )
    else:
        session = open_session(question.chat, catalog, definition, preset, overrides)
        history = () if question.chat.history is None else read_history(question.chat.history)
        request, warnings = session.build_request(question.text, history=history, tool_results=results)
        values, pipeline = dict(session.settings), session.pipeline
        for warning in warnings:
            say(f"warning: {warning}", err=True)
    return request, values, pipeline, catalog, session


def _overrides(question: SelectRequest, definition: Definition) -> dict[str, Value]:
    """The values of parameters that `--set` and `--max-files` give.

    Raises:
        ParameterError: one is of no such form, `max_files` has two values, or the selector has no such parameter.
    """
    overrides = parse_values(question.set)
    if question.max_files is None:
        return overrides
    if MAX_FILES not in definition.parameters:
        names = ", ".join(definition.parameters) or "none"
        raise ParameterError(
            f"--max-files sets {MAX_FILES}, which selector {definition.name!r} does not have; name one that "
            f"has it, as codebase, or use --set with what it has: {names}"
        )
    if MAX_FILES in overrides:
        raise ParameterError(f"--max-files and --set both give {MAX_FILES}; leave one out")
    return {**overrides, MAX_FILES: question.max_files}


def _default(question: SelectRequest) -> str:
    """The selector that is used where none is named."""
    from ctxbench.selectors.definitions import selector_of_tree

    if not question.chat.alone:
        return IN_CHAT
    selector = selector_of_tree(question.catalog) or DEFAULT
    return selector if question.preset is None else selector.partition("/")[0]


def _reads_results(pipeline: Pipeline) -> bool:
    """Whether a step looks at results of tools, as far as is known: a step of others may."""
    from ctxbench.core.stored_pipelines import StoredPipeline

    stored = StoredPipeline.of({"pipeline": pipeline.describe()})
    steps = [] if stored is None else stored.steps()
    return any(step.name in ("tool_results", "tool_rules") or "code" in step.about for step in steps)


def _resolve_selector(question: SelectRequest) -> tuple[Definition, str | None, str]:
    """The definition, the preset and the heading of the selector.

    Raises:
        UserError: it is unknown, faulty, or named twice.
    """
    from ctxbench.selectors.definitions import find_definition, selector_name

    if question.presets is None:
        name = question.selector or _default(question)
        definition, preset = find_definition(name, question.preset)
        return definition, preset, selector_name(name, question.preset)
    from ctxbench.selectors.presets import read_presets

    if question.selector is not None:
        raise ParameterError(f"{question.presets} says the selector of every preset; leave --selector out")
    file = read_presets(question.presets)
    if question.preset is None:
        raise ParameterError(f"--presets needs --preset, which of those in the file: {', '.join(file.presets)}")
    return file.definition(question.preset), question.preset, f"{file.path.stem}/{question.preset}"


def what_is_asked(
    catalog: str | None, agent: Path | None, *, selector: str | None, file: Path | None
) -> tuple[str, str | None]:
    """The catalog and the selector that options name; an agent file gives both, unless another selector is named.

    `file` is one of presets or an experiment, which says of selectors what there is.

    Raises:
        ParameterError: neither a catalog nor an agent is named, or both.
        UserError: the agent file cannot be read, or is none.
    """
    from ctxbench.sources.agent_file import read_agent

    if catalog is not None and agent is not None:
        raise ParameterError("--catalog and --agent both say which items there are; leave one out")
    if agent is not None:
        read_agent(agent)  # what is no agent file is said to be none
        return str(agent), selector or (None if file is not None else str(agent))
    if catalog is None:
        raise ParameterError("name the items to choose from: --catalog FOLDER, or --agent FILE")
    return catalog, selector


def find_catalog(name: str) -> Catalog:
    """A catalog from a file (an agent file among them), a folder, or by the name of a dataset, imported if it can be.

    Raises:
        StorageError: there is none, or its source is not installed.
        InputError: it is faulty.
    """
    from ctxbench.sources.agent_file import open_catalog

    try:
        return open_catalog(name)
    except StorageError:
        from ctxbench.cli.progress import progress
        from ctxbench.data.datasets.layout import agent_of
        from ctxbench.data.datasets.lookup import importers, open_dataset

        if (agent := agent_of(Path(name))) is not None:
            return open_catalog(agent)
        if name not in importers() or Path(name).exists():
            raise
        with progress() as bar:
            return open_dataset(name, notify=bar.say).catalog


def parse_values(pairs: tuple[str, ...]) -> dict[str, Value]:
    """Read NAME=VALUE pairs: a value is a number, true, false, or the name of a choice.

    Raises:
        ParameterError: one is not of this form, or a name occurs twice.
    """
    from ctxbench.selectors.parameters import value_text

    values: dict[str, Value] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        value = _parsed(text)
        if value is None:
            raise ParameterError(
                f"--set needs NAME=VALUE with a number, for example at_most=3; got {pair!r} (a value may "
                f"also be true, false or the name of a choice)"
            )
        if name in values:
            conflicting = f"{value_text(values[name])} and {value_text(value)}"
            raise ParameterError(f"--set gives {name} two values, {conflicting}; keep one")
        values[name] = value
    return values


def _parsed(text: str) -> Value | None:
    """A value from the command line; None where it is none."""
    try:
        return float(text) if any(c in text for c in ".eE") else int(text)
    except ValueError:
        if text.lower().lstrip("+-") in ("", "nan", "inf", "infinity"):
            return None
        return {"true": True, "false": False}.get(text.lower(), text)


def _messages(explanation: Explanation) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in explanation.prompt.messages]


def _lines(explanation: Explanation, label: str, counter: str, near: int) -> list[str]:
    from ctxbench.selectors.explain_own import OwnExplanation

    n = len(explanation.chosen)
    n_session = sum(candidate.offered.origin == "session" for candidate in explanation.chosen)
    session_text = f" beside {n_session} {_session_words(explanation)}" if n_session else ""
    offered = f"{n - n_session} of {count(explanation.eligible, 'item')} offered{session_text}"
    tokens = f"{explanation.prompt_tokens:,} prompt tokens ({counter})"
    if n_session:
        tokens += f", {explanation.total_tokens:,} with what the session holds"
    lines = [f"{label}: {offered}, {tokens}"]
    lines += map(str, explanation.selection.trace)
    is_external = isinstance(explanation, OwnExplanation)
    if explanation.not_searched:
        reasons = ", ".join(f"{n} {reason}" for reason, n in explanation.not_searched.items())
        lines.append(f"{'may not be offered' if is_external else 'not searched'}: {reasons}")
    if isinstance(explanation, OwnExplanation):
        lines += own_lines(explanation)
    elif explanation.search_off:
        lines.append("a setting switches the search off, so nothing is searched")
    elif not explanation.chunks:
        why = "the analysis makes no chunk of this request" if explanation.text.strip() else "the request has no text"
        lines.append(f"{why}, so nothing is searched")
    elif explanation.eligible and n == n_session and not explanation.left_out:
        lines.append("the search finds nothing: no item is a candidate")
    lines += (
        candidate_lines(explanation.chosen, pairs=True, headed=True, paths=True) if n else ["", "nothing is offered"]
    )
    out = explanation.left_out[:near]
    if out:
        lines += ["", f"nearest that stayed out ({len(out)} of {count(len(explanation.left_out), 'candidate')}):", ""]
        lines += candidate_lines(out, pairs=False, paths=True)
    return lines


def _score_words(pipeline: Pipeline, explanation: Explanation) -> list[str]:
    """An explanation of scores that include a price, and of the margin that cuts them; empty for other selectors."""
    from ctxbench.core.stored_pipelines import StoredPipeline

    stored = StoredPipeline.of(about := {"pipeline": pipeline.describe()})
    scored = any(candidate.offered.score is not None for candidate in (*explanation.chosen, *explanation.left_out))
    if not scored or stored is None or not any(step.name == "price" for step in stored.steps()):
        return []
    from ctxbench.report.thresholds import bounds_of  # statistics wait until there is a margin

    margins = [
        bound
        for bound in bounds_of({"description": about})
        if (bound.quantity, bound.label) == ("difference", "margin")
    ]
    floor = f", but for the first {margins[0].floor}" if margins and margins[0].floor > 1 else ""
    cut = f"; what is over {margins[0].setting:g} below the best is left out{floor}" if len(margins) == 1 else ""
    return ["", f"Score: likelihood less price, as logarithms, comparable within one request only{cut}."]


def _session_words(explanation: Explanation) -> str:
    """What to call the items that the session holds."""
    modes = {candidate.offered.mode for candidate in explanation.chosen if candidate.offered.origin == "session"}
    return "always in" if modes == {"always"} else "in the session"
