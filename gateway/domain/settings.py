"""Settings: what the owner decides for the whole gateway. They are in the store."""

from enum import StrEnum

import msgspec

from gateway.domain.human_values import count_text


class Durability(StrEnum):
    """When records are synced. If only the process is killed, nothing is lost either way."""

    INTERVAL = "interval"
    """Every 100 ms, so that a power cut may lose the last calls and their charges."""
    CALL = "call"
    """Before the last byte of each answer."""


class ExpiringRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Call records that are deleted for good when they are kept for fewer days."""

    records: int = 0
    days: int = 0
    """How many days their calls began on."""

    @property
    def text(self) -> str:
        """Returns ``6,596 records of 21 days``."""
        return f"{count_text(self.records, 'record')} of {count_text(self.days, 'day')}"


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings. A new one is also a ``Field`` of ``SETTINGS`` in ``domain.fields``.

    Bounds are in ``control.validation``. In limits of calls, connections and memory, 0 means no limit.
    """

    refuse_unpriced: bool = False
    """Whether calls to unpriced models are refused, instead of counted at no cost."""
    strict_streams: bool = False
    """Whether a stream ends with an error at an unreadable event, instead of skipping one such event."""
    durability: Durability = Durability.INTERVAL
    hosts: tuple[str, ...] = ()
    """The host names that are accepted in addition to loopback names and the bound address."""
    origins: tuple[str, ...] = ()
    """The web origins that may call from a browser."""
    app_origins: bool = False
    """Whether apps and browser extensions may call, with origins such as ``app://`` and ``null``."""
    loopback_origins: bool = False
    """Whether web pages that this machine serves may call."""
    ollama_token: str = ""
    """The name of the token for programs on this machine that speak Ollama's API and send no key; empty if none."""
    ollama_port: int = 0
    """A second port for these programs on the loopback address, without keys; 0 for none."""
    list_for_claude: bool = False
    """Whether Anthropic's clients get models that Claude Code would not offer as ``claude/NAME`` too."""
    keep_days: int = 400
    """How many days call records are kept. Their sums are kept for ever."""
    refresh_models_h: int = 24
    """How often the model lists that patterns select from are refreshed, in hours; 0 for never."""
    stop_on_leave: bool = False
    """Whether leaving the console stops the server too."""
    token_streams: int = 32
    """The streams of one token at once, unless the token has a limit of its own."""
    channel_calls: int = 64
    """The calls of one channel at once, unless the channel has a limit of its own."""
    queue: int = 64
    """The calls that may wait for a free slot of one token, group or channel, unless it has a number of its own."""
    queue_s: int = 10
    """The seconds that they may wait."""
    connections: int = 2048
    """The open connections of clients. There may be fewer if the system allows too few open files."""
    address_connections: int = 256
    """The open connections from one address of another machine."""
    bodies_mib: int = 256
    """The memory of all request bodies together, in MiB."""
    answers_mib: int = 256
    """The memory of all answers together that are not sent yet, in MiB."""
    responses_mib: int = 32
    """The memory of all responses that clients may continue, in MiB; 0 keeps none."""
    memory_mib: int = 1024
    """The memory of the process above which new calls are rejected, in MiB."""
