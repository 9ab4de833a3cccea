"""What is held covers all that an upstream can bill that keeps the caps it received, whoever changed the request.

Long: one promise about money, against every way in which a request may grow or lose its cap.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from gateway.core.channel_effects import effects_of
from gateway.core.group_models import priced_model
from gateway.core.quota import CallNeed
from gateway.domain.budget import Budget
from gateway.domain.channel import Channel, Dialect, Overrides, ServedModel
from gateway.domain.errors import BadRequest, QuotaExceeded
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import MAX_TOKEN_COUNT
from gateway.domain.price import Price
from gateway.domain.units import DOLLAR
from gateway.inbound.responses.relay import ResponsesRelay
from gateway.upstream.dialects import chat_limit
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.core import kit
from tests.core.ends import FakeReply
from tests.core.generous import GenerousUpstream
from tests.core.rig import Rig
from tests.fakes.messages import message
from tests.fakes.replies import dumps

OPUS = ServedModel(name="m", upstream="claude-opus-5-5")
OLD_OPUS = ServedModel(name="m", upstream="claude-3-opus")


def needed(*offers: tuple[Channel, ServedModel], prices: Sequence[Price] = (kit.PRICE,), **fields: Any) -> CallNeed:
    """What a call needs at these channels, or at one of OpenAI's dialect."""
    found = offers or (edited(),)
    return kit.need(kit.ask(**fields), effects_of(found), prices)


def output(*offers: tuple[Channel, ServedModel], **fields: Any) -> tuple[int, int]:
    """Output tokens that must be paid for, and those that are held for if possible."""
    found = needed(*offers, **fields)
    return found.output.capped, found.output.expected


def capped(tokens: int) -> tuple[int, int]:
    return tokens, tokens


def test_the_larger_of_two_caps_is_held_for() -> None:
    assert output(max_completion_tokens=1, max_tokens=50_000) == capped(50_000)
    assert output(max_completion_tokens=50_000, max_tokens=1) == capped(50_000)


@pytest.mark.parametrize("preset", ["ollama", "mistral", "deepseek"])
def test_where_one_of_two_caps_goes_out_that_one_is_held_for(preset: str) -> None:
    offer = (kit.channel(preset=preset), ServedModel(name="m"))
    assert output(offer, max_completion_tokens=20, max_tokens=50_000) == capped(20)


@pytest.mark.parametrize("options", [{}, {"options": {"num_predict": 9}}])
def test_a_limit_that_may_be_raised_is_held_for_as_it_goes_out(options: dict[str, Any]) -> None:
    offer = (kit.channel(), ServedModel(name="m"))
    assert output(offer, max_tokens=10, **options) == capped(16)


def test_a_limit_that_the_gateway_sets_is_paid_for_as_it_goes_out() -> None:
    assert needed((kit.channel(), ServedModel(name="m"))).output.minimum == 16


