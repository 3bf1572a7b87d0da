"""Replace mail addresses, keys, long numbers and names in texts by placeholders.

A `Redactor` gives the same secret the same placeholder, such as `<mail-1>`, numbered in order of first appearance. The
placeholder contains nothing of the secret, not even a hash. Patterns find what has a form; other names stay, so read a
sample before you pass texts on.

Kept on purpose, because texts are read for them: names of tools, paths, versions, dates, codes of up to 8 digits,
ticket ids (letters before the number), UUIDs, commit hashes (any run of hexadecimal digits) and IP addresses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ctxbench.io.documents import line_of, load_yaml
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, suggest


@dataclass(frozen=True, slots=True)
class SecretRule:
    """How one form of a secret is found.

    Attributes:
        kind: what its placeholder is called.
        pattern: finds it; the group `secret` is replaced if there is one, else the whole match.
        needs: case-folded texts; where a text holds none of them, nothing can match, so most texts need no search.
        check: rejects texts that only look like it; None = every match counts.
    """

    kind: str
    pattern: re.Pattern[str]
    needs: tuple[str, ...] = ()
    check: Callable[[str], bool] | None = None

    def secret(self, match: re.Match[str]) -> tuple[int, int]:
        """Start and end of what is to be replaced."""
        return match.span("secret") if "secret" in self.pattern.groupindex else match.span()

    def accepts(self, secret: str) -> bool:
        """Whether it is one."""
        return bool(secret) and (self.check is None or self.check(secret))


def passes_luhn(text: str) -> bool:
    """Whether the digits of a text have the check digit of payment cards (ISO/IEC 7812-1)."""
    digits = [int(c) for c in text if c.isdecimal()]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def passes_iban(text: str) -> bool:
    """Whether a text has the check digits of an IBAN (ISO 13616: modulo 97 is 1)."""
    plain = text.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def is_random(text: str) -> bool:
    """Whether a run of letters and digits looks drawn by chance: three classes (small, capital, digit) well mixed.

    Mixed well are 3 runs of digits, or a change of class between at least 0.35 of the neighbours, a small letter after
    a capital aside. In words joined by capitals that is about one in five, in random text 0.45. Hexadecimal runs are
    hashes and stay, and so do names of many parts.
    """
    plain = [c for c in text if c.isalnum()]
    classes = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in plain]
    if len(set(classes)) < 3 or "__" in text or len(text) - len(plain) > 3:
        return False
    if all(c in "0123456789abcdefABCDEF" for c in plain):
        return False
    return _is_mixed(classes) or sum(b == "d" != a for a, b in pairwise(["", *classes])) >= 3


def is_random_base64(text: str) -> bool:
    """Whether a run of base64, which may hold `/` and so look like a path, is well mixed.

    As in `is_random`, or any change of class between 0.3 of the neighbours and 3 pairs of capitals, which paths of
    joined words do not have.
    """
    plain = [c for c in text.rstrip("=") if c.isalnum()]
    classes = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in plain]
    if len(set(classes)) < 3 or len(text.rstrip("=")) - len(plain) > 0.1 * len(text):
        return False
    pairs = list(pairwise(classes))
    changes, capitals = sum(a != b for a, b in pairs), sum(a == b == "u" for a, b in pairs)
    return _is_mixed(classes) or (changes >= 0.3 * len(pairs) and capitals >= 3)


def _is_mixed(classes: list[str]) -> bool:
    changes = sum(a != b and (a, b) != ("u", "l") for a, b in pairwise(classes))
    return changes >= 0.35 * (len(classes) - 1)


def is_name(text: str) -> bool:
    """Whether a text is one to three words of the form of a person's name, and none that only looks like one."""
    words = text.split()
    return 0 < len(words) <= 3 and all(
        len(word) > 1 and word[0].isupper() and _NAME_REST.fullmatch(word[1:]) and word.casefold() not in _NO_NAMES
        for word in words
    )


def _is_drawn(text: str) -> bool:
    """Whether a text with a key's prefix may be one, not words (`sk-to-horizon`) or a dummy (`ghp_xxxxxxxx`)."""
    drawn = "-" not in text[3:] or any(char.isdigit() or char.isupper() for char in text)
    return drawn and not _STAND_IN.search(text)


