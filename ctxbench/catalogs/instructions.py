"""Read rules and references from AGENTS.md, CLAUDE.md, Cursor, Copilot and skill files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ctxbench.catalogs.snapshots import SnapshotPart, Source
from ctxbench.io.errors import CtxbenchError, Message, StorageError
from ctxbench.io.files import folder_fault, note_odd, note_read, read_text
from ctxbench.model.items import Item

_FLAGS = ("alwaysApply", "disable-model-invocation")  # fields that are true or false
_FRONT_MATTER_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(---|\.\.\.)[ \t]*")
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:[ \t]*(.*)")
_GLOBS = re.compile(r"(globs[ \t]*:[ \t]*)([*{!].*)")
_ENTRY = re.compile(r"[ \t]+-[ \t]+(.*)|-[ \t]+(.*)")


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a Markdown file.

    Attributes:
        fields: of the front matter; empty without one.
        text: the rest of the file, without blank lines around it.
        present: whether there is front matter.
        odd: what is wrong with it, or empty; the fields are then what could be made out.
        line: of the file, in which the text begins; 1-based.
        lines: in which each field begins, 1-based.
    """

    fields: Mapping[str, Any]
    text: str
    present: bool
    odd: str = ""
    line: int = 1
    lines: Mapping[str, int] = field(default_factory=dict)


def read_page(source: str) -> Page:
    """Split the text of a file into its parts; never raises, since tools that read such files are lenient.

    Front matter that is no YAML (a colon in an unquoted text) is read line by line as `name: value`, lists as lines
    that start with a dash; but patterns without quotes (`globs: **/*.ts`), which Cursor itself writes, are as if they
    had some. Front matter that never ends is text.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    if not _FRONT_MATTER_FENCE.fullmatch(lines[0]):
        return Page({}, source.strip(), present=False, line=_first(lines, 0))
    if not (end := next((i for i, line in enumerate(lines[1:], start=1) if _END.fullmatch(line)), 0)):
        return Page({}, source.strip(), present=False, odd=Message("catalogs.front-matter-open"))
    text, line = "\n".join(lines[end + 1 :]).strip(), _first(lines, end + 1)
    inside = lines[1:end]
    fields, why = _as_yaml("\n".join(map(_quoted, inside)))
    odd: str = "" if fields is not None else Message("catalogs.front-matter-yaml", why=why)
    named = [(i, match) for i, line in enumerate(inside, start=2) if (match := _FIELD.fullmatch(line))]
    if repeated := [name for name, n in Counter(match[1] for _, match in named).items() if n > 1]:
        odd = odd or Message("catalogs.front-matter-repeated", names=repeated)
    fields = _by_line(inside) if fields is None else fields
    return Page(fields, text, present=True, odd=odd, line=line, lines={match[1]: i for i, match in reversed(named)})


def _quoted(line: str) -> str:
    """A line of Cursor's `globs: **/*.ts`, which YAML takes for something else, with quotes."""
    match = _GLOBS.fullmatch(line)
    return f"{match[1]}{json.dumps(_plain(match[2]), ensure_ascii=False)}" if match else line


def _first(lines: Sequence[str], start: int) -> int:
    """The first line from `start` that is not blank, 1-based; 1 if all are."""
    return next((i + 1 for i, line in enumerate(lines[start:], start=start) if line.strip()), 1)


def _as_yaml(text: str) -> tuple[dict[str, Any] | None, str]:
    """The fields, or None and why not."""
    import yaml

    try:
        data = yaml.safe_load(text)
        if isinstance(data, dict):
            data = {str(name): value for name, value in data.items()}
    except yaml.MarkedYAMLError as error:
        line = 2 + (error.problem_mark.line if error.problem_mark else 0)  # after the first line of dashes
        return None, f"line {line}: {error.problem}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that is none, a number of 5,000 digits
        return None, str(error).splitlines()[0]
    if data is None:
        return {}, ""
    return (data, "") if isinstance(data, dict) else (None, "expected `name: value` lines")


