"""Probe: tests a channel. ``probe`` lists its models and makes one tiny call; ``check_channel`` goes step by step.

Both contact the upstream whatever the channel's state is, and charge nothing. ``probe`` records which keys are rejected
and which are accepted; ``check_channel`` changes nothing.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.model_lists import reason_of, refuses_key
from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.domain.advice import advice
from gateway.domain.call import CHAT_API, FailureKind
from gateway.domain.channel import Channel, Check, ServedModel
from gateway.domain.diagnosis import Checkup
from gateway.domain.errors import NotFound, UpstreamError
from gateway.domain.human_values import count_text
from gateway.domain.order import Order
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import plain, word
from gateway.domain.units import ChannelId, Millis
from gateway.domain.views import Step
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.upstream.adapter import WholeAnswer
from gateway.upstream.dialects import new_adapter
from gateway.upstream.openai.responses import ResponsesDialect

NO_MODELS = "no list of models: "
NO_ANSWER = "the call failed: "

_QUESTION = "Reply with the single word: ok"
_CHAT = {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 16, "stream": False}


async def probe(engine: Engine, channel: Channel, model: str) -> Check:
    """Test a channel, and with a model call it. Returns the result, with the duration of the call, else of the list.

    Each of several keys is tried. Accepted keys are put back into use, and the call is made with the first of them.
    Raises NotFound if the channel does not serve the model.
    """
    served = _served_model(channel, model)
    probe_began = step_began = engine.clock.mono()
    keys = zip(channel.all_keys or ("",), channel.state_ids, strict=True)
    listings = [await _list_models(engine, channel.with_only_key(key), state_id, probe_began) for key, state_id in keys]
    ok = any(listing.ok for listing in listings)
    text = _listings_text(listings)
    if served is not None:
        step_began = engine.clock.mono()
        tested = min(listings, key=lambda listing: (not listing.ok, listing.is_refused))
        ok, call_text = await _call(engine, tested.channel, served)
        if ok and channel.keys and probe_began >= engine.health.renewed[channel.id]:
            engine.health.clear(tested.state_id)  # this also ends the pause of a key that lacked credit
        text = _both_texts(call_text, text, ok=ok)
    elif ok and any(engine.health.state_of(id).kind is FailureKind.QUOTA for id in channel.state_ids):
        text += "; it stays paused: only a call to a model shows whether it has credit again"
    ms = Millis(round((engine.clock.mono() - step_began) * 1000))
    failed_keys = sum(listing.is_refused for listing in listings) if channel.keys else 0
    return Check(time=engine.now(), ok=ok, ms=ms, text=plain(text, 300), failed_keys=failed_keys)


async def test_key(engine: Engine, channel: Channel, number: int) -> None:
    """Ask the upstream whether it accepts a new key. A rejected one needs attention at once."""
    tested = channel.with_only_key(channel.all_keys[number - 1])
    with suppress(TimeoutError):
        async with asyncio.timeout(5.0):
            await _list_models(engine, tested, channel.state_ids[number - 1], engine.clock.mono())
    engine.incident_watch.refresh()


def _served_model(channel: Channel, model: str) -> ServedModel | None:
    """Returns the channel's model with this name; None if the name is empty. Raises NotFound."""
    if not model:
        return None
    for served in channel.models:
        if served.name == model:
            return served
    names = ", ".join(sorted(served.name for served in channel.models)[:20])
    raise NotFound(f"channel '{channel.name}' does not serve '{plain(model)}'; it serves: {names}", param="model")


class _Listing(msgspec.Struct, frozen=True):
    """The result of fetching the list of models with one key."""

    channel: Channel
    """The channel with only this key."""
    state_id: ChannelId
    """The id of the key's health state."""
    ok: bool
    """Whether the list could be fetched."""
    text: str
    is_refused: bool = False


