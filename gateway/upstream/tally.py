"""Tally: what an answer has brought so far, so that a call has an output count even if the upstream reports none."""

from gateway.domain.estimate import estimate

BLOCK = 8192
"""Characters kept before they are folded into a number: the memory of a tally is bounded."""

TOOL_TOKENS = 4
"""What every tool call costs beside its name and arguments."""

CHARS_PER_TOKEN = 4
"""For the cheap count: progress is shown, nothing is booked by it."""


class Tally:
    """Counts text, reasoning and tool calls as they pass. Adding is cheap; ``tokens`` does the work."""

    __slots__ = ("_folded", "_parts", "_pending", "chars", "tools")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._pending = 0
        self._folded = 0
        self.chars = 0
        """Characters so far."""
        self.tools = 0
        """Tool calls so far."""

    def add(self, text: str) -> None:
        """Content, reasoning, a tool's name or arguments, a refusal."""
        size = len(text)
        self._parts.append(text)
        self.chars += size
        self._pending += size
        if self._pending > BLOCK:
            self._fold()

    def tool(self) -> None:
        """One more tool call began."""
        self.tools += 1

    @property
    def empty(self) -> bool:
        """Whether nothing came."""
        return not (self.chars or self.tools)

    @property
    def cheap(self) -> int:
        """A rough count of tokens that costs nothing."""
        return -(-self.chars // CHARS_PER_TOKEN)

    def tokens(self) -> int:
        """The estimate, in tokens. It may be asked at any time."""
        return self._folded + estimate("".join(self._parts)) + TOOL_TOKENS * self.tools

    def _fold(self) -> None:
        self._folded += estimate("".join(self._parts))
        self._parts.clear()
        self._pending = 0
