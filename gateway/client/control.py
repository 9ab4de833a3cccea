"""The client of the control surface, with a method for each route. The console and the commands both use it.

Most routes are lines of a table; those whose parameters need a word or a form of their own are written out.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from gateway.client.http import exchange
from gateway.client.request import Body, Caller, change, change_one, error_of, fetch, fetch_one, query_text, segment
from gateway.domain.account import Grant
from gateway.domain.channel import Check
from gateway.domain.config_views import ConfigOrigin, ExportView, ImportView
from gateway.domain.diagnosis import Checkup, Verdict, Why
from gateway.domain.errors import InternalError
from gateway.domain.events import AnyEvent
from gateway.domain.history import HistoryView, UndoView
from gateway.domain.incidents import Incident
from gateway.domain.key_owners import KeyOwner
from gateway.domain.price_news import PriceNews
from gateway.domain.price_view import PriceView
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
"""Seconds that a test of a channel may wait for a slow model."""


class AccountRequests(Caller):
    """Account, grants, settings, and the owner's changes, newest first."""

    account = fetch("/account", AccountView)
    set_account = change("PATCH", "/account", AccountView)
    grants = fetch("/account/grants", list[Grant])
    """Oldest first."""
    export_config = fetch("/config", ExportView)
    """The configuration as one text without secrets."""
    settings = fetch("/settings", Settings)
    set_settings = change("PATCH", "/settings", Settings)

    async def grant(self, nanos: int, note: str = "") -> AccountView:
        """Top up; a negative amount corrects."""
        return await self.change("POST", "/account/grants", AccountView, {"nanos": nanos, "note": note})

    async def import_config(
        self, text: str, *, apply: bool = False, prune: bool = False, origin: ConfigOrigin = ConfigOrigin.OURS
    ) -> ImportView:
        """Returns what a text changes; with ``apply`` it is applied, all or nothing. ``prune`` removes what it does not
        name.
        """
        body = {"text": text, "apply": apply, "prune": prune, "origin": origin}
        # thousands of models and prices take a while
        return await self.change("POST", "/config", ImportView, body, timeout_s=600.0)

    async def expiring_records(self, keep_days: int) -> ExpiringRecords:
        """Returns the records that would be deleted if they are kept for so many days."""
        return await self.get("/settings/expiring", ExpiringRecords, keep_days=keep_days)

    async def history(self, **filters: object) -> list[HistoryView]:
        """Returns changes. Filters: kind, name (tuples of alternatives), since, until (ms), limit, before (an entry's
        number).
        """
        return await self.get("/history", list[HistoryView], **filters)

    async def history_entry(self, number: int) -> HistoryView:
        return await self.get(f"/history/{number}", HistoryView)

    async def undo(self, number: int = 0, *, accept: bool = False) -> UndoView:
        """Undo a change, by default the newest one.

        Raises Conflict ``needs_confirmation``, unless it is accepted, if the change was made elsewhere, if what it
        removes was used, or if it overwrites a newer one; the details are the ``entry`` and the ``reasons``. Raises
        Conflict ``newer_change`` if a newer change has to be undone first.
        """
        return await self.change("POST", "/undo", UndoView, {"id": number, "accept": accept})

    async def redo(self, number: int = 0, *, accept: bool = False) -> UndoView:
        """Redo what was undone, by default the newest one. Raises what ``undo`` raises."""
        return await self.change("POST", "/redo", UndoView, {"id": number, "accept": accept})

    async def batch(self, kind: str, patches: Mapping[str, object]) -> str:
        """Edit several ``tokens``, ``groups``, ``channels`` or ``prices`` in one change. Returns what was done, in
        words.

        ``patches``: the fields that each gets, by id or name; None removes it.
        """
        edits = [{"ref": ref, "patch": patch} for ref, patch in patches.items()]
        answer = await self.change("POST", "/batch", dict[str, str], {"kind": kind, "edits": edits}, timeout_s=PROBE_S)
        return answer["done"]

    async def clear_history(self) -> None:
        """Delete the history. Earlier changes cannot be undone afterwards."""
        await self.send("DELETE", "/history")


