"""Exit codes: what they mean, and the line on stderr that reports a failure."""

from contextlib import suppress
from enum import IntEnum
from typing import Self

import click

from gateway.domain import errors
from gateway.domain.errors import GatewayError
from gateway.domain.key_owners import without_keys
from gateway.domain.text import plain

PROGRAM = "tollkeeper"


class Exit(IntEnum):
    """The exit codes of all commands, with their meanings."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        exit_code = int.__new__(cls, code)
        exit_code._value_, exit_code.meaning = code, meaning
        return exit_code

    OK = 0, "done"
    FAILED = 1, "any other failure, or not confirmed"
    USAGE = 2, "invalid command line or value"
    NOT_FOUND = 3, "something that was named does not exist"
    CONFLICT = 4, "the name or the port is in use, or something still refers to it"
    UNREACHABLE = 5, "no server is running, or it cannot accept the call"
    QUOTA = 6, "out of money, over budget or rate-limited"
    UPSTREAM = 7, "a channel failed, or no channel can serve the model"
    STORE = 8, "the data folder is in use, damaged or not writable, or its sums do not match"
    TOKEN = 9, "the token was rejected"
    INTERRUPTED = 130, "interrupted"


_BY_KIND: tuple[tuple[type[GatewayError] | tuple[type[GatewayError], ...], Exit], ...] = (
    (errors.BadRequest, Exit.USAGE),
    (errors.NotFound, Exit.NOT_FOUND),
    (errors.Conflict, Exit.CONFLICT),
    (errors.InvalidToken, Exit.TOKEN),
    ((errors.QuotaExceeded, errors.RateLimited), Exit.QUOTA),
    ((errors.NoChannel, errors.UpstreamError), Exit.UPSTREAM),
    (errors.Unavailable, Exit.UNREACHABLE),
)


class Quit(click.ClickException):
    """Raised to end a command with a line on stderr and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click declares it for the class; here each instance has its own


def exit_of(error: BaseException) -> Exit:
    """Returns the exit code of a failure."""
    if isinstance(error, click.ClickException):
        return next(code for code in Exit if code == error.exit_code)
    if isinstance(error, click.Abort | KeyboardInterrupt | EOFError):
        return Exit.INTERRUPTED
    if isinstance(error, GatewayError):
        is_upstreams = error.code == "model_not_found" and bool(error.details.get("channel"))
        return Exit.UPSTREAM if is_upstreams else exit_for(type(error), error.code)
    return Exit.FAILED


def exit_for(kind: type[GatewayError], code: str) -> Exit:
    """Returns the exit code for an error of this class with this code."""
    if code.startswith("store_"):
        return Exit.STORE
    if code == "unknown_group":  # a bad request in HTTP, because a field names it
        return Exit.NOT_FOUND
    if code.startswith("upstream_"):  # whatever the class is: the upstream failed, not this gateway
        return Exit.UPSTREAM
    return next((exit_code for parents, exit_code in _BY_KIND if issubclass(kind, parents)), Exit.FAILED)


def line_of(error: BaseException) -> str:
    """Returns the line that says what failed and what to do, without keys."""
    return f"{PROGRAM}: {plain(without_keys(' '.join(_message_of(error).split())), limit=2_000)}"


def report(error: BaseException) -> Exit:
    """Print a failure on stderr, or the help if no command is named. Returns the exit code."""
    text = error.format_message() if isinstance(error, click.exceptions.NoArgsIsHelpError) else line_of(error)
    with suppress(OSError):  # the log of a server may be on a full disk
        click.echo(text, err=True)
    return exit_of(error)


def _message_of(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        return _usage_message(error)
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, GatewayError):
        return error.message
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{place}"
    if exit_of(error) is Exit.INTERRUPTED:
        return "interrupted"
    return f"{type(error).__name__}: {error}"


def _usage_message(error: click.UsageError) -> str:
    """Returns the message, with the command that shows the help."""
    message = error.format_message().removesuffix(".")
    if error.ctx is None:
        return message
    command = f"'{error.ctx.command_path} --help'"
    return f"{message} See {command}" if message.endswith(("?", "?)")) else f"{message}; see {command}"
