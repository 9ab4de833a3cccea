"""Parts become blocks; what Anthropic does not take is named."""

import base64

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.anthropic.messages import blocks_of, result_block
from gateway.upstream.translate.conversation import Media, Text

CACHE = msgspec.Raw(b'{"type":"ephemeral"}')


def _text(text: str, cache: msgspec.Raw = rawjson.NULL) -> Text:
    return Text(raw=rawjson.raw(text), cache=cache)


def _plain(value: object) -> object:
    return msgspec.json.decode(rawjson.encode(value))


def test_texts_keep_their_breakpoint_and_blank_ones_are_left_out() -> None:
    found = _plain(blocks_of((_text("a", CACHE), _text(""), _text(" \n"))))
    assert found == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize("kind", ["image/jpeg", "image/png", "image/gif", "image/webp"])
def test_images(kind: str) -> None:
    source = {"type": "base64", "media_type": kind, "data": "AA"}
    assert _plain(blocks_of((Media(type=kind, data="AA", where="x"),))) == [{"type": "image", "source": source}]


def test_an_image_on_the_web_is_fetched_by_anthropic() -> None:
    found = _plain(blocks_of((Media(url="https://h/i.png", where="x", cache=CACHE),)))
    source = {"type": "url", "url": "https://h/i.png"}
    assert found == [{"type": "image", "source": source, "cache_control": {"type": "ephemeral"}}]


def test_documents() -> None:
    pdf, text = Media(type="application/pdf", data="AA", where="x"), base64.b64encode("né".encode()).decode()
    found = _plain(blocks_of((pdf, Media(type="text/plain", data=text, where="x"))))
    assert found == [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "né"}},
    ]


@pytest.mark.parametrize(
    ("media", "code"),
    [
        (Media(type="audio/wav", data="AA", where="messages[0].content[1]"), "unsupported_parameter"),
        (Media(type="image/bmp", data="AA", where="messages[0].content[1]"), "unsupported_parameter"),
        (Media(type="text/plain", data="/w==", where="messages[0].content[1]"), "invalid_value"),
    ],
)
def test_what_it_does_not_take_is_named(media: Media, code: str) -> None:
    with pytest.raises(BadRequest) as caught:
        blocks_of((media,))
    assert (caught.value.code, caught.value.param) == (code, "messages[0].content[1]")


def test_a_result_has_its_breakpoint_at_its_end() -> None:
    found = _plain(result_block("t", (_text("a", CACHE), _text("b"))))
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    expected = {"type": "tool_result", "tool_use_id": "t", "content": content, "cache_control": {"type": "ephemeral"}}
    assert found == expected


def test_an_empty_result_has_no_content() -> None:
    assert result_block("t", (_text(""),)) == {"type": "tool_result", "tool_use_id": "t"}