async def _list_models(engine: Engine, channel: Channel, state_id: ChannelId, began: float) -> _Listing:
    """Fetch the list, and note in the key's health state whether the key works, unless the channel was edited since.

    The state of an only key is the channel's. Then ``channels.test_channel`` notes that it works.
    """
    try:
        models = await engine.upstreams.fetch_models(channel)
    except UpstreamError as error:
        reason = reason_of(channel, error)
        is_refused = refuses_key(error)
        if is_refused and began >= engine.health.renewed[channel.id]:
            engine.health.note_failure(state_id, error.kind, reason)
        return _Listing(channel, state_id, False, NO_MODELS + reason, is_refused)
    is_paused = engine.health.state_of(state_id).kind is FailureKind.QUOTA
    if state_id != channel.id and not is_paused and began >= engine.health.renewed[channel.id]:
        engine.health.clear(state_id)
    listed = {model.upstream_name for model in models}
    missing = [m.name for m in channel.models if m.upstream_name not in listed]
    suffix = f"; missing: {', '.join(missing[:5])}" if missing else ""
    return _Listing(channel, state_id, True, f"it lists {count_text(len(models), 'model')}{suffix}")


def _listings_text(listings: Sequence[_Listing]) -> str:
    """Returns a sentence about the list of models; for several keys, also about which of them are accepted."""
    if len(listings) == 1:
        return listings[0].text
    accepted = sum(listing.ok for listing in listings)
    refused = sum(listing.is_refused for listing in listings)
    results = [f"{accepted} of {len(listings)} keys are accepted"]
    if accepted + refused < len(listings):  # for some keys the result is unknown
        results = [f"{refused} of {len(listings)} keys are refused"] if refused else []
    results += [listing.text for listing in listings if listing.ok][:1]
    results += [f"key {number}: {listing.text}" for number, listing in enumerate(listings, start=1) if not listing.ok]
    return "; ".join(results)


def _both_texts(call_text: str, list_text: str, *, ok: bool) -> str:
    """Returns a sentence about a call and the list. If both failed for the same reason, it is given once."""
    reason = call_text.removeprefix(NO_ANSWER)
    if not ok and reason == list_text.removeprefix(NO_MODELS):
        return f"neither a call nor the list of models works: {reason}"
    return f"{call_text}; {list_text}"


async def _call(engine: Engine, channel: Channel, served: ServedModel) -> tuple[bool, str]:
    """Call a model by the API that suits it. Returns whether it answered, and a sentence about it."""
    embeds, now = is_embedding_model(served.upstream_name), engine.now()
    api = engine.apis["embeddings" if embeds else CHAT_API]
    body = msgspec.json.encode({"model": served.name, **({"input": _QUESTION} if embeds else _CHAT)})
    request = api.parse(HttpRequest(body=body, target="", headers={}))
    if api.selects(request) and (obstacle := api.obstacle(request, channel)):
        return False, f"{NO_ANSWER}it {obstacle}"
    order = api.order(request, new_call_id(now), now)
    answer = await _answer(engine, api, order, channel, served)
    if isinstance(answer, UpstreamError):
        return False, NO_ANSWER + reason_of(channel, answer)
    if (usage := answer.state.reported) is None:
        return True, f"'{served.name}' answered, but reported no usage"
    return True, f"'{served.name}' answered with {usage.input} input and {usage.output} output tokens"


async def _answer(
    engine: Engine, api: InboundApi, order: Order, channel: Channel, served: ServedModel
) -> WholeAnswer | UpstreamError:
    """Returns the channel's answer; if it refuses a chat, that to a response. If both fail, returns the first error."""
    errors, learned = list[UpstreamError](), engine.learned.of(channel.id, served, engine.now())
    for adapter in (new_adapter(channel.dialect), ResponsesDialect()):
        plan = api.plan(order, channel, adapter, lacks_api=False)
        try:
            return await engine.upstreams.complete(plan.order, channel, served, learned, 1 << 20, plan.adapter)
        except UpstreamError as error:
            errors.append(error)
        if not errors[0].may_be_response:
            break
    return errors[0]