@pytest.mark.parametrize("dialect", [Dialect.ANTHROPIC, Dialect.GEMINI])
def test_dialects_with_one_cap_send_the_newer_one(dialect: Dialect) -> None:
    offer = (kit.channel(dialect=dialect), ServedModel(name="m"))
    assert output(offer, max_completion_tokens=10, max_tokens=50_000, num_predict=90) == capped(10)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_new_tokens": 50_000}, 50_000),
        ({"n_predict": 50_000}, 50_000),
        ({"options": {"num_predict": 50_000}}, 50_000),
        ({"extra_body": {"generationConfig": {"maxOutputTokens": 50_000}}}, 50_000),
        ({"parameters": {"max_new_tokens": "50000"}}, 50_000),
        ({"max_length": 5e4}, 50_000),
        ({"min_tokens": 50_000}, 50_000),
        ({"output_length": 50_000}, 50_000),
        ({"generationLimit": 50_000}, 50_000),
        ({"maxlength": 50_000}, 50_000),
        ({"Max-Tokens": 50_000}, 50_000),
        ({"a": [[{"b": {"RESPONSE_MAX": 50_000}}]]}, 50_000),
        ({"output_len": 50_000}, 50_000),
        ({"max_seq_len": 50_000}, 50_000),
        ({"max_answer_length": 50_000}, 50_000),
        ({"generation_len": 50_000}, 50_000),
        ({"maxLength": 50_000}, 50_000),
        ({"nvext": [{"maxLength": 50_000}]}, 50_000),
        ({"genamt": "50000"}, 50_000),
        ({"max_new_tokens": [1, "50000"]}, 50_000),
        *(({"max_new_tokens": text}, 50_000) for text in ("50000.0", " 50000 ", "+50000", "5e4", "50_000")),
        ({"max_new_tokens": "9" * 23}, MAX_TOKEN_COUNT),
        ({"thinking_budget": "50000.0"}, 50_010),
        ({"num_samples": 5}, 50),
        ({"numResults": 5}, 50),
        ({"samples": 5}, 50),
        ({"nChoices": "5"}, 50),
        ({"thinking": {"type": "enabled", "budget_tokens": 50_000}}, 50_010),
        ({"reasoning": {"max_tokens": 50_000}}, 50_010),
        ({"budget_tokens": 7, "thinking": {"max_tokens": 40}}, 50),
        ({"budget_tokens": 40, "thinking": {"max_tokens": 40}}, 80),
        ({"extra_body": {"google": {"thinking_config": {"thinking_budget": 50_000}}}}, 50_010),
        ({"reasoning": {"effort": "high"}, "thinking_budget": -1}, 10),
        ({"prediction": {"type": "content", "content": "x" * 264}}, 110),
        ({"best_of": 5}, 50),
        ({"best_of": 5, "n": 7}, 350),
        ({"parameters": {"n": 3}}, 30),
        ({"options": {"n": 2, "extra_body": {"candidateCount": "3"}}}, 60),
        ({"num_generations": 300}, 3000),
        ({"n_completions": 4, "amount_gen": 20}, 80),
        ({"prompts": ["a", "b", "c"]}, 30),
        ({"metadata": {"max_tokens": "9000"}}, 9000),
        ({"stream": True, "stream_options": {"max_tokens": 9000}}, 9000),
        ({"logit_bias": {"max_tokens": 9000}}, 9000),
        ({"user": {"n": 2}}, 20),
        ({"max_decode_steps": 9000.5}, 9001),
        ({"max_gen_toks": True}, 10),
        ({"num_predict": 1e200}, MAX_TOKEN_COUNT),
    ],
)
def test_all_vendors_caps_count(fields: dict[str, Any], tokens: int) -> None:
    assert output(max_tokens=10, **fields) == capped(tokens)


@pytest.mark.parametrize(
    "fields",
    [
        {"truncate_prompt_tokens": 9000},
        {"max_input_tokens": 9000, "num_ctx": 9000},
        {"stop_token_ids": [9000], "eos_token_id": 9000},
        {"skip_special_tokens": True, "tokenizer": "9000"},
        {"limit": 9000, "history_length": 9000, "n\n": 9},
        {"guided_json": {"type": "string", "maxLength": 9000}},
        {"tools": [{"max_tokens": 9000}], "seed": 9000, "top_k": 9000, "n_probs": 9000, "top_logprobs": 9},
        {"prompts": ["one"], "input": [1, 2, 3], "batch": 9, "requests": "9"},
        {"max_new_tokens": None, "num_predict": "many", "n_predict": float(5)},
    ],
)
def test_other_fields_do_not_bound(fields: dict[str, Any]) -> None:
    assert output(max_tokens=10, **fields) == capped(10)


def test_a_cap_that_an_upstream_may_not_know_bounds_nothing_but_must_be_paid() -> None:
    assert output(max_new_tokens=10) == (10, DEFAULT_OUTPUT)
    assert output(max_new_tokens=50_000) == capped(50_000)
    assert output(max_tokens=10, n_predict=-1) == (10, DEFAULT_OUTPUT)
    assert output(max_tokens=10, max_new_tokens="Infinity") == (10, DEFAULT_OUTPUT)


def test_without_a_cap_the_usual_is_held_or_what_the_dialect_puts_there_itself() -> None:
    assert output() == (0, DEFAULT_OUTPUT)
    assert output(n=3) == (0, 3 * DEFAULT_OUTPUT)
    assert output((kit.channel(dialect=Dialect.GEMINI), ServedModel(name="m")), n=3) == (0, 3 * DEFAULT_OUTPUT)
    assert output((kit.channel(dialect=Dialect.ANTHROPIC), OPUS)) == (0, 32_000)


