"""Efforts: the levels of thinking that a server takes, as its refusals list them. Others become the nearest one.

Claude's older models think within a budget, and its newer ones as long as they find right. Each refuses the other form.
"""

import re
from collections.abc import Collection

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import Fields

EFFORT = "reasoning_effort"
EFFORTS = EFFORT + " in "
"""The prefix of the name of a rule with the levels that a server takes, such as ``reasoning_effort in low,high``."""
_NAMES = (EFFORT, "reasoning.effort", "output_config.effort")
"""Where the effort is in chats, in the Responses API and in Messages."""
NO_EFFORT = EFFORT + "=none"
"""Stands for a model that accepts tools only without thinking, as OpenAI's newer ones do in chat completions."""

BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens for Claude's thinking. They count towards ``max_tokens`` and must be fewer."""
ADAPTIVE = "thinking=adaptive"
BUDGET = "thinking=enabled"
FORMS_REFUSED = {
    ADAPTIVE: lazy_pattern(r"thinking\.type\W{1,4}enabled\W{1,12}(?:is not supported|allowed)"),
    BUDGET: lazy_pattern(
        r"(?i)tag 'adaptive' found|adaptive(?: thinking)?\W{1,12}is not supported|type must be enabled"
    ),
}
"""What a refusal of the other form of thinking says, by the name of the rule."""

FORCE_RULES = {
    None: "tool_choice=auto",
    True: "tool_choice=auto with thinking",
    False: "tool_choice=auto without thinking",
}
"""Stand for a model that cannot be made to call a tool, which usually depends on whether it thinks. So there is a rule
for requests that ask for thinking, one for those that turn it off, and one for those that leave it to the model."""
FORCE_REFUSED = lazy_pattern(
    r"(?i)thinking may not be enabled when tool_choice\b|does\s+not\s+support\s+this\s+tool_choice\b"
    r"|\btool_choice\b[^.]{0,40}?(?:does\s+not\s+support\s+being\s+set|is\s+incompatible\s+with|type: 'object')"
)

_NONE = rawjson.raw("none")
_RANKS = {"none": 0, "minimal": 1, "low": 2, "medium": 3, "default": 3, "high": 4, "xhigh": 5, "max": 6, "ultra": 7}
MANDATORY = lazy_pattern(r"(?i)reasoning is mandatory")
"""Matches OpenRouter's refusal of a request without thinking."""
_LIST_STARTS = lazy_pattern(
    r"(?i)\b(?:supported|allowed|valid|accepted|available)\s+(?:\w+\s+)?(?:values?|types?|levels?|efforts?|options?)\b"
    r"|\bexpected\b|\b(?:should|must) be\b|\bone of\b"
)
_WITHOUT_LIST = lazy_pattern(
    r"(?i)\b(?:invalid|unknown|unmapped|unsupported)\s(?:value\s(?:for|of)\s)?\W?reasoning[_ ]effort\b(?!\s+and\b)"
    r"|\b(?:xhigh|max)\W{1,2}is not\b"
)
_LIST_END = lazy_pattern(r"(?i)\b(?:received|got|found|instead|input(?:_value)?)\b")


def effort_rule(text: str) -> str:
    """Returns the rule in a refusal of an effort: the levels that it lists, else the usual ones; empty for others."""
    if MANDATORY.search(text):
        return EFFORTS + ",".join(level for level in _RANKS if level != "none")
    if re.search(r"\bset\s+\W?reasoning_effort\W?\s+to\s+\W?none\b", text):
        return NO_EFFORT
    if "does not support thinking" in text:  # Ollama
        return EFFORTS + "none"
    if not re.search(r"(?i)effort|(?:think|reasoning) value", text):
        return ""
    lists = (_LIST_END.split(text[match.end() : match.end() + 200])[0] for match in _LIST_STARTS.finditer(text))
    levels = [[word for word in re.findall(r"\w+", part.lower()) if word in _RANKS] for part in lists]
    usual = ["low", "medium", "high"] if _WITHOUT_LIST.search(text) else []
    longest = max(levels, key=len, default=[]) or usual
    return EFFORTS + ",".join(dict.fromkeys(longest)) if longest else ""


def fit_effort(fields: Fields, rules: Collection[str]) -> list[str]:
    """Replace an effort that the server does not take. Returns the name of what was replaced or left out."""
    replaced = []
    if NO_EFFORT in rules and {"messages", "tools"} <= fields.keys():
        replaced = [EFFORT] if fields.get(EFFORT, _NONE) != _NONE else []
        fields[EFFORT] = _NONE
    levels = [rule.removeprefix(EFFORTS).split(",") for rule in rules if rule.startswith(EFFORTS)]
    for name in _NAMES if levels else ():
        holder, _, member = name.rpartition(".")
        members = rawjson.maybe_fields(fields.get(holder)) if holder else fields
        sent = rawjson.text_at(members.get(member))
        if (level := nearest_level(sent, levels[-1])) == sent:
            continue
        if level:
            members[member] = rawjson.raw(level)
        else:
            del members[member]
        if holder:
            fields[holder] = rawjson.raw(members)
        replaced.append(name)
    return replaced


