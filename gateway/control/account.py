"""Account: the owner's account and its grants."""

from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import fields, patch, require_fields
from gateway.control.views import account_view
from gateway.core.auth import new_id
from gateway.domain.account import AccountFields, Grant
from gateway.domain.errors import BadRequest
from gateway.domain.money import dollars
from gateway.domain.registry import Change
from gateway.domain.views import AccountView


async def show_account(edits: ConfigEdits, _: web.Request) -> AccountView:
    """GET /account: the account as it is now."""
    return account_view(edits.engine)


async def edit_account(edits: ConfigEdits, request: web.Request) -> AccountView:
    """PATCH /account: edit it."""
    account = patch(edits.registry.account, await request.read(), AccountFields.__struct_fields__)
    validation.account(account)
    edits.commit("changed the account", "the account is as before", Change("account", "", account))
    return account_view(edits.engine)


async def grants(edits: ConfigEdits, _: web.Request) -> list[Grant]:
    """GET /account/grants: all grants, oldest first."""
    return sorted(edits.registry.grants.values(), key=lambda grant: (grant.time, grant.id))


async def add_grant(edits: ConfigEdits, request: web.Request) -> AccountView:
    """POST /account/grants {nanos, note}: add money, or subtract it with a negative amount."""
    body = await request.read()
    require_fields(body, "nanos")
    grant = Grant(id=new_id("grant"), time=edits.now, **fields(body, Grant, ("nanos", "note")))
    if grant.nanos == 0:
        raise BadRequest("the amount must not be 0", param="nanos")
    validation.note(grant.note)
    edits.commit(
        f"granted {dollars(grant.nanos)}",
        f"the grant of {dollars(grant.nanos)} is removed",
        Change("grants", grant.id, grant),
    )
    return account_view(edits.engine)
