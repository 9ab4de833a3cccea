"""Errors: what Google says when something is wrong, with a status of its own or inside an answer."""

from collections.abc import Mapping

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.failure import Failure
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import classify

_OWN_NAMES = {
    "thinking_config": "reasoning_effort",
    "thinking_level": "reasoning_effort",
    "thinking_budget": "reasoning_effort",
    "stop_sequences": "stop",
    "response_logprobs": "logprobs",
}
"""Fields of the request that the client knows by another name."""


def failure(channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an answer with a status other than 2xx means. There is no Retry-After; the delay is in the details."""
    found = classify(channel, status, read_error(body), headers)
    names = dict.fromkeys(_OWN_NAMES.get(name, name) for name in found.parameters)
    return msgspec.structs.replace(found, parameters=tuple(names))
