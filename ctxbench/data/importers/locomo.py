"""LoCoMo: questions about ten long conversations of two people, with the turns that answer them.

Source: https://github.com/snap-research/LoCoMo (CC BY-NC 4.0), arXiv 2402.17753.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from ctxbench.core.errors import Fault, raise_faults
from ctxbench.core.items import Catalog, Item
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label, group_labels, minimal_groups
from ctxbench.data.importers.locomo_audit import DISPUTED
from ctxbench.data.importers.published_files import (
    OWNER,
    FileImporter,
    PublishedSource,
    SourceFile,
    json_entries,
    text_key,
)
from ctxbench.io.rows import Row

FILE = "locomo10.json"
TURNS, ANSWERABLE, OBSERVATIONS = "locomo", "locomo-answerable", "locomo-observations"
MEMORIES = "locomo-memory"
ADVERSARIAL = "adversarial"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)

_TURN_ID = re.compile(r"D:?(\d+):(\d+)")
_TIME = re.compile(r"(\d{1,2}):(\d{2}) ([ap])m on (\d{1,2}) ([A-Za-z]+), (\d{4})")

_LABELLING = {
    TURNS: (
        "Required are the turns that annotators gave as evidence for the answer, each of them. Ids of turns are taken "
        "out of what they wrote by the pattern D<session>:<turn>; ids of no turn are left out."
    ),
    OBSERVATIONS: (
        "Required is, for each turn that annotators gave as evidence, an observation that a model made of it; "
        "several of one turn are alternatives, since nobody said which of them holds the answer. A question with a "
        "turn of which there is none is labelled in part only, and left out of figures."
    ),
}
_LABELLING[ANSWERABLE] = _LABELLING[MEMORIES] = _LABELLING[TURNS]
_REMARKS = (
    (
        "The evidence of an adversarial question is the turn that it twists; the right answer is that nothing was "
        "said. It is a fair label for retrieval, but say whether a figure has these questions: locomo-answerable is "
        "without them."
    ),
    (
        "A few per cent of the labels are wrong, by the corrections of others, and some questions give the evidence "
        "of one hop only."
    ),
    "A question with evidence of no turn is tagged `unresolved` and labelled in part, so it is in no figure.",
    "Queries may get only what is of their own conversation; all of one conversation are in one split.",
)
_MEMORY_REMARKS = (
    (
        "A long conversation is a workspace, and its sessions are the conversations of its items. Sessions have times, "
        "turns none: they are a second apart here. Nor is it published when a question was asked: here a day after the "
        "last turn."
    ),
    (
        "The tag `disputed` marks 94 questions for which a public audit (github.com/dial481/locomo-audit) names other "
        "turns as evidence; labels are as published. It counts 99 wrong answers, which is no matter of retrieval."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One question: its number in the conversation, and the ids of the turns that are its evidence, each once."""

    number: int
    text: str
    category: str
    evidence: tuple[str, ...]
    unknown: int
    repaired: bool


@dataclass(slots=True, kw_only=True)
class _Conversation:
    """One conversation: its turns by id, the observations, and the questions."""

    id: str
    turns: dict[str, Item] = field(default_factory=dict)
    observations: list[Item] = field(default_factory=list)
    questions: list[_Question] = field(default_factory=list)


