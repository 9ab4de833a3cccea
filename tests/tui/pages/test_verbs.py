"""What keys of the pages do to what is selected, and what is said about it; pages that show one thing or another."""

from typing import Any

import msgspec
import pytest

from gateway.domain.budget import Window
from gateway.domain.channel import Check, ServedModel
from gateway.domain.errors import UpstreamError
from gateway.domain.price_view import PriceNews, PriceView
from gateway.domain.units import Millis, Nanos
from tests.tui.owner import Owner, listed, listing, press, price_of, proposal, screen, shown
from tests.tui.stage import DOLLAR, NOW, account, budget, call, channel, group, model, token, words

FREE = {"input": 0, "output": 0}
NONE = Nanos(0)
TUNED, HAIKU = "my-finetune-7", "claude-haiku-4-5"
SAVED_AS_TWO = [("edit_channel", "ch_anthropic", {"name": "anthropic2"})]
PRIORITIES = [("edit_channel", "ch_anthropic", {"priority": number}) for number in (2, 0)]
REFRESHED, CLEARED = ([(f"{verb}_channel", "ch_anthropic")] for verb in ("refresh", "clear"))
STALE: dict[str, Any] = {"error": "connection refused", "stale": True}
UNSET = [channel("anthropic", state="attention", reason="K is not set here", missing_variables=("K",))]
LAST_GOOD = {"listing": listing(listed("a"), **STALE)}
SAME, UNLISTED = {"proposals": [proposal("gpt-5-mini", differs=False)]}, {"proposals": list[Any]()}
SERVED = [ServedModel(name=TUNED)]
RELAYS = [channel("relay", models=SERVED, preset=""), channel("known", models=SERVED, preset="groq")]
MAPPED = [channel("groq", models=[ServedModel(name=TUNED, upstream=HAIKU)])]
FAILED = Check(time=NOW, ok=False, ms=Millis(412), text="401: the key is refused")
LONE = [msgspec.structs.replace(group("default"), channels=[])]
BLIND = [token("ci", sees=[])]
TOKEN_OFF = [("batch", "tokens", {"tok_ci": {"enabled": False}})]


def priced(model: str, *others: str, source: str = "manual") -> dict[str, list[PriceView]]:
    """Prices of a model at the channel groq, and at others."""
    price = msgspec.structs.replace(price_of(HAIKU), model=model, source=source)
    return {"single_prices": [msgspec.structs.replace(price, channel=name) for name in ("groq", *others)]}


def one_call(**changes: Any) -> dict[str, list[Any]]:
    """A server with one call."""
    return {"now_running": [], "records": [call(1, **changes)]}


def imported(*models: str, accept: bool = False) -> list[Any]:
    return [("import_prices", [*models], {"apply": True, "accept": accept})]


async def tried(page: str, keys: str, **attributes: Any) -> tuple[list[Any], str]:
    """Presses keys on a page; returns what the server was asked to do, and every screen and message meanwhile."""
    async with shown(page, **attributes) as (app, pilot, owner):
        seen = screen(app)
        for key in keys.split():
            await press(app, pilot, key)
            seen += "\n".join(["", screen(app), *words(app)])
        return owner.did, " ".join(seen.replace("│", " ").split())


