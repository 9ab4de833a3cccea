"""Names of models as they are in use, and the list price they have, in dollars for a million tokens."""

import pytest

from gateway.control.list_rows import size_price
from gateway.control.vendor_prices import load_price_list
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.price import Price, in_force, rates
from gateway.domain.units import DOLLAR, MILLION, ChannelId, Millis

NOW = Millis(1_795_737_600_000)
"""2026-11-27."""

OPENAI = "https://api.openai.com/v1"
VERTEX = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi"
IOWA = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/endpoints/openapi"
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
GOVERNMENT = "https://bedrock-runtime.us-gov-west-1.amazonaws.com/openai/v1"
FRANKFURT = "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1"
MANTLE = "https://bedrock-mantle.us-east-1.api.aws/v1"
AZURE = "https://mine.openai.azure.com/openai/v1"
FOUNDRY = "https://mine.services.ai.azure.com/openai/v1"
MISTRAL = "https://api.mistral.ai/v1"
FIREWORKS = "https://api.fireworks.ai/inference/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
XAI = "https://api.x.ai/v1"
HUGGING_FACE = "https://router.huggingface.co/v1"
ARN = "arn:aws:bedrock:"


def channel(url: str) -> Channel:
    return Channel(id=ChannelId("c"), name="c", dialect=Dialect.OPENAI, base_url=url)


async def listed(url: str, name: str) -> Price:
    price = load_price_list(NOW).find(channel(url), ServedModel(name=name))
    assert price is not None
    return price


