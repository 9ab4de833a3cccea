"""OutputReader: reads OpenAI's responses, the events of a stream or a whole one, as parts of an answer.

The items of the output are distinguished by their place in it. What an item has at its end counts if no pieces of it
came, and so do the items of the last event, which some relays send alone. The reasoning before each call is remembered.
"""

from collections.abc import Iterator

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerFinished,
    AnswerId,
    AnswerMark,
    AnswerPart,
    BlockEnded,
    BlockKind,
    Medium,
    Piece,
    ToolCallPart,
    UsageSeen,
    url_citation,
)
from gateway.domain.channel import Channel
from gateway.domain.conversation import join_texts
from gateway.domain.failure import Failure
from gateway.domain.order import Order
from gateway.domain.rawjson import EMPTY_LIST, NULL, Fields
from gateway.domain.sse import SSEEvent
from gateway.upstream.adapter import AnswerReader
from gateway.upstream.answer_errors import failure_in, reported_failure
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.openai.contents import image_at
from gateway.upstream.openai.request import OPENAI_TOOLS
from gateway.upstream.openai.tool_calls import arguments_text, lenient_index, lenient_text

_PIECES = {
    "response.output_text.delta": BlockKind.TEXT,
    "response.refusal.delta": BlockKind.REFUSAL,
    "response.reasoning_summary_text.delta": BlockKind.REASONING,
    "response.reasoning_text.delta": BlockKind.REASONING,
    "response.reasoning.delta": BlockKind.REASONING,
}
"""The kinds of texts, by the types of their events."""
_WHOLE_TEXTS = {f"{name.removesuffix('delta')}done": kind for name, kind in _PIECES.items()}
"""The kinds of texts, by the types of the events that have the whole text."""
_PARTS = {"output_text": BlockKind.TEXT, "text": BlockKind.TEXT, "refusal": BlockKind.REFUSAL}
"""The kinds of texts, by the types of a message's parts."""
REPORTS = ("usage", "service_tier", "cost")
"""Fields of a response that tell what it costs."""
ENDS = {f"response.{status}": status for status in ("completed", "incomplete", "failed", "cancelled", "done")}
"""The statuses of responses by their last events. ``done`` is Realtime's, whatever the status."""
ERROR_EVENTS = ("error", "response.error")
COMMENTARY: Fields = {"phase": rawjson.raw("commentary")}
"""What is remembered of the texts before a call if the model calls them commentary."""
_GAP = rb'"\n\n"'
"""What is between the parts of a summary."""


def account_of(channel: Channel) -> str:
    """Returns what stands for the account that seals reasoning, of a channel that has only the key of the call."""
    return f"{channel.base_url} {channel.key}"


def stop_word(response: Fields, status: str, *, has_call: bool) -> str:
    """Returns why a response that has not failed ended, in the words of chat completions. ``status`` is the one
    in its event, which counts if the response has none.
    """
    if (rawjson.text_at(response.get("status")) or status) != "incomplete":
        return "tool_calls" if has_call else "stop"
    reason = rawjson.text_at(response.get("incomplete_details"), "reason")
    return "content_filter" if reason == "content_filter" else "length"


class ItemPlaces:
    """The places of the items of one stream, which some upstreams leave out, or give to each item alike."""

    def __init__(self) -> None:
        self.by_id: dict[str, int] = {}
        self._by_place: dict[int | None, int] = {}
        """By the places that the upstream wrote, of the items that had them last."""
        self._taken: set[int] = set()
        self._ended: set[int] = set()
        self._newest = -1

    def place_of(self, kind: str, fields: Fields, item: Fields) -> int:
        """Returns the place of the item that an event is about, by its id, or by its place: Copilot's ids change."""
        id = lenient_text(fields.get("item_id", item.get("id", item.get("call_id", NULL))))
        sent, is_end = lenient_index(fields.get("output_index")), kind == "response.output_item.done"
        place = self.by_id.get(id, self._by_place.get(sent, sent))
        is_start = kind == "response.output_item.added"
        begins = is_start or (is_end and (place is None or place in self._ended))
        if begins and (id not in self.by_id or (is_start and sent is not None and sent not in self._taken)):
            place = self._newest + 1 if sent is None or sent in self._taken else sent
            self._by_place[sent] = place
        if place is None:  # nothing begins: it is about the last item, or the response
            place = max(self._newest, 0)
        else:
            self._newest = max(self._newest, place)
            self._taken.add(place)
        if id:
            self.by_id[id] = place
        if is_end:
            self._ended.add(place)
        return place


class OutputReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    ends_blocks = True
    tool_rules = OPENAI_TOOLS

    def __init__(self, order: Order, channel: Channel, memory: CallMemory | None = None) -> None:
        """Without ``memory`` nothing is remembered."""
        self._order = order
        self._channel = channel
        self._memory = memory
        self._places = ItemPlaces()
        self._used: set[int] = set()
        """The numbers of all items whose beginning came."""
        self._begun: set[int] = set()
        """The items whose pieces came."""
        self._whole: set[int] = set()
        """The items whose texts came whole, without pieces before them."""
        self._ended: set[str] = set()
        """The ids of the items that ended; an empty one for an item that has none."""
        self._cited: dict[int, int] = {}
        """How many sources of an item came."""
        self._comments: set[int] = set()
        """The messages that are commentary."""
        self._comment = ""
        """The beginning of their text."""
        self._other_ids: set[str] = set()
        """The ids of hosted tools' items. OpenRouter streams an advisor's words as texts of its item."""
        self._held: list[Piece] = []
        """The pieces of an answer that repeats the commentary so far."""
        self._repeated = ""
        """The text of the held pieces."""
        self._call_count = 0
        """The number of calls that ended."""
        self._thoughts: list[Fields] = []
        """The sealed reasoning since the last call."""
        self._has_phases = False
        """Whether the model distinguishes its commentary from its answer."""

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        if event.data.strip() == b"[DONE]":
            return
        fields = rawjson.fields(event.data)
        kind = rawjson.text_at(fields.get("type")) or event.name.decode("utf-8", "replace")
        response = rawjson.maybe_fields(fields.get("response"))
        if kind in _PIECES:
            yield from self._add_text(_PIECES[kind], fields, self._places.place_of(kind, fields, {}))
        elif kind in ENDS:
            yield from self.end_response(response or fields, fields, ENDS[kind])  # some write it alone
        elif response:
            yield AnswerId(rawjson.text_at(response.get("id")), began=False)
            yield from _usage_of(response)
        elif kind in ERROR_EVENTS:
            self.failure = reported_failure(self._channel, event.data)
        elif kind.startswith("response."):
            yield from self._read_item_event(kind, fields)
        else:
            self.failure = failure_in(self._channel, fields, event=event.name)

    def _read_item_event(self, kind: str, fields: Fields) -> Iterator[AnswerPart]:
        item = rawjson.maybe_fields(fields.get("item"))
        number = self._places.place_of(kind, fields, item)
        match kind:
            case "response.function_call_arguments.delta" if number in self._used:  # else the name is not known
                if not rawjson.is_nothing(fields.get("delta", NULL)):
                    yield ToolCallPart(number, piece=arguments_text(fields["delta"]))
            case "response.reasoning_summary_part.added" if number in self._begun:
                yield Piece(BlockKind.REASONING, _GAP, number)
            case "response.output_text.annotation.added":
                yield from self._cite([fields.get("annotation", NULL)], number)
            case "response.output_item.added":
                self._used.add(number)
                self._note_item(item, number)
                yield from _name_call(item, number)
            case "response.function_call_arguments.done" if number in self._used:
                if not rawjson.is_null(fields.get("arguments")):  # else the item has them
                    yield _arguments_of(fields, number)
            case _ if kind in _WHOLE_TEXTS and (number not in self._begun or number in self._whole):
                self._whole.add(number)
                text = fields.get("text", fields.get("refusal", NULL))
                yield from self._add_text(_WHOLE_TEXTS[kind], {**fields, "delta": text}, number)
            case "response.output_item.done":
                yield from self._end_item(item, number)

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        response = rawjson.fields(body)
        if "output" in response:
            yield from self.end_response(response, {}, "completed")
        else:
            self.failure = failure_in(self._channel, response)
        if not (self.failure or self.done):
            raise ValueError("no response")

    def _add_text(self, kind: BlockKind, fields: Fields, number: int) -> Iterator[AnswerPart]:
        if self._other_ids and rawjson.text_at(fields.get("item_id")) in self._other_ids:
            return
        if not rawjson.is_nothing(fields.get("delta", NULL)) and rawjson.is_text(fields["delta"]):
            self._begun.add(number)
            probabilities = fields.get("logprobs", NULL) if kind is BlockKind.TEXT else NULL
            has_any = rawjson.is_list(probabilities) and not rawjson.is_nothing(probabilities)
            logprobs = bytes(probabilities) if has_any else b""
            yield from self._say(Piece(kind, bytes(fields["delta"]), number, logprobs=logprobs))

    def _note_item(self, item: Fields, number: int) -> None:
        id = rawjson.text_at(item.get("id"))
        if rawjson.text_at(item.get("type")) in ("", "message", "reasoning", "function_call"):
            self._other_ids.discard(id)
        elif id:
            self._other_ids.add(id)
        if rawjson.text_at(item.get("phase")) == "commentary":
            self._comments.add(number)
            self._has_phases = True

    def _say(self, piece: Piece) -> Iterator[AnswerPart]:
        """Yields a piece, but no text that repeats the commentary: GPT-5.4 may say all of it again as its answer."""
        if piece.kind is not BlockKind.TEXT or not self._comments:
            yield piece
        elif piece.number in self._comments:
            self._comment = (self._comment + rawjson.text(piece.piece))[: 64 << 10]
            yield piece
        else:
            self._held.append(piece)
            self._repeated += rawjson.text(piece.piece)
            yield from self._release(is_end=False)

    def _release(self, *, is_end: bool) -> Iterator[AnswerPart]:
        """Yields the held pieces after a gap, unless they repeat the commentary: its start, or at the end all of it."""
        held, comment = self._held, self._comment
        is_repeated = self._repeated == comment if is_end else comment.startswith(self._repeated)
        if is_end or not is_repeated:
            self._held, self._repeated = [], ""
            self._comments, self._comment = set(), ""
        if held and not is_repeated:
            yield from [Piece(BlockKind.TEXT, _GAP, held[0].number)] if comment else ()
            yield from held

    def _cite(self, annotations: list[msgspec.Raw], number: int) -> Iterator[AnswerPart]:
        for annotation in annotations:
            self._cited[number] = self._cited.get(number, 0) + 1
            citation = url_citation(rawjson.maybe(annotation))
            yield msgspec.structs.replace(citation, block=number) if citation else AnswerMark("citation_dropped")

    def _end_item(self, item: Fields, number: int) -> Iterator[AnswerPart]:
        """Yields what did not come in pieces, and the end of the item."""
        id = lenient_text(item.get("call_id")) or rawjson.text_at(item.get("id"))
        if id and id in self._ended:  # it came again
            return
        self._ended.add(id)
        is_new = number not in self._begun
        match rawjson.text_at(item.get("type")):
            case "message":
                yield from self._end_message(item, number, is_new=is_new)
            case "reasoning":
                yield from _thought_pieces(item, number) if is_new else ()
                if not rawjson.is_null(item.get("encrypted_content")):
                    kept = {name: item[name] for name in ("type", "encrypted_content")}
                    self._thoughts.append({**kept, "summary": item.get("summary", EMPTY_LIST)})
                yield BlockEnded(BlockKind.REASONING, number)
            case "function_call":
                self._call_count += 1
                self._remember(lenient_text(item.get("call_id")))
                yield from _name_call(item, number)
                if is_new:
                    yield _arguments_of(item, number)
                yield BlockEnded(BlockKind.TOOL_CALL, number)
            case "image_generation_call" if picture := rawjson.text_at(item.get("result")):
                image_format = rawjson.text_at(item.get("output_format")) or "png"
                is_url = picture.startswith(("http", "data:"))
                yield image_at(picture) if is_url else Medium(f"image/{image_format}", picture)
            case _:
                yield AnswerMark("block_dropped")

    def _end_message(self, item: Fields, number: int, *, is_new: bool) -> Iterator[AnswerPart]:
        self._note_item(item, number)
        parts = rawjson.maybe_objects(item.get("content")) or []
        for part in parts:
            name = rawjson.text_at(part.get("type"))
            text = part.get("refusal" if name == "refusal" else "text", NULL)
            if is_new and name in _PARTS and rawjson.is_text(text):
                yield from self._add_text(_PARTS[name], {**part, "delta": text}, number)
        yield from self._release(is_end=True) if self._held else ()
        annotations = [each for part in parts for each in rawjson.maybe_items(part.get("annotations"))]
        yield from self._cite(annotations[self._cited.get(number, 0) :], number)
        yield BlockEnded(BlockKind.TEXT, number)

    def _remember(self, call_id: str) -> None:
        """Remember the reasoning since the last call, by this one, and whether the texts before it are commentary."""
        kept = self._thoughts + [COMMENTARY] * self._has_phases
        if kept and self._memory is not None and self._order.owner:
            self._memory.remember(self._order.owner, call_id, rawjson.encode(kept), account_of(self._channel))
        self._thoughts = []

    def end_response(self, response: Fields, event: Fields, status: str) -> Iterator[AnswerPart]:
        """Yields the end of an answer. ``status`` is the one in its event."""
        yield from self._release(is_end=True)
        yield AnswerId(rawjson.text_at(response.get("id")), began=False)
        yield from _usage_of(event, response)
        self.failure = failure_of(response, event, status, self._channel)
        if self.failure is not None:
            return
        has_ends, output = bool(self._ended), response.get("output", NULL)
        items = [] if rawjson.is_null(output) else rawjson.objects(output)
        calls = [item for item in items if rawjson.text_at(item.get("type")) == "function_call"]
        lacks_calls = len(calls) > self._call_count  # their ends may be missing; vLLM gives calls other ids here
        for place, item in enumerate(items):
            if not has_ends or (lacks_calls and "call_id" in item):
                yield from self._end_item(item, self._places.by_id.get(rawjson.text_at(item.get("id")), place))
        if self._memory is not None:
            yield AnswerMark("as_response")
        yield AnswerFinished(stop_word(response, status, has_call=self._call_count > 0))
        self.done = True


