"""EventStream: reads a streamed answer event by event, or several at once by a template.

Most events differ from the one before only in their text. Such events match a template, which is learned from one that
was read in full, and only their texts are looked at.
"""

from abc import abstractmethod
from contextlib import suppress

from gateway.domain.answer import AnswerEvent, AnswerId, AnswerMark, AnswerPart, BlockKind, Piece, UsageSeen
from gateway.domain.channel import Channel
from gateway.domain.sse import BLANK, event_end, parse
from gateway.upstream.adapter import AnswerReader
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.framing import LATE_LIMIT, FramedStream
from gateway.upstream.openai.template import Run, Template, template_of

CONTENTLESS = (AnswerId, UsageSeen, AnswerMark)
"""The parts without content for the client."""
MAX_TEMPLATES = 12
"""How many templates may be learned in a row without a match before no more are learned."""


class EventStream(FramedStream):
    """A streamed answer that is read by a dialect's reader."""

    def __init__(self, channel: Channel, reader: AnswerReader, state: AnswerState) -> None:
        super().__init__(channel)
        self._reader = reader
        self.state = state
        self._contents: list[tuple[AnswerPart, list[AnswerEvent]]] = []
        """The parts with content in the last event, each with its events; at most two are kept."""
        self._template: Template | None = None
        self._templates_left = MAX_TEMPLATES

    def _read_events(self, block: bytes) -> bytes:
        """See ``FramedStream``. The last event may lack its blank line."""
        out: list[bytes] = []
        start = 0
        while start < len(block) and not (self.failure or self.finished):
            run = None if self._template is None else self._template.run(block, start)
            written = None if run is None else self._take_run(run)
            if run is None or written is None:
                end = event_end(block, start, has_returns=False)
                out.append(self._open_event(block[start:end].rstrip(b"\n")))
            else:
                end = start + run.size
                self.events += len(run.texts)
                self.state.tally.add(run.whole_text)
                self._templates_left = MAX_TEMPLATES
                if run.size == len(block):  # one event, as most upstreams send them
                    return written
                out.append(written)
            start = end
        if self.finished and start < len(block):
            self._take_late_usage(block[start:])
        return b"".join(out)

    @abstractmethod
    def _take_run(self, run: Run) -> bytes | None:
        """Returns what the client gets for events that match the template; None if they have to be read."""

    @abstractmethod
    def _read_event(self, part: bytes) -> bytes:
        """Returns what the client gets for one event, given without its blank line."""

    def _open_event(self, part: bytes) -> bytes:
        """Returns what the client gets for one event. A template may be learned from it."""
        out = self._read_event(part)
        if self._contents:  # an event without content, such as a comment or a usage, leaves the template as it is
            self._template = None
        text = self._only_text() if self._templates_left else b""
        self._contents.clear()  # they may be as large as the event, and the client may be slow
        if text:
            self._templates_left -= 1
            self._template = template_of(part, out.removesuffix(BLANK), text)
        return out

    def _only_text(self) -> bytes:
        """Returns the text of the last event, if it has nothing else and similar events can follow; else empty."""
        if [len(events) for _, events in self._contents] != [1]:
            return b""
        part, (event,) = self._contents[0]
        if not isinstance(event, Piece) or self.state.reason(event.choice) or len(event.piece) > 256 << 10:
            return b""
        return event.piece if self._may_repeat(part, event) else b""

    def _may_repeat(self, part: AnswerPart, event: Piece) -> bool:
        """Returns whether events with other texts than this one can be taken without being read."""
        is_text = event.kind is BlockKind.TEXT and not (event.choice or event.logprobs)
        return is_text and self._reader.reads_alike

    def _note(self, part: AnswerPart, events: list[AnswerEvent]) -> None:
        """Note what has to be known of a part once its event was read."""
        if len(self._contents) < 2 and not isinstance(part, CONTENTLESS):  # whether there are more does not matter
            self._contents.append((part, events))

    def _take_late_usage(self, events: bytes) -> None:
        """Take reports of usage that follow the end of the answer."""
        for event in map(parse, events.split(BLANK)):
            with suppress(ValueError):
                for part in self._reader.read(event) if event is not None and len(event.data) <= LATE_LIMIT else ():
                    if isinstance(part, UsageSeen):
                        self.state.add(part)
