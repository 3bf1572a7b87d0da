"""`ctxbench check` and `ctxbench comment`.

The first runs a check, writes its output files, and finds locations in edited files. The second writes one of these
files as the comment of a pull request. Sources of what it sends: "REST API endpoints for issue comments" (GitHub),
"Notes API" and "Users API" (GitLab).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import typer

from ctxbench.catalogs.agent_file import is_agent_file, read_agent
from ctxbench.catalogs.instructions import WITHOUT_ITEM
from ctxbench.cli.capture import line_of_edit, mode_line, recapture, settings_line, tell_captured
from ctxbench.cli.common import print_json, print_result, without_keys
from ctxbench.datasets.layout import DatasetLines, agent_of
from ctxbench.datasets.lookup import dataset_folder, user_folder
from ctxbench.gate.baseline import AcceptedBaseline
from ctxbench.gate.baseline_rows import GATE
from ctxbench.gate.comparability import open_edited
from ctxbench.gate.gate import GateCheck, accept, check_gate, check_runs
from ctxbench.gate.results import Check
from ctxbench.gate.settings import CheckSettings, guard_exit
from ctxbench.gate.verdict import missed_text
from ctxbench.io.cache import refuse_outputs
from ctxbench.io.console import drop_output, is_terminal, printing_to_stderr, progress, say, show_text, write_own
from ctxbench.io.documents import line_of, load_yaml
from ctxbench.io.errors import (
    InputError,
    Message,
    ParameterError,
    StorageError,
    UserError,
    check_choice,
    faults_of,
    one_line,
    raise_first,
    system_fault,
)
from ctxbench.io.files import read_text, write_atomic
from ctxbench.io.secrets import Secrets, shown_text
from ctxbench.report import check_texts
from ctxbench.report.check_document import document, refusal as refusal_document, summary, uncut
from ctxbench.report.check_texts import Location, Locations, is_acceptable, label_advice, without_texts
from ctxbench.report.document import LIMIT, Document, markdown, print_document
from ctxbench.selectors.definitions import selector_name

Find: TypeAlias = Callable[[Path, str], tuple[Path, int]]
"""Finds the file and line of an id in a dataset's folder."""


def find_places(done: GateCheck) -> Locations:
    """The locations of pins, selectors, items and queries, as far as they are in the repository."""
    experiment, references, lines = done.file.experiment, done.references, DatasetLines()

    def find_in(find: Find, dataset: str, name: str) -> tuple[Path, int]:
        folder = experiment.base / references[dataset]
        return find(folder if folder.is_dir() else dataset_folder(references[dataset]), name)

    def finding(find: Find) -> Callable[[str, str], Location]:
        def locate(dataset: str, name: str) -> Location:
            path, line = find_in(find, dataset, name)
            return in_repository(path), line

        return locate

    def item(dataset: str, name: str) -> Location:
        if not name and (
            changed := [changed_item for of, changed_item in {**done.former, **done.edited} if of == dataset]
        ):
            return _most_common([item(dataset, changed_item) for changed_item in changed])
        fact = done.former.get((dataset, name))
        row = None if fact is None else fact.row
        former = str((row or {}).get("metadata", {}).get("path", ""))  # empty where it has none, or is kept out
        path, line = find_in(partial(lines.item, former=former), dataset, name)
        if name.startswith("tool:") and {*done.edited.get((dataset, name), ())} == {"include"}:
            path, line = find_in(partial(mode_line, source=(path, line)), dataset, name)
            return in_repository(path), line
        return in_repository(path), line if fact is None else line_of_edit(done, (dataset, name), path, line)

    def left_out(dataset: str, file: str) -> str:
        if (agent := agent_of(experiment.base / references[dataset])) is None:
            return ""
        notes = ((part, note) for part in read_agent(agent).parts() for note in part.notes if isinstance(note, Message))
        about = ((note, Path(part.origin, note.values["path"])) for part, note in notes if note.key in WITHOUT_ITEM)
        return next((f"{note}" for note, path in about if in_repository(path) == file), "")

    def external_file(name: str) -> str:
        path = experiment.base / name
        return in_repository(path) if name and path.is_file() else ""

    return Locations(
        gate=in_repository(done.file.path),
        folder=in_repository(Path()).removeprefix("."),
        selectors={selector.name: selector.line for selector in experiment.selectors},
        files=dict(_agents(done.file.path, done.file.baseline)),
        external_file=external_file,
        embedder=line_of(experiment.lines, ("embedder",)),
        minimums={
            str(metric): line_of(experiment.lines, ("gate", "at_least", str(metric)))
            for metric in done.file.settings.minimums
        },
        gone=lambda file: not (_root() / file).exists(),
        left_out=left_out,
        item=item,
        query=finding(lines.query),
        labels=lambda dataset, query, item="": finding(partial(lines.labels, item=item))(dataset, query),
    )


