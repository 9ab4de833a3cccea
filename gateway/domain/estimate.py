"""Estimate: about how many tokens a text has, for calls whose upstream reports none.

Instead of a tokenizer, weights of pieces are summed up, and long texts are sampled. The weights are fitted to o200k
on English, code and some thirty other languages; the mean error is 6 %, the worst about 20 %.
"""

import math

import msgspec

from gateway.domain.lazy_pattern import lazy_pattern

_PIECE = lazy_pattern(
    r"([A-Za-z\u00C0-\u024F\u1E00-\u1EFF]+)"  # 1 word
    r"|([0-9]+)"  # 2 digits
    r"|(\s*\n\s*)"  # 3 line break with its indentation
    r"|([ \t]{2,})"  # 4 run of blanks
    r"|([!-/:-@\[-`{-~]+)"  # 5 punctuation
    r"|([\u3400-\u9FFF\u3040-\u30FF\uAC00-\uD7AF]+)"  # 6 Chinese, Japanese, Korean
    r"|([\u0370-\u052F]+)"  # 7 Greek, Cyrillic
    r"|([\u0590-\u08FF]+)"  # 8 Hebrew, Arabic
    r"|([\u0900-\u0EFF\u1780-\u17FF]+)"  # 9 Indic, Thai, Khmer
    r"|(\S)"  # 10 the rest: emoji and the like
)

_WEIGHTS = (
    (0.0, 0.0),  # groups count from 1
    (0.2, 0.27),  # words with accents; plain ones below
    (1.68, 0.0),  # digits come in threes, below
    (1.84, 0.0),
    (2.2, 0.0),
    (0.44, 0.13),
    (0.0, 0.61),
    (1.41, 0.08),
    (0.53, 0.21),
    (0.0, 0.33),
    (0.0, 1.37),
)
"""The tokens of a piece by its group in the pattern: a base value, and a value per character."""

WINDOW = 2048
"""The number of characters in one sample of a long text."""


def estimate(text: str, *, samples: int = 16) -> int:
    """Returns about how many tokens the text has; at least 1 unless it is empty. It takes at most 6 ms."""
    size = len(text)
    if not size:
        return 0
    if size <= 2 * WINDOW * samples:
        return max(1, round(_sample_tokens(text)))
    step = (size - WINDOW) / (samples - 1)
    starts = [int(number * step) for number in range(samples)]
    sampled = sum(_sample_tokens(text[start : start + WINDOW]) for start in starts)
    return round(sampled * size / (WINDOW * samples))


def _sample_tokens(text: str) -> float:
    total = 0.0
    for match in _PIECE.finditer(text):
        group = match.lastindex or 0
        length = match.end() - match.start()
        if group == 1 and match.group().isascii():
            total += 0.93 + (0.19 * (length - 6) if length > 6 else 0.0)
        elif group == 2:
            total += 1.68 + 0.3 * ((length - 1) // 3)
        else:
            base, per_char = _WEIGHTS[group]
            total += base + per_char * length
    return total


class Calibration:
    """How far estimates are off for each channel and model, learned from calls with reported usage."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, str], float] = {}

    def learn(self, channel: str, model: str, *, reported: int, estimated: int) -> None:
        """Learn from a call whose tokens are known. Small ones are ignored."""
        if reported < 16 or estimated < 16:
            return
        ratio = self._ratios.get((channel, model), 1.0)
        ratio = 0.9 * ratio + 0.1 * (reported / estimated)
        self._ratios[channel, model] = min(2.0, max(0.5, ratio))

    def apply(self, channel: str, model: str, estimated: int) -> int:
        """Returns the estimate corrected by what was learned."""
        return math.ceil(estimated * self._ratios.get((channel, model), 1.0))


class OutputCounter(msgspec.Struct, eq=False):
    """Counts text, reasoning and tool calls as they pass. Adding costs almost nothing; ``tokens`` does the work."""

    chars: int = 0
    """The number of characters so far."""
    calls: int = 0
    """The number of tool calls and media so far."""
    _pieces: list[str] = []
    """Texts that are not estimated yet."""
    _fold_at: int = 65_536
    """As soon as the pieces have this many characters, they are estimated and forgotten."""
    _folded_tokens: int = 0

    def add(self, text: str) -> None:
        """Add content, reasoning, a tool's name or arguments, or a refusal."""
        self.chars += len(text)
        self._pieces.append(text)
        if self.chars > self._fold_at:  # a rough estimate, because the number is rarely needed
            self._folded_tokens += estimate("".join(self._pieces), samples=2)
            self._pieces = []
            self._fold_at = self.chars + 65_536
        elif len(self._pieces) >= 256:  # a stream has thousands, of a few letters each
            self._pieces = ["".join(self._pieces)]

    @property
    def empty(self) -> bool:
        """Returns whether nothing came."""
        return not (self.chars or self.calls)

    @property
    def rough_tokens(self) -> int:
        """Returns a rough number of tokens to show progress, four characters each. It takes no time."""
        return -(-self.chars // 4)

    def tokens(self) -> int:
        """Returns the estimate in tokens, with four for each tool call. It may take some milliseconds."""
        return self._folded_tokens + estimate("".join(self._pieces)) + 4 * self.calls
