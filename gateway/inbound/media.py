"""Media: images, sounds and documents in requests to OpenAI's APIs and Ollama's."""

import re

import msgspec

from gateway.domain.conversation import MediaPart
from gateway.domain.errors import BadRequest
from gateway.domain.rawjson import NULL

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_MEDIA_TYPE_ALIASES = {"image/jpg": "image/jpeg"}
_AUDIO_FORMAT = re.compile(r"[a-z0-9]{2,8}")


def image_part(url: str, where: str, *, detail: str = "", cache: msgspec.Raw = NULL) -> MediaPart:
    """Returns an image. Raises BadRequest if its URL is neither data nor a web address."""
    if match := _DATA_URL.match(url):
        return _embedded_media(match, url, MediaPart(detail=detail, where=where, cache=cache))
    if url.startswith(("https://", "http://")):
        return MediaPart(url=url, detail=detail, where=where, cache=cache)
    raise BadRequest(f"{where}: must be a base64 data: URL or an https: URL", param=where)


def audio_part(data: str, audio_format: str, where: str) -> MediaPart:
    """Returns a sound in a format such as ``wav``. Raises BadRequest unless the format can be part of a media type."""
    if not _AUDIO_FORMAT.fullmatch(audio_format):
        raise BadRequest(f"{where}.format: must be a format such as wav or mp3", param=f"{where}.format")
    return MediaPart(type=f"audio/{audio_format}", data=data, where=where)


def document_part(data: str, name: str, where: str, cache: msgspec.Raw = NULL) -> MediaPart:
    """Returns a document. Raises BadRequest without its data: other vendors do not know the id of an uploaded file."""
    document = MediaPart(name=name, where=where, cache=cache)
    if match := _DATA_URL.match(data):
        return _embedded_media(match, data, document)
    if data and name.lower().endswith(".pdf"):
        return msgspec.structs.replace(document, type="application/pdf", data=data)
    raise BadRequest(
        f"{where}: only documents sent as a base64 data: URL in file_data can be translated",
        code="unsupported_parameter",
        param=where,
    )


def _embedded_media(match: "re.Match[str]", url: str, media: MediaPart) -> MediaPart:
    """Returns the media with the type and the data of a data URL, whose start is matched."""
    media_type = match[1].lower()
    return msgspec.structs.replace(media, type=_MEDIA_TYPE_ALIASES.get(media_type, media_type), data=url[match.end() :])
