"""Which calls repeat an earlier one."""

from msgspec.structs import replace

from gateway.domain.call import Record
from gateway.domain.repeated_calls import earlier_attempts, repeated_calls
from gateway.domain.units import CallId, Millis, TokenId
from gateway.domain.views import CallView, call_view


def call(number: int, *, retry: int = 0, status: int = 503, model: str = "m", second: int | None = None) -> CallView:
    second = number if second is None else second
    return call_view(
        Record(
            id=CallId(f"req_{number:03}"),
            ts=Millis(second * 1_000),
            ms=Millis(500),
            token=TokenId("tok_1"),
            app="OpenAI",
            model=model,
            status=status,
            retry=retry,
        )
    )


FIRST, SECOND, THIRD = call(1), call(2, retry=1), call(5, retry=2, status=200)


def test_a_retry_has_the_call_before_it() -> None:
    assert repeated_calls([THIRD, SECOND, FIRST]) == {"req_002": "req_001", "req_005": "req_002"}
    assert [one.id for one in earlier_attempts(THIRD, [SECOND, FIRST])] == ["req_002", "req_001"]


def test_calls_at_once_have_their_own_retries() -> None:
    calls = [call(1), call(2, second=1), call(3, retry=1), call(4, retry=1, second=3)]
    assert repeated_calls(calls) == {"req_003": "req_002", "req_004": "req_001"}


def test_what_differs_succeeded_is_long_ago_or_not_over_is_not_repeated() -> None:
    for other in (
        call(1, model="n"),
        call(1, status=200),
        replace(FIRST, token_id="tok_2"),
        replace(FIRST, app="curl"),
        replace(FIRST, api="messages"),
        replace(FIRST, duration_ms=60_000),
    ):
        assert repeated_calls([SECOND, other]) == {}
    assert repeated_calls([FIRST, call(900, retry=1)]) == {}
    assert earlier_attempts(THIRD, []) == []
