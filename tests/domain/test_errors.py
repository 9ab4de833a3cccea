"""One family of errors, and what stands for each of them in HTTP."""

import pytest

from gateway.domain import errors
from gateway.domain.errors import BadRequest, GatewayError, InternalError, error_class
from tests.fakes.failures import failed

MEMBERS = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, GatewayError)]


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_has_a_code_of_its_own(member: type[GatewayError]) -> None:
    error = member("what failed")
    assert (str(error), error.message, error.code) == ("what failed", "what failed", member.default_code)
    assert (error.param, error.retry_after_s, error.details) == (None, None, {})


def test_codes_are_distinguished() -> None:
    codes = [member.default_code for member in MEMBERS if member is not GatewayError]
    assert len(set(codes)) == len(codes)


def test_errors_keep_their_facts() -> None:
    error = BadRequest("bad", code="too_deep", param="messages", retry_after_s=5, details={"limit": 64})
    assert (error.code, error.param, error.retry_after_s, error.details) == ("too_deep", "messages", 5, {"limit": 64})


def test_details_are_the_errors_own() -> None:
    given = {"a": 1}
    error = BadRequest("bad", details=given)
    error.details["b"] = 2
    assert given == {"a": 1}


@pytest.mark.parametrize("member", [member for member in MEMBERS if member is not GatewayError])
def test_a_class_is_found_again_by_its_code(member: type[GatewayError]) -> None:
    assert error_class(member.default_status, member.default_code) is member
    assert {error_class(500, code) for code in member.other_codes} <= {member}


@pytest.mark.parametrize(
    ("status", "member"),
    [
        (400, errors.BadRequest),
        (401, errors.InvalidToken),
        (402, errors.UpstreamError),
        (403, errors.RequestRefused),
        (404, errors.NotFound),
        (405, errors.BadRequest),
        (409, errors.Conflict),
        (413, errors.TooLarge),
        (415, errors.RequestRefused),
        (421, errors.RequestRefused),
        (429, errors.RateLimited),
        (500, errors.InternalError),
        (502, errors.UpstreamError),
        (503, errors.Unavailable),
        (504, errors.UpstreamTimeout),
        (418, errors.GatewayError),
    ],
)
def test_an_unknown_code_leaves_it_to_the_status(status: int, member: type[GatewayError]) -> None:
    assert error_class(status, "never_heard_of") is member


def test_a_code_may_have_a_status_and_a_type_of_its_own() -> None:
    error = failed(429, "upstream_rate_limited")
    assert (error.http_status, error.http_type) == (429, "rate_limit_error")
    assert (InternalError("x").http_status, InternalError("x").http_type) == (500, "server_error")
