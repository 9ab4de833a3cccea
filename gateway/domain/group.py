"""Group: ties tokens to channels and decides which models its tokens see, at which multiplier."""

from enum import StrEnum

import msgspec

from gateway.domain.budget import Budget
from gateway.domain.limits import Limits
from gateway.domain.patterns import is_pattern, matches
from gateway.domain.units import MILLION, Millis


class Policy(StrEnum):
    """Which of a group's channels is tried first."""

    PRIORITY = "priority"
    """The one of the highest priority; weights draw among equals."""
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    """As measured recently."""
    LOCAL = "local"
    """A server of this machine or network, while it is not busy."""


class Fallback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which other models may answer for one."""

    model: str
    """A pattern of public model names."""
    to: tuple[str, ...]
    """Public model names, the first choice first."""


class GroupFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the owner edits. A new field is also a ``Field`` of ``GROUP`` in ``domain.fields``."""

    name: str
    models: tuple[str, ...] = ()
    """Patterns of public model names its tokens may see; empty means all its channels offer."""
    multiplier: int = MILLION
    """Price multiplier in parts per million; 1_000_000 is times one."""
    budgets: tuple[Budget, ...] = ()
    limits: Limits = Limits()
    policy: Policy = Policy.PRIORITY
    sticky: bool = False
    """A conversation stays at the channel and the key that answered it, so that prompt caches are used again."""
    fallbacks: tuple[Fallback, ...] = ()
    """Of those whose pattern fits a model the first one counts."""
    note: str = ""


class FormerName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that a group had."""

    name: str
    until: Millis
    """Calls that began later under this name are not the group's."""


def hidden_aliases(group: GroupFields) -> list[str]:
    """Names of fallbacks, no patterns, that the group itself does not show: no token can use them."""
    names = (fallback.model for fallback in group.fallbacks if not is_pattern(fallback.model))
    return [name for name in names if not matches(name, group.models)]


class Group(GroupFields, frozen=True, kw_only=True, omit_defaults=True):
    """Known by its name: channels and tokens refer to it by that."""

    created: Millis = Millis(0)
    former: tuple[FormerName, ...] = ()
    """In the order in which it had them: what calls used under them counts for its budgets and sums, too."""

    @property
    def names(self) -> frozenset[str]:
        """Its name and those that it had before."""
        return frozenset((self.name, *(former.name for former in self.former)))


def as_successor(group: Group, old: Group, now: Millis) -> Group:
    """The group that gets the place of one with another name, and whose calls those of that one are from now on."""
    return msgspec.structs.replace(group, former=(*old.former, FormerName(name=old.name, until=now)))
