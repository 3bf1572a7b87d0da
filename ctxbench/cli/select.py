"""`ctxbench select`: one request, explained, also within a session."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ctxbench.catalogs.agent_file import is_agent_file, read_agent
from ctxbench.cli.common import print_json
from ctxbench.datasets.lookup import find_catalog
from ctxbench.io.console import embedding_progress, say
from ctxbench.io.documents import dump_json, parse_json, values_with_lines
from ctxbench.io.errors import (
    Fault,
    InputError,
    ParameterError,
    UnknownNameError,
    count,
    first_few,
    raise_faults,
)
from ctxbench.io.files import cache_dir, read_text
from ctxbench.io.rows import named_instant
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Batch, Message, Request
from ctxbench.model.resources import Resources
from ctxbench.pipelines.fits import all_steps, fit_notices
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import BUDGET, open_counter
from ctxbench.selectors.conversations import ConversationStore, read_message, read_session
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import (
    SelectorSpec,
    agent_own_spec,
    definition,
    find_definition,
    read_presets,
    refuse_time_of_tree,
    selector_name,
    selector_of_tree,
)
from ctxbench.selectors.explain import Explained, Explanation, OwnExplanation, explain, explain_own
from ctxbench.selectors.selector import PipelineSelector, Value, value_text
from ctxbench.selectors.session import Agent, Session

_LEAST_SHARE, _MOST_WORDS = 0.005, 5  # what a line shows; --json has all
WIDTH = 60
PIPELINES = 100  # that are kept of a selector
_VERSION = re.compile(r"@[0-9a-f]{12}(\.\d+)?$")  # behind a file's name, where a catalog holds several


def candidate_lines(
    rows: tuple[Explained, ...], *, pairs: bool, headed: bool = False, paths: bool = False, sure: float | None = None
) -> list[str]:
    """One candidate per line: score, mode, tokens and id; below it the exclusion rule and the best matching pair.

    With `paths` files and their parts are named by path, such as `src/core.py::Context`, not by id. With `sure`, that
    of the step `price`, an item that is first only by it has a line that says so.
    """
    required = any(candidate.probability is not None for candidate in rows)
    columns = ["score", *["probability required"] * required, "include mode", "tokens", "item"]
    lines = [" | ".join(columns)] if headed else []
    for candidate in rows:
        score = "      " if candidate.offered.score is None else f"{candidate.offered.score:6.3f}"
        likely = "" if candidate.probability is None else f"  {candidate.probability:4.0%} likely"
        name = _display_id(candidate.offered.id, paths=paths)
        lines.append(f"{score}{likely}  {candidate.offered.mode:<9} {candidate.tokens:>5} tokens  {name}")
        if candidate.offered.rule:
            lines.append(f"        {candidate.offered.rule}")
        if candidate.price_waived and sure is not None:
            lead = f"the most likely item by sure={sure:g} log odds or more"
            lines.append(f"        offered first whatever it costs: {lead}")
        if candidate.loads:
            lines.append(f"        loads {candidate.loads:,} tokens more where the model asks for it")
        if candidate.offered.span:
            start, end = candidate.offered.span
            of = f"{len(candidate.item.prompt_text):,}"
            lines.append(f"        shown in part: characters {start + 1:,} to {end:,} of {of}")
        if why := score_line(candidate):
            lines.append(f"        {why}")
        if pairs and (pair := winning_pair(candidate, paths=paths)):
            lines.append(f"        {pair}")
    return lines


def score_line(candidate: Explained) -> str:
    """Where a score comes from: shares by source, then matched words; empty where neither is known."""
    shares = "  ".join(f"{name} {share:.0%}" for name, share in candidate.shares.items() if abs(share) >= _LEAST_SHARE)
    factor = "" if candidate.factor == 1.0 else f"kind of file x{candidate.factor:g}"
    words = [f"{word} {share:.0%}" for word, share in candidate.words.items() if share >= _LEAST_SHARE]
    ellipsis = ["..."] if len(words) > _MOST_WORDS else []
    matched = f"holds {', '.join(words[:_MOST_WORDS] + ellipsis)}" if words else ""
    return "; ".join(filter(None, (shares, factor, matched)))


def winning_pair(candidate: Explained, *, paths: bool = False) -> str:
    """The item that led to a candidate, if one did, and the matching pair of texts; empty if neither is known."""
    led = f"led to by {_display_id(candidate.offered.via, paths=paths)}" if candidate.offered.via else ""
    pair = f"“{_short(candidate.query_chunk)}” matches “{_short(candidate.item_chunk)}”" if candidate.item_chunk else ""
    return ": ".join(filter(None, (led, pair)))


def _display_id(item: str, *, paths: bool) -> str:
    """An id as a person reads it; with `paths` that of a file or a part of one as its name, without its version."""
    key = ItemKey.parse(item)
    return _VERSION.sub("", key.name) if paths and key.type in ("file", "chunk") and key.server is None else item


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= WIDTH else one_line[: WIDTH - 1] + "…"


@dataclass(frozen=True)
class Chat:
    """The session and the history of a request.

    Attributes:
        session: the name and the JSON of a session, or None for a new one.
        history: earlier messages, or None.
        add, remove: ids, or paths of files, each changed in the session before the request is asked; no file is.
        tool_results: (tool, text), each: what a tool that was called for the request has answered.
    """

    session: tuple[Path, str] | None = None
    history: tuple[Message, ...] | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    tool_results: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, session: Path | None, history: str | None, tool_results: Sequence[str]) -> Chat:
        """Read the files that options name; see `read_history` and `read_tool_results`.

        Raises:
            UserError: a file is faulty.
        """
        return cls(
            session=None if session is None else (session, read_text(session)),
            history=None if history is None else read_history(history),
            tool_results=read_tool_results(tool_results),
        )

    @property
    def alone(self) -> bool:
        """Whether the request has no session and no history."""
        return (self.session, self.history, self.add, self.remove) == (None, None, (), ())


@dataclass(frozen=True)
class ReadySelector:
    """A selector over a catalog.

    Attributes:
        catalog: the items.
        definition: the selector.
        preset: its preset, or None.
        label: what answers call it.
        built: its last pipelines by their values: a file that one reads is read once.
    """

    catalog: Catalog
    definition: Definition
    preset: str | None
    label: str
    built: OrderedDict[str, Pipeline] = field(default_factory=OrderedDict, repr=False)

    @cached_property
    def agent(self) -> Agent:
        """What sessions start from."""
        return Agent(catalog=self.catalog, selector=self.definition, settings=self.definition.values(self.preset))

    def pipeline(self, values: Mapping[str, Value]) -> Pipeline:
        """The pipeline with these values of all parameters."""
        key = dump_json(dict(values))
        if (pipeline := self.built.get(key)) is None:
            pipeline = self.built[key] = self.definition.pipeline(values)
            if len(self.built) > PIPELINES:
                self.built.popitem(last=False)
        return pipeline


def open_session(chat: Chat, selector: ReadySelector, overrides: Mapping[str, Value]) -> Session:
    """The session of a request, with what the options change in it.

    Raises:
        UserError: a file is faulty, a change is none, a preset is named although the session has settings, or one
            of `overrides` has no effect with them.
    """
    agent, definition = selector.agent, selector.definition
    if chat.session is None:
        session = Session.start(agent, "select")
    else:
        session = read_session(chat.session[0], agent, chat.session[1])
        changed = [name for name, value in session.settings.items() if value != agent.settings[name]]
        if selector.preset is not None and changed:
            raise ParameterError(
                f"{chat.session[0]} has settings of its own ({', '.join(changed)}); leave out the preset"
            )
    for key in chat.remove:
        session = session.remove(_id_of(key, selector.catalog))
    for key in chat.add:
        session = session.add(_id_of(key, selector.catalog))
    session = session.with_settings(**overrides)
    if idle := [fault for name in overrides if (fault := definition.idle(name, session.settings))]:
        raise ParameterError("; ".join(idle))
    return session


def _id_of(text: str, catalog: Catalog) -> str:
    """The id of a file, or of a part of one, that is named as answers name it; else the text itself."""
    files = (ItemKey(kind, None, text) for kind in ("file", "chunk"))
    return next((key.id for key in files if catalog.find(key) is not None), text)


def read_tool_results(pairs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The results of tools, (tool, text), from TOOL=FILE.

    Raises:
        ParameterError: one is not of this form.
        StorageError: a file is missing or cannot be read.
    """
    results = []
    for pair in pairs:
        tool, mark, file = pair.partition("=")
        if not (tool and mark and file):
            raise ParameterError(
                f"--tool-result needs TOOL=FILE, the tool's name and a text file of what it answered; got {pair!r}"
            )
        results.append((tool, read_text(Path(file))))
    return tuple(results)


