"""Doctor checks: examines every channel and this machine. A failed check does not stop the others.

Upstreams are contacted only to list their models, which is free of charge.
"""

import asyncio
import ipaddress
import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from urllib.parse import urlsplit

import msgspec

from gateway.client.control import ControlClient
from gateway.domain.addresses import CODES, address_advice
from gateway.domain.advice import advice
from gateway.domain.diagnosis import Checkup
from gateway.domain.errors import GatewayError
from gateway.domain.human_values import count_text
from gateway.domain.money import dollars
from gateway.domain.price_view import news_lines
from gateway.domain.text import plain
from gateway.domain.units import DAY_MS, Millis
from gateway.domain.views import CallView, Step

_PROGRAMS = {
    "claude-cli": "Claude Code",
    **dict.fromkeys(("codex_cli_rs", "codex_exec", "codex-tui"), "Codex"),
    **dict.fromkeys(("OpenAI", "AsyncOpenAI"), "a program with OpenAI's SDK"),
    **dict.fromkeys(("Anthropic", "AsyncAnthropic"), "a program with Anthropic's SDK"),
    "Mozilla": "a browser",
    "": "a program without a name",
}
"""Display names of programs by their own names; others are shown as they are."""


async def check_everything(client: ControlClient, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Step]:
    """Yields a step for each channel, then those of the machine; only a skipped one if the server cannot be reached."""
    try:
        status, channels = await client.status(), await client.channels()
    except GatewayError as error:
        yield Step(name="channels and machine", result="skipped", text=plain(error.message, 500))
        return
    ahead_ms: dict[str, Millis] = {}
    slots = asyncio.Semaphore(8)  # channels checked at once
    async with asyncio.TaskGroup() as group:
        tasks = [(c.name, group.create_task(_check_channel(client, c.id, c.name, slots))) for c in channels]
        for name, task in tasks:
            checkup = await task
            if checkup.ahead_ms is not None:
                ahead_ms[name] = checkup.ahead_ms
            yield checkup.step
    for step in await _steps_or_error("the machine", client.machine()):
        yield step
    if status.address:  # else the programs' right base URL is not known
        for step in await _steps_or_error("the addresses", _address_steps(client, status.address)):
            yield step
    yield check_clock(ahead_ms)
    for step in await _steps_or_error("the store", _store_steps(client, status.store_error)):
        yield step
    yield check_proxies(status.address, environ)
    for step in await _steps_or_error("the prices", _price_steps(client)):
        yield step


async def _check_channel(client: ControlClient, ref: str, name: str, slots: asyncio.Semaphore) -> Checkup:
    async with slots:
        try:
            return await client.checkup(ref)
        except GatewayError as error:
            return Checkup(step=_error_step(f"channel {plain(name)}", error, channel=name))


async def _steps_or_error(name: str, steps: Awaitable[list[Step]]) -> list[Step]:
    try:
        return await steps
    except GatewayError as error:
        return [_error_step(name, error)]


async def _price_steps(client: ControlClient) -> list[Step]:
    news = await client.price_news()
    if lines := news_lines(news):
        fix = "'tollkeeper price news' shows the details"
        return [Step(name="the prices", result="warning", text="; ".join(lines), fix=fix)]
    text = f"as in the list of {news.as_of}" if news.as_of else "no price list to compare with"
    return [Step(name="the prices", result="ok", text=text)]


async def _address_steps(client: ControlClient, base: str) -> list[Step]:
    """Returns warnings of requests that reached no API, newest first. ``base`` is the base URL that programs need."""
    since, calls = time.time_ns() // 1_000_000 - DAY_MS, list[CallView]()
    for code in CODES:
        page = await client.calls(words=code, since=since, limit=200)  # the newest
        calls += [call for call in page.calls if call.code == code]
    similar_calls: dict[tuple[str, str, str], list[CallView]] = {}
    for call in sorted(calls, key=lambda call: -call.time_ms):
        key = (call.app, call.code, call.request if call.code not in ("origin_not_allowed", "wrong_host") else "")
        similar_calls.setdefault(key, []).append(call)
    steps = []
    for similar in similar_calls.values():
        if (step := _address_step(similar[0], base)) is not None:
            count = sum(call.count for call in similar)
            times = "once" if count == 1 else f"{count:,} times"
            steps.append(msgspec.structs.replace(step, text=plain(f"{step.text} ({times} in a day)", 500)))
    return steps[:5] or [Step(name="the addresses", result="ok", text="programs requested only addresses that exist")]


