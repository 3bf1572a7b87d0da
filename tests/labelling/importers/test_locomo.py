"""LoCoMo: what a made-up source becomes, how evidence is repaired, and the published counts."""

from __future__ import annotations

import copy
import json

import pytest

from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.lookup import import_own
from ctxbench.io.errors import InputError, StorageError, message_code
from ctxbench.labelling.benchmarks import LoCoMo


def turn(dia_id, text, speaker="Ann", **more):
    return {"speaker": speaker, "dia_id": dia_id, "text": text, **more}


def question(text, category, *evidence):
    return {"question": text, "answer": 1, "category": category, "evidence": list(evidence)}


CHAT = {
    "sample_id": "c1",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bo",
        "session_10_date_time": "12:05 am on 1 March, 2024",
        "session_10": [turn("D10:1", "Late.", "Bo")],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [turn("D2:1", "Hi."), turn("D2:2", "Look!", "Bo", blip_caption="a dog", img_url=["x"])],
        "session_11_date_time": "12:30 pm on 2 March, 2024",
    },
    "observation": {
        "session_2_observation": {"Ann": [["Ann says hi.", "D2:1"], ["Both met.", ["D2:1", "D2:2"]]], "Bo": []},
        "session_10_observation": {"Bo": [["Bo is late.", "D10:1, D10:01"], ["Bo is tired.", "D10:1"]]},
    },
    "qa": [
        question("Who greets?", 4, "D2:1"),
        question("What dog and when?", 1, "D2:2; D10:01", "D:10:1"),
        question("Why?", 3),
        question("Who  GREETS?", 5, "D", "D9:9", "D2:1", "D2:1"),
        question("Lost?", 2, "D9:9"),
    ],
}


def other():
    chat = json.loads(json.dumps(CHAT).replace('"c1"', '"c2"'))
    return {**chat, "observation": {}, "qa": chat["qa"][:1]}


@pytest.fixture
def make(made_up):
    def load(name="locomo", chats=None):
        text = chats if isinstance(chats, str) else json.dumps(chats or [CHAT, other()])
        return made_up(LoCoMo, {"locomo10.json": text}).load(name)

    return load


def test_turns_are_messages_in_the_order_of_their_sessions(make):
    catalog = make().catalog
    assert catalog.ids[:4] == (
        "message:c1%2FD2%3A1",
        "message:c1%2FD2%3A2",
        "message:c1%2FD10%3A1",
        "message:c2%2FD2%3A1",
    )
    assert [item.text for item in catalog][:3] == [
        '(1:56 pm on 8 May, 2023) Ann said, "Hi."',
        '(1:56 pm on 8 May, 2023) Bo said, "Look!" and shared a dog.',
        '(12:05 am on 1 March, 2024) Bo said, "Late."',
    ]
    times = [item.metadata["time"] for item in catalog][:3]
    assert times == ["2023-05-08T13:56:00", "2023-05-08T13:56:00", "2024-03-01T00:05:00"]


def test_evidence_is_repaired_and_what_is_no_turn_is_left_out(make, required):
    dataset = make()
    assert required(dataset) == {
        "c1/q0": ["message:c1%2FD2%3A1"],
        "c1/q1": ["message:c1%2FD2%3A2", "message:c1%2FD10%3A1"],
        "c1/q2": [],
        "c1/q3": ["message:c1%2FD2%3A1"],
        "c1/q4": [],
        "c2/q0": ["message:c2%2FD2%3A1"],
    }
    assert dataset.unlabelled == ("c1/q2", "c1/q3", "c1/q4")
    partly = [query.id for query in dataset.queries if query.partly_labelled]
    assert partly == ["c1/q3"]
    assert {q.id: q.tags for q in dataset.queries}["c1/q3"] == ("adversarial", "unresolved")


def test_a_query_may_get_its_own_conversation_only_and_stays_with_it(make):
    dataset = make()
    assert dataset.batch().eligible.counts().tolist() == [3] * 6
    assert dataset.batch().eligible[-1].tolist() == [False] * 3 + [True] * 3
    for query in dataset.queries:
        conversation = query.id.split("/")[0]
        assert (query.group, query.scope, query.request.conversation) == (conversation,) * 3
        assert query.split == split_of(conversation)


def test_adversarial_questions_can_be_left_out(make):
    kept = {query.id for query in make().queries} - {"c1/q3"}
    assert {query.id for query in make("locomo-answerable").queries} == kept


