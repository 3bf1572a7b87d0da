"""The selector that an agent file names; advice on external selectors for files that take none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctxbench.io.yaml_form import YamlForm

LEARNED = "learned"  # where an agent file names none
PRESET_FORM = "{presets: FILE, preset: NAME}"  # how a tuned preset is named
OWN_FORM = "such as {command: [node, my-selector.mjs]}"  # and one of the user's own
_PRESET = ("presets", "preset")
_RUNNERS = {".py": "python", ".rb": "ruby", ".sh": "bash"} | dict.fromkeys((".js", ".mjs", ".cjs"), "node")
_KINDS = ("command", "url", "callable", "answers")  # keys that name a selector outside ctxbench


def program_form(name: str) -> str:
    """How a program in a file of source code is named as a selector; empty for another name."""
    runner = _RUNNERS.get(Path(name).suffix)
    return f"{{command: [{runner}, {name}]}}" if runner else ""


def own_selector_advice(value: Any) -> str:
    """Where to write an external selector, with the line for it; empty for a value that is none."""
    import yaml

    kind = next((name for name in _KINDS if isinstance(value, dict) and value.get(name)), None)
    if kind is None:
        return ""
    name = value.get("name")
    entry = {kind: value[kind], "name": name if isinstance(name, str) and name else "ours"}
    line = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000).strip()
    return f"; a selector of your own goes under `selectors:` in experiment.yaml and gate.yaml: `- {line}`"


def named_selector(form: YamlForm, data: Mapping[str, Any]) -> tuple[str, Path | None, Mapping[str, Any]]:
    """The selector of an agent file, as `AgentFile` has it: `selector`, `presets`, `own`; a path with its folder."""
    value = data.get("selector", LEARNED)
    if isinstance(value, Mapping) and value.get("presets"):
        form.refuse_unknown(value, _PRESET, "a tuned preset", "selector")
        if all(isinstance(value.get(key), str) and value[key] for key in _PRESET):
            return value["preset"], form.base / value["presets"], {}
        form.fault(f"selector must be {PRESET_FORM}, got {value!r}", "selector")
    elif isinstance(value, Mapping) and any(value.get(kind) for kind in _KINDS):
        if value.get("answers"):
            problem = "a file of answers answers no new request; name what wrote it"
            form.fault(f"{problem}{own_selector_advice(value)}", "selector")
        elif data.get("settings"):
            form.fault("settings are of a selector that ctxbench runs; give your own its settings itself", "settings")
        return LEARNED, None, value
    elif isinstance(value, Mapping) and (empty := [kind for kind in _KINDS if kind in value]):
        form.fault(f"{empty[0]} is empty; name what is asked, {OWN_FORM}", "selector")
    elif not isinstance(value, str):
        problem = f"selector must be a name, the path of one in YAML, {PRESET_FORM}, or one of your own, {OWN_FORM}"
        form.fault(f"{problem}; got {value!r}", "selector")
    else:
        return str(form.base / value) if value.endswith((".yaml", ".yml")) else value, None, {}
    return LEARNED, None, {}


def own_kind(definition: Mapping[str, Any]) -> str:
    """The kind of an external selector by its block: `command`, `url` ...; empty if there is none."""
    return next((kind for kind in _KINDS if definition.get(kind)), "")
