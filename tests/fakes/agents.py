"""Agents: upstreams that let a client work in a loop of tool calls, and refuse what their vendors would refuse.

Each asks for a tool so often, then ends. It stands for a model that reasons, so it demands what the vendor demands of
such a conversation, and remembers what it has said: a client or gateway that loses or changes it gets status 400.
"""

import json
from abc import ABC, abstractmethod
from typing import Any

from tests.cases.anthropic import streams as claude
from tests.cases.gemini import streams as gemini
from tests.fakes.provider import Bill, Exchange
from tests.fakes.replies import DONE, chunk, delta, dumps, event, tool_call, usage, whole
from tests.fakes.wire import Gone

Doc = dict[str, Any]

FIRST_INPUT = 40
"""Tokens of the least prompt. The vendors count a quarter of the bytes."""
OUTPUT = 9


class Refusal(Exception):
    """The vendor's reason for status 400."""


class Agent(ABC):
    """What all of them have in common; a script for a ``Provider``."""

    def __init__(self, turns: int = 30, tool: str = "read", arguments: Doc | None = None, cut_at: int = -1) -> None:
        self.turns = turns
        self.tool = tool
        self.arguments = {"path": "a.txt"} if arguments is None else arguments
        self.cut_at = cut_at
        """The turn in which the connection breaks once, in the middle of the answer; -1: none."""
        self.refusals: list[str] = []
        self.turn = 0
        """Of the last request, counted by the results in it."""
        self.cached = 0
        """Tokens that were read from a cache, and all of the input."""
        self.input = 0

    async def __call__(self, exchange: Exchange) -> None:
        try:
            self.turn = self.check(exchange.json)
        except Refusal as refusal:
            self.refusals.append(str(refusal))
            error = {"message": str(refusal), "type": "invalid_request_error", "code": None, "param": None}
            await exchange.answer(dumps({"type": "error", "error": error}), status=400)
            return
        size, cached = max(FIRST_INPUT, self.size(exchange)), self.hits(exchange.json)
        self.input, self.cached = self.input + size, self.cached + cached
        exchange.bill = Bill(f"a{exchange.number}", size, OUTPUT)
        if not self.streams(exchange):
            await exchange.answer(self.plain(exchange.bill, cached))
            return
        await exchange.begin_stream()
        data = self.streamed(exchange.bill, cached)
        if self.turn == self.cut_at:
            self.cut_at = -1
            exchange.bill = None
            await exchange.piece(data[: 2 * len(data) // 3])
            exchange.socket.reset()
            raise Gone
        await exchange.piece(data)
        await exchange.finish()

    @property
    def ends(self) -> bool:
        """Whether this turn is the last one."""
        return self.turn >= self.turns

    @property
    def thought(self) -> str:
        """What is reasoned in this turn."""
        return _thought(self.turn)

    def streams(self, exchange: Exchange) -> bool:
        """Whether a stream is requested."""
        return bool(exchange.json.get("stream"))

    def size(self, exchange: Exchange) -> int:
        """Tokens of the request."""
        return len(exchange.body) // 4

    def hits(self, request: Doc) -> int:
        """Tokens of the request that are in a cache."""
        return 0

    @abstractmethod
    def check(self, request: Doc) -> int:
        """The number of results in the conversation. Raises Refusal."""

    @abstractmethod
    def plain(self, bill: Bill, cached: int) -> bytes:
        """The whole answer of this turn."""

    @abstractmethod
    def streamed(self, bill: Bill, cached: int) -> bytes:
        """The same as events."""


class DeepSeekAgent(Agent):
    """Refuses an assistant message without its ``reasoning_content`` once there are tools in the conversation."""

    def check(self, request: Doc) -> int:
        results = 0
        for i, message in enumerate(request["messages"]):
            results += message["role"] == "tool"
            calls = message.get("tool_calls") or ()
            if calls and message.get("reasoning_content") != _thought(int(calls[0]["id"].removeprefix("call_"))):
                raise Refusal(f"Missing `reasoning_content` field in the assistant message at message index {i}.")
        return results

    def plain(self, bill: Bill, cached: int) -> bytes:
        said: Doc = {"role": "assistant", "content": "All done." if self.ends else ""}
        if not self.ends:
            said |= {"reasoning_content": self.thought, "tool_calls": [self._call()]}
        done = {"index": 0, "message": said, "finish_reason": "stop" if self.ends else "tool_calls", "logprobs": None}
        return dumps(whole("m", done, id=bill.id, spent=usage(bill.input, bill.output)))

    def streamed(self, bill: Bill, cached: int) -> bytes:
        words = [delta("All done.")] if self.ends else [delta(reasoning_content=self.thought)]
        calls = [] if self.ends else [delta(tool_calls=[{**self._call(), "index": 0}])]
        last = [delta(finish="stop" if self.ends else "tool_calls")]
        said = [delta("", role="assistant"), *words, *calls, *last]
        chunks = [chunk(one, id=bill.id) for one in said]
        chunks.append(chunk(id=bill.id, usage=usage(bill.input, bill.output)))
        return b"".join(map(event, chunks)) + DONE

    def _call(self) -> Doc:
        made = tool_call(0, f"call_{self.turn:02}", self.tool, json.dumps(self.arguments))
        del made["index"]
        return made


class ClaudeAgent(Agent):
    """Thinks once, before its first call; refuses a loop that has lost that thought; caches what is marked."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.thinking: list[bool] = []
        """Of each request: whether it asked for thinking."""
        self._written: set[str] = set()

    def check(self, request: Doc) -> int:
        messages, blocks = request["messages"], _claude_blocks(request)
        if len([block for block in blocks if "cache_control" in block]) > 4:
            raise Refusal("A maximum of 4 blocks with cache_control may be provided.")
        self.thinking.append(request.get("thinking", {}).get("type") in ("enabled", "adaptive"))
        asked = [i for i, message in enumerate(messages) if _is_tried(message)]
        loop = messages[asked[-1] + 1 :]
        if self.thinking[-1] and loop and loop[0]["content"][0].get("signature") != "SIG":
            raise Refusal("Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
        return sum(block.get("type") == "tool_result" for block in blocks)

    def size(self, exchange: Exchange) -> int:
        return sum(map(len, _plain(_claude_blocks(exchange.json)))) // 4

    def hits(self, request: Doc) -> int:
        blocks = _claude_blocks(request)
        plain, marks = _plain(blocks), [i for i, block in enumerate(blocks) if "cache_control" in block]
        whole = ["".join(plain[: end + 1]) for end in range(len(blocks))]
        found = [
            len(whole[end]) // 4 for at in marks for end in range(at, max(-1, at - 20), -1) if self._has(whole[end])
        ]
        self._written |= {whole[at] for at in marks}
        return max(found, default=0)

    def plain(self, bill: Bill, cached: int) -> bytes:
        content: list[Doc] = [{"type": "text", "text": "All done."}]
        if not self.ends:
            content = [{"type": "tool_use", "id": self._id, "name": self.tool, "input": self.arguments}]
        if self._thinks:
            content.insert(0, {"type": "thinking", "thinking": self.thought, "signature": "SIG"})
        answer = {"id": bill.id, "type": "message", "role": "assistant", "content": content}
        reason = "end_turn" if self.ends else "tool_use"
        return dumps({**answer, "stop_reason": reason, "usage": self._usage(bill, cached)})

    def streamed(self, bill: Bill, cached: int) -> bytes:
        out = claude.start(self._usage(bill, cached), id=bill.id)
        out += claude.thinking(self.thought, "SIG") if self._thinks else b""
        index = int(self._thinks)
        if self.ends:
            return out + claude.text("All done.", index=index) + claude.end("end_turn", output_tokens=OUTPUT)
        call = claude.tool(self._id, self.tool, json.dumps(self.arguments), index=index)
        return out + call + claude.end("tool_use", output_tokens=OUTPUT)

    @property
    def _thinks(self) -> bool:
        return self.thinking[-1] and self.turn == 0

    @property
    def _id(self) -> str:
        return f"toolu_{self.turn:02}"

    def _has(self, text: str) -> bool:
        return text in self._written

    def _usage(self, bill: Bill, cached: int) -> Doc:
        fresh = bill.input - cached
        return {"input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": OUTPUT}


class GeminiAgent(Agent):
    """Refuses a call that comes back without its signature, and a result that is not one text."""

    def check(self, request: Doc) -> int:
        results = 0
        for content in request["contents"]:
            calls = [part for part in content["parts"] if "functionCall" in part]
            if calls and calls[0].get("thoughtSignature") != _signature(calls[0]["functionCall"]["id"]):
                raise Refusal("Function call is missing a thought_signature in functionCall parts.")
            for part in content["parts"]:
                if "functionResponse" in part:
                    results += 1
                    _refuse_odd_response(part["functionResponse"]["response"])
        return results

    def streams(self, exchange: Exchange) -> bool:
        return "stream" in exchange.path

    def plain(self, bill: Bill, cached: int) -> bytes:
        finish = gemini.response(self._part(), finish="STOP", **self._spent(bill))
        return dumps({**finish, "responseId": bill.id})

    def streamed(self, bill: Bill, cached: int) -> bytes:
        said = {**gemini.response(self._part(), **self._spent(bill)), "responseId": bill.id}
        return gemini.event(said) + gemini.event(gemini.response(finish="STOP", **self._spent(bill)))

    def _part(self) -> Doc:
        if self.ends:
            return gemini.say("All done.")
        return gemini.use(
            self.tool, self.arguments, id=f"fc_{self.turn:04}", signature=_signature(f"fc_{self.turn:04}")
        )

    def _spent(self, bill: Bill) -> Doc:
        return gemini.spent(bill.input, bill.output, totalTokenCount=bill.input + bill.output)


def _thought(turn: int) -> str:
    return f"I shall look {turn} times."


def _signature(call_id: str) -> str:
    return "U0lH" + call_id.removeprefix("fc_")


def _claude_blocks(request: Doc) -> list[Doc]:
    said = [block for message in request["messages"] for block in message["content"]]
    return [*request.get("tools", []), *request.get("system", []), *said]


def _plain(blocks: list[Doc]) -> list[str]:
    return [json.dumps({name: value for name, value in block.items() if name != "cache_control"}) for block in blocks]


def _is_tried(message: Doc) -> bool:
    """Whether a message is more than results."""
    return message["role"] == "user" and any(block["type"] != "tool_result" for block in message["content"])


def _refuse_odd_response(response: Doc) -> None:
    if set(response) not in ({"output"}, {"error"}) or not all(isinstance(text, str) for text in response.values()):
        raise Refusal(f"odd response {response}")
