"""`ctxbench data import PATH...`: files of any kind, recognised by their content."""

from __future__ import annotations

import json
import re
import signal

import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.layout import agent_of, read_card

TOOLS = [
    {"name": "book_table", "description": "Book a table", "inputSchema": {"type": "object"}},
    {"name": "cancel_booking", "description": "Cancel a booking", "inputSchema": {"type": "object"}},
    {"name": "send_invoice", "description": "Send an invoice", "inputSchema": {"type": "object"}},
]
EVALS = [{"query": "a table for two", "expected": ["book_table"]}, {"query": "no table", "forbidden": ["book_table"]}]
TURN = {"conversation": "c", "text": "a table for two", "offered": "*", "called": ["book_table"]}


def rows(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), "utf-8")
    return path


@pytest.fixture
def imported(cli, place):
    """Import paths over the tools above; the result goes to `out`."""
    (place / "tools.json").write_text(json.dumps(TOOLS))
    assert cli("data", "import", "tools.json", "--out", "cat").code == 0

    def run(*paths, options=(), catalog="cat"):
        return cli("data", "import", *paths, *["-c", catalog] * bool(catalog), "--out", "out", *options)

    return run


def labels(place, name="out"):
    return [(label.query, label.item.id, label.grade) for label in read_dataset(place / name).labels]


