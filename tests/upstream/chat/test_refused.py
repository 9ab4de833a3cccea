"""What cannot be translated fails as the client's, before anything is sent, with the channel's name."""

from gateway.domain.call import FailureKind
from gateway.upstream.translate.request import refused, unsupported
from gateway.web.errors import status_of
from tests.upstream.makers import channel, error_of


def test_a_fault_becomes_a_failure() -> None:
    failed = error_of(refused(channel(), unsupported("n", "only one\x1b[31m")).failure)
    assert (failed.kind, failed.sent, failed.code, failed.param) == (
        FailureKind.CLIENT,
        False,
        "unsupported_parameter",
        "n",
    )
    assert failed.message.startswith("channel 'up' cannot take this request: n: only one")
    assert "\x1b" not in failed.message


def test_clients_get_status_400() -> None:
    assert status_of(error_of(refused(channel(), unsupported("n", "x")).failure)) == 400
