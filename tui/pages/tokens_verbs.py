"""Token verbs: make, edit, duplicate, switch, rotate, delete, and the connect card."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.views import NewToken, TokenView
from tui import format as fmt
from tui.pages.base import Verb
from tui.pages.seek import seek
from tui.pages.token_form import add_twin, body, edit_twin, fields, sees
from tui.safe import safe
from tui.widgets.connect import Connect
from tui.widgets.form import Form, Plan
from tui.widgets.toast import tell
from tui.widgets.why import WhyScreen

Tokens = Any
"""The page; it imports this file."""


def chosen(page: Tokens) -> TokenView | None:
    """The token under the cursor; says so if there is none."""
    row = page.table.current
    if row is None:
        tell(page, "there is no token here; n makes one")
    return None if row is None else row.view


async def new(page: Tokens) -> None:
    """Make a token; its key is shown once, on the card that tells how to use it."""
    await _make(page, None)


async def duplicate(page: Tokens) -> None:
    """A new token like this one, with a key of its own."""
    if (token := chosen(page)) is not None:
        await _make(page, token)


async def edit(page: Tokens) -> None:
    """Change the token under the cursor."""
    token, session = chosen(page), page.session
    if token is None:
        return
    plan = Plan(
        title=f"Token {token.name}",
        fields=fields(session, token),
        save=lambda values: session.client.edit_token(token.id, body(values)),
        twin=lambda values: edit_twin(token, values),
        live=lambda values: sees(session, values),
    )
    if await page.ask(Form(plan)) is not None:
        tell(page, f"token {token.name} was changed; u takes it back")


async def toggle(page: Tokens) -> None:
    """Refuse the token's calls, or accept them again."""
    if (token := chosen(page)) is not None:
        await page.session.client.edit_token(token.id, {"enabled": not token.enabled})
        tell(page, f"token {token.name} is {'off: its clients get 401' if token.enabled else 'on'}; u takes it back")


async def rotate(page: Tokens) -> None:
    """A new key for the token; the old one stops working at once."""
    token = chosen(page)
    if token is None:
        return
    breaks = f"The old key stops working at once. {_used(page, token)}"
    if await page.sure(f"Give {token.name} a new key?", breaks, "New key"):
        await _show(page, await page.session.client.rotate_token(token.id))


async def delete(page: Tokens) -> None:
    """Remove the token, after asking."""
    token = chosen(page)
    if token is None:
        return
    breaks = f"{_used(page, token)} Those clients get 401 at once. History stays."
    if await page.sure(f"Delete {token.name}?", breaks, "Delete"):
        await page.session.client.remove_token(token.id)
        tell(page, f"deleted token {token.name}; u takes it back")


async def connect(page: Tokens) -> None:
    """How to use this token, with a test call."""
    if (token := chosen(page)) is not None:
        await page.ask(Connect(page.session, token))


async def _make(page: Tokens, like: TokenView | None) -> None:
    session = page.session
    plan = Plan(
        title="New token" if like is None else f"New token like {like.name}",
        fields=fields(session, like, copy=True),
        save=lambda values: session.client.add_token(body(values, like)),
        twin=add_twin,
        live=lambda values: sees(session, values),
        verb="Make it",
    )
    made = await page.ask(Form(plan))
    if made is not None:
        await _show(page, made)


async def _show(page: Tokens, made: NewToken) -> None:
    """The only time that the key is shown."""
    seek(page, made.token.id)
    await page.ask(Connect(page.session, made.token, key=made.key))


def _used(page: Tokens, token: TokenView) -> str:
    """How much it is in use."""
    if token.last_used_ms is None:
        return "It was never used."
    ago = fmt.ago(page.session.now(), token.last_used_ms)
    return f"{safe(token.name)} made {token.calls:,} calls, the last one {ago if ago == 'now' else ago + ' ago'}."


async def why(page: Tokens) -> None:
    """What the token's calls would get."""
    if (token := chosen(page)) is not None:
        await page.ask(WhyScreen(page.session, token.name, token.sees[0] if token.sees else ""))


VERBS: Mapping[str, Verb] = {
    "why": why,
    "new": new,
    "edit": edit,
    "toggle": toggle,
    "delete": delete,
    "duplicate": duplicate,
    "connect": connect,
    "rotate": rotate,
}
