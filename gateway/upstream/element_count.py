"""How many elements a large answer has, counted before it is decoded: 37 MB of ``{},`` would take a gigabyte.

Elements are counted by their commas. Long texts contain many commas, too, so a body with many of them is looked at more
closely, without its strings. Log probabilities have more elements than the rest of an answer together; where they
pass unopened, they do not count.
"""

from collections.abc import Iterator

import msgspec

from gateway.domain.long_strings import holds
from gateway.upstream.rawjson import NULL

MOST_ELEMENTS = 1_000_000
"""Decoded they take some 250 MiB at the worst."""
MOST_UNOPENED = 4_000_000
"""Elements of log probabilities: thirty thousand tokens with twenty alternatives each."""
SMALL = 1 << 20
"""Bytes of a text that is not counted."""
STEP = 64 << 10
"""Bytes that are looked at together: they are split at every quote."""
_QUOTES = 4000
"""Quotes that are searched for one by one."""
_WINDOW = 64
"""Bytes in front of a quote in which backslashes are counted."""
_BACKSLASH = ord("\\")


class TooManyElements(ValueError):
    """An answer is not decoded."""


class _ProbedChoice(msgspec.Struct, gc=False):
    logprobs: msgspec.Raw = NULL


class _Probed(msgspec.Struct, gc=False):
    choices: list[_ProbedChoice] = []


_PROBED = msgspec.json.Decoder(_Probed)


def refuse_many_elements(text: bytes, *, opens_logprobs: bool = True) -> None:
    """Raises TooManyElements if there are more than any real answer has."""
    if len(text) <= SMALL or not _has_more(text, MOST_ELEMENTS):
        return
    most = MOST_ELEMENTS if opens_logprobs or not holds(text, b'"logprobs"') else MOST_UNOPENED
    found = count_elements(text, most)
    if MOST_ELEMENTS < found <= most:
        found -= _unopened(text)
    if found > MOST_ELEMENTS:
        msg = f"it has more than {MOST_ELEMENTS:,} elements"
        raise TooManyElements(msg)


def count_elements(text: bytes, most: int) -> int:
    """Commas outside strings; as soon as there are more than ``most`` the rest is not counted."""
    count = 0
    for part in _structure(text):
        count += part.count(b",")
        if count > most:
            break
    return count


def _has_more(text: bytes, most: int) -> bool:
    """Whether there are more commas than that, without those in the first strings: these may be very long."""
    count, rest = _past_strings(text)
    for start in range(rest, len(text), STEP):
        count += text.count(b",", start, start + STEP)
        if count > most:
            return True
    return False


def _past_strings(text: bytes) -> tuple[int, int]:
    """Commas outside of the first strings, and the position behind them.

    A search for the end of a long string takes a tenth of the time that counting in it takes.
    """
    count = at = outside = 0
    inside = False
    for _ in range(_QUOTES):
        quote = text.find(b'"', at)
        if quote < 0:
            break
        if not inside:
            count += text.count(b",", outside, quote)
            inside = True
        else:
            before = text[max(0, quote - _WINDOW) : quote]
            backslashes = len(before) - len(before.rstrip(b"\\"))
            if backslashes == _WINDOW:
                break
            inside, outside = backslashes % 2 == 1, quote + 1
        at = quote + 1
    return count, at if inside else outside


def _structure(text: bytes) -> Iterator[bytes]:
    """The text outside of strings, step by step."""
    inside = start = 0
    while start < len(text):
        end = start + STEP
        while end < len(text) and text[end - 1] == _BACKSLASH:  # no escape is cut
            end += 1
        part = text[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = part.split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= len(pieces) + 1 & 1
        start = end


def _unopened(text: bytes) -> int:
    """Elements of the log probabilities of all choices."""
    try:
        choices = _PROBED.decode(text).choices
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(count_elements(bytes(choice.logprobs), MOST_UNOPENED) for choice in choices if choice.logprobs != NULL)
