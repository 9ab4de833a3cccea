"""Control: the client of the control surface, for the console and the commands. Most methods are made by ``ask``."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

import msgspec

from gateway.client.http import exchange
from gateway.client.request import Body, Caller, ask, query_text, segment
from gateway.domain.account import Grant
from gateway.domain.channel import Check
from gateway.domain.config_views import ExportView, ImportView
from gateway.domain.diagnosis import Checkup, Verdict, Why
from gateway.domain.errors import GatewayError, InternalError, Unavailable
from gateway.domain.events import AnyEvent
from gateway.domain.history import HistoryView, UndoView
from gateway.domain.incidents import Incident
from gateway.domain.key_owners import KeyOwner
from gateway.domain.price_view import PriceNews, PriceView
from gateway.domain.settings import Settings
from gateway.domain.upstream_views import ListingView, ModelDetail, PresetView, PriceProposal, SavedChannel
from gateway.domain.views import (
    AccountView,
    CallPage,
    CallView,
    ChannelView,
    GroupView,
    ModelView,
    NewToken,
    Offer,
    Status,
    Step,
    Summary,
    TokenView,
)

SILENCE_S = 60.0
"""The longest wait for an event, in seconds. The server sends at least a heartbeat every 15 seconds."""
PROBE_S = 180.0
"""How long a request that contacts an upstream may take, in seconds: a model may be slow."""

Done = dict[str, str]
"""The answer to a request that has no other result."""


class ControlClient(Caller):
    """All requests. Groups are named by name, all else by id or name. They raise the server's error or Unavailable."""

    account = ask("GET", "/account", AccountView)
    set_account = ask("PATCH", "/account", AccountView)
    grants = ask("GET", "/account/grants", list[Grant])
    """Returns the grants, oldest first."""
    export_config = ask("GET", "/config", ExportView)
    """Returns the configuration as one text without secrets."""
    settings = ask("GET", "/settings", Settings)
    set_settings = ask("PATCH", "/settings", Settings)
    grant = ask("POST", "/account/grants", AccountView, "nanos", "note")
    """Adds money to the account; a negative amount subtracts it."""
    import_config = ask("POST", "/config", ImportView, "text", timeout_s=600.0)
    """Returns what a text of this ``origin`` changes. ``apply`` makes all changes or none, ``prune`` removes what is
    not in it. An import of thousands of models and prices takes long.
    """
    history = ask("GET", "/history", list[HistoryView])
    """Returns changes, newest first. Filters: kind, name (tuples of alternatives), since, until (in ms), limit."""
    history_entry = ask("GET", "/history/{}", HistoryView)
    clear_history = ask("DELETE", "/history", Done)
    """Deletes the history. Its changes cannot be undone then."""

    undo = ask("POST", "/undo", UndoView, "id")
    """Undoes a change, by default the newest one. Raises Conflict ``newer_change`` if another one must be undone first.

    The owner must confirm it if the change was made elsewhere, if what the undo removes has been used, or if it
    overwrites a newer change.
    """
    redo = ask("POST", "/redo", UndoView, "id")
    """Redoes a change that was undone, by default the one undone last. Raises what ``undo`` raises."""

    async def batch(self, kind: str, patches: Mapping[str, object], channel: str = "") -> str:
        """Edit ``tokens``, ``groups``, ``channels`` or ``prices`` in one change. Returns what was done, as a text.

        ``patches``: the fields to change, by id or name; None removes the entity. ``channel``: the prices' channel.
        """
        place = {"channel": channel} if channel else {}
        edits = [{"ref": ref, "patch": patch, **place} for ref, patch in patches.items()]
        answer = await self.request("POST", "/batch", Done, {"kind": kind, "edits": edits}, timeout_s=PROBE_S)
        return answer["done"]

    tokens = ask("GET", "/tokens", list[TokenView])
    token = ask("GET", "/tokens/{}", TokenView)
    add_token = ask("POST", "/tokens", NewToken)
    """Adds a token. The answer has its key, which is shown only once."""
    edit_token = ask("PATCH", "/tokens/{}", TokenView)
    rotate_token = ask("POST", "/tokens/{}/rotate", NewToken)
    """Gives a token a new key. The answer has the key, which is shown only once."""
    key_owner = ask("GET", "/keys/{}", KeyOwner)
    """Returns whose key this is or was. Raises NotFound."""
    groups = ask("GET", "/groups", list[GroupView])
    group = ask("GET", "/groups/{}", GroupView)
    add_group = ask("POST", "/groups", GroupView)
    edit_group = ask("PATCH", "/groups/{}", GroupView)
    remove_group = ask("DELETE", "/groups/{}", Done, "move")
    """Removes a group, and moves its users to ``move``. Raises Conflict if it is in use and that is empty."""
    remove_token = ask("DELETE", "/tokens/{}", Done)
    """Removes a token. The answer has as ``note`` what stops working for programs without a key."""
    token_pass = ask("POST", "/tokens/{}/pass", Done)
    """Returns as ``key`` a key that works as this token for one minute."""
    channels = ask("GET", "/channels", list[ChannelView])
    channel = ask("GET", "/channels/{}", ChannelView)
    add_channel = ask("POST", "/channels", SavedChannel, timeout_s=PROBE_S)
    """Adds a channel. Without ``models``, the upstream's list is fetched."""
    edit_channel = ask("PATCH", "/channels/{}", SavedChannel, timeout_s=PROBE_S)
    """Edits a channel. May contact the upstream, to find its root and the models that new patterns select."""
    clear_channel = ask("POST", "/channels/{}/clear", ChannelView)
    """Forgets the channel's failures."""
    channel_listing = ask("GET", "/channels/{}/listing", ListingView)
    """Returns the upstream's list as it was last fetched."""
    refresh_channel = ask("POST", "/channels/{}/refresh", ListingView, timeout_s=PROBE_S)
    """Fetches the upstream's list. If that fails, returns the last good one with the error."""
    checkup = ask("GET", "/channels/{}/checkup", Checkup, timeout_s=PROBE_S)
    """Checks that the upstream can be reached and accepts the keys, free of charge."""
    remove_channel = ask("DELETE", "/channels/{}", Done)
    """Removes a channel with its keys and prices."""
    remove_key = ask("DELETE", "/channels/{}/keys/{}", ChannelView)
    clear_key = ask("POST", "/channels/{}/keys/{}/clear", ChannelView)
    offers = ask("GET", "/offers", list[Offer])
    """Returns the local model servers and vendors' keys that could become channels. Searches only this machine."""
    presets = ask("GET", "/presets", list[PresetView])

    async def add_offers(self, offers: Iterable[Offer]) -> tuple[list[SavedChannel], dict[str, GatewayError]]:
        """Add a channel for each offer, even if others fail. Returns the channels, and the errors by offer."""
        used_names = {channel.name for channel in await self.channels()}
        added, errors = list[SavedChannel](), dict[str, GatewayError]()
        for offer in offers:
            body = offer.channel_body(used_names)
            used_names.add(body["name"])
            try:
                added.append(await self.add_channel(body))
            except GatewayError as error:
                errors[offer.name] = error
        return added, errors

    test_channel = ask("POST", "/channels/{}/test", Check, "model", timeout_s=PROBE_S)
    """Tests a channel, which is free of charge; with a model, also makes a tiny real call."""
    add_key = ask("POST", "/channels/{}/keys", ChannelView, "key")
    """Adds a key as the last one."""
    replace_key = ask("PATCH", "/channels/{}/keys/{}", ChannelView, "key")
    prices = ask("GET", "/prices", list[PriceView])
    price_news = ask("GET", "/prices/news", PriceNews, timeout_s=PROBE_S)
    """Returns the age of the price list, what an import would change, and which prices rise or differ; with ``hints``,
    which take longer, also why models have no list price.
    """
    model = ask("GET", "/models/{}", ModelDetail)

    async def set_price(self, model: str, body: Body, channel: str = "") -> PriceView:
        """Set a model's price, at all channels or one. The body has nano-dollars per million tokens, or ``like``."""
        return await self.request("PUT", f"/prices/{segment(model)}{query_text({'channel': channel})}", PriceView, body)

    import_prices = ask("POST", "/prices/import", list[PriceProposal], "models")
    """Returns the known prices of all served models, or only of these ``models``, or only at a ``channel`` or vendor.

    With ``apply`` they are imported, except where the owner set a price, and without ``accept`` those with a ``guard``.
    """
    remove_price = ask("DELETE", "/prices/{}", Done, "channel")
    """Removes the price of a model, or only its price at one channel."""
    models = ask("GET", "/models", list[ModelView], "token")
    """Returns all models, or those that a token sees."""
    why = ask("GET", "/why", Why, "token", "model")
    """Returns how a call would be handled, without making it. What may be said about the call: prompt_tokens,
    max_tokens, stream, and api, without which it is a chat completion.
    """
    instance = ask("GET", "/instance", str)
    status = ask("GET", "/status", Status)
    call = ask("GET", "/calls/{}", CallView)
    calls = ask("GET", "/calls", CallPage)
    """Returns a page of calls, newest first. Filters: since and until (in milliseconds), failed, words, and the tuples
    of alternatives token, group, model, channel, app and api.

    Running calls come first, unless ``before`` continues a list: the cursor of the previous page, or the id of a call.
    A page may have fewer than ``limit`` calls although more follow; only a page without a cursor is the last.
    """
    numbered_calls = ask("GET", "/records", list[CallView])
    """Returns ``limit`` ended calls from number ``at`` down. The oldest is number 1, the newest ``status.records``."""
    cancel = ask("POST", "/calls/{}/cancel", Done)
    """Cancels a running call. Raises NotFound if it is not running."""
    summary = ask("GET", "/usage", Summary, timeout_s=600.0)
    """Returns sums ``by`` token, model, ``token|model``, channel, group, app or api, ``since`` to ``until``.

    With ``step``, which is hour, day or month, calls are also summed up over time; with ``percentiles``, also of the
    durations. Other parameters are the filters of ``calls``: only matching calls are summed up, which takes long.
    """
    incidents = ask("GET", "/incidents", list[Incident], "channel")
    """Returns incidents, newest first; if channels are named, only theirs."""
    verify = ask("GET", "/verify", Verdict, timeout_s=600.0)
    """Recomputes every balance and sum from the call log, which may have millions of calls."""
    machine = ask("GET", "/machine", list[Step])
    """Returns the checks of the server's machine: port, folder, disk space, open files."""

    stop = ask("POST", "/stop", Done)
    """Stops the server, which lets running calls finish first unless ``now`` is set. Returns at once."""

    async def events(self, recent: int = 200, **filters: object) -> AsyncGenerator[AnyEvent, None]:
        """Yields a snapshot with ``recent`` calls, then events, until the server stops.

        ``filters`` are as in ``calls``: only ended calls that match are reported. Raises Unavailable, also if nothing
        arrives for ``SILENCE_S``: the process may be suspended by Ctrl-Z, or hang.
        """
        decoder = msgspec.json.Decoder(AnyEvent)
        path = f"/events{query_text({'recent': recent, **filters})}"
        message = self.build_request("GET", path)
        async with exchange(self.endpoint, message) as stream, aclosing(stream.lines()) as lines:
            while line := await _next_line(lines):
                try:
                    event: AnyEvent = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                    raise InternalError(f"an event cannot be decoded ({exc})", code="version_mismatch") from exc
                yield event


async def _next_line(lines: AsyncGenerator[bytes, None]) -> bytes:
    """Returns the next line; empty at the end. Raises Unavailable if it does not come in time."""
    try:
        async with asyncio.timeout(SILENCE_S):
            return await anext(lines, b"")
    except TimeoutError as exc:
        raise Unavailable("the server does not answer; it may be suspended, or hang", code="server_slow") from exc
