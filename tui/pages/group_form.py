"""Group form: a group's name, price factor, models, routing policy, budgets and limits."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.group import Fallback, Policy
from gateway.domain.human_values import brief_multiplier, multiplier_of
from gateway.domain.limits import Limits
from gateway.domain.patterns import matches
from gateway.domain.views import GroupView
from tui import budgets, cli_commands, field_values
from tui.cli_commands import cli_command, if_changed
from tui.field_values import budget_bodies, patterns, required, text_line_or_same
from tui.session import ConsoleSession
from tui.widgets.form import Field, Values

POLICIES = {
    Policy.PRIORITY: "the highest priority",
    Policy.CHEAPEST: "the cheapest",
    Policy.FASTEST: "the fastest recently",
    Policy.LOCAL: "local, unless busy",
}
STICKY = ("may switch channels", "stay on one channel")


def fields(group: GroupView | None, *, copy: bool = False) -> list[Field]:
    """The fields, filled from a group if there is one."""
    name = "" if group is None else f"{group.name}-2" if copy else group.name
    return [
        Field(id="name", label="Name", value=name, hint="friends", parse=required),
        Field(
            id="multiplier",
            label="Price factor",
            value=brief_multiplier(group.multiplier)[1:] if group else "1",
            hint="1.5 adds half, 0 is free",
            parse=multiplier_of,
        ),
        Field(
            id="models",
            label="Models",
            value=field_values.names_text(group.models) if group else "",
            hint="all its channels offer, or patterns: gpt-*",
            parse=patterns,
        ),
        *_route_fields(group),
        *budgets.budget_fields(group),
        Field(
            id="note",
            label="Note",
            value=group.note if group else "",
            hint="for your own use",
            parse=text_line_or_same(group.note if group else ""),
        ),
    ]


def _route_fields(group: GroupView | None) -> list[Field]:
    policies = {words: policy.value for policy, words in POLICIES.items()}
    return [
        Field(
            id="policy",
            label="Try first",
            value=policy_words(group.policy) if group else POLICIES[Policy.PRIORITY],
            options=list(policies),
            parse=lambda text: policies[text],
        ),
        Field(
            id="sticky",
            label="Conversations",
            value=STICKY[group.sticky] if group else STICKY[0],
            options=STICKY,
            parse=lambda text: text == STICKY[1],
        ),
        Field(
            id="fallbacks",
            label="Fallbacks",
            value=fallbacks_text(group.fallbacks) if group else "",
            hint="none, or gpt-*=claude-sonnet-4-5,qwen3:8b",
            parse=fallbacks,
        ),
    ]


def policy_words(policy: str) -> str:
    """A policy in words."""
    return next((words for known, words in POLICIES.items() if known == policy), policy)


def fallbacks(text: str) -> list[Fallback]:
    """``gpt-*=a,b other=c``: which models may replace one. Raises BadRequest."""
    found = []
    for word in field_values.split_words(text):
        before, equals, others = field_values.split_pair(word)
        model, to = field_values.unquote(before), tuple(field_values.names_of(others))
        if not (model and equals and to):
            raise BadRequest(f"{word!r} is not MODEL=OTHER,ANOTHER, as in gpt-*=claude-sonnet-4-5")
        found.append(Fallback(model=model, to=to))
    return found


def fallbacks_text(found: Sequence[Fallback]) -> str:
    """As they are typed."""
    return " ".join(f"{_quoted(one.model)}={','.join(map(_quoted, one.to))}" for one in found)


def body(values: Values) -> dict[str, Any]:
    """The request body."""
    plain = ("name", "multiplier", "models", "policy", "sticky", "limits", "note")
    made = {name: values[name] for name in plain}
    made["fallbacks"] = msgspec.to_builtins(values["fallbacks"])
    return made | {"budgets": budget_bodies(values["budgets"], values["token_budgets"])}


def visible_models(session: ConsoleSession, group: GroupView | None, values: Values) -> str:
    """Which models its tokens will see."""
    channels = [one for one in session.board.channels if group is not None and one.name in group.channels]
    offered = sorted({model.name for one in channels if one.enabled for model in one.models})
    found = [name for name in offered if matches(name, tuple(values["models"]))]
    if group is None:
        return "then add it to the groups of a channel: page 4, e"
    return f"its tokens see {len(found)} of the {len(offered)} models its channels offer"


def group_command(group: GroupView | None, values: Mapping[str, str]) -> str:
    """The equivalent command."""
    before = fields(group)
    was = {field.id: field.value for field in before}
    models = if_changed(values["models"], was["models"])
    text = cli_command(
        "group",
        "edit" if group else "add",
        group.name if group else values["name"] or "NAME",
        rename=if_changed(values["name"], group.name) if group else None,
        multiplier=if_changed(values["multiplier"], was["multiplier"]),
        models=models if models is None else cli_commands.comma_list(patterns(models)) or "*",
        policy=_policy(values["policy"]) if values["policy"] != was["policy"] else None,
        note=if_changed(values["note"], was["note"]),
    )
    if values["sticky"] != was["sticky"]:
        text += " --sticky" if values["sticky"] == STICKY[1] else " --not-sticky"
    if (others := if_changed(values["fallbacks"], was["fallbacks"])) is not None:
        pairs = (f"{cli_commands.pair_name(one.model)}={cli_commands.comma_list(one.to)}" for one in fallbacks(others))
        text += "".join(f" --fallback {shlex.quote(pair)}" for pair in pairs) or " --no-fallbacks"
    text += cli_commands.budget_options(values, group.budgets if group else ())
    return text + cli_commands.limit_options(values["limits"], group.limits if group else Limits())


def _quoted(name: str) -> str:
    return field_values.quote_name(name, "=")


def _policy(words: str) -> str:
    return next(policy.value for policy, known in POLICIES.items() if known == words)