def _most_common(locations: Sequence[Location]) -> Location:
    """The file of most of the locations, and the line if they share one; there is at least one location."""
    (file, _), *_ = Counter(file for file, _ in locations).most_common(1)
    lines = {line for name, line in locations if name == file}
    return file, lines.pop() if len(lines) == 1 else 0


def _agents(gate: Path, baseline: Path) -> Iterator[tuple[str, Location]]:
    """The names of selectors of a gate file that are agent files, each with the location of its settings."""
    data, _ = load_yaml(gate)
    for entry in data.get("selectors", ()) if isinstance(data, dict) else ():
        about = entry if isinstance(entry, dict) else {"selector": entry}
        path = gate.parent / str(about.get("selector", ""))
        if is_agent_file(path):
            name = about.get("name") or selector_name(path.name, about.get("preset"))
            file, line = settings_line(path, baseline)
            yield str(name), (in_repository(file), line)


def in_repository(path: Path) -> str:
    """The path from the root of the checkout, or from here; empty for a file elsewhere."""
    root, resolved = _root(), path.resolve()
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else ""


def _root() -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or ".").resolve()


SUMMARY = "GITHUB_STEP_SUMMARY"


def write_summary(document: Document, path: Path) -> None:
    """Write the summary; append it if the file is the summary of a workflow's step.

    Raises:
        StorageError: it cannot be written.
    """
    if not is_step_summary(path):
        write_file(path, markdown(document))
        return
    with _writing(path):
        size = path.stat().st_size if path.exists() else 0
        with path.open("ab") as stream:
            stream.write(b"\n" * bool(size) + markdown(document, limit=LIMIT - size - 1).encode())


COMMENT_LIMIT = 65_000  # bytes: GitHub takes 65,536 characters, and `post_comment` adds a line


def write_comment(document: Document, name: str, path: Path) -> None:
    """Write the body of a comment on a pull request. Its last line is hidden, and names what was checked.

    Raises:
        StorageError: it cannot be written.
    """
    marker = _MARKER.format(quote(name))
    write_file(path, f"{markdown(document, limit=COMMENT_LIMIT)}\n{marker}\n")


def is_step_summary(path: Path) -> bool:
    """Whether a file is the summary of a workflow's step, which grows with every step's."""
    step = os.environ.get(SUMMARY, "")
    return bool(step) and path.resolve() == Path(step).resolve()


def write_file(path: Path, text: str) -> None:
    """Write a file atomically; write directly into what is no regular file, such as a pipe or /dev/null.

    Raises:
        StorageError: it cannot be written.
    """
    if not path.exists() or path.is_file():
        write_atomic(path, text)
        return
    with _writing(path), path.open("w", encoding="utf-8") as stream:
        stream.write(text)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """The arguments of the command.

    Attributes:
        paths: none = `GATE`; one = a gate file; two = the folders of a base and of a head.
        accept: write the baseline.
        vectors: write vectors beside it.
        texts: whether texts of requests and items stand in outputs.
        strict: fail if the verdict is inconclusive.
        allow_removed: leave out queries that are gone, changed or relabelled, and pass over requirements unmet.
        recapture: ask the servers of the datasets' agent files anew.
        skip: names of servers that are not asked then.
    """

    paths: Sequence[str] = ()
    accept: bool = False
    vectors: bool = False
    texts: bool = True
    strict: bool = False
    allow_removed: bool = False
    recapture: bool = False
    skip: Sequence[str] = ()

    @property
    def name(self) -> str:
        """What is checked, from the root of the repository, for comments and for reports of what cannot be."""
        name = " ".join(self.paths) or GATE
        return in_repository(Path(name)) or name


