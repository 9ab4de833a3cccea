"""Bare proxy: what aiohttp costs when nothing is done with the calls, the measure for the gateway. Prints its port.

Run as a module with the upstream's port. uvloop, access log off, one client session, bodies and events passed as bytes.
"""

import asyncio
import sys

import aiohttp
import uvloop
from aiohttp import web

_SESSION = web.AppKey("session", aiohttp.ClientSession)
_URL = web.AppKey("url", str)


async def relay(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    headers = {"content-type": "application/json", "authorization": request.headers.get("authorization", "")}
    async with request.app[_SESSION].post(request.app[_URL], data=body, headers=headers) as answer:
        kind = answer.headers["content-type"]
        if not kind.startswith("text/event-stream"):
            return web.Response(body=await answer.read(), headers={"content-type": kind})
        down = web.StreamResponse(headers={"content-type": kind})
        await down.prepare(request)
        async for data in answer.content.iter_any():
            await down.write(data)
        await down.write_eof()
        return down


async def main(port: int) -> None:
    app = web.Application(client_max_size=1 << 26)
    app[_URL] = f"http://127.0.0.1:{port}/v1/chat/completions"
    app[_SESSION] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
    app.router.add_post("/v1/chat/completions", relay)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
