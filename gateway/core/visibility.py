"""Visibility: which rule shows a model to a token or hides it, found with the catalog that calls use."""

from collections.abc import Iterable, Iterator

import msgspec

from gateway.core.catalog import Catalog
from gateway.core.group_policy import fallback_models
from gateway.domain.channel import Channel
from gateway.domain.diagnosis import UnusedFallback
from gateway.domain.group import Group
from gateway.domain.human_values import first_of
from gateway.domain.patterns import matches, near_names
from gateway.domain.text import plain, word
from gateway.domain.token import Token


class Visibility(msgspec.Struct, frozen=True):
    """Why a token sees a model, or does not."""

    rule: str
    fix: str = ""
    """What makes a hidden model visible; empty if it is visible."""


def visibility_of(model: str, token: Token, group: Group, catalog: Catalog) -> Visibility:
    """Returns whether a token sees a model, with the rule that shows it or the rules that hide it."""
    visible = catalog.visible(token)
    if (entry := visible.get(model)) is not None:
        names = [route.channel.name for route in entry.routes]
        return Visibility(_visible_text(token, group, names))
    channels = catalog.registry.channels.values()
    channels_of_group = [channel for channel in channels if group.name in channel.groups]
    if channels_of_group and not any(channel.enabled for channel in channels_of_group):
        all_names = first_of([plain(channel.name) for channel in channels_of_group], 5)
        rule = f"every channel of group '{plain(group.name)}' is switched off: {all_names}"
        fix = f"'tollkeeper channel enable {word(channels_of_group[0].name)}'"
        return Visibility(rule, fix)
    offering = [channel for channel in channels if any(served.name == model for served in channel.models)]
    if not offering and any(rule.model == model for rule in group.fallbacks):
        return _hidden_alias(plain(model, 80), token, group)
    return _hidden_model(plain(model, 80), token, group, sorted(offering, key=lambda c: (-c.priority, c.name)), visible)


def unused_fallbacks(model: str, token: Token, group: Group, catalog: Catalog) -> list[UnusedFallback]:
    """Returns the group's fallbacks for a model that may not answer this token, each with the rule that excludes it."""
    entry = catalog.visible(token).get(model)
    used = {other.name for other in entry.fallbacks} if entry is not None else set()
    unused = []
    for name in fallback_models(model, group.fallbacks):
        visibility = visibility_of(name, token, group, catalog)
        if name not in used and visibility.fix:
            unused.append(UnusedFallback(model=name, rule=visibility.rule, fix=visibility.fix))
        elif name not in used and entry is not None:
            rule = "it has no price, and models without a price are refused"
            fix = f"'tollkeeper price set {word(name)} --like OTHER'"
            unused.append(UnusedFallback(model=name, rule=rule, fix=fix))
    return unused


def _visible_text(token: Token, group: Group, channels: list[str]) -> str:
    rules = ["no channel has it, others answer for it"]
    if channels:
        rules = [f"group '{plain(group.name)}' has it from {first_of([plain(name) for name in channels], 5)}"]
    if group.models:
        rules.append(f"the group shows {_pattern_text(group.models)}")
    if token.models:
        rules.append(f"the token may use {_pattern_text(token.models)}")
    return "; ".join(rules)


def _pattern_text(patterns: tuple[str, ...]) -> str:
    """Returns which models patterns allow: ``only gpt-*, o3``, or ``all but o3`` if they only exclude some."""
    names = ", ".join(map(plain, patterns))
    return f"all but {names.replace('!', '')}" if all(name.startswith("!") for name in patterns) else f"only {names}"


def _hidden_alias(model: str, token: Token, group: Group) -> Visibility:
    """Returns why a name that exists only in the group's fallbacks is hidden. It too must match all patterns."""
    alias = f"'{model}' is another name for its fallbacks"
    excluding = _excluding_patterns(model, token, group)
    if not excluding:
        return Visibility(f"{alias}, and none of them may answer this token", "see the fallbacks below")
    rules = " and ".join(reason.rule for reason in excluding)
    return Visibility(f"{alias}, and {rules}, which it does not fit", _join_fixes(excluding))


def _hidden_model(
    model: str, token: Token, group: Group, offering: list[Channel], visible: Iterable[str]
) -> Visibility:
    """Returns all rules that hide a model, in the catalog's order. ``visible`` are the models that the token sees."""
    if not offering:
        fix = "choose one from 'tollkeeper model list', or add it: 'tollkeeper channel edit NAME --models ...'"
        near = " or ".join(f"'{plain(name)}'" for name in near_names(model, tuple(visible)))
        rule = f"no channel offers a model named '{model}'" + (f"; did you mean {near}?" if near else "")
        return Visibility(rule, fix)
    excluding = _excluding_patterns(model, token, group)
    reasons = [
        *_missing_channel(model, token, group, offering),
        *(Visibility(f"{reason.rule}; '{model}' does not fit", reason.fix) for reason in excluding),
    ]
    return Visibility("; and ".join(reason.rule for reason in reasons), _join_fixes(reasons))


def _missing_channel(model: str, token: Token, group: Group, offering: list[Channel]) -> Iterator[Visibility]:
    channels_in_group = [channel for channel in offering if group.name in channel.groups]
    first, group_name = word((channels_in_group or offering)[0].name), plain(group.name)
    if not channels_in_group:
        channel_names = first_of([plain(channel.name) for channel in offering], 5)
        fix = f"'tollkeeper channel edit {first} --add-group {word(group.name)}'"
        if offering[0].groups:
            command = f"token edit {word(token.name)} --group {word(offering[0].groups[0])}"
            fix += f", or move the token: 'tollkeeper {command}'"
        membership = f"token '{plain(token.name)}' is in group '{group_name}'"
        yield Visibility(f"{membership}, for which no channel offers '{model}'; it is offered by {channel_names}", fix)
    elif not any(channel.enabled for channel in channels_in_group):
        rule = f"every channel that offers '{model}' to group '{group_name}' is switched off"
        yield Visibility(rule, f"'tollkeeper channel enable {first}'")


def _excluding_patterns(model: str, token: Token, group: Group) -> list[Visibility]:
    """Returns the rules of group and token whose patterns exclude a name, each with the command that changes them."""
    owners = (
        (group.models, f"group '{plain(group.name)}' shows", f"group edit {word(group.name)}"),
        (token.models, f"token '{plain(token.name)}' may use", f"token edit {word(token.name)}"),
    )
    return [
        Visibility(
            f"{whose} {_pattern_text(patterns)}",
            f"'tollkeeper {command} --models ...' with it, or '*' for all",
        )
        for patterns, whose, command in owners
        if not matches(model, patterns)
    ]


def _join_fixes(reasons: Iterable[Visibility]) -> str:
    return "; and ".join(reason.fix for reason in reasons)
