"""LiteLLM's ``config.yaml``: every field that is not imported is reported."""

import time
from typing import Any

import pytest

from gateway.core.importers.base import ImportedConfig
from gateway.core.importers.litellm import convert


def deployment(name: str = "m", model: str = "openai/gpt-4o", info: Any = None, **params: Any) -> dict[str, Any]:
    entry = {"model_name": name, "litellm_params": {"model": model, **params}}
    return entry if info is None else {**entry, "model_info": info}


def of(*entries: dict[str, Any], **more: Any) -> ImportedConfig:
    return convert({"model_list": list(entries), **more}, {"BASE": "http://h:1/v1", "NAME": "groq/q", "RPM": "7"})


def only(*entries: dict[str, Any]) -> dict[str, Any]:
    """The one channel, about which there is nothing to tell."""
    out = of(*entries)
    assert out.notes == []
    (channel,) = out.channels.values()
    return channel


def test_deployments_of_one_account_become_one_channel() -> None:
    key = "os.environ/OPENAI_API_KEY"
    found = of(deployment("gpt-4o", api_key=key), deployment("mini", "gpt-4o-mini", api_key=key))
    assert found.channels == {
        "litellm-openai": {
            "dialect": "openai",
            "preset": "openai",
            "key": "env:OPENAI_API_KEY",
            "models": [{"name": "gpt-4o"}, {"name": "mini", "upstream": "gpt-4o-mini"}],
        }
    }


def test_one_name_at_several_places_is_several_channels() -> None:
    found = of(deployment(api_key="a"), deployment(api_key="b"), deployment(model="openai/other", api_key="b"))
    assert list(found.channels) == ["litellm-openai", "litellm-openai-2", "litellm-openai-3"]


@pytest.mark.parametrize(
    ("model", "params", "expected"),
    [
        ("anthropic/claude", {}, {"dialect": "anthropic", "preset": "anthropic", "key": "env:ANTHROPIC_API_KEY"}),
        ("claude-sonnet", {"api_key": "k"}, {"dialect": "anthropic", "key": "k"}),
        ("gemini/g", {}, {"dialect": "gemini", "preset": "gemini"}),
        ("together_ai/a/b", {}, {"preset": "together", "models": [{"name": "m", "upstream": "a/b"}]}),
        ("ollama_chat/l", {"api_base": "http://localhost:11434/"}, {"base_url": "http://localhost:11434/v1"}),
        ("azure/d", {"api_base": "https://x.openai.azure.com/"}, {"base_url": "https://x.openai.azure.com/openai/v1"}),
        ("openai/q", {"api_base": "http://h:1/v1", "api_key": "k"}, {"dialect": "openai", "base_url": "http://h:1/v1"}),
        ("any/thing", {"api_base": "http://h:1/v1"}, {"models": [{"name": "m", "upstream": "any/thing"}]}),
        ("q", {"custom_llm_provider": "groq"}, {"preset": "groq", "models": [{"name": "m", "upstream": "q"}]}),
        ("text-embedding-3-small", {}, {"preset": "openai", "key": "env:OPENAI_API_KEY"}),
        ("nvidia_nim/a/b", {"api_key": "${NIM_KEY}"}, {"preset": "nvidia", "key": "env:NIM_KEY"}),
        ("azure/responses/d", {"api_base": "https://x"}, {"models": [{"name": "m", "upstream": "d"}]}),
        ("azure/d", {"api_base": "https://x"}, {"key": "env:AZURE_API_KEY"}),
        ("azure/d", {"api_base": "https://x/openai/deployments/d"}, {"base_url": "https://x/openai/v1"}),
        ("azure_ai/d", {"api_base": "https://x/models/"}, {"base_url": "https://x/openai/v1"}),
        ("gemini/g", {"api_base": "https://h/v1beta/models/g"}, {"base_url": "https://h/v1beta"}),
        ("openai/q", {"api_base": "http://0.0.0.0:1/v1"}, {"base_url": "http://127.0.0.1:1/v1"}),
        ("openai/q", {"api_base": "os.environ/BASE"}, {"base_url": "http://h:1/v1"}),
        ("openai/q", {"api_base": "${BASE}/v2"}, {"base_url": "http://h:1/v1/v2"}),
        ("os.environ/NAME", {}, {"preset": "groq", "models": [{"name": "m", "upstream": "q"}]}),
        ("openrouter/auto", {}, {"models": [{"name": "m", "upstream": "openrouter/auto"}]}),
        ("fireworks_ai/l", {}, {"models": [{"name": "m", "upstream": "accounts/fireworks/models/l"}]}),
        ("zai/g", {}, {"base_url": "https://api.z.ai/api/paas/v4", "key": "env:ZAI_API_KEY"}),
        ("cohere/c", {"api_base": "http://h:1"}, {"base_url": "http://h:1", "key": None}),
        (
            "databricks/d",
            {"api_base": "https://h"},
            {"base_url": "https://h", "models": [{"name": "m", "upstream": "d"}]},
        ),
    ],
)
def test_a_deployment_becomes_a_channel(model: str, params: dict[str, Any], expected: dict[str, Any]) -> None:
    found = only(deployment(model=model, **params))
    assert {name: found.get(name) for name in expected} == expected


