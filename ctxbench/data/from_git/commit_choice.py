"""Choose the commits of a history that are requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ctxbench.data.from_git.query_texts import QueryTexts
from ctxbench.index.code.path_kinds import is_side_file
from ctxbench.sources.repository.commit_messages import clean_message, has_word
from ctxbench.sources.repository.git_reader import FileChange, LineCommit

MOST_FILES = 10
MERGE, REVERT, BOT, VERSION = "merges", "reverts", "by bots", "version bumps and releases"
NO_WORD, REPEATED, NOTHING = "without a word in the message", "repeated messages", "without a change"
ADDITIONS, DOCUMENTATION, MANY = "only additions", "only documentation or generated files", f"over {MOST_FILES} files"
FORMATTING, UNREADABLE = "only white space", "no changed file that the catalog can hold"

_REVERT = re.compile(r"\W*(?:revert(?:s|ed)?|back ?out)\b", re.IGNORECASE)
_REVERT_LATER = re.compile(r"^This reverts commit\b", re.MULTILINE)
_BOT = re.compile(
    r"\[bot\]|\b(?:dependabot|renovate|greenkeeper|pre-commit-ci|github-actions|snyk-bot|pyup|imgbot|allcontributors"
    r"|semantic-release|weblate)\b|\b\w+[-_ ]bot\b",
    re.IGNORECASE,
)
_V = r"[`'\"]?v?\d+(?:\.\w+)*(?:[-+.]\w+)*[`'\"]?"
_KIND = r"(?:(?:chore|build|ci|docs?|fix|feat|deps?|pkg)?(?:\([\w ,/-]+\))?!?:\s*)?"  # `chore(deps): `
_START = (
    r"(?:(?:prepare|prep|start|begin|cut|tag|make|do|new|back to|set)\s+(?:for\s+)?(?:the\s+)?(?:next\s+|new\s+)*)?"
)
_RELEASE = r"(?:release|version|rel|dev(?:elopment)?)\b"
_DEPENDENCIES = r"(?:dependencies|deps|requirements|lock ?files?|pre-commit hooks?)"
_VERSION = re.compile(
    "|".join(
        (
            rf"{_KIND}(?:this is |[\w/@.-]+[ -])?{_V}",
            rf"{_KIND}{_START}{_RELEASE}(?:\s+(?:of|for|to|as|is|version|notes)\b)?\s*:?\s*(?:\S+[ -])?{_V}.*",
            rf"{_KIND}{_START}{_RELEASE}(?:\s+(?:version|cycle|mode|bump|notes))?",
            rf"{_KIND}bump(?:s|ed|ing)?\b.*",
            r"\[pre-commit\.ci\].*",
            r"deps?(?:\([\w ,/-]+\))?: \S+@\S+",
            rf"{_KIND}(?:update|upgrade)s?\s+(?:\S+\s+){{1,4}}(?:from\s+{_V}\s+)?to\s+(?:version\s+)?{_V}",
            rf"{_KIND}(?:update|upgrade|lock)\s+(?:all\s+)?(?:\w+\s+)?{_DEPENDENCIES}",
        )
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCommit:
    """A commit that is a request.

    Attributes:
        position: in the line of commits.
        text: its message, or the text that replaces it, cleaned.
        changes: what it did to files.
    """

    position: int
    text: str
    changes: tuple[FileChange, ...]

    @property
    def changed(self) -> tuple[FileChange, ...]:
        """The changes of files that the tree before it holds."""
        return tuple(change for change in self.changes if change.old_blob is not None)

    @property
    def blobs(self) -> list[str]:
        """Those files as they were and as they are."""
        return [blob for change in self.changed for blob in (change.old_blob, change.new_blob) if blob]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRules:
    """The rules for commits that are requests.

    Attributes:
        queries: at most so many, the newest.
        merges: a merge counts, too, if its message says what was merged: `Merge pull request ...` alone says nothing.
        keep_issues: numbers of issues stay in messages.
        texts: take the place of messages, as queries; items of commits have their messages.
    """

    queries: int = 300
    merges: bool = False
    keep_issues: bool = False
    texts: QueryTexts = field(default_factory=QueryTexts)

    def text_of(self, commit: LineCommit) -> str:
        """A commit's message, cleaned."""
        return clean_message(commit.message, keep_issues=self.keep_issues)

    def query_of(self, commit: LineCommit) -> str:
        """The query of a commit: the text that replaces its message, if there is one, or its message; cleaned."""
        text = self.texts.of(commit)
        return self.text_of(commit) if text is None else clean_message(text, keep_issues=self.keep_issues)