def test_observations_of_one_turn_are_alternatives_and_missing_ones_leave_a_query_out(make, required):
    dataset = make("locomo-observations")
    ann, both, late, tired = (
        f"memory:c1%2Fobs%2F{name}" for name in ("2%2FAnn%2F0", "2%2FAnn%2F1", "10%2FBo%2F0", "10%2FBo%2F1")
    )
    assert dataset.catalog.ids == (ann, both, late, tired)
    assert required(dataset) == {
        "c1/q0": [f"{ann}|{both}"],
        "c1/q1": [both, f"{late}|{tired}"],
        "c1/q2": [],
        "c1/q3": [f"{ann}|{both}"],
        "c1/q4": [],
        "c2/q0": [],
    }
    chat = copy.deepcopy(CHAT)
    del chat["observation"]["session_10_observation"]
    dataset = make("locomo-observations", [chat])
    assert [query.id for query in dataset.queries if query.partly_labelled] == ["c1/q1", "c1/q3"]
    assert required(dataset)["c1/q1"] == [both]
    assert "c1/q1" in dataset.unlabelled


def test_an_observation_of_two_turns_that_one_needs_meets_both(make, required):
    chat = copy.deepcopy(CHAT)
    chat["qa"] = [question("Both?", 1, "D2:1", "D2:2")]  # the first has two observations, the second only one of them
    (groups,) = required(make("locomo-observations", [chat])).values()
    assert groups == ["memory:c1%2Fobs%2F2%2FAnn%2F1"]


def test_memories_have_times_sessions_and_speakers(make, required):
    dataset = make("locomo-memory")
    hi, look, late, other, *_ = dataset.catalog
    told = (hi.type, hi.name, hi.kind, hi.workspace, hi.conversation)
    assert told == ("memory", "c1/D2:1", "turn", "c1", "c1/session_2")
    times = ["2023-05-08T13:56:00", "2023-05-08T13:56:01", "2024-03-01T00:05:00"]
    assert [one.created for one in (hi, look, late)] == times
    assert (look.metadata, late.conversation, other.workspace) == ({"speaker": "Bo"}, "c1/session_10", "c2")
    assert [item.text for item in dataset.catalog] == [item.text for item in make().catalog]
    assert required(dataset)["c1/q1"] == ["memory:c1%2FD2%3A2", "memory:c1%2FD10%3A1"]
    assert dataset.unlabelled == make().unlabelled


def test_questions_to_memories_are_asked_a_day_after_the_last_turn_of_their_workspace(make):
    dataset = make("locomo-memory")
    assert dataset.scopes == {}
    assert dataset.batch().eligible.counts().tolist() == [3] * 6
    assert {query.request.time for query in dataset.queries} == {"2024-03-02T00:05:00"}
    for query, plain in zip(dataset.queries, make().queries, strict=True):
        assert (query.id, query.group, query.tags, query.split) == (plain.id, plain.group, plain.tags, plain.split)
        assert (query.request.workspace, query.request.available, query.scope) == (query.group, None, None)


def test_questions_whose_evidence_is_disputed_are_tagged_among_memories_alone(make):
    chat = copy.deepcopy(CHAT)
    chat["sample_id"] = "conv-26"  # whose questions 1 and 4 are
    tagged = [query.id for query in make("locomo-memory", [chat]).queries if "disputed" in query.tags]
    assert tagged == [f"conv-26/q{number}" for number in (1, 4) if number < len(chat["qa"])]
    assert not any("disputed" in query.tags for query in make("locomo", [chat]).queries)


def said(dia_id, text, time, speaker="Cy", **more):
    """A turn with the fields of REALTALK."""
    fields = {"clean_text": text, "date_time": time, "img_file": [], "img_url": []}
    return {"speaker": speaker, "dia_id": dia_id, **fields, **more}


CHAT_OF_PEOPLE = {
    "name": {"speaker_1": "Cy", "speaker_2": "Di"},
    "session_1": [
        said("D1:1", "Made soup?", "29.12.2023, 22:42:04"),
        said("D1:2", "Leek soup.", "29.12.2023, 22:45:00", "Di", blip_caption="a bowl"),
    ],
    "session_1_date_time": "29.12.2023",
    "events_session_1": {"Cy": []},
    "session_2": [said("D2:1", "Bus was late.", "30.12.2023, 08:01:09")],
    "qa": [
        question("Which soup?", 1, "D1:2", "D1;1"),
        question("Late when?", 2, "D2:1", "D2:7", ""),
        question("Lost?", 3, "D9:9"),
    ],
}


@pytest.fixture
def own(tmp_path):
    def load(name="locomo-memory", **chats):
        for file, chat in chats.items():
            (tmp_path / f"{file}.json").write_text(json.dumps(chat))
        return import_own(name, tmp_path, called="mine")

    return load


