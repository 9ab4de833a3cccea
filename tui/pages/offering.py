"""Offering: which models a channel offers, as it is typed (names and patterns) and as it is chosen from a list."""

import shlex
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import Served
from gateway.domain.errors import BadRequest
from gateway.domain.patterns import NOT, is_pattern
from gateway.domain.upstream_views import ListedModel, ListingView
from gateway.domain.views import ChannelView
from tui import format as fmt
from tui.quoted import bare, quoted, sides, words
from tui.safe import safe
from tui.twins import joined, left

ORDER = ("new", "gone", "kept_out", "offered")
"""What is worth looking at comes first."""

WORDS = {"new": "new", "gone": "gone", "kept_out": "not offered", "offered": "offered"}


class Offering(msgspec.Struct, frozen=True):
    """Models by name, and patterns that choose of the upstream's own list besides."""

    models: list[Served]
    patterns: list[str]
    live: list[Served] = []
    """What the patterns have let in so far and is to stay; what is missing of it the server takes for unwanted."""

    def patch(self) -> dict[str, Any]:
        """As the server takes it."""
        models = [*self.models, *(self.live if self.patterns else ())]
        return {"models": msgspec.to_builtins(models), "patterns": self.patterns}


def offering(text: str, known: Sequence[Served] = ()) -> Offering:
    """``a, name=upstream, gpt-*, !*-preview``; what is known of a model that stays is kept. Raises BadRequest."""
    there = {model.name: model for model in known}
    own = {model.name for model in known if not model.live}
    models, patterns = [], []
    for word in dict.fromkeys(words(text)):
        before, equals, behind = sides(word)
        name, upstream = bare(before), bare(behind)
        if not equals and is_pattern(name) and name not in own:
            patterns.append(name)
            continue
        if not name or (equals and not upstream):
            raise BadRequest(f"{word!r} is neither a model's name nor name=upstream-name")
        model = there.get(name, Served(name=name))
        models.append(msgspec.structs.replace(model, upstream="" if upstream == name else upstream, live=False))
    named = {model.name for model in models}
    return Offering(models, patterns, [model for model in known if model.live and model.name not in named])


def of_channel(view: ChannelView) -> Offering:
    """What a channel's owner has named."""
    live = [model for model in view.models if model.live]
    return Offering([model for model in view.models if not model.live], list(view.patterns), live)


def written(found: Offering) -> str:
    """As it is typed."""
    named = [quoted(m.name, "=") + (f"={quoted(m.upstream, '=')}" if m.upstream else "") for m in found.models]
    return ", ".join([*named, *(quoted(pattern, "=") for pattern in found.patterns)])


def twin(found: Offering, known: Sequence[Served] = ()) -> tuple[str, str]:
    """What ``--models`` takes, and the options beside it. Raises BadRequest if they cannot say it.

    The command keeps the upstream's name of a model that stays; where the form drops it, that is said.
    """
    if odd := next((model.name for model in found.models if is_pattern(model.name)), None):
        raise BadRequest(f"'{odd}' is a name, and an option takes it for a pattern")
    renamed = {model.name for model in known if model.upstream}
    mapped = [model for model in found.models if model.upstream or model.name in renamed]
    maps = [f"{left(model.name)}={model.upstream_name}" for model in mapped]
    listed = joined([*(model.name for model in found.models), *found.patterns])
    return listed or "*", "".join(f" --map {shlex.quote(pair)}" for pair in maps)


def listed(listing: ListingView) -> list[tuple[str, str]]:
    """Ids and words of all that an upstream lists, what is new or gone first."""
    rows = sorted(listing.models, key=lambda one: (ORDER.index(one.state) if one.state in ORDER else 9, one.name))
    return [(one.name, _said(one)) for one in rows]


def counted(listing: ListingView) -> str:
    """``2 new, 1 gone, 12 not offered, 40 offered``."""
    states = [one.state for one in listing.models]
    return ", ".join(f"{states.count(state):,} {WORDS[state]}" for state in ORDER if state in states)


def chosen(view: ChannelView, listing: ListingView, on: Collection[str]) -> Offering:
    """What is offered if just these of the list are; what is not in the list stays.

    Where patterns choose, a name that they let in and that is unwanted is taken out by a pattern of its own.
    """
    now, rows = of_channel(view), {one.name: one for one in listing.models}
    models = [one for one in now.models if one.upstream_name not in rows or one.upstream_name in on]
    kept_out = {pattern.removeprefix(NOT) for pattern in now.patterns if pattern.startswith(NOT)}
    models += [
        Served(name=one.name, context=one.context, max_output=one.max_output, told=one.told)
        for one in listing.models
        if one.name in on and not one.served and one.state != "gone" and one.name not in kept_out
    ]
    gone = {one.upstream_name for one in now.live} & rows.keys() - set(on)
    patterns = [p for p in now.patterns if not (p.startswith(NOT) and p.removeprefix(NOT) in on)]
    patterns += [f"{NOT}{name}" for name in sorted(gone)]
    return Offering(models, patterns, [one for one in now.live if one.upstream_name not in gone])


def _said(one: ListedModel) -> str:
    public = f" as {safe(one.public)}" if one.public not in ("", one.name) else ""
    context = f"   {fmt.short(one.context)} tokens" if one.context else ""
    price = f"   {fmt.price(one.told.input)} / {fmt.price(one.told.output)} $ per M there" if one.told else ""
    return f"{WORDS.get(one.state, one.state):<12}{safe(one.name)}{public}{context}{price}"
