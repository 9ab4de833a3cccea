"""Connect card: texts to paste that show how to use a token. The sample programs do not contain the key."""

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from gateway.domain.call import CHAT_API
from gateway.domain.text import plain

Shell = Literal["sh", "fish", "powershell"]

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
PLACEHOLDER = "$" + KEY_VARIABLE


def environment(base_url: str, key: str = "", shell: Shell = "sh") -> str:
    """Returns the lines that set the two variables which OpenAI's SDKs and most programs read."""
    values = {URL_VARIABLE: base_url, KEY_VARIABLE: key or "sk-tk-..."}
    return "\n".join(assign(name, value, shell) for name, value in values.items())


def python(model: str) -> str:
    """Returns a complete program for openai-python, which reads the variables itself."""
    return f"""\
from openai import OpenAI

client = OpenAI()
answer = client.chat.completions.create(
    model={quote(model)},
    messages=[{{"role": "user", "content": "Hello"}}],
)
print(answer.choices[0].message.content)"""


def node(model: str) -> str:
    """Returns a complete module for openai-node, which reads the variables itself."""
    return f"""\
import OpenAI from "openai";

const client = new OpenAI();
const answer = await client.chat.completions.create({{
  model: {quote(model)},
  messages: [{{ role: "user", content: "Hello" }}],
}});
console.log(answer.choices[0].message.content);"""


def curl(base_url: str, model: str, key: str = "", *, api: str = CHAT_API, stream: bool = False) -> str:
    """Returns a command for bash and zsh that calls an API; without ``key``, with the one in the variable."""
    sample = SAMPLES.get(api, SAMPLES[CHAT_API])
    body = {"model": model, **sample.body, **({"stream": stream} if stream or sample.streams_by_default else {})}
    root = base_url.removesuffix("/v1") if sample.path.startswith("/api/") else base_url
    lines = [f"curl {'-N ' if stream else ''}{_shell_quote(root + sample.path)}"]
    headers = (sample.key_header, *sample.headers, "Content-Type: application/json")
    lines += [f"-H {_header(header, key)}" for header in headers]
    return " \\\n  ".join([*lines, f"-d {_shell_quote(msgspec.json.encode(body).decode())}"])


def request_curl(base_url: str, request: str) -> str:
    """Returns a request with this method and path, which reached no API, as a command."""
    method, _, path = request.partition(" ")
    parts = urlsplit(base_url)
    url = _shell_quote(f"{parts.scheme}://{parts.netloc}{path}")
    return f"curl -i -X {_shell_quote(method)} {url} \\\n  -H {_header(BEARER, '')}"


BEARER = "Authorization: Bearer "
_MESSAGES = {"messages": [{"role": "user", "content": "Hello"}]}


class SampleCall(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest call of an API, and what its answers look like."""

    path: str
    body: Mapping[str, object]
    """The fields of the body, without ``model`` and ``stream``."""
    key_header: str = BEARER
    """The header of the key, up to the key."""
    headers: tuple[str, ...] = ()
    streams_by_default: bool = False
    content_field: str = ""
    """The field of a complete answer that has the content."""
    end_marks: tuple[str, ...] = ()
    """The last event of a complete stream contains one of these texts. Empty if the API has no streams of events."""


SAMPLES = {
    CHAT_API: SampleCall(path="/chat/completions", body=_MESSAGES, content_field="choices", end_marks=("[DONE]",)),
    "completions": SampleCall(path="/completions", body={"prompt": "Hello", "max_tokens": 64}),
    "responses": SampleCall(
        path="/responses",
        body={"input": "Hello"},
        content_field="output",
        end_marks=("response.completed", "response.incomplete"),
    ),
    "messages": SampleCall(
        path="/messages",
        body={"max_tokens": 64, **_MESSAGES},
        key_header="x-api-key: ",
        headers=("anthropic-version: 2023-06-01",),
        content_field="content",
        end_marks=("message_stop",),
    ),
    "embeddings": SampleCall(path="/embeddings", body={"input": "Hello"}, content_field="data"),
    "ollama": SampleCall(path="/api/chat", body=_MESSAGES, streams_by_default=True),
}


def _header(text: str, key: str) -> str:
    """Returns one header as a shell word. If the text ends with a space, the key or its variable follows."""
    if not text.endswith(" "):
        return f'"{text}"'
    return _shell_quote(text + key) if key else f'"{text}{PLACEHOLDER}"'


def assign(name: str, value: str, shell: Shell) -> str:
    """Returns the line that sets a variable."""
    if shell == "fish":
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"set -gx {name} '{escaped}'"
    if shell == "powershell":
        doubled = value.replace("'", "''")
        return f"$env:{name} = '{doubled}'"
    return f"export {name}={_shell_quote(value)}"


def _shell_quote(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def quote(text: str) -> str:
    """Returns a string literal that is valid in JSON, TOML, YAML, Python and JavaScript."""
    return msgspec.json.encode(plain(text, limit=1_000)).decode()
