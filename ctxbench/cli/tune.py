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
    "such a cut: of the items that score above 0 the first topN and all that score at least includeScore; of these "
    "none that scores less than (1 - margin) of the best"
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
    datasets: Sequence[str], policy: Path, *, places: ResultPaths, texts: bool = True, as_json: bool = False
) -> None:
    """Tune, write report and presets, and print what is recommended.

    Args:
        datasets: names or folders.
        policy: the policy file.
        places: where results go.
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

    markdown = places.markdown
    with progress() as shown:
        file = read_policies(policy)
        names = [Path(one).resolve().name for one in datasets]
        folder = places.out or Path("runs") / f"tune-{file.name}-{together(names)}"
        _refuse_foreign(folder)
        refuse_outputs({"--markdown": markdown}, {"the policies": [policy], **dataset_inputs(*datasets)})
        if markdown is not None and len(datasets) > 1:
            refuse_foreign_tables(markdown)
        ready = open_fitted(file, datasets, folder / "presets", notify=shown.say, progress=shown)
        for opened in ready.datasets:
            for name in opened.empty:
                shown.say(f"warning: {all_empty(name, opened.dataset.name)}")
        found = tune(ready, command=_command(datasets, policy, markdown, texts=texts), progress=shown)
    if not texts:
        found = _without_texts(found)
    report = write_report(found, folder)
    pages = [] if markdown is None else write_markdown(found, markdown, figures=markdown.stem)
    written = fit_files(file, folder / "presets", [one.dataset for one in found.datasets])
    # last, so that presets never stand without their report
    for one in found.datasets:
        path = folder / "presets" / f"{one.dataset}.yaml"
        if write_presets_of(one, ready, path):
            written.append(path)
    if as_json:
        print_json(_facts(found, ready, written, folder))
        return
    say(*console_table(found, plain=is_plain()).splitlines())
    for one in found.datasets:
        if (path := folder / "presets" / f"{one.dataset}.yaml") not in written:
            say(f"no presets for {one.dataset}, since the default is kept under every policy: there is no {path}")
    say(*_ways_to_take(found, ready, file), *_way_to_use(found, ready, folder / "presets"))
    for path in (*written, *(page for page in pages if page.suffix == ".md"), report[0], report[1]):
        say(f"written: {path}")


def _ways_to_take(found: Tuning, ready: TuningInputs, file: PolicyFile) -> list[str]:
    """For each preset of an agent's own selector what to write into its file: its settings, with those that change.

    Of a selector outside ctxbench, whose rankings were cut, the cut that it is to make itself, also where an agent file
    names it. `file` is the policy file as the user has it, in which fitted selectors are not replaced yet.
    """
    from ctxbench.selectors.definitions import agent_definition
    from ctxbench.selectors.parameters import value_text
    from ctxbench.sources.agent_file import is_agent_file, read_agent

    paths = {one.name: file.base / one.selector for one in file.selectors if one.selector.endswith((".yaml", ".yml"))}
    agents = {name: read_agent(path) for name, path in paths.items() if is_agent_file(path)}
    outside = {one.name for one in ready.tunables if one.answers is not None}
    lines, cut = [], False
    for dataset in found.datasets:
        on = f" on {dataset.dataset}" if len(found.datasets) > 1 else ""
        for outcome in dataset.outcomes:
            if (chosen := outcome.recommended) is None:
                continue
            if chosen.selector in outside:
                said = ", ".join(f"{name} {value_text(value)}" for name, value in chosen.values.items())
                lines.append(
                    f"to take {outcome.policy.name}{on}: cut the ranking of {chosen.selector} yourself by {said}"
                )
                cut = True
            elif chosen.selector in agents:
                agent = agents[chosen.selector]
                now = {name: one.default for name, one in agent_definition(agent).parameters.items()}
                settings = {**agent.settings, **{k: v for k, v in chosen.values.items() if now.get(k) != v}}
                said = ", ".join(f"{name}: {value_text(value)}" for name, value in settings.items())
                lines.append(f"to take {outcome.policy.name}{on}: in {agent.path}, settings: {{{said}}}")
    return [*lines, *([_OWN_CUT] if cut else [])]


def _way_to_use(found: Tuning, ready: TuningInputs, folder: Path) -> list[str]:
    """How an agent file names a preset that is not of an agent's own selector; nothing where there is none."""
    from ctxbench.selectors.definitions import is_file
    from ctxbench.sources.agent_file import is_agent_file

    every = (*ready.tunables, *(preset.tunable for preset in ready.shipped))
    sources = {one.name: str(ready.file.base / one.source) for one in every if one.answers is None}
    for dataset in found.datasets:
        chosen = {one.policy.name: one.recommended.selector for one in dataset.outcomes if one.recommended is not None}
        able = [name for name, one in chosen.items() if one in sources and not is_agent_file(sources[one])]
        if not able:
            continue
        name = "normal" if "normal" in able else able[0]
        source = Path(sources[chosen[name]])
        first, place = "", folder
        if folder.parts[0] == "runs":
            place = Path("presets")
            first = f"copy {folder} out of runs/, which git ignores, to {place}/, and "
            if is_file(str(source)) and not source.resolve().is_relative_to(folder.resolve()):
                first = f"tune with --out outside of runs/, which git ignores, so that {source} is found from there; "
                place = Path("FOLDER/presets")
        form = f"{{presets: {(place / dataset.dataset).as_posix()}.yaml, preset: {name}}}"
        return [f"to use a preset: {first}write `selector: {form}` into an agent file"]
    return []


