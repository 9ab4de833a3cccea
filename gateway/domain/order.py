"""Order: what a client asks of a channel, whichever API it speaks, and the HTTP request that a channel makes of it."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.domain.answer import USUAL_FORM, AnswerForm
from gateway.domain.channel import TokenLimitField
from gateway.domain.conversation import Conversation
from gateway.domain.screen import NO_SCREEN, Screen


class Order(msgspec.Struct, kw_only=True, gc=False):
    """What the client asked for, ready to be put to any channel. Nothing of it changes but its ``screen``."""

    fields: dict[str, msgspec.Raw]
    """The client's JSON object, top level only, values as they came: a chat completion request for the adapters of
    dialects, without what is in ``conversation``; a request in the words of its API for a relay."""
    conversation: Conversation | None = None
    """Of a translated request."""
    body: bytes = b""
    """The whole object as it came, for a channel that needs no change in it; empty: made from the rest."""
    model: str
    """The public name the answer carries; after a fallback that of the model that really answers."""
    stream: bool = False
    include_usage: bool = False
    """The client asked for the usage chunk of a stream."""
    answer_id: str = "chatcmpl-0"
    """The answer's id if the upstream gives none: ``chatcmpl-`` and 24 hex digits."""
    created: int = 0
    """The answer's ``created`` if the upstream gives none: seconds since the epoch."""
    removed: tuple[str, ...] = ()
    """Parameters of the client's that the channel's owner has taken out; see ``overrides``."""
    output_budget: int | None = None
    """Output tokens, of all choices together, that the hold pays for; None: all. It bounds what the gateway chooses."""
    strict_events: bool = False
    """A stream with an event that cannot be read fails; otherwise one such event is left out."""
    owner: str = ""
    """Id of the client's token, if a channel may put back what it has seen before; else empty."""
    screen: Screen = NO_SCREEN
    """What the answer passes on its way to the client. Set when an answer has come, for it belongs to the channel."""
    forward: Mapping[str, str] = {}
    """The client's headers that a relay sends along."""
    query: str = ""
    """The client's query that a relay sends along."""
    input_hint: int = 0
    """Input tokens to show a client before they are reported: rather too few."""
    clock: Callable[[], int] = int
    """The time in milliseconds since the epoch, for an API whose answers tell how long they took."""
    began: int = 0
    """When the request came, by the same clock."""
    form: AnswerForm = USUAL_FORM


class LearnedRefusals(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream refused lately for one model; see ``learned_params``."""

    dropped: tuple[str, ...] = ()
    """Top-level parameters to leave out."""
    token_limit_field: TokenLimitField | None = None
    """The name of the output limit it insisted on."""
    max_output: int | None = None
    """The model's own output limit, which it named when it refused a higher one."""


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One HTTP request to an upstream, except for the channel's key and own headers, which the client adds."""

    url: str
    headers: dict[str, str]
    body: bytes
    dropped: tuple[str, ...] = ()
    """Parameters of the client that were left out, for ``x-gateway-dropped-params``."""
    lowered: int | None = None
    """The output limit that is sent, if it is lower than the request's or the usual one: the model's, or the hold's."""
    more: tuple["PreparedRequest", ...] = ()
    """Requests that follow, where the upstream accepts no more at once. ``Adapter.whole`` gets an array of answers."""