def test_another_server_of_openai_s_dialect_has_no_vendor_s_preset_or_key() -> None:
    found = of(deployment(model="openai/q", api_base="http://10.0.0.5:8000/v1"))
    assert list(found.channels) == ["litellm-10.0.0.5-8000"]
    assert not {"preset", "key"} & set(found.channels["litellm-10.0.0.5-8000"])


def test_limits_weights_orders_and_deadlines_are_a_deployment_s_own() -> None:
    numbers: dict[str, Any] = {
        "rpm": 60,
        "tpm": "1000",
        "max_parallel_requests": 4,
        "weight": 3,
        "order": 2,
        "timeout": 60,
    }
    found = of(deployment("a", **numbers, stream_timeout=5), deployment("b", **numbers, stream_timeout=5))
    assert len(found.channels) == 2
    channel = found.channels["litellm-openai"]
    assert channel["limits"] == {"rpm": 60, "tpm": 1000, "concurrent": 4}
    assert (channel["weight"], channel["priority"]) == (3, -2)
    assert channel["timeouts"] == {"total": 60.0, "head": 5.0}


def test_a_channel_gets_every_model_whose_name_is_free() -> None:
    found = of(deployment("a"), deployment("a", "openai/x"), deployment("b"), deployment("b", "openai/x"))
    assert [[model["name"] for model in channel["models"]] for channel in found.channels.values()] == [["a", "b"]] * 2


def test_a_deployment_that_is_there_twice_is_imported_once() -> None:
    found = of(deployment(), deployment(), deployment("other"))
    assert [model["name"] for model in found.channels["litellm-openai"]["models"]] == ["m", "other"]
    assert list(found.channels) == ["litellm-openai"]


def test_limits_beside_the_parameters_count_too() -> None:
    found = of({**deployment(), "rpm": 7})
    assert found.channels["litellm-openai"]["limits"] == {"rpm": 7}


def test_a_named_credential_gives_what_the_deployment_does_not_say() -> None:
    credentials = [{"credential_name": "lab", "credential_values": {"api_key": "sk-lab", "api_base": "http://h:1/v1"}}]
    named = deployment("a", litellm_credential_name="lab")
    own_key = deployment("b", litellm_credential_name="lab", api_key="sk-own")
    found = of(named, own_key, deployment("c", litellm_credential_name="other"), credential_list=[*credentials, None])
    assert found.notes == ["not imported: litellm_params.litellm_credential_name (model_list[2])"]
    assert [(channel.get("base_url"), channel.get("key")) for channel in found.channels.values()] == [
        ("http://h:1/v1", "sk-lab"),
        ("http://h:1/v1", "sk-own"),
        (None, "env:OPENAI_API_KEY"),
    ]


def test_parameters_headers_and_refusals() -> None:
    headers = {"X-A": "os.environ/A", "X-B": "b"}
    found = only(deployment(temperature=0, max_tokens=5, organization="org", extra_headers=headers, drop_params=False))
    assert found["overrides"] == {"default": {"temperature": 0, "max_tokens": 5}}
    assert found["headers"] == {"X-A": "env:A", "X-B": "b", "OpenAI-Organization": "org"}
    assert found["strict"] is True


def test_an_extra_body_is_always_sent() -> None:
    found = only(deployment(extra_body={"enable_thinking": False}, top_k=5))
    assert found["overrides"] == {"default": {"top_k": 5}, "set": {"enable_thinking": False}}
    found = only(deployment(extra_body={"top_k": 9, "stop": None}, top_k=5))
    assert found["overrides"] == {"set": {"top_k": 9, "stop": {"json": "null"}}}


def test_a_general_deadline_is_for_deployments_without_their_own() -> None:
    found = of(deployment("a", timeout=5), deployment("b"), litellm_settings={"request_timeout": 90})
    assert [channel["timeouts"] for channel in found.channels.values()] == [{"total": 5.0}, {"total": 90.0}]


def test_prices_are_of_the_public_name_and_a_million_tokens() -> None:
    info = {"input_cost_per_token": 1e-6, "max_input_tokens": 128_000, "id": "x", "mode": "chat"}
    found = of(deployment(info=info, output_cost_per_token=2e-6))
    assert found.prices == {"m": {"input": "1", "output": "2"}}
    assert found.channels["litellm-openai"]["models"][0]["context"] == 128_000


def test_names_for_many_become_patterns() -> None:
    found = of(deployment("*", "groq/*"), deployment("gpt-*", "openai/gpt-*"), deployment("xai/*", "xai/*"))
    assert [channel["patterns"] for channel in found.channels.values()] == [["*"], ["gpt-*"], ["*"]]
    assert found.notes == ["models that match 'xai/*' are offered under the upstream's names, without a prefix"]


