from gateway.domain.channel import Overrides
from tests.tui.pages.test_channel_form import form
from tests.tui.stage import channel
from tui.pages.channel_fields import STANDS, overrides_command
from tui.pages.channel_form import body, edit_twin


def test_overrides_are_kept_changed_and_taken_away() -> None:
    there = Overrides(set={"temperature": 0.2}, system="Be brief.\nBe kind.")
    view = channel("x", overrides=there)
    texts, values = form(view)
    assert edit_twin(view, texts) == "channel edit x"
    assert body(values, view)["overrides"] == {"set": {"temperature": 0.2}, "system": "Be brief.\nBe kind."}
    assert body(form(view, parameters="", system="")[1], view)["overrides"] is None
    assert edit_twin(view, form(view, parameters="", system="")[0]) == "channel edit x --no-overrides"
    assert "overrides" not in body(form(channel("y"))[1], channel("y"))
    typed = form(channel("y"), parameters="-seed", system="Hi", replace_system=STANDS[1])[1]
    assert body(typed, channel("y"))["overrides"] == {"remove": ("seed",), "system": "Hi", "replace_system": True}


def test_while_something_makes_no_sense_there_is_no_command() -> None:
    typed = {"parameters": "temperature", "system": "", "replace_system": STANDS[0]}
    assert overrides_command(typed, None) == ""
