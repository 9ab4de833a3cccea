"""Request rules: what a server demands of requests, as its refusals say, and how requests are changed to comply.

Each rule has a name, by which ``learned_params`` remembers it. Those about messages are in ``message_rules``.
"""

from collections.abc import Collection

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.upstream.answer_formats import FORMAT_REFUSED, NO_JSON, NO_SCHEMAS, fit_format, refuses_format
from gateway.upstream.efforts import EFFORTS, FORMS_REFUSED, HOLDERS, fit_effort, fit_thinking
from gateway.upstream.message_rules import MESSAGES_REFUSED, RULES, fit_messages
from gateway.upstream.nested_fields import remove_nested
from gateway.upstream.null_values import NULLS, NULLS_REFUSED, without_nulls
from gateway.upstream.ranges import RANGES, fit_ranges
from gateway.upstream.tool_schemas import SCHEMAS, SCHEMAS_REFUSED, fit_schemas, has_invalid_schemas

STREAM = "stream=true"
PLAIN = "stream=false"
_REFUSED = {
    STREAM: lazy_pattern(
        r"(?i)stream must be set to true|only supports? stream|non-?streaming calls|streaming is required"
    ),
    PLAIN: lazy_pattern(r"(?i)verified to stream|stream(?:ing)?\W{1,3}is not supported|not support stream(?:ing)?\b"),
    **MESSAGES_REFUSED,
    **FORMS_REFUSED,
    NULLS: NULLS_REFUSED,
    SCHEMAS: SCHEMAS_REFUSED,
    NO_SCHEMAS: FORMAT_REFUSED,
    NO_JSON: FORMAT_REFUSED,
}
"""What a refusal says, by the name of the rule."""


def rules_in(message: str) -> list[str]:
    """Returns the names of the rules that an error message is about."""
    return [name for name, words in _REFUSED.items() if words.search(message)]


def is_rule(name: str) -> bool:
    """Returns whether a name stands for a change of a request, not for a parameter to leave out."""
    return name in RULES or name in _REFUSED or name.startswith((EFFORTS, RANGES))


def fit_request(fields: Fields, rules: Collection[str]) -> tuple[Fields, list[str]]:
    """Returns a request's fields as the rules want them, and the names of what they lose or have another value of."""
    fields = without_nulls(fields) if NULLS in rules else dict(fields)
    if STREAM in rules or PLAIN in rules:  # an answer in the other form than requested is read all the same
        fields["stream"] = rawjson.raw(STREAM in rules)
    changed = [name for holder in HOLDERS for name in fit_effort(fields, rules, holder)]
    changed += (
        fit_thinking(fields, rules)
        + fit_format(fields, rules)
        + fit_ranges(fields, rules)
        + remove_nested(fields, rules)
    )
    fit_schemas(fields, rules)
    return fields, changed + fit_messages(fields, rules)


def has_effect(rule: str, order: Order, used: tuple[str, ...]) -> bool:
    """Returns whether a rule would change a refused request, which was written by the rules that were ``used``."""
    if rule in (NO_SCHEMAS, NO_JSON):
        return refuses_format(rule, order.fields, used)
    return fit_request(order.fields, [rule])[0] != order.fields or (rule == SCHEMAS and has_invalid_schemas(order))