def _by_line(lines: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    name = ""
    for line in lines:
        entry, field = _ENTRY.fullmatch(line), _FIELD.fullmatch(line)
        if entry and name:
            value = fields[name]
            fields[name] = [*(value if isinstance(value, list) else []), _plain(entry.group(1) or entry.group(2))]
        elif field:
            name = field.group(1)
            fields[name] = _plain(field.group(2))
    return fields


def _plain(value: str) -> Any:
    value = re.sub(r"(?<![ \t])[ \t]+#.*$", "", value).strip()
    return (
        value[1:-1]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        else {"true": True, "false": False, "": None}.get(value.lower(), value)
    )


def odd_fields(page: Page, allowed: Sequence[str]) -> Iterator[str]:
    """Fields whose name is nearly a known one, and flags that are neither true nor false, with their lines."""
    for name, value in page.fields.items():
        where = f"line {page.lines[name]}" if name in page.lines else "front matter"
        close = (
            []
            if name in allowed
            else get_close_matches(name.lower(), [allowed_name.lower() for allowed_name in allowed], 1, 0.8)
        )
        if close:
            suggestion = next(field for field in allowed if field.lower() == close[0])
            yield Message("catalogs.front-matter-field", where=where, name=name, suggestion=suggestion)
        elif name in allowed and name in _FLAGS and truth(value) is None:
            yield Message("catalogs.front-matter-flag", where=where, name=name, got=value)


def truth(value: Any) -> bool | None:
    """The truth value of a field or text; a missing field is False, and None means neither."""
    if isinstance(value, bool) or value is None:
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in ("true", "yes", "on") else False if word in ("false", "no", "off") else None


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one text with commas outside braces between them: `*.ts, src/{a,b}/**`."""
    value = _split(value) if isinstance(value, str) else value
    return (
        tuple(text.strip() for text in value if isinstance(text, str) and text.strip())
        if isinstance(value, list)
        else ()
    )


def _split(value: str) -> list[str]:
    """The texts between commas outside braces."""
    parts, start, depth = [], 0, 0
    for mark in re.finditer(r"[{},]", value):
        depth = max(depth + {"{": 1, "}": -1}.get(mark[0], 0), 0)
        if mark[0] == "," and not depth:
            parts.append(value[start : mark.start()])
            start = mark.end()
    return [*parts, value[start:]]


def text_of(value: Any) -> str:
    """A field as one line of text; empty if it is none, or a number too long to be written."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    try:
        return " ".join(str(value).split())
    except ValueError:  # an integer of more than 4,300 digits, which hexadecimal can give
        return ""


LEFT_OUT = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "dist", "build", "target"})
DEPTH = 5  # imports of imports that Claude Code follows
_LARGEST = 1_000_000  # bytes of a file; no agent is given a longer one
_MARKDOWN = (".md", ".mdc", ".markdown")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*)")
_CODE_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")


@dataclass(frozen=True, slots=True)
class _Convention:
    """Files of one kind: their paths, and how their front matter says when they are used.

    Attributes:
        name: what the part is called.
        type: of the items.
        pattern: of the path, relative to the folder, with slashes.
        mode: include mode and why, from the path and the page.
        fields: of its front matter; a field with nearly such a name is noted.
    """

    name: str
    type: str
    pattern: re.Pattern[str]
    mode: Callable[[str, Page], tuple[str, str]]
    fields: tuple[str, ...] = ()


def _by_place(path: str, _page: Page) -> tuple[str, str]:
    """At the top for everything, further down for what is done there."""
    folder = path.rpartition("/")[0]
    return ("agent", f"applies in {folder}/") if folder not in ("", ".claude", ".github") else ("always", "")


def _claude_rule(_path: str, page: Page) -> tuple[str, str]:
    globs = texts(page.fields.get("paths"))
    return ("agent", f"for {', '.join(globs)}") if globs else ("always", "")


def _cursor_rule(_path: str, page: Page) -> tuple[str, str]:
    if truth(page.fields.get("alwaysApply")):
        return "always", "always"
    if globs := texts(page.fields.get("globs")):
        return "agent", f"auto attached for {', '.join(globs)}"
    return ("agent", "agent requested") if text_of(page.fields.get("description")) else ("manual", "manual")


