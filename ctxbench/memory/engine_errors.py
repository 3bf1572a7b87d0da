"""The errors of the memory engine, by the types of its specification."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ctxbench.core.errors import EmbeddingError, InputError, ParameterError, StorageError, UnknownNameError, UserError

EMBEDDING, SEARCH, STORAGE, VALIDATION = "embedding_error", "search_error", "storage_error", "validation_error"
TEMPLATE = "template_not_found"


class EngineError(UserError):
    """A call of the engine failed.

    Attributes:
        type: `embedding_error`, `search_error`, `storage_error`, `validation_error` or `template_not_found`.
    """

    def __init__(self, type: str, message: str) -> None:  # noqa: A002 - the document's name
        self.type = type
        super().__init__(message)


_GIVEN = (ParameterError, InputError, UnknownNameError)
_TYPES = ((EmbeddingError, EMBEDDING), (StorageError, STORAGE), (_GIVEN, VALIDATION), (UserError, SEARCH))


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise expected errors inside it as an `EngineError`; bugs keep their type."""
    try:
        yield
    except EngineError:
        raise
    except UserError as error:
        raise EngineError(next(name for kind, name in _TYPES if isinstance(error, kind)), str(error)) from error
