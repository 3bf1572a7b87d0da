"""Language models of a server that speaks Ollama's own interface, on this machine by default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ctxbench.net.chat import ChatModel, Message, token_count
from ctxbench.net.openai_server import OpenAIServer, ServerError

_PORT = 11434


class OllamaServer(OpenAIServer):
    """Posts to `<address>/<path>` as `OpenAIServer` does.

    The address is `OLLAMA_HOST`, which may leave out `http://` and the port; the key is `OLLAMA_API_KEY`, which a
    server of your own does not need.
    """

    variable: ClassVar[str] = "OLLAMA_HOST"
    key: ClassVar[str] = "OLLAMA_API_KEY"
    default: ClassVar[str] = f"http://localhost:{_PORT}"
    kind: ClassVar[str] = "an Ollama server"
    ends: ClassVar[str] = "without its /api"

    @classmethod
    def base(cls) -> str:
        """What the environment says, with the `http://` and the port that Ollama itself does not ask for."""
        body = super().base()
        port = "" if "://" in body or re.search(r":\d+(?:/|$)", body) else f":{_PORT}"
        return body if "://" in body else f"http://{body.rstrip('/')}{port}"


class OllamaModel(ChatModel):
    """The resource `ollama:MODEL`: a model behind `POST <address>/api/chat`, at temperature 0, not streamed.

    As `ChatModel` in all else; a schema is sent as `format`, and the server holds the reply to it.
    """

    def _opened(self, timeout: float, tries: int) -> OpenAIServer:
        return OllamaServer(self._model, "api/chat", returns="replies", timeout=timeout, tries=tries, pause=self._pause)

    def _body(self, conversation: Sequence[Message], schema: Mapping[str, Any] | None) -> dict[str, Any]:
        plain = {**super()._body(conversation, schema), "stream": False, "options": {"temperature": 0}}
        return plain if schema is None else {**plain, "format": schema}

    def _text(self, body: Any) -> str:
        message = body.get("message") if isinstance(body, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise ServerError(
                f"{self._server.who} returned no message; expected {{message: {{content: ...}}}}, got "
                f"{self._server.error_text(body)}"
            )
        return content

    def _usage(self, body: Any) -> tuple[float, float]:
        return token_count(body.get("prompt_eval_count")), token_count(body.get("eval_count"))
