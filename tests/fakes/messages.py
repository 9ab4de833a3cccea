"""Messages: scripts of upstreams that speak Anthropic's API, and what they answer."""

import json
from collections.abc import Sequence
from typing import Any

from tests.fakes.provider import Bill, Exchange, Script
from tests.fakes.replies import Doc, dumps, in_steps

SIGNATURE = "EqQBCkYIAxgCKkA" + "x" * 40
"""A vendor's own."""


def text_block(text: str = "Hello") -> Doc:
    return {"type": "text", "text": text}


def message(*blocks: Doc, model: str = "claude-x", stop: str = "end_turn", spent: Doc | None = None) -> Doc:
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 12}
    head: Doc = {"id": "msg_up1", "type": "message", "role": "assistant", "model": model}
    said = list(blocks) or [text_block()]
    return {**head, "content": said, "stop_reason": stop, "stop_sequence": None, "usage": {**usage, **(spent or {})}}


def event(kind: str, **fields: Any) -> bytes:
    """One event; its data has its name, too."""
    return f"event: {kind}\ndata: ".encode() + dumps({"type": kind, **fields}) + b"\n\n"


def block_events(index: int, block: Doc) -> list[bytes]:
    """The events of one block, its text in pieces of three characters."""
    kinds = {"text": "text_delta", "thinking": "thinking_delta"}
    deltas: list[Doc] = []
    if block["type"] in kinds:
        text, empty = block[block["type"]], {**block, block["type"]: ""}
        deltas = [{"type": kinds[block["type"]], block["type"]: text[i : i + 3]} for i in range(0, len(text), 3)]
        if "signature" in block:
            empty["signature"] = ""
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif "input" in block:
        text, empty = json.dumps(block["input"]), {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": text[i : i + 3]} for i in range(0, len(text), 3)]
    else:
        empty = block
    begin = event("content_block_start", index=index, content_block=empty)
    return [
        begin,
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def message_events(doc: Doc) -> list[bytes]:
    """The events that a message would come in."""
    usage = {**doc["usage"], "output_tokens": 1}
    start = {**doc, "content": [], "stop_reason": None, "usage": usage}
    last = {name: doc[name] for name in ("stop_reason", "stop_sequence")}
    return [
        event("message_start", message=start),
        event("ping"),
        *(each for index, block in enumerate(doc["content"]) for each in block_events(index, block)),
        event("message_delta", delta=last, usage={"output_tokens": doc["usage"]["output_tokens"]}),
        event("message_stop"),
    ]


def speak_messages(doc: Doc | None = None) -> Script:
    """The good upstream: answers plain or streamed as requested, and bills it."""

    async def script(exchange: Exchange) -> None:
        answer = {**(doc or message()), "model": str(exchange.json["model"])}
        usage = answer["usage"]
        inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        if exchange.path.partition("?")[0].endswith("/count_tokens"):
            await exchange.answer(dumps({"input_tokens": 42}))
            return
        if exchange.json.get("stream"):
            await in_steps(*message_events(answer))(exchange)
        else:
            await exchange.answer(dumps(answer), headers={"request-id": "req_up"})
        exchange.bill = Bill(answer["id"], sum(usage[name] for name in inputs), usage["output_tokens"])

    return script


def read_events(body: bytes) -> list[Doc]:
    """The events of a stream; each must have an ``event`` line that names its type."""
    found = []
    for part in body.split(b"\n\n"):
        if part and not part.startswith(b":"):
            name, _, data = part.partition(b"\ndata: ")
            doc = json.loads(data)
            assert name == b"event: " + doc["type"].encode()
            found.append(doc)
    return found


def joined_blocks(events: list[Doc]) -> list[Doc]:
    """The blocks of a stream, their pieces joined."""
    out: list[Doc] = []
    for doc in events:
        if doc["type"] == "content_block_start":
            out.append(dict(doc["content_block"]))
        elif doc["type"] == "content_block_delta":
            for name, piece in doc["delta"].items():
                if name == "partial_json":
                    out[-1]["input"] = (out[-1]["input"] or "") + piece
                elif name != "type":
                    out[-1][name] += piece
    return out


def grammar_faults(events: Sequence[Doc], *, whole: bool = True) -> list[str]:
    """What is wrong with the order of events, by the rules that the vendor's SDKs rely on."""
    kinds = [doc["type"] for doc in events if doc["type"] != "ping"]
    faults = []
    if kinds[:1] != ["message_start"] or kinds.count("message_start") != 1:
        faults.append("one message_start, before all else")
    if whole and (kinds[-2:] != ["message_delta", "message_stop"] or kinds.count("message_stop") != 1):
        faults.append("message_delta and message_stop at the end, once")
    opened, following, kind = None, 0, ""
    fits = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
    for doc in events:
        if doc["type"] == "content_block_start":
            if opened is not None or doc["index"] != following:
                faults.append(f"block {doc['index']} begins out of turn")
            opened, following, kind = doc["index"], following + 1, doc["content_block"]["type"]
        elif doc["type"] == "content_block_delta":
            wanted = fits.get(doc["delta"]["type"], "tool_use")
            if doc["index"] != opened or wanted != kind:
                faults.append(f"a {doc['delta']['type']} in block {opened} of type {kind}")
        elif doc["type"] == "content_block_stop":
            if doc["index"] != opened:
                faults.append(f"block {doc['index']} ends and was not open")
            opened = None
    return [*faults, *([f"block {opened} does not end"] if whole and opened is not None else [])]
