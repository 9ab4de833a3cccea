"""Pair kinds: kinds of fields whose value is a set of NAME=VALUE pairs, such as deadlines and headers, and the kinds
of a channel's overrides. ``field_kinds.Kind`` describes their methods.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import Overrides, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORD, Field, Flag, Kind, Option, Text
from gateway.domain.group import Fallback
from gateway.domain.human_values import parse_seconds
from gateway.domain.list_kinds import Pairs, shell_words, unique_pairs
from gateway.domain.quoting import option_names, option_pair, option_text, require_names
from gateway.domain.text import REFERENCE
from gateway.domain.units import Millis

HEADERS_EXAMPLE = "X-Team=blue X-Title='my app' X-Pass=env:NAME"


def json_or_text(text: str) -> Any:
    """Returns the JSON value if the text is valid JSON, else the text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def json_text(value: Any) -> str:
    """Returns the text that ``json_or_text`` reads as this value: the value itself if it is such a text, else JSON."""
    return value if isinstance(value, str) and json_or_text(value) == value else json.dumps(value, ensure_ascii=False)


class Deadlines(Pairs[Timeouts]):
    """Deadlines in seconds, by name. ``NAME=default`` resets one; a form resets all that are not typed."""

    metavar: str = "NAME=SECONDS"
    removal: str = "default"

    def value(self, pairs: Mapping[str, str], before: Timeouts | None) -> Timeouts:
        defaults = msgspec.structs.asdict(Timeouts())
        if unknown := next((name for name in pairs if name not in defaults), None):
            raise BadRequest(f"unknown deadline {unknown!r}; use {', '.join(defaults)}, as in head=60")
        changes = {
            name: defaults[name] if text == "default" else parse_seconds(text, f"{name}: ")
            for name, text in pairs.items()
        }
        return msgspec.structs.replace(before or Timeouts(), **changes)

    def pairs(self, value: Timeouts) -> Mapping[str, str]:
        defaults = msgspec.structs.asdict(Timeouts())
        deadlines = msgspec.structs.asdict(value)
        return {name: _brief(seconds) for name, seconds in deadlines.items() if seconds != defaults[name]}

    def show(self, value: Timeouts) -> str:
        return ", ".join(f"{name} {_brief(seconds)}s" for name, seconds in msgspec.structs.asdict(value).items())


def _brief(seconds: float) -> str:
    """Returns seconds as ``2.5`` or ``60``."""
    return str(seconds).removesuffix(".0")


class Headers(Pairs[dict[str, str]]):
    """Request headers. Values that are not references to variables may be secret, and are masked in views."""

    clear_option: tuple[str, str] = ("--no-headers", "Remove all additional headers.")

    def value(self, pairs: Mapping[str, str], before: dict[str, str] | None) -> dict[str, str]:
        return dict(pairs)

    def pairs(self, value: dict[str, str]) -> Mapping[str, str]:
        """Returns the pairs, with ``VALUE`` in place of each secret, which the owner must replace."""
        return {name: text if text.startswith(REFERENCE) else "VALUE" for name, text in value.items()}

    def text(self, value: dict[str, str]) -> str:
        """Returns the text; empty if a value may be secret."""
        has_only_references = all(text.startswith(REFERENCE) for text in value.values())
        return super().text(value) if has_only_references else ""

    def show(self, value: dict[str, str]) -> str:
        return ", ".join(f"{name}: {text}" for name, text in value.items())


class MockOptions(Pairs[dict[str, Any]]):
    """Options of the mock dialect, as JSON values by name."""

    removal: str = NONE_WORD

    def value(self, pairs: Mapping[str, str], before: dict[str, Any] | None) -> dict[str, Any]:
        """Returns the options. Names may have hyphens: ``no-usage`` is ``no_usage``."""
        typed = {name.replace("-", "_"): json_or_text(text) for name, text in pairs.items()}
        return {name: option for name, option in {**(before or {}), **typed}.items() if option != NONE_WORD}

    def pairs(self, value: dict[str, Any]) -> Mapping[str, str]:
        return {name: json_text(item) for name, item in value.items()}

    def show(self, value: dict[str, Any]) -> str:
        return ", ".join(f"{name}={item}" for name, item in value.items())


class Fallbacks(Pairs[tuple[Fallback, ...]]):
    """Models that may answer for others: ``gpt-*=a,b other=c``."""

    metavar: str = "MODEL=OTHERS"
    clear_option: tuple[str, str] = ("--no-fallbacks", "No other model may answer.")

    def value(self, pairs: Mapping[str, str], before: tuple[Fallback, ...] | None) -> tuple[Fallback, ...]:
        rules = tuple(Fallback(model=model, to=tuple(option_names([others]))) for model, others in pairs.items())
        if model := next((rule.model for rule in rules if not {*rule.to} - {rule.model}), None):
            raise BadRequest(f"{model!r} names no other model; write it as in gpt-*=claude-sonnet-4-5")
        return rules

    def pairs(self, value: tuple[Fallback, ...]) -> Mapping[str, str]:
        return {rule.model: ",".join(rule.to) for rule in value}

    def arguments(self, field: Field, before: tuple[Fallback, ...], after: tuple[Fallback, ...]) -> Sequence[str]:
        for rule in after:
            option_text(rule.to)  # raises BadRequest for a name with a comma, which no option can contain
        return super().arguments(field, before, after)

    def show(self, value: tuple[Fallback, ...]) -> str:
        return "; ".join(f"{rule.model}: {', '.join(rule.to)}" for rule in value)


PROMPT_PLACES = ("before the client's", "instead of the client's")
DEFAULT, REMOVE = "?", "-"
"""The first characters of a parameter that is set by default, and of one that is removed."""


