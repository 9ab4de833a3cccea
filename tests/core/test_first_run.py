"""An empty home answers a call at once."""

import pytest

from gateway.core.auth import new_key
from gateway.core.catalog import Catalog
from gateway.core.first_run import DEMO_MODELS, FIRST_GRANT, first_changes, first_token, is_fresh
from gateway.domain.account import Account
from gateway.domain.channel import Dialect
from gateway.domain.key_owners import digest
from gateway.domain.registry import Registry, with_changes
from gateway.domain.settings import Settings
from gateway.domain.units import Millis
from tests.core.kit import channel, registry, token


def begun() -> Registry:
    """The configuration after its beginnings, with a first token."""
    empty = Registry(account=Account(), settings=Settings(), tokens={}, groups={}, channels={}, prices={}, grants={})
    return with_changes(empty, [*first_changes(empty, Millis(5)), first_token(new_key(), "tok_1", Millis(5))])


def test_the_first_token_sees_the_demo_models() -> None:
    found = begun()
    (one,) = found.tokens.values()
    assert tuple(Catalog(found, Millis(0)).visible(one)) == DEMO_MODELS


def test_there_are_ten_dollars() -> None:
    assert begun().granted == FIRST_GRANT == 10_000_000_000


def test_the_demo_needs_no_network_and_steps_back_behind_real_channels() -> None:
    (demo,) = begun().channels.values()
    assert (demo.dialect, demo.base_url, demo.priority) == (Dialect.MOCK, "", -100)


def test_every_demo_model_has_a_price() -> None:
    assert set(begun().prices) == set(DEMO_MODELS)
    assert not any(price.free for price in begun().prices.values())


def test_only_the_digest_of_the_first_key_is_kept() -> None:
    change = first_token("sk-tk-secret-secret-secret", "tok_1", Millis(5))
    assert digest("sk-tk-secret-secret-secret") in repr(change)
    assert "secret-secret" not in repr(change)


@pytest.mark.parametrize(
    ("found", "fresh"),
    [
        (registry(groups=(), granted=0), False),
        (registry(channel(), groups=()), False),
        (registry(tokens=(token(),), groups=()), False),
        (registry(), False),
    ],
)
def test_what_was_ever_configured_is_not_fresh(found: Registry, fresh: bool) -> None:
    assert is_fresh(found) is fresh


def test_nothing_at_all_is_fresh() -> None:
    found = registry(groups=())
    assert is_fresh(Registry(**{**{f: getattr(found, f) for f in found.__struct_fields__}, "grants": {}}))