def _is_key_block(text: str) -> bool:
    """Whether base64 follows the first line of a private key, rather than a sentence about keys."""
    lines = (line.strip() for line in re.split(r"\\[nr]|\n", _DASHES.sub("", text)))
    first = next((line for line in lines if line and not _HEADER.match(line)), "")
    word = first.partition(" ")[0]
    is_complete = word == first or len(word) >= 24  # a key without line ends, and no sentence
    return is_complete and bool(_BASE64.fullmatch(word)) and not (word.islower() or _STAND_IN.search(word))


def _has_digit_or_mark(text: str) -> bool:
    return not text.startswith("<") and any(not c.isalpha() for c in text.rstrip(".,;!?"))


def _is_no_word(text: str) -> bool:
    return not text.startswith("<") and any(c.isdigit() for c in text) and len(set(text)) > 3


def _is_value(text: str) -> bool:
    """Whether the text after `password:` may be one: no word of a sentence about passwords, and no variable."""
    return text[0] not in "<$" and text.rstrip(".,;!?").casefold() not in _NO_VALUES


def _is_set(text: str) -> bool:
    """Whether the text after `token=` may be one: as `_is_value`, and no number of tokens."""
    return _is_value(text) and not (text.isdecimal() and len(text) < 6)


def _is_token(text: str) -> bool:
    """Whether the text after `token:` may be one, rather than the rest of a sentence."""
    return _is_set(text) and (len(text) >= 12 or any(not c.isalpha() for c in text.rstrip(".,;!?")))


def _is_login(text: str) -> bool:
    return text.casefold() not in ("git", "hg", "svn", "user", "username", "root")


def _is_phone(text: str) -> bool:
    return 8 <= sum(c.isdecimal() for c in text) <= 15


def _is_person_folder(text: str) -> bool:
    return text.casefold() not in ("shared", "public", "default", "runner", "ubuntu", "user", "username", "you", "me")


_STAND_IN = re.compile(r"(?i:x{4}|your|placeholder|changeme)|\*{3}|\.{3}")
_HEADER = re.compile(r"[A-Za-z-]+: ")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+=*")
_DASHES = re.compile(r"-----[A-Z ]+-----")
_SENTENCES = """
please required optional none null true false expired missing invalid wrong empty string unknown valid changed
reset what where when which that this there here with from your have does needed undefined protected
"""
_NO_VALUES = frozenset(_SENTENCES.split())  # after `password:`: the sentence goes on
_NAME_REST = re.compile(r"(?:[^\W\d_A-Z]|['’-][^\W\d_]|(?<=^c)[A-Z])+")
_ORDINARY_WORDS = """
world there team all everyone everybody folks guys again sir madam claude chatgpt gpt copilot gemini cursor assistant
agent bot please can could would will i you we what how why when where who which is are do does thanks thank yes no ok
okay list show create find open close get make add remove delete update check tell give help run send write read search
look set the this that my our your and but so if for from with about january february march april may june july august
september october november december monday tuesday wednesday thursday friday saturday sunday support sales billing
engineering hiring customer mr mrs ms dr prof herr herrn frau colleagues friends hi hello hey dear best regards good
morning afternoon evening
"""
_NO_NAMES = frozenset(_ORDINARY_WORDS.split())  # no person, or more sentences go on so than people are called so
_NAME = r"(?![a-z])[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*"
_TITLE = r"(?:(?:Mr|Mrs|Ms|Dr|Prof|Herr|Frau)\.?[ ]+)"
_GREETING = r"(?i:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|guten (?:tag|morgen|abend)|lieber?)"
_CLOSING = (
    r"(?i:(?:with )?(?:best|kind|warm)(?: regards| wishes)?|regards|cheers|(?:many )?thanks(?: a lot)?|thank you"
    r"|sincerely|yours(?: sincerely| truly)?|(?:viele|liebe|mit freundlichen) gr(?:ü|ue)(?:ß|ss)en?)"
)
_AFTER = r"(?=[ ]*(?:[,.!?:;\n–—]|$)|[ ](?:can|could|would|will|please|i|is|do|are|thanks|here|the|we|just|this|my)\b)"


def _name(before: str, after: str = "", words: str = "{0,1}") -> re.Pattern[str]:
    return re.compile(rf"{before}(?P<secret>{_NAME}(?:[ ]{_NAME}){words}){after}", re.MULTILINE)


