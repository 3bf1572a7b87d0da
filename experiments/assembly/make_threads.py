"""Make datasets/threads of what was written for it and of this repository's own files at one commit.

`datasets/threads/written/` holds a YAML file a thread, the private notes under `notes/<user>/`, and what the card says.
Messages, and what was referred to, opened and found useful by the time of each request, follow from the threads; the
files come from git. All faults are told at once, and nothing is written where there is one. Equal sources give equal
bytes: what stands there is only compared, unless `--freeze` is given.

    python experiments/assembly/make_threads.py [--freeze]
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset, write_files
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.documents import line_of, load_mapping
from ctxbench.io.errors import Fault, raise_faults
from ctxbench.model.candidates import quoted
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request

ROOT = Path(__file__).parents[2]
THREADS = ROOT / "datasets" / "threads"
COMMIT = "498858f5"
WRITTEN = THREADS / "written"
USERS = ("mira", "jonas", "tess")

WHOLE = ("core", "steps", "index", "stores", "memory", "features", "selectors", "session", "text")
PARTLY = ("sources", "gate", "tuning", "bench", "cli")
SMALL, SHORT, LONG = 500, 10_900, 30_000  # bytes: less says nothing; of `PARTLY`; of documents and settings
DOCUMENT = re.compile(r"[\w.-]+\.md|Makefile|(ctxbench|datasets|experiments|reports)/.*\.(md|yaml)")
KINDS = {".py": "text/x-python", ".md": "text/markdown", ".yaml": "application/yaml", "": "text/x-makefile"}

JUDGED = ("names-file", "vague", "follow-up", "trap", "paraphrase")
"""Tags that a writer gives; all others follow from the labels."""
THREAD = ("thread", "user", "about", "turns")
FIELDS = ("time", "text", "tags", "refer", "unrefer", "access", "required", "helpful", "irrelevant", "reply", "useful")


def in_corpus(path: str, size: int) -> bool:
    """Whether a file of the repository is one of the dataset: about 300 of them, 2 MB."""
    package, _, rest = path.removeprefix("ctxbench/").partition("/")
    if path.startswith("ctxbench/") and rest.endswith(".py"):
        return size > SMALL and (package in WHOLE or (package in PARTLY and size <= SHORT))
    card = path.startswith("datasets/") and path.endswith(".yaml")
    return bool(DOCUMENT.fullmatch(path)) and size <= LONG and not card and "-tables." not in path


@cache
def repository_files() -> tuple[Item, ...]:
    """The files at the commit, by path, each as old as the last commit that touched it."""
    touched: dict[str, str] = {}
    time = ""
    # -c: a merge touched what differs from all of its parents
    for line in git("log", "-c", "--format=%x00%cI", "--name-only", COMMIT).splitlines():
        if line.startswith("\0"):
            time = utc(datetime.fromisoformat(line[1:]))
        elif line:
            touched.setdefault(line, time)
    files = []
    for line in sorted(git("ls-tree", "-r", "-l", COMMIT).splitlines(), key=lambda one: one.split("\t")[1]):
        facts, path = line.split("\t")
        if in_corpus(path, int(facts.split()[3])):
            text, kind = git("show", f"{COMMIT}:{path}"), KINDS[Path(path).suffix]
            files.append(Item(type="file", name=path, text=text, kind=kind, created=touched[path]))
    return tuple(files)


def git(*arguments: str) -> str:
    """What git prints of this repository."""
    command = ["git", "-C", str(ROOT), "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words
    return done.stdout.decode("utf-8")


def utc(when: datetime) -> str:
    """A time as the dataset writes it: `2026-11-28T09:14:00Z`."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def notes(faults: list[Fault]) -> Iterator[Item]:
    """The private notes, by path. The first line of each says when it was written: `Written 2026-11-27T18:00:00Z`."""
    for path in sorted((WRITTEN / "notes").rglob("*.md")):
        text = path.read_text("utf-8")
        name = path.relative_to(WRITTEN).as_posix()
        first = re.match(r"Written (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\n", text)
        if first is None or path.parent.name not in USERS:
            faults.append(
                Fault("a note is of a user and begins with a line such as `Written 2026-11-27T18:00:00Z`", path)
            )
            continue
        yield Item(type="file", name=name, text=text, kind=KINDS[".md"], user=path.parent.name, created=first[1])


