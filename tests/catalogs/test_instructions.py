"""Rules and references from a project folder: modes, imports, and what cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctxbench.catalogs.instructions import references_folder, rules_folder
from ctxbench.catalogs.snapshots import SnapshotPart, capture
from ctxbench.io.errors import InputError, StorageError
from ctxbench.model.items import Item
from tests.planted import GITHUB, STRIPE


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def put(folder: Path, path: str, text: str | bytes) -> None:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)


def parts_of(folder: Path) -> dict[str, SnapshotPart]:
    return {part.name: part for part in rules_folder(folder)()}


def items_of(folder: Path) -> dict[str, Item]:
    return {item.name: item for part in parts_of(folder).values() for item in part.items}


def modes_of(folder: Path) -> dict[str, str]:
    return {name: item.include for name, item in items_of(folder).items()}


def notes_of(folder: Path) -> list[str]:
    return [note for part in parts_of(folder).values() for note in part.notes]


def test_agents_md_is_always_at_the_top_and_for_the_agent_to_find_below(project):
    put(project, "AGENTS.md", "# How we work\n\nTabs.\n")
    put(project, "packages/api/AGENTS.md", "# API\n\nSpaces.\n")
    put(project, "node_modules/x/AGENTS.md", "not ours")
    assert modes_of(project) == {"AGENTS.md": "always", "packages/api/AGENTS.md": "agent"}
    top, below = items_of(project).values()
    assert (top.type, top.title, top.description, top.text) == (
        "rule",
        "How we work",
        "How we work",
        "# How we work\n\nTabs.",
    )
    assert below.metadata["when"] == "applies in packages/api/"


def test_cursor_rules_have_four_modes(project):
    put(project, ".cursor/rules/always.mdc", "---\ndescription: x\nglobs: *.ts\nalwaysApply: true\n---\nA")
    put(project, ".cursor/rules/auto.mdc", "---\ndescription:\nglobs: src/**/*.ts, *.tsx\nalwaysApply: false\n---\nB")
    put(project, ".cursor/rules/asked.mdc", "---\ndescription: When naming things\nalwaysApply: false\n---\nC")
    put(project, ".cursor/rules/manual.mdc", "---\nalwaysApply: false\n---\nD")
    put(project, "web/.cursor/rules/bare.mdc", "E")
    put(project, ".cursor/rules/read.me", "no rule")
    put(project, ".cursorrules", "Old ones")
    assert modes_of(project) == {
        ".cursorrules": "always",
        ".cursor/rules/always.mdc": "always",
        ".cursor/rules/asked.mdc": "agent",
        ".cursor/rules/auto.mdc": "agent",
        ".cursor/rules/manual.mdc": "manual",
        "web/.cursor/rules/bare.mdc": "manual",
    }
    items = items_of(project)
    assert items[".cursor/rules/auto.mdc"].metadata["globs"] == ["src/**/*.ts", "*.tsx"]
    assert items[".cursor/rules/asked.mdc"].description == "When naming things"
    assert notes_of(project) == ["web/.cursor/rules/bare.mdc has no front matter; its include mode is manual"]


@pytest.mark.parametrize(
    ("path", "inside", "note"),
    [
        (
            ".cursor/rules/a.mdc",
            "globs: []\nalwaysApply: yes please",
            "line 3: alwaysApply must be true or false, got 'yes please'; it is read as false",
        ),
        (
            ".cursor/rules/a.mdc",
            "alwaysaply: true",
            "line 2: unknown field 'alwaysaply' is ignored; did you mean 'alwaysApply'?",
        ),
        (
            ".claude/rules/a.md",
            "path: x/**",
            "line 2: unknown field 'path' is ignored; did you mean 'paths'?",
        ),
        (".cursor/rules/a.mdc", "owner: me\nalwaysApply: 'off'", ""),
    ],
)
def test_a_field_that_says_nothing_is_told_with_its_line(project, path, inside, note):
    put(project, path, f"---\n{inside}\n---\nText")
    assert notes_of(project) == ([f"{path}, {note}"] if note else [])


@pytest.mark.parametrize("source", [rules_folder, references_folder])
def test_a_folder_that_cannot_be_read_is_told(source, project, monkeypatch):
    """As root every folder can be read, so the system's answer is planted."""
    put(project, "AGENTS.md", "Tabs.")
    put(project, ".cursor/rules/a.mdc", "Spaces.")
    closed, scan = [project / ".cursor"], os.scandir

    def scandir(path):
        if Path(path) in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    notes = [note for part in source(project)() for note in part.notes]
    assert notes == [".cursor/ cannot be read: Permission denied; left out"]
    closed.append(project)
    with pytest.raises(StorageError, match=r"shop: Permission denied; expected one that holds"):
        source(project)()


