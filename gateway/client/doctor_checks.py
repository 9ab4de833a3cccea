"""The doctor's checks, in the order of a call's path, then every channel and this machine.

Four checks lead from a client's key to the channels that may answer it; the next three ask the gateway what it would do
with the call that the last one makes, so nothing is judged here. The rest looks at every channel and at the machine:
one bad result stops nothing. Only upstreams are contacted, to list their models, which is free.
"""

import asyncio
import ipaddress
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from gateway.client.apps import used_last
from gateway.client.control import ControlClient
from gateway.client.test_call import INPUT_BOUND, OUTPUT_CAP, PublicApi, demand_serving, public_api
from gateway.domain.addresses import CODES, address_advice, program
from gateway.domain.call import CHAT_API
from gateway.domain.diagnosis import Checkup, LimitView, Obstacle, Why, left_text
from gateway.domain.errors import GatewayError, QuotaExceeded, RateLimited, error_class
from gateway.domain.human_values import brief_multiplier, count_text
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.patterns import near_names
from gateway.domain.text import plain, word
from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.views import CallView, Step, TokenView

START = "start it with 'tollkeeper serve', or with 'tollkeeper' for the console as well"
NO_SERVER = "server_gone"
"""Code of the failure that nobody is there to ask."""


class CheckFailed(Exception):
    """A question has a bad answer: what is wrong, what to do, and what a call is refused with for it."""

    def __init__(self, text: str, fix: str, *, code: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.fix = fix
        self.code = code
        self.status = status


class Concern(NamedTuple):
    """What lets the call through and should be known all the same."""

    text: str
    fix: str


class Case:
    """The later fields are filled by one question and used by the next."""

    def __init__(self, client: ControlClient, *, key: str, token: str, model: str, api: str = CHAT_API) -> None:
        self.client = client
        self.key = key
        self.token_ref = token
        self.model = model
        self.api = api
        """The API that the calls are made by."""
        self.door: PublicApi
        self.token: TokenView | None = None
        """None: the key was given, and none of the tokens looks like it."""
        self.sees: list[str] = []
        self.why: Why
        """What the gateway would do with the call that the last question makes."""


async def check_gateway(case: Case) -> str:
    """Whether the gateway answers where clients ask."""
    status = demand_serving(await case.client.status())
    if not status.address:
        raise CheckFailed("the gateway is not listening: no server runs", START, code=NO_SERVER, status=503)
    case.door = msgspec.structs.replace(public_api(status.address), app="tollkeeper-doctor")
    await case.door.ask("GET", "/health")
    return f"{status.address} answers ({status.state}, version {status.version})"


async def check_token(case: Case) -> str:
    """Whether the key is a token that may be used, and what it sees."""
    if case.key:
        case.token = next((t for t in await case.client.tokens() if _fits(t, case.key)), None)
    else:
        case.token = await _chosen_token(case)
        case.key = await case.client.token_pass(case.token.id)
    case.door = msgspec.structs.replace(case.door, key=case.key)
    case.sees = await case.door.models()
    who = f"token '{plain(case.token.name)}'" if case.token else "the key"
    return f"{who} is accepted; it sees {count_text(len(case.sees), 'model')}"


async def check_model(case: Case) -> str:
    """Whether a channel serves that model, or a fallback answers instead."""
    models = {model.name: model for model in await case.client.models() if model.channels}
    case.model = case.model or next(iter(case.sees or models), "")
    if not case.model:
        fix = "add a channel: 'tollkeeper channel add NAME --base-url URL --key KEY'"
        raise _missing("there are no models at all", fix)
    name = plain(case.model)
    if case.model in models:
        channels = models[case.model].channels
        by_whom = ", ".join(map(plain, channels))
        if case.model in case.sees or await _any_enabled(case, channels):
            return f"'{name}' is served by {by_whom}"
        fix = f"'tollkeeper channel enable {word(channels[0])}'"
        raise _missing(f"'{name}' is served by {by_whom} only, which is disabled", fix)
    if case.model in case.sees:
        return f"no channel serves '{name}', but other models answer instead"
    near = ", ".join(f"'{plain(one)}'" for one in near_names(case.model, case.sees or models))
    meant = f"; did you mean {near}?" if near else ""
    fix = "choose one from 'tollkeeper model list', or add it: 'tollkeeper channel edit NAME --models ...'"
    raise _missing(f"no channel serves a model named '{name}'{meant}", fix)


async def check_group(case: Case) -> str:
    """Whether the token's group leads there, and how: what the gateway itself says of the call."""
    who = case.token.id if case.token is not None else case.key
    size = {"prompt_tokens": INPUT_BOUND, "max_tokens": OUTPUT_CAP}
    api = case.api if case.api != CHAT_API else None
    case.why = await case.client.why(who, case.model, stream=True, api=api, **size)
    if not case.why.visible:
        raise _missing(case.why.rule, case.why.fix)
    way = " or ".join(dict.fromkeys(f"channel '{plain(route.channel)}'" for route in case.why.routes if route.place))
    return f"token '{plain(case.why.token)}' > group '{plain(case.why.group)}' > {way}"


def _missing(text: str, fix: str) -> CheckFailed:
    return CheckFailed(text, fix, code="model_not_found", status=404)


async def _any_enabled(case: Case, names: list[str]) -> bool:
    return any(channel.enabled for channel in await case.client.channels() if channel.name in names)


async def _chosen_token(case: Case) -> TokenView:
    if case.token_ref:
        return await case.client.token(case.token_ref)
    tokens = await case.client.tokens()
    usable = [check_token for check_token in tokens if check_token.state == "active" and not check_token.temporary]
    if not usable:
        there = "every token is disabled or expired" if tokens else "there are no tokens"
        raise CheckFailed(there, "'tollkeeper token add NAME' creates one", code="not_found", status=404)
    return used_last(usable)


def _fits(check_token: TokenView, key: str) -> bool:
    """Whether the shown parts of a token's key are those of this key."""
    head, _, end = check_token.hint.partition("…")
    return bool(head and end) and key.startswith(head) and key.endswith(end)


UNPRICED = "model_price_missing"
_LIMITS = {"concurrent": "calls at once", "streams": "streams at once"}


async def check_quota(case: Case) -> str | Concern:
    """Whether there is money, and a price."""
    for obstacle in _obstacles(case.why):
        if obstacle.code == UNPRICED or issubclass(error_class(obstacle.status, obstacle.code), QuotaExceeded):
            raise _ill(obstacle)
    if (price := case.why.price) is None:
        text = f"'{plain(case.model)}' has no price: calls are counted, not charged, and no budget stops them"
        return Concern(text, f"'tollkeeper price set {word(case.model)} --like OTHER', or give it amounts of its own")
    if price.free or not case.why.multiplier:
        return f"'{plain(case.model)}' is free" + ("" if price.free else f" in group '{plain(case.why.group)}'")
    paid = [Nanos(nanos * case.why.multiplier // MILLION) for nanos in (price.input_nanos, price.output_nanos)]
    target = f", the price of '{plain(price.inherited_from)}'" if price.inherited_from else ""
    if case.why.multiplier != MILLION:
        target += f", {brief_multiplier(case.why.multiplier)} in group '{plain(case.why.group)}'"
    held = "" if case.why.hold_nanos is None else f"; a test call holds {dollars(case.why.hold_nanos)}"
    held += f"; a million tokens cost {' and '.join(map(brief_dollars, paid))} (input, output)"
    return f"{left_text(case.why)}{held}{target}"


async def check_limits(case: Case) -> str:
    """Whether token and group may call now."""
    for obstacle in _obstacles(case.why):
        if issubclass(error_class(obstacle.status, obstacle.code), RateLimited):
            raise _ill(obstacle)
    left = [
        f"{party.kind} '{plain(party.name)}' has {', '.join(map(_remaining_text, party.limits))}"
        for party in case.why.parties
        if party.limits
    ]
    return "; ".join(left) or "no limits are set"


async def check_channels(case: Case) -> str:
    """Whether a channel is ready now."""
    if not case.why.works:
        raise _ill(_obstacles(case.why)[0])
    asked = [route for route in case.why.routes if route.place]
    ready = list(dict.fromkeys(route.channel for route in asked if not route.passed))
    if not ready:
        return case.why.message
    others = [f"; {plain(one.channel)} does not ({plain(one.passed)})" for one in asked if one.channel not in ready]
    return f"{', '.join(map(plain, ready))} accept{'s' * (len(ready) == 1)} calls{''.join(dict.fromkeys(others))}"


async def check_calls(case: Case) -> str:
    """Whether a plain and a streamed call get through."""
    whole = await case.client.call(await case.door.plain_call(case.model, case.api))
    took = f"a plain call took {whole.duration_ms} ms"
    try:
        call_id = await case.door.streamed_call(case.model, case.api)
    except RateLimited as error:
        if error.code != RateLimited.default_code:
            raise
        cost = dollars(whole.cost_nanos)
        return f"{took}, by channel '{whole.channel}', for {cost}; a limit does not allow a second call yet"
    streamed = await case.client.call(call_id)
    cost = dollars(whole.cost_nanos + streamed.cost_nanos)
    return f"{took}, a streamed one {streamed.duration_ms} ms, by channel '{streamed.channel}', for {cost} together"


def _obstacles(why: Why) -> list[Obstacle]:
    """In the order in which the call meets them."""
    first = Obstacle(status=why.status, code=why.code, message=why.message, fix=why.fix)
    return ([] if why.works else [first]) + ([why.then] if why.then is not None else [])


def _ill(obstacle: Obstacle) -> CheckFailed:
    return CheckFailed(obstacle.message, obstacle.fix, code=obstacle.code, status=obstacle.status)


def _remaining_text(limit: LimitView) -> str:
    return f"{limit.left:,} of {count_text(limit.limit, _LIMITS.get(limit.name, plain(limit.name)))} left"


DAY_MS = 86_400_000
MOST_STRAYS = 200
"""Records that are looked at of each kind of request that reached no API."""
MOST_ADDRESSES = 5
"""Of these, programs and addresses that are shown."""
AT_ONCE = 8
"""Channels that are looked at side by side."""
CLOCK_MS = 60_000
"""A clock that is wrong by more is a failure: certificates and budgets depend on it."""
TEXT_LIMIT = 500


async def check_everything(client: ControlClient, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Step]:
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
    for step in await _machine_steps(client):
        yield step
    for step in await _addresses(client, status.address):
        yield step
    yield check_clock(ahead)
    yield _failed_store(status.store_error) if status.store_error else await _store(client)
    yield check_proxies(status.address, environ)


async def _look(client: ControlClient, ref: str, name: str, places: asyncio.Semaphore) -> Checkup:
    async with places:
        try:
            return await client.checkup(ref)
        except GatewayError as error:
            return Checkup(step=_error_step(f"channel {plain(name)}", error), ahead_ms=None)


async def _machine_steps(client: ControlClient) -> list[Step]:
    try:
        return await client.machine()
    except GatewayError as error:
        return [_error_step("the machine", error)]


async def _addresses(client: ControlClient, base: str) -> list[Step]:
    """Requests of the last day that reached no API."""
    since, calls = time.time_ns() // 1_000_000 - DAY_MS, list[CallView]()
    try:
        for code in CODES:
            page = await client.calls(words=code, since=since, limit=MOST_STRAYS)
            calls += [call for call in page.calls if call.code == code]
    except GatewayError as error:
        return [_error_step("the addresses", error)]
    return check_addresses(calls, base)


def check_addresses(calls: Sequence[CallView], base: str) -> list[Step]:
    """One Step for each program and request that reached no API, the newest first; those that need no answer aside."""
    steps: dict[tuple[str, str, str], Step] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for call in sorted(calls, key=lambda call: -call.time_ms):
        method, _, path = call.request.partition(" ")
        about = (call.app, call.code, call.request if call.code not in ("origin_not_allowed", "wrong_host") else "")
        counts[about] += call.count
        text, _, fix = call.error.partition("; permit it with ")
        if call.code == "wrong_host":
            text, _, fix = call.error.partition("; use ")
        if call.code == "unknown_url":
            fix, harmless = address_advice(path, base)
            if harmless:
                continue
            text = "which does not exist here"
        steps.setdefault(
            about,
            Step(
                name="the addresses",
                result="warning",
                text=f"{program(call.app)} asked for {method} {path}, {text}",
                fix=plain(fix, TEXT_LIMIT) or f"check the program's base URL: {base}",
                code=call.code,
                status=call.status,
            ),
        )
    if not steps:
        return [Step(name="the addresses", result="ok", text="no program asked for one that does not exist here")]
    return [
        msgspec.structs.replace(step, text=plain(f"{step.text} ({_times(counts[about])} in a day)", TEXT_LIMIT))
        for about, step in list(steps.items())[:MOST_ADDRESSES]
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _failed_store(error: str) -> Step:
    fix = "free disk space, or repair the disk: the store recovers as soon as it can write"
    text = f"it has failed, and calls are rejected: {plain(error, TEXT_LIMIT)}"
    return Step(name="the store", result="fail", text=text, fix=fix, code="store_unavailable", status=503)


async def _store(client: ControlClient) -> Step:
    try:
        verdict = await client.verify()
    except GatewayError as error:
        return _error_step("the store", error)
    if not verdict.equal or verdict.damage:
        fix = "keep a copy of the data folder; 'tollkeeper verify' shows what is wrong"
        text = plain(verdict.difference or "; ".join(verdict.damage), TEXT_LIMIT)
        return Step(name="the store", result="fail", text=text, fix=fix, code="store_differs", status=500)
    text = f"{dollars(verdict.cost_nanos)} for {count_text(verdict.calls, 'call')}; {verdict.checks:,} sums are right"
    return Step(name="the store", result="ok", text=text)


def check_clock(ahead: Mapping[str, int]) -> Step:
    """Whether this machine's clock agrees with those of the upstreams that sent theirs: with the one nearest to it."""
    if not ahead:
        return Step(name="the clock", result="skipped", text="no upstream sent its time")
    name = min(ahead, key=lambda name: abs(ahead[name]))
    off = abs(ahead[name]) / 1000
    if abs(ahead[name]) <= CLOCK_MS:
        return Step(
            name="the clock", result="ok", text=f"within {max(1, round(off))} s of the clock of channel {plain(name)}"
        )
    text = f"{off:,.0f} s {'ahead of' if ahead[name] > 0 else 'behind'} the clock of channel {plain(name)}"
    return Step(name="the clock", result="fail", text=text, fix="set this machine's clock, or turn on NTP")


def check_proxies(address: str, environ: Mapping[str, str]) -> Step:
    """Whether programs started from here would send calls for this machine to a proxy instead."""
    named = {name: environ.get(name, "") for name in environ if name.lower() in _PROXIES and environ.get(name)}
    host = urlsplit(address).hostname or "127.0.0.1"
    if not named:
        return Step(name="the proxy variables", result="ok", text="none are set")
    told = ", ".join(sorted(named))
    if any(_spared(host, rule) for name in ("no_proxy", "NO_PROXY") for rule in environ.get(name, "").split(",")):
        return Step(name="the proxy variables", result="ok", text=f"{told} is set, and NO_PROXY excludes {host}")
    text = f"{told} is set and NO_PROXY does not exclude {host}: programs may send their calls and keys to the proxy"
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


def _error_step(name: str, error: GatewayError) -> Step:
    text, status = plain(error.message, TEXT_LIMIT), error.http_status
    return Step(name=name, result="fail", text=text, fix=START, code=error.code, status=status)
