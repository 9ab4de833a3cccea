"""Control: the client of the control surface, with a method for each route. The console and the commands use it.

Most methods are made by ``fetch`` and ``change``; those with special parameters are written out.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

import msgspec

from gateway.client.http import exchange
from gateway.client.request import Body, Caller, change, error_of, fetch, query_text, segment
from gateway.domain.account import Grant
from gateway.domain.channel import Check
from gateway.domain.config_views import ConfigOrigin, ExportView, ImportView
from gateway.domain.diagnosis import Checkup, Verdict, Why
from gateway.domain.errors import GatewayError, InternalError
from gateway.domain.events import AnyEvent
from gateway.domain.history import HistoryView, UndoView
from gateway.domain.incidents import Incident
from gateway.domain.key_owners import KeyOwner
from gateway.domain.price_view import PriceNews, PriceView
from gateway.domain.settings import ExpiringRecords, Settings
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

PROBE_S = 180.0
"""The time for requests that contact an upstream, in seconds: a model may be slow."""

Done = dict[str, str]
"""The answer to a request that has no other result."""


class AccountRequests(Caller):
    """Requests about the account, tokens and groups, the configuration as a whole, and the history of changes. Tokens
    are named by id or name, groups by name.
    """

    account = fetch("/account", AccountView)
    set_account = change("PATCH", "/account", AccountView)
    grants = fetch("/account/grants", list[Grant])
    """Returns the grants, oldest first."""
    export_config = fetch("/config", ExportView)
    """Returns the configuration as one text without secrets."""
    settings = fetch("/settings", Settings)
    set_settings = change("PATCH", "/settings", Settings)

    async def grant(self, nanos: int, note: str = "") -> AccountView:
        """Add money to the account; a negative amount subtracts it."""
        return await self.change("POST", "/account/grants", AccountView, {"nanos": nanos, "note": note})

    async def import_config(
        self, text: str, *, apply: bool = False, prune: bool = False, origin: ConfigOrigin = ConfigOrigin.OURS
    ) -> ImportView:
        """Returns what a text changes. ``apply`` makes all changes or none, ``prune`` removes what is not in it."""
        body = {"text": text, "apply": apply, "prune": prune, "origin": origin}
        # an import of thousands of models and prices takes long
        return await self.change("POST", "/config", ImportView, body, timeout_s=600.0)

    async def expiring_records(self, keep_days: int) -> ExpiringRecords:
        """Returns the records that would be deleted if records were kept for this many days."""
        return await self.get("/settings/expiring", ExpiringRecords, keep_days=keep_days)

    history = fetch("/history", list[HistoryView])
    """Returns changes, newest first. Filters: the tuples of alternatives kind and name, since and until (in
    milliseconds), and limit.
    """
    history_entry = fetch("/history/{}", HistoryView)
    clear_history = fetch("/history", Done, method="DELETE")
    """Deletes the history. Its changes cannot be undone then."""

    async def undo(self, number: int = 0, *, accept: bool = False) -> UndoView:
        """Undo a change, by default the newest one.

        Without ``accept``, raises Conflict ``needs_confirmation`` if the change was made elsewhere, if what the undo
        removes has been used, or if it overwrites a newer change; the details are the ``entry`` and the ``reasons``.
        Raises Conflict ``newer_change`` if a newer change must be undone first.
        """
        return await self.change("POST", "/undo", UndoView, {"id": number, "accept": accept})

    async def redo(self, number: int = 0, *, accept: bool = False) -> UndoView:
        """Redo a change that was undone, by default the one undone last. Raises what ``undo`` raises."""
        return await self.change("POST", "/redo", UndoView, {"id": number, "accept": accept})

    async def batch(self, kind: str, patches: Mapping[str, object], channel: str = "") -> str:
        """Edit ``tokens``, ``groups``, ``channels`` or ``prices`` in one change. Returns what was done, as a text.

        ``patches`` has the fields to change, by id or name. None removes the entity. With ``channel``, prices are those
        at that channel.
        """
        place = {"channel": channel} if channel else {}
        edits = [{"ref": ref, "patch": patch, **place} for ref, patch in patches.items()]
        answer = await self.change("POST", "/batch", Done, {"kind": kind, "edits": edits}, timeout_s=PROBE_S)
        return answer["done"]

    tokens = fetch("/tokens", list[TokenView])
    token = fetch("/tokens/{}", TokenView)
    add_token = change("POST", "/tokens", NewToken)
    """Adds a token. The answer has its key, which is shown only once."""
    edit_token = change("PATCH", "/tokens/{}", TokenView)
    rotate_token = fetch("/tokens/{}/rotate", NewToken, method="POST")
    """Gives a token a new key. The answer has the key, which is shown only once."""
    key_owner = fetch("/keys/{}", KeyOwner)
    """Returns whose key this is or was. Raises NotFound."""
    groups = fetch("/groups", list[GroupView])
    group = fetch("/groups/{}", GroupView)
    add_group = change("POST", "/groups", GroupView)
    edit_group = change("PATCH", "/groups/{}", GroupView)

    async def remove_token(self, ref: str) -> str:
        """Remove a token. Returns what stops working for programs without a key; empty if nothing does."""
        answer = await self.change("DELETE", f"/tokens/{segment(ref)}", Done)
        return answer.get("note", "")

    async def token_pass(self, ref: str) -> str:
        """Returns a key that works as this token for one minute."""
        answer = await self.change("POST", f"/tokens/{segment(ref)}/pass", Done)
        return answer["key"]

    async def remove_group(self, name: str, move: str = "") -> None:
        """Remove a group, and move its users to ``move``. Raises Conflict if it is in use and that is empty."""
        await self.send("DELETE", f"/groups/{segment(name)}{query_text({'move': move})}")


class ChannelRequests(Caller):
    """Requests about channels, by id or name, their prices and models, and about how a call would be handled."""

    channels = fetch("/channels", list[ChannelView])
    channel = fetch("/channels/{}", ChannelView)
    add_channel = change("POST", "/channels", SavedChannel, timeout_s=PROBE_S)
    """Adds a channel. Without ``models``, the upstream's list is fetched."""
    edit_channel = change("PATCH", "/channels/{}", SavedChannel, timeout_s=PROBE_S)
    """Edits a channel. May contact the upstream, to find its root and the models that new patterns select."""
    clear_channel = fetch("/channels/{}/clear", ChannelView, method="POST")
    """Forgets the channel's failures."""
    channel_listing = fetch("/channels/{}/listing", ListingView)
    """Returns the upstream's list as it was last fetched."""
    refresh_channel = fetch("/channels/{}/refresh", ListingView, method="POST", timeout_s=PROBE_S)
    """Fetches the upstream's list. If that fails, returns the last good one with the error."""
    checkup = fetch("/channels/{}/checkup", Checkup, timeout_s=PROBE_S)
    """Checks the upstream's address, connection, certificate and key, free of charge."""
    remove_channel = fetch("/channels/{}", Done, method="DELETE")
    """Removes a channel with its keys and prices."""
    remove_key = fetch("/channels/{}/keys/{}", ChannelView, method="DELETE")
    clear_key = fetch("/channels/{}/keys/{}/clear", ChannelView, method="POST")
    offers = fetch("/offers", list[Offer])
    """Returns the local model servers and vendors' keys that could become channels. Searches only this machine."""
    presets = fetch("/presets", list[PresetView])

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

    async def test_channel(self, ref: str, model: str = "") -> Check:
        """Test a channel, which is free of charge; with a model, also make a tiny real call."""
        body = {"model": model} if model else {}
        return await self.change("POST", f"/channels/{segment(ref)}/test", Check, body, timeout_s=PROBE_S)

    async def add_key(self, ref: str, key: str) -> ChannelView:
        """Add a key as the last one."""
        return await self.change("POST", f"/channels/{segment(ref)}/keys", ChannelView, {"key": key})

    async def replace_key(self, ref: str, number: int, key: str) -> ChannelView:
        return await self.change("PATCH", f"/channels/{segment(ref)}/keys/{number}", ChannelView, {"key": key})

    prices = fetch("/prices", list[PriceView])
    price_news = fetch("/prices/news", PriceNews, timeout_s=PROBE_S)
    """Returns the age of the price list, what an import would change, and which prices rise or differ."""
    model = fetch("/models/{}", ModelDetail)

    async def set_price(self, model: str, body: Body, channel: str = "") -> PriceView:
        """Set the price of a model, at all channels or at one. The body has ``input`` and ``output`` in nano-dollars
        per million tokens, or ``like``.
        """
        return await self.change("PUT", f"/prices/{segment(model)}{query_text({'channel': channel})}", PriceView, body)

    async def import_prices(
        self, models: list[str] | None = None, *, channel: str = "", apply: bool = False, accept: bool = False
    ) -> list[PriceProposal]:
        """Returns the known prices of the served models, or of these models, or of those of a channel or vendor.

        With ``apply`` they are imported, except where the owner set a price, and, without ``accept``, except for those
        with a ``guard``.
        """
        body: dict[str, object] = {"apply": apply, "accept": accept, "channel": channel}
        body |= {} if models is None else {"models": models}
        return await self.change("POST", "/prices/import", list[PriceProposal], body)

    async def remove_price(self, model: str, channel: str = "") -> None:
        """Remove the price of a model, or only its price at one channel."""
        await self.send("DELETE", f"/prices/{segment(model)}{query_text({'channel': channel})}")

    async def models(self, token: str | None = None) -> list[ModelView]:
        """Returns all models, or those that a token sees."""
        return await self.get("/models", list[ModelView], token=token)

    async def why(self, token: str, model: str, **call: object) -> Why:
        """Returns how a call would be handled, without making it. What may be said about the call: prompt_tokens,
        max_tokens, stream, and api, without which it is a chat completion.
        """
        return await self.get("/why", Why, token=token, model=model, **call)