class LoCoMo(FileImporter):
    """`locomo` (all questions over turns), `locomo-answerable` (no adversarial ones), `-observations` and `-memory`.

    A turn is a message named `<conversation>/D<session>:<turn>`. Its text is
    `(time of the session) speaker said, "text" and shared caption.`, since questions name people and times, and some
    evidence is in the caption of a picture. An observation is a memory named
    `<conversation>/obs/<session>/<speaker>/<index>`. A conversation is the scope and the group of its questions,
    which are tagged by category. In `locomo-memory` the turns are memories with workspace, time and session, and the
    questions have workspace and time in the place of a scope.
    """

    source = PublishedSource(
        name="locomo",
        repository="snap-research/LoCoMo",
        commit="3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376",
        date="2024-08-12",
        paper="arXiv 2402.17753",
        licence="CC-BY-NC-4.0 (non-commercial use only, give credit)",
        files=(
            SourceFile(
                path=FILE,
                published=f"data/{FILE}",
                size=2_805_274,
                sha256="79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4",
            ),
        ),
    )
    revision: ClassVar[int] = 2
    provides: ClassVar[tuple[str, ...]] = (TURNS, ANSWERABLE, OBSERVATIONS, MEMORIES)

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; about a second."""
        faults: list[Fault] = []
        entries = json_entries(self.read(FILE), faults, expected="conversations with sample_id, conversation and qa")
        conversations = [_read_conversation(entry) for entry in entries]
        n_by_id = Counter(conversation.id for conversation in conversations)
        faults += [Fault(f"sample_id {name!r} occurs {n} times; expected once") for name, n in n_by_id.items() if n > 1]
        raise_faults(faults, subject="LoCoMo")
        items = {conversation.id: _items(conversation, name) for conversation in conversations}
        queries: list[DatasetQuery] = []
        labels: list[Label] = []
        for conversation in conversations:
            ask = _asked_of_memories if name == MEMORIES else _asked_of_scope
            asked = ask(conversation.id, items[conversation.id])
            for question in conversation.questions:
                if name == ANSWERABLE and question.category == ADVERSARIAL:
                    continue
                query_id = f"{conversation.id}/q{question.number}"
                query_labels, complete = _labels(query_id, question, conversation, name)
                partly = bool(query_labels) and not (complete and not question.unknown)
                labels += query_labels
                tags = _tags(question, DISPUTED.get(conversation.id, ()) if name == MEMORIES else ())
                queries.append(_query(query_id, question, asked, conversation.id, tags=tags, partly=partly))
        remarks = (*_REMARKS, *(_MEMORY_REMARKS if name == MEMORIES else ()))
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog(item for own in items.values() for item in own),
            queries=tuple(queries),
            labels=tuple(labels),
            scopes={} if name == MEMORIES else {one: tuple(item.key for item in own) for one, own in items.items()},
            about=self.about(
                FILE, labelling=_LABELLING[name], counts=_counts(conversations, queries, labels), remarks=remarks
            ),
        )


def _items(conversation: _Conversation, dataset: str) -> list[Item]:
    if dataset == MEMORIES:
        return list(_memories(conversation))
    return conversation.observations if dataset == OBSERVATIONS else list(conversation.turns.values())


def _memories(conversation: _Conversation) -> Iterator[Item]:
    """The turns as memories of a workspace, those of a session a second apart."""
    before: Counter[str] = Counter()
    for turn, item in conversation.turns.items():
        session = turn[1:].partition(":")[0]
        time = datetime.fromisoformat(item.metadata["time"]) + timedelta(seconds=before[session])
        before[session] += 1
        yield Item(
            type="memory",
            name=item.name,
            text=item.text,
            metadata={"speaker": item.metadata["speaker"]},
            kind="turn",
            workspace=conversation.id,
            conversation=f"{conversation.id}/session_{session}",
            created=time.isoformat(),
        )


# ---------------------------------------------------------------------------------------------- reading


def _read_conversation(entry: Row) -> _Conversation:
    conversation = _Conversation(id=entry.take("sample_id", str, "", required=True))
    sessions: dict[str, Any] = entry.take("conversation", dict, {}, required=True)
    times: dict[int, str] = {}
    for session in _numbers(sessions, r"session_(\d+)"):
        where, published_time = f"{conversation.id}, session_{session}", sessions.get(f"session_{session}_date_time")
        times[session] = _time(published_time, where, entry)
        turns = sessions[f"session_{session}"]
        for number, turn in enumerate(turns if isinstance(turns, list) else [turns], start=1):
            place = f"{where}, turn {number}"
            item = _read_turn(turn, conversation.id, (str(published_time), times[session]), place, entry)
            if item is not None and conversation.turns.setdefault(item.name.partition("/")[2], item) is not item:
                entry.fault(f"{place}: {item.name} stands twice; expected different ids")
    conversation.observations += _read_observations(entry, conversation.id, times)
    questions = enumerate(entry.take("qa", list, [], required=True))
    results = (_read_question(number, question, conversation, entry) for number, question in questions)
    conversation.questions += [question for question in results if question is not None]
    return conversation


def _numbers(mapping: Mapping[str, Any], pattern: str) -> list[int]:
    """The numbers of the keys of a pattern, ascending: the file does not promise an order."""
    matches = (re.fullmatch(pattern, key) for key in mapping)
    return sorted(int(match[1]) for match in matches if match)


def _lists(value: Any, where: str, entry: Row) -> Iterator[tuple[str, list[Any]]]:
    """The members of an object whose values are lists; anything else is a fault."""
    if not isinstance(value, dict) or not all(isinstance(facts, list) for facts in value.values()):
        entry.fault(f"{where} must be an object of lists, got {value!r:.60}")
        return
    yield from value.items()


def _time(value: Any, where: str, entry: Row) -> str:
    """`1:56 pm on 8 May, 2023` as ISO 8601; month names are English whatever the machine's language."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match and match[5].lower() in MONTHS:
        hour = int(match[1]) % 12 + (12 if match[3] == "p" else 0)
        try:
            month = MONTHS.index(match[5].lower()) + 1
            return datetime(int(match[6]), month, int(match[4]), hour, int(match[2])).isoformat()  # noqa: DTZ001
        except ValueError:
            pass  # no such day
    entry.fault(f"{where}_date_time must read like '1:56 pm on 8 May, 2023', got {value!r:.60}")
    return ""


