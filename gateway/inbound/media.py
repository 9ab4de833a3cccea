"""Media: the images, videos, sounds and documents in requests."""

import base64
import re
from contextlib import suppress

import msgspec

from gateway.domain.conversation import MediaPart
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.rawjson import NULL

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_MEDIA_TYPE_ALIASES = {"image/jpg": "image/jpeg", "audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav"}
_MAGIC_BYTES = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
)
_WEB_SCHEMES = ("https://", "http://")
PDF = "application/pdf"
VIDEO, AUDIO = "video/*", "audio/*"
"""The types of videos and sounds that are only linked to."""


def image_part(
    url: str, param: str, *, detail: str = "", cache: msgspec.Raw = NULL, linked_type: str = ""
) -> MediaPart:
    """Returns an image or a video, from its data or its address. Raises BadRequest without either.

    ``linked_type`` is the type to give media that are only linked to; images need none.
    """
    media = _with_source(MediaPart(detail=detail, param=param, cache=cache), url, linked_type)
    if media is None:
        raise BadRequest(f"{param}: must be a base64 data: URL with its media type, or an https: URL", param=param)
    return media


def audio_part(data: str, audio_format: str, param: str) -> MediaPart:
    """Returns a sound, from base64 or an address. Raises BadRequest if the format is not a name such as ``wav``.

    An empty format is read from a data URL, else from how the data begins.
    """
    match = _DATA_URL.match(data)
    kind, content = (media_type_of(match[1] or ""), data[match.end() :]) if match else ("", data)
    if not audio_format and kind.startswith("audio/"):
        audio_format = kind.removeprefix("audio/").removeprefix("x-")
    is_mp3 = content.startswith(("SUQz", "//"))  # an ID3 tag or a frame, in base64
    audio_format = audio_format or ("mp3" if is_mp3 else "wav")
    if not re.fullmatch(r"[a-z0-9]{2,8}", audio_format):
        raise BadRequest(f"{param}.format: must be a format such as wav or mp3", param=f"{param}.format")
    audio = MediaPart(type=f"audio/{audio_format}", param=param)
    if data.startswith(_WEB_SCHEMES):
        return msgspec.structs.replace(audio, url=data)
    return msgspec.structs.replace(audio, data=content)


def document_part(data: str, name: str, param: str, cache: msgspec.Raw = NULL) -> MediaPart:
    """Returns a document, from its data or its address. Raises BadRequest without either, as for an uploaded file."""
    document = MediaPart(name=name, param=param, cache=cache)
    media = _with_source(document, data, PDF)
    if media is None and data and (name.lower().endswith(".pdf") or data.startswith("JVBERi")):  # %PDF- in base64
        media = msgspec.structs.replace(document, type=PDF, data=data)
    if media is None:
        raise unsupported_param(param, "only documents sent as a base64 data: URL or an https: URL can be translated")
    return media


def media_type_of(name: str) -> str:
    """Returns a media type as vendors spell it."""
    return _MEDIA_TYPE_ALIASES.get(name.lower(), name.lower())


def image_type_of(data: str) -> str:
    """Returns the type of an image by its first bytes, or nothing. Raises ValueError for a text that is not base64."""
    first_bytes = base64.b64decode(data[:64], validate=True)
    return next((type_ for magic, type_ in _MAGIC_BYTES if first_bytes.startswith(magic)), "")


def _with_source(media: MediaPart, url: str, linked_type: str) -> MediaPart | None:
    """Returns the media with the data in a data URL, or with an address; None for another text.

    An image gets the type that its bytes show: Anthropic refuses another one, and Ollama's clients may name none.
    """
    if url.startswith(_WEB_SCHEMES):
        return msgspec.structs.replace(media, url=url, type=linked_type)
    match = _DATA_URL.match(url)
    if match is None:
        return None
    kind, data = media_type_of(match[1] or ""), url[match.end() :]
    if not kind or kind.startswith("image/"):
        with suppress(ValueError):
            kind = image_type_of(data) or kind
    return msgspec.structs.replace(media, type=kind, data=data) if kind else None
