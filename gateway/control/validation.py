"""Validation: checks of values beyond their types. Each check raises BadRequest, which names the field at fault."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Literal

from gateway.domain.budget import Budget
from gateway.domain.channel import Channel, Dialect, ServedModel, Timeouts, check_overrides
from gateway.domain.config_codec import SECTIONS, Section, bad_value
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.field_kinds import Number
from gateway.domain.fields import FIELDS
from gateway.domain.group import Fallback
from gateway.domain.human_values import parse_price_hours
from gateway.domain.limits import RATES, Limits
from gateway.domain.patterns import NOT
from gateway.domain.price import AMOUNTS, DAY_MINUTES, RATE_NAMES, VARIANTS, Price, PriceRule
from gateway.domain.registry import NOUNS, Registry, Table
from gateway.domain.settings import Settings
from gateway.domain.text import REFERENCE, plain
from gateway.domain.token import PREFIX, Token
from gateway.domain.urls import checked_base_url, parse_proxy, refuse_url
from gateway.upstream import mock
from gateway.upstream.credentials import FORBIDDEN_HEADERS
from gateway.upstream.vendors import PRESETS

MANY = 10_000
"""The maximum number of entries in one list. More can only be a mistake."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110, token
_OWN_HEADERS = FORBIDDEN_HEADERS | {"content-type", "proxy-authenticate"}
_KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_HOST_NAME = re.compile(r"(?:[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_ORIGIN = re.compile(
    r"null|https?://[A-Za-z0-9._-]{1,253}(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?"
    r"|(?!https?:)[a-z][a-z0-9+.-]{0,30}://[A-Za-z0-9._~:@%-]{0,250}"
)
"""Matches the origin of a web page or an app: any scheme and a host without a path, or ``null``."""
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")


def check_entity(table: Table, entity: Any, registry: Registry) -> None:
    """Check each field of an entity by its kind and name, and then what is special about the entities of a table."""
    for field in FIELDS[table]:
        value, kind = getattr(entity, field.name), field.kind
        if isinstance(kind, Number):
            _demand(kind.allows(value), field.name, f"{value} is out of range; it must be {kind.bounds}")
        elif field.name in _FIELD_CHECKS:
            _FIELD_CHECKS[field.name](value)
    if table in _CHECKS:
        _CHECKS[table](entity, registry)


def check_named_entity(table: Literal["tokens", "groups", "channels"], entity: Any, registry: Registry) -> None:
    """Check an entity and its name. Raises Conflict if another one has this name, or has it as its id."""
    check_entity(table, entity, registry)
    for key, other in getattr(registry, table).items():
        if other.id != entity.id and entity.name in (other.name, key):
            raise Conflict(f"there is already a {NOUNS[table]} '{entity.name}'; choose another name", param="name")


def _check_settings(value: Settings, _: Registry) -> None:
    has_token = value.ollama_token or not value.ollama_port
    _demand(has_token, "ollama_port", "needs a token for its calls; set --ollama-token")
    for host in value.hosts:
        _demand(_HOST_NAME.fullmatch(host), "hosts", f"'{plain(host)}' is not a host name")
    for origin in value.origins:
        _demand(_ORIGIN.fullmatch(origin), "origins", f"'{plain(origin)}' is not an origin such as https://host")


def _check_token(value: Token, registry: Registry) -> None:
    _demand(not value.name.startswith(PREFIX), "name", f"a token's name must not begin with '{PREFIX}', as keys do")
    check_group_exists(value.group, registry)


def check_fallbacks(values: tuple[Fallback, ...]) -> None:
    """Check that each model or pattern occurs once and has fallbacks."""
    _demand(len(values) <= MANY, "fallbacks", f"has more than {MANY} models")
    seen: set[str] = set()
    for value in values:
        check_model_name(value.model, "fallbacks")
        _demand(value.model not in seen, "fallbacks", f"'{value.model}' is listed twice")
        seen.add(value.model)
        _demand(0 < len(value.to) <= 10, "fallbacks", f"'{value.model}' must have 1 to 10 fallbacks")
        for other in value.to:
            check_model_name(other, "fallbacks")


def _check_channel(value: Channel, registry: Registry) -> None:
    if value.dialect.info.needs_url:
        checked_base_url(value.base_url)
    else:
        _demand(value.base_url == "", "base_url", f"the {value.dialect} dialect has no base URL")
    for group_name in value.groups:
        check_group_exists(group_name, registry, field="groups")
    _demand(len(set(value.groups)) == len(value.groups), "groups", "a group is listed twice")
    check_served(value.models)
    check_patterns(value.patterns)
    check_keys((value.key, *value.keys) if value.key or value.keys else ())
    check_proxy(value.proxy, value.dialect)
    has_options = value.dialect.info.has_options
    _demand(has_options or not value.options, "options", f"the {value.dialect} dialect has no options, only mock has")
    mock.check_options(value.options)
    _demand(value.limits.streams is None, "limits", "only tokens and groups can limit streams")


