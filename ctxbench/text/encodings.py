"""A text as it looks where it is encoded: with percent signs as in URLs, in base64, in hexadecimal digits."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from urllib.parse import quote

_INSIDE = 6  # bytes from which a text is looked for inside of more in base64; a shorter one stands there by chance
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
        ends = (len(text), len(text.rstrip("=")), *([last] if len(data) >= _INSIDE else []))
        for end in ends:
            yield text[start:end]
            yield text[start:end].replace("+", "-").replace("/", "_")