_NO_HISTORY = (
    'expected the messages of one conversation, a JSON list of {"role", "content"} with both texts, or stored '
    "conversations (datasets/sessions.md, Stored conversations); of a line of a log, take its messages"
)


def read_history(source: str) -> tuple[Message, ...]:
    """Earlier messages from a JSON list of `{"role", "content"}`, or of one stored conversation.

    Args:
        source: a file, FILE#CONVERSATION where a store holds several, or the list itself.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is neither; file and line of all faults.
        ParameterError: it holds several conversations, or not the one that is named.
    """
    if source.lstrip().startswith("[") and not Path(source[:200]).exists():
        return _read_messages(source, Path("--history"))
    name, mark, conversation = (source, "", "") if Path(source).exists() else source.rpartition("#")
    path = Path(name if mark else source)
    text = read_text(path)
    if text.lstrip().startswith("["):
        if mark:
            raise ParameterError(f"{path} is a list of messages, not of conversations; leave out #{conversation}")
        return _read_messages(text, path)
    if re.match(r'\s*\{\s*"(role|content)"', text):
        problem = 'messages must be a JSON list, [{"role": "user", "content": "..."}, ...]; put them in brackets'
        raise InputError([Fault(problem, path, 1)])
    with suppress(ValueError):
        first = json.loads(next(iter(text.splitlines()), ""))
        if isinstance(first, dict) and not {"conversation", "requestContext"} & {*first}:
            raise InputError([Fault(_NO_HISTORY, path, 1)])
    exchanges = ConversationStore(path).exchanges()
    names = list(dict.fromkeys(exchange.conversation for exchange in exchanges))
    if mark and conversation not in names:
        raise ParameterError(f"{path} holds no conversation {conversation!r}; it holds {_listed(names)}")
    if not mark and len(names) > 1:
        problem = f"{path} holds {len(names)} conversations; name one, as {path}#{names[0]}; it holds {_listed(names)}"
        raise ParameterError(problem)
    chosen = conversation if mark else next(iter(names), "")
    return tuple(message for exchange in exchanges if exchange.conversation == chosen for message in exchange.messages)


