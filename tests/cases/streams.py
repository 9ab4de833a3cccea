"""Streams: what upstreams send for a stream request, and what it means. The shapes are those seen in the field."""

from dataclasses import dataclass, field
from typing import Any

from tests.cases.answers import Answer, Doc
from tests.fakes.replies import DONE, chunk, delta, event, tool_call, usage

ROLE = event(chunk(delta("", role="assistant")))
HI = event(chunk(delta("Hi")))
THERE = event(chunk(delta(" there")))
STOP = event(chunk(delta(finish="stop")))
GOOD = ROLE + HI + THERE + STOP + DONE
USAGE = event(chunk(usage=usage(9, 2)))
HI_THERE = Answer(text={0: "Hi there"}, finish={0: "stop"})


@dataclass(frozen=True)
class Case:
    """Upstream bytes and their meaning."""

    name: str
    came: bytes
    said: Answer = field(default_factory=lambda: HI_THERE)
    usage: tuple[int, int] | None = None
    """Input and output tokens reported."""
    error: str = ""
    """Code; empty if the answer is good."""
    marks: tuple[str, ...] = ()


def _says(text: str, finish: str | None = "stop", thought: str = "") -> Answer:
    return Answer(text={0: text}, reasoning={0: thought} if thought else {}, finish={0: finish} if finish else {})


def _raw(delta: str, more: str = "") -> bytes:
    """An event whose delta is written by hand."""
    head = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763500000,"model":"m","choices":'
    return f'data: {head}[{{"index":0,"delta":{delta}{more}}}]}}\n\n'.encode()


def _told(name: str, *middle: bytes, said: Answer = HI_THERE) -> Case:
    """Events between a good beginning and a good end."""
    return Case(name, b"".join((ROLE, *middle, STOP, DONE)), said)


def _last(name: str, choice: Doc, said: Answer = HI_THERE, *, used: bool = True, **more: Any) -> Case:
    """What the last chunk of a text may be like, with the usage in it or next to it."""
    return Case(name, ROLE + HI + THERE + event(chunk(choice, **more)) + DONE, said, (9, 2) if used else None)


FRAMES = [
    Case("plain", GOOD),
    Case("line ends CRLF", GOOD.replace(b"\n", b"\r\n")),
    Case("line ends CR", GOOD.replace(b"\n", b"\r")),
    Case("line ends mixed", ROLE.replace(b"\n", b"\r\n") + HI + THERE.replace(b"\n", b"\r") + STOP + DONE),
    Case("byte order mark", b"\xef\xbb\xbf" + GOOD),
    Case("blank lines first", b"\n\n\r\n" + GOOD),
    Case("no blank after data:", GOOD.replace(b"data: ", b"data:")),
    Case("names, ids and retries", b"retry: 3\n\n" + GOOD.replace(b"data: ", b"event: message\nid: 7\ndata: ")),
    Case("comments", b": PROCESSING\n\n:\n\n" + ROLE + b":\n\n" + HI + b": x\n" + THERE + STOP + DONE),
    Case("JSON over many lines", ROLE + HI.replace(b",", b",\ndata: ") + THERE + STOP + DONE),
    Case("blanks in the JSON", ROLE + HI.replace(b'":', b'" : ') + THERE + STOP + DONE),
    Case("blanks around [DONE]", GOOD.replace(DONE, b"data:  [DONE] \n\n")),
    Case("no [DONE]", ROLE + HI + THERE + STOP, marks=("no_done",)),
    Case("no last blank line", (ROLE + HI + THERE + STOP).rstrip(), marks=("no_done",)),
    Case("no blank line after [DONE]", GOOD.rstrip()),
    Case("more after [DONE]", GOOD + HI),
]

