"""Vendors: what is known about vendors and model servers, as one table.

A new preset is a row in ``PRESETS``. A channel's row is found by its preset, or else by its base URL's host; an unknown
upstream gets ``PLAIN``. The facts are from the vendors' documentation and sources as of the middle of 2026.
"""

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.domain.channel import Channel, Dialect, TokenLimitField
from gateway.upstream.answer_formats import NO_JSON
from gateway.upstream.message_rules import NO_NULLS, SHORT_IDS
from gateway.upstream.refused_params import MESSAGES, ROLE

_OPENAI_ONLY = frozenset(
    {
        *("audio", "metadata", "modalities", "moderation", "prediction", "prompt_cache_key", "prompt_cache_retention"),
        *("safety_identifier", "service_tier", "store", "verbosity", "web_search_options"),
    }
)
"""Fields that few vendors but OpenAI know. Strict ones refuse them, and many errors name only the first."""
_MESSAGE_EXTRAS = tuple(
    MESSAGES + name
    for name in (
        *("name", "reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "function_call"),
        *("refusal", "annotations", "audio", "parsed"),
    )
)
"""Fields of messages of OpenAI and others. Other unknown ones are refused by name, all at once, and so learned."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream: where it is and how a request must be changed for it. The defaults change nothing."""

    name: str
    dialect: Dialect = Dialect.OPENAI
    """The dialect of its channels by default."""
    base_url: str = ""
    """The base URL; empty if it has no fixed one."""
    key_variable: str = ""
    """The environment variable of the key in its own documentation, or an empty string."""
    hosts: tuple[str, ...] = ()
    """Patterns of ``host:port``: any port of a vendor's own host, or any host of a server known by its port."""
    key_header: str = ""
    """The header of the key; empty if it is sent as a bearer token."""
    token_limit_field: TokenLimitField = TokenLimitField.KEEP
    """The name of the output limit."""
    reasoning_models: tuple[str, ...] = ()
    """Patterns of the models whose output limit is called ``max_completion_tokens`` instead."""
    allow: frozenset[str] = frozenset()
    """If not empty, the only top-level fields that it accepts."""
    rules: tuple[str, ...] = ()
    """What it refuses: names of fields and of rules, as in ``request_rules``."""
    rename: tuple[tuple[str, str], ...] = ()
    """Pairs of a top-level field and its name at the vendor."""
    suspects: tuple[frozenset[str], ...] = (_OPENAI_ONLY,)
    """Sets of top-level fields. If it refuses one of a set for a model, the whole set is left out for a while."""
    strict_messages: bool = False
    """Whether it refuses a message with unknown fields such as ``reasoning_content``."""
    completions_root: str = ""
    """What precedes ``/completions`` instead of the version at the end of the base URL; empty if it is the same."""
    reasoning_back: bool = False
    """Whether it refuses tool calls that come back without the ``reasoning_content`` before them."""
    heeds_tool_choice: bool = True
    """Whether its Messages API obeys ``tool_choice``."""
    responses: bool | None = None
    """Whether it has the Responses API; None if the first call finds that out."""
    reads_signatures: bool = False
    """Whether tool calls may have Google's thought signatures."""

    def accepts(self, name: str) -> bool:
        """Returns whether it accepts a top-level field."""
        return name not in self.rules and (not self.allow or name in self.allow)

    def limit_field(self, upstream_model: str) -> TokenLimitField:
        """Returns the name of the output limit for this model."""
        is_reasoning = any(fnmatchcase(upstream_model, pattern) for pattern in self.reasoning_models)
        return TokenLimitField.MAX_COMPLETION_TOKENS if is_reasoning else self.token_limit_field


PLAIN = Vendor(name="")
"""The row of an unknown vendor."""

_SAMPLING = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"})
"""Sampling parameters that thinking models refuse."""


def _remote(name: str, base_url: str, **facts: Any) -> Vendor:
    """Returns a vendor at its own host. By default its key is in a variable that is named after it."""
    defaults = {"hosts": (f"{urlsplit(base_url).netloc}:*",), "key_variable": f"{name.upper()}_API_KEY"}
    return Vendor(name=name, base_url=base_url, **defaults | facts)


def _local(name: str, port: int, **facts: Any) -> Vendor:
    """Returns a server that usually runs on this machine, at the port in its documentation."""
    return Vendor(name=name, base_url=f"http://127.0.0.1:{port}/v1", hosts=(f"*:{port}",), **facts)


OPENAI = _remote(
    "openai",
    "https://api.openai.com/v1",
    reasoning_models=("o1*", "o3*", "o4*", "gpt-5*", "gpt-6*"),
    suspects=(_SAMPLING | {"logit_bias", "logprobs", "top_logprobs"},),
    responses=True,
    strict_messages=True,
)

OPENROUTER = _remote("openrouter", "https://openrouter.ai/api/v1", responses=True)

PRESETS = {
    row.name: row
    for row in (
        OPENAI,
        # also for its API in OpenAI's dialect at the same host
        _remote("anthropic", "https://api.anthropic.com/v1", dialect=Dialect.ANTHROPIC, responses=False),
        # without a host, because its OpenAI-compatible API, with another row, is at the same one
        _remote("gemini", "https://generativelanguage.googleapis.com/v1beta", dialect=Dialect.GEMINI, hosts=()),
        OPENROUTER,
        _remote(
            "deepseek",
            "https://api.deepseek.com",
            completions_root="/beta",
            token_limit_field=TokenLimitField.MAX_TOKENS,
            reasoning_back=True,
            rules=(ROLE,),
            responses=False,
        ),
        _remote(
            "groq",
            "https://api.groq.com/openai/v1",
            rules=(
                "logprobs",
                "top_logprobs",
                "logit_bias",
                MESSAGES + "name",
                MESSAGES + "reasoning_content",
                NO_NULLS,
            ),
            suspects=(_OPENAI_ONLY - {"service_tier"},),
            responses=True,
            strict_messages=True,
        ),
        _remote(
            "mistral",
            "https://api.mistral.ai/v1",
            hosts=("api.mistral.ai:*", "codestral.mistral.ai:*"),
            token_limit_field=TokenLimitField.MAX_TOKENS,
            rename=(("seed", "random_seed"),),
            rules=("stream_options", ROLE, SHORT_IDS, *_MESSAGE_EXTRAS),  # usage comes on the last chunk, unasked
            allow=frozenset(
                {
                    *("model", "messages", "temperature", "top_p", "max_tokens", "stream", "stop"),
                    *("random_seed", "metadata", "response_format", "tools", "tool_choice"),
                    *("presence_penalty", "frequency_penalty", "n", "prediction"),
                    *("parallel_tool_calls", "prompt_mode", "reasoning_effort", "safe_prompt"),
                    *("guardrails", "prompt_cache_key"),
                }
            ),
            responses=False,
            strict_messages=True,
        ),
        _remote("together", "https://api.together.xyz/v1", hosts=("api.together.xyz:*", "api.together.ai:*")),
        _remote(
            "xai",
            "https://api.x.ai/v1",
            suspects=(_OPENAI_ONLY, frozenset({"frequency_penalty", "presence_penalty"})),
            responses=True,
        ),
        _remote("fireworks", "https://api.fireworks.ai/inference/v1"),
        _remote(
            "cerebras",
            "https://api.cerebras.ai/v1",
            rules=("frequency_penalty", "presence_penalty", "logit_bias", MESSAGES + "reasoning_content", ROLE),
            responses=False,
            strict_messages=True,
        ),
        _remote("nvidia", "https://integrate.api.nvidia.com/v1"),
        _remote("huggingface", "https://router.huggingface.co/v1", key_variable="HF_TOKEN"),
        _remote(
            "moonshot",
            "https://api.moonshot.ai/v1",
            hosts=("api.moonshot.ai:*", "api.moonshot.cn:*"),
            suspects=(_OPENAI_ONLY, _SAMPLING),
            reasoning_back=True,
            rules=(ROLE,),
            responses=False,
        ),
        _remote("deepinfra", "https://api.deepinfra.com/v1/openai"),
        _remote("sambanova", "https://api.sambanova.ai/v1"),
        msgspec.structs.replace(
            OPENAI,  # a deployment may have any name; if the patterns do not match it, the channel sets the field
            name="azure",
            base_url="",
            key_variable="",
            hosts=("*.openai.azure.com:*", "*.services.ai.azure.com:*", "*.cognitiveservices.azure.com:*"),
            key_header="api-key",
        ),
        _remote(
            "gemini-openai",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            allow=frozenset(
                {
                    *("model", "messages", "temperature", "top_p", "max_tokens"),
                    *("max_completion_tokens", "n", "stream", "stop", "stream_options", "tools"),
                    *("tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort"),
                    *("presence_penalty", "frequency_penalty", "seed", "logprobs", "top_logprobs"),
                    *("extra_body", "modalities", "audio"),
                }
            ),
            responses=False,
            reads_signatures=True,
            strict_messages=True,
            key_variable="",
        ),
        _local(
            "ollama",
            11434,
            token_limit_field=TokenLimitField.MAX_TOKENS,  # the other one is silently ignored
            rules=(ROLE, NO_NULLS),
            heeds_tool_choice=False,
            responses=True,
        ),
        _local("lmstudio", 1234, rules=(ROLE, NO_JSON), responses=True),
        _local("llamacpp", 8080, rules=(ROLE,)),
        _local("vllm", 8000, rules=(ROLE,), responses=True),
        _local("jan", 1337, rules=(ROLE,)),
        _local("koboldcpp", 5001, rules=(ROLE,)),
        # for a channel whose host has a row that does not apply to it
        Vendor(name="plain", suspects=()),
    )
}
"""The presets by name, in the order they are offered."""

LOCAL = tuple(row.name for row in PRESETS.values() if row.base_url.startswith("http://127.0.0.1:"))
"""The names of servers that usually run on this machine, at the ports in their own documentation."""


def vendor_of(channel: Channel) -> Vendor:
    """Returns the row of a channel, or ``PLAIN``."""
    return find_vendor(channel.preset, channel.base_url)


def speaks_responses(channel: Channel) -> bool:
    """Returns whether a channel speaks the Responses API, or may, which its first call finds out."""
    return channel.dialect is Dialect.OPENAI and vendor_of(channel).responses is not False


@lru_cache(maxsize=256)
def find_vendor(preset: str, base_url: str) -> Vendor:
    """Returns the row for a preset and a base URL, or ``PLAIN``."""
    if preset:
        return PRESETS.get(preset, PLAIN)
    try:
        parts = urlsplit(base_url)
        place = f"{parts.hostname or ''}:{parts.port or ''}"
    except ValueError:
        return PLAIN
    return next((row for row in PRESETS.values() if any(fnmatchcase(place, host) for host in row.hosts)), PLAIN)
