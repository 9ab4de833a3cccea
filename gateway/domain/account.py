"""Account: the owner's money. Its balance is derived: granted - spent - held."""

from enum import StrEnum

import msgspec

from gateway.domain.budget import Budget
from gateway.domain.units import Millis, Nanos


class AccountStatus(StrEnum):
    """Whether the account may spend."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class AccountFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the owner edits. A new field is also a ``Field`` of ``ACCOUNT`` in ``domain.fields``."""

    status: AccountStatus = AccountStatus.ACTIVE
    budgets: tuple[Budget, ...] = ()
    stop_when_empty: bool = False
    """Whether a running stream ends when the money is used up, with the ``finish_reason`` ``length``."""


class Account(AccountFields, frozen=True, kw_only=True, omit_defaults=True):
    """The one account that every call is charged to."""

    created: Millis = Millis(0)


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One top-up or, if negative, one correction. Grants are added, never edited."""

    id: str
    nanos: Nanos
    time: Millis
    note: str = ""
