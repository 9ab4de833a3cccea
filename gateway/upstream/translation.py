"""What dialects share that write a translated request: its parameters, and the names of its tools.

A dialect takes parameters one by one, and what it does not take is named to the client: so nothing is listed that has
no counterpart. A request that a dialect cannot express is refused before anything is sent. Parameters have the names of
chat completions; errors and what is left out are in the client's own words.

A tool's name that is valid there stays as it is. Another one is spelled with valid letters and ends in a digest of the
original, so that two names never become one, and the same name always becomes the same.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.conversation import Conversation, MediaPart, ToolChoice, ToolOffer
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.json_text import read_typed
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.rawjson import NULL, is_nothing
from gateway.domain.text import plain

T = TypeVar("T")

_ONE_OR_MORE: Any = list[str] | str
_NO_CONVERSATION = Conversation(turns=())


FORMS = frozenset({"json_object", "json_schema"})
"""Types of forms that are JSON."""


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The form that the answer must have."""

    schema: msgspec.Raw = NULL
    description: str | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """``text``, ``json_object`` or ``json_schema``."""

    type: str = "text"
    json_schema: JsonSchema | None = None
    bare: msgspec.Raw = msgspec.field(name="schema", default=NULL)
    """The schema in its place in Responses, and at llama.cpp and Together."""

    @property
    def schema(self) -> msgspec.Raw:
        """Returns the schema of the answer with the description of the answer, or null."""
        form = self.json_schema or JsonSchema(schema=self.bare)
        if self.type not in FORMS:
            return NULL
        if not form.description or bytes(memoryview(form.schema)[:1]) != b"{":
            return form.schema
        return rawjson.raw({"description": form.description, **rawjson.fields(form.schema)})


class Parameters:
    """What a request sets beside its conversation."""

    def __init__(self, order: Order, learned: LearnedRefusals) -> None:
        """What was learned about the upstream is left out."""
        self.conversation = conversation_of(order)
        self._fields = dict(order.fields)
        self._dropped = [name for name in learned.dropped if self._fields.pop(name, None) is not None]
        for name in ("model", "stream", "stream_options"):  # they are in the order
            self._fields.pop(name, None)
        if "tool_choice" in learned.dropped and self.conversation.choice.mode:
            self.conversation = msgspec.structs.replace(self.conversation, choice=ToolChoice())
            self.drop("tool_choice")

    def raw(self, name: str) -> msgspec.Raw:
        """Returns a parameter as it came; null if there is none."""
        return self._fields.pop(name, NULL)

    def take(self, name: str, kind: Callable[..., T]) -> T | None:
        """Returns a parameter of this type; None if there is none. Raises BadRequest for another type."""
        raw = self._fields.pop(name, None)
        value: T | None = (
            None if raw is None else read_typed(_decoder(kind), raw, self.conversation.param_names.get(name, name))
        )
        return value

    def drop(self, *names: str) -> None:
        """Mark a taken parameter as having no counterpart after all."""
        self._dropped += names

    def refuse(self, name: str, why: str) -> BadRequest:
        """Raises BadRequest for what cannot be left out without a different answer."""
        return unsupported_param(self.conversation.param_names.get(name, name), why)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Returns the client's names of all parameters that were not taken."""
        left = (name for name, raw in self._fields.items() if not is_nothing(raw))
        words, extras = self.conversation.param_names, self.conversation.extras
        return tuple(dict.fromkeys((*(words.get(name, name) for name in (*self._dropped, *left)), *extras)))

    @property
    def output_cap(self) -> int | None:
        """Returns the output limit; of two the newer name's counts."""
        new, old = (self.take(name, int) for name in ("max_completion_tokens", "max_tokens"))
        return old if new is None else new

    def stops(self, fits: Callable[[str], object], most: int | None = None) -> list[str]:
        """Returns the stop sequences that fit, and not more than ``most``."""
        value: list[str] | str | None = self.take("stop", _ONE_OR_MORE)
        given = [value] if isinstance(value, str) else value or []
        kept = [stop for stop in given if fits(stop)][:most]
        if len(kept) < len(given):
            self.drop("stop")
        return kept

    @property
    def form(self) -> ResponseFormat:
        """Returns the form that the answer must have. A schema in a place of its own is not read."""
        form = self.take("response_format", ResponseFormat) or ResponseFormat()
        if form.type == "json_schema" and rawjson.is_null(form.schema):
            self.drop("response_format")
        return form


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind | None)


