"""Settings: what the owner decides for the whole gateway, kept in the store."""

from enum import StrEnum

import msgspec

from gateway.domain.human_values import count_text


class Durability(StrEnum):
    """When a settlement counts as safe from a power cut. A kill of the process loses nothing either way."""

    INTERVAL = "interval"
    """Synced every 100 ms: a power cut may lose the last calls and their charges."""
    CALL = "call"
    """The answer's last byte waits for its own sync."""


class ExpiringRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Call records that are deleted for good when they are kept for fewer days."""

    records: int = 0
    days: int = 0
    """On how many days their calls began."""

    @property
    def text(self) -> str:
        """Returns ``6,596 records of 21 days``."""
        return f"{count_text(self.records, 'record')} of {count_text(self.days, 'day')}"


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Gateway-wide choices. A new one is also a ``Field`` of ``SETTINGS`` in ``domain.fields``.

    Bounds are in ``control.validation``.
    """

    refuse_unpriced: bool = False
    """Refuse calls to unpriced models instead of counting them at no cost."""
    strict_streams: bool = False
    """End a stream with an error at an unreadable event, instead of leaving out one."""
    durability: Durability = Durability.INTERVAL
    hosts: tuple[str, ...] = ()
    """Host names accepted beside the loopback ones and the bound address."""
    origins: tuple[str, ...] = ()
    """Web origins that may call from a browser; none by default."""
    app_origins: bool = False
    """Desktop apps and browser extensions may call: ``app://``, ``chrome-extension://``, ``null`` and similar
    origins."""
    loopback_origins: bool = False
    """Web pages served by this machine may call."""
    ollama_token: str = ""
    """The name of the token for programs on this machine that speak Ollama's API and send no key; empty: none."""
    ollama_port: int = 0
    """A second port for them, on the loopback address, without keys; 0: none."""
    list_for_claude: bool = False
    """List every model that Claude Code would not offer also as ``claude/NAME``, for Anthropic's clients."""
    keep_days: int = 400
    """Days for which call records are kept; their sums stay for ever."""
    refresh_models_h: int = 24
    """Hours between refreshes of model lists that patterns select from; 0: never."""
    stop_on_leave: bool = False
    """Whether leaving the console stops the server too."""
    token_streams: int = 32
    """Streams of one token at a time, unless the token has a limit; 0: no limit."""
    channel_calls: int = 64
    """Calls of one channel at a time, unless the channel has a limit; 0: no limit."""
    queue: int = 64
    """Calls that may wait at one such limit, unless its owner has a number."""
    queue_s: int = 10
    """Seconds that they may wait."""
    connections: int = 2048
    """Open connections of clients; 0: no limit. Fewer are possible if the system allows too few open files."""
    address_connections: int = 256
    """Open connections of one address of another machine; 0: no limit."""
    bodies_mib: int = 256
    """MiB of all request bodies together; 0: no limit."""
    answers_mib: int = 256
    """MiB of all answers together while they are gathered, or wait for their clients; 0: no limit."""
    responses_mib: int = 32
    """MiB of all responses that clients may continue; 0: none are kept."""
    memory_mib: int = 1024
    """MiB of the process above which new calls are rejected; 0: no limit."""