FORMATS = ("github", "json", "junit", "markdown")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where and how the result is written.

    Attributes:
        form: what standard output gets, one of `FORMATS`: `github` is text with workflow commands; empty = text.
        markdown: the file of a summary; None = none.
        junit: the file of JUnit XML; None = none.
        comment: the file of a comment on a pull request; None = none.
        code_quality: the file of GitLab's code quality report; None = none.
        verbose: print the full report, not the short one.
    """

    form: str = ""
    markdown: Path | None = None
    junit: Path | None = None
    comment: Path | None = None
    code_quality: Path | None = None
    verbose: bool = False


def run(request: CheckRequest, outputs: Outputs) -> None:
    """Check, or accept, and write the result.

    Raises:
        UserError: it cannot be judged; the summary and the other files say so, too.
        typer.Exit: with the code of the verdict, if it is not 0.
    """
    standard_output = Outputs(form=outputs.form if outputs.form == "json" else "")
    with _refusals(request, standard_output):
        _refuse_contradictions(request, outputs)
        _refuse_places(request, outputs)
    if request.accept:
        with _refusals(request, standard_output), guard_exit():
            _accept(request, as_json=outputs.form == "json")
        return
    try:
        with _refusals(request, outputs), guard_exit():
            result = _run_check(request)
            _write_outputs(result, request, outputs)
    except Exception as error:  # a bug of ours would end with exit code 1, which says "worse" here
        if isinstance(error, UserError):
            raise
        say(*traceback.format_exc().splitlines(), err=True)
        _write_refusal(UserError(f"ctxbench has a bug: {type(error).__name__}: {error}"), request, outputs)
        raise typer.Exit(2) from None
    if code := result.check.exit_code(strict=request.strict):
        raise typer.Exit(code)


@contextmanager
def _refusals(request: CheckRequest, outputs: Outputs) -> Iterator[None]:
    """Write a fault that is raised inside to the outputs."""
    try:
        yield
    except (UserError, OSError) as error:
        fault = error if isinstance(error, UserError) else system_fault(error)
        if fault is None:
            raise
        _write_refusal(fault, request, outputs)
        raise fault from error


def _refuse_contradictions(request: CheckRequest, outputs: Outputs) -> None:
    """Refuse options that make no sense together.

    Raises:
        ParameterError: there are some.
    """
    judging = {
        "--strict": request.strict,
        "--allow-removed": request.allow_removed,
        "--markdown": outputs.markdown,
        "--junit": outputs.junit,
        "--comment": outputs.comment,
        "--code-quality": outputs.code_quality,
        f"--output-format {outputs.form}": outputs.form not in ("", "json"),
    }
    conflicting = [name for name, value in judging.items() if value]
    n = len(request.paths)
    if outputs.form:
        check_choice("--output-format", outputs.form, FORMATS)
    raise_first(
        (n > 2, f"expected one gate file or two run folders, got {n} paths: {', '.join(request.paths)}"),
        (request.accept and n == 2, "--accept needs a gate file; two run folders have no baseline"),
        (request.accept and conflicting, f"--accept does not check, so leave out {', '.join(conflicting)}"),
        (request.vectors and not request.accept, "--vectors stores vectors with a new baseline: add --accept"),
        (request.recapture and n == 2, "--recapture needs a gate file; two run folders have no servers to ask"),
        (request.skip and not request.recapture, "--skip names servers that --recapture leaves out: add --recapture"),
    )


def _refuse_places(request: CheckRequest, outputs: Outputs) -> None:
    """Check where files will go before any selector is asked.

    Raises:
        UserError: something stands there that is no earlier output.
    """
    if outputs.markdown == Path():
        raise ParameterError(f"--markdown names no file; is ${SUMMARY} set?")
    appended = outputs.markdown is not None and is_step_summary(outputs.markdown)
    checked = [] if len(request.paths) == 2 else [Path(request.paths[0] if request.paths else GATE)]
    files = {
        "--markdown": None if appended else outputs.markdown,
        "--junit": outputs.junit,
        "--comment": outputs.comment,
        "--code-quality": outputs.code_quality,
    }
    may_replace = {"--code-quality": lambda line: line == "[]\n" or line.startswith('[{"check_name": "ctxbench ')}
    refuse_outputs(files, {"what is checked": checked}, may_replace=may_replace)


def _accept(request: CheckRequest, *, as_json: bool) -> None:
    if request.recapture:
        outcomes = recapture(_gate_path(request), skip=request.skip)
        if failed := sorted({name for errors in outcomes.values() for name, why in errors.items() if why}):
            why = f"servers that did not answer, as said above: {', '.join(failed)}"
            raise StorageError(f"nothing is accepted over tools of {why}; start them, or leave --recapture out")
    else:
        tell_captured(_gate_path(request))
    with progress() as bar, printing_to_stderr():
        done = accept(_gate_path(request), texts=request.texts, vectors=request.vectors, notify=bar.say, progress=bar)
    if as_json:
        print_json(_accepted_json(done))
        return
    size = "all of it new or changed; look at it, and commit it"
    if done.unchanged or done.removed:  # else there was none, and there is no diff
        unchanged = f"{len(done.unchanged)} file{'' if len(done.unchanged) == 1 else 's'} unchanged"
        changed = "look at its diff, and commit it" if done.written or done.removed else "nothing to commit"
        size = f"{unchanged}; {changed}"
    kept = "no texts of requests and items are written, as in the baseline that was there; delete it to take them in"
    say(
        *(f"written: {path}" for path in done.written),
        *(f"removed: {path}" for path in done.removed),
        *([kept] if request.texts and not done.texts else []),
        *(
            f"a pin does not hold, and a check will fail (line {pin.line}): query {pin.query}, {pin.message}"
            for pin in done.pins
        ),
        *(
            f"below the minimum, and a check will fail: {selector} on {dataset}: {missed_text(verdict)}"
            for dataset, selector, verdict in done.missed
        ),
        *(f"accepted: {check_texts.summary_text(summary)}" for summary in done.summaries),
        f"accepted: {done.folder}, {size}",
    )


def _accepted_json(done: AcceptedBaseline) -> dict[str, Any]:
    from ctxbench.report import check_files

    names = {"written": done.written, "unchanged": done.unchanged, "removed": done.removed}
    return {
        "baseline": done.folder.as_posix(),
        **{name: [path.as_posix() for path in paths] for name, paths in names.items()},
        "accepted": [check_files.summary_dict(summary) for summary in done.summaries],
        "pins": [check_files.pin_dict(pin) for pin in done.pins],
        "missed": [
            {"dataset": dataset, "selector": selector, **check_files.minimum_dict(verdict)}
            for dataset, selector, verdict in done.missed
        ],
        "error": None,
    }


def _gate_path(request: CheckRequest) -> Path:
    """The gate file.

    Raises:
        UserError: there is none, or it is a folder.
    """
    path = Path(request.paths[0]) if request.paths else Path(GATE)
    if not request.paths and not path.exists():
        raise StorageError(
            f"there is no {GATE} here; `ctxbench init` writes one; or name a gate file or two run folders"
        )
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; expected a gate file, or two folders of runs")
    return path


@dataclass(frozen=True, kw_only=True)
class _Result:
    """The result of a check, and how to accept it.

    Attributes:
        check: with texts only if they may stand in outputs.
        locations: looks up files and lines.
        accept: the command that would accept it; empty where it would fail, or there is nothing to accept.
        first: what must be done before that, and before the labels are read elsewhere; empty = nothing.
    """

    check: Check
    locations: Locations
    accept: str = ""
    first: str = ""


def _run_check(request: CheckRequest) -> _Result:
    """Run the check, with what plugins print on stderr, and without texts if the baseline has none."""
    outcomes = recapture(_gate_path(request), skip=request.skip) if request.recapture else None
    with progress() as bar, printing_to_stderr():
        if len(request.paths) == 2:
            settings = CheckSettings(allow_removed=request.allow_removed)
            result = _Result(check=check_runs(*map(Path, request.paths), settings=settings), locations=Locations())
            texts = request.texts
        else:
            done = check_gate(
                _gate_path(request),
                allow_removed=request.allow_removed,
                server_errors=outcomes,
                notify=bar.say,
                progress=bar,
            )
            options = [*(["--vectors"] if done.vectors else []), *([] if done.texts else ["--no-text"])]
            if request.recapture:
                options += ["--recapture", *(word for name in request.skip for word in ("--skip", name))]
            accept = shlex.join(["ctxbench", "check", *request.paths, "--accept", *options])
            result = _Result(
                check=done.check,
                locations=find_places(done),
                accept="" if done.failed else accept,
                first=_steps_before_accepting(done, recaptured=request.recapture),
            )
            texts = request.texts and done.texts
    return result if texts else replace(result, check=without_texts(result.check))


def _steps_before_accepting(done: GateCheck, *, recaptured: bool) -> str:
    """What must be done before accepting, and before other commands read a dataset whose labels name renamed items.

    Labels that name gone items are judged, but not accepted.
    """
    renamed = {check.dataset: check for check in done.check.selectors if check.renamed or check.successors}
    if not (renamed or is_acceptable(done.check)):
        return ""
    for name, reference in done.references.items():
        try:
            open_edited(reference, bases=(), base=done.file.experiment.base)
        except InputError:
            folder = user_folder(reference, done.file.experiment.base)
            agent = None if folder is None else agent_of(folder)
            over = "" if agent is None else os.path.relpath(agent)
            ids = (check.renamed, check.successors) if (check := renamed.get(name)) else ({}, {})
            return label_advice(*ids, dataset=str(folder or reference), agent=over, captured=recaptured)
    return ""


def _write_outputs(result: _Result, request: CheckRequest, outputs: Outputs) -> None:
    """Write files, then standard output, so that the files are there even if its reader leaves."""
    check, strict, locations = result.check, request.strict, result.locations
    options: dict[str, Any] = {"accept": result.accept, "first": result.first, "locations": locations}
    if outputs.markdown is not None:
        write_summary(document(check, **options), outputs.markdown)
    if outputs.comment is not None:
        write_comment(document(check, **options), request.name, outputs.comment)
    if outputs.form or outputs.junit is not None or outputs.code_quality is not None:
        from ctxbench.report import check_files  # takes 7 ms
    if outputs.code_quality is not None:
        write_file(outputs.code_quality, check_files.code_quality(check, strict=strict, locations=locations))
    if outputs.junit is not None:
        write_file(outputs.junit, check_files.junit(check, strict=strict, locations=locations))
    if outputs.form == "json":
        _print(partial(print_json, check_files.check_dict(check, strict=strict, locations=locations)))
    elif outputs.form == "junit":
        _print(partial(show_text, check_files.junit(check, strict=strict, locations=locations)))
    elif outputs.form == "markdown":
        _print(partial(show_text, markdown(document(check, **options))))
    else:
        text = (document if outputs.verbose else summary)(check, **options)
        _print(partial(print_document, text if is_terminal() else uncut(text)))
    if outputs.form == "github":
        _print(partial(write_own, check_files.workflow_commands(check, locations=locations, strict=strict)))


def _write_refusal(error: UserError, request: CheckRequest, outputs: Outputs) -> None:
    """Write to every output why nothing could be judged; standard error has it in any case.

    Files last: one that cannot be written may be the reason.
    """
    from ctxbench.report import check_files

    error = without_keys(error)
    faults = faults_of(error)
    if outputs.form == "json":
        _print(partial(print_json, check_files.refusal_dict(request.name, error)))
    elif outputs.form == "junit":
        _print(partial(show_text, check_files.refusal_xml(request.name, faults)))
    elif outputs.form == "markdown":
        _print(partial(show_text, markdown(refusal_document(request.name, error))))
    elif outputs.form == "github":
        _print(partial(write_own, check_files.refusal_commands(faults, file=in_repository)))
    if outputs.markdown is not None:
        write_summary(refusal_document(request.name, error), outputs.markdown)
    if outputs.comment is not None:
        write_comment(refusal_document(request.name, error), request.name, outputs.comment)
    if outputs.code_quality is not None:
        quality = check_files.refusal_quality(faults, gate=request.name, file=in_repository)
        write_file(outputs.code_quality, quality)
    if outputs.junit is not None:
        write_file(outputs.junit, check_files.refusal_xml(request.name, faults))


def _print(show: Callable[[], None]) -> None:
    """Print, and forget a reader that left: the verdict is the exit code whoever reads."""
    try:
        show()
    except BrokenPipeError:
        drop_output()


_MARKER = "<!-- ctxbench check: {} -->"
_MARKED = re.compile(r"\n(<!-- ctxbench check: \S+ -->)\s*\Z")
_ADDRESS = re.compile(r"https?://[\w.:/~%-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_ON_A_PAGE, _MOST_PAGES = 100, 100  # comments; pages that are read
_TIMEOUT_S = 10.0  # of one exchange
_PAUSE_S = 1.0  # before a second try
_LONGEST_REASON = 200  # characters of what a server says
_TOKEN = "CTXBENCH_TOKEN"  # noqa: S105 - the name of a variable


class _NotPostedError(Exception):
    """Why there is no comment on the pull request, in words; with the status that a server refused with, or 0."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class _Thread:
    """The comments of a pull request, or of GitLab's merge request.

    Attributes:
        url: of the list of its comments, and where a new one is posted.
        comment_url: of a comment, before its id.
        update: the method that replaces the text of a comment.
        authorization: the header with the token, name and value.
        hint: what the token must be allowed to do.
        author_url: says whose the token is.
        bot: whose a token is that may not ask for that; empty = nobody's.
        ca_file: certificates that are trusted as well; may be empty.
        page: of a comment, before its id; empty = the answer names it.
        commit: that was checked; may be empty.
        job: the page of the job; may be empty.
    """

    url: str
    comment_url: str
    update: str
    authorization: tuple[str, str]
    hint: str
    author_url: str
    bot: str = ""
    ca_file: str = ""
    page: str = ""
    commit: str = ""
    job: str = ""