class TokenRequests(Caller):
    """Tokens, by id or name, and groups, by name."""

    tokens = fetch("/tokens", list[TokenView])
    token = fetch_one("/tokens/{}", TokenView)
    add_token = change("POST", "/tokens", NewToken)
    """The answer contains the key, once."""
    edit_token = change_one("/tokens/{}", TokenView)
    rotate_token = fetch_one("/tokens/{}/rotate", NewToken, method="POST")
    """The answer contains the new key, once."""
    key_owner = fetch_one("/keys/{}", KeyOwner)
    """Whose key it is or was. Raises NotFound."""
    groups = fetch("/groups", list[GroupView])
    group = fetch_one("/groups/{}", GroupView)
    add_group = change("POST", "/groups", GroupView)
    edit_group = change_one("/groups/{}", GroupView)

    async def remove_token(self, ref: str) -> str:
        """Remove a token. Returns what ended with it for programs without a key; usually nothing."""
        answer: dict[str, str] = await self.change("DELETE", f"/tokens/{segment(ref)}", dict[str, str])
        return answer.get("note", "")

    async def token_pass(self, ref: str) -> str:
        """Returns a key that works as this token for a minute."""
        answer: dict[str, str] = await self.change("POST", f"/tokens/{segment(ref)}/pass", dict[str, str])
        return answer["key"]

    async def remove_group(self, name: str, move: str = "") -> None:
        """Remove a group. ``move`` names the group that gets its tokens and channels; without it a group in
        use stays.
        """
        await self.send("DELETE", f"/groups/{segment(name)}{query_text({'move': move})}")


class ChannelRequests(Caller):
    """Channels, by id or name."""

    channels = fetch("/channels", list[ChannelView])
    channel = fetch_one("/channels/{}", ChannelView)
    add_channel = change("POST", "/channels", SavedChannel, timeout_s=PROBE_S)
    """Without ``models`` the upstream's list is fetched."""
    edit_channel = change_one("/channels/{}", SavedChannel, timeout_s=PROBE_S)
    """May contact the upstream, to find its root and the models that new patterns select."""
    clear_channel = fetch_one("/channels/{}/clear", ChannelView, method="POST")
    channel_listing = fetch_one("/channels/{}/listing", ListingView)
    """The upstream's last list, without fetching it."""
    refresh_channel = fetch_one("/channels/{}/refresh", ListingView, method="POST", timeout_s=PROBE_S)
    """What the upstream lists now; if it does not answer, the last good list, marked."""
    checkup = fetch_one("/channels/{}/checkup", Checkup, timeout_s=PROBE_S)
    """Checks the channel's name, connection, certificate and key, for free."""
    offers = fetch("/offers", list[Offer])
    """Local model servers and vendors' keys that could become channels; searches only this machine."""
    presets = fetch("/presets", list[PresetView])
    """The known vendors and model servers."""

    async def remove_channel(self, ref: str) -> None:
        await self.send("DELETE", f"/channels/{segment(ref)}")

    async def test_channel(self, ref: str, model: str = "") -> Check:
        """Test a channel for free; with a model also by one tiny real call."""
        body = {"model": model} if model else {}
        return await self.change("POST", f"/channels/{segment(ref)}/test", Check, body, timeout_s=PROBE_S)

    async def add_key(self, ref: str, key: str) -> ChannelView:
        """Add a key."""
        return await self.change("POST", f"/channels/{segment(ref)}/keys", ChannelView, {"key": key})

    async def replace_key(self, ref: str, number: int, key: str) -> ChannelView:
        return await self.change("PATCH", f"/channels/{segment(ref)}/keys/{number}", ChannelView, {"key": key})

    async def remove_key(self, ref: str, number: int) -> ChannelView:
        return await self.change("DELETE", f"/channels/{segment(ref)}/keys/{number}", ChannelView)

    async def clear_key(self, ref: str, number: int) -> ChannelView:
        return await self.change("POST", f"/channels/{segment(ref)}/keys/{number}/clear", ChannelView)


def _at(channel: str) -> str:
    return f"?channel={segment(channel)}" if channel else ""


