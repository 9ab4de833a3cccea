import pytest

from gateway.domain.channel import Served
from gateway.domain.errors import BadRequest
from gateway.domain.units import Nanos
from gateway.domain.views import ChannelView, Offer
from tests.tui.owner import preset
from tests.tui.stage import channel, console
from tui.widgets.form import Values
from tui.wizard import ADDRESS, DEMO, Body, channel_plan, purse_plan
from tui.wizard import _name_of as name_of

OFFER = Offer(
    name="ollama",
    dialect="openai",
    preset="ollama",
    base_url="http://127.0.0.1:11434/v1",
    key="",
    models=[Served(name="qwen3:8b")],
)


async def chosen(values: Values, **typed: str) -> Body | None:
    """The body that the channel's step asks for."""
    asked: list[Body | None] = []

    async def choose(_values: Values, body: Body | None) -> ChannelView:
        asked.append(body)
        return channel("made")

    await channel_plan([OFFER], choose, typed).save(values)
    return asked[0]


async def test_the_demo_is_no_new_channel() -> None:
    assert await chosen({"source": DEMO, "base_url": "", "key": "", "name": ""}) is None


async def test_an_address_is_needed_for_another_channel() -> None:
    with pytest.raises(BadRequest, match="the address is needed"):
        await chosen({"source": ADDRESS, "base_url": "", "key": "", "name": ""})


async def test_a_known_vendor_needs_no_address() -> None:
    asked: list[Body | None] = []

    async def choose(_values: Values, body: Body | None) -> ChannelView:
        asked.append(body)
        return channel("made")

    groq = preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
    plan = channel_plan([], choose, {}, [groq])
    typed = {"source": ADDRESS, "base_url": "groq", "key": "sk-1", "name": ""}
    assert plan.twin(typed) == "channel add groq --preset groq --key -"
    assert plan.live(typed) == "groq is at https://api.groq.com/openai/v1; its key is usually env:GROQ_API_KEY"
    await plan.save({field.id: field.parse(typed[field.id]) for field in plan.fields})
    assert asked == [{"name": "groq", "preset": "groq", "key": "sk-1"}]


def test_what_was_typed_before_stands_there_again() -> None:
    async def choose(_values: Values, _body: Body | None) -> ChannelView:
        return channel("made")

    typed = {"source": ADDRESS, "base_url": "https://x.example/v1", "key": "sk-1", "name": "x"}
    assert {field.id: field.value for field in channel_plan([OFFER], choose, typed).fields} == typed


def test_a_purse_that_stays_as_it_is_costs_no_grant() -> None:
    plan = purse_plan(console().session, Nanos(10_000_000_000))
    assert plan.twin({"balance": "10"}) == "account show"
    assert plan.twin({"balance": "12.50"}) == "account grant 2.50"
    assert plan.twin({"balance": "x"}) == ""


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("http://127.0.0.1:11434/v1", "127.0.0.1"),
        ("http://box/v1", "box"),
        ("http://[::1]:80/v1", "::1"),
        ("http://[", ""),
    ],
)
def test_a_channel_is_named_after_its_host(url: str, name: str) -> None:
    assert name_of(url) == name
