"""Parts: texts, media and tool results as parts of Gemini's contents."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.chat.media import Media
from gateway.upstream.chat.refused import unsupported
from gateway.upstream.chat.turns import Text, Turn
from gateway.upstream.gemini.rows import Row

Part = dict[str, Any]

_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "pdf": "application/pdf",
}
"""By the ending of an address."""


def parts_of(parts: tuple[Text | Media, ...], row: Row) -> list[Part]:
    """The parts; empty texts are left out. Raises BadRequest for what the model does not take."""
    return [
        {"text": part.raw} if isinstance(part, Text) else _media(part, row)
        for part in parts
        if not (isinstance(part, Text) and bytes(part.raw) == b'""')
    ]


def result_parts(turn: Turn, name: str, row: Row) -> list[Part]:
    """A tool's result, and beside it the media that the model does not take inside."""
    texts = [part for part in turn.parts if isinstance(part, Text)]
    media = [_media(part, row) for part in turn.parts if isinstance(part, Media)]
    response: Part = {"id": turn.answers, "name": name, "response": _response(texts)}
    if not row.media_results:
        return [{"functionResponse": response}, *media]
    return [{"functionResponse": {**response, "parts": media} if media else response}]


def _response(texts: list[Text]) -> object:
    """Must be an object: a text that is one stays as it is, any other becomes the ``output``."""
    whole = "".join(text.value for text in texts)
    try:
        rawjson.fields(whole.strip().encode("utf-8", "surrogatepass"))
    except ValueError:
        return {"output": texts[0].raw if len(texts) == 1 else whole}
    return msgspec.Raw(whole.strip().encode())


def _media(media: Media, row: Row) -> Part:
    if not media.url:
        return {"inlineData": {"mimeType": media.type, "data": media.data}}
    if not row.urls:
        raise unsupported(media.where, "this model fetches nothing from the web; send a base64 data: URL")
    kind = _TYPES.get(urlsplit(media.url).path.rpartition(".")[2].lower())
    return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": media.url}}
