"""``why``: explains how a call would be handled, without making it."""

from collections.abc import Iterator
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.client.decision import decision_rows
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, TOKENS
from gateway.commands.exit_codes import Exit, Quit, exit_for
from gateway.commands.options import TEXT, WholeNumber
from gateway.commands.output import ListColumn, out_view
from gateway.commands.session import run
from gateway.commands.usage import find_call
from gateway.domain.call import CHAT_API, is_call_id
from gateway.domain.diagnosis import Why, request_like
from gateway.domain.errors import NotFound, error_class
from gateway.domain.human_values import state_word
from gateway.domain.money import brief_dollars
from gateway.domain.views import BudgetView

COLUMNS = [
    ListColumn("Channel", lambda r: r.channel, "name"),
    ListColumn("Order", lambda r: r.place, drop=4),
    ListColumn("Weight", lambda r: str(r.weight), "number", drop=2),
    ListColumn("First choice", lambda r: f"{r.chance:.0%}" if r.chance else "", "number", drop=5),
    ListColumn("State", lambda r: state_word(r.state), "state"),
    ListColumn("Running", lambda r: str(r.in_flight), "number", drop=1),
    ListColumn(
        "Model",
        lambda r: r.upstream_model if r.upstream_model in ("", r.model) else f"{r.model} = {r.upstream_model}",
        "name",
        min_width=16,
    ),
    ListColumn("Request", lambda r: r.conversion, drop=3, optional=True),
    ListColumn(
        "Skipped because",
        lambda r: f"not skipped, because no other is left: {r.passed}" if r.last_resort else r.passed,
        below=True,
    ),
]


@click.command(
    cls=Command,
    examples=[
        "tollkeeper why laptop gpt-4o",
        "tollkeeper why laptop gpt-4o --prompt-tokens 20000 --max-tokens 2000 --json",
        "tollkeeper why req_019aa0c3d2f15b8e3c5e4d6a7b",
    ],
)
@click.argument("token", shell_complete=TOKENS)
@click.argument("model", shell_complete=MODELS, required=False)
@click.option("--prompt-tokens", type=WholeNumber(1), help="Input tokens of the call (default: 1000).")
@click.option("--max-tokens", type=WholeNumber(1), help="Limit of output tokens of the call (default: none).")
@click.option("--stream", is_flag=True, help="Explain a streamed call.")
@click.option("--api", type=TEXT, help="The call's API: messages, responses, ... (default: chat).")
def why(token: str, model: str | None, **values: Any) -> None:
    """Explain what would happen to a call with TOKEN (a name or a key) to MODEL, without making it.

    With the id of a call instead of both, or a part of it, or 'last', explain what would happen to the same call now.

    Shows the rule that makes the model visible, the price, the hold, what is left of budgets and limits, and the
    channels in the order they would be tried, with the reason for each one that is skipped. If the call would be
    rejected, the command exits with the call's code.
    """

    async def work(client: ControlClient) -> tuple[Why, str]:
        if model is not None:
            return await client.why(token, model, **values), ""
        try:
            call = await find_call(client, token)
        except NotFound as error:
            if is_call_id(token):
                raise
            raise click.UsageError("Missing argument 'MODEL'.") from error
        if not (call.token_id and call.model):
            raise Quit("the call had no token or no model", Exit.FAILED)
        like, note = request_like(call)
        return await client.why(call.token_id, call.model, **{**values, **like}), note

    answer, note = run(work)
    out_view(answer, [("request", note), *_pairs(answer)], answer.routes, COLUMNS)
    if not answer.works:
        refused = f"a call would be rejected with {answer.status} {answer.code}: {answer.fix or answer.message}"
        raise Quit(refused, exit_for(error_class(answer.status, answer.code), answer.code))


def _pairs(answer: Why) -> Iterator[tuple[str, str]]:
    yield "call", f"{answer.model} with token {answer.token} (group {answer.group})"
    yield "api", answer.api if answer.api != CHAT_API else ""
    for label, parts in decision_rows(answer, lambda budget: [[(_budget(budget), "")]]):
        yield label, "".join(text for text, _ in parts)


def _budget(budget: BudgetView) -> str:
    parts = []
    if budget.nanos is not None:
        left = max(0, budget.nanos - budget.spent_nanos - budget.held_nanos)
        parts.append(f"{brief_dollars(left)} of {brief_dollars(budget.nanos)}")
    if budget.tokens is not None:
        parts.append(f"{max(0, budget.tokens - budget.spent_tokens):,} of {budget.tokens:,} tokens")
    until = f" until {formatting.moment(budget.resets_at_ms)}" if budget.resets_at_ms else ""
    return f"{budget.window.value}: {' and '.join(parts)} left{until}"
