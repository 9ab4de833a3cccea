"""Doctor: why does my call not work? The questions follow the path of a call and end in real calls through /v1.

The first question that fails is the one to fix. Later ones are skipped, because their answers would mislead. Three lead
from a client's key to the channels that may answer it. The others ask the gateway what it would do with the call that
the last one makes, so nothing is decided here. Then it checks every channel and the machine, whatever came before.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from gateway.client.apps import used_last
from gateway.client.control import ControlClient
from gateway.client.doctor_rounds import START, check_everything
from gateway.client.test_call import (
    EMBEDDINGS,
    INPUT_BOUND,
    OUTPUT_CAP,
    TESTED,
    PublicApi,
    api_for,
    demand_serving,
    public_api,
)
from gateway.domain.advice import advice
from gateway.domain.call import CHAT_API
from gateway.domain.diagnosis import LimitView, Obstacle, Why, left_text
from gateway.domain.errors import GatewayError, QuotaExceeded, RateLimited, error_class
from gateway.domain.human_values import brief_multiplier, count_text
from gateway.domain.key_owners import hint
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import plain, word
from gateway.domain.units import MILLION, Nanos
from gateway.domain.views import Step, TokenView

NO_SERVER = "server_gone"
"""The code for a server that does not run."""


class CheckFailed(Exception):
    """A check failed: what is wrong, what to do, and what a call is refused with for it."""

    def __init__(self, text: str, fix: str, *, code: str, status: int) -> None:
        super().__init__(text)
        self.step = Step(name="", result="fail", text=text.removesuffix(f"; {fix}"), fix=fix, code=code, status=status)


class Case:
    """What the checks know. Later fields are filled by one check and used by the next."""

    def __init__(self, client: ControlClient, *, key: str, token: str, model: str, api: str = "") -> None:
        self.client = client
        self.key = key
        self.token_ref = token
        self.model = model
        self.api = api
        """The API of the test calls; empty until it is known which one the model is for."""
        self.public: PublicApi
        self.token: TokenView | None = None
        """None: a key was given, and it belongs to no token."""
        self.sees: list[str] = []
        self.why: Why
        """What the gateway would do with the test call."""


Question = Callable[[Case], Awaitable[str | Step]]


async def examine(
    client: ControlClient,
    *,
    key: str = "",
    token: str = "",
    model: str = "",
    api: str = "",
    one_call: bool = False,
) -> AsyncIterator[Step]:
    """Yields one Step for each question, then one for each channel and machine check.

    ``one_call``: the caller wants to know about this call only, so problems elsewhere are warnings, not failures.
    """
    async for step in ask(client, key=key, token=token, model=model, api=api):
        yield step
    async for step in check_everything(client):
        yield msgspec.structs.replace(step, result="warning") if one_call and step.result == "fail" else step


async def ask(
    client: ControlClient, *, key: str = "", token: str = "", model: str = "", api: str = ""
) -> AsyncIterator[Step]:
    """Yields one Step for each question.

    ``key`` is a client's key, or ``token`` the name of one; else the active token used last. ``model`` is what the
    client requests; else the first model that the token sees, embeddings last. ``api`` is a name in ``TESTED``; else
    the one for the model.
    """
    case, failed = Case(client, key=key, token=token, model=model, api=api), False
    for name, question in QUESTIONS:
        if failed:
            yield Step(name=name, result="skipped", text="skipped: fix the failure above first")
        else:
            step = await _answer_step(name, question, case)
            failed = step.result == "fail"
            yield step


async def _answer_step(name: str, question: Question, case: Case) -> Step:
    try:
        answer = await question(case)
        step = answer if isinstance(answer, Step) else Step(name=name, result="ok", text=answer)
    except CheckFailed as failed:
        step = failed.step
    except GatewayError as error:
        fix = _fix(error, case)
        text, status = error.message.removesuffix(f"; {fix}"), error.http_status
        step = Step(name=name, result="fail", text=text, fix=fix, code=error.code, status=status)
    return msgspec.structs.replace(step, name=name, text=step.text if step.result == "ok" else plain(step.text, 500))


def _fix(error: GatewayError, case: Case) -> str:
    """Returns what to do, with the names known so far."""
    names = {"token": case.token_ref, "model": case.model}
    if case.token is not None:
        names |= {"token": case.token.name, "group": case.token.group}
    otherwise = START if error.code == NO_SERVER else _look(error)
    return advice(error, **{noun: name for noun, name in names.items() if name}) or otherwise


def _look(error: GatewayError) -> str:
    call = str(error.details.get("call_id", ""))
    return f"'tollkeeper usage {f'show {word(call)}' if call else 'list'}' shows what happened to the call"


async def check_gateway(case: Case) -> str:
    """Checks that the gateway answers at the clients' address."""
    status = demand_serving(await case.client.status())
    if not status.address:
        raise CheckFailed("the gateway is not listening: no server runs", START, code=NO_SERVER, status=503)
    case.public = public_api(status.address, app="tollkeeper-doctor")
    await case.public.ask("GET", "/health")
    return f"{status.address} answers ({status.state}, version {status.version})"


async def check_token(case: Case) -> str:
    """Checks that the key is a usable token, and what it sees."""
    if case.key:
        case.token = next((t for t in await case.client.tokens() if t.hint == hint(case.key)), None)
    else:
        case.token = await _chosen_token(case)
        case.key = await case.client.token_pass(case.token.id)
    case.public = msgspec.structs.replace(case.public, key=case.key)
    case.sees = await case.public.models()
    who = f"token '{plain(case.token.name)}'" if case.token else "the key"
    return f"{who} is accepted; it sees {count_text(len(case.sees), 'model')}"


