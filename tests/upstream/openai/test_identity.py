"""An answer's id and time are the upstream's if they are good, its model is what was asked for."""

import pytest

from gateway.upstream import rawjson
from gateway.upstream.openai.chunks import CHUNK, ID_LIMIT, identity, upstream_id
from gateway.upstream.redaction.answers import NO_SCREEN
from tests.fakes.replies import dumps
from tests.upstream.makers import order


def _identity(doc: object) -> dict[str, object]:
    fields = rawjson.fields(dumps(doc))
    found = identity(fields, upstream_id(fields, NO_SCREEN), order(model="mine"), CHUNK)
    return {name: rawjson.value(value) for name, value in found.items()}


def test_good_ones_are_kept() -> None:
    assert _identity({"id": "x", "created": 5, "model": "theirs"}) == {
        "id": "x", "object": "chat.completion.chunk", "created": 5, "model": "mine"
    }  # fmt: skip


@pytest.mark.parametrize("id", [None, "", 5, "x" * ID_LIMIT, "x" * 1_000_000, []])
def test_an_id_that_is_none_is_made(id: object) -> None:
    assert _identity({"id": id})["id"] == "chatcmpl-ours"


@pytest.mark.parametrize("created", [None, 0, -1, True, "5", 1.5])
def test_a_time_that_is_none_is_made(created: object) -> None:
    assert _identity({"created": created})["created"] == 77


def test_the_upstreams_id_is_harmless() -> None:
    assert "\x1b" not in upstream_id(rawjson.fields(dumps({"id": "a\x1b[31m"})), NO_SCREEN)
