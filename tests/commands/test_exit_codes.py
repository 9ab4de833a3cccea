"""Every failure has its exit code and its one line."""

from collections.abc import Iterator

import click
import pytest

from gateway.commands.exit_codes import Exit, Quit, exit_of, line_of, report
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
from tests.fakes.disk import refuse


def family(kind: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for child in kind.__subclasses__():
        if child.__module__ == GatewayError.__module__:
            yield child
            yield from family(child)


@pytest.mark.parametrize("kind", family(GatewayError))
def test_every_error_of_the_family_has_a_code_of_its_own_kind(kind: type[GatewayError]) -> None:
    bug_or_known = exit_of(kind("x"))
    assert (bug_or_known is Exit.FAILED) == (kind.__name__ == "InternalError")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unavailable("x", code="store_unavailable"), Exit.STORE),
        (GatewayError("x", code="store_busy"), Exit.STORE),
        (Unavailable("x", code="upstream_overloaded"), Exit.UPSTREAM),
        (RateLimited("x", code="upstream_overloaded"), Exit.UPSTREAM),
        (UpstreamError("x", code="upstream_overloaded"), Exit.UPSTREAM),
        (BadRequest("no group 'x'", code="unknown_group"), Exit.NOT_FOUND),
        (BadRequest("x"), Exit.USAGE),
        (BadRequest("no access", code="model_not_found", details={"channel": "openai"}), Exit.UPSTREAM),
        (NotFound("no such model", code="model_not_found"), Exit.NOT_FOUND),
    ],
)
def test_the_code_of_an_error_may_say_more_than_its_kind(error: GatewayError, code: Exit) -> None:
    assert exit_of(error) is code


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


def test_a_failure_that_cannot_be_written_keeps_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click, "echo", refuse)
    assert report(Quit("nothing was changed", Exit.CONFLICT)) is Exit.CONFLICT