def _listed(names: Sequence[str]) -> str:
    return first_few([*map(repr, names)], 12) or "none"


def _read_messages(text: str, path: Path) -> tuple[Message, ...]:
    """The messages of a JSON list, entry by entry, so that a fault has its line."""
    parse_json(text, path=path)  # what is no JSON, or has a key twice, is said
    faults, out = [], []
    for number, (line, entry) in enumerate(values_with_lines(text, text.index("[") + 1, end="]"), start=1):
        try:
            out.append(read_message(entry))
        except TypeError:
            problem = f'message {number}: expected {{"role", "content"}}, both texts, got {entry!r:.60}'
            faults.append(Fault(problem, path, line))
        except ParameterError as error:
            faults.append(Fault(f"message {number}: {error}", path, line))
    raise_faults(faults)
    return tuple(out)


IN_CHAT = "semantic"  # whose settings a session holds, as the specification has it
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
    from ctxbench.evaluation.experiment import examine

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
    return replace(definition(IN_CHAT), name=spec.name)


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
    selector = spec.make(resources, {})
    if isinstance(selector, PipelineSelector):
        return explain(selector.pipeline, catalog, request, resources, live=True), selector.pipeline
    form: Any = pipeline.format.call  # messages, as `IN_CHAT` has it
    try:
        system = read_agent(Path(items)).system if is_agent_file(items) else ""
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
        set: values of parameters, by name.
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
    set: Mapping[str, Value]
    embedder: str
    chat: Chat = field(default_factory=Chat)
    presets: Path | None = None
    experiment: Path | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)
    max_files: int | None = None


