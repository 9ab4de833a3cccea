import pytest

from gateway.domain.errors import BadRequest
from tests.tui.pages.test_channel_form import form
from tests.tui.stage import channel
from tui.pages.channel_fields import headers_field, read_headers
from tui.pages.channel_form import add_twin, body, edit_twin


def test_secret_headers_stay_unless_all_are_typed_again() -> None:
    view = channel("x", headers={"X-Team": "…lue"})
    assert (headers_field(view.headers).value, "X-Team stay" in headers_field(view.headers).hint) == ("", True)
    assert "headers" not in body(form(view)[1], view)
    assert body(form(view, headers="none")[1], view)["headers"] == {}
    typed, values = form(view, headers="X-Team=red X-Title='my app' X-Pass=env:PASS")
    assert body(values, view)["headers"] == {"X-Team": "red", "X-Title": "my app", "X-Pass": "env:PASS"}
    assert edit_twin(view, typed) == (
        "channel edit x --header X-Team=VALUE --header X-Title=VALUE --header X-Pass=env:PASS"
    )
    assert edit_twin(view, form(view, headers="none")[0]) == "channel edit x --no-headers"


def test_references_are_shown_and_taken_away_by_emptying_the_field() -> None:
    view = channel("x", headers={"X-A": "env:A", "X-B": "env:B"})
    texts, values = form(view)
    assert (texts["headers"], edit_twin(view, texts)) == ("X-A=env:A X-B=env:B", "channel edit x")
    assert body(values, view)["headers"] == view.headers
    assert body(form(view, headers="")[1], view)["headers"] == {}
    assert edit_twin(view, form(view, headers="")[0]) == "channel edit x --no-headers"


def test_a_copy_has_no_secret_headers() -> None:
    view = channel("x", headers={"X-Team": "…lue"}, key="")
    assert "not copied" in headers_field(view.headers, copy=True).hint
    assert body(form(view, copy=True)[1])["headers"] == {}
    texts, _ = form(channel("x", headers={"X-A": "env:A"}, key=""), copy=True)
    assert add_twin(texts).endswith("--header X-A=env:A")


def test_a_name_with_a_quotation_mark_reads_back() -> None:
    view = channel("x", headers={"X'A": "env:A"})
    texts, values = form(view)
    assert body(values, view)["headers"] == view.headers
    assert edit_twin(view, texts) == "channel edit x"


@pytest.mark.parametrize("text", ["x", "=x", "x=", "a=b c", "a='b", 'a="', "X-A=1 X-A=2", "X-A=1 x-a=2"])
def test_what_is_no_header_is_refused_and_has_no_command(text: str) -> None:
    with pytest.raises(BadRequest):
        read_headers(text)
    view = channel("x")
    typed = form(view)[0] | {"headers": text}
    assert edit_twin(view, typed) == "channel edit x"
