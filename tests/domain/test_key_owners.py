"""Whose a key is or was, and what stands for it where the key itself must not be."""

import hashlib

import pytest
from msgspec.structs import replace

from gateway.domain.channel import Channel, Dialect
from gateway.domain.key_owners import (
    digest,
    find_owner,
    handle,
    handles_in,
    hint,
    retirements,
    shown_part,
    without_keys,
)
from gateway.domain.registry import Change, Registry, with_changes
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, TokenId
from tests.core import kit

KEY = "sk-tk-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2q"
OTHER = "sk-tk-" + "0123456789012345678901234567890123456789012"
VENDOR = "sk-proj-abcdefghijklmnopqrstuvwxyz"
HANDLE = f"sk-tk-aB3d…nO2q#{hashlib.sha256(KEY.encode()).hexdigest()[:8]}"
NOW = Millis(1_763_500_000_000)


def token(key: str = KEY, **more: object) -> Token:
    made = Token(id=TokenId("tok_1"), name="ci", group="default", digest=digest(key), hint=hint(key))
    return replace(made, **more)


def registry(*tokens: Token, channels: tuple[Channel, ...] = ()) -> Registry:
    return kit.registry(*channels, tokens=tokens)


def changed(before: Registry, *changes: Change, at: int = 0) -> Registry:
    after = with_changes(before, changes)
    return with_changes(after, retirements(changes, before, after, Millis(NOW + at)))


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (KEY, HANDLE),
        (f"tok:{KEY} st:err", f"tok:{HANDLE} st:err"),
        (f"OPENAI_API_KEY='{KEY}'", f"OPENAI_API_KEY='{HANDLE}'"),
        (f"Authorization: Bearer {KEY}", f"Authorization: Bearer {HANDLE}"),
        (f"http://127.0.0.1:8655/{KEY}/api", f"http://127.0.0.1:8655/{HANDLE}/api"),
        (f"{KEY}\n", f"{HANDLE}\n"),
        ("laptop", "laptop"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini-2024-07-18"),
        ("accounts/fireworks/models/llama-v3p1-405b-instruct", "accounts/fireworks/models/llama-v3p1-405b-instruct"),
        ("req_01a21bc220c796952f925cfb6c", "req_01a21bc220c796952f925cfb6c"),
        ("tok_3f9a12cd04ab77ef", "tok_3f9a12cd04ab77ef"),
        (HANDLE, HANDLE),
        ("sk-tk-abcd", "sk-tk-abcd"),
    ],
)
def test_a_key_in_a_text_is_replaced_by_its_handle(text: str, hidden: str) -> None:
    assert without_keys(text) == hidden
    assert handles_in(hidden) == ([HANDLE] if HANDLE in hidden else [])


@pytest.mark.parametrize(
    "key",
    [
        VENDOR,
        "sk-ant-api03-abcdefghijklmnopqrst",
        "gsk_abcdefghijklmnopqrst",
        "xai-abcdefghijklmnopqrst",
        "AIzaSyabcdefghijklmnopqrstuvwxyz",
        "hf_abcdefghijklmnopqrst",
        "nvapi-abcdefghijklmnopqrst",
    ],
)
def test_vendors_keys_are_hidden_too(key: str) -> None:
    hidden = without_keys(f"a {key} b")
    assert key not in hidden
    assert shown_part(hidden.split()[1]) == f"…{key[-4:]}"


def test_a_rotated_key_is_remembered_and_found_with_the_time() -> None:
    after = changed(registry(token()), Change("tokens", "tok_1", token(OTHER)))
    former, present = find_owner(after, HANDLE), find_owner(after, handle(hint(OTHER), digest(OTHER)))
    assert former is not None
    assert present is not None
    assert (former.name, former.since, former.removed, present.since) == ("ci", NOW, False, None)
    text = former.text(Millis(NOW + 5_250))
    assert text.startswith("sk-tk-aB3d…nO2q was the key of token 'ci' until 20")
    assert text.endswith("(5 s ago), when it was replaced")
    assert former.text(NOW).endswith("(just now), when it was replaced")


@pytest.mark.parametrize(("shown", "ids"), [("sk-tk-aB3d…nO2q", ["tok_1"]), ("sk-tk-aB3d…nO2q#00000000", [])])
def test_the_part_that_may_be_shown_finds_it_too_but_no_key_that_looks_alike(shown: str, ids: list[str]) -> None:
    found = find_owner(registry(token()), shown)
    assert [one.id for one in (found,) if one] == ids


def test_a_removed_token_is_named_as_it_was_called_then() -> None:
    after = changed(registry(token()), Change("tokens", "tok_1", None))
    found = find_owner(after, HANDLE)
    assert found is not None
    assert found.text(NOW).endswith("when the token was removed")


def test_a_replaced_key_stays_one_after_its_token_was_removed() -> None:
    after = changed(registry(token()), Change("tokens", "tok_1", token(OTHER)))
    found = find_owner(changed(after, Change("tokens", "tok_1", None)), HANDLE)
    assert found is not None
    assert found.text(NOW).endswith("when it was replaced")


def test_a_renamed_token_is_named_as_it_is_called_now() -> None:
    after = changed(registry(token()), Change("tokens", "tok_1", token(OTHER)))
    after = changed(after, Change("tokens", "tok_1", token(OTHER, name="build")))
    found = find_owner(after, HANDLE)
    assert found is not None
    assert found.name == "build"


def test_a_key_that_works_again_is_not_a_former_one() -> None:
    after = changed(registry(token()), Change("tokens", "tok_1", token(OTHER)))
    back = changed(after, Change("tokens", "tok_1", token()))
    assert set(back.retired) == {digest(OTHER)}


def test_the_token_of_a_program_leaves_nothing() -> None:
    assert changed(registry(token(temporary=True)), Change("tokens", "tok_1", None)).retired == {}


def test_only_the_newest_thousand_are_remembered() -> None:
    after = registry(token("key 0"))
    for number in range(1, 1_003):
        after = changed(after, Change("tokens", "tok_1", token(f"key {number}")), at=number)
    assert len(after.retired) == 1_000
    assert digest("key 1") not in after.retired
    assert digest("key 1001") in after.retired


def test_a_channel_s_replaced_key_is_remembered_but_no_reference() -> None:
    channel = Channel(id=ChannelId("ch_1"), name="up", dialect=Dialect.OPENAI, base_url="http://h/v1", key=VENDOR)
    channel = replace(channel, keys=("env:SECOND",))
    after = changed(registry(channels=(channel,)), Change("channels", "ch_1", replace(channel, key="env:X", keys=())))
    assert [(one.noun, one.hint, one.removed) for one in after.retired.values()] == [("channel", "…wxyz", False)]
    assert VENDOR not in str(after.retired)