@dataclass(frozen=True)
class Turn:
    """One request of a thread as it was written, and where."""

    thread: str
    number: int
    user: str
    given: Mapping[str, Any]
    path: Path
    line: int

    @property
    def id(self) -> str:
        """Such as `t01-3`."""
        return f"{self.thread}-{self.number}"

    @property
    def time(self) -> datetime:
        """When it was asked."""
        return datetime.fromisoformat(self.given["time"])

    def paths(self, name: str) -> tuple[str, ...]:
        """The paths under a name, in order."""
        return tuple(self.given.get(name) or ())

    def fault(self, message: str) -> Fault:
        """What is wrong with it, with its place."""
        return Fault(f"{self.id}: {message}", self.path, self.line)


def read_turns(faults: list[Fault]) -> list[Turn]:
    """Every turn of every thread, by time. A turn that lacks what all have is a fault, and left out."""
    turns = []
    for path in sorted(WRITTEN.glob("t*.yaml")):
        thread, lines = load_mapping(path, description="a thread", keys=THREAD)
        if set(thread) != set(THREAD) or thread["thread"] != path.stem or thread["user"] not in USERS:
            faults.append(Fault(f"a thread is {', '.join(THREAD)}, named as its file, of {' or '.join(USERS)}", path))
            continue
        own: list[Turn] = []
        for number, given in enumerate(thread["turns"], 1):
            turn = Turn(path.stem, number, thread["user"], given, path, line_of(lines, ("turns", number - 1)))
            if unknown := set(given) - set(FIELDS) or {"time", "text", "reply"} - set(given):
                faults.append(turn.fault(f"{', '.join(sorted(unknown))}: not a field, or missing"))
                continue
            if own and turn.time <= own[-1].time + timedelta(minutes=1):
                faults.append(turn.fault("a turn is more than a minute after the one before, when its reply is there"))
            own.append(turn)
        if len(own) < 5:
            faults.append(Fault("a thread has five turns or more", path))
        turns += own
    return sorted(turns, key=lambda turn: (turn.time, turn.id))


def messages(turn: Turn) -> Iterator[Item]:
    """A turn's two messages: what was asked, a second after the request, and the reply, a minute after."""
    for letter, role, text, after in (("a", "user", "text", 1), ("b", "assistant", "reply", 60)):
        yield Item(
            type="message",
            name=f"{turn.id}{letter}",
            text=turn.given[text].strip(),
            kind=role,
            user=turn.user,
            conversation=turn.thread,
            created=utc(turn.time + timedelta(seconds=after)),
        )


@dataclass
class State:
    """What had happened by the time of a request: of each user over all threads, of each thread its references."""

    opened: dict[str, list[str]] = field(default_factory=dict)
    useful: dict[str, Counter[str]] = field(default_factory=dict)
    referred: dict[str, list[str]] = field(default_factory=dict)

    def before(self, turn: Turn) -> tuple[list[str], list[str], dict[str, int]]:
        """The references, the files opened, latest first, and how often each was useful, once a turn is asked."""
        opened = self.opened.setdefault(turn.user, [])
        for path in turn.paths("access"):
            opened[:] = [path, *(other for other in opened if other != path)]
        referred = self.referred.setdefault(turn.thread, [])
        referred += [path for path in turn.paths("refer") if path not in referred]
        referred[:] = [path for path in referred if path not in turn.paths("unrefer")]
        return list(referred), list(opened), dict(self.useful.setdefault(turn.user, Counter()))

    def after(self, turn: Turn) -> None:
        """Count what was useful, which is said after the reply."""
        self.useful[turn.user].update(turn.paths("useful"))


