"""The incidents of a home, in ``incidents.json``, so that they are known after a restart.

The file is small, replaced as a whole, and not synced: what a power cut takes is the news of the last seconds. A file
that cannot be read counts as empty; the incidents are a help, not a record of money.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.incidents import LIMIT, Incident
from gateway.store import files

SIZE_LIMIT = 4 << 20
"""Bytes; anything larger is not our file."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Incident]).decode


class IncidentFile:
    """Read once, written whenever something changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[Incident]:
        """Oldest first; none if the file is missing or damaged."""
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError), files.open_to_read(self.path) as file:
            return _decode(file.read(SIZE_LIMIT))[-LIMIT:]
        return []

    def save(self, incidents: Sequence[Incident]) -> bool:
        """Replace the file; False if the disk refuses."""
        try:
            files.replace(self.path, msgspec.json.format(_encode(incidents)) + b"\n", durable=False)
        except OSError:
            return False
        return True
