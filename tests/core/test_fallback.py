"""When no channel can serve a model another one may answer: it is named, it is charged, and it was held for."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.catalog import ModelEntry
from gateway.core.group_policy import helps, models_after
from gateway.domain.call import FailureKind
from gateway.domain.channel import Served
from gateway.domain.errors import NoChannel, NotFound, UpstreamError
from gateway.domain.group import Fallback, Group
from gateway.domain.price import Price
from gateway.domain.settings import Settings
from gateway.domain.units import DOLLAR, ChannelId, Nanos
from tests.core.ends import FakeReply, event, too_slow, unreachable
from tests.core.kit import catalog, channel, token
from tests.core.rig import Rig
from tests.core.test_attempts import failure, good, good_stream, status

RULES = (Fallback(model="m", to=("n", "o")), Fallback(model="gpt-*", to=("m",)), Fallback(model="*", to=("m", "n")))


class Named:
    """A model with its context length."""

    def __init__(self, context: int | None, name: str = "m") -> None:
        self.name, self.context = name, context


def price(model: str, input: int, output: int) -> Price:
    return Price(model=model, input=Nanos(input * DOLLAR), output=Nanos(output * DOLLAR))


def home(rig: Rig, *fallbacks: Fallback) -> None:
    rig.put("groups", "home", Group(name="home", fallbacks=fallbacks))


def pair(rig: Rig, *first: Any) -> None:
    """Channel a serves m and behaves so, channel b serves n well; n may answer for m at twice the price."""
    home(rig, Fallback(model="m", to=("n",)))
    rig.channel("a", "m")
    rig.upstreams.on("a", *first)
    rig.channel("b", "n=upstream-n")
    rig.upstreams.on("b", good)
    rig.put("prices", "n", price("n", 5, 20))


@pytest.mark.parametrize(
    ("model", "expected"), [("m", ("n", "o")), ("gpt-4", ("m",)), ("x", ("m", "n")), ("n", ("m",))]
)
def test_the_first_rule_that_fits_counts_and_no_model_stands_in_for_itself(
    model: str, expected: tuple[str, ...]
) -> None:
    assert models_after(model, RULES) == expected
    assert models_after(model, ()) == ()


@pytest.mark.parametrize(
    ("code", "contexts", "expected"),
    [
        ("context_length_exceeded", (8, 128), True),
        ("context_length_exceeded", (None, 128), True),
        ("context_length_exceeded", (8, 8), False),
        ("context_length_exceeded", (8, None), False),
        ("content_filter", (8, 128), False),
        ("bad_value", (8, 128), False),
    ],
)
def test_a_request_at_fault_goes_nowhere_else_unless_it_is_too_long(
    code: str, contexts: tuple[int | None, int | None], expected: bool
) -> None:
    found = UpstreamError("no", code=code, status=400)
    found.kind = FailureKind.CLIENT
    assert helps(found, Named(contexts[0]), Named(contexts[1])) == expected


def names_of(entry: ModelEntry) -> list[str]:
    return [other.name for other in entry.fallbacks]


def test_only_what_is_seen_and_priced_stands_in() -> None:
    group = Group(name="home", fallbacks=(Fallback(model="m", to=("n", "nobody", "o")),))
    made = channel("a", "m", "n", "o", groups=("home",))
    found = catalog(made, groups=(group,))
    assert names_of(found.group_models("home")["m"]) == ["n", "o"]
    assert names_of(found.group_models("home")["n"]) == []
    assert names_of(found.visible(token(models=("m", "o")))["m"]) == ["o"]
    strict = catalog(
        made, groups=(group,), prices=(price("m", 1, 1), price("o", 1, 1)), settings=Settings(refuse_unpriced=True)
    )
    assert names_of(strict.group_models("home")["m"]) == ["o"]


async def test_another_model_answers_and_says_so(rig: Rig) -> None:
    pair(rig, status(401))
    answer = await rig.call()
    assert rig.upstreams.order == ["a", "b"]
    assert json.loads(answer.body)["model"] == "n"
    assert json.loads(rig.upstreams.asked[1][1].body)["model"] == "upstream-n"
    assert answer.headers["x-gateway-model"] == "upstream-n"
    assert answer.headers["x-gateway-route"] == "fallback for m, priority 0"
    record = rig.record
    assert (record.model, record.upstream_model, record.marks) == ("m", "upstream-n", ("fallback=n",))
    assert [attempt.model for attempt in record.attempts] == ["", "n"]


async def test_it_is_charged_at_its_own_price_and_was_held_for(rig: Rig) -> None:
    pair(rig, status(401))
    await rig.call(max_tokens=100)
    record = rig.record
    assert record.cost == 9 * 5_000 + 12 * 20_000
    assert record.held >= 100 * 20_000


async def test_if_the_asked_model_answers_it_is_charged_at_its_price(rig: Rig) -> None:
    pair(rig, good)
    answer = await rig.call(max_tokens=100)
    assert rig.record.cost == 9 * 2_500 + 12 * 10_000
    assert (json.loads(answer.body)["model"], rig.record.marks) == ("m", ())


async def test_a_stream_carries_the_name_of_the_model_that_answers(rig: Rig) -> None:
    pair(rig, status(401))
    rig.upstreams.on("b", good_stream)
    await rig.call(stream=True)
    models = {
        json.loads(line[6:])["model"] for line in rig.client.body.decode().split("\n") if line.startswith("data: {")
    }
    assert models == {"n"}


async def test_the_only_channel_is_asked_twice_before_another_model(rig: Rig) -> None:
    pair(rig, status(500))
    await rig.call()
    assert (rig.upstreams.order, rig.watch.slept) == (["a", "a", "b"], [0.5])


async def test_what_kept_silent_is_not_asked_twice(rig: Rig) -> None:
    pair(rig, status(500))
    made = rig.channel("a", "m")
    rig.upstreams.on("a", lambda: too_slow(made))
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]


async def test_a_model_whose_channels_rest_is_not_asked_while_another_can_answer(rig: Rig) -> None:
    pair(rig, good)
    rig.health.failed(ChannelId("ch_a"), FailureKind.RATE, "429", 60)
    answer = await rig.call()
    assert (rig.upstreams.order, rig.record.cost) == (["b"], 9 * 5_000 + 12 * 20_000)
    assert answer.headers["x-gateway-route"] == "fallback for m, priority 0"


async def test_if_all_rest_the_asked_model_is_the_last_resort(rig: Rig) -> None:
    pair(rig, good)
    for name, seconds in (("ch_a", 60), ("ch_b", 5)):
        rig.health.failed(ChannelId(name), FailureKind.RATE, "429", seconds)
    assert json.loads((await rig.call()).body)["model"] == "m"


async def test_another_model_comes_before_a_channel_at_rest_and_that_before_nothing(rig: Rig) -> None:
    pair(rig, status(401))
    rig.channel("rests", "m", priority=-1)
    rig.upstreams.on("rests", good)
    rig.health.failed(ChannelId("ch_rests"), FailureKind.RATE, "429", 60)
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]
    rig.health.clear(ChannelId("ch_a"))
    rig.upstreams.on("b", status(401))
    assert json.loads((await rig.call()).body)["model"] == "m"
    assert rig.upstreams.order[2:] == ["a", "b", "rests"]


async def test_if_all_others_rest_the_search_has_an_end(rig: Rig) -> None:
    home(rig, Fallback(model="m", to=("n", "o")))
    for name, model in (("a", "m"), ("b", "m"), ("c", "n"), ("d", "o")):
        rig.channel(name, model, priority=ord(name) == ord("a"))
        rig.upstreams.on(name, status(401))
        if name != "a":
            rig.health.failed(ChannelId(f"ch_{name}"), FailureKind.RATE, "429", 60)
    await failure(rig)
    assert sorted(rig.upstreams.order) == ["a", "b", "c", "d"]


async def test_a_fallback_that_fails_leads_back_to_the_asked_model(rig: Rig) -> None:
    pair(rig, good)
    rig.health.failed(ChannelId("ch_a"), FailureKind.RATE, "429", 60)
    rig.upstreams.on("b", status(401))
    assert json.loads((await rig.call()).body)["model"] == "m"
    assert (rig.upstreams.order, rig.record.cost) == (["b", "a"], 9 * 2_500 + 12 * 10_000)


async def test_a_channel_that_failed_may_serve_another_model(rig: Rig) -> None:
    home(rig, Fallback(model="m", to=("n",)))
    rig.channel("a", "m", "n")
    rig.upstreams.on("a", status(404, code="model_not_found"), good)
    await rig.call()
    assert rig.upstreams.order == ["a", "a"]


async def test_a_channel_that_cannot_be_reached_is_not_asked_for_another_model(rig: Rig) -> None:
    home(rig, Fallback(model="m", to=("n",)))
    made = rig.channel("a", "m", "n")
    rig.upstreams.on("a", lambda: unreachable(made))
    error = await failure(rig)
    assert (error.code, rig.upstreams.order) == ("upstream_unreachable", ["a", "a"])


async def test_a_filtered_prompt_is_put_to_no_other_model(rig: Rig) -> None:
    pair(rig, status(400, "flagged", code="content_filter"))
    error = await failure(rig)
    assert (error.code, rig.upstreams.order) == ("content_filter", ["a"])


async def test_a_prompt_that_is_too_long_goes_to_a_model_with_a_longer_context(rig: Rig) -> None:
    pair(rig, status(400, "too long", code="context_length_exceeded"))
    made = rig.channel("b", "n")
    rig.put("channels", made.id, replace(made, models=(Served(name="n", context=200_000),)))
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]


async def test_a_started_stream_is_never_put_to_another_model(rig: Rig) -> None:
    pair(rig, lambda: FakeReply(event(choices=[{"index": 0, "delta": {"content": "x"}, "finish_reason": None}])))
    await rig.call(stream=True)
    assert (rig.upstreams.order, rig.client.error is not None) == (["a"], True)


async def test_if_nothing_can_answer_all_reasons_are_told(rig: Rig) -> None:
    pair(rig, good)
    for name in ("ch_a", "ch_b"):
        rig.health.failed(ChannelId(name), FailureKind.AUTH, "refused")
    with pytest.raises(NoChannel, match="a: needs attention: refused; b for n: needs attention: refused"):
        await rig.call()


async def test_a_model_that_no_channel_serves_is_answered_for(rig: Rig) -> None:
    home(rig, Fallback(model="gone", to=("nobody", "n")), Fallback(model="x-*", to=("n",)))
    rig.channel("b", "n")
    rig.upstreams.on("b", good)
    rig.put("prices", "n", price("n", 5, 20))
    rig.put("settings", "", Settings(refuse_unpriced=True))
    answer = await rig.call("gone")
    assert json.loads(answer.body)["model"] == "n"
    assert answer.headers["x-gateway-route"] == "fallback for gone, priority 0"
    assert (rig.record.model, rig.record.cost) == ("gone", 9 * 5_000 + 12 * 20_000)
    with pytest.raises(NotFound):
        await rig.call("x-1")


async def test_a_channel_that_is_switched_off_is_answered_for(rig: Rig) -> None:
    pair(rig, good)
    rig.channel("a", "m", enabled=False)
    for stream in (False, True):
        rig.upstreams.on("b", good_stream if stream else good)
        await rig.call(stream=stream)
    assert rig.upstreams.order == ["b", "b"]


def test_a_model_is_answered_for_only_by_what_the_token_sees() -> None:
    group = Group(name="home", models=("m", "n", "gone"), fallbacks=(Fallback(model="gone", to=("n",)),))
    found = catalog(channel("a", "m", "n", groups=("home",)), groups=(group,))
    assert list(found.visible(token())) == ["gone", "m", "n"]
    assert list(found.visible(token(models=("gone", "m")))) == ["m"]
    hidden = catalog(channel("a", "m", "n", groups=("home",)), groups=(replace(group, models=("n",)),))
    assert list(hidden.visible(token())) == ["n"]


async def test_if_nobody_can_answer_for_it_the_reasons_are_told(rig: Rig) -> None:
    home(rig, Fallback(model="gone", to=("n",)))
    rig.channel("b", "n")
    rig.health.failed(ChannelId("ch_b"), FailureKind.AUTH, "refused")
    with pytest.raises(NoChannel, match="b for n: needs attention"):
        await rig.call("gone")
