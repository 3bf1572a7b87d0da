"""Files that other programs wrote give the labels that are known from how they were made (their SOURCE.md)."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.io.errors import UserError
from ctxbench.labelling.conversion import ImportSettings
from ctxbench.labelling.import_files import ImportOptions, import_files, plan_import
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item

FIXTURES = Path(__file__).parents[2] / "fixtures" / "imports"
WHERE, MONEY = "where is my parcel for order 1042?", "please give me my money back for order 1043"
STOP, STOP_1044 = "then stop it before it ships", "stop order 1044 before it ships"
TRACK, REFUND, CANCEL = "track_order", "refund_order", "cancel_order"

PARCEL = {WHERE: {TRACK}}
TWO = {WHERE: {TRACK}, MONEY: {TRACK, REFUND}}
EVALS = {WHERE: {TRACK}, MONEY: {REFUND}, STOP_1044: {CANCEL}}
TWO_EVALS = {WHERE: {TRACK}, MONEY: {REFUND}}
QUOTED = {f'"{text}"': names for text, names in TWO.items()}
SHOP = {
    "when do I get my money back?": {"d-refunds"},
    "how can I follow my parcel?": {"d-shipping"},
    "may I still stop my order, and do I get the money back?": {"d-cancel", "d-refunds"},
}
NUMBERS = {"d-refunds": "0", "d-shipping": "1", "d-cancel": "3"}
HANDBOOK = {"when do I get my money back?": {"refunds"}, "when are you open?": {"hours"}}

LABELS = {
    "ai-sdk/openai-chat-results.jsonl": TWO,
    "ai-sdk/logged-calls.jsonl": TWO,
    "ai-sdk/readable-spans.json": PARCEL,
    "ai-sdk/own-fields-spans.jsonl": PARCEL,
    "openai/chat-request-response.jsonl": {MONEY: {TRACK, REFUND}, STOP: {CANCEL}},
    "openai/chat-logged-streams.jsonl": PARCEL,
    "openai/responses-stream-logged.jsonl": PARCEL,
    "openai/responses-request-response.jsonl": PARCEL,
    "openai/fine-tuning.jsonl": TWO_EVALS,
    "openai/fine-tuning-dpo.jsonl": PARCEL,
    "anthropic/request-response.jsonl": {MONEY: {TRACK, REFUND}},
    "anthropic/stream-logged.jsonl": PARCEL,
    "anthropic/conversations.jsonl": TWO,
    "openinference/openai-otlp.json": PARCEL,
    "openinference/langchain-spans.jsonl": PARCEL,
    "openinference/phoenix-client-spans.jsonl": PARCEL,
    "openinference/phoenix-dataframe.parquet": {MONEY: {TRACK, REFUND}},
    "otel-genai/console.jsonl": TWO,
    "otel-genai/console.txt": PARCEL,
    "langfuse/api-trace-one.json": PARCEL,
    "langfuse/ui-observations.csv": {MONEY: {TRACK, REFUND}},
    "langsmith/runs-openai.jsonl": PARCEL,
    "langsmith/runs-langchain.jsonl": PARCEL,
    "braintrust/project-logs.jsonl": PARCEL,
    "claude-code/stream-json.jsonl": TWO,
    "codex": {WHERE: {TRACK}, MONEY: {TRACK, REFUND}, STOP: {CANCEL}},
    "copilot/vscode-session.json": TWO,
    "gemini-cli": TWO,
    "opencode": QUOTED,
    "cline": {WHERE: {TRACK}, STOP: {CANCEL}},
    "transcripts/messages.json": {WHERE: {TRACK}, STOP: {CANCEL}},
    "transcripts/messages-with-session.jsonl": TWO_EVALS,
    "promptfoo/promptfooconfig.yaml": EVALS,
    "promptfoo/with-csv.yaml": EVALS,
    "promptfoo/tests.csv": EVALS,
    "promptfoo/tests-expected.csv": EVALS,
    "promptfoo/assertions.yaml": {WHERE: {TRACK}, MONEY: {TRACK, REFUND}, STOP_1044: {CANCEL}},
    "deepeval/goldens.json": EVALS,
    "deepeval/goldens.jsonl": EVALS,
    "deepeval/goldens.csv": EVALS,
    "deepeval/goldens-context.jsonl": EVALS,
    "ragas/multi-turn.jsonl": TWO_EVALS,
    "ragas/multi-turn.csv": TWO_EVALS,
    "ragas/single-turn.jsonl": HANDBOOK,
    "ragas/context-ids.csv": HANDBOOK,
    "handwritten/evals.jsonl": TWO_EVALS,
    "handwritten/evals.yaml": TWO_EVALS,
    "collections/beir": SHOP,
    "collections/mteb-json": SHOP,
    "collections/mteb-parquet": SHOP,
    "collections/autorag-jsonl": SHOP,
    "collections/trec": SHOP,
    "collections/llama-index/qa-finetune.json": SHOP,
    "collections/hf-other-columns": {text: {NUMBERS[name] for name in names} for text, names in SHOP.items()},
}
LISTED = [
    *("ai-sdk/openai-chat-results.jsonl", "ai-sdk/readable-spans.json", "openai/chat-request-response.jsonl"),
    *("openai/responses-stream-logged.jsonl", "openai/fine-tuning.jsonl", "anthropic/request-response.jsonl"),
    *("anthropic/conversations.jsonl", "openinference/openai-otlp.json", "openinference/langchain-spans.jsonl"),
    *("openinference/phoenix-dataframe.parquet", "langfuse/ui-observations.csv", "langsmith/runs-openai.jsonl"),
    *("langsmith/runs-langchain.jsonl", "braintrust/project-logs.jsonl"),
]
"""Logs that list the tools that were offered."""


def catalog_of(path: Path) -> Catalog:
    """The items in a file or folder."""
    return Catalog(item for part in import_files([path]).parts for item in part.items)


def catalog_for(path: str) -> Catalog | None:
    """The catalog with which a file is imported; None if it has its own."""
    kind = path.partition("/")[0]
    if kind == "collections":
        return None
    catalogs = {"ragas/single-turn.jsonl": "ragas/documents.jsonl", "ragas/context-ids.csv": "ragas/documents.jsonl"}
    return catalog_of(FIXTURES / catalogs.get(path, "tools.json"))


def required_items(dataset: Dataset) -> dict[str, set[str]]:
    """The names of the required items by request, of those that require any."""
    texts = {query.id: query.request.text for query in dataset.queries}
    required: dict[str, set[str]] = defaultdict(set)
    for label in dataset.labels:
        if label.grade == Grade.REQUIRED:
            required[texts[label.query]].add(label.item.name)
    return dict(required)


@pytest.mark.parametrize("path", LABELS)
def test_a_file_of_a_program_gives_the_labels_that_are_known(path):
    if path.endswith("parquet"):
        pytest.importorskip("pyarrow")
    options = ImportOptions(settings=ImportSettings(grades={1: 2, 2: 2})) if path.startswith("collections") else None
    dataset = import_files([FIXTURES / path], catalog_for(path), options=options).dataset
    assert required_items(dataset) == LABELS[path]


@pytest.mark.parametrize("path", [path for path in LABELS if (FIXTURES / path).is_file()])
def test_the_name_of_a_file_decides_nothing(path, tmp_path):
    if path.endswith("parquet"):
        pytest.importorskip("pyarrow")
    copy = tmp_path / "data"
    shutil.copyfile(FIXTURES / path, copy)
    kinds = [plan_import([file], has_catalog=True).kinds[file] for file in (FIXTURES / path, copy)]
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("path", LISTED)
def test_what_a_log_lists_was_offered(path):
    if path.endswith("parquet"):
        pytest.importorskip("pyarrow")
    imported = import_files([FIXTURES / path], catalog_for(path))
    assert {item.name for exposure in imported.exposures for item in exposure.offered} == {TRACK, REFUND, CANCEL}


def test_a_folder_of_sessions_gives_tools_skills_and_rules_by_request():
    rule = Item(type="rule", name="CLAUDE.md", text="# Rules of the shop\nBe polite.")
    folder = FIXTURES / "claude-code" / "catalog"
    catalog = Catalog([*catalog_of(folder / "tools.json"), *catalog_of(folder / "skills"), rule])
    dataset = import_files([FIXTURES / "claude-code" / "projects"], catalog).dataset
    required = required_items(dataset)
    assert required.pop("find out: where is the parcel of order 1050?", {TRACK}) == {TRACK}  # of a subagent
    assert required.pop("/refunds", {"refunds"}) == {"refunds"}
    assert required == {
        WHERE: {TRACK},
        MONEY: {TRACK, REFUND},
        "use the skill about returned goods": {"refunds"},
        "read the rules of the shop": {"CLAUDE.md"},
        STOP: {CANCEL},
    }


@pytest.mark.parametrize("folder", ["claude-code/projects", "codex", "copilot", "gemini-cli"])
def test_what_programs_write_into_the_turn_of_a_user_is_no_request(folder):
    dataset = import_files([FIXTURES / folder], catalog_of(FIXTURES / "tools.json")).dataset
    texts = [query.request.text for query in dataset.queries]
    assert [text for text in texts if text.startswith(("<", "#", "This session", "Continue from", "Base dir"))] == []
    assert WHERE in texts


@pytest.mark.parametrize("path", ["langfuse/ui-traces.csv", "openai/chat-stream.sse"])
def test_a_file_without_requests_or_calls_is_refused(path):
    with pytest.raises(UserError):
        import_files([FIXTURES / path], catalog_of(FIXTURES / "tools.json"))


def test_a_table_of_traces_among_logs_gives_no_requests(tmp_path):
    asked = {"messages": [{"role": "user", "content": "Where is my parcel?"}]}
    row = {"id": "t", "timestamp": "2026-03-01T00:00:00Z", "input": json.dumps(asked), "output": "Done.", "scores": []}
    (tmp_path / "traces.json").write_text(json.dumps([row, {**row, "id": "u"}]))
    exchange = {"id": "r", "timestamp": row["timestamp"], "totalCost": 1, "request": asked, "response": "Here."}
    (tmp_path / "own.jsonl").write_text(json.dumps({**exchange, "tools": [{"name": "track_order"}]}) + "\n")
    (tmp_path / "more.jsonl").write_text(
        "".join(json.dumps({"text": f"Hi {n}.", "called": ["track_order"]}) + "\n" for n in "ab")
    )
    imported = import_files([tmp_path], catalog_of(FIXTURES / "tools.json"))
    assert [query.request.text for query in imported.dataset.queries] == ["Hi a.", "Hi b.", "Where is my parcel?"]
    assert imported.report.report.counts["lines_unreadable"] == 2


def test_tools_that_late_lines_of_a_log_list_are_items(tmp_path):
    names = [["first"]] * 1050 + [["first", "late"]]
    tools = [[{"name": name, "description": "d", "input_schema": {}} for name in listed] for listed in names]
    lines = [{"request": {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": t}} for t in tools]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [item.name for item in import_files([tmp_path / "log.jsonl"]).dataset.catalog] == ["first", "late"]
