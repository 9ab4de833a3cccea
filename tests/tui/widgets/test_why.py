from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.diagnosis import UnusedFallback, Why
from gateway.domain.errors import NotFound
from tests.tui.owner import Owner, press, refused, screen, shown, until
from tests.tui.stage import call, console, model, words
from tui.widgets.why import WhyScreen, why_text


async def test_a_token_is_explained_with_the_first_model_it_sees() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await press(app, pilot, "W")
        await until(app, pilot, "503 no_channel_available")
        assert owner.asked[-1] == "why ci claude-sonnet-4-5"
        assert "$ tollkeeper why ci claude-sonnet-4-5" in screen(app)


async def test_another_token_or_model_is_explained_at_once() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await press(app, pilot, "W", "right")
        assert owner.asked[-1] == "why editor claude-sonnet-4-5"
        await press(app, pilot, "down", "right")
        assert owner.asked[-1] == "why editor deepseek-chat"


async def test_a_model_is_explained_with_the_token_used_last() -> None:
    async with shown("models") as (app, pilot, owner):
        await press(app, pilot, "j", "W")
        assert owner.asked[-1] == "why ci claude-sonnet-4-5"


async def test_a_call_is_explained_even_if_its_model_is_unknown() -> None:
    owner = Owner(0)
    owner.now_running = []
    owner.records = [call(1, model="nobody-has-it", token="laptop")]
    async with shown("live", owner) as (app, pilot, _):
        await press(app, pilot, "W")
        await until(app, pilot, "nobody-has-it")
        assert owner.asked[-1] == "why laptop nobody-has-it"


REFUSED: dict[str, Any] = {"input_tokens": 0, "token": "laptop", "model": "gpt-4o", "status": 429}
UNKNOWN = "its size is not known; assumed: 1,000 input tokens, no limit of output"


@pytest.mark.parametrize(
    ("changes", "options", "note"),
    [
        (
            {"marks": ["request=1200/60000"], "api": "messages"},
            "--stream --api messages --prompt-tokens 1200 --max-tokens 60000",
            "like that call: 1,200 input tokens, at most 60,000 output tokens",
        ),
        (
            {"marks": ["request=1200/none"], "stream": False},
            "--prompt-tokens 1200",
            "like that call: 1,200 input tokens, no limit of output tokens",
        ),
        (
            {"input_tokens": 700, "stream": False},
            "--prompt-tokens 700",
            "like that call: 700 input tokens; assumed: no limit of its output",
        ),
        ({"marks": ["request=x/y"], "stream": False}, "", UNKNOWN),
    ],
)
async def test_a_call_is_explained_with_its_api_and_its_size(changes: dict[str, Any], options: str, note: str) -> None:
    owner = Owner(0)
    owner.now_running = []
    owner.records = [call(1, **(REFUSED | changes))]
    async with shown("live", owner) as (app, pilot, _):
        await press(app, pilot, "W")
        await until(app, pilot, "503 no_channel_available")
        assert note in " ".join(screen(app).split())
        assert isinstance(app.screen, WhyScreen)
        assert app.screen.command() == f"tollkeeper why laptop gpt-4o {options}".rstrip()
        assert len(owner.why_requests[-1]) == options.count("--")


async def test_a_call_of_nobody_says_what_to_do() -> None:
    owner = Owner(0)
    owner.now_running = []
    owner.records = [call(1, token="")]
    async with shown("live", owner) as (app, pilot, _):
        await press(app, pilot, "W")
        assert words(app) == ["Its token is unknown. Page 2 lists the tokens, page 8 runs the doctor."]


async def test_what_the_server_refuses_is_shown() -> None:
    class Refusing(Owner):
        async def why(self, token: str, model: str, **_: object) -> Why:
            raise NotFound(f"no token '{token}'")

    async with shown("tokens", Refusing()) as (app, pilot, _):
        await press(app, pilot, "W")
        await until(app, pilot, "no token 'ci'")
        await press(app, pilot, "escape")
        assert not isinstance(app.screen, WhyScreen)


async def test_the_command_can_be_copied() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "W", "Y")
        assert words(app) == ["Copied:\ntollkeeper why ci claude-sonnet-4-5"]


def told(found: Why, width: int = 100) -> str:
    return why_text(found, console().session, width).plain


@pytest.mark.parametrize(
    "parts",
    [
        (
            "✗ 503 no_channel_available",
            "anthropic is cooling",
            "→ page 4 (Channels) shows the state of each",
            "retry in 30s",
        ),
        (
            "✗ anthropic   priority 5   paused 30s   2 running   it is cooling for 30 s: 429",
            "✗ ollama   priority 5   does not offer it",
        ),
        (
            "in 3   out 15",
            "group batch x0.5",
            "$0.009   1,000 input and",
            "$12.00 available",
            "month ███▎░░░░  41% $16.40/40",
            "0 of 60 requests left, full again in 30s",
        ),
    ],
    ids=["message and what to do", "each channel with the reason against it", "price, hold and what is left"],
)
def test_a_refusal_is_explained(parts: tuple[str, ...]) -> None:
    text = told(refused())
    assert [part for part in parts if part not in text] == []


