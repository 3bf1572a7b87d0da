"""Files that are no UTF-8 text are told by their first bytes."""

from __future__ import annotations

import gzip

import pytest

from ctxbench.io.documents import iter_jsonl
from ctxbench.io.errors import InputError
from ctxbench.io.files import is_utf16, iter_lines, read_text


@pytest.mark.parametrize(
    "read", [read_text, lambda path: list(iter_lines(path, [])), lambda path: list(iter_jsonl(path, []))]
)
def test_what_gzip_compressed_is_one_error_with_the_command_that_unpacks_it(tmp_path, read):
    path = tmp_path / "my log.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 9))
    with pytest.raises(InputError) as error:
        read(path)
    (fault,) = error.value.faults
    assert fault.message == f"it is compressed with gzip; unpack it first (gunzip -k '{path}')"


def test_utf16_is_told_with_and_without_its_mark(tmp_path):
    path = tmp_path / "a.txt"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        path.write_bytes("text".encode(encoding))
        assert is_utf16(path.read_bytes())
        with pytest.raises(InputError, match="the file is UTF-16; save it as UTF-8"):
            read_text(path)
