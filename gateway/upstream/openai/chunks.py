"""The chunks of one streamed answer, from the upstream's form to the one that clients rely on.

Id, time and model are the same in all of them; chunks without choices are left out; usage is taken out and remembered.
In each choice the role comes once and first, the finish reason once and last, and tool calls are numbered; everything
else passes as it is.

An upstream that has sent status 200 can report a failure only in the body: errors inside of answers are found here.

Long: the steps from chunk to chunk share the state of choices.
"""

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BLANK
from gateway.domain.text import plain
from gateway.domain.usage import Usage
from gateway.upstream.adapter import Order, OutputCounter, as_object
from gateway.upstream.call_book import Arguments
from gateway.upstream.finish_words import finish_reason, is_broken, unknown_word
from gateway.upstream.openai.tool_calls import ToolCalls
from gateway.upstream.redaction.answers import Screen
from gateway.upstream.usage_report import UsageReports

TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
"""Fields that hold text."""


def normalize_texts(holder: Fields) -> None:
    """Content parts (Mistral) become strings; of two names for the same reasoning one is kept. Raises ValueError."""
    content = holder.get("content")
    if content is not None and bytes(memoryview(content)[:1]) in (b"[", b"{"):
        _join_parts(holder, content)
    if "reasoning" in holder and not rawjson.is_null(holder.get("reasoning_content")):
        del holder["reasoning"]
    details = holder.get("reasoning_details")
    if details is not None and all(rawjson.is_null(holder.get(name)) for name in ("reasoning", "reasoning_content")):
        _join_details(holder, details)


def _join_parts(holder: Fields, content: msgspec.Raw) -> None:
    texts: list[str] = []
    thoughts: list[str] = []
    found = rawjson.value(content)
    for part in found if isinstance(found, list) else [found]:
        if isinstance(part, dict) and part.get("type") == "thinking":
            thoughts.append(_text_of(part.get("thinking")))
        else:
            texts.append(_text_of(part))
    holder["content"] = rawjson.raw("".join(texts)) if texts or not thoughts else rawjson.NULL
    if thoughts:
        holder["reasoning_content"] = rawjson.raw("".join(thoughts))


def _join_details(holder: Fields, details: msgspec.Raw) -> None:
    """OpenRouter's details are reasoning, too, where nothing else is."""
    found = rawjson.maybe(details)
    parts = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
    texts = [part.get("text") or part.get("summary") for part in parts]
    said = "".join(text for text in texts if isinstance(text, str))
    if said:
        holder["reasoning_content"] = rawjson.raw(said)


def _text_of(part: object) -> str:
    if isinstance(part, list):
        return "".join(_text_of(item) for item in part)
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def count_texts(holder: Fields, tally: OutputCounter) -> list[msgspec.Raw]:
    """Adds the texts to the tally and returns those that are not empty. Raises ValueError when one is not a string."""
    found = []
    for name in TEXTS:
        value = holder.get(name)
        if value is None or rawjson.is_null(value):
            continue
        text = rawjson.text(value)
        if text:
            tally.add(text)
            found.append(value)
    return found


REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})


def native_reason(word: str, *, tools: bool) -> str:
    """The client's word for the upstream's: one of ``REASONS`` stays, but after tool calls ``stop`` means them."""
    if word in REASONS and not (tools and word == "stop"):
        return word
    return finish_reason(word, tools=tools)


_ASSISTANT = msgspec.Raw(b'"assistant"')


