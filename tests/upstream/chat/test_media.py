"""Media are taken out of where clients put them; what nobody could fetch or read is refused."""

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream.rawjson import NULL
from gateway.upstream.translate.conversation import Media, audio_of, file_of, image_of
from gateway.upstream.translate.request import Audio, File, ImageUrl


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("data:image/png;base64,AA==", "image/png"),
        ("DATA:Image/JPG;Base64,AA==", "image/jpeg"),
        ("data:image/svg+xml;charset=utf-8;base64,AA==", "image/svg+xml"),
    ],
)
def test_embedded_images(url: str, kind: str) -> None:
    expected = Media(type=kind, data="AA==", where="p.image_url")
    assert image_of(url, NULL, "p") == image_of(ImageUrl(url=url), NULL, "p") == expected


def test_an_image_on_the_web() -> None:
    assert image_of("https://h/a.png", NULL, "p") == Media(url="https://h/a.png", where="p.image_url")


@pytest.mark.parametrize("url", ["http://h/a.png", "file:///etc/passwd", "data:image/png,AA", "", "a.png"])
def test_other_images_are_refused(url: str) -> None:
    with pytest.raises(BadRequest) as caught:
        image_of(url, NULL, "p")
    assert caught.value.param == "p.image_url"


@pytest.mark.parametrize(("kind", "media"), [("wav", "audio/wav"), ("mp3", "audio/mp3")])
def test_sounds(kind: str, media: str) -> None:
    assert audio_of(Audio(data="AA", format=kind), "p").type == media


def test_other_sounds_are_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        audio_of(Audio(data="AA", format="ogg"), "p")
    assert caught.value.param == "p.input_audio.format"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (File(file_data="data:application/pdf;base64,AA"), "application/pdf"),
        (File(file_data="AA", filename="a.PDF"), "application/pdf"),
        (File(file_data="data:text/plain;base64,AA", filename="a.pdf"), "text/plain"),
    ],
)
def test_documents(file: File, kind: str) -> None:
    found = file_of(file, NULL, "p")
    assert (found.type, found.data) == (kind, "AA")


@pytest.mark.parametrize("file", [File(file_id="file-1"), File(file_data="AA", filename="a.doc"), File()])
def test_other_documents_are_refused(file: File) -> None:
    with pytest.raises(BadRequest) as caught:
        file_of(file, NULL, "p")
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "p.file")
