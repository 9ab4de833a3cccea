"""Same: one answer with two tool calls, plain and streamed, in every dialect."""

from gateway.domain.channel import Dialect
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, tool_call, usage, whole

_CALLS = [tool_call(0, "c1", "locate", '{"hint":"a"}'), tool_call(1, "c2", "weather", '{"city":"b"}')]
_SPENT = usage(30, 7)
_MESSAGE = {"id": "x1", "type": "message", "role": "assistant", "stop_reason": "tool_use"}
_USES = [
    {"type": "tool_use", "id": "c1", "name": "locate", "input": {"hint": "a"}},
    {"type": "tool_use", "id": "c2", "name": "weather", "input": {"city": "b"}},
]
_PARTS = [gemini.say("I look."), gemini.use("locate", {"hint": "a"}, "c1"), gemini.use("weather", {"city": "b"}, "c2")]
PLAIN: dict[Dialect, bytes] = {
    Dialect.OPENAI: dumps(whole("m", choice("I look.", finish="tool_calls", tool_calls=_CALLS), id="x1", spent=_SPENT)),
    Dialect.ANTHROPIC: dumps(
        {
            **_MESSAGE,
            "content": [{"type": "text", "text": "I look."}, *_USES],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 7},
        }
    ),
    Dialect.GEMINI: dumps(gemini.response(*_PARTS, finish="STOP", **gemini.spent(30, 7), responseId="x1")),
}
STREAMED: dict[Dialect, bytes] = {
    Dialect.OPENAI: b"".join(
        event(piece)
        for piece in (
            chunk(delta("I look.", role="assistant"), id="x1"),
            chunk(delta(tool_calls=_CALLS), id="x1"),
            chunk(delta(finish="tool_calls"), id="x1"),
            chunk(id="x1", usage=_SPENT),
        )
    )
    + DONE,
    Dialect.ANTHROPIC: anthropic.start({"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 1}, id="x1")
    + anthropic.text("I ", "look.")
    + anthropic.tool("c1", "locate", '{"hint":', '"a"}')
    + anthropic.tool("c2", "weather", '{"city":"b"}', index=2)
    + anthropic.end("tool_use"),
    Dialect.GEMINI: gemini.event(gemini.response(_PARTS[0], **gemini.spent(30, 2), responseId="x1"))
    + gemini.event(gemini.response(_PARTS[1], responseId="x1"))
    + gemini.event(gemini.response(_PARTS[2], finish="STOP", **gemini.spent(30, 7), responseId="x1")),
}
