"""Write experiments/guide/codes.md, the list of message codes: `make codes`."""

from pathlib import Path

from ctxbench.io.errors import MESSAGES, read_messages

PAGE = Path(__file__).with_name("codes.md")
HEAD = """# Message codes

Faults, notes and causes have stable codes, which `--json` (of `check`: `--output-format json`) and other
machine-readable output show. Values are in braces.
`make codes` writes this page from `ctxbench/report/messages/`.
"""


def page() -> str:
    """The page, one table per file of messages."""
    lines = [HEAD]
    for path in sorted(MESSAGES.glob("*.toml")):
        lines += [f"## {path.stem}", "", "| code | message |", "| --- | --- |"]
        messages = sorted(read_messages(path.stem).values(), key=lambda message: int(message["code"][3:]))
        lines += [f"| {message['code']} | {_cell(message['text'])} |" for message in messages]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    """A text as code in a cell of a table."""
    return f"`` {' '.join(text.split())} ``".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