def post_comment(file: Path, *, as_json: bool) -> None:
    """Write a comment on the pull request that this job of GitHub Actions or GitLab CI belongs to.

    The comment that an earlier job wrote about the same gate is updated. What keeps it from being written, such as a
    token that may only read, is a notice and no error: the verdict is the exit code of the check.

    Args:
        file: that `ctxbench check --comment` wrote.
        as_json: whether to print JSON.

    Raises:
        StorageError: the file cannot be read.
        ParameterError: the file is another one, or this is no such job.
    """
    body = read_text(file)
    if (marked := _MARKED.search(body)) is None:
        raise ParameterError(f"{file} is no comment; write one with `ctxbench check --comment {file}`")
    result = {"comment": "none", "url": "", "reason": ""}
    try:
        thread = _thread(os.environ)
        result |= _post(thread, f"{body[: marked.start()]}{_footer(thread)}\n{marked[1]}\n", marked[1])
        lines = [f"comment {result['comment']}: {result['url']}"]
    except _NotPostedError as error:
        result["reason"] = str(error)
        lines = [f"no comment: {error}"]
        if os.environ.get("GITHUB_ACTIONS") and not as_json:
            from ctxbench.report.check_files import notice_command

            write_own(notice_command("ctxbench comment", lines.pop()))
    print_result(result, *lines, as_json=as_json)


