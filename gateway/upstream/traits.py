"""Traits: what is known of upstreams that speak OpenAI's dialect, as one table. Model line-ups change: rows, not code.

A channel's row is found by its preset, else by the host of its base URL; an unknown upstream gets ``PLAIN``. Facts are
from the vendors' documentation and sources, read in the middle of 2026.
"""

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec

from gateway.domain.channel import TokenLimitField


class Auth(StrEnum):
    """Where the key goes."""

    BEARER = "bearer"
    API_KEY = "api-key"


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """What differs for some models of an upstream."""

    patterns: tuple[str, ...]
    """Upstream names, as in a shell."""
    token_limit_field: TokenLimitField


class Swap(msgspec.Struct, frozen=True):
    """A value that has another name there. Values are JSON texts."""

    field: str
    """Top-level field."""
    found: bytes
    instead: bytes


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream: where it is and how a request must be changed for it. The defaults change nothing."""

    name: str
    base_url: str = ""
    """Empty: it has no fixed place."""
    hosts: tuple[str, ...] = ()
    """Host patterns, with ``:port`` for servers known by their port."""
    auth: Auth = Auth.BEARER
    token_limit_field: TokenLimitField = TokenLimitField.KEEP
    models: tuple[ModelRow, ...] = ()
    """The first row that fits wins."""
    allow: frozenset[str] = frozenset()
    """If not empty: only these top-level fields are accepted there."""
    deny: frozenset[str] = frozenset()
    """Top-level fields it refuses."""
    rename: tuple[tuple[str, str], ...] = ()
    """Top-level fields that have another name there."""
    swaps: tuple[Swap, ...] = ()
    message_allow: frozenset[str] = frozenset()
    """If not empty: only these fields of a message are accepted there."""
    message_deny: frozenset[str] = frozenset()
    stream_options: bool = True
    """It can be asked for the usage of a stream."""
    empty_content: bool = False
    """``content: null`` of a message without tool calls must be sent as ``""``."""
    drop_nulls: bool = False
    """Null fields of assistant messages must be left out."""
    short_tool_ids: bool = False
    """Ids of tool calls must be nine letters and digits."""

    @property
    def edits_messages(self) -> bool:
        """Whether the messages must be opened."""
        return bool(
            self.message_allow or self.message_deny or self.empty_content or self.drop_nulls or self.short_tool_ids
        )

    def limit_field(self, upstream_model: str) -> TokenLimitField:
        """The name of the output limit that this model takes."""
        for row in self.models:
            if any(fnmatchcase(upstream_model, pattern) for pattern in row.patterns):
                return row.token_limit_field
        return self.token_limit_field


PLAIN = Traits(name="")
"""Nothing is known: the request goes out as it came."""

_REASONING = ModelRow(
    patterns=("o1*", "o3*", "o4*", "gpt-5*", "gpt-6*"), token_limit_field=TokenLimitField.MAX_COMPLETION_TOKENS
)

OPENAI = Traits(name="openai", base_url="https://api.openai.com/v1", hosts=("api.openai.com",), models=(_REASONING,))

ANTHROPIC = Traits(name="anthropic", base_url="https://api.anthropic.com/v1", hosts=("api.anthropic.com",))
"""The place of the vendor's own dialect and of OpenAI's."""

AZURE = Traits(
    name="azure",
    hosts=("*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com"),
    auth=Auth.API_KEY,
    models=(_REASONING,),  # the model is a deployment's name, which may say nothing: the channel can set the field
)

OPENROUTER = Traits(
    name="openrouter",
    base_url="https://openrouter.ai/api/v1",
    hosts=("openrouter.ai",),
    swaps=(Swap("reasoning_effort", b'"max"', b'"xhigh"'),),
)

DEEPSEEK = Traits(
    name="deepseek",
    base_url="https://api.deepseek.com",
    hosts=("api.deepseek.com",),
    token_limit_field=TokenLimitField.MAX_TOKENS,
)

GROQ = Traits(
    name="groq",
    base_url="https://api.groq.com/openai/v1",
    hosts=("api.groq.com",),
    deny=frozenset({"logprobs", "top_logprobs", "logit_bias"}),
    message_deny=frozenset({"name"}),
    drop_nulls=True,
)

MISTRAL = Traits(
    name="mistral",
    base_url="https://api.mistral.ai/v1",
    hosts=("api.mistral.ai", "codestral.mistral.ai"),
    token_limit_field=TokenLimitField.MAX_TOKENS,
    rename=(("seed", "random_seed"),),
    swaps=(Swap("tool_choice", b'"required"', b'"any"'),),
    stream_options=False,  # usage comes on the last chunk, unasked
    allow=frozenset(
        {
            "model",
            "messages",
            "temperature",
            "top_p",
            "max_tokens",
            "stream",
            "stop",
            "random_seed",
            "metadata",
            "response_format",
            "tools",
            "tool_choice",
            "presence_penalty",
            "frequency_penalty",
            "n",
            "prediction",
            "parallel_tool_calls",
            "prompt_mode",
            "reasoning_effort",
            "safe_prompt",
            "guardrails",
            "prompt_cache_key",
        }
    ),
    message_allow=frozenset({"role", "content", "tool_calls", "tool_call_id", "prefix"}),
    short_tool_ids=True,
)

TOGETHER = Traits(
    name="together", base_url="https://api.together.xyz/v1", hosts=("api.together.xyz", "api.together.ai")
)

GEMINI = Traits(
    name="gemini-openai",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    hosts=("generativelanguage.googleapis.com",),
    allow=frozenset(
        {
            "model",
            "messages",
            "temperature",
            "top_p",
            "max_tokens",
            "max_completion_tokens",
            "n",
            "stream",
            "stop",
            "stream_options",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "response_format",
            "reasoning_effort",
            "presence_penalty",
            "frequency_penalty",
            "seed",
            "logprobs",
            "top_logprobs",
            "extra_body",
            "modalities",
            "audio",
        }
    ),
)

OLLAMA = Traits(
    name="ollama",
    base_url="http://127.0.0.1:11434/v1",
    hosts=("*:11434",),
    token_limit_field=TokenLimitField.MAX_TOKENS,  # the other one is silently ignored: the output has no bound
    empty_content=True,
)

LMSTUDIO = Traits(
    name="lmstudio",
    base_url="http://127.0.0.1:1234/v1",
    hosts=("*:1234",),
    swaps=(Swap("response_format", b'{"type":"json_object"}', b'{"type":"text"}'),),
)

LLAMACPP = Traits(name="llamacpp", base_url="http://127.0.0.1:8080/v1", hosts=("*:8080",))

VLLM = Traits(name="vllm", base_url="http://127.0.0.1:8000/v1", hosts=("*:8000",))

PRESETS = {
    row.name: row
    for row in (
        OPENAI,
        ANTHROPIC,
        AZURE,
        OPENROUTER,
        DEEPSEEK,
        GROQ,
        MISTRAL,
        TOGETHER,
        GEMINI,
        OLLAMA,
        LMSTUDIO,
        LLAMACPP,
        VLLM,
    )
}
"""By name; the order is the one to offer them in."""


@lru_cache(maxsize=256)
def traits_of(preset: str, base_url: str) -> Traits:
    """The row for a channel's preset and base URL. An unknown preset changes nothing."""
    if preset:
        return PRESETS.get(preset, PLAIN)
    try:
        parts = urlsplit(base_url)
        place = f"{parts.hostname or ''}:{parts.port or ''}"
    except ValueError:
        return PLAIN
    for row in PRESETS.values():
        if any(fnmatchcase(place, host if ":" in host else host + ":*") for host in row.hosts):
            return row
    return PLAIN
