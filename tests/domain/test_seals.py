"""Seals: wrapped and unwrapped, and told from those that vendors made."""

import pytest

from gateway.domain.answer import PLAIN_SEAL, Seal, SealKind, parse_seal, seal_text


@pytest.mark.parametrize("kind", list(SealKind))
def test_a_seal_comes_back_as_it_was(kind: SealKind) -> None:
    seal = Seal(kind, '{"c1":"ü"}'.encode())
    assert parse_seal(seal_text(seal)) == seal


def test_a_plain_seal_is_its_letter() -> None:
    assert (seal_text(PLAIN_SEAL), parse_seal("tk1.p")) == ("tk1.p", PLAIN_SEAL)


@pytest.mark.parametrize("text", ["", "EqQBCkYIAxgCKkA", "tk", "TK1.p", "tk1.", "tk1.x.e30=", "tk1.g.%%%", "tk1.g.e30"])
def test_what_was_not_made_here_or_is_damaged_is_worth_nothing(text: str) -> None:
    assert parse_seal(text) is None