def nearest_level(sent: str, accepted: Collection[str]) -> str:
    """Returns the highest level that is not above the one sent, else the lowest.

    It is empty if the server takes no level, or the one sent is unknown. Thinking is never switched off instead.
    """
    if not sent or sent in accepted:
        return sent
    levels = sorted((level for level in accepted if level != "none"), key=_RANKS.__getitem__)
    lower = [level for level in levels if _RANKS[level] <= _RANKS.get(sent, -1)]
    return next(iter([*reversed(lower), *levels]), "") if sent in _RANKS else ""


def effort_of(budget: int) -> str:
    """Returns the effort that a budget for thinking stands for."""
    if budget < 2048:
        return "low"
    return "medium" if budget < 8192 else "high"


def chat_effort(fields: Fields) -> str | None:
    """Returns the effort of a chat as a word, from OpenRouter's ``reasoning`` too; None if it sets no effort."""
    reasoning = rawjson.maybe(fields.get("reasoning"))
    if not rawjson.is_null(fields.get(EFFORT)) or not isinstance(reasoning, dict):
        return rawjson.text_at(fields.get(EFFORT)) or None
    if reasoning.get("enabled") is False:
        return "none"
    if type(budget := reasoning.get("max_tokens")) is int:
        return effort_of(budget)
    return rawjson.text_at(reasoning, "effort") or ("medium" if reasoning.get("enabled") else None)


def sent_effort(request: Fields) -> str | None:
    """Returns the effort of a Messages request as a word; None if the client does not set it. Raises BadRequest."""
    thinking = rawjson.maybe(request.get("thinking"))
    kind = rawjson.at(thinking, "type")
    if kind in ("disabled", "between_tools"):  # the latter is off for models that cannot be without thoughts
        return "none"
    if kind == "enabled":
        budget = thinking.get("budget_tokens") or 0
        if not isinstance(budget, int):
            raise BadRequest("thinking.budget_tokens must be an integer", param="thinking.budget_tokens")
        return effort_of(budget)
    return rawjson.text_at(request.get("output_config"), "effort") or None


def _wants_thinking(fields: Fields) -> bool | None:
    """Returns whether a request of any API asks for thinking; None if it leaves that to the model."""
    kind = rawjson.at(rawjson.maybe(fields.get("thinking")), "type")
    if isinstance(kind, str):
        return kind != "disabled"
    if type(switch := rawjson.maybe(fields.get("enable_thinking"))) is bool:  # Qwen's
        return switch
    effort = chat_effort(fields)
    return None if effort is None else effort != "none"


def refuses_force(fields: Fields, rules: Collection[str]) -> bool:
    """Returns whether the server refuses that this request demands a call of a tool."""
    return FORCE_RULES[_wants_thinking(fields)] in rules


def fit_choice(fields: Fields, rules: Collection[str]) -> list[str]:
    """Leave out a tool choice that demands a call which the server refuses. Returns its name if it was left out."""
    choice = rawjson.maybe(fields.get("tool_choice"))
    mode = rawjson.at(choice, "type") if isinstance(choice, dict) else choice
    if mode in (None, "auto", "none", "allowed_tools") or not refuses_force(fields, rules):
        return []
    del fields["tool_choice"]
    return ["tool_choice"]


def fit_thinking(fields: Fields, learned: Collection[str]) -> list[str]:
    """Give Claude's thinking the form that the model takes. Returns the name of what is left out."""
    thinking, config = rawjson.maybe(fields.get("thinking")), rawjson.maybe_fields(fields.get("output_config"))
    kind = rawjson.at(thinking, "type")
    if kind == "enabled" and ADAPTIVE in learned:
        budget = thinking.pop("budget_tokens", None)
        fields["thinking"] = rawjson.raw({**thinking, "type": "adaptive"})
        if isinstance(budget, int):
            fields["output_config"] = rawjson.raw({"effort": effort_of(budget), **config})
        return ["thinking.budget_tokens"]
    if kind == "adaptive" and BUDGET in learned:
        budget = BUDGETS.get(rawjson.text_at(config.get("effort")), BUDGETS["high"])
        fields["thinking"] = rawjson.raw({"type": "enabled", "budget_tokens": budget})
        cap = next((fields[name] for name in CAPS if not rawjson.is_null(fields.get(name))), rawjson.NULL)
        fields |= lower_budget(fields, {"max_tokens": cap})
        return [] if rawjson.at(fields["thinking"], "budget_tokens") else ["thinking"]
    return []


def lower_budget(fields: Fields, changes: Fields) -> Fields:
    """Returns the thinking that replaces one whose budget is not below the new ``max_tokens``; empty if it fits."""
    thinking, limit = rawjson.maybe(fields.get("thinking")), rawjson.maybe(changes.get("max_tokens"))
    budget = rawjson.at(thinking, "budget_tokens")
    if type(limit) is not int or type(budget) is not int or budget < limit:
        return {}
    lower = {**thinking, "budget_tokens": max(limit // 2, BUDGETS["minimal"])}
    return {"thinking": rawjson.raw(lower if limit > BUDGETS["minimal"] else {"type": "disabled"})}
