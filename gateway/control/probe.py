"""Probe: is a channel any good? First the free question for its models, then, if a model is named, one tiny real call.

The call goes to the channel directly, whatever its state; it is the owner's own question and is not booked. What the
upstream bills for it is said in the result.
"""

import secrets

import msgspec

from gateway.core.engine import Engine
from gateway.domain.channel import Channel, Check, Served, key_id
from gateway.domain.errors import NotFound, UpstreamError
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream.adapter import Order, Whole
from gateway.upstream.overridden import overridden

OUTPUT_CAP = 16
BODY_LIMIT = 1 << 20
TEXT_LIMIT = 300

_FIELDS = {
    "messages": b'[{"role":"user","content":"Reply with the single word: ok"}]',
    "max_tokens": b"%d" % OUTPUT_CAP,
    "stream": b"false",
}


async def probe(engine: Engine, channel: Channel, model: str) -> Check:
    """What came of it. ``ms`` is the time of the call if there was one, else of the list.

    Of several keys each is tried, and one that is accepted is used again; the call is made with the first of those.
    Raises NotFound if the channel does not serve the model.
    """
    served = _served(channel, model)
    began = engine.clock.mono()
    channel, ok, text = (
        await _with_good_key(engine, channel) if channel.keys else (channel, *await _list(engine, channel))
    )
    if served is not None:
        listed, began = text, engine.clock.mono()
        ok, text = await _call(engine, channel, served)
        text = f"{text}; {listed}"
    ms = Millis(round((engine.clock.mono() - began) * 1000))
    return Check(time=engine.now(), ok=ok, ms=ms, text=plain(text, TEXT_LIMIT))


def _served(channel: Channel, model: str) -> Served | None:
    if not model:
        return None
    for served in channel.models:
        if served.name == model:
            return served
    names = ", ".join(sorted(served.name for served in channel.models)[:20])
    raise NotFound(f"channel '{channel.name}' does not serve '{plain(model)}'; it serves: {names}", param="model")


async def _list(engine: Engine, channel: Channel) -> tuple[bool, str]:
    try:
        found = await engine.upstreams.fetch_models(channel)
    except UpstreamError as error:
        return False, f"no list of models: {error.message}"
    offered = {model.upstream_name for model in found}
    missing = [m.name for m in channel.models if m.upstream_name not in offered]
    gone = f"; not among them: {', '.join(missing[:5])}" if missing else ""
    return True, f"it lists {len(found)} models{gone}"


async def _with_good_key(engine: Engine, channel: Channel) -> tuple[Channel, bool, str]:
    """The channel with the first of its keys that is accepted, and what was found."""
    good: list[tuple[Channel, str]] = []
    bad = []
    for number, key in enumerate(channel.all_keys, start=1):
        one = msgspec.structs.replace(channel, key=key, keys=())
        ok, text = await _list(engine, one)
        if ok:
            engine.health.clear(key_id(channel.id, number))
            good.append((one, text))
        else:
            bad.append(f"key {number}: {text}")
    found = f"{len(good)} of {len(channel.all_keys)} keys are accepted"
    first, text = good[0] if good else (channel, "")
    return first, bool(good), "; ".join([found, *([text] if text else []), *bad])


async def _call(engine: Engine, channel: Channel, served: Served) -> tuple[bool, str]:
    try:
        whole = await _exchange(engine, channel, served)
    except UpstreamError as error:
        return False, f"the call failed: {error.message}"
    if whole.reported is None:
        return True, f"'{served.name}' answered and reported no usage"
    return True, f"'{served.name}' answered with {whole.reported.input} input, {whole.reported.output} output tokens"


async def _exchange(engine: Engine, channel: Channel, served: Served) -> Whole:
    fields = {"model": msgspec.json.encode(served.name), **_FIELDS}
    order = Order(
        fields={name: msgspec.Raw(value) for name, value in fields.items()},
        model=served.name,
        answer_id=f"chatcmpl-{secrets.token_hex(12)}",
        created=engine.now() // 1000,
    )
    if channel.overrides is not None:
        order = overridden(order, channel.overrides)
    learned = engine.lessons.of(channel.id, served, engine.now())
    return await engine.upstreams.complete(channel, order, served, learned, BODY_LIMIT)
