"""``model``: lists and shows the models that clients see."""

from collections.abc import Iterator

import click

from gateway.client.control import ControlClient
from gateway.client.receipt import price_parts
from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.completion import MODELS, TOKENS
from gateway.commands.options import TEXT
from gateway.commands.output import ListColumn, notify, out_list, out_view
from gateway.commands.session import run
from gateway.domain.account import AccountStatus
from gateway.domain.human_values import brief_context, brief_count, state_word
from gateway.domain.limit_kinds import limits_text
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.price import UPSTREAM
from gateway.domain.text import plain
from gateway.domain.upstream_views import ModelDetail
from gateway.domain.views import ModelView

COLUMNS = [
    ListColumn("Model", lambda m: m.name, "name", min_width=16),
    ListColumn("Channels", lambda m: f"as {m.stands_for}" if m.stands_for else formatting.brief_names(m.channels)),
    ListColumn("Groups", lambda m: formatting.brief_names(m.groups), drop=3),
    ListColumn("Input / output", formatting.model_price, "whole"),
    ListColumn("Context", lambda m: brief_count(m.context) if m.context else "", "number", drop=1),
    ListColumn("Calls", lambda m: f"{m.calls:,}", "number"),
    ListColumn("Spent", lambda m: brief_dollars(m.spent_nanos), "number", drop=2),
]


@click.group(cls=Noun, bare="list")
def model() -> None:
    """The models that clients see."""


@model.command("list", examples=["tollkeeper model list --token laptop"])
@click.option(
    "--token",
    type=TEXT,
    shell_complete=TOKENS,
    help="List only the models that this token sees, with the prices that it pays and its own calls.",
)
def list_models(token: str | None) -> None:
    """List the models: which channels serve them, which groups see them, and what they cost."""

    async def work(client: ControlClient) -> tuple[list[ModelView], str, str]:
        models, empty = await client.models(token), "no channel offers a model; see: tollkeeper channel add --help"
        if token and not models:
            empty = await formatting.no_models_reason(client, await client.token(token))
        return models, empty, (await client.account()).status

    models, empty, status = run(work)
    out_list(models, COLUMNS, empty=empty)
    if status == AccountStatus.SUSPENDED:
        notify("note: the account is suspended, so all calls are rejected: tollkeeper account set --status active")


ROUTE_COLUMNS = [
    ListColumn("Group", lambda r: r.group or "none", "name"),
    ListColumn("Order", lambda r: str(r.order) if r.order else "not tried", "number"),
    ListColumn("Channel", lambda r: r.channel, "name"),
    ListColumn("Because", lambda r: r.place),
    ListColumn("Weight", lambda r: str(r.weight), "number", drop=4),
    ListColumn("State", lambda r: f"{state_word(r.state)}: {plain(r.reason, 60)}".rstrip(": "), "state"),
    ListColumn("Upstream model", lambda r: r.upstream_model, "name", min_width=16),
    ListColumn("Context", lambda r: brief_context(r.context, r.context_source), "number", drop=3),
    ListColumn("Output", lambda r: brief_count(r.max_output) if r.max_output else "", "number", drop=2),
    ListColumn("Limits", lambda r: limits_text(r.limits), drop=1),
]


@model.command("show", examples=["tollkeeper model show gpt-4o"])
@click.argument("name", metavar="MODEL", shell_complete=MODELS)
def show_model(name: str) -> None:
    """Show one model: the channels that serve it, in order, who sees it, what it costs, and its context length."""
    detail = run(lambda client: client.model(name))
    out_view(detail, _pairs(detail), detail.routes, ROUTE_COLUMNS)


def _pairs(detail: ModelDetail) -> Iterator[tuple[str, str]]:
    parts = price_parts(detail.price, detail.name, refused=detail.refuses_unpriced)
    yield "model", detail.name
    yield "price", "".join(text for text, _ in parts)
    published = formatting.published_price(detail)
    yield "listed", f"{published} by the upstream's list" if published else ""
    source = "the upstream's list" if detail.context_source == UPSTREAM else detail.context_source
    context = f"{detail.context:,} tokens{f' by {source}' if source else ''}" if detail.context else "not known"
    yield "context", context
    yield "longest answer", f"{detail.max_output:,} tokens" if detail.max_output else "not known"
    yield "groups", ", ".join(detail.groups) or "none: no token can see it"
    for group, models in detail.fallbacks.items():
        if models:
            has_routes = any(route.group == group for route in detail.routes)
            order = "after it" if has_routes else "instead of it"
            yield f"answers {order} in {plain(group, 30)}", ", ".join(models)
    yield "tokens", ", ".join(detail.tokens) or "none: no token sees it"
    yield "calls", f"{detail.calls:,}"
    yield "spent", dollars(detail.spent_nanos)
