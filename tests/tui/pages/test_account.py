from gateway.domain.units import Nanos
from tests.tui.owner import Owner, screen, shown
from tests.tui.stage import account


async def test_the_purse_is_told_with_how_long_it_lasts() -> None:
    async with shown("account") as (app, _, _):
        text = screen(app)
        assert "available  $11.92   $0.08 held by running calls" in text
        assert "balance    $12.00   $30.00 granted, $18.00 spent" in text
        assert "41% $16.4/40   lasts at this pace" in text


async def test_grants_are_listed_the_newest_first() -> None:
    async with shown("account") as (app, _, _):
        lines = [line for line in screen(app).splitlines() if "+$" in line]
        assert [line.split()[0] for line in lines] == ["+$20.00", "+$10.00"]
        assert "a first amount" in lines[1]


async def test_a_suspended_and_empty_account_is_loud() -> None:
    owner = Owner()
    owner.account_now = account(status="suspended", available_nanos=Nanos(0), budgets=[])
    owner.grants_now = []
    async with shown("account", owner) as (app, _, _):
        assert "✗ suspended   every call is refused; space resumes it" in screen(app)
        assert "none: only the balance is a limit; e sets some" in screen(app)
        assert "nothing was put in yet" in screen(app)
