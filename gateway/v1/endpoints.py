"""The table of paths on the public port: which handler answers a request, and whose errors it gets.

``ENDPOINTS`` has one row for each path. A row whose path ends with a slash stands for every path below it without a row
of its own. ``find_endpoint`` accepts many spellings of a path, because programs are configured with all kinds of base
URLs: with and without ``/v1``, with it twice, with doubled and trailing slashes, in Azure's forms. Such requests are
served in place and never redirected: clients that look for models take a redirect for a failure.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec
from aiohttp import web

from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.domain.addresses import standard_path
from gateway.inbound.api import InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.completions.api import COMPLETIONS
from gateway.inbound.embeddings.api import EMBEDDINGS
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.ollama.api import OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_EMBEDDINGS, OLLAMA_GENERATE
from gateway.inbound.responses.api import COMPACTIONS, RESPONSES
from gateway.inbound.responses.chat_endpoint import CHAT_ENDPOINT
from gateway.v1.call import answer_call
from gateway.v1.count_tokens import answer_count_tokens
from gateway.v1.health import answer_front_page, answer_health
from gateway.v1.models import answer_model, answer_models
from gateway.v1.ollama import answer_generation, answer_ps, answer_pull, answer_show, answer_tags, answer_version
from gateway.v1.responses import answer_input_tokens, answer_response, cancel_response, delete_response, get_response
from gateway.v1.responses_socket import answer_socket
from gateway.web.response import Response

Handler = Callable[[Engine, web.BaseRequest, CallOrigin], Awaitable[web.StreamResponse | Response]]
"""Answers one request. Raises GatewayError while nothing has been sent."""

KEY_PATH = "/k/"
"""The start of a path that has the key of a program that cannot send one, and has it in the base URL."""


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    path: str
    """The path in ``CallOrigin.path``, however the client spelled it; below a prefix row that is the whole path."""
    handlers: Mapping[str, Handler] = {}
    """Handlers by method; the one of GET also answers HEAD. Other methods get a 405. A path without handlers is
    unknown, like one without a row, but its error is in the form of ``api``."""
    api: InboundApi | None = None
    """The API whose errors it answers with; None if the request's headers decide (``api_of``)."""
    keyed: bool = True
    """Whether the client's key is read."""
    hidden: frozenset[str] = frozenset()
    """Methods that error messages do not list, because their handler only explains why they are not supported."""
    label: str = ""
    """The path in error messages, if it differs from ``path``."""


ENDPOINTS: tuple[EndpointRow, ...] = (
    EndpointRow(path="/v1/models", handlers={"GET": answer_models}),
    EndpointRow(path="/v1/models/", handlers={"GET": answer_model}, label="/v1/models/{id}"),
    EndpointRow(path="/v1/chat/completions", handlers={"POST": answer_call}, api=CHAT_ENDPOINT),
    EndpointRow(path="/v1/completions", handlers={"POST": answer_call}, api=COMPLETIONS),
    EndpointRow(
        path="/v1/responses",
        handlers={"POST": answer_response, "GET": answer_socket},
        api=RESPONSES,
        hidden=frozenset({"GET"}),
    ),
    EndpointRow(path="/v1/responses/input_tokens", handlers={"POST": answer_input_tokens}, api=RESPONSES),
    EndpointRow(path="/v1/responses/compact", handlers={"POST": answer_response}, api=COMPACTIONS),
    EndpointRow(
        path="/v1/responses/",
        handlers={"GET": get_response, "DELETE": delete_response, "POST": cancel_response},
        api=RESPONSES,
        label="/v1/responses/{id}",
        hidden=frozenset({"POST"}),
    ),
    EndpointRow(path="/v1/embeddings", handlers={"POST": answer_call}, api=EMBEDDINGS),
    EndpointRow(path="/v1/messages", handlers={"POST": answer_call}, api=MESSAGES),
    EndpointRow(path="/v1/messages/count_tokens", handlers={"POST": answer_count_tokens}, api=MESSAGES),
    EndpointRow(path="/v1/messages/", api=MESSAGES),
    EndpointRow(path="/api/chat", handlers={"POST": answer_generation}, api=OLLAMA_CHAT),
    EndpointRow(path="/api/generate", handlers={"POST": answer_generation}, api=OLLAMA_GENERATE),
    EndpointRow(path="/api/embed", handlers={"POST": answer_call}, api=OLLAMA_EMBED),
    EndpointRow(path="/api/embeddings", handlers={"POST": answer_call}, api=OLLAMA_EMBEDDINGS),
    EndpointRow(path="/api/tags", handlers={"GET": answer_tags}, api=OLLAMA_CHAT),
    EndpointRow(path="/api/version", handlers={"GET": answer_version}, api=OLLAMA_CHAT),
    EndpointRow(path="/api/ps", handlers={"GET": answer_ps}, api=OLLAMA_CHAT),
    EndpointRow(path="/api/show", handlers={"POST": answer_show}, api=OLLAMA_CHAT),
    EndpointRow(path="/api/pull", handlers={"POST": answer_pull}, api=OLLAMA_CHAT),
    EndpointRow(path="/api/", api=OLLAMA_CHAT),
    EndpointRow(path="/v1/health", handlers={"GET": answer_health}, keyed=False),
    EndpointRow(path="/health", handlers={"GET": answer_health}, keyed=False),
    EndpointRow(path="/", handlers={"GET": answer_front_page}, keyed=False),
)

