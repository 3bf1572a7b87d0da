"""Keys in captured items: where they stand, and what hiding leaves."""

from __future__ import annotations

from ctxbench.catalogs.snapshots import hidden, key_places
from ctxbench.io.redaction import KNOWN_KEYS, Redactor
from ctxbench.model.items import Item
from tests.planted import GITHUB, PEM, STRIPE

SCHEMA = {"properties": {"token": {"default": GITHUB, "examples": [STRIPE, 3, None]}}}


def test_a_place_is_a_line_of_the_file_or_a_field_of_the_item() -> None:
    rule = Item(type="rule", name="docs/a b.md", text=f"One.\n\nUse {GITHUB}.\n{PEM}")
    assert list(key_places(rule, line=5)) == [
        "docs/a b.md, line 7 (ghp_…, 40 characters)",
        f"docs/a b.md, line 8 (-----BEGIN RSA PRIVATE KEY-----…, {len(PEM)} characters)",
    ]
    tool = Item(type="tool", server="git", name="log", description=f"Not {STRIPE}", schema=SCHEMA)
    assert list(key_places(tool)) == [
        f"tool:git:log, its description (sk_l…, {len(STRIPE)} characters)",
        "tool:git:log, its schema (ghp_…, 40 characters)",
    ]
    assert list(key_places(Item(type="tool", name="log", description="Shows it."))) == []


def test_names_are_looked_at_last() -> None:
    item = Item(type="tool", name=GITHUB, schema={"properties": {STRIPE: {}}}, metadata={"hint": GITHUB})
    assert [place.partition(", ")[2].partition(" (")[0] for place in key_places(item)] == [
        "its metadata", "its names of fields"
    ]  # fmt: skip
    assert next(iter(key_places(Item(type="tool", name=GITHUB)))).endswith("its name (ghp_…, 40 characters)")


def test_hiding_puts_the_same_placeholder_in_place_of_the_same_key() -> None:
    redactor = Redactor(KNOWN_KEYS)
    one = Item(type="rule", name="a", text=f"{GITHUB} and {STRIPE}", description=GITHUB, title=STRIPE)
    assert hidden(one, redactor) == Item(
        type="rule", name="a", text="<key-1> and <key-2>", description="<key-1>", title="<key-2>"
    )
    tool = Item(type="tool", name="b", schema=SCHEMA, metadata={"sent": [GITHUB], "n": 1})
    assert hidden(tool, redactor) == Item(
        type="tool",
        name="b",
        schema={"properties": {"token": {"default": "<key-1>", "examples": ["<key-2>", 3, None]}}},
        metadata={"sent": ["<key-1>"], "n": 1},
    )


def test_what_holds_no_key_stays_as_it_is() -> None:
    plain = Item(type="tool", name="a", description="mail anna@corp.example, password: hunter2", schema={"x": 1})
    assert hidden(plain, Redactor(KNOWN_KEYS)) == plain
