"""Refused parameters: finds those that an upstream's error is about, in the words of vendors and model servers.

The names are only candidates: a parameter that was not sent is never left out. A field of a message has a name such as
``messages[].reasoning_content``.
"""

import re

from gateway.domain.lazy_pattern import lazy_pattern
from gateway.upstream.efforts import EFFORT, FORCE_REFUSED, MANDATORY, effort_rule
from gateway.upstream.error_body import ErrorBody
from gateway.upstream.ranges import range_rules

MESSAGES = "messages[]."
"""The prefix of the names of a message's fields."""
ROLE = MESSAGES + "role"
"""Stands for a role of messages that the upstream does not know."""
DEVELOPER = b'"developer"'
"""The role that such errors are about. It is sent as ``system`` instead."""
REASONING_BACK = "reasoning_content=back"
"""Stands for an upstream that refuses messages of the assistant without the reasoning before them."""
BETA = "anthropic-beta="
"""The prefix of the names of betas that an upstream of Anthropic's dialect refuses; see ``EVERY_BETA``."""
EVERY_BETA = BETA + "*"
"""Stands for all betas of a request, for a refusal without their names, such as Bedrock's."""
_BETA_NAME = lazy_pattern(r"(?<![\w-])[a-z][a-z\d-]*-20\d\d-?\d\d-?\d\d(?![\w-])")

