"""A check as JSON for a program: everything, with no number that is not finite."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ctxbench.bench.summary import comparison_dict, estimate_dict, finite
from ctxbench.core.errors import Fault, faults_of
from ctxbench.gate.baseline import AcceptedFigures
from ctxbench.gate.cause_texts import whole_detail
from ctxbench.gate.model import (
    Cause,
    Change,
    Check,
    MetricVerdict,
    PinFailure,
    SelectorCheck,
    UnmetRequirement,
)
from ctxbench.report.gate import check_texts
from ctxbench.report.gate.places import Location, Locations

FORMAT = 1


def check_dict(check: Check, *, strict: bool = False, locations: Locations | None = None) -> dict[str, Any]:
    """A check in JSON's types; what has no finite value is None. `error` is None unless it could not be made.

    Args:
        check: what was found.
        strict: whether `cannot tell` fails, for the exit code.
        locations: looks up files and lines.
    """
    locations = locations or Locations()
    return {
        "format": FORMAT,
        "name": check.name,
        "base": check.base,
        "head": check.head,
        "baseline": check.baseline,
        "verdict": str(check.verdict),
        "exit_code": check.exit_code(strict=strict),
        "notices": list(check.notices),
        "loosened": [asdict(setting) for setting in check.loosened],
        "replacement": None if check.replacement is None else asdict(check.replacement),
        "selectors": [_selector(selector, locations) for selector in check.selectors],
        "error": None,
    }


def summary_dict(figures: AcceptedFigures) -> dict[str, Any]:
    """What was accepted of a selector on a dataset; a mean of nothing is None."""
    means = {str(metric): finite(value) for metric, value in figures.metrics.items()}
    return {
        "dataset": figures.dataset,
        "selector": figures.selector,
        "shipped": figures.shipped,
        "queries": figures.queries,
        "offered": figures.offered,
        "metrics": means,
    }


def pin_dict(failure: PinFailure) -> dict[str, Any]:
    """A pin that does not hold in JSON's types."""
    fields = asdict(failure)
    del fields["remedy"]
    return {**fields, "mend": str(failure.remedy)}


def refusal_dict(name: str, error: Exception) -> dict[str, Any]:
    """A check that could not be made, in the form of one that was, with what is wrong as `error`.

    Args:
        name: of what was to be checked.
        error: why it could not be.
    """
    return {
        **check_dict(Check(name=name, base="", head="", selectors=())),
        "error": {"message": str(error), "faults": [_fault(fault) for fault in faults_of(error)]},
    }


def _fault(fault: Fault) -> dict[str, Any]:
    """A fault; parts of its location that are unknown are None."""
    return {
        "message": fault.message,
        "file": None if fault.path is None else Path(fault.path).as_posix(),
        "line": fault.line or None,
        "column": fault.column or None,
    }


def _selector(check: SelectorCheck, locations: Locations) -> dict[str, Any]:
    return {
        "dataset": check.dataset,
        "selector": check.selector,
        "shipped": check.shipped,
        "verdict": str(check.verdict),
        "reasons": list(check.reasons),
        "notices": list(check.notices),
        "differs": check.differs,
        "renamed": dict(check.renamed),
        "reused": check.reused,
        "servers": [
            {**asdict(server), "changed": list(server.changed), "unverified": list(server.unverified)}
            for server in check.servers
        ],
        "compared": check.compared,
        "left_out": {why: list(ids) for why, ids in check.left_out.items()},
        "lost": check.lost,
        "gained": check.gained,
        "needing": check.needing,
        "unsteady": check.unsteady,
        "allowed": check.allowed,
        "deterministic": check.deterministic,
        "metrics": [_metric(metric, deterministic=check.deterministic) for metric in check.metrics],
        "pins": [pin_dict(pin) for pin in check.pins],
        "unmet": [
            {**_unmet(requirement), **_location(locations.of_items(requirement.items, check.dataset))}
            for requirement in check.unmet
        ],
        "causes": [
            {
                **_cause(group.cause),
                "lost": group.lost,
                "gained": group.gained,
                "others": group.others,
                "tokens": group.tokens,
                "queries": list(group.queries),
                "mend": str(group.remedy),
                **_location(locations.of_cause(group.cause, check.dataset, [check.selector])),
            }
            for group in check.causes
        ],
        "repriced": [
            {**asdict(item), "tokens": item.tokens, **_location(locations.item(check.dataset, item.item))}
            for item in check.repriced
        ],
        "changes": [_change(change) for change in check.changes],
        "swaps": list(check.swaps),
        "texts": dict(check.texts),
    }


def _location(location: Location) -> dict[str, Any]:
    """A file and a line; what is not known of them is None."""
    file, line = location
    return {"file": file or None, "line": line or None}


def _metric(judged: MetricVerdict, *, deterministic: bool) -> dict[str, Any]:
    """A metric's verdict; p-values of a deterministic selector are None, since every difference is a fact."""
    compared = comparison_dict(judged.comparison)
    if deterministic:
        compared |= {"p": None, "p_floor": None, "p_holm": None, "p_holm_at_floor": None}
    for name in ("better_on", "worse_on"):  # which of both is better is the metric's to say
        del compared[name]
    comparison = judged.comparison
    return {
        "metric": judged.metric,
        "verdict": str(judged.verdict),
        "base": estimate_dict(judged.base),
        "head": estimate_dict(judged.head),
        "comparison": {
            **compared,
            "left_out": comparison.left_out,
            "higher_on": comparison.higher,
            "lower_on": comparison.lower,
            "equal_on": comparison.equal,
            "alpha": comparison.alpha,
        },
        "tolerance": finite(judged.tolerance),
        "detectable": None if judged.detectable is None else finite(judged.detectable),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {"cause": str(cause.kind), "subjects": list(cause.subjects), "detail": whole_detail(cause)}


def _change(change: Change) -> dict[str, Any]:
    def number(value: float | None) -> float | None:
        return None if value is None else finite(value)

    return {
        "query": change.query,
        "item": change.item,
        "way": check_texts.direction(change),
        "required": change.required,
        "kept_out_by": "" if change.rule is None else str(change.rule),
        "out_by": None if change.rule is None else change.rule.as_dict(),
        "missed_by": number(change.missed_by),
        "base": {"score": number(change.base_score), "rank": change.base_rank},
        "head": {"score": number(change.head_score), "rank": change.head_rank},
        **_cause(change.cause),
        "mend": str(change.remedy),
    }


def _unmet(requirement: UnmetRequirement) -> dict[str, Any]:
    return {"items": list(requirement.items), "why": requirement.why, "queries": list(requirement.queries)}
