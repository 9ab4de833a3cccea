from typing import Any

import msgspec
import pytest

from gateway.domain.channel import ServedModel
from gateway.domain.limits import Limits
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import ChannelView, KeyView
from tests.tui.owner import listing_of, screen, see, shown
from tests.tui.stage import NOW, call, channel, sums
from tui.pages.channels import ChannelsPage
from tui.trends import Trends


def listing(*channels: ChannelView) -> ChannelsPage:
    return listing_of(ChannelsPage, channels=channels)


def detail(view: ChannelView) -> str:
    made = listing(view)
    return made.detail(made.rows()[0], 160).plain


def test_lost_calls_and_waits_for_a_slot_are_not_the_fault_of_the_channel() -> None:
    made = listing(view := channel("up"))
    day = msgspec.structs.replace(
        sums(), key=view.id, calls=4, errors=0, lost=1, aborts=1, first_byte_ms=52_800, first_bytes=2, waited_ms=52_000
    )
    made.trends = Trends(totals={view.id: day})
    text = made.detail(made.rows()[0], 160).plain
    assert "first token 0.40s, 0% of 4 calls failed, 1 cancelled, 1 lost" in text


def test_an_untested_channel_is_neither_green_nor_marked_as_good() -> None:
    page = listing(channel("fresh", untested=True), channel("old"))
    (fresh,) = [row for row in page.rows() if row.name == "fresh"]
    state = next(column for column in page.all_columns() if column.id == "state")
    assert state.tone is not None
    assert (state.text(fresh).split(), state.tone(fresh)) == (["?", "untested"], "dim")
    assert "untested   nothing has succeeded here yet" in detail(fresh)
    assert "1 ok · 1 untested" in str(page.lead(100)) or "1 untested · 1 ok" in str(page.lead(100))


def test_a_state_that_only_a_newer_server_knows_is_shown_as_it_is() -> None:
    page = listing(channel("new", state="resting"), channel("old"))
    (new,) = [row for row in page.rows() if row.name == "new"]
    state = next(column for column in page.all_columns() if column.id == "state")
    assert state.tone is not None
    assert state.sort is not None
    assert (state.text(new).split(), state.tone(new)) == (["?", "resting"], "dim")
    assert max(page.rows(), key=state.sort) is new
    assert "? resting" in detail(new)
    assert "1 resting" in str(page.lead(100))


def test_several_channels_need_what_one_needs() -> None:
    states = [channel(name, state="attention") for name in ("a", "b")]
    assert "2 need attention" in str(listing(channel("c"), *states).lead(200))
    assert listing().lead(200).plain == " 0 channels"


def key(number: int) -> KeyView:
    return KeyView(number=number, key=f"…{number}", state="attention", reason="401", until_ms=None)


def test_higher_priorities_come_first() -> None:
    made = listing(channel("b"), channel("a"), channel("z", priority=9))
    assert [made.row_name(row) for row in made.rows()] == ["z", "a", "b"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"models": [], "last_check": None, "groups": []}, "none: L fetches the upstream's list"),
        ({"models": [ServedModel(name="fast", upstream="gpt-5-mini")]}, "fast → gpt-5-mini"),
        ({"limits": Limits(rpm=9, queue_s=3)}, "9 requests a minute, 3 seconds of waiting"),
        ({"headers": {"X-Title": "…"}}, "headers: X-Title: …"),
        ({"options": {"latency": 200}}, "mock options: latency=200"),
        ({"strict": True}, "rejected parameter: return the error"),
        ({"finish_abandoned": False}, "if the client leaves: cancel it"),
        ({"preset": "openrouter"}, "preset: openrouter"),
        ({"possible_nanos": Nanos(1_000_000)}, "possibly billed"),
        ({"refused_params": ("seed", "user")}, "rejected by the upstream, so left out: seed, user"),
        ({"note": "mine"}, "note: mine"),
    ],
)
def test_the_pane_shows_what_is_not_usual(changes: dict[str, Any], told: str) -> None:
    shown = [" ".join(detail(view).split()) for view in (channel("anthropic", **changes), channel("anthropic"))]
    assert [told in text for text in shown] == [True, False]


def test_the_command_shows_the_channel() -> None:
    made = listing(channel("x"))
    assert made.command(made.rows()[0]) == "tollkeeper channel show x"
    assert "n creates one" in made.empty().plain


async def test_a_call_that_its_client_ended_is_not_an_error_of_the_channel() -> None:
    calls = [call(number, status=200, outcome="done", channel="anthropic") for number in range(3)]
    calls.append(call(4, status=499, outcome="client_closed", channel="anthropic"))
    async with shown("channels", records=calls, size=(140, 40)) as (app, pilot, _):
        await see(app, pilot, "failed, 1 cancelled", "enter")
        assert "0% of 4 calls" in screen(app)


@pytest.mark.parametrize(
    ("view", "letter", "does"),
    [
        (channel("a", state="cooling", reason="429"), "z", "resumes it"),
        (channel("a", state="attention", reason="401"), "e", "replaces its key"),
        (channel("a", state="attention", reason="401", keys=[key(1), key(2)]), "A", "replaces its keys"),
    ],
)
def test_the_hint_is_the_key_of_what_helps(view: ChannelView, letter: str, does: str) -> None:
    view = msgspec.structs.replace(view, until_ms=Millis(NOW + 60_000))
    assert listing(view).lead(120).plain.endswith(f"{letter} {does}")
    assert listing(channel("b"), view).lead(120).plain.endswith(f"{letter} in its row {does}")
    assert f"retry in 1m00s, {letter} {does}" in detail(view)


def test_a_pause_that_is_over_reads_as_one() -> None:
    over = channel("a", state="cooling", reason="429", until_ms=Millis(NOW))
    assert "retrying" in detail(over)
    assert "retry in" not in detail(over)


def test_the_channel_that_needs_attention_comes_before_one_that_is_paused() -> None:
    paused, refused = channel("a", state="cooling", reason="429"), channel("b", state="attention", reason="401")
    assert "b: 401" in listing(paused, refused).lead(120).plain
