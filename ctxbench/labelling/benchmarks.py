"""Importers of LoCoMo, LongMemEval, LiveMCPBench, MetaTool and ToolLens.

LoCoMo: questions about ten long conversations of two people, and the turns that answer them. Source:
https://github.com/snap-research/LoCoMo (CC BY-NC 4.0), arXiv 2402.17753. The corrected questions are those of
https://github.com/dial481/locomo-audit, commit 9493fb4b4af4 (2026-04-02): of its 156 findings the 94 that name other
turns than the published labels; the corrections themselves are not used.

LongMemEval: questions about long chat histories with an assistant, and the turns that answer them. Source:
https://huggingface.co/datasets/xiaowu0162/longmemeval (MIT), arXiv 2410.10813,
https://github.com/xiaowu0162/LongMemEval.

LiveMCPBench: tasks over the tools of 70 MCP servers. https://github.com/icip-cas/LiveMCPBench (Apache-2.0), arXiv
2508.01780.

MetaTool (ToolE): requests written for one plugin tool, or for two. https://github.com/HowieHwong/MetaTool (MIT), arXiv
2310.03128.

ToolLens: short requests for several of 464 web APIs. https://github.com/quchangle1/COLT (no licence stated), arXiv
2405.16089.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.lookup import OWNER, FileImporter, SourceFile, json_entries, recipes, text_key
from ctxbench.datasets.queries import DatasetQuery, Label, group_labels, group_pairs, minimal_groups
from ctxbench.io.errors import Fault, Message, StorageError, raise_faults
from ctxbench.io.rows import Row
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.requests import Request

ANSWERABLE, OBSERVATIONS, MEMORIES = "locomo-answerable", "locomo-observations", "locomo-memory"
ADVERSARIAL = "adversarial"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)  # English in every locale

_TURN_ID = re.compile(r"D:?(\d+)[:;](\d+)")
_TIME = re.compile(r"(\d{1,2}):(\d{2}) ([ap])m on (\d{1,2}) ([A-Za-z]+), (\d{4})")


class LoCoMo(FileImporter, recipe="locomo"):
    """`locomo` (all questions over turns), `locomo-answerable` (no adversarial ones), `-observations` and `-memory`.

    A turn is a message named `<conversation>/D<session>:<turn>`. Its text is
    `(time of the session) speaker said, "text" and shared caption.`, since questions name people and times, and some
    evidence is in the caption of a picture. An observation is a memory named
    `<conversation>/obs/<session>/<speaker>/<index>`. A conversation is the scope and the group of its questions,
    which are tagged by category. In `locomo-memory` the turns are memories with workspace, time and session, and the
    questions have workspace and time instead of a scope.

    A file of the user's holds a list of conversations or one conversation. Its name is `sample_id`, else that of the
    file; sessions may be fields of its own; a turn may have `clean_text` in place of `text`, and a `date_time` such as
    `29.12.2023, 22:42:04` (REALTALK, arXiv 2502.13270). Any text that is unique in its conversation is a `dia_id`.
    """

    revision: ClassVar[int] = 2
    takes_own: ClassVar[bool] = True

    def with_own(self, folder: Path) -> Self:
        """The same importer for the user's files: the file, `locomo10.json` in the folder, or else all its `.json`.

        Raises:
            StorageError: there is no such file, or it cannot be read.
        """
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
        if not paths:
            raise StorageError(f"cannot import {folder}: no .json file in the folder")
        names = [path.name for path in paths if path.name in ("locomo10.json", folder.name)]
        names = names or [path.name for path in paths]
        files = tuple(SourceFile(path=name, published=name, size=0, sha256="") for name in names)
        return type(self)(folder, expected=replace(self._expected, files=files), is_own=True)

    def _conversations(self, *, with_observations: bool) -> list[dict[str, Any]]:
        """The conversations of all files, in the published form; those of the user's with observations only if asked.

        Raises:
            InputError: a file of the user's has another form: all faults.
        """
        if not self._is_own:
            return list(json.loads(self.read("locomo10.json").text))
        conversations, faults = [], list[Fault]()
        for file in self._expected.files:
            source = self.read(file.path)
            text = source.text if source.text.lstrip().startswith("[") else f"[{source.text}]"
            for row in json_entries(replace(source, text=text), faults, expected="conversations"):
                conversations.append(_published_form(row, source.path.stem))
                if with_observations:
                    conversations[-1]["observation"] = _checked_observations(row, conversations[-1])
        n_by_name = Counter(conversation["sample_id"] for conversation in conversations)
        faults += [Fault(Message("labelling.conversation-twice", name=x, n=n)) for x, n in n_by_name.items() if n > 1]
        raise_faults(faults, subject="LoCoMo")
        return conversations

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; about a second."""
        items: list[Item] = []
        queries: list[DatasetQuery] = []
        labels: list[Label] = []
        scopes: dict[str, tuple[ItemKey, ...]] = {}
        counted = Counter[str]()
        for entry in self._conversations(with_observations=name == OBSERVATIONS):
            conversation = entry["sample_id"]
            turns = {
                item.name.removeprefix(f"{conversation}/"): item for item in _turns(entry, as_memories=name == MEMORIES)
            }
            ids_by_text = {_plain_id(turn): turn for turn in turns} | {turn: turn for turn in turns}
            candidates = list(_observations(entry, ids_by_text) if name == OBSERVATIONS else turns.values())
            items += candidates
            keys_by_turn = (
                group_pairs((turn, item.key) for item in candidates for turn in item.metadata["turns"])
                if name == OBSERVATIONS
                else {turn: [item.key] for turn, item in turns.items()}
            )
            fields: dict[str, Any] = {"conversation": conversation, "available": tuple(item.key for item in candidates)}
            if name == MEMORIES:
                end = max(datetime.fromisoformat(str(item.created)) for item in candidates)
                fields = {"workspace": conversation, "time": (end + timedelta(days=1)).isoformat()}
            else:
                scopes[conversation] = fields["available"]
            is_published = name == MEMORIES and not self._is_own
            disputed = recipes()["locomo"]["disputed"].get(conversation, ()) if is_published else ()
            for number, question in enumerate(entry["qa"]):
                category, query = CATEGORIES[question["category"]], f"{conversation}/q{number}"
                if name == ANSWERABLE and category == ADVERSARIAL:
                    continue
                ids = _turn_ids(question["evidence"], ids_by_text)
                is_unresolved = not turns.keys() >= set(ids)
                keys = [keys_by_turn.get(turn, []) for turn in ids if turn in turns]
                query_labels, is_complete = _labels(query, keys, "derived" if name == OBSERVATIONS else OWNER)
                labels += query_labels
                counted["evidence of no turn, left out"] += len(set(ids) - turns.keys())
                counted["queries without a label"] += not query_labels
                counted["queries labelled in part"] += bool(query_labels) and (is_unresolved or not is_complete)
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
        counts = {"questions published": len(queries), **counted} if self._is_own else None
        return self.dataset(name, items, queries, labels, scopes=scopes, counted=counts)