def _copilot_instructions(_path: str, page: Page) -> tuple[str, str]:
    if not (globs := texts(page.fields.get("applyTo"))):
        return "manual", "names no files (applyTo)"
    return ("always", "") if {"**", "**/*"} & set(globs) else ("agent", f"for {', '.join(globs)}")


def _skill(_path: str, page: Page) -> tuple[str, str]:
    by_hand = truth(page.fields.get("disable-model-invocation"))
    return ("manual", str(Message("catalogs.skill-by-hand"))) if by_hand else ("agent", "")


def _fixed(mode: str) -> Callable[[str, Page], tuple[str, str]]:
    return lambda _path, _page: (mode, "")


_ANYWHERE = r"(?:.*/)?"
_NO_RULE = r"(?!(?:.*/)?\.claude/rules/)"  # in there, every file is a rule, whatever it is called
_CONVENTIONS = (
    _Convention("AGENTS.md", "rule", re.compile(_NO_RULE + _ANYWHERE + r"AGENTS\.md"), _by_place),
    _Convention("CLAUDE.md", "rule", re.compile(_NO_RULE + _ANYWHERE + r"CLAUDE(?:\.local)?\.md"), _by_place),
    _Convention("Claude rules", "rule", re.compile(_ANYWHERE + r"\.claude/rules/.+\.md"), _claude_rule, ("paths",)),
    _Convention(
        *("Cursor rules", "rule", re.compile(_ANYWHERE + r"\.cursor/rules/.+\.mdc"), _cursor_rule),
        fields=("description", "globs", "alwaysApply"),
    ),
    _Convention("Cursor rules", "rule", re.compile(r"\.cursorrules"), _fixed("always")),
    _Convention("Copilot instructions", "rule", re.compile(r"\.github/copilot-instructions\.md"), _by_place),
    _Convention(
        *("Copilot instructions", "rule", re.compile(r"\.github/instructions/.+\.instructions\.md")),
        *(_copilot_instructions, ("applyTo",)),
    ),
    _Convention("Copilot prompts", "rule", re.compile(r"\.github/prompts/.+\.prompt\.md"), _fixed("manual")),
    _Convention("skills", "skill", re.compile(_ANYWHERE + r"SKILL\.md"), _skill, ("disable-model-invocation",)),
)


_BY_FIELD = {"applyTo": 6, "paths": 2, "globs": 3, "alwaysApply": 3, "name": 8, "description": 3}
"""The position in `_CONVENTIONS` by a field of front matter, the most telling first."""


@dataclass(frozen=True, slots=True)
class _RuleFile:
    """One file that was read.

    Attributes:
        path: relative to the folder, with slashes; the item's name.
        part: the convention it is of.
        item: what it is.
        line: in which its text begins, 1-based.
    """

    path: str
    part: str
    item: Item
    line: int


_REASONS = ("outside-folder", "same-file", "not-a-file", "file-too-large", "unreadable", "file-empty")
WITHOUT_ITEM = frozenset(f"catalogs.{reason}" for reason in _REASONS)
"""The keys of the notes that say why a file, their value `path`, gives no item."""