def test_fallbacks_aliases_and_strategies_hold_for_the_group() -> None:
    found = of(
        deployment("a"),
        deployment("b"),
        litellm_settings={"fallbacks": [{"a": ["b"]}], "default_fallbacks": ["b"], "drop_params": True},
        router_settings={
            "routing_strategy": "latency-based-routing",
            "model_group_alias": {"c": "a", "d": {"model": "b"}},
        },
    )
    assert found.notes == []
    assert found.groups == {
        "default": {"fallbacks": [{"model": "a", "to": ["b"]}, {"model": "*", "to": ["b"]}], "policy": "fastest"}
    }
    names = [(model["name"], model.get("upstream")) for model in found.channels["litellm-openai"]["models"]]
    assert names == [("a", "gpt-4o"), ("b", "gpt-4o"), ("c", "gpt-4o"), ("d", "gpt-4o")]


@pytest.mark.parametrize("fallbacks", [{"a": ["b"]}, [{"a": "b"}], [{"a": ["b"]}]])
def test_fallbacks_have_several_forms(fallbacks: Any) -> None:
    found = of(deployment("a"), deployment("b"), router_settings={"fallbacks": fallbacks})
    assert found.groups == {"default": {"fallbacks": [{"model": "a", "to": ["b"]}]}}


@pytest.mark.parametrize(("alias", "target"), [("x", "missing"), ("x", ["a", "b"]), ("b", "a")])
def test_an_alias_that_cannot_be_added_is_reported(alias: str, target: Any) -> None:
    found = of(deployment("a"), deployment("b"), router_settings={"model_group_alias": {alias: target}})
    (note,) = found.notes
    assert note.startswith("not imported: a model_group_alias")
    assert note.endswith(f"({alias})")
    assert [model["name"] for model in found.channels["litellm-openai"]["models"]] == ["a", "b"]


def test_an_alias_of_an_alias_is_added_and_thousands_take_linear_time() -> None:
    aliases, began = {f"b{number}": "a" for number in range(10_000)} | {"c": "b1"}, time.process_time()
    found = of(deployment("a"), router_settings={"model_group_alias": aliases})
    assert found.channels["litellm-openai"]["models"][-1] == {"name": "c", "upstream": "gpt-4o"}
    assert time.process_time() - began < 3


LEFT: list[tuple[Any, str]] = [
    (deployment(model="bedrock/x"), "provider 'bedrock' is not supported"),
    (deployment(model="vertex_ai/x", api_base="https://h"), "provider 'vertex_ai' is not supported"),
    (deployment(model="gemini-2.5", vertex_project="p"), "provider 'vertex_ai' is not supported"),
    (deployment(model="titan-embed"), "provider '(none named)' is not supported"),
    (deployment(model="vllm/x", api_base="os.environ/UNSET"), "api_base is in UNSET, which is not set"),
    (deployment(model="os.environ/UNSET"), "model is in UNSET, which is not set"),
    (deployment(model="azure/x"), "a deployment without an api_base"),
    (deployment(model="openai/x", api_base="http://name.6:1"), "has a host that is neither a name nor"),
    (deployment(info={"mode": "rerank"}), "a deployment of mode 'rerank'"),
    (deployment(name="\x1b[2J"), "a deployment without a model_name"),
    ({"model_name": "m"}, "provider '(none named)'"),
    ("nonsense", "a deployment without a model_name"),
    (deployment(num_retries=3), "litellm_params.num_retries"),
    (deployment(extra_body={"model": "x", "seed": 1}), "overrides: 'model' is set by the gateway itself"),
    (deployment(temperature="warm"), "temperature must be a number"),
    (deployment(rpm="os.environ/UNSET"), "litellm_params.rpm = os.environ/UNSET"),
    (deployment(input_cost_per_token=300), "a price of 'm' that is not a number of dollars a token"),
    (deployment(timeout=0.1), "litellm_params.timeout = 0.1"),
    (deployment(api_version="2024"), "api_version; Azure's v1 address"),
    (deployment(info={"supports_vision": True}), "model_info.supports_vision"),
]


@pytest.mark.parametrize(("entry", "said"), LEFT)
def test_what_is_not_imported_is_reported_with_its_place(entry: Any, said: str) -> None:
    (note,) = of(entry).notes
    assert note.startswith("not imported: ")
    assert said in note
    assert note.endswith("(model_list[0])")
    assert "\x1b" not in note


def test_what_is_not_imported_of_the_rest_is_reported() -> None:
    out = of(
        deployment(),
        litellm_settings={"cache": True, "context_window_fallbacks": [], "fallbacks": [{"m": [{"model": "x"}]}]},
        router_settings={"redis_host": "x", "routing_strategy": "least-busy", "fallbacks": "x"},
        general_settings={"master_key": "sk-canary"},
        environment_variables={"B": "canary", "A": "canary"},
        include=["other.yaml"],
    )
    assert out.notes == [
        "not imported: fallbacks with settings of their own (m)",
        "not imported: routing_strategy 'least-busy'; see 'tollkeeper group edit --policy'",
        "not imported: litellm_settings.cache",
        "not imported: litellm_settings.context_window_fallbacks",
        "not imported: router_settings.redis_host",
        "set these variables where the server runs: A, B",
        "clients need tokens of this gateway: 'tollkeeper token add NAME'",
        "not imported: include; import the files that it names too",
    ]
