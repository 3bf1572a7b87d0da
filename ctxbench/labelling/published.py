"""Datasets from installed packages, and files fetched from publishers.

BFCL is the Berkeley Function Calling Leaderboard, from its wheel `bfcl-eval`. Source:
https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard (Apache-2.0).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.lookup import FileImporter, PublishedSource, SourceFile, importers, recipes, sha256_of, text_key
from ctxbench.datasets.queries import DatasetQuery, Label, connected_rows
from ctxbench.io.cache import Wheel
from ctxbench.io.console import Notify, nothing_said
from ctxbench.io.errors import Message, ParameterError, StorageError, UnknownNameError, check_known, install_command
from ctxbench.io.files import exclusive, make_folder, read_text
from ctxbench.io.http import AS_IT_IS, Deadline, compression, environment_fault, offline
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Message as ChatTurn, Request

if TYPE_CHECKING:
    import httpx


_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "shipped_datasets", _PACKAGE.parent / "datasets")  # of a wheel, and of the repository


class PackageData:
    """`smoke` (24 items and 30 requests of a front desk), `workbench`, `freight` and `diary` (a few hundred of each).

    A language model wrote and labelled them: they are for a first look, notebooks and tests.
    """

    provides: ClassVar[tuple[str, ...]] = ("smoke", "workbench", "freight", "diary")
    version: ClassVar[str] = "1"

    @property
    def install(self) -> str:
        """The command that installs them."""
        return install_command(reinstall=True)

    def available(self) -> bool:
        """Whether their files are installed."""
        return all(self._folder(name) is not None for name in self.provides)

    def load(self, name: str) -> Dataset:
        """Read one of the datasets.

        Raises:
            UnknownNameError: there is no such dataset.
            StorageError: the files are missing.
        """
        check_known("shipped dataset", name, self.provides)
        if (folder := self._folder(name)) is None:
            raise StorageError(f"the files of dataset {name} are missing from the package; run `{self.install}`")
        return read_dataset(folder)

    def _folder(self, name: str) -> Path | None:
        return next((folder / name for folder in _FOLDERS if (folder / name / "dataset.yaml").is_file()), None)


HOST = "https://raw.githubusercontent.com"
TRIES = 4  # of one file; each continues where the last one ended
TIMEOUT_S = 30.0  # time for `LEAST` bytes, or the rest of the file
LEAST = 30_000  # bytes
REDIRECTS = 5  # of one request
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_SLOW = Message("labelling.slow-server", n=LEAST, seconds=TIMEOUT_S)
_AGAIN = "remove it and try again"
PART = ".part"  # a hidden file in the same folder, until the download is complete

ShowBytes: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """One file of a source.

    Attributes:
        path: its path.
        size: in bytes.
        sha256: its digest.
        fresh: whether it was downloaded now.
    """

    path: Path
    size: int
    sha256: str
    fresh: bool


class _CutError(Exception):
    """The connection ended early, or the server asks for another try; downloaded bytes are kept."""


def sources() -> dict[str, tuple[PublishedSource, tuple[str, ...]]]:
    """The sources to fetch with their datasets, sorted by name."""
    readers = [importer for importer in importers().values() if isinstance(importer, FileImporter)]
    return dict(sorted({importer.source.name: (importer.source, importer.provides) for importer in readers}.items()))


def source_of(name: str) -> PublishedSource:
    """The source with a name, or the source of the dataset with this name.

    Raises:
        UnknownNameError: there is no such source or dataset.
        ParameterError: the dataset comes from a package.
    """
    by_name = sources()
    for source, datasets in by_name.values():
        if name == source.name or name in datasets:
            return source
    if (importer := importers().get(name)) is not None:
        raise ParameterError(f"dataset {name} has no files to fetch; get its source with: {importer.install}")
    names = {*by_name, "bfcl", *(dataset for _, datasets in by_name.values() for dataset in datasets)}
    raise UnknownNameError("source to fetch", name, names)


def fetch(
    source: PublishedSource,
    *,
    host: str = HOST,
    show: ShowBytes | None = None,
    notify: Notify = nothing_said,
    pause: float = 0.5,
) -> tuple[Fetched, ...]:
    """Fetch the files of a source into the cache, unless they are valid already.

    A file is moved to its path after its SHA-256 was checked. The next call continues an interrupted download.
    Processes take turns.

    Args:
        source: the files to fetch.
        host: the host of GitHub repositories: `<host>/<repository>/<commit>/<path>`.
        show: called with (text, bytes so far, all bytes) of each file.
        notify: called with notes of one line.
        pause: seconds before the second try of a file, doubled each time.

    Raises:
        StorageError: the network is forbidden or unavailable, a file is missing or wrong, or the cache cannot be
            written. Incomplete files are never visible.
    """

    @cache  # called once
    def waiting() -> None:
        notify(Message("labelling.fetch-waiting", name=source.name))

    with exclusive(source.folder / ".lock", waiting=waiting):
        missing = [file for file in source.files if not _is_right(source.folder / file.path, file, notify)]
        if missing and offline():
            raise StorageError(
                f"cannot fetch {source.name}: CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network; unset it, or "
                f"name a folder with the files: `ctxbench data import DATASET --from FOLDER`"
            )
        if missing:
            deadline = Deadline(TIMEOUT_S)
            with _client() as client:
                for file in missing:
                    url = f"{source.address(host)}/{file.published}"
                    _Download(client, deadline, url, file, source.folder / file.path, show).get(pause)
    return tuple(Fetched(source.folder / f.path, f.size, f.sha256, f in missing) for f in source.files)


def _client() -> httpx.Client:
    """A client with the proxies and certificates of the environment, without redirects.

    Raises:
        StorageError: the proxies or certificates cannot be used.
    """
    import httpx

    try:
        return httpx.Client(timeout=TIMEOUT_S, headers=AS_IT_IS, limits=httpx.Limits(max_connections=1))
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
        raise StorageError(environment_fault(error)) from error


def _is_right(path: Path, file: SourceFile, notify: Notify) -> bool:
    if not path.is_file():
        return False
    if (digest := sha256_of(path, fix=_AGAIN)) != file.sha256:
        notify(Message("labelling.fetch-again", path=path, got=digest, expected=file.sha256))
    return digest == file.sha256


@dataclass
class _Download:
    """The download of one file."""

    client: httpx.Client
    deadline: Deadline
    url: str
    file: SourceFile
    target: Path
    show: ShowBytes | None

    @property
    def part(self) -> Path:
        return self.target.with_name(f".{self.target.name}{PART}")

    def get(self, pause: float) -> None:
        """Fetch the file, check it and move it to its path.

        Raises:
            StorageError: it could not be fetched, or is another file.
        """
        had = self._size()
        self._fetch_all(pause)
        digest, size = sha256_of(self.part, fix=_AGAIN), self._size()
        if digest != self.file.sha256 and had:  # the kept part may be wrong
            self._drop()
            self._fetch_all(pause)
            digest, size = sha256_of(self.part, fix=_AGAIN), self._size()
        if digest != self.file.sha256:
            self._drop()
            raise StorageError(
                f"{self.url} is not the expected file: {size:,} bytes with SHA-256 {digest}, expected "
                f"{self.file.size:,} bytes with {self.file.sha256}; nothing was kept; check for a proxy or a "
                "login page"
            )
        try:
            self.part.replace(self.target)
        except OSError as error:
            raise self._unwritable(error) from error

    def _fetch_all(self, pause: float) -> None:
        """Fetch the whole file, with retries if the connection ends."""
        for attempt in range(TRIES):
            try:
                self._go_on()
            except _CutError as error:
                if attempt == TRIES - 1:
                    raise StorageError(
                        f"cannot fetch {self.url}: {error}; {self._size():,} of {self.file.size:,} bytes are kept; "
                        "run the same command to continue"
                    ) from error
                time.sleep(pause * 2**attempt)
            except KeyboardInterrupt as stopped:
                stopped.add_note(Message("labelling.fetch-resumes"))
                raise
            else:
                return

    def _go_on(self) -> None:
        """Send one request for the missing bytes, and append them to the partial file.

        Raises:
            _CutError: another try may succeed.
            StorageError: no other try will succeed.
        """
        import httpx

        if (have := self._size()) >= self.file.size:
            return
        try:
            with self.deadline.running():
                self._exchange(have)
        except (httpx.TransportError, UnicodeError) as error:  # UnicodeError: an invalid host in a redirect
            if isinstance(error, httpx.UnsupportedProtocol):
                raise StorageError(f"cannot fetch {self.url}: {error}") from error
            raise _CutError(_SLOW if self.deadline.late else str(error) or type(error).__name__) from error
        if self.deadline.late:  # we ended the connection
            raise _CutError(_SLOW)

    def _exchange(self, have: int) -> None:
        """Send the request, and follow redirects without reading their bodies."""
        headers = {"Range": f"bytes={have}-"} if have else {}
        request = self.client.build_request("GET", self.url, headers=headers, extensions={"trace": self.deadline.trace})
        for _ in range(REDIRECTS + 1):
            with contextlib.closing(self.client.send(request, stream=True)) as response:
                if response.next_request is None:
                    return self._take(response, have)
            request = response.next_request
        raise StorageError(f"cannot fetch {self.url}: more than {REDIRECTS} redirects")

    def _take(self, response: httpx.Response, have: int) -> None:
        """Write the body of a response, from `have` if the server continues there, else from the start."""
        status = f"the server answers {response.status_code} {response.reason_phrase}"
        if response.status_code in TRY_AGAIN:
            raise _CutError(status)
        if response.status_code == 416 or (response.status_code == 206 and _first(response) != have):
            self._drop()
            raise _CutError(f"{status} to a request for bytes from {have:,}")
        if response.status_code not in (200, 206):
            raise StorageError(
                f"cannot fetch {self.url}: {status}; if it was moved, name a folder with a copy: "
                "`ctxbench data import DATASET --from FOLDER`"
            )
        if compression(response.headers):
            raise StorageError(
                f"cannot fetch {self.url}: the response is compressed ({compression(response.headers)!r:.80}) although "
                "the request forbids it; check for a proxy"
            )
        done = lap = have if response.status_code == 206 else 0
        try:
            make_folder(self.part.parent)
            with self.part.open("ab" if done else "wb") as stream:
                for piece in response.iter_raw():
                    done += len(piece)
                    if done > self.file.size:
                        break  # another file
                    stream.write(piece)
                    if done - lap >= LEAST:
                        self.deadline.restart()
                        lap = done
                    if self.show is not None:
                        self.show(f"fetching {self.file.path}, bytes", done, self.file.size)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            self._drop()
            raise self._unwritable(error) from error
        if done > self.file.size:
            self._drop()
            raise StorageError(
                f"{self.url} is not the expected file: it has more than the {self.file.size:,} bytes expected; "
                "nothing was kept"
            )

    def _size(self) -> int:
        try:
            return self.part.stat().st_size
        except OSError:
            return 0

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            self.part.unlink()

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(Message("labelling.cannot-write", path=self.target, error=error.strerror or error))


def _first(response: httpx.Response) -> int:
    """The first byte of a partial response; -1 if it is not stated."""
    match = re.match(r"bytes (\d{1,18})-", response.headers.get("content-range", ""))
    return int(match[1]) if match else -1


RELEASE: str = recipes()["bfcl"]["release"]
SHA256: Mapping[str, str] = recipes()["bfcl"]["files"]
BFCL_WHEEL = Wheel(
    requirement=f"bfcl-eval=={RELEASE}", sha256=recipes()["bfcl"]["wheel"], folder="bfcl_eval/data", files=tuple(SHA256)
)
SIMPLE, MULTIPLE, IRRELEVANCE = "simple_python", "live_multiple", "live_irrelevance"


class _BfclEntry(NamedTuple):
    """A question with its functions, and the names that its answer calls."""

    id: str
    part: str
    messages: tuple[ChatTurn, ...]
    functions: Sequence[Mapping[str, Any]]
    answer_names: tuple[str, ...]


class BFCL:
    """`bfcl-simple`, `bfcl-live` and `bfcl-live-listed`; queries require the tools that their answers call.

    A function is a tool without a server. Many names are defined several times. In the first two datasets the
    first definition in file order is used for all, as elsewhere; in `bfcl-live-listed` each definition is a tool, and
    each query gets the definitions listed with it. Schemas are as published, in the dialect of BFCL (`dict`, `float`,
    `tuple` for types).
    """

    provides: ClassVar[tuple[str, ...]] = tuple(recipes()["bfcl"]["datasets"])
    version: ClassVar[str] = f"{RELEASE}-1"
    install: ClassVar[str] = "ctxbench data fetch bfcl"

    def __init__(self, folder: Path | None = None, *, sha256: Mapping[str, str] = SHA256) -> None:
        """Read from the installed wheel, from what `fetch_bfcl` took of it, or from a copy of its `data` folder.

        Args:
            folder: the copy; None = the wheel.
            sha256: the expected digest of each file.
        """
        self._folder, self._sha256 = folder, sha256

    def available(self) -> bool:
        """Whether the folder exists, or the wheel is installed in any release."""
        folder = self._folder or bfcl_folder()
        return folder is not None and folder.is_dir()

    def load(self, name: str) -> Dataset:
        """Make one of the datasets; about a second.

        Raises:
            UnknownNameError: `name` is not in `provides`.
            StorageError: the wheel is missing or of another version, or a file is not the expected one.
        """
        check_known("dataset of BFCL", name, self.provides)
        if name == "bfcl-simple":
            entries = self._entries(SIMPLE)
            return self._dataset(name, entries, groups=[entry.answer_names[0] for entry in entries])
        multiple, irrelevance = self._entries(MULTIPLE), self._entries(IRRELEVANCE)
        groups = _groups([*multiple, *irrelevance])
        return (
            self._dataset(name, multiple, groups=groups[: len(multiple)])
            if name == "bfcl-live"
            else self._dataset(name, [*multiple, *irrelevance], groups=groups)
        )

    def _entries(self, part: str) -> list[_BfclEntry]:
        answers = self._rows(f"possible_answer/BFCL_v4_{part}.json") if part != IRRELEVANCE else []
        calls = {row["id"]: row["ground_truth"] for row in answers}
        return [
            _BfclEntry(
                id=row["id"],
                part=part,
                messages=tuple(ChatTurn(m["role"], m["content"]) for turn in row["question"] for m in turn),
                functions=row["function"],
                answer_names=tuple(dict.fromkeys(name for call in calls.get(row["id"], ()) for name in call)),
            )
            for row in self._rows(f"BFCL_v4_{part}.json")
        ]

    def _rows(self, file: str) -> list[dict[str, Any]]:
        path = self._data_folder() / file
        if (digest := sha256_of(path, fix=f"expected {self.install}")) != self._sha256[file]:
            raise StorageError(
                f"{path} is not the file of bfcl-eval {RELEASE}: its SHA-256 is {digest}, expected "
                f"{self._sha256[file]}; run: {self.install}"
            )
        return [json.loads(line) for line in read_text(path).strip().split("\n")]

    def _data_folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        if (folder := bfcl_folder()) is None:
            raise StorageError(Message("labelling.bfcl-missing", command=self.install))
        return folder

    def _dataset(self, name: str, entries: Sequence[_BfclEntry], *, groups: Sequence[str]) -> Dataset:
        every_definition = name == "bfcl-live-listed"
        tools = _tools(entries, every_definition=every_definition)
        card = recipes()["bfcl"]["datasets"][name]
        queries, labels = [], []
        for entry, group in zip(entries, groups, strict=True):
            keys = {function["name"]: tools[_definition_text(function)].key for function in entry.functions}
            request = Request(
                id=entry.id,
                text=entry.messages[-1].content,  # the user's in every entry
                history=entry.messages[:-1],
                available=tuple(keys.values()) if every_definition else None,
            )
            query = DatasetQuery(
                request=request,
                split=split_of(group),
                group=group,
                tags=(entry.part,),
                needs_nothing=entry.part == IRRELEVANCE,
            )
            queries.append(query)
            labels += [Label(entry.id, keys[name], Grade.REQUIRED) for name in entry.answer_names]
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog({tool.key: tool for tool in tools.values()}.values()),
            queries=tuple(queries),
            labels=tuple(labels),
            about={
                "licence": "Apache-2.0",
                "source": {
                    "package": f"bfcl-eval=={RELEASE}",
                    "url": "https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard",
                    "sha256": {file: self._sha256[file] for file in card["files"]},
                },
                "labelling": card["labelling"],
                "notes": card["notes"],
            },
        )


def bfcl_folder() -> Path | None:
    """The folder of fetched files, else the data folder of the installed package, which is not imported."""
    if BFCL_WHEEL.target.is_dir():
        return BFCL_WHEEL.target
    spec = importlib.util.find_spec("bfcl_eval")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) / "data" if folders else None


def fetch_bfcl() -> tuple[Path, tuple[Fetched, ...]]:
    """Fetch the files of BFCL into the cache, unless the right ones are there or installed; see `Wheel.fetch`.

    Returns:
        The folder, and the files in it.

    Raises:
        StorageError: the wheel cannot be downloaded or has another hash, or the cache cannot be written.
    """
    folder, is_fresh = bfcl_folder(), False
    if folder is None or not all(_has_sha256(folder / name, digest) for name, digest in SHA256.items()):
        folder, is_fresh = BFCL_WHEEL.fetch(), True
    sizes = {name: (folder / name).stat().st_size for name in SHA256}
    return folder, tuple(Fetched(folder / name, sizes[name], digest, is_fresh) for name, digest in SHA256.items())


def _has_sha256(path: Path, digest: str) -> bool:
    return path.is_file() and sha256_of(path, fix=_AGAIN) == digest


def _tools(entries: Iterable[_BfclEntry], *, every_definition: bool) -> dict[str, Item]:
    """The tool of each definition, by the text of the definition, in file order.

    With `every_definition`, later definitions of a name are other tools, with the start of the SHA-256 of the
    definition as server; otherwise the first definition is used for all. Other tools have no server.
    """
    first: dict[str, Item] = {}
    tools: dict[str, Item] = {}
    for entry in entries:
        for function in entry.functions:
            name, text = function["name"], _definition_text(function)
            if text in tools:
                continue
            digest = hashlib.sha256(text.encode("ascii")).hexdigest()
            server = digest[:8] if name in first and every_definition else None
            tool = Item(
                type="tool",
                server=server,
                name=name,
                description=function["description"],
                schema=function["parameters"],
            )
            tools[text] = tool if server else first.setdefault(name, tool)
    return tools


def _groups(entries: Sequence[_BfclEntry]) -> list[str]:
    """The group of each live query, named by its first query.

    Queries with the same text (ignoring blanks and case), or with the same list of functions (the second number of
    `live_multiple_712-164-28`), are a group. They are often paraphrases.
    """
    keys = ((f"{e.part} {e.id.rsplit('_', 1)[1].split('-')[1]}", (text_key(e.messages[-1].content),)) for e in entries)
    names = {row: entries[rows[0]].id for rows in connected_rows(keys) for row in rows}
    return [names[row] for row in range(len(entries))]


def _definition_text(function: Mapping[str, Any]) -> str:
    """A definition as text, independent of the order of its keys."""
    return json.dumps(function, sort_keys=True, ensure_ascii=True)
