"""Doctor: finds out why a call does not work. Its checks follow the path of a call, and end with real calls to /v1.

The first check that fails says what to fix. Later ones are skipped, because their results would be misleading. The
checks do not decide anything themselves: they ask the gateway what it would do with the call that the last check makes.
Then the doctor checks every channel and the machine, whatever the results are so far.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from gateway.client.apps import last_used_token
from gateway.client.connect_card import SAMPLES
from gateway.client.control import ControlClient
from gateway.client.doctor_checks import check_everything
from gateway.client.test_call import EMBEDDINGS, PublicApi, api_for, call_facts, require_serving, version_text
from gateway.domain.advice import advice
from gateway.domain.call import CHAT_API
from gateway.domain.diagnosis import LimitView, Obstacle, Why, left_text
from gateway.domain.errors import GatewayError, QuotaExceeded, RateLimited, Unavailable, error_class
from gateway.domain.human_values import brief_multiplier, count_text, first_of
from gateway.domain.key_owners import hint
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.patterns import is_embedding_model
from gateway.domain.price_view import PriceView
from gateway.domain.text import plain, word
from gateway.domain.units import MILLION, Nanos
from gateway.domain.views import Step, TokenView


@dataclass(eq=False)
class Case:
    """The call to examine. Each check fills in what later checks need; the first failure skips those.

    ``key`` is a client's key, or ``token_ref`` the name of a token; the default is the active token used last. The
    default of ``model`` is the first model that the token sees, embedding models last. ``api`` is a name in ``TESTED``;
    the default is the one that suits the model.
    """

    client: ControlClient
    key: str = ""
    token_ref: str = ""
    model: str = ""
    api: str = ""
    """The API of the test calls; empty until the model is known."""
    public: PublicApi = field(init=False)
    token: TokenView | None = None
    """The token; None until it is known, and for a key that belongs to no token."""
    sees: Sequence[str] = ()
    """The models that the token sees."""
    why: Why = field(init=False)
    """What the gateway would do with the test call."""


Check = Callable[[Case], Awaitable[str | Step]]
"""Returns the text of a check that succeeds, or a Step. Raises GatewayError."""


async def examine(case: Case, *, one_call: bool = False) -> AsyncIterator[Step]:
    """Yields a Step for each check of the call, then for each channel and for the machine.

    With ``one_call``, only problems of this call are failures; all others are warnings.
    """
    async for step in examine_call(case):
        yield step
    async for step in check_everything(case.client):
        yield msgspec.structs.replace(step, result="warning") if one_call and step.result == "fail" else step


async def examine_call(case: Case) -> AsyncIterator[Step]:
    """Yields one Step for each check of the call."""
    has_failed = False
    for name, check in CHECKS:
        if has_failed:
            yield Step(name=name, result="skipped", text="skipped; fix the failure above first")
        else:
            step = await _run_check(name, check, case)
            has_failed = step.result == "fail"
            yield step


async def _run_check(name: str, check: Check, case: Case) -> Step:
    try:
        result = await check(case)
        step = result if isinstance(result, Step) else Step(name=name, result="ok", text=result)
    except GatewayError as error:
        step = _failure(error.message, _fix(error, case), error.code, error.http_status)
    return msgspec.structs.replace(step, name=name, text=step.text if step.result == "ok" else plain(step.text, 500))


def _fix(error: GatewayError, case: Case) -> str:
    token, group = case.token_ref, ""
    if case.token is not None:
        token, group = case.token.name, case.token.group
    call = str(error.details.get("call_id", ""))
    default = f"'tollkeeper usage {f'show {word(call)}' if call else 'list'}' shows what happened to the call"
    return advice(error, token=token, group=group, model=case.model) or default


async def check_gateway(case: Case) -> str:
    """Check that the gateway answers at the address for clients."""
    status = require_serving(await case.client.status())
    if not status.address:
        raise Unavailable("no server is running", code="server_gone")
    case.public = PublicApi(status.address, app="tollkeeper-doctor")
    await case.public.send("GET", "/health")
    return f"{status.address} answers ({status.state}, version {version_text(status)})"


async def check_token(case: Case) -> str | Step:
    """Check that the key is accepted, and find out which models it sees."""
    if case.key:
        case.token = next((t for t in await case.client.tokens() if t.hint == hint(case.key)), None)
    else:
        chosen = await _choose_token(case)
        if isinstance(chosen, Step):
            return chosen
        case.token = chosen
        case.key = (await case.client.token_pass(case.token.id))["key"]
    case.public = msgspec.structs.replace(case.public, key=case.key)
    case.sees = await case.public.models()
    subject = f"token '{plain(case.token.name)}'" if case.token else "the key"
    return f"{subject} is accepted; it sees {count_text(len(case.sees), 'model')}"


async def check_model(case: Case) -> str | Step:
    """Check that the token sees the model."""
    if not case.model:
        offered = [model.name for model in await case.client.models() if model.channels]
        names, embeds = case.sees or offered, case.api == EMBEDDINGS
        suitable = [name for name in names if is_embedding_model(name) == embeds]
        if embeds and names and not suitable:
            return _missing_model("no model looks like an embedding model", "name the model to test: --model NAME")
        case.model = next(iter(suitable or names), "")
    if not case.model:
        fix = "add a channel: 'tollkeeper channel add NAME --base-url URL --key -'"
        return _missing_model("no channel offers a model", fix)
    case.why = await _why(case, case.api or CHAT_API)
    if not case.why.visible:
        return _missing_model(case.why.rule, case.why.fix)
    if not case.api:
        case.api = api_for(case.model, *(route.upstream_model for route in case.why.routes if route.place))
        case.why = case.why if case.api == CHAT_API else await _why(case, case.api)
    return f"token '{plain(case.why.token)}' sees '{plain(case.model)}': {case.why.rule}"


async def _why(case: Case, api: str) -> Why:
    token = case.token.id if case.token is not None else case.key
    return await case.client.why(token, case.model, **call_facts(api))


def _missing_model(text: str, fix: str) -> Step:
    return _failure(text, fix, "model_not_found", 404)


async def _choose_token(case: Case) -> TokenView | Step:
    """Returns the named token, else the active one used last; a failure if no token is active."""
    if case.token_ref:
        return await case.client.token(case.token_ref)
    tokens = await case.client.tokens()
    usable = [token for token in tokens if token.state == "active" and not token.temporary]
    if not usable:
        reason = "all tokens are disabled or expired" if tokens else "no tokens yet"
        return _failure(reason, "'tollkeeper token add NAME' creates one", "not_found", 404)
    return last_used_token(usable)


_LIMIT_NOUNS = {"concurrent": "calls at once", "streams": "streams at once"}


async def check_quota(case: Case) -> str | Step:
    """Check that the account, the group and the token can pay for the call."""
    for obstacle in case.why.obstacles:
        is_quota = issubclass(error_class(obstacle.status, obstacle.code), QuotaExceeded)
        if is_quota or obstacle.code == "model_price_missing":
            return _obstacle_failure(obstacle)
    if (price := case.why.price) is None:
        text = f"'{plain(case.model)}' has no price: calls are counted but not charged, and no dollar budget stops them"
        fix = f"'tollkeeper price set {word(case.model)} --like OTHER', or give it amounts of its own"
        return Step(name="", result="warning", text=text, fix=fix)
    if price.free:
        return f"'{plain(case.model)}' is free"
    if not case.why.multiplier:
        return f"'{plain(case.model)}' is free in group '{plain(case.why.group)}'"
    texts = [left_text(case.why)]
    if case.why.hold_nanos is not None:
        texts.append(f"a test call holds {dollars(case.why.hold_nanos)}")
    return "; ".join([*texts, _cost_text(case.why, price)])


def _cost_text(why: Why, price: PriceView) -> str:
    costs = [Nanos(nanos * why.multiplier // MILLION) for nanos in (price.input, price.output)]
    texts = [f"a million tokens cost {' and '.join(map(brief_dollars, costs))} (input, output)"]
    if price.inherited_from:
        texts.append(f"the price of '{plain(price.inherited_from)}'")
    if why.multiplier != MILLION:
        texts.append(f"{brief_multiplier(why.multiplier)} in group '{plain(why.group)}'")
    return ", ".join(texts)


async def check_limits(case: Case) -> str | Step:
    """Check that no limit of the token or its group is reached."""
    for obstacle in case.why.obstacles:
        if issubclass(error_class(obstacle.status, obstacle.code), RateLimited):
            return _obstacle_failure(obstacle)
    parties = [(party, ", ".join(map(_remaining_text, party.limits))) for party in case.why.parties if party.limits]
    remaining = [f"{party.kind} '{plain(party.name)}' has {limits}" for party, limits in parties]
    return "; ".join(remaining) or "no limits are set"


async def check_channels(case: Case) -> str | Step:
    """Check that a channel can take the call."""
    if not case.why.works:
        return _obstacle_failure(case.why.obstacles[0])
    routes = [route for route in case.why.routes if route.place]
    ready = list(dict.fromkeys(route.channel for route in routes if not route.passed))
    if not ready:
        return case.why.message
    text = f"{first_of([plain(name) for name in ready], 5)} accept{'s' * (len(ready) == 1)} calls"
    unready = [route for route in routes if route.channel not in ready]
    reasons = list(dict.fromkeys(f"{plain(route.channel)} does not ({plain(route.passed)})" for route in unready))
    return f"{text}; {first_of(reasons, 5)}" if reasons else text


async def check_calls(case: Case) -> str:
    """Make a plain call, and a streamed one if the API has streams."""
    plain_call = await case.client.call(await case.public.plain_call(case.model, case.api))
    cost = dollars(plain_call.cost_nanos)
    if not SAMPLES[case.api].end_marks:
        duration = f"a call for {case.api} took {plain_call.duration_ms} ms"
        return f"{duration}, by channel '{plain_call.channel}', for {cost}"
    plain_text = f"a plain call took {plain_call.duration_ms} ms"
    try:
        call_id = await case.public.streamed_call(case.model, case.api)
    except RateLimited as error:
        if error.code != RateLimited.default_code:
            raise
        return f"{plain_text}, by channel '{plain_call.channel}', for {cost}; a limit does not allow a second call yet"
    streamed = await case.client.call(call_id)
    cost = dollars(plain_call.cost_nanos + streamed.cost_nanos)
    both = f"{plain_text}, a streamed one {streamed.duration_ms} ms"
    return f"{both}, by channel '{streamed.channel}', for {cost} together"


def _obstacle_failure(obstacle: Obstacle) -> Step:
    return _failure(obstacle.message, obstacle.fix, obstacle.code, obstacle.status)


def _failure(text: str, fix: str, code: str, status: int) -> Step:
    """Returns a failed check: what is wrong, what to do, and the code and status of a call that is rejected for it."""
    return Step(name="", result="fail", text=text.removesuffix(f"; {fix}"), fix=fix, code=code, status=status)


def _remaining_text(limit: LimitView) -> str:
    return f"{limit.left:,} of {count_text(limit.limit, _LIMIT_NOUNS.get(limit.name, plain(limit.name)))} left"


CHECKS: tuple[tuple[str, Check], ...] = (
    ("the gateway answers", check_gateway),
    ("the token is accepted", check_token),
    ("the model is offered", check_model),
    ("the quota is enough", check_quota),
    ("no limit is reached", check_limits),
    ("a channel is ready", check_channels),
    ("a real call works", check_calls),
)
