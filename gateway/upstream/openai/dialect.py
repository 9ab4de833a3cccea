"""OpenAI's chat completions, spoken by OpenAI and nearly everyone else: the dialect, and how requests are written.

A client's request is changed as little as a channel needs (see ``vendors``). Every other value goes out as the bytes
that came.
"""

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
from gateway.upstream.efforts import EFFORT
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.message_rules import RULES, SHORT_IDS, with_rules
from gateway.upstream.model_list import LIST_HEADERS
from gateway.upstream.openai.reader import ChatReader
from gateway.upstream.openai.reasoning import ReasoningReader, restore_reasoning
from gateway.upstream.refused_params import DEVELOPER, MESSAGES, NO_EFFORT, REASONING_BACK, ROLE
from gateway.upstream.request_rules import fit_request
from gateway.upstream.vendors import Vendor, vendor_of

STREAM_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
PLAIN_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate", "Content-Type": "application/json"}

_INCLUDE_USAGE = msgspec.Raw(b'{"include_usage":true}')
_NONE = msgspec.Raw(b'"none"')


class _Target(msgspec.Struct, frozen=True, gc=False):
    """A model at a channel, and what is known of its upstream."""

    vendor: Vendor
    channel: Channel
    served: ServedModel
    learned: LearnedRefusals

    @property
    def limit_field(self) -> TokenLimitField:
        """Returns the name of the output limit that the upstream accepts. Another name would limit nothing."""
        if self.vendor.allow or self.vendor.deny:
            accepted = [name for name in CAPS if self.vendor.accepts(name)]
            if len(accepted) == 1:
                return TokenLimitField(accepted[0])
        own_field = self.learned.token_limit_field or self.channel.token_limit_field
        return own_field or self.vendor.limit_field(self.served.upstream_name)

    @property
    def max_output(self) -> int | None:
        """Returns the model's output limit, if known. One learned from a refusal is newer than the listed one."""
        return self.served.max_output if self.learned.max_output is None else self.learned.max_output

    @property
    def may_be_limited(self) -> bool:
        """Returns whether the upstream and the channel's owner let a request have an output limit."""
        removed = self.channel.overrides.remove if self.channel.overrides is not None else ()
        return not any(name in removed or name in self.learned.dropped for name in CAPS)


def _may_pass_unchanged(order: Order, target: _Target) -> bool:
    fields, vendor, served = order.fields, target.vendor, target.served
    if not order.body or order.stream or order.output_budget is not None:
        return False
    if vendor.edits_requests or target.learned.dropped or order.model != served.upstream_name:
        return False
    if "stream_options" in fields or (not vendor.reads_developer and _has_developer(fields)):
        return False
    if "max_tokens" not in fields and "max_completion_tokens" not in fields:
        return True
    return target.limit_field is TokenLimitField.KEEP and not _caps_above(fields, target.max_output)


@lru_cache(maxsize=256)
def endpoint(base_url: str, path: str) -> str:
    """Returns the URL of a path below the base URL. A query of the base URL is kept."""
    if "?" not in base_url:
        return base_url.rstrip("/") + path
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))


def limit_output(fields: Fields, field: TokenLimitField, max_output: int | None) -> int | None:
    """Give the output limit the upstream's name, and lower it to ``max_output``. Returns that if it was lowered."""
    if not any(name in fields for name in CAPS):
        return None
    if field is not TokenLimitField.KEEP:
        newer, older = (fields.pop(name, rawjson.NULL) for name in CAPS)
        fields[field.value] = older if rawjson.is_null(newer) else newer
    above = _caps_above(fields, max_output)
    for name in above:
        fields[name] = rawjson.raw(max_output)
    return max_output if above else None


def _caps_above(fields: Fields, max_output: int | None) -> list[str]:
    if max_output is None:
        return []
    caps = {name: rawjson.maybe(fields.get(name)) for name in CAPS}
    return [name for name, cap in caps.items() if type(cap) is int and cap > max_output]


def _limit_to_budget(fields: Fields, output_budget: int, target: _Target) -> int | None:
    """Limit each choice to what the money left pays for. Returns that limit; None if the request has one already.

    It is at most the model's own. What no limit covers, such as thinking at some vendors, is paid for first.
    """
    current = read_limit(fields)
    limit = output_budget // current.choices - max(0, current.expected - DEFAULT_OUTPUT)
    if current.capped or limit < 1:
        return None
    limit = limit if target.max_output is None else min(limit, target.max_output)
    field = target.limit_field
    fields["max_tokens" if field is TokenLimitField.KEEP else field.value] = rawjson.raw(limit)
    return limit


def request_usage(fields: Fields, *, requested: bool) -> None:
    """Request the usage of a stream, beside the client's own options; if not ``requested``, remove all options."""
    options = fields.get("stream_options")
    if not requested:
        fields.pop("stream_options", None)
    elif options is None or rawjson.is_null(options):
        fields["stream_options"] = _INCLUDE_USAGE
    else:
        fields["stream_options"] = rawjson.raw({**rawjson.fields(options), "include_usage": True})


def _fit_parameters(fields: Fields, vendor: Vendor, learned: LearnedRefusals) -> list[str]:
    """Remove or rename what the upstream would refuse. Returns what was removed, by the client's names."""
    dropped = [name for name in learned.dropped if fields.pop(name, None) is not None]
    if NO_EFFORT in learned.dropped and "tools" in fields:
        if fields.get(EFFORT, _NONE) != _NONE:
            dropped.append(EFFORT)
        fields[EFFORT] = _NONE
    for name, vendor_name in vendor.rename:
        if name in fields:
            fields[vendor_name] = fields.pop(name)
    for name, value, vendor_value in vendor.swaps:
        if name in fields and rawjson.maybe(fields[name]) == rawjson.value(value):
            fields[name] = msgspec.Raw(vendor_value)
    if vendor.allow or vendor.deny:
        dropped += _remove_refused(fields, vendor)
    return dropped


