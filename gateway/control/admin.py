"""Admin: shows, stops and verifies the server, edits its settings, and manages the owner's account with its grants."""

import asyncio

from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import fields, patch, query, types_of
from gateway.control.views import account_view
from gateway.core.auth import new_id
from gateway.core.change_history import field_differences
from gateway.domain.account import AccountFields, Grant
from gateway.domain.diagnosis import Verdict
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_text, first_of
from gateway.domain.incidents import Incident
from gateway.domain.money import dollars
from gateway.domain.registry import Change
from gateway.domain.settings import Settings
from gateway.domain.units import Nanos
from gateway.domain.views import AccountView
from gateway.store.verify import Audit


async def stop(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """POST /stop {now}: answer at once, then stop, after the running calls unless ``now`` is set."""
    at_once = fields(await request.read(), {"now": bool}).get("now", False)
    edits.engine.on_stop(at_once)
    return {"done": "stopping now" if at_once else "stopping when the running calls have ended"}


async def verify_books(edits: ConfigEdits, _: web.Request) -> Verdict:
    """GET /verify: recompute every balance and sum from the call log."""
    return await asyncio.to_thread(Audit(edits.engine.store).verdict)


async def edit_settings(edits: ConfigEdits, request: web.Request) -> Settings:
    """PATCH /settings: edit the settings. Raises Conflict if that deletes records and is not confirmed."""
    settings = patch(edits.registry.settings, await request.read(), types_of(Settings))
    validation.check_entity("settings", settings, edits.registry)
    if settings.ollama_token != edits.registry.settings.ollama_token and settings.ollama_token:
        edits.engine.catalog.token(settings.ollama_token)  # raises NotFound
    if (expiring := edits.expiring_records(settings.keep_days)).records:
        text = f"Keep records for {count_text(settings.keep_days, 'day')}?"
        reason = f"{expiring.text} are deleted for good. Undo does not bring them back."
        edits.require_confirmed(text, [reason], "Delete", f"keep_days={settings.keep_days}")
    changed = field_differences("settings", edits.registry.settings, settings)
    names = first_of([setting.field for setting in changed], 4)
    done, undone = f"changed settings {names}", f"settings {names} are as before"
    if len(changed) == 1:
        before, after = changed[0].before, changed[0].after
        done, undone = f"changed setting {names} from {before} to {after}", f"setting {names} is {before} again"
    await edits.commit(done, undone, Change("settings", "", settings))
    return edits.registry.settings


async def list_incidents(edits: ConfigEdits, request: web.Request) -> list[Incident]:
    """GET /incidents[?channel=NAME...]: incidents of channels and budgets, newest first."""
    refs = query(request.query, {"channel": tuple}).get("channel", ())
    names = {edits.engine.catalog.channel(ref).name for ref in refs}
    newest = edits.engine.incident_watch.refresh().newest()
    return [incident for incident in newest if not names or incident.channel in names]


async def edit_account(edits: ConfigEdits, request: web.Request) -> AccountView:
    """PATCH /account: edit the account."""
    account = patch(edits.registry.account, await request.read(), types_of(AccountFields))
    validation.check_entity("account", account, edits.registry)
    await edits.commit("changed the account", "the account is as before", Change("account", "", account))
    return account_view(edits.engine)


async def list_grants(edits: ConfigEdits, _: web.Request) -> list[Grant]:
    """GET /account/grants: all grants, oldest first."""
    return sorted(edits.registry.grants.values(), key=lambda grant: (grant.time, grant.id))


async def add_grant(edits: ConfigEdits, request: web.Request) -> AccountView:
    """POST /account/grants {nanos, note}: add money to the account; a negative amount subtracts it."""
    values = fields(await request.read(), {"nanos": Nanos, "note": str}, "nanos")
    grant = Grant(id=new_id("grant"), time=edits.now, **values)
    if grant.nanos == 0:
        raise BadRequest("the amount must not be 0", param="nanos")
    validation.check_note(grant.note)
    amount = dollars(grant.nanos)
    await edits.commit(f"granted {amount}", f"the grant of {amount} is removed", Change("grants", grant.id, grant))
    return account_view(edits.engine)