def _refuse_foreign(folder: Path) -> None:
    """Results of another command are not overwritten.

    Raises:
        ParameterError: the folder is a dataset's, or holds something else that is no tuning.
        StorageError: it cannot be written.
    """
    refuse_unwritable(folder, folder="a tuning")
    for name, what in (("dataset.yaml", "a dataset"), ("manifest.json", "a run of `ctxbench run` or `score`")):
        if (folder / name).exists():
            raise ParameterError(f"{folder} is the folder of {what}; name another one with --out")
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


def _without_texts(found: Tuning) -> Tuning:
    """What was found, with requests named by their ids alone."""

    def outcome(one: PolicyOutcome) -> PolicyOutcome:
        return replace(one, worse=tuple(replace(worse, text="") for worse in one.worse))

    datasets = tuple(replace(one, outcomes=tuple(map(outcome, one.outcomes))) for one in found.datasets)
    return replace(found, datasets=datasets)


def _command(datasets: Sequence[str], policy: Path, markdown: Path | None, *, texts: bool) -> str:
    """The line that repeats a tuning."""
    words = ["ctxbench", "tune", *datasets, "--policy", str(policy), *([] if texts else ["--no-text"])]
    return shlex.join([*words, *(["--markdown", str(markdown)] if markdown is not None else [])])


def _facts(found: Tuning, ready: TuningInputs, written: Sequence[Path], folder: Path) -> dict[str, Any]:
    return {
        "name": found.name,
        "seed": found.seed,
        "confidence": ready.file.confidence,
        "folder": str(folder),
        "presets": [str(path) for path in written],
        "datasets": {one.dataset: _dataset(one) for one in found.datasets},
    }


def _dataset(one: DatasetTuning) -> dict[str, Any]:
    return {
        "hash": one.hash,
        "items": one.items,
        "queries": dict(one.queries),
        "tokens": one.tokens,
        "contenders": {result.name: _result(result) for result in one.results},
        "shipped": {name: result.name for name, result in one.shipped.items()},
        "policies": {outcome.policy.name: _outcome(one, outcome) for outcome in one.outcomes},
        "notes": list(one.notes),
    }


def _result(one: SettingResult) -> dict[str, Any]:
    from ctxbench.bench.summary import estimate_dict

    splits = {"tuning": one.tuning, "test": one.test} if one.test else {"all": one.tuning}
    figures = {split: {name: estimate_dict(each) for name, each in found.items()} for split, found in splits.items()}
    return {"role": one.role, "selector": one.selector, "values": dict(one.values), **figures}


def _outcome(dataset: DatasetTuning, one: PolicyOutcome) -> dict[str, Any]:
    from ctxbench.bench.summary import comparison_dict
    from ctxbench.report.tuning.advice import advice
    from ctxbench.tuning.preset_files import policy_block, verdict_block
    from ctxbench.tuning.tuning_results import LEARNED_NORMAL

    chosen, shortfall = one.recommended, dataset.shortfall(one)
    (same,) = (group for group in dataset.same_advice() if one in group)

    def comparisons(found: Mapping[str, Any]) -> dict[str, Any]:
        return {metric: comparison_dict(each) for metric, each in found.items()}

    return {
        "policy": policy_block(one.policy),
        "advice": advice(dataset, one),
        "recommended": None if chosen is None else {"selector": chosen.selector, "set": dict(chosen.values)},
        "shipped": one.shipped if chosen is not None else "",
        "replaced": None if one.replaced is None else one.replaced.name,
        "less_complete_than_shipped": {LEARNED_NORMAL: shortfall} if shortfall else {},
        "same_as": [other.policy.name for other in same if other is not one],
        "reason": one.reason,
        "needed": None if one.needed is None else list(one.needed),
        "taken_from": one.taken_from,
        "settings": one.settings,
        "tried": one.tried,
        "bounds": dict(one.bounds),
        "verdicts": [verdict_block(each) for each in one.verdicts],
        "fixed": None if one.fixed is None else one.fixed.name,
        "fixed_reason": one.fixed_reason,
        "fixed_own": None if one.fixed_own is None else one.fixed_own.name,
        "against": {kind: comparisons(found) for kind, found in one.against.items()},
        "ranking": comparisons(one.ranking),
        "worse": [{"query": each.query, "missing": list(each.missing)} for each in one.worse],
    }