_PATH = r"[`'\"]{0,2}(?<![\w.])([a-z_]\w{0,60}(?:[.\[/]{1,2}\w{1,60}\]?){0,9})[`'\"]{0,2}"
_KIND = r"(?:parameter|argument|field|name|key|property|propertie|input)(?:s\b|\(s\)|\b)"
_UNKNOWN = r"(?:unsupported|unknown|unrecognized|unrecognised|unexpected|extra|extraneous|disallowed)"
_LACKS = r"(?:does\s+not|doesn'?t|do\s+not|don'?t)\s+support"
_IS_REFUSED = (
    r"(?:(?:is|are)\s+(?:unsupported|deprecated|disallowed|unknown|immutable|not\s+(?:currently\s+|yet\s+)?"
    r"(?:supported|allowed|permitted|recogni[sz]ed|enabled))|extra\s+inputs\s+are\s+not\s+permitted)"
)
_NAMED = tuple(
    lazy_pattern(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"{_UNKNOWN}\s+(?:request\s+|body\s+|keyword\s+)?{_KIND}(?:\s+(?:supplied|provided|specified))?\s*:?\s*"
            rf"(?!in\b|are\b|were\b){_PATH}"
        ),
        rf"{_KIND}\s+{_PATH}\s+(?:{_IS_REFUSED}|not\s+supported)",
        rf"(?<!\w)(?!inputs\b|properties\b){_PATH}\s*:?\s+{_IS_REFUSED}",
        rf"{_LACKS}\s+(?:(?:the|this)\s+)?(?:{_KIND}\s+)?{_PATH}",
        rf"not\s+supported\s+(?:on|by|for|with|in)\s+[^:]{{1,60}}:\s*{_PATH}",
        rf"extra\s+inputs\s+are\s+not\s+permitted,\s*field:\s*{_PATH}",
        rf"extraneous\s+key\s+\[{_PATH}\]",
        rf"additionalproperty[`'\"]*\s*:\s*{_PATH}",
        rf"invalid\s+{_PATH}\s*:\s*only\s+.{{1,40}}?\s+(?:is|are)\s+allowed",
        rf"(?<!\w)\w{{1,60}}[`'\"]?\s+and\s+(?!\W?max_completion){_PATH}\s+cannot\s+both\s+be",
        r"\b(reasoning_effort|verbosity)\b[^.]{0,60}?(?:must\s+be\s+one\s+of|does\s+not\s+support)",
        r"\b(temperature|top_[pk])\b\W.{0,60}?\bwhen thinking is",
        rf"{_PATH}\s+parameter\s+is\s+only\s+allowed\s+when\b",
        rf"invalid\s+{_PATH}\s*:\s*string\s+too\s+long",
        r"has a (\w{1,30}) value of \S{1,20} but the supported range is",
    )
)
_LISTS = tuple(
    lazy_pattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:{_UNKNOWN}|{_LACKS})\s+(?:request\s+)?{_KIND}[^{{\[('\"]{{0,60}}[{{\[(]([^}}\])]{{2,500}})[}}\])]",
        r"additional\s+properties\s+are\s+not\s+allowed\s*[:(]\s*([^).]{1,500})",
        (
            rf"(?:{_UNKNOWN}\s+(?:request\s+)?{_KIND}|{_KIND}\s+{_IS_REFUSED})(?:\s+[^:,]{{1,60}})?\s*:\s*"
            r"(`?\w+`?(?:\s*,\s*`?\w+`?){1,40})"
        ),
    )
)
"""Match lists of names: as Python writes sets and lists, as JSON schemas do, and with commas."""
_QUOTED = lazy_pattern(r"['\"`](\w+)['\"`]")
_WORD = lazy_pattern(r"\w+")
_LOCATIONS = lazy_pattern(
    r"['\"](?:extra_forbidden|value_error\.extra|unexpected_keyword_argument)['\"][^{}]{0,40}?"
    r"['\"]loc['\"]\s*:\s*[\[(]([^\])]{1,200})[\])]"
)
"""Matches FastAPI's list of details as text, which vLLM and relays put into the message."""

_DEFAULT_ONLY = frozenset(
    {
        *("temperature", "top_p", "presence_penalty", "frequency_penalty", "reasoning_effort", "verbosity", "seed"),
        *("text.verbosity", "reasoning.summary"),
    }
)
"""Parameters that some models accept only with their default value."""
_WORDS = {
    "stream_options": lazy_pattern("stream_options"),
    "cache_control": lazy_pattern(  # a wrong mark, or one too many, is refused in other words
        r"\b(?:extra|extraneous|unknown|unsupported|unexpected|unrecognized|invalid)\b[^.]{0,60}\bcache_control\b"
        r"|\bcache_control\b[^.]{0,60}"
        r"(?:\bnot (?:permitted|supported|allowed|recognized|enabled)|\bunsupported|\bunknown)"
        r"|prompt caching[^.]{0,40}\bnot\b|\bnot (?:support|allow)[^.]{0,40}\bprompt caching",
        re.IGNORECASE,
    ),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), lazy_pattern(r"(?i)penalty is not enabled")),  # Gemini
    "user_id": lazy_pattern(r"(?i)metadata\.user_id: string should|'user_id': string does not"),
    MESSAGES + "reasoning_content": lazy_pattern(r"(?i)cannot pass both content and thinking"),  # gpt-oss
    "tools[].strict": lazy_pattern(  # OpenAI and Anthropic
        r"(?i)for function\b.{0,100} is required to be supplied and to be|too many strict tools|compiled grammar is too"
        r"|\bschemas? (?:contains too many|is too complex)|circular reference detected in schema|: for '\w+' type, "
    ),
    "max_tokens": lazy_pattern(r"max_tokens\W{1,3}and\W{1,3}max_completion_tokens"),  # both of them
    "context_management": lazy_pattern("Anthropic's context management"),  # OpenRouter
    "include": lazy_pattern(r"(?i)encrypted content is not supported"),
    "encoding_format": lazy_pattern(r"(?i)encoding[ _]format"),  # vectors are converted to what was requested
}
"""Matches refusals that describe a parameter instead of naming it, by the name of the parameter."""
_BAD_ROLE = lazy_pattern(r"\broles?\b(?!:\w)|角色|[`'\"]developer[`'\"]")
_GROQ_PATH = lazy_pattern(r"'(messages(?:\.\w+)+)'\s*:\s*property\s+'")
"""Matches Groq's ``'messages.1' : property 'name'``."""
_PLACE = lazy_pattern(r"\) - '((?:messages|tools)(?:\.\w+)+)'")
"""Matches OpenAI's place of a list of names: ``('parsed', 'refusal' were unexpected) - 'messages.2'``."""
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_NESTED = {
    "content": frozenset({"type", "text", "image_url", "input_audio", "file"}),
    "tool_calls": frozenset({"id", "type", "function"}),
    "tools": frozenset({"type", "function", "name", "parameters", "description"}),
    "system": frozenset({"type", "text"}),
}
"""The fields that hold the content itself and so must stay, by the list that their objects are in."""

_MAX_OUTPUT = lazy_pattern(
    r"supports? at most (\d{1,9}) (?:completion|output) tokens"
    r"|(?<!\d)(\d{1,9}), which is the maximum allowed number of output tokens"
    r"|max_(?:completion_)?tokens[`'\"]?(?: \(\d+\))? must (?:be )?(?:less than or equal to|at most|<=|between 1 and)"
    r" [`'\"]?(\d{1,9})(?!\d)"
    r"|max_(?:completion_)?tokens[^.]{0,30} exceeds? (?:the )?(?:maximum|limit)[^.\d]{0,20}(\d{1,9})(?!\d)"
    r"|maximum (?:number of )?output tokens is (\d{1,9})(?!\d)"
    r"|range of max_(?:completion_)?tokens (?:is|should be) \[\d+, ?(\d{1,9})\]"
    r"|maximum tokens you requested exceeds the model limit of (\d{1,9})"
    r"|maxOutputTokens value of \d{1,9} but the supported range is from 1 \(inclusive\) to (\d{1,9}) \(exclusive\)",
    re.IGNORECASE,
)
"""Matches the model's own output limit in errors of OpenAI, Anthropic, Groq, DeepSeek, Qwen, Bedrock and Gemini."""
_CONTEXT = lazy_pattern(r"(?i)context (?:length|window|size)(?: is| of)?(?: only)? (\d{1,9})(?!\d)")
_INPUTS = lazy_pattern(
    r"(?i)(?<!\d)(\d{1,9}) (?:in the messages|of (?:text|tool|image) input|input tokens|tokens from the input)"
)
_SUM = lazy_pattern(r"(?<!\d)(\d{1,9}) \+ \d{1,9} > (\d{1,9})(?!\d)")
"""Matches Anthropic's ``input + output > context``."""


def refused_params(error: ErrorBody) -> tuple[str, ...]:
    """Returns the names of all parameters that an error may be about, each once."""
    message = _GROQ_PATH.sub(r"property '\1.", error.message)
    is_refused = error.code in ("unsupported_parameter", "unknown_parameter")
    paths = [error.param] if is_refused or (error.code == "unsupported_value" and error.param in _DEFAULT_ONLY) else []
    paths += error.refused
    paths += [match[1] for pattern in _NAMED for match in pattern.finditer(message)]
    lists = [match[1] for pattern in _LISTS for match in pattern.finditer(message)]
    place = "".join(f"{found}." for found in _PLACE.findall(message)[:1])
    paths += [place + name for names in lists for name in _QUOTED.findall(names) or _WORD.findall(names)]
    paths += [".".join(_WORD.findall(match[1])) for match in _LOCATIONS.finditer(message)]
    paths += [name for name, words in _WORDS.items() if words.search(message)]
    if _BAD_ROLE.search(f"{message} {error.param}".lower()):
        paths.append(ROLE)
    names = dict.fromkeys(filter(None, (*map(_field_name, paths), *map(_nested_name, paths))))
    if FORCE_REFUSED.search(message):
        names.pop("tool_choice", None)
    if rule := effort_rule(f"{message} {error.param}"):
        names.pop(EFFORT, None)
        names[rule] = None
    if MANDATORY.search(message):
        names["reasoning.enabled"] = None
    names |= dict.fromkeys(range_rules(message))
    if "beta" in message or "context_management" in names:
        betas = _BETA_NAME.findall(message) or (["*"] if "beta flag" in message else [])
        names |= dict.fromkeys(BETA + beta for beta in betas)
    return tuple(names)


def max_output(error: ErrorBody) -> int | None:
    """Returns the model's own output limit; None if the error does not name it.

    If input and output together are too long, the limit is half of what the input leaves of the context, because the
    next inputs will be longer. If the input leaves less than a quarter, the input itself is too long.
    """
    match = _MAX_OUTPUT.search(error.message)
    if match is not None:
        return int(next(filter(None, match.groups()))) - match[0].endswith("(exclusive)") or None
    context, used = _context_and_input(error.message)
    return (context - used) // 2 if used and 4 * used <= 3 * context else None


def _context_and_input(message: str) -> tuple[int, int]:
    """Returns the tokens of the context and of the input, as the message has them; zeros if it has neither."""
    if added := _SUM.search(message):
        return int(added[2]), int(added[1])
    context, inputs = _CONTEXT.search(message), _INPUTS.findall(message)
    return (int(context[1]), sum(map(int, inputs))) if context is not None else (0, 0)


def _field_name(path: str) -> str:
    """Returns the name of the field at a path; empty for a field that is nested too deeply in a message.

    It is ``max_tokens`` for ``body.maxTokens``, and ``messages[].name`` for ``messages.2.assistant.name``.
    """
    parts = _parts(path)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", parts[-1]).lower() if parts else ""
    if len(parts) == 1 or parts[:1] != ["messages"]:
        return name
    inner = [part for part in parts[1:-1] if part not in _ROLES and not part.startswith("ChatCompletion")]
    return "" if inner else MESSAGES + name


def _nested_name(path: str) -> str:
    """Returns the name of a field in contents, calls or tools; empty for schemas, other paths, and what must stay.

    It is ``messages[].tool_calls[].index`` for ``messages.1.assistant.tool_calls.0.index``. A member of a cache mark
    has its own name, whatever is marked.
    """
    root, *inner = _parts(path) or [""]
    if "cache_control" in inner[:-1]:
        return inner[-1]
    holders = {"tools": ["tools"], "system": ["system"], "messages": inner[:-1]}.get(root, [])
    holder = next((part for part in holders if part in _NESTED), "")
    is_schema = holder == "tools" and inner[:-1] not in ([], ["function"])
    if not holder or not inner or is_schema or inner[-1] in _NESTED[holder]:
        return ""
    return f"{'' if holder == root else MESSAGES}{holder}[].{inner[-1]}"


def _parts(path: str) -> list[str]:
    parts = [part for part in re.split(r"[.\[\]/]+", path) if part and not part.isdigit()]
    return parts[1:] if len(parts) > 1 and parts[0] == "body" else parts
