"""Errors: what Anthropic says when something is wrong, with a status of its own or inside an answer."""

import re
from collections.abc import Mapping

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.failure import Failure
from gateway.upstream.anthropic.cache_marks import FIELD
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import classify

_OWN_NAMES = {
    **dict.fromkeys(("thinking", "enabled", "adaptive", "disabled", "effort", "output_config"), "reasoning_effort"),
    "stop_sequences": "stop",
}
"""Fields of the request that the client knows by another name; of ``thinking.type.enabled`` the last part is used."""

_NO_MARKS = re.compile(
    rf"\b(?:extra|extraneous|unknown|unsupported|unexpected|unrecognized|invalid)\b[^.]{{0,60}}\b{FIELD}\b"
    rf"|\b{FIELD}\b[^.]{{0,60}}(?:\bnot (?:permitted|supported|allowed|recognized|enabled)|\bunsupported|\bunknown)"
    r"|prompt caching[^.]{0,40}\bnot\b|\bnot (?:support|allow)[^.]{0,40}\bprompt caching",
    re.IGNORECASE,
)
"""How upstreams refuse marks for the prompt cache; a wrong mark, or one too many, is refused in other words."""


def failure(channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an answer with a status other than 2xx means."""
    error = read_error(body)
    found = classify(channel, status, error, headers)
    names = dict.fromkeys(_OWN_NAMES.get(name, name) for name in found.parameters)
    if found.kind is FailureKind.CLIENT and _NO_MARKS.search(error.message[:1000]):
        names[FIELD] = None
    return msgspec.structs.replace(found, parameters=tuple(names))