@dataclass
class _Folder:
    """Reads one folder; oddities are added to `notes`, by part."""

    root: Path
    files: dict[str, _RuleFile] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    path_by_real: dict[str, str] = field(default_factory=dict)

    def note(self, part: str, text: str, faulty: str = "") -> None:
        """Note an oddity, and the path of the file if it is less than what it was meant to be."""
        self.notes.setdefault(part, []).append(text)
        if faulty:
            note_odd(text, path=self.root / faulty)

    def _left_out(self, part: str, key: str, path: str, **values: Any) -> Page | None:
        """No page, with a note that says why."""
        self.note(part, Message(key, path=path, **values), path)
        return None

    def read(self, path: str, part: str) -> Page | None:
        """A file's page; None, with a note, if it cannot be used, leads outside or was read already."""
        note_read(self.root / path)
        real = os.path.realpath(self.root / path)
        if not Path(real).is_relative_to(os.path.realpath(self.root)):
            return self._left_out(part, "catalogs.outside-folder", path)
        if real in self.path_by_real:
            if self.path_by_real[real] != path:
                self.note(part, Message("catalogs.same-file", path=path, first=self.path_by_real[real]))
            return None
        try:
            about = Path(real).stat()
            if not stat.S_ISREG(about.st_mode):  # reading a pipe could wait for ever
                return self._left_out(part, "catalogs.not-a-file", path)
            if about.st_size > _LARGEST:
                return self._left_out(part, "catalogs.file-too-large", path, n=about.st_size, limit=_LARGEST)
            page = read_page(read_text(real))
        except (CtxbenchError, OSError, ValueError) as error:
            return self._left_out(part, "catalogs.unreadable", path, why=" ".join(str(error).split()))
        self.path_by_real[real] = path
        if page.odd:
            self.note(part, f"{path}: {page.odd}", path)
        return page if page.text else self._left_out(part, "catalogs.file-empty", path)

    def add(self, path: str, part: str, item_type: str, mode: tuple[str, str]) -> None:
        if (page := self.read(path, part)) is not None:
            self.files[path] = _RuleFile(path, part, _item(path, page, item_type=item_type, mode=mode), page.line)

    def parts(self) -> list[SnapshotPart]:
        """One part for each convention with items or notes, in order."""
        names = dict.fromkeys([*(c.name for c in _CONVENTIONS), *(f.part for f in self.files.values()), *self.notes])
        parts = [self._part(name, [file for file in self.files.values() if file.part == name]) for name in names]
        return [part for part in parts if part.items or part.notes]

    def _part(self, name: str, files: Sequence[_RuleFile]) -> SnapshotPart:
        modes = {mode: sum(file.item.include == mode for file in files) for mode in ("always", "manual", "agent")}
        return SnapshotPart(
            name=name,
            kind="rules",
            items=tuple(file.item for file in files),
            details={"folder": self.root.resolve().name, "modes": {mode: n for mode, n in modes.items() if n}},
            notes=tuple(self.notes.get(name, ())),
            origin=str(self.root),
            lines={file.item.name: file.line for file in files},
        )


def rules_folder(folder: Path) -> Source:
    """A project's rules: every file of a convention, each one item; its name is its path in the folder.

    `AGENTS.md` and `CLAUDE.md` at the top are `always`, further down `agent`; what a `CLAUDE.md` imports (`@path`, up
    to five deep) has the mode of the importer. Cursor's four modes: always, auto attached and agent requested
    (`agent`), manual; without front matter manual. Rules for certain files are `agent`, with their patterns in the
    metadata. A skill is called as it calls itself, or as its folder. What cannot be used is left out with a note.

    Raises (when asked):
        StorageError: there is no such folder.
    """

    def read() -> Sequence[SnapshotPart]:
        read = _Folder(folder)
        paths = _paths(read, f"rules in {folder.absolute().name}")
        for path in paths:
            for convention in _CONVENTIONS:
                if convention.pattern.fullmatch(path):
                    _take(read, path, convention)
        _follow_all(read)
        markdown = any(path.lower().endswith(_MARKDOWN) for path in paths)
        fix = Message("catalogs.rules-as-references" if markdown else "catalogs.name-other-folder")
        return read.parts() or [_nothing(folder, "AGENTS.md, CLAUDE.md, Cursor, Copilot, SKILL.md", fix)]

    return read


def is_instructions(path: Path) -> bool:
    """Whether the path of a file is one where programs look for rules or skills, such as `AGENTS.md`."""
    parts = path.absolute().parts[-4:]
    paths = ["/".join(parts[start:]) for start in range(len(parts))]
    return any(convention.pattern.fullmatch(path) for convention in _CONVENTIONS for path in paths)


def rule_files(paths: Sequence[Path]) -> list[SnapshotPart]:
    """The parts of files of rules and skills in any folder, each of a convention by its path or else by its fields.

    Their names are relative to the folder that holds all of them, outside of `.cursor` and the like.
    """
    parts = Path(os.path.commonpath([path.absolute().parent for path in paths])).parts
    hidden = next((n for n, name in enumerate(parts) if name in (".cursor", ".claude", ".github")), len(parts))
    read = _Folder(Path(*parts[:hidden]))
    for path in sorted(path.absolute().relative_to(read.root).as_posix() for path in paths):
        named = (convention for convention in _CONVENTIONS if convention.pattern.fullmatch(path))
        fields = read_page(read_text(read.root / path)).fields
        by_field = (_CONVENTIONS[n] for name, n in _BY_FIELD.items() if name in fields)
        if convention := next(named, None) or next(by_field, None):
            _take(read, path, convention)
    _follow_all(read)
    return read.parts()


