"""The account's defaults are those of a new home."""

from gateway.domain.account import Account, AccountStatus, Grant
from gateway.domain.units import Millis, Nanos


def test_a_new_account_may_spend_and_stops_nothing() -> None:
    account = Account()
    assert (account.status, account.budgets, account.stop_when_empty) == (AccountStatus.ACTIVE, (), False)


def test_a_correction_is_a_negative_grant() -> None:
    assert Grant(id="gr_1", nanos=Nanos(-5), time=Millis(0)).nanos == -5
