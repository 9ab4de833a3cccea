"""No call of any API costs more than its hold, whatever limits, counts, texts and media it has, wherever they are.

Clients and owners of channels mix them into requests to every dialect; the upstream obeys the most generous reading.
"""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gateway.domain.channel import Dialect, Overrides
from gateway.domain.errors import GatewayError
from gateway.domain.failure import ResponsesNeed
from gateway.domain.order import Order
from gateway.domain.price import Price
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.inbound.api import InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.completions.api import COMPLETIONS
from gateway.inbound.embeddings.api import EMBEDDINGS
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.ollama.api import OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE
from gateway.inbound.responses.api import RESPONSES
from tests.core import kit
from tests.core.test_holds import StorelessGateway, configured
from tests.domain.test_media_size import PAGE, pdf
from tests.fakes.obedient import BATCHES, CAPS, COUNTS, THINKING
from tests.house import amount

Doc = dict[str, Any]

PICTURE = "data:image/png;base64,iVBORw0KGgo="
BOOK = "data:application/pdf;base64," + pdf(PAGE * 3).decode()
CHAT_PARTS: list[Doc] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": PICTURE, "detail": "high"}},
    {"type": "image_url", "image_url": {"url": "https://h.example/a.png"}},
    {"type": "file", "file": {"file_data": BOOK, "filename": "a.pdf"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
]
MESSAGE_PARTS: list[Doc] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    {"type": "image", "source": {"type": "url", "url": "https://h.example/a.png"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": BOOK.partition(",")[2]}},
]
INPUT_PARTS: list[Doc] = [
    {"type": "input_text", "text": "What is this?"},
    {"type": "input_image", "image_url": PICTURE},
    {"type": "input_file", "file_data": BOOK, "filename": "a.pdf"},
]
TOOLS: list[Doc] = [
    {"type": "function", "name": "look"},
    {"type": "custom", "name": "patch"},
    {"type": "shell"},
    {
        "type": "namespace",
        "name": "n" * 50,
        "description": "d" * 900,
        "tools": [{"type": "function", "name": name} for name in "abcdefgh"],
    },
]
ITEMS: list[Doc] = [
    {"role": "user", "content": "Hi"},
    {"type": "function_call", "call_id": "c1", "name": "look" * 15, "arguments": '{"x": "a'},
    {"type": "function_call_output", "call_id": "c1", "output": "found"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "text"},
    {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}},
    {"type": "tool_search_output", "call_id": "c4", "tools": TOOLS},
]


def turns(parts: list[Doc]) -> st.SearchStrategy[list[Doc]]:
    """A conversation with some of these parts."""
    content = st.sampled_from(("Hi", "Hello. " * 40)) | st.lists(st.sampled_from(parts), min_size=1, max_size=3)
    return content.map(lambda content: [{"role": "user", "content": content}])


NUMBERS = st.sampled_from((1, 7, 300, 50_000))
TEXTS = st.sampled_from(("x" * 30, "long " * 900))
PROMPTS = TEXTS | st.lists(TEXTS, min_size=1, max_size=3) | st.just([5, 6, 7]) | st.just([[5, 6], [7]])
BASES: dict[InboundApi, st.SearchStrategy[Doc]] = {
    CHAT: st.fixed_dictionaries({"messages": turns(CHAT_PARTS)}, optional={"max_tokens": NUMBERS, "n": st.just(2)}),
    MESSAGES: st.fixed_dictionaries(
        {"messages": turns(MESSAGE_PARTS), "max_tokens": NUMBERS}, optional={"system": TEXTS}
    ),
    RESPONSES: st.fixed_dictionaries(
        {"input": turns(INPUT_PARTS) | TEXTS | st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4)},
        optional={"max_output_tokens": NUMBERS, "instructions": TEXTS, "tools": st.just(TOOLS)},
    ),
    COMPLETIONS: st.fixed_dictionaries({"prompt": PROMPTS}, optional={"max_tokens": NUMBERS, "n": st.just(2)}),
    EMBEDDINGS: st.fixed_dictionaries({"input": PROMPTS}, optional={"title": TEXTS, "task_type": TEXTS}),
    OLLAMA_CHAT: st.fixed_dictionaries(
        {"messages": st.just([{"role": "user", "content": "Hi", "images": ["iVBORw0KGgo="]}])},
        optional={"options": st.fixed_dictionaries({"num_predict": NUMBERS})},
    ),
    OLLAMA_GENERATE: st.fixed_dictionaries({"prompt": TEXTS}, optional={"suffix": TEXTS, "system": TEXTS}),
    OLLAMA_EMBED: st.fixed_dictionaries({"input": TEXTS}),
}
VALUES = NUMBERS | NUMBERS.map(str) | NUMBERS.map(float) | NUMBERS.map(lambda number: [number, "2"])
LIMITS = st.tuples(st.sampled_from(sorted(CAPS | THINKING)), VALUES)
MANY = st.tuples(st.sampled_from(sorted(COUNTS)), st.sampled_from((1, 3, "2", 40)))
BATCH = st.tuples(st.sampled_from(sorted(BATCHES)), st.lists(TEXTS, min_size=1, max_size=3))
SAID = st.tuples(
    st.sampled_from(("instruction", "texts", "user", "documents", "note", "suffix", "stop", "query")),
    TEXTS | st.lists(TEXTS, max_size=2) | st.just([None, *[1, 2, 3] * 90]) | st.just({"text": "y" * 600}),
)
ONE = LIMITS | MANY | BATCH | SAID