def _follow_all(read: _Folder) -> None:
    for path in [path for path, file in read.files.items() if file.part == "CLAUDE.md"]:
        _follow(read, path, importer=read.files[path], depth=1)


def references_folder(folder: Path) -> Source:
    """A folder of Markdown files, each a reference that the agent finds; its name is its path in the folder.

    The name of the folder is in the metadata (`folder`), since an agent that reads a file names it, too; that of the
    root of a repository is not.

    Raises (when asked):
        StorageError: there is no such folder.
    """

    def read() -> Sequence[SnapshotPart]:
        read, part = _Folder(folder), f"references in {folder.absolute().name}"
        for path in _paths(read, part):
            if path.lower().endswith(_MARKDOWN):
                read.add(path, part, "reference", ("agent", ""))
        for name, file in () if (folder / ".git").exists() else read.files.items():
            metadata = {**file.item.metadata, "folder": folder.absolute().name}
            read.files[name] = replace(file, item=replace(file.item, metadata=metadata))
        return read.parts() or [_nothing(folder, "Markdown", Message("catalogs.name-other-folder"))]

    return read


def _nothing(folder: Path, files: str, fix: str) -> SnapshotPart:
    error = Message("catalogs.folder-without-files", files=files, fix=fix)
    return SnapshotPart(name=folder.absolute().name, kind="folder", state="failed", error=error)


def _paths(read: _Folder, part: str) -> list[str]:
    """The files below a folder, sorted, with slashes; a folder that is skipped is a note of `part`.

    A link to a folder is not followed. It is noted if it leads out, or is where programs look for their rules.
    """
    folder, paths = read.root, []
    if fault := folder_fault(folder):
        raise StorageError(f"cannot read {folder}: {fault}; expected one that holds rules or references")

    def unreadable(error: OSError) -> None:
        path = Path(error.filename).relative_to(folder).as_posix()
        read.note(part, Message("catalogs.unreadable", path=f"{path}/", why=error.strerror or error), path)

    note_read(folder)
    for current, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        note_read(*(path for name in folders if not (path := Path(current, name)).is_symlink()))  # not listed yet
        subfolder = Path(current).relative_to(folder)
        for path in (subfolder / name for name in folders if (Path(current) / name).is_symlink()):
            if not Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder)):
                read.note(part, Message("catalogs.outside-folder", path=f"{path.as_posix()}/"))
            elif path.as_posix().startswith("."):
                read.note(part, Message("catalogs.link-to-folder", path=f"{path.as_posix()}/"))
        paths += [(subfolder / name).as_posix() for name in files]
    return sorted(paths)


def _take(read: _Folder, path: str, convention: _Convention) -> None:
    if (page := read.read(path, convention.name)) is None:
        return
    if path.endswith(".mdc") and not page.present and not page.odd:
        read.note(convention.name, Message("catalogs.no-front-matter", path=path), path)
    for odd in odd_fields(page, convention.fields):
        read.note(convention.name, f"{path}, {odd}", path)
    item = _item(path, page, item_type=convention.type, mode=convention.mode(path, page))
    item = _named(read, path, item, text_of(page.fields.get("name"))) if item.type == "skill" else item
    read.files[path] = _RuleFile(path, convention.name, item, page.line)


def _named(read: _Folder, path: str, item: Item, stated_name: str) -> Item:
    """A skill under the name that the model is sent; under its path, with a note, if another has that name."""
    name = stated_name or Path(path).parent.name or read.root.resolve().name
    namesake = next((f.path for f in read.files.values() if (f.item.type, f.item.name) == ("skill", name)), None)
    if namesake is not None:
        read.note("skills", Message("catalogs.skill-name-repeated", path=path, name=name, first=namesake))
        name = path
    description = "" if item.description == name else item.description
    return replace(item, name=name, title="", description=description, metadata={**item.metadata, "path": path})