async def check_channel(edits: ConfigEdits, request: web.Request) -> Checkup:
    """GET /channels/{ref}/checkup: check a channel step by step. Returns the first problem, or that all is well."""
    engine = edits.engine
    channel = engine.catalog.channel(request.match_info["ref"])
    engine.upstreams.dates.pop(channel.id, None)  # the time of an earlier response says nothing about the clocks now
    step = await _checkup_step(engine, channel)
    return Checkup(step=step, ahead_ms=_clock_ahead(engine, channel))


async def _checkup_step(engine: Engine, channel: Channel) -> Step:
    name, models = plain(channel.name), list[ServedModel]()
    if not channel.enabled:
        return Step(name=f"channel {name}", result="skipped", text="disabled")
    for number, key in enumerate(channel.all_keys or ("",), start=1):
        try:
            models = await engine.upstreams.fetch_models(channel.with_only_key(key))
        except UpstreamError as error:
            return _unlisted_step(channel, number, error)
    listed = f"it lists {count_text(len(models), 'model')}"
    for number, state in enumerate(engine.key_states(channel), start=1):
        if state.name == "attention":
            return _rejected_step(channel, number, listed, state.reason)
    count = len(channel.all_keys)
    keys = "its key is" if count == 1 else f"its {count} keys are"
    return Step(name=f"channel {name}", result="ok", text=f"{keys} accepted; {listed}" if count else listed)


def _rejected_step(channel: Channel, number: int, listed: str, reason: str) -> Step:
    """Returns the step for a key that lists models, but was rejected in an earlier request, perhaps a call."""
    name = plain(channel.name)
    subject, edit = "its key", f"channel edit {word(name)}"
    if channel.keys:
        subject, edit = f"key {number}", f"channel key rotate {word(name)} {number}"
    text = plain(f"{listed}, but {subject} was refused before: {reason}", 400)
    test = f"'tollkeeper channel test {word(name)} --model M' makes a real call"
    fix = f"{test}; 'tollkeeper {edit} --key -' replaces the key"
    return Step(name=f"channel {name}", result="warning", text=text, fix=fix)


def _unlisted_step(channel: Channel, number: int, error: UpstreamError) -> Step:
    """Returns the step for a list that was not fetched with the key of this number."""
    name, prefix = plain(channel.name), f"key {number}: " if channel.keys else ""
    message = prefix + plain(error.record_message.removeprefix(f"channel '{name}': "), 400)
    if (status := error.status) in (404, 405, 501):  # the upstream may still accept calls
        test = f"'tollkeeper channel test {word(name)} --model M'"
        text = f"{prefix}it lists no models (HTTP {status}), so only a real call can test it: {test}"
        return Step(name=f"channel {name}", result="ok", text=text)
    fix = f"'tollkeeper channel test {word(name)}' tries it again"
    if error.kind in (FailureKind.AUTH, FailureKind.UNSET):
        fix = advice(error, channel=name, key=str(number) if channel.keys else "")
    elif error.code == "upstream_unreachable":
        fix = _connection_fix(name, error)
    return Step(name=f"channel {name}", result="fail", text=message, fix=fix, code=error.code, status=error.http_status)


def _connection_fix(name: str, error: UpstreamError) -> str:
    """Returns what to do about a connection that was not made."""
    option, servers = "--base-url", "does"
    if "the proxy " in error.message:
        option, servers = "--proxy", "do the proxy and"
    change = f"If the address is wrong: 'tollkeeper channel edit {word(name)} {option} URL'"
    if "certificate" not in error.message:
        return f"is this machine online, and {servers} the upstream run? {change}"
    authority = "for an authority of your own, SSL_CERT_FILE names its file where the server runs"
    return f"check this machine's clock, and whether something intercepts TLS; {authority}. {change}"


def _clock_ahead(engine: Engine, channel: Channel) -> Millis | None:
    """Returns how far our clock is ahead of the ``Date`` of the upstream's latest response; None if unknown."""
    with suppress(ValueError):
        upstream_time = parsedate_to_datetime(engine.upstreams.dates.get(channel.id, ""))
        own_time = datetime.fromtimestamp(engine.now() / 1000, UTC)
        return Millis(round((own_time - upstream_time.astimezone(UTC)).total_seconds() * 1000))
    return None