def _thread(environ: Mapping[str, str]) -> _Thread:
    """The comments of the pull request that a job belongs to, by the variables that its runner sets.

    Raises:
        _NotPostedError: it belongs to none, or there is no token.
        ParameterError: there is no such job.
    """
    if environ.get("GITHUB_ACTIONS"):
        return _github_thread(environ)
    if environ.get("GITLAB_CI"):
        return _gitlab_thread(environ)
    raise ParameterError("this is no job of GitHub Actions or GitLab CI, so there is no pull request to comment on")


def _github_thread(environ: Mapping[str, str]) -> _Thread:
    try:
        event = json.loads(read_text(Path(environ["GITHUB_EVENT_PATH"])))
        pull_request = event["pull_request"]
        number, commit = int(pull_request["number"]), str(pull_request["head"]["sha"])
    except (LookupError, TypeError, ValueError, UserError) as error:
        raise _NotPostedError("this run belongs to no pull request") from error
    if not (token := environ.get("GITHUB_TOKEN", "").strip()):
        raise _NotPostedError("GITHUB_TOKEN is not set")
    address = environ.get("GITHUB_API_URL") or "https://api.github.com"
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    issues = f"{address}/repos/{repository}/issues"
    return _Thread(
        url=f"{issues}/{number}/comments",
        comment_url=f"{issues}/comments/",
        update="PATCH",
        authorization=("Authorization", f"Bearer {token}"),
        hint="a run for a fork may not comment; others need `pull-requests: write`. The job summary has the report",
        author_url=f"{address}/user",
        bot="github-actions[bot]",
        commit=commit,
        job=f"{server}/{repository}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}",
    )


