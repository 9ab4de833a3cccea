"""Doctor: why does my call not work? The questions in the order of a call's way, ending in real calls through /v1.

The first question that fails is the one to mend; those after it are skipped, for their answers would only mislead.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from difflib import get_close_matches

import msgspec

from gateway.client.control import ControlClient
from gateway.client.trial import Door, door
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import plain
from gateway.domain.views import AccountView, BudgetView, ChannelView, GroupView, ModelView, Step, TokenView, iso

TEXT_LIMIT = 500


class Ill(Exception):
    """A question has a bad answer: what is wrong, and what to do."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(text)
        self.text = text
        self.fix = fix


class Case:
    """What is examined, and what was found out so far."""

    def __init__(self, client: ControlClient, *, key: str, token: str, model: str) -> None:
        self.client = client
        self.key = key
        self.token_ref = token
        self.model = model
        self.door: Door
        self.token: TokenView | None = None
        self.sees: list[str] = []
        self.found: ModelView
        self.routes: list[ChannelView] = []


async def examine(client: ControlClient, *, key: str = "", token: str = "", model: str = "") -> AsyncIterator[Step]:
    """One Step a question.

    ``key`` is a client's key, or ``token`` the name of one; else the active token used last. ``model`` is what the
    client asks for; else the first model that the token sees.
    """
    case, failed = Case(client, key=key, token=token, model=model), False
    for name, question in QUESTIONS:
        if failed:
            yield Step(name=name, result="skipped", text="not asked: mend the failure above first")
        else:
            step = await _answered(name, question(case))
            failed = step.result == "fail"
            yield step


async def _answered(name: str, answer: Awaitable[str]) -> Step:
    try:
        return Step(name=name, result="ok", text=await answer)
    except Ill as ill:
        return Step(name=name, result="fail", text=ill.text, fix=ill.fix)
    except GatewayError as error:
        otherwise = _START if isinstance(error, Unavailable) else _LOOK
        fix = _FIXES.get(error.code, otherwise)
        return Step(name=name, result="fail", text=plain(error.message, TEXT_LIMIT), fix=fix)


async def _gateway(case: Case) -> str:
    """Whether the gateway answers where clients ask."""
    status = await case.client.status()
    if not status.address:
        raise Ill("the gateway is not listening: no server runs", _START)
    case.door = door(status.address)
    await case.door.ask("GET", "/health")
    return f"{status.address} answers ({status.state}, version {status.version})"


async def _token(case: Case) -> str:
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


async def _model(case: Case) -> str:
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


async def _group(case: Case) -> str:
    """Whether the token's group leads there, and how."""
    if case.token is None:
        if case.model not in case.sees:
            raise Ill(f"the key does not see '{case.model}'", "'tollkeeper token list' shows the groups of all tokens")
        return f"the key sees '{case.model}'"
    token, group = case.token, await case.client.group(case.token.group)
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


async def _quota(case: Case) -> str:
    """Whether there is money, and a price."""
    account = await case.client.account()
    if account.status != "active":
        raise Ill(f"the account is {account.status}", "'tollkeeper account set --status active'")
    await _check_budgets(case, account)
    price = case.found.price
    if price is None:
        if (await case.client.settings()).refuse_unpriced:
            fix = f"'tollkeeper price set {case.model} --input DOLLARS --output DOLLARS' (per million tokens)"
            raise Ill(f"'{case.model}' has no price, and calls without a price are refused", fix)
        return "no price is set: the call will cost nothing here"
    if price.free:
        return f"'{case.model}' is free"
    left = account.available_nanos
    if left <= 0:
        held = f", {dollars(account.held_nanos)} held by running calls" if account.held_nanos else ""
        raise Ill(
            f"nothing is left: the balance is {dollars(account.balance_nanos)}{held}", _FIXES["insufficient_quota"]
        )
    rates = f"{brief_dollars(price.input_nanos)} and {brief_dollars(price.output_nanos)}"
    return f"{brief_dollars(left)} are available; a million tokens cost {rates} (input, output)"


