"""Finish reasons become the five words clients know."""

import pytest

from gateway.upstream.gemini.response import BROKEN, finish_of


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        *((reason, "content_filter") for reason in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "SPII", "OTHER")),
        *((reason, "content_filter") for reason in ("PROHIBITED_CONTENT", "IMAGE_SAFETY", "IMAGE_OTHER", "NO_IMAGE")),
        *((reason, "content_filter") for reason in ("ESCALATION", "MODEL_ARMOR", "PUP_LIMITED_DISABLED")),
        *((reason, "stop") for reason in (*sorted(BROKEN), "SOMETHING_NEW", "")),
    ],
)
def test_every_finish_reason(reason: str, finish: str) -> None:
    assert finish_of(reason) == finish
