"""`ctxbench tune`: presets by policy, a report, and presets files that experiments read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.io.console import is_plain, say
from ctxbench.io.files import read_text
from ctxbench.io.output_paths import files_in, refuse_outputs, refuse_unwritable

if TYPE_CHECKING:
    from ctxbench.tuning.opened_inputs import TuningInputs
    from ctxbench.tuning.policy_file import PolicyFile
    from ctxbench.tuning.tuning_results import DatasetTuning, PolicyOutcome, SettingResult, Tuning


_OWN_CUT = (
    "such a cut: of the items that score above 0 the first topN and all that score at least includeScore; of "
    "these none that scores less than (1 - margin) of the best"
)


@dataclass(frozen=True)
class ResultPaths:
    """Where results go.

    Attributes:
        out: the folder; None = one in `runs`, named after the policy file and the dataset.
        markdown: another file for the report as Markdown; None = none.
    """

    out: Path | None = None
    markdown: Path | None = None


def tune_presets(
    datasets: Sequence[str], policy: Path, *, paths: ResultPaths, texts: bool = True, as_json: bool = False
) -> None:
    """Tune, write report and presets, and print what is recommended.

    Args:
        datasets: names or folders.
        policy: the policy file.
        paths: where results go.
        texts: whether requests that get worse are shown with their texts, or by their ids alone.
        as_json: print a summary as JSON instead.

    Raises:
        UserError: a file is faulty, or results cannot be written; unless it is the last, nothing is.
    """
    from ctxbench.report.pages import refuse_foreign_tables
    from ctxbench.report.tuning import console_table, write_markdown, write_report
    from ctxbench.selectors.answers_file import all_empty
    from ctxbench.tuning.policy_file import read_policies
    from ctxbench.tuning.preset_files import fit_files, open_fitted, together, write_presets_of
    from ctxbench.tuning.tuner import tune

    markdown = paths.markdown
    with progress() as bar:
        file = read_policies(policy)
        names = [Path(dataset).resolve().name for dataset in datasets]
        folder = paths.out or Path("runs") / f"tune-{file.name}-{together(names)}"
        _refuse_foreign(folder)
        refuse_outputs({"--markdown": markdown}, {"the policies": [policy], **dataset_inputs(*datasets)})
        if markdown is not None and len(datasets) > 1:
            refuse_foreign_tables(markdown)
        ready = open_fitted(file, datasets, folder / "presets", notify=bar.say, progress=bar)
        for opened in ready.datasets:
            for name in opened.empty:
                bar.say(f"warning: {all_empty(name, opened.dataset.name)}")
        tuning = tune(ready, command=_command(datasets, policy, markdown, texts=texts), progress=bar)
    if not texts:
        tuning = _without_texts(tuning)
    report = write_report(tuning, folder)
    pages = [] if markdown is None else write_markdown(tuning, markdown, figures=markdown.stem)
    written = fit_files(file, folder / "presets", [dataset.dataset for dataset in tuning.datasets])
    # last, so that presets never stand without their report
    for dataset in tuning.datasets:
        path = folder / "presets" / f"{dataset.dataset}.yaml"
        if write_presets_of(dataset, ready, path):
            written.append(path)
    if as_json:
        print_json(_facts(tuning, ready, written, folder))
        return
    say(*console_table(tuning, plain=is_plain()).splitlines())
    for dataset in tuning.datasets:
        if (path := folder / "presets" / f"{dataset.dataset}.yaml") not in written:
            say(f"no presets for {dataset.dataset}, since the default is kept under every policy: there is no {path}")
    say(*_ways_to_take(tuning, ready, file), *_way_to_use(tuning, ready, folder / "presets"))
    for path in (*written, *(page for page in pages if page.suffix == ".md"), report[0], report[1]):
        say(f"written: {path}")


def _ways_to_take(tuning: Tuning, ready: TuningInputs, file: PolicyFile) -> list[str]:
    """How to take each preset of an agent's selector: the settings to write into the agent file.

    Of a selector outside ctxbench, whose rankings were cut, the cut that it is to make itself, also where an agent file
    names it. `file` is the policy file as the user has it, in which fitted selectors are not replaced yet.
    """
    from ctxbench.selectors.definitions import agent_definition
    from ctxbench.selectors.parameters import value_text
    from ctxbench.sources.agent_file import is_agent_file, read_agent

    paths = {
        selector.name: file.base / selector.selector
        for selector in file.selectors
        if selector.selector.endswith((".yaml", ".yml"))
    }
    agents = {name: read_agent(path) for name, path in paths.items() if is_agent_file(path)}
    outside = {tunable.name for tunable in ready.tunables if tunable.answers is not None}
    lines, cut = [], False
    for dataset in tuning.datasets:
        on = f" on {dataset.dataset}" if len(tuning.datasets) > 1 else ""
        for outcome in dataset.outcomes:
            if (chosen := outcome.recommended) is None:
                continue
            if chosen.selector in outside:
                text = ", ".join(f"{name} {value_text(value)}" for name, value in chosen.values.items())
                lines.append(
                    f"to take {outcome.policy.name}{on}: cut the ranking of {chosen.selector} yourself by {text}"
                )
                cut = True
            elif chosen.selector in agents:
                agent = agents[chosen.selector]
                current = {name: parameter.default for name, parameter in agent_definition(agent).parameters.items()}
                settings = {**agent.settings, **{k: v for k, v in chosen.values.items() if current.get(k) != v}}
                text = ", ".join(f"{name}: {value_text(value)}" for name, value in settings.items())
                lines.append(f"to take {outcome.policy.name}{on}: in {agent.path}, settings: {{{text}}}")
    return [*lines, *([_OWN_CUT] if cut else [])]


def _way_to_use(tuning: Tuning, ready: TuningInputs, folder: Path) -> list[str]:
    """How an agent file names a preset that is not of an agent's own selector; nothing where there is none."""
    from ctxbench.selectors.definitions import is_file
    from ctxbench.sources.agent_file import is_agent_file

    tunables = (*ready.tunables, *(preset.tunable for preset in ready.shipped))
    sources = {tunable.name: str(ready.file.base / tunable.source) for tunable in tunables if tunable.answers is None}
    for dataset in tuning.datasets:
        chosen = {
            outcome.policy.name: outcome.recommended.selector
            for outcome in dataset.outcomes
            if outcome.recommended is not None
        }
        able = [
            name for name, selector in chosen.items() if selector in sources and not is_agent_file(sources[selector])
        ]
        if not able:
            continue
        name = "normal" if "normal" in able else able[0]
        source = Path(sources[chosen[name]])
        first, target = "", folder
        if folder.parts[0] == "runs":
            target = Path("presets")
            first = f"copy {folder} out of runs/, which git ignores, to {target}/, and "
            if is_file(str(source)) and not source.resolve().is_relative_to(folder.resolve()):
                first = f"tune with --out outside of runs/, which git ignores, so that {source} is found from there; "
                target = Path("FOLDER/presets")
        form = f"{{presets: {(target / dataset.dataset).as_posix()}.yaml, preset: {name}}}"
        return [f"to use a preset: {first}write `selector: {form}` into an agent file"]
    return []


