"""Way: from a client's key to the channels that may answer it: the doctor's first four questions."""

from difflib import get_close_matches

import msgspec

from gateway.client.case import START, Case, Ill
from gateway.client.trial import door
from gateway.domain.text import plain
from gateway.domain.views import ChannelView, GroupView, TokenView


async def gateway(case: Case) -> str:
    """Whether the gateway answers where clients ask."""
    status = await case.client.status()
    if not status.address:
        raise Ill("the gateway is not listening: no server runs", START)
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
    who = f"token '{case.token.name}'" if case.token else "the key"
    return f"{who} is accepted; it sees {len(case.sees)} model{'' if len(case.sees) == 1 else 's'}"


async def model(case: Case) -> str:
    """Whether anybody serves that model."""
    models = {model.name: model for model in await case.client.models()}
    case.model = case.model or next(iter(case.sees or models), "")
    if not case.model:
        raise Ill("there are no models at all", "add a channel: 'tollkeeper channel add NAME --base-url URL --key KEY'")
    if case.model not in models:
        near = get_close_matches(case.model, models, 3, 0.4)
        names = ", ".join(map(repr, near))
        meant = f"; did you mean {names}?" if near else ""
        raise Ill(
            f"no channel serves a model named '{plain(case.model)}'{meant}",
            "take a name of 'tollkeeper model list', or add it: 'tollkeeper channel edit NAME --models ...'",
        )
    case.found = models[case.model]
    case.routes = [c for c in await case.client.channels() if c.name in case.found.channels]
    by_whom = ", ".join(case.found.channels)
    if not any(channel.enabled for channel in case.routes):
        fix = f"'tollkeeper channel enable {case.found.channels[0]}'"
        raise Ill(f"'{case.model}' is served by {by_whom} only, which is switched off", fix)
    return f"'{case.model}' is served by {by_whom}"


async def group(case: Case) -> str:
    """Whether the token's group leads there, and how."""
    if case.token is None:
        if case.model not in case.sees:
            raise Ill(f"the key does not see '{case.model}'", "'tollkeeper token list' shows the groups of all tokens")
        return f"the key sees '{case.model}'"
    token, group = case.token, await case.client.group(case.token.group)
    case.group = group
    enabled = [channel for channel in case.routes if channel.enabled]
    inside = [channel for channel in enabled if group.name in channel.groups]
    if case.model not in case.sees:
        raise _unseen(case.model, token, group, inside or None, enabled)
    case.routes = inside
    way = " or ".join(f"channel '{channel.name}'" for channel in inside)
    return f"token '{token.name}' > group '{group.name}' > {way}"


def _unseen(
    model: str, token: TokenView, group: GroupView, inside: list[ChannelView] | None, enabled: list[ChannelView]
) -> Ill:
    """Why a token does not see a model that somebody serves."""
    if not enabled:
        return Ill(f"every channel that serves '{model}' is off", "'tollkeeper channel enable NAME' turns one on")
    if inside is None:
        other = enabled[0]
        groups = ",".join([*other.groups, group.name])
        fix = f"'tollkeeper channel edit {other.name} --group {groups}'"
        if other.groups:
            fix += f", or move the token: 'tollkeeper token edit {token.name} --group {other.groups[0]}'"
        return Ill(f"token '{token.name}' is in group '{group.name}', of which no channel serves '{model}'", fix)
    if model not in group.sees:
        fix = f"'tollkeeper group edit {group.name} --models ...' with it, or '*' for all"
        return Ill(f"group '{group.name}' shows only {', '.join(group.models)}; '{model}' does not fit", fix)
    fix = f"'tollkeeper token edit {token.name} --models ...' with it, or '*' for all"
    return Ill(f"token '{token.name}' may use only {', '.join(token.models)}; '{model}' does not fit", fix)


async def _chosen_token(case: Case) -> TokenView:
    if case.token_ref:
        return await case.client.token(case.token_ref)
    tokens = await case.client.tokens()
    usable = [token for token in tokens if token.state == "active"]
    if not usable:
        there = "every token is disabled or expired" if tokens else "there are no tokens"
        raise Ill(there, "'tollkeeper token add NAME' makes one and tells its key once")
    return max(usable, key=lambda token: token.last_used_ms or 0)


def _fits(token: TokenView, key: str) -> bool:
    """Whether the shown parts of a token's key are those of this key."""
    head, _, end = token.hint.partition("…")
    return bool(head and end) and key.startswith(head) and key.endswith(end)