def _published_form(entry: Row, file_name: str) -> dict[str, Any]:
    """A conversation of the user's as LoCoMo publishes them, without what is noted as a fault."""
    fields: Any = entry.data.get("conversation", entry.data)
    sessions: dict[str, Any] = {}
    ids, has_turns = set[str](), False
    for number, turns in _sessions(fields if isinstance(fields, dict) else {}, r"session_(\d+)"):
        session = f"session_{number}"
        session_time = fields.get(f"{session}_date_time")
        sessions[session] = []
        for index, turn in enumerate(turns if isinstance(turns, list) else [turns], start=1):
            has_turns = True
            data = entry.nested(turn).data
            time = data.get("date_time") or session_time
            data = {
                **data,
                "text": data.get("text", data.get("clean_text")),
                "date_time": data.get("date_time") or None,
            }
            where = {"name": file_name, "session": session, "turn": index}
            id_ = data.get("dia_id")
            if missing := [name for name in ("text", "speaker", "dia_id") if not isinstance(data.get(name), str)]:
                names = "text (or clean_text)" if missing == ["text"] else " and ".join(missing)
                entry.fault(Message("labelling.locomo-turn", **where, missing=names, got=turn))
            elif id_ in ids:
                entry.fault(Message("labelling.turn-twice", **where, id=id_))
            elif not _is_time(time):
                entry.fault(Message("labelling.turn-time", **where, time=time))
            else:
                sessions[session].append(data)
                ids.add(str(id_))
        first = sessions[session][0]["date_time"] if sessions[session] else None
        sessions[f"{session}_date_time"] = session_time if _is_time(session_time) else first
    if not has_turns:
        entry.fault(Message("labelling.no-sessions", name=file_name))
    questions = entry.take("qa", list, [], required=True)
    for index, question in enumerate(questions, start=1):
        data = entry.nested(question).data
        text, category, evidence = (data.get(name) for name in ("question", "category", "evidence"))
        is_list = isinstance(evidence, list) and all(isinstance(turn, str) for turn in evidence)
        if not isinstance(text, str) or category not in tuple(CATEGORIES) or not is_list:
            entry.fault(Message("labelling.locomo-question", name=file_name, index=index, got=question))
    name = entry.filled("sample_id") or file_name
    return {"sample_id": name, "conversation": sessions, "observation": {}, "qa": questions}


