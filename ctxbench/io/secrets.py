"""Find secret values in environments, headers, arguments and URLs, and hide them in texts.

Every such value is hidden in errors. In the definitions of tools only secrets are hidden, since ordinary values
(`production`) occur there by chance. A value is a secret if its name says so (`GITHUB_TOKEN`, `--pat`), or if it is
long and has a digit. Secrets that are known by their form only are handled by `ctxbench.io.redaction`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from ctxbench.io.documents import dump_json

_INSIDE = 6  # bytes from which a text is looked for inside of more in base64; a shorter one occurs by chance
_LEFT = (
    "",
    "/",
    "!'()*",
    ";,/?:@&=+$!'()*#",
)  # what Python (quote_plus, quote) and JavaScript (two ways) do not escape
_ESCAPE = re.compile("%[0-9A-F]{2}")


def encoded(text: str) -> set[str]:
    """The forms of a text that differ from it.

    Percent-encoded (the characters that must be, or all), in hexadecimal digits, and in base64 of both alphabets, with
    and without padding. Texts of six bytes or more also as they look inside of more that is in base64, such as the
    password in `user:password`. Empty in, empty out.
    """
    data = text.encode("utf-8", "surrogatepass")  # an environment may hold half a character
    percent = {quote(data, safe=left) for left in _LEFT} | {"".join(f"%{byte:02X}" for byte in data)}
    percent |= {form.replace("%20", "+") for form in percent}
    percent |= {_ESCAPE.sub(lambda escape: escape[0].lower(), form) for form in percent}
    return {*percent, data.hex(), data.hex().upper(), *_base64(data)} - {text, ""}


def _base64(data: bytes) -> Iterator[str]:
    """In base64; bytes in front of it shift its bits by none, two or four.

    Of what is shifted the first character is left out, which holds bits of the byte in front, too.
    """
    for before in range(3 if len(data) >= _INSIDE else 1):
        text = base64.b64encode(bytes(before) + data).decode("ascii")
        start, last = (8 * before + 5) // 6, 8 * (before + len(data)) // 6  # characters that hold bits of it alone
        for end in (len(text), len(text.rstrip("=")), *([last] if len(data) >= _INSIDE else [])):
            yield text[start:end]
            yield text[start:end].replace("+", "-").replace("/", "_")


Named: TypeAlias = tuple[str, str]  # a name and its value: a variable, a header, a flag

HIDDEN = "<hidden>"
_IN_ERRORS = 4  # characters from which a value is hidden anywhere in an error; a shorter one only as a whole word
_IN_TOOLS = 4  # from which a secret is hidden in tool definitions; a shorter one occurs by chance
_ANYWHERE = 6  # from which it is hidden inside of words, too, unless it consists of words itself
_LONG = 16  # from which a value with a digit is taken for a secret, whatever its name

_NAMES = re.compile(  # in a name in lower case with _ around and between its words
    r"key(?!word|board)|token(?!s|iz)|secret|passw|passphrase|pass_|credential|cookie|auth(?!or(?!i))"
    r"|_(?:pat|pin|pwd|sig|signature)_"
)
_ABOUT = re.compile(r"_(?:type|mode|method|format|enabled|required|limit|ur[li]|path|file|dir|timeout|ttl)_$")
_ORDINARY = {"apikey", "authorization", "basic", "bearer", "digest", "false", "none", "null", "token", "true"}
_WORDS = re.compile(r"[^\W\d_]{1,15}(?:[\s_.-]+[^\W\d_]{1,15})*")
_WHOLE = r"(?<![^\W_]){}(?![^\W_])"
_WHOLE_NAME = r"(?<!\w){}(?!\w)"  # so that `issues` is not found in `search_issues`
_PIECE = re.compile(r"""[^\s"'{}\[\](),;=:&]+""")
_URL = re.compile(r"\b[A-Za-z][\w+.-]*://\S+")
_BASIC = re.compile(r"\bBasic\s+([\w+/-]+=*)", re.IGNORECASE)
_ASSIGNED = re.compile(r"([-\w.]+)\s*[=:]\s*(.+)", re.DOTALL)
_AUTHORITY = re.compile(r"(?:\[[^\]]*\]|[^:@\[\]]*)(?::\d*)?")  # of a URL, without user and password
_OPAQUE = re.compile(r"[A-Za-z0-9]{16}")
_USER = re.compile(r"(?<=://)[^\s/?#'\"<>]+@")
_SETTING = re.compile(r"([?&]([\w.%-]+)=)[^\s&#'\"<>]+")
_FIELDS_OF_NAMES = ("required", "type", "format", "$ref", "$schema")  # of a schema; their texts are no prose


