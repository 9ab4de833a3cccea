"""Obedient: an upstream that speaks every API, and gives and bills all that a request allows, read most generously.

It reads requests by itself, with nothing of the gateway's own reading, so that both cannot be wrong in the same way.
"""

import base64
import math
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.fakes import messages, replies, responses
from tests.fakes.provider import EVENTS, Exchange
from tests.fakes.replies import Doc, dumps

CAPS = frozenset(
    {
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_tokens_to_sample", "max_new_tokens"),
        *("num_predict", "n_predict", "maxOutputTokens", "maxTokens", "max_length", "maxTokenCount", "min_tokens"),
        *("max_gen_len", "tokens_to_generate", "max_decode_steps", "amount_gen", "output_length"),
    }
)
THINKING = frozenset({"budget_tokens", "thinking_budget", "thinkingBudget", "reasoning_budget", "max_thinking_tokens"})
COUNTS = frozenset(
    {
        *("n", "best_of", "candidateCount", "candidate_count", "num_generations", "num_return_sequences"),
        *("n_completions", "sampleCount", "num_samples"),
    }
)
BATCHES = frozenset({"prompt", "prompts", "inputs", "instances"})
CONTENT = frozenset(
    {
        *("messages", "input", "system", "instructions", "contents", "systemInstruction", "tools", "functions"),
        *("requests", "content", "suffix", "response_format", "responseJsonSchema", "tool_choice", "toolConfig"),
    }
)
"""What the model reads; nothing in it is a limit."""
LABELS = frozenset(
    {
        *("model", "role", "type", "media_type", "mimeType", "detail"),
        *("format", "effort", "reasoning_effort", "encoding_format", "responseMimeType", "thinkingLevel", "display"),
    }
)
SHORT = 10
"""Output where nothing bounds it."""
PICTURES = {"gpt-4o-mini": 25_501, "gpt-4o": 1_445, "claude": 1_600, "gemini": 4_128}
PAGE = 2_300
TOOLS = 500


class Spent(NamedTuple):
    """What one call is billed."""

    input: int
    output: int
    bounded: bool
    """The request had a limit."""


def spent_for(path: str, body: Doc) -> Spent:
    """What a request to a path allows at most."""
    model = str(body.get("model") or unquote(path))
    given = _input(body, model)
    if "embed" in path.lower():
        return Spent(given, 0, bounded=True)
    found = list(_fields({name: value for name, value in body.items() if name not in CONTENT}))
    caps = [number for name, value in found if name in CAPS for number in _numbers(value) if number > 0]
    thinking = [number for name, value in found if name in THINKING for number in _numbers(value) if number > 0]
    predicted = _size(body.get("prediction", {})) // 3
    if path.endswith("/chat/completions"):
        one = max(caps, default=SHORT) + max(thinking, default=0) + predicted
    else:
        one = max([*caps, *thinking], default=SHORT)
    answers = 1
    for name, value in found:
        if name in COUNTS:
            answers *= max([1, *_numbers(value)])
        elif name in BATCHES and isinstance(value, list) and value and not isinstance(value[0], int):
            answers *= len(value)
    return Spent(given, one * answers, bounded=bool(caps) or "generateContent" in path)


async def obey(exchange: Exchange) -> None:
    """A script: the answer to any request of any API, plain or streamed."""
    body, path = exchange.json, exchange.path.partition("?")[0]
    whole = answer_to(path, body)
    if body.get("stream") is True or "stream" in path:
        await exchange.answer(events_of(path, whole), kind=EVENTS)
    else:
        await exchange.answer(dumps(whole))


def answer_to(path: str, body: Doc) -> Doc:
    spent = spent_for(path, body)
    if path.endswith("/messages"):
        return messages.message(spent={"input_tokens": spent.input, "output_tokens": spent.output})
    if path.endswith("/responses"):
        return responses.response(responses.message("Hello"), usage=responses.spent(spent.input, spent.output))
    if path.lower().endswith("generatecontent"):
        return _candidates(spent)
    return _vectors(body, spent) if "mbed" in path else _completion(path, spent)


