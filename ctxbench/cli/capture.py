"""`ctxbench data capture` and the import of tool lists; the location of an edited rule in its file."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ctxbench.catalogs.agent_file import AgentFile, mode_path, read_agent
from ctxbench.catalogs.instructions import Page, read_page, references_folder, rules_folder, truth
from ctxbench.catalogs.mcp_config import disabled_servers, read_mcp_config, server_names
from ctxbench.catalogs.snapshots import (
    CAPTURE,
    CORPUS,
    SERVER,
    CatalogSnapshot,
    SnapshotPart,
    Source,
    beside_earlier,
    capture,
    earlier_parts,
    items_kept,
    missing_fields,
    odd_in,
    refuse_other,
    write_snapshot,
)
from ctxbench.cli.common import print_json
from ctxbench.datasets.layout import agent_of
from ctxbench.datasets.lookup import user_folder
from ctxbench.gate.gate import GateCheck
from ctxbench.gate.verdict import server_reasons
from ctxbench.io.console import Progress, printing_to_stderr, progress, say
from ctxbench.io.documents import line_of, load_yaml
from ctxbench.io.errors import (
    InputError,
    ParameterError,
    StorageError,
    UserError,
    count,
    message_lines,
    one_line,
    raise_first,
    suggest,
)
from ctxbench.io.files import read_text
from ctxbench.io.git import Repository


@dataclass(frozen=True, kw_only=True)
class CaptureRequest:
    """What is to be captured.

    Attributes:
        mcp_config: a file that names MCP servers, or None.
        rules: project folders.
        references: folders of Markdown files.
        servers, skip: names of servers that alone are asked, or are not; other items of an earlier snapshot stay.
        timeout: seconds that each server gets.
        partial: replace an earlier catalog by what is asked now, although servers failed or others were not asked.
        hide_keys: put placeholders in place of keys in texts.
        agent: the agent file whose servers they are, or None.
    """

    mcp_config: Path | None = None
    rules: Sequence[Path] = ()
    references: Sequence[Path] = ()
    servers: Sequence[str] = ()
    skip: Sequence[str] = ()
    timeout: float = 30.0
    partial: bool = False
    hide_keys: bool = False
    agent: Path | None = None


def capture_agent(agent: Path, request: CaptureRequest, *, out: Path | None, as_json: bool) -> int:
    """Capture the servers of an agent file into its snapshot; the exit code is that of `capture_all`.

    Raises:
        UserError: the file is faulty or names no servers, or something else is to be captured with it; and as of
            `capture_all`.
    """
    if request.mcp_config or request.rules or request.references or out is not None:
        raise ParameterError(
            "--agent says what is captured and where it goes; leave out --mcp-config, --rules, --references and --out"
        )
    file = read_agent(agent)
    if file.mcp is None:
        raise ParameterError(
            f"{agent} names no servers (`mcp` under `sources`), so there is nothing to capture: its rules, "
            "references and lists of tools are read anew each time"
        )
    return capture_all(replace(request, mcp_config=file.mcp, agent=agent), out=file.snapshot, as_json=as_json)


def capture_all(request: CaptureRequest, *, out: Path | None, as_json: bool) -> int:
    """Capture servers, rules and references as one catalog; the exit code is 0, or 1 if some servers failed.

    Raises:
        UserError: nothing is named, the configuration or a folder cannot be used, nothing was found, or the folder
            holds something else.
    """
    no_servers = request.mcp_config is None
    raise_first(
        (
            no_servers and not (request.rules or request.references),
            "nothing to capture: name --mcp-config FILE, --rules FOLDER or --references FOLDER",
        ),
        (
            no_servers and (request.servers or request.skip),
            "--only and --skip choose among servers; name them with --mcp-config FILE",
        ),
        (
            not 0 < request.timeout < float("inf"),
            f"--timeout must be above 0 seconds and finite, got {request.timeout:g}",
        ),
    )
    if out is None:
        raise ParameterError("name the folder that the catalog goes to: --out FOLDER")
    refuse_other(out)
    with progress() as bar:
        sources = list(_sources(request, bar))
        if (request.servers or request.skip) and not request.partial:
            sources = [beside_earlier(sources, out)]
        items = "" if request.agent is None else shlex.join(["--agent", str(request.agent)])
        partial, hide_keys = request.partial, request.hide_keys
        code = keep(sources, out=out, as_json=as_json, partial=partial, hide_keys=hide_keys, items=items)
        if not as_json:
            if request.agent is not None:
                with suppress(UserError):  # faults are reported where its items are read
                    say(*(one_line(f"{request.agent}: {note}") for note in odd_in(read_agent(request.agent).parts())))
            _say_next(out, items)
        return code


def _sources(request: CaptureRequest, bar: Progress) -> Iterator[Source]:
    if request.mcp_config is not None:
        from ctxbench.catalogs.mcp_capture import Limits, mcp_servers

        yield mcp_servers(
            request.mcp_config,
            only=request.servers,
            skip=request.skip,
            limits=Limits(timeout=request.timeout),
            progress=partial(bar, "asking servers for their tools"),
        )
    yield from (rules_folder(folder) for folder in request.rules)
    yield from (references_folder(folder) for folder in request.references)


def keep_parts(parts: Sequence[SnapshotPart], *, out: Path, as_json: bool, hide_keys: bool) -> int:
    """Write the parts of an import as a catalog; keys in texts are reported, or hidden if `hide_keys`."""
    code = keep([lambda: parts], out=out, as_json=as_json, hide_keys=hide_keys)
    if not as_json:
        _say_next(out)
    return code


def keep(
    sources: Sequence[Source],
    *,
    out: Path,
    as_json: bool,
    partial: bool = True,
    hide_keys: bool = False,
    items: str = "",
) -> int:
    """Capture sources, write the snapshot and print how each went; the exit code is 0, or 1 if some failed.

    Where some failed, an earlier snapshot stays unless `partial` says that it is to be replaced. `items` is the option
    by which commands are given the agent file whose servers were captured; empty = the folder is a catalog.
    """
    snapshot = capture(*sources, hide_keys=hide_keys)
    if snapshot.failed and not partial and (out / CAPTURE).is_file():
        raise StorageError(_refusal_text(snapshot, out, items))
    card = write_snapshot(snapshot, out)
    if as_json:
        print_json({"folder": str(out), **card})
    else:
        _print(snapshot, card, out)
    return 1 if snapshot.failed else 0


def _refusal_text(snapshot: CatalogSnapshot, out: Path, items: str) -> str:
    """Why an earlier snapshot is not replaced, what it would lose, and what to do."""
    failed = {(part.kind, part.name): part for part in snapshot.failed}
    why = f"{out} is kept as it was, since {_failed(snapshot)}"
    try:
        counts = items_kept(out)
        had = {part.name: counts[key] for key, part in failed.items() if counts.get(key)}
        gone = ", ".join(f"{count(n, 'item')} of {name}" for name, n in had.items())
        none = " or ".join(part.name for part in snapshot.failed)
        why += f", and it holds {gone}" if gone else f"; it holds no item of {none}"
    except UserError as error:
        why += f", and its items of theirs are unknown: {error}"
    servers = [part.name for part in snapshot.failed if part.kind == SERVER]
    skip = shlex.join(word for name in servers for word in ("--skip", name))
    partial = "--partial"
    if items:  # a check has no such options
        partial = f"`ctxbench data capture {items} --partial`"
        skip = f'`ctxbench data capture {items} {skip}`, or "disabled": true in the configuration' if skip else ""
    ask = f", ask only the others: {skip}" if skip else ""
    fix = f"fix that{ask}, or replace it by what the others gave: {partial}"
    return f"{why}; {fix} ({'; '.join(f'{part.name}: {part.error}' for part in snapshot.failed)})"


def _failed(snapshot: CatalogSnapshot) -> str:
    return f"{len(snapshot.failed)} of {len(snapshot.parts)} failed"


def _print(snapshot: CatalogSnapshot, card: dict[str, Any], out: Path) -> None:
    width = max(len(part.name) for part in snapshot.parts)
    for part in snapshot.parts:
        text = count(len(part.items), "item") if part.state == "captured" else part.state
        server = part.details.get("server") or {}
        text += f" ({server['name']} {server['version']}".rstrip() + ")" if server else ""
        text += f", not asked: kept as captured on {part.captured[:10]}" if part.captured else ""
        line = one_line(f"{part.name:<{width}}  {text}")
        notes = (f"{'':<{width}}  {note}" for note in (*part.notes, *_missing_fields(part)))
        say(*message_lines(f"{line}: {part.error}" if part.error else line), *notes)
    say(f"{count(card['counts']['items'], 'item')}, catalog {card['catalog'][:12]}, in {out}")
    if snapshot.failed:
        say(f"{_failed(snapshot)}: {', '.join(part.name for part in snapshot.failed)}; this is what the others gave")


def _say_next(out: Path, items: str = "") -> None:
    """Print the command that comes next; `items` is the option that names its items, if not the catalog in `out`."""
    say(f'Next: ctxbench select "what a user asks" {items or shlex.join(["--catalog", str(out)])}')


def _missing_fields(part: SnapshotPart) -> Iterator[str]:
    """How many tools of a part lack a description or a schema, in words."""
    tools = sum(item.type == "tool" for item in part.items)
    words = {
        "without_description": "have no description and are found by their names only",
        "without_schema": "have no input schema",
    }
    yield from (f"{n:,} of {tools:,} tools {words[name]}" for name, n in missing_fields(part.items).items())


def recapture(gate: Path, *, skip: Sequence[str] = ()) -> dict[Path, dict[str, str]]:
    """Ask the servers of all agents again and store their tools; of one that fails the earlier tools are kept.

    What is wrong with the gate file or an agent file is left to the check, which says it with the rest.

    Args:
        gate: the gate file.
        skip: names of servers that are not asked.

    Returns:
        By agent file (resolved) and server that was asked: what went wrong; empty where it answered.

    Raises:
        UserError: a server fails of which nothing was captured before, or a name to skip is of none.
    """
    if not (agents := list(_agents(gate))):
        why = f"no dataset of {gate} is over an agent file that can be read and names servers"
        say(f"--recapture asks no server: {why}", err=True)
    names = {name for _, config in agents for name in server_names(config)}
    if agents and (unknown := [name for name in skip if name not in names]):
        raise ParameterError(f"--skip: there is no server {unknown[0]!r}{suggest(unknown[0], sorted(names))}")
    return {agent.path.resolve(): _recapture(agent, config, skip) for agent, config in agents}


def _recapture(agent: AgentFile, config: Path, skip: Sequence[str]) -> dict[str, str]:
    """Ask the servers of one agent; see `recapture`."""
    earlier = {
        part.name: part
        for part in (earlier_parts(agent.snapshot) if (agent.snapshot / CAPTURE).is_file() else ())
        if part.kind == SERVER
    }
    names = [name for name in server_names(config) if name not in skip]
    errors, startable = dict.fromkeys(names, ""), []
    for name in names:
        try:
            read_mcp_config(config, only=[name])
            startable.append(name)
        except InputError as error:  # such as a variable that is not set, as secrets are not for a fork
            errors[name] = "; ".join(fault.message.removeprefix(f"server {name!r}: ") for fault in error.faults)
    parts = {part.name: part for part in _ask(config, startable)}
    errors |= {name: part.error for name, part in parts.items() if part.state == "failed"}
    if lost := [name for name in names if errors[name] and not (name in earlier and earlier[name].items)]:
        why = f"server {lost[0]} gave no tools, and {agent.snapshot} holds none of it ({errors[lost[0]]})"
        raise StorageError(f"{why}; fix that, or leave it out with --skip {shlex.quote(lost[0])}")
    parts |= {name: SnapshotPart(name=name, kind=SERVER, state="disabled") for name in disabled_servers(config)}
    parts |= {
        name: earlier[name] for name in [*skip, *(name for name, why in errors.items() if why)] if name in earlier
    }
    with printing_to_stderr():
        for name, why in errors.items():
            if why:
                say(*message_lines(f"{name}: {why}"))
        if startable:
            order = [*server_names(config), *disabled_servers(config)]
            keep([lambda: [parts[name] for name in order if name in parts]], out=agent.snapshot, as_json=False)
    return errors


def _ask(config: Path, names: Sequence[str]) -> Sequence[SnapshotPart]:
    """The tools that some servers of a configuration have now."""
    from ctxbench.catalogs.mcp_capture import mcp_servers

    if not names:
        return ()
    with progress() as bar:
        return mcp_servers(config, only=names, progress=partial(bar, "asking servers for their tools"))()


def tell_captured(gate: Path) -> None:
    """Print to standard error how old the captured tools are, before they are accepted."""
    for agent, _ in _agents(gate):
        say(*(one_line(f"{agent.path}: {why}") for why in server_reasons(agent.captured_servers())), err=True)


def _agents(gate: Path) -> Iterator[tuple[AgentFile, Path]]:
    """The agents of a gate file's datasets, each once, with the configuration of its servers."""
    visited: set[Path] = set()
    try:
        data, _ = load_yaml(gate)
    except UserError:
        return
    names = data.get("datasets") if isinstance(data, dict) else None
    for name in names if isinstance(names, list) else ():
        folder = user_folder(name, gate.parent) if isinstance(name, str) else None
        path = None if folder is None else agent_of(folder)
        if path is None or path.resolve() in visited:
            continue
        visited.add(path.resolve())
        try:
            agent = read_agent(path)
        except UserError:
            continue
        if agent.mcp is not None:
            yield agent, agent.mcp


