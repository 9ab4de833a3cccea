import pytest

from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest
from tui.overridden import parameters, prompt, twin, written, written_prompt

FOUND = Overrides(
    set={"temperature": 0.2, "user": "a b", "flag": True, "text": "3"},
    default={"max_tokens": 4096, "stop": ["x y"]},
    remove=("logprobs",),
)


def test_parameters_are_read_and_written_the_same() -> None:
    text = written(FOUND)
    assert text == ("temperature=0.2 'user=a b' flag=true 'text=\"3\"' ?max_tokens=4096 ?'stop=[\"x y\"]' -logprobs")
    assert parameters(text) == FOUND
    assert parameters(written(Overrides(remove=("a b",)))) == Overrides(remove=("a b",))


def test_none_are_none() -> None:
    assert parameters("  ") == Overrides()
    assert written(None) == ""


@pytest.mark.parametrize("text", ["temperature", "=1", "?x", "'a=1"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parameters(text)


def test_a_prompt_of_several_lines_stands_on_one() -> None:
    assert written_prompt(Overrides(system="one\ntwo")) == "one\\ntwo"
    assert prompt(" one\\ntwo ") == "one\ntwo"


def test_the_options_say_all_of_it_anew() -> None:
    new = Overrides(set={"temperature": 1}, remove=("seed",), system="Be brief.", replace_system=True)
    told = " --set-param temperature=1 --remove-param seed --system 'Be brief.' --replace-system"
    assert twin(new, None) == told
    assert twin(new, FOUND) == f" --no-overrides{told}"
    assert twin(Overrides(), FOUND) == " --no-overrides"
    assert twin(FOUND, FOUND) == twin(Overrides(), None) == ""