TEXTS = [
    Case("characters of many bytes", ROLE + _raw('{"content":"hé🙂\u2028"}') + STOP + DONE, _says("hé🙂\u2028")),
    Case(
        "half a pair in each of two events",
        ROLE + HI + _raw(r'{"content":"\ud83d"}') + _raw(r'{"content":"\ude42"}') + HI + STOP + DONE,
        _says("Hi\ud83d\ude42Hi"),
    ),
    Case("escapes", ROLE + HI + _raw(r'{"content":"\"\\\n\u0041\\"}') + STOP + DONE, _says('Hi"\\\nA\\')),
    _told("quotes that look like events", HI, _raw(r'{"content":"\"}}]}"}'), HI, said=_says('Hi"}}]}Hi')),
    Case("no role", HI + THERE + STOP + DONE),
    Case(
        "a role in every event",
        b"".join(event(chunk(delta(text, role="assistant"))) for text in ("Hi", " there"))
        + event(chunk(delta("", role="assistant", finish="stop")))
        + DONE,
    ),
    Case(
        "content null first",
        event(chunk(delta(role="assistant"))) + _raw('{"content":null}') + HI + THERE + STOP + DONE,
    ),
    Case("delta null", ROLE + HI + _raw("null") + THERE + STOP + DONE),
    Case("delta missing", ROLE + HI + b'data: {"choices":[{"index":0}]}\n\n' + THERE + STOP + DONE),
    Case("index missing", GOOD.replace(b'"index":0,', b"")),
    Case("id and time vary", ROLE + HI.replace(b"chatcmpl-1", b"x") + THERE.replace(b"1763500000", b"5") + STOP + DONE),
    Case(
        "Azure's first event",
        b'data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}\n\n' + GOOD,
    ),
    _told(
        "Mistral's parts",
        _raw(
            '{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},'
            '{"type":"text","text":"Hi there"}]}'
        ),
        said=_says("Hi there", thought="hm"),
    ),
    _told(
        "reasoning, by two names at once",
        _raw('{"reasoning_content":"a","reasoning":"a"}') + _raw('{"reasoning_content":"b"}') + HI + THERE,
        said=_says("Hi there", thought="ab"),
    ),
    _told(
        "reasoning, OpenRouter's name", _raw('{"reasoning":"a"}') * 2, HI, THERE, said=_says("Hi there", thought="aa")
    ),
    Case(
        "two choices",
        b"".join(event(chunk(delta(text, index=i))) for text, i in (("a", 0), ("x", 1), ("b", 0), ("y", 1)))
        + event(chunk(delta(finish="stop")))
        + event(chunk(delta(index=1, finish="length")))
        + DONE,
        Answer(text={0: "ab", 1: "xy"}, finish={0: "stop", 1: "length"}),
    ),
]

FINISHES = [
    _last(word, delta(finish=word), _says("Hi there", told), used=False)
    for word, told in (
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("time_limit", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "content_filter"),
    )
] + [
    Case(
        "a new word",
        ROLE + HI + THERE + event(chunk(delta(finish="whatever"))) + DONE,
        _says("Hi there", "stop"),
        marks=("unknown_finish_reason",),
    ),
    *(
        Case(word, ROLE + HI + event(chunk(delta(finish=word))) + DONE, _says("Hi", None), error="upstream_error")
        for word in ("USER_CANCEL", "abort")
    ),
    Case("left out next to the usage", ROLE + HI + THERE + USAGE + DONE, usage=(9, 2)),
    Case("empty word before", ROLE + HI + _raw('{"content":" there"}', ',"finish_reason":""') + STOP + DONE),
    Case("said twice", ROLE + HI + THERE + STOP + STOP + DONE),
    Case("empty delta after", ROLE + HI + THERE + STOP + _raw('{"content":""}') + DONE),
    Case("on the last text", ROLE + HI + event(chunk(delta(" there", finish="stop"))) + DONE),
    Case("never", ROLE + HI + THERE + DONE, _says("Hi there", None), error="upstream_stream_truncated"),
    Case(
        "empty word only",
        ROLE + HI + _raw("{}", ',"finish_reason":""') + DONE,
        _says("Hi", None),
        error="upstream_stream_truncated",
    ),
]


def _calls(*pieces: Doc, finish: str = "tool_calls", before: bytes = b"") -> bytes:
    deltas = b"".join(event(chunk(delta(tool_calls=[piece]))) for piece in pieces)
    return ROLE + before + deltas + event(chunk(delta(finish=finish))) + DONE


def _more(arguments: str, index: int | None = 0, **more: object) -> Doc:
    return {**({} if index is None else {"index": index}), "function": {"arguments": arguments}, **more}


def _called(*calls: tuple[str, str, str], text: str = "") -> Answer:
    return Answer(text={0: text}, calls={0: list(calls)}, finish={0: "tool_calls"})


ONE = tool_call(0, "a", "f", "")
TWO = tool_call(1, "b", "g", '{"y":2}')
X = ("a", "f", '{"x":1}')
Y = ("b", "g", '{"y":2}')
NAMELESS = {"name": "", "arguments": ":1}"}