PREFIX_ROWS: tuple[EndpointRow, ...] = tuple(
    sorted((row for row in ENDPOINTS if row.path.endswith("/") and row.path != "/"), key=lambda row: -len(row.path))
)
"""Prefix rows, the longest first."""
APIS: dict[str, InboundApi] = {
    row.api.name: row.api for row in ENDPOINTS if row.api is not None and not row.api.ability
}
"""All APIs by name, chat completions first."""
EXACT_ROWS: dict[str, EndpointRow] = {row.path: row for row in ENDPOINTS if row not in PREFIX_ROWS}


def find_endpoint(path: str) -> tuple[EndpointRow | None, str, str]:
    """Returns the endpoint of a path or None, the path as the table spells it, and the model in a path of Azure's."""
    endpoint = EXACT_ROWS.get(path)
    if endpoint is not None:
        return endpoint, path, ""
    if path.startswith(KEY_PATH):
        path = "/" + path.removeprefix(KEY_PATH).partition("/")[2]
    standard, model = standard_path(path)
    spellings = tuple(_spellings(standard))
    for spelling in spellings:
        if (endpoint := EXACT_ROWS.get(spelling)) is not None:
            return endpoint, spelling, model
    for spelling in spellings:
        for row in PREFIX_ROWS:
            if spelling.startswith(row.path):
                return row, spelling, model
    return None, path, ""


def methods_of(endpoint: EndpointRow) -> tuple[str, ...]:
    """Returns the methods that a path allows."""
    return tuple(name for method in endpoint.handlers for name in ((method, "HEAD") if method == "GET" else (method,)))


def api_of(headers: Mapping[str, str]) -> InboundApi:
    """Returns the API whose errors a request gets if its path does not decide it."""
    return MESSAGES if "anthropic-version" in headers else CHAT


def documented_requests() -> str:
    """Returns the requests that an error message lists."""
    return ", ".join(
        f"{method} {row.label or row.path}"
        for row in ENDPOINTS
        for method in row.handlers
        if method not in row.hidden and row.path not in ("/", "/health")
    )


def _spellings(path: str) -> Iterator[str]:
    """Yields the path in each form that the table may have."""
    clean = path.rstrip("/") or "/"
    while clean.startswith("/v1/v1/") or clean == "/v1/v1":
        clean = clean[3:]
    yield clean
    if clean == "/v1" or clean.startswith("/v1/"):
        yield clean[3:] or "/"
    else:
        yield "/v1" + clean