@pytest.mark.parametrize(("effort", "budget"), [("high", 24_576), ("low", 1024), ("none", 128), ("odd", 0)])
def test_thinking_that_the_gateway_allows_in_tokens_is_held_for(effort: str, budget: int) -> None:
    offer = kit.channel(dialect=Dialect.GEMINI), ServedModel(name="m", upstream="gemini-2.5-pro")
    assert output(offer, reasoning_effort=effort) == (0, DEFAULT_OUTPUT + budget)
    assert output(offer, reasoning={"effort": effort}) == (0, DEFAULT_OUTPUT + budget)
    assert output(offer, reasoning_effort=effort, max_tokens=90) == capped(90)
    own = kit.channel(dialect=Dialect.GEMINI, overrides=Overrides(default={"reasoning_effort": effort}))
    assert output((own, offer[1])) == (0, DEFAULT_OUTPUT + budget)


def edited(**edits: Any) -> tuple[Channel, ServedModel]:
    """A vendor without Responses, where lower limits are raised."""
    return kit.channel(preset="anthropic", overrides=Overrides(**edits)), ServedModel(name="m")


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ({"set": {"temperature": 1}, "remove": ("user",)}, capped(10)),
        ({"set": {"max_tokens": 500}}, capped(500)),
        ({"set": {"max_completion_tokens": 5}}, capped(5)),
        ({"set": {"max_tokens": 500, "max_completion_tokens": 5}}, capped(500)),
        ({"default": {"max_completion_tokens": 500}}, capped(10)),
        ({"set": {"max_tokens": None}}, (0, DEFAULT_OUTPUT)),
        ({"set": {"max_tokens": -1}}, (0, DEFAULT_OUTPUT)),
        ({"set": {"max_tokens": "700"}}, (700, DEFAULT_OUTPUT)),
        ({"remove": ("max_tokens",)}, (0, DEFAULT_OUTPUT)),
        ({"remove": ("max_completion_tokens",)}, capped(10)),
        ({"set": {"num_predict": 500}}, capped(500)),
        ({"set": {"thinking": {"budget_tokens": 500}}}, capped(510)),
        ({"set": {"n": 3}}, capped(30)),
        ({"default": {"n": 2}}, capped(20)),
    ],
)
def test_the_owners_edits_change_the_output(edits: dict[str, Any], found: tuple[int, int]) -> None:
    assert output(edited(**edits), max_tokens=10) == found


def test_a_default_of_the_owner_is_a_cap() -> None:
    assert output(edited(default={"max_tokens": 70})) == capped(70)


def test_the_channel_that_allows_most_decides() -> None:
    plain, free, long = (
        edited(),
        edited(remove=("max_tokens",)),
        edited(set={"max_tokens": 70}),
    )
    assert output(plain, free, max_tokens=10) == (10, DEFAULT_OUTPUT)
    assert output(plain, free, max_tokens=50_000) == capped(50_000)
    assert output(plain, free, long, max_tokens=10) == (70, DEFAULT_OUTPUT)


@pytest.mark.parametrize(
    ("edits", "tokens"),
    [
        ({"system": "x" * 30}, 14),  # and what a message costs
        ({"system": "ä" * 2}, 6),
        ({"set": {"tools": ["x" * 10]}}, 605),
        ({"default": {"documents": ["x" * 26]}, "set": {"temperature": 1}}, 10),
    ],
)
def test_the_owners_edits_add_input(edits: dict[str, Any], tokens: int) -> None:
    assert needed(edited(**edits)).input == kit.ask().bound.tokens + tokens
    assert needed(edited(**edits), edited()).input == kit.ask().bound.tokens + tokens


def test_a_limit_of_the_model_bounds_the_cap_that_goes_out_and_so_the_hold() -> None:
    small, large = ServedModel(name="m", max_output=100), ServedModel(name="m", max_output=900)
    up, other = kit.channel(), kit.channel("other")
    assert output((up, small), max_tokens=50_000) == capped(100)
    assert output((up, small), (other, large), max_tokens=50_000) == capped(900)
    assert output((up, small), (other, ServedModel(name="m")), max_tokens=50_000) == capped(50_000)
    assert output((up, small), max_completion_tokens=5, max_tokens=50_000) == capped(100)


def test_a_limit_bounds_nothing_that_goes_out_beside_it() -> None:
    small = (kit.channel(), ServedModel(name="m", max_output=100))
    assert output(small, max_tokens=50_000, num_predict=50_000) == capped(50_000)
    assert output(small) == (0, DEFAULT_OUTPUT)


