"""Verdicts of ``why``: what would happen to a call, with the fields that a test is about."""

from typing import Any

from gateway.domain.diagnosis import RouteView, Why
from gateway.domain.units import Nanos


def route(**fields: Any) -> RouteView:
    """A channel that is well."""
    usual: dict[str, Any] = {
        "model": "gpt-4o",
        "upstream_model": "gpt-4o",
        "priority": 5,
        "weight": 1,
        "place": "priority 5",
        "state": "ok",
        "reason": "",
        "until_ms": None,
        "in_flight": 2,
        "passed": "",
        "cache_marks": False,
    }
    return RouteView(**(usual | fields))


def verdict(**fields: Any) -> Why:
    """A call of 1,000 input tokens, without a limit of output, to a model that its group has."""
    usual: dict[str, Any] = {
        "token": "laptop",
        "api": "chat",
        "prompt_tokens": 1000,
        "max_tokens": None,
        "stream": False,
        "works": True,
        "status": 200,
        "code": "",
        "fix": "",
        "retry_after_s": None,
        "then": None,
        "visible": True,
        "price": None,
        "prices": [],
        "refuses_unpriced": False,
        "holds_rest": False,
        "hold_output": 0,
        "available_nanos": Nanos(12_000_000_000),
        "fallbacks": [],
        "unused_fallbacks": [],
        "sticky": False,
    }
    return Why(**(usual | fields))
