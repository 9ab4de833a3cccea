"""Inflate: bodies that come compressed, unpacked in bounded pieces, so that a bomb is noticed and not exploded."""

import zlib

PIECE = 256 * 1024
"""Bytes unpacked at once."""


class Inflater:
    """One compressed body. ``gzip`` may have several members; ``deflate`` comes with or without zlib's frame."""

    def __init__(self, coding: str) -> None:
        """Raises ValueError for a coding that was never asked for."""
        if coding not in ("gzip", "x-gzip", "deflate"):
            msg = f"it is packed as '{coding[:20]}', which was not asked for"
            raise ValueError(msg)
        self._gzip = coding != "deflate"
        self._packed = b""
        self._unpacker: zlib._Decompress | None = None

    @property
    def pending(self) -> bool:
        """Whether more can be unpacked without more coming."""
        return bool(self._packed)

    def feed(self, data: bytes) -> bytes:
        """Unpack at most one piece. Raises ValueError when it is damaged."""
        self._packed += data
        if not self._packed:
            return b""
        try:
            return self._unpack()
        except zlib.error as exc:
            msg = "its packed body is damaged"
            raise ValueError(msg) from exc

    def end(self) -> None:
        """Nothing more comes. Raises ValueError if something was still to come."""
        if self._packed or self._unpacker is not None:
            msg = "its packed body ends too early"
            raise ValueError(msg)

    def _unpack(self) -> bytes:
        if self._unpacker is None:
            self._unpacker = zlib.decompressobj(self._window())
        out = self._unpacker.decompress(self._packed, PIECE)
        if self._unpacker.eof:  # another member may follow
            self._packed = self._unpacker.unused_data
            self._unpacker = None
        else:
            self._packed = self._unpacker.unconsumed_tail
        return out

    def _window(self) -> int:
        """Zlib's frame begins with a byte whose low half is 8; without one the data is bare (RFC 9110, 8.4.1.2)."""
        if self._gzip:
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if self._packed[0] & 0x0F == 8 else -zlib.MAX_WBITS