def _gitlab_thread(environ: Mapping[str, str]) -> _Thread:
    names = ("CI_API_V4_URL", "CI_MERGE_REQUEST_PROJECT_ID", "CI_MERGE_REQUEST_IID")
    address, project, number = (environ.get(name, "") for name in names)
    if not (address and project and number):
        raise _NotPostedError("this pipeline belongs to no merge request")
    if not (token := environ.get(_TOKEN, "").strip()):
        raise _NotPostedError(f"{_TOKEN} is not set; pipelines of forks never have it. The job's log has the report")
    notes = f"{address}/projects/{quote(project, safe='')}/merge_requests/{quote(number, safe='')}/notes"
    return _Thread(
        url=notes,
        comment_url=f"{notes}/",
        update="PUT",
        authorization=("PRIVATE-TOKEN", token),
        hint=f"{_TOKEN} needs the scope `api` and the role Reporter. The job's log has the report",
        author_url=f"{address}/user",
        ca_file=environ.get("CI_SERVER_TLS_CA_FILE", ""),
        page=f"{environ.get('CI_MERGE_REQUEST_PROJECT_URL', '')}/-/merge_requests/{number}#note_",
        commit=environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environ.get("CI_COMMIT_SHA", ""),
        job=environ.get("CI_JOB_URL", ""),
    )


