import pytest

from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest
from tui.field_values import parameters, parameters_command, parameters_text, prompt_text, read_prompt

FOUND = Overrides(
    set={"temperature": 0.2, "user": "a b", "flag": True, "text": "3"},
    default={"max_tokens": 4096, "stop": ["x y"]},
    remove=("logprobs",),
)


def test_parameters_are_read_and_written_the_same() -> None:
    text = parameters_text(FOUND)
    assert text == ("temperature=0.2 'user=a b' flag=true 'text=\"3\"' ?max_tokens=4096 ?'stop=[\"x y\"]' -logprobs")
    assert parameters(text) == FOUND
    assert parameters(parameters_text(Overrides(remove=("a b",)))) == Overrides(remove=("a b",))


def test_none_are_none() -> None:
    assert parameters("  ") == Overrides()
    assert parameters_text(None) == ""


@pytest.mark.parametrize("text", ["temperature", "=1", "?x", "'a=1"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parameters(text)


def test_a_prompt_of_several_lines_stands_on_one() -> None:
    assert prompt_text(Overrides(system="one\ntwo")) == "one\\ntwo"
    assert read_prompt(" one\\ntwo ") == "one\ntwo"


def test_the_options_say_all_of_it_anew() -> None:
    new = Overrides(set={"temperature": 1}, remove=("seed",), system="Be brief.", replace_system=True)
    told = " --set-param temperature=1 --remove-param seed --system 'Be brief.' --replace-system"
    assert parameters_command(new, None) == told
    assert parameters_command(new, FOUND) == f" --no-overrides{told}"
    assert parameters_command(Overrides(), FOUND) == " --no-overrides"
    assert parameters_command(FOUND, FOUND) == parameters_command(Overrides(), None) == ""
