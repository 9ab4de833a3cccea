"""Units are plain integers and strings at run time."""

from gateway.domain.units import DOLLAR, MILLION, CallId, Millis, Nanos


def test_a_dollar_is_a_thousand_million_nano_dollars() -> None:
    assert DOLLAR == 1000 * MILLION


def test_units_cost_nothing_at_run_time() -> None:
    assert (type(Nanos(5)), type(Millis(5)), type(CallId("x"))) == (int, int, str)