async def _check_budgets(case: Case, account: AccountView) -> None:
    owners: list[tuple[str, str, list[BudgetView]]] = [("the account", "account set", account.budgets)]
    if case.token is not None:
        group = await case.client.group(case.token.group)
        owners.append((f"group '{group.name}'", f"group edit {group.name}", group.budgets))
        owners.append((f"token '{case.token.name}'", f"token edit {case.token.name}", case.token.budgets))
    for owner, command, budgets in owners:
        for budget in filter(_used_up, budgets):
            until = f" until {iso(budget.resets_at_ms)}" if budget.resets_at_ms else ""
            raise Ill(
                f"the budget of {owner} ({budget.window.value}) is used up{until}", f"'tollkeeper {command}' changes it"
            )


async def _ready(case: Case) -> str:
    """Whether a channel takes calls now."""
    takes = [channel for channel in case.routes if channel.state in ("ok", "half_open")]
    rests = [channel for channel in case.routes if channel not in takes]
    told = "; ".join(f"{channel.name} is {channel.state} ({plain(channel.reason)})" for channel in rests)
    if takes:
        return ", ".join(channel.name for channel in takes) + " takes calls" + (f"; {told}" if told else "")
    first = case.routes[0]
    until = f" until {iso(first.until_ms)}" if first.until_ms else ""
    raise Ill(
        f"no channel takes calls{until}: {told}",
        f"'tollkeeper channel test {first.name}' tries it; if that is good it takes calls again",
    )


async def _calls(case: Case) -> str:
    """Whether a plain and a streamed call get through."""
    ids = [await case.door.plain_call(case.model), await case.door.streamed_call(case.model)]
    whole, streamed = [await case.client.call(call_id) for call_id in ids]
    return (
        f"a plain call took {whole.duration_ms} ms, a streamed one {streamed.duration_ms} ms, by channel "
        f"'{streamed.channel}', for {dollars(whole.cost_nanos + streamed.cost_nanos)} together"
    )


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


def _used_up(budget: BudgetView) -> bool:
    money = budget.limit_nanos is not None and budget.spent_nanos + budget.held_nanos >= budget.limit_nanos
    return money or (budget.limit_tokens is not None and budget.spent_tokens >= budget.limit_tokens)


_START = "start it with 'tollkeeper serve', or with 'tollkeeper' for the console as well"
_LOOK = "'tollkeeper usage list' shows the call and what became of it"

_FIXES = {
    "gateway_stopping": "it is stopping: wait until it is gone, then 'tollkeeper serve'",
    "insufficient_quota": "top up: 'tollkeeper account grant 10'",
    "invalid_api_key": "'tollkeeper token list' shows the tokens, 'tollkeeper token rotate NAME' tells a new key",
    "no_channel_available": "'tollkeeper channel list' shows why each one is out",
    "not_found": "'tollkeeper token list' and 'tollkeeper channel list' show the names there are",
    "overloaded": "too many calls run at once: try again",
    "rate_limit_exceeded": "wait a minute, or raise the limits of the token or its group",
    "server_slow": "the gateway hangs: its log is server.log in its home",
    "store_unavailable": "the disk is full or refuses to be written: 'tollkeeper status' says what it said",
    "token_disabled": "'tollkeeper token enable NAME'",
    "token_expired": "'tollkeeper token edit NAME --expires 30d'",
    "upstream_auth_failed": "the upstream refuses the channel's key: 'tollkeeper channel edit NAME --key KEY'",
    "upstream_out_of_credit": "the account at the upstream has no credit: top up there",
    "upstream_timeout": "the upstream is slow: 'tollkeeper channel edit NAME --timeout head=300'",
    "upstream_unreachable": "the channel's base URL does not answer: does the upstream run?",
    "wrong_host": "use the address that 'tollkeeper status' shows",
}

QUESTIONS: tuple[tuple[str, Callable[[Case], Awaitable[str]]], ...] = (
    ("the gateway answers", _gateway),
    ("the token is accepted", _token),
    ("the model exists", _model),
    ("the group includes it", _group),
    ("the quota suffices", _quota),
    ("a channel takes calls", _ready),
    ("a real call works", _calls),
)
