"""Names of code and of files in the text of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ENDINGS = (
    "py|pyi|rs|ts|tsx|js|jsx|mjs|cjs|vue|svelte|go|java|kt|kts|scala|swift|c|h|cc|cpp|hpp|cs|rb|php|lua|md|rst|toml|"
    "yaml|yml|json|jsonl|lock|cfg|ini|env|sh|bash|ps1|sql|html|css|scss|graphql|proto|txt|gradle|xml|csv|ico|log|mod|"
    "ipynb|tf|svg|png"
)
_FOLDERS = "src|lib|libs|test|tests|docs?|internal|cmd|pkg|app|apps|scripts|packages|crates|examples|benches"
_NAME = r"[^\W\d]\w*"
_LONG_PIECE = re.compile(r"\S{200,}")  # no name; and patterns take a time that grows with its square
_URL = re.compile(r"\b(?:https?|ssh|git)://\S+")
_QUOTED = re.compile(r"`([^`\n]+)`")
_FRAME = re.compile(r'File "([^"\n]+)", line \d+(?:, in ([\w.<>]+))?')  # of a Python stack trace
_CODE = re.compile(
    "|".join(
        (
            rf"(?:[\w.@+-]*/)*[\w@+-][\w.@+-]*\.(?:{_ENDINGS})(?:::\w+)*\b(?!\()",  # a file, a test in it
            rf"(?<![\w./])(?:\.{{0,2}}/|(?:{_FOLDERS})/)\w[\w.@+-]*(?:/[\w.@+-]+)*",  # a path or a route
            r"(?<![\w.])\.[a-z][\w-]{3,}(?:\.\w+)?",  # .gitignore
            rf"{_NAME}<[\w<>:,& ]{{0,60}}\w>{{1,4}}",  # Vec<u8>
            rf"{_NAME}(?:(?:::|\.|\#){_NAME})+",  # a::b, a.b
            r"\b\w*_\w+\b",  # a_b
            r"\b0[xob][\da-fA-F]+\b",
            r"\b(?:Dockerfile|Makefile|Jenkinsfile|Gemfile|LICENSE|README|CHANGELOG|TODO|FIXME)\b",
            rf"(?<![\w.])({_NAME})(?=\((?!e?s\)))",  # f(
            r"\b\w*(?:[^\W\d_][a-z\d]*[a-z\d][A-Z]|[A-Z]{2,}[a-z]{2})\w*\b",  # CamelCase, HTTPServer
        )
    )
)
_SPOKEN = re.compile(
    r"\b(?:function|method|class|struct|trait|interface|module|decorator|macro)\s+(?:called\s+|named\s+)?([a-z]\w+)\b"
    r"|\b(?:the|our|this)\s+([a-z]\w+)\s+(?:function|method|decorator|macro)\b"
)
_CAPITAL = re.compile(r"(?<!\S)[a-z][\w'-]*[,:]? ([A-Z][a-z]{2,})\b(?![ -][A-Z])")  # within a sentence
_COMMIT_TYPE = re.compile(
    r"^(?:fix|feat|docs|test|tests|refactor|perf|chore|build|ci|style)(?:\([\w, -]+\))?!?: "
)  # of a commit's subject
_PLAIN = (  # products, formats, languages, days and constants that are written like code or names
    "github gitlab bitbucket javascript typescript postgresql mysql sqlite mongodb graphql oauth oauth2 openapi "
    "grpc macos ios ipados devops youtube linkedin pypi numpy pytorch fastapi rabbitmq cmake vscode intellij wifi "
    "ipv4 ipv6 dynamodb nosql webassembly node.js vue.js next.js nuxt.js react.js asp.net e.g i.e a.m p.m readme.io "
    "python java rust ruby kotlin swift scala perl haskell django flask rails spring docker kubernetes terraform "
    "redis kafka postgres linux windows ubuntu debian fedora alpine safari chrome firefox edge excel word outlook "
    "slack jira google amazon azure stripe paypal apple microsoft node npm webpack vite react angular vue svelte "
    "pydantic prometheus grafana sentry celery markdown english german french spanish italian dutch polish japanese "
    "chinese korean british american european europe germany france monday tuesday wednesday thursday friday "
    "saturday sunday january february march april june july august september october november december unicode "
    "ascii latin greek christmas internet bluetooth ctrl shift enter escape none true false null nan kib mib gib "
    "cannot "
)
_NO_CODE = frozenset(_PLAIN.split())
_ENGLISH = frozenset(
    ("not", "that", "this", "the", "what", "which", "who", "for", "with", "from", "when", "where", "and")
)
_FILE = re.compile(rf"\.[a-z][\w-]{{3,}}|[\w.@+-]+\.(?:{_ENDINGS})")
_FILES = frozenset(["Dockerfile", "Makefile", "Jenkinsfile", "Gemfile", "LICENSE", "README", "CHANGELOG"])
MOST = 50  # names that count of one request; a pasted log holds thousands


def named_code(text: str) -> tuple[str, ...]:
    """The names of code, files and paths that a text says, each once, in the order of the text, at most `MOST`.

    They are what stands in backquotes, CamelCase, snake_case, dotted names and those with `::`, file names, paths,
    what is called (`f()`), what is called a function or a class, frames of Python's stack traces, and capitalised
    words within a sentence. Names of products, languages and days are left out. A text without any has none.
    """
    names: dict[str, int] = {}
    for position, name in sorted(_named_at(text), key=lambda entry: entry[0]):
        if name and name.lower() not in _NO_CODE:
            names.setdefault(name, position)
    return tuple(names)[:MOST]


def is_file(name: str) -> bool:
    """Whether a name is that of a file, with or without folders: by its ending, or known files without one."""
    last = name.rpartition("/")[2]
    return bool(_FILE.fullmatch(last)) or last in _FILES


def is_path(name: str) -> bool:
    """Whether a name is that of a file or folder; `/ping` is none, but a route."""
    return is_file(name) or ("/" in name and name[0] != "/" and not re.search(r"\s", name))


def _named_at(text: str) -> Iterator[tuple[int, str]]:
    """Names and where they stand; a part of the text is read once, by the first pattern that takes it."""
    rest = _URL.sub(_blank, _COMMIT_TYPE.sub(_blank, text))
    rest = _LONG_PIECE.sub(_blank, rest)
    for pattern in (_QUOTED, _FRAME):
        for match in pattern.finditer(rest):
            yield from ((match.start(), name.strip()) for name in match.groups() if name and name[0] != "<")
        rest = pattern.sub(_blank, rest)
    for match in _CODE.finditer(rest):
        name = (match[1] or match[0]).rstrip(".:")
        if _is_code(name):
            yield match.start(), name
    rest = _CODE.sub(_blank, rest)
    for match in _SPOKEN.finditer(rest):
        name = match[1] or match[2]
        if name not in _ENGLISH:
            yield match.start(), name
    yield from ((match.start(), match[1]) for match in _CAPITAL.finditer(rest))


def _is_code(name: str) -> bool:
    """Whether what looks like code is more than a number, an abbreviation in the plural, or two sentences."""
    if not any(c.isalpha() for c in name) or name.strip("_") == "":
        return False
    return not re.fullmatch(r"[A-Z]+s|[a-z]\.[a-z]", name)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
