"""Candidate: one choice of an answer, from Gemini's parts to texts, thoughts and tool calls."""

from typing import Any

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.adapter import Order
from gateway.upstream.chat.forms import Json, tool_call
from gateway.upstream.chat.names import Names
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.gemini.contents import TOOLS
from gateway.upstream.gemini.logprobs import logprobs_of
from gateway.upstream.openai.tools import made_id
from gateway.upstream.rawjson import Fields


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What one response adds to a candidate."""

    texts: list[str]
    thoughts: list[str]
    calls: list[Json]
    """Whole ones: they do not come in pieces."""
    logprobs: Json | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing for the client."""
        return not (self.texts or self.thoughts or self.calls)


class Candidate:
    """One candidate so far."""

    def __init__(self, index: int, order: Order, signatures: Signatures) -> None:
        self.index = index
        self.reason = ""
        """The finish reason. It may come before the last parts do, or more than once."""
        self.produced = False
        self._calls = 0
        self._seed = f"{order.answer_id}/{index}"
        self._names = Names(order, TOOLS)
        self._signatures = signatures

    def take(self, fields: Fields) -> News:
        """The news. Raises ValueError if the candidate is odd."""
        reason = rawjson.value(fields.get("finishReason"))
        self.reason = reason if isinstance(reason, str) and reason else self.reason
        parts = _parts(fields)
        texts = [part for part in parts if isinstance(part.get("text"), str) and part["text"]]
        news = News(
            texts=[part["text"] for part in texts if not part.get("thought")],
            thoughts=[part["text"] for part in texts if part.get("thought")],
            calls=[self._call(part) for part in parts if isinstance(part.get("functionCall"), dict)],
            logprobs=logprobs_of(rawjson.value(fields.get("logprobsResult"))),
        )
        self.produced = self.produced or not news.empty
        return news

    def _call(self, part: dict[str, Any]) -> Json:
        """A call under the client's name of the function; its signature goes along, and is kept here, too."""
        call, signature = part["functionCall"], part.get("thoughtSignature")
        number, self._calls = self._calls, self._calls + 1
        call_id = call.get("id") or made_id(self._seed, number)
        more: Json = {}
        if isinstance(signature, str) and signature:
            self._signatures.remember(call_id, signature.encode())
            more = {"extra_content": {"google": {"thought_signature": signature}}}
        arguments = rawjson.encode(call.get("args") or {}).decode()
        return tool_call(number, call_id, self._names.back(str(call.get("name", ""))), arguments, **more)


def _parts(fields: Fields) -> list[dict[str, Any]]:
    """The parts; a candidate without content has none. Raises ValueError if they are none."""
    content = rawjson.value(fields.get("content"))
    parts = content.get("parts") if isinstance(content, dict) else None
    if parts is None:
        return []
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError("parts are objects")
    return parts