@pytest.mark.parametrize(
    ("url", "name", "first", "second"),
    [
        (VERTEX, "google/gemini-3.1-pro-preview", 2, 12),
        (VERTEX, "publishers/google/models/gemini-2.5-flash", 0.3, 2.5),
        (VERTEX, "claude-sonnet-4-5@20250929", 3, 15),
        (VERTEX, "claude-haiku-4-5@default", 1, 5),
        ("https://api.together.ai/v1", "MiniMaxAI/MiniMax-M3", 0.3, 1.2),
        ("https://api.together.xyz/v1", "MiniMaxAI/MiniMax-M3", 0.3, 1.2),
        ("https://codestral.mistral.ai/v1", "codestral-latest", 0.3, 0.9),
        (MISTRAL, "devstral-latest", 0.4, 2),
        (MISTRAL, "ministral-3b-latest", 0.1, 0.1),
        (MISTRAL, "ministral-14b-latest", 0.2, 0.2),
        (MISTRAL, "mistral-medium", 1.5, 7.5),
        (MISTRAL, "mistral-large-2411", 2, 6),
        (OPENAI, "ft:gpt-4.1-2025-04-14:acme::Ab12", 3, 12),
        (OPENAI, "ft:gpt-4.1-mini-2025-04-14:acme:bot:Ab12", 0.8, 3.2),
        (OPENAI, "ft:gpt-4.1-nano", 0.2, 0.8),
        (OPENAI, "ft:gpt-4o-2024-08-06:acme::Ab12", 3.75, 15),
        (OPENAI, "gpt-daybreak-blue-latest", 4, 20),
        (OPENAI, "gpt-5-search-api-2025-10-14", 1.25, 10),
        (XAI, "grok-4.20-beta-0309-reasoning", 1.25, 2.5),
        (XAI, "grok-4.20-experimental-beta-0304", 1.25, 2.5),
        (XAI, "grok-4.20-non-reasoning-latest", 1.25, 2.5),
        ("https://us-east-1.api.x.ai/v1", "grok-4.3", 1.25, 2.5),
        (XAI, "grok-code-fast-1", 1, 2),
        (VERTEX, "xai/grok-4.6", 2, 6),
        (VERTEX, "mistralai/mistral-medium-3@001", 0.4, 2),
        ("https://api.deepseek.com", "deepseek-chat", 0.15, 0.6),
        ("https://api.deepseek.com", "deepseek-v4-flash-vision-exp", 0.15, 0.6),
        ("https://api.anthropic.com/v1", "claude-mythos-5-1", 10, 50),
        (OPENROUTER, "openai/gpt-4.1:nitro", 2, 8),
        (OPENROUTER, "openai/gpt-4.1:online", 2, 8),
        (OPENROUTER, "openai/gpt-4.1:floor", 2, 8),
        (OPENROUTER, "openai/gpt-oss-20b:free", 0, 0),
        (OPENROUTER, "meta-llama/llama-3.1-405b-instruct:free", 0, 0),
        (HUGGING_FACE, "openai/gpt-oss-120b:groq", 0.15, 0.75),
        (HUGGING_FACE, "openai/gpt-oss-120b:cerebras", 0.35, 0.75),
        (BEDROCK, f"{ARN}us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3, 16.5),
        (BEDROCK, f"{ARN}ap-south-1:123456789012:inference-profile/apac.amazon.nova-lite-v1:0", 0.063, 0.252),
        (BEDROCK, "us-east-1/deepseek.v3.2", 0.62, 1.85),
        (BEDROCK, "bedrock/us-gov-west-1/anthropic.claude-sonnet-5", 2.4, 12),
        (GOVERNMENT, "amazon.nova-pro-v1:0", 0.96, 3.84),
        (FRANKFURT, "minimax.minimax-m2.5", 0.36, 1.44),
        (BEDROCK, "eu-west-2/qwen.qwen3-coder-next", 0.78, 1.86),
        (GOVERNMENT, "anthropic.claude-sonnet-4-5-20250929-v1:0", 3.6, 18),
        (BEDROCK, "amazon.nova-2-lite-v1:0", 0.33, 2.75),
        (BEDROCK, "jp.amazon.nova-2-lite-v1:0", 0.396, 3.311),
        (AZURE, "gpt-35-turbo-0125", 0.5, 1.5),
        (BEDROCK, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3, 16.5),
        (BEDROCK, "global.anthropic.claude-sonnet-4-5-20250929-v1:0", 3, 15),
        (BEDROCK, "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3, 16.5),
        (FRANKFURT, "anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3, 16.5),
        (BEDROCK, "amazon.nova-lite-v1:0", 0.06, 0.24),
        (MANTLE, "openai.gpt-oss-120b", 0.15, 0.6),
        (AZURE, "gpt-4.1-2025-04-14", 2, 8),
        (FOUNDRY, "claude-opus-4-5", 5, 25),
        (FOUNDRY, "DeepSeek-R1", 1.35, 5.4),
        (FOUNDRY, "gpt-oss-120b", 0.15, 0.6),
        (FOUNDRY, "grok-3-mini", 0.25, 1.27),
        (AZURE, "global/gpt-4.1", 2, 8),
        (AZURE, "eu/gpt-4.1", 2.2, 8.8),
        (AZURE, "us/o4-mini", 1.21, 4.84),
        (AZURE, "eu/gpt-6-sol", 2.4, 12),
        (AZURE, "us/gpt-6-sol", 2.2, 11),
        (BEDROCK, "deepseek.v3.2", 0.62, 1.85),
        (BEDROCK, "us-gov.openai.gpt-oss-120b-1:0", 0.18, 0.72),
        (IOWA, "meta/llama-3.3-70b-instruct-maas", 0.72, 0.72),
        ("https://api.together.ai/v1", "moonshotai/Kimi-K2.6", 1.2, 4.5),
        ("https://api.together.ai/v1", "meta-llama/Llama-3.3-70B-Instruct-Turbo", 1.04, 1.04),
        (FIREWORKS, "accounts/fireworks/models/deepseek-v3p1", 0.56, 1.68),
        (FIREWORKS, "accounts/fireworks/models/glm-5p3", 1.4, 4.4),
        (FIREWORKS, "glm-5p3", 1.4, 4.4),
        (FIREWORKS, "accounts/fireworks/models/deepseek-v4-flash-0731", 0.22, 0.66),
        (FIREWORKS, "accounts/fireworks/routers/glm-fast-latest", 2.1, 6.6),
        (FIREWORKS, "accounts/fireworks/models/qwen2p5-7b-instruct", 0.2, 0.2),
        (FIREWORKS, "accounts/fireworks/models/mixtral-8x22b-instruct", 1.2, 1.2),
        (FIREWORKS, "accounts/fireworks/models/llama-v3p3-70b-instruct", 0.9, 0.9),
        (FIREWORKS, "accounts/fireworks/models/gpt-oss-safeguard-20b", 0.5, 0.5),
        ("https://api.perplexity.ai", "anthropic/claude-opus-4-5", 5, 25),
        ("https://api.perplexity.ai", "openai/gpt-5.1", 1.25, 10),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "cohere.embed-v4:0", 0.12, 0),
    ],
)
async def test_a_name_has_the_price_of_the_model_it_is(url: str, name: str, first: float, second: float) -> None:
    price = await listed(url, name)
    assert (price.input / DOLLAR, price.output / DOLLAR) == (first, second)


@pytest.mark.parametrize(
    ("url", "name", "hint"),
    [
        (MISTRAL, "mistral-large-latest", "older model of that name"),
        (MISTRAL, "mistral-large-latest", "closest: mistral-large-4-0, mistral-large-4, mistral-large-2512"),
        (MISTRAL, "magistral-small-latest", "older model of that name"),
        (MISTRAL, "mistral-small-3.1-24b-instruct", "only OpenRouter's price"),
        (BEDROCK, "eu.meta.llama3-2-1b-instruct-v1:0", "no price for the region 'eu'"),
        (BEDROCK, "apac.amazon.nova-premier-v1:0", "no price for the region 'apac'"),
        (BEDROCK, "us-gov.anthropic.claude-haiku-5-5", "no price for the region 'us-gov'"),
        (BEDROCK, "us-gov-west-1/amazon.nova-premier-v1:0", "no price for the region 'us-gov'"),
        (BEDROCK, "eu-west-3/mistral.mistral-large-2402-v1:0", "no price for the region 'eu'"),
        (BEDROCK, "eu.amazon.nova-2-lite-v1:0", "no price for the region 'eu'"),
        (BEDROCK, "us-east-1/1-month-commitment/anthropic.claude-v2:1", "not in the list of AWS Bedrock"),
        (FRANKFURT, "deepseek.v3.2", ""),
        (FRANKFURT, "amazon.nova-lite-v1:0", "no price for the region 'eu'"),
        (BEDROCK, f"{ARN}eu-central-1::foundation-model/amazon.nova-lite-v1:0", "no price for the region 'eu'"),
        (BEDROCK, f"{ARN}us-east-1:123456789012:application-inference-profile/a1b2", "not in the list of AWS Bedrock"),
        (
            HUGGING_FACE,
            "openai/gpt-oss-120b",
            "depends on the vendor that the router chooses; closest: openai/gpt-oss-120b:",
        ),
        (HUGGING_FACE, "openai/gpt-oss-120b:fastest", "closest: openai/gpt-oss-120b:cerebras"),
        (HUGGING_FACE, "nobody/nothing", "depends on the vendor that the router chooses"),
        (HUGGING_FACE, "openai/gpt-4.1:groq", "not in the list of HuggingFace (groq)"),
        (IOWA, "claude-sonnet-5-5", "regional ones cost more"),
        (AZURE, "us-gov/gpt-5.1", "no price for the region 'us-gov'"),
        (XAI, "grok-latest", "older model of that name"),
        (FOUNDRY, "kimi-k3", "only the price of moonshotai, its maker"),
        (FOUNDRY, "gpt-oss-20b", "only the price of openai, its maker"),
        (VERTEX, "gemini-3.8-flash-cyber", "not for this one"),
        (VERTEX, "gemini-3.8-flash" + ".1" * 60 + "!", "not for this one"),  # it took years to say so
        (OPENAI, "gpt-4.1-minni", "closest: gpt-4.1-mini"),
        (FIREWORKS, "accounts/fireworks/models/kimi-k2p4", "closest: kimi-k2p6, kimi-k2p5"),
        (FIREWORKS, "accounts/fireworks/models/llama-v3p1-70b-instruct-1b", "not in the list of Fireworks"),
        ("https://api.perplexity.ai", "pplx-7b-chat", "not in the list of Perplexity"),
    ],
)
async def test_a_row_of_another_model_is_only_a_hint(url: str, name: str, hint: str) -> None:
    prices = load_price_list(NOW)
    assert prices.find(channel(url), ServedModel(name=name)) is None
    assert hint in prices.hint(channel(url), name)


async def test_only_names_with_a_price_are_suggested() -> None:
    hint = load_price_list(NOW).hint(channel(BEDROCK), "us-gov.anthropic.claude-haiku-5-5")
    assert "us.anthropic.claude-haiku-5-5" in hint
    assert "us-gov.anthropic" not in hint


@pytest.mark.parametrize(
    ("url", "name", "cached", "write", "long_write"),
    [
        (BEDROCK, "us-gov.anthropic.claude-sonnet-5", 0.24, 3, 4.8),
        (BEDROCK, "moonshotai.kimi-k3.1", 0.22, 5.5, None),
        (OPENAI, "ft:gpt-4o-mini-2024-07-18:acme::Ab12", 0.15, None, None),
    ],
)
async def test_a_price_that_is_not_in_the_list_has_rates_for_the_cache(
    url: str, name: str, cached: float, write: float | None, long_write: float | None
) -> None:
    price = await listed(url, name)
    rates = (price.cached_input, price.cache_write, price.cache_write_long)
    assert [None if rate is None else rate / DOLLAR for rate in rates] == [cached, write, long_write]


@pytest.mark.parametrize(("tokens", "variant", "dollars"), [(1_000, "", 10), (300_000, "", 20), (1_000, "flex", 5)])
async def test_what_openai_caches_for_12_hours_costs_twice(tokens: int, variant: str, dollars: float) -> None:
    price = await listed(OPENAI, "gpt-5.6-sol")
    assert rates(in_force(price, NOW), tokens, MILLION, variant).part("cache_write_12h") == dollars * DOLLAR


@pytest.mark.parametrize(("url", "dollars"), [(OPENAI, 0.01), (AZURE, 0.014)])
async def test_azure_charges_its_own_fee_for_a_search(url: str, dollars: float) -> None:
    assert (await listed(url, "gpt-5.1")).extras["searches"] == dollars * DOLLAR


async def test_the_source_names_the_maker_whose_price_it_is() -> None:
    assert (await listed(AZURE, "gpt-4.1")).source.endswith(", openai's own price")


async def test_the_source_names_the_rule_that_gives_a_price() -> None:
    price = await listed(FIREWORKS, "accounts/fireworks/models/yi-34b")
    assert price.source == "Fireworks's price by size"


@pytest.mark.parametrize(
    ("name", "dollars"),
    [
        ("qwen3-0p6b", 0.1),
        ("qwen3-4b", 0.2),
        ("starcoder-16b", 0.2),
        ("devstral-24b", 0.9),
        ("dolphin-2p6-mixtral-8x7b", 0.5),
        ("mixtral-8x22b", 1.2),
        ("mistral-nemo", None),
    ],
)
def test_a_price_follows_from_the_size_in_a_name(name: str, dollars: float | None) -> None:
    nanos = size_price(name)
    assert (nanos if nanos is None else nanos / DOLLAR) == dollars


@pytest.mark.parametrize(("name", "cached"), [("yi-34b", None), ("deepseek-v3p1", 0.28), ("glm-5p3-fast", 0.39)])
async def test_fireworks_asks_half_for_cached_input_except_by_size(name: str, cached: float | None) -> None:
    price = await listed(FIREWORKS, f"accounts/fireworks/models/{name}")
    assert price.cached_input == (None if cached is None else round(cached * DOLLAR))


@pytest.mark.parametrize(
    ("name", "vendor", "first"),
    [
        ("xai/grok-4", "x-ai", 3),
        ("moonshot/kimi-k2.6", "moonshotai", 0.95),
        ("gemini/gemini-2.5-flash", "google", 0.3),
        ("fireworks/kimi-k3", "fireworks", 3),
        ("together/MiniMaxAI/MiniMax-M3", "together", 0.3),
        ("bedrock/amazon.nova-lite-v1:0", "aws", 0.06),
        ("groq/openai/gpt-oss-20b", "groq", 0.075),
    ],
)
async def test_a_vendor_may_be_named_as_its_preset_is(name: str, vendor: str, first: float) -> None:
    found = load_price_list(NOW).prices_by_vendor(name)
    assert {who: price.input / DOLLAR for who, price in found.items()} == {vendor: first}
