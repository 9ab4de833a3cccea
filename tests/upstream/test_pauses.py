"""The pause an upstream asks for is found in every spelling, within reason."""

import json
from collections.abc import Mapping

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream.error_body import ErrorBody, read_error
from gateway.upstream.failures import classify
from tests.upstream.makers import channel

DATE = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}
NOW = 1_792_567_680
"""The same moment, in seconds since the epoch."""


def _pause(headers: Mapping[str, str], message: str = "m", status: int = 429) -> float | None:
    return classify(channel(), status, ErrorBody(message=message), headers).retry_after_s


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, 3600),
        ({"retry-after": "1000000000"}, 3600),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "12s"}, 12),
        ({"retry-after": "1m2.5s"}, 62.5),
        ({"retry-after": str(NOW + 30), **DATE}, 30),
        ({"retry-after": str(NOW + 30)}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"x-retry-after": "3"}, 3),
        ({"x-ratelimit-retry-after": "4"}, 4),
        ({"x-ratelimit-user-retry-after": "171", "x-ratelimit-exceeded": "user_model_rate_limited"}, 171),  # Copilot
        ({"x-ai-ratelimit-retry-after-minute-openai": "17"}, 17),  # Kong
        ({"llm_provider-retry-after": "20"}, 20),  # LiteLLM repeats those of the upstream behind it
        ({"llm_provider-retry-after-ms": "20", "retry-after": "9"}, 0.02),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", **DATE}, 30),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:30 GMT", **DATE}, 3600),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:30 GMT", **DATE}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30", **DATE}, None),
        ({"retry-after": "2026-10-21T07:28:30Z", **DATE}, 30),
        ({"x-ratelimit-reset": "12"}, 12),
        ({"x-ratelimit-reset": str(NOW + 45), **DATE}, 45),
        ({"x-ratelimit-reset": str(1000 * (NOW + 45)), **DATE}, 45),
        ({"x-ratelimit-reset": "2026-10-21T07:28:20Z", **DATE}, 20),
        ({"x-ratelimit-reset": "Wed, 21 Oct 2026 07:28:20 GMT", **DATE}, 20),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-reset": "-3"}, None),
        ({"x-ratelimit-reset-after": "2.5"}, 2.5),
        ({"x-ratelimit-reset-requests": "1m2.5s"}, 62.5),
        ({"x-ratelimit-reset-tokens": "6ms"}, 0.006),
        ({"x-ratelimit-reset-requests": "2h13m"}, 3600),
        ({"ratelimit-reset": "7"}, 7),
        ({"x-rate-limit-reset": "7"}, 7),
        ({"ratelimitbysize-reset": "12"}, 12),
        ({"ratelimit": "limit=10, remaining=0, reset=50"}, 50),
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"anthropic-ratelimit-requests-reset": "2026-10-21T07:28:09Z", **DATE}, 9),
        ({"anthropic-ratelimit-unified-reset": str(NOW + 8), **DATE}, 8),
        ({"x-ratelimit-reset": "12", "retry-after": "3"}, 3),
    ],
)
def test_retry_after_and_the_reset_of_a_limit_are_believed_within_reason(
    headers: Mapping[str, str], seconds: float | None
) -> None:
    assert _pause(headers) == seconds


def _limits(**found: tuple[str, str, str]) -> dict[str, str]:
    """Limit, remaining and reset by name."""
    kinds = ("limit", "remaining", "reset")
    return {
        f"x-ratelimit-{kind}-{name}": text
        for name, texts in found.items()
        for kind, text in zip(kinds, texts, strict=True)
    }


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (_limits(requests=("60", "0", "20s"), tokens=("6000", "5000", "1s")), 20),
        (_limits(requests=("60", "59", "1s"), tokens=("6000", "0", "30s")), 30),
        (_limits(requests=("60", "0", "20s"), tokens=("6000", "0", "30s")), 30),
        (_limits(requests=("14400", "14370", "2h"), tokens=("6000", "200", "8s")), 8),
        (_limits(requests=("500", "499", "120ms"), tokens=("30000", "1200", "57.6s")), 57.6),
        ({"x-ratelimit-reset-requests": "90", "x-ratelimit-reset-tokens": "4"}, 4),
    ],
)
def test_the_limit_that_was_reached_decides_the_pause(headers: Mapping[str, str], seconds: float) -> None:
    assert _pause(headers) == seconds


def test_limits_that_were_not_reached_are_ignored() -> None:
    """Vendors send them with every answer."""
    headers = {"x-ratelimit-reset-requests": "120ms"}
    assert _pause(headers, "insufficient balance") is None
    assert _pause(headers, status=500) is None


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please retry in 34.07s.", 34.07),
        ("Please try again in 1m2.5s. Need more?", 62.5),
        ("try again in 6ms", 0.006),
        ("please try again after 1 seconds", 1),
        ("Please retry after 26 seconds.", 26),
        ("Please wait 2 minutes and 3 seconds", 123),
        ("Try again 12 seconds later", 12),
        ("请在 12 秒后重试", 12),
        ("3分钟后再试", 180),
        ("Your limit will reset at 2026-10-21 15:28:40", 40),
        ("You will regain access on 2026-10-21 at 07:29 UTC.", 60),
        ("Retry 3 times", None),
        ("Limit 3 per 60s reached", None),
        ("reset your password within 24 characters", None),
    ],
)
def test_words_are_enough(message: str, seconds: float | None) -> None:
    assert _pause(DATE, message) == seconds


@pytest.mark.parametrize(
    ("error", "kind", "seconds"),
    [
        ({"details": [{"retryDelay": "857.6ms"}]}, FailureKind.RATE, 0.8576),
        ({"details": [{"metadata": {"quotaResetDelay": "2m3.5s"}}]}, FailureKind.RATE, 123.5),  # Code Assist
        ({"type": "usage_limit_reached", "resets_in_seconds": 300}, FailureKind.QUOTA, 300),  # Codex's plans
        ({"type": "usage_limit_reached", "resets_at": NOW + 310}, FailureKind.QUOTA, 310),
        ({"code": "model_cooldown", "reset_seconds": 88}, FailureKind.RATE, 88),  # CLIProxyAPI
        ({"retry_after_ms": 2500}, FailureKind.RATE, 2.5),
        ({"metadata": {"headers": {"Retry-After": "3.5"}, "retry_after_seconds": 9}}, FailureKind.RATE, 3.5),
        ({"retry_after": "1e999"}, FailureKind.RATE, 3600),
    ],
)
def test_fields_of_the_body_are_enough(error: dict[str, object], kind: FailureKind, seconds: float) -> None:
    body = read_error(json.dumps({"error": {"message": "m", **error}}).encode())
    failure = classify(channel(), 429, body, DATE)
    assert failure.kind is kind
    assert failure.retry_after_s == pytest.approx(seconds)


def test_a_pause_in_words_makes_a_quota_a_rate() -> None:
    """Google has one message for both; a quota that is free in seconds is a rate limit."""
    found = classify(channel(), 429, ErrorBody(message="You exceeded your current quota. Please retry in 9s."), {})
    assert (found.kind, found.retry_after_s) == (FailureKind.RATE, 9)
    lasting = classify(channel(), 429, ErrorBody(message="You exceeded your current quota."), {})
    assert (lasting.kind, lasting.retry_after_s) == (FailureKind.QUOTA, None)