def holder(inner: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    """The fields of an object, or of one in an array."""
    names = (
        "options",
        "extra_body",
        "generationConfig",
        "parameters",
        "metadata",
        "thinking",
        "reasoning",
        "output_config",
        "user",
        "temperature",
        "stop_sequences",
    )
    objects = st.lists(inner, max_size=2).map(dict)
    return st.tuples(st.sampled_from(names), objects | objects.map(lambda one: [one]))


EXTRAS = st.lists(ONE | holder(ONE | holder(ONE)), max_size=3).map(dict)
EDITS = st.builds(
    lambda always, usual: Overrides(set=always, default={k: v for k, v in usual.items() if k not in always}),
    EXTRAS,
    EXTRAS,
)
PLACES = st.sampled_from(
    [
        (Dialect.OPENAI, "", "some-model"),
        (Dialect.OPENAI, "openai", "gpt-4o-mini"),
        (Dialect.OPENAI, "ollama", "llama"),
        (Dialect.ANTHROPIC, "", "claude-opus-4-5"),
        (Dialect.ANTHROPIC, "", "claude-3-opus"),
        (Dialect.GEMINI, "", "gemini-2.5-pro"),
    ]
)
CHANNELS = st.lists(
    st.tuples(PLACES, st.none() | EDITS, st.none(), st.sampled_from((None, 40_000))), min_size=1, max_size=2
)
PRICE = Price(model="m", input=Nanos(2 * DOLLAR), output=Nanos(9 * DOLLAR))


def take_chats_as_responses(middle: StorelessGateway) -> None:
    learned = middle.attempts.preparer.learned
    for channel in middle.catalog.registry.channels.values():
        for served in channel.models if channel.dialect is Dialect.OPENAI else ():
            learned.learn_responses(channel.id, served, ResponsesNeed.MODEL, middle.clock.wall())


@pytest.mark.parametrize("api", BASES, ids=lambda api: type(api).__name__)
@settings(max_examples=amount(25, 1500))
@given(data=st.data(), channels=CHANNELS, extras=EXTRAS)
def test_no_call_exceeds_its_hold(api: InboundApi, data: st.DataObject, channels: list[Any], extras: Doc) -> None:
    request = data.draw(BASES[api])
    request = {**extras, **request, "stream": False}
    middle = StorelessGateway(configured(channels, [PRICE, PRICE], MILLION), (0, 0))
    if data.draw(st.booleans()):
        take_chats_as_responses(middle)
    try:
        spent = asyncio.run(middle.spend(request, api=api))
    except GatewayError:
        return
    asked = middle.upstreams.asked[-1][1] if middle.upstreams.asked else None
    assert spent.cost <= spent.held or not middle.bounded, (asked, msgspec.json.encode(request))


_WIDE = {f"name{number}": {"type": "string", "description": "d" * 90} for number in range(60)}
SCHEMA_WITH_REFERENCES: Doc = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {
            "anyOf": [{"$ref": "#/$defs/a"}],
            "properties": {"next": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"type": "object", "properties": _WIDE}},
        },
    },
}
REFERENCES_INTO_PROPERTIES: Doc = {
    "$defs": {"a": {"properties": {"b": {"properties": {"c": {"properties": {"d": {"properties": _WIDE}}}}}}}},
    "anyOf": [{"$ref": f"#/$defs/a{path}"} for path in ("", "/properties/b", "/properties/b/properties/c")],
    "allOf": [{"$ref": "#/$defs/a/properties/b/properties/c/properties/d"}],
}
CLAUDE = (Dialect.ANTHROPIC, "", "claude-3-opus")
STRICT_CLAUDE = (Dialect.ANTHROPIC, "", "claude-sonnet-4-5")
CLOSED: Doc = {
    "type": "object",
    "properties": {f"p{number}": {"type": "object", "properties": {}} for number in range(400)},
}
LIMITED: Doc = {
    "type": "object",
    "properties": {f"p{number}": {"type": "number", "minimum": 1} for number in range(300)},
}
EXAMPLES: Doc = {"type": "object", "properties": {"p": {"type": "string", "examples": ["e"] * 3000}}}
GEMINI = (Dialect.GEMINI, "", "gemini-2.5-pro")
GPT = (Dialect.OPENAI, "ollama", "llama")
TRANSLATED = (CLAUDE, GEMINI, GPT)
MANY_TOOLS: Doc = {
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"function": {"name": "é"}}] * 900,
    "stream": False,
}
NAMED_TOOLS = [{"type": "function", "name": f"é{number}"} for number in range(900)]
ADDITIONS = [{"type": "tool_addition", "tool": {"definition": tool}} for tool in NAMED_TOOLS]
LONG_CALL: Doc = {"type": "function_call", "call_id": "x" * 300}
STRAY: Doc = {"type": "function_call_output"}
SAID_LONG: Doc = {"role": "assistant", "content": [{"type": "tool_use", "id": "x" * 300, "name": "f"}] * 90}


