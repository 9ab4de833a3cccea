"""What passes between core and dialects keeps what it is given."""

from gateway.domain.call import FailureKind
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.usage import Usage, as_object

USAGE = Usage(input=9, cached=4, cache_write=1, output=5, reasoning=2)


def test_text_of_an_upstream_cannot_be_read_by_accident() -> None:
    text = UpstreamText("sk-secret")
    failed = AttemptFailed(Failure(kind=FailureKind.RATE, code="c", text=text, sent=False))
    shown = f"{text} {text!r} {failed} {failed!r} {failed.failure!r}"
    assert ("sk-secret" in shown, failed.failure.kind, text.apply(str.upper)) == (False, FailureKind.RATE, "SK-SECRET")


def test_usage_as_clients_read_it() -> None:
    assert as_object(USAGE) == {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