def _footer(thread: _Thread) -> str:
    """The commit that was checked, and the page of the job."""
    commit = thread.commit[:8] if _COMMIT.fullmatch(thread.commit) else ""
    job = f"[report of the job]({thread.job})" if _ADDRESS.fullmatch(thread.job) else ""
    line = " · ".join(filter(None, [f"Commit {commit}" if commit else "", job]))
    return f"\n{line}\n" if line else ""


def _post(thread: _Thread, body: str, marker: str) -> dict[str, str]:
    """Update the comment that ends with the marker, or write a new one.

    Raises:
        _NotPostedError: neither could be done.
    """
    import httpx

    from ctxbench.io import http

    if not _ADDRESS.fullmatch(thread.url):
        raise _NotPostedError(f"the address of the server cannot be read: {one_line(thread.url)}")
    parts = urlsplit(thread.url)
    is_local = http.is_this_machine(parts.hostname or "")
    if http.offline() and not is_local:
        raise _NotPostedError("CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network")
    headers = {"Content-Type": "application/json", "User-Agent": "ctxbench", "X-GitHub-Api-Version": "2022-11-28"}
    headers |= dict([thread.authorization])
    try:
        context = http.certificates(parts.scheme, proxies=not is_local)
        if thread.ca_file:
            context.load_verify_locations(thread.ca_file)
        connection = http.Connection(timeout=_TIMEOUT_S, headers=headers, context=context, proxies=not is_local)
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
        raise _NotPostedError(http.environment_fault(error)) from error

    def ask(method: str, url: str, message: Mapping[str, str] | None = None) -> Any:
        content = None if message is None else json.dumps(message).encode("ascii")
        response = connection.send(method, url, content)
        if method != "POST" and (response.status == 429 or response.status >= 500):  # two POSTs could be two comments
            time.sleep(min(http.seconds_asked(response.retry_after, _PAUSE_S), _TIMEOUT_S))
            response = connection.send(method, url, content)
        if 200 <= response.status < 300:
            return json.loads(response.body)
        raise _NotPostedError(_refusal_reason(response.status, response.body, thread), response.status)

    try:
        comment = _earlier_comment(thread, marker, ask)
        if comment is None:
            url, method, action = thread.url, "POST", "created"
        else:
            url, method, action = f"{thread.comment_url}{int(comment['id'])}", thread.update, "updated"
        written = ask(method, url, {"body": body})
        return {"comment": action, "url": f"{thread.page}{written['id']}" if thread.page else written["html_url"]}
    except httpx.TimeoutException as error:
        raise _NotPostedError(f"{parts.hostname} did not answer within {_TIMEOUT_S:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, http.TooLongError, OSError) as error:
        reason = _quoted(str(error), thread) or type(error).__name__
        raise _NotPostedError(f"no connection to {parts.hostname}: {reason}") from error
    except KeyError as error:
        raise _NotPostedError(f"{parts.hostname} answered without the field {error}") from error
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise _NotPostedError(f"{parts.hostname} answered with what is no comment") from error
    finally:
        connection.close()


def _earlier_comment(thread: _Thread, marker: str, ask: Callable[..., Any]) -> Mapping[str, Any] | None:
    """The first comment that ends with the marker and is ours: anyone may write such a text, and edit it later."""
    try:
        author: int | str = int(ask("GET", thread.author_url)["id"])
    except _NotPostedError as error:
        if not thread.bot or error.status not in (401, 403):
            raise
        author = thread.bot
    for page in range(1, _MOST_PAGES + 1):
        comments = ask("GET", f"{thread.url}?per_page={_ON_A_PAGE}&page={page}")
        for comment in comments:
            writer = comment.get("author") or comment.get("user") or {}  # of GitLab, of GitHub
            ours = author in (writer.get("id"), writer.get("login"))
            if ours and (comment["body"] or "").rstrip().endswith(marker):
                return dict(comment)
        if len(comments) < _ON_A_PAGE:
            break
    return None


def _refusal_reason(status: int, body: bytes, thread: _Thread) -> str:
    """Why a server refused, with what it says; a token that may not write is answered with 403 or 404."""
    try:
        text = _quoted(str(json.loads(body)["message"]), thread)
    except (LookupError, RecursionError, TypeError, ValueError):
        text = ""
    hints = {401: "the token is wrong or has expired", 403: thread.hint, 404: thread.hint}
    return f"status {status}{f': {text}' if text else ''}{f' ({hints[status]})' if status in hints else ''}"


def _quoted(text: str, thread: _Thread) -> str:
    """The beginning of what came from outside, on one line, without the token."""
    hidden = Secrets([thread.authorization]).hide(" ".join(text.split()))
    return one_line(shown_text(hidden))[:_LONGEST_REASON]
