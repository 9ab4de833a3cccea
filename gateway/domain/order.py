"""Order: what a client wants from a channel, whatever its API, and the HTTP request that a channel makes of it."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.domain.answer import DEFAULT_FORM, AnswerForm
from gateway.domain.channel import TokenLimitField
from gateway.domain.conversation import Conversation
from gateway.domain.screen import NO_SCREEN, Screen


class Order(msgspec.Struct, kw_only=True, gc=False):
    """What the client wants, ready for any channel. Only its ``screen`` changes."""

    fields: dict[str, msgspec.Raw]
    """The client's JSON object, top level only, with unchanged values: a chat completion request for the dialects'
    adapters, without what is in ``conversation``; for a relay, a request in the words of its API."""
    conversation: Conversation | None = None
    """The conversation of a translated request."""
    body: bytes = b""
    """The whole object as it came, for a channel that needs no change in it; empty: built from the rest."""
    model: str
    """The public name in the answer; after a fallback that of the model that answers."""
    stream: bool = False
    include_usage: bool = False
    """Whether the client wants the usage chunk of a stream."""
    answer_id: str = "chatcmpl-0"
    """The answer's id if the upstream sends none: ``chatcmpl-`` and 24 hex digits."""
    created: int = 0
    """The answer's ``created`` if the upstream sends none: seconds since the epoch."""
    removed: tuple[str, ...] = ()
    """The client's parameters that the channel's owner removes; see ``overrides``."""
    output_budget: int | None = None
    """The output tokens of all choices that the hold pays for; None: all. It limits what the gateway chooses."""
    strict_events: bool = False
    """Whether an unreadable event fails the stream; otherwise one such event is left out."""
    owner: str = ""
    """The id of the client's token, if a channel may add what it has seen before; else empty."""
    screen: Screen = NO_SCREEN
    """The check for secrets on the answer's way to the client. Set when an answer has come, because it belongs to the
    channel."""
    forward: Mapping[str, str] = {}
    """The client's headers that a relay sends along."""
    query: str = ""
    """The client's query that a relay sends along."""
    input_hint: int = 0
    """Input tokens to show a client before they are reported: rather too few."""
    clock: Callable[[], int] = int
    """Returns milliseconds since the epoch, for an API whose answers say how long they took."""
    began: int = 0
    """When the request came, by the same clock."""
    form: AnswerForm = DEFAULT_FORM


class LearnedRefusals(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream recently refused for one model; see ``learned_params``."""

    dropped: tuple[str, ...] = ()
    """Top-level parameters to leave out."""
    token_limit_field: TokenLimitField | None = None
    """The name of the output limit that it insists on."""
    max_output: int | None = None
    """The model's own output limit, which it named when it refused a higher one."""


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One HTTP request to an upstream, without the channel's key and own headers, which the client adds."""

    url: str
    headers: dict[str, str]
    body: bytes
    dropped: tuple[str, ...] = ()
    """The client's parameters that were left out, for ``x-gateway-dropped-params``."""
    lowered: int | None = None
    """The output limit that is sent, if it is lower than the request's or the default: the model's, or the hold's."""
    more: tuple["PreparedRequest", ...] = ()
    """Further requests, if the upstream accepts no more at once. ``Adapter.whole`` gets an array of answers."""