@pytest.mark.parametrize(
    ("dialect", "served", "price", "limit"),
    [
        (Dialect.ANTHROPIC, OLD_OPUS, None, 4096),
        (Dialect.ANTHROPIC, ServedModel(name="m", upstream="claude-3-opus", max_output=9), None, 9),
        (Dialect.GEMINI, ServedModel(name="gemini-2.5-pro"), None, 65_536),
        (Dialect.OPENAI, OLD_OPUS, None, None),
        (Dialect.OPENAI, ServedModel(name="m"), msgspec.structs.replace(kit.PRICE, context=128_000), 128_000),
        (Dialect.ANTHROPIC, OLD_OPUS, msgspec.structs.replace(kit.PRICE, context=200_000), 4096),
    ],
)
def test_where_limits_come_from(dialect: Dialect, served: ServedModel, price: Price | None, limit: int | None) -> None:
    served = msgspec.structs.replace(served, price=price)
    assert priced_model(kit.channel(dialect=dialect), served, {}).max_output == limit


def test_a_request_with_no_end_of_caps_is_refused() -> None:
    with pytest.raises(BadRequest, match="more than 10000 different names"):
        needed(options={f"max_tokens_{n}": n for n in range(10_001)})
    with pytest.raises(BadRequest, match="more than 10000 different names"):
        needed(prices=(), metadata={f"x{n}": n for n in range(10_001)})


def test_names_and_texts_made_of_words_for_limits_take_no_time() -> None:
    """They took a time that grew with the square of their length: 35 seconds for such a name in 200 kilobytes."""
    began = time.process_time()
    assert output(max_tokens=10, **{"gen" * 100_000: 5}) == capped(10)
    for _ in range(100):
        assert output(max_tokens=10, stop=["max" * 1300]) == capped(10)
        assert output(stop=['"n' * 1300]) == (0, DEFAULT_OUTPUT)
    for _ in range(40):
        assert output(max_tokens=10, options={"ma" * 400_000: 1}) == capped(10)
    for _ in range(10):
        assert output(max_tokens=10, logit_bias={str(n): 1 for n in range(60_000)}) == capped(10)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "options",
    [
        b'{"num_predict":50000,"num_predict":1}',
        b'[[{"a":{"num_predict":50000,"num\\u005fpredict":1}}]]',
        b'{"a\\"":{"b":1,"b":1}}',
    ],
)
def test_a_name_that_occurs_twice_in_an_object_is_refused(options: bytes) -> None:
    """One upstream would obey the first, another the last."""
    fields = kit.ask(max_tokens=1).fields | {"options": msgspec.Raw(options)}
    with pytest.raises(BadRequest, match="twice"):
        chat_limit(fields, kit.channel(), ServedModel(name="m"))


def test_colons_and_braces_in_texts_are_not_names() -> None:
    assert output(max_tokens=10, options={'{"a": ": {': ['"a":1,"a":1', "\\", '\\"']}) == capped(10)


def test_the_same_names_may_come_again_and_again() -> None:
    documents = [{"text": "x", "token_count": 90}] * 10_001
    assert output(documents=documents, max_tokens=10) == capped(90)


def test_one_limit_is_found_among_many_other_names() -> None:
    assert output(options={"num_predict": 700, **{f"x{n}": n for n in range(5000)}}, max_tokens=10) == capped(700)


TOOL = {"type": "function", "function": {"name": "f", "description": "Finds.", "parameters": {"type": "object"}}}


def test_tools_that_a_dialect_makes_up_are_held_for() -> None:
    turns = [*kit.MESSAGES, {"role": "assistant", "tool_calls": []}]
    plain, more = needed(messages=turns), needed((kit.channel(dialect=Dialect.ANTHROPIC), OPUS), messages=turns)
    assert more.input == plain.input  # no call, so no tools
    calls = [{"id": f"c{n}", "function": {"name": f"f{n}"}} for n in range(9)]
    turns[-1] = {"role": "assistant", "tool_calls": calls}
    plain, more = needed(messages=turns), needed((kit.channel(dialect=Dialect.ANTHROPIC), OPUS), messages=turns)
    assert more.input == plain.input + 600 + 9 * 50
    assert needed((kit.channel(dialect=Dialect.ANTHROPIC), OPUS)).input == needed().input


def test_names_that_a_dialect_puts_beside_results_are_held_for() -> None:
    """A long name stands once in the request, at the call, and goes out with its result as well."""
    calls = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}] * 9}
    turns = [*kit.MESSAGES, calls, *[{"role": "tool", "tool_call_id": "c", "content": ""}] * 9]
    offer = (kit.channel(dialect=Dialect.GEMINI), ServedModel(name="m"))
    assert needed(offer, messages=turns).input == needed(messages=turns).input + 9 * (50 + 5)
    assert needed(offer).input == needed().input


