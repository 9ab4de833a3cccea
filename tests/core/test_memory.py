"""What this process has of the machine's memory."""

import sys
from pathlib import Path

import pytest

from gateway.core import memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_what_is_taken_is_seen() -> None:
    before = memory.resident()
    ballast = bytearray(b"x") * (64 << 20)
    assert 48 << 20 < memory.resident() - before < 160 << 20
    assert len(ballast) == 64 << 20


def test_nothing_is_told_where_the_system_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATM", Path("/nowhere"))
    assert memory.resident() == 0
