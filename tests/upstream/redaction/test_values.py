"""What of a channel is secret: keys, header values and proxy passwords, as they are sent; what is public is not."""

from base64 import b64encode
from typing import Any

import pytest

from gateway.upstream.redaction.redaction import keys_of, secrets_of
from tests.upstream.makers import channel

ENVIRON = {"UP_KEY": " sk-from-environment ", "UP_HEADER": "header-from-environment", "UP_PROXY": "http://u:p4ss@h:1"}


def secrets(**fields: Any) -> set[str]:
    return set(secrets_of(channel(**fields), ENVIRON))


def test_all_keys_references_resolved() -> None:
    fields: dict[str, Any] = {"key": "Bearer sk-one", "keys": ("env:UP_KEY", "sk-three", "env:NO_SUCH")}
    assert secrets(**fields) == {"sk-one", "sk-from-environment", "sk-three"}
    assert keys_of(channel(**fields), ENVIRON) == {"sk-one", "sk-from-environment", "sk-three"}


def test_header_values_and_what_they_carry() -> None:
    basic = "Basic " + b64encode(b"anna:pass word").decode()
    found = secrets(headers={"x-pass": "Bearer abc123", "x-env": "env:UP_HEADER", "x-basic": basic})
    assert found == {
        *("Bearer abc123", "abc123", "header-from-environment"),
        *(basic, basic.partition(" ")[2], "anna:pass word", "pass word"),
    }


PUBLIC = ("anthropic-beta", "Anthropic-Version", "HTTP-Referer", "x-title", "accept")
PLACEHOLDERS = ("lm-studio", "sk-no-key-required", "Not-Needed", "placeholder", "")


@pytest.mark.parametrize(
    "fields", [*({"headers": {name: "a-public-value"}} for name in PUBLIC), *({"key": key} for key in PLACEHOLDERS)]
)
def test_versions_names_of_programs_and_placeholders_are_public(fields: dict[str, Any]) -> None:
    assert secrets(**fields) == set()


def test_a_basic_header_that_is_none() -> None:
    assert secrets(headers={"x-basic": "Basic ***"}) == {"Basic ***", "***"}


def test_a_proxys_password_in_all_its_forms() -> None:
    sent = b64encode(b"anna:p@ss/1").decode()
    assert secrets(proxy="http://anna:p%40ss%2F1@host:3128") == {
        *("anna:p%40ss%2F1", "anna:p@ss/1", "p%40ss%2F1", "p@ss/1", sent)
    }
    assert "p4ss" in secrets(proxy="env:UP_PROXY")
    assert secrets(proxy="http://host:3128") == set()
    assert secrets(proxy="env:UP_KEY") == set()
