"""Renders answers for Messages clients: the events of a stream, and whole messages.

Its SDKs insist on the vendor's order: ``message_start``; blocks one after another, numbered from 0 over
all kinds; ``message_delta`` with the totals; ``message_stop``. Every event has an ``event`` line. Usage appears twice,
with all of its numbers. At the beginning it is a low estimate, unless the upstream has reported its input already.

A thinking block of another vendor ends with the gateway's own signature (``Seal``): clients send back no other.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    PLAIN_SEAL,
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    BlockEnded,
    BlockKind,
    Citation,
    Medium,
    Piece,
    Seal,
    SealKind,
    ToolCallBegan,
    seal_text,
)
from gateway.domain.order import Order
from gateway.domain.sse import write_event
from gateway.domain.usage import Usage
from gateway.inbound.rendering import Renderer, WholeBlock, WholeRenderer
from gateway.upstream.anthropic.messages import TOOLS

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_Ending = tuple[str, str | None]
"""Why an answer ended, in the vendor's words, and the stop sequence that was hit."""
_MUTED_ENDING: _Ending = ("max_tokens", None)
"""The ending of an answer that the client does not read."""
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_EMPTY_BLOCKS = {
    "text": b'{"type":"text","text":""}',
    "thinking": b'{"type":"thinking","thinking":"","signature":""}',
}
_DELTAS = {
    "text": b'"text_delta","text"',
    "thinking": b'"thinking_delta","thinking"',
    "signature": b'"signature_delta","signature"',
    "input": b'"input_json_delta","partial_json"',
    "citation": b'"citations_delta","citation"',
}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Returns the usage in the vendor's words: cached tokens are not among the input tokens."""
    long = usage.cache_write_long
    thinking = {"output_tokens_details": {"thinking_tokens": usage.reasoning}} if usage.reasoning else {}
    return {
        "input_tokens": max(0, usage.input - usage.cached - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write - long, "ephemeral_1h_input_tokens": long},
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        **thinking,
        "service_tier": "standard",
    }


def _message(order: Order, content: list[Any], usage: dict[str, Any], reason: str | None, stop: str | None) -> Any:
    return {
        "id": order.answer_id,
        "type": "message",
        "role": "assistant",
        "model": order.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": stop,
        "usage": usage,
    }


def _ending_of(finish: AnswerFinished, *, refused: bool) -> _Ending:
    reason = _STOP_REASONS.get(finish.reason, "end_turn")
    if reason != "end_turn":
        return reason, None
    if refused:
        return "refusal", None
    return ("end_turn", None) if finish.stop_sequence is None else ("stop_sequence", finish.stop_sequence)


