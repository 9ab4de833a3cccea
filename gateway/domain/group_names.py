"""Group names: which group had which name, and when. A call keeps its group's name of that time; a group keeps its
calls.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from gateway.domain.call import Running
from gateway.domain.group import Group
from gateway.domain.units import Millis

_NEVER = Millis(1 << 62)
"""A moment after every call."""


class NameSpan(msgspec.Struct, frozen=True):
    """A name of a group and its time: calls that began in ``since <= ts < until``."""

    name: str
    since: Millis = msgspec.field(name="since_ms")
    until: Millis | None = msgspec.field(name="until_ms")
    """None: no other group had the name later."""

    def has(self, call: Running) -> bool:
        """Returns whether the call began in it."""
        return call.group == self.name and self.since <= call.ts and (self.until is None or call.ts < self.until)


def name_spans(groups: Mapping[str, Group]) -> dict[str, list[NameSpan]]:
    """Returns which group had which name when, by the groups' present names, for groups that a rename concerns.

    No call counts for two groups: a name belongs to the group that had it until that was renamed, then to the next one.
    The last group that had it keeps it, even if the clock was set back since.
    """
    claims: dict[str, list[tuple[Millis, Millis, str]]] = {}
    for group in groups.values():
        for former in group.former:
            claims.setdefault(former.name, []).append((former.until, former.since, group.name))
    for group in groups.values():
        if group.since or group.name in claims:
            claims.setdefault(group.name, []).append((_NEVER, group.since, group.name))
    spans: dict[str, list[NameSpan]] = {}
    for name, holders in claims.items():
        found: list[tuple[str, NameSpan]] = []
        for until, since, holder in sorted(holders):
            if found and found[-1][0] == holder:
                begin = found.pop()[1].since  # it got the name back, and nobody else had it
            else:
                begin = max(since, found[-1][1].until or since) if found else since
            found.append((holder, NameSpan(name, begin, until)))
        holder, last = found.pop()
        for one, span in (*found, (holder, msgspec.structs.replace(last, until=None))):
            spans.setdefault(one, []).append(span)
    return spans


class NameShare(NamedTuple):
    """Some of the calls under a name, and their group: those that began in ``since <= ts < until``."""

    since: int
    until: int
    group: str


def name_shares(names: Mapping[str, Sequence[NameSpan]]) -> dict[str, list[NameShare]]:
    """Returns which group owns the calls under each name, in order of time.

    Calls that no existing group owns belong to the name itself: that of a removed group, or of the one that has it now.
    """
    owned: dict[str, list[NameShare]] = {}
    for group, spans in names.items():
        for one in spans:
            until = _NEVER if one.until is None else one.until
            owned.setdefault(one.name, []).append(NameShare(one.since, until, group))
    return {name: _without_gaps(name, sorted(shares)) for name, shares in owned.items()}


def _without_gaps(name: str, shares: Sequence[NameShare]) -> list[NameShare]:
    whole: list[NameShare] = []

    def add(until: int, group: str) -> None:
        done = whole[-1].until if whole else 0
        if until > done and whole and whole[-1].group == group:
            whole[-1] = whole[-1]._replace(until=until)
        elif until > done:  # else the clock was set back in between
            whole.append(NameShare(done, until, group))

    for share in shares:
        if share.since < share.until:
            add(share.since, name)
            add(share.until, share.group)
    add(_NEVER, name)
    return whole
