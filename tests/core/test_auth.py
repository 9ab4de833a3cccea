"""A key is a token's own, or a pass of a minute; each way to fail has its code."""

from typing import Any

import pytest

from gateway.core import auth
from gateway.core.auth import identify, new_key
from gateway.core.recent_items import RecentItems
from gateway.domain.errors import InvalidToken
from gateway.domain.key_owners import digest
from gateway.domain.token import Token
from gateway.domain.units import Millis, TokenId
from tests.core.clocks import NOON, Mono
from tests.core.kit import catalog, token

KEY = "sk-tk-" + "a" * 43
PASS = "sk-tk-" + "p" * 43


def known(**fields: Any) -> Token:
    return token(digest=digest(KEY), **fields)


def passes(owner: str = "tok_laptop", mono: Mono | None = None) -> RecentItems[TokenId]:
    found = RecentItems[TokenId](mono or Mono(), keep_s=60.0, limit=10)
    found.note(digest(PASS).encode(), TokenId(owner))
    return found


def refusal(key: str, *tokens: Token, now: int = NOON) -> str:
    with pytest.raises(InvalidToken) as caught:
        identify(key, catalog(tokens=tokens), passes(), Millis(now))
    return caught.value.code


def test_a_key_leads_to_its_token() -> None:
    assert identify(KEY, catalog(tokens=(known(), token("other"))), passes(), NOON) == known()


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("", "missing_api_key"),
        ("x", "invalid_api_key"),
        (KEY[:-1], "invalid_api_key"),
        (KEY + "a", "invalid_api_key"),
        (KEY.upper(), "invalid_api_key"),
        ("ключ", "invalid_api_key"),
        ("sk-\udcff\udc80", "invalid_api_key"),
        ("k" * 8192, "invalid_api_key"),
        (digest(KEY), "invalid_api_key"),
    ],
    ids=["none", "short", "cut", "longer", "upper case", "foreign letters", "broken bytes", "huge", "digest"],
)
def test_other_texts_are_refused(key: str, code: str) -> None:
    assert refusal(key, known()) == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"enabled": False}, "token_disabled"),
        ({"expires": NOON}, "token_expired"),
        ({"expires": NOON - 1}, "token_expired"),
        ({"enabled": False, "expires": NOON - 1}, "token_disabled"),
    ],
)
def test_a_token_that_may_not_be_used_now_says_why(fields: dict[str, object], code: str) -> None:
    assert refusal(KEY, known(**fields)) == code


def test_a_token_is_good_until_it_expires() -> None:
    later = Millis(NOON + 1)
    assert identify(KEY, catalog(tokens=(known(expires=later),)), passes(), NOON).expires == later


def test_only_keys_of_our_form_are_kept_in_memory() -> None:
    recalled = auth._cached_digest  # noqa: SLF001 - what is kept is not visible from outside
    recalled.cache_clear()
    for other in ("sk-proj-" + "x" * 41, "sk-tk-" + "x" * 60_000, "sk-ant-x"):
        refusal(other)
    assert recalled.cache_info().currsize == 0
    for _ in range(2):
        refusal(new_key())
        identify(KEY, catalog(tokens=(known(),)), passes(), NOON)
    assert recalled.cache_info().currsize == 3


def test_no_refusal_contains_the_key() -> None:
    for tokens in ((), (known(enabled=False),), (known(expires=NOON),)):
        with pytest.raises(InvalidToken) as caught:
            identify(KEY, catalog(tokens=tokens), passes(), NOON)
        assert "aaaa" not in caught.value.message


def test_a_pass_stands_for_its_token_for_a_minute() -> None:
    mono, found = Mono(), catalog(tokens=(token(),))
    known_passes = passes(mono=mono)
    mono.now += 59.9
    assert identify(PASS, found, known_passes, NOON) == token()
    mono.now += 0.2
    with pytest.raises(InvalidToken, match="not a token"):
        identify(PASS, found, known_passes, NOON)


@pytest.mark.parametrize(("owner", "why"), [("tok_laptop", "disabled"), ("tok_gone", "not a token")])
def test_a_pass_of_a_disabled_or_removed_token_is_refused(owner: str, why: str) -> None:
    with pytest.raises(InvalidToken, match=why):
        identify(PASS, catalog(tokens=(token(enabled=False),)), passes(owner), NOON)