def _refuse_foreign(folder: Path) -> None:
    """Refuse to overwrite results of another command.

    Raises:
        ParameterError: the folder is a dataset's, or holds something else that is no tuning.
        StorageError: it cannot be written.
    """
    refuse_unwritable(folder, folder="a tuning")
    for name, noun in (("dataset.yaml", "a dataset"), ("manifest.json", "a run of `ctxbench run` or `score`")):
        if (folder / name).exists():
            raise ParameterError(f"{folder} is the folder of {noun}; name another one with --out")
    if not _is_tuning(folder):
        raise ParameterError(f"{folder} is there and is no tuning; name a new folder with --out")


def _is_tuning(folder: Path) -> bool:
    """Whether a folder holds a tuning, what one that was stopped has left, or nothing."""
    report = folder / "report.md"
    if report.exists():
        with suppress(UserError):
            return "ctxbench tune " in read_text(report)
        return False
    return all(path.match("figures/*.svg") or path.match("presets/fits/*") for path in files_in(folder))


def _without_texts(tuning: Tuning) -> Tuning:
    """The tuning, with requests named by their ids alone."""

    def outcome(result: PolicyOutcome) -> PolicyOutcome:
        return replace(result, worse=tuple(replace(worse, text="") for worse in result.worse))

    datasets = tuple(replace(dataset, outcomes=tuple(map(outcome, dataset.outcomes))) for dataset in tuning.datasets)
    return replace(tuning, datasets=datasets)


