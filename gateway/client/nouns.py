"""Nouns: the requests about account, settings, tokens, groups, channels, prices and models."""

from gateway.client.caller import Body, Caller, segment
from gateway.domain.account import Grant
from gateway.domain.channel import Check, Served
from gateway.domain.checkup import Checkup
from gateway.domain.config_file import ExportView, ImportView, Origin
from gateway.domain.offered import ListingView, PresetView, PriceProposal
from gateway.domain.settings import Settings
from gateway.domain.views import (
    AccountView,
    ChannelView,
    GroupView,
    ModelView,
    NewToken,
    Offer,
    PriceView,
    TokenView,
)
from gateway.domain.why import Why

PROBE_S = 180.0
"""A test of a channel may wait for a slow model."""


class AccountRequests(Caller):
    """Account, grants and settings."""

    async def account(self) -> AccountView:
        return await self.get("/account", AccountView)

    async def set_account(self, patch: Body) -> AccountView:
        return await self.patch("/account", AccountView, patch)

    async def grants(self) -> list[Grant]:
        """Oldest first."""
        return await self.get("/account/grants", list[Grant])

    async def grant(self, nanos: int, note: str = "") -> AccountView:
        """Top up; a negative amount corrects."""
        return await self.post("/account/grants", AccountView, {"nanos": nanos, "note": note})

    async def export_config(self) -> ExportView:
        """The configuration as one text without secrets."""
        return await self.get("/config", ExportView)

    async def import_config(
        self, text: str, *, apply: bool = False, prune: bool = False, origin: Origin = Origin.OURS
    ) -> ImportView:
        """What a text changes; with ``apply`` it is done, all or nothing. ``prune`` removes what it does not name."""
        body = {"text": text, "apply": apply, "prune": prune, "origin": origin}
        return await self.post("/config", ImportView, body)

    async def settings(self) -> Settings:
        return await self.get("/settings", Settings)

    async def set_settings(self, patch: Body) -> Settings:
        return await self.patch("/settings", Settings, patch)


class TokenRequests(Caller):
    """Tokens, by id or name."""

    async def tokens(self) -> list[TokenView]:
        return await self.get("/tokens", list[TokenView])

    async def token(self, ref: str) -> TokenView:
        return await self.get(f"/tokens/{segment(ref)}", TokenView)

    async def add_token(self, body: Body) -> NewToken:
        """The answer tells the key, once."""
        return await self.post("/tokens", NewToken, body)

    async def edit_token(self, ref: str, patch: Body) -> TokenView:
        return await self.patch(f"/tokens/{segment(ref)}", TokenView, patch)

    async def remove_token(self, ref: str) -> None:
        await self.delete(f"/tokens/{segment(ref)}")

    async def rotate_token(self, ref: str) -> NewToken:
        """The answer tells the new key, once."""
        return await self.post(f"/tokens/{segment(ref)}/rotate", NewToken)

    async def token_pass(self, ref: str) -> str:
        """A key that works as this token for a minute."""
        answer: dict[str, str] = await self.post(f"/tokens/{segment(ref)}/pass", dict[str, str])
        return answer["key"]


class GroupRequests(Caller):
    """Groups, by name."""

    async def groups(self) -> list[GroupView]:
        return await self.get("/groups", list[GroupView])

    async def group(self, name: str) -> GroupView:
        return await self.get(f"/groups/{segment(name)}", GroupView)

    async def add_group(self, body: Body) -> GroupView:
        return await self.post("/groups", GroupView, body)

    async def edit_group(self, name: str, patch: Body) -> GroupView:
        return await self.patch(f"/groups/{segment(name)}", GroupView, patch)

    async def remove_group(self, name: str, move: str = "") -> None:
        """``move`` names the group that its tokens and channels go to; without it a group in use stays."""
        await self.delete(f"/groups/{segment(name)}", move=move)


