"""Way: from a client's key to the channels that may answer it: the doctor's first four questions."""

from difflib import get_close_matches

import msgspec

from gateway.client.case import NO_SERVER, START, Case, Ill
from gateway.client.trial import INPUT_BOUND, OUTPUT_CAP, door
from gateway.domain.text import plain, word
from gateway.domain.views import TokenView


async def gateway(case: Case) -> str:
    """Whether the gateway answers where clients ask."""
    status = await case.client.status()
    if not status.address:
        raise Ill("the gateway is not listening: no server runs", START, code=NO_SERVER, status=503)
    case.door = door(status.address)
    await case.door.ask("GET", "/health")
    return f"{status.address} answers ({status.state}, version {status.version})"


async def token(case: Case) -> str:
    """Whether the key is a token that may be used, and what it sees."""
    if case.key:
        case.token = next((t for t in await case.client.tokens() if _fits(t, case.key)), None)
    else:
        case.token = await _chosen_token(case)
        case.key = await case.client.token_pass(case.token.id)
    case.door = msgspec.structs.replace(case.door, key=case.key)
    case.sees = await case.door.models()
    who = f"token '{plain(case.token.name)}'" if case.token else "the key"
    return f"{who} is accepted; it sees {len(case.sees)} model{'' if len(case.sees) == 1 else 's'}"


async def model(case: Case) -> str:
    """Whether anybody serves that model, or answers for it."""
    models = {model.name: model for model in await case.client.models()}
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
        raise _missing(f"'{name}' is served by {by_whom} only, which is switched off", fix)
    if case.model in case.sees:
        return f"no channel serves '{name}', other models answer for it"
    near = ", ".join(f"'{plain(one)}'" for one in get_close_matches(case.model, models, 3, 0.4))
    meant = f"; did you mean {near}?" if near else ""
    fix = "take a name of 'tollkeeper model list', or add it: 'tollkeeper channel edit NAME --models ...'"
    raise _missing(f"no channel serves a model named '{name}'{meant}", fix)


async def group(case: Case) -> str:
    """Whether the token's group leads there, and how: what the gateway itself says of the call."""
    who = case.token.id if case.token is not None else case.key
    size = {"prompt_tokens": INPUT_BOUND, "max_tokens": OUTPUT_CAP}
    case.why = await case.client.why(who, case.model, stream=True, **size)
    if not case.why.visible:
        raise _missing(case.why.rule, case.why.fix)
    way = " or ".join(f"channel '{plain(route.channel)}'" for route in case.why.routes if route.place)
    return f"token '{plain(case.why.token)}' > group '{plain(case.why.group)}' > {way}"


def _missing(text: str, fix: str) -> Ill:
    return Ill(text, fix, code="model_not_found", status=404)


async def _any_enabled(case: Case, names: list[str]) -> bool:
    return any(channel.enabled for channel in await case.client.channels() if channel.name in names)


async def _chosen_token(case: Case) -> TokenView:
    if case.token_ref:
        return await case.client.token(case.token_ref)
    tokens = await case.client.tokens()
    usable = [token for token in tokens if token.state == "active"]
    if not usable:
        there = "every token is disabled or expired" if tokens else "there are no tokens"
        fix = "'tollkeeper token add NAME' makes one and tells its key once"
        raise Ill(there, fix, code="not_found", status=404)
    return max(usable, key=lambda token: token.last_used_ms or 0)


def _fits(token: TokenView, key: str) -> bool:
    """Whether the shown parts of a token's key are those of this key."""
    head, _, end = token.hint.partition("…")
    return bool(head and end) and key.startswith(head) and key.endswith(end)