def _image(medium: Medium) -> dict[str, Any]:
    """Returns an image block in the form of requests; a link if the answer does not contain the image."""
    if medium.url:
        return {"type": "image", "source": {"type": "url", "url": medium.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": medium.type, "data": medium.data}}


def _citation(citation: Citation) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.cited,
        "encrypted_index": "",
    }


def _tool_use(call: ToolCallBegan, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": TOOLS.valid_name(call.id), "name": call.name, "input": arguments}


class MessagesRenderer(Renderer):
    """Writes the events of a stream."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._ending: _Ending = _MUTED_ENDING if order.form.muted else ("end_turn", None)
        self._refused = False
        self._index = -1
        self._open_kind = ""
        """The kind of the open block; empty if none is open."""
        self._signed = False

    def take(self, event: AnswerEvent) -> bytes:
        if self._open_kind == "text" and isinstance(event, Piece) and event.kind is BlockKind.TEXT:  # as most are
            return self._delta("text", event.piece)
        if isinstance(event, AnswerBegan):
            usage = event.usage or Usage(input=max(1, self._order.input_hint))
            report = usage_object(msgspec.structs.replace(usage, output=0, reasoning=0))
            start = {"type": "message_start", "message": _message(self._order, [], report, None, None)}
            return write_event(b"message_start", rawjson.encode(start)) + write_event(b"ping", b'{"type": "ping"}')
        return b"" if self._order.form.muted else self._render(event)

    def _render(self, event: AnswerEvent) -> bytes:
        out = b""
        match event:
            case Piece(kind=BlockKind.TOOL_CALL):
                out = self._delta("input", event.piece)
            case Piece():
                self._refused = self._refused or event.kind is BlockKind.REFUSAL
                kind = "thinking" if event.kind is BlockKind.REASONING else "text"
                out = self._begin_unless_open(kind) + self._delta(kind, event.piece)
            case Seal():
                self._signed = True
                signature = rawjson.encode(seal_text(event))
                out = self._begin_unless_open("thinking") + self._delta("signature", signature)
            case ToolCallBegan():
                out = self._begin("tool_use", rawjson.encode(_tool_use(event, {})))
            case Medium():
                out = self._begin("image", rawjson.encode(_image(event)))
            case Citation():
                citation = rawjson.encode(_citation(event))
                out = self._begin_unless_open("text") + self._delta("citation", citation)
            case BlockEnded():
                out = self._end()
            case AnswerFinished():
                self._ending = _ending_of(event, refused=self._refused)
        return out

    def tail(self, usage: Usage) -> bytes:
        """Returns the end. An answer without any block gets an empty one, because clients would call again."""
        has_blocks = self._index >= 0 or self._order.form.muted
        empty_block = b"" if has_blocks else self._begin_unless_open("text") + self._end()
        reason, sequence = self._ending
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        totals = {"type": "message_delta", "delta": delta, "usage": usage_object(usage)}
        return empty_block + write_event(b"message_delta", rawjson.encode(totals)) + _STOP

    def _begin_unless_open(self, kind: str) -> bytes:
        return b"" if self._open_kind == kind else self._begin(kind, _EMPTY_BLOCKS[kind])

    def _begin(self, kind: str, block: bytes) -> bytes:
        """Returns the end of the open block, and the beginning of one of this kind."""
        before = self._end()
        self._index += 1
        self._open_kind = kind
        return before + (
            b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
            % (self._index, block)
        )

    def _delta(self, kind: str, piece: bytes) -> bytes:
        return (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":%b:%b}}\n\n'
            % (self._index, _DELTAS[kind], piece)
        )

    def _end(self) -> bytes:
        if not self._open_kind:
            return b""
        seal = b""
        if self._open_kind == "thinking" and not self._signed:
            seal = self._delta("signature", rawjson.encode(seal_text(PLAIN_SEAL)))
        self._open_kind, self._signed = "", False
        stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % self._index
        return seal + stop


class WholeMessageRenderer(WholeRenderer):
    """Writes a whole message. Consecutive content of one kind is one block."""

    def tail(self, usage: Usage) -> bytes:
        report = usage_object(usage)
        if self._order.form.muted:
            return rawjson.encode(_message(self._order, [], report, *_MUTED_ENDING))
        has_refusal = any(block.kind is BlockKind.REFUSAL for block in self.blocks)
        content = [part for block in self.blocks for part in self._content_blocks(block)]
        ending = _ending_of(self.finishes[0], refused=has_refusal)
        return rawjson.encode(_message(self._order, content, report, *ending))

    def _content_blocks(self, block: WholeBlock) -> list[dict[str, Any]]:
        """Returns the vendor's blocks for a block. Only one with media has several."""
        if block.media:
            return [_image(medium) for medium in block.media]
        if block.call is not None:
            return [_tool_use(block.call, block.arguments)]
        if block.kind is BlockKind.REASONING:
            seal, is_native = block.seal or PLAIN_SEAL, self._order.conversation is None
            if is_native and seal.kind is SealKind.ANTHROPIC:  # the thoughts as the upstream made them
                return list(rawjson.value(seal.content))
            return [{"type": "thinking", "thinking": block.text, "signature": seal_text(seal)}]
        citations = {"citations": [_citation(citation) for citation in block.citations]} if block.citations else {}
        return [{"type": "text", "text": block.text, **citations}]
