"""InboundApi: what an inbound API has to provide. Each has its own package next to this file.

The rest of the gateway handles every API alike. It sees a request as an ``InboundRequest`` and an answer as the
``WholeAnswer`` or ``AnswerStream`` of an adapter. What differs between APIs is here: how a request is parsed, how a
channel is called and its answer written, and how errors, keep-alives and facts about the answer look. An implementation
is one value without state, and a row in ``v1.endpoints``; ``domain.addresses`` advises about addresses without a row.

A channel is called in one of two ways, which ``plan`` decides for each attempt. If the channel speaks the API, request
and answer pass unchanged (``relay``). Otherwise the request is read into a ``Conversation``, which the channel's
dialect writes, and the answer is read as events and rendered (``rendering``).

``Pipeline`` calls ``parse`` and ``order``, ``Attempts`` ``plan``, ``LiveCalls`` sends ``keep_alive``; the web server
writes the rest. Front ends do not see this package, so an API's smallest call is also in ``SAMPLES`` of
``client.connect_card``, and in ``TESTED`` of ``client.test_call`` if ``doctor --api`` should make test calls with it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import GatewayError
from gateway.domain.failure import Failure
from gateway.domain.json_text import count_braces
from gateway.domain.order import Order
from gateway.domain.output_limit import CHAT_CONTENT, MIN_OUTPUT, OutputLimit
from gateway.domain.prompt_size import InputBound, prompt_tokens
from gateway.domain.rawjson import Fields
from gateway.domain.units import CallId, Millis
from gateway.upstream.adapter import Adapter, AnswerStream, DialectAdapter

LARGE = 1 << 20
"""The size in bytes above which a body is parsed off the event loop."""
MAX_OBJECTS = 20_000
"""The maximum number of objects in a body that is parsed in the event loop. Each takes up to two microseconds."""
ANSWER_LIMIT = 64 << 20
"""The maximum size of a plain answer, in bytes, decompressed."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A client's request as it arrived."""

    body: bytes
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """The headers; names may be in any case."""
    repeats: Mapping[str, msgspec.Raw] = {}
    """Fields that the answer repeats, see ``AnswerForm``."""


class InboundRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request whose fields have been checked, and what its API's parser found in it."""

    body: bytes
    """The whole request as it was sent; empty if only ``fields`` may be used."""
    fields: Fields
    """The top-level fields as they were sent, except for lone surrogates."""
    model: str
    stream: bool = False
    include_usage: bool = True
    """Whether the client wants the usage at the end of a stream."""
    choices: int = 1
    output_cap: int | None = None
    """The client's own limit of output tokens per choice."""
    content: frozenset[str] = CHAT_CONTENT
    """Fields that the model reads. Nothing in them limits the output."""
    min_cap: int = 1
    """The smallest limit that the API accepts."""
    bound: InputBound
    """The maximum input, for the hold. The tokens of media depend on the model."""
    remote_input: bool = False
    """Whether there is input that only the upstream can count, because it keeps part of the conversation."""
    input_estimate: int | None = None
    """The estimated input tokens; None for a request that is not large. A large one is estimated when it is parsed, and
    all work on it is done off the event loop."""
    output_rule: Callable[[Fields, Channel, ServedModel], OutputLimit] | None = None
    """Returns the maximum output; None: ``dialects.chat_limit``, the rule of the channel's dialect for chats."""
    conversation_field: str = "messages"
    session: str = ""
    """The client's own name of the conversation; empty if it sent none."""
    continued_id: str = ""
    """The id of the answer that the request continues, which its upstream keeps; empty if it continues none."""
    lowered_cap: int | None = None
    """The output limit that replaced the client's, which the money left does not pay for."""
    removed: tuple[str, ...] = ()
    """Names of the client's fields without a counterpart in the API."""
    form: AnswerForm = AnswerForm()
    forward: Mapping[str, str] = {}
    """The client's headers for a channel that speaks the API. Names are in lower case."""
    query: str = ""
    """The part of the client's query for a channel that speaks the API."""

    @property
    def conversation(self) -> Fields:
        """Returns the turns of the conversation, where a chat completion request has them."""
        return {"messages": self.fields.get(self.conversation_field, rawjson.EMPTY_LIST)}

    @property
    def prompt_tokens(self) -> int:
        """Returns about how many input tokens the request has."""
        return prompt_tokens(self.fields) if self.input_estimate is None else self.input_estimate


class AttemptPlan(msgspec.Struct, frozen=True, gc=False):
    """How one attempt is made."""

    adapter: Adapter
    order: Order
    """The order for the adapter, with the overrides of the channel's owner."""
    native: bool
    """Whether the channel speaks the API."""
    repair: Callable[[Order, Failure], Order | None] | None = None
    """Returns the order for another call of the channel after a failure, or None. Unset: no call is repeated."""


