"""Why a call is routed, or refused, as it is.

Long: every reason that a call can be refused for, each with its fix.
"""

import asyncio

import pytest

from gateway.client.control import ControlClient
from gateway.domain.budget import Budget, Window
from gateway.domain.call import FailureKind, request_size
from gateway.domain.channel import Channel, Dialect
from gateway.domain.diagnosis import Why
from gateway.domain.errors import BadRequest, InvalidToken, NotFound
from gateway.domain.group import Fallback
from gateway.domain.limits import Limits
from gateway.domain.units import ChannelId, Nanos
from tests.fakes.gateway import INPUT, OUTPUT, Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak
from tests.faults.test_races import walled

UP = ChannelId("ch_up")


def against(found: Why) -> dict[str, str]:
    """Channel to the reason it would be passed over."""
    return {route.channel: route.passed for route in found.routes}


async def test_a_call_that_would_work(owner: ControlClient, provider: Provider) -> None:
    found = await owner.why("laptop", "m", prompt_tokens=200, max_tokens=50)
    assert (found.works, found.status, found.fix) == (True, 200, "")
    assert (found.hold_nanos, found.hold_tokens) == ((200 * INPUT + 50 * OUTPUT) // 10**6, 250)
    assert found.rule == "group 'default' has it from up"
    assert found.message == "channel 'up' would be tried first: priority 0"
    assert [(r.channel, r.upstream_model, r.chance, r.passed) for r in found.routes] == [("up", "m", 1.0, "")]
    assert provider.exchanges == []


@pytest.mark.parametrize("body", [{"max_tokens": 60_000}, {"max_completion_tokens": 30_000, "n": 2}])
async def test_the_record_of_a_refusal_tells_what_to_ask_about(
    owner: ControlClient, gateway: Gateway, body: dict[str, int]
) -> None:
    await owner.edit_token("laptop", {"budgets": [{"window": "day", "nanos": 60_000 * OUTPUT // 10**6}]})
    answer = await gateway.client.chat("m", **body)
    (record,) = (await owner.calls(limit=1)).calls
    size = request_size(record.marks)
    assert (answer.status, size is not None and size.max_output) == (429, 60_000)
    assert "'tollkeeper token edit laptop --hold-output 8000'" in record.error
    assert size is not None
    found = await owner.why("laptop", "m", prompt_tokens=size.input, max_tokens=size.max_output)
    assert (found.status, found.code) == (429, "token_quota_exceeded")
    assert record.error.startswith(found.message.partition("; or send it")[0])  # the other one has two choices
    assert (await owner.why("laptop", "m")).works


async def test_the_record_of_a_refusal_tells_whether_a_stream_was_wanted(
    owner: ControlClient, gateway: Gateway, stream: bool
) -> None:
    assert (await gateway.client.chat("unknown", stream=stream)).status == 404
    (record,) = (await owner.calls(limit=1)).calls
    assert (record.model, record.stream) == ("unknown", stream)


async def test_channels_and_the_reasons_against_them(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("work")
    places: dict[str, dict[str, object]] = {
        "elsewhere": {"groups": ("work",)},
        "off": {"enabled": False},
        "other": {"models": ()},
        "resting": {"priority": 9},
    }
    for name, fields in places.items():
        gateway.channel("http://127.0.0.1:9/v1", name=name, **fields)
    gateway.engine.health.note_failure(ChannelId("ch_resting"), FailureKind.RATE, "429", 30)
    found = await owner.why("laptop", "m")
    assert against(found) == {
        "elsewhere": "not in group 'default'",
        "off": "disabled",
        "other": "does not offer the model",
        "resting": "paused for 30 s: 429",
        "up": "",
    }
    assert found.routes[0].until_ms is not None
    assert {route.chance for route in found.routes if route.channel != "up"} == {0.0}


async def test_no_channel_left_says_what_to_do_with_the_first(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.health.note_failure(UP, FailureKind.AUTH, "invalid key")
    found = await owner.why("laptop", "m")
    assert (found.status, found.code) == (503, "no_channel_available")
    assert "tollkeeper why" not in found.message
    assert found.fix.startswith("fix channel 'up', then 'tollkeeper channel test up'")


async def test_a_model_that_no_channel_has(owner: ControlClient) -> None:
    found = await owner.why("laptop", "gpt-9")
    assert (found.visible, found.status, found.hold_nanos) == (False, 404, None)
    assert found.rule == "no channel offers a model named 'gpt-9'"
    assert "tollkeeper model list" in found.fix
    assert "is not visible to token 'laptop'" in found.message
    assert "tollkeeper why" not in found.message  # this is the answer of that command
    assert "did you mean" not in found.message


async def test_the_rest_of_budgets_and_limits(owner: ControlClient, gateway: Gateway) -> None:
    budget = Budget(window=Window.DAY, nanos=Nanos(5_000))
    gateway.token(budgets=(budget,), limits=Limits(rpm=60, tpm=9_000, concurrent=2))
    found = await owner.why("laptop", "m")
    assert [party.kind for party in found.parties] == ["account", "group", "token"]
    token = found.parties[2]
    assert [(limit.name, limit.limit, limit.left) for limit in token.limits] == [
        ("requests", 60, 60),
        ("tokens", 9_000, 9_000),
        ("concurrent", 2, 2),
        ("streams", 32, 32),
    ]
    assert token.budgets[0].nanos == 5_000
    assert (found.code, found.fix) == (
        "token_quota_exceeded",
        "'tollkeeper token edit laptop --budget day=AMOUNT' raises it",
    )


async def test_prices_that_differ_are_all_shown(owner: ControlClient, gateway: Gateway) -> None:
    assert (await owner.why("laptop", "m")).prices == []
    gateway.channel("http://127.0.0.1:9/v1", "m", name="other")
    await owner.set_price("m", {"input": 1, "output": 2}, "other")
    assert {price.output for price in (await owner.why("laptop", "m")).prices} == {OUTPUT, 2}


async def test_a_question_must_make_sense(owner: ControlClient) -> None:
    with pytest.raises(NotFound):
        await owner.why("nobody", "m")
    for size in (0, -1, 10**18):
        for asked in (owner.why("laptop", "m", prompt_tokens=size), owner.why("laptop", "m", max_tokens=size)):
            with pytest.raises(BadRequest):
                await asked
    with pytest.raises(BadRequest, match="'model' is missing"):
        await owner.why("laptop", "")
    with pytest.raises(BadRequest, match="api: must be one of chat, "):
        await owner.why("laptop", "m", api="letters")


async def test_filters_and_explanations_have_the_api_and_what_happens_to_the_request(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    """``usage list api:messages`` and ``why``: native at a channel of that dialect, translated at others."""
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
    for path in ("/v1/messages", "/v1/v1/messages", "/messages"):
        assert (await gateway.client.ask("POST", path, body)).status == 200
    await gateway.call("m")
    found = (await owner.calls(words="api:messages")).calls
    assert [(call.api, call.native, call.conversion) for call in found] == [("messages", False, "translated")] * 3
    assert len((await owner.calls(words="!api:messages")).calls) == len((await owner.calls(api="chat")).calls) == 1
    gateway.channel("http://127.0.0.1:9", name="claude", dialect=Dialect.ANTHROPIC)
    routes = (await owner.why("laptop", "m", api="messages")).routes
    assert {route.channel: route.conversion for route in routes} == {"up": "translated", "claude": "native"}


async def test_channels_that_cannot_answer_an_api_are_reported(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9", name="other", dialect=Dialect.ANTHROPIC, priority=9)
    found = await owner.why("laptop", "m", api="embeddings")
    assert (found.works, against(found)) == (True, {"up": "", "other": "cannot answer embeddings"})
    await owner.remove_channel("up")
    found = await owner.why("laptop", "m", api="embeddings")
    assert (found.works, found.code) == (False, "unsupported_parameter")
    assert "speaks anthropic, which has no embeddings" in found.message


async def test_a_call_of_every_api_can_be_explained(owner: ControlClient, gateway: Gateway) -> None:
    works = {name: (await owner.why("laptop", "m", api=name)).works for name in gateway.engine.apis}
    assert [name for name, is_ok in works.items() if not is_ok] == []


async def test_no_conversion_is_reported_for_chat_completions(owner: ControlClient) -> None:
    found = await owner.why("laptop", "m")
    assert (found.api, {route.conversion for route in found.routes}) == ("chat", {""})


async def test_nothing_secret_is_shown(owner: ControlClient, gateway: Gateway) -> None:
    channel: Channel = gateway.engine.catalog.channel("up")
    answer = await owner.send(owner.build_request("GET", "/why?token=laptop&model=m"))
    assert channel.key.encode() not in answer


async def test_fallbacks_come_last_and_serve_when_nobody_else_can(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("default", fallbacks=(Fallback(model="m", to=("small",)),), sticky=True)
    gateway.channel("http://127.0.0.1:9/v1", "small=tiny", name="spare")
    found = await owner.why("laptop", "m")
    assert (found.fallbacks, found.works) == (["small"], True)
    assert [(r.channel, r.model, r.upstream_model, r.chance) for r in found.routes] == [
        ("up", "m", "m", 1.0),
        ("spare", "small", "tiny", 0.0),
    ]
    assert found.message.endswith("a conversation stays on the channel that answered it before")
    gateway.engine.health.note_failure(UP, FailureKind.AUTH, "invalid key")
    found = await owner.why("laptop", "m")
    assert found.works
    assert [(r.channel, r.chance, bool(r.passed)) for r in found.routes] == [("up", 0.0, True), ("spare", 1.0, False)]


@pytest.mark.parametrize(("api", "sticky"), [("chat", False), ("messages", True), ("responses", True)])
async def test_conversations_of_some_apis_stay_for_every_group(owner: ControlClient, api: str, sticky: bool) -> None:
    found = await owner.why("laptop", "m", api=api)
    assert found.sticky == sticky
    assert found.message.endswith("a conversation stays on the channel that answered it before") == sticky


@pytest.mark.parametrize(
    ("api", "limit", "output"),
    [
        ("completions", None, 16),  # what the API itself says
        ("messages", None, 4096),
        ("ollama", None, 4096),
        ("responses", None, 4096),
        ("chat", 100, 100),
        ("completions", 100, 100),
        ("messages", 100, 100),
        ("responses", 100, 100),
        ("ollama", 100, 100),
    ],
)
async def test_a_call_holds_the_output_of_its_api_s_own_limit(
    owner: ControlClient, api: str, limit: int | None, output: int
) -> None:
    found = await owner.why("laptop", "m", prompt_tokens=1000, api=api, **({"max_tokens": limit} if limit else {}))
    assert found.hold_tokens == 1000 + output


async def test_a_fallback_the_token_may_not_use_is_named_with_its_rule(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("default", fallbacks=(Fallback(model="m", to=("small", "gone")),))
    gateway.channel("http://127.0.0.1:9/v1", "small=tiny", name="spare")
    await owner.edit_token("laptop", {"models": ["m"]})
    found = await owner.why("laptop", "m")
    assert found.fallbacks == []
    assert [(one.model, one.rule) for one in found.unused_fallbacks] == [
        ("small", "token 'laptop' may use only m; 'small' does not fit"),
        ("gone", "no channel offers a model named 'gone'"),
    ]
    assert found.unused_fallbacks[0].fix.startswith("'tollkeeper token edit laptop --models")


def claude_may_answer(gateway: Gateway) -> None:
    gateway.price("claude", INPUT, OUTPUT)
    gateway.group("default", fallbacks=(Fallback(model="m", to=("claude",)),))
    gateway.channel("http://127.0.0.1:9", "claude", name="spare", dialect=Dialect.ANTHROPIC)


async def test_a_fallback_that_is_too_dear_is_named_and_the_call_works(owner: ControlClient, gateway: Gateway) -> None:
    claude_may_answer(gateway)
    budget = Budget(window=Window.EVER, nanos=Nanos(1000 * (INPUT + OUTPUT) // 10**6))
    gateway.token(budgets=(budget,))
    found = await owner.why("laptop", "m")
    assert (found.works, found.fallbacks, found.holds_rest) == (True, [], True)
    assert found.hold_nanos == budget.nanos
    (one,) = found.unused_fallbacks
    assert one.model == "claude"
    assert one.rule.startswith("what is left does not pay for it: the budget of token 'laptop' has $")
    assert one.fix == "'tollkeeper token edit laptop --budget ever=AMOUNT' raises it"
    gateway.token(budgets=())
    assert (await owner.why("laptop", "m")).fallbacks == ["claude"]


async def test_what_hides_that_a_fallback_is_too_dear_does_not_make_the_money_short(
    owner: ControlClient, gateway: Gateway
) -> None:
    """The next problem of a refused call is not the money if only its fallback cannot be paid."""
    claude_may_answer(gateway)
    gateway.token(budgets=(Budget(nanos=Nanos(1000 * (INPUT + OUTPUT) // 10**6)),), limits=Limits(tpm=1))
    found = await owner.why("laptop", "m")
    assert (found.code, found.then) == ("request_too_large_for_limit", None)
    assert (found.fallbacks, [one.model for one in found.unused_fallbacks]) == ([], ["claude"])


async def test_a_fallback_without_a_price_is_named_if_refused(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("default", fallbacks=(Fallback(model="m", to=("small",)),))
    gateway.channel("http://127.0.0.1:9/v1", "small=tiny", name="spare")
    gateway.settings(refuse_unpriced=True)
    (one,) = (await owner.why("laptop", "m")).unused_fallbacks
    assert (one.model, one.rule) == ("small", "it has no price, and models without a price are refused")
    assert one.fix == "'tollkeeper price set small --like OTHER'"


async def test_views_of_models_say_whether_unpriced_calls_are_refused(owner: ControlClient, gateway: Gateway) -> None:
    for refuses in (True, False):
        gateway.settings(refuse_unpriced=refuses)
        assert (await owner.model("m")).refuses_unpriced is refuses
        assert (await owner.channel_listing("up")).refuses_unpriced is refuses


async def test_the_price_is_that_of_the_model_that_would_answer(owner: ControlClient, gateway: Gateway) -> None:
    gateway.price("small", Nanos(1), Nanos(2))
    gateway.group("default", fallbacks=(Fallback(model="m", to=("small",)),))
    gateway.channel("http://127.0.0.1:9/v1", "small=tiny", name="spare")
    price = (await owner.why("laptop", "m")).price
    assert price is not None
    assert (price.input, price.inherited_from) == (INPUT, "")
    gateway.engine.health.note_failure(UP, FailureKind.AUTH, "invalid key")
    price = (await owner.why("laptop", "m")).price
    assert price is not None
    assert (price.input, price.output, price.inherited_from) == (1, 2, "small")


async def test_a_token_may_be_named_by_its_key_which_is_not_repeated(owner: ControlClient, gateway: Gateway) -> None:
    assert (await owner.why(gateway.client.key, "m")).token == "laptop"
    with pytest.raises(InvalidToken, match="no token has this key") as caught:
        await owner.why("sk-tk-canary", "m")
    assert "canary" not in caught.value.message


async def test_streams_have_a_limit_of_their_own(owner: ControlClient, gateway: Gateway) -> None:
    gateway.token(limits=Limits(streams=3))
    found = await owner.why("laptop", "m", stream=True)
    assert (found.stream, found.works) == (True, True)
    assert [(limit.name, limit.limit) for limit in found.parties[2].limits] == [("streams", 3)]


@pytest.mark.parametrize(
    ("where", "code"),
    [("token", "rate_limit_exceeded"), ("channel", "no_channel_available"), ("memory", "out_of_memory")],
)
async def test_a_busy_gateway(
    owner: ControlClient, gateway: Gateway, provider: Provider, where: str, code: str
) -> None:
    """While a call runs: what one more would get, with a queue and without one."""
    script, wall = walled()
    provider.on("m", script)
    one, none = Limits(concurrent=1), Limits()
    gateway.channel(provider.base_url, limits=one if where == "channel" else none)
    client = gateway.token(limits=one if where == "token" else none)
    gateway.settings(memory_mib=1 if where == "memory" else 0)
    running = asyncio.create_task(client.chat())
    await provider.asked(1)
    if where != "memory":
        waiting = await owner.why("laptop", "m")
        assert (waiting.works, "it would wait for a free slot" in waiting.message) == (True, True)
        gateway.settings(queue_s=0)
    found, answer = await owner.why("laptop", "m"), await client.chat()
    assert (answer.status, answer.error["code"]) == (found.status, found.code)
    assert answer.error["message"].startswith(found.message)
    assert found.fix
    wall.set()
    assert (await running).status == 200


@pytest.mark.parametrize(
    ("patch", "code", "fix"),
    [
        ({"enabled": False}, "token_disabled", "'tollkeeper token enable laptop'"),
        ({"expires": 1}, "token_expired", "'tollkeeper token edit laptop --expires 30d'"),
    ],
)
async def test_a_token_that_may_not_be_used(
    owner: ControlClient, gateway: Gateway, patch: dict[str, object], code: str, fix: str
) -> None:
    await owner.edit_token("laptop", patch)
    found = await owner.why("laptop", "m")
    answer = await gateway.client.chat("m")
    assert (answer.status, answer.error["code"]) == (found.status, found.code) == (401, code)
    assert found.fix == fix


async def test_no_money_is_reported_behind_a_limit_that_is_reached(owner: ControlClient) -> None:
    await owner.edit_token("laptop", {"limits": {"tpm": 1}})
    assert (await owner.why("laptop", "m")).then is None
    await owner.grant(-(10**11))
    found = await owner.why("laptop", "m")
    assert found.code == "request_too_large_for_limit"
    assert found.then is not None
    assert (found.then.status, found.then.code) == (429, "insufficient_quota")
    assert "account grant" in found.then.fix


async def test_commands_in_advice_can_be_copied(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "x", name="we/ird ?#", groups=())
    found = await owner.why("laptop", "x")
    assert "'tollkeeper channel edit 'we/ird ?#' --add-group default'" in found.fix


async def test_a_paused_sole_channel_is_the_last_resort(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.health.note_failure(UP, FailureKind.RATE, "429", 30)
    found = await owner.why("laptop", "m")
    (route,) = found.routes
    assert (found.works, route.chance, route.last_resort) == (True, 1.0, True)
    gateway.engine.health.clear(UP)
    (route,) = (await owner.why("laptop", "m")).routes
    assert (route.chance, route.last_resort, route.passed) == (1.0, False, "")


async def test_an_alias_of_a_group_says_which_patterns_hide_it(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("default", fallbacks=(Fallback(model="smart", to=("m",)),))
    assert (await owner.why("laptop", "smart")).visible
    await owner.edit_token("laptop", {"models": ["m"]})
    found = await owner.why("laptop", "smart")
    text = "'smart' is another name for its fallbacks, and token 'laptop' may use only m, which it does not fit"
    assert (found.visible, found.rule) == (False, text)
    assert found.fix.startswith("'tollkeeper token edit laptop --models ...'")
    await owner.edit_group("default", {"models": ["m*"]})
    both = "and group 'default' shows only m* and token 'laptop' may use only m, which it does not fit"
    assert both in (await owner.why("laptop", "smart")).rule


async def test_a_group_whose_channels_are_all_off_says_so(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "x", name="other", groups=("elsewhere",))
    await owner.edit_channel("up", {"enabled": False})
    for model in ("m", "x", "nosuch"):
        found = await owner.why("laptop", model)
        assert found.rule == "every channel of group 'default' is switched off: up"
        assert found.fix == "'tollkeeper channel enable up'"


async def test_a_misspelt_model_is_answered_with_the_one_that_is_meant(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "gpt-5-mini", name="other")
    found = await owner.why("laptop", "gpt-5-min")
    assert "; did you mean 'gpt-5-mini'? visible: gpt-5-mini, m" in found.message


async def test_a_channel_without_its_variable_is_known_before_a_call_fails(owner: ControlClient) -> None:
    fields = {"dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "models": [{"name": "unset"}]}
    await owner.add_channel({**fields, "name": "n", "key": "env:TOLLKEEPER_TEST_UNSET"})
    reason = "TOLLKEEPER_TEST_UNSET is not set where the server runs"
    assert ((await owner.channel("n")).state, (await owner.channel("n")).reason) == ("attention", reason)
    assert (await owner.status()).channels["attention"] == 1
    found = await owner.why("laptop", "unset")
    assert (found.works, found.status, found.message) == (False, 502, f"channel 'n': {reason}")
    assert found.routes[0].passed == reason
    await owner.add_channel({**fields, "name": "other"})
    assert (await owner.why("laptop", "unset")).works


async def test_a_channel_whose_variable_is_not_set_is_not_the_first_choice(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("spare", speak())
    fields = {"dialect": "openai", "base_url": provider.base_url, "models": [{"name": "big"}], "priority": 9}
    await owner.add_channel({**fields, "name": "keyless", "key": "env:TOLLKEEPER_TEST_UNSET"})
    await owner.add_channel({**fields, "name": "other", "models": [{"name": "spare"}]})
    await owner.edit_group("default", {"fallbacks": [{"model": "big", "to": ["spare"]}]})
    found = await owner.why("laptop", "big")
    assert (found.works, found.message.partition(" would")[0]) == (True, "channel 'other'")
    first, second = [one for one in found.routes if one.place]
    assert (first.channel, first.chance) == ("keyless", 0.0)
    assert first.passed == "TOLLKEEPER_TEST_UNSET is not set where the server runs"
    assert (second.channel, second.chance, second.passed) == ("other", 1.0, "")
    assert (await gateway.client.chat("big")).status == 200
