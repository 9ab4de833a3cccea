"""``chat``: sends one prompt to the gateway's own /v1, like any client, and prints the answer as it arrives."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import click
import msgspec

from gateway.client.apps import key_in
from gateway.client.control import ControlClient
from gateway.client.http import Stream, error_of
from gateway.client.model_choice import choose_model, recent_calls
from gateway.client.request import encode_body
from gateway.client.test_call import PublicApi, require_serving
from gateway.commands import formatting, stdin
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, TOKENS
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import TEXT, WholeNumber
from gateway.commands.output import is_terminal, notify, out, out_json, plain_lines, wants_json
from gateway.commands.session import run
from gateway.domain.advice import advice
from gateway.domain.errors import GatewayError, InternalError, NotFound, Unavailable, UpstreamError
from gateway.domain.human_values import brief_span, count_text
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import plain
from gateway.domain.token import PREFIX
from gateway.domain.views import CallView


@click.command(
    cls=Command,
    examples=[
        'tollkeeper chat --model demo-story "tell me something"',
        "tollkeeper chat hello --json | jq -r .message.content",
        'git diff | tollkeeper chat --model gpt-4o-mini --system "Write a commit message."',
    ],
    json_help="Print the answer and its call as JSON; field names are stable.",
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--model",
    "-m",
    type=TEXT,
    shell_complete=MODELS,
    help="The model to call (default: the one called last, else the first one that the token sees).",
)
@click.option(
    "--token",
    type=TEXT,
    shell_complete=TOKENS,
    help="Name or key of the token (default: TOLLKEEPER_TOKEN, OPENAI_API_KEY, else the oldest token).",
)
@click.option("--system", help="A system message before the prompt.")
@click.option("--max-tokens", type=WholeNumber(1), metavar="N", help="Limit the answer to this many tokens.")
@click.option("--no-stream", is_flag=True, help="Print the answer only when it is complete.")
def chat(
    prompt: tuple[str, ...],
    model: str | None,
    token: str | None,
    system: str | None,
    *,
    max_tokens: int | None,
    no_stream: bool,
) -> None:
    """Send one prompt through the gateway and print the answer as it arrives.

    Without PROMPT, or with '-', the prompt is read from stdin, as UTF-8. Usage and cost are printed on stderr.
    """
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt_text(prompt)})

    async def work(client: ControlClient) -> None:
        status = require_serving(await client.status())
        api = PublicApi(status.address, await _fetch_key(client, token), app="tollkeeper-chat")
        body: dict[str, Any] = {"model": model or await default_model(client, api), "messages": messages}
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        try:
            if wants_json():
                message, call_id = await fetch_answer(api, body)
                out_json({"message": message, "call": await _fetch_record(client, call_id)})
                return
            if no_stream:
                message, call_id = await fetch_answer(api, body)
                _print_piece((message.get("content") or "") + "\n")
            else:
                call_id = await print_stream(api, body)
        except GatewayError as error:
            await _add_advice(client, error)
            raise
        await print_receipt(client, call_id, max_tokens)

    run(work, listen=True)
    if stdin.has_unread_pipe():
        notify("note: stdin was not read, because PROMPT is given; to send both, give one of them as --system")


def prompt_text(words: tuple[str, ...]) -> str:
    """Returns the prompt from the command line, else from stdin. Raises UsageError if it is empty."""
    text = " ".join(words)
    if text in ("", "-"):
        if stdin.is_terminal():
            notify("type the prompt, then press Ctrl-D")
        text = stdin.read_prompt()
    if not text.strip():
        raise click.UsageError("the prompt is empty")
    return text


async def _fetch_key(client: ControlClient, token: str | None) -> str:
    """Returns the given key, else a pass for the token with the given name.

    By default, the pass is for the oldest active token, most likely the owner's. Raises Quit if no token is active.
    """
    key_or_name = token or key_in(os.environ)
    if key_or_name.startswith(PREFIX):
        return key_or_name
    if not key_or_name:
        usable = [token for token in await client.tokens() if token.state == "active" and not token.temporary]
        if not usable:
            raise Quit("no active token; create one: tollkeeper token add NAME", Exit.NOT_FOUND)
        key_or_name = min(usable, key=lambda token: token.created_ms).name
    return (await client.token_pass(key_or_name))["key"]


async def default_model(client: ControlClient, api: PublicApi) -> str:
    """Returns the model called last, else the token's first. Raises Quit if the token sees no chat models."""
    names = await api.models()
    if not names:
        raise Quit("the token sees no models; 'tollkeeper doctor' finds out why", Exit.NOT_FOUND)
    if all(map(is_embedding_model, names)):
        examples = ", ".join(plain(name) for name in names[:5])
        text = f"the token sees only models for embeddings ({examples}); choose another --token, or a --model"
        raise Quit(text, Exit.NOT_FOUND)
    return choose_model(names, await recent_calls(client))[0]


