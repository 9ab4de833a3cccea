"""SDK: the official Python client pointed at a gateway, as any user would: base URL and key, nothing else."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from openai import APIStatusError, AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.fakes.client import HELLO
from tests.fakes.gateway import Gateway

MESSAGES = cast("list[ChatCompletionMessageParam]", HELLO)


@asynccontextmanager
async def openai(gateway: Gateway, **options: Any) -> AsyncIterator[AsyncOpenAI]:
    """With the SDK's own defaults, its retries too."""
    async with AsyncOpenAI(**{"base_url": gateway.base_url, "api_key": gateway.client.key, **options}) as client:
        yield client


async def raised(client: AsyncOpenAI, model: str = "m") -> APIStatusError:
    """The error that a plain call ends in."""
    try:
        await client.chat.completions.create(model=model, messages=MESSAGES)
    except APIStatusError as error:
        return error
    raise AssertionError("the call went well")


async def gathered(client: AsyncOpenAI, pick: Callable[[Any], object], **fields: Any) -> list[object]:
    """What ``pick`` finds in every chunk of a stream."""
    stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True, **fields)
    return [pick(chunk) async for chunk in stream]
