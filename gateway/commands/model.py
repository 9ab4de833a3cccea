"""``model``: the models that clients see."""

import click

from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.completion import TOKENS
from gateway.commands.options import SOME, json_option
from gateway.commands.output import out_list
from gateway.commands.session import run
from gateway.domain.human_values import brief_count
from gateway.domain.money import brief_dollars
from gateway.domain.text import plain, word

COLUMNS = [
    ("Model", lambda m: m.name),
    ("Channels", lambda m: formatting.some(m.channels)),
    ("Groups", lambda m: formatting.some(m.groups)),
    ("Input / output", lambda m: formatting.asked(m.price, m.told)),
    (">Context", lambda m: brief_count(m.context) if m.context else ""),
    (">Calls", lambda m: str(m.calls)),
    (">Spent", lambda m: brief_dollars(m.spent_nanos)),
]


@click.group(cls=Noun, bare="list")
def model() -> None:
    """The models that clients see."""


@model.command("list", examples=["tollkeeper model list --token laptop"])
@click.option("--token", type=SOME, shell_complete=TOKENS, help="Only what this token sees.")
@json_option
def list_models(token: str | None, *, as_json: bool) -> None:
    """List the models, who serves them, who sees them, what they cost."""
    found = run(lambda client: client.models(token))
    nobody = "no channel offers a model; see: tollkeeper channel add --help"
    if token:
        nobody = f"token '{plain(token)}' sees no models; check its group: tollkeeper token show {word(token)}"
    out_list(found, COLUMNS, as_json=as_json, empty=nobody)