def _address_step(call: CallView, base: str) -> Step | None:
    """Returns a warning of a request that reached no API; None if it is harmless."""
    if call.code == "unknown_url":
        reason = "which does not exist here"
        fix, harmless = address_advice(call.request.partition(" ")[2], base)
        if harmless:
            return None
    else:
        reason, _, fix = call.error.partition("; use " if call.code == "wrong_host" else "; permit it with ")
    text = f"{_PROGRAMS.get(call.app, call.app)} requested {call.request}, {reason}"
    fix = plain(fix, 500) or f"check the program's base URL: {base}"
    return Step(name="the addresses", result="warning", text=text, fix=fix, code=call.code, status=call.status)


async def _store_steps(client: ControlClient, error: str) -> list[Step]:
    """Returns a step about the store. ``error`` is why it has failed; empty if it works."""
    if error:
        fix = "free disk space, or repair the disk: the store recovers as soon as it can write"
        text = f"it has failed, and calls are rejected: {plain(error, 500)}"
        return [Step(name="the store", result="fail", text=text, fix=fix, code="store_unavailable", status=503)]
    verdict = await client.verify()
    if not verdict.equal or verdict.damage:
        fix = "keep a copy of the data folder; 'tollkeeper verify' shows what is wrong"
        text = plain(verdict.difference or "; ".join(verdict.damage), 500)
        return [Step(name="the store", result="fail", text=text, fix=fix, code="store_differs", status=500)]
    text = f"{dollars(verdict.cost_nanos)} for {count_text(verdict.calls, 'call')}; {verdict.checks:,} sums are right"
    return [Step(name="the store", result="ok", text=text)]


def check_clock(ahead_ms: Mapping[str, int]) -> Step:
    """Compare this machine's clock, which is ahead of each channel's by ``ahead_ms``, with the nearest one."""
    if not ahead_ms:
        return Step(name="the clock", result="skipped", text="no upstream sent its time")
    name, ms = min(ahead_ms.items(), key=lambda item: abs(item[1]))
    clock, difference_s = f"the clock of channel {plain(name)}", abs(ms) / 1000
    if difference_s <= 60:  # certificates and budgets tolerate this much
        return Step(name="the clock", result="ok", text=f"within {max(1, round(difference_s))} s of {clock}")
    text = f"{difference_s:,.0f} s {'ahead of' if ms > 0 else 'behind'} {clock}"
    return Step(name="the clock", result="fail", text=text, fix="set this machine's clock, or turn on NTP")


def check_proxies(address: str, environ: Mapping[str, str]) -> Step:
    """Check that programs started here do not send their calls for this machine to a proxy."""
    names = ", ".join(sorted(name for name in environ if name.lower() in ("http_proxy", "all_proxy") and environ[name]))
    host = urlsplit(address).hostname or "127.0.0.1"
    if not names:
        return Step(name="the proxy variables", result="ok", text="none are set")
    if any(_matches_host(rule, host) for name in ("no_proxy", "NO_PROXY") for rule in environ.get(name, "").split(",")):
        return Step(name="the proxy variables", result="ok", text=f"{names} is set, and NO_PROXY excludes {host}")
    text = f"{names} is set, but NO_PROXY does not exclude {host}: programs may send calls and keys to the proxy"
    return Step(name="the proxy variables", result="fail", text=text, fix="export NO_PROXY=127.0.0.1,localhost")


def _matches_host(rule: str, host: str) -> bool:
    """Returns whether an entry of NO_PROXY excludes the host."""
    rule = rule.strip().lower().removeprefix(".")
    if rule in ("*", host) or (rule and host.endswith("." + rule)):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _error_step(name: str, error: GatewayError, *, channel: str = "") -> Step:
    text, status = plain(error.message, 500), error.http_status
    fix = advice(error, channel=channel)
    return Step(name=name, result="fail", text=text, fix=fix, code=error.code, status=status)
