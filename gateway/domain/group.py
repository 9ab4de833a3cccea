"""Group: ties tokens to channels and decides which models its tokens see, at which multiplier."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from gateway.domain.budget import Budget
from gateway.domain.limits import Limits
from gateway.domain.patterns import is_pattern, matches
from gateway.domain.units import MILLION, Millis


class Policy(StrEnum):
    """Which of a group's channels is tried first."""

    PRIORITY = "priority"
    """The one with the highest priority; weights decide among equals."""
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    """As measured recently."""
    LOCAL = "local"
    """A server on this machine or network, while it is not busy."""


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
    """Whether a conversation stays at the channel and key that answered it, so that prompt caches are used again."""
    fallbacks: tuple[Fallback, ...] = ()
    """The fallbacks; the first one whose pattern matches a model counts."""
    note: str = ""


class FormerName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that a group had."""

    name: str
    since: Millis = Millis(0)
    """Calls that began earlier under this name are not the group's; nor, if another group got the name, those that
    began at ``until`` or later. If the records of that time are deleted, its whole hour, or day, counts for the earlier
    group."""
    until: Millis


def hidden_aliases(group: GroupFields) -> list[str]:
    """Returns names of fallbacks that the group itself does not show: no token can use them."""
    names = (fallback.model for fallback in group.fallbacks if not is_pattern(fallback.model))
    return [name for name in names if not matches(name, group.models)]


class Group(GroupFields, frozen=True, kw_only=True, omit_defaults=True):
    """A group, known by its name, which channels and tokens refer to."""

    created: Millis = Millis(0)
    former: tuple[FormerName, ...] = ()
    """Its former names, in order: what calls used under them counts for its budgets and sums too."""
    since: Millis = Millis(0)
    """Calls that began earlier under its name are not the group's; 0: all are, unless another group has them."""

    @property
    def names(self) -> frozenset[str]:
        """Returns its name and its former names."""
        return frozenset((self.name, *(former.name for former in self.former)))


def as_successor(group: Group, old: Group, groups: Mapping[str, Group], now: Millis) -> Group:
    """Returns the group that succeeds one with another name, and owns its calls from now on."""
    former = FormerName(name=old.name, since=old.since, until=Millis(now + 1))
    # a call begins with its upload, and gets the name that its group has at the end of that
    since = begin_of(group.name, groups) or Millis(now - 60_000)
    return msgspec.structs.replace(group, former=(*old.former, former), since=since)


def begin_of(name: str, groups: Mapping[str, Group]) -> Millis:
    """Returns ``since`` for a group that gets this name: earlier calls stay with its former group; 0: it had none."""
    untils = (former.until for group in groups.values() for former in group.former if former.name == name)
    return max(untils, default=Millis(0))