class StreamChoice:
    """The state of one choice, and the step from an upstream's chunk of it to the client's."""

    __slots__ = ("_begun", "_seed", "_tools", "broken", "finish", "in_arguments", "odd", "pattern", "turned")

    def __init__(self, seed: str) -> None:
        self._begun = False
        self._seed = seed
        self._tools: ToolCalls | None = None
        """Once there are any."""
        self.finish = ""
        """The client's finish_reason once there was one."""
        self.odd: tuple[str, ...] = ()
        """The mark of the upstream's word for it, if no table has that."""
        self.in_arguments = False
        """The last chunk had a piece of the arguments of a tool call."""
        self.pattern: msgspec.Raw | None = None
        """The only text of the last chunk, if nothing else happened in it: the next ones may be the same around it."""
        self.broken = ""
        """The finish reason that means a failure, if one came."""
        self.turned = False
        """The last chunk changed how later ones are handled."""

    @property
    def nameless(self) -> bool:
        """A piece of a tool call came that never got a name."""
        return self._tools is not None and self._tools.book.nameless

    @property
    def arguments(self) -> Arguments | None:
        """Those of the tool call of the last piece."""
        return None if self._tools is None else self._tools.last

    def end(self, word: str) -> str:
        """End the choice with a word, and return the client's."""
        self.finish = native_reason(word, tools=self._tools is not None and bool(self._tools))
        return self.finish

    def take(self, choice: Fields, tally: OutputCounter) -> bool:
        """Edits the chunk in place; False if nothing of it is left for the client. Raises ValueError if it is odd."""
        self.pattern, self.turned = None, False
        delta = choice.get("delta")
        fields = {} if delta is None or rawjson.is_null(delta) else rawjson.fields(delta)
        normalize_texts(fields)
        texts = count_texts(fields, tally)
        said, opened = self._take_tools(fields, tally)
        reason = rawjson.value(choice.get("finish_reason"))
        if isinstance(reason, str) and is_broken(reason):
            self.broken = str(reason)
            return False
        if self.finish and not (texts or said):
            return False
        first = self._take_role(fields)
        ended = self._take_finish(choice, reason)
        choice["delta"] = rawjson.raw(fields)
        choice.pop("usage", None)
        self.in_arguments = bool(said)
        texts += said
        self.turned = first or opened or ended
        if len(texts) == 1 and not (self.turned or self.finish):
            self.pattern = texts[0]
        return True

    def _take_role(self, delta: Fields) -> bool:
        if self._begun:
            delta.pop("role", None)
            return False
        delta.setdefault("content", rawjson.NULL)
        delta["role"] = _ASSISTANT
        self._begun = True
        return True

    def _take_tools(self, delta: Fields, tally: OutputCounter) -> tuple[list[msgspec.Raw], bool]:
        """Returns the pieces of arguments, and whether a call was opened."""
        legacy = delta.get("function_call")
        if legacy is not None and not rawjson.is_null(legacy):
            tally.add(bytes(legacy).decode("utf-8", "replace"))
            return [legacy], True
        raw = delta.pop("tool_calls", None)
        if raw is None or rawjson.is_null(raw):
            return [], False
        if self._tools is None:
            self._tools = ToolCalls(self._seed)
        calls = self._tools.take(raw, tally)
        if not calls:
            return [], False
        delta["tool_calls"] = rawjson.raw(calls)
        opened = len(calls) > 1 or "id" in calls[0]
        return [value for call in calls for value in _arguments(call)], opened

    def _take_finish(self, choice: Fields, reason: object) -> bool:
        if self.finish or not isinstance(reason, str) or not reason:
            choice["finish_reason"] = rawjson.NULL
            return False
        self.odd = unknown_word(reason)
        choice["finish_reason"] = rawjson.raw(self.end(reason))
        return True


def _arguments(call: Fields) -> list[msgspec.Raw]:
    inner = rawjson.fields(call["function"] if "function" in call else call["custom"])
    found = inner.get("arguments", inner.get("input"))
    return [found] if found is not None else [rawjson.NULL]


PATTERN_LIMIT = 256 << 10
"""Bytes of a text from which a template may be learned."""

ID_LIMIT = 200
"""Characters of an upstream's id; a longer one is replaced by ours."""

CHUNK = msgspec.Raw(b'"chat.completion.chunk"')
COMPLETION = msgspec.Raw(b'"chat.completion"')


def identity(answer: Fields, upstream_id: str, order: Order, kind: msgspec.Raw) -> Fields:
    """The upstream's id and time if they are good, else the order's; the model is always the requested one."""
    created = rawjson.value(answer.get("created"))
    good = isinstance(created, int) and not isinstance(created, bool) and created > 0
    return {
        "id": rawjson.raw(upstream_id if 0 < len(upstream_id) < ID_LIMIT else order.answer_id),
        "object": kind,
        "created": rawjson.raw(created if good else order.created),
        "model": rawjson.raw(order.model),
    }


def upstream_id(answer: Fields, screen: Screen) -> str:
    """The id the upstream gave, made harmless and cut to ``ID_LIMIT``; empty if there is none, or it shows a secret."""
    found = rawjson.value(answer.get("id"))
    if not isinstance(found, str) or screen.shows(found):
        return ""
    harmless = len(found) <= ID_LIMIT and found.isascii() and found.isprintable()
    return found if harmless else plain(found, ID_LIMIT)


class ChunkStep(msgspec.Struct, frozen=True):
    """What one chunk was turned into."""

    out: bytes
    """The client's JSON; empty if there is nothing in it for the client."""
    pattern: bytes
    """The only text of the chunk, a JSON string, if nothing else happened in it; else empty."""
    turned: bool
    """It changed how later chunks are handled."""
    broken: str
    """The finish reason that means a failure, if there was one."""
    arguments: Arguments | None = None
    """Those that the pattern is a piece of; None: it is another text."""


