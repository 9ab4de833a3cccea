"""OpenAI's chat completions, spoken by OpenAI and nearly everyone else: the dialect, and how requests fit it.

A client's request is fitted to a channel by the smallest edit. What is not named here goes out as the bytes it came as;
see ``vendors`` for who needs what.
"""

import hashlib
import re
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel, TokenLimitField
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import CAPS, OutputLimit, read_limit
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.model_list import LIST_HEADERS
from gateway.upstream.openai.reader import ChatReader
from gateway.upstream.openai.reasoning import ReasoningReader, put_back
from gateway.upstream.refused_params import DEVELOPER, EFFORT, MESSAGES, NO_EFFORT, ROLE
from gateway.upstream.vendors import Vendor, vendor_of

STREAM_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
PLAIN_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate", "Content-Type": "application/json"}

_USAGE_ASKED = msgspec.Raw(b'{"include_usage":true}')
_EMPTY = msgspec.Raw(b'""')
_SYSTEM = msgspec.Raw(b'"system"')
_NONE = msgspec.Raw(b'"none"')
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


def _fits(order: Order, traits: Vendor, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> bool:
    """Returns whether the client's body is what this channel needs, so that it need not be built again."""
    if not order.body or order.stream or not traits.quiet or learned.dropped or order.output_budget is not None:
        return False
    if order.model != (served.upstream or served.name) or (not traits.reads_developer and _has_developer(order.fields)):
        return False
    fields = order.fields
    return (
        ("max_tokens" not in fields and "max_completion_tokens" not in fields)
        or (
            _limit_field(traits, channel, served, learned) is TokenLimitField.KEEP
            and ((most := _most(served, learned)) is None or not any(_above(fields.get(name), most) for name in CAPS))
        )
    ) and "stream_options" not in fields


@lru_cache(maxsize=256)
def endpoint(base_url: str, path: str) -> str:
    """Returns a path below the base URL, whose query is kept."""
    if "?" not in base_url:
        return base_url.rstrip("/") + path
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))


