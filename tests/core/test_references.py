import pytest

from gateway.core.config_export import hidden, restored, variables
from gateway.domain.channel import Channel
from tests.core.kit import channel


def with_secrets(name: str = "openai") -> Channel:
    return channel(
        name,
        key="sk-first",
        keys=("env:MINE", "sk-third"),
        proxy="http://me:secret@proxy:3128",
        headers={"X-Auth": "secret", "X-Title": "open", "X-Ref": "env:OTHER"},
    )


def test_secrets_become_references_and_nothing_else_changes() -> None:
    found = hidden(with_secrets())
    assert found.all_keys == ("env:TOLLKEEPER_KEY_OPENAI", "env:MINE", "env:TOLLKEEPER_KEY_OPENAI__3")
    assert found.headers["X-Title"] == "open"
    assert found.headers["X-Ref"] == "env:OTHER"
    assert found.headers["X-Auth"].startswith("env:TOLLKEEPER_KEY_OPENAI__X_AUTH_")
    assert not any(
        "sk-" in text or "secret" in text for text in (*found.all_keys, *found.headers.values(), found.proxy)
    )


def test_a_proxy_without_a_password_is_no_secret() -> None:
    assert hidden(channel(proxy="http://proxy:3128")).proxy == "http://proxy:3128"


def test_the_variables_are_told() -> None:
    assert len(variables(with_secrets())) == 4
    assert variables(channel("local", key="")) == []


def test_the_same_home_has_its_secrets_back() -> None:
    own = with_secrets()
    assert restored(hidden(own), own) == own


def test_another_home_keeps_the_references() -> None:
    shown = hidden(with_secrets())
    assert restored(shown, channel("openai", key="sk-another")).all_keys == ("sk-another", *shown.keys)
    assert restored(shown, channel("openai", key="")) == shown
    assert hidden(shown) == shown


@pytest.mark.parametrize(
    ("one", "other"),
    [("a b", "a-b"), ("a_b", "a-b"), ("a-2", "a"), ("A", "a"), ("ä", "ö"), ("a_2", "a"), ("a" * 50, "a" * 51)],
)
def test_no_two_secrets_have_the_same_variable(one: str, other: str) -> None:
    names = [name for made in (one, other) for name in variables(channel(made, key="sk-1", keys=("sk-2", "sk-3")))]
    assert len(set(names)) == 6
    assert all(name.replace("_", "").isalnum() and name.isascii() and name.isupper() for name in names)