async def check_model(case: Case) -> str:
    """Checks that the token's group leads to a channel with the model, by the gateway's own decision."""
    if not case.model:
        offered = [model.name for model in await case.client.models() if model.channels]
        case.model = _model_to_test(case, case.sees or offered)
    if not case.model:
        fix = "add a channel: 'tollkeeper channel add NAME --base-url URL --key KEY'"
        raise _missing("no channel offers a model", fix)
    case.why = await _why(case, case.api or CHAT_API)
    if not case.why.visible:
        raise _missing(case.why.rule, case.why.fix)
    if not case.api:
        case.api = api_for(case.model, *(route.upstream_model for route in case.why.routes if route.place))
        case.why = case.why if case.api == CHAT_API else await _why(case, case.api)
    return f"token '{plain(case.why.token)}' sees '{plain(case.model)}': {case.why.rule}"


async def _why(case: Case, api: str) -> Why:
    who, streams = case.token.id if case.token is not None else case.key, bool(TESTED[api].ends)
    size = {"prompt_tokens": INPUT_BOUND} | ({"max_tokens": OUTPUT_CAP} if streams else {})
    return await case.client.why(who, case.model, stream=streams, api=api if api != CHAT_API else None, **size)


def _model_to_test(case: Case, names: list[str]) -> str:
    """Returns the first model for the API, else the first of all; empty without models."""
    embeds = case.api == EMBEDDINGS
    fit = [name for name in names if is_embedding_model(name) == embeds]
    if embeds and names and not fit:
        raise _missing("no model looks like an embedding model", "name the one to test: --model NAME")
    return next(iter(fit or names), "")


def _missing(text: str, fix: str) -> CheckFailed:
    return CheckFailed(text, fix, code="model_not_found", status=404)


async def _chosen_token(case: Case) -> TokenView:
    if case.token_ref:
        return await case.client.token(case.token_ref)
    tokens = await case.client.tokens()
    usable = [token for token in tokens if token.state == "active" and not token.temporary]
    if not usable:
        there = "all tokens are disabled or expired" if tokens else "no tokens yet"
        raise CheckFailed(there, "'tollkeeper token add NAME' creates one", code="not_found", status=404)
    return used_last(usable)


_LIMITS = {"concurrent": "calls at once", "streams": "streams at once"}


async def check_quota(case: Case) -> str | Step:
    """Checks money and price."""
    for obstacle in _obstacles(case.why):
        if obstacle.code == "model_price_missing" or issubclass(
            error_class(obstacle.status, obstacle.code), QuotaExceeded
        ):
            raise _ill(obstacle)
    if (price := case.why.price) is None:
        text = f"'{plain(case.model)}' has no price: calls are counted, not charged, and no budget stops them"
        fix = f"'tollkeeper price set {word(case.model)} --like OTHER', or give it amounts of its own"
        return Step(name="", result="warning", text=text, fix=fix)
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
    """Checks the limits of token and group."""
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
    """Checks that a channel is ready."""
    if not case.why.works:
        raise _ill(_obstacles(case.why)[0])
    asked = [route for route in case.why.routes if route.place]
    ready = list(dict.fromkeys(route.channel for route in asked if not route.passed))
    if not ready:
        return case.why.message
    others = [
        f"; {plain(route.channel)} does not ({plain(route.passed)})" for route in asked if route.channel not in ready
    ]
    return f"{', '.join(map(plain, ready))} accept{'s' * (len(ready) == 1)} calls{''.join(dict.fromkeys(others))}"


async def check_calls(case: Case) -> str:
    """Makes a plain and a streamed call."""
    whole = await case.client.call(await case.public.plain_call(case.model, case.api))
    if not TESTED[case.api].ends:
        by = f"by channel '{whole.channel}', for {dollars(whole.cost_nanos)}"
        return f"a call for {case.api} took {whole.duration_ms} ms, {by}"
    took = f"a plain call took {whole.duration_ms} ms"
    try:
        call_id = await case.public.streamed_call(case.model, case.api)
    except RateLimited as error:
        if error.code != RateLimited.default_code:
            raise
        cost = dollars(whole.cost_nanos)
        return f"{took}, by channel '{whole.channel}', for {cost}; a limit does not allow a second call yet"
    streamed = await case.client.call(call_id)
    cost = dollars(whole.cost_nanos + streamed.cost_nanos)
    return f"{took}, a streamed one {streamed.duration_ms} ms, by channel '{streamed.channel}', for {cost} together"


def _obstacles(why: Why) -> list[Obstacle]:
    """Yields the obstacles in the order in which the call meets them."""
    first = Obstacle(status=why.status, code=why.code, message=why.message, fix=why.fix)
    return ([] if why.works else [first]) + ([why.then] if why.then is not None else [])


def _ill(obstacle: Obstacle) -> CheckFailed:
    return CheckFailed(obstacle.message, obstacle.fix, code=obstacle.code, status=obstacle.status)


def _remaining_text(limit: LimitView) -> str:
    return f"{limit.left:,} of {count_text(limit.limit, _LIMITS.get(limit.name, plain(limit.name)))} left"


QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("the gateway answers", check_gateway),
    ("the token is accepted", check_token),
    ("the model is offered", check_model),
    ("the quota is enough", check_quota),
    ("no limit is reached", check_limits),
    ("a channel is ready", check_channels),
    ("a real call works", check_calls),
)
