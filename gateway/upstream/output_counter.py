"""The output of an answer so far, so that a call has an output count even if the upstream reports none."""

from gateway.domain.estimate import estimate

PIECES = 256
"""Texts kept apart before they are joined: a stream brings thousands of a few letters each."""

BLOCK = 65_536
"""Characters kept before they are folded into a number: the memory of a tally is bounded."""

FOLD_SAMPLES = 2
"""Windows that are looked at when a block is folded: a tenth of the work, and rarely needed in the end."""

TOOL_TOKENS = 4
"""What every tool call costs beside its name and arguments."""

CHARS_PER_TOKEN = 4
"""For the cheap count: progress is shown, nothing is booked by it."""


class OutputCounter:
    """Collects text, reasoning and tool calls as they pass. Adding costs nearly nothing; ``tokens`` does the work."""

    __slots__ = ("_folded", "_pending", "_pieces", "_texts", "chars", "tools")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._texts: list[str] = []
        self._pending = 0
        self._folded = 0
        self.chars = 0
        """Characters so far."""
        self.tools = 0
        """Tool calls so far."""

    def add(self, text: str) -> None:
        """Content, reasoning, a tool's name or arguments, a refusal."""
        size = len(text)
        self.chars += size
        self._pending += size
        self._pieces.append(text)
        if len(self._pieces) >= PIECES:
            self._texts.append("".join(self._pieces))
            self._pieces.clear()
        if self._pending > BLOCK:
            self._folded += estimate(self._text(), samples=FOLD_SAMPLES)
            self._texts.clear()
            self._pieces.clear()
            self._pending = 0

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
        """The estimate, in tokens. It may be asked at any time, at up to some milliseconds."""
        return self._folded + estimate(self._text()) + TOOL_TOKENS * self.tools

    def _text(self) -> str:
        return "".join(self._texts) + "".join(self._pieces)