_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_START = r"(?:(?<!\w)|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"  # of a word, also after an escaped line end or quote
_TOKENS = (  # as their owners print them
    r"sk-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[\w-]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}|dop_v1_[0-9a-f]{32,}|shpat_[0-9a-fA-F]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|lin_api_\w{20,}|sntrys_[\w=+/-]{20,}|xapp-\d-[\w-]{16,}|GOCSPX-[\w-]{20,}"
    r"|gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}|tvly-[\w-]{20,}|ntn_[A-Za-z0-9]{30,}"
    r"|figd_[\w-]{20,}|sbp_[0-9a-f]{30,}|hvs\.[\w-]{20,}|dckr_pat_[\w-]{20,}|ATATT3[\w=-]{30,}|dapi[0-9a-f]{32}"
    r"|\d{8,10}:AA[\w-]{32,}"
)
_SPELT_OUT = r"(?i:password|passwd|pwd|passphrase|passcode|passwort)(?i:[_-]?(?:\d{1,2}|base64|value|text))?"
_ASSIGNED = (
    r"(?i:(?:api|access|secret|private|client|auth|account|shared|signing|encryption)[ _-]?(?:key|token|secret)"
    r"|secret|token|credentials?)(?i:[_-](?:key|base|value|base64))*"
)
_QUOTE = r"[\\\"']*"
_BARE = r"(?:(?![;&]\w+=)[^\s\"'<>]){4,200}(?<![.,;])"  # a value without quotes, up to a blank or the next setting
_VALUE = (  # in quotes up to the quote, whatever it holds
    rf"(?:(?i:bearer|basic)\s+)?\\*(?P<quote>[\"'])?(?P<secret>(?(quote)(?:(?!\\*(?P=quote))[^\n]){{4,200}}|{_BARE}))"
)
_SIMPLE = r"(?P<secret>[A-Za-z0-9_.~+/=-]{8,})"

_KEYED = ("key", "token", "secret", "credential")
_DIGITS = tuple("0123456789")
_GREETED = ("hi", "hello", "hey", "dear", "good", "hallo", "guten", "liebe")
_CLOSED = ("best", "kind", "warm", "regards", "cheers", "thank", "sincerely", "yours", "grüss", "gruess")
_NAMED = ("customer", "contact", "client", "patient", "full", "behalf")

KNOWN_KEYS: tuple[SecretRule, ...] = (  # of a form that their owners gave them
    SecretRule("key", re.compile(_PRIVATE_KEY), ("private key",), _is_key_block),
    SecretRule(
        "key",
        re.compile(r"(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/(?P<secret>[\w/-]+)"),
        ("hooks.slack.com", "webhooks"),
        _is_drawn,
    ),
    SecretRule(
        "key",
        re.compile(rf"{_START}(?:{_TOKENS})"),
        ("-", "_", "akia", "asia", "aiza", "ya29.", "sg.", "eyj", "hvs.", "dapi", "atatt3", ":aa"),
        _is_drawn,
    ),
)

