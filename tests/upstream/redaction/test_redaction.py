"""What upstreams say leaves their layer in one way: as an error without secrets, with a message that may be kept."""

import ast
import logging
from typing import Any

import msgspec
import pytest

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.errors import BadRequest, UpstreamError, UpstreamTimeout
from gateway.domain.units import ChannelId
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import bad_response, classify, too_slow, unreachable
from gateway.upstream.redaction.quotes import LIMIT
from gateway.upstream.redaction.redaction import Redaction, clean_logs
from tests.fakes.replies import dumps
from tests.house import files_in
from tests.upstream.makers import channel, order

KEY = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
TOKEN = "sk-tk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
PROMPT = "The secret plan is to meet at noon behind the old mill"
FIELDS = order({"model": "m", "messages": [{"role": "user", "content": PROMPT}]}).fields
UP = channel(key=KEY)


def error(message: str = "no", *, at: Channel = UP, fields: Any = FIELDS, **more: Any) -> UpstreamError:
    body = dumps({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}})
    failure = classify(at, 400, read_error(body), {"x-request-id": str(more.get("id", "req_1"))})
    return Redaction({}).error(failure, at, fields, TOKEN)


def test_the_message_is_without_secrets_and_the_kept_one_without_quotes() -> None:
    found = error(f"Key {KEY} and token {TOKEN}: '{PROMPT}' is bad")
    assert found.message == f"channel 'up': Key … and token …: '{PROMPT}' is bad"
    assert found.record_message == "channel 'up': Key … and token …: '…' is bad"


def test_a_message_without_quotes_is_kept_as_it_is() -> None:
    found = error("maximum context length is 8192 tokens", code="context_length_exceeded")
    assert (found.record_message, found.code) == (found.message, "context_length_exceeded")
    found.add(" [attempts: up: 400]")
    assert found.record_message.endswith("tokens [attempts: up: 400]")


def test_both_messages_get_an_addition() -> None:
    found = error(f"'{PROMPT}'")
    found.add("!")
    assert (found.message[-3:], found.record_message[-3:]) == ("l'!", "…'!")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("context_length_exceeded", "context_length_exceeded"),
        ("model.not-there/x[0]:1", "model.not-there/x[0]:1"),
        ("two words", "upstream_rejected"),
        ("x" * 65, "upstream_rejected"),
        ("<b>", "upstream_rejected"),
        (KEY, "upstream_rejected"),
        (f"bad_{KEY[:12]}", "upstream_rejected"),
        ("upstream_error", "upstream_rejected"),
        (17, "upstream_rejected"),
    ],
)
def test_codes_are_identifiers_or_ours(code: object, told: str) -> None:
    assert error(code=code).code == told


def test_parameters_types_and_ids_are_identifiers_or_none() -> None:
    good = error(param="messages[0].content", type="invalid_request_error", code="c", id="req_1")
    assert good.param == "messages[0].content"
    assert good.details["upstream"] == {
        "name": "up", "status": 400, "type": "invalid_request_error", "code": "c", "request_id": "req_1"
    }  # fmt: skip
    bad = error(param=KEY, type=f"x {KEY}", code=KEY, id=KEY)
    assert bad.param is None
    assert bad.details["upstream"] == {"name": "up", "status": 400, "type": None, "code": None, "request_id": None}


def test_identifiers_do_not_quote_the_request() -> None:
    plan = "plan-4711-at-noon-behind-the-mill"
    fields = order({"model": "m", "messages": [{"role": "user", "content": plan}]}).fields
    assert error(code=plan, fields=fields).code == "upstream_rejected"
    assert error(code="invalid_prompt", fields=fields).code == "invalid_prompt"


def test_no_message_of_a_request_that_is_too_long_is_kept() -> None:
    fields = {"messages": msgspec.Raw(b'"' + b"x" * LIMIT + b'"')}
    found = error("some words", fields=fields, code="context_length_exceeded")
    assert "some words" in found.message
    assert ("some words" in found.record_message, "HTTP 400" in found.record_message) == (False, True)
    assert found.code == "context_length_exceeded"
    assert Redaction({}).error(unreachable(UP, "refused", sent=False), UP, fields).record_message.endswith("refused")


