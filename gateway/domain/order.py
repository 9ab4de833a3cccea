"""Order: what a client requests from a channel through any API, and the HTTP request that a channel makes of it."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.conversation import Conversation
from gateway.domain.screen import NO_SCREEN, Screen


class Order(msgspec.Struct, kw_only=True, gc=False):
    """What the client requests, in a form for every channel. Once it is complete, only its ``screen`` changes."""

    fields: dict[str, msgspec.Raw]
    """The top level of the client's JSON object, with unchanged values. For an adapter of a dialect it is a chat
    completion request without what is in ``conversation``; for a relay, a request of the client's own API."""
    conversation: Conversation | None = None
    """The conversation of a translated request."""
    body: bytes = b""
    """The whole object as received, for a channel that needs no change in it. If empty, the body is built."""
    model: str
    """The public name in the answer; after a fallback, the answering model's."""
    stream: bool = False
    include_usage: bool = False
    """Whether the client requested the usage chunk of a stream."""
    answer_id: str = "chatcmpl-0"
    """The answer's id if the upstream sends none: ``chatcmpl-`` and 24 hex digits."""
    created: int = 0
    """The answer's ``created`` if the upstream sends none, in seconds since the epoch."""
    removed: tuple[str, ...] = ()
    """The client's parameters that the channel's owner removes; see ``overrides``."""
    marks: tuple[str, ...] = ()
    """Marks for the record, such as those about repairs to the conversation."""
    output_budget: int | None = None
    """How many output tokens of all choices the hold pays for: the gateway's highest own limit; None for all."""
    strict_events: bool = False
    """Whether an unreadable event fails the stream; otherwise one such event is skipped."""
    owner: str = ""
    """The id of the client's token; empty if nothing of the answer is remembered."""
    screen: Screen = NO_SCREEN
    """The check of the answer for secrets. It is set when an answer has begun, because it depends on the channel."""
    forward: Mapping[str, str] = {}
    """The client's headers that a relay passes on."""
    query: str = ""
    """The client's query that a relay passes on."""
    input_hint: int = 0
    """The input tokens that a client gets before they are reported. It may be too small, but hardly too large."""
    clock: Callable[[], int] = int
    """Returns milliseconds since the epoch, for answers that say how long they took."""
    began: int = 0
    """When the request was received, by the same clock."""
    form: AnswerForm = AnswerForm()

    def body_with(self, fields: dict[str, msgspec.Raw]) -> bytes:
        """Returns a body with these fields: the client's own bytes if nothing changed."""
        return self.body if self.body and fields == self.fields else rawjson.encode(fields)

    @property
    def wants_one_choice(self) -> bool:
        """Returns whether the answer has one choice, so that whatever comes as several belongs to it."""
        return "prompt" not in self.fields and rawjson.maybe(self.fields.get("n")) in (None, 1)


class LearnedRefusals(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream recently refused for one model; see ``learned_params``."""

    dropped: tuple[str, ...] = ()
    """Names of fields to leave out, and of rules. An output limit gets its other name instead."""
    max_output: int | None = None
    """The model's own output limit, which the upstream named when it refused a higher one."""


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One HTTP request to an upstream, without the channel's key and headers, which the HTTP client adds."""

    url: str
    headers: dict[str, str]
    body: bytes
    dropped: tuple[str, ...] = ()
    """The client's parameters that were left out, for ``x-gateway-dropped-params``."""
    lowered_cap: int | None = None
    """The output limit that is sent, if model, hold or vendor changed the request's or the default."""
    more: tuple["PreparedRequest", ...] = ()
    """More requests, if the upstream does not accept everything at once. ``Adapter.whole`` gets an array of answers."""
