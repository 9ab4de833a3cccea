"""``chat``: one prompt through the gateway's own /v1, sent as by any client, streamed as the answer comes."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import click
import msgspec

from gateway.client.apps import key_in
from gateway.client.control import ControlClient
from gateway.client.http import Stream
from gateway.client.model_choice import usual_model
from gateway.client.request import encode_body, error_of
from gateway.client.test_call import PublicApi, demand_serving, public_api
from gateway.commands import formatting, stdin
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, TOKENS
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import SOME, WholeNumber
from gateway.commands.output import harmless, on_terminal, out, out_json, words
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
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--model",
    "-m",
    type=SOME,
    shell_complete=MODELS,
    help="The model to call (default: the one called last, else the first that the token sees).",
)
@click.option(
    "--token",
    type=SOME,
    shell_complete=TOKENS,
    help="Name or key of the token (default: TOLLKEEPER_TOKEN, OPENAI_API_KEY, else the oldest one).",
)
@click.option("--system", help="A system message before the prompt.")
@click.option("--max-tokens", type=WholeNumber(1), metavar="N", help="Limit the answer to this many tokens.")
@click.option("--no-stream", is_flag=True, help="Print the answer only when it is complete.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer and its call as JSON; field names are stable.")
def chat(
    prompt: tuple[str, ...],
    model: str | None,
    token: str | None,
    system: str | None,
    *,
    max_tokens: int | None,
    no_stream: bool,
    as_json: bool,
) -> None:
    """Send one prompt through the gateway and print the answer as it arrives.

    Without PROMPT, or with '-', the prompt is read from stdin, as UTF-8. Usage and cost are printed on stderr.
    """
    text = prompt_of(prompt)
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})

    async def work(client: ControlClient) -> None:
        status = demand_serving(await client.status())
        way = public_api(status.address, await _key(client, token), app="tollkeeper-chat")
        body: dict[str, Any] = {"model": model or await chat_model(client, way), "messages": messages}
        body |= {} if max_tokens is None else {"max_tokens": max_tokens}
        try:
            if as_json:
                message, call_id = await whole_answer(way, body)
                out_json({"message": message, "call": await _call(client, call_id)})
                return
            call_id = await (whole(way, body) if no_stream else print_stream(way, body))
        except GatewayError as error:
            await _add_advice(client, error)
            raise
        await print_receipt(client, call_id, max_tokens)

    run(work, listen=True)
    if stdin.has_unread_pipe():
        words("note: stdin was not read, because PROMPT is given; to send both, give PROMPT as --system")


def prompt_of(given: tuple[str, ...]) -> str:
    """Returns the prompt of the command line, else of stdin. Raises UsageError when it is empty."""
    text = " ".join(given)
    if text in ("", "-"):
        if stdin.on_terminal():
            words("type the prompt, then press Ctrl-D")
        text = stdin.prompt()
    if not text.strip():
        raise click.UsageError("the prompt is empty", click.get_current_context())
    return text


async def _key(client: ControlClient, token: str | None) -> str:
    """Returns the key given or in the environment; for a token's name, one that works for a minute."""
    named = token or key_in(os.environ)
    if named.startswith(PREFIX):
        return named
    return await client.token_pass(named or await _usual_token(client))


async def _usual_token(client: ControlClient) -> str:
    """Returns the oldest token, which is most likely the owner's. Raises Quit if there is none."""
    usable = [token for token in await client.tokens() if token.state == "active" and not token.temporary]
    if not usable:
        raise Quit("no active token; create one: tollkeeper token add NAME", Exit.NOT_FOUND)
    return min(usable, key=lambda token: token.created_ms).name


async def chat_model(client: ControlClient, way: PublicApi) -> str:
    """Returns the model called last among those that the token sees, else the first of them.

    Raises Quit if there is none, or if all are for embeddings.
    """
    names = await way.models()
    if not names:
        raise Quit("the token sees no model; 'tollkeeper doctor' finds out why", Exit.NOT_FOUND)
    if all(map(is_embedding_model, names)):
        seen = ", ".join(plain(name) for name in names[:5])
        raise Quit(
            f"the token sees only models for embeddings ({seen}); choose another --token or a --model", Exit.NOT_FOUND
        )
    return (await usual_model(client, names)).model


async def whole(way: PublicApi, body: dict[str, Any]) -> str:
    """Send the prompt and print the whole answer. Returns the call's id. Raises /v1's error."""
    message, call_id = await whole_answer(way, body)
    _say(message.get("content") or "")
    out("")
    return call_id


async def whole_answer(way: PublicApi, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Returns the message of the answer and the call's id. Raises /v1's error."""
    answer = await way.ask("POST", "/chat/completions", encode_body(body), timeout_s=900.0)
    return msgspec.json.decode(answer.body)["choices"][0]["message"], answer.headers.get("x-request-id", "")


async def print_stream(way: PublicApi, body: dict[str, Any]) -> str:
    """Send the prompt and print the answer while it arrives. Returns the call's id. Raises /v1's error."""
    async with way.stream("/chat/completions", encode_body(body | {"stream": True}), timeout_s=900.0) as stream:
        last = "\n"
        try:
            async with aclosing(texts(stream)) as pieces:
                async for text in pieces:
                    _say(text)
                    last = text[-1]
        finally:
            if last != "\n":
                out("")
        return stream.headers.get("x-request-id", "")


async def texts(stream: Stream) -> AsyncGenerator[str, None]:
    """Yields the pieces of the answer in a stream of server-sent events, each on a ``data:`` line.

    Raises the error that the stream ended with, UpstreamError if it ended without its end mark.
    """
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
    """Add the next step to an error that names none: what it is about is in the call's record."""
    call = None if "'tollkeeper " in error.message else await _call(client, str(error.details.get("call_id", "")))
    if call is None or (call.attempts and isinstance(error, NotFound)):  # it was the upstream that lacks the model
        return
    key = call.attempts[-1].key.partition(" ")[0] if call.attempts else ""
    names = {"token": call.token, "group": call.group, "model": call.model, "channel": call.channel, "key": key}
    if fix := advice(error, **{noun: name for noun, name in names.items() if name}):
        error.message += f"; {fix}"


def _say(text: str) -> None:
    """Print a piece of the answer: unchanged into a file or pipe, made harmless on a terminal."""
    out(harmless(text) if on_terminal() else text, end="")


async def print_receipt(client: ControlClient, call_id: str, max_tokens: int | None = None) -> None:
    """Print what the call used and cost, on stderr."""
    call = await _call(client, call_id)
    if call is None:
        return
    usage = f"{call.input_tokens} input + {call.output_tokens} output tokens ({call.usage_source})"
    model = f"{call.fallback} for {call.model}" if call.fallback else call.model
    who = f"{model} from {call.channel} as {call.token}"
    words(f"{usage}, {formatting.cost(call)}, {brief_span(call.duration_ms)}, {who}, {call.id}")
    if call.finish_reason == "length":
        if max_tokens is not None and call.output_tokens >= max_tokens:
            why = f"--max-tokens {max_tokens}"
        elif any(mark.startswith("output_limit=") for mark in call.marks):
            why = "the model, or what is left of a budget or the balance, allows no more"
        else:
            why = "the model's limit of output"
        words(f"note: the answer was cut off after {count_text(call.output_tokens, 'token')}: {why}")


async def _call(client: ControlClient, call_id: str) -> CallView | None:
    """Returns the record of the call; None if there is none, or the server stopped after the answer."""
    try:
        return await client.call(call_id) if call_id else None
    except (NotFound, InternalError, Unavailable):
        return None