_QUIET = ChunkStep(b"", b"", turned=False, broken="")


class Chunks:
    """The state of one answer."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._choices: dict[int, StreamChoice] = {}
        self._head: Fields = {}
        """The client's id, object, created and model, fixed by the first chunk the client gets."""
        self.reports = UsageReports(order.fields)
        self.tally = OutputCounter()
        self.upstream_id = ""

    @property
    def begun(self) -> bool:
        """Whether there was a choice."""
        return bool(self._choices)

    @property
    def complete(self) -> bool:
        """Whether every choice has a finish reason."""
        return self.begun and all(choice.finish for choice in self._choices.values())

    @property
    def finish(self) -> str:
        """finish_reason of the first choice, or empty."""
        return next((choice.finish for choice in self._choices.values()), "")

    def take(self, chunk: Fields) -> ChunkStep:
        """The next chunk. Raises ValueError if it is none."""
        screen, raw = self._order.screen, chunk.get("choices")
        choices = [] if raw is None or rawjson.is_null(raw) else rawjson.objects(raw)
        self.reports.see(chunk)
        self.upstream_id = self.upstream_id or upstream_id(chunk, screen)
        kept, turned = [], False
        pattern: msgspec.Raw | None = None
        arguments: Arguments | None = None
        for position, choice in enumerate(choices):
            state = self._choice(choice, position)
            left = state.take(choice, self.tally)
            if state.broken:
                return ChunkStep(b"", b"", turned=True, broken=state.broken)
            turned = turned or state.turned
            if left:
                screen.clean(choice)
                kept.append(choice)
                pattern = state.pattern if len(memoryview(state.pattern or b"")) <= PATTERN_LIMIT else None
                arguments = state.arguments if state.in_arguments else None
            state.pattern = None  # it is a view, which would keep the whole event
        if not kept:
            return _QUIET
        single = len(choices) == 1 and not ({"timings", "x_groq"} & chunk.keys())
        quiet = rawjson.is_null(chunk.pop("usage", None)) and single
        chunk["choices"] = rawjson.raw(kept)
        del choices, choice, kept, raw  # of a large chunk no more copies are kept than needed
        self._head = self._head or identity(chunk, self.upstream_id, self._order, CHUNK)
        chunk.update(self._head)
        screen.clean(chunk)
        known = bytes(pattern or b"") if quiet else b""
        return ChunkStep(rawjson.encode(chunk), known, turned=turned, broken="", arguments=arguments)

    def see_error(self, data: bytes) -> None:
        """An error may carry the usage of what came before it."""
        found = rawjson.maybe(data)
        if isinstance(found, dict) and "usage" in found:
            self.reports.see({"usage": rawjson.raw(found["usage"])})

    def end_with(self, word: str) -> bytes:
        """The client's events that end every choice which has not ended, with this word."""
        open_choices = [(index, choice) for index, choice in self._choices.items() if not choice.finish]
        out = b""
        for index, choice in open_choices:
            last = {"index": index, "delta": {}, "logprobs": None, "finish_reason": choice.end(word)}
            out += b"data: " + rawjson.encode({**self._head, "choices": [last]}) + BLANK
        return out

    @property
    def marks(self) -> tuple[str, ...]:
        """Peculiarities for the record."""
        states = self._choices.values()
        odd = [mark for choice in states for mark in choice.odd]
        nameless = ["nameless_call"] if any(choice.nameless for choice in states) else []
        return tuple(dict.fromkeys([*odd, *nameless, *self.reports.marks]))

    def usage_chunk(self, usage: Usage, *, estimated: bool) -> bytes:
        """The client's last chunk, which has no choices."""
        sent = None if estimated else self.reports.as_sent()
        report = rawjson.raw(as_object(usage)) if sent is None else sent
        if self._order.screen.hides(report):
            report = rawjson.raw(as_object(usage))
        head = self._head or identity({}, self.upstream_id, self._order, CHUNK)
        return rawjson.encode({**head, "choices": [], "usage": report})

    def _choice(self, choice: Fields, position: int) -> StreamChoice:
        index = rawjson.value(choice.get("index"))
        if not isinstance(index, int) or isinstance(index, bool):
            index = position
            choice["index"] = rawjson.raw(index)
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = StreamChoice(f"{self._order.answer_id}/{index}")
        return state
