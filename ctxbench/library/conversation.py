"""Stored conversations from Python: what each reply came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.core.errors import ParameterError, StorageError, UnknownNameError
from ctxbench.core.items import Catalog
from ctxbench.library.dataset_frames import Data, load
from ctxbench.session.exchange import Exchange, content_hash
from ctxbench.session.session_files import ConversationStore

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Conversation:
    """What was asked and replied, and the request context that each reply came from.

    Attributes:
        id: of the conversation.
        exchanges: requests with their replies, oldest first.
        catalog: the items as they are now; None = they are not at hand.
    """

    id: str
    exchanges: Sequence[Exchange]
    catalog: Catalog | None = field(default=None, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """One row a reply: `reply` (its number, from 1), `time`, `text`, `said`, `items`, `calls`, `selector`."""
        import pandas as pd

        rows = [
            {
                "reply": number,
                "time": exchange.time,
                "text": exchange.text,
                "said": exchange.reply,
                "items": len(exchange.context),
                "calls": list(exchange.calls),
                "selector": exchange.selector,
            }
            for number, exchange in enumerate(self.exchanges, start=1)
        ]
        return pd.DataFrame(rows, columns=["reply", "time", "text", "said", "items", "calls", "selector"])

    def context(self, reply: int = -1) -> pd.DataFrame:
        """The request context of a reply, in its order.

        Args:
            reply: its number, from 1; or from the end, -1 being the last.

        Returns:
            One row an item: `item`, `mode` (`always`, `manual`, `agent`, `expansion`, `explicit`), `score` (NaN for
            what the session held), `shown` (the part of its prompt text; None = all), `called` (whether the reply
            called it, by its id, or by a name that no other tool of the context has), and with a catalog `since`:
            `same`, `edited`, or `gone`.

        Raises:
            ParameterError: there is no such reply.
        """
        import pandas as pd

        exchange = self._exchange(reply)
        tools = [entry.key for entry in exchange.context if entry.key.type == "tool"]
        names = Counter(key.name for key in tools)  # a log may name a tool without its server
        called = {
            key.id for key in tools if key.id in exchange.calls or (key.name in exchange.calls and names[key.name] == 1)
        }
        rows = [
            {
                "item": entry.key.id,
                "mode": entry.mode,
                "score": entry.score,
                "shown": entry.shown,
                "called": entry.key.id in called,
                "since": self._since(entry.key.id, entry.content),
            }
            for entry in exchange.context
        ]
        columns = ["item", "mode", "score", "shown", "called", *(["since"] if self.catalog is not None else [])]
        return pd.DataFrame(rows, columns=columns)

    def show(self, reply: int = -1) -> Shown:
        """A reply with what it came from, as text on a console and as a table in a notebook.

        Args:
            reply: its number, from 1; or from the end, -1 being the last.

        Raises:
            ParameterError: there is no such reply.
        """
        return Shown(self._exchange(reply), self.context(reply))

    def _exchange(self, reply: int) -> Exchange:
        n = len(self.exchanges)
        if not isinstance(reply, int) or not (1 <= reply <= n or -n <= reply <= -1):
            raise ParameterError(f"conversation {self.id!r} has replies 1 to {n}, or -1 for the last; got {reply}")
        return self.exchanges[reply - 1 if reply > 0 else reply]

    def _since(self, item: str, content: str) -> str:
        position = None if self.catalog is None else self.catalog.find(item)
        if self.catalog is None or position is None:
            return "gone"
        return "same" if content_hash(self.catalog[position]) == content else "edited"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, border=0))


@dataclass(frozen=True, eq=False)
class Shown:
    """A reply with its request context.

    Attributes:
        exchange: as it was stored.
        context: see `Conversation.context`.
    """

    exchange: Exchange
    context: pd.DataFrame

    def _head(self) -> list[tuple[str, str]]:
        exchange = self.exchange
        settings = ", ".join(f"{name} {value}" for name, value in exchange.settings.items())
        parts = {
            "asked": exchange.text,
            "replied": exchange.reply,
            "called": ", ".join(exchange.calls),
            "selector": f"{exchange.selector} with {settings}" if settings else exchange.selector,
            "removed": ", ".join(key.id for key in exchange.removed),
            "warnings": "; ".join(exchange.warnings),
        }
        return [(name, text) for name, text in parts.items() if text]

    def _repr_html_(self) -> str:
        from html import escape

        lines = "".join(f"<p><b>{name}</b> {escape(text)}</p>" for name, text in self._head())
        return f"{lines}{self.context.to_html(index=False, border=0)}"

    def __repr__(self) -> str:
        lines = [f"{name}: {text}" for name, text in self._head()]
        return "\n".join([*lines, "", self.context.to_string(index=False) if len(self.context) else "nothing"])


def conversation(
    path: str | Path,
    id: str | None = None,  # noqa: A002
    *,
    items: Catalog | Data | str | Path | None = None,
) -> Conversation:
    """A stored conversation: the request context of every reply.

    Args:
        path: the file that a `ConversationStore` writes, one JSON object an exchange.
        id: of the conversation; None = the only one.
        items: the items as they are now (or the name or folder of their dataset), to see which were edited since.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: lines are no exchanges: all of them.
        ParameterError: it holds none, or several and `id` is not given.
        UnknownNameError: it holds none of this id.

    Example:
        >>> from ctxbench.session import ConversationStore
        >>> from ctxbench.session.exchange import Exchange
        >>> ConversationStore(tmp_path / "chats.jsonl").append(Exchange(conversation="one", text="hello", reply="hi"))
        >>> ctxbench.conversation(tmp_path / "chats.jsonl").to_frame()["said"].tolist()
        ['hi']
    """
    if not Path(path).is_file():
        raise StorageError(f"no file {path}; expected stored conversations, one JSON object a line")
    by_id: dict[str, list[Exchange]] = {}
    for exchange in ConversationStore(path).exchanges():
        by_id.setdefault(exchange.conversation, []).append(exchange)
    if id is not None and str(id) not in by_id:
        raise UnknownNameError("conversation", str(id), by_id)
    if len(by_id) != 1 and id is None:
        listing = f"{len(by_id)} conversations ({', '.join(list(by_id)[:10])}); name one by `id`"
        raise ParameterError(f"{path} holds {listing if by_id else 'no conversation'}")
    chosen = next(iter(by_id)) if id is None else str(id)
    current = load(items) if isinstance(items, str | Path) else items
    return Conversation(
        chosen, tuple(by_id[chosen]), current.dataset.current_catalog if isinstance(current, Data) else current
    )
