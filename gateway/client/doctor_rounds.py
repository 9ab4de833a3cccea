"""Doctor's rounds: checks every channel and this machine. A failed check does not stop the others.

Upstreams are contacted only to list their models, which is free of charge.
"""

import asyncio
import ipaddress
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from gateway.client.control import ControlClient
from gateway.domain.addresses import CODES, address_advice, program
from gateway.domain.diagnosis import Checkup
from gateway.domain.errors import GatewayError
from gateway.domain.human_values import count_text
from gateway.domain.money import dollars
from gateway.domain.price_news import news_lines
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import CallView, Step

START = "start it with 'tollkeeper serve', or with 'tollkeeper' for the console as well"


async def check_everything(client: ControlClient, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Step]:
    """Yields one Step for each channel, then those of the machine; without a server, one skipped Step."""
    try:
        status, channels = await client.status(), await client.channels()
    except GatewayError as error:
        yield Step(name="channels and machine", result="skipped", text=plain(error.message, 500))
        return
    ahead: dict[str, Millis] = {}
    slots = asyncio.Semaphore(8)  # checks of channels at the same time
    async with asyncio.TaskGroup() as group:
        tasks = [(c.name, group.create_task(_check_channel(client, c.id, c.name, slots))) for c in channels]
        for name, task in tasks:
            checkup = await task
            if checkup.ahead_ms is not None:
                ahead[name] = checkup.ahead_ms
            yield checkup.step
    for step in await _steps_or_error("the machine", client.machine()):
        yield step
    for step in await _steps_or_error("the addresses", _address_steps(client, status.address)):
        yield step
    yield check_clock(ahead)
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
            return Checkup(step=_error_step(f"channel {plain(name)}", error))


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
    since, calls = time.time_ns() // 1_000_000 - 86_400_000, list[CallView]()
    for code in CODES:
        page = await client.calls(words=code, since=since, limit=200)  # the newest
        calls += [call for call in page.calls if call.code == code]
    return check_addresses(calls, base)


def check_addresses(calls: Sequence[CallView], base: str) -> list[Step]:
    """Returns a Step for each request that reached no API, newest first, unless harmless. ``base`` is that of /v1."""
    steps: dict[tuple[str, str, str], Step] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for call in sorted(calls, key=lambda call: -call.time_ms):
        method, _, path = call.request.partition(" ")
        key = (call.app, call.code, call.request if call.code not in ("origin_not_allowed", "wrong_host") else "")
        counts[key] += call.count
        text, _, fix = call.error.partition("; permit it with ")
        if call.code == "wrong_host":
            text, _, fix = call.error.partition("; use ")
        if call.code == "unknown_url":
            fix, harmless = address_advice(path, base)
            if harmless:
                continue
            text = "which does not exist here"
        steps.setdefault(
            key,
            Step(
                name="the addresses",
                result="warning",
                text=f"{program(call.app)} requested {method} {path}, {text}",
                fix=plain(fix, 500) or f"check the program's base URL: {base}",
                code=call.code,
                status=call.status,
            ),
        )
    if not steps:
        return [Step(name="the addresses", result="ok", text="every address that programs requested exists")]
    return [
        msgspec.structs.replace(step, text=plain(f"{step.text} ({_times(counts[key])} in a day)", 500))
        for key, step in list(steps.items())[:5]
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


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


def check_clock(ahead: Mapping[str, int]) -> Step:
    """Check this machine's clock by the nearest upstream's. ``ahead`` has the milliseconds it is ahead, by channel."""
    if not ahead:
        return Step(name="the clock", result="skipped", text="no upstream sent its time")
    name = min(ahead, key=lambda name: abs(ahead[name]))
    off = abs(ahead[name]) / 1000
    if abs(ahead[name]) <= 60_000:  # certificates and budgets tolerate this much
        return Step(
            name="the clock", result="ok", text=f"within {max(1, round(off))} s of the clock of channel {plain(name)}"
        )
    text = f"{off:,.0f} s {'ahead of' if ahead[name] > 0 else 'behind'} the clock of channel {plain(name)}"
    return Step(name="the clock", result="fail", text=text, fix="set this machine's clock, or turn on NTP")


def check_proxies(address: str, environ: Mapping[str, str]) -> Step:
    """Check that programs which are started here do not send calls for this machine to a proxy."""
    set_proxies = {name: environ.get(name, "") for name in environ if name.lower() in _PROXIES and environ.get(name)}
    host = urlsplit(address).hostname or "127.0.0.1"
    if not set_proxies:
        return Step(name="the proxy variables", result="ok", text="none are set")
    names = ", ".join(sorted(set_proxies))
    if any(_matches_host(rule, host) for name in ("no_proxy", "NO_PROXY") for rule in environ.get(name, "").split(",")):
        return Step(name="the proxy variables", result="ok", text=f"{names} is set, and NO_PROXY excludes {host}")
    text = f"{names} is set, but NO_PROXY does not exclude {host}: programs may send calls and keys to the proxy"
    return Step(name="the proxy variables", result="fail", text=text, fix="export NO_PROXY=127.0.0.1,localhost")


_PROXIES = frozenset({"http_proxy", "all_proxy"})
"""Variables that make programs send requests to ``http://`` addresses to a proxy."""


def _matches_host(rule: str, host: str) -> bool:
    """Returns whether an entry of NO_PROXY excludes the host."""
    rule = rule.strip().lower().removeprefix(".")
    if rule in ("*", host) or (rule and host.endswith("." + rule)):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _error_step(name: str, error: GatewayError) -> Step:
    text, status = plain(error.message, 500), error.http_status
    return Step(name=name, result="fail", text=text, fix=START, code=error.code, status=status)
