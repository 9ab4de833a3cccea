"""What a message repeats of the request is found, however it is reflowed or escaped; what it only resembles is not."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.secret_search import blank_spans
from gateway.upstream.redaction.quotes import LIMIT, LONG, Quotes

PROMPT = 'Tell me about "CANARY" whales,\nand their  lives in the northern sea — große Übersicht, bitte! 鯨について'


def quotes(content: Any = PROMPT, **more: Any) -> Quotes:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **more}
    return Quotes(msgspec.json.decode(json.dumps(body).encode(), type=dict[str, msgspec.Raw]))


def without(message: str, content: Any = PROMPT, **more: Any) -> str:
    return blank_spans(message, quotes(content, **more).spans(message))


WRITTEN = {
    "as it is": PROMPT,
    "on one line": " ".join(PROMPT.split()),
    "json": json.dumps(PROMPT)[1:-1],
    "json, not ascii": json.dumps(PROMPT, ensure_ascii=False)[1:-1],
    "json in json": json.dumps(json.dumps(PROMPT))[3:-3],
    "python": repr(PROMPT)[1:-1],
    "upper": PROMPT.replace("ß", "ss").upper().replace("SS", "ß"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_quote_is_found_however_it_is_written(name: str) -> None:
    assert without(f"The text <{WRITTEN[name]}> is too long.") == "The text <…> is too long."


def test_parts_of_it_are_found() -> None:
    assert without("near 'their lives in the northern sea' it broke") == "near '…' it broke"
    assert without("in the sea it broke") == "in the sea it broke"


def test_a_run_of_exactly_so_many_characters_counts() -> None:
    text = "abcdefghijklmnopqrstuvwxyz0123456789"
    assert without(f"<{text[3 : 3 + LONG]}>", text) == "<…>"
    assert without(f"<{text[3 : 2 + LONG]}>", text) == f"<{text[3 : 2 + LONG]}>"


def test_shorter_texts_count_as_a_whole() -> None:
    assert without("got 'my pin is 4711' there", "my pin is 4711") == "got '…' there"
    assert without("got 'my pin' there", "my pin is 4711") == "got 'my pin' there"
    assert without("no hi here", "hi") == "no hi here"


def test_parts_of_messages_are_texts() -> None:
    image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    parts = [
        {"type": "text", "text": "the secret plan"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
    ]
    assert without("bad text: the secret plan!", parts) == "bad text: …!"
    assert without(f"bad image: {image}", parts) == "bad image: …"


def test_tools_and_other_fields_are_texts_too() -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "Finds the launch codes of the base"}}]
    assert without("bad tool: Finds the launch codes of the base", tools=tools) == "bad tool: …"


@pytest.mark.parametrize(
    "message",
    [
        "model claude-3-5-sonnet-20241022-very-long not found",
        "max_completion_tokens is not supported; response_format must be json_schema",
        "This model's maximum context length is 8192 tokens",
    ],
)
def test_names_are_not_quotes(message: str) -> None:
    body = {"model": "claude-3-5-sonnet-20241022-very-long", "max_completion_tokens": 5}
    assert without(message, "Hi", **body, response_format={"type": "json_schema"}) == message


def test_a_request_that_is_too_long_is_not_compared() -> None:
    found = quotes("x" * (LIMIT + 1))
    assert (found.comparable, found.contains("y" * 30), found.contains("x" * 30)) == (False, False, True)


def test_texts_that_repeat_themselves_end_soon() -> None:
    """Linear time, whatever the two have in common."""
    for word in ("a", "ab", "word ", "abcdefgh"):
        content, message = word * (1_000_000 // len(word)), word * (2_000 // len(word))
        assert len(without(message, content)) < len(message)