def labels(turn: Turn, items: Mapping[ItemKey, Item], faults: list[Fault]) -> Iterator[Label]:
    """The labels of a turn, each quote as it stands in its item; a label that cannot be is a fault."""
    seen: set[ItemKey] = set()
    for grade, name in ((2, "required"), (1, "helpful"), (0, "irrelevant")):
        for number, entry in enumerate(turn.given.get(name) or (), 1):
            several = entry["any"] if isinstance(entry, Mapping) and "any" in entry else [entry]
            group = f"{number}" if len(several) > 1 else ""
            for one in several:
                given = {"item": one} if isinstance(one, str) else one
                key = ItemKey("message", None, given["message"]) if "message" in given else file(given["item"])
                quote = " ".join(str(given.get("quote") or "").split())
                item = items.get(key)
                if item is None or not seen_by(item, turn):
                    faults.append(turn.fault(f"{key.id} is not there, or not to be seen then"))
                elif key in seen:
                    faults.append(turn.fault(f"{key.id} is labelled twice"))
                elif quote and not quoted(item.prompt_text, quote):
                    faults.append(turn.fault(f"{key.id} does not hold the words {quote!r}"))
                elif grade == 2 and not quote:
                    faults.append(turn.fault(f"{key.id} is required, so that the words which answer must be quoted"))
                else:
                    yield Label(turn.id, key, grade, alternatives=group, quote=quote)
                seen.add(key)


def file(path: str) -> ItemKey:
    """The identity of a file."""
    return ItemKey("file", None, path)


def seen_by(item: Item, turn: Turn) -> bool:
    """Whether the user of a turn may see an item, and it was there."""
    return item.user in (None, turn.user) and datetime.fromisoformat(item.created or "") <= turn.time


def tags(turn: Turn, required: list[Label], explicit: list[str], recent: list[str]) -> tuple[str, ...]:
    """Those of the writer's that are matters of judgement, and what follows from the labels."""
    names = [label.item.name for label in required if label.item.type == "file"]
    follow = {
        "reference": any(name in explicit for name in names),
        "recent": any(name in recent[:5] for name in names),
        "message": any(label.item.type == "message" for label in required),
        "multi": len({label.alternatives or label.item for label in required}) > 1,
        "code": any(name.endswith(".py") for name in names),
        "docs": any(not name.endswith(".py") for name in names),
        "private": any(name.startswith("notes/") for name in names),
        "alternatives": any(label.alternatives for label in required),
        "nothing": not required,
    }
    judged = {tag for tag in turn.given.get("tags") or () if tag in JUDGED}
    return tuple(sorted(judged | {tag for tag, true in follow.items() if true}))


def made() -> Dataset:
    """The dataset.

    Raises:
        InputError: all that is wrong with what was written.
    """
    faults: list[Fault] = []
    turns = read_turns(faults)
    catalog = Catalog([*repository_files(), *notes(faults), *(one for turn in turns for one in messages(turn))])
    items = {item.key: item for item in catalog}
    threads = list(dict.fromkeys(turn.thread for turn in turns))
    state, queries, judged = State(), [], []
    for turn in turns:
        explicit, recent, uses = state.before(turn)
        state.after(turn)
        for path in {*explicit, *recent, *turn.paths("useful")}:
            item = items.get(file(path))
            if item is None or not seen_by(item, turn):
                faults.append(turn.fault(f"{path} is referred to, opened or useful, and is not there"))
        own = list(labels(turn, items, faults))
        judged += own
        given = tags(turn, [label for label in own if label.grade == 2], explicit, recent)
        if ("nothing" in given) != ("nothing" in (turn.given.get("tags") or ())):
            faults.append(turn.fault("a request with the tag `nothing`, and no other, requires nothing"))
        request = Request(
            id=turn.id,
            text=turn.given["text"].strip(),
            user=turn.user,
            conversation=turn.thread,
            turn=turn.number - 1,
            time=utc(turn.time),
            explicit=tuple(map(file, explicit)),
            recent=tuple(map(file, recent)),
            uses=tuple((file(path), count) for path, count in sorted(uses.items())),
        )
        split = "tuning" if 2 * threads.index(turn.thread) < len(threads) else "test"
        none = "nothing" in given
        queries.append(DatasetQuery(request=request, split=split, group=turn.thread, tags=given, needs_nothing=none))
    raise_faults(faults, subject="threads")
    about, _ = load_mapping(
        WRITTEN / "card.yaml", description="a card", keys=("licence", "source", "labelling", "notes")
    )
    return Dataset(
        name="threads", version="1", catalog=catalog, queries=tuple(queries), labels=tuple(judged), about=about
    )


def main() -> None:
    """Write the dataset, or hold what is frozen to what its sources give."""
    dataset = made()
    dataset = replace(dataset, about={**dataset.about, "frozen": dataset.hash})
    (write_files if "--freeze" in sys.argv[1:] else write_dataset)(dataset, THREADS)


if __name__ == "__main__":
    run_script(main)
