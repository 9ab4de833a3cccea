"""Group names: which group had which name when. Calls keep the group's name of their time; a group keeps its calls."""

from collections.abc import Mapping

import msgspec

from gateway.domain.call import Running
from gateway.domain.group import Group
from gateway.domain.units import Millis

_NEVER = Millis(1 << 62)


class NameSpan(msgspec.Struct, frozen=True):
    """A name of a group, and when it had it: calls that began in ``since <= ts < until``."""

    name: str
    since: Millis = msgspec.field(name="since_ms")
    until: Millis | None = msgspec.field(name="until_ms")
    """None: no other group had it later."""

    def has(self, call: Running) -> bool:
        """Whether the call began in it."""
        return call.group == self.name and self.since <= call.ts and (self.until is None or call.ts < self.until)


def name_spans(groups: Mapping[str, Group]) -> dict[str, list[NameSpan]]:
    """When which group had which name, by the groups' names now; of those that have nothing to do with a renaming none.

    No call counts for two groups: a name belongs to the one that had it until that was renamed, then to the next one.
    The last one that had it keeps it, also if the clock was set back since.
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
