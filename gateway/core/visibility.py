"""Visibility: the rule that shows a model to a token or hides it, found with the catalog that calls use."""

from collections.abc import Iterable, Iterator

import msgspec

from gateway.core.catalog import Catalog
from gateway.core.group_policy import models_after
from gateway.domain.channel import Channel
from gateway.domain.diagnosis import UnusedFallback
from gateway.domain.group import Group
from gateway.domain.patterns import matches, near_names
from gateway.domain.text import plain, word
from gateway.domain.token import Token


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """The rule, and what to do if the model is hidden."""

    visible: bool
    rule: str
    fix: str = ""


def visibility_of(model: str, token: Token, group: Group, catalog: Catalog) -> Visibility:
    """Returns why a token sees a model, or the first rule that hides it."""
    entry = catalog.visible(token).get(model)
    if entry is not None:
        return Visibility(visible=True, rule=_visible_text(model, token, group, [r.channel.name for r in entry.routes]))
    own = [channel for channel in catalog.registry.channels.values() if group.name in channel.groups]
    if own and not any(channel.enabled for channel in own):
        rule = f"every channel of group '{plain(group.name)}' is switched off: {', '.join(plain(c.name) for c in own)}"
        return Visibility(visible=False, rule=rule, fix=f"'tollkeeper channel enable {word(own[0].name)}'")
    offering = [c for c in catalog.registry.channels.values() if any(s.name == model for s in c.models)]
    if not offering and any(rule.model == model for rule in group.fallbacks):
        return _hidden_alias(plain(model, 80), token, group)
    seen = catalog.visible(token)
    return _hidden_by(plain(model, 80), token, group, sorted(offering, key=lambda c: (-c.priority, c.name)), seen)


def unused_fallbacks(model: str, token: Token, group: Group, catalog: Catalog) -> list[UnusedFallback]:
    """Returns the group's fallbacks for this model that may not answer this token, and the rule that excludes each."""
    entry = catalog.visible(token).get(model)
    used = {other.name for other in entry.fallbacks} if entry is not None else set()
    unused = []
    for name in models_after(model, group.fallbacks):
        seen = visibility_of(name, token, group, catalog)
        if name not in used and not seen.visible:
            unused.append(UnusedFallback(model=name, rule=seen.rule, fix=seen.fix))
        elif name not in used and entry is not None:
            rule = "it has no price, and models without a price are refused"
            unused.append(UnusedFallback(model=name, rule=rule, fix=f"'tollkeeper price set {word(name)}'"))
    return unused


def _visible_text(model: str, token: Token, group: Group, channels: list[str]) -> str:
    by = ", ".join(plain(name) for name in channels)
    rules = [f"group '{plain(group.name)}' has it from {by}" if channels else "no channel has it, others answer for it"]
    if group.models:
        rules.append(f"the group shows {_pattern(model, group.models)}")
    if token.models:
        rules.append(f"the token may use {_pattern(model, token.models)}")
    return "; ".join(rules)


def _pattern(model: str, patterns: tuple[str, ...]) -> str:
    return next(f"'{plain(pattern)}'" for pattern in patterns if matches(model, (pattern,)))


def _hidden_alias(model: str, token: Token, group: Group) -> Visibility:
    """Returns why a name that exists only in the group's fallbacks is hidden: it must match all patterns too."""
    alias = f"'{model}' is another name for its fallbacks"
    if unfit := _unfit(model, token, group):
        rules = " and ".join(rule for rule, _ in unfit)
        return Visibility(visible=False, rule=f"{alias}, and {rules}, which it does not fit", fix=_fix_all(unfit))
    rule = f"{alias}, and none of them may answer this token"
    return Visibility(visible=False, rule=rule, fix="see the fallbacks below")


def _hidden_by(model: str, token: Token, group: Group, offering: list[Channel], seen: Iterable[str]) -> Visibility:
    """Returns all rules that hide the model, in the order in which the catalog applies them. ``seen`` are the models
    that the token sees.
    """
    if not offering:
        fix = "choose one from 'tollkeeper model list', or add it: 'tollkeeper channel edit NAME --models ...'"
        near = " or ".join(f"'{plain(name)}'" for name in near_names(model, seen))
        rule = f"no channel offers a model named '{model}'" + (f"; did you mean {near}?" if near else "")
        return Visibility(visible=False, rule=rule, fix=fix)
    unfit = _unfit(model, token, group)
    reasons = [
        *_missing_channel(model, token, group, offering),
        *((f"{rule}; '{model}' does not fit", fix) for rule, fix in unfit),
    ]
    return Visibility(visible=False, rule="; and ".join(rule for rule, _ in reasons), fix=_fix_all(reasons))


def _missing_channel(model: str, token: Token, group: Group, offering: list[Channel]) -> Iterator[tuple[str, str]]:
    """Yields why no channel serves the model to the group, and what to do."""
    inside = [channel for channel in offering if group.name in channel.groups]
    first, group_name = word((inside or offering)[0].name), plain(group.name)
    if not inside:
        by = ", ".join(plain(channel.name) for channel in offering)
        fix = f"'tollkeeper channel edit {first} --add-group {word(group.name)}'"
        if offering[0].groups:
            command = f"token edit {word(token.name)} --group {word(offering[0].groups[0])}"
            fix += f", or move the token: 'tollkeeper {command}'"
        name = plain(token.name)
        yield f"token '{name}' is in group '{group_name}', for which no channel offers '{model}'; {by} does", fix
    elif not any(channel.enabled for channel in inside):
        rule = f"every channel that offers '{model}' to group '{group_name}' is switched off"
        yield rule, f"'tollkeeper channel enable {first}'"


def _unfit(model: str, token: Token, group: Group) -> list[tuple[str, str]]:
    """Returns the patterns of group and token that exclude a name, and how to change them."""
    owners = (
        (group.models, f"group '{plain(group.name)}' shows", f"group edit {word(group.name)}"),
        (token.models, f"token '{plain(token.name)}' may use", f"token edit {word(token.name)}"),
    )
    return [
        (
            f"{whose} only {', '.join(map(plain, patterns))}",
            f"'tollkeeper {command} --models ...' with it, or '*' for all",
        )
        for patterns, whose, command in owners
        if not matches(model, patterns)
    ]


def _fix_all(reasons: Iterable[tuple[str, str]]) -> str:
    return "; and ".join(fix for _, fix in reasons)