class RequestOverrides(Kind[Overrides | None]):
    """Parameters such as ``temperature=0.2 ?max_tokens=4096 -logprobs``: always set, set by default, and removed.

    The system prompt and its place have inputs of their own.
    """

    def options(self, field: Field) -> Sequence[Option]:
        pairs: dict[str, Any] = {"metavar": "NAME=VALUE", "read": lambda text, _: option_pair(text), "multiple": True}
        otherwise = "--no-overrides removes all that is set here"
        names = pairs | {"metavar": "NAMES", "read": lambda text, _: require_names(text, otherwise)}
        none_help = "Remove the parameters and the system prompt set here."
        return [
            Option(flags="--set-param", name="set_params", help="Set this parameter in every request.", **pairs),
            Option(flags="--default-param", name="default_params", help="Set it in requests without it.", **pairs),
            Option(flags="--remove-param", name="remove_params", help="Never send these parameters.", **names),
            Option(flags="--no-overrides", name="no_overrides", help=none_help),
        ]

    def change(self, field: Field, options: Mapping[str, Any], before: Overrides | None) -> Any:
        """Returns the overrides after these options. The options of one kind replace all parameters of that kind."""
        changes: dict[str, Any] = {}
        for kind in ("set", "default"):
            if pairs := options.get(f"{kind}_params"):
                pairs_by_name = unique_pairs(pairs, f"--{kind}-param")
                changes[kind] = {name: json_or_text(text) for name, text in pairs_by_name.items()}
        if names := options.get("remove_params"):
            changes["remove"] = tuple(option_names(names))
        if not changes:
            return None if options.get("no_overrides") else msgspec.UNSET
        base = Overrides() if before is None or options.get("no_overrides") else before
        return msgspec.structs.replace(base, **changes)

    def text(self, value: Overrides | None) -> str:
        overrides = value or Overrides()
        words = [shlex.quote(f"{name}={json_text(item)}") for name, item in overrides.set.items()]
        words += [DEFAULT + shlex.quote(f"{name}={json_text(item)}") for name, item in overrides.default.items()]
        return " ".join([*words, *(REMOVE + shlex.quote(name) for name in overrides.remove)])

    def read(self, text: str, now: Millis) -> Overrides:
        always: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        removed: list[str] = []
        for word in shell_words(text):
            name, equals, value = word.removeprefix(DEFAULT).partition("=")
            if word.startswith(REMOVE) and not equals:
                removed.append(word.removeprefix(REMOVE))
            elif not name or not equals:
                raise BadRequest(f"{word!r} is not name=value, ?name=value or -name")
            else:
                (defaults if word.startswith(DEFAULT) else always)[name] = json_or_text(value)
        return Overrides(set=always, default=defaults, remove=tuple(dict.fromkeys(removed)))

    def content(self, value: Overrides | None) -> Overrides:
        return msgspec.structs.replace(value or Overrides(), system="", replace_system=False)

    def with_content(self, value: Overrides | None, content: Overrides) -> Overrides | None:
        base = value or Overrides()
        return msgspec.structs.replace(content, system=base.system, replace_system=base.replace_system) or None

    def arguments(self, field: Field, before: Overrides | None, after: Overrides | None) -> Sequence[str]:
        """Returns the arguments that set all overrides, including the prompt, after ``--no-overrides`` removed all."""
        overrides, arguments = after or Overrides(), ["--no-overrides"] if before else []
        for option, pairs in (("--set-param", overrides.set), ("--default-param", overrides.default)):
            for name, value in pairs.items():
                arguments += [option, f"{name}={json_text(value)}"]
        for name in overrides.remove:
            arguments += ["--remove-param", name]
        arguments += ["--system", overrides.system] if overrides.system else []
        return [*arguments, "--replace-system"] if overrides.replace_system else arguments

    def show(self, value: Overrides | None) -> str:
        if value is None:
            return ""
        parts = [f"always {name}={json.dumps(item)}" for name, item in value.set.items()]
        parts += [f"by default {name}={json.dumps(item)}" for name, item in value.default.items()]
        parts += [f"never {name}" for name in value.remove]
        if value.system:
            parts.append(f"system prompt {PROMPT_PLACES[value.replace_system]}: {SystemPrompt().text(value)}")
        return ", ".join(parts)


class SystemPrompt(Text):
    r"""The system prompt of overrides, with ``\n`` for a line break in an input of one line.

    ``RequestOverrides`` returns its arguments of a command.
    """

    line_break: str = r"\n"

    def text(self, value: Any) -> str:
        return self.content(value).replace("\n", "\\n")

    def read(self, text: str, now: Millis) -> str:
        return text.strip().replace("\\n", "\n")

    def content(self, value: Any) -> str:
        return (value or Overrides()).system

    def with_content(self, value: Any, content: str) -> Any:
        return msgspec.structs.replace(value or Overrides(), system=content) or None

    def arguments(self, field: Field, before: Any, after: Any) -> Sequence[str]:
        return []


class PromptPlace(Flag):
    """Whether the system prompt replaces the client's. ``RequestOverrides`` returns its arguments of a command."""

    on: str = PROMPT_PLACES[True]
    off: str = PROMPT_PLACES[False]

    def content(self, value: Any) -> bool:
        return bool(value and value.replace_system)

    def with_content(self, value: Any, content: bool) -> Any:  # noqa: FBT001 - the value itself
        return msgspec.structs.replace(value or Overrides(), replace_system=content) or None

    def arguments(self, field: Field, before: Any, after: Any) -> Sequence[str]:
        return []
