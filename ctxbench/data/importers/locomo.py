"""LoCoMo: questions about ten long conversations of two people, with the turns that answer them.

Source: https://github.com/snap-research/LoCoMo (CC BY-NC 4.0), arXiv 2402.17753.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from ctxbench.core.items import Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label, group_labels, minimal_groups
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.published_files import OWNER, FileImporter, recipes

ANSWERABLE, OBSERVATIONS, MEMORIES = "locomo-answerable", "locomo-observations", "locomo-memory"
ADVERSARIAL = "adversarial"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)  # English whatever the machine's language

_TURN_ID = re.compile(r"D:?(\d+):(\d+)")
_TIME = re.compile(r"(\d{1,2}):(\d{2}) ([ap])m on (\d{1,2}) ([A-Za-z]+), (\d{4})")


class LoCoMo(FileImporter, recipe="locomo"):
    """`locomo` (all questions over turns), `locomo-answerable` (no adversarial ones), `-observations` and `-memory`.

    A turn is a message named `<conversation>/D<session>:<turn>`. Its text is
    `(time of the session) speaker said, "text" and shared caption.`, since questions name people and times, and some
    evidence is in the caption of a picture. An observation is a memory named
    `<conversation>/obs/<session>/<speaker>/<index>`. A conversation is the scope and the group of its questions,
    which are tagged by category. In `locomo-memory` the turns are memories with workspace, time and session, and the
    questions have workspace and time instead of a scope.
    """

    revision: ClassVar[int] = 2

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; about a second."""
        items: list[Item] = []
        queries: list[DatasetQuery] = []
        labels: list[Label] = []
        scopes: dict[str, tuple[ItemKey, ...]] = {}
        for entry in json.loads(self.read("locomo10.json").text):
            conversation = entry["sample_id"]
            turns = {item.name.partition("/")[2]: item for item in _turns(entry, as_memories=name == MEMORIES)}
            candidates = list(_observations(entry) if name == OBSERVATIONS else turns.values())
            items += candidates
            keys_by_turn = {turn: [item.key] for turn, item in turns.items()}
            if name == OBSERVATIONS:
                keys_by_turn = group_pairs((turn, item.key) for item in candidates for turn in item.metadata["turns"])
            fields: dict[str, Any] = {"conversation": conversation, "available": tuple(item.key for item in candidates)}
            if name == MEMORIES:
                end = max(datetime.fromisoformat(str(item.created)) for item in candidates)
                fields = {"workspace": conversation, "time": (end + timedelta(days=1)).isoformat()}
            else:
                scopes[conversation] = fields["available"]
            disputed = recipes()["locomo"]["disputed"].get(conversation, ()) if name == MEMORIES else ()
            for number, question in enumerate(entry["qa"]):
                category, query = CATEGORIES[question["category"]], f"{conversation}/q{number}"
                if name == ANSWERABLE and category == ADVERSARIAL:
                    continue
                ids = _turn_ids(question["evidence"])
                is_unresolved = not turns.keys() >= set(ids) or not all(map(_TURN_ID.search, question["evidence"]))
                keys = [keys_by_turn.get(turn, []) for turn in ids if turn in turns]
                query_labels, is_complete = _labels(query, keys, "derived" if name == OBSERVATIONS else OWNER)
                labels += query_labels
                tags = {category: True, "unresolved": is_unresolved, "disputed": number in disputed}
                queries.append(
                    DatasetQuery(
                        request=Request(id=query, text=question["question"], **fields),
                        split=split_of(conversation),
                        group=conversation,
                        tags=tuple(tag for tag, applies in tags.items() if applies),
                        scope=conversation if conversation in scopes else None,
                        partly_labelled=bool(query_labels) and (is_unresolved or not is_complete),
                    )
                )
        return self.dataset(name, items, queries, labels, scopes=scopes)


def _sessions(mapping: Mapping[str, Any], pattern: str) -> Iterator[tuple[int, Any]]:
    """The numbers in the keys of a pattern, ascending, with the values: the file does not promise an order."""
    matches = [(match, value) for key, value in mapping.items() if (match := re.fullmatch(pattern, key))]
    yield from sorted(((int(match[1]), value) for match, value in matches), key=lambda session: session[0])


def _time(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023`."""
    hour, minute, half, day, month, year = next(_TIME.finditer(text)).groups()
    hours = int(hour) % 12 + (12 if half == "p" else 0)
    return datetime(int(year), MONTHS.index(month.lower()) + 1, int(day), hours, int(minute))  # noqa: DTZ001


def _turns(entry: Mapping[str, Any], *, as_memories: bool) -> Iterator[Item]:
    """The turns of a conversation, in order; as memories, those of a session are a second apart."""
    conversation = entry["sample_id"]
    for session, turns in _sessions(entry["conversation"], r"session_(\d+)"):
        published_time = entry["conversation"][f"session_{session}_date_time"]
        time = _time(published_time)
        for index, turn in enumerate(turns):
            picture = f" and shared {turn['blip_caption']}." if turn.get("blip_caption") else ""
            name, speaker = f"{conversation}/{turn['dia_id']}", turn["speaker"]
            text = f'({published_time}) {speaker} said, "{turn["text"]}"{picture}'
            if as_memories:
                yield Item(
                    type="memory",
                    name=name,
                    text=text,
                    metadata={"speaker": speaker},
                    kind="turn",
                    workspace=conversation,
                    conversation=f"{conversation}/session_{session}",
                    created=(time + timedelta(seconds=index)).isoformat(),
                )
            else:
                metadata = {"conversation": conversation, "speaker": speaker, "time": time.isoformat()}
                yield Item(type="message", name=name, text=text, metadata=metadata)


def _observations(entry: Mapping[str, Any]) -> Iterator[Item]:
    """The sentences that a model made of turns, with the ids of these."""
    conversation = entry["sample_id"]
    for session, speakers in _sessions(entry["observation"], r"session_(\d+)_observation"):
        time = _time(entry["conversation"][f"session_{session}_date_time"]).isoformat()
        for speaker, facts in speakers.items():
            for index, (text, turns) in enumerate(facts):
                ids = _turn_ids(turns if isinstance(turns, list) else [turns])
                metadata = {"conversation": conversation, "speaker": speaker, "time": time, "turns": list(ids)}
                name = f"{conversation}/obs/{session}/{speaker}/{index}"
                yield Item(type="memory", name=name, text=text, metadata=metadata)


def _turn_ids(texts: Iterable[str]) -> tuple[str, ...]:
    """The ids of turns in texts such as `D8:6; D9:17`, `D:11:26` and `D30:05`, each once, in order."""
    ids = (match for text in texts for match in _TURN_ID.findall(text))
    return tuple(dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in ids))


def _labels(query: str, keys: list[list[ItemKey]], source: str) -> tuple[list[Label], bool]:
    """Labels for the items of each turn of the evidence, and whether every turn has one.

    The observations of one turn are alternatives. A turn whose observations imply those of another is enough; turns
    that share an observation otherwise cannot be expressed, and are left unlabelled.
    """
    groups, _, overlap = minimal_groups(keys)
    n_groups = Counter(key for group in groups for key in group)
    separate = [group if all(n_groups[key] == 1 for key in group) else [] for group in groups]
    return list(group_labels(query, separate, name="turn", source=source)), all(keys) and not overlap
