"""Connect: the card that tells how to use a token, as texts to paste. None of the programs contains the key itself."""

from typing import Literal

import msgspec

from gateway.domain.text import plain

Shell = Literal["sh", "fish", "powershell"]

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
PLACEHOLDER = "$" + KEY_VARIABLE


class ConnectCard(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of one card."""

    environment: dict[Shell, str]
    python: str
    node: str
    curl: str


def card(base_url: str, model: str, key: str = "") -> ConnectCard:
    """All texts for a base URL that ends in ``/v1``. ``key`` appears only in the environment lines, if it is known."""
    shells: tuple[Shell, ...] = ("sh", "fish", "powershell")
    return ConnectCard(
        environment={shell: environment(base_url, key, shell) for shell in shells},
        python=python(model),
        node=node(model),
        curl=curl(base_url, model),
    )


def environment(base_url: str, key: str = "", shell: Shell = "sh") -> str:
    """The two variables that OpenAI's SDKs and most programs read, for bash and zsh, fish, or PowerShell."""
    values = {URL_VARIABLE: base_url, KEY_VARIABLE: key or "sk-tk-..."}
    return "\n".join(assign(name, value, shell) for name, value in values.items())


def python(model: str) -> str:
    """A whole program for openai-python, which reads the environment by itself."""
    return "\n".join(
        (
            "from openai import OpenAI",
            "",
            "client = OpenAI()",
            "answer = client.chat.completions.create(",
            f"    model={_string(model)},",
            '    messages=[{"role": "user", "content": "Hello"}],',
            ")",
            "print(answer.choices[0].message.content)",
        )
    )


def node(model: str) -> str:
    """A whole module for openai-node, which reads the environment by itself."""
    return "\n".join(
        (
            'import OpenAI from "openai";',
            "",
            "const client = new OpenAI();",
            "const answer = await client.chat.completions.create({",
            f"  model: {_string(model)},",
            '  messages: [{ role: "user", content: "Hello" }],',
            "});",
            "console.log(answer.choices[0].message.content);",
        )
    )


def curl(base_url: str, model: str, key: str = PLACEHOLDER) -> str:
    """One call for bash and zsh; the shell puts the key in, so that it stays out of its history."""
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "Hello"}]}).decode()
    return " \\\n".join(
        (
            f"curl {_quoted(base_url + '/chat/completions')}",
            f'  -H "Authorization: Bearer {key}"',
            '  -H "Content-Type: application/json"',
            f"  -d {_quoted(body)}",
        )
    )


def assign(name: str, value: str, shell: Shell) -> str:
    """The line that sets a variable."""
    if shell == "fish":
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"set -gx {name} '{escaped}'"
    if shell == "powershell":
        doubled = value.replace("'", "''")
        return f"$env:{name} = '{doubled}'"
    return f"export {name}={_quoted(value)}"


def _quoted(text: str) -> str:
    """One word for a POSIX shell."""
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def _string(text: str) -> str:
    """A string in JSON, Python and JavaScript alike."""
    return msgspec.json.encode(plain(text)).decode()
