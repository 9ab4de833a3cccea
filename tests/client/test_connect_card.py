import ast
import json
import shutil
import subprocess

import pytest

from gateway.client.connect_card import PLACEHOLDER, SAMPLES, curl, environment, node, python, request_curl

URL = "http://127.0.0.1:8655/v1"
NASTY = "x'\"; echo pwned; $(id) `id` \\ {model}"


def shell(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"no {name} here")


def test_posix_lines_set_the_variables() -> None:
    script = environment(URL, "sk-tk-abc") + '\nprintf %s "$OPENAI_BASE_URL $OPENAI_API_KEY"'
    done = subprocess.run([shell("sh"), "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{URL} sk-tk-abc"


@pytest.mark.parametrize("model", ["gpt-5", "org/model:free", NASTY])
def test_the_python_program_asks_for_the_model(model: str) -> None:
    tree = ast.parse(python(model))
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "model"]
    assert [ast.literal_eval(value) for value in values] == [model]


@pytest.mark.parametrize("model", ["gpt-5", NASTY])
def test_the_node_module_asks_for_the_model(model: str) -> None:
    (line,) = [line for line in node(model).splitlines() if line.strip().startswith("model:")]
    assert json.loads(line.strip().removeprefix("model: ").removesuffix(",")) == model


def test_a_known_key_is_in_the_environment_and_the_curl_line() -> None:
    assert all("sk-tk-abc" in environment(URL, "sk-tk-abc", name) for name in ("sh", "fish", "powershell"))
    assert "-H 'Authorization: Bearer sk-tk-abc'" in curl(URL, "m", "sk-tk-abc")
    assert PLACEHOLDER in curl(URL, "m")


def words_of(command: str) -> list[str]:
    """What a shell makes of a curl line."""
    script = 'curl() { printf "%s\\n" "$@"; }\nOPENAI_API_KEY=secret\n' + command
    return subprocess.run([shell("sh"), "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()


PLACES = {"chat": f"{URL}/chat/completions", "messages": f"{URL}/messages", "ollama": "http://127.0.0.1:8655/api/chat"}


@pytest.mark.parametrize("api", list(SAMPLES))
@pytest.mark.parametrize("model", ["gpt-5", NASTY])
def test_each_api_has_a_curl_line_of_its_own(api: str, model: str) -> None:
    words = words_of(curl(URL, model, "sk-'$(id)", api=api, stream=api == "chat"))
    body = json.loads(words[-1])
    assert (body["model"], body.get("stream")) == (model, {"chat": True, "ollama": False}.get(api))
    headers = [words[i + 1] for i, text in enumerate(words) if text == "-H"]
    assert (headers[0].endswith("sk-'$(id)"), headers[-1]) == (True, "Content-Type: application/json")
    assert api not in PLACES or PLACES[api] in words


def test_a_curl_line_without_a_key_has_that_of_the_environment() -> None:
    assert "Authorization: Bearer secret" in words_of(curl(URL, "gpt-5"))


def test_a_request_that_reached_no_api_is_repeated_as_it_was() -> None:
    words = words_of(request_curl(URL, "GET /v2/nope?'$(id)"))
    assert words[:4] == ["-i", "-X", "GET", "http://127.0.0.1:8655/v2/nope?'$(id)"]
    assert words[-1] == "Authorization: Bearer secret"