class PriceRequests(Caller):
    """Prices by model, the models there are, and what a call for one would get."""

    prices = fetch("/prices", list[PriceView])
    price_news = fetch("/prices/news", PriceNews, timeout_s=PROBE_S)
    """How old the price list is, what an import would change, and which prices rise or differ from published ones."""
    model = fetch_one("/models/{}", ModelDetail)
    """Everything about one model."""

    async def set_price(self, model: str, body: Body, channel: str = "") -> PriceView:
        """Set a price, at all channels or at one. ``input`` and ``output`` are required, in nano-dollars per million
        tokens.
        """
        return await self.change("PUT", f"/prices/{segment(model)}{_at(channel)}", PriceView, body)

    async def import_prices(
        self, models: list[str] | None = None, *, channel: str = "", apply: bool = False, accept: bool = False
    ) -> list[PriceProposal]:
        """Returns what vendors charge for the models served (or these, or those of a channel or preset).

        With ``apply`` the prices are imported, except manual ones and, without ``accept``, those with a ``guard``.
        """
        body: dict[str, object] = {"apply": apply, "accept": accept, "channel": channel}
        body |= {} if models is None else {"models": models}
        return await self.change("POST", "/prices/import", list[PriceProposal], body)

    async def remove_price(self, model: str, channel: str = "") -> None:
        await self.send("DELETE", f"/prices/{segment(model)}{_at(channel)}")

    async def models(self, token: str | None = None) -> list[ModelView]:
        """Returns all models, or those that one token sees."""
        return await self.get("/models", list[ModelView], token=token)

    async def why(
        self,
        token: str,
        model: str,
        *,
        prompt_tokens: int | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
        api: str | None = None,
    ) -> Why:
        """Returns what a call would get, without making it. ``api`` names an inbound API; None: chat completions."""
        asked = {"prompt_tokens": prompt_tokens, "max_tokens": max_tokens, "stream": stream or None, "api": api}
        return await self.get("/why", Why, token=token, model=model, **asked)


class ControlClient(AccountRequests, TokenRequests, ChannelRequests, PriceRequests):
    """All methods raise the server's error, and Unavailable if the server is gone."""

    instance = fetch("/instance", str)
    status = fetch("/status", Status)
    call = fetch_one("/calls/{}", CallView)
    verify = fetch("/verify", Verdict, timeout_s=600.0)
    """Recomputes every balance and sum from the call log, of millions of calls perhaps."""
    machine = fetch("/machine", list[Step])
    """What the server's machine lacks: port, folder, room."""

    async def stop(self, *, now: bool = False) -> None:
        """Stop the server, which drains first unless ``now``. Answers at once."""
        await self.send("POST", "/stop", {"now": now})

    async def events(self, recent: int = 200) -> AsyncGenerator[AnyEvent, None]:
        """Yields a snapshot with so many recent calls, then events, until the server ends. Raises Unavailable."""
        decoder = msgspec.json.Decoder(AnyEvent)
        async with exchange(self.place, self.ask("GET", f"/events?recent={recent}")) as stream:
            if stream.status != 200:
                raise error_of(stream.status, await stream.read())
            async with aclosing(stream.lines()) as lines:
                async for line in lines:
                    try:
                        event: AnyEvent = decoder.decode(line)
                    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                        raise InternalError(f"an event is not understood ({exc})", code="version_mismatch") from exc
                    yield event

    async def calls(self, **filters: object) -> CallPage:
        """Returns calls, newest first. Filters: since, until (ms), failed, words, and tuples of alternatives: token,
        group, model, channel, app, api.

        Running calls come first, unless ``before`` continues a listing; that is the cursor of the previous page, or a
        call's id. A page may have fewer than ``limit`` calls although more follow: only one without a cursor is the
        last.
        """
        return await self.get("/calls", CallPage, **filters)

    async def numbered_calls(self, at: int, limit: int) -> list[CallView]:
        """Returns the ended calls numbered ``at`` and below; the oldest kept is number 1, the newest
        ``status.records``.
        """
        return await self.get("/records", list[CallView], at=at, limit=limit)

    async def cancel(self, call_id: str) -> None:
        """End a running call. Raises NotFound if it does not run."""
        await self.send("POST", f"/calls/{segment(call_id)}/cancel")

    async def summary(
        self,
        *,
        by: str = "",
        since: int = 0,
        until: int | None = None,
        step: str = "",
        percentiles: bool = False,
        **picked: object,
    ) -> Summary:
        """Returns sums by ``token``, ``model``, ``token|model``, ``channel``, ``group``, ``app`` or ``api``.

        ``step`` hour, day or month also sums up over time. ``picked`` are the words of a query and the filters of
        ``calls``: only matching calls are summed up.
        """
        asked = {"by": by, "since": since, "until": until, "step": step, "percentiles": "true" if percentiles else ""}
        # examining millions of records takes a while
        return await self.get("/usage", Summary, 600.0 if any(picked.values()) else 0, **asked, **picked)

    async def incidents(self, *channels: str) -> list[Incident]:
        """Returns incidents, newest first; only those of these channels, if any are named."""
        return await self.get("/incidents", list[Incident], channel=channels)