class TestOutput:
    def test_the_kind_and_what_was_found_are_a_line_each_and_the_next_step_is_the_last(self, imported, place):
        rows(place / "any.txt", EVALS)
        lines = imported("any.txt").out.splitlines()
        assert lines[0] == "any.txt: evals under any field names (--as golden)"
        assert re.match(
            r"out: 2 requests \([^)]*\), 1 label, 1 forbidden item, 0 offered sets over 3 items; ", lines[1]
        )
        assert lines[-1].startswith("next: `ctxbench ")
        assert labels(place) == [("any-1", "tool:book_table", 2), ("any-2", "tool:book_table", 0)]

    def test_json_has_the_kind_of_each_file_and_the_counts(self, imported, place):
        rows(place / "evals.jsonl", EVALS)
        result = imported("evals.jsonl", options=["--json"]).json
        assert result["files"] == [{"path": "evals.jsonl", "kind": "golden"}]
        assert result["found"] == {"requests": 2, "labels": 1, "forbidden": 1, "offered": 0}
        assert (result["dataset"], result["written"], result["replaced"]) == ("out", "out", False)
        assert result["hash"] == read_dataset(place / "out").hash

    def test_a_dry_run_shows_three_requests_and_writes_nothing(self, imported, place):
        rows(place / "evals.jsonl", [{"query": f"table {n}", "expected": ["book_table"]} for n in range(5)])
        before = sorted(place.rglob("*"))
        done = imported("evals.jsonl", options=["--dry-run"])
        assert done.code == 0
        assert done.out.count("  required   tool:book_table") == 3
        assert done.out.splitlines()[-1] == "nothing was written (--dry-run)"
        assert imported("evals.jsonl", options=["--dry-run", "--json"]).json["found"]["requests"] == 5
        assert "3 items; nothing was written" in imported("tools.json", catalog="", options=["--dry-run"]).out
        assert sorted(place.rglob("*")) == before

    def test_the_result_needs_a_folder(self, cli, place):
        rows(place / "evals.jsonl", EVALS)
        done = cli("data", "import", "evals.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "--out FOLDER" in done.err


class TestKinds:
    def test_as_overrules_what_was_recognised(self, imported, place):
        rows(place / "turns.jsonl", [TURN])
        assert "(--as turns)" in imported("turns.jsonl").out
        assert "(--as golden)" in imported("turns.jsonl", options=["--as", "golden"]).err
        assert "did you mean 'golden'" in imported("turns.jsonl", options=["--as", "goldne"]).err

    @pytest.mark.parametrize(
        "options", [["--history", "3"], ["--all-offered"], ["--no-redact"], ["--server", "x"], ["--nothing-else"]]
    )
    def test_an_option_for_files_of_another_family_is_refused(self, imported, place, options):
        if options == ["--nothing-else"]:
            rows(place / "file.jsonl", [TURN])
        else:
            rows(place / "file.jsonl", EVALS)
        done = imported("file.jsonl", options=options)
        assert (done.code, done.out) == (2, "")
        assert f"error: {options[0]} is for " in done.err
        assert not (place / "out").exists()

    def test_repeated_mappings_join_labels_alone(self, imported, place):
        rows(place / "file.jsonl", [{"query": "a", "first": [], "second": ["book_table"]}])
        options = ["--dry-run", "--map", "expected=first", "--map", "expected=second"]
        assert imported("file.jsonl", options=options).out.count("required   tool:book_table") == 1
        options = [option.replace("expected", "forbidden") for option in options]
        assert imported("file.jsonl", options=options).out.count("irrelevant tool:book_table") == 1
        done = imported("file.jsonl", options=["--map", "query=query", "--map", "query=rules"])
        assert (done.code, done.err) == (2, "error: field 'query' is mapped twice: query and rules\n")

    @pytest.mark.parametrize(
        ("words", "option"),
        [
            (["file.jsonl", "--from", "x"], "--from is not for files of this kind"),
            (["file.jsonl", "-d", "x"], "--dataset is not for files of this kind"),
            (["bfcl-simple", "-c", "cat"], "--catalog is not for public datasets"),
            (["run", "file.jsonl", "--map", "query=x"], "--map is not for rankings of TREC"),
        ],
    )
    def test_an_option_of_another_kind_of_import_is_refused(self, cli, place, words, option):
        rows(place / "file.jsonl", EVALS)
        done = cli("data", "import", *words, "--out", "out")
        assert (done.code, done.out) == (2, "")
        assert option in done.err
        assert not (place / "out").exists()

    def test_files_of_several_families_are_refused(self, imported, place):
        rows(place / "evals.jsonl", EVALS)
        rows(place / "turns.jsonl", [TURN])
        done = imported("evals.jsonl", "turns.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "evals.jsonl (evals" in done.err
        assert "turns.jsonl (turns" in done.err

    def test_files_of_no_kind_in_a_folder_are_left_out_and_listed(self, imported, place):
        rows(place / "logs" / "a.jsonl", [TURN])
        (place / "logs" / "notes.md").write_text("Nothing of interest.\n")
        (place / "logs" / "picture.bin").write_bytes(b"\0\1\2")
        done = imported("logs")
        assert "2 files left out (of no known kind, or items beside -c): logs/notes.md, logs/picture.bin" in done.out
        assert imported("logs", options=["--json"]).json["skipped"] == ["logs/notes.md", "logs/picture.bin"]

    def test_a_catalog_may_be_among_the_files(self, imported, place):
        rows(place / "turns.jsonl", [TURN])
        done = imported("turns.jsonl", "tools.json", catalog="")
        assert done.code == 0, done.err
        assert labels(place) == [("c-0", "tool:book_table", 2)]

    @pytest.mark.parametrize(("name", "values"), [("evals.jsonl", EVALS), ("turns.jsonl", [TURN])])
    def test_the_dataset_follows_an_agent_file(self, imported, place, name, values):
        rows(place / name, values)
        (place / "agent.yaml").write_text("sources: {tools: [tools.json]}\n")
        done = imported(name, catalog="agent.yaml")
        assert done.code == 0, done.err
        assert agent_of(place / "out").samefile(place / "agent.yaml")
        assert not (place / "out" / "corpus.jsonl").exists()
        if name == "evals.jsonl":
            assert read_card(place / "out")["source"]["path"] == "../evals.jsonl"


class TestFaults:
    def test_a_missing_file_is_named_with_the_closest_one(self, imported, place):
        rows(place / "evals.jsonl", EVALS)
        done = imported("evalz.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "evalz.jsonl" in done.err
        assert "did you mean 'evals.jsonl'?" in done.err or "did you mean evals.jsonl?" in done.err

    @pytest.mark.parametrize("text", ["", " \n", "[]"])
    def test_an_empty_file_is_refused(self, imported, place, text):
        (place / "evals.jsonl").write_text(text)
        done = imported("evals.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "there is nothing in it" in done.err

    def test_a_damaged_file_is_named_with_the_line(self, imported, place):
        (place / "evals.jsonl").write_text('{"query": "a"\n{"query": "b"}\n')
        done = imported("evals.jsonl")
        assert (done.code, done.out) == (2, "")
        assert re.search(r"evals\.jsonl, line 1, column 14\)", done.err)

    def test_the_mapping_is_proposed_with_the_whole_command(self, imported, cli, place):
        rows(place / "my evals.jsonl", [{"words": f"a table for {n}", "wanted": "book_table"} for n in range(3)])
        done = imported("my evals.jsonl")
        assert (done.code, done.out) == (2, "")
        (command,) = re.findall(r"`ctxbench (data import [^`]*)`", done.err)
        assert command == "data import 'my evals.jsonl' -c cat --out out --map query=words,expected=wanted"
        words = command.replace("'my evals.jsonl'", "my+evals.jsonl").split()
        assert cli(*[word.replace("+", " ") for word in words]).code == 0
        assert {item for _, item, _ in labels(place)} == {"tool:book_table"}

    def test_a_file_of_unknown_fields_without_a_catalog(self, imported, place):
        rows(place / "my.jsonl", [{"words": "a table", "wanted": "book_table"}])
        done = imported("my.jsonl", catalog="")
        assert (done.code, done.out) == (2, "")
        assert "(fields: 'words', 'wanted')" in done.err
        assert "`ctxbench data import my.jsonl -c CATALOG --out out`" in done.err

    def test_a_folder_of_other_files_is_one_message(self, imported, place):
        (place / "texts").mkdir()
        for number in range(20):
            (place / "texts" / f"{number:02}.txt").write_text("Nothing of interest.\n")
        done = imported("texts")
        assert (done.code, done.out) == (2, "")
        assert "none of 20 files is of a kind that is read here" in done.err
        assert done.err.count("texts/") == 5

    def test_evals_and_logs_need_a_catalog_and_the_command_is_shown(self, imported, place):
        rows(place / "evals.jsonl", EVALS)
        rows(place / "turns.jsonl", [TURN])
        for name in ("evals.jsonl", "turns.jsonl"):
            done = imported(name, catalog="")
            assert (done.code, done.out) == (2, "")
            assert f"`ctxbench data import {name} -c CATALOG --out out`" in done.err

    def test_a_folder_that_somebody_has_labelled_is_kept(self, imported, place):
        rows(place / "turns.jsonl", [TURN])
        assert imported("turns.jsonl").code == 0
        rows(place / "out" / "labelling" / "answers.jsonl", [{}])
        done = imported("turns.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "holds answers of `data label`" in done.err

    def test_ctrl_c_keeps_what_was_read_and_the_same_command_continues(self, imported, place, monkeypatch):
        from ctxbench.labelling import trace_import

        rows(place / "turns.jsonl", [{**TURN, "conversation": f"c{n}"} for n in range(50)])
        read = trace_import.LogFiles._read_document
        numbers = []

        def interrupted(files, document, **options):
            numbers.append(document.line)
            if document.line == 20:
                signal.raise_signal(signal.SIGINT)
            return read(files, document, **options)

        monkeypatch.setattr(trace_import.LogFiles, "_read_document", interrupted)
        done = imported("turns.jsonl")
        assert (done.code, done.out) == (130, "")
        assert "the same command continues" in done.err
        assert not (place / "out").exists()
        assert imported("turns.jsonl").code == 0
        assert numbers == [*range(1, 51)]
        assert len(read_dataset(place / "out")) == 50


class TestForms:
    """Small files in the forms of other programs go in as they are."""

    def test_a_session_of_a_coding_agent(self, imported, place):
        user = {
            "type": "user",
            "sessionId": "s",
            "uuid": "1",
            "message": {"role": "user", "content": "a table for two"},
        }
        call = {"type": "tool_use", "id": "t1", "name": "mcp__desk__book_table", "input": {}}
        shell = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "ls"}}
        reply = {
            "type": "assistant",
            "sessionId": "s",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"role": "assistant", "content": [call, shell]},
        }
        rows(place / "session.jsonl", [user, reply])
        done = imported("session.jsonl")
        assert done.out.startswith("session.jsonl: sessions of Claude Code (--as claude-code)\n")
        assert [item for _, item, _ in labels(place)] == ["tool:book_table"]

    def test_spans_of_openinference(self, imported, place):
        attributes = {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "a table for two",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "book_table",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
        }
        context = {"trace_id": "a1", "span_id": "b1"}
        span = {"name": "ChatCompletion", "context": context, "parent_id": None, "attributes": attributes}
        rows(place / "spans.jsonl", [span | {"start_time": "2026-01-02T03:04:05Z", "end_time": "2026-01-02T03:04:06Z"}])
        done = imported("spans.jsonl")
        assert "(--as openinference)" in done.out
        assert [item for _, item, _ in labels(place)] == ["tool:book_table"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("trigger_eval.json", '[{"id": 1, "query": "merge files", "should_trigger": true}]'),
            ("checks.json", '[{"prompt": "merge files", "should_trigger": true}]'),
            ("trigger_eval.json", '{"skill": "pdf", "evals": [{"query": "merge files", "should_trigger": true}]}'),
            ("checks.yaml", "should_trigger:\n  - merge files\nshould_not_trigger:\n  - hello\n"),
            ("checks.yaml", "tests:\n  - prompt: merge files\n    should_trigger: true\n"),
        ],
    )
    def test_trigger_evals_in_every_form(self, imported, place, name, text):
        (place / "skills" / "pdf").mkdir(parents=True)
        (place / "skills" / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: Merge files\n---\nDo it.\n")
        (place / "skills" / "pdf" / name).write_text(text)
        done = imported("skills", catalog="")
        assert done.code == 0, done.err
        required = [item for _, item, grade in labels(place) if grade == 2]
        assert required == ["skill:pdf"]

    def test_trigger_evals_apart_from_the_skills_and_a_manual_skill(self, imported, place):
        for name, more in (("pdf", ""), ("deploy", "disable-model-invocation: true\n")):
            (place / "skills" / name).mkdir(parents=True)
            head = f"---\nname: {name}\ndescription: About {name}\n{more}---\nDo it.\n"
            (place / "skills" / name / "SKILL.md").write_text(head)
            rows(place / "evals" / name / "triggers.json", [[{"query": f"do {name}", "should_trigger": True}]])
        done = imported(".", catalog="")
        assert done.code == 0, done.err
        assert "evals of manual skills (left out): 1 " in done.out
        assert [item for _, item, _ in labels(place)] == ["skill:pdf"]

    def test_documents_in_json_and_a_set_in_one_file(self, imported, place):
        documents = [{"chunk_link": f"d{n}", "body": f"chapter {n}"} for n in range(3)]
        (place / "chunks.json").write_text(json.dumps(documents))
        assert imported("chunks.json", catalog="", options=["--map", "id=chunk_link,text=body"]).code == 0
        whole = {"queries": {"q": "which?"}, "corpus": {"d": "this"}, "relevant_docs": {"q": ["d"]}}
        (place / "set.json").write_text(json.dumps(whole))
        done = imported("set.json", catalog="", options=["--name", "set"])
        assert (done.code, "another" in done.err) == (2, False) or done.code == 0

    def test_a_configuration_of_promptfoo(self, imported, place):
        (place / "config.yaml").write_text(
            "description: desk\nprompts: ['{{query}}']\ntests:\n  - vars: {query: a table for two}\n"
            "    assert:\n      - {type: contains, value: book_table}\n"
        )
        done = imported("config.yaml")
        assert "(--as promptfoo)" in done.out
        assert [item for _, item, _ in labels(place)] == ["tool:book_table"]

    def test_runs_of_langsmith(self, imported, place):
        call = {"id": "t", "type": "function", "function": {"name": "book_table", "arguments": "{}"}}
        reply = {"role": "assistant", "content": None, "tool_calls": [call]}
        run = {
            "id": "r1",
            "trace_id": "r1",
            "run_type": "llm",
            "name": "ChatOpenAI",
            "start_time": "2026-01-02T03:04:05",
            "inputs": {"messages": [{"role": "user", "content": "a table for two"}]},
            "outputs": {"choices": [{"message": reply}]},
        }
        rows(place / "runs.jsonl", [run])
        done = imported("runs.jsonl")
        assert done.out.startswith("runs.jsonl: runs of LangSmith (--as langsmith)\n")
        assert [item for _, item, _ in labels(place)] == ["tool:book_table"]

    def test_the_table_of_traces_of_langfuse_is_refused_with_what_to_export(self, imported, place):
        row = {"id": "t", "timestamp": "2026-01-02T03:04:05Z", "name": "desk", "totalCost": 0.1, "output": "Done."}
        (place / "traces.json").write_text(json.dumps([row | {"input": '{"messages": []}'}]))
        done = imported("traces.json")
        assert (done.code, done.out) == (2, "")
        assert "export the observations" in done.err
