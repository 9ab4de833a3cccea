"""Media: images, audio and documents of a message, taken out of the places where clients put them."""

import re

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream.chat.request import Audio, File, ImageUrl
from gateway.upstream.rawjson import NULL

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mp3"}
_SAME = {"image/jpg": "image/jpeg"}


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """One medium: base64 text of a type, or the web address where it lies."""

    type: str = ""
    """Media type in lower case; empty with an address."""
    data: str = ""
    url: str = ""
    where: str
    """Its place in the request, for errors."""
    cache: msgspec.Raw = NULL


def image_of(image: ImageUrl | str, cache: msgspec.Raw, where: str) -> Media:
    """An image. Raises BadRequest if its URL is neither data nor https."""
    url = image if isinstance(image, str) else image.url
    where = f"{where}.image_url"
    if match := _DATA.match(url):
        return _embedded(match, url, where, cache)
    if url.startswith("https://"):
        return Media(url=url, where=where, cache=cache)
    raise BadRequest(f"{where}: must be a base64 data: URL or an https: URL", param=where)


def audio_of(audio: Audio, where: str) -> Media:
    """A sound. Raises BadRequest if its format is unknown."""
    where = f"{where}.input_audio"
    if audio.format not in _AUDIO:
        raise BadRequest(f"{where}.format: must be wav or mp3", param=f"{where}.format")
    return Media(type=_AUDIO[audio.format], data=audio.data, where=where)


def file_of(file: File, cache: msgspec.Raw, where: str) -> Media:
    """A document. Raises BadRequest if it is not there: an id means something to its vendor only."""
    where = f"{where}.file"
    data = file.file_data or ""
    if match := _DATA.match(data):
        return _embedded(match, data, where, cache)
    if data and (file.filename or "").lower().endswith(".pdf"):
        return Media(type="application/pdf", data=data, where=where, cache=cache)
    raise BadRequest(
        f"{where}: only documents sent as a base64 data: URL in file_data can be translated",
        code="unsupported_parameter",
        param=where,
    )


def _embedded(match: "re.Match[str]", url: str, where: str, cache: msgspec.Raw) -> Media:
    kind = match[1].lower()
    return Media(type=_SAME.get(kind, kind), data=url[match.end() :], where=where, cache=cache)
