from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.diagnosis import UnusedFallback, Why
from gateway.domain.errors import NotFound
from tests.tui.owner import Owner, limited_route, press, refused, screen, see, shown
from tests.tui.stage import call, console, model, words
from tui.widgets.why import WhyScreen, why_text


def with_call(**changes: Any) -> Owner:
    """A server with one call."""
    return Owner(0, now_running=[], records=[call(1, **changes)])


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
            "like that call: 1,200 input tokens, no limit of output",
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
    async with shown("live", with_call(**(REFUSED | changes))) as (app, pilot, owner):
        await see(app, pilot, "503 no_channel_available", "W")
        assert note in " ".join(screen(app).split())
        assert isinstance(app.screen, WhyScreen)
        assert app.screen.command() == f"tollkeeper why laptop gpt-4o {options}".rstrip()
        assert len(owner.why_requests[-1]) == options.count("--")


async def test_an_error_of_the_server_is_shown() -> None:
    class Refusing(Owner):
        async def why(self, token: str, model: str, **_: object) -> Why:
            raise NotFound(f"no token '{token}'")

    async with shown("tokens", Refusing()) as (app, pilot, _):
        await see(app, pilot, "no token 'ci'", "W")
        await press(app, pilot, "escape")
        assert not isinstance(app.screen, WhyScreen)


ANTHROPIC = limited_route()
HAIKU = {"channel": "spare", "model": "haiku", "upstream_model": "haiku-4", "passed": ""}
RULE = "token 'ci' may use only claude-*; 'gpt-4o' does not fit"
WORKS: dict[str, Any] = {"works": True, "status": 200, "code": "", "message": ""}
TWO = [ANTHROPIC, replace(ANTHROPIC, channel="backup")]
RAISES = "'tollkeeper token edit tiny --budget ever=AMOUNT' raises it"
STRANGE = {"message": "\x1b[2Jgone", "fix": "\x1b]0;x\x07", "rule": "[b]x[/]\x1b"}


@pytest.mark.parametrize(
    ("changes", "parts", "untold"),
    [
        (
            {},
            [
                "✗ 503 no_channel_available",
                "anthropic is cooling",
                "→ page 4 (Channels) shows the state of each",
                "retry in 30 s",
            ],
            "would be sent",
        ),
        (
            {},
            [
                "✗ anthropic   priority 5   2 running   paused for 30 s: 429",
                "✗ ollama   priority 5   does not offer it",
            ],
            "▲",
        ),
        (
            {},
            [
                "in 3   out 15",
                "group batch x0.5",
                "$0.009 for 1,000 input and",
                "$12.00 available",
                "month ███▎░░░░  41% $16.40/40",
                "0 of 60 requests left, all again in 30 s",
            ],
            "sticky",
        ),
        (WORKS, ["✓ it would be sent"], "503"),
        (STRANGE, ["[b]x[/]"], "\x1b"),
        (
            {"routes": [ANTHROPIC, replace(ANTHROPIC, **HAIKU)]},
            ["spare   priority 5   paused 30s   2 running   for haiku instead   as haiku-4"],
            "sticky",
        ),
        (
            {
                "unused_fallbacks": [
                    UnusedFallback(model="gpt-4o", rule=RULE, fix="'tollkeeper token edit ci --models ...'")
                ]
            },
            [f"✗ gpt-4o: {RULE}", '→ e on page 2 (Tokens), "Models"'],
            "tollkeeper token",
        ),
        ({**WORKS, "routes": TWO, "sticky": True}, ["sticky    a conversation stays at the channel"], "503"),
        ({**WORKS, "routes": TWO, "sticky": False}, ["✓ it would be sent"], "sticky"),
        ({**WORKS, "routes": TWO[:1], "sticky": True}, ["✓ it would be sent"], "sticky"),
        (
            {**WORKS, "routes": [replace(ANTHROPIC, chance=1.0, last_resort=True)]},
            [
                "▲ it would be sent to anthropic, although it is not healthy",
                "▲ anthropic   first choice 100%",
            ],
            "✗",
        ),
        ({"message": f"it has $0.01 left; {RAISES}", "fix": RAISES}, ["has $0.01 left\n", "raises it"], "left; "),
        (
            {"hold_nanos": None, "prompt_tokens": 1_000, "max_tokens": None},
            ["1,000 input tokens, no limit of output"],
            "sticky",
        ),
    ],
)
def test_a_verdict_is_explained(changes: dict[str, Any], parts: list[str], untold: str) -> None:
    text = why_text(refused(**changes), console().session, 100).plain
    assert ([part for part in parts if part not in text], untold in text) == ([], False)
    assert text.count("raises it") <= 1


def test_no_line_is_wider_than_the_screen() -> None:
    assert all(line.cell_length <= 60 for line in why_text(refused(), console().session, 60).split("\n"))


@pytest.mark.parametrize("page", ["channels", "groups"])
async def test_a_channel_and_a_group_are_explained_with_a_token_of_theirs(page: str) -> None:
    async with shown(page) as (app, pilot, owner):
        await press(app, pilot, "W")
        _, token, model = owner.asked[-1].split(" ")
        used = {one.name: one for one in owner.tokens_now}[token]
        assert model in used.sees
        assert f"$ tollkeeper why {token} {model}" in screen(app)
    async with shown(page, tokens_now=[]) as (app, pilot, owner):
        await press(app, pilot, "W")
        assert words(app) == ["No token can use it. Page 2 (n) creates one."]


async def test_a_model_is_searched_for_or_typed_although_there_is_none_of_that_name() -> None:
    owner = Owner()
    owner.models_now = [
        *owner.models_now,
        *(model("gpt-5-mini", name=f"vendor/model-{number}") for number in range(20)),
    ]
    async with shown("tokens", owner) as (app, pilot, _):
        await see(app, pilot, "vendor/model-17", "W", "tab", "1", "7")
        await press(app, pilot, "enter")
        assert owner.asked[-1] == "why ci vendor/model-17"
        await press(app, pilot, "escape", "W", "tab", "ctrl+u", *"nosuch", "enter")
        assert owner.asked[-1] == "why ci nosuch"
        assert "$ tollkeeper why ci nosuch" in screen(app)


async def test_the_command_has_the_names_as_they_are_and_the_screen_leaves_out_variation_selectors() -> None:
    async with shown("tokens") as (app, pilot, _):
        why = WhyScreen(app.session, "t\u2764\ufe0f", "m\u2764\ufe0f")
        app.push_screen(why)
        await press(app, pilot)
        assert why.command() == "tollkeeper why 't\u2764\ufe0f' 'm\u2764\ufe0f'"
        assert "$ tollkeeper why 't\u2764' 'm\u2764'" in screen(app)