class PreparedRequest(NamedTuple):
    """A request for a pipeline, with the values of its parameters, and the session where it has one."""

    request: Request
    values: Mapping[str, Value]
    pipeline: Pipeline
    session: Session | None = None
    warnings: tuple[str, ...] = ()


def run(question: SelectRequest, *, near: int, messages: bool, as_json: bool) -> None:
    """Select and print."""
    options: dict[str, object] = {"--presets": question.presets, "--preset": question.preset, "--set": question.set}
    options |= {"--max-files": () if question.max_files is None else (str(question.max_files),)}
    spec = listed_selector(question.selector, question.experiment, options)
    definition, preset, label = resolve_selector(question) if spec is None else (stand_in(spec), None, spec.name)
    catalog = find_catalog(question.catalog)  # a slip in its name may have led to another selector
    prepared = prepare_request(question, ReadySelector(catalog, definition, preset, label))
    say(*(f"warning: {warning}" for warning in prepared.warnings), err=True)
    request, pipeline = prepared.request, prepared.pipeline
    counter = open_counter("o200k", cache=cache_dir())
    with embedding_progress() as progress:
        resources = local_resources(open_embedder(question.embedder), counter, progress=progress)
        if spec is None:
            explanation = explain(pipeline, catalog, request, resources, live=True)
        else:
            explanation, pipeline = explained(spec, pipeline, request, catalog, resources, items=question.catalog)
        if request.tool_results and not (
            isinstance(explanation, OwnExplanation)
            or any(step.declared("reads_tool_results") or step.code for step in pipeline.steps())
        ):
            text = "searches without results of tools; `analyse: [sentences, tool_results]` does"
            say(f"notice: {label} {text}", err=True)
        if pipeline.fitted:
            say(*(f"notice: {notice}" for notice in fit_notices(pipeline, catalog, resources)), err=True)
    if explanation.outside > OUTSIDE:
        text = f"of {explanation.outside:.0%} of the items offered a feature lies outside of what the fit has seen"
        say(f"notice: {text}, so that how likely they are is a guess; labels of your own fix that", err=True)
    if messages:
        sent = [{"role": role, "content": content} for role, content in explanation.prompt.messages]
        print_json({"messages": sent, "tools": list(explanation.prompt.tools)})
    elif as_json:
        parameters = definition.in_force(prepared.values) if spec is None else dict(spec.values)
        print_json(
            answer_of(explanation, prepared, {"selector": label, "parameters": parameters}, resources, near=near)
        )
    else:
        end = ["", ITS_OWN] if isinstance(explanation, OwnExplanation) else _score_words(pipeline, explanation)
        say(*_lines(pipeline, explanation, label, counter.name, near), *end)


def answer_of(
    explanation: Explanation, prepared: PreparedRequest, selector: Mapping[str, Any], resources: Resources, *, near: int
) -> dict[str, Any]:
    """The answer as JSON.

    Args:
        explanation: of the request.
        prepared: the request.
        selector: `selector`, its name, and `parameters`, those that have an effect.
        resources: what embedded and counted.
        near: how many items that stayed out are in it.
    """
    embedder = {} if isinstance(explanation, OwnExplanation) else {"embedder": resources.identity("embedder")}
    session = {} if prepared.session is None else {"session": prepared.session.as_dict()}
    counter = {"tokens": resources.identity("tokens")}
    return {**selector, **embedder, **counter, **session, **explanation.as_dict(near=near)}


