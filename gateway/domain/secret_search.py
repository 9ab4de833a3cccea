r"""Secret search: finds known secrets in a text, whole or in pieces, in plain or encoded form, in linear time.

A text is searched as it is, and again with its escapes decoded (percent, JSON, HTML) up to ``ROUNDS`` times, so that
``%73k-``, ``\u0073k-`` and ``sk\/`` are found. A secret has several spellings: the value, the decoded value if it looks
escaped itself, its Base64 at each of the three alignments, and its hex digits. Case is ignored, and all whitespace
equals the plus sign that replaces it in forms. A piece is found by blocks of ``BLOCK`` characters: if two strings share
``PIECE`` characters, each contains a whole aligned block of the other.
"""

import html
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gateway.domain.lazy_pattern import lazy_pattern

SHORTEST = 8
"""The minimum length of a value that is searched for. Shorter ones are ordinary words and numbers (``test``, ``EMPTY``,
``1234``), and blanking them would only spoil messages."""
PIECE = 12
"""The minimum length of a piece of a value that is blanked. Shorter values are blanked only as a whole."""
BLOCK = 6
"""The size of a block. A piece has two blocks less one character, so it always contains an aligned block."""
ROUNDS = 3
"""The number of layers of escapes that are decoded."""
BLANK = "…"

blocks_of = re.compile(f".{{{BLOCK}}}", re.DOTALL).findall
"""Returns the aligned blocks of a text, without an incomplete one at the end."""

Span = tuple[int, int]

_JSON = (
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[\\/\"'bfnrt]"
)
_PERCENT = r"%[0-9a-fA-F]{2}"
_HTML = r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,5});"  # larger codes could be no characters
_UNSEEN = (
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\ufffd]"
)
"""Matches characters that are invisible."""
_FURTHER_BLANKS = r"(?<=\s)\s+"
_ESCAPE = lazy_pattern(f"{_JSON}|{_PERCENT}|{_HTML}|{_UNSEEN}|{_FURTHER_BLANKS}")
_BUT_BLANKS = lazy_pattern(f"{_JSON}|{_PERCENT}|{_HTML}|{_UNSEEN}")
_KINDS = tuple(map(re.compile, (_JSON, _PERCENT, _HTML)))
_CONTROLS = frozenset("bfnrt")
_ELLIPSIS = lazy_pattern(r"\*{2,}|\.{2,}|…+|•+|x{4,}")
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_FOLDED = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)} | dict.fromkeys(map(ord, _BLANKS), "+")


class SearchView(msgspec.Struct, frozen=True):
    """A text after some decoding."""

    text: str
    places: Sequence[int]
    """Where each of its characters begins in the original, and the end. What was left out belongs to the one before."""


def views(text: str) -> Iterator[SearchView]:
    """Yields the text as it is, then with one more layer of escapes decoded each time, while it has any."""
    view: SearchView | None = SearchView(text, range(len(text) + 1))
    for _ in range(ROUNDS + 1):
        if view is None:
            return
        yield view
        view = _decode_layer(view)


def has_escapes(text: str) -> bool:
    """Returns whether decoding changes the text, apart from runs of spaces."""
    if text.isascii() and text.isprintable() and not ("%" in text or "\\" in text or "&" in text):
        return False
    return _BUT_BLANKS.search(text) is not None


def _decode_layer(view: SearchView, kind: re.Pattern[str] = _ESCAPE) -> SearchView | None:
    """Returns the text with one layer of escapes decoded; None if it has no escapes."""
    if kind.search(view.text) is None:
        return None
    parts: list[str] = []
    places: list[int] = []
    done = 0
    for match in kind.finditer(view.text):
        begin, end = match.span()
        parts.append(view.text[done:begin])
        places += view.places[done:begin]
        if char := _char(match[0]):
            parts.append(char)
            places.append(view.places[begin])
        done = end
    parts.append(view.text[done:])
    return SearchView("".join(parts), [*places, *view.places[done:]])


def _char(escape: str) -> str:
    """Returns the character that an escape stands for; empty for invisible characters and repeated blanks."""
    kind = escape[0]
    if kind == "%":
        return chr(int(escape[1:], 16))
    if kind == "&":
        return html.unescape(escape)
    if kind != "\\":
        return ""
    if len(escape) == 12:
        return chr(0x10000 + ((int(escape[2:6], 16) - 0xD800) << 10) + int(escape[8:], 16) - 0xDC00)
    if escape[1] in "ux":
        digits = escape[2:]
        return chr(int(digits, 16))
    return "\n" if escape[1] in _CONTROLS else escape[1]


def fold_case(text: str) -> str:
    """Returns the text for comparison, in lower case and with plus signs for spaces. No character moves."""
    return text.lower().replace(" ", "+") if text.isascii() and text.isprintable() else text.translate(_FOLDED)


