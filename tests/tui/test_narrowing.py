import pytest

from tui.narrowing import narrowed

MODELS, GROUPS = ["gpt-5", "GPT-5-mini", "gpt-5-mini", "a*b"], ["default"]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("", {}),
        ("claude dur:>5s tok:laptop", {}),
        ("st:err", {"failed": True}),
        ("st:ok", {"failed": False}),
        ("st:429", {"status": 429}),
        ("st:5xx", {"failed": True}),
        ("st:>=400", {"failed": True}),
        ("st:<500", {}),
        ("st:running", {}),
        ("st:timeout", {"outcome": "timeout"}),
        ("!st:err", {}),
        ("model:gpt-5 grp:default", {"model": "gpt-5", "group": "default"}),
        ("model:GPT-5", {}),
        ("model:gpt-5-mini", {}),
        ("model:gpt-*", {}),
        ("model:a*b", {}),
        ('model:"gpt-5" st:err', {"model": "gpt-5", "failed": True}),
    ],
)
def test_only_what_means_the_same_to_the_server_is_asked_of_it(text: str, asked: dict[str, object]) -> None:
    assert narrowed(text, MODELS, GROUPS) == asked