async def test_calls_with_two_caps_spend_no_more_than_there_is(rig: Rig) -> None:
    """Fifty at once, against two cents: each may cost half a dollar."""
    up = rig.channel()
    rig.upstreams.on("up", GenerousUpstream().at(up, rig.upstreams))
    rig.grant(DOLLAR // 50 - rig.books.available())
    calls = [rig.start(max_completion_tokens=1, max_tokens=50_000) for _ in range(50)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, QuotaExceeded) for one in found)
    assert rig.books.available() == DOLLAR // 50
    await rig.call(max_completion_tokens=1, max_tokens=1000)
    assert 0 <= rig.books.balance() < DOLLAR // 50


@pytest.mark.parametrize(
    ("left", "tokens", "fields"),
    [
        (16 * 2500 + 9_999, None, {}),
        (16 * 2500 + 3 * 10_000 - 1, None, {"n": 3}),
        (DOLLAR, 16, {}),
        (16 * 2500 + 2000 * 10_000, None, {"thinking": {"budget_tokens": 2000}}),
    ],
)
@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.GEMINI])
async def test_no_call_goes_out_without_a_cap_because_the_rest_does_not_pay_for_one(
    dialect: Dialect, left: int, tokens: int | None, fields: dict[str, Any], rig: Rig
) -> None:
    rig.channel(dialect=dialect)
    rig.change_token(budgets=() if tokens is None else (Budget(tokens=tokens),))
    rig.grant(left - rig.books.available())
    if dialect is Dialect.GEMINI and "thinking" in fields:  # it bounds thoughts and text together
        fields = {}
        rig.grant(16 * 2500 - rig.books.available())
    with pytest.raises(QuotaExceeded):
        await rig.call(**fields)
    assert rig.upstreams.order == []


@pytest.mark.parametrize(
    ("dialect", "upstream_name", "fields"),
    [
        (Dialect.ANTHROPIC, "claude-opus-5-5", {}),
        (Dialect.ANTHROPIC, "claude-opus-4-5", {"reasoning_effort": "high"}),
        (Dialect.GEMINI, "gemini-2.5-pro", {"reasoning_effort": "high", "n": 2}),
    ],
)
async def test_a_cap_that_the_gateway_chooses_is_one_that_the_hold_pays_for(
    dialect: Dialect, upstream_name: str, fields: dict[str, Any], rig: Rig
) -> None:
    up = rig.channel(dialect=dialect)
    rig.put("channels", up.id, msgspec.structs.replace(up, models=(ServedModel(name="m", upstream=upstream_name),)))
    upstream = GenerousUpstream()
    rig.upstreams.on("up", upstream.at(up, rig.upstreams))
    rig.grant(DOLLAR // 20 - rig.books.available())
    answered = await rig.call(**fields)
    (record,) = rig.records
    assert upstream.bounded
    assert 0.9 * DOLLAR // 20 < record.cost <= record.held == DOLLAR // 20
    assert record.marks == (f"output_limit={answered.headers['x-gateway-output-limit']}",)
    assert rig.books.balance() >= 0


@pytest.mark.parametrize("fields", [{}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}])
async def test_a_cap_that_would_be_too_small_to_be_of_use_is_not_chosen(fields: dict[str, Any], rig: Rig) -> None:
    """Anthropic requires a budget for thinking that is smaller than the cap."""
    up = rig.channel(dialect=Dialect.ANTHROPIC)
    rig.upstreams.on("up", GenerousUpstream().at(up, rig.upstreams))
    need = needed((up, ServedModel(name="m")), **fields)
    assert (need.output.capped, need.output.minimum) == (0, 3024 if fields else 1024)
    rig.grant(need.min_nanos - 1 - rig.books.available())
    with pytest.raises(QuotaExceeded):
        await rig.call(**fields)
    rig.grant(1)
    await rig.call(**fields)
    assert msgspec.json.decode(rig.upstreams.asked[-1][1].body)["max_tokens"] == need.output.minimum


async def test_a_limit_lowers_the_cap_in_the_request_which_is_reported(rig: Rig) -> None:
    up = rig.channel()
    rig.put("channels", up.id, msgspec.structs.replace(up, models=(ServedModel(name="m", max_output=100),)))
    rig.upstreams.on("up", GenerousUpstream().at(up, rig.upstreams))
    answered = await rig.call(max_tokens=50_000)
    assert msgspec.json.decode(rig.upstreams.asked[-1][1].body)["max_tokens"] == 100
    assert answered.headers["x-gateway-output-limit"] == "100"
    assert (rig.record.marks, rig.record.output) == (("output_limit=100",), 100)


