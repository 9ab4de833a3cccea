"""What upstreams turned out not to accept: parameters and output limits, remembered for an hour; whole APIs, for a day.

Leaving them out saves a failed call.

Errors name refused parameters in the wordings of vendors and model servers. They are only candidates: what was not sent
is never left out. A field of a message is named ``messages[].reasoning_content``.
"""

import re

import msgspec

from gateway.domain.channel import Channel, Dialect, ServedModel, TokenLimitField
from gateway.domain.failure import Failure
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.rawjson import NULL
from gateway.domain.units import ChannelId, Millis
from gateway.upstream.error_body import ErrorBody
from gateway.upstream.vendors import vendor_of

MESSAGES = "messages[]."
"""The start of the name of a message's field."""
ROLE = MESSAGES + "role"
"""Names the role of a message, which the upstream does not know."""
EFFORT = "reasoning_effort"
NO_EFFORT = EFFORT + "=none"
"""Names that the model accepts tools only without thinking: OpenAI's newer ones in chat completions."""
_NO_EFFORT = re.compile(r"\bset\s+\W?reasoning_effort\W?\s+to\s+\W?none\b")

_PATH = r"[`'\"]{0,2}(?<![\w.])([a-z_]\w{0,60}(?:[.\[/]{1,2}\w{1,60}\]?){0,9})[`'\"]{0,2}"
_KIND = r"(?:parameter|argument|field|name|key|property|propertie|input)s?\b"
_ODD = r"(?:unsupported|unknown|unrecognized|unrecognised|unexpected|extra|extraneous|disallowed)"
_NOT = (
    r"(?:(?:is|are)\s+(?:unsupported|deprecated|disallowed|unknown|not\s+(?:currently\s+|yet\s+)?"
    r"(?:supported|allowed|permitted|recogni[sz]ed))|extra\s+inputs\s+are\s+not\s+permitted)"
)
_NAMED = tuple(
    lazy_pattern(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"{_ODD}\s+(?:request\s+|body\s+|keyword\s+)?{_KIND}(?:\s+(?:supplied|provided|specified))?\s*:?\s*"
            rf"(?!in\b|are\b|were\b){_PATH}"
        ),
        rf"{_KIND}\s+{_PATH}\s+{_NOT}",
        rf"(?<!\w)(?!inputs\b|properties\b){_PATH}\s*:?\s+{_NOT}",
        rf"does\s+not\s+support\s+(?:the\s+)?(?:{_KIND}\s+)?{_PATH}",
        rf"not\s+supported\s+(?:on|by|for|with|in)\s+[^:]{{1,60}}:\s*{_PATH}",
        rf"extra\s+inputs\s+are\s+not\s+permitted,\s*field:\s*{_PATH}",
        rf"extraneous\s+key\s+\[{_PATH}\]",
        rf"additionalproperty[`'\"]*\s*:\s*{_PATH}",
        rf"invalid\s+{_PATH}\s*:\s*only\s+.{{1,40}}?\s+(?:is|are)\s+allowed",
        rf"(?<!\w)\w{{1,60}}[`'\"]?\s+and\s+{_PATH}\s+cannot\s+both\s+be",
        r"\b(reasoning_effort|verbosity)\b[^.]{0,60}?(?:must\s+be\s+one\s+of|does\s+not\s+support)",
    )
)
_LISTS = tuple(
    lazy_pattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_ODD}\s+(?:request\s+)?{_KIND}\b[^{{\[('\"]{{0,60}}[{{\[(]([^}}\])]{{1,500}})[}}\])]",
        r"additional\s+properties\s+are\s+not\s+allowed\s*\(([^)]{1,500})\)",
        rf"{_ODD}\s+(?:request\s+)?{_KIND}\s+(?:supplied|provided|specified)?\s*:\s*(\w+(?:\s*,\s*\w+){{1,40}})",
    )
)
"""Match several names at once: as Python writes sets and lists, as JSON schemas do, and with commas."""
_QUOTED = lazy_pattern(r"['\"`](\w+)['\"`]")
_WORD = lazy_pattern(r"\w+")
_LOCATIONS = lazy_pattern(
    r"['\"](?:extra_forbidden|value_error\.extra|unexpected_keyword_argument)['\"][^{}]{0,40}?"
    r"['\"]loc['\"]\s*:\s*[\[(]([^\])]{1,200})[\])]"
)
"""Matches FastAPI's details as text: vLLM and relays put them into the message."""

_DEFAULT_ONLY = frozenset(
    {"temperature", "top_p", "presence_penalty", "frequency_penalty", "reasoning_effort", "verbosity", "seed"}
)
"""Parameters that some models accept only with their default."""
_BAD_ROLE = lazy_pattern(r"\broles?\b(?!:\w)|角色|[`'\"]developer[`'\"]")
_PLACE = lazy_pattern(r"'(messages\.\d+)'\s*:\s*property\s+'")
"""Groq's ``'messages.1' : property 'name'``."""
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_MOST_OUTPUT = lazy_pattern(
    r"supports? at most (\d{1,9}) (?:completion|output) tokens"
    r"|(?<!\d)(\d{1,9}), which is the maximum allowed number of output tokens"
    r"|max_(?:completion_)?tokens[`'\"]?(?: \(\d+\))? must be (?:less than or equal to|at most|<=)"
    r" [`'\"]?(\d{1,9})(?!\d)"
    r"|range of max_(?:completion_)?tokens (?:is|should be) \[\d+, ?(\d{1,9})\]"
    r"|maximum tokens you requested exceeds the model limit of (\d{1,9})",
    re.IGNORECASE,
)
"""Match the model's own limit in an error about a higher one, as OpenAI, Anthropic, Groq, DeepSeek with Qwen, and
Bedrock write it."""
SEARCHED = 2000
"""How many characters of a message are searched."""


def refused_params(error: ErrorBody) -> tuple[str, ...]:
    """Returns all names that it may mean, each once, in the order in which they are found."""
    message = _PLACE.sub(r"property '\1.", error.message[:SEARCHED])
    refused = error.code in ("unsupported_parameter", "unknown_parameter")
    named = [error.param] if refused or (error.code == "unsupported_value" and error.param in _DEFAULT_ONLY) else []
    named += error.refused
    named += [match[1] for pattern in _NAMED for match in pattern.finditer(message)]
    lists = [match[1] for pattern in _LISTS for match in pattern.finditer(message)]
    named += [name for names in lists for name in _QUOTED.findall(names) or _WORD.findall(names)]
    named += [".".join(_WORD.findall(match[1])) for match in _LOCATIONS.finditer(message)]
    if "stream_options" in message:
        named.append("stream_options")
    if _BAD_ROLE.search(f"{message} {error.param}".lower()):
        named.append(ROLE)
    names = dict.fromkeys(filter(None, map(_name_of, named)))
    if _NO_EFFORT.search(message):
        names.pop(EFFORT, None)
        names[NO_EFFORT] = None
    return tuple(names)


def most_output(error: ErrorBody) -> int | None:
    """Returns the model's own output limit, if it is named."""
    match = _MOST_OUTPUT.search(error.message[:SEARCHED])
    return int(next(filter(None, match.groups()))) or None if match is not None else None


def _name_of(path: str) -> str:
    """Returns a path's field: ``body.maxTokens`` is ``max_tokens``, ``messages.2.assistant.name`` is
    ``messages[].name``; for other paths the last part. Empty: it is nested too deeply.
    """
    if path == ROLE:
        return path
    parts = [part for part in re.split(r"[.\[\]/]+", path) if part and not part.isdigit()]
    if len(parts) > 1 and parts[0] == "body":
        del parts[0]
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", parts[-1]).lower() if parts else ""
    if len(parts) == 1 or parts[:1] != ["messages"]:
        return name
    inner = [part for part in parts[1:-1] if part not in _ROLES and not part.startswith("ChatCompletion")]
    return "" if inner else MESSAGES + name


NEVER_DROPPED = frozenset(
    {
        *("model", "messages", "tools", "response_format", "stream", "input", "dimensions", "prompt", "suffix"),
        *(MESSAGES + name for name in ("content", "tool_calls", "tool_call_id")),
    }
)
"""Without these the answer would be a different one."""

ADDED = {Dialect.OPENAI: "stream_options", Dialect.ANTHROPIC: "cache_control"}
"""The field that the gateway itself adds to requests, by the channel's dialect."""

DEVELOPER = b'"developer"'
"""The role that an error about a message's role means; its other name is ``system``."""

_OTHER_LIMIT = {
    "max_tokens": TokenLimitField.MAX_COMPLETION_TOKENS,
    "max_completion_tokens": TokenLimitField.MAX_TOKENS,
}


class LearnedParams:
    """What was learned, by channel and upstream model. The clock is a parameter."""

    def __init__(self) -> None:
        self.known: dict[tuple[ChannelId, str], tuple[LearnedRefusals, Millis]] = {}
        """What ``of`` looks up; usually empty."""
        self.lacking: dict[tuple[ChannelId, str], Millis] = {}
        """What ``lacks`` looks up; usually empty."""

    def of(self, channel: ChannelId, served: ServedModel, now: Millis) -> LearnedRefusals:
        """Returns what is known now."""
        entry = self.known.get((channel, served.upstream_name))
        if entry is None:
            return NOTHING
        learned, until = entry
        if until <= now:
            del self.known[channel, served.upstream_name]
            return NOTHING
        return learned

    def learn(self, channel: Channel, served: ServedModel, order: Order, failure: Failure, now: Millis) -> bool:
        """Returns whether to call the same channel again, because this time something is left out or lowered.

        A strict channel loses nothing that the client sent; what the gateway added is always left out. Upstreams that
        check a whole request name everything they refuse: all of it is learned at once, with what is usually refused
        together.
        """
        before = after = self.of(channel.id, served, now)
        vendor = vendor_of(channel.preset, channel.base_url)
        renamed = {there: here for here, there in vendor.rename}
        for name in (renamed.get(parameter, parameter) for parameter in failure.parameters):
            if _may_leave_out(name, channel, order):
                after = _with(after, name)
        refused = after.dropped[len(before.dropped) :]
        for suspects in () if channel.strict else vendor.suspects:
            for name in sorted(suspects) if suspects.intersection(refused) else ():
                after = _with(after, name)
        fixed = channel.strict and _was_sent("max_tokens", order)
        if (most := failure.max_output) is not None and not fixed:  # or the client's, or the gateway's choice
            after = msgspec.structs.replace(after, max_output=min(most, after.max_output or most))
        if after == before:
            return False
        self.known[channel.id, served.upstream_name] = (after, Millis(now + 3_600_000))  # an hour
        return True

    def learn_lack(self, channel: ChannelId, api: str, now: Millis) -> None:
        """Remember that the channel lacks this API."""
        self.lacking[channel, api] = Millis(now + 24 * 3_600_000)

    def lacks(self, channel: ChannelId, api: str, now: Millis) -> bool:
        """Returns whether the channel was found to lack this API in the last day."""
        return self.lacking.get((channel, api), now) > now

    def forget(self, channel: ChannelId) -> None:
        """Forget a channel that was changed or removed."""
        for key in [key for key in self.known if key[0] == channel]:
            del self.known[key]
        for lack in [lack for lack in self.lacking if lack[0] == channel]:
            del self.lacking[lack]


NOTHING = LearnedRefusals()


def _is_anywhere(name: str, order: Order) -> bool:
    """Returns whether the client's request has a field of this name at any depth."""
    key = f'"{name}"'.encode()
    marked = name == "cache_control" and order.conversation is not None and order.conversation.cached
    return marked or name in order.fields or any(key in bytes(value) for value in order.fields.values())


def _may_leave_out(name: str, channel: Channel, order: Order) -> bool:
    """Returns whether it was sent and may be left out. A role loses nothing by its other name."""
    if name == ROLE:
        return any(DEVELOPER in bytes(order.fields.get(turns, NULL)) for turns in ("messages", "input"))
    if name == NO_EFFORT:
        return "tools" in order.fields and (not channel.strict or EFFORT not in order.fields)
    added = name == ADDED.get(channel.dialect) and (order.stream or name != "stream_options")
    if channel.strict and (not added or _is_anywhere(name, order)):
        return False
    return name not in NEVER_DROPPED and (added or _was_sent(name, order))


def _was_sent(name: str, order: Order) -> bool:
    if name.startswith(MESSAGES):
        return f'"{name.removeprefix(MESSAGES)}"'.encode() in bytes(order.fields.get("messages", NULL))
    if name == "tool_choice" and order.conversation is not None and order.conversation.choice.mode:
        return True
    names = _OTHER_LIMIT if name in _OTHER_LIMIT else (name,)
    return any(sent in order.fields for sent in names)


def _with(learned: LearnedRefusals, name: str) -> LearnedRefusals:
    """Returns what is known with this one. A refused output limit is tried under its other name, never dropped: the
    output would be unlimited.
    """
    if name in _OTHER_LIMIT:
        return (
            learned
            if learned.token_limit_field
            else msgspec.structs.replace(learned, token_limit_field=_OTHER_LIMIT[name])
        )
    return learned if name in learned.dropped else msgspec.structs.replace(learned, dropped=(*learned.dropped, name))
