"""The settings of a new home."""

from gateway.domain.settings import Durability, Settings


def test_nobody_from_outside_is_let_in_by_default() -> None:
    settings = Settings()
    assert (settings.hosts, settings.origins) == ((), ())


def test_unpriced_models_are_let_through_by_default() -> None:
    assert (Settings().refuse_unpriced, Settings().durability) == (False, Durability.INTERVAL)
