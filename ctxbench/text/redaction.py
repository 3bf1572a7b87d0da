"""Texts without secrets: mail addresses, keys, long numbers and names become placeholders such as `<mail-1>`.

One `Redactor` gives the same secret the same placeholder, and numbers placeholders in the order in which secrets are
first met. Nothing of a secret goes into its placeholder (no hash of it either), so nobody can get it back from the
texts. Patterns find what has a form; names without one stay, so read a sample before you give texts away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, suggest
from ctxbench.io.yaml_files import line_of, load_yaml
from ctxbench.text.redaction_rules import KINDS, KNOWN_KEYS, RULES, SecretRule, is_name

_WORD = re.compile(r"[^\W_]+")
_LEARNT_FROM = 6  # characters of an id that is only digits or only letters; shorter ones hit too much else
_TOKEN = re.compile(r"\S+")
_KIND = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_ORDINARY = """
admin administrator account agent anonymous assistant client customer default demo developer employee engineer
example guest internal manager member nobody operator owner people person private production public robot runner
sandbox service staging support system tester testing unknown user username users viewer visitor worker
workspace
"""
_ROLES = frozenset(_ORDINARY.split())
_FIELDS = ("patterns", "keep", "without")


class Redactor:
    """Replaces secrets by placeholders, the same by the same, until it is thrown away.

    It keeps the secrets in memory to know them again; write it nowhere.
    """

    def __init__(
        self, rules: Sequence[SecretRule] = RULES, *, keep: Iterable[str] = (), ordinary: Iterable[str] = ()
    ) -> None:
        """Take the rules in the order in which they are applied.

        Args:
            rules: see `RULES` and `read_rules`.
            keep: texts that are never replaced, such as names of tools.
            ordinary: words that are no one's name or id, such as those of a catalog; they are not learnt.
        """
        self._rules = tuple(rules)
        self._keep = frozenset(keep)
        self._placeholders: dict[tuple[str, str], str] = {}
        self._distinct: Counter[str] = Counter()
        self._replaced: Counter[str] = Counter()
        self._ordinary = _ROLES | {word.casefold() for word in ordinary}
        self._learned: dict[str, dict[int, dict[str, str]]] = {}  # by first word and length, longest first: kinds

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """By kind: how often something was `replaced`, and how many `distinct` secrets that were."""
        return {
            kind: {"replaced": self._replaced[kind], "distinct": self._distinct[kind]}
            for kind in sorted(self._distinct)
        }

    def text(self, text: str) -> str:
        """The text with every secret that a rule finds, or that was learnt, replaced; linear in its length."""
        text = self._replace_learned(text)
        lowered = text.casefold()
        for rule in self._rules:
            if not rule.needs or any(part in lowered for part in rule.needs):
                text = self._apply(rule, text)
        return text

    def identifier(self, value: str, kind: str) -> str:
        """The placeholder of a value that is a secret as a whole, such as the id of a user.

        A value that has the form of another kind gets a placeholder of that: a user known by a mail address is that
        address wherever it stands. An empty value stays empty.
        """
        return self._placeholder(self._kind_of(value, kind), value) if value else value

    def _kind_of(self, value: str, kind: str) -> str:
        """The kind whose form a value has, or else the given one."""
        for rule in self._rules:
            match = rule.pattern.fullmatch(value)
            if match and rule.kind != "name" and rule.secret(match) == match.span() and rule.accepts(value):
                return rule.kind
        return "name" if is_name(value) else kind

    def learn(self, value: str, kind: str) -> None:
        """Replace a value wherever it stands as whole words from now on, for example the name of a user.

        Of several words only the whole is learnt. A single word is not learnt if it would hit other things: words of
        roles (admin, service) and the ordinary ones, what has less than 4 characters, and less than 6 if it is only
        digits or only letters.
        """
        words = value.split()
        plain = value.isalpha() or value.isdecimal()
        if not words or len(value) < (_LEARNT_FROM if plain else 4) or value in self._keep:
            return
        if len(words) == 1 and value.casefold() in self._ordinary:
            return
        first = _WORD.search(value)
        if first is not None:
            secret = value[first.start() :]
            lengths = self._learned.setdefault(first.group(), {})
            lengths.setdefault(len(secret), {}).setdefault(secret, self._kind_of(value, kind))
            self._learned[first.group()] = dict(sorted(lengths.items(), reverse=True))

    def _replace_learned(self, text: str) -> str:
        """Replace what was learnt."""
        if not self._learned:
            return text
        parts, done = [], 0
        for word in _WORD.finditer(text):
            start = word.start()
            if start < done:
                continue
            for length, secrets in self._learned.get(word.group(), {}).items():
                secret = text[start : start + length]
                kind = secrets.get(secret)
                if kind is not None and not text[start + length : start + length + 1].isalnum():
                    parts += [text[done:start], self._placeholder(kind, secret)]
                    done = start + length
                    break
        return "".join([*parts, text[done:]]) if parts else text

    def _apply(self, rule: SecretRule, text: str) -> str:
        parts, done = [], 0
        names: dict[str, str] = {}
        for match in rule.pattern.finditer(text):
            start, end = rule.secret(match)
            secret = text[start:end]
            if start < done or not rule.accepts(secret) or self._is_allowed(text, start, end):
                continue
            placeholder = self._placeholder(rule.kind, secret)
            names[secret] = placeholder
            parts += [text[done:start], placeholder]
            done = end
        if not parts:
            return text
        text = "".join([*parts, text[done:]])
        if rule.kind == "name":  # who is greeted by name is named so further down
            for name, placeholder in names.items():
                text, times = re.subn(rf"\b{re.escape(name)}\b", placeholder, text)
                self._replaced["name"] += times
        return text

    def _is_allowed(self, text: str, start: int, end: int) -> bool:
        """Whether what was found, or the run of characters without blanks that it is part of, is to be kept."""
        if not self._keep:
            return False
        if text[start:end] in self._keep:
            return True
        begin = max(text.rfind(space, 0, start) for space in " \t\n") + 1
        token = _TOKEN.match(text, begin)
        return token is not None and token.group().strip("\"'`(),.:;!?") in self._keep

    def _placeholder(self, kind: str, secret: str) -> str:
        self._replaced[kind] += 1
        placeholder = self._placeholders.get((kind, secret))
        if placeholder is None:
            self._distinct[kind] += 1
            placeholder = self._placeholders[kind, secret] = f"<{kind}-{self._distinct[kind]}>"
        return placeholder


def known_keys(text: str) -> Iterator[tuple[int, str]]:
    """Where keys stand whose form tells what they are (`ghp_...`, a JWT, a private key): position and key, by rule."""
    lowered = text.casefold()
    for rule in KNOWN_KEYS:
        if any(part in lowered for part in rule.needs):
            for match in rule.pattern.finditer(text):
                start, end = rule.secret(match)
                if rule.accepts(text[start:end]):
                    yield start, text[start:end]


def masked(text: str) -> str:
    """A text to be shown: of every key in it that `known_keys` finds only the first characters are left."""
    for key in sorted({key for _, key in known_keys(text)}, key=len, reverse=True):
        text = text.replace(key, shortened(key))
    return text


def shortened(key: str) -> str:
    """What may be shown of a key: `ghp_…`; of a private key its first line."""
    return f"{key[: key.find('-----', 5) + 5] if key.startswith('-----') else key[:4]}…"


def read_rules(path: Path | str) -> tuple[tuple[SecretRule, ...], tuple[str, ...]]:
    """Read own rules from a YAML or JSON file, to be used in front of the built-in ones.

    The file holds `patterns` (a list of `{kind, pattern}`: Python's regular expressions; where one has a group named
    `secret`, only that is replaced), `keep` (texts that are never replaced) and `without` (built-in kinds that are
    not wanted); each may be left out.

    Returns:
        All rules in the order in which they apply, and the texts to keep.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: something else stands there, an expression is malformed or matches the empty text: all faults.
    """
    data, lines = load_yaml(path)
    faults: list[Fault] = []
    if not isinstance(data, dict):
        raise InputError([Fault(f"expected a mapping with any of {', '.join(_FIELDS)}", path, 1)])
    faults += [
        Fault(f"unknown field {name!r}{suggest(name, _FIELDS)}", path, line_of(lines, (name,)))
        for name in data
        if name not in _FIELDS
    ]
    custom = []
    for i, entry in enumerate(_list(data, "patterns", faults, path)):
        rule = _own_rule(entry)
        if isinstance(rule, str):
            faults.append(Fault(f"pattern {i + 1}: {rule}", path, line_of(lines, ("patterns", i))))
        else:
            custom.append(rule)
    without = _list(data, "without", faults, path)
    faults += [
        Fault(f"'without' names {kind!r}{suggest(str(kind), KINDS)}", path, line_of(lines, ("without", i)))
        for i, kind in enumerate(without)
        if kind not in KINDS
    ]
    keep = _list(data, "keep", faults, path)
    faults += [
        Fault(f"'keep' must hold texts, got {text!r:.60}", path, line_of(lines, ("keep", i)))
        for i, text in enumerate(keep)
        if not isinstance(text, str) or not text
    ]
    if faults:
        raise InputError(faults)
    return (*custom, *(rule for rule in RULES if rule.kind not in without)), tuple(keep)


def _list(data: Mapping[str, Any], name: str, faults: list[Fault], path: Path | str) -> list[Any]:
    value = data.get(name)
    if value is None or isinstance(value, list):
        return value or []
    faults.append(Fault(f"field {name!r} must be a list, got {value!r:.60}", path))
    return []


def _own_rule(entry: Any) -> SecretRule | str:
    """A rule of a user's, or what is wrong with it."""
    if not isinstance(entry, dict) or set(entry) != {"kind", "pattern"}:
        return f"expected {{kind, pattern}}, got {entry!r:.60}"
    kind, pattern = entry["kind"], entry["pattern"]
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return f"kind is small letters, digits and '-', such as customer, got {kind!r:.60}"
    try:
        compiled = re.compile(str(pattern), re.MULTILINE)
    except re.error as error:
        return f"malformed regular expression {pattern!r:.60}: {error}"
    if compiled.search(""):
        return f"{pattern!r:.60} matches the empty text and would stand everywhere"
    return SecretRule(kind, compiled)


def redactor(path: Path | str | None = None, *, keep: Iterable[str] = (), ordinary: Iterable[str] = ()) -> Redactor:
    """A redactor with the built-in rules, and those of a file in front of them; `keep` and `ordinary` as there.

    Raises:
        StorageError, InputError: as `read_rules`.
        ParameterError: a text to keep is empty.
    """
    allowed = tuple(keep)
    if "" in allowed:
        raise ParameterError("a text to keep must not be empty")
    if path is None:
        return Redactor(keep=allowed, ordinary=ordinary)
    rules, custom = read_rules(path)
    return Redactor(rules, keep=(*allowed, *custom), ordinary=ordinary)
