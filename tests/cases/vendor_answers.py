"""Vendor answers: what real upstreams send that is unlike their documentation, and what it means.

Each row is a stream, and the same as a plain answer where the vendor has one. It means the same in every API.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from gateway.domain.channel import Dialect
from tests.cases.anthropic.streams import STOP, end as ended, start as began, text as words
from tests.cases.conversations import call
from tests.cases.gemini import streams as gemini
from tests.fakes.messages import event as named
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, tool_call, usage, whole

Doc = dict[str, Any]
Calls = list[tuple[str, str]]


@dataclass(frozen=True)
class Row:
    """One answer, and what it means."""

    name: str
    dialect: Dialect
    stream: bytes = b""
    plain: Doc = field(default_factory=dict)
    text: str = ""
    reasoning: str = ""
    calls: Calls = field(default_factory=list)
    """Names and arguments."""
    finish: str = ""
    """Unless it is named, that of the calls or of a text."""
    used: tuple[int, int] | None = None
    """Input and output tokens."""
    marks: tuple[str, ...] = ()
    image: str = ""
    """Base64."""
    source: str = ""
    """The address of a citation."""
    own_form: bool = False
    """Whether native chats get the sources or images in fields of the vendor's."""
    error: str = ""
    """The code of the failure."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "finish", self.finish or ("tool_calls" if self.calls else "stop"))


ARGUMENTS = '{"a":1}'
ONE_CALL = [("f", ARGUMENTS)]
TWO_CALLS = [*ONE_CALL, ("g", "{}")]


def chat(*deltas: Doc, spent: Doc | None = None, finish: str | None = "stop", last: Doc | None = None) -> bytes:
    """A stream of chat completions."""
    chunks = [chunk(each) for each in deltas]
    ends = [chunk(delta(finish=finish))] if finish else []
    spends = [chunk(usage=usage(9, 2) if spent is None else spent)] if spent != {} else []
    return b"".join(map(event, [*chunks, *ends, *spends, *([last] if last else [])])) + DONE


def completion(message: Doc, finish: str | None = "stop", spent: Doc | None = None, **more: Any) -> Doc:
    given = {"index": 0, "message": message, "finish_reason": finish}
    return whole("m", given, spent=usage(9, 2) if spent is None else spent, **more)


def said(text: str) -> Doc:
    """A message."""
    return {"role": "assistant", "content": text}


def piece(index: object = 0, id: object = None, name: object = None, arguments: object = None) -> Doc:
    """A delta of one tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return delta(tool_calls=[{**given, "function": function}])


def parts(*given: Doc) -> Doc:
    """A delta whose content has parts."""
    return {"index": 0, "delta": {"content": list(given)}, "finish_reason": None}


def called(*calls: Doc | None) -> Doc:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def block(index: int, start: Doc, *deltas: Doc, stop: bool = True) -> bytes:
    """A block of a message."""
    out = named("content_block_start", index=index, content_block=start)
    out += b"".join(named("content_block_delta", index=index, delta=each) for each in deltas)
    return out + (named("content_block_stop", index=index) if stop else b"")


def writes(text: str) -> Doc:
    """A piece of a text."""
    return {"type": "text_delta", "text": text}


def writes_json(part: object) -> Doc:
    """A piece of the arguments of a call."""
    return {"type": "input_json_delta", "partial_json": part}


def thinks(text: str) -> Doc:
    """A piece of a thought."""
    return {"type": "thinking_delta", "thinking": text}


def thought(text: object) -> Doc:
    """A thought, or the start of one."""
    return {"type": "thinking", "thinking": text}


def text_part(text: object) -> Doc:
    """A part of a content, or the start of a block."""
    return {"type": "text", "text": text}


def openai_row(name: str, stream: bytes = b"", plain: Doc | None = None, text: str = "", **expected: Any) -> Row:
    """A stream and a plain answer in the words of chat completions."""
    return Row(name, OPENAI, stream, plain or {}, text, **expected)


def chat_row(
    name: str,
    *deltas: Doc,
    whole: Doc | None = None,
    word: str | None = "stop",
    spent: Doc | None = None,
    last: Doc | None = None,
    **expected: Any,
) -> Row:
    """A chat that ends with the word; as a plain answer, it is the whole message."""
    stream = chat(*deltas, finish=word, spent=spent, last=last)
    return Row(name, OPENAI, stream, {} if whole is None else completion(whole, word, spent), **expected)


def hi_row(name: str, **more: Any) -> Row:
    return chat_row(name, delta("Hi"), whole=said("Hi"), **more)


def fields_row(name: str, content: str, fields: Doc, **expected: Any) -> Row:
    """A text with these fields beside it."""
    return chat_row(name, delta(content, **fields), whole={**said(content), **fields}, **expected)


def parts_row(name: str, *given: Doc, **expected: Any) -> Row:
    """A content of these parts."""
    return chat_row(name, parts(*given), whole={"role": "assistant", "content": list(given)}, **expected)


def call_row(
    name: str,
    *pieces: tuple[object, ...],
    alike: bool = False,
    whole: Doc | None = None,
    word: str | None = "tool_calls",
    calls: Calls = ONE_CALL,
    **expected: Any,
) -> Row:
    """A chat of nothing but pieces of calls; ``alike``: each piece is a call of the plain answer, too."""
    message = called(*(call(*each[1:]) for each in pieces)) if alike else whole
    return chat_row(name, *(piece(*each) for each in pieces), whole=message, word=word, calls=calls, **expected)


def claude_row(
    name: str, *blocks: bytes, reason: str = "end_turn", output: int = 2, plain: Doc | None = None, **expected: Any
) -> Row:
    """A message of Claude's with the usual usage."""
    stream = began(SPENT) + b"".join(blocks) + ended(reason, output_tokens=output)
    return Row(name, ANTHROPIC, stream, plain or {}, **expected)


def spending_row(name: str, first: Doc, last: Doc, **expected: Any) -> Row:
    """A message of Claude's with these reports at its start and its end."""
    return Row(name, ANTHROPIC, began(first) + words("Hi") + ended(**last), text="Hi", **expected)


def claude_message(content: object, reason: str = "end_turn") -> Doc:
    """A whole message of Claude's."""
    return {**MESSAGE, "content": content, "stop_reason": reason}


def tool_row(name: str, *blocks: bytes, calls: Calls = ONE_CALL, **more: Any) -> Row:
    """A message of Claude's that calls."""
    return claude_row(name, *blocks, reason="tool_use", calls=calls, **more)