THOUGHT = {"type": "thinking", "thinking": "Hm. " * 300, "signature": "s" * 90}
CALL = {"type": "function", "function": {"name": "f", "arguments": "{}"}}


def _thoughtful_reply(id: str) -> FakeReply:
    content: list[dict[str, Any]] = [THOUGHT, {"type": "tool_use", "id": id, "name": "f", "input": {}}]
    return FakeReply(dumps(message(*content, stop="tool_use")))


@pytest.mark.parametrize("times", [1, 9])
async def test_thoughts_that_are_put_back_into_a_request_are_held_for(times: int, rig: Rig) -> None:
    """Anthropic wants them back with the tool's result; the client has dropped them, and may write names in escapes."""
    up = rig.channel(dialect=Dialect.ANTHROPIC)
    ids = [f"call_{number}" for number in range(times)]
    thoughtful = [partial(_thoughtful_reply, id) for id in ids]
    rig.upstreams.on("up", *thoughtful, GenerousUpstream().at(up, rig.upstreams))
    turns: list[Any] = [*kit.MESSAGES]
    for id in ids:
        await rig.call(tools=[TOOL])
        turns.append({"role": "assistant", "tool_calls": [CALL | {"id": id}]})
        turns.append({"role": "tool", "tool_call_id": id, "content": "Found."})
    body = kit.body("m", messages=turns, tools=[TOOL], max_tokens=10)
    await rig.run(body.replace(b"tool_calls", rb"tool\u005fcalls").replace(b'"id"', rb'"\u0069d"'))
    assert rig.upstreams.asked[-1][1].body.count(b'"signature"') == times
    assert rig.records[-1].input > 400 * times
    assert rig.records[-1].cost <= rig.records[-1].held


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"max_tokens": 40}),
        ({"n": 2}, {"max_tokens": 20}),
        ({"max_tokens": None}, {"max_tokens": 40}),
        ({"best_of": 4}, {"max_tokens": 10}),
        ({"max_completion_tokens": 5000}, {"max_completion_tokens": 5000}),
        ({"num_predict": 9}, {}),
        ({"thinking": {"budget_tokens": 30}}, {"max_tokens": 10}),
        ({"n": 50}, {}),
    ],
)
def test_where_little_is_left_a_call_gets_the_cap_that_is_paid(fields: dict[str, Any], sent: dict[str, Any]) -> None:
    prepared = prepared_for(kit.channel(), 40, **fields)
    body = msgspec.json.decode(prepared.body)
    assert {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} == sent
    chosen = fields.keys().isdisjoint({"max_completion_tokens", "num_predict"}) and sent
    assert prepared.lowered_cap == (sent["max_tokens"] if chosen else None)


def test_the_chosen_cap_has_the_name_it_has_there() -> None:
    body = msgspec.json.decode(prepared_for(kit.channel("up", "m=o3", preset="openai"), 40).body)
    assert (body["max_completion_tokens"], "max_tokens" in body) == (40, False)


def test_a_cap_that_the_owner_removes_is_not_put_back() -> None:
    body = msgspec.json.decode(prepared_for(kit.channel(overrides=Overrides(remove=("max_tokens",))), 40).body)
    assert "max_tokens" not in body
    assert b"max_" not in prepared_for(kit.channel(), None).body


@pytest.mark.parametrize(("output_budget", "sent"), [(40, 40), (5_000, 1_000), (3, 16)])
def test_a_chosen_cap_of_a_response_is_at_most_the_models_own(output_budget: int, sent: int) -> None:
    asked = {"model": msgspec.Raw(b'"m"'), "input": msgspec.Raw(b'"Hi"')}
    order = Order(fields=asked, model="m", output_budget=output_budget)
    served = ServedModel(name="m", max_output=1_000)
    prepared = ResponsesRelay(OpenAIDialect()).prepare(order, kit.channel(), served, LearnedRefusals())
    assert (msgspec.json.decode(prepared.body)["max_output_tokens"], prepared.lowered_cap) == (sent, sent)


def prepared_for(channel: Channel, output_budget: int | None, **fields: Any) -> PreparedRequest:
    """What goes out where the hold pays for so much output."""
    asked = msgspec.json.decode(kit.body(**fields), type=dict[str, msgspec.Raw])
    order = Order(fields=asked, model="m", answer_id="x", created=0, output_budget=output_budget)
    return OpenAIDialect().prepare(order, channel, channel.models[0], LearnedRefusals())
