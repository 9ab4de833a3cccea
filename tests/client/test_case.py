from gateway.client.case import START, Case, Ill
from gateway.client.control import ControlClient
from gateway.runfile import Endpoint


def test_an_ill_says_what_is_wrong_and_what_to_do() -> None:
    ill = Ill("nothing is left", START)
    assert (ill.text, ill.fix) == ("nothing is left", START)


def test_at_first_nothing_is_known() -> None:
    case = Case(ControlClient(Endpoint(instance="i", secret="s")), key="k", token="t", model="m")
    assert (case.token, case.group, case.sees, case.routes) == (None, None, [], [])
