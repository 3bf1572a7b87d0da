"""Forms of an encoded text, held against what the standard library writes."""

from __future__ import annotations

import base64
from urllib.parse import quote, quote_plus

import pytest

from ctxbench.io.secrets import encoded

SECRET = "a>b?c d/é+1"


@pytest.mark.parametrize(
    "written",
    [
        quote(SECRET), quote(SECRET, safe=""), quote_plus(SECRET), "a%3eb%3fc%20d%2f%c3%a9%2b1",
        "".join(f"%{byte:02X}" for byte in SECRET.encode()), SECRET.encode().hex(), SECRET.encode().hex().upper(),
        base64.b64encode(SECRET.encode()).decode(), base64.urlsafe_b64encode(SECRET.encode()).decode(),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)  # fmt: skip
def test_every_usual_form_is_there(written: str) -> None:
    assert written in encoded(SECRET)


@pytest.mark.parametrize("before", ["", "u", "me", "you", "u:", "me@corp.example:"])
@pytest.mark.parametrize("after", ["", ":", ":x", "\n", "more"])
@pytest.mark.parametrize("code", [base64.b64encode, base64.urlsafe_b64encode])
def test_inside_of_more_in_base64_all_but_the_shared_characters_are_there(before, after, code) -> None:  # type: ignore[no-untyped-def]
    text = code(f"{before}{SECRET}{after}".encode()).decode()
    longest = max((form for form in encoded(SECRET) if form in text), key=len)
    assert len(longest) >= len(SECRET.encode()) * 8 // 6 - 1


def test_a_short_text_is_looked_for_alone_only() -> None:
    assert {form for form in encoded("pass") if "cGFzcw" in form} == {"cGFzcw", "cGFzcw=="}
    assert not any(form in base64.b64encode(b"you:pass").decode() for form in encoded("pass"))


def test_a_plain_text_is_not_its_own_form() -> None:
    assert "plain" not in encoded("plain")
    assert encoded("") == set()
    assert "%ED%A0%80" in encoded("\ud800")  # an environment may hold half a character