def calling(call: Doc) -> Doc:
    """A conversation with many such calls, without a result."""
    return {"messages": [{"role": "assistant", "tool_calls": [call] * 90}], "stream": False}


def with_tool(schema: Doc, *, strict: bool = True) -> Doc:
    tool = {"type": "function", "function": {"name": "f", "strict": strict, "parameters": schema}}
    return {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "stream": False}


@pytest.mark.parametrize(
    ("api", "place", "request_"),
    [
        (RESPONSES, CLAUDE, {"input": [ITEMS[3]]}),
        (RESPONSES, CLAUDE, {"input": [ITEMS[4]]}),
        (RESPONSES, CLAUDE, {"input": [ITEMS[5]]}),
        (RESPONSES, CLAUDE, {"input": "Hi", "tools": [TOOLS[3]]}),
        (CHAT, GPT, {"messages": [{"role": "user", "content": [CHAT_PARTS[4]]}]}),
        (CHAT, GEMINI, {"messages": [{"role": "assistant", "function_call": {"name": "f" * 64, "arguments": "{}"}}]}),
        (CHAT, CLAUDE, {"messages": [{"role": "user", "content": "Hi"}], "tools": [SCHEMA_WITH_REFERENCES]}),
        (CHAT, CLAUDE, with_tool(REFERENCES_INTO_PROPERTIES, strict=False)),
        *((CHAT, STRICT_CLAUDE, with_tool(schema)) for schema in (CLOSED, LIMITED, EXAMPLES)),
        (OLLAMA_CHAT, GPT, {"messages": [{"role": "tool", "content": "found" * 20}] * 9, "stream": False}),
        (OLLAMA_CHAT, GPT, {"messages": [{"role": "tool"}] * 90, "stream": False}),
        *((CHAT, place, calling({"custom": {}})) for place in (CLAUDE, GEMINI)),
        *(
            (OLLAMA_CHAT, place, calling({"function": {}} | id))
            for place in TRANSLATED
            for id in ({}, {"id": "x" * 300})
        ),
        *((RESPONSES, place, {"input": [LONG_CALL] * 90 + [STRAY] * 90}) for place in (CLAUDE, GEMINI, GPT)),
        *((MESSAGES, place, {"messages": [SAID_LONG]}) for place in (GEMINI, GPT)),
        (MESSAGES, GPT, MANY_TOOLS | {"tools": [{"name": "é"}] * 900}),
        (MESSAGES, GPT, {"messages": [{"role": "user", "content": ADDITIONS}]}),
        (OLLAMA_CHAT, CLAUDE, MANY_TOOLS),
        (RESPONSES, CLAUDE, {"input": "Hi", "tools": NAMED_TOOLS}),
        (RESPONSES, CLAUDE, {"input": [{"type": "tool_search_output", "call_id": "c", "tools": NAMED_TOOLS}]}),
    ],
)
def test_additions_of_translations_are_held(api: InboundApi, place: tuple[Dialect, str, str], request_: Doc) -> None:
    cap = {"max_output_tokens": 16} if api is RESPONSES else {"max_tokens": 16, "options": {"num_predict": 16}}
    middle = StorelessGateway(configured([(place, None, None, None)], [PRICE, PRICE], MILLION), (0, 0))
    spent = asyncio.run(middle.spend({**request_, **cap}, api=api))
    assert spent.cost <= spent.held


