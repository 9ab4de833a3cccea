"""Advice: what to do about a failure, by its code, in one sentence with the command to type."""

import re
from typing import Final

GRANT: Final = "top up: 'tollkeeper account grant 10'"

_BY_CODE: Final = {
    "account_suspended": "'tollkeeper account set --status active' lets it spend again",
    "gateway_stopping": "it is stopping: wait until it is gone, then 'tollkeeper serve'",
    "group_quota_exceeded": "'tollkeeper group edit {group} --budget day=AMOUNT' raises it",
    "insufficient_quota": GRANT,
    "invalid_api_key": "'tollkeeper token list' shows the tokens, 'tollkeeper token rotate NAME' tells a new key",
    "model_not_found": "'tollkeeper model list --token {token}' shows what it sees",
    "model_price_missing": "'tollkeeper price set {model} --input DOLLARS --output DOLLARS' (per million tokens)",
    "no_channel_available": "'tollkeeper channel list' shows why each one is out",
    "not_found": "'tollkeeper token list' and 'tollkeeper channel list' show the names there are",
    "out_of_memory": "wait until some calls have ended, or raise the limit: 'tollkeeper settings set --memory-mib'",
    "overloaded": "too many calls run at once: try again, or 'tollkeeper channel edit NAME --concurrent COUNT'",
    "rate_limit_exceeded": "wait a minute, or raise the limits of the token, its group or the channel",
    "request_too_large_for_limit": "ask for fewer tokens, or raise the limit of the token, its group or the channel",
    "server_slow": "the gateway hangs: its log is server.log in its home",
    "store_unavailable": "the disk is full or refuses to be written: 'tollkeeper status' says what it said",
    "token_disabled": "'tollkeeper token enable {token}'",
    "token_expired": "'tollkeeper token edit {token} --expires 30d'",
    "token_quota_exceeded": "'tollkeeper token edit {token} --budget day=AMOUNT' raises it",
    "too_many_streams": "end some streams, or 'tollkeeper token edit {token} --streams COUNT'",
    "upstream_auth_failed": "the upstream refuses the channel's key: 'tollkeeper channel edit NAME --key KEY'",
    "upstream_out_of_credit": "the account at the upstream has no credit: top up there",
    "upstream_timeout": "the upstream is slow: 'tollkeeper channel edit NAME --timeout head=300'",
    "upstream_unreachable": "the channel's base URL does not answer: does the upstream run?",
    "wrong_host": "use the address that 'tollkeeper status' shows",
}


def advice(code: str, *, token: str = "NAME", group: str = "NAME", model: str = "MODEL") -> str:
    """What to do about a failure with this code, with the names put in; empty if there is nothing to say."""
    names = {"token": token, "group": group, "model": model}
    return re.sub(r"\{(token|group|model)\}", lambda place: names[place[1]], _BY_CODE.get(code, ""))
