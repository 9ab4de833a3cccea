"""A whole examination, and the ills it should find."""

from collections.abc import Awaitable, Callable

from gateway.client.control import ControlClient
from gateway.client.doctor import CHECKS, Case, examine
from gateway.domain.text import plain
from gateway.domain.views import Step
from tests.fakes.gateway import Gateway

NAMES = [name for name, _ in CHECKS]

Spoil = Callable[[Gateway, ControlClient], Awaitable[object]]
"""Makes a good gateway ill."""


async def steps(
    owner: ControlClient, *, key: str = "", token: str = "", model: str = "", api: str = ""
) -> dict[str, Step]:
    """The questions by name. Each is tried or skipped; a failed one says what to do, and the rounds follow."""
    found = [step async for step in examine(Case(owner, key=key, token_ref=token, model=model, api=api))]
    asked, looked_at = found[: len(NAMES)], found[len(NAMES) :]
    assert [step.name for step in asked] == NAMES
    assert looked_at
    results = [step.result.replace("warning", "ok") for step in asked]
    assert results == sorted(results, key=["ok", "fail", "skipped"].index)
    assert results.count("fail") <= 1
    for step in found:
        assert step.text == plain(step.text, 1000)
        assert bool(step.fix) == (step.result in ("fail", "warning"))
    return {step.name: step for step in asked}


async def failure(owner: ControlClient, **what: str) -> Step:
    """The one that failed."""
    (failed,) = [step for step in (await steps(owner, **what)).values() if step.result == "fail"]
    return failed
