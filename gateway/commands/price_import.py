"""Price import: what vendors charge, from the list inside this program and from the upstreams' own; with a preview."""

import click

from gateway.commands import show
from gateway.commands.base import Command
from gateway.commands.complete import CHANNELS, MODELS, several
from gateway.commands.options import SOME, json_option, names, naming
from gateway.commands.output import out_list, words
from gateway.commands.session import run
from gateway.domain.offered import PriceProposal
from gateway.domain.text import plain

COLUMNS = [
    ("Model", lambda p: p.model),
    ("Change", lambda p: p.change),
    ("Now", lambda p: show.price(p.now)),
    ("Listed", lambda p: show.price(p.listed) + (f" +{p.listed.tiers} for longer input" if p.listed.tiers else "")),
    ("Source", lambda p: show.source(p.listed)),
    ("Channel", lambda p: p.channel),
    ("Note", lambda p: _note(p)),  # noqa: PLW0108 - it is below
]


@click.command(
    "import",
    cls=Command,
    examples=[
        "tollkeeper price import --dry-run",
        "tollkeeper price import --provider openrouter --model gpt-4o,gpt-4o-mini",
    ],
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    *("--provider", "--channel", "channel"),
    metavar="NAME",
    type=SOME,
    shell_complete=CHANNELS,
    help="Of one channel or vendor.",
)
@click.option(
    "--model",
    "models",
    type=naming("leave the option out for all"),
    multiple=True,
    shell_complete=several(MODELS),
    help="Of these models: a,b.",
)
@click.option("--accept", is_flag=True, help="Also steep rises and what looks like another unit.")
@json_option
def import_prices(*, dry_run: bool, channel: str | None, models: tuple[str, ...], accept: bool, as_json: bool) -> None:
    """Take over what vendors charge for the models that are offered. Prices set by hand stay; nothing is fetched."""
    wanted = names(models) if models else None
    found = run(lambda client: client.import_prices(wanted, channel=channel or "", apply=not dry_run, accept=accept))
    out_list(found, COLUMNS, as_json=as_json, empty="no list knows a price for any of these models")
    for line in _summary(found, dry_run=dry_run, accept=accept):
        words(line)


def _note(proposal: PriceProposal) -> str:
    """What becomes of it."""
    if proposal.kept and proposal.differs:
        return "yours stays"
    if proposal.applied:
        return "taken over"
    return plain(proposal.guard) if proposal.differs else ""


def _summary(found: list[PriceProposal], *, dry_run: bool, accept: bool) -> list[str]:
    wanted = [p for p in found if p.differs and not p.kept]
    left = 0 if accept else sum(bool(p.guard) for p in wanted)
    taken = len(wanted) - left
    lines = [f"{'would be ' if dry_run else ''}taken over: {show.count(taken, 'price')}"]
    if left:
        lines.append(f"left as they are: {show.count(left, 'price')}; look at the notes, --accept takes them over, too")
    if any(p.listed.stale for p in found):
        lines.append("note: the list is old; a newer tollkeeper has a newer one")
    return lines
