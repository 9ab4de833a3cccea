"""Every failure has its exit code and its one line."""

from collections.abc import Iterator

import click
import pytest

from gateway.commands.exit_codes import MEANINGS, Exit, Quit, exit_of, line_of, report
from gateway.domain.errors import (
    BadRequest,
    GatewayError,
    NotFound,
    QuotaExceeded,
    RateLimited,
    Unavailable,
    UpstreamError,
)
from tests.commands.samples import HOSTILE


def family(kind: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for child in kind.__subclasses__():
        if child.__module__ == GatewayError.__module__:
            yield child
            yield from family(child)


@pytest.mark.parametrize("kind", family(GatewayError))
def test_every_error_of_the_family_has_a_code_of_its_own_kind(kind: type[GatewayError]) -> None:
    bug_or_known = exit_of(kind("x"))
    assert (bug_or_known is Exit.FAILED) == (kind.__name__ == "InternalError")


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)


def test_what_the_store_cannot_do_has_its_own_code() -> None:
    assert exit_of(Unavailable("x", code="store_unavailable")) is Exit.STORE
    assert exit_of(GatewayError("x", code="store_busy")) is Exit.STORE


@pytest.mark.parametrize("kind", [Unavailable, RateLimited, UpstreamError])
def test_what_an_upstream_did_has_its_own_code_whatever_the_status(kind: type[GatewayError]) -> None:
    assert exit_of(kind("x", code="upstream_overloaded")) is Exit.UPSTREAM


def test_a_group_that_does_not_exist_has_the_code_of_what_does_not_exist() -> None:
    assert exit_of(BadRequest("no group 'x'", code="unknown_group")) is Exit.NOT_FOUND
    assert exit_of(BadRequest("x")) is Exit.USAGE


@pytest.mark.parametrize("error", [click.Abort(), KeyboardInterrupt()])
def test_an_interruption_is_one(error: BaseException) -> None:
    assert (exit_of(error), line_of(error)) == (Exit.INTERRUPTED, "tollkeeper: interrupted")


def test_the_line_is_one_line_without_control_characters() -> None:
    line = line_of(QuotaExceeded(f"first\nsecond {HOSTILE}"))
    assert line.startswith("tollkeeper: first second x")
    assert line.isprintable()


def test_a_failing_disk_is_named() -> None:
    assert line_of(OSError(28, "No space left on device", "/x")) == "tollkeeper: No space left on device (/x)"


def test_a_usage_error_points_at_the_help() -> None:
    ctx = click.Context(click.Command("add"), info_name="add")
    line = line_of(click.UsageError("Missing argument 'NAME'.", ctx))
    assert line == "tollkeeper: Missing argument 'NAME'; see 'add --help'"


def test_a_command_may_quit_with_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Quit("nothing was changed", Exit.CONFLICT)) is Exit.CONFLICT
    assert capsys.readouterr().err == "tollkeeper: nothing was changed\n"


def test_a_model_that_an_upstream_does_not_have_is_its_failure() -> None:
    refused = BadRequest("no access", code="model_not_found", details={"channel": "openai"})
    assert exit_of(refused) is Exit.UPSTREAM
    assert exit_of(NotFound("no such model", code="model_not_found")) is Exit.NOT_FOUND
