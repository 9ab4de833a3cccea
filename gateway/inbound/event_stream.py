"""EventStream: reads a streamed answer event by event, or several at once by a template.

Most events differ from the one before only in their text. Such events match a template, the bytes around the text, and
only their texts are looked at. It is learned from an event that was read in full and had nothing but one text: an event
with the same bytes around a valid JSON string would be read the same way.
"""

from abc import abstractmethod
from contextlib import suppress

import msgspec

from gateway.domain.answer import AnswerEvent, AnswerId, AnswerMark, AnswerPart, BlockKind, Piece, UsageSeen
from gateway.domain.channel import Channel
from gateway.domain.sse import BLANK, event_end, parse
from gateway.upstream.adapter import LATE_LIMIT, AnswerReader, AnswerStream
from gateway.upstream.answer_state import AnswerState

CONTENTLESS = (AnswerId, UsageSeen, AnswerMark)
"""The parts without content for the client."""
MAX_TEMPLATES = 12
"""How many templates may be learned in a row without a match before no more are learned."""
_TEXTS = msgspec.json.Decoder(list[str])
_FEW = 4
"""How many events are examined one by one before the rest of a read is examined as a whole."""


class Run(msgspec.Struct, frozen=True, gc=False):
    """Consecutive events that match a template."""

    out: bytes
    """What the client gets for them."""
    size: int
    """The number of bytes of the events as they came."""
    texts: list[bytes]
    """The JSON text of each event, without its quotes."""
    whole_text: str
    """All their texts, decoded and joined."""


class Template:
    """The bytes around an event's text, incoming and outgoing."""

    __slots__ = ("_foot", "_head", "_out_foot", "_out_head", "_out_joint", "_unchanged")

    def __init__(self, event: tuple[bytes, bytes], out: tuple[bytes, bytes]) -> None:
        """``event`` and ``out``: what precedes and follows the text, without the blank line."""
        self._head, self._foot = event[0], event[1] + BLANK
        self._out_head, self._out_foot = out[0], out[1] + BLANK
        self._out_joint = self._out_foot + self._out_head
        self._unchanged = event == out

    def run(self, events: bytes, start: int) -> Run | None:
        """Returns the events from ``start`` on that match, only the first if a later text is invalid; else None."""
        texts = self._texts(events, start)
        whole_text = _decode(texts)
        if whole_text is None:
            texts = texts[:1]
            whole_text = _decode(texts)
        if whole_text is None:
            return None
        size = sum(map(len, texts)) + len(texts) * (len(self._head) + len(self._foot))
        if self._unchanged:
            return Run(events[start : start + size], size, texts, whole_text)
        return Run(self._out_head + self._out_joint.join(texts) + self._out_foot, size, texts, whole_text)

    def _texts(self, events: bytes, start: int) -> list[bytes]:
        """Returns the texts of the events from ``start`` on that match."""
        head, foot, place = self._head, self._foot, start
        texts: list[bytes] = []
        while events.startswith(head, place):
            if len(texts) == _FEW and (others := self._many_texts(events, place)):
                return texts + others
            begin = place + len(head)
            end = events.find(b"\n", begin) + len(BLANK) - len(foot)
            if end < begin or not events.startswith(foot, end):
                break
            texts.append(events[begin:end])
            place = end + len(foot)
        return texts

    def _many_texts(self, events: bytes, start: int) -> list[bytes]:
        """Returns the texts of all events from ``start`` on, but the last ones of an answer; nothing if others differ.

        Every other line is blank. Splitting at them takes a third of the time of a search for each.
        """
        head, end = self._head, self._foot.removesuffix(BLANK)
        lines = events[start:].split(b"\n")[:-1:2]
        while lines and not (lines[-1].startswith(head) and lines[-1].endswith(end)):
            lines.pop()
        texts = [line[len(head) : -len(end)] for line in lines]
        matches = events.startswith(head + (self._foot + head).join(texts) + self._foot, start)
        return texts if matches else []


def _decode(texts: list[bytes]) -> str | None:
    """Returns the decoded texts, joined; None if one is invalid. They are decoded as one array, which is faster.

    A text with unescaped quotes of its own would add strings to the array, because a valid one has an even number.
    A text must not end in a backslash, which would escape the quote after it.
    """
    joined = b'","'.join(texts)
    if joined.find(b'\\","') >= 0 or joined.endswith(b"\\"):
        return None
    try:
        decoded = _TEXTS.decode(b'["%b"]' % joined)
    except ValueError:
        return None
    return "".join(decoded) if len(decoded) == len(texts) else None


def template_of(event: bytes, out: bytes, text: bytes) -> Template | None:
    """Returns the template of an event that was read in full; None if the place of its text is not certain.

    ``text`` is the JSON string with its quotes, ``out`` what the client got; they have no blank lines.
    """
    if len(text) < 3 or text[:1] != b'"' or event.count(text) != 1 or out.count(text) != 1:
        return None
    length = len(text) - 2
    begin, out_begin = event.find(text) + 1, out.find(text) + 1
    return Template((event[:begin], event[begin + length :]), (out[:out_begin], out[out_begin + length :]))


class EventStream(AnswerStream):
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
        """See ``AnswerStream``. The last event may lack its blank line."""
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