def _limit_field(traits: Vendor, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> TokenLimitField:
    """Returns the name of the limit there. A name that is not accepted there is never chosen: the output would be
    unlimited.
    """
    if traits.allow or traits.deny:
        accepted = [name for name in CAPS if traits.accepts(name)]
        if len(accepted) == 1:
            return TokenLimitField(accepted[0])
    return learned.token_limit_field or channel.token_limit_field or traits.limit_field(served.upstream_name)


def _most(served: ServedModel, learned: LearnedRefusals) -> int | None:
    """Returns the model's own output limit, if known: a learned one is lower than one that was accepted before."""
    return served.max_output if learned.max_output is None else learned.max_output


def limit_output(fields: Fields, field: TokenLimitField, most: int | None) -> int | None:
    """Puts the output limit under the name it has there; of two limits the newer name's wins.

    A limit above the model's own is lowered to that, which is then returned.
    """
    if not any(name in fields for name in CAPS):
        return None
    if field is not TokenLimitField.KEEP:
        new, old = (fields.pop(name, None) for name in CAPS)
        fields[field.value] = (old if new is None or rawjson.is_null(new) else new) or rawjson.NULL
    high = [name for name in CAPS if most is not None and _above(fields.get(name), most)]
    for name in high:
        fields[name] = rawjson.raw(most)
    return most if high else None


def _may_limit(channel: Channel, learned: LearnedRefusals) -> bool:
    """Returns whether the upstream and the channel's owner let a request have an output limit."""
    removed = channel.overrides.remove if channel.overrides is not None else ()
    return not any(name in removed or name in learned.dropped for name in CAPS)


def _choose_limit(fields: Fields, output_budget: int, field: TokenLimitField, most: int | None) -> int | None:
    """Sets the limit of each choice that the money left pays for, and returns it; None if there is one already.

    It is never above the model's own. What it does not limit, such as thinking at some vendors, must be paid as well.
    """
    asked = read_limit(fields)
    limit = output_budget // asked.choices - max(0, asked.expected - DEFAULT_OUTPUT)
    if asked.capped or limit < 1:
        return None
    limit = limit if most is None else min(limit, most)
    fields["max_tokens" if field is TokenLimitField.KEEP else field.value] = rawjson.raw(limit)
    return limit


def _above(cap: msgspec.Raw | None, most: int) -> bool:
    value = None if cap is None else rawjson.maybe(cap)
    return type(value) is int and value > most


def _fit_parameters(fields: Fields, traits: Vendor, learned: LearnedRefusals) -> list[str]:
    """Removes or renames what the upstream would refuse. Returns the client's names of what is missing then."""
    dropped = [name for name in learned.dropped if fields.pop(name, None) is not None]
    if NO_EFFORT in learned.dropped and "tools" in fields:
        dropped += [EFFORT] if fields.get(EFFORT, _NONE) != _NONE else []
        fields[EFFORT] = _NONE
    if traits.rename or traits.swaps:
        _translate(fields, traits)
    if traits.allow or traits.deny:
        dropped += _admit(fields, traits)
    return dropped


def ask_usage(fields: Fields, *, wanted: bool) -> None:
    """Requests the usage of streams, beside the client's own options."""
    options = fields.get("stream_options")
    if not wanted:
        fields.pop("stream_options", None)
    elif options is None or rawjson.is_null(options):
        fields["stream_options"] = _USAGE_ASKED
    else:
        opened = rawjson.fields(options)
        opened["include_usage"] = msgspec.Raw(b"true")
        fields["stream_options"] = rawjson.raw(opened)


def _translate(fields: Fields, traits: Vendor) -> None:
    for here, there in traits.rename:
        if here in fields:
            fields[there] = fields.pop(here)
    for name, value, instead in traits.swaps:
        if name in fields and rawjson.maybe(fields[name]) == rawjson.value(value):
            fields[name] = msgspec.Raw(instead)


def _admit(fields: Fields, traits: Vendor) -> list[str]:
    """Removes what is not accepted there. Returns the client's names for it."""
    here = {there: name for name, there in traits.rename}
    refused = [name for name in fields if not traits.accepts(name)]
    for name in refused:
        del fields[name]
    return [here.get(name, name) for name in refused if name != "stream_options"]


def _has_developer(fields: Fields) -> bool:
    return DEVELOPER in bytes(memoryview(fields.get("messages", rawjson.NULL)))


def _opens_messages(fields: Fields, traits: Vendor, learned: LearnedRefusals) -> bool:
    """Returns whether something in a message may have to be changed."""
    learned_fields = any(name.startswith(MESSAGES) for name in learned.dropped)
    return traits.edits_messages or learned_fields or (not traits.reads_developer and _has_developer(fields))


def _edit_messages(fields: Fields, traits: Vendor, learned: LearnedRefusals) -> list[str]:
    try:
        messages = rawjson.objects(fields["messages"])
    except ValueError:  # not a list of objects: the upstream will say so
        return []
    dropped: dict[str, None] = {}
    denied = traits.message_deny | {name.removeprefix(MESSAGES) for name in learned.dropped if name != ROLE}
    respells = not traits.reads_developer or ROLE in learned.dropped
    for message in messages:
        for name in _refused_parts(message, traits, denied):
            del message[name]
            dropped[MESSAGES + name] = None
        if respells and bytes(message.get("role", rawjson.NULL)) == DEVELOPER:
            message["role"] = _SYSTEM
        _mend_content(message, traits)
        if traits.short_tool_ids:
            _shorten_ids(message)
    fields["messages"] = rawjson.raw(messages)
    return list(dropped)


def _refused_parts(message: Fields, traits: Vendor, denied: frozenset[str]) -> list[str]:
    tool = bytes(message.get("role", rawjson.NULL)) == b'"tool"'
    return [
        name
        for name in message
        if name in denied
        or (traits.message_allow and name not in traits.message_allow and not (tool and name == "name"))
    ]


def _mend_content(message: Fields, traits: Vendor) -> None:
    if traits.drop_nulls and bytes(message.get("role", rawjson.NULL)) == b'"assistant"':
        for name in [name for name, value in message.items() if rawjson.is_null(value)]:
            del message[name]
    calls = message.get("tool_calls")
    if traits.empty_content and rawjson.is_null(message.get("content", _EMPTY)) and rawjson.is_null(calls):
        message["content"] = _EMPTY


def _shorten_ids(message: Fields) -> None:
    """Gives both sides of a tool call the same short id."""
    if "tool_call_id" in message:
        message["tool_call_id"] = _shorten(message["tool_call_id"])
    if rawjson.is_null(message.get("tool_calls")):
        return
    try:
        calls = rawjson.objects(message["tool_calls"])
    except ValueError:
        return
    for call in calls:
        if "id" in call:
            call["id"] = _shorten(call["id"])
    message["tool_calls"] = rawjson.raw(calls)


def _shorten(value: msgspec.Raw) -> msgspec.Raw:
    try:
        text = rawjson.text(value)
    except ValueError:
        return value
    if _SHORT_ID.fullmatch(text):
        return value
    return rawjson.raw(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:9])


