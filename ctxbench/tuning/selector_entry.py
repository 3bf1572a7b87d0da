"""A selector as a policy file names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ctxbench.io.yaml_files import YamlPath
from ctxbench.selectors.parameters import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorEntry:
    """A selector as the file names it, checked in form; whether it exists is checked when it is opened.

    Attributes:
        name: the name in tables, unique in the file.
        selector: a shipped name, or a definition's path relative to the file; empty for an external one.
        outside: how to ask an external one for its scored rankings, as `external_from_config` reads it, paths
            relative to the policy file; empty for a selector.
        set: values of parameters that are given.
        search: by parameter, the values that are tried, where they are not all.
        fit: `own`: its probability is fitted to the labels that decide; empty = it is used as it is.
        where: its path in the file, for faults found later.
    """

    name: str
    selector: str = ""
    outside: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Value] = field(default_factory=dict)
    search: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    fit: Literal["", "own"] = ""
    where: YamlPath = ()
