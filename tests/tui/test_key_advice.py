import pytest

from tests.tui.stage import call
from tui.glyphs import UNICODE
from tui.key_advice import key_advice
from tui.receipt import receipt


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("'tollkeeper account set --status active' reactivates it", "space on page 6 (Account) reactivates it"),
        ("top up: 'tollkeeper account grant 10'", "top up: a on page 6 (Account)"),
        ("'tollkeeper token enable ci'", "space on page 2 (Tokens)"),
        ("'tollkeeper token edit 'my token' --expires 30d'", "e on page 2 (Tokens): --expires 30d"),
        ("'tollkeeper token edit ci --expires 30d'", "e on page 2 (Tokens): --expires 30d"),
        ("'tollkeeper channel test a' tries it", "t on page 4 (Channels) tries it"),
        ("'tollkeeper channel list' shows all", "page 4 (Channels) shows all"),
        ("'tollkeeper why ci gpt' explains it", "W (Why) explains it"),
        ("suspended; tollkeeper account set --status active", "suspended; space on page 6 (Account)"),
        ("then 'tollkeeper serve'", "then 'tollkeeper serve'"),
        ("no advice at all", "no advice at all"),
    ],
)
def test_commands_become_keys(told: str, read: str) -> None:
    assert key_advice(told) == read


def test_a_refused_calls_receipt_names_keys() -> None:
    refused = call(1, status=403, code="account_suspended", error="'tollkeeper account set --status active' helps")
    assert "space on page 6 (Account) helps" in receipt(refused, 0, UNICODE, 100).plain