class OpenAIDialect(ChannelDialect):
    """OpenAI's dialect, also for ``mock``, which answers the same way."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. ``dropped`` names the client's parameters that are missing in it."""
        traits = vendor_of(channel.preset, channel.base_url)
        if _fits(order, traits, channel, served, learned):
            url = endpoint(channel.base_url, "/chat/completions")
            return PreparedRequest(url=url, headers=PLAIN_HEADERS, body=order.body)
        fields = dict(order.fields)
        fields["model"] = rawjson.raw(served.upstream or served.name)
        lowered = None
        if "max_tokens" in fields or "max_completion_tokens" in fields:
            field = _limit_field(traits, channel, served, learned)
            lowered = limit_output(fields, field, _most(served, learned))
        if order.output_budget is not None and _may_limit(channel, learned):
            field = _limit_field(traits, channel, served, learned)
            chosen = _choose_limit(fields, order.output_budget, field, _most(served, learned))
            lowered = lowered if chosen is None else chosen
        ask_usage(fields, wanted=order.stream and traits.stream_options and "stream_options" not in learned.dropped)
        dropped = _fit_parameters(fields, traits, learned)
        if "messages" in fields and _opens_messages(fields, traits, learned):
            dropped += _edit_messages(fields, traits, learned)
        if traits.reasoning_back:
            put_back(fields, order.owner, self._memory)
        return PreparedRequest(
            url=endpoint(channel.base_url, "/chat/completions"),
            headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
            body=rawjson.encode(fields),
            dropped=tuple(dropped),
            lowered=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> ChatReader:
        remembers = self.remembers(channel)
        return ReasoningReader(order, channel, self._memory) if remembers else ChatReader(order, channel)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """Returns the most output. What is learned later only leaves parameters out, lowers the limit, or gives it its
        other name.
        """
        traits, fields = vendor_of(channel.preset, channel.base_url), dict(fields)
        limit_output(fields, _limit_field(traits, channel, served, NOTHING), served.max_output)
        _fit_parameters(fields, traits, NOTHING)
        return read_limit(fields)

    def remembers(self, channel: Channel) -> bool:
        return vendor_of(channel.preset, channel.base_url).reasoning_back

    def models_request(self, channel: Channel, after: str) -> PreparedRequest | None:
        """Returns the request for all models at once."""
        return (
            None
            if after
            else PreparedRequest(url=endpoint(channel.base_url, "/models"), headers=LIST_HEADERS, body=b"")
        )
