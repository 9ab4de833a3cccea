"""The answer to a request for what does not exist here, and its record."""

import pytest

from gateway.domain.addresses import LONGEST, address_advice, program, recorded_request

BASE = "http://127.0.0.1:8655/v1"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/chat/completions/chat/completions", f"set it to {BASE}"),
        ("/v1/chat/completions/models", f"set it to {BASE}"),
        ("/chat/completions/v1/messages", f"set it to {BASE}"),
        ("/v1/messages/v1/messages", f"set it to {BASE}"),
        ("/v1/messages/batches", "batches are not supported"),
        ("/v1/messages/batches/b_1/results", "batches are not supported"),
        ("/v1/files", "which a vendor keeps"),
        ("/v1//threads/t_1/runs/", "which a vendor keeps"),
        ("/v1/responses/resp_1", "send the whole input"),
        ("/v1/images/generations", "this API is not supported"),
        ("/v1/audio/speech", "this API is not supported"),
        ("/v1/realtime", "this API is not supported"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "Gemini's API"),
        ("/models/gemini-2.5-pro:streamGenerateContent", "Gemini's API"),
        ("/api/tags", "Ollama's API"),
        ("/v1/api/chat", "Ollama's API"),
        ("/anthropic/v1/messages", "a part too much: set it to http://127.0.0.1:8655/v1, or to http://127.0.0.1:8655 "),
        ("/openai/v1/chat/completions", "a part too much"),
        ("/api/v1/models", "a part too much"),
        ("/openai/deployments/gpt-4o/chat/completions", "a part too much"),
        ("/nothing/like/it", f"check the program's base URL: it is {BASE} here"),
        ("/", f"check the program's base URL: it is {BASE} here"),
    ],
)
def test_the_advice_fits_the_address(path: str, words: str) -> None:
    text, harmless = address_advice(path, BASE)
    assert words in text
    assert not harmless


@pytest.mark.parametrize(
    "path",
    [
        "/favicon.ico",
        "/robots.txt",
        "/v1/me",
        "/v1/organizations/o/usage",
        "/api/claude_cli/bootstrap",
        "/.well-known/x",
    ],
)
def test_what_needs_no_answer_is_known(path: str) -> None:
    assert address_advice(path, BASE)[1]


@pytest.mark.parametrize(
    ("method", "path", "recorded"),
    [
        ("POST", "/v1/files", "POST /v1/files"),
        ("GET", "/k/sk-tk-0123456789/api/tags", "GET /k/\u2026/api/tags"),
        ("GET", "/sk-ant-abc/v1", "GET /\u2026/v1"),
        ("GET", "/AIzaSyA/v1", "GET /\u2026/v1"),
        ("GET", "/x/Zm9vYmFyYmF6cXV4cXV1eGZvb2JhcmJhenF1eA/y", "GET /x/\u2026/y"),
        ("GET", "/\x1b[2J\u202e", "GET /\ufffd[2J\ufffd"),
    ],
)
def test_what_may_be_a_key_is_not_recorded(method: str, path: str, recorded: str) -> None:
    assert recorded_request(method, path) == recorded


def test_what_is_recorded_is_short() -> None:
    assert len(recorded_request("X" * 500, "/a" * 5000)) <= LONGEST


def test_programs_have_names() -> None:
    assert (program("claude-cli"), program("codex_exec"), program("mine")) == ("Claude Code", "Codex", "mine")
    assert program("") == "a program without a name"
