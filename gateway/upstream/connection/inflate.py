"""Inflate: bodies that come compressed, unpacked in bounded pieces, so that a bomb is noticed and not exploded."""

import zlib

PIECE = 32 * 1024
"""Bytes unpacked at once."""
STEP = 16 * 1024
"""Bytes given to zlib at once: of what a piece leaves of them it makes a copy."""


class Inflater:
    """One compressed body. ``gzip`` may have several members; ``deflate`` comes with or without zlib's frame."""

    def __init__(self, coding: str) -> None:
        """Raises ValueError for a coding that was never asked for."""
        if coding not in ("gzip", "x-gzip", "deflate"):
            msg = f"it is packed as '{coding[:20]}', which was not asked for"
            raise ValueError(msg)
        self._gzip = coding != "deflate"
        self._packed = b""
        self._at = 0
        """So much of it is unpacked."""
        self._unpacker: zlib._Decompress | None = None

    @property
    def pending(self) -> bool:
        """Whether more can be unpacked without more coming."""
        return self._at < len(self._packed)

    def feed(self, data: bytes) -> bytes:
        """Unpack at most one piece. Raises ValueError when it is damaged."""
        if data:
            self._packed = self._packed[self._at :] + data
            self._at = 0
        try:
            while self.pending:
                if out := self._unpack():
                    return out
        except zlib.error as exc:
            msg = "its packed body is damaged"
            raise ValueError(msg) from exc
        return b""

    def end(self) -> None:
        """Nothing more comes. Raises ValueError if something was still to come."""
        if self.pending or self._unpacker is not None:
            msg = "its packed body ends too early"
            raise ValueError(msg)

    def _unpack(self) -> bytes:
        """What the next step brings, which may be nothing."""
        step = self._packed[self._at : self._at + STEP]
        if self._unpacker is None:
            self._unpacker = zlib.decompressobj(self._window(step[0]))
        out = self._unpacker.decompress(step, PIECE)
        if self._unpacker.eof:  # another member may follow
            left = self._unpacker.unused_data
            self._unpacker = None
        else:
            left = self._unpacker.unconsumed_tail
        self._at += len(step) - len(left)
        if not self.pending:
            self._packed, self._at = b"", 0
        return out

    def _window(self, first: int) -> int:
        """Zlib's frame begins with a byte whose low half is 8; without one the data is bare (RFC 9110, 8.4.1.2)."""
        if self._gzip:
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if first & 0x0F == 8 else -zlib.MAX_WBITS
