"""Farewell: how the console was left, as an exit code and one sentence for the shell."""

import msgspec


class Farewell(msgspec.Struct, frozen=True):
    """The result of the app."""

    sentence: str = ""
    code: int = 0


def left(address: str) -> Farewell:
    """The server goes on."""
    where = f"still serving {address}" if address else "the server goes on"
    return Farewell(f"left; {where} ('tollkeeper' comes back, 'tollkeeper stop' ends it)")


def stopped() -> Farewell:
    """The server ended, too."""
    return Farewell("stopped; clients are no longer served ('tollkeeper' starts it again)")


def draining() -> Farewell:
    """The server will end by itself."""
    return Farewell("left; the server ends when its running calls have ended")


def gone() -> Farewell:
    """There was no server to leave behind."""
    return Farewell("left; no server is running ('tollkeeper' starts one)")


def terminated(number: int) -> Farewell:
    """A signal ended the console."""
    return Farewell("", 128 + number)
