"""Grammar: whether the bytes of a streamed response are what clients of the API rely on.

The rules are those that openai-python, the AI SDK and Codex were found to need: every event with its name and number,
one item open at a time, one id for each item, every piece in its item, and one last event with the whole response.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""The SDK's types take no half of a surrogate pair; a piece of a stream may be one."""
TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_DELTAS = {
    "response.output_text.delta": ("message", "text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "text"),
    "response.function_call_arguments.delta": ("function_call", "arguments"),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "input"),
}


@dataclass
class _Item:
    item: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    parts: int = 0
    closed_parts: int = 0


@dataclass
class StreamedResponse:
    events: list[dict[str, Any]]
    items: list[dict[str, Any]]
    """As their ``done`` events had them."""
    ending: str
    """The type of the last event."""
    response: dict[str, Any]
    """In the last event."""

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == f"response.{kind}"]

    @property
    def types(self) -> list[str]:
        """Of all events, without ``response.``."""
        return [event["type"].removeprefix("response.") for event in self.events]


def parse_events(data: bytes) -> list[dict[str, Any]]:
    """The events, each of which has its type as its name."""
    events = []
    for block in data.decode("utf-8", "surrogatepass").split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        assert len(lines) == 2, lines
        name, text = lines[0].removeprefix("event: "), lines[1].removeprefix("data: ")
        event = json.loads(_HALF_PAIR.sub("?", text))
        assert event["type"] == name
        events.append(event)
    return events


def checked(data: bytes, *, whole: bool = True) -> StreamedResponse:
    """The stream, read strictly. ``whole``: it must have its end; otherwise it is the beginning of one."""
    events = parse_events(data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        _EVENT.validate_python(event, strict=True)
    ended = [event for event in events if event["type"] in TERMINAL]
    assert ended == events[-1:] if whole else not ended
    items: list[dict[str, Any]] = []
    open_item: _Item | None = None
    for number, event in enumerate(events):
        kind = event["type"]
        if number < 2:
            assert kind == ("response.created", "response.in_progress")[number]
        elif kind not in ("response.in_progress", *TERMINAL):
            open_item = _step(event, open_item, items)
        if "response" in event and kind not in TERMINAL:
            assert event["response"]["status"] == "in_progress"
            assert event["response"]["output"] == []
    if not whole:
        return StreamedResponse(events, items, "", {})
    last = events[-1]
    response = last["response"]
    Response.model_validate(response, strict=True)
    assert response["output"] == items
    assert response["status"] == last["type"].removeprefix("response.")
    if last["type"] != "response.failed":
        assert open_item is None
        assert response["usage"]["input_tokens_details"]["cached_tokens"] >= 0
        assert response["usage"]["output_tokens_details"]["reasoning_tokens"] >= 0
    assert events[0]["response"]["id"] == response["id"]
    return StreamedResponse(events, items, last["type"], response)


def _step(event: dict[str, Any], open_item: _Item | None, items: list[dict[str, Any]]) -> _Item | None:
    kind = event["type"].removeprefix("response.")
    assert event["output_index"] == len(items)
    if kind == "output_item.added":
        assert open_item is None
        assert not any(event["item"]["id"] == item["id"] for item in items)
        return _Item(event["item"])
    assert open_item is not None, kind
    assert event.get("item_id", open_item.item["id"]) == open_item.item["id"]
    if kind in ("content_part.added", "reasoning_summary_part.added"):
        open_item.parts += 1
    elif kind in ("content_part.done", "reasoning_summary_part.done"):
        open_item.closed_parts += 1
    elif event["type"] in _DELTAS:
        wanted, _ = _DELTAS[event["type"]]
        assert open_item.item["type"] == wanted
        assert event["delta"]
        if wanted == "message":
            assert (open_item.parts, open_item.closed_parts) == (1, 0)
        open_item.pieces.append(event["delta"])
    elif kind.endswith(".done") and kind != "output_item.done":
        _, name = _DELTAS[event["type"].removesuffix("done") + "delta"]
        assert event[name] == "".join(open_item.pieces)
    if kind != "output_item.done":
        return open_item
    _done(event["item"], open_item)
    items.append(event["item"])
    return None


def _done(item: dict[str, Any], open_item: _Item) -> None:
    assert open_item.parts == open_item.closed_parts
    assert {"id", "type"} <= item.keys()
    assert (item["id"], item["type"]) == (open_item.item["id"], open_item.item["type"])
    said = "".join(open_item.pieces)
    match item["type"]:
        case "message":
            (part,) = item["content"]
            assert said == part.get("text", part.get("refusal"))
        case "function_call":
            assert said == item["arguments"]
            assert item["call_id"] == open_item.item["call_id"]
        case "custom_tool_call":
            assert said == item["input"]
        case "reasoning":
            for texts in (item["summary"], item.get("content", item["summary"])):
                assert said == "".join(text["text"] for text in texts)