TOOLS = [
    Case("split arguments", _calls(ONE, _more('{"x"'), _more(":1}")), _called(X)),
    Case("two, one after the other", _calls(ONE, _more('{"x":1}'), TWO), _called(X, Y)),
    Case("two, interleaved", _calls(ONE, TWO, _more('{"x"'), _more(":1}")), _called(X, Y)),
    Case("after text", _calls(ONE, _more('{"x":1}'), before=HI), _called(X, text="Hi")),
    Case("finish stop", _calls(ONE, _more('{"x":1}'), finish="stop"), _called(X)),
    Case("first index 1", _calls({**ONE, "index": 1}, _more('{"x":1}', 1)), _called(X)),
    Case(
        "no index, complete",
        _calls(*({k: v for k, v in c.items() if k != "index"} for c in (tool_call(0, "a", "f", '{"x":1}'), TWO))),
        _called(X, Y),
    ),
    Case(
        "no index, split",
        _calls({k: v for k, v in ONE.items() if k != "index"}, _more('{"x"', None), _more(":1}", None)),
        _called(X),
    ),
    Case(
        "index 0 for all, ids differ",
        _calls(tool_call(0, "a", "f", '{"x":1}'), tool_call(0, "b", "g", '{"y":2}')),
        _called(X, Y),
    ),
    Case("id repeated", _calls(ONE, _more('{"x"', id="a", type="function"), _more(":1}", id="a")), _called(X)),
    Case("id null, then empty", _calls(ONE, _more('{"x"', id=None, type=None), _more(":1}", id="")), _called(X)),
    Case("name repeated empty", _calls(ONE, _more('{"x"'), {"index": 0, "function": NAMELESS}), _called(X)),
    Case(
        "arguments null first",
        _calls({**ONE, "function": {"name": "f", "arguments": None}}, _more('{"x":1}')),
        _called(X),
    ),
    Case("arguments an object", _calls({**ONE, "function": {"name": "f", "arguments": {"x": 1}}}), _called(X)),
    Case("empty list of calls", ROLE + HI + _raw('{"content":" there","tool_calls":[]}') + STOP + DONE),
    Case("calls null", ROLE + HI + _raw('{"content":" there","tool_calls":null}') + STOP + DONE),
]

USAGES = [
    Case("asked for", GOOD.replace(DONE, USAGE + DONE), usage=(9, 2)),
    Case(
        "on every chunk",
        b"".join(
            event(chunk(d, usage=usage(9, i)))
            for i, d in enumerate((delta("Hi"), delta(" there"), delta(finish="stop")))
        )
        + DONE,
        usage=(9, 2),
    ),
    Case(
        "on the last chunk and once more",
        ROLE + HI + THERE + event(chunk(delta(finish="stop"), usage=usage(9, 2))) + USAGE + DONE,
        usage=(9, 2),
    ),
    Case(
        "null on the others",
        GOOD.replace(b'"choices"', b'"usage":null,"choices"').replace(DONE, USAGE + DONE),
        usage=(9, 2),
    ),
    _last("Groq's", delta(finish="stop"), x_groq={"id": "r", "usage": usage(9, 2)}),
    _last("Moonshot's", {**delta(finish="stop"), "usage": usage(9, 2)}),
    _last("llama.cpp's timings", delta(finish="stop"), timings={"cache_n": 4, "prompt_n": 5, "predicted_n": 2}),
    Case("choices null", GOOD.replace(DONE, USAGE.replace(b'"choices":[]', b'"choices":null') + DONE), usage=(9, 2)),
    Case("all zeros", GOOD.replace(DONE, event(chunk(usage=usage(0, 0))) + DONE)),
    Case("without [DONE]", ROLE + HI + THERE + STOP + USAGE, usage=(9, 2), marks=("no_done",)),
    Case(
        "not to be believed",
        GOOD.replace(DONE, event(chunk(usage={"prompt_tokens": 10**18, "completion_tokens": -1})) + DONE),
        marks=("suspect_usage",),
    ),
]

BAD = b'data: {"id": \n\n'
CUT = _says("Hi", None)
NOTHING = Answer()


def _cut(name: str, error: str, rest: bytes, marks: tuple[str, ...] = ()) -> Case:
    """What breaks an answer after its first word."""
    return Case(name, ROLE + HI + rest, CUT, error=error, marks=marks)