def check_preset(value: str) -> None:
    """Check that a preset is known or empty."""
    if value and value not in PRESETS:
        near = get_close_matches(value, PRESETS, 1)
        suggestion = f" Did you mean '{near[0]}'?" if near else ""
        names = ", ".join(PRESETS)
        msg = f"unknown preset '{plain(value, 60)}'.{suggestion} The presets are: {names}"
        raise BadRequest(msg, code="unknown_preset", param="preset")


def check_price(value: Price) -> None:
    """Check that amounts are not negative, that tiers are in order, and that rules have conditions that can be met."""
    check_model_name(value.model, "model")
    _check_amounts(value)
    for rule in value.rules:
        _check_amounts(rule, "rules")
        _demand(not rule.variant or rule.variant in VARIANTS, "variant", f"must be one of {', '.join(VARIANTS)}")
        _demand(rule.since or rule.during or rule.variant, "rules", "must have hours, a first day or a variant")
        _demand(rule.since % 60_000 == 0, "since", "must be a whole minute")
        for hours in rule.during:
            within_day = 0 <= hours.start < DAY_MINUTES and 0 <= hours.end <= DAY_MINUTES and hours.days
            _demand(within_day, "during", f"'{plain(str(hours), 60)}' must begin before 24:00, on a day")
            parse_price_hours(str(hours))  # raises BadRequest for hours that commands cannot write


def _check_amounts(value: Price | PriceRule, place: str = "") -> None:
    for field in AMOUNTS:
        _check_not_negative(getattr(value, field), place or field)
    _check_extras(value.extras)
    above = [tier.above for tier in value.tiers]
    _demand(above == sorted(set(above)), "tiers", "must be sorted by 'above', without duplicates")
    for tier in value.tiers:
        for field in ("above", "input", "output", "cached_input", "cache_write", "cache_write_long"):
            _check_not_negative(getattr(tier, field), "tiers")
        _check_extras(tier.extras)


def _check_extras(extras: Mapping[str, int]) -> None:
    for name, amount in extras.items():
        rates = ", ".join(RATE_NAMES)
        _demand(name in RATE_NAMES, "extras", f"unknown rate '{plain(name, 40)}'; the rates are: {rates}")
        _check_not_negative(amount, name)


def check_name(value: str) -> None:
    """Check that a name can be shown and typed: 1 to 64 printable characters, without a space at either end."""
    _demand(0 < len(value) <= 64, "name", "a name must have 1 to 64 characters")
    is_visible = plain(value) == value and value.isprintable()
    _demand(is_visible, "name", "a name must not contain control or invisible characters")
    _demand(value == value.strip(), "name", "a name must not begin or end with a space")
    _demand(value not in (".", ".."), "name", "a name must not consist of dots only, because it is part of URLs")


def check_model_name(value: str, field: str) -> None:
    """Check a model's name: 1 to 200 visible characters, slashes and colons included."""
    _demand(0 < len(value) <= 200, field, "a model's name must have 1 to 200 characters")
    refuse_url(value)
    text = f"the model name '{plain(value)}' begins or ends with a space, or has invisible characters"
    _demand(plain(value) == value and value == value.strip(), field, text)


def check_patterns(values: Iterable[str]) -> None:
    """Check patterns like names of models, which they may contain."""
    listed = list(values)
    _demand(len(listed) <= MANY, "models", f"has more than {MANY} patterns")
    for value in listed:
        check_model_name(value, "models")
        _demand(value != NOT, "models", f"'{NOT}' must be followed by a pattern of names to exclude")


def check_served(values: tuple[ServedModel, ...]) -> None:
    """Check a channel's models: each public name must occur once."""
    _demand(len(values) <= MANY, "models", f"has more than {MANY} models")
    seen: set[str] = set()
    for model in values:
        check_model_name(model.name, "models")
        check_model_name(model.upstream_name, "models")
        if model.price is not None:
            check_price(model.price)
        _demand(model.name not in seen, "models", f"'{model.name}' is listed twice")
        _demand((model.max_output or 1) > 0, "models", f"max_output of '{model.name}' must be above 0")
        seen.add(model.name)


def check_budgets(values: tuple[Budget, ...]) -> None:
    """Check that each window occurs once and has an amount."""
    windows = [budget.window for budget in values]
    _demand(len(set(windows)) == len(windows), "budgets", "two budgets have the same window")
    for budget in values:
        has_amount = budget.nanos is not None or budget.tokens is not None
        _demand(has_amount, "budgets", f"the {budget.window} budget has neither 'nanos' nor 'tokens'")
        _check_not_negative(budget.nanos, "budgets")
        _check_not_negative(budget.tokens, "budgets")


def check_limits(value: Limits) -> None:
    """Check that limits are above zero. A limit that is left out does not apply."""
    for field in (*RATES, "concurrent", "streams"):
        number = getattr(value, field)
        _demand(number is None or number > 0, "limits", f"{field} must be above 0; leave it out for no limit")
    _check_not_negative(value.queue, "limits")
    _check_not_negative(value.queue_s, "limits")
    _demand((value.queue_s or 0) <= 600, "limits", "queue_s must be at most 600 seconds")