def test_a_file_is_no_folder_of_rules(project):
    put(project, "AGENTS.md", "Tabs.")
    with pytest.raises(StorageError, match=r"AGENTS\.md: it is a file"):
        rules_folder(project / "AGENTS.md")()


@pytest.mark.parametrize("source", [rules_folder, references_folder])
def test_a_link_to_a_folder_that_leads_out_is_told(source, project, tmp_path):
    put(project, "AGENTS.md", "Tabs.")
    put(tmp_path, "elsewhere/b.md", "Spaces.")
    put(project, "here/c.md", "Here.")
    (project / "linked").symlink_to("../elsewhere")
    (project / "again").symlink_to("here")  # what it leads to is taken where it stands
    (project / ".claude").symlink_to("here")
    notes = [note for part in source(project)() for note in part.notes]
    assert notes == [
        ".claude/ is a link to a folder, and links are not followed; left out",
        "linked/ leads outside the folder; left out",
    ]


def test_claude_rules_and_skills_and_copilot(project):
    put(project, ".claude/rules/style.md", "Short lines.")
    put(project, ".claude/rules/api/tests.md", "---\npaths: ['tests/**']\n---\nTest.")
    put(project, ".claude/skills/release/SKILL.md", "---\nname: release\ndescription: Cut a release\n---\nSteps.")
    put(
        project,
        "skills/nuke/SKILL.md",
        "---\nname: nuke\ndescription: Drop it all\ndisable-model-invocation: true\n---\nNo.",
    )
    put(project, ".github/copilot-instructions.md", "Be brief.")
    put(project, ".github/instructions/ts.instructions.md", "---\napplyTo: '**/*.ts'\n---\nStrict.")
    put(project, ".github/instructions/all.instructions.md", "---\napplyTo: '**'\n---\nAll.")
    put(project, ".github/instructions/none.instructions.md", "None.")
    put(project, ".github/prompts/plan.prompt.md", "Plan.")
    assert modes_of(project) == {
        ".claude/rules/api/tests.md": "agent",
        ".claude/rules/style.md": "always",
        "release": "agent",
        "nuke": "manual",
        ".github/copilot-instructions.md": "always",
        ".github/instructions/all.instructions.md": "always",
        ".github/instructions/none.instructions.md": "manual",
        ".github/instructions/ts.instructions.md": "agent",
        ".github/prompts/plan.prompt.md": "manual",
    }
    skill = items_of(project)["release"]
    assert (skill.type, skill.title, skill.description, skill.text) == ("skill", "", "Cut a release", "Steps.")
    assert skill.prompt_text == skill.search_text == "release: Cut a release"
    assert skill.metadata["path"] == ".claude/skills/release/SKILL.md"


def test_a_skill_without_a_name_has_that_of_its_folder_and_a_second_one_its_path(project):
    put(project, "skills/pdf/SKILL.md", "---\ndescription: Read PDFs\n---\nOpen it.")
    put(project, "skills/z/SKILL.md", "---\nname: pdf\ndescription: Write PDFs\n---\nPrint it.")
    found = items_of(project)
    assert {name: item.description for name, item in found.items()} == {
        "pdf": "Read PDFs",
        "skills/z/SKILL.md": "Write PDFs",
    }
    (note,) = notes_of(project)
    assert note == "skills/z/SKILL.md has the same name 'pdf' as skills/pdf/SKILL.md; its path is used as its name"


def test_claude_md_takes_what_it_imports(project):
    put(
        project,
        "CLAUDE.md",
        "See @docs/git.md and @AGENTS.md.\n\nMail me@x.org, ask @anna, `@docs/code.md`.\n\n"
        "```\n@docs/fenced.md\n```\n@docs/two\\ words.md",
    )
    put(project, "AGENTS.md", "Tabs.")
    put(project, "docs/git.md", "# Git\n\nMore: @./deep.md and @missing.md, @../../secret.md, @~/own.md")
    put(project, "docs/deep.md", "Deep. Back to @git.md")
    put(project, "docs/two words.md", "Two.")
    put(project, "docs/code.md", "in a code span")
    put(project, "docs/fenced.md", "in a fence")
    assert modes_of(project) == dict.fromkeys(
        ["AGENTS.md", "CLAUDE.md", "docs/git.md", "docs/deep.md", "docs/two words.md"], "always"
    )
    assert items_of(project)["docs/git.md"].type == "reference"
    assert items_of(project)["docs/deep.md"].metadata["when"] == "imported by docs/git.md"
    assert notes_of(project) == [
        "docs/git.md imports @missing.md, which does not exist; left out",
        "docs/git.md imports @../../secret.md, which is outside the folder; left out",
        "docs/git.md imports @~/own.md, which is outside the folder; left out",
    ]


