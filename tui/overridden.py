"""Overridden: what a channel changes in every request, as it is typed: ``temperature=0.2 ?max_tokens=4096 -logprobs``.

Plain is always set, ``?`` stands before what is set if the client gives none, ``-`` before what never goes out.
"""

import json
import shlex
from typing import Any

from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest

DEFAULT, REMOVE = "?", "-"
BREAK = "\\n"
"""A new line of the system prompt, in a field that has one line."""


def parameters(text: str) -> Overrides:
    """The parameters; the system prompt is a field of its own. Raises BadRequest."""
    always: dict[str, Any] = {}
    usual: dict[str, Any] = {}
    never: list[str] = []
    try:
        words = shlex.split(text, posix=True)
    except ValueError as exc:
        raise BadRequest(f"a quotation mark is missing: {exc}") from exc
    for word in words:
        name, equals, value = word.removeprefix(DEFAULT).partition("=")
        if word.startswith(REMOVE) and not equals:
            never.append(word.removeprefix(REMOVE))
        elif not name or not equals:
            raise BadRequest(f"{word!r} is neither name=value, ?name=value nor -name")
        else:
            (usual if word.startswith(DEFAULT) else always)[name] = _value(value)
    return Overrides(set=always, default=usual, remove=tuple(dict.fromkeys(never)))


def written(found: Overrides | None) -> str:
    """The parameters as they are typed."""
    if found is None:
        return ""
    words = [f"{name}={_text(value)}" for name, value in found.set.items()]
    words += [f"{DEFAULT}{name}={_text(value)}" for name, value in found.default.items()]
    return " ".join([*map(_quoted, words), *_never(found)])


def prompt(text: str) -> str:
    """The system prompt of a field."""
    return text.strip().replace(BREAK, "\n")


def written_prompt(found: Overrides | None) -> str:
    """As it is typed, on one line."""
    return found.system.replace("\n", BREAK) if found else ""


def twin(found: Overrides, before: Overrides | None) -> str:
    """The options that say the same, all of them anew if there were some before; empty if nothing changed."""
    if found == (before or Overrides()):
        return ""
    parts = ["--no-overrides"] if before else []
    parts += [f"--set-param {shlex.quote(f'{name}={_text(value)}')}" for name, value in found.set.items()]
    parts += [f"--default-param {shlex.quote(f'{name}={_text(value)}')}" for name, value in found.default.items()]
    parts += [f"--remove-param {shlex.quote(name)}" for name in found.remove]
    parts += [f"--system {shlex.quote(found.system)}"] if found.system else []
    parts += ["--replace-system"] if found.replace_system else []
    return "".join(f" {part}" for part in parts)


def _never(found: Overrides) -> list[str]:
    return [f"{REMOVE}{shlex.quote(name)}" for name in found.remove]


def _quoted(word: str) -> str:
    """The mark in front stays outside the quotation marks."""
    mark = DEFAULT if word.startswith(DEFAULT) else ""
    return mark + shlex.quote(word.removeprefix(mark))


def _value(text: str) -> Any:
    """JSON where it is some, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    """Text as it is, unless it would be read as something else."""
    if isinstance(value, str) and isinstance(_value(value), str) and _value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