class Secrets:
    """Values that are replaced by `<hidden>` wherever they turn up.

    Also as JSON, Python or a URL would write them, in base64, alone or as a part of more (`user:value` of `Basic`), and
    in hexadecimal digits. Of a drawn secret (a key, not words) also any 16 characters in sequence that have a digit.
    """

    def __init__(self, values: Iterable[Named]) -> None:
        """Take values by name; URLs and `Basic` credentials in them are split into their parts."""
        named = [pair for value in values for pair in (value, *_inside(value[1]))]
        pieces = {
            piece for _, value in named for piece in _pieces(value) if piece == value or piece.lower() not in _ORDINARY
        }
        secret = {piece for name, value in named for piece in _secret_pieces(name, value)}
        pairs = {f"{user}:{short}" for short in secret if len(short) < _ANYWHERE for user in pieces}  # of `Basic`
        all_forms, strict = _written(pieces), _written(secret)
        words = {value for value in strict if len(value) < _ANYWHERE or _WORDS.fullmatch(value)}
        prose = {value for value in words if _WORDS.fullmatch(value)}
        self._errors = [
            *_encoded(pieces | pairs),
            *_patterns(
                ("{}", (value for value in all_forms if len(value) >= _IN_ERRORS)),
                (_WHOLE, (value for value in all_forms if len(value) < _IN_ERRORS)),
            ),
        ]
        self._anywhere = [*_encoded(secret | pairs), *_patterns(("{}", strict - words))]
        self._tools = [*self._anywhere, *_patterns((_WHOLE, words - prose), (_WHOLE_NAME, prose))]
        drawn = {segment for name, value in named for segment in _drawn(name, value)}
        parts = {segment[start : start + _LONG] for segment in drawn for start in range(len(segment) - _LONG + 1)}
        self._parts = set(filter(_has_digit, parts))

    def hide(self, text: str) -> str:
        """The text of an error without any of the values."""
        return self._without_parts(_without(self._errors, text))

    def hide_in(self, value: Any) -> Any:
        """A JSON value without secrets in its texts and numbers; names of fields stay, see `in_names`."""
        if isinstance(value, str):
            return self._without_parts(_without(self._tools, value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return HIDDEN if any(pattern.fullmatch(str(value)) for pattern in self._tools) else value
        if isinstance(value, list):
            return [self.hide_in(entry) for entry in value]
        return {key: self._hide_field(key, entry) for key, entry in value.items()} if isinstance(value, dict) else value

    def _hide_field(self, key: str, value: Any) -> Any:
        if key in _FIELDS_OF_NAMES and isinstance(value, str):
            return _without(self._anywhere, value)
        if key in _FIELDS_OF_NAMES and isinstance(value, list):
            return [self._hide_field(key, entry) for entry in value]
        return self.hide_in(value)

    def in_names(self, tool: Mapping[str, Any]) -> str | None:
        """The first name, of the tool or of a field in it, that holds a secret; such names cannot be kept.

        A secret of words or of few characters, or a part of one, is not looked for: names hold those by chance.
        """
        stack: list[Any] = [tool]
        while stack:
            value = stack.pop()
            if isinstance(value, Mapping):
                names: list[str] = [*value, *([tool["name"]] if value is tool else [])]
                for name in names:
                    if any(pattern.search(name) for pattern in self._anywhere):
                        return name
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)
        return None

    def _without_parts(self, text: str) -> str:
        """The text without long parts of secrets."""
        shown, end = [], 0  # up to where the text is done
        for start in range(len(text) - _LONG + 1 if self._parts else 0):
            if text[start : start + _LONG] in self._parts:
                shown += [text[end:start], HIDDEN] if start >= end else []
                end = start + _LONG
        return "".join([*shown, text[end:]])


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or flag of this name holds a secret; `TOKEN_URL` and `MAX_TOKENS` do not."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = "_" + re.sub(r"[\W_]+", "_", words).strip("_").lower() + "_"
    return _NAMES.search(words) is not None and _ABOUT.search(words) is None


def in_arguments(arguments: Iterable[str]) -> list[Named]:
    """What looks like a secret among a command's arguments: `--token X`, `--api-key=X`, `-e TOKEN=X`, `-H 'A: X'`."""
    secrets: list[Named] = []
    flag = ""
    for argument in arguments:
        if is_secret_name(flag) and not argument.startswith("-"):
            secrets.append((flag, argument))
        secrets += _assigned(argument, header=flag in ("-H", "--header", "--headers"))
        secrets += [pair for url in _URL.findall(argument) for pair in in_url(url)]
        flag = argument if argument.startswith("-") and "=" not in argument else ""
    return secrets


def shown_arguments(arguments: Sequence[str]) -> list[str]:
    """A command's arguments as they may be shown, with `<hidden>` for what `in_arguments` finds, and no known keys."""
    readable: list[str] = Secrets(in_arguments(arguments)).hide_in(list(arguments))
    return [_masked(argument) for argument in readable]


def _assigned(argument: str, *, header: bool) -> list[Named]:
    """`NAME=value` or `Name: value`, perhaps after a flag (`--env=NAME=value`), if the name is that of a secret."""
    match = _ASSIGNED.fullmatch(argument)
    while match is not None:
        if header or is_secret_name(match[1]):
            return [(match[1], match[2])]
        match = _ASSIGNED.fullmatch(match[2])
    return []


def in_url(url: str) -> list[Named]:
    """What may be a secret in a URL: user and password, values of its query, long parts of its path."""
    try:
        parts = urlsplit(url)
        user = (parts.username, parts.password)
    except ValueError:
        return [("url", url)]
    fields = [("user", user[0] or ""), ("password", user[1] or ""), ("fragment", parts.fragment)]
    fields += [(name, value) for name, _, value in (pair.partition("=") for pair in parts.query.split("&"))]
    fields += [("path", segment) for segment in parts.path.split("/") if len(segment) >= _LONG]
    return list(dict.fromkeys((name, form) for name, value in fields if value for form in (value, unquote(value))))


def secrets_in_url(url: str) -> list[Named]:
    """Of `in_url` what is a secret by its name or its shape, and not another setting such as `model=small`."""
    return [
        (name, value)
        for name, value in in_url(url)
        if is_secret_name(name) or (_looks_drawn(value) if name == "path" else _secret_pieces(name, value))
    ]


def shown_url(url: str) -> str:
    """A URL, right or wrong, as it may be shown: scheme, host and path, with `<hidden>` for what is a secret in it.

    User and password, query and fragment are left out.
    """
    location = re.split("[?#]", url, maxsplit=1)[0]
    scheme, colon, location = location.rpartition("://")
    authority, slash, path = location.partition("/")
    if not _AUTHORITY.fullmatch(authority):  # a password may have an unescaped slash
        authority, slash, path = location.rpartition("@")[2].partition("/")
    parts = (HIDDEN if _looks_drawn(part) else part for part in path.split("/"))
    return f"{scheme}{colon}{authority}{slash}{'/'.join(parts)}"


def shown_text(text: str) -> str:
    """A message as it may be shown, whatever it quotes: without what is a secret by form, or by name in a URL."""
    text = _USER.sub("", text)
    text = _SETTING.sub(lambda match: f"{match[1]}{HIDDEN}" if is_secret_name(match[2]) else match[0], text)
    return _masked(text)


def _inside(value: str) -> Iterator[Named]:
    """The parts of URLs, and user and password of `Basic` credentials, in a value."""
    for url in _URL.findall(value):
        yield from in_url(url)
    for pair in _BASIC.findall(value):
        try:
            text = base64.b64decode(pair + "=" * (-len(pair) % 4), altchars=b"-_").decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue
        user, colon, password = text.partition(":")
        if colon:
            yield from (("user", user), ("password", password), ("password", text))


def _pieces(value: str) -> set[str]:
    """A value, its lines, its words, and what of it may be a secret on its own."""
    return {value, value.strip(), *value.splitlines(), *value.split(), *filter(_has_digit, _PIECE.findall(value))}


def _secret_pieces(name: str, value: str) -> set[str]:
    """What of a value is a secret."""
    if is_secret_name(name):
        return {
            piece for piece in _pieces(value) if len(piece) >= _IN_TOOLS and piece.strip(":").lower() not in _ORDINARY
        }
    return {
        piece for piece in _pieces(value) if len(piece) >= _LONG and _has_digit(piece) and not re.search(r"\s", piece)
    }


def _drawn(name: str, value: str) -> Iterator[str]:
    """What of a value was drawn by chance; not the host of a URL, whose other parts `in_url` has."""
    is_secret = is_secret_name(name)
    for piece in _secret_pieces("", _URL.sub(" ", value)):
        is_path = not is_secret or piece.startswith(("/", "~", "."))  # base64 has slashes, too
        for segment in re.split("[/@]", piece) if is_path else [piece]:
            if is_secret or _looks_drawn(segment):
                yield segment


def _looks_drawn(part: str) -> bool:
    """Whether a part of a path is a key, rather than words such as `context-selector-v2`."""
    return _has_digit(part) and _OPAQUE.search(part) is not None


def _has_digit(text: str) -> bool:
    return len(text) >= _ANYWHERE and any(char.isdigit() for char in text)


def _written(values: Iterable[str]) -> set[str]:
    """Values unchanged, and as JSON and Python write them."""
    form_sets = ({value, value.strip(), dump_json(value)[1:-1], repr(value)[1:-1]} for value in values)
    return {form for forms in form_sets for form in forms if form}


def _encoded(values: Iterable[str]) -> list[re.Pattern[str]]:
    """Patterns of values in each encoding; a form of few characters is found only as a whole word."""
    forms = {value: encoded(value) for value in values if len(value) >= _IN_TOOLS}
    long = {form for value, value_forms in forms.items() if len(value) >= _ANYWHERE for form in value_forms}
    return _patterns(("{}", long), (_WHOLE, {form for value_forms in forms.values() for form in value_forms} - long))


def _patterns(*groups: tuple[str, Iterable[str]]) -> list[re.Pattern[str]]:
    """One pattern for each group that has values, the longest first so that none is hidden in half."""
    patterns = []
    for around, values in groups:
        if ordered := sorted(values, key=lambda value: (-len(value), value)):
            patterns.append(re.compile(around.replace("{}", f"(?:{'|'.join(map(re.escape, ordered))})")))
    return patterns


def _without(patterns: Iterable[re.Pattern[str]], text: str) -> str:
    for pattern in patterns:
        text = pattern.sub(HIDDEN, text)
    return text


def _masked(text: str) -> str:
    from ctxbench.io.redaction import masked

    return masked(text)
