from msgspec.structs import replace

from gateway.domain.diagnosis import Why
from tests.tui.owner import refused
from tests.tui.stage import NOW
from tui.glyphs import UNICODE
from tui.widgets.why import reasons


def told(found: Why, width: int = 100) -> str:
    return reasons(found, NOW, UNICODE, width).plain


def test_a_refusal_is_told_with_its_message_and_what_to_do() -> None:
    text = told(refused())
    parts = ("✗ 503 no_channel_available", "anthropic is cooling", "→ 'tollkeeper channel list'", "waiting helps: 30s")
    assert [part for part in parts if part not in text] == []


def test_price_hold_and_what_is_left_stand_below() -> None:
    text = told(refused())
    parts = (
        "in 3   out 15",
        "group batch x0.5",
        "$0.009   for 1,000 tokens in",
        "$12.00 available",
        "month ███▎░░░░  41% $16.4/40",
        "0 of 60 requests left, all again in 30s",
    )
    assert [part for part in parts if part not in text] == []


def test_each_channel_has_its_line_with_the_reason_against_it() -> None:
    text = told(refused())
    assert "✗ anthropic   priority 5   cooling 30s   2 running   it is cooling for 30 s: 429" in text
    assert "✗ ollama   priority 5   does not offer it" in text


def test_what_works_says_so_and_nothing_else() -> None:
    text = told(refused(works=True, status=200, code="", message=""))
    assert "✓ it would be sent" in text
    assert "503" not in text


def test_strangers_strings_are_harmless() -> None:
    text = told(refused(message="\x1b[2Jgone", fix="\x1b]0;x\x07", rule="[b]x[/]\x1b"))
    assert "\x1b" not in text
    assert "[b]x[/]" in text


def test_no_line_is_wider_than_the_screen() -> None:
    assert all(line.cell_length <= 60 for line in reasons(refused(), NOW, UNICODE, 60).split("\n"))


def test_a_fallback_s_channel_says_for_which_model_it_stands_in() -> None:
    found = refused()
    spare = replace(found.routes[0], channel="spare", model="haiku", upstream_model="haiku-4", passed="")
    text = told(replace(found, routes=[*found.routes, spare]))
    assert "spare   priority 5   cooling 30s   2 running   for haiku instead   as haiku-4" in text
