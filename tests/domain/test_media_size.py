"""What media count at most: by the model's family, else by their bytes."""

import base64
import json
import time
import zlib
from typing import Any

import msgspec
import pytest

from gateway.domain.media_size import NO_MEDIA, PromptMedia, count_pages
from gateway.domain.prompt_size import bound_of

PAGE = b"1 0 obj\n<< /Type /Page /Parent 2 0 R >>\nendobj\n"


def pdf(*parts: bytes) -> bytes:
    return base64.b64encode(b"%PDF-1.7\n" + b"".join(parts) + b"2 0 obj\n<< /Type /Pages >>\nendobj\n%%EOF")


def packed(content: bytes) -> bytes:
    data = zlib.compress(content)
    return b"9 0 obj\n<< /Type /ObjStm /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream\n" % (len(data), data)


@pytest.mark.parametrize(
    ("model", "vendor_says"),
    [
        ("gpt-4o-mini", 25_501),
        ("openai/gpt-4o-mini-2024-07-18", 25_501),
        ("gpt-4o", 1_445),
        ("gpt-4.1-nano", 3_779),
        ("gpt-5-mini", 2_489),
        ("gpt-5.4", 10_000),
        ("o3", 1_275),
        ("claude-sonnet-4-5", 1_600),
        ("anthropic/claude-opus-4.7", 4_784),
        ("gemini-2.5-flash", 4_128),
        ("gemini-3-pro-preview", 2_240),
        ("pixtral-large-latest", 4_096),
        ("qwen2.5-vl-72b-instruct", 16_384),
    ],
)
def test_a_picture_is_held_for_by_the_most_that_its_vendor_counts(model: str, vendor_says: int) -> None:
    one = PromptMedia(pictures=1, picture_bytes=90_000).bound(model)
    assert vendor_says <= one < 50_000
    assert PromptMedia(pictures=3).bound(model) == 3 * one


def test_a_picture_of_an_unknown_model_may_be_counted_by_its_bytes() -> None:
    assert PromptMedia(pictures=1, picture_bytes=90_000).bound("house-model") == 30_000
    assert PromptMedia(pictures=1, picture_bytes=90).bound("house-model") == 5_000


def test_nothing_counts_nothing() -> None:
    assert NO_MEDIA.bound("gpt-4o-mini") == NO_MEDIA.bound("house-model") == 0


@pytest.mark.parametrize("model", ["gpt-4o", "claude-opus-4-5", "gemini-2.5-pro", "house-model"])
def test_a_page_is_its_picture_and_its_text(model: str) -> None:
    assert PromptMedia(pages=1).bound(model) >= 2_300
    assert PromptMedia(pages=40).bound(model) == 40 * PromptMedia(pages=1).bound(model)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_pages_of_a_document_are_counted(count: int) -> None:
    assert count_pages(pdf(PAGE * count)) == count
    assert count_pages(pdf(packed(PAGE * count))) == count
    assert count_pages(pdf(PAGE, packed(PAGE * count), packed(PAGE))) == count + 2
    assert count_pages(b"data:application/pdf;base64," + pdf(PAGE * count)) == count


@pytest.mark.parametrize(
    "document",
    [
        *(pdf(data + b"x" * 40_000) for data in (b"", b"/ObjStm stream\n", packed(b"x" * (9 << 20)))),
        b"A" * 40_001,
    ],
    ids=["encrypted", "odd", "too large", "broken"],
)
def test_pages_that_cannot_be_counted_are_guessed_by_the_size(document: bytes) -> None:
    assert count_pages(document) >= 20


@pytest.mark.parametrize(
    "parts",
    [b"/ObjStm stream\n" * 400_000, b"/ObjStm" * 56 + b"stream\n\x78\x9c" + b"\0\0\0\xff\xff" * 4_000_000],
    ids=["broken", "long and empty"],
)
def test_a_document_whose_parts_contain_nothing_is_examined_quickly(parts: bytes) -> None:
    document, began = pdf(parts), time.process_time()
    assert count_pages(document) > 2_000
    assert time.process_time() - began < 3


def test_small_documents_that_grow_a_thousand_times_are_examined_quickly() -> None:
    one = count_pages(document := pdf(packed(b"/Type /Page " * 700_000)))
    began = time.process_time()
    assert [count_pages(document) for _ in range(100)] == [one] * 100
    assert one > 10_000
    assert time.process_time() - began < 3


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


