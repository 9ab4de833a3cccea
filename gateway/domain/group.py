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
    since: Millis = Millis(0)
    """Calls that began earlier under this name are not the group's; nor, if another group got the name, those that
    began at ``until`` or later. Where the records of that time are deleted, its whole hour, or day, counts for the
    earlier group.
    """
    until: Millis


UPLOAD_MS = 60_000
"""A call begins with its upload, and gets the name that its group has at the end of that."""


def hidden_aliases(group: GroupFields) -> list[str]:
    """Names of fallbacks, no patterns, that the group itself does not show: no token can use them."""
    names = (fallback.model for fallback in group.fallbacks if not is_pattern(fallback.model))
    return [name for name in names if not matches(name, group.models)]


class Group(GroupFields, frozen=True, kw_only=True, omit_defaults=True):
    """Known by its name: channels and tokens refer to it by that."""

    created: Millis = Millis(0)
    former: tuple[FormerName, ...] = ()
    """In the order in which it had them: what calls used under them counts for its budgets and sums, too."""
    since: Millis = Millis(0)
    """Calls that began earlier under its name are not the group's; 0: all are that no other group has."""

    @property
    def names(self) -> frozenset[str]:
        """Its name and those that it had before."""
        return frozenset((self.name, *(former.name for former in self.former)))


def as_successor(group: Group, old: Group, groups: Mapping[str, Group], now: Millis) -> Group:
    """The group that gets the place of one with another name, and whose calls those of that one are from now on."""
    former = FormerName(name=old.name, since=old.since, until=Millis(now + 1))
    since = begin_of(group.name, groups) or Millis(now - UPLOAD_MS)
    return msgspec.structs.replace(group, former=(*old.former, former), since=since)


def begin_of(name: str, groups: Mapping[str, Group]) -> Millis:
    """``since`` of a group that gets this name: the calls of the one that had it before stay with that; 0: no such."""
    untils = (former.until for group in groups.values() for former in group.former if former.name == name)
    return max(untils, default=Millis(0))
