"""Translation: what the dialects that write translated requests share: parameters, and the names of tools.

A dialect takes parameters one by one. The client is told which ones were not taken, so no list of parameters without a
counterpart is needed. A request that a dialect cannot express is refused before anything is sent. Parameters have the
names of chat completions; errors and what is left out have the client's own names.

A tool's name that is valid at the vendor stays as it is. In any other name, invalid characters are replaced, and a
digest of the original is appended, so that two names never become one, and a name always becomes the same one.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.conversation import Conversation, MediaPart, ToolChoice, ToolOffer
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.rawjson import NULL, is_nothing
from gateway.domain.text import plain
from gateway.domain.typed_json import read_optional
from gateway.upstream.answer_formats import ResponseFormat
from gateway.upstream.efforts import refuses_force
from gateway.upstream.request_rules import fit_request

T = TypeVar("T")

_TEXT_OR_TEXTS: Any = list[str] | str


class Parameters:
    """The parameters of a request, to be taken one by one."""

    def __init__(self, order: Order, learned: LearnedRefusals) -> None:
        """Parameters that the upstream is known to refuse are left out."""
        self.conversation = conversation_of(order)
        self._fields, self._dropped = fit_request(order.fields, learned.dropped)
        for name in ("model", "stream", "stream_options", "usage"):  # written from the order
            self._fields.pop(name, None)
        choice, refused = self.conversation.choice, learned.dropped
        if choice.mode and ("tool_choice" in refused or (choice.forced and refuses_force(order.fields, refused))):
            self.conversation = msgspec.structs.replace(self.conversation, choice=ToolChoice())
            self.drop("tool_choice")

    def take_raw(self, name: str) -> msgspec.Raw:
        """Returns a parameter as it came; null if it is missing."""
        return self._fields.pop(name, NULL)

    def take(self, name: str, kind: Callable[..., T]) -> T | None:
        """Returns a parameter of this type; None if it is missing. Raises BadRequest for another type."""
        raw = self._fields.pop(name, None)
        if raw is None:
            return None
        return read_optional(kind, raw, self._client_name(name))

    def drop(self, *names: str) -> None:
        """Mark taken parameters as left out after all."""
        self._dropped += names

    def refusal(self, name: str, reason: str) -> BadRequest:
        """Returns the error for a parameter that cannot be left out without changing the answer."""
        return unsupported_param(self._client_name(name), reason)

    def _client_name(self, name: str) -> str:
        return self.conversation.param_names.get(name, name)

    @property
    def dropped_names(self) -> tuple[str, ...]:
        """Returns the client's names of all parameters that were not taken, or dropped."""
        not_taken = (name for name, raw in self._fields.items() if not is_nothing(raw))
        names = filter(None, map(self._client_name, (*self._dropped, *not_taken)))
        return tuple(dict.fromkeys((*names, *self.conversation.extras)))

    def take_output_cap(self) -> int | None:
        """Returns the output limit. If there are two, the one with the newer name counts."""
        new, old = (self.take(name, int) for name in ("max_completion_tokens", "max_tokens"))
        return old if new is None else new

    def take_stops(self, is_valid: Callable[[str], object], limit: int | None = None) -> list[str]:
        """Returns the valid stop sequences, at most ``limit``."""
        value: list[str] | str | None = self.take("stop", _TEXT_OR_TEXTS)
        stops = [value] if isinstance(value, str) else value or []
        valid = [stop for stop in stops if is_valid(stop)][:limit]
        if len(valid) < len(stops):
            self.drop("stop")
        return valid

    def take_format(self) -> ResponseFormat:
        """Returns the form that the answer must have, text by default."""
        form = self.take("response_format", ResponseFormat) or ResponseFormat()
        if form.type not in ("text", "json_object") and rawjson.is_null(form.schema):
            self.drop("response_format")
        return form


def conversation_of(order: Order) -> Conversation:
    """Returns the conversation of a translated order."""
    return order.conversation or Conversation(turns=())


def schema_fields(tool: ToolOffer) -> rawjson.Fields:
    """Returns the schema of a function's arguments, without its null members, which some tools have; empty if it allows
    anything. Raises BadRequest for a wrong type, but PHP writes an empty object as ``[]``.
    """
    if is_nothing(tool.parameters) or bytes(tool.parameters) == b"true":
        return {}
    try:
        fields = rawjson.fields(tool.parameters)
    except ValueError as error:
        raise BadRequest(f"{tool.param}: must be a JSON schema", param=tool.param) from error
    if bytes(fields.get("properties", NULL)) == b"[]":
        del fields["properties"]
    return {name: raw for name, raw in fields.items() if not rawjson.is_null(raw)}


def check_address(media: MediaPart) -> None:
    """Raises BadRequest unless vendors fetch media from an address like this."""
    if not media.url.startswith("https://"):
        raise BadRequest(f"{media.param}: must be a base64 data: URL or an https: URL", param=media.param)


def read_caps(fields: Mapping[str, msgspec.Raw]) -> tuple[int | None, int]:
    """Returns the output limit and the number of choices; None and 1 if a type is wrong, because that is refused."""
    new, old, choices = (rawjson.maybe(fields.get(name)) for name in ("max_completion_tokens", "max_tokens", "n"))
    if any(value is not None and type(value) is not int for value in (new, old, choices)):
        return None, 1
    return old if new is None else new, choices or 1


def with_limit(served: ServedModel, learned: LearnedRefusals) -> ServedModel:
    """Returns the model with the output limit that its upstream named when it refused a higher one."""
    return served if learned.max_output is None else msgspec.structs.replace(served, max_output=learned.max_output)


def refusal_of(channel: Channel, fault: BadRequest) -> AttemptFailed:
    """Returns the failure of an attempt whose request the dialect cannot express: status 400, nothing sent."""
    text = UpstreamText(f"channel '{channel.name}' cannot take this request: {plain(fault.message, 500)}")
    kind = FailureKind.CLIENT
    return AttemptFailed(Failure(kind=kind, code=fault.code, text=text, status=400, param=fault.param, sent=False))


DIGEST = 8
"""The number of hex digits at the end of a name that was changed."""
_CHANGED = re.compile(r".*_[0-9a-f]{8}", re.DOTALL)


class NameRules(msgspec.Struct, frozen=True):
    """The names that a vendor accepts."""

    invalid_character: "re.Pattern[str]"
    """Matches a character that is not valid, or the place before one that is not valid as the first."""
    max_length: int
    """In characters."""

    def valid_name(self, name: str) -> str:
        """Returns the name if it is valid, else a valid one made of it."""
        if 0 < len(name) <= self.max_length and not self.invalid_character.search(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:DIGEST]
        return self.invalid_character.sub("_", name)[: self.max_length - DIGEST - 1] + "_" + digest

    def client_name(self, order: Order, known: dict[str, str], name: str) -> str:
        """Returns the client's name for a valid one; the same if it was not changed, or not sent.

        ``known`` gets all names of the order when the first is needed: each costs a hash.
        """
        if not known and _CHANGED.fullmatch(name):
            conversation = conversation_of(order)
            names = (*(tool.name for tool in conversation.tools), *conversation.called_functions)
            known |= {self.valid_name(own): own for own in names}
        return known.get(name, name)