class ControlClient(AccountRequests, ChannelRequests):
    """All requests. Every method raises the server's error, and Unavailable if the server is gone."""

    instance = fetch("/instance", str)
    status = fetch("/status", Status)
    call = fetch("/calls/{}", CallView)
    calls = fetch("/calls", CallPage)
    """Returns a page of calls, newest first. Filters: since and until (in milliseconds), failed, words, and the tuples
    of alternatives token, group, model, channel, app and api.

    Running calls come first, unless ``before`` continues a list: the cursor of the previous page, or the id of a call.
    A page may have fewer than ``limit`` calls although more follow; only a page without a cursor is the last.
    """
    numbered_calls = fetch("/records", list[CallView])
    """Returns ``limit`` ended calls from number ``at`` down. The oldest is number 1, the newest ``status.records``."""
    cancel = fetch("/calls/{}/cancel", Done, method="POST")
    """Cancels a running call. Raises NotFound if it is not running."""
    verify = fetch("/verify", Verdict, timeout_s=600.0)
    """Recomputes every balance and sum from the call log, which may have millions of calls."""
    machine = fetch("/machine", list[Step])
    """Returns the checks of the server's machine: port, folder, disk space, open files."""

    async def stop(self, *, now: bool = False) -> None:
        """Stop the server, which lets running calls finish first unless ``now`` is set. Returns at once."""
        await self.send("POST", "/stop", {"now": now})

    async def events(self, recent: int = 200, **filters: object) -> AsyncGenerator[AnyEvent, None]:
        """Yields a snapshot with ``recent`` calls, then events, until the server stops. Raises Unavailable.

        ``filters`` are those of ``calls``: only ended calls that match are reported.
        """
        decoder = msgspec.json.Decoder(AnyEvent)
        path = f"/events{query_text({'recent': recent, **filters})}"
        async with exchange(self.server_address, self.build_request("GET", path)) as stream:
            if stream.status != 200:
                raise error_of(stream.status, await stream.read())
            async with aclosing(stream.lines()) as lines:
                async for line in lines:
                    try:
                        event: AnyEvent = decoder.decode(line)
                    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                        raise InternalError(f"an event cannot be decoded ({exc})", code="version_mismatch") from exc
                    yield event

    async def summary(
        self,
        *,
        by: str = "",
        since: int = 0,
        until: int | None = None,
        step: str = "",
        percentiles: bool = False,
        **filters: object,
    ) -> Summary:
        """Returns sums by ``token``, ``model``, ``token|model``, ``channel``, ``group``, ``app`` or ``api``.

        With ``step``, which is hour, day or month, calls are also summed up over time. ``filters`` are those of
        ``calls``; only matching calls are summed up.
        """
        params = {"by": by, "since": since, "until": until, "step": step, "percentiles": "true" if percentiles else ""}
        # reading millions of records takes long
        return await self.get("/usage", Summary, 600.0 if any(filters.values()) else 0, **params, **filters)

    async def incidents(self, *channels: str) -> list[Incident]:
        """Returns incidents, newest first; if channels are named, only theirs."""
        return await self.get("/incidents", list[Incident], channel=channels)
