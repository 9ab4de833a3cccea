"""Generous: an upstream of all channels that gives and bills all the output that the request it received allows."""

import json
from collections.abc import Callable
from urllib.parse import urlsplit

from gateway.domain.channel import Channel
from gateway.domain.order import PreparedRequest
from tests.core.ends import FakeReply, FakeUpstreams, error_body
from tests.fakes.obedient import answer_to, spent_for
from tests.fakes.replies import Doc


class GenerousUpstream:
    """Answers for all channels."""

    def __init__(self, *, cached: int = 0, written: int = 0) -> None:
        """``cached`` and ``written``: percent of the input that comes from a prompt cache or goes into one."""
        self._cached = cached
        self._written = written
        self.refuses: set[str] = set()
        """Top-level parameters that are refused by name."""
        self.broken: set[str] = set()
        """Names of channels that fail."""
        self.bounded = False
        """The last request had a cap."""

    def at(self, channel: Channel, upstreams: FakeUpstreams) -> Callable[[], FakeReply]:
        """What answers the newest request, if it went to this channel."""
        return lambda: self.reply(channel, upstreams.asked[-1][1])

    def reply(self, channel: Channel, prepared: PreparedRequest) -> FakeReply:
        if channel.name in self.broken:
            return FakeReply(error_body(), status=500)
        body = json.loads(prepared.body)
        for name in self.refuses & body.keys():
            return FakeReply(error_body(f"Unsupported parameter: '{name}'"), status=400)
        path = urlsplit(prepared.url).path
        self.bounded = spent_for(path, body).bounded
        answer = answer_to(path, body)
        if self._cached or self._written:
            self._report_cache(answer.get("usage") or answer["usageMetadata"])
        return FakeReply(json.dumps(answer).encode())

    def _report_cache(self, usage: Doc) -> None:
        """Add to the usage of any dialect what of the input was cached."""
        tokens = next(usage[name] for name in ("prompt_tokens", "input_tokens", "promptTokenCount") if name in usage)
        cached = tokens * self._cached // 100
        written = min(tokens - cached, tokens * self._written // 100)
        if "promptTokenCount" in usage:
            usage["cachedContentTokenCount"] = cached
        elif "input_tokens" in usage:
            usage["input_tokens"] = tokens - cached - written
            usage["cache_read_input_tokens"] = cached
            usage["cache_creation_input_tokens"] = written
        else:
            usage["prompt_tokens_details"] = {"cached_tokens": cached, "cache_write_tokens": written}
