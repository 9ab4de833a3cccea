import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from tui.limits import WITH_QUEUE, reader, said, written

SOME = Limits(rpm=60, tpm=200_000, concurrent=8)


def test_what_is_not_named_has_no_limit() -> None:
    read = reader()
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
    assert written(SOME) == "rpm=60 tpm=200k concurrent=8"
    assert {name: n for name, n in reader()(written(SOME)).items() if n} == {"rpm": 60, "tpm": 200_000, "concurrent": 8}
    assert reader()("queue=0 queue_s=0")["queue_s"] == 0


@pytest.mark.parametrize("text", ["rps=3", "60", "rpm", "rpm=0", "rpm=many", "streams=3"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        reader(WITH_QUEUE)(text)


def test_limits_are_said() -> None:
    assert said(SOME) == "60 calls/min, 200k tok/min, 8 at a time"
    assert said(Limits()) == ""
