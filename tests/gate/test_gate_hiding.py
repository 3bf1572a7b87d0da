"""Ways to pass a change that is worse: each is judged worse alone, and passes neither hidden nor with a looser gate."""

from __future__ import annotations

import json
import shutil

import pytest

from ctxbench.gate.baseline_rows import MANIFEST, manifest_hash
from ctxbench.gate.gate import check_gate
from ctxbench.gate.results import Verdict
from tests.gate.gate_desk import WORDS, Desk, words_of

LOOSE = {
    "metrics": ["recall"],
    "tolerance": {"recall": 0.9, "tokens": "90%"},
    "max_lost_required": 100_000,
    "confidence": 0.999,
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    return Desk.make(tmp_path_factory.mktemp("hiding"))


# ------------------------------------------------------------------------------------------ changes that are worse

GARBLED = [f"tool:desk:t{n:02}" for n in range(5)]
HARD = [
    f"q{n:02}" for n in (0, 1, 2, 3, 4, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 33, 34, 35, 36, 37)
]  # need a GARBLED
FORBIDDEN = "tool:desk:t15"


def shorter(desk):
    """Offer one item in place of six: every query loses one of its two."""
    desk.file(lambda file: file["selectors"][0]["set"].update(n=1))


def garbled(desk):
    """Take the words out of five tools that requests name."""
    desk.items(GARBLED, description="Nothing.")


def removed(desk):
    """Take out five tools that requests require."""
    desk.rows("corpus.jsonl", lambda row: [] if row["_id"] in GARBLED else [row])


def longer(desk):
    """Make every tool half as long again."""
    desk.rows("corpus.jsonl", lambda row: [row | {"description": f"{row['description']} {'Office desk. ' * 3}"}])


def forbidden(desk):
    """Offer to one query what a pin forbids: it has a word of the request now."""
    desk.items([FORBIDDEN], description=f"{words_of(15)} Office5.")


def wide(desk):
    """Offer twelve items in place of six: a pin's item among them, and twice the tokens."""
    desk.file(lambda file: file["selectors"][0]["set"].update(n=20))


PLANTS = (shorter, garbled, removed, longer, forbidden, wide)

# ------------------------------------------------------------------------------------------ ways to hide them


def copies(desk, suffix="b"):
    """Add tools with the words that the garbled ones had."""
    new = [{"_id": f"{item}{suffix}", "type": "tool", "description": words_of(n)} for n, item in enumerate(GARBLED)]
    desk.rows("corpus.jsonl", lambda row: [row, *(new if row["_id"] == "tool:desk:t19" else [])])


def relabel(desk, name):
    """Label other items in place of the garbled ones."""
    desk.labels(lambda query, item, grade: [(query, name(item) if item in GARBLED else item, grade)])


def copies_labelled(desk):
    copies(desk)
    relabel(desk, lambda item: f"{item}b")


def look_alikes(desk):
    copies(desk, "%D0%B0")  # a Cyrillic letter
    relabel(desk, lambda item: f"{item}%D0%B0")


def two_copies_forbidden(desk):
    words = words_of(15)
    desk.items([FORBIDDEN], description="Nothing.")
    new = [{"_id": f"{FORBIDDEN}{suffix}", "type": "tool", "description": words} for suffix in "bc"]
    desk.rows("corpus.jsonl", lambda row: [row, *(new if row["_id"] == "tool:desk:t19" else [])])


def renamed_forbidden(desk):
    desk.rows("corpus.jsonl", lambda row: [row | {"_id": f"{FORBIDDEN}b"} if row["_id"] == FORBIDDEN else row])
    desk.labels(lambda query, item, grade: [(query, f"{FORBIDDEN}b" if item == FORBIDDEN else item, grade)])


def split_in_two(desk):
    copies(desk, "_read")
    copies(desk, "_write")
    desk.labels(
        lambda query, item, grade: [
            (query, f"{item}_{'read' if query < 'q20' else 'write'}" if item in GARBLED else item, grade)
        ]
    )


def declared_renames(desk):
    """The card says that what is gone is now called as an item that is there."""
    renames = {item: f"tool:desk:t{n + 10}" for n, item in enumerate(GARBLED)}
    desk.card(renames=renames)
    relabel(desk, lambda item: renames[item])


def without_labels(desk):
    desk.labels(lambda query, item, grade: [] if item in GARBLED else [(query, item, grade)])


def needs_nothing(desk):
    desk.labels(lambda query, item, grade: [] if query in HARD else [(query, item, grade)])
    desk.queries(HARD, needs="nothing")


def alternatives(desk):
    desk.labels(
        lambda query, item, grade: (
            [(query, item, grade, "any")] if item in GARBLED else [(query, item, grade, "any" if query in HARD else "")]
        )
    )


def easy_texts(desk):
    desk.rows("queries.jsonl", lambda row: [row | {"text": "tool desk"} if row["_id"] in HARD else row])


def exchanged_ids(desk):
    """Hard queries go by the ids of others."""
    other = {f"q{n:02}": f"q{(n + 5) % 40:02}" for n in range(40)}
    desk.rows("queries.jsonl", lambda row: [row | {"_id": other[row["_id"]]}])
    desk.labels(lambda query, item, grade: [(other[query], item, grade)])


def without_hard_queries(desk):
    desk.rows("queries.jsonl", lambda row: [] if row["_id"] in HARD else [row])
    desk.labels(lambda query, item, grade: [] if query in HARD else [(query, item, grade)])


def another_split(desk):
    desk.queries(HARD, split="tuning")
    labels = desk.data / "qrels" / "test.tsv"
    shutil.copy(labels, labels.with_name("tuning.tsv"))
    for path, hard in ((labels, False), (labels.with_name("tuning.tsv"), True)):
        first, *lines = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("".join([first, *(line for line in lines if (line[:3] in HARD) is hard)]), "utf-8")
    desk.file(lambda file: file.update(split="test"))


def easy_queries(desk):
    """Eighty queries more that nothing fails."""
    new = [f"n{n:02}" for n in range(80)]
    rows = [{"_id": name, "text": f"{WORDS[10]} office", "split": "test"} for name in new]
    desk.rows("queries.jsonl", lambda row: [row, *(rows if row["_id"] == "q39" else [])])
    more = [(name, "tool:desk:t10", "2") for name in new]
    desk.labels(
        lambda query, item, grade: [(query, item, grade), *(more if query == "q00" and item.endswith("t00") else [])]
    )


def prices_of_zero(desk):
    prices = {f"tool:desk:t{n:02}": 0 for n in range(20)}
    path = desk.folder / "prices.json"
    path.write_text(json.dumps(prices))
    desk.file(lambda file: file.update(tokens=f"file:{path}"))


def answers_and_labels(desk):
    """What is offered now is what is required."""
    relabel(desk, lambda item: f"tool:desk:t{int(item[-1]) + 10}")


def baseline_line(desk, file, old, new, *, digests=False):
    """Edit what a file of the baseline says; with its digest and that of the manifest, if asked."""
    path = desk.baseline / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    if digests:
        head = json.loads((desk.baseline / MANIFEST).read_text("utf-8"))
        head["hash"] = manifest_hash(head)
        (desk.baseline / MANIFEST).write_text(json.dumps(head), "utf-8")


def edit_head(desk, change):
    """Edit the manifest of the baseline, with its digest."""
    head = json.loads((desk.baseline / MANIFEST).read_text("utf-8"))
    change(head)
    head["hash"] = manifest_hash(head)
    (desk.baseline / MANIFEST).write_text(json.dumps(head), "utf-8")


def pins(desk, change):
    """Change the pins of the gate file."""
    desk.file(lambda file: file["gate"].update(pins=change(*file["gate"]["pins"])))


WAYS = {
    # items
    "copies of what is lost": (garbled, copies),
    "copies are labelled": (garbled, copies_labelled),
    "look-alike ids are labelled": (garbled, look_alikes),
    "a tool is split in two": (removed, split_in_two),
    "a tool is split in two, and the old one stays": (garbled, split_in_two),
    "the card says that what is gone was renamed": (removed, declared_renames),
    "what is lost is disabled": (garbled, lambda desk: desk.items(GARBLED, enabled=False)),
    "what is lost is sent with every request": (garbled, lambda desk: desk.items(GARBLED, include="always")),
    "what is lost is by hand only": (garbled, lambda desk: desk.items(GARBLED, include="manual")),
    "copies of what is forbidden": (wide, two_copies_forbidden),
    "what is forbidden is renamed": (wide, renamed_forbidden),
    # labels
    "labels go with what is lost": (removed, without_labels),
    "labels of what is garbled are dropped": (garbled, without_labels),
    "labels are lowered": (
        garbled,
        lambda desk: desk.labels(lambda query, item, _: [(query, item, "1" if item in GARBLED else "2")]),
    ),
    "hard queries need nothing": (garbled, needs_nothing),
    "one of two is enough": (garbled, alternatives),
    "labels follow the answers": (garbled, answers_and_labels),
    # queries
    "hard queries are deleted": (garbled, without_hard_queries),
    "hard queries are in another split": (garbled, another_split),
    "hard queries are labelled in part": (garbled, lambda desk: desk.queries(HARD, labelled="partly")),
    "hard queries ask for something easy": (garbled, easy_texts),
    "hard queries exchange their ids": (garbled, exchanged_ids),
    "hard queries hold what is lost": (
        garbled,
        lambda desk: desk.queries(HARD, session=[{"id": item} for item in GARBLED]),
    ),
    "hard queries may get few items": (
        garbled,
        lambda desk: desk.queries(HARD, available=[f"tool:desk:t{n:02}" for n in range(19)]),
    ),
    "easy queries are added": (garbled, easy_queries),
    "all queries are of one group": (longer, lambda desk: desk.queries(None, group="all")),
    "a sample is asked": (garbled, lambda desk: desk.file(lambda file: file.update(sample=30))),
    # prices
    "items cost nothing": (longer, prices_of_zero),
    "another counter": (longer, lambda desk: desk.file(lambda file: file.update(tokens="o200k"))),
    # the gate file
    "the selector is renamed": (shorter, lambda desk: desk.file(lambda file: file["selectors"][0].update(name="new"))),
    "tolerances are raised": (shorter, lambda desk: desk.set(tolerance={"completeness": 0.99, "recall": 0.99})),
    "tolerances are shares": (shorter, lambda desk: desk.set(tolerance={"completeness": "99%", "recall": "99%"})),
    "more may be lost": (garbled, lambda desk: desk.set(max_lost_required=1_000)),
    "metrics are dropped": (longer, lambda desk: desk.set(metrics=["recall"], tolerance=None)),
    "confidence is raised": (longer, lambda desk: desk.set(confidence=0.999)),
    "tokens may double": (longer, lambda desk: desk.set(tolerance={"tokens": "99%"})),
    "a pin is taken out": (forbidden, lambda desk: pins(desk, lambda first, second: [second])),
    "a pin is about another item": (
        forbidden,
        lambda desk: pins(desk, lambda first, second: [first | {"must_not_include": ["tool:desk:t16"]}, second]),
    ),
    "a pin is about another query": (
        forbidden,
        lambda desk: pins(desk, lambda first, second: [first | {"query": "q25"}, second]),
    ),
    "limits of a pin are raised": (
        wide,
        lambda desk: pins(desk, lambda first, second: [first, second | {"at_most_items": 90, "at_most_tokens": 9_000}]),
    ),
    "queries lose the tag of a pin": (wide, lambda desk: desk.queries(HARD, tags=["odd"])),
    # the baseline
    "answers of the baseline are edited": (
        garbled,
        lambda desk: baseline_line(desk, "data/ours.jsonl", '"tool:desk:t01"', '"tool:desk:t09"'),
    ),
    "labels of the baseline are edited": (
        garbled,
        lambda desk: baseline_line(desk, "data/queries.jsonl", '"tool:desk:t01"', '"tool:desk:t09"'),
    ),
    "prices of the baseline are edited": (
        longer,
        lambda desk: baseline_line(desk, "data/items.jsonl", '"tokens":18', '"tokens":40'),
    ),
    "settings of the baseline are edited": (
        longer,
        lambda desk: baseline_line(desk, MANIFEST, '"share": 0.05', '"share": 0.95'),
    ),
    "settings are taken out of the baseline": (
        shorter,
        lambda desk: edit_head(desk, lambda head: head.pop("settings")),
    ),
    "the baseline is of an old format": (shorter, lambda desk: edit_head(desk, lambda head: head.update(format=2))),
    "the baseline's answers are deleted": (shorter, lambda desk: (desk.baseline / "data" / "ours.jsonl").unlink()),
    "the baseline is deleted": (shorter, lambda desk: shutil.rmtree(desk.baseline)),
}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_change_is_worse_where_nothing_hides_it(accepted, tmp_path, plant):
    desk = accepted.copy(tmp_path)
    plant(desk)
    check = check_gate(desk.gate).check
    assert (check.verdict, check.exit_code(), check.loosened) == (Verdict.WORSE, 1, ())


@pytest.mark.parametrize("gate", ["as it was", "loosened"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_hides_it(accepted, tmp_path, way, gate):
    desk = accepted.copy(tmp_path)
    plant, hide = WAYS[way]
    plant(desk)
    hide(desk)
    if gate == "loosened":
        desk.file(lambda file: file["gate"].update(LOOSE))
    assert desk.code() != 0


def test_what_is_judged_without_being_named_cannot_be_loosened_unseen(accepted, tmp_path):
    desk = accepted.copy(tmp_path)
    desk.set(tolerance={"forbidden_offered": 0.99})
    check = check_gate(desk.gate).check
    assert [loosened.setting for loosened in check.loosened] == ["tolerance of forbidden_offered"]
    assert check.exit_code() == 2


def test_they_are_at_least_40():
    assert len(WAYS) >= 40