def _item(path: str, page: Page, *, item_type: str, mode: tuple[str, str]) -> Item:
    title = text_of(page.fields.get("name")) or text_of(page.fields.get("title")) or _heading(page.text)
    description = text_of(page.fields.get("description"))
    include, why = mode
    metadata: dict[str, Any] = {"sha256": hashlib.sha256(page.text.encode("utf-8", "surrogatepass")).hexdigest()}
    globs = next((patterns for key in ("globs", "paths", "applyTo") if (patterns := texts(page.fields.get(key)))), ())
    if globs:
        metadata["globs"] = list(globs)
    if why:
        metadata["when"] = why
    return Item(
        type=item_type,
        name=path,
        title="" if title == path else title,
        description=description or title,
        text=page.text,
        include=include,
        metadata=metadata,
    )


def _follow(read: _Folder, path: str, *, importer: _RuleFile, depth: int) -> None:
    """Read the imports of a file, recursively; an import has the mode of the file that started it."""
    for name in _imports(importer.item.text if path == importer.path else read.files[path].item.text):
        if (target := _target(read, path, name)) is None:
            continue
        if depth > DEPTH:
            read.note("CLAUDE.md", Message("catalogs.import-too-deep", path=path, name=name, limit=DEPTH))
            continue
        include = importer.item.include
        if (target_file := read.files.get(target)) is None:
            read.add(target, "CLAUDE.md", "reference", (include, f"imported by {path}"))
            if target in read.files:
                _follow(read, target, importer=importer, depth=depth + 1)
        elif include == "always" != target_file.item.include:
            metadata = {**target_file.item.metadata, "when": f"imported by {path}"}
            read.files[target] = replace(
                target_file, item=replace(target_file.item, include="always", metadata=metadata)
            )


def _imports(text: str) -> Iterator[str]:
    """The paths after an @ that starts a word, outside code."""
    yield from (
        match.group(1).replace("\\ ", " ").rstrip(".,;:!?)")
        for line in _outside_fences(text)
        for match in re.finditer(r"(?<!\S)@((?:\\ |[^\s`])+)", _without_spans(line))
    )


def _heading(text: str) -> str:
    """The first heading outside fenced blocks, without the marks that may close it; empty if there is none."""
    for line in _outside_fences(text):
        if match := _HEADING.match(line):
            heading = match[1].strip()
            open_end = heading.rstrip("#")
            heading = heading if open_end and not open_end.endswith((" ", "\t")) else open_end.rstrip()  # C# stays
            if heading:
                return heading
    return ""


def _outside_fences(text: str) -> Iterator[str]:
    """The lines outside fenced blocks; as in CommonMark, a block that is never closed goes to the end."""
    fence = ""
    for line in text.split("\n"):
        match = _CODE_FENCE.match(line)
        if not fence and match:
            fence = match[1]
        elif not fence:
            yield line
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""


def _without_spans(line: str) -> str:
    """A line without code spans: from a run of backticks to the next one of the same length."""
    runs = list(re.finditer("`+", line))
    last = {len(run[0]): run.start() for run in runs}
    pieces, end, opened = [], 0, 0
    for run in runs:
        if opened:
            if len(run[0]) == opened:
                end, opened = run.end(), 0
        elif last[len(run[0])] > run.start():
            pieces.append(line[end : run.start()])
            opened = len(run[0])
    return "".join([*pieces, line[end:]])


def _target(read: _Folder, path: str, name: str) -> str | None:
    """The imported file relative to the folder, or None; a note if it is meant to be a file and is none of ours."""
    looks_like_file = name.startswith(("./", "../", "~/", "/")) or name.lower().endswith((*_MARKDOWN, ".txt"))
    target = os.path.normpath(str(Path(path).parent / name)).replace(os.sep, "/")
    if name.startswith(("~", "/")) or target.startswith("../"):
        if looks_like_file or target.startswith("../"):
            read.note("CLAUDE.md", Message("catalogs.import-outside", path=path, name=name))
        return None
    with suppress(OSError, ValueError):  # no name that a file could have
        if (read.root / target).is_file():
            return target
    if looks_like_file:
        read.note("CLAUDE.md", Message("catalogs.import-missing", path=path, name=name))
    return None
