"""ctxbench measures what a context selector offers an AI agent's model, and how many tokens that costs.

For notebooks and programs. Data: `load`, `dataset`, `catalog`, and `from_file` (a dataset from files of any kind).
Selectors: names, `pipeline`, `steps`, `answers`; steps by functions: `rerank`, `retrieve`, `cut`. Results: `evaluate`
measures selectors on labels, `run` runs an experiment in YAML, `open` reads a finished run, `tune` finds the best
preset, `check` compares with a baseline, `select` answers one request. Labels: `label` asks what requests need,
`review` lists labels that look wrong. `conversation` shows the context of a stored reply.

The classes and functions for writing a strategy or plugin are here, too; `dir(ctxbench)` lists them. A name is imported
when it is first used.
"""

# Nothing is loaded here that Python has not loaded: a command sets up what Ctrl-C does before it loads anything.
import os

# Read when these libraries are imported: else onnxruntime reports its use, and the Hub's client names it in requests.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

TYPE_CHECKING = False
# ruff: isort: skip_file
if TYPE_CHECKING:
    from ctxbench.api.evaluation import (
        Tuned as Tuned,
        evaluate as evaluate,
        open as open,  # noqa: A004 - only as `ctxbench.open`
        run as run,
        tune as tune,
    )
    from ctxbench.api.inputs import (
        Data as Data,
        Rankings as Rankings,
        catalog as catalog,
        dataset as dataset,
        load as load,
    )
    from ctxbench.api.labelling import (
        Conversation as Conversation,
        Labelling as Labelling,
        Question as Question,
        Review as Review,
        conversation as conversation,
        from_file as from_file,
        label as label,
        review as review,
    )
    from ctxbench.api.results import Checked as Checked, Results as Results, check as check
    from ctxbench.api.selectors import (
        Preset as Preset,
        Selected as Selected,
        answers as answers,
        cut as cut,
        pipeline as pipeline,
        rerank as rerank,
        retrieve as retrieve,
        select as select,
        step as step,
        steps as steps,
    )
    from ctxbench.io.errors import (
        ParameterError as ParameterError,
        SelectorError as SelectorError,
        UserError as UserError,
    )
    from ctxbench.model.arrays import Masks as Masks
    from ctxbench.model.candidates import (
        Candidates as Candidates,
        Mode as Mode,
        Note as Note,
        Origin as Origin,
        Rule as Rule,
        add_expanded as add_expanded,
        place_among as place_among,
        reranked as reranked,
        text_shown as text_shown,
    )
    from ctxbench.model.items import Catalog as Catalog, Item as Item, ItemKey as ItemKey, Link as Link
    from ctxbench.model.requests import (
        Batch as Batch,
        ChunkKind as ChunkKind,
        Filter as Filter,
        Message as Message,
        Query as Query,
        Request as Request,
        SessionItem as SessionItem,
    )
    from ctxbench.model.resources import Resource as Resource, Resources as Resources
    from ctxbench.model.selection import Prompt as Prompt, Selection as Selection, selections as selections
    from ctxbench.model.strategies import Strategy as Strategy
    from ctxbench.pipelines.pipeline import Outcome as Outcome, Pipeline as Pipeline
    from ctxbench.search.dense import ranked_by as ranked_by

__version__ = "0.1.0"

_MODULES = {
    "api.evaluation": ("Tuned", "evaluate", "open", "run", "tune"),
    "api.inputs": ("Data", "Rankings", "catalog", "dataset", "load"),
    "api.labelling": (
        "Conversation",
        "Labelling",
        "Question",
        "Review",
        "conversation",
        "from_file",
        "label",
        "review",
    ),
    "api.results": ("Checked", "Results", "check"),
    "api.selectors": (
        "Preset",
        "Selected",
        "answers",
        "cut",
        "pipeline",
        "rerank",
        "retrieve",
        "select",
        "step",
        "steps",
    ),
    "io.errors": ("ParameterError", "SelectorError", "UserError"),
    "model.arrays": ("Masks",),
    "model.candidates": (
        "Candidates",
        "Mode",
        "Note",
        "Origin",
        "Rule",
        "add_expanded",
        "place_among",
        "reranked",
        "text_shown",
    ),
    "model.items": ("Catalog", "Item", "ItemKey", "Link"),
    "model.requests": ("Batch", "ChunkKind", "Filter", "Message", "Query", "Request", "SessionItem"),
    "model.resources": ("Resource", "Resources"),
    "model.selection": ("Prompt", "Selection", "selections"),
    "model.strategies": ("Strategy",),
    "pipelines.pipeline": ("Outcome", "Pipeline"),
    "search.dense": ("ranked_by",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["__version__", *sorted(_PLACES.keys() - {"open"})]  # noqa: PLE0604 - all of them are texts; `*` keeps `open`


def __getattr__(name: str) -> object:
    import importlib

    if name not in _PLACES:
        raise AttributeError(f"module 'ctxbench' has no attribute {name!r}; it has {', '.join(sorted(_PLACES))}")
    value: object = getattr(importlib.import_module(f"ctxbench.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["__version__", *sorted(_PLACES)]