ERRORS = [
    Case("no finish at the end", ROLE + HI, CUT, error="upstream_stream_truncated"),
    _cut("half an event at the end", "upstream_stream_truncated", THERE[:-30]),
    _cut("Ollama's empty chunk", "upstream_stream_truncated", b'data: {"model":"","choices":[]}\n\n'),
    Case("nothing", b"", NOTHING, error="upstream_stream_truncated"),
    Case("only [DONE]", DONE, NOTHING, error="upstream_stream_truncated"),
    Case("bad JSON first", BAD + GOOD, NOTHING, error="upstream_bad_response", marks=("bad_chunks=1",)),
    _cut("bad JSON, then the end", "upstream_bad_response", BAD, marks=("bad_chunks=1",)),
    Case("bad JSON alone", ROLE + BAD + STOP + DONE, _says(""), error="upstream_bad_response", marks=("bad_chunks=1",)),
    Case("bad JSON, then good", ROLE + HI + BAD + THERE + STOP + DONE, marks=("bad_chunks=1",)),
    _cut("bad JSON twice", "upstream_bad_response", BAD + BAD + THERE + STOP + DONE, marks=("bad_chunks=2",)),
    Case("bad UTF-8", ROLE + HI + _raw('{"x":"?"}').replace(b"?", b"\xff") + THERE + STOP + DONE),
    Case(
        "bad UTF-8 in the text",
        ROLE + HI + HI.replace(b"Hi", b"\xff") + THERE + STOP + DONE,
        _says("Hi\N{REPLACEMENT CHARACTER} there"),
    ),
    Case("a quote too many", ROLE + HI + HI.replace(b"Hi", b'x","y') + THERE + STOP + DONE, marks=("bad_chunks=1",)),
    Case("a backslash too many", ROLE + HI + HI.replace(b"Hi", b"x\\") + THERE + STOP + DONE, marks=("bad_chunks=1",)),
    _cut(
        "two that mend each other",
        "upstream_bad_response",
        HI.replace(b"Hi", b"x\\") + HI.replace(b"Hi", b',"y') + STOP + DONE,
        marks=("bad_chunks=2",),
    ),
    Case("an array", ROLE + HI + b"data: [1]\n\n" + THERE + STOP + DONE, marks=("bad_chunks=1",)),
    _cut("error chunk", "upstream_error", b'data: {"error":{"message":"late","code":500}}\n\n' + THERE),
    _cut("error event", "upstream_error", b'event: error\ndata: {"error":{"message":"late"}}\n\n'),
    _cut("error event of words", "upstream_error", b"event: error\ndata: late\n\n"),
    _cut(
        "error beside choices",
        "upstream_error",
        event(chunk(delta(finish="error"), error={"message": "late", "code": 502})),
    ),
    _cut("error, then [DONE]", "upstream_error", b'data: {"error":{"message":"late"}}\n\n' + DONE),
    _cut("error without a wrap", "upstream_error", b'data: {"object":"error","message":"late"}\n\n'),
    _cut("error in an array", "upstream_overloaded", b'data: [{"error":{"message":"late","code":503}}]\n\n'),
    _cut("Groq's error", "upstream_error", b'data: {"x_groq":{"error":"late"}}\n\n'),
    Case(
        "error first", b'data: {"error":{"message":"slow down","code":429}}\n\n', NOTHING, error="upstream_rate_limited"
    ),
    _cut(
        "finish that means failure",
        "upstream_overloaded",
        event(chunk(delta(finish="insufficient_system_resource"))) + DONE,
    ),
    _cut("finish that means a lost network", "upstream_error", event(chunk(delta(finish="network_error"))) + DONE),
    _cut(
        "OpenRouter's stop of a provider that failed",
        "upstream_error",
        event(chunk({**delta(finish="stop"), "native_finish_reason": "network_error"})) + DONE,
    ),
    Case("a page", b"<html><title>Bad gateway</title></html>", NOTHING, error="upstream_bad_response"),
    Case("words", b"internal error", NOTHING, error="upstream_stream_truncated"),
]

_FILLER = (b'"object":"chat.completion.chunk",', b'"logprobs":null,')


def _short(came: bytes) -> bytes:
    """Every split is tried, so what no case is about is left out."""
    for filler in _FILLER:
        came = came.replace(filler, b"")
    return came


_GROUPS = {"frame": FRAMES, "text": TEXTS, "finish": FINISHES, "tools": TOOLS, "usage": USAGES, "error": ERRORS}

STREAMS = [
    Case(f"{group}: {case.name}", _short(case.came), case.said, case.usage, case.error, case.marks)
    for group, cases in _GROUPS.items()
    for case in cases
]
"""All of them, by unique names."""
