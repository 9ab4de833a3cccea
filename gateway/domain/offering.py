"""Offering: the models of a channel as its owner types them in the console's form and in ``--models``."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.domain.channel import ChannelFields, ServedModel
from gateway.domain.patterns import is_pattern
from gateway.domain.quoting import model_pair, quote_name, split_names
from gateway.domain.urls import refuse_url


class Offering(msgspec.Struct, frozen=True):
    """The models that a channel offers: single ones, and patterns for the upstream's list."""

    models: list[ServedModel]
    """The models that are listed by name. Which ones the patterns select is up to the server, whose list is newer."""
    patterns: list[str]

    def patch(self) -> dict[str, Any]:
        """Returns the offering as a request body."""
        return {"models": msgspec.to_builtins(self.models), "patterns": self.patterns}


def read_offering(text: str, known: Sequence[ServedModel] = ()) -> Offering:
    """Returns the offering of ``a, name=upstream, gpt-*, !*-preview``, with data of ``known``. Raises BadRequest."""
    by_name = {model.name: model for model in known}
    named = {model.name for model in known if not model.live}
    models, patterns = [], []
    for word in dict.fromkeys(split_names(text)):
        name, upstream = model_pair(word)
        for part in (name, upstream):
            refuse_url(part)
        if not upstream and is_pattern(name) and name not in named:
            patterns.append(name)
            continue
        model = by_name.get(name, ServedModel(name=name))
        models.append(msgspec.structs.replace(model, upstream="" if upstream == name else upstream, live=False))
    return Offering(models, patterns)


def offering_of(channel: ChannelFields) -> Offering:
    """Returns the offering of a channel as its owner configured it."""
    return Offering([model for model in channel.models if not model.live], list(channel.patterns))


def offering_words(offering: Offering) -> list[str]:
    """Returns the words that a user would type for the offering, separated by commas."""
    named = [
        quote_name(m.name, "=") + (f"={quote_name(m.upstream, '=')}" if m.upstream else "") for m in offering.models
    ]
    return [*named, *(quote_name(pattern, "=") for pattern in offering.patterns)]
