"""The usage report that most calls get: OpenAI's own counts, which fit each other, read in a fifth of the time."""

from typing import Annotated, Final, Literal

import msgspec

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.usage_counts import PLAUSIBLE

_Count = Annotated[int, msgspec.Meta(ge=0, le=PLAUSIBLE)]


class _Input(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    cached_tokens: _Count | None = None
    cache_write_tokens: Literal[0] | None = None
    cache_write_long_tokens: Literal[0] | None = None
    audio_tokens: Literal[0] | None = None


class _Output(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    reasoning_tokens: _Count | None = None
    audio_tokens: Literal[0] | None = None
    accepted_prediction_tokens: _Count | None = None
    rejected_prediction_tokens: _Count | None = None


class _UsualReport(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    prompt_tokens: _Count
    completion_tokens: _Count
    total_tokens: _Count
    prompt_tokens_details: _Input | None = None
    completion_tokens_details: _Output | None = None


_decode = msgspec.json.Decoder(_UsualReport).decode
_REPORTED: Final = UsageSource.REPORTED


def usual_usage(report: msgspec.Raw) -> Usage | None:
    """Returns what ``usage_report.read`` would, without corrections; None for any other report."""
    try:
        found = _decode(report)
    except (msgspec.DecodeError, RecursionError):
        return None
    inputs, outputs = found.prompt_tokens, found.completion_tokens
    cached = reasoning = 0
    if (details := found.prompt_tokens_details) is not None:
        cached = details.cached_tokens or 0
    if (more := found.completion_tokens_details) is not None:
        reasoning = more.reasoning_tokens or 0
    if inputs + outputs != found.total_tokens or cached > inputs or reasoning > outputs:
        return None
    return Usage(input=inputs, cached=cached, output=outputs, reasoning=reasoning, source=_REPORTED)
