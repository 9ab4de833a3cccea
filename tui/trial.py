"""Trial: one tiny streamed call through /v1 with a token, as its clients make it, and the record of it."""

from gateway.client.test_call import public_api
from gateway.domain.views import CallView, TokenView
from tui.session import Session


async def trial(session: Session, token: TokenView, model: str, key: str = "") -> CallView:
    """The finished call; ``key`` if it is known, else a pass for the token. Raises what /v1 refuses it with."""
    client = session.client
    present = key or await client.token_pass(token.id)
    call_id = await public_api(session.address, present).streamed_call(model)
    return await client.call(call_id)