def _read_turn(turn: Any, conversation: str, time: tuple[str, str], where: str, entry: Row) -> Item | None:
    """A turn of a session, whose time is given as published and in ISO 8601; None if it cannot be read."""
    names = ("speaker", "dia_id", "text")
    if not isinstance(turn, dict) or not all(isinstance(turn.get(name), str) and turn[name] for name in names):
        entry.fault(f"{where} must have texts {', '.join(names)}, got {turn!r:.80}")
        return None
    if not re.fullmatch(r"D[1-9]\d*:[1-9]\d*", turn["dia_id"]):
        entry.fault(f"{where}: dia_id must be D<session>:<turn>, got {turn['dia_id']!r:.60}")
        return None
    caption = turn.get("blip_caption")
    picture = f" and shared {caption}." if isinstance(caption, str) and caption else ""
    return Item(
        type="message",
        name=f"{conversation}/{turn['dia_id']}",
        text=f'({time[0]}) {turn["speaker"]} said, "{turn["text"]}"{picture}',
        metadata={"conversation": conversation, "speaker": turn["speaker"], "time": time[1]},
    )


def _read_observations(entry: Row, conversation: str, times: Mapping[int, str]) -> Iterator[Item]:
    observations: dict[str, Any] = entry.take("observation", dict, {}, required=True)
    for session in _numbers(observations, r"session_(\d+)_observation"):
        where = f"{conversation}, session_{session}_observation"
        for speaker, facts in _lists(observations[f"session_{session}_observation"], where, entry):
            for index, fact in enumerate(facts):
                if not isinstance(fact, list) or len(fact) != 2 or not isinstance(fact[0], str) or not fact[0]:
                    entry.fault(f"{where}, {speaker}, {index}: expected [sentence, dia_id], got {fact!r:.80}")
                    continue
                turns = _turn_ids(fact[1] if isinstance(fact[1], list) else [fact[1]])
                metadata = {"conversation": conversation, "speaker": speaker, "time": times.get(session, "")}
                name = f"{conversation}/obs/{session}/{speaker}/{index}"
                yield Item(type="memory", name=name, text=fact[0], metadata={**metadata, "turns": list(turns)})


def _read_question(number: int, question: Any, conversation: _Conversation, entry: Row) -> _Question | None:
    where = f"{conversation.id}, question {number}"
    if not isinstance(question, dict) or not isinstance(question.get("question"), str) or not question["question"]:
        entry.fault(f"{where} must have a text 'question', got {question!r:.80}")
        return None
    category, evidence = question.get("category"), question.get("evidence")
    if type(category) is not int or category not in CATEGORIES:
        entry.fault(f"{where}: category must be 1 to {max(CATEGORIES)}, got {category!r:.60}")
        return None
    if not isinstance(evidence, list) or not all(isinstance(text, str) for text in evidence):
        entry.fault(f"{where}: evidence must be a list of texts, got {evidence!r:.60}")
        return None
    turns = _turn_ids(evidence)
    known = tuple(turn for turn in turns if turn in conversation.turns)
    unreadable = sum(not _TURN_ID.search(text) for text in evidence)
    return _Question(
        number=number,
        text=question["question"],
        category=CATEGORIES[category],
        evidence=known,
        unknown=len(turns) - len(known) + unreadable,
        repaired=list(turns) != list(dict.fromkeys(evidence)),
    )


