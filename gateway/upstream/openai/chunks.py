"""Chunks: the chunks of one streamed answer, from the upstream's form to the client's.

Id, time and model are the same in all of them; chunks without choices are left out; usage is taken out and remembered.
"""

import msgspec

from gateway.domain.usage import Usage
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order, as_object
from gateway.upstream.openai.choice import Choice
from gateway.upstream.openai.identity import CHUNK, identity, upstream_id
from gateway.upstream.rawjson import Fields
from gateway.upstream.reports import Reports
from gateway.upstream.tally import Tally


class Step(msgspec.Struct, frozen=True):
    """What became of one chunk."""

    out: bytes
    """The client's JSON; empty if there is nothing in it for the client."""
    pattern: bytes
    """The only text of the chunk, a JSON string, if nothing else happened in it; else empty."""
    turned: bool
    """It changed how later chunks are handled."""
    broken: str
    """The finish reason that means a failure, if there was one."""


_QUIET = Step(b"", b"", turned=False, broken="")


class Chunks:
    """The state of one answer."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._choices: dict[int, Choice] = {}
        self._head: Fields = {}
        """The client's id, object, created and model, fixed by the first chunk the client gets."""
        self.reports = Reports(order.fields)
        self.tally = Tally()
        self.upstream_id = ""

    @property
    def begun(self) -> bool:
        """Whether there was a choice."""
        return bool(self._choices)

    @property
    def complete(self) -> bool:
        """Whether every choice said why it ended."""
        return self.begun and all(choice.finish for choice in self._choices.values())

    @property
    def finish(self) -> str:
        """finish_reason of the first choice, or empty."""
        return next((choice.finish for choice in self._choices.values()), "")

    def take(self, chunk: Fields) -> Step:
        """The next chunk. Raises ValueError if it is none."""
        screen, raw = self._order.screen, chunk.get("choices")
        choices = [] if raw is None or rawjson.is_null(raw) else rawjson.objects(raw)
        self.reports.see(chunk)
        self.upstream_id = self.upstream_id or upstream_id(chunk, screen)
        kept, turned = [], False
        pattern: msgspec.Raw | None = None
        for position, choice in enumerate(choices):
            state = self._choice(choice, position)
            left = state.take(choice, self.tally)
            if state.broken:
                return Step(b"", b"", turned=True, broken=state.broken)
            turned = turned or state.turned
            if left:
                screen.clean(choice)
                kept.append(choice)
                pattern = state.pattern
        if not kept:
            return _QUIET
        single = len(choices) == 1 and not ({"timings", "x_groq"} & chunk.keys())
        quiet = rawjson.is_null(chunk.pop("usage", None)) and single
        chunk["choices"] = rawjson.raw(kept)
        self._head = self._head or identity(chunk, self.upstream_id, self._order, CHUNK)
        chunk.update(self._head)
        screen.clean(chunk)
        return Step(rawjson.encode(chunk), bytes(pattern or b"") if quiet else b"", turned=turned, broken="")

    def cut_short(self) -> list[bytes]:
        """The client's JSON that ends every choice which has not ended, as if the output limit were reached."""
        open_choices = [(index, choice) for index, choice in self._choices.items() if not choice.finish]
        out = []
        for index, choice in open_choices:
            choice.finish = "length"
            last = {"index": index, "delta": {}, "logprobs": None, "finish_reason": "length"}
            out.append(rawjson.encode({**self._head, "choices": [last]}))
        return out

    def usage_chunk(self, usage: Usage, *, estimated: bool) -> bytes:
        """The client's last chunk, which has no choices."""
        sent = None if estimated else self.reports.as_sent()
        report = rawjson.raw(as_object(usage, estimated=estimated)) if sent is None else sent
        if self._order.screen.hides(report):
            report = rawjson.raw(as_object(usage, estimated=estimated))
        head = self._head or identity({}, self.upstream_id, self._order, CHUNK)
        return rawjson.encode({**head, "choices": [], "usage": report})

    def _choice(self, choice: Fields, position: int) -> Choice:
        index = rawjson.value(choice.get("index"))
        if not isinstance(index, int) or isinstance(index, bool):
            index = position
            choice["index"] = rawjson.raw(index)
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = Choice(f"{self._order.answer_id}/{index}")
        return state