def test_a_rule_that_claude_md_imports_becomes_always(project):
    put(project, "CLAUDE.md", "@.cursor/rules/x.mdc")
    put(project, ".cursor/rules/x.mdc", "---\ndescription: Sometimes\n---\nX")
    items = items_of(project)
    assert items[".cursor/rules/x.mdc"].include == "always"
    assert items[".cursor/rules/x.mdc"].metadata["when"] == "imported by CLAUDE.md"


def test_imports_end_after_five_files(project):
    put(project, "CLAUDE.md", "@d1.md")
    for i in range(1, 8):
        put(project, f"d{i}.md", f"@d{i + 1}.md" if i < 7 else "end")
    assert list(items_of(project)) == ["CLAUDE.md", "d1.md", "d2.md", "d3.md", "d4.md", "d5.md"]
    assert notes_of(project) == ["d5.md imports @d6.md more than 5 deep; left out"]


def test_what_a_nested_claude_md_imports_is_for_the_agent_to_find(project):
    put(project, "web/CLAUDE.md", "@style.md")
    put(project, "web/style.md", "Style.")
    assert modes_of(project) == {"web/CLAUDE.md": "agent", "web/style.md": "agent"}


def test_one_file_under_two_names_is_taken_once(project):
    put(project, "AGENTS.md", "Tabs.")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert list(items_of(project)) == ["AGENTS.md"]
    assert notes_of(project) == ["CLAUDE.md is the same file as AGENTS.md; left out"]


def test_what_cannot_be_used_is_left_out_and_said(project, tmp_path):
    put(tmp_path, "elsewhere.md", "Secret.")
    put(project, "AGENTS.md", "Tabs.")
    put(project, "a/AGENTS.md", b"caf\xe9\nsecond line")
    put(project, "b/AGENTS.md", " \n")
    (project / "CLAUDE.md").symlink_to(tmp_path / "elsewhere.md")
    assert list(items_of(project)) == ["AGENTS.md"]
    unreadable, empty, outside = notes_of(project)
    assert unreadable.startswith("a/AGENTS.md cannot be read: ")
    assert "line 1" in unreadable
    assert empty == "b/AGENTS.md has no text; left out"
    assert outside == "CLAUDE.md leads outside the folder; left out"


def test_a_rule_of_claude_is_one_whatever_it_is_called(project):
    put(project, ".claude/rules/CLAUDE.md", "Short lines.")
    put(project, "web/.claude/rules/AGENTS.md", "---\npaths: '*.ts'\n---\nTest.")
    assert modes_of(project) == {".claude/rules/CLAUDE.md": "always", "web/.claude/rules/AGENTS.md": "agent"}
    assert list(parts_of(project)) == ["Claude rules"]


def test_a_pipe_is_not_waited_for(project):
    os.mkfifo(project / "AGENTS.md")
    put(project, "CLAUDE.md", "Tabs.")
    assert list(items_of(project)) == ["CLAUDE.md"]
    assert notes_of(project) == ["AGENTS.md is not a file; left out"]


def test_a_file_of_more_than_a_megabyte_is_left_out(project):
    put(project, "AGENTS.md", "x" * 1_000_000)
    put(project, "a/AGENTS.md", "x" * 1_000_001)
    assert list(items_of(project)) == ["AGENTS.md"]
    assert notes_of(project) == ["a/AGENTS.md has 1,000,001 bytes, more than 1,000,000; left out"]