def failure_of(response: Fields, event: Fields, status: str, channel: Channel) -> Failure | None:
    """Returns the failure of a response, whatever its event is called. ``status`` is the one in the event.

    Some upstreams write the error of a failed one next to it, and some an empty one. OpenRouter's code may be just
    ``server_error``, and its own type is next to the error.
    """
    has_failed = not {"failed", "cancelled"}.isdisjoint((status, rawjson.text_at(response.get("status"))))
    holders = (response, event) if has_failed else (response,)
    errors = [holder["error"] for holder in holders if rawjson.maybe(holder.get("error"))]
    if not (errors or has_failed):
        return None
    error = errors[0] if errors else rawjson.raw({"message": "it failed"})
    fields = rawjson.maybe_fields(error)
    if fields and "error_type" in response:
        is_vague = rawjson.text_at(fields.get("code")) == "server_error"
        names = ("error_type", "code") if is_vague else ("error_type",)
        error = rawjson.raw(fields | dict.fromkeys(names, response["error_type"]))
    return reported_failure(channel, rawjson.encode({"error": error}))


def _usage_of(*holders: Fields) -> Iterator[AnswerPart]:
    """Yields the usage in a response, or next to it, with what else tells the cost."""
    reports = {name: holder[name] for holder in holders for name in REPORTS if not rawjson.is_null(holder.get(name))}
    if "usage" in reports:
        yield UsageSeen(reports)


def _name_call(item: Fields, number: int) -> Iterator[AnswerPart]:
    """Yields the beginning of a call; nothing for another item."""
    if rawjson.text_at(item.get("type")) == "function_call":
        yield ToolCallPart(number, lenient_text(item.get("call_id")), lenient_text(item.get("name")))


def _arguments_of(holder: Fields, number: int) -> ToolCallPart:
    """Returns the whole arguments of a call, which an item or an event has."""
    is_empty = rawjson.is_nothing(holder.get("arguments", NULL))
    return ToolCallPart(number, piece=b'"{}"' if is_empty else arguments_text(holder["arguments"]), is_whole=True)


def _thought_pieces(item: Fields, number: int) -> Iterator[AnswerPart]:
    parts = [part for name in ("summary", "content") for part in rawjson.maybe_items(item.get(name))]
    texts = [text for part in parts if rawjson.is_text(text := rawjson.maybe_fields(part).get("text", NULL))]
    if texts:
        yield Piece(BlockKind.REASONING, bytes(join_texts(texts)), number)