DATA = "data:image/png;base64,AAAA"
DOCUMENT = pdf(PAGE * 2).decode()
PLACES: list[tuple[dict[str, Any], PromptMedia]] = [
    ({"type": "image_url", "image_url": {"url": DATA, "detail": "high"}}, PromptMedia(pictures=1, picture_bytes=26)),
    ({"type": "image_url", "image_url": DATA}, PromptMedia(pictures=1, picture_bytes=26)),
    ({"type": "image_url", "image_url": {"url": "https://h/a.png"}}, PromptMedia(pictures=1)),
    ({"type": "input_image", "image_url": "https://h/a.png"}, PromptMedia(pictures=1)),
    ({"type": "input_image", "file_id": "file-1"}, PromptMedia(pictures=1)),
    ({"type": "image", "source": {"type": "url", "url": "https://h/a.png"}}, PromptMedia(pictures=1)),
    ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, PromptMedia(pictures=1)),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        PromptMedia(pictures=1, picture_bytes=4),
    ),
    ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}, PromptMedia(video_bytes=26)),
    ({"type": "input_audio", "input_audio": {"data": "A" * 400, "format": "wav"}}, PromptMedia(audio_bytes=400)),
    ({"type": "file", "file": {"file_id": "file-1"}}, PromptMedia(fetched=1)),
    ({"type": "file", "file": {"file_data": DOCUMENT * 3, "filename": "a.pdf"}}, PromptMedia(pages=6)),
    ({"type": "file", "file": {"file_data": "!? " * 8_000, "filename": "a.pdf"}}, PromptMedia(pages=10)),
    ({"type": "file", "file": {"file_id": "data:application/pdf;base64," + DOCUMENT}}, PromptMedia(pages=2)),
    ({"type": "file", "file": {"file_data": "DATA:Application/PDF;a=b;BASE64," + DOCUMENT}}, PromptMedia(pages=2)),
    ({"type": "file", "file": {"file_data": "data:application/pdf;base64," + DOCUMENT}}, PromptMedia(pages=2)),
    ({"type": "input_file", "file_url": "https://h/a.pdf"}, PromptMedia(fetched=1)),
    ({"type": "input_file", "file_id": "file_1"}, PromptMedia(fetched=1)),
    ({"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}}, PromptMedia(fetched=1)),
    ({"type": "document", "source": {"type": "file", "file_id": "file_1"}}, PromptMedia(fetched=1)),
    (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DOCUMENT}},
        PromptMedia(pages=2),
    ),
    (
        {"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": "https://h/a"}}]},
        PromptMedia(pictures=1),
    ),
    ({"type": "image_url", "image_url": {"url": "gs://bucket/a.png"}}, PromptMedia(pictures=1)),
    ({"type": "image", "image": "https://h/a.png"}, PromptMedia(pictures=1)),
    ({"type": "image_generation_call", "result": "AAAA"}, PromptMedia(pictures=1, picture_bytes=4)),
    ({"type": "video_url", "video_url": {"url": "https://h/a.mp4"}}, PromptMedia(fetched=1)),
    ({"type": "audio_url", "audio_url": {"url": "https://h/a.wav"}}, PromptMedia(fetched=1)),
    ({"type": "input_audio", "input_audio": {"data": "https://h/a.wav", "format": "wav"}}, PromptMedia(fetched=1)),
    ({"type": "file", "file": {"filename": "a.pdf", "file_data": "https://h/a.pdf"}}, PromptMedia(fetched=1)),
    ({"type": "tool_use", "input": {"type": "image_url", "image_url": {"url": "https://h/a.png"}}}, NO_MEDIA),
    ({"type": "web_search_call", "action": {"sources": [{"type": "url", "url": "https://h/a"}]}}, NO_MEDIA),
    ({"type": "text", "text": "see https://h/a.png"}, NO_MEDIA),
    ({"type": "document_url", "document_url": "https://h/a.pdf"}, PromptMedia(fetched=1)),
    ({"type": "file_url", "file_url": {"url": "https://h/a.pdf"}}, PromptMedia(fetched=1)),
    ({"type": "document", "source": {"type": "content", "content": "https://h/a says: hello"}}, NO_MEDIA),
    ({"type": "document", "title": "https://h/a", "source": {"type": "text", "data": "https://h/a says:"}}, NO_MEDIA),
    ({"type": "web_search_result", "url": "https://h/a", "title": "a"}, NO_MEDIA),
]


@pytest.mark.parametrize(("part", "found"), PLACES, ids=range(len(PLACES)))
def test_media_are_found_in_the_parts_of_every_api(part: dict[str, Any], found: PromptMedia) -> None:
    assert bound_of({"messages": raw([{"role": "user", "content": [part]}])}).media == found
