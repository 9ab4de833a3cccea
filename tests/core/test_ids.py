"""Ids sort by time; keys cannot be guessed and are kept only as digests."""

import hashlib
import re

from gateway.core.auth import new_call_id, new_id, new_key
from gateway.domain.key_owners import digest, hint
from gateway.domain.units import Millis


def test_call_ids_sort_by_time() -> None:
    moments = [Millis(m) for m in (0, 1, 999, 1_793_534_400_000, 1_793_534_400_001)]
    ids = [new_call_id(m) for m in moments]
    assert ids == sorted(ids)


def test_a_call_id_has_its_promised_form() -> None:
    found = new_call_id(Millis(1_793_534_400_000))
    assert re.fullmatch(r"req_[0-9a-f]{26}", found)
    assert int(found[4:16], 16) == 1_793_534_400_000


def test_ids_of_one_moment_differ() -> None:
    assert len({new_call_id(Millis(5)) for _ in range(1000)}) == 1000


def test_an_entitys_id_names_its_kind() -> None:
    assert re.fullmatch(r"tok_[0-9a-f]{16}", new_id("tok"))


def test_a_key_has_its_promised_form_and_is_never_the_same() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"sk-tk-[0-9A-Za-z]{43}", key) for key in keys)


def test_a_digest_is_sha_256_of_the_whole_key() -> None:
    assert digest("sk-tk-x") == hashlib.sha256(b"sk-tk-x").hexdigest()


def test_a_key_of_broken_bytes_has_a_digest_too() -> None:
    assert digest("sk-\udcff") == hashlib.sha256(b"sk-\xff").hexdigest()


def test_a_hint_shows_ten_and_four_characters() -> None:
    assert hint("sk-tk-abcdefghijklmnop") == "sk-tk-abcd…mnop"