def _checked_observations(entry: Row, conversation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The observations of a conversation of the user's; a fault for each session that has them in another form."""
    observations: Mapping[str, Any] = entry.take("observation", dict, {})
    for number, speakers in _sessions(observations, r"session_(\d+)_observation"):
        session = f"session_{number}"
        has_form = isinstance(speakers, dict) and all(
            isinstance(facts, list) and all(map(_is_observation, facts)) for facts in speakers.values()
        )
        if not has_form or conversation["conversation"].get(f"{session}_date_time") is None:
            name = conversation["sample_id"]
            entry.fault(Message("labelling.locomo-observation", name=name, session=session, got=speakers))
    return observations


def _is_observation(fact: Any) -> bool:
    """Whether a value is a text with the id of a turn, or with a list of these."""
    match fact:
        case [str(), str()]:
            return True
        case [str(), [*ids]]:
            return all(isinstance(id_, str) for id_ in ids)
    return False


def _sessions(mapping: Mapping[str, Any], pattern: str) -> Iterator[tuple[int, Any]]:
    """The values of keys with a pattern, by the number in the key."""
    matches = [(match, value) for key, value in mapping.items() if (match := re.fullmatch(pattern, key))]
    yield from sorted(((int(match[1]), value) for match, value in matches), key=lambda session: session[0])


def _time_of(text: str) -> datetime:
    """A time such as `1:56 pm on 8 May, 2023` or `29.12.2023, 22:42:04`.

    Raises:
        ValueError: it is another text.
    """
    if match := _TIME.search(text):
        hour, minute, half, day, month, year = match.groups()
        hours = int(hour) % 12 + (12 if half == "p" else 0)
        return datetime(int(year), MONTHS.index(month.lower()) + 1, int(day), hours, int(minute))  # noqa: DTZ001
    return datetime.strptime(text, "%d.%m.%Y, %H:%M:%S")  # noqa: DTZ007


def _is_time(value: object) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and bool(_time_of(value))
    return False


def _turns(entry: Mapping[str, Any], *, as_memories: bool) -> Iterator[Item]:
    """The turns of a conversation, in order; as memories, turns with the time of their session are a second apart."""
    conversation = entry["sample_id"]
    for session, turns in _sessions(entry["conversation"], r"session_(\d+)"):
        session_time = entry["conversation"].get(f"session_{session}_date_time")
        for index, turn in enumerate(turns):
            time = _time_of(turn.get("date_time") or session_time)
            picture = f" and shared {turn['blip_caption']}." if turn.get("blip_caption") else ""
            name, speaker = f"{conversation}/{turn['dia_id']}", turn["speaker"]
            text = f'({_written(time)}) {speaker} said, "{turn["text"]}"{picture}'
            if as_memories:
                yield Item(
                    type="memory",
                    name=name,
                    text=text,
                    metadata={"speaker": speaker},
                    kind="turn",
                    workspace=conversation,
                    conversation=f"{conversation}/session_{session}",
                    created=(time + timedelta(seconds=0 if turn.get("date_time") else index)).isoformat(),
                )
            else:
                metadata = {"conversation": conversation, "speaker": speaker, "time": time.isoformat()}
                yield Item(type="message", name=name, text=text, metadata=metadata)


def _written(time: datetime) -> str:
    """A time as LoCoMo writes it."""
    half = "pm" if time.hour >= 12 else "am"
    return f"{time.hour % 12 or 12}:{time.minute:02} {half} on {time.day} {MONTHS[time.month - 1].title()}, {time.year}"


def _observations(entry: Mapping[str, Any], ids_by_text: Mapping[str, str]) -> Iterator[Item]:
    """The sentences that a model wrote about turns, with the ids of the turns."""
    conversation = entry["sample_id"]
    for session, speakers in _sessions(entry["observation"], r"session_(\d+)_observation"):
        time = _time_of(entry["conversation"][f"session_{session}_date_time"]).isoformat()
        for speaker, facts in speakers.items():
            for index, (text, turns) in enumerate(facts):
                ids = _turn_ids(turns if isinstance(turns, list) else [turns], ids_by_text)
                metadata = {"conversation": conversation, "speaker": speaker, "time": time, "turns": list(ids)}
                yield Item(
                    type="memory", name=f"{conversation}/obs/{session}/{speaker}/{index}", text=text, metadata=metadata
                )


def _turn_ids(texts: Iterable[str], ids_by_text: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of turns that texts name, each once, in order.

    A text that is an id names that turn; of others, such as `D8:6; D9:17`, `D:11:26` and `D30:05`, each part of that
    form names one. What names no turn is returned as it is.
    """
    ids = dict[str, None]()
    for text in texts:
        parts = [] if text in ids_by_text else [_plain_id(match[0]) for match in _TURN_ID.finditer(text)]
        ids.update(dict.fromkeys(ids_by_text.get(part, part) for part in parts or [text]))
    return tuple(ids)


def _plain_id(text: str) -> str:
    """An id such as `D:30:05` as `D30:5`; others as they are."""
    match = _TURN_ID.fullmatch(text)
    return f"D{int(match[1])}:{int(match[2])}" if match else text


def _labels(query: str, keys: list[list[ItemKey]], source: str) -> tuple[list[Label], bool]:
    """Labels for the items of each turn of the evidence, and whether every turn has one.

    The observations of one turn are alternatives. A turn that implies another replaces it; other turns that share an
    observation are left unlabelled.
    """
    groups, _, overlap = minimal_groups(keys)
    n_groups = Counter(key for group in groups for key in group)
    separate = [group if all(n_groups[key] == 1 for key in group) else [] for group in groups]
    return list(group_labels(query, separate, name="turn", source=source)), all(keys) and not overlap


ABSTENTION = "_abs"  # the end of ids of questions without an answer in the history


@dataclass(frozen=True, slots=True, kw_only=True)
class _HistoryQuestion:
    """One question, with the turns of its history by time, and the turns that answer it."""

    query: DatasetQuery
    turns: Sequence[Item]
    evidence: Sequence[Item]
    repeated: int  # sessions with a repeated id


class LongMemEvalOracle(FileImporter, recipe="longmemeval-oracle"):
    """`longmemeval-oracle`: histories with the sessions that have evidence only.

    A turn is a memory of kind `turn` named `<question>/<session>/<number>`, with the question as workspace and
    `<question>/<session>` as conversation. Turns of a session are created one second apart. The time of a query is its
    question's date; its tag is the question's type.
    """

    takes_own = True

    def make(self, name: str) -> Dataset:
        """Make the dataset; the whole file is read into memory."""
        (file,) = self.source.files
        faults: list[Fault] = []
        entries = json_entries(self.read(file.path), faults, expected="questions with haystack_sessions")
        questions = [question for entry in entries if (question := _read_longmemeval_question(entry)) is not None]
        n_by_id = Counter(question.query.request.id for question in questions)
        faults += [Fault(Message("labelling.question-twice", name=id_, n=n)) for id_, n in n_by_id.items() if n > 1]
        raise_faults(faults, subject="LongMemEval")
        return self.dataset(
            name,
            [turn for question in questions for turn in question.turns],
            [question.query for question in questions],
            [
                Label(question.query.request.id, item.key, Grade.REQUIRED, source=OWNER)
                for question in questions
                for item in question.evidence
            ],
            counted=_longmemeval_counts(questions),
        )


class LongMemEvalS(LongMemEvalOracle, recipe="longmemeval-s"):
    """`longmemeval-s`: about 50 sessions per history."""


class LongMemEvalM(LongMemEvalOracle, recipe="longmemeval-m"):
    """`longmemeval-m`: about 500 sessions per history; a file of 2.7 GB."""


def _read_longmemeval_question(entry: Row) -> _HistoryQuestion | None:
    """A question with its history; None if it cannot be read."""
    n_faults = len(entry.faults)
    id_, text, type_ = (entry.take(x, str, "", required=True) for x in ("question_id", "question", "question_type"))
    time = _longmemeval_time(
        entry.take("question_date", str, "", required=True), f"question {id_!r}, question_date", entry
    )
    names = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
    columns = [entry.take(name, list, [], required=True) for name in names]
    if len(lengths := {len(column) for column in columns}) > 1:
        entry.fault(Message("labelling.question-lengths", name=id_, columns=names, got=sorted(lengths)))
    if len(entry.faults) > n_faults or time is None:
        return None
    history, n_by_id = [], Counter[str]()
    for session, date, turns in zip(*columns, strict=True):
        where = f"question {id_!r}, session {session!r:.60}"
        start = _longmemeval_time(date, f"{where}, date", entry)
        if not isinstance(session, str) or not session or not isinstance(turns, list):
            entry.fault(Message("labelling.session-form", where=where, got=turns))
        elif start is not None:
            n_by_id[session] += 1
            name = session if n_by_id[session] == 1 else f"{session}~{n_by_id[session]}"
            history.append((start, _read_session(turns, (id_, name, start), where, entry)))
    turns_by_time = [turn for _, turns in sorted(history, key=lambda row: row[0]) for turn in turns]
    unanswered, group = id_.endswith(ABSTENTION), id_.removesuffix(ABSTENTION)
    request = Request(id=id_, text=text, workspace=id_, time=time.isoformat())
    marked = [] if unanswered else [item for item, is_marked in turns_by_time if is_marked]
    evidence = [item for item in marked if str(item.created) <= str(request.time)]  # both in one form
    query = DatasetQuery(
        request=request,
        split=split_of(group),
        group=group,
        tags=(type_, "abstention") if unanswered else (type_,),
        needs_nothing=unanswered,
        partly_labelled=len(evidence) < len(marked),  # later turns are no evidence
    )
    turns, repeated = [item for item, _ in turns_by_time], sum(n_by_id.values()) - len(n_by_id)
    return _HistoryQuestion(query=query, turns=turns, evidence=evidence, repeated=repeated)


def _read_session(
    turns: Sequence[Any], session_key: tuple[str, str, datetime], where: str, entry: Row
) -> list[tuple[Item, bool]]:
    """The turns of a session (question, name, time), each with whether it is marked as evidence."""
    question, session, start = session_key
    marked_items = []
    for number, turn in enumerate(turns, start=1):
        fields = turn if isinstance(turn, dict) else {}
        role, content, marked = fields.get("role"), fields.get("content"), fields.get("has_answer") or False
        if role not in ("user", "assistant") or not isinstance(content, str) or not isinstance(marked, bool):
            entry.fault(Message("labelling.turn-form", where=where, turn=number, got=turn))
            continue
        item = Item(
            type="memory",
            name=f"{question}/{session}/{number}",
            text=content,
            workspace=question,
            kind="turn",
            conversation=f"{question}/{session}",
            created=(start + timedelta(seconds=number - 1)).isoformat(),
            metadata={"speaker": role},
        )
        marked_items.append((item, marked))
    return marked_items


def _longmemeval_time(value: Any, where: str, entry: Row) -> datetime | None:
    """A time such as `2023/05/30 (Tue) 23:40`."""
    try:
        return datetime.strptime(re.sub(r" \(\w+\)", "", value), "%Y/%m/%d %H:%M")  # noqa: DTZ007
    except (TypeError, ValueError):
        entry.fault(Message("labelling.longmemeval-time", where=where, got=value))
        return None


def _longmemeval_counts(questions: Sequence[_HistoryQuestion]) -> dict[str, int]:
    """Counts of the source, for the card."""
    answered = [question for question in questions if not question.query.needs_nothing]
    unmarked = [question for question in answered if not question.evidence and not question.query.partly_labelled]
    return {
        "questions published": len(questions),
        "questions that need nothing": len(questions) - len(answered),
        "questions without a marked turn": len(unmarked),
        "questions with late marked turns": sum(question.query.partly_labelled for question in answered),
        "sessions with a repeated id": sum(question.repeated for question in questions),
    }


_LISTED_NAME = re.compile(r"^\s*\d+\.\s*(\S.*?)\s*$", re.MULTILINE)  # `1. write_file`


class LiveMCPBench(FileImporter, recipe="livemcpbench"):
    """`livemcpbench` (names are alternatives), `livemcpbench-unique` (clean tasks only) and `livemcpbench-expand`.

    All have 95 tasks over the same 527 tools; they differ in their labels. Tools have the server key of the source as
    server.
    """

    revision: ClassVar[int] = 2

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; well under a second."""
        items = [
            Item(
                type="tool",
                server=server,
                name=tool["name"],
                description=tool.get("description") or "",
                schema=tool.get("inputSchema"),
                metadata={"server_title": entry["name"], "category": entry["category"]},
            )
            for entry in json.loads(self.read("tools.json").text)
            for server, definition in entry["tools"].items()
            for tool in definition["tools"]
        ]
        keys_by_name = group_pairs((item.name, item.key) for item in items)
        queries, labels = [], []
        for task in json.loads(self.read("all_annotations.json").text):
            names = dict.fromkeys(_LISTED_NAME.findall(task["Annotator Metadata"]["Tools"]))
            keys = {tool: keys_by_name.get(tool, []) for tool in names}
            is_unresolved = not all(keys.values())
            if name == "livemcpbench-unique" and any(len(same_name) != 1 for same_name in keys.values()):
                keys = {}
            for tool, same_name in keys.items():
                group = tool if name == "livemcpbench" and len(same_name) > 1 else ""
                labels += [
                    Label(task["task_id"], key, Grade.REQUIRED, alternatives=group, source=OWNER) for key in same_name
                ]
            queries.append(
                DatasetQuery(
                    request=Request(id=task["task_id"], text=task["Question"]),
                    split=split_of(task["task_id"]),
                    tags=(task["category"].lower(), *(["unresolved"] if is_unresolved else [])),
                    partly_labelled=is_unresolved and any(keys.values()),
                )
            )
        return self.dataset(name, items, queries, labels)


SINGLE = "metatool-single"


class MetaTool(FileImporter, recipe="metatool"):
    """`metatool-single` (one tool is enough) and `metatool-multi` (two are needed), over the same 199 tools.

    Tools have no server. Queries are tagged `plugin` or `merged-tool` by their tools: single plugins, or several merged
    by the authors. Query ids are `s<row>` and `m<index>`, 0-based; merged rows have the id and text of their first.
    """

    def make(self, name: str) -> Dataset:
        """Make one of the datasets; about a second."""
        items = [
            Item(type="tool", name=tool, description=text)
            for tool, text in json.loads(self.read("plugin_des.json").text).items()
        ]
        merged_tools = json.loads(self.read("big_tool_des.json").text)
        queries, labels = [], []
        for query_id, text, tools in self._single() if name == SINGLE else self._multi():
            kinds = dict.fromkeys("merged-tool" if tool in merged_tools else "plugin" for tool in tools)
            queries.append(
                DatasetQuery(request=Request(id=query_id, text=text), split=split_of(query_id), tags=tuple(kinds))
            )
            group = "rows" if name == SINGLE and len(tools) > 1 else ""
            labels += [
                Label(query_id, ItemKey("tool", None, tool), Grade.REQUIRED, alternatives=group, source=OWNER)
                for tool in tools
            ]
        return self.dataset(name, items, queries, labels)

    def _multi(self) -> list[tuple[str, str, list[str]]]:
        """The id, text and tools of each request for two tools."""
        pairs = json.loads(self.read("multi_tool_query_golden.json").text)
        return [(f"m{index}", pair["query"], pair["tool"]) for index, pair in enumerate(pairs)]

    def _single(self) -> list[tuple[str, str, list[str]]]:
        """The id, text and tools of each request for one tool; rows with the same text (see `text_key`) are one."""
        rows = csv.DictReader(io.StringIO(self.read("all_clean_data.csv").text, newline=""))
        groups = group_pairs((text_key(row["Query"]), (index, row)) for index, row in enumerate(rows))
        return [
            (f"s{group[0][0]}", group[0][1]["Query"], list(dict.fromkeys(row["Tool"] for _, row in group)))
            for group in groups.values()
        ]


QRELS = {"tuning": "qrels/train.tsv", "test": "qrels/test.tsv"}

_API = re.compile(
    r"category_name:(?P<category>.*?), tool_name:(?P<tool>.*?), api_name:(?P<api>.*?), "
    r"api_description:(?P<description>.*?), required_params: (?P<parameters>.*)",
    re.DOTALL,
)
_TYPES = {"STRING": "string", "NUMBER": "number", "BOOLEAN": "boolean", "OBJECT": "object", "ARRAY": "array"}


class ToolLens(FileImporter, recipe="toollens"):
    """`toollens`: items are APIs, tools named `<tool_name> <api_name>` without a server.

    Ids of queries are published ones; published ids of items are in their metadata.
    """

    def make(self, name: str) -> Dataset:
        """Make the dataset; about two seconds."""
        items = {entry["_id"]: _read_item(entry) for entry in self._rows("corpus.jsonl")}
        splits: dict[str, str] = {}
        labels = []
        for split, path in QRELS.items():
            for line in dict.fromkeys(self.read(path).text.splitlines()[1:]):  # some rows are repeated
                query, item, _ = line.split("\t")
                splits[query] = split
                labels.append(Label(query, items[item].key, Grade.REQUIRED, source=OWNER))
        queries = [
            DatasetQuery(
                request=Request(id=row["_id"], text=row["text"]), split=splits.get(row["_id"]) or split_of(row["_id"])
            )
            for row in self._rows("queries.jsonl")
        ]
        return self.dataset(name, items.values(), queries, labels)

    def _rows(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(path).text.strip().split("\n")]


def _read_item(entry: dict[str, Any]) -> Item:
    """An API from its flat text with parameters as JSON."""
    fields = next(_API.finditer(entry["text"]))
    decoder = json.JSONDecoder()
    required, end = decoder.raw_decode(fields["parameters"])
    optional, _ = decoder.raw_decode(fields["parameters"][end:].partition("optional_params: ")[2])
    properties = {
        parameter["name"]: {
            "type": _TYPES.get(parameter["type"].upper(), "string"),  # also dates and choices
            "description": parameter["description"],
        }
        for parameter in [*required, *optional]
    }
    return Item(
        type="tool",
        name=f"{fields['tool']} {fields['api']}",
        description=fields["description"],
        schema={
            "type": "object",
            "properties": properties,
            "required": [parameter["name"] for parameter in required],
        },
        metadata={"id": entry["_id"], "category": fields["category"], "tool": fields["tool"], "api": fields["api"]},
    )