def _command(datasets: Sequence[str], policy: Path, markdown: Path | None, *, texts: bool) -> str:
    """The line that repeats a tuning."""
    words = ["ctxbench", "tune", *datasets, "--policy", str(policy), *([] if texts else ["--no-text"])]
    return shlex.join([*words, *(["--markdown", str(markdown)] if markdown is not None else [])])


def _facts(tuning: Tuning, ready: TuningInputs, written: Sequence[Path], folder: Path) -> dict[str, Any]:
    return {
        "name": tuning.name,
        "seed": tuning.seed,
        "confidence": ready.file.confidence,
        "folder": str(folder),
        "presets": [str(path) for path in written],
        "datasets": {dataset.dataset: _dataset(dataset) for dataset in tuning.datasets},
    }


def _dataset(dataset: DatasetTuning) -> dict[str, Any]:
    return {
        "hash": dataset.hash,
        "items": dataset.items,
        "queries": dict(dataset.queries),
        "tokens": dataset.tokens,
        "contenders": {result.name: _result(result) for result in dataset.results},
        "shipped": {name: result.name for name, result in dataset.shipped.items()},
        "policies": {outcome.policy.name: _outcome(dataset, outcome) for outcome in dataset.outcomes},
        "notes": list(dataset.notes),
    }


def _result(result: SettingResult) -> dict[str, Any]:
    from ctxbench.bench.summary import estimate_dict

    splits = {"tuning": result.tuning, "test": result.test} if result.test else {"all": result.tuning}
    figures = {
        split: {name: estimate_dict(estimate) for name, estimate in estimates.items()}
        for split, estimates in splits.items()
    }
    return {"role": result.role, "selector": result.selector, "values": dict(result.values), **figures}


def _outcome(dataset: DatasetTuning, outcome: PolicyOutcome) -> dict[str, Any]:
    from ctxbench.bench.summary import comparison_dict
    from ctxbench.report.tuning.advice import advice
    from ctxbench.tuning.preset_files import policy_block, verdict_block
    from ctxbench.tuning.tuning_results import LEARNED_NORMAL

    chosen, shortfall = outcome.recommended, dataset.shortfall(outcome)
    (members,) = (group for group in dataset.same_advice() if outcome in group)

    def comparisons(by_metric: Mapping[str, Any]) -> dict[str, Any]:
        return {metric: comparison_dict(comparison) for metric, comparison in by_metric.items()}

    return {
        "policy": policy_block(outcome.policy),
        "advice": advice(dataset, outcome),
        "recommended": None if chosen is None else {"selector": chosen.selector, "set": dict(chosen.values)},
        "shipped": outcome.shipped if chosen is not None else "",
        "replaced": None if outcome.replaced is None else outcome.replaced.name,
        "less_complete_than_shipped": {LEARNED_NORMAL: shortfall} if shortfall else {},
        "same_as": [member.policy.name for member in members if member is not outcome],
        "reason": outcome.reason,
        "needed": None if outcome.needed is None else list(outcome.needed),
        "taken_from": outcome.taken_from,
        "settings": outcome.settings,
        "tried": outcome.tried,
        "bounds": dict(outcome.bounds),
        "verdicts": [verdict_block(verdict) for verdict in outcome.verdicts],
        "fixed": None if outcome.fixed is None else outcome.fixed.name,
        "fixed_reason": outcome.fixed_reason,
        "fixed_own": None if outcome.fixed_own is None else outcome.fixed_own.name,
        "against": {kind: comparisons(by_metric) for kind, by_metric in outcome.against.items()},
        "ranking": comparisons(outcome.ranking),
        "worse": [{"query": request.query, "missing": list(request.missing)} for request in outcome.worse],
    }
