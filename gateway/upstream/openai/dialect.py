"""OpenAI's chat completions, spoken by OpenAI and nearly everyone else: the dialect, and how requests are written.

A client's request is changed as little as a channel needs (see ``vendors``). All other values keep their bytes.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

import msgspec

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel, TokenLimitField
from gateway.domain.failure import Failure, ResponsesNeed
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import CAPS, OutputLimit, read_limit
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.efforts import BUDGET, fit_thinking
from gateway.upstream.error_body import read_error
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.model_list import LIST_HEADERS
from gateway.upstream.openai.reader import ChatReader
from gateway.upstream.openai.reasoning import ReasoningReader, restore_reasoning
from gateway.upstream.request_rules import fit_request
from gateway.upstream.translation import with_limit
from gateway.upstream.vendors import Vendor, speaks_responses, vendor_of

STREAM_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
PLAIN_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate", "Content-Type": "application/json"}

_INCLUDE_USAGE = msgspec.Raw(b'{"include_usage":true}')
_OTHER_NAMES = dict(zip(CAPS, (TokenLimitField.MAX_TOKENS, TokenLimitField.MAX_COMPLETION_TOKENS), strict=True))
"""The other name of an output limit, by its name."""
_ONLY_THERE = re.compile(r"(?i)function tools with reasoning_effort|\buse (?:the )?`?/?(?:v1/)?responses\b")
"""Matches OpenAI's refusals of what chat completions lack."""
MIN_LIMIT = 16
"""The minimum ``max_output_tokens`` that OpenAI accepts. Lower ones are raised: programs test models with one token."""


def _limit_field(channel: Channel, served: ServedModel, learned: LearnedRefusals) -> TokenLimitField:
    """Returns the name of the output limit that the upstream accepts. Another name would limit nothing."""
    vendor = vendor_of(channel)
    if vendor.allow:
        accepted = [name for name in CAPS if vendor.accepts(name)]
        if len(accepted) == 1:
            return TokenLimitField(accepted[0])
    other = next((_OTHER_NAMES[name] for name in learned.dropped if name in CAPS), None)
    return other or channel.token_limit_field or vendor.limit_field(served.upstream_name)


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
    if max_output is None:
        return None
    caps = {name: rawjson.maybe(fields.get(name)) for name in CAPS}
    above = [name for name, cap in caps.items() if type(cap) is int and cap > max_output]
    for name in above:
        fields[name] = rawjson.raw(max_output)
    return max_output if above else None


def _limit_to_budget(fields: Fields, output_budget: int, field: TokenLimitField, max_output: int | None) -> int | None:
    """Limit each choice to what the money left pays for. Returns that limit; None if the request has one already.

    It is at most the model's own. What no limit covers, such as thinking at some vendors, is paid for first.
    """
    current = read_limit(fields)
    limit = output_budget // current.choices - max(0, current.expected - DEFAULT_OUTPUT)
    if current.capped or limit < 1:
        return None
    limit = limit if max_output is None else min(limit, max_output)
    fields["max_tokens" if field is TokenLimitField.KEEP else field.value] = rawjson.raw(limit)
    return limit


def request_usage(fields: Fields, *, requested: bool) -> None:
    """Request the usage of a stream, and keep the client's own options; if not ``requested``, remove all options."""
    options = fields.get("stream_options")
    if not requested:
        fields.pop("stream_options", None)
    elif options is None or rawjson.is_null(options):
        fields["stream_options"] = _INCLUDE_USAGE
    else:
        fields["stream_options"] = rawjson.raw({**rawjson.fields(options), "include_usage": True})


def _fit_parameters(fields: Fields, vendor: Vendor) -> list[str]:
    """Rename parameters as the vendor does, and remove those it does not know. Returns the client's names of these."""
    for name, vendor_name in vendor.rename:
        if name in fields:
            fields[vendor_name] = fields.pop(name)
    client_names = {vendor_name: name for name, vendor_name in vendor.rename}
    unknown = [name for name in fields if vendor.allow and name not in vendor.allow]
    for name in unknown:
        del fields[name]
    return [client_names.get(name, name) for name in unknown]


class OpenAIDialect(ChannelDialect):
    """OpenAI's dialect. ``mock`` uses it too."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. It has all of the client's parameters but those in ``dropped``."""
        vendor = vendor_of(channel)
        rules, max_output = vendor.rules + learned.dropped, with_limit(served, learned).max_output
        fields, dropped = fit_request(order.fields, rules)
        fields["model"] = rawjson.raw(served.upstream_name)
        lowered = None
        if order.output_budget is not None or not fields.keys().isdisjoint(CAPS):
            field = _limit_field(channel, served, learned)
            lowered = limit_output(fields, field, max_output)
            own = channel.overrides
            if order.output_budget is not None and (own is None or not set(CAPS).intersection(own.remove)):
                lowered = _limit_to_budget(fields, order.output_budget, field, max_output) or lowered
        streams = rawjson.maybe(fields.get("stream")) is True  # as the server wants it
        request_usage(fields, requested=streams and "stream_options" not in rules)
        if vendor.allow or vendor.rename:
            dropped += _fit_parameters(fields, vendor)
        if vendor.reasoning_back:
            restore_reasoning(fields, order.owner, self._memory)
        client_names = {} if order.conversation is None else order.conversation.param_names
        return PreparedRequest(
            url=endpoint(channel.base_url, "/chat/completions"),
            headers=STREAM_HEADERS if streams else PLAIN_HEADERS,
            body=order.body_with(fields),
            dropped=tuple(client_names.get(name, name) for name in dropped),
            lowered_cap=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> ChatReader:
        if vendor_of(channel).reasoning_back:
            return ReasoningReader(order, channel, self._memory)
        return ChatReader(order, channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``ChannelDialect``. A chat may be refused because it must be a response, see ``ResponsesDialect``."""
        failure = super().failure(channel, status, headers, body)
        if vendor_of(channel).responses is False:
            return failure
        message = read_error(body).message
        is_other_api = not failure.sent and status != HTTPStatus.NOT_IMPLEMENTED  # which is about a part of the request
        is_refused = failure.kind is FailureKind.CLIENT and _ONLY_THERE.search(message)
        need = failure.needs_responses
        if is_refused and "tool" in message:
            need = ResponsesNeed.TOOLS
        elif is_other_api or (status in (404, 405) and failure.kind is FailureKind.SERVER):
            need = ResponsesNeed.MODEL
        elif is_refused:
            need = ResponsesNeed.MODEL if "model" in message else ResponsesNeed.CALL
        return msgspec.structs.replace(failure, needs_responses=need)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """See ``ChannelDialect``. Later lessons only drop parameters, lower or rename the limit, or limit thinking.

        A channel may turn out to take the chat only as a response, with a limit that is raised.
        """
        vendor = vendor_of(channel)
        sent = {name: raw for name, raw in fields.items() if name not in vendor.rules}
        if "thinking" in sent:
            fit_thinking(sent, [BUDGET])
        limit_output(sent, _limit_field(channel, served, NOTHING), served.max_output)
        _fit_parameters(sent, vendor)
        limit = read_limit(sent)
        if not speaks_responses(channel):
            return limit
        capped = max(limit.capped, MIN_LIMIT) if limit.capped else 0
        return msgspec.structs.replace(limit, capped=capped, minimum=max(limit.minimum, MIN_LIMIT))

    def models_request(self, channel: Channel, after: str) -> PreparedRequest | None:
        """Returns the request for all models at once."""
        url = endpoint(channel.base_url, "/models")
        return None if after else PreparedRequest(url=url, headers=LIST_HEADERS, body=b"")
