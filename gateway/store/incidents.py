"""The incidents of a home, kept in ``incidents.json`` across restarts.

The file is small, replaced as a whole, and not synced: a power cut loses the last seconds. A file that cannot be read
counts as empty. Incidents help the owner; they are no record of money.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.incidents import LIMIT, Incident
from gateway.store import files

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Incident]).decode


class IncidentFile:
    """Read once, written whenever something changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[Incident]:
        """Returns the incidents, oldest first; none if the file is missing or damaged."""
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError), files.open_to_read(self.path) as file:
            return _decode(file.read(4 << 20))[-LIMIT:]  # a larger file is not ours
        return []

    def save(self, incidents: Sequence[Incident]) -> bool:
        """Replace the file. Returns False if the disk refuses."""
        try:
            files.replace(self.path, msgspec.json.format(_encode(incidents)) + b"\n", durable=False)
        except OSError:
            return False
        return True
