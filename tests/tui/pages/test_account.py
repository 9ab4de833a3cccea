from gateway.domain.account import Grant
from gateway.domain.budget import Window
from gateway.domain.errors import Unavailable
from gateway.domain.units import Millis, Nanos
from tests.tui.owner import Owner, press, screen, settle, shown, text_of
from tests.tui.stage import DOLLAR, NOW, account, budget, group, token


async def test_budgets_are_edited() -> None:
    async with shown("account", account_now=account(budgets=[])) as (app, pilot, owner):
        await press(app, pilot, "e", "=day=5", "down", "down", "right")
        assert text_of(app, ".command") == "$ tollkeeper account set --budget day=5 --stop-when-empty"
        await press(app, pilot, "enter")
        budgets = [{"window": "day", "nanos": 5 * DOLLAR, "tokens": None}]
        assert owner.did == [("set_account", {"budgets": budgets, "stop_when_empty": True})]


async def test_a_server_that_returns_errors_is_not_asked_at_every_redraw() -> None:
    class Failing(Owner):
        tries = 0

        async def grants(self) -> list[Grant]:
            self.tries += 1
            raise Unavailable("the store is busy")

    owner = Failing()
    async with shown("account", owner) as (app, pilot, _):
        for _ in range(3):
            await settle(app, pilot)
        assert owner.tries == 1


async def test_each_budget_says_what_it_is_for() -> None:
    owner = Owner(account_now=account(budgets=[budget(1, 10, Window.MONTH), budget(2, 10, Window.EVER)]))
    async with shown("account", owner) as (app, _, _):
        assert [line.split("  ")[0].strip() for line in screen(app).splitlines() if "10%" in line or "20%" in line] == [
            "a month",
            "in all",
        ]


async def test_budgets_of_groups_and_tokens_are_listed_the_most_used_first() -> None:
    owner = Owner(account_now=account(budgets=[budget(1, 100)]), groups_now=[group("home", budgets=[budget(9, 10)])])
    owner.tokens_now = [token(f"t{i:02}", budgets=[budget(i, 20)] if i else []) for i in range(14)]
    async with shown("account", owner, size=(100, 40)) as (app, _, _):
        rows = screen(app).splitlines()
        at = next(i for i, row in enumerate(rows) if "budgets of groups and tokens" in row)
        assert [row.split()[1] for row in rows[at + 1 : at + 4]] == ["home", "t13", "t12"]
        assert rows[at + 14].split()[1] == "t01"


async def test_the_sums_of_the_last_days_follow_what_is_spent() -> None:
    async with shown("account") as (app, pilot, owner):
        times = [NOW]
        app.session.now = lambda: times[0]
        asked = owner.asked.count("summary  day")
        for spent, later, requests in ((19, 1_000, 0), (20, 5_000, 1), (20, 5_000, 0)):
            times[0] = Millis(times[0] + later)
            owner.account_now = account(spent_nanos=Nanos(spent * DOLLAR))
            owner.changed()
            await settle(app, pilot)
            asked += requests
            assert owner.asked.count("summary  day") == asked
