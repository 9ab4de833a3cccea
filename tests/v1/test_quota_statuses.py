"""A call that no budget pays for is refused with the status at which the program that made it stops."""

import json

import pytest

from gateway.domain.budget import Budget, Window
from gateway.domain.units import Nanos
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import dumps, reply

CHAT = {"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES = {"model": "m", "max_output_tokens": 2000, "input": "Hi"}
BODIES = {"/v1/chat/completions": CHAT, "/v1/messages": CHAT, "/v1/responses": RESPONSES, "/api/chat": CHAT}


@pytest.fixture
def poor(gateway: Gateway, provider: Provider) -> Client:
    """A client whose token has a millionth of a dollar."""
    gateway.channel(provider.base_url)
    gateway.price()
    return gateway.token("poor", budgets=(Budget(window=Window.EVER, nanos=Nanos(1000)),))


async def post(client: Client, path: str, headers: dict[str, str | None]) -> Answer:
    return await client.ask("POST", path, dumps(BODIES[path]), headers)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/chat/completions", {"user-agent": "OpenAI/Python 3.52.0"}, 429),
        ("/v1/chat/completions", {"user-agent": "AsyncOpenAI/Python 2.1.0"}, 429),
        ("/v1/chat/completions", {"user-agent": "curl/8.5.0"}, 429),
        ("/v1/chat/completions", {}, 429),
        ("/v1/chat/completions", {"user-agent": "QwenCode/0.24.4 (linux; x64)"}, 402),
        ("/v1/chat/completions", {"user-agent": "opencode/1.18.33"}, 402),
        ("/v1/chat/completions", {"user-agent": "opencode/1.18.33", "x-title": "Kilo Code"}, 402),
        ("/v1/chat/completions", {"user-agent": "factory-cli/0.215.0"}, 402),
        ("/v1/chat/completions", {"user-agent": "python-httpx/0.28.1", "x-app": "Mistral Vibe"}, 402),
        ("/v1/chat/completions", {"user-agent": "kimi-code-cli/2.1.0"}, 402),
        ("/v1/chat/completions", {"user-agent": "ls/JS 5.23.2"}, 402),
        ("/v1/responses", {"user-agent": "ls/JS 5.23.2"}, 402),
        ("/v1/chat/completions", {"user-agent": "OpenAI/JS 5.23.2", "x-app": "Continue"}, 402),
        ("/v1/chat/completions", {"user-agent": "ai-sdk/openai-compatible/3.0.37"}, 402),
        ("/v1/chat/completions", {"user-agent": "pi/1.5.2"}, 429),
        ("/v1/chat/completions", {"user-agent": "OpenAI/JS 5.20.1", "x-app": "Copilot CLI"}, 429),
        ("/v1/responses", {"user-agent": "codex_exec/0.171.0 (Debian 12)"}, 400),
        ("/v1/responses", {"user-agent": "codex_cli_rs/0.98.0"}, 400),
        ("/v1/responses", {"user-agent": "codex-tui/0.169.0"}, 400),
        ("/v1/responses", {"user-agent": "Agents/Python 0.24.0"}, 429),
        ("/v1/messages", {"user-agent": "claude-cli/2.1.332 (external, cli)"}, 429),
        ("/v1/messages", {"user-agent": "opencode/1.18.33"}, 402),
        ("/api/chat", {"user-agent": "ollama-python/0.6"}, 429),
    ],
)
async def test_a_program_gets_the_status_at_which_it_stops(
    gateway: Gateway, poor: Client, path: str, headers: dict[str, str | None], status: int
) -> None:
    answer = await post(poor, path, headers)
    assert (answer.status, answer.head.get("x-should-retry"), answer.head.get("retry-after")) == (status, "false", "")
    assert "token 'poor' has" in str(json.loads(answer.body)["error"])
    assert (gateway.record.status, gateway.record.code) == (status, "token_quota_exceeded")


async def test_the_type_and_the_code_are_the_same_at_every_status(poor: Client) -> None:
    errors = []
    for agent in ("OpenAI/Python 3.52.0", "opencode/1.18.33", "codex_exec/0.171.0"):
        answer = await post(poor, "/v1/chat/completions", {"user-agent": agent})
        errors.append((answer.status, answer.json["error"]["type"], answer.json["error"]["code"]))
    assert errors == [
        (429, "insufficient_quota", "token_quota_exceeded"),
        (402, "insufficient_quota", "token_quota_exceeded"),
        (400, "insufficient_quota", "token_quota_exceeded"),
    ]


@pytest.mark.parametrize(
    ("path", "agent", "status"),
    [
        ("/v1/chat/completions", "OpenAI/Python 3.52.0", 502),
        ("/v1/chat/completions", "QwenCode/0.24.4 (linux; x64)", 402),
        ("/v1/responses", "codex_exec/0.171.0 (Debian 12)", 400),
        ("/v1/messages", "claude-cli/2.1.332 (external, cli)", 402),
    ],
)
async def test_an_upstream_without_credit_stops_the_same_programs(
    gateway: Gateway, provider: Provider, path: str, agent: str, status: int
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", reply({"error": {"message": "insufficient balance"}}, status=402))
    answer = await post(gateway.client, path, {"user-agent": agent})
    assert (answer.status, answer.head.get("x-should-retry")) == (status, "false")
    assert (gateway.record.status, gateway.record.code) == (status, "upstream_out_of_credit")


@pytest.mark.parametrize(("agent", "status"), [("OpenAI/Python 3.52.0", 502), ("QwenCode/0.24.4", 402)])
async def test_a_refused_key_of_a_channel_stops_them_too(
    gateway: Gateway, provider: Provider, agent: str, status: int
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", reply({"error": {"message": "bad key"}}, status=401))
    answer = await post(gateway.client, "/v1/chat/completions", {"user-agent": agent})
    assert (answer.status, answer.head.get("x-should-retry")) == (status, "false")
    assert gateway.record.code == "upstream_auth_failed"


@pytest.mark.parametrize(
    ("wait", "agent", "status"),
    [
        ("3600", "OpenAI/Python 3.52.0", 429),
        ("3600", "QwenCode/0.24.4 (linux; x64)", 402),
        ("3600", "codex_exec/0.171.0 (Debian 12)", 400),
        ("60", "QwenCode/0.24.4 (linux; x64)", 429),
    ],
)
async def test_a_limit_that_lasts_longer_than_clients_wait_stops_them_too(
    gateway: Gateway, provider: Provider, wait: str, agent: str, status: int
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", reply({"error": {"message": "slow down"}}, status=429, headers={"retry-after": wait}))
    answer = await post(gateway.client, "/v1/chat/completions", {"user-agent": agent})
    should_retry = "true" if wait == "60" else "false"
    assert (answer.status, answer.head.get("x-should-retry")) == (status, should_retry)
    assert (gateway.record.status, gateway.record.code) == (status, "upstream_rate_limited")
