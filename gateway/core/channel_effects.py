"""Channel effects: what the channels of one model do to its calls."""

from collections.abc import Iterable
from functools import reduce

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.output_limit import OutputLimit, larger
from gateway.domain.price import Price
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, MESSAGE_TOKENS, SCHEMAS, bound_of
from gateway.domain.rawjson import Fields
from gateway.inbound.api import InboundRequest
from gateway.upstream.dialects import chat_limit

_NAMES = frozenset({"user", "safety_identifier", "prompt_cache_key", "previous_response_id"})
"""Fields that differ from call to call. If they are texts, nothing in them limits the output."""


class ChannelEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What the configured channels of one model do to a call."""

    offers: tuple[tuple[Channel, ServedModel], ...] = ()
    added_input: int = 0
    """The maximum number of tokens that the owner's system prompt and tools add."""
    max_output: int | None = None
    """The model's own output limit, the highest of several; None if it is unknown at some channel."""
    prices: tuple[Price, ...] = ()
    """The prices of the model at these channels, each once."""
    adds_tools: bool = False
    """Whether some channel adds tools to a conversation with tool calls but no tools, as Anthropic's dialect does."""
    names_results: bool = False
    """Whether some channel adds a function's name to each of its results, as Gemini's dialect does."""
    _output_needs: dict[tuple[object, int, bytes], OutputLimit] = {}
    """The last results of ``output_need``."""

    def output_need(self, request: InboundRequest) -> OutputLimit:
        """Returns the limit of all choices of a request together. Raises BadRequest if it has too many limits to read.

        It depends on the parameters only, which most calls of a client have alike. To read them takes a twentieth of a
        call for each channel.
        """
        parameters = {name: raw for name, raw in request.fields.items() if name not in request.content}
        for name in _NAMES & parameters.keys():
            if rawjson.is_text(parameters[name]):
                del parameters[name]
        text = rawjson.encode(parameters)
        key = (request.output_rule, request.min_cap, text)
        need = self._output_needs.get(key)
        if need is None:
            need = self._read_need(request, parameters)
            if len(self._output_needs) >= 16:
                self._output_needs.clear()
            if len(text) <= 1024:  # bytes
                self._output_needs[key] = need
        return need

    def _read_need(self, request: InboundRequest, parameters: Fields) -> OutputLimit:
        rule = request.output_rule or chat_limit
        limits = [rule(parameters, channel, served) for channel, served in self.offers]
        limit = reduce(larger, limits, OutputLimit())
        return msgspec.structs.replace(limit, minimum=max(limit.minimum, min(request.min_cap, limit.expected)))


NO_EFFECTS = ChannelEffects()


def effects_of(offers: Iterable[tuple[Channel, ServedModel]]) -> ChannelEffects:
    """Returns what these channels do to calls of one model."""
    offers = tuple(offers)
    limits = [served.max_output for _, served in offers if served.max_output is not None]
    overrides = [channel.overrides for channel, _ in offers if channel.overrides is not None]
    dialects = {channel.dialect.info for channel, _ in offers}
    return ChannelEffects(
        offers=offers,
        prices=tuple({id(served.price): served.price for _, served in offers if served.price is not None}.values()),
        added_input=max(map(_added_input, overrides), default=0),
        max_output=max(limits) if limits and len(limits) == len(offers) else None,
        adds_tools=any(info.adds_tools for info in dialects),
        names_results=any(info.names_results for info in dialects),
    )


def _added_input(overrides: Overrides) -> int:
    """Returns the maximum input tokens that an owner's overrides add. Numbers and flags add none."""
    parameters = {**overrides.default, **overrides.set}
    counted = {name: value for name, value in parameters.items() if isinstance(value, str | list | dict)}
    texts = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in counted.items()}
    schemas = [texts.pop(name) for name in SCHEMAS if name in texts]
    bound = bound_of({}, schemas, texts, minimum=0)
    system = MESSAGE_TOKENS - (-len(overrides.system.encode()) // BOUND_BYTES_PER_TOKEN) if overrides.system else 0
    return bound.tokens + bound.media.bound("") + system
