from gateway.client.control import ControlClient
from gateway.client.doctor_checks import START, Case, CheckFailed
from gateway.runfile import Endpoint


def test_an_ill_says_what_is_wrong_and_what_to_do() -> None:
    ill = CheckFailed("nothing is left", START, code="insufficient_quota", status=429)
    assert (ill.text, ill.fix, ill.code, ill.status) == ("nothing is left", START, "insufficient_quota", 429)


def test_at_first_nothing_is_known() -> None:
    case = Case(ControlClient(Endpoint(instance="i", secret="s")), key="k", token="t", model="m")
    assert (case.token, case.sees, hasattr(case, "why")) == (None, [], False)
