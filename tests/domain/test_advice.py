import pytest

from gateway.domain import errors
from gateway.domain.advice import REDIRECT_ADVICE, WRONG_PATH_ADVICE, advice
from gateway.domain.units import DOLLAR

EXPIRED = errors.InvalidToken("m", code="token_expired")


def test_the_names_are_put_in() -> None:
    assert advice(errors.InvalidToken("m", code="token_disabled"), token="laptop") == "'tollkeeper token enable laptop'"


def test_a_name_that_a_shell_would_not_take_as_one_word_is_quoted() -> None:
    assert advice(EXPIRED, token="my $(id)") == "'tollkeeper token edit 'my $(id)' --expires 30d'"


def test_a_name_that_looks_like_a_place_is_left_alone() -> None:
    assert advice(EXPIRED, token="{model}{0}", model="m").startswith("'tollkeeper token edit '{model}{0}' ")


def test_an_error_that_says_what_to_check_has_none() -> None:
    assert advice(errors.UpstreamError("m")).startswith("the fault is the upstream's")
    assert advice(errors.UpstreamError("Something is wrong. Check the status page.")).startswith(
        "the fault is the upstream's"
    )
    assert advice(errors.UpstreamError("not known (HTTP 404). Check the channel's base URL.")) == ""


def test_what_an_upstream_does_not_find_is_none_of_our_names() -> None:
    assert advice(errors.NotFound("m")).startswith("'tollkeeper token list'")
    assert advice(errors.NotFound("m", details={"channel": "up"})) == ""


def test_an_unknown_code_has_none() -> None:
    assert advice(errors.GatewayError("m", code="brew")) == ""


@pytest.mark.parametrize(
    ("whose", "unit", "command"),
    [
        ("account", "dollars", "account set --budget week=AMOUNT"),
        ("group", "tokens", "group edit home --tokens-budget week=AMOUNT"),
        ("token", "dollars", "token edit laptop --budget week=AMOUNT"),
    ],
)
def test_the_budget_that_is_too_small_is_the_one_to_raise(whose: str, unit: str, command: str) -> None:
    details = {"budget_of": whose, "budget_window": "week", "budget_unit": unit}
    error = errors.QuotaExceeded("m", details=details)
    assert advice(error, token="laptop", group="home") == f"'tollkeeper {command}' raises it"


def test_an_empty_account_is_topped_up() -> None:
    assert "account grant" in advice(errors.QuotaExceeded("m"))


@pytest.mark.parametrize(("missing", "amount"), [(0, 10), (9 * DOLLAR, 10), (10 * DOLLAR, 11), (10 * DOLLAR + 1, 11)])
def test_the_grant_that_is_advised_suffices(missing: int, amount: int) -> None:
    error = errors.QuotaExceeded("m", details={"missing_nanos": missing})
    assert advice(error) == f"top up: 'tollkeeper account grant {amount}'"


def test_the_advice_replaces_the_key_that_fails() -> None:
    refused = errors.UpstreamError("m", code="upstream_auth_failed")
    unset = errors.UpstreamError("m", code="upstream_auth_failed", details={"setting": "key", "variable": "K"})
    told = errors.UpstreamError("m", code="upstream_auth_failed", details={"channel": "up", "key": "2"})
    assert advice(told).endswith("'tollkeeper channel key rotate up 2 --key -'")
    for error in (refused, unset):
        assert advice(error, channel="up", key="2").endswith("'tollkeeper channel key rotate up 2 --key -'")


def test_the_limit_that_is_reached_is_the_one_to_raise() -> None:
    details = {"limit_of": "group", "limit_name": "streams"}
    error = errors.RateLimited("m", code="too_many_streams", details=details)
    fix = "end some streams, or 'tollkeeper group edit home --streams COUNT' raises the limit"
    assert advice(error, group="home") == fix


def test_the_channel_is_that_of_the_error_if_none_is_named() -> None:
    error = errors.UpstreamTimeout("m", details={"channel": "slow one", "timeout": "head"})
    assert "channel edit 'slow one' --timeout" in advice(error)
    assert "channel edit other --timeout" in advice(error, channel="other")


@pytest.mark.parametrize(
    ("timeout", "fix"),
    [
        ("head", "'tollkeeper channel edit up --timeout head=SECONDS' waits longer"),
        ("idle", "'tollkeeper channel edit up --timeout idle=SECONDS' waits longer"),
        ("comments", "'tollkeeper channel edit up --timeout comments=SECONDS' waits longer"),
        ("total", "'tollkeeper channel edit up --timeout total=SECONDS' waits longer"),
        ("connect", "does the upstream run, and is its address right? 'tollkeeper channel show up'"),
        ("", "try again, or add another channel that has the model"),
    ],
)
def test_the_deadline_that_passed_is_the_one_to_raise(timeout: str, fix: str) -> None:
    details = {"channel": "up", "timeout": timeout} if timeout else {"channel": "up"}
    assert advice(errors.UpstreamTimeout("m", details=details)) == fix


@pytest.mark.parametrize(
    ("setting", "command"), [("key", "--key -"), ("header", "--header NAME=VALUE"), ("proxy", "--proxy URL")]
)
def test_a_setting_that_cannot_be_used_refuses_nothing(setting: str, command: str) -> None:
    details = {"setting": setting, "channel": "up"}
    change = f"'tollkeeper channel edit up {command}'" + (
        " (it replaces all: give each)" if setting == "header" else ""
    )
    assert advice(errors.UpstreamError("m", code="upstream_auth_failed", details=details)) == change
    unset = errors.UpstreamError("m", code="upstream_auth_failed", details={**details, "variable": "NOPE"})
    assert advice(unset) == f"set NOPE where the server runs and restart the server, or {change}"


@pytest.mark.parametrize("status", [302, 404])
def test_a_message_that_says_what_to_do_about_the_address_needs_no_more(status: int) -> None:
    said = REDIRECT_ADVICE if status == 302 else WRONG_PATH_ADVICE
    assert advice(errors.UpstreamError(f"HTTP {status}. {said}", code="upstream_error"), channel="up") == ""


def test_strange_details_do_not_fail() -> None:
    strange: dict[str, object] = {"budget_of": ["x"], "limit_of": {}, "setting": None, "channel": 7}
    assert "channel list" in advice(errors.NoChannel("m", details=strange))