def test_a_number_too_long_to_be_written_is_no_description(project):
    put(project, ".cursor/rules/a.mdc", "---\ndescription: 0x" + "f" * 5000 + "\n---\n# A\n\nText.")
    assert [item.description for item in items_of(project).values()] == ["A"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# x" + " " * 300_000 + "y", "x" + " " * 300_000 + "y"),
        ("#" + " " * 300_000, ""),
        ("# " * 300_000 + "x", "# " * 299_999 + "x"),
        ("```a\n" * 100_000 + "# no heading", ""),
        ("~~~~\n# no\n```\n~~~\n~~~~\n# Yes ##", "Yes"),
        ("# C# and `git` ##", "C# and `git`"),
        ("#no\n## F#\r\n", "F#"),
        ("# #\n# Second", "Second"),
    ],
)
def test_headings(text, title, project):
    put(project, "AGENTS.md", text)
    assert [item.title for item in items_of(project).values()] == [title]


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("`" * 20 + " ``a ` @a.md " * 50_000, True),
        ("``@a.md ` @a.md``", False),
        ("`x` @a.md `y`", True),
        ("``` not a fence ``` @a.md", True),
        ("```sh\n@a.md", False),
    ],
)
def test_imports_stand_outside_code(text, imported, project):
    put(project, "CLAUDE.md", text)
    put(project, "a.md", "A.")
    assert ("a.md" in items_of(project)) == imported


def test_two_folders_with_one_rule_are_told_apart(project):
    for name in ("a/shop", "b/shop"):
        put(project, f"{name}/AGENTS.md", "Tabs.")
    with pytest.raises(InputError, match=r"'AGENTS.md' in \S+a/shop and from 'AGENTS.md' in \S+b/shop"):
        capture(rules_folder(project / "a/shop"), rules_folder(project / "b/shop"))


def test_the_folder_here_has_a_name(project, monkeypatch):
    put(project, "AGENTS.md", "Tabs.")
    monkeypatch.chdir(project)
    assert parts_of(Path())["AGENTS.md"].details["folder"] == "shop"


def test_the_same_folder_gives_the_same_items_in_the_same_order(project):
    put(project, "b/AGENTS.md", "B")
    put(project, "AGENTS.md", "A")
    put(project, ".cursor/rules/z.mdc", "---\ndescription: z\n---\nZ")
    first, second = capture(rules_folder(project)), capture(rules_folder(project))
    assert first.catalog.hash == second.catalog.hash
    assert [item.name for item in first.catalog] == ["AGENTS.md", "b/AGENTS.md", ".cursor/rules/z.mdc"]
    (part, _) = first.parts
    assert part.as_row() == {
        "name": "AGENTS.md", "kind": "rules", "state": "captured", "items": 2, "folder": "shop",
        "modes": {"always": 1, "agent": 1},
    }  # fmt: skip


def test_markdown_folders_become_references(project):
    put(project, "guide/setup.md", "---\ntitle: Set-up\ndescription: First day\n---\nDo it.")
    put(project, "notes.MD", "# Notes\n\n```\n# no heading\n```")
    put(project, "plain.markdown", "No heading.")
    put(project, "picture.png", b"\x89PNG")
    (part,) = references_folder(project)()
    assert [(item.type, item.name, item.title, item.description, item.include) for item in part.items] == [
        ("reference", "guide/setup.md", "Set-up", "First day", "agent"),
        ("reference", "notes.MD", "Notes", "Notes", "agent"),
        ("reference", "plain.markdown", "", "", "agent"),
    ]
    assert {item.metadata["folder"] for item in part.items} == {project.name}
    (project / ".git").mkdir()
    assert ["folder" in item.metadata for item in references_folder(project)()[0].items] == [False] * 3


@pytest.mark.parametrize("source", [rules_folder, references_folder])
def test_a_folder_that_holds_nothing_or_is_not_there(source, project):
    with pytest.raises(InputError, match="under it; name another folder"):
        capture(source(project))
    with pytest.raises(StorageError, match="no such folder; expected one that holds rules or references"):
        capture(source(project / "none"))


def test_of_a_folder_with_other_markdown_files_alone_it_is_said_that_they_are_references(project):
    (project / "refunds.md").write_text("# Refunds\n\nWithin 30 days.\n")
    with pytest.raises(InputError, match="`references:`"):
        capture(rules_folder(project))


def test_a_key_is_told_with_its_file_and_line(project: Path) -> None:
    put(project, "AGENTS.md", f"\n# Keys\n\nUse {GITHUB}.")
    put(project, ".cursor/rules/sql.mdc", f"---\nalwaysApply: true\n---\n\nUse\n{GITHUB}.")
    put(project, "docs/api.md", f"# {STRIPE}\n")
    parts = capture(rules_folder(project), references_folder(project / "docs")).parts
    said = [note.rpartition(": ")[2] for part in parts for note in part.notes]
    assert said == [
        "AGENTS.md, line 4 (ghp_…, 40 characters)",
        ".cursor/rules/sql.mdc, line 6 (ghp_…, 40 characters)",
        f"api.md, line 1 (sk_l…, {len(STRIPE)} characters)",
    ]