def events_of(path: str, whole: Doc) -> bytes:
    if path.endswith("/messages"):
        return b"".join(messages.message_events(whole))
    if path.endswith("/responses"):
        return b"event: response.completed\ndata: %b\n\n" % dumps({"type": "response.completed", "response": whole})
    if path.lower().endswith("generatecontent"):
        return b"data: %b\n\n" % dumps(whole)
    if "chat" in path:
        whole = {**whole, "object": "chat.completion.chunk", "choices": [_delta(one) for one in whole["choices"]]}
    return b"data: %b\n\ndata: [DONE]\n\n" % dumps(whole)


def _delta(choice: Doc) -> Doc:
    return {"index": 0, "delta": choice.get("message", {}), "finish_reason": "stop"}


def _completion(path: str, spent: Spent) -> Doc:
    usage = replies.usage(spent.input, spent.output)
    if "chat" in path:
        return replies.whole("m", replies.choice(), spent=usage)
    choice = {"index": 0, "text": "Hello", "finish_reason": "stop", "logprobs": None}
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def _candidates(spent: Spent) -> Doc:
    content = {"role": "model", "parts": [{"text": "Hello"}]}
    usage = {
        "promptTokenCount": spent.input,
        "candidatesTokenCount": spent.output,
        "totalTokenCount": spent.input + spent.output,
    }
    return {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def _vectors(body: Doc, spent: Spent) -> Doc:
    usage = {"prompt_tokens": spent.input, "total_tokens": spent.input}
    if "requests" in body or "content" in body:
        vectors = [{"values": [0.5]} for _ in body.get("requests", [0])]
        reported = {"usageMetadata": {"promptTokenCount": spent.input}}
        return {"embeddings": vectors, **reported} if "requests" in body else {"embedding": vectors[0], **reported}
    given = body["input"]
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    data = [{"object": "embedding", "index": index, "embedding": [0.5]} for index in range(count)]
    return {"object": "list", "data": data, "model": "m", "usage": usage}


def _fields(value: object) -> Iterator[tuple[str, Any]]:
    """Every field at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            yield from _fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner)


def _numbers(value: object) -> list[int]:
    """A number, also as a float or as text, or several."""
    if isinstance(value, list):
        return [number for inner in value for number in _numbers(inner)]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return []
    try:
        return [math.ceil(float(value))]
    except (ValueError, OverflowError):
        return []


def _input(body: Doc, model: str) -> int:
    """A token for every three bytes of text, whatever its field; more for tools, messages, pictures and pages."""
    tools = body.get("tools") or body.get("functions")
    told = TOOLS + len(dumps(tools)) // 3 if tools else 0  # templates of model servers write them out as JSON
    turns = body.get("messages") or body.get("contents") or ()
    texts = {name: value for name, value in body.items() if name not in ("tools", "functions")}
    return math.ceil(_size(texts) / 3) + told + 3 * len(turns) + _media(body, model)


def _size(value: object) -> int:
    """Bytes of texts; numbers in arrays are tokens."""
    if isinstance(value, dict):
        return sum(_size(inner) for name, inner in value.items() if name not in LABELS)
    if isinstance(value, list):
        return sum(3 if type(inner) is int else _size(inner) for inner in value)
    if isinstance(value, str) and not value.startswith("data:") and len(value) < 100_000:
        return len(value.encode())
    return 0


def _media(value: object, model: str) -> int:
    """Of pictures by the model's family, of documents by their pages."""
    if isinstance(value, list):
        return sum(_media(inner, model) for inner in value)
    if not isinstance(value, dict):
        return 0
    own = 0
    inline = value.get("inlineData", {})
    pdf = value.get("data", "") if value.get("media_type") == "application/pdf" else inline.get("data", "")
    given = value.get("file_data", "")
    if isinstance(given, str) and given.startswith("data:application/pdf"):
        pdf = given.partition(",")[2]
    if pdf and inline.get("mimeType", "application/pdf") == "application/pdf":
        own = PAGE * base64.b64decode(pdf).count(b"/Page ")
    elif value.get("type") in ("image", "image_url", "input_image") or inline:
        own = next((tokens for name, tokens in PICTURES.items() if name in model), 1_500)
    return own or sum(_media(inner, model) for inner in value.values())
