"""Fetch the files of a source from their publisher: checked, resumed, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ctxbench.bench.progress_listener import Notify, nothing_said
from ctxbench.core.errors import ParameterError, StorageError, UnknownNameError
from ctxbench.data.datasets.lookup import importers
from ctxbench.data.importers.published_files import FileImporter, PublishedSource, SourceFile, sha256_of
from ctxbench.io.files import exclusive
from ctxbench.io.leftovers import make_folder
from ctxbench.net.http_connection import environment_fault, offline
from ctxbench.net.http_limits import AS_IT_IS, Deadline, compression

if TYPE_CHECKING:
    import httpx

HOST = "https://raw.githubusercontent.com"
TRIES = 4  # of one file, each going on where the last one ended
TIMEOUT_S = 30.0  # in which `LEAST` bytes come, or the file is whole
LEAST = 30_000  # bytes; a server that drips would hold everybody up for days
REDIRECTS = 5  # of one exchange
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_SLOW = f"fewer than {LEAST:,} bytes came in {TIMEOUT_S:g} s"
_AGAIN = "remove it and try again"
PART = ".part"  # a hidden file in the same folder, until the download is complete

ShowBytes: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """One file of a source.

    Attributes:
        path: where it stands.
        size: in bytes.
        sha256: as expected and found.
        fresh: whether it came now; False if it was there.
    """

    path: Path
    size: int
    sha256: str
    fresh: bool


class _CutError(Exception):
    """The connection ended early, or the server asks to try again; what has come is kept."""


def sources() -> dict[str, tuple[PublishedSource, tuple[str, ...]]]:
    """The sources that can be fetched, by name, with their datasets, sorted."""
    readers = [importer for importer in importers().values() if isinstance(importer, FileImporter)]
    by_name = {importer.source.name: (importer.source, importer.provides) for importer in readers}
    return dict(sorted(by_name.items()))


def source_of(name: str) -> PublishedSource:
    """The source of a name, which may be that of a dataset made of it.

    Raises:
        UnknownNameError: nothing has the name; the closest are named.
        ParameterError: the dataset comes from a package; says what to install.
    """
    by_name = sources()
    for source, datasets in by_name.values():
        if name == source.name or name in datasets:
            return source
    importer = importers().get(name)
    if importer is not None:
        raise ParameterError(f"dataset {name} has no files to fetch; its source is installed: {importer.install}")
    names = {*by_name, *(dataset for _, datasets in by_name.values() for dataset in datasets)}
    raise UnknownNameError("source to fetch", name, names)


def fetch(
    source: PublishedSource,
    *,
    host: str = HOST,
    show: ShowBytes | None = None,
    notify: Notify = nothing_said,
    pause: float = 0.5,
) -> tuple[Fetched, ...]:
    """Fetch the files of a source into the cache; valid files are left as they are.

    A file comes into its place only once its SHA-256 is the expected one. What has come of it when the connection
    ends, or the process, is kept, and the next call goes on from there. Processes take turns.

    Args:
        source: what to fetch.
        host: where repositories on GitHub are published: `<host>/<repository>/<commit>/<path>`.
        show: told (text, bytes so far, bytes in all) of each file.
        notify: told in one line what turned out otherwise.
        pause: seconds before the second try of a file, doubled each time.

    Raises:
        StorageError: the network is forbidden or not there, the server has no such file or another one, or the
            cache cannot be written. Nothing is half-written.
    """

    @cache  # said once
    def waiting() -> None:
        notify(f"{source.name}: another process is fetching it; waiting")

    with exclusive(source.folder / ".lock", waiting=waiting):
        missing = [file for file in source.files if not _is_right(source.folder / file.path, file, notify)]
        if missing and offline():
            raise StorageError(
                f"cannot fetch {source.name}: CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network; unset it, or "
                f"name a folder that holds the files: `ctxbench data import DATASET --from FOLDER`"
            )
        if missing:
            deadline = Deadline(TIMEOUT_S)
            with _client() as client:
                for file in missing:
                    url = f"{source.address(host)}/{file.published}"
                    _Download(client, deadline, url, file, source.folder / file.path, show).get(pause)
    return tuple(Fetched(source.folder / f.path, f.size, f.sha256, f in missing) for f in source.files)


def _client() -> httpx.Client:
    """A client that uses the proxies and certificates of the environment, and follows no redirect by itself.

    Raises:
        StorageError: the environment names some that cannot be used.
    """
    import httpx

    try:
        return httpx.Client(timeout=TIMEOUT_S, headers=AS_IT_IS, limits=httpx.Limits(max_connections=1))
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
        raise StorageError(environment_fault(error)) from error


def _is_right(path: Path, file: SourceFile, notify: Notify) -> bool:
    if not path.is_file():
        return False
    digest = sha256_of(path, remedy=_AGAIN)
    if digest != file.sha256:
        notify(f"{path}: its SHA-256 is {digest}, expected {file.sha256}; fetching it again")
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
            StorageError: it could not be had, or is another file.
        """
        had = self._size()
        self._fetch_all(pause)
        digest, size = sha256_of(self.part, remedy=_AGAIN), self._size()
        if digest != self.file.sha256 and had:  # what was kept from before may be what is wrong
            self._drop()
            self._fetch_all(pause)
            digest, size = sha256_of(self.part, remedy=_AGAIN), self._size()
        if digest != self.file.sha256:
            self._drop()
            raise StorageError(
                f"{self.url} is not the expected file: {size:,} bytes with SHA-256 {digest}, expected "
                f"{self.file.size:,} bytes with {self.file.sha256}; nothing was kept. Something on the way may have "
                "answered in its place (a proxy, a login page)"
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
                        f"cannot fetch {self.url}: {error}; {self._size():,} of {self.file.size:,} bytes have come and "
                        "are kept, the same command goes on from there"
                    ) from error
                time.sleep(pause * 2**attempt)
            except KeyboardInterrupt as stopped:
                stopped.add_note("what has come is kept: the same command goes on from there")
                raise
            else:
                return

    def _go_on(self) -> None:
        """Send one request for the missing bytes, and append them to the partial file.

        Raises:
            _CutError: worth another try.
            StorageError: not worth one.
        """
        import httpx

        have = self._size()
        if have >= self.file.size:
            return
        try:
            with self.deadline.running():
                self._exchange(have)
        except (httpx.TransportError, UnicodeError) as error:  # the latter of a Location whose host cannot be
            if isinstance(error, httpx.UnsupportedProtocol):
                raise StorageError(f"cannot fetch {self.url}: {error}") from error
            raise _CutError(_SLOW if self.deadline.late else str(error) or type(error).__name__) from error
        if self.deadline.late:  # a body that ends with its connection ended by us
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
            raise _CutError(f"{status} to a request for the bytes from {have:,} on")
        if response.status_code not in (200, 206):
            raise StorageError(
                f"cannot fetch {self.url}: {status}; if its owner has moved it, name a folder that holds a copy: "
                "`ctxbench data import DATASET --from FOLDER`"
            )
        if compression(response.headers):
            raise StorageError(
                f"cannot fetch {self.url}: the server compresses ({compression(response.headers)!r:.80}) what it was "
                "asked for as it is; something on the way may do so (a proxy)"
            )
        done = lap = have if response.status_code == 206 else 0
        try:
            make_folder(self.part.parent)
            with self.part.open("ab" if done else "wb") as stream:
                for piece in response.iter_raw():
                    done += len(piece)
                    if done > self.file.size:
                        break  # another file; its digest will say so
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
        return StorageError(f"cannot write {self.target}: {error.strerror or error}; nothing was changed there")


def _first(response: httpx.Response) -> int:
    """The first byte that a partial response brings; -1 if it does not say."""
    match = re.match(r"bytes (\d{1,18})-", response.headers.get("content-range", ""))
    return int(match[1]) if match else -1
