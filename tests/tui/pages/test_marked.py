"""What is marked is changed together, after one confirmation."""

from collections.abc import Mapping

import msgspec
import pytest
from textual.pilot import Pilot

from gateway.domain.budget import Budget, Window
from gateway.domain.errors import BadRequest
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.limit_kinds import CLIENT_LIMITS, RateLimits
from gateway.domain.limits import Limits
from gateway.domain.units import DOLLAR, Millis, Nanos
from tests.tui.owner import Owner, press, screen, see, shown
from tests.tui.stage import budget, words
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.pages.marked import budgets_of

TWO = ("m", "m")
FREE = {"input": 0, "output": 0}


async def choose(app: Console, pilot: Pilot[ExitStatus], *keys: str) -> None:
    """Mark two rows, open the menu and press keys in it."""
    await press(app, pilot, *TWO, "b", *keys)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("page", "keys", "question", "sent"),
    [
        ("tokens", ["enter"], "Enable 2 tokens?", ("tokens", {"enabled": True})),
        ("tokens", ["j", "enter"], "Disable 2 tokens?", ("tokens", {"enabled": False})),
        ("tokens", ["j", "j", "enter", "enter"], "Move 2 tokens to group batch?", ("tokens", {"group": "batch"})),
        (
            "tokens",
            ["j", "j", "j", "enter", "=rpm=60", "enter"],
            "Set limits of 2 tokens to rpm=60?",
            ("tokens", {"limits": Limits(rpm=60, tpm=200_000, concurrent=8)}),
        ),
        (
            "tokens",
            ["j", "j", "j", "enter", "=none", "enter"],
            "Remove all rate limits of 2 tokens?",
            ("tokens", {"limits": Limits()}),
        ),
        (
            "tokens",
            ["j", "j", "j", "j", "enter", "=none", "enter"],
            "Remove all budgets of 2 tokens?",
            ("tokens", {"budgets": []}),
        ),
        ("tokens", ["k", "enter"], "Delete 2 tokens?", ("tokens", None)),
        ("groups", ["k", "enter"], "Delete 2 groups?", ("groups", None)),
        ("channels", ["j", "enter"], "Disable 2 channels?", ("channels", {"enabled": False})),
        ("channels", ["m", "enter", "j", "enter"], "Move 2 channels to", ("channels", {"groups": ["free"]})),
        ("models", ["enter"], "Make 2 models free?", ("prices", FREE)),
        ("models", ["j", "enter"], "Remove the price of 2 models?", ("prices", None)),
    ],
)
async def test_the_menu_changes_all_marked_rows(
    page: str, keys: list[str], question: str, sent: tuple[str, object]
) -> None:
    async with shown(page) as (app, pilot, owner):
        names = [app.page.row_name(app.page.source.row(at)) for at in (0, 1)]
        await choose(app, pilot, *keys)
        assert question in screen(app)
        assert ", ".join(names) in screen(app)
        assert owner.did == []
        await press(app, pilot, "y")
        ((verb, kind, patches),) = owner.did
        assert (verb, kind, len(patches)) == ("batch", sent[0], 2)
        for patch in patches.values():
            if isinstance(patch, dict) and "limits" in patch:
                patch["limits"] = Limits(**patch["limits"])
            assert patch == sent[1]
        assert words(app) == [f"Changed 2 {kind}. Press u to undo."]
        assert app.page.table.marks == set()


@pytest.mark.parametrize(
    ("keys", "done"),
    [
        (["enter"], True),
        (["j", "j", "j", "enter", "=rpm=60", "enter"], True),
        (["j", "enter"], False),
        (["k", "enter"], False),
    ],
    ids=["enable", "limit", "disable", "delete"],
)
async def test_enter_does_at_once_what_ends_nothing(keys: list[str], *, done: bool) -> None:
    async with shown("tokens") as (app, pilot, owner):
        await choose(app, pilot, *keys)
        await press(app, pilot, "enter")
        assert bool(owner.did) == done


@pytest.mark.parametrize(
    ("kind", "typed", "question"),
    [
        (3, "rpm=none", "Set limits of 2 tokens to rpm=none?"),
        (4, "month=none", "Set the budget of 2 tokens to month=none?"),
    ],
)
async def test_what_stays_at_one_of_them_is_not_said_to_be_removed(kind: int, typed: str, question: str) -> None:
    owner = Owner()
    one, other, *rest = owner.tokens_now
    one = msgspec.structs.replace(one, limits=Limits(rpm=1, tpm=2), budgets=[budget(0, 5, Window.DAY)])
    owner.tokens_now = [one, msgspec.structs.replace(other, limits=Limits(), budgets=[]), *rest]
    async with shown("tokens", owner) as (app, pilot, _):
        await choose(app, pilot, *["j"] * kind, "enter", f"={typed}", "enter")
        assert question in screen(app)


async def test_marked_channels_are_added_to_a_group_beside_their_others() -> None:
    async with shown("channels") as (app, pilot, owner):
        first, second = (app.page.source.row(at) for at in (0, 1))
        board = app.session.board
        board.groups = [*board.groups, msgspec.structs.replace(board.groups[0], name="zoo")]
        board.channels = [
            msgspec.structs.replace(one, groups=(*one.groups, "zoo")) if one.id == first.id else one
            for one in board.channels
        ]
        app.page.renew()
        await choose(app, pilot, "a", "enter", "z", "enter")
        assert f"Add channel {second.name} to group zoo?" in screen(app)
        await press(app, pilot, "y")
        ((_, kind, patches),) = owner.did
        assert (kind, patches) == ("channels", {second.id: {"groups": [*second.groups, "zoo"]}})