def gemini_row(name: str, response: Doc, **expected: Any) -> Row:
    """One response, as the only event and as the answer."""
    return Row(name, GEMINI, gemini.event(response), response, **expected)


SPENT = {"input_tokens": 9, "output_tokens": 1}
OPENAI, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI
CACHED = {"input_tokens": 100, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 300}
OVERLAP: Doc = {
    "prompt_tokens": 2168,
    "completion_tokens": 100,
    "total_tokens": 2268,
    "cost": 0.000497,
    "prompt_tokens_details": {"cached_tokens": 2161, "cache_write_tokens": 2161},
}
SEARCHED: Doc = {
    "prompt_tokens": 33,
    "completion_tokens": 7,
    "total_tokens": 40,
    "citation_tokens": 20,
    "num_search_queries": 3,
    "reasoning_tokens": 50,
    "cost": {"total_cost": 0.63},
}
TICKS: Doc = {
    **usage(9, 2),
    "cost_in_usd_ticks": 5_000_000_000,
    "server_side_tool_usage_details": {"web_search_calls": 2},
}
NO_CALL = {"name": "", "arguments": ""}
PNG: Doc = {"inlineData": {"mimeType": "image/png", "data": "aW1n"}}
_FOUND = [{"web": {"uri": f"https://{name}.example", "title": name}} for name in "ba"]
GROUNDED = gemini.response({"text": "Look"}, PNG, PNG, finish="STOP")
GROUNDED["candidates"][0]["groundingMetadata"] = {"groundingChunks": _FOUND}
READ = gemini.response({"text": "It rains."}, finish="STOP")
READ["candidates"][0]["urlContextMetadata"] = {
    "urlMetadata": [
        {"retrievedUrl": "https://a.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
        {"retrievedUrl": "https://b.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
    ]
}
LOCATED = gemini.response({"text": "It rains."}, finish="STOP")
LOCATED["candidates"][0]["groundingMetadata"] = {"groundingChunks": [{"maps": {"uri": "https://a.example"}}]}
CAMELS: Doc = {"promptTokens": 9, "completionTokens": 2, "totalTokens": 11, "promptTokensDetails": {"cachedTokens": 4}}
NUMBERED: Doc = {
    "candidates": [
        {"content": {"parts": [None, {"functionCall": {"id": 7, "name": "f", "args": ARGUMENTS}}]}, "finishReason": 2}
    ]
}


def thought_piece(text: str, said: str, **more: str) -> Doc:
    """A delta with a piece of a thought, as LiteLLM sends it: by two names, the last with the signature."""
    block = {"index": 0, "type": "thinking", "thinking": text, **more}
    return {"index": 0, "delta": {"reasoning_content": said, "thinking_blocks": [block]}}


MARKED: Doc = {"google": {"thought": True}}
SIGNED_TEXT: Doc = {"google": {"thought": True, "thought_signature": "s"}}
TEXTUAL: Doc = {"index": 0, "text": "Hi", "finish_reason": "stop"}
FILE: Doc = {"type": "file", "mediaType": "image/png", "filename": "a.png", "data": "aW1n"}
IMAGE: Doc = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1n"}}
CITED: Doc = {
    "type": "url_citation",
    "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2},
}
DETAILS = [{"type": "reasoning.text", "text": "Hm"}]
STEPS = [{"type": "web_search", "thought": "Hm", "web_search": {"search_results": []}}]
TOOL: Doc = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
MESSAGE: Doc = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": SPENT}
PICTURE: Doc = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"}}
LOCATION: Doc = {
    "type": "web_search_result_location",
    "url": "https://a.example",
    "title": "A",
    "cited_text": "It rains.",
    "encrypted_index": "x",
}

WHOLE: Doc = {"role": "assistant", "content": "Hi there", "reasoning_content": "Hm", "name": "MiniMax AI"}
FOUND: Doc = {"type": "search_result_location", "source": "https://a.example", "title": "A", "cited_text": "It rains."}
BARE_FAILURE = dumps({"error": {"message": "late", "code": 503}})
PAGE: Doc = {"title": "A", "url": "https://a.example"}
MAPPED: Doc = {"title": "A", "link": "https://a.example", "refer": "ref_1"}
RAN: Doc = {"type": "search", "arguments": "{}", "output": "x", "search_results": {"results": [PAGE]}}
DRAWN: Doc = {"data": "aW1n", "extra_content": {"google": {"mime_type": "image/png"}}}
SPOKEN: Doc = {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "Hi"}


def beside(message: Doc, **fields: Any) -> Doc:
    """A whole completion without a text, with these fields beside the message or the choices."""
    return {**completion({"role": "assistant", "content": "", **message}), **fields}


UNSAID: Doc = {"word": None, "spent": {}}
"""A stream that has only the deltas of its row."""
HI: Doc = {"text": "Hi", "used": (9, 2)}
THOUGHT_HI: Doc = {"text": "Hi", "reasoning": "Hm"}
RAINS: Doc = {"text": "It rains.", "source": "https://a.example"}
LOOK: Doc = {"text": "Look", "image": "aW1n"}
"""What many rows mean."""


USAGE = [
    spending_row(
        "zeros in the last report",
        {**CACHED, "output_tokens": 1},
        {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 20},
        used=(5400, 20),
        marks=("suspect_usage",),
    ),
    spending_row(
        "the whole prompt first, then the cache apart",
        {"input_tokens": 8834, "output_tokens": 0},
        {"input_tokens": 18, "cache_read_input_tokens": 8831, "cache_creation_input_tokens": 0, "output_tokens": 426},
        used=(8849, 426),
    ),
    spending_row(
        "the whole prompt first, with an empty cache, then less",
        {"input_tokens": 5000, "cache_read_input_tokens": 0, "output_tokens": 0},
        {"input_tokens": 100, "cache_read_input_tokens": 4800, "output_tokens": 5},
        used=(5000, 5),
        marks=("suspect_usage",),
    ),
    spending_row(
        "the whole prompt first, then the cache alone",
        {"input_tokens": 3602, "output_tokens": 0},
        {"cache_read_input_tokens": 3604, "cache_creation_input_tokens": 0, "output_tokens": 878},
        used=(3604, 878),
    ),
    spending_row(
        "a cache that is known from the start, and named again without the input",
        {"input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 0},
        {"cache_read_input_tokens": 60, "output_tokens": 2},
        used=(160, 2),
    ),
    Row(
        "usage without a delta",
        ANTHROPIC,
        began(SPENT)
        + words("Hi")
        + named("message_delta", usage={"output_tokens": 7})
        + named("message_delta", delta=None, usage={"output_tokens": 8})
        + named("message_stop"),
        text="Hi",
        used=(9, 8),
    ),
    *(
        gemini_row(
            name, gemini.response(gemini.say("Hi"), finish="STOP", usageMetadata=counts), text="Hi", used=(100, 20)
        )
        for name, counts in (
            ("no candidates' count", {"promptTokenCount": 100, "totalTokenCount": 120}),
            (
                "no candidates' count beside thoughts",
                {"promptTokenCount": 100, "thoughtsTokenCount": 15, "totalTokenCount": 120},
            ),
            ("a response's count", {"promptTokenCount": 100, "responseTokenCount": 20}),
            ("no prompt count", {"candidatesTokenCount": 20, "totalTokenCount": 120}),
        )
    ),
    hi_row(
        "parts that overlap",
        spent=OVERLAP,
        text="Hi",
        used=(2168, 100),
        marks=("suspect_usage", "upstream_cost=0.000497"),
    ),
    hi_row(
        "searches and thoughts that are billed apart",
        spent=SEARCHED,
        text="Hi",
        used=(33, 77),
        marks=("upstream_extra=citation_tokens:20,num_search_queries:3", "upstream_cost=0.63"),
    ),
    hi_row(
        "a cost in ticks, and tools of the vendor's",
        spent=TICKS,
        marks=("upstream_extra=web_search_calls:2", "upstream_cost=0.5"),
        **HI,
    ),
    openai_row(
        "an error that carries usage",
        event(chunk(delta("Hi"))) + event({"error": {"message": "x", "code": 500}, "usage": usage(43, 10)}),
        used=(43, 10),
        error="upstream_error",
    ),
    *(
        hi_row(f"a cost called {name}", spent={**usage(9, 2), **cost}, marks=("upstream_cost=0.5",), **HI)
        for name, cost in (
            ("estimated_cost", {"estimated_cost": 0.5}),
            ("estimated_cost beside null", {"cost": None, "estimated_cost": 0.5}),
            ("usd", {"cost": {"usd": 0.5, "hypercredits": 10}}),
            (
                "upstream_inference_cost",
                {"cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.4}},
            ),
        )
    ),
    openai_row(
        "a cost beside the usage",
        chat(delta("Hi"), spent={}, last={**chunk(usage=usage(9, 2)), "cost": {"usd": 0.5, "diem": 0}}),
        {**completion(said("Hi")), "cost": {"usd": 0.5, "diem": 0}},
        marks=("upstream_cost=0.5",),
        **HI,
    ),
    openai_row("usage after the last event", chat(delta("Hi"), spent={}) + event(chunk(usage=usage(9, 2))), **HI),
    openai_row(
        "no counts yet, and a search at last",
        event(chunk(delta("Hi"), usage={"total_tokens": 0, "total_characters": 0}))
        + chat(finish="stop", spent={**usage(9, 2), "server_tool_use_details": {"web_search_requests": 2}}),
        marks=("upstream_extra=web_search_requests:2",),
        **HI,
    ),
    hi_row("names in camel case", spent=CAMELS, **HI),
    hi_row(
        "a tier in Google's own properties (Vertex)",
        spent={**usage(9, 2), "extra_properties": {"google": {"traffic_type": "ON_DEMAND_PRIORITY"}}},
        marks=("upstream_extra=service_tier:priority",),
        **HI,
    ),
]
ENDS = [
    hi_row("upper case", word="MAX_TOKENS", text="Hi", finish="length"),
    openai_row(
        "safety", chat(delta("Hi"), finish="SAFETY"), completion(said("Hi"), "safety"), "Hi", finish="content_filter"
    ),
    hi_row("blacklist (GigaChat)", word="blacklist", text="Hi", finish="content_filter"),
    hi_row("refusal", word="refusal", text="Hi", finish="content_filter"),
    hi_row("no reason at all", word=None, **HI),
    call_row("no reason after a tool call", (0, "c1", "f", ARGUMENTS), word=None, alike=True),
    hi_row("abort", word="abort", error="upstream_error"),
    claude_row(
        "a failure of Claude's",
        words("Hi"),
        reason="error",
        plain=claude_message([text_part("Hi")], "error"),
        error="upstream_error",
    ),
    openai_row(
        "None and null before the finish reason",
        event(chunk(delta("H", finish="None")))
        + event(chunk(delta("i", finish="null")))
        + event(chunk(delta(finish="length"))),
        text="Hi",
        finish="length",
    ),
    openai_row(
        "a finish reason in the first chunk (Open WebUI)",
        event(chunk(delta("", role="assistant", finish="stop")))
        + event(chunk(delta("Hi")))
        + event(chunk(delta(finish="length"))),
        text="Hi",
        finish="length",
    ),
    chat_row(
        "a finish reason in each chunk (gcli2api)",
        delta(reasoning_content="Hm", finish="stop"),
        delta("Hi", finish="stop"),
        delta(tool_calls=[tool_call(0, "a", "f", ARGUMENTS)], finish="stop"),
        **UNSAID,
        calls=ONE_CALL,
        **THOUGHT_HI,
    ),
    Row(
        "[DONE] instead of message_stop",
        ANTHROPIC,
        began(SPENT) + words("Hi") + ended(output_tokens=2).removesuffix(STOP) + DONE,
        **HI,
    ),
    Row(
        "[DONE] in the last event (claude-code-hub)",
        ANTHROPIC,
        began(SPENT) + words("Hi") + ended(output_tokens=2).removesuffix(b"\n") + DONE,
        **HI,
    ),
    openai_row(
        "no blank lines between events",
        chat(delta("H"), piece(0, "c1", "f", '{"a"'), piece(0, None, None, ":1}"), finish="tool_calls").replace(
            b"\n\n", b"\n"
        ),
        text="H",
        calls=ONE_CALL,
        used=(9, 2),
    ),
    hi_row("error", word="error", error="upstream_error"),
    hi_row("a new word", word="whatever", text="Hi", marks=("unknown_finish_reason",)),
    openai_row(
        "a filter without a message",
        plain={**completion({}, "content_filter"), "choices": [{"index": 0, "finish_reason": "content_filter"}]},
        finish="content_filter",
        used=(9, 2),
    ),
    Row(
        "lower case",
        GEMINI,
        gemini.event(gemini.response(gemini.say("Hi"), finish="max_tokens")),
        text="Hi",
        finish="length",
    ),
    Row(
        "candidates that are counted from 1",
        GEMINI,
        gemini.event({"candidates": [{"index": 1, "content": {"parts": [{"text": "H"}]}}]})
        + gemini.event({"candidates": [{"index": 1, "content": {"parts": [{"text": "i"}]}, "finishReason": "STOP"}]}),
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]},
        text="Hi",
    ),
    Row(
        "a prompt that is blocked after the first text",
        GEMINI,
        gemini.event(gemini.response(gemini.say("Hi")))
        + gemini.event({"promptFeedback": {"blockReason": "OTHER"}, **gemini.spent(9, 2)}),
        finish="content_filter",
        **HI,
    ),
    Row(
        "an answer in a response",
        GEMINI,
        gemini.event({"response": gemini.response(gemini.say("Hi"), finish="STOP", **gemini.spent(9, 2))}),
        {"response": gemini.response(gemini.say("Hi"), finish="STOP", **gemini.spent(9, 2)), "traceId": "1"},
        **HI,
    ),
    Row("no message_stop", ANTHROPIC, began(SPENT) + words("Hi") + ended(output_tokens=2).removesuffix(STOP), **HI),
    claude_row("the beginning twice", began(SPENT), words("Hi"), **HI),
    claude_row("another message before anything came", began(SPENT).replace(b"msg_1", b"msg_2"), words("Hi"), **HI),
    claude_row(
        "another message in the middle",
        block(0, {**TOOL, "input": {}}, writes_json('{"a'), stop=False),
        began(SPENT).replace(b"msg_1", b"msg_2"),
        block(0, TOOL),
        reason="tool_use",
        error="upstream_stream_truncated",
    ),
    openai_row(
        "choices that are counted from 1",
        event(chunk(delta("H", index=1))) + event(chunk(delta("i", index=1, finish="stop"))) + DONE,
        {**completion({}), "choices": [choice("Hi", index=1)]},
        text="Hi",
    ),
    *(
        openai_row(
            f"an event that is cut off before the next one{where} (Zhipu)",
            chat(delta("A"), delta("X"), delta("B")).replace(b'"X"},"logprobs":null,"finish_reason":null}]}\n\n', gap),
            text="AB",
            used=(9, 2),
            marks=("bad_chunks=1",),
        )
        for where, gap in (("", b"\n"), (", on its line", b""), (", in a name", b'"X"},"logp'))
    ),
    chat_row(
        "the cost as a text, in a chunk of its own (Zen)",
        delta("Hi"),
        last={"choices": [], "cost": "0.0125"},
        marks=("upstream_cost=0.0125",),
        **HI,
    ),
    chat_row(
        "two calls with one id, in pieces",
        *(each for n in (0, 1) for each in (piece(n, "c1", "f", ""), piece(n, arguments=f'{{"a":{n}}}'))),
        calls=[("f", '{"a":0}'), ("f", '{"a":1}')],
    ),
    tool_row(
        "two blocks with one id",
        *(block(n, TOOL, writes_json(f'{{"a":{n}}}')) for n in (0, 1)),
        plain={
            "content": [{**TOOL, "input": {"a": 0}}, {**TOOL, "input": {"a": 1}}],
            "stop_reason": "tool_use",
            "usage": {**SPENT, "output_tokens": 2},
        },
        calls=[("f", '{"a":0}'), ("f", '{"a":1}')],
    ),
    chat_row(
        "tokens that became numbers (Cloudflare)",
        delta(reasoning_content=1),
        *({"index": 0, "delta": {"content": token}} for token in ("[", 1, "] is ", True, ", ", 0, ".", 5, "")),
        text="[1] is true, 0.5",
        reasoning="1",
        used=(9, 2),
    ),
    openai_row("an answer that became a number", plain=completion({"role": "assistant", "content": 42}), text="42"),
    openai_row(
        "an answer in JSON that is not a text",
        plain=completion({"role": "assistant", "content": {"a": [1]}}),
        text='{"a":[1]}',
    ),
    openai_row(
        "a text and a call in two choices (Copilot)",
        event(chunk({"delta": said("Hi")}, {"delta": called(call("c1", "f", "{}")), "finish_reason": "tool_calls"}))
        + DONE,
        {**completion({}), "choices": [{"message": said("Hi")}, {"message": called(call("c1", "f", "{}"))}]},
        text="Hi",
        calls=[("f", "{}")],
    ),
    openai_row(
        "null instead of arguments, as by Groq",
        chat(
            piece(0, "c1", "f", "null"),
            piece(1, "c2", "g", '{"a":'),
            *(piece(1, arguments=part) for part in ("null", "}")),
            finish="tool_calls",
        ),
        completion(called(call("c1", "f", "null"), call("c2", "g", '{"a":null}')), "tool_calls"),
        calls=[("f", "{}"), ("g", '{"a":null}')],
    ),
    openai_row(
        "a text and two calls in the choices of one chunk",
        event(chunk(delta("Hi"), *(delta(index=n, tool_calls=[tool_call(0, f"c{n}", "f", ARGUMENTS)]) for n in (1, 2))))
        + event(chunk(*(delta(index=n, finish="tool_calls") for n in (0, 1, 2)), usage=usage(9, 2)))
        + DONE,
        calls=2 * ONE_CALL,
        **HI,
    ),
    openai_row(
        "two whole choices where one was requested",
        event(chunk(delta("H", index=1))) + event(chunk(delta("i", finish="stop"))) + DONE,
        {**completion({}), "choices": [choice("H"), choice("i", index=1)]},
        text="Hi",
    ),
    Row(
        "candidates in falling order",
        GEMINI,
        gemini.event({"candidates": [{"index": 1, "content": {"parts": [{"text": "H"}]}}]})
        + gemini.event({"candidates": [{"index": 0, "content": {"parts": [{"text": "i"}]}, "finishReason": "STOP"}]}),
        text="Hi",
    ),
    openai_row(
        "lines of JSON instead of events, after a blank line",
        b"\n"
        + b"".join(
            dumps(each) + b"\n" for each in (chunk(delta("H")), chunk(delta("i", finish="stop"), usage=usage(9, 2)))
        ),
        **HI,
    ),
    openai_row(
        "the whole message after its deltas",
        chat(
            {"index": 0, "delta": {"reasoning_content": "Hm"}}, delta("Hi"), delta(" there"), finish=None, spent={}
        ).removesuffix(DONE)
        + event(completion(WHOLE)),
        text="Hi there",
        reasoning="Hm",
        used=(9, 2),
    ),
    openai_row(
        "the whole message after its deltas, its calls and the finish reason",
        chat(delta("Hi"), piece(0, "c1", "f", ARGUMENTS), finish="tool_calls", spent={}).removesuffix(DONE)
        + event(completion({**called(call("c1", "f", ARGUMENTS)), "content": "Hi"}, "tool_calls"))
        + DONE,
        calls=ONE_CALL,
        **HI,
    ),
    chat_row(
        "messages instead of deltas",
        {"index": 0, "message": said("H"), "finish_reason": None},
        {"index": 0, "message": said("i"), "finish_reason": "stop"},
        **UNSAID,
        text="Hi",
    ),
    openai_row(
        "a delta instead of a message",
        plain={**completion({}), "choices": [{"index": 0, "delta": said("Hi"), "finish_reason": "stop"}]},
        text="Hi",
    ),
    openai_row(
        "texts that keep the connection open",
        b"data: ping\n\n"
        + event(chunk(delta("H")))
        + b"event: ping\ndata: ping\n\ndata: keep-alive\n\ndata: null\n\n"
        + chat(delta("i")),
        **HI,
    ),
    openai_row(
        "data that says twice that it is data", chat(delta("H"), delta("i")).replace(b"data: ", b"data: data: "), **HI
    ),
    openai_row("comments before a whole answer", b": PROCESSING\n\n" + dumps(completion(said("Hi"))), text="Hi"),
    *(
        Row(f"a failure without {name}", dialect, came + failure, error="upstream_overloaded")
        for name, failure in (("its data field", BARE_FAILURE), ("a line of its own", b"\n" + BARE_FAILURE))
        for dialect, came in (
            (OPENAI, event(chunk(delta("Hi")))),
            (ANTHROPIC, began(SPENT) + words("Hi")),
            (GEMINI, gemini.event(gemini.response(gemini.say("Hi")))),
        )
    ),
    *(
        openai_row(f"an error {place}", plain=plain, error=code)
        for place, plain, code in (
            ("beside the choices", beside({}, error={"message": "gone", "code": 502}), "upstream_error"),
            ("in the choice", beside({}, choices=[{**choice(""), "error": {"code": 429}}]), "upstream_rate_limited"),
            (
                "in base_resp",
                beside({}, base_resp={"status_code": 1027, "status_msg": "new_sensitive"}),
                "content_filter",
            ),
        )
    ),
    openai_row(
        "a message of Claude's (Copilot)",
        plain=claude_message([{**thought("Hm"), "signature": "s"}, text_part("Hi"), TOOL], "tool_use"),
        used=(9, 1),
        calls=ONE_CALL,
        **THOUGHT_HI,
    ),
    openai_row(
        "a message of Claude's without a content",
        plain={"id": "msg_1", "model": "m", "stop_reason": "max_tokens", "usage": SPENT},
        finish="length",
        used=(9, 1),
    ),
    openai_row("no stop reason", plain={"id": "msg_1", "stop_reason": None}, error="upstream_bad_response"),
    openai_row(
        "an answer in a result",
        event({"result": chunk(delta("Hi", finish="stop"))}) + event({"result": chunk(usage=usage(9, 2))}) + DONE,
        {"result": completion(said("Hi")), "success": True, "errors": [], "messages": []},
        **HI,
    ),
    openai_row(
        "an answer in data",
        event({"data": chunk(delta("Hi", finish="stop"), usage=usage(9, 2))}) + DONE,
        {"code": 0, "message": "success", "data": completion(said("Hi"))},
        **HI,
    ),
    openai_row("an answer in OpenRouter's provider", plain={"choices": None, "provider": completion(said("Hi"))}, **HI),
]
THOUGHT: Doc = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
REASONING = [
    *(
        chat_row(
            f"reasoning as {name}",
            {"index": 0, "delta": {name: value}, "finish_reason": None},
            delta("Hi"),
            whole={**said("Hi"), name: value},
            **THOUGHT_HI,
        )
        for name, value in (
            ("reasoning_text", "Hm"),
            ("thinking", "Hm"),
            ("reasoning", {"content": "Hm"}),
            ("reasoning_content", [text_part("Hm")]),
        )
    ),
    chat_row(
        "an empty name of the reasoning beside the other",
        {"index": 0, "delta": {"reasoning": "H", "reasoning_content": ""}},
        {"index": 0, "delta": {"reasoning": "m", "reasoning_content": ""}},
        delta("Hi"),
        whole={**said("Hi"), "reasoning_content": "", "reasoning": "Hm"},
        **THOUGHT_HI,
    ),
    chat_row(
        "of two other names the first counts",
        {"index": 0, "delta": {"thinking": "Hmm", "reasoning_text": "Hm"}},
        delta("Hi"),
        whole={**said("Hi"), "thinking": "Hmm", "reasoning_text": "Hm"},
        **THOUGHT_HI,
    ),
    chat_row(
        "a thought in pieces, by two names",
        thought_piece("H", "H"),
        thought_piece("m", "m"),
        thought_piece("", "", signature="s"),
        delta("Hi"),
        **THOUGHT_HI,
    ),
    *(
        chat_row(
            f"thoughts that are marked and tagged {place} (Gemini's compatible API)",
            *({"index": 0, "delta": {"content": text, "extra_content": MARKED}} for text in thoughts),
            delta("", role="assistant"),
            *(delta(text) for text in texts),
            whole={**said("<thought>Hm</thought>Hi"), "extra_content": MARKED},
            **THOUGHT_HI,
        )
        for place, thoughts, texts in (
            ("at both ends", ("<thought>H", "m"), ("</thought>H", "i")),
            ("in one delta", ("<thought>Hm</thought>H",), ("i",)),
            ("as Vertex writes it if it is asked to", ("<think>Hm",), ("</think>\n\nHi",)),
            ("nowhere", ("H", "m"), ("H", "i")),
        )
    ),
    chat_row(
        "a text that is marked like a thought, with the signature (Gemini's compatible API)",
        {"index": 0, "delta": {"content": "Hi", "extra_content": SIGNED_TEXT}},
        whole={**said("Hi"), "extra_content": SIGNED_TEXT},
        text="Hi",
    ),
    chat_row("a tag that ends no thought", delta("</thought>Hi"), whole=said("</thought>Hi"), text="</thought>Hi"),
    chat_row(
        "reasoning among the parts",
        parts(THOUGHT),
        parts(text_part("Hi")),
        whole={"role": "assistant", "content": [THOUGHT, text_part("Hi")]},
        **THOUGHT_HI,
    ),
]
BLOCKS = [
    tool_row("an input at the block's start", block(0, TOOL)),
    tool_row(
        "an input at the start, and its deltas",
        block(0, TOOL, writes_json('{"b":'), writes_json("2}")),
        calls=[("f", '{"b":2}')],
    ),
    claude_row(
        "thinking at the block's start",
        block(0, thought("H"), thinks("m")),
        words("Hi", index=1),
        **THOUGHT_HI,
    ),
    claude_row(
        "texts at the start of blocks, and once more",
        block(0, thought("Hm"), thinks("Hm")),
        block(1, text_part("H"), writes("H"), writes("i")),
        **THOUGHT_HI,
    ),
    Row(
        "types in the names of events alone",
        ANTHROPIC,
        b"".join(
            (
                b"event: %b\ndata: %b\n\n" % (name, dumps(fields))
                for name, fields in (
                    (b"message_start", {"message": {"id": "msg_1", "usage": SPENT}}),
                    (b"content_block_delta", {"index": 0, "delta": writes("Hi")}),
                    (b"message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
                    (b"message_stop", {}),
                )
            )
        ),
        **HI,
    ),
    Row(
        "comments before a whole message",
        ANTHROPIC,
        b": PROCESSING\n\n" + dumps(claude_message("Hi")),
        text="Hi",
        used=(9, 1),
    ),
    Row(
        "an error in base_resp beside a message",
        ANTHROPIC,
        plain={**MESSAGE, "content": [], "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        error="upstream_out_of_credit",
    ),
    claude_row(
        "another message after the end",
        words("Hi"),
        ended(output_tokens=20),
        began(SPENT).replace(b"msg_1", b"msg_2"),
        words("there"),
        output=30,
        text="Hi",
        used=(9, 20),
    ),
    claude_row(
        "two blocks open at once",
        block(0, text_part(""), writes("a"), stop=False),
        block(1, text_part(""), writes("x"), stop=False),
        named("content_block_delta", index=0, delta=writes("b")),
        named("content_block_stop", index=0),
        named("content_block_delta", index=1, delta=writes("y")),
        named("content_block_stop", index=1),
        text="abxy",
    ),
    tool_row(
        "blocks that never stop",
        block(0, TOOL, stop=False),
        block(1, {**TOOL, "id": "toolu_2", "name": "g", "input": ARGUMENTS}, stop=False),
        calls=[("f", ARGUMENTS), ("g", ARGUMENTS)],
    ),
    tool_row(
        "blocks that all have one index",
        words("Hi "),
        block(0, {**TOOL, "input": {}}, writes_json(ARGUMENTS)),
        block(0, {**TOOL, "id": "toolu_2", "name": "g"}),
        words("there"),
        text="Hi there",
        calls=[("f", ARGUMENTS), ("g", ARGUMENTS)],
    ),
    claude_row(
        "a text that does not end before a thought with its index (Ollama)",
        block(0, text_part(""), writes("H"), stop=False),
        block(0, thought(""), thinks("Hm")),
        block(1, text_part(""), writes("i")),
        **THOUGHT_HI,
    ),
    claude_row("a text whose start never came", named("content_block_delta", index=0, delta=writes("Hi")), text="Hi"),
    tool_row(
        "types that are not the documented ones",
        block(0, text_part(None), writes("Hi")),
        block(1, thought(None), thinks("Hm")),
        block(2, {**TOOL, "id": 5, "input": None}, writes_json({"a": 1})),
        **THOUGHT_HI,
    ),
    Row("a text instead of blocks", ANTHROPIC, plain=claude_message("Hi"), text="Hi"),
    Row(
        "no stop reason, and usage in the last event",
        ANTHROPIC,
        began({}) + words("Hi") + named("message_stop", usage={"input_tokens": 9, "output_tokens": 2}),
        **HI,
    ),
    claude_row("an image of Claude's", block(0, PICTURE), plain=claude_message([PICTURE]), image="aW1n"),
    tool_row(
        "no types of blocks and deltas",
        block(0, {"thinking": ""}, {"thinking": "Hm"}),
        block(1, {"text": ""}, {"text": "Hi"}),
        block(2, {"id": "toolu_1", "name": "f", "input": {}}, {"partial_json": ARGUMENTS}),
        **THOUGHT_HI,
    ),
    tool_row(
        "deltas and ends without the index of their block",
        words("Hi"),
        named("content_block_start", index=1, content_block={**TOOL, "input": {}}),
        named("content_block_delta", delta=writes_json(ARGUMENTS)),
        named("content_block_stop"),
        text="Hi",
    ),
    tool_row(
        "an empty object before the arguments, and nothing else",
        block(0, {**TOOL, "input": {}}, writes_json("{}"), writes_json(ARGUMENTS)),
        block(1, {**TOOL, "id": "toolu_2", "input": {}}, writes_json("{}")),
        calls=[("f", ARGUMENTS), ("f", "{}")],
    ),
    claude_row(
        "the input of a tool that the vendor runs",
        block(
            0,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            writes_json('{"query":"x"}'),
        ),
        block(1, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
        words("Hi", index=2),
        text="Hi",
    ),
]
CALLS = [
    call_row("another id later", (0, "c1", "f", '{"a"'), (0, "c9", None, ":1}")),
    call_row("a call without a name", (0, "c1", "", ARGUMENTS), alike=True, calls=[], error="upstream_bad_response"),
    chat_row(  # vLLM and Copilot
        "the finish word of a call that did not come",
        delta(tool_calls=[]),
        whole={"role": "assistant", "content": None},
        word="tool_calls",
        error="upstream_bad_response",
    ),
    call_row(
        "another id and the name in each piece", (0, "c1", "f", '{"a"'), (0, "c8", "f", ":"), (0, "c9", "f", "1}")
    ),
    call_row(
        "a name in pieces",
        (0, "c1", "get_"),
        (0, None, "weather", '{"a"'),
        (0, None, None, ":1}"),
        word="stop",
        calls=[("get_weather", ARGUMENTS)],
    ),
    chat_row(
        "a name in pieces, with the id in each",
        delta("Hi"),
        piece(0, "c1", "get_", ""),
        piece(0, "c1", "weather", "{}"),
        piece(1, "c2", "g", "{}"),
        text="Hi",
        calls=[("get_weather", "{}"), ("g", "{}")],
    ),
    chat_row(
        "a name in pieces, at once",
        delta(
            tool_calls=[
                {"index": 0, "id": "c1", "function": {"name": "get_"}},
                {"index": 0, "function": {"name": "weather", "arguments": ARGUMENTS}},
            ]
        ),
        calls=[("get_weather", ARGUMENTS)],
    ),
    call_row(
        "the second call at the first's index, its arguments at the next",
        (0, "c1", "f", '{"a"'),
        (0, None, None, ":1}"),
        (0, "c2", "g", '{"b"'),
        (1, None, None, ":2}"),
        word="stop",
        calls=[("f", ARGUMENTS), ("g", '{"b":2}')],
    ),
    chat_row(
        "a call without its inner object, and null beside it",
        delta(tool_calls=[None, {"index": 0, "id": "c1", "name": "f", "arguments": ARGUMENTS}]),
        whole=called(None, {"id": "c1", "name": "f", "arguments": ARGUMENTS}),
        calls=ONE_CALL,
    ),
    chat_row(
        "arguments that are called parameters",
        delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", "parameters": {"a": 1}}}]),
        whole=called({"id": "c1", "function": {"name": "f", "parameters": {"a": 1}}}),
        calls=ONE_CALL,
    ),
    call_row(
        "arguments in a string in a string",
        (0, "c1", "f", json.dumps(ARGUMENTS)),
        (1, "c2", "g"),
        (1, None, None, json.dumps("{}")),
        word="stop",
        whole=called(call("c1", "f", json.dumps(ARGUMENTS)), call("c2", "g", json.dumps("{}"))),
        calls=TWO_CALLS,
    ),
    call_row(
        "an empty object before the arguments, or alone",
        (0, "c1", "f", "{}"),
        (0, None, None, '{"a"'),
        (0, None, None, ":1}"),
        (1, "c2", "g", "{}"),
        word="stop",
        whole=called(call("c1", "f", ARGUMENTS), call("c2", "g", "{}")),
        calls=TWO_CALLS,
    ),
    call_row(
        "two calls whose indexes change, with name and id in each piece (Vertex)",
        (1, "c1", "f", ""),
        *((0, "c1", "f", part) for part in ('{"a"', ":1", "}")),
        (0, "c2", "g", ""),
        *((1, "c2", "g", part) for part in "{}"),
        calls=TWO_CALLS,
    ),
    call_row("the id at another index", (0, "c1", "f", '{"a"'), (1, "c1", None, ":1}")),
    call_row("the whole call twice", (0, "c1", "f", ARGUMENTS), (0, "c1", "f", ARGUMENTS), alike=True),
    call_row("no ids and one index", (0, "", "f", ARGUMENTS), (0, "", "g", "{}"), alike=True, calls=TWO_CALLS),
    call_row("ids that are numbers", (0, 123, "f", ARGUMENTS), alike=True),
    call_row("no id, and arguments that are an object", (0, None, "f", {"a": 1}), alike=True),
    call_row(
        "indexes that are texts",
        ("0", "c1", "f", '{"a"'),
        ("1", "c2", "g", "{"),
        ("0", None, None, ":1}"),
        ("1", None, None, "}"),
        word="stop",
        calls=TWO_CALLS,
    ),
    chat_row(
        "equal calls at once, without ids and indexes",
        delta(tool_calls=[call(None, "f", ARGUMENTS), call(None, "f", ARGUMENTS)]),
        whole=called(call(None, "f", ARGUMENTS), call(None, "f", ARGUMENTS)),
        calls=[("f", ARGUMENTS), ("f", ARGUMENTS)],
    ),
    chat_row(
        "a call without its list",
        delta(tool_calls=call("c1", "f", ARGUMENTS)),
        whole={**said(""), "tool_calls": call("c1", "f", ARGUMENTS)},
        calls=ONE_CALL,
    ),
    chat_row(
        "empty fields of the other kinds of calls",
        delta(
            function_call=NO_CALL,
            tool_calls=[{**call("c1", "f", ARGUMENTS), "custom": {"input": "", "name": ""}, "index": 0}],
        ),
        whole={
            **called({**call("c1", "f", ARGUMENTS), "custom": {"input": "", "name": ""}}),
            "content": "",
            "function_call": NO_CALL,
        },
        word="",
        calls=ONE_CALL,
    ),
    fields_row("a call of old that is empty", "Hi", {"function_call": NO_CALL}, word="", text="Hi"),
    call_row(
        "one id for two calls",
        (0, "c1", "f", ""),
        (1, "c1", "g", "{}"),
        (0, None, None, ARGUMENTS),
        word="stop",
        calls=TWO_CALLS,
    ),
    gemini_row(
        "arguments that are a text, a part that is null, a reason that is a number",
        NUMBERED,
        calls=ONE_CALL,
        finish="length",
    ),
    Row(
        "arguments in parts",
        GEMINI,
        b"".join(
            gemini.event(gemini.response({"functionCall": part}))
            for part in (
                {"name": "f", "id": "c1", "willContinue": True},
                {"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}], "willContinue": True},
                {},
            )
        )
        + gemini.event(gemini.response(finish="STOP")),
        calls=ONE_CALL,
    ),
    chat_row(
        "calls among the parts of the content",
        parts(TOOL, {"type": "function_call", "call_id": "2", "name": "g"}),
        whole={"role": "assistant", "content": [TOOL, {"type": "tool_call", "id": "2", "function": {"name": "g"}}]},
        calls=TWO_CALLS,
    ),
    call_row(
        "names and arguments that are sent again as they grow",
        (0, "c1", "get"),
        (0, "c1", "get_it"),
        (0, "c1", "get_it", '{"a'),
        (0, None, None, '{"a":'),
        (0, None, None, '{"a":{"b'),
        (0, None, None, '{"a":{"b":[1]}}'),
        (0, None, None, '{"a":{"b":[1]}}'),
        word="stop",
        calls=[("get_it", '{"a":{"b":[1]}}')],
    ),
    call_row(
        "an object that begins like all arguments",
        (0, "c1", "f", '{"a":'),
        (0, None, None, '{"a":'),
        (0, None, None, "1}}"),
        word="stop",
        calls=[("f", '{"a":{"a":1}}')],
    ),
]
PARTS = [
    gemini_row("an image next to the text", gemini.response(gemini.say("Look"), PNG, finish="STOP"), **LOOK),
    gemini_row("nothing but an image", gemini.response(PNG, finish="STOP"), image="aW1n"),
    fields_row("images next to the content", "Look", {"images": [IMAGE]}, **LOOK),
    chat_row(
        "images as addresses alone",
        delta("Look", images=[{"url": "data:image/png;base64,aW1n"}]),
        whole={**said("Look"), "images": ["data:image/png;base64,aW1n"]},
        **LOOK,
    ),
    fields_row("images as bare base64", "Look", {"images": [{"b64_json": "aW1n"}]}, **LOOK),
    parts_row("an image among the parts of the content", text_part("Look"), IMAGE, **LOOK),
    parts_row("nothing but an image in the content", IMAGE, image="aW1n"),
    chat_row(
        "a file of the AI SDK's as the content",
        {"index": 0, "delta": {"content": FILE}},
        whole={"role": "assistant", "content": FILE},
        image="aW1n",
    ),
    openai_row(
        "a text as completions have it",
        event(chunk({**TEXTUAL, "finish_reason": None})) + event(chunk({**TEXTUAL, "text": ""})) + DONE,
        {**completion({}), "choices": [TEXTUAL]},
        text="Hi",
    ),
    *(
        chat_row(f"a text in {name}", {"index": 0, "delta": message}, whole=message, text="Hi")
        for name, message in (
            ("a text", {"text": "Hi"}),
            ("a value", {"content": [text_part({"value": "Hi", "annotations": []})]}),
            ("parts", {"content": {"parts": [{"text": "H"}, {"text": "i"}]}}),
        )
    ),
    claude_row(
        "a source of Anthropic's",
        block(0, text_part(""), writes("It rains."), {"type": "citations_delta", "citation": LOCATION}),
        plain=claude_message([{**text_part("It rains."), "citations": [LOCATION]}]),
        **RAINS,
    ),
    Row(
        "a source of a search result",
        ANTHROPIC,
        plain=claude_message([{**text_part("It rains."), "citations": [FOUND]}]),
        **RAINS,
    ),
    chat_row(
        "an annotation",
        delta("It rains."),
        delta(annotations=[CITED]),
        whole={**said("It rains."), "annotations": [CITED]},
        **RAINS,
    ),
    chat_row(
        "two annotations and two images",
        delta("Look", annotations=[CITED], images=[IMAGE]),
        delta(annotations=[CITED], images=[IMAGE]),
        source="https://a.example",
        **LOOK,
    ),
    fields_row("citations inside of a message", "It rains.", {"citations": ["https://a.example"]}, **RAINS),
    gemini_row("two sources and two images", GROUNDED, source="https://a.example", **LOOK),
    *(
        openai_row(
            f"sources in {name}",
            chat(delta("It rains."), spent={}, last={**chunk(delta(finish="stop")), name: sources}, finish=None),
            {**completion(said("It rains.")), name: sources},
            own_form=True,
            **RAINS,
        )
        for name, sources in (
            ("search_results", [PAGE]),
            ("references", [PAGE]),
            ("web_search", [MAPPED]),
            ("search_info", {"search_results": [PAGE]}),
            ("venice_parameters", {"web_search_citations": [PAGE]}),
        )
    ),
    *(
        chat_row(
            f"sources in the message's {name}",
            {"index": 0, "delta": {name: sources}},
            delta("It rains."),
            whole={**said("It rains."), name: sources},
            own_form=True,
            **RAINS,
        )
        for name, sources in (
            ("context", {"citations": [PAGE]}),
            ("executed_tools", [RAN]),
            ("web_search_data", {"sources": [PAGE]}),
        )
    ),
    chat_row(
        "sources after the finish reason, and an empty list of them",
        delta("It rains."),
        last={**chunk(usage=usage(9, 2)), "citations": ["https://a.example"], "search_info": {"search_results": []}},
        own_form=True,
        **RAINS,
    ),
    chat_row(
        "citations in LiteLLM's own fields",
        delta("It rains."),
        delta("", provider_specific_fields={"citation": PAGE}),
        whole={**said("It rains."), "provider_specific_fields": {"citations": [[PAGE], None]}},
        own_form=True,
        **RAINS,
    ),
    chat_row(
        "images of Anthropic's and Gemini's kind",
        parts({**PICTURE, "source": {**PICTURE["source"], "data": "b3Ro"}}, {"inline_data": {"data": "aW1n"}}),
        whole={"role": "assistant", "content": [PICTURE]},
        image="aW1n",
    ),
    openai_row(
        "images in multi_mod_content",
        plain=beside({"content": "Look", "multi_mod_content": [{"text": "Look"}, {"inline_data": {"data": "aW1n"}}]}),
        own_form=True,
        **LOOK,
    ),
    openai_row(
        "a refusal and a source among the parts",
        plain=completion(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No"}, {"type": "tool_reference", **PAGE}]}
        ),
        text="No",
    ),
    fields_row("an image that is called audio (Vertex)", "Look", {"audio": DRAWN}, own_form=True, **LOOK),
    openai_row("speech next to its text", plain=completion({**said("Hi"), "audio": SPOKEN}), text="Hi"),
    chat_row(
        "reasoning in steps (Perplexity)",
        delta(reasoning_steps=STEPS),
        delta("Hi"),
        whole={**said("Hi"), "reasoning_steps": STEPS},
        **THOUGHT_HI,
    ),
    chat_row(
        "reasoning in details alone",
        delta(reasoning="", reasoning_details=DETAILS),
        delta("Hi"),
        whole={**said("Hi"), "reasoning": None, "reasoning_details": DETAILS},
        **THOUGHT_HI,
    ),
    *(
        chat_row(
            f"{name} in pieces",
            *({"index": 0, "delta": {"reasoning": letter, name: [{field: letter}]}} for letter in "Hm"),
            delta("Hi"),
            whole={**said("Hi"), "reasoning": "Hm", name: [{field: "Hm"}]},
            **THOUGHT_HI,
        )
        for name, field in (
            ("reasoning_details", "text"),
            ("reasoning_steps", "thought"),
            ("thinking_blocks", "thinking"),
        )
    ),
    gemini_row("a place on a map", LOCATED, marks=("upstream_extra=maps_requests:1",), **RAINS),
    gemini_row("a page that was read", READ, **RAINS),
]
ROWS = [*USAGE, *ENDS, *REASONING, *BLOCKS, *CALLS, *PARTS]
