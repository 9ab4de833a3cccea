"""Rounds: what the doctor looks at besides the one call: every channel, then the machine. One bad answer ends nothing.

Only upstreams are asked, for their models, which is free; nobody else on the network.
"""

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from gateway.client.caller import status_of
from gateway.client.case import START
from gateway.client.control import ControlClient
from gateway.domain.checkup import Checkup
from gateway.domain.errors import GatewayError
from gateway.domain.money import dollars
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import Step

AT_ONCE = 8
"""Channels that are looked at side by side."""
CLOCK_MS = 60_000
"""A clock that is wrong by more is a failure: certificates and budgets go by it."""
TEXT_LIMIT = 500


async def rounds(client: ControlClient, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Step]:
    """One Step a channel, by name, then those of the machine. Without a server to ask there is one that is skipped."""
    try:
        status, channels = await client.status(), await client.channels()
    except GatewayError as error:
        yield Step(name="channels and machine", result="skipped", text=plain(error.message, TEXT_LIMIT))
        return
    ahead: dict[str, Millis] = {}
    places = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        looks = [(c.name, group.create_task(_look(client, c.id, c.name, places))) for c in channels]
        for name, look in looks:
            found = await look
            if found.ahead_ms is not None:
                ahead[name] = found.ahead_ms
            yield found.step
    for step in await _asked(client):
        yield step
    yield clock(ahead)
    yield _failed_store(status.store_error) if status.store_error else await _store(client)
    yield proxies(status.address, environ)


async def _look(client: ControlClient, ref: str, name: str, places: asyncio.Semaphore) -> Checkup:
    async with places:
        try:
            return await client.checkup(ref)
        except GatewayError as error:
            return Checkup(step=_unanswered(f"channel {plain(name)}", error), ahead_ms=None)


async def _asked(client: ControlClient) -> list[Step]:
    try:
        return await client.machine()
    except GatewayError as error:
        return [_unanswered("the machine", error)]


def _failed_store(error: str) -> Step:
    fix = "free space on the disk or repair it: the store goes on by itself as soon as it can"
    text = f"it has failed, and no calls are taken: {plain(error, TEXT_LIMIT)}"
    return Step(name="the store", result="fail", text=text, fix=fix, code="store_unavailable", status=503)


async def _store(client: ControlClient) -> Step:
    try:
        verdict = await client.verify()
    except GatewayError as error:
        return _unanswered("the store", error)
    if not verdict.equal or verdict.damage:
        fix = "keep a copy of the data folder; 'tollkeeper verify' shows what is wrong"
        text = plain(verdict.difference or "; ".join(verdict.damage), TEXT_LIMIT)
        return Step(name="the store", result="fail", text=text, fix=fix, code="store_differs", status=500)
    text = f"{verdict.calls:,} calls add up to {dollars(verdict.cost_nanos)}; {verdict.checks:,} sums are right"
    return Step(name="the store", result="ok", text=text)


def clock(ahead: Mapping[str, int]) -> Step:
    """Whether this machine's clock agrees with those of the upstreams that told theirs: with the one nearest to it."""
    if not ahead:
        return Step(name="the clock", result="skipped", text="no upstream told its time")
    name = min(ahead, key=lambda name: abs(ahead[name]))
    off = abs(ahead[name]) / 1000
    if abs(ahead[name]) <= CLOCK_MS:
        return Step(
            name="the clock", result="ok", text=f"within {max(1, round(off))} s of that of channel {plain(name)}"
        )
    text = f"{off:,.0f} s {'ahead of' if ahead[name] > 0 else 'behind'} that of channel {plain(name)}"
    return Step(name="the clock", result="fail", text=text, fix="set this machine's clock, or let it set itself (NTP)")


def proxies(address: str, environ: Mapping[str, str]) -> Step:
    """Whether programs started from here would send calls for this machine to a proxy instead."""
    named = {name: environ.get(name, "") for name in environ if name.lower() in _PROXIES and environ.get(name)}
    host = urlsplit(address).hostname or "127.0.0.1"
    if not named:
        return Step(name="the proxy variables", result="ok", text="none is set here")
    told = ", ".join(sorted(named))
    if any(_spared(host, rule) for name in ("no_proxy", "NO_PROXY") for rule in environ.get(name, "").split(",")):
        return Step(name="the proxy variables", result="ok", text=f"{told}: but not for {host}, by NO_PROXY")
    text = f"{told} is set and NO_PROXY does not spare {host}: programs may send their calls and keys to the proxy"
    return Step(name="the proxy variables", result="fail", text=text, fix="export NO_PROXY=127.0.0.1,localhost")


_PROXIES = frozenset({"http_proxy", "all_proxy"})
"""Variables that lead calls to ``http://`` addresses astray."""


def _spared(host: str, rule: str) -> bool:
    rule = rule.strip().lower().removeprefix(".")
    if rule in ("*", host) or (rule and host.endswith("." + rule)):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _unanswered(name: str, error: GatewayError) -> Step:
    text, status = plain(error.message, TEXT_LIMIT), status_of(error)
    return Step(name=name, result="fail", text=text, fix=START, code=error.code, status=status)
