"""One family of errors, which know nothing of HTTP."""

import pytest

from gateway.domain import errors
from gateway.domain.errors import BadRequest, GatewayError, UpstreamError, UpstreamTimeout

MEMBERS = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, GatewayError)]


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_has_a_code_of_its_own(member: type[GatewayError]) -> None:
    error = member("what failed")
    assert (str(error), error.message, error.code) == ("what failed", "what failed", member.default_code)
    assert (error.param, error.retry_after_s, error.details) == (None, None, {})


def test_codes_are_told_apart() -> None:
    codes = [member.default_code for member in MEMBERS if member is not GatewayError]
    assert len(set(codes)) == len(codes)


def test_what_is_given_is_kept() -> None:
    error = BadRequest("bad", code="too_deep", param="messages", retry_after_s=5, details={"limit": 64})
    assert (error.code, error.param, error.retry_after_s, error.details) == ("too_deep", "messages", 5, {"limit": 64})


def test_details_are_the_errors_own() -> None:
    given = {"a": 1}
    error = BadRequest("bad", details=given)
    error.details["b"] = 2
    assert given == {"a": 1}


def test_an_upstreams_error_keeps_its_status() -> None:
    assert (UpstreamError("x", status=503).status, UpstreamTimeout("x").status) == (503, 0)
