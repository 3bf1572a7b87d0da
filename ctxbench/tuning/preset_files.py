"""Writes what is recommended as presets files, which experiments and requests read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctxbench.bench.stats import Estimate
from ctxbench.bench.summary import finite
from ctxbench.core.errors import StorageError
from ctxbench.selectors.definitions import is_file
from ctxbench.selectors.presets import TunedPreset, definition_hash, parameter_texts, write_presets
from ctxbench.tuning.limits import Policy
from ctxbench.tuning.opened_inputs import TuningInputs
from ctxbench.tuning.tuning_results import ConstraintVerdict, DatasetTuning, PolicyOutcome, SettingResult

_READ = "read once, for the figures below, when all values were fixed"


def write_presets_of(found: DatasetTuning, ready: TuningInputs, path: Path) -> bool:
    """Write what is recommended on a dataset; whether there is anything.

    Args:
        found: on the dataset.
        ready: what was tuned.
        path: of the file; where nothing is recommended an earlier one is removed, since it would be of another policy.

    Raises:
        StorageError: the file cannot be written, or an earlier one cannot be removed.
    """
    presets = {
        outcome.policy.name: _preset(outcome, outcome.recommended, ready)
        for outcome in found.outcomes
        if outcome.recommended is not None
    }
    if not presets:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot remove {path}, which is of another policy: {error.strerror or error}"
            ) from error
        return False
    tuned = {
        "dataset": found.dataset,
        "version": found.version,
        "hash": found.hash,
        "queries": dict(found.queries),
        "of": dict(found.of),
        "embedder": ready.embedder.identity.as_dict(),
        "tokens": found.tokens,
        "seed": ready.file.seed,
        "confidence": ready.file.confidence,
        "policies": ready.file.hash,
    }
    write_presets(path, tuned=tuned, presets=presets, test_split="" if found.all_decide else _READ)
    return True


def _preset(outcome: PolicyOutcome, chosen: SettingResult, ready: TuningInputs) -> TunedPreset:
    policy = outcome.policy
    tunable = next(one for one in ready.tunables if one.name == chosen.selector)
    own = tunable.answers is None
    source = str(ready.file.base / tunable.source) if is_file(tunable.source) else tunable.source
    return TunedPreset(
        set=dict(chosen.values),
        about=policy.about,
        selector=source if own else "",
        definition=definition_hash(tunable.definition) if own else "",
        parameters=parameter_texts(tunable.definition) if own else {},
        answers="" if own else tunable.source,
        policy={**policy_block(policy), "verdicts": [verdict_block(one) for one in outcome.verdicts]},
        tuning=_figures(chosen.tuning),
        test=_figures(chosen.test),
    )


def policy_block(policy: Policy) -> dict[str, Any]:
    """A policy as its file says it."""
    rows = []
    for one in policy.constraints:
        row = {"metric": str(one.metric), "at_least": one.at_least, "at_most": one.at_most, "of": one.of}
        rows.append({key: value for key, value in row.items() if value not in (None, "")})
    return {"minimise" if policy.minimise else "maximise": str(policy.objective), "constraints": rows}


def verdict_block(one: ConstraintVerdict) -> dict[str, Any]:
    """What was found of a constraint."""
    found = {"constraint": one.text, "met": one.met, "verdict": one.status, "value": _rounded(one.value)}
    return {**found, "low": _rounded(one.low), "high": _rounded(one.high), "n": one.n, "needed": one.needed}


def _figures(found: Mapping[str, Estimate]) -> dict[str, dict[str, float | int | None]]:
    return {
        metric: {
            "value": _rounded(one.value),
            "low": _rounded(one.interval.low),
            "high": _rounded(one.interval.high),
            "n": one.n,
        }
        for metric, one in found.items()
    }


def _rounded(value: float) -> float | None:
    """To six significant digits: the last ones of a mean depend on the machine."""
    number = finite(value)
    return None if number is None else float(f"{number:.6g}")