_ENDINGS = (".md", ".mdc", ".markdown")
_FLAGS = ("alwaysApply", "disable-model-invocation")
_GLOBS = ("globs", "paths", "applyTo")


def edited_line(path: Path, line: int, edited: Collection[str], former: str | None = None) -> int:
    """The first line of a rule file that differs from before.

    Args:
        path: of the file.
        line: in which the text of the rule begins, 1-based.
        edited: fields of the item that differ.
        former: the text that the rule had; None = not known.

    Returns:
        The first line of the front matter that gave one of the fields, or of the text that differs; `line` where
        neither is known, or where the file is of another kind.
    """
    if not edited or path.suffix not in _ENDINGS:
        return line
    try:
        page = read_page(read_text(path))
    except UserError:
        return line
    lines = []
    for item_field in edited:
        names = [name for name in _field_sources(item_field, page, edited) if name in page.lines]
        lines += [page.lines[name] for name in names[:1]]
    if "text" in edited and former is not None:
        lines.append(page.line + differing_line(former, page.text) - 1)
    return min(lines, default=line)


def differing_line(was: str, new: str) -> int:
    """The first line of a text that differs from what it was, 1-based; the last one where only its end is gone."""
    lines = new.split("\n")
    pairs = enumerate(zip_longest(was.split("\n"), lines), 1)
    return min(next((number for number, (before, after) in pairs if before != after), 1), len(lines))


