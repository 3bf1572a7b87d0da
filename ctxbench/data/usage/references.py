"""Find the offered items that a reply makes use of, with the evidence for each.

A **tool** is referenced when it was called, also if the call failed. Its name in the words of the reply is no use.

**Anything else** is referenced when the reply, and none of the user's messages, has one of

* its id, `rule:code%20review`, as a whole;
* its name. A name with a word that no ordinary word looks like (letters together with a digit, `_`, `/`, `.`, `:`,
  `#`, `@`, or a capital after a small letter) counts where it stands whole, capitals as they are. Any other name counts
  only in quotes, backticks or square brackets, or directly beside the word for its type ("the tone rule"; "rule: tone"
  where that ends there). Asterisks are emphasis, which any word may have. Of two offered items with the same name
  neither counts, unless the word for the type tells them apart;
* a run of 8 words of its text, case and punctuation aside, that no other offered item has.

So nothing counts that the reply may have from the user or from another item, and a text that is followed without a
word, as most rules are, leaves no trace: what is never referenced may still matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.usage.replies import Reply

KINDS = ("called", "id", "name", "quoted")
RUN = 8  # words
_WORD = re.compile(r"\w+")
_LETTER, _MARK = re.compile(r"[^\W\d_]"), re.compile(r"[\d_/\\.:#@]|[a-zß-öø-ÿ][A-ZÀ-ÖØ-Þ]")
_OPEN, _CLOSE = "[\"'“”‘’«»„‚`\\[]", "[\"'“”‘’«»`\\]]"
_BEFORE, _BEHIND = f"(?:{_OPEN}|\\*)*", f"(?:{_CLOSE}|\\*)*"


@dataclass(frozen=True, slots=True)
class UsageEvidence:
    """Why an item counts as referenced.

    Attributes:
        kind: `called`, `id`, `name` or `quoted`.
        text: the words of the reply, or the name of the tool.
        where: file and place.
        time: of the reply, ISO 8601, or None.
    """

    kind: str
    text: str
    where: str
    time: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """The evidence as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Match:
    kind: str
    start: int
    end: int


class References:
    """The rule over one catalog; patterns and runs of words of an item are made once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._runs = cache(self._find_runs)
        self._pattern = cache(self._find_pattern)

    def find(self, reply: Reply) -> dict[ItemKey, UsageEvidence]:
        """The offered items that a reply references, each with its first evidence; calls before words."""
        out: dict[ItemKey, UsageEvidence] = {}
        offered = reply.offered or {}
        for key in reply.called:
            if key in offered and key not in out:
                out[key] = UsageEvidence("called", key.name, reply.where, reply.time)
        items = [self._catalog[position] for position in map(self._catalog.find, offered) if position is not None]
        items = [item for item in items if item.type != "tool"]
        if reply.text and items:
            for key, match in self._text_matches(reply, items).items():
                out[key] = UsageEvidence(match.kind, reply.text[match.start : match.end], reply.where, reply.time)
        return out

    def _text_matches(self, reply: Reply, items: list[Item]) -> dict[ItemKey, _Match]:
        """The items that the words of a reply reference, each with the first match."""
        user_text, folded = "\n".join(reply.user_messages), reply.text.casefold()
        names = Counter(item.name.casefold() for item in items)
        typed = Counter((item.type, item.name.casefold()) for item in items)
        matches: dict[ItemKey, list[_Match]] = {}
        for item in items:
            name = item.name.casefold()
            patterns = [("id", "id")] if item.id in reply.text else []
            if name.split()[:1] and name.split()[0] in folded and typed[item.type, name] == 1:
                patterns.append(("name", "name" if names[name] == 1 else "typed name"))
            for kind, how in patterns:
                pattern = self._pattern(item.key, how)
                if not pattern.search(user_text):
                    own_matches = [_Match(kind, *match.span()) for match in pattern.finditer(reply.text)]
                    matches.setdefault(item.key, []).extend(own_matches)
        first = {}
        spans = [(match, key) for key, own_matches in matches.items() for match in own_matches]
        for key, own_matches in matches.items():
            separate = [
                match for match in own_matches if not any(_inside(match, other) for other, of in spans if of != key)
            ]
            if separate:
                first[key] = min(separate, key=lambda match: (KINDS.index(match.kind), match.start))
        return {**self._quoted(reply, items), **first}

    def _find_pattern(self, key: ItemKey, kind: str) -> re.Pattern[str]:
        """The pattern of an item's id or name that is a reference to the item."""
        item = self._catalog[self._catalog.position(key)]
        return _id(item) if kind == "id" else _name(item, only_typed=kind == "typed name")

    def _quoted(self, reply: Reply, items: list[Item]) -> dict[ItemKey, _Match]:
        """The items that the reply quotes: a run of words is in no other item, and in no message of the user's."""
        words = list(_WORD.finditer(reply.text))
        folded = [word.group().casefold() for word in words]
        runs = {run: place for place, run in reversed(list(enumerate(_runs(folded))))}
        for text in reply.user_messages:
            for run in _runs([word.casefold() for word in _WORD.findall(text)]):
                runs.pop(run, None)
        hits = {item.key: runs.keys() & self._runs(item.key) for item in items}
        owners = Counter(run for item_runs in hits.values() for run in item_runs)
        places = {key: [runs[run] for run in item_runs if owners[run] == 1] for key, item_runs in hits.items()}
        return {
            key: _Match("quoted", words[min(starts)].start(), words[min(starts) + RUN - 1].end())
            for key, starts in places.items()
            if starts
        }

    def _find_runs(self, key: ItemKey) -> frozenset[tuple[str, ...]]:
        text = self._catalog[self._catalog.position(key)].text
        return frozenset(_runs([word.casefold() for word in _WORD.findall(text)]))


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    """All runs of `RUN` words, in order; none of fewer words."""
    return zip(*(words[place:] for place in range(RUN)), strict=False)


def _inside(one: _Match, other: _Match) -> bool:
    """Whether a match is a part of a longer one."""
    return other.start <= one.start and one.end <= other.end and other.end - other.start > one.end - one.start


def _id(item: Item) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w:%/.-]){re.escape(item.id)}(?![\w%:/-]|\.\w)")


def _name(item: Item, *, only_typed: bool) -> re.Pattern[str]:
    """The pattern of a name that is a reference to its item."""
    name = r"\s+".join(map(re.escape, item.name.split()))
    bare = rf"(?<![\w-]){name}(?![\w-])"
    listed = rf"{item.type}:\s+{_BEFORE}{bare}(?={_BEHIND}\s*(?:[^\w\s]|\n|\Z))"
    beside = rf"(?<!\w)(?:{item.type}\s+{_BEFORE}{bare}|{listed})|{bare}{_BEHIND}\s+{item.type}(?!\w)"
    if only_typed:
        return re.compile(f"(?i:{beside})")
    if any(_LETTER.search(word) and _MARK.search(word) for word in item.name.split()):
        return re.compile(rf"(?<![\w/.-]){name}(?![\w/-]|\.\w)")
    return re.compile(f"(?i:{_OPEN}{bare}{_CLOSE}|{beside})")
