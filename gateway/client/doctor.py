"""Doctor: why does my call not work? The questions follow the path of a call and end in real calls through /v1.

The first question that fails is the one to fix. Later ones are skipped, because their answers would mislead. Then it
checks every channel and the machine, whatever came before.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from gateway.client import doctor_checks
from gateway.client.control import ControlClient
from gateway.client.doctor_checks import NO_SERVER, START, Case, CheckFailed, Concern
from gateway.client.doctor_rounds import check_everything
from gateway.domain.advice import advice
from gateway.domain.errors import GatewayError
from gateway.domain.text import plain, word
from gateway.domain.views import Step

Question = Callable[[Case], Awaitable[str | Concern]]


async def examine(
    client: ControlClient,
    *,
    key: str = "",
    token: str = "",
    model: str = "",
    api: str = "",
    one_call: bool = False,
) -> AsyncIterator[Step]:
    """Yields one Step for each question, then one for each channel and machine check.

    ``one_call``: the caller wants to know about this call only, so problems elsewhere are warnings, not failures.
    """
    async for step in ask(client, key=key, token=token, model=model, api=api):
        yield step
    async for step in check_everything(client):
        yield msgspec.structs.replace(step, result="warning") if one_call and step.result == "fail" else step


async def ask(
    client: ControlClient, *, key: str = "", token: str = "", model: str = "", api: str = ""
) -> AsyncIterator[Step]:
    """Yields one Step for each question.

    ``key`` is a client's key, or ``token`` the name of one; else the active token used last. ``model`` is what the
    client requests; else the first model that the token sees, embeddings last. ``api`` is a name in ``TESTED``; else
    the one for the model.
    """
    case, failed = Case(client, key=key, token=token, model=model, api=api), False
    for name, question in QUESTIONS:
        if failed:
            yield Step(name=name, result="skipped", text="skipped: fix the failure above first")
        else:
            step = await _answer_step(name, question, case)
            failed = step.result == "fail"
            yield step


async def _answer_step(name: str, question: Question, case: Case) -> Step:
    try:
        found = await question(case)
        if isinstance(found, Concern):
            return Step(name=name, result="warning", text=plain(found.text, 500), fix=found.fix)
        return Step(name=name, result="ok", text=found)
    except CheckFailed as ill:
        text = plain(ill.text.removesuffix(f"; {ill.fix}"), 500)
        return Step(name=name, result="fail", text=text, fix=ill.fix, code=ill.code, status=ill.status)
    except GatewayError as error:
        fix = _fix(error, case)
        text, status = plain(error.message.removesuffix(f"; {fix}"), 500), error.http_status
        return Step(name=name, result="fail", text=text, fix=fix, code=error.code, status=status)


def _fix(error: GatewayError, case: Case) -> str:
    """Returns what to do, with the names known so far."""
    names = {"token": case.token_ref, "model": case.model}
    if case.token is not None:
        names |= {"token": case.token.name, "group": case.token.group}
    otherwise = START if error.code == NO_SERVER else _look(error)
    return advice(error, **{noun: name for noun, name in names.items() if name}) or otherwise


def _look(error: GatewayError) -> str:
    call = str(error.details.get("call_id", ""))
    return f"'tollkeeper usage {f'show {word(call)}' if call else 'list'}' shows what happened to the call"


QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("the gateway answers", doctor_checks.check_gateway),
    ("the token is accepted", doctor_checks.check_token),
    ("the model exists", doctor_checks.check_model),
    ("the group includes it", doctor_checks.check_group),
    ("the quota is enough", doctor_checks.check_quota),
    ("no limit is reached", doctor_checks.check_limits),
    ("a channel is ready", doctor_checks.check_channels),
    ("a real call works", doctor_checks.check_calls),
)
