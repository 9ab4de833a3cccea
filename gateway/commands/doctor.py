"""``doctor``: finds the first thing that keeps calls from working, and says what to do about it."""

import os
from collections.abc import Iterator

import click

from gateway.client.apps import key_in
from gateway.client.control import ControlClient
from gateway.client.doctor import Case, examine
from gateway.client.test_call import TESTED
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, TOKENS
from gateway.commands.exit_codes import Quit, exit_for
from gateway.commands.options import TEXT
from gateway.commands.output import out, out_json_list, pad, wants_json
from gateway.commands.session import current_config, run, server_imports
from gateway.domain.errors import GatewayError, error_class
from gateway.domain.text import plain
from gateway.domain.token import PREFIX
from gateway.domain.views import Step

WIDTH = 22
"""The width of the column of names. Longer names are cut."""

COLOURS = {"ok": "green", "fail": "red", "warning": "yellow", "skipped": "bright_black"}


@click.command(
    cls=Command,
    examples=[
        "tollkeeper doctor",
        "tollkeeper doctor --token laptop --model gpt-4o",
        "tollkeeper doctor --api messages",
    ],
)
@click.option(
    "--token",
    type=TEXT,
    shell_complete=TOKENS,
    help="Name or key of the token to test (default: TOLLKEEPER_TOKEN, OPENAI_API_KEY, else the token used last).",
)
@click.option(
    "--model",
    shell_complete=MODELS,
    default="",
    help="The model to test (default: the first one that the token sees, embedding models last).",
)
@click.option(
    "--api",
    type=click.Choice(sorted(TESTED)),
    help="The API of the test calls (default: chat; embeddings for embedding models).",
)
def doctor(token: str | None, model: str, api: str | None) -> None:
    """Find the first thing that keeps calls from working.

    It checks a call step by step, up to the first step that fails: does the gateway answer, is the token accepted, does
    the model exist, does the token's group include it, is there enough quota, is a channel ready? The last step makes
    two tiny real calls, or one for an embedding model. Then it checks every channel (name, certificate and key; free of
    charge) and the machine: port, folder, disk, clock, books and proxy variables. Every failed line says what to do.

    With --token or --model, only that call decides the exit code; other problems are warnings.
    """
    token_ref = token or key_in(os.environ)
    key, name = (token_ref, "") if token_ref.startswith(PREFIX) else ("", token_ref)

    async def work(client: ControlClient) -> list[Step]:
        steps = []
        case = Case(client, key=key, token_ref=name, model=model, api=api or "")
        async for step in examine(case, one_call=bool(token or model)):
            steps.append(step)
            if not wants_json():
                _print(step)
        return steps

    try:
        steps = run(work)
    except GatewayError as error:
        if not error.code.startswith("store_"):
            raise
        steps = list(_steps_without_store(error))
        for step in [] if wants_json() else steps:
            _print(step)
    if wants_json():
        out_json_list(steps)
    for step in steps:
        if step.result == "fail":
            fix = f"; {step.fix}" if wants_json() and step.fix else ""  # else a line above has it
            code = exit_for(error_class(step.status, step.code), step.code)
            raise Quit(f"the check '{step.name}' failed: {step.text}{fix}", code)


def _steps_without_store(error: GatewayError) -> Iterator[Step]:
    """Yields a failed step for a store that cannot be opened, then checks of the machine, which may show the reason."""
    with server_imports():
        # it loads the whole server, which commands need only without a running one
        from gateway.server import machine_checks

    yield Step(
        name="the store opens", result="fail", text=plain(error.message, 500), code=error.code, status=error.http_status
    )
    yield from machine_checks(current_config())


def _print(step: Step) -> None:
    result = click.style(f"{step.result:<7}", fg=COLOURS.get(step.result))
    out(f"{result}  {pad(plain(step.name, WIDTH), WIDTH)}  {plain(step.text, limit=500)}")
    if step.fix:
        out(f"{'':<{WIDTH + 11}}→ {plain(step.fix, limit=500)}")
