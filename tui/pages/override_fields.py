"""Override fields: what of a channel's requests is changed, as three fields of its form."""

from collections.abc import Mapping

from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest
from tui import overridden
from tui.widgets.form import Field, Values

STANDS = ("before the client's", "instead of the client's")


def fields(found: Overrides | None) -> list[Field]:
    """Parameters, the system prompt, and where that stands."""
    prompt = overridden.written_prompt(found)
    return [
        Field(
            id="parameters",
            label="Parameters",
            value=overridden.written(found),
            hint="as they come, or temperature=0.2 ?max_tokens=4096 -logprobs",
            parse=overridden.parameters,
        ),
        Field(
            id="system",
            label="System prompt",
            value=prompt,
            hint="none of its own",
            parse=lambda text: found.system if found and text == prompt else overridden.prompt(text),
        ),
        Field(
            id="replace_system",
            label="It stands",
            value=STANDS[bool(found and found.replace_system)],
            options=STANDS,
            parse=lambda text: text == STANDS[1],
        ),
    ]


def value(values: Values) -> Overrides:
    """Of the three fields about them. Raises BadRequest."""
    found = values["parameters"]
    replaces = values["replace_system"] and bool(values["system"])
    return Overrides(
        set=found.set,
        default=found.default,
        remove=found.remove,
        system=values["system"],
        replace_system=replaces,
    )


def twin(values: Mapping[str, str], there: Overrides | None) -> str:
    """The options that say the same; nothing while what is typed makes no sense."""
    try:
        read = {field.id: field.parse(values[field.id]) for field in fields(there)}
    except BadRequest:
        return ""
    return overridden.twin(value(read), there)
