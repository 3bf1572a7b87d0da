"""ctxbench measures what a context selector offers an AI agent's model, and how many tokens that costs.

For notebooks and programs. Data: `load`, `dataset`, `catalog`, and `from_file` (a dataset from files of any kind).
Selectors: names, `pipeline`, `answers`. Results: `evaluate` measures selectors on labels, `run` runs an experiment in
YAML, `tune` finds the best preset, `check` compares with a baseline, `select` answers one request. Labels: `label` asks
what requests need, `review` lists labels that look wrong. `conversation` shows the context of a stored reply.

The classes and functions for writing a strategy or plugin are here, too; `dir(ctxbench)` lists them. A name is imported
when it is first used.
"""

# Nothing is imported here: a command sets up what Ctrl-C does before it loads anything.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctxbench.api.evaluation import Tuned as Tuned
    from ctxbench.api.evaluation import evaluate as evaluate
    from ctxbench.api.evaluation import run as run
    from ctxbench.api.evaluation import tune as tune
    from ctxbench.api.inputs import Data as Data
    from ctxbench.api.inputs import Preset as Preset
    from ctxbench.api.inputs import answers as answers
    from ctxbench.api.inputs import catalog as catalog
    from ctxbench.api.inputs import dataset as dataset
    from ctxbench.api.inputs import load as load
    from ctxbench.api.inputs import pipeline as pipeline
    from ctxbench.api.inputs import step as step
    from ctxbench.api.labelling import Conversation as Conversation
    from ctxbench.api.labelling import Labelling as Labelling
    from ctxbench.api.labelling import Question as Question
    from ctxbench.api.labelling import Review as Review
    from ctxbench.api.labelling import conversation as conversation
    from ctxbench.api.labelling import from_file as from_file
    from ctxbench.api.labelling import label as label
    from ctxbench.api.labelling import review as review
    from ctxbench.api.results import Checked as Checked
    from ctxbench.api.results import Results as Results
    from ctxbench.api.results import Selected as Selected
    from ctxbench.api.results import check as check
    from ctxbench.api.results import select as select
    from ctxbench.io.errors import ParameterError as ParameterError
    from ctxbench.io.errors import SelectorError as SelectorError
    from ctxbench.io.errors import UserError as UserError
    from ctxbench.model.arrays import Masks as Masks
    from ctxbench.model.candidates import Candidates as Candidates
    from ctxbench.model.candidates import Mode as Mode
    from ctxbench.model.candidates import Note as Note
    from ctxbench.model.candidates import Origin as Origin
    from ctxbench.model.candidates import Rule as Rule
    from ctxbench.model.candidates import add_expanded as add_expanded
    from ctxbench.model.candidates import place_among as place_among
    from ctxbench.model.candidates import reranked as reranked
    from ctxbench.model.candidates import text_shown as text_shown
    from ctxbench.model.items import Catalog as Catalog
    from ctxbench.model.items import Item as Item
    from ctxbench.model.items import ItemKey as ItemKey
    from ctxbench.model.items import Link as Link
    from ctxbench.model.requests import Batch as Batch
    from ctxbench.model.requests import ChunkKind as ChunkKind
    from ctxbench.model.requests import Filter as Filter
    from ctxbench.model.requests import Message as Message
    from ctxbench.model.requests import Query as Query
    from ctxbench.model.requests import Request as Request
    from ctxbench.model.requests import SessionItem as SessionItem
    from ctxbench.model.resources import Resource as Resource
    from ctxbench.model.resources import Resources as Resources
    from ctxbench.model.selection import Prompt as Prompt
    from ctxbench.model.selection import Selection as Selection
    from ctxbench.model.selection import selections as selections
    from ctxbench.model.strategies import Strategy as Strategy
    from ctxbench.pipelines.pipeline import Outcome as Outcome
    from ctxbench.pipelines.pipeline import Pipeline as Pipeline
    from ctxbench.search.dense import ranked_by as ranked_by

__version__ = "0.1.0"

_MODULES = {
    "api.evaluation": ("Tuned", "evaluate", "run", "tune"),
    "api.inputs": ("Data", "Preset", "answers", "catalog", "dataset", "load", "pipeline", "step"),
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
    "api.results": ("Checked", "Results", "Selected", "check", "select"),
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
__all__ = ["__version__", *sorted(_PLACES)]  # noqa: PLE0604 - all of them are texts


def __getattr__(name: str) -> object:
    import importlib

    if name not in _PLACES:
        raise AttributeError(f"module 'ctxbench' has no attribute {name!r}; it has {', '.join(sorted(_PLACES))}")
    value: object = getattr(importlib.import_module(f"ctxbench.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