async def fetch_answer(api: PublicApi, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Returns the message of the answer, and the call's id. Raises the error of /v1."""
    answer = await api.send("POST", "/chat/completions", encode_body(body), timeout_s=900.0)
    return msgspec.json.decode(answer.body)["choices"][0]["message"], answer.headers.get("x-request-id", "")


async def print_stream(api: PublicApi, body: dict[str, Any]) -> str:
    """Send the prompt, and print the answer as it arrives. Returns the call's id. Raises the error of /v1."""
    async with api.stream("/chat/completions", encode_body(body | {"stream": True}), timeout_s=900.0) as stream:
        last_char = "\n"
        try:
            async with aclosing(answer_texts(stream)) as pieces:
                async for text in pieces:
                    _print_piece(text)
                    last_char = text[-1]
        finally:
            if last_char != "\n":
                out("")
        return stream.headers.get("x-request-id", "")


async def answer_texts(stream: Stream) -> AsyncGenerator[str, None]:
    """Yields the texts in a stream of events. Raises its error, and UpstreamError if it ends without ``[DONE]``."""
    async with aclosing(stream.lines()) as lines:
        async for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            chunk = msgspec.json.decode(data)
            if "error" in chunk:
                raise error_of(502, data)
            for choice in chunk.get("choices", ()):
                if text := choice.get("delta", {}).get("content"):
                    yield text
    raise UpstreamError("the answer was cut off; try again")


async def _add_advice(client: ControlClient, error: GatewayError) -> None:
    """Add advice to an error whose message has no command yet, with the names that the call's record has."""
    if "'tollkeeper " in error.message:
        return
    call = await _fetch_record(client, str(error.details.get("call_id", "")))
    if call is None or (call.attempts and isinstance(error, NotFound)):  # the upstream lacks the model
        return
    key = call.attempts[-1].key.partition(" ")[0] if call.attempts else ""
    if fix := advice(error, token=call.token, group=call.group, model=call.model, channel=call.channel, key=key):
        error.message += f"; {fix}"


def _print_piece(text: str) -> None:
    """Print a piece of the answer, without control characters if stdout is a terminal."""
    out(plain_lines(text) if is_terminal() else text, end="")


async def print_receipt(client: ControlClient, call_id: str, max_tokens: int | None = None) -> None:
    """Print on stderr what the call used and cost, and why the answer was cut off."""
    if (call := await _fetch_record(client, call_id)) is None:
        return
    usage = f"{call.input_tokens} input + {call.output_tokens} output tokens ({call.usage_source})"
    model = f"{call.fallback} for {call.model}" if call.fallback else call.model
    route = f"{model} from {call.channel} as {call.token}"
    notify(f"{usage}, {formatting.cost(call)}, {brief_span(call.duration_ms)}, {route}, {call.id}")
    if call.finish_reason == "length":
        limit = "it reached the model's output limit"
        if max_tokens is not None and call.output_tokens >= max_tokens:
            limit = f"--max-tokens {max_tokens}"
        elif any(mark.startswith("output_limit=") for mark in call.marks):
            limit = "the model, or what is left of a budget or of the balance, allows no more"
        notify(f"note: the answer was cut off after {count_text(call.output_tokens, 'token')}: {limit}")


async def _fetch_record(client: ControlClient, call_id: str) -> CallView | None:
    """Returns the record of the call; None if it has none, or if the server has stopped in the meantime."""
    with suppress(NotFound, InternalError, Unavailable):
        return await client.call(call_id) if call_id else None
    return None