def _turn_ids(texts: Sequence[Any]) -> tuple[str, ...]:
    """The ids of turns in texts such as `D8:6; D9:17`, `D:11:26` and `D30:05`, each once, in order."""
    ids = (match for text in texts for match in _TURN_ID.findall(str(text)))
    return tuple(dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in ids))


# ---------------------------------------------------------------------------------------------- labels


def _asked_of_scope(conversation: str, items: Sequence[Item]) -> dict[str, Any]:
    """What all questions of a conversation have in common, which may get its items."""
    return {"available": tuple(item.key for item in items), "conversation": conversation}


def _asked_of_memories(conversation: str, items: Sequence[Item]) -> dict[str, Any]:
    """What all questions to a workspace have in common: a day after its last item."""
    last = max((datetime.fromisoformat(str(item.created)) for item in items), default=None)
    return {"workspace": conversation, "time": (last + timedelta(days=1)).isoformat() if last else None}


def _tags(question: _Question, disputed: Collection[int]) -> tuple[str, ...]:
    told = {"unresolved": question.unknown, "disputed": question.number in disputed}
    return (question.category, *(tag for tag, holds in told.items() if holds))


def _query(
    query: str,
    question: _Question,
    asked: Mapping[str, Any],
    conversation: str,
    *,
    tags: tuple[str, ...],
    partly: bool,
) -> DatasetQuery:
    return DatasetQuery(
        request=Request(id=query, text=question.text, **asked),
        split=split_of(conversation),
        group=conversation,
        tags=tags,
        scope=conversation if "available" in asked else None,
        partly_labelled=partly,
    )


def _labels(query: str, question: _Question, conversation: _Conversation, dataset: str) -> tuple[list[Label], bool]:
    """Labels of turns, or of observations, and whether there is one for every known turn of the evidence.

    The observations of one turn are alternatives. What one turn's imply of another's is left out; those of turns that
    share an observation otherwise cannot be said, and are left unlabelled.
    """
    observed = dataset == OBSERVATIONS
    by_turn = [
        [item.key for item in conversation.observations if turn in item.metadata["turns"]]
        if observed
        else [conversation.turns[turn].key._replace(type="memory" if dataset == MEMORIES else "message")]
        for turn in question.evidence
    ]
    groups, _, overlap = minimal_groups(by_turn)
    n_groups = Counter(key for group in groups for key in group)
    separate = [group if all(n_groups[key] == 1 for key in group) else [] for group in groups]
    labels = list(group_labels(query, separate, name="turn", source="derived" if observed else OWNER))
    return labels, all(by_turn) and not overlap


def _counts(
    conversations: Sequence[_Conversation], queries: Sequence[DatasetQuery], labels: Sequence[Label]
) -> dict[str, int]:
    """Counts of the source, for the card."""
    questions = [question for conversation in conversations for question in conversation.questions]
    texts = Counter((one.id, text_key(question.text)) for one in conversations for question in one.questions)
    labelled = {label.query for label in labels}
    return {
        "questions published": len(questions),
        "questions without evidence": sum(not question.evidence for question in questions),
        "questions whose evidence was repaired": sum(question.repaired for question in questions),
        "evidence of no turn, left out": sum(question.unknown for question in questions),
        "questions with evidence in several sessions, after repair": sum(
            len({turn.split(":")[0] for turn in question.evidence}) > 1 for question in questions
        ),
        "questions repeated word for word in their conversation": sum(n - 1 for n in texts.values()),
        "queries without a label": sum(query.id not in labelled for query in queries),
        "queries labelled in part": sum(query.partly_labelled for query in queries),
    }
