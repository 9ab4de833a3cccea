"""Contents: brings a message in another vendor's form into OpenAI's: parts, reasoning under other names, media."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerMark, AnswerPart, BlockKind, Citation, Medium, Piece, url_citation
from gateway.domain.rawjson import Fields


def normalize_texts(holder: Fields) -> None:
    """Join the content parts of a message or delta to strings, and keep one of equal reasonings. Raises ValueError."""
    if "text" in holder and rawjson.is_nothing(holder.get("content")):
        holder["content"] = holder.pop("text")
    content = holder.get("content")
    if content is not None and bytes(memoryview(content)[:1]) not in _PLAIN_STARTS:
        _join_parts(holder, content)
    for name in filter(holder.__contains__, _REASONING):
        if bytes(memoryview(holder[name])[:1]) not in _PLAIN_STARTS:
            holder[name] = rawjson.raw(_text_in(rawjson.value(holder[name]), _REASONING_TEXTS))
        if name in ("reasoning_text", "thinking") and rawjson.is_nothing(holder.get("reasoning_content")):
            holder["reasoning_content"] = holder[name]
    if not rawjson.is_nothing(holder.get("reasoning_content")):
        holder.pop("reasoning", None)
    elif not holder.keys().isdisjoint(_REASONING_LISTS) and rawjson.is_nothing(holder.get("reasoning")):
        text = _text_in([rawjson.list_at(holder.get(name)) for name in _REASONING_LISTS], _REASONING_TEXTS)
        if text:
            holder["reasoning_content"] = rawjson.raw(text)


_THOUGHT_START, _THOUGHT_END = re.compile(r"\A\s*<(?:thought|think)>"), re.compile(r"</(?:thought|think)>\s*")


def split_thought(holder: Fields, *, is_open: bool) -> bool:
    """Move a thought from the content to the reasoning. Returns whether more of it, or its end, can follow.

    Gemini's compatible API marks it in ``extra_content``, and puts tags around it. The last one is in the next delta.
    A text with the signature may be marked too.
    ``is_open``: whether the content before it was a thought.
    """
    text, google = rawjson.text_at(holder.get("content")), rawjson.at(holder.get("extra_content"), "google")
    is_signed_text = bool(rawjson.at(google, "thought_signature")) and not _THOUGHT_START.match(text)
    is_marked = rawjson.at(google, "thought") is True and (is_open or not is_signed_text)
    end = _THOUGHT_END.search(text) if is_marked or is_open else None
    if not text or not (is_marked or end):
        return is_open and not text
    thought = _THOUGHT_START.sub("", text[: end.start()] if end else text)
    holder["content"] = rawjson.raw(text[end.end() :] if end else "")
    if thought:
        holder["reasoning_content"] = rawjson.raw(thought)
    return end is None


_PLAIN_STARTS = (b'"', b"n")
"""The first bytes of a text and of null."""
_REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""Fields with the reasoning. The last two are from Copilot and small servers, and are copied to the first."""
_REASONING_LISTS = ("reasoning_details", "reasoning_steps")
"""Fields of OpenRouter and Perplexity with the reasoning in parts."""
_TEXTS = ("text", "refusal", "value", "parts")
"""Fields of a part with its text, or with an object or a list that has it."""
_REASONING_TEXTS = ("text", "summary", "thinking", "content", "reasoning", "thought")
"""Fields with the text of a part of reasoning."""


