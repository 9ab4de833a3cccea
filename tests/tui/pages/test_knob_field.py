import pytest

from gateway.domain.errors import BadRequest
from tui.pages.channel_fields import mock_command, mock_field, read_mock_options

KNOBS = {"latency": 200, "bad_json": True, "retry_after": "Wed, 21 Oct 2026"}


@pytest.mark.parametrize("wait", ["Wed, 21 Oct 2026", "5", 'a "while"', "x=y", "soon", "true"])
def test_what_is_written_reads_back_and_has_no_command(wait: str) -> None:
    knobs = KNOBS | {"retry_after": wait}
    assert read_mock_options(mock_field(knobs).value) == knobs
    assert mock_command(mock_field(knobs).value, mock_field(knobs).value) == ""


def test_what_changed_is_in_the_command() -> None:
    assert mock_field(KNOBS).value == 'latency=200 bad_json=true retry_after="Wed, 21 Oct 2026"'
    assert mock_command("latency=300 retry_after='in a while'", mock_field(KNOBS).value) == (
        " --option latency=300 --option 'retry_after=in a while' --option bad_json=none"
    )


@pytest.mark.parametrize("text", ["latency", "=2", "latency=", 'latency="2'])
def test_half_a_knob_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        read_mock_options(text)
