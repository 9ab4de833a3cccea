"""Answers: what an answer says, as a naive client reads it. The reader accepts nothing that would break a real one."""

import json
from dataclasses import dataclass, field
from typing import Any

Doc = dict[str, Any]


@dataclass
class Answer:
    """Texts, calls and ends by the choice's index."""

    text: dict[int, str] = field(default_factory=dict)
    reasoning: dict[int, str] = field(default_factory=dict)
    calls: dict[int, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Id, name and arguments."""
    finish: dict[int, str] = field(default_factory=dict)


def chunks_in(data: bytes) -> list[Doc]:
    """The chunks of a client's stream. Each is one line of compact JSON between ``data: `` and a blank line."""
    assert data == b"" or data.endswith(b"\n\n")
    lines = data.split(b"\n\n")[:-1]
    assert all(line.startswith(b"data: ") and b"\n" not in line for line in lines)
    return [json.loads(line.removeprefix(b"data: ")) for line in lines if line != b"data: [DONE]"]


def said_in(data: bytes) -> Answer:
    """What the stream says, read by simply adding up deltas."""
    answer, chunks = Answer(), chunks_in(data)
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) <= 1
    for chunk in chunks:
        assert "usage" not in chunk
        assert chunk["choices"]
        for choice in chunk["choices"]:
            _add(answer, choice)
    return answer


def _add(answer: Answer, choice: Doc) -> None:
    index, delta = choice["index"], choice["delta"]
    new = index not in answer.text
    assert ("role" in delta) == new
    assert not new or delta["role"] == "assistant"
    answer.text[index] = answer.text.get(index, "") + (delta.get("content") or "")
    thought = delta.get("reasoning_content") or delta.get("reasoning")
    if thought:
        answer.reasoning[index] = answer.reasoning.get(index, "") + thought
    for call in delta.get("tool_calls", []):
        _add_call(answer.calls.setdefault(index, []), call)
    if choice["finish_reason"] is not None:
        assert choice["finish_reason"] != answer.finish.get(index)  # a later one corrects it
        answer.finish[index] = choice["finish_reason"]


def _add_call(calls: list[tuple[str, str, str]], call: Doc) -> None:
    number, inner = call["index"], call["function"]
    if number == len(calls):
        assert call["type"] == "function"
        calls.append((call["id"], inner["name"], inner["arguments"]))
        return
    assert not {"id", "type"} & call.keys()
    assert "name" not in inner
    known = calls[number]
    calls[number] = (known[0], known[1], known[2] + inner.get("arguments", ""))
