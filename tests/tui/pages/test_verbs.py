"""What keys of the pages do to what is selected, and what is said about it; pages that show one thing or another."""

from typing import Any

import pytest

from gateway.domain.budget import Window
from gateway.domain.units import Nanos
from tests.tui.owner import Owner, press, screen, shown
from tests.tui.stage import account, budget, group, words

FREE = {"input": 0, "output": 0}
NONE = Nanos(0)


@pytest.mark.parametrize(
    ("page", "keys", "did", "told"),
    [
        ("tokens", "space", [("edit_token", "tok_ci", {"enabled": False})], None),
        (
            "tokens",
            "j e end =2 enter",
            [("edit_token", "tok_editor", {"name": "editor2"})],
            "Token editor saved. Press u to undo.",
        ),
        ("channels", "e end =2 enter", [("edit_channel", "ch_anthropic", {"name": "anthropic2"})], None),
        ("channels", "j z", [("clear_channel", "ch_deepseek")], "Channel deepseek resumed."),
        (
            "channels",
            "K J",
            [("edit_channel", "ch_anthropic", {"priority": 2}), ("edit_channel", "ch_anthropic", {"priority": 0})],
            None,
        ),
        (
            "channels",
            "t enter",
            [("test_channel", "ch_anthropic", "")],
            "Test of anthropic passed in 0.41s:\nit lists 2 models",
        ),
        ("channels", "G space", [("edit_channel", "ch_openrouter", {"enabled": True})], None),
        ("channels", "L enter", [("refresh_channel", "ch_anthropic")], "No changes."),
        ("channels", "z", [("clear_channel", "ch_anthropic")], "Channel anthropic is not paused."),
        (
            "channels",
            "G z",
            [("clear_channel", "ch_openrouter")],
            "Channel openrouter is not paused. It is disabled: space enables it.",
        ),
        (
            "models",
            "P j space enter",
            [("import_prices", ["gpt-5-mini", "my-finetune-7"], {"apply": True, "accept": True})],
            None,
        ),
        ("models", "0 y", [("set_price", "claude-haiku-4-5", FREE)], None),
        ("models", "G 0", [("set_price", "my-finetune-7", FREE)], "my-finetune-7 is free. Press u to undo."),
        ("models", "G d", [], "my-finetune-7 has no price."),
        ("account", "space y", [("set_account", {"status": "suspended"})], None),
    ],
)
async def test_a_key_does_what_it_says(page: str, keys: str, did: list[Any], told: str | None) -> None:
    async with shown(page) as (app, pilot, owner):
        await press(app, pilot, *keys.split())
        assert owner.did == did
        assert told is None or words(app)[-1] == told


@pytest.mark.parametrize(
    ("page", "changes", "told", "untold"),
    [
        (
            "account",
            {},
            [
                "available  $11.92   $0.08 held by running calls",
                "balance    $12.00   $30.00 granted, $18.00 spent",
                "41% $16.40/40   lasts at this pace",
            ],
            "suspended",
        ),
        (
            "account",
            {"account_now": account(status="suspended", available_nanos=NONE, budgets=[]), "grants_now": []},
            [
                "✗ suspended   all calls are rejected; space resumes",
                "none: only the balance limits spending; e adds budgets",
                "none yet",
            ],
            "at the pace of",
        ),
        (
            "account",
            {"account_now": account(budgets=[budget(16.4, 10)])},
            ["calls are rejected: a budget is used up"],
            "the pace",
        ),
        ("account", {"groups_now": [group("home", budgets=[])], "tokens_now": []}, [], "budgets of groups"),
        ("tokens", {}, ["● ci", "97% $4.87/5", "ci is at 97%"], "no budget"),
        ("models", {}, ["7 models · 1 without a price: counted, not charged", "! no price openai-main"], "refused"),
        (
            "channels",
            {},
            [
                "▲ paused",
                "retry in 12m00s: 402",
                "6 channels · 4 ok · 1 paused · 1 off   deepseek: 402: no balance   z in its row resumes",
            ],
            "attention",
        ),
        (
            "usage",
            {"account_now": account(budgets=[budget(39, 40, Window.MONTH)])},
            ["account, this month: $39.00/40   at this pace used up on"],
            "token ci, this month",
        ),
    ],
)
async def test_a_page_shows_what_there_is(page: str, changes: dict[str, Any], told: list[str], untold: str) -> None:
    owner = Owner()
    for name, value in changes.items():
        setattr(owner, name, value)
    async with shown(page, owner, size=(120, 60) if page == "usage" else (100, 30)) as (app, _, _):
        text = screen(app)
        assert ([one for one in told if one not in text], untold in text) == ([], False)