def prepare_request(question: SelectRequest, selector: ReadySelector) -> PreparedRequest:
    """The request of a question, alone or in its chat.

    Raises:
        UserError: an option does not suit.
    """
    overrides = _overrides(question, selector.definition)
    named_instant("time", question.scope.get("time"))
    refuse_time_of_tree(question.catalog, question.scope.get("time"))
    chat, definition = question.chat, selector.definition
    if chat.alone:
        request = Request(id="select", text=question.text, tool_results=chat.tool_results, **question.scope)
        values = definition.values(selector.preset, overrides)
        return PreparedRequest(request, values, selector.pipeline(values))
    if question.scope:
        options = " and ".join(f"--{name}" for name in question.scope)
        raise ParameterError(
            f"{options}: in a chat the session's file says whose it is (`user`, `workspace`); leave out"
        )
    session = open_session(chat, selector, overrides)
    request, warnings = session.build_request(question.text, history=chat.history or (), tool_results=chat.tool_results)
    return PreparedRequest(request, dict(session.settings), selector.pipeline(session.settings), session, warnings)


def _overrides(question: SelectRequest, definition: Definition) -> dict[str, Value]:
    """The values of parameters that `--set` and `--max-files` give.

    Raises:
        ParameterError: one is of no such form, `max_files` has two values, or the selector has no such parameter.
    """
    overrides = dict(question.set)
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
    if not question.chat.alone:
        return IN_CHAT
    selector = selector_of_tree(question.catalog) or DEFAULT
    return selector if question.preset is None else selector.partition("/")[0]


def resolve_selector(question: SelectRequest) -> tuple[Definition, str | None, str]:
    """The definition, the preset and the heading of the selector.

    Raises:
        UserError: it is unknown, faulty, or named twice.
    """
    if question.presets is None:
        name = question.selector or _default(question)
        definition, preset = find_definition(name, question.preset)
        return definition, preset, selector_name(name, question.preset)

    if question.selector is not None:
        raise ParameterError(f"{question.presets} says the selector of every preset; leave --selector out")
    file = read_presets(question.presets)
    if question.preset is None:
        raise ParameterError(f"--presets needs --preset, which of those in the file: {', '.join(file.presets)}")
    return file.definition(question.preset), question.preset, f"{file.path.stem}/{question.preset}"


def ready_selectors(question: SelectRequest, catalog: Catalog) -> dict[str | None, ReadySelector]:
    """The selector of a question with each of its presets, and by None as the question says.

    Raises:
        UserError: as of `resolve_selector`.
    """
    first = ReadySelector(catalog, *resolve_selector(question))
    file = None if question.presets is None else read_presets(question.presets)
    base = first.label.partition("/")[0]
    return {None: first} | {
        name: ReadySelector(
            catalog, first.definition if file is None else file.definition(name), name, f"{base}/{name}"
        )
        for name in (first.definition if file is None else file).presets
    }


def catalog_and_selector(
    catalog: str | None, agent: Path | None, *, selector: str | None, file: Path | None
) -> tuple[str, str | None]:
    """The catalog and the selector that options name; an agent file gives both, unless another selector is named.

    `file` is one of presets or an experiment, which says of selectors what there is.

    Raises:
        ParameterError: neither a catalog nor an agent is named, or both.
        UserError: the agent file cannot be read, or is none.
    """
    if catalog is not None and agent is not None:
        raise ParameterError("--catalog and --agent both say which items there are; leave one out")
    if agent is not None:
        read_agent(agent)  # what is no agent file is said to be none
        return str(agent), selector or (None if file is not None else str(agent))
    if catalog is None:
        raise ParameterError("name the items to choose from: --catalog FOLDER, or --agent FILE")
    return catalog, selector


def parse_values(pairs: Sequence[str]) -> dict[str, Value]:
    """Read NAME=VALUE pairs: a value is a number, true, false, or the name of a choice.

    Raises:
        ParameterError: one is not of this form, or a name occurs twice.
    """
    values: dict[str, Value] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if (value := _parsed(text)) is None:
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


