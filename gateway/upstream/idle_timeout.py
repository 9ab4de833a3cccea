"""When a stream has been silent for too long. Pure; moments are given, in seconds of any steady clock.

Data events are progress. Comments show that somebody is there, so they hold off the idle deadline, but not for ever.
Fragments of an event that does not get finished are neither.
"""

import msgspec

from gateway.domain.channel import Timeouts
from gateway.upstream.adapter import Signs


class Due(msgspec.Struct, frozen=True):
    """The next deadline: its name, its length in seconds, and the moment it passes."""

    name: str
    seconds: float
    at: float


class IdleTimeout:
    """The deadlines of one stream. Until the first event the head deadline runs on, from ``began``."""

    __slots__ = ("_comments", "_event_at", "_events", "_sign_at", "_signs", "_timeouts")

    def __init__(self, signs: Signs, timeouts: Timeouts, began: float) -> None:
        self._signs = signs
        self._timeouts = timeouts
        self._events = signs.events
        self._comments = signs.comments
        self._event_at = self._sign_at = began

    def look(self, now: float) -> None:
        """Notes whether there were signs of life since the last look."""
        if self._signs.events != self._events:
            self._events = self._signs.events
            self._event_at = self._sign_at = now
        if self._signs.comments != self._comments:
            self._comments = self._signs.comments
            self._sign_at = now

    def skip(self, seconds: float) -> None:
        """So long nobody looked for signs of life, for reasons that are not the upstream's."""
        self._event_at += seconds
        self._sign_at += seconds

    def due(self) -> Due:
        """The deadline that passes first if nothing more comes."""
        timeouts = self._timeouts
        name, seconds = ("idle", timeouts.idle) if self._events else ("first event", timeouts.head)
        silent = Due(name, seconds, self._sign_at + seconds)
        chatting = Due("comments only", timeouts.comments, self._event_at + timeouts.comments)
        return silent if silent.at <= chatting.at else chatting
