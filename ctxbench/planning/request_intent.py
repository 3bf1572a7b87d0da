"""What a request about code asks for: by tables of words, without a model."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ctxbench.index.words import keywords
from ctxbench.planning.named_code import named_code

ActionName = Literal["create", "modify", "debug", "explain", "refactor", "search"]
ScopeName = Literal["focused", "module", "codebase"]
ComplexityName = Literal["simple", "medium", "complex"]

_SHORT, _LONG = 6, 14  # words: what only names something is one edit, what is longer tells of several
_OPENING = 3.0  # what a word counts that opens the request, beside 1 anywhere else
_ACTIONS: dict[ActionName, tuple[str, str]] = {  # what counts where it opens the request, and anywhere
    "debug": (
        r"""
        fix\w*|debug\w*|repair|prevent|avoid|ensure|correct|handle|diagnose|investigate|troubleshoot|solve|resolve|bug|error\S*|failed|
        traceback|panic\S*""",
        r"""
        crash\w*|fail(?:s|ed|ing|ure)?|bugs?|broken|breaks|wrong\w*|fix|flaky|leaks?|deadlock|hangs?|
        freez\w+|segfault|panic\w*|exception|traceback|\w+(?:error|exception)|error:|nan|stale|twice|
        forever|race|doesn't|don't work|cannot|can't|couldn't|won't|nothing happens|dies|died|typo|
        unexpected\w*|rejected|40[0-9]|50[0-9]|off[- ]by[- ]one|off by|overflows?|regress\w*|incorrect\w*|
        missing|truncated|expected|actual|reproduce|ignores|silently""",
    ),
    "explain": (
        r"""
        how|why|what(?! code)|what's|explain|describe|walk|tell|compare|is|does|are(?! there)|don't get|
        don't understand|give me an overview|understand|summari[sz]e""",
        r"""
        explain|overview|understand|walk me through|how does|how do|what happens|difference between|
        why do(?:es)?""",
    ),
    "search": (
        r"""
        where|where's|find|list|grep|search|locate|show|who|which|all|any|look up|are there|what code|count|
        in which""",
        r"""
        where (?:is|are|do|does|did|we)|where\?|usages|callers|call sites|implementations of|subclasses of|
        occurrences?""",
    ),
    "refactor": (
        r"""
        refactor\S*|rename|split|extract|move|clean|simplify|inline|restructure|reorgani[sz]e|decouple|
        unify|dedupe|convert|merge|pull|dry|flatten|group|break|standardi[sz]e|separate|sort|remove dead|
        get rid|tidy|untangle|reword|moderni[sz]e|reuse""",
        r"""
        refactor\w*|rename|split|extract|out of|duplicated|duplication|no functional changes?|
        easier to (?:follow|read|understand)|separate|not depend|behaviou?r must stay|dead code|
        into (?:its own|smaller|an? \w+ (?:object|class|table))|clean up|simplify|restructure|naming|
        consistent|unused|async/await|monorepo""",
    ),
    "create": (
        r"""
        add|create|implement|write|build|introduce|generate|feat\S*|support|new|an?|provide|we want|we need|
        i need|need|give|expose|scaffold|set up|define|design|class|let|accept""",
        r"""
        add|create|implement|introduce|support for|new|unit tests|write|build an?|generate|from scratch|
        plugin|we need|please""",
    ),
    "modify": (
        r"""
        make|change|update|bump|increase|decrease|set|switch|replace|allow|use|drop|upgrade|extend|respect|
        require|remove|limit|pin|turn|have|migrate|instead|treat|cache|when|move from|compress|adapt|send|
        adjust|enable|disable|let|default|adopt|improve|optimi[sz]e|reduce|skip|ignore""",
        r"""
        should|must|instead of|rather than|by default|from \S+ to|to \d+|no longer|as well as|change|update|
        adapt""",
    ),
}
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|please|pls|ok|so|quick one|can|could|would|you|we|i|i'd|i'll|we'd|want|like|need|to|just|"
    r"also|now|then|help|me)\b[\s,:!.]*)+",
    re.IGNORECASE,
)
_WIDE = re.compile(
    r"\b(?:everywhere|throughout|all over|across (?:the|all|every)|(?:whole|entire) (?:\w+ )?(?:codebase|project|"
    r"repo\w*|app\w*)|codebase|this project|the project|the repo\w*|architecture|layering|monorepo|monolith|overview|"
    r"every \w+|all (?:the )?\w+ types|authenticat\w+|internationali[sz]ation|multi-tenancy|migrate|anywhere|"
    r"all services|all (?:sql )?queries)\b",
    re.IGNORECASE,
)
_HARD = re.compile(
    r"\b(?:architecture|deadlock|race condition|plugin system|migrate|monolith|monorepo|restructure|design|multi-\w+|"
    r"internationali[sz]ation|authentication|oauth2?|decouple|concurren\w+|"
    r"terraform|rewrite|port the|distributed|from scratch|intermittent\w*|"
    r"inconsistent)\b",
    re.IGNORECASE,
)
_EASY = re.compile(
    r"\b(?:typo|bump|rename|where(?:'s| is| are| do)?|which (?:file|class|test)|version|default|set|pin|"
    r"link|label|button|footer|logo|grep|count|any|increase|unused|dead code|"
    r"sort imports|error messages?|"
    r"what does|is \S+ (?:needed|on)|\.gitignore|spell|changelog\.md|readme\.md|contributing\.md)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class QueryIntent:
    """What a request asks for.

    Attributes:
        action: what is to be done with the code.
        scope: `focused`, on what it names; `module`, on a part; `codebase`, on all of it.
        complexity: `simple`, one edit or look-up; `medium`; `complex`, several parts or a design.
        keywords: see `index.words.keywords`.
        entities: see `planning.named_code.named_code`.
    """

    action: ActionName
    scope: ScopeName
    complexity: ComplexityName
    keywords: tuple[str, ...]
    entities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The intent as JSON, what `Query.intent` holds."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def read_intent(text: str) -> QueryIntent:
    """What a request asks for; a blank one is to `debug` a `module`."""
    entities = named_code(text)
    action = _action(text)
    scope: ScopeName = "codebase" if _WIDE.search(text) else "focused" if entities else "module"
    return QueryIntent(action, scope, _complexity(text, action, scope), keywords(text), entities)


def _action(text: str) -> ActionName:
    """The action with most words for it, of equals the first of the table.

    Without such a word it is `debug`: who only says what happens reports a fault.
    """
    words = _POLITE.sub("", text.strip()).lower() or text.lower()
    scores: dict[ActionName, float] = {}
    for action, (opening, anywhere) in _PATTERNS.items():
        scores[action] = _OPENING * bool(opening.match(words)) + len(set(anywhere.findall(words)))
    best = max(scores.values())
    return next(action for action, score in scores.items() if score == best) if best else "debug"


def _flat(pattern: str) -> str:
    """A pattern of several lines as one."""
    return "".join(line.strip() for line in pattern.splitlines())


_PATTERNS = {
    action: (
        re.compile(rf"(?:{_flat(opening)})(?:s|e?d|ing)?(?!\w)"),
        re.compile(rf"(?<!\w)(?:{_flat(anywhere)})(?!\w)"),
    )
    for action, (opening, anywhere) in _ACTIONS.items()
}


def _complexity(text: str, action: ActionName, scope: ScopeName) -> ComplexityName:
    if _HARD.search(text):
        return "complex"
    length = len(text.split())
    named = scope == "focused" and (action == "search" or (length <= _SHORT and action not in ("debug", "refactor")))
    easy = scope != "codebase" and bool(_EASY.search(text))
    return "simple" if length <= _LONG and (named or easy) else "medium"
