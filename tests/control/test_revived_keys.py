"""A change that lets a key or token work again asks first, whatever makes the change."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import Conflict
from gateway.domain.history import Question
from tests.control.confirming import confirming
from tests.control.test_history import refused
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway

URL = "http://127.0.0.1:9/v1"
OLD, NEW = "sk-old-key-of-the-upstream", "sk-new-key-of-the-upstream"


def reasons(error: Conflict) -> list[str]:
    """The reasons to ask without the times in them, which begin with a year."""
    found = msgspec.convert(error.details["reasons"], list[str])
    return [reason.partition(" 20")[0] for reason in found]


async def add_channel(owner: ControlClient) -> None:
    models = [{"name": "m"}]
    await owner.add_channel({"name": "main", "dialect": "openai", "base_url": URL, "key": OLD, "models": models})


async def test_undoing_a_rotation_asks_before_the_old_key_works(owner: ControlClient, gateway: Gateway) -> None:
    leaked = await owner.add_token({"name": "ci"})
    await owner.rotate_token("ci")
    error = await refused(owner.undo())
    assert error.code == "needs_confirmation"
    hint = leaked.token.hint
    assert reasons(error) == [f"The key {hint} of token 'ci' works again; it was replaced"]
    assert (await Client(gateway.port, leaked.key).chat()).status == 401
    await confirming(owner).undo()
    assert (await Client(gateway.port, leaked.key).chat()).status == 200


async def test_redoing_a_rotation_asks_for_the_newer_key(owner: ControlClient) -> None:
    await owner.add_token({"name": "ci"})
    newer = (await owner.rotate_token("ci")).token.hint
    await confirming(owner).undo()
    error = await refused(owner.redo())
    assert reasons(error) == [f"The key {newer} of token 'ci' works again; it was replaced"]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda owner: owner.remove_token("ci"), "the token was removed"),
        (lambda owner: owner.edit_token("ci", {"enabled": False}), "the token is disabled now."),
        (lambda owner: owner.edit_token("ci", {"expires": 1}), "the token is expired now."),
        (lambda owner: owner.batch("tokens", {"ci": {"enabled": False}}), "the token is disabled now."),
        (lambda owner: owner.batch("tokens", {"ci": None}), "the token was removed"),
    ],
)
async def test_undoing_what_stopped_a_token_asks(
    owner: ControlClient, act: Callable[[ControlClient], Awaitable[object]], reason: str
) -> None:
    hint = (await owner.add_token({"name": "ci"})).token.hint
    await act(owner)
    error = await refused(owner.undo())
    assert error.code == "needs_confirmation"
    assert reasons(error)[0] == f"The key {hint} of token 'ci' works again; {reason}"


async def test_a_token_that_stays_disabled_asks_nothing(owner: ControlClient) -> None:
    await owner.add_token({"name": "ci", "enabled": False})
    await owner.rotate_token("ci")
    assert (await owner.undo()).text == "token 'ci' has its old key again"


async def test_enabling_a_disabled_token_needs_no_confirmation(owner: ControlClient) -> None:
    await owner.add_token({"name": "ci"})
    await owner.edit_token("ci", {"enabled": False})
    assert (await owner.edit_token("ci", {"enabled": True})).enabled
    await owner.batch("tokens", {"ci": {"enabled": False}})
    assert await owner.batch("tokens", {"ci": {"enabled": True}}) == "enabled token 'ci'"


async def test_an_import_that_enables_a_token_asks(owner: ControlClient) -> None:
    hint = (await owner.add_token({"name": "ci"})).token.hint
    text = (await owner.export_config()).text
    await owner.edit_token("ci", {"enabled": False})
    error = await refused(owner.import_config(text, apply=True))
    assert (error.code, error.details["answer"]) == ("needs_confirmation", "revives_key")
    assert reasons(error) == [f"The key {hint} of token 'ci' works again; the token is disabled now."]
    assert not (await owner.token("ci")).enabled
    assert not (await owner.import_config(text)).applied  # to look at it is harmless


@pytest.mark.parametrize(
    "act",
    [
        lambda owner: owner.edit_channel("main", {"key": OLD}),
        lambda owner: owner.add_key("main", OLD),
        lambda owner: owner.replace_key("main", 1, OLD),
        lambda owner: owner.batch("channels", {"main": {"key": OLD}}),
        lambda owner: owner.import_config(
            f'format = 1\n[channels.main]\ndialect = "openai"\nbase_url = "{URL}"\nkey = "{OLD}"', apply=True
        ),
        lambda owner: owner.undo(),
    ],
    ids=["edit", "add", "replace", "batch", "import", "undo"],
)
async def test_a_channel_s_replaced_key_comes_back_only_after_a_question(
    owner: ControlClient, act: Callable[[ControlClient], Awaitable[object]]
) -> None:
    await add_channel(owner)
    await owner.replace_key("main", 1, NEW)
    error = await refused(act(owner))
    assert error.code == "needs_confirmation"
    assert reasons(error) == ["The key …ream of channel 'main' works again; it was replaced"]
    assert OLD not in error.message


async def test_a_front_end_asks_and_sends_the_change_again(owner: ControlClient) -> None:
    asked: list[Question] = []
    answers = [False, True]

    async def confirm(question: Question) -> bool:
        asked.append(question)
        return answers.pop(0)

    await add_channel(owner)
    await owner.replace_key("main", 1, NEW)
    owner.confirm = confirm
    assert (await refused(owner.add_key("main", OLD))).code == "declined"
    assert len((await owner.add_key("main", OLD)).keys) == 2
    assert [(question.text, question.verb) for question in asked] == [("Let it work again?", "Let it work")] * 2