class InboundApi(Protocol):
    """One API. Members with a default are the same for most APIs; a class that derives from this has them."""

    name: str
    stream_type: str = "text/event-stream; charset=utf-8"
    """The Content-Type of a streamed answer."""
    keep_alive: bytes = b": keep-alive\n\n"
    """What shows a client that its stream is alive; empty if the API has nothing for it."""
    id_headers: tuple[str, ...] = ("x-request-id",)
    """The response headers with the call's id."""
    id_prefix: str = "chatcmpl-"
    """The start of the gateway's own answer ids."""
    selective: bool = False
    """Whether some channels cannot answer; see ``obstacle``."""
    obstacle_code: str = "unsupported_parameter"
    """The code of the error if no channel can answer."""
    obstacle_param: str = "model"
    """The field that this error names."""
    falls_back: bool = True
    """Whether another model may answer when no channel can serve the requested one."""
    answer_limit: int = ANSWER_LIMIT
    sticky: bool = False
    """Whether a conversation stays at its channel, whatever its group says."""
    repeats_blindly: bool = False
    """Whether clients repeat a failed request at once, whatever the answer says; see ``RecentFailures``."""
    ability: str = ""
    """The part of the API that a channel may lack; empty if a channel lacks all of it or nothing."""
    caps: tuple[str, ...] = ()
    """Fields that limit the output of each choice."""

    def parse(self, request: HttpRequest) -> InboundRequest:
        """Returns a checked request. Raises BadRequest, whose ``param`` names the field at fault in the client's words.

        A body that ``is_large`` is parsed in a worker thread, by ``parse_large``.
        """

    def other_names(self, model: str) -> tuple[str, ...]:
        """Returns other names to try if the token sees no model of this name: some programs spell names differently."""
        return ()

    def with_limit(self, request: InboundRequest, limit: int) -> InboundRequest | None:
        """Returns the request with this lower output limit of each choice; None if it cannot have one.

        A thinking budget in Anthropic's words becomes so low that an answer still fits.
        """
        caps = {name: rawjson.maybe(request.fields.get(name)) for name in self.caps}
        fields = {name: rawjson.raw(limit) for name, cap in caps.items() if type(cap) is int and cap > limit}
        thinking = rawjson.maybe(request.fields.get("thinking"))
        budget = rawjson.at(thinking, "budget_tokens")
        if type(budget) is int and budget > limit - MIN_OUTPUT:
            if limit - MIN_OUTPUT < 1024:  # the least that the API takes
                return None
            fields["thinking"] = rawjson.raw({**thinking, "budget_tokens": limit - MIN_OUTPUT})
        if not fields:
            return None
        changed: Fields = {**request.fields, **fields}
        return msgspec.structs.replace(request, fields=changed, body=b"", output_cap=limit, lowered_cap=limit)

    def order(self, request: InboundRequest, call: CallId, ts: Millis) -> Order:
        """Returns the request that every attempt begins with, in the words of the API."""
        return Order(
            fields=request.fields,
            body=request.body,
            model=request.model,
            stream=request.stream,
            include_usage=request.include_usage,
            removed=request.removed,
            answer_id=self.id_prefix + call[-24:],
            created=ts // 1000,
            forward=request.forward,
            query=request.query,
            input_hint=request.bound.tokens * 6 // 10,  # clients see it before the input is reported: rather too few
            form=request.form,
        )

    def selects(self, request: InboundRequest) -> bool:
        """Returns whether some channels cannot answer this request."""
        return self.selective

    def keeps_answer(self, request: InboundRequest) -> bool:
        """Returns whether an upstream that speaks the API may keep the answer for later requests to continue."""
        return False

    def has_kinds(self, fields: Fields, kinds: Iterable[str]) -> bool:
        """Returns whether a request has a tool, an item or a model of these kinds; see ``Failure.refused_kinds``."""
        return False

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        """Returns why this channel cannot answer the request; empty if it can. Only called if the API ``selects``."""
        return ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        """Returns how to call this channel, with its owner's overrides. Raises BadRequest if that cannot be translated.

        ``order`` is what the method ``order`` returned, perhaps for another model. ``chat`` is the channel's dialect,
        which takes chat completions. ``lacks_api``: the channel was found to lack the API, see ``Failure.lacks_api``.
        It is called in a thread for a large request.
        """

    def keep_alive_for(self, stream: AnswerStream | None) -> bytes:
        """Returns what shows a client that its stream is alive: ``keep_alive``, or an event of this answer."""
        return self.keep_alive

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """Returns facts as a comment in a stream, which clients ignore; empty if the API has no comments."""
        return "".join([*(f": {name}: {value}\n" for name, value in facts.items()), "\n"]).encode()

    def status(self, error: GatewayError) -> int:
        return error.http_status

    def error_body(self, error: GatewayError, call: str) -> bytes:
        """Returns the body of an error that is sent instead of an answer. ``call`` is the call's id, possibly empty."""

    def broken_end(self, error: GatewayError, call: str, stream: AnswerStream | None = None) -> bytes:
        """Returns the last bytes of a broken stream. They may depend on ``stream``, which is None if nothing came."""


def is_large(body: bytes) -> bool:
    """Returns whether a body is parsed off the event loop.

    Long texts take little time, and agents send many of them, but objects and short values take long. Objects are
    counted, other short values and numbers only in samples of bodies above 256 KiB.
    """
    if len(body) <= MAX_OBJECTS:
        return False
    if len(body) > LARGE or count_braces(body) > MAX_OBJECTS:
        return True
    if len(body) <= 256 << 10:
        return False
    sample = b"".join([body[start : start + 256] for start in range(0, len(body), len(body) >> 5)])
    values = sum(map(sample.count, (b'",', b'{"', b"{},", b"],[", b"], [")))
    values -= sample.count(b'\\",')  # in texts, as in JSON that a tool returned
    return values > len(sample) // 100 or len(sample.translate(None, b"0123456789,")) < len(sample) // 2


def parse_large(api: InboundApi, request: HttpRequest) -> InboundRequest:
    """Returns a checked request with an estimate of its input tokens. It is too slow for the event loop's thread."""
    parsed = api.parse(request)
    return msgspec.structs.replace(parsed, input_estimate=parsed.prompt_tokens)
