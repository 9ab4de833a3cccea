"""A call that no budget pays for is refused with the status at which the program that made it stops."""

import json

import pytest

from gateway.domain.budget import Budget, Window
from gateway.domain.units import Nanos
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import dumps, fail

CHAT = {"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES = {"model": "m", "max_output_tokens": 2000, "input": "Hi"}
CHATS = "/v1/chat/completions"
BODIES = {CHATS: CHAT, "/v1/messages": CHAT, "/v1/responses": RESPONSES, "/api/chat": CHAT}
HOUR, MINUTE = (fail(429, headers={"retry-after": seconds}) for seconds in ("3600", "60"))


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
        (CHATS, {"user-agent": "OpenAI/Python 3.52.0"}, 429),
        (CHATS, {"user-agent": "AsyncOpenAI/Python 2.1.0"}, 429),
        (CHATS, {"user-agent": "curl/8.5.0"}, 429),
        (CHATS, {}, 429),
        (CHATS, {"user-agent": "QwenCode/0.24.4 (linux; x64)"}, 402),
        (CHATS, {"user-agent": "opencode/1.18.33"}, 402),
        (CHATS, {"user-agent": "opencode/1.18.33", "x-title": "Kilo Code"}, 402),
        (CHATS, {"user-agent": "factory-cli/0.215.0"}, 402),
        (CHATS, {"user-agent": "python-httpx/0.28.1", "x-app": "Mistral Vibe"}, 402),
        (CHATS, {"user-agent": "kimi-code-cli/2.1.0"}, 402),
        (CHATS, {"user-agent": "ls/JS 5.23.2"}, 402),
        ("/v1/responses", {"user-agent": "ls/JS 5.23.2"}, 402),
        (CHATS, {"user-agent": "OpenAI/JS 5.23.2", "x-app": "Continue"}, 402),
        (CHATS, {"user-agent": "ai-sdk/openai-compatible/3.0.37"}, 402),
        (CHATS, {"user-agent": "pi/1.5.2"}, 429),
        (CHATS, {"user-agent": "OpenAI/JS 5.20.1", "x-app": "Copilot CLI"}, 429),
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
    error = json.loads(answer.body)["error"]
    assert "token 'poor' has" in str(error)
    if path == CHATS:
        assert (error["type"], error["code"]) == ("insufficient_quota", "token_quota_exceeded")
    elif status == 400:  # Codex shows the message only with a code that it knows, else the whole JSON
        assert (error["code"], error["gateway"]["code"]) == ("invalid_prompt", "token_quota_exceeded")
    assert (gateway.record.status, gateway.record.code) == (status, "token_quota_exceeded")


@pytest.mark.parametrize(
    ("script", "path", "agent", "told"),
    [
        (fail(402), CHATS, "OpenAI/Python 3.52.0", (502, "upstream_out_of_credit", "false")),
        (fail(402), CHATS, "QwenCode/0.24.4 (linux; x64)", (402, "upstream_out_of_credit", "false")),
        (fail(402), "/v1/responses", "codex_exec/0.171.0 (Debian 12)", (400, "upstream_out_of_credit", "false")),
        (fail(402), "/v1/messages", "claude-cli/2.1.332 (external, cli)", (402, "upstream_out_of_credit", "false")),
        (fail(401), CHATS, "OpenAI/Python 3.52.0", (502, "upstream_auth_failed", "false")),
        (fail(401), CHATS, "QwenCode/0.24.4", (402, "upstream_auth_failed", "false")),
        (HOUR, CHATS, "OpenAI/Python 3.52.0", (429, "upstream_rate_limited", "false")),
        (HOUR, CHATS, "QwenCode/0.24.4 (linux; x64)", (402, "upstream_rate_limited", "false")),
        (HOUR, CHATS, "codex_exec/0.171.0 (Debian 12)", (400, "upstream_rate_limited", "false")),
        (MINUTE, CHATS, "QwenCode/0.24.4 (linux; x64)", (429, "upstream_rate_limited", "true")),
    ],
)
async def test_a_failure_that_outlasts_the_waits_of_clients_stops_the_same_programs(
    gateway: Gateway, provider: Provider, script: Script, path: str, agent: str, told: tuple[int, str, str]
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", script)
    answer = await post(gateway.client, path, {"user-agent": agent})
    assert (answer.status, gateway.record.code, answer.head.get("x-should-retry")) == told
    assert gateway.record.status == answer.status


@pytest.mark.parametrize(
    ("agent", "status"),
    [("OpenAI/Python 3.52.0", 503), ("opencode/1.18.33", 402), ("codex_exec/0.171.0 (Debian 12)", 400)],
)
async def test_a_channel_whose_key_was_refused_stops_the_same_programs_at_later_calls(
    gateway: Gateway, provider: Provider, agent: str, status: int
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", fail(401))
    await gateway.client.chat()
    answer = await post(gateway.client, CHATS, {"user-agent": agent})
    assert (answer.status, gateway.records[-1].code) == (status, "no_channel_available")
    assert (answer.head.get("x-should-retry"), answer.head.get("retry-after")) == ("false", "")