@dataclass(frozen=True, kw_only=True)
class CommitChoice:
    """The commits that are requests, oldest first, and how many others between them were passed over, by reason."""

    chosen: tuple[ChosenCommit, ...]
    out: Mapping[str, int] = field(default_factory=dict)
    looked_at: int = 0


Texts = Callable[[Sequence[str]], Mapping[str, str | None]]
"""Gives the texts of blobs by their hashes; None of those that no item can hold."""
_AT_ONCE = 50  # commits whose files are in memory together


def choose_commits(
    line: Sequence[LineCommit], rules: CommitRules, texts: Texts, *, first: int | None = None
) -> CommitChoice:
    """Choose the newest commits that are requests.

    Args:
        line: commits, oldest first.
        rules: see there.
        texts: reads files; asked for those of a few commits at once.
        first: all from this position on are chosen, however many, and none before; None = the newest.

    Returns:
        The requests, and the reasons of all commits from the oldest of them to the newest commit of the line; where
        there are none, of all.
    """
    candidates: list[ChosenCommit] = []
    reasons: list[str] = []
    messages: set[str] = set()
    for position, commit in enumerate(line):
        text = rules.query_of(commit)
        candidate = ChosenCommit(position=position, text=text, changes=commit.changes)
        reasons.append(_reason(commit, candidate, rules, messages))
        messages.add(text.casefold())
        if not reasons[-1] and position >= (first or 0):
            candidates.append(candidate)
    chosen: list[ChosenCommit] = []
    limit = rules.queries if first is None else len(line)
    while candidates and len(chosen) < limit:
        some = candidates[-_AT_ONCE:]
        del candidates[-len(some) :]
        blob_texts = texts([blob for commit in some for blob in commit.blobs])
        for candidate in reversed(some):
            reasons[candidate.position] = _text_reason(candidate, blob_texts)
            if not reasons[candidate.position] and len(chosen) < limit:
                chosen.append(candidate)
    oldest = chosen[-1].position if chosen else 0
    out = Counter(filter(None, reasons[oldest:]))
    return CommitChoice(chosen=tuple(chosen[::-1]), out=dict(out.most_common()), looked_at=len(line) - oldest)


def _reason(commit: LineCommit, candidate: ChosenCommit, rules: CommitRules, messages: set[str]) -> str:
    """Why a commit is no request, by its message and paths; empty if it may be one."""
    text, message = candidate.text, rules.text_of(commit)
    paths = [change.path for change in commit.changes]
    checks = (
        (MERGE, len(commit.parents) > 1 and not rules.merges),
        (REVERT, _REVERT.match(message) or _REVERT_LATER.search(commit.message)),
        (BOT, _BOT.search(commit.author)),
        (VERSION, _VERSION.fullmatch(message.split("\n")[0].strip(" .!"))),
        (NO_WORD, not has_word(text)),
        (REPEATED, text.casefold() in messages),
        (NOTHING, not paths),
        (ADDITIONS, not candidate.changed),
        (MANY, len(paths) > MOST_FILES),
        (DOCUMENTATION, all(map(is_side_file, paths))),
    )
    return next((reason for reason, applies in checks if applies), "")


def _text_reason(candidate: ChosenCommit, blob_texts: Mapping[str, str | None]) -> str:
    """Why a commit is no request, by the texts of its files; empty if it is one."""
    pairs = [
        (blob_texts.get(change.old_blob or ""), blob_texts.get(change.new_blob or ""), change)
        for change in candidate.changed
    ]
    if all(old is None for old, _, _ in pairs):
        return UNREADABLE
    only_formatting = (
        old is not None and new is not None and old != new and "".join(old.split()) == "".join(new.split())
        for old, new, _ in pairs
    )
    if len(candidate.changes) == len(pairs) and all(only_formatting):
        return FORMATTING
    return DOCUMENTATION if all(old is None or is_side_file(change.path, old) for old, _, change in pairs) else ""
