"""Where sentences end. The first cases are those that other programs were tried on (see the module's source note)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.search.chunking import JS_WHITESPACE, closed_spans, sentences

TRIED_ON_OTHERS = [
    ["Find a flight to Rome.", "Then book a hotel!"],
    ["find a flight to rome.", "then book a hotel."],
    ["Ask Dr. Smith about it.", "He knows."],
    ["Use tools, e.g. a linter, i.e. ruff.", "Then commit."],
    ["Mail J. R. R. Tolkien about the U.S. office.", "It moved."],
    ["Pay 3.50 euros to acct. 5.", "Then log it."],
    ["Upgrade to v2.4.1.", "Test it."],
    ["Open main.py and config.yaml.", "Run them."],
    ["See https://example.org/a.b?c=d.", "Save the page."],
    ["Wait... what is this?", "Tell me."],
    ["Well… maybe not.", "Stop."],
    ['He asked "Where is it? I need it." and left.', "Find it."],
    ['Post "Hello. How are you?" to the channel.', "Pin it."],
    ['She said "Stop."', "Then she left."],
    ["Really?!", "Yes."],
    ["Meet at 5 p.m. tomorrow.", "Bring cake."],
    ["Meet at 5 p.m.", "Bring cake."],
    ["Buy milk, eggs etc. for the party.", "Invite Ann."],
    ["Acme Inc. is late.", "Mail Acme Inc.", "They should pay."],
    ["The file (see sec. 3. It is old.) is gone.", "Restore it."],
    ["Is it No. 5 or Fig. 2?", "Check."],
    ["Deploy to node.js.", "Done?"],
    ["Who are you?", "and what do you do?"],
    ["It cost 5.", "Next one is free."],
    ["1. Open the file.", "2. Close it."],
]
MORE = [
    ["Is vitamin C. Ann's favourite?"],  # an initial before a name: accepted
    ["Choose plan B.", "Then tell me."],
    ["I do so, and so do I.", "Good."],
    ["The U.S.", "We go there."],
    ["He lives in the U.S. Virgin Islands."],
    ["Dr. No. 5 is out?", "No.", "I said no."],
    ["It was in Jan. 2024.", "Not in Feb."],
    ["Compare A vs. B.", "Which is better?"],
    ["Run `a. B` and `c! D`.", "Report."],
    ["Use 'The End. Fin' as the title.", "Save."],
    ["Don't move the users' data.", "It's the dogs' home."],
    ["Say «Bonjour. Ça va?» to her.", "Wave."],
    ["“Go. Now!” he said.", "We went."],
    ["Look at [the docs. Part 2] first.", "Then ask."],
    ["Stop.)", "Next."],
    ["*Bold ends.*", "Plain."],
    ["Hm...", "Right."],
    ["What?!?!", "Yes!!!", "Go"],
    ["Version 2.", "It is out."],
    ["Set x=0.5, y=.7.", "Plot."],
    ["Mail a.b@c.org, then see www.x.org/y.", "Wait."],
    ["Path is C:\\dir\\file.txt.", "Open it."],
    ["Python 3.11.4 is out.", "Update."],
    ["Rate 1,234.56.", "Round it."],
    ["Ring at 10 a.m. or 3 p.m. on Monday."],
    ["Smith et al. 2019 shows it.", "Read it."],
    ["z.B. morgen oder usw. später.", "Danke."],
    ["no end"],
    ["."],
]


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text, 0, len(text))]


@pytest.mark.parametrize("parts", [*TRIED_ON_OTHERS, *MORE], ids=lambda parts: parts[0])
def test_a_text_is_split_into_its_sentences(parts):
    assert split(" ".join(parts)) == parts
    assert split("\r\n ".join(parts) + " ") == parts


def test_an_ideographic_stop_needs_no_blank():  # the first line is one of the cases tried on others, too
    assert split("你好。请订票。") == ["你好。", "请订票。"]
    assert split("何？！「はい。」と言う。") == ["何？！", "「はい。」", "と言う。"]


def test_a_text_that_is_one_quotation_is_split_all_the_same():
    assert split('"I need news. Find a hotel, too."') == ['"I need news.', 'Find a hotel, too."']
    assert split("(It is late. Go home.)") == ["(It is late.", "Go home.)"]
    assert split('"(A b. C d.)"') == ['"(A b.', 'C d.)"']


def test_what_is_opened_and_never_closed_protects_nothing():
    assert split('The 5" disk is full. Clean it.') == ['The 5" disk is full.', "Clean it."]
    assert split("See (a. Then go.") == ["See (a.", "Then go."]
    far = f'"{"x" * 301}. Next."'
    assert split(f"{far} End.") == [far.split(" ", maxsplit=1)[0], 'Next."', "End."]


def test_the_places_are_those_of_the_text_between_the_ends():
    text = "No. One two. Three. No."
    assert [text[a:b] for a, b in sentences(text, 4, 18)] == ["One two.", "Three"]
    assert list(sentences("  \n ", 0, 4)) == []
    assert list(sentences("a", 0, 0)) == []


def test_closed_spans_do_not_nest_and_do_not_cover_all():
    assert closed_spans('a "b (c)" (d)', 0, 13) == [(2, 9), (10, 13)]
    assert closed_spans('"a (b)"', 0, 7) == [(3, 6)]
    assert closed_spans("", 0, 0) == []


PIECES = st.sampled_from(
    [
        *("a", "Bc", " ", "\n", "\t", ". ", ".", "...", "… ", "! ", "?", '"', "'", "(", ")", "`", "“", "”", "Dr"),
        *("e.g", "1", "é", "。", "\ud83d", "🚀", "\ufeff", "[", "]", "«", "»", "I", "Then "),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60))


@settings(max_examples=400, deadline=None, database=None, derandomize=True)
@given(text=TEXTS)
def test_sentences_hold_everything_but_the_white_space_between_them(text):
    found = list(sentences(text, 0, len(text)))
    last = 0
    for start, end in found:
        assert not text[last:start].strip(JS_WHITESPACE)
        assert start < end
        assert text[start] not in JS_WHITESPACE
        assert text[end - 1] not in JS_WHITESPACE
        last = end
    assert not text[last:].strip(JS_WHITESPACE)


@pytest.mark.parametrize(
    "text",
    [
        "." * 1_000_000,
        ". " * 500_000,
        '"' * 1_000_000,
        '" (' * 300_000,
        "“a" * 500_000,
        "x" * 1_000_000 + ". Y",
        "a" + " " * 1_000_000 + ". B",
        "Dr. Ann e.g. ... U.S. " * 45_000,
        "(" * 1_000_000,
        " '" * 500_000,
    ],
    ids=lambda text: text[:8],
)
def test_a_megabyte_of_anything_takes_no_quadratic_time(text):
    assert sum(1 for _ in sentences(text, 0, len(text))) >= 1