def test_what_the_owner_adds_is_not_for_the_client() -> None:
    system = "You are the assistant of the ministry of silly walks"
    at = channel(key=KEY, overrides=Overrides(system=system, set={"user": "department-of-gaits-0815"}))
    found = error(f"bad: '{system}', department-of-gaits-0815, '{PROMPT}'", at=at)
    assert found.message == f"channel 'up': bad: '…', …, '{PROMPT}'"


def test_kind_status_and_time_are_kept() -> None:
    found = Redaction({}).error(too_slow(UP, "response head", 2, sent=True), UP)
    assert isinstance(found, UpstreamTimeout)
    assert (found.kind, found.sent, found.status, found.code) == (FailureKind.SLOW, True, 0, "upstream_timeout")
    assert Redaction({}).error(bad_response(UP, f"it is {KEY}"), UP).message.endswith("it is …")


def test_secrets_of_all_channels_and_of_the_gateway_are_known() -> None:
    redaction = Redaction({"OTHER": "key-of-another-channel"})
    others = {ChannelId("ch_o"): channel(id="ch_o", key="env:OTHER", keys=("further-key-1234",))}
    redaction.use_channels(others)
    redaction.add_secret("the-secret-of-the-runfile")
    text = "key-of-another-channel further-key-1234 the-secret-of-the-runfile"
    assert redaction.without_secrets(text) == "… … …"
    redaction.use_channels({})
    assert redaction.without_secrets(text) == "key-of-another-channel further-key-1234 …"


def test_a_channel_that_is_not_saved_or_was_changed_has_secrets_too() -> None:
    redaction = Redaction({})
    redaction.use_channels({UP.id: channel(key="another-key-of-it")})
    assert redaction.without_secrets(f"{KEY} another-key-of-it", UP) == "… …"
    assert redaction.without_secrets("new-header-value-1", channel(key=KEY, headers={"x": "new-header-value-1"})) == "…"


def test_models_named_like_a_secret_are_left_out() -> None:
    at = channel(key=KEY, headers={"x-model": "gpt-4o-mini-2024", "x-pass": "header-secret-4711"})
    names = ["gpt-4o", KEY, f"x-{KEY[3:15]}", "header-secret-4711", "gpt-4o-mini", "models/gpt-5"]
    left = Redaction({}).models_without_secrets([ServedModel(name=name) for name in names], at)
    assert [model.name for model in left] == ["gpt-4o", "gpt-4o-mini", "models/gpt-5"]


def test_the_log_is_cleared(caplog: pytest.LogCaptureFixture) -> None:
    redaction = Redaction({})
    redaction.use_channels({UP.id: UP})
    log = logging.getLogger("tollkeeper")
    with clean_logs(redaction):
        log.error("it broke at %s", KEY, exc_info=KeyError(KEY))
    assert (KEY in caplog.text, "it broke at …" in caplog.text, "KeyError" in caplog.text) == (False, True, True)
    log.warning("%s", KEY)
    assert KEY in caplog.text


def test_a_bugs_traceback_has_neither_secrets_nor_prompts() -> None:
    redaction = Redaction({})
    redaction.use_channels({UP.id: UP})
    trace = redaction.safe_traceback(ValueError(f"{KEY}: {PROMPT}"), FIELDS)
    assert trace == "ValueError: …: …\n"


def test_a_request_that_cannot_be_written_is_an_error_of_its_channel() -> None:
    words = "channel 'up' cannot take this request: n is 2"
    with pytest.raises(UpstreamError, match=words) as caught, Redaction({}).errors_of(UP):
        raise BadRequest("n is 2", param="n")
    assert (caught.value.param, caught.value.sent) == ("n", False)


def test_nothing_else_makes_errors_of_what_upstreams_say() -> None:
    """``UpstreamText`` is opened, and an UpstreamError made, in one file."""
    found = [
        f"{source.path}:{node.lineno}"
        for folder in ("gateway/upstream", "gateway/core")
        for source in files_in(folder)
        if source.module not in ("gateway.upstream.redaction.redaction", "gateway.core.call")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id in ("UpstreamError", "UpstreamTimeout"))
            or (isinstance(node.func, ast.Attribute) and node.func.attr in ("cleared", "_raw"))
        )
    ]
    assert found == []
