"""Responses: what an upstream sends that speaks the Responses API itself."""

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.provider import Exchange, Script
from tests.fakes.replies import at_path, dumps, in_steps

Doc = dict[str, Any]

ID = "resp_0123456789abcdef"


def spent(input: int = 9, output: int = 12, *, cached: int = 0, reasoning: int = 0) -> Doc:
    return {
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input + output,
    }


def message(text: str, id: str = "msg_1", status: str = "completed") -> Doc:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": id, "type": "message", "status": status, "role": "assistant", "content": [part]}


def function_call(name: str, arguments: str, call: str = "call_1", id: str = "fc_1") -> Doc:
    return {
        "id": id,
        "type": "function_call",
        "call_id": call,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def response(*items: Doc, model: str = "m", status: str = "completed", usage: Doc | None = None, **more: Any) -> Doc:
    return {
        "id": ID,
        "object": "response",
        "created_at": 1_763_500_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": spent() if usage is None and status == "completed" else usage,
        **more,
    }


def event(kind: str, number: int, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + dumps({"type": kind, "sequence_number": number, **fields}) + b"\n\n"


def events_of(whole: Doc) -> list[bytes]:
    opened = {**whole, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    out: list[tuple[str, Doc]] = [("created", {"response": opened}), ("in_progress", {"response": opened})]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        begun = {**item, **_BLANK.get(item["type"], {"status": "in_progress"})}
        out.append(("output_item.added", {"output_index": index, "item": begun}))
        if item["type"] == "message":
            (part,) = item["content"]
            text, within = part["text"], {**place, "content_index": 0}
            out.append(("content_part.added", {**within, "part": {**part, "text": ""}}))
            halves = (text[: len(text) // 2], text[len(text) // 2 :])
            out += [("output_text.delta", {**within, "delta": half, "logprobs": []}) for half in halves]
            out.append(("output_text.done", {**within, "text": text, "logprobs": []}))
            out.append(("content_part.done", {**within, "part": part}))
        elif item["type"] == "function_call":
            out.append(("function_call_arguments.delta", {**place, "delta": item["arguments"]}))
            done = {"arguments": item["arguments"], "name": item["name"]}
            out.append(("function_call_arguments.done", {**place, **done}))
        out.append(("output_item.done", {"output_index": index, "item": item}))
    out.append((whole["status"], {"response": whole}))
    return [event(f"response.{kind}", number, **fields) for number, (kind, fields) in enumerate(out)]


_BLANK: Mapping[str, Doc] = {
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
    "reasoning": {"summary": []},
    "image_generation_call": {"result": None},
}


def respond(*items: Doc, **more: Any) -> Script:
    """The good upstream: plain or streamed as requested."""

    async def script(exchange: Exchange) -> None:
        assert exchange.path.endswith("/responses")
        asked = exchange.json
        whole = response(*(items or (message("Hello"),)), model=str(asked["model"]), **more)
        if not asked.get("stream"):
            await exchange.answer(dumps(whole))
            return
        await in_steps(*events_of(whole))(exchange)

    return script


def either(native: Script, chat: Script) -> Script:
    """One for each API."""
    return at_path("/responses", native, chat)


def parsed(data: bytes) -> list[Doc]:
    blocks = [block for block in data.decode().split("\n\n") if block and not block.startswith(":")]
    return [json.loads(block.partition("data: ")[2]) for block in blocks]
