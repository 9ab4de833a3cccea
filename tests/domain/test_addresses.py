"""The answer to a request for what does not exist here, and its record."""

import pytest

from gateway.domain.addresses import address_advice, is_foreign, request_text, standard_path

BASE = "http://127.0.0.1:8655/v1"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/messages/batches", "batches are not supported"),
        ("/v1/chat/completions/chatcmpl-1", "objects that a vendor stores are not supported"),
        ("/v1/messages/batches/b_1/results", "batches are not supported"),
        ("/v1/files", "that a vendor stores"),
        ("/v1//threads/t_1/runs/", "that a vendor stores"),
        ("/v1/sessions/s_1/events", "that a vendor stores"),
        ("/v1/live/calls", "this API is not supported"),
        ("/v1/responses/resp_1/input", "GET /input_items"),
        ("/v1/images/generations", "this API is not supported"),
        ("/v1/audio/speech", "this API is not supported"),
        ("/v1/realtime", "this API is not supported"),
        ("/v1/fim/completions", "this API is not supported"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "Gemini's API"),
        ("/models/gemini-2.5-pro:streamGenerateContent", "Gemini's API"),
        ("/ollama/api/tags", "an extra part: set it to http://127.0.0.1:8655/v1, or to http://127.0.0.1:8655 for"),
        ("/x/api/chat", "for Anthropic's and Ollama's"),
        ("/proxy/v1/messages", "an extra part: set it to http://127.0.0.1:8655/v1, or to http://127.0.0.1:8655 "),
        ("/api/v1/models", "an extra part"),
        ("/v1/openai/deployments/gpt-4o/images/generations", "this API is not supported"),
        ("/openai/v1/audio/speech", "this API is not supported"),
        ("/openai/v1/files", "that a vendor stores"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent", "Vertex AI's API"),
        ("/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict", "Vertex AI's API"),
        ("/model/anthropic.claude-v2/invoke-with-response-stream", "Bedrock's API"),
        ("/v2/chat", "Cohere's API"),
        ("/api/create", "the models are those of your channels"),
        ("/api/blobs/sha256:29fdb92e57cf0827", "the models are those of your channels"),
        ("/v1/api/delete", "the models are those of your channels"),
        ("/nothing/like/it", f"check the program's base URL: it is {BASE} here"),
        ("/", f"check the program's base URL: it is {BASE} here"),
    ],
)
def test_the_advice_fits_the_address(path: str, words: str) -> None:
    text, harmless = address_advice(path, BASE)
    assert words in text
    assert not harmless


@pytest.mark.parametrize(
    ("path", "standard", "model"),
    [
        ("/openai/deployments/gpt-4o/chat/completions", "/chat/completions", "gpt-4o"),
        ("/openai/deployments/gpt-4o/chat/completions/", "/chat/completions", "gpt-4o"),
        ("/v1/openai/deployments/gpt-4o/embeddings", "/embeddings", "gpt-4o"),
        ("/v1/deployments/chat/completions", "/completions", "chat"),
        ("/deployments/openai/gpt-oss:20b/responses", "/responses", "openai/gpt-oss:20b"),
        ("/v1/engines/davinci/completions", "/completions", "davinci"),
        ("/openai/v1/chat/completions", "/v1/chat/completions", ""),
        ("/openai/responses", "/responses", ""),
        ("/v1/chat/completions/chat/completions", "/chat/completions", ""),
        ("/v1/chat/completions/models", "/models", ""),
        ("/chat/completions/v1/messages", "/v1/messages", ""),
        ("/v1/messages/v1/messages/count_tokens", "/v1/messages/count_tokens", ""),
        ("/v1/messages/batches", "/v1/messages/batches", ""),
        ("/openai/v1/models/gpt-4o", "/v1/models/gpt-4o", ""),
        ("//anthropic//v1/messages", "/v1/messages", ""),
        ("/v1beta/openai/chat/completions", "/chat/completions", ""),
        ("/v1/models/openai/gpt-oss", "/v1/models/openai/gpt-oss", ""),
        ("/openai/deployments", "/deployments", ""),
        ("/v1/chat/completions", "/v1/chat/completions", ""),
    ],
)
def test_other_vendors_paths_are_other_ways_to_the_same_calls(path: str, standard: str, model: str) -> None:
    assert standard_path(path) == (standard, model)


@pytest.mark.parametrize("path", ["/v1/models/qwen3:8b", "/v1/models/ft:gpt-4o:org::id", "/v1/responses/r", "/api/x"])
def test_a_models_tag_is_not_geminis_api(path: str) -> None:
    assert not is_foreign(path)


@pytest.mark.parametrize(
    "path",
    [
        "/favicon.ico",
        "/robots.txt",
        "/v1/me",
        "/v1/organizations/o/usage",
        "/api/claude_cli/bootstrap",
        "/.well-known/x",
        "/api/v0/models",
        "/v1/props",
        "/version",
        "/v1/model/info",
    ],
)
def test_paths_that_need_no_answer(path: str) -> None:
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
def test_possible_keys_are_not_recorded(method: str, path: str, recorded: str) -> None:
    assert request_text(method, path) == recorded


def test_recorded_requests_are_short() -> None:
    assert len(request_text("X" * 500, "/a" * 5000)) <= 120
