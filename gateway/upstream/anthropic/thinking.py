"""Thinking: a client's ``reasoning_effort`` as the model it goes to understands it."""

from typing import Any

import msgspec

from gateway.upstream.anthropic.rows import ALL_EFFORTS, Row, Thinking
from gateway.upstream.chat.request import Request

BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens to think with. They count towards ``max_tokens`` and must stay below it."""
LEAST_BUDGET = 1024


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into the request."""

    fields: dict[str, Any] = {}
    """``thinking`` and ``output_config``, where there are any."""
    dropped: bool = False
    """The effort could not be put into words."""

    @property
    def on(self) -> bool:
        """Whether thinking is asked for in so many words; it forbids sampling parameters."""
        return self.fields.get("thinking", {}).get("type") in {"enabled", "adaptive"}


def plan(request: Request, row: Row, max_tokens: int, *, bound: bool) -> Plan:
    """The plan. ``bound``: a tool call is demanded, or earlier thoughts are lost, and a thinking budget allows neither.

    Adaptive thinking allows both.
    """
    effort = request.reasoning_effort
    if effort is None:
        return Plan()
    if effort == "none":
        return Plan(fields={"thinking": {"type": row.off}} if row.off else {})
    if effort not in BUDGETS or row.thinking is Thinking.NONE:
        return Plan(dropped=True)
    if row.thinking is Thinking.ADAPTIVE:
        thinking = {"type": "adaptive", "display": "summarized"}
        return Plan(fields={"thinking": thinking, "output_config": {"effort": _word(effort, row)}})
    if bound or max_tokens <= LEAST_BUDGET:
        return Plan(dropped=True)
    budget = min(BUDGETS[effort], max_tokens - 1)
    return Plan(fields={"thinking": {"type": "enabled", "budget_tokens": budget}})


def _word(effort: str, row: Row) -> str:
    """The strongest word the model knows that is not stronger than what was asked for."""
    wanted = ALL_EFFORTS.index("low" if effort == "minimal" else effort)
    known = [word for word in row.efforts if ALL_EFFORTS.index(word) <= wanted]
    return known[-1] if known else row.efforts[0]
