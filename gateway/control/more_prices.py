"""More prices: prices that the price list lacks or has wrong, by vendor. They take precedence over its rows.

Each line has the dollars for a million tokens of input, output and cached input (``-`` if there is no such price), then
the vendor's names of the models. The price of cached input may be followed by ``/`` and that of cache writes, and again
by ``/`` and that of writes kept for an hour. At Bedrock, regions before a name say where the price applies; without
them it applies in the USA.

The amounts are those of the public price files of LiteLLM (November 2026) and models.dev (October 2026); Azure's Retail
Prices API confirms those for Azure. A model is left out if these sources differ on its price.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import chain

from gateway.domain.units import DOLLAR, Nanos

SOURCE = "in the price files of LiteLLM and models.dev, autumn 2026"

_HAIKU = "anthropic.claude-haiku-4-5"
SAME_PRICE = {
    "anthropic": {"claude-mythos-5": "claude-fable-5", "claude-mythos-5-1": "claude-fable-5-1"},
    "aws": {
        "openai.gpt-oss-120b": "openai.gpt-oss-120b-1:0",
        "openai.gpt-oss-20b": "openai.gpt-oss-20b-1:0",
        **{f"{at}{_HAIKU}": f"{at}{_HAIKU}-20251001-v1:0" for at in ("", "us.", "eu.")},
    },
    "azure": {"phi-4-mini": "phi-4-mini-instruct", "phi-4-multimodal": "phi-4-multimodal-instruct"},
    "deepseek": {
        **dict.fromkeys(("deepseek-chat", "deepseek-reasoner", "deepseek-v4-flash-vision-exp"), "deepseek-flash"),
        "deepseek-v3.2": "",
    },
    "fireworks": {
        "deepseek-flash-latest": "deepseek-v4p1-flash",
        "glm-fast-latest": "glm-5p3-fast",
        "glm-flash-latest": "glm-5p3-flash",
        "glm-latest": "glm-5p3",
        "kimi-fast-latest": "kimi-k3-fast",
        "kimi-latest": "kimi-k3",
        "minimax-latest": "minimax-m3",
        "qwen-max-latest": "qwen3p8-max",
    },
    "google": {
        **dict.fromkeys(
            ("deep-research-max-preview-04-2026", "deep-research-preview-04-2026"), "gemini-3.1-pro-preview"
        ),
        "gemini-2.5-computer-use-preview-10-2025": "gemini-2.5-pro",
    },
    "mistral": {
        "codestral-latest": "codestral-2508",
        "devstral-latest": "devstral-2512",
        "ministral-14b-latest": "ministral-14b-2512",
        "ministral-3b-latest": "ministral-3b-2512",
        "ministral-8b": "ministral-8b-2512",
        "mistral-medium": "mistral-medium-2604",
        **dict.fromkeys(("mistral-large", "mistral-large-latest"), ""),
    },
    "openai": {
        **dict.fromkeys(("daybreak-blue-latest", "gpt-daybreak-blue-latest"), "gpt-5.6-sol"),
        "gpt-5.3-codex-spark": "gpt-5.3-codex",
    },
    "x-ai": {
        **dict.fromkeys(("grok-code-fast", "grok-code-fast-1", "grok-code-fast-1-0825"), "grok-build-0.1"),
        "grok-build-latest": "grok-4.5",
        "grok-latest": "",
    },
}
"""The models whose prices apply to others, by vendor and the other's name. Empty: none applies, because the price list
has only an older model of that name."""

_ROWS = {
    "fireworks": """
        0.1 0 - qwen3-embedding-8b
        0.1 0.1 - phi-3-mini-128k-instruct
        0.15 0.5 0.03 ultramarine-1-flash-us
        0.15 0.6 - llama4-scout-instruct-basic qwen3-30b-a3b qwen3-coder-30b-a3b-instruct qwen3-vl-30b-a3b-instruct
        0.15 0.6 - qwen3-vl-30b-a3b-thinking
        0.15 0.6 0.015 minimax-m3p1-flash
        0.2 0.2 - mistral-nemo-base-2407 mistral-nemo-instruct-2407 phi-3-vision-128k-instruct
        0.21 0.84 0.0042 deepseek-v4p1-flash-1017-spot deepseek-v4p1-flash-spot
        0.22 0.66 0.007 deepseek-v4-flash-0731
        0.22 0.88 - glm-4p5-air qwen3-235b-a22b-instruct-2507 qwen3-235b-a22b-thinking-2507 qwen3-vl-235b-a22b-instruct
        0.22 0.88 - qwen3-vl-235b-a22b-thinking
        0.3 1.2 - minimax-m2
        0.3 1.2 0.03 minimax-m2p1
        0.35 1.5 0.04 muse-glimmer-30b
        0.45 1.8 - qwen3-coder-480b-a35b-instruct
        0.45 1.8 0.009 deepseek-v4p1-flash-1017-us deepseek-v4p1-flash-us
        0.5 0.5 - deepseek-coder-v2-lite-base deepseek-coder-v2-lite-instruct deepseek-v2-lite-chat firefunction-v1
        0.5 0.5 - gpt-oss-safeguard-20b qwen3-30b-a3b-instruct-2507
        0.55 2.19 - deepseek-r1-basic glm-4p5 glm-4p6
        0.56 1.68 - deepseek-v3p1 deepseek-v3p1-terminus
        0.6 2.2 0.3 glm-4p7
        0.6 2.5 - kimi-k2-instruct kimi-k2-instruct-0905 kimi-k2-thinking
        0.9 0.9 - deepseek-v3 devstral-small-2505 firefunction-v2 kat-coder qwen3-30b-a3b-thinking-2507
        0.9 0.9 - qwen3-next-80b-a3b-instruct qwen3-next-80b-a3b-thinking
        0.98 3.08 0.182 glm-5p3-spot
        1.2 1.2 - cogito-671b-v2-p1 dbrx-instruct deepseek-coder-v2-instruct deepseek-prover-v2 deepseek-v2p5 glm-4p5v
        1.2 1.2 - gpt-oss-safeguard-120b mistral-large-3-fp8
        2 6 0.25 qwen3p8-2p4t-a95b
        2.1 6.6 0.39 glm-5p3-fast glm-5p3-us
        2.1 10.5 0.21 kimi-k3-spot
        2.8 8.8 0.52 glm-5p1-fast
        3 3 - llama-v3p1-405b-instruct yi-large
        3 8 - deepseek-r1
        4.5 22.5 0.45 kimi-k3-fast kimi-k3-us
    """,
    "aws": """
        0.037 0.148 0.00925 apac.amazon.nova-micro-v1:0
        0.04 0.08 - google.gemma-4-e2b
        0.0412 0.0412 - ap-southeast-2/mistral.voxtral-mini-3b-2507
        0.042 0.168 0.0105 us-gov.amazon.nova-micro-v1:0
        0.05 0.05 - ap-northeast-1/mistral.voxtral-mini-3b-2507
        0.06 0.06 - eu-west-2/mistral.voxtral-mini-3b-2507
        0.063 0.252 0.01575 apac.amazon.nova-lite-v1:0
        0.07 0.2 - openai.gpt-oss-safeguard-20b
        0.07 0.4 - zai.glm-4.7-flash
        0.072 0.276 - us-gov.nvidia.nemotron-nano-9b-v2
        0.072 0.288 - us-gov.nvidia.nemotron-nano-3-30b
        0.072 0.288 0.018 us-gov.amazon.nova-lite-v1:0
        0.084 0.36 - us-gov.openai.gpt-oss-20b-1:0
        0.1 0 - amazon.titan-embed-g1-text-02 cohere.embed-english-v3 cohere.embed-multilingual-v3
        0.103 0.309 - ap-southeast-2/mistral.voxtral-small-24b-2507
        0.12 0 - cohere.embed-v4:0 global.cohere.embed-v4:0 us.cohere.embed-v4:0
        0.12 0.36 - ap-northeast-1/mistral.voxtral-small-24b-2507
        0.13 0.4 - google.gemma-4-26b-a4b
        0.14 0.4 - google.gemma-4-31b
        0.14 1.2 - qwen.qwen3-next-80b-a3b-instruct
        0.15 0.6 - openai.gpt-oss-safeguard-120b
        0.15 1.2 - qwen.qwen3-next-80b-a3b
        0.1545 1.236 - ap-southeast-2/qwen.qwen3-next-80b-a3b
        0.16 0.47 - eu-west-2/mistral.voxtral-small-24b-2507
        0.18 0.72 - us-gov.openai.gpt-oss-120b-1:0
        0.18 0.78 - us-gov.nvidia.nemotron-super-3-120b
        0.18 1.41 - ap-south-1,eu-west-1/qwen.qwen3-next-80b-a3b
        0.18 1.45 - ap-northeast-1,sa-east-1/qwen.qwen3-next-80b-a3b
        0.2 0.6 - nvidia.nemotron-nano-12b-v2
        0.22 0.88 - qwen.qwen3-235b-a22b-2507 qwen.qwen3-235b-a22b-2507-v1:0
        0.23 1.01 - eu-west-2/nvidia.nemotron-super-3-120b
        0.23 1.86 - eu-west-2/qwen.qwen3-next-80b-a3b
        0.24 0.72 - us-gov.nvidia.nemotron-nano-12b-v2
        0.3 1.2 - minimax.minimax-m2 minimax.minimax-m2.1 minimax.minimax-m2.5
        0.31 1.24 - ap-southeast-2/minimax.minimax-m2.5
        0.33 2.75 0.0825 amazon.nova-2-lite-v1:0
        0.36 1.44 - ap-northeast-1,ap-south-1,ap-southeast-3,sa-east-1/minimax.minimax-m2.1,minimax.minimax-m2.5
        0.36 1.44 - eu-central-1,eu-north-1,eu-south-1,eu-west-1/minimax.minimax-m2.1,minimax.minimax-m2.5
        0.396 3.311 0.099 apac.amazon.nova-2-lite-v1:0 jp.amazon.nova-2-lite-v1:0
        0.47 1.86 - eu-west-2/minimax.minimax-m2.1,minimax.minimax-m2.5
        0.5 0.7 - ai21.jamba-instruct-v1:0
        0.5 1.2 - qwen.qwen3-coder-next
        0.5 1.5 - amazon.titan-text-premier-v1:0
        0.58 1.68 - deepseek.v3-v1:0 deepseek.v3.1
        0.6 1.44 - ap-northeast-1,ap-south-1,ap-southeast-3,sa-east-1/qwen.qwen3-coder-next
        0.6 1.44 - eu-central-1,eu-south-1,eu-west-1/qwen.qwen3-coder-next
        0.6 2.2 - zai.glm-4.7
        0.6 2.5 - moonshot.kimi-k2-thinking moonshotai.kimi-k2-thinking
        0.6 3 - moonshotai.kimi-k2.5
        0.62 1.85 - deepseek.v3.2 us.deepseek.v3.2
        0.71 2.94 - ap-south-1/moonshotai.kimi-k2-thinking
        0.72 3.6 - ap-northeast-1,ap-south-1,ap-southeast-3,eu-north-1,sa-east-1/moonshotai.kimi-k2.5
        0.73 3.03 - ap-northeast-1,sa-east-1/moonshotai.kimi-k2-thinking
        0.74 2.22 - ap-northeast-1,ap-south-1,ap-southeast-3,eu-north-1,sa-east-1/deepseek.v3.2
        0.74 2.22 - eu.deepseek.v3.2
        0.75 1 - meta.llama2-13b-chat-v1
        0.78 1.86 - eu-west-2/qwen.qwen3-coder-next
        0.84 3.36 0.21 apac.amazon.nova-pro-v1:0
        0.96 3.84 0.24 us-gov.amazon.nova-pro-v1:0
        1 3.2 - zai.glm-5
        1.2 6 0.12/1.5/2.4 us-gov.anthropic.claude-haiku-4-5-20251001-v1:0
        1.25 2.5 0.2 xai.grok-4.3
        1.95 2.56 - meta.llama2-70b-chat-v1
        2 6 - eu.mistral.pixtral-large-2502-v1:0 mistral.mistral-large-2407-v1:0
        2 6 0.5 global.xai.grok-4.6 global.xai.grok-4.7
        2.2 6.6 0.55 us.xai.grok-4.6 us.xai.grok-4.7 xai.grok-4.6 xai.grok-4.7
        2.4 12 0.12/3/4.8 us-gov.anthropic.claude-sonnet-5-5
        2.4 12 0.24/3/4.8 us-gov.anthropic.claude-sonnet-5
        2.64 7.92 0.66 us-gov.xai.grok-4.6 us-gov.xai.grok-4.7
        3.6 18 0.36/4.5/7.2 us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0
        4.4 22 0.22/5.5 moonshotai.kimi-k3.1
        4.8 24 0.24/6/9.6 us-gov.anthropic.claude-opus-5-5
        6 30 0.6/7.5/12 us-gov.anthropic.claude-opus-4-8 us-gov.anthropic.claude-opus-5
        10 50 0.25/12.5/20 global.anthropic.claude-mythos-5-1
        11 55 0.275/13.75/22 us.anthropic.claude-mythos-5-1
        11 55 1.1/13.75/22 us.anthropic.claude-mythos-5
        12 60 0.3/15/24 us-gov.anthropic.claude-fable-5-1
    """,
    "azure": """
        0.04 0.04 - ministral-3b
        0.06 0.22 0.01 fw-nemotron-lightning-3.5-30b-a3b
        0.075 0.3 - phi-4-mini-reasoning
        0.08 0 - cohere-embed-v5-fast
        0.1 0 - cohere-embed-v3-english cohere-embed-v3-multilingual
        0.1 0.3 - mistral-small-2503
        0.12 0 - cohere-embed-v-4-0 cohere-embed-v5-pro embed-v-4-0
        0.125 0.5 - phi-4-reasoning
        0.15 0.15 - mistral-nemo
        0.15 0.31 0.03 fw-deepseek-v4-flash
        0.15 0.6 - gpt-oss-120b
        0.165 0.66 0.082 fw-gpt-oss-120b
        0.188 0.625 0.038 fw-glm-5.3-flash
        0.19 0.51 0.028 deepseek-v4-flash
        0.2 0.78 - llama-4-scout-17b-16e-instruct
        0.2 1.2 0.02 mai-code-1.1-flash
        0.2 1.5 - grok-code-fast-1
        0.25 1 - llama-4-maverick-17b-128e-instruct-fp8
        0.25 1.27 - grok-3-mini
        0.3 0.9 - codestral-2501
        0.3 1.2 0.006 deepseek-v4.1-flash
        0.33 1.32 0.033 fw-minimax-m2.5
        0.33 1.32 0.066 fw-minimax-m3
        0.375 1.5 0.008 fw-deepseek-v4.1-flash
        0.4 2 - mistral-medium-2505
        0.44 1.32 0.014 deepseek-v4-flash-0731
        0.5 1.5 - mistral-large-3
        0.58 1.68 - deepseek-v3.2 deepseek-v3.2-speciale
        0.6 2.5 - kimi-k2-thinking
        0.6 3 0.1 kimi-k2.5
        0.6 3.5 0.06 mai-cyber-1-flash
        0.62 1.85 0.31 fw-deepseek-v3.2
        0.66 2.64 0.13 fw-nemotron-3-ultra-nvfp4
        0.66 3.3 0.11 fw-kimi-k2.5
        0.71 0.71 - llama-3.3-70b-instruct
        0.95 4 0.16 kimi-k2.6
        0.95 4 0.19 kimi-k2.7-code
        1.045 4.4 0.176 fw-kimi-k2.6
        1.05 4.4 0.21 fw-kimi-k2.7-code
        1.1 3.52 0.22 fw-glm-5
        1.1 4.46 0.19 fw-inkling
        1.14 4.56 - deepseek-v3-0324
        1.23 4.94 - deepseek-v3.1
        1.25 2.5 1.25 grok-4-20-non-reasoning grok-4-20-reasoning
        1.35 5.4 - deepseek-r1
        1.5 7.5 - mistral-medium-3-5
        1.54 4.84 0.15 fw-glm-5.2
        1.54 4.84 0.286 fw-glm-5.1
        1.74 3.48 0.145 deepseek-v4-pro
        1.75 5.5 0.325 fw-glm-5.3
        1.925 3.828 0.165 fw-deepseek-v4-pro
        2 8 0.2 mai-thinking-1
        2.31 7.26 0.231 fw-glm-5.2-fast
        2.5 10 - cohere-command-a
        3 15 0.3 fw-kimi-k3
        5 30 0.5 chat-latest gpt-chat-latest
        10 30 - gpt-4-turbo-vision
    """,
    "together": """
        0.02 0.02 - qwen/qwen2-1.5b-instruct
        0.03 0.12 - liquidai/lfm2-24b-a2b
        0.045 0.15 - arcee-ai/trinity-mini
        0.05 0.2 - openai/gpt-oss-20b
        0.06 0.06 - meta-llama/llama-3.2-1b-instruct meta-llama/llama-3.2-3b-instruct
        0.06 0.12 - google/gemma-3n-e4b-it
        0.1 0.1 - arize-ai/qwen-2-1.5b-instruct
        0.14 0.28 0.03 deepseek-ai/deepseek-v4-flash-0731
        0.15 0.15 - essentialai/rnj-1-instruct
        0.2 0.2 - meta-llama/meta-llama-3.1-8b mistralai/ministral-3-14b-instruct-2512
        0.2 0.2 - mistralai/mistral-7b-instruct-v0.3
        0.2 0.6 - qwen/qwen3-235b-a22b-instruct-2507-tput
        0.28 0.86 - pearl-ai/gemma-4-31b-it
        0.3 0.3 - qwen/qwen2.5-7b-instruct-turbo
        0.3 1.2 0.06 minimaxai/minimax-m2.5 minimaxai/minimax-m2.7
        0.39 0.97 - google/gemma-4-31b-it
        0.5 1.2 - qwen/qwen3-coder-next-fp8
        0.5 2.8 - moonshotai/kimi-k2.5-fp4
        0.6 1.7 - deepseek-ai/deepseek-v3-1
        0.6 2.2 - zai-org/glm-4.6
        0.6 3.6 0.2 nvidia/nemotron-3-ultra-550b-a55b
        0.6 3.6 0.35 qwen/qwen3.5-397b-a17b
        0.8 0.8 - qwen/qwen2.5-14b-instruct
        0.95 4 0.19 moonshotai/kimi-k2.7-code
        1 3 - moonshotai/kimi-k2-instruct
        1 3.2 - zai-org/glm-5
        1.04 1.04 - meta-llama/llama-3.3-70b-instruct-turbo
        1.2 1.2 - qwen/qwen2.5-72b-instruct
        1.2 4.5 0.2 moonshotai/kimi-k2.6
        1.25 1.25 - deepcogito/cogito-v2-1-671b deepseek-ai/deepseek-v3
        1.4 4.4 0.26 zai-org/glm-5.1
        1.74 3.48 0.2 deepseek-ai/deepseek-v4-pro
        2 2 - qwen/qwen3-coder-480b-a35b-instruct-fp8
        3 7 - deepseek-ai/deepseek-r1 deepseek-ai/deepseek-r1-0528
        3.5 3.5 - meta-llama/llama-3.1-405b-instruct
    """,
    "mistral": """
        0.1 0.1 0.01 ministral-3-3b-2512
        0.1 0.3 0.01 mistral-small
        0.15 0.15 0.015 ministral-3-8b-2512
        0.15 0.6 0.015 mistral-vibe-cli-fast
        0.2 0.2 0.02 ministral-3-14b-2512
        0.3 0.9 0.03 mistral-code-fim-latest mistral-code-latest
        0.4 2 - devstral-medium-2507
        0.4 2 0.04 devstral-medium-latest mistral-code-agent-latest
        0.5 1.5 0.05 mistral-large-3
        1.4 4.4 0.14 glm-5-2 zai-glm-5 zai-glm-5-2 zai-glm-latest
        1.5 7.5 0.15 mistral-vibe-cli-latest mistral-vibe-cli-with-tools
    """,
    "google": """
        0.07 0.25 0.007 gpt-oss-20b-maas
        0.09 0.36 - gpt-oss-120b-maas
        0.1 0.3 - mistral-small-2503
        0.2 0.5 0.05 grok-4.1-fast-non-reasoning grok-4.1-fast-reasoning
        0.2 0.6 - codestral-2501
        0.22 0.88 - qwen3-235b-a22b-instruct-2507-maas
        0.25 0.7 - llama-4-scout-17b-128e-instruct-maas llama-4-scout-17b-16e-instruct-maas
        0.3 0.9 - codestral-2
        0.3 1.2 0.03 deepseek-v4.1-flash-maas
        0.35 1.15 - llama-4-maverick-17b-128e-instruct-maas llama-4-maverick-17b-16e-instruct-maas
        0.4 2 - mistral-medium-3
        0.56 1.68 0.056 deepseek-v3.2-maas
        0.6 1.7 0.06 deepseek-v3.1-maas
        0.6 2.2 0.06 glm-4.7-maas
        0.6 2.5 0.06 kimi-k2-thinking-maas
        0.72 0.72 - llama-3.3-70b-instruct-maas
        1 3.2 0.1 glm-5-maas
        1.4 4.4 0.14 glm-5.2-maas
        2 6 - mistral-large-2411
        5 16 - llama-3.1-405b-instruct-maas
    """,
    "groq": """
        0.6 3 0.3 qwen/qwen3.6-27b
    """,
    "openai": """
        0.2 0.8 0.05 ft:gpt-4.1-nano
        0.3 1.2 0.15 ft:gpt-4o-mini
        0.8 3.2 0.2 ft:gpt-4.1-mini
        3 12 0.75 ft:gpt-4.1
        3.75 15 1.875 ft:gpt-4o
        4 16 1 ft:o4-mini
        5 30 0.5 chat-latest
    """,
    "cohere": """
        0.0375 0.15 - command-r7b-arabic-02-2025
        0.08 0 - embed-v5.0-fast
        0.1 0 - embed-english-v3.0 embed-multilingual-v3.0
        0.12 0 - embed-v5.0-pro
        2.5 10 - command-a-reasoning-08-2025 command-a-translate-08-2025 command-a-vision-07-2025
    """,
}

_FIELDS = ("input", "output", "cached_input", "cache_write", "cache_write_long")


@lru_cache(maxsize=16)
def more_prices(vendor: str) -> Mapping[str, dict[str, Nanos]]:
    """Returns a vendor's prices by the model's name in lower case. Each has nano-dollars by the field of ``Price``."""
    prices: dict[str, dict[str, Nanos]] = {}
    for line in _ROWS.get(vendor, "").splitlines():
        if line.strip():
            input_, output, cached, *names = line.split()
            columns = zip(_FIELDS, (input_, output, *cached.split("/")), strict=False)
            amounts = {name: Nanos(int(Decimal(amount) * DOLLAR)) for name, amount in columns if amount != "-"}
            prices |= dict.fromkeys(chain(*map(_expand_name, names)), amounts)
    return prices


def _expand_name(name: str) -> list[str]:
    """Returns all names that ``eu-west-1,eu-west-2/model-a,model-b`` stands for."""
    prefixes, slash, models = name.partition("/")
    return [f"{prefix}{slash}{model}" for prefix in prefixes.split(",") for model in models.split(",")]