def _lines(pipeline: Pipeline, explanation: Explanation, label: str, counter: str, near: int) -> list[str]:
    n = len(explanation.chosen)
    n_session = sum(candidate.offered.origin == "session" for candidate in explanation.chosen)
    modes = {candidate.offered.mode for candidate in explanation.chosen if candidate.offered.origin == "session"}
    how_included = "always in" if modes == {"always"} else "in the session"
    session_text = f" beside {n_session} {how_included}" if n_session else ""
    offered = f"{n - n_session} of {count(explanation.eligible, 'item')} offered{session_text}"
    in_all = f", {explanation.total_tokens:,} with what the session holds" if n_session else ""
    tokens = f"{explanation.prompt_tokens:,} prompt tokens ({counter}){in_all}"
    is_external = isinstance(explanation, OwnExplanation)
    reasons = "; ".join(f"{reason}: {first_few(ids, 1)}" for reason, ids in explanation.not_searched.items())
    out = explanation.left_out[:near] if is_external or explanation.chunks else ()
    priced = [step.call for step in all_steps(pipeline.refine) if step.declared("includes_tokens")]
    sure = next((getattr(step, "sure", None) for step in priced), None)
    title = f"nearest that stayed out ({len(out)} of {count(len(explanation.left_out), 'candidate')}):"
    return [
        f"{label}: {offered}, {tokens}",
        *map(str, explanation.selection.trace),
        *([f"{'may not be offered' if is_external else 'not searched'}: {reasons}"] if reasons else []),
        *(own_lines(explanation) if isinstance(explanation, OwnExplanation) else _search_lines(explanation)),
        *(
            candidate_lines(explanation.chosen, pairs=True, headed=True, paths=True, sure=sure)
            if n
            else ["", f"nothing is offered{_too_large(explanation)}"]
        ),
        *(["", title, "", *candidate_lines(out, pairs=False, paths=True)] if out else []),
    ]


def _too_large(explanation: Explanation) -> str:
    """Why the first item keeps out all others, if it does not fit into the token budget; else empty."""
    first = next(iter(explanation.left_out), None)
    if first is None or first.offered.rule is None or first.offered.rule.code != BUDGET:
        return ""
    return f": the first item, of {first.tokens:,} tokens, does not fit into the token budget and ends the list"


def _search_lines(explanation: Explanation) -> Iterator[str]:
    """Why nothing is searched, or nothing found."""
    is_from_session = all(candidate.offered.origin == "session" for candidate in explanation.chosen)
    if explanation.search_off:
        yield "a setting switches the search off, so nothing is searched"
    elif not explanation.chunks:
        why = "the analysis makes no chunk of this request" if explanation.text.strip() else "the request has no text"
        yield f"{why}, so nothing is searched"
    elif explanation.eligible and is_from_session and not explanation.left_out:
        yield "the search finds nothing: no item is a candidate"


def _score_words(pipeline: Pipeline, explanation: Explanation) -> list[str]:
    """An explanation of scores that include a price, and of the threshold; empty for other selectors."""
    scored = any(candidate.offered.score is not None for candidate in (*explanation.chosen, *explanation.left_out))
    steps = list(all_steps(pipeline.refine))
    if not scored or not any(step.declared("includes_tokens") for step in steps):
        return []
    waived = any(candidate.price_waived for candidate in explanation.chosen)
    thresholds = {
        (lowest, step.declared("floor"))
        for step in steps
        for lowest in step.declared("thresholds").get("score", {}).values()
    }
    cut = ""
    if len(thresholds) == 1:
        ((lowest, floor),) = thresholds
        exception = f", but not the first {'item' if floor == 1 else floor}" if floor else ""
        cut = f" Items below {lowest:g} are excluded{exception}."
    first = " An item that is first whatever it costs counts as just above the next." if waived else ""
    return ["", f"Score: log odds of being required minus log(tokens + overhead).{cut}{first}"]
