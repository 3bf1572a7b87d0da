"""Inputs that are hostile throughout, made from a seed, and the commands that read them; for test_hostile_texts.py.

What must be a name or an id is one; every text that may be any is hostile. Some files are damaged at a hostile place.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

FAKE = Path(__file__).parents[1] / "catalogs" / "mcp" / "fake_stdio.py"
PIECES = (
    "\x1b]52;c;cm0gLXJm\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x1b[8m", "\x90q\x9c", "\x7f\b\b", "\r\n::add-mask::x\n",
    "\n  ::error file=a::b", "\u2028::warning::c", "\x85::debug::d", "##[error]e", "\u202etxt.exe", "\u2066x\u2069",
    "\u200f\u061c", "\ufeff\u200b", "\U000e0041", "\t::f", " ::stop-commands::g", "\x0b::h", "\n\n::group::i",
    "\x1b[31mred\x1b[0m", "[bold]j[/bold]", "\x1b", "::k", "\r",
)  # fmt: skip
NAME = tuple(piece for piece in PIECES if not set(piece) & set("\t\n\r\0"))  # for ids and cells: no line ends
WORDS = ("open", "close", "ticket", "mail", "calendar", "invoice", "customer", "release")
SERVER = """
import json, sys
TEXT = json.loads({text!r})
sys.stderr.write(TEXT + "\\n")
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        result = {{"protocolVersion": request["params"]["protocolVersion"], "capabilities": {{"tools": {{}}}},
                   "serverInfo": {{"name": TEXT, "version": TEXT}}}}
    elif request.get("method") == "tools/list":
        if {ends!r}:
            sys.exit(TEXT)
        result = {{"tools": [{{"name": "a", "description": TEXT, "inputSchema": {{"type": "object"}}}}]}}
    elif "id" in request:  # left unanswered, the SDK's first question is waited for, ten seconds
        error = {{"code": -32601, "message": TEXT}}
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "error": error}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
"""


@dataclass(frozen=True)
class Asked:
    """One call of the command.

    Attributes:
        arguments: of the command line.
        typed: what is typed.
        marked: whether something hostile must come out, made fit.
        first: what is done before.
    """

    arguments: tuple[str, ...]
    typed: str = ""
    marked: bool = True
    first: Callable[[], object] = bool


@dataclass
class World:
    """Hostile files in the working folder.

    Attributes:
        seed: decides everything.
    """

    seed: int
    draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def text(self, pieces: tuple[str, ...] = PIECES) -> str:
        """Words with hostile pieces before, between and behind."""
        words = self.draw.choices(WORDS, k=3)
        return "".join(f"{self.draw.choice(pieces)}{word} " for word in words) + self.draw.choice(pieces)

    def name(self) -> str:
        """As `text`, without line ends and tabs."""
        return self.text(NAME)

    def id(self) -> str:
        """As `name`, without blanks of any kind."""
        return "".join(self.name().split())

    # ------------------------------------------------------------------------------------------------ files

    def dataset(self, folder: str, *, labelled: bool = True) -> Path:
        """Twelve items and sixteen queries; without labels in full, as a log leaves them."""
        path = Path(folder)
        (path / "qrels").mkdir(parents=True)
        ids = [f"tool:s{number % 2}:{WORDS[number % 8]}_{number}" for number in range(10)] + [
            "rule:a",
            "reference:b%0Ac",
        ]
        rows = [{"_id": one, "description": self.text(), "text": self.text(), "title": self.text()} for one in ids]
        dump_rows(path / "corpus.jsonl", rows)
        scopes, tags = [self.name() for _ in range(2)], [self.name() for _ in range(3)]
        about = {name: self.text() for name in ("version", "licence", "source", "labelling", "notes")}
        dump(path / "dataset.yaml", {"name": path.name, **about, "scopes": dict.fromkeys(scopes, ids[:8])})
        queries, labels = [], {"tuning": [], "test": []}
        for number in range(16):
            one = f"q{number}{self.id()}"
            split = "test" if number % 2 else "tuning"
            query = {"_id": one, "text": self.text(), "split": split, "tags": self.draw.sample(tags, 2)}
            query |= {"group": self.name() + str(number), "user": self.text(), "workspace": self.text()}
            query |= {"history": [{"role": "user", "content": self.text()}]} if number % 3 == 0 else {}
            query |= {"scope": self.draw.choice(scopes)} if number % 5 == 0 else {}
            queries.append(query | ({} if labelled else {"labelled": "partly"}))
            source = self.name().strip()
            labels[split] += [(one, ids[number % 8], "2", "direct", "", source)]
            labels[split] += [(one, ids[(number + 1) % 8], "1", "direct", "", source)] if labelled else []
        dump_rows(path / "queries.jsonl", queries)
        header = ("query-id", "corpus-id", "score", "via", "alternatives", "source")
        for split, rows_of in labels.items():
            (path / "qrels" / f"{split}.tsv").write_text(tsv([header, *rows_of]), "utf-8", newline="")
        return path

    def write(self) -> None:
        """Everything that `commands` reads."""
        data = self.dataset("data")
        self.dataset("log", labelled=False)
        ids = [json.loads(line)["_id"] for line in (data / "queries.jsonl").read_text("utf-8").split("\n") if line]
        failing = [{"query": one, "error": self.text()} for one in ids[:5]]
        unknown = [{"query": one, "items": [{"id": f"tool:{self.text()}"}]} for one in ids[5:9]]
        rest = [{"query": one, "items": [{"id": "tool:s0:open_0"}], "build": self.text()} for one in ids[9:]]
        dump_rows(Path("answers.jsonl"), [*failing, *unknown, *rest])
        dump_rows(Path("damaged.jsonl"), [*failing, {"query": self.text(), self.text(): 1}])
        Path("mine.py").write_text(f"def ask(*_given):\n    raise ValueError({self.text()!r})\n", "utf-8")
        own = {"name": self.name(), "callable": "mine.py:ask"}
        selectors = [{"selector": "bm25", "name": f" ::error::{self.name()}"}, own, {"answers": "answers.jsonl"}]
        told = {"name": "e", "about": self.text(), "datasets": ["data"], "embedder": "hashing", "tokens": "chars/4"}
        dump(Path("e.yaml"), {**told, "selectors": selectors})
        wrong = {**told, self.text(): 1, "selectors": [{"selector": self.text()}]}
        dump(Path("wrong.yaml"), wrong)
        dump(Path("wrong-gate.yaml"), {**wrong, "gate": {self.text(): 1}})
        dump(Path("wrong-policy.yaml"), {"policies": {}, self.text(): 1})
        dump(Path("gate.yaml"), {**told, "selectors": [{"selector": "bm25", "name": self.name(), "set": {"n": 3}}]})
        tuned = {
            "name": "p",
            "about": self.text(),
            "embedder": "hashing",
            "tokens": "chars/4",
            "selectors": ["semantic"],
        }
        dump(Path("policy.yaml"), {**tuned, "policies": {self.name(): {**POLICY, "about": self.text()}}})
        Path("broken.yaml").write_text(f"a: [1, {self.name()}\nb: }}", "utf-8")
        Path("broken.json").write_text(f'{{"a": "{self.text()}",,}}', "utf-8", newline="")
        turn = {"conversation": self.text(), "messages": [{"role": "user", "content": self.text()}]}
        turn |= {"offered": ["s0.open_0"], "called": [self.text(), "s0.open_0"]}
        dump_rows(Path("turns.jsonl"), [turn, {**turn, self.text(): 1, "called": self.text()}])
        header = ("query-id", "corpus-id", "score")
        pairs = [(f"q{self.id()}", "tool:a") for _ in range(4)]
        Path("a.tsv").write_text(tsv([header, *((*one, "2") for one in pairs)]), "utf-8", newline="")
        Path("b.tsv").write_text(tsv([header, *((*one, "0") for one in pairs[1:])]), "utf-8", newline="")
        tools = [{"name": "a", "description": self.text()}, {"type": self.text()}, {"name": self.text()}]
        Path("tools.json").write_text(json.dumps(tools))
        self._servers()
        (Path("project") / "skills").mkdir(parents=True)
        (Path("project") / "AGENTS.md").write_text(f"---\ndescription: {self.name()}\n---\n{self.text()}", "utf-8")
        (Path("pages") / f"p{self.name()[:20].replace('/', '')}").mkdir(parents=True)
        (Path("pages") / f"q{self.name()[:20].replace('/', '')}.md").write_text(self.text(), "utf-8")
        chat = [{"role": "user", "content": self.text()}, {"role": self.text(), "content": 1}]
        Path("chat.json").write_text(json.dumps(chat))
        renames = {"tool:s0:open_0": "tool:s0:opened"}
        Path("renames.yaml").write_text(yaml.safe_dump({**renames, self.name(): self.name()}), "utf-8")
        items = [json.loads(line) for line in (data / "corpus.jsonl").read_text("utf-8").split("\n") if line]
        dump_rows(Path("changed.jsonl"), [{**one, "description": self.text()} for one in items[2:]])
        Path("run.trec").write_text("".join(f"{one[0]} Q0 {self.id()} 1 1.0 x\n" for one in pairs), "utf-8")

    def _servers(self) -> None:
        for number, ends in enumerate((False, True)):
            text = json.dumps(self.text())
            Path(f"server{number}.py").write_text(SERVER.format(text=text, ends=ends), "utf-8")
        servers = {f"n{self.name()}": {"command": sys.executable, "args": ["server0.py"]}}
        servers |= {f"m{self.name()}": {"command": sys.executable, "args": ["server1.py"]}}
        servers |= {f"o{self.name()}": {"command": f"no-such{self.name()}"}}
        Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def reword(self) -> None:
        """Change what a gate looks at: most items say something else."""
        path = Path("data/corpus.jsonl")
        rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        dump_rows(path, [{**row, "description": self.draw.choice(PIECES), "text": ""} for row in rows[:9]] + rows[9:])

    # ------------------------------------------------------------------------------------------------ commands

    def commands(self) -> list[Asked]:
        """What is cheap, in an order in which each finds what it needs."""
        bad = f"no{self.text()}.yaml".replace("/", "")
        hashing, two = ("--embedder", "hashing"), ("--selectors", "bm25", "--selectors", "dense")
        chosen = ("--selector", "bm25", *hashing, "--catalog")
        return [
            Asked(("select", self.text(), *chosen, "data"), marked=False),
            Asked(("select", self.text(), "--selector", "semantic", *hashing, "--catalog", "data")),
            Asked(("select", self.text(), *chosen, "data", "--json")),
            Asked(("select", self.text(), *chosen, "data", "--messages")),
            Asked(("select", "x", *chosen, bad)),
            Asked(("select", "x", *chosen, "data", "--set", f"{self.text()}=1")),
            Asked(("select", "x", *hashing, "--catalog", "data", "--history", "chat.json")),
            Asked(("select", "x", *hashing, "--catalog", "data", "--add", self.text())),
            Asked(("select", "x", "--catalog", "broken.json"), marked=False),
            Asked(("run", "e.yaml")),
            Asked(("run", "e.yaml", "--json")),
            Asked(("report", "runs/e")),
            Asked(("run", "wrong.yaml")),
            Asked(("run", "broken.yaml"), marked=False),
            Asked(("run", bad)),
            Asked(("score", "answers.jsonl", "--dataset", "data", "--compare-to", "bm25", "--tokens", "chars/4")),
            Asked(("score", "damaged.jsonl", "--dataset", "data")),
            Asked(("score", "broken.json", "--dataset", self.text()), marked=False),
            Asked(("data", "stats", "data", "--all", "--tokens", "chars/4")),
            Asked(("data", "stats", "data", "--json", "--tokens", "chars/4")),
            Asked(("data", "show", "data")),
            Asked(("data", "show", "data", "--json")),
            Asked(("data", "show", "data", "--query", self.text())),
            Asked(("data", "validate", "broken.yaml"), marked=False),
            Asked(("data", "rebase", "data", "--catalog", "changed.jsonl", "--all")),
            Asked(("data", "rebase", "data", "--catalog", "changed.jsonl", "--renames", "renames.yaml")),
            Asked(("data", "diff", "data", "log", "--all")),
            Asked(("data", "split", "data", "--by", "group"), marked=False),
            Asked(("data", "export", "data", "--format", "trec", "--out", f"out{self.name()}".replace("/", ""))),
            Asked(("data", "agreement", "a.tsv", "b.tsv")),
            Asked(("data", "agreement", "a.tsv", bad)),
            Asked(("data", "label", "log", "--selectors", "bm25", *hashing), typed="1\n/open\nh\nx\nu\ns\n0\nn\nq\n"),
            Asked(("data", "review", "data", "--list", *two, *hashing)),
            Asked(("data", "review", "data", "--patch", "p", *two, *hashing), typed="k\n2\na\nu\nz\nq\n"),
            Asked(("data", "capture", "--rules", "project", "--references", "pages", "--out", "kept"), marked=False),
            Asked(("data", "import", "tools.json", "--out", "toolbox")),
            Asked(("data", "import", "traces", "turns.jsonl", "--catalog", "data", "--out", "made")),
            Asked(("data", "export", "data", "--format", "beir", "--out", "beir"), marked=False),
            Asked(
                ("data", "import", "beir", "beir", "--grades", "1=1,2=2", "--licence", self.text(), "--out", "b2"),
                marked=False,
            ),
            Asked(("data", "import", "run", "run.trec", "--dataset", "data", "--out", "r.jsonl")),
            Asked(("data", "import", self.text())),
            Asked((self.text(),)),
            Asked(("select", f"--{self.name()}")),
            Asked(("select", "x", "--near", self.text(), "--catalog", "x"), marked=False),
            Asked(("check", "--accept")),
            Asked(("check",), marked=False),
            Asked(("check", "--verbose")),
            Asked(("check", "--output-format", "github", "--allow-removed"), first=self.reword),
            Asked(("check", "--output-format", "json")),
            Asked(("check", "--output-format", "github", "--strict", "--markdown", "m.md")),
            Asked(("check", "--output-format", "github", "wrong-gate.yaml")),
        ]

    def costly(self) -> list[Asked]:
        """What takes a second or more."""
        bad, hashing = self.text(), ("--embedder", "hashing")
        return [
            Asked(("data", "capture", "--mcp-config", "mcp.json", "--out", "servers", "--timeout", "20")),
            Asked(("tune", "data", "--policy", "policy.yaml")),
            Asked(("tune", "data", "--policy", "wrong-policy.yaml")),
            Asked(("calibrate", "probability", "data", "--out", f"f{self.name()}".replace("/", ""), "--split", "all",
                   "--selector", "semantic", *hashing)),
            Asked(("calibrate", bad, "data", "--out", "fits.json")),
            Asked(("graph", "data", "--out", f"g{self.name()}".replace("/", ""), *hashing)),
            Asked(("latency", bad, "--catalog", "data")),
        ]  # fmt: skip


POLICY = {
    "about": "little", "minimise": "tokens",
    "constraints": [{"metric": "completeness", "at_least": 0.7, "of": "base"}],
}  # fmt: skip


def dump(path: Path, data: object) -> None:
    """Write YAML."""
    path.write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")


def dump_rows(path: Path, rows: list[dict[str, object]]) -> None:
    """Write JSON lines, with characters as they are."""
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8", newline="")


def tsv(rows: list[tuple[str, ...]]) -> str:
    """Cells as a table."""
    return "".join("\t".join(row) + "\n" for row in rows)