def test_what_works_says_so_and_nothing_else() -> None:
    text = told(refused(works=True, status=200, code="", message=""))
    assert "✓ it would be sent" in text
    assert "503" not in text


def test_strangers_strings_are_harmless() -> None:
    text = told(refused(message="\x1b[2Jgone", fix="\x1b]0;x\x07", rule="[b]x[/]\x1b"))
    assert "\x1b" not in text
    assert "[b]x[/]" in text


def test_no_line_is_wider_than_the_screen() -> None:
    assert all(line.cell_length <= 60 for line in why_text(refused(), console().session, 60).split("\n"))


def test_a_fallback_s_channel_says_which_model_it_replaces() -> None:
    found = refused()
    spare = replace(found.routes[0], channel="spare", model="haiku", upstream_model="haiku-4", passed="")
    text = told(replace(found, routes=[*found.routes, spare]))
    assert "spare   priority 5   paused 30s   2 running   for haiku instead   as haiku-4" in text


def test_a_fallback_that_is_left_out_is_named_with_the_rule_and_what_to_do() -> None:
    rule, fix = "token 'ci' may use only claude-*; 'gpt-4o' does not fit", "'tollkeeper token edit ci --models ...'"
    text = told(replace(refused(), unused_fallbacks=[UnusedFallback(model="gpt-4o", rule=rule, fix=fix)]))
    assert f"✗ gpt-4o: {rule}" in text
    assert '→ e on page 2 (Tokens), "Models"' in text


def test_where_conversations_stay_the_first_choice_is_not_that_of_all_calls() -> None:
    found = refused(works=True, status=200, code="", message="")
    routes = [found.routes[0], replace(found.routes[0], channel="backup")]
    assert "sticky    a conversation stays at the channel" in told(replace(found, routes=routes, sticky=True))
    assert "sticky" not in told(replace(found, routes=routes, sticky=False))
    assert "sticky" not in told(replace(found, routes=routes[:1], sticky=True))


def test_a_paused_sole_channel_is_the_last_resort_in_verdict_and_list() -> None:
    found = refused(works=True, status=200, code="", message="")
    sole = replace(found.routes[0], chance=1.0, last_resort=True)
    text = told(replace(found, routes=[sole]))
    assert "▲ it would be sent to anthropic, although it is not healthy   no other channel is left" in text
    assert "▲ anthropic   first choice 100%" in text
    assert "✗" not in text
    assert "✓ it would be sent" not in text


@pytest.mark.parametrize("page", ["channels", "groups"])
async def test_a_channel_and_a_group_are_explained_with_a_token_of_theirs(page: str) -> None:
    async with shown(page) as (app, pilot, owner):
        await press(app, pilot, "W")
        _, token, model = owner.asked[-1].split(" ")
        used = {one.name: one for one in owner.tokens_now}[token]
        assert model in used.sees
        assert f"$ tollkeeper why {token} {model}" in screen(app)
    nobody = Owner()
    nobody.tokens_now = []
    async with shown(page, nobody) as (app, pilot, owner):
        await press(app, pilot, "W")
        assert "No token is in its group" in words(app)[0]


async def test_without_models_there_is_nothing_to_explain() -> None:
    owner = Owner()
    owner.channels_now = [replace(one, models=()) for one in owner.channels_now]
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "W")
        assert "It has no models" in words(app)[0]


async def test_a_model_is_searched_for_or_typed_although_there_is_none_of_that_name() -> None:
    owner = Owner()
    owner.models_now = [
        *owner.models_now,
        *(model("gpt-5-mini", name=f"vendor/model-{number}") for number in range(20)),
    ]
    async with shown("tokens", owner) as (app, pilot, _):
        await press(app, pilot, "W", "tab", "1", "7")
        await until(app, pilot, "vendor/model-17")
        await press(app, pilot, "enter")
        assert owner.asked[-1] == "why ci vendor/model-17"
        await press(app, pilot, "escape", "W", "tab", "ctrl+u", *"nosuch", "enter")
        assert owner.asked[-1] == "why ci nosuch"
        assert "$ tollkeeper why ci nosuch" in screen(app)


def test_what_to_do_is_reported_once() -> None:
    fix = "'tollkeeper token edit tiny --budget ever=AMOUNT' raises it"
    found = replace(refused(), message=f"the budget of token 'tiny' has $0.01 left; {fix}", fix=fix)
    assert told(found).count("raises it") == 1
    assert "has $0.01 left\n" in told(found)


def test_a_refusal_says_of_what_size_the_call_would_be() -> None:
    text = told(replace(refused(), hold_nanos=None, prompt_tokens=1_000, max_tokens=None))
    assert "1,000 input tokens, no limit of output" in text
