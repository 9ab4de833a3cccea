import pytest
from msgspec.structs import replace

from gateway.commands import output
from gateway.commands.exit_codes import Exit
from gateway.domain.diagnosis import LimitView, PartyView, UnusedFallback, Why
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import CallPage
from tests.commands.runner import Control, run
from tests.commands.samples import BUDGET, CALL, HOSTILE
from tests.fakes.verdicts import route, verdict

ROUTE = route(channel="demo", upstream_model="echo", chance=0.25)
FOUND = verdict(
    group="default",
    model="gpt-4o",
    message="channel 'demo' would be tried first: priority 5",
    rule="group 'default' has it from demo",
    multiplier=1_500_000,
    hold_nanos=Nanos(1_738_400),
    hold_tokens=5_096,
    available_nanos=Nanos(9_000_000_000),
    parties=[
        PartyView(kind="account", name="", budgets=[], limits=[]),
        PartyView(kind="group", name="default", budgets=[], limits=[]),
        PartyView(
            kind="token",
            name="laptop",
            budgets=[BUDGET],
            limits=[LimitView(name="requests", limit=60, left=3, whole_in_ms=Millis(20_000))],
        ),
    ],
    fallbacks=["small", "tiny"],
    unused_fallbacks=[
        UnusedFallback(model="huge", rule="the token may not use it", fix="'tollkeeper token edit laptop'")
    ],
    routes=[ROUTE, replace(ROUTE, channel="slow", chance=0.0, state="cooling", passed="paused for 30 s: 429")],
)


def test_the_api_and_what_happens_to_its_requests_are_shown() -> None:
    routes = [replace(ROUTE, conversion="native"), replace(ROUTE, channel="slow", conversion="translated")]
    control = Control({"GET /why": replace(FOUND, api="messages", routes=routes)})
    told = run("why", "laptop", "gpt-4o", "--api", "messages", control=control).out
    assert "api=messages" in control.asked[0][0]
    assert "api        messages" in told
    assert [line.split()[0] for line in told.splitlines() if line.endswith("native      -")] == ["demo"]
    assert [line.split()[0] for line in told.splitlines() if line.endswith("translated  -")] == ["slow"]
    usual = run("why", "laptop", "gpt-4o", answers={"GET /why": FOUND}).out
    assert "Request" not in usual


REFUSED = replace(
    FOUND, works=False, status=404, code="model_not_found", message="no", fix="'tollkeeper model list'", hold_nanos=None
)


def asked(found: Why) -> Control:
    return Control({"GET /why": found})


HOLD = "$0.0017384 for 1,000 input and 4,096 output tokens, as the request sets no limit"
UNPAID = replace(FOUND, works=False, status=429, code="insufficient_quota", hold_nanos=None)
OFF = replace(FOUND, works=False, status=401, code="token_disabled", refuses_unpriced=True)
HELD = replace(FOUND, fallbacks=[], max_tokens=5_000, hold_tokens=1_100)
MARKED = replace(FOUND, routes=[replace(ROUTE, cache_marks=True)])


@pytest.mark.parametrize(
    ("found", "told", "untold"),
    [
        (OFF, "no price: calls are refused; ", "not charged"),
        (UNPAID, "size       1,000 input tokens, no limit of output\n", ""),
        (FOUND, "", "size "),
        (replace(UNPAID, visible=False), "", "size "),
        (HELD, "1,000 input and 100 output tokens of the 5,000 that the request allows\n", ""),
        (replace(FOUND, fallbacks=[]), f"{HOLD}\n", ""),
        (replace(FOUND, holds_rest=True), "input tokens and as many output tokens as the rest pays for", ""),
        (replace(FOUND, hold_output=4096), "1,000 input and 4,096 output tokens, by the token's --hold-output", ""),
        (replace(FOUND, hold_tokens=1000), "for 1,000 input tokens;", ""),
        (MARKED, "cache      prompts are marked for it where the client sets no marks: reading costs less", ""),
        (MARKED, "'tollkeeper channel edit demo --no-cache-marks' stops that", ""),
        (FOUND, "", "cache"),
    ],
)
def test_a_decision_is_explained(found: Why, told: str, untold: str) -> None:
    out = run("why", "laptop", "gpt-4o", control=asked(found)).out
    assert (told in out, bool(untold) and untold in out) == (True, False)


