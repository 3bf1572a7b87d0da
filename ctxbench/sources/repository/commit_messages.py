"""Commit messages as a developer would have asked for the change."""

from __future__ import annotations

import re

LONGEST_MESSAGE = 20_000  # characters; what is behind them is not read
# A message may be made to take long. The expressions below take a time that grows with its length, not with the square
# of it: what repeats gives nothing back (`*+`), or is bounded.
_TRAILER_NAMES = (
    "signed-off-by co-authored-by co-developed-by reviewed-by acked-by tested-by reported-by suggested-by helped-by "
    "approved-by authored-by cc change-id pr-url link bug bugs issue issues refs ref closes fixes resolves see "
    "pull-request differential revision reviewers subscribers release-note git-svn-id pr pr-close pull request"
)
_TRAILER = re.compile(rf"^\s*(?:{'|'.join(_TRAILER_NAMES.split())})[ \t]*:", re.IGNORECASE)
_ANY_TRAILER = re.compile(r"^[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: \S")  # where a whole last paragraph is made of them
_NOTES = re.compile(
    r"^\(?cherry[- ]picked from\b|^git-svn-id|generated (?:with|by) \[?[A-Z]|^-{3,}$|^# "
    r"|^\s*+[*-]?\s*+\[?(?:skip ci|ci skip)\]?\s*$",
    re.IGNORECASE,
)
_MERGE = re.compile(
    r"^(?:merge(?:d|s)? (?:pull[- ]request|pr|mr|branch(?:es)?|tag|commit|remote|remote-tracking)\b.*"
    r"|merge \S+ (?:in)?to \S+.*|merge (?=\S+/\S)\S++|auto merge of .*)$",
    re.IGNORECASE,
)
_SKIP = re.compile(r"\[(?:skip ci|ci skip|no ci|skip actions|actions skip)\]", re.IGNORECASE)
_BRACKET = re.compile(r"!?\[([^\]\n]*+)(\]\([^)\s]{1,2000}+\))?")  # of a Markdown link, if there is the second group
_LINK = re.compile(r"<?\bhttps?://[^\s<>\"'`)\]]+>?")
_EMAIL = re.compile(r"<(?=[^<>\s]+@[^<>\s])[^<>\s]++>")
_WORD_BEFORE = (
    r"(?:(?:(?:this|which|it|and|also|that|should)\s++){0,8}+"
    r"(?:fix(?:e[sd]|ing)?|clos(?:es?|ed|ing)|resolv(?:es?|ed|ing)|address(?:es|ed)?|implement(?:s|ed)?|see(?: also)?"
    r"|refs?|references|related to|relates to|part of|follow[- ]?up (?:to|of)|as (?:in|of)|per|cf\.?|in|from|of|by|for"
    r"|with|to|via)\b:?\s++)"
)
_THING = r"(?:(?:issues?|bugs?|tickets?|pull requests?|prs?|mrs?)\s++)"
_NUMBER = r"(?:\b[\w.-]{1,200}+/[\w.-]{1,200}|(?<![\w&]))(?:#|gh-)\d++\b"
_ISSUE_LIST = (
    rf"(?>(?:{_WORD_BEFORE})?{_THING}?{_NUMBER}"
    rf"(?:(?:\s*+,\s*+|\s*+/\s*+|\s++(?:and|&|\+)\s++|\s++)(?:{_WORD_BEFORE})?{_NUMBER})*)"
)
_ISSUES = re.compile(rf"\({_ISSUE_LIST}\)|\[{_ISSUE_LIST}\]|{_ISSUE_LIST}", re.IGNORECASE)
_TICKET = re.compile(
    r"^(?!(?:UTF|SHA|ISO|PEP|RFC|CVE|IPV|HTTP|WIN|ARM)-)(?:\[[A-Z][A-Z0-9]+-\d+\]|[A-Z][A-Z0-9]+-\d+\b:?)", re.MULTILINE
)
_EMPTY_BRACKETS = re.compile(r"(?<!\S)(?:\(\s*+[,;]?\s*+\)|\[\s*\]|`\s*`)")
_LEFT_OVER = re.compile(r"\b(?:see(?: also)?|refs?|from|source|via)\s*:?$", re.IGNORECASE)
_CUT = "\0"  # no commit message holds it
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]{2,}")


def clean_message(message: str, *, keep_issues: bool = False) -> str:
    """The message without what only the tools around a repository read.

    Out: trailers (`Signed-off-by: ...`), other authors, `Merge pull request ...`, links and addresses, notes of
    cherry-picks and for builds, and, if they are not kept, numbers of issues with the words before them (`Fixes #12`,
    `(#12)`, `GH-12`, `ABC-12:`).

    Args:
        message: whole, as git has it; what is behind its first 20,000 characters is left out.
        keep_issues: leave the numbers of issues where they are.

    Returns:
        The subject, and after an empty line what is left of the rest; empty if nothing is.
    """
    message = message[:LONGEST_MESSAGE].replace("\r\n", "\n").replace("\r", "\n").strip()
    paragraphs = re.split(r"\n[ \t]*+\n", message)
    if len(paragraphs) > 1 and all(map(_ANY_TRAILER.match, paragraphs[-1].splitlines())):
        paragraphs.pop()
    clean_lines = []
    for number, paragraph in enumerate(paragraphs):
        lines = [line for line in paragraph.split("\n") if not (_TRAILER.match(line) or _NOTES.search(line))]
        if not number and lines and _MERGE.match(lines[0].strip()):
            lines = lines[1:]
        cleaned = [_clean_line(line) for line in _cut("\n".join(lines), keep_issues).split("\n")]
        clean_lines.append("\n".join(line for line in cleaned if line))
    return "\n\n".join(filter(None, clean_lines))


def has_word(text: str) -> bool:
    """Whether a text holds a word: two letters in a row, of any script."""
    return _WORD.search(text) is not None


def _cut(paragraph: str, keep_issues: bool) -> str:
    """A paragraph with a mark in place of what is out, which may go over the end of a line."""
    text = _BRACKET.sub(_without_target, _SKIP.sub(_CUT, paragraph))
    for pattern in (_LINK, _EMAIL, *(() if keep_issues else (_TICKET, _ISSUES))):
        text = pattern.sub(_CUT, text)
    return text


def _without_target(bracket: re.Match[str]) -> str:
    """The text of a Markdown link; what is in other brackets stays as it is."""
    return f"{bracket[1]}{_CUT}" if bracket[2] else bracket[0]


def _clean_line(line: str) -> str:
    """A line in which something may have been cut, as if it had never been there; empty if only signs are left."""
    if _CUT not in line:
        return line.rstrip()
    text = re.sub(r"[ \t]{2,}", " ", _EMPTY_BRACKETS.sub("", line.replace(_CUT, "")))
    text = re.sub(r"(?<!\s)\s++([,.;!?)])(?=\s|$)", r"\1", text).replace("( ", "(").replace("..", ".")
    text = text.strip().lstrip(",;:.").rstrip(",;:-(")
    text = _LEFT_OVER.sub("", text).strip()
    indent = line[: len(line) - len(line.lstrip())]
    return indent + text if _LETTER.search(text) else ""
