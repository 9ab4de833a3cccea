"""CLI commands: the command line that does what a form does; unchanged options are left out."""

import shlex
from collections.abc import Mapping, Sequence

from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from gateway.domain.views import BudgetView
from tui.field_values import NO_LIMIT, budgets_text, limits_text, token_budgets_text


def cli_command(*words: str, **options: str | None) -> str:
    """Words and options quoted for a shell; options that are None are left out."""
    parts = [shlex.quote(word) for word in words]
    for name, value in options.items():
        if value is not None:
            parts += [f"--{name.replace('_', '-')}", shlex.quote(value)]
    return " ".join(parts)


def if_changed(text: str, before: str) -> str | None:
    """The text if it changed, else None."""
    return text.strip() if text.strip() != before.strip() else None


def comma_list(names: Sequence[str]) -> str:
    """Names as one option takes them. Raises BadRequest for a comma within a name."""
    if comma := next((name for name in names if "," in name), None):
        raise BadRequest(f"'{comma}' contains a comma, which separates names on the command line")
    return ",".join(names)


def pair_name(name: str) -> str:
    """A name as the left side of ``NAME=VALUE``. Raises BadRequest if it contains ``=``."""
    if "=" in name:
        raise BadRequest(f"'{name}' contains '=', which a name on the command line cannot")
    return name


def pair_options(option: str, text: str, before: str = "") -> str:
    """An option for each pair of ``day=5 month=50`` that was added, changed or removed."""
    new, old = _pairs(text), _pairs(before)
    asked = {name: value for name, value in new.items() if old.get(name) != value}
    asked |= {name: "none" for name in old if name not in new}
    return "".join(f" --{option} {shlex.quote(f'{name}={value}')}" for name, value in asked.items())


def limit_options(text: str, before: Limits | None = None) -> str:
    """``--rpm 60`` for each limit that was added, changed or removed."""
    new, old = _pairs(text), _pairs(limits_text(before or Limits()))
    asked = {name: value for name, value in new.items() if old.get(name) != value}
    asked |= {name: "none" for name in old if name not in new}
    return "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in asked.items())


def budget_options(values: Mapping[str, str], before: Sequence[BudgetView] = ()) -> str:
    """The options of the two budget fields."""
    money = pair_options("budget", values["budgets"], budgets_text(before))
    return money + pair_options("tokens-budget", values["token_budgets"], token_budgets_text(before))


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for word in text.replace(",", " ").split():
        name, equals, value = word.rpartition("=")
        if value not in NO_LIMIT:
            found[name if equals else "ever"] = value
    return found
