"""What files of a user's in YAML have in common: values checked one by one, every fault kept with its line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from ctxbench.core.errors import Fault, InputError, UserError, suggest
from ctxbench.io.yaml_files import YamlPath, line_of

T = TypeVar("T")


def is_file_name(name: str) -> bool:
    """Whether a name does for a file or folder: not empty, no slash, no dot in front."""
    return bool(name.strip()) and not name.startswith(".") and not {"/", "\\", "\0"} & set(name)


@dataclass
class YamlForm:
    """Reads the values of a file and collects faults.

    Attributes:
        path, lines: of the file; None and nothing of what was made in Python.
        faults: found so far.
        misspelt: keys of the top that are missing while one that is nearly called so is there.
    """

    path: Path | None
    lines: Mapping[YamlPath, int]
    faults: list[Fault]
    misspelt: set[str] = field(default_factory=set, kw_only=True)

    @property
    def base(self) -> Path:
        """The folder that its paths are relative to."""
        return Path() if self.path is None else self.path.parent

    def fault(self, message: str, *where: str | int) -> None:
        """Add a fault at a path of the file; that a misspelt key is missing has been told."""
        if len(where) == 1 and where[0] in self.misspelt:
            return
        self.faults.append(Fault(message, self.path, line_of(self.lines, where)))

    def refuse_unknown(
        self, data: Iterable[Any], keys_allowed: Collection[str], description: str, *where: str | int
    ) -> None:
        """Add a fault for each key that is not known; `what` is what has no such key."""
        keys = list(data)
        for key in keys:
            if key not in keys_allowed:
                suggestions = () if where else get_close_matches(str(key), keys_allowed, cutoff=0.5)
                self.misspelt.update(suggestion for suggestion in suggestions if suggestion not in keys)
                self.fault(f"{description} has no {key!r}{suggest(str(key), keys_allowed)}", *where, key)

    def attempt(self, read: Callable[[], T], *where: str | int) -> T | None:
        """What a call returns; None if it raises what is the user's fault, which is noted."""
        try:
            return read()
        except InputError as error:
            self.faults.extend(error.faults)
        except UserError as error:
            self.fault(str(error), *where)
        return None

    def text(self, data: Mapping[str, Any], key: str, default: str) -> str:
        """A text; `default` if nothing is said."""
        value = data.get(key, default)
        if isinstance(value, str):
            return value
        self.fault(f"{key} must be a text, got {value!r}", key)
        return default

    def name(self, data: Mapping[str, Any], default: str) -> str:
        """A name that does for a folder."""
        name = self.text(data, "name", default)
        if not is_file_name(name):
            self.fault(f"name must do for a folder: not empty, no slash, no dot in front; got {name!r}", "name")
        return name

    def seed(self, data: Mapping[str, Any]) -> int:
        """A seed; 0 if nothing is said."""
        seed = data.get("seed", 0)
        if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**32:
            return seed
        self.fault(f"seed must be an integer from 0 to 4294967295, got {seed!r}", "seed")
        return 0

    def sample(self, data: Mapping[str, Any]) -> int:
        """How many queries a dataset at most; 0 if nothing is said."""
        sample = data.get("sample")
        if sample is None or (isinstance(sample, int) and not isinstance(sample, bool) and sample >= 1):
            return sample or 0
        self.fault(f"sample must be how many queries a dataset are asked at most, 1 or more, got {sample!r}", "sample")
        return 0