@pytest.mark.parametrize("api", [CHAT, MESSAGES, OLLAMA_CHAT], ids=["chat", "messages", "ollama"])
def test_a_limit_that_responses_raise_is_held_for_once_per_answer(api: InboundApi) -> None:
    edits = Overrides(default={"metadata": {"best_of": 3}})
    middle = StorelessGateway(
        configured([((Dialect.OPENAI, "", "some-model"), edits, None, None)], [PRICE, PRICE], MILLION), (0, 0)
    )
    take_chats_as_responses(middle)
    request = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "options": {"num_predict": 1}}
    spent = asyncio.run(middle.spend({**request, "stream": False}, api=api))
    sent = json.loads(middle.upstreams.asked[-1][1].body)
    assert (sent["max_output_tokens"], sent["metadata"]) == (16, {"best_of": 3})
    assert spent.cost <= spent.held


def test_a_limit_that_the_money_left_sets_is_for_each_answer_of_a_response() -> None:
    middle = StorelessGateway(configured([(GPT, None, None, None)], [PRICE, PRICE], MILLION), (0, 0))
    request = {"input": "Hi", "num_return_sequences": 4, "store": False}
    spent = asyncio.run(middle.spend(request, (50, 100), RESPONSES))
    assert json.loads(middle.upstreams.asked[-1][1].body)["max_output_tokens"] < spent.held_tokens // 4
    assert spent.cost <= spent.held


CALLED: Doc = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {}}}
USED: Doc = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("api", "turn"),
    [
        (CHAT, {"tool_calls": [CALLED]}),
        (MESSAGES, {"content": [USED]}),
        (OLLAMA_CHAT, {"content": "", "tool_calls": [CALLED]}),
    ],
    ids=["chat", "messages", "ollama"],
)
def test_reasoning_that_goes_back_with_its_calls_is_held_for(api: InboundApi, turn: Doc) -> None:
    middle = StorelessGateway(configured([(GPT, None, None, None)], [PRICE, PRICE], MILLION), (0, 0))
    take_chats_as_responses(middle)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", **turn}]
    request = {"messages": turns, "max_tokens": 16, "options": {"num_predict": 16}, "stream": False}
    held_before = asyncio.run(middle.spend(request, api=api)).held
    sealed = "c2Vh" * 30_000
    items = [
        {"type": "reasoning", "encrypted_content": sealed},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
    ]
    (channel,), owner = middle.catalog.registry.channels.values(), kit.token().id
    reader = middle.attempts.preparer.responses.reader(Order(fields={}, model="m", owner=owner), channel)
    assert list(reader.read_whole(json.dumps({"output": items}).encode()))
    spent = asyncio.run(middle.spend(request, api=api))
    assert middle.upstreams.asked[-1][1].body.count(sealed.encode()) == 1
    assert spent.cost <= spent.held
    assert spent.held - held_before >= len(sealed) // 3 * PRICE.input // MILLION
