from gateway.domain.diagnosis import Why
from gateway.domain.errors import NotFound
from tests.tui.owner import Owner, press, screen, shown, until
from tests.tui.stage import call, words
from tui.widgets.why import WhyScreen


async def test_a_token_is_asked_about_with_the_first_model_it_sees() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await press(app, pilot, "W")
        await until(app, pilot, "503 no_channel_available")
        assert owner.asked[-1] == "why ci claude-sonnet-4-5"
        assert "$ tollkeeper why ci claude-sonnet-4-5" in screen(app)


async def test_another_token_or_model_is_asked_about_at_once() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await press(app, pilot, "W", "right")
        assert owner.asked[-1] == "why editor claude-sonnet-4-5"
        await press(app, pilot, "down", "right")
        assert owner.asked[-1] == "why editor deepseek-chat"


async def test_a_model_is_asked_about_with_the_token_used_last() -> None:
    async with shown("models") as (app, pilot, owner):
        await press(app, pilot, "j", "W")
        assert owner.asked[-1] == "why ci claude-sonnet-4-5"


async def test_a_call_is_asked_about_even_if_nobody_knows_its_model() -> None:
    owner = Owner(0)
    owner.now_running = []
    owner.records = [call(1, model="nobody-has-it", token="laptop")]
    async with shown("live", owner) as (app, pilot, _):
        await press(app, pilot, "W")
        await until(app, pilot, "< nobody-has-it >")
        assert owner.asked[-1] == "why laptop nobody-has-it"


async def test_a_call_of_nobody_says_what_to_do() -> None:
    owner = Owner(0)
    owner.now_running = []
    owner.records = [call(1, token="")]
    async with shown("live", owner) as (app, pilot, _):
        await press(app, pilot, "W")
        assert words(app) == ["its token is not known here: 8 runs the doctor, 2 shows the tokens"]


async def test_what_the_server_refuses_is_shown() -> None:
    class Refusing(Owner):
        async def why(self, token: str, model: str, **_: object) -> Why:
            raise NotFound(f"there is no token '{token}'")

    async with shown("tokens", Refusing()) as (app, pilot, _):
        await press(app, pilot, "W")
        await until(app, pilot, "there is no token 'ci'")
        await press(app, pilot, "escape")
        assert not isinstance(app.screen, WhyScreen)


async def test_the_command_can_be_copied() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "W", "Y")
        assert words(app) == ["copied:\ntollkeeper why ci claude-sonnet-4-5"]