def conversation_of(order: Order) -> Conversation:
    """Returns the conversation of a translated order."""
    return order.conversation or _NO_CONVERSATION


def schema_fields(tool: ToolOffer) -> rawjson.Fields:
    """Returns the schema of a function's arguments; empty if it says nothing. Raises BadRequest unless it is
    an object.
    """
    if rawjson.is_null(tool.parameters) or bytes(tool.parameters) == b"true":
        return {}
    try:
        return rawjson.fields(tool.parameters)
    except ValueError as error:
        where = f"{tool.where}.parameters"
        raise BadRequest(f"{where}: must be a JSON schema", param=where) from error


FILLER = "."
"""The text of a required message without one."""


def check_address(media: MediaPart) -> None:
    """Raises BadRequest unless a vendor fetches media from this address."""
    if not media.url.startswith("https://"):
        raise BadRequest(f"{media.where}: must be a base64 data: URL or an https: URL", param=media.where)


def read_caps(fields: Mapping[str, msgspec.Raw]) -> tuple[int | None, int]:
    """Returns the output limit and the number of choices in a request's top-level values.

    With values of another type it returns no limit and one choice: then nothing goes out at all.
    """
    new, old, choices = (rawjson.maybe(fields.get(name)) for name in ("max_completion_tokens", "max_tokens", "n"))
    if any(value is not None and type(value) is not int for value in (new, old, choices)):
        return None, 1
    return old if new is None else new, choices or 1


def refusal_of(channel: Channel, fault: BadRequest) -> AttemptFailed:
    """Returns the fault as a failure of the attempt: status 400, the channel named, nothing sent."""
    text = f"channel '{channel.name}' cannot take this request: {plain(fault.message, 500)}"
    return AttemptFailed(
        Failure(
            kind=FailureKind.CLIENT,
            code=fault.code,
            text=UpstreamText(text),
            status=400,
            param=fault.param,
            sent=False,
        )
    )


DIGEST = 8
"""Hex digits at the end of a name that was changed."""
_CHANGED = re.compile(r".*_[0-9a-f]{8}", re.DOTALL)


class Spelling(msgspec.Struct, frozen=True):
    """What a dialect accepts."""

    fit: "re.Pattern[str]"
    """Matches a valid name."""
    odd: "re.Pattern[str]"
    """Matches one character that is not accepted."""
    limit: int
    """Characters."""
    first: str = ""
    """The start of a changed name, if not every character may come first."""

    def sent(self, name: str) -> str:
        """Returns the name as it is sent."""
        if self.fit.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:DIGEST]
        return (self.first + self.odd.sub("_", name))[: self.limit - DIGEST - 1] + "_" + digest


class ToolNames:
    """The client's names for the tools in an answer. Reads the request only if one may be a changed name."""

    def __init__(self, order: Order, spelling: Spelling) -> None:
        self._order = order
        self._spelling = spelling
        self._known: dict[str, str] | None = None

    def back(self, name: str) -> str:
        """Returns the client's name for a sent one; a name that was never sent stays."""
        if not _CHANGED.fullmatch(name):
            return name
        if self._known is None:
            conversation = conversation_of(self._order)
            names = (*(tool.name for tool in conversation.tools), *conversation.called_functions)
            self._known = {self._spelling.sent(own): own for own in names}
        return self._known.get(name, name)