class ChannelRequests(Caller):
    """Channels, by id or name."""

    async def channels(self) -> list[ChannelView]:
        return await self.get("/channels", list[ChannelView])

    async def channel(self, ref: str) -> ChannelView:
        return await self.get(f"/channels/{segment(ref)}", ChannelView)

    async def add_channel(self, body: Body) -> ChannelView:
        """Without ``models`` the upstream is asked for its list."""
        return await self.post("/channels", ChannelView, body, timeout_s=PROBE_S)

    async def edit_channel(self, ref: str, patch: Body) -> ChannelView:
        """May ask the upstream: for its root, and for what new patterns choose of."""
        answer = await self.send("PATCH", f"/channels/{segment(ref)}", patch, timeout_s=PROBE_S)
        return self.read(answer, ChannelView)

    async def remove_channel(self, ref: str) -> None:
        await self.delete(f"/channels/{segment(ref)}")

    async def test_channel(self, ref: str, model: str = "") -> Check:
        """A free probe; with a model also one tiny real call."""
        body = {"model": model} if model else {}
        return await self.post(f"/channels/{segment(ref)}/test", Check, body, timeout_s=PROBE_S)

    async def add_key(self, ref: str, key: str) -> ChannelView:
        """One more key."""
        return await self.post(f"/channels/{segment(ref)}/keys", ChannelView, {"key": key})

    async def replace_key(self, ref: str, number: int, key: str) -> ChannelView:
        return await self.patch(f"/channels/{segment(ref)}/keys/{number}", ChannelView, {"key": key})

    async def remove_key(self, ref: str, number: int) -> ChannelView:
        path = f"/channels/{segment(ref)}/keys/{number}"
        return self.read(await self.send("DELETE", path), ChannelView)

    async def clear_key(self, ref: str, number: int) -> ChannelView:
        return await self.post(f"/channels/{segment(ref)}/keys/{number}/clear", ChannelView)

    async def clear_channel(self, ref: str) -> ChannelView:
        return await self.post(f"/channels/{segment(ref)}/clear", ChannelView)


class UpstreamRequests(Caller):
    """What is out there: known and found upstreams, and what a channel's own one says."""

    async def offers(self) -> list[Offer]:
        """Local model servers and vendors' keys that could become channels; only this machine is asked."""
        return await self.get("/offers", list[Offer])

    async def presets(self) -> list[PresetView]:
        """The known vendors and model servers."""
        return await self.get("/presets", list[PresetView])

    async def channel_models(self, ref: str) -> list[Served]:
        """What the upstream lists now."""
        return self.read(await self.send("GET", f"/channels/{segment(ref)}/models", timeout_s=PROBE_S), list[Served])

    async def channel_listing(self, ref: str) -> ListingView:
        """What the upstream listed last; nobody is asked."""
        return await self.get(f"/channels/{segment(ref)}/listing", ListingView)

    async def refresh_channel(self, ref: str) -> ListingView:
        """What the upstream lists now; the last good list, marked, if it does not answer."""
        return await self.post(f"/channels/{segment(ref)}/refresh", ListingView, timeout_s=PROBE_S)

    async def checkup(self, ref: str) -> Checkup:
        """The channel's name, connection, certificate and key; free."""
        return self.read(await self.send("GET", f"/channels/{segment(ref)}/checkup", timeout_s=PROBE_S), Checkup)


class PriceRequests(Caller):
    """Prices by model, and the models there are."""

    async def prices(self) -> list[PriceView]:
        return await self.get("/prices", list[PriceView])

    async def set_price(self, model: str, body: Body) -> PriceView:
        """``input`` and ``output`` in nano-dollars per million tokens are required."""
        return await self.put(f"/prices/{segment(model)}", PriceView, body)

    async def import_prices(
        self, models: list[str] | None = None, *, channel: str = "", apply: bool = False, accept: bool = False
    ) -> list[PriceProposal]:
        """What vendors charge for the models served (or these, or those of a channel or preset).

        With ``apply`` taken over, but for manual prices and, without ``accept``, for those with a ``guard``.
        """
        body: dict[str, object] = {"apply": apply, "accept": accept, "channel": channel}
        body |= {} if models is None else {"models": models}
        return await self.post("/prices/import", list[PriceProposal], body)

    async def remove_price(self, model: str) -> None:
        await self.delete(f"/prices/{segment(model)}")

    async def models(self, token: str | None = None) -> list[ModelView]:
        """All models, or those that one token sees."""
        return await self.get("/models", list[ModelView], token=token)

    async def why(
        self,
        token: str,
        model: str,
        *,
        prompt_tokens: int | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
    ) -> Why:
        """What a call would get, without making it."""
        asked = {"prompt_tokens": prompt_tokens, "max_tokens": max_tokens, "stream": stream or None}
        return await self.get("/why", Why, token=token, model=model, **asked)
