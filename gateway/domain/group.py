"""Group: ties tokens to channels, and decides which models its tokens see and at what price."""

from enum import StrEnum

import msgspec

from gateway.domain.budget import Budget
from gateway.domain.limits import Limits
from gateway.domain.patterns import is_pattern, matches
from gateway.domain.units import MILLION, Factor, Millis


class Policy(StrEnum):
    """Which of a group's channels is tried first."""

    PRIORITY = "priority"
    """The one with the highest priority; weights decide between equal ones."""
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    """The one that was fastest recently."""
    LOCAL = "local"
    """One on this machine or network, while it is not busy."""


class Fallback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The models that may answer when no channel can serve another one."""

    model: str
    """A pattern of public model names."""
    to: tuple[str, ...]
    """Public model names, in the order they are tried."""


class GroupFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the owner edits. A new field is also a ``Field`` of ``GROUP`` in ``domain.fields``."""

    name: str
    models: tuple[str, ...] = ()
    """Patterns of public model names that its tokens may see; empty means all that its channels offer."""
    multiplier: Factor = MILLION
    budgets: tuple[Budget, ...] = ()
    limits: Limits = Limits()
    policy: Policy = Policy.PRIORITY
    sticky: bool = False
    """Whether a conversation stays at the channel and key that answered it, so that prompt caches are used."""
    fallbacks: tuple[Fallback, ...] = ()
    """The fallbacks. For each model, the first one with a matching pattern counts."""
    note: str = ""


def hidden_aliases(group: GroupFields) -> list[str]:
    """Returns the names that have fallbacks although the group does not show them, so that no token can use them."""
    names = (fallback.model for fallback in group.fallbacks if not is_pattern(fallback.model))
    return [name for name in names if not matches(name, group.models)]


class Group(GroupFields, frozen=True, kw_only=True, omit_defaults=True):
    """A group. Channels and tokens refer to it by name, calls and sums by its id, which does not change."""

    id: str = ""
    """The name that it was created with, unless another group had that id."""
    created: Millis = Millis(0)

    def __post_init__(self) -> None:
        if not self.id:
            msgspec.structs.force_setattr(self, "id", self.name)

    @property
    def changed_name(self) -> str:
        """Returns its name if it differs from the id; else an empty text."""
        return "" if self.name == self.id else self.name