def spellings(value: str) -> tuple[str, ...]:
    """Returns the spellings of a value, folded: as it is, decoded, in Base64 at any alignment, and in hex digits."""
    raw = value.encode()
    texts = [value, " ".join(value.split()), raw.decode("latin-1"), raw.hex()]
    texts += [view.text for view in views(value)]
    unchanged = SearchView(value, range(len(value) + 1))
    texts += [view.text for kind in _KINDS if (view := _decode_layer(unchanged, kind))]
    for before in range(3):
        start, stop = (8 * before + 5) // 6, 8 * (before + len(raw)) // 6
        shifted = bytes(before) + raw + bytes(2)
        texts += [encode(shifted).decode()[start:stop] for encode in (b64encode, urlsafe_b64encode)]
    return tuple(spelling for spelling in dict.fromkeys(map(fold_case, texts)) if len(spelling) >= SHORTEST)


class Needles(msgspec.Struct, frozen=True):
    """Secrets to search for, prepared by ``needles``."""

    values: frozenset[str] = frozenset()
    long: tuple[str, ...] = ()
    """The spellings that are also found in pieces."""
    short: tuple[str, ...] = ()
    """The spellings that are found only as a whole."""
    blocks: frozenset[str] = frozenset()
    """The aligned blocks of the long spellings."""

    def has_value(self, text: str) -> bool:
        """Returns whether a whole value is in the text, in any spelling."""
        for view in views(text):
            folded = fold_case(view.text)
            if any(spelling in folded for spelling in (*self.long, *self.short)):
                return True
        return False

    def spans(self, text: str) -> list[Span]:
        """Returns where the secrets and their pieces are in the text. The spans may overlap."""
        if not self.values:
            return []
        spans: list[Span] = []
        for view in views(text):
            spans += [(view.places[begin], view.places[end]) for begin, end in self._places(fold_case(view.text))]
        return [*spans, *self._masked_spans(fold_case(text))]

    def _places(self, text: str) -> Iterator[Span]:
        hits = self.blocks.intersection(windows_of(text, BLOCK))
        if hits:
            written = (spelling for spelling in self.long if not hits.isdisjoint(blocks_of(spelling)))
            pieces = {piece for spelling in written for piece in windows_of(spelling, PIECE)}
            yield from (
                (start, start + PIECE) for start, piece in enumerate(windows_of(text, PIECE)) if piece in pieces
            )
        for short in self.short:
            yield from (match.span() for match in re.finditer(re.escape(short), text))

    def _masked_spans(self, text: str) -> Iterator[Span]:
        """Yields where only the beginning and the end of values are shown, as in ``sk-ab...wxyz``."""
        values = [fold_case(value) for value in self.values]
        for number, match in enumerate(_ELLIPSIS.finditer(text)):
            if number >= 32:  # it takes a while
                return
            before, after = text[max(0, match.start() - 64) : match.start()], text[match.end() : match.end() + 64]
            for value in values:
                head, tail = _head(before, value), _tail(after, value)
                if head + tail >= 8:
                    yield match.start() - head, match.end() + tail


def needles(values: Iterable[str]) -> Needles:
    """Returns these secrets, prepared for searches, without those that are too short."""
    long_enough = tuple(dict.fromkeys(value for value in values if len(value) >= SHORTEST))
    all_spellings = [spelling for value in long_enough for spelling in spellings(value)]
    long = tuple(spelling for spelling in all_spellings if len(spelling) >= PIECE)
    return Needles(
        values=frozenset(long_enough),
        long=long,
        short=tuple(spelling for spelling in all_spellings if len(spelling) < PIECE),
        blocks=frozenset(block for spelling in long for block in blocks_of(spelling)),
    )


def _head(before: str, value: str) -> int:
    """Returns the number of characters at the end of ``before`` that are the beginning of a value."""
    start = before.rfind(value[:3])
    return len(before) - start if start >= 0 and value.startswith(before[start:]) else 0


def _tail(after: str, value: str) -> int:
    """Returns the number of characters at the beginning of ``after`` that are the end of a value."""
    end = after.find(value[-3:]) + 3
    return end if end >= 3 and value.endswith(after[:end]) else 0


def windows_of(text: str, size: int) -> Iterator[str]:
    """Yields all substrings of this size."""
    return (text[start : start + size] for start in range(len(text) - size + 1))


def blank_spans(text: str, spans: Iterable[Span]) -> str:
    """Returns the text with an ellipsis in place of each of these spans."""
    parts: list[str] = []
    done = 0
    for begin, end in sorted(spans):
        if end <= done:
            continue
        if begin > done or not parts:
            parts += [text[done:begin], BLANK]
        done = end
    return "".join(parts) + text[done:]