def test_a_folder_of_chats_with_the_fields_of_realtalk(own, required):
    second = {**CHAT_OF_PEOPLE, "qa": [question("Soup?", 3, "D1:1")]}
    dataset = own(Chat_1=CHAT_OF_PEOPLE, Chat_2=second)
    soup, leek, bus, *others = dataset.catalog
    assert soup.text == '(10:42 pm on 29 December, 2023) Cy said, "Made soup?"'
    assert leek.text == '(10:45 pm on 29 December, 2023) Di said, "Leek soup." and shared a bowl.'
    assert [item.created for item in (soup, leek, bus)] == [
        *("2023-12-29T22:42:04", "2023-12-29T22:45:00", "2023-12-30T08:01:09"),
    ]
    assert (bus.name, bus.workspace, bus.conversation) == ("Chat_1/D2:1", "Chat_1", "Chat_1/session_2")
    assert [item.workspace for item in others] == ["Chat_2"] * 3
    assert required(dataset) == {
        "Chat_1/q0": ["memory:Chat_1%2FD1%3A1", "memory:Chat_1%2FD1%3A2"],
        "Chat_1/q1": ["memory:Chat_1%2FD2%3A1"],
        "Chat_1/q2": [],
        "Chat_2/q0": ["memory:Chat_2%2FD1%3A1"],
    }
    assert dataset.unlabelled == ("Chat_1/q1", "Chat_1/q2")
    assert dataset.queries[0].request.time == "2023-12-31T08:01:09"
    counted = dataset.card["notes"]["counted"]
    assert counted["evidence of no turn, left out"] == 3
    assert (counted["queries without a label"], counted["queries labelled in part"]) == (1, 1)
    assert set(dataset.card["source"]["sha256"]) == {"Chat_1.json", "Chat_2.json"}


def test_ones_own_list_in_the_published_form_is_read_alike(own, make):
    dataset, published = own(locomo10=[CHAT, other()], else_where={"no": "chat"}), make("locomo-memory")
    assert (dataset.catalog.hash, dataset.labels) == (published.catalog.hash, published.labels)
    assert dataset.card["notes"]["counted"]["evidence of no turn, left out"] == 3
    assert len(own("locomo-observations").catalog) == 4


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"session_2": [said("D1:1", "Again.", "30.12.2023, 08:01:09")]}, "CTX6705"),
        ({"session_2": [said("D2:1", "When?", "tomorrow")]}, "CTX6706"),
        ({"session_2": [said("D2:1", "When?", None)]}, "CTX6706"),
        ({"session_2": [said("D2:1", None, "30.12.2023, 08:01:09")]}, "CTX6702"),
        ({"session_2": [said(1, "One.", "30.12.2023, 08:01:09")]}, "CTX6702"),
        ({"session_2": "Hello"}, "CTX6702"),
        ({"session_1": [], "session_2": []}, "CTX6703"),
        ({"qa": [question("Which?", 9, "D1:1")]}, "CTX6704"),
        ({"qa": ["Which?"]}, "CTX6704"),
    ],
)
def test_chats_in_another_form_are_refused(own, change, code):
    with pytest.raises(InputError) as caught:
        own(chat={**CHAT_OF_PEOPLE, **change})
    assert code in [message_code(fault.message) for fault in caught.value.faults]


def test_a_month_of_another_language_is_the_only_fault_and_is_shown(own):
    sessions = {"session_1": [turn("D1:1", "Hi.")], "session_1_date_time": "1:56 pm on 8 Mai, 2023"}
    with pytest.raises(InputError) as caught:
        own(chat={**sessions, "qa": []})
    (fault,) = caught.value.faults
    assert message_code(fault.message) == "CTX6706"
    assert "8 Mai, 2023" in fault.message


