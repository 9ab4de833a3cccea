"""Settings: what the owner decides for the whole gateway, kept in the store."""

from enum import StrEnum

import msgspec

from gateway.domain.human_values import count_text


class Durability(StrEnum):
    """When a settlement counts as safe from a power cut. A kill of the process loses nothing either way."""

    INTERVAL = "interval"
    """Synced every 100 ms: a power cut may lose the last of them, calls and charges alike."""
    CALL = "call"
    """The answer's last byte waits for its own sync."""


class ExpiringRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records of calls that are deleted for good when they are kept for fewer days."""

    records: int = 0
    days: int = 0
    """On so many days their calls began."""

    @property
    def text(self) -> str:
        """``6,596 records of 21 days``."""
        return f"{count_text(self.records, 'record')} of {count_text(self.days, 'day')}"


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Gateway-wide choices. A new one is also a ``Field`` of ``SETTINGS`` in ``domain.fields``.

    Bounds are in ``control.validation``.
    """

    refuse_unpriced: bool = False
    """Refuse calls to models without a price instead of counting them at no cost."""
    strict_streams: bool = False
    """End a stream with an error at an event that cannot be read, instead of leaving out one."""
    durability: Durability = Durability.INTERVAL
    hosts: tuple[str, ...] = ()
    """Host names accepted beside the loopback ones and the bound address."""
    origins: tuple[str, ...] = ()
    """Web origins that may call from a browser; none by default."""
    app_origins: bool = False
    """Desktop apps and browser extensions may call: ``app://``, ``chrome-extension://``, ``null`` and the like."""
    loopback_origins: bool = False
    """Web pages that this machine serves may call."""
    ollama_token: str = ""
    """Name of the token that programs of this machine use which speak Ollama's API and send no key; empty: none."""
    ollama_port: int = 0
    """A second port for them, on the loopback address, where no request needs a key; 0: none."""
    list_for_claude: bool = False
    """Anthropic's clients find every model whose name Claude Code would not offer also as ``claude/NAME``."""
    keep_days: int = 400
    """How long call records are kept; their sums stay for ever."""
    refresh_models_h: int = 24
    """Hours between refreshes of the upstreams' model lists that patterns select from; 0: never."""
    stop_on_leave: bool = False
    """Whether leaving the console stops the server, too."""
    token_streams: int = 32
    """Streams of one token at a time, where the token does not say; 0: no limit."""
    channel_calls: int = 64
    """Calls of one channel at a time, where the channel does not say; 0: no limit."""
    queue: int = 64
    """Calls that may wait for a place at one such limit, where its owner does not say."""
    queue_s: int = 10
    """Seconds they may wait for it."""
    connections: int = 2048
    """Open connections of clients; 0: no limit. Fewer are possible where the system allows too few open files."""
    address_connections: int = 256
    """Those of one address of another machine; 0: no limit."""
    bodies_mib: int = 256
    """All request bodies together; 0: no limit."""
    answers_mib: int = 256
    """All answers together while they are gathered, or wait for their clients; 0: no limit."""
    responses_mib: int = 32
    """Responses that clients may go on from, all together; 0: none are kept."""
    memory_mib: int = 1024
    """Memory of the process above which new calls are rejected; 0: no limit."""