def test_a_call_is_explained_as_one_like_it_would_be_now() -> None:
    control = Control({f"GET /calls/{CALL.id}": replace(CALL, stream=True, input_tokens=77), "GET /why": FOUND})
    out = run("why", CALL.id, control=control).out
    assert out.startswith("request    like that call: 77 input tokens; assumed: no limit of its output\n")
    asked = control.asked[-1][0]
    for part in (f"token={CALL.token_id}", f"model={CALL.model}", "prompt_tokens=77", "stream=true"):
        assert part in asked
    listed = Control({**control.answers, "GET /calls": CallPage(calls=[CALL])})
    assert [run("why", word, control=listed).out for word in ("last", CALL.id[-4:])] == [out, out]
    ran = run("why", "no such call", control=control)
    assert (ran.code, "Missing argument 'MODEL'" in ran.err) == (Exit.USAGE, True)
    bare = Control({f"GET /calls/{CALL.id}": replace(CALL, token_id="")})
    assert run("why", CALL.id, control=bare).err.endswith("the call had no token or no model\n")


def test_the_decision_and_its_reasons() -> None:
    ran = run("why", "laptop", "gpt-4o", control=asked(FOUND))
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "call       gpt-4o with token laptop (group default)"
    assert [line[11:] for line in lines[1:3]] == ["✓ it would be sent", FOUND.message]
    (price,) = [line for line in lines if line.startswith("price ")]
    assert price.startswith(
        "price      no price: counted, not charged, and no dollar budget stops it; 'tollkeeper price "
    )
    assert f"held       {HOLD}; the highest of the model and its fallbacks" in lines
    assert "fallbacks  small, tiny" in lines
    fallback = lines.index("fallback   ✗ huge: the token may not use it")
    assert lines[fallback + 1] == "           → 'tollkeeper token edit laptop'"
    assert "account    $9.00 available" in lines
    assert "group      default · no budgets, no limits" in lines
    budget, limit = lines[lines.index("token      laptop") + 1 :][:2]
    assert "day: $3.80 of $5.00 and 987,655 of 1,000,000 tokens left until" in budget
    assert limit == "           3 of 60 requests left, all again in 20 s"
    assert lines[-1].split()[:9] == ["slow", "priority", "5", "1", "-", "paused", "2", "gpt-4o", "="]
    assert lines[-1].endswith("echo  paused for 30 s: 429")


def test_a_refusal_is_a_failure_and_says_what_to_do() -> None:
    ran = run("why", "laptop", "gpt-4o", control=asked(REFUSED))
    assert ran.code == Exit.NOT_FOUND
    assert "           → 'tollkeeper model list'\n" in ran.out
    assert ran.err == "tollkeeper: a call would be rejected with 404 model_not_found: 'tollkeeper model list'\n"


def test_json_has_every_field_and_the_same_exit_code() -> None:
    ran = run("why", "laptop", "gpt-4o", "--json", control=asked(REFUSED))
    assert (ran.code, set(ran.json)) == (Exit.NOT_FOUND, set(Why.__struct_fields__))


def test_the_size_of_the_call_is_passed_on() -> None:
    control = asked(FOUND)
    run("why", "laptop", "gpt-4o", "--prompt-tokens", "20000", "--max-tokens", "10", "--stream", control=control)
    path = "GET /why?token=laptop&model=gpt-4o&prompt_tokens=20000&max_tokens=10&stream=true"
    assert control.asked[0][0] == path


def test_strangers_names_are_made_harmless() -> None:
    bad = replace(FOUND, model=HOSTILE, rule=HOSTILE, routes=[replace(ROUTE, channel=HOSTILE, passed=HOSTILE)])
    ran = run("why", "laptop", "x", control=asked(bad))
    assert not set("\x1b\x07\x9b\u202e") & set(ran.out + ran.err)


def test_on_a_narrow_terminal_the_reasons_are_whole_and_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 60)
    lines = run("why", "laptop", "gpt-4o", answers={"GET /why": FOUND}).out.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("Channel"))
    assert max(map(len, lines[begin:])) <= 60
    assert "Model" in lines[begin].split()
    assert lines[-1] == "  paused for 30 s: 429"
