"""ctxbench tests what a context selector offers an AI agent's model, and at what price in tokens.

For notebooks and programs: `load`, `dataset` and `catalog` give what is asked about, `evaluate` holds selectors against
labels, of which `pipeline` and `answers` make some, `run` runs an experiment in YAML, `tune` finds the best preset,
`check` tells a regression from noise, `select` answers one request, and `conversation` shows what a stored reply came
from. `from_logs` makes a dataset of what an agent logged, `label` asks what its requests need, and `review` lists
labels that look wrong.

What a strategy or a plugin of your own is written with stands here, too, whatever module it lives in; `dir(ctxbench)`
lists it. Nothing is loaded before it is asked for.
"""

# Nothing is imported here: a command sets up what Ctrl-C does before it loads anything.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctxbench.core.candidates import Candidates as Candidates
    from ctxbench.core.candidates import Mode as Mode
    from ctxbench.core.candidates import Origin as Origin
    from ctxbench.core.candidates import add_expanded as add_expanded
    from ctxbench.core.candidates import place_among as place_among
    from ctxbench.core.candidates import rescored as rescored
    from ctxbench.core.errors import ParameterError as ParameterError
    from ctxbench.core.errors import SelectorError as SelectorError
    from ctxbench.core.errors import UserError as UserError
    from ctxbench.core.items import Catalog as Catalog
    from ctxbench.core.items import Item as Item
    from ctxbench.core.items import ItemKey as ItemKey
    from ctxbench.core.items import Link as Link
    from ctxbench.core.masks import Masks as Masks
    from ctxbench.core.notes import Note as Note
    from ctxbench.core.pipeline import Outcome as Outcome
    from ctxbench.core.pipeline import Pipeline as Pipeline
    from ctxbench.core.query import ChunkKind as ChunkKind
    from ctxbench.core.query import Query as Query
    from ctxbench.core.requests import Batch as Batch
    from ctxbench.core.requests import Filter as Filter
    from ctxbench.core.requests import Message as Message
    from ctxbench.core.requests import Request as Request
    from ctxbench.core.requests import SessionItem as SessionItem
    from ctxbench.core.rules import Rule as Rule
    from ctxbench.core.selection import Prompt as Prompt
    from ctxbench.core.selection import Selection as Selection
    from ctxbench.core.selection import selections as selections
    from ctxbench.core.shown import text_shown as text_shown
    from ctxbench.core.stages import Resource as Resource
    from ctxbench.core.stages import Resources as Resources
    from ctxbench.core.strategy import Strategy as Strategy
    from ctxbench.index.ranked import ranked_by as ranked_by
    from ctxbench.library.baseline_check import Checked as Checked
    from ctxbench.library.baseline_check import check as check
    from ctxbench.library.conversation import Conversation as Conversation
    from ctxbench.library.conversation import conversation as conversation
    from ctxbench.library.dataset_frames import Data as Data
    from ctxbench.library.dataset_frames import catalog as catalog
    from ctxbench.library.dataset_frames import dataset as dataset
    from ctxbench.library.dataset_frames import load as load
    from ctxbench.library.evaluation import evaluate as evaluate
    from ctxbench.library.evaluation import run as run
    from ctxbench.library.label_review import Review as Review
    from ctxbench.library.label_review import review as review
    from ctxbench.library.labelling import Labelling as Labelling
    from ctxbench.library.labelling import Question as Question
    from ctxbench.library.labelling import from_logs as from_logs
    from ctxbench.library.labelling import label as label
    from ctxbench.library.one_request import Selected as Selected
    from ctxbench.library.one_request import select as select
    from ctxbench.library.result_frames import Results as Results
    from ctxbench.library.selectors import Preset as Preset
    from ctxbench.library.selectors import answers as answers
    from ctxbench.library.selectors import pipeline as pipeline
    from ctxbench.library.selectors import step as step
    from ctxbench.library.tuning import Tuned as Tuned
    from ctxbench.library.tuning import tune as tune

__version__ = "0.1.0"

_MODULES = {
    "core.candidates": ("Candidates", "Mode", "Origin", "add_expanded", "place_among", "rescored"),
    "core.errors": ("ParameterError", "SelectorError", "UserError"),
    "core.items": ("Catalog", "Item", "ItemKey", "Link"),
    "core.masks": ("Masks",),
    "core.notes": ("Note",),
    "core.pipeline": ("Outcome", "Pipeline"),
    "core.query": ("ChunkKind", "Query"),
    "core.requests": ("Batch", "Message", "Filter", "Request", "SessionItem"),
    "core.rules": ("Rule",),
    "core.selection": ("Prompt", "Selection", "selections"),
    "core.shown": ("text_shown",),
    "core.stages": ("Resource", "Resources"),
    "core.strategy": ("Strategy",),
    "index.ranked": ("ranked_by",),
    "library.baseline_check": ("Checked", "check"),
    "library.conversation": ("Conversation", "conversation"),
    "library.dataset_frames": ("Data", "catalog", "dataset", "load"),
    "library.evaluation": ("evaluate", "run"),
    "library.label_review": ("Review", "review"),
    "library.labelling": ("Labelling", "Question", "from_logs", "label"),
    "library.one_request": ("Selected", "select"),
    "library.result_frames": ("Results",),
    "library.selectors": ("Preset", "answers", "pipeline", "step"),
    "library.tuning": ("Tuned", "tune"),
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