def _field_sources(item_field: str, page: Page, edited: Collection[str]) -> tuple[str, ...]:
    """The fields of front matter that may have given a field of an item, the likelier first."""
    if item_field == "include":
        return (*_FLAGS, *_GLOBS) if any(truth(page.fields.get(name)) for name in _FLAGS) else (*_GLOBS, *_FLAGS)
    if item_field == "metadata":  # patterns; it says why the mode is what it is, too
        return () if "include" in edited else _GLOBS
    return {"description": ("description",), "title": ("name", "title"), "name": ("name",)}.get(item_field, ())


def committed_text(baseline: Path, path: Path) -> str | None:
    """What git has of a file at the last commit that changed the baseline; None where it has none."""
    try:
        repository = Repository.around(baseline)
        commits = [] if repository is None else repository.commits(baseline, limit=1)
        return repository.text(commits[0], path) if repository is not None and commits else None
    except StorageError:
        return None


def line_of_edit(done: GateCheck, item: tuple[str, str], path: Path, line: int) -> int:
    """The line of a file that an item of the baseline was edited in; `line` where that is not known."""
    if (row := done.former[item].row) is not None:
        return edited_line(path, line, done.edited.get(item, ()), row.get("text", ""))
    if item not in done.edited or not line or path.name == CORPUS:
        return line
    before = committed_text(done.file.baseline, path)
    try:
        return line if before is None or (after := read_text(path)) == before else differing_line(before, after)
    except UserError:
        return line


def settings_line(path: Path, baseline: Path) -> tuple[Path, int]:
    """The file and line of the settings of an agent's selector.

    Of its presets, or of its own YAML file, where git shows that the file was edited since the baseline.
    """
    agent = read_agent(path)
    file = agent.presets or path.parent / agent.selector
    before = committed_text(baseline, file) if file.is_file() else None
    if before is None or before == (after := read_text(file)):
        return path, agent.lines.get(("settings",)) or line_of(agent.lines, ("selector",))
    preset = agent.presets and load_yaml(file)[1].get(("presets", agent.selector, "set"))
    return file, preset or differing_line(before, after)


def mode_line(folder: Path, item: str, *, source: tuple[Path, int]) -> tuple[Path, int]:
    """The line of the agent file that sets the include mode of a tool.

    Its source, where that alone can have set it; what a server says of its tools has no modes.
    """
    if (path := agent_of(folder)) is None:
        return source
    agent = read_agent(path)
    if agent.include is not None:
        return path, line_of(agent.lines, ("include", *mode_path(item, **agent.include)))
    return (path, 0) if source[0].name == CORPUS else source