def _text_in(part: object, names: tuple[str, ...]) -> str:
    """Returns the texts in a part, or in a list of parts; an object has them in its first field of these names."""
    texts, waiting = list[str](), [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += reversed(part)
        elif isinstance(part, dict):
            waiting.append(next(filter(None, map(part.get, names)), ""))
        elif part is not None:  # Cloudflare sends a token such as 6 or true as that value
            texts.append(part if isinstance(part, str) else rawjson.encode(part).decode())
    return "".join(texts)


def _join_parts(holder: Fields, content: msgspec.Raw) -> None:
    """Replace the parts of a content by one text, and put reasoning, tool calls and images into their own fields."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    images = rawjson.list_at(holder.get("images"))
    parts = rawjson.value(content)
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thoughts.append(_text_in(part, _REASONING_TEXTS))
        elif isinstance(part, dict) and part.get("type") in ("tool_use", "tool_call", "function_call", "function"):
            calls.append(_tool_call(part))
        elif url := _part_image(part):
            images.append({"type": "image_url", "image_url": {"url": url}})
        elif isinstance(part, dict) and part is parts and part.keys().isdisjoint(("type", *_TEXTS)):
            texts.append(rawjson.encode(part).decode())  # an answer in JSON that was not written as a text
        else:
            texts.append(_text_in(part, _TEXTS))
    holder["content"] = rawjson.raw("".join(texts)) if texts or not (thoughts or calls) else rawjson.NULL
    if calls and rawjson.is_null(holder.get("tool_calls")):
        holder["tool_calls"] = rawjson.raw(calls)
    if thoughts:
        holder["reasoning_content"] = rawjson.raw("".join(thoughts))
    if images:
        holder["images"] = rawjson.raw(images)


def _tool_call(part: dict[str, Any]) -> dict[str, Any]:
    """Returns the tool call in a part that has the fields of Anthropic, Responses or chat completions."""
    nested = part.get("function")
    inner = nested if isinstance(nested, dict) else part
    function = {"name": inner.get("name"), "arguments": inner.get("arguments", inner.get("input", {}))}
    return {"id": part.get("call_id") or part.get("id"), "type": "function", "function": function}


def _part_image(part: object) -> str:
    """Returns the address of an image in a part; empty if it is of another kind."""
    kind = rawjson.at(part, "mediaType") or rawjson.at(part, "type") or "image"
    is_image = isinstance(part, dict) and not part.get("text") and "image" in str(kind)
    return _image_url(part) if is_image else ""


_MEDIA_TYPES = ("media_type", "mime_type", "mimeType", "mediaType")


def _image_url(image: object) -> str:
    """Returns the address of an image, or a data URL; empty if it is not an image."""
    holder = image if isinstance(image, dict) else {"url": image}
    names = ("image_url", "url", "image", "source", "inline_data", "inlineData", "b64_json", "data")
    name = next((name for name in names if holder.get(name)), "")
    inner = {**holder, "data": holder[name]} if name in ("b64_json", "data") else holder.get(name)
    if data := rawjson.text_at(inner, "data"):
        media_type = next(filter(None, (rawjson.text_at(inner, name) for name in _MEDIA_TYPES)), "image/png")
        return f"data:{media_type};base64,{data}"
    return rawjson.text_at(inner, "url") or rawjson.text_at(inner)


def media_in(message: Fields, choice: int) -> Iterator[AnswerPart]:
    """Yields the images of a message in the form of OpenRouter, ``{"type": "image_url", "image_url": {"url": ...}}``,
    AiHubMix or Vertex, which calls them audio; and the transcript of OpenAI's speech, which other APIs cannot return.
    """
    images = (image for name in ("images", "multi_mod_content") for image in rawjson.list_at(message.get(name)))
    for image in images:
        if url := _image_url(image):
            yield image_at(url, choice)
    audio = message.get("audio")
    if data := rawjson.text_at(audio, "data"):
        media_type = rawjson.text_at(audio, "extra_content", "google", "mime_type")
        yield Medium(media_type, data, choice=choice) if media_type else AnswerMark("medium_dropped")
    if rawjson.is_nothing(message.get("content")) and (transcript := rawjson.text_at(audio, "transcript")):
        yield Piece(BlockKind.TEXT, rawjson.encode(transcript), choice=choice)


_SOURCES: dict[str, tuple[str, ...]] = {
    "search_results": (),  # Perplexity
    "citations": (),
    "citation": (),  # LiteLLM, in a stream
    "references": (),  # Doubao
    "web_search": (),  # Zhipu
    "search_info": ("search_results",),  # Hunyuan
    "context": ("citations",),  # Azure
    "executed_tools": ("search_results", "results"),  # Groq
    "venice_parameters": ("web_search_citations",),
    "web_search_data": ("sources",),  # Writer
}
"""Fields of an answer or a message with sources, and the path from each item to its own list."""


def source_fields(holder: Fields) -> Fields:
    """Returns the fields with sources. LiteLLM puts some of them into an object of their own."""
    holders = (holder, rawjson.maybe_fields(holder.get("provider_specific_fields")))
    return {
        name: each[name] for each in holders for name in _SOURCES if name in each and not rawjson.is_nothing(each[name])
    }


def sources_in(fields: Fields) -> Iterator[Citation | None]:
    """Yields the sources in such fields; None for one without an address, such as Cohere's documents."""
    for name, raw in fields.items():
        value, path = rawjson.maybe(raw), _SOURCES[name]
        for holder in value if isinstance(value, list) else [value]:
            for item in rawjson.list_at(holder, *path) if path or isinstance(holder, list) else [holder]:
                source = item if isinstance(item, dict) else {"url": item}
                yield url_citation({**source, "url": source.get("url") or source.get("link")})


def image_at(url: str, choice: int = 0) -> Medium:
    """Returns the image at an address, or in a data URL."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Medium(head.removeprefix("data:").removesuffix(";base64"), data, choice=choice)
    return Medium("image", url=url, choice=choice)
