"""Advice: what to do about a failure, in one sentence with the command to type."""

import re
from typing import Final

from gateway.domain.errors import GatewayError, RateLimited
from gateway.domain.limits import RATES
from gateway.domain.text import word
from gateway.domain.units import DOLLAR

WRONG_PATH_ADVICE: Final = "Check the channel's base URL."
"""The end of a message about a path that an upstream does not know."""
REDIRECT_ADVICE: Final = "Set the base URL to the upstream's real address."
"""The end of a message about a redirect."""

WAIT_AND_START: Final = "wait until it has stopped, then start it with 'tollkeeper serve'"

_BY_CODE: Final = {
    "account_suspended": "'tollkeeper account set --status active' reactivates it",
    "gateway_stopping": WAIT_AND_START,
    "invalid_api_key": "'tollkeeper token list' lists the tokens, 'tollkeeper token rotate NAME' gives one a new key",
    "model_not_found": "'tollkeeper model list --token {token}' shows what it sees",
    "model_price_missing": "'tollkeeper price set {model} --input DOLLARS --output DOLLARS' (per million tokens)",
    "no_channel_available": "'tollkeeper channel list' shows the state of each",
    "not_found": "'tollkeeper token list' and 'tollkeeper channel list' show the existing names",
    "out_of_memory": "wait until some calls have ended, or raise the limit: 'tollkeeper settings set --memory-mib'",
    "overloaded": "too many calls run at once: try again, or 'tollkeeper channel edit {channel} --concurrent COUNT'",
    "rate_limit_exceeded": "wait, or raise the limits of its channels: 'tollkeeper channel show {channel}'",
    "request_too_large_for_limit": "ask for fewer tokens, or raise the limit: 'tollkeeper channel show {channel}'",
    "server_gone": "start it with 'tollkeeper serve', or with 'tollkeeper' for the console as well",
    "server_slow": "the gateway is stuck; see server.log in its data folder",
    "store_failed": "free disk space, or repair the disk: 'tollkeeper status' shows what is wrong with the store",
    "store_unavailable": "free disk space, or repair the disk: 'tollkeeper status' shows what is wrong with the store",
    "token_disabled": "'tollkeeper token enable {token}'",
    "token_expired": "'tollkeeper token edit {token} --expires 30d'",
    "upstream_auth_failed": "'tollkeeper channel edit {channel} --key -'",
    "upstream_error": "the fault is the upstream's: try again, or add another channel that has the model",
    "upstream_out_of_credit": "the account at the upstream has no credit: top up there",
    "upstream_overloaded": "the upstream is busy: try again, or add another channel that has the model",
    "upstream_rate_limited": "to wait less, add a key: 'tollkeeper channel key add {channel} --key -'",
    "upstream_timeout": "try again, or add another channel that has the model",
    "upstream_unreachable": "does the upstream run, and is its address right? 'tollkeeper channel show {channel}'",
    "wrong_host": "use the address that 'tollkeeper status' shows, or 'tollkeeper settings set --add-host NAME'",
}

_EDIT: Final = {
    "account": "account set",
    "group": "group edit {group}",
    "token": "token edit {token}",
    "channel": "channel edit {channel}",
}
_LIMITS: Final = {name: rate for rate, name in RATES.items()} | {"calls in flight": "concurrent", "streams": "streams"}
"""The options that set limits, by the limits' names in errors."""


def advice(
    error: GatewayError,
    *,
    token: str = "",
    group: str = "",
    model: str = "",
    channel: str = "",
    key: str = "",
) -> str:
    """Returns what to do about a failure; empty if nothing helps. Names are empty if unknown; ``key`` is a number."""
    if error.message.endswith((WRONG_PATH_ADVICE, REDIRECT_ADVICE)):  # the message says what to do
        return ""
    channel = channel or _detail(error, "channel")
    names = {
        "token": token or "NAME",
        "group": group or "NAME",
        "model": model or "MODEL",
        "channel": channel or "NAME",
    }
    special = (advice_for(error) for advice_for in (_missing_model, _budget, _grant, _limit, _setting, _deadline))
    is_upstreams = error.code == "not_found" and error.details.get("channel")  # what is not found is not ours
    text = next(filter(None, special), "" if is_upstreams else _BY_CODE.get(error.code, ""))
    if key := key or _detail(error, "key"):
        text = text.replace("channel edit {channel} --key", f"channel key rotate {{channel}} {key} --key")
    return re.sub(r"\{(token|group|model|channel)\}", lambda placeholder: word(names[placeholder[1]]), text)


def _detail(error: GatewayError, name: str) -> str:
    return str(error.details.get(name, ""))


def _missing_model(error: GatewayError) -> str:
    """Returns advice about a model that an upstream lacks although the gateway lists it."""
    if error.code != "model_not_found" or not error.details.get("channel"):
        return ""
    return "'tollkeeper why {token} {model}' says when it is tried again, 'tollkeeper channel resume {channel}' does so"


def _budget(error: GatewayError) -> str:
    """Returns the command that raises the budget which was too small; empty if it was not a budget."""
    edit = _EDIT.get(_detail(error, "budget_of"))
    if edit is None:
        return ""
    option = "--tokens-budget" if _detail(error, "budget_unit") == "tokens" else "--budget"
    return f"'tollkeeper {edit} {option} {word(_detail(error, 'budget_window'))}=AMOUNT' raises it"


def _grant(error: GatewayError) -> str:
    """Returns the command for a grant of more than is missing."""
    if error.code != "insufficient_quota":
        return ""
    missing = error.details.get("missing_nanos")
    amount = missing // DOLLAR + 1 if isinstance(missing, int) else 0
    return f"top up: 'tollkeeper account grant {max(10, amount)}'"


def _limit(error: GatewayError) -> str:
    """Returns the command that raises the rate limit which was reached; empty if it was not a limit."""
    edit, option = _EDIT.get(_detail(error, "limit_of")), _LIMITS.get(_detail(error, "limit_name"))
    if not isinstance(error, RateLimited) or edit is None or option is None:
        return ""
    remedies = {"request_too_large_for_limit": "ask for fewer tokens", "too_many_streams": "end some streams"}
    return f"{remedies.get(error.code, 'wait')}, or 'tollkeeper {edit} --{option} COUNT' raises the limit"


def _setting(error: GatewayError) -> str:
    """Returns advice about a key, header or proxy that no request can be sent with."""
    command = {
        "key": "'tollkeeper channel edit {channel} --key -'",
        "header": "'tollkeeper channel edit {channel} --header NAME=VALUE' (it replaces all: give each)",
        "proxy": "'tollkeeper channel edit {channel} --proxy URL'",
    }.get(_detail(error, "setting"), "")
    if command and error.details.get("variable"):
        return f"set {word(_detail(error, 'variable'))} where the server runs and restart the server, or {command}"
    return command


def _deadline(error: GatewayError) -> str:
    """Returns the command that sets the deadline which has passed; a connection is not worth a longer wait."""
    timeout = _detail(error, "timeout")
    if timeout == "connect":
        return _BY_CODE["upstream_unreachable"]
    return f"'tollkeeper channel edit {{channel}} --timeout {timeout}=SECONDS' waits longer" if timeout else ""
