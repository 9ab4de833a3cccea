import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from tui.field_values import WITH_QUEUE, limits_reader, limits_text, limits_words

SOME = Limits(rpm=60, tpm=200_000, concurrent=8)


def test_what_is_not_named_has_no_limit() -> None:
    read = limits_reader()
    assert read("rpm=60, tpm=200k tpd=none") == {
        "rpm": 60,
        "tpm": 200_000,
        "rpd": None,
        "tpd": None,
        "concurrent": None,
        "queue": None,
        "queue_s": None,
        "streams": None,
    }


def test_what_is_written_is_read_again() -> None:
    assert limits_text(SOME) == "rpm=60 tpm=200k concurrent=8"
    assert {name: n for name, n in limits_reader()(limits_text(SOME)).items() if n} == {
        "rpm": 60,
        "tpm": 200_000,
        "concurrent": 8,
    }
    assert limits_reader()("queue=0 queue_s=0")["queue_s"] == 0


@pytest.mark.parametrize("text", ["rps=3", "60", "rpm", "rpm=0", "rpm=many", "streams=3"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        limits_reader(WITH_QUEUE)(text)


def test_limits_are_said() -> None:
    assert limits_words(SOME) == "60 calls/min, 200k tok/min, 8 at a time"
    assert limits_words(Limits()) == ""
