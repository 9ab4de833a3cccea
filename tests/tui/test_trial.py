import pytest

from gateway.domain.errors import GatewayError
from tests.tui.owner import Owner, public, shown
from tui.widgets.connect import trial


async def test_a_known_key_is_used_as_it_is() -> None:
    owner = Owner()
    async with public(owner) as asked, shown("tokens", owner) as (app, _, _):
        call = await trial(app.session, owner.tokens_now[0], "gpt-5-mini", "sk-tk-known")
        assert call == owner.records[0]
        assert asked == ["/v1/chat/completions Bearer sk-tk-known"]


async def test_else_a_pass_stands_in_for_it() -> None:
    owner = Owner()
    async with public(owner) as asked, shown("tokens", owner) as (app, _, _):
        await trial(app.session, owner.tokens_now[0], "gpt-5-mini")
        assert asked == ["/v1/chat/completions Bearer sk-tk-pass"]


async def test_a_refusal_is_raised() -> None:
    owner = Owner()
    async with public(owner, "503 Service Unavailable"), shown("tokens", owner) as (app, _, _):
        with pytest.raises(GatewayError, match="no channel takes calls"):
            await trial(app.session, owner.tokens_now[0], "gpt-5-mini")