RULES: tuple[SecretRule, ...] = (
    KNOWN_KEYS[0],
    SecretRule("login", re.compile(r"(?<=://)(?P<secret>[^\s/<>\"'?#,]{1,400})(?=@)"), ("://",), _is_login),
    *KNOWN_KEYS[1:],
    SecretRule(
        "key",
        re.compile(r"(?i:authorization)[\"']?\s*[:=]\s*[\"']?\w+\s+(?P<secret>[A-Za-z0-9_.~+/=-]{6,})"),
        ("authorization",),
    ),
    SecretRule("key", re.compile(rf"{_SPELT_OUT}{_QUOTE}\s*[:=]\s*{_VALUE}"), ("pass", "pwd"), _is_value),
    SecretRule("key", re.compile(rf"{_ASSIGNED}{_QUOTE}\s*=\s*{_VALUE}"), _KEYED, _is_set),
    SecretRule("key", re.compile(rf"{_ASSIGNED}{_QUOTE}\s*:\s*{_VALUE}"), _KEYED, _is_token),
    SecretRule(
        "key", re.compile(rf"(?<![\w-])--[\w-]{{0,40}}(?:{_SPELT_OUT}|{_ASSIGNED})[ ]+{_VALUE}"), ("--",), _is_token
    ),
    SecretRule("key", re.compile(rf"(?<!\w){_ASSIGNED}\s+is\s+[\"']?{_SIMPLE}"), _KEYED, _is_no_word),
    SecretRule("key", re.compile(rf"(?i:\bbearer)[\"']?[\s:=]+[\"']?{_SIMPLE}"), ("bearer",), _is_no_word),
    SecretRule(
        "key",
        re.compile(rf"(?<!\w){_SPELT_OUT}\s+is\s+[\"']?(?P<secret>[^\s\"'<>]{{4,}})"),
        ("pass", "pwd"),
        _has_digit_or_mark,
    ),
    SecretRule("key", re.compile(r"(?i:\bpin)(?:\s*[:=]\s*|\s+is\s+)[\"']?(?P<secret>\d{4,12})(?![\w-])"), ("pin",)),
    SecretRule("key", re.compile(r"(?<![\w+/])[A-Za-z0-9+/]{40,}(?![\w+/])={0,2}"), _DIGITS, is_random_base64),
    SecretRule("key", re.compile(r"(?<!\w)[A-Za-z0-9_][A-Za-z0-9_+-]{31,}(?!\w)={0,2}"), _DIGITS, is_random),
    SecretRule(
        "mail",
        re.compile(r"(?<!\w)(?!git@[\w.-]+[:/])\w[\w.+'-]{0,63}(?:@|%40)[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?![\w-])"),
        ("@", "%40"),
    ),
    SecretRule(
        "user",
        re.compile(r"(?:/home/|/Users/|(?i:[a-z]:\\+users\\+))(?P<secret>[\w.-]+)"),
        ("/home/", "/users/", "\\users\\"),
        _is_person_folder,
    ),
    SecretRule(
        "iban",
        re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)"),
        _DIGITS,
        passes_iban,
    ),
    SecretRule(
        "card",
        re.compile(r"(?<![\w.-])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{4}|\d{4}([ -])\d{6}\2\d{5}|\d{13,19})(?![\w-]|\.\d)"),
        _DIGITS,
        passes_luhn,
    ),
    SecretRule(
        "phone", re.compile(r"(?<![\w.+-])(?:\+|00)[1-9](?:[ ./-]?\(?\d{1,5}\)?){2,7}(?![\w-])"), _DIGITS, _is_phone
    ),
    SecretRule("phone", re.compile(r"(?<![\w.)-])\(\d{2,5}\)[ ]?\d{3,4}[ -]?\d{3,5}(?![\w-])"), ("(",)),
    SecretRule(
        "phone",
        re.compile(r"(?<![\w./-])(?:\d{3}-\d{3}-\d{4}|\d{3}\.\d{3}\.\d{4}|0\d{2,4}[ /]\d{5,9})(?![\w-]|\.\d)"),
        _DIGITS,
    ),
    SecretRule("number", re.compile(r"(?<![\w.#/-])(?:\d{3}-\d{2}-\d{4}|\d{9,})(?![\w-]|\.\d)"), _DIGITS),
    SecretRule("name", _name(rf"(?:^|[.!?][ ]+){_GREETING}[ ,]+{_TITLE}?", _AFTER), _GREETED, is_name),
    SecretRule(
        "name",
        _name(rf"(?:^|[.!?][ ]+){_CLOSING}[ ,!.]*\n+[ \t]*", r"(?=[ \t.]*(?:\n|\Z))", "{0,2}"),
        _CLOSED,
        is_name,
    ),
    SecretRule("name", _name(rf"(?<!\w){_CLOSING}[,!]?[ ]+", r"(?=[ ]*[.!]?\s*\Z)"), _CLOSED, is_name),
    SecretRule("name", _name(r"^--[ ]?\n[ \t]*", r"(?=[ \t]*(?:\n|\Z))", "{0,2}"), ("--",), is_name),
    SecretRule(
        "name",
        _name(r"(?i:my name is|i am called|ich heiße|mein name ist)[ ]+", r"\b"),
        ("name is", "am called", "ich heisse", "name ist"),
        is_name,
    ),
    SecretRule(
        "name",
        _name(r"(?i:\bthis is|\bi['’]m|\bi am)[ ]+", r"(?=,?[ ](?:from|at|here)\b)"),
        (" from", " at", " here"),
        is_name,
    ),
    SecretRule(
        "name",
        _name(r"(?<!\w)(?:Mr|Mrs|Ms|Dr|Prof|Herrn?|Frau)\.?[ ]+", r"\b"),
        ("mr", "ms", "dr", "prof", "herr", "frau"),
        is_name,
    ),
    SecretRule(
        "name",
        _name(
            r"(?i:\b(?:customer|contact|client|patient|full[ _]?name|on behalf of))[\"']?[ ]*[:=]?[ ]*[\"']?",
            r"\b",
            "{1,2}",
        ),
        _NAMED,
        is_name,
    ),
)

