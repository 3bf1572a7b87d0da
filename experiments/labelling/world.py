"""A made-up agent with its users: a catalog, requests whose needs are known, and logs of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctxbench.labelling.pools import Pool
from ctxbench.labelling.session import LabelPrompt, PromptAnswer
from ctxbench.model.items import Catalog, Item

SHELL = "run_command"

# server, object, what the description says, what users say instead
OBJECTS = (
    ("tracker", "issue", "bug or task of a project", ("defect", "what is broken")),
    ("forge", "issue", "bug or task of a repository", ("defect", "what is broken")),
    ("forge", "pull request", "proposed change with its review", ("patch", "merge proposal")),
    ("forge", "branch", "line of development", ("fork of the code", "working copy")),
    ("ci", "build", "run of the pipeline with its log", ("red job", "nightly")),
    ("calendar", "event", "appointment with people and a time", ("slot", "sit-down")),
    ("rooms", "event", "booking of a room with people and a time", ("slot", "sit-down")),
    ("chat", "message", "text in a channel", ("ping", "note to the team")),
    ("mail", "mail", "letter with recipients and subject", ("reply to the customer", "newsletter")),
    ("wiki", "page", "article of the knowledge base", ("write-up", "howto")),
    ("docs", "page", "document with headings", ("write-up", "howto")),
    ("drive", "file", "stored document in a folder", ("upload", "spreadsheet")),
    ("bucket", "file", "stored object in a folder", ("upload", "spreadsheet")),
    ("crm", "contact", "person at a customer", ("client", "lead")),
    ("crm", "deal", "sale with its stage", ("opportunity", "quote")),
    ("billing", "invoice", "bill of a customer", ("what they owe", "charge")),
    ("billing", "payment", "money received", ("transfer", "refund")),
    ("monitor", "alert", "rule that warns of a threshold", ("pager", "alarm")),
    ("monitor", "dashboard", "panels of metrics", ("graphs", "overview")),
    ("database", "table", "rows and columns of the warehouse", ("raw data", "numbers")),
    ("vault", "secret", "stored credential", ("password", "token")),
    ("flags", "flag", "switch of a feature", ("toggle", "rollout")),
    ("deploy", "release", "version put into production", ("ship", "go-live")),
    ("support", "ticket", "request of a customer", ("complaint", "case")),
    ("hr", "absence", "leave of an employee", ("holiday", "day off")),
)
VERBS = (
    ("create", "Create a new", ("set up", "make me", "put in")),
    ("search", "Search for a", ("dig up", "is there any", "look around for")),
    ("update", "Update an existing", ("correct", "adjust", "move along")),
    ("delete", "Delete a", ("get rid of", "drop", "clean out")),
    ("list", "List every", ("show me all", "what do we have of", "give an overview of")),
    ("export", "Export as a table: the", ("hand me over", "take out to excel", "send along")),
)
TAILS = ("for the shop", "of last week", "before friday", "for anna", "please", "in the billing team", "again", "today")
CHAT = ("thanks, that {noun} was it", "ok", "good morning", "never mind the {noun}", "who are you?", "nice work on it")


MORE_VERBS = (
    ("share", "Share with others a", ("let them see", "pass around")),
    ("archive", "Archive a finished", ("put away", "shelve")),
    ("assign", "Assign to a person the", ("who takes", "hand to anna")),
    ("comment", "Comment on a", ("leave a note on", "say something about")),
)


@dataclass(frozen=True)
class Setting:
    """What a world is like.

    Attributes:
        verbs: of which there is a tool for each object.
        topics: shares of requests of one, two and three topics.
        far: of the beta distribution of how far a user's words are from the catalog's.
        nothing: share of requests that need nothing.
        logged_by: the selector of the log.
        offered: items a turn that it offers.
        full: shares of turns that had the whole catalog, easy ones and others.
        overlooked: share of what is needed and offered that the model does not call.
    """

    verbs: tuple[tuple[str, str, tuple[str, ...]], ...] = VERBS
    topics: tuple[float, float, float] = (0.66, 0.27, 0.07)
    far: tuple[float, float] = (1.0, 3.0)
    nothing: float = 0.07
    logged_by: str = "bm25"
    offered: int = 8
    full: tuple[float, float] = (0.35, 0.08)
    overlooked: float = 0.06


FIRST = Setting()
SECOND = Setting(
    verbs=VERBS + MORE_VERBS,
    topics=(0.5, 0.32, 0.18),
    far=(1.5, 2.5),
    nothing=0.15,
    logged_by="dense",
    offered=12,
    full=(0.2, 0.06),
    overlooked=0.1,
)
SETTINGS = {"first": FIRST, "second": SECOND}


def catalog(setting: Setting = FIRST) -> Catalog:
    """Tools on 18 servers (150 in the first world, 250 in the second) and a shell; some stand on two servers."""
    items = [
        Item(
            type="tool", server=server, name=f"{verb}_{noun.replace(' ', '_')}", description=f"{says} {noun}: {about}."
        )
        for server, noun, about, _ in OBJECTS
        for verb, says, _ in setting.verbs
    ]
    return Catalog([*items, Item(type="tool", server="shell", name=SHELL, description="Run a command in a shell.")])


@dataclass(frozen=True)
class Ask:
    """A request and what it needs.

    Attributes:
        text: what the user writes.
        groups: requirements, each the catalog positions of which one is enough; none = it needs nothing.
        hard: share of the request that avoids the catalog's words.
    """

    text: str
    groups: tuple[tuple[int, ...], ...]
    hard: float


def asks(n: int, rng: np.random.Generator, setting: Setting = FIRST) -> list[Ask]:
    """Requests of one to three topics; some need nothing, some also a tool that their text does not hint at."""
    return [_nothing(rng) if rng.random() < setting.nothing else _ask(rng, setting) for _ in range(n)]


def _nothing(rng: np.random.Generator) -> Ask:
    noun = OBJECTS[rng.integers(len(OBJECTS))][1]
    return Ask(str(rng.choice(CHAT)).format(noun=noun), (), 0.0)


def _ask(rng: np.random.Generator, setting: Setting) -> Ask:
    verbs = setting.verbs
    topics = int(rng.choice([1, 2, 3], p=setting.topics))
    user = rng.beta(*setting.far)  # how far this user's words are from the catalog's
    parts, groups, hard = [], [], []
    for _ in range(topics):
        place, verb = int(rng.integers(len(OBJECTS))), int(rng.integers(len(verbs)))
        _, noun, _, other_nouns = OBJECTS[place]
        far_noun, far_verb = rng.random() < 0.8 * user, rng.random() < 0.2 + 0.6 * user
        said = str(rng.choice(verbs[verb][2])) if far_verb else verbs[verb][0]
        parts.append(f"{said} the {rng.choice(other_nouns) if far_noun else noun} {rng.choice(TAILS)}")
        groups.append(_group(place, verb, len(verbs), rng))
        hard.append(0.7 * far_noun + 0.3 * far_verb)
        if verbs[verb][0] in ("update", "delete") and rng.random() < 0.15:
            groups.append((_position(place, 1, len(verbs)),))  # to be looked up first
    return Ask(". ".join(parts), tuple(dict.fromkeys(groups)), float(np.mean(hard)))


def _position(place: int, verb: int, n_verbs: int) -> int:
    return place * n_verbs + verb


def _group(place: int, verb: int, n_verbs: int, rng: np.random.Generator) -> tuple[int, ...]:
    """The tool, and where the same stands on another server, half the time that one, too."""
    twins = [i for i, other in enumerate(OBJECTS) if other[1] == OBJECTS[place][1] and i != place]
    also = [_position(i, verb, n_verbs) for i in twins] if twins and rng.random() < 0.5 else []
    return tuple(sorted([_position(place, verb, n_verbs), *also]))


@dataclass(frozen=True)
class Turn:
    """One turn of a log: the request (by number), what was offered, called and tried."""

    ask: int
    conversation: str
    turn: int
    offered: tuple[int, ...]
    full: bool
    called: tuple[tuple[int, str], ...]
    wanted: tuple[int, ...] = ()


@dataclass
class Log:
    """The turns of a log with what is true of them."""

    turns: list[Turn] = field(default_factory=list)

    def rows(self, world: list[Ask], items: Catalog) -> list[dict[str, Any]]:
        """The log as JSON lines hold it."""
        rows = []
        earlier: dict[str, list[dict[str, str]]] = {}
        for number, turn in enumerate(self.turns):
            told = earlier.setdefault(turn.conversation, [])
            told.append({"role": "user", "content": world[turn.ask].text})
            calls = [{"tool": items.ids[item], "status": status} for item, status in turn.called]
            calls += [{"tool": items.ids[item], "status": "unknown_tool"} for item in turn.wanted]
            minute = number % 60
            rows.append(
                {
                    "conversation": turn.conversation,
                    "turn": turn.turn,
                    "time": f"2026-03-{1 + number // 1440:02d}T{number // 60 % 24:02d}:{minute:02d}:00+00:00",
                    "messages": list(told),
                    "offered": "*" if turn.full else [items.ids[item] for item in turn.offered],
                    "called": calls,
                }
            )
            told.append({"role": "assistant", "content": "Done." if turn.called else "I could not find a way."})
        return rows


def log_of(
    world: list[Ask],
    ranking: tuple[tuple[int, ...], ...],
    n: int,
    rng: np.random.Generator,
    setting: Setting = FIRST,
) -> Log:
    """A log of n turns.

    The logging selector offers the best of a ranking. A share of the turns, more often easy ones, had the whole
    catalog. The model overlooks some of what it is offered, calls some that is not needed, and where something is
    missing at times names it all the same, uses the shell, or leaves the user to ask again.
    """
    log = Log()
    order = iter(rng.permutation(len(world)).tolist())
    conversation = 0
    while len(log.turns) < n:
        conversation += 1
        for turn in range(int(rng.integers(1, 5))):
            number = next(order)
            easy = world[number].hard < 0.3 and len(world[number].groups) == 1
            full = bool(rng.random() < setting.full[0 if easy else 1])
            made = _turn(world[number], ranking[number], full, rng, setting)
            made = replace(made, ask=number, conversation=f"c{conversation}", turn=turn)
            log.turns.append(made)
            if _missed(world[number], made) and rng.random() < 0.15:  # asked again, in the same words
                log.turns.append(replace(_turn(world[number], ranking[number], False, rng, setting), ask=number,
                                         conversation=f"c{conversation}", turn=turn + 1))  # fmt: skip
                break
    del log.turns[n:]
    return log


def _turn(ask: Ask, ranking: tuple[int, ...], full: bool, rng: np.random.Generator, setting: Setting) -> Turn:
    shell = len(OBJECTS) * len(setting.verbs)
    everything = range(shell + 1)
    offered = tuple(everything) if full else tuple(dict.fromkeys([*ranking[: setting.offered], shell]))
    called: list[tuple[int, str]] = []
    wanted: list[int] = []
    for group in ask.groups:
        there = [item for item in group if item in offered]
        if there and rng.random() >= setting.overlooked:
            if rng.random() < 0.05:
                called.append((there[0], "error"))
            called.append((int(rng.choice(there)), "ok"))
        elif not there and rng.random() < 0.2:
            wanted.append(group[0])
        elif not there and rng.random() < 0.15:
            called.append((shell, "ok"))
    if rng.random() < 0.03:
        near = [item for item in (ranking[: setting.offered] or everything) if item != shell]
        called.append((int(rng.choice(near)), "ok"))
    return Turn(ask=0, conversation="", turn=0, offered=offered, full=full, called=tuple(called), wanted=tuple(wanted))


def _missed(ask: Ask, turn: Turn) -> bool:
    done = {item for item, status in turn.called if status == "ok"}
    return any(not done & set(group) for group in ask.groups)


@dataclass(frozen=True)
class Annotator:
    """Someone who knows what every query needs, and answers as a session asks."""

    groups: dict[str, tuple[tuple[int, ...], ...]]

    def reply(self, prompt: LabelPrompt) -> PromptAnswer:
        """The answer to a prompt."""
        groups = self.groups[prompt.query]
        if prompt.kind == "alternative":
            return PromptAnswer("alternative", yes=any({prompt.item, prompt.of} <= set(group) for group in groups))
        for item in prompt.known:
            if not any(item in group for group in groups):
                return PromptAnswer("wrong", item)
        listed = [candidate.item for candidate in prompt.candidates]
        for group in groups:
            if not any(item in prompt.known for item in group):
                return PromptAnswer(
                    "needed", min(group, key=lambda i: (listed.index(i) if i in listed else len(listed), i))
                )
        return PromptAnswer("done" if groups else "nothing")


def true_shares(pool: Pool, groups: dict[str, tuple[tuple[int, ...], ...]]) -> list[float]:
    """By selector, the share of the queries that need something for which it is complete."""
    rows = [pool.complete(pool.row[query], list(needs)) for query, needs in groups.items() if needs]
    return [float(share) for share in np.mean(np.array(rows, dtype=np.float64), axis=0)]
