"""The results of a check: changes, causes, remedies, judged metrics, pins and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ctxbench.bench.stats import Comparison, Estimate
from ctxbench.core.rules import Rule

if TYPE_CHECKING:
    from ctxbench.sources.mcp.server_files import CapturedServer


class Verdict(StrEnum):
    """How the head compares with its baseline."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    CANNOT_TELL = "cannot tell"
    NOT_COMPARABLE = "not comparable"

    @classmethod
    def of(cls, harm: float, *, tolerated: bool, significant: bool) -> Verdict:
        """The verdict on a difference.

        Args:
            harm: above 0 where it is for the worse.
            tolerated: whether it is no larger than what counts as the same.
            significant: whether it is more than chance.
        """
        if tolerated:
            return cls.SAME
        if harm > 0:
            return cls.WORSE if significant else cls.CANNOT_TELL
        return cls.BETTER if significant else cls.SAME

    @property
    def severity(self) -> int:
        """0 for the worst verdict, which decides over the others."""
        return _WORST_FIRST.index(self)


_WORST_FIRST = (Verdict.NOT_COMPARABLE, Verdict.WORSE, Verdict.CANNOT_TELL, Verdict.BETTER, Verdict.SAME)


class CauseKind(StrEnum):
    """Kinds of causes: what was changed so that an item went in or out."""

    EDITED = "item edited"  # its own text
    GONE = "item gone"
    RENAMED = "item renamed"
    CROWDED = "crowded out"  # by items that are new or were edited
    FREED = "room made"  # items above it are gone or were edited
    NEW = "item new"  # it was not in the catalog before
    DEARER = "item dearer"  # where it is offered as before
    CHEAPER = "item cheaper"
    PARAMETER = "parameter"
    MODEL = "model"
    CODE = "code"
    OUTSIDE = "outside selector"  # a selector of the user's answers otherwise
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a change.

    Attributes:
        kind: what was changed.
        subjects: what exactly: item ids (those that crowd out, the new name ...), or parameters; sorted, of prices by
            what they add or save.
        detail: one phrase for a person, such as `contextTopN 5 -> 3`; equal causes have equal details.
        mechanism: how subjects crowd out or make room, a key of `cause_finder.MECHANISMS`; empty elsewhere.
        either, also: what else may have done it, as a phrase: what is as likely, what is less so; empty = nothing.
    """

    kind: CauseKind
    subjects: tuple[str, ...] = ()
    detail: str = ""
    mechanism: str = ""
    either: str = ""
    also: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A suggested fix for a loss, as one phrase for a person; false where there is none.

    Attributes:
        phrase: the phrase, up to the amount and to what is quoted.
        amount: to which the phrase raises or lowers a setting; None where it does neither.
        lower: whether it lowers it.
        quoted: another way, which quotes what someone wrote; empty where there is none.
        changed: the parameters that it changes, each as the path of its step, its name there, and the value.
        possible: False where the phrase says that nothing is known to help.
        price, share: what it costs, and how many losses it mends if not all, to end the sentence; may be empty.
    """

    phrase: str = ""
    amount: float | None = None
    lower: bool = False
    quoted: str = ""
    changed: tuple[tuple[str, str, Any], ...] = field(default=(), compare=False)
    possible: bool = True
    price: str = ""
    share: str = ""

    def __bool__(self) -> bool:
        return bool(self.phrase)

    def __str__(self) -> str:
        text = self.phrase if self.amount is None else f"{self.phrase} {self.amount:g}"
        text += f" ({self.price})" if self.price else ""
        text += f", {self.share}" if self.share else ""
        return f"{text}, or {self.quoted}" if self.quoted else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One item that one query is offered at the head and not at the base, or the other way round.

    Attributes:
        query, item: ids; the item's is the one at the base if it is lost, else the one at the head.
        lost: True if it went out, False if it came in.
        required: whether the query needs it and no alternative of it stands in.
        base_score, head_score: None where it has none on that side.
        base_rank, head_rank: 1-based place among what the search found on that side; None where it is not known.
        rule: the rule that keeps it out on the side where it is out; None where it is no candidate there.
        missed_by: by how much its score misses the lowest score that is offered on the side where it is out, >= 0;
            None where either has no score, or a selector of the user's chose. 0 where not the score keeps it out.
        cause: why.
        remedy: what would bring a lost required item back.
    """

    query: str
    item: str
    lost: bool
    required: bool
    cause: Cause
    base_score: float | None = None
    head_score: float | None = None
    base_rank: int | None = None
    head_rank: int | None = None
    rule: Rule | None = None
    missed_by: float | None = None
    remedy: Remedy = Remedy()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmetRequirement:
    """A requirement of queries that could be met at the base, and can no longer be.

    Attributes:
        items: ids of those that would do, any one of them; sorted, never empty.
        why: what became of them, such as `no longer in the catalog`.
        queries: ids of those that require one, in the order of the head.
        before: to how many of these one was offered before; decides nothing.
    """

    items: tuple[str, ...]
    why: str
    queries: tuple[str, ...]
    before: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """An item with another token count that is offered as before or is in the session.

    Attributes:
        item: id at the head.
        base, head: its prompt tokens.
        queries: ids of those that are offered it on both sides, in the order of the head; never empty.
        why: what was done to it, such as `schema edited`.
    """

    item: str
    base: int
    head: int
    queries: tuple[str, ...]
    why: str

    @property
    def tokens(self) -> int:
        """The tokens that the change adds over all these queries; below 0 where it saves."""
        return (self.head - self.base) * len(self.queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGroup:
    """All changes of one cause, over all queries.

    Attributes:
        cause: why.
        lost, gained: required items of queries that went out and came in, over all queries.
        others: changes of items that are not required.
        tokens: prompt tokens, the session's among them, that the changes add over all queries; below 0 they save.
        queries: ids of the queries concerned, those that lost something required first, then in their order.
        remedy: what would undo most of it.
    """

    cause: Cause
    lost: int
    gained: int
    others: int
    tokens: int
    queries: tuple[str, ...]
    remedy: Remedy = Remedy()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricVerdict:
    """The verdict on a metric, with its evidence.

    Attributes:
        metric: its name.
        verdict: better, worse, same or cannot tell (whether it is worse). Same is also what moved for the better by
            more than the tolerance, but not significantly.
        base, head: means with intervals, over the queries compared.
        comparison: paired, by group, Holm-corrected over all metrics of all selectors and datasets of the check.
        tolerance: differences up to this, in the unit of the metric, are the same.
        detectable: the smallest change for the worse that would be told with power 0.8, and at most one that was judged
            worse here; None where none can be named.
    """

    metric: str
    verdict: Verdict
    base: Estimate
    head: Estimate
    comparison: Comparison
    tolerance: float
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFailure:
    """A pin that does not hold.

    Attributes:
        pin: as the gate file has it, in words.
        line: where it stands there; 0 = nowhere.
        query: id.
        message: what is wrong, by how much, and in a check why, as far as that is known.
        about: the id of an item, as the pin has it, `items` or `tokens`; empty where there is no answer.
        cause: why the item went out or came in; None where it did not, or it is about no item.
        remedy: what would bring back an item that went out.
    """

    pin: str
    line: int
    query: str
    message: str
    about: str = ""
    cause: Cause | None = None
    remedy: Remedy = Remedy()


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectorCheck:
    """The check of one selector on one dataset.

    Attributes:
        dataset, selector: names.
        verdict: over metrics, items lost or out of reach, and pins.
        reasons: why the verdict is what it is, a sentence each; never empty.
        compared: how many queries.
        left_out: by why, ids of queries that were not compared: `new`, `removed`, `relabelled`, `changed`.
        changes: of items that went in or out, in the order of the queries; swaps left out.
        swaps: queries that differ only by items whose scores noise may exchange (at most 1e-5 apart).
        causes: most costly first: required items lost net, then lost, then fewest gained, then changes of others; then
            items whose price changed, those that add most first.
        metrics: judged, in the order asked.
        pins: that do not hold.
        unmet: what queries require, and nothing can meet any more; empty where that was allowed.
        repriced: items that cost otherwise, those that add most tokens first.
        deterministic: whether it is known to answer alike whenever it is asked: what it loses are then facts.
        lost, gained: required items over all queries compared but those that are unsteady.
        needing: how many of the queries compared need something.
        unsteady: how many of those got other answers from time to time, so that `lost` and `gained` leave them out.
        allowed: how many more may be lost than gained.
        notices: what a reader must know, a sentence each.
        differs: what is under test and differs, such as `2 items edited, contextTopN 5 -> 3`; empty = nothing.
        texts: by item and query id, what was asked and what an item says at the head, for reports; empty without.
        helps: what each parameter of the selector does, by name; empty where that is not at hand.
        renamed: ids of items that go on under another id, old to new.
        reused: whether it was not asked: nothing that decides its answers has changed since it was accepted.
        servers: of the dataset's agent that were not asked in this check, so that their tools are as captured.
        shipped: the shipped selector that an agent has whose file names none of the user's; empty for others.
    """

    dataset: str
    selector: str
    verdict: Verdict
    reasons: tuple[str, ...]
    compared: int = 0
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    swaps: tuple[str, ...] = ()
    causes: tuple[CauseGroup, ...] = ()
    metrics: tuple[MetricVerdict, ...] = ()
    pins: tuple[PinFailure, ...] = ()
    unmet: tuple[UnmetRequirement, ...] = ()
    repriced: tuple[PriceChange, ...] = ()
    deterministic: bool = False
    lost: int = 0
    gained: int = 0
    needing: int = 0
    unsteady: int = 0
    allowed: int = 0
    notices: tuple[str, ...] = ()
    differs: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    helps: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    reused: bool = False
    servers: tuple[CapturedServer, ...] = ()
    shipped: str = ""

    @property
    def outdated(self) -> tuple[CapturedServer, ...]:
        """The servers whose tools may differ from those captured; then no verdict is `same` or `better`."""
        return tuple(server for server in self.servers if server.outdated)

    @property
    def counted(self) -> bool:
        """Whether required items lost and gained were counted on at least one query that needs something."""
        return not self.unsteady or self.unsteady < self.needing

    @property
    def lost_verdict(self) -> Verdict:
        """The verdict on lost required items: same if no more than allowed, else that of the selector."""
        return self.verdict if self.lost - self.gained > self.allowed else Verdict.SAME


@dataclass(frozen=True, slots=True)
class Loosened:
    """A setting of the gate by which less is judged worse than by the baseline's.

    Attributes:
        setting: its name, as in the gate file.
        before, after: its value in the baseline and in the gate file; `after` is empty for what is gone.
    """

    setting: str
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """A figure of a baseline that replaced another one.

    Attributes:
        dataset, selector, metric: names; `queries` is a metric here.
        before, after: the figure in the baseline that was replaced and in this one; None where it has none.
    """

    dataset: str
    selector: str
    metric: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The replacement of a baseline by another one.

    Attributes:
        figures: those that differ.
        loosened: settings that were loosened by it.
        commit: the commit that has the baseline that was replaced; empty where git does not tell.
    """

    figures: tuple[FigureChange, ...]
    loosened: tuple[Loosened, ...] = ()
    commit: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Check:
    """The check of all selectors on all datasets.

    Attributes:
        name: of the gate file, or of what was compared.
        base, head: where either side comes from.
        selectors: one for each selector on each dataset.
        notices: what concerns all.
        baseline: the file or folder of the baseline as the user named it; empty where two runs are compared.
        loosened: settings that are looser than the baseline's, which the verdict goes by.
        replacement: that the baseline replaced another one; None where it did not, as far as is known.
    """

    name: str
    base: str
    head: str
    selectors: tuple[SelectorCheck, ...]
    notices: tuple[str, ...] = ()
    baseline: str = ""
    loosened: tuple[Loosened, ...] = ()
    replacement: Replacement | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all selectors: not comparable, worse, cannot tell, better, same.

        Where nothing was compared, that is not comparable: it is no reason to pass.
        """
        verdicts = [check.verdict for check in self.selectors]
        return min(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NOT_COMPARABLE)

    def exit_code(self, *, strict: bool = False) -> int:
        """The exit code: 0; 1 if worse; 2 if not comparable or the gate was loosened.

        With `strict`, also where it is inconclusive: 2 where a server has to be asked first, else 1.
        """
        if self.loosened or self.verdict is Verdict.NOT_COMPARABLE:
            return 2
        if strict and self.verdict is Verdict.CANNOT_TELL:
            unsure = (check for check in self.selectors if check.verdict is Verdict.CANNOT_TELL)
            return 2 if any(check.outdated for check in unsure) else 1
        return int(self.verdict is Verdict.WORSE)
