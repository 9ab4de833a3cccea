"""Rendering: answers of any adapter in the form of a further API, by its ``Renderer`` (see ``events``).

Everything else about an answer (whether it is complete, what it used, why it failed) stays what the adapter says: an
answer is worth the same money by whichever API it is called for.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.long_strings import Buffer
from gateway.domain.usage import Usage
from gateway.inbound.events import AnswerEvent, ChatReader, Renderer
from gateway.upstream.adapter import (
    Adapter,
    AnswerStream,
    Failure,
    LearnedRefusals,
    Order,
    OutputCounter,
    PreparedRequest,
    WholeAnswer,
)


class AnswerSource(Protocol):
    """What knows the facts of an answer: the stream of another adapter, or a reader of its events."""

    tally: OutputCounter

    @property
    def reported(self) -> Usage | None:
        """See ``adapter.AnswerStream``, as for the others."""

    @property
    def finish(self) -> str:
        """A ``finish_reason`` of chat completions, or empty."""

    @property
    def upstream_id(self) -> str:
        """The answer's id at the upstream, or empty."""

    @property
    def marks(self) -> tuple[str, ...]:
        """For the record."""


class SourcedStream:
    """The part of ``adapter.AnswerStream`` that comes from a source, and the state at the beginning."""

    def __init__(self, source: AnswerSource) -> None:
        self._source = source
        self.tally = source.tally
        self.started = False
        self.finished = False
        self.failure: Failure | None = None
        self.events = 0
        self.comments = 0
        self.held = 0

    @property
    def reported(self) -> Usage | None:
        """See ``adapter.AnswerStream``."""
        return self._source.reported

    @property
    def finish(self) -> str:
        """See ``adapter.AnswerStream``."""
        return self._source.finish

    @property
    def upstream_id(self) -> str:
        """See ``adapter.AnswerStream``."""
        return self._source.upstream_id

    @property
    def marks(self) -> tuple[str, ...]:
        """See ``adapter.AnswerStream``."""
        return self._source.marks


class RenderedStream(SourcedStream):
    """A streamed answer of any adapter in the form of an API. Implements ``adapter.AnswerStream``."""

    def __init__(self, chat: AnswerStream, order: Order, renderer: Renderer) -> None:
        super().__init__(chat)
        self._chat = chat
        self._reader = ChatReader(order)
        self.renderer = renderer

    def feed(self, data: bytes) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._render(self._chat.feed(data))

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._render(self._chat.end())

    def cut_short(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._render(self._chat.cut_short())

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self.renderer.tail(usage, estimated=estimated)

    def _render(self, chat: bytes) -> bytes:
        stream = self._chat
        self.started, self.finished, self.failure = stream.started, stream.finished, stream.failure
        self.events, self.comments, self.held = stream.events, stream.comments, stream.held
        if not chat:
            return b""
        take = self.renderer.take
        return b"".join([take(event) for event in self._reader.read(chat, stream.reported)])


class RenderedWhole(WholeAnswer, frozen=True, kw_only=True, gc=False):
    """A whole answer in the form of an API; ``body`` is the chat completion that it is made of."""

    render: Callable[[Usage], bytes]

    def parts(self, usage: Usage) -> tuple[Buffer, ...]:
        """See ``WholeAnswer``."""
        return (self.render(usage),)


WholeRenderer = Callable[[Order, Channel, list[AnswerEvent]], Callable[[Usage], bytes]]
"""Of the events of a whole answer, what writes it once its usage is known. Raises AttemptFailed if it cannot be."""


class RenderingAdapter:
    """An adapter whose answers are rendered. Implements ``adapter.Adapter``; its orders are chat completions."""

    def __init__(self, chat: Adapter, renderer: Callable[[Order], Renderer], whole: WholeRenderer) -> None:
        self._chat = chat
        self._renderer = renderer
        self._whole = whole

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``adapter.Adapter``."""
        return self._chat.prepare(order, channel, served, learned)

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``adapter.Adapter``."""
        return self._chat.recalled(fields)

    def stream(self, order: Order, channel: Channel) -> RenderedStream:
        """See ``adapter.Adapter``."""
        return RenderedStream(self._chat.stream(order, channel), order, self._renderer(order))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``."""
        chat = self._chat.whole(body, order, channel)
        render = self._whole(order, channel, list(ChatReader(order).read_whole(chat.body)))
        return RenderedWhole(
            body=chat.body,
            reported=chat.reported,
            finish=chat.finish,
            upstream_id=chat.upstream_id,
            tally=chat.tally,
            marks=chat.marks,
            render=render,
        )

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``adapter.Adapter``."""
        return self._chat.failure(channel, status, headers, body)
