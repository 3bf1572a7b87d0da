"""What to do where a selector of the user's own is named in a file that takes none."""

from __future__ import annotations

from typing import Any

_KINDS = ("command", "url", "callable", "answers")  # keys that name a selector outside ctxbench


def own_selector_advice(value: Any) -> str:
    """Where a selector of one's own goes, with the line to write there; empty for a value that is none."""
    import yaml

    kind = next((one for one in _KINDS if isinstance(value, dict) and value.get(one)), None)
    if kind is None:
        return ""
    name = value.get("name")
    entry = {kind: value[kind], "name": name if isinstance(name, str) and name else "ours"}
    line = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000).strip()
    return f"; a selector of your own goes under `selectors:` in experiment.yaml and gate.yaml: `- {line}`"