def test_a_turn_whose_time_is_null_has_that_of_its_session(own):
    turns = [turn("D1:1", "Hi.", date_time=None), turn("D1:2", "Ho.", date_time=None)]
    chat = {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023", "qa": [question("Who?", 4, "D1:2")]}
    assert [item.created for item in own(chat=chat).catalog] == ["2023-05-08T13:56:00", "2023-05-08T13:56:01"]


def test_observations_without_a_time_of_their_session_have_that_of_its_first_turn(own, required):
    observation = {"session_1_observation": {"Di": [["Di cooks leek.", "D1:2"], ["Both talk.", ["D1:1", "D1:2"]]]}}
    dataset = own("locomo-observations", chat={**CHAT_OF_PEOPLE, "observation": observation})
    assert [item.metadata["time"] for item in dataset.catalog] == ["2023-12-29T22:42:04"] * 2
    assert required(dataset)["chat/q0"] == ["memory:chat%2Fobs%2F1%2FDi%2F1"]


@pytest.mark.parametrize(
    "observation",
    [
        {"session_1_observation": ["x"]},
        {"session_1_observation": {"Di": "x"}},
        {"session_1_observation": {"Di": [["x"]]}},
        {"session_1_observation": {"Di": [["x", [1]]]}},
        {"session_1_observation": {"Di": [["x", None]]}},
        {"session_7_observation": {"Di": [["x", "D7:1"]]}},
    ],
)
def test_observations_in_another_form_are_refused_where_they_are_read(own, observation):
    chat = {**CHAT_OF_PEOPLE, "observation": observation}
    with pytest.raises(InputError) as caught:
        own("locomo-observations", chat=chat)
    assert [message_code(fault.message) for fault in caught.value.faults] == ["CTX6707"]
    assert len(own("locomo-memory").catalog) == 3


@pytest.mark.parametrize("name", ["locomo", "locomo-memory"])
@pytest.mark.parametrize(
    ("id_", "evidence"),
    [("D1:01", "D1:01"), ("D1:01", "D1:1"), ("D1:1", "D1:01"), ("m1", "m1"), ("msg D1:2", "msg D1:2"), ("D;1", "D;1")],
)
def test_evidence_names_a_turn_by_any_id_and_a_conversation_may_have_a_slash(own, required, name, id_, evidence):
    turns = [said(id_, "Hi.", "29.12.2023, 22:42:04"), said("D7:7", "Ho.", "29.12.2023, 22:43:04")]
    dataset = own(name, chat={"sample_id": "team/c1", "session_1": turns, "qa": [question("Who?", 4, evidence)]})
    (first, _), (groups,) = dataset.catalog, required(dataset).values()
    assert first.name == f"team/c1/{id_}"
    assert groups == [first.key.id]
    assert dataset.unlabelled == ()


def test_a_file_that_is_missing_and_an_empty_folder_are_told_without_a_command_that_fetches(tmp_path):
    (tmp_path / "empty").mkdir()
    for path, why in (("no.json", "no such file"), ("empty", "no .json file in the folder")):
        with pytest.raises(StorageError) as caught:
            import_own("locomo", tmp_path / path, called="mine")
        assert str(caught.value).endswith(f"{tmp_path / path}: {why}")


def test_the_card_of_ones_own_chats_says_nothing_about_the_published_labels(own, make):
    published, mine = (
        dataset.card["notes"]["remarks"] for dataset in (make("locomo"), own("locomo", a=CHAT_OF_PEOPLE))
    )
    about_published = [text for text in published if "per cent of the labels" in text or "locomo-answerable" in text]
    assert len(about_published) == 2
    assert mine[1:] == [text for text in published if text not in about_published]


def test_two_chats_of_one_name_are_refused(own):
    named = {**CHAT_OF_PEOPLE, "sample_id": "c"}
    with pytest.raises(InputError) as caught:
        own(one=named, two=named)
    assert [message_code(fault.message) for fault in caught.value.faults] == ["CTX6701"]
    assert "sample_id" in caught.value.faults[0].message


def test_counts_of_the_published_data(published, tmp_path):
    dataset = published(LoCoMo).load("locomo")
    assert (len(dataset.catalog), len(dataset), len(dataset.judged())) == (5_882, 1_986, 1_979)
    tags = [query.tags[0] for query in dataset.queries]
    counted = {tag: tags.count(tag) for tag in tags}
    assert counted == {"multi-hop": 282, "temporal": 321, "open-domain": 96, "single-hop": 841, "adversarial": 446}
    sizes = [len(dataset.labels_of(query.id)) for query in dataset.judged().queries]
    assert (sizes.count(1), sizes.count(2), sum(n > 2 for n in sizes), max(sizes)) == (1_555, 241, 183, 19)
    assert round(sum(sizes) / len(sizes), 2) == 1.42
    assert {len(keys) for keys in dataset.scopes.values()} >= {369, 689}
    assert dataset.card["notes"]["counted"]["questions repeated word for word in their conversation"] == 12
    assert dataset.card["notes"]["counted"]["evidence of no turn, left out"] == 3
    write_dataset(dataset, tmp_path / "locomo")
    read = read_dataset(tmp_path / "locomo")
    assert (read.card, read.hash) == (dataset.card, dataset.hash)


def test_counts_of_the_other_datasets(published):
    importer = published(LoCoMo)
    assert len(importer.load("locomo-answerable")) == 1_986 - 446
    dataset = importer.load("locomo-observations")
    assert (len(dataset.catalog), len(dataset)) == (2_541, 1_986)
    counts = dataset.counts
    assert counts["queries"] - counts["unlabelled"] == 1_497  # counted apart from this code, see the card's rule


def test_questions_as_published(published, required):
    dataset = published(LoCoMo).load("locomo")
    labels = required(dataset)
    # read by eye in the file: a plain id, and one of the entries that are repaired
    assert dataset.queries[0].request.text == "When did Caroline go to the LGBTQ support group?"
    assert labels["conv-26/q0"] == ["message:conv-26%2FD1%3A3"]
    assert labels["conv-26/q37"] == ["message:conv-26%2FD8%3A6", "message:conv-26%2FD9%3A17"]