@pytest.mark.parametrize(
    ("page", "attributes", "keys", "did", "told"),
    [
        ("tokens", {}, "space", TOKEN_OFF, ["Clients get 401 immediately. 1,204 calls so far"]),
        ("tokens", {}, "j e end =2 enter", [("edit_token", "tok_editor", {"name": "editor2"})], ["Token editor saved"]),
        ("tokens", {}, "a", [], ["No tokens of ended programs."]),
        ("tokens", {}, "d enter", [], ["Delete token ci?", "1,204 calls so far, the last one 14 s ago. History"]),
        ("tokens", {}, "d y", [("batch", "tokens", {"tok_ci": None})], ["Changed 1 tokens. Press u to undo."]),
        ("tokens", {}, "n =pad down down =claude-*", [], [f"sees 2 models: claude-sonnet-4-5, {HAIKU}"]),
        ("tokens", {}, "n =pad down down =x", [], ["this token sees no models: no pattern matches"]),
        ("tokens", {}, "b j enter y", TOKEN_OFF, ["Disable token ci?"]),
        ("tokens", {}, "m m slash =phone enter d", [], ["Delete 2 tokens?", "ci, editor"]),
        ("tokens", {}, "c k", [], ["The key was shown only once"]),
        ("tokens", {"tokens_now": BLIND}, "c t", [], ["this token sees no model"]),
        ("tokens", {}, "W Y", [], ["503 no_channel_available", "Copied: tollkeeper why ci claude-sonnet-4-5"]),
        ("tokens", {}, "W right down right", [], ["why editor claude-sonnet-4-5", "why editor deepseek-chat"]),
        ("models", {}, "j W", [], ["$ tollkeeper why ci claude-sonnet-4-5"]),
        ("channels", {"channels_now": [channel("empty", models=())]}, "W", [], ["It has no models"]),
        ("live", one_call(model="nobody-has-it", token="laptop"), "W", [], ["token < laptop >", "model nobody-has-it"]),
        ("live", one_call(token=""), "W", [], ["Its token is unknown. Page 2 lists the tokens, page 8 runs the"]),
        ("tokens", {}, "c m left left", [], ['"model":"gpt-5-mini"', "2 of 6, m for the next"]),
        ("tokens", {}, "slash =nobody enter e", [], ["No token selected. Press esc to clear the filter."]),
        ("live", {"size": (80, 24)}, "o down space enter", [], ["No room for Call. Show fewer other columns"]),
        ("channels", {"size": (200, 50)}, "j enter", [], ["retry in 12m00s, z resumes", "key …3kQA"]),
        ("channels", {"count": 0, "channels_now": [channel("fine")]}, "i", [], ["every channel answered"]),
        ("usage", {"count": 0}, "", [], ["No calls in this period."]),
        ("settings", {"size": (30, 10)}, "", [], ["Refuse unpriced no"]),
        ("settings", {"size": (60, 16)}, "j e", [], ["Whether calls to models without a price are"]),
        ("groups", {"groups_now": LONE}, "d", [], ["no other group exists to move them to"]),
        (
            "groups",
            {},
            "d right enter",
            [("remove_group", "batch", "free")],
            ["Used by token ci, channel anthropic, channel openai-main,", "Group batch deleted. Press u to undo."],
        ),
        ("channels", {}, "e end =2 enter", SAVED_AS_TWO, []),
        ("channels", {}, "j z", [("clear_channel", "ch_deepseek")], ["Channel deepseek resumed."]),
        ("channels", {}, "K J", PRIORITIES, []),
        ("channels", {}, "t enter", [("test_channel", "ch_anthropic", "")], ["passed in 0.41s: it lists 2 models"]),
        (
            "channels",
            {"check": FAILED},
            "t right enter",
            [("test_channel", "ch_anthropic", "claude-sonnet-4-5")],
            ["Test of anthropic FAILED in 0.41s: 401: the key is refused"],
        ),
        ("channels", {}, "G space", [("batch", "channels", {"ch_openrouter": {"enabled": True}})], []),
        ("channels", {}, "L enter", REFRESHED, ["No changes."]),
        ("channels", {"refuses": UpstreamError("it cannot be reached")}, "L", [], ["it cannot be reached"]),
        ("channels", {"listing": listing(**STALE)}, "L", REFRESHED, ["returned no models: connection refused"]),
        ("channels", {"listing": listing(unnamed=2)}, "L", REFRESHED, ["no models: 2 left out (names not usable)"]),
        ("channels", LAST_GOOD, "L", REFRESHED, ["Showing the last good list: "]),
        ("channels", {}, "z", CLEARED, ["Channel anthropic is not paused."]),
        ("channels", {"channels_now": UNSET}, "z", CLEARED, ["needs attention: K is not set here"]),
        ("channels", {}, "G z", [("clear_channel", "ch_openrouter")], ["It is disabled: space enables it."]),
        (
            "channels",
            {},
            "d y",
            [("batch", "channels", {"ch_anthropic": None})],
            [f"No other channel serves {HAIKU}, claude-sonnet"],
        ),
        ("channels", {}, "a", [], ["Nothing new found"]),
        (
            "models",
            {},
            "G e down =1.5 down =6 enter",
            [("set_price", TUNED, {"input": 1_500_000_000, "output": 6_000_000_000})],
            ["10k in + 1k out = $0.021 $0.0105 in batch $0.00 in free", f"price set {TUNED} --input 1.50 --output 6"],
        ),
        (
            "models",
            {"models_now": [model(HAIKU, groups=["default", "batch", "free"])]},
            "enter",
            [],
            ["10k in + 1k out = $0.015 (default x1) $0.0075 (batch x0.5) $0.00 (free x0)"],
        ),
        ("models", {}, "P", [], ["2 would change"]),
        ("models", {}, "P enter", imported(TUNED), ["1 price imported."]),
        ("models", {}, "P j space enter", imported("gpt-5-mini", TUNED, accept=True), []),
        ("models", SAME | {"news": PriceNews(as_of="2026-05-01", stale=True)}, "P", [], ["list of 2026-05-01 is old"]),
        ("models", SAME, "P", [], ["Nothing to import: 0 would change, 1 already match"]),
        ("models", UNLISTED, "P", [], ["Nothing to import: no price list applies", f"no list applies: {TUNED}."]),
        (
            "models",
            UNLISTED | {"channels_now": RELAYS},
            "P",
            [],
            ["It is not known whose models relay has: a preset says it (e on page 4)."],
        ),
        ("models", {}, "G e =groq/llama-3.3-70b", [], ["looked up in the price list when it is saved"]),
        ("models", {}, "G e enter", [], ["required, unless the price is the same as another model's"]),
        ("models", {}, "0 y", [("batch", "prices", {HAIKU: FREE})], [f"Make model {HAIKU} free?"]),
        ("models", {}, "G 0", [("batch", "prices", {TUNED: FREE})], ["Changed 1 prices. Calls will cost nothing"]),
        ("models", {}, "G d", [], [f"{TUNED} has no price of its own."]),
        ("models", priced(HAIKU), "d", [], [f"Remove which price of {HAIKU}?", "other channels 1 / 5"]),
        (
            "models",
            priced(HAIKU),
            "d j enter y",
            [("remove_price", HAIKU, "groq")],
            ["Its calls there will cost 1 / 5.", f"Price of {HAIKU} at groq removed. Press u to undo."],
        ),
        ("models", priced(HAIKU), "d enter y", [("remove_price", HAIKU)], ["at other channels will be counted"]),
        ("models", priced(TUNED), "G d y", [("remove_price", TUNED, "groq")], ["Its calls there will be counted"]),
        (
            "models",
            priced(TUNED) | {"channels_now": MAPPED},
            "G d y",
            [("remove_price", TUNED, "groq")],
            ["Its calls there will cost 1 / 5."],
        ),
        ("models", priced(TUNED, "azure", source="genai-prices 1"), "G d y", [("remove_price", TUNED)], []),
        ("account", {}, "space y", [("set_account", {"status": "suspended"})], []),
        ("account", {"account_now": account(status="suspended")}, "space", [("set_account", {"status": "active"})], []),
        ("account", {}, "a enter", [("grant", 10 * DOLLAR, "")], ["new balance: $22.00", "account grant 10"]),
        ("account", {}, "a =-2.5 down =typo enter", [("grant", -2_500_000_000, "typo")], ["Balance: $9.50."]),
        ("doctor", {}, "tab =edit enter tab =haiku enter", [], [f"doctor --token editor --model {HAIKU}"]),
        ("doctor", {}, "tab =nope escape", [], ["$ tollkeeper doctor --token nope"]),
    ],
)
async def test_keys_do_what_they_say(
    page: str, attributes: dict[str, Any], keys: str, did: object, told: list[str]
) -> None:
    found, seen = await tried(page, keys, **attributes)
    assert (found, [text for text in told if text not in seen]) == (did, [])


@pytest.mark.parametrize(
    ("page", "changes", "told", "untold"),
    [
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
        (
            "usage",
            {"account_now": account(budgets=[budget(39, 40, Window.MONTH)])},
            ["account, this month: $39.00/40   at this pace used up on"],
            "token ci, this month",
        ),
    ],
)
async def test_a_page_shows_what_there_is(page: str, changes: dict[str, Any], told: list[str], untold: str) -> None:
    async with shown(page, Owner(**changes), size=(120, 60) if page == "usage" else (100, 30)) as (app, _, _):
        text = screen(app)
        assert ([one for one in told if one not in text], untold in text) == ([], False)
