"""Texts, media and results become parts; what the model does not take is named."""

import json
from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.gemini.models import row_of
from gateway.upstream.gemini.request import parts_of, result_parts
from gateway.upstream.translate.conversation import Media, Text, Turn

OLD, NEW = row_of("gemini-2.0-flash"), row_of("gemini-3.8-flash")
IMAGE = Media(type="image/png", data="AA", where="x")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "AA"}}


def _text(text: str) -> Text:
    return Text(raw=rawjson.raw(text))


def _result(*parts: Text | Media, row: Any = NEW) -> Any:
    turn = Turn(role="tool", parts=parts, answers="c1", name="f")
    return json.loads(rawjson.encode(result_parts(turn, "f", row)))


def test_texts_and_data() -> None:
    sound = Media(type="audio/wav", data="BB", where="x")
    found = json.loads(rawjson.encode(parts_of((_text("a"), _text(""), IMAGE, sound), OLD)))
    assert found == [{"text": "a"}, INLINE, {"inlineData": {"mimeType": "audio/wav", "data": "BB"}}]


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("https://h/a.PNG?x=1", {"mimeType": "image/png", "fileUri": "https://h/a.PNG?x=1"}),
        ("https://h/a", {"fileUri": "https://h/a"}),
    ],
)
def test_an_address_is_fetched_by_google(url: str, data: dict[str, str]) -> None:
    assert parts_of((Media(url=url, where="x"),), NEW) == [{"fileData": data}]


def test_but_not_for_older_models() -> None:
    with pytest.raises(BadRequest) as caught:
        parts_of((Media(url="https://h/a.png", where="messages[0].content[0].image_url"),), OLD)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "messages[0].content[0].image_url")


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ('{"celsius": 4}', {"celsius": 4}),
        (' {"a": {}}\n', {"a": {}}),
        ("Oslo", {"output": "Oslo"}),
        ("[1]", {"output": "[1]"}),
        ("", {"output": ""}),
    ],
)
def test_a_result_is_an_object(text: str, response: Any) -> None:
    expected = {"functionResponse": {"id": "c1", "name": "f", "response": response}}
    assert _result(_text(text)) == [expected]


def test_a_result_of_many_parts_is_one_text() -> None:
    assert _result(_text("a"), _text("b"))[0]["functionResponse"]["response"] == {"output": "ab"}
    assert _result()[0]["functionResponse"]["response"] == {"output": ""}


def test_media_stand_inside_a_result_or_beside_it() -> None:
    inside = _result(_text("a"), IMAGE)
    assert (len(inside), inside[0]["functionResponse"]["parts"]) == (1, [INLINE])
    beside = _result(_text("a"), IMAGE, row=OLD)
    assert ("parts" in beside[0]["functionResponse"], beside[1]) == (False, INLINE)