def check_timeouts(value: Timeouts) -> None:
    """Check that each timeout is above zero and at most a day."""
    for field in value.__struct_fields__:
        _demand(0 < getattr(value, field) <= 86_400, "timeouts", f"{field} must be above 0, and at most 86400 seconds")


def check_secret(value: str, field: str = "key") -> None:
    """Check that a key or header value fits into one header line. A reference must name an environment variable."""
    if value.startswith(REFERENCE):
        _demand(_ENV_NAME.fullmatch(value[4:]), field, "'env:' must be followed by the name of an environment variable")
    printable = value.isascii() and value.isprintable()
    _demand(printable and value == value.strip(), field, "must be printable ASCII, without spaces at its ends")
    _demand(len(value) <= 8192, field, "is longer than 8192 characters")


def check_keys(values: tuple[str, ...]) -> None:
    """Check that no key is empty or occurs twice."""
    _demand(len(values) <= 50, "keys", "has more than 50 keys")
    for value in values:
        _demand(value, "keys", "a key is empty; the first key belongs in 'key', the others in 'keys'")
        check_secret(value)
    _demand(len(set(values)) == len(values), "keys", "a key is given twice")


def check_headers(values: dict[str, str]) -> None:
    """Check that header names are valid, unique and not the gateway's own, and that values are one line."""
    seen: set[str] = set()
    for header, value in values.items():
        _demand(_HEADER_NAME.fullmatch(header), "headers", f"'{plain(header)}' is not a valid header name")
        _demand(header.lower() not in _OWN_HEADERS, "headers", f"'{header}' is set by the gateway itself")
        _demand(header.lower() not in _KEY_HEADERS, "headers", f"'{header}' carries the key; set the key with --key")
        _demand(header.lower() not in seen, "headers", f"'{header}' is given twice; header names ignore case")
        seen.add(header.lower())
        check_secret(value, "headers")


def check_proxy(value: str, dialect: Dialect) -> None:
    """Check that a proxy is a URL, or a reference to an environment variable that has one."""
    if value:
        _demand(dialect.info.needs_url, "proxy", f"the {dialect} dialect makes no connections and needs no proxy")
        check_secret(value, "proxy")
    if value and not value.startswith(REFERENCE):
        parse_proxy(value)


def check_note(value: str) -> None:
    """Check that a note is one line."""
    _demand(plain(value, 500) == value, "note", "must be one line of at most 500 characters")


def check_group_exists(group_name: str, registry: Registry, field: str = "group") -> None:
    """Check that the group exists."""
    if group_name not in registry.groups:
        names = ", ".join(sorted(registry.groups)) or "none yet"
        message = f"no group '{plain(group_name, 64)}'; the groups are: {names}; 'tollkeeper group add' adds one"
        raise BadRequest(message, code="unknown_group", param=field)


def _check_not_negative(value: int | None, field: str) -> None:
    _demand(value is None or value >= 0, field, "must not be negative")


def _demand(condition: object, field: str, text: str) -> None:
    if not condition:
        raise BadRequest(f"{field}: {text}", param=field)


_FIELD_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "name": check_name,
    "models": check_patterns,
    "fallbacks": check_fallbacks,
    "budgets": check_budgets,
    "limits": check_limits,
    "timeouts": check_timeouts,
    "overrides": check_overrides,
    "headers": check_headers,
    "note": check_note,
}
"""The checks of fields that several tables may have, by name."""
_CHECKS: Mapping[str, Callable[[Any, Registry], None]] = {
    "settings": _check_settings,
    "channels": _check_channel,
    "tokens": _check_token,
    "prices": lambda value, _: check_price(value),
}
"""What else is checked of the entities of a table."""


def check_registry(registry: Registry) -> None:
    """Check a configuration that another program changed. Raises BadRequest with the path of the bad value."""
    for section in SECTIONS:
        check_section(section, registry)


def check_section(section: Section, registry: Registry, titles: Container[str] | None = None) -> None:
    """Check the entities with these titles, or all. Raises BadRequest with the path of the bad value."""
    if not section.title:
        with error_path(section.name):
            check_entity(section.name, getattr(registry, section.name), registry)
        return
    present = getattr(registry, section.name)
    for entity in present.values():
        title = getattr(entity, section.title)
        if titles is None or title in titles:
            with error_path(f"{section.name}.{plain(title, 64)}"):
                _demand(present.get(title, entity) is entity, section.title, f"is the id of a {NOUNS[section.name]}")
                check_entity(section.name, entity, registry)
                if section.name == "channels":
                    check_preset(entity.preset)


@contextmanager
def error_path(path: str) -> Iterator[None]:
    """Put a path before the parameter of a BadRequest that the block raises."""
    try:
        yield
    except BadRequest as error:
        param = f"{path}.{error.param}" if error.param else path
        raise bad_value(param, error.message.removeprefix(f"{error.param}: ")) from error