KINDS = tuple(dict.fromkeys(rule.kind for rule in RULES))


_WORD = re.compile(r"[^\W_]+")
_LEARNT_FROM = 6  # characters of an id that is only digits or only letters; shorter ones hit too much else
_TOKEN = re.compile(r"\S+")
_KIND = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_ORDINARY_USERS = """
admin administrator account agent anonymous assistant client customer default demo developer employee engineer
example guest internal manager member nobody operator owner people person private production public robot runner
sandbox service staging support system tester testing unknown user username users viewer visitor worker
workspace
"""
_ROLES = frozenset(_ORDINARY_USERS.split())


class RedactionPattern(TypedDict):
    """A form of secrets, as a regular expression."""

    kind: str
    """The name in placeholders: lower-case words with hyphens, such as `customer-number`."""
    pattern: str
    """A regular expression of Python; of a group named `secret` only that is replaced."""


class RedactionFile(TypedDict, total=False):
    """Rules of a project for what is redacted."""

    patterns: list[RedactionPattern]
    """Forms of secrets, which are looked for before the built-in ones."""
    keep: list[str]
    """Texts that are never replaced."""
    without: list[str]
    """Built-in kinds that are not looked for."""


_FIELDS = tuple(RedactionFile.__annotations__)


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
        address everywhere. An empty value stays empty.
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
        """From now on replace a value wherever it occurs as whole words, for example the name of a user.

        Of several words only the whole is learnt. A single word is not learnt if it would hit other things: words of
        roles (admin, service) and the ordinary ones, what has less than 4 characters, and less than 6 if it is only
        digits or only letters.
        """
        words = value.split()
        plain = value.isalpha() or value.isdecimal()
        if (
            not words
            or len(value) < (_LEARNT_FROM if plain else 4)
            or value in self._keep
            or (len(words) == 1 and value.casefold() in self._ordinary)
        ):
            return
        if (first := _WORD.search(value)) is not None:
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
            if (start := word.start()) < done:
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
        token = _TOKEN.match(text, max(text.rfind(space, 0, start) for space in " \t\n") + 1)
        return token is not None and token.group().strip("\"'`(),.:;!?") in self._keep

    def _placeholder(self, kind: str, secret: str) -> str:
        self._replaced[kind] += 1
        if (placeholder := self._placeholders.get((kind, secret))) is None:
            self._distinct[kind] += 1
            placeholder = self._placeholders[kind, secret] = f"<{kind}-{self._distinct[kind]}>"
        return placeholder


def known_keys(text: str) -> Iterator[tuple[int, str]]:
    """Keys with a known form (`ghp_...`, a JWT, a private key): position and key, by rule."""
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
        InputError: it has another content, an expression is malformed or matches the empty text: all faults.
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
        Fault(Message("io.redaction-keep", got=text), path, line_of(lines, ("keep", i)))
        for i, text in enumerate(keep)
        if not isinstance(text, str) or not text
    ]
    if faults:
        raise InputError(faults)
    return (*custom, *(rule for rule in RULES if rule.kind not in without)), tuple(keep)


def _list(data: Mapping[str, Any], name: str, faults: list[Fault], path: Path | str) -> list[Any]:
    if (value := data.get(name)) is None or isinstance(value, list):
        return value or []
    faults.append(Fault(Message("io.field-type", name=name, expected="a list", got=value), path))
    return []


def _own_rule(entry: Any) -> SecretRule | str:
    """A rule of a user's, or what is wrong with it."""
    if not isinstance(entry, dict) or set(entry) != {"kind", "pattern"}:
        return f"expected {{kind, pattern}}, got {entry!r:.60}"
    kind, pattern = entry["kind"], entry["pattern"]
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return Message("io.redaction-kind", got=kind)
    try:
        compiled = re.compile(str(pattern), re.MULTILINE)
    except re.error as error:
        return Message("io.redaction-pattern", pattern=pattern, why=error)
    return Message("io.redaction-pattern-empty", pattern=pattern) if compiled.search("") else SecretRule(kind, compiled)


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
