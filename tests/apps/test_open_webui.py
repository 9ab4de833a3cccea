"""Open WebUI, driven by its HTTP API as its pages do: it lists the models, chats, and answers from an uploaded file."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.client.app import AppTarget
from gateway.client.apps import APPS
from gateway.domain.channel import Dialect
from tests.apps.installed import RUN_S, driven, program
from tests.apps.scripted_agent import INPUT, MODEL, OUTPUT, UPSTREAM_MODELS, ScriptedAgent, serve
from tests.bench.processes import free_port
from tests.conformance.test_embeddings import vectors
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider

EMBEDDING = "embed-1"
FACT = "The bridge over the river Tollen was built in 1893."
QUIET = {
    "OFFLINE_MODE": "true",
    "ENABLE_OLLAMA_API": "false",
    "WEBUI_AUTH": "false",
    "WEBUI_SECRET_KEY": "secret",
    "ANONYMIZED_TELEMETRY": "false",
    "ENABLE_PERSISTENT_CONFIG": "false",
}
"""Nothing is downloaded, and nobody has to log in."""


@dataclass
class WebUI:
    """A running one, and its only user."""

    http: aiohttp.ClientSession
    url: str

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        async with self.http.request(method, self.url + path, **more) as answer:
            text = await answer.text()
            assert answer.status == 200, text
            return await answer.json()

    async def chat(self, question: str, **more: Any) -> str:
        """What its stream says."""
        body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": question}], **more}
        async with self.http.post(f"{self.url}/api/chat/completions", json=body) as answer:
            text = await answer.text()
            assert answer.status == 200, text
            return text


@asynccontextmanager
async def web_ui(variables: Mapping[str, str], folder: Path) -> AsyncIterator[WebUI]:
    """Open WebUI with these variables, ready and logged in."""
    port, data = free_port(), folder / "data"
    data.mkdir()
    env = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "DATA_DIR": str(data),
        **QUIET,
        **variables,
    }
    with (folder / "open-webui.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(program("open-webui", "open-webui"), "serve", "--host", "127.0.0.1", "--port", str(port)),
            cwd=folder,
            env=env,
            stdout=log,
            stderr=log,
        )
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as http:
                found = WebUI(http, f"http://127.0.0.1:{port}")
                await _ready(found)
                user = await found.ask("POST", "/api/v1/auths/signin", json={"email": "", "password": ""})
                http.headers["Authorization"] = f"Bearer {user['token']}"
                yield found
        finally:
            process.terminate()
            await process.wait()


async def _ready(found: WebUI) -> None:
    async with asyncio.timeout(RUN_S):
        while True:
            try:
                await found.ask("GET", "/health")
            except (aiohttp.ClientError, AssertionError):
                await asyncio.sleep(0.5)
            else:
                return


@driven
@pytest.mark.timeout(2 * RUN_S)
@pytest.mark.parametrize("dialect", UPSTREAM_MODELS)
async def test_models_chats_and_files(gateway: Gateway, provider: Provider, tmp_path: Path, dialect: Dialect) -> None:
    program("open-webui", "open-webui")
    agent, embed, texts = ScriptedAgent([], final="It was built in 1893."), vectors(used=9), list[str]()

    async def script(exchange: Exchange) -> None:
        if exchange.path.endswith("/embeddings"):
            texts.append(exchange.body.decode())
            await embed(exchange)
        else:
            await agent(exchange)

    serve(gateway, provider, dialect, agent)
    gateway.channel(provider.base_url, EMBEDDING, name="embeddings")
    gateway.price(EMBEDDING)
    provider.other = script
    models = {MODEL: None, EMBEDDING: None}
    target = AppTarget(base_url=gateway.base_url, model=MODEL, models=models, key=gateway.client.key)
    variables = APPS["open-webui"].setup(target).guide[0].variables
    async with web_ui(variables, tmp_path) as ui:
        listed = await ui.ask("GET", "/api/models")
        assert {MODEL, EMBEDDING} <= {model["id"] for model in listed["data"]}
        assert "It was built in 1893." in await ui.chat("When was the bridge built?")
        form = aiohttp.FormData()
        form.add_field("file", FACT.encode(), filename="bridge.txt", content_type="text/plain")
        file = await ui.ask("POST", "/api/v1/files/?process=true&process_in_background=false", data=form)
        assert FACT in texts[0]
        answer = await ui.chat("When was it built?", files=[{"type": "file", "id": file["id"]}])
        assert "It was built in 1893." in answer
    chats = [one for one in provider.exchanges if one.body and not one.path.endswith("/embeddings")]
    assert any(FACT in one.body.decode() for one in chats)
    records = await gateway.settled(len(chats) + len(texts))
    by_api = {(one.api, one.status, one.input, one.output) for one in records}
    assert by_api == {("chat", 200, INPUT, OUTPUT), ("embeddings", 200, 9, 0)}
