"""Fields: what the owner can edit of each entity, in the order of forms, details and ``--help``.

A new field is a line in the struct of the entity (``TokenFields`` and so on) and a ``Field`` here. Its option, its
input in the console's form, its line in ``show`` and in the detail pane, and the command that a form prints are all
derived from this table. ``enabled`` has commands of its own; the key, models and dialect of a channel are handled in
``commands/channel_fields.py`` and ``tui/pages/channel_form.py``.

Long: one table for every entity, so that each field is found in one place.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.account import AccountStatus
from gateway.domain.budget import Window
from gateway.domain.channel import TokenLimitField
from gateway.domain.field_kinds import (
    Choice,
    Field,
    Flag,
    Moment,
    Multiplier,
    Number,
    Secret,
    Section,
    Text,
    json_value,
)
from gateway.domain.group import Policy
from gateway.domain.limit_kinds import (
    CHANNEL_LIMITS,
    CLIENT_LIMITS,
    DOLLAR_BUDGETS,
    TOKEN_BUDGETS,
    OutputHold,
    RateLimits,
)
from gateway.domain.list_kinds import Names, Patterns
from gateway.domain.pair_kinds import (
    HEADERS_EXAMPLE,
    Deadlines,
    Fallbacks,
    Headers,
    MockOptions,
    PromptPlace,
    RequestOverrides,
    SystemPrompt,
)
from gateway.domain.price_kinds import PRICE
from gateway.domain.settings import Durability
from gateway.domain.token import Color
from gateway.domain.urls import checked_base_url, parse_proxy

Table = Sequence[Field]

_STREAMS = Flag("stop running streams", "let running streams finish")


def _name(example: str, note: str = "") -> Field:
    return Field(
        name="name",
        kind=Text(required=True, metavar="NAME"),
        help=f"The new name{note}.",
        option="--rename",
        placeholder=example,
        basic=True,
    )


_WINDOWS = [f"{window}={window.info.example}" for window in Window]
_BUDGETS = (
    Field(
        name="budgets",
        kind=DOLLAR_BUDGETS,
        label="Budget, dollars",
        help=f"Dollars per window: {', '.join(_WINDOWS)}; day=none removes one, none removes all. May be repeated.",
        option="--budget",
        placeholder=f"none, or {' '.join(_WINDOWS)}",
        basic=True,
    ),
    Field(
        name="budgets",
        input_id="token_budgets",
        kind=TOKEN_BUDGETS,
        label="Budget, tokens",
        help="Tokens per window: day=1M; month=none removes one.",
        option="--tokens-budget",
        placeholder="none, or day=1M",
        basic=True,
    ),
)
_CLIENT_LIMITS = Field(
    name="limits",
    kind=RateLimits(names=CLIENT_LIMITS),
    help="",
    placeholder="none, or rpm=60 tpm=200k rpd=1000 concurrent=8",
)
_NOTE = Field(name="note", kind=Text(), help="For your own use.", placeholder="for your own use")

TOKEN: Table = (
    _name("laptop"),
    Field(
        name="group",
        kind=Text(required=True, metavar="GROUP", completes="groups"),
        help="The group it belongs to; by default 'default', or the only one.",
        basic=True,
    ),
    Field(
        name="models",
        kind=Patterns(empty_text="all that the group shows"),
        help="Allow only these models of the group, also as fallbacks: 'gpt-*,claude-*'; '*' for all.",
        placeholder="all of the group's, or patterns: gpt-*, claude-*",
        basic=True,
    ),
    *_BUDGETS,
    _CLIENT_LIMITS,
    Field(
        name="expires",
        kind=Moment(),
        help="When it expires: 30d, tomorrow, 2026-12-31 (at the end of the day), never.",
        placeholder="never, or 30d, or 2026-12-31",
        basic=True,
    ),
    Field(
        name="stop_when_empty",
        kind=_STREAMS,
        label="When the budget runs out",
        help="Whether running streams are stopped when a budget is used up.",
        option="--stop-when-empty/--finish-when-empty",
    ),
    Field(
        name="hold_output",
        kind=OutputHold(),
        label="Held output",
        help="The most output tokens to hold for a call, for programs whose limit is far above what they use. A call "
        "without a limit holds this many. A call may then cost more than was held. all: the whole limit of the call.",
        placeholder="all that a call's limit allows, or 8000",
    ),
    Field(
        name="fit_output",
        kind=Flag("lower it to what is left", "reject the call"),
        label="Unpayable output limit",
        help="Whether a call whose output limit costs more than is left gets a lower limit, of at least 1024 tokens, "
        "instead of being rejected.",
    ),
    Field(
        name="color",
        kind=Choice({item: item.value for item in Color}),
        help="Color of its name in the console.",
    ),
    _NOTE,
)

GROUP: Table = (
    _name("friends", "; its tokens and channels follow"),
    Field(
        name="multiplier",
        kind=Multiplier(),
        label="Price factor",
        help="Multiplies the price: 1.5 adds half, 0 makes calls free.",
        placeholder="1.5 adds half, 0 is free",
        basic=True,
    ),
    Field(
        name="models",
        kind=Patterns(empty_text="all that its channels offer"),
        help="Show only these models of its channels: 'gpt-*,demo-*'; '*' for all.",
        placeholder="all its channels offer, or patterns: gpt-*",
        basic=True,
    ),
    Field(
        name="policy",
        kind=Choice(
            {
                Policy.PRIORITY: "highest priority first",
                Policy.CHEAPEST: "cheapest first",
                Policy.FASTEST: "fastest first",
                Policy.LOCAL: "local first, unless busy",
            }
        ),
        label="Routing order",
        help="Which of its channels is tried first.",
    ),
    Field(
        name="sticky",
        kind=Flag("stay on one channel", "may switch channels"),
        label="Conversations",
        help="Whether a conversation stays on the channel that has its prompt cached; those of Messages and Responses "
        "always do.",
        option="--sticky/--not-sticky",
    ),
    Field(
        name="fallbacks",
        kind=Fallbacks(),
        help="Models that may answer for another when no channel can serve it: gpt-4o=claude-sonnet,qwen3:8b. Patterns "
        "work too. A token with models of its own must be allowed to use them. Replaces the current fallbacks.",
        option="--fallback",
        placeholder="none, or gpt-*=claude-sonnet-4-5,qwen3:8b",
    ),
    *_BUDGETS,
    _CLIENT_LIMITS,
    _NOTE,
)


def _checked_proxy(text: str) -> str:
    """Returns the text. Raises BadRequest if it is not the URL of a proxy."""
    parse_proxy(text)
    return text


CHANNEL: Table = (
    _name("openai"),
    Field(
        name="preset",
        kind=Text(metavar="NAME", completes="presets"),
        help="Known upstream: 'tollkeeper channel presets'; by default the one of the base URL.",
        placeholder="from the URL; or openrouter, groq, ollama",
        basic=True,
    ),
    Field(
        name="base_url",
        kind=Text(metavar="URL", check=checked_base_url),
        label="Base URL",
        help="The address before /chat/completions: https://host/v1",
        placeholder="from the preset; or https://api.openai.com/v1 (mock has none)",
        basic=True,
    ),
    Field(
        name="groups",
        kind=Names(
            empty_text="none: no token can use it",
            clear_option=("--no-groups", "Serve no group: no token can use it."),
            completes="groups",
            item="group",
        ),
        help="The groups it serves: default,friends; a new channel serves 'default', or the only one.",
        option="--group",
        placeholder="none: no token can use it",
        basic=True,
    ),
    Field(
        name="priority",
        kind=Number(minimum=None),
        help="Higher is tried first.",
        placeholder="higher is tried first",
    ),
    Field(
        name="weight",
        kind=Number(),
        help="Share of calls within one priority.",
        placeholder="share of calls within one priority",
    ),
    Field(
        name="cost_factor",
        kind=Multiplier(),
        help="What the channel really costs, as a multiple of the price: 0.5. Only the policy 'cheapest' uses it.",
        placeholder="times the price, for groups that try the cheapest first",
    ),
    Field(
        name="limits",
        kind=RateLimits(names=CHANNEL_LIMITS),
        help="",
        placeholder="none, or rpm=60 tpm=200k concurrent=4 queue_s=30",
    ),
    Field(
        name="timeouts",
        kind=Deadlines(),
        label="Timeouts, seconds",
        help="connect, head, idle, comments or total, in seconds: head=60, or head=default.",
        option="--timeout",
        placeholder="default: connect=10 head=120 idle=300 comments=900 total=600",
    ),
    Field(
        name="overrides",
        input_id="parameters",
        kind=RequestOverrides(),
        label="Parameters",
        help="",
        placeholder="none, or temperature=0.2 ?seed=1 -logprobs",
    ),
    Field(
        name="overrides",
        input_id="system",
        kind=SystemPrompt(),
        label="System prompt",
        help="A system prompt; '' for none.",
        option="--system",
        placeholder="none",
    ),
    Field(
        name="overrides",
        input_id="replace_system",
        kind=PromptPlace(),
        label="Prompt goes",
        help="Put the system prompt in place of the client's, or before it.",
        option="--replace-system/--prepend-system",
    ),
    Field(
        name="headers",
        kind=Headers(),
        help="Send this request header too. Replaces the current ones. May be repeated.",
        option="--header",
        placeholder=f"none, or {HEADERS_EXAMPLE}",
    ),
    Field(
        name="proxy",
        kind=Secret(metavar="URL", check=_checked_proxy),
        help="HTTP proxy to go through: http://host:3128, env:NAME, - for stdin, or none.",
        placeholder="none, or http://host:3128, or env:NAME",
    ),
    Field(
        name="options",
        kind=MockOptions(),
        label="Mock options",
        help="Option of the mock dialect: latency=200 (ms), bad_json=true; latency=none removes it.",
        option="--option",
        placeholder="latency=200",
    ),
    Field(
        name="token_limit_field",
        kind=Choice({None: "the vendor's usual name", **{item: item.value for item in TokenLimitField}}),
        label="Output limit",
        help="The upstream's name for the limit on output tokens.",
    ),
    Field(
        name="strict",
        kind=Flag("return the error", "drop it and retry"),
        label="Rejected parameter",
        help="Whether a call fails, instead of being retried without it, when the upstream rejects a parameter.",
        option="--strict/--lenient",
    ),
    Field(
        name="finish_abandoned",
        kind=Flag("finish if not streamed", "cancel it"),
        label="If the client leaves",
        help="Whether a call without streaming continues when its client disconnects.",
        option="--finish-abandoned/--cancel-abandoned",
    ),
    Field(
        name="cache_marks",
        kind=Flag("mark what Anthropic may cache", "only as the client marks it"),
        label="Prompt cache",
        help="Whether prompts that are translated for Anthropic get cache marks where the client sets none.",
    ),
    Field(
        name="known_prices",
        kind=Flag("set for new models", "not set"),
        help="Whether new models without a price get their vendor's list price.",
        option="--prices/--no-prices",
    ),
    _NOTE,
)

ACCOUNT: Table = (
    Field(
        name="status",
        kind=Choice({item: item.value for item in AccountStatus}),
        help="A suspended account spends nothing.",
    ),
    *_BUDGETS,
    Field(
        name="stop_when_empty",
        kind=_STREAMS,
        label="When the budget runs out",
        help="Whether running streams are stopped when the money is gone.",
        option="--stop-when-empty/--finish-when-empty",
        basic=True,
    ),
)

_YES = Flag("yes", "no")


def _limits(section: Section, unit: str = "", zero: str = "no limit", **rows: tuple[str, str]) -> Sequence[Field]:
    """Returns fields of numbers by name. Each row has the label and the help; ``zero`` is the word for 0."""
    kind = Number(unit=unit, zero=zero)
    return [
        Field(name=name, kind=kind, label=label, help=text, section=section) for name, (label, text) in rows.items()
    ]


SETTINGS: Table = (
    Field(
        name="durability",
        kind=Choice({item: item.value for item in Durability}),
        help="interval: synced every 100 ms (the default); call: each answer ends only after its own sync.",
        section="Calls",
    ),
    Field(
        name="refuse_unpriced",
        kind=_YES,
        help="Whether calls to models without a price are rejected.",
        option="--refuse-unpriced/--allow-unpriced",
        section="Calls",
    ),
    Field(
        name="strict_streams",
        kind=_YES,
        help="Whether a stream ends with an error at the first event that cannot be read. Otherwise one such event is "
        "left out; a comment at the end of the stream, the receipt and Live say so.",
        option="--strict-streams/--lenient-streams",
        section="Calls",
    ),
    Field(
        name="hosts",
        kind=Names(empty_text="loopback names only", none_word=True, item="host"),
        help="Additional host names that clients may use, or none.",
        section="Access",
    ),
    Field(
        name="origins",
        kind=Names(empty_text="none", none_word=True, item="origin"),
        help="Web pages that may call the gateway: https://app.example.com, or none.",
        section="Access",
    ),
    Field(
        name="app_origins",
        kind=_YES,
        label="Apps",
        help="Whether desktop apps and browser extensions may call: app://, chrome-extension://, null and the like.",
        section="Access",
    ),
    Field(
        name="loopback_origins",
        kind=_YES,
        label="Local pages",
        help="Whether web pages that this machine serves may call: http://localhost:3000 and the like.",
        section="Access",
    ),
    Field(
        name="ollama_token",
        kind=Text(metavar="NAME", completes="tokens", none_word=True),
        label="Ollama's token",
        help="The token for programs on this machine that speak Ollama's API and send no key, or none.",
        section="Ollama",
    ),
    Field(
        name="ollama_port",
        kind=Number(maximum=65535, zero="off"),
        label="Ollama's port",
        help="A second port, usually 11434, for programs on this machine that speak Ollama's API and send no key; "
        "off: none.",
        section="Ollama",
    ),
    Field(
        name="list_for_claude",
        kind=_YES,
        label="List for Claude",
        help="Whether /v1/models lists models as claude/NAME for Claude Code, which shows no other names.",
        section="Calls",
    ),
    Field(
        name="keep_days",
        kind=Number(minimum=1, unit="days"),
        label="Keep records",
        help="Days to keep call records; their sums are kept forever.",
        section="Calls",
    ),
    Field(
        name="refresh_models_h",
        kind=Number(maximum=8760, unit="hours", zero="never"),
        label="Refresh models",
        help="Hours after which the model lists that patterns select from are fetched again; 0: never.",
        section="Calls",
    ),
    Field(
        name="stop_on_leave",
        kind=_YES,
        help="Whether leaving the console stops the server.",
        option="--stop-on-leave/--stay-on-leave",
        section="Console",
    ),
    *_limits(
        "Limits",
        token_streams=("Token streams", "Streams of a token at once unless it has its own limit; 0: no limit."),
        channel_calls=("Channel calls", "Calls of a channel at once unless it has its own limit; 0: no limit."),
    ),
    *_limits(
        "Limits", zero="none", queue=("Waiting calls", "Calls that may wait for a free slot of one token or channel.")
    ),
    Field(
        name="queue_s",
        kind=Number(maximum=600, unit="s", zero="none"),
        label="Longest wait",
        help="Seconds a call may wait for a slot; 0: rejected immediately.",
        section="Limits",
    ),
    *_limits(
        "Load",
        connections=("Connections", "Open connections of clients; 0: no limit."),
        address_connections=("From one address", "Connections from one address of another machine; 0: no limit."),
    ),
    *_limits(
        "Load",
        unit="MiB together",
        bodies_mib=("Request bodies", "MiB of memory for all request bodies together; 0: no limit."),
        answers_mib=("Answers", "MiB of memory for all answers together; 0: no limit."),
    ),
    *_limits(
        "Load",
        unit="MiB together",
        zero="none",
        responses_mib=("Responses kept", "MiB of memory for responses that clients may continue or fetch; 0: none."),
    ),
    *_limits(
        "Load", unit="MiB", memory_mib=("Memory", "MiB of memory above which new calls are rejected; 0: no limit.")
    ),
)

FIELDS: Mapping[str, Table] = {
    "account": ACCOUNT,
    "settings": SETTINGS,
    "tokens": TOKEN,
    "groups": GROUP,
    "channels": CHANNEL,
    "prices": PRICE,
}
"""The fields of the entities in each table of the registry."""


def changed_fields(table: Table, options: Mapping[str, Any], before: msgspec.Struct) -> dict[str, Any]:
    """Returns the body of an edit: the fields that a command's options change. Raises BadRequest for an invalid one."""
    changed: dict[str, Any] = {}
    for field in table:
        value = field.kind.change(field, options, changed.get(field.name, getattr(before, field.name)))
        if value is not msgspec.UNSET:
            changed[field.name] = value
    return {name: json_value(value) for name, value in changed.items()}


def details(table: Table, entity: msgspec.Struct, *excluded: str) -> list[tuple[str, str]]:
    """Returns the label and the text of each field, for ``show`` and the detail panes. Attributes are shown once."""
    first_by_name = {field.name: field for field in reversed(table) if field.name not in excluded}
    return [(f.detail, f.kind.show(getattr(entity, f.name))) for f in table if first_by_name.get(f.name) is f]