def _remove_refused(fields: Fields, vendor: Vendor) -> list[str]:
    """Remove the fields that the vendor does not accept. Returns the client's names for them."""
    client_names = {vendor_name: name for name, vendor_name in vendor.rename}
    refused = [name for name in fields if not vendor.accepts(name)]
    for name in refused:
        del fields[name]
    return [client_names.get(name, name) for name in refused if name != "stream_options"]


def _has_developer(fields: Fields) -> bool:
    return DEVELOPER in bytes(memoryview(fields.get("messages", rawjson.NULL)))


def _must_edit_messages(fields: Fields, vendor: Vendor, learned: LearnedRefusals) -> bool:
    refuses_fields = any(name.startswith(MESSAGES) and name not in RULES for name in learned.dropped)
    return vendor.edits_messages or refuses_fields or (not vendor.reads_developer and _has_developer(fields))


def _edit_messages(fields: Fields, vendor: Vendor, learned: LearnedRefusals) -> list[str]:
    """Change the messages so that the upstream accepts them. Returns the names of the fields that were removed."""
    messages = rawjson.maybe_objects(fields["messages"])
    if messages is None:  # the upstream will say so
        return []
    dropped: dict[str, None] = {}
    denied = vendor.message_deny | {name.removeprefix(MESSAGES) for name in learned.dropped if name not in RULES}
    for message in messages:
        for name in _refused_fields(message, vendor, denied):
            del message[name]
            dropped[MESSAGES + name] = None
        _fix_nulls(message, vendor)
    rules = () if vendor.reads_developer else (ROLE,)
    fields["messages"] = rawjson.raw(with_rules(messages, (*rules, SHORT_IDS) if vendor.short_tool_ids else rules))
    return [*dropped]


def _role(message: Fields) -> bytes:
    return bytes(message.get("role", rawjson.NULL))


def _refused_fields(message: Fields, vendor: Vendor, denied: frozenset[str]) -> list[str]:
    allowed = vendor.message_allow
    if allowed and _role(message) == b'"tool"':
        allowed |= {"name"}
    return [name for name in message if name in denied or (allowed and name not in allowed)]


def _fix_nulls(message: Fields, vendor: Vendor) -> None:
    if vendor.drop_nulls and _role(message) == b'"assistant"':
        for name in [name for name, value in message.items() if rawjson.is_null(value)]:
            del message[name]
    calls = message.get("tool_calls")
    if vendor.empty_content and rawjson.is_null(message.get("content", rawjson.EMPTY_TEXT)) and rawjson.is_null(calls):
        message["content"] = rawjson.EMPTY_TEXT


class OpenAIDialect(ChannelDialect):
    """OpenAI's dialect, also for ``mock``, which answers in the same form."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. It has all of the client's parameters but those in ``dropped``."""
        vendor = vendor_of(channel.preset, channel.base_url)
        target = _Target(vendor, channel, served, learned)
        url = endpoint(channel.base_url, "/chat/completions")
        if _may_pass_unchanged(order, target):
            return PreparedRequest(url=url, headers=PLAIN_HEADERS, body=order.body)
        fields, changed = fit_request(order.fields, learned.dropped) if learned.dropped else (dict(order.fields), [])
        fields["model"] = rawjson.raw(served.upstream_name)
        lowered = None
        if "max_tokens" in fields or "max_completion_tokens" in fields:
            lowered = limit_output(fields, target.limit_field, target.max_output)
        streams = rawjson.maybe(fields.get("stream")) is True  # as the server wants it
        if order.output_budget is not None and target.may_be_limited:
            lowered = _limit_to_budget(fields, order.output_budget, target) or lowered
        has_usage = vendor.stream_options and "stream_options" not in learned.dropped
        request_usage(fields, requested=streams and has_usage)
        dropped = changed + _fit_parameters(fields, vendor, learned)
        if "messages" in fields and _must_edit_messages(fields, vendor, learned):
            dropped += _edit_messages(fields, vendor, learned)
        was_refused = REASONING_BACK in learned.dropped
        if vendor.reasoning_back or was_refused:
            owner = order.owner if vendor.reasoning_back else ""  # elsewhere nothing was remembered: it is sent empty
            restore_reasoning(fields, owner, self._memory, always=was_refused)
        client_names = {} if order.conversation is None else order.conversation.param_names
        return PreparedRequest(
            url=url,
            headers=STREAM_HEADERS if streams else PLAIN_HEADERS,
            body=rawjson.encode(fields),
            dropped=tuple(client_names.get(name, name) for name in dropped),
            lowered=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> ChatReader:
        return ReasoningReader(order, channel, self._memory) if self.remembers(channel) else ChatReader(order, channel)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """See ``ChannelDialect``. What is learned later only drops parameters, lowers the limit, or renames it."""
        target = _Target(vendor_of(channel.preset, channel.base_url), channel, served, NOTHING)
        sent = dict(fields)
        limit_output(sent, target.limit_field, target.max_output)
        _fit_parameters(sent, target.vendor, NOTHING)
        return read_limit(sent)

    def remembers(self, channel: Channel) -> bool:
        return vendor_of(channel.preset, channel.base_url).reasoning_back

    def models_request(self, channel: Channel, after: str) -> PreparedRequest | None:
        """Returns the request for all models at once."""
        url = endpoint(channel.base_url, "/models")
        return None if after else PreparedRequest(url=url, headers=LIST_HEADERS, body=b"")