async def test_an_action_that_changes_no_row_leaves_nothing_to_undo() -> None:
    class Same(Owner):
        async def batch(self, kind: str, patches: Mapping[str, object], channel: str = "") -> str:
            return NOTHING_CHANGED

    async with shown("tokens", Same()) as (app, pilot, _):
        await choose(app, pilot, "j", "enter")
        await press(app, pilot, "y")
        assert words(app) == ["Nothing was changed."]


async def test_each_row_keeps_its_other_budgets() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await choose(app, pilot, "j", "j", "j", "j", "enter", "=day=5", "enter", "y")
        (ci, editor) = owner.did[0][2].values()
        assert [(one["window"], one["nanos"]) for one in ci["budgets"]][:1] == [("day", 5 * DOLLAR)]
        assert {one["window"] for one in ci["budgets"]} == {"day", "month"} == {o["window"] for o in editor["budgets"]}


@pytest.mark.parametrize(
    ("page", "key", "question"),
    [
        ("tokens", "space", "Disable 2 tokens?"),
        ("tokens", "d", "Delete 2 tokens?"),
        ("channels", "space", "Disable 2 channels?"),
        ("channels", "d", "Delete 2 channels?"),
        ("groups", "d", "Delete 2 groups?"),
        ("models", "0", "Make 2 models free?"),
        ("models", "d", "Remove the price of 2 models?"),
    ],
)
async def test_keys_of_one_row_act_on_the_marked_ones(page: str, key: str, question: str) -> None:
    async with shown(page) as (app, pilot, owner):
        await see(app, pilot, question, *TWO, key)
        await press(app, pilot, "escape")
        assert owner.did == []
        assert len(app.page.table.marks) == 2


async def test_only_channels_have_calls_that_finish() -> None:
    async with shown("groups") as (app, pilot, _):
        await press(app, pilot, *TWO, "d")
        assert "History is kept." in screen(app)
        assert "Running calls" not in screen(app)
    async with shown("channels") as (app, pilot, _):
        await press(app, pilot, *TWO, "d")
        assert "Running calls finish. History is kept." in screen(app)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (("spare",), "Other channels serve all the same models."),
        ((), "No other channel serves"),
    ],
)
async def test_a_model_is_lost_if_no_other_channel_serves_it(others: tuple[str, ...], said: str) -> None:
    async with shown("channels") as (app, pilot, _):
        board = app.session.board
        channel = app.page.source.row(0)
        served = [
            msgspec.structs.replace(model, channels=(channel.name, *others) if at else ())
            for at, model in enumerate(board.models)
        ]
        board.models = served
        await press(app, pilot, "d")
        assert said in screen(app)
        assert served[0].name not in screen(app).partition(said)[2]


@pytest.mark.parametrize(("page", "place"), [("tokens", 3), ("channels", 4)])
async def test_channels_have_no_limit_of_streams(page: str, place: int) -> None:
    async with shown(page) as (app, pilot, owner):
        await choose(app, pilot, *["j"] * place, "enter", "=streams=3", "enter")
        assert ("unknown limit 'streams=3'" in screen(app)) == (page == "channels")
        assert owner.did == []


async def test_the_price_of_another_model_is_not_removed() -> None:
    first, second = Owner().models_now[:2]
    assert first.price is not None
    alias = msgspec.structs.replace(first, price=msgspec.structs.replace(first.price, inherited_from="m"))
    async with shown("models", models_now=[alias, second]) as (app, pilot, owner):
        await see(app, pilot, "Remove the price of model", *TWO, "d")
        await press(app, pilot, "y")
        assert owner.did == [("batch", "prices", {second.name: None})]


async def test_a_refused_batch_keeps_the_marks() -> None:
    async with shown("tokens") as (app, pilot, owner):
        owner.refuses = BadRequest("no")
        await press(app, pilot, *TWO, "d", "y")
        assert words(app) == ["no"]
        assert len(app.page.table.marks) == 2


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("rpm=60", Limits(rpm=60, tpm=5)),
        ("rpm=60, tpm=none", Limits(rpm=60)),
        ("none", Limits()),
        ("concurrent=2", Limits(rpm=1, tpm=5, concurrent=2)),
    ],
)
def test_limits_that_are_not_named_stay(text: str, after: Limits) -> None:
    before = Limits(rpm=1, tpm=5)
    assert msgspec.structs.replace(before, **RateLimits(names=CLIENT_LIMITS).changes(text)) == after


@pytest.mark.parametrize("text", ["rpm", "rpm=0", "nonsense=3", "rpm=x", "streams=1"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        RateLimits(names=("rpm", "tpm")).changes(text)
    with pytest.raises(BadRequest):
        budgets_of("hour=3", (), Millis(0))


@pytest.mark.parametrize(
    ("text", "after"),
    [("day=5", {"day": 5, "month": 20}), ("day=5 month=none", {"day": 5}), ("none", {}), ("month=7", {"month": 7})],
)
def test_budgets_that_are_not_named_stay(text: str, after: dict[str, int]) -> None:
    before = [Budget(window=Window.MONTH, nanos=Nanos(20 * DOLLAR))]
    found = budgets_of(text, before, Millis(0))
    assert {one["window"]: one["nanos"] // DOLLAR for one in found} == after


async def test_where_there_is_no_other_group_nothing_is_moved() -> None:
    async with shown("tokens") as (app, pilot, owner):
        board = app.session.board
        board.groups = [one for one in board.groups if one.name == "default"]
        board.tokens = [msgspec.structs.replace(one, group="default") for one in board.tokens]
        await choose(app, pilot, "j", "j", "enter")
        assert words(app)[-1] == "No other group exists. Page 3 (n) creates one."
        assert owner.did == []
