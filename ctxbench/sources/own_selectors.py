"""The selector that an agent file names; what to do where one of the user's own is named in a file that takes none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctxbench.io.yaml_form import YamlForm

LEARNED = "learned"  # where an agent file names none
PRESET_FORM = "{presets: FILE, preset: NAME}"  # how a tuned preset is named
_PRESET = ("presets", "preset")
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


def named_selector(form: YamlForm, data: Mapping[str, Any]) -> tuple[str, Path | None]:
    """The selector of an agent file, a path relative to that file; or the name of a tuned preset, and its file."""
    value = data.get("selector", LEARNED)
    if isinstance(value, Mapping) and value.get("presets"):
        form.refuse_unknown(value, _PRESET, "a tuned preset", "selector")
        if all(isinstance(value.get(key), str) and value[key] for key in _PRESET):
            return value["preset"], form.base / value["presets"]
        form.fault(f"selector must be {PRESET_FORM}, got {value!r}", "selector")
    elif own := own_selector_advice(value):
        what = "selector must be the name of a selector or the path of one in YAML"
        form.fault(f"{what}, got {value!r}{own}", "selector")
    elif not isinstance(value, str):
        what = f"selector must be a name, the path of one in YAML, or {PRESET_FORM}"
        form.fault(f"{what}; got {value!r}", "selector")
    else:
        return str(form.base / value) if value.endswith((".yaml", ".yml")) else value, None
    return LEARNED, None
